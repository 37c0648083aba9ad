/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The links there are, by what a `port` begins with.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/eal_want.h"
#include "netio/link.h"
#include "netio/link_dpdk.h"
#include "netio/link_fabric.h"
#include "netio/link_packet.h"
#include "netio/link_udp.h"
#include "netio/pci.h"

/* Virtual devices of DPDK 22.11 to 24.11. */
static const char *const drivers[] = {
	"net_af_packet", "net_af_xdp",	    "net_bonding", "net_failsafe",   "net_memif",
	"net_null",	 "net_pcap",	    "net_ring",	   "net_softnic",    "net_tap",
	"net_tun",	 "net_vdev_netvsc", "net_vhost",   "net_virtio_user"};
#define NUM_DRIVERS (sizeof(drivers) / sizeof(drivers[0]))

static int check_interface(const struct urxe_port_config *cfg, const char *eal_args, char *err,
			   size_t errlen)
{
	char name[64];

	/* The link says what is missing, when it opens. */
	if (!urxe_devargs_get(cfg->port, "iface", name, sizeof(name)) || if_nametoindex(name))
		return 0;
	snprintf(err, errlen,
		 "%s: port: found no interface '%s', accepted: iface= of one that is there",
		 cfg->name, name);
	return EINVAL;
}

static int check_udp(const struct urxe_port_config *cfg, const char *eal_args, char *err,
		     size_t errlen)
{
	return urxe_udp_check(cfg, err, errlen);
}

/* As DPDK does: by what the name begins with. */
static bool is_driver(const char *port)
{
	for (unsigned i = 0; i < NUM_DRIVERS; i++) {
		const char *suffix = drivers[i] + strlen("net_");

		if (!strncmp(port, drivers[i], strlen(drivers[i])) ||
		    (!strncmp(port, "eth_", 4) && !strncmp(port + 4, suffix, strlen(suffix))))
			return true;
	}
	return !strncmp(port, "virtio_user", 11);
}

static int check_dpdk(const struct urxe_port_config *cfg, const char *eal_args, char *err,
		      size_t errlen)
{
	struct urxe_pci pci;
	char addr[64];
	size_t n;

	if (urxe_devargs_pci(cfg->port, addr, sizeof(addr))) {
		if (!urxe_pci_inspect(&urxe_pci_machine, addr, &pci))
			return 0;
		snprintf(err, errlen,
			 "%s: port: found no PCI device %s, accepted: one that `urxe bind --list` "
			 "shows",
			 cfg->name, addr);
		return EINVAL;
	}
	if (is_driver(cfg->port) || strstr(eal_args, "-d"))
		return 0;
	n = (size_t)snprintf(
		err, errlen,
		"%s: port: found '%.100s', accepted: fabric, udp, loop, a PCI address, "
		"or a name that begins with",
		cfg->name, cfg->port);
	for (unsigned i = 0; i < NUM_DRIVERS && n < errlen; i++)
		n += (size_t)snprintf(err + n, errlen - n, "%s %s", i ? "," : "", drivers[i]);
	return EINVAL;
}

static const struct link_kind {
	const char *prefix;
	bool whole; /* the port is just that */
	bool word;  /* arguments may follow, and nothing else */
	bool eal;   /* DPDK must know of it before it starts */
	const struct urxe_link_ops *ops;
	/* As urxe_link_check(); NULL: it can always be. */
	int (*check)(const struct urxe_port_config *cfg, const char *eal_args, char *err,
		     size_t errlen);
} kinds[] = {
	{.prefix = "loop", .whole = true, .ops = &urxe_link_loop_ops},
	{.prefix = "fabric", .word = true, .ops = &urxe_link_fabric_ops},
	{.prefix = "udp", .word = true, .ops = &urxe_link_udp_ops, .check = check_udp},
	{.prefix = "net_af_packet", .ops = &urxe_link_packet_ops, .check = check_interface},
	{.prefix = "eth_af_packet",
	 .ops = &urxe_link_packet_ops,
	 .check = check_interface}, /* DPDK's other name */
	{.prefix = "", .eal = true, .ops = &urxe_link_dpdk_ops, .check = check_dpdk},
};

static bool matches(const struct link_kind *k, const char *port)
{
	size_t len = strlen(k->prefix);

	if (k->whole)
		return !strcmp(port, k->prefix);
	return !strncmp(port, k->prefix, len) && !(k->word && port[len] && port[len] != ',');
}

int urxe_link_check(const struct urxe_port_config *cfg, const char *eal_args, char *err,
		    size_t errlen)
{
	const struct link_kind *k = kinds;

	while (!matches(k, cfg->port))
		k++;
	return k->check ? k->check(cfg, eal_args, err, errlen) : 0;
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
