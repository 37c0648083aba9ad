/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Runs on an interface of the kernel's: packets of a flow that go as one UDP datagram to be
 * segmented, and come as one. Between the ends of a veth pair in a network of our own.
 */
#include "veth_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>

#include "netio/kernel_if.h"
#include "netio/packet.h"
#include "netio/stack.h"

#define PEEK_MOST 70000

/* ---- packets ---- */

struct shape {
	bool ipv4;
	uint16_t sport, id;
	uint8_t tos;
	uint32_t len; /* from the BTH on */
};

/* What is in it tells which one it is. */
static uint32_t make(const struct shape *s, unsigned mark, uint8_t *p)
{
	uint32_t l3_len = (s->ipv4 ? IPV4_LEN : IPV6_LEN) + UDP_LEN + s->len;
	uint8_t *l3 = p + ETH_LEN, *udp = l3 + (s->ipv4 ? IPV4_LEN : IPV6_LEN);

	memset(p, 0, ETH_LEN + l3_len);
	memset(p, 0x42, 6);
	memcpy(p + 6, own_mac, 6);
	urxe_put16(p + 12, s->ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	if (s->ipv4) {
		l3[0] = 0x45;
		l3[1] = s->tos;
		urxe_put16(l3 + 2, (uint16_t)l3_len);
		urxe_put16(l3 + 4, s->id);
		l3[6] = 0x40;
		l3[8] = 64;
		l3[9] = PROTO_UDP;
		memcpy(l3 + 12, (uint8_t[]){10, 0, 0, 1, 10, 0, 0, 2}, 8);
		urxe_put16(l3 + 10, urxe_sum_fold(urxe_sum(0, l3, IPV4_LEN)));
	} else {
		urxe_put32(l3, 6u << 28 | (uint32_t)s->tos << 20);
		urxe_put16(l3 + 4, (uint16_t)(l3_len - IPV6_LEN));
		l3[6] = PROTO_UDP;
		l3[7] = 64;
		l3[8] = l3[24] = 0xfd;
		l3[23] = 1, l3[39] = 2;
	}
	urxe_put16(udp, s->sport);
	urxe_put16(udp + 2, URXE_UDP_DPORT);
	urxe_put16(udp + 4, (uint16_t)(UDP_LEN + s->len));
	for (uint32_t i = 0; i < s->len; i++)
		udp[UDP_LEN + i] = (uint8_t)(mark * 7 + i);
	return ETH_LEN + l3_len;
}

/* Sends @n, all at once. */
static void burst(struct end *e, const struct shape *s, unsigned n)
{
	struct urxe_frame f[128];
	uint64_t end = now() + 5000000000u;
	unsigned sent = 0;

	CU_ASSERT_EQUAL_FATAL(e->ops->alloc(e->link, 0, f, n), n);
	for (unsigned i = 0; i < n; i++)
		f[i].len = make(&s[i], i, f[i].data);
	while (sent < n && now() < end)
		sent += e->ops->tx(e->link, 0, f + sent, n - sent);
	CU_ASSERT_EQUAL(sent, n);
}

/* They come one by one, as they were. */
static void expect(struct end *e, const struct shape *s, unsigned n)
{
	static uint8_t want[2048];
	uint64_t end = now() + 5000000000u;
	struct urxe_frame f[5];
	unsigned got = 0, k;

	while (got < n && now() < end) {
		k = e->ops->rx(e->link, 0, f, 1 + got % 5);
		for (unsigned i = 0; i < k && got < n; i++, got++) {
			uint32_t len = make(&s[got], got, want);

			CU_ASSERT_EQUAL(f[i].len, len);
			CU_ASSERT(f[i].len == len && !memcmp(f[i].data, want, len));
		}
		e->ops->free(e->link, 0, f, k);
	}
	CU_ASSERT_EQUAL(got, n);
	CU_ASSERT_EQUAL(e->ops->rx(e->link, 0, f, 1), 0);
}

/* ---- what is on the wire ---- */

static unsigned seen(int fd)
{
	static uint8_t buf[PEEK_MOST];
	unsigned n = 0;

	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		n++;
	return n;
}

/* An end has runs where the kernel has them. */
static bool have_runs(void)
{
	struct urxe_port_config cfg = {.queues = 0};
	struct packet_args a;
	char err[200];

	strcpy(cfg.port, port_a);
	CU_ASSERT_EQUAL(packet_args_parse(&cfg, MTU, &a, err, sizeof(err)), 0);
	if (!a.runs)
		printf("skipped: no runs before Linux 6.2 ");
	return a.runs;
}

/* ---- tests ---- */

/* @n alike, the last one shorter. */
static void alike(struct shape *s, unsigned n, bool ipv4, uint32_t len, uint32_t last)
{
	for (unsigned i = 0; i < n; i++)
		s[i] = (struct shape){.ipv4 = ipv4,
				      .sport = 0xc001,
				      .id = (uint16_t)(0xfff0 + i),
				      .len = i == n - 1 ? last : len};
}

static void there_and_back(void)
{
	static const struct {
		unsigned n;
		uint32_t len, last;
		unsigned carried;
	} c[] = {
		{2, 1040, 1040, 1}, {2, 80, 80, 1},   {60, 1040, 20, 1}, {64, 80, 80, 1},
		{3, 1040, 1044, 2}, {100, 24, 16, 2}, {1, 80, 80, 1},
	};
	struct shape s[128];
	struct end a, b;
	int fd;

	if (!have_runs() || !ends_open(&a, &b, ""))
		return;
	fd = peek("urxeb");
	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		for (unsigned v4 = 0; v4 < 2; v4++) {
			alike(s, c[i].n, v4, c[i].len, c[i].last);
			seen(fd);
			burst(&a, s, c[i].n);
			expect(&b, s, c[i].n);
			CU_ASSERT_EQUAL(seen(fd), c[i].carried);
			burst(&b, s, c[i].n);
			expect(&a, s, c[i].n);
		}
	}
	CU_ASSERT_EQUAL(a.ops->dropped(a.link) + b.ops->dropped(b.link), 0);
	close(fd);
	ends_close(&a, &b);
}

/* What differs in more than lengths is no part of a run. */
static void mixed(void)
{
	struct shape s[12];
	struct end a, b;
	int fd;

	if (!have_runs() || !ends_open(&a, &b, ""))
		return;
	fd = peek("urxeb");
	alike(s, 12, true, 200, 200);
	s[2].sport++;			/* 0-1, 2, */
	s[5].id += 3;			/* 3-4, 5, */
	s[7].tos = 4;			/* 6, 7, 8, */
	s[9].ipv4 = s[10].ipv4 = false; /* 9-10, 11 */
	burst(&a, s, 12);
	expect(&b, s, 12);
	CU_ASSERT_EQUAL(seen(fd), 9);
	close(fd);
	ends_close(&a, &b);
}

/* They are packets where they are not wanted, and received all the same. */
static void without(void)
{
	struct shape s[32];
	struct end a, b;
	int fd;

	if (!have_runs() || !ends_open(&b, &a, ",gso=0"))
		return;
	fd = peek("urxea");
	alike(s, 32, true, 300, 300);
	burst(&a, s, 32);
	expect(&b, s, 32);
	CU_ASSERT_EQUAL(seen(fd), 32);
	close(fd);
	burst(&b, s, 32);
	expect(&a, s, 32);
	ends_close(&b, &a);
}

static void set_segmentation(bool on)
{
	struct {
		struct ethtool_sfeatures set;
		struct ethtool_set_features_block block[8];
	} q = {.set = {.cmd = ETHTOOL_SFEATURES, .size = 2}};
	struct ifreq ifr = {.ifr_name = "urxea", .ifr_data = (void *)&q};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), bit = -1;

	urxe_kernel_if_segments_udp(if_nametoindex("urxea"), &bit);
	CU_ASSERT_FATAL(bit >= 0 && bit < 64);
	q.block[bit / 32].valid = 1u << bit % 32;
	q.block[bit / 32].requested = (uint32_t)on << bit % 32;
	CU_ASSERT(ioctl(fd, SIOCETHTOOL, &ifr) >= 0);
	close(fd);
	CU_ASSERT_EQUAL(urxe_kernel_if_segments_udp(if_nametoindex("urxea"), &bit), on);
}

/* A device that does no longer take them: what it refuses goes one by one, and nothing is lost. */
static void refused(void)
{
	struct shape s[64];
	struct end a, b;
	int fd;

	if (!have_runs() || !ends_open(&a, &b, ""))
		return;
	fd = peek("urxeb");
	alike(s, 64, true, 500, 20);
	set_segmentation(false);
	for (unsigned i = 0; i < 3; i++) {
		burst(&a, s, 64);
		expect(&b, s, 64);
		CU_ASSERT_EQUAL(seen(fd), 64);
	}
	close(fd);
	ends_close(&a, &b);
}

/* By a queueing discipline, which segments for such a device. */
static void by_the_kernel(void)
{
	struct shape s[64];
	struct end a, b;

	if (!have_runs() || !ends_open(&b, &a, ",qdisc_bypass=0"))
		return;
	alike(s, 64, true, 500, 20);
	for (unsigned i = 0; i < 64; i++)
		s[i].id = (uint16_t)i;
	for (unsigned on = 0; on < 2; on++) {
		burst(&a, s, 64);
		expect(&b, s, 64);
		burst(&b, s, 64);
		expect(&a, s, 64);
		if (!on)
			set_segmentation(false);
	}
	ends_close(&b, &a);
}

/* ---- from others ---- */

/* A socket that sends runs as they are given. */
static int source(void)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_ifindex = (int)if_nametoindex("urxea")};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;

	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CU_ASSERT_EQUAL_FATAL(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)), 0);
	return fd;
}

/* One of @len bytes of payload, to be segments of @seg (@type: VIRTIO_NET_HDR_GSO_*), to a port. */
static bool throw(int fd, uint8_t type, uint32_t len, uint16_t seg, uint16_t dport)
{
	static uint8_t buf[70000];
	struct shape s = {.ipv4 = true, .sport = 7, .len = len};
	struct virtio_net_hdr what = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				      .gso_type = type,
				      .hdr_len = 42,
				      .gso_size = seg,
				      .csum_start = 34,
				      .csum_offset = 6};
	uint32_t n;

	memcpy(buf, &what, sizeof(what));
	n = make(&s, 0, buf + sizeof(what));
	urxe_put16(buf + sizeof(what) + 36, dport);
	return write(fd, buf, sizeof(what) + n) == (ssize_t)(sizeof(what) + n);
}

static void drain(struct end *e, unsigned *frames, unsigned *longest)
{
	struct urxe_frame f;

	*frames = *longest = 0;
	while (e->ops->rx(e->link, 0, &f, 1)) {
		++*frames;
		*longest = f.len > *longest ? f.len : *longest;
		e->ops->free(e->link, 0, &f, 1);
	}
}

/* Whatever comes, the next one is right. */
static void strange(void)
{
	static const struct {
		uint32_t len;
		uint16_t seg, dport;
		unsigned frames;
		uint64_t lost;
	} c[] = {
		{4000, 100, 4791, 40, 0},   {4001, 100, 4791, 41, 0}, /* as any */
		{4000, 3000, 4791, 0, 2},			      /* packets too long for us */
		{4000, 100, 53, 1, 0},				      /* not ours: cut off */
		{40, 30, 4791, 2, 0},				      /* all of it in its slot */
		{40, 100, 53, 1, 0},	    {1200, 6, 4791, 1, 0},    /* more than any makes */
		{60000, 1000, 4791, 60, 0},
	};
	struct shape s[8];
	struct end a, b;
	unsigned frames, longest;
	uint64_t lost = 0;
	int fd;

	if (!have_runs() || !ends_open(&a, &b, ""))
		return;
	fd = source();
	alike(s, 8, true, 1000, 1000);
	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		/* Newer kernels refuse some of them. */
		if (!throw(fd, VIRTIO_NET_HDR_GSO_UDP_L4, c[i].len, c[i].seg, c[i].dport))
			continue;
		drain(&b, &frames, &longest);
		CU_ASSERT_EQUAL(frames, c[i].frames);
		CU_ASSERT(longest <= 2000);
		lost += c[i].lost;
		CU_ASSERT_EQUAL(b.ops->dropped(b.link), lost);
		burst(&a, s, 8);
		expect(&b, s, 8);
	}
	close(fd);
	ends_close(&a, &b);
}

/* What the kernel's own sockets send here has a sum that no device ever made. */
static void from_sockets(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(URXE_UDP_DPORT)};
	static uint8_t data[8000];
	int fd = socket(AF_INET, SOCK_DGRAM, 0), seg = 1000;
	unsigned frames = 0;
	struct urxe_frame f;
	struct end a, b;

	if (!have_runs() || !ends_open(&a, &b, ""))
		return;
	CU_ASSERT(!system("ip address add 10.7.0.1/24 dev urxea && "
			  "ip neighbour add 10.7.0.2 lladdr 42:42:42:42:42:42 dev urxea"));
	inet_pton(AF_INET, "10.7.0.2", &to.sin_addr);
	memset(data, 0x5a, sizeof(data));
	for (unsigned runs = 0; runs < 2; runs++) {
		size_t len = runs ? sizeof(data) : 500;

		if (runs)
			CU_ASSERT_EQUAL(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &seg, sizeof(seg)), 0);
		CU_ASSERT_EQUAL(sendto(fd, data, len, 0, (struct sockaddr *)&to, sizeof(to)),
				(ssize_t)len);
		for (frames = 0; b.ops->rx(b.link, 0, &f, 1);) {
			const uint8_t *udp = f.data + 34;

			if (urxe_frame_roce(&f)) {
				CU_ASSERT_EQUAL(f.len, 42 + (runs ? 1000u : 500u));
				CU_ASSERT_EQUAL(urxe_get16(udp + 4), f.len - 34);
				CU_ASSERT_EQUAL(urxe_get16(udp + 6), 0);
				CU_ASSERT(f.data[42] == 0x5a && f.data[f.len - 1] == 0x5a);
				frames++;
			}
			b.ops->free(b.link, 0, &f, 1);
		}
		CU_ASSERT_EQUAL(frames, runs ? 8 : 1);
	}
	close(fd);
	ends_close(&a, &b);
}

/* More than a ring's worth of slots. */
static void many(void)
{
	struct shape s[64];
	struct end a, b;

	if (!have_runs() || !ends_open(&a, &b, ",framecnt=16,blocksz=4096"))
		return;
	alike(s, 64, true, 1000, 1000);
	for (unsigned i = 0; i < 200; i++) {
		burst(&a, s, 64);
		expect(&b, s, 64);
	}
	CU_ASSERT_EQUAL(b.ops->dropped(b.link), 0);
	ends_close(&a, &b);
}

/* Longer than the socket's queue is for runs: what had no room there is lost whole, and counted. */
static void too_many(void)
{
	enum {
		RUNS = 400,
		PACKETS = 64
	};
	unsigned frames = 0, shortest = ~0u;
	struct shape s[PACKETS];
	struct urxe_frame f;
	struct end a, b;

	if (!have_runs() || !ends_open(&a, &b, ""))
		return;
	alike(s, PACKETS, true, 1000, 1000);
	for (unsigned i = 0; i < RUNS; i++)
		burst(&a, s, PACKETS);
	for (; b.ops->rx(b.link, 0, &f, 1); frames++) {
		shortest = f.len < shortest ? f.len : shortest;
		b.ops->free(b.link, 0, &f, 1);
	}
	CU_ASSERT_EQUAL(shortest, 42 + 1000);
	CU_ASSERT(b.ops->dropped(b.link) > 0);
	CU_ASSERT_EQUAL(frames + b.ops->dropped(b.link), RUNS * PACKETS);
	burst(&a, s, PACKETS);
	expect(&b, s, PACKETS);
	ends_close(&a, &b);
}

/* ---- a kernel that goes deaf ---- */

/* A tap whose other end is ours, with headers that say how frames are to be segmented; -1. */
static int tap(void)
{
	struct ifreq ifr = {.ifr_name = "urxet", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int fd = own_network ? open("/dev/net/tun", O_RDWR | O_CLOEXEC) : -1;

	if (fd >= 0 && !ioctl(fd, TUNSETIFF, &ifr) && ip("set urxet mtu 9000 up"))
		return fd;
	if (fd >= 0)
		close(fd);
	printf("skipped: no tap in a network namespace of our own ");
	return -1;
}

/* As a virtual machine does: UDP that the host is to make IP fragments of. No packet socket can be
 * told of such a one, and the kernel uses its ring's slot never again. */
static void send_fragments(int fd)
{
	CU_ASSERT(throw(fd, VIRTIO_NET_HDR_GSO_UDP, 1000, 400, URXE_UDP_DPORT));
}

/* What is lost meanwhile is sent again. */
static bool comes_through(int fd, struct end *e)
{
	struct shape s = {.ipv4 = true, .sport = 7, .len = 100};
	uint8_t buf[2048] = {0};
	uint32_t n = make(&s, 3, buf + sizeof(struct virtio_net_hdr));
	uint64_t end = now() + 20000000000u;
	struct urxe_frame f;
	bool came = false;

	while (!came && now() < end) {
		CU_ASSERT(write(fd, buf, sizeof(struct virtio_net_hdr) + n) > 0);
		while (e->ops->rx(e->link, 0, &f, 1)) {
			came |= f.len == n &&
				!memcmp(f.data, buf + sizeof(struct virtio_net_hdr), n);
			e->ops->free(e->link, 0, &f, 1);
		}
		usleep(1000);
	}
	return came;
}

/* While a frame is lent its ring stays, and the frame as it is. */
static void deaf_with_one_lent(int fd, struct end *e)
{
	uint64_t end = now() + 20000000000u, lost;
	struct urxe_frame f, more;
	uint8_t was[64];

	send_fragments(fd);
	CU_ASSERT(comes_through(fd, e));
	CU_ASSERT(write(fd, (uint8_t[200]){0}, 200) > 0);
	CU_ASSERT_EQUAL_FATAL(e->ops->rx(e->link, 0, &f, 1), 1);
	memcpy(was, f.data, sizeof(was));
	lost = e->ops->dropped(e->link);
	send_fragments(fd);
	for (unsigned i = 0; i < 300 && now() < end; i++) {
		CU_ASSERT(write(fd, (uint8_t[200]){0}, 200) > 0);
		CU_ASSERT_EQUAL(e->ops->rx(e->link, 0, &more, 1), 0);
		usleep(1000);
	}
	CU_ASSERT(e->ops->dropped(e->link) >= lost + 300);
	CU_ASSERT(!memcmp(was, f.data, sizeof(was)));
	e->ops->free(e->link, 0, &f, 1);
	CU_ASSERT(comes_through(fd, e));
}

static void deaf(void)
{
	uint64_t lost;
	struct end e;
	pid_t child;
	int fd;

	if (!have_runs() || (fd = tap()) < 0)
		return;
	CU_ASSERT_EQUAL_FATAL(end_open(&e, "net_af_packet0,iface=urxet", MTU), 0);
	e.ops->everything(e.link, true);
	CU_ASSERT(comes_through(fd, &e));
	/* A child that is there has none of it. */
	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	for (unsigned i = 0; i < 3; i++) {
		lost = e.ops->dropped(e.link);
		send_fragments(fd);
		CU_ASSERT(comes_through(fd, &e));
		CU_ASSERT(e.ops->dropped(e.link) > lost);
	}
	CU_ASSERT_EQUAL(kill(child, SIGKILL), 0);
	CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
	deaf_with_one_lent(fd, &e);
	end_close(&e);
	close(fd);
}

/* A link that ends with a part of a run not handed out. */
static void half(void)
{
	struct shape s[64];
	struct urxe_frame f;
	struct end a, b;

	if (!have_runs() || !ends_open(&a, &b, ""))
		return;
	alike(s, 64, true, 1000, 1000);
	burst(&a, s, 64);
	CU_ASSERT_EQUAL(b.ops->rx(b.link, 0, &f, 1), 1);
	b.ops->free(b.link, 0, &f, 1);
	ends_close(&a, &b);
}

URXE_TEST_MAIN("packet_runs", T(veth_setup), T(there_and_back), T(mixed), T(without), T(refused),
	       T(by_the_kernel), T(strange), T(from_sockets), T(many), T(too_many), T(half),
	       T(deaf))
