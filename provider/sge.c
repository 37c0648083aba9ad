/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Walks over SGE lists. Lists are our own copies of what the application posted; keys are
 * looked up anew each time, for a region may go while a message is under way.
 */
#include "provider.h"
#include "sge.h"
#include "trace.h"

/* Where a walk stands: the rest of a range, cut to one SGE at a time. */
struct sge_walk {
	const struct ibv_sge *sge;
	unsigned n;
	uint32_t offset, left;
};

static bool sge_next(struct sge_walk *w, uint64_t *va, uint32_t *len, uint32_t *lkey)
{
	while (w->left && w->n) {
		const struct ibv_sge *s = w->sge;

		if (w->offset >= s->length) {
			w->offset -= s->length;
			w->sge++;
			w->n--;
			continue;
		}
		*va = s->addr + w->offset;
		*len = s->length - w->offset;
		if (*len > w->left)
			*len = w->left;
		*lkey = s->lkey;
		w->left -= *len;
		w->offset += *len;
		return true;
	}
	return false;
}

bool urxe_sge_check(struct urxe_device *dev, struct urxe_pd *pd, const struct ibv_sge *sge,
		    unsigned n, uint32_t offset, uint32_t len, unsigned access)
{
	struct sge_walk w = {sge, n, offset, len};
	uint32_t part, lkey;
	uint64_t va;

	while (sge_next(&w, &va, &part, &lkey)) {
		if (!urxe_mr_access(dev, pd, lkey, va, part, access)) {
			urxe_trace_lkey_denied(lkey, va, part, access);
			return false;
		}
	}
	return w.left == 0;
}

static bool gather_part(struct urxe_device *dev, struct urxe_pd *pd, uint32_t lkey, uint64_t va,
			uint32_t len, struct urxe_tx *tx)
{
	const uint8_t *src = urxe_mr_access(dev, pd, lkey, va, len, 0);

	if (!src) {
		urxe_trace_lkey_denied(lkey, va, len, 0);
		return false;
	}
	if (urxe_tx_append(tx, src == urxe_null_memory ? NULL : src, len)) {
		urxe_lkey_gone(dev, lkey, va, len, 0);
		return false;
	}
	return true;
}

bool urxe_sge_gather_list(struct urxe_device *dev, struct urxe_pd *pd, const struct ibv_sge *sge,
			  unsigned n, uint32_t offset, uint32_t len, struct urxe_tx *tx)
{
	struct sge_walk w = {sge, n, offset, len};
	uint32_t part, lkey;
	uint64_t va;

	while (sge_next(&w, &va, &part, &lkey)) {
		if (!gather_part(dev, pd, lkey, va, part, tx))
			return false;
	}
	return w.left == 0;
}

static bool scatter_part(struct urxe_device *dev, struct urxe_pd *pd, uint32_t lkey, uint64_t va,
			 const uint8_t *src, uint32_t len)
{
	uint8_t *dst = urxe_mr_access(dev, pd, lkey, va, len, IBV_ACCESS_LOCAL_WRITE);

	if (!dst) {
		urxe_trace_lkey_denied(lkey, va, len, IBV_ACCESS_LOCAL_WRITE);
		return false;
	}
	if (dst != urxe_null_memory && urxe_guarded_copy(dst, src, len)) {
		urxe_lkey_gone(dev, lkey, va, len, IBV_ACCESS_LOCAL_WRITE);
		return false;
	}
	return true;
}

bool urxe_sge_scatter_list(struct urxe_device *dev, struct urxe_pd *pd, const struct ibv_sge *sge,
			   unsigned n, uint32_t offset, const uint8_t *src, uint32_t len)
{
	struct sge_walk w = {sge, n, offset, len};
	uint32_t part, lkey;
	uint64_t va;

	/* All of it first, so that nothing is written when a part may not be. */
	if (!urxe_sge_check(dev, pd, sge, n, offset, len, IBV_ACCESS_LOCAL_WRITE))
		return false;
	while (sge_next(&w, &va, &part, &lkey)) {
		if (!scatter_part(dev, pd, lkey, va, src, part))
			return false;
		src += part;
	}
	return true;
}
