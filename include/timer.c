/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A binary heap of timers, each of which knows its place. */
#include <errno.h>
#include <stdlib.h>

#include "urxe/timer.h"

int urxe_timer_heap_reserve(struct urxe_timer_heap *h, unsigned n)
{
	struct urxe_timer **v;
	unsigned room = h->room ? h->room : 64;

	while (room < n)
		room *= 2;
	if (room == h->room)
		return 0;
	v = realloc(h->v, room * sizeof(struct urxe_timer *));
	if (!v)
		return ENOMEM;
	h->v = v;
	h->room = room;
	return 0;
}

void urxe_timer_heap_fini(struct urxe_timer_heap *h)
{
	free(h->v);
	h->v = NULL;
	h->n = h->room = 0;
}

static void heap_put(struct urxe_timer_heap *h, unsigned i, struct urxe_timer *t)
{
	h->v[i] = t;
	t->pos = i + 1;
}

static void heap_up(struct urxe_timer_heap *h, unsigned i, struct urxe_timer *t)
{
	while (i) {
		unsigned up = (i - 1) / 2;

		if (h->v[up]->when <= t->when)
			break;
		heap_put(h, i, h->v[up]);
		i = up;
	}
	heap_put(h, i, t);
}

static void heap_down(struct urxe_timer_heap *h, unsigned i, struct urxe_timer *t)
{
	for (;;) {
		unsigned down = 2 * i + 1;

		if (down >= h->n)
			break;
		if (down + 1 < h->n && h->v[down + 1]->when < h->v[down]->when)
			down++;
		if (t->when <= h->v[down]->when)
			break;
		heap_put(h, i, h->v[down]);
		i = down;
	}
	heap_put(h, i, t);
}

void urxe_timer_set(struct urxe_timer_heap *h, struct urxe_timer *t, uint64_t when)
{
	urxe_timer_cancel(h, t);
	t->when = when;
	heap_up(h, h->n++, t);
}

void urxe_timer_cancel(struct urxe_timer_heap *h, struct urxe_timer *t)
{
	struct urxe_timer *last;
	unsigned i = t->pos;

	if (!i)
		return;
	t->pos = 0;
	last = h->v[--h->n];
	if (last == t)
		return;
	i--;
	if (i && h->v[(i - 1) / 2]->when > last->when)
		heap_up(h, i, last);
	else
		heap_down(h, i, last);
}

struct urxe_timer *urxe_timer_first(const struct urxe_timer_heap *h)
{
	return h->n ? h->v[0] : NULL;
}
