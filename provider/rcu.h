/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * liburcu (bp flavour: its readers need no registration, so that they may be
 * threads of the application) behind names that ThreadSanitizer can follow.
 */
#ifndef URXE_PROVIDER_RCU_H
#define URXE_PROVIDER_RCU_H

#include <urcu/static/urcu-bp.h>
#include <urcu/urcu-bp.h>

#include "urxe/slab.h"

#if defined(__SANITIZE_THREAD__)
#define URXE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define URXE_TSAN 1
#endif
#endif

/*
 * Inline, as liburcu means these two to be for any program: of its functions, each is a call and a
 * look-up of thread-local storage by itself. But a reader of liburcu's lies 32 bytes off the 128
 * that its type asks for, which UBSan, always in ASan's company here, would lay at our door.
 */
#if defined(__SANITIZE_ADDRESS__)
#define URXE_RCU_CALLS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define URXE_RCU_CALLS 1
#endif
#endif
#if defined(URXE_TSAN) || defined(URXE_RCU_CALLS)
#define URXE_RCU_ENTER() urcu_bp_read_lock()
#define URXE_RCU_LEAVE() urcu_bp_read_unlock()
#else
#define URXE_RCU_ENTER() _urcu_bp_read_lock()
#define URXE_RCU_LEAVE() _urcu_bp_read_unlock()
#endif

#ifdef URXE_TSAN
/* liburcu is not instrumented: tell what a grace period orders. */
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
extern char urxe_rcu_tsan_order;
#define URXE_RCU_RELEASE() __tsan_release(&urxe_rcu_tsan_order)
#define URXE_RCU_ACQUIRE() __tsan_acquire(&urxe_rcu_tsan_order)
#else
#define URXE_RCU_RELEASE() ((void)0)
#define URXE_RCU_ACQUIRE() ((void)0)
#endif

/**
 * urxe_rcu_read_lock - begin a look-up; what it finds stays until the unlock
 *
 * Pairs with urxe_rcu_synchronize() and urxe_rcu_free(), which outlast it: who unpublished an
 * object before these frees it after.
 */
static inline void urxe_rcu_read_lock(void)
{
	URXE_RCU_ENTER();
}

/** urxe_rcu_read_unlock - end it. */
static inline void urxe_rcu_read_unlock(void)
{
	URXE_RCU_RELEASE();
	URXE_RCU_LEAVE();
}

/** urxe_rcu_synchronize - wait for all look-ups under way. Hold no lock that a reader takes. */
static inline void urxe_rcu_synchronize(void)
{
	urcu_bp_synchronize_rcu();
	URXE_RCU_ACQUIRE();
}

/** In a block that is to be freed later. */
struct urxe_rcu_head {
	struct urxe_rcu_head *next;
	void *block;
	struct urxe_slab *slab; /* that it is of; NULL: malloc()'s */
};

/**
 * urxe_rcu_start - start the thread that waits for grace periods ("urxe/rcu"), once a process
 *
 * Before anything is given to urxe_rcu_free(). 0, or errno as pthread_create().
 */
int urxe_rcu_start(void);

/**
 * urxe_rcu_free - free @block, which has @head in it, when all look-ups under way now have ended
 *
 * As urxe_free() then does. Any thread, with any lock.
 */
void urxe_rcu_free(struct urxe_rcu_head *head, void *block);

/**
 * urxe_rcu_new - zeroed memory of a slab whose structs end with urxe_rcu_end(), or at once with
 * urxe_rcu_drop() when nobody has seen them
 *
 * NULL: there is none. The lock of all such slabs is that of what waits for its grace period.
 */
void *urxe_rcu_new(struct urxe_slab *slab);
void urxe_rcu_drop(struct urxe_slab *slab, void *block);

/** urxe_rcu_end - urxe_rcu_free() of a block of urxe_rcu_new() */
void urxe_rcu_end(struct urxe_rcu_head *head, struct urxe_slab *slab, void *block);

/** urxe_rcu_drain - for tests: free all that was given, but what the thread has in hand. No lock
 * that a reader takes may be held. */
void urxe_rcu_drain(void);

/** urxe_rcu_fork_prepare - before fork(): no grace period is half way. Pair it with one of the next
 * two. */
void urxe_rcu_fork_prepare(void);

/** urxe_rcu_fork_parent - after fork(), in the parent */
void urxe_rcu_fork_parent(void);

/**
 * urxe_rcu_fork_child - after fork(), in the child: the readers of the parent are forgotten. What
 * urxe_rcu_free() has been given waits for the next urxe_rcu_start().
 */
void urxe_rcu_fork_child(void);

#endif
