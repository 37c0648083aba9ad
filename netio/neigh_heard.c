/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What ARP and ND packets say of neighbours: who is believed, and how soon.
 */
#include "netio/neigh_priv.h"

#include "urxe/log.h"

#define REACHABLE_TIME (30 * URXE_SEC)
#define ANSWERS	       50 /* in each LIMIT_TICK, of one lane */

/*
 * Another MAC says that it is a neighbour whose MAC is known. Who has that one is asked first, and
 * keeps the address if it answers (as RFC 5227 2.4 has it defended): a lie costs the liar's frame
 * and ours, and changes nothing.
 */
static void challenge(struct urxe_port *port, struct urxe_lane *lane, struct urxe_neigh *n,
		      const uint8_t mac[6], uint64_t now, struct urxe_neigh_question *q)
	URXE_REQUIRES(lane, port->neigh.lock)
{
	if (n->rival || now < n->settled) {
		urxe_count(lane, URXE_CNT_neigh_disputed, 1);
		return;
	}
	n->rival = true;
	memcpy(n->rival_mac, mac, 6);
	n->tries = 0;
	urxe_neigh_enter(port, n, NEIGH_PROBE, NULL, now + URXE_NEIGH_RIVAL_INTERVAL);
	urxe_neigh_question_for(q, n, true);
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
		if (port->neigh.count < NEIGH_MAX || urxe_neigh_make_room(port))
			return urxe_neigh_add(&port->neigh, gid, i);
		urxe_count(lane, URXE_CNT_neigh_full, 1);
		break;
	}
	return NULL;
}

/* RFC 4861 7.2.3 and 7.2.5, for ARP as well; but no known MAC is replaced before it was asked. */
static void heard_locked(struct urxe_port *port, struct urxe_lane *lane, struct urxe_neigh *n,
			 const uint8_t mac[6], unsigned heard, uint64_t now,
			 struct urxe_neigh_question *q) URXE_REQUIRES(lane, port->neigh.lock)
{
	enum urxe_neigh_state state = urxe_neigh_state_of(n);
	bool known = state >= NEIGH_STALE, same;
	uint8_t old[6];

	urxe_neigh_word_mac(atomic_load_explicit(&n->word, memory_order_relaxed), old);
	same = known && !memcmp(old, mac, 6);
	if (known && !same && !(heard & NEIGH_HEARD_OVERRIDE)) {
		if (state == NEIGH_REACHABLE)
			urxe_neigh_enter(port, n, NEIGH_STALE, NULL, urxe_neigh_linger(n, now));
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
		urxe_neigh_settle(n, now);
	if (!known)
		urxe_count(lane, URXE_CNT_neigh_resolved, 1);
	n->brief = false;
	if (heard & NEIGH_HEARD_SOLICITED) {
		atomic_store_explicit(&n->used, false, memory_order_relaxed);
		atomic_store_explicit(&port->neigh.unanswered, false, memory_order_relaxed);
		urxe_neigh_enter(port, n, NEIGH_REACHABLE, mac, now + REACHABLE_TIME);
	} else if (!same) {
		urxe_neigh_enter(port, n, NEIGH_STALE, mac, urxe_neigh_linger(n, now));
	}
}

void urxe_neigh_heard(struct urxe_lane *lane, const uint8_t gid[16], const uint8_t mac[6],
		      unsigned heard)
{
	struct urxe_port *port = lane->port;
	struct urxe_neigh_question q = {false};
	struct urxe_neigh *n;

	/* No group, no zero MAC, and not our own. */
	if ((mac[0] & 1) || !memcmp(mac, "\0\0\0\0\0\0", 6) || !memcmp(mac, port->mac, 6))
		return;
	urxe_spin_lock(&port->neigh.lock);
	n = urxe_neigh_find(&port->neigh, gid);
	if (!n && (heard & NEIGH_HEARD_CREATE))
		n = learn(port, lane, gid);
	if (n)
		heard_locked(port, lane, n, mac, heard, urxe_port_now(port), &q);
	urxe_spin_unlock(&port->neigh.lock);
	urxe_neigh_ask_now(lane, &q);
}

/* A neighbour that a path leads to. */
static bool is_peer(struct urxe_port *port, const uint8_t gid[16], const uint8_t mac[6])
{
	struct urxe_neigh *n;
	uint8_t known[6];
	bool peer;

	urxe_spin_lock(&port->neigh.lock);
	n = urxe_neigh_find(&port->neigh, gid);
	peer = n && n->refs && urxe_neigh_state_of(n) >= NEIGH_STALE;
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

void urxe_neigh_duplicate(struct urxe_lane *lane, const uint8_t gid[16], const uint8_t mac[6])
{
	struct urxe_port *port = lane->port;
	char buf[46];

	urxe_count(lane, URXE_CNT_neigh_duplicate, 1);
	if (!urxe_log_due(&port->dup_warned, urxe_port_now(port), URXE_NEIGH_WARN_INTERVAL))
		return;
	urxe_warn("%s: %s is also used by %02x:%02x:%02x:%02x:%02x:%02x", port->cfg.name,
		  urxe_gid_print(gid, buf, sizeof(buf)), mac[0], mac[1], mac[2], mac[3], mac[4],
		  mac[5]);
}
