/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * FLUSHes to persistence, carried out away from the lane (flush.c). The caller holds qp->lock, but
 * for urxe_flush_init(), urxe_flush_fini(), urxe_flusher_start() and urxe_flush_run().
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
/**
 * urxe_flusher_start - start the device's flusher, once
 *
 * A region is about to allow FLUSHes to persistence: there are none without. 0, or errno as
 * pthread_create(). Any thread, no lock held.
 */
int urxe_flusher_start(struct urxe_device *dev) URXE_EXCLUDES(dev->flusher.lock);
/** urxe_flush_start - have a range made persistent; resp.stall is set then. 0 or ENOMEM. */
int urxe_flush_start(struct urxe_qp *qp, uint8_t *addr, uint64_t length) URXE_REQUIRES(qp->lock);

#endif
