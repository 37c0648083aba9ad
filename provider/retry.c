/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When the requester sends again: the ACK time-out with its count (IBTA 9.7.6.1.3), what is tried
 * before it, and what congestion control (cc.h) learns of both.
 *
 * A gap is told by a NAK, once (IBTA 9.7.5.2.8). Where nothing follows the packet that was lost, or
 * the NAK, the ACK or the packet sent again is lost in its turn, both ends are silent, and the ACK
 * time-out is made for peers that are far or gone: a hundred round trips, often. So the round trip
 * is measured, and after a silence that is long by this measure (RFC 6298) the oldest and the
 * newest packet are sent again (recover.c). If that is not answered either, the requester begins
 * again at the oldest packet, with the least window. Any ACK says where the responder really is; if
 * it has everything, nothing was lost, and the window is what it was. Duplicates are harmless, the
 * retry count does not know of them, and the ACK time-out comes when it would have come.
 *
 * A peer that waits for a processor is silent towards all QPs, and so is the world if it is we who
 * waited. Time in which nobody was heard tells a QP nothing; in it, one of them asks.
 */
#include <stdio.h>

#include "provider.h"
#include "apm.h"
#include "early.h"
#include "pending.h"
#include "progress.h"
#include "quirks.h"
#include "recover.h"
#include "requester.h"
#include "retry.h"
#include "trace.h"
#include "urxe/gid.h"
#include "urxe/log.h"
#include "urxe/units.h"

#define PATIENCE	1000000000u /* ns: longer ACK time-outs are not made longer */
#define MIN_ACK_TIMEOUT 2000000u    /* ns: below this, scheduling alone would look like loss */
#define MIN_SILENCE	100000u	    /* ns: before a probe, which costs little */
#define MIN_AWAY	1000000u    /* ns: so long nobody is away who is there */
#define BACKOFF_MAX	10

/* ---- the peer ---- */

static uint64_t load(const _Atomic uint64_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

static void store(_Atomic uint64_t *v, uint64_t ns)
{
	atomic_store_explicit(v, ns, memory_order_relaxed);
}

struct urxe_peer *urxe_peer_of(struct urxe_device *dev, const uint8_t gid[16])
{
	return &dev->peers[urxe_gid_hash(gid) % URXE_PEERS];
}

uint64_t urxe_rtt_patience(const struct urxe_rtt *t)
{
	return load(&t->srtt) + 4 * load(&t->var);
}

/* How long a silence is suspicious; 0: nothing is known. */
static uint64_t patience_of(const struct urxe_rtt *t)
{
	uint64_t ns = urxe_rtt_patience(t);

	return ns && ns < MIN_SILENCE ? MIN_SILENCE : ns;
}

/* It says nothing to anybody for so long that it, or we, do not run. */
static bool is_away(const struct urxe_peer *p, uint64_t now)
{
	uint64_t ns = patience_of(&p->rtt) / 2;

	/* Another lane's clock may be ahead. */
	return now >= load(&p->heard) + (ns < MIN_AWAY ? MIN_AWAY : ns);
}

void urxe_peer_heard(struct urxe_peer *p, uint64_t now)
{
	if (is_away(p, now))
		store(&p->since, now);
	store(&p->heard, now);
}

uint64_t urxe_peer_quiet_ns(const struct urxe_peer *p, uint64_t now)
{
	uint64_t heard = load(&p->heard);

	/* Another lane's clock may be ahead. */
	return !heard ? UINT64_MAX : now > heard ? now - heard : 0;
}

/* While it is away, one QP at a time is to find out. */
static bool may_probe(struct urxe_peer *p, uint64_t patience, uint64_t now)
{
	if (is_away(p, now) && now < load(&p->probed) + patience)
		return false;
	store(&p->probed, now);
	return true;
}

/* ---- round-trip time (RFC 6298) ---- */

void urxe_requester_measure(struct urxe_requester *r, uint64_t now)
{
	/* Of a packet that was sent twice nobody knows which one is answered. */
	if (r->rtt_since || r->psn != r->max_psn)
		return;
	r->rtt_since = now;
	r->rtt_psn = r->psn;
}

void urxe_rtt_sample(struct urxe_rtt *t, uint64_t rtt)
{
	uint64_t srtt = load(&t->srtt), var = load(&t->var);
	uint64_t off = rtt > srtt ? rtt - srtt : srtt - rtt;

	store(&t->var, srtt ? var - var / 4 + off / 4 : rtt / 2);
	store(&t->srtt, srtt ? srtt - srtt / 8 + rtt / 8 : rtt);
}

static void measured(struct urxe_qp *qp, uint64_t now)
{
	struct urxe_requester *r = &qp->req;
	/* It was perhaps sent by a lane whose clock is ahead. */
	uint64_t rtt = now > r->rtt_since ? now - r->rtt_since : 1;

	urxe_rtt_sample(&r->rtt, rtt);
	urxe_trace_rtt(qp, rtt);
	urxe_rtt_sample(&qp->peer->rtt, rtt);
	r->backoff = 0;
	r->rtt_since = 0;
}

/*
 * How long this QP waits; URXE_NEVER: for the time-out. It knows what its own operations take, all
 * QPs together how busy the peer is at the moment.
 */
static uint64_t probe_timeout(const struct urxe_qp *qp)
{
	uint64_t own = patience_of(&qp->req.rtt), all = patience_of(&qp->peer->rtt);
	uint64_t ns = own > all ? own : all;

	return ns ? ns << qp->req.backoff : URXE_NEVER;
}

/* ---- the timer ---- */

/*
 * The time-out may be anything up to four times what was asked for (IBTA 9.7.6.1.3). The first is
 * short, for a packet that was lost; after it the peer is given longer, within reason: it may be a
 * process that waits for a processor, and lives.
 */
static uint64_t ack_timeout(const struct urxe_qp *qp)
{
	unsigned silent = qp->attr.retry_cnt - (unsigned)qp->req.retries;
	uint64_t asked = 4096ull << qp->attr.timeout, ns = asked << (silent < 2 ? silent : 2);

	if (ns > PATIENCE)
		ns = asked > PATIENCE ? asked : PATIENCE;
	return ns < MIN_ACK_TIMEOUT ? MIN_ACK_TIMEOUT : ns;
}

/* When the timer has something to do: the time-out, or a probe before it. */
static uint64_t next_due(const struct urxe_qp *qp)
{
	const struct urxe_requester *r = &qp->req;
	uint64_t heard = load(&qp->peer->since), patience = probe_timeout(qp);
	uint64_t since = heard > r->silent_since ? heard : r->silent_since;

	if (r->rnr_wait || since >= r->deadline || patience >= r->deadline - since)
		return r->deadline;
	return since + patience;
}

void urxe_requester_arm(struct urxe_qp *qp, uint64_t now)
{
	struct urxe_requester *r = &qp->req;

	/* A time-out of 0 stands for none at all. */
	if (r->una == r->max_psn || !qp->attr.timeout) {
		if (!r->rnr_wait)
			r->deadline = URXE_NEVER;
		return;
	}
	if (r->rnr_wait)
		return;
	r->deadline = now + ack_timeout(qp);
	r->silent_since = now;
	urxe_progress_timer(qp, next_due(qp));
}

/* ---- congestion ---- */

void urxe_requester_lost(struct urxe_requester *r, uint64_t now)
{
	r->cc.ops->lost(&r->cc, now);
	r->probed = false;
}

void urxe_requester_marked(struct urxe_qp *qp, uint64_t now)
{
	struct urxe_requester *r = &qp->req;

	if (urxe_qp_acked(qp) && (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD))
		r->cc.ops->marked(&r->cc, (r->max_psn - r->una) & URXE_PSN_MASK, now);
}

void urxe_requester_progress(struct urxe_qp *qp, uint32_t una, uint64_t now)
{
	struct urxe_requester *r = &qp->req;
	/* It had more than was sent again: the answer was late, or lost. */
	bool late = r->probed && urxe_psn_diff(una, r->psn) > 0;

	if (!late)
		r->cc.ops->acked(&r->cc, (una - r->una) & URXE_PSN_MASK, now);
	urxe_recover_progress(qp, una);
	r->tail = false;
	if (r->rtt_since && urxe_psn_diff(una, r->rtt_psn) > 0)
		measured(qp, now);
	if (!r->probed || urxe_psn_diff(una, r->recover) < 0)
		return;
	if (late)
		r->cc.ops->undo(&r->cc);
	r->probed = false;
}

/* ---- silence ---- */

/* @again: congestion control has been told of this silence. */
static void begin_again(struct urxe_qp *qp, bool again, uint64_t now) URXE_REQUIRES(qp->lock)
{
	qp->req.cc.ops->timeout(&qp->req.cc, again, now);
	qp->req.gone_back = false;
	urxe_requester_go_back(qp, qp->req.una);
}

static void probe(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;
	uint64_t patience = probe_timeout(qp);

	if (!may_probe(qp->peer, patience, now)) {
		urxe_progress_timer(qp,
				    now + patience < r->deadline ? now + patience : r->deadline);
		return;
	}
	urxe_stat_inc(qp->dev, URXE_STAT_PROBES);
	urxe_trace_probe(qp, now - r->silent_since);
	if (!r->tail && !r->probed && urxe_recover_tail(qp, now)) {
		r->tail = true;
	} else {
		begin_again(qp, r->probed, now);
		if (!r->probed) {
			r->probed = true;
			r->recover = r->max_psn;
		}
	}
	if (r->backoff < BACKOFF_MAX)
		r->backoff++;
	r->silent_since = now;
	urxe_progress_timer(qp, next_due(qp));
}

/*
 * What an application prints is a number (12), so a line names the peer. When its address last sent
 * something tells a way that is cut from a QP that is not there. A peer that dies takes all our QPs
 * to it along: one line a second is enough.
 */
static void say_unanswered(const struct urxe_qp *qp, uint64_t now)
{
	uint64_t quiet = urxe_peer_quiet_ns(qp->peer, now);
	char gid[URXE_GID_STRLEN], last[64] = "nothing ever came from there";

	if (!urxe_log_due(&qp->peer->said, now, URXE_SEC))
		return;
	if (quiet != UINT64_MAX)
		snprintf(last, sizeof(last), "what came from there last came %.1f s ago",
			 (double)quiet / URXE_SEC);
	urxe_gid_print(qp->dgid, gid, sizeof(gid));
	urxe_warn("%s: QP 0x%x: QP 0x%x of %s has not answered, retry_cnt %u "
		  "(RETRY_EXC_ERR); %s",
		  qp->dev->cfg.name, qp->qpn, qp->dqpn, gid, qp->attr.retry_cnt, last);
}

static void out_of_retries(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	urxe_requester_complete(qp, IBV_WC_RETRY_EXC_ERR);
	urxe_qp_error(qp);
}

void urxe_requester_check_peer(struct urxe_qp *qp)
{
	if (qp->req.peer_gone && qp->sq.done != qp->sq.post &&
	    (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD))
		out_of_retries(qp);
}

bool urxe_requester_retry(struct urxe_qp *qp)
{
	/* A peer in error does not answer what is asked again. */
	if (urxe_early_refused(qp))
		return false;
	if (!qp->req.retries)
		return urxe_apm_migrate(qp);
	qp->req.retries--;
	return true;
}

void urxe_requester_timeout(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now)
{
	struct urxe_requester *r = &qp->req;

	if (r->deadline == URXE_NEVER || (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD))
		return;
	if (now < next_due(qp)) {
		/* There was progress since the timer was set: not yet. */
		urxe_progress_timer(qp, next_due(qp));
		return;
	}
	if (now < r->deadline) {
		probe(qp, now);
		return;
	}
	r->deadline = URXE_NEVER;
	if (r->rnr_wait) {
		r->rnr_wait = false;
		return;
	}
	urxe_stat_inc(qp->dev, URXE_STAT_TIMEOUTS);
	urxe_trace_timeout(qp);
	if (!urxe_requester_retry(qp)) {
		say_unanswered(qp, now);
		out_of_retries(qp);
		return;
	}
	/* Perhaps the neighbour is not where we think, or has fewer queues than we. */
	urxe_path_suspect(lane, qp->path);
	if (qp->dev->lanes > 1)
		urxe_pending_move(qp, (qp->lane + 1u) % qp->dev->lanes);
	urxe_quirk_flush_silent(qp);
	r->probed = false;
	begin_again(qp, false, now);
	urxe_requester_arm(qp, now);
}
