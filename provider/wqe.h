/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Send WQEs are filled, in one place for both ways of posting (wqe.c). qp->lock is held. What
 * returns an int returns 0, or the errno that ibv_post_send() returns.
 */
#ifndef URXE_PROVIDER_WQE_H
#define URXE_PROVIDER_WQE_H

#include "qp.h"

/** urxe_wqe_ops - bits 1 << opcode of what the QP's transport can do. */
uint32_t urxe_wqe_ops(const struct urxe_qp *qp);
/** urxe_wqe_begin - a WQE in slot @at, not posted before urxe_wqe_publish(). @flags: ibv_send_flags
 */
int urxe_wqe_begin(struct urxe_qp *qp, uint32_t at, unsigned opcode, uint64_t wr_id, unsigned flags,
		   struct urxe_swqe **wqe) URXE_REQUIRES(qp->lock);
int urxe_wqe_sges(const struct urxe_qp *qp, struct urxe_swqe *wqe, const struct ibv_sge *sges,
		  size_t n) URXE_REQUIRES(qp->lock);
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
int urxe_wqe_finish(const struct urxe_qp *qp, const struct urxe_swqe *wqe) URXE_REQUIRES(qp->lock);
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
