/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Socket addresses and GIDs: a GID is an IPv6 address, or ::ffff:a.b.c.d for IPv4 (IBTA A17). */
#include <string.h>

#include "cm/cma.h"

socklen_t urxe_cma_addr_len(const struct sockaddr *sa)
{
	if (!sa)
		return 0;
	switch (sa->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
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

void urxe_cma_addr_gid(const struct sockaddr *sa, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (sa->sa_family == AF_INET) {
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &v4(sa)->sin_addr, 4);
	} else {
		memcpy(gid->raw, &v6(sa)->sin6_addr, 16);
	}
}

bool urxe_cma_gid_v4(const union ibv_gid *gid)
{
	return !memcmp(gid->raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
}

void urxe_cma_gid_addr(const union ibv_gid *gid, int family, uint16_t port, struct sockaddr *sa)
{
	if (family == AF_INET) {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htobe16(port)};

		memcpy(&in.sin_addr, gid->raw + 12, 4);
		memcpy(sa, &in, sizeof(in));
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
	default:
		return 0;
	}
}

void urxe_cma_addr_set_port(struct sockaddr *sa, uint16_t port)
{
	if (sa->sa_family == AF_INET)
		((struct sockaddr_in *)(void *)sa)->sin_port = htobe16(port);
	else if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = htobe16(port);
}

/*
 * getaddrinfo() without hints gives IPv4-mapped IPv6 addresses where no interface of the kernel
 * has an IPv4 address, which is where urxe is at home. They mean IPv4.
 */
static bool mapped(const struct sockaddr *sa, uint32_t *ip)
{
	if (sa->sa_family == AF_INET) {
		*ip = be32toh(v4(sa)->sin_addr.s_addr);
		return true;
	}
	if (sa->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6(sa)->sin6_addr))
		return false;
	memcpy(ip, v6(sa)->sin6_addr.s6_addr + 12, 4);
	*ip = be32toh(*ip);
	return true;
}

bool urxe_cma_addr_v4(const struct sockaddr *sa)
{
	uint32_t ip;

	return mapped(sa, &ip);
}

bool urxe_cma_addr_any(const struct sockaddr *sa)
{
	uint32_t ip;

	if (mapped(sa, &ip))
		return ip == INADDR_ANY;
	return sa->sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6(sa)->sin6_addr);
}

bool urxe_cma_addr_loopback(const struct sockaddr *sa)
{
	uint32_t ip;

	if (mapped(sa, &ip))
		return ip >> 24 == 127;
	return sa->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6(sa)->sin6_addr);
}

bool urxe_cma_addr_mcast(const struct sockaddr *sa)
{
	uint32_t ip;

	if (mapped(sa, &ip))
		return IN_MULTICAST(ip);
	return sa->sa_family == AF_INET6 && IN6_IS_ADDR_MULTICAST(&v6(sa)->sin6_addr);
}
