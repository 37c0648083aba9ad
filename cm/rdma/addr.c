/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Socket addresses and GIDs: a GID is an IPv6 address, or ::ffff:a.b.c.d for IPv4 (IBTA A17). */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "cm/rdma/cma.h"
#include "urxe/gid.h"

socklen_t urxe_cma_addr_len(const struct sockaddr *sa)
{
	if (!sa)
		return 0;
	switch (sa->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

static const struct sockaddr_in *v4(const struct sockaddr *sa)
{
	return (const struct sockaddr_in *)(const void *)sa;
}

static const struct sockaddr_in6 *v6(const struct sockaddr *sa)
{
	return (const struct sockaddr_in6 *)(const void *)sa;
}

static const struct sockaddr_ib *ib(const struct sockaddr *sa)
{
	return (const struct sockaddr_ib *)(const void *)sa;
}

bool urxe_cma_addr_ib(const struct sockaddr *sa)
{
	return sa->sa_family == AF_IB;
}

void urxe_cma_addr_gid(const struct sockaddr *sa, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (sa->sa_family == AF_INET) {
		urxe_gid_from_v4(gid->raw, (const uint8_t *)&v4(sa)->sin_addr);
	} else if (sa->sa_family == AF_IB) {
		memcpy(gid->raw, &ib(sa)->sib_addr, 16);
	} else {
		memcpy(gid->raw, &v6(sa)->sin6_addr, 16);
	}
}

void urxe_cma_gid_addr(const union ibv_gid *gid, int family, uint16_t port, struct sockaddr *sa)
{
	if (family == AF_INET) {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htobe16(port)};

		memcpy(&in.sin_addr, gid->raw + 12, 4);
		memcpy(sa, &in, sizeof(in));
	} else if (family == AF_IB) {
		struct sockaddr_ib sib = {
			.sib_family = AF_IB,
			.sib_pkey = htobe16(0xffff),
			.sib_sid = htobe64(port),
			.sib_sid_mask = port ? htobe64(RDMA_IB_IP_PORT_MASK) : 0,
		};

		memcpy(&sib.sib_addr, gid->raw, 16);
		memcpy(sa, &sib, sizeof(sib));
	} else {
		struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htobe16(port)};

		memcpy(&in6.sin6_addr, gid->raw, 16);
		memcpy(sa, &in6, sizeof(in6));
	}
}

uint16_t urxe_cma_addr_port(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET:
		return be16toh(v4(sa)->sin_port);
	case AF_INET6:
		return be16toh(v6(sa)->sin6_port);
	case AF_IB:
		return (uint16_t)be64toh(ib(sa)->sib_sid & ib(sa)->sib_sid_mask);
	default:
		return 0;
	}
}

void urxe_cma_addr_set_port(struct sockaddr *sa, uint16_t port)
{
	struct sockaddr_ib *sib = (struct sockaddr_ib *)(void *)sa;

	if (sa->sa_family == AF_INET) {
		((struct sockaddr_in *)(void *)sa)->sin_port = htobe16(port);
	} else if (sa->sa_family == AF_INET6) {
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = htobe16(port);
	} else if (sa->sa_family == AF_IB) {
		sib->sib_sid &= htobe64(~RDMA_IB_IP_PORT_MASK);
		sib->sib_sid |= htobe64(port);
		sib->sib_sid_mask |= htobe64(RDMA_IB_IP_PORT_MASK);
	}
}

int urxe_cma_addr_ib_space(struct sockaddr *sa, enum rdma_port_space ps,
			   enum rdma_port_space *space)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP};
	struct sockaddr_ib *sib = (struct sockaddr_ib *)(void *)sa;
	uint64_t mask = be64toh(sib->sib_sid_mask) & RDMA_IB_IP_PS_MASK;

	for (unsigned i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		uint64_t prefix = (uint64_t)spaces[i] << 16;

		if ((ps != RDMA_PS_IB && ps != spaces[i]) ||
		    (be64toh(sib->sib_sid) & mask) != (prefix & mask))
			continue;
		*space = spaces[i];
		sib->sib_sid = htobe64(prefix | urxe_cma_addr_port(sa));
		sib->sib_sid_mask |= htobe64(RDMA_IB_IP_PS_MASK);
		return 0;
	}
	return EPROTONOSUPPORT;
}

void urxe_cma_addr_set_scope(struct sockaddr *sa, uint32_t scope)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)sa;

	if (sa->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) &&
	    !in6->sin6_scope_id)
		in6->sin6_scope_id = scope;
}

bool urxe_cma_addr_mix(const struct sockaddr *a, const struct sockaddr *b)
{
	union ibv_gid any = {{0}}, ga, gb;

	if (urxe_cma_addr_ib(a) != urxe_cma_addr_ib(b))
		return true;
	if (!urxe_cma_addr_ib(a))
		return urxe_cma_addr_v4(a) != urxe_cma_addr_v4(b);
	/* The GID that stands for any is of no family. */
	urxe_cma_addr_gid(a, &ga);
	urxe_cma_addr_gid(b, &gb);
	return urxe_gid_is_v4(ga.raw) != urxe_gid_is_v4(gb.raw) && memcmp(&ga, &any, sizeof(any)) &&
	       memcmp(&gb, &any, sizeof(any));
}

/*
 * getaddrinfo() without hints gives IPv4-mapped IPv6 addresses where no interface of the kernel
 * has an IPv4 address, which is where urxe is at home. They mean IPv4.
 */
static bool mapped(const struct sockaddr *sa, uint32_t *ip)
{
	union ibv_gid gid;

	urxe_cma_addr_gid(sa, &gid);
	if (!urxe_gid_is_v4(gid.raw))
		return false;
	memcpy(ip, gid.raw + 12, 4);
	*ip = be32toh(*ip);
	return true;
}

bool urxe_cma_addr_v4(const struct sockaddr *sa)
{
	uint32_t ip;

	return mapped(sa, &ip);
}

/* As an IPv6 address: what is not IPv4 looks the same in both families that are left. */
static struct in6_addr as_v6(const struct sockaddr *sa)
{
	struct in6_addr a;
	union ibv_gid gid;

	urxe_cma_addr_gid(sa, &gid);
	memcpy(&a, gid.raw, sizeof(a));
	return a;
}

bool urxe_cma_addr_any(const struct sockaddr *sa)
{
	struct in6_addr a = as_v6(sa);
	uint32_t ip;

	return mapped(sa, &ip) ? ip == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(&a);
}

bool urxe_cma_addr_loopback(const struct sockaddr *sa)
{
	struct in6_addr a = as_v6(sa);
	uint32_t ip;

	return mapped(sa, &ip) ? ip >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(&a);
}

bool urxe_cma_addr_mcast(const struct sockaddr *sa)
{
	struct in6_addr a = as_v6(sa);
	uint32_t ip;

	return mapped(sa, &ip) ? IN_MULTICAST(ip) : IN6_IS_ADDR_MULTICAST(&a);
}

void urxe_cma_addr_print(const struct sockaddr *sa, const union ibv_gid *gid, char *buf)
{
	char host[INET6_ADDRSTRLEN];

	if (sa->sa_family && !urxe_cma_addr_ib(sa) && urxe_cma_addr_any(sa) &&
	    !urxe_cma_addr_port(sa)) {
		snprintf(buf, URXE_REPORT_ADDR_LEN, "-");
	} else if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(buf, URXE_REPORT_ADDR_LEN, "%s:%u", host, ntohs(in->sin_port));
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(buf, URXE_REPORT_ADDR_LEN, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		urxe_gid_print(gid->raw, buf, URXE_REPORT_ADDR_LEN);
	}
	if (!strcmp(buf, "::"))
		snprintf(buf, URXE_REPORT_ADDR_LEN, "-");
}
