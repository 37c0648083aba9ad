/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A spin lock that yields. Critical sections are short, but the holder may be
 * preempted by its peer on the same core: after a few spins a waiter gives up
 * its time slice, so that two busy-polling threads on one core both get on.
 */
#ifndef URXE_LOCK_H
#define URXE_LOCK_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

struct urxe_spin {
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

/** urxe_spin_trylock - take the lock if it is free; true if taken. Never waits. */
static inline bool urxe_spin_trylock(struct urxe_spin *l)
{
	return !atomic_load_explicit(&l->held, memory_order_relaxed) &&
	       !atomic_exchange_explicit(&l->held, true, memory_order_acquire);
}

/** urxe_spin_lock - take the lock, spinning then yielding. Not recursive. */
static inline void urxe_spin_lock(struct urxe_spin *l)
{
	for (unsigned spins = 0; !urxe_spin_trylock(l); spins++) {
		if (spins < 64)
			urxe_cpu_relax();
		else
			sched_yield();
	}
}

/** urxe_spin_unlock - release; only by the thread that holds it. */
static inline void urxe_spin_unlock(struct urxe_spin *l)
{
	atomic_store_explicit(&l->held, false, memory_order_release);
}

#endif
