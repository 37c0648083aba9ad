/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is the kernel's UDP (`udp`): RoCEv2 by ordinary sockets on port 4791, which any
 * user may open. The kernel routes, resolves, fragments nothing, and makes the headers.
 */
#ifndef URXE_NETIO_LINK_UDP_H
#define URXE_NETIO_LINK_UDP_H

#include <stdbool.h>
#include <stddef.h>

struct urxe_link_ops;
struct urxe_port_config;

extern const struct urxe_link_ops urxe_link_udp_ops;

/** urxe_udp_port - does this `port` mean the link? */
bool urxe_udp_port(const char *port);

/**
 * urxe_udp_defaults - what `if=` and `bind=` mean for the device's addresses
 *
 * Addresses that are not given are the host's (cfg->host), those of an interface (cfg->host_if), or
 * the one of `bind=`. What cannot be read is left to urxe_udp_check().
 */
void urxe_udp_defaults(struct urxe_port_config *cfg);

/** urxe_udp_check - 0, or EINVAL and in @err what is accepted. Asks for nothing that may come
 * later, such as an address. */
int urxe_udp_check(const struct urxe_port_config *cfg, char *err, size_t errlen);

#endif
