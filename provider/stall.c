/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requests that are carried out elsewhere, and what waits behind them (stall.h). */
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "responder.h"
#include "stall.h"
#include "urxe/free.h"

#define HELD_MAX 256 /* packets; more than that nobody has out without an answer */

struct urxe_held {
	struct urxe_held *next;
	struct urxe_decoded pkt;
	uint8_t payload[]; /* the frame's is gone by then */
};

void urxe_stall_begin(struct urxe_qp *qp, struct urxe_stall *s, const struct urxe_stall_ops *ops)
{
	*s = (struct urxe_stall){.ops = ops, .last = &s->first};
	qp->resp.stall = s;
	qp->answers = true;
}

static void hold(struct urxe_qp *qp, struct urxe_stall *s, const struct urxe_decoded *pkt)
{
	struct urxe_held *h = s->held < HELD_MAX ? malloc(sizeof(*h) + pkt->length) : NULL;

	if (!h) {
		urxe_stat_inc(qp->dev, URXE_STAT_RX_NO_MEMORY); /* lost: it comes again */
		return;
	}
	h->next = NULL;
	urxe_decoded_copy(&h->pkt, pkt, h->payload);
	*s->last = h;
	s->last = &h->next;
	s->held++;
}

void urxe_stall_keep(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	struct urxe_stall *s = qp->resp.stall;

	if (pkt->psn != qp->resp.epsn) {
		hold(qp, s, pkt);
		return;
	}
	urxe_stat_inc(qp->dev, URXE_STAT_RX_DUPLICATE); /* it is being done */
	if (s->ops->again)
		s->ops->again(qp, s);
}

void urxe_stall_drop(struct urxe_stall *s)
{
	while (s->first) {
		struct urxe_held *h = s->first;

		s->first = h->next;
		urxe_free(h);
	}
}

void urxe_stall_end(struct urxe_qp *qp, struct urxe_stall *s, uint64_t now)
{
	/* Another one among them makes the rest wait again. */
	for (const struct urxe_held *h = s->first; h; h = h->next)
		urxe_responder_receive(qp, &h->pkt, now);
	urxe_stall_drop(s);
	if (qp->resp.gap)
		urxe_responder_settle(qp, now);
}

void urxe_stall_run(struct urxe_qp *qp, struct urxe_lane *lane, struct urxe_sent *sent)
{
	struct urxe_stall *s;

	while ((s = qp->resp.stall) && s->ops->run(qp, s, lane, sent))
		;
}

void urxe_stall_cancel(struct urxe_qp *qp)
{
	struct urxe_stall *s = qp->resp.stall;

	if (!s)
		return;
	qp->resp.stall = NULL;
	s->ops->cancel(qp, s);
}
