/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Unreliable connections (uc.c). The caller holds the lane and qp->lock, within an RCU read-side
 * section.
 */
#ifndef URXE_PROVIDER_UC_H
#define URXE_PROVIDER_UC_H

#include "decode.h"
#include "qp.h"

void urxe_uc_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock);

#endif
