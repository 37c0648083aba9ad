/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A member's own thread. It holds the slot's robust futex, serves who connects, asks others for
 * this process's senders, which never wait, and sees deaths. It sleeps in epoll, frees no memory
 * (urxe/free.h), and waits for no other process.
 *
 * The futex is robust by the kernel's list (set_robust_list(2)) without the mutex of POSIX: that
 * one keeps pointers of its list in the shared memory, and follows what it finds there.
 */
#include <errno.h>
#include <semaphore.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "netio/fabric_priv.h"
#include "urxe/cancel.h"
#include "urxe/log.h"
#include "urxe/thread.h"

#define CLIENT_TIME  (2 * FABRIC_SEC)	/* in which who connects must have asked */
#define LISTEN_AGAIN (50 * FABRIC_MSEC) /* without a descriptor or place for who connects */
#define SAY_AGAIN    (60 * FABRIC_SEC)	/* that there is none */
#define EVENTS	     32

int urxe_fabric_poll(struct urxe_fabric *f, int fd, unsigned kind, unsigned index)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)kind << 32 | index};

	return epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &e) ? errno : 0;
}

/* Not by close() alone: a child may have the descriptor, too, and so it would stay. */
void urxe_fabric_unpoll(struct urxe_fabric *f, int *fd)
{
	if (*fd < 0)
		return;
	epoll_ctl(f->epoll, EPOLL_CTL_DEL, *fd, NULL);
	close(*fd);
	*fd = -1;
}

void urxe_fabric_thread_wake(struct urxe_fabric *f)
{
	int cancel = urxe_cancel_off();
	uint64_t one = 1;

	while (write(f->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	urxe_cancel_back(cancel);
}

/* ---- who connects ---- */

static void hang_up(struct urxe_fabric *f, struct urxe_fclient *c)
{
	if (c->fd >= 0)
		shutdown(c->fd, SHUT_RDWR); /* likewise */
	if (c->polled)
		urxe_fabric_unpoll(f, &c->fd);
	else if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->polled = false;
}

static void wait_for(struct urxe_fabric *f, struct urxe_fclient *c)
{
	if (c->polled)
		return;
	c->polled = !urxe_fabric_poll(f, c->fd, FPOLL_CLIENT, (unsigned)(c - f->client));
	if (!c->polled)
		hang_up(f, c);
}

static void hear(struct urxe_fabric *f, struct urxe_fclient *c)
{
	struct urxe_fmsg m, table = {.type = FM_TABLE};
	int pidfd, fd, ret = urxe_fmsg_recv(c->fd, &m, &pidfd, &fd);

	if (ret == EAGAIN) {
		wait_for(f, c);
		return;
	}
	if (ret) {
		hang_up(f, c);
		return;
	}
	if (m.type == FM_ASK) {
		urxe_fpeer_asks(f, c->fd, &m, pidfd, fd);
		hang_up(f, c);
		return;
	}
	if (pidfd >= 0)
		close(pidfd);
	if (fd >= 0)
		close(fd);
	if (m.type == FM_GET)
		urxe_fmsg_send(c->fd, &table, -1, f->map_fd);
	else if (m.type == FM_BYE)
		urxe_fpeer_leaves(f, m.slot);
	hang_up(f, c);
}

static void listen_for(struct urxe_fabric *f, bool on)
{
	struct epoll_event e = {.events = on ? EPOLLIN : 0,
				.data.u64 = (uint64_t)FPOLL_LISTEN << 32};

	epoll_ctl(f->epoll, EPOLL_CTL_MOD, f->listener, &e);
	f->listen_again = on ? 0 : urxe_fabric_now() + LISTEN_AGAIN;
}

/* Who connects gets no answer, and cannot know why. It is tried again soon: not each time. */
static void cannot_let_in(struct urxe_fabric *f, int err)
{
	uint64_t now = urxe_fabric_now();

	listen_for(f, false);
	if (f->said && now - f->said < SAY_AGAIN)
		return;
	f->said = now;
	urxe_warn("no process can connect to this one: %s%s, fabric %s", strerror(err),
		  err == EMFILE ? " (ulimit -n)" : "", f->hub->path);
}

static void let_in(struct urxe_fabric *f)
{
	struct urxe_fclient *c = f->client;

	while (c < f->client + FABRIC_CLIENTS && c->fd >= 0)
		c++;
	if (c == f->client + FABRIC_CLIENTS) {
		listen_for(f, false);
		return;
	}
	c->fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (c->fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			cannot_let_in(f, errno);
		return;
	}
	c->deadline = urxe_fabric_now() + CLIENT_TIME;
	if (urxe_fmsg_trusted(f->hub, c->fd))
		hear(f, c); /* mostly it has asked already, and waits for us */
	else
		hang_up(f, c);
}

static uint64_t clients_timers(struct urxe_fabric *f, uint64_t now)
{
	uint64_t next = f->listen_again ? f->listen_again : UINT64_MAX;

	if (f->listen_again && f->listen_again <= now) {
		listen_for(f, true);
		next = UINT64_MAX;
	}
	for (struct urxe_fclient *c = f->client; c < f->client + FABRIC_CLIENTS; c++) {
		if (c->fd >= 0 && c->deadline <= now)
			hang_up(f, c);
		else if (c->fd >= 0 && c->deadline < next)
			next = c->deadline;
	}
	return next;
}

/* ---- hooks ---- */

void urxe_fabric_hook(struct urxe_fabric *f, const struct urxe_fabric_hooks *hooks, void *arg)
{
	if (!urxe_fabric_ours(f))
		return;
	urxe_mutex_lock(&f->hook_lock);
	f->hooks = hooks;
	f->hook_arg = arg;
	urxe_mutex_unlock(&f->hook_lock);
}

void urxe_fabric_call_at(struct urxe_fabric *f, uint64_t when)
{
	bool wake;

	if (!urxe_fabric_slot(f))
		return;
	urxe_mutex_lock(&f->lock);
	wake = when < f->call_at;
	if (wake)
		f->call_at = when;
	urxe_mutex_unlock(&f->lock);
	if (wake)
		urxe_fabric_thread_wake(f);
}

static uint64_t call_later(struct urxe_fabric *f, uint64_t now)
{
	uint64_t next = UINT64_MAX, when;
	bool due;

	urxe_mutex_lock(&f->lock);
	due = f->call_at <= now;
	if (due)
		f->call_at = UINT64_MAX;
	urxe_mutex_unlock(&f->lock);
	if (due) {
		urxe_mutex_lock(&f->hook_lock);
		if (f->hooks && f->hooks->later)
			next = f->hooks->later(f->hook_arg, now);
		urxe_mutex_unlock(&f->hook_lock);
	}
	urxe_mutex_lock(&f->lock);
	if (next < f->call_at)
		f->call_at = next;
	when = f->call_at;
	urxe_mutex_unlock(&f->lock);
	return when;
}

/* ---- the slot's futex ---- */

/*
 * One entry, in memory of our own; the futex is at an offset from it. When this thread ends,
 * however that is, the kernel takes its number out of the futex.
 */
static void hold_slot(struct urxe_fabric *f)
{
	_Atomic uint32_t *owner = &f->hub->map->table->life[f->starting].owner;

	f->robust_head.list.next = &f->robust;
	f->robust.next = &f->robust_head.list;
	f->robust_head.offset = (long)((uintptr_t)owner - (uintptr_t)&f->robust);
	f->robust_head.pending = NULL;
	/* Where the kernel has none of this the lock of the file must do. */
	if (!syscall(SYS_set_robust_list, &f->robust_head, sizeof(f->robust_head)))
		atomic_store(owner, (uint32_t)syscall(SYS_gettid));
}

static void let_slot_go(struct urxe_fabric *f)
{
	atomic_store(&f->hub->map->table->life[f->starting].owner, 0);
	f->robust_head.list.next = &f->robust_head.list;
}

/* ---- the thread ---- */

static void dispatch(struct urxe_fabric *f, uint64_t what)
{
	unsigned index = (uint32_t)what;
	uint64_t count;

	switch (what >> 32) {
	case FPOLL_WAKE:
		if (read(f->wake, &count, sizeof(count)) < 0)
			return;
		break;
	case FPOLL_LISTEN:
		let_in(f);
		break;
	case FPOLL_CLIENT:
		if (f->client[index].fd >= 0)
			hear(f, &f->client[index]);
		break;
	case FPOLL_ASK:
		urxe_fpeer_answer(f, index);
		break;
	case FPOLL_PID:
		urxe_fpeer_pidfd(f, index);
		break;
	}
}

static int sleep_ms(uint64_t next, uint64_t now)
{
	if (next == UINT64_MAX)
		return -1;
	if (next <= now)
		return 0;
	return next - now > 60 * FABRIC_SEC ? 60000
					    : (int)((next - now + FABRIC_MSEC - 1) / FABRIC_MSEC);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void work(struct urxe_fabric *f)
{
	struct epoll_event events[EVENTS];

	while (!atomic_load(&f->stop)) {
		uint64_t now, next;
		int n;

		urxe_fpeer_take_asks(f);
		now = urxe_fabric_now();
		next = earlier(clients_timers(f, now), urxe_fpeer_timers(f, now));
		next = earlier(next, call_later(f, now));
		n = epoll_wait(f->epoll, events, EVENTS, sleep_ms(next, now));
		for (int i = 0; i < n; i++)
			dispatch(f, events[i].data.u64);
	}
}

static void *run(void *arg)
{
	struct urxe_fabric *f = arg;
	struct urxe_ftable *t = f->hub->map->table;

	hold_slot(f);
	sem_post(f->started);
	work(f);
	urxe_ft_free(t, f->starting, (uint64_t)f->incarnation << 32 | FT_LIVE);
	urxe_fpeer_end(f);
	for (unsigned i = 0; i < FABRIC_CLIENTS; i++)
		hang_up(f, &f->client[i]);
	let_slot_go(f);
	return NULL;
}

int urxe_fabric_thread_start(struct urxe_fabric *f, unsigned slot)
{
	sem_t started;
	int ret;

	f->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (f->epoll < 0)
		return errno;
	ret = urxe_fabric_poll(f, f->wake, FPOLL_WAKE, 0);
	if (!ret)
		ret = urxe_fabric_poll(f, f->listener, FPOLL_LISTEN, 0);
	if (ret)
		return ret;
	for (unsigned i = 0; i < FABRIC_CLIENTS; i++)
		f->client[i].fd = -1;
	for (unsigned i = 0; i < URXE_FABRIC_SLOTS; i++)
		f->peer[i].pidfd = f->peer[i].sock = -1;
	atomic_store(&f->stop, false);
	f->starting = slot;
	f->map_fd = f->hub->map->fd;
	sem_init(&started, 0, 0);
	f->started = &started;
	ret = urxe_thread_start(&f->thread, "urxe/fabric", run, f);
	while (!ret && sem_wait(&started))
		;
	sem_destroy(&started);
	return ret;
}

void urxe_fabric_thread_stop(struct urxe_fabric *f)
{
	atomic_store(&f->stop, true);
	urxe_fabric_thread_wake(f);
	pthread_join(f->thread, NULL);
}
