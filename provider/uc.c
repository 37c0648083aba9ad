/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Unreliable connections (IBTA 9.8.2): what does not fit is dropped with the rest of its
 * message; nothing is answered.
 */
#include <errno.h>
#include <string.h>

#include "provider.h"
#include "responder.h"
#include "service.h"
#include "sge.h"
#include "trace.h"
#include "uc.h"

/* Give the message up. A receive WQE in use is used again for the next (IBTA 9.8.2.2.7). */
static void uc_drop(struct urxe_qp *qp, uint32_t psn)
{
	qp->resp.state = URXE_RESP_EXPECT_FIRST;
	urxe_qp_drop(qp, psn, URXE_STAT_RX_UC_DROP);
}

static bool uc_in_message(const struct urxe_responder *r, const struct urxe_decoded *pkt,
			  bool in_order)
{
	uint8_t want = pkt->what & URXE_OPF_SEND ? URXE_RESP_IN_SEND : URXE_RESP_IN_WRITE;

	return pkt->what & URXE_OPF_FIRST || (in_order && r->state == want);
}

static bool uc_recv_ready(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	return qp->resp.in_recv || !urxe_responder_take_rwqe(qp, 0);
}

static bool uc_send(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;

	if (pkt->what & URXE_OPF_FIRST) {
		if (!uc_recv_ready(qp))
			return false;
		r->offset = 0;
	}
	if (pkt->length > r->rwqe->length - r->offset) {
		urxe_responder_finish_recv(qp, IBV_WC_LOC_LEN_ERR, NULL, 0);
		urxe_qp_fatal(qp, IBV_EVENT_QP_REQ_ERR);
		return true;
	}
	if (pkt->length && !urxe_sge_scatter(qp->dev, r->recv_pd, r->rwqe->sge, r->rwqe->num_sge,
					     r->offset, pkt->payload, pkt->length)) {
		urxe_responder_finish_recv(qp, IBV_WC_LOC_PROT_ERR, NULL, 0);
		urxe_qp_fatal(qp, IBV_EVENT_QP_FATAL);
		return true;
	}
	r->offset += pkt->length;
	r->state = URXE_RESP_IN_SEND;
	if (pkt->what & URXE_OPF_LAST) {
		r->state = URXE_RESP_EXPECT_FIRST;
		urxe_responder_finish_recv(qp, IBV_WC_SUCCESS, pkt, r->offset);
	}
	return true;
}

static bool uc_write(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;

	if (pkt->what & URXE_OPF_FIRST) {

		r->va = pkt->reth.va;
		r->rkey = pkt->reth.rkey;
		r->length = r->resid = pkt->reth.length;
		if (!(qp->access & IBV_ACCESS_REMOTE_WRITE) || r->length > URXE_MAX_MSG_SZ)
			return false;
	}
	if (pkt->what & URXE_OPF_LAST ? pkt->length != r->resid : pkt->length >= r->resid)
		return false;
	if (pkt->what & URXE_OPF_RECV_WQE && !uc_recv_ready(qp))
		return false;
	if (!urxe_responder_write(qp, pkt))
		return false;
	if (pkt->what & URXE_OPF_LAST) {
		r->state = URXE_RESP_EXPECT_FIRST;
		if (pkt->what & URXE_OPF_RECV_WQE)
			urxe_responder_finish_recv(qp, IBV_WC_SUCCESS, pkt, r->length);
		else
			urxe_service_written(qp->dev, r->length <= URXE_ANSWERED_MOST);
	}
	return true;
}

void urxe_uc_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	struct urxe_responder *r = &qp->resp;
	bool in_order = pkt->psn == r->epsn, full, done;

	/* All packets but the last are full, and the last of several is not empty. */
	full = pkt->what & URXE_OPF_LAST
		       ? pkt->length <= qp->mtu && (pkt->length || pkt->what & URXE_OPF_FIRST)
		       : pkt->length == qp->mtu;

	if (qp->state < IBV_QPS_RTR || qp->state == IBV_QPS_ERR) {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_BAD_STATE);
		return;
	}
	if (qp->state == IBV_QPS_RTR && !r->established) {
		r->established = true;
		urxe_event_qp(qp, IBV_EVENT_COMM_EST);
	}
	r->epsn = urxe_psn_add(pkt->psn, 1);
	if (!full || !uc_in_message(r, pkt, in_order)) {
		uc_drop(qp, pkt->psn);
		return;
	}
	done = pkt->what & URXE_OPF_SEND ? uc_send(qp, pkt) : uc_write(qp, pkt);
	if (!done)
		uc_drop(qp, pkt->psn);
}
