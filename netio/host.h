/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The addresses that this host has by its kernel, for a port that shares them, by netlink
 * (rtnetlink(7), libnl): those of each interface that is up.
 */
#ifndef URXE_NETIO_HOST_H
#define URXE_NETIO_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct urxe_host;

/** One address. */
struct urxe_host_addr {
	uint8_t gid[16];    /* IPv4 as ::ffff:a.b.c.d */
	uint8_t prefix_len; /* of the address family */
	uint32_t scope_id;  /* fe80::/10: the interface's index (sin6_scope_id); else 0 */
};

/**
 * urxe_host_open - begin to look, and to listen for changes
 *
 * What changes from here on, urxe_host_changed() tells. Returns 0 or errno. One thread at a time
 * uses a struct urxe_host.
 */
int urxe_host_open(struct urxe_host **host);
/** urxe_host_only - from now on, those of one interface alone. */
void urxe_host_only(struct urxe_host *host, const char *ifname);
/** urxe_host_close - @host may be NULL. */
void urxe_host_close(struct urxe_host *host);

/**
 * urxe_host_changed - may the addresses have changed since it was last asked?
 *
 * One system call when they have not. True as well in a child process, whose parent listens by the
 * same socket: it gets one of its own.
 */
bool urxe_host_changed(struct urxe_host *host);

/**
 * urxe_host_read - the addresses, the most useful first
 * @list: room for @max of them
 *
 * Those of the interface that the default route leads to come first, then by interface; link-local
 * ones behind the others of a family, IPv4 before IPv6, and each once. Loopback addresses are
 * there for a family that has no other. Duplicates as found by IPv6 (RFC 4862), and what is not yet
 * known to be none, are left out. Returns 0 with *@n, or errno.
 */
int urxe_host_read(struct urxe_host *host, struct urxe_host_addr *list, unsigned max, unsigned *n);

#endif
