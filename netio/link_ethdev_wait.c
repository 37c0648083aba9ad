/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Waiting for frames, and the clock.
 *
 * Arming costs the sender a system call per frame, so only waits of some length arm. Frames that
 * came before the arming raise no interrupt: the wait that arms returns at once, the caller polls
 * once more, and its next wait sleeps.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include <rte_ethdev.h>

#include "netio/ethdev.h"
#include "netio/link_ethdev.h"

#define ARM_MIN_NS 1500000u /* shorter waits just sleep: callers drive */

static void intr_off(struct ethdev *e)
{
	if (!e->armed)
		return;
	e->armed = false;
	for (unsigned i = 0; e->present && i < e->info.lanes; i++)
		rte_eth_dev_rx_intr_disable(e->port, (uint16_t)i);
}

/* After a change of the port its old descriptors are gone from the epoll set by themselves. */
static bool intr_on(struct ethdev *e)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	int fd;

	for (unsigned i = 0; i < e->info.lanes; i++) {
		fd = rte_eth_dev_rx_intr_ctl_q_get_fd(e->port, (uint16_t)i);
		if (fd < 0)
			return false;
		if (epoll_ctl(e->epfd, EPOLL_CTL_ADD, fd, &ev) && errno != EEXIST)
			return false;
		if (rte_eth_dev_rx_intr_enable(e->port, (uint16_t)i))
			return false;
	}
	return true;
}

enum arm {
	ARM_NONE,
	ARM_NEW,
	ARM_OLD
};

static enum arm arm(struct ethdev *e, uint64_t ns)
{
	/* Pairs with the releases where it grows: a port that started or changed is seen so. */
	uint32_t gen = __atomic_load_n(&e->generation, __ATOMIC_ACQUIRE);
	enum arm state = ARM_NONE;

	if (!e->kind->rx_intr || !urxe_guard_enter(&e->wait_guard))
		return ARM_NONE;
	if (e->armed && gen != e->wait_generation)
		e->armed = false;
	if (ns < ARM_MIN_NS || !e->present) {
		intr_off(e);
	} else if (e->armed) {
		state = ARM_OLD;
	} else if (intr_on(e)) {
		e->armed = true;
		e->wait_generation = gen;
		state = ARM_NEW;
	}
	urxe_guard_leave(&e->wait_guard);
	return state;
}

void ethdev_wait(void *link, uint64_t ns, int wake_fd, bool *interrupt)
{
	struct ethdev *e = link;
	struct epoll_event ev[ETHDEV_MAX_LANES];
	struct pollfd fds[3] = {{.fd = wake_fd, .events = POLLIN}};
	struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u)};
	enum arm state = ARM_NONE;
	nfds_t n = 1;
	uint64_t v;

	if (!urxe_eal_dead) {
		state = arm(e, ns);
		fds[n++] = (struct pollfd){.fd = e->event_fd, .events = POLLIN};
		if (state != ARM_NONE)
			fds[n++] = (struct pollfd){.fd = e->epfd, .events = POLLIN};
	}
	*interrupt = state != ARM_NONE;
	if (state == ARM_NEW)
		return;
	if (ppoll(fds, n, ns == UINT64_MAX ? NULL : &ts, NULL) <= 0)
		return;
	if (n > 1 && fds[1].revents && read(e->event_fd, &v, sizeof(v)) < 0)
		return;
	if (n > 2 && fds[2].revents) {
		epoll_wait(e->epfd, ev, ETHDEV_MAX_LANES, 0);
		if (urxe_guard_enter(&e->wait_guard)) {
			intr_off(e);
			urxe_guard_leave(&e->wait_guard);
		}
	}
}

/* ---- clock ---- */

static uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#if defined(__x86_64__)
static struct {
	pthread_once_t once;
	uint64_t base, base_ns;
	uint64_t mult; /* ns per tick, 32.32; 0: use the system's clock */
} tsc = {.once = PTHREAD_ONCE_INIT};

/* A reading of both clocks at one moment: the tightest of some tries. */
static void tsc_pair(uint64_t *ticks, uint64_t *ns)
{
	uint64_t best = 0, a, b, t;

	for (unsigned i = 0; i < 16; i++) {
		a = __rdtsc();
		t = mono_ns();
		b = __rdtsc();
		if (!i || b - a < best) {
			best = b - a;
			*ticks = a + (b - a) / 2;
			*ns = t;
		}
	}
}

/* The kernel runs on the TSC only when it ticks evenly on all cores. */
static bool tsc_trusted(void)
{
	unsigned a, b, c, d = 0;
	char name[16] = "";
	FILE *f;

	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1 << 8))
		return false;
	f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
	if (!f)
		return false;
	if (!fgets(name, sizeof(name), f))
		name[0] = '\0';
	fclose(f);
	return !strcmp(name, "tsc\n");
}

static void tsc_calibrate(void)
{
	uint64_t ticks, ns;

	if (!tsc_trusted())
		return;
	tsc_pair(&tsc.base, &tsc.base_ns);
	/* 2 ms give some 10 ppm: enough for time-outs, which is what this clock is for. */
	do
		tsc_pair(&ticks, &ns);
	while (ns - tsc.base_ns < 2000000);
	/* Pairs with urxe_link_ethdev_now(): the base is there with it. */
	__atomic_store_n(
		&tsc.mult,
		(uint64_t)(((unsigned __int128)(ns - tsc.base_ns) << 32) / (ticks - tsc.base)),
		__ATOMIC_RELEASE);
}

uint64_t urxe_link_ethdev_now(void *arg)
{
	/* Pairs with tsc_calibrate(). */
	uint64_t mult = __atomic_load_n(&tsc.mult, __ATOMIC_ACQUIRE);

	if (__builtin_expect(!mult, 0)) {
		pthread_once(&tsc.once, tsc_calibrate);
		mult = tsc.mult;
		if (!mult)
			return mono_ns();
	}
	return tsc.base_ns + (uint64_t)((unsigned __int128)(__rdtsc() - tsc.base) * mult >> 32);
}
#else
uint64_t urxe_link_ethdev_now(void *arg)
{
	return mono_ns();
}
#endif
