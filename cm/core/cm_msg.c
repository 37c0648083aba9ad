/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of the IB CM, put together from ids and parameters. */
#include <string.h>

#include "cm/core/cm_priv.h"
#include "cm/core/trace.h"

/* Within this a peer that missed a DREP may still ask for it. */
#define DREP_NEWS_NS 1000000000ull

#define PUT(mad, field, value) urxe_mad_put(mad, URXE_##field, value)

void urxe_cm_send_mad(struct urxe_cm *cm, const struct urxe_cm_path *path, const uint8_t *mad)
{
	uint16_t attr = urxe_mad_get16(mad, URXE_HDR_ATTR_ID);

	cm->counters.sent[attr - URXE_MAD_REQ]++;
	urxe_trace_mad_tx(mad);
	cm->ops->send(cm->arg, path, mad);
}

void urxe_cm_unheard(const struct urxe_cm_id *id)
{
	if (id->cm->ops->suspect)
		id->cm->ops->suspect(id->cm->arg, &id->path);
}

void urxe_cm_count_retry(struct urxe_cm_id *id, uint16_t attr)
{
	urxe_cm_unheard(id);
	urxe_trace_cm_retry(id, attr);
	id->retries++;
	id->cm->counters.retried[attr - URXE_MAD_REQ]++;
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

#define PATH_FIELDS(msg, which)                                                                  \
	{                                                                                        \
		URXE_##msg##_##which##_LOCAL_LID, URXE_##msg##_##which##_REMOTE_LID,             \
			URXE_##msg##_##which##_LOCAL_GID, URXE_##msg##_##which##_REMOTE_GID,     \
			URXE_##msg##_##which##_FLOW_LABEL, URXE_##msg##_##which##_TRAFFIC_CLASS, \
			URXE_##msg##_##which##_HOP_LIMIT, URXE_##msg##_##which##_SL,             \
			URXE_##msg##_##which##_ACK_TIMEOUT                                       \
	}
const struct urxe_cm_path_fields urxe_cm_req_primary = PATH_FIELDS(REQ, PRIMARY);
const struct urxe_cm_path_fields urxe_cm_req_alternate = PATH_FIELDS(REQ, ALTERNATE);
const struct urxe_cm_path_fields urxe_cm_lap_alternate = PATH_FIELDS(LAP, ALTERNATE);
#undef PATH_FIELDS

void urxe_cm_put_path(uint8_t *mad, const struct urxe_cm_path_fields *f,
		      const struct urxe_cm_path *p)
{
	urxe_mad_put(mad, f->local_lid, URXE_CM_ADV_LID);
	urxe_mad_put(mad, f->remote_lid, URXE_CM_ADV_LID);
	put_gid(mad, f->local_gid, &p->sgid);
	put_gid(mad, f->remote_gid, &p->dgid);
	urxe_mad_put(mad, f->flow_label, p->flow_label);
	urxe_mad_put(mad, f->traffic_class, p->traffic_class);
	urxe_mad_put(mad, f->hop_limit, p->hop_limit);
	urxe_mad_put(mad, f->sl, p->sl);
	urxe_mad_put(mad, f->ack_timeout, p->ack_timeout);
}

void urxe_cm_read_path(const uint8_t *mad, const struct urxe_cm_path_fields *f,
		       struct urxe_cm_path *p)
{
	memcpy(p->dgid.raw, urxe_mad_cbytes(mad, f->local_gid), sizeof(p->dgid.raw));
	memcpy(p->sgid.raw, urxe_mad_cbytes(mad, f->remote_gid), sizeof(p->sgid.raw));
	p->flow_label = urxe_mad_get32(mad, f->flow_label);
	p->traffic_class = urxe_mad_get8(mad, f->traffic_class);
	p->hop_limit = urxe_mad_get8(mad, f->hop_limit);
	if (!p->hop_limit)
		p->hop_limit = 64;
	p->sl = urxe_mad_get8(mad, f->sl);
	p->ack_timeout = urxe_mad_get8(mad, f->ack_timeout);
}

bool urxe_cm_req_has_alternate(const uint8_t *mad)
{
	static const union ibv_gid none;

	return urxe_mad_get(mad, URXE_REQ_ALTERNATE_LOCAL_LID) ||
	       memcmp(urxe_mad_cbytes(mad, URXE_REQ_ALTERNATE_LOCAL_GID), &none, sizeof(none));
}

/* What is advertised: as asked for, else as the kernel's CM does. */
static uint8_t or_ours(uint8_t asked, uint8_t ours)
{
	return asked ? asked : ours;
}

/* Transport service type and extended transport type of a REQ (table 106, A14.4.2). */
static const struct urxe_cm_transport transports[] = {
	{IBV_QPT_RC, IBV_QPT_RC, 0, 0},
	{IBV_QPT_UC, IBV_QPT_UC, 1, 0},
	{IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, 3, 1},
};

const struct urxe_cm_transport *urxe_cm_transport(enum ibv_qp_type active)
{
	for (unsigned i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		if (transports[i].active == active)
			return &transports[i];
	}
	return NULL;
}

enum ibv_qp_type urxe_cm_req_qp_type(const uint8_t *mad)
{
	for (unsigned i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		if (transports[i].service == urxe_mad_get(mad, URXE_REQ_TRANSPORT_SERVICE_TYPE) &&
		    transports[i].extended == urxe_mad_get(mad, URXE_REQ_EXT_TRANSPORT_TYPE))
			return transports[i].passive;
	}
	return (enum ibv_qp_type)0;
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
	PUT(m, REQ_REMOTE_CM_RESPONSE_TIMEOUT,
	    or_ours(req->remote_timeout, URXE_CM_ADV_RESPONSE_TIMEOUT));
	PUT(m, REQ_TRANSPORT_SERVICE_TYPE, urxe_cm_transport(req->qp_type)->service);
	PUT(m, REQ_EXT_TRANSPORT_TYPE, urxe_cm_transport(req->qp_type)->extended);
	PUT(m, REQ_FLOW_CONTROL, c->flow_control);
	PUT(m, REQ_STARTING_PSN, c->psn);
	PUT(m, REQ_LOCAL_CM_RESPONSE_TIMEOUT,
	    or_ours(req->local_timeout, URXE_CM_ADV_RESPONSE_TIMEOUT));
	PUT(m, REQ_RETRY_COUNT, c->retry_count);
	PUT(m, REQ_PKEY, p->pkey);
	PUT(m, REQ_PATH_MTU, p->mtu);
	PUT(m, REQ_RNR_RETRY_COUNT, c->rnr_retry_count);
	PUT(m, REQ_MAX_CM_RETRIES, req->tries ? req->tries - 1u : URXE_CM_ADV_RETRIES);
	PUT(m, REQ_SRQ, c->srq);
	urxe_cm_put_path(m, &urxe_cm_req_primary, p);
	if (req->alternate)
		urxe_cm_put_path(m, &urxe_cm_req_alternate, req->alternate);
	urxe_cm_put_private(m, URXE_REQ_PRIVATE_DATA, c->private_data, c->private_len);
}

void urxe_cm_build_rep(struct urxe_cm_id *id, const struct urxe_cm_conn *c)
{
	uint8_t *m = id->mad;

	urxe_mad_init(m, URXE_MAD_REP, id->tid);
	PUT(m, HDR_ATTR_MOD, c->ece.attr_mod);
	PUT(m, REP_LOCAL_COMM_ID, id->local_comm_id);
	PUT(m, REP_REMOTE_COMM_ID, id->remote_comm_id);
	if (id->cm->cfg.probe_ms)
		PUT(m, REP_LOCAL_QKEY, URXE_CM_PROBES);
	if (id->qp_type == IBV_QPT_XRC_RECV)
		PUT(m, REP_LOCAL_EECN, c->qpn);
	else
		PUT(m, REP_LOCAL_QPN, c->qpn);
	PUT(m, REP_VENDOR_ID_H, c->ece.vendor_id >> 16);
	PUT(m, REP_VENDOR_ID_M, c->ece.vendor_id >> 8);
	PUT(m, REP_VENDOR_ID_L, c->ece.vendor_id);
	PUT(m, REP_STARTING_PSN, c->psn);
	PUT(m, REP_RESPONDER_RESOURCES, c->responder_resources);
	PUT(m, REP_INITIATOR_DEPTH, c->initiator_depth);
	PUT(m, REP_TARGET_ACK_DELAY, URXE_CM_ADV_ACK_DELAY);
	if (id->alt)
		PUT(m, REP_FAILOVER_ACCEPTED, c->failover);
	PUT(m, REP_FLOW_CONTROL, c->flow_control);
	PUT(m, REP_RNR_RETRY_COUNT, c->rnr_retry_count);
	/* An XRC target has nothing but SRQs. */
	PUT(m, REP_SRQ, c->srq || id->qp_type == IBV_QPT_XRC_RECV);
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
	id->drep_until = id->cm->ops->now(id->cm->arg) + DREP_NEWS_NS;
}

void urxe_cm_issue_mra(struct urxe_cm_id *id, enum urxe_cm_answered what, uint8_t service,
		       const void *data, uint8_t len)
{
	uint8_t m[URXE_MAD_LEN];

	init_pair(m, URXE_MAD_MRA, what == URXE_CM_ANSWER_OTHER ? id->alt->tid : id->tid,
		  id->local_comm_id, id->remote_comm_id);
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

void urxe_cm_build_lap(struct urxe_cm_id *id, const struct urxe_cm_reply *r)
{
	uint8_t *m = id->alt->lap;

	init_pair(m, URXE_MAD_LAP, urxe_cm_new_tid(id->cm), id->local_comm_id, id->remote_comm_id);
	PUT(m, LAP_REMOTE_QPN, id->remote_qpn);
	PUT(m, LAP_REMOTE_CM_RESPONSE_TIMEOUT, URXE_CM_ADV_RESPONSE_TIMEOUT);
	urxe_cm_put_path(m, &urxe_cm_lap_alternate, r->path);
	urxe_cm_put_private(m, URXE_LAP_PRIVATE_DATA, r->private_data, r->private_len);
}

void urxe_cm_build_apr(struct urxe_cm_id *id, uint64_t tid, const struct urxe_cm_reply *r,
		       uint8_t *m)
{
	init_pair(m, URXE_MAD_APR, tid, id->local_comm_id, id->remote_comm_id);
	PUT(m, APR_AR_STATUS, r->reason);
	if (r->ari && r->ari_len) {
		PUT(m, APR_INFO_LENGTH, r->ari_len);
		urxe_cm_put_private(m, URXE_APR_INFO, r->ari, r->ari_len);
	}
	urxe_cm_put_private(m, URXE_APR_PRIVATE_DATA, r->private_data, r->private_len);
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
	uint16_t attr = urxe_mad_get16(mad, URXE_HDR_ATTR_ID);
	struct urxe_cm_path path;
	uint8_t m[URXE_MAD_LEN];

	/* The first field of each is the sender's comm id; only REP names ours too. */
	init_pair(m, URXE_MAD_REJ, urxe_mad_get(mad, URXE_HDR_TID),
		  attr == URXE_MAD_REP ? urxe_mad_get32(mad, URXE_REP_REMOTE_COMM_ID) : 0,
		  urxe_mad_get32(mad, URXE_REQ_LOCAL_COMM_ID));
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
		  urxe_mad_get32(mad, URXE_DREQ_REMOTE_COMM_ID),
		  urxe_mad_get32(mad, URXE_DREQ_LOCAL_COMM_ID));
	urxe_cm_path_back(src, &path);
	urxe_cm_send_mad(cm, &path, m);
}
