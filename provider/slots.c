/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory that send queues share. Blocks of a size are alike, so that whichever came last will do:
 * there are never more of a size than were in use at once.
 */
#include <stdlib.h>

#include "slots.h"
#include "urxe/lines.h"

struct urxe_slots_block {
	struct urxe_slots_block *next;
};

static unsigned class_of(size_t bytes)
{
	unsigned class = 0;

	if (bytes > (size_t)1 << URXE_SLOTS_SMALLEST)
		class = 64 - (unsigned)__builtin_clzll(bytes - 1) - URXE_SLOTS_SMALLEST;
	return class;
}

static struct urxe_slots_block *pop(struct urxe_slots *s, unsigned class) URXE_EXCLUDES(s->lock)
{
	struct urxe_slots_block *block;

	urxe_spin_lock(&s->lock);
	block = s->rest[class];
	if (block)
		s->rest[class] = block->next;
	urxe_spin_unlock(&s->lock);
	return block;
}

void *urxe_slots_take(struct urxe_slots *s, size_t bytes)
{
	unsigned class = class_of(bytes);
	void *block = pop(s, class);

	return block ? block : aligned_alloc(URXE_LINE, (size_t)1 << (URXE_SLOTS_SMALLEST + class));
}

void urxe_slots_give(struct urxe_slots *s, void *block, size_t bytes)
{
	struct urxe_slots_block **rest = &s->rest[class_of(bytes)], *b = block;

	urxe_spin_lock(&s->lock);
	b->next = *rest;
	*rest = b;
	urxe_spin_unlock(&s->lock);
}

void urxe_slots_drop(struct urxe_slots *s, size_t bytes)
{
	free(pop(s, class_of(bytes)));
}

void urxe_slots_fini(struct urxe_slots *s)
{
	for (unsigned class = 0; class < URXE_SLOTS_CLASSES; class ++)
		for (void *block; (block = pop(s, class));)
			free(block);
}
