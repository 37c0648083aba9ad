/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Threads of our own, which leave signals to the application, but for those of their own faults. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "urxe/thread.h"

struct start {
	void *(*fn)(void *);
	void *arg;
	char name[URXE_THREAD_NAME_LEN];
};

/* It names itself: for another thread that takes /proc. */
static void *begin(void *arg)
{
	struct start s = *(struct start *)arg;

	free(arg);
	pthread_setname_np(pthread_self(), s.name);
	return s.fn(s.arg);
}

int urxe_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
	struct start *s = malloc(sizeof(*s));
	sigset_t all, old;
	int err;

	if (!s)
		return ENOMEM;
	s->fn = fn;
	s->arg = arg;
	snprintf(s->name, sizeof(s->name), "%s", name);
	/* It inherits the mask from here on, so that no signal finds it without. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, NULL, begin, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		free(s);
	return err;
}
