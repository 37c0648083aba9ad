/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A table of objects by small index, read under RCU: QPs by the low bits of their
 * QPN, memory keys by their upper bits. Two levels, so that an idle device costs little.
 */
#ifndef URXE_PROVIDER_TABLE_H
#define URXE_PROVIDER_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#define URXE_TABLE_LEAF_BITS 9
#define URXE_TABLE_LEAF	     (1u << URXE_TABLE_LEAF_BITS)

struct urxe_table {
	unsigned size; /* entries, a multiple of the leaf size */
	_Atomic(_Atomic(void *) *) *leaves;
};

/** urxe_table_init - an empty table of @bits index bits. 0 or ENOMEM. */
int urxe_table_init(struct urxe_table *t, unsigned bits);

/** urxe_table_fini - free the table; its objects are the caller's. */
void urxe_table_fini(struct urxe_table *t);

/** urxe_table_set - publish @obj at @index (or NULL). Callers exclude each other. 0 or ENOMEM. */
int urxe_table_set(struct urxe_table *t, unsigned index, void *obj);

/** urxe_table_get - the object at @index, or NULL. Within an RCU read-side section. */
static inline void *urxe_table_get(const struct urxe_table *t, unsigned index)
{
	_Atomic(void *) *leaf;

	if (index >= t->size)
		return NULL;
	/* Both acquires pair with a release in urxe_table_set(). */
	leaf = atomic_load_explicit(&t->leaves[index >> URXE_TABLE_LEAF_BITS],
				    memory_order_acquire);
	if (!leaf)
		return NULL;
	return atomic_load_explicit(&leaf[index & (URXE_TABLE_LEAF - 1)], memory_order_acquire);
}

/** urxe_table_fetch - begin to fetch the line that urxe_table_get() of @index will look at.
 * Likewise. */
static inline void urxe_table_fetch(const struct urxe_table *t, unsigned index)
{
	uintptr_t leaf;

	if (index >= t->size)
		return;
	/* An address where there is no leaf is fetched in vain. */
	leaf = (uintptr_t)atomic_load_explicit(&t->leaves[index >> URXE_TABLE_LEAF_BITS],
					       memory_order_relaxed);
	__builtin_prefetch(
		(const void *)(leaf + (index & (URXE_TABLE_LEAF - 1)) * sizeof(_Atomic(void *))));
}

/** urxe_table_next - the first object at *@index or behind, which is left in *@index; NULL: no
 * more. Within an RCU read-side section. */
void *urxe_table_next(const struct urxe_table *t, unsigned *index);

#endif
