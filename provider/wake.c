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
#include <pthread.h>

#include "wake.h"
#include "cq.h"
#include "rcu.h"

/* What a thread holds (include/thread.c: why no thread-local variable). */
static pthread_key_t key;
static bool have_key;

__attribute__((constructor)) static void make_key(void)
{
	have_key = !pthread_key_create(&key, NULL);
}

static struct urxe_wakes *held(void)
{
	return have_key ? pthread_getspecific(key) : NULL;
}

bool urxe_wakes_hold(struct urxe_wakes *w)
{
	if (!have_key || pthread_getspecific(key) || pthread_setspecific(key, w))
		return false;
	urxe_rcu_read_lock();
	w->count = 0;
	w->service = NULL;
	return true;
}

bool urxe_wakes_add(struct urxe_cq *cq, int armed)
{
	struct urxe_wakes *w = held();

	if (!w || w->count == URXE_WAKES)
		return false;
	w->of[w->count].cq = cq;
	w->of[w->count++].armed = armed;
	atomic_fetch_add_explicit(&cq->events_held, 1, memory_order_relaxed);
	return true;
}

void urxe_wakes_service(struct urxe_device *dev)
{
	struct urxe_wakes *w = held();

	if (w)
		w->service = dev;
	else
		urxe_port_wake(dev->port);
}

void urxe_wakes_send(struct urxe_wakes *w)
{
	pthread_setspecific(key, NULL);
	for (unsigned i = 0; i < w->count; i++) {
		urxe_cq_event_send(w->of[i].cq, w->of[i].armed);
		atomic_fetch_sub(&w->of[i].cq->events_held, 1);
	}
	if (w->service)
		urxe_port_wake(w->service->port);
	urxe_rcu_read_unlock();
}
