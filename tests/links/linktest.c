/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One end of a DPDK link, below the stack: echo, ping or blast frames with sequence numbers.
 * For trying out drivers by hand, and for tests/links.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "netio/config.h"
#include "netio/link_ethdev.h"

#define BURST	32
#define ETHTYPE 0x88b5 /* for local experiments */

static const struct urxe_link_ops *ops;
static struct urxe_link_info info;
static void *lnk;
static uint32_t size = 64;
static uint64_t count = 1000, give_up_ns = 10000000000u;
static bool sleepy, forks;
static int wake_fd;

static uint64_t now(void)
{
	return ops->now(NULL);
}

static void idle(unsigned *spins)
{
	struct urxe_sleep how = {.interrupt = true};

	if (sleepy)
		ops->wait(lnk, 100000000, wake_fd, &how);
	else if (++*spins % 64 == 0)
		sched_yield();
}

static void fill(struct urxe_frame *f, uint64_t seq)
{
	memset(f->data, 0xff, 6);
	memset(f->data + 6, 2, 6);
	f->data[12] = ETHTYPE >> 8;
	f->data[13] = ETHTYPE & 0xff;
	memcpy(f->data + 14, &seq, 8);
	for (uint32_t i = 22; i < size; i++)
		f->data[i] = (uint8_t)(seq + i);
	f->len = size;
}

static bool check(const struct urxe_frame *f, uint64_t *seq)
{
	if (f->len < 22 || f->data[12] != ETHTYPE >> 8 || f->data[13] != (ETHTYPE & 0xff))
		return false;
	memcpy(seq, f->data + 14, 8);
	for (uint32_t i = 22; i < f->len; i++) {
		if (f->data[i] != (uint8_t)(*seq + i)) {
			fprintf(stderr, "frame %" PRIu64 " is corrupt at %u of %u\n", *seq, i,
				f->len);
			exit(3);
		}
	}
	return true;
}

static void send_all(struct urxe_frame *f, unsigned n)
{
	unsigned k;

	for (; n; n -= k, f += k) {
		k = ops->tx(lnk, 0, f, n);
		if (k)
			continue;
		if (!ops->up(lnk)) {
			ops->free(lnk, 0, f, n);
			return;
		}
		sched_yield();
	}
}

_Noreturn static void echo(void)
{
	struct urxe_frame f[BURST];
	unsigned n, spins = 0;

	for (;;) {
		n = ops->rx(lnk, 0, f, BURST);
		if (n)
			send_all(f, n);
		else
			idle(&spins);
	}
}

static int cmp(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int ping(void)
{
	uint64_t *rtt = calloc(count, sizeof(*rtt)), seq, start, last, lost = 0;
	struct urxe_frame f[BURST];
	unsigned n, spins = 0;
	bool got;

	last = now();
	for (uint64_t i = 0; i < count; i += got) {
		while (!ops->alloc(lnk, 0, f, 1))
			sched_yield();
		fill(f, i);
		start = now();
		send_all(f, 1);
		for (got = false; !got && now() - start < 200000000;) {
			n = ops->rx(lnk, 0, f, BURST);
			for (unsigned j = 0; j < n; j++)
				got |= check(&f[j], &seq) && seq == i;
			ops->free(lnk, 0, f, n);
			if (!n)
				idle(&spins);
		}
		if (got) {
			rtt[i] = now() - start;
			last = now();
		} else {
			lost++;
			if (now() - last > give_up_ns) {
				fprintf(stderr, "no answer to ping %" PRIu64 "\n", i);
				return 1;
			}
		}
	}
	qsort(rtt, count, sizeof(*rtt), cmp);
	printf("ping %u bytes: %" PRIu64 " rounds, median %.3f us, p99 %.3f us, lost %" PRIu64 "\n",
	       size, count, (double)rtt[count / 2] / 1e3, (double)rtt[count * 99 / 100] / 1e3,
	       lost);
	free(rtt);
	return 0;
}

static int blast(void)
{
	struct urxe_frame f[BURST];
	uint64_t sent = 0, start, full = 0;
	unsigned n, k;

	while (!ops->up(lnk))
		sched_yield();
	start = now();
	while (sent < count) {
		n = ops->alloc(lnk, 0, f, BURST);
		for (unsigned i = 0; i < n; i++)
			fill(&f[i], sent + i);
		for (unsigned i = 0; i < n; i += k) {
			k = ops->tx(lnk, 0, f + i, n - i);
			if (!k && !ops->up(lnk)) {
				ops->free(lnk, 0, f + i, n - i);
				break;
			}
			if (!k) {
				full++;
				sched_yield();
			}
		}
		sent += n;
	}
	printf("blast: %" PRIu64 " frames of %u in %.3f s, ring full %" PRIu64 " times\n", sent,
	       size, (double)(now() - start) / 1e9, full);
	usleep(300000);
	return 0;
}

static int sink(void)
{
	struct urxe_frame f[BURST];
	uint64_t got = 0, start = 0, end = 0, seq, next = 0, gaps = 0;
	unsigned n, spins = 0;

	while (got < count && (!got || now() - end < 1000000000u)) {
		n = ops->rx(lnk, 0, f, BURST);
		for (unsigned i = 0; i < n; i++) {
			if (!check(&f[i], &seq))
				continue;
			if (!got++)
				start = now();
			gaps += seq != next;
			next = seq + 1;
			end = now();
		}
		ops->free(lnk, 0, f, n);
		if (!n)
			idle(&spins);
	}
	printf("sink: %" PRIu64 " of %" PRIu64 " frames, %" PRIu64 " gaps, %.3f M/s, %.2f Gb/s\n",
	       got, count, gaps, (double)got / (double)(end - start) * 1e3,
	       (double)got * size * 8 / (double)(end - start));
	return got == count && !gaps ? 0 : 1;
}

/* It has all our descriptors but the standard ones, and does nothing for a minute. */
static int idle_child(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	alarm(60);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	pause();
	_exit(0);
}

int main(int argc, char **argv)
{
	struct urxe_port_config cfg = {.name = "urxe0", .mtu = 1500, .vlan = 0xffff};
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	enum urxe_log_level level;
	void *arg;
	int opt, ret;

	while ((opt = getopt(argc, argv, "s:c:m:p:l:w:Sf")) != -1) {
		switch (opt) {
		case 's':
			size = (uint32_t)atoi(optarg);
			break;
		case 'c':
			count = strtoull(optarg, NULL, 0);
			break;
		case 'm':
			cfg.mtu = (uint32_t)atoi(optarg);
			break;
		case 'p':
			snprintf(cfg.pcap, sizeof(cfg.pcap), "%s", optarg);
			break;
		case 'w':
			give_up_ns = strtoull(optarg, NULL, 0) * 1000000000u;
			break;
		case 'S':
			sleepy = true;
			break;
		case 'f':
			forks = true;
			break;
		case 'l':
			if (!urxe_log_level_parse(optarg, &level)) {
				urxe_log_set_level(level);
				break;
			}
			/* fall through */
		default:
			return 2;
		}
	}
	if (argc - optind != 2 || size < 22) {
		fprintf(stderr, "usage: linktest [-s SIZE] [-c COUNT] [-m MTU] [-p PCAP] [-l "
				"LEVEL] [-w SECONDS] "
				"[-S] [-f] PORT echo|ping|blast|sink|open\n");
		return 2;
	}
	snprintf(cfg.port, sizeof(cfg.port), "%s", argv[optind]);
	wake_fd = eventfd(0, 0);
	urxe_link_select(&cfg, &ops, &arg);
	ret = ops->open(arg, &cfg, mac, urxe_config_l3_mtu(&cfg), &lnk, &info);
	if (ret)
		return 1;
	fprintf(stderr, "open: %s mac %02x:..:%02x mtu %u lanes %u speed %u child %d\n",
		info.driver, info.mac[0], info.mac[5], info.max_l3_mtu, info.lanes, info.speed_mbps,
		forks ? idle_child() : 0);
	if (!strcmp(argv[optind + 1], "echo"))
		echo();
	else if (!strcmp(argv[optind + 1], "ping"))
		ret = ping();
	else if (!strcmp(argv[optind + 1], "blast"))
		ret = blast();
	else if (!strcmp(argv[optind + 1], "sink"))
		ret = sink();
	ops->close(lnk);
	return ret;
}
