/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Send WQEs are filled here, whichever way the work request came: begun, given what its
 * operation needs, given its data, and finished by the checks that see the whole. What is checked
 * is our copy, never the application's memory.
 */
#include <errno.h>
#include <string.h>

#include "provider.h"
#include "pending.h"
#include "progress.h"
#include "requester.h"
#include "wqe.h"

#define OPS_RC                                                                                \
	(URXE_OPS_SEND | URXE_OPS_WRITE | URXE_OPS_ATOMIC | URXE_OPS_LOCAL | URXE_OPS_FLUSH | \
	 URXE_OP_BIT(SEND_WITH_INV) | URXE_OP_BIT(RDMA_READ) | URXE_OP_BIT(ATOMIC_WRITE))

/* What each transport can do (IBTA 10.8.2, table 58; A14, A19). */
const uint32_t urxe_wqe_allowed[URXE_QP_TYPES] = {
	[IBV_QPT_RC] = OPS_RC,
	[IBV_QPT_UC] = URXE_OPS_SEND | URXE_OPS_WRITE |
		       URXE_OPS_LOCAL, /* the wire knows no other UC opcodes */
	[IBV_QPT_UD] = URXE_OPS_SEND,
	[IBV_QPT_XRC_SEND] = OPS_RC,
	[IBV_QPT_RAW_PACKET] = URXE_OP_BIT(SEND),
};

int urxe_wqe_inline(const struct urxe_qp *qp, struct urxe_swqe *wqe, const void *addr,
		    size_t length)
{
	if (1u << wqe->opcode & (URXE_OPS_ATOMIC | URXE_OP_BIT(RDMA_READ)) || wqe->num_sge ||
	    length > qp->sq.max_inline - wqe->length)
		return EINVAL;
	if (length)
		memcpy(wqe->data + wqe->length, addr, length);
	wqe->length += (uint32_t)length;
	wqe->flags |= URXE_WQE_INLINE;
	return 0;
}

void urxe_wqe_value(struct urxe_swqe *wqe, const void *value)
{
	/* Always fits: there is room for one SGE at least. */
	memcpy(wqe->data, value, URXE_ATOMIC_LEN);
	wqe->length = URXE_ATOMIC_LEN;
	wqe->num_sge = 0;
	wqe->flags |= URXE_WQE_INLINE;
}

int urxe_wqe_ud(const struct urxe_qp *qp, struct urxe_swqe *wqe, struct ibv_ah *ibah, uint32_t qpn,
		uint32_t qkey)
{
	struct urxe_ah *ah;

	if (!ibah || qp->type != IBV_QPT_UD)
		return EINVAL;
	ah = urxe_container_of(ibah, struct urxe_ah, ah);
	if (to_urxe_pd(ah->ah.pd)->root != qp->pd)
		return EINVAL;
	wqe->remote_qpn = qpn & URXE_QPN_MASK;
	/* A Q_Key with the high bit set stands for the QP's own (IBTA 10.2.5). */
	wqe->ud.qkey = qkey & 0x80000000u ? qp->attr.qkey : qkey;
	atomic_fetch_add_explicit(&ah->refs, 1, memory_order_relaxed);
	urxe_wqe_drop(wqe);
	wqe->ud.ah = ah;
	wqe->flags |= URXE_WQE_AH;
	return 0;
}

int urxe_wqe_bind(struct urxe_swqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info)
{
	const unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			       IBV_ACCESS_ZERO_BASED | URXE_ACCESS_FLUSH;
	const uint32_t owner = (1u << URXE_MW_OWNER_BITS) - 1;

	if (!mw || info->mw_access_flags & ~known || (!info->mr && (info->addr || info->length)))
		return EINVAL;
	/* The consumer owns the low bits of the key alone (IBTA 10.6.7); the others are ours. */
	wqe->rkey = (to_urxe_mw(mw)->idle.key & ~owner) | (rkey & owner);
	wqe->bind.lkey = info->mr ? info->mr->lkey : 0;
	wqe->remote_addr = info->addr;
	wqe->bind.length = info->length;
	wqe->bind.access = info->mw_access_flags;
	return 0;
}

/*
 * Programs that have thousands of QPs post to them in the same order again and again: in turn, or
 * as their peers do. A pointer of each QP has the one that was posted to after it, with bit 0 when
 * that was so twice. The QP may have gone since, so that it is fetched and not looked at. The one
 * that is written to is there: who destroys it takes it out of the CQ before its grace period.
 */
#define SURE ((uintptr_t)1)

static uintptr_t note_next(struct urxe_qp *qp) URXE_UNCHECKED
{
	uintptr_t next = atomic_load_explicit(&qp->next_posted, memory_order_relaxed), was, is;
	struct urxe_cq *cq = qp->scq;
	struct urxe_qp *before;

	urxe_rcu_read_lock();
	before = atomic_load(&cq->posted);
	if (before != qp) {
		atomic_store(&cq->posted, qp);
		if (before) {
			was = atomic_load_explicit(&before->next_posted, memory_order_relaxed);
			is = (uintptr_t)qp | ((was & ~SURE) == (uintptr_t)qp ? SURE : 0);
			if (is != was)
				atomic_store_explicit(&before->next_posted, is,
						      memory_order_relaxed);
		}
	}
	urxe_rcu_read_unlock();
	return next;
}

void urxe_wqe_fetch_next(struct urxe_qp *qp)
{
	uintptr_t next = note_next(qp);

	/* Where its ACK will find it. */
	urxe_table_fetch(&qp->dev->qps, qp->qpn & qp->dev->qpn_mask);
	if (!(next & SURE))
		return;
	qp = (struct urxe_qp *)(next - SURE);
	urxe_line_fetch(&qp->vqp);
	urxe_line_fetch(&qp->real);
	urxe_line_fetch(&qp->lock);
	urxe_wqe_fetch_lines(qp);
}

void urxe_wqe_forget(struct urxe_qp *qp)
{
	struct urxe_qp *last = qp;

	if (qp->scq)
		atomic_compare_exchange_strong(&qp->scq->posted, &last, NULL);
}

void urxe_wqe_rest(struct urxe_qp *qp)
{
	struct urxe_sq *sq = &qp->sq;

	urxe_pending_no_timer(qp);
	urxe_ring_rest(&sq->ring);
	/* From the first slot on: that is the one in a cache. */
	sq->polled_at -= sq->post;
	sq->post = sq->cur = sq->done = 0;
	sq->left_at = UINT32_MAX;
}

void urxe_wqe_publish(struct urxe_qp *qp, uint32_t post)
{
	qp->sq.post = post;
	qp->replies = qp->replies || qp->got;
	qp->got = false;
	if (atomic_load_explicit(&qp->dev->service.landed, memory_order_relaxed))
		atomic_store_explicit(&qp->dev->service.landed, false, memory_order_relaxed);
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		while (qp->sq.done != qp->sq.post)
			urxe_requester_complete(qp, IBV_WC_WR_FLUSH_ERR);
	else
		urxe_progress_posted(qp);
}
