/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs: birth, death, query, and the fall into the error state.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "early.h"
#include "stall.h"
#include "keep.h"
#include "mcast.h"
#include "progress.h"
#include "raw.h"
#include "recover.h"
#include "requester.h"
#include "responder.h"
#include "trace.h"
#include "wq.h"
#include "wqe.h"
#include "wr.h"
#include "xrc.h"
#include "rcu.h"

static int qp_check_attr(const struct ibv_qp_init_attr *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;

	switch (attr->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
		break;
	case IBV_QPT_XRC_SEND:
		if (attr->srq)
			return EINVAL;
		break;
	case IBV_QPT_RAW_PACKET:
		if (urxe_raw_check_permission())
			return EPERM;
		break;
	case IBV_QPT_XRC_RECV:
		return 0;
	default:
		return EOPNOTSUPP;
	}
	if (!attr->send_cq || (!attr->recv_cq && attr->qp_type != IBV_QPT_XRC_SEND))
		return EINVAL;
	if (cap->max_send_wr > URXE_MAX_QP_WR || cap->max_send_sge > URXE_MAX_SGE ||
	    cap->max_inline_data > URXE_MAX_INLINE)
		return EINVAL;
	if (!attr->srq && (cap->max_recv_wr > URXE_MAX_QP_WR || cap->max_recv_sge > URXE_MAX_SGE))
		return EINVAL;
	return 0;
}

static int qp_init_queues(struct urxe_qp *qp, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_cap *cap = &attr->cap;
	struct urxe_sq *sq = &qp->sq;
	uint32_t tail, max_sge;

	if (!cap->max_send_sge)
		cap->max_send_sge = 1;
	sq->max_sge = (uint16_t)cap->max_send_sge;
	/* Inline data lie where the SGEs would: that much is had without asking (rdma_xclient
	 * does). */
	tail = sq->max_sge * (uint32_t)sizeof(struct ibv_sge);
	if (tail < cap->max_inline_data)
		tail = cap->max_inline_data;
	sq->max_inline = (uint16_t)tail;
	cap->max_inline_data = tail;
	sq->left_at = UINT32_MAX;
	if (urxe_ring_init(&sq->ring, qp->given_pd, URXEDV_RES_SQ, cap->max_send_wr,
			   ((uint32_t)sizeof(struct urxe_swqe) + tail + 15) & ~15u,
			   qp->scq ? &qp->scq->slots : NULL))
		return ENOMEM;
	if (qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV)
		cap->max_recv_wr = cap->max_recv_sge = 0;
	if (qp->type == IBV_QPT_XRC_RECV) {
		qp->rq = &qp->own_rq;
		max_sge = URXE_MAX_SGE; /* of any SRQ */
	} else if (qp->srq) {
		qp->rq = &qp->srq->rq;
		cap->max_recv_wr = cap->max_recv_sge = 0;
		max_sge = qp->srq->rq.max_sge;
	} else {
		if (cap->max_recv_wr && !cap->max_recv_sge)
			cap->max_recv_sge = 1;
		if (urxe_rq_init(&qp->own_rq, qp->given_pd, URXEDV_RES_RQ, cap->max_recv_wr,
				 cap->max_recv_sge))
			return ENOMEM;
		qp->rq = &qp->own_rq;
		return 0;
	}
	qp->resp.shared = true;
	qp->resp.rwqe = calloc(1, sizeof(struct urxe_rwqe) + max_sge * sizeof(struct ibv_sge));
	return qp->resp.rwqe ? 0 : ENOMEM;
}

/* What a QP owns; nobody looks at it once the QP is marked destroyed. */
static void qp_free_parts(struct urxe_qp *qp)
{
	urxe_path_destroy(qp->path);
	urxe_path_destroy(qp->alt_path);
	urxe_path_destroy(qp->lend_path);
	urxe_rss_free(qp->rss);
	free(qp->resp.res);
	if (qp->resp.shared)
		free(qp->resp.rwqe);
	free(qp->req.early);
	urxe_rq_fini(&qp->own_rq);
	urxe_ring_fini(&qp->sq.ring);
}

static int qp_publish(struct urxe_device *dev, struct urxe_qp *qp, uint32_t qpn)
	URXE_REQUIRES(dev->mutex)
{
	struct urxe_ident *ident = urxe_port_ident(dev->port);
	int err;

	if (qpn) {
		if (atomic_load(&dev->gsi))
			return EBUSY;
		qp->qpn = qpn;
		qp->gsi = true;
	}
	/* Room for its timer, so that arming one cannot fail. */
	urxe_spin_lock(&dev->sched.lock);
	err = urxe_timer_heap_reserve(&dev->sched.timers,
				      (unsigned)atomic_load(&dev->num_qp) +
					      (unsigned)atomic_load(&dev->num_cq) + 1);
	urxe_spin_unlock(&dev->sched.lock);
	if (err)
		return err;
	if (qpn) {
		/* Pairs with find_qp() and urxe_qp_flush_all(): they see it whole. */
		atomic_store_explicit(&dev->gsi, qp, memory_order_release);
		return 0;
	}
	err = urxe_ident_qpn_alloc(ident, &qp->qpn);
	if (err)
		return err;
	err = urxe_table_set(&dev->qps, qp->qpn & dev->qpn_mask, qp);
	if (err)
		urxe_ident_qpn_free(ident, qp->qpn);
	return err;
}

static void qp_fill_ibv(struct urxe_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *ibqp = &qp->vqp.qp;

	ibqp->context = &qp->ctx->vctx.context;
	ibqp->qp_context = attr->qp_context;
	ibqp->pd = pd;
	ibqp->send_cq = attr->send_cq;
	ibqp->recv_cq = attr->recv_cq;
	ibqp->srq = attr->srq;
	ibqp->handle = qp->qpn;
	ibqp->qp_num = qp->qpn;
	ibqp->state = IBV_QPS_RESET;
	ibqp->qp_type = attr->qp_type;
	pthread_mutex_init(&ibqp->mutex, NULL);
	pthread_cond_init(&ibqp->cond, NULL);
}

static void qp_hold_objects(struct urxe_qp *qp, int n)
{
	if (qp->type == IBV_QPT_XRC_RECV)
		return; /* its opens hold the domain */
	atomic_fetch_add(&qp->given_pd->users, n);
	atomic_fetch_add(&qp->scq->users, n);
	atomic_fetch_add(&qp->rcq->users, n);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, n);
}

static struct urxe_slab qps = URXE_SLAB_INIT(struct urxe_qp);

const uint8_t urxe_qp_services[URXE_QP_TYPES] = {
	[IBV_QPT_RC] = URXE_SVC_RC,
	[IBV_QPT_UC] = URXE_SVC_UC,
	[IBV_QPT_UD] = URXE_SVC_UD,
	[IBV_QPT_RAW_PACKET] = URXE_SVC_UD, /* which has none of its own */
	[IBV_QPT_XRC_SEND] = URXE_SVC_XRC,
	[IBV_QPT_XRC_RECV] = URXE_SVC_XRC,
};

void urxe_qp_set_type(struct urxe_qp *qp, enum ibv_qp_type type)
{
	qp->type = (uint8_t)type;
	qp->sq.ops = urxe_wqe_allowed[type];
}

struct urxe_qp *urxe_qp_create_common(struct ibv_context *ctx, struct ibv_pd *ibpd,
				      struct ibv_qp_init_attr *attr, uint32_t qpn)
{
	struct urxe_pd *pd = ibpd ? to_urxe_pd(ibpd) : NULL;
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_qp *qp = NULL;
	int err = qp_check_attr(attr);

	if (!err)
		err = urxe_device_start(dev);
	if (err) {
		errno = err;
		return NULL;
	}
	err = ENOMEM;
	if (atomic_fetch_add(&dev->num_qp, 1) >= URXE_MAX_QP)
		goto fail;
	qp = urxe_rcu_new(&qps);
	if (!qp)
		goto fail;
	qp->dev = dev;
	qp->real = qp;
	qp->ctx = to_urxe_ctx(ctx);
	qp->pd = pd ? pd->root : NULL;
	qp->given_pd = pd;
	qp->scq = to_urxe_cq(attr->send_cq);
	qp->rcq = to_urxe_cq(attr->recv_cq);
	if (!qp->rcq)
		qp->rcq = qp->scq; /* XRC_SEND: never used, never NULL */
	qp->has_events =
		(qp->scq && qp->scq->vcq.cq.channel) || (qp->rcq && qp->rcq->vcq.cq.channel);
	qp->srq = to_urxe_srq(attr->srq);
	qp->resp.pd = qp->pd;
	qp->resp.recv_pd = qp->srq ? qp->srq->pd->root : qp->pd;
	urxe_qp_set_type(qp, attr->qp_type);
	qp->sq_sig_all = attr->sq_sig_all;
	qp->state = IBV_QPS_RESET;
	qp->req.deadline = URXE_NEVER;
	CDS_INIT_LIST_HEAD(&qp->mcast);
	CDS_INIT_LIST_HEAD(&qp->windows);
	CDS_INIT_LIST_HEAD(&qp->opens);
	CDS_INIT_LIST_HEAD(&qp->resp.kept);
	CDS_INIT_LIST_HEAD(&qp->resp.spent);
	err = qp_init_queues(qp, attr);
	if (err)
		goto fail;
	qp->init = *attr;
	urxe_mutex_lock(&dev->mutex);
	err = qp_publish(dev, qp, qpn);
	urxe_mutex_unlock(&dev->mutex);
	if (err)
		goto fail;
	qp_hold_objects(qp, 1);
	urxe_context_get(ctx);
	qp_fill_ibv(qp, ibpd, attr);
	urxe_trace_qp_create(qp);
	return qp;

fail:
	if (qp) {
		qp_free_parts(qp);
		urxe_rcu_drop(&qps, qp);
	}
	atomic_fetch_sub(&dev->num_qp, 1);
	errno = err;
	return NULL;
}

struct ibv_qp *urxe_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct urxe_qp *qp;

	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		errno = EINVAL; /* has no PD, and needs a domain */
		return NULL;
	}
	qp = urxe_qp_create_common(pd->context, pd, attr, 0);
	return qp ? &qp->vqp.qp : NULL;
}

/* What ibv_create_qp_ex() may ask for besides; 0 or errno. */
static int check_create_flags(uint32_t flags, enum ibv_qp_type type)
{
	if (flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		return EOPNOTSUPP;
	return flags && type != IBV_QPT_UD ? EINVAL : 0;
}

struct ibv_qp *urxe_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	uint32_t flags = attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
	struct ibv_qp_init_attr plain;
	struct ibv_qp *qp;
	int err;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return urxe_xrc_create_recv_qp(ctx, attr);
	if (attr->comp_mask & (IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE))
		return urxe_rss_create_qp(ctx, attr);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		errno = EINVAL;
		return NULL;
	}
	err = attr->comp_mask & ~known ? EOPNOTSUPP : check_create_flags(flags, attr->qp_type);
	if (err) {
		errno = err;
		return NULL;
	}
	/* The extended attributes begin as the plain ones do. */
	memcpy(&plain, attr, sizeof(plain));
	qp = urxe_create_qp(attr->pd, &plain);
	if (!qp)
		return NULL;
	to_urxe_qp(qp)->block_self_mcast = flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		err = urxe_wr_enable(to_urxe_qp(qp), attr->send_ops_flags);
		if (err) {
			urxe_destroy_qp(qp);
			errno = err;
			return NULL;
		}
	}
	attr->cap = plain.cap;
	return qp;
}

/* After this nobody new finds it; who found it before sees that it is destroyed. */
static void qp_unpublish(struct urxe_qp *qp)
{
	struct urxe_device *dev = qp->dev;

	urxe_mutex_lock(&dev->mutex);
	if (qp->gsi) {
		/* No new reader finds it; qp_stop() waits for the others. */
		atomic_store_explicit(&dev->gsi, NULL, memory_order_release);
	} else {
		urxe_table_set(&dev->qps, qp->qpn & dev->qpn_mask, NULL);
		urxe_ident_qpn_free(urxe_port_ident(dev->port), qp->qpn);
	}
	urxe_mutex_unlock(&dev->mutex);
}

void urxe_qp_await_events(struct ibv_qp *ibqp, struct urxe_context *ctx, uint32_t events)
{
	if (events)
		events -= urxe_event_purge(ctx, ibqp);
	pthread_mutex_lock(&ibqp->mutex);
	while (ibqp->events_completed != events)
		pthread_cond_wait(&ibqp->cond, &ibqp->mutex);
	pthread_mutex_unlock(&ibqp->mutex);
	pthread_mutex_destroy(&ibqp->mutex);
	pthread_cond_destroy(&ibqp->cond);
}

/* The end of all it does; its memory and numbers are still there. */
static void qp_stop(struct urxe_qp *qp)
{
	urxe_progress_flush(qp);
	qp_unpublish(qp);
	urxe_spin_lock(&qp->lock);
	urxe_trace_qp_destroy(qp);
	qp->destroyed = true;
	qp->state = IBV_QPS_RESET;
	qp->req.deadline = URXE_NEVER;
	urxe_qp_release_wqes(qp);
	urxe_spin_unlock(&qp->lock);
	urxe_progress_forget(qp);
	urxe_wqe_forget(qp);
	/* What was done is told to who asks later: a peer that is done, too, may have ended the
	 * connection, and the QP with it, before the CQ was looked at. */
	urxe_qp_clean_cqs(qp, true);
}

void urxe_qp_destroy_common(struct urxe_qp *qp)
{
	if (!qp->destroyed)
		qp_stop(qp);
	urxe_mw_release_qp(qp);
	qp_free_parts(qp);
	qp_hold_objects(qp, -1);
	atomic_fetch_sub(&qp->dev->num_qp, 1);
	urxe_context_put(&qp->ctx->vctx.context);
	/* Somebody may have found it just before, and is about to see that it is destroyed. */
	urxe_rcu_end(&qp->rcu, &qps, qp);
}

int urxe_destroy_qp(struct ibv_qp *ibqp)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);

	if (qp->type == IBV_QPT_XRC_RECV)
		return urxe_xrc_close_qp(ibqp);
	if (urxe_mcast_attached(qp) || atomic_load(&qp->flows))
		return EBUSY;
	qp_stop(qp);
	urxe_qp_await_events(ibqp, qp->ctx, qp->async_events);
	urxe_qp_destroy_common(qp);
	return 0;
}

void urxe_qp_clean_cqs(struct urxe_qp *qp, bool keep_good)
{
	if (!qp->scq)
		return; /* XRC_RECV: what is in the CQs of SRQs stays */
	urxe_cq_clean(qp->scq, qp->qpn, keep_good);
	if (qp->rcq != qp->scq)
		urxe_cq_clean(qp->rcq, qp->qpn, keep_good);
}

int urxe_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);

	urxe_spin_lock(&qp->lock);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->sq_draining = qp->sq_draining;
	attr->dest_qp_num = qp->dqpn;
	attr->qp_access_flags = qp->access;
	attr->path_mig_state = (enum ibv_mig_state)qp->mig_state;
	attr->cap = qp->init.cap;
	*init = qp->init;
	urxe_spin_unlock(&qp->lock);
	return 0;
}

static void flush_sq(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	struct urxe_sq *sq = &qp->sq;

	while (sq->done != sq->post)
		urxe_requester_complete(qp, IBV_WC_WR_FLUSH_ERR);
	sq->cur = sq->post;
	urxe_recover_stop(&qp->req);
	urxe_early_forget(qp);
	qp->req.rd_out = 0;
	qp->req.deadline = URXE_NEVER;
}

static void flush_rq(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	struct urxe_rq *rq = &qp->own_rq;
	struct ibv_wc wc;

	if (qp->resp.in_recv) {
		urxe_qp_wc(qp, &wc, urxe_responder_end_recv(qp), IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
		urxe_rcu_read_lock();
		urxe_responder_push(qp, &wc, true);
		urxe_rcu_read_unlock();
	}
	/* WQEs of a shared queue belong to all (IBTA 10.2.9.3). */
	if (qp->resp.shared) {
		if (!qp->last_wqe_reached) {
			qp->last_wqe_reached = true;
			urxe_event_qp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
		}
		return;
	}
	while (rq->tail != rq->head) {
		struct urxe_rwqe *wqe = urxe_rq_at(rq, rq->tail++);

		urxe_qp_wc(qp, &wc, wqe->wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
		urxe_cq_push(qp->rcq, &wc, true);
	}
}

void urxe_qp_enter(struct urxe_qp *qp, enum ibv_qp_state state)
{
	if (qp->state == state)
		return;
	urxe_trace_qp_state(qp, state);
	qp->state = (uint8_t)state;
}

void urxe_qp_sq_error(struct urxe_qp *qp)
{
	urxe_qp_enter(qp, IBV_QPS_SQE);
	flush_sq(qp);
	/* A message that was under way is cut off there; the next one begins behind it. */
	qp->req.psn = qp->req.una = qp->req.max_psn = qp->req.next_psn;
}

void urxe_qp_error(struct urxe_qp *qp)
{
	if (qp->state == IBV_QPS_RESET)
		return;
	urxe_qp_enter(qp, IBV_QPS_ERR);
	qp->sq_draining = false;
	urxe_stall_cancel(qp);
	urxe_responder_forget(qp);
	qp->resp.state = URXE_RESP_EXPECT_FIRST;
	qp->resp.ack_due = URXE_ACK_NONE;
	qp->resp.nak_due = false;
	qp->resp.res_pending = 0;
	flush_sq(qp);
	flush_rq(qp);
}

void urxe_qp_fatal(struct urxe_qp *qp, enum ibv_event_type event)
{
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
		return;
	urxe_qp_error(qp);
	urxe_event_qp(qp, event);
}

/* Of XRC_RECV: what it received last. RCU read-side. */
static bool completes_to(const struct urxe_qp *qp, const struct urxe_cq *cq)
{
	const struct urxe_srq *srq;

	if (qp->type != IBV_QPT_XRC_RECV)
		return qp->scq == cq || qp->rcq == cq;
	srq = urxe_xrc_srq(qp, qp->resp.srqn);
	return srq && srq->cq == cq;
}

void urxe_qp_fail_users(struct urxe_cq *cq)
{
	struct urxe_device *dev = cq->dev;
	struct urxe_qp *qp;

	urxe_rcu_read_lock();
	for (unsigned i = 0; (qp = urxe_table_next(&dev->qps, &i)); i++) {
		urxe_spin_lock(&qp->lock);
		if (!qp->destroyed && completes_to(qp, cq))
			urxe_qp_fatal(qp, IBV_EVENT_QP_FATAL);
		urxe_spin_unlock(&qp->lock);
	}
	urxe_rcu_read_unlock();
}

static void flush_one(struct urxe_qp *qp)
{
	urxe_spin_lock(&qp->lock);
	if (!qp->destroyed)
		urxe_qp_error(qp);
	urxe_spin_unlock(&qp->lock);
}

void urxe_qp_flush_all(struct urxe_device *dev)
{
	struct urxe_qp *qp;

	urxe_rcu_read_lock();
	for (unsigned i = 0; (qp = urxe_table_next(&dev->qps, &i)); i++)
		flush_one(qp);
	/* Pairs with qp_publish(). */
	qp = atomic_load_explicit(&dev->gsi, memory_order_acquire);
	if (qp)
		flush_one(qp);
	urxe_rcu_read_unlock();
}

static bool is_of(struct urxe_qp *qp, const struct urxe_context *ctx) URXE_REQUIRES(qp->lock)
{
	const struct urxe_qp_open *o;

	if (qp->destroyed || qp->type != IBV_QPT_XRC_RECV)
		return !qp->destroyed && qp->ctx == ctx;
	cds_list_for_each_entry (o, &qp->opens, node)
		if (o->ctx != ctx)
			return false;
	return true;
}

void urxe_qp_end_all(struct urxe_context *ctx)
{
	struct urxe_device *dev = ctx->dev;
	struct urxe_qp *qp;
	bool of;

	/* The mutex keeps them from going: a lane may have to be waited for. */
	urxe_mutex_lock(&dev->mutex);
	for (unsigned i = 0; (qp = urxe_table_next(&dev->qps, &i)); i++) {
		urxe_spin_lock(&qp->lock);
		of = is_of(qp, ctx);
		urxe_spin_unlock(&qp->lock);
		if (!of)
			continue;
		urxe_progress_flush(qp);
		flush_one(qp);
	}
	urxe_mutex_unlock(&dev->mutex);
}

void urxe_qp_release_wqes(struct urxe_qp *qp)
{
	struct urxe_sq *sq = &qp->sq;

	for (uint32_t i = sq->done; i != sq->post; i++)
		urxe_wqe_drop(urxe_sq_at(sq, i));
	sq->post = sq->cur = sq->done = 0;
	sq->left_at = UINT32_MAX;
	urxe_stall_cancel(qp);
	urxe_responder_forget(qp);
	qp->own_rq.head = qp->own_rq.tail = 0;
	qp->resp.in_recv = false;
}
