/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The two kinds of lock, which clang can check (urxe/thread_safety.h).
 *
 * A spin lock that yields: critical sections are short, but the holder may be
 * preempted by its peer on the same core: after a few spins a waiter gives up
 * its time slice, so that two busy-polling threads on one core both get on.
 *
 * A mutex where the holder may be away for long, or waits: POSIX's, in a struct of its own so that
 * nobody takes it past the checks.
 */
#ifndef URXE_LOCK_H
#define URXE_LOCK_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "urxe/thread_safety.h"

struct URXE_CAPABILITY("spin lock") urxe_spin {
	atomic_bool held;
};

#define URXE_SPIN_INIT \
	{              \
		false  \
	}

static inline void urxe_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/** urxe_spin_init - make a lock free; not for a lock in use. */
static inline void urxe_spin_init(struct urxe_spin *l)
{
	atomic_init(&l->held, false);
}

/** urxe_spin_held - has anybody the lock? Only a hint: no longer true when it is known. */
static inline bool urxe_spin_held(const struct urxe_spin *l)
{
	return atomic_load_explicit(&l->held, memory_order_relaxed);
}

/** urxe_spin_trylock - take the lock if it is free; true if taken. Never waits. */
static inline bool urxe_spin_trylock(struct urxe_spin *l) URXE_TRY_ACQUIRE(true, l)
{
	/* Pairs with the release in urxe_spin_unlock(). */
	return !urxe_spin_held(l) &&
	       !atomic_exchange_explicit(&l->held, true, memory_order_acquire);
}

/* Apart, so that who finds the lock free need not save registers for the sake of it. */
static __attribute__((noinline, cold, unused)) void urxe_spin_wait(struct urxe_spin *l)
	URXE_ACQUIRE(l)
{
	for (unsigned spins = 0; !urxe_spin_trylock(l); spins++) {
		if (spins < 64)
			urxe_cpu_relax();
		else
			sched_yield();
	}
}

/** urxe_spin_lock - take the lock, spinning then yielding. Not recursive. */
static inline void urxe_spin_lock(struct urxe_spin *l) URXE_ACQUIRE(l)
{
	if (__builtin_expect(!urxe_spin_trylock(l), 0))
		urxe_spin_wait(l);
}

/** urxe_spin_unlock - release; only by the thread that holds it. */
static inline void urxe_spin_unlock(struct urxe_spin *l) URXE_RELEASE(l) URXE_UNCHECKED
{
	/* Pairs with the acquire in urxe_spin_trylock(). */
	atomic_store_explicit(&l->held, false, memory_order_release);
}

/** urxe_spin_assume - it is held, by a call that this one comes after. Does nothing. */
static inline void urxe_spin_assume(struct urxe_spin *l) URXE_ASSUMES(l)
{
	(void)l;
}

struct URXE_CAPABILITY("mutex") urxe_mutex {
	pthread_mutex_t m;
};

#define URXE_MUTEX_INIT                   \
	{                                 \
		PTHREAD_MUTEX_INITIALIZER \
	}

/** urxe_mutex_init, urxe_mutex_fini - make a mutex free, and end one that is. */
static inline void urxe_mutex_init(struct urxe_mutex *l)
{
	pthread_mutex_init(&l->m, NULL);
}

static inline void urxe_mutex_fini(struct urxe_mutex *l)
{
	pthread_mutex_destroy(&l->m);
}

/* The inside of what follows is POSIX's, which says nothing that can be checked. */

/** urxe_mutex_lock - take it, waiting. Not recursive. No cancellation point. */
static inline void urxe_mutex_lock(struct urxe_mutex *l) URXE_ACQUIRE(l) URXE_UNCHECKED
{
	pthread_mutex_lock(&l->m);
}

/** urxe_mutex_trylock - take it if it is free; true if taken. Never waits. */
static inline bool urxe_mutex_trylock(struct urxe_mutex *l) URXE_TRY_ACQUIRE(true, l)
{
	return !pthread_mutex_trylock(&l->m);
}

/** urxe_mutex_timedlock - take it, waiting till @until of CLOCK_REALTIME; true if taken. */
static inline bool urxe_mutex_timedlock(struct urxe_mutex *l, const struct timespec *until)
	URXE_TRY_ACQUIRE(true, l)
{
	return !pthread_mutex_timedlock(&l->m, until);
}

/** urxe_mutex_unlock - release; only by the thread that holds it. */
static inline void urxe_mutex_unlock(struct urxe_mutex *l) URXE_RELEASE(l) URXE_UNCHECKED
{
	pthread_mutex_unlock(&l->m);
}

/** urxe_mutex_wait - give it, wait for @cond, take it again. Wakes up for no reason, too. */
static inline void urxe_mutex_wait(struct urxe_mutex *l, pthread_cond_t *cond) URXE_REQUIRES(l)
{
	pthread_cond_wait(cond, &l->m);
}

/** urxe_mutex_timedwait - the same till @until of the clock of @cond; true: that has come. */
static inline bool urxe_mutex_timedwait(struct urxe_mutex *l, pthread_cond_t *cond,
					const struct timespec *until) URXE_REQUIRES(l)
{
	return pthread_cond_timedwait(cond, &l->m, until) == ETIMEDOUT;
}

#endif
