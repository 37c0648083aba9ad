/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests that find their listener's backlog full. The kernel does not answer then: its peers
 * retransmit for a minute, and get in once the application has taken what waits. Programs with a
 * small backlog count on that. Here the request is kept: its peer hears MRA as from any slow
 * consumer (IBTA 12.6.6), and is let in when there is room. Only those beyond what is kept are
 * rejected.
 */
#include <errno.h>
#include <stdlib.h>

#include "cm/rdma/cma.h"
#include "provider/gsi.h"
#include "urxe/gid.h"

#define SILENT	   (30 * 1000000000ull) /* ns: longer than any CM waits to ask again */
#define SWEEP	   1000000000ull
#define OWED_LEAST 1024
#define OF_SENDER  (URXE_CMA_WAITERS / 4 * 3) /* may wait: the rest is there for others */

static unsigned sender_hash(const struct urxe_cm_id *cm)
{
	return urxe_gid_hash(urxe_cm_get_path(cm)->dgid.raw) % URXE_CMA_SENDERS;
}

int urxe_cma_backlog_init(struct urxe_cma_id *listener)
{
	if (listener->senders)
		return 0;
	listener->senders = calloc(URXE_CMA_SENDERS, sizeof(*listener->senders));
	for (unsigned i = 0; listener->senders && i < URXE_CMA_SENDERS; i++)
		CDS_INIT_LIST_HEAD(&listener->senders[i].waiters);
	return listener->senders ? 0 : ENOMEM;
}

void urxe_cma_backlog_count(struct urxe_cma_id *listener, const struct urxe_cma_id *child, int n)
{
	unsigned *of_sender =
		&listener->senders[urxe_gid_hash(child->dgid.raw) % URXE_CMA_SENDERS].pending;

	listener->pending += n;
	*of_sender += (unsigned)n;
}

/*
 * One address may have as many requests pending as the backlog is long; a quarter more is there
 * for the others, whom it cannot shut out.
 */
static bool is_full(const struct urxe_cma_id *listener, const struct urxe_cm_id *cm)
{
	return listener->pending >= listener->backlog + listener->backlog / 4 + 1 ||
	       listener->senders[sender_hash(cm)].pending >= (unsigned)listener->backlog;
}

/*
 * A peer that was accepted and does not answer has left the backlog, but holds a QP of the
 * application's for as long as the REP is repeated. One address may have so many without RTU.
 */
static bool is_owed(const struct urxe_cma_id *listener, const struct urxe_cm_id *cm)
{
	unsigned most = 4 * (unsigned)listener->backlog;

	return listener->id.qp_type != IBV_QPT_UD &&
	       urxe_cm_unanswered(cm) >= (most > OWED_LEAST ? most : OWED_LEAST);
}

bool urxe_cma_backlog_fits(const struct urxe_cma_id *listener, const struct urxe_cm_id *cm)
{
	return !is_full(listener, cm) && !is_owed(listener, cm);
}

/* ---- those who wait ---- */

static void forget(struct urxe_cma_waiter *w)
{
	struct urxe_cma_listening *l = w->service->dev->listening;

	l->n_waiters--;
	w->listener->waiting--;
	l->of_sender[sender_hash(w->cm)]--;
	cds_list_del(&w->entry);
	cds_list_del(&w->all);
	free(w);
}

/* As if it had never come: a peer that lives asks again. */
static bool forget_silent(struct urxe_cma_waiter *w)
{
	struct urxe_cm_id *cm = w->cm;

	if (urxe_cm_silence(cm) < SILENT && !w->service->dev->lost)
		return false;
	forget(w);
	urxe_cm_ignore(cm);
	urxe_cm_destroy(cm);
	return true;
}

/* Is there room for one more? Peers that died give theirs back. */
static bool can_wait(const struct urxe_cma_dev *dev, const struct urxe_cm_id *cm)
{
	struct urxe_cma_listening *l = dev->listening;
	const unsigned *of_sender = &l->of_sender[sender_hash(cm)];
	uint64_t now = urxe_gsi_now(dev->verbs);
	struct urxe_cma_waiter *w, *next;

	if ((l->n_waiters >= URXE_CMA_WAITERS || *of_sender >= OF_SENDER) &&
	    now >= l->swept + SWEEP) {
		l->swept = now;
		cds_list_for_each_entry_safe (w, next, &l->waiters, all)
			forget_silent(w);
	}
	return l->n_waiters < URXE_CMA_WAITERS && *of_sender < OF_SENDER;
}

bool urxe_cma_backlog_wait(struct urxe_cma_service *svc, struct urxe_cma_id *listener,
			   struct urxe_cm_id *cm)
{
	struct urxe_cma_listening *l = svc->dev->listening;
	struct urxe_cma_waiter *w = can_wait(svc->dev, cm) ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return false;
	w->service = svc;
	w->listener = listener;
	w->cm = cm;
	cds_list_add_tail(&w->entry, &listener->senders[sender_hash(cm)].waiters);
	cds_list_add_tail(&w->all, &l->waiters);
	l->n_waiters++;
	listener->waiting++;
	l->of_sender[sender_hash(cm)]++;
	urxe_cm_set_handler(cm, urxe_cma_waiter_handler, w);
	return true;
}

static bool admit_one(struct urxe_cma_id *listener) URXE_REQUIRES(urxe_cma_lock)
{
	for (unsigned i = 0; i < URXE_CMA_SENDERS; i++) {
		unsigned at = (listener->next_sender + i) % URXE_CMA_SENDERS;
		struct cds_list_head *waiters = &listener->senders[at].waiters;
		struct urxe_cma_service *svc;
		struct urxe_cma_waiter *w;
		struct urxe_cm_id *cm;

		if (cds_list_empty(waiters))
			continue;
		w = cds_list_first_entry(waiters, struct urxe_cma_waiter, entry);
		cm = w->cm;
		svc = w->service;
		if (!urxe_cma_backlog_fits(listener, cm))
			continue;
		listener->next_sender = at + 1;
		if (forget_silent(w))
			return true;
		forget(w);
		urxe_cm_set_handler(cm, urxe_cma_request_handler, svc);
		urxe_cm_tell_again(cm);
		return true;
	}
	return false;
}

void urxe_cma_backlog_admit(struct urxe_cma_id *listener)
{
	if (listener->state != URXE_CMA_LISTEN)
		return;
	while (listener->waiting && admit_one(listener))
		;
}

void urxe_cma_backlog_admit_all(const struct urxe_cma_dev *dev)
{
	struct urxe_cma_service *svc;
	struct urxe_cma_binding *b;

	if (!dev || dev->lost || !dev->listening || !dev->listening->n_waiters)
		return;
	cds_list_for_each_entry (svc, &dev->listening->services, entry) {
		cds_list_for_each_entry (b, &svc->bindings, entry)
			urxe_cma_backlog_admit(b->id);
	}
}

void urxe_cma_backlog_end(struct urxe_cma_id *listener)
{
	struct urxe_cma_waiter *w, *next;

	for (unsigned i = 0; listener->senders && i < URXE_CMA_SENDERS; i++) {
		cds_list_for_each_entry_safe (w, next, &listener->senders[i].waiters, entry) {
			struct urxe_cm_id *cm = w->cm;

			forget(w);
			urxe_cm_destroy(cm);
		}
	}
}

int urxe_cma_waiter_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context)
{
	/* The peer has given up (REJ), or is on with another connection. */
	if (ev->type != URXE_CM_EV_REJ_RECEIVED)
		return 0;
	forget(context);
	return 1;
}
