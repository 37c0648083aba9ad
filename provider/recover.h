/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the requester sends again when something is missing (recover.c). The caller holds the lane
 * and qp->lock.
 */
#ifndef URXE_PROVIDER_RECOVER_H
#define URXE_PROVIDER_RECOVER_H

#include "qp.h"

/** urxe_recover_answered - was PSN @psn sent again so lately that a NAK of it is one too many? */
bool urxe_recover_answered(const struct urxe_qp *qp, uint32_t psn, uint64_t now)
	URXE_REQUIRES(qp->lock);
/** urxe_recover_free - it was sent again alone, and is missing again: that is no retry, so far. */
bool urxe_recover_free(struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_recover_gap - the peer misses PSN @psn, the oldest that is not acknowledged. */
void urxe_recover_gap(struct urxe_qp *qp, uint32_t psn, uint64_t now) URXE_REQUIRES(qp->lock);
/** urxe_recover_also - the peer misses PSN @psn, and we an answer to what was before it. */
void urxe_recover_also(struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_recover_hole - the answer to the oldest PSN is missing, and a later one is there. */
void urxe_recover_hole(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock);
/**
 * urxe_recover_tail - after a silence: send the oldest and the newest packet again, whose answers
 * tell what the peer has
 *
 * False: it is in the middle of sending more again.
 */
bool urxe_recover_tail(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock);
/** urxe_recover_heard - urxe_recover_progress() of one that has lost something. */
void urxe_recover_heard(struct urxe_qp *qp, uint32_t una) URXE_REQUIRES(qp->lock);
/** urxe_recover_progress - all before @una is acknowledged; req.una is still what it was. */
static inline void urxe_recover_progress(struct urxe_qp *qp, uint32_t una) URXE_REQUIRES(qp->lock)
{
	if (__builtin_expect(qp->req.recovering, 0))
		urxe_recover_heard(qp, una);
}
/** urxe_recover_due - is something to be sent again, alone? */
static inline bool urxe_recover_due(const struct urxe_requester *r)
{
	return __builtin_expect(r->recovering, 0) && r->again.left;
}
/** urxe_recover_stop - the requester goes back: nothing is sent again alone. */
static inline void urxe_recover_stop(struct urxe_requester *r)
{
	r->again.left = 0;
	r->again.count = 0;
	r->again.answered_at = 0;
}

#endif
