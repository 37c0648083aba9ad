/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is a DPDK ethdev.
 */
#ifndef URXE_NETIO_LINK_ETHDEV_H
#define URXE_NETIO_LINK_ETHDEV_H

#include "netio/link.h"

/**
 * Any DPDK port. open() starts EAL if need be. A port whose peer is not there yet opens too,
 * without carrier, and comes up when the peer does; so does one whose peer died. Frames sent
 * without carrier are dropped, as a NIC does. After fork() the child's calls do nothing (open:
 * ENODEV).
 */
extern const struct urxe_link_ops urxe_link_ethdev_ops;

#endif
