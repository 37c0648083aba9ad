/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * From the outside to members. What arrives here has passed the checks of the outer port, its ICRC
 * too: so the receiver's ring gets it without one. A packet to a QP is written straight into the
 * ring of the process that the QPN names; all others go by what they say, as they do between
 * members (fabric_steer.c). A member without room loses what comes for it, and nobody else does.
 */
#include "netio/gate_priv.h"

#include <stdlib.h>

#include "netio/link_fabric.h"
#include "urxe/free.h"

#define INNER (&urxe_link_fabric_ops)

const struct gate_near *gate_near(struct urxe_gate *g, unsigned own)
{
	const struct urxe_gid_entry *e = urxe_port_own(g->port, own);
	uint32_t version = urxe_fabric_addrs_version(g->fabric) + 1;
	struct gate_near *n = &g->near[own];
	struct urxe_fabric_where where;

	if (!e)
		return NULL;
	if (n->version != version) {
		n->found = !urxe_fabric_lookup(g->fabric, e->gid, &where);
		if (n->found)
			memcpy(n->mac, where.mac, 6);
		n->version = version;
	}
	return n->found ? n : NULL;
}

static uint32_t frame_len(const struct urxe_packet *p)
{
	return ETH_LEN + (p->ipv4 ? IPV4_LEN : IPV6_LEN) + UDP_LEN + p->len + URXE_ICRC_LEN;
}

/* As it was on the wire, but for a VLAN tag, the UDP checksum and the ICRC. */
static void put_frame(const struct urxe_gate *g, const struct urxe_packet *p, const uint8_t dmac[6],
		      uint8_t *to)
{
	uint32_t l3_len = p->ipv4 ? IPV4_LEN : IPV6_LEN;
	uint8_t *udp = to + ETH_LEN + l3_len;

	memcpy(to, dmac, 6);
	memcpy(to + 6, g->mac, 6);
	urxe_put16(to + 12, p->ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	memcpy(to + ETH_LEN, p->l3, l3_len);
	memcpy(udp, p->bth - UDP_LEN, UDP_LEN);
	urxe_put16(udp + 6, 0);
	memcpy(udp + UDP_LEN, p->body, p->len);
	memset(udp + UDP_LEN + p->len, 0, URXE_ICRC_LEN);
}

static void carried(struct urxe_gate *g, const struct urxe_packet *p)
{
	gate_count(g, URXE_GATE_in_packets, 1);
	gate_count(g, URXE_GATE_in_bytes, p->len);
}

/* By the link's own judgement, and with its patience for one who is not there yet. */
static void send_own(struct urxe_gate *g, const struct urxe_packet *p, const uint8_t dmac[6])
{
	struct urxe_frame f;

	if (!INNER->alloc(g->link, 0, &f, 1)) {
		gate_count(g, URXE_GATE_in_full, 1);
		return;
	}
	if (frame_len(p) > f.room) {
		gate_count(g, URXE_GATE_in_too_long, 1);
		INNER->free(g->link, 0, &f, 1);
		return;
	}
	put_frame(g, p, dmac, f.data);
	f.len = frame_len(p);
	f.flags = URXE_FRAME_NO_ICRC;
	if (INNER->tx(g->link, 0, &f, 1)) {
		carried(g, p);
		return;
	}
	gate_count(g, URXE_GATE_in_full, 1);
	INNER->free(g->link, 0, &f, 1);
}

static void to_qp(struct urxe_gate *g, const struct urxe_packet *p, const uint8_t mac[6],
		  uint32_t dqpn)
{
	struct urxe_frame f;
	int err = INNER->reserve(g->link, 0, mac, dqpn, frame_len(p), &f);

	switch (err) {
	case 0:
		put_frame(g, p, mac, f.data);
		INNER->commit(g->link, 0, f.buf, frame_len(p), URXE_FRAME_NO_ICRC);
		carried(g, p);
		break;
	case EAGAIN:
	case EINPROGRESS:
		send_own(g, p, mac);
		break;
	case ENOSPC:
		gate_count(g, URXE_GATE_in_full, 1);
		break;
	case EMSGSIZE:
		gate_count(g, URXE_GATE_in_too_long, 1);
		break;
	default:
		gate_count(g, URXE_GATE_in_nobody, 1);
	}
}

static void source(const struct urxe_packet *p, uint8_t gid[16])
{
	if (p->ipv4)
		urxe_gid_from_v4(gid, p->l3 + 12);
	else
		memcpy(gid, p->l3 + 8, 16);
}

static void carry(struct urxe_gate *g, const struct urxe_packet *p) URXE_REQUIRES(g->lane)
{
	uint32_t dqpn = urxe_bth_dqpn(p->bth);
	const struct gate_near *n;
	uint8_t sgid[16];

	/* Our own copy of what a member has sent to a group, which the others have. */
	if (p->flags & URXE_PKT_LOOPBACK)
		return;
	/* Those who lend each other SRQs, and much else, take an own address for one of this
	 * machine. */
	source(p, sgid);
	if (urxe_port_gid_find(g->port, sgid) >= 0) {
		gate_count(g, URXE_GATE_in_source, 1);
		return;
	}
	if (p->flags & URXE_PKT_MULTICAST) {
		uint8_t gid[16], mac[6];

		if (p->ipv4)
			urxe_gid_from_v4(gid, p->l3 + 16);
		else
			memcpy(gid, p->l3 + 24, 16);
		urxe_mcast_mac(gid, mac);
		send_own(g, p, mac);
		return;
	}
	n = gate_near(g, (unsigned)p->sgid_index);
	if (!n)
		gate_count(g, URXE_GATE_in_nobody, 1);
	else if (dqpn > 1)
		to_qp(g, p, n->mac, dqpn);
	else if (dqpn != 1 || !gate_cm_in(g, sgid, p->body, p->len))
		send_own(g, p, n->mac);
}

bool gate_in(struct urxe_gate *g)
{
	struct urxe_packet pkts[GATE_BURST];
	unsigned n = urxe_lane_rx(g->lane, pkts, GATE_BURST);

	for (unsigned i = 0; i < n; i++)
		carry(g, &pkts[i]);
	urxe_lane_release(g->lane, pkts, n);
	return n;
}

/* ---- groups ---- */

static bool listed(const uint8_t (*list)[16], unsigned n, const uint8_t gid[16])
{
	for (unsigned i = 0; i < n; i++) {
		if (!memcmp(list[i], gid, 16))
			return true;
	}
	return false;
}

/* All that members have joined, as far as they say so. */
static unsigned gather(struct urxe_gate *g, uint8_t (*list)[16])
{
	struct urxe_fabric_member m;
	unsigned n = 0;

	for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		if (urxe_fabric_member(g->fabric, s, &m))
			continue;
		for (unsigned i = 0; i < m.groups && n < MCAST_MAX; i++) {
			if (urxe_gid_is_mcast(m.group[i]) &&
			    !listed((const uint8_t(*)[16])list, n, m.group[i]))
				memcpy(list[n++], m.group[i], 16);
		}
	}
	return n;
}

void gate_groups(struct urxe_gate *g)
{
	uint32_t version = urxe_fabric_groups_version(g->fabric);
	const uint8_t(*old)[16] = (const uint8_t(*)[16])g->groups;
	uint8_t(*list)[16];
	unsigned n, k = 0;

	if (version == g->groups_version)
		return;
	list = malloc(sizeof(*list) * MCAST_MAX);
	if (!list)
		return;
	n = gather(g, list);
	for (unsigned i = 0; i < g->num_groups; i++) {
		if (!listed((const uint8_t(*)[16])list, n, old[i]))
			urxe_port_mcast_leave(g->port, old[i]);
	}
	/* What the link does not take is tried with the next change. */
	for (unsigned i = 0; i < n; i++) {
		if (listed(old, g->num_groups, list[i]) || !urxe_port_mcast_join(g->port, list[i]))
			memmove(list[k++], list[i], 16);
	}
	free(g->groups);
	g->groups = list;
	g->num_groups = k;
	g->groups_version = version;
}
