/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Responses that come early. Each says by its PSN where its bytes belong, so nothing is kept but
 * the fact that it has come: a bit for each PSN behind the oldest one. Requests complete in their
 * order all the same.
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

struct urxe_early {
	uint64_t bits[EARLY_PSNS / 64];
};

static uint64_t *word_of(const struct urxe_early *e, uint32_t psn)
{
	return (uint64_t *)(uintptr_t)&e->bits[psn % EARLY_PSNS / 64];
}

static bool is_noted(const struct urxe_early *e, uint32_t psn)
{
	return *word_of(e, psn) >> (psn % 64) & 1;
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

void urxe_early_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
{
	struct urxe_requester *r = &qp->req;
	const struct urxe_swqe *wqe = urxe_requester_find(qp, pkt->psn);

	if (!r->early)
		r->early = calloc(1, sizeof(*r->early));
	if (!wqe || !r->early || urxe_psn_diff(pkt->psn, r->una) >= (int32_t)EARLY_PSNS) {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_OUT_OF_SEQUENCE);
		return;
	}
	if (is_noted(r->early, pkt->psn)) {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_DUPLICATE);
		return;
	}
	r->overtaken++;
	if (r->again.asked && urxe_psn_diff(pkt->psn, r->again.asked_high) >= 0)
		r->again.after++;
	if (place(qp, wqe, pkt)) {
		*word_of(r->early, pkt->psn) |= 1ull << (pkt->psn % 64);
		r->nearly++;
		urxe_stat_inc(qp->dev, URXE_STAT_RX_EARLY);
	} else {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_OUT_OF_SEQUENCE);
	}
	if (r->overtaken >= URXE_OVERTAKEN && r->psn == r->max_psn)
		urxe_recover_hole(qp, now);
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
	uint32_t n = 1, most;

	if (!wqe || wqe->opcode != IBV_WR_RDMA_READ)
		return 1;
	most = wqe->npsn - ((r->una - wqe->psn) & URXE_PSN_MASK);
	if (!r->nearly)
		return most;
	while (n < most && n < EARLY_PSNS && !is_noted(r->early, urxe_psn_add(r->una, n)))
		n++;
	return n;
}

uint32_t urxe_early_first(const struct urxe_qp *qp, uint32_t psn, uint32_t last)
{
	const struct urxe_requester *r = &qp->req;

	while (r->nearly && urxe_psn_diff(psn, last) <= 0 &&
	       urxe_psn_diff(psn, r->una) < (int32_t)EARLY_PSNS && is_noted(r->early, psn))
		psn = urxe_psn_add(psn, 1);
	return psn;
}

void urxe_early_forget(struct urxe_qp *qp)
{
	struct urxe_requester *r = &qp->req;

	if (r->nearly)
		memset(r->early, 0, sizeof(*r->early));
	r->nearly = r->overtaken = 0;
}
