/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The thread that frees after a grace period, and what fork() does to it.
 *
 * It is ours, and not liburcu's default one. The child of a fork() has no such thread, and liburcu
 * 0.15 waits at exit() for its default one to end: a child that only exits would never. liburcu's
 * own remedy (call_rcu_after_fork_child()) starts a thread in each child; here the next
 * urxe_rcu_call() does.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "rcu.h"
#include "urxe/lock.h"

#ifdef URXE_TSAN
char urxe_rcu_tsan_order;
#endif

static struct {
	struct urxe_mutex lock; /* starts the thread; innermost; held across fork() */
	_Atomic(struct call_rcu_data *) thread; /* NULL: not started in this process */
} freeing = {.lock = URXE_MUTEX_INIT};

/* As urxe_thread_start() does it: liburcu 0.13 would leave the application's signals to the thread.
 */
static struct call_rcu_data *start_thread(void)
{
	struct call_rcu_data *thread;
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	thread = urcu_bp_create_call_rcu_data(0, -1);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_setname_np(urcu_bp_get_call_rcu_thread(thread), "urxe/rcu");
	return thread;
}

static struct call_rcu_data *freeing_thread(void)
{
	struct call_rcu_data *thread = atomic_load(&freeing.thread);

	if (thread)
		return thread;
	urxe_mutex_lock(&freeing.lock);
	thread = atomic_load(&freeing.thread);
	if (!thread) {
		thread = start_thread();
		atomic_store(&freeing.thread, thread);
	}
	urxe_mutex_unlock(&freeing.lock);
	return thread;
}

void urxe_rcu_call(struct rcu_head *head, void (*fn)(struct rcu_head *head))
{
	struct call_rcu_data *applications = urcu_bp_get_thread_call_rcu_data();

	URXE_RCU_RELEASE();
	urcu_bp_set_thread_call_rcu_data(freeing_thread());
	urcu_bp_call_rcu(head, fn);
	urcu_bp_set_thread_call_rcu_data(applications);
}

void urxe_rcu_fork_prepare(void) URXE_ACQUIRE(freeing.lock)
{
	urxe_mutex_lock(&freeing.lock);
	urcu_bp_before_fork();
}

void urxe_rcu_fork_parent(void) URXE_RELEASE(freeing.lock)
{
	urcu_bp_after_fork_parent();
	urxe_mutex_unlock(&freeing.lock);
}

void urxe_rcu_fork_child(void) URXE_RELEASE(freeing.lock)
{
	urcu_bp_after_fork_child();
	atomic_store(&freeing.thread, NULL);
	urxe_mutex_unlock(&freeing.lock);
}
