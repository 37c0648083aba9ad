/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is the kernel's UDP: identifications in the ICRC, what the port's arguments mean,
 * and frames through real sockets on addresses of loopback's that this process alone uses.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "netio/config.h"
#include "netio/link.h"
#include "netio/link_udp.h"
#include "netio/stack.h"
#include "netio/udp.h"

/* ---- the identification in the ICRC ---- */

static uint32_t icrc_with(uint8_t *l3, uint16_t id, uint32_t len)
{
	urxe_put16(l3 + 4, id);
	return urxe_icrc(l3, true, len);
}

static void ids_show_in_the_icrc(void)
{
	static struct udp_link u;
	uint8_t l3[IPV4_LEN + UDP_LEN + 4200];

	for (unsigned i = 0; i < sizeof(l3); i++)
		l3[i] = (uint8_t)random();
	for (unsigned i = 0; i < 2000; i++) {
		uint32_t len = 12 + 4 * (uint32_t)(random() % 1040);
		uint16_t id = (uint16_t)random(), found = 0;
		uint32_t diff = icrc_with(l3, 0, len) ^ icrc_with(l3, id, len);

		CU_ASSERT_EQUAL(udp_icrc_of_id(&u, len, id), diff);
		CU_ASSERT_TRUE(udp_icrc_solve(&u, len, diff, &found));
		CU_ASSERT_EQUAL(found, id);
	}
}

/* Of damage of any kind one in 65,536 is taken for an identification, and no more. */
static void damage_is_no_id(void)
{
	static struct udp_link u;
	unsigned solved = 0;
	uint16_t id;

	for (unsigned i = 0; i < 200000; i++)
		solved += udp_icrc_solve(&u, 64, (uint32_t)random() << 1 ^ (uint32_t)random(), &id);
	CU_ASSERT(solved < 30);
	/* A single bit of the payload never is. */
	for (unsigned bit = 0; bit < 8; bit++) {
		uint8_t l3[IPV4_LEN + UDP_LEN + 64] = {0x45};
		uint32_t good = urxe_icrc(l3, true, 64);

		l3[IPV4_LEN + UDP_LEN + 20] ^= (uint8_t)(1u << bit);
		CU_ASSERT_FALSE(udp_icrc_solve(&u, 64, good ^ urxe_icrc(l3, true, 64), &id));
	}
}

static void who_sends_none_is_not_believed_one(void)
{
	static struct udp_link u;
	const uint8_t peer[4] = {10, 0, 0, 9}, other[4] = {10, 0, 0, 10};

	CU_ASSERT_TRUE(udp_icrc_trust(&u, other, 7));
	for (unsigned i = 0; i < 1024; i++)
		CU_ASSERT_TRUE(udp_icrc_trust(&u, peer, 0));
	CU_ASSERT_FALSE(udp_icrc_trust(&u, peer, 7));
	CU_ASSERT_TRUE(udp_icrc_trust(&u, peer, 8));
	CU_ASSERT_TRUE(udp_icrc_trust(&u, peer, 0));
	CU_ASSERT_TRUE(udp_icrc_trust(&u, other, 7));
}

/* ---- arguments ---- */

static int check(const char *port, struct urxe_port_config *cfg)
{
	char err[512] = "";

	*cfg = (struct urxe_port_config){.name = "urxe0", .vlan = URXE_NO_VLAN, .mtu = 1500};
	snprintf(cfg->port, sizeof(cfg->port), "%s", port);
	urxe_udp_defaults(cfg);
	return urxe_udp_check(cfg, err, sizeof(err));
}

static void arguments(void)
{
	static const char *const bad[] = {
		"udp,bind=",	       "udp,bind=10.0.0",    "udp,bind=224.0.0.1",
		"udp,bind=::",	       "udp,if=no-such-if",  "udp,iface=lo",
		"udp,bind=10.1.1.1,x", "udp,bind=ff02::1:2", "udp,",
	};
	struct urxe_port_config cfg;

	CU_ASSERT_TRUE(urxe_udp_port("udp"));
	CU_ASSERT_TRUE(urxe_udp_port("udp,if=lo"));
	CU_ASSERT_FALSE(urxe_udp_port("udp0"));
	CU_ASSERT_EQUAL(check("udp", &cfg), 0);
	CU_ASSERT_TRUE(cfg.host);
	CU_ASSERT_EQUAL(check("udp,if=lo", &cfg), 0);
	CU_ASSERT_STRING_EQUAL(cfg.host_if, "lo");
	CU_ASSERT_EQUAL(check("udp,bind=10.1.2.3", &cfg), 0);
	CU_ASSERT_FALSE(cfg.host);
	CU_ASSERT_EQUAL(cfg.num_ips, 1);
	CU_ASSERT_EQUAL(cfg.ips[0].prefix_len, 32);
	CU_ASSERT_EQUAL(check("udp,bind=fd00::1,if=lo", &cfg), 0);
	CU_ASSERT_FALSE(cfg.ips[0].ipv4);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(check(bad[i], &cfg), EINVAL);
	check("udp", &cfg);
	cfg.vlan = 5;
	CU_ASSERT_EQUAL(urxe_udp_check(&cfg, (char[256]){""}, 256), EINVAL);
	cfg.vlan = URXE_NO_VLAN;
	cfg.queues = 2;
	CU_ASSERT_EQUAL(urxe_udp_check(&cfg, (char[256]){""}, 256), EINVAL);
}

/* ---- frames ---- */

#define MTU 1500

struct end {
	void *link;
	uint8_t addr[4];
};

static const struct urxe_link_ops *ops = &urxe_link_udp_ops;
static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

static bool open_end(struct end *e, unsigned n)
{
	struct urxe_port_config cfg = {.name = "test", .port = "udp", .num_ips = 1};
	unsigned pid = (unsigned)getpid();
	struct urxe_link_info info;

	memset(&info, 0, sizeof(info));
	e->addr[0] = 127;
	e->addr[1] = (uint8_t)(2 + n);
	e->addr[2] = (uint8_t)(pid >> 8);
	e->addr[3] = (uint8_t)(pid | 1);
	cfg.ips[0].ipv4 = true;
	urxe_gid_from_v4(cfg.ips[0].gid, e->addr);
	if (ops->open(NULL, &cfg, mac, MTU, &e->link, &info))
		return false;
	CU_ASSERT_EQUAL(info.lanes, 1);
	return true;
}

/* A packet of @len bytes from the BTH on, with its ICRC. */
static void packet(const struct end *from, const struct end *to, uint32_t len, uint8_t fill,
		   struct urxe_frame *f)
{
	uint8_t *l3, *bth;

	*f = (struct urxe_frame){.len = 0};
	if (ops->alloc(from->link, 0, f, 1) != 1)
		abort();
	memset(f->data, 0, UDP_HEAD_V4);
	l3 = f->data + ETH_LEN;
	bth = f->data + UDP_HEAD_V4;
	f->len = UDP_HEAD_V4 + len + URXE_ICRC_LEN;
	urxe_put16(f->data + 12, ETHERTYPE_IPV4);
	urxe_put16(l3, 0x4500);
	urxe_put16(l3 + 2, (uint16_t)(f->len - ETH_LEN));
	urxe_put16(l3 + 6, 0x4000);
	l3[8] = 64;
	l3[9] = PROTO_UDP;
	memcpy(l3 + 12, from->addr, 4);
	memcpy(l3 + 16, to->addr, 4);
	urxe_put16(l3 + 20, URXE_UDP_DPORT);
	urxe_put16(l3 + 22, URXE_UDP_DPORT);
	urxe_put16(l3 + 24, (uint16_t)(f->len - ETH_LEN - IPV4_LEN));
	memset(bth, fill, len);
	urxe_icrc_put(bth + len, urxe_icrc(l3, true, len));
}

/* The next frame, once it is there. */
static struct urxe_frame receive(const struct end *e)
{
	struct urxe_frame f = {.len = 0};

	for (unsigned i = 0; !ops->rx(e->link, 0, &f, 1); i++) {
		/* It may return early. */
		CU_ASSERT_FATAL(i < 1000);
		ops->nap(e->link, 10000000000u);
	}
	return f;
}

static void one_by_one(const struct end *a, const struct end *b)
{
	static const uint32_t lengths[] = {12, 64, 128, 132, 1040, 1456};

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct urxe_frame f, got;

		packet(a, b, lengths[i], (uint8_t)(i + 1), &f);
		CU_ASSERT_EQUAL(ops->tx(a->link, 0, &f, 1), 1);
		got = receive(b);
		CU_ASSERT_EQUAL(got.len, UDP_HEAD_V4 + lengths[i] + URXE_ICRC_LEN);
		CU_ASSERT_EQUAL(got.flags, URXE_FRAME_ICRC_OK);
		CU_ASSERT_EQUAL(urxe_get16(got.data + ETH_LEN + 4), 0);
		CU_ASSERT_EQUAL(memcmp(got.data + ETH_LEN + 12, a->addr, 4), 0);
		CU_ASSERT_EQUAL(memcmp(got.data + ETH_LEN + 16, b->addr, 4), 0);
		CU_ASSERT_EQUAL(got.data[UDP_HEAD_V4 + lengths[i] - 1], i + 1);
		ops->free(b->link, 0, &got, 1);
	}
}

/* A run of one length, with a short one at its end, and then others: in order, all of them good. */
static void in_a_burst(const struct end *a, const struct end *b)
{
	struct urxe_frame f[64], got;
	unsigned sent = 0;

	for (unsigned i = 0; i < 64; i++)
		packet(a, b, i < 40 ? 1040 : i == 40 ? 16 : 12 + 4 * (i % 3), (uint8_t)i, &f[i]);
	while (sent < 64)
		sent += ops->tx(a->link, 0, f + sent, 64 - sent);
	for (unsigned i = 0; i < 64; i++) {
		got = receive(b);
		CU_ASSERT_EQUAL(got.flags, URXE_FRAME_ICRC_OK);
		CU_ASSERT_EQUAL(got.data[UDP_HEAD_V4 + 11], i);
		/* With the identification that the header says. */
		CU_ASSERT_EQUAL(
			urxe_icrc(got.data + ETH_LEN, true, got.len - UDP_HEAD_V4 - URXE_ICRC_LEN),
			urxe_icrc_get(got.data + got.len - URXE_ICRC_LEN));
		ops->free(b->link, 0, &got, 1);
	}
}

static void damaged_or_odd(const struct end *a, const struct end *b)
{
	struct urxe_frame f, got;

	packet(a, b, 64, 1, &f);
	f.data[UDP_HEAD_V4 + 30] ^= 4;
	ops->tx(a->link, 0, &f, 1);
	got = receive(b);
	CU_ASSERT_EQUAL(got.flags, 0);
	ops->free(b->link, 0, &got, 1);
	/* What the kernel does for us: it goes nowhere. */
	packet(a, b, 64, 2, &f);
	urxe_put16(f.data + 12, ETHERTYPE_ARP);
	CU_ASSERT_EQUAL(ops->tx(a->link, 0, &f, 1), 1);
	/* An address that cannot be ours. */
	packet(a, b, 64, 3, &f);
	f.data[ETH_LEN + 12] = 192;
	CU_ASSERT_EQUAL(ops->tx(a->link, 0, &f, 1), 1);
	packet(a, b, 64, 4, &f);
	CU_ASSERT_EQUAL(ops->tx(a->link, 0, &f, 1), 1);
	got = receive(b);
	CU_ASSERT_EQUAL(got.data[UDP_HEAD_V4], 4);
	ops->free(b->link, 0, &got, 1);
}

static void strangers(const struct end *b)
{
	static const uint32_t lengths[] = {0, 1, 11, 15, 16, 1400, 9000, 60000};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(URXE_UDP_DPORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t lost = ops->dropped(b->link);
	static uint8_t rubbish[60000];
	struct urxe_frame got;

	memcpy(&to.sin_addr, b->addr, 4);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		CU_ASSERT_EQUAL(
			sendto(fd, rubbish, lengths[i], 0, (struct sockaddr *)&to, sizeof(to)),
			(ssize_t)lengths[i]);
	/* Nothing of none; the stack counts the short ones; what is too long is counted here. */
	for (unsigned i = 1; i < 6; i++) {
		got = receive(b);
		CU_ASSERT_EQUAL(got.len, UDP_HEAD_V4 + lengths[i]);
		CU_ASSERT_EQUAL(got.flags, 0);
		ops->free(b->link, 0, &got, 1);
	}
	/* A busy kernel delivers later than sendto() returns. */
	for (unsigned i = 0; i < 1000 && ops->dropped(b->link) < lost + 2; i++) {
		if (ops->rx(b->link, 0, &got, 1))
			ops->free(b->link, 0, &got, 1);
		else
			ops->nap(b->link, 10000000);
	}
	CU_ASSERT_EQUAL(ops->dropped(b->link), lost + 2);
	close(fd);
}

static void packet6(void *link, uint8_t src_last, struct urxe_frame *f)
{
	uint8_t *l3, *bth;

	*f = (struct urxe_frame){.len = 0};
	if (ops->alloc(link, 0, f, 1) != 1)
		abort();
	memset(f->data, 0, UDP_HEAD_V6);
	l3 = f->data + ETH_LEN;
	bth = f->data + UDP_HEAD_V6;
	f->len = UDP_HEAD_V6 + 1040 + URXE_ICRC_LEN;
	urxe_put16(f->data + 12, ETHERTYPE_IPV6);
	l3[0] = 0x60;
	urxe_put16(l3 + 4, (uint16_t)(f->len - ETH_LEN - IPV6_LEN));
	l3[6] = PROTO_UDP;
	l3[7] = 64;
	l3[8] = src_last == 1 ? 0 : 0xfd;
	l3[8 + 15] = src_last;
	l3[24 + 15] = 1;
	urxe_put16(l3 + 40, URXE_UDP_DPORT);
	urxe_put16(l3 + 42, URXE_UDP_DPORT);
	urxe_put16(l3 + 44, (uint16_t)(f->len - ETH_LEN - IPV6_LEN));
	memset(bth, 1, 1040);
	urxe_icrc_put(bth + 1040, urxe_icrc(l3, false, 1040));
}

/* From an address that has just gone: the others' runs stay runs. */
static void one_flow_refused(void)
{
	struct urxe_port_config cfg = {.name = "test", .port = "udp", .num_ips = 1};
	struct urxe_link_info info;
	struct urxe_frame f[8];
	struct udp_link *u;
	unsigned sent = 0;
	void *link;

	memset(&info, 0, sizeof(info));
	cfg.ips[0].gid[15] = 1;
	if (ops->open(NULL, &cfg, mac, MTU, &link, &info)) {
		printf("skipped: no ::1 ");
		return;
	}
	u = link;
	CU_ASSERT_TRUE(u->sock[1].gso);
	for (unsigned i = 0; i < 8; i++)
		packet6(link, 9, &f[i]);
	while (sent < 8)
		sent += ops->tx(link, 0, f + sent, 8 - sent);
	CU_ASSERT_TRUE(u->sock[1].gso);
	CU_ASSERT_EQUAL(ops->refused(link), 8);
	for (unsigned i = 0; i < 8; i++)
		packet6(link, 1, &f[i]);
	CU_ASSERT_EQUAL(ops->tx(link, 0, f, 8), 8);
	for (unsigned i = 0; i < 8; i++) {
		struct end e = {.link = link};

		f[i] = receive(&e);
		CU_ASSERT_EQUAL(f[i].flags, URXE_FRAME_ICRC_OK);
		ops->free(link, 0, &f[i], 1);
	}
	ops->close(link);
}

/* A socket of one address receives at no other; one that went may come back. */
static void no_other_address(void)
{
	struct end e = {NULL};
	uint8_t own[16], other[16], v6[16] = {0xfd, [15] = 1};

	CU_ASSERT_FATAL(open_end(&e, 0));
	urxe_gid_from_v4(own, e.addr);
	e.addr[3]++;
	urxe_gid_from_v4(other, e.addr);
	CU_ASSERT_EQUAL(ops->addr(e.link, true, own), 0);
	CU_ASSERT_EQUAL(ops->addr(e.link, true, other), EADDRNOTAVAIL);
	CU_ASSERT_EQUAL(ops->addr(e.link, true, v6), EADDRNOTAVAIL);
	CU_ASSERT_EQUAL(ops->addr(e.link, false, own), 0);
	CU_ASSERT_EQUAL(ops->addr(e.link, true, own), 0);
	ops->close(e.link);
}

static void through_sockets(void)
{
	struct end a = {NULL}, b = {NULL}, again = {NULL};

	CU_ASSERT_FATAL(open_end(&a, 0) && open_end(&b, 1));
	/* Taken. */
	CU_ASSERT_FALSE(open_end(&again, 1));
	one_by_one(&a, &b);
	in_a_burst(&a, &b);
	in_a_burst(&b, &a);
	((struct udp_link *)a.link)->sock[0].gso = false;
	in_a_burst(&a, &b);
	damaged_or_odd(&a, &b);
	strangers(&b);
	ops->close(a.link);
	ops->close(b.link);
}

URXE_TEST_MAIN("udp", T(ids_show_in_the_icrc), T(damage_is_no_id),
	       T(who_sends_none_is_not_believed_one), T(arguments), T(no_other_address),
	       T(through_sockets), T(one_flow_refused), {NULL, NULL})
