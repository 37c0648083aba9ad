/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * XRC requests whose SRQ is another process's (lend.c): our target QP puts them in order and
 * answers, the process with the SRQ executes them.
 */
#ifndef URXE_PROVIDER_LEND_H
#define URXE_PROVIDER_LEND_H

#include "decode.h"
#include "qp.h"

void urxe_lend_init(struct urxe_device *dev);
/** urxe_lend_fini - free what was made for QPs of others; nobody has a lane any more. */
void urxe_lend_fini(struct urxe_device *dev);
/**
 * urxe_lend - have the request of the expected PSN executed by the process with its SRQ
 *
 * True: it will be (resp.stall is set), or it is lost for want of memory, and comes again. False:
 * there is no such process, or it is none that can be lent.
 */
bool urxe_lend(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock);
/** urxe_lend_leave - the QP goes: who has a part of a message need not wait for the rest. */
void urxe_lend_leave(struct urxe_qp *qp, struct urxe_lane *lane, struct urxe_sent *sent)
	URXE_REQUIRES(qp->lock, lane);
/** urxe_lend_receive - a packet of another process about such a request. NONE, or why it was
 * dropped. RCU read-side. */
enum urxe_stat urxe_lend_receive(struct urxe_device *dev, struct urxe_lane *lane,
				 const struct urxe_decoded *pkt, uint64_t now) URXE_REQUIRES(lane);
/** urxe_lend_gone - the processes of these slots died: their QPs are no more, and what was lent to
 * them is refused. No lock held. */
void urxe_lend_gone(struct urxe_device *dev, const uint64_t slots[4]);

#endif
