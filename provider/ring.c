/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rings of WQEs. A queue is asked for as deep as it may ever get, and most never do: the ring
 * begins small and doubles when it is full, so that an idle QP costs little. Once it is as large
 * as the traffic needs, posting allocates nothing.
 */
#include <errno.h>
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

/* Other memory, with the same contents in slots @from to @to. */
static int ring_move(struct urxe_ring *r, uint32_t size, uint32_t from, uint32_t to)
{
	struct urxe_ring next = *r;

	if (urxe_buf_alloc(&next.buf, r->pd, (size_t)size * r->stride, r->type))
		return ENOMEM;
	next.slots = next.buf.p;
	next.size = size;
	for (uint32_t i = from; i != to; i++)
		memcpy(urxe_ring_at(&next, i), urxe_ring_at(r, i), r->stride);
	urxe_buf_free(&r->buf);
	*r = next;
	return 0;
}

int urxe_ring_init(struct urxe_ring *r, struct urxe_pd *pd, uint64_t type, uint32_t max,
		   uint32_t stride)
{
	memset(r, 0, sizeof(*r));
	r->pd = pd;
	r->type = type;
	r->max = max;
	r->stride = stride;
	return max ? ring_move(r, ring_slots(r, max, 0), 0, 0) : 0;
}

void urxe_ring_fini(struct urxe_ring *r)
{
	urxe_buf_free(&r->buf);
	r->slots = NULL;
	r->size = 0;
}

int urxe_ring_grow(struct urxe_ring *r, uint32_t from, uint32_t to)
{
	return ring_move(r, r->size * 2, from, to);
}

int urxe_ring_resize(struct urxe_ring *r, uint32_t max, uint32_t from, uint32_t to)
{
	int err = ring_move(r, ring_slots(r, max, to - from), from, to);

	if (!err)
		r->max = max;
	return err;
}
