/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory for the send queues of the QPs of one CQ, where they are many. Most of thousands of send
 * queues are empty at any time: one that is gives its memory back, and the next one that is posted
 * to gets what was given back last, which the processor still has in a cache. Of 10,000 QPs with a
 * few messages under way, a dozen blocks are in use, not 10,000 in turn.
 */
#ifndef URXE_PROVIDER_SLOTS_H
#define URXE_PROVIDER_SLOTS_H

#include <stddef.h>

#include "urxe/lock.h"

#define URXE_SLOTS_SMALLEST 8  /* blocks of 256 bytes, */
#define URXE_SLOTS_CLASSES  10 /* 512 ... 128 KiB; a send queue that had more keeps it */

struct urxe_slots_block;

/** Blocks that are in no queue, by size; zeros: none. */
struct urxe_slots {
	struct urxe_spin lock;
	struct urxe_slots_block *rest[URXE_SLOTS_CLASSES]; /* what came last first; under lock */
};

/** urxe_slots_fit - is there a size of blocks for @bytes? */
static inline bool urxe_slots_fit(size_t bytes)
{
	return bytes <= (size_t)1 << (URXE_SLOTS_SMALLEST + URXE_SLOTS_CLASSES - 1);
}

/**
 * urxe_slots_take - a block of @bytes at least, which urxe_slots_fit(); not zeroed
 *
 * It begins a cache line; urxe_slots_give() or free() ends it. NULL: there is no memory. Any lock
 * of a QP may be held.
 */
void *urxe_slots_take(struct urxe_slots *s, size_t bytes) URXE_EXCLUDES(s->lock);

/** urxe_slots_give - keep @block, which was taken for as many @bytes, for the next. Any thread, any
 * lock of a QP. */
void urxe_slots_give(struct urxe_slots *s, void *block, size_t bytes) URXE_EXCLUDES(s->lock);

/** urxe_slots_drop - free one of @bytes, if there is one: a queue of them is no more. On a thread
 * of the application's. */
void urxe_slots_drop(struct urxe_slots *s, size_t bytes) URXE_EXCLUDES(s->lock);

/** urxe_slots_fini - free all; no queue has one. */
void urxe_slots_fini(struct urxe_slots *s);

#endif
