/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The tracepoints of the transport (urxe/trace.h, urxe-trace(7)). The QP's lock is held unless it
 * says otherwise. Those of each packet, work request and completion are inline up to the question
 * whether anybody wants to know.
 */
#ifndef URXE_PROVIDER_TRACE_H
#define URXE_PROVIDER_TRACE_H

#include "decode.h"
#include "qp.h"
#include "urxe/trace.h"

#define URXE_PROVIDER_POINTS(X)                                     \
	X(qp_create, qpn, type)                                     \
	X(qp_state, qpn, from, to)                                  \
	X(qp_destroy, qpn, state)                                   \
	X(post_send, qpn, wr_id, opcode, length)                    \
	X(post_recv, qpn, wr_id, num_sge)                           \
	X(completion, qpn, wr_id, status, status_name, opcode, len) \
	X(event, object, number, event, name)                       \
	X(packet_tx, qpn, dest_qpn, opcode, name, psn, length)      \
	X(packet_rx, qpn, opcode, name, psn, length)                \
	X(packet_drop, qpn, psn, reason)                            \
	X(go_back, qpn, psn, from, una)                             \
	X(resend, qpn, psn, count)                                  \
	X(probe, qpn, una, max_psn, silence)                        \
	X(timeout, qpn, una, max_psn, retries)                      \
	X(rtt, qpn, rtt, smoothed)                                  \
	X(nak_rx, qpn, psn, code, name, retries)                    \
	X(rnr_rx, qpn, psn, wait, retries)                          \
	X(nak_tx, qpn, psn, code, name, state)                      \
	X(rnr_tx, qpn, psn, timer)                                  \
	X(rkey_denied, qpn, rkey, addr, length, access)             \
	X(lkey_denied, lkey, addr, length, access)

URXE_PROVIDER_POINTS(URXE_TRACE_DECLARE)

/** urxe_trace_qp_create - it was made, in RESET. No lock is held. */
void urxe_trace_qp_create(const struct urxe_qp *qp);
/** urxe_trace_qp_state - it is about to leave its state for @to. */
void urxe_trace_qp_state(const struct urxe_qp *qp, enum ibv_qp_state to);
/** urxe_trace_qp_destroy - it is about to be destroyed. */
void urxe_trace_qp_destroy(const struct urxe_qp *qp);
/** urxe_trace_event - an asynchronous event of @object ("QP" ...) @number, 0 where it has none. Any
 * lock. */
void urxe_trace_event(const char *object, uint32_t number, enum ibv_event_type event);
/** urxe_trace_packet_drop - a packet is not taken, and counted as @why. @qpn: 0 of none; lane. */
void urxe_trace_packet_drop(uint32_t qpn, uint32_t psn, enum urxe_stat why);
/** urxe_trace_go_back - the requester is about to send from @psn on again. */
void urxe_trace_go_back(const struct urxe_qp *qp, uint32_t psn);
/** urxe_trace_resend - @count PSNs from @psn on are sent again, and what is behind them is not. */
void urxe_trace_resend(const struct urxe_qp *qp, uint32_t psn, uint32_t count);
/** urxe_trace_probe - nothing was heard of the peer for @silence ns. */
void urxe_trace_probe(const struct urxe_qp *qp, uint64_t silence);
/** urxe_trace_timeout - the ACK time-out; without retries left, the QP fails. */
void urxe_trace_timeout(const struct urxe_qp *qp);
/** urxe_trace_rtt - a round trip took @rtt ns. */
void urxe_trace_rtt(const struct urxe_qp *qp, uint64_t rtt);
/** urxe_trace_nak_rx - the peer refuses the request at @psn; @code: enum urxe_nak_code. */
void urxe_trace_nak_rx(const struct urxe_qp *qp, uint32_t psn, uint8_t code);
/** urxe_trace_rnr_rx - the peer has no receive WQE for @psn, and asks for @wait_us of patience. */
void urxe_trace_rnr_rx(const struct urxe_qp *qp, uint32_t psn, uint32_t wait_us);
/** urxe_trace_nak - a NAK or RNR NAK of this syndrome is due at the expected PSN: point nak_tx or
 * rnr_tx. */
void urxe_trace_nak(const struct urxe_qp *qp, uint8_t syndrome);
/** urxe_trace_rkey_denied - a remote access that @rkey does not allow. RCU read-side. */
void urxe_trace_rkey_denied(const struct urxe_qp *qp, uint32_t rkey, uint64_t addr, uint64_t length,
			    unsigned access);
/** urxe_trace_lkey_denied - an SGE whose @lkey does not allow it. RCU read-side. */
void urxe_trace_lkey_denied(uint32_t lkey, uint64_t addr, uint64_t length, unsigned access);

/** urxe_qp_drop - a packet is not taken: counted as @why, and traced. */
static inline void urxe_qp_drop(const struct urxe_qp *qp, uint32_t psn, enum urxe_stat why)
{
	urxe_stat_inc(qp->dev, why);
	urxe_trace_packet_drop(qp->qpn, psn, why);
}

/* ---- the busy ones: only for the functions below ---- */

void urxe_trace_fire_post_send(const struct urxe_qp *qp, const struct urxe_swqe *wqe);
void urxe_trace_fire_post_recv(uint32_t qpn, const struct ibv_recv_wr *wr);
void urxe_trace_fire_completion(const struct ibv_wc *wc);
void urxe_trace_fire_packet_tx(const struct urxe_qp *qp, const struct urxe_tx *tx);
void urxe_trace_fire_packet_rx(const struct urxe_decoded *pkt, uint32_t length);

/** urxe_trace_post_send - a send WQE is complete, and about to be queued. */
static inline void urxe_trace_post_send(const struct urxe_qp *qp, const struct urxe_swqe *wqe)
{
	if (URXE_TRACE_ON(post_send))
		urxe_trace_fire_post_send(qp, wqe);
}

/** urxe_trace_post_recv - a receive WQE was queued. @qpn: 0 of a shared queue; the queue's lock. */
static inline void urxe_trace_post_recv(uint32_t qpn, const struct ibv_recv_wr *wr)
{
	if (URXE_TRACE_ON(post_recv))
		urxe_trace_fire_post_recv(qpn, wr);
}

/** urxe_trace_completion - about to be put in its CQ. Any lock but the CQ's. */
static inline void urxe_trace_completion(const struct ibv_wc *wc)
{
	/* Why a QP failed is of interest earlier. */
	if (URXE_TRACE_ON(completion) || __builtin_expect(wc->status != IBV_WC_SUCCESS, 0))
		urxe_trace_fire_completion(wc);
}

/** urxe_trace_packet_tx - a packet is about to be committed; BTH is there. */
static inline void urxe_trace_packet_tx(const struct urxe_qp *qp, const struct urxe_tx *tx)
{
	if (URXE_TRACE_ON(packet_tx))
		urxe_trace_fire_packet_tx(qp, tx);
}

/** urxe_trace_packet_rx - a packet of @length bytes from BTH to pad came; of @pkt opcode,
 * destination and PSN are there. Lane; no QP's lock. */
static inline void urxe_trace_packet_rx(const struct urxe_decoded *pkt, uint32_t length)
{
	if (URXE_TRACE_ON(packet_rx))
		urxe_trace_fire_packet_rx(pkt, length);
}

#endif
