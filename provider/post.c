/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Posting of work requests. Each is copied first, then checked on the copy.
 */
#include <errno.h>
#include <string.h>

#include "provider.h"

#define OP(x) (1u << IBV_WR_##x)

/* What each transport can do (IBTA 10.8.2, table 58). */
static const uint32_t allowed_ops[] = {
	[IBV_QPT_RC] = OP(RDMA_WRITE) | OP(RDMA_WRITE_WITH_IMM) | OP(SEND) | OP(SEND_WITH_IMM) |
		       OP(RDMA_READ) | OP(ATOMIC_CMP_AND_SWP) | OP(ATOMIC_FETCH_AND_ADD),
	[IBV_QPT_UC] = OP(RDMA_WRITE) | OP(RDMA_WRITE_WITH_IMM) | OP(SEND) | OP(SEND_WITH_IMM),
	[IBV_QPT_UD] = OP(SEND) | OP(SEND_WITH_IMM),
	[IBV_QPT_XRC_SEND] = OP(RDMA_WRITE) | OP(RDMA_WRITE_WITH_IMM) | OP(SEND) |
			     OP(SEND_WITH_IMM) | OP(RDMA_READ) | OP(ATOMIC_CMP_AND_SWP) |
			     OP(ATOMIC_FETCH_AND_ADD),
	[IBV_QPT_XRC_RECV] = 0,
};

#define OP_IS(wqe, set) (1u << (wqe)->opcode & (set))
#define OPS_ATOMIC	(OP(ATOMIC_CMP_AND_SWP) | OP(ATOMIC_FETCH_AND_ADD))
#define OPS_RDMA	(OP(RDMA_WRITE) | OP(RDMA_WRITE_WITH_IMM) | OP(RDMA_READ))

static int copy_inline(struct urxe_swqe *wqe, const struct ibv_send_wr *wr, uint32_t max)
{
	uint32_t at = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		struct ibv_sge sge = wr->sg_list[i];

		if (sge.length > max - at)
			return EINVAL;
		memcpy(wqe->data + at, (const void *)(uintptr_t)sge.addr, sge.length);
		at += sge.length;
	}
	wqe->length = at;
	wqe->num_sge = 0;
	return 0;
}

static int copy_sges(struct urxe_swqe *wqe, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	wqe->num_sge = (uint8_t)wr->num_sge;
	for (unsigned i = 0; i < wqe->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		length += wqe->sge[i].length;
	}
	if (length > URXE_MAX_MSG_SZ)
		return EINVAL;
	wqe->length = (uint32_t)length;
	return 0;
}

static int fill_transport(const struct urxe_qp *qp, struct urxe_swqe *wqe,
			  const struct ibv_send_wr *wr)
{
	struct urxe_ah *ah;

	if (qp->type == IBV_QPT_UD) {
		uint32_t room;

		if (!wr->wr.ud.ah)
			return EINVAL;
		ah = urxe_container_of(wr->wr.ud.ah, struct urxe_ah, ah);
		if (to_urxe_pd(ah->ah.pd)->root != qp->pd)
			return EINVAL;
		room = qp->mtu;
		if (wqe->length > room)
			return EINVAL;
		wqe->remote_qpn = wr->wr.ud.remote_qpn & URXE_QPN_MASK;
		/* A Q_Key with the high bit set stands for the QP's own (IBTA 10.2.5). */
		wqe->remote_qkey =
			wr->wr.ud.remote_qkey & 0x80000000u ? qp->attr.qkey : wr->wr.ud.remote_qkey;
		atomic_fetch_add_explicit(&ah->refs, 1, memory_order_relaxed);
		wqe->ah = ah;
		return 0;
	}
	if (qp->type == IBV_QPT_XRC_SEND)
		wqe->remote_qpn = wr->qp_type.xrc.remote_srqn;
	if (OP_IS(wqe, OPS_RDMA)) {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	} else if (OP_IS(wqe, OPS_ATOMIC)) {
		if (wqe->length != 8)
			return EINVAL;
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	}
	return 0;
}

/* qp->lock held */
static int post_one(struct urxe_qp *qp, const struct ibv_send_wr *wr)
{
	struct urxe_sq *sq = &qp->sq;
	struct urxe_swqe *wqe;
	unsigned flags = wr->send_flags;
	int err;

	if ((unsigned)wr->opcode > 31 || !(1u << wr->opcode & allowed_ops[qp->type]))
		return EINVAL;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > sq->max_sge)
		return EINVAL;
	if (sq->post - sq->done >= sq->max_wr)
		return ENOMEM;
	wqe = urxe_sq_at(sq, sq->post);
	wqe->wr_id = wr->wr_id;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->imm = wr->imm_data;
	wqe->ah = NULL;
	wqe->flags = 0;
	if (flags & IBV_SEND_SIGNALED || qp->sq_sig_all)
		wqe->flags |= URXE_WQE_SIGNALED;
	if (flags & IBV_SEND_SOLICITED)
		wqe->flags |= URXE_WQE_SOLICITED;
	if (flags & IBV_SEND_FENCE)
		wqe->flags |= URXE_WQE_FENCE;
	if (flags & IBV_SEND_INLINE) {
		if (OP_IS(wqe, OPS_ATOMIC | OP(RDMA_READ)))
			return EINVAL;
		wqe->flags |= URXE_WQE_INLINE;
		err = copy_inline(wqe, wr, sq->max_inline);
	} else {
		err = copy_sges(wqe, wr);
	}
	if (!err)
		err = fill_transport(qp, wqe, wr);
	if (!err)
		sq->post++;
	return err;
}

int urxe_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	int err = 0;

	if (atomic_load_explicit(&qp->dev->dead, memory_order_relaxed)) {
		*bad = wr;
		return EIO;
	}
	urxe_spin_lock(&qp->lock);
	if (qp->state < IBV_QPS_RTS || !qp->scq) {
		*bad = wr;
		err = EINVAL;
		goto out;
	}
	for (; wr; wr = wr->next) {
		err = post_one(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		while (qp->sq.done != qp->sq.post)
			urxe_requester_complete(qp, IBV_WC_WR_FLUSH_ERR);
	else
		urxe_progress_kick(qp);
out:
	urxe_spin_unlock(&qp->lock);
	return err;
}

int urxe_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	struct urxe_rq *rq = &qp->own_rq;
	struct ibv_wc wc;
	int err = 0;

	/* In the error state a WQE is flushed at once, so the state must not change meanwhile. */
	urxe_spin_lock(&qp->lock);
	if (qp->srq || qp->state == IBV_QPS_RESET) {
		urxe_spin_unlock(&qp->lock);
		*bad = wr;
		return EINVAL;
	}
	urxe_spin_lock(&rq->lock);
	for (; wr; wr = wr->next) {
		err = urxe_rq_post(rq, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	while (qp->state == IBV_QPS_ERR && rq->tail != rq->head) {
		urxe_qp_wc(qp, &wc, urxe_rq_at(rq, rq->tail++)->wr_id, IBV_WC_WR_FLUSH_ERR,
			   IBV_WC_RECV);
		urxe_cq_push(qp->rcq, &wc, true);
	}
	urxe_spin_unlock(&rq->lock);
	urxe_spin_unlock(&qp->lock);
	return err;
}
