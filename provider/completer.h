/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The completer: receives responses and completes send WQEs (completer.c). The caller holds the
 * lane and qp->lock, within an RCU read-side section.
 */
#ifndef URXE_PROVIDER_COMPLETER_H
#define URXE_PROVIDER_COMPLETER_H

#include "decode.h"
#include "qp.h"

void urxe_completer_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(qp->lock);

#endif
