/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A sender that finds the lane in use leaves its work to who has the lane, and wakes nobody for it
 * but where it sleeps for events itself.
 */
#include "harness.h"
#include "pair.h"
#include "progress.h"

/* The linker sends these here (--wrap). */
void __real_urxe_port_wake(struct urxe_port *port);
void __wrap_urxe_port_wake(struct urxe_port *port);
uint64_t __real_urxe_lane_tick(struct urxe_lane *lane, uint64_t now);
uint64_t __wrap_urxe_lane_tick(struct urxe_lane *lane, uint64_t now);

static struct pair p;
static unsigned woken;
static bool post_now; /* at the end of the next turn of @a's */

static void open_pair(void)
{
	const struct pair_params params = {.seed = 5, .channel = true, .link = {.latency = 1000}};

	pair_open(&p, &params, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(pair_recv(&p.b, i, 0x1000, 64), 0);
	woken = 0;
}

static void post(void)
{
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 2, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
}

void __wrap_urxe_port_wake(struct urxe_port *port)
{
	woken++;
	__real_urxe_port_wake(port);
}

/* As another thread would, which finds the lane in use at the end of a turn. */
uint64_t __wrap_urxe_lane_tick(struct urxe_lane *lane, uint64_t now)
{
	uint64_t next = __real_urxe_lane_tick(lane, now);

	if (post_now && lane == urxe_port_lane(p.a.dev->port, 0)) {
		post_now = false;
		post();
		CU_ASSERT_EQUAL(atomic_load(&p.a.dev->sched.npending), 1);
	}
	return next;
}

static void in_a_turn(void)
{
	uint64_t before;

	open_pair();
	before = pair_stat(&p.a, URXE_STAT_TX_PACKETS);
	post_now = true;
	urxe_progress_turn(p.a.dev);
	CU_ASSERT_FALSE(post_now);
	CU_ASSERT_EQUAL(atomic_load(&p.a.dev->sched.npending), 0);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TX_PACKETS), before + 1);
	pair_close(&p);
}

/* @until: when the service thread wakes up by itself; @events: the sender sleeps for one. */
static unsigned wakes(uint64_t until, bool events)
{
	struct urxe_service_thread *s = &p.a.dev->service;
	struct urxe_lane *lane = urxe_port_lane(p.a.dev->port, 0);
	unsigned n;

	if (events)
		CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 0), 0);
	atomic_store(&s->until, until);
	atomic_store(&s->asleep, true);
	urxe_lane_lock(lane);
	woken = 0;
	post();
	n = woken;
	CU_ASSERT_EQUAL(atomic_load(&p.a.dev->sched.npending), 1);
	atomic_store(&s->asleep, false);
	urxe_lane_unlock(lane);
	return n;
}

static void who_is_woken(void)
{
	uint64_t now;

	open_pair();
	now = urxe_port_now(p.a.dev->port);
	/* It is about to look: that will do. */
	CU_ASSERT_EQUAL(wakes(now + 100000, false), 0);
	pair_settle(&p, 1000000);
	CU_ASSERT_EQUAL(wakes(URXE_NEVER, false), 1);
	pair_settle(&p, 1000000);
	CU_ASSERT_EQUAL(wakes(urxe_port_now(p.a.dev->port) + 100000, true), 1);
	pair_settle(&p, 1000000);
	pair_close(&p);
}

URXE_TEST_MAIN("combine", T(in_a_turn), T(who_is_woken), {NULL, NULL})
