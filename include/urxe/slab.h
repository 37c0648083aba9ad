/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory for structs of one size that come and go with each connection. malloc() takes 500 to 1,000
 * instructions for each where its own caches end (1,032 bytes; any alignment), and grows by a page
 * and a system call at a time for threads that are not the first.
 *
 * Not thread-safe: the owner has a lock for it, which is held across fork(). With AddressSanitizer
 * each struct comes from malloc(), so that who uses one that is gone is found.
 */
#ifndef URXE_SLAB_H
#define URXE_SLAB_H

#include <stddef.h>

#include "urxe/lines.h"

/** Whether each struct comes from malloc(). */
#if defined(__SANITIZE_ADDRESS__)
#define URXE_SLAB_PLAIN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define URXE_SLAB_PLAIN 1
#endif
#endif
#ifndef URXE_SLAB_PLAIN
#define URXE_SLAB_PLAIN 0
#endif

struct urxe_slab_chunk;

/** URXE_SLAB_INIT(type of the structs) begins one. */
struct urxe_slab {
	size_t size;			 /* of a struct, in whole cache lines */
	struct urxe_slab_chunk *partial; /* these have room */
	struct urxe_slab_chunk *empty;	 /* nothing of it is in use; kept for the next */
};

#define URXE_SLAB_INIT(type)                         \
	{                                            \
		URXE_LINES(sizeof(type)), NULL, NULL \
	}

/**
 * urxe_slab_get - memory for a struct, which begins a cache line
 * @zero: so many bytes are zeros, the rest anything
 *
 * NULL: there is none. Locked by the owner.
 */
void *urxe_slab_get(struct urxe_slab *s, size_t zero);

/** urxe_slab_put - give back what urxe_slab_get() gave, or NULL. Any thread (urxe/free.h); locked
 * by the owner. */
void urxe_slab_put(struct urxe_slab *s, void *p);

/** urxe_slab_fini - free what is kept; all structs were given back. A thread of the application's.
 */
void urxe_slab_fini(struct urxe_slab *s);

#endif
