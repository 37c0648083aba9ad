/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The options --seed, --count and --steps of tests that run from seeds. */
#include "seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static const char *program;
static uint64_t only;
static unsigned count_asked, steps_asked;

static uint64_t number(const char *option, const char *s)
{
	char *end;
	uint64_t v = s ? strtoull(s, &end, 0) : 0;

	if (!s || end == s || *end || !v) {
		fprintf(stderr, "%s: %s takes a number of 1 and more\n", program, option);
		exit(2);
	}
	return v;
}

void seeds_args(int *argc, char **argv)
{
	int to = 1;

	program = argv[0];
	for (int i = 1; i < *argc; i++) {
		if (!strcmp(argv[i], "--seed"))
			only = number(argv[i], argv[i + 1]), i++;
		else if (!strcmp(argv[i], "--count"))
			count_asked = (unsigned)number(argv[i], argv[i + 1]), i++;
		else if (!strcmp(argv[i], "--steps"))
			steps_asked = (unsigned)number(argv[i], argv[i + 1]), i++;
		else
			argv[to++] = argv[i];
	}
	argv[to] = NULL;
	*argc = to;
}

unsigned seeds_steps(unsigned steps)
{
	return steps_asked ? steps_asked : steps;
}

void seeds_run(const char *test, unsigned count, bool (*fn)(uint64_t seed))
{
	uint64_t first = only ? only : 1, n = count_asked ? count_asked : only ? 1 : count;

	for (uint64_t seed = first; seed < first + n; seed++) {
		if (fn(seed)) {
			CU_PASS("seed");
			continue;
		}
		fprintf(stderr, "failing seed %llu; again: %s --seed %llu",
			(unsigned long long)seed, program, (unsigned long long)seed);
		if (steps_asked)
			fprintf(stderr, " --steps %u", steps_asked);
		fprintf(stderr, " %s\n", test);
		CU_FAIL("seed");
	}
}
