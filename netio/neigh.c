/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Neighbours of both families: ARP and ND differ in their packets alone, the states are
 * those of RFC 4861 7.3.2. A sender that finds a usable MAC in an entry's word takes no
 * lock. An entry lives while paths refer to it, and for a while after its last packet.
 */
#include "netio/stack.h"
#include "netio/trace.h"

#include <limits.h>
#include <stdlib.h>

#include "urxe/free.h"
#include "urxe/log.h"

const char *const urxe_neigh_state_names[NEIGH_STATES] = {
	[NEIGH_NONE] = "NONE",		 [NEIGH_INCOMPLETE] = "INCOMPLETE",
	[NEIGH_FAILED] = "FAILED",	 [NEIGH_STALE] = "STALE",
	[NEIGH_DELAY] = "DELAY",	 [NEIGH_PROBE] = "PROBE",
	[NEIGH_REACHABLE] = "REACHABLE",
};

/* Multicast questions go out quickly at first: most answers take microseconds. 3.1 s in all. */
static const uint64_t ask_interval[] = {100 * URXE_MSEC, 200 * URXE_MSEC, 400 * URXE_MSEC,
					800 * URXE_MSEC, 1600 * URXE_MSEC};
#define ASK_TRIES      (sizeof(ask_interval) / sizeof(ask_interval[0]))
#define REACHABLE_TIME (30 * URXE_SEC)
#define DELAY_TIME     URXE_SEC
#define PROBE_INTERVAL URXE_SEC
#define PROBE_TRIES    3
#define RIVAL_INTERVAL (50 * URXE_MSEC) /* between questions while another MAC claims to be it */
#define RIVAL_TRIES    2	/* with an answer to who claims it: three frames for one, at most */
#define LOCK_TIME      URXE_SEC /* after it was settled which MAC is true */
#define HOLD_TIME      URXE_SEC /* after a failure */
#define DOUBT_TIME     (10 * URXE_MSEC) /* between questions that a transport causes */
#define ANSWERS	       50		/* in each LIMIT_TICK, of one lane */
#define VICTIMS	       32		/* entries that are looked at for one to go */
#define LINGER_TIME    (60 * URXE_SEC)	/* of an entry that nobody refers to */
#define ANNOUNCEMENTS  2		/* RFC 5227 2.3 */
#define ANNOUNCE_GAP   (2 * URXE_SEC)
#define TABLE_TIME     URXE_SEC /* a link's own answer is asked for again after this */
#define CARRIER_POLL   (100 * URXE_MSEC)
#define WARN_INTERVAL  (10 * URXE_SEC)

/* A question to ask once the table's lock is given back. */
struct question {
	bool ask, unicast;
	unsigned sgid_index;
	uint8_t gid[16], mac[6];
};

/* ---- table ---- */

static unsigned hash(const uint8_t gid[16])
{
	return urxe_gid_hash(gid) % NEIGH_BUCKETS;
}

static struct urxe_neigh *find(struct urxe_neigh_table *t, const uint8_t gid[16])
{
	struct urxe_neigh *n = t->bucket[hash(gid)];

	while (n && memcmp(n->gid, gid, 16))
		n = n->next;
	return n;
}

static struct urxe_neigh *add(struct urxe_neigh_table *t, const uint8_t gid[16], unsigned sgid)
{
	struct urxe_neigh *n = calloc(1, sizeof(*n)), **head = &t->bucket[hash(gid)];

	if (!n)
		return NULL;
	memcpy(n->gid, gid, 16);
	n->sgid_index = sgid;
	n->due = URXE_NEVER;
	n->next = *head;
	*head = n;
	t->count++;
	return n;
}

static enum urxe_neigh_state state_of(const struct urxe_neigh *n)
{
	return urxe_neigh_word_state(atomic_load_explicit(&n->word, memory_order_relaxed));
}

/* Only under the lock; senders read the word at any time. */
static void set_word(struct urxe_neigh *n, enum urxe_neigh_state state, const uint8_t mac[6])
{
	uint64_t word = (uint64_t)state << 48;

	if (mac)
		word |= (uint64_t)urxe_get16(mac) << 32 | urxe_get32(mac + 2);
	else
		word |= atomic_load_explicit(&n->word, memory_order_relaxed) & 0xffffffffffffull;
	atomic_store_explicit(&n->word, word, memory_order_relaxed);
}

/* Something is to do at @due: no sleeper may sleep beyond. Under the lock. */
static void schedule(struct urxe_port *port, uint64_t due) URXE_REQUIRES(port->neigh.lock)
{
	if (due < port->neigh.scheduled)
		port->neigh.scheduled = due;
	if (due >= atomic_load_explicit(&port->neigh.next_due, memory_order_relaxed))
		return;
	atomic_store_explicit(&port->neigh.next_due, due, memory_order_relaxed);
	urxe_port_wake(port);
}

void urxe_neigh_schedule(struct urxe_port *port, uint64_t due)
{
	urxe_spin_lock(&port->neigh.lock);
	schedule(port, due);
	urxe_spin_unlock(&port->neigh.lock);
}

static void enter(struct urxe_port *port, struct urxe_neigh *n, enum urxe_neigh_state state,
		  const uint8_t mac[6], uint64_t due) URXE_REQUIRES(port->neigh.lock)
{
	urxe_trace_neighbour(n->gid, state_of(n), state);
	if (state >= NEIGH_STALE && state_of(n) < NEIGH_STALE)
		atomic_fetch_add_explicit(&port->neigh.news, 1, memory_order_relaxed);
	if (state == NEIGH_REACHABLE)
		atomic_store_explicit(&port->settles_until, 0, memory_order_relaxed);
	set_word(n, state, mac);
	n->due = due;
	schedule(port, due);
}

static uint64_t linger(const struct urxe_neigh *n, uint64_t now)
{
	return n->refs ? URXE_NEVER : now + LINGER_TIME;
}

static void question_for(struct question *q, const struct urxe_neigh *n, bool unicast)
{
	q->ask = true;
	q->unicast = unicast;
	q->sgid_index = n->sgid_index;
	memcpy(q->gid, n->gid, 16);
	urxe_neigh_word_mac(atomic_load_explicit(&n->word, memory_order_relaxed), q->mac);
}

static void ask(struct urxe_lane *lane, const struct question *q) URXE_REQUIRES(lane)
{
	const uint8_t *own = q->ask ? urxe_port_asker(lane->port, q->sgid_index, q->gid) : NULL;

	if (!own)
		return;
	urxe_count(lane, URXE_CNT_neigh_asked, 1);
	if (urxe_gid_is_v4(q->gid))
		urxe_arp_ask(lane, own, q->gid, q->unicast ? q->mac : NULL);
	else
		urxe_nd_ask(lane, own, q->gid, q->unicast ? q->mac : NULL);
}

/* The entry goes: on a thread of ours, too (urxe/free.h). */
static void drop_entry(struct urxe_neigh_table *t, struct urxe_neigh **pn)
{
	struct urxe_neigh *n = *pn;

	*pn = n->next;
	t->count--;
	urxe_free(n);
}

/* What nobody refers to is worth the less the less is known of it. */
static unsigned worth(const struct urxe_neigh *n)
{
	enum urxe_neigh_state state = state_of(n);

	return state == NEIGH_NONE || state == NEIGH_FAILED ? 0 : state == NEIGH_INCOMPLETE ? 1 : 2;
}

/* One entry goes: the least of some that nobody refers to. False: there is none. */
static bool make_room(struct urxe_port *port) URXE_REQUIRES(port->neigh.lock)
{
	struct urxe_neigh_table *t = &port->neigh;
	struct urxe_neigh **least = NULL, *n;
	unsigned seen = 0;

	for (unsigned i = 0; i < NEIGH_BUCKETS && seen < VICTIMS; i++) {
		t->victim = (t->victim + 1) % NEIGH_BUCKETS;
		for (struct urxe_neigh **pn = &t->bucket[t->victim]; (n = *pn); pn = &n->next) {
			if (n->refs)
				continue;
			seen++;
			if (!least || worth(n) < worth(*least))
				least = pn;
		}
	}
	if (!least)
		return false;
	drop_entry(t, least);
	return true;
}

/* Of a link that knows who has which address: that is asked instead of everybody. */
static int look_up(struct urxe_port *port, struct urxe_neigh *n) URXE_REQUIRES(port->neigh.lock)
{
	uint64_t now = urxe_port_now(port);
	char buf[URXE_GID_STRLEN];
	uint8_t mac[6];
	int err = port->ops->resolve(port->link, n->gid, mac);

	if (!err) {
		/* Should it be found nowhere later, it is as far as it was. */
		atomic_store_explicit(&n->far, port->ops->far && port->ops->far(port->link, mac),
				      memory_order_relaxed);
		enter(port, n, NEIGH_REACHABLE, mac, now + TABLE_TIME);
		return 0;
	}
	/* Who leads there is on the way. */
	if (err == EINPROGRESS)
		return err;
	if (state_of(n) != NEIGH_FAILED || now >= n->hold) {
		n->hold = now + WARN_INTERVAL;
		urxe_warn("%s: nobody on %s has the address %s, and %s", port->cfg.name,
			  port->cfg.port, urxe_gid_print(n->gid, buf, sizeof(buf)),
			  port->ops->nowhere ? port->ops->nowhere(port->link)
					     : "it leads nowhere else");
	}
	enter(port, n, NEIGH_FAILED, NULL, linger(n, now));
	return err;
}

bool urxe_neigh_far(struct urxe_port *port, const uint8_t gid[16])
{
	enum urxe_neigh_state state = NEIGH_NONE;
	struct urxe_neigh *n;
	uint8_t mac[6];
	bool far;
	int err;

	/* The link is there when the port has started. */
	if (!port->ops->far || !atomic_load_explicit(&port->started, memory_order_acquire))
		return false;
	urxe_spin_lock(&port->neigh.lock);
	n = find(&port->neigh, gid);
	if (n)
		state = state_of(n);
	if (state != NEIGH_NONE)
		far = atomic_load_explicit(&n->far, memory_order_relaxed);
	else if (!(err = port->ops->resolve(port->link, gid, mac)))
		far = port->ops->far(port->link, mac);
	else /* a gateway is being started, or one that was there may come back */
		far = err == EINPROGRESS ||
		      atomic_load_explicit(&port->far_l3, memory_order_relaxed);
	if (n)
		atomic_store_explicit(&n->far, far, memory_order_relaxed);
	urxe_spin_unlock(&port->neigh.lock);
	return far;
}

bool urxe_neigh_known(struct urxe_port *port, const uint8_t gid[16])
{
	struct urxe_neigh *n;
	uint8_t mac[6];
	bool known;

	if (port->ops->resolve)
		return !port->ops->resolve(port->link, gid, mac);

	urxe_spin_lock(&port->neigh.lock);
	n = find(&port->neigh, gid);
	known = n && state_of(n) >= NEIGH_STALE;
	urxe_spin_unlock(&port->neigh.lock);
	return known;
}

int urxe_neigh_get(struct urxe_port *port, const uint8_t gid[16], unsigned sgid_index,
		   struct urxe_neigh **out)
{
	struct urxe_neigh *n;

	urxe_spin_lock(&port->neigh.lock);
	n = find(&port->neigh, gid);
	if (!n) {
		if (port->neigh.count >= NEIGH_MAX)
			make_room(port);
		n = add(&port->neigh, gid, sgid_index);
	}
	if (n)
		n->refs++;
	urxe_spin_unlock(&port->neigh.lock);
	*out = n;
	return n ? 0 : ENOMEM;
}

void urxe_neigh_put(struct urxe_port *port, struct urxe_neigh *n)
{
	urxe_spin_lock(&port->neigh.lock);
	/* Timed states go on by themselves; the others wait for their end from now on. */
	if (!--n->refs && n->due == URXE_NEVER) {
		n->due = urxe_port_now(port) + LINGER_TIME;
		schedule(port, n->due);
	}
	urxe_spin_unlock(&port->neigh.lock);
}

/* ---- events ---- */

int urxe_neigh_use(struct urxe_lane *lane, struct urxe_neigh *n, uint64_t *word)
{
	struct urxe_port *port = lane->port;
	uint64_t now = urxe_port_now(port);
	struct question q = {false};
	int err = 0;

	urxe_spin_lock(&port->neigh.lock);
	if (port->ops->resolve) {
		err = look_up(port, n);
		goto out;
	}
	switch (state_of(n)) {
	case NEIGH_FAILED:
		if (now < n->hold) {
			err = EHOSTUNREACH;
			break;
		}
		__attribute__((fallthrough));
	case NEIGH_NONE:
		n->tries = 0;
		enter(port, n, NEIGH_INCOMPLETE, NULL, now + ask_interval[0]);
		question_for(&q, n, false);
		__attribute__((fallthrough));
	case NEIGH_INCOMPLETE:
		/* More than a stranger wants it now. */
		if (n->brief)
			n->tries = 0;
		n->brief = false;
		err = EINPROGRESS;
		break;
	case NEIGH_STALE:
		enter(port, n, NEIGH_DELAY, NULL, now + DELAY_TIME);
		break;
	default:
		break;
	}
out:
	*word = atomic_load_explicit(&n->word, memory_order_relaxed);
	urxe_spin_unlock(&port->neigh.lock);
	if (err)
		urxe_count(lane,
			   err == EINPROGRESS ? URXE_CNT_tx_unresolved : URXE_CNT_tx_unreachable,
			   1);
	ask(lane, &q);
	return err;
}

void urxe_neigh_ask(struct urxe_lane *lane, const uint8_t gid[16], unsigned sgid_index)
{
	struct urxe_port *port = lane->port;
	struct question q = {false};
	struct urxe_neigh *n;

	if (port->ops->resolve)
		return; /* it is known, or nobody has it */
	urxe_spin_lock(&port->neigh.lock);
	n = find(&port->neigh, gid);
	if (!n && (port->neigh.count < NEIGH_MAX || make_room(port)))
		n = add(&port->neigh, gid, sgid_index);
	if (n && (state_of(n) == NEIGH_NONE || state_of(n) == NEIGH_FAILED)) {
		n->brief = true;
		n->tries = ASK_TRIES - 1;
		enter(port, n, NEIGH_INCOMPLETE, NULL, urxe_port_now(port) + ask_interval[0]);
		question_for(&q, n, false);
	}
	urxe_spin_unlock(&port->neigh.lock);
	ask(lane, &q);
}

void urxe_neigh_suspect(struct urxe_lane *lane, struct urxe_neigh *n)
{
	struct urxe_port *port = lane->port;
	uint64_t now = urxe_port_now(port);
	struct question q = {false};

	/* Not PROBE: that would ask the suspect itself. Whoever answers, RFC 4861 7.2.5 judges. */
	urxe_spin_lock(&port->neigh.lock);
	if (port->ops->resolve) {
		look_up(port, n);
	} else if (state_of(n) >= NEIGH_STALE && now >= n->doubt) {
		n->doubt = now + DOUBT_TIME;
		question_for(&q, n, false);
	}
	urxe_spin_unlock(&port->neigh.lock);
	ask(lane, &q);
}

/* It is known for now which MAC is true. */
static void settle(struct urxe_neigh *n, uint64_t now)
{
	n->rival = n->unsure = false;
	n->settled = now + LOCK_TIME;
}

/*
 * Another MAC says that it is a neighbour whose MAC is known. Who has that one is asked first, and
 * keeps the address if it answers (as RFC 5227 2.4 has it defended): a lie costs the liar's frame
 * and ours, and changes nothing.
 */
static void challenge(struct urxe_port *port, struct urxe_lane *lane, struct urxe_neigh *n,
		      const uint8_t mac[6], uint64_t now, struct question *q)
	URXE_REQUIRES(lane, port->neigh.lock)
{
	if (n->rival || now < n->settled) {
		urxe_count(lane, URXE_CNT_neigh_disputed, 1);
		return;
	}
	n->rival = true;
	memcpy(n->rival_mac, mac, 6);
	n->tries = 0;
	enter(port, n, NEIGH_PROBE, NULL, now + RIVAL_INTERVAL);
	question_for(q, n, true);
}

/* The state timed out. True: the entry is to be freed. */
static bool timeout(struct urxe_port *port, struct urxe_lane *lane, struct urxe_neigh *n,
		    uint64_t now, struct question *q) URXE_REQUIRES(lane, port->neigh.lock)
{
	switch (state_of(n)) {
	case NEIGH_INCOMPLETE:
		if (++n->tries < ASK_TRIES) {
			enter(port, n, NEIGH_INCOMPLETE, NULL, now + ask_interval[n->tries]);
			question_for(q, n, false);
			return false;
		}
		break; /* failed */
	case NEIGH_REACHABLE:
		/* In use: ask before the entry is needed. Otherwise upon the next use. */
		if (port->ops->resolve) {
			enter(port, n, NEIGH_STALE, NULL, linger(n, now));
			return false;
		}
		if (!atomic_exchange_explicit(&n->used, false, memory_order_relaxed)) {
			enter(port, n, NEIGH_STALE, NULL, linger(n, now));
			return false;
		}
		__attribute__((fallthrough));
	case NEIGH_DELAY:
		n->tries = 0;
		enter(port, n, NEIGH_PROBE, NULL, now + PROBE_INTERVAL);
		question_for(q, n, true);
		return false;
	case NEIGH_PROBE:
		if (++n->tries < (n->rival ? RIVAL_TRIES : PROBE_TRIES)) {
			n->due = now + (n->rival ? RIVAL_INTERVAL : PROBE_INTERVAL);
			question_for(q, n, true);
			return false;
		}
		if (!n->rival)
			break; /* failed */
		settle(n, now);
		enter(port, n, NEIGH_STALE, n->rival_mac, linger(n, now));
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
	enter(port, n, NEIGH_FAILED, NULL, linger(n, now));
	return false;
}

/* Worth an entry: on one of our prefixes, and there is room. */
static struct urxe_neigh *learn(struct urxe_port *port, struct urxe_lane *lane,
				const uint8_t gid[16]) URXE_REQUIRES(lane, port->neigh.lock)
{
	const struct urxe_gid_entry *own;

	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		own = urxe_port_own(port, i);
		if (!own || !urxe_gid_on_link(own, gid))
			continue;
		if (port->neigh.count < NEIGH_MAX || make_room(port))
			return add(&port->neigh, gid, i);
		urxe_count(lane, URXE_CNT_neigh_full, 1);
		break;
	}
	return NULL;
}

/* RFC 4861 7.2.3 and 7.2.5, for ARP as well; but no known MAC is replaced before it was asked. */
static void heard_locked(struct urxe_port *port, struct urxe_lane *lane, struct urxe_neigh *n,
			 const uint8_t mac[6], unsigned heard, uint64_t now, struct question *q)
	URXE_REQUIRES(lane, port->neigh.lock)
{
	enum urxe_neigh_state state = state_of(n);
	bool known = state >= NEIGH_STALE, same;
	uint8_t old[6];

	urxe_neigh_word_mac(atomic_load_explicit(&n->word, memory_order_relaxed), old);
	same = known && !memcmp(old, mac, 6);
	if (known && !same && !(heard & NEIGH_HEARD_OVERRIDE)) {
		if (state == NEIGH_REACHABLE)
			enter(port, n, NEIGH_STALE, NULL, linger(n, now));
		return;
	}
	if (known && !same && !n->unsure) {
		challenge(port, lane, n, mac, now, q);
		return;
	}
	if (heard & NEIGH_HEARD_SOLICITED) {
		/* An answer that nobody asked for confirms nothing. */
		if (state == NEIGH_NONE || (known && !same))
			heard &= ~NEIGH_HEARD_SOLICITED;
	}
	if (!known) /* nothing was in dispute */
		n->rival = n->unsure = false;
	else if (!same || ((n->rival || n->unsure) && heard & NEIGH_HEARD_SOLICITED))
		settle(n, now);
	if (!known)
		urxe_count(lane, URXE_CNT_neigh_resolved, 1);
	n->brief = false;
	if (heard & NEIGH_HEARD_SOLICITED) {
		atomic_store_explicit(&n->used, false, memory_order_relaxed);
		enter(port, n, NEIGH_REACHABLE, mac, now + REACHABLE_TIME);
	} else if (!same) {
		enter(port, n, NEIGH_STALE, mac, linger(n, now));
	}
}

void urxe_neigh_heard(struct urxe_lane *lane, const uint8_t gid[16], const uint8_t mac[6],
		      unsigned heard)
{
	struct urxe_port *port = lane->port;
	struct question q = {false};
	struct urxe_neigh *n;

	/* No group, no zero MAC, and not our own. */
	if ((mac[0] & 1) || !memcmp(mac, "\0\0\0\0\0\0", 6) || !memcmp(mac, port->mac, 6))
		return;
	urxe_spin_lock(&port->neigh.lock);
	n = find(&port->neigh, gid);
	if (!n && (heard & NEIGH_HEARD_CREATE))
		n = learn(port, lane, gid);
	if (n)
		heard_locked(port, lane, n, mac, heard, urxe_port_now(port), &q);
	urxe_spin_unlock(&port->neigh.lock);
	ask(lane, &q);
}

/* A neighbour that a path leads to. */
static bool is_peer(struct urxe_port *port, const uint8_t gid[16], const uint8_t mac[6])
{
	struct urxe_neigh *n;
	uint8_t known[6];
	bool peer;

	urxe_spin_lock(&port->neigh.lock);
	n = find(&port->neigh, gid);
	peer = n && n->refs && state_of(n) >= NEIGH_STALE;
	if (peer)
		urxe_neigh_word_mac(atomic_load_explicit(&n->word, memory_order_relaxed), known);
	urxe_spin_unlock(&port->neigh.lock);
	return peer && !memcmp(known, mac, 6);
}

bool urxe_neigh_answers(struct urxe_lane *lane, const uint8_t gid[16], const uint8_t mac[6])
{
	uint64_t now = urxe_port_now(lane->port);

	if (urxe_limit(&lane->answers, ANSWERS, now) ||
	    (is_peer(lane->port, gid, mac) && urxe_limit(&lane->to_peers, ANSWERS, now)))
		return true;
	urxe_count(lane, URXE_CNT_neigh_limited, 1);
	return false;
}

/* ---- time ---- */

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
			if (state_of(n) == NEIGH_REACHABLE) {
				enter(port, n, NEIGH_STALE, NULL, linger(n, now));
			} else if (state_of(n) == NEIGH_FAILED) {
				n->hold = now;
			} else if (state_of(n) == NEIGH_INCOMPLETE) {
				/* Nobody received it: the next question is the first, and now. */
				n->tries = UINT_MAX;
				n->due = now;
			}
		}
	}
}

void urxe_neigh_doubt(struct urxe_port *port)
{
	uint64_t now = urxe_port_now(port);

	if (!port->ops->resolve)
		return;
	urxe_spin_lock(&port->neigh.lock);
	for (unsigned b = 0; b < NEIGH_BUCKETS; b++) {
		for (struct urxe_neigh *n = port->neigh.bucket[b]; n; n = n->next) {
			if (state_of(n) == NEIGH_REACHABLE)
				enter(port, n, NEIGH_STALE, NULL, linger(n, now));
		}
	}
	urxe_spin_unlock(&port->neigh.lock);
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
		       struct question *q, unsigned *from, uint64_t *next)
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
				drop_entry(t, pn);
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
		struct question q = {false};

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
		ask(lane, &q);
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
	schedule(port, 0);
	urxe_spin_unlock(&port->neigh.lock);
}

void urxe_neigh_duplicate(struct urxe_lane *lane, const uint8_t gid[16], const uint8_t mac[6])
{
	struct urxe_port *port = lane->port;
	uint64_t now = urxe_port_now(port), last = atomic_load(&port->dup_warned);
	char buf[46];

	urxe_count(lane, URXE_CNT_neigh_duplicate, 1);
	if (last && now < last + WARN_INTERVAL)
		return;
	atomic_store(&port->dup_warned, now ? now : 1);
	urxe_warn("%s: %s is also used by %02x:%02x:%02x:%02x:%02x:%02x", port->cfg.name,
		  urxe_gid_print(gid, buf, sizeof(buf)), mac[0], mac[1], mac[2], mac[3], mac[4],
		  mac[5]);
}

enum urxe_neigh_state urxe_neigh_state(struct urxe_port *port, const uint8_t gid[16])
{
	enum urxe_neigh_state state = NEIGH_NONE;
	struct urxe_neigh *n;

	urxe_spin_lock(&port->neigh.lock);
	n = find(&port->neigh, gid);
	if (n)
		state = state_of(n);
	urxe_spin_unlock(&port->neigh.lock);
	return state;
}

void urxe_neigh_destroy(struct urxe_port *port)
{
	for (unsigned b = 0; b < NEIGH_BUCKETS; b++) {
		for (struct urxe_neigh *n = port->neigh.bucket[b], *next; n; n = next) {
			next = n->next;
			free(n);
		}
	}
}
