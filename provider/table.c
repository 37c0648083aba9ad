/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Look-up tables by number: writers hold a lock of their own, readers are under RCU. */
#include <errno.h>
#include <stdlib.h>

#include "table.h"
#include "urxe/sparse.h"

int urxe_table_init(struct urxe_table *t, unsigned bits)
{
	if (bits < URXE_TABLE_LEAF_BITS)
		bits = URXE_TABLE_LEAF_BITS;
	t->leaves = urxe_alloc_sparse(sizeof(*t->leaves) << (bits - URXE_TABLE_LEAF_BITS));
	if (!t->leaves)
		return ENOMEM;
	t->size = 1u << bits;
	return 0;
}

void urxe_table_fini(struct urxe_table *t)
{
	if (!t->leaves)
		return;
	for (unsigned i = 0; i < t->size >> URXE_TABLE_LEAF_BITS; i++)
		free(atomic_load(&t->leaves[i]));
	free(t->leaves);
	t->leaves = NULL;
	t->size = 0;
}

int urxe_table_set(struct urxe_table *t, unsigned index, void *obj)
{
	unsigned hi = index >> URXE_TABLE_LEAF_BITS;
	_Atomic(void *) *leaf;

	if (index >= t->size)
		return ENOMEM;
	leaf = atomic_load_explicit(&t->leaves[hi], memory_order_acquire);
	if (!leaf) {
		leaf = calloc(URXE_TABLE_LEAF, sizeof(*leaf));
		if (!leaf)
			return ENOMEM;
		/* Both releases pair with an acquire in urxe_table_get(). */
		atomic_store_explicit(&t->leaves[hi], leaf, memory_order_release);
	}
	atomic_store_explicit(&leaf[index & (URXE_TABLE_LEAF - 1)], obj, memory_order_release);
	return 0;
}

void *urxe_table_next(const struct urxe_table *t, unsigned *index)
{
	void *obj;

	while (*index < t->size) {
		if (!atomic_load_explicit(&t->leaves[*index >> URXE_TABLE_LEAF_BITS],
					  memory_order_relaxed)) {
			*index = (*index | (URXE_TABLE_LEAF - 1)) + 1;
			continue;
		}
		obj = urxe_table_get(t, *index);
		if (obj)
			return obj;
		++*index;
	}
	return NULL;
}
