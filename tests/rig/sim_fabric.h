/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A local fabric on a simulated network: several devices of one test program as if each were a
 * process of its own, on virtual time. It stands for netio/fabric*.c, whose calls it answers from a
 * table in the test's memory, and for the data plane: frames go from end to end of a link_sim.h
 * network, each to the members that it is for.
 *
 *	hub = sim_fabric_create(sim);
 *	sim_fabric_next(hub, 7, end);
 *	urxe_device_create(&dev, &cfg, &urxe_link_sim_fabric_ops, NULL, false);
 *
 * One fabric a program. Members that are created with `ip` all the same share those addresses.
 */
#ifndef URXE_TEST_SIM_FABRIC_H
#define URXE_TEST_SIM_FABRIC_H

#include "link_sim.h"

struct sim_fabric;

/** sim_fabric_create - the fabric of the ends of @sim. */
struct sim_fabric *sim_fabric_create(struct urxe_sim *sim);
/** sim_fabric_destroy - when all its devices are gone. */
void sim_fabric_destroy(struct sim_fabric *hub);

/** sim_fabric_next - the next port that is made is the process with this slot (1 to 254), at this
 * end of the network. */
void sim_fabric_next(struct sim_fabric *hub, unsigned slot, struct urxe_sim_end *end);

/** sim_fabric_kill - the process dies, as by kill -9: nothing is sent to or by it, what it had
 * claimed is free, and all others are told. */
void sim_fabric_kill(struct sim_fabric *hub, unsigned slot);

/** sim_fabric_slot - the slot of a host of sim_fabric_join(). */
unsigned sim_fabric_slot(unsigned host);
/** sim_fabric_join - what pair_params.join wants: hosts, from 1 on, are processes of one fabric. */
void sim_fabric_join(struct urxe_sim *sim, struct urxe_sim_end *end, unsigned host);
/** sim_fabric_hub - the fabric that there is. */
struct sim_fabric *sim_fabric_hub(void);

extern const struct urxe_link_ops urxe_link_sim_fabric_ops;

#endif
