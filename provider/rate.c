/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packet pacing: what a QP may send in a time, by the virtual scheduling of GCRA. A packet may go
 * out while the time at which all before it would be through lies within the burst allowed.
 */
#include <errno.h>

#include "provider.h"
#include "progress.h"
#include "rate.h"

#define BURST_DEFAULT (16u << 10)

/* The lower of two limits, of which 0 is none. */
static uint32_t lower(uint32_t a, uint32_t b)
{
	return !a || (b && b < a) ? b : a;
}

static uint64_t wire_time(uint32_t kbps, uint64_t bytes)
{
	return bytes * 8000000ull / kbps;
}

bool urxe_pace_wait(struct urxe_qp *qp, uint32_t kbps, uint64_t now)
{
	const struct urxe_pace *p = &qp->pace;
	uint64_t slack;

	kbps = lower(qp->kbps, kbps);
	if (!kbps)
		return false;
	slack = wire_time(kbps, p->burst ? p->burst : BURST_DEFAULT);
	if (p->busy_until <= now + slack)
		return false;
	urxe_progress_timer(qp, p->busy_until - slack);
	return true;
}

uint32_t urxe_pace_packets(const struct urxe_qp *qp, uint32_t kbps, uint32_t bytes, uint64_t ns)
{
	uint64_t n;

	kbps = lower(qp->kbps, kbps);
	if (!kbps)
		return UINT32_MAX;
	n = ns * kbps / 8000000 / bytes;
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void urxe_pace_sent(struct urxe_qp *qp, uint32_t kbps, uint64_t now, uint32_t bytes)
{
	struct urxe_pace *p = &qp->pace;

	kbps = lower(qp->kbps, kbps);
	if (!kbps)
		return;
	if (p->busy_until < now)
		p->busy_until = now;
	p->busy_until += wire_time(kbps, bytes);
}

void urxe_pace_set(struct urxe_qp *qp, uint32_t kbps, uint32_t burst)
{
	qp->kbps = kbps;
	qp->pace.burst = burst ? burst : BURST_DEFAULT;
	qp->pace.busy_until = 0;
	qp->attr.rate_limit = kbps;
}

int urxe_modify_qp_rate_limit(struct ibv_qp *ibqp, struct ibv_qp_rate_limit_attr *attr)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	int err = 0;

	if (urxe_device_check(qp->dev))
		return EIO;
	if (attr->comp_mask || (attr->rate_limit && attr->rate_limit < URXE_RATE_MIN))
		return EINVAL;
	if (!qp->scq)
		return EINVAL; /* XRC_RECV sends nothing of its own */
	urxe_spin_lock(&qp->lock);
	if (qp->state != IBV_QPS_RTR && qp->state != IBV_QPS_RTS)
		err = EINVAL;
	else
		urxe_pace_set(qp, attr->rate_limit, attr->max_burst_sz);
	if (!err && qp->sq.cur != qp->sq.post)
		urxe_progress_kick(qp);
	urxe_spin_unlock(&qp->lock);
	return err;
}
