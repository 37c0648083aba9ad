/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Neighbours of both families: ARP and ND differ in their packets alone, the states are
 * those of RFC 4861 7.3.2. A sender that finds a usable MAC in an entry's word takes no
 * lock. An entry lives while paths refer to it, and for a while after its last packet.
 */
#include "netio/neigh_priv.h"

#include "urxe/log.h"

#define DELAY_TIME URXE_SEC
#define DOUBT_TIME (10 * URXE_MSEC) /* between questions that a transport causes */
#define CALLED	   4		    /* by urxe_port_call(): one that answers will do */
#define TABLE_TIME URXE_SEC	    /* a link's own answer is asked for again after this */

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
		urxe_neigh_enter(port, n, NEIGH_REACHABLE, mac, now + TABLE_TIME);
		return 0;
	}
	/* Who leads there is on the way. */
	if (err == EINPROGRESS)
		return err;
	if (urxe_neigh_state_of(n) != NEIGH_FAILED || now >= n->hold) {
		n->hold = now + URXE_NEIGH_WARN_INTERVAL;
		urxe_warn("%s: nobody on %s has the address %s, and %s", port->cfg.name,
			  port->cfg.port, urxe_gid_print(n->gid, buf, sizeof(buf)),
			  port->ops->nowhere ? port->ops->nowhere(port->link)
					     : "it leads nowhere else");
	}
	urxe_neigh_enter(port, n, NEIGH_FAILED, NULL, urxe_neigh_linger(n, now));
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
	n = urxe_neigh_find(&port->neigh, gid);
	if (n)
		state = urxe_neigh_state_of(n);
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
	n = urxe_neigh_find(&port->neigh, gid);
	known = n && urxe_neigh_state_of(n) >= NEIGH_STALE;
	urxe_spin_unlock(&port->neigh.lock);
	return known;
}

int urxe_neigh_get(struct urxe_port *port, const uint8_t gid[16], unsigned sgid_index,
		   struct urxe_neigh **out)
{
	struct urxe_neigh *n;

	urxe_spin_lock(&port->neigh.lock);
	n = urxe_neigh_find(&port->neigh, gid);
	if (!n) {
		if (port->neigh.count >= NEIGH_MAX)
			urxe_neigh_make_room(port);
		n = urxe_neigh_add(&port->neigh, gid, sgid_index);
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
		n->due = urxe_neigh_linger(n, urxe_port_now(port));
		urxe_neigh_schedule_locked(port, n->due);
	}
	urxe_spin_unlock(&port->neigh.lock);
}

int urxe_neigh_use(struct urxe_lane *lane, struct urxe_neigh *n, uint64_t *word)
{
	struct urxe_port *port = lane->port;
	uint64_t now = urxe_port_now(port);
	struct urxe_neigh_question q = {false};
	int err = 0;

	urxe_spin_lock(&port->neigh.lock);
	if (port->ops->resolve) {
		err = look_up(port, n);
		goto out;
	}
	switch (urxe_neigh_state_of(n)) {
	case NEIGH_FAILED:
		if (now < n->hold) {
			err = EHOSTUNREACH;
			break;
		}
		__attribute__((fallthrough));
	case NEIGH_NONE:
		n->tries = 0;
		urxe_neigh_enter(port, n, NEIGH_INCOMPLETE, NULL, now + urxe_neigh_ask_interval[0]);
		urxe_neigh_question_for(&q, n, false);
		__attribute__((fallthrough));
	case NEIGH_INCOMPLETE:
		/* More than a stranger wants it now. */
		if (n->brief)
			n->tries = 0;
		n->brief = false;
		err = EINPROGRESS;
		break;
	case NEIGH_STALE:
		urxe_neigh_enter(port, n, NEIGH_DELAY, NULL, now + DELAY_TIME);
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
	urxe_neigh_ask_now(lane, &q);
	return err;
}

void urxe_neigh_ask(struct urxe_lane *lane, const uint8_t gid[16], unsigned sgid_index)
{
	struct urxe_port *port = lane->port;
	struct urxe_neigh_question q = {false};
	struct urxe_neigh *n;

	if (port->ops->resolve)
		return; /* it is known, or nobody has it */
	urxe_spin_lock(&port->neigh.lock);
	n = urxe_neigh_find(&port->neigh, gid);
	if (!n && (port->neigh.count < NEIGH_MAX || urxe_neigh_make_room(port)))
		n = urxe_neigh_add(&port->neigh, gid, sgid_index);
	if (n && (urxe_neigh_state_of(n) == NEIGH_NONE || urxe_neigh_state_of(n) == NEIGH_FAILED)) {
		n->brief = true;
		n->tries = URXE_NEIGH_ASK_TRIES - 1;
		urxe_neigh_enter(port, n, NEIGH_INCOMPLETE, NULL,
				 urxe_port_now(port) + urxe_neigh_ask_interval[0]);
		urxe_neigh_question_for(&q, n, false);
	}
	urxe_spin_unlock(&port->neigh.lock);
	urxe_neigh_ask_now(lane, &q);
}

void urxe_neigh_suspect(struct urxe_lane *lane, struct urxe_neigh *n)
{
	struct urxe_port *port = lane->port;
	uint64_t now = urxe_port_now(port);
	struct urxe_neigh_question q = {false};

	/* Not PROBE: that would ask the suspect itself. Whoever answers, RFC 4861 7.2.5 judges. */
	urxe_spin_lock(&port->neigh.lock);
	if (port->ops->resolve) {
		look_up(port, n);
	} else if (urxe_neigh_state_of(n) >= NEIGH_STALE && now >= n->doubt) {
		n->doubt = now + DOUBT_TIME;
		urxe_neigh_question_for(&q, n, false);
	}
	urxe_spin_unlock(&port->neigh.lock);
	urxe_neigh_ask_now(lane, &q);
}

/* Questions to some whose MAC is known. Returns how many. */
static unsigned known_ones(struct urxe_neigh_table *t, struct urxe_neigh_question *q, unsigned most)
	URXE_REQUIRES(t->lock)
{
	unsigned n = 0;

	for (unsigned b = 0; b < NEIGH_BUCKETS; b++) {
		for (struct urxe_neigh *i = t->bucket[b]; i && n < most; i = i->next) {
			if (urxe_neigh_state_of(i) >= NEIGH_STALE)
				urxe_neigh_question_for(&q[n++], i, true);
		}
	}
	return n;
}

bool urxe_port_call(struct urxe_port *port)
{
	struct urxe_neigh_question q[CALLED] = {0};
	struct urxe_lane *lane = &port->lanes[0];
	unsigned n;

	if (!port->peer || !urxe_lane_lock_at_exit(lane))
		return false;
	urxe_spin_lock(&port->neigh.lock);
	n = known_ones(&port->neigh, q, CALLED);
	atomic_store_explicit(&port->neigh.unanswered, n > 0, memory_order_relaxed);
	urxe_spin_unlock(&port->neigh.lock);
	for (unsigned i = 0; i < n; i++)
		urxe_neigh_ask_now(lane, &q[i]);
	urxe_lane_unlock(lane);
	return n;
}

bool urxe_port_unanswered(const struct urxe_port *port)
{
	struct urxe_lane *lane = &port->lanes[0];

	if (!atomic_load_explicit(&port->neigh.unanswered, memory_order_relaxed))
		return false;
	if (port->ops->look && urxe_lane_trylock(lane)) {
		port->ops->look(port->link);
		urxe_lane_unlock(lane);
	}
	return port->ops->up(port->link);
}

void urxe_neigh_doubt(struct urxe_port *port)
{
	uint64_t now = urxe_port_now(port);

	if (!port->ops->resolve)
		return;
	urxe_spin_lock(&port->neigh.lock);
	for (unsigned b = 0; b < NEIGH_BUCKETS; b++) {
		for (struct urxe_neigh *n = port->neigh.bucket[b]; n; n = n->next) {
			if (urxe_neigh_state_of(n) == NEIGH_REACHABLE)
				urxe_neigh_enter(port, n, NEIGH_STALE, NULL,
						 urxe_neigh_linger(n, now));
		}
	}
	urxe_spin_unlock(&port->neigh.lock);
}
