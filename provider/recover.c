/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What is sent again when something is missing. Many a responder (ours, cards of today) keeps what
 * came behind a gap, and needs nothing but what is missing: that is sent alone, and with it the
 * newest packet. When that arrives the responder sees that nothing in between will come again, and
 * answers for all it has. If it is there and the missing one is not, the NAK comes again.
 *
 * A responder that goes back N (IBTA asks for no more; the kernel's Soft-RoCE) has thrown away what
 * came behind the gap: its next NAK is of the PSN right behind what was sent again. That may be a
 * second loss. So all is sent again from there, as ever; when it happens twice in a row, the peer
 * is known, and things are done its way, but for a try now and then. Where the peer is known to
 * keep packets, a NAK like that tells of a burst that was lost, and twice as many packets are sent.
 */
#include "provider.h"
#include "early.h"
#include "recover.h"
#include "requester.h"
#include "retry.h"
#include "trace.h"

#define STRIKES	  2  /* in a row: the peer goes back N */
#define FREE_NAKS 16 /* of one packet */
#define TRY_EVERY 64 /* gaps: does it still? */

#define UNLUCKY	   255 /* so often after one that was lost each goes out twice, */
#define TWICE_MOST 4   /* if it is not longer, PSNs */

static enum urxe_peer_way way_of(const struct urxe_qp *qp)
{
	if (qp->req.again.way != URXE_PEER_UNKNOWN)
		return (enum urxe_peer_way)qp->req.again.way;
	return (enum urxe_peer_way)atomic_load_explicit(&qp->peer->way, memory_order_relaxed);
}

static void learned(struct urxe_qp *qp, enum urxe_peer_way way)
{
	struct urxe_again *g = &qp->req.again;

	g->strikes = 0;
	if (g->way == way)
		return;
	g->way = (uint8_t)way;
	atomic_store_explicit(&qp->peer->way, (uint8_t)way, memory_order_relaxed);
	urxe_debug("QP %06x: the peer %s what comes behind a gap", qp->qpn,
		   way == URXE_PEER_KEEPS ? "keeps" : "drops");
}

/* @part: the peer has executed it, and of a READ no more than this is wanted. */
static void again(struct urxe_requester *r, uint32_t psn, uint32_t n, bool part)
{
	struct urxe_again *g = &r->again;

	r->recovering = true;
	if (g->left == URXE_AGAIN_MAX)
		return;
	g->at[g->left].psn = psn;
	g->at[g->left].part = part;
	g->at[g->left].twice = false;
	g->at[g->left++].n = n;
}

/*
 * What was put there last, @n PSNs: twice? @lost: it was sent again before, and did not arrive, nor
 * did the answer. To find that out takes a round trip, or a silence if nothing else is on its way:
 * at 5 % loss each way, of one in ten.
 */
static void twice(struct urxe_again *g, uint32_t n, bool lost)
{
	if (lost)
		g->unlucky = UNLUCKY;
	if (!g->unlucky || n > TWICE_MOST || !g->left)
		return;
	g->unlucky--;
	g->at[g->left - 1].twice = true;
}

/* How many PSNs the @n packets from PSN @psn on take. */
static uint32_t span(const struct urxe_qp *qp, uint32_t psn, uint32_t n) URXE_REQUIRES(qp->lock)
{
	uint32_t sum = 0;

	while (n-- && urxe_psn_diff(qp->req.max_psn, urxe_psn_add(psn, sum)) > 0)
		sum += urxe_requester_span(qp, urxe_psn_add(psn, sum));
	return sum;
}

/*
 * The request that PSN @last is of. Of a READ its first packet that has not come, for what is
 * before that could not be had any more (quirks.md: read-from): one that begins there was perhaps
 * not executed, and is wanted in whole.
 */
static void last_request(struct urxe_qp *qp, uint32_t last) URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;
	uint32_t first = urxe_requester_first(qp, last), psn;

	if (first == last) {
		again(r, last, 1, true);
		return;
	}
	/* What is missing of it is asked for as the oldest. */
	if (urxe_psn_diff(r->una, first) >= 0)
		return;
	psn = urxe_early_first(qp, first, last);
	if (psn == first)
		again(r, first, urxe_requester_span(qp, first), false);
	else if (urxe_psn_diff(psn, last) <= 0)
		again(r, psn, 1, true);
}

/* The newest, if it is not among the @n packets from @psn on. */
static void newest(struct urxe_qp *qp, uint32_t psn, uint32_t n) URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;
	uint32_t last = urxe_psn_add(r->max_psn, URXE_PSN_MASK);

	if (((last - psn) & URXE_PSN_MASK) >= n)
		last_request(qp, last);
	/* If that is lost, another one asks. */
	r->ack_psn = urxe_psn_add(r->psn, URXE_PSN_MASK + 1 - URXE_ACK_EVERY);
}

/* What is known to be missing can be measured though it was sent before. */
static void measure(struct urxe_requester *r, uint32_t psn, uint64_t now)
{
	r->rtt_since = now;
	r->rtt_psn = psn;
}

static void answered(struct urxe_again *g, uint32_t psn, uint64_t now)
{
	g->answered = psn;
	g->answered_at = now;
}

static void go_back(struct urxe_qp *qp, uint32_t psn, uint64_t now) URXE_REQUIRES(qp->lock)
{
	urxe_requester_lost(&qp->req, now);
	urxe_requester_go_back(qp, psn);
	answered(&qp->req.again, psn, now);
}

bool urxe_recover_answered(const struct urxe_qp *qp, uint32_t psn, uint64_t now)
{
	const struct urxe_again *g = &qp->req.again;
	uint64_t ns = atomic_load_explicit(&qp->req.rtt.srtt, memory_order_relaxed) / 4;

	return g->answered_at && psn == g->answered && now < g->answered_at + ns;
}

/* Was that, and what follows it, sent again alone at the last gap? */
static bool was_sent_again(const struct urxe_again *g, uint32_t psn)
{
	return g->count && psn == g->psn;
}

bool urxe_recover_free(struct urxe_qp *qp, uint32_t psn)
{
	struct urxe_again *g = &qp->req.again;

	return was_sent_again(g, psn) && g->naks++ < FREE_NAKS;
}

void urxe_recover_gap(struct urxe_qp *qp, uint32_t psn, uint64_t now)
{
	struct urxe_requester *r = &qp->req;
	struct urxe_again *g = &r->again;
	enum urxe_peer_way way = way_of(qp);
	const struct urxe_swqe *wqe;
	bool lost = was_sent_again(g, psn);
	uint32_t end = urxe_psn_add(g->psn, g->count), n = 1;
	bool follows = g->count && psn == end && urxe_psn_diff(psn, g->high) < 0;

	g->gaps++;
	if (r->psn != r->max_psn || (way == URXE_PEER_DROPS && g->gaps % TRY_EVERY)) {
		go_back(qp, psn, now);
		return;
	}
	if (follows && way != URXE_PEER_KEEPS) {
		if (++g->strikes >= STRIKES)
			learned(qp, URXE_PEER_DROPS);
		go_back(qp, psn, now);
		return;
	}
	if (follows)
		n = 2 * g->run;
	wqe = urxe_requester_find(qp, psn);
	r->cc.ops->missing(&r->cc, n, !wqe || !urxe_requester_answered(wqe), now);
	measure(r, psn, now);
	if (!lost)
		g->naks = 0;
	g->left = 0;
	g->psn = psn;
	g->run = n;
	g->count = span(qp, psn, n);
	g->high = r->max_psn;
	answered(g, psn, now);
	urxe_trace_resend(qp, psn, g->count);
	again(r, psn, g->count, false);
	if (way == URXE_PEER_KEEPS)
		twice(g, g->count, lost);
	newest(qp, psn, g->count);
}

void urxe_recover_also(struct urxe_qp *qp, uint32_t psn)
{
	struct urxe_requester *r = &qp->req;

	if (r->psn != r->max_psn || !r->again.left)
		return;
	again(r, psn, 1, false);
	newest(qp, psn, 1);
}

/* Responses of @n PSNs from @psn on. False: too much is to be sent again already. */
static bool ask(struct urxe_qp *qp, uint32_t psn, uint32_t n, uint64_t now) URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;

	if (r->again.left == URXE_AGAIN_MAX)
		return false;
	r->cc.ops->missing(&r->cc, n, false, now);
	urxe_trace_resend(qp, psn, n);
	again(r, psn, n, true);
	twice(&r->again, n, urxe_early_ask(qp, psn, n));
	return true;
}

void urxe_recover_hole(struct urxe_qp *qp, uint64_t now)
{
	struct urxe_requester *r = &qp->req;
	uint32_t psn, n;

	if (!urxe_early_waits(qp) && ask(qp, r->una, urxe_early_missing(qp), now)) {
		measure(r, r->una, now);
		r->silent_since = now;
	}
	while (urxe_early_passed(qp, &psn, &n) && ask(qp, psn, n, now))
		;
}

bool urxe_recover_tail(struct urxe_qp *qp, uint64_t now)
{
	struct urxe_requester *r = &qp->req;
	struct urxe_again *g = &r->again;
	uint32_t n = urxe_early_missing(qp);
	bool lost = was_sent_again(g, r->una) || urxe_early_asked(qp);

	if (r->psn != r->max_psn || r->una == r->max_psn)
		return false;
	if (lost)
		measure(r, r->una, now);
	else
		r->rtt_since = 0;
	urxe_recover_stop(r);
	again(r, r->una, n, r->nearly);
	if (r->nearly)
		twice(g, n, lost);
	newest(qp, r->una, n);
	return true;
}

void urxe_recover_heard(struct urxe_qp *qp, uint32_t una)
{
	struct urxe_again *g = &qp->req.again;
	bool holes = urxe_early_holes(qp, una);

	if (!g->count) {
		qp->req.recovering = g->left || holes;
		return;
	}
	/* The newest was sent again, too: what stands between them tells. */
	if (urxe_psn_diff(g->high, urxe_psn_add(g->psn, g->count)) >= 2 &&
	    urxe_psn_diff(una, urxe_psn_add(g->psn, g->count)) > 0) {
		learned(qp, URXE_PEER_KEEPS);
		g->count = 0;
	} else if (urxe_psn_diff(una, g->high) >= 0) {
		g->count = 0;
	}
}
