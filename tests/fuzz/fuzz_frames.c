/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ethernet frames to the stacks of two ports, with time in between and things going on. The first
 * byte says how the ports are set up; then records: CTL, ARG, length (2 bytes), that many bytes.
 * Lengths, checksums and ICRC are made good unless CTL says not to, or nothing would get far.
 */
#include "fuzz.h"
#include "netio_net.h"

#define CTL_PORT    0x01 /* to the second port */
#define CTL_ASIS    0x02 /* with its checksums and lengths */
#define CTL_MAC	    0x04 /* with its destination MAC, else the port's */
#define CTL_LATER   0x08 /* after ARG's time */
#define CTL_BOTH    0x10 /* from the wire: whoever it is for gets it */
#define CTL_DO	    0x80 /* no frame: ARG says what a port does */
#define MAX_RECORDS 64
#define MAX_FRAME   2048
#define STORM	    2000 /* frames after one record that nobody can want */

struct world {
	struct urxe_sim *sim;
	struct urxe_sim_end *raw;
	struct node n[2];
	struct urxe_path *path[2][2];
};

static void must(bool ok)
{
	FUZZ_CHECK(ok);
}

/* Whatever a packet shows is there to be read. */
static void poll_node(struct node *n)
{
	struct urxe_packet pkts[16];
	unsigned k;

	urxe_lane_lock(n->lane);
	while ((k = urxe_lane_rx(n->lane, pkts, 16))) {
		for (unsigned i = 0; i < k; i++) {
			volatile uint8_t sum = 0;

			FUZZ_CHECK(pkts[i].len >= URXE_BTH_LEN && pkts[i].len <= MAX_FRAME);
			FUZZ_CHECK(pkts[i].sgid_index >= -1 && pkts[i].sgid_index < 2);
			for (uint32_t b = 0; b < pkts[i].len; b++)
				sum = (uint8_t)(sum + pkts[i].bth[b]);
			for (unsigned b = 0; b < (pkts[i].ipv4 ? IPV4_LEN : IPV6_LEN); b++)
				sum = (uint8_t)(sum + pkts[i].l3[b]);
		}
		urxe_lane_release(n->lane, pkts, k);
	}
	urxe_lane_tick(n->lane, urxe_port_now(n->port));
	urxe_lane_unlock(n->lane);
}

/* Until all is quiet at this time; two stacks that answer each other for ever are found here. */
static void settle(struct world *w)
{
	unsigned n = 0;
	uint8_t buf[MAX_FRAME];
	uint64_t next, until = urxe_sim_now(w->sim) + URXE_MSEC;

	do {
		poll_node(&w->n[0]);
		poll_node(&w->n[1]);
		while (urxe_sim_recv(w->raw, buf, sizeof(buf)))
			FUZZ_CHECK(++n < STORM);
		next = urxe_sim_next(w->sim);
		if (next < until)
			urxe_sim_advance(w->sim, next);
	} while (next < until);
}

/* ---- making what is checked good ---- */

static void fix_ipv4(uint8_t *ip, uint32_t len)
{
	uint32_t hdr = (ip[0] & 15u) * 4, n;
	uint8_t *l4;

	if (len < IPV4_LEN || hdr < IPV4_LEN || len < hdr + 8)
		return;
	urxe_put16(ip + 2, (uint16_t)len);
	urxe_put16(ip + 10, 0);
	urxe_put16(ip + 10, urxe_sum_fold(urxe_sum(0, ip, hdr)));
	l4 = ip + hdr;
	n = len - hdr;
	if (ip[9] == PROTO_UDP) {
		urxe_put16(l4 + 4, (uint16_t)n);
		urxe_put16(l4 + 6, 0);
		if (hdr == IPV4_LEN && n >= UDP_LEN + URXE_BTH_LEN + URXE_ICRC_LEN)
			urxe_icrc_put(ip + len - URXE_ICRC_LEN,
				      urxe_icrc(ip, true, n - UDP_LEN - URXE_ICRC_LEN));
	} else if (ip[9] == PROTO_ICMP || ip[9] == PROTO_IGMP) {
		urxe_put16(l4 + 2, 0);
		urxe_put16(l4 + 2, urxe_sum_fold(urxe_sum(0, l4, n)));
	}
}

static void fix_ipv6(uint8_t *ip, uint32_t len)
{
	uint8_t *l4 = ip + IPV6_LEN, proto = ip[6];
	uint32_t n = len - IPV6_LEN;

	if (len < IPV6_LEN + 8)
		return;
	urxe_put16(ip + 4, (uint16_t)n);
	if (proto == PROTO_HOPOPTS && n >= 16) { /* of MLD */
		proto = l4[0];
		l4 += 8;
		n -= 8;
	}
	if (proto == PROTO_UDP) {
		urxe_put16(l4 + 4, (uint16_t)n);
		urxe_put16(l4 + 6, 0);
		if (n >= UDP_LEN + URXE_BTH_LEN + URXE_ICRC_LEN && l4 == ip + IPV6_LEN)
			urxe_icrc_put(ip + len - URXE_ICRC_LEN,
				      urxe_icrc(ip, false, n - UDP_LEN - URXE_ICRC_LEN));
	} else if (proto == PROTO_ICMPV6) {
		urxe_put16(l4 + 2, 0);
		urxe_put16(l4 + 2, urxe_sum_fold(urxe_sum(
					   urxe_sum_pseudo(ip, false, PROTO_ICMPV6, n), l4, n)));
	}
}

static void fix(uint8_t *f, uint32_t len)
{
	uint32_t off = 12;

	if (len < ETH_LEN + VLAN_LEN)
		return;
	if (urxe_get16(f + off) == ETHERTYPE_VLAN)
		off += VLAN_LEN;
	off += 2;
	if (urxe_get16(f + off - 2) == ETHERTYPE_IPV4)
		fix_ipv4(f + off, len - off);
	else if (urxe_get16(f + off - 2) == ETHERTYPE_IPV6)
		fix_ipv6(f + off, len - off);
}

/* ---- what happens ---- */

static void send_frame(struct world *w, struct fuzz_in *in, uint8_t ctl)
{
	struct node *n = &w->n[ctl & CTL_PORT];
	struct urxe_port_info info;
	size_t len = fuzz_u16(in) % (MAX_FRAME + 1);
	const uint8_t *data = fuzz_bytes(in, &len);
	uint8_t *f = malloc(MAX_FRAME);

	must(f != NULL);
	memcpy(f, data, len);
	if (!(ctl & CTL_MAC) && len >= 6) {
		urxe_port_query(n->port, &info);
		memcpy(f, info.mac, 6);
	}
	if (!(ctl & CTL_ASIS))
		fix(f, (uint32_t)len);
	if (ctl & CTL_BOTH)
		urxe_sim_send(w->raw, f, (uint32_t)len);
	else
		urxe_sim_put(n->end, f, (uint32_t)len);
	free(f);
}

static bool raw_seen(void *arg, const uint8_t *frame, uint32_t len, bool roce)
{
	volatile uint8_t sum = 0;

	for (uint32_t i = 0; i < len; i++)
		sum = (uint8_t)(sum + frame[i]);
	return len & 1;
}

/* Of an ICMP error: what is quoted is there to be read, and names a path that there is. */
static void path_error(void *arg, const struct urxe_path_error *e)
{
	volatile uint8_t sum = 0;

	FUZZ_CHECK(e->err > 0 && (e->udp_sport == 0xc001 || e->udp_sport == 0xc002));
	FUZZ_CHECK(e->len <= MAX_FRAME);
	for (uint32_t i = 0; i < e->len; i++)
		sum = (uint8_t)(sum + e->bth[i]);
}

static void do_something(struct world *w, uint8_t arg)
{
	static const char *const groups[] = {"239.1.2.3", "ff0e::7"};
	struct node *n = &w->n[arg & 1];
	uint8_t data[URXE_BTH_LEN + 64] = {0x04}, gid[16], mac[6];
	bool v6 = arg & 2;

	gid_of(groups[v6], gid);
	switch (arg >> 2 & 7) {
	case 0:
		urxe_port_mcast_join(n->port, gid);
		break;
	case 1:
		urxe_port_mcast_leave(n->port, gid);
		break;
	case 2:
		urxe_port_raw_tap(n->port, raw_seen, NULL);
		break;
	case 3:
		urxe_port_raw_tap(n->port, NULL, NULL);
		break;
	case 4: /* to somebody who is not there, or is the fuzzer */
		gid_of(v6 ? "fd00::77" : "10.9.0.77", gid);
		urxe_port_resolve(n->port, v6, gid, mac);
		break;
	case 5:
		urxe_lane_lock(n->lane);
		if (w->path[arg & 1][v6])
			urxe_path_suspect(n->lane, w->path[arg & 1][v6]);
		urxe_lane_unlock(n->lane);
		break;
	default:
		urxe_lane_lock(n->lane);
		if (w->path[arg & 1][v6])
			send_bytes(n->lane, w->path[arg & 1][v6], data, sizeof(data));
		urxe_lane_unlock(n->lane);
		break;
	}
}

static void open_world(struct world *w, uint8_t how)
{
	static const struct urxe_sim_params link = {.latency = 1000};

	memset(w, 0, sizeof(*w));
	must(!urxe_sim_create(&w->sim, how, false));
	w->raw = urxe_sim_end(w->sim, &link);
	for (unsigned i = 0; i < 2; i++) {
		struct urxe_port_config cfg = node_cfg(i + 1);
		struct node *n = &w->n[i];

		if (how & 1 << i)
			cfg.vlan = 7;
		if (how & 4) {
			cfg.has_gw4 = cfg.has_gw6 = true;
			gid_of("10.9.0.254", cfg.gw4);
			gid_of("fd00::fe", cfg.gw6);
		}
		if (how & 8)
			cfg.mtu = 576;
		if (how & 8)
			cfg.num_ips = 1;
		n->end = urxe_sim_end(w->sim, &link);
		must(!urxe_port_create(&n->port, &cfg, &urxe_link_sim_ops, n->end));
		urxe_port_on_path_error(n->port, path_error, NULL);
		must(!urxe_port_start(n->port));
		n->lane = urxe_port_lane(n->port, 0);
		must(n->lane != NULL);
		w->path[i][0] = path_to(n->port, i ? "10.9.0.1" : "10.9.0.2", 0xc001);
		w->path[i][1] = path_to(n->port, i ? "fd00::1" : "8.8.8.8", 0xc002);
	}
}

static void close_world(struct world *w)
{
	for (unsigned i = 0; i < 2; i++) {
		urxe_path_destroy(w->path[i][0]);
		urxe_path_destroy(w->path[i][1]);
		urxe_port_destroy(w->n[i].port);
	}
	drain(w->sim, w->raw);
	FUZZ_CHECK(!urxe_sim_buffers(w->sim));
	urxe_sim_destroy(w->sim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};
	struct world w;

	open_world(&w, fuzz_u8(&in));
	for (unsigned i = 0; i < MAX_RECORDS && in.n; i++) {
		uint8_t ctl = fuzz_u8(&in), arg = fuzz_u8(&in);

		if (ctl & CTL_LATER) /* 1 us to 134 s */
			urxe_sim_advance(w.sim, urxe_sim_now(w.sim) + (1000ull << (arg >> 3) % 28));
		if (ctl & CTL_DO)
			do_something(&w, arg);
		else
			send_frame(&w, &in, ctl);
		settle(&w);
	}
	close_world(&w);
	return 0;
}
