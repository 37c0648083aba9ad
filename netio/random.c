/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Random numbers of the kernel's, fetched some at a time: a connection takes half a dozen.
 */
#include <pthread.h>
#include <sys/random.h>

#include "netio/stack.h"

#define STOCK 32 /* 256 bytes: getrandom() gives as many without being interrupted */

static struct {
	struct urxe_spin lock;
	unsigned left;
	uint64_t v[STOCK];
	pthread_once_t once; /* watch_forks() */
} stock = {.lock = URXE_SPIN_INIT, .once = PTHREAD_ONCE_INIT};

/* What parent and child both had would be a secret of neither; and who held the lock is no more. */
static void fork_child(void)
{
	urxe_spin_init(&stock.lock);
	stock.left = 0;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

uint64_t urxe_random64(void)
{
	uint64_t v;

	pthread_once(&stock.once, watch_forks);
	urxe_spin_lock(&stock.lock);
	if (!stock.left) {
		while (getrandom(stock.v, sizeof(stock.v), 0) != sizeof(stock.v))
			;
		stock.left = STOCK;
	}
	v = stock.v[--stock.left];
	stock.v[stock.left] = 0;
	urxe_spin_unlock(&stock.lock);
	return v;
}
