/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The gateway of a fabric: what it carries, and what not. */
#include "gate_net.h"

static void test_out(void)
{
	uint8_t p[2048], out[2048];
	uint32_t len, got = 0;

	set_up();
	len = put_ip(p, "10.9.0.1", "10.9.0.2", FAR_QPN, 1024);
	CU_ASSERT_EQUAL_FATAL(give(&m[0], p, len), 0);
	CU_ASSERT_EQUAL_FATAL(sent_out(out, &got), 1);
	CU_ASSERT_EQUAL_FATAL(got, len);
	CU_ASSERT(!memcmp(out, mac2, 6) && !memcmp(out + 6, mac1, 6));
	/* The ICRC is made, the rest as it was but for the id and its checksum. */
	CU_ASSERT_EQUAL(urxe_icrc_get(out + got - 4),
			urxe_icrc(out + ETH_LEN, true, got - AT_BTH - 4));
	CU_ASSERT_EQUAL(out[ETH_LEN + 1], 0x6a);
	CU_ASSERT(!memcmp(out + ETH_LEN + 12, p + ETH_LEN + 12, len - ETH_LEN - 12 - 4));
	CU_ASSERT_EQUAL(urxe_sum_fold(urxe_sum(0, out + ETH_LEN, IPV4_LEN)), 0);
	/* Now the neighbour is known: no waiting. */
	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(give(&m[i % MEMBERS], p, len), 0);
	CU_ASSERT_EQUAL(sent_out(out, &got), 10);
	CU_ASSERT_EQUAL(count(URXE_GATE_out_packets), 11);
	tear_down();
}

/* Nobody answers for one address: what goes to others goes on. */
static void test_out_waits(void)
{
	uint8_t p[2048], out[2048];
	uint32_t len, got;

	set_up();
	for (unsigned i = 0; i < 100; i++) {
		len = put_ip(p, "10.9.0.1", "10.9.0.77", FAR_QPN, 64);
		CU_ASSERT_EQUAL(give(&m[0], p, len), 0);
		urxe_gate_turn(gate);
	}
	/* Of a flow so many wait. */
	CU_ASSERT_EQUAL(count(URXE_GATE_out_no_room), 36);
	len = put_ip(p, "10.9.0.1", "10.9.0.2", FAR_QPN, 64);
	CU_ASSERT_EQUAL(give(&m[0], p, len), 0);
	CU_ASSERT_EQUAL(sent_out(out, &got), 1);
	for (unsigned i = 0; i < 40; i++) {
		urxe_sim_advance(sim, urxe_sim_now(sim) + 200 * URXE_MSEC);
		urxe_gate_turn(gate);
	}
	CU_ASSERT_EQUAL(count(URXE_GATE_out_unreachable), 64);
	tear_down();
}

/* A MAD that comes nowhere: all members with the address are told, by ICMP that quotes it. */
static void test_error(void)
{
	uint32_t len, got = 0, flags = 0, quote = ETH_LEN + IPV4_LEN + 8;
	uint8_t p[2048], in[4096];

	set_up();
	len = put_ip(p, "10.9.0.1", "10.9.0.77", 1, URXE_DETH_LEN + URXE_MAD_LEN);
	CU_ASSERT_EQUAL(give(&m[0], p, len), 0);
	for (unsigned i = 0; i < 40 && !count(URXE_GATE_errors); i++) {
		urxe_sim_advance(sim, urxe_sim_now(sim) + 200 * URXE_MSEC);
		urxe_gate_turn(gate);
	}
	CU_ASSERT_EQUAL(count(URXE_GATE_errors), 1);
	for (unsigned i = 0; i < MEMBERS; i++) {
		CU_ASSERT_EQUAL_FATAL(received(&m[i], in, &got, &flags), 1);
		CU_ASSERT_EQUAL(got, quote + len - ETH_LEN - URXE_ICRC_LEN);
		CU_ASSERT(in[ETH_LEN + 9] == PROTO_ICMP && in[quote - 8] == 3 &&
			  in[quote - 7] == 1);
		CU_ASSERT_EQUAL(urxe_sum_fold(urxe_sum(0, in + quote - 8, got - quote + 8)), 0);
		CU_ASSERT(!memcmp(in + quote + 12, p + ETH_LEN + 12,
				  len - ETH_LEN - 12 - URXE_ICRC_LEN));
	}
	/* Of what is none nobody is told, nor of a flood. */
	for (unsigned i = 0; i < 30; i++) {
		urxe_sim_advance(sim, urxe_sim_now(sim) + 20 * URXE_USEC);
		len = put_ip(p, "10.9.0.1", "10.9.0.77", i < 2 ? FAR_QPN : 1,
			     URXE_DETH_LEN + URXE_MAD_LEN);
		CU_ASSERT_EQUAL(give(&m[0], p, len), 0);
		urxe_gate_turn(gate);
	}
	CU_ASSERT(count(URXE_GATE_errors) >= 10 && count(URXE_GATE_errors) <= 12);
	tear_down();
}

static void mangle(uint8_t *p, uint32_t *len, unsigned how)
{
	switch (how) {
	case 0: /* cut off */
		*len = AT_BTH + 4;
		break;
	case 1:
		p[ETH_LEN] = 0x46;
		break;
	case 2: /* longer than the frame */
		urxe_put16(p + ETH_LEN + 2, 4000);
		break;
	case 3: /* UDP and IP disagree */
		urxe_put16(p + AT_BTH - UDP_LEN + 4, 0xffff);
		break;
	case 4: /* no room for a BTH */
		urxe_put16(p + ETH_LEN + 2, IPV4_LEN + UDP_LEN + 8);
		urxe_put16(p + AT_BTH - UDP_LEN + 4, UDP_LEN + 8);
		break;
	case 5: /* a fragment */
		p[ETH_LEN + 6] = 0x20;
		break;
	case 6: /* another port */
		urxe_put16(p + AT_BTH - UDP_LEN + 2, 53);
		break;
	case 7: /* another protocol */
		p[ETH_LEN + 9] = 6;
		break;
	case 8:
		urxe_put16(p + 12, ETHERTYPE_ARP);
		break;
	case 9:
		urxe_put16(p + 12, ETHERTYPE_IPV6);
		break;
	case 10:
		urxe_put16(p + 12, ETHERTYPE_VLAN);
		break;
	default: /* to itself */
		memcpy(p + ETH_LEN + 16, p + ETH_LEN + 12, 4);
		break;
	}
}

#define MANGLED 12

/* What is no packet of a member's does not leave. */
static void test_out_hostile(void)
{
	uint8_t p[4096], out[2048];
	uint32_t len, got;

	set_up();
	for (unsigned i = 0; i < MANGLED; i++) {
		len = put_ip(p, "10.9.0.1", "10.9.0.2", FAR_QPN, 256);
		mangle(p, &len, i);
		CU_ASSERT_EQUAL(give(&m[0], p, len), 0);
		CU_ASSERT_EQUAL(sent_out(out, &got), 0);
		CU_ASSERT_EQUAL(count(URXE_GATE_out_bad), i + 1);
	}
	len = put_ip(p, "10.9.0.66", "10.9.0.2", FAR_QPN, 256);
	CU_ASSERT_EQUAL(give(&m[0], p, len), 0);
	CU_ASSERT_EQUAL(sent_out(out, &got), 0);
	CU_ASSERT_EQUAL(count(URXE_GATE_out_source), 1);
	len = put_ip(p, "10.9.0.1", "10.9.0.2", FAR_QPN, 2048);
	CU_ASSERT_EQUAL(give(&m[0], p, len), 0);
	CU_ASSERT_EQUAL(sent_out(out, &got), 0);
	CU_ASSERT_EQUAL(count(URXE_GATE_out_too_long), 1);
	CU_ASSERT_EQUAL(count(URXE_GATE_out_packets), 0);
	tear_down();
}

static void test_in(void)
{
	uint8_t p[2048], in[4096];
	uint32_t len, got = 0, flags = 0;

	set_up();
	len = from_outside(p, "10.9.0.2", m[1].slot << 16 | 5, 1024);
	arrive(p, len);
	CU_ASSERT_EQUAL_FATAL(received(&m[1], in, &got, &flags), 1);
	CU_ASSERT_EQUAL(got, len);
	CU_ASSERT(flags & URXE_FRAME_NO_ICRC);
	CU_ASSERT(!memcmp(in, m[1].info.mac, 6));
	CU_ASSERT(!memcmp(in + 12, p + 12, len - 12 - 4));
	CU_ASSERT_EQUAL(take(&m[0], NULL, NULL, NULL), 0);
	/* With the ring there, straight into it. */
	for (unsigned i = 0; i < 10; i++)
		arrive(p, len);
	CU_ASSERT_EQUAL(take(&m[1], in, &got, &flags), 10);
	CU_ASSERT_EQUAL(count(URXE_GATE_in_packets), 11);
	tear_down();
}

static void test_in_hostile(void)
{
	uint8_t p[2048], in[4096];
	uint32_t len, got, flags;

	set_up();
	/* One that nobody has. */
	arrive(p, from_outside(p, "10.9.0.2", 200 << 16 | 5, 64));
	CU_ASSERT_EQUAL(count(URXE_GATE_in_nobody), 1);
	/* The gateway's own slot is no process's. */
	arrive(p,
	       from_outside(p, "10.9.0.2", urxe_fabric_slot(urxe_gate_fabric(gate)) << 16 | 5, 64));
	CU_ASSERT_EQUAL(count(URXE_GATE_in_nobody), 2);
	arrive(p, from_outside(p, "10.9.0.1", m[0].slot << 16 | 5, 64));
	CU_ASSERT_EQUAL(count(URXE_GATE_in_source), 1);
	/* The outer port sees to these. */
	len = from_outside(p, "10.9.0.2", m[0].slot << 16 | 5, 64);
	p[len - 1] ^= 1;
	arrive(p, len);
	CU_ASSERT_EQUAL(counter(urxe_gate_port(gate), "rx_icrc"), 1);
	len = from_outside(p, "10.9.0.2", m[0].slot << 16 | 5, 64);
	arrive(p, len - 20);
	CU_ASSERT_EQUAL(counter(urxe_gate_port(gate), "rx_ip_length"), 1);
	/* A MAD that is none reaches at most one who refuses it. */
	for (unsigned i = 0; i < 64; i++)
		arrive(p, from_outside(p, "10.9.0.2", 1, i * 4));
	for (unsigned i = 0; i < 100; i++)
		urxe_gate_turn(gate);
	while (take(&m[0], in, &got, &flags) + take(&m[1], in, &got, &flags))
		;
	CU_ASSERT_EQUAL(urxe_gate_turn(gate), false);
	tear_down();
}

/* One member reads nothing: what comes for it is lost, and for the other one nothing is. */
static void test_slow(void)
{
	uint8_t p[2048];
	uint32_t len[MEMBERS], got = 0;
	uint64_t full;

	set_up();
	for (unsigned i = 0; i < MEMBERS; i++) {
		len[i] = from_outside(p, "10.9.0.2", m[i].slot << 16 | 5, 1024);
		arrive(p, len[i]);
		CU_ASSERT_EQUAL_FATAL(received(&m[i], NULL, NULL, NULL), 1);
	}
	for (unsigned i = 0; i < 3000; i++) {
		from_outside(p, "10.9.0.2", m[0].slot << 16 | 5, 1024);
		arrive(p, len[0]);
		from_outside(p, "10.9.0.2", m[1].slot << 16 | 5, 1024);
		arrive(p, len[1]);
		got += take(&m[1], NULL, NULL, NULL);
	}
	CU_ASSERT_EQUAL(got, 3000);
	CU_ASSERT(count(URXE_GATE_in_full) > 2000);
	/* It reads on: what is in its ring is whole, and what comes from then on is not lost. */
	CU_ASSERT(take(&m[0], NULL, NULL, NULL) > 0);
	for (unsigned i = 0; i < 1000; i++) {
		take(&m[0], NULL, NULL, NULL);
		urxe_gate_turn(gate);
	}
	full = count(URXE_GATE_in_full);
	for (unsigned i = got = 0; i < 3000; i++) {
		from_outside(p, "10.9.0.2", m[0].slot << 16 | 5, 1024);
		arrive(p, len[0]);
		got += take(&m[0], NULL, NULL, NULL);
	}
	CU_ASSERT_EQUAL(got, 3000);
	CU_ASSERT_EQUAL(count(URXE_GATE_in_full), full);
	tear_down();
}

static void test_groups(void)
{
	uint8_t group[16], p[2048], buf[2048], in[4096];
	uint32_t len, got = 0, flags = 0;
	unsigned reports = 0;

	set_up();
	gid_of("239.1.2.3", group);
	CU_ASSERT_EQUAL(urxe_fabric_group_join(m[1].f, group), 0);
	for (unsigned i = 0; i < 50; i++) {
		urxe_gate_turn(gate);
		urxe_sim_advance(sim, urxe_sim_now(sim) + 100 * URXE_MSEC);
		while (urxe_sim_recv(raw, buf, sizeof(buf)))
			reports += buf[ETH_LEN + 9] == PROTO_IGMP;
	}
	CU_ASSERT_EQUAL(reports, 2);
	len = put_ip(p, "10.9.0.2", "239.1.2.3", 0xffffff, 64);
	urxe_mcast_mac(group, p);
	memcpy(p + 6, mac2, 6);
	put_icrc(p, len);
	arrive(p, len);
	CU_ASSERT_EQUAL(received(&m[1], in, &got, &flags), 1);
	CU_ASSERT_EQUAL(got, len);
	CU_ASSERT_EQUAL(take(&m[0], NULL, NULL, NULL), 0);
	urxe_fabric_group_leave(m[1].f, group);
	urxe_gate_turn(gate);
	arrive(p, len);
	CU_ASSERT_EQUAL(counter(urxe_gate_port(gate), "rx_mcast_not_joined"), 1);
	tear_down();
}

/* ---- a member's whole stack ---- */

static unsigned added, removed;

static void change(void *port, bool add, const uint8_t gid[16], unsigned prefix_len)
{
	added += add;
	removed += !add;
	if (add)
		urxe_port_addr_add(port, gid, prefix_len);
	else
		urxe_port_addr_del(port, gid, prefix_len);
}

static int begin_send(struct urxe_port *port, struct urxe_path *path)
{
	struct urxe_lane *lane = urxe_port_lane(port, 0);
	struct urxe_tx tx;
	int err;

	urxe_lane_lock(lane);
	err = urxe_tx_begin(lane, path, FAR_QPN, &tx, URXE_BTH_LEN);
	if (!err)
		urxe_tx_abort(lane, &tx);
	urxe_lane_unlock(lane);
	return err;
}

/* Addresses and the MTU of the gateway; what is near, far, or nowhere; and that it stays so. */
static void test_port(void)
{
	struct urxe_port_config cfg = {
		.host = true, .vlan = URXE_NO_VLAN, .name = "urxe0", .mtu = 4096};
	uint8_t own[16], far_gid[16], near_gid[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	struct urxe_path *far_path, *near_path;
	struct urxe_port_info info;
	struct urxe_port *port;
	int i;

	set_up();
	snprintf(cfg.port, sizeof(cfg.port), "fabric,dir=%s", dir);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, OPS, NULL), 0);
	gid_of("10.9.0.1", own);
	gid_of("10.9.0.2", far_gid);
	i = urxe_port_gid_find(port, own);
	CU_ASSERT_FATAL(i >= 0);
	urxe_port_query(port, &info);
	CU_ASSERT(info.path_mtu == 4096 && info.far_mtu == 1024);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(port), 0);
	far_path = path_to(port, "10.9.0.2", 0xc000);
	near_path = path_to(port, "127.0.0.1", 0xc000);
	CU_ASSERT_FATAL(far_path && near_path);
	CU_ASSERT(urxe_path_far(far_path) && !urxe_path_far(near_path));
	CU_ASSERT_EQUAL(urxe_port_path_mtu(port, (unsigned)i, far_gid), 1024);
	CU_ASSERT_EQUAL(urxe_port_path_mtu(port, (unsigned)i, near_gid), 4096);
	CU_ASSERT(far_path->max_len < 1500 && near_path->max_len > 4096);
	CU_ASSERT_EQUAL(begin_send(port, far_path), EINPROGRESS);
	urxe_gate_close(gate);
	urxe_port_follow_host(port, change, port);
	CU_ASSERT_EQUAL(added + removed, 0);
	urxe_neigh_doubt(port);
	CU_ASSERT_EQUAL(begin_send(port, far_path), EHOSTUNREACH);
	CU_ASSERT(urxe_path_far(far_path));
	urxe_path_destroy(far_path);
	far_path = path_to(port, "10.9.0.3", 0xc000);
	CU_ASSERT(urxe_path_far(far_path));
	begin_gate();
	urxe_port_follow_host(port, change, port);
	CU_ASSERT_EQUAL(added + removed, 0);
	CU_ASSERT_EQUAL(begin_send(port, far_path), EINPROGRESS);
	urxe_path_destroy(far_path);
	urxe_path_destroy(near_path);
	urxe_port_destroy(port);
	tear_down();
}

/* It comes when its members are there: they get its addresses. */
static void test_port_early(void)
{
	struct urxe_port_config cfg = {
		.host = true, .vlan = URXE_NO_VLAN, .name = "urxe0", .mtu = 4096};
	struct urxe_path *path;
	struct urxe_port *port;
	uint8_t own[16], host[16], far_gid[16];
	unsigned from;

	set_up();
	urxe_gate_close(gate);
	snprintf(cfg.port, sizeof(cfg.port), "fabric,dir=%s", dir);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, OPS, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(port), 0);
	gid_of("10.9.0.1", own);
	CU_ASSERT(urxe_port_gid_find(port, own) < 0);
	/* The host has an interface of the same network. */
	gid_of("10.9.0.200", host);
	gid_of("10.9.0.2", far_gid);
	port->host_addrs[port->num_host_addrs].prefix_len = 24;
	memcpy(port->host_addrs[port->num_host_addrs++].gid, host, 16);
	CU_ASSERT_EQUAL(urxe_addr_publish(port, host, 24), 0);
	CU_ASSERT_EQUAL(urxe_port_route(port, far_gid, &from, NULL), 0);
	CU_ASSERT_EQUAL((int)from, urxe_port_gid_find(port, host));
	begin_gate();
	added = 0;
	urxe_port_follow_host(port, change, port);
	CU_ASSERT(added >= 1);
	CU_ASSERT(urxe_port_gid_find(port, own) >= 0);
	/* The gateway has no way for the host's address. */
	CU_ASSERT_EQUAL(urxe_port_route(port, far_gid, &from, NULL), 0);
	CU_ASSERT_EQUAL((int)from, urxe_port_gid_find(port, own));
	path = path_to(port, "10.9.0.2", 0xc000);
	CU_ASSERT_PTR_NOT_NULL_FATAL(path);
	CU_ASSERT_EQUAL(begin_send(port, path), EINPROGRESS);
	CU_ASSERT(urxe_path_far(path));
	urxe_path_destroy(path);
	urxe_port_destroy(port);
	tear_down();
}

/* One at a time; the file tells of it, and nobody leads outside when it is gone. */
static void test_one(void)
{
	struct urxe_gate_info info;
	struct urxe_gate *other;
	uint8_t gid[16], mac[6];
	char err[300];

	set_up();
	gid_of("10.9.0.2", gid);
	CU_ASSERT_EQUAL(urxe_gate_look(&spec, &info), 0);
	CU_ASSERT_EQUAL(info.pid, getpid());
	CU_ASSERT_EQUAL(info.l3_mtu, 1500);
	CU_ASSERT_EQUAL(info.num_ips, 2);
	CU_ASSERT_EQUAL(open_gate(&other, err, sizeof(err)), EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err, "is the gateway"));
	CU_ASSERT_EQUAL(OPS->resolve(m[0].link, gid, mac), 0);
	urxe_gate_close(gate);
	CU_ASSERT_EQUAL(urxe_gate_look(&spec, &info), ENOENT);
	CU_ASSERT_EQUAL(OPS->resolve(m[0].link, gid, mac), EHOSTUNREACH);
	/* Another one: members find it by themselves. */
	begin_gate();
	CU_ASSERT_EQUAL(OPS->resolve(m[0].link, gid, mac), 0);
	CU_ASSERT(OPS->far(m[0].link, mac));
	CU_ASSERT_FALSE(OPS->far(m[0].link, m[0].info.mac));
	tear_down();
}

/* A file is as anybody has written it who may write to the folder. */
static void test_file(void)
{
	static const char *const texts[] = {"",
					    "mtu 99999999999\n",
					    "mtu -1\nip 10.0.0.1/24\n",
					    "mtu 0\n",
					    "port x",
					    "ip 1\nmtu 1500 0\n\n\nip ::1/0"};
	struct urxe_gate_info info;
	char path[100];
	FILE *f;

	set_up();
	snprintf(path, sizeof(path), "%s/gateway", dir);
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		f = fopen(path, "r+e");
		CU_ASSERT_PTR_NOT_NULL_FATAL(f);
		CU_ASSERT_EQUAL(ftruncate(fileno(f), 0), 0);
		fputs(texts[i], f);
		fclose(f);
		CU_ASSERT_EQUAL(urxe_gate_look(&spec, &info), i < 5 ? ENOENT : 0);
		CU_ASSERT(i < 5 || !info.num_ips);
	}
	tear_down();
}

URXE_TEST_MAIN("gate", T(test_out), T(test_out_waits), T(test_error), T(test_out_hostile),
	       T(test_in), T(test_in_hostile), T(test_slow), T(test_groups), T(test_port),
	       T(test_port_early), T(test_one), T(test_file))
