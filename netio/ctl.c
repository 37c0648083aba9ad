/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The control thread: jobs that somebody waits for, and watches. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "netio/clock.h"
#include "netio/ctl.h"
#include "urxe/lock.h"
#include "urxe/thread.h"

bool urxe_ctl_dead;

struct job {
	int (*fn)(void *arg);
	void *arg;
	int ret;
	bool done;
	struct job *next;
};

/* One a library, and so is what is kept of it. */
static struct {
	struct urxe_mutex lock;
	pthread_cond_t work; /* on CLOCK_MONOTONIC */
	pthread_cond_t done;
	struct job *head, **tail;
	bool ready; /* the conditions are, and fork is looked after */
	bool running;
	struct urxe_ctl_watch *watches; /* control thread's */
} ctl = {
	.lock = URXE_MUTEX_INIT,
	.tail = &ctl.head,
};

static uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t poll_watches(void)
{
	uint64_t now = mono_ns(), next = UINT64_MAX;
	struct urxe_ctl_watch *w, *n;

	for (w = ctl.watches; w; w = n) {
		n = w->next;
		if (w->due_ns <= now) {
			w->poll(w->arg);
			w->due_ns = mono_ns() + w->interval_ns;
		}
		if (w->due_ns < next)
			next = w->due_ns;
	}
	return next;
}

static void *run(void *unused)
{
	struct job *job;
	uint64_t next;

	for (;;) {
		next = poll_watches();
		urxe_mutex_lock(&ctl.lock);
		if (!ctl.head) {
			if (next == UINT64_MAX) {
				urxe_mutex_wait(&ctl.lock, &ctl.work);
			} else {
				struct timespec ts = urxe_clock_span(next);

				urxe_mutex_timedwait(&ctl.lock, &ctl.work, &ts);
			}
		}
		job = ctl.head;
		if (job) {
			ctl.head = job->next;
			if (!ctl.head)
				ctl.tail = &ctl.head;
		}
		urxe_mutex_unlock(&ctl.lock);
		if (!job)
			continue;
		job->ret = job->fn(job->arg);
		urxe_mutex_lock(&ctl.lock);
		job->done = true;
		pthread_cond_broadcast(&ctl.done);
		urxe_mutex_unlock(&ctl.lock);
	}
	return unused;
}

static void forked(void)
{
	if (ctl.running)
		urxe_ctl_dead = true;
}

/* Threads that run our code outlive whoever loaded us: never let us be unloaded. */
static void pin_library(void)
{
	Dl_info info;

	if (dladdr((void *)(uintptr_t)pin_library, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static int start(void)
{
	pthread_condattr_t attr;
	pthread_t thread;
	int ret;

	if (ctl.running)
		return 0;
	if (!ctl.ready) {
		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&ctl.work, &attr);
		pthread_condattr_destroy(&attr);
		pthread_cond_init(&ctl.done, NULL);
		ret = pthread_atfork(NULL, NULL, forked);
		if (ret)
			return ret;
		pin_library();
		ctl.ready = true;
	}
	ret = urxe_thread_start(&thread, "urxe/ctl", run, NULL);
	if (ret)
		return ret;
	pthread_detach(thread);
	ctl.running = true;
	return 0;
}

int urxe_ctl_call(int (*fn)(void *arg), void *arg)
{
	struct job job = {.fn = fn, .arg = arg};
	int ret;

	if (urxe_ctl_dead)
		return ENODEV;
	urxe_mutex_lock(&ctl.lock);
	ret = start();
	if (ret) {
		urxe_mutex_unlock(&ctl.lock);
		return ret;
	}
	*ctl.tail = &job;
	ctl.tail = &job.next;
	pthread_cond_signal(&ctl.work);
	while (!job.done)
		urxe_mutex_wait(&ctl.lock, &ctl.done);
	urxe_mutex_unlock(&ctl.lock);
	return job.ret;
}

void urxe_ctl_watch_add(struct urxe_ctl_watch *w)
{
	w->due_ns = mono_ns() + w->interval_ns;
	w->next = ctl.watches;
	ctl.watches = w;
}

void urxe_ctl_watch_del(struct urxe_ctl_watch *w)
{
	for (struct urxe_ctl_watch **p = &ctl.watches; *p; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			return;
		}
	}
}
