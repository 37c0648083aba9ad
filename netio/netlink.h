/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A socket to talk to the kernel by (netlink(7)).
 */
#ifndef URXE_NETIO_NETLINK_H
#define URXE_NETIO_NETLINK_H

#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <stddef.h>

/** urxe_netlink_connect - in the network namespace of this thread, for @protocol (NETLINK_*). NULL:
 * this kernel has no such, or there is no memory. nl_socket_free() ends it. Thread-safe. */
static inline struct nl_sock *urxe_netlink_connect(int protocol)
{
	struct nl_sock *s = nl_socket_alloc();

	if (s && nl_connect(s, protocol)) {
		nl_socket_free(s);
		return NULL;
	}
	return s;
}

#endif
