/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The actions of the state table in cm_state.c: service id resolution (IBTA 12.11). */
#include <errno.h>
#include <string.h>

#include "cm/core/cm_priv.h"

#define ACTION(name) int urxe_cm_act_##name(struct urxe_cm_id *id, struct urxe_cm_step *s)

static void arm(struct urxe_cm_id *id)
{
	urxe_cm_arm_try(id, id->cm->cfg.first_ms, id->cm->cfg.max_ms);
}

ACTION(send_sidr_req)
{
	const struct urxe_cm_reply *r = s->param;
	uint8_t *m = id->mad;

	if (r->private_len > URXE_SIDR_REQ_PRIVATE_LEN)
		return EINVAL;
	id->active = true;
	id->path = *r->path;
	id->service_id = r->service_id;
	id->refused = 0;
	id->tid = urxe_cm_new_tid(id->cm);
	urxe_mad_init(m, URXE_MAD_SIDR_REQ, id->tid);
	urxe_mad_put(m, URXE_SIDR_REQ_REQUEST_ID, id->local_comm_id);
	urxe_mad_put(m, URXE_SIDR_REQ_PKEY, id->path.pkey);
	urxe_mad_put(m, URXE_SIDR_REQ_SERVICE_ID, r->service_id);
	urxe_cm_put_private(m, URXE_SIDR_REQ_PRIVATE_DATA, r->private_data, r->private_len);
	id->tries = 1;
	id->since = id->cm->ops->now(id->cm->arg);
	memset(&id->doubt, 0, sizeof(id->doubt));
	urxe_cm_send_mad(id->cm, &id->path, m);
	arm(id);
	return 0;
}

ACTION(tmo_sidr)
{
	if (urxe_cm_may_try(id, id->cm->cfg.req_tries) && !urxe_cm_nobody_there(id)) {
		id->tries++;
		urxe_cm_count_retry(id, URXE_MAD_SIDR_REQ);
		urxe_cm_send_mad(id->cm, &id->path, id->mad);
		arm(id);
		return URXE_CM_STAY;
	}
	urxe_cm_gave_up(id, s, urxe_cm_doubt(id, 1));
	return 0;
}

static void tell(struct urxe_cm_id *id, struct urxe_cm_step *s)
{
	s->ev.type = URXE_CM_EV_SIDR_REQ_RECEIVED;
	s->ev.sidr_req.listen_id = s->listener;
	s->ev.sidr_req.service_id = id->service_id;
	s->ev.sidr_req.pkey = id->path.pkey;
	s->ev.sidr_req.path = &id->path;
	s->ev.private_data = urxe_mad_cbytes(s->mad, URXE_SIDR_REQ_PRIVATE_DATA);
	s->ev.private_len = URXE_SIDR_REQ_PRIVATE_LEN;
}

ACTION(sidr_req)
{
	const uint8_t *m = s->mad;

	memcpy(id->mad, m, sizeof(id->mad));
	id->tid = urxe_mad_get(m, URXE_HDR_TID);
	id->remote_comm_id = urxe_mad_get32(m, URXE_SIDR_REQ_REQUEST_ID);
	id->service_id = urxe_mad_get(m, URXE_SIDR_REQ_SERVICE_ID);
	urxe_cm_path_back(s->src, &id->path);
	id->path.pkey = urxe_mad_get16(m, URXE_SIDR_REQ_PKEY);
	urxe_cm_index_peer(id);
	urxe_cm_heard(id);
	tell(id, s);
	return 0;
}

ACTION(tell_sidr_again)
{
	s->mad = id->mad;
	tell(id, s);
	return 0;
}

/* The consumer has not answered yet. */
ACTION(dup_sidr)
{
	id->cm->counters.duplicates++;
	urxe_cm_heard(id);
	return 0;
}

/*
 * A peer that is told that there is no such service asks once more, as the listener may be about to
 * come. What a consumer has refused for this reason it need not refuse again.
 */
#define REMEMBER_NS 1000000000ull

static void remember(struct urxe_cm_id *id, const uint8_t *mad)
{
	struct urxe_cm *cm = id->cm;
	struct urxe_cm_refusal *r = &cm->refusals[cm->next_refusal++ % URXE_CM_REFUSALS];

	r->peer = id->path.dgid;
	r->until = cm->ops->now(cm->arg) + REMEMBER_NS;
	memcpy(r->mad, mad, sizeof(r->mad));
}

bool urxe_cm_refused(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad)
{
	uint64_t now = cm->ops->now(cm->arg);
	struct urxe_cm_path path;

	for (unsigned i = 0; i < URXE_CM_REFUSALS; i++) {
		const struct urxe_cm_refusal *r = &cm->refusals[i];

		if (now >= r->until || memcmp(&r->peer, &src->sgid, sizeof(r->peer)) ||
		    urxe_mad_get(r->mad, URXE_HDR_TID) != urxe_mad_get(mad, URXE_HDR_TID) ||
		    urxe_mad_get(r->mad, URXE_SIDR_REP_REQUEST_ID) !=
			    urxe_mad_get(mad, URXE_SIDR_REQ_REQUEST_ID))
			continue;
		cm->counters.duplicates++;
		urxe_cm_path_back(src, &path);
		urxe_cm_send_mad(cm, &path, r->mad);
		return true;
	}
	return false;
}

static void issue_rep(struct urxe_cm_id *id, const struct urxe_cm_reply *r)
{
	uint8_t m[URXE_MAD_LEN];

	urxe_mad_init(m, URXE_MAD_SIDR_REP, id->tid);
	urxe_mad_put(m, URXE_SIDR_REP_REQUEST_ID, id->remote_comm_id);
	urxe_mad_put(m, URXE_SIDR_REP_STATUS, r->reason);
	urxe_mad_put(m, URXE_SIDR_REP_QPN, r->qpn);
	urxe_mad_put(m, URXE_SIDR_REP_SERVICE_ID, id->service_id);
	urxe_mad_put(m, URXE_SIDR_REP_QKEY, r->qkey);
	urxe_mad_put(m, URXE_HDR_ATTR_MOD, r->ece.attr_mod);
	urxe_mad_put(m, URXE_SIDR_REP_VENDOR_ID_H, r->ece.vendor_id >> 8);
	urxe_mad_put(m, URXE_SIDR_REP_VENDOR_ID_L, r->ece.vendor_id);
	if (r->ari && r->ari_len) {
		urxe_mad_put(m, URXE_SIDR_REP_INFO_LENGTH, r->ari_len);
		urxe_cm_put_private(m, URXE_SIDR_REP_INFO, r->ari, r->ari_len);
	}
	urxe_cm_put_private(m, URXE_SIDR_REP_PRIVATE_DATA, r->private_data, r->private_len);
	if (r->reason == URXE_CM_SIDR_UNSUPPORTED)
		remember(id, m);
	urxe_cm_send_mad(id->cm, &id->path, m);
}

ACTION(send_sidr_rep)
{
	const struct urxe_cm_reply *r = s->param;

	if (r->private_len > URXE_SIDR_REP_PRIVATE_LEN)
		return EINVAL;
	issue_rep(id, r);
	return 0;
}

ACTION(drop_sidr)
{
	struct urxe_cm_reply r = {.reason = URXE_CM_SIDR_REJECT};

	if (!id->active)
		issue_rep(id, &r);
	return 0;
}

ACTION(sidr_rep)
{
	const uint8_t *m = s->mad;
	uint8_t info_len = urxe_mad_get8(m, URXE_SIDR_REP_INFO_LENGTH);

	/* As for a REQ: the listener may be about to come. Data is a consumer's. */
	if (urxe_mad_get(m, URXE_SIDR_REP_STATUS) == URXE_CM_SIDR_UNSUPPORTED &&
	    urxe_cm_no_data(urxe_mad_cbytes(m, URXE_SIDR_REP_PRIVATE_DATA),
			    URXE_SIDR_REP_PRIVATE_LEN) &&
	    urxe_cm_ask_again(id))
		return URXE_CM_STAY;
	s->ev.type = URXE_CM_EV_SIDR_REP_RECEIVED;
	s->ev.sidr_rep.info = urxe_mad_cbytes(m, URXE_SIDR_REP_INFO);
	s->ev.sidr_rep.info_len = info_len > URXE_INFO_LEN ? URXE_INFO_LEN : info_len;
	s->ev.sidr_rep.status = urxe_mad_get8(m, URXE_SIDR_REP_STATUS);
	s->ev.sidr_rep.qpn = urxe_mad_get32(m, URXE_SIDR_REP_QPN);
	s->ev.sidr_rep.qkey = urxe_mad_get32(m, URXE_SIDR_REP_QKEY);
	s->ev.sidr_rep.ece.attr_mod = urxe_mad_get32(m, URXE_HDR_ATTR_MOD);
	s->ev.sidr_rep.ece.vendor_id = (uint32_t)(urxe_mad_get(m, URXE_SIDR_REP_VENDOR_ID_H) << 8 |
						  urxe_mad_get(m, URXE_SIDR_REP_VENDOR_ID_L));
	s->ev.private_data = urxe_mad_cbytes(m, URXE_SIDR_REP_PRIVATE_DATA);
	s->ev.private_len = URXE_SIDR_REP_PRIVATE_LEN;
	return 0;
}
