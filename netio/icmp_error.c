/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ICMP errors about packets of ours (RFC 792, 1191, 4443). Anybody may send them, from anywhere:
 * one counts when it quotes a RoCEv2 packet from the address it was sent to, on a path that we
 * have. It changes nothing here: "too big" is logged with what to configure, "unreachable" is
 * passed on.
 */
#include "netio/stack.h"

#include <stdio.h>

#include "urxe/log.h"

#define ERROR_LEN    8 /* type, code, checksum, and four bytes of the type's own */
#define LOG_INTERVAL (10 * URXE_SEC)

#define V4_UNREACHABLE 3
#define V4_TOO_BIG     4 /* a code of it */
#define V4_EXPIRED     11
#define V4_MIN_MTU     68 /* RFC 791 */
#define V6_UNREACHABLE 1
#define V6_TOO_BIG     2
#define V6_EXPIRED     3
#define V6_MIN_MTU     1280 /* RFC 8200 5 */
#define V4_QUOTE_UNIT  4    /* of the quote's length, where one is given (RFC 4884 4.1, 4.2) */
#define V6_QUOTE_UNIT  8

/* RFC 792, 1122 3.2.2.1, 1812 5.2.7.1; 0: none of these. Without UDP there is no port either. */
static const int v4_unreachable[] = {
	[0] = ENETUNREACH,   [1] = EHOSTUNREACH, [2] = ECONNREFUSED,  [3] = ECONNREFUSED,
	[6] = ENETUNREACH,   [7] = EHOSTUNREACH, [8] = ENETUNREACH,   [9] = EACCES,
	[10] = EACCES,	     [11] = ENETUNREACH, [12] = EHOSTUNREACH, [13] = EACCES,
	[14] = EHOSTUNREACH, [15] = EACCES,
};

/* RFC 4443 3.1 */
static const int v6_unreachable[] = {
	[0] = ENETUNREACH,  [1] = EACCES, [2] = EHOSTUNREACH, [3] = EHOSTUNREACH,
	[4] = ECONNREFUSED, [5] = EACCES, [6] = EACCES,
};

/* What is quoted of a packet of ours. */
struct quote {
	struct urxe_path_error e;
	uint32_t ip_len; /* of the whole packet */
};

static uint32_t min32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* How much of the message is the quote; what follows are extensions (RFC 4884). */
static uint32_t quote_len(const struct urxe_input *in)
{
	uint32_t len = in->l4_len - ERROR_LEN;
	uint32_t given = in->ipv4 ? in->l4[5] * V4_QUOTE_UNIT : in->l4[4] * V6_QUOTE_UNIT;

	/* In this one a number stands there. */
	if (!in->ipv4 && in->l4[0] == V6_TOO_BIG)
		return len;
	return given ? min32(given, len) : len;
}

/* The headers are as we make them (path.c): no options, no fragments, UDP to RoCEv2's port. */
static bool read_v4(const uint8_t *ip, uint32_t len, struct quote *q)
{
	if (len < IPV4_LEN + UDP_LEN || ip[0] != 0x45 || ip[9] != PROTO_UDP ||
	    urxe_get16(ip + 6) & 0x3fff)
		return false;
	q->ip_len = urxe_get16(ip + 2);
	urxe_gid_from_v4(q->e.sgid, ip + 12);
	urxe_gid_from_v4(q->e.dgid, ip + 16);
	return true;
}

static bool read_v6(const uint8_t *ip, uint32_t len, struct quote *q)
{
	if (len < IPV6_LEN + UDP_LEN || ip[0] >> 4 != 6 || ip[6] != PROTO_UDP)
		return false;
	q->ip_len = urxe_get16(ip + 4) + IPV6_LEN;
	memcpy(q->e.sgid, ip + 8, 16);
	memcpy(q->e.dgid, ip + 24, 16);
	return true;
}

static bool read_quote(struct urxe_port *port, const struct urxe_input *in, struct quote *q)
{
	const struct urxe_gid_entry *own;
	const uint8_t *ip = in->l4 + ERROR_LEN;
	uint32_t hdr = in->ipv4 ? IPV4_LEN : IPV6_LEN, len = quote_len(in);
	const uint8_t *udp = ip + hdr;

	if (in->mcast || in->sgid_index < 0)
		return false;
	if (!(in->ipv4 ? read_v4(ip, len, q) : read_v6(ip, len, q)))
		return false;
	own = urxe_port_own(port, (unsigned)in->sgid_index);
	if (!own || memcmp(own->gid, q->e.sgid, 16) || urxe_get16(udp + 2) != URXE_UDP_DPORT)
		return false;
	if (q->ip_len != hdr + urxe_get16(udp + 4) || q->ip_len > atomic_load(&port->l3_mtu) ||
	    q->ip_len < hdr + UDP_LEN + URXE_BTH_LEN + URXE_ICRC_LEN)
		return false;
	q->e.udp_sport = urxe_get16(udp);
	q->e.bth = udp + UDP_LEN;
	/* It may be followed by padding (RFC 4884 3), and without its end by nothing of the ICRC.
	 */
	q->e.len = min32(len, q->ip_len - URXE_ICRC_LEN) - hdr - UDP_LEN;
	if (in->ipv4)
		urxe_gid_from_v4(q->e.from, in->l3 + 12);
	else
		memcpy(q->e.from, in->l3 + 8, 16);
	return urxe_path_in_use(port, q->e.sgid, q->e.dgid, q->e.udp_sport);
}

/* One line about a destination, of a kind, in a while. */
static bool may_log(struct urxe_port *port, const uint8_t dgid[16], bool too_big)
{
	_Atomic uint64_t *logged = &port->paths.logged[too_big][urxe_gid_hash(dgid)];
	uint64_t now = urxe_port_now(port), last = atomic_load(logged);

	if (last && now < last + LOG_INTERVAL)
		return false;
	atomic_store(logged, now ? now : 1);
	return true;
}

static void too_big(struct urxe_lane *lane, const struct quote *q, uint32_t mtu, uint32_t min)
	URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	char dst[URXE_GID_STRLEN], from[URXE_GID_STRLEN], what[48] = "no --mtu is that small";
	uint32_t n = urxe_config_mtu_for(mtu);

	if (mtu < min || mtu >= q->ip_len) {
		urxe_count(lane, URXE_CNT_rx_icmp_bad_mtu, 1);
		return;
	}
	urxe_count(lane, URXE_CNT_icmp_too_big, 1);
	if (!may_log(port, q->e.dgid, true))
		return;
	if (n)
		snprintf(what, sizeof(what), "start both ends with --mtu %u", n);
	urxe_warn("%s: %s drops packets of %u bytes to %s, its next link carries %u: %s",
		  port->cfg.name, urxe_gid_print(q->e.from, from, sizeof(from)), q->ip_len,
		  urxe_gid_print(q->e.dgid, dst, sizeof(dst)), mtu, what);
}

static const char *unreachable_name(int err)
{
	switch (err) {
	case ENETUNREACH:
		return "no such network";
	case EACCES:
		return "prohibited";
	case ECONNREFUSED:
		return "nobody has UDP port 4791";
	default:
		return "no such host";
	}
}

static void unreachable(struct urxe_lane *lane, struct quote *q, int err) URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	char dst[URXE_GID_STRLEN], from[URXE_GID_STRLEN];

	urxe_count(lane, URXE_CNT_icmp_unreachable, 1);
	if (may_log(port, q->e.dgid, false))
		urxe_info("%s: %s reports of %s: %s", port->cfg.name,
			  urxe_gid_print(q->e.from, from, sizeof(from)),
			  urxe_gid_print(q->e.dgid, dst, sizeof(dst)), unreachable_name(err));
	q->e.err = err;
	if (port->paths.error_fn)
		port->paths.error_fn(port->paths.error_arg, &q->e);
}

static int unreachable_err(const struct urxe_input *in)
{
	const int *errs = in->ipv4 ? v4_unreachable : v6_unreachable;
	unsigned n = in->ipv4 ? sizeof(v4_unreachable) / sizeof(v4_unreachable[0])
			      : sizeof(v6_unreachable) / sizeof(v6_unreachable[0]);

	if (in->l4[0] != (in->ipv4 ? V4_UNREACHABLE : V6_UNREACHABLE) || in->l4[1] >= n)
		return 0;
	return errs[in->l4[1]];
}

bool urxe_icmp_error_input(struct urxe_lane *lane, const struct urxe_input *in)
{
	bool big = in->ipv4 ? in->l4[0] == V4_UNREACHABLE && in->l4[1] == V4_TOO_BIG
			    : in->l4[0] == V6_TOO_BIG;
	bool expired = in->l4[0] == (in->ipv4 ? V4_EXPIRED : V6_EXPIRED);
	int err = unreachable_err(in);
	struct quote q = {0};

	if (!big && !expired && !err)
		return false;
	if (!read_quote(lane->port, in, &q))
		urxe_count(lane, URXE_CNT_rx_icmp_no_quote, 1);
	else if (big && in->ipv4)
		too_big(lane, &q, urxe_get16(in->l4 + 6), V4_MIN_MTU);
	else if (big)
		too_big(lane, &q, urxe_get32(in->l4 + 4), V6_MIN_MTU);
	else if (expired)
		urxe_count(lane, URXE_CNT_icmp_expired, 1);
	else
		unreachable(lane, &q, err);
	return true;
}

void urxe_port_on_path_error(struct urxe_port *port, urxe_path_error_fn *fn, void *arg)
{
	port->paths.error_fn = fn;
	port->paths.error_arg = arg;
}
