/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Gaps: requests that come before what is before them are kept (keep.c) and executed in their turn;
 * what is missing is told to the peer by a NAK.
 *
 * A gap is told once (IBTA 9.7.5.2.8): to a peer that goes back N each NAK is work, and one of its
 * retries. One that sends what is missing alone does that in a time which can be measured. If that
 * passes, and variance with it, the NAK was lost, or what it brought: the peer, whose window is
 * full, would find out by a silence that is much longer. So it is told again.
 */
#include "provider.h"
#include "keep.h"
#include "progress.h"
#include "responder.h"
#include "retry.h"
#include "trace.h"

#define SETTLE_MOST  16	     /* packets that were kept, till an answer */
#define LATE_MIN     10000u  /* ns */
#define LATE_MAX     500000u /* ns */
#define LATE_UNKNOWN 50000u  /* ns; nobody has measured the way */
#define AGAIN_MOST   3	     /* times that a gap is told again for its time */

static bool is_told(const struct urxe_responder *r)
{
	return r->state == URXE_RESP_WAIT_RETRY &&
	       r->nak_syndrome == (URXE_AETH_NAK | URXE_NAK_PSN_SEQ);
}

void urxe_responder_forget(struct urxe_qp *qp)
{
	qp->resp.gap = qp->resp.backlog = false;
	qp->resp.nak_at = 0;
	urxe_keep_clear(qp);
}

/* How long a packet may be late when few have overtaken it: others may never follow. */
static uint64_t lateness(const struct urxe_qp *qp)
{
	uint64_t ns = atomic_load_explicit(&qp->peer->rtt.srtt, memory_order_relaxed) / 2;

	if (!ns)
		return LATE_UNKNOWN;
	return ns < LATE_MIN ? LATE_MIN : ns > LATE_MAX ? LATE_MAX : ns;
}

/* When it is to be told again, each time later: if the peer is known to answer soon. */
static void arm_again(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;
	uint64_t ns = urxe_rtt_patience(&qp->peer->repair);

	r->nak_at = 0;
	if (!r->selective || !ns || r->told_again == AGAIN_MOST)
		return;
	r->nak_at = now + ((ns < LATE_MIN ? LATE_MIN : ns) << r->told_again);
	urxe_progress_timer(qp, r->nak_at);
}

static void nak_gap(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;

	if (r->state != URXE_RESP_WAIT_RETRY) {
		r->told_at = now;
		r->told_again = 0;
	}
	r->passed = false;
	urxe_responder_nak(qp, URXE_AETH_NAK | URXE_NAK_PSN_SEQ);
	arm_again(qp, now);
}

/* A gap that was told has closed, and the peer has gone on behind this. */
static void learn(struct urxe_responder *r, const struct urxe_kept *k)
{
	if (r->asked && !k->again)
		r->selective = true;
}

/*
 * What was kept is executed when all before it is, and the peer has come there: after a NAK one
 * that goes back to the gap, and sends everything again, is answered as far as it has sent again,
 * and no further (quirks.md: ack-in-resend). One that sends what is missing alone goes on behind
 * what is kept.
 *
 * That may be all that the peer's window lets it send, and take as long as that took to come: the
 * peer is to hear of each part, and goes on meanwhile.
 */
void urxe_responder_settle(struct urxe_qp *qp, uint64_t now)
{
	struct urxe_responder *r = &qp->resp;
	struct urxe_kept *k;
	unsigned n = 0;

	r->backlog = false;
	while (r->state < URXE_RESP_WAIT_RETRY && !r->stall &&
	       urxe_psn_diff(r->reach, r->epsn) > 0 && (k = urxe_keep_take(qp, r->epsn))) {
		r->overtaken = r->nkept;
		r->nak_at = 0;
		learn(r, k);
		urxe_responder_execute(qp, &k->pkt);
		urxe_keep_spend(qp, k);
		if (++n == SETTLE_MOST && r->nkept) {
			r->backlog = qp->answers = true;
			return;
		}
	}
	if (r->state >= URXE_RESP_WAIT_RETRY || r->stall)
		return;
	if (urxe_psn_diff(r->reach, r->epsn) <= 0) {
		urxe_keep_pass(qp, r->epsn);
		r->reach = r->epsn;
		r->nak_at = 0;
		r->overtaken = r->nkept;
		r->gap = r->nkept;
		return;
	}
	if (r->overtaken >= r->patience) {
		nak_gap(qp, now);
	} else if (!r->nak_at) {
		r->nak_at = now + lateness(qp);
		urxe_progress_timer(qp, r->nak_at);
	}
}

void urxe_responder_timeout(struct urxe_qp *qp, uint64_t now)
{
	struct urxe_responder *r = &qp->resp;

	if (!r->nak_at || qp->state < IBV_QPS_RTR || qp->state > IBV_QPS_SQD)
		return;
	if (now < r->nak_at) {
		urxe_progress_timer(qp, r->nak_at);
	} else if (r->state < URXE_RESP_WAIT_RETRY && !r->stall) {
		nak_gap(qp, now);
	} else if (is_told(r) && !r->stall) {
		r->told_again += !r->nak_due; /* the link is full: it has not gone out */
		nak_gap(qp, now);
	} else {
		r->nak_at = 0; /* a gap that is left when it goes on has a time of its own */
	}
}

/*
 * Who sends what is kept has come past the gap again: what was to close it, or the NAK, was lost.
 * Of a train of such packets the first one tells. Among them are those that close other gaps: the
 * train is over when one comes that is new.
 */
static bool tell_again(struct urxe_responder *r, uint32_t psn, enum urxe_keep_result kept)
{
	bool before = kept == URXE_KEEP_AGAIN;
	bool again =
		r->passed || (before && (!r->repeating || urxe_psn_diff(psn, r->repeated) <= 0));

	if (kept != URXE_KEEP_FILLS)
		r->repeating = before;
	if (again)
		r->repeated = psn;
	return again && !r->nak_due;
}

void urxe_responder_early(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
{
	struct urxe_responder *r = &qp->resp;
	bool waits = r->state == URXE_RESP_WAIT_RETRY;
	bool far = urxe_psn_diff(pkt->psn, r->epsn) > URXE_KEEP_AHEAD;
	enum urxe_keep_result kept = URXE_KEEP_FULL;
	uint32_t end;

	/* After an RNR NAK all comes again. */
	if (!far && (!waits || is_told(r)))
		kept = urxe_keep_add(qp, pkt);
	if (kept == URXE_KEEP_NEW || kept == URXE_KEEP_FILLS)
		urxe_stat_inc(qp->dev, URXE_STAT_RX_EARLY);
	else
		urxe_qp_drop(qp, pkt->psn,
			     kept == URXE_KEEP_AGAIN ? URXE_STAT_RX_DUPLICATE
						     : URXE_STAT_RX_OUT_OF_SEQUENCE);
	/* The newest alone may be sent again to see what is missing. */
	if (kept == URXE_KEEP_AGAIN && !urxe_keep_is_newest(qp, pkt->psn))
		r->selective = false;
	if (!r->gap) {
		r->gap = true;
		r->passed = r->repeating = r->asked = false;
		r->reach = r->epsn;
		r->overtaken = 0;
	}
	/* What is too far ahead says no more than that there is a gap. */
	end = urxe_psn_add(far ? r->epsn : pkt->psn, 1);
	if (urxe_psn_diff(end, r->reach) > 0)
		r->reach = end;
	r->overtaken++;
	if (r->backlog)
		return;
	if (!waits)
		urxe_responder_settle(qp, now);
	else if (r->nkept && tell_again(r, pkt->psn, kept))
		nak_gap(qp, now);
}

/* If the NAK is out, the peer is back where it was lost. */
void urxe_responder_came(struct urxe_qp *qp, uint64_t now)
{
	struct urxe_responder *r = &qp->resp;
	bool asked = is_told(r) && !r->nak_due;

	r->state = r->resume;
	r->told = asked && !r->told_again;
	if (r->gap && !r->nak_due && !r->selective)
		r->reach = urxe_psn_add(r->epsn, 1);
	if (asked)
		/* From the first time that it was told: a wait for what was lost is one, too.
		 * Another lane's clock may be ahead. */
		urxe_rtt_sample(&qp->peer->repair, now > r->told_at ? now - r->told_at : 1);
	r->asked |= asked;
	r->nak_at = 0;
	r->nak_due = false;
	r->repeating = r->passed = false;
}
