/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* IB CMs on a net that loses, doubles and delays MADs, on virtual time, from a seed. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cm_net.h"
#include "urxe/free.h"
#include "urxe/random.h"

uint32_t cm_net_below(struct cm_net *n, uint32_t max)
{
	return urxe_random_below(&n->rnd, max);
}

static void node_gid(unsigned i, unsigned net, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[12] = 10;
	gid->raw[14] = (uint8_t)net;
	gid->raw[15] = (uint8_t)(i + 1);
}

struct urxe_cm_path cm_net_path(unsigned from, unsigned to, unsigned net)
{
	struct urxe_cm_path p = {
		.mtu = IBV_MTU_1024, .hop_limit = 64, .sgid_index = (uint8_t)net, .port_num = 1};

	node_gid(from, net, &p.sgid);
	node_gid(to, net, &p.dgid);
	return p;
}

static void fill(struct cm_net_mad *f, const struct urxe_cm_path *path, unsigned to,
		 const uint8_t *mad)
{
	f->to = to;
	f->sgid = path->sgid;
	f->dgid = path->dgid;
	memcpy(f->mad, mad, URXE_MAD_LEN);
}

static void fly(struct cm_net *n, const struct urxe_cm_path *path, unsigned to, const uint8_t *mad)
{
	struct cm_net_mad *f;

	if (n->n_fly == n->room) {
		n->room = n->room ? n->room * 2 : 64;
		n->fly = realloc(n->fly, n->room * sizeof(*n->fly));
		if (!n->fly)
			abort();
	}
	f = &n->fly[n->n_fly++];
	f->at = n->now + 1 + urxe_random_step(&n->rnd) % n->max_delay;
	fill(f, path, to, mad);
}

static void net_send(void *arg, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct cm_node *node = arg;
	struct cm_net *n = node->net;
	unsigned to = path->dgid.raw[15] - 1u;

	if (node->dead || to >= CM_NET_NODES)
		return;
	for (unsigned i = 0; i < URXE_MAD_LEN; i++)
		n->hash = (n->hash ^ mad[i]) * 0x100000001b3ull;
	if (n->n_said < CM_NET_SAID)
		fill(&n->said[n->n_said++], path, to, mad);
	if (cm_net_below(n, 100) < n->loss)
		return;
	fly(n, path, to, mad);
	if (cm_net_below(n, 100) < n->dup)
		fly(n, path, to, mad);
}

static uint64_t net_now(void *arg)
{
	return ((struct cm_node *)arg)->net->now;
}

static uint64_t net_random(void *arg)
{
	return urxe_random_step(&((struct cm_node *)arg)->net->rnd);
}

static uint32_t net_comm_id(void *arg)
{
	return (uint32_t)net_random(arg);
}

static int net_own_gid(void *arg, const union ibv_gid *gid)
{
	return gid->raw[15] - 1u == ((struct cm_node *)arg)->index ? gid->raw[14] : -1;
}

static const struct urxe_cm_ops ops = {net_send,    net_now, net_random, net_comm_id,
				       net_own_gid, NULL,    urxe_free,	 NULL,
				       NULL,	    NULL,    NULL};

static void arrive(struct cm_net *n, const struct cm_net_mad *f)
{
	struct urxe_cm_source src = {.sgid = f->sgid, .dgid = f->dgid, .qpn = 1};

	if (n->node[f->to].dead)
		return;
	if (n->before_arrival)
		n->before_arrival(n, f);
	urxe_cm_recv(n->node[f->to].cm, &src, f->mad, URXE_MAD_LEN);
}

static void deliver(struct cm_net *n, size_t i)
{
	struct cm_net_mad f = n->fly[i];

	n->fly[i] = n->fly[--n->n_fly];
	arrive(n, &f);
}

void cm_net_again(struct cm_net *n, size_t i)
{
	struct cm_net_mad f = n->said[i];

	arrive(n, &f);
}

void cm_net_run(struct cm_net *n, uint64_t end)
{
	for (;;) {
		uint64_t next = end, todo = n->next_todo ? n->next_todo(n) : UINT64_MAX;
		struct urxe_cm *cm = NULL;
		size_t mad = SIZE_MAX;

		for (size_t i = 0; i < n->n_fly; i++) {
			if (n->fly[i].at < next) {
				next = n->fly[i].at;
				mad = i;
			}
		}
		for (unsigned i = 0; i < CM_NET_NODES; i++) {
			uint64_t at = urxe_cm_deadline(n->node[i].cm);

			if (!n->node[i].dead && at < next) {
				next = at;
				cm = n->node[i].cm;
			}
		}
		if (todo < next) {
			n->now = todo > n->now ? todo : n->now;
			n->do_todo(n);
			continue;
		}
		n->now = next > n->now ? next : n->now;
		if (cm)
			urxe_cm_run(cm);
		else if (mad != SIZE_MAX)
			deliver(n, mad);
		else
			return;
	}
}

void cm_net_open(struct cm_net *n, uint64_t seed, unsigned loss, unsigned dup, uint64_t max_delay)
{
	n->rnd = seed * 2654435761u + 99;
	n->now = 1;
	n->loss = loss;
	n->dup = dup;
	n->max_delay = max_delay;
	for (unsigned i = 0; i < CM_NET_NODES; i++) {
		struct cm_node *node = &n->node[i];
		struct urxe_cm_config cfg;

		urxe_cm_config_default(&cfg);
		cfg.ca_guid = 0x1000 + i;
		*node = (struct cm_node){.net = n, .index = i};
		node->cm = urxe_cm_create(&ops, node, &cfg);
		if (!node->cm)
			abort();
	}
}

void cm_net_close(struct cm_net *n)
{
	for (unsigned i = 0; i < CM_NET_NODES; i++) {
		assert(!urxe_cm_get_counters(n->node[i].cm)->bad_steps);
		urxe_cm_destroy_all(n->node[i].cm);
	}
	free(n->fly);
}
