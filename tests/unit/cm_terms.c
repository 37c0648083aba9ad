/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The IB CM: what the two sides agree on, as the QP gets it, and never more than either can do; how
 * long one side waits when the other asks for time; what is said to who comes late.
 */
#include "cm_rig.h"
#include "log_kept.h"
#include "urxe/log.h"

#define MS 1000000ull

/* 1 ms at a time. */
static void pass(struct rig *r, unsigned ms)
{
	r->n_sent = 0;
	for (; ms; ms--) {
		r->now += MS;
		urxe_cm_run(r->cm);
	}
}

static struct ibv_qp_attr attr_of(const struct rig *r, enum ibv_qp_state state, int *mask)
{
	struct ibv_qp_attr a = {.qp_state = state};

	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r->id, &a, mask), 0);
	return a;
}

/* A peer may say any depth: ours is neither more than we offered, nor than the device can do. */
static void depths(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;
	int mask;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_SENT); /* offers 4 */
	peer_mad(&r, URXE_CM_IN_REP, m);
	urxe_mad_put(m, URXE_REP_RESPONDER_RESOURCES, 9);
	urxe_mad_put(m, URXE_REP_INITIATOR_DEPTH, 200);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(attr_of(&r, IBV_QPS_RTS, &mask).max_rd_atomic, 4);
	CU_ASSERT_EQUAL(attr_of(&r, IBV_QPS_RTR, &mask).max_dest_rd_atomic, 16);
	rig_close(&r);
	rig_open(&r, OWN_GUID);
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_RESPONDER_RESOURCES, 100);
	urxe_mad_put(m, URXE_REQ_INITIATOR_DEPTH, 200);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(attr_of(&r, IBV_QPS_RTS, &mask).max_rd_atomic, 16);
	CU_ASSERT_EQUAL(attr_of(&r, IBV_QPS_RTR, &mask).max_dest_rd_atomic, 16);
	rig_close(&r);
}

/* The ACK time-out of a REQ is the QP's, if somebody chose it. */
static void ack_timeout(void)
{
	static const struct {
		uint8_t asked, timeout;
	} c[] = {{0, 16}, {14, 14}, {URXE_CM_ACK_TIMEOUT, 16}, {19, 16}, {22, 22}};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		uint8_t m[URXE_MAD_LEN];
		struct rig r;
		int mask;

		rig_open(&r, OWN_GUID);
		peer_mad(&r, URXE_CM_IN_REQ, m);
		urxe_mad_put(m, URXE_REQ_PRIMARY_ACK_TIMEOUT, c[i].asked);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT_EQUAL(attr_of(&r, IBV_QPS_RTS, &mask).timeout, c[i].timeout);
		rig_close(&r);
	}
}

static void wrong_failover(void)
{
	struct urxe_cm_conn c = {.qpn = OWN_QPN, .failover = URXE_CM_FAILOVER_REJECTED + 1};
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_send_rep(r.id, &c), EINVAL);
	c.failover = 0;
	c.rnr_retry_count = 8;
	CU_ASSERT_EQUAL(urxe_cm_send_rep(r.id, &c), EINVAL);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_REQ_RCVD);
	/* More information that is not there has no length, as with private data. */
	CU_ASSERT_EQUAL(urxe_cm_send_rej(r.id, URXE_CM_REJ_CONSUMER, NULL, 200, NULL, 0), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REJECTED_INFO_LENGTH), 0);
	rig_close(&r);
}

/* ---- time ---- */

/* MRA: 2^20 * 4.096 us, and what a try has besides. */
static void asked_for_time(void)
{
	static const enum urxe_cm_state states[] = {URXE_CM_REP_WAIT, URXE_CM_MRA_REP_RCVD};

	for (unsigned i = 0; i < 2; i++) {
		struct rig r;

		rig_open(&r, OWN_GUID);
		bring_to(&r, states[i]);
		CU_ASSERT_EQUAL(urxe_cm_deadline(r.cm) - r.now, (4096ull << 20) + 200 * MS);
		rig_close(&r);
	}
}

/* @ms, in which the peer says something now and then. */
static void pass_alive(struct rig *r, unsigned ms)
{
	for (; ms > 500 && !r->n_events; ms -= 500) {
		pass(r, 500);
		peer_says(r, URXE_CM_IN_RTU);
	}
}

/* When the time that it asked for is over a peer is asked as often as before. */
static void lap_begins_anew(void)
{
	const struct urxe_cm_counters *c;
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_MRA_LAP_RCVD);
	c = urxe_cm_get_counters(r.cm);
	CU_ASSERT_EQUAL(c->sent[URXE_MAD_LAP - URXE_MAD_REQ], 1);
	r.n_events = 0;
	pass_alive(&r, 20000);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_LAP_ERROR);
	CU_ASSERT_EQUAL(c->sent[URXE_MAD_LAP - URXE_MAD_REQ], 1 + 7);
	rig_close(&r);
}

/* Of a QP that waits for ever a peer may be silent for as long as the longest time-out: hours. */
static void no_ack_timeout(void)
{
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_ESTABLISHED);
	urxe_cm_set_ack_timeout(r.id, 0);
	pass(&r, 61000);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_ESTABLISHED);
	rig_close(&r);
}

/* Whose MADs do not come may send to QPs: then it is not the way that is cut. */
static void last_of_a_peer(void)
{
	static const struct {
		uint64_t ns;
		const char *says;
	} c[] = {{UINT64_MAX, "last packet from there to a QP: never"},
		 {1500 * MS, "last packet from there to a QP: 1.5 s ago"}};

	for (unsigned i = 0; i < 2; i++) {
		struct log_kept log;
		char text[512];
		struct rig r;

		rig_open(&r, OWN_GUID);
		bring_to(&r, URXE_CM_ESTABLISHED);
		r.quiet_ns = c[i].ns;
		urxe_log_set_level(URXE_LOG_WARN);
		log_keep(&log);
		pass(&r, 61000);
		CU_ASSERT_EQUAL(log_kept(&log, text, sizeof(text)), 1);
		urxe_log_set_level(URXE_LOG_NONE);
		CU_ASSERT_PTR_NOT_NULL(strstr(text, "2222:2222:2222:2222:2222:2222:2222:2222 has "
						    "been silent for "));
		CU_ASSERT_PTR_NOT_NULL(strstr(text, c[i].says));
		rig_close(&r);
	}
}

/* Who asks again is alive, though its consumer has not been answered. */
static void asks_and_lives(void)
{
	static const enum urxe_cm_input asks[] = {URXE_CM_IN_REQ, URXE_CM_IN_SIDR_REQ};

	for (unsigned i = 0; i < 2; i++) {
		struct rig r;

		rig_open(&r, OWN_GUID);
		peer_says(&r, asks[i]);
		pass(&r, 300);
		CU_ASSERT_EQUAL(urxe_cm_silence(r.id), 300 * MS);
		peer_says(&r, asks[i]);
		CU_ASSERT_EQUAL(urxe_cm_silence(r.id), 0);
		CU_ASSERT_EQUAL(r.n_events, 1);
		rig_close(&r);
	}
}

/* Of two that ask each other one answers: its times are those of a REP, not of its own REQ. */
static void loser_has_own_times(void)
{
	struct urxe_cm_req req = {.service_id = SERVICE + 7,
				  .qp_type = IBV_QPT_RC,
				  .peer_to_peer = true,
				  .wait_ms = 5000,
				  .tries = 1};
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_IDLE);
	req.path = rig_path(&r);
	req.conn.qpn = OWN_QPN;
	CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), 0);
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE + 7);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REP), 0);
	pass(&r, 200);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REP);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_REP_SENT);
	rig_close(&r);
}

/* We did not run for 5 s, which is more than the peer may be silent: that is none of its doing. */
static void short_stop(void)
{
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_ESTABLISHED);
	pass(&r, 1500);
	r.now += 5000 * MS;
	urxe_cm_run(r.cm);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_ESTABLISHED);
	pass(&r, 3500);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_ESTABLISHED);
	rig_close(&r);
}

static uint64_t reqs_sent(const struct rig *r)
{
	return urxe_cm_get_counters(r->cm)->sent[0]; /* a REQ is the first of the MADs */
}

/* A peer that took 3 s once is not given so long ever after: a second and a half, at the most. */
static void slow_once(void)
{
	struct urxe_cm_id *first;
	uint64_t sent;
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_SENT);
	first = r.id;
	pass(&r, 3000);
	peer_says(&r, URXE_CM_IN_REP);
	bring_to(&r, URXE_CM_REQ_SENT);
	sent = reqs_sent(&r);
	for (unsigned i = 1; i <= 16; i++) {
		struct urxe_cm_id *second = r.id;

		pass(&r, 100);
		r.id = first;
		peer_says(&r, URXE_CM_IN_REP); /* it is there */
		r.id = second;
		if (i == 14)
			CU_ASSERT_EQUAL(reqs_sent(&r), sent);
	}
	CU_ASSERT_EQUAL(reqs_sent(&r), sent + 1);
	rig_close(&r);
}

/* ---- who comes late ---- */

/* A REJ that names the GUID of who gave up has all of it. */
static void half_a_guid(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_RCVD);
	peer_gave_up(&r, PEER_GUID, m);
	urxe_mad_put(m, URXE_REJ_REJECTED_INFO_LENGTH, 7);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_REQ_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->drop_unknown_id, 1);
	rig_close(&r);
}

/* A listener for a range that is gone hears nothing, and its range is free again. */
static void range_is_free(void)
{
	struct urxe_cm_id *id;
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	for (unsigned i = 0; i < 2; i++) {
		id = urxe_cm_new_id(r.cm, rig_handler, &r);
		CU_ASSERT_EQUAL(urxe_cm_listen(id, SERVICE ^ 0xff00, ~0xffull), 0);
		urxe_cm_destroy(id);
	}
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, (SERVICE ^ 0xff00) + 1);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	pass(&r, 200);
	CU_ASSERT_EQUAL(r.n_events, 0);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REJ);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), URXE_CM_REJ_INVALID_SERVICE_ID);
	rig_close(&r);
}

/* No RTU came: the peer is told that its REP's time is over, and by whom (table 109). */
static void rep_unanswered(void)
{
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REP_SENT);
	r.n_events = 0;
	for (unsigned i = 0; i < 60000 && !r.n_events; i++)
		pass(&r, 1);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REP_ERROR);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_DREQ_SENT);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REJ);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), URXE_CM_REJ_TIMEOUT);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REJECTED_INFO_LENGTH), 8);
	CU_ASSERT_EQUAL(urxe_get64(urxe_mad_cbytes(r.sent, URXE_REJ_ARI)), OWN_GUID);
	rig_close(&r);
}

/* Likewise of a REQ that nobody answered: who has it may forget it. */
static void req_unanswered(void)
{
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_SENT);
	for (unsigned i = 0; i < 60000 && !r.n_events; i++)
		pass(&r, 1);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REQ_ERROR);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REJ);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), URXE_CM_REJ_TIMEOUT);
	rig_close(&r);
}

/* No comm id, where the peer's is known, is not the peer's: but a REJ may have none. */
static void nameless(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_ESTABLISHED);
	peer_mad(&r, URXE_CM_IN_DREQ, m);
	urxe_mad_put(m, URXE_DREQ_LOCAL_COMM_ID, 0);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_ESTABLISHED);
	CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->drop_wrong_source, 1);
	peer_mad(&r, URXE_CM_IN_REJ, m);
	urxe_mad_put(m, URXE_REJ_LOCAL_COMM_ID, 0);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_TIMEWAIT);
	rig_close(&r);
}

/* A REP to a connection that is over, or was rejected: the reason is the one that is true. */
static void late_rep(void)
{
	for (unsigned rejected = 0; rejected < 2; rejected++) {
		struct rig r;

		rig_open(&r, OWN_GUID);
		bring_to(&r, URXE_CM_REP_RCVD);
		if (rejected) {
			CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REJ), 0);
		} else {
			CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_RTU), 0);
			CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_DREQ), 0);
			peer_says(&r, URXE_CM_IN_DREP);
		}
		CU_ASSERT_EQUAL(row(r.id), URXE_CM_TIMEWAIT);
		r.n_sent = 0;
		peer_says(&r, URXE_CM_IN_REP);
		CU_ASSERT_EQUAL(r.n_sent, 1);
		CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REJ);
		CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON),
				rejected ? URXE_CM_REJ_CONSUMER : URXE_CM_REJ_INVALID_COMM_ID);
		CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_MESSAGE_REJECTED),
				URXE_CM_ANSWER_REP);
		rig_close(&r);
	}
}

/* An RTU to a REP that was taken back, and one to a connection that ended in peace. */
static void late_rtu(void)
{
	for (unsigned rejected = 0; rejected < 2; rejected++) {
		struct rig r;

		rig_open(&r, OWN_GUID);
		bring_to(&r, rejected ? URXE_CM_REP_SENT : URXE_CM_ESTABLISHED);
		CU_ASSERT_EQUAL(do_call(&r, rejected ? URXE_CM_IN_SEND_REJ : URXE_CM_IN_SEND_DREQ),
				0);
		peer_says(&r, URXE_CM_IN_DREP);
		CU_ASSERT_EQUAL(row(r.id), URXE_CM_TIMEWAIT);
		r.n_sent = 0;
		peer_says(&r, URXE_CM_IN_RTU);
		CU_ASSERT_EQUAL(r.n_sent, rejected);
		if (rejected) {
			CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REJ);
			CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON),
					URXE_CM_REJ_CONSUMER);
		}
		rig_close(&r);
	}
}

/* A REQ that went twice has been looked for long enough: REJ 8 is the end of it. */
static void refused_later(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_SENT);
	pass(&r, 201);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	peer_mad(&r, URXE_CM_IN_REJ, m);
	urxe_mad_put(m, URXE_REJ_REASON, URXE_CM_REJ_INVALID_SERVICE_ID);
	urxe_mad_put(m, URXE_REJ_LOCAL_COMM_ID, 0);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_IDLE);
	CU_ASSERT_EQUAL(r.reason, URXE_CM_REJ_INVALID_SERVICE_ID);
	rig_close(&r);
}

static int info_handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	uint8_t *len = context;

	*len = ev->type == URXE_CM_EV_REJ_RECEIVED	  ? ev->rej.ari_len
	       : ev->type == URXE_CM_EV_SIDR_REP_RECEIVED ? ev->sidr_rep.info_len
							  : 0;
	return 0;
}

/* A peer may say any length of what it adds: the consumer gets no more than there is. */
static void long_information(void)
{
	uint8_t m[URXE_MAD_LEN], len = 0;
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_SENT);
	urxe_cm_set_handler(r.id, info_handler, &len);
	peer_mad(&r, URXE_CM_IN_REJ, m);
	urxe_mad_put(m, URXE_REJ_REASON, URXE_CM_REJ_CONSUMER);
	urxe_mad_put(m, URXE_REJ_REJECTED_INFO_LENGTH, 0x7f);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(len, URXE_REJ_ARI_LEN);
	rig_close(&r);
	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_SIDR_REQ_SENT);
	urxe_cm_set_handler(r.id, info_handler, &len);
	peer_mad(&r, URXE_CM_IN_SIDR_REP, m);
	urxe_mad_put(m, URXE_SIDR_REP_INFO_LENGTH, 0xff);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(len, URXE_INFO_LEN);
	rig_close(&r);
}

/* ---- alternate paths ---- */

/* One that was refused is none, whoever refused it. */
static void refused_path(void)
{
	for (unsigned own = 0; own < 2; own++) {
		uint8_t m[URXE_MAD_LEN];
		struct rig r;
		int mask;

		rig_open(&r, OWN_GUID);
		bring_to(&r, own ? URXE_CM_LAP_SENT : URXE_CM_LAP_RCVD);
		if (own) {
			peer_mad(&r, URXE_CM_IN_APR, m);
			urxe_mad_put(m, URXE_APR_AR_STATUS, URXE_CM_APR_REJECT);
			urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
			CU_ASSERT_EQUAL(r.apr_status, URXE_CM_APR_REJECT);
		} else {
			CU_ASSERT_EQUAL(
				urxe_cm_send_apr(r.id, URXE_CM_APR_REJECT, NULL, 0, NULL, 0), 0);
		}
		CU_ASSERT_EQUAL(row(r.id), URXE_CM_ESTABLISHED);
		attr_of(&r, IBV_QPS_RTS, &mask);
		CU_ASSERT_FALSE(mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE));
		CU_ASSERT_EQUAL(urxe_cm_notify_migrated(r.id), 0);
		CU_ASSERT_EQUAL(urxe_cm_get_path(r.id)->dgid.raw[0], 0x22);
		rig_close(&r);
	}
}

/* A second LAP, of a peer that gave the first one up, waits for the answer to that. */
static void second_lap(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_LAP_RCVD);
	r.n_sent = r.n_events = 0;
	peer_mad(&r, URXE_CM_IN_LAP, m);
	urxe_mad_put(m, URXE_HDR_TID, 78);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.n_sent + r.n_events, 0);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_LAP_RCVD);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_APR), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_TID), 77);
	rig_close(&r);
}

/* There and back: what was left is the alternate path. */
static void back_again(void)
{
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_LAP_IDLE);
	CU_ASSERT_EQUAL(urxe_cm_notify_migrated(r.id), 0);
	CU_ASSERT_EQUAL(urxe_cm_get_path(r.id)->dgid.raw[0], 0x44);
	CU_ASSERT_EQUAL(urxe_cm_notify_migrated(r.id), 0);
	CU_ASSERT_EQUAL(urxe_cm_get_path(r.id)->dgid.raw[0], 0x22);
	CU_ASSERT_EQUAL(urxe_cm_get_path(r.id)->sgid_index, 0);
	rig_close(&r);
}

/* An end of the connection is one of its LAP: no timer goes on for it. */
static void lap_ends_too(void)
{
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_LAP_SENT);
	peer_says(&r, URXE_CM_IN_DREQ);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_DREQ_RCVD);
	CU_ASSERT_EQUAL(urxe_cm_get_lap_state(r.id), URXE_CM_LAP_IDLE);
	CU_ASSERT_EQUAL(urxe_cm_deadline(r.cm), UINT64_MAX);
	rig_close(&r);
}

/* An id that is used again has no path of its former life. */
static void no_path_left(void)
{
	struct urxe_cm_req req = {.service_id = SERVICE, .qp_type = IBV_QPT_RC};
	struct urxe_cm_path other;
	struct rig r;
	int mask;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_IDLE);
	req.path = rig_path(&r);
	req.conn.qpn = OWN_QPN;
	other = rig_other_path(&r);
	req.alternate = &other;
	CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), 0);
	peer_says(&r, URXE_CM_IN_REJ);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_IDLE);
	req.alternate = NULL;
	CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), 0);
	peer_says(&r, URXE_CM_IN_REP);
	attr_of(&r, IBV_QPS_RTR, &mask);
	CU_ASSERT_FALSE(mask & IBV_QP_ALT_PATH);
	CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->states[URXE_CM_LAP_IDLE], 0);
	rig_close(&r);
}

URXE_TEST_MAIN("cm_terms", T(depths), T(ack_timeout), T(wrong_failover), T(asked_for_time),
	       T(lap_begins_anew), T(no_ack_timeout), T(last_of_a_peer), T(asks_and_lives),
	       T(short_stop), T(slow_once), T(loser_has_own_times), T(rep_unanswered),
	       T(req_unanswered), T(nameless), T(half_a_guid), T(range_is_free), T(late_rep),
	       T(late_rtu), T(refused_later), T(long_information), T(refused_path), T(second_lap),
	       T(back_again), T(lap_ends_too), T(no_path_left))
