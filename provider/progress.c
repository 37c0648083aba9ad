/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who drives: a turn of a lane receives a burst (receive.c), lets the QPs send that want to
 * (serve.h), and looks at timers. Callers take turns from ibv_poll_cq, and send from
 * ibv_post_send when a lane is free; the service thread takes turns when nobody else does.
 *
 * A QP that could not be served (no room, lane busy) waits on the pending list for whoever
 * has the next turn.
 */
#include "provider.h"
#include "pending.h"
#include "progress.h"
#include "rcu.h"
#include "receive.h"
#include "requester.h"
#include "responder.h"
#include "retry.h"
#include "serve.h"
#include "service.h"
#include "wake.h"

#define TIMER_BURST  32
#define STUCK_QPS    16 /* that find no room, one after the other, before a turn goes on */
#define GATHER_LEAST 16 /* packets under way */
#define GATHER_MOST  16 /* work requests that wait for a poll */
/* Work requests since the caller polled last: more than one posts for each completion that one asks
 * for (perftest: 100). */
#define GATHER_PATIENCE	    256
#define LEFTOVER_NS	    1000000ull /* how long what a caller left undone may wait */
#define LEFTOVER_ONE_CPU_NS 4000000ull /* where who looks after it puts the caller aside */

/* ---- pending QPs, timers ---- */

/* @timer: it is not its turn on the pending list, where an ACK that waits stays. */
static struct urxe_sent serve_locked(struct urxe_qp *qp, struct urxe_lane *lane, unsigned at,
				     uint64_t now, bool timer) URXE_REQUIRES(lane)
{
	struct urxe_sent sent = {.more = true};

	urxe_spin_lock(&qp->lock);
	if (qp->lane == at)
		sent = urxe_serve(qp, lane, now, !timer || !qp->ack_waits);
	urxe_spin_unlock(&qp->lock);
	if (sent.more)
		urxe_progress_defer(qp);
	return sent;
}

/*
 * Each once: those that want more go to the end of the list. When one after the other can send
 * nothing the link is full, and what has arrived comes first: thousands may wait. True: something
 * was sent.
 */
static bool run_pending(struct urxe_device *dev, struct urxe_lane *lane, unsigned at, uint64_t now)
	URXE_REQUIRES(lane)
{
	struct urxe_waiting *w = &dev->sched.lanes[at];
	unsigned n = atomic_load_explicit(&w->n, memory_order_relaxed), stuck = 0;
	bool any = false;
	struct urxe_qp *qp;

	while (n-- && stuck < STUCK_QPS && (qp = urxe_pending_pop(&dev->sched, w))) {
		struct urxe_sent sent = serve_locked(qp, lane, at, now, false);

		any |= sent.packets;
		stuck = sent.more && !sent.packets && !sent.waits ? stuck + 1 : 0;
	}
	return any;
}

static void run_qp_timer(struct urxe_qp *qp, struct urxe_lane *lane, unsigned at, uint64_t now)
	URXE_REQUIRES(lane)
{
	urxe_spin_lock(&qp->lock);
	qp->timer_at = 0;
	if (!qp->destroyed && urxe_qp_acked(qp))
		urxe_requester_timeout(qp, lane, now);
	if (!qp->destroyed)
		urxe_responder_timeout(qp, now);
	urxe_spin_unlock(&qp->lock);
	serve_locked(qp, lane, at, now, true);
}

static unsigned run_timers(struct urxe_device *dev, struct urxe_lane *lane, unsigned at,
			   uint64_t now) URXE_REQUIRES(lane)
{
	struct urxe_timer *due[TIMER_BURST];
	unsigned n = urxe_pending_timers(&dev->sched, now, due, TIMER_BURST);

	for (unsigned i = 0; i < n; i++) {
		if (due[i]->kind == URXE_TIMER_CQ)
			urxe_cq_timer(urxe_container_of(due[i], struct urxe_cq, timer));
		else
			run_qp_timer(urxe_container_of(due[i], struct urxe_qp, timer), lane, at,
				     now);
	}
	return n;
}

/* ---- turns ---- */

static uint64_t leftover_due(const struct urxe_device *dev)
{
	return urxe_port_now(dev->port) + (dev->one_cpu ? LEFTOVER_ONE_CPU_NS : LEFTOVER_NS) +
	       urxe_service_patience(dev);
}

/* *@lane: that of the QP, if it is free. */
static bool take_lane(const struct urxe_qp *qp, struct urxe_lane **lane)
	URXE_TRY_ACQUIRE(true, *lane)
{
	*lane = urxe_port_lane(qp->dev->port, qp->lane);
	return urxe_lane_trylock(*lane);
}

static bool has_pending(const struct urxe_sched *s, unsigned at, uint64_t now)
{
	const struct urxe_waiting *w = &s->lanes[at];

	return atomic_load_explicit(&w->n, memory_order_relaxed) &&
	       now >= atomic_load_explicit(&w->patient, memory_order_relaxed);
}

static bool timer_due(const struct urxe_sched *s, uint64_t now)
{
	return now >= atomic_load_explicit(&s->next_timer, memory_order_relaxed);
}

static unsigned turn(struct urxe_device *dev, struct urxe_lane *lane, unsigned at)
	URXE_REQUIRES(lane)
{
	struct urxe_packet pkts[URXE_RX_BURST];
	struct urxe_sched *s = &dev->sched;
	uint64_t now = urxe_port_now(dev->port);
	unsigned n = 0, got;

	atomic_store_explicit(&s->lanes[at].turned, now, memory_order_relaxed);
	if (has_pending(s, at, now)) {
		urxe_rcu_read_lock();
		n = run_pending(dev, lane, at, now);
		urxe_rcu_read_unlock();
	}
	/* Most turns find nothing, and look nothing up. */
	got = urxe_lane_rx(lane, pkts, URXE_RX_BURST);
	if (got || timer_due(s, now)) {
		urxe_rcu_read_lock();
		if (got)
			n += urxe_receive(dev, lane, at, pkts, got, now);
		if (timer_due(s, now))
			n += run_timers(dev, lane, at, now);
		urxe_rcu_read_unlock();
	}
	urxe_lane_tick(lane, now);
	return n;
}

/* What senders left meanwhile, who found the lane in use. */
static unsigned combine(struct urxe_device *dev, struct urxe_lane *lane, unsigned at)
	URXE_REQUIRES(lane)
{
	bool any;

	atomic_store(&dev->sched.lanes[at].contended, false);
	urxe_rcu_read_lock();
	any = run_pending(dev, lane, at, urxe_port_now(dev->port));
	urxe_rcu_read_unlock();
	return any;
}

/* With lane @at, if it is free; else -1. */
static int lane_turn(struct urxe_device *dev, unsigned at)
{
	struct urxe_lane *lane = urxe_port_lane(dev->port, at);
	struct urxe_wakes wakes;
	bool held;
	unsigned n;

	if (!urxe_lane_trylock(lane))
		return -1;
	held = urxe_wakes_hold_turn(dev, &wakes);
	n = turn(dev, lane, at);
	if (atomic_load_explicit(&dev->sched.lanes[at].contended, memory_order_relaxed))
		n += combine(dev, lane, at);
	urxe_lane_unlock(lane);
	if (held)
		urxe_wakes_send(&wakes);
	return (int)n;
}

/* Of several lanes, until one has something; the next caller begins with the next one. */
static int turns(struct urxe_device *dev)
{
	unsigned first = atomic_fetch_add_explicit(&dev->lane_hint, 1, memory_order_relaxed);
	int found = -1;

	for (unsigned i = 0; i < dev->lanes && found <= 0; i++) {
		int n = lane_turn(dev, (first + i) % dev->lanes);

		if (n > found)
			found = n;
	}
	return found;
}

static inline int any_turn(struct urxe_device *dev)
{
	return dev->lanes == 1 ? lane_turn(dev, 0) : turns(dev);
}

int urxe_progress_turn(struct urxe_device *dev)
{
	return any_turn(dev);
}

/* The caller may not come back, and an ACK left for the next turn is waited for. */
static inline void see_leftovers(struct urxe_device *dev)
{
	if (atomic_load_explicit(&dev->sched.npending, memory_order_relaxed) &&
	    atomic_load_explicit(&dev->service.asleep, memory_order_relaxed))
		urxe_service_by(dev, leftover_due(dev));
}

int urxe_progress_poll(struct urxe_device *dev)
{
	_Atomic uint64_t *polls = &dev->service.polls;
	int n;

	atomic_store_explicit(polls, atomic_load_explicit(polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (atomic_load_explicit(&dev->service.who, memory_order_relaxed))
		urxe_service_caller(dev);
	n = any_turn(dev);
	see_leftovers(dev);
	return n;
}

int urxe_progress_glance(struct urxe_device *dev)
{
	int n = urxe_progress_turn(dev);

	see_leftovers(dev);
	return n;
}

/* What nobody acknowledges, or was to wait for a poll: who posted it may have gone on. */
static bool has_unsent(const struct urxe_qp *qp)
{
	return qp->sq.cur != qp->sq.post;
}

void urxe_progress_flush(struct urxe_qp *qp)
{
	struct urxe_device *dev = qp->dev;
	struct urxe_sent sent = {0};
	struct urxe_lane *lane;
	bool due;

	urxe_spin_lock(&qp->lock);
	lane = urxe_port_lane(dev->port, qp->lane);
	due = urxe_responder_acks(qp) || urxe_responder_urgent(qp) || has_unsent(qp) ||
	      urxe_responder_leaves(qp);
	urxe_spin_unlock(&qp->lock);
	if (!due || atomic_load_explicit(&dev->dead, memory_order_relaxed))
		return;
	urxe_lane_lock(lane); /* it must be sent before we go on */
	urxe_rcu_read_lock();
	urxe_spin_lock(&qp->lock);
	if (has_unsent(qp))
		sent = urxe_serve_requests(qp, lane, urxe_port_now(dev->port));
	sent.packets += urxe_responder_leave(qp, lane).packets;
	urxe_stat_add(dev, URXE_STAT_TX_PACKETS, sent.packets);
	urxe_spin_unlock(&qp->lock);
	urxe_rcu_read_unlock();
	urxe_lane_unlock(lane);
}

void urxe_progress_finish(struct urxe_device *dev)
{
	/* No ACK waits for what cannot be sent any more. */
	atomic_store(&dev->finishing, true);
	for (unsigned i = 0; i < dev->lanes; i++) {
		struct urxe_lane *lane = urxe_port_lane(dev->port, i);

		/* Who has it may have been through the list already, and goes with the process. */
		if (!urxe_lane_lock_at_exit(lane))
			continue;
		urxe_rcu_read_lock();
		run_pending(dev, lane, i, urxe_port_now(dev->port));
		urxe_rcu_read_unlock();
		urxe_lane_unlock(lane);
	}
}

/* To a turn, soon: the caller may go away, and of room in the link nothing tells. */
static void leave_over(struct urxe_qp *qp)
{
	struct urxe_device *dev = qp->dev;

	urxe_progress_defer(qp);
	/* urxe_service_by() looks, too: but the time need not be known to one that is awake. */
	if (atomic_load(&dev->service.asleep))
		urxe_service_by(dev, leftover_due(dev));
}

static bool sleeps_for_events(const struct urxe_qp *qp)
{
	return atomic_load_explicit(&qp->scq->armed, memory_order_relaxed) ||
	       atomic_load_explicit(&qp->rcq->armed, memory_order_relaxed);
}

/*
 * The lane is in use: who has it, or the caller's own poll, serves the QP. To wake the service
 * thread each time would cost more than the work, and it would only find the lane in use as well.
 */
static void left_to_holder(const struct urxe_qp *qp)
{
	struct urxe_device *dev = qp->dev;

	if (sleeps_for_events(qp))
		urxe_service_nudge(dev);
	else if (atomic_load(&dev->service.asleep))
		urxe_service_by(dev, leftover_due(dev));
}

void urxe_progress_kick(struct urxe_qp *qp)
{
	struct urxe_device *dev = qp->dev;
	struct urxe_lane *lane;
	bool more;

	if (!take_lane(qp, &lane)) {
		urxe_progress_defer(qp);
		atomic_store(&urxe_pending_of(qp)->contended, true);
		/* Whoever held the lane may have looked just before. */
		if (!take_lane(qp, &lane)) {
			left_to_holder(qp);
			return;
		}
	}
	urxe_rcu_read_lock();
	more = urxe_serve(qp, lane, urxe_port_now(dev->port), true).more;
	urxe_rcu_read_unlock();
	urxe_lane_unlock(lane);
	if (more)
		leave_over(qp);
	/* Who waits for an event will not drive. All others poll. */
	if (sleeps_for_events(qp))
		urxe_service_leave(dev);
}

/*
 * Does what was posted wait for the caller's next poll, and go with what it posts until then? Each
 * flush of a lane is a doorbell, to a peer that may sleep or live in another machine. Only while so
 * much is under way that the peer has its hands full, and of a caller that is seen to poll: one
 * that waits for memory to change may never come back.
 */
static bool may_gather(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	uint32_t polls =
		(uint32_t)atomic_load_explicit(&qp->dev->service.polls, memory_order_relaxed);

	if (polls != qp->sq.polls) {
		qp->sq.polls = polls;
		qp->sq.polled_at = qp->sq.post;
	}
	return qp->type == IBV_QPT_RC && qp->sq.post - qp->sq.cur < GATHER_MOST &&
	       qp->sq.post - qp->sq.polled_at < GATHER_PATIENCE &&
	       urxe_psn_diff(qp->req.psn, qp->req.una) >= GATHER_LEAST;
}

void urxe_progress_posted(struct urxe_qp *qp)
{
	if (!may_gather(qp)) {
		urxe_progress_kick(qp);
		return;
	}
	/* Nothing has been sent since it was left over: it still is. */
	if (qp->sq.left_at == qp->sq.cur)
		return;
	qp->sq.left_at = qp->sq.cur;
	leave_over(qp);
}
