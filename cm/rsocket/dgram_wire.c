/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Formats and addresses of datagram sockets (dgram_wire.h). */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "cm/rsocket/dgram_wire.h"

#include "urxe/gid.h"
#include "urxe/wire.h"

#define TAG	 0x55555555u
#define QPN_MASK 0xffffffu
#define V4_AT	 12 /* of an IPv4 address in a mapped one */

/* Over UDP, all big-endian. */
enum {
	UDP_TAG = 0,
	UDP_VERSION = 4, /* of IP */
	UDP_OP = 5,
	UDP_LENGTH = 6, /* of the header */
	UDP_QPN = 8,
	UDP_IP = 12,
};

/* Between UD QPs. */
enum {
	UD_VERSION = 0,
	UD_LENGTH = 1,
	UD_PORT = 2,
	UD_IP4 = 4,
	UD_FLOW = 4,
	UD_IP6 = 8,
};

/* ---- addresses ---- */

int urxe_rs_addr_get(struct urxe_rs_addr *a, const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (!sa)
		return EFAULT;
	if (len < sizeof(sa->sa_family))
		return EINVAL;
	memset(a, 0, sizeof(*a));
	switch (sa->sa_family) {
	case AF_INET:
		if (len < sizeof(in))
			return EINVAL;
		memcpy(&in, sa, sizeof(in));
		urxe_gid_from_v4(a->ip, (const uint8_t *)&in.sin_addr);
		a->port = ntohs(in.sin_port);
		return 0;
	case AF_INET6:
		if (len < sizeof(in6))
			return EINVAL;
		memcpy(&in6, sa, sizeof(in6));
		memcpy(a->ip, &in6.sin6_addr, sizeof(a->ip));
		a->scope = IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) ? in6.sin6_scope_id : 0;
		a->port = ntohs(in6.sin6_port);
		return 0;
	default:
		return EAFNOSUPPORT;
	}
}

socklen_t urxe_rs_addr_put(const struct urxe_rs_addr *a, int domain, struct sockaddr_storage *sa)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(a->port)};
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(a->port),
		.sin6_scope_id = a->scope,
	};

	if (domain == AF_INET6) {
		memcpy(&in6.sin6_addr, a->ip, sizeof(a->ip));
		memcpy(sa, &in6, sizeof(in6));
		return sizeof(in6);
	}
	if (!urxe_gid_is_v4(a->ip))
		return 0;
	memcpy(&in.sin_addr, a->ip + V4_AT, sizeof(in.sin_addr));
	memcpy(sa, &in, sizeof(in));
	return sizeof(in);
}

bool urxe_rs_addr_same(const struct urxe_rs_addr *a, const struct urxe_rs_addr *b)
{
	return a->port == b->port && a->scope == b->scope && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

bool urxe_rs_addr_any(const struct urxe_rs_addr *a)
{
	static const uint8_t none[16];

	return urxe_gid_is_v4(a->ip) ? !memcmp(a->ip + V4_AT, none, 4)
				     : !memcmp(a->ip, none, sizeof(none));
}

void urxe_rs_addr_here(struct urxe_rs_addr *a)
{
	if (!urxe_rs_addr_any(a))
		return;
	if (urxe_gid_is_v4(a->ip))
		a->ip[V4_AT] = 127;
	a->ip[15] = 1;
}

/* ---- headers ---- */

static void put_ip4(uint8_t *p, const uint8_t ip[16])
{
	memcpy(p, ip + V4_AT, 4);
}

void urxe_rs_udp_header_put(uint8_t *p, int domain, const struct urxe_rs_udp_header *h)
{
	unsigned len = urxe_rs_udp_header_len(domain);

	memset(p, 0, len);
	urxe_put32(p + UDP_TAG, TAG);
	p[UDP_VERSION] = domain == AF_INET6 ? 6 : 4;
	p[UDP_OP] = (uint8_t)h->op;
	p[UDP_LENGTH] = (uint8_t)len;
	urxe_put32(p + UDP_QPN, h->qpn & QPN_MASK);
	if (domain == AF_INET6)
		memcpy(p + UDP_IP, h->ip, sizeof(h->ip));
	else
		put_ip4(p + UDP_IP, h->ip);
}

/* Which domain's header it is that claims a version and a length; 0: none's. */
static int domain_of(uint8_t version, unsigned len, unsigned len4, unsigned len6)
{
	if (version == 4 && len == len4)
		return AF_INET;
	return version == 6 && len == len6 ? AF_INET6 : 0;
}

unsigned urxe_rs_udp_header_get(const uint8_t *p, size_t len, struct urxe_rs_udp_header *h)
{
	int domain;

	if (len < urxe_rs_udp_header_len(AF_INET) || urxe_get32(p + UDP_TAG) != TAG)
		return 0;
	domain = domain_of(p[UDP_VERSION], p[UDP_LENGTH], urxe_rs_udp_header_len(AF_INET),
			   urxe_rs_udp_header_len(AF_INET6));
	if (!domain || len < p[UDP_LENGTH] ||
	    (p[UDP_OP] != URXE_RS_UDP_DATA && p[UDP_OP] != URXE_RS_UDP_CONTROL))
		return 0;
	h->op = (enum urxe_rs_udp_op)p[UDP_OP];
	h->qpn = urxe_get32(p + UDP_QPN) & QPN_MASK;
	if (domain == AF_INET6)
		memcpy(h->ip, p + UDP_IP, sizeof(h->ip));
	else
		urxe_gid_from_v4(h->ip, p + UDP_IP);
	return p[UDP_LENGTH];
}

void urxe_rs_ud_header_put(uint8_t *p, int domain, const struct urxe_rs_addr *from)
{
	unsigned len = urxe_rs_ud_header_len(domain);

	p[UD_VERSION] = domain == AF_INET6 ? 6 : 4;
	p[UD_LENGTH] = (uint8_t)len;
	urxe_put16(p + UD_PORT, from->port);
	if (domain == AF_INET6) {
		urxe_put32(p + UD_FLOW, 0);
		memcpy(p + UD_IP6, from->ip, sizeof(from->ip));
	} else {
		put_ip4(p + UD_IP4, from->ip);
	}
}

unsigned urxe_rs_ud_header_get(const uint8_t *p, size_t len, struct urxe_rs_addr *from)
{
	int domain;

	if (len < urxe_rs_ud_header_len(AF_INET))
		return 0;
	domain = domain_of(p[UD_VERSION], p[UD_LENGTH], urxe_rs_ud_header_len(AF_INET),
			   urxe_rs_ud_header_len(AF_INET6));
	if (!domain || len < p[UD_LENGTH])
		return 0;
	memset(from, 0, sizeof(*from));
	from->port = urxe_get16(p + UD_PORT);
	if (domain == AF_INET6)
		memcpy(from->ip, p + UD_IP6, sizeof(from->ip));
	else
		urxe_gid_from_v4(from->ip, p + UD_IP4);
	return p[UD_LENGTH];
}
