/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The provider's objects. Internal to this folder (and to its tests).
 *
 * Lock order: device->mutex -> lane -> qp->lock -> rq->lock -> cq->lock -> channel->lock; the whole
 * of it, and the threads, are in threads.md. Post paths take qp->lock first and then only try the
 * lane.
 */
#ifndef URXE_PROVIDER_H
#define URXE_PROVIDER_H

#include "caps.h"   /* numbers */
#include "device.h" /* devices, contexts, counters, events */
#include "memory.h" /* PDs, keys, regions, windows, AHs, SGE lists */
#include "cq.h"	    /* completion queues and channels */
#include "qp.h"	    /* QPs, SRQs and their state */

#endif
