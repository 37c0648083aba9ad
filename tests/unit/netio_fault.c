/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Fault injection, and two ports on a bad wire.
 */
#include "netio_net.h"

#include <pthread.h>

static struct urxe_sim *sim;

#define MAX_GOT 20000

struct result {
	uint32_t got[MAX_GOT];
	unsigned count;
	uint64_t drop, dup, reorder, corrupt, icrc;
};

static void collect(struct node *n, struct result *r)
{
	struct urxe_packet p[RX_BURST];
	unsigned k;

	urxe_lane_lock(n->lane);
	while ((k = urxe_lane_rx(n->lane, p, RX_BURST))) {
		for (unsigned i = 0; i < k && r->count < MAX_GOT; i++)
			r->got[r->count++] = urxe_get32(p[i].bth + 8);
		urxe_lane_release(n->lane, p, k);
	}
	urxe_lane_tick(n->lane, urxe_port_now(n->port));
	urxe_lane_unlock(n->lane);
}

static void teach(struct node *n, const char *addr, const uint8_t mac[6])
{
	uint8_t gid[16];

	gid_of(addr, gid);
	urxe_lane_lock(n->lane);
	urxe_neigh_heard(n->lane, gid, mac, NEIGH_HEARD_OVERRIDE | NEIGH_HEARD_CREATE);
	urxe_lane_unlock(n->lane);
}

/* Two nodes, and the way from the first to the second. */
struct two {
	struct node a, b;
	struct urxe_path *path;
};

static void two_start(struct two *t, const struct urxe_port_config *c1,
		      const struct urxe_port_config *c2)
{
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	node_start(&t->a, sim, NULL, c1);
	node_start(&t->b, sim, NULL, c2);
	teach(&t->a, "10.9.0.2", mac2);
	t->path = path_to(t->a.port, "10.9.0.2", 0xc000);
}

static void two_send(struct two *t, const uint8_t *bth, uint32_t len)
{
	urxe_lane_lock(t->a.lane);
	CU_ASSERT_EQUAL(send_bytes(t->a.lane, t->path, bth, len), 0);
	urxe_lane_unlock(t->a.lane);
	urxe_sim_advance(sim, urxe_sim_now(sim) + 10000);
}

/* Each buffer has been given back. */
static void two_end(struct two *t)
{
	urxe_path_destroy(t->path);
	urxe_port_destroy(t->a.port);
	urxe_port_destroy(t->b.port);
	while (urxe_sim_step(sim))
		;
	CU_ASSERT_EQUAL(urxe_sim_buffers(sim), 0);
	urxe_sim_destroy(sim);
}

/* Node 1 sends @count numbered packets to node 2; faults are at the sender or the receiver. */
static void run(const struct urxe_port_config *faults, bool at_rx, unsigned count, struct result *r)
{
	struct urxe_port_config c1 = node_cfg(1), c2 = node_cfg(2), *c = at_rx ? &c2 : &c1;
	const char *dir = at_rx ? "fault_rx_" : "fault_tx_";
	struct two t;
	struct node *f = at_rx ? &t.b : &t.a;
	uint8_t bth[64] = {0};
	char name[32];

	memset(r, 0, sizeof(*r));
	memcpy(c->fault, faults->fault, sizeof(c->fault));
	c->seed = faults->seed;
	c->fault_every = faults->fault_every;
	two_start(&t, &c1, &c2);
	for (uint32_t i = 0; i < count; i++) {
		urxe_put32(bth + 8, i);
		two_send(&t, bth, sizeof(bth));
		collect(&t.b, r);
	}
	for (unsigned i = 0; i < 4; i++) { /* what was held back comes by time */
		urxe_sim_advance(sim, urxe_sim_now(sim) + URXE_MSEC);
		node_tick(&t.a);
		collect(&t.b, r);
		collect(&t.b, r);
	}
	CU_ASSERT_EQUAL(counter(t.b.port, "rx_packets"), r->count);
#define GET(what) (snprintf(name, sizeof(name), "%s%s", dir, #what), counter(f->port, name))
	r->drop = GET(drop), r->dup = GET(dup);
	r->reorder = GET(reorder), r->corrupt = GET(corrupt);
	r->icrc = counter(t.b.port, "rx_icrc");
	two_end(&t);
}

static unsigned out_of_order(const struct result *r)
{
	unsigned n = 0;

	for (unsigned i = 1; i < r->count; i++)
		n += r->got[i] < r->got[i - 1];
	return n;
}

static struct result r1, r2;

/* Initialisers of a configuration: a rate of both directions, or of one */
#define RATE(what, dir, r) .fault[URXE_FAULT_##what][URXE_FAULT_##dir] = {true, r}
#define BOTH(what, r)	   RATE(what, BOTH, r)
#define TX(what, r)	   RATE(what, TX, r)
#define RX(what, r)	   RATE(what, RX, r)

static void no_faults(void)
{
	struct urxe_port_config f = {.seed = 1};

	run(&f, false, 500, &r1);
	CU_ASSERT_EQUAL(r1.count, 500);
	CU_ASSERT_EQUAL(out_of_order(&r1), 0);
	CU_ASSERT_EQUAL(r1.drop + r1.dup + r1.reorder + r1.corrupt + r1.icrc, 0);
}

static void each_fault(void)
{
	for (int rx = 0; rx < 2; rx++) {
		struct urxe_port_config drop = {.seed = 1, BOTH(DROP, 0.1)},
					dup = {.seed = 1, BOTH(DUP, 0.1)},
					late = {.seed = 1, BOTH(REORDER, 0.1)},
					bad = {.seed = 1, BOTH(CORRUPT, 0.1)},
					all = {.seed = 1, BOTH(DROP, 1)};

		run(&drop, rx, 5000, &r1);
		CU_ASSERT_TRUE(r1.drop > 400 && r1.drop < 600);
		CU_ASSERT_EQUAL(r1.count, 5000 - r1.drop);
		CU_ASSERT_EQUAL(out_of_order(&r1), 0);
		run(&dup, rx, 5000, &r1);
		CU_ASSERT_TRUE(r1.dup > 400 && r1.dup < 600);
		CU_ASSERT_EQUAL(r1.count, 5000 + r1.dup);
		CU_ASSERT_EQUAL(out_of_order(&r1), 0);
		run(&late, rx, 5000, &r1);
		CU_ASSERT_TRUE(r1.reorder > 200);
		CU_ASSERT_EQUAL(r1.count, 5000);
		CU_ASSERT_TRUE(out_of_order(&r1) > 200);
		run(&bad, rx, 5000, &r1);
		CU_ASSERT_TRUE(r1.corrupt > 400 && r1.corrupt < 600);
		CU_ASSERT_EQUAL(r1.icrc, r1.corrupt); /* the ICRC finds them all */
		CU_ASSERT_EQUAL(r1.count, 5000 - r1.corrupt);
		run(&all, rx, 100, &r1);
		CU_ASSERT_EQUAL(r1.count, 0);
	}
}

/* A rate of one direction goes before the rate of both, and leaves the other direction alone. */
static void one_direction(void)
{
	struct urxe_port_config tx = {.seed = 1, TX(DROP, 0.1)}, rx = {.seed = 1, RX(DROP, 0.1)},
				no_rx = {.seed = 1, BOTH(DROP, 1), RX(DROP, 0)};

	run(&tx, false, 1000, &r1);
	CU_ASSERT_TRUE(r1.drop > 50 && r1.drop < 150);
	CU_ASSERT_EQUAL(r1.count, 1000 - r1.drop);
	run(&tx, true, 1000, &r1);
	CU_ASSERT_EQUAL(r1.count, 1000);
	run(&rx, true, 1000, &r1);
	CU_ASSERT_TRUE(r1.drop > 50 && r1.drop < 150);
	CU_ASSERT_EQUAL(r1.count, 1000 - r1.drop);
	run(&rx, false, 1000, &r1);
	CU_ASSERT_EQUAL(r1.count, 1000);
	run(&no_rx, true, 1000, &r1);
	CU_ASSERT_EQUAL(r1.count, 1000);
	run(&no_rx, false, 100, &r1);
	CU_ASSERT_EQUAL(r1.count, 0);
}

/* All frames, in every second 5 ms: one is sent each 10 us. */
static void at_times(void)
{
	struct urxe_port_config f = {.seed = 1, .fault_every = 5, BOTH(DROP, 1)};

	for (int rx = 0; rx < 2; rx++) {
		unsigned missing = 0;

		run(&f, rx, 3000, &r1);
		CU_ASSERT_EQUAL(r1.count, 1500);
		CU_ASSERT_EQUAL(r1.drop, 1500);
		for (unsigned i = 1; i < r1.count; i++)
			missing += r1.got[i] - r1.got[i - 1] == 501;
		CU_ASSERT(missing == 2 || missing == 3);
		CU_ASSERT_EQUAL(out_of_order(&r1), 0);
	}
}

static void same_seed_same_run(void)
{
	struct urxe_port_config f = {.seed = 5,
				     BOTH(DROP, 0.05),
				     BOTH(DUP, 0.05),
				     BOTH(REORDER, 0.05),
				     BOTH(CORRUPT, 0.05)};

	for (int rx = 0; rx < 2; rx++) {
		run(&f, rx, 3000, &r1);
		run(&f, rx, 3000, &r2);
		CU_ASSERT_EQUAL(memcmp(&r1, &r2, sizeof(r1)), 0);
		f.seed++;
		run(&f, rx, 3000, &r2);
		CU_ASSERT_NOT_EQUAL(memcmp(&r1, &r2, sizeof(r1)), 0);
	}
}

/* Looped frames get their share, once. */
static void looped(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_packet p[RX_BURST];
	struct urxe_path *path;
	uint8_t bth[64] = {0};
	struct node n;
	unsigned got = 0, k;

	cfg.fault[URXE_FAULT_DROP][URXE_FAULT_BOTH] = (struct urxe_fault_rate){true, 0.1};
	cfg.fault[URXE_FAULT_CORRUPT][URXE_FAULT_BOTH] = (struct urxe_fault_rate){true, 0.1};
	cfg.seed = 3;
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	node_start(&n, sim, NULL, &cfg);
	path = path_to(n.port, "10.9.0.1", 0xc000);
	urxe_lane_lock(n.lane);
	for (unsigned i = 0; i < 1000; i++) {
		CU_ASSERT_EQUAL(send_bytes(n.lane, path, bth, sizeof(bth)), 0);
		k = urxe_lane_rx(n.lane, p, RX_BURST);
		urxe_lane_release(n.lane, p, k);
		got += k;
	}
	urxe_lane_unlock(n.lane);
	CU_ASSERT_EQUAL(got, 1000 - counter(n.port, "fault_tx_drop") - counter(n.port, "rx_icrc"));
	CU_ASSERT_EQUAL(counter(n.port, "rx_icrc"), counter(n.port, "fault_tx_corrupt"));
	CU_ASSERT_EQUAL(counter(n.port, "fault_rx_drop"), 0);
	CU_ASSERT_TRUE(got > 700 && got < 900);
	urxe_path_destroy(path);
	urxe_port_destroy(n.port);
	urxe_sim_destroy(sim);
}

/* @count frames to ourselves, 10 us apart; how many of them have woken who sleeps. */
static unsigned wakes(struct node *n, struct urxe_path *path, unsigned count)
{
	uint8_t bth[64] = {0};
	struct urxe_packet p[RX_BURST];
	unsigned woken = 0;

	urxe_lane_lock(n->lane);
	atomic_store(&n->port->woken, false);
	for (unsigned i = 0; i < count; i++) {
		CU_ASSERT_EQUAL(send_bytes(n->lane, path, bth, sizeof(bth)), 0);
		woken += atomic_exchange(&n->port->woken, false);
		urxe_sim_advance(sim, urxe_sim_now(sim) + 10000);
		urxe_lane_release(n->lane, p, urxe_lane_rx(n->lane, p, RX_BURST));
		urxe_lane_tick(n->lane, urxe_sim_now(sim));
	}
	urxe_lane_unlock(n->lane);
	return woken;
}

/* Who sleeps is woken for a frame that is held if it would be late for it. */
static void wakes_by(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_sleep how = {.tick = URXE_NEVER};
	struct urxe_path *path;
	struct node n;

	cfg.fault[URXE_FAULT_REORDER][URXE_FAULT_TX] = (struct urxe_fault_rate){true, 1};
	cfg.seed = 3;
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	node_start(&n, sim, NULL, &cfg);
	path = path_to(n.port, "10.9.0.1", 0xc000);
	/* Nobody does, or is up in time, or till another time comes. */
	CU_ASSERT_EQUAL(wakes(&n, path, 50), 0);
	n.port->wait_until = urxe_sim_now(sim) + URXE_MSEC;
	CU_ASSERT_EQUAL(wakes(&n, path, 50), 0);
	n.port->wait_until = URXE_NEVER;
	CU_ASSERT(wakes(&n, path, 50) > 10);
	CU_ASSERT(counter(n.port, "fault_tx_reorder") > 30);
	/* Who did not know of one that is held does not begin to sleep. */
	while (urxe_port_next_tick(n.port) > urxe_sim_now(sim) + URXE_MSEC)
		wakes(&n, path, 1);
	atomic_store(&n.port->woken, false);
	atomic_store(&n.port->wakes, 1);
	urxe_port_wait(n.port, URXE_NEVER, &how);
	CU_ASSERT_EQUAL(n.port->wakes, 1); /* it is read when a sleep ends */
	CU_ASSERT_EQUAL(n.port->wait_until, 0);
	urxe_sim_advance(sim, urxe_sim_now(sim) + 2 * URXE_MSEC);
	node_tick(&n);
	CU_ASSERT(urxe_port_next_tick(n.port) > urxe_sim_now(sim) + URXE_MSEC);
	n.port->wait_until = 0;
	urxe_path_destroy(path);
	urxe_port_destroy(n.port);
	urxe_sim_destroy(sim);
}

/* Two ports that know nothing of each other, on a wire that loses a third of everything,
 * ARP and ND too: resolution gets through, and every packet that arrives is a good one. */
static void resolve_one(const char *to, uint64_t seed)
{
	struct urxe_sim_params bad = {.latency = 20000, .loss = 0.33, .dup = 0.1, .reorder = 0.1};
	struct urxe_port_config c1 = node_cfg(1), c2 = node_cfg(2);
	struct urxe_path *path;
	uint8_t bth[64] = {0};
	struct node a, b;
	uint64_t next, tb;
	unsigned sent = 0;
	int err;

	memset(&r1, 0, sizeof(r1));
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, seed, false), 0);
	node_start(&a, sim, &bad, &c1);
	node_start(&b, sim, &bad, &c2);
	path = path_to(a.port, to, 0xc000);
	for (unsigned steps = 0; sent < 100 && steps < 100000; steps++) {
		urxe_put32(bth + 8, sent);
		urxe_lane_lock(a.lane);
		err = send_bytes(a.lane, path, bth, sizeof(bth));
		urxe_lane_unlock(a.lane);
		CU_ASSERT_TRUE_FATAL(!err || err == EINPROGRESS || err == EHOSTUNREACH);
		sent += !err;
		node_poll(&a);
		collect(&b, &r1);
		next = node_tick(&a);
		tb = node_tick(&b);
		next = tb < next ? tb : next;
		if (err == EHOSTUNREACH)
			next = urxe_sim_now(sim) + URXE_SEC;
		tb = urxe_sim_next(sim);
		next = tb < next ? tb : next;
		CU_ASSERT_TRUE_FATAL(!err || next != URXE_NEVER);
		if (next != URXE_NEVER)
			urxe_sim_advance(sim, next);
	}
	CU_ASSERT_EQUAL(sent, 100);
	while (urxe_sim_step(sim))
		collect(&b, &r1);
	CU_ASSERT_TRUE(r1.count > 30 && r1.count < 120);
	CU_ASSERT_EQUAL(counter(b.port, "rx_icrc"), 0);
	urxe_path_destroy(path);
	urxe_port_destroy(a.port);
	urxe_port_destroy(b.port);
	while (urxe_sim_step(sim))
		;
	CU_ASSERT_EQUAL(urxe_sim_buffers(sim), 0);
	urxe_sim_destroy(sim);
}

static void resolve_under_loss(void)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		resolve_one("10.9.0.2", seed);
		resolve_one("fd00::2", seed);
	}
}

/* ---- threads: for TSan ---- */

#define PER_THREAD 3000

struct worker {
	struct node *n;
	unsigned lane;
	const char *to;
	unsigned sent, got;
	atomic_uint *sending;
};

static void serve(struct worker *w, struct urxe_lane *lane)
{
	struct urxe_packet p[RX_BURST];
	unsigned k;

	k = urxe_lane_rx(lane, p, RX_BURST);
	urxe_lane_release(lane, p, k);
	w->got += k;
	urxe_lane_tick(lane, urxe_port_now(w->n->port));
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct urxe_sleep how = {0};
	struct urxe_lane *lane;
	struct urxe_path *path;
	struct urxe_port_info info;
	uint8_t bth[64] = {0}, group[16];
	uint64_t values[URXE_COUNTERS];

	CU_ASSERT_EQUAL_FATAL(urxe_port_start(w->n->port), 0);
	lane = urxe_port_lane(w->n->port, w->lane);
	gid_of("ff0e::7", group);
	path = path_to(w->n->port, w->to, (uint16_t)(0xc000 + w->lane));
	for (unsigned i = 0; w->sent < PER_THREAD; i++) {
		if (!urxe_lane_trylock(lane)) {
			sched_yield();
			continue;
		}
		w->sent += !send_bytes(lane, path, bth, sizeof(bth));
		serve(w, lane);
		urxe_lane_unlock(lane);
		if (i % 256 == 0) {
			urxe_port_query(w->n->port, &info);
			urxe_port_counters(w->n->port, NULL, values, URXE_COUNTERS);
			urxe_port_mcast_join(w->n->port, group);
			urxe_port_mcast_leave(w->n->port, group);
		}
	}
	urxe_path_destroy(path);
	atomic_fetch_sub(w->sending, 1);
	while (atomic_load(w->sending)) {
		urxe_lane_lock(lane);
		serve(w, lane);
		urxe_lane_unlock(lane);
		urxe_port_wait(w->n->port, URXE_MSEC, &how);
	}
	return NULL;
}

/* Two ports of two lanes, four threads; each starts its port, sends, receives, queries. */
static void threads(void)
{
	struct urxe_port_config c[2] = {node_cfg(1), node_cfg(2)};
	struct urxe_sim_params two = {.lanes = 2};
	struct node n[2];
	struct worker w[4];
	pthread_t t[4];
	atomic_uint sending = 4;
	uint64_t delivered = 0, sent = 0;

	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, true), 0);
	for (unsigned i = 0; i < 2; i++) {
		n[i].end = urxe_sim_end(sim, &two);
		CU_ASSERT_EQUAL_FATAL(
			urxe_port_create(&n[i].port, &c[i], &urxe_link_sim_ops, n[i].end), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct worker){.n = &n[i / 2],
				       .lane = i % 2,
				       .to = i % 2   ? i / 2 ? "10.9.0.1" : "10.9.0.2"
					     : i / 2 ? "fd00::2"
						     : "fd00::2",
				       .sending = &sending};
		CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, work, &w[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < 4; i++)
		sent += w[i].sent;
	for (unsigned i = 0; i < 2; i++) {
		delivered += counter(n[i].port, "rx_packets");
		urxe_port_destroy(n[i].port);
	}
	CU_ASSERT_EQUAL(sent, 4 * PER_THREAD);
	CU_ASSERT_TRUE(delivered > 0 && delivered <= sent);
	urxe_sim_destroy(sim);
}

/* A port that ends while a received frame is held back. */
static void ends_with_one_held(void)
{
	struct urxe_port_config c1 = node_cfg(1), c2 = node_cfg(2);
	struct urxe_port_config f = {RX(REORDER, 1)};
	uint8_t bth[64] = {0};
	struct two t;

	memset(&r1, 0, sizeof(r1));
	memcpy(c2.fault, f.fault, sizeof(c2.fault));
	c2.seed = 1;
	two_start(&t, &c1, &c2);
	two_send(&t, bth, sizeof(bth));
	collect(&t.b, &r1);
	CU_ASSERT_EQUAL(r1.count, 0);
	two_end(&t);
}

/* A turn leaves nothing over, for which the service thread would be woken. */
static void full_bursts(void)
{
	struct urxe_port_config c1 = node_cfg(1), c2 = node_cfg(2);
	const struct urxe_port_config faults = {RX(DUP, 0.02), RX(REORDER, 0.02)};
	struct urxe_packet p[RX_BURST];
	uint8_t bth[64] = {0};
	unsigned full = 0, n;
	struct two t;

	memcpy(c2.fault, faults.fault, sizeof(c2.fault));
	two_start(&t, &c1, &c2);
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < RX_BURST + 8; i++)
			two_send(&t, bth, sizeof(bth));
		do {
			urxe_lane_lock(t.b.lane);
			n = urxe_lane_rx(t.b.lane, p, RX_BURST);
			urxe_lane_release(t.b.lane, p, n);
			CU_ASSERT_EQUAL(atomic_load(&t.b.lane->pend_count), 0);
			urxe_lane_unlock(t.b.lane);
			full += n >= RX_BURST - 4;
		} while (n);
	}
	CU_ASSERT(full > 90);
	CU_ASSERT(counter(t.b.port, "fault_rx_dup") > 30);
	CU_ASSERT(counter(t.b.port, "fault_rx_reorder") > 30);
	two_end(&t);
}

URXE_TEST_MAIN("netio_fault", T(no_faults), T(each_fault), T(one_direction), T(at_times),
	       T(same_seed_same_run), T(looped), T(wakes_by), T(resolve_under_loss), T(threads),
	       T(ends_with_one_held), T(full_bursts))
