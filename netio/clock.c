/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The TSC as a clock: a system call's price is what a small packet costs.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "netio/clock.h"

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
	/* Pairs with urxe_clock_now(): the base is there with it. */
	__atomic_store_n(
		&tsc.mult,
		(uint64_t)(((unsigned __int128)(ns - tsc.base_ns) << 32) / (ticks - tsc.base)),
		__ATOMIC_RELEASE);
}

uint64_t urxe_clock_now(void *unused)
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
uint64_t urxe_clock_now(void *unused)
{
	return mono_ns();
}
#endif
