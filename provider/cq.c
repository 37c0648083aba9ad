/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues. Polling an empty one drives the device: that is where most of the work of
 * a busy-polling application gets done.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "door.h"
#include "progress.h"
#include "service.h"
#include "trace.h"
#include "rcu.h"

#define NAP_NS	     1000ull   /* and what the kernel adds, some 50 us */
#define NAP_FRAME_NS 200000ull /* of one that a frame ends */

#define LOOKS 4 /* in vain, of who has asked for an event, until it is taken for one that polls */

static uint32_t cq_round_up(uint32_t n)
{
	uint32_t size = 16;

	while (size < n)
		size *= 2;
	return size;
}

/* Room for its timer, so that arming one cannot fail. */
static int reserve_timer(struct urxe_device *dev)
{
	struct urxe_sched *s = &dev->sched;
	int err;

	urxe_spin_lock(&s->lock);
	err = urxe_timer_heap_reserve(&s->timers, (unsigned)atomic_load(&dev->num_qp) +
							  (unsigned)atomic_load(&dev->num_cq) + 1);
	urxe_spin_unlock(&s->lock);
	return err;
}

static void list_cq(struct urxe_cq *cq)
{
	struct urxe_device *dev = cq->dev;

	urxe_mutex_lock(&dev->cqs_lock);
	cq->number = ++dev->cq_number;
	cds_list_add_tail(&cq->node, &dev->cqs);
	urxe_mutex_unlock(&dev->cqs_lock);
}

static void unlist_cq(struct urxe_cq *cq)
{
	urxe_mutex_lock(&cq->dev->cqs_lock);
	cds_list_del(&cq->node);
	urxe_mutex_unlock(&cq->dev->cqs_lock);
}

static struct urxe_cq *cq_create(struct ibv_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_cq *cq = NULL;
	int err = urxe_device_claim(dev, &dev->num_cq, URXE_MAX_CQ);

	if (err)
		goto fail;
	err = EINVAL;
	if (attr->cqe < 1 || attr->cqe > URXE_MAX_CQE - 1 ||
	    attr->comp_vector >= (uint32_t)ctx->num_comp_vectors)
		goto fail;
	err = ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto fail;
	cq->size = cq_round_up(attr->cqe + 1);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		cq->pd = to_urxe_pd(attr->parent_domain);
	if (reserve_timer(dev) ||
	    urxe_buf_alloc(&cq->buf, cq->pd, cq->size * sizeof(*cq->ring), URXEDV_RES_CQ))
		goto fail;
	if (cq->pd)
		atomic_fetch_add(&cq->pd->users, 1);
	cq->ring = cq->buf.p;
	cq->dev = dev;
	cq->ctx = to_urxe_ctx(ctx);
	urxe_context_get(ctx);
	cq->timer.kind = URXE_TIMER_CQ;
	cq->vcq.cq.cqe = (int)cq->size - 1;
	if (attr->channel)
		atomic_fetch_add(&dev->num_event_cq, 1);
	cq->vcq.cq.handle = urxe_handle(&cq->vcq.cq);
	list_cq(cq);
	return cq;

fail:
	free(cq);
	atomic_fetch_sub(&dev->num_cq, 1);
	errno = err;
	return NULL;
}

struct ibv_cq *urxe_create_cq(struct ibv_context *ctx, int cqe, struct ibv_comp_channel *channel,
			      int vector)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = cqe < 0 ? 0 : (uint32_t)cqe,
					   .channel = channel,
					   .comp_vector = (uint32_t)vector};
	struct urxe_cq *cq = cq_create(ctx, &attr);

	return cq ? &cq->vcq.cq : NULL;
}

struct ibv_cq_ex *urxe_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t fields = IBV_CREATE_CQ_SUP_WC_FLAGS & ~(uint64_t)IBV_WC_EX_WITH_TM_INFO;
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t flags =
		IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	struct urxe_cq *cq;

	if (attr->comp_mask & ~known || attr->wc_flags & ~fields ||
	    (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~flags)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	/* A parent domain it is, not any PD (ibv_create_cq_ex). */
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
	    (!attr->parent_domain || attr->parent_domain->context != ctx ||
	     to_urxe_pd(attr->parent_domain)->root == to_urxe_pd(attr->parent_domain))) {
		errno = EINVAL;
		return NULL;
	}
	cq = cq_create(ctx, attr);
	if (!cq)
		return NULL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) {
		cq->single_threaded = attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
		cq->ignore_overrun = attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	}
	cq->timed = attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	urxe_cq_ex_init(cq);
	return &cq->vcq.cq_ex;
}

/* No timer will call any more. */
static void cq_stop_timer(struct urxe_cq *cq)
{
	struct urxe_sched *s = &cq->dev->sched;

	if (!cq->timer_used)
		return;
	urxe_spin_lock(&cq->lock);
	cq->mod_period = 0;
	urxe_spin_unlock(&cq->lock);
	urxe_spin_lock(&s->lock);
	urxe_timer_cancel(&s->timers, &cq->timer);
	urxe_spin_unlock(&s->lock);
	/* Who had it in hand already is within a read-side section. */
	urxe_rcu_synchronize();
}

int urxe_destroy_cq(struct ibv_cq *ibcq)
{
	struct urxe_cq *cq = to_urxe_cq(ibcq);
	uint32_t comp, async;

	if (atomic_load(&cq->users))
		return EBUSY;
	cq_stop_timer(cq);
	/* Who is about to send one is within a read-side section. */
	if (atomic_load(&cq->events_held))
		urxe_rcu_synchronize();
	/* Events that nobody has read point at us; those that were read must be acknowledged. */
	comp = cq->events_sent;
	if (comp)
		comp -= urxe_channel_purge(ibcq->channel, ibcq);
	async = cq->async_events;
	if (async)
		async -= urxe_event_purge(cq->ctx, ibcq);
	pthread_mutex_lock(&ibcq->mutex);
	while (ibcq->comp_events_completed != comp || ibcq->async_events_completed != async)
		pthread_cond_wait(&ibcq->cond, &ibcq->mutex);
	pthread_mutex_unlock(&ibcq->mutex);
	unlist_cq(cq);
	if (ibcq->channel)
		atomic_fetch_sub(&cq->dev->num_event_cq, 1);
	atomic_fetch_sub(&cq->dev->num_cq, 1);
	pthread_mutex_destroy(&ibcq->mutex);
	pthread_cond_destroy(&ibcq->cond);
	urxe_buf_free(&cq->buf);
	urxe_slots_fini(&cq->slots);
	if (cq->pd)
		atomic_fetch_sub(&cq->pd->users, 1);
	urxe_context_put(&cq->ctx->vctx.context);
	free(cq);
	return 0;
}

int urxe_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct urxe_cq *cq = to_urxe_cq(ibcq);
	struct urxe_buf buf, old;
	struct urxe_cqe *ring;
	uint32_t size, n, head, tail;

	if (urxe_device_check(cq->dev))
		return EIO;
	if (cqe < 1 || cqe > URXE_MAX_CQE - 1)
		return EINVAL;
	size = cq_round_up((uint32_t)cqe + 1);
	if (urxe_buf_alloc(&buf, cq->pd, size * sizeof(*ring), URXEDV_RES_CQ))
		return ENOMEM;
	ring = buf.p;
	urxe_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = urxe_cq_tail(cq);
	n = head - tail;
	if (n > (uint32_t)cqe) {
		urxe_spin_unlock(&cq->lock);
		urxe_buf_free(&buf);
		return EINVAL;
	}
	for (uint32_t i = 0; i < n; i++)
		ring[i] = cq->ring[(tail + i) & (cq->size - 1)];
	old = cq->buf;
	cq->buf = buf;
	cq->ring = ring;
	cq->size = size;
	atomic_store_explicit(&cq->tail, 0, memory_order_relaxed);
	atomic_store_explicit(&cq->head, n, memory_order_relaxed);
	ibcq->cqe = (int)size - 1;
	urxe_spin_unlock(&cq->lock);
	urxe_buf_free(&old);
	return 0;
}

int urxe_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct urxe_cq *cq = to_urxe_cq(ibcq);

	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return EINVAL;
	urxe_spin_lock(&cq->lock);
	cq->mod_count = attr->moderate.cq_count;
	cq->mod_period = attr->moderate.cq_period * 1000ull;
	urxe_spin_unlock(&cq->lock);
	/* What waited under the old rule waits no longer. */
	urxe_cq_timer(cq);
	return 0;
}

/*
 * A completion is lost, and with it what the CQ was for: the QPs that use it fail (IBTA 11.6.3.2),
 * when no lock of one is held. True: for the first time. cq->lock held.
 */
static bool cq_overrun(struct urxe_cq *cq) URXE_REQUIRES(cq->lock)
{
	bool first = !cq->overrun;

	cq->overrun = true;
	cq->failing = true;
	urxe_cq_set_timer(cq, 0);
	return first;
}

bool urxe_cq_push_raw(struct urxe_cq *cq, const struct ibv_wc *wc, bool solicited, uint16_t cvlan,
		      uint32_t flow_tag)
{
	bool lost = false, first = false, timer = false, error = wc->status != IBV_WC_SUCCESS;
	uint32_t head;
	int armed;

	urxe_trace_completion(wc);
	urxe_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	if (head - urxe_cq_tail(cq) >= cq->size - 1) {
		lost = !cq->ignore_overrun;
		first = lost && cq_overrun(cq);
	} else {
		struct urxe_cqe *e = &cq->ring[head & (cq->size - 1)];

		e->wc = *wc;
		e->when = cq->timed ? urxe_port_now(cq->dev->port) : 0;
		e->flow_tag = flow_tag;
		e->cvlan = cvlan;
		e->solicited = solicited || error;
		atomic_store_explicit(&cq->head, head + 1, memory_order_relaxed);
		armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
		if (armed == URXE_CQ_ARM_ANY || (armed == URXE_CQ_ARM_SOLICITED && e->solicited))
			timer = urxe_cq_notify(cq, error);
	}
	urxe_spin_unlock(&cq->lock);
	if (timer || lost)
		urxe_service_nudge(cq->dev); /* it may sleep for longer */
	if (first) {
		urxe_err("%s: completion queue of %u entries overrun, completions are lost: "
			 "the queue pairs that use it fail",
			 cq->dev->cfg.name, cq->size - 1);
		urxe_event_cq(cq, IBV_EVENT_CQ_ERR);
	}
	if (cq->gsi)
		urxe_service_gsi(cq->dev);
	return !lost;
}

static __attribute__((noinline)) int cq_pop(struct urxe_cq *cq, int n, struct ibv_wc *wc)
{
	uint32_t head, tail;
	int i;

	urxe_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = urxe_cq_tail(cq);
	for (i = 0; i < n && tail != head; i++)
		wc[i] = cq->ring[tail++ & (cq->size - 1)].wc;
	atomic_store_explicit(&cq->tail, tail, memory_order_relaxed);
	urxe_spin_unlock(&cq->lock);
	return i;
}

int urxe_cq_pop(struct urxe_cq *cq, int n, struct ibv_wc *wc)
{
	return urxe_cq_empty(cq) ? 0 : cq_pop(cq, n, wc);
}

/*
 * Who has asked for an event looks once more, and then sleeps. Who has asked and polls on is no
 * other than who has not.
 */
static bool leaves(const struct urxe_cq *cq, uint32_t empty)
{
	return atomic_load_explicit(&cq->armed, memory_order_relaxed) != URXE_CQ_UNARMED &&
	       empty < LOOKS;
}

/* The CQ was empty: a turn for the device. False: this process may not. */
static bool cq_drive(struct urxe_cq *cq)
{
	if (urxe_device_check(cq->dev))
		return false;
	if (!atomic_load_explicit(&cq->dev->started, memory_order_relaxed))
		return true;
	if (leaves(cq, atomic_load_explicit(&cq->empty_polls, memory_order_relaxed)))
		urxe_progress_glance(cq->dev);
	else
		urxe_progress_poll(cq->dev);
	return true;
}

static bool in_vain(struct urxe_device *dev)
{
	uint64_t packets =
		atomic_load_explicit(&dev->stats[URXE_STAT_RX_PACKETS], memory_order_relaxed) +
		atomic_load_explicit(&dev->stats[URXE_STAT_TX_PACKETS], memory_order_relaxed);

	return urxe_pause_in_vain(&dev->in_vain, urxe_port_now(dev->port), packets);
}

/* Others get the processor. Who has asked for an event is about to sleep anyway. Returns @empty. */
static __attribute__((noinline)) uint32_t let_in(const struct urxe_cq *cq, uint32_t empty)
{
	struct urxe_device *dev = cq->dev;

	if (leaves(cq, empty))
		return empty;
	if (atomic_load_explicit(&dev->emulated, memory_order_relaxed) && in_vain(dev))
		urxe_port_nap(dev->port, urxe_port_naps(dev->port) ? NAP_FRAME_NS : NAP_NS);
	else
		urxe_service_yield(dev);
	return 0;
}

/*
 * A caller that finds nothing time and again lets others have the core. One that has got something
 * may watch memory now, if that is what callers do here.
 */
static void cq_after(struct urxe_cq *cq, bool got)
{
	/* Several threads may poll it: what they lose of the count does not matter. */
	uint32_t empty = got ? 0 : atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;

	/* Its peer may share the core. */
	if (empty >= atomic_load_explicit(&cq->dev->yield_after, memory_order_relaxed))
		empty = let_in(cq, empty);
	atomic_store_explicit(&cq->empty_polls, empty, memory_order_relaxed);
	if (got && atomic_load_explicit(&cq->dev->service.watched, memory_order_relaxed))
		urxe_service_pass(cq->dev);
}

int urxe_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct urxe_cq *cq = to_urxe_cq(ibcq);
	int got = urxe_cq_empty(cq) ? 0 : cq_pop(cq, n, wc);

	if (!got && n > 0) {
		if (!cq_drive(cq)) {
			errno = EIO;
			return -1;
		}
		got = urxe_cq_empty(cq) ? 0 : cq_pop(cq, n, wc);
		cq_after(cq, got);
	}
	if (got)
		urxe_service_acked(cq->dev);
	return got;
}

static bool cq_take(struct urxe_cq *cq)
{
	uint32_t tail;
	bool got;

	if (urxe_cq_empty(cq))
		return false;
	urxe_spin_lock(&cq->lock);
	got = !urxe_cq_empty(cq);
	if (got) {
		tail = urxe_cq_tail(cq);
		cq->cur = cq->ring[tail & (cq->size - 1)];
		atomic_store_explicit(&cq->tail, tail + 1, memory_order_relaxed);
	}
	urxe_spin_unlock(&cq->lock);
	return got;
}

int urxe_cq_take(struct urxe_cq *cq, bool drive)
{
	bool got = cq_take(cq);

	if (!got && drive) {
		if (!cq_drive(cq))
			return EIO;
		got = cq_take(cq);
		cq_after(cq, got);
	}
	if (!got)
		return ENOENT;
	urxe_service_acked(cq->dev);
	return 0;
}

void urxe_cq_clean(struct urxe_cq *cq, uint32_t qpn, bool keep_good)
{
	uint32_t head, to;

	urxe_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	to = urxe_cq_tail(cq);
	for (uint32_t i = to; i != head; i++) {
		struct urxe_cqe *e = &cq->ring[i & (cq->size - 1)];

		if (e->wc.qp_num != qpn || (keep_good && e->wc.status == IBV_WC_SUCCESS))
			cq->ring[to++ & (cq->size - 1)] = *e;
	}
	atomic_store_explicit(&cq->head, to, memory_order_relaxed);
	urxe_spin_unlock(&cq->lock);
}
