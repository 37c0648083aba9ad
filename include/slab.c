/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Chunks of a power of two of bytes, at addresses that are multiples of it: each finds its own. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "urxe/free.h"
#include "urxe/slab.h"

#if URXE_SLAB_PLAIN
void *urxe_slab_get(struct urxe_slab *s, size_t zero)
{
	void *p = aligned_alloc(URXE_LINE, s->size);

	return p ? memset(p, 0, zero) : NULL;
}

void urxe_slab_put(struct urxe_slab *s, void *p)
{
	(void)s;
	urxe_free(p);
}

void urxe_slab_fini(struct urxe_slab *s)
{
	(void)s;
}
#else

/* With its alignment less than what malloc() maps apart (128 KiB). */
#define CHUNK ((size_t)32 * 1024)

struct block {
	struct block *next;
};

struct urxe_slab_chunk {
	struct urxe_slab_chunk *prev, *next; /* in partial */
	struct block *free;		     /* given back */
	char *fresh;			     /* never given; up to the chunk's end */
	unsigned used;
};

static struct urxe_slab_chunk *chunk_of(void *p)
{
	return (struct urxe_slab_chunk *)(void *)((char *)p - ((uintptr_t)p & (CHUNK - 1)));
}

/* Is all of it in use? */
static int full(const struct urxe_slab *s, struct urxe_slab_chunk *c)
{
	return !c->free && (size_t)(c->fresh - (char *)c) + s->size > CHUNK;
}

static void link_first(struct urxe_slab *s, struct urxe_slab_chunk *c)
{
	c->prev = NULL;
	c->next = s->partial;
	if (c->next)
		c->next->prev = c;
	s->partial = c;
}

static void unlink_chunk(struct urxe_slab *s, struct urxe_slab_chunk *c)
{
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		s->partial = c->next;
}

static struct urxe_slab_chunk *new_chunk(struct urxe_slab *s)
{
	struct urxe_slab_chunk *c = s->empty;

	s->empty = NULL;
	if (!c) {
		c = aligned_alloc(CHUNK, CHUNK);
		if (!c)
			return NULL;
		memset(c, 0, sizeof(*c));
		c->fresh = (char *)c + URXE_LINE;
	}
	link_first(s, c);
	return c;
}

void *urxe_slab_get(struct urxe_slab *s, size_t zero)
{
	struct urxe_slab_chunk *c = s->partial ? s->partial : new_chunk(s);
	void *p;

	if (!c)
		return NULL;
	if (c->free) {
		p = c->free;
		c->free = c->free->next;
	} else {
		p = c->fresh;
		c->fresh += s->size;
	}
	c->used++;
	if (full(s, c))
		unlink_chunk(s, c);
	return memset(p, 0, zero);
}

void urxe_slab_put(struct urxe_slab *s, void *p)
{
	struct urxe_slab_chunk *c;
	struct block *b = p;

	if (!p)
		return;
	c = chunk_of(p);
	if (full(s, c))
		link_first(s, c);
	b->next = c->free;
	c->free = b;
	if (--c->used)
		return;
	unlink_chunk(s, c);
	/* Of those that are empty one is enough. */
	urxe_free(s->empty);
	s->empty = c;
}

void urxe_slab_fini(struct urxe_slab *s)
{
	free(s->empty);
	s->empty = NULL;
}
#endif
