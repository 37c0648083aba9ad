/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rpoll() and rselect(), of sockets and the kernel's descriptors together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>

#include "cm/rsocket/rsocket.h"

#include "urxe/cancel.h"
#include "urxe/free.h"

#define FDS_MOST (1u << 20)

/* What a call waits for, apart; each in the order of the call's. */
struct set {
	struct urxe_rs_polled *p;
	struct pollfd *others;
	unsigned n, m;
};

static int set_init(struct set *t, nfds_t n)
{
	memset(t, 0, sizeof(*t));
	t->p = calloc(n + 1, sizeof(*t->p));
	t->others = calloc(n + 1, sizeof(*t->others));
	return t->p && t->others ? 0 : ENOMEM;
}

static void set_fini(void *arg)
{
	struct set *t = arg;

	for (unsigned i = 0; i < t->n; i++)
		urxe_rs_put(t->p[i].s);
	free(t->p);
	free(t->others);
}

static void set_fill(struct set *t, const struct pollfd *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct urxe_rs *s = fds[i].fd < 0 ? NULL : urxe_rs_get(fds[i].fd);

		if (s)
			t->p[t->n++] =
				(struct urxe_rs_polled){.s = s, .events = fds[i].events, .at = i};
		else if (fds[i].fd >= 0)
			t->others[t->m++] = fds[i];
	}
}

/* All have been looked at. */
static void set_tell(const struct set *t, struct pollfd *fds, unsigned n)
{
	const struct urxe_rs_polled *p = t->p, *end = t->p + t->n;
	const struct pollfd *other = t->others;

	for (unsigned i = 0; i < n; i++) {
		if (p < end && p->at == i)
			fds[i].revents = p++->revents;
		else
			fds[i].revents = fds[i].fd < 0 ? 0 : other++->revents;
	}
}

static int set_poll(struct set *t, struct pollfd *fds, unsigned n, uint64_t deadline, int cancel)
{
	struct urxe_rs_wait w = {
		.deadline = deadline,
		.cancel = cancel,
		.drop = set_fini,
		.arg = t,
	};
	int ret;

	set_fill(t, fds, n);
	w.sockets = t->p;
	w.n = t->n;
	w.others = t->others;
	w.m = t->m;
	ret = urxe_rs_wait(&w);
	if (ret >= 0)
		set_tell(t, fds, n);
	return ret;
}

static int poll_until(struct pollfd *fds, nfds_t n, uint64_t deadline)
{
	int ret, err, cancel = urxe_cancel_off();
	struct set t;

	ret = set_init(&t, n) ? urxe_rs_ret(ENOMEM)
			      : set_poll(&t, fds, (unsigned)n, deadline, cancel);
	err = errno;
	set_fini(&t);
	errno = err;
	urxe_cancel_back(cancel);
	return ret;
}

static bool any_socket(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		struct urxe_rs *s = fds[i].fd < 0 ? NULL : urxe_rs_get(fds[i].fd);

		if (s) {
			urxe_rs_put(s);
			return true;
		}
	}
	return false;
}

URXE_RS_API int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	/* Of the kernel's alone it is the kernel's call, which knows how many there may be. */
	if (n > FDS_MOST || !any_socket(fds, n))
		return poll(fds, n, timeout);
	return poll_until(fds, n, urxe_rs_deadline_ms(timeout));
}

/* ---- rselect ---- */

static const struct kind {
	short ask, is; /* what counts as ready is more than what is asked for, as select(2) says */
} kinds[3] = {
	{POLLIN, POLLIN | POLLRDNORM | POLLHUP | POLLERR},
	{POLLOUT, POLLOUT | POLLWRNORM | POLLERR},
	{POLLPRI, POLLPRI},
};

static unsigned from_sets(struct pollfd *fds, int nfds, fd_set *const sets[3])
{
	unsigned n = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = 0;

		for (unsigned k = 0; k < 3; k++)
			if (sets[k] && FD_ISSET(fd, sets[k]))
				events |= kinds[k].ask;
		if (events)
			fds[n++] = (struct pollfd){.fd = fd, .events = events};
	}
	return n;
}

/* How many bits are set. */
static int to_sets(const struct pollfd *fds, unsigned n, fd_set *const sets[3])
{
	int bits = 0;

	for (unsigned k = 0; k < 3; k++) {
		if (sets[k])
			FD_ZERO(sets[k]);
		for (unsigned i = 0; sets[k] && i < n; i++) {
			if (fds[i].events & kinds[k].ask && fds[i].revents & kinds[k].is) {
				FD_SET(fds[i].fd, sets[k]);
				bits++;
			}
		}
	}
	return bits;
}

static bool any_invalid(const struct pollfd *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (fds[i].revents & POLLNVAL)
			return true;
	return false;
}

URXE_RS_API int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
			struct timeval *timeout)
{
	fd_set *const sets[3] = {readfds, writefds, exceptfds};
	uint64_t ns = URXE_RS_FOREVER;
	struct pollfd fds[FD_SETSIZE];
	unsigned n;
	int ret;

	if (nfds < 0 || nfds > FD_SETSIZE ||
	    (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return urxe_rs_ret(EINVAL);
	if (timeout)
		ns = (uint64_t)timeout->tv_sec * 1000 * URXE_MSEC +
		     (uint64_t)timeout->tv_usec * 1000;
	n = from_sets(fds, nfds, sets);
	ret = poll_until(fds, n, urxe_rs_deadline(ns));
	if (ret > 0 && any_invalid(fds, n))
		ret = urxe_rs_ret(EBADF);
	if (ret >= 0)
		ret = to_sets(fds, n, sets);
	return ret;
}
