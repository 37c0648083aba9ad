/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Endpoints: an id, its address, route and QP in one call; requests of synchronous listeners. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/rdma/cma.h"

#define EP_TIMEOUT_MS 2000

static int passive_ep(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		      const struct ibv_qp_init_attr *attr)
{
	struct urxe_cma_id *p = to_cma_id(id);

	if (rdma_bind_addr(id, res->ai_src_addr))
		return -1;
	if (pd)
		id->pd = pd;
	if (!attr)
		return 0;
	p->qp_init_attr = malloc(sizeof(*attr));
	if (!p->qp_init_attr)
		return urxe_cma_ret(ENOMEM);
	*p->qp_init_attr = *attr;
	p->qp_init_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int active_ep(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		     struct ibv_qp_init_attr *attr)
{
	struct urxe_cma_id *p = to_cma_id(id);

	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, EP_TIMEOUT_MS))
		return -1;
	if (res->ai_route_len) {
		if (rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
				    res->ai_route_len) ||
		    urxe_cma_complete(id))
			return -1;
	} else if (rdma_resolve_route(id, EP_TIMEOUT_MS)) {
		return -1;
	}
	if (attr) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(id, pd, attr))
			return -1;
	}
	if (!res->ai_connect_len)
		return 0;
	p->connect = malloc(res->ai_connect_len);
	if (!p->connect)
		return urxe_cma_ret(ENOMEM);
	memcpy(p->connect, res->ai_connect, res->ai_connect_len);
	p->connect_len = res->ai_connect_len;
	return 0;
}

/* Which QP types a port space has: RDMA_PS_IB is for any. */
static int ep_qp_type(int ps, int qp_type)
{
	bool rc = qp_type == IBV_QPT_RC || qp_type == IBV_QPT_UC, ud = qp_type == IBV_QPT_UD;
	bool xrc = qp_type == IBV_QPT_XRC_SEND || qp_type == IBV_QPT_XRC_RECV;

	switch (ps) {
	case RDMA_PS_TCP:
		return rc ? 0 : EINVAL;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return ud ? 0 : EINVAL;
	case RDMA_PS_IB:
		return rc || ud || xrc ? 0 : EINVAL;
	default:
		return EINVAL;
	}
}

URXE_CMA_API int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res,
				struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	struct rdma_cm_id *p;
	int err, ret, saved;

	if (!id || !res)
		return urxe_cma_ret(EINVAL);
	err = ep_qp_type(res->ai_port_space, res->ai_qp_type);
	if (!err)
		err = urxe_cma_create_id(NULL, &p, NULL, (enum rdma_port_space)res->ai_port_space,
					 (enum ibv_qp_type)res->ai_qp_type);
	if (err)
		return urxe_cma_ret(err);
	if (res->ai_flags & RAI_PASSIVE)
		ret = passive_ep(p, res, pd, qp_init_attr);
	else
		ret = active_ep(p, res, pd, qp_init_attr);
	if (ret) {
		saved = errno;
		rdma_destroy_ep(p);
		errno = saved;
		return -1;
	}
	*id = p;
	return 0;
}

URXE_CMA_API void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

static int check_request(struct rdma_cm_id *listen, struct rdma_cm_event *event)
{
	struct urxe_cma_id *p = to_cma_id(listen);
	struct ibv_qp_init_attr attr;

	if (event->status)
		return urxe_cma_ret(event->status < 0 ? -event->status : event->status);
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return urxe_cma_ret(EINVAL);
	if (!p->qp_init_attr)
		return 0;
	attr = *p->qp_init_attr;
	return rdma_create_qp(event->id, listen->pd, &attr);
}

URXE_CMA_API int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;

	if (!listen || !id || !to_cma_id(listen)->sync)
		return urxe_cma_ret(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (check_request(listen, event)) {
		int saved = errno;

		/* Nobody else can: the caller does not get to see the new id. */
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			rdma_destroy_id(event->id);
		listen->event = event;
		errno = saved;
		return -1;
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}
