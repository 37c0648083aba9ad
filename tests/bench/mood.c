/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How fast the machine is at what all figures hang on: the time in which a cache line goes from one
 * processor to the other, in ns, and the speed of the slower of the two while both are busy, in
 * additions a ns. Virtual machines have two moods: 35 to 65 ns, and 200 to 250; and where a
 * neighbour is busy on the other thread of a processor's core, that has little more than half of
 * its speed.
 *
 *	mood [MS]	over so many milliseconds (20) each: of the lines what a tenth is below,
 *			since others who run here only make it longer
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "measure.h"

#define EACH	16 /* exchanges of a sample */
#define MOST	65536
#define FEW	1000	    /* on a machine with others on it, longer than asked for */
#define PATIENT 1000000000u /* ns */
#define WINDOW	1000000u    /* ns; the median of some is a processor's speed */
#define WINDOWS 64
#define ADDS	1000

static _Alignas(64) _Atomic uint64_t line;
static _Alignas(64) _Atomic bool stop;

/* Additions in 1000 ns. */
static uint64_t speed(uint64_t ms)
{
	uint64_t of[WINDOWS], n = 0, a = 0, b = 0, c = 0, d = 0;

	for (; n < ms && n < WINDOWS; n++) {
		uint64_t start = measure_now(), now = start, adds = 0;

		for (; now - start < WINDOW; now = measure_now()) {
			for (int i = 0; i < ADDS; i += 4) {
				a++, b++, c++, d++;
				__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
			}
			adds += ADDS;
		}
		of[n] = adds * 1000 / (now - start);
	}
	return n ? measure_median(of, n) : 0;
}

struct other {
	uint64_t ms, speed;
};

/* Makes odd numbers even. */
static void *answer(void *arg)
{
	struct other *o = arg;
	uint64_t v;

	measure_pin(1);
	o->speed = speed(o->ms);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		v = atomic_load_explicit(&line, memory_order_acquire);
		if (v & 1)
			atomic_store_explicit(&line, v + 1, memory_order_release);
	}
	return NULL;
}

static void ask(void)
{
	uint64_t v = atomic_load_explicit(&line, memory_order_relaxed);

	for (int i = 0; i < EACH; i++, v += 2) {
		atomic_store_explicit(&line, v + 1, memory_order_release);
		while (atomic_load_explicit(&line, memory_order_acquire) != v + 2)
			;
	}
}

int main(int argc, char **argv)
{
	static uint64_t sample[MOST];
	struct other o = {.ms = argc > 1 ? (uint64_t)atoi(argv[1]) : 20};
	uint64_t start, end, before, after, own, n = 0;
	pthread_t other;

	/* The other one first: it would inherit our processor. */
	measure_need(!(errno = pthread_create(&other, NULL, answer, &o)), "pthread_create");
	measure_pin(0);
	own = speed(o.ms);
	ask();
	after = measure_now();
	start = after;
	end = start + o.ms * 1000000u;
	while (n < MOST && (after < end || (n < FEW && after < start + PATIENT))) {
		before = after;
		ask();
		after = measure_now();
		sample[n++] = after - before;
	}
	atomic_store(&stop, true);
	pthread_join(other, NULL);
	if (!n)
		return 1;
	qsort(sample, n, sizeof(*sample), measure_by_value);
	before = sample[n / 10];
	printf("%.0f %.2f\n", (double)before / EACH / 2,
	       (double)(own < o.speed ? own : o.speed) / 1000);
	return 0;
}
