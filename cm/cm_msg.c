/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of the IB CM, put together from ids and parameters. */
#include <string.h>

#include "cm/cm_priv.h"
#include "urxe/log.h"

#define PUT(mad, field, value) urxe_mad_put(mad, URXE_##field, value)

void urxe_cm_send_mad(struct urxe_cm *cm, const struct urxe_cm_path *path, const uint8_t *mad)
{
	uint16_t attr = (uint16_t)urxe_mad_get(mad, URXE_HDR_ATTR_ID);

	cm->counters.sent[attr - URXE_MAD_REQ]++;
	urxe_debug("cm -> %s %08lx/%08lx", urxe_mad_msg_name(attr),
		   (unsigned long)urxe_mad_get(mad, URXE_REP_LOCAL_COMM_ID),
		   (unsigned long)urxe_mad_get(mad, URXE_REP_REMOTE_COMM_ID));
	cm->ops->send(cm->arg, path, mad);
}

void urxe_cm_put_private(uint8_t *mad, enum urxe_mad_field_id field, const void *data, uint8_t len)
{
	if (data && len)
		memcpy(urxe_mad_bytes(mad, field), data, len);
}

static void put_gid(uint8_t *mad, enum urxe_mad_field_id field, const union ibv_gid *gid)
{
	memcpy(urxe_mad_bytes(mad, field), gid->raw, sizeof(gid->raw));
}

void urxe_cm_build_req(struct urxe_cm_id *id, const struct urxe_cm_req *req)
{
	const struct urxe_cm_conn *c = &req->conn;
	const struct urxe_cm_path *p = &req->path;
	uint8_t *m = id->mad;

	id->tid = urxe_cm_new_tid(id->cm);
	urxe_mad_init(m, URXE_MAD_REQ, id->tid);
	PUT(m, HDR_ATTR_MOD, c->ece.attr_mod);
	PUT(m, REQ_LOCAL_COMM_ID, id->local_comm_id);
	PUT(m, REQ_VENDOR_ID, c->ece.vendor_id);
	PUT(m, REQ_SERVICE_ID, req->service_id);
	PUT(m, REQ_LOCAL_CA_GUID, id->cm->cfg.ca_guid);
	PUT(m, REQ_LOCAL_QPN, c->qpn);
	PUT(m, REQ_RESPONDER_RESOURCES, c->responder_resources);
	PUT(m, REQ_INITIATOR_DEPTH, c->initiator_depth);
	PUT(m, REQ_REMOTE_CM_RESPONSE_TIMEOUT, URXE_CM_ADV_RESPONSE_TIMEOUT);
	PUT(m, REQ_TRANSPORT_SERVICE_TYPE, req->qp_type == IBV_QPT_UC);
	PUT(m, REQ_FLOW_CONTROL, c->flow_control);
	PUT(m, REQ_STARTING_PSN, c->psn);
	PUT(m, REQ_LOCAL_CM_RESPONSE_TIMEOUT, URXE_CM_ADV_RESPONSE_TIMEOUT);
	PUT(m, REQ_RETRY_COUNT, c->retry_count);
	PUT(m, REQ_PKEY, p->pkey);
	PUT(m, REQ_PATH_MTU, p->mtu);
	PUT(m, REQ_RNR_RETRY_COUNT, c->rnr_retry_count);
	PUT(m, REQ_MAX_CM_RETRIES, URXE_CM_ADV_RETRIES);
	PUT(m, REQ_SRQ, c->srq);
	PUT(m, REQ_PRIMARY_LOCAL_LID, URXE_CM_ADV_LID);
	PUT(m, REQ_PRIMARY_REMOTE_LID, URXE_CM_ADV_LID);
	put_gid(m, URXE_REQ_PRIMARY_LOCAL_GID, &p->sgid);
	put_gid(m, URXE_REQ_PRIMARY_REMOTE_GID, &p->dgid);
	PUT(m, REQ_PRIMARY_FLOW_LABEL, p->flow_label);
	PUT(m, REQ_PRIMARY_TRAFFIC_CLASS, p->traffic_class);
	PUT(m, REQ_PRIMARY_HOP_LIMIT, p->hop_limit);
	PUT(m, REQ_PRIMARY_SL, p->sl);
	PUT(m, REQ_PRIMARY_ACK_TIMEOUT, p->ack_timeout);
	urxe_cm_put_private(m, URXE_REQ_PRIVATE_DATA, c->private_data, c->private_len);
}

void urxe_cm_build_rep(struct urxe_cm_id *id, const struct urxe_cm_conn *c)
{
	uint8_t *m = id->mad;

	urxe_mad_init(m, URXE_MAD_REP, id->tid);
	PUT(m, HDR_ATTR_MOD, c->ece.attr_mod);
	PUT(m, REP_LOCAL_COMM_ID, id->local_comm_id);
	PUT(m, REP_REMOTE_COMM_ID, id->remote_comm_id);
	PUT(m, REP_LOCAL_QPN, c->qpn);
	PUT(m, REP_VENDOR_ID_H, c->ece.vendor_id >> 16);
	PUT(m, REP_VENDOR_ID_M, c->ece.vendor_id >> 8);
	PUT(m, REP_VENDOR_ID_L, c->ece.vendor_id);
	PUT(m, REP_STARTING_PSN, c->psn);
	PUT(m, REP_RESPONDER_RESOURCES, c->responder_resources);
	PUT(m, REP_INITIATOR_DEPTH, c->initiator_depth);
	PUT(m, REP_TARGET_ACK_DELAY, URXE_CM_ADV_ACK_DELAY);
	PUT(m, REP_FLOW_CONTROL, c->flow_control);
	PUT(m, REP_RNR_RETRY_COUNT, c->rnr_retry_count);
	PUT(m, REP_SRQ, c->srq);
	PUT(m, REP_LOCAL_CA_GUID, id->cm->cfg.ca_guid);
	urxe_cm_put_private(m, URXE_REP_PRIVATE_DATA, c->private_data, c->private_len);
}

/* RTU, DREQ, DREP, MRA, REJ and REP alike begin with the two comm ids. */
static void init_pair(uint8_t *m, enum urxe_mad_attr attr, uint64_t tid, uint32_t local,
		      uint32_t remote)
{
	urxe_mad_init(m, attr, tid);
	PUT(m, RTU_LOCAL_COMM_ID, local);
	PUT(m, RTU_REMOTE_COMM_ID, remote);
}

void urxe_cm_build_rtu(struct urxe_cm_id *id, const void *data, uint8_t len)
{
	init_pair(id->mad, URXE_MAD_RTU, id->tid, id->local_comm_id, id->remote_comm_id);
	urxe_cm_put_private(id->mad, URXE_RTU_PRIVATE_DATA, data, len);
}

void urxe_cm_build_dreq(struct urxe_cm_id *id, const void *data, uint8_t len)
{
	id->dreq_tid = urxe_cm_new_tid(id->cm);
	init_pair(id->mad, URXE_MAD_DREQ, id->dreq_tid, id->local_comm_id, id->remote_comm_id);
	PUT(id->mad, DREQ_REMOTE_QPN, id->remote_qpn);
	urxe_cm_put_private(id->mad, URXE_DREQ_PRIVATE_DATA, data, len);
}

void urxe_cm_issue_drep(struct urxe_cm_id *id, const void *data, uint8_t len)
{
	uint8_t m[URXE_MAD_LEN];

	init_pair(m, URXE_MAD_DREP, id->dreq_tid, id->local_comm_id, id->remote_comm_id);
	urxe_cm_put_private(m, URXE_DREP_PRIVATE_DATA, data, len);
	urxe_cm_send_mad(id->cm, &id->path, m);
}

void urxe_cm_issue_mra(struct urxe_cm_id *id, enum urxe_cm_answered what, uint8_t service,
		       const void *data, uint8_t len)
{
	uint8_t m[URXE_MAD_LEN];

	init_pair(m, URXE_MAD_MRA, id->tid, id->local_comm_id, id->remote_comm_id);
	PUT(m, MRA_MESSAGE_MRAED, what);
	PUT(m, MRA_SERVICE_TIMEOUT, service);
	urxe_cm_put_private(m, URXE_MRA_PRIVATE_DATA, data, len);
	urxe_cm_send_mad(id->cm, &id->path, m);
}

void urxe_cm_issue_rej(struct urxe_cm_id *id, enum urxe_cm_answered what,
		       const struct urxe_cm_reply *r)
{
	uint8_t m[URXE_MAD_LEN];

	init_pair(m, URXE_MAD_REJ, id->tid, id->local_comm_id, id->remote_comm_id);
	PUT(m, REJ_MESSAGE_REJECTED, what);
	PUT(m, REJ_REASON, r->reason);
	if (r->ari && r->ari_len) {
		PUT(m, REJ_REJECTED_INFO_LENGTH, r->ari_len);
		memcpy(urxe_mad_bytes(m, URXE_REJ_ARI), r->ari, r->ari_len);
	}
	urxe_cm_put_private(m, URXE_REJ_PRIVATE_DATA, r->private_data, r->private_len);
	urxe_cm_send_mad(id->cm, &id->path, m);
}

void urxe_cm_path_back(const struct urxe_cm_source *src, struct urxe_cm_path *path)
{
	*path = (struct urxe_cm_path){
		.sgid = src->dgid,
		.dgid = src->sgid,
		.sgid_index = src->dgid_index,
		.port_num = src->port_num,
		.traffic_class = src->traffic_class,
		.hop_limit = 64,
		.pkey = 0xffff,
	};
}

void urxe_cm_answer_rej(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
			uint16_t reason, const void *ari, uint8_t ari_len)
{
	uint16_t attr = (uint16_t)urxe_mad_get(mad, URXE_HDR_ATTR_ID);
	struct urxe_cm_path path;
	uint8_t m[URXE_MAD_LEN];

	/* The first field of each is the sender's comm id; only REP names ours too. */
	init_pair(m, URXE_MAD_REJ, urxe_mad_get(mad, URXE_HDR_TID),
		  attr == URXE_MAD_REP ? (uint32_t)urxe_mad_get(mad, URXE_REP_REMOTE_COMM_ID) : 0,
		  (uint32_t)urxe_mad_get(mad, URXE_REQ_LOCAL_COMM_ID));
	PUT(m, REJ_MESSAGE_REJECTED,
	    attr == URXE_MAD_REQ   ? URXE_CM_ANSWER_REQ
	    : attr == URXE_MAD_REP ? URXE_CM_ANSWER_REP
				   : URXE_CM_ANSWER_OTHER);
	PUT(m, REJ_REASON, reason);
	PUT(m, REJ_REJECTED_INFO_LENGTH, ari_len);
	if (ari_len)
		memcpy(urxe_mad_bytes(m, URXE_REJ_ARI), ari, ari_len);
	urxe_cm_path_back(src, &path);
	if (attr == URXE_MAD_REQ)
		cm->counters.rejected++;
	urxe_cm_send_mad(cm, &path, m);
}

void urxe_cm_answer_drep(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad)
{
	struct urxe_cm_path path;
	uint8_t m[URXE_MAD_LEN];

	init_pair(m, URXE_MAD_DREP, urxe_mad_get(mad, URXE_HDR_TID),
		  (uint32_t)urxe_mad_get(mad, URXE_DREQ_REMOTE_COMM_ID),
		  (uint32_t)urxe_mad_get(mad, URXE_DREQ_LOCAL_COMM_ID));
	urxe_cm_path_back(src, &path);
	urxe_cm_send_mad(cm, &path, m);
}
