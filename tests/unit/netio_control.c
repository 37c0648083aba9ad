/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ARP, ND, ICMP, IGMP and MLD byte by byte: what we answer, announce and report. The frames
 * are written out here, but for those that the captures have.
 */
#include "netio_net.h"

static struct urxe_sim *sim;
static struct urxe_sim_end *raw;
static struct node n;

static void set_up(bool announced, uint16_t vlan)
{
	struct urxe_port_config cfg = node_cfg(1);

	cfg.vlan = vlan;
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	raw = urxe_sim_end(sim, NULL);
	node_start(&n, sim, NULL, &cfg);
	for (unsigned i = 0; announced && i < 3; i++) {
		node_tick(&n);
		urxe_sim_advance(sim, urxe_sim_now(sim) + 5 * URXE_SEC);
	}
	if (announced)
		drain(sim, raw);
}

/* The node has started, on a link that is not up. */
static void set_up_without_carrier(void)
{
	struct urxe_port_config cfg = node_cfg(1);

	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	raw = urxe_sim_end(sim, NULL);
	n.end = urxe_sim_end(sim, NULL);
	urxe_sim_end_up(n.end, false);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&n.port, &cfg, &urxe_link_sim_ops, n.end), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(n.port), 0);
	n.lane = urxe_port_lane(n.port, 0);
}

static void tear_down(void)
{
	urxe_port_destroy(n.port);
	drain(sim, raw);
	CU_ASSERT_EQUAL(urxe_sim_buffers(sim), 0);
	urxe_sim_destroy(sim);
}

static void put(const char *hex)
{
	uint8_t f[2048];

	urxe_sim_put(n.end, f, unhex(hex, f));
	CU_ASSERT_EQUAL(node_poll(&n), 0);
}

/* The next frame we sent is this one; "" for none. */
static void expect(const char *hex)
{
	uint8_t want[2048], got[2048];
	uint32_t len = unhex(hex, want), k;

	while (urxe_sim_step(sim))
		;
	k = urxe_sim_recv(raw, got, sizeof(got));
	CU_ASSERT_EQUAL(k, len);
	CU_ASSERT_TRUE(k == len && !memcmp(got, want, len));
	if (k != len || memcmp(got, want, len)) {
		printf("\n    want %s\n    got  ", hex);
		for (uint32_t i = 0; i < k; i++)
			printf("%02x", got[i]);
		printf("\n");
	}
}

static void arp_answer(void)
{
	set_up(true, URXE_NO_VLAN);
	put("ffffffffffff52540a0900020806"
	    "000108000604000152540a0900020a0900020000000000000a090001");
	expect("52540a09000252540a0900010806"
	       "000108000604000252540a0900010a09000152540a0900020a090002");
	put("ffffffffffff52540a0900020806"
	    "000108000604000152540a0900020a0900020000000000000a090007"); /* not us */
	expect("");
	CU_ASSERT_EQUAL(counter(n.port, "rx_arp_ignored"), 1);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_answered"), 1);
	tear_down();
}

/* Who asks has a group for an address: nobody is answered, and nothing is learned. */
static void group_asks(void)
{
	set_up(true, URXE_NO_VLAN);
	put("ffffffffffff52540a0900020806"
	    "0001080006040001ffffffffffff0a0900020000000000000a090001");
	CU_ASSERT_EQUAL(counter(n.port, "rx_arp_bad"), 1);
	put("ffffffffffffffffffffffff0806"
	    "000108000604000152540a0900020a0900020000000000000a090001");
	CU_ASSERT_EQUAL(counter(n.port, "rx_mac_source"), 1);
	put("3333ff00000152540a09000286dd6000000000203aff"
	    "fd000000000000000000000000000002ff0200000000000000000001ff000001"
	    "8700758e00000000fd0000000000000000000000000000010101ffff0a090002");
	CU_ASSERT_EQUAL(counter(n.port, "rx_nd_bad"), 1);
	expect("");
	CU_ASSERT_EQUAL(n.port->neigh.count, 0);
	tear_down();
}

/* Questions of strangers: 50 answers in 10 ms; a neighbour that we send to has its own. */
static void question_flood(void)
{
	static const char *const stranger =
		"ffffffffffff52540a0900090806"
		"000108000604000152540a0900090a0900090000000000000a090001";
	static const char *const neighbour =
		"ffffffffffff52540a0900020806"
		"000108000604000152540a0900020a0900020000000000000a090001";
	struct urxe_path *path;

	set_up(true, URXE_NO_VLAN);
	path = path_to(n.port, "10.9.0.2", 0xc000);
	CU_ASSERT_PTR_NOT_NULL_FATAL(path);
	put(neighbour);
	for (unsigned i = 0; i < 100; i++)
		put(stranger);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_answered"), 50);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_limited"), 51);
	drain(sim, raw);
	put(neighbour);
	expect("52540a09000252540a0900010806"
	       "000108000604000252540a0900010a09000152540a0900020a090002");
	for (unsigned i = 0; i < 100; i++)
		put(neighbour);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_answered"), 100);
	urxe_sim_advance(sim, urxe_sim_now(sim) + 10 * URXE_MSEC);
	put(stranger);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_answered"), 101);
	drain(sim, raw);
	urxe_path_destroy(path);
	tear_down();
}

static void arp_vlan(void)
{
	set_up(true, 100);
	put("ffffffffffff52540a090002810000640806"
	    "000108000604000152540a0900020a0900020000000000000a090001");
	expect("52540a09000252540a090001810000640806"
	       "000108000604000252540a0900010a09000152540a0900020a090002");
	put("ffffffffffff52540a0900020806" /* untagged */
	    "000108000604000152540a0900020a0900020000000000000a090001");
	expect("");
	CU_ASSERT_EQUAL(counter(n.port, "rx_vlan"), 1);
	tear_down();
}

static void announcements(void)
{
	/* An ARP probe and announcement; a DAD solicitation and an unsolicited advertisement. */
	static const char *const arp = "ffffffffffff52540a0900010806000108000604000152540a090001"
				       "0a0900010000000000000a090001";
	uint8_t f[2048];
	uint32_t len;

	set_up(false, URXE_NO_VLAN);
	node_tick(&n);
	expect("ffffffffffff52540a0900010806000108000604000152540a090001"
	       "000000000000000000000a090001");
	expect(arp);
	expect("3333ff00000152540a09000186dd6000000000183aff"
	       "00000000000000000000000000000000ff0200000000000000000001ff000001"
	       "87007da500000000fd000000000000000000000000000001");
	while (urxe_sim_step(sim))
		;
	len = urxe_sim_recv(raw, f, sizeof(f));
	CU_ASSERT_EQUAL(len, 86);
	CU_ASSERT_EQUAL(f[54], 136);
	CU_ASSERT_EQUAL(f[58], 0x20);
	expect("");
	urxe_sim_advance(sim, urxe_sim_now(sim) + 2 * URXE_SEC - 1);
	node_tick(&n);
	expect("");
	urxe_sim_advance(sim, urxe_sim_now(sim) + 1);
	node_tick(&n);
	expect(arp);
	len = urxe_sim_recv(raw, f, sizeof(f));
	CU_ASSERT_EQUAL(f[54], 136);
	urxe_sim_advance(sim, urxe_sim_now(sim) + 100 * URXE_SEC);
	node_tick(&n);
	expect("");
	tear_down();
}

static void no_carrier(void)
{
	uint64_t next;

	set_up_without_carrier();
	for (unsigned i = 0; i < 5; i++) {
		next = node_tick(&n);
		CU_ASSERT_TRUE(next <= urxe_sim_now(sim) + URXE_SEC);
		urxe_sim_advance(sim, next);
	}
	CU_ASSERT_EQUAL(counter(n.port, "tx_frames"), 0);
	urxe_sim_end_up(n.end, true); /* now somebody listens */
	node_tick(&n);
	CU_ASSERT_EQUAL(counter(n.port, "tx_frames"), 4);
	tear_down();
}

static void nd_answer(void)
{
	set_up(true, URXE_NO_VLAN);
	/* fd00::2 asks for fd00::1 */
	put("3333ff00000152540a09000286dd6000000000203aff"
	    "fd000000000000000000000000000002ff0200000000000000000001ff000001"
	    "8700233a00000000fd000000000000000000000000000001010152540a090002");
	expect("52540a09000252540a09000186dd6000000000203aff"
	       "fd000000000000000000000000000001fd000000000000000000000000000002"
	       "8800c23e60000000fd000000000000000000000000000001020152540a090001");
	CU_ASSERT_EQUAL(counter(n.port, "neigh_answered"), 1);
	/* one that has the address for itself in mind: told at all nodes, and warned of */
	put("3333ff00000152540a09000286dd6000000000183aff"
	    "00000000000000000000000000000000ff0200000000000000000001ff000001"
	    "87007da500000000fd000000000000000000000000000001");
	CU_ASSERT_EQUAL(counter(n.port, "neigh_answered"), 2);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_duplicate"), 1);
	tear_down();
}

/* Ours out: the question for fd00::2, and its answer in. */
static void nd_resolve(void)
{
	struct urxe_path *path;
	uint8_t gid[16], bth[12] = {0};

	set_up(true, URXE_NO_VLAN);
	path = path_to(n.port, "fd00::2", 0xc000);
	urxe_lane_lock(n.lane);
	CU_ASSERT_EQUAL(send_bytes(n.lane, path, bth, 12), EINPROGRESS);
	urxe_lane_unlock(n.lane);
	expect("3333ff00000252540a09000186dd6000000000203aff"
	       "fd000000000000000000000000000001ff0200000000000000000001ff000002"
	       "8700233a00000000fd000000000000000000000000000002010152540a090001");
	put("52540a09000152540a09000286dd6000000000203aff"
	    "fd000000000000000000000000000002fd000000000000000000000000000001"
	    "8800c23c60000000fd000000000000000000000000000002020152540a090002");
	gid_of("fd00::2", gid);
	CU_ASSERT_EQUAL(urxe_neigh_state(n.port, gid), NEIGH_REACHABLE);
	urxe_lane_lock(n.lane);
	CU_ASSERT_EQUAL(send_bytes(n.lane, path, bth, 12), 0);
	urxe_lane_unlock(n.lane);
	urxe_path_destroy(path);
	tear_down();
}

static void nd_bad(void)
{
	set_up(true, URXE_NO_VLAN);
	/* hop limit 254: came through a router */
	put("3333ff00000152540a09000286dd6000000000203afe"
	    "fd000000000000000000000000000002ff0200000000000000000001ff000001"
	    "8700233a00000000fd000000000000000000000000000001010152540a090002");
	CU_ASSERT_EQUAL(counter(n.port, "rx_nd_bad"), 1);
	/* checksum */
	put("3333ff00000152540a09000286dd6000000000203aff"
	    "fd000000000000000000000000000002ff0200000000000000000001ff000001"
	    "8700233b00000000fd000000000000000000000000000001010152540a090002");
	CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_bad"), 1);
	/* option of length 0 */
	put("3333ff00000152540a09000286dd6000000000203aff"
	    "fd000000000000000000000000000002ff0200000000000000000001ff000001"
	    "8700233b00000000fd000000000000000000000000000001010052540a090002");
	CU_ASSERT_EQUAL(counter(n.port, "rx_nd_bad"), 2);
	/* option longer than the packet */
	put("3333ff00000152540a09000286dd6000000000203aff"
	    "fd000000000000000000000000000002ff0200000000000000000001ff000001"
	    "8700233900000000fd000000000000000000000000000001010252540a090002");
	CU_ASSERT_EQUAL(counter(n.port, "rx_nd_bad"), 3);
	expect("");
	tear_down();
}

static void duplicate(void)
{
	set_up(true, URXE_NO_VLAN);
	/* 10.9.0.1 is at node 2, it says */
	put("ffffffffffff52540a0900020806"
	    "000108000604000152540a0900020a0900010000000000000a090005");
	CU_ASSERT_EQUAL(counter(n.port, "neigh_duplicate"), 1);
	/* and the answer to our probe says so, too */
	put("52540a09000152540a0900020806"
	    "000108000604000252540a0900020a09000152540a09000100000000");
	CU_ASSERT_EQUAL(counter(n.port, "neigh_duplicate"), 2);
	expect("");
	/* our own frame, sent back by a hub, is no duplicate */
	put("ffffffffffff52540a0900010806"
	    "000108000604000152540a0900010a0900010000000000000a090001");
	CU_ASSERT_EQUAL(counter(n.port, "neigh_duplicate"), 2);
	tear_down();
}

static void ping(void)
{
	set_up(true, URXE_NO_VLAN);
	n.lane->ip_id = 0x1234;
	put("52540a09000152540a09000208004500002400014000400126c40a0900020a090001"
	    "08006663000700016162636465666768");
	CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_bad"), 1);
	put("52540a09000152540a09000208004500002400014000400126c40a0900020a090001"
	    "08006662000700016162636465666768"
	    "ffffffff"); /* padding that is cut */
	CU_ASSERT_EQUAL(counter(n.port, "echo_answered"), 1);
	expect("52540a09000252540a0900010800450000241234000040015491"
	       "0a0900010a09000200006e62000700016162636465666768");
	tear_down();
}

static void ping6(void)
{
	set_up(true, URXE_NO_VLAN);
	put("52540a09000152540a09000286dd60000000000c3a40"
	    "fd000000000000000000000000000002fd000000000000000000000000000001"
	    "8000c0e50007000161626364");
	expect("52540a09000252540a09000186dd60000000000c3a40"
	       "fd000000000000000000000000000001fd000000000000000000000000000002"
	       "8100bfe50007000161626364");
	CU_ASSERT_EQUAL(counter(n.port, "echo_answered"), 1);
	/* Nobody is there to answer to (RFC 4443 2.2). */
	put("52540a09000152540a09000286dd60000000000c3a40"
	    "00000000000000000000000000000000fd000000000000000000000000000001"
	    "8000bde80007000161626364");
	expect("");
	CU_ASSERT_EQUAL(counter(n.port, "echo_answered"), 1);
	CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_bad"), 0);
	CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_ignored"), 1);
	tear_down();
}

static void ping_flood(void)
{
	set_up(true, URXE_NO_VLAN);
	for (unsigned i = 0; i < 300; i++) {
		put("52540a09000152540a09000286dd60000000000c3a40"
		    "fd000000000000000000000000000002fd000000000000000000000000000001"
		    "8000c0e50007000161626364");
	}
	CU_ASSERT_EQUAL(counter(n.port, "echo_answered"), 100);
	CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_limited"), 200);
	CU_ASSERT_EQUAL(drain(sim, raw), 100);
	urxe_sim_advance(sim, urxe_sim_now(sim) + URXE_SEC);
	put("52540a09000152540a09000286dd60000000000c3a40"
	    "fd000000000000000000000000000002fd000000000000000000000000000001"
	    "8000c0e50007000161626364");
	CU_ASSERT_EQUAL(counter(n.port, "echo_answered"), 101);
	tear_down();
}

/* As in mckey.pcap, where node 1 joins and leaves 239.1.1.7. */
#define IGMP_JOIN                                                                      \
	"01005e00001652540a090001080046c00028000040000102f9ef0a090001e000001694040000" \
	"2200e9f50000000104000000ef010107"
#define IGMP_LEAVE                                                                     \
	"01005e00001652540a090001080046c00028000040000102f9ef0a090001e000001694040000" \
	"2200eaf50000000103000000ef010107"

/* Groups are told of when somebody can hear it, and again when it may be somebody else. */
static void igmp_carrier(void)
{
	uint8_t group[16];

	gid_of("239.1.1.7", group);
	set_up_without_carrier();
	CU_ASSERT_EQUAL(urxe_port_mcast_join(n.port, group), 0);
	for (unsigned round = 1; round < 3; round++) {
		for (unsigned i = 0; i < 50; i++)
			urxe_sim_advance(sim, node_tick(&n));
		CU_ASSERT_EQUAL(counter(n.port, "group_reports"), 2 * round - 2);
		urxe_sim_end_up(n.end, true);
		for (unsigned i = 0; i < 10; i++) {
			urxe_sim_advance(sim, urxe_sim_now(sim) + URXE_SEC);
			node_tick(&n);
		}
		CU_ASSERT_EQUAL(counter(n.port, "group_reports"), 2 * round);
		urxe_sim_end_up(n.end, false);
		urxe_port_carrier(n.port);
	}
	drain(sim, raw);
	tear_down();
}

static void igmp(void)
{
	uint8_t group[16];

	set_up(true, URXE_NO_VLAN);
	gid_of("239.1.1.7", group);
	CU_ASSERT_EQUAL(urxe_port_mcast_leave(n.port, group), ENOENT);
	CU_ASSERT_EQUAL(urxe_port_mcast_join(n.port, urxe_port_own(n.port, 0)->gid), EINVAL);
	CU_ASSERT_EQUAL(urxe_port_mcast_join(n.port, group), 0);
	CU_ASSERT_EQUAL(urxe_port_mcast_join(n.port, group), 0);
	CU_ASSERT_TRUE(urxe_mcast_joined(n.port, group));
	node_tick(&n);
	expect(IGMP_JOIN);
	expect("");
	urxe_sim_advance(sim, node_tick(&n));
	node_tick(&n);
	expect(IGMP_JOIN);
	CU_ASSERT_EQUAL(node_tick(&n), URXE_NEVER);
	/* A general query: the group is still there. */
	put("01005e00000152540a090002080046c00024000040000102fa070a090002e000000194040000"
	    "1114ecd70000000002140000");
	urxe_sim_advance(sim, node_tick(&n));
	node_tick(&n);
	CU_ASSERT_EQUAL(urxe_port_mcast_leave(n.port, group), 0);
	node_tick(&n);
	drain(sim, raw);
	CU_ASSERT_TRUE(urxe_mcast_joined(n.port, group));
	CU_ASSERT_EQUAL(urxe_port_mcast_leave(n.port, group), 0);
	CU_ASSERT_FALSE(urxe_mcast_joined(n.port, group));
	node_tick(&n);
	expect(IGMP_LEAVE);
	CU_ASSERT_EQUAL(urxe_port_mcast_leave(n.port, group), ENOENT);
	tear_down();
}

static void mld(void)
{
	uint8_t group[16];

	set_up(true, URXE_NO_VLAN);
	gid_of("ff0e::7", group);
	CU_ASSERT_EQUAL(urxe_port_mcast_join(n.port, group), 0);
	node_tick(&n);
	expect("33330000001652540a09000186dd60000000002400010000000000000000000000000000"
	       "0000ff0200000000000000000000000000163a00050200000100" /* router alert */
	       "8f006e790000000104000000ff0e0000000000000000000000000007");
	CU_ASSERT_EQUAL(counter(n.port, "group_reports"), 1);
	tear_down();
}

static void too_many_groups(void)
{
	uint8_t group[16];
	unsigned joined = 0;

	set_up(true, URXE_NO_VLAN);
	gid_of("ff0e::", group);
	for (unsigned i = 0; i < 2 * MCAST_MAX; i++) {
		urxe_put16(group + 14, (uint16_t)i);
		joined += !urxe_port_mcast_join(n.port, group);
	}
	CU_ASSERT_EQUAL(joined, MCAST_MAX);
	urxe_put16(group + 14, 0);
	CU_ASSERT_EQUAL(urxe_port_mcast_leave(n.port, group), 0);
	for (unsigned i = 0; i < 10; i++) {
		urxe_sim_advance(sim, urxe_sim_now(sim) + URXE_SEC);
		node_tick(&n);
	}
	urxe_put16(group + 14, 999);
	CU_ASSERT_EQUAL(urxe_port_mcast_join(n.port, group), 0);
	tear_down();
}

/* A member hears its own port; others hear it on the wire. */
static void mcast_loop(void)
{
	struct urxe_packet p;
	struct urxe_path *path;
	uint8_t group[16], bth[16] = {0x64};

	set_up(true, URXE_NO_VLAN);
	gid_of("239.1.1.7", group);
	path = path_to(n.port, "239.1.1.7", 0xc000);
	CU_ASSERT_PTR_NOT_NULL_FATAL(path);
	urxe_lane_lock(n.lane);
	CU_ASSERT_EQUAL(send_bytes(n.lane, path, bth, 16), 0);
	CU_ASSERT_EQUAL(urxe_lane_rx(n.lane, &p, 1), 0);
	CU_ASSERT_EQUAL(urxe_port_mcast_join(n.port, group), 0);
	CU_ASSERT_EQUAL(send_bytes(n.lane, path, bth, 16), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_lane_rx(n.lane, &p, 1), 1);
	CU_ASSERT_EQUAL(p.flags, URXE_PKT_LOOPBACK | URXE_PKT_MULTICAST);
	CU_ASSERT_EQUAL(p.sgid_index, -1);
	CU_ASSERT_EQUAL(memcmp(p.bth, bth, 16), 0);
	urxe_lane_release(n.lane, &p, 1);
	urxe_lane_unlock(n.lane);
	CU_ASSERT_EQUAL(drain(sim, raw), 2);
	urxe_path_destroy(path);
	tear_down();
}

URXE_TEST_MAIN("netio_control", T(arp_answer), T(group_asks), T(question_flood), T(arp_vlan),
	       T(announcements), T(no_carrier), T(nd_answer), T(nd_resolve), T(nd_bad),
	       T(duplicate), T(ping), T(ping6), T(ping_flood), T(igmp), T(igmp_carrier), T(mld),
	       T(too_many_groups), T(mcast_loop))
