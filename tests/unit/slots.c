/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory that send queues share: what comes back last goes out first, and nothing is lost. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "provider/slots.h"

#define LARGEST ((size_t)1 << (URXE_SLOTS_SMALLEST + URXE_SLOTS_CLASSES - 1))

static void test_last_first(void)
{
	struct urxe_slots s = {0};
	void *a = urxe_slots_take(&s, 512), *b = urxe_slots_take(&s, 512);

	CU_ASSERT_FATAL(a && b && a != b);
	CU_ASSERT(!((uintptr_t)a % 64) && !((uintptr_t)b % 64));
	urxe_slots_give(&s, a, 512);
	urxe_slots_give(&s, b, 512);
	CU_ASSERT_PTR_EQUAL(urxe_slots_take(&s, 512), b);
	CU_ASSERT_PTR_EQUAL(urxe_slots_take(&s, 512), a);
	urxe_slots_give(&s, a, 512);
	free(b); /* who has it may free it as well */
	urxe_slots_fini(&s);
	CU_ASSERT_PTR_NULL(s.rest[1]);
}

/* Each size is served by blocks of its own class alone, which hold all of it. */
static void test_sizes(void)
{
	static const size_t sizes[] = {1,    255,   256,   257,	  512,	       513,    1000,
				       1024, 16384, 16385, 65536, LARGEST - 1, LARGEST};
	struct urxe_slots s = {0};
	void *held[sizeof(sizes) / sizeof(*sizes)];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		CU_ASSERT(urxe_slots_fit(sizes[i]));
		held[i] = urxe_slots_take(&s, sizes[i]);
		CU_ASSERT_FATAL(held[i] != NULL);
		CU_ASSERT(malloc_usable_size(held[i]) >= sizes[i]);
		if (held[i])
			memset(held[i], 0x5a, sizes[i]);
	}
	CU_ASSERT(!urxe_slots_fit(LARGEST + 1));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		urxe_slots_give(&s, held[i], sizes[i]);
	/* One of 257 to 512 bytes is good for any of these, and for no other. */
	CU_ASSERT_PTR_EQUAL(urxe_slots_take(&s, 300), held[4]);
	CU_ASSERT_PTR_EQUAL(urxe_slots_take(&s, 512), held[3]);
	CU_ASSERT_PTR_NULL(s.rest[1]);
	CU_ASSERT_PTR_NOT_NULL(s.rest[0]);
	CU_ASSERT_PTR_NOT_NULL(s.rest[2]);
	urxe_slots_give(&s, held[4], 300);
	urxe_slots_give(&s, held[3], 512);
	urxe_slots_fini(&s);
	for (unsigned i = 0; i < URXE_SLOTS_CLASSES; i++)
		CU_ASSERT_PTR_NULL(s.rest[i]);
}

static void test_drop(void)
{
	struct urxe_slots s = {0};
	void *a = urxe_slots_take(&s, 4096);

	urxe_slots_drop(&s, 4096); /* there is none */
	CU_ASSERT_FATAL(a != NULL);
	urxe_slots_give(&s, a, 4096);
	urxe_slots_drop(&s, 2048); /* nor one of these */
	CU_ASSERT_PTR_EQUAL(s.rest[4], a);
	urxe_slots_drop(&s, 4096);
	CU_ASSERT_PTR_NULL(s.rest[4]);
	urxe_slots_fini(&s);
}

URXE_TEST_MAIN("slots", T(test_last_first), T(test_sizes), T(test_drop))
