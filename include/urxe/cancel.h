/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Threads of the application that are cancelled (pthread_cancel(3)). Most system calls are
 * cancellation points (pthreads(7)), and verbs are none to who calls them: a thread that ended in
 * the middle of one would leave locks of ours taken for ever.
 */
#ifndef URXE_CANCEL_H
#define URXE_CANCEL_H

#include <pthread.h>

/** urxe_cancel_off - nobody cancels this thread until urxe_cancel_back(), to which the result goes.
 * It takes some ns. errno stays, in both. */
static inline int urxe_cancel_off(void)
{
	int old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	return old;
}

static inline void urxe_cancel_back(int old)
{
	pthread_setcancelstate(old, &old);
}

#endif
