/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Hash tables (urxe/hash.h). */
#include <errno.h>
#include <stdlib.h>

#include "urxe/hash.h"

/* Of 1 MiB. Connections that wait for their time to pass are tens of thousands, and cold. */
#define SIZE_MOST 131072

static struct urxe_hash_node **bucket(const struct urxe_hash *h, uint64_t hash)
{
	return &h->buckets[hash & (h->size - 1)];
}

int urxe_hash_init(struct urxe_hash *h, size_t size)
{
	h->buckets = calloc(size, sizeof(*h->buckets));
	h->size = h->buckets ? size : 0;
	h->count = 0;
	return h->buckets ? 0 : ENOMEM;
}

void urxe_hash_fini(struct urxe_hash *h)
{
	free(h->buckets);
	h->buckets = NULL;
	h->size = h->count = 0;
}

/* Behind the others: of the same hash the oldest is found first. */
static void insert(struct urxe_hash *h, struct urxe_hash_node *n)
{
	struct urxe_hash_node **p = bucket(h, n->hash);

	while (*p)
		p = &(*p)->next;
	n->next = NULL;
	*p = n;
}

/* Without memory for it the buckets are longer. */
static void grow(struct urxe_hash *h)
{
	struct urxe_hash old = *h;

	if (urxe_hash_init(h, old.size * 2)) {
		*h = old;
		return;
	}
	h->count = old.count;
	for (size_t i = 0; i < old.size; i++) {
		for (struct urxe_hash_node *n = old.buckets[i], *next; n; n = next) {
			next = n->next;
			insert(h, n);
		}
	}
	free(old.buckets);
}

void urxe_hash_add(struct urxe_hash *h, struct urxe_hash_node *n, uint64_t hash)
{
	n->hash = hash;
	insert(h, n);
	if (++h->count > h->size && h->size < SIZE_MOST)
		grow(h);
}

void urxe_hash_del(struct urxe_hash *h, struct urxe_hash_node *n)
{
	struct urxe_hash_node **p = bucket(h, n->hash);

	while (*p != n)
		p = &(*p)->next;
	*p = n->next;
	h->count--;
}

static struct urxe_hash_node *same(struct urxe_hash_node *n, uint64_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

struct urxe_hash_node *urxe_hash_find(const struct urxe_hash *h, uint64_t hash)
{
	return same(*bucket(h, hash), hash);
}

struct urxe_hash_node *urxe_hash_again(const struct urxe_hash_node *n)
{
	return same(n->next, n->hash);
}

struct urxe_hash_node *urxe_hash_next(const struct urxe_hash *h, const struct urxe_hash_node *n)
{
	size_t i = 0;

	if (n && n->next)
		return n->next;
	if (n)
		i = (n->hash & (h->size - 1)) + 1;
	while (i < h->size && !h->buckets[i])
		i++;
	return i < h->size ? h->buckets[i] : NULL;
}
