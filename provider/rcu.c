/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What is freed after a grace period, and what fork() does to it.
 *
 * A thread of ours waits for grace periods; what it frees is freed by the application's
 * (urxe/free.h). It is not liburcu's thread of call_rcu(): that one frees itself, ends the process
 * where it cannot be started, and is missing in the child of a fork().
 */
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "rcu.h"
#include "urxe/free.h"
#include "urxe/lock.h"
#include "urxe/thread.h"

#ifdef URXE_TSAN
char urxe_rcu_tsan_order;
#endif

static struct {
	struct urxe_mutex lock; /* innermost; held across fork() */
	atomic_bool running;
	sem_t work;
	_Atomic(struct urxe_rcu_head *) given;
	struct urxe_rcu_head *waiting; /* the thread's, while their grace period lasts; locked */
} later = {.lock = URXE_MUTEX_INIT};

static void free_all(struct urxe_rcu_head *first) URXE_REQUIRES(later.lock)
{
	for (struct urxe_rcu_head *h = first, *next; h; h = next) {
		next = h->next;
		if (h->slab)
			urxe_slab_put(h->slab, h->block);
		else
			urxe_free(h->block);
	}
}

/*
 * A grace period serves all that was given before it, and costs each thread of the process an
 * interrupt: a program that destroys thousands of QPs a second has a hundred a second.
 */
static void gather(void)
{
	const struct timespec ten_ms = {.tv_nsec = 10000000};

	nanosleep(&ten_ms, NULL);
}

static void *later_main(void *unused)
{
	for (;;) {
		while (sem_wait(&later.work))
			;
		gather();
		urxe_mutex_lock(&later.lock);
		later.waiting = atomic_exchange(&later.given, NULL);
		urxe_mutex_unlock(&later.lock);
		if (!later.waiting)
			continue;
		urxe_rcu_synchronize();
		urxe_mutex_lock(&later.lock);
		free_all(later.waiting);
		later.waiting = NULL;
		urxe_mutex_unlock(&later.lock);
	}
	return unused;
}

int urxe_rcu_start(void)
{
	pthread_t thread;
	int err = 0;

	if (atomic_load(&later.running))
		return 0;
	urxe_mutex_lock(&later.lock);
	if (!atomic_load(&later.running)) {
		/* Of a parent there may be something left. */
		sem_init(&later.work, 0, !!atomic_load(&later.given));
		err = urxe_thread_start(&thread, "urxe/rcu", later_main, NULL);
		if (!err) {
			pthread_detach(thread);
			atomic_store(&later.running, true);
		}
	}
	urxe_mutex_unlock(&later.lock);
	return err;
}

void *urxe_rcu_new(struct urxe_slab *slab)
{
	void *p;

	urxe_mutex_lock(&later.lock);
	p = urxe_slab_get(slab, slab->size);
	urxe_mutex_unlock(&later.lock);
	return p;
}

void urxe_rcu_drop(struct urxe_slab *slab, void *block)
{
	urxe_mutex_lock(&later.lock);
	urxe_slab_put(slab, block);
	urxe_mutex_unlock(&later.lock);
}

void urxe_rcu_free(struct urxe_rcu_head *head, void *block)
{
	urxe_rcu_end(head, NULL, block);
}

void urxe_rcu_end(struct urxe_rcu_head *head, struct urxe_slab *slab, void *block)
{
	struct urxe_rcu_head *old = atomic_load(&later.given);

	head->block = block;
	head->slab = slab;
	do {
		head->next = old;
	} while (!atomic_compare_exchange_weak(&later.given, &old, head));
	/* Without the thread (in the child of a fork) it is kept. */
	if (!old && atomic_load(&later.running))
		sem_post(&later.work);
	urxe_free_rest();
}

void urxe_rcu_drain(void)
{
	struct urxe_rcu_head *given = atomic_exchange(&later.given, NULL);

	urxe_rcu_synchronize();
	urxe_mutex_lock(&later.lock);
	free_all(given);
	urxe_mutex_unlock(&later.lock);
	urxe_free_rest();
}

void urxe_rcu_fork_prepare(void) URXE_ACQUIRE(later.lock)
{
	urxe_mutex_lock(&later.lock);
	urcu_bp_before_fork();
}

void urxe_rcu_fork_parent(void) URXE_RELEASE(later.lock)
{
	urcu_bp_after_fork_parent();
	urxe_mutex_unlock(&later.lock);
}

void urxe_rcu_fork_child(void) URXE_RELEASE(later.lock)
{
	urcu_bp_after_fork_child();
	/* No reader is left. */
	free_all(later.waiting);
	later.waiting = NULL;
	atomic_store(&later.running, false);
	urxe_mutex_unlock(&later.lock);
}
