/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IPv6 neighbour discovery (RFC 4861): solicitations and advertisements, both ways.
 */
#include "netio/stack.h"

#define ND_LEN	     24 /* type, code, checksum, flags, target */
#define ND_OPT	     8	/* link-layer address option */
#define ND_HOPS	     255
#define TYPE_NS	     135
#define TYPE_NA	     136
#define OPT_SLLA     1
#define OPT_TLLA     2
#define NA_SOLICITED 0x40
#define NA_OVERRIDE  0x20

static const uint8_t no_addr[16];
static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};

void urxe_nd_group(const uint8_t gid[16], uint8_t group[16])
{
	static const uint8_t prefix[13] = {0xff, 0x02, [11] = 1, [12] = 0xff};

	memcpy(group, prefix, sizeof(prefix));
	memcpy(group + 13, gid + 13, 3);
}

/* A message with one link-layer address option, or none when @opt is 0. */
static void nd_send(struct urxe_lane *lane, const uint8_t dmac[6], const uint8_t src[16],
		    const uint8_t dst[16], uint8_t type, uint8_t flags, const uint8_t target[16],
		    uint8_t opt) URXE_REQUIRES(lane)
{
	uint16_t len = ND_LEN + (opt ? ND_OPT : 0);
	struct urxe_frame f;
	uint8_t *ip = urxe_ctl_begin(lane, &f, dmac, ETHERTYPE_IPV6), *p = ip + IPV6_LEN;

	if (!ip)
		return;
	urxe_put32(ip, 6u << 28);
	urxe_put16(ip + 4, len);
	ip[6] = PROTO_ICMPV6;
	ip[7] = ND_HOPS;
	memcpy(ip + 8, src, 16);
	memcpy(ip + 24, dst, 16);
	memset(p, 0, 8);
	p[0] = type;
	p[4] = flags;
	memcpy(p + 8, target, 16);
	if (opt) {
		p[ND_LEN] = opt;
		p[ND_LEN + 1] = 1; /* of 8 bytes */
		memcpy(p + ND_LEN + 2, lane->port->mac, 6);
	}
	urxe_put16(p + 2,
		   urxe_sum_fold(urxe_sum(urxe_sum_pseudo(ip, false, PROTO_ICMPV6, len), p, len)));
	urxe_ctl_end(lane, &f, p + len);
}

void urxe_nd_ask(struct urxe_lane *lane, const uint8_t own[16], const uint8_t gid[16],
		 const uint8_t *mac)
{
	uint8_t group[16], gmac[6];

	if (mac) {
		nd_send(lane, mac, own, gid, TYPE_NS, 0, gid, OPT_SLLA);
		return;
	}
	urxe_nd_group(gid, group);
	urxe_mcast_mac(group, gmac);
	nd_send(lane, gmac, own, group, TYPE_NS, 0, gid, OPT_SLLA);
}

void urxe_nd_announce(struct urxe_lane *lane, const uint8_t own[16], bool probe)
{
	uint8_t group[16], mac[6];

	if (probe) { /* as duplicate address detection does (RFC 4862 5.4.2) */
		urxe_nd_group(own, group);
		urxe_mcast_mac(group, mac);
		nd_send(lane, mac, no_addr, group, TYPE_NS, 0, own, 0);
	}
	urxe_mcast_mac(all_nodes, mac);
	nd_send(lane, mac, own, all_nodes, TYPE_NA, NA_OVERRIDE, own, OPT_TLLA);
}

/* The options: all must be well-formed. *mac is that of option @want, or NULL. */
static bool nd_options(const uint8_t *p, uint32_t len, uint8_t want, const uint8_t **mac)
{
	*mac = NULL;
	while (len) {
		uint32_t n = len >= 2 ? p[1] * 8u : 0;

		if (!n || n > len)
			return false;
		if (p[0] == want && n == ND_OPT) {
			if (p[2] & 1)
				return false; /* an answer to many */
			*mac = p + 2;
		}
		p += n;
		len -= n;
	}
	return true;
}

static void ns_input(struct urxe_lane *lane, const struct urxe_input *in, const uint8_t *target,
		     const uint8_t *mac) URXE_REQUIRES(lane)
{
	static const uint8_t sol_group[13] = {0xff, 0x02, [11] = 1, [12] = 0xff};
	const uint8_t *src = in->l3 + 8;
	bool unspec = !memcmp(src, no_addr, 16);
	uint8_t gmac[6];

	/* RFC 4861 7.1.1: a probe goes to the solicited-node group and bears no address. */
	if (unspec && (mac || memcmp(in->l3 + 24, sol_group, sizeof(sol_group)))) {
		urxe_count(lane, URXE_CNT_rx_nd_bad, 1);
		return;
	}
	if (urxe_port_gid_find(lane->port, target) < 0) {
		urxe_count(lane, URXE_CNT_rx_nd_ignored, 1);
		return;
	}
	if (unspec || urxe_port_gid_find(lane->port, src) >= 0)
		urxe_neigh_duplicate(lane, target, in->eth + 6);
	else if (mac)
		urxe_neigh_heard(lane, src, mac, NEIGH_HEARD_OVERRIDE | NEIGH_HEARD_CREATE);
	if (!urxe_neigh_answers(lane, src, mac ? mac : in->eth + 6))
		return;
	urxe_count(lane, URXE_CNT_neigh_answered, 1);
	if (unspec) {
		urxe_mcast_mac(all_nodes, gmac);
		nd_send(lane, gmac, target, all_nodes, TYPE_NA, NA_OVERRIDE, target, OPT_TLLA);
	} else {
		nd_send(lane, mac ? mac : in->eth + 6, target, src, TYPE_NA,
			NA_SOLICITED | NA_OVERRIDE, target, OPT_TLLA);
	}
}

static void na_input(struct urxe_lane *lane, const struct urxe_input *in, const uint8_t *target,
		     const uint8_t *mac) URXE_REQUIRES(lane)
{
	uint8_t flags = in->l4[4];
	unsigned heard = 0;

	if (in->mcast && (flags & NA_SOLICITED)) {
		urxe_count(lane, URXE_CNT_rx_nd_bad, 1);
		return;
	}
	if (urxe_port_gid_find(lane->port, target) >= 0) {
		urxe_neigh_duplicate(lane, target, mac ? mac : in->eth + 6);
		return;
	}
	if (flags & NA_SOLICITED)
		heard |= NEIGH_HEARD_SOLICITED;
	else if (lane->port->peer)
		heard |= NEIGH_HEARD_CREATE;
	if (flags & NA_OVERRIDE)
		heard |= NEIGH_HEARD_OVERRIDE;
	/* The answer to a unicast probe may leave the option out (RFC 4861 4.4). */
	if (mac || (flags & NA_SOLICITED))
		urxe_neigh_heard(lane, target, mac ? mac : in->eth + 6, heard);
	else
		urxe_count(lane, URXE_CNT_rx_nd_ignored, 1);
}

void urxe_nd_input(struct urxe_lane *lane, const struct urxe_input *in)
{
	const uint8_t *mac, *target = in->l4 + 8;
	bool ns = in->l4[0] == TYPE_NS;

	if (!memcmp(in->eth + 6, lane->port->mac, 6))
		return; /* our own, sent back */
	if (in->l3[7] != ND_HOPS || in->l4[1] || in->l4_len < ND_LEN || target[0] == 0xff ||
	    !nd_options(in->l4 + ND_LEN, in->l4_len - ND_LEN, ns ? OPT_SLLA : OPT_TLLA, &mac)) {
		urxe_count(lane, URXE_CNT_rx_nd_bad, 1);
		return;
	}
	if (ns)
		ns_input(lane, in, target, mac);
	else
		na_input(lane, in, target, mac);
}
