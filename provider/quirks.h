/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What peers do against the standard (quirks.md, quirks.c). The caller holds the lane and qp->lock,
 * within an RCU read-side section.
 */
#ifndef URXE_PROVIDER_QUIRKS_H
#define URXE_PROVIDER_QUIRKS_H

#include "decode.h"
#include "qp.h"

/** urxe_quirk_flush_silent - the ACK time-out has come: is it a FLUSH's form that is at fault? */
void urxe_quirk_flush_silent(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_quirk_flush_answered - the FLUSH at @psn was answered. */
void urxe_quirk_flush_answered(struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_quirk_flush_received - one came from the peer, in its form. */
void urxe_quirk_flush_received(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock);

#endif
