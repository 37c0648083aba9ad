/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Threads of our own, which leave signals to the application. */
#include <signal.h>

#include "urxe/thread.h"

int urxe_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	int err;

	/* It inherits the mask from here on, so that no signal finds it without. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}
