/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link between processes of one machine (`port` = fabric): link_fabric.c.
 */
#ifndef URXE_NETIO_LINK_FABRIC_H
#define URXE_NETIO_LINK_FABRIC_H

#include "netio/link.h"

extern const struct urxe_link_ops urxe_link_fabric_ops;

#endif
