/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Objects of XRC, and how two QPs are connected (xrc.h). */
#include "xrc.h"

#include <errno.h>

#include "harness.h"

struct ibv_xrcd *xrc_open_xrcd(struct ibv_context *ctx, int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(ctx, &a);
}

struct ibv_srq *xrc_make_srq(struct side *s, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			     struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 64, .max_sge = 2},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};

	return ibv_create_srq_ex(s->ctx, &a);
}

struct ibv_qp *xrc_make_send(struct side *s)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = s->cq,
		.cap = {.max_send_wr = 128, .max_send_sge = 2},
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = s->pd,
	};

	return ibv_create_qp_ex(s->ctx, &a);
}

struct ibv_qp *xrc_make_recv(struct side *s, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};

	return ibv_create_qp_ex(s->ctx, &a);
}

void xrc_connect(struct side *from, struct ibv_qp *snd, struct side *to, struct ibv_qp *rcv)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	const int conn =
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	a.qp_access_flags =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL_FATAL(ibv_modify_qp(i ? snd : rcv, &a,
						    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
							    IBV_QP_ACCESS_FLAGS),
				      0);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .rq_psn = 0xfffff0,
				 .max_dest_rd_atomic = 4,
				 .min_rnr_timer = 5};
	a.ah_attr = pair_path(to, from);
	a.dest_qp_num = snd->qp_num;
	/* What its own half needs must be there. */
	CU_ASSERT_EQUAL(ibv_modify_qp(rcv, &a, conn), EINVAL);
	CU_ASSERT_EQUAL_FATAL(
		ibv_modify_qp(rcv, &a, conn | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	a.ah_attr = pair_path(from, to);
	a.dest_qp_num = rcv->qp_num;
	CU_ASSERT_EQUAL_FATAL(ibv_modify_qp(snd, &a, conn), 0);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .sq_psn = 0xfffff0,
				 .timeout = 14,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .max_rd_atomic = 4};
	CU_ASSERT_EQUAL_FATAL(ibv_modify_qp(snd, &a,
					    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						    IBV_QP_MAX_QP_RD_ATOMIC),
			      0);
	CU_ASSERT_EQUAL_FATAL(ibv_modify_qp(rcv, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN),
			      0);
}

int xrc_post(struct ibv_qp *snd, struct side *from, struct side *to, const struct xrc_work *w)
{
	struct ibv_sge sge = {(uintptr_t)from->buf + w->off, w->len, from->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = w->id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = w->op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htobe32(7)},
			   *bad;

	if (w->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->buf + w->remote;
		wr.wr.atomic.rkey = to->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (w->op != IBV_WR_SEND && w->op != IBV_WR_SEND_WITH_IMM) {
		wr.wr.rdma.remote_addr = (uintptr_t)to->buf + w->remote;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	wr.qp_type.xrc.remote_srqn = w->srqn;
	return ibv_post_send(snd, &wr, &bad);
}

int xrc_recv(struct ibv_srq *srq, struct side *s, uint64_t id, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->buf + off, len, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}
