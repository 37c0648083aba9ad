/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Neighbours and time: states that end, the carrier, announcements of own addresses.
 */
#include "netio/neigh_priv.h"

#include <limits.h>

#define PROBE_INTERVAL URXE_SEC
#define PROBE_TRIES    3
#define RIVAL_TRIES    2	/* with an answer to who claims it: three frames for one, at most */
#define HOLD_TIME      URXE_SEC /* after a failure */
#define ANNOUNCEMENTS  2	/* RFC 5227 2.3 */
#define ANNOUNCE_GAP   (2 * URXE_SEC)
#define CARRIER_POLL   (100 * URXE_MSEC)

/* The state timed out. True: the entry is to be freed. */
static bool timeout(struct urxe_port *port, struct urxe_lane *lane, struct urxe_neigh *n,
		    uint64_t now, struct urxe_neigh_question *q)
	URXE_REQUIRES(lane, port->neigh.lock)
{
	switch (urxe_neigh_state_of(n)) {
	case NEIGH_INCOMPLETE:
		if (++n->tries < URXE_NEIGH_ASK_TRIES) {
			urxe_neigh_enter(port, n, NEIGH_INCOMPLETE, NULL,
					 now + urxe_neigh_ask_interval[n->tries]);
			urxe_neigh_question_for(q, n, false);
			return false;
		}
		break; /* failed */
	case NEIGH_REACHABLE:
		/* In use: ask before the entry is needed. Otherwise upon the next use. */
		if (port->ops->resolve) {
			urxe_neigh_enter(port, n, NEIGH_STALE, NULL, urxe_neigh_linger(n, now));
			return false;
		}
		if (!atomic_exchange_explicit(&n->used, false, memory_order_relaxed)) {
			urxe_neigh_enter(port, n, NEIGH_STALE, NULL, urxe_neigh_linger(n, now));
			return false;
		}
		__attribute__((fallthrough));
	case NEIGH_DELAY:
		n->tries = 0;
		urxe_neigh_enter(port, n, NEIGH_PROBE, NULL, now + PROBE_INTERVAL);
		urxe_neigh_question_for(q, n, true);
		return false;
	case NEIGH_PROBE:
		if (++n->tries < (n->rival ? RIVAL_TRIES : PROBE_TRIES)) {
			n->due = now + (n->rival ? URXE_NEIGH_RIVAL_INTERVAL : PROBE_INTERVAL);
			urxe_neigh_question_for(q, n, true);
			return false;
		}
		if (!n->rival)
			break; /* failed */
		urxe_neigh_settle(n, now);
		urxe_neigh_enter(port, n, NEIGH_STALE, n->rival_mac, urxe_neigh_linger(n, now));
		return false;
	default:
		n->due = URXE_NEVER;
		return !n->refs;
	}
	urxe_count(lane, URXE_CNT_neigh_failed, 1);
	if (n->brief && !n->refs)
		return true;
	n->brief = false;
	n->hold = now + HOLD_TIME;
	urxe_neigh_enter(port, n, NEIGH_FAILED, NULL, urxe_neigh_linger(n, now));
	return false;
}

/* A link that comes (back) may have a new peer: announce ourselves, believe nothing old. Locked. */
static void carrier_changed(struct urxe_port *port, uint64_t now) URXE_REQUIRES(port->neigh.lock)
{
	struct urxe_neigh_table *t = &port->neigh;

	t->announce_left = port->ops->resolve ? 0 : ANNOUNCEMENTS;
	t->announce_who = UINT64_MAX;
	t->announce_due = now;
	for (unsigned b = 0; b < NEIGH_BUCKETS; b++) {
		for (struct urxe_neigh *n = t->bucket[b]; n; n = n->next) {
			n->unsure = true;
			if (urxe_neigh_state_of(n) == NEIGH_REACHABLE) {
				urxe_neigh_enter(port, n, NEIGH_STALE, NULL,
						 urxe_neigh_linger(n, now));
			} else if (urxe_neigh_state_of(n) == NEIGH_FAILED) {
				n->hold = now;
			} else if (urxe_neigh_state_of(n) == NEIGH_INCOMPLETE) {
				/* Nobody received it: the next question is the first, and now. */
				n->tries = UINT_MAX;
				n->due = now;
			}
		}
	}
}

/* Has the carrier come? Locked. */
static bool watch_carrier(struct urxe_port *port, uint64_t now) URXE_REQUIRES(port->neigh.lock)
{
	struct urxe_neigh_table *t = &port->neigh;
	bool up = port->ops->up(port->link);

	if (up == atomic_load_explicit(&t->was_up, memory_order_relaxed))
		return false;
	atomic_store_explicit(&t->was_up, up, memory_order_relaxed);
	atomic_store_explicit(&port->carrier_until, 0, memory_order_relaxed);
	if (up) {
		if (port->card && !atomic_load_explicit(&port->was_ever_up, memory_order_relaxed))
			atomic_store_explicit(&port->settles_until, now + LINK_SETTLES,
					      memory_order_relaxed);
		atomic_store_explicit(&port->was_ever_up, true, memory_order_relaxed);
		carrier_changed(port, now);
	}
	return up;
}

/* One announcement is due: returns how many are left with this one, 0 for none. Locked. */
static unsigned announce_due(struct urxe_port *port, uint64_t now, uint64_t *who)
	URXE_REQUIRES(port->neigh.lock)
{
	struct urxe_neigh_table *t = &port->neigh;
	bool up = atomic_load_explicit(&t->was_up, memory_order_relaxed);

	if (!t->announce_left || now < t->announce_due)
		return 0;
	if (!up) {
		t->announce_due = now + CARRIER_POLL;
		return 0;
	}
	*who = t->announce_who;
	if (t->announce_left == 1)
		t->announce_who = 0;
	t->announce_due = t->announce_left > 1 ? now + ANNOUNCE_GAP : URXE_NEVER;
	return t->announce_left--;
}

static void announce(struct urxe_lane *lane, uint64_t who, bool first) URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	const struct urxe_gid_entry *own;

	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		own = who >> i & 1 ? urxe_port_own(port, i) : NULL;
		if (!own)
			continue;
		if (own->ipv4)
			urxe_arp_announce(lane, own->gid, first);
		else
			urxe_nd_announce(lane, own->gid, first);
	}
}

/*
 * The next entry that is due, dealt with: from bucket *from on, where the next call goes on. True
 * while there may be more; *next is the first that is not due yet. Locked.
 */
static bool expire_one(struct urxe_port *port, struct urxe_lane *lane, uint64_t now,
		       struct urxe_neigh_question *q, unsigned *from, uint64_t *next)
	URXE_REQUIRES(lane, port->neigh.lock)
{
	struct urxe_neigh_table *t = &port->neigh;

	for (unsigned b = *from; b < NEIGH_BUCKETS; b++) {
		*from = b;
		for (struct urxe_neigh **pn = &t->bucket[b], *n; (n = *pn);) {
			if (n->due > now) {
				if (n->due < *next)
					*next = n->due;
				pn = &n->next;
				continue;
			}
			if (timeout(port, lane, n, now, q))
				urxe_neigh_drop(t, pn);
			return true;
		}
	}
	return false;
}

uint64_t urxe_neigh_tick(struct urxe_lane *lane, uint64_t now)
{
	struct urxe_port *port = lane->port;
	struct urxe_neigh_table *t = &port->neigh;
	uint64_t next = atomic_load_explicit(&t->next_due, memory_order_relaxed), due, who;
	unsigned left, from = 0;
	bool more, came;

	/* Senders that wait for the link are to go in its first microsecond. */
	if (now < next &&
	    (atomic_load_explicit(&t->was_up, memory_order_relaxed) || !port->ops->up(port->link)))
		return next;
	urxe_spin_lock(&port->neigh.lock);
	came = watch_carrier(port, now);
	left = announce_due(port, now, &who);
	t->scheduled = next = URXE_NEVER;
	urxe_spin_unlock(&port->neigh.lock);
	if (came)
		urxe_mcast_report_all(port);
	if (left)
		announce(lane, who, left == ANNOUNCEMENTS);
	urxe_mcast_tick(lane, now);
	do {
		struct urxe_neigh_question q = {false};

		urxe_spin_lock(&port->neigh.lock);
		more = expire_one(port, lane, now, &q, &from, &next);
		if (!more) {
			/* In a bucket that was looked at before. */
			if (t->scheduled < next)
				next = t->scheduled;
			if (t->announce_left && t->announce_due < next)
				next = t->announce_due;
			due = atomic_load_explicit(&port->mcast.due, memory_order_relaxed);
			if (due < next)
				next = due;
			atomic_store_explicit(&t->next_due, next, memory_order_relaxed);
		}
		urxe_spin_unlock(&port->neigh.lock);
		urxe_neigh_ask_now(lane, &q);
	} while (more);
	return next;
}

void urxe_neigh_announce(struct urxe_port *port, uint64_t who)
{
	if (port->ops->resolve)
		return;
	urxe_spin_lock(&port->neigh.lock);
	port->neigh.announce_left = ANNOUNCEMENTS;
	port->neigh.announce_who |= who;
	port->neigh.announce_due = 0;
	urxe_neigh_schedule_locked(port, 0);
	urxe_spin_unlock(&port->neigh.lock);
}
