/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The links there are, by what a `port` begins with.
 */
#include <string.h>

#include "netio/config.h"
#include "netio/eal_want.h"
#include "netio/link.h"
#include "netio/link_dpdk.h"
#include "netio/link_fabric.h"
#include "netio/link_packet.h"

static const struct link_kind {
	const char *prefix;
	bool whole; /* the port is just that */
	bool eal;   /* DPDK must know of it before it starts */
	const struct urxe_link_ops *ops;
} kinds[] = {
	{.prefix = "loop", .whole = true, .ops = &urxe_link_loop_ops},
	{.prefix = "fabric", .ops = &urxe_link_fabric_ops},
	{.prefix = "net_af_packet", .ops = &urxe_link_packet_ops},
	{.prefix = "eth_af_packet", .ops = &urxe_link_packet_ops}, /* DPDK's other name */
	{.prefix = "", .eal = true, .ops = &urxe_link_dpdk_ops},
};

static bool matches(const struct link_kind *k, const char *port)
{
	return k->whole ? !strcmp(port, k->prefix) : !strncmp(port, k->prefix, strlen(k->prefix));
}

void urxe_link_select(const struct urxe_port_config *cfg, const struct urxe_link_ops **ops,
		      void **arg)
{
	const struct link_kind *k = kinds;

	while (!matches(k, cfg->port))
		k++;
	if (k->eal)
		urxe_eal_want(cfg, urxe_config_l3_mtu(cfg));
	*arg = NULL;
	*ops = k->ops;
}
