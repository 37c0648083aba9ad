/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rsockets that are waited for: rpoll(), rselect(), repoll_...(), by one thread and by several. */
#include "rsocket_duo.h"

#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

/* Of rdma-core after 64: our headers may not have them. */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

static void say(int fd)
{
	CU_ASSERT_EQUAL_FATAL(rsend(fd, "x", 1, 0), 1);
}

static void hear(int fd)
{
	char c;

	CU_ASSERT_EQUAL_FATAL(rrecv(fd, &c, 1, 0), 1);
}

static void polled(void)
{
	struct pollfd p[4];
	struct duo d;
	int fds[2];

	CU_ASSERT_FATAL(!pipe(fds));
	duo_open(&d, "10.0.0.1");
	p[0] = (struct pollfd){.fd = d.client, .events = POLLIN};
	p[1] = (struct pollfd){.fd = d.server, .events = POLLIN | POLLOUT};
	p[2] = (struct pollfd){.fd = fds[0], .events = POLLIN};
	p[3] = (struct pollfd){.fd = -1, .events = POLLIN, .revents = 7};
	CU_ASSERT_EQUAL(rpoll(p, 4, 0), 1);
	CU_ASSERT_EQUAL(p[0].revents, 0);
	CU_ASSERT_EQUAL(p[1].revents, POLLOUT);
	CU_ASSERT_EQUAL(p[3].revents, 0);
	p[1].events = POLLIN;
	CU_ASSERT_EQUAL(rpoll(p, 4, 10), 0);
	say(d.client);
	CU_ASSERT_EQUAL(rpoll(p, 4, 10000), 1);
	CU_ASSERT_EQUAL(p[1].revents, POLLIN);
	hear(d.server);
	CU_ASSERT_EQUAL(write(fds[1], "x", 1), 1);
	CU_ASSERT_EQUAL(rpoll(p, 4, 10000), 1);
	CU_ASSERT_EQUAL(p[2].revents, POLLIN);
	/* The kernel's alone, and nothing. */
	CU_ASSERT_EQUAL(rpoll(p + 2, 1, 10000), 1);
	CU_ASSERT_EQUAL(rpoll(NULL, 0, 0), 0);
	duo_close(&d);
	close(fds[0]);
	close(fds[1]);
}

static void states(void)
{
	struct sockaddr_storage at;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), l = rs_listener("10.0.0.1", &at);
	struct pollfd p = {.fd = l, .events = POLLIN | POLLOUT};

	CU_ASSERT_EQUAL(rpoll(&p, 1, 0), 0);
	CU_ASSERT_EQUAL(rs_ready(fd, POLLIN | POLLOUT), POLLOUT | POLLHUP);
	WORKS(rfcntl(l, F_SETFL, O_NONBLOCK));
	FAILS(raccept(l, NULL, NULL), EAGAIN);
	WORKS(rclose(fd));
	WORKS(rclose(l));
}

static void selected(void)
{
	struct timeval none = {0, 0}, bad = {-1, 0}, long_time = {10, 0};
	fd_set r, w, e;
	struct duo d;
	int most;

	duo_open(&d, "10.0.0.1");
	most = (d.client > d.server ? d.client : d.server) + 1;
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(d.server, &r);
	FD_SET(d.server, &w);
	FD_SET(d.client, &e);
	CU_ASSERT_EQUAL(rselect(most, &r, &w, &e, &none), 1);
	CU_ASSERT(!FD_ISSET(d.server, &r) && FD_ISSET(d.server, &w) && !FD_ISSET(d.client, &e));
	FD_SET(d.server, &r);
	say(d.client);
	CU_ASSERT_EQUAL(rselect(most, &r, NULL, NULL, &long_time), 1);
	CU_ASSERT(FD_ISSET(d.server, &r));
	CU_ASSERT_EQUAL(rselect(most, &r, &w, NULL, NULL), 2);
	FAILS(rselect(-1, &r, NULL, NULL, NULL), EINVAL);
	FAILS(rselect(FD_SETSIZE + 1, &r, NULL, NULL, NULL), EINVAL);
	FAILS(rselect(most, &r, NULL, NULL, &bad), EINVAL);
	duo_close(&d);
	FD_ZERO(&r);
	FD_SET(d.server, &r);
	FAILS(rselect(most, &r, NULL, NULL, &none), EBADF);
}

/* ---- repoll ---- */

static int told(int ep, int timeout, uint32_t *events)
{
	struct epoll_event e[4] = {{0}};
	int n = repoll_wait(ep, e, 4, timeout);

	*events = n > 0 ? e[0].events : 0;
	CU_ASSERT(n < 1 || e[0].data.u64 == 42);
	return n;
}

static void change(int ep, int op, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.u64 = 42};

	WORKS(repoll_ctl(ep, op, fd, &e));
}

static void repolled(void)
{
	struct epoll_event e = {.events = EPOLLIN};
	int ep = repoll_create(EPOLL_CLOEXEC), fds[2] = {-1, -1};
	struct duo d;
	uint32_t ev;

	CU_ASSERT_FATAL(ep >= 0 && !pipe(fds));
	duo_open(&d, "10.0.0.1");
	FAILS(repoll_ctl(ep, EPOLL_CTL_MOD, d.server, &e), ENOENT);
	FAILS(repoll_ctl(ep, EPOLL_CTL_DEL, d.server, NULL), ENOENT);
	FAILS(repoll_ctl(ep, EPOLL_CTL_ADD, d.server, NULL), EFAULT);
	FAILS(repoll_ctl(ep, 77, d.server, &e), EINVAL);
	FAILS(repoll_ctl(fds[0], EPOLL_CTL_ADD, d.server, &e), EBADF);
	FAILS(repoll_wait(fds[0], &e, 1, 0), EBADF);
	FAILS(repoll_wait(ep, &e, 0, 0), EINVAL);
	change(ep, EPOLL_CTL_ADD, d.server, EPOLLIN);
	FAILS(repoll_ctl(ep, EPOLL_CTL_ADD, d.server, &e), EEXIST);
	change(ep, EPOLL_CTL_ADD, fds[0], EPOLLIN);
	CU_ASSERT_EQUAL(told(ep, 0, &ev), 0);
	/* As long as it is true. */
	say(d.client);
	CU_ASSERT_EQUAL(told(ep, 10000, &ev), 1);
	CU_ASSERT_EQUAL(told(ep, 0, &ev), 1);
	CU_ASSERT_EQUAL(ev, EPOLLIN);
	CU_ASSERT_EQUAL(write(fds[1], "x", 1), 1);
	CU_ASSERT_EQUAL(told(ep, 0, &ev), 2);
	hear(d.server);
	CU_ASSERT_EQUAL(told(ep, 0, &ev), 1);
	change(ep, EPOLL_CTL_DEL, fds[0], 0);
	CU_ASSERT_EQUAL(told(ep, 0, &ev), 0);
	/* Once. */
	change(ep, EPOLL_CTL_MOD, d.server, EPOLLOUT | EPOLLONESHOT);
	CU_ASSERT_EQUAL(told(ep, 0, &ev), 1);
	CU_ASSERT_EQUAL(told(ep, 0, &ev), 0);
	/* When something has happened. */
	change(ep, EPOLL_CTL_MOD, d.server, EPOLLIN | EPOLLET);
	say(d.client);
	CU_ASSERT_EQUAL(told(ep, 10000, &ev), 1);
	CU_ASSERT_EQUAL(told(ep, 0, &ev), 0);
	say(d.client);
	CU_ASSERT_EQUAL(told(ep, 10000, &ev), 1);
	duo_close(&d); /* and is in it no more */
	CU_ASSERT_EQUAL(told(ep, 0, &ev), 0);
	WORKS(rclose(ep));
	FAILS(rclose(ep), EBADF);
	FAILS(fcntl(ep, F_GETFD), EBADF);
	FAILS(rclose(fds[0]), EBADF);
	close(fds[0]);
	close(fds[1]);
}

/* Each that is ready is told in its turn, with room for one event alone. */
static void in_turns(void)
{
	int ep = repoll_create(0), fds[2] = {-1, -1};
	unsigned seen = 0;
	struct duo d[3];

	CU_ASSERT_FATAL(ep >= 0 && !pipe(fds));
	CU_ASSERT_EQUAL(write(fds[1], "x", 1), 1);
	for (unsigned i = 0; i < 3; i++) {
		struct epoll_event e = {.events = EPOLLOUT, .data.u32 = i};

		duo_open(&d[i], "10.0.0.1");
		WORKS(repoll_ctl(ep, EPOLL_CTL_ADD, d[i].client, &e));
	}
	WORKS(repoll_ctl(ep, EPOLL_CTL_ADD, fds[0],
			 &(struct epoll_event){.events = EPOLLIN, .data.u32 = 3}));
	for (unsigned i = 0; i < 6; i++) {
		struct epoll_event e = {0};

		CU_ASSERT_EQUAL(repoll_wait(ep, &e, 1, 0), 1);
		seen += 1u << 4 * e.data.u32;
	}
	CU_ASSERT_EQUAL(seen, 0x3111);
	for (unsigned i = 0; i < 3; i++)
		duo_close(&d[i]);
	WORKS(rclose(ep));
	close(fds[0]);
	close(fds[1]);
}

/* ---- several threads ---- */

static void *take_one(void *arg)
{
	const struct duo *d = arg;
	uint32_t ev;

	CU_ASSERT_EQUAL(told(d->client, -1, &ev), 1);
	CU_ASSERT_EQUAL(rclose(raccept(d->listener, NULL, NULL)), 0);
	return NULL;
}

/* Who was told of a request when there was no room for more learns of the next one. */
static void full_under_a_sleeper(void)
{
	struct sockaddr_storage at;
	const struct timeval long_time = {10, 0};
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	struct duo d = {.listener = rsocket(AF_INET, SOCK_STREAM, 0)}, r;
	const socklen_t len = sizeof(at);
	struct pollfd p[2];
	uint32_t ev;
	pthread_t t;

	rs_listen(d.listener, "10.0.0.1", 1, &at);
	r = (struct duo){.listener = d.listener, .client = repoll_create(0)};
	WORKS(rsetsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &long_time, sizeof(long_time)));
	change(r.client, EPOLL_CTL_ADD, d.listener, EPOLLIN | EPOLLET);
	d.client = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(rconnect(d.client, (struct sockaddr *)&at, len), EINPROGRESS);
	p[0] = (struct pollfd){.fd = d.client, .events = POLLOUT};
	p[1] = (struct pollfd){.fd = d.listener, .events = POLLIN};
	CU_ASSERT_EQUAL(rpoll(p, 2, 10000), 1);
	CU_ASSERT_EQUAL(told(r.client, 0, &ev), 1);
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, take_one, &r), 0);
	poll(NULL, 0, 20); /* until it sleeps, most likely; it must end in any case */
	d.server = raccept(d.listener, NULL, NULL);
	CU_ASSERT_EQUAL(rconnect(fd, (struct sockaddr *)&at, len), 0);
	pthread_join(t, NULL);
	WORKS(rclose(fd));
	WORKS(rclose(r.client));
	duo_close(&d);
}

struct worker {
	int ep, fd;
};

static void *answer(void *arg)
{
	const struct worker *w = arg;
	uint32_t ev;

	for (unsigned i = 0; i < 100; i++) {
		CU_ASSERT_EQUAL_FATAL(told(w->ep, 10000, &ev), 1);
		hear(w->fd);
		say(w->fd);
	}
	return NULL;
}

static void *wait_for_its_end(void *arg)
{
	struct epoll_event e;

	FAILS(repoll_wait(*(int *)arg, &e, 1, 10000), EBADF);
	return NULL;
}

/* Who sleeps in repoll_wait() learns of what is put in, changed, taken out and put in again. */
static void changed_under_a_sleeper(void)
{
	struct worker w;
	struct duo d;
	pthread_t t;

	duo_open(&d, "10.0.0.1");
	w = (struct worker){repoll_create(0), d.server};
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, answer, &w), 0);
	for (unsigned i = 0; i < 100; i++) {
		if (i % 3 == 2)
			change(w.ep, EPOLL_CTL_DEL, d.server, 0);
		say(d.client);
		change(w.ep, i % 3 == 1 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, d.server,
		       EPOLLIN | EPOLLONESHOT);
		hear(d.client);
		if (i % 3 == 2)
			change(w.ep, EPOLL_CTL_DEL, d.server, 0);
	}
	pthread_join(t, NULL);
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, wait_for_its_end, &w.ep), 0);
	poll(NULL, 0, 20); /* until it sleeps, most likely; it must end in any case */
	WORKS(rclose(w.ep));
	pthread_join(t, NULL);
	duo_close(&d);
}

#define TURNS 2000

static void *echo(void *arg)
{
	for (unsigned i = 0; i < TURNS; i++) {
		hear(*(int *)arg);
		say(*(int *)arg);
	}
	return NULL;
}

static void *watch_room(void *arg)
{
	/* It takes in what comes, which is not for it. */
	for (unsigned i = 0; i < TURNS; i++)
		CU_ASSERT_EQUAL(rs_ready(*(int *)arg, POLLOUT), POLLOUT);
	return NULL;
}

/* Who sleeps for a socket is woken by whoever takes in what it waits for. */
static void by_several(void)
{
	pthread_t t, w;
	struct duo d;

	duo_open(&d, "10.0.0.1");
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, echo, &d.server), 0);
	CU_ASSERT_EQUAL(pthread_create(&w, NULL, watch_room, &d.client), 0);
	for (unsigned i = 0; i < TURNS; i++) {
		say(d.client);
		hear(d.client);
	}
	pthread_join(t, NULL);
	pthread_join(w, NULL);
	duo_close(&d);
}

static void *wait_in(void *arg)
{
	CU_ASSERT_EQUAL(rs_ready(*(int *)arg, POLLIN), POLLIN);
	return NULL;
}

static void all_are_woken(void)
{
	pthread_t t[4];
	struct duo d;

	duo_open(&d, "10.0.0.1");
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(pthread_create(&t[i], NULL, wait_in, &d.server), 0);
	say(d.client);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	duo_close(&d);
}

static void *wait_for_bytes(void *arg)
{
	char c;

	rrecv(*(int *)arg, &c, 1, 0);
	return NULL;
}

static void *wait_in_rpoll(void *arg)
{
	struct pollfd p = {.fd = *(int *)arg, .events = POLLIN};

	rpoll(&p, 1, -1);
	return NULL;
}

static void close_repoll(void *ep)
{
	WORKS(rclose(*(int *)ep));
}

static void *wait_in_repoll(void *arg)
{
	struct epoll_event e = {.events = EPOLLIN};
	int ep = repoll_create(0);

	repoll_ctl(ep, EPOLL_CTL_ADD, *(int *)arg, &e);
	pthread_cleanup_push(close_repoll, &ep);
	repoll_wait(ep, &e, 1, -1);
	pthread_cleanup_pop(1);
	return NULL;
}

static void *wait_for_another(void *arg)
{
	raccept(*(int *)arg, NULL, NULL);
	return NULL;
}

/* A thread is cancelled while it waits, or just before, and leaves no lock and no watch behind. */
static void cancelled(void)
{
	struct duo d;
	const struct {
		void *(*fn)(void *);
		int *fd;
	} rows[] = {{wait_for_bytes, &d.server},
		    {wait_in_rpoll, &d.server},
		    {wait_in_repoll, &d.server},
		    {wait_for_another, &d.listener}};

#ifdef __SANITIZE_THREAD__
	return; /* it sees no lock of a thread that was cancelled in a system call */
#endif
	duo_open(&d, "10.0.0.1");
	for (unsigned i = 0; i < 40; i++) {
		void *how;
		pthread_t t;

		CU_ASSERT_EQUAL(pthread_create(&t, NULL, rows[i % 4].fn, rows[i % 4].fd), 0);
		/* Half of them until they sleep, most likely. */
		if (i / 4 % 2)
			poll(NULL, 0, 2);
		pthread_cancel(t);
		pthread_join(t, &how);
		CU_ASSERT_PTR_EQUAL(how, PTHREAD_CANCELED);
	}
	say(d.client);
	hear(d.server);
	duo_close(&d);
}

URXE_TEST_MAIN("cm_rsocket_poll", T(cancelled), T(polled), T(states), T(selected), T(repolled),
	       T(in_turns), T(changed_under_a_sleeper), T(full_under_a_sleeper), T(by_several),
	       T(all_are_woken))
