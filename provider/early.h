/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Responses that come before others which are before them (early.c). The caller holds the lane and
 * qp->lock, within an RCU read-side section.
 */
#ifndef URXE_PROVIDER_EARLY_H
#define URXE_PROVIDER_EARLY_H

#include "decode.h"
#include "qp.h"

/**
 * urxe_early_receive - a response to a PSN behind the oldest that has none
 *
 * What a READ or an ATOMIC brings is put where it belongs, and noted. All else is dropped: it comes
 * again, and what is wrong with it is found then.
 */
void urxe_early_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(qp->lock);
/**
 * urxe_early_refuse - the peer has refused the request at PSN @psn for good, and what is to come
 * before that is missing
 * @status: with which the request fails when its turn comes
 *
 * False: that is known of another one, or there is no memory to note it.
 */
bool urxe_early_refuse(struct urxe_qp *qp, uint32_t psn, enum ibv_wc_status status)
	URXE_REQUIRES(qp->lock);
/** urxe_early_refused - is there such a request? The peer is in error, and answers nothing more. */
bool urxe_early_refused(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_early_passes - urxe_early_beyond() of a QP that has noted something. */
bool urxe_early_passes(const struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock);
/** urxe_early_beyond - is PSN @psn that of such a request, or behind it? */
static inline bool urxe_early_beyond(const struct urxe_qp *qp, uint32_t psn) URXE_REQUIRES(qp->lock)
{
	return __builtin_expect(qp->req.nearly, 0) && urxe_early_passes(qp, psn);
}
/** urxe_early_status - with which @oldest fails now, for it is that; SUCCESS: it is not. While
 * something is noted. */
enum ibv_wc_status urxe_early_status(const struct urxe_qp *qp, const struct urxe_swqe *oldest)
	URXE_REQUIRES(qp->lock);
/** urxe_early_take - did the response to the oldest PSN come early? Then it is noted no more. */
bool urxe_early_take(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_early_missing - how many PSNs from the oldest on are to be asked for: of one request. */
uint32_t urxe_early_missing(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_early_first - the first from @psn to @last, behind the oldest, whose response has not come;
 * one more than @last: all have. */
uint32_t urxe_early_first(const struct urxe_qp *qp, uint32_t psn, uint32_t last)
	URXE_REQUIRES(qp->lock);
/** urxe_early_holes - all before @una are closed; are there others? To be called while there are.
 */
bool urxe_early_holes(struct urxe_qp *qp, uint32_t una) URXE_REQUIRES(qp->lock);
/** urxe_early_asked - was the oldest PSN asked for again? */
bool urxe_early_asked(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_early_waits - and nothing that was asked for, or sent, later has been answered before it?
 */
bool urxe_early_waits(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_early_passed - behind the oldest, *@n PSNs of one request from *@psn on are missing, have
 * been overtaken, and were not asked for again. False: there are no more of these. */
bool urxe_early_passed(const struct urxe_qp *qp, uint32_t *psn, uint32_t *n)
	URXE_REQUIRES(qp->lock);
/**
 * urxe_early_late - the response to a PSN has come
 *
 * If that alone was asked for again, and this is a part of more, it is what was sent at first: it
 * was late, and what is missing from now on is waited for longer.
 */
void urxe_early_late(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock);
/** urxe_early_ask - @n PSNs from @psn on are asked for again now. Were they before? */
bool urxe_early_ask(struct urxe_qp *qp, uint32_t psn, uint32_t n) URXE_REQUIRES(qp->lock);
/** urxe_early_forget - nothing is noted any more. */
void urxe_early_forget(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);

#endif
