/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The local fabric by itself, below ports and verbs: its rings between two processes, and what its
 * members do to each other, in a folder of its own.
 *
 *	ring lat SIZE ROUNDS	half of a round trip over two rings: us
 *	ring rate SIZE COUNT	packets one way: M/s
 *	ring bw SIZE COUNT	the same: Gb/s of payload
 *	ring attach COUNT	from the first frame for a member to a ring to it, median: us
 *	ring claim COUNT	an RDMA port claimed and released, median of a thousand's mean: us
 *	ring death COUNT	from kill -9 of a member to its peer's hook, median: ms
 *
 * Each prints one number. SIZE is that of a payload; the frames have room for headers as well.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"
#include "netio/config.h"
#include "netio/fabric_ring_tx.h"
#include "netio/link_fabric.h"
#include "netio/port.h"
#include "urxe/lock.h"
#include "urxe/wire.h"

#define COLD	(64u << 20)
#define HEADERS 62 /* Ethernet, IPv4, UDP, BTH, ICRC */
#define BURST	32
#define RING	(256u << 10)
#define SLOT	1 /* of either writer, in the other's bell */
#define MTU	4200

static void *memory(size_t len, int flags)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_POPULATE | flags, -1,
		       0);

	measure_need(p != MAP_FAILED, "memory");
	return p;
}

/* ---- rings ---- */

struct side {
	struct urxe_ring_tx tx;
	struct urxe_ring_rx rx;
	struct urxe_fabric_bell *theirs;
	uint8_t *cold;
	size_t cold_at;
};

static uint8_t *cold_next(struct side *s, uint32_t len)
{
	uint8_t *p;

	if (s->cold_at + len > COLD)
		s->cold_at = 0;
	p = s->cold + s->cold_at;
	s->cold_at += (len + 63) & ~63u;
	return p;
}

static bool put_one(struct side *s, uint32_t size)
{
	uint8_t *to = urxe_ring_reserve(&s->tx, size + HEADERS);

	if (!to)
		return false;
	memcpy(to + HEADERS, cold_next(s, size), size);
	urxe_ring_commit(&s->tx, size + HEADERS, URXE_RING_NO_ICRC);
	return true;
}

/* As the link does it. The reader looks at the ring itself, and has the bit set. */
static void announce(struct side *s)
{
	if (!urxe_ring_publish(&s->tx))
		return;
	urxe_bell_fence();
	urxe_bell_ring(s->theirs, SLOT);
}

static unsigned get_some(struct side *s, uint32_t size)
{
	struct urxe_ring_frame f;
	unsigned n = 0;

	while (n < BURST && urxe_ring_next(&s->rx, &f) == URXE_RING_FRAME) {
		memcpy(cold_next(s, size), f.data + HEADERS, size);
		urxe_ring_release(&s->rx);
		n++;
	}
	if (n)
		urxe_ring_return(&s->rx);
	return n;
}

/* Who finds nothing for long may be on the other's processor. */
static void relax(unsigned *spins)
{
	if (++*spins % 256)
		urxe_cpu_relax();
	else
		sched_yield();
}

static void wait_one(struct side *s, uint32_t size)
{
	unsigned spins = 0;

	while (!get_some(s, size))
		relax(&spins);
}

static void send_one(struct side *s, uint32_t size)
{
	unsigned spins = 0;

	while (!put_one(s, size))
		relax(&spins);
	announce(s);
}

static double ping(struct side *s, uint32_t size, uint64_t rounds)
{
	uint64_t *t = calloc(rounds, sizeof(*t)), start;

	measure_need(t, "memory");
	for (uint64_t i = 0; i < rounds; i++) {
		start = measure_now();
		send_one(s, size);
		wait_one(s, size);
		t[i] = measure_now() - start;
	}
	return (double)measure_median(t, rounds) / 2e3;
}

/* One way; the far end says when it has all. Packets a nanosecond. */
static double blast(struct side *s, uint32_t size, uint64_t count)
{
	uint64_t start = measure_now();
	unsigned spins = 0;

	for (uint64_t sent = 0; sent < count;) {
		unsigned n = 0;

		while (n < BURST && sent + n < count && put_one(s, size))
			n++;
		announce(s);
		sent += n;
		if (!n)
			relax(&spins);
	}
	wait_one(s, size);
	return (double)count / (double)(measure_now() - start);
}

static void far_end(struct side *s, bool echo, uint32_t size, uint64_t count)
{
	unsigned spins = 0;

	for (uint64_t got = 0; got < count;) {
		unsigned n = get_some(s, size);

		got += n;
		if (n && echo)
			send_one(s, size);
		else if (!n)
			relax(&spins);
	}
	if (!echo)
		send_one(s, size);
}

/* This process's half of two rings: it reads the one, and writes the other. */
static void take_side(struct side *s, const int fd[2], unsigned which,
		      struct urxe_fabric_bell *bells)
{
	struct urxe_ring_tx mine;

	memset(s, 0, sizeof(*s));
	errno = urxe_ring_map(&s->tx, RING, fd[!which]);
	measure_need(!errno, "ring");
	errno = urxe_ring_map(&mine, RING, fd[which]);
	measure_need(!errno, "ring");
	s->rx = (struct urxe_ring_rx){.mem = mine.mem, .size = RING, .max = 9000};
	s->theirs = &bells[!which];
	s->cold = memory(COLD, MAP_PRIVATE);
	memset(s->cold, 0x5a, COLD);
	urxe_bell_set(&bells[which], SLOT);
}

static int rings(const char *what, uint32_t size, uint64_t count)
{
	struct urxe_fabric_bell *bells = memory(2 * sizeof(*bells), MAP_SHARED);
	bool echo = !strcmp(what, "lat");
	struct urxe_ring_rx unused;
	int fd[2], status = 0;
	struct side s;
	pid_t pid;

	for (unsigned i = 0; i < 2; i++) {
		errno = urxe_ring_create(&unused, RING, 9000, &fd[i]);
		measure_need(!errno, "ring");
	}
	pid = fork();
	measure_need(pid >= 0, "fork");
	measure_pin(!pid);
	take_side(&s, fd, !pid, bells);
	if (!pid) {
		send_one(&s, size);
		far_end(&s, echo, size, count);
		_exit(0);
	}
	wait_one(&s, size); /* it is there */
	if (echo)
		printf("%.3f\n", ping(&s, size, count));
	else
		printf("%.3f\n", blast(&s, size, count) * (!strcmp(what, "bw") ? 8 * size : 1e3));
	waitpid(pid, &status, 0);
	return status != 0;
}

/* ---- members ---- */

struct member {
	struct urxe_fabric *f;
	void *link;
	struct urxe_link_info info;
};

static char dir[64];

static void join(struct member *m, const struct urxe_link_ops *ops)
{
	struct urxe_port_config cfg = {.vlan = URXE_NO_VLAN};
	const uint8_t mac[6] = {2};

	strcpy(cfg.name, "urxe0");
	snprintf(cfg.port, sizeof(cfg.port), "fabric,dir=%s", dir);
	measure_need(!ops->fabric(&cfg, &m->f) &&
			     !ops->open(m->f, &cfg, mac, MTU, &m->link, &m->info),
		     "join");
}

static void leave(struct member *m, const struct urxe_link_ops *ops)
{
	ops->close(m->link);
	urxe_fabric_put(m->f);
}

/* A frame's room in the memory of the node with this slot: asks until it is there. */
static void attach(struct member *m, const struct urxe_link_ops *ops, unsigned slot)
{
	uint8_t mac[6];
	struct urxe_frame f[BURST];
	int err;

	memcpy(mac, m->info.mac, 6);
	mac[5] = (uint8_t)slot;
	while ((err = ops->reserve(m->link, 0, mac, slot << 16 | 2, 100, f)) == EINPROGRESS)
		ops->free(m->link, 0, f, ops->rx(m->link, 0, f, BURST));
	errno = err;
	measure_need(!err, "attach");
	ops->abort(m->link, 0, f[0].buf);
}

/* Members in a process of their own, which say their slots, and stay until they are killed. */
static pid_t others(const struct urxe_link_ops *ops, unsigned count, uint8_t *slots)
{
	struct member *m = calloc(count, sizeof(*m));
	int p[2];
	pid_t pid;

	measure_need(m && !pipe(p), "pipe");
	pid = fork();
	measure_need(pid >= 0, "fork");
	if (!pid) {
		for (unsigned i = 0; i < count; i++) {
			join(&m[i], ops);
			slots[i] = (uint8_t)urxe_fabric_slot(m[i].f);
		}
		measure_need(write(p[1], slots, count) == (ssize_t)count, "write");
		for (;;)
			pause();
	}
	close(p[1]);
	for (unsigned got = 0; got < count;) {
		ssize_t n = read(p[0], slots + got, count - got);

		measure_need(n > 0, "read");
		got += (unsigned)n;
	}
	close(p[0]);
	free(m);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static double attaches(const struct urxe_link_ops *ops, unsigned count)
{
	uint64_t *t = calloc(count, sizeof(*t)), start;
	uint8_t slots[URXE_FABRIC_SLOTS];
	struct member me;
	pid_t pid;

	measure_need(t && count <= 200, "count");
	pid = others(ops, count, slots);
	join(&me, ops);
	for (unsigned i = 0; i < count; i++) {
		start = measure_now();
		attach(&me, ops, slots[i]);
		t[i] = measure_now() - start;
	}
	end(pid);
	leave(&me, ops);
	return (double)measure_median(t, count) / 1e3;
}

static double claims(const struct urxe_link_ops *ops, unsigned count)
{
	uint64_t *t = calloc(count, sizeof(*t)), start;
	uint8_t gid[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};
	urxe_fabric_claim claim;
	struct member me;

	measure_need(t && count, "count");
	join(&me, ops);
	for (unsigned i = 0; i < count; i++) {
		start = measure_now();
		for (unsigned k = 0; k < 1000; k++) {
			uint16_t port = 0;

			errno = urxe_fabric_port_claim(me.f, URXE_IDENT_TCP, gid, 0,
						       k * 2654435761u, &port, &claim);
			measure_need(!errno, "claim");
			urxe_fabric_port_release(me.f, claim);
		}
		t[i] = measure_now() - start;
	}
	leave(&me, ops);
	return (double)measure_median(t, count) / 1e6;
}

static _Atomic uint64_t gone_at;

static void gone(void *arg, unsigned slot)
{
	(void)arg;
	(void)slot;
	atomic_store(&gone_at, measure_now());
}

static double deaths(const struct urxe_link_ops *ops, unsigned count)
{
	uint64_t *t = calloc(count, sizeof(*t)), start;
	struct urxe_frame f[BURST];
	struct member me;
	uint8_t slot;

	measure_need(t && count, "count");
	join(&me, ops);
	ops->on_gone(me.link, gone, NULL);
	for (unsigned i = 0; i < count; i++) {
		pid_t pid = others(ops, 1, &slot);

		attach(&me, ops, slot);
		atomic_store(&gone_at, 0);
		start = measure_now();
		kill(pid, SIGKILL);
		/* A lane's turn brings the news; the thread that sees the death needs a processor.
		 */
		while (!atomic_load(&gone_at)) {
			ops->free(me.link, 0, f, ops->rx(me.link, 0, f, BURST));
			sched_yield();
		}
		t[i] = atomic_load(&gone_at) - start;
		waitpid(pid, NULL, 0);
	}
	leave(&me, ops);
	return (double)measure_median(t, count) / 1e6;
}

static int members(const char *what, unsigned count)
{
	const struct urxe_link_ops *ops = &urxe_link_fabric_ops;

	strcpy(dir, "/tmp/urxe-ring-XXXXXX");
	measure_need(mkdtemp(dir), "folder");
	if (!strcmp(what, "attach"))
		printf("%.2f\n", attaches(ops, count));
	else if (!strcmp(what, "claim"))
		printf("%.3f\n", claims(ops, count));
	else
		printf("%.3f\n", deaths(ops, count));
	rmdir(dir);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	bool ring = !strcmp(what, "lat") || !strcmp(what, "rate") || !strcmp(what, "bw");
	bool member = !strcmp(what, "attach") || !strcmp(what, "claim") || !strcmp(what, "death");

	if (ring && argc == 4)
		return rings(what, (uint32_t)atoi(argv[2]), strtoull(argv[3], NULL, 0));
	if (member && argc == 3)
		return members(what, (unsigned)atoi(argv[2]));
	fprintf(stderr, "usage: ring lat|rate|bw SIZE COUNT | ring attach|claim|death COUNT\n");
	return 2;
}
