/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the tests of netio share: ports on a simulated network, a raw peer with the address
 * of kernel rxe's captures, golden frames in hex, counters by name.
 */
#ifndef URXE_TEST_NETIO_NET_H
#define URXE_TEST_NETIO_NET_H

#include "harness.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link_sim.h"
#include "netio/stack.h"

/* Addresses of the captures: node 1 and node 2. */
static const uint8_t mac1[6] = {0x52, 0x54, 0x0a, 0x09, 0x00, 0x01};
static const uint8_t mac2[6] = {0x52, 0x54, 0x0a, 0x09, 0x00, 0x02};

/* kernel rxe's, see the captures; node 1 to node 2 */
#define FRAME_V4_SEND                                                                          \
	"52540a09000252540a09000108004500003ce77c400040113f200a0900010a090002fcff12b700280000" \
	"0400ffff00000011808a222a0000564b544179c000000530000001003587047d"
#define FRAME_V4_ACK                                                                           \
	"52540a09000152540a0900020800450000300af4400040111bb50a0900020a090001fcff12b7001c0000" \
	"1100ffff00000011008a222a1f000001f2757a1b"
#define FRAME_V6_SEND                                                                  \
	"52540a09000252540a09000186dd6000000000281140fd000000000000000000000000000001" \
	"fd000000000000000000000000000002e0cf12b7002800000400ffff0000001280150dc9"     \
	"0000556d3bfc1a90000009c200000040b04d528e"
#define FRAME_V4_CSWAP                                                                         \
	"52540a09000252540a09000108004500004810ec4000401115a50a0900010a090002c84312b700340000" \
	"1300ffff0000002d80889473000055e05ddaf000000023c0000000000000000000000000000000009106" \
	"6b95"

/* A FLUSH of the kernel's Soft-RoCE (7.2): provider/quirks.md, flush-icrc. */
#define FRAME_V4_FLUSH                                                                         \
	"9ec4eef67edc52540a090001080045000040a5d14000401180c70a0900010a090002e9dd12b7002c0000" \
	"1c00ffff00c3ac9380eed5c000000001000055f1801831d8f4bc25ab00001770aa4323bf"

static inline uint32_t unhex(const char *hex, uint8_t *out)
{
	uint32_t n = 0;

	for (unsigned v; *hex && sscanf(hex, "%2x", &v) == 1; hex += 2)
		out[n++] = (uint8_t)v;
	return n;
}

static inline void gid_of(const char *addr, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (strchr(addr, ':'))
		inet_pton(AF_INET6, addr, gid);
	else
		gid[10] = gid[11] = 0xff, inet_pton(AF_INET, addr, gid + 12);
}

static inline void cfg_add(struct urxe_port_config *cfg, const char *addr, unsigned prefix)
{
	struct urxe_config_ip *ip = &cfg->ips[cfg->num_ips++];

	gid_of(addr, ip->gid);
	ip->prefix_len = (uint8_t)prefix;
	ip->ipv4 = !strchr(addr, ':');
}

/* Node @n of the captures. */
static inline struct urxe_port_config node_cfg(unsigned n)
{
	struct urxe_port_config cfg = {.mtu = 1500, .vlan = URXE_NO_VLAN, .has_mac = true};
	char addr[32];

	snprintf(cfg.name, sizeof(cfg.name), "urxe%u", n);
	strcpy(cfg.port, "sim");
	memcpy(cfg.mac, n == 1 ? mac1 : mac2, 6);
	cfg.mac[5] = (uint8_t)n;
	snprintf(addr, sizeof(addr), "10.9.0.%u", n);
	cfg_add(&cfg, addr, 24);
	snprintf(addr, sizeof(addr), "fd00::%u", n);
	cfg_add(&cfg, addr, 64);
	return cfg;
}

static inline uint64_t counter(struct urxe_port *port, const char *name)
{
	const char *const *names;
	uint64_t v[URXE_COUNTERS];
	unsigned n = urxe_port_counters(port, &names, v, URXE_COUNTERS);

	for (unsigned i = 0; i < n; i++) {
		if (!strcmp(names[i], name))
			return v[i];
	}
	CU_FAIL("no such counter");
	return 0;
}

static inline struct urxe_path *path_to(struct urxe_port *port, const char *addr, uint16_t sport)
{
	struct urxe_path_attr a = {.udp_sport = sport};
	struct urxe_path *path = NULL;

	gid_of(addr, a.dgid);
	if (urxe_port_route(port, a.dgid, &a.sgid_index, a.dgid) ||
	    urxe_path_create(port, &a, &path))
		return NULL;
	return path;
}

/* Send @len bytes that start with a BTH, as the provider does: headers, then payload. */
static inline int send_bytes(struct urxe_lane *lane, struct urxe_path *path, const void *data,
			     uint32_t len)
{
	struct urxe_tx tx;
	int err = urxe_tx_begin(lane, path, urxe_bth_dqpn(data), &tx, len);

	if (err)
		return err;
	memcpy(tx.bth, data, URXE_BTH_LEN);
	urxe_tx_headers(&tx, URXE_BTH_LEN);
	urxe_tx_append(&tx, (const uint8_t *)data + URXE_BTH_LEN, len - URXE_BTH_LEN);
	urxe_tx_commit(lane, &tx);
	return 0;
}

/* A port and its lane, alone with a raw peer (or another port) on a network. */
struct node {
	struct urxe_sim_end *end;
	struct urxe_port *port;
	struct urxe_lane *lane;
};

static inline void node_start(struct node *n, struct urxe_sim *sim,
			      const struct urxe_sim_params *params,
			      const struct urxe_port_config *cfg)
{
	n->end = urxe_sim_end(sim, params);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&n->port, cfg, &urxe_link_sim_ops, n->end), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(n->port), 0);
	n->lane = urxe_port_lane(n->port, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(n->lane);
}

/* Timers and whatever arrives that is not RoCEv2; packets that are get counted and released. */
static inline unsigned node_poll(struct node *n)
{
	struct urxe_packet pkts[16];
	unsigned k;

	urxe_lane_lock(n->lane);
	k = urxe_lane_rx(n->lane, pkts, 16);
	urxe_lane_release(n->lane, pkts, k);
	urxe_lane_tick(n->lane, urxe_port_now(n->port));
	urxe_lane_unlock(n->lane);
	return k;
}

static inline uint64_t node_tick(struct node *n)
{
	uint64_t next;

	urxe_lane_lock(n->lane);
	next = urxe_lane_tick(n->lane, urxe_port_now(n->port));
	urxe_lane_unlock(n->lane);
	return next;
}

/* Let everything arrive; the raw end forgets it. */
static inline unsigned drain(struct urxe_sim *sim, struct urxe_sim_end *raw)
{
	uint8_t buf[2048];
	unsigned n = 0;

	while (urxe_sim_step(sim))
		;
	while (urxe_sim_recv(raw, buf, sizeof(buf)))
		n++;
	return n;
}

#endif
