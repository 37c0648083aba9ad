/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The library of DPDK ports as its loader sees it: one symbol.
 */
#include "netio/dpdk.h"
#include "netio/link_ethdev.h"

static void prepare(const struct urxe_eal_wants *wants, enum urxe_log_level level)
{
	urxe_eal_wants_set(wants);
	urxe_log_set_level(level);
}

extern const struct urxe_dpdk urxe_dpdk_library;

__attribute__((visibility("default"))) const struct urxe_dpdk urxe_dpdk_library = {
	.version = URXE_DPDK_VERSION,
	.sizes = URXE_DPDK_SIZES,
	.prepare = prepare,
	.ops = &urxe_link_ethdev_ops,
};
