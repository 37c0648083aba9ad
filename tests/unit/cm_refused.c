/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What is refused: QPs that a connection has already, REQs with nonsense, services that nobody
 * listens on yet; and what an id makes of a REJ.
 */
#include "cm_rig.h"

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

/* r->id's REQ is rejected each time, for want of a listener. Returns how often it was sent. */
static unsigned reject_all(struct rig *r, unsigned *ms)
{
	unsigned before = r->n_sent, sent;
	uint8_t m[URXE_MAD_LEN];

	peer_mad(r, URXE_CM_IN_REJ, m);
	urxe_mad_put(m, URXE_REJ_REASON, URXE_CM_REJ_INVALID_SERVICE_ID);
	urxe_mad_put(m, URXE_REJ_LOCAL_COMM_ID, 0);
	for (*ms = 0; urxe_cm_get_state(r->id) == URXE_CM_REQ_SENT && *ms < 10000;) {
		urxe_cm_recv(r->cm, &r->src, m, sizeof(m));
		for (sent = r->n_sent; r->n_sent == sent && *ms < 10000 &&
				       urxe_cm_get_state(r->id) == URXE_CM_REQ_SENT;
		     *ms += 10)
			wait_ms(r, 10);
	}
	return 1 + r->n_sent - before;
}

/* Who listens for one connection after the other, as perftest does, is between two listeners: a REQ
 * to the service of a connection that there is has patience; but not when that is over. */
static void between_listeners(void)
{
	struct urxe_cm_id *first;
	struct rig r;
	unsigned ms;

	for (unsigned over = 0; over < 2; over++) {
		rig_open(&r, OWN_GUID);
		bring_to(&r, URXE_CM_REP_RCVD);
		CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_RTU), 0);
		if (over)
			peer_says(&r, URXE_CM_IN_DREQ);
		wait_ms(&r, 500); /* its RTU or DREP goes twice */
		first = r.id;
		bring_to(&r, URXE_CM_REQ_SENT);
		CU_ASSERT_PTR_NOT_EQUAL(r.id, first);
		CU_ASSERT_EQUAL(reject_all(&r, &ms), over ? 2 : 6);
		CU_ASSERT(over ? ms <= 100 : ms >= 1550 && ms <= 1700);
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_IDLE);
		CU_ASSERT_EQUAL(r.reason, URXE_CM_REJ_INVALID_SERVICE_ID);
		rig_close(&r);
	}
}

/* The REQ went twice, and the copy was rejected, by whomever: the connection goes on. What a peer
 * rejects of the connection itself ends it. */
static void late_rej(void)
{
	static const enum urxe_cm_state states[] = {URXE_CM_REP_RCVD, URXE_CM_ESTABLISHED};
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	for (unsigned i = 0; i < 4; i++) {
		rig_open(&r, OWN_GUID);
		bring_to(&r, URXE_CM_REP_RCVD);
		if (states[i / 2] == URXE_CM_ESTABLISHED)
			CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_RTU), 0);
		r.n_events = 0;
		peer_mad(&r, URXE_CM_IN_REJ, m);
		urxe_mad_put(m, URXE_REJ_MESSAGE_REJECTED, URXE_CM_ANSWER_REQ);
		urxe_mad_put(m, URXE_REJ_REASON, URXE_CM_REJ_INVALID_SERVICE_ID);
		if (i % 2)
			urxe_mad_put(m, URXE_REJ_LOCAL_COMM_ID, 0);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), states[i / 2]);
		CU_ASSERT_EQUAL(r.n_events, 0);
		urxe_mad_put(m, URXE_REJ_MESSAGE_REJECTED, URXE_CM_ANSWER_OTHER);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT_NOT_EQUAL(urxe_cm_get_state(r.id), states[i / 2]);
		CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REJ_RECEIVED);
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

URXE_TEST_MAIN("cm_refused", T(stale_connection), T(stale_rep), T(req_rejections),
	       T(req_before_listener), T(sidr_before_listener), T(twice_before_listener),
	       T(flood_before_listener), T(rej_by_guid), T(refused), T(between_listeners),
	       T(late_rej), T(refuses_once))
