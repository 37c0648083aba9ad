/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the files of neighbours share: the table (neigh_table.c), senders (neigh.c), what ARP and ND
 * packets say (neigh_heard.c), and time (neigh_tick.c).
 */
#ifndef URXE_NETIO_NEIGH_PRIV_H
#define URXE_NETIO_NEIGH_PRIV_H

#include "netio/stack.h"

#define URXE_NEIGH_ASK_TRIES	 5 /* multicast questions, at urxe_neigh_ask_interval */
#define URXE_NEIGH_WARN_INTERVAL (10 * URXE_SEC)
/* Between questions while another MAC claims to be it. */
#define URXE_NEIGH_RIVAL_INTERVAL (50 * URXE_MSEC)

/** Multicast questions go out quickly at first: most answers take microseconds. 3.1 s in all. */
extern const uint64_t urxe_neigh_ask_interval[URXE_NEIGH_ASK_TRIES];

/** A question to ask once the table's lock is given back. */
struct urxe_neigh_question {
	bool ask, unicast;
	unsigned sgid_index;
	uint8_t gid[16], mac[6];
};

/* ---- the table (neigh_table.c) ---- */

/** urxe_neigh_find - the entry of @gid; NULL: there is none. */
struct urxe_neigh *urxe_neigh_find(struct urxe_neigh_table *t, const uint8_t gid[16]);
/** urxe_neigh_add - an entry of @gid, which has none. NULL: no memory. */
struct urxe_neigh *urxe_neigh_add(struct urxe_neigh_table *t, const uint8_t gid[16], unsigned sgid);
/** urxe_neigh_drop - the entry goes: on a thread of ours, too (urxe/free.h). */
void urxe_neigh_drop(struct urxe_neigh_table *t, struct urxe_neigh **pn);
/** urxe_neigh_make_room - one goes, the least of some that nobody refers to. False: none could. */
bool urxe_neigh_make_room(struct urxe_port *port) URXE_REQUIRES(port->neigh.lock);

/* ---- states (neigh_table.c) ---- */

static inline enum urxe_neigh_state urxe_neigh_state_of(const struct urxe_neigh *n)
{
	return urxe_neigh_word_state(atomic_load_explicit(&n->word, memory_order_relaxed));
}

/** urxe_neigh_enter - the one place where a state changes; it ends at @due. @mac: NULL as it was.
 */
void urxe_neigh_enter(struct urxe_port *port, struct urxe_neigh *n, enum urxe_neigh_state state,
		      const uint8_t mac[6], uint64_t due) URXE_REQUIRES(port->neigh.lock);
/** urxe_neigh_linger - the end of a state without a time of its own: who refers to it decides. */
uint64_t urxe_neigh_linger(const struct urxe_neigh *n, uint64_t now);
/** urxe_neigh_settle - it is known for now which MAC is true. */
void urxe_neigh_settle(struct urxe_neigh *n, uint64_t now);
/** urxe_neigh_schedule_locked - something is to do at @due: no sleeper may sleep beyond. */
void urxe_neigh_schedule_locked(struct urxe_port *port, uint64_t due)
	URXE_REQUIRES(port->neigh.lock);

/* ---- questions (neigh_table.c) ---- */

/** urxe_neigh_question_for - what is to be asked about @n; @unicast: of whom it is known. */
void urxe_neigh_question_for(struct urxe_neigh_question *q, const struct urxe_neigh *n,
			     bool unicast);
/** urxe_neigh_ask_now - send it, if there is one; without the table's lock. */
void urxe_neigh_ask_now(struct urxe_lane *lane, const struct urxe_neigh_question *q)
	URXE_REQUIRES(lane);

#endif
