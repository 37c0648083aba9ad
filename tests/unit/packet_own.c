/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames that are ours alone: the kernel's IP does not get them, and gets all others. Between the
 * ends of a veth pair in a network of our own.
 */
#include "veth_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if_ether.h>

#include "netio/kernel_if.h"
#include "netio/packet.h"
#include "netio/stack.h"

#define WAIT_NS 10000000000u

static const struct urxe_config_ip ours[] = {
	{.gid = {[10] = 0xff, 0xff, 10, 0, 0, 2}, .ipv4 = true, .prefix_len = 24},
	{.gid = {0xfd, [15] = 2}, .prefix_len = 64},
};
static const struct urxe_config_ip others[] = {
	{.gid = {[10] = 0xff, 0xff, 10, 0, 0, 9}, .ipv4 = true, .prefix_len = 24},
	{.gid = {0xfd, [15] = 9}, .prefix_len = 64},
};

struct frame {
	const struct urxe_config_ip *to;
	uint8_t proto;
	uint16_t port;
	bool broadcast;
};

/* What the kernel's IP has received in this network. */
static uint64_t received(bool ipv4)
{
	FILE *f = fopen(ipv4 ? "/proc/net/snmp" : "/proc/net/snmp6", "re");
	unsigned long long n = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, ipv4 ? "Ip: %*d %*d %llu" : "Ip6InReceives %llu", &n) == 1)
			break;
	}
	if (f)
		fclose(f);
	return n;
}

static uint32_t make(const struct frame *x, const uint8_t mac[6], uint8_t *p)
{
	uint32_t head = x->to->ipv4 ? IPV4_LEN : IPV6_LEN;
	uint8_t *l3 = p + ETH_LEN, *udp = l3 + head;

	memset(p, 0, 128);
	memcpy(p, mac, 6);
	if (x->broadcast)
		memset(p, 0xff, 6);
	memcpy(p + 6, own_mac, 6);
	urxe_put16(p + 12, x->to->ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	if (x->to->ipv4) {
		l3[0] = 0x45;
		urxe_put16(l3 + 2, (uint16_t)(head + UDP_LEN + 20));
		l3[8] = 64;
		l3[9] = x->proto;
		memcpy(l3 + 12, (uint8_t[]){10, 0, 0, 1}, 4);
		memcpy(l3 + 16, x->to->gid + 12, 4);
		urxe_put16(l3 + 10, urxe_sum_fold(urxe_sum(0, l3, IPV4_LEN)));
	} else {
		l3[0] = 0x60;
		urxe_put16(l3 + 4, UDP_LEN + 20);
		l3[6] = x->proto;
		l3[7] = 64;
		l3[8] = 0xfd;
		l3[23] = 1;
		memcpy(l3 + 24, x->to->gid, 16);
	}
	urxe_put16(udp, 0xc001);
	urxe_put16(udp + 2, x->port);
	urxe_put16(udp + 4, UDP_LEN + 20);
	return ETH_LEN + head + UDP_LEN + 20;
}

static bool await_frame(int tap, const uint8_t *want, uint32_t len)
{
	uint64_t end = now() + WAIT_NS;
	uint8_t got[256];

	while (recv(tap, got, sizeof(got), MSG_DONTWAIT) != len || memcmp(got, want, len)) {
		if (now() > end)
			return false;
		sched_yield();
	}
	return true;
}

/*
 * A frame from the other end: does the kernel's IP get it? Packet sockets do. One of the other
 * version follows, which IP gets in any case: the first is not on its way any more then.
 */
static bool reaches_ip(const struct frame *x)
{
	const struct frame behind = {x->to->ipv4 ? &others[1] : &others[0], PROTO_UDP, 4791, false};
	uint64_t before = received(x->to->ipv4), marks = received(!x->to->ipv4);
	struct urxe_kernel_if kif = {.mtu = 0};
	int from = peek("urxeb"), tap = peek("urxea");
	uint64_t end = now() + WAIT_NS;
	uint8_t first[128], next[128];
	uint32_t len, next_len;

	CU_ASSERT_EQUAL(urxe_kernel_if_query(if_nametoindex("urxea"), &kif), 0);
	len = make(x, kif.mac, first);
	next_len = make(&behind, kif.mac, next);
	CU_ASSERT_EQUAL(send(from, first, len, 0), len);
	CU_ASSERT_EQUAL(send(from, next, next_len, 0), next_len);
	CU_ASSERT(await_frame(tap, first, len));
	CU_ASSERT(await_frame(tap, next, next_len));
	while (received(!x->to->ipv4) == marks && now() < end)
		sched_yield();
	CU_ASSERT_EQUAL(received(!x->to->ipv4), marks + 1);
	close(from);
	close(tap);
	return received(x->to->ipv4) == before + 1;
}

/* False: this kernel cannot. */
static bool own(struct nl_sock **sock)
{
	struct urxe_kernel_if kif = {.mtu = 0};
	uint8_t gids[2][16];
	int err;

	memcpy(gids[0], ours[0].gid, 16);
	memcpy(gids[1], ours[1].gid, 16);
	CU_ASSERT_EQUAL(urxe_kernel_if_query(if_nametoindex("urxea"), &kif), 0);
	*sock = packet_own_socket();
	err = *sock ? packet_own_frames(*sock, "urxea", kif.mac, (const uint8_t(*)[16])gids, 2)
		    : EPROTONOSUPPORT;
	if (err == EOPNOTSUPP || err == EPROTONOSUPPORT || err == EINVAL)
		printf("skipped: no nf_tables with owners in this kernel ");
	else
		CU_ASSERT_EQUAL(err, 0);
	if (err)
		packet_own_close(*sock);
	return !err;
}

/* ---- tests ---- */

static void ours_alone(void)
{
	static const struct frame dropped[] = {{&ours[0], PROTO_UDP, 4791, false},
					       {&ours[1], PROTO_UDP, 4791, false}};
	static const struct frame passed[] = {{&others[0], PROTO_UDP, 4791, false},
					      {&others[1], PROTO_UDP, 4791, false},
					      {&ours[0], PROTO_UDP, 4792, false},
					      {&ours[0], 6, 4791, false},
					      {&ours[0], PROTO_UDP, 4791, true},
					      {&ours[1], PROTO_UDP, 4790, false},
					      {&ours[1], 6, 4791, false}};
	struct nl_sock *sock;

	if (!wire())
		return;
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT(reaches_ip(&dropped[i]));
	if (own(&sock)) {
		for (unsigned i = 0; i < 2; i++)
			CU_ASSERT_FALSE(reaches_ip(&dropped[i]));
		for (unsigned i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
			CU_ASSERT(reaches_ip(&passed[i]));
		packet_own_close(sock);
		for (unsigned i = 0; i < 2; i++)
			CU_ASSERT(reaches_ip(&dropped[i]));
	}
	CU_ASSERT(ip("del urxea"));
}

/* Two ports on one interface; as many addresses as there can be, twice; and then none. */
static void many(void)
{
	const struct frame x = {&ours[0], PROTO_UDP, 4791, false};
	uint8_t gids[URXE_CONFIG_MAX_IPS][16];
	struct nl_sock *one, *two;

	if (!wire())
		return;
	if (own(&one) && own(&two)) {
		packet_own_close(one);
		CU_ASSERT_FALSE(reaches_ip(&x));
		for (unsigned i = 0; i < URXE_CONFIG_MAX_IPS; i++) {
			memcpy(gids[i], ours[1].gid, 16);
			gids[i][14] = (uint8_t)i;
		}
		for (unsigned i = 0; i < 2; i++)
			CU_ASSERT_EQUAL(packet_own_frames(two, "urxea", own_mac,
							  (const uint8_t(*)[16])gids,
							  URXE_CONFIG_MAX_IPS),
					0);
		CU_ASSERT_EQUAL(packet_own_frames(two, "urxea", own_mac, NULL, 0), 0);
		CU_ASSERT(reaches_ip(&x));
		packet_own_close(two);
	}
	CU_ASSERT(ip("del urxea"));
}

static void port_open(struct urxe_port **port, const char *more)
{
	struct urxe_port_config cfg = {
		.name = "urxe0", .mtu = MTU, .vlan = URXE_NO_VLAN, .num_ips = 1, .ips[0] = ours[0]};
	const struct urxe_link_ops *ops;
	void *arg;

	snprintf(cfg.port, sizeof(cfg.port), "%s%s", port_a, more);
	urxe_link_select(&cfg, &ops, &arg);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(port, &cfg, ops, arg), 0);
}

/* Soon. */
static bool comes_to(const struct urxe_config_ip *addr, bool reach)
{
	const struct frame x = {addr, PROTO_UDP, 4791, false};
	uint64_t end = now() + WAIT_NS;

	while (reaches_ip(&x) != reach) {
		if (now() > end)
			return false;
		sched_yield();
	}
	return true;
}

static bool can_own(void)
{
	struct nl_sock *sock;
	bool can = own(&sock);

	if (can)
		packet_own_close(sock);
	return can;
}

/* A port does so by itself, soon after its start, unless it is told not to. */
static void port(void)
{
	struct urxe_port *p;

	if (!wire())
		return;
	for (unsigned want = 0; can_own() && want < 2; want++) {
		port_open(&p, want ? ",own=1" : ",own=0");
		CU_ASSERT_EQUAL(urxe_port_start(p), 0);
		CU_ASSERT(comes_to(&ours[0], !want));
		urxe_port_destroy(p);
		CU_ASSERT(reaches_ip(&(struct frame){&ours[0], PROTO_UDP, 4791, false}));
	}
	CU_ASSERT(ip("del urxea"));
}

static int add(struct urxe_port *p, const struct urxe_config_ip *addr)
{
	return urxe_port_addr_add(p, addr->gid, addr->prefix_len);
}

static int del(struct urxe_port *p, const struct urxe_config_ip *addr)
{
	return urxe_port_addr_del(p, addr->gid, addr->prefix_len);
}

/* Addresses come and go, before the port's start and after it. What is ours no more is left to the
 * kernel, and so is what it has itself. */
static void port_follows(void)
{
	struct urxe_port *p;

	if (!wire())
		return;
	if (can_own()) {
		CU_ASSERT(!system("ip address add 10.0.0.9/24 dev urxea"));
		port_open(&p, "");
		CU_ASSERT(!add(p, &ours[1]) && !del(p, &ours[0]));
		CU_ASSERT_EQUAL(urxe_port_start(p), 0);
		CU_ASSERT(comes_to(&ours[1], false) && comes_to(&ours[0], true));
		CU_ASSERT(!add(p, &ours[0]) && !add(p, &others[0]));
		CU_ASSERT(comes_to(&ours[0], false));
		CU_ASSERT(comes_to(&ours[1], false) && comes_to(&others[0], true));
		CU_ASSERT(!del(p, &ours[1]));
		CU_ASSERT(comes_to(&ours[1], true) && comes_to(&ours[0], false));
		CU_ASSERT(!del(p, &ours[0])); /* none is left but the kernel's */
		CU_ASSERT(comes_to(&ours[0], true));
		CU_ASSERT(!add(p, &ours[0]));
		CU_ASSERT(comes_to(&ours[0], false));
		urxe_port_destroy(p);
	}
	CU_ASSERT(ip("del urxea"));
}

URXE_TEST_MAIN("packet_own", T(veth_setup), T(ours_alone), T(many), T(port), T(port_follows))
