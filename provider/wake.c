/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Waking others when all locks are free.
 *
 * A thread that is woken (by a completion event, or as the service thread) runs at once, often in
 * place of the thread that wakes it. If that one has locks (a CQ's, the QP's, the lane), the other
 * runs into each of them, and its turn of the processor is over before it has done anything. So a
 * turn of a lane, and a sender, hold back whom they wake until they have let go of all locks; what
 * they send on the link is on its way then, too.
 */
#include "wake.h"
#include "cq.h"
#include "rcu.h"

static _Thread_local struct urxe_wakes *held;

bool urxe_wakes_hold(struct urxe_wakes *w)
{
	if (held)
		return false;
	urxe_rcu_read_lock();
	w->count = 0;
	w->service = NULL;
	held = w;
	return true;
}

bool urxe_wakes_add(struct urxe_cq *cq, int armed)
{
	struct urxe_wakes *w = held;

	if (!w || w->count == URXE_WAKES)
		return false;
	w->of[w->count].cq = cq;
	w->of[w->count++].armed = armed;
	atomic_fetch_add_explicit(&cq->events_held, 1, memory_order_relaxed);
	return true;
}

void urxe_wakes_service(struct urxe_device *dev)
{
	if (held)
		held->service = dev;
	else
		urxe_port_wake(dev->port);
}

void urxe_wakes_send(struct urxe_wakes *w)
{
	held = NULL;
	for (unsigned i = 0; i < w->count; i++) {
		urxe_cq_event_send(w->of[i].cq, w->of[i].armed);
		atomic_fetch_sub(&w->of[i].cq->events_held, 1);
	}
	if (w->service)
		urxe_port_wake(w->service->port);
	urxe_rcu_read_unlock();
}
