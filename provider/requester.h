/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The requester: send WQEs become request packets (requester.c). The caller holds the lane and
 * qp->lock, within an RCU read-side section.
 */
#ifndef URXE_PROVIDER_REQUESTER_H
#define URXE_PROVIDER_REQUESTER_H

#include "qp.h"

/** urxe_requester_run - a connected QP sends what requests it may. */
struct urxe_sent urxe_requester_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now)
	URXE_REQUIRES(qp->lock, lane);
/** urxe_requester_find - the WQE that has PSN @psn and is not complete, or NULL. */
struct urxe_swqe *urxe_requester_find(const struct urxe_qp *qp, uint32_t psn)
	URXE_REQUIRES(qp->lock);
/** urxe_requester_span - how many PSNs the request at PSN @psn takes, from there on. */
uint32_t urxe_requester_span(const struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_requester_first - the PSN of the request that PSN @psn is of: of a READ each of its
 * response packets has one. */
uint32_t urxe_requester_first(const struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_requester_go_back - begin again at a PSN that was sent before. */
void urxe_requester_go_back(struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_requester_complete - complete the oldest WQE. */
void urxe_requester_complete(struct urxe_qp *qp, enum ibv_wc_status status) URXE_REQUIRES(qp->lock);
/** urxe_requester_wc_opcode - of a send WR. */
enum ibv_wc_opcode urxe_requester_wc_opcode(uint8_t wr_opcode);
/** urxe_requester_answered - is it an operation with a response of its own, not just an ACK? Such
 * a one takes a responder resource. */
static inline bool urxe_requester_answered(const struct urxe_swqe *wqe)
{
	const uint32_t answered = 1u << IBV_WR_RDMA_READ | 1u << IBV_WR_ATOMIC_CMP_AND_SWP |
				  1u << IBV_WR_ATOMIC_FETCH_AND_ADD | 1u << IBV_WR_ATOMIC_WRITE |
				  1u << URXEDV_WR_FLUSH;

	return answered >> wqe->opcode & 1;
}

#endif
