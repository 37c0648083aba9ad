/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Slabs: structs come and go in any order, and no two are in one place. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "harness.h"
#include "urxe/random.h"
#include "urxe/slab.h"

#define N 500

struct thing {
	uint64_t number; /* zeroed in a new one */
	uint8_t rest[1000];
};

static struct urxe_slab slab = URXE_SLAB_INIT(struct thing);
static struct thing *things[N];
static uint64_t numbers[N];

static void take(unsigned i)
{
	static uint64_t next = 1;
	struct thing *t = urxe_slab_get(&slab, sizeof(t->number));

	CU_ASSERT_PTR_NOT_NULL_FATAL(t);
	if (!t)
		return;
	CU_ASSERT_EQUAL_FATAL((uintptr_t)t % 64, 0);
	CU_ASSERT_EQUAL_FATAL(t->number, 0);
	t->number = numbers[i] = next++;
	memset(t->rest, (int)(t->number & 0xff), sizeof(t->rest));
	things[i] = t;
}

/* It is as it was left. */
static void check(unsigned i)
{
	const struct thing *t = things[i];

	CU_ASSERT_EQUAL_FATAL(t->number, numbers[i]);
	for (size_t at = 0; at < sizeof(t->rest); at++)
		CU_ASSERT_EQUAL_FATAL(t->rest[at], (uint8_t)(t->number & 0xff));
}

static void give(unsigned i)
{
	check(i);
	urxe_slab_put(&slab, things[i]);
	things[i] = NULL;
}

static void test_any_order(void)
{
	uint64_t seed = 3;

	for (unsigned turn = 0; turn < 20 * N; turn++) {
		unsigned i = (unsigned)urxe_random_below(&seed, N);

		if (things[i])
			give(i);
		else
			take(i);
	}
	for (unsigned i = 0; i < N; i++) {
		if (things[i])
			give(i);
	}
}

static void test_all_at_once(void)
{
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < N; i++)
			take(i);
		for (unsigned i = 0; i < N; i++)
			give(round & 1 ? N - 1 - i : i);
	}
	urxe_slab_put(&slab, NULL);
	/* With all given back nothing is left (a leak checker looks). */
	urxe_slab_fini(&slab);
	CU_ASSERT_PTR_NULL(slab.empty);
	CU_ASSERT_PTR_NULL(slab.partial);
}

/* One that comes and goes is in the same place: that is warm, and nothing grows. */
static void test_one(void)
{
	struct thing *last = NULL;

	for (unsigned i = 0; i < 1000; i++) {
		take(0);
		CU_ASSERT_FATAL(!last || things[0] == last || URXE_SLAB_PLAIN);
		last = things[0];
		give(0);
	}
	urxe_slab_fini(&slab);
}

URXE_TEST_MAIN("slab", T(test_any_order), T(test_all_at_once), T(test_one))
