/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control thread of links: what is slow, or waits, or comes round from time to time, is done
 * there, and never by the data path.
 *
 * It blocks every signal: what DPDK's drivers start there inherits that, and a driver that writes
 * to the socket of a dead peer earns a SIGPIPE that nobody gets. The library of the provider and
 * that of DPDK (netio/dpdk.h) have one each.
 */
#ifndef URXE_NETIO_CTL_H
#define URXE_NETIO_CTL_H

#include <stdbool.h>
#include <stdint.h>

/**
 * urxe_ctl_call - run @fn on the control thread and wait for it
 *
 * Makes the thread at the first call. Returns what @fn returns, ENODEV in a forked child of a
 * process that had the thread, or the errno of making it. Not from the control thread itself.
 */
int urxe_ctl_call(int (*fn)(void *arg), void *arg);

/** Something the control thread looks after from time to time. */
struct urxe_ctl_watch {
	void (*poll)(void *arg); /* on the control thread */
	void *arg;
	uint64_t interval_ns; /* poll may change it */
	uint64_t due_ns;      /* control thread's */
	struct urxe_ctl_watch *next;
};

/** urxe_ctl_watch_add, _del - on the control thread only. */
void urxe_ctl_watch_add(struct urxe_ctl_watch *w);
void urxe_ctl_watch_del(struct urxe_ctl_watch *w);

/** urxe_ctl_dead - true in a child that was forked after the thread's start: neither it nor the
 * memory that links share with others is the child's. */
extern bool urxe_ctl_dead;

#endif
