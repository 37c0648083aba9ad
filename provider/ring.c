/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rings of WQEs. A queue is asked for as deep as it may ever get, and most never do: the ring
 * begins small and doubles when it is full, so that an idle QP costs little. Once it is as large
 * as the traffic needs, posting allocates nothing. Send queues take their memory when they are
 * posted to first, and where many QPs complete to a CQ they give it back whenever they are empty
 * (slots.h): posting takes it again, and may find that there is none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define RING_START 4 /* slots */

static uint32_t pow2_at_least(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size *= 2;
	return size;
}

/* As many slots as @used need. An allocator of the application's is asked for all of them, once. */
static uint32_t ring_slots(const struct urxe_ring *r, uint32_t max, uint32_t used)
{
	uint32_t n = used > RING_START ? used : RING_START;

	if (max < n || (r->pd && r->pd->alloc))
		n = max;
	return pow2_at_least(n);
}

static size_t ring_bytes(const struct urxe_ring *r)
{
	return (size_t)r->size * r->stride;
}

/* Are r->size slots a block that it shares? What is too large for that is the ring's own. */
static bool ring_shares(const struct urxe_ring *r)
{
	return r->shared && urxe_slots_fit(ring_bytes(r));
}

static int ring_take(struct urxe_ring *r)
{
	int err;

	if (ring_shares(r)) {
		r->slots = urxe_slots_take(r->shared, ring_bytes(r));
		return r->slots ? 0 : ENOMEM;
	}
	err = urxe_buf_alloc(&r->buf, r->pd, ring_bytes(r), r->type);
	r->slots = r->buf.p;
	return err;
}

static void ring_free(struct urxe_ring *r)
{
	if (ring_shares(r))
		free(r->slots);
	else
		urxe_buf_free(&r->buf);
	r->slots = NULL;
}

/* Other memory, with the same contents in slots @from to @to. What is too small now is for nobody:
 * others have grown as well, or keep what they have. */
static int ring_move(struct urxe_ring *r, uint32_t size, uint32_t from, uint32_t to)
{
	struct urxe_ring next = *r;

	next.size = size;
	if (ring_take(&next))
		return ENOMEM;
	for (uint32_t i = from; i != to; i++)
		memcpy(urxe_ring_at(&next, i), urxe_ring_at(r, i), r->stride);
	ring_free(r);
	*r = next;
	return 0;
}

int urxe_ring_init(struct urxe_ring *r, struct urxe_pd *pd, uint64_t type, uint32_t max,
		   uint32_t stride, struct urxe_slots *shared)
{
	memset(r, 0, sizeof(*r));
	r->pd = pd;
	r->type = type;
	r->max = max;
	r->stride = stride;
	if (!max)
		return 0;
	r->rested = ring_slots(r, max, 0);
	if (shared && !(pd && pd->alloc)) {
		r->shared = shared;
		return 0;
	}
	return ring_move(r, r->rested, 0, 0);
}

void urxe_ring_fini(struct urxe_ring *r)
{
	if (!r->slots && r->shared) {
		r->size = r->rested;
		urxe_slots_drop(r->shared, ring_bytes(r));
	} else {
		ring_free(r);
	}
	r->size = r->rested = 0;
}

int urxe_ring_grow(struct urxe_ring *r, uint32_t from, uint32_t to)
{
	int err;

	if (r->size)
		return ring_move(r, r->size * 2, from, to);
	r->size = r->rested;
	err = ring_take(r);
	if (err)
		r->size = 0;
	return err;
}

void urxe_ring_rest(struct urxe_ring *r)
{
	if (!r->size || !ring_shares(r))
		return;
	urxe_slots_give(r->shared, r->slots, ring_bytes(r));
	r->slots = NULL;
	r->rested = r->size;
	r->size = 0;
}

int urxe_ring_resize(struct urxe_ring *r, uint32_t max, uint32_t from, uint32_t to)
{
	int err = ring_move(r, ring_slots(r, max, to - from), from, to);

	if (!err)
		r->max = max;
	return err;
}
