/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Buffers for frames of a link without DPDK: last in, first out, so that what was used last is in
 * the processor's cache. Whoever uses one keeps others out.
 */
#ifndef URXE_NETIO_BUF_POOL_H
#define URXE_NETIO_BUF_POOL_H

#include <stdint.h>

struct urxe_buf;
struct urxe_frame;

struct urxe_buf_pool {
	uint32_t room; /* bytes of a buffer */
	unsigned num_free;
	struct urxe_buf *free;
};

/** urxe_buf_get - up to @n empty frames; returns how many (memory may run out). */
unsigned urxe_buf_get(struct urxe_buf_pool *pool, struct urxe_frame *f, unsigned n);

/** urxe_buf_put - give one frame's buffer back; looks at buf alone. */
void urxe_buf_put(struct urxe_buf_pool *pool, const struct urxe_frame *f);

/** urxe_buf_fini - free what is in the pool. */
void urxe_buf_fini(struct urxe_buf_pool *pool);

#endif
