/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Frame buffers (buf_pool.h): malloc() makes them, and a list keeps those that are given back. */
#include <stdlib.h>

#include "netio/buf_pool.h"
#include "netio/link.h"

#define MAX_FREE 512

struct urxe_buf {
	struct urxe_buf *next;
	uint8_t data[];
};

unsigned urxe_buf_get(struct urxe_buf_pool *pool, struct urxe_frame *f, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		struct urxe_buf *b = pool->free;

		if (b) {
			pool->free = b->next;
			pool->num_free--;
		} else {
			b = malloc(sizeof(*b) + pool->room);
			if (!b)
				break;
		}
		f[i] = (struct urxe_frame){.data = b->data, .room = pool->room, .buf = b};
	}
	return i;
}

void urxe_buf_put(struct urxe_buf_pool *pool, const struct urxe_frame *f)
{
	struct urxe_buf *b = f->buf;

	if (pool->num_free >= MAX_FREE) {
		free(b);
		return;
	}
	b->next = pool->free;
	pool->free = b;
	pool->num_free++;
}

void urxe_buf_fini(struct urxe_buf_pool *pool)
{
	struct urxe_buf *b;

	while ((b = pool->free)) {
		pool->free = b->next;
		free(b);
	}
	pool->num_free = 0;
}
