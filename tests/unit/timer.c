/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The heap of timers against a plain list; the table of look-ups. */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "provider.h"
#include "urxe/random.h"
#include "urxe/timer.h"

#define N 200

static uint32_t rnd(uint32_t below)
{
	static uint64_t s = 7;

	return urxe_random_below(&s, below);
}

static void test_heap(void)
{
	struct urxe_timer_heap h = {0};
	struct urxe_timer t[N];
	uint64_t when[N];

	memset(t, 0, sizeof(t));
	memset(when, 0xff, sizeof(when));
	CU_ASSERT_EQUAL_FATAL(urxe_timer_heap_reserve(&h, N), 0);
	CU_ASSERT_PTR_NULL(urxe_timer_first(&h));
	for (unsigned round = 0; round < 20000; round++) {
		unsigned i = rnd(N), live = 0;
		uint64_t least = UINT64_MAX;
		struct urxe_timer *first;

		if (rnd(3)) {
			when[i] = rnd(1000);
			urxe_timer_set(&h, &t[i], when[i]);
		} else {
			when[i] = UINT64_MAX;
			urxe_timer_cancel(&h, &t[i]);
		}
		for (unsigned k = 0; k < N; k++) {
			live += when[k] != UINT64_MAX;
			least = when[k] < least ? when[k] : least;
		}
		first = urxe_timer_first(&h);
		CU_ASSERT_EQUAL_FATAL(h.n, live);
		CU_ASSERT_EQUAL_FATAL(first ? first->when : UINT64_MAX, least);
		if (first && round % 3 == 0) {
			when[first - t] = UINT64_MAX;
			urxe_timer_cancel(&h, first);
		}
	}
	urxe_timer_heap_fini(&h);
}

static void test_table(void)
{
	struct urxe_table t = {0};
	int a, b;

	CU_ASSERT_EQUAL_FATAL(urxe_table_init(&t, 12), 0);
	CU_ASSERT_EQUAL(t.size, 4096);
	CU_ASSERT_PTR_NULL(urxe_table_get(&t, 0));
	CU_ASSERT_PTR_NULL(urxe_table_get(&t, 4095));
	CU_ASSERT_PTR_NULL(urxe_table_get(&t, 4096));
	CU_ASSERT_PTR_NULL(urxe_table_get(&t, UINT32_MAX));
	CU_ASSERT_EQUAL(urxe_table_set(&t, 4095, &a), 0);
	CU_ASSERT_EQUAL(urxe_table_set(&t, 0, &b), 0);
	CU_ASSERT_EQUAL(urxe_table_set(&t, 4096, &b), ENOMEM);
	CU_ASSERT_PTR_EQUAL(urxe_table_get(&t, 4095), &a);
	CU_ASSERT_PTR_EQUAL(urxe_table_get(&t, 0), &b);
	CU_ASSERT_PTR_NULL(urxe_table_get(&t, 4094));
	CU_ASSERT_EQUAL(urxe_table_set(&t, 4095, NULL), 0);
	CU_ASSERT_PTR_NULL(urxe_table_get(&t, 4095));
	urxe_table_fini(&t);
	CU_ASSERT_EQUAL_FATAL(urxe_table_init(&t, 1), 0);
	CU_ASSERT_EQUAL(t.size, URXE_TABLE_LEAF);
	urxe_table_fini(&t);
}

URXE_TEST_MAIN("timer", T(test_heap), T(test_table))
