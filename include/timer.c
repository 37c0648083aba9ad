/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A heap of timers, each of which knows its place. */
#include <errno.h>
#include <stdlib.h>

#include "urxe/timer.h"

/* Below one, in one cache line or two: half as many levels as of two. */
#define WAYS 4u

int urxe_timer_heap_reserve(struct urxe_timer_heap *h, unsigned n)
{
	struct urxe_timer_slot *v;
	unsigned room = h->room ? h->room : 64;

	while (room < n)
		room *= 2;
	if (room == h->room)
		return 0;
	v = realloc(h->v, room * sizeof(*v));
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

static void heap_put(struct urxe_timer_heap *h, unsigned i, struct urxe_timer_slot s)
{
	h->v[i] = s;
	s.t->pos = i + 1;
}

static void heap_up(struct urxe_timer_heap *h, unsigned i, struct urxe_timer_slot s)
{
	while (i) {
		unsigned up = (i - 1) / WAYS;

		if (h->v[up].when <= s.when)
			break;
		heap_put(h, i, h->v[up]);
		i = up;
	}
	heap_put(h, i, s);
}

/* The earliest of those below @i; @i itself when there are none. */
static unsigned earliest_below(const struct urxe_timer_heap *h, unsigned i)
{
	unsigned first = WAYS * i + 1, end = first + WAYS < h->n ? first + WAYS : h->n;

	if (first >= h->n)
		return i;
	for (unsigned at = first + 1; at < end; at++) {
		if (h->v[at].when < h->v[first].when)
			first = at;
	}
	return first;
}

static void heap_down(struct urxe_timer_heap *h, unsigned i, struct urxe_timer_slot s)
{
	unsigned down;

	while ((down = earliest_below(h, i)) != i && h->v[down].when < s.when) {
		heap_put(h, i, h->v[down]);
		i = down;
	}
	heap_put(h, i, s);
}

void urxe_timer_set(struct urxe_timer_heap *h, struct urxe_timer *t, uint64_t when)
{
	urxe_timer_cancel(h, t);
	t->when = when;
	heap_up(h, h->n++, (struct urxe_timer_slot){when, t});
}

void urxe_timer_cancel(struct urxe_timer_heap *h, struct urxe_timer *t)
{
	struct urxe_timer_slot last;
	unsigned i = t->pos;

	if (!i)
		return;
	t->pos = 0;
	last = h->v[--h->n];
	if (last.t == t)
		return;
	i--;
	if (i && h->v[(i - 1) / WAYS].when > last.when)
		heap_up(h, i, last);
	else
		heap_down(h, i, last);
}

struct urxe_timer *urxe_timer_first(const struct urxe_timer_heap *h)
{
	return h->n ? h->v[0].t : NULL;
}
