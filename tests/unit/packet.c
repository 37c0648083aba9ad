/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link on an interface of the kernel's: its arguments and its filter anywhere, the rest between
 * the ends of a veth pair in a network of our own.
 */
#include "veth_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netio/claim.h"
#include "netio/packet.h"

static void arguments(void)
{
	static const struct {
		const char *port, *err; /* what is wrong */
	} c[] = {
		{"net_af_packet0", "iface"},
		{"net_af_packet0,iface=", "iface"},
		{"net_af_packet0,iface=x,framecnt=15", "framecnt"},
		{"net_af_packet0,iface=x,framecnt=65537", "framecnt"},
		{"net_af_packet0,iface=x,framecnt=ten", "framecnt"},
		{"net_af_packet0,iface=x,framesz=1500", "framesz"}, /* no room for the head */
		{"net_af_packet0,iface=x,blocksz=5000", "blocksz"},
		{"net_af_packet0,iface=x,framesz=8192,blocksz=4096", "blocksz"},
		{"net_af_packet0,iface=x,qpairs=65", "qpairs"},
		{"net_af_packet0,iface=x,qdisc_bypass=2", "qdisc_bypass"},
		{"net_af_packet0,iface=x,gso=2", "gso"},
		{"net_af_packet0,iface=x,fanout=1", "fanout"},
	};
	struct urxe_port_config cfg = {.port = "net_af_packet0,iface=veth7"};
	struct packet_args a;
	char err[200];

	CU_ASSERT_EQUAL(packet_args_parse(&cfg, 1500, &a, err, sizeof(err)), 0);
	CU_ASSERT_STRING_EQUAL(a.iface, "veth7");
	CU_ASSERT(a.frame_size >= 1596 && a.frame_size < 1616 && a.frames >= 2048);
	CU_ASSERT(a.lanes == 1 && a.qdisc_bypass);
	/* whole blocks, as the kernel has it */
	CU_ASSERT_EQUAL(a.frames % (a.block_size / a.frame_size), 0);
	strcpy(cfg.port, "net_af_packet0,iface=v,framecnt=512,framesz=4608,blocksz=36864,qpairs=2,"
			 "qdisc_bypass=0");
	CU_ASSERT_EQUAL(packet_args_parse(&cfg, 4200, &a, err, sizeof(err)), 0);
	CU_ASSERT(a.frames == 512 && a.frame_size == 4608 && a.lanes == 2 && !a.qdisc_bypass);
	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		snprintf(cfg.port, sizeof(cfg.port), "%s", c[i].port);
		CU_ASSERT_EQUAL(packet_args_parse(&cfg, 1500, &a, err, sizeof(err)), EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(err, c[i].err));
	}
}

/* ---- the filter: a pair of UNIX sockets has them too ---- */

static bool passes(int fd[2], const uint8_t *frame, uint32_t len)
{
	uint8_t buf[256];

	if (send(fd[0], frame, len, MSG_DONTWAIT) < 0 && errno != EPERM)
		return false;
	return recv(fd[1], buf, sizeof(buf), MSG_DONTWAIT) == (ssize_t)len;
}

static void attach(int fd, bool all)
{
	struct sock_filter prog[PACKET_FILTER_MAX];
	struct sock_fprog f = {.filter = prog};

	f.len = (unsigned short)packet_filter(prog, own_mac, all);
	CU_ASSERT(f.len <= PACKET_FILTER_MAX);
	CU_ASSERT_EQUAL(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &f, sizeof(f)), 0);
}

static void filter(void)
{
	static const struct {
		uint8_t mac0; /* first byte of the destination: 2 ours, 1 a group, 4 another's */
		uint16_t type;
		uint8_t proto;
		uint16_t dport;
		uint16_t frag;
		bool pass;
	} c[] = {
		{2, 0x0800, 17, 4791, 0x4000, true}, {1, 0x0800, 17, 4791, 0, true},
		{4, 0x0800, 17, 4791, 0, false},     {2, 0x0800, 17, 4790, 0, false},
		{2, 0x0800, 17, 4791, 0x2000, true}, {2, 0x0800, 17, 4791, 0x2005, false},
		{2, 0x0800, 6, 4791, 0, false},	     {2, 0x0800, 1, 0, 0, true},
		{1, 0x0800, 2, 0, 0, true},	     {2, 0x86dd, 17, 4791, 0, true},
		{2, 0x86dd, 17, 53, 0, false},	     {2, 0x86dd, 58, 0, 0, true},
		{1, 0x86dd, 0, 0, 0, true},	     {2, 0x86dd, 6, 4791, 0, false},
		{1, 0x0806, 0, 0, 0, true},	     {4, 0x0806, 0, 0, 0, false},
		{2, 0x8100, 0, 0, 0, true},	     {2, 0x88cc, 0, 0, 0, false},
	};
	uint8_t f[128];
	int fd[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd), 0);
	attach(fd[1], false);
	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		bool v6 = c[i].type == 0x86dd;
		unsigned options = v6 ? 0 : i % 2 * 8, udp = 14 + (v6 ? 40 : 20 + options);

		memset(f, 0, sizeof(f));
		memcpy(f, own_mac, 6);
		f[0] = c[i].mac0;
		f[12] = (uint8_t)(c[i].type >> 8), f[13] = (uint8_t)c[i].type;
		f[14] = v6 ? 0x60 : (uint8_t)(0x45 + options / 4);
		f[v6 ? 20 : 23] = c[i].proto;
		if (!v6)
			f[20] = (uint8_t)(c[i].frag >> 8), f[21] = (uint8_t)c[i].frag;
		f[udp + 2] = (uint8_t)(c[i].dport >> 8), f[udp + 3] = (uint8_t)c[i].dport;
		if (passes(fd, f, sizeof(f)) != c[i].pass)
			CU_FAIL("filter");
	}
	/* each byte of the MAC counts */
	memset(f, 0, sizeof(f));
	f[12] = 8, f[13] = 6;
	for (unsigned i = 0; i < 7; i++) {
		memcpy(f, own_mac, 6);
		if (i < 6)
			f[i] ^= 0x10;
		CU_ASSERT_EQUAL(passes(fd, f, sizeof(f)), i == 6);
	}
	/* too short to look into */
	CU_ASSERT_FALSE(passes(fd, f, 5));
	attach(fd[1], true);
	CU_ASSERT_TRUE(passes(fd, f, sizeof(f)));
	CU_ASSERT_TRUE(passes(fd, f, 5));
	close(fd[0]);
	close(fd[1]);
}

/* ---- between the ends of a veth pair ---- */

/* @n frames of @len bytes, the @i-th byte of whose payload tells which it is. */
static unsigned blast(struct end *e, const uint8_t *head, uint32_t len, unsigned n)
{
	struct urxe_frame f[32];
	unsigned sent = 0;

	while (sent < n && e->ops->alloc(e->link, 0, f, 1) == 1) {
		memset(f[0].data, (int)(sent & 0xff), len);
		memcpy(f[0].data, head, 14);
		f[0].len = len;
		if (!e->ops->tx(e->link, 0, f, 1)) {
			e->ops->free(e->link, 0, f, 1);
			break;
		}
		sent++;
	}
	return sent;
}

static const uint8_t to_all[14] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,
				   0,	 0,    0,    0,	   1,	 0x88, 0xb5};

/*
 * The frames of @len bytes that come until there are @n, or for some seconds: the kernel sends some
 * of its own on these interfaces.
 */
static unsigned collect(struct end *e, unsigned lane, struct urxe_frame *f, unsigned n,
			uint32_t len)
{
	uint64_t end = now() + 5000000000u;
	unsigned got = 0;

	while (got < n && now() < end) {
		if (!e->ops->rx(e->link, lane, f + got, 1))
			continue;
		if (f[got].len == len)
			got++;
		else
			e->ops->free(e->link, lane, f + got, 1);
	}
	return got;
}

static void await_dropped(struct end *e, uint64_t n)
{
	uint64_t end = now() + 5000000000u;

	while (e->ops->dropped(e->link) < n && now() < end)
		sched_yield();
	CU_ASSERT_EQUAL(e->ops->dropped(e->link), n);
}

static void frames(void)
{
	struct urxe_frame f[64];
	struct end a, b;
	unsigned got;

	if (!ends_open(&a, &b, ""))
		return;
	CU_ASSERT_STRING_EQUAL(a.info.driver, "af_packet");
	CU_ASSERT(memcmp(a.info.mac, b.info.mac, 6) && memcmp(a.info.mac, own_mac, 6));
	for (unsigned i = 0; i < 300; i++) {
		uint32_t len = i % 3 ? 60 : 1514;

		CU_ASSERT_TRUE_FATAL(send_one(&a, len, (uint8_t)(i | 1)));
		CU_ASSERT_TRUE_FATAL(get_one(&b, len, (uint8_t)(i | 1)));
	}
	/* What was sent is there again: the buffer that was used last comes first. */
	CU_ASSERT_EQUAL_FATAL(a.ops->alloc(a.link, 0, f, 1), 1);
	f[1] = f[0];
	memcpy(f[0].data, to_all, 14);
	f[0].len = 80;
	CU_ASSERT_EQUAL(a.ops->tx(a.link, 0, f, 1), 1);
	CU_ASSERT_EQUAL_FATAL(a.ops->alloc(a.link, 0, f, 1), 1);
	CU_ASSERT_PTR_EQUAL(f[0].buf, f[1].buf);
	a.ops->free(a.link, 0, f, 1);
	CU_ASSERT_EQUAL_FATAL(collect(&b, 0, f, 1, 80), 1);
	b.ops->free(b.link, 0, f, 1);
	/* All round the ring, borrowed in bursts and given back in another order. */
	for (unsigned round = 0; round < 100; round++) {
		CU_ASSERT_EQUAL_FATAL(blast(&a, to_all, 100, 60), 60);
		got = collect(&b, 0, f, 60, 100);
		CU_ASSERT_EQUAL_FATAL(got, 60);
		for (unsigned i = 0; i < 60; i++)
			CU_ASSERT(f[i].len == 100 && f[i].data[99] == i);
		for (unsigned i = 0; i < 60; i += 2)
			b.ops->free(b.link, 0, &f[i ^ 2], 2);
	}
	CU_ASSERT_EQUAL(b.ops->dropped(b.link), 0);
	ends_close(&a, &b);
}

/* A longer one is cut off, the next is whole. One that the interface refuses holds up no other. */
static void too_long(void)
{
	struct urxe_frame f = {0};
	struct end a, b, big;
	uint64_t end;

	if (!ends_open(&a, &b, ""))
		return;
	CU_ASSERT_EQUAL_FATAL(end_open(&big, "net_af_packet2,iface=urxea", 4096), 0);
	CU_ASSERT(await(&big, big.ops->up, true));
	CU_ASSERT(send_one(&big, 4100, 7));
	end = now() + 5000000000u;
	while (!b.ops->rx(b.link, 0, &f, 1) && now() < end)
		sched_yield();
	CU_ASSERT(f.len > 1514 && f.len < 4100);
	b.ops->free(b.link, 0, &f, 1);
	CU_ASSERT(ip("set urxea mtu 1500"));
	CU_ASSERT(send_one(&big, 4100, 8));
	CU_ASSERT(send_one(&big, 1000, 9));
	CU_ASSERT(get_one(&b, 1000, 9));
	CU_ASSERT_EQUAL(big.ops->refused(big.link), 1);
	end_close(&big);
	ends_close(&a, &b);
}

/* What finds the ring full is counted, and what is lent is not taken for new. */
static void ring_full(void)
{
	struct urxe_frame f[32];
	struct end a, b;

	if (!ends_open(&a, &b, ",framecnt=16,blocksz=4096"))
		return;
	CU_ASSERT_EQUAL(blast(&a, to_all, 100, 100), 100);
	await_dropped(&b, 84);
	CU_ASSERT_EQUAL(collect(&b, 0, f, 16, 100), 16);
	CU_ASSERT_EQUAL(blast(&a, to_all, 100, 1), 1);
	await_dropped(&b, 85);
	CU_ASSERT_EQUAL(b.ops->rx(b.link, 0, f + 16, 8), 0);
	b.ops->free(b.link, 0, f, 16);
	CU_ASSERT(send_one(&a, 200, 3) && get_one(&b, 200, 3));
	ends_close(&a, &b);
}

/* The kernel hands the tag over beside the frame. */
static void vlan(void)
{
	static const uint8_t head[14] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,
					 0,    0,    0,	   0,	 1,    0x81, 0};
	struct urxe_frame f = {0};
	struct end a, b;
	uint64_t end = now() + 5000000000u;

	if (!ends_open(&a, &b, ""))
		return;
	CU_ASSERT_EQUAL(a.ops->alloc(a.link, 0, &f, 1), 1);
	memset(f.data, 0x55, 1518);
	memcpy(f.data, head, 14);
	f.data[14] = 0x01, f.data[15] = 0x23; /* VLAN 291 */
	f.data[16] = 0x88, f.data[17] = 0xb5;
	f.len = 1518;
	CU_ASSERT_EQUAL(a.ops->tx(a.link, 0, &f, 1), 1);
	f.len = 0;
	while (!b.ops->rx(b.link, 0, &f, 1) && now() < end)
		sched_yield();
	CU_ASSERT_EQUAL_FATAL(f.len, 1518);
	CU_ASSERT(!memcmp(f.data, head, 14) && f.data[14] == 0x01 && f.data[15] == 0x23 &&
		  f.data[16] == 0x88 && f.data[18] == 0x55);
	b.ops->free(b.link, 0, &f, 1);
	ends_close(&a, &b);
}

static bool promiscuous(const char *name)
{
	char cmd[100];

	snprintf(cmd, sizeof(cmd), "ip -d link show %s | grep -q 'promiscuity 1'", name);
	return !system(cmd);
}

static bool joined(const char *mac)
{
	char cmd[100];

	snprintf(cmd, sizeof(cmd), "ip maddr show dev urxeb | grep -q %s", mac);
	return !system(cmd);
}

/* What is not for us comes while somebody wants it, by whichever MAC we have. */
static void selection(void)
{
	static const uint8_t arp[14] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6};
	static const uint8_t group[2][6] = {{0x33, 0x33, 0, 9, 9, 1}, {1, 0, 0x5e, 9, 9, 2}};
	struct urxe_frame f;
	struct end a, b;

	if (!ends_open(&a, &b, ""))
		return;
	CU_ASSERT(send_one(&a, 100, 0x42) && get_one(&b, 100, 0x42)); /* to 42:42:... */
	CU_ASSERT(promiscuous("urxeb"));
	b.ops->everything(b.link, false);
	CU_ASSERT(!promiscuous("urxeb"));
	CU_ASSERT(send_one(&a, 100, 0x44)); /* not seen: the next is the first */
	CU_ASSERT_EQUAL(blast(&a, arp, 60, 1), 1);
	CU_ASSERT_EQUAL_FATAL(collect(&b, 0, &f, 1, 60), 1);
	CU_ASSERT_EQUAL(f.len, 60);
	b.ops->free(b.link, 0, &f, 1);
	CU_ASSERT_EQUAL(b.ops->mcast(b.link, group, 2), 0);
	CU_ASSERT(joined("33:33:00:09:09:01") && joined("01:00:5e:09:09:02"));
	CU_ASSERT_EQUAL(b.ops->mcast(b.link, group, 1), 0);
	CU_ASSERT(joined("33:33:00:09:09:01") && !joined("01:00:5e:09:09:02"));
	CU_ASSERT_EQUAL(b.ops->mcast(b.link, group, 0), 0);
	CU_ASSERT(!joined("33:33:00:09:09:01"));
	ends_close(&a, &b);
}

/* A MAC that is not the interface's: it must let in what is for us. */
static void foreign_mac(void)
{
	uint8_t arp[14] = {[12] = 8, [13] = 6};
	struct urxe_frame f;
	struct end a, b;

	memcpy(arp, own_mac, 6);
	if (!wire())
		return;
	CU_ASSERT_EQUAL_FATAL(end_open(&a, port_a, MTU), 0);
	CU_ASSERT_EQUAL_FATAL(end_open_as(&b, port_b, MTU, own_mac), 0);
	CU_ASSERT_TRUE_FATAL(both_up(&a, &b));
	CU_ASSERT(!memcmp(b.info.mac, own_mac, 6) && promiscuous("urxeb"));
	CU_ASSERT_EQUAL(blast(&a, arp, 60, 1), 1);
	CU_ASSERT_EQUAL_FATAL(collect(&b, 0, &f, 1, 60), 1);
	b.ops->free(b.link, 0, &f, 1);
	ends_close(&a, &b);
}

/* What others of this machine send by the interface is not received. */
static void outgoing(void)
{
	struct urxe_frame f;
	struct end a, b, other;

	if (!ends_open(&a, &b, ""))
		return;
	CU_ASSERT_EQUAL_FATAL(end_open(&other, "net_af_packet2,iface=urxeb,qdisc_bypass=0", MTU),
			      0);
	CU_ASSERT(await(&other, other.ops->up, true));
	CU_ASSERT(send_one(&other, 100, 0x31) && get_one(&a, 100, 0x31));
	CU_ASSERT_EQUAL(b.ops->rx(b.link, 0, &f, 1), 0);
	end_close(&other);
	ends_close(&a, &b);
}

static void wait_and_wake(void)
{
	int wake = eventfd(0, EFD_NONBLOCK);
	uint64_t one = 1, start;
	struct end a, b;
	struct urxe_sleep how = {0};

	if (!ends_open(&a, &b, ""))
		return;
	for (unsigned i = 0; i < 2; i++) {
		/* A frame that came before ends it too, and a short wait only when told. */
		CU_ASSERT(send_one(&a, 64, 5));
		start = now();
		do {
			how.interrupt = true;
			b.ops->wait(b.link, i ? 1000000 : 20000000000u, wake, &how);
			CU_ASSERT(how.interrupt);
		} while (!get_one(&b, 64, 5));
		CU_ASSERT_TRUE(now() - start < 10000000000u);
	}
	/* So does one that no wake ends. */
	CU_ASSERT(send_one(&a, 64, 6));
	start = now();
	do
		b.ops->nap(b.link, 20000000000u);
	while (!get_one(&b, 64, 6));
	CU_ASSERT_TRUE(now() - start < 10000000000u);
	how.interrupt = false;
	b.ops->wait(b.link, 1000, wake, &how);
	CU_ASSERT_FALSE(how.interrupt);
	CU_ASSERT_EQUAL(write(wake, &one, 8), 8);
	start = now();
	b.ops->wait(b.link, 20000000000u, wake, &how);
	CU_ASSERT_TRUE(now() - start < 10000000000u);
	/* An interface that is down is no reason to come back at once, again and again. */
	CU_ASSERT(ip("set urxeb down") && await(&b, b.ops->up, false));
	for (unsigned i = 0; i < 5; i++) {
		how.interrupt = true;
		start = now();
		(void)!read(wake, &one, 8);
		b.ops->wait(b.link, 20000000, wake, &how);
	}
	CU_ASSERT_TRUE(now() - start >= 20000000);
	start = now();
	b.ops->nap(b.link, 20000000);
	b.ops->nap(b.link, 20000000);
	CU_ASSERT_TRUE(now() - start >= 20000000);
	close(wake);
	ends_close(&a, &b);
}

static void lanes(void)
{
	struct urxe_frame f[64];
	unsigned in[64] = {0}; /* lanes that a flow was seen in, a bit each */
	unsigned got = 0, used = 0, n;
	uint64_t end = now() + 5000000000u;
	struct end a, b;

	if (!ends_open(&a, &b, ",qpairs=4"))
		return;
	CU_ASSERT_EQUAL_FATAL(b.info.lanes, 4);
	/* Flows of two frames each differ in the UDP source port. */
	for (unsigned k = 0; k < 128; k++) {
		unsigned i = k / 2;

		CU_ASSERT_EQUAL_FATAL(a.ops->alloc(a.link, 0, f, 1), 1);
		memset(f[0].data, 0, 100);
		memcpy(f[0].data, to_all, 12);
		memcpy(f[0].data + 12,
		       (uint8_t[]){8, 0,  0x45, 0, 0, 86, 0, 0, 0, 0,	 64,	     17,   0,
				   0, 10, 0,	0, 1, 10, 0, 0, 2, 0xc0, (uint8_t)i, 0x12, 0xb7},
		       26);
		f[0].len = 100;
		CU_ASSERT_EQUAL(a.ops->tx(a.link, 0, f, 1), 1);
	}
	while (got < 128 && now() < end) {
		for (unsigned l = 0; l < 4; l++) {
			n = b.ops->rx(b.link, l, f, 64);
			got += n;
			for (unsigned i = 0; i < n; i++)
				in[f[i].data[35] & 63] |= 1u << l;
			used |= n ? 1u << l : 0;
			b.ops->free(b.link, l, f, n);
		}
	}
	CU_ASSERT_EQUAL(got, 128);
	for (unsigned i = 0; i < 64; i++)
		CU_ASSERT(in[i] && !(in[i] & (in[i] - 1))); /* one lane a flow */
	CU_ASSERT(used & (used - 1));			    /* more than one */
	ends_close(&a, &b);
}

static void life(void)
{
	struct end e;

	CU_ASSERT_EQUAL(end_open(&e, "net_af_packet0,iface=nonesuch", MTU), ENODEV);
	CU_ASSERT_EQUAL(end_open(&e, "net_af_packet0,iface=lo,framesz=9", MTU), EINVAL);
	if (!wire())
		return;
	CU_ASSERT(ip("set urxeb mtu 900"));
	CU_ASSERT_EQUAL_FATAL(end_open(&e, port_b, MTU), 0);
	CU_ASSERT_EQUAL(e.info.max_l3_mtu, 900);
	end_close(&e);
	CU_ASSERT_EQUAL_FATAL(end_open(&e, port_a, MTU), 0);
	CU_ASSERT(await(&e, e.ops->up, true));
	CU_ASSERT(ip("set urxeb down") && await(&e, e.ops->up, false));
	CU_ASSERT(!e.ops->dead(e.link));
	CU_ASSERT(ip("set urxeb up") && await(&e, e.ops->up, true));
	CU_ASSERT(ip("set urxea down") && await(&e, e.ops->up, false));
	/* It may even be renamed meanwhile. */
	CU_ASSERT(ip("set urxea name urxec"));
	CU_ASSERT(ip("set urxec up"));
	CU_ASSERT(await(&e, e.ops->up, true));
	CU_ASSERT(ip("del urxec") && await(&e, e.ops->dead, true));
	CU_ASSERT(await(&e, e.ops->up, false));
	check_gone(&e);
	end_close(&e);
}

static void no_privilege(void)
{
	int status = -1;
	pid_t pid;

	if (geteuid()) {
		printf("skipped: not root ");
		return;
	}
	pid = fork();
	if (!pid) {
		struct end e;

		if (setgid(65534) || setuid(65534))
			_exit(2);
		_exit(end_open(&e, "net_af_packet0,iface=lo", MTU) != EPERM);
	}
	waitpid(pid, &status, 0);
	CU_ASSERT_EQUAL(status, 0);
}

/* ---- one process an address ---- */

static void gid_v4(const char *addr, uint8_t gid[16])
{
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	inet_pton(AF_INET, addr, gid + 12);
}

/*
 * A process of its own, with a port at address @own and one more at @more, which comes later (NULL:
 * none does) and goes again. Its status: what the last of that said. After each step it tells
 * @done, and goes on when somebody writes to @go; -1: at once.
 */
static pid_t other_process(const char *own, const char *more, int done, int go)
{
	struct urxe_port_config cfg = {.name = "urxe0", .vlan = URXE_NO_VLAN, .mtu = MTU};
	const struct urxe_link_ops *ops;
	struct urxe_port *port;
	pid_t pid = fork();
	uint8_t gid[16];
	int ret = 0;
	void *arg;

	if (pid)
		return pid;
	urxe_log_set_level(URXE_LOG_NONE);
	strcpy(cfg.port, port_a);
	cfg.num_ips = 1;
	cfg.ips[0].ipv4 = true;
	cfg.ips[0].prefix_len = 24;
	gid_v4(own, cfg.ips[0].gid);
	gid_v4(more ? more : own, gid);
	urxe_link_select(&cfg, &ops, &arg);
	if (urxe_port_create(&port, &cfg, ops, arg))
		_exit(255);
	for (unsigned step = 0; step < (more ? 3 : 1) && !ret; step++) {
		ret = !step	  ? urxe_port_start(port)
		      : step == 1 ? urxe_port_addr_add(port, gid, 24)
				  : urxe_port_addr_del(port, gid, 24);
		if (done >= 0 && write(done, "", 1) != 1)
			_exit(255);
		while (go >= 0 && read(go, &cfg, 1) < 0)
			;
	}
	if (more && urxe_port_gid_find(port, gid) >= 0)
		_exit(254);
	_exit(ret);
}

static int status_of(pid_t pid)
{
	int status = 0;

	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/*
 * A veth pair's other end takes no more than its own MTU, and the kernel says of a longer frame
 * that there is no room for it, each time: it goes, and what is behind it does not wait for ever.
 */
static void other_mtu(void)
{
	struct end a, b;

	if (!ends_open(&a, &b, ""))
		return;
	CU_ASSERT(ip("set urxeb mtu 500"));
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT(send_one(&a, 900, 1));
		CU_ASSERT_EQUAL(a.ops->refused(a.link), i + 1);
		CU_ASSERT(send_one(&a, 400, 2) && get_one(&b, 400, 2));
	}
	/* It does not wait again for what it knows, and learns that it has changed. */
	CU_ASSERT(ip("set urxeb mtu 9000"));
	CU_ASSERT(send_one(&a, 900, 3) && get_one(&b, 900, 3));
	CU_ASSERT_EQUAL(a.ops->refused(a.link), 3);
	ends_close(&a, &b);
}

/* Before this process has a link: its children could not have one then. */
static void addresses(void)
{
	int opened[2] = {-1, -1}, until[2] = {-1, -1};
	pid_t first;
	char c;

	if (!wire())
		return;
	CU_ASSERT_FATAL(!pipe(opened) && !pipe(until));
	first = other_process("10.1.0.1", NULL, opened[1], until[0]);
	CU_ASSERT_EQUAL(read(opened[0], &c, 1), 1);
	CU_ASSERT_EQUAL(status_of(other_process("10.1.0.1", NULL, -1, -1)), EBUSY);
	CU_ASSERT_EQUAL(status_of(other_process("10.1.0.2", NULL, -1, -1)), 0);
	CU_ASSERT_EQUAL(kill(first, SIGKILL), 0);
	CU_ASSERT_EQUAL(status_of(first), -1);
	CU_ASSERT_EQUAL(status_of(other_process("10.1.0.1", NULL, -1, -1)), 0);
	for (unsigned i = 0; i < 2; i++) {
		close(opened[i]);
		close(until[i]);
	}
	CU_ASSERT(ip("del urxea"));
}

/* Those that come later are one process's, too, and not when they have gone. */
static void later_addresses(void)
{
	int done[2] = {-1, -1}, go[2] = {-1, -1};
	pid_t first;
	char c;

	if (!wire())
		return;
	CU_ASSERT_FATAL(!pipe(done) && !pipe(go));
	first = other_process("10.1.0.1", "10.1.0.2", done[1], go[0]);
	for (unsigned step = 0; step < 3; step++) {
		bool has = step == 1;

		CU_ASSERT_EQUAL(read(done[0], &c, 1), 1);
		CU_ASSERT_EQUAL(status_of(other_process("10.1.0.2", NULL, -1, -1)),
				has ? EBUSY : 0);
		CU_ASSERT_EQUAL(status_of(other_process("10.1.0.3", "10.1.0.2", -1, -1)),
				has ? EBUSY : 0);
		CU_ASSERT_EQUAL(write(go[1], "", 1), 1);
	}
	CU_ASSERT_EQUAL(status_of(first), 0);
	for (unsigned i = 0; i < 2; i++) {
		close(done[i]);
		close(go[i]);
	}
	CU_ASSERT(ip("del urxea"));
}

/* Who has it is named; nobody has what a child of a former owner has open. */
static void claims(void)
{
	uint8_t gid[16] = {[10] = 0xff, 0xff, 10, 1, 0, 9};
	int fd, other, stop[2];
	char err[128], pid[32];
	pid_t child;

	CU_ASSERT_FATAL(!pipe(stop));
	snprintf(pid, sizeof(pid), "process %d ", (int)getpid());
	CU_ASSERT_EQUAL(urxe_claim_address(99, gid, &fd, err, sizeof(err)), 0);
	CU_ASSERT(fd >= 0);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(urxe_claim_address(99, gid, &other, err, sizeof(err)), EBUSY);
		CU_ASSERT(other == -1 && strstr(err, pid));
	}
	child = fork();
	if (!child) {
		close(stop[1]);
		_exit(read(stop[0], err, 1) != 0);
	}
	urxe_claim_put(fd);
	CU_ASSERT_EQUAL(urxe_claim_address(99, gid, &other, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(other, -1);
	close(stop[1]);
	CU_ASSERT_EQUAL(status_of(child), 0);
	close(stop[0]);
	CU_ASSERT_EQUAL(urxe_claim_address(99, gid, &other, err, sizeof(err)), 0);
	CU_ASSERT(other >= 0);
	urxe_claim_put(other);
}

static void forked_child(void)
{
	struct urxe_frame f;
	struct end a, b;
	int status = -1;
	pid_t pid;

	if (!ends_open(&a, &b, ""))
		return;
	pid = fork();
	if (!pid) {
		int bad = 0;

		bad |= a.ops->alloc(a.link, 0, &f, 1) != 0;
		bad |= (a.ops->rx(a.link, 0, &f, 1) != 0) << 1;
		bad |= a.ops->up(a.link) << 2;
		bad |= (end_open(&b, port_b, MTU) != ENODEV) << 3;
		a.ops->close(a.link);
		_exit(bad);
	}
	waitpid(pid, &status, 0);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT(send_one(&a, 100, 1) && get_one(&b, 100, 1)); /* the parent is none the worse */
	ends_close(&a, &b);
}

URXE_TEST_MAIN("packet", T(veth_setup), T(arguments), T(filter), T(no_privilege), T(addresses),
	       T(later_addresses), T(claims), T(frames), T(too_long), T(other_mtu), T(ring_full),
	       T(vlan), T(selection), T(foreign_mac), T(outgoing), T(wait_and_wake), T(lanes),
	       T(life), T(forked_child))
