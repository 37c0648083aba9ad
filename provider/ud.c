/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Unreliable datagrams (IBTA 9.8.3): each message is one packet and is forgotten when it is out.
 */
#include <errno.h>
#include <string.h>

#include "provider.h"
#include "progress.h"
#include "rate.h"
#include "requester.h"
#include "responder.h"
#include "sge.h"
#include "trace.h"
#include "ud.h"

/* 0: sent or dropped, either way complete; EAGAIN: later; EFAULT: bad lkey, or no memory. */
static int ud_send(struct urxe_qp *qp, struct urxe_lane *lane, struct urxe_swqe *wqe,
		   struct urxe_sent *sent) URXE_REQUIRES(lane)
{
	bool imm = wqe->opcode == IBV_WR_SEND_WITH_IMM;
	uint8_t opcode = URXE_SVC_UD | (imm ? URXE_OP_SEND_ONLY_IMM : URXE_OP_SEND_ONLY);
	const struct urxe_opcode_info *op = &urxe_opcode_table[opcode];
	uint32_t len = wqe->length, pad = (4 - (len & 3)) & 3;
	struct urxe_bth bth = {
		.opcode = opcode,
		.solicited = wqe->flags & URXE_WQE_SOLICITED,
		.migreq = true,
		.pad = (uint8_t)pad,
		.pkey = URXE_DEFAULT_PKEY,
		.dqpn = wqe->remote_qpn,
		.psn = qp->req.psn,
	};
	struct urxe_tx tx;
	int err;

	if (len && !(wqe->flags & URXE_WQE_INLINE) &&
	    !urxe_sge_check(qp->dev, qp->pd, wqe->sge, wqe->num_sge, 0, len, 0))
		return EFAULT;
	err = urxe_tx_begin(lane, wqe->ud.ah->path, bth.dqpn, &tx, op->hdr_len + len + pad);
	if (err == EAGAIN || err == EINPROGRESS)
		return err;
	if (err) {
		urxe_stat_inc(qp->dev, URXE_STAT_TX_UNREACHABLE);
		return 0;
	}
	urxe_bth_put(tx.bth, &bth);
	urxe_deth_put(tx.bth + op->deth_off, wqe->ud.qkey, qp->qpn);
	if (imm)
		memcpy(tx.bth + op->imm_off, &wqe->imm, URXE_IMM_LEN);
	urxe_tx_headers(&tx, op->hdr_len);
	if (wqe->flags & URXE_WQE_INLINE)
		urxe_tx_append(&tx, wqe->data, len);
	else if (!urxe_sge_gather(qp->dev, qp->pd, wqe->sge, wqe->num_sge, 0, len, &tx)) {
		urxe_tx_abort(lane, &tx);
		return EFAULT;
	}
	if (pad)
		urxe_tx_append(&tx, NULL, pad);
	urxe_trace_packet_tx(qp, &tx);
	urxe_tx_commit(lane, &tx);
	sent->packets++;
	qp->req.psn = urxe_psn_add(qp->req.psn, 1);
	return 0;
}

struct urxe_sent urxe_ud_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now)
{
	struct urxe_sq *sq = &qp->sq;
	struct urxe_sent sent = {0};

	while (qp->state == IBV_QPS_RTS && sq->cur != sq->post) {
		struct urxe_swqe *wqe = urxe_sq_at(sq, sq->cur);
		int err;

		if (urxe_pace_wait(qp, 0, now))
			break;
		err = ud_send(qp, lane, wqe, &sent);
		/* A neighbour is asked for when the link is up. MADs come again. */
		if (err == EINPROGRESS && !qp->gsi && urxe_port_awaits_carrier(qp->dev->port)) {
			sent.more = true;
			break;
		}
		/* A neighbour that does not answer holds up the others for a moment only. */
		if (err == EINPROGRESS) {
			if (qp->req.deadline == URXE_NEVER) {
				qp->req.deadline =
					now + (qp->gsi ? URXE_GSI_PATIENCE : URXE_UD_PATIENCE);
				urxe_progress_timer(qp, qp->req.deadline);
			}
			if (now < qp->req.deadline) {
				sent.more = true;
				break;
			}
			urxe_stat_inc(qp->dev, URXE_STAT_TX_UNREACHABLE);
			err = 0;
		}
		if (err == EAGAIN) {
			sent.more = true;
			break;
		}
		urxe_pace_sent(qp, 0, now, wqe->length + URXE_PACE_HEADERS);
		qp->req.deadline = URXE_NEVER;
		urxe_requester_complete(qp, err ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
		if (err)
			urxe_qp_sq_error(qp);
	}
	return sent;
}

void urxe_ud_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	struct urxe_responder *r = &qp->resp;
	int err;

	if (qp->state < IBV_QPS_RTR || qp->state == IBV_QPS_ERR) {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_BAD_STATE);
		return;
	}
	if (pkt->deth.qkey != qp->attr.qkey) {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_BAD_QKEY);
		return;
	}
	/* Without a buffer, or with one too short, a datagram is lost; the QP lives on. */
	err = urxe_responder_take_rwqe(qp, pkt->length + URXE_GRH_LEN);
	if (err == EMSGSIZE && !qp->told_too_long) {
		qp->told_too_long = true;
		urxe_warn(
			"%s: QP 0x%x loses datagrams: with its GRH of 40 bytes one of %u does not "
			"fit the receive at the head of the queue",
			qp->dev->cfg.name, qp->qpn, pkt->length);
	}
	if (err) {
		urxe_qp_drop(qp, pkt->psn,
			     err == ENOENT ? URXE_STAT_RX_UD_NO_RECV : URXE_STAT_RX_UD_TOO_LONG);
		return;
	}
	if (!urxe_sge_scatter(qp->dev, r->recv_pd, r->rwqe->sge, r->rwqe->num_sge, 0, pkt->grh,
			      URXE_GRH_LEN) ||
	    (pkt->length && !urxe_sge_scatter(qp->dev, r->recv_pd, r->rwqe->sge, r->rwqe->num_sge,
					      URXE_GRH_LEN, pkt->payload, pkt->length))) {
		urxe_responder_finish_recv(qp, IBV_WC_LOC_PROT_ERR, NULL, 0);
		urxe_qp_fatal(qp, IBV_EVENT_QP_FATAL);
		return;
	}
	urxe_responder_finish_recv(qp, IBV_WC_SUCCESS, pkt, pkt->length + URXE_GRH_LEN);
}
