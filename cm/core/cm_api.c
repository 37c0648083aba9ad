/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The calls of the IB CM, each an input of the state table; and QP attributes of a connection. */
#include <errno.h>
#include <string.h>

#include "cm/core/cm_priv.h"

static int call(struct urxe_cm_id *id, enum urxe_cm_input in, const void *param)
{
	struct urxe_cm_step s = {.param = param};

	return urxe_cm_do(id, in, &s);
}

/* A length without data counts for nothing, as with the kernel. */
static int reply(struct urxe_cm_id *id, enum urxe_cm_input in, struct urxe_cm_reply *r,
		 unsigned room)
{
	if (!r->private_data)
		r->private_len = 0;
	if (r->private_len > room)
		return EINVAL;
	return call(id, in, r);
}

int urxe_cm_listen(struct urxe_cm_id *id, uint64_t service_id, uint64_t mask)
{
	struct urxe_cm_reply r = {.service_id = service_id, .mask = mask};

	return call(id, URXE_CM_IN_LISTEN, &r);
}

int urxe_cm_send_req(struct urxe_cm_id *id, const struct urxe_cm_req *req)
{
	return call(id, URXE_CM_IN_SEND_REQ, req);
}

int urxe_cm_send_rep(struct urxe_cm_id *id, const struct urxe_cm_conn *rep)
{
	return call(id, URXE_CM_IN_SEND_REP, rep);
}

int urxe_cm_ignore(struct urxe_cm_id *id)
{
	return call(id, URXE_CM_IN_IGNORE, NULL);
}

int urxe_cm_tell_again(struct urxe_cm_id *id)
{
	return call(id, URXE_CM_IN_TELL_AGAIN, NULL);
}

uint64_t urxe_cm_silence(const struct urxe_cm_id *id)
{
	return id->cm->ops->now(id->cm->arg) - id->heard;
}

int urxe_cm_send_rtu(struct urxe_cm_id *id, const void *private_data, uint8_t len)
{
	struct urxe_cm_reply r = {.private_data = private_data, .private_len = len};

	return reply(id, URXE_CM_IN_SEND_RTU, &r, URXE_RTU_PRIVATE_LEN);
}

/* One that gives a reason, and more information on it. */
static int verdict(struct urxe_cm_id *id, enum urxe_cm_input in, struct urxe_cm_reply *r,
		   uint8_t max_info, uint8_t max_private)
{
	if (!r->ari)
		r->ari_len = 0;
	if (r->ari_len > max_info)
		return EINVAL;
	return reply(id, in, r, max_private);
}

int urxe_cm_send_rej(struct urxe_cm_id *id, uint16_t reason, const void *ari, uint8_t ari_len,
		     const void *private_data, uint8_t len)
{
	struct urxe_cm_reply r = {.reason = reason,
				  .ari = ari,
				  .ari_len = ari_len,
				  .private_data = private_data,
				  .private_len = len};

	return verdict(id, URXE_CM_IN_SEND_REJ, &r, URXE_REJ_ARI_LEN, URXE_REJ_PRIVATE_LEN);
}

int urxe_cm_send_mra(struct urxe_cm_id *id, uint8_t service_timeout, const void *private_data,
		     uint8_t len)
{
	struct urxe_cm_reply r = {
		.reason = service_timeout, .private_data = private_data, .private_len = len};

	if (service_timeout > 31)
		return EINVAL;
	return reply(id, URXE_CM_IN_SEND_MRA, &r, URXE_MRA_PRIVATE_LEN);
}

int urxe_cm_send_dreq(struct urxe_cm_id *id, const void *private_data, uint8_t len)
{
	struct urxe_cm_reply r = {.private_data = private_data, .private_len = len};

	return reply(id, URXE_CM_IN_SEND_DREQ, &r, URXE_DREQ_PRIVATE_LEN);
}

int urxe_cm_send_drep(struct urxe_cm_id *id, const void *private_data, uint8_t len)
{
	struct urxe_cm_reply r = {.private_data = private_data, .private_len = len};

	return reply(id, URXE_CM_IN_SEND_DREP, &r, URXE_DREP_PRIVATE_LEN);
}

int urxe_cm_notify_established(struct urxe_cm_id *id)
{
	return call(id, URXE_CM_IN_ESTABLISH, NULL);
}

int urxe_cm_send_lap(struct urxe_cm_id *id, const struct urxe_cm_path *path,
		     const void *private_data, uint8_t len)
{
	struct urxe_cm_reply r = {.path = path, .private_data = private_data, .private_len = len};

	return reply(id, URXE_CM_IN_SEND_LAP, &r, URXE_LAP_PRIVATE_LEN);
}

int urxe_cm_send_apr(struct urxe_cm_id *id, uint8_t status, const void *info, uint8_t info_len,
		     const void *private_data, uint8_t len)
{
	struct urxe_cm_reply r = {.reason = status,
				  .ari = info,
				  .ari_len = info_len,
				  .private_data = private_data,
				  .private_len = len};

	return verdict(id, URXE_CM_IN_SEND_APR, &r, URXE_INFO_LEN, URXE_APR_PRIVATE_LEN);
}

int urxe_cm_notify_migrated(struct urxe_cm_id *id)
{
	return call(id, URXE_CM_IN_PATH_MIG, NULL);
}

void urxe_cm_set_wait(struct urxe_cm_id *id, uint32_t wait_ms, uint8_t tries)
{
	id->wait_ms = wait_ms;
	id->max_tries = tries;
}

int urxe_cm_send_sidr_req(struct urxe_cm_id *id, const struct urxe_cm_path *path,
			  uint64_t service_id, const void *private_data, uint8_t len)
{
	struct urxe_cm_reply r = {
		.path = path,
		.service_id = service_id,
		.private_data = private_data,
		.private_len = len,
	};

	return reply(id, URXE_CM_IN_SEND_SIDR_REQ, &r, URXE_SIDR_REQ_PRIVATE_LEN);
}

int urxe_cm_send_sidr_rep(struct urxe_cm_id *id, enum urxe_cm_sidr_status status, uint32_t qpn,
			  uint32_t qkey, const void *private_data, uint8_t len)
{
	static const struct urxe_cm_sidr_more none;

	return urxe_cm_send_sidr_rep_more(id, status, qpn, qkey, &none, private_data, len);
}

int urxe_cm_send_sidr_rep_more(struct urxe_cm_id *id, enum urxe_cm_sidr_status status, uint32_t qpn,
			       uint32_t qkey, const struct urxe_cm_sidr_more *more,
			       const void *private_data, uint8_t len)
{
	struct urxe_cm_reply r = {
		.reason = status,
		.qpn = qpn,
		.qkey = qkey,
		.ari = more->info,
		.ari_len = more->info_len,
		.ece = more->ece,
		.private_data = private_data,
		.private_len = len,
	};

	return verdict(id, URXE_CM_IN_SEND_SIDR_REP, &r, URXE_INFO_LEN, URXE_SIDR_REP_PRIVATE_LEN);
}

void urxe_cm_set_ack_timeout(struct urxe_cm_id *id, uint8_t timeout)
{
	id->ack_timeout = timeout;
	id->ack_timeout_set = true;
}

void urxe_cm_path_to_ah(const struct urxe_cm_path *path, struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = path->port_num,
		.sl = path->sl,
		.grh =
			{
				.dgid = path->dgid,
				.sgid_index = path->sgid_index,
				.flow_label = path->flow_label,
				.traffic_class = path->traffic_class,
				.hop_limit = path->hop_limit,
			},
	};
}

static void init_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	attr->pkey_index = 0;
	attr->port_num = id->path.port_num;
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
}

static uint8_t path_timeout(const struct urxe_cm_id *id, const struct urxe_cm_path *p)
{
	return urxe_cm_ack_timeout_chosen(p->ack_timeout) ? p->ack_timeout
							  : id->cm->cfg.qp_ack_timeout;
}

static void alt_attr(const struct urxe_cm_id *id, const struct urxe_cm_path *p,
		     struct ibv_qp_attr *attr, int *mask)
{
	urxe_cm_path_to_ah(p, &attr->alt_ah_attr);
	attr->alt_port_num = p->port_num;
	attr->alt_pkey_index = 0;
	attr->alt_timeout = path_timeout(id, p);
	*mask |= IBV_QP_ALT_PATH;
}

static bool is_offered(const struct urxe_cm_alt *alt)
{
	return alt->state == URXE_CM_LAP_RCVD || alt->state == URXE_CM_MRA_LAP_SENT;
}

/* The peer's offer, while it waits for the answer; else what was agreed on; or NULL. */
static const struct urxe_cm_path *alternate(const struct urxe_cm_id *id)
{
	if (!id->alt)
		return NULL;
	if (is_offered(id->alt))
		return &id->alt->offer;
	return id->alt->has_path ? &id->alt->path : NULL;
}

static void rtr_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	urxe_cm_path_to_ah(&id->path, &attr->ah_attr);
	attr->path_mtu = id->path.mtu;
	attr->dest_qp_num = id->remote_qpn;
	attr->rq_psn = id->rq_psn;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (alternate(id))
		alt_attr(id, alternate(id), attr, mask);
	if (id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_RECV)
		return;
	attr->max_dest_rd_atomic = id->responder_resources;
	attr->min_rnr_timer = 0; /* as the kernel's CM: 655 ms */
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void rts_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = 0;
	if (alternate(id)) {
		attr->path_mig_state = IBV_MIG_REARM;
		*mask = IBV_QP_PATH_MIG_STATE;
	}
	if (alternate(id) && (id->alt->by_lap || is_offered(id->alt))) {
		alt_attr(id, alternate(id), attr, mask);
		return;
	}
	attr->sq_psn = id->sq_psn;
	*mask |= IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (id->qp_type == IBV_QPT_UC)
		return;
	attr->timeout = id->ack_timeout_set ? id->ack_timeout : id->cm->cfg.qp_ack_timeout;
	*mask |= IBV_QP_TIMEOUT;
	if (id->qp_type == IBV_QPT_XRC_RECV)
		return;
	attr->retry_cnt = id->retry_count;
	attr->rnr_retry = id->rnr_retry_count;
	attr->max_rd_atomic = id->initiator_depth;
	*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

int urxe_cm_init_qp_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	bool connecting = id->state >= URXE_CM_REQ_SENT && id->state <= URXE_CM_ESTABLISHED;
	bool peer_known = id->state >= URXE_CM_REQ_RCVD && id->state <= URXE_CM_ESTABLISHED;

	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		if (!connecting)
			return EINVAL;
		init_attr(id, attr, mask);
		return 0;
	case IBV_QPS_RTR:
		if (!peer_known)
			return EINVAL;
		rtr_attr(id, attr, mask);
		return 0;
	case IBV_QPS_RTS:
		if (!peer_known)
			return EINVAL;
		rts_attr(id, attr, mask);
		return 0;
	default:
		return EINVAL;
	}
}
