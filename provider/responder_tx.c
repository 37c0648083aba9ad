/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the responder sends: READ responses and ATOMIC acknowledgements in the order of their
 * requests, then the one ACK or NAK that covers the rest (IBTA 9.7.5.1). One ACK answers all
 * that came in a burst.
 */
#include <errno.h>

#include "provider.h"
#include "apm.h"
#include "keep.h"
#include "lend.h"
#include "responder.h"
#include "stall.h"
#include "trace.h"
#include "xrc.h"

#define READ_BURST    64   /* response packets in one turn: others want the lane too */
#define ACK_VAIN      1	   /* after 1, 2, 3 in vain 0, 2, 6 do not wait, and so on, */
#define ACK_VAIN_MOST 3000 /* till the count is above that */

static int begin(struct urxe_qp *qp, struct urxe_lane *lane, uint8_t operation, uint32_t psn,
		 uint32_t payload, struct urxe_tx *tx) URXE_REQUIRES(qp->lock, lane)
{
	uint8_t opcode = urxe_qp_service(qp) | operation;
	const struct urxe_opcode_info *op = &urxe_opcode_table[opcode];
	struct urxe_bth bth = {
		.opcode = opcode,
		.migreq = urxe_apm_migreq(qp),
		.pad = (4 - (payload & 3)) & 3,
		.pkey = URXE_DEFAULT_PKEY,
		.dqpn = qp->dqpn,
		.psn = psn,
	};
	int err = urxe_tx_begin(lane, qp->path, bth.dqpn, tx, op->hdr_len + ((payload + 3) & ~3u));

	if (!err)
		urxe_bth_put(tx->bth, &bth);
	return err;
}

/* 0: sent, or beyond reach, which the peer's timer will see to. */
static int outcome(struct urxe_qp *qp, int err)
{
	if (err == EAGAIN || err == EINPROGRESS)
		return EAGAIN;
	if (err)
		urxe_stat_inc(qp->dev, URXE_STAT_TX_UNREACHABLE);
	return 0;
}

static int send_ack(struct urxe_qp *qp, struct urxe_lane *lane, uint8_t syndrome, uint32_t psn,
		    struct urxe_sent *sent) URXE_REQUIRES(lane, qp->lock)
{
	struct urxe_tx tx;
	int err = begin(qp, lane, URXE_OP_ACKNOWLEDGE, psn, 0, &tx);

	if (err)
		return outcome(qp, err);
	urxe_aeth_put(tx.bth + URXE_BTH_LEN, syndrome, qp->resp.msn);
	urxe_tx_headers(&tx, URXE_BTH_LEN + URXE_AETH_LEN);
	urxe_trace_packet_tx(qp, &tx);
	urxe_tx_commit(lane, &tx);
	sent->packets++;
	return 0;
}

static int send_atomic_ack(struct urxe_qp *qp, struct urxe_lane *lane, struct urxe_resource *res,
			   struct urxe_sent *sent) URXE_REQUIRES(qp->lock, lane)
{
	const uint8_t opcode = urxe_qp_service(qp) | URXE_OP_ATOMIC_ACKNOWLEDGE;
	const struct urxe_opcode_info *op = &urxe_opcode_table[opcode];
	struct urxe_tx tx;
	int err = begin(qp, lane, URXE_OP_ATOMIC_ACKNOWLEDGE, res->psn, 0, &tx);

	if (err)
		return outcome(qp, err);
	urxe_aeth_put(tx.bth + op->aeth_off, URXE_AETH_ACK | URXE_AETH_CREDIT_INVALID, res->msn);
	urxe_put64(tx.bth + op->atomic_ack_off, res->value);
	urxe_tx_headers(&tx, op->hdr_len);
	urxe_trace_packet_tx(qp, &tx);
	urxe_tx_commit(lane, &tx);
	sent->packets++;
	return 0;
}

/* One response packet at res->cur. EFAULT: the region has gone, or lost a right or its memory,
 * meanwhile. */
static int send_read_packet(struct urxe_qp *qp, struct urxe_lane *lane, struct urxe_resource *res,
			    bool first, struct urxe_sent *sent) URXE_REQUIRES(qp->lock, lane)
{
	uint32_t at = ((res->cur - res->psn) & URXE_PSN_MASK) << qp->mtu_shift;
	uint32_t left = res->stop - at, payload = left < qp->mtu ? left : qp->mtu;
	bool last = left <= qp->mtu;
	uint8_t operation =
		first ? (last ? URXE_OP_READ_RESPONSE_ONLY : URXE_OP_READ_RESPONSE_FIRST)
		      : (last ? URXE_OP_READ_RESPONSE_LAST : URXE_OP_READ_RESPONSE_MIDDLE);
	const struct urxe_opcode_info *op = &urxe_opcode_table[urxe_qp_service(qp) | operation];
	const uint8_t *src = NULL;
	struct urxe_tx tx;
	int err;

	if (payload) {
		/* A PD that has gone with its SRQ is no PD. */
		if (res->srqn && !urxe_xrc_srq(qp, res->srqn))
			return EFAULT;
		src = urxe_mr_remote(qp, res->pd, res->rkey, res->va + at, payload,
				     IBV_ACCESS_REMOTE_READ);
		if (!src)
			return EFAULT;
	}
	err = begin(qp, lane, operation, res->cur, payload, &tx);
	if (err)
		return outcome(qp, err);
	if (op->aeth_off)
		urxe_aeth_put(tx.bth + op->aeth_off, URXE_AETH_ACK | URXE_AETH_CREDIT_INVALID,
			      res->msn);
	urxe_tx_headers(&tx, op->hdr_len);
	if (payload && urxe_tx_append(&tx, src, payload)) {
		urxe_rkey_gone(qp, res->rkey, res->va + at, payload, IBV_ACCESS_REMOTE_READ);
		urxe_tx_abort(lane, &tx);
		return EFAULT;
	}
	if (payload & 3)
		urxe_tx_append(&tx, NULL, 4 - (payload & 3));
	urxe_trace_packet_tx(qp, &tx);
	urxe_tx_commit(lane, &tx);
	sent->packets++;
	return 0;
}

static int send_read(struct urxe_qp *qp, struct urxe_lane *lane, struct urxe_resource *res,
		     unsigned *budget, struct urxe_sent *sent) URXE_REQUIRES(lane, qp->lock)
{
	while (((res->cur - res->psn) & URXE_PSN_MASK) < res->end) {
		int err;

		if (!*budget)
			return EAGAIN;
		err = send_read_packet(qp, lane, res, res->first, sent);
		if (err)
			return err;
		res->first = false;
		--*budget;
		res->cur = urxe_psn_add(res->cur, 1);
	}
	return 0;
}

/* Oldest first; returns 0 when all are out. */
static int send_resources(struct urxe_qp *qp, struct urxe_lane *lane, unsigned *budget,
			  struct urxe_sent *sent) URXE_REQUIRES(qp->lock, lane)
{
	struct urxe_responder *r = &qp->resp;

	for (uint32_t i = 0; r->res_pending && i < r->res_size; i++) {
		struct urxe_resource *res = &r->res[(r->res_head + i) % r->res_size];
		int err;

		if (!res->pending)
			continue;
		/* ATOMIC WRITE and FLUSH are answered as READs of nothing (IBTA A19). */
		err = res->kind == URXE_RES_ATOMIC ? send_atomic_ack(qp, lane, res, sent)
						   : send_read(qp, lane, res, budget, sent);
		if (err == EFAULT && res->sent) {
			/* A copy that was late: nobody waits for what a region that is gone held.
			 */
			res->pending = false;
			r->res_pending--;
			continue;
		}
		if (err == EFAULT) {
			/* The rest of it cannot be had: this PSN is where the peer's READ ends. */
			r->res_pending = 0;
			urxe_responder_fatal(qp, URXE_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR);
			r->nak_psn = res->cur;
			return 0;
		}
		if (err)
			return err;
		if (res->rest_end) {
			res->cur = res->rest;
			res->end = res->rest_end;
			res->stop = res->rest_stop;
			res->rest_end = 0;
			res->first = true;
			i--;
			continue;
		}
		res->pending = false;
		res->sent = true;
		r->res_pending--;
	}
	return 0;
}

/* quirks.md: ack-in-resend */
static uint32_t ack_psn(const struct urxe_responder *r)
{
	return r->ack_due == URXE_ACK_DUPLICATES ? r->dup_psn
						 : urxe_psn_add(r->epsn, URXE_PSN_MASK);
}

static void nak_sent(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;

	r->nak_due = false;
	r->ack_due = URXE_ACK_NONE;
	qp->ack_waits = false;
	if (r->nak_syndrome == (URXE_AETH_NAK | URXE_NAK_PSN_SEQ))
		urxe_stat_inc(qp->dev, URXE_STAT_TX_NAK_SEQ);
	if (r->state == URXE_RESP_FATAL)
		urxe_qp_fatal(qp, (enum ibv_event_type)r->fatal_status);
}

void urxe_responder_waited_in_vain(struct urxe_qp *qp)
{
	if (qp->ack_vain < ACK_VAIN_MOST)
		qp->ack_vain = (uint16_t)(2 * qp->ack_vain + ACK_VAIN);
	qp->ack_skips = qp->ack_vain - 1;
}

/*
 * If it has waited, was something posted meanwhile? Two that exchange messages, and post the next
 * when the last is acknowledged, would wait for each other. Once may be by chance: who was to post
 * was put aside.
 */
static void ack_sent(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	qp->resp.ack_due = URXE_ACK_NONE;
	if (!qp->ack_waits)
		return;
	qp->ack_waits = false;
	if (!qp->got)
		qp->ack_vain = 0;
	else if (qp->sq.done != qp->sq.post)
		urxe_responder_waited_in_vain(qp);
}

static struct urxe_sent answer(struct urxe_qp *qp, struct urxe_lane *lane)
	URXE_REQUIRES(qp->lock, lane)
{
	struct urxe_responder *r = &qp->resp;
	unsigned budget = READ_BURST;
	struct urxe_sent sent = {0};

	if (r->gives_back)
		urxe_keep_give_back(qp, lane);
	if (qp->state < IBV_QPS_RTR || qp->state > IBV_QPS_SQD)
		return sent;
	if (r->stall)
		urxe_stall_run(qp, lane, &sent);
	if (r->res_pending && send_resources(qp, lane, &budget, &sent)) {
		sent.more = true;
	} else if (r->nak_due) {
		sent.more = send_ack(qp, lane, r->nak_syndrome, r->nak_psn, &sent);
		if (!sent.more)
			nak_sent(qp);
	} else if (r->ack_due) {
		sent.more = send_ack(qp, lane, URXE_AETH_ACK | URXE_AETH_CREDIT_INVALID, ack_psn(r),
				     &sent);
		if (!sent.more)
			ack_sent(qp);
	}
	qp->answers = urxe_responder_due(qp);
	return sent;
}

struct urxe_sent urxe_responder_run(struct urxe_qp *qp, struct urxe_lane *lane)
{
	struct urxe_sent sent = answer(qp, lane), more;

	while (qp->resp.backlog) {
		urxe_lane_flush(lane);
		urxe_responder_settle(qp, urxe_port_now(qp->dev->port));
		more = answer(qp, lane);
		sent.packets += more.packets;
		sent.more = more.more;
	}
	return sent;
}

/* Was the newest request a SEND or WRITE, which an ACK answers, and is it executed in full? */
static bool acks_last(const struct urxe_responder *r)
{
	const struct urxe_resource *newest;

	if (!r->msn || r->state != URXE_RESP_EXPECT_FIRST)
		return false;
	if (!r->res || !r->res_size)
		return true;
	newest = &r->res[(r->res_head + r->res_size - 1) % r->res_size];
	return newest->kind == URXE_RES_NONE || urxe_psn_add(newest->psn, newest->npsn) != r->epsn;
}

static bool leaves_ack(const struct urxe_qp *qp)
{
	return (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_RECV) &&
	       qp->state >= IBV_QPS_RTR && qp->state <= IBV_QPS_SQD && acks_last(&qp->resp);
}

bool urxe_responder_leaves(const struct urxe_qp *qp)
{
	return qp->resp.lent || leaves_ack(qp);
}

struct urxe_sent urxe_responder_leave(struct urxe_qp *qp, struct urxe_lane *lane)
{
	struct urxe_sent sent = urxe_responder_run(qp, lane), last;

	urxe_lend_leave(qp, lane, &sent);
	if (sent.more || !leaves_ack(qp))
		return sent;
	qp->resp.ack_due = URXE_ACK_REQUESTS;
	qp->answers = true;
	last = urxe_responder_run(qp, lane);
	last.packets += sent.packets;
	return last;
}
