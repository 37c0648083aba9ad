/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Whom a thread wakes when it has let go of all locks: wake.c says why. */
#ifndef URXE_PROVIDER_WAKE_H
#define URXE_PROVIDER_WAKE_H

#include "provider.h"

#define URXE_WAKES 32 /* completion events held back; more are sent at once */

/* On the stack of who holds them. */
struct urxe_wakes {
	unsigned count;
	struct {
		struct urxe_cq *cq;
		int armed; /* what it was for */
	} of[URXE_WAKES];
	struct urxe_device *service; /* whose service thread; a thread has one device in hand */
};

/**
 * urxe_wakes_hold - keep whom this thread wakes back until urxe_wakes_send()
 *
 * False: the thread does so already, and need not send. A read-side section of RCU lies between the
 * two, so that the CQs stay.
 */
bool urxe_wakes_hold(struct urxe_wakes *w);
/** urxe_wakes_send - wake them; the thread has let go of all locks. */
void urxe_wakes_send(struct urxe_wakes *w);

/** urxe_wakes_hold_for - the same for a sender: only who sleeps for events wakes others often. */
static inline bool urxe_wakes_hold_for(const struct urxe_qp *qp, struct urxe_wakes *w)
{
	return qp->has_events && urxe_wakes_hold(w);
}

/** urxe_wakes_hold_turn - the same for a turn: none is woken in the middle of one. Where nobody
 * sleeps for events there is nobody to hold back. */
static inline bool urxe_wakes_hold_turn(const struct urxe_device *dev, struct urxe_wakes *w)
{
	return atomic_load_explicit(&dev->num_event_cq, memory_order_relaxed) && urxe_wakes_hold(w);
}

/** urxe_wakes_add - hold @cq's event back, for which it was armed so. False: send it now. */
bool urxe_wakes_add(struct urxe_cq *cq, int armed) URXE_REQUIRES(cq->lock);
/** urxe_wakes_service - wake the device's service thread, then or now. */
void urxe_wakes_service(struct urxe_device *dev);

#endif
