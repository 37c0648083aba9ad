/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder: receives requests (responder.c), keeps those behind a gap (responder_gap.c),
 * executes READs and ATOMICs (responder_read.c), sends responses (responder_tx.c). The caller holds
 * the lane and qp->lock, within an RCU read-side section.
 */
#ifndef URXE_PROVIDER_RESPONDER_H
#define URXE_PROVIDER_RESPONDER_H

#include "decode.h"
#include "qp.h"

void urxe_responder_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(qp->lock);
/** urxe_responder_early - a request whose turn has not come. */
void urxe_responder_early(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(qp->lock);
/** urxe_responder_came - the expected packet has come, which was waited for after a NAK. */
void urxe_responder_came(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock);
/** urxe_responder_timeout - the timer of the QP has come: is there a gap to tell of, or once more?
 */
void urxe_responder_timeout(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock);
/**
 * urxe_responder_settle - execute what was kept and is due now, and look at what is missing
 *
 * Of very much a part: urxe_responder_run() answers that, and goes on.
 */
void urxe_responder_settle(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock);
/** urxe_responder_forget - nothing that came early is waited for any more. */
void urxe_responder_forget(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_responder_run - send responses that are due. */
struct urxe_sent urxe_responder_run(struct urxe_qp *qp, struct urxe_lane *lane)
	URXE_REQUIRES(qp->lock, lane);
/** urxe_responder_leaves - has a QP that goes more to send than what is due? */
bool urxe_responder_leaves(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/**
 * urxe_responder_leave - the QP goes: send what is due, and the last ACK once more
 *
 * If that is lost the peer asks again, and is answered by nobody (quirks.md: retry-7).
 */
struct urxe_sent urxe_responder_leave(struct urxe_qp *qp, struct urxe_lane *lane)
	URXE_REQUIRES(qp->lock, lane);
/** urxe_responder_waited_in_vain - nothing was posted in time that an ACK has waited for: the next
 * ones do not wait, more of them each time that this happens in a row. */
void urxe_responder_waited_in_vain(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_responder_urgent - is there more to send than a plain ACK, which may wait a turn? */
static inline bool urxe_responder_urgent(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	return qp->answers && (qp->resp.res_pending || qp->resp.nak_due || qp->resp.backlog ||
			       qp->resp.gives_back);
}
/** urxe_responder_acks - is an ACK due? */
static inline bool urxe_responder_acks(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	return qp->answers && qp->resp.ack_due;
}
/** urxe_responder_due - has urxe_responder_run() anything to do? */
static inline bool urxe_responder_due(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	return qp->answers && (qp->resp.res_pending || qp->resp.nak_due || qp->resp.ack_due ||
			       qp->resp.stall || qp->resp.backlog || qp->resp.gives_back);
}
/** urxe_responder_nak - a NAK is due at the expected PSN. */
void urxe_responder_nak(struct urxe_qp *qp, uint8_t syndrome) URXE_REQUIRES(qp->lock);
/** urxe_responder_fatal - a NAK that ends the QP; @status for the receive WQE in use, if any. */
void urxe_responder_fatal(struct urxe_qp *qp, enum urxe_nak_code code, enum ibv_wc_status status)
	URXE_REQUIRES(qp->lock);
/** urxe_responder_execute - a request of the expected PSN. */
void urxe_responder_execute(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock);
/** urxe_responder_lent - it was executed by another process, which says so by @syndrome. */
void urxe_responder_lent(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint8_t syndrome)
	URXE_REQUIRES(qp->lock);
/** urxe_responder_execute_read - a READ, ATOMIC, ... of the expected PSN (responder_read.c). */
void urxe_responder_execute_read(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock);
/** urxe_responder_duplicate_read - a READ, ATOMIC, ... that was executed before. */
void urxe_responder_duplicate_read(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock);
/**
 * urxe_responder_take_rwqe - have resp.rwqe be the next receive WQE, in use from now on
 * @min_length: leave it alone if it holds fewer bytes
 * Returns 0, ENOENT when there is none, EMSGSIZE when the next is too short.
 */
int urxe_responder_take_rwqe(struct urxe_qp *qp, uint32_t min_length) URXE_REQUIRES(qp->lock);
/**
 * urxe_responder_write - put a packet of a WRITE where that stands, and have it stand behind
 *
 * False, and it stands where it stood, when its R_Key does not allow it (any more), or memory has
 * gone.
 */
bool urxe_responder_write(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock);
/** urxe_responder_push - the completion of a receive, to where it belongs. RCU read-side. */
void urxe_responder_push(struct urxe_qp *qp, const struct ibv_wc *wc, bool solicited)
	URXE_REQUIRES(qp->lock);
/** urxe_responder_end_recv - the receive WQE in use is done with: its wr_id. No completion. */
uint64_t urxe_responder_end_recv(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_responder_finish_recv - complete the receive WQE in use; @len bytes came. */
void urxe_responder_finish_recv(struct urxe_qp *qp, enum ibv_wc_status status,
				const struct urxe_decoded *pkt, uint32_t len)
	URXE_REQUIRES(qp->lock);
/** urxe_responder_flushed - the FLUSH of the expected PSN was carried out; did it succeed? */
void urxe_responder_flushed(struct urxe_qp *qp, bool good) URXE_REQUIRES(qp->lock);

#endif
