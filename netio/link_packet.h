/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is an interface of the kernel's (`net_af_packet0,iface=IF`).
 */
#ifndef URXE_NETIO_LINK_PACKET_H
#define URXE_NETIO_LINK_PACKET_H

#include "netio/link.h"

/**
 * Packet sockets on an interface of the kernel's. Needs CAP_NET_RAW, and no DPDK. An interface that
 * is down opens too, without carrier; one that is deleted is dead for good. After fork() the
 * child's calls do nothing (open: ENODEV).
 */
extern const struct urxe_link_ops urxe_link_packet_ops;

#endif
