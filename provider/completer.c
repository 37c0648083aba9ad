/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The completer: receives acknowledgements and responses, completes send WQEs in order,
 * and tells the requester where to begin again (IBTA 9.7.5, 9.9.2).
 */
#include "provider.h"
#include "apm.h"
#include "completer.h"
#include "early.h"
#include "progress.h"
#include "quirks.h"
#include "recover.h"
#include "requester.h"
#include "responder.h"
#include "retry.h"
#include "sge.h"
#include "trace.h"

/* RNR NAK timer codes in microseconds (IBTA 9.7.5.2.8, table 46). */
static const uint32_t rnr_timer_us[32] = {
	655360, 10,    20,    30,    40,    60,	    80,	    120,    160,    240,    320,
	480,	640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
	20480,	30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

static struct urxe_swqe *oldest(struct urxe_qp *qp)
{
	struct urxe_swqe *wqe;

	if (qp->sq.done == qp->sq.post)
		return NULL;
	wqe = urxe_sq_at(&qp->sq, qp->sq.done);
	return wqe->flags & URXE_WQE_STARTED ? wqe : NULL;
}

/* Everything before @una is done with: counters begin anew, the cursor does not lag. */
static void progress(struct urxe_qp *qp, uint32_t una, uint64_t now) URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;

	urxe_requester_progress(qp, una, now);
	r->una = una;
	r->retries = qp->attr.retry_cnt;
	r->rnr_retries = qp->attr.rnr_retry;
	r->gone_back = false;
	r->rnr_wait = false;
	if (urxe_psn_diff(r->psn, una) < 0) {
		r->psn = una;
		qp->sq.cur = qp->sq.done;
	}
	urxe_requester_arm(qp, now);
}

/* A response is missing (an implied NAK, IBTA 9.7.5.1.1): ask again, once until there is progress.
 */
static void implied_nak(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;

	urxe_stat_inc(qp->dev, URXE_STAT_RX_OUT_OF_SEQUENCE);
	if (r->psn == r->max_psn) {
		urxe_recover_hole(qp, now);
		return;
	}
	if (r->gone_back)
		return;
	r->gone_back = true;
	urxe_requester_lost(r, now);
	urxe_requester_go_back(qp, r->una);
}

static void fail(struct urxe_qp *qp, enum ibv_wc_status status) URXE_REQUIRES(qp->lock)
{
	if (oldest(qp))
		urxe_requester_complete(qp, status);
	urxe_qp_error(qp);
}

/* What has come early, and is due now, is done with; and with it what is before it. */
static void take_early(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;
	struct urxe_swqe *wqe;

	r->overtaken = r->nearly;
	while (r->nearly && (wqe = oldest(qp))) {
		uint32_t end = urxe_psn_add(wqe->psn, wqe->npsn), una = urxe_psn_add(r->una, 1);
		enum ibv_wc_status refused = urxe_early_status(qp, wqe);

		if (refused != IBV_WC_SUCCESS) {
			fail(qp, refused);
			return;
		}
		if (!urxe_requester_answered(wqe))
			una = end;
		else if (!urxe_early_take(qp))
			break;
		if (una == end)
			urxe_requester_complete(qp, IBV_WC_SUCCESS);
		progress(qp, una, now);
		r->overtaken = r->nearly;
	}
	if (r->overtaken >= r->patience && r->psn == r->max_psn)
		urxe_recover_hole(qp, now);
}

/*
 * All PSNs before @psn are acknowledged: complete what ends there. False when a READ or ATOMIC
 * stands in the way, whose response must have been lost.
 */
static bool ack_before(struct urxe_qp *qp, uint32_t psn, uint64_t now) URXE_REQUIRES(qp->lock)
{
	uint32_t una = qp->req.una;
	struct urxe_swqe *wqe;
	bool clear = true;

	while (urxe_psn_diff(psn, una) > 0 && (wqe = oldest(qp))) {
		uint32_t end = urxe_psn_add(wqe->psn, wqe->npsn);

		if (urxe_requester_answered(wqe)) {
			clear = false;
			break;
		}
		if (((psn - wqe->psn) & URXE_PSN_MASK) < wqe->npsn) {
			una = psn; /* within a message */
			break;
		}
		una = end;
		urxe_requester_complete(qp, IBV_WC_SUCCESS);
	}
	if (una != qp->req.una) {
		progress(qp, una, now);
		take_early(qp, now);
		if (qp->req.una != una && urxe_psn_diff(psn, qp->req.una) > 0)
			return ack_before(qp, psn, now);
	}
	if (!clear)
		implied_nak(qp, now);
	return clear;
}

static void rnr_nak(struct urxe_qp *qp, uint32_t psn, uint8_t code, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;
	bool waiting = r->rnr_wait && psn == r->una;

	/* While it waits nothing is sent: another one is the network's copy. */
	if (waiting || !ack_before(qp, psn, now))
		return;
	urxe_trace_rnr_rx(qp, psn, rnr_timer_us[code]);
	/* 7 stands for ever (IBTA 9.7.5.2.8). */
	if (qp->attr.rnr_retry != 7) {
		if (!r->rnr_retries) {
			fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		r->rnr_retries--;
	}
	urxe_requester_go_back(qp, psn);
	r->rnr_wait = true;
	r->deadline = now + rnr_timer_us[code] * 1000ull;
	urxe_progress_timer(qp, r->deadline);
}

/* As what a request fails, by the NAK's code; SUCCESS: it does not. */
static enum ibv_wc_status refusal(uint8_t code)
{
	switch (code) {
	case URXE_NAK_INVALID_REQ:
		return IBV_WC_REM_INV_REQ_ERR;
	case URXE_NAK_REMOTE_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case URXE_NAK_REMOTE_OP:
		return IBV_WC_REM_OP_ERR;
	default:
		return IBV_WC_SUCCESS;
	}
}

/* It has overtaken a response. One that ends the peer's QP does not come again (IBTA 9.9.3). */
static void early_nak(struct urxe_qp *qp, uint32_t psn, uint8_t code, enum ibv_wc_status status)
	URXE_REQUIRES(qp->lock)
{
	if (code == URXE_NAK_PSN_SEQ)
		urxe_recover_also(qp, psn);
	else if (status != IBV_WC_SUCCESS && urxe_early_refuse(qp, psn, status))
		urxe_trace_nak_rx(qp, psn, code);
}

static void nak(struct urxe_qp *qp, uint32_t psn, uint8_t code, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;
	enum ibv_wc_status status = refusal(code);
	uint32_t una = r->una;

	/* Another of a gap. What ends the QP is told but once, and is no copy of that. */
	if (code == URXE_NAK_PSN_SEQ && urxe_recover_answered(qp, psn, now))
		return;
	if (!ack_before(qp, psn, now)) {
		early_nak(qp, psn, code, status);
		return;
	}
	if (qp->state == IBV_QPS_ERR)
		return;
	urxe_trace_nak_rx(qp, psn, code);
	if (status != IBV_WC_SUCCESS) {
		fail(qp, status);
	} else if (code == URXE_NAK_PSN_SEQ) {
		if (r->una == una && !urxe_recover_free(qp, psn) && !urxe_requester_retry(qp)) {
			fail(qp, IBV_WC_RETRY_EXC_ERR);
			return;
		}
		urxe_recover_gap(qp, psn, now);
		urxe_requester_arm(qp, now);
	} else {
		/* A reserved code: the timer decides. */
		urxe_qp_drop(qp, psn, URXE_STAT_RX_GHOST_ACK);
	}
}

static void note_nak(struct urxe_qp *qp, enum urxe_stat stat, uint8_t syndrome, uint32_t psn,
		     uint64_t now)
{
	urxe_stat_inc(qp->dev, stat);
	qp->req.last_nak = syndrome;
	qp->req.last_nak_psn = psn;
	qp->req.last_nak_at = now;
}

static void acknowledge(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	uint8_t syndrome = pkt->aeth.syndrome;
	uint8_t value = syndrome & URXE_AETH_VAL_MASK;

	switch (syndrome & URXE_AETH_TYPE_MASK) {
	case URXE_AETH_ACK:
		ack_before(qp, urxe_psn_add(pkt->psn, 1), now);
		break;
	case URXE_AETH_RNR:
		note_nak(qp, URXE_STAT_RX_RNR_NAK, syndrome, pkt->psn, now);
		rnr_nak(qp, pkt->psn, value, now);
		break;
	case URXE_AETH_NAK:
		note_nak(qp, URXE_STAT_RX_NAK, syndrome, pkt->psn, now);
		nak(qp, pkt->psn, value, now);
		break;
	default:
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_GHOST_ACK);
	}
}

/* The oldest WQE with a response, when the response of PSN @psn has come. */
static struct urxe_swqe *expect_response(struct urxe_qp *qp, uint32_t psn, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_swqe *wqe;

	/* A response acknowledges all requests before it. */
	for (;;) {
		wqe = oldest(qp);
		if (!wqe)
			return NULL;
		if (urxe_requester_answered(wqe))
			break;
		if (((psn - wqe->psn) & URXE_PSN_MASK) < wqe->npsn) {
			urxe_qp_drop(qp, psn, URXE_STAT_RX_GHOST_ACK);
			return NULL; /* a response to what asked for none */
		}
		urxe_requester_complete(qp, IBV_WC_SUCCESS);
		progress(qp, urxe_psn_add(wqe->psn, wqe->npsn), now);
	}
	return wqe;
}

static void read_response(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	uint32_t psn = pkt->psn, payload = pkt->length;
	struct urxe_swqe *wqe = expect_response(qp, psn, now);
	uint32_t offset, left;

	if (!wqe)
		return;
	if (psn != qp->req.una) {
		urxe_early_receive(qp, pkt, now);
		return;
	}
	if (__builtin_expect(qp->req.recovering, 0))
		urxe_early_late(qp, pkt);
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE || wqe->opcode == URXEDV_WR_FLUSH) {
		/* Answered as a READ of nothing (IBTA A19). */
		if (payload || !(pkt->what & URXE_OPF_FIRST && pkt->what & URXE_OPF_LAST)) {
			fail(qp, IBV_WC_BAD_RESP_ERR);
			return;
		}
		if (wqe->opcode == URXEDV_WR_FLUSH)
			urxe_quirk_flush_answered(qp, psn);
		urxe_requester_complete(qp, IBV_WC_SUCCESS);
		progress(qp, urxe_psn_add(psn, 1), now);
		take_early(qp, now);
		return;
	}
	if (wqe->opcode != IBV_WR_RDMA_READ) {
		fail(qp, IBV_WC_BAD_RESP_ERR);
		return;
	}
	offset = ((psn - wqe->psn) & URXE_PSN_MASK) << qp->mtu_shift;
	left = wqe->length - offset;
	/* All packets but the last are full; a READ asked for in parts may have several ends. */
	if (left > qp->mtu ? payload != qp->mtu : payload != left || !(pkt->what & URXE_OPF_LAST)) {
		fail(qp, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (payload && !urxe_sge_scatter(qp->dev, qp->pd, wqe->sge, wqe->num_sge, offset,
					 pkt->payload, payload)) {
		fail(qp, IBV_WC_LOC_PROT_ERR);
		return;
	}
	if (left <= qp->mtu)
		urxe_requester_complete(qp, IBV_WC_SUCCESS);
	progress(qp, urxe_psn_add(psn, 1), now);
	take_early(qp, now);
}

static void atomic_response(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_swqe *wqe = expect_response(qp, pkt->psn, now);

	if (!wqe)
		return;
	if (pkt->psn != qp->req.una) {
		urxe_early_receive(qp, pkt, now);
		return;
	}
	if (wqe->opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
	    wqe->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) {
		fail(qp, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (!urxe_sge_scatter(qp->dev, qp->pd, wqe->sge, wqe->num_sge, 0,
			      (const uint8_t *)&pkt->aeth.original, sizeof(pkt->aeth.original))) {
		fail(qp, IBV_WC_LOC_PROT_ERR);
		return;
	}
	urxe_requester_complete(qp, IBV_WC_SUCCESS);
	progress(qp, urxe_psn_add(pkt->psn, 1), now);
	take_early(qp, now);
}

void urxe_completer_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
{
	uint32_t psn = pkt->psn;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) {
		urxe_qp_drop(qp, psn, URXE_STAT_RX_BAD_STATE);
		return;
	}
	if (urxe_psn_diff(psn, qp->req.una) < 0) {
		urxe_qp_drop(qp, psn, URXE_STAT_RX_DUPLICATE);
		return;
	}
	/* For a PSN never sent (IBTA 9.7.5.1.2: a ghost): nobody we know. Nor for one refused. */
	if (urxe_psn_diff(psn, qp->req.max_psn) >= 0 || urxe_early_beyond(qp, psn)) {
		urxe_qp_drop(qp, psn, URXE_STAT_RX_GHOST_ACK);
		return;
	}
	if (pkt->what & URXE_OPF_READ)
		read_response(qp, pkt, now);
	else if (pkt->what & URXE_OPF_ATOMIC)
		atomic_response(qp, pkt, now);
	else
		acknowledge(qp, pkt, now);
}
