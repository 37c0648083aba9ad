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
	/*
	 * Pairs with urxe_guard_enter(), which writes busy and then reads hold: by the barrier
	 * either it sees hold here, or we see it busy below.
	 */
	__atomic_fetch_add(&g->hold, 1, __ATOMIC_SEQ_CST);
	if (!urxe_guard_fence)
		membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	/* Pairs with the release in urxe_guard_leave(): what was done inside is done. */
	for (unsigned i = 0; __atomic_load_n(&g->busy, __ATOMIC_ACQUIRE); i++) {
		if (i < 64)
			urxe_cpu_relax();
		else
			sched_yield();
	}
}

void urxe_guard_release(struct urxe_guard *g)
{
	/* Pairs with the acquire of hold in urxe_guard_enter(). */
	__atomic_fetch_sub(&g->hold, 1, __ATOMIC_SEQ_CST);
}

/* ---- the gate ---- */

static struct {
	struct urxe_mutex lock; /* held: handlers do not run */
	struct urxe_mutex list_lock;
	struct urxe_guard *guards;    /* under list_lock */
	struct rte_intr_handle *intr; /* for good; control thread's */
	int fd;
	sem_t parked; /* the interrupt thread has come to the gate, for the first time */
	/* The interrupt thread's own: */
	bool open; /* it is out, with lock and all guards held */
	bool came; /* it has come to the gate */
	int epfd;  /* its epoll descriptor, as far as we know */
} gate = {
	.lock = URXE_MUTEX_INIT,
	.list_lock = URXE_MUTEX_INIT,
	.fd = -1,
	.epfd = -1,
};

static void gate_hold_all(bool hold)
{
	urxe_mutex_lock(&gate.list_lock);
	for (struct urxe_guard *g = gate.guards; g; g = g->next) {
		if (hold)
			urxe_guard_hold(g);
		else if (g->gated)
			urxe_guard_release(g);
		g->gated = hold;
	}
	urxe_mutex_unlock(&gate.list_lock);
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
		found = sscanf(line, "tfd: %d", &tfd) == 1 && tfd == gate.fd;
	fclose(f);
	return found;
}

/* The interrupt thread makes a new epoll descriptor whenever a handler comes or goes. */
static int gate_epoll_fd(void)
{
	char link[32], path[64];
	struct dirent *d;
	ssize_t n;
	DIR *dir;

	if (gate.epfd >= 0 && epoll_has_gate(gate.epfd))
		return gate.epfd;
	gate.epfd = -1;
	dir = opendir("/proc/self/fd");
	if (!dir)
		return -1;
	while (gate.epfd < 0 && (d = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.20s", d->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n <= 0)
			continue;
		link[n] = '\0';
		if (strcmp(link, "anon_inode:[eventpoll]"))
			continue;
		if (epoll_has_gate(atoi(d->d_name)))
			gate.epfd = atoi(d->d_name);
	}
	closedir(dir);
	return gate.epfd;
}

/* It is out with the lock, and comes back with it: from call to call, beyond what clang follows. */
static void gate_park(void *unused) URXE_UNCHECKED
{
	struct pollfd pfd = {.events = POLLIN};
	uint64_t n;

	if (gate.open) {
		gate_hold_all(false);
		gate.open = false;
		urxe_mutex_unlock(&gate.lock);
	}
	if (!gate.came)
		sem_post(&gate.parked);
	gate.came = true;
	if (read(gate.fd, &n, sizeof(n)) < 0) {
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
	urxe_mutex_lock(&gate.lock);
	gate_hold_all(true);
	gate.open = true;
	n = 1;
	if (write(gate.fd, &n, sizeof(n)) < 0)
		urxe_err("cannot write to an eventfd: %s", strerror(errno));
}

static int gate_install(void)
{
	uint64_t one = 1;

	if (gate.fd >= 0)
		return 0;
	gate.intr = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (!gate.intr)
		return ENOMEM;
	sem_init(&gate.parked, 0, 0);
	gate.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (gate.fd < 0 || rte_intr_fd_set(gate.intr, gate.fd) ||
	    rte_intr_type_set(gate.intr, RTE_INTR_HANDLE_EXT) ||
	    rte_intr_callback_register(gate.intr, gate_park, NULL)) {
		if (gate.fd >= 0)
			close(gate.fd);
		gate.fd = -1;
		rte_intr_instance_free(gate.intr);
		return EIO;
	}
	if (write(gate.fd, &one, sizeof(one)) < 0)
		return errno;
	/* Until then handlers run past the gate. */
	while (sem_wait(&gate.parked) && errno == EINTR)
		;
	return 0;
}

int urxe_gate_add(struct urxe_guard *g)
{
	int ret = gate_install();

	if (ret)
		return ret;
	urxe_mutex_lock(&gate.list_lock);
	g->gated = false;
	g->next = gate.guards;
	gate.guards = g;
	urxe_mutex_unlock(&gate.list_lock);
	return 0;
}

void urxe_gate_del(struct urxe_guard *g)
{
	urxe_mutex_lock(&gate.list_lock);
	for (struct urxe_guard **p = &gate.guards; *p; p = &(*p)->next) {
		if (*p == g) {
			*p = g->next;
			break;
		}
	}
	if (g->gated)
		urxe_guard_release(g);
	g->gated = false;
	urxe_mutex_unlock(&gate.list_lock);
}

/* Only gated ports do so: callers take it on a condition, and clang cannot follow. */
void urxe_gate_lock(void) URXE_UNCHECKED
{
	urxe_mutex_lock(&gate.lock);
}

void urxe_gate_unlock(void) URXE_UNCHECKED
{
	urxe_mutex_unlock(&gate.lock);
}
