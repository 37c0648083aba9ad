/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table of neighbours: entries, their states, and questions about them. Locked by neigh.lock;
 * senders read an entry's word without it.
 */
#include "netio/neigh_priv.h"
#include "netio/trace.h"

#include <stdlib.h>

#include "urxe/free.h"

#define VICTIMS	    32		    /* entries that are looked at for one to go */
#define LINGER_TIME (60 * URXE_SEC) /* of an entry that nobody refers to */
#define LOCK_TIME   URXE_SEC	    /* after it was settled which MAC is true */

const char *const urxe_neigh_state_names[NEIGH_STATES] = {
	[NEIGH_NONE] = "NONE",		 [NEIGH_INCOMPLETE] = "INCOMPLETE",
	[NEIGH_FAILED] = "FAILED",	 [NEIGH_STALE] = "STALE",
	[NEIGH_DELAY] = "DELAY",	 [NEIGH_PROBE] = "PROBE",
	[NEIGH_REACHABLE] = "REACHABLE",
};

const uint64_t urxe_neigh_ask_interval[URXE_NEIGH_ASK_TRIES] = {
	100 * URXE_MSEC, 200 * URXE_MSEC, 400 * URXE_MSEC, 800 * URXE_MSEC, 1600 * URXE_MSEC};

/* ---- entries ---- */

static unsigned hash(const uint8_t gid[16])
{
	return urxe_gid_hash(gid) % NEIGH_BUCKETS;
}

struct urxe_neigh *urxe_neigh_find(struct urxe_neigh_table *t, const uint8_t gid[16])
{
	struct urxe_neigh *n = t->bucket[hash(gid)];

	while (n && memcmp(n->gid, gid, 16))
		n = n->next;
	return n;
}

struct urxe_neigh *urxe_neigh_add(struct urxe_neigh_table *t, const uint8_t gid[16], unsigned sgid)
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

void urxe_neigh_drop(struct urxe_neigh_table *t, struct urxe_neigh **pn)
{
	struct urxe_neigh *n = *pn;

	*pn = n->next;
	t->count--;
	urxe_free(n);
}

/* What nobody refers to is worth the less the less is known of it. */
static unsigned worth(const struct urxe_neigh *n)
{
	enum urxe_neigh_state state = urxe_neigh_state_of(n);

	return state == NEIGH_NONE || state == NEIGH_FAILED ? 0 : state == NEIGH_INCOMPLETE ? 1 : 2;
}

bool urxe_neigh_make_room(struct urxe_port *port)
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
	urxe_neigh_drop(t, least);
	return true;
}

enum urxe_neigh_state urxe_neigh_state(struct urxe_port *port, const uint8_t gid[16])
{
	enum urxe_neigh_state state = NEIGH_NONE;
	struct urxe_neigh *n;

	urxe_spin_lock(&port->neigh.lock);
	n = urxe_neigh_find(&port->neigh, gid);
	if (n)
		state = urxe_neigh_state_of(n);
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

/* ---- states ---- */

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

void urxe_neigh_schedule_locked(struct urxe_port *port, uint64_t due)
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
	urxe_neigh_schedule_locked(port, due);
	urxe_spin_unlock(&port->neigh.lock);
}

void urxe_neigh_enter(struct urxe_port *port, struct urxe_neigh *n, enum urxe_neigh_state state,
		      const uint8_t mac[6], uint64_t due)
{
	urxe_trace_neighbour(n->gid, urxe_neigh_state_of(n), state);
	if (state >= NEIGH_STALE && urxe_neigh_state_of(n) < NEIGH_STALE)
		atomic_fetch_add_explicit(&port->neigh.news, 1, memory_order_relaxed);
	if (state == NEIGH_REACHABLE)
		atomic_store_explicit(&port->settles_until, 0, memory_order_relaxed);
	set_word(n, state, mac);
	n->due = due;
	urxe_neigh_schedule_locked(port, due);
}

uint64_t urxe_neigh_linger(const struct urxe_neigh *n, uint64_t now)
{
	return n->refs ? URXE_NEVER : now + LINGER_TIME;
}

void urxe_neigh_settle(struct urxe_neigh *n, uint64_t now)
{
	n->rival = n->unsure = false;
	n->settled = now + LOCK_TIME;
}

/* ---- questions ---- */

void urxe_neigh_question_for(struct urxe_neigh_question *q, const struct urxe_neigh *n,
			     bool unicast)
{
	q->ask = true;
	q->unicast = unicast;
	q->sgid_index = n->sgid_index;
	memcpy(q->gid, n->gid, 16);
	urxe_neigh_word_mac(atomic_load_explicit(&n->word, memory_order_relaxed), q->mac);
}

void urxe_neigh_ask_now(struct urxe_lane *lane, const struct urxe_neigh_question *q)
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
