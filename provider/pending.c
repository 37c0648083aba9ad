/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What waits for a turn: a list of QPs for each lane, and one heap of timers.
 */
#include "provider.h"
#include "pending.h"
#include "progress.h"
#include "rcu.h"
#include "responder.h"
#include "service.h"

#define IDLE_TIMERS 8 /* taken off at once: others want the processor, too */

/* Under sched.lock. @until: it may wait so long. */
static void pending_add(struct urxe_qp *qp, struct urxe_waiting *w, uint64_t until)
{
	unsigned n = atomic_load_explicit(&w->n, memory_order_relaxed);

	if (!n || until < atomic_load_explicit(&w->patient, memory_order_relaxed))
		atomic_store_explicit(&w->patient, until, memory_order_relaxed);
	qp->pending = true;
	cds_list_add_tail(&qp->pending_node, &w->qps);
	atomic_store_explicit(&w->n, n + 1, memory_order_relaxed);
	atomic_fetch_add(&qp->dev->sched.npending, 1);
}

/* Under sched.lock. One that waits alone may wait for longer than for what is over; but what may
 * not wait at all (0) is not. Of others nobody knows which one's time it is. */
static void pending_again(struct urxe_waiting *w, uint64_t until)
{
	uint64_t patient = atomic_load_explicit(&w->patient, memory_order_relaxed);
	bool alone = atomic_load_explicit(&w->n, memory_order_relaxed) == 1;

	if (until < patient || (alone && patient))
		atomic_store_explicit(&w->patient, until, memory_order_relaxed);
}

/* Likewise. */
static void pending_del(struct urxe_qp *qp, struct urxe_waiting *w)
{
	qp->pending = false;
	cds_list_del(&qp->pending_node);
	atomic_store_explicit(&w->n, atomic_load_explicit(&w->n, memory_order_relaxed) - 1,
			      memory_order_relaxed);
	atomic_fetch_sub(&qp->dev->sched.npending, 1);
}

void urxe_progress_defer_until(struct urxe_qp *qp, uint64_t until)
{
	struct urxe_sched *s = &qp->dev->sched;

	urxe_spin_lock(&s->lock);
	if (qp->pending)
		pending_again(urxe_pending_of(qp), until);
	else if (!qp->destroyed)
		pending_add(qp, urxe_pending_of(qp), until);
	urxe_spin_unlock(&s->lock);
}

void urxe_progress_defer(struct urxe_qp *qp)
{
	urxe_progress_defer_until(qp, 0);
}

void urxe_progress_timer(struct urxe_qp *qp, uint64_t when)
{
	struct urxe_sched *s = &qp->dev->sched;

	if (qp->timer_at && qp->timer_at <= when)
		return; /* it will look anyway, and see that the time has not come */
	qp->timer_at = when;
	urxe_spin_lock(&s->lock);
	if (!qp->destroyed) {
		urxe_timer_set(&s->timers, &qp->timer, when);
		atomic_store(&s->next_timer, urxe_timer_first(&s->timers)->when);
	}
	urxe_spin_unlock(&s->lock);
	/* The caller may never come back to look. If it does, there is no hurry. */
	urxe_service_by(qp->dev, when + URXE_TIMER_SLACK + urxe_service_patience(qp->dev));
}

void urxe_progress_forget(struct urxe_qp *qp)
{
	struct urxe_sched *s = &qp->dev->sched;

	urxe_spin_lock(&s->lock);
	if (qp->pending)
		pending_del(qp, urxe_pending_of(qp));
	urxe_timer_cancel(&s->timers, &qp->timer);
	urxe_spin_unlock(&s->lock);
}

void urxe_pending_move(struct urxe_qp *qp, unsigned at)
{
	struct urxe_sched *s = &qp->dev->sched;
	bool waits;

	urxe_spin_lock(&s->lock);
	waits = qp->pending;
	if (waits)
		pending_del(qp, urxe_pending_of(qp));
	qp->lane = (uint8_t)at;
	if (waits)
		pending_add(qp, urxe_pending_of(qp), 0);
	urxe_spin_unlock(&s->lock);
}

struct urxe_qp *urxe_pending_pop(struct urxe_sched *s, struct urxe_waiting *w)
{
	struct urxe_qp *qp = NULL;

	urxe_spin_lock(&s->lock);
	if (!cds_list_empty(&w->qps)) {
		qp = cds_list_first_entry(&w->qps, struct urxe_qp, pending_node);
		pending_del(qp, w);
	}
	urxe_spin_unlock(&s->lock);
	return qp;
}

/* Under sched.lock. */
static void note_first(struct urxe_sched *s)
{
	const struct urxe_timer *t = urxe_timer_first(&s->timers);

	atomic_store_explicit(&s->next_timer, t ? t->when : URXE_NEVER, memory_order_relaxed);
}

/* Would it find nothing to do? (run_qp_timer()) */
static bool timer_is_idle(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	return urxe_qp_acked(qp) && qp->req.deadline == URXE_NEVER && !qp->resp.nak_at &&
	       qp->sq.cur == qp->sq.post && !urxe_responder_due(qp);
}

static void timer_forget(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	struct urxe_sched *s = &qp->dev->sched;

	qp->timer_at = 0;
	urxe_spin_lock(&s->lock);
	urxe_timer_cancel(&s->timers, &qp->timer);
	note_first(s);
	urxe_spin_unlock(&s->lock);
}

void urxe_pending_no_timer(struct urxe_qp *qp)
{
	if (qp->timer_at && timer_is_idle(qp))
		timer_forget(qp);
}

/* True: the one that was next is gone. RCU. */
static bool drop_first(struct urxe_device *dev)
{
	struct urxe_sched *s = &dev->sched;
	struct urxe_timer *t;
	struct urxe_qp *qp;
	bool idle;

	urxe_spin_lock(&s->lock);
	t = urxe_timer_first(&s->timers);
	urxe_spin_unlock(&s->lock);
	if (!t || t->kind == URXE_TIMER_CQ)
		return false;
	qp = urxe_container_of(t, struct urxe_qp, timer);
	if (!urxe_spin_trylock(&qp->lock))
		return false; /* it is in use */
	idle = !qp->destroyed && timer_is_idle(qp);
	if (idle)
		timer_forget(qp);
	urxe_spin_unlock(&qp->lock);
	return idle;
}

void urxe_pending_idle_timers(struct urxe_device *dev)
{
	unsigned n = 0;

	urxe_rcu_read_lock();
	while (n < IDLE_TIMERS && drop_first(dev))
		n++;
	urxe_rcu_read_unlock();
}

unsigned urxe_pending_timers(struct urxe_sched *s, uint64_t now, struct urxe_timer **due,
			     unsigned most)
{
	struct urxe_timer *t;
	unsigned n = 0;

	urxe_spin_lock(&s->lock);
	while (n < most && (t = urxe_timer_first(&s->timers)) && t->when <= now) {
		urxe_timer_cancel(&s->timers, t);
		due[n++] = t;
	}
	note_first(s);
	urxe_spin_unlock(&s->lock);
	return n;
}
