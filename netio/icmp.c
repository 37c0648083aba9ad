/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ICMP and ICMPv6: echo requests are answered, at a bounded rate; errors, neighbour discovery and
 * MLD go their ways; the rest is none of our business.
 */
#include "netio/stack.h"

#define ECHO_LEN  8
#define ECHOES	  100 /* answers in each LIMIT_TICK */
#define ECHO_HOPS 64

#define V4_ECHO_REQUEST 8
#define V4_ECHO_REPLY	0
#define V6_ECHO_REQUEST 128
#define V6_ECHO_REPLY	129
#define V6_MLD_QUERY	130
#define V6_NS		135
#define V6_NA		136

static void echo_l3(struct urxe_lane *lane, const struct urxe_input *in, uint8_t *ip)
{
	const uint8_t *l3 = in->l3;

	if (!in->ipv4) {
		urxe_put32(ip, 6u << 28);
		urxe_put16(ip + 4, (uint16_t)in->l4_len);
		ip[6] = PROTO_ICMPV6;
		ip[7] = ECHO_HOPS;
		memcpy(ip + 8, l3 + 24, 16);
		memcpy(ip + 24, l3 + 8, 16);
		return;
	}
	memset(ip, 0, IPV4_LEN);
	ip[0] = 0x45;
	ip[1] = l3[1];
	urxe_put16(ip + 2, (uint16_t)(IPV4_LEN + in->l4_len));
	urxe_put16(ip + 4, lane->ip_id++);
	ip[8] = ECHO_HOPS;
	ip[9] = PROTO_ICMP;
	memcpy(ip + 12, l3 + 16, 4);
	memcpy(ip + 16, l3 + 12, 4);
	urxe_put16(ip + 10, urxe_sum_fold(urxe_sum(0, ip, IPV4_LEN)));
}

static void echo_reply(struct urxe_lane *lane, const struct urxe_input *in) URXE_REQUIRES(lane)
{
	uint32_t l3_len = in->ipv4 ? IPV4_LEN : IPV6_LEN;
	struct urxe_frame f;
	uint8_t *ip, *p;
	uint32_t sum;

	if (!urxe_limit(&lane->echoes, ECHOES, urxe_port_now(lane->port))) {
		urxe_count(lane, URXE_CNT_rx_icmp_limited, 1);
		return;
	}
	/* The answer goes where the question came from: nothing is to be resolved. */
	ip = urxe_ctl_begin(lane, &f, in->eth + 6, in->ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	if (!ip)
		return;
	if ((uint32_t)(ip - f.data) + l3_len + in->l4_len > f.room) {
		urxe_count(lane, URXE_CNT_rx_icmp_ignored, 1);
		urxe_frame_free(lane, &f);
		return;
	}
	echo_l3(lane, in, ip);
	p = ip + l3_len;
	memcpy(p, in->l4, in->l4_len);
	p[0] = in->ipv4 ? V4_ECHO_REPLY : V6_ECHO_REPLY;
	urxe_put16(p + 2, 0);
	sum = in->ipv4 ? 0 : urxe_sum_pseudo(ip, false, PROTO_ICMPV6, in->l4_len);
	urxe_put16(p + 2, urxe_sum_fold(urxe_sum(sum, p, in->l4_len)));
	urxe_count(lane, URXE_CNT_echo_answered, 1);
	urxe_ctl_end(lane, &f, p + in->l4_len);
}

void urxe_icmp_input(struct urxe_lane *lane, const struct urxe_input *in)
{
	if (in->l4_len < ECHO_LEN || urxe_sum_fold(urxe_sum(0, in->l4, in->l4_len)))
		urxe_count(lane, URXE_CNT_rx_icmp_bad, 1);
	else if (in->l4[0] == V4_ECHO_REQUEST && !in->l4[1] && !in->mcast && !(in->eth[0] & 1) &&
		 !(in->eth[6] & 1))
		echo_reply(lane, in);
	else if (!urxe_icmp_error_input(lane, in))
		urxe_count(lane, URXE_CNT_rx_icmp_ignored, 1);
}

void urxe_icmpv6_input(struct urxe_lane *lane, const struct urxe_input *in)
{
	static const uint8_t no_addr[16];
	uint32_t sum = urxe_sum_pseudo(in->l3, false, PROTO_ICMPV6, in->l4_len);

	if (in->l4_len < ECHO_LEN || urxe_sum_fold(urxe_sum(sum, in->l4, in->l4_len))) {
		urxe_count(lane, URXE_CNT_rx_icmp_bad, 1);
		return;
	}
	switch (in->l4[0]) {
	case V6_NS:
	case V6_NA:
		urxe_nd_input(lane, in);
		return;
	case V6_ECHO_REQUEST:
		if (!in->l4[1] && !in->mcast && !(in->eth[0] & 1) && !(in->eth[6] & 1) &&
		    memcmp(in->l3 + 8, no_addr, 16)) {
			echo_reply(lane, in);
			return;
		}
		break;
	default:
		if (urxe_icmp_error_input(lane, in))
			return;
		break;
	}
	urxe_count(lane, URXE_CNT_rx_icmp_ignored, 1);
}
