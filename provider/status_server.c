/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The socket at which a process is asked for its status, and the thread that sleeps in poll() on
 * it and on its clients. No client is waited for: each has a time by which it must have asked, and
 * one by which it must have taken the reply, and there are few at a time. (DPDK's telemetry ends at
 * 16 KiB a reply, and is there only with EAL, which no link_loop has. The service thread is not
 * asked, since a reply about thousands of QPs would keep it from serving them.)
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "status.h"
#include "status_path.h"
#include "status_server.h"
#include "urxe/inode.h"
#include "urxe/lock.h"
#include "urxe/log.h"
#include "urxe/owner.h"
#include "urxe/thread.h"

#define MAX_CLIENTS 8
#define ASK_MS	    2000	 /* that a client may take to ask */
#define TAKE_MS	    10000	 /* and to take the reply, all of it */
#define REFUSED_MS  200		 /* without a descriptor for a client: until the next try */
#define LIVE_MS	    1000	 /* between two calls of live() */
#define MAX_WAITING (16ul << 20) /* bytes of replies not taken yet, above which none is begun */

struct client {
	int fd;			 /* -1: there is none */
	struct urxe_inode inode; /* the connection's */
	uint64_t deadline;	 /* ms */
	char request[URXE_STATUS_REQUEST];
	size_t asked; /* bytes of it that have come */
	bool complete;
	char *reply; /* NULL: not begun */
	size_t len, sent;
};

/* Under the lock; but clients, other than their descriptors, are the thread's. */
static struct {
	struct urxe_mutex lock; /* innermost */
	bool tried;
	int listener; /* valid while path is not "", but for the thread -1: it has been lost */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	pid_t pid;		 /* whose path it is */
	struct urxe_inode inode; /* the listener's */
	struct client clients[MAX_CLIENTS];
	void (*live)(void);
	uint64_t live_at; /* when it is called; ms */
	uint64_t refused; /* when accept() found no room; ms, 0: it did not */
} server = {.lock = URXE_MUTEX_INIT};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- clients ---- */

/* A child may have the descriptor, too: it is the connection that ends. Where the program has
 * closed it, its number may be another file's. */
static void drop(struct client *c)
{
	urxe_mutex_lock(&server.lock);
	if (urxe_inode_in(c->fd, &c->inode)) {
		shutdown(c->fd, SHUT_RDWR);
		close(c->fd);
	}
	c->fd = -1;
	urxe_mutex_unlock(&server.lock);
	free(c->reply);
	c->reply = NULL;
}

/* The folder keeps others out, unless somebody has opened it; they might change our addresses. */
static bool may_ask(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) &&
	       (!peer.uid || urxe_owner_runs(peer.uid, peer.pid));
}

static void end(bool child) URXE_REQUIRES(server.lock)
{
	if (server.path[0] && !child && server.pid == getpid())
		unlink(server.path);
	server.path[0] = '\0';
}

/*
 * The program has closed it, as daemons close all they find, and its number may be another file's:
 * that is not ours to close, and poll() would come back at once for ever.
 */
static void lose_listener(void) URXE_REQUIRES(server.lock)
{
	server.listener = -1;
	end(false);
}

static bool has_listener(void) URXE_REQUIRES(server.lock)
{
	return urxe_inode_in(server.listener, &server.inode);
}

static void let_in(struct client *c, uint64_t now)
{
	int err = 0;

	urxe_mutex_lock(&server.lock);
	if (has_listener()) {
		c->fd = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		err = c->fd < 0 ? errno : 0;
	} else {
		lose_listener();
	}
	urxe_mutex_unlock(&server.lock);
	if (c->fd < 0) {
		if (err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOBUFS)
			server.refused = now;
		return;
	}
	c->deadline = now + ASK_MS;
	c->asked = c->len = c->sent = 0;
	c->complete = false;
	if (!urxe_inode_of(c->fd, &c->inode) || !may_ask(c->fd))
		drop(c);
}

static void hear(struct client *c)
{
	ssize_t n = recv(c->fd, c->request + c->asked, sizeof(c->request) - 1 - c->asked, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(c);
		return;
	}
	c->asked += (size_t)n;
	c->request[c->asked] = '\0';
	c->complete = memchr(c->request, '\n', c->asked);
	if (!c->complete &&
	    (c->asked == sizeof(c->request) - 1 || memchr(c->request, '\0', c->asked)))
		drop(c);
}

static size_t waiting(void)
{
	size_t sum = 0;

	for (unsigned i = 0; i < MAX_CLIENTS; i++) {
		if (server.clients[i].reply)
			sum += server.clients[i].len;
	}
	return sum;
}

static void answer(struct client *c, uint64_t now)
{
	if (c->reply || waiting() > MAX_WAITING)
		return;
	c->reply = urxe_status_reply(c->request, &c->len);
	c->deadline = now + TAKE_MS;
	if (!c->reply)
		drop(c);
}

static void push(struct client *c)
{
	ssize_t n = send(c->fd, c->reply + c->sent, c->len - c->sent, MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->sent += n > 0 ? (size_t)n : 0;
	if (n <= 0 || c->sent == c->len)
		drop(c);
}

static void serve(struct client *c, short revents, uint64_t now)
{
	if (!urxe_inode_in(c->fd, &c->inode))
		drop(c);
	else if (revents && !c->complete)
		hear(c);
	if (c->fd >= 0 && c->complete)
		answer(c, now);
	if (c->fd >= 0 && c->reply)
		push(c);
	if (c->fd >= 0 && now >= c->deadline)
		drop(c);
}

/* ---- the thread ---- */

static int until(uint64_t when, uint64_t now)
{
	return when > now ? (int)(when - now) : 0;
}

static void sooner(int *timeout, int ms)
{
	if (*timeout < 0 || ms < *timeout)
		*timeout = ms;
}

/* What to wait for, in the order of clients and then the listener; returns how long, ms. */
static int plan(struct pollfd *fds, uint64_t now)
{
	bool room = false, refused = server.refused && now < server.refused + REFUSED_MS;
	int timeout = -1;

	for (unsigned i = 0; i < MAX_CLIENTS; i++) {
		const struct client *c = &server.clients[i];

		fds[i] = (struct pollfd){.fd = c->fd};
		room |= c->fd < 0;
		if (c->fd < 0)
			continue;
		fds[i].events = (short)(c->reply ? POLLOUT : c->complete ? 0 : POLLIN);
		sooner(&timeout, until(c->deadline, now));
	}
	if (server.live)
		sooner(&timeout, until(server.live_at, now));
	fds[MAX_CLIENTS] = (struct pollfd){.fd = -1, .events = POLLIN};
	if (refused)
		sooner(&timeout, until(server.refused + REFUSED_MS, now));
	else if (room)
		fds[MAX_CLIENTS].fd = server.listener;
	return timeout;
}

static void *server_main(void *arg)
{
	struct pollfd fds[MAX_CLIENTS + 1];
	struct client *room;
	uint64_t now;

	for (;;) {
		if (poll(fds, MAX_CLIENTS + 1, plan(fds, now_ms())) < 0 && errno != EINTR)
			return arg;
		now = now_ms();
		room = NULL;
		for (unsigned i = 0; i < MAX_CLIENTS; i++) {
			if (server.clients[i].fd >= 0)
				serve(&server.clients[i], fds[i].revents, now);
			if (server.clients[i].fd < 0)
				room = &server.clients[i];
		}
		if (fds[MAX_CLIENTS].revents && room)
			let_in(room, now);
		if (server.live && now >= server.live_at) {
			server.live();
			server.live_at = now + LIVE_MS;
		}
	}
}

/* ---- start and end ---- */

/* The folder is ours alone: what lies in it decides whom `urxe status` believes. */
static int make_dir(char *dir, size_t len)
{
	char why[256];
	struct stat st;
	int err;

	if (urxe_status_dir(dir, len))
		return ENOENT;
	err = urxe_owner_make_dir(dir);
	if (err)
		return err;
	if (urxe_owner_has_dir(dir, &st))
		return 0;
	if (!st.st_mode)
		return errno;
	/* Somebody else may have made it, to keep us silent: that must be seen. */
	urxe_warn("%s: no answer to `urxe status`",
		  urxe_owner_objection(dir, &st, why, sizeof(why)));
	return ENOENT;
}

/*
 * 0 or errno, and no path then. The socket gets its name when it listens: one that refuses is taken
 * for that of a process that was killed, and removed.
 */
static int listen_at(void) URXE_REQUIRES(server.lock)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	char dir[sizeof(sun.sun_path) - 16], path[sizeof(sun.sun_path)];
	int err = make_dir(dir, sizeof(dir)), fd;

	if (err)
		return err;
	snprintf(path, sizeof(path), "%s/%d", dir, (int)getpid());
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/.%d", dir, (int)getpid());
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	unlink(sun.sun_path); /* of a process that had our number, and was killed */
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) || chmod(sun.sun_path, 0600) ||
	    listen(fd, MAX_CLIENTS) || rename(sun.sun_path, path) ||
	    !urxe_inode_of(fd, &server.inode)) {
		err = errno;
		unlink(sun.sun_path);
		close(fd);
		return err;
	}
	memcpy(server.path, path, sizeof(server.path));
	server.listener = fd;
	server.pid = getpid();
	return 0;
}

static int start(void) URXE_REQUIRES(server.lock)
{
	pthread_t t;
	int err;

	/* What a parent's thread was in the midst of is not ours to free. */
	memset(server.clients, 0, sizeof(server.clients));
	for (unsigned i = 0; i < MAX_CLIENTS; i++)
		server.clients[i].fd = -1;
	err = listen_at();
	if (err)
		return err;
	server.live_at = now_ms() + LIVE_MS;
	err = urxe_thread_start(&t, "urxe/status", server_main, NULL);
	if (!err) {
		pthread_detach(t);
		return 0;
	}
	end(false);
	close(server.listener);
	return err;
}

void urxe_status_server_start(void (*live)(void))
{
	int err = 0;

	urxe_mutex_lock(&server.lock);
	if (!server.tried) {
		server.live = live;
		err = start();
	}
	server.tried = true;
	urxe_mutex_unlock(&server.lock);
	if (err && err != ENOENT)
		urxe_info("no answer to `urxe status`: %s", strerror(err));
}

void urxe_status_server_hold(void) URXE_ACQUIRE(server.lock)
{
	urxe_mutex_lock(&server.lock);
}

void urxe_status_server_release(bool child) URXE_RELEASE(server.lock)
{
	if (child && server.path[0]) {
		if (has_listener())
			close(server.listener);
		for (unsigned i = 0; i < MAX_CLIENTS; i++) {
			if (urxe_inode_in(server.clients[i].fd, &server.clients[i].inode))
				close(server.clients[i].fd);
		}
		end(true);
	}
	if (child) {
		server.tried = false;
		server.refused = 0;
	}
	urxe_mutex_unlock(&server.lock);
}

/* The lock may be held by a thread that is no more; then the socket stays, and is cleaned up later.
 */
__attribute__((destructor)) static void server_exit(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec++;
	if (!urxe_mutex_timedlock(&server.lock, &ts))
		return;
	end(false);
	urxe_mutex_unlock(&server.lock);
}
