/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is DPDK's, as those see it who have no DPDK.
 */
#ifndef URXE_NETIO_LINK_DPDK_H
#define URXE_NETIO_LINK_DPDK_H

#include "netio/link.h"

/**
 * Any DPDK port. The first open() loads a library (netio/dpdk.h), and starts EAL if need be.
 * A port whose peer is not there yet opens too, without carrier, and comes up when the peer does;
 * so does one whose peer died. Frames sent without carrier are dropped, as a NIC does. After fork()
 * the child's calls do nothing (open: ENODEV).
 *
 * The data path's functions are there after an open() that succeeded, not before.
 */
extern struct urxe_link_ops urxe_link_dpdk_ops;

#endif
