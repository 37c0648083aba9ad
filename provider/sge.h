/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SGE lists: gather and scatter. What is in one plain region, as nearly always, is done inline, in
 * one walk that checks and copies; the rest, and what is refused, is sge.c's. All within an RCU
 * read-side section.
 */
#ifndef URXE_PROVIDER_SGE_H
#define URXE_PROVIDER_SGE_H

#include "memory.h"
#include "netio/port.h"
#include "urxe/guarded.h"

/**
 * urxe_sge_check - are @len bytes at @offset of an SGE list all accessible?
 * false: a local protection error.
 */
bool urxe_sge_check(struct urxe_device *dev, struct urxe_pd *pd, const struct ibv_sge *sge,
		    unsigned n, uint32_t offset, uint32_t len, unsigned access);

/** urxe_sge_gather_list, urxe_sge_scatter_list - any list, for those below. */
bool urxe_sge_gather_list(struct urxe_device *dev, struct urxe_pd *pd, const struct ibv_sge *sge,
			  unsigned n, uint32_t offset, uint32_t len, struct urxe_tx *tx);
bool urxe_sge_scatter_list(struct urxe_device *dev, struct urxe_pd *pd, const struct ibv_sge *sge,
			   unsigned n, uint32_t offset, const uint8_t *src, uint32_t len);

#define URXE_SGE_INLINE static inline __attribute__((always_inline))

/* Where all of the range is, if it is in the first SGE, and that in a plain region; else NULL. */
URXE_SGE_INLINE uint8_t *urxe_sge_plain(struct urxe_device *dev, const struct urxe_pd *pd,
					const struct ibv_sge *sge, unsigned n, uint32_t offset,
					uint32_t len, unsigned access)
{
	if (!n || !len || (uint64_t)offset + len > sge->length)
		return NULL;
	return urxe_mr_plain(dev, pd, sge->lkey, sge->addr + offset, len, access);
}

/**
 * urxe_sge_gather - append bytes to a frame, checking that they are accessible
 * false: a local protection error; the frame is to be aborted.
 */
URXE_SGE_INLINE bool urxe_sge_gather(struct urxe_device *dev, struct urxe_pd *pd,
				     const struct ibv_sge *sge, unsigned n, uint32_t offset,
				     uint32_t len, struct urxe_tx *tx)
{
	const uint8_t *src = urxe_sge_plain(dev, pd, sge, n, offset, len, 0);

	if (!src)
		return urxe_sge_gather_list(dev, pd, sge, n, offset, len, tx);
	if (!urxe_tx_append(tx, src, len))
		return true;
	urxe_lkey_gone(dev, sge->lkey, sge->addr + offset, len, 0);
	return false;
}

/**
 * urxe_sge_scatter - copy in
 *
 * false: a local protection error; nothing is written then, unless memory has gone.
 */
URXE_SGE_INLINE bool urxe_sge_scatter(struct urxe_device *dev, struct urxe_pd *pd,
				      const struct ibv_sge *sge, unsigned n, uint32_t offset,
				      const uint8_t *src, uint32_t len)
{
	uint8_t *dst = urxe_sge_plain(dev, pd, sge, n, offset, len, IBV_ACCESS_LOCAL_WRITE);

	if (!dst)
		return urxe_sge_scatter_list(dev, pd, sge, n, offset, src, len);
	if (!urxe_guarded_copy(dst, src, len))
		return true;
	urxe_lkey_gone(dev, sge->lkey, sge->addr + offset, len, IBV_ACCESS_LOCAL_WRITE);
	return false;
}

#endif
