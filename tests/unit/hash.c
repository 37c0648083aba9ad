/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Hash tables against a plain array, while they grow. */
#include <stdbool.h>
#include <string.h>

#include "harness.h"
#include "urxe/hash.h"
#include "urxe/random.h"

#define N      3000
#define HASHES 1000 /* so that some have several entries */

struct entry {
	struct urxe_hash_node node;
	uint64_t hash;
	unsigned since; /* when it was put in; 0: it is not in */
};

static struct entry entries[N];

static uint64_t rnd(uint32_t below)
{
	static uint64_t s = 5;

	return urxe_random_below(&s, below);
}

static struct entry *entry_of(struct urxe_hash_node *n)
{
	return (struct entry *)(void *)n;
}

/* All of one hash, the oldest first. */
static void check_hash(const struct urxe_hash *h, uint64_t hash)
{
	struct urxe_hash_node *n = urxe_hash_find(h, hash);
	unsigned live = 0, found = 0, last = 0;

	for (unsigned i = 0; i < N; i++)
		live += entries[i].since && entries[i].hash == hash;
	for (; n; n = urxe_hash_again(n)) {
		CU_ASSERT_EQUAL_FATAL(entry_of(n)->hash, hash);
		CU_ASSERT_FATAL(entry_of(n)->since > last);
		last = entry_of(n)->since;
		found++;
	}
	CU_ASSERT_EQUAL_FATAL(found, live);
}

static void check_walk(const struct urxe_hash *h)
{
	struct urxe_hash_node *n = NULL;
	size_t found = 0;

	while ((n = urxe_hash_next(h, n))) {
		CU_ASSERT_FATAL(entry_of(n)->since);
		found++;
	}
	CU_ASSERT_EQUAL_FATAL(found, h->count);
}

static void test_against_array(void)
{
	struct urxe_hash h = {0};
	size_t count = 0;

	CU_ASSERT_EQUAL_FATAL(urxe_hash_init(&h, 2), 0);
	CU_ASSERT_PTR_NULL(urxe_hash_find(&h, 1));
	CU_ASSERT_PTR_NULL(urxe_hash_next(&h, NULL));
	for (unsigned round = 1; round < 60000; round++) {
		struct entry *e = &entries[rnd(N)];

		if (e->since) {
			urxe_hash_del(&h, &e->node);
			e->since = 0;
			count--;
		} else {
			e->hash = rnd(HASHES);
			e->since = round;
			urxe_hash_add(&h, &e->node, e->hash);
			count++;
		}
		CU_ASSERT_EQUAL_FATAL(h.count, count);
		if (round % 16 == 0)
			check_hash(&h, rnd(HASHES));
		if (round % 1024 == 0)
			check_walk(&h);
	}
	CU_ASSERT(h.size >= 1024);
	urxe_hash_fini(&h);
	CU_ASSERT_EQUAL(h.size, 0);
}

URXE_TEST_MAIN("hash", T(test_against_array))
