/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When the requester sends again, and what of it congestion control learns (retry.c). The caller
 * holds the lane and qp->lock, within an RCU read-side section, unless a function says otherwise.
 */
#ifndef URXE_PROVIDER_RETRY_H
#define URXE_PROVIDER_RETRY_H

#include "qp.h"

/** urxe_peer_of - what is known of the peer at @gid; no lock. */
struct urxe_peer *urxe_peer_of(struct urxe_device *dev, const uint8_t gid[16]);
/** urxe_peer_heard - a packet has come from it. */
void urxe_peer_heard(struct urxe_peer *p, uint64_t now);
/** urxe_peer_quiet_ns - ns since then; UINT64_MAX: none has come. */
uint64_t urxe_peer_quiet_ns(const struct urxe_peer *p, uint64_t now);
/** urxe_rtt_sample - it took @rtt ns this time (RFC 6298). No lock. */
void urxe_rtt_sample(struct urxe_rtt *t, uint64_t rtt);
/** urxe_rtt_patience - how many ns it hardly ever takes: with four times its variance; 0: nothing
 * is known. No lock. */
uint64_t urxe_rtt_patience(const struct urxe_rtt *t);
/** urxe_requester_arm - (re)start or stop the retransmission timer after progress. */
void urxe_requester_arm(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock);
/** urxe_requester_timeout - the timer of the QP has come. */
void urxe_requester_timeout(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now)
	URXE_REQUIRES(qp->lock, lane);
/** urxe_requester_retry - once more? Takes a retry, or the other path with all of its own when none
 * is left; false: there is no other, and the QP is to fail. */
bool urxe_requester_retry(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_requester_check_peer - if the peer's process has died, there is nothing to wait for: the QP
 * fails with its oldest request. Also without a lane. */
void urxe_requester_check_peer(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_requester_measure - the packet at the cursor asks for an ACK: how long will it take? */
void urxe_requester_measure(struct urxe_requester *r, uint64_t now);
/** urxe_requester_progress - all before PSN @una is acknowledged, and more than before. */
void urxe_requester_progress(struct urxe_qp *qp, uint32_t una, uint64_t now)
	URXE_REQUIRES(qp->lock);
/**
 * urxe_requester_marked - there is congestion on the way of what the QP sent, or of what it asked
 * for; any state and type of QP
 */
void urxe_requester_marked(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock);
/** urxe_requester_lost - the peer misses a packet. */
void urxe_requester_lost(struct urxe_requester *r, uint64_t now);

#endif
