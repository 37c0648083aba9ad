/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ports: addresses, routes, frames to oneself, frames to a neighbour on a clean wire, and
 * the very bytes that kernel rxe would send.
 */
#include "netio_net.h"

#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct urxe_sim *sim;

static void gids(void)
{
	struct urxe_port_config cfg = {.mtu = 1500, .vlan = URXE_NO_VLAN};
	struct urxe_gid_entry e;
	struct urxe_port_info info;
	struct urxe_port *port;
	uint8_t g[16];

	cfg_add(&cfg, "fd00::1", 64);
	cfg_add(&cfg, "10.0.0.1", 24);
	cfg_add(&cfg, "10.0.0.1", 24); /* twice is once */
	cfg_add(&cfg, "192.168.1.7", 16);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	CU_ASSERT_EQUAL(urxe_port_gid(port, 0, &e), 0);
	gid_of("10.0.0.1", g);
	CU_ASSERT_TRUE(e.ipv4 && e.prefix_len == 24 && !memcmp(e.gid, g, 16));
	CU_ASSERT_EQUAL(urxe_port_gid(port, 1, &e), 0);
	CU_ASSERT_TRUE(e.ipv4 && e.prefix_len == 16);
	CU_ASSERT_EQUAL(urxe_port_gid(port, 2, &e), 0);
	CU_ASSERT_TRUE(!e.ipv4 && e.prefix_len == 64);
	CU_ASSERT_EQUAL(urxe_port_gid(port, 3, &e), ENODATA);
	CU_ASSERT_EQUAL(urxe_port_gid(port, URXE_PORT_MAX_GIDS, &e), EINVAL);
	CU_ASSERT_EQUAL(urxe_port_gid_find(port, g), 0);
	gid_of("127.0.0.1", g);
	CU_ASSERT_EQUAL(urxe_port_gid_find(port, g), -1);
	urxe_port_query(port, &info);
	CU_ASSERT_FALSE(info.started);
	CU_ASSERT_TRUE(info.link_up);
	CU_ASSERT_EQUAL(info.path_mtu, 1024);
	CU_ASSERT_EQUAL(info.mac[0], 2);
	CU_ASSERT_PTR_NULL(urxe_port_lane(port, 0));
	CU_ASSERT_EQUAL(urxe_port_start(port), 0);
	CU_ASSERT_EQUAL(urxe_port_start(port), 0);
	CU_ASSERT_PTR_NOT_NULL(urxe_port_lane(port, 0));
	CU_ASSERT_PTR_NULL(urxe_port_lane(port, 1));
	urxe_port_destroy(port);
}

/* The kernel is not asked for each query what its widest interface takes. */
static struct {
	uint64_t now;
	unsigned asked;
	uint32_t mtu;
} kernel;

static uint64_t kernel_now(void *arg)
{
	return kernel.now;
}

static uint32_t kernel_mtu(const struct urxe_port_config *cfg, const uint8_t *src,
			   const uint8_t *dst)
{
	kernel.asked++;
	return kernel.mtu;
}

static void widest_way(void)
{
	struct urxe_port_config cfg = {.mtu = 4096, .vlan = URXE_NO_VLAN};
	struct urxe_link_ops ops = urxe_link_loop_ops;
	struct urxe_port_info info;
	struct urxe_port *port;

	cfg_add(&cfg, "10.0.0.1", 24);
	ops.now = kernel_now;
	ops.way_mtu = kernel_mtu;
	kernel.now = URXE_SEC;
	kernel.mtu = 1500;
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &ops, NULL), 0);
	for (unsigned i = 0; i < 100; i++) {
		urxe_port_query(port, &info);
		CU_ASSERT(info.path_mtu == 4096 && info.far_mtu == 1024);
	}
	CU_ASSERT_EQUAL(kernel.asked, 1);
	kernel.now += 200 * URXE_MSEC;
	kernel.mtu = 600;
	urxe_port_query(port, &info);
	CU_ASSERT_EQUAL(info.far_mtu, 256);
	urxe_port_destroy(port);
}

static void bad_configs(void)
{
	struct urxe_port_config cfg = {.mtu = 300, .vlan = URXE_NO_VLAN};
	struct urxe_port *port;

	CU_ASSERT_EQUAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), EINVAL);
	cfg.mtu = 1500;
	cfg_add(&cfg, "224.0.0.5", 24);
	CU_ASSERT_EQUAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), EINVAL);
	cfg.num_ips = 0;
	cfg_add(&cfg, "10.0.0.5", 33);
	CU_ASSERT_EQUAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), EINVAL);
	cfg.num_ips = 0;
	cfg.has_mac = true;
	cfg.mac[0] = 1;
	CU_ASSERT_EQUAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), EINVAL);
}

static void routes(void)
{
	static const struct {
		const char *to;
		int own; /* -1: unreachable */
		const char *next;
	} c[] = {
		{"10.9.0.77", 0, "10.9.0.77"},	 {"10.9.0.1", 0, "10.9.0.1"},
		{"172.16.3.4", 1, "172.16.3.4"}, {"127.0.0.1", 0, "10.9.0.1"},
		{"127.9.9.9", 0, "10.9.0.1"},	 {"::1", 2, "fd00::1"},
		{"8.8.8.8", 1, "8.8.8.8"}, /* the gateway is on the second address's prefix */
		{"fd00::9", 2, "fd00::9"},	 {"2001:db8::1", -1, NULL},
		{"10.9.0.255", -1, NULL},	 {"255.255.255.255", -1, NULL},
		{"0.0.0.1", -1, NULL},		 {"::", -1, NULL},
		{"239.1.1.7", 0, "239.1.1.7"},	 {"ff0e::7", 2, "ff0e::7"},
	};
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_port *port;
	uint8_t to[16], next[16], want[16];
	unsigned own;

	cfg_add(&cfg, "172.16.0.1", 12);
	cfg.has_gw4 = true;
	gid_of("172.16.0.254", cfg.gw4);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		int err;

		gid_of(c[i].to, to);
		err = urxe_port_route(port, to, &own, next);
		if (c[i].own < 0) {
			CU_ASSERT_EQUAL(err, ENETUNREACH);
			continue;
		}
		CU_ASSERT_EQUAL_FATAL(err, 0);
		CU_ASSERT_EQUAL((int)own, c[i].own);
		gid_of(c[i].next, want);
		CU_ASSERT_EQUAL(memcmp(next, want, 16), 0);
	}
	gid_of("8.8.8.8", to);
	CU_ASSERT_EQUAL(urxe_port_next_hop(port, urxe_port_own(port, 1), to, next), 0);
	CU_ASSERT_EQUAL(memcmp(next, cfg.gw4, 16), 0);
	urxe_port_destroy(port);
}

static void bad_paths(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_path_attr a = {.sgid_index = 2};
	struct urxe_path *path;
	struct urxe_port *port;

	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	gid_of("10.9.0.2", a.dgid);
	CU_ASSERT_EQUAL(urxe_path_create(port, &a, &path), EINVAL);
	a.sgid_index = 1;
	CU_ASSERT_EQUAL(urxe_path_create(port, &a, &path), ENETUNREACH); /* v4 from v6 */
	a.sgid_index = 0;
	gid_of("10.10.0.2", a.dgid);
	CU_ASSERT_EQUAL(urxe_path_create(port, &a, &path), ENETUNREACH);
	memset(a.dgid, 0, 16);
	CU_ASSERT_EQUAL(urxe_path_create(port, &a, &path), EINVAL);
	urxe_path_destroy(NULL);
	urxe_port_destroy(port);
}

/* To the own address, by whatever name, on the link without a wire. */
static void loop_one(const char *addr, uint32_t len)
{
	struct urxe_port_config cfg = node_cfg(1);
	static uint8_t data[1200];
	struct urxe_packet p;
	struct urxe_path *path;
	struct urxe_lane *lane;
	struct urxe_port *port;

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i ^ len);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	path = path_to(port, addr, 0xc123);
	CU_ASSERT_PTR_NOT_NULL_FATAL(path);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(port), 0);
	lane = urxe_port_lane(port, 0);
	urxe_lane_lock(lane);
	CU_ASSERT_EQUAL(send_bytes(lane, path, data, len), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_lane_rx(lane, &p, 1), 1);
	CU_ASSERT_EQUAL(p.len, len);
	CU_ASSERT_EQUAL(memcmp(p.bth, data, len), 0);
	CU_ASSERT_EQUAL(p.flags, URXE_PKT_LOOPBACK);
	CU_ASSERT_EQUAL(p.udp_sport, 0xc123);
	CU_ASSERT_EQUAL(p.sgid_index, path->ipv4 ? 0 : 1);
	CU_ASSERT_EQUAL(p.ipv4, path->ipv4);
	CU_ASSERT_EQUAL(p.vlan, URXE_NO_VLAN);
	urxe_lane_release(lane, &p, 1);
	CU_ASSERT_EQUAL(urxe_lane_rx(lane, &p, 1), 0);
	urxe_lane_unlock(lane);
	CU_ASSERT_EQUAL(counter(port, "loop_packets"), 1);
	CU_ASSERT_EQUAL(counter(port, "tx_frames"), 1 * 0);
	urxe_path_destroy(path);
	urxe_port_destroy(port);
}

static void loopback(void)
{
	loop_one("10.9.0.1", 12);
	loop_one("10.9.0.1", 1036);
	loop_one("127.0.0.1", 24);
	loop_one("fd00::1", 16);
	loop_one("::1", 1036);
}

/* The marks that a packet bears. */
static void ecn(void)
{
	static const char *const to[] = {"10.9.0.1", "fd00::1"};
	struct urxe_port_config cfg = node_cfg(1);
	static const uint8_t data[16];
	struct urxe_lane *lane;
	struct urxe_port *port;

	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(port), 0);
	lane = urxe_port_lane(port, 0);
	urxe_lane_lock(lane);
	for (unsigned i = 0; i < 8; i++) {
		struct urxe_path_attr a = {.sgid_index = i / 4, .udp_sport = 0xc000};
		struct urxe_packet p;
		struct urxe_path *path;

		gid_of(to[i / 4], a.dgid);
		a.traffic_class = (uint8_t)(0xa8 | (i & URXE_ECN_MASK));
		CU_ASSERT_EQUAL_FATAL(urxe_path_create(port, &a, &path), 0);
		CU_ASSERT_EQUAL(send_bytes(lane, path, data, sizeof(data)), 0);
		CU_ASSERT_EQUAL_FATAL(urxe_lane_rx(lane, &p, 1), 1);
		CU_ASSERT_EQUAL(p.ipv4, i < 4);
		CU_ASSERT_EQUAL(p.ecn, i % 4);
		urxe_lane_release(lane, &p, 1);
		urxe_path_destroy(path);
	}
	urxe_lane_unlock(lane);
	urxe_port_destroy(port);
}

/* What nobody fetches is never lost: the sender is told to wait, and goes on later. */
static void loop_backpressure(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_packet p[RX_BURST];
	struct urxe_path *path;
	struct urxe_lane *lane;
	struct urxe_port *port;
	uint32_t bth[3] = {0}, sent = 0, got = 0;
	struct urxe_tx tx;

	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(port), 0);
	path = path_to(port, "127.0.0.1", 0xc000);
	lane = urxe_port_lane(port, 0);
	urxe_lane_lock(lane);
	for (unsigned round = 0; round < 50; round++) {
		while (bth[2] = sent, !send_bytes(lane, path, bth, 12))
			sent++;
		CU_ASSERT_EQUAL(urxe_tx_begin(lane, path, 2, &tx, 12), EAGAIN);
		for (unsigned k = urxe_lane_rx(lane, p, 1 + round), i = 0; i < k; i++) {
			CU_ASSERT_EQUAL(memcmp(p[i].bth + 8, &got, 4), 0);
			got++;
			urxe_lane_release(lane, &p[i], 1);
		}
	}
	CU_ASSERT_TRUE(sent > LOOP_LIMIT + 1000);
	while (!send_bytes(lane, path, bth, 12))
		sent++;
	CU_ASSERT_EQUAL(sent - got, LOOP_LIMIT);
	/* Reservations count, too. */
	CU_ASSERT_EQUAL(urxe_lane_rx(lane, p, 1), 1);
	urxe_lane_release(lane, p, 1);
	CU_ASSERT_EQUAL(urxe_tx_begin(lane, path, 2, &tx, 12), 0);
	CU_ASSERT_EQUAL(send_bytes(lane, path, bth, 12), EAGAIN);
	urxe_tx_abort(lane, &tx);
	CU_ASSERT_EQUAL(send_bytes(lane, path, bth, 12), 0);
	urxe_lane_unlock(lane);
	CU_ASSERT_EQUAL(counter(port, "tx_control_dropped"), 0);
	urxe_path_destroy(path);
	urxe_port_destroy(port); /* with frames in the ring */
}

static void too_long(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_path *v4, *v6;
	struct urxe_lane *lane;
	struct urxe_port *port;
	struct urxe_tx tx;

	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(port), 0);
	v4 = path_to(port, "10.9.0.1", 0xc000);
	v6 = path_to(port, "fd00::1", 0xc000);
	lane = urxe_port_lane(port, 0);
	urxe_lane_lock(lane);
	CU_ASSERT_EQUAL(urxe_tx_begin(lane, v4, 2, &tx, 1500 - 20 - 8 - 4 + 1), EMSGSIZE);
	CU_ASSERT_EQUAL(urxe_tx_begin(lane, v4, 2, &tx, 1500 - 20 - 8 - 4), 0);
	urxe_tx_abort(lane, &tx);
	CU_ASSERT_EQUAL(urxe_tx_begin(lane, v6, 2, &tx, 1500 - 40 - 8 - 4 + 1), EMSGSIZE);
	CU_ASSERT_EQUAL(urxe_tx_begin(lane, v6, 2, &tx, 1500 - 40 - 8 - 4), 0);
	urxe_tx_abort(lane, &tx);
	urxe_lane_unlock(lane);
	CU_ASSERT_EQUAL(counter(port, "tx_too_long"), 2);
	urxe_path_destroy(v4);
	urxe_path_destroy(v6);
	urxe_port_destroy(port);
}

/* The bytes that kernel rxe sent, from the same addresses, ports and payload. */
static void golden_one(const char *hex, unsigned me, const char *to)
{
	struct urxe_port_config cfg = node_cfg(me);
	struct urxe_sim_end *raw;
	struct node n;
	uint8_t want[256], got[256];
	uint32_t len = unhex(hex, want), off;
	struct urxe_path *path;
	struct urxe_frame f = {.data = want, .len = len};

	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	raw = urxe_sim_end(sim, NULL);
	node_start(&n, sim, NULL, &cfg);
	node_tick(&n);
	drain(sim, raw);
	off = urxe_frame_roce(&f);
	path = path_to(n.port, to, urxe_get16(want + off - UDP_LEN));
	CU_ASSERT_PTR_NOT_NULL_FATAL(path);
	urxe_lane_lock(n.lane);
	urxe_neigh_heard(n.lane, path->neigh->gid, want, NEIGH_HEARD_OVERRIDE);
	n.lane->ip_id = urxe_get16(want + ETH_LEN + 4);
	CU_ASSERT_EQUAL(send_bytes(n.lane, path, want + off, len - off - URXE_ICRC_LEN), 0);
	urxe_lane_unlock(n.lane);
	while (urxe_sim_step(sim))
		;
	CU_ASSERT_EQUAL(urxe_sim_recv(raw, got, sizeof(got)), len);
	CU_ASSERT_EQUAL(memcmp(got, want, len), 0);
	urxe_path_destroy(path);
	urxe_port_destroy(n.port);
	urxe_sim_destroy(sim);
}

static void golden(void)
{
	golden_one(FRAME_V4_SEND, 1, "10.9.0.2");
	golden_one(FRAME_V4_ACK, 2, "10.9.0.1");
	golden_one(FRAME_V4_CSWAP, 1, "10.9.0.2");
	golden_one(FRAME_V6_SEND, 1, "fd00::2");
}

/* Traffic class, flow label, hop limit, VLAN: where they stand in the header. */
static void path_fields(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_path_attr a = {.sgid_index = 1,
				   .flow_label = 0xabcde,
				   .traffic_class = 0x5a,
				   .hop_limit = 9,
				   .udp_sport = 0xc001};
	static const uint8_t v6[] = {0x81, 0x00, 0x00, 0x64, 0x86, 0xdd, 0x65,
				     0xaa, 0xbc, 0xde, 0x00, 0x00, 17,	 9};
	static const uint8_t v4[] = {0x81, 0x00, 0x00, 0x64, 0x08, 0x00, 0x45, 0x5a, 0,
				     0,	   0,	 0,    0x40, 0,	   9,	 17,   0,    0};
	struct urxe_path *path;
	struct urxe_port *port;

	cfg.vlan = 100;
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	gid_of("fd00::2", a.dgid);
	CU_ASSERT_EQUAL_FATAL(urxe_path_create(port, &a, &path), 0);
	CU_ASSERT_EQUAL(memcmp(path->hdr, v6, sizeof(v6)), 0);
	CU_ASSERT_EQUAL(path->hdr_len, 14 + 4 + 40 + 8);
	urxe_path_destroy(path);
	a.sgid_index = 0;
	gid_of("10.9.0.2", a.dgid);
	CU_ASSERT_EQUAL_FATAL(urxe_path_create(port, &a, &path), 0);
	CU_ASSERT_EQUAL(memcmp(path->hdr, v4, sizeof(v4)), 0);
	urxe_path_destroy(path);
	urxe_port_destroy(port);
}

/* As the device's watch finds it. */
static void set_carrier(struct node *n, bool up)
{
	urxe_sim_end_up(n->end, up);
	urxe_port_carrier(n->port);
	node_tick(n);
}

/* A link that takes little at a time: order is kept, the sender is held back, nothing is lost. */
static void slow_link(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_sim_params slow = {.tx_room = 3};
	struct urxe_sim_end *raw;
	uint32_t bth[3] = {0}, sent = 0, got = 0, len;
	uint8_t buf[2048];
	struct urxe_path *path;
	struct node n;

	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	raw = urxe_sim_end(sim, NULL);
	node_start(&n, sim, &slow, &cfg);
	node_tick(&n), node_tick(&n), node_tick(&n);
	drain(sim, raw);
	path = path_to(n.port, "10.9.0.2", 0xc000);
	urxe_lane_lock(n.lane);
	urxe_neigh_heard(n.lane, path->neigh->gid, mac2, NEIGH_HEARD_OVERRIDE);
	slow.tx_stall = true;
	urxe_sim_end_params(n.end, &slow);
	while (bth[2] = sent, !send_bytes(n.lane, path, bth, 12))
		sent++;
	CU_ASSERT_EQUAL(sent, TX_LIMIT);
	slow.tx_stall = false;
	urxe_sim_end_params(n.end, &slow);
	for (; sent < 2000; sent++) {
		bth[2] = sent;
		CU_ASSERT_EQUAL(send_bytes(n.lane, path, bth, 12), 0);
	}
	while (n.lane->tx_count)
		CU_ASSERT_TRUE(urxe_lane_tick(n.lane, urxe_port_now(n.port)) != URXE_NEVER);
	urxe_lane_unlock(n.lane);
	while (urxe_sim_step(sim))
		;
	while ((len = urxe_sim_recv(raw, buf, sizeof(buf)))) {
		if (len < 58)
			continue;
		CU_ASSERT_EQUAL(memcmp(buf + 42 + 8, &got, 4), 0);
		got++;
	}
	CU_ASSERT_EQUAL(got, 2000);
	CU_ASSERT_EQUAL(counter(n.port, "tx_backlog_full"), 1);
	/* Without carrier, what waits long enough is lost on the wire, and counted. */
	slow.tx_stall = true;
	urxe_sim_end_params(n.end, &slow);
	set_carrier(&n, false);
	for (unsigned i = 0; i < 2; i++) {
		urxe_lane_lock(n.lane);
		CU_ASSERT_EQUAL(send_bytes(n.lane, path, bth, 12), 0);
		urxe_lane_unlock(n.lane);
		CU_ASSERT_EQUAL(n.lane->tx_count, i + 1);
		urxe_sim_advance(sim, urxe_sim_now(sim) + LINK_PATIENCE / 2);
	}
	node_tick(&n);
	CU_ASSERT_EQUAL(n.lane->tx_count, 0);
	CU_ASSERT(counter(n.port, "tx_link_down") >= 2);
	urxe_path_destroy(path);
	urxe_port_destroy(n.port);
	CU_ASSERT_EQUAL(urxe_sim_buffers(sim), 0);
	urxe_sim_destroy(sim);
}

/* What a sender to a group, and one of raw frames, is told now. */
static void late_send(struct node *n, struct urxe_path *path, int want)
{
	uint8_t bth[12] = {0};
	struct urxe_tx tx;
	int err;

	urxe_lane_lock(n->lane);
	CU_ASSERT_EQUAL(send_bytes(n->lane, path, bth, 12), want);
	err = urxe_raw_begin(n->lane, &tx, 60);
	CU_ASSERT_EQUAL(err, want);
	if (!err)
		urxe_tx_abort(n->lane, &tx);
	urxe_lane_tick(n->lane, urxe_port_now(n->port));
	urxe_lane_unlock(n->lane);
}

/*
 * A port is used before its link is up: what no neighbour's answer holds back waits, each time
 * anew, but not for ever.
 */
static void late_link(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_sim_params stall = {.tx_stall = true}; /* as a port whose peer is not there */
	struct urxe_path_attr a = {.udp_sport = 0xc000};
	struct urxe_sim_end *raw;
	struct urxe_path *path;
	struct node n;

	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	raw = urxe_sim_end(sim, NULL);
	n.end = urxe_sim_end(sim, &stall);
	urxe_sim_end_up(n.end, false);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&n.port, &cfg, &urxe_link_sim_ops, n.end), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(n.port), 0);
	n.lane = urxe_port_lane(n.port, 0);
	gid_of("239.1.1.7", a.dgid);
	CU_ASSERT_EQUAL_FATAL(urxe_path_create(n.port, &a, &path), 0);
	for (unsigned round = 0; round < 2; round++) {
		uint64_t sent = counter(n.port, "tx_frames");

		late_send(&n, path, EAGAIN);
		urxe_sim_advance(sim, urxe_sim_now(sim) - 1 +
					      (round ? LINK_PATIENCE : LINK_PATIENCE_FIRST));
		late_send(&n, path, EAGAIN);
		CU_ASSERT_EQUAL(counter(n.port, "tx_no_carrier"), 4 * round + 4);
		CU_ASSERT_EQUAL(counter(n.port, "tx_link_down"), 0);
		stall.tx_stall = false;
		urxe_sim_end_params(n.end, &stall);
		set_carrier(&n, true);
		late_send(&n, path, 0);
		CU_ASSERT(counter(n.port, "tx_frames") > sent);
		stall.tx_stall = true;
		urxe_sim_end_params(n.end, &stall);
		set_carrier(&n, false);
	}
	late_send(&n, path, EAGAIN);
	urxe_sim_advance(sim, urxe_sim_now(sim) + LINK_PATIENCE);
	late_send(&n, path, 0);
	CU_ASSERT_EQUAL(counter(n.port, "tx_link_down"), 1);
	drain(sim, raw);
	urxe_path_destroy(path);
	urxe_port_destroy(n.port);
	CU_ASSERT_EQUAL(urxe_sim_buffers(sim), 0);
	urxe_sim_destroy(sim);
}

static void wake(void)
{
	eventfd_t value;
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_port *port;
	struct urxe_sleep how = {0};

	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	for (unsigned i = 0; i < 3; i++) {
		urxe_port_wake(port);
		urxe_port_wake(port);
		urxe_port_wait(port, URXE_NEVER, &how); /* would hang */
		CU_ASSERT_TRUE(how.interrupt);
	}
	urxe_port_wait(port, 1, &how);
	/* A wake is for who waits alone. */
	CU_ASSERT_FALSE(urxe_port_naps(port));
	urxe_port_wake(port);
	urxe_port_nap(port, 1);
	urxe_port_wait(port, URXE_NEVER, &how);
	/* Who wakes it is put aside between its two steps: the second one counts when it comes, and
	 * later is slept. */
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&port->woken, true);
		urxe_port_wait(port, URXE_NEVER, &how);
		urxe_port_wait(port, 1, &how);
		CU_ASSERT_EQUAL(eventfd_write(port->wake_fd, 1), 0);
		urxe_port_wait(port, URXE_NEVER, &how);
		CU_ASSERT_EQUAL(eventfd_read(port->wake_fd, &value), -1);
	}
	urxe_port_destroy(port);
}

/* A child has none of the numbers that its parent had in stock. */
static void random_after_fork(void)
{
	uint64_t own[64], childs[64];
	int fds[2], status;
	pid_t pid;

	urxe_random64();
	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	pid = fork();
	for (unsigned i = 0; i < 64; i++)
		own[i] = urxe_random64();
	if (!pid)
		_exit(write(fds[1], own, sizeof(own)) != sizeof(own));
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL_FATAL(read(fds[0], childs, sizeof(childs)), sizeof(childs));
	for (unsigned i = 0; i < 64; i++) {
		for (unsigned k = 0; k < 64; k++)
			CU_ASSERT(own[i] != childs[k]);
		for (unsigned k = 0; k < i; k++)
			CU_ASSERT(own[i] != own[k]);
	}
	close(fds[0]);
	close(fds[1]);
}

URXE_TEST_MAIN("netio_port", T(gids), T(widest_way), T(bad_configs), T(routes), T(bad_paths),
	       T(loopback), T(ecn), T(loop_backpressure), T(too_long), T(golden), T(path_fields),
	       T(slow_link), T(late_link), T(wake), T(random_after_fork))
