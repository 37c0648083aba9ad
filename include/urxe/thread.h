/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Threads of the library's own in somebody else's process. */
#ifndef URXE_THREAD_H
#define URXE_THREAD_H

#include <pthread.h>

/**
 * urxe_thread_start - run @fn(@arg) on a thread that takes no signal
 *
 * Signals are the application's business: its handlers run on its own threads. The thread may be
 * joined, or detached. Returns 0, or errno as pthread_create().
 */
int urxe_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);

#endif
