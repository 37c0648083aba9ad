/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The classic ways of posting work requests; ibv_wr_* is in wr.c, and what both fill in wqe.c.
 */
#include <errno.h>
#include <string.h>

#include "provider.h"
#include "door.h"
#include "post.h"
#include "trace.h"
#include "wqe.h"
#include "wake.h"

static int post_data(struct urxe_qp *qp, struct urxe_swqe *wqe, const struct ibv_send_wr *wr)
	URXE_REQUIRES(qp->lock)
{
	int err = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge)
		return EINVAL;
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return urxe_wqe_sges(qp, wqe, wr->sg_list, (size_t)wr->num_sge);
	for (int i = 0; i < wr->num_sge && !err; i++) {
		struct ibv_sge sge = wr->sg_list[i];

		err = urxe_wqe_inline(qp, wqe, (const void *)(uintptr_t)sge.addr, sge.length);
	}
	wqe->flags |= URXE_WQE_INLINE;
	return err;
}

/* What the operation needs besides data. */
static int post_operation(struct urxe_qp *qp, struct urxe_swqe *wqe, const struct ibv_send_wr *wr)
	URXE_REQUIRES(qp->lock)
{
	switch ((unsigned)wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_WRITE:
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->atomic.compare_add = wr->wr.atomic.compare_add;
		wqe->atomic.swap = wr->wr.atomic.swap;
		break;
	case IBV_WR_BIND_MW:
		if (!wr->bind_mw.mw || wr->bind_mw.mw->type != IBV_MW_TYPE_2)
			return EINVAL;
		return urxe_wqe_bind(wqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	case URXEDV_WR_FLUSH:
		return EINVAL; /* struct ibv_send_wr has no room for what it needs */
	default:
		break;
	}
	wqe->imm = wr->imm_data; /* or invalidate_rkey, in the same place */
	if (qp->type == IBV_QPT_RC)
		return 0;
	if (qp->type == IBV_QPT_UD)
		return urxe_wqe_ud(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
				   wr->wr.ud.remote_qkey);
	if (qp->type == IBV_QPT_XRC_SEND)
		wqe->remote_qpn = wr->qp_type.xrc.remote_srqn;
	return 0;
}

static int post_one(struct urxe_qp *qp, const struct ibv_send_wr *wr, uint32_t at)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_swqe *wqe;
	int err;

	err = urxe_wqe_begin(qp, at, (unsigned)wr->opcode, wr->wr_id, wr->send_flags, &wqe);
	if (err)
		return err;
	err = post_operation(qp, wqe, wr);
	if (!err)
		err = post_data(qp, wqe, wr);
	if (!err)
		err = urxe_wqe_finish(qp, wqe);
	if (err)
		urxe_wqe_drop(wqe);
	else if (wqe->opcode == IBV_WR_BIND_MW)
		urxe_mw_posted(qp->dev, wqe->rkey);
	return err;
}

int urxe_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	struct urxe_wakes wakes;
	uint32_t post;
	bool held;
	int err = 0;

	urxe_wqe_fetch(qp);
	if (urxe_device_check(qp->dev)) {
		*bad = wr;
		return urxe_ret(EIO);
	}
	held = urxe_wakes_hold_for(qp, &wakes);
	urxe_spin_lock(&qp->lock);
	if (qp->state < IBV_QPS_RTS || !qp->scq) {
		*bad = wr;
		err = EINVAL;
		goto out;
	}
	for (post = qp->sq.post; wr; wr = wr->next, post++) {
		err = post_one(qp, wr, post);
		if (err) {
			*bad = wr;
			break;
		}
	}
	urxe_wqe_publish(qp, post); /* those before the bad one are posted */
out:
	urxe_spin_unlock(&qp->lock);
	if (held)
		urxe_wakes_send(&wakes);
	return urxe_ret(err);
}

int urxe_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct urxe_swqe *wqe;
	int err;

	if (urxe_device_check(qp->dev))
		return EIO;
	urxe_spin_lock(&qp->lock);
	err = qp->state < IBV_QPS_RTS || !qp->scq ? EINVAL : 0;
	if (!err)
		err = urxe_wqe_begin(qp, qp->sq.post, IBV_WR_BIND_MW, bind->wr_id, bind->send_flags,
				     &wqe);
	if (!err)
		err = urxe_wqe_bind(wqe, mw, rkey, &bind->bind_info);
	if (!err) {
		mw->rkey = wqe->rkey;
		urxe_wqe_publish(qp, qp->sq.post + 1);
	}
	urxe_spin_unlock(&qp->lock);
	return err;
}

int urxe_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	struct urxe_rq *rq = &qp->own_rq;
	struct ibv_wc wc;
	int err = 0;

	if (urxe_device_check(qp->dev)) {
		*bad = wr;
		return urxe_ret(EIO);
	}
	/* In the error state a WQE is flushed at once, so the state must not change meanwhile. */
	urxe_spin_lock(&qp->lock);
	if (qp->srq || qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV ||
	    qp->state == IBV_QPS_RESET) {
		urxe_spin_unlock(&qp->lock);
		*bad = wr;
		return urxe_ret(EINVAL);
	}
	urxe_spin_assume(&rq->lock); /* our own: qp->lock */
	for (; wr; wr = wr->next) {
		err = urxe_rq_post(rq, wr);
		if (err) {
			*bad = wr;
			break;
		}
		urxe_trace_post_recv(qp->qpn, wr);
	}
	while (qp->state == IBV_QPS_ERR && rq->tail != rq->head) {
		urxe_qp_wc(qp, &wc, urxe_rq_at(rq, rq->tail++)->wr_id, IBV_WC_WR_FLUSH_ERR,
			   IBV_WC_RECV);
		urxe_cq_push(qp->rcq, &wc, true);
	}
	if (qp->resp.in_recv)
		qp->resp.rwqe = urxe_rq_at(rq, rq->tail); /* the ring may have grown */
	urxe_spin_unlock(&qp->lock);
	return urxe_ret(err);
}
