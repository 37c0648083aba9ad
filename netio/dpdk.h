/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the library of DPDK ports has for who loads it (netio/dpdk_load.c). The first port that is
 * DPDK's loads it, so that no other process has DPDK in it. No DPDK here.
 */
#ifndef URXE_NETIO_DPDK_H
#define URXE_NETIO_DPDK_H

#include <stddef.h>
#include <stdint.h>

#include "netio/eal_want.h"
#include "netio/link.h"
#include "urxe/log.h"

#define URXE_DPDK_SHARED  "liburxe-dpdk.so"	   /* with the shared libraries of DPDK */
#define URXE_DPDK_STATIC  "liburxe-dpdk-static.so" /* with a DPDK of its own in it */
#define URXE_DPDK_SYMBOL  "urxe_dpdk_library"	   /* a struct urxe_dpdk */
#define URXE_DPDK_VERSION 3 /* grows with any change of what is below, and of what it includes */

struct urxe_dpdk {
	uint32_t version; /* URXE_DPDK_VERSION; the rest is another's if it differs */
	uint32_t sizes;	  /* URXE_DPDK_SIZES: where somebody forgot the version */
	/** prepare: before the first open, with what all devices want. */
	void (*prepare)(const struct urxe_eal_wants *wants, enum urxe_log_level level);
	const struct urxe_link_ops *ops; /* all but mac() and now() */
};

#define URXE_DPDK_SIZES                                                                    \
	((uint32_t)(sizeof(struct urxe_dpdk) + 7 * sizeof(struct urxe_link_ops) +          \
		    61 * sizeof(struct urxe_port_config) + sizeof(struct urxe_link_info) + \
		    509 * sizeof(struct urxe_frame) + 31 * sizeof(struct urxe_eal_wants)))

/**
 * urxe_dpdk_load - the library of DPDK ports, loaded unless it is
 * @plugins: a driver is needed that may not be in URXE_DPDK_STATIC
 *
 * A program that has DPDK for itself but has not started it keeps it: the library then has its own
 * one. 0, or errno and a line in @err. One call at a time.
 */
int urxe_dpdk_load(bool plugins, const struct urxe_dpdk **out, char *err, size_t errlen);

#endif
