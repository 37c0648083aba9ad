/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Threads that wait for sockets. A socket has two descriptors that become readable, its channel and
 * its completion channel; but several threads may wait for it, and the one that takes in what has
 * come may not be the one that it was for. So each has an eventfd as well, which whoever changes
 * the socket writes to.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#include "urxe/free.h"

#define POLL_MOST 60000 /* ms of one sleep */

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * URXE_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t urxe_rs_deadline(uint64_t ns)
{
	uint64_t at;

	if (!ns || ns == URXE_RS_FOREVER)
		return ns;
	at = now();
	return ns > URXE_RS_FOREVER - at ? URXE_RS_FOREVER : at + ns;
}

uint64_t urxe_rs_deadline_ms(int timeout)
{
	return urxe_rs_deadline(timeout < 0 ? URXE_RS_FOREVER : (uint64_t)timeout * URXE_MSEC);
}

bool urxe_rs_left(uint64_t deadline)
{
	return deadline == URXE_RS_FOREVER || now() < deadline;
}

void urxe_rs_patience(const struct urxe_rs *s, struct urxe_rs_call *c, int flags, uint64_t ns)
{
	c->deadline = s->flags & O_NONBLOCK || flags & MSG_DONTWAIT ? 0 : urxe_rs_deadline(ns);
}

void urxe_rs_wake(const struct cds_list_head *watches)
{
	struct urxe_rs_watch *w;

	cds_list_for_each_entry (w, watches, entry)
		eventfd_write(w->wake, 1);
}

void urxe_rs_changed(struct urxe_rs *s)
{
	s->changes++;
	urxe_rs_wake(&s->watches);
}

/* ---- one sleep ---- */

/* Whole milliseconds, and none too early. */
static int left_ms(uint64_t deadline)
{
	uint64_t at = now();

	if (deadline <= at)
		return 0;
	if (deadline - at > POLL_MOST * URXE_MSEC)
		return POLL_MOST;
	return (int)((deadline - at + URXE_MSEC - 1) / URXE_MSEC);
}

/* Before a sleep; true: there is something new already. Two of @fds are filled in. */
static bool begin_watch(struct urxe_rs_polled *p, int wake, struct pollfd fds[2])
{
	struct urxe_rs *s = p->s;
	bool changed;

	urxe_mutex_lock(&s->lock);
	p->watch.wake = wake;
	cds_list_add(&p->watch.entry, &s->watches);
	if (s->dg)
		urxe_rs_ud_arm(s);
	else
		urxe_rs_stream_arm(s);
	urxe_rs_look(s, true);
	changed = s->changes != p->seen || s->gone;
	if (s->dg)
		urxe_rs_dgram_watch(s, fds);
	else
		urxe_rs_stream_watch(s, fds);
	urxe_mutex_unlock(&s->lock);
	return changed;
}

static void end_watch(struct urxe_rs_polled *p, const struct pollfd fds[2])
{
	struct urxe_rs *s = p->s;

	urxe_mutex_lock(&s->lock);
	cds_list_del(&p->watch.entry);
	if (s->dg)
		urxe_rs_dgram_woken(s, fds);
	else
		urxe_rs_stream_woken(s, fds);
	urxe_mutex_unlock(&s->lock);
}

static void end_sleep(struct urxe_rs_wait *w)
{
	for (unsigned i = 0; i < w->n; i++)
		end_watch(&w->sockets[i], &w->all[2 * i]);
	w->stale = w->around && w->around(w->arg, -1);
	close(w->wake);
}

static void cancelled(void *arg)
{
	struct urxe_rs_wait *w = arg;

	end_sleep(w);
	free(w->all);
	w->drop(w->arg);
}

static int poll_all(struct urxe_rs_wait *w, int timeout)
{
	int ret, cancel;

	pthread_cleanup_push(cancelled, w);
	pthread_setcancelstate(w->cancel, &cancel);
	ret = poll(w->all, 2 * w->n + w->m + 1, timeout);
	pthread_setcancelstate(cancel, NULL);
	pthread_cleanup_pop(0);
	return ret;
}

/* w->all: room for two of each socket, the others, and one. 0 or errno. */
static int sleep_for(struct urxe_rs_wait *w)
{
	bool changed = false;
	int err = 0;

	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake < 0)
		return errno;
	for (unsigned i = 0; i < w->n; i++)
		changed |= begin_watch(&w->sockets[i], w->wake, &w->all[2 * i]);
	changed |= w->around && w->around(w->arg, w->wake);
	for (unsigned i = 0; i < w->m; i++)
		w->all[2 * w->n + i] = w->others[i];
	w->all[2 * w->n + w->m] = (struct pollfd){.fd = w->wake, .events = POLLIN};
	if (poll_all(w, changed ? 0 : left_ms(w->deadline)) < 0) {
		err = errno;
		for (unsigned i = 0; i < 2 * w->n; i++)
			w->all[i].revents = 0;
	}
	end_sleep(w);
	return err;
}

static int sleep_once(struct urxe_rs_wait *w)
{
	int err;

	w->all = malloc((2 * (size_t)w->n + w->m + 1) * sizeof(*w->all));
	if (!w->all)
		return ENOMEM;
	err = sleep_for(w);
	free(w->all);
	return err;
}

/* ---- waiting ---- */

/* Until when to look without sleeping: a message that comes soon is worth it. */
static uint64_t spin_until(uint32_t polling_us, uint64_t deadline)
{
	uint64_t until = polling_us ? now() + polling_us * 1000ull : 0;

	return until < deadline ? until : deadline;
}

static void drop_call(void *arg)
{
	urxe_rs_put(arg);
}

int urxe_rs_await(struct urxe_rs *s, const struct urxe_rs_call *c)
{
	struct urxe_rs_polled p = {.s = s, .seen = s->changes};
	struct urxe_rs_wait w = {
		.sockets = &p,
		.n = 1,
		.deadline = c->deadline,
		.cancel = c->cancel,
		.drop = drop_call,
		.arg = s,
	};
	uint64_t spin = spin_until(s->set.polling_us, c->deadline);
	int err;

	if (s->gone)
		return EBADF;
	if (!urxe_rs_left(c->deadline))
		return EAGAIN;
	do {
		urxe_mutex_unlock(&s->lock);
		urxe_mutex_lock(&s->lock);
		urxe_rs_look(s, false);
		if (s->changes != p.seen)
			return s->gone ? EBADF : 0;
	} while (now() < spin);
	urxe_mutex_unlock(&s->lock);
	err = sleep_once(&w);
	urxe_mutex_lock(&s->lock);
	if (s->gone)
		return EBADF;
	urxe_rs_look(s, true);
	if (err == EINTR && c->whole)
		err = 0;
	return err || s->changes != p.seen || urxe_rs_left(c->deadline) ? err : EAGAIN;
}

static int look_at(struct urxe_rs_polled *p)
{
	struct urxe_rs *s = p->s;

	urxe_mutex_lock(&s->lock);
	urxe_rs_look(s, false);
	p->seen = s->changes;
	p->revents = urxe_rs_ready(s) & (p->events | POLLERR | POLLHUP | POLLNVAL);
	if (p->edge == p->seen + 1)
		p->revents = 0;
	urxe_mutex_unlock(&s->lock);
	return p->revents != 0;
}

int urxe_rs_wait(struct urxe_rs_wait *w)
{
	uint64_t spin = w->n ? spin_until(urxe_rs_config()->polling_us, w->deadline) : 0;
	int found, ret, err;

	for (;;) {
		found = 0;
		for (unsigned i = 0; i < w->n; i++)
			found += look_at(&w->sockets[i]);
		ret = w->m ? poll(w->others, w->m, 0) : 0;
		if (ret < 0)
			return -1;
		found += ret;
		if (found || !w->deadline || !urxe_rs_left(w->deadline))
			return found;
		if (now() < spin)
			continue;
		err = sleep_once(w);
		if (err) {
			errno = err;
			return -1;
		}
		if (w->stale)
			return 0;
	}
}
