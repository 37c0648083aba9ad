/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is a DPDK ethdev, and the choice of a link by configuration.
 */
#ifndef URXE_NETIO_LINK_ETHDEV_H
#define URXE_NETIO_LINK_ETHDEV_H

#include <stdint.h>

#include "netio/link.h"

/**
 * Any DPDK port. open() starts EAL if need be. A port whose peer is not there yet opens too,
 * without carrier, and comes up when the peer does; so does one whose peer died. Frames sent
 * without carrier are dropped, as a NIC does. After fork() the child's calls do nothing (open:
 * ENODEV).
 */
extern const struct urxe_link_ops urxe_link_ethdev_ops;

/**
 * urxe_link_select - the link for a device's `port`: "loop", or a DPDK port
 *
 * To be called for every configured device before the first link opens: EAL is started once and
 * must know then how much memory and which buses it needs. Starts nothing. Thread-safe.
 */
void urxe_link_select(const struct urxe_port_config *cfg, const struct urxe_link_ops **ops,
		      void **arg);

/** urxe_link_ethdev_now - the TSC in nanoseconds of CLOCK_MONOTONIC, where the kernel trusts it. */
uint64_t urxe_link_ethdev_now(void *arg);

#endif
