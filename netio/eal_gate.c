/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Guards, and the gate that DPDK's interrupt thread must pass.
 *
 * memif (22.11) unmaps the rings of a dead peer in DPDK's interrupt thread while a poller may be
 * reading them. virtio_user takes its handler away when the port is stopped, which EAL refuses
 * (EAGAIN) while that handler runs: nobody looks at that, and the handler stays, for a port that is
 * then freed and a descriptor that is then closed; the next time EAL makes its epoll set anew it
 * finds the latter and calls rte_panic().
 *
 * So that thread is parked in a callback of ours, on an eventfd of our own: there it sleeps on its
 * own epoll descriptor, and when that has something it takes the gate's lock, holds the guards of
 * all gated data paths, returns to run the PMDs' handlers, and comes back to park (its eventfd is
 * made readable again before it leaves), where it releases them. The holder of the gate's lock
 * knows that no handler runs, and that the epoll set is not being made anew.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "netio/eal.h"
#include "urxe/lock.h"
#include "urxe/log.h"

bool urxe_guard_fence;

static int membarrier_call(int cmd)
{
	return (int)syscall(__NR_membarrier, cmd, 0, 0);
}

__attribute__((constructor)) static void guard_init(void)
{
	urxe_guard_fence = membarrier_call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
}

void urxe_guard_hold(struct urxe_guard *g)
{
	__atomic_fetch_add(&g->hold, 1, __ATOMIC_SEQ_CST);
	if (!urxe_guard_fence)
		membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	for (unsigned i = 0; __atomic_load_n(&g->busy, __ATOMIC_ACQUIRE); i++) {
		if (i < 64)
			urxe_cpu_relax();
		else
			sched_yield();
	}
}

void urxe_guard_release(struct urxe_guard *g)
{
	__atomic_fetch_sub(&g->hold, 1, __ATOMIC_SEQ_CST);
}

/* ---- the gate ---- */

static struct urxe_mutex gate_lock = URXE_MUTEX_INIT; /* held: handlers do not run */
static struct urxe_mutex gate_list_lock = URXE_MUTEX_INIT;
static struct urxe_guard *gate_guards;
static int gate_fd = -1;
static bool gate_open;	  /* interrupt thread's: it is out, with gate_lock and all guards held */
static sem_t gate_parked; /* the interrupt thread has come to the gate, for the first time */

static void gate_hold_all(bool hold)
{
	urxe_mutex_lock(&gate_list_lock);
	for (struct urxe_guard *g = gate_guards; g; g = g->next) {
		if (hold)
			urxe_guard_hold(g);
		else if (g->gated)
			urxe_guard_release(g);
		g->gated = hold;
	}
	urxe_mutex_unlock(&gate_list_lock);
}

/* Does epoll descriptor @epfd watch our eventfd? */
static bool epoll_has_gate(int epfd)
{
	char path[64], line[128];
	bool found = false;
	FILE *f;
	int tfd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epfd);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "tfd: %d", &tfd) == 1 && tfd == gate_fd;
	fclose(f);
	return found;
}

/* The interrupt thread makes a new epoll descriptor whenever a handler comes or goes. */
static int gate_epoll_fd(void)
{
	static int known = -1;
	char link[32], path[64];
	struct dirent *d;
	ssize_t n;
	DIR *dir;

	if (known >= 0 && epoll_has_gate(known))
		return known;
	known = -1;
	dir = opendir("/proc/self/fd");
	if (!dir)
		return -1;
	while (known < 0 && (d = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.20s", d->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n <= 0)
			continue;
		link[n] = '\0';
		if (strcmp(link, "anon_inode:[eventpoll]"))
			continue;
		if (epoll_has_gate(atoi(d->d_name)))
			known = atoi(d->d_name);
	}
	closedir(dir);
	return known;
}

static void gate_park(void *unused)
{
	struct pollfd pfd = {.events = POLLIN};
	static bool known;
	uint64_t n;

	if (gate_open) {
		gate_hold_all(false);
		gate_open = false;
		urxe_mutex_unlock(&gate_lock);
	}
	if (!known)
		sem_post(&gate_parked);
	known = true;
	if (read(gate_fd, &n, sizeof(n)) < 0) {
		/* Nothing there: a spurious call, park all the same. */
	}
	pfd.fd = gate_epoll_fd();
	/* Without /proc there is no telling when: look in every 10 ms. */
	if (pfd.fd < 0)
		poll(NULL, 0, 10);
	else
		while (poll(&pfd, 1, -1) < 0 && errno == EINTR)
			;
	/* What the peer sent before it died is still in the rings: a moment to fetch it. */
	poll(NULL, 0, 1);
	urxe_mutex_lock(&gate_lock);
	gate_hold_all(true);
	gate_open = true;
	n = 1;
	if (write(gate_fd, &n, sizeof(n)) < 0)
		urxe_err("cannot write to an eventfd: %s", strerror(errno));
}

static int gate_install(void)
{
	static struct rte_intr_handle *h; /* for good */
	uint64_t one = 1;

	if (gate_fd >= 0)
		return 0;
	h = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (!h)
		return ENOMEM;
	sem_init(&gate_parked, 0, 0);
	gate_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (gate_fd < 0 || rte_intr_fd_set(h, gate_fd) ||
	    rte_intr_type_set(h, RTE_INTR_HANDLE_EXT) ||
	    rte_intr_callback_register(h, gate_park, NULL)) {
		if (gate_fd >= 0)
			close(gate_fd);
		gate_fd = -1;
		rte_intr_instance_free(h);
		return EIO;
	}
	if (write(gate_fd, &one, sizeof(one)) < 0)
		return errno;
	/* Until then handlers run past the gate. */
	while (sem_wait(&gate_parked) && errno == EINTR)
		;
	return 0;
}

int urxe_gate_add(struct urxe_guard *g)
{
	int ret = gate_install();

	if (ret)
		return ret;
	urxe_mutex_lock(&gate_list_lock);
	g->gated = false;
	g->next = gate_guards;
	gate_guards = g;
	urxe_mutex_unlock(&gate_list_lock);
	return 0;
}

void urxe_gate_del(struct urxe_guard *g)
{
	urxe_mutex_lock(&gate_list_lock);
	for (struct urxe_guard **p = &gate_guards; *p; p = &(*p)->next) {
		if (*p == g) {
			*p = g->next;
			break;
		}
	}
	if (g->gated)
		urxe_guard_release(g);
	g->gated = false;
	urxe_mutex_unlock(&gate_list_lock);
}

void urxe_gate_lock(void)
{
	urxe_mutex_lock(&gate_lock);
}

void urxe_gate_unlock(void)
{
	urxe_mutex_unlock(&gate_lock);
}
