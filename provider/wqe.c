/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Send WQEs are filled here, whichever way the work request came: begun, given what its
 * operation needs, given its data, and finished by the checks that see the whole. What is checked
 * is our copy, never the application's memory.
 */
#include <errno.h>
#include <string.h>

#include "provider.h"
#include "progress.h"
#include "requester.h"
#include "trace.h"
#include "wqe.h"

#define OP(x)	   (1u << IBV_WR_##x)
#define OPS_SEND   (OP(SEND) | OP(SEND_WITH_IMM))
#define OPS_WRITE  (OP(RDMA_WRITE) | OP(RDMA_WRITE_WITH_IMM))
#define OPS_ATOMIC (OP(ATOMIC_CMP_AND_SWP) | OP(ATOMIC_FETCH_AND_ADD))
#define OPS_LOCAL  (OP(LOCAL_INV) | OP(BIND_MW))
#define OPS_FLUSH  (1u << URXEDV_WR_FLUSH)
#define OPS_RC                                                                           \
	(OPS_SEND | OPS_WRITE | OPS_ATOMIC | OPS_LOCAL | OPS_FLUSH | OP(SEND_WITH_INV) | \
	 OP(RDMA_READ) | OP(ATOMIC_WRITE))

/* What each transport can do (IBTA 10.8.2, table 58; A14, A19). */
static const uint32_t allowed_ops[] = {
	[IBV_QPT_RC] = OPS_RC,
	[IBV_QPT_UC] = OPS_SEND | OPS_WRITE | OPS_LOCAL, /* the wire knows no other UC opcodes */
	[IBV_QPT_UD] = OPS_SEND,
	[IBV_QPT_XRC_SEND] = OPS_RC,
	[IBV_QPT_RAW_PACKET] = OP(SEND),
};

uint32_t urxe_wqe_ops(const struct urxe_qp *qp)
{
	return qp->type < sizeof(allowed_ops) / sizeof(allowed_ops[0]) ? allowed_ops[qp->type] : 0;
}

int urxe_wqe_begin(struct urxe_qp *qp, uint32_t at, unsigned opcode, uint64_t wr_id, unsigned flags,
		   struct urxe_swqe **out)
{
	struct urxe_sq *sq = &qp->sq;
	struct urxe_swqe *wqe;

	if (opcode > 31 || !(1u << opcode & urxe_wqe_ops(qp)))
		return EINVAL;
	/* No capability of ours says that we would fill in checksums: frames without are lost. */
	if (flags & IBV_SEND_IP_CSUM)
		return EINVAL;
	if (urxe_ring_room(&sq->ring, sq->done, at))
		return ENOMEM;
	wqe = urxe_sq_at(sq, at);
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr_id;
	wqe->opcode = (uint8_t)opcode;
	if (flags & IBV_SEND_SIGNALED || qp->sq_sig_all)
		wqe->flags |= URXE_WQE_SIGNALED;
	if (flags & IBV_SEND_SOLICITED)
		wqe->flags |= URXE_WQE_SOLICITED;
	if (flags & IBV_SEND_FENCE)
		wqe->flags |= URXE_WQE_FENCE;
	*out = wqe;
	return 0;
}

int urxe_wqe_sges(const struct urxe_qp *qp, struct urxe_swqe *wqe, const struct ibv_sge *sges,
		  size_t n)
{
	uint64_t length = 0;

	if (n > qp->sq.max_sge)
		return EINVAL;
	wqe->num_sge = (uint8_t)n;
	for (size_t i = 0; i < n; i++) {
		wqe->sge[i] = sges[i];
		length += wqe->sge[i].length;
	}
	if (length > URXE_MAX_MSG_SZ)
		return EINVAL;
	wqe->length = (uint32_t)length;
	return 0;
}

int urxe_wqe_inline(const struct urxe_qp *qp, struct urxe_swqe *wqe, const void *addr,
		    size_t length)
{
	if (1u << wqe->opcode & (OPS_ATOMIC | OP(RDMA_READ)) ||
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

int urxe_wqe_finish(const struct urxe_qp *qp, const struct urxe_swqe *wqe)
{
	uint32_t op = 1u << wqe->opcode;

	if (qp->type == IBV_QPT_UD && (!(wqe->flags & URXE_WQE_AH) || wqe->length > qp->mtu))
		return EINVAL;
	if (op & (OPS_ATOMIC | OP(ATOMIC_WRITE)) && wqe->length != URXE_ATOMIC_LEN)
		return EINVAL;
	if (op & (OPS_LOCAL | OPS_FLUSH) && wqe->length)
		return EINVAL; /* they have no data of ours */
	urxe_trace_post_send(qp, wqe);
	return 0;
}

void urxe_wqe_publish(struct urxe_qp *qp, uint32_t post)
{
	qp->sq.post = post;
	qp->replies = qp->replies || qp->got;
	qp->got = false;
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		while (qp->sq.done != qp->sq.post)
			urxe_requester_complete(qp, IBV_WC_WR_FLUSH_ERR);
	else
		urxe_progress_posted(qp);
}
