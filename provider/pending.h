/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What waits for a turn, to who takes one (pending.c). Who adds something calls progress.h.
 */
#ifndef URXE_PROVIDER_PENDING_H
#define URXE_PROVIDER_PENDING_H

#include "qp.h"

/** urxe_pending_of - the list on which a QP waits. */
static inline struct urxe_waiting *urxe_pending_of(const struct urxe_qp *qp)
{
	return &qp->dev->sched.lanes[qp->lane];
}

/** urxe_pending_move - a QP is bound to lane @at from now on. */
void urxe_pending_move(struct urxe_qp *qp, unsigned at) URXE_REQUIRES(qp->lock);
/** urxe_pending_pop - the QP that waits for longest, off its list; NULL: none does. */
struct urxe_qp *urxe_pending_pop(struct urxe_sched *s, struct urxe_waiting *w);
/**
 * urxe_pending_idle_timers - take timers off the heap that have nothing to do, if one is next
 *
 * A timer stays where it is when what it was set for has come (struct urxe_sched), and who sleeps
 * until then would be woken for nothing. A few at a time; @dev's service thread, without locks.
 */
void urxe_pending_idle_timers(struct urxe_device *dev);
/** urxe_pending_no_timer - take that of @qp off the heap if it would find nothing to do. */
void urxe_pending_no_timer(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_pending_timers - *@due: timers that are due, at most @most, off the heap; returns how many.
 */
unsigned urxe_pending_timers(struct urxe_sched *s, uint64_t now, struct urxe_timer **due,
			     unsigned most);

#endif
