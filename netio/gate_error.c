/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a member is told of a MAD that came nowhere: an ICMP error that quotes it, as a router or
 * the host at the other end sent it to the outer port, or as we would, did nobody answer for the
 * address. All members with the address get it, and the one whose it is knows it by its comm id. Of
 * other packets nobody is told: QPs have their retries.
 */
#include "netio/gate_priv.h"

#include "netio/link_fabric.h"

#define INNER	   (&urxe_link_fabric_ops)
#define ERROR_LEN  8   /* of ICMP, before the quote */
#define QUOTE_MOST 512 /* bytes from the BTH on: more than a MAD */
#define ERRORS	   10  /* in each LIMIT_TICK: anybody may send such */
#define HOPS	   64

/* RFC 792, 1812; RFC 4443 3.1 */
static const struct {
	int err;
	uint8_t v4, v6;
} codes[] = {
	{ENETUNREACH, 0, 0},
	{EHOSTUNREACH, 1, 3},
	{ECONNREFUSED, 3, 4},
	{EACCES, 13, 1},
};

static bool code_of(int err, bool ipv4, uint8_t *code)
{
	for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (codes[i].err == err) {
			*code = ipv4 ? codes[i].v4 : codes[i].v6;
			return true;
		}
	}
	return false;
}

static uint8_t *put_v4(uint8_t *p, const uint8_t from[16], const uint8_t to[16], uint8_t proto,
		       uint32_t len)
{
	memset(p, 0, IPV4_LEN);
	p[0] = 0x45;
	urxe_put16(p + 2, (uint16_t)(IPV4_LEN + len));
	p[6] = 0x40;
	p[8] = HOPS;
	p[9] = proto;
	memcpy(p + 12, from + 12, 4);
	memcpy(p + 16, to + 12, 4);
	urxe_put16(p + 10, urxe_sum_fold(urxe_sum(0, p, IPV4_LEN)));
	return p + IPV4_LEN;
}

static uint8_t *put_v6(uint8_t *p, const uint8_t from[16], const uint8_t to[16], uint8_t proto,
		       uint32_t len)
{
	urxe_put32(p, 6u << 28);
	urxe_put16(p + 4, (uint16_t)len);
	p[6] = proto;
	p[7] = HOPS;
	memcpy(p + 8, from, 16);
	memcpy(p + 24, to, 16);
	return p + IPV6_LEN;
}

/* ICMP, the IP and UDP headers of the packet, and what is quoted of it. Returns the end. */
static uint8_t *put_message(uint8_t *icmp, const struct urxe_path_error *e, bool ipv4, uint8_t code)
{
	uint32_t packet = e->len + URXE_ICRC_LEN + UDP_LEN;
	uint8_t *p = icmp + ERROR_LEN;

	memset(icmp, 0, ERROR_LEN);
	icmp[0] = ipv4 ? 3 : 1; /* unreachable */
	icmp[1] = code;
	p = (ipv4 ? put_v4 : put_v6)(p, e->sgid, e->dgid, PROTO_UDP, packet);
	urxe_put16(p, e->udp_sport);
	urxe_put16(p + 2, URXE_UDP_DPORT);
	urxe_put16(p + 4, (uint16_t)packet);
	urxe_put16(p + 6, 0);
	memcpy(p + UDP_LEN, e->bth, e->len);
	return p + UDP_LEN + e->len;
}

static uint32_t put_frame(const struct urxe_gate *g, const struct urxe_path_error *e,
			  const uint8_t mac[6], uint8_t code, uint8_t *to)
{
	bool ipv4 = urxe_gid_is_v4(e->sgid);
	uint8_t *l3 = to + ETH_LEN, *icmp = l3 + (ipv4 ? IPV4_LEN : IPV6_LEN);
	uint8_t *end = put_message(icmp, e, ipv4, code);
	uint32_t len = (uint32_t)(end - icmp), sum;

	memcpy(to, mac, 6);
	memcpy(to + 6, g->mac, 6);
	urxe_put16(to + 12, ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	(ipv4 ? put_v4 : put_v6)(l3, e->from, e->sgid, ipv4 ? PROTO_ICMP : PROTO_ICMPV6, len);
	sum = ipv4 ? 0 : urxe_sum_pseudo(l3, false, PROTO_ICMPV6, len);
	urxe_put16(icmp + 2, urxe_sum_fold(urxe_sum(sum, icmp, len)));
	return (uint32_t)(end - to);
}

void gate_error(void *arg, const struct urxe_path_error *e)
{
	struct urxe_gate *g = arg;
	int own = urxe_port_gid_find(g->port, e->sgid);
	const struct gate_near *n;
	struct urxe_frame f;
	uint8_t code;

	/* The link is there when the first packet goes out. */
	if (!g->link || own < 0 || e->len < URXE_BTH_LEN || e->len > QUOTE_MOST ||
	    urxe_bth_dqpn(e->bth) != 1 || !code_of(e->err, urxe_gid_is_v4(e->sgid), &code))
		return;
	n = gate_near(g, (unsigned)own);
	if (!n || !urxe_limit(&g->errors, ERRORS, urxe_port_now(g->port)) ||
	    !INNER->alloc(g->link, 0, &f, 1))
		return;
	f.len = put_frame(g, e, n->mac, code, f.data);
	if (!INNER->tx(g->link, 0, &f, 1))
		INNER->free(g->link, 0, &f, 1);
	else
		gate_count(g, URXE_GATE_errors, 1);
}
