/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the devices will need of DPDK's EAL, gathered before it starts. No DPDK.
 */
#ifndef URXE_NETIO_EAL_WANT_H
#define URXE_NETIO_EAL_WANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netio/config.h"

struct urxe_eal_wants {
	unsigned mb; /* memory for EAL itself and for the frames of all devices */
	bool pci;
	bool plugins; /* a driver may be one that DPDK's shared libraries alone have */
	unsigned allows;
	char allow[URXE_CONFIG_MAX_DEVICES][32]; /* PCI addresses */
	char args[256];				 /* the user's own, "" for none */
};

/**
 * urxe_eal_want - note, before EAL starts, what a device will need of it
 *
 * That is memory for its frames, and the PCI bus. Starts nothing. Thread-safe.
 */
void urxe_eal_want(const struct urxe_port_config *cfg, uint32_t l3_mtu);

/** urxe_eal_set_args - extra EAL arguments (configuration key `eal`), "" for none. Before start.
 * Thread-safe. */
void urxe_eal_set_args(const char *args);

/** urxe_eal_wants - all that was noted. Thread-safe. */
void urxe_eal_wants(struct urxe_eal_wants *out);

/** urxe_eal_wants_set - what another library has noted (netio/dpdk.h). Thread-safe. */
void urxe_eal_wants_set(const struct urxe_eal_wants *wants);

/**
 * urxe_eal_room - are there the descriptors and addresses that EAL's start takes?
 *
 * Where they run out in its midst, EAL says that its arguments are wrong, or ends the process. 0,
 * or errno and a line in @err. Thread-safe.
 */
int urxe_eal_room(char *err, size_t errlen);

#endif
