/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* MADs that a device's agent receives, and those whose sender is not known yet. */
#include <errno.h>
#include <string.h>

#include "cm/device/agent.h"

#define GRH_LEN 40u
#define HOLD_NS 100000000ull

/* Questions about strangers in each BUDGET_NS: about new ones, about those that come again. */
#define BUDGET_NS 10000000ull
#define ASK_NEW	  10u
#define ASK_AGAIN 120u
#define SEEN_NS	  1000000000ull

int urxe_agent_post(struct urxe_agent *a, const uint64_t *slots, unsigned n)
{
	struct ibv_recv_wr wr[URXE_AGENT_BATCH], *bad;
	struct ibv_sge sge[URXE_AGENT_BATCH];

	for (unsigned i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)a->buf + slots[i] * URXE_AGENT_ROOM,
					  URXE_AGENT_ROOM, a->mr->lkey};
		wr[i] = (struct ibv_recv_wr){
			.wr_id = slots[i],
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
		};
	}
	return n ? ibv_post_recv(a->qp, wr, &bad) : 0;
}

/*
 * The 40 bytes in front of a datagram: an IPv6 header, or an IPv4 header in the last 20
 * (IBTA A17.4.5.2). These are the packet's own addresses, whatever is in the MAD.
 */
static bool read_grh(const uint8_t *grh, struct urxe_cm_source *src)
{
	memset(src, 0, sizeof(*src));
	if (grh[0] >> 4 == 6) {
		src->traffic_class = (uint8_t)(grh[0] << 4 | grh[1] >> 4);
		memcpy(src->sgid.raw, grh + 8, 16);
		memcpy(src->dgid.raw, grh + 24, 16);
		return true;
	}
	grh += 20;
	if (grh[0] >> 4 != 4)
		return false;
	src->traffic_class = grh[1];
	src->sgid.raw[10] = src->sgid.raw[11] = 0xff;
	src->dgid.raw[10] = src->dgid.raw[11] = 0xff;
	memcpy(src->sgid.raw + 12, grh + 12, 4);
	memcpy(src->dgid.raw + 12, grh + 16, 4);
	return true;
}

/* ---- strangers ---- */

static bool spend(struct urxe_agent_budget *b, unsigned most, uint64_t now)
{
	if (now >= b->until) {
		b->until = now + BUDGET_NS;
		b->spent = 0;
	}
	return b->spent++ < most;
}

/* Did the address come in the last second, or two? It has come now. */
static bool seen(struct urxe_agent *a, const union ibv_gid *gid, uint64_t now)
{
	struct urxe_agent_seen *s = &a->seen;
	uint64_t part[2], h;
	bool before = true;

	if (now >= s->turn) {
		if (!s->key)
			s->key = urxe_gsi_random(a->dev->verbs) | 1;
		s->turn = now + SEEN_NS;
		s->now ^= 1;
		memset(s->bits[s->now], 0, sizeof(s->bits[0]));
	}
	memcpy(part, gid->raw, sizeof(part));
	h = (part[0] ^ s->key) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 32 ^ part[1]) * s->key;
	h ^= h >> 29;
	for (unsigned i = 0; i < 2; i++, h >>= 32) {
		unsigned word = h / 64 % URXE_AGENT_SEEN_WORDS;
		uint64_t bit = 1ull << h % 64;

		before &= !!((s->bits[0][word] | s->bits[1][word]) & bit);
		s->bits[s->now][word] |= bit;
	}
	return before;
}

/*
 * Nothing is kept nor answered for an address that no host has: a MAD waits until the neighbour of
 * its sender has answered. Peers ask for us before they send, so that mostly theirs is known. A
 * flood of REQs from addresses that nobody has ends here. ARP and ND for them have a budget: most
 * of it is for addresses that come again, as true ones do and invented ones do not; and what waits
 * does so in slots that are taken at random, each for longer than an answer needs.
 */
static void hold(struct urxe_agent *a, const struct urxe_cm_source *src, const uint8_t *mad)
{
	uint64_t now = urxe_gsi_now(a->dev->verbs);
	struct urxe_agent_held *h;
	bool again = seen(a, &src->sgid, now);

	if (!(again ? spend(&a->asked_again, ASK_AGAIN, now)
		    : spend(&a->asked_new, ASK_NEW, now))) {
		a->drop_stranger++;
		return;
	}
	urxe_gsi_ask(a->dev->verbs, src->dgid_index, &src->sgid);
	if (a->n_held < URXE_AGENT_HELD) {
		h = &a->held[a->n_held++];
	} else {
		h = &a->held[urxe_gsi_random(a->dev->verbs) % URXE_AGENT_HELD];
		a->drop_stranger++;
	}
	h->src = *src;
	h->until = now + HOLD_NS;
	memcpy(h->mad, mad, URXE_MAD_LEN);
	if (a->n_held == 1 || h->until < a->held_until)
		a->held_until = h->until;
}

uint64_t urxe_agent_recv_held(struct urxe_agent *a, uint64_t now)
{
	unsigned left = 0, news = urxe_gsi_neigh_news(a->dev->verbs);

	if (!a->n_held)
		return UINT64_MAX;
	if (news == a->news && now < a->held_until)
		return a->held_until;
	a->news = news;
	a->held_until = UINT64_MAX;
	for (unsigned i = 0; i < a->n_held; i++) {
		struct urxe_agent_held h = a->held[i];

		if (urxe_gsi_known(a->dev->verbs, h.src.dgid_index, &h.src.sgid)) {
			urxe_cm_recv(a->cm, &h.src, h.mad, URXE_MAD_LEN);
		} else if (now < h.until) {
			if (h.until < a->held_until)
				a->held_until = h.until;
			a->held[left++] = h;
		} else {
			a->drop_stranger++;
		}
	}
	a->n_held = left;
	return a->held_until;
}

/* To which of our addresses a MAD came. False: to none, and it is dropped. */
static bool find_own(struct urxe_agent *a, struct urxe_cm_source *src) URXE_REQUIRES(urxe_cma_lock)
{
	int own = urxe_agent_own_gid(a->dev, &src->dgid);

	if (own < 0)
		a->drop_recv++;
	else
		src->dgid_index = (uint8_t)own;
	return own >= 0;
}

void urxe_agent_recv_readdress(struct urxe_agent *a)
{
	unsigned left = 0;

	for (unsigned i = 0; i < a->n_held; i++) {
		if (find_own(a, &a->held[i].src))
			a->held[left++] = a->held[i];
	}
	a->n_held = left;
}

static void receive(struct urxe_agent *a, const struct ibv_wc *wc) URXE_REQUIRES(urxe_cma_lock)
{
	const uint8_t *buf = a->buf + wc->wr_id * URXE_AGENT_ROOM;
	struct urxe_cm_source src;
	uint32_t len;

	if (wc->status != IBV_WC_SUCCESS)
		return;
	if (!(wc->wc_flags & IBV_WC_GRH) || wc->byte_len < GRH_LEN || !read_grh(buf, &src)) {
		a->drop_recv++;
		return;
	}
	if (!find_own(a, &src))
		return;
	src.port_num = 1;
	src.qpn = wc->src_qp;
	len = wc->byte_len - GRH_LEN;
	if (len == URXE_MAD_LEN && !urxe_gsi_known(a->dev->verbs, src.dgid_index, &src.sgid))
		hold(a, &src, buf + GRH_LEN);
	else
		urxe_cm_recv(a->cm, &src, buf + GRH_LEN, len);
}

void urxe_agent_recv(struct urxe_agent *a)
{
	struct ibv_wc wc[URXE_AGENT_BATCH];
	uint64_t slots[URXE_AGENT_BATCH];
	int n;

	do {
		unsigned again = 0;

		n = urxe_gsi_poll_cq(a->recv_cq, URXE_AGENT_BATCH, wc);
		for (int i = 0; i < n; i++) {
			receive(a, &wc[i]);
			if (wc[i].status == IBV_WC_SUCCESS)
				slots[again++] = wc[i].wr_id;
		}
		urxe_agent_post(a, slots, again);
	} while (n == URXE_AGENT_BATCH);
}
