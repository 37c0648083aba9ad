/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* QPs and SRQs on ids, with the CQs that an application leaves to us. */
#include <errno.h>
#include <string.h>

#include "cm/rdma/cma.h"

int urxe_cma_init_qp_attr(struct urxe_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	bool ud = id->id.qp_type == IBV_QPT_UD;
	int err;

	/* As the kernel: none for who listens, nor when the connection is over. */
	if (!id->dev || (id->state == URXE_CMA_LISTEN && !ud))
		return EINVAL;
	if (id->cm && !ud) {
		err = urxe_cm_init_qp_attr(id->cm, attr, mask);
		if (err)
			return err;
		if (attr->qp_state == IBV_QPS_RTR)
			attr->rq_psn = id->psn;
		if (*mask & IBV_QP_MIN_RNR_TIMER)
			attr->min_rnr_timer = id->min_rnr_timer;
		if (*mask & IBV_QP_MAX_DEST_RD_ATOMIC && id->passive)
			attr->max_dest_rd_atomic = id->responder_resources;
		if (*mask & IBV_QP_MAX_QP_RD_ATOMIC && id->passive)
			attr->max_rd_atomic = id->initiator_depth;
		return 0;
	}
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr->pkey_index = 0;
		attr->port_num = 1;
		attr->qp_access_flags = 0;
		attr->qkey = RDMA_UDP_QKEY;
		*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
		return 0;
	case IBV_QPS_RTR:
		*mask = IBV_QP_STATE;
		return ud ? 0 : EINVAL;
	case IBV_QPS_RTS:
		attr->sq_psn = 0;
		*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
		return ud ? 0 : EINVAL;
	default:
		return EINVAL;
	}
}

URXE_CMA_API int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr,
				   int *qp_attr_mask)
{
	int err;

	if (!qp_attr || !qp_attr_mask)
		return urxe_cma_ret(EINVAL);
	err = urxe_cma_begin(id);
	if (!err)
		err = urxe_cma_end(urxe_cma_init_qp_attr(to_cma_id(id), qp_attr, qp_attr_mask));
	return urxe_cma_ret(err);
}

static int to_state(struct urxe_cma_id *id, struct ibv_qp *qp, enum ibv_qp_state state, int *extra)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask, err = urxe_cma_init_qp_attr(id, &attr, &mask);

	if (err)
		return err;
	/* The access flags are known since the connection's parameters are. */
	if (extra) {
		struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT};
		int init_mask;

		err = urxe_cma_init_qp_attr(id, &init, &init_mask);
		if (err)
			return err;
		attr.qp_access_flags = init.qp_access_flags;
		mask |= *extra;
	}
	return ibv_modify_qp(qp, &attr, mask);
}

int urxe_cma_qp_to_rts(struct urxe_cma_id *id)
{
	int access = IBV_QP_ACCESS_FLAGS, err;

	if (!id->id.qp)
		return 0;
	err = to_state(id, id->id.qp, IBV_QPS_RTR, &access);
	return err ? err : to_state(id, id->id.qp, IBV_QPS_RTS, NULL);
}

int urxe_cma_qp_load_alternate(struct urxe_cma_id *id)
{
	return id->id.qp ? to_state(id, id->id.qp, IBV_QPS_RTS, NULL) : EOPNOTSUPP;
}

int urxe_cma_qp_to_err(struct urxe_cma_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (!id->id.qp || id->id.qp_type == IBV_QPT_UD)
		return 0;
	return ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE);
}

static bool is_xrc_target(const struct rdma_cm_id *id)
{
	return id->qp_type == IBV_QPT_XRC_RECV;
}

/* The id's own CQs go with the last that completes into them: an XRC SRQ has one, too. */
static void destroy_cqs(struct rdma_cm_id *id)
{
	if (id->qp || (id->srq && is_xrc_target(id)))
		return;
	if (id->recv_cq) {
		ibv_destroy_cq(id->recv_cq);
		if (id->send_cq == id->recv_cq)
			id->send_cq = NULL;
		id->recv_cq = NULL;
	}
	if (id->send_cq) {
		ibv_destroy_cq(id->send_cq);
		id->send_cq = NULL;
	}
	if (id->recv_cq_channel) {
		ibv_destroy_comp_channel(id->recv_cq_channel);
		if (id->send_cq_channel == id->recv_cq_channel)
			id->send_cq_channel = NULL;
		id->recv_cq_channel = NULL;
	}
	if (id->send_cq_channel) {
		ibv_destroy_comp_channel(id->send_cq_channel);
		id->send_cq_channel = NULL;
	}
}

static int create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq,
		     struct ibv_comp_channel **channel)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return errno;
	*cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
	return *cq ? 0 : errno;
}

static int create_cqs(struct rdma_cm_id *id, uint32_t send_size, uint32_t recv_size)
{
	int err = 0;

	if (recv_size)
		err = create_cq(id, recv_size, &id->recv_cq, &id->recv_cq_channel);
	if (!err && send_size)
		err = create_cq(id, send_size, &id->send_cq, &id->send_cq_channel);
	if (err)
		destroy_cqs(id);
	return err;
}

/* A new QP is ready for receives; a datagram QP for sends as well. */
static int init_qp(struct urxe_cma_id *id, struct ibv_qp *qp) URXE_REQUIRES(urxe_cma_lock)
{
	int err = to_state(id, qp, IBV_QPS_INIT, NULL);

	if (err || id->id.qp_type != IBV_QPT_UD)
		return err;
	err = to_state(id, qp, IBV_QPS_RTR, NULL);
	return err ? err : to_state(id, qp, IBV_QPS_RTS, NULL);
}

static int install_qp(struct urxe_cma_id *id, struct ibv_qp *qp)
{
	int err = urxe_cma_begin(&id->id);

	if (err)
		return err;
	err = id->id.qp ? EINVAL : init_qp(id, qp);
	if (!err) {
		if (qp->pd)
			id->id.pd = qp->pd;
		id->id.qp = qp;
	}
	urxe_cma_leave();
	return err;
}

/* A target QP has neither CQs nor receives: those are of the SRQs in its domain. */
static int give_xrcd(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int err = 0;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)
		attr->xrcd = urxe_cma_xrcd(to_cma_id(id)->dev, &err);
	attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	attr->comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_PD;
	return err;
}

static int give_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int err = create_cqs(id, attr->send_cq || id->send_cq ? 0 : attr->cap.max_send_wr,
			     attr->recv_cq || id->recv_cq ? 0 : attr->cap.max_recv_wr);

	if (err)
		return err;
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	return 0;
}

static int create_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int err;

	if (id->qp || !id->verbs || attr->qp_type != id->qp_type)
		return EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	} else if (attr->pd->context != id->verbs) {
		return EINVAL;
	}
	if ((id->recv_cq && attr->recv_cq && id->recv_cq != attr->recv_cq) ||
	    (id->send_cq && attr->send_cq && id->send_cq != attr->send_cq))
		return EINVAL;
	err = is_xrc_target(id) ? give_xrcd(id, attr) : give_cqs(id, attr);
	if (err)
		return err;
	qp = ibv_create_qp_ex(id->verbs, attr);
	if (!qp) {
		err = errno;
	} else {
		err = install_qp(to_cma_id(id), qp);
		if (err)
			ibv_destroy_qp(qp);
	}
	if (err)
		destroy_cqs(id);
	return err;
}

URXE_CMA_API int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	return urxe_cma_ret(id && attr ? create_qp(id, attr) : EINVAL);
}

URXE_CMA_API int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {0};
	int err;

	if (!id || !attr)
		return urxe_cma_ret(EINVAL);
	/* The one begins like the other (verbs.h). */
	memcpy(&ex, attr, sizeof(*attr));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd ? pd : id->pd;
	err = create_qp(id, &ex);
	memcpy(attr, &ex, sizeof(*attr));
	return urxe_cma_ret(err);
}

URXE_CMA_API void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct ibv_qp *qp;

	if (!id)
		return;
	/* From here on the CM does not touch it. */
	urxe_cma_hold();
	if (to_cma_id(id)->life == urxe_cma_life())
		urxe_cma_mcast_detach_all(to_cma_id(id));
	qp = id->qp;
	id->qp = NULL;
	urxe_cma_release();
	if (qp)
		ibv_destroy_qp(qp);
	destroy_cqs(id);
}

/* What the application leaves to us: the domain, and the CQ of its receives. */
static int give_srq_xrc(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int err = 0;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd)
		attr->xrcd = urxe_cma_xrcd(to_cma_id(id)->dev, &err);
	if (err)
		return err;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		if (!id->recv_cq)
			err = create_cqs(id, 0, attr->attr.max_wr);
		attr->cq = id->recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return err;
}

URXE_CMA_API int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq;
	int err;

	if (!id || !attr || !id->verbs || id->srq || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return urxe_cma_ret(EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	} else if (attr->pd->context != id->verbs)
		return urxe_cma_ret(EINVAL);
	err = attr->srq_type == IBV_SRQT_XRC ? give_srq_xrc(id, attr) : 0;
	if (err)
		return urxe_cma_ret(err);
	srq = ibv_create_srq_ex(id->verbs, attr);
	if (!srq) {
		err = errno;
		destroy_cqs(id);
		return urxe_cma_ret(err);
	}
	if (!id->pd)
		id->pd = attr->pd;
	id->srq = srq;
	return 0;
}

URXE_CMA_API int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
				 struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {0};
	int ret;

	if (!id || !attr)
		return urxe_cma_ret(EINVAL);
	memcpy(&ex, attr, sizeof(*attr));
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	ex.srq_type = is_xrc_target(id) ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	ex.pd = pd ? pd : id->pd;
	ret = rdma_create_srq_ex(id, &ex);
	memcpy(attr, &ex, sizeof(*attr));
	return ret;
}

URXE_CMA_API void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (!id || !id->srq)
		return;
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	destroy_cqs(id);
}
