/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A hash table of entries that their owners embed. It grows with them, as far as there is memory;
 * adding cannot fail. Not thread-safe: the owner of the table has the lock for it.
 */
#ifndef URXE_HASH_H
#define URXE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct urxe_hash_node {
	struct urxe_hash_node *next; /* in the bucket */
	uint64_t hash;
};

struct urxe_hash {
	struct urxe_hash_node **buckets;
	size_t size; /* buckets: a power of two; 0: no table */
	size_t count;
};

/** urxe_hash_init - an empty table of @size buckets, a power of two, to begin with. 0 or ENOMEM. */
int urxe_hash_init(struct urxe_hash *h, size_t size);

/** urxe_hash_fini - free the buckets; the entries left are their owners'. Zeros are fine. */
void urxe_hash_fini(struct urxe_hash *h);

/** urxe_hash_add - put an entry in, which is in no table. Several may have the same @hash. */
void urxe_hash_add(struct urxe_hash *h, struct urxe_hash_node *n, uint64_t hash);

/** urxe_hash_del - take an entry out that is in. */
void urxe_hash_del(struct urxe_hash *h, struct urxe_hash_node *n);

/** urxe_hash_find - the oldest entry of this hash; NULL: there is none. */
struct urxe_hash_node *urxe_hash_find(const struct urxe_hash *h, uint64_t hash);

/** urxe_hash_again - the one of the same hash behind @n, which urxe_hash_find() gave, or this. */
struct urxe_hash_node *urxe_hash_again(const struct urxe_hash_node *n);

/** urxe_hash_next - the entry behind @n (NULL: the first), in no order; NULL: there is no more. */
struct urxe_hash_node *urxe_hash_next(const struct urxe_hash *h, const struct urxe_hash_node *n);

#endif
