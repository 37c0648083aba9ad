/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A burst of packets: whose each is, which half of the QP takes it, and one answer for all of them.
 */
#include "provider.h"
#include "apm.h"
#include "completer.h"
#include "decode.h"
#include "lend.h"
#include "mcast.h"
#include "pending.h"
#include "progress.h"
#include "rcu.h"
#include "receive.h"
#include "requester.h"
#include "responder.h"
#include "retry.h"
#include "serve.h"
#include "trace.h"
#include "uc.h"
#include "ud.h"

#define ACK_PATIENCE_NS 50000u /* for a message that an ACK can go with */
#define ACK_BEHIND	4      /* times as long, for the rest of it */

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
	more = qp->lane != at || urxe_serve(qp, lane, now, asked || is_last_word(qp)).more;
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

unsigned urxe_receive(struct urxe_device *dev, struct urxe_lane *lane, unsigned at,
		      struct urxe_packet *pkts, unsigned got, uint64_t now)
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
