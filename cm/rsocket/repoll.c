/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * repoll_create(), repoll_ctl(), repoll_wait(): epoll(7) of sockets and the kernel's descriptors
 * together. The latter are in an epoll of the kernel's, whose descriptor is the whole one's;
 * sockets are in a list beside it.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cm/rsocket/rsocket.h"

#include "urxe/cancel.h"
#include "urxe/free.h"

#define SHARED 0xffffu /* events that have poll(2)'s numbers */

/* rsocket.h has them since rdma-core 64. */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

/* A socket of one. */
struct member {
	struct cds_list_head entry;
	int fd;
	struct epoll_event want;
	uint64_t told; /* urxe_rs_polled.edge, of EPOLLET */
	bool off;      /* EPOLLONESHOT, and it was told */
};

struct instance {
	struct cds_list_head entry, members;
	struct cds_list_head watches; /* struct urxe_rs_watch of threads that sleep for it */
	uint64_t edition;	      /* of members: another one for each change */
	int fd;
	unsigned n;
	bool others_first; /* in the next report, by turns */
};

static struct urxe_mutex lock = URXE_MUTEX_INIT;
static CDS_LIST_HEAD(instances);
static uint64_t editions URXE_GUARDED_BY(lock); /* of all, so that a new instance has its own */

static struct instance *find(int fd) URXE_REQUIRES(lock)
{
	struct instance *e;

	cds_list_for_each_entry (e, &instances, entry) {
		if (e->fd == fd)
			return e;
	}
	return NULL;
}

static struct member *find_member(const struct instance *e, int fd) URXE_REQUIRES(lock)
{
	struct member *m;

	cds_list_for_each_entry (m, &e->members, entry) {
		if (m->fd == fd)
			return m;
	}
	return NULL;
}

/* Wake those that sleep for what it was. */
static void changed(struct instance *e) URXE_REQUIRES(lock)
{
	e->edition = ++editions;
	urxe_rs_wake(&e->watches);
}

static void drop(struct instance *e, struct member *m) URXE_REQUIRES(lock)
{
	cds_list_del(&m->entry);
	e->n--;
	free(m);
}

URXE_RS_API int repoll_create(int flags)
{
	struct instance *e;
	int fd = epoll_create1(flags);

	if (fd < 0)
		return -1;
	e = calloc(1, sizeof(*e));
	if (!e) {
		close(fd);
		return urxe_rs_ret(ENOMEM);
	}
	e->fd = fd;
	CDS_INIT_LIST_HEAD(&e->members);
	CDS_INIT_LIST_HEAD(&e->watches);
	urxe_rs_watch_forks();
	urxe_mutex_lock(&lock);
	e->edition = ++editions;
	cds_list_add(&e->entry, &instances);
	urxe_mutex_unlock(&lock);
	return fd;
}

int urxe_rs_repoll_close(int fd)
{
	struct member *m, *next;
	struct instance *e;

	urxe_mutex_lock(&lock);
	e = find(fd);
	if (e) {
		cds_list_del(&e->entry);
		changed(e);
		cds_list_del(&e->watches); /* they find each other still, and it no more */
		cds_list_for_each_entry_safe (m, next, &e->members, entry)
			drop(e, m);
	}
	urxe_mutex_unlock(&lock);
	if (!e)
		return EBADF;
	close(fd);
	free(e);
	return 0;
}

void urxe_rs_repoll_forget(int fd)
{
	struct instance *e;

	urxe_mutex_lock(&lock);
	cds_list_for_each_entry (e, &instances, entry) {
		struct member *m = find_member(e, fd);

		if (m)
			drop(e, m);
	}
	urxe_mutex_unlock(&lock);
}

static int control(struct instance *e, int op, int fd, const struct epoll_event *event)
	URXE_REQUIRES(lock)
{
	struct member *m = find_member(e, fd);

	switch (op) {
	case EPOLL_CTL_ADD:
		if (m)
			return EEXIST;
		m = calloc(1, sizeof(*m));
		if (!m)
			return ENOMEM;
		m->fd = fd;
		cds_list_add_tail(&m->entry, &e->members);
		e->n++;
		break;
	case EPOLL_CTL_DEL:
		if (!m)
			return ENOENT;
		drop(e, m);
		return 0;
	case EPOLL_CTL_MOD:
		if (!m)
			return ENOENT;
		break;
	default:
		return EINVAL;
	}
	m->want = *event;
	m->told = 0;
	m->off = false;
	return 0;
}

URXE_RS_API int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct urxe_rs *s = urxe_rs_get(fd);
	struct instance *e;
	int err = EBADF;

	if (!s)
		return epoll_ctl(epfd, op, fd, event);
	urxe_rs_put(s);
	if (!event && op != EPOLL_CTL_DEL)
		return urxe_rs_ret(EFAULT);
	urxe_mutex_lock(&lock);
	e = find(epfd);
	if (e)
		err = control(e, op, fd, event);
	if (!err)
		changed(e);
	urxe_mutex_unlock(&lock);
	return urxe_rs_ret(err);
}

/* ---- fork ---- */

void urxe_rs_repoll_hold(void) URXE_UNCHECKED
{
	urxe_mutex_lock(&lock);
}

void urxe_rs_repoll_release(bool child) URXE_UNCHECKED
{
	struct instance *e;

	cds_list_for_each_entry (e, &instances, entry)
		if (child)
			CDS_INIT_LIST_HEAD(&e->watches);
	urxe_mutex_unlock(&lock);
}

/* ---- waiting ---- */

/* The sockets of one that are waited for. */
struct set {
	struct urxe_rs_polled *p;
	unsigned n;
	int epfd;
	uint64_t edition; /* that they are of */
	struct urxe_rs_watch watch;
};

static void collect_members(const struct instance *e, struct set *t) URXE_REQUIRES(lock)
{
	const struct member *m;

	cds_list_for_each_entry (m, &e->members, entry) {
		struct urxe_rs *s = m->off ? NULL : urxe_rs_get(m->fd);

		if (s)
			t->p[t->n++] = (struct urxe_rs_polled){
				.s = s,
				.events = (short)(m->want.events & SHARED),
				.edge = m->told,
			};
	}
}

static int collect(struct set *t)
{
	struct instance *e;
	int err = EBADF;

	urxe_mutex_lock(&lock);
	e = find(t->epfd);
	if (e) {
		t->edition = e->edition;
		t->p = calloc((size_t)e->n + 1, sizeof(*t->p));
		err = t->p ? 0 : ENOMEM;
	}
	if (!err)
		collect_members(e, t);
	urxe_mutex_unlock(&lock);
	return err;
}

/* Of urxe_rs_wait. */
static bool around(void *arg, int wake)
{
	struct set *t = arg;
	struct instance *e;
	bool stale;

	urxe_mutex_lock(&lock);
	e = find(t->epfd);
	stale = !e || e->edition != t->edition;
	if (wake < 0) {
		cds_list_del(&t->watch.entry);
	} else {
		t->watch.wake = wake;
		CDS_INIT_LIST_HEAD(&t->watch.entry);
		if (!stale)
			cds_list_add(&t->watch.entry, &e->watches);
	}
	urxe_mutex_unlock(&lock);
	return stale;
}

static void set_drop(void *arg)
{
	struct set *t = arg;

	for (unsigned i = 0; i < t->n; i++)
		urxe_rs_put(t->p[i].s);
	free(t->p);
}

/* True: the application is told. Where there is room for few, the others come before it then. */
static bool tell(int epfd, const struct urxe_rs_polled *p, struct epoll_event *event)
{
	struct instance *e;
	struct member *m;
	bool told = false;

	urxe_mutex_lock(&lock);
	e = find(epfd);
	m = e ? find_member(e, p->s->fd) : NULL;
	if (m && !m->off) {
		told = true;
		m->told = m->want.events & EPOLLET ? p->seen + 1 : 0;
		m->off = m->want.events & EPOLLONESHOT;
		cds_list_del(&m->entry);
		cds_list_add_tail(&m->entry, &e->members);
		event->events = (uint32_t)(unsigned short)p->revents;
		event->data = m->want.data;
	}
	urxe_mutex_unlock(&lock);
	return told;
}

static bool others_first(int epfd)
{
	struct instance *e;
	bool ret = false;

	urxe_mutex_lock(&lock);
	e = find(epfd);
	if (e) {
		ret = e->others_first;
		e->others_first = !ret;
	}
	urxe_mutex_unlock(&lock);
	return ret;
}

static int report_sockets(int epfd, const struct set *t, struct epoll_event *events, int most)
{
	int got = 0;

	for (unsigned i = 0; i < t->n && got < most; i++)
		if (t->p[i].revents)
			got += tell(epfd, &t->p[i], &events[got]);
	return got;
}

/* Neither sockets nor the kernel's descriptors can keep the room for events from the others. */
static int report(int epfd, const struct set *t, struct epoll_event *events, int most)
{
	bool others = others_first(epfd);
	int got = 0, more;

	for (unsigned i = 0; i < 2 && got < most; i++, others = !others) {
		if (others)
			more = epoll_wait(epfd, events + got, most - got, 0);
		else
			more = report_sockets(epfd, t, events + got, most - got);
		if (more < 0)
			return got ? got : -1;
		got += more;
	}
	return got;
}

static int wait_once(int epfd, struct epoll_event *events, int most, uint64_t deadline, int cancel)
{
	struct pollfd own = {.fd = epfd, .events = POLLIN};
	struct set t = {.epfd = epfd};
	struct urxe_rs_wait w = {
		.others = &own,
		.m = 1,
		.deadline = deadline,
		.cancel = cancel,
		.drop = set_drop,
		.around = around,
		.arg = &t,
	};
	int err = collect(&t), ret = urxe_rs_ret(err);

	if (!err) {
		w.sockets = t.p;
		w.n = t.n;
		ret = urxe_rs_wait(&w);
		if (ret > 0)
			ret = report(epfd, &t, events, most);
		err = errno;
	}
	set_drop(&t);
	errno = err;
	return ret;
}

URXE_RS_API int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	uint64_t deadline = urxe_rs_deadline_ms(timeout);
	int ret, cancel;

	if (maxevents <= 0)
		return urxe_rs_ret(EINVAL);
	if (!events)
		return urxe_rs_ret(EFAULT);
	cancel = urxe_cancel_off();
	/* What was ready may not be any more when it is told. */
	do
		ret = wait_once(epfd, events, maxevents, deadline, cancel);
	while (!ret && deadline && urxe_rs_left(deadline));
	urxe_cancel_back(cancel);
	return ret;
}
