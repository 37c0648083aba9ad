/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IB CMs on a pipe that loses, doubles, delays and reorders MADs, on virtual time, from a seed.
 * Nodes are 10.0.net.(index + 1), in two networks.
 */
#ifndef URXE_TEST_CM_NET_H
#define URXE_TEST_CM_NET_H

#include <stddef.h>

#include "cm/core/cm.h"

#define MS	     1000000ull
#define CM_NET_NODES 3
#define CM_NET_SAID  16

struct cm_net;

struct cm_node {
	struct cm_net *net;
	unsigned index;
	struct urxe_cm *cm;
	struct urxe_cm_id *listener;
	bool dead; /* neither hears nor speaks */
};

struct cm_net_mad {
	uint64_t at;
	unsigned to;
	union ibv_gid sgid, dgid;
	uint8_t mad[URXE_MAD_LEN];
};

struct cm_net {
	struct cm_node node[CM_NET_NODES];
	uint64_t now, rnd;
	unsigned loss, dup; /* percent */
	uint64_t max_delay;
	struct cm_net_mad *fly;
	size_t n_fly, room;
	struct cm_net_mad said[CM_NET_SAID]; /* the first MADs that were sent, lost ones too */
	size_t n_said;
	uint64_t hash; /* of all that was */
	/* What the applications do: when next (UINT64_MAX: nothing), and that. NULL: nothing. */
	uint64_t (*next_todo)(struct cm_net *n);
	void (*do_todo)(struct cm_net *n);
	/* NULL, or called before a MAD arrives. */
	void (*before_arrival)(struct cm_net *n, const struct cm_net_mad *f);
};

/** cm_net_open - @n is zeros; each node's CM has the GUID 0x1000 + its index. */
void cm_net_open(struct cm_net *n, uint64_t seed, unsigned loss, unsigned dup, uint64_t max_delay);
void cm_net_close(struct cm_net *n);
/** cm_net_run - to the time, in the order of what is due. */
void cm_net_run(struct cm_net *n, uint64_t end);
/** cm_net_again - a MAD that was said arrives now (again). */
void cm_net_again(struct cm_net *n, size_t i);
/** cm_net_below - a random number below @max. */
uint32_t cm_net_below(struct cm_net *n, uint32_t max);
/** cm_net_path - from a node to another, in network 0 or 1. */
struct urxe_cm_path cm_net_path(unsigned from, unsigned to, unsigned net);

#endif
