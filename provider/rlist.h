/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Lists that are walked under RCU while one writer at a time changes them. The pointers are
 * atomics, so that compilers and ThreadSanitizer know what goes on. Removing takes a walk: for
 * lists that change seldom.
 */
#ifndef URXE_PROVIDER_RLIST_H
#define URXE_PROVIDER_RLIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/** A link of a list; also its head, whose next is the first. Zeros are an empty list. */
struct urxe_rlist {
	_Atomic(struct urxe_rlist *) next;
};

static inline struct urxe_rlist *urxe_rlist_next(const struct urxe_rlist *l)
{
	/* Pairs with the releases below: a link that is found is whole, and leads on. */
	return atomic_load_explicit(&l->next, memory_order_acquire);
}

/** urxe_rlist_add - put @l behind @at, which is the head or a link. Writers exclude each other. */
static inline void urxe_rlist_add(struct urxe_rlist *at, struct urxe_rlist *l)
{
	atomic_store_explicit(&l->next, urxe_rlist_next(at), memory_order_relaxed);
	/* Pairs with urxe_rlist_next(). */
	atomic_store_explicit(&at->next, l, memory_order_release);
}

/** urxe_rlist_del - take @l out; readers may still stand on it until a grace period is over. */
static inline void urxe_rlist_del(struct urxe_rlist *head, struct urxe_rlist *l)
{
	while (urxe_rlist_next(head) != l)
		head = urxe_rlist_next(head);
	/* Pairs with urxe_rlist_next(), now for what stood behind. */
	atomic_store_explicit(&head->next, urxe_rlist_next(l), memory_order_release);
}

/** urxe_rlist_for_each - walk; @l is a struct urxe_rlist pointer. */
#define urxe_rlist_for_each(l, head) \
	for ((l) = urxe_rlist_next(head); (l); (l) = urxe_rlist_next(l))

#endif
