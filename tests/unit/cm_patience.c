/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How long an id waits, and for what: a peer that is dead, slow, stopped, or asks for more time;
 * and the times that can be set.
 */
#include "cm_rig.h"

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

URXE_TEST_MAIN("cm_patience", T(dead_peer), T(probes), T(settings), T(settings_said), T(heard),
	       T(stopped), T(asks_again), T(dreq_goes_on), T(auto_mra))
