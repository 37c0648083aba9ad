/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Raw packet QPs (raw.c).
 */
#ifndef URXE_PROVIDER_RAW_H
#define URXE_PROVIDER_RAW_H

#include "qp.h"

/** urxe_raw_check_permission - may we see and send whole frames? 0 or EPERM (CAP_NET_RAW). */
int urxe_raw_check_permission(void);
/** urxe_raw_run - send what frames may be sent; qp->lock and the lane held, RCU read-side. */
struct urxe_sent urxe_raw_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now)
	URXE_REQUIRES(qp->lock, lane);
/** urxe_raw_receive - a frame for a raw packet QP; qp->lock held, RCU read-side. */
void urxe_raw_receive(struct urxe_qp *qp, const uint8_t *frame, uint32_t len)
	URXE_REQUIRES(qp->lock);

#endif
