/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Threads that wait for sockets. A socket has two descriptors that become readable, its channel and
 * its completion channel; but several threads may wait for it, and the one that takes in what has
 * come may not be the one that it was for. So each has an eventfd as well, which whoever changes
 * the socket writes to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "cm/rsocket/stream.h"

#include "urxe/cancel.h"
#include "urxe/free.h"

#define SEC	  1000000000ull
#define MSEC	  1000000ull
#define ON_STACK  32	/* descriptors that are polled without malloc() */
#define POLL_MOST 60000 /* ms of one sleep */

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SEC + (uint64_t)ts.tv_nsec;
}

uint64_t urxe_rs_deadline(uint64_t ns)
{
	uint64_t at = now();

	return !ns || ns > URXE_RS_FOREVER - at ? (ns ? URXE_RS_FOREVER : 0) : at + ns;
}

bool urxe_rs_left(uint64_t deadline)
{
	return deadline == URXE_RS_FOREVER || now() < deadline;
}

uint64_t urxe_rs_patience(const struct urxe_rs *s, int flags, uint64_t ns)
{
	return s->flags & O_NONBLOCK || flags & MSG_DONTWAIT ? 0 : urxe_rs_deadline(ns);
}

void urxe_rs_changed(struct urxe_rs *s)
{
	struct urxe_rs_watch *w;

	s->changes++;
	cds_list_for_each_entry (w, &s->watches, entry)
		eventfd_write(w->wake, 1);
}

/* ---- one sleep ---- */

/* Whole milliseconds, and none too early. */
static int left_ms(uint64_t deadline)
{
	uint64_t at = now();

	if (deadline <= at)
		return 0;
	if (deadline - at > POLL_MOST * MSEC)
		return POLL_MOST;
	return (int)((deadline - at + MSEC - 1) / MSEC);
}

/* Before a sleep; true: there is something new already. Two of @fds are filled in. */
static bool begin_watch(struct urxe_rs_polled *p, int wake, struct pollfd fds[2])
{
	struct urxe_rs *s = p->s;
	bool changed;

	urxe_mutex_lock(&s->lock);
	p->watch.wake = wake;
	cds_list_add(&p->watch.entry, &s->watches);
	urxe_rs_arm(s);
	urxe_rs_look(s, true);
	changed = s->changes != p->seen || s->gone;
	fds[0] = (struct pollfd){.fd = s->fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = s->st && s->st->events ? s->st->events->fd : -1,
				 .events = POLLIN};
	urxe_mutex_unlock(&s->lock);
	return changed;
}

static void end_watch(struct urxe_rs_polled *p, const struct pollfd fds[2])
{
	struct urxe_rs *s = p->s;

	urxe_mutex_lock(&s->lock);
	cds_list_del(&p->watch.entry);
	if (fds[1].revents)
		urxe_rs_disarm(s);
	if (fds[0].revents && !s->gone)
		urxe_rs_cm_events(s);
	urxe_mutex_unlock(&s->lock);
}

/* @all: room for 2 * @n + @m + 1. 0 or errno. */
static int sleep_for(struct urxe_rs_polled *p, unsigned n, const struct pollfd *others, unsigned m,
		     struct pollfd *all, uint64_t deadline)
{
	int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), err = 0;
	bool changed = false;

	if (wake < 0)
		return errno;
	for (unsigned i = 0; i < n; i++)
		changed |= begin_watch(&p[i], wake, &all[2 * i]);
	for (unsigned i = 0; i < m; i++)
		all[2 * n + i] = others[i];
	all[2 * n + m] = (struct pollfd){.fd = wake, .events = POLLIN};
	if (poll(all, 2 * n + m + 1, changed ? 0 : left_ms(deadline)) < 0) {
		err = errno;
		for (unsigned i = 0; i < 2 * n; i++)
			all[i].revents = 0;
	}
	for (unsigned i = 0; i < n; i++)
		end_watch(&p[i], &all[2 * i]);
	close(wake);
	return err;
}

static int sleep_once(struct urxe_rs_polled *p, unsigned n, const struct pollfd *others, unsigned m,
		      uint64_t deadline)
{
	struct pollfd few[ON_STACK], *all = few;
	size_t want = 2 * (size_t)n + m + 1;
	int err, cancel;

	if (want > ON_STACK) {
		all = malloc(want * sizeof(*all));
		if (!all)
			return ENOMEM;
	}
	cancel = urxe_cancel_off(); /* sockets have our watches */
	err = sleep_for(p, n, others, m, all, deadline);
	urxe_cancel_back(cancel);
	if (all != few)
		free(all);
	return err;
}

/* ---- waiting ---- */

/* Until when to look without sleeping: a message that comes soon is worth it. */
static uint64_t spin_until(uint32_t polling_us, uint64_t deadline)
{
	uint64_t until = polling_us ? now() + polling_us * 1000ull : 0;

	return until < deadline ? until : deadline;
}

int urxe_rs_await(struct urxe_rs *s, uint64_t deadline)
{
	struct urxe_rs_polled p = {.s = s, .seen = s->changes};
	uint64_t spin = spin_until(s->set.polling_us, deadline);
	int err = 0;

	if (s->gone)
		return EBADF;
	if (!deadline)
		return EAGAIN;
	do {
		urxe_mutex_unlock(&s->lock);
		urxe_mutex_lock(&s->lock);
		urxe_rs_look(s, false);
		if (s->changes != p.seen)
			return s->gone ? EBADF : 0;
	} while (now() < spin);
	urxe_mutex_unlock(&s->lock);
	err = sleep_once(&p, 1, NULL, 0, deadline);
	urxe_mutex_lock(&s->lock);
	if (s->gone)
		return EBADF;
	urxe_rs_look(s, true);
	return err || s->changes != p.seen || now() < deadline ? err : EAGAIN;
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

int urxe_rs_wait(struct urxe_rs_polled *p, unsigned n, struct pollfd *others, unsigned m,
		 uint64_t deadline)
{
	uint64_t spin = n ? spin_until(urxe_rs_config()->polling_us, deadline) : 0;
	int found, ret, err;

	for (;;) {
		found = 0;
		for (unsigned i = 0; i < n; i++)
			found += look_at(&p[i]);
		ret = m ? poll(others, m, 0) : 0;
		if (ret < 0)
			return -1;
		found += ret;
		if (found || !deadline || !urxe_rs_left(deadline))
			return found;
		if (now() < spin)
			continue;
		err = sleep_once(p, n, others, m, deadline);
		if (err) {
			errno = err;
			return -1;
		}
	}
}
