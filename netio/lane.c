/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Lanes: lock, receive, timers. The send half is tx.c.
 */
#include <unistd.h>

#include "netio/stack.h"

#define AT_EXIT_US   100000
#define AT_EXIT_LOOK 100

/* Who has lane->lock has the lane: outside of here there is only that. */
bool urxe_lane_trylock(struct urxe_lane *lane)
{
	return urxe_spin_trylock(&lane->lock);
}

void urxe_lane_lock(struct urxe_lane *lane) URXE_UNCHECKED
{
	urxe_spin_lock(&lane->lock);
}

bool urxe_lane_lock_at_exit(struct urxe_lane *lane)
{
	for (unsigned us = 0; !urxe_lane_trylock(lane); us += AT_EXIT_LOOK) {
		if (us >= AT_EXIT_US)
			return false;
		usleep(AT_EXIT_LOOK);
	}
	return true;
}

static bool lane_ready(struct urxe_lane *lane)
{
	return atomic_load_explicit(&lane->loop_count, memory_order_relaxed) ||
	       atomic_load_explicit(&lane->pend_count, memory_order_relaxed);
}

void urxe_lane_unlock(struct urxe_lane *lane) URXE_UNCHECKED
{
	struct urxe_port *port = lane->port;
	bool ready;

	urxe_lane_flush(lane);
	ready = lane_ready(lane);
	urxe_spin_unlock(&lane->lock);
	/* No interrupt wakes a sleeper for frames that never left. */
	if (ready)
		urxe_port_wake(port);
}

/* ---- receive ---- */

/* Most turns find nothing, and are to be short. */
#define RARELY __attribute__((noinline))

static inline bool passes_tap(struct urxe_lane *lane, const struct urxe_frame *f)
	URXE_REQUIRES(lane)
{
	return lane->raw_fn ? urxe_raw_input(lane, f) : !(f->flags & URXE_FRAME_RAW);
}

static RARELY void input_burst(struct urxe_lane *lane, struct urxe_frame *f, unsigned n, bool loop,
			       struct urxe_packet *pkts, unsigned *count) URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	struct urxe_frame done[RX_BURST];
	unsigned num_done = 0;

	for (unsigned i = 0; i < n; i++) {
		struct urxe_packet *pkt = &pkts[*count];

		if (passes_tap(lane, &f[i]) && ((!loop && urxe_known_input(lane, &f[i], pkt)) ||
						urxe_frame_input(lane, &f[i], loop, pkt)))
			++*count;
		else
			done[num_done++] = f[i];
	}
	if (num_done)
		port->ops->free(port->link, lane->index, done, num_done);
}

static RARELY void rx_loop(struct urxe_lane *lane, struct urxe_packet *pkts, unsigned max,
			   unsigned *count) URXE_REQUIRES(lane)
{
	unsigned have = atomic_load_explicit(&lane->loop_count, memory_order_relaxed);
	struct urxe_frame f[RX_BURST];
	unsigned n = have < max ? have : max;

	for (unsigned i = 0; i < n; i++) {
		f[i] = lane->loop[lane->loop_head];
		lane->loop_head = (lane->loop_head + 1) % LOOP_QUEUE;
	}
	atomic_store_explicit(&lane->loop_count, have - n, memory_order_relaxed);
	input_burst(lane, f, n, true, pkts, count);
}

/* Who made no ICRC has damaged nothing either: it is what it would be, for who looks at it. */
static void add_icrc(struct urxe_frame *f)
{
	uint32_t bth = urxe_frame_roce(f), l3;
	bool ipv4;

	f->flags &= ~(uint32_t)URXE_FRAME_NO_ICRC;
	if (!bth)
		return;
	l3 = urxe_get16(f->data + 12) == ETHERTYPE_VLAN ? ETH_LEN + VLAN_LEN : ETH_LEN;
	ipv4 = bth - l3 == IPV4_LEN + UDP_LEN;
	urxe_icrc_put(f->data + f->len - URXE_ICRC_LEN,
		      urxe_icrc(f->data + l3, ipv4, f->len - bth - URXE_ICRC_LEN));
}

/*
 * Captures, raw taps and faults look at all of a frame, and keep it: they get a copy that nobody
 * else can change. Returns how many of @n there are then.
 */
static unsigned take_in(struct urxe_lane *lane, struct urxe_frame *f, unsigned n)
	URXE_REQUIRES(lane)
{
	struct urxe_frame copy;
	unsigned k = 0;

	for (unsigned i = 0; i < n; i++) {
		if (f[i].rest) {
			if (!urxe_frame_copy(lane, &copy, &f[i])) {
				urxe_count(lane, URXE_CNT_rx_ring_full, 1);
				urxe_frame_free(lane, &f[i]);
				continue;
			}
			urxe_frame_free(lane, &f[i]);
			f[i] = copy;
		}
		if (f[i].flags & URXE_FRAME_NO_ICRC)
			add_icrc(&f[i]);
		f[k++] = f[i];
	}
	return k;
}

/* @n frames that the link gave. Returns how many are left of them. */
static RARELY unsigned took_link(struct urxe_lane *lane, struct urxe_frame *f, unsigned n)
	URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	uint64_t bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		bytes += f[i].len;
		/* What injected faults do to it, nobody has looked at. */
		if (lane->faults.on)
			f[i].flags &= ~(uint32_t)URXE_FRAME_ICRC_OK;
	}
	urxe_count(lane, URXE_CNT_rx_frames, n);
	urxe_count(lane, URXE_CNT_rx_bytes, bytes);
	if (port->shared && (port->capture || lane->faults.on || lane->raw_fn))
		n = take_in(lane, f, n);
	if (port->capture) {
		for (unsigned i = 0; i < n; i++)
			urxe_capture_write(port->capture, f[i].data, f[i].len, false);
	}
	return n;
}

static inline unsigned rx_link(struct urxe_lane *lane, struct urxe_frame *f, unsigned n)
	URXE_REQUIRES(lane)
{
	n = lane->port->ops->rx(lane->port->link, lane->index, f, n);
	return n ? took_link(lane, f, n) : 0;
}

static void pend_add(struct urxe_lane *lane, const struct urxe_frame *f)
{
	unsigned n = atomic_load_explicit(&lane->pend_count, memory_order_relaxed);

	lane->pend[(lane->pend_head + n) % RX_PENDING] = *f;
	atomic_store_explicit(&lane->pend_count, n + 1, memory_order_relaxed);
}

#define FAULTS_ROOM 4 /* in a burst, for frames that are doubled, or were held */

/* Frames from the link go through fault injection into a queue, and come out of that. */
static RARELY unsigned rx_faulty(struct urxe_lane *lane, struct urxe_frame *f, unsigned max)
	URXE_REQUIRES(lane)
{
	struct urxe_frame out[FAULT_OUT];
	unsigned have = atomic_load_explicit(&lane->pend_count, memory_order_relaxed);
	unsigned n = (RX_PENDING - 1 - have) / FAULT_OUT; /* one for the held frame */
	unsigned most = max;

	/* What is left over wakes the service thread, which would be most of what a fault costs. */
	if (max > FAULTS_ROOM && urxe_fault_adds(&lane->faults.rx, max))
		most -= FAULTS_ROOM;
	n = n ? rx_link(lane, f, n < most ? n : most) : 0;
	if (!have && urxe_fault_spares(&lane->faults.rx, n))
		return n;
	for (unsigned i = 0; i < n; i++) {
		unsigned k = urxe_fault_apply(lane, &lane->faults.rx, &f[i], out);

		for (unsigned j = 0; j < k; j++)
			pend_add(lane, &out[j]);
	}
	have = atomic_load_explicit(&lane->pend_count, memory_order_relaxed);
	n = have < max ? have : max;
	for (unsigned i = 0; i < n; i++) {
		f[i] = lane->pend[lane->pend_head];
		lane->pend_head = (lane->pend_head + 1) % RX_PENDING;
	}
	atomic_store_explicit(&lane->pend_count, have - n, memory_order_relaxed);
	return n;
}

static inline __attribute__((always_inline)) void rx_wire(struct urxe_lane *lane,
							  struct urxe_packet *pkts, unsigned max,
							  unsigned *count) URXE_REQUIRES(lane)
{
	struct urxe_frame f[RX_BURST];
	unsigned n;

	if (!max)
		return;
	n = lane->faults.on ? rx_faulty(lane, f, max) : rx_link(lane, f, max);
	if (n)
		input_burst(lane, f, n, false, pkts, count);
}

static void received(struct urxe_lane *lane, unsigned count) URXE_REQUIRES(lane)
{
	if (count)
		urxe_count(lane, URXE_CNT_rx_packets, count);
}

/* Turn about, so that neither starves the other. */
static RARELY unsigned rx_both(struct urxe_lane *lane, struct urxe_packet *pkts, unsigned n)
	URXE_REQUIRES(lane)
{
	bool wire_first = lane->wire_first = !lane->wire_first;
	unsigned count = 0;

	if (wire_first)
		rx_wire(lane, pkts, n, &count);
	if (count < n && atomic_load_explicit(&lane->loop_count, memory_order_relaxed))
		rx_loop(lane, pkts, n - count, &count);
	if (!wire_first)
		rx_wire(lane, pkts, n - count, &count);
	received(lane, count);
	return count;
}

unsigned urxe_lane_rx(struct urxe_lane *lane, struct urxe_packet *pkts, unsigned n)
{
	unsigned count = 0;

	if (n > RX_BURST)
		n = RX_BURST;
	if (atomic_load_explicit(&lane->loop_count, memory_order_relaxed))
		return rx_both(lane, pkts, n);
	rx_wire(lane, pkts, n, &count);
	/* It was put there just now. */
	if (count < n && atomic_load_explicit(&lane->loop_count, memory_order_relaxed))
		rx_loop(lane, pkts, n - count, &count);
	received(lane, count);
	return count;
}

void urxe_lane_release(struct urxe_lane *lane, struct urxe_packet *pkts, unsigned n)
{
	struct urxe_port *port = lane->port;
	struct urxe_frame f[RX_BURST];

	for (unsigned k, have; n; n -= k, pkts += k) {
		k = n < RX_BURST ? n : RX_BURST;
		have = 0;
		for (unsigned i = 0; i < k; i++) {
			f[have].buf = pkts[i].frame;
			have += pkts[i].frame != NULL;
		}
		port->ops->free(port->link, lane->index, f, have);
	}
}

void *urxe_packet_hold(struct urxe_port *port, struct urxe_packet *pkt)
{
	void *frame = pkt->frame;

	/* Of a lane or two that do this at once one may be refused for nothing. */
	if (!frame || atomic_load_explicit(&port->held, memory_order_relaxed) >= port->may_hold)
		return NULL;
	if (atomic_fetch_add_explicit(&port->held, 1, memory_order_relaxed) >= port->may_hold) {
		atomic_fetch_sub_explicit(&port->held, 1, memory_order_relaxed);
		return NULL;
	}
	pkt->frame = NULL;
	return frame;
}

void urxe_port_let_go(struct urxe_port *port, void *frame)
{
	port->ops->let_go(port->link, frame);
	atomic_fetch_sub_explicit(&port->held, 1, memory_order_relaxed);
}

void urxe_lane_let_go(struct urxe_lane *lane, void *const *frames, unsigned n)
{
	struct urxe_port *port = lane->port;
	struct urxe_frame f[URXE_BURST];

	for (unsigned i = 0; i < n; i++)
		f[i].buf = frames[i];
	port->ops->free(port->link, lane->index, f, n);
	atomic_fetch_sub_explicit(&port->held, n, memory_order_relaxed);
}

/* ---- timers ---- */

static uint64_t fault_tick(struct urxe_lane *lane, uint64_t now) URXE_REQUIRES(lane)
{
	struct urxe_faults *x = &lane->faults;
	uint64_t next = URXE_NEVER;
	struct urxe_frame f;

	if (!x->on)
		return next;
	if (urxe_fault_due(&x->tx, now, &f))
		urxe_lane_emit(lane, &f, f.flags & URXE_FRAME_LOOP);
	/* Without room it waits: rx_faulty() always leaves one place. */
	if (atomic_load_explicit(&lane->pend_count, memory_order_relaxed) < RX_PENDING &&
	    urxe_fault_due(&x->rx, now, &f))
		pend_add(lane, &f);
	if (x->tx.holding)
		next = x->tx.deadline;
	if (x->rx.holding && x->rx.deadline < next)
		next = x->rx.deadline;
	return next;
}

#define RETRY_STUCK (100 * URXE_USEC)

static RARELY uint64_t tick(struct urxe_lane *lane, uint64_t now) URXE_REQUIRES(lane)
{
	uint64_t next = urxe_neigh_tick(lane, now), own = fault_tick(lane, now);

	urxe_lane_flush(lane);
	/* What the link would not take yet must be offered again. */
	if (lane->tx_count && now + RETRY_STUCK < own)
		own = now + RETRY_STUCK;
	atomic_store_explicit(&lane->tick, own, memory_order_relaxed);
	return own < next ? own : next;
}

uint64_t urxe_lane_tick(struct urxe_lane *lane, uint64_t now)
{
	const struct urxe_neigh_table *t = &lane->port->neigh;
	uint64_t next = atomic_load_explicit(&t->next_due, memory_order_relaxed);

	/* What there was to be sent has been sent, and nothing is due. */
	if (now >= next || !atomic_load_explicit(&t->was_up, memory_order_relaxed) ||
	    lane->tx_count || lane->placed ||
	    (lane->faults.on && (lane->faults.tx.holding || lane->faults.rx.holding)))
		return tick(lane, now);
	atomic_store_explicit(&lane->tick, URXE_NEVER, memory_order_relaxed);
	return next;
}

uint64_t urxe_port_next_tick(struct urxe_port *port)
{
	uint64_t next = atomic_load_explicit(&port->neigh.next_due, memory_order_relaxed), t;

	/* Pairs with start_locked(): num_lanes and lanes are there. */
	if (!atomic_load_explicit(&port->started, memory_order_acquire))
		return URXE_NEVER;
	for (unsigned i = 0; i < port->num_lanes; i++) {
		t = atomic_load(&port->lanes[i].tick);
		if (t < next)
			next = t;
	}
	return next;
}
