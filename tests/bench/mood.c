/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How fast the machine is at what all figures hang on: the time in which a cache line goes from one
 * processor to the other, in ns. Virtual machines have two moods: 35 to 65 ns, and 200 to 250.
 *
 *	mood [MS]	over so many milliseconds (20): what a tenth is below, since others who run
 *here only make it longer
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "measure.h"

#define EACH	16 /* exchanges of a sample */
#define MOST	65536
#define FEW	1000	    /* on a machine with others on it, longer than asked for */
#define PATIENT 1000000000u /* ns */

static _Alignas(64) _Atomic uint64_t line;
static _Alignas(64) _Atomic bool stop;

/* Makes odd numbers even. */
static void *answer(void *arg)
{
	uint64_t v;

	(void)arg;
	measure_pin(1);
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
	uint64_t start, end, before, after, n = 0;
	pthread_t other;

	/* The other one first: it would inherit our processor. */
	measure_need(!(errno = pthread_create(&other, NULL, answer, NULL)), "pthread_create");
	measure_pin(0);
	ask();
	after = measure_now();
	start = after;
	end = start + (argc > 1 ? (uint64_t)atoi(argv[1]) : 20) * 1000000u;
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
	printf("%.0f\n", (double)sample[n / 10] / EACH / 2);
	return 0;
}
