/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Threads of the library's own in somebody else's process. */
#ifndef URXE_THREAD_H
#define URXE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#define URXE_THREAD_NAME_LEN 16 /* with its end, as the kernel has it */

/**
 * urxe_thread_start - run @fn(@arg) on a thread that takes no signal but SIGSEGV and SIGBUS
 * @name: as ps -L and gdb show it, "urxe/..."; what is too long is cut
 *
 * Signals are the application's business: its handlers run on its own threads. The two that are not
 * blocked are faults of the thread's own (urxe/guarded.h). The thread may be joined, or detached.
 * When this returns it has begun, and has its part of malloc's memory. Returns 0, or errno as
 * pthread_create(). provider/threads.md lists all of them.
 */
int urxe_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

/** urxe_thread_ours - was the calling thread started by urxe_thread_start() of this library? */
bool urxe_thread_ours(void);

#endif
