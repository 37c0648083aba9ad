/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Send WQEs are filled, in one place for both ways of posting (wqe.c; here what each work request
 * needs). qp->lock is held. What
 * returns an int returns 0, or the errno that ibv_post_send() returns.
 */
#ifndef URXE_PROVIDER_WQE_H
#define URXE_PROVIDER_WQE_H

#include "qp.h"
#include "trace.h"
#include "urxe/lines.h"

/* Bits 1 << opcode. */
#define URXE_OP_BIT(x)	(1u << IBV_WR_##x)
#define URXE_OPS_SEND	(URXE_OP_BIT(SEND) | URXE_OP_BIT(SEND_WITH_IMM))
#define URXE_OPS_WRITE	(URXE_OP_BIT(RDMA_WRITE) | URXE_OP_BIT(RDMA_WRITE_WITH_IMM))
#define URXE_OPS_ATOMIC (URXE_OP_BIT(ATOMIC_CMP_AND_SWP) | URXE_OP_BIT(ATOMIC_FETCH_AND_ADD))
#define URXE_OPS_LOCAL	(URXE_OP_BIT(LOCAL_INV) | URXE_OP_BIT(BIND_MW))
#define URXE_OPS_FLUSH	(1u << URXEDV_WR_FLUSH)
#define URXE_QP_TYPES	(IBV_QPT_XRC_RECV + 1)

/** urxe_wqe_allowed - the bits 1 << opcode of what transports can do, by enum ibv_qp_type. */
extern const uint32_t urxe_wqe_allowed[URXE_QP_TYPES];

/* Of thousands of QPs nothing is in a cache: all lines are fetched at once, and slots ahead. */
#define URXE_WQE_AHEAD 3

/** urxe_wqe_fetch_lines - of @qp, which may have gone: what posting and sending touch but its lock.
 */
static inline void urxe_wqe_fetch_lines(const struct urxe_qp *qp)
{
	urxe_line_fetch(&qp->sq);
	urxe_line_fetch(&qp->req);
	urxe_line_fetch(&qp->req.cc);
	urxe_line_fetch(&qp->req.again);
	urxe_line_fetch(&qp->timer);
}

/** urxe_wqe_fetch_next - @qp is posted to: fetch the QP that was, after it, the last times. */
void urxe_wqe_fetch_next(struct urxe_qp *qp);

/** urxe_wqe_forget - it is posted to no more; it stays for a grace period after this. */
void urxe_wqe_forget(struct urxe_qp *qp);

/**
 * urxe_wqe_rest - let others have the memory of a QP's send queue
 *
 * Its timer goes while both are in a cache: later it would be looked at in vain. No pointer to a
 * WQE is good after this.
 */
void urxe_wqe_rest(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);

/** urxe_wqe_fetch - what posting and sending touch of a QP, whose lock is yet to be taken. */
static inline void urxe_wqe_fetch(struct urxe_qp *qp)
{
	if (__builtin_expect(qp->scq && urxe_cq_crowded(qp->scq), 0))
		urxe_wqe_fetch_next(qp);
	urxe_line_fetch(&qp->lock);
	/* Who has it is writing there. */
	if (urxe_spin_held(&qp->lock))
		return;
	urxe_wqe_fetch_lines(qp);
}

/** urxe_wqe_fetch_slot - the first lines of slot @at. */
static inline void urxe_wqe_fetch_slot(const struct urxe_sq *sq, uint32_t at)
{
	const uint8_t *slot = urxe_ring_at(&sq->ring, at);

	urxe_line_fetch(slot);
	urxe_line_fetch(slot + URXE_LINE);
}

/** urxe_wqe_begin - a WQE in slot @at, not posted before urxe_wqe_publish(). @flags: ibv_send_flags
 */
static inline int urxe_wqe_begin(struct urxe_qp *qp, uint32_t at, unsigned opcode, uint64_t wr_id,
				 unsigned flags, struct urxe_swqe **out) URXE_REQUIRES(qp->lock)
{
	struct urxe_sq *sq = &qp->sq;
	struct urxe_swqe *wqe;
	uint16_t marks = 0;

	if (opcode > 31 || !(sq->ops >> opcode & 1))
		return EINVAL;
	if (__builtin_expect(flags & (IBV_SEND_IP_CSUM | IBV_SEND_SOLICITED | IBV_SEND_FENCE), 0)) {
		/* No capability of ours says that we would fill in checksums: frames without are
		 * lost. */
		if (flags & IBV_SEND_IP_CSUM)
			return EINVAL;
		marks = (flags & IBV_SEND_SOLICITED ? URXE_WQE_SOLICITED : 0) |
			(flags & IBV_SEND_FENCE ? URXE_WQE_FENCE : 0);
	}
	if (flags & IBV_SEND_SIGNALED || qp->sq_sig_all)
		marks |= URXE_WQE_SIGNALED;
	if (urxe_ring_room(&sq->ring, sq->done, at))
		return ENOMEM;
	wqe = urxe_sq_at(sq, at);
	urxe_wqe_fetch_slot(sq, at + URXE_WQE_AHEAD);
	/* Not remote_addr and the union: the operations that use them set them, and each store
	 * counts. */
	wqe->wr_id = wr_id;
	wqe->rkey = wqe->remote_qpn = wqe->inv_rkey = wqe->length = 0;
	wqe->psn = wqe->npsn = 0;
	wqe->flags = marks;
	wqe->opcode = (uint8_t)opcode;
	wqe->num_sge = 0;
	*out = wqe;
	return 0;
}

/** urxe_wqe_sges - its SGEs: our copy is what is checked. */
static inline int urxe_wqe_sges(const struct urxe_qp *qp, struct urxe_swqe *wqe,
				const struct ibv_sge *sges, size_t n) URXE_REQUIRES(qp->lock)
{
	uint64_t length = 0;

	if (n > qp->sq.max_sge || wqe->flags & URXE_WQE_INLINE)
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

/** urxe_wqe_inline - append a copy of the data itself. */
int urxe_wqe_inline(const struct urxe_qp *qp, struct urxe_swqe *wqe, const void *addr,
		    size_t length) URXE_REQUIRES(qp->lock);
/** urxe_wqe_value - the eight bytes of an ATOMIC WRITE. */
void urxe_wqe_value(struct urxe_swqe *wqe, const void *value);
/** urxe_wqe_ud - the destination of a datagram; takes a reference of the AH. */
int urxe_wqe_ud(const struct urxe_qp *qp, struct urxe_swqe *wqe, struct ibv_ah *ah, uint32_t qpn,
		uint32_t qkey) URXE_REQUIRES(qp->lock);
int urxe_wqe_bind(struct urxe_swqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info);
/** urxe_wqe_finish - the checks that need the whole WQE. */
static inline int urxe_wqe_finish(const struct urxe_qp *qp, const struct urxe_swqe *wqe)
	URXE_REQUIRES(qp->lock)
{
	const uint32_t eight = URXE_OPS_ATOMIC | URXE_OP_BIT(ATOMIC_WRITE);
	const uint32_t none = URXE_OPS_LOCAL | URXE_OPS_FLUSH; /* they have no data of ours */

	if (qp->type == IBV_QPT_UD && (!(wqe->flags & URXE_WQE_AH) || wqe->length > qp->mtu))
		return EINVAL;
	if (__builtin_expect((eight | none) >> wqe->opcode & 1, 0) &&
	    wqe->length != (none >> wqe->opcode & 1 ? 0 : URXE_ATOMIC_LEN))
		return EINVAL;
	urxe_trace_post_send(qp, wqe);
	return 0;
}

/** urxe_wqe_drop - let go of what an unposted or completed WQE refers to. */
static inline void urxe_wqe_drop(struct urxe_swqe *wqe)
{
	if (__builtin_expect(wqe->flags & URXE_WQE_AH, 0))
		urxe_ah_put(wqe->ud.ah);
	wqe->flags &= (uint16_t)~URXE_WQE_AH;
}

/** urxe_wqe_publish - all WQEs before slot @post are posted; begin to send. */
void urxe_wqe_publish(struct urxe_qp *qp, uint32_t post) URXE_REQUIRES(qp->lock);

#endif
