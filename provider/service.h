/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The service thread, which takes turns when no caller does (service.c).
 */
#ifndef URXE_PROVIDER_SERVICE_H
#define URXE_PROVIDER_SERVICE_H

#include "device.h"

int urxe_service_start(struct urxe_device *dev);
void urxe_service_stop(struct urxe_device *dev);
/** urxe_service_nudge - wake the thread if it sleeps; cheap if not. */
void urxe_service_nudge(struct urxe_device *dev);
/** urxe_service_leave - a caller is about to sleep until there is an event, and drives no more. The
 * thread is woken unless it sleeps until a frame comes anyway. */
void urxe_service_leave(struct urxe_device *dev);
/** urxe_service_caller - this thread is one of those who drive. */
void urxe_service_caller(struct urxe_device *dev);
/** urxe_service_yield - a caller that polls lets others have the processor. */
void urxe_service_yield(struct urxe_device *dev);
/** urxe_service_patience - callers that poll are in a crowd, and what they leave to their next poll
 * may wait for so much longer, ns; 0: they are not. */
static inline uint64_t urxe_service_patience(const struct urxe_device *dev)
{
	return atomic_load_explicit(&dev->service.patience, memory_order_relaxed);
}
/** urxe_service_turn_end - wait until the turn that the thread takes, if it does, is over: what it
 * received is acknowledged then. For a short while, where the thread has no processor. */
void urxe_service_turn_end(struct urxe_device *dev);
/** urxe_service_acked - a caller has got completions: who may end at once, with its ACKs sent. */
static inline void urxe_service_acked(struct urxe_device *dev)
{
	if (__builtin_expect(atomic_load_explicit(&dev->service.turns, memory_order_relaxed) & 1,
			     0))
		urxe_service_turn_end(dev);
}
/** urxe_service_pass - a caller has got what it polled for, and may go to watch memory. */
void urxe_service_pass(struct urxe_device *dev);
/** urxe_service_written - a peer has changed memory. @answered: who watches it may post at once. */
static inline void urxe_service_written(struct urxe_device *dev, bool answered)
{
	struct urxe_service_thread *s = &dev->service;

	if (!atomic_load_explicit(&s->watched, memory_order_relaxed))
		return;
	atomic_store_explicit(&s->written, true, memory_order_relaxed);
	if (answered)
		atomic_store_explicit(&s->landed, true, memory_order_relaxed);
}
/** urxe_service_by - wake the thread if it sleeps beyond @when. */
void urxe_service_by(struct urxe_device *dev, uint64_t when);
/** urxe_service_gsi - the GSI's poll is due. */
void urxe_service_gsi(struct urxe_device *dev);
/** urxe_service_gsi_next - when the GSI's poll is to run of itself. */
uint64_t urxe_service_gsi_next(const struct urxe_device *dev);
/**
 * urxe_service_run_gsi - run the GSI's poll if that is due; true if it ran
 * @wait: while another thread runs it, wait until that is through; else leave it to that thread
 */
bool urxe_service_run_gsi(struct urxe_device *dev, uint64_t now, bool wait);

#endif
