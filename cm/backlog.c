/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests that find their listener's backlog full. The kernel says nothing then, as TCP does: the
 * peer asks again, and gets in once the application has taken what waits. Programs with a small
 * backlog count on that. But a peer that asks in vain should not have to find out by a time-out:
 * one that has asked a few times is rejected, and so are those beyond what we can remember.
 */
#include "cm/cma.h"
#include "provider/gsi.h"

#define PATIENCE  3		       /* REQs of one peer that are passed over */
#define REMEMBER  (30 * 1000000000ull) /* ns: longer than any CM waits to ask again */
#define KEY_PRIME 0x9e3779b97f4a7c15ull

/* Who asks: comm ids are random, and belong to one peer. */
static uint64_t key_of(const struct urxe_cm_id *cm)
{
	const struct urxe_cm_path *path = urxe_cm_get_path(cm);
	uint64_t key = urxe_cm_remote_comm_id(cm);

	for (unsigned i = 0; i < 16; i++)
		key = (key ^ path->dgid.raw[i]) * KEY_PRIME;
	return key ^ key >> 32;
}

bool urxe_cma_backlog_refuses(struct urxe_cma_dev *dev, const struct urxe_cm_id *cm)
{
	uint64_t key = key_of(cm), now = urxe_gsi_now(dev->verbs);
	struct urxe_cma_waiter *w = &dev->waiters[key % URXE_CMA_WAITERS];

	if (w->key != key) {
		if (w->times && now - w->since < REMEMBER)
			return true;
		*w = (struct urxe_cma_waiter){.key = key, .since = now};
	}
	if (w->times++ < PATIENCE)
		return false;
	w->times = 0;
	return true;
}
