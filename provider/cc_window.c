/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Like TCP's congestion window (RFC 5681), in packets. RoCE expects a lossless network; a veth or a
 * busy switch is none, and several QPs that send all they may would only overrun it again.
 */
#include "caps.h"
#include "cc.h"

#define WINDOW_ROUND 128 /* packets of which losses are counted, at least */
#define WINDOW_LOSSY 128 /* packets: a loss makes no smaller one smaller */

static void window_start(struct urxe_cc *cc)
{
	cc->window.cwnd = URXE_WINDOW_START;
	cc->window.ssthresh = URXE_WINDOW;
}

/* Of a small window chance takes an eighth now and then, and that would keep it small. */
static uint32_t round_of(const struct urxe_cc_window *w)
{
	return w->cwnd > WINDOW_ROUND ? w->cwnd : WINDOW_ROUND;
}

static void window_acked(struct urxe_cc *cc, uint32_t packets, uint64_t now)
{
	struct urxe_cc_window *w = &cc->window;

	(void)now;
	w->heeded -= packets < w->heeded ? packets : w->heeded;
	w->round += packets;
	if (w->round >= round_of(w))
		w->round = w->missed = 0;
	if (w->cwnd >= URXE_WINDOW)
		return;
	if (w->cwnd < w->ssthresh) {
		w->cwnd += packets;
	} else {
		w->grown += packets;
		if (w->grown >= w->cwnd) {
			w->grown = 0;
			w->cwnd++;
		}
	}
	if (w->cwnd > URXE_WINDOW)
		w->cwnd = URXE_WINDOW;
}

static void window_lost(struct urxe_cc *cc, uint64_t now)
{
	struct urxe_cc_window *w = &cc->window;

	(void)now;
	w->ssthresh = w->cwnd / 2 > URXE_WINDOW_MIN ? w->cwnd / 2 : URXE_WINDOW_MIN;
	w->cwnd = w->ssthresh;
	w->grown = 0;
}

/*
 * A link loses packets now and then, and a smaller window would lose as many. But what is sent
 * again waits behind all that is out, and the peer keeps all that follows the gap, in memory that
 * no cache holds any more: beyond what most ways hold the half goes. (Responses to READs are not
 * kept: where each belongs is known.) An eighth of what is out, or
 * more, has met a queue that is full.
 */
static void window_missing(struct urxe_cc *cc, uint32_t packets, bool kept, uint64_t now)
{
	struct urxe_cc_window *w = &cc->window;

	w->missed += packets;
	if (w->missed <= round_of(w) / 8) {
		if (!kept || w->cwnd <= WINDOW_LOSSY)
			return;
		w->cwnd -= (w->cwnd - WINDOW_LOSSY + 1) / 2;
		w->ssthresh = w->cwnd;
		w->grown = 0;
		return;
	}
	window_lost(cc, now);
	w->round = w->missed = 0;
}

/* As a loss, once for all that was under way together (RFC 3168 6.1.2). */
static void window_marked(struct urxe_cc *cc, uint32_t out, uint64_t now)
{
	if (cc->window.heeded)
		return;
	window_lost(cc, now);
	cc->window.heeded = out;
}

static void window_timeout(struct urxe_cc *cc, bool again, uint64_t now)
{
	struct urxe_cc_window *w = &cc->window;

	if (!again) {
		w->saved_cwnd = w->cwnd;
		w->saved_ssthresh = w->ssthresh;
		window_lost(cc, now);
	}
	w->cwnd = URXE_WINDOW_MIN;
}

static void window_undo(struct urxe_cc *cc)
{
	cc->window.cwnd = cc->window.saved_cwnd;
	cc->window.ssthresh = cc->window.saved_ssthresh;
}

static struct urxe_cc_allowed window_allowed(const struct urxe_cc *cc)
{
	return (struct urxe_cc_allowed){.packets = cc->window.cwnd};
}

const struct urxe_cc_ops urxe_cc_window_ops = {
	.name = "window",
	.start = window_start,
	.acked = window_acked,
	.missing = window_missing,
	.lost = window_lost,
	.marked = window_marked,
	.timeout = window_timeout,
	.undo = window_undo,
	.allowed = window_allowed,
};
