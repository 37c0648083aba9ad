/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests that came before what is before them, kept until it has come (keep.c): in their frames,
 * where the link can do without these so long, or as copies. A device has a bounded number of both
 * for all its QPs.
 */
#ifndef URXE_PROVIDER_KEEP_H
#define URXE_PROVIDER_KEEP_H

#include "decode.h"
#include "qp.h"

/** A kept request; pkt.payload is in one of the two. */
struct urxe_kept {
	struct cds_list_head node;
	struct urxe_decoded pkt;
	void *held;    /* its frame (urxe_packet_hold()), or NULL */
	bool again;    /* it has come again since */
	uint8_t *copy; /* room for the largest payload; NULL: none was needed yet */
};

enum urxe_keep_result {
	URXE_KEEP_NEW,	 /* it is kept now, behind all others */
	URXE_KEEP_FILLS, /* it is kept now, among others */
	URXE_KEEP_AGAIN, /* it was there */
	URXE_KEEP_FULL,	 /* no room: it is lost */
};

void urxe_keep_init(struct urxe_device *dev);
/** urxe_keep_fini - free the buffers; no QP has one. */
void urxe_keep_fini(struct urxe_device *dev);
/** urxe_keep_add - keep @pkt, which is ahead of the expected PSN, and not too far. */
enum urxe_keep_result urxe_keep_add(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock);
/**
 * urxe_keep_take - the request of PSN @psn, or NULL; what was kept before that is forgotten
 *
 * To be given to urxe_keep_spend().
 */
struct urxe_kept *urxe_keep_take(struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_keep_spend - it is executed, and can be given back when there is a lane. */
void urxe_keep_spend(struct urxe_qp *qp, struct urxe_kept *k) URXE_REQUIRES(qp->lock);
/** urxe_keep_give_back - all that is executed, with its frames. */
void urxe_keep_give_back(struct urxe_qp *qp, struct urxe_lane *lane) URXE_REQUIRES(qp->lock, lane);
/** urxe_keep_is_newest - is that of PSN @psn kept, and nothing behind it? */
bool urxe_keep_is_newest(const struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_keep_pass - what was kept before PSN @psn is forgotten. */
void urxe_keep_pass(struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_keep_clear - forget all that a QP keeps. */
void urxe_keep_clear(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);

#endif
