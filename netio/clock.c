/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The TSC as a clock: a system call's price is what a small packet costs.
 */
#include <pthread.h>
#include <stdatomic.h>
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
#define CALIBRATE_NS 10000000u /* between two readings: some 5 ppm, for time-outs enough */
#define AHEAD_NS     500u      /* the clock never goes back, by what a reading may be wrong */

static struct {
	pthread_once_t once;
	bool trusted;
	uint64_t base, base_ns;
	uint64_t from_ns; /* base_ns, and some */
	atomic_flag busy;
	_Atomic uint64_t mult; /* ns per tick, 32.32; 0: use the system's clock */
} tsc = {.once = PTHREAD_ONCE_INIT, .busy = ATOMIC_FLAG_INIT};

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

static void tsc_begin(void)
{
	tsc.trusted = tsc_trusted();
	if (tsc.trusted)
		tsc_pair(&tsc.base, &tsc.base_ns);
}

/* Until it is known how fast the TSC is, the system's clock does: nobody waits for that. */
static uint64_t tsc_unknown(void)
{
	uint64_t ticks, ns = mono_ns();

	pthread_once(&tsc.once, tsc_begin);
	if (!tsc.trusted || ns - tsc.base_ns < CALIBRATE_NS || ns < tsc.base_ns ||
	    atomic_flag_test_and_set(&tsc.busy))
		return ns;
	tsc_pair(&ticks, &ns);
	tsc.from_ns = tsc.base_ns + AHEAD_NS;
	/* Pairs with urxe_clock_now(): the base is there with it. busy stays: once. */
	atomic_store_explicit(
		&tsc.mult,
		(uint64_t)(((unsigned __int128)(ns - tsc.base_ns) << 32) / (ticks - tsc.base)),
		memory_order_release);
	return ns;
}

uint64_t urxe_clock_now(void *unused)
{
	/* Pairs with tsc_unknown(). */
	uint64_t mult = atomic_load_explicit(&tsc.mult, memory_order_acquire);

	if (__builtin_expect(!mult, 0))
		return tsc_unknown();
	return tsc.from_ns + (uint64_t)((unsigned __int128)(__rdtsc() - tsc.base) * mult >> 32);
}
#else
uint64_t urxe_clock_now(void *unused)
{
	return mono_ns();
}
#endif
