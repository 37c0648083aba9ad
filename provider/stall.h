/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A request that is carried out elsewhere, and takes a while: by the flusher (flush.c), or by
 * another process (lend.c). Until it is over its QP executes nothing that came behind it: that is
 * held, and executed afterwards. All other QPs go on. The caller holds qp->lock.
 */
#ifndef URXE_PROVIDER_STALL_H
#define URXE_PROVIDER_STALL_H

#include "decode.h"
#include "qp.h"

struct urxe_held;
struct urxe_stall;

struct urxe_stall_ops {
	/** run - send what is to be sent, and see whether it is over: true, and it is gone. */
	bool (*run)(struct urxe_qp *qp, struct urxe_stall *s, struct urxe_lane *lane,
		    struct urxe_sent *sent);
	/** again - the peer has sent the request again; may be NULL. */
	void (*again)(struct urxe_qp *qp, struct urxe_stall *s);
	/** cancel - the QP fails or goes; it does urxe_stall_drop(). */
	void (*cancel)(struct urxe_qp *qp, struct urxe_stall *s);
};

/** The beginning of what a stall is for. */
struct urxe_stall {
	const struct urxe_stall_ops *ops;
	struct urxe_held *first, **last; /* copies of requests behind it */
	unsigned held;
};

/** urxe_stall_begin - nothing more is executed, from now on. */
void urxe_stall_begin(struct urxe_qp *qp, struct urxe_stall *s, const struct urxe_stall_ops *ops)
	URXE_REQUIRES(qp->lock);
/** urxe_stall_keep - a request has come that is not executed now. */
void urxe_stall_keep(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock);
/** urxe_stall_end - its request is done with, and resp.stall is NULL: execute what was held. RCU
 * read-side. */
void urxe_stall_end(struct urxe_qp *qp, struct urxe_stall *s, uint64_t now) URXE_REQUIRES(qp->lock);
/** urxe_stall_drop - forget what was held; any lock. */
void urxe_stall_drop(struct urxe_stall *s);
/** urxe_stall_run - as far as that is possible now. RCU read-side. */
void urxe_stall_run(struct urxe_qp *qp, struct urxe_lane *lane, struct urxe_sent *sent)
	URXE_REQUIRES(qp->lock, lane);
/** urxe_stall_cancel - the QP fails or goes: nobody waits any more. */
void urxe_stall_cancel(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);

#endif
