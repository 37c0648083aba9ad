/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queues.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "door.h"
#include "trace.h"
#include "xrc.h"

/* All but what the library fills in of a plain SRQ. */
static struct urxe_srq *srq_create(struct ibv_context *ctx, struct ibv_pd *ibpd,
				   struct ibv_srq_attr *attr)
{
	struct urxe_pd *pd = to_urxe_pd(ibpd);
	struct urxe_device *dev = pd->dev;
	struct urxe_srq *srq = NULL;
	int err = urxe_device_claim(dev, &dev->num_srq, URXE_MAX_SRQ);

	if (err)
		goto fail;
	err = EINVAL;
	if (!attr->max_wr || attr->max_wr > URXE_MAX_SRQ_WR || attr->max_sge > URXE_MAX_SGE)
		goto fail;
	err = ENOMEM;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		goto fail;
	err = urxe_rq_init(&srq->rq, pd, URXEDV_RES_SRQ, attr->max_wr,
			   attr->max_sge ? attr->max_sge : 1);
	if (err)
		goto fail;
	srq->dev = dev;
	srq->pd = pd;
	srq->vsrq.srq_type = IBV_SRQT_BASIC;
	srq->vsrq.srq.context = ctx;
	urxe_context_get(ctx);
	srq->vsrq.srq.handle = urxe_handle(&srq->vsrq.srq);
	attr->max_sge = srq->rq.max_sge;
	atomic_fetch_add(&pd->users, 1);
	return srq;

fail:
	free(srq);
	atomic_fetch_sub(&dev->num_srq, 1);
	errno = err;
	return NULL;
}

static void srq_free(struct urxe_srq *srq)
{
	urxe_rq_fini(&srq->rq);
	atomic_fetch_sub(&srq->pd->users, 1);
	atomic_fetch_sub(&srq->dev->num_srq, 1);
	urxe_context_put(srq->vsrq.srq.context);
	free(srq);
}

struct ibv_srq *urxe_create_srq(struct ibv_pd *ibpd, struct ibv_srq_init_attr *attr)
{
	struct urxe_srq *srq = srq_create(ibpd->context, ibpd, &attr->attr);

	return srq ? &srq->vsrq.srq : NULL;
}

static int check_srq_ex(const struct ibv_srq_init_attr_ex *attr, bool *xrc)
{
	const uint32_t need = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	*xrc = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC;
	if (attr->comp_mask >= IBV_SRQ_INIT_ATTR_TM ||
	    (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type > IBV_SRQT_XRC))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		return EINVAL;
	if (*xrc && ((attr->comp_mask & need) != need || !attr->xrcd || !attr->cq))
		return EINVAL;
	return 0;
}

struct ibv_srq *urxe_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	struct urxe_srq *srq;
	struct ibv_srq *ibsrq;
	bool xrc;
	int err = check_srq_ex(attr, &xrc);

	if (err) {
		errno = err;
		return NULL;
	}
	srq = srq_create(ctx, attr->pd, &attr->attr);
	if (!srq)
		return NULL;
	if (xrc) {
		srq->vsrq.srq_type = IBV_SRQT_XRC;
		srq->vsrq.cq = attr->cq;
		srq->cq = to_urxe_cq(attr->cq);
		err = urxe_xrc_publish_srq(srq, attr->xrcd);
		if (err) {
			srq_free(srq);
			errno = err;
			return NULL;
		}
		atomic_fetch_add(&srq->cq->users, 1);
	}
	ibsrq = &srq->vsrq.srq;
	ibsrq->srq_context = attr->srq_context;
	ibsrq->pd = attr->pd;
	pthread_mutex_init(&ibsrq->mutex, NULL);
	pthread_cond_init(&ibsrq->cond, NULL);
	return ibsrq;
}

/* The same WQEs in a ring of another size. */
static int srq_resize(struct urxe_srq *srq, uint32_t max_wr) URXE_REQUIRES(srq->rq.lock)
{
	struct urxe_rq *rq = &srq->rq;

	if (!max_wr || max_wr > URXE_MAX_SRQ_WR || max_wr < rq->head - rq->tail)
		return EINVAL;
	return urxe_ring_resize(&rq->ring, max_wr, rq->tail, rq->head);
}

int urxe_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct urxe_srq *srq = to_urxe_srq(ibsrq);
	uint32_t max_wr;
	int err = 0;

	if (urxe_device_check(srq->dev))
		return EIO;
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;
	urxe_spin_lock(&srq->rq.lock);
	max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->rq.ring.max;
	if (mask & IBV_SRQ_LIMIT && attr->srq_limit > max_wr)
		err = EINVAL;
	if (!err && mask & IBV_SRQ_MAX_WR)
		err = srq_resize(srq, attr->max_wr);
	if (!err && mask & IBV_SRQ_LIMIT)
		srq->rq.limit = attr->srq_limit;
	urxe_spin_unlock(&srq->rq.lock);
	return err;
}

int urxe_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct urxe_srq *srq = to_urxe_srq(ibsrq);

	urxe_spin_lock(&srq->rq.lock);
	attr->max_wr = srq->rq.ring.max;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = srq->rq.limit;
	urxe_spin_unlock(&srq->rq.lock);
	return 0;
}

int urxe_destroy_srq(struct ibv_srq *ibsrq)
{
	struct urxe_srq *srq = to_urxe_srq(ibsrq);
	uint32_t events;

	if (atomic_load(&srq->users))
		return EBUSY;
	if (srq->cq) {
		urxe_xrc_unpublish_srq(srq);
		atomic_fetch_sub(&srq->cq->users, 1);
	}
	events = srq->async_events - urxe_event_purge(to_urxe_ctx(ibsrq->context), ibsrq);
	pthread_mutex_lock(&ibsrq->mutex);
	while (ibsrq->events_completed != events)
		pthread_cond_wait(&ibsrq->cond, &ibsrq->mutex);
	pthread_mutex_unlock(&ibsrq->mutex);
	pthread_mutex_destroy(&ibsrq->mutex);
	pthread_cond_destroy(&ibsrq->cond);
	srq_free(srq);
	return 0;
}

int urxe_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct urxe_srq *srq = to_urxe_srq(ibsrq);
	int err = 0;

	if (urxe_device_check(srq->dev)) {
		*bad = wr;
		return urxe_ret(EIO);
	}
	urxe_spin_lock(&srq->rq.lock);
	for (; wr && !err; wr = wr->next) {
		err = urxe_rq_post(&srq->rq, wr);
		if (err)
			*bad = wr;
		else
			urxe_trace_post_recv(0, wr);
	}
	urxe_spin_unlock(&srq->rq.lock);
	return urxe_ret(err);
}
