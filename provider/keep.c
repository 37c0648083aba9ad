/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests behind a gap are kept, in the order of their PSNs: each in its frame, for that costs
 * nothing, as long as the link can do without it; then as copies. What was made once is used again,
 * by whichever QP; there are never more than URXE_KEEP_BUFFERS, nor has one QP more than
 * URXE_KEEP_PER_QP. What finds no room is lost, and comes again.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "keep.h"

#define PAYLOAD_MAX 4096u /* the largest path MTU */

void urxe_keep_init(struct urxe_device *dev)
{
	CDS_INIT_LIST_HEAD(&dev->keep.free);
}

void urxe_keep_fini(struct urxe_device *dev)
{
	while (!cds_list_empty(&dev->keep.free)) {
		struct urxe_kept *k = cds_list_first_entry(&dev->keep.free, struct urxe_kept, node);

		cds_list_del(&k->node);
		free(k->copy);
		free(k);
	}
}

static struct urxe_kept *buffer_get(struct urxe_device *dev)
{
	struct urxe_keep *keep = &dev->keep;
	struct urxe_kept *k = NULL;
	bool make = false;

	urxe_spin_lock(&keep->lock);
	if (!cds_list_empty(&keep->free)) {
		k = cds_list_first_entry(&keep->free, struct urxe_kept, node);
		cds_list_del(&k->node);
	} else if (keep->made < URXE_KEEP_BUFFERS) {
		keep->made++;
		make = true;
	}
	urxe_spin_unlock(&keep->lock);
	if (!make)
		return k;
	k = calloc(1, sizeof(*k));
	if (!k) {
		urxe_spin_lock(&keep->lock);
		keep->made--;
		urxe_spin_unlock(&keep->lock);
	}
	return k;
}

static void put(struct urxe_device *dev, struct urxe_kept *k)
{
	if (k->held)
		urxe_port_let_go(dev->port, k->held);
	k->held = NULL;
	urxe_spin_lock(&dev->keep.lock);
	cds_list_add(&k->node, &dev->keep.free); /* the one used last is in the cache */
	urxe_spin_unlock(&dev->keep.lock);
}

/* The payload outlasts the burst it came in. False: there is no memory. */
static bool save(struct urxe_device *dev, struct urxe_kept *k, const struct urxe_decoded *pkt)
{
	k->held = pkt->frame ? urxe_packet_hold(dev->port, pkt->frame) : NULL;
	if (k->held) {
		k->pkt = *pkt;
		k->pkt.frame = NULL;
		return true;
	}
	if (!k->copy)
		k->copy = malloc(PAYLOAD_MAX);
	if (k->copy)
		urxe_decoded_copy(&k->pkt, pkt, k->copy);
	return k->copy != NULL;
}

/* Most come in order: the search begins at the end. */
enum urxe_keep_result urxe_keep_add(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	struct urxe_responder *r = &qp->resp;
	struct cds_list_head *at = r->kept.prev;
	struct urxe_kept *k;
	bool newest;

	for (; at != &r->kept; at = at->prev) {
		int32_t d;

		k = cds_list_entry(at, struct urxe_kept, node);
		d = urxe_psn_diff(pkt->psn, k->pkt.psn);
		if (d > 0)
			break;
		if (!d) {
			k->pkt.ackreq |= pkt->ackreq; /* of either */
			k->again = true;
			return URXE_KEEP_AGAIN;
		}
	}
	/* One that is longer than the path MTU is judged when it comes in its turn. */
	if (r->nkept >= URXE_KEEP_PER_QP || pkt->length > PAYLOAD_MAX)
		return URXE_KEEP_FULL;
	k = buffer_get(qp->dev);
	if (!k)
		return URXE_KEEP_FULL;
	if (!save(qp->dev, k, pkt)) {
		put(qp->dev, k);
		return URXE_KEEP_FULL;
	}
	k->again = false;
	newest = at == r->kept.prev;
	cds_list_add(&k->node, at);
	r->nkept++;
	return newest ? URXE_KEEP_NEW : URXE_KEEP_FILLS;
}

bool urxe_keep_is_newest(const struct urxe_qp *qp, uint32_t psn)
{
	const struct urxe_responder *r = &qp->resp;

	return r->nkept && cds_list_entry(r->kept.prev, struct urxe_kept, node)->pkt.psn == psn;
}

static struct urxe_kept *take_first(struct urxe_responder *r)
{
	struct urxe_kept *k = cds_list_first_entry(&r->kept, struct urxe_kept, node);

	cds_list_del(&k->node);
	r->nkept--;
	return k;
}

/* Where the first one that is kept stands to @psn; more than 0: behind it, or there is none. */
static int32_t first_from(const struct urxe_responder *r, uint32_t psn)
{
	if (!r->nkept)
		return 1;
	return urxe_psn_diff(cds_list_first_entry(&r->kept, struct urxe_kept, node)->pkt.psn, psn);
}

void urxe_keep_pass(struct urxe_qp *qp, uint32_t psn)
{
	while (first_from(&qp->resp, psn) < 0)
		put(qp->dev, take_first(&qp->resp));
}

struct urxe_kept *urxe_keep_take(struct urxe_qp *qp, uint32_t psn)
{
	urxe_keep_pass(qp, psn);
	return first_from(&qp->resp, psn) ? NULL : take_first(&qp->resp);
}

void urxe_keep_spend(struct urxe_qp *qp, struct urxe_kept *k)
{
	qp->answers = qp->resp.gives_back = true;
	cds_list_add(&k->node, &qp->resp.spent);
}

void urxe_keep_give_back(struct urxe_qp *qp, struct urxe_lane *lane)
{
	struct urxe_responder *r = &qp->resp;
	struct urxe_keep *keep = &qp->dev->keep;
	void *frames[URXE_BURST];
	struct urxe_kept *k;
	unsigned n = 0;

	cds_list_for_each_entry (k, &r->spent, node) {
		if (!k->held)
			continue;
		frames[n++] = k->held;
		k->held = NULL;
		if (n < URXE_BURST)
			continue;
		urxe_lane_let_go(lane, frames, n);
		n = 0;
	}
	if (n)
		urxe_lane_let_go(lane, frames, n);
	urxe_spin_lock(&keep->lock);
	cds_list_splice(&r->spent, &keep->free);
	urxe_spin_unlock(&keep->lock);
	CDS_INIT_LIST_HEAD(&r->spent);
	r->gives_back = false;
}

void urxe_keep_clear(struct urxe_qp *qp)
{
	struct urxe_responder *r = &qp->resp;
	struct urxe_kept *k, *next;

	while (r->nkept)
		put(qp->dev, take_first(r));
	cds_list_for_each_entry_safe (k, next, &r->spent, node) {
		cds_list_del(&k->node);
		put(qp->dev, k);
	}
	r->gives_back = false;
}
