/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Asynchronous events: what the kernel would write to a device's async fd, we write to a pipe.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"
#include "trace.h"
#include "urxe/cancel.h"

static bool event_write(struct urxe_context *ctx, const struct ib_uverbs_async_event_desc *d)
	URXE_REQUIRES(ctx->async_lock)
{
	if (atomic_load_explicit(&ctx->closed, memory_order_relaxed))
		return false; /* there is nobody to read it */
	if (urxe_pipe_put(&ctx->async, d, sizeof(*d)))
		return true;
	urxe_stat_inc(ctx->dev, URXE_STAT_EVENTS_LOST);
	urxe_warn("%s: asynchronous event %u lost: the application does not read them",
		  ctx->dev->cfg.name, d->event_type);
	return false;
}

static void event_raise(struct urxe_context *ctx, enum ibv_event_type type, uint64_t element,
			uint32_t *counter)
{
	struct ib_uverbs_async_event_desc d;
	int cancel;

	memset(&d, 0, sizeof(d));
	d.element = element;
	d.event_type = type;
	cancel = urxe_cancel_off();
	urxe_mutex_lock(&ctx->async_lock);
	if (event_write(ctx, &d) && counter)
		++*counter;
	urxe_mutex_unlock(&ctx->async_lock);
	urxe_cancel_back(cancel);
}

void urxe_event_qp(struct urxe_qp *qp, enum ibv_event_type type)
{
	struct urxe_qp_open *o;

	urxe_trace_event("QP", qp->qpn, type);
	if (qp->type != IBV_QPT_XRC_RECV) {
		event_raise(qp->ctx, type, (uintptr_t)&qp->vqp.qp, &qp->async_events);
		return;
	}
	cds_list_for_each_entry (o, &qp->opens, node)
		event_raise(o->ctx, type, (uintptr_t)&o->vqp.qp, &o->async_events);
}

void urxe_event_cq(struct urxe_cq *cq, enum ibv_event_type type)
{
	urxe_trace_event("CQ", 0, type);
	event_raise(cq->ctx, type, (uintptr_t)&cq->vcq.cq, &cq->async_events);
}

void urxe_event_srq(struct urxe_srq *srq, enum ibv_event_type type)
{
	urxe_trace_event("SRQ", srq->num, type);
	event_raise(to_urxe_ctx(srq->vsrq.srq.context), type, (uintptr_t)&srq->vsrq.srq,
		    &srq->async_events);
}

void urxe_event_wq(struct urxe_context *ctx, struct ibv_wq *wq, uint32_t *counter)
{
	urxe_trace_event("WQ", wq->wq_num, IBV_EVENT_WQ_FATAL);
	event_raise(ctx, IBV_EVENT_WQ_FATAL, (uintptr_t)wq, counter);
}

void urxe_event_device(struct urxe_device *dev, enum ibv_event_type type)
{
	struct urxe_context *ctx;

	urxe_trace_event("port", 1, type);
	urxe_mutex_lock(&dev->mutex);
	cds_list_for_each_entry (ctx, &dev->contexts, node)
		event_raise(ctx, type, 1, NULL); /* the port's number */
	urxe_mutex_unlock(&dev->mutex);
}

/* Also when the context is closed: others' are counted, and waited for by who destroys these. */
unsigned urxe_event_purge(struct urxe_context *ctx, const void *element)
{
	unsigned purged, lost;

	urxe_mutex_lock(&ctx->async_lock);
	purged = urxe_pipe_purge(&ctx->async, sizeof(struct ib_uverbs_async_event_desc),
				 (uintptr_t)element, &lost);
	urxe_mutex_unlock(&ctx->async_lock);
	if (lost)
		urxe_stat_add(ctx->dev, URXE_STAT_EVENTS_LOST, lost);
	return purged;
}
