/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Responses that come early, and the NAK that ends the QP. Each response says by its PSN where its
 * bytes belong, so nothing is kept but the fact that it has come: a bit for each PSN behind the
 * oldest one. Requests complete in their order all the same.
 *
 * Between them are holes. What is missing there is asked for again, each hole once, as soon as a
 * few responses have passed it: to wait until it is the oldest would take a round trip for each. It
 * is asked for once more when what was asked for, or sent, later has been answered before.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "early.h"
#include "recover.h"
#include "requester.h"
#include "sge.h"
#include "trace.h"

#define EARLY_PSNS 2048u /* behind the oldest: more than a requester has out */
#define HOLES	   16
#define LOOK_MOST  64 /* PSNs, behind a hole */
#define REQUESTS   8  /* that are looked at, for each response that comes */

/* PSNs whose responses have not come, all of them or some. */
struct hole {
	uint32_t psn, end;
	bool asked;	 /* for again */
	uint32_t high;	 /* max_psn when it was */
	uint32_t number; /* of the times that something was */
};

struct urxe_early {
	uint64_t bits[EARLY_PSNS / 64];
	struct hole holes[HOLES]; /* by PSN; of more is known when they are the oldest */
	unsigned nholes;
	uint32_t high;		   /* one past the newest that has come; while there is one */
	uint32_t number;	   /* of the last hole that was asked for, */
	uint32_t answered;	   /* and the highest of which something has come */
	uint32_t refused;	   /* PSN of a request that fails when all before it is there, */
	enum ibv_wc_status status; /* with this; SUCCESS: there is none */
};

static uint64_t *word_of(const struct urxe_early *e, uint32_t psn)
{
	return (uint64_t *)(uintptr_t)&e->bits[psn % EARLY_PSNS / 64];
}

static bool is_noted(const struct urxe_early *e, uint32_t psn)
{
	return *word_of(e, psn) >> (psn % 64) & 1;
}

/* How many responses are missing, from that to @psn on, which is; @most at most. */
static uint32_t missing_from(const struct urxe_early *e, uint32_t psn, uint32_t most)
{
	uint32_t n = 1;

	while (n < most && n < EARLY_PSNS && !is_noted(e, urxe_psn_add(psn, n)))
		n++;
	return n;
}

static struct urxe_early *early_of(struct urxe_requester *r)
{
	if (!r->early)
		r->early = calloc(1, sizeof(*r->early));
	return r->early;
}

/* Is it what the request at @psn is to bring? Then it is brought. */
static bool place(struct urxe_qp *qp, const struct urxe_swqe *wqe, const struct urxe_decoded *pkt)
{
	uint32_t offset = ((pkt->psn - wqe->psn) & URXE_PSN_MASK) << qp->mtu_shift;
	uint32_t left = wqe->length - offset;
	const uint8_t *from = pkt->payload;
	uint32_t length = pkt->length;

	if (pkt->what & URXE_OPF_READ) {
		if (wqe->opcode != IBV_WR_RDMA_READ ||
		    (left > qp->mtu ? length != qp->mtu
				    : length != left || !(pkt->what & URXE_OPF_LAST)))
			return false;
	} else {
		if (wqe->opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
		    wqe->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD)
			return false;
		from = (const uint8_t *)&pkt->aeth.original;
		length = sizeof(pkt->aeth.original);
		offset = 0;
	}
	return !length ||
	       urxe_sge_scatter(qp->dev, qp->pd, wqe->sge, wqe->num_sge, offset, from, length);
}

/* ---- holes ---- */

/* The first that ends behind @psn; nholes: there is none. */
static unsigned hole_at(const struct urxe_early *e, uint32_t psn)
{
	unsigned i = 0;

	while (i < e->nholes && urxe_psn_diff(e->holes[i].end, psn) <= 0)
		i++;
	return i;
}

/* The one that has @psn, or NULL. */
static struct hole *hole_of(struct urxe_early *e, uint32_t psn)
{
	unsigned i = hole_at(e, psn);

	return i < e->nholes && urxe_psn_diff(e->holes[i].psn, psn) <= 0 ? &e->holes[i] : NULL;
}

/* If there are too many, the last one is forgotten. */
static void hole_insert(struct urxe_early *e, unsigned i, const struct hole *h)
{
	if (i == HOLES)
		return;
	if (e->nholes == HOLES)
		e->nholes--;
	memmove(&e->holes[i + 1], &e->holes[i], (e->nholes - i) * sizeof(e->holes[0]));
	e->holes[i] = *h;
	e->nholes++;
}

bool urxe_early_holes(struct urxe_qp *qp, uint32_t una)
{
	struct urxe_early *e = qp->req.early;
	unsigned n = e ? hole_at(e, una) : 0;

	if (n) {
		e->nholes -= n;
		memmove(&e->holes[0], &e->holes[n], e->nholes * sizeof(e->holes[0]));
	}
	return e && e->nholes;
}

/* One has come early: it opens a hole, or is what a hole was asked for. */
static void holes_note(struct urxe_requester *r, uint32_t psn)
{
	struct urxe_early *e = r->early;
	const struct hole *h;

	if (!r->nearly || urxe_psn_diff(psn, e->high) >= 0) {
		if (r->nearly && psn != e->high)
			hole_insert(e, e->nholes, &(struct hole){.psn = e->high, .end = psn});
		r->recovering = true;
		e->high = urxe_psn_add(psn, 1);
		return;
	}
	h = hole_of(e, psn);
	if (h && h->asked && (int32_t)(h->number - e->answered) > 0)
		e->answered = h->number;
}

void urxe_early_late(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	const uint32_t whole = URXE_OPF_FIRST | URXE_OPF_LAST;
	struct urxe_requester *r = &qp->req;
	const struct hole *h = r->early ? hole_of(r->early, pkt->psn) : NULL;

	if (!h || !h->asked || h->psn != pkt->psn || h->end != urxe_psn_add(pkt->psn, 1) ||
	    !(pkt->what & URXE_OPF_READ) || (pkt->what & whole) == whole)
		return;
	if (r->patience < URXE_OVERTAKEN_MAX)
		r->patience *= 2;
}

/* Have enough of those from @psn on come? There may be requests between them that get no response.
 */
static bool enough_from(const struct urxe_requester *r, uint32_t psn)
{
	const struct urxe_early *e = r->early;
	unsigned n = 0;

	for (unsigned i = 0; r->nearly && i < LOOK_MOST && urxe_psn_diff(psn, e->high) < 0; i++) {
		n += is_noted(e, psn);
		if (n == r->patience)
			return true;
		psn = urxe_psn_add(psn, 1);
	}
	return false;
}

/* The oldest PSN's, if that was asked for again. */
static const struct hole *asked_oldest(const struct urxe_requester *r)
{
	const struct hole *h = r->early ? hole_of(r->early, r->una) : NULL;

	return h && h->asked ? h : NULL;
}

bool urxe_early_asked(const struct urxe_qp *qp)
{
	return asked_oldest(&qp->req) != NULL;
}

bool urxe_early_waits(const struct urxe_qp *qp)
{
	const struct urxe_requester *r = &qp->req;
	const struct hole *h = asked_oldest(r);

	if (!h)
		return false;
	if ((int32_t)(r->early->answered - h->number) > 0)
		return false;
	return !enough_from(r, h->high);
}

bool urxe_early_ask(struct urxe_qp *qp, uint32_t psn, uint32_t n)
{
	struct urxe_requester *r = &qp->req;
	struct hole all, *h, now = {psn, urxe_psn_add(psn, n), true, r->max_psn, 0};
	struct urxe_early *e = early_of(r);
	unsigned i;

	if (!e)
		return false;
	now.number = ++e->number;
	i = hole_at(e, psn);
	h = hole_of(e, psn);
	if (!h) {
		hole_insert(e, i, &now);
		return false;
	}
	/* What is left of a larger one, on both sides, is none that was asked for. */
	all = *h;
	*h = now;
	if (urxe_psn_diff(all.end, now.end) > 0)
		hole_insert(e, i + 1, &(struct hole){.psn = now.end, .end = all.end});
	if (urxe_psn_diff(psn, all.psn) > 0 && urxe_psn_diff(psn, r->una) > 0)
		hole_insert(e, i, &(struct hole){.psn = all.psn, .end = psn});
	return all.asked;
}

/* The first PSN of a request whose response has not come. */
static uint32_t first_missing(const struct urxe_qp *qp, const struct urxe_swqe *wqe)
	URXE_REQUIRES(qp->lock)
{
	uint32_t psn = wqe->psn, last = urxe_psn_add(wqe->psn, wqe->npsn - 1);

	if (urxe_psn_diff(qp->req.una, psn) > 0)
		psn = qp->req.una;
	return urxe_early_first(qp, psn, last);
}

/*
 * Of a hole that was not asked for: what is missing of one request. Of each READ that is its first
 * hole, for when another is asked for, what is before that is to be had no more (quirks.md:
 * read-from). False: nothing, for now. *@looks: so many requests may be looked at.
 */
static bool missing_of(const struct urxe_qp *qp, const struct hole *h, unsigned *looks,
		       uint32_t *psn, uint32_t *n) URXE_REQUIRES(qp->lock)
{
	uint32_t at = h->psn, end = h->end;

	for (; *looks && urxe_psn_diff(at, h->end) < 0; --*looks) {
		const struct urxe_swqe *wqe = urxe_requester_find(qp, at);

		if (!wqe)
			return false;
		*psn = first_missing(qp, wqe);
		at = urxe_psn_add(wqe->psn, wqe->npsn);
		if (!urxe_requester_answered(wqe) || urxe_psn_diff(*psn, h->psn) < 0 ||
		    urxe_psn_diff(*psn, at) >= 0 || urxe_psn_diff(*psn, end) >= 0)
			continue;
		if (urxe_psn_diff(at, end) < 0)
			end = at;
		*n = missing_from(qp->req.early, *psn, (uint32_t)urxe_psn_diff(end, *psn));
		return true;
	}
	return false;
}

bool urxe_early_passed(const struct urxe_qp *qp, uint32_t *psn, uint32_t *n)
{
	const struct urxe_early *e = qp->req.early;
	unsigned looks = REQUESTS;

	if (!e || !qp->req.nearly)
		return false;
	for (unsigned i = 0; i < e->nholes && looks; i++) {
		const struct hole *h = &e->holes[i];

		if (!h->asked && urxe_psn_diff(h->psn, qp->req.una) > 0 &&
		    enough_from(&qp->req, h->end) && missing_of(qp, h, &looks, psn, n))
			return true;
	}
	return false;
}

/* ---- responses ---- */

static void note(struct urxe_requester *r, uint32_t psn)
{
	holes_note(r, psn);
	*word_of(r->early, psn) |= 1ull << (psn % 64);
	r->nearly++;
}

void urxe_early_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
{
	struct urxe_requester *r = &qp->req;
	const struct urxe_swqe *wqe = urxe_requester_find(qp, pkt->psn);

	if (!early_of(r) || !wqe || urxe_psn_diff(pkt->psn, r->una) >= (int32_t)EARLY_PSNS) {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_OUT_OF_SEQUENCE);
		return;
	}
	if (is_noted(r->early, pkt->psn)) {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_DUPLICATE);
		return;
	}
	r->overtaken++;
	if (place(qp, wqe, pkt)) {
		urxe_early_late(qp, pkt);
		note(r, pkt->psn);
		urxe_stat_inc(qp->dev, URXE_STAT_RX_EARLY);
	} else {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_OUT_OF_SEQUENCE);
	}
	if (r->overtaken >= r->patience && r->psn == r->max_psn)
		urxe_recover_hole(qp, now);
}

bool urxe_early_refused(const struct urxe_qp *qp)
{
	return qp->req.nearly && qp->req.early->status != IBV_WC_SUCCESS;
}

bool urxe_early_refuse(struct urxe_qp *qp, uint32_t psn, enum ibv_wc_status status)
{
	struct urxe_requester *r = &qp->req;

	if (urxe_early_refused(qp) || !early_of(r) ||
	    urxe_psn_diff(psn, r->una) >= (int32_t)EARLY_PSNS || is_noted(r->early, psn))
		return false;
	note(r, psn);
	r->early->refused = psn;
	r->early->status = status;
	return true;
}

bool urxe_early_passes(const struct urxe_qp *qp, uint32_t psn)
{
	return urxe_early_refused(qp) && urxe_psn_diff(psn, qp->req.early->refused) >= 0;
}

enum ibv_wc_status urxe_early_status(const struct urxe_qp *qp, const struct urxe_swqe *oldest)
{
	const struct urxe_early *e = qp->req.early;
	bool here = urxe_requester_answered(oldest)
			    ? e->refused == qp->req.una
			    : ((e->refused - oldest->psn) & URXE_PSN_MASK) < oldest->npsn;

	return here ? e->status : IBV_WC_SUCCESS;
}

bool urxe_early_take(struct urxe_qp *qp)
{
	struct urxe_requester *r = &qp->req;

	if (!r->nearly || !is_noted(r->early, r->una))
		return false;
	*word_of(r->early, r->una) &= ~(1ull << (r->una % 64));
	r->nearly--;
	return true;
}

uint32_t urxe_early_missing(const struct urxe_qp *qp)
{
	const struct urxe_requester *r = &qp->req;
	const struct urxe_swqe *wqe = urxe_requester_find(qp, r->una);
	uint32_t most, begun;

	if (!wqe || wqe->opcode != IBV_WR_RDMA_READ)
		return 1;
	most = wqe->npsn - ((r->una - wqe->psn) & URXE_PSN_MASK);
	/* Of a READ in parts those that were begun: the peer has no resource for more. */
	begun = (uint32_t)urxe_psn_diff(r->max_psn, r->una);
	if (most > begun)
		most = begun;
	if (!r->nearly)
		return most;
	return missing_from(r->early, r->una, most);
}

uint32_t urxe_early_first(const struct urxe_qp *qp, uint32_t psn, uint32_t last)
{
	const struct urxe_requester *r = &qp->req;
	int32_t most = urxe_psn_diff(last, psn) + 1;
	int32_t known = (int32_t)EARLY_PSNS - urxe_psn_diff(psn, r->una), n = 0;

	if (most > known)
		most = known;
	if (most < 0)
		most = 0;
	/* A word at a time. */
	while (r->nearly && n < most) {
		uint32_t at = urxe_psn_add(psn, (uint32_t)n);
		uint64_t missing = ~*word_of(r->early, at) >> (at % 64);

		if (missing) {
			n += __builtin_ctzll(missing);
			break;
		}
		n += 64 - (int32_t)(at % 64);
	}
	return urxe_psn_add(psn, (uint32_t)(n < most ? n : most));
}

void urxe_early_forget(struct urxe_qp *qp)
{
	struct urxe_requester *r = &qp->req;

	if (r->early)
		memset(r->early, 0, sizeof(*r->early));
	r->nearly = r->overtaken = 0;
}
