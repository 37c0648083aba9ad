/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is a DPDK ethdev.
 */
#ifndef URXE_NETIO_LINK_ETHDEV_H
#define URXE_NETIO_LINK_ETHDEV_H

#include "netio/link.h"

/** Any DPDK port, as netio/link_dpdk.h has it; without mac() and now(), which need no DPDK. */
extern const struct urxe_link_ops urxe_link_ethdev_ops;

#endif
