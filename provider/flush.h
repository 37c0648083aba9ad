/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * FLUSHes to persistence, carried out away from the lane (flush.c). The caller holds qp->lock, but
 * for urxe_flush_init(), urxe_flush_fini() and urxe_flush_run().
 */
#ifndef URXE_PROVIDER_FLUSH_H
#define URXE_PROVIDER_FLUSH_H

#include "decode.h"
#include "qp.h"

void urxe_flush_init(struct urxe_device *dev);
void urxe_flush_fini(struct urxe_device *dev);
/** urxe_flush_run - carry one out, of a device without threads; no lock held. False: there is none.
 */
bool urxe_flush_run(struct urxe_device *dev) URXE_EXCLUDES(dev->flusher.lock);
/** urxe_flush_start - have a range made persistent; resp.flush is set then. 0 or errno. */
int urxe_flush_start(struct urxe_qp *qp, uint8_t *addr, uint64_t length) URXE_REQUIRES(qp->lock);
/** urxe_flush_hold - keep a request for after the FLUSH. */
void urxe_flush_hold(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock);
/** urxe_flush_finish - if it is done, answer it, and execute what was kept. RCU read-side. */
bool urxe_flush_finish(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock);
/** urxe_flush_cancel - the QP fails or goes: nobody waits any more. */
void urxe_flush_cancel(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);

#endif
