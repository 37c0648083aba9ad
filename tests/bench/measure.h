/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What benchmarks of several processes have in common: a clock, a processor for each, the median.
 */
#ifndef URXE_BENCH_MEASURE_H
#define URXE_BENCH_MEASURE_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/** measure_need - ends the program with a line that has @what and errno, unless @good. */
static inline void measure_need(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
			strerror(errno));
		exit(1);
	}
}

/** measure_now - CLOCK_MONOTONIC, ns. */
static inline uint64_t measure_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int measure_by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/** measure_median - of @n figures, which it sorts; @n > 0. */
static inline uint64_t measure_median(uint64_t *t, uint64_t n)
{
	qsort(t, n, sizeof(*t), measure_by_value);
	return t[n / 2];
}

/** measure_pin - two that wait for each other have a processor each: the @which-th of those we may
 * use, if there are several. */
static inline void measure_pin(unsigned which)
{
	cpu_set_t may, one;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(may), &may) || CPU_COUNT(&may) < 2)
		return;
	for (unsigned i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &may) && !which--) {
			CPU_SET(i, &one);
			sched_setaffinity(0, sizeof(one), &one);
			return;
		}
	}
}

/** measure_ends - main() of a program that has two ends: `-s ADDRESS`, or `-c ADDRESS FIRST
 * [SECOND]`.
 * @second: what SECOND is if it is not given. */
static inline int measure_ends(int argc, char **argv, unsigned second,
			       void (*server)(const char *address),
			       void (*client)(const char *address, unsigned first, unsigned second))
{
	if (argc == 3 && !strcmp(argv[1], "-s"))
		server(argv[2]);
	else if (argc >= 4 && !strcmp(argv[1], "-c"))
		client(argv[2], (unsigned)atoi(argv[3]),
		       argc > 4 ? (unsigned)atoi(argv[4]) : second);
	else
		return 2;
	return 0;
}

#endif
