/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * DPDK's EAL as a guest in somebody else's process: started once, late, on a thread of our own,
 * without touching the caller's signals, affinity, stdout or stderr.
 *
 * All control work on ports (EAL start, probe, configure, close) runs on the control thread
 * (netio/ctl.h).
 */
#ifndef URXE_NETIO_EAL_H
#define URXE_NETIO_EAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** urxe_eal_start - EAL up; on the control thread only. 0 or errno; @err gets a line that says why.
 */
int urxe_eal_start(char *err, size_t errlen);

/** urxe_eal_error - the first error line that DPDK logged since the last call, or ""; with @len 0
 * it is only forgotten. Control thread. */
void urxe_eal_error(char *buf, size_t len);

/** urxe_eal_alarm_barrier - wait until DPDK has run the alarms that are due; control thread. */
void urxe_eal_alarm_barrier(void);

/** urxe_eal_lcore - an lcore id of its own for a lane (mempool cache); -1 when all are taken. */
int urxe_eal_lcore(void);
/** urxe_eal_lcore_put - give back what urxe_eal_lcore() gave; -1 is nothing. */
void urxe_eal_lcore_put(int lcore);

/* ---- exclusion of lanes from control work ---- */

/**
 * A guard stands between a data path and the control work that pulls memory from under it.
 * The data path pays two plain stores; the control side pays a membarrier.
 */
struct urxe_guard {
	_Alignas(64) uint32_t busy;
	uint32_t hold;
	struct urxe_guard *next;
	bool gated; /* also excluded from DPDK's interrupt thread */
};

/** urxe_guard_hold, _release - wait until the data path is out, and keep it out. Counts. */
void urxe_guard_hold(struct urxe_guard *g);
void urxe_guard_release(struct urxe_guard *g);

/** urxe_gate_add - run DPDK's interrupt handlers only while @g is held (memif unmaps in them).
 * On the control thread, after EAL start. 0 or errno. */
int urxe_gate_add(struct urxe_guard *g);
/** urxe_gate_del - not any more. On the control thread. */
void urxe_gate_del(struct urxe_guard *g);
/** urxe_gate_lock, _unlock - keep DPDK's interrupt handlers from running; for control work on gated
 * ports.
 */
void urxe_gate_lock(void);
void urxe_gate_unlock(void);

extern bool urxe_guard_fence; /* no membarrier here: pay a fence */

/** urxe_guard_enter - false: control work is on, come again. Then no urxe_guard_leave(). */
static inline bool urxe_guard_enter(struct urxe_guard *g)
{
	/* Pairs with urxe_guard_hold(), whose membarrier is the fence between these two lines. */
	if (__builtin_expect(urxe_guard_fence, 0))
		__atomic_exchange_n(&g->busy, 1, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n(&g->busy, 1, __ATOMIC_RELAXED);
	__asm__ volatile("" ::: "memory");
	if (__builtin_expect(__atomic_load_n(&g->hold, __ATOMIC_ACQUIRE) != 0, 0)) {
		__atomic_store_n(&g->busy, 0, __ATOMIC_RELEASE);
		return false;
	}
	return true;
}

static inline void urxe_guard_leave(struct urxe_guard *g)
{
	/* Pairs with the acquire of busy in urxe_guard_hold(). */
	__atomic_store_n(&g->busy, 0, __ATOMIC_RELEASE);
}

#endif
