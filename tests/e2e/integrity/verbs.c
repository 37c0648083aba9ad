/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The verbs objects of a node, and the TCP connection by which two nodes exchange their numbers. */
#include "verbs.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEPTH	  64u
#define IOVA	  0x123456789000u /* of the second MR */
#define TIMEOUT	  14		  /* 67 ms */
#define RNR_TIMER 10		  /* 0.32 ms */
#define RETRIES	  7
#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/* ---- TCP ---- */

int verbs_tcp(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *res;
	int fd, on = 1, got;

	hints.ai_flags = host ? 0 : AI_PASSIVE;
	need(!getaddrinfo(host, port, &hints, &res), "getaddrinfo");
	fd = socket(res->ai_family, res->ai_socktype | SOCK_CLOEXEC, 0);
	need(fd >= 0, "socket");
	if (host) {
		need(!connect(fd, res->ai_addr, res->ai_addrlen), "connect");
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		need(!bind(fd, res->ai_addr, res->ai_addrlen) && !listen(fd, 1), "listen");
		got = accept(fd, NULL, NULL);
		need(got >= 0, "accept");
		close(fd);
		fd = got;
	}
	freeaddrinfo(res);
	return fd;
}

void verbs_exchange(struct verbs *v, const void *out, void *in, size_t len)
{
	need(send(v->fd, out, len, MSG_NOSIGNAL) == (ssize_t)len, "to the peer by TCP");
	errno = ECONNRESET;
	need(recv(v->fd, in, len, MSG_WAITALL) == (ssize_t)len, "from the peer by TCP");
}

/* ---- objects ---- */

unsigned verbs_open(struct verbs *v)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;

	for (unsigned i = 0; list && list[i] && !v->ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "urxe0"))
			v->ctx = ibv_open_device(list[i]);
	need(v->ctx, "no device urxe0");
	ibv_free_device_list(list);
	need(!ibv_query_port(v->ctx, 1, &port), "ibv_query_port");
	need(!posix_memalign((void **)&v->arena, 4096, ARENA), "memory");
	return 128u << port.active_mtu;
}

static void make_srq(struct verbs *v, const struct shape *s)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = DEPTH, .max_sge = MAX_SGE},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = v->pd,
	};
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};

	if (s->transport == XRC) {
		v->xrcd = ibv_open_xrcd(v->ctx, &xrcd);
		need(v->xrcd, "ibv_open_xrcd");
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		attr.srq_type = IBV_SRQT_XRC;
		attr.xrcd = v->xrcd;
		attr.cq = v->rcq;
	}
	v->srq = ibv_create_srq_ex(v->ctx, &attr);
	need(v->srq, "ibv_create_srq_ex");
	if (s->transport == XRC)
		need(!ibv_get_srq_num(v->srq, &v->own.srqn), "ibv_get_srq_num");
}

static uint64_t builder_ops(enum transport t)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (t != UD)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (t == RC || t == XRC)
		ops |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE;
	if (t == RC)
		ops |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW |
		       IBV_QP_EX_WITH_LOCAL_INV;
	return ops;
}

static void make_qp(struct verbs *v, const struct shape *s, unsigned q)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						 IBV_QPT_XRC_SEND};
	struct ibv_qp_init_attr_ex attr = {
		.cap = {DEPTH, DEPTH, MAX_SGE, MAX_SGE, 512},
		.send_cq = v->scq,
		.recv_cq = v->rcq,
		.srq = s->transport == XRC ? NULL : v->srq,
		.qp_type = types[s->transport],
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | (s->builder ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = v->pd,
		.send_ops_flags = builder_ops(s->transport),
	};
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = v->xrcd,
	};

	v->qp[q] = ibv_create_qp_ex(v->ctx, &attr);
	need(v->qp[q], "ibv_create_qp_ex");
	v->rqp[q] = v->qp[q];
	if (s->transport == XRC) {
		v->rqp[q] = ibv_create_qp_ex(v->ctx, &target);
		need(v->rqp[q], "ibv_create_qp_ex of XRC_RECV");
	}
	if (s->windows) {
		v->mw[q] = ibv_alloc_mw(v->pd, IBV_MW_TYPE_2);
		need(v->mw[q], "ibv_alloc_mw");
	}
}

static void to_init(const struct shape *s, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags =
			s->transport == UC ? IBV_ACCESS_REMOTE_WRITE : ACCESS & ~IBV_ACCESS_MW_BIND,
	};

	need(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    (s->transport == UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
	     "to INIT");
}

static struct ibv_ah_attr path(const struct verbs *v, const struct shape *s)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = v->peer.gid, .sgid_index = s->v6, .hop_limit = 64},
	};
}

static void to_rts(struct verbs *v, const struct shape *s, struct ibv_qp *qp, unsigned q)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = v->own.mtu,
		.dest_qp_num = v->peer.qpn[q],
		.rq_psn = v->peer.psn[q],
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = path(v, s),
	};
	int rtr = IBV_QP_STATE, rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (s->transport != UD)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (s->transport == RC || qp->qp_type == IBV_QPT_XRC_RECV)
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	need(!ibv_modify_qp(qp, &attr, rtr), "to RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .sq_psn = v->own.psn[q],
				    .timeout = TIMEOUT,
				    .retry_cnt = RETRIES,
				    .rnr_retry = 7,
				    .max_rd_atomic = 16};
	if (s->transport == RC || s->transport == XRC)
		rts |= IBV_QP_TIMEOUT;
	if (s->transport == RC || qp->qp_type == IBV_QPT_XRC_SEND)
		rts |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	need(!ibv_modify_qp(qp, &attr, rts), "to RTS");
}

static void make(struct verbs *v, const struct shape *s)
{
	v->pd = ibv_alloc_pd(v->ctx);
	need(v->pd, "ibv_alloc_pd");
	v->mr[0] = ibv_reg_mr(v->pd, v->arena, ARENA, ACCESS);
	need(v->mr[0], "ibv_reg_mr");
	v->mr[1] = ibv_reg_mr_iova(v->pd, v->arena, ARENA, IOVA, ACCESS);
	need(v->mr[1], "ibv_reg_mr_iova");
	v->own.base[0] = (uintptr_t)v->arena;
	v->own.base[1] = IOVA;
	v->own.rkey[0] = v->mr[0]->rkey;
	v->own.rkey[1] = v->mr[1]->rkey;
	v->channel = ibv_create_comp_channel(v->ctx);
	need(v->channel, "ibv_create_comp_channel");
	v->scq = ibv_create_cq(v->ctx, 2 * MAX_QP * DEPTH, NULL, v->channel, 0);
	v->rcq = ibv_create_cq(v->ctx, 2 * MAX_QP * DEPTH, NULL, v->channel, 0);
	need(v->scq && v->rcq, "ibv_create_cq");
	if (s->srq)
		make_srq(v, s);
	for (unsigned q = 0; q < s->qps; q++)
		make_qp(v, s, q);
}

void verbs_connect(struct verbs *v, const struct shape *s)
{
	struct ibv_ah_attr ah;

	make(v, s);
	need(!ibv_query_gid(v->ctx, 1, s->v6, &v->own.gid), "ibv_query_gid");
	for (v->own.mtu = IBV_MTU_256; 128u << v->own.mtu < s->mtu;)
		v->own.mtu++;
	for (unsigned q = 0; q < s->qps; q++) {
		/* XRC: the peer's sender speaks to what receives here */
		v->own.qpn[q] = v->rqp[q]->qp_num;
		v->own.psn[q] = (uint32_t)(s->seed * 77773 + q * 4099 + s->batches) & 0xffffff;
	}
	verbs_exchange(v, &v->own, &v->peer, sizeof(v->own));
	errno = EINVAL;
	need(v->own.mtu == v->peer.mtu, "another MTU at the peer's");
	for (unsigned q = 0; q < s->qps; q++) {
		to_init(s, v->qp[q]);
		if (v->rqp[q] != v->qp[q])
			to_init(s, v->rqp[q]);
	}
	if (s->transport == XRC) {
		/* Each of the two has its counterpart: the sender's number goes to the receiver. */
		struct link_addr mine = v->own, theirs;

		for (unsigned q = 0; q < s->qps; q++)
			to_rts(v, s, v->qp[q], q);
		for (unsigned q = 0; q < s->qps; q++)
			mine.qpn[q] = v->qp[q]->qp_num;
		verbs_exchange(v, &mine, &theirs, sizeof(mine));
		for (unsigned q = 0; q < s->qps; q++) {
			uint32_t to = v->peer.qpn[q];

			v->peer.qpn[q] = theirs.qpn[q];
			to_rts(v, s, v->rqp[q], q);
			v->peer.qpn[q] = to;
		}
	} else {
		for (unsigned q = 0; q < s->qps; q++)
			to_rts(v, s, v->qp[q], q);
	}
	if (s->transport == UD) {
		ah = path(v, s);
		v->ah = ibv_create_ah(v->pd, &ah);
		need(v->ah, "ibv_create_ah");
	}
}

void verbs_close(struct verbs *v)
{
	for (unsigned q = 0; q < MAX_QP; q++) {
		if (v->mw[q])
			need(!ibv_dealloc_mw(v->mw[q]), "ibv_dealloc_mw");
		if (v->rqp[q] && v->rqp[q] != v->qp[q])
			need(!ibv_destroy_qp(v->rqp[q]), "ibv_destroy_qp");
		if (v->qp[q])
			need(!ibv_destroy_qp(v->qp[q]), "ibv_destroy_qp");
	}
	if (v->ah)
		need(!ibv_destroy_ah(v->ah), "ibv_destroy_ah");
	if (v->srq)
		need(!ibv_destroy_srq(v->srq), "ibv_destroy_srq");
	if (v->xrcd)
		need(!ibv_close_xrcd(v->xrcd), "ibv_close_xrcd");
	need(!ibv_destroy_cq(v->scq) && !ibv_destroy_cq(v->rcq), "ibv_destroy_cq");
	need(!ibv_destroy_comp_channel(v->channel), "ibv_destroy_comp_channel");
	need(!ibv_dereg_mr(v->mr[0]) && !ibv_dereg_mr(v->mr[1]), "ibv_dereg_mr");
	need(!ibv_dealloc_pd(v->pd), "ibv_dealloc_pd");
	need(!ibv_close_device(v->ctx), "ibv_close_device");
	free(v->arena);
	close(v->fd);
}
