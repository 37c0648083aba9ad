/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The IB CM's state table from outside: an id is brought into every state with MADs made by
 * hand, and given every call and every MAD there, from its peer and from others.
 */
#include <unistd.h>

#include "cm_rig.h"
#include "urxe/log.h"

/* What is expected to move, written down from IBTA 12.9.7; everything else must not. */
#define MOVE(s, i, n)                                    \
	{                                                \
		URXE_CM_##s, URXE_CM_IN_##i, URXE_CM_##n \
	}
static const struct {
	enum urxe_cm_state state;
	enum urxe_cm_input in;
	enum urxe_cm_state next;
} moves[] = {
	MOVE(IDLE, LISTEN, LISTEN),
	MOVE(IDLE, SEND_REQ, REQ_SENT),
	MOVE(IDLE, SEND_SIDR_REQ, SIDR_REQ_SENT),
	MOVE(REQ_SENT, SEND_REJ, IDLE),
	MOVE(REQ_SENT, MRA_REQ, REP_WAIT),
	MOVE(REQ_SENT, REJ, IDLE),
	MOVE(REQ_SENT, REP, REP_RCVD),
	MOVE(REP_WAIT, SEND_REJ, IDLE),
	MOVE(REP_WAIT, MRA_REQ, REP_WAIT),
	MOVE(REP_WAIT, REJ, IDLE),
	MOVE(REP_WAIT, REP, REP_RCVD),
	MOVE(REP_RCVD, SEND_RTU, ESTABLISHED),
	MOVE(REP_RCVD, SEND_REJ, TIMEWAIT),
	MOVE(REP_RCVD, SEND_MRA, MRA_REP_SENT),
	MOVE(REP_RCVD, REJ, TIMEWAIT),
	MOVE(REP_RCVD, REP, MRA_REP_SENT),
	MOVE(REP_RCVD, DREQ, DREQ_RCVD),
	MOVE(REP_RCVD, REQ, TIMEWAIT), /* the peer's QP in a new REQ: stale */
	MOVE(MRA_REP_SENT, REQ, TIMEWAIT),
	MOVE(MRA_REP_SENT, SEND_RTU, ESTABLISHED),
	MOVE(MRA_REP_SENT, SEND_REJ, TIMEWAIT),
	MOVE(MRA_REP_SENT, SEND_MRA, MRA_REP_SENT),
	MOVE(MRA_REP_SENT, REJ, TIMEWAIT),
	MOVE(MRA_REP_SENT, DREQ, DREQ_RCVD),
	MOVE(REQ_RCVD, SEND_REP, REP_SENT),
	MOVE(REQ_RCVD, SEND_REJ, IDLE),
	MOVE(REQ_RCVD, SEND_MRA, MRA_REQ_SENT),
	MOVE(REQ_RCVD, REQ, MRA_REQ_SENT),
	MOVE(REQ_RCVD, REJ, IDLE),
	MOVE(REQ_RCVD, IGNORE, IDLE),
	MOVE(REQ_RCVD, TELL_AGAIN, REQ_RCVD),
	MOVE(MRA_REQ_SENT, SEND_REP, REP_SENT),
	MOVE(MRA_REQ_SENT, SEND_REJ, IDLE),
	MOVE(MRA_REQ_SENT, IGNORE, IDLE),
	MOVE(MRA_REQ_SENT, TELL_AGAIN, MRA_REQ_SENT),
	MOVE(MRA_REQ_SENT, SEND_MRA, MRA_REQ_SENT),
	MOVE(MRA_REQ_SENT, REJ, IDLE),
	MOVE(REP_SENT, SEND_REJ, DREQ_SENT),
	MOVE(REP_SENT, SEND_DREQ, DREQ_SENT),
	MOVE(REP_SENT, ESTABLISH, ESTABLISHED),
	MOVE(REP_SENT, MRA_REP, MRA_REP_RCVD),
	MOVE(REP_SENT, REJ, TIMEWAIT),
	MOVE(REP_SENT, RTU, ESTABLISHED),
	MOVE(REP_SENT, DREQ, DREQ_RCVD),
	MOVE(MRA_REP_RCVD, SEND_REJ, DREQ_SENT),
	MOVE(MRA_REP_RCVD, SEND_DREQ, DREQ_SENT),
	MOVE(MRA_REP_RCVD, ESTABLISH, ESTABLISHED),
	MOVE(MRA_REP_RCVD, REJ, TIMEWAIT),
	MOVE(MRA_REP_RCVD, RTU, ESTABLISHED),
	MOVE(MRA_REP_RCVD, DREQ, DREQ_RCVD),
	MOVE(ESTABLISHED, SEND_DREQ, DREQ_SENT),
	MOVE(ESTABLISHED, REJ, TIMEWAIT),
	MOVE(ESTABLISHED, DREQ, DREQ_RCVD),
	MOVE(DREQ_SENT, REJ, TIMEWAIT),
	MOVE(DREQ_SENT, DREQ, TIMEWAIT),
	MOVE(DREQ_SENT, DREP, TIMEWAIT),
	MOVE(DREQ_RCVD, SEND_DREP, TIMEWAIT),
	MOVE(SIDR_REQ_SENT, SIDR_REP, IDLE),
	MOVE(SIDR_REQ_RCVD, SEND_SIDR_REP, IDLE),
	MOVE(SIDR_REQ_RCVD, IGNORE, IDLE),
	MOVE(SIDR_REQ_RCVD, TELL_AGAIN, SIDR_REQ_RCVD),
	MOVE(ESTABLISHED, SEND_LAP, LAP_SENT),
	MOVE(ESTABLISHED, LAP, LAP_RCVD),
	MOVE(ESTABLISHED, PATH_MIG, ESTABLISHED),
	MOVE(LAP_IDLE, SEND_LAP, LAP_SENT),
	MOVE(LAP_IDLE, LAP, LAP_RCVD),
	MOVE(LAP_IDLE, PATH_MIG, ESTABLISHED),
	MOVE(LAP_SENT, MRA_LAP, MRA_LAP_RCVD),
	MOVE(LAP_SENT, APR, ESTABLISHED),
	MOVE(MRA_LAP_RCVD, MRA_LAP, MRA_LAP_RCVD),
	MOVE(MRA_LAP_RCVD, APR, ESTABLISHED),
	MOVE(LAP_RCVD, SEND_APR, ESTABLISHED),
	MOVE(LAP_RCVD, SEND_MRA, MRA_LAP_SENT),
	MOVE(LAP_RCVD, LAP, MRA_LAP_SENT),
	MOVE(MRA_LAP_SENT, SEND_APR, ESTABLISHED),
	MOVE(MRA_LAP_SENT, SEND_MRA, MRA_LAP_SENT),
};

static bool moves_to(enum urxe_cm_state state, enum urxe_cm_input in, enum urxe_cm_state *next)
{
	for (unsigned i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
		if (moves[i].state == state && moves[i].in == in) {
			*next = moves[i].next;
			return true;
		}
	}
	/* What ends ESTABLISHED ends what is within it. */
	if (state >= URXE_CM_LAP_IDLE && in != URXE_CM_IN_SEND_LAP && in != URXE_CM_IN_LAP &&
	    in != URXE_CM_IN_PATH_MIG && moves_to(URXE_CM_ESTABLISHED, in, next))
		return true;
	*next = state == URXE_CM_LAP_IDLE ? URXE_CM_ESTABLISHED : state;
	return false;
}

static bool is_mad(enum urxe_cm_input in)
{
	return in >= URXE_CM_IN_REQ && in < URXE_CM_IN_STALE;
}

static void every_state_every_input(void)
{
	for (unsigned st = 0; st < URXE_CM_N_STATES; st++) {
		for (unsigned in = 0; in < URXE_CM_IN_STALE; in++) {
			enum urxe_cm_state next;
			bool known = moves_to(st, in, &next);
			struct urxe_cm_id *id;
			struct rig r;
			int ret = 0;

			if (in == URXE_CM_IN_DESTROY)
				continue;
			rig_open(&r, OWN_GUID);
			bring_to(&r, st);
			id = r.id;
			if (is_mad(in))
				peer_says(&r, in);
			else
				ret = do_call(&r, in);
			if (row(id) != next || (!is_mad(in) && (ret == 0) != known))
				printf("\n%s x %s: now %s, returned %d\n", urxe_cm_state_names[st],
				       urxe_cm_input_names[in], urxe_cm_state_names[row(id)], ret);
			CU_ASSERT_EQUAL(row(id), next);
			if (!is_mad(in))
				CU_ASSERT_EQUAL(ret == 0, known);
			rig_close(&r);
		}
	}
}

/* From another address, to another address, from another QP: nothing moves, nothing is told. */
static void strangers(void)
{
	for (unsigned st = URXE_CM_REQ_SENT; st < URXE_CM_N_STATES; st++) {
		for (unsigned in = URXE_CM_IN_REQ; in < URXE_CM_IN_STALE; in++) {
			for (unsigned wrong = 0; wrong < 4; wrong++) {
				uint8_t m[URXE_MAD_LEN];
				struct urxe_cm_id *id;
				struct rig r;
				unsigned events;

				rig_open(&r, OWN_GUID);
				bring_to(&r, st);
				id = r.id;
				peer_mad(&r, in, m);
				if (wrong == 0)
					r.src.sgid.raw[15]++;
				else if (wrong == 1)
					r.src.dgid.raw[15]++;
				else if (wrong == 2)
					r.src.qpn = 2;
				else if (in == URXE_CM_IN_REQ || in == URXE_CM_IN_SIDR_REQ ||
					 st <= URXE_CM_REP_WAIT || in == URXE_CM_IN_SIDR_REP)
					goto next; /* a first message: any comm id is right */
				else
					urxe_mad_put(m, URXE_REP_LOCAL_COMM_ID, PEER_COMM + 1);
				events = r.n_events;
				urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
				CU_ASSERT_EQUAL(row(id),
						st == URXE_CM_LAP_IDLE ? URXE_CM_ESTABLISHED : st);
				/* A SIDR request from elsewhere is a new one. */
				if (in != URXE_CM_IN_SIDR_REQ)
					CU_ASSERT_EQUAL(r.n_events, events);
			next:
				rig_close(&r);
			}
		}
	}
}

/* Whom a state waits for. */
static bool waits_for_consumer(enum urxe_cm_state st)
{
	return st == URXE_CM_IDLE || st == URXE_CM_LISTEN || st == URXE_CM_MRA_REQ_SENT ||
	       st == URXE_CM_MRA_REP_SENT || st == URXE_CM_DREQ_RCVD || st == URXE_CM_SIDR_REQ_RCVD;
}

/*
 * Every state, every input there, and then a peer that says nothing any more: in a minute the id
 * is in IDLE, or waits for its own consumer. The consumer heard of the end once, and knows it if
 * it was connected or connecting. Then it destroys the id, and nothing is left.
 */
static void every_state_every_input_then_silence(void)
{
	for (unsigned st = 0; st < URXE_CM_N_STATES; st++) {
		for (unsigned in = 0; in < URXE_CM_IN_STALE; in++) {
			enum urxe_cm_state end;
			struct urxe_cm_id *id;
			struct rig r;

			if (in == URXE_CM_IN_DESTROY)
				continue;
			rig_open(&r, OWN_GUID);
			bring_to(&r, st);
			id = r.id;
			if (is_mad(in))
				peer_says(&r, in);
			else
				do_call(&r, in);
			r.count_for = id;
			for (unsigned i = 0; i < 600; i++) {
				r.now += 100 * 1000000;
				urxe_cm_run(r.cm);
			}
			end = urxe_cm_get_state(id);
			/* An id that was not active has no probe to miss: its REP is its probe. */
			if (!waits_for_consumer(end) && end != URXE_CM_ESTABLISHED)
				printf("\n%s x %s x silence: %s\n", urxe_cm_state_names[st],
				       urxe_cm_input_names[in], urxe_cm_state_names[end]);
			CU_ASSERT(waits_for_consumer(end) || end == URXE_CM_ESTABLISHED);
			CU_ASSERT(r.n_ends <= 1);
			urxe_cm_destroy(id);
			if (r.id && r.id != id)
				urxe_cm_destroy(r.id);
			urxe_cm_destroy(r.listener);
			run_out(&r);
			CU_ASSERT(urxe_cm_is_idle(r.cm));
			CU_ASSERT_EQUAL(urxe_cm_deadline(r.cm), UINT64_MAX);
			for (unsigned i = 0; i < URXE_CM_N_STATES; i++)
				CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->states[i], 0);
			rig_close(&r);
		}
	}
}

/* Destroying an id in any state ends in no id, within bounded time, with a silent peer. */
static void destroy_anywhere(void)
{
	for (unsigned st = 0; st < URXE_CM_N_STATES; st++) {
		struct rig r;
		unsigned events;

		rig_open(&r, OWN_GUID);
		bring_to(&r, st);
		events = r.n_events;
		urxe_cm_destroy(r.id);
		urxe_cm_destroy(r.listener);
		run_out(&r);
		CU_ASSERT(urxe_cm_is_idle(r.cm));
		CU_ASSERT_EQUAL(r.n_events, events);
		CU_ASSERT_EQUAL(urxe_cm_deadline(r.cm), UINT64_MAX);
		rig_close(&r);
	}
}

/* A handler that says no in any state: the same. */
static void handler_says_no(void)
{
	for (unsigned st = URXE_CM_REQ_SENT; st < URXE_CM_N_STATES; st++) {
		for (unsigned in = URXE_CM_IN_REQ; in < URXE_CM_IN_STALE; in++) {
			struct urxe_cm_id *id;
			struct rig r;
			unsigned events;

			rig_open(&r, OWN_GUID);
			bring_to(&r, st);
			id = r.id;
			r.verdict = 1;
			r.told = NULL;
			events = r.n_events;
			peer_says(&r, in);
			if (r.told != id)
				urxe_cm_destroy(id);
			urxe_cm_destroy(r.listener);
			run_out(&r);
			CU_ASSERT(r.n_events <= events + 1);
			CU_ASSERT(urxe_cm_is_idle(r.cm));
			rig_close(&r);
		}
	}
}

/* A dead peer is reported in seconds, in every state that waits for one. */
static void dead_peer(void)
{
	static const struct {
		enum urxe_cm_state state;
		enum urxe_cm_event_type event;
		unsigned max_ms, sends;
	} c[] = {
		{URXE_CM_REQ_SENT, URXE_CM_EV_REQ_ERROR, 5000, 7},
		{URXE_CM_REP_SENT, URXE_CM_EV_REP_ERROR, 10000, 13},
		{URXE_CM_DREQ_SENT, URXE_CM_EV_DREQ_ERROR, 2500, 5},
		{URXE_CM_TIMEWAIT, URXE_CM_EV_TIMEWAIT_EXIT, 1100, 0},
		{URXE_CM_REP_WAIT, URXE_CM_EV_REQ_ERROR, 10000, 7},
		{URXE_CM_SIDR_REQ_SENT, URXE_CM_EV_SIDR_REQ_ERROR, 5000, 7},
		{URXE_CM_LAP_SENT, URXE_CM_EV_PEER_LOST, 5000, 5},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct rig r;
		unsigned ms = 0;

		rig_open(&r, OWN_GUID);
		bring_to(&r, c[i].state);
		r.n_events = 0;
		for (; !r.n_events && ms < 60000; ms += 10) {
			r.now += 10 * 1000000;
			urxe_cm_run(r.cm);
		}
		CU_ASSERT_EQUAL(r.event, c[i].event);
		CU_ASSERT(ms <= c[i].max_ms);
		rig_close(&r);
	}
}

static void wait_ms(struct rig *r, unsigned ms)
{
	for (; ms; ms -= 10) {
		r->now += 10 * 1000000;
		urxe_cm_run(r->cm);
	}
}

/*
 * A peer whose REP says that it will be sent again is given up when it is not, and be it that not
 * one came. Of others nothing more is heard, and a REP that comes again was doubled by the network
 * or said again for want of our RTU.
 */
static void probes(void)
{
	static const struct {
		bool says;
		unsigned again_ms; /* 0: it does not */
		enum urxe_cm_state end;
	} c[] = {{true, 0, URXE_CM_DREQ_SENT},	   {true, 60, URXE_CM_DREQ_SENT},
		 {true, 1000, URXE_CM_DREQ_SENT},  {false, 0, URXE_CM_ESTABLISHED},
		 {false, 60, URXE_CM_ESTABLISHED}, {false, 4300, URXE_CM_ESTABLISHED}};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		uint8_t m[URXE_MAD_LEN];
		struct rig r;

		rig_open(&r, OWN_GUID);
		bring_to(&r, URXE_CM_REQ_SENT);
		peer_mad(&r, URXE_CM_IN_REP, m);
		if (c[i].says)
			urxe_mad_put(m, URXE_REP_LOCAL_QKEY, URXE_CM_PROBES);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT_EQUAL(urxe_cm_send_rtu(r.id, NULL, 0), 0);
		wait_ms(&r, c[i].again_ms);
		if (c[i].again_ms) {
			urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
			CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_RTU);
		}
		wait_ms(&r, 3900);
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_ESTABLISHED);
		wait_ms(&r, 200);
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), c[i].end);
		rig_close(&r);
	}
}

/* For each time that can be set: after how long what it is about ends. */
static void settings(void)
{
	static const struct {
		struct urxe_cm_settings set;
		enum urxe_cm_state state;
		enum urxe_cm_event_type event;
		unsigned ms;
	} c[] = {
		{{.req_first = 1000}, URXE_CM_REQ_SENT, URXE_CM_EV_REQ_ERROR, 5000},
		{{.req_first = 100, .req_total = 300}, URXE_CM_REQ_SENT, URXE_CM_EV_REQ_ERROR, 300},
		{{.req_total = 60000}, URXE_CM_SIDR_REQ_SENT, URXE_CM_EV_SIDR_REQ_ERROR, 60600},
		{{.rep_total = 1000}, URXE_CM_REP_SENT, URXE_CM_EV_REP_ERROR, 1400},
		{{.dreq_total = 300}, URXE_CM_DREQ_SENT, URXE_CM_EV_DREQ_ERROR, 300},
		{{.dreq_total = 20000}, URXE_CM_DREQ_SENT, URXE_CM_EV_DREQ_ERROR, 20700},
		{{.timewait = 30000}, URXE_CM_TIMEWAIT, URXE_CM_EV_TIMEWAIT_EXIT, 30000},
		{{.patience = 10000}, URXE_CM_ESTABLISHED, URXE_CM_EV_PEER_LOST, 10050},
		{{.patience = 3000}, URXE_CM_ESTABLISHED, URXE_CM_EV_PEER_LOST, 3050},
		{{.patience = URXE_CM_PATIENCE_OFF}, URXE_CM_ESTABLISHED, URXE_CM_EV_NONE, 100000},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		unsigned ms = 0;
		struct rig r;

		rig_open_with(&r, OWN_GUID, &c[i].set);
		bring_to(&r, c[i].state);
		r.n_events = 0;
		r.event = URXE_CM_EV_NONE;
		for (; !r.n_events && ms < 100000; ms += 10)
			wait_ms(&r, 10);
		CU_ASSERT_EQUAL(r.event, c[i].event);
		if (ms < c[i].ms || ms > c[i].ms + 400)
			printf("\n    row %u: after %u ms\n", i, ms);
		CU_ASSERT(ms >= c[i].ms && ms <= c[i].ms + 400);
		rig_close(&r);
	}
}

/* How long an MRA asks for, and what the REP of a side says that does not probe. */
static void settings_said(void)
{
	const struct urxe_cm_settings set = {.mra = 60000, .patience = URXE_CM_PATIENCE_OFF};
	struct rig r;

	rig_open_with(&r, OWN_GUID, &set);
	bring_to(&r, URXE_CM_REQ_RCVD);
	wait_ms(&r, 200);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_MRA);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_MRA_SERVICE_TIMEOUT), 24);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REP), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REP_LOCAL_QKEY), 0);
	rig_close(&r);
}

/* While a peer is heard a REQ goes out as often as we advertise, or as is set. */
static void heard(void)
{
	static const uint32_t retries[] = {0, 3, 15};

	for (unsigned i = 0; i < 3; i++) {
		const struct urxe_cm_settings set = {.req_retries = retries[i], .req_total = 300};
		uint8_t m[URXE_MAD_LEN];
		struct rig r;

		rig_open_with(&r, OWN_GUID, &set);
		bring_to(&r, URXE_CM_REQ_SENT);
		wait_ms(&r, 100);
		urxe_mad_init(m, URXE_MAD_DREP, 7);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		wait_ms(&r, 15000);
		CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REQ_ERROR);
		CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->sent[0],
				retries[i] ? retries[i] + 1 : 16);
		rig_close(&r);
	}
}

/*
 * We did not run for a minute: the peer's silence begins when we do again. Either side; and one
 * that says something then is not given up.
 */
static void stopped(void)
{
	for (unsigned i = 0; i < 4; i++) {
		enum urxe_cm_input says = i & 1 ? URXE_CM_IN_REP : URXE_CM_IN_RTU;
		uint8_t m[URXE_MAD_LEN];
		struct rig r;

		rig_open(&r, OWN_GUID);
		bring_to(&r, i & 1 ? URXE_CM_REQ_SENT : URXE_CM_ESTABLISHED);
		if (i & 1) {
			peer_mad(&r, URXE_CM_IN_REP, m);
			urxe_mad_put(m, URXE_REP_LOCAL_QKEY, URXE_CM_PROBES);
			urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
			CU_ASSERT_EQUAL(urxe_cm_send_rtu(r.id, NULL, 0), 0);
		}
		wait_ms(&r, 1500);
		r.now += 60000000000ull;
		urxe_cm_run(r.cm);
		wait_ms(&r, 3500);
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_ESTABLISHED);
		if (i & 2)
			peer_says(&r, says);
		wait_ms(&r, 1500);
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id),
				i & 2 ? URXE_CM_ESTABLISHED : URXE_CM_DREQ_SENT);
		rig_close(&r);
	}
}

/* The passive side asks once a second, and four times as often who does not answer. */
static void asks_again(void)
{
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REP_SENT);
	peer_says(&r, URXE_CM_IN_RTU);
	r.n_sent = 0;
	wait_ms(&r, 60);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	for (unsigned i = 2; i < 6; i++) {
		peer_says(&r, URXE_CM_IN_RTU);
		wait_ms(&r, 990);
		CU_ASSERT_EQUAL(r.n_sent, i - 1);
		wait_ms(&r, 10);
		CU_ASSERT_EQUAL(r.n_sent, i);
	}
	wait_ms(&r, 2900);
	CU_ASSERT_EQUAL(r.n_sent, 5 + 11);
	CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_ESTABLISHED);
	wait_ms(&r, 200);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_PEER_LOST);
	rig_close(&r);
}

/* A peer that does not hear our DREQ would stay connected: it is said long after we know enough. */
static void dreq_goes_on(void)
{
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_DREQ_SENT);
	r.n_events = 0;
	r.n_sent = 1;
	wait_ms(&r, 2500);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_DREQ_ERROR);
	CU_ASSERT_EQUAL(r.n_events, 1);
	wait_ms(&r, 8000);
	CU_ASSERT_EQUAL(r.n_sent, 16);
	CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_DREQ_SENT);
	/* It hears at last; nobody is told again. */
	peer_says(&r, URXE_CM_IN_DREP);
	CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_TIMEWAIT);
	CU_ASSERT_EQUAL(r.n_events, 1);
	rig_close(&r);
}

/* A consumer that does not answer: MRA by itself, twice, and once more when the peer asks again. */
static void auto_mra(void)
{
	static const enum urxe_cm_state states[] = {URXE_CM_REQ_RCVD, URXE_CM_REP_RCVD};

	for (unsigned i = 0; i < 2; i++) {
		const struct urxe_cm_counters *c;
		struct rig r;

		rig_open(&r, OWN_GUID);
		bring_to(&r, states[i]);
		c = urxe_cm_get_counters(r.cm);
		r.now += 50 * 1000000;
		urxe_cm_run(r.cm);
		CU_ASSERT_EQUAL(c->sent[URXE_MAD_MRA - URXE_MAD_REQ], 0);
		r.now += 60 * 1000000;
		urxe_cm_run(r.cm);
		CU_ASSERT_EQUAL(c->sent[URXE_MAD_MRA - URXE_MAD_REQ], 1);
		CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_MRA_MESSAGE_MRAED), i);
		for (unsigned n = 0; n < 60; n++) {
			r.now += 1000ull * 1000000;
			urxe_cm_run(r.cm);
		}
		CU_ASSERT_EQUAL(c->sent[URXE_MAD_MRA - URXE_MAD_REQ], 2);
		peer_says(&r, i ? URXE_CM_IN_REP : URXE_CM_IN_REQ);
		CU_ASSERT_EQUAL(c->sent[URXE_MAD_MRA - URXE_MAD_REQ], 3);
		wait_ms(&r, 60000);
		CU_ASSERT_EQUAL(c->sent[URXE_MAD_MRA - URXE_MAD_REQ], 4);
		/* It can still go on. */
		CU_ASSERT_EQUAL(do_call(&r, i ? URXE_CM_IN_SEND_RTU : URXE_CM_IN_SEND_REP), 0);
		rig_close(&r);
	}
}

/* A REQ with the QP of a connection: that one is over, and the REQ is rejected as stale. */
static void stale_connection(void)
{
	struct urxe_cm_id *old;
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_ESTABLISHED);
	old = r.id;
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_LOCAL_COMM_ID, PEER_COMM + 5);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(urxe_cm_get_state(old), URXE_CM_DREQ_SENT);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_ATTR_ID), URXE_MAD_REJ);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), URXE_CM_REJ_STALE_CONN);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REMOTE_COMM_ID), PEER_COMM + 5);
	/* The peer says DREP for what it does not know; after timewait it may come in. */
	peer_says(&r, URXE_CM_IN_DREP);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_DREP_RECEIVED);
	r.now += 1500ull * 1000000;
	urxe_cm_run(r.cm);
	CU_ASSERT_EQUAL(urxe_cm_get_state(old), URXE_CM_IDLE);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REQ_RECEIVED);
	CU_ASSERT_PTR_NOT_EQUAL(r.id, old);

	/* The same QPN from another address is another QP. */
	rig_close(&r);
	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_ESTABLISHED);
	old = r.id;
	r.src.sgid.raw[0]++;
	peer_says(&r, URXE_CM_IN_REQ);
	CU_ASSERT_EQUAL(urxe_cm_get_state(old), URXE_CM_ESTABLISHED);
	CU_ASSERT_PTR_NOT_EQUAL(r.id, old);
	rig_close(&r);
}

/* A REP with the QP of a connection: that one is over, and so is the new one. */
static void stale_rep(void)
{
	struct urxe_cm_id *old;
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_ESTABLISHED);
	old = r.id;
	r.id = urxe_cm_new_id(r.cm, rig_handler, &r);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REQ), 0);
	peer_mad(&r, URXE_CM_IN_REP, m);
	urxe_mad_put(m, URXE_REP_LOCAL_COMM_ID, PEER_COMM + 5);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(urxe_cm_get_state(old), URXE_CM_DREQ_SENT);
	CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_IDLE);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REJ);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), URXE_CM_REJ_STALE_CONN);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REJ_RECEIVED);
	CU_ASSERT_EQUAL(r.reason, URXE_CM_REJ_STALE_CONN);
	CU_ASSERT_PTR_EQUAL(r.told, r.id);
	rig_close(&r);
}

static void req_rejections(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
#define EXPECT_REJ(why)                                                                    \
	do {                                                                               \
		r.n_sent = r.n_events = 0;                                                 \
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));                                  \
		CU_ASSERT_EQUAL(r.n_sent, 1);                                              \
		CU_ASSERT_EQUAL(r.n_events, 0);                                            \
		CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_ATTR_ID), URXE_MAD_REJ);     \
		CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_TID), 77);                   \
		CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), why);               \
		CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_LOCAL_COMM_ID), 0);          \
		CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REMOTE_COMM_ID), PEER_COMM); \
	} while (0)
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_TRANSPORT_SERVICE_TYPE, 3);
	EXPECT_REJ(URXE_CM_REJ_INVALID_TRANSPORT_TYPE);
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_bytes(m, URXE_REQ_PRIMARY_REMOTE_GID)[3] ^= 1;
	EXPECT_REJ(URXE_CM_REJ_INVALID_GID);
	/* Malformed ones get no answer. */
	for (unsigned i = 0; i < 4; i++) {
		peer_mad(&r, URXE_CM_IN_REQ, m);
		urxe_mad_put(m,
			     i == 0   ? URXE_REQ_LOCAL_COMM_ID
			     : i == 1 ? URXE_REQ_LOCAL_QPN
			     : i == 2 ? URXE_REQ_PATH_MTU
				      : URXE_HDR_METHOD,
			     0);
		r.n_sent = 0;
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT_EQUAL(r.n_sent, 0);
	}
	/* Unknown comm ids: REP is rejected, DREQ answered. */
	peer_mad(&r, URXE_CM_IN_REP, m);
	urxe_mad_put(m, URXE_REP_REMOTE_COMM_ID, 0x55);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), URXE_CM_REJ_INVALID_COMM_ID);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_MESSAGE_REJECTED), URXE_CM_ANSWER_REP);
	peer_mad(&r, URXE_CM_IN_DREQ, m);
	urxe_mad_put(m, URXE_REP_REMOTE_COMM_ID, 0x55);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_ATTR_ID), URXE_MAD_DREP);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_DREP_LOCAL_COMM_ID), 0x55);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_DREP_REMOTE_COMM_ID), PEER_COMM);
	/* Any length but a MAD's whole one. */
	peer_mad(&r, URXE_CM_IN_REQ, m);
	r.n_sent = r.n_events = 0;
	for (unsigned len = 0; len < URXE_MAD_LEN; len++)
		urxe_cm_recv(r.cm, &r.src, m, len);
	CU_ASSERT_EQUAL(r.n_sent + r.n_events, 0);
	rig_close(&r);
}

/* A message for a service that nobody listens on, @times. */
static void peer_asks_early(struct rig *r, enum urxe_cm_input in, uint8_t *m, unsigned times)
{
	peer_mad(r, in, m);
	urxe_mad_put(m, in == URXE_CM_IN_REQ ? URXE_REQ_SERVICE_ID : URXE_SIDR_REQ_SERVICE_ID,
		     SERVICE + 9);
	r->n_sent = r->n_events = 0;
	for (unsigned i = 0; i < times; i++)
		urxe_cm_recv(r->cm, &r->src, m, URXE_MAD_LEN);
	CU_ASSERT_EQUAL(r->n_sent + r->n_events, 0);
}

/* Its listener comes within the moment that it is kept: the consumer hears of it. */
static void listener_in_time(struct rig *r, enum urxe_cm_event_type event)
{
	struct urxe_cm_id *late = urxe_cm_new_id(r->cm, rig_handler, r);

	CU_ASSERT_EQUAL(urxe_cm_listen(late, SERVICE + 9, UINT64_MAX), 0);
	r->now += 3000000;
	urxe_cm_run(r->cm);
	CU_ASSERT_EQUAL(r->n_sent, 0);
	CU_ASSERT_EQUAL(r->n_events, 1);
	CU_ASSERT_EQUAL(r->event, event);
}

/* A REQ may come before its listener: for a moment; then it is rejected, once. */
static void req_before_listener(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	peer_asks_early(&r, URXE_CM_IN_REQ, m, 3);
	for (unsigned ms = 0; ms < 99; ms++, r.now += 1000000)
		CU_ASSERT(urxe_cm_run(r.cm) > r.now);
	CU_ASSERT_EQUAL(r.n_sent + r.n_events, 0);
	r.now += 10000000;
	urxe_cm_run(r.cm);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_ATTR_ID), URXE_MAD_REJ);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), URXE_CM_REJ_INVALID_SERVICE_ID);
	CU_ASSERT_EQUAL(urxe_cm_run(r.cm), UINT64_MAX);

	peer_asks_early(&r, URXE_CM_IN_REQ, m, 1);
	r.now += 50000000;
	urxe_cm_run(r.cm);
	listener_in_time(&r, URXE_CM_EV_REQ_RECEIVED);
	rig_close(&r);
}

static void sidr_before_listener(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	peer_asks_early(&r, URXE_CM_IN_SIDR_REQ, m, 2);
	r.now += 110000000;
	urxe_cm_run(r.cm);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_ATTR_ID), URXE_MAD_SIDR_REP);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_SIDR_REP_STATUS), URXE_CM_SIDR_UNSUPPORTED);
	CU_ASSERT_EQUAL(urxe_cm_run(r.cm), UINT64_MAX);

	peer_asks_early(&r, URXE_CM_IN_SIDR_REQ, m, 1);
	listener_in_time(&r, URXE_CM_EV_SIDR_REQ_RECEIVED);
	rig_close(&r);
}

/* It came twice, and the other one found the listener. */
static void twice_before_listener(void)
{
	struct urxe_cm_id *late;
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	peer_asks_early(&r, URXE_CM_IN_REQ, m, 1);
	late = urxe_cm_new_id(r.cm, rig_handler, &r);
	CU_ASSERT_EQUAL(urxe_cm_listen(late, SERVICE + 9, UINT64_MAX), 0);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REQ_RECEIVED);
	r.n_sent = r.n_events = 0;
	wait_ms(&r, 10);
	CU_ASSERT_EQUAL(r.n_sent + r.n_events, 0);
	CU_ASSERT_EQUAL(urxe_cm_get_state(r.told), URXE_CM_REQ_RCVD);
	rig_close(&r);
}

/* A flood is not kept: what finds no room is rejected at once. */
static void flood_before_listener(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	for (unsigned i = 0; i < 100; i++) {
		peer_mad(&r, URXE_CM_IN_REQ, m);
		urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE + 9);
		urxe_mad_put(m, URXE_REQ_LOCAL_COMM_ID, 0x1000 + i);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	}
	CU_ASSERT(r.n_sent > 50 && r.n_sent < 100);
	r.now += 200000000;
	urxe_cm_run(r.cm);
	CU_ASSERT_EQUAL(r.n_sent, 100);
	rig_close(&r);
}

/* REJ 4 before we answered names no comm id of ours, but the peer's GUID. */
static void rej_by_guid(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_RCVD);
	peer_gave_up(&r, PEER_GUID + 1, m);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_REQ_RCVD);
	urxe_put64(urxe_mad_bytes(m, URXE_REJ_ARI), PEER_GUID);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_IDLE);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REJ_RECEIVED);
	CU_ASSERT_EQUAL(r.reason, URXE_CM_REJ_TIMEOUT);
	rig_close(&r);
}

/*
 * Rejected at once for want of a listener: said once more. After a while, or again: it is over; and
 * so it is when a consumer says it, by an id of its own or with data.
 */
static void refused(void)
{
	static const struct {
		uint64_t after, times;
		enum urxe_cm_state state;
		enum urxe_cm_input input;
		uint32_t comm_id;
		uint8_t data;
	} cases[] = {{1000000, 2, URXE_CM_REQ_SENT, URXE_CM_IN_REJ, 0, 0},
		     {80000000, 1, URXE_CM_REQ_SENT, URXE_CM_IN_REJ, 0, 0},
		     {1000000, 1, URXE_CM_REQ_SENT, URXE_CM_IN_REJ, PEER_COMM, 0},
		     {1000000, 1, URXE_CM_REQ_SENT, URXE_CM_IN_REJ, 0, 1},
		     {1000000, 2, URXE_CM_SIDR_REQ_SENT, URXE_CM_IN_SIDR_REP, 0, 0},
		     {80000000, 1, URXE_CM_SIDR_REQ_SENT, URXE_CM_IN_SIDR_REP, 0, 0},
		     {1000000, 1, URXE_CM_SIDR_REQ_SENT, URXE_CM_IN_SIDR_REP, 0, 1}};
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig_open(&r, OWN_GUID);
		bring_to(&r, cases[i].state);
		peer_mad(&r, cases[i].input, m);
		if (cases[i].input == URXE_CM_IN_REJ) {
			urxe_mad_put(m, URXE_REJ_REASON, URXE_CM_REJ_INVALID_SERVICE_ID);
			urxe_mad_put(m, URXE_REJ_LOCAL_COMM_ID, cases[i].comm_id);
			urxe_mad_bytes(m, URXE_REJ_PRIVATE_DATA)[7] = cases[i].data;
		} else {
			urxe_mad_put(m, URXE_SIDR_REP_STATUS, URXE_CM_SIDR_UNSUPPORTED);
			urxe_mad_bytes(m, URXE_SIDR_REP_PRIVATE_DATA)[7] = cases[i].data;
		}
		for (unsigned n = 1; n <= cases[i].times; n++) {
			CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), cases[i].state);
			CU_ASSERT_EQUAL(r.n_sent, n);
			r.now += cases[i].after;
			urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
			r.now += 50000000;
			urxe_cm_run(r.cm);
		}
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_IDLE);
		if (cases[i].input == URXE_CM_IN_REJ)
			CU_ASSERT_EQUAL(r.reason, URXE_CM_REJ_INVALID_SERVICE_ID);
		CU_ASSERT_EQUAL(r.event, cases[i].input == URXE_CM_IN_REJ
						 ? URXE_CM_EV_REJ_RECEIVED
						 : URXE_CM_EV_SIDR_REP_RECEIVED);
		CU_ASSERT_EQUAL(r.n_sent, cases[i].times);
		rig_close(&r);
	}
}

/* A consumer that has refused a SIDR_REQ, as if there were no such service, sees it once. */
static void refuses_once(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_IDLE);
	peer_mad(&r, URXE_CM_IN_SIDR_REQ, m);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_SIDR_REQ_RECEIVED);
	CU_ASSERT_EQUAL(urxe_cm_send_sidr_rep(r.told, URXE_CM_SIDR_UNSUPPORTED, 0, 0, NULL, 0), 0);
	urxe_cm_destroy(r.told);
	r.n_events = r.n_sent = 0;
	r.now += 50000000;
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT(!r.n_events && r.n_sent == 1);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_SIDR_REP);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_SIDR_REP_STATUS), URXE_CM_SIDR_UNSUPPORTED);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_TID), urxe_mad_get(m, URXE_HDR_TID));
	/* Another one's, another one, and much later it is a request as any. */
	urxe_mad_put(m, URXE_HDR_TID, urxe_mad_get(m, URXE_HDR_TID) + 1);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.n_events, 1);
	urxe_mad_put(m, URXE_HDR_TID, urxe_mad_get(m, URXE_HDR_TID) - 1);
	r.now += 1000000000;
	urxe_cm_destroy(r.told);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.n_events, 2);
	urxe_cm_destroy(r.told);
	rig_close(&r);
}

static void qp_attributes(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT};
	int mask;
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_IDLE);
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), EINVAL);
	rig_close(&r);
	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_SENT);
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
	CU_ASSERT_EQUAL(mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
	a.qp_state = IBV_QPS_RTR;
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), EINVAL);
	rig_close(&r);
	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REP_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
	CU_ASSERT_EQUAL(a.dest_qp_num, PEER_QPN);
	/* A message says where its receiver is to start (12.7.31). */
	CU_ASSERT_EQUAL(a.rq_psn, 0x123);
	CU_ASSERT_EQUAL(a.path_mtu, IBV_MTU_1024);
	CU_ASSERT_EQUAL(a.max_dest_rd_atomic, 2);
	CU_ASSERT_FALSE(memcmp(&a.ah_attr.grh.dgid, &r.src.sgid, 16));
	a.qp_state = IBV_QPS_RTS;
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
	CU_ASSERT_EQUAL(a.sq_psn, 0xabc);
	CU_ASSERT_EQUAL(a.max_rd_atomic, 3);
	CU_ASSERT_EQUAL(a.retry_cnt, 7);
	CU_ASSERT_EQUAL(a.rnr_retry, 5);
	CU_ASSERT_EQUAL(a.timeout, 16);
	urxe_cm_set_ack_timeout(r.id, 21);
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
	CU_ASSERT_EQUAL(a.timeout, 21);
	urxe_cm_set_ack_timeout(r.id, 0);
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
	CU_ASSERT_EQUAL(a.timeout, 0);
	rig_close(&r);
	/* The passive side before it accepts, as librdmacm asks for them. */
	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
	CU_ASSERT_EQUAL(a.retry_cnt, 6);
	CU_ASSERT_EQUAL(a.rnr_retry, 5);
	CU_ASSERT_EQUAL(a.timeout, 16);
	rig_close(&r);
}

static void limits(void)
{
	static const uint8_t data[255];
	struct urxe_cm_conn c = {.qpn = OWN_QPN, .private_data = data, .private_len = 197};
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_send_rej(r.id, 28, NULL, 0, data, 149), EINVAL);
	CU_ASSERT_EQUAL(urxe_cm_send_rej(r.id, 28, data, 73, NULL, 0), EINVAL);
	CU_ASSERT_EQUAL(urxe_cm_send_mra(r.id, 32, NULL, 0), EINVAL);
	CU_ASSERT_EQUAL(urxe_cm_send_mra(r.id, 20, data, 223), EINVAL);
	CU_ASSERT_EQUAL(urxe_cm_send_rep(r.id, &c), EINVAL);
	c.private_data = NULL; /* then the length does not count */
	CU_ASSERT_EQUAL(urxe_cm_send_mra(r.id, 20, NULL, 255), 0);
	CU_ASSERT_EQUAL(urxe_cm_send_rep(r.id, &c), 0);
	/* Two listeners for one service. */
	CU_ASSERT_EQUAL(urxe_cm_listen(urxe_cm_new_id(r.cm, rig_handler, &r), SERVICE, UINT64_MAX),
			EADDRINUSE);
	rig_close(&r);
}

/* Ranges of service ids, by twos: what one would take from the other is in use. */
static void ranges(void)
{
	/* Not the rig's own listener's. */
	const uint64_t top = 0x5500000000000000, all = 0xff00000000000000;
	static const struct {
		uint64_t id, mask;
		int err;
	} rows[] = {
		{0x1000, 0xf000, EADDRINUSE},					/* around the one */
		{0x1230, 0xfff0, EADDRINUSE},					/* within */
		{0x1234, UINT64_MAX, EADDRINUSE}, {0x0034, 0x00ff, EADDRINUSE}, /* across */
		{0x0200, 0x0f00, EADDRINUSE},	  {0x1300, 0xff00, 0},		{0x0134, 0x0fff, 0},
		{0x1334, UINT64_MAX, 0},
	};

	for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t id = top | rows[i / 2].id, mask = all | rows[i / 2].mask;
		struct urxe_cm_id *a, *b;
		struct rig r;

		rig_open(&r, OWN_GUID);
		a = urxe_cm_new_id(r.cm, rig_handler, &r);
		b = urxe_cm_new_id(r.cm, rig_handler, &r);
		CU_ASSERT_EQUAL(i % 2 ? urxe_cm_listen(a, top | 0x1200, all | 0xff00)
				      : urxe_cm_listen(a, id, mask),
				0);
		CU_ASSERT_EQUAL(i % 2 ? urxe_cm_listen(b, id, mask)
				      : urxe_cm_listen(b, top | 0x1200, all | 0xff00),
				rows[i / 2].err);
		urxe_cm_destroy(a);
		CU_ASSERT_EQUAL(urxe_cm_get_state(b),
				rows[i / 2].err ? URXE_CM_IDLE : URXE_CM_LISTEN);
		urxe_cm_destroy(b);
		rig_close(&r);
	}
}

static void all_named(const char *const *names, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		CU_ASSERT_PTR_NOT_NULL_FATAL(names[i]);
		for (unsigned k = 0; k < i; k++)
			CU_ASSERT_STRING_NOT_EQUAL(names[i], names[k]);
	}
}

static void names(void)
{
	all_named(urxe_cm_state_names, URXE_CM_N_STATES);
	all_named(urxe_cm_input_names, URXE_CM_N_INPUTS);
	all_named(urxe_cm_event_names, URXE_CM_N_EVENTS);
	CU_ASSERT_STRING_EQUAL(urxe_cm_state_names[URXE_CM_MRA_LAP_SENT], "MRA_LAP_SENT");
	CU_ASSERT_STRING_EQUAL(urxe_cm_input_names[URXE_CM_IN_LAP_TIMEOUT], "LAP_TIMEOUT");
	CU_ASSERT_STRING_EQUAL(urxe_cm_event_names[URXE_CM_EV_APR_RECEIVED], "APR_RECEIVED");
}

/* With --log debug: who, with whom, from where to where, and why. */
static void transitions_are_logged(void)
{
	char text[4096] = "", want[128];
	FILE *log = tmpfile();
	int saved = dup(2);
	struct rig r;

	rig_open(&r, OWN_GUID);
	dup2(fileno(log), 2);
	urxe_log_set_level(URXE_LOG_DEBUG);
	bring_to(&r, URXE_CM_REQ_RCVD);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REP), 0);
	peer_says(&r, URXE_CM_IN_RTU);
	urxe_log_set_level(URXE_LOG_NONE);
	dup2(saved, 2);
	close(saved);
	rewind(log);
	CU_ASSERT(fread(text, 1, sizeof(text) - 1, log) > 0);
	fclose(log);
	snprintf(want, sizeof(want),
		 "cm %08x/%08x 2222:2222:2222:2222:2222:2222:2222:2222: REP_SENT -> ESTABLISHED by "
		 "RTU",
		 urxe_cm_local_comm_id(r.id), PEER_COMM);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, want));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "IDLE -> REQ_RCVD by REQ"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "REQ_RCVD -> REP_SENT by SEND_REP"));
	if (!strstr(text, want))
		fputs(text, stderr);
	rig_close(&r);
}

URXE_TEST_MAIN("cm_state", T(every_state_every_input), T(every_state_every_input_then_silence),
	       T(strangers), T(destroy_anywhere), T(handler_says_no), T(dead_peer), T(probes),
	       T(settings), T(settings_said), T(heard), T(stopped), T(asks_again), T(dreq_goes_on),
	       T(auto_mra), T(stale_connection), T(stale_rep), T(req_rejections),
	       T(req_before_listener), T(sidr_before_listener), T(twice_before_listener),
	       T(flood_before_listener), T(rej_by_guid), T(refused), T(refuses_once),
	       T(qp_attributes), T(limits), T(ranges), T(names), T(transitions_are_logged))
