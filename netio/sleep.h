/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A sleep in a thread that may be the application's: it takes signals, and others may cancel it
 * (pthread_cancel(3)) where they could in read(2).
 */
#ifndef URXE_NETIO_SLEEP_H
#define URXE_NETIO_SLEEP_H

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "netio/clock.h"

/** How a thread sleeps, and what it met. */
struct urxe_sleep {
	bool interrupt;	 /* in: an arriving frame should end it; out: one does */
	bool driven;	 /* in: callers poll, and fetch frames: none ends it unasked */
	bool cancelable; /* in: the thread, which has cancellation disabled, may end here */
	bool signal;	 /* out: a signal's handler ran meanwhile; the sleep is over then */
	uint64_t tick;	 /* in, urxe_port_wait(): the urxe_port_next_tick() that its length takes
			  * account of; an earlier one ends it at once; 0: of none */
};

/**
 * urxe_sleep_poll - poll(2) for at most @ns; UINT64_MAX: without an end. Returns what that does.
 * The thread holds no lock of ours, in this and the next.
 */
static inline int urxe_sleep_poll(struct urxe_sleep *s, struct pollfd *fds, nfds_t n, uint64_t ns)
{
	struct timespec ts = urxe_clock_span(ns);
	int ready, old;

	if (s->cancelable)
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	ready = ppoll(fds, n, ns == UINT64_MAX ? NULL : &ts, NULL);
	if (ready < 0 && errno == EINTR)
		s->signal = true;
	if (s->cancelable)
		pthread_setcancelstate(old, &old);
	return ready;
}

/** urxe_sleep_futex - until somebody wakes @futex, which is @value now, or @ns passed. */
static inline void urxe_sleep_futex(struct urxe_sleep *s, void *futex, uint32_t value, uint64_t ns)
{
	struct timespec ts = urxe_clock_span(ns);
	int state, type;

	/* No cancellation point by itself: it is interrupted at any place, as libc's own are. */
	if (s->cancelable) {
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	}
	if (syscall(SYS_futex, futex, FUTEX_WAIT, value, ns == UINT64_MAX ? NULL : &ts, NULL, 0) &&
	    errno == EINTR)
		s->signal = true;
	if (s->cancelable) {
		pthread_setcancelstate(state, &state);
		pthread_setcanceltype(type, &type);
	}
}

#endif
