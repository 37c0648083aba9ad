/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Turns of a lane, and who takes one (progress.c); pending QPs and their timers (pending.c).
 */
#ifndef URXE_PROVIDER_PROGRESS_H
#define URXE_PROVIDER_PROGRESS_H

#include "qp.h"

/** urxe_progress_kick - @qp has something to send; qp->lock held. Sends now if its lane is free. */
void urxe_progress_kick(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_progress_posted - the same for what was just posted, which may wait for the next poll. */
void urxe_progress_posted(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/**
 * urxe_progress_flush - send what is still due, before the QP goes or is reset
 * A NIC would have acknowledged by now what the application has seen, and sent what was posted to a
 * QP that waits for no ACK. No lock held.
 */
void urxe_progress_flush(struct urxe_qp *qp) URXE_EXCLUDES(qp->lock);
/** urxe_progress_finish - the process ends: send what waits for a turn. */
void urxe_progress_finish(struct urxe_device *dev);
/** urxe_progress_defer - let the next turn of its lane serve @qp. Any lock but sched.lock may be
 * held. */
void urxe_progress_defer(struct urxe_qp *qp) URXE_EXCLUDES(qp->dev->sched.lock);
/** urxe_progress_defer_until - the same, and if all that wait there may, the first turn after
 * @until (ns, of the port's clock) does. */
void urxe_progress_defer_until(struct urxe_qp *qp, uint64_t until)
	URXE_EXCLUDES(qp->dev->sched.lock);
/**
 * urxe_progress_poll - one turn of a lane, if one is free; of several, till one has something
 * Returns packets and timers handled, or -1 when others hold the lanes. No lock held.
 */
int urxe_progress_poll(struct urxe_device *dev);
/** urxe_progress_glance - the same for a caller that is about to sleep: it does not count as one
 * that drives. */
int urxe_progress_glance(struct urxe_device *dev);
/** urxe_progress_turn - the same for the service thread: it does not count as a caller. */
int urxe_progress_turn(struct urxe_device *dev);
/** urxe_progress_timer - have a turn run the timers of the QP by @when. */
void urxe_progress_timer(struct urxe_qp *qp, uint64_t when) URXE_REQUIRES(qp->lock);
/** urxe_progress_forget - take a QP off list and heap (destroy). */
void urxe_progress_forget(struct urxe_qp *qp) URXE_EXCLUDES(qp->dev->sched.lock);

#endif
