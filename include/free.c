/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What threads of ours free (urxe/free.h): a list that goes through the blocks themselves. */
#include <stdatomic.h>
#include <stdlib.h>

#include "urxe/free.h"
#include "urxe/thread.h"

#define WAIT_MAX 4096 /* blocks, where no thread of the application ever comes by */

struct block {
	struct block *next;
};

static struct {
	_Atomic(struct block *) first;
	atomic_uint count; /* about */
} waiting;

void urxe_free_rest(void)
{
	struct block *b, *next;

	if (urxe_thread_ours() || !atomic_load_explicit(&waiting.first, memory_order_relaxed))
		return;
	b = atomic_exchange(&waiting.first, NULL);
	atomic_store(&waiting.count, 0);
	for (; b; b = next) {
		next = b->next;
		free(b);
	}
}

void urxe_free(void *p)
{
	struct block *b = p;

	if (!p)
		return;
	b->next = NULL; /* on any thread, so that ASan shows a block that is too small */
	if (!urxe_thread_ours() ||
	    atomic_load_explicit(&waiting.count, memory_order_relaxed) >= WAIT_MAX) {
		free(p);
		urxe_free_rest();
		return;
	}
	atomic_fetch_add(&waiting.count, 1);
	b->next = atomic_load(&waiting.first);
	while (!atomic_compare_exchange_weak(&waiting.first, &b->next, b))
		;
}
