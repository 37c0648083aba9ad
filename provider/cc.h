/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Congestion control: how much a connected QP may have on its way. The requester and its timers
 * tell an algorithm what becomes of packets, and ask it what may be sent; rate.c paces by the rate
 * that it names.
 *
 * An algorithm is a file cc_NAME.c with its struct urxe_cc_ops, its state in the union of struct
 * urxe_cc, and a row in urxe_cc_table. It sees no QP, so a test drives it alone. All calls for one
 * state come under the lock of its QP; times are ns of the port's clock.
 */
#ifndef URXE_PROVIDER_CC_H
#define URXE_PROVIDER_CC_H

#include <stdbool.h>
#include <stdint.h>

struct urxe_cc;

/** What may be sent. */
struct urxe_cc_allowed {
	uint32_t packets; /* that may be out and not acknowledged: at least 1 */
	uint32_t kbps;	  /* on the wire; 0: as fast as they go out */
};

/** An algorithm. PSNs are counted: a READ request is as many packets as it asks for. */
struct urxe_cc_ops {
	const char *name;
	/** enum urxe_ecn that its QPs send instead of that in their traffic class; 0: that one. */
	uint8_t ecn;
	/** start - a connection begins; the state is all zeros. */
	void (*start)(struct urxe_cc *cc);
	/** acked - @packets more are acknowledged, and were not when they were sent again. */
	void (*acked)(struct urxe_cc *cc, uint32_t packets, uint64_t now);
	/** missing - @packets are missing, which alone are sent again; @kept: requests, and the
	 * peer keeps what follows, else READs or responses. */
	void (*missing)(struct urxe_cc *cc, uint32_t packets, bool kept, uint64_t now);
	/** lost - a gap was reported: the QP goes back to it. */
	void (*lost)(struct urxe_cc *cc, uint64_t now);
	/**
	 * marked - the network says that a queue grows: by ECN, or a peer that saw ECN by a CNP
	 * @out: packets that are out, any of which may bear a mark
	 */
	void (*marked)(struct urxe_cc *cc, uint32_t out, uint64_t now);
	/**
	 * timeout - nothing is heard for long, and the QP begins anew at the oldest packet
	 * @again: as it was the last time, and nothing has come of that
	 */
	void (*timeout)(struct urxe_cc *cc, bool again, uint64_t now);
	/** undo - nothing was lost before the last timeout that was not "again": it was a delay. */
	void (*undo)(struct urxe_cc *cc);
	/** allowed - what may be sent now; it changes by the calls above alone. */
	struct urxe_cc_allowed (*allowed)(const struct urxe_cc *cc);
};

/** Of the window (cc_window.c), in packets. */
struct urxe_cc_window {
	uint32_t cwnd;	   /* that may be out: shrinks by loss, grows by progress */
	uint32_t ssthresh; /* below it cwnd grows quickly */
	uint32_t grown;	   /* acknowledged since cwnd last grew */
	uint32_t round;	   /* acknowledged of a window's worth */
	uint32_t missed;   /* and missing meanwhile */
	uint32_t heeded;   /* to be acknowledged before a mark is news */
	uint32_t saved_cwnd, saved_ssthresh; /* what they were before the time-out */
};

/** An algorithm at work for one QP. */
struct urxe_cc {
	const struct urxe_cc_ops *ops;
	union {
		struct urxe_cc_window window;
	};
};

enum urxe_cc_algorithm {
	URXE_CC_WINDOW,
	URXE_NUM_CC,
};

/** urxe_cc_table - all that there are. */
extern const struct urxe_cc_ops *const urxe_cc_table[URXE_NUM_CC];
/** urxe_cc_window_ops - a window like TCP's (RFC 5681). */
extern const struct urxe_cc_ops urxe_cc_window_ops;

/** urxe_cc_start - let @ops work for a connection that begins; @cc is all zeros. */
static inline void urxe_cc_start(struct urxe_cc *cc, const struct urxe_cc_ops *ops)
{
	cc->ops = ops;
	ops->start(cc);
}

/** urxe_cc_allowed - what may be sent now. */
static inline struct urxe_cc_allowed urxe_cc_allowed(const struct urxe_cc *cc)
{
	return cc->ops->allowed(cc);
}

#endif
