/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The IB CM: alternate paths (LAP, APR, in REQ), peers that both ask, times as the consumer wants.
 */
#include "cm_rig.h"

/* A LAP is answered once, however often it comes; the QP gets the path that was offered. */
static void lap(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};
	uint8_t m[URXE_MAD_LEN];
	struct rig r;
	int mask;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_LAP_RCVD);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_LAP_RECEIVED);
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
	CU_ASSERT_EQUAL(mask, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
	CU_ASSERT_EQUAL(a.path_mig_state, IBV_MIG_REARM);
	CU_ASSERT_EQUAL(a.alt_ah_attr.grh.sgid_index, 1);
	CU_ASSERT_EQUAL(a.alt_ah_attr.grh.dgid.raw[0], 0x44);
	CU_ASSERT_EQUAL(a.alt_ah_attr.grh.flow_label, 0x12345);
	CU_ASSERT_EQUAL(a.alt_timeout, 18);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_APR), 0);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_APR);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_TID), 77);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_APR_AR_STATUS), URXE_CM_APR_SUCCESS);
	/* The APR got lost. */
	r.n_events = r.n_sent = 0;
	peer_says(&r, URXE_CM_IN_LAP);
	CU_ASSERT_EQUAL(r.n_events, 0);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_APR);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_APR_AR_STATUS), URXE_CM_APR_SUCCESS);
	/* Even while a LAP of ours is under way; another one then hears no. */
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_LAP), 0);
	peer_says(&r, URXE_CM_IN_LAP);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_APR_AR_STATUS), URXE_CM_APR_SUCCESS);
	peer_mad(&r, URXE_CM_IN_LAP, m);
	urxe_mad_put(m, URXE_HDR_TID, 78);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_TID), 78);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_APR_AR_STATUS), URXE_CM_APR_REJECT);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_LAP_SENT);
	/* The answer to another LAP than ours is none. */
	peer_mad(&r, URXE_CM_IN_APR, m);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_LAP_SENT);
	CU_ASSERT_EQUAL(r.n_events, 0);
	/* The other QPN's LAP, and one to an address that is not ours. */
	rig_close(&r);
	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_ESTABLISHED);
	r.n_sent = r.n_events = 0;
	peer_mad(&r, URXE_CM_IN_LAP, m);
	urxe_mad_put(m, URXE_LAP_REMOTE_QPN, OWN_QPN + 1);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.n_sent + r.n_events, 0);
	peer_mad(&r, URXE_CM_IN_LAP, m);
	urxe_mad_bytes(m, URXE_LAP_ALTERNATE_REMOTE_GID)[1] = 0x55;
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(r.n_events, 0);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_APR_AR_STATUS), URXE_CM_APR_INVALID_GID);
	rig_close(&r);
}

/* A peer that is alive but knows nothing of LAPs: LAP_ERROR, and the connection stays. */
static void lap_unanswered(void)
{
	struct rig r;
	unsigned ms = 0;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_LAP_SENT);
	r.n_events = 0;
	for (; !r.n_events && ms < 60000; ms += 10) {
		r.now += 10 * 1000000;
		urxe_cm_run(r.cm);
		if (ms % 500 == 0)
			peer_says(&r, URXE_CM_IN_RTU);
	}
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_LAP_ERROR);
	CU_ASSERT(ms <= 5000);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_ESTABLISHED);
	CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->sent[URXE_MAD_LAP - URXE_MAD_REQ], 7);
	rig_close(&r);
	/* A consumer that does not answer says MRA by itself. */
	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_LAP_RCVD);
	r.now += 110 * 1000000;
	urxe_cm_run(r.cm);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_MRA_LAP_SENT);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_MRA_MESSAGE_MRAED), URXE_CM_ANSWER_OTHER);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_HDR_TID), 77);
	rig_close(&r);
}

/* After PATH_MIG our MADs go by the other path; the peer's may come by either. */
static void path_mig(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};
	struct urxe_cm_source primary;
	struct rig r;
	int mask;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_ESTABLISHED);
	/* To a path that the CM does not know */
	primary.sgid = urxe_cm_get_path(r.id)->dgid;
	CU_ASSERT_EQUAL(urxe_cm_notify_migrated(r.id), 0);
	CU_ASSERT_FALSE(memcmp(&urxe_cm_get_path(r.id)->dgid, &primary.sgid, 16));
	rig_close(&r);
	for (unsigned side = 0; side < 2; side++) {
		rig_open(&r, OWN_GUID);
		bring_to(&r, side ? URXE_CM_LAP_RCVD : URXE_CM_LAP_IDLE);
		if (side)
			CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_APR), 0);
		CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
		CU_ASSERT_EQUAL(mask, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
		CU_ASSERT_EQUAL(a.alt_ah_attr.grh.dgid.raw[0], 0x44);
		CU_ASSERT_EQUAL(urxe_cm_notify_migrated(r.id), 0);
		CU_ASSERT_EQUAL(urxe_cm_get_path(r.id)->dgid.raw[0], 0x44);
		CU_ASSERT_EQUAL(urxe_cm_get_path(r.id)->sgid_index, 1);
		primary = r.src;
		memset(r.src.sgid.raw, 0x44, 16);
		memset(r.src.dgid.raw, 0x33, 16);
		peer_says(&r, URXE_CM_IN_DREQ);
		CU_ASSERT_EQUAL(row(r.id), URXE_CM_DREQ_RCVD);
		CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_DREP), 0);
		r.src = primary;
		r.n_sent = 0;
		peer_says(&r, URXE_CM_IN_DREQ);
		CU_ASSERT_EQUAL(r.n_sent, 1);
		rig_close(&r);
	}
}

/* An alternate path in the REQ: for the QP at once, unless one of the two does not want it. */
static void alternate_in_req(void)
{
	struct urxe_cm_conn c = {.qpn = OWN_QPN};
	struct ibv_qp_attr a;
	uint8_t m[URXE_MAD_LEN];
	struct rig r;
	int mask;

	for (unsigned failover = 0; failover < 3; failover++) {
		rig_open(&r, OWN_GUID);
		peer_mad(&r, URXE_CM_IN_REQ, m);
		urxe_mad_put(m, URXE_REQ_ALTERNATE_LOCAL_LID, 0xffff);
		memset(urxe_mad_bytes(m, URXE_REQ_ALTERNATE_LOCAL_GID), 0x44, 16);
		memset(urxe_mad_bytes(m, URXE_REQ_ALTERNATE_REMOTE_GID), 0x33, 16);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT(r.alternate);
		c.failover = (uint8_t)failover;
		a.qp_state = IBV_QPS_RTR;
		CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
		CU_ASSERT(mask & IBV_QP_ALT_PATH && mask & IBV_QP_AV);
		CU_ASSERT_EQUAL(a.alt_ah_attr.grh.sgid_index, 1);
		CU_ASSERT_EQUAL(urxe_cm_send_rep(r.id, &c), 0);
		CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REP_FAILOVER_ACCEPTED), failover);
		a.qp_state = IBV_QPS_RTS;
		CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
		CU_ASSERT_EQUAL(!!(mask & IBV_QP_PATH_MIG_STATE), !failover);
		CU_ASSERT(mask & IBV_QP_SQ_PSN);
		rig_close(&r);
		/* And as who asked. */
		rig_open(&r, OWN_GUID);
		bring_to(&r, URXE_CM_IDLE);
		{
			struct urxe_cm_path other = rig_other_path(&r);
			struct urxe_cm_req req = {.path = rig_path(&r),
						  .service_id = SERVICE,
						  .qp_type = IBV_QPT_RC,
						  .alternate = &other};

			req.conn.qpn = OWN_QPN;
			CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), 0);
		}
		CU_ASSERT_EQUAL(urxe_mad_cbytes(r.sent, URXE_REQ_ALTERNATE_REMOTE_GID)[0], 0x44);
		peer_mad(&r, URXE_CM_IN_REP, m);
		urxe_mad_put(m, URXE_REP_FAILOVER_ACCEPTED, failover);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		a.qp_state = IBV_QPS_RTR;
		CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r.id, &a, &mask), 0);
		CU_ASSERT_EQUAL(!!(mask & IBV_QP_ALT_PATH), !failover);
		rig_close(&r);
	}
	/* To an address that is not ours: reason 18. */
	rig_open(&r, OWN_GUID);
	peer_mad(&r, URXE_CM_IN_REQ, m);
	memset(urxe_mad_bytes(m, URXE_REQ_ALTERNATE_LOCAL_GID), 0x44, 16);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), URXE_CM_REJ_INVALID_ALT_GID);
	CU_ASSERT_EQUAL(r.n_events, 0);
	rig_close(&r);
}

static void ask_peer(struct rig *r)
{
	struct urxe_cm_req req = {.path = rig_path(r),
				  .service_id = SERVICE + 7,
				  .qp_type = IBV_QPT_RC,
				  .peer_to_peer = true};

	bring_to(r, URXE_CM_IDLE);
	req.conn.qpn = OWN_QPN;
	req.conn.psn = 0x123;
	CU_ASSERT_EQUAL(urxe_cm_send_req(r->id, &req), 0);
}

/* Both sides send REQ (12.10.4): the larger GUID is the active side, then the larger QPN. */
static void peer_to_peer(void)
{
	static const struct {
		uint64_t guid;
		uint32_t qpn;
		bool we_answer;
	} c[] = {
		{0x5055, PEER_QPN, true},    {0x5053, PEER_QPN, false},
		{0x5054, OWN_QPN + 1, true}, {0x5054, OWN_QPN - 1, false},
		{UINT64_MAX, 0x10, true},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		uint8_t m[URXE_MAD_LEN];
		struct urxe_cm_id *id;
		struct rig r;

		rig_open(&r, OWN_GUID);
		ask_peer(&r);
		id = r.id;
		peer_mad(&r, URXE_CM_IN_REQ, m);
		urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE + 7);
		urxe_mad_put(m, URXE_REQ_LOCAL_CA_GUID, c[i].guid);
		urxe_mad_put(m, URXE_REQ_LOCAL_QPN, c[i].qpn);
		r.n_sent = r.n_events = 0;
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT_EQUAL(r.n_sent, 0);
		CU_ASSERT_PTR_EQUAL(r.id, id);
		CU_ASSERT_EQUAL(r.n_events, c[i].we_answer);
		CU_ASSERT_EQUAL(row(id), c[i].we_answer ? URXE_CM_REQ_RCVD : URXE_CM_REQ_SENT);
		if (c[i].we_answer) {
			CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REQ_RECEIVED);
			CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REP), 0);
			/* A double of the REQ is one. */
			urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
			CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REP);
			CU_ASSERT_EQUAL(row(id), URXE_CM_REP_SENT);
			peer_says(&r, URXE_CM_IN_RTU);
		} else {
			uint8_t rep[URXE_MAD_LEN];

			/* The REP to ours; the REQ that lost, once more, is no stale connection. */
			peer_mad(&r, URXE_CM_IN_REP, rep);
			urxe_mad_put(rep, URXE_REP_LOCAL_CA_GUID, c[i].guid);
			urxe_mad_put(rep, URXE_REP_LOCAL_QPN, c[i].qpn);
			urxe_cm_recv(r.cm, &r.src, rep, sizeof(rep));
			CU_ASSERT_EQUAL(row(id), URXE_CM_REP_RCVD);
			urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
			CU_ASSERT_EQUAL(row(id), URXE_CM_REP_RCVD);
			CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_RTU), 0);
			urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		}
		CU_ASSERT_EQUAL(row(id), URXE_CM_ESTABLISHED);
		rig_close(&r);
	}
}

/* The peer has not asked yet: REJ 8 is no end. Its REQ may come before ours is sent. */
static void peer_is_late(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	ask_peer(&r);
	peer_mad(&r, URXE_CM_IN_REJ, m);
	urxe_mad_put(m, URXE_REJ_REASON, URXE_CM_REJ_INVALID_SERVICE_ID);
	for (unsigned i = 0; i < 3; i++)
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_REQ_SENT);
	CU_ASSERT_EQUAL(r.n_events, 0);
	rig_close(&r);
	/* We are late: the REQ waits. Its own loop back is not the peer's. */
	rig_open(&r, OWN_GUID);
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE + 7);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.n_sent, 0);
	ask_peer(&r);
	r.now += 3000000;
	urxe_cm_run(r.cm);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_REQ_RCVD);
	rig_close(&r);
	rig_open(&r, OWN_GUID);
	ask_peer(&r);
	memcpy(m, r.sent, sizeof(m));
	memcpy(r.src.sgid.raw, r.src.dgid.raw, 16);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_REQ_SENT);
	rig_close(&r);
}

/* What our REQ met before the peer asked comes late: it means nothing any more. */
static void late_answers(void)
{
	uint8_t m[URXE_MAD_LEN], rep[URXE_MAD_LEN];
	struct rig r;

	/* We answer; then comes the REJ of our own REQ. */
	rig_open(&r, OWN_GUID);
	ask_peer(&r);
	peer_mad(&r, URXE_CM_IN_REJ, rep);
	urxe_mad_put(rep, URXE_REJ_REASON, URXE_CM_REJ_INVALID_SERVICE_ID);
	urxe_mad_put(rep, URXE_REJ_LOCAL_COMM_ID, 0);
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE + 7);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REP), 0);
	urxe_cm_recv(r.cm, &r.src, rep, sizeof(rep));
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_REP_SENT);
	rig_close(&r);
	/* The peer's REQ waits, ours is faster: the one that waits is not rejected. */
	rig_open(&r, UINT64_MAX);
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE + 7);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	ask_peer(&r);
	peer_says(&r, URXE_CM_IN_REP);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_RTU), 0);
	r.n_sent = 0;
	r.now += 190 * 1000000;
	urxe_cm_run(r.cm);
	CU_ASSERT_EQUAL(r.n_sent, 0);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_ESTABLISHED);
	rig_close(&r);
}

/* What a consumer says of times and tries goes out, and is kept. */
static void own_times(void)
{
	struct urxe_cm_req req = {.service_id = SERVICE,
				  .qp_type = IBV_QPT_RC,
				  .local_timeout = 18,
				  .remote_timeout = 17,
				  .wait_ms = 1000,
				  .tries = 3};
	struct rig r;
	unsigned ms = 0;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_IDLE);
	req.path = rig_path(&r);
	req.conn.qpn = OWN_QPN;
	CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REQ_LOCAL_CM_RESPONSE_TIMEOUT), 18);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REQ_REMOTE_CM_RESPONSE_TIMEOUT), 17);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REQ_MAX_CM_RETRIES), 2);
	for (; !r.n_events && ms < 60000; ms += 10) {
		r.now += 10 * 1000000;
		urxe_cm_run(r.cm);
	}
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REQ_ERROR);
	CU_ASSERT_EQUAL(ms, 3000);
	/* The id can be used again. */
	CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), 0);
	peer_says(&r, URXE_CM_IN_REP);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_RTU), 0);
	peer_says(&r, URXE_CM_IN_DREQ);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_DREQ_RECEIVED);
	rig_close(&r);
}

URXE_TEST_MAIN("cm_alternate", T(lap), T(lap_unanswered), T(path_mig), T(alternate_in_req),
	       T(peer_to_peer), T(peer_is_late), T(late_answers), T(own_times))
