/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Threads of our own, which leave signals to the application, but for those of their own faults. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "urxe/thread.h"

struct start {
	void *(*fn)(void *);
	void *arg;
	const char *name;
	sem_t begun;
};

/*
 * No thread-local variable: ASan takes what lies before one of a library's for its size, and the
 * leak checker then reads where nothing is.
 */
static pthread_key_t ours;
static bool have_key;

__attribute__((constructor)) static void make_key(void)
{
	have_key = !pthread_key_create(&ours, NULL);
}

bool urxe_thread_ours(void)
{
	return have_key && pthread_getspecific(ours);
}

/*
 * The first malloc() of a thread maps memory for those to come. Later somebody may be overwriting
 * mmap() and munmap() (urxe/free.h); now the starter waits.
 */
static void warm_up(void)
{
	void *volatile p = malloc(1);

	free(p);
}

/* It names itself: for another thread that takes /proc. */
static void *begin(void *arg)
{
	struct start *start = arg;
	void *(*fn)(void *) = start->fn;
	char name[URXE_THREAD_NAME_LEN];

	if (have_key)
		pthread_setspecific(ours, &ours);
	snprintf(name, sizeof(name), "%s", start->name);
	pthread_setname_np(pthread_self(), name);
	arg = start->arg;
	warm_up();
	sem_post(&start->begun);
	return fn(arg);
}

int urxe_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
	struct start s = {.fn = fn, .arg = arg, .name = name};
	sigset_t all, old;
	int err;

	sem_init(&s.begun, 0, 0);
	/* It inherits the mask from here on, so that no signal finds it without. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, NULL, begin, &s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	while (!err && sem_wait(&s.begun))
		;
	sem_destroy(&s.begun);
	return err;
}
