/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues. Polling an empty one drives the device: that is where most of the work of
 * a busy-polling application gets done.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

/* After so many empty polls in a row a spinning caller yields: its peer may share the core. */
#define CQ_YIELD_AFTER 32

static uint32_t cq_round_up(uint32_t n)
{
	uint32_t size = 16;

	while (size < n)
		size *= 2;
	return size;
}

struct ibv_cq *urxe_create_cq(struct ibv_context *ctx, int cqe, struct ibv_comp_channel *channel,
			      int vector)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_cq *cq = NULL;
	int err = EINVAL;

	if (atomic_fetch_add(&dev->num_cq, 1) >= URXE_MAX_CQ) {
		err = ENOMEM;
		goto fail;
	}
	if (cqe < 1 || cqe > URXE_MAX_CQE - 1 || vector < 0 || vector >= URXE_COMP_VECTORS)
		goto fail;
	err = ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto fail;
	cq->size = cq_round_up((uint32_t)cqe + 1);
	cq->ring = calloc(cq->size, sizeof(*cq->ring));
	if (!cq->ring)
		goto fail;
	cq->dev = dev;
	cq->ctx = to_urxe_ctx(ctx);
	cq->vcq.cq.cqe = (int)cq->size - 1;
	return &cq->vcq.cq;

fail:
	free(cq);
	atomic_fetch_sub(&dev->num_cq, 1);
	errno = err;
	return NULL;
}

int urxe_destroy_cq(struct ibv_cq *ibcq)
{
	struct urxe_cq *cq = to_urxe_cq(ibcq);
	uint32_t comp, async;

	if (atomic_load(&cq->users))
		return EBUSY;
	/* Events that nobody has read point at us; those that were read must be acknowledged. */
	comp = cq->events_sent;
	if (ibcq->channel)
		comp -= urxe_channel_purge(ibcq->channel, ibcq);
	async = cq->async_events;
	async -= urxe_event_purge(cq->ctx, ibcq);
	pthread_mutex_lock(&ibcq->mutex);
	while (ibcq->comp_events_completed != comp || ibcq->async_events_completed != async)
		pthread_cond_wait(&ibcq->cond, &ibcq->mutex);
	pthread_mutex_unlock(&ibcq->mutex);
	atomic_fetch_sub(&cq->dev->num_cq, 1);
	pthread_mutex_destroy(&ibcq->mutex);
	pthread_cond_destroy(&ibcq->cond);
	free(cq->ring);
	free(cq);
	return 0;
}

int urxe_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct urxe_cq *cq = to_urxe_cq(ibcq);
	struct urxe_cqe *ring, *old;
	uint32_t size, n, head;

	if (cqe < 1 || cqe > URXE_MAX_CQE - 1)
		return EINVAL;
	size = cq_round_up((uint32_t)cqe + 1);
	ring = calloc(size, sizeof(*ring));
	if (!ring)
		return ENOMEM;
	urxe_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	n = head - cq->tail;
	if (n > (uint32_t)cqe) {
		urxe_spin_unlock(&cq->lock);
		free(ring);
		return EINVAL;
	}
	for (uint32_t i = 0; i < n; i++)
		ring[i] = cq->ring[(cq->tail + i) & (cq->size - 1)];
	old = cq->ring;
	cq->ring = ring;
	cq->size = size;
	cq->tail = 0;
	atomic_store_explicit(&cq->head, n, memory_order_relaxed);
	ibcq->cqe = (int)size - 1;
	urxe_spin_unlock(&cq->lock);
	free(old);
	return 0;
}

void urxe_cq_push(struct urxe_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	bool overrun = false;
	uint32_t head;
	int armed;

	urxe_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	if (head - cq->tail >= cq->size - 1) {
		overrun = !cq->overrun;
		cq->overrun = true;
	} else {
		struct urxe_cqe *e = &cq->ring[head & (cq->size - 1)];

		e->wc = *wc;
		atomic_store_explicit(&cq->head, head + 1, memory_order_relaxed);
		armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
		if (armed == URXE_CQ_ARM_ANY || (armed == URXE_CQ_ARM_SOLICITED &&
						 (solicited || wc->status != IBV_WC_SUCCESS))) {
			/* Counted before it can be read: destroy compares with what was acked. */
			cq->events_sent++;
			if (urxe_channel_notify(cq->vcq.cq.channel, &cq->vcq.cq))
				atomic_store_explicit(&cq->armed, URXE_CQ_UNARMED,
						      memory_order_relaxed);
			else
				cq->events_sent--;
		}
	}
	urxe_spin_unlock(&cq->lock);
	if (overrun) {
		urxe_err("%s: completion queue of %u entries overrun, completions are lost",
			 cq->dev->cfg.name, cq->size - 1);
		urxe_event_cq(cq, IBV_EVENT_CQ_ERR);
	}
	if (cq->gsi)
		urxe_service_gsi(cq->dev);
}

static int cq_pop(struct urxe_cq *cq, int n, struct ibv_wc *wc)
{
	uint32_t head;
	int i;

	urxe_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	for (i = 0; i < n && cq->tail != head; i++)
		wc[i] = cq->ring[cq->tail++ & (cq->size - 1)].wc;
	urxe_spin_unlock(&cq->lock);
	return i;
}

int urxe_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct urxe_cq *cq = to_urxe_cq(ibcq);
	int got = cq_pop(cq, n, wc);
	uint32_t empty;

	if (got || n <= 0)
		return got;
	if (!atomic_load_explicit(&cq->dev->started, memory_order_relaxed))
		return 0;
	if (atomic_load_explicit(&cq->dev->dead, memory_order_relaxed))
		return -1;
	urxe_progress_poll(cq->dev);
	got = cq_pop(cq, n, wc);
	/* Several threads may poll it: what they lose of the count does not matter. */
	empty = got ? 0 : atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;
	if (empty >= CQ_YIELD_AFTER) {
		empty = 0;
		sched_yield();
	}
	atomic_store_explicit(&cq->empty_polls, empty, memory_order_relaxed);
	return got;
}

int urxe_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct urxe_cq *cq = to_urxe_cq(ibcq);

	if (!ibcq->channel)
		return EINVAL;
	urxe_spin_lock(&cq->lock);
	/* The stronger request stays (IBTA 11.4.2.2). */
	if (!solicited_only ||
	    atomic_load_explicit(&cq->armed, memory_order_relaxed) == URXE_CQ_UNARMED)
		atomic_store_explicit(&cq->armed,
				      solicited_only ? URXE_CQ_ARM_SOLICITED : URXE_CQ_ARM_ANY,
				      memory_order_relaxed);
	urxe_spin_unlock(&cq->lock);
	/* From now on the caller may sleep: somebody else must drive. */
	if (atomic_load_explicit(&cq->dev->started, memory_order_relaxed))
		urxe_service_nudge(cq->dev);
	return 0;
}

void urxe_cq_clean(struct urxe_cq *cq, uint32_t qpn)
{
	uint32_t head, to;

	urxe_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	to = cq->tail;
	for (uint32_t i = cq->tail; i != head; i++) {
		struct urxe_cqe *e = &cq->ring[i & (cq->size - 1)];

		if (e->wc.qp_num != qpn)
			cq->ring[to++ & (cq->size - 1)] = *e;
	}
	atomic_store_explicit(&cq->head, to, memory_order_relaxed);
	urxe_spin_unlock(&cq->lock);
}
