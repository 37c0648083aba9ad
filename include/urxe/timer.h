/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Timers: a heap of entries that their owners embed, earliest first. Not thread-safe: the owner of
 * the heap has the lock for it. Times are of one clock, whichever it is.
 */
#ifndef URXE_TIMER_H
#define URXE_TIMER_H

#include <stdint.h>

struct urxe_timer {
	uint64_t when; /* as in its slot of the heap */
	unsigned pos;  /* index in the heap + 1; 0: not in it */
	uint8_t kind;  /* what it is part of; the owner's own code */
};

/* What is compared is here: owners are many, and their memory is cold. */
struct urxe_timer_slot {
	uint64_t when;
	struct urxe_timer *t;
};

struct urxe_timer_heap {
	struct urxe_timer_slot *v;
	unsigned n, room;
};

/**
 * urxe_timer_heap_reserve - room for @n timers at once
 *
 * To be called before there are as many, so that urxe_timer_set() cannot fail. 0 or ENOMEM.
 */
int urxe_timer_heap_reserve(struct urxe_timer_heap *h, unsigned n);

/** urxe_timer_heap_fini - free the room; the timers left are their owners'. */
void urxe_timer_heap_fini(struct urxe_timer_heap *h);

/** urxe_timer_set - have @t due at @when; one that is set already is moved. */
void urxe_timer_set(struct urxe_timer_heap *h, struct urxe_timer *t, uint64_t when);

/** urxe_timer_cancel - take @t out; harmless when it is not in. */
void urxe_timer_cancel(struct urxe_timer_heap *h, struct urxe_timer *t);

/** urxe_timer_first - the earliest, NULL when there is none. */
struct urxe_timer *urxe_timer_first(const struct urxe_timer_heap *h);

#endif
