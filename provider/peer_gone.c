/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Processes on the same machine tell each other when one of them dies (urxe_port_on_gone()): so
 * nobody need wait for retries, of QPs or of the CM. A QPN says of which process it is
 * (netio/identity.h). A slot gets a new owner as late as possible, long after its last one's QPs
 * were looked at.
 */
#include <sched.h>

#include "provider.h"
#include "gsi.h"
#include "lend.h"
#include "progress.h"
#include "rcu.h"
#include "retry.h"
#include "service.h"
#include "netio/identity.h"

#define LAST_TURNS 1000 /* more than any ring between two processes holds */

void urxe_peer_gone(void *arg, unsigned slot)
{
	struct urxe_device *dev = arg;
	uint64_t bit = 1ull << slot % 64;

	if (slot > 255)
		return;
	atomic_fetch_or(&dev->gone.slots[slot / 64], bit);
	urxe_service_nudge(dev);
}

void urxe_peer_check(struct urxe_qp *qp)
{
	uint32_t qpn = qp->dqpn;

	if (urxe_qp_acked(qp) && !(qp->path && urxe_path_far(qp->path)) &&
	    urxe_port_nobody(qp->dev->port, qpn))
		urxe_peer_gone(qp->dev, urxe_ident_qpn_slot(qpn));
}

static bool take(_Atomic uint64_t from[4], uint64_t slots[4])
{
	uint64_t any = 0;

	for (unsigned i = 0; i < 4; i++) {
		slots[i] = atomic_load_explicit(&from[i], memory_order_relaxed)
				   ? atomic_exchange(&from[i], 0)
				   : 0;
		any |= slots[i];
	}
	return any;
}

bool urxe_gsi_take_gone(struct ibv_context *ctx, uint64_t slots[4])
{
	return take(to_urxe_dev(ctx)->gone.cm, slots);
}

static bool is_gone(const struct urxe_qp *qp, const uint64_t slots[4]) URXE_REQUIRES(qp->lock)
{
	unsigned slot = urxe_ident_qpn_slot(qp->dqpn);

	return !qp->destroyed && urxe_qp_acked(qp) && qp->path && !urxe_path_far(qp->path) &&
	       slot &&
	       (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       slots[slot / 64] >> slot % 64 & 1;
}

/* What the dead have sent counts: their last ACKs have arrived, and are looked at first. */
static void last_words(struct urxe_device *dev)
{
	for (unsigned i = 0; i < LAST_TURNS; i++) {
		int n = urxe_progress_turn(dev);

		if (!n)
			return;
		if (n < 0)
			sched_yield(); /* somebody else is at it */
	}
}

void urxe_peer_gone_run(struct urxe_device *dev)
{
	uint64_t slots[4];
	struct urxe_qp *qp;

	if (!take(dev->gone.slots, slots))
		return;
	last_words(dev);
	/* The CM, too, comes behind them: a REJ, say, that says more than a death does. */
	for (unsigned i = 0; i < 4; i++)
		atomic_fetch_or(&dev->gone.cm[i], slots[i]);
	urxe_service_gsi(dev);
	urxe_lend_gone(dev, slots);
	urxe_rcu_read_lock();
	for (unsigned i = 0; (qp = urxe_table_next(&dev->qps, &i)); i++) {
		urxe_spin_lock(&qp->lock);
		if (is_gone(qp, slots)) {
			qp->req.peer_gone = true;
			urxe_requester_check_peer(qp);
		}
		urxe_spin_unlock(&qp->lock);
	}
	urxe_rcu_read_unlock();
}
