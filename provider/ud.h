/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Unreliable datagrams (ud.c). The caller holds the lane and qp->lock, within an RCU read-side
 * section.
 */
#ifndef URXE_PROVIDER_UD_H
#define URXE_PROVIDER_UD_H

#include "decode.h"
#include "qp.h"

/** urxe_ud_run - send what datagrams may be sent. */
struct urxe_sent urxe_ud_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now)
	URXE_REQUIRES(qp->lock, lane);
/** urxe_ud_receive - a datagram for the QP: into a receive WQE if there is one. */
void urxe_ud_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock);

#endif
