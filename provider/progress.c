/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who drives: a turn of a lane receives a burst, hands packets to their QPs, lets the QPs
 * that want to send, and looks at timers. Callers take turns from ibv_poll_cq, and send from
 * ibv_post_send when a lane is free; the service thread takes turns when nobody else does.
 *
 * A QP that could not be served (no room, lane busy) waits on the pending list for whoever
 * has the next turn.
 */
#include "provider.h"
#include "apm.h"
#include "completer.h"
#include "decode.h"
#include "lend.h"
#include "mcast.h"
#include "pending.h"
#include "progress.h"
#include "raw.h"
#include "requester.h"
#include "responder.h"
#include "retry.h"
#include "service.h"
#include "trace.h"
#include "uc.h"
#include "ud.h"
#include "rcu.h"
#include "wake.h"

#define TIMER_BURST  32
#define STUCK_QPS    16 /* that find no room, one after the other, before a turn goes on */
#define GATHER_LEAST 16 /* packets under way */
#define GATHER_MOST  16 /* work requests that wait for a poll */
/* Work requests since the caller polled last: more than one posts for each completion that one asks
 * for (perftest: 100). */
#define GATHER_PATIENCE	    256
#define ACK_PATIENCE_NS	    50000u     /* for a message that an ACK can go with */
#define ACK_BEHIND	    4	       /* times as long, for the rest of it */
#define LEFTOVER_NS	    1000000ull /* how long what a caller left undone may wait */
#define LEFTOVER_ONE_CPU_NS 4000000ull /* where who looks after it puts the caller aside */

/* ---- send ---- */

static struct urxe_sent send_requests(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now)
	URXE_REQUIRES(lane, qp->lock)
{
	switch (qp->type) {
	case IBV_QPT_UD:
		return urxe_ud_run(qp, lane, now);
	case IBV_QPT_RAW_PACKET:
		return urxe_raw_run(qp, lane, now);
	default:
		return urxe_requester_run(qp, lane, now);
	}
}

/* Of many QPs, one that has nothing under way. */
static bool may_rest(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	const struct urxe_sq *sq = &qp->sq;

	return sq->done == sq->post && sq->ring.size && urxe_cq_crowded(qp->scq);
}

/*
 * It lets others have the memory of its send queue, and its timer goes while both are in a cache:
 * later it would be looked at in vain. No pointer to a WQE is good after this.
 */
static __attribute__((noinline)) void rest(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	struct urxe_sq *sq = &qp->sq;

	urxe_pending_no_timer(qp);
	urxe_ring_rest(&sq->ring);
	/* From the first slot on: that is the one in a cache. */
	sq->polled_at -= sq->post;
	sq->post = sq->cur = sq->done = 0;
	sq->left_at = UINT32_MAX;
}

/* For the rest of what was posted, of which some is sent? Not in the midst of another message. */
static bool ack_waits(const struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock)
{
	return qp->ack_waits && now < qp->ack_until && qp->resp.ack_due == URXE_ACK_REQUESTS &&
	       qp->resp.state == URXE_RESP_EXPECT_FIRST &&
	       !atomic_load_explicit(&qp->dev->finishing, memory_order_relaxed) &&
	       urxe_sq_at(&qp->sq, qp->sq.cur)->length <= URXE_ANSWERED_MOST;
}

/*
 * Let a QP send; qp->lock, lane and RCU held. Requests go before responses: where an answer of the
 * application's is on its way, the ACK comes in the same burst, and the peer needs to look once for
 * both. Of an answer that does not go out at once the rest goes first, for a while: who polls for
 * that ACK, and then watches memory for the answer, receives all of it itself. @acks: a plain ACK,
 * too, which may wait a turn.
 */
static inline __attribute__((always_inline)) struct urxe_sent
serve(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now, bool acks)
	URXE_REQUIRES(lane, qp->lock)
{
	struct urxe_sent sent = {0}, answers;

	if (qp->destroyed)
		return sent;
	sent = send_requests(qp, lane, now);
	if (acks && __builtin_expect(qp->sq.cur != qp->sq.post, 0) && ack_waits(qp, now)) {
		acks = qp->resp.stall;
		sent.more = sent.waits = true;
	}
	if (acks ? urxe_responder_due(qp) : urxe_responder_urgent(qp)) {
		answers = urxe_responder_run(qp, lane);
		sent.packets += answers.packets;
		sent.more |= answers.more;
	}
	if (sent.packets)
		urxe_stat_add(qp->dev, URXE_STAT_TX_PACKETS, sent.packets);
	if (may_rest(qp))
		rest(qp);
	return sent;
}

/* @timer: it is not its turn on the pending list, where an ACK that waits stays. */
static struct urxe_sent serve_locked(struct urxe_qp *qp, struct urxe_lane *lane, unsigned at,
				     uint64_t now, bool timer) URXE_REQUIRES(lane)
{
	struct urxe_sent sent = {.more = true};

	urxe_spin_lock(&qp->lock);
	if (qp->lane == at)
		sent = serve(qp, lane, now, !timer || !qp->ack_waits);
	urxe_spin_unlock(&qp->lock);
	if (sent.more)
		urxe_progress_defer(qp);
	return sent;
}

/* ---- receive ---- */

/* The QP of that QPN if there is one; if not, perhaps another one, as deliver() sees. */
static struct urxe_qp *find_qp(struct urxe_device *dev, uint32_t qpn)
{
	/* Pairs with the release in qp_publish(), as the table's acquire with its own. */
	if (qpn == 1)
		return atomic_load_explicit(&dev->gsi, memory_order_acquire);
	return urxe_table_get(&dev->qps, qpn & dev->qpn_mask);
}

/* What a QP sent met congestion, its peer says (IBTA A17.9.3). */
static enum urxe_stat receive_cnp(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	/* A datagram's receiver is no peer of the QP, and there is nothing to slow down. */
	if (!qp->path)
		return qp->type == IBV_QPT_UD ? URXE_STAT_RX_WRONG_TYPE : URXE_STAT_RX_BAD_STATE;
	if (!urxe_apm_is_peer(qp, pkt))
		return URXE_STAT_RX_WRONG_PEER;
	urxe_stat_inc(qp->dev, URXE_STAT_RX_CNP);
	urxe_requester_marked(qp, now);
	return URXE_STAT_NONE;
}

static enum urxe_stat deliver(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	if (qp->destroyed || qp->qpn != pkt->dqpn)
		return URXE_STAT_RX_NO_QP;
	if (pkt->what & URXE_OPF_CNP)
		return receive_cnp(qp, pkt, now);
	if ((pkt->opcode & URXE_SVC_MASK) != urxe_qp_service(qp))
		return URXE_STAT_RX_WRONG_TYPE;
	if (qp->type == IBV_QPT_UD) {
		urxe_ud_receive(qp, pkt);
		return URXE_STAT_NONE;
	}
	if (!qp->path)
		return URXE_STAT_RX_BAD_STATE;
	if (!urxe_apm_accept(qp, pkt))
		return URXE_STAT_RX_WRONG_PEER;
	/* XRC has its halves in two QPs (IBTA A14). */
	if (qp->type == (pkt->what & URXE_OPF_RESPONSE ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND))
		return URXE_STAT_RX_WRONG_TYPE;
	/* The marks of requests are for the peer to heed; READ responses are what we asked for. */
	if (pkt->ecn == URXE_ECN_CE && pkt->what & URXE_OPF_RESPONSE && pkt->what & URXE_OPF_READ)
		urxe_requester_marked(qp, now);
	if (qp->type == IBV_QPT_UC)
		urxe_uc_receive(qp, pkt);
	else if (pkt->what & URXE_OPF_RESPONSE)
		urxe_completer_receive(qp, pkt, now);
	else
		urxe_responder_receive(qp, pkt, now);
	return URXE_STAT_NONE;
}

/* A packet of a burst, and whose it is. */
struct arrival {
	struct urxe_decoded pkt;
	struct urxe_qp *qp; /* NULL: no one QP's */
	enum urxe_stat bad; /* why it is not taken */
};

/* The first lines of what a message of a QP needs. */
static void fetch_qp(const struct urxe_qp *qp)
{
	__builtin_prefetch(&qp->lock, 1);
	__builtin_prefetch(&qp->real);
	__builtin_prefetch(&qp->sq);
	__builtin_prefetch(&qp->req, 1);
	__builtin_prefetch(&qp->resp, 1);
}

static void read_headers(struct urxe_device *dev, struct urxe_packet *frame, struct arrival *a)
{
	a->bad = urxe_decode(frame, &a->pkt);
	if (frame->ecn == URXE_ECN_CE)
		urxe_stat_inc(dev, URXE_STAT_RX_ECN_MARKED);
	urxe_trace_packet_rx(&a->pkt, frame->len);
	if (a->bad == URXE_STAT_NONE)
		urxe_table_fetch(&dev->qps, a->pkt.dqpn & dev->qpn_mask);
}

static void look_up(struct urxe_device *dev, struct arrival *a)
{
	a->qp = NULL;
	if (a->bad != URXE_STAT_NONE || a->pkt.flags & URXE_PKT_MULTICAST ||
	    a->pkt.what & URXE_OPF_LEND || a->pkt.dqpn == URXE_MCAST_QPN)
		return;
	a->qp = find_qp(dev, a->pkt.dqpn);
	if (a->qp)
		fetch_qp(a->qp);
	else
		a->bad = URXE_STAT_RX_NO_QP;
}

static void refuse(struct urxe_device *dev, const struct arrival *a)
{
	urxe_stat_inc(dev, a->bad);
	urxe_trace_packet_drop(a->pkt.dqpn, a->pkt.psn, a->bad);
}

/* A packet that is no one QP's. */
static void deliver_other(struct urxe_device *dev, struct urxe_lane *lane, struct arrival *a,
			  uint64_t now) URXE_REQUIRES(lane)
{
	if (a->bad == URXE_STAT_NONE && a->pkt.what & URXE_OPF_LEND)
		a->bad = urxe_lend_receive(dev, lane, &a->pkt, now);
	else if (a->bad == URXE_STAT_NONE && !urxe_mcast_receive(dev, &a->pkt))
		a->bad = URXE_STAT_RX_NO_QP;
	if (a->bad != URXE_STAT_NONE)
		refuse(dev, a);
}

/*
 * Packets of one QP that came one after the other, of @n; returns how many. *@fresh: it took one,
 * as the first in this burst. What is refused is no sign of its peer, and asks for no answer.
 */
static unsigned deliver_run(struct arrival *a, unsigned n, uint64_t now, bool *fresh)
{
	struct urxe_qp *qp = a->qp;
	bool taken = false;
	unsigned k;

	urxe_spin_lock(&qp->lock);
	for (k = 0; k < n && a[k].qp == qp; k++) {
		a[k].bad = deliver(qp, &a[k].pkt, now);
		if (a[k].bad == URXE_STAT_NONE)
			taken = true;
		else
			refuse(qp->dev, &a[k]);
	}
	*fresh = taken && !qp->touched;
	qp->touched |= taken;
	urxe_spin_unlock(&qp->lock);
	return k;
}

/*
 * Has a message gone to an application that has nothing to send, nor had after the last one? Its
 * ACK would wait for nothing: who took the message may not come back to the CQ for long.
 */
static bool is_last_word(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	return qp->got && !qp->replies && qp->sq.done == qp->sq.post;
}

/*
 * Until when may an ACK wait for the message that it goes with? Who sends one message, gets the
 * answer, and has no ACK of its own message yet, posts the next one when that comes, which is soon.
 * So does who watches memory, ACK or not. Where a program plays the processor a frame takes so long
 * that the ACK is better sent meanwhile.
 */
static uint64_t ack_patience(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	const struct urxe_device *dev = qp->dev;
	uint32_t out = qp->sq.post - qp->sq.done;
	uint64_t ns, now;

	if (!qp->got || !qp->replies || out > 1 || qp->resp.state != URXE_RESP_EXPECT_FIRST ||
	    atomic_load_explicit(&dev->emulated, memory_order_relaxed) ||
	    (!out && !atomic_load_explicit(&dev->service.watched, memory_order_relaxed)))
		return 0;
	if (qp->ack_skips) {
		qp->ack_skips--;
		return 0;
	}
	ns = atomic_load_explicit(&qp->req.rtt.srtt, memory_order_relaxed) / 2;
	if (ns > ACK_PATIENCE_NS)
		ns = ACK_PATIENCE_NS;
	/* Now, and not as the turn began: who was put aside since has had no time to post. */
	now = urxe_port_now(dev->port);
	qp->ack_waits = true;
	qp->ack_until = now + ACK_BEHIND * ns;
	return now + ns;
}

/*
 * One answer for all that a QP received in the burst. Where the application answers each message,
 * a plain ACK waits for the next turn: by then there may be something that it can go with. What
 * came by another lane than that of the QP is answered by that one.
 */
static void after_burst(struct urxe_qp *qp, struct urxe_lane *lane, unsigned at, uint64_t now)
	URXE_REQUIRES(lane)
{
	uint64_t until = 0;
	bool more, asked;

	urxe_spin_lock(&qp->lock);
	qp->touched = false;
	asked = qp->answers && qp->resp.asked_again;
	if (asked) {
		qp->resp.asked_again = false;
		/* The peer may not hear what goes by our lane. */
		if (qp->lane != at)
			urxe_pending_move(qp, at);
	}
	if (qp->peer)
		urxe_peer_heard(qp->peer, now);
	more = qp->lane != at || serve(qp, lane, now, asked || is_last_word(qp)).more;
	if (!more && urxe_responder_acks(qp)) {
		more = true;
		until = asked ? 0 : ack_patience(qp);
	}
	/* Before others can post, which may not wait. */
	if (more)
		urxe_progress_defer_until(qp, until);
	urxe_spin_unlock(&qp->lock);
}

/* The service thread waits otherwise for the rest of a message than for another one (pause.c). */
static void note_partway(struct urxe_device *dev, const struct arrival *last)
{
	atomic_bool *to = &dev->service.partway;
	bool partway = last->bad == URXE_STAT_NONE &&
		       !(last->pkt.what & (URXE_OPF_LAST | URXE_OPF_RESPONSE));

	if (partway != atomic_load_explicit(to, memory_order_relaxed))
		atomic_store_explicit(to, partway, memory_order_relaxed);
}

/* QPs that have taken something in a turn, and are to answer. */
struct touched {
	struct urxe_qp *qp[URXE_BURST_MOST];
	unsigned n;
};

/* @n packets that urxe_lane_rx() gave. RCU. */
static void receive_burst(struct urxe_device *dev, struct urxe_lane *lane, struct touched *t,
			  struct urxe_packet *pkts, unsigned n, uint64_t now) URXE_REQUIRES(lane)
{
	struct arrival a[URXE_RX_BURST];
	bool fresh;

	if (!n)
		return;
	/* Of thousands of QPs nothing is in a cache: step by step, each for all packets. */
	for (unsigned i = 0; i < n; i++)
		read_headers(dev, &pkts[i], &a[i]);
	for (unsigned i = 0; i < n; i++)
		look_up(dev, &a[i]);
	urxe_stat_add(dev, URXE_STAT_RX_PACKETS, n);
	for (unsigned i = 0; i < n;) {
		if (!a[i].qp) {
			deliver_other(dev, lane, &a[i++], now);
			continue;
		}
		t->qp[t->n] = a[i].qp;
		i += deliver_run(&a[i], n - i, now, &fresh);
		t->n += fresh;
	}
	note_partway(dev, &a[n - 1]);
	urxe_lane_release(lane, pkts, n);
}

/*
 * @got packets, and as many more as one answer is to be for: where sending one costs much, a
 * message that the link had whole is not answered twice. RCU.
 */
static unsigned receive(struct urxe_device *dev, struct urxe_lane *lane, unsigned at,
			struct urxe_packet *pkts, unsigned got, uint64_t now) URXE_REQUIRES(lane)
{
	struct touched t;
	unsigned n = got;

	if (atomic_load_explicit(&dev->emulated, memory_order_relaxed))
		urxe_pause_not_in_vain(&dev->in_vain);
	t.n = 0;
	receive_burst(dev, lane, &t, pkts, got, now);
	while (got == URXE_RX_BURST && n + URXE_RX_BURST <= dev->rx_most) {
		got = urxe_lane_rx(lane, pkts, URXE_RX_BURST);
		receive_burst(dev, lane, &t, pkts, got, now);
		n += got;
	}
	for (unsigned i = 0; i < t.n; i++)
		after_burst(t.qp[i], lane, at, now);
	return n;
}

/* ---- pending QPs, timers ---- */

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
			n += receive(dev, lane, at, pkts, got, now);
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
		sent = send_requests(qp, lane, urxe_port_now(dev->port));
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

		if (!urxe_lane_trylock(lane))
			continue; /* whoever has it goes on after us, or has been through the list
				   */
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
	more = serve(qp, lane, urxe_port_now(dev->port), true).more;
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
