/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is DPDK's: what it can say without DPDK, and the way to what cannot
 * (link_ethdev.c). Once that is loaded its functions stand in the table of this link, so that the
 * data path calls them as it calls any link's.
 */
#include <errno.h>
#include <string.h>

#include "netio/clock.h"
#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/dpdk.h"
#include "netio/link_dpdk.h"
#include "netio/pci.h"
#include "urxe/lock.h"
#include "urxe/log.h"

static struct {
	struct urxe_mutex lock;
	const struct urxe_dpdk *library;
} dpdk = {.lock = URXE_MUTEX_INIT};

/* Nobody reads these before a port of ours is started, which comes after. */
static void take_functions(const struct urxe_link_ops *from)
{
	struct urxe_link_ops *to = &urxe_link_dpdk_ops;

	to->close = from->close;
	to->alloc = from->alloc;
	to->free = from->free;
	to->rx = from->rx;
	to->let_go = from->let_go;
	to->tx = from->tx;
	to->up = from->up;
	to->look = from->look;
	to->dead = from->dead;
	to->mcast = from->mcast;
	to->everything = from->everything;
	to->dropped = from->dropped;
	to->refused = from->refused;
	to->wait = from->wait;
}

static int load(char *err, size_t errlen) URXE_REQUIRES(dpdk.lock)
{
	const struct urxe_dpdk *library;
	struct urxe_eal_wants wants;
	int ret;

	if (dpdk.library)
		return 0;
	ret = urxe_eal_room(err, errlen);
	if (ret)
		return ret;
	urxe_eal_wants(&wants);
	ret = urxe_dpdk_load(wants.plugins, &library, err, errlen);
	if (ret)
		return ret;
	library->prepare(&wants, (enum urxe_log_level)atomic_load(&urxe_log_threshold));
	take_functions(library->ops);
	dpdk.library = library;
	return 0;
}

static int dpdk_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		     uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	char err[400] = "";
	int ret;

	urxe_mutex_lock(&dpdk.lock);
	ret = load(err, sizeof(err));
	urxe_mutex_unlock(&dpdk.lock);
	if (ret) {
		urxe_err("%s: cannot start DPDK: %s%s%s", cfg->name, err, err[0] ? ": " : "",
			 strerror(ret));
		return ret;
	}
	return dpdk.library->ops->open(arg, cfg, mac, l3_mtu, link, info);
}

static bool dpdk_mac(void *arg, const struct urxe_port_config *cfg, uint8_t mac[6])
{
	char addr[32];

	return urxe_devargs_pci(cfg->port, addr, sizeof(addr)) &&
	       urxe_pci_mac(&urxe_pci_machine, addr, mac);
}

/* Read for each burst, so nothing that is written shares its cache lines. */
__attribute__((aligned(64))) struct urxe_link_ops urxe_link_dpdk_ops = {
	.name = "dpdk",
	.mac = dpdk_mac,
	.open = dpdk_open,
	.now = urxe_clock_now,
};
