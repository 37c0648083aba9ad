/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The way in: Ethernet, VLAN, IPv4 and IPv6, UDP, up to a RoCEv2 packet whose lengths and
 * ICRC are good. Every other frame is answered (ARP, ND, ICMP), or dropped and counted
 * under its reason. Nothing read from the frame is trusted before it is checked.
 */
#include "netio/stack.h"
#include "netio/trace.h"
#include "urxe/opcode.h"

static bool drop(struct urxe_lane *lane, enum urxe_counter why) URXE_REQUIRES(lane)
{
	if (lane->raw_taken)
		return false; /* not lost */
	urxe_count(lane, why, 1);
	urxe_trace_frame_drop(lane, why);
	return false;
}

/* ---- sums ---- */

uint32_t urxe_sum(uint32_t sum, const void *data, uint32_t len)
{
	const uint8_t *p = data;
	uint64_t s = sum;

	for (; len >= 4; len -= 4, p += 4)
		s += urxe_get32(p);
	if (len >= 2) {
		s += urxe_get16(p);
		p += 2;
		len -= 2;
	}
	if (len)
		s += (uint64_t)*p << 8;
	s = (s & 0xffffffff) + (s >> 32);
	s = (s & 0xffff) + (s >> 16);
	return (uint32_t)((s & 0xffff) + (s >> 16));
}

uint32_t urxe_sum_pseudo(const uint8_t *l3, bool ipv4, uint8_t proto, uint32_t len)
{
	uint32_t sum = proto + (len & 0xffff) + (len >> 16);

	return ipv4 ? urxe_sum(sum, l3 + 12, 8) : urxe_sum(sum, l3 + 8, 32);
}

/* ---- UDP ---- */

/* provider/quirks.md: flush-icrc. A FLUSH has headers alone. */
static bool twice_summed_flush(const struct urxe_input *in, const uint8_t *bth, uint32_t len)
{
	const struct urxe_opcode_info *op = &urxe_opcode_table[urxe_bth_opcode(bth)];

	return op->flags & URXE_OPF_FLUSH && len == op->hdr_len &&
	       urxe_icrc_twice(in->l3, in->ipv4, len) == urxe_icrc_get(bth + len);
}

static bool bad_v4_source(const uint8_t a[4])
{
	return a[0] == 0 || a[0] == 127 || a[0] >= 224;
}

static bool udp_input(struct urxe_lane *lane, struct urxe_frame *f, bool loop,
		      const struct urxe_input *in, uint16_t vlan, struct urxe_packet *pkt)
	URXE_REQUIRES(lane)
{
	const uint8_t *udp = in->l4;
	uint8_t twice = 0;
	uint32_t len;

	if (in->l4_len < UDP_LEN)
		return drop(lane, URXE_CNT_rx_udp_length);
	if (urxe_get16(udp + 2) != URXE_UDP_DPORT)
		return drop(lane, URXE_CNT_rx_udp_port);
	if (urxe_get16(udp + 4) != in->l4_len)
		return drop(lane, URXE_CNT_rx_udp_length);
	/* Zero says "none", which RoCEv2 allows over IPv6 too. */
	if (urxe_get16(udp + 6) &&
	    urxe_sum_fold(urxe_sum(urxe_sum_pseudo(in->l3, in->ipv4, PROTO_UDP, in->l4_len), udp,
				   in->l4_len)))
		return drop(lane, URXE_CNT_rx_udp_checksum);
	len = in->l4_len - UDP_LEN;
	if (len < URXE_BTH_LEN + URXE_ICRC_LEN)
		return drop(lane, URXE_CNT_rx_roce_short);
	len -= URXE_ICRC_LEN;
	if (!(f->flags & (URXE_FRAME_NO_ICRC | URXE_FRAME_ICRC_OK)) &&
	    (!loop || lane->port->loop_icrc) &&
	    urxe_icrc(in->l3, in->ipv4, len) != urxe_icrc_get(udp + UDP_LEN + len)) {
		if (!twice_summed_flush(in, udp + UDP_LEN, len))
			return drop(lane, URXE_CNT_rx_icrc);
		twice = URXE_PKT_TWICE;
	}

	pkt->bth = udp + UDP_LEN;
	pkt->body = f->rest ? f->rest + (pkt->bth - f->data) : pkt->bth;
	pkt->len = len;
	pkt->l3 = in->l3;
	pkt->ipv4 = in->ipv4;
	pkt->flags = (uint8_t)((in->mcast ? URXE_PKT_MULTICAST : 0) |
			       (loop ? URXE_PKT_LOOPBACK : 0) | twice);
	pkt->ecn = (in->ipv4 ? in->l3[1] : in->l3[1] >> 4) & URXE_ECN_MASK;
	memcpy(pkt->src_mac, in->eth + 6, 6);
	pkt->vlan = vlan;
	pkt->sgid_index = in->mcast ? -1 : in->sgid_index;
	pkt->udp_sport = urxe_get16(udp);
	pkt->frame = f->buf;
	/* A source that is not good everywhere is good as long as it is ours. */
	if (!loop && in->ipv4 && !bad_v4_source(in->l3 + 12))
		urxe_known_learn(lane, f, pkt);
	return true;
}

/* ---- IP ---- */

static int own_v4(const struct urxe_port *port, const uint8_t addr[4])
{
	const struct urxe_gid_entry *own;

	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		own = urxe_port_own(port, i);
		if (own && own->ipv4 && !memcmp(own->gid + 12, addr, 4))
			return (int)i;
	}
	return -1;
}

/* RFC 1122 3.3.6: such a packet in a frame to a group is meant to get past a filter, or a mistake.
 */
static bool to_us_alone(struct urxe_lane *lane, const struct urxe_input *in) URXE_REQUIRES(lane)
{
	return !(in->eth[0] & 1) || drop(lane, URXE_CNT_rx_unicast_in_group);
}

/* Is the destination for us? Fills in mcast and sgid_index. */
static bool v4_for_us(struct urxe_lane *lane, struct urxe_input *in, uint8_t proto)
	URXE_REQUIRES(lane)
{
	static const uint8_t all_hosts[4] = {224, 0, 0, 1};
	const uint8_t *dst = in->l3 + 16;
	uint8_t gid[16];

	in->sgid_index = own_v4(lane->port, dst);
	if (in->sgid_index >= 0)
		return to_us_alone(lane, in);
	if ((dst[0] & 0xf0) != 0xe0)
		return drop(lane, URXE_CNT_rx_ip_not_ours);
	in->mcast = true;
	urxe_gid_from_v4(gid, dst);
	if (proto == PROTO_IGMP || !memcmp(dst, all_hosts, 4))
		return true;
	return urxe_mcast_joined(lane->port, gid) || drop(lane, URXE_CNT_rx_mcast_not_joined);
}

static bool ipv4_input(struct urxe_lane *lane, struct urxe_frame *f, bool loop, const uint8_t *l3,
		       uint32_t len, uint16_t vlan, struct urxe_packet *pkt) URXE_REQUIRES(lane)
{
	struct urxe_input in = {.eth = f->data, .l3 = l3, .ipv4 = true};
	uint32_t ihl, total;

	if (len < IPV4_LEN)
		return drop(lane, URXE_CNT_rx_short);
	if (l3[0] >> 4 != 4)
		return drop(lane, URXE_CNT_rx_ip_version);
	ihl = (l3[0] & 15u) * 4;
	if (ihl < IPV4_LEN)
		return drop(lane, URXE_CNT_rx_ip_header);
	total = urxe_get16(l3 + 2);
	if (total < ihl || total > len)
		return drop(lane, URXE_CNT_rx_ip_length);
	if (!lane->port->rx_csum && !loop && urxe_sum_fold(urxe_sum(0, l3, ihl)))
		return drop(lane, URXE_CNT_rx_ip_checksum);
	/* IGMP comes with the router alert option; it alone does. */
	if (ihl > IPV4_LEN && l3[9] != PROTO_IGMP)
		return drop(lane, URXE_CNT_rx_ip_options);
	if (urxe_get16(l3 + 6) & 0x3fff)
		return drop(lane, URXE_CNT_rx_ip_fragment);
	if (bad_v4_source(l3 + 12) && l3[9] != PROTO_IGMP &&
	    (!lane->port->cfg.host || own_v4(lane->port, l3 + 12) < 0))
		return drop(lane, URXE_CNT_rx_ip_source);
	if (!v4_for_us(lane, &in, l3[9]))
		return false;
	in.l4 = l3 + ihl;
	in.l4_len = total - ihl;
	switch (l3[9]) {
	case PROTO_UDP:
		return udp_input(lane, f, loop, &in, vlan, pkt);
	case PROTO_ICMP:
		urxe_icmp_input(lane, &in);
		return false;
	case PROTO_IGMP:
		urxe_igmp_input(lane, &in);
		return false;
	default:
		return drop(lane, URXE_CNT_rx_ip_protocol);
	}
}

/* All nodes, and the solicited-node groups of our addresses: what ND listens to. */
static bool nd_group(const struct urxe_port *port, const uint8_t dst[16])
{
	static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};
	const struct urxe_gid_entry *own;
	uint8_t group[16];

	if (!memcmp(dst, all_nodes, 16))
		return true;
	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		own = urxe_port_own(port, i);
		if (!own || own->ipv4)
			continue;
		urxe_nd_group(own->gid, group);
		if (!memcmp(dst, group, 16))
			return true;
	}
	return false;
}

static bool v6_for_us(struct urxe_lane *lane, struct urxe_input *in, uint8_t proto)
	URXE_REQUIRES(lane)
{
	const uint8_t *dst = in->l3 + 24;

	in->sgid_index = urxe_port_gid_find(lane->port, dst);
	if (in->sgid_index >= 0)
		return to_us_alone(lane, in);
	if (dst[0] != 0xff)
		return drop(lane, URXE_CNT_rx_ip_not_ours);
	in->mcast = true;
	if (proto == PROTO_HOPOPTS || (proto == PROTO_ICMPV6 && nd_group(lane->port, dst)))
		return true;
	return urxe_mcast_joined(lane->port, dst) || drop(lane, URXE_CNT_rx_mcast_not_joined);
}

/* MLD is ICMPv6 behind a hop-by-hop header with the router alert (RFC 3810 5); nothing else is. */
static bool hop_by_hop(struct urxe_lane *lane, struct urxe_input *in) URXE_REQUIRES(lane)
{
	if (in->l4_len < 8 || in->l4[0] != PROTO_ICMPV6 || in->l4[1] != 0)
		return drop(lane, URXE_CNT_rx_ip_options);
	in->l4 += 8;
	in->l4_len -= 8;
	urxe_mld_input(lane, in);
	return false;
}

static bool bad_v6_source(const uint8_t a[16], uint8_t proto)
{
	static const uint8_t zero[15];

	if (a[0] == 0xff)
		return true;
	/* ::1 never, :: in ND and MLD only, ::ffff:a.b.c.d would pass for IPv4 */
	if (urxe_gid_is_v4(a))
		return true;
	return !memcmp(a, zero, 15) && (a[15] == 1 || (a[15] == 0 && proto == PROTO_UDP));
}

static bool ipv6_input(struct urxe_lane *lane, struct urxe_frame *f, bool loop, const uint8_t *l3,
		       uint32_t len, uint16_t vlan, struct urxe_packet *pkt) URXE_REQUIRES(lane)
{
	struct urxe_input in = {.eth = f->data, .l3 = l3};

	if (len < IPV6_LEN)
		return drop(lane, URXE_CNT_rx_short);
	if (l3[0] >> 4 != 6)
		return drop(lane, URXE_CNT_rx_ip_version);
	in.l4 = l3 + IPV6_LEN;
	in.l4_len = urxe_get16(l3 + 4);
	if (in.l4_len > len - IPV6_LEN)
		return drop(lane, URXE_CNT_rx_ip_length);
	if (bad_v6_source(l3 + 8, l3[6]) &&
	    (!lane->port->cfg.host || urxe_port_gid_find(lane->port, l3 + 8) < 0))
		return drop(lane, URXE_CNT_rx_ip_source);
	if (!v6_for_us(lane, &in, l3[6]))
		return false;
	switch (l3[6]) {
	case PROTO_UDP:
		return udp_input(lane, f, loop, &in, vlan, pkt);
	case PROTO_ICMPV6:
		urxe_icmpv6_input(lane, &in);
		return false;
	case PROTO_HOPOPTS:
		return hop_by_hop(lane, &in);
	case 44:
		return drop(lane, URXE_CNT_rx_ip_fragment);
	case 43:
	case 60:
		return drop(lane, URXE_CNT_rx_ip_options);
	default:
		return drop(lane, URXE_CNT_rx_ip_protocol);
	}
}

/* ---- Ethernet ---- */

/* Our VLAN's frames come tagged with it; a priority tag (VID 0, 802.1Q 6.9) is no VLAN. */
static bool vlan_ok(const struct urxe_port *port, uint16_t vid)
{
	if (port->cfg.vlan == URXE_NO_VLAN)
		return vid == URXE_NO_VLAN || vid == 0;
	return vid == port->cfg.vlan;
}

bool urxe_frame_input(struct urxe_lane *lane, struct urxe_frame *f, bool loop,
		      struct urxe_packet *pkt)
{
	const struct urxe_port *port = lane->port;
	const uint8_t *p = f->data;
	uint32_t len = f->len, off = ETH_LEN;
	uint16_t type, vid = URXE_NO_VLAN;

	if (len < ETH_LEN)
		return drop(lane, URXE_CNT_rx_short);
	if (!(p[0] & 1) && memcmp(p, port->mac, 6))
		return drop(lane, URXE_CNT_rx_not_our_mac);
	/* What we answer goes there: one frame would be sent to many. */
	if (p[6] & 1)
		return drop(lane, URXE_CNT_rx_mac_source);
	if (f->flags & URXE_FRAME_RX_BAD_CSUM)
		return drop(lane, URXE_CNT_rx_ip_checksum);
	type = urxe_get16(p + 12);
	if (type == ETHERTYPE_VLAN) {
		if (len < ETH_LEN + VLAN_LEN)
			return drop(lane, URXE_CNT_rx_short);
		vid = urxe_get16(p + 14) & 0xfff;
		type = urxe_get16(p + 16);
		off += VLAN_LEN;
	}
	if (!vlan_ok(port, vid))
		return drop(lane, URXE_CNT_rx_vlan);
	if (!vid)
		vid = URXE_NO_VLAN;
	switch (type) {
	case ETHERTYPE_IPV4:
		return ipv4_input(lane, f, loop, p + off, len - off, vid, pkt);
	case ETHERTYPE_IPV6:
		return ipv6_input(lane, f, loop, p + off, len - off, vid, pkt);
	case ETHERTYPE_ARP:
		urxe_arp_input(lane, p, p + off, len - off);
		return false;
	default:
		return drop(lane, URXE_CNT_rx_ethertype);
	}
}

uint32_t urxe_frame_roce(const struct urxe_frame *f)
{
	const uint8_t *p = f->data;
	uint32_t off = 12;

	if (f->len < ETH_LEN + VLAN_LEN + IPV4_LEN + UDP_LEN)
		return 0;
	if (urxe_get16(p + off) == ETHERTYPE_VLAN)
		off += VLAN_LEN;
	if (urxe_get16(p + off) == ETHERTYPE_IPV4 && p[off + 2] == 0x45 &&
	    p[off + 2 + 9] == PROTO_UDP)
		off += 2 + IPV4_LEN;
	else if (urxe_get16(p + off) == ETHERTYPE_IPV6 && p[off + 2 + 6] == PROTO_UDP)
		off += 2 + IPV6_LEN;
	else
		return 0;
	/* Room for BTH and ICRC, too, or there is nothing to injure. */
	if (f->len < off + UDP_LEN + URXE_BTH_LEN + URXE_ICRC_LEN ||
	    urxe_get16(p + off + 2) != URXE_UDP_DPORT)
		return 0;
	return off + UDP_LEN;
}
