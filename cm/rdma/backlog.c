/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests that find their listener's backlog full. Neither the kernel nor TCP answers then: the
 * peer retransmits, and gets in once the application has taken what waits. Programs with a small
 * backlog count on that. But a peer that asks in vain should not have to find out by a time-out:
 * one that has asked a few times is rejected, and so are those beyond what we can remember.
 */
#include <errno.h>
#include <stdlib.h>

#include "cm/rdma/cma.h"
#include "provider/gsi.h"
#include "urxe/gid.h"

#define PATIENCE  3		       /* REQs of one peer that are passed over */
#define REMEMBER  (30 * 1000000000ull) /* ns: longer than any CM waits to ask again */
#define KEY_PRIME 0x9e3779b97f4a7c15ull

#define SENDERS	   64
#define OWED_LEAST 1024

/*
 * One address may have as many requests pending as the backlog is long; a quarter more is there
 * for the others, whom it cannot shut out.
 */
static uint16_t *of_sender(const struct urxe_cma_id *listener, const union ibv_gid *gid)
{
	return &listener->senders[urxe_gid_hash(gid->raw) % SENDERS];
}

int urxe_cma_backlog_init(struct urxe_cma_id *listener)
{
	if (!listener->senders)
		listener->senders = calloc(SENDERS, sizeof(*listener->senders));
	return listener->senders ? 0 : ENOMEM;
}

bool urxe_cma_backlog_full(const struct urxe_cma_id *listener, const union ibv_gid *sender)
{
	return listener->pending >= listener->backlog + listener->backlog / 4 + 1 ||
	       *of_sender(listener, sender) >= listener->backlog;
}

/*
 * A peer that was accepted and does not answer has left the backlog, but holds a QP of the
 * application's for as long as the REP is repeated. One address may have so many without RTU.
 */
bool urxe_cma_backlog_owed(const struct urxe_cma_id *listener, const struct urxe_cm_id *cm)
{
	unsigned most = 4 * (unsigned)listener->backlog;

	return urxe_cm_unanswered(cm) >= (most > OWED_LEAST ? most : OWED_LEAST);
}

void urxe_cma_backlog_count(struct urxe_cma_id *listener, const struct urxe_cma_id *child, int n)
{
	uint16_t *count = of_sender(listener, &child->dgid);

	listener->pending += n;
	*count = (uint16_t)(*count + n);
}

/* The peer that asks: comm ids are random, and belong to one peer. */
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
	struct urxe_cma_waiter *w = &dev->listening->waiters[key % URXE_CMA_WAITERS];

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
