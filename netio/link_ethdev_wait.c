/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Waiting for frames.
 *
 * Arming costs the sender a system call per frame, so only waits of some length arm, and
 * those of callers who know that frames come rarely. Frames that
 * came before the arming raise no interrupt: the wait that arms returns at once, the caller polls
 * once more, and its next wait sleeps.
 *
 * Nobody arms beside callers that poll. vhost arms under the lock that it receives under: whoever
 * has taken the processor of a thread that receives would spin for it until its time slice is over.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "netio/ethdev.h"

#define ARM_MIN_NS 1500000u /* shorter waits just sleep */

static void intr_off(struct ethdev *e)
{
	if (!e->armed)
		return;
	e->armed = false;
	for (unsigned i = 0; e->present && i < e->info.lanes; i++)
		rte_eth_dev_rx_intr_disable(e->port, (uint16_t)i);
}

/* After a change of the port its old descriptors are gone from the epoll set by themselves. */
static bool intr_on(struct ethdev *e)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	int fd;

	for (unsigned i = 0; i < e->info.lanes; i++) {
		fd = rte_eth_dev_rx_intr_ctl_q_get_fd(e->port, (uint16_t)i);
		if (fd < 0)
			return false;
		if (epoll_ctl(e->epfd, EPOLL_CTL_ADD, fd, &ev) && errno != EEXIST)
			return false;
		if (rte_eth_dev_rx_intr_enable(e->port, (uint16_t)i))
			return false;
	}
	return true;
}

enum arm {
	ARM_NONE,
	ARM_NEW,
	ARM_OLD
};

static enum arm arm(struct ethdev *e, bool arms)
{
	/* Pairs with the releases where it grows: a port that started or changed is seen so. */
	uint32_t gen = __atomic_load_n(&e->generation, __ATOMIC_ACQUIRE);
	enum arm state = ARM_NONE;

	if (!__atomic_load_n(&e->rx_intr, __ATOMIC_RELAXED) || !urxe_guard_enter(&e->wait_guard))
		return ARM_NONE;
	if (e->armed && gen != e->wait_generation)
		e->armed = false;
	if (!arms || !e->present) {
		intr_off(e);
	} else if (e->armed) {
		state = ARM_OLD;
	} else if (intr_on(e)) {
		e->armed = true;
		e->wait_generation = gen;
		state = ARM_NEW;
	}
	urxe_guard_leave(&e->wait_guard);
	return state;
}

void ethdev_wait(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	struct ethdev *e = link;
	struct epoll_event ev[ETHDEV_MAX_LANES];
	struct pollfd fds[3] = {{.fd = wake_fd, .events = POLLIN}};
	enum arm state = ARM_NONE;
	nfds_t n = 1;
	uint64_t v;

	if (!urxe_ctl_dead) {
		state = arm(e, how->interrupt || (ns >= ARM_MIN_NS && !how->driven));
		fds[n++] = (struct pollfd){.fd = e->event_fd, .events = POLLIN};
		if (state != ARM_NONE)
			fds[n++] = (struct pollfd){.fd = e->epfd, .events = POLLIN};
	}
	how->interrupt = state != ARM_NONE;
	if (state == ARM_NEW)
		return;
	if (urxe_sleep_poll(how, fds, n, ns) <= 0)
		return;
	if (n > 1 && fds[1].revents && read(e->event_fd, &v, sizeof(v)) < 0)
		return;
	if (n > 2 && fds[2].revents) {
		epoll_wait(e->epfd, ev, ETHDEV_MAX_LANES, 0);
		if (urxe_guard_enter(&e->wait_guard)) {
			intr_off(e);
			urxe_guard_leave(&e->wait_guard);
		}
	}
}
