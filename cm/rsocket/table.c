/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* From a descriptor to its socket. */
#include <errno.h>
#include <pthread.h>

#include "cm/rsocket/rsocket.h"

#include "urxe/cancel.h"

#define BUCKETS 256

static struct urxe_mutex lock = URXE_MUTEX_INIT;
static struct cds_list_head buckets[BUCKETS] URXE_GUARDED_BY(lock);
static bool made URXE_GUARDED_BY(lock);

static struct cds_list_head *bucket(int fd) URXE_REQUIRES(lock)
{
	for (unsigned i = 0; !made && i < BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&buckets[i]);
	made = true;
	return &buckets[(unsigned)fd % BUCKETS];
}

static struct urxe_rs *find(int fd) URXE_REQUIRES(lock)
{
	struct urxe_rs *s;

	cds_list_for_each_entry (s, bucket(fd), entry) {
		if (s->fd == fd)
			return s;
	}
	errno = EBADF;
	return NULL;
}

/* ---- fork ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fork_prepare(void) URXE_ACQUIRE(lock)
{
	urxe_rs_repoll_hold();
	urxe_mutex_lock(&lock);
}

static void fork_parent(void) URXE_RELEASE(lock)
{
	urxe_mutex_unlock(&lock);
	urxe_rs_repoll_release(false);
}

/*
 * Threads that are in a call are not here. A socket that one of them was at work on may be halfway
 * between two states: it is in the table no more, and stays as it is.
 */
static void forget_threads(struct urxe_rs *s) URXE_REQUIRES(lock)
{
	if (urxe_mutex_trylock(&s->lock)) {
		CDS_INIT_LIST_HEAD(&s->watches);
		urxe_mutex_unlock(&s->lock);
	} else {
		cds_list_del(&s->entry);
	}
}

static void fork_child(void) URXE_RELEASE(lock)
{
	struct urxe_rs *s, *next;

	for (int i = 0; i < BUCKETS; i++)
		cds_list_for_each_entry_safe (s, next, bucket(i), entry)
			forget_threads(s);
	urxe_mutex_unlock(&lock); /* taken by this very thread before the fork */
	urxe_rs_repoll_release(true);
}

static void at_fork(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- the table ---- */

void urxe_rs_watch_forks(void)
{
	pthread_once(&once, at_fork);
}

void urxe_rs_add(struct urxe_rs *s)
{
	urxe_rs_watch_forks();
	urxe_mutex_lock(&lock);
	cds_list_add(&s->entry, bucket(s->fd));
	urxe_mutex_unlock(&lock);
}

struct urxe_rs *urxe_rs_get(int fd)
{
	struct urxe_rs *s;

	urxe_mutex_lock(&lock);
	s = find(fd);
	if (s)
		atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	urxe_mutex_unlock(&lock);
	return s;
}

struct urxe_rs *urxe_rs_take(int fd)
{
	struct urxe_rs *s;

	urxe_mutex_lock(&lock);
	s = find(fd);
	if (s)
		cds_list_del(&s->entry);
	urxe_mutex_unlock(&lock);
	return s;
}

bool urxe_rs_begin(struct urxe_rs_call *c, int fd)
{
	c->cancel = urxe_cancel_off();
	c->deadline = 0;
	c->whole = false;
	c->s = urxe_rs_get(fd);
	if (c->s)
		urxe_mutex_lock(&c->s->lock);
	else
		urxe_cancel_back(c->cancel);
	return c->s;
}

void urxe_rs_end(struct urxe_rs_call *c)
{
	urxe_mutex_unlock(&c->s->lock);
	urxe_rs_put(c->s);
	urxe_cancel_back(c->cancel);
}

void urxe_rs_put(struct urxe_rs *s)
{
	int err = errno;

	/* Whoever frees it sees what the others did. */
	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
		urxe_rs_free(s);
	errno = err;
}
