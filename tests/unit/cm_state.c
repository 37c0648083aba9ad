/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The IB CM's state table from outside: an id is brought into every state with MADs made by
 * hand, and given every call and every MAD there, from its peer and from others.
 */
#include "cm_rig.h"
#include "log_kept.h"
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
		CU_ASSERT_PTR_NOT_NULL(names[i]);
		for (unsigned k = 0; k < i; k++)
			CU_ASSERT(names[i] && names[k] && strcmp(names[i], names[k]));
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
	char text[4096], want[128];
	struct log_kept log;
	struct rig r;

	rig_open(&r, OWN_GUID);
	log_keep(&log);
	urxe_log_set_level(URXE_LOG_DEBUG);
	bring_to(&r, URXE_CM_REQ_RCVD);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REP), 0);
	peer_says(&r, URXE_CM_IN_RTU);
	urxe_log_set_level(URXE_LOG_NONE);
	CU_ASSERT(log_kept(&log, text, sizeof(text)) > 0);
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
	       T(strangers), T(destroy_anywhere), T(handler_says_no), T(qp_attributes), T(limits),
	       T(ranges), T(names), T(transitions_are_logged))
