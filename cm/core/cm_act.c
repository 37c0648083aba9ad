/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The actions of the state table in cm_state.c: connection set-up. An action returns which of its
 * row's states is next: 0, URXE_CM_OTHER or URXE_CM_STAY; or an errno that refuses a call.
 */
#include <errno.h>
#include <string.h>

#include "cm/core/cm_priv.h"
#include "urxe/gid.h"
#include "urxe/log.h"

#define ACTION(name) int urxe_cm_act_##name(struct urxe_cm_id *id, struct urxe_cm_step *s)

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Wait for the answer to id->mad, a REQ or a REP. */
static void arm_try(struct urxe_cm_id *id)
{
	urxe_cm_arm_try(id, id->cm->cfg.first_ms, id->cm->cfg.max_ms);
}

/* Send id->mad for the first time, or again. */
static void send_first(struct urxe_cm_id *id)
{
	id->tries = 1;
	id->since = id->cm->ops->now(id->cm->arg);
	memset(&id->doubt, 0, sizeof(id->doubt));
	urxe_cm_send_mad(id->cm, &id->path, id->mad);
	arm_try(id);
}

static void send_again(struct urxe_cm_id *id)
{
	id->tries++;
	urxe_cm_count_retry(id, urxe_mad_get16(id->mad, URXE_HDR_ATTR_ID));
	urxe_cm_send_mad(id->cm, &id->path, id->mad);
	arm_try(id);
}

/* A length without data counts for nothing, as with the kernel. */
static int check_private(const void *data, uint8_t len, unsigned room)
{
	return data && len > room ? EINVAL : 0;
}

ACTION(nothing)
{
	return 0;
}

ACTION(listen)
{
	const struct urxe_cm_reply *r = s->param;

	id->service_id = r->service_id;
	id->service_mask = r->mask;
	return urxe_cm_index_listener(id);
}

/* ---- the active side ---- */

ACTION(send_req)
{
	const struct urxe_cm_req *req = s->param;
	const struct urxe_cm_conn *c = &req->conn;

	if (check_private(c->private_data, c->private_len, URXE_REQ_PRIVATE_LEN) ||
	    !urxe_cm_transport(req->qp_type) || c->retry_count > 7 || c->rnr_retry_count > 7)
		return EINVAL;
	if (req->alternate) {
		if (urxe_cm_new_alt(id))
			return ENOMEM;
		id->alt->path = *req->alternate;
		id->alt->has_path = true;
	}
	/* Of the peer it had before: until the REP comes nobody knows the next one's. */
	id->remote_comm_id = id->remote_qpn = 0;
	id->remote_guid = id->drep_until = 0;
	id->active = true;
	id->quiet = id->rejected = false;
	id->peer = req->peer_to_peer;
	id->path = req->path;
	id->service_id = req->service_id;
	id->wait_ms = req->wait_ms;
	id->max_tries = req->tries;
	id->qp_type = req->qp_type;
	id->local_qpn = c->qpn;
	id->rq_psn = c->psn;
	id->refused = 0;
	id->responder_resources = c->responder_resources;
	id->initiator_depth = id->offered_depth = c->initiator_depth;
	id->retry_count = c->retry_count;
	urxe_cm_build_req(id, req);
	send_first(id);
	if (id->peer)
		urxe_cm_index_waiting(id);
	return 0;
}

/* REJ 4: we give up, and answer no message; our GUID tells the peer who that is (table 109). */
static void rej_timeout(struct urxe_cm_id *id)
{
	uint8_t guid[8];
	struct urxe_cm_reply r = {.reason = URXE_CM_REJ_TIMEOUT, .ari = guid, .ari_len = 8};

	for (unsigned i = 0; i < 8; i++)
		guid[i] = (uint8_t)(id->cm->cfg.ca_guid >> (56 - 8 * i));
	urxe_cm_issue_rej(id, URXE_CM_ANSWER_OTHER, &r);
}

ACTION(tmo_req)
{
	if (urxe_cm_in_line(id))
		return URXE_CM_STAY;
	if (urxe_cm_may_try(id, id->cm->cfg.req_tries) && !urxe_cm_nobody_there(id)) {
		send_again(id);
		return URXE_CM_STAY;
	}
	rej_timeout(id);
	urxe_cm_gave_up(id, s, urxe_cm_doubt(id, 1));
	return 0;
}

ACTION(drop_req)
{
	rej_timeout(id);
	return 0;
}

ACTION(rej_own_req)
{
	const struct urxe_cm_reply *r = s->param;

	urxe_cm_issue_rej(id, URXE_CM_ANSWER_OTHER, r);
	return 0;
}

uint64_t urxe_cm_heard_mra(const struct urxe_cm_id *id, struct urxe_cm_step *s)
{
	uint8_t n = urxe_mad_get8(s->mad, URXE_MRA_SERVICE_TIMEOUT);

	s->ev.type = URXE_CM_EV_MRA_RECEIVED;
	s->ev.private_data = urxe_mad_cbytes(s->mad, URXE_MRA_PRIVATE_DATA);
	s->ev.private_len = URXE_MRA_PRIVATE_LEN;
	return (4096ull << n) + id->cm->cfg.first_ms * URXE_CM_MS;
}

ACTION(mra)
{
	urxe_cm_answered(id);
	id->mra_comm_id = urxe_mad_get32(s->mad, URXE_MRA_LOCAL_COMM_ID);
	urxe_cm_arm(id, urxe_cm_heard_mra(id, s));
	return 0;
}

/* The time is over: start asking anew. */
ACTION(tmo_rep_wait)
{
	send_first(id);
	return 0;
}

ACTION(rej)
{
	uint8_t ari_len = urxe_mad_get8(s->mad, URXE_REJ_REJECTED_INFO_LENGTH);

	s->ev.type = URXE_CM_EV_REJ_RECEIVED;
	s->ev.rej.reason = urxe_mad_get16(s->mad, URXE_REJ_REASON);
	s->ev.rej.ari = urxe_mad_cbytes(s->mad, URXE_REJ_ARI);
	s->ev.rej.ari_len = ari_len > URXE_REJ_ARI_LEN ? URXE_REJ_ARI_LEN : ari_len;
	s->ev.private_data = urxe_mad_cbytes(s->mad, URXE_REJ_PRIVATE_DATA);
	s->ev.private_len = URXE_REJ_PRIVATE_LEN;
	return 0;
}

bool urxe_cm_no_data(const uint8_t *data, unsigned len)
{
	while (len && !data[len - 1])
		len--;
	return !len;
}

/*
 * The listener may be about to come (cm_again.c): of a REQ that it rejects so a CM keeps nothing. A
 * peer that is to ask us as well may do so at any time: the REQ goes on. A consumer that rejects
 * for this reason has had its say, and is not asked again: its CM has an id for the REQ, or it has
 * sent data.
 */
ACTION(rej_req_sent)
{
	const uint8_t *m = s->mad;
	bool reason = urxe_mad_get(m, URXE_REJ_REASON) == URXE_CM_REJ_INVALID_SERVICE_ID;
	bool by_cm =
		!urxe_mad_get(m, URXE_REJ_LOCAL_COMM_ID) &&
		urxe_cm_no_data(urxe_mad_cbytes(m, URXE_REJ_PRIVATE_DATA), URXE_REJ_PRIVATE_LEN);

	if (reason && id->peer)
		return URXE_CM_STAY;
	return reason && by_cm && urxe_cm_ask_again(id) ? URXE_CM_STAY : urxe_cm_act_rej(id, s);
}

/* The passive side gave up waiting for an RTU that got lost (12.9.8.3.2). */
ACTION(rej_connected)
{
	char peer[URXE_GID_STRLEN];

	urxe_cm_act_rej(id, s);
	urxe_info("cm %08x: %s rejects what was connected (reason %u)", id->local_comm_id,
		  urxe_gid_print(id->path.dgid.raw, peer, sizeof(peer)), s->ev.rej.reason);
	id->quiet = true;
	return 0;
}

static void read_rep(const struct urxe_cm_id *id, const uint8_t *mad, struct urxe_cm_conn *c)
{
	*c = (struct urxe_cm_conn){
		/* An XRC target QP stands where EE contexts did (table 110, A14). */
		.qpn = urxe_mad_get32(mad, id->qp_type == IBV_QPT_XRC_SEND ? URXE_REP_LOCAL_EECN
									   : URXE_REP_LOCAL_QPN),
		.psn = urxe_mad_get32(mad, URXE_REP_STARTING_PSN),
		.responder_resources = urxe_mad_get8(mad, URXE_REP_RESPONDER_RESOURCES),
		.initiator_depth = urxe_mad_get8(mad, URXE_REP_INITIATOR_DEPTH),
		.rnr_retry_count = urxe_mad_get8(mad, URXE_REP_RNR_RETRY_COUNT),
		.failover = urxe_mad_get8(mad, URXE_REP_FAILOVER_ACCEPTED),
		.flow_control = urxe_mad_get(mad, URXE_REP_FLOW_CONTROL),
		.srq = urxe_mad_get(mad, URXE_REP_SRQ),
		.ece.vendor_id = (uint32_t)(urxe_mad_get(mad, URXE_REP_VENDOR_ID_H) << 16 |
					    urxe_mad_get(mad, URXE_REP_VENDOR_ID_M) << 8 |
					    urxe_mad_get(mad, URXE_REP_VENDOR_ID_L)),
		.ece.attr_mod = urxe_mad_get32(mad, URXE_HDR_ATTR_MOD),
		.private_data = urxe_mad_cbytes(mad, URXE_REP_PRIVATE_DATA),
		.private_len = URXE_REP_PRIVATE_LEN,
	};
}

ACTION(rep)
{
	struct urxe_cm *cm = id->cm;
	struct urxe_cm_conn c;
	uint64_t guid = urxe_mad_get(s->mad, URXE_REP_LOCAL_CA_GUID);
	struct urxe_cm_id *other;

	read_rep(id, s->mad, &c);
	other = urxe_cm_find_qp(cm, &id->path.dgid, guid, c.qpn);
	if (other) {
		/* 12.9.8.3.1: the peer's QP is still ours in another connection. */
		struct urxe_cm_step stale = {0};

		if (urxe_cm_allows(other->state, URXE_CM_IN_STALE))
			urxe_cm_do(other, URXE_CM_IN_STALE, &stale);
		urxe_cm_answer_rej(cm, s->src, s->mad, URXE_CM_REJ_STALE_CONN, NULL, 0);
		s->ev.type = URXE_CM_EV_REJ_RECEIVED;
		s->ev.rej.reason = URXE_CM_REJ_STALE_CONN;
		return URXE_CM_OTHER;
	}
	id->remote_comm_id = urxe_mad_get32(s->mad, URXE_REP_LOCAL_COMM_ID);
	id->remote_guid = guid;
	id->remote_qpn = c.qpn;
	id->probed = urxe_mad_get32(s->mad, URXE_REP_LOCAL_QKEY) == URXE_CM_PROBES;
	id->asked_time = false;
	id->sq_psn = c.psn;
	id->rnr_retry_count = c.rnr_retry_count;
	id->initiator_depth = (uint8_t)min64(c.responder_resources, id->offered_depth);
	id->responder_resources = (uint8_t)min64(c.initiator_depth, cm->cfg.max_rd_atom);
	if (c.failover != URXE_CM_FAILOVER_ACCEPTED)
		urxe_cm_free_alt(id);
	urxe_cm_index_peer(id);
	urxe_cm_heard(id);
	urxe_cm_answered(id);
	id->mras = 0;
	urxe_cm_note_service(id);
	urxe_cm_arm(id, cm->cfg.mra_after_ms * URXE_CM_MS);
	s->ev.type = URXE_CM_EV_REP_RECEIVED;
	s->ev.rep = c;
	s->ev.private_data = c.private_data;
	s->ev.private_len = c.private_len;
	return 0;
}

ACTION(send_rtu)
{
	const struct urxe_cm_reply *r = s->param;

	urxe_cm_build_rtu(id, r->private_data, r->private_len);
	urxe_cm_send_mad(id->cm, &id->path, id->mad);
	return 0;
}

ACTION(rej_rep)
{
	id->rejected = true;
	urxe_cm_issue_rej(id, URXE_CM_ANSWER_REP, s->param);
	return 0;
}

ACTION(drop_rep_rcvd)
{
	struct urxe_cm_reply r = {.reason = URXE_CM_REJ_CONSUMER};

	id->rejected = true;
	urxe_cm_issue_rej(id, URXE_CM_ANSWER_REP, &r);
	return 0;
}

/* A REP after the end: our REJ, or RTU and DREQ, were lost. Either way there is nothing left. */
ACTION(late_rep)
{
	struct urxe_cm_reply r = {.reason = id->rejected ? URXE_CM_REJ_CONSUMER
							 : URXE_CM_REJ_INVALID_COMM_ID};

	id->cm->counters.duplicates++;
	if (id->active)
		urxe_cm_issue_rej(id, URXE_CM_ANSWER_REP, &r);
	return 0;
}

/* ---- the passive side ---- */

static void read_req(struct urxe_cm_id *id, const uint8_t *m, struct urxe_cm_event *ev)
{
	ev->req.service_id = id->service_id;
	ev->req.qp_type = id->qp_type;
	ev->req.path = &id->path;
	ev->req.alternate = id->alt ? &id->alt->path : NULL;
	ev->req.conn = (struct urxe_cm_conn){
		.qpn = id->remote_qpn,
		.psn = id->sq_psn,
		.responder_resources = urxe_mad_get8(m, URXE_REQ_RESPONDER_RESOURCES),
		.initiator_depth = urxe_mad_get8(m, URXE_REQ_INITIATOR_DEPTH),
		.retry_count = id->retry_count,
		.rnr_retry_count = id->rnr_retry_count,
		.flow_control = urxe_mad_get(m, URXE_REQ_FLOW_CONTROL),
		.srq = urxe_mad_get(m, URXE_REQ_SRQ),
		.ece.vendor_id = urxe_mad_get32(m, URXE_REQ_VENDOR_ID),
		.ece.attr_mod = urxe_mad_get32(m, URXE_HDR_ATTR_MOD),
		.private_data = urxe_mad_cbytes(m, URXE_REQ_PRIVATE_DATA),
		.private_len = URXE_REQ_PRIVATE_LEN,
	};
	ev->private_data = ev->req.conn.private_data;
	ev->private_len = ev->req.conn.private_len;
}

static void read_alternate(struct urxe_cm_id *id, const uint8_t *m)
{
	struct urxe_cm_path *p = &id->alt->path;

	*p = id->path;
	urxe_cm_read_path(m, &urxe_cm_req_alternate, p);
	p->sgid_index = (uint8_t)id->cm->ops->own_gid(id->cm->arg, &p->sgid);
	id->alt->has_path = true;
}

ACTION(req)
{
	const uint8_t *m = s->mad;
	struct urxe_cm_path *p = &id->path;

	if (urxe_cm_req_has_alternate(m) && urxe_cm_new_alt(id)) {
		id->cm->counters.drop_no_memory++;
		return ENOMEM;
	}
	id->quiet = id->rejected = false;
	id->tid = urxe_mad_get(m, URXE_HDR_TID);
	id->remote_comm_id = urxe_mad_get32(m, URXE_REQ_LOCAL_COMM_ID);
	id->remote_guid = urxe_mad_get(m, URXE_REQ_LOCAL_CA_GUID);
	id->remote_qpn = urxe_mad_get32(m, URXE_REQ_LOCAL_QPN);
	id->sq_psn = urxe_mad_get32(m, URXE_REQ_STARTING_PSN);
	id->service_id = urxe_mad_get(m, URXE_REQ_SERVICE_ID);
	/* Until the consumer chooses others in its REP: what the peer can do, if we can. */
	id->responder_resources =
		(uint8_t)min64(urxe_mad_get(m, URXE_REQ_INITIATOR_DEPTH), id->cm->cfg.max_rd_atom);
	id->initiator_depth = (uint8_t)min64(urxe_mad_get(m, URXE_REQ_RESPONDER_RESOURCES),
					     id->cm->cfg.max_rd_atom);
	id->qp_type = urxe_cm_req_qp_type(m);
	id->retry_count = urxe_mad_get8(m, URXE_REQ_RETRY_COUNT);
	id->rnr_retry_count = urxe_mad_get8(m, URXE_REQ_RNR_RETRY_COUNT);
	urxe_cm_path_back(s->src, p);
	urxe_cm_read_path(m, &urxe_cm_req_primary, p);
	p->pkey = urxe_mad_get16(m, URXE_REQ_PKEY);
	p->mtu = urxe_mad_get8(m, URXE_REQ_PATH_MTU);
	if (urxe_cm_ack_timeout_chosen(p->ack_timeout))
		urxe_cm_set_ack_timeout(id, p->ack_timeout);
	if (id->alt)
		read_alternate(id, m);
	memcpy(id->mad, m, sizeof(id->mad));
	urxe_cm_index_peer(id);
	urxe_cm_heard(id);
	id->mras = 0;
	urxe_cm_arm(id, id->cm->cfg.mra_after_ms * URXE_CM_MS);
	s->ev.type = URXE_CM_EV_REQ_RECEIVED;
	read_req(id, m, &s->ev);
	s->ev.req.listen_id = s->listener;
	return 0;
}

ACTION(tell_again)
{
	s->mad = id->mad;
	s->ev.type = URXE_CM_EV_REQ_RECEIVED;
	read_req(id, s->mad, &s->ev);
	return 0;
}

ACTION(rej_req)
{
	urxe_cm_issue_rej(id, URXE_CM_ANSWER_REQ, s->param);
	return 0;
}

ACTION(drop_rcvd)
{
	struct urxe_cm_reply r = {.reason = URXE_CM_REJ_CONSUMER};

	urxe_cm_issue_rej(id, URXE_CM_ANSWER_REQ, &r);
	return 0;
}

/* Its listener has no room. */
ACTION(ignore)
{
	id->cm->counters.drop_backlog++;
	return 0;
}

ACTION(send_rep)
{
	const struct urxe_cm_conn *c = s->param;

	if (check_private(c->private_data, c->private_len, URXE_REP_PRIVATE_LEN) ||
	    c->rnr_retry_count > 7 || c->failover > URXE_CM_FAILOVER_REJECTED)
		return EINVAL;
	id->local_qpn = c->qpn;
	id->rq_psn = c->psn;
	id->responder_resources = c->responder_resources;
	id->initiator_depth = c->initiator_depth;
	urxe_cm_build_rep(id, c);
	if (c->failover != URXE_CM_FAILOVER_ACCEPTED)
		urxe_cm_free_alt(id);
	send_first(id);
	return 0;
}

/*
 * Both sides asked (12.10.4): the one with the larger GUID, or with the larger QPN where the GUIDs
 * are the same, is the active one; the other forgets its own REQ and answers. The active side
 * does not answer: its own REQ is on the way.
 */
ACTION(peer_req)
{
	uint64_t guid = urxe_mad_get(s->mad, URXE_REQ_LOCAL_CA_GUID), own = id->cm->cfg.ca_guid;
	uint64_t qpn = urxe_mad_get(s->mad, URXE_REQ_LOCAL_QPN);
	int ret;

	if (own > guid || (own == guid && id->local_qpn >= qpn)) {
		id->cm->counters.duplicates++;
		return URXE_CM_STAY;
	}
	urxe_cm_free_alt(id);
	id->active = false;
	ret = urxe_cm_act_req(id, s);
	if (ret) {
		/* No memory: the REQ will come again. */
		id->active = true;
		return URXE_CM_STAY;
	}
	id->wait_ms = id->max_tries = 0;
	return 0;
}

/* The REP got lost, or is under way: send it again, its timer goes on. */
ACTION(resend)
{
	id->cm->counters.duplicates++;
	urxe_cm_send_mad(id->cm, &id->path, id->mad);
	return 0;
}

ACTION(tmo_rtu_wait)
{
	send_first(id);
	return 0;
}

/*
 * The REP is out: the peer may think itself connected. REJ is not answered and may get lost, so
 * go on as if disconnecting, until the peer sends DREP.
 */
static void reject_connected(struct urxe_cm_id *id)
{
	urxe_cm_build_dreq(id, NULL, 0);
	id->tries = 1;
	id->quiet = true;
	urxe_cm_arm_try(id, id->cm->cfg.dreq_first_ms, id->cm->cfg.dreq_max_ms);
}

ACTION(drop_rep_sent)
{
	static const struct urxe_cm_reply consumer = {.reason = URXE_CM_REJ_CONSUMER};

	id->rejected = true;
	urxe_cm_issue_rej(id, URXE_CM_ANSWER_OTHER, s->param ? s->param : &consumer);
	reject_connected(id);
	return 0;
}

ACTION(tmo_rep)
{
	if (urxe_cm_in_line(id))
		return URXE_CM_STAY;
	if (urxe_cm_may_try(id, id->cm->cfg.rep_tries)) {
		send_again(id);
		return URXE_CM_STAY;
	}
	rej_timeout(id);
	reject_connected(id);
	s->ev.type = URXE_CM_EV_REP_ERROR;
	return 0;
}

ACTION(rtu)
{
	urxe_cm_answered(id);
	s->ev.type = URXE_CM_EV_RTU_RECEIVED;
	s->ev.private_data = urxe_mad_cbytes(s->mad, URXE_RTU_PRIVATE_DATA);
	s->ev.private_len = URXE_RTU_PRIVATE_LEN;
	return 0;
}

ACTION(establish)
{
	s->ev.type = URXE_CM_EV_USER_ESTABLISHED;
	return 0;
}

ACTION(is_established)
{
	return EISCONN;
}

/* ---- MRA: for the REQ on the passive side, for the REP on the active one (12.6.6) ---- */

static int send_mra(struct urxe_cm_id *id, uint8_t service, const void *data, uint8_t len)
{
	urxe_cm_issue_mra(id, id->active ? URXE_CM_ANSWER_REP : URXE_CM_ANSWER_REQ, service, data,
			  len);
	id->asked_time = true;
	urxe_cm_arm(id, id->cm->cfg.mra_again_ms * URXE_CM_MS);
	return 0;
}

ACTION(send_mra)
{
	const struct urxe_cm_reply *r = s->param;

	return send_mra(id, (uint8_t)r->reason, r->private_data, r->private_len);
}

/* The consumer is slow. What the peer does not hear of two MRAs it hears when it asks again. */
ACTION(tmo_mra)
{
	if (id->mras++ >= 2)
		return 0;
	return send_mra(id, id->cm->cfg.mra_service, NULL, 0);
}

/* The peer asks again what the consumer has not answered. */
ACTION(dup_mra)
{
	id->cm->counters.duplicates++;
	urxe_cm_heard(id);
	id->mras = 1;
	return send_mra(id, id->cm->cfg.mra_service, NULL, 0);
}

/* ---- stale connections, 12.9.8.3.1 ---- */

ACTION(dup_req_stale)
{
	urxe_cm_answer_rej(id->cm, s->src, s->mad, URXE_CM_REJ_STALE_CONN, NULL, 0);
	return 0;
}

ACTION(stale)
{
	id->quiet = true;
	s->ev.type = URXE_CM_EV_REJ_RECEIVED;
	s->ev.rej.reason = URXE_CM_REJ_STALE_CONN;
	return 0;
}
