/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A QP sends: its requests, and what it answers. For who receives, posts, or takes a turn; each of
 * them has this in its own code, as it is what a message takes.
 */
#ifndef URXE_PROVIDER_SERVE_H
#define URXE_PROVIDER_SERVE_H

#include "provider.h"
#include "raw.h"
#include "requester.h"
#include "responder.h"
#include "ud.h"
#include "wqe.h"

/** urxe_serve_requests - send what was posted to @qp, in RCU. */
static inline struct urxe_sent urxe_serve_requests(struct urxe_qp *qp, struct urxe_lane *lane,
						   uint64_t now) URXE_REQUIRES(lane, qp->lock)
{
	switch (qp->type) {
	case IBV_QPT_UD:
		return urxe_ud_run(qp, lane, now);
	case IBV_QPT_RAW_PACKET:
		return urxe_raw_run(qp, lane, now);
	default:
		return urxe_requester_run(qp, lane, now);
	}
}

/** urxe_serve_may_rest - is it one of many QPs, and has nothing under way? */
static inline bool urxe_serve_may_rest(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	const struct urxe_sq *sq = &qp->sq;

	return sq->done == sq->post && sq->ring.size && urxe_cq_crowded(qp->scq);
}

/**
 * urxe_serve_ack_waits - does an ACK wait for the rest of what was posted, of which some is sent?
 * Not in the midst of another message.
 */
static inline bool urxe_serve_ack_waits(const struct urxe_qp *qp, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	return qp->ack_waits && now < qp->ack_until && qp->resp.ack_due == URXE_ACK_REQUESTS &&
	       qp->resp.state == URXE_RESP_EXPECT_FIRST &&
	       !atomic_load_explicit(&qp->dev->finishing, memory_order_relaxed) &&
	       urxe_sq_at(&qp->sq, qp->sq.cur)->length <= URXE_ANSWERED_MOST;
}

/**
 * urxe_serve - let a QP send; qp->lock, lane and RCU held
 *
 * Requests go before responses: where an answer of the application's is on its way, the ACK comes
 * in the same burst, and the peer needs to look once for both. Of an answer that does not go out at
 * once the rest goes first, for a while: who polls for that ACK, and then watches memory for the
 * answer, receives all of it itself. @acks: a plain ACK, too, which may wait a turn. Says what it
 * has sent.
 */
static inline __attribute__((always_inline)) struct urxe_sent
urxe_serve(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now, bool acks)
	URXE_REQUIRES(lane, qp->lock)
{
	struct urxe_sent sent = {0}, answers;

	if (qp->destroyed)
		return sent;
	sent = urxe_serve_requests(qp, lane, now);
	if (acks && __builtin_expect(qp->sq.cur != qp->sq.post, 0) &&
	    urxe_serve_ack_waits(qp, now)) {
		acks = qp->resp.stall;
		sent.more = sent.waits = true;
	}
	if (acks ? urxe_responder_due(qp) : urxe_responder_urgent(qp)) {
		answers = urxe_responder_run(qp, lane);
		sent.packets += answers.packets;
		sent.more |= answers.more;
	}
	if (sent.packets)
		urxe_stat_add(qp->dev, URXE_STAT_TX_PACKETS, sent.packets);
	if (urxe_serve_may_rest(qp))
		urxe_wqe_rest(qp);
	return sent;
}

#endif
