/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion events: when a CQ sends one to its channel, moderation, and the request for the next.
 */
#include "provider.h"
#include "cq.h"
#include "door.h"
#include "service.h"
#include "wake.h"

#define LEFT_NS 100000000ull /* who has just asked for an event is given so long to poll */

static bool send_event(struct urxe_cq *cq)
{
	return urxe_channel_notify(cq->vcq.cq.channel, &cq->vcq.cq);
}

/* The channel is full: as if the completion had not come yet, for the next one to try again. */
static void take_back(struct urxe_cq *cq, int armed) URXE_REQUIRES(cq->lock)
{
	cq->events_sent--;
	if (atomic_load_explicit(&cq->armed, memory_order_relaxed) < armed)
		atomic_store_explicit(&cq->armed, armed, memory_order_relaxed);
}

static void cq_fire(struct urxe_cq *cq) URXE_REQUIRES(cq->lock)
{
	int armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);

	cq->mod_waiting = 0;
	/* Counted before it can be read: destroy compares with what was acked. */
	cq->events_sent++;
	atomic_store_explicit(&cq->armed, URXE_CQ_UNARMED, memory_order_relaxed);
	if (!urxe_wakes_add(cq, armed) && !send_event(cq))
		take_back(cq, armed);
}

void urxe_cq_event_send(struct urxe_cq *cq, int armed)
{
	if (send_event(cq))
		return;
	urxe_spin_lock(&cq->lock);
	take_back(cq, armed);
	urxe_spin_unlock(&cq->lock);
}

void urxe_cq_set_timer(struct urxe_cq *cq, uint64_t when)
{
	struct urxe_sched *s = &cq->dev->sched;

	cq->timer_used = true;
	urxe_spin_lock(&s->lock);
	urxe_timer_set(&s->timers, &cq->timer, when);
	atomic_store_explicit(&s->next_timer, urxe_timer_first(&s->timers)->when,
			      memory_order_relaxed);
	urxe_spin_unlock(&s->lock);
}

bool urxe_cq_notify(struct urxe_cq *cq, bool urgent)
{
	/* One completion after which to tell is no moderation, a count of 0 no limit. */
	if (urgent || !cq->mod_period || cq->mod_count == 1 ||
	    (++cq->mod_waiting >= cq->mod_count && cq->mod_count)) {
		cq_fire(cq);
		return false;
	}
	if (cq->mod_waiting > 1)
		return false;
	urxe_cq_set_timer(cq, urxe_port_now(cq->dev->port) + cq->mod_period);
	return true;
}

/* Is there an unpolled completion of the kind that @arm waits for? */
static bool cq_left(const struct urxe_cq *cq, int arm) URXE_REQUIRES(cq->lock)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	if (arm == URXE_CQ_ARM_ANY)
		return urxe_cq_tail(cq) != head;
	for (uint32_t i = urxe_cq_tail(cq); arm == URXE_CQ_ARM_SOLICITED && i != head; i++)
		if (cq->ring[i & (cq->size - 1)].solicited)
			return true;
	return false;
}

void urxe_cq_timer(struct urxe_cq *cq)
{
	bool failing;
	int armed;

	urxe_spin_lock(&cq->lock);
	failing = cq->failing;
	cq->failing = false;
	armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
	/* Still armed: what is there, and no moderation holds it back, was there before. */
	if (armed != URXE_CQ_UNARMED && (cq->mod_waiting || cq_left(cq, armed)))
		cq_fire(cq);
	urxe_spin_unlock(&cq->lock);
	if (failing)
		urxe_qp_fail_users(cq);
}

int urxe_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct urxe_cq *cq = to_urxe_cq(ibcq);
	uint64_t left = 0;
	bool unarmed;

	if (urxe_device_check(cq->dev))
		return urxe_ret(EIO);
	if (!ibcq->channel)
		return urxe_ret(EINVAL);
	urxe_spin_lock(&cq->lock);
	unarmed = atomic_load_explicit(&cq->armed, memory_order_relaxed) == URXE_CQ_UNARMED;
	/* Polls in vain before and after are not in a row (leaves() in cq.c). */
	if (unarmed)
		atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
	/* The stronger request stays (IBTA 11.4.2.2). */
	if (!solicited_only || unarmed)
		atomic_store_explicit(&cq->armed,
				      solicited_only ? URXE_CQ_ARM_SOLICITED : URXE_CQ_ARM_ANY,
				      memory_order_relaxed);
	/*
	 * Of what came before the request the standard promises no event, and some programs count
	 * one for each completion. Others poll once for an event, or ask when their peer may have
	 * begun (perftest -e), and wait for ever when all has come already: they are told, late.
	 */
	if (!cq->mod_waiting &&
	    cq_left(cq, atomic_load_explicit(&cq->armed, memory_order_relaxed))) {
		left = urxe_port_now(cq->dev->port) + LEFT_NS;
		urxe_cq_set_timer(cq, left);
	}
	urxe_spin_unlock(&cq->lock);
	/* No frame need come until then. */
	if (left)
		urxe_service_by(cq->dev, left);
	/* From now on the caller may sleep: somebody else must drive. */
	if (atomic_load_explicit(&cq->dev->started, memory_order_relaxed))
		urxe_service_leave(cq->dev);
	return 0;
}
