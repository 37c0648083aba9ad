/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Every reason to drop a frame: a good one of kernel rxe is damaged in one way, and the one
 * counter for that goes up. No frame at all may crash us.
 */
#include "netio_net.h"

static struct urxe_sim *sim;
static struct node n;

enum {
	FIX_IP = 1,
	FIX_ICRC = 2,
	FIX_UDP = 4
};

static void set_up(uint16_t vlan)
{
	struct urxe_port_config cfg = node_cfg(2);

	cfg.vlan = vlan;
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	node_start(&n, sim, NULL, &cfg);
}

static void tear_down(void)
{
	urxe_port_destroy(n.port);
	while (urxe_sim_step(sim))
		;
	CU_ASSERT_EQUAL(urxe_sim_buffers(sim), 0);
	urxe_sim_destroy(sim);
}

static void fix(uint8_t *f, uint32_t len, unsigned what)
{
	bool ipv4 = f[12] == 0x08;
	uint8_t *l3 = f + ETH_LEN, *udp = l3 + (ipv4 ? IPV4_LEN : IPV6_LEN);
	uint32_t udp_len = urxe_get16(udp + 4);

	if (what & FIX_IP) {
		urxe_put16(l3 + 10, 0);
		urxe_put16(l3 + 10, urxe_sum_fold(urxe_sum(0, l3, (l3[0] & 15u) * 4)));
	}
	if (what & FIX_ICRC)
		urxe_icrc_put(f + len - 4, urxe_icrc(l3, ipv4, len - 4 - (uint32_t)(udp + 8 - f)));
	if (what & FIX_UDP) {
		urxe_put16(udp + 6, 0);
		urxe_put16(udp + 6,
			   urxe_sum_fold(urxe_sum(urxe_sum_pseudo(l3, ipv4, PROTO_UDP, udp_len),
						  udp, udp_len)));
	}
}

/* Damage to a frame: one byte at an offset, or a length; and what must count it. */
struct damage {
	const char *why; /* NULL: none, it is delivered */
	bool v6;
	int off;
	uint8_t byte;
	int cut; /* bytes off the end (or, negative, on it) */
	unsigned fix;
};

static const struct damage damages[] = {
	{NULL, false, 0, 0x52, 0, 0},
	{NULL, true, 0, 0x52, 0, 0},
	{NULL, false, 0, 0x52, -20, 0}, /* padding */
	{NULL, true, 0, 0x52, -20, 0},
	{NULL, false, 22, 1, 0, FIX_IP},	       /* TTL is masked */
	{NULL, false, 15, 0x5b, 0, FIX_IP},	       /* so is TOS */
	{NULL, true, 21, 3, 0, 0},		       /* hop limit */
	{NULL, false, 18, 0x77, 0, FIX_IP | FIX_ICRC}, /* identification, which the ICRC counts */
	{NULL, false, 0, 0x52, 0, FIX_UDP},	       /* a true UDP checksum */
	{NULL, true, 0, 0x52, 0, FIX_UDP},
	{"rx_short", false, 0, 0x52, 74 - 13, 0},
	{"rx_short", false, 0, 0x52, 74 - 33, 0},
	{"rx_short", true, 0, 0x52, 94 - 53, 0},
	{"rx_not_our_mac", false, 5, 0x77, 0, 0},
	{"rx_mac_source", false, 6, 0x53, 0, 0},
	{"rx_mac_source", true, 6, 0x53, 0, 0},
	{"rx_unicast_in_group", false, 0, 0x53, 0, 0},
	{"rx_unicast_in_group", true, 0, 0x33, 0, 0},
	{"rx_ethertype", false, 13, 0x42, 0, 0},
	{"rx_ip_version", false, 14, 0x55, 0, 0},
	{"rx_ip_version", true, 14, 0x40, 0, 0},
	{"rx_ip_header", false, 14, 0x44, 0, 0},
	{"rx_ip_length", false, 17, 0x3d, 0, FIX_IP},
	{"rx_ip_length", false, 17, 0x13, 0, FIX_IP},
	{"rx_ip_length", false, 0, 0x52, 1, 0},
	{"rx_ip_length", true, 19, 0x29, 0, 0},
	{"rx_ip_length", true, 0, 0x52, 1, 0},
	{"rx_ip_checksum", false, 24, 0, 0, 0},
	{"rx_ip_options", false, 14, 0x46, 0, FIX_IP},
	{"rx_ip_fragment", false, 20, 0x20, 0, FIX_IP},
	{"rx_ip_fragment", false, 21, 0x01, 0, FIX_IP},
	{"rx_ip_fragment", true, 20, 44, 0, 0},
	{"rx_ip_options", true, 20, 43, 0, 0},
	{"rx_ip_options", true, 20, 60, 0, 0},
	{"rx_ip_options", true, 20, 0, 0, 0}, /* hop-by-hop without MLD */
	{"rx_ip_source", false, 26, 127, 0, FIX_IP},
	{"rx_ip_source", false, 26, 0, 0, FIX_IP},
	{"rx_ip_source", false, 26, 239, 0, FIX_IP},
	{"rx_ip_source", true, 22, 0xff, 0, 0},
	{"rx_ip_not_ours", false, 33, 3, 0, FIX_IP},
	{"rx_ip_not_ours", true, 53, 3, 0, 0},
	{"rx_ip_not_ours", false, 33, 255, 0, FIX_IP},
	{"rx_mcast_not_joined", false, 30, 239, 0, FIX_IP},
	{"rx_mcast_not_joined", true, 38, 0xff, 0, 0},
	{"rx_ip_protocol", false, 23, 6, 0, FIX_IP},
	{"rx_ip_protocol", true, 20, 6, 0, 0},
	{"rx_udp_port", false, 37, 0xb6, 0, 0},
	{"rx_udp_length", false, 39, 0x27, 0, 0},
	{"rx_udp_length", false, 39, 0x29, 0, 0},
	{"rx_udp_length", false, 38, 0xff, 0, 0},
	{"rx_udp_length", true, 59, 7, 0, 0},
	{"rx_udp_checksum", false, 41, 1, 0, 0},
	{"rx_udp_checksum", true, 61, 1, 0, 0},
	{"rx_icrc", false, 42, 5, 0, 0},
	{"rx_icrc", false, 60, 0xff, 0, 0},
	{"rx_icrc", false, 73, 0xff, 0, 0},
	{"rx_icrc", true, 93, 0xff, 0, 0},
	{"rx_icrc", false, 29, 9, 0, FIX_IP}, /* another source address */
	{"rx_icmp_bad", false, 23, 1, 0, FIX_IP},
	{"rx_icmp_bad", true, 20, 58, 0, 0},
	{"rx_icmp_bad", false, 23, 2, 0, FIX_IP}, /* IGMP */
	{"rx_arp_bad", false, 13, 6, 0, 0},
};

static uint64_t all_drops(void)
{
	const char *const *names;
	uint64_t v[URXE_COUNTERS], sum = 0;

	urxe_port_counters(n.port, &names, v, URXE_COUNTERS);
	for (unsigned i = URXE_CNT_rx_short; i <= URXE_CNT_rx_group_ignored; i++)
		sum += v[i];
	return sum;
}

static void damage_one(const struct damage *d)
{
	uint8_t f[256] = {0};
	uint32_t len = unhex(d->v6 ? FRAME_V6_SEND : FRAME_V4_SEND, f);
	struct urxe_packet p;
	unsigned k;

	f[d->off] = d->byte;
	fix(f, len, d->fix);
	urxe_sim_put(n.end, f, (uint32_t)((int)len - d->cut));
	urxe_lane_lock(n.lane);
	k = urxe_lane_rx(n.lane, &p, 1);
	urxe_lane_release(n.lane, &p, k);
	urxe_lane_unlock(n.lane);
	CU_ASSERT_EQUAL(k, d->why ? 0 : 1);
	CU_ASSERT_EQUAL(all_drops(), d->why ? 1 : 0);
	if (d->why && counter(n.port, d->why) != 1)
		printf("\n    %s: offset %d byte %02x cut %d", d->why, d->off, d->byte, d->cut);
	if (d->why)
		CU_ASSERT_EQUAL(counter(n.port, d->why), 1);
}

static void each_reason(void)
{
	for (unsigned i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		set_up(URXE_NO_VLAN);
		damage_one(&damages[i]);
		tear_down();
	}
}

static void good_one(void)
{
	uint8_t f[256];

	urxe_sim_put(n.end, f, unhex(FRAME_V4_SEND, f));
	CU_ASSERT_EQUAL(node_poll(&n), 1);
}

/* The same right after a good frame, whose headers the lane remembers. */
static void each_reason_known(void)
{
	for (unsigned i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		set_up(URXE_NO_VLAN);
		good_one();
		damage_one(&damages[i]);
		tear_down();
	}
}

/* What was sent to an address of ours is not ours when the address has gone. */
static void known_no_more(void)
{
	uint8_t f[256], gid[16];

	set_up(URXE_NO_VLAN);
	good_one();
	good_one();
	gid_of("10.9.0.2", gid);
	CU_ASSERT_EQUAL(urxe_port_addr_del(n.port, gid, 24), 0);
	urxe_sim_put(n.end, f, unhex(FRAME_V4_SEND, f));
	CU_ASSERT_EQUAL(node_poll(&n), 0);
	CU_ASSERT_EQUAL(counter(n.port, "rx_ip_not_ours"), 1);
	tear_down();
}

/* UDP payload too short for BTH and ICRC, every length of it. */
static void roce_short(void)
{
	set_up(URXE_NO_VLAN);
	for (unsigned len = 0; len < 16; len++) {
		uint8_t f[256];

		unhex(FRAME_V4_SEND, f);
		urxe_put16(f + 16, (uint16_t)(28 + len));
		urxe_put16(f + 38, (uint16_t)(8 + len));
		fix(f, 0, FIX_IP);
		urxe_sim_put(n.end, f, 60);
		CU_ASSERT_EQUAL(node_poll(&n), 0);
	}
	CU_ASSERT_EQUAL(counter(n.port, "rx_roce_short"), 16);
	tear_down();
}

static void vlans(void)
{
	static const struct {
		uint16_t port, vid; /* 0xfffe: untagged frame */
		bool ok;
	} c[] = {{URXE_NO_VLAN, 0xfffe, true},
		 {URXE_NO_VLAN, 0, true},
		 {URXE_NO_VLAN, 5, false},
		 {5, 5, true},
		 {5, 0x6005, true} /* priority 3 */,
		 {5, 6, false},
		 {5, 0, false},
		 {5, 0xfffe, false}};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		uint8_t f[256], g[256];
		uint32_t len = unhex(FRAME_V4_SEND, f);
		struct urxe_packet p;
		unsigned k;

		set_up(c[i].port);
		memcpy(g, f, 12);
		urxe_put16(g + 12, ETHERTYPE_VLAN);
		urxe_put16(g + 14, c[i].vid);
		memcpy(g + 16, f + 12, len - 12);
		urxe_sim_put(n.end, c[i].vid == 0xfffe ? f : g, len + (c[i].vid == 0xfffe ? 0 : 4));
		urxe_lane_lock(n.lane);
		k = urxe_lane_rx(n.lane, &p, 1);
		CU_ASSERT_EQUAL(k, c[i].ok);
		if (k)
			CU_ASSERT_EQUAL(p.vlan, c[i].port);
		urxe_lane_release(n.lane, &p, k);
		urxe_lane_unlock(n.lane);
		CU_ASSERT_EQUAL(counter(n.port, "rx_vlan"), !c[i].ok);
		tear_down();
	}
}

/* Every prefix of good frames, and a lot of noise on them: all end in a counter. */
static void noise(void)
{
	static const char *const seeds[] = {
		FRAME_V4_SEND,
		FRAME_V6_SEND,
		FRAME_V4_CSWAP,
		"ffffffffffff52540a0900010806000108000604000152540a0900010a0900010000000000000a0900"
		"02",
		"3333ff00000252540a09000186dd6000000000203aff"
		"fd000000000000000000000000000001ff0200000000000000000001ff000002"
		"8700233a00000000fd000000000000000000000000000002010152540a090001",
		"52540a09000252540a09000108004500002400014000400126c40a0900010a090002"
		"08006662000700016162636465666768",
		"01005e00000152540a090001080046c00024000040000102fa080a090001e000000194040000"
		"1114ecd70000000002140000",
		"33330000000152540a09000186dd6000000000240001fe800000000000000000000000000001"
		"ff0200000000000000000000000000013a00050200000100"
		"8200000003e8000000000000000000000000000000000000000000000000",
	};
	uint64_t prng = 42, frames = 0;

	set_up(URXE_NO_VLAN);
	for (unsigned s = 0; s < sizeof(seeds) / sizeof(seeds[0]); s++) {
		uint8_t good[256], f[256];
		uint32_t len = unhex(seeds[s], good);

		for (uint32_t cut = 0; cut <= len; cut++, frames++) {
			urxe_sim_put(n.end, good, cut);
			node_poll(&n);
		}
		for (unsigned i = 0; i < 3000; i++, frames++) {
			memcpy(f, good, len);
			for (unsigned k = 1 + urxe_random_step(&prng) % 3; k; k--)
				f[urxe_random_step(&prng) % len] = (uint8_t)urxe_random_step(&prng);
			urxe_sim_put(n.end, f, len);
			node_poll(&n);
			if (i % 64 == 0) {
				while (urxe_sim_step(sim))
					;
				urxe_sim_advance(sim, urxe_sim_now(sim) + URXE_SEC);
			}
		}
	}
	CU_ASSERT_EQUAL(counter(n.port, "rx_frames"), frames);
	tear_down();
}

URXE_TEST_MAIN("netio_drops", T(each_reason), T(each_reason_known), T(known_no_more), T(roce_short),
	       T(vlans), T(noise))
