/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The service thread on a link with interrupts: it sleeps until it is woken, and all that needs
 * it must do so. Here a long sleep lasts for ever unless a frame or a wake ends it.
 */
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "forge.h"
#include "provider/pause.h"
#include "provider/pending.h"
#include "provider/service.h"

static atomic_uint frames[2], sleepers; /* frames to a, to b */
static atomic_bool driven;		/* a thread slept beside a caller that polls */
static _Atomic(void *) end_a;
static _Atomic(struct urxe_service_thread *) services[2]; /* a's, b's */
static struct urxe_link_ops ops;

#define CLOCK_READINGS 24	/* more than a round of the thread takes */
#define HALTED	       UINT_MAX /* it waits until halt_at is something else */
static atomic_uint halt_at;	/* a's thread halts when it reads the clock for that time; 0: not */
static _Thread_local bool is_thread;

static uint64_t now(void *end)
{
	unsigned left = is_thread && end == atomic_load(&end_a) ? atomic_load(&halt_at) : 0;

	if (left && left != HALTED &&
	    atomic_compare_exchange_strong(&halt_at, &left, left - 1 ? left - 1 : HALTED) &&
	    left == 1) {
		while (atomic_load(&halt_at) == HALTED)
			sched_yield();
	}
	return urxe_link_sim_ops.now(end);
}

static void tap(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len,
		uint64_t now)
{
	atomic_fetch_add(&frames[from == atomic_load(&end_a)], 1);
}

static void wait_for_interrupt(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	struct pollfd pfd = {.fd = wake_fd, .events = POLLIN};
	bool is_b = link != atomic_load(&end_a);
	struct urxe_service_thread *service = atomic_load(&services[is_b]);
	atomic_uint *mine = &frames[is_b];
	unsigned seen = atomic_load(mine);
	bool deep = ns > URXE_SLEEP_TRY_NS / 2;

	is_thread = true;
	if (how->driven)
		atomic_store(&driven, !how->interrupt);
	how->interrupt = true;
	/* For ever: who is late must not take it to have ended by itself. */
	if (deep && service)
		atomic_store(&service->until, URXE_NEVER);
	if (deep)
		atomic_fetch_add(&sleepers, 1);
	/* A frame takes its time on the way: look a little longer than it is. */
	while (!poll(&pfd, 1, 1) && deep && atomic_load(mine) == seen)
		;
	if (deep)
		atomic_fetch_sub(&sleepers, 1);
}

/* Both threads sleep soundly. */
static void until_asleep(void)
{
	while (atomic_load(&sleepers) < 2)
		usleep(100);
}

/* Both know each other, and sleep. */
static void set_up(struct pair *p, const struct pair_params *pp, enum ibv_qp_type type)
{
	ops = urxe_link_sim_ops;
	ops.wait = wait_for_interrupt;
	ops.now = now;
	/* Not those of the test before. */
	atomic_store(&services[0], NULL);
	atomic_store(&services[1], NULL);
	pair_open(p, pp, type);
	atomic_store(&end_a, p->a.end);
	atomic_store(&services[0], &p->a.dev->service);
	atomic_store(&services[1], &p->b.dev->service);
	urxe_sim_tap(p->sim, tap, NULL);
	/* a first one, for the neighbours */
	pair_post(&p->a, IBV_WR_RDMA_WRITE, 1, 0, 8, &p->b, 0, IBV_SEND_SIGNALED);
	for (struct ibv_wc wc; ibv_poll_cq(p->a.cq, 1, &wc) != 1;)
		;
	until_asleep();
	/* Of sleeps that began before these were known. */
	atomic_store(&p->a.dev->service.until, URXE_NEVER);
	atomic_store(&p->b.dev->service.until, URXE_NEVER);
}

/* A caller posts and goes away; the packet is lost: it is sent again when its time has come. */
static void test_timer_wakes(void)
{
	struct pair_params pp = {
		.threaded = true, .ops = &ops, .timeout = 10, .link = {.latency = 1000}};
	struct urxe_sim_params deaf = {.latency = 1000, .loss = 1};
	struct pair p;

	set_up(&p, &pp, IBV_QPT_RC);
	urxe_sim_end_params(p.a.end, &deaf);
	p.a.buf[0] = 77;
	pair_post(&p.a, IBV_WR_RDMA_WRITE, 2, 0, 8, &p.b, 0, IBV_SEND_SIGNALED);
	urxe_sim_end_params(p.a.end, &pp.link);
	/* Nobody polls. Without the wake this does not end. */
	for (unsigned i = 0; i < 20000 && pair_stat(&p.a, URXE_STAT_RETRANSMITS) == 0; i++)
		usleep(1000);
	CU_ASSERT(pair_stat(&p.a, URXE_STAT_RETRANSMITS) > 0);
	urxe_sim_tap(p.sim, NULL, NULL);
	pair_close(&p);
}

/* What nobody acknowledges is posted while the link has no room, and the caller goes away. */
static void test_room_wakes(void)
{
	struct pair_params pp = {.threaded = true, .ops = &ops, .link = {.latency = 1000}};
	struct urxe_sim_params full = {.latency = 1000, .tx_stall = true};
	struct pair p;

	set_up(&p, &pp, IBV_QPT_UC);
	urxe_sim_end_params(p.a.end, &full);
	for (unsigned i = 1; i <= 100; i++)
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, i, 0, 8, &p.b, 0, 0), 0);
	urxe_sim_end_params(p.a.end, &pp.link);
	/* Nobody polls. Without the wake this does not end. */
	for (unsigned i = 0; i < 20000 && pair_stat(&p.a, URXE_STAT_TX_PACKETS) < 101; i++)
		usleep(1000);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TX_PACKETS), 101);
	urxe_sim_tap(p.sim, NULL, NULL);
	pair_close(&p);
}

/* The same at each point of a round of the thread: it may have seen that nothing waits, and be
 * about to sleep. */
static void test_room_in_a_round(void)
{
	struct pair_params pp = {.threaded = true, .ops = &ops, .link = {.latency = 1000}};
	struct urxe_sim_params full = {.latency = 1000, .tx_stall = true};
	uint64_t sent;
	struct pair p;

	set_up(&p, &pp, IBV_QPT_UC);
	sent = pair_stat(&p.a, URXE_STAT_TX_PACKETS);
	for (unsigned i = 1; i <= CLOCK_READINGS; i++) {
		until_asleep();
		urxe_sim_end_params(p.a.end, &full);
		atomic_store(&halt_at, i);
		urxe_port_wake(p.a.dev->port);
		/* It may read the clock less often. */
		for (unsigned ms = 0; ms < 10 && atomic_load(&halt_at) != HALTED; ms++)
			usleep(1000);
		for (unsigned k = 0; k < 100; k++, sent++)
			CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, k, 0, 8, &p.b, 0, 0), 0);
		atomic_store(&halt_at, 0);
		urxe_sim_end_params(p.a.end, &pp.link);
		/* Nobody polls. */
		for (unsigned k = 0; k < 200000 && pair_stat(&p.a, URXE_STAT_TX_PACKETS) < sent;
		     k++)
			usleep(100);
		CU_ASSERT_EQUAL_FATAL(pair_stat(&p.a, URXE_STAT_TX_PACKETS), sent);
	}
	urxe_sim_tap(p.sim, NULL, NULL);
	pair_close(&p);
}

/* Whose caller polls asks for no interrupt, and tells the link why. */
static void test_driven(void)
{
	struct pair_params pp = {.threaded = true, .ops = &ops, .link = {.latency = 1000}};
	struct ibv_wc wc;
	struct pair p;

	set_up(&p, &pp, IBV_QPT_RC);
	atomic_store(&driven, false);
	for (unsigned i = 0; i < 200000000 && !atomic_load(&driven); i++) {
		/*
		 * It sleeps, and looks at its callers when it has been woken. Not sooner again:
		 * beside a nudge it counts none as polling, and where it has our processor after us
		 * there would be one each time.
		 */
		if (atomic_load(&sleepers) == 2)
			urxe_service_nudge(p.a.dev);
		CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 0);
	}
	CU_ASSERT(atomic_load(&driven));
	until_asleep();
	urxe_sim_tap(p.sim, NULL, NULL);
	pair_close(&p);
}

static void count_polls(void *arg, uint64_t now)
{
	++*(unsigned *)arg;
}

/* Who sets a service does not wait for a turn that is on without one, and gets a turn of its own.
 */
static void test_gsi_service(void)
{
	struct pair_params pp = {.link = {.latency = 1000}};
	unsigned polls = 0;
	struct urxe_gsi_service one = {.poll = count_polls, .arg = &polls, .next = UINT64_MAX};
	struct urxe_gsi_service other = {.poll = count_polls, .arg = &polls, .next = UINT64_MAX};
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	urxe_mutex_lock(&p.a.dev->service.gsi_lock);
	CU_ASSERT_EQUAL(urxe_gsi_set_service(p.a.ctx, &one), 0);
	urxe_mutex_unlock(&p.a.dev->service.gsi_lock);
	CU_ASSERT_EQUAL(urxe_gsi_set_service(p.a.ctx, &other), EBUSY);
	CU_ASSERT(urxe_service_run_gsi(p.a.dev, 0, true));
	CU_ASSERT_EQUAL(polls, 1);
	CU_ASSERT_EQUAL(urxe_gsi_set_service(p.a.ctx, NULL), 0);
	CU_ASSERT_FALSE(urxe_service_run_gsi(p.a.dev, 0, true));
	CU_ASSERT_EQUAL(urxe_gsi_set_service(p.a.ctx, &other), 0);
	CU_ASSERT(urxe_service_run_gsi(p.a.dev, 0, true));
	CU_ASSERT_EQUAL(polls, 2);
	CU_ASSERT_EQUAL(urxe_gsi_set_service(p.a.ctx, NULL), 0);
	pair_close(&p);
}

/* Who goes to sleep has no timers of queue pairs that wait for nothing; all others stay. */
static void test_idle_timers(void)
{
	static const struct pair_params pp = {.seed = 4, .link = {.latency = 1000}};
	_Atomic uint64_t *next;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	next = &p.a.dev->sched.next_timer;
	urxe_pending_idle_timers(p.a.dev);
	CU_ASSERT_EQUAL(atomic_load(next), URXE_NEVER);
	pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.b, 0, IBV_SEND_SIGNALED);
	CU_ASSERT_NOT_EQUAL(atomic_load(next), URXE_NEVER);
	/* It waits for an ACK. */
	urxe_pending_idle_timers(p.a.dev);
	CU_ASSERT_NOT_EQUAL(atomic_load(next), URXE_NEVER);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT_NOT_EQUAL(atomic_load(next), URXE_NEVER);
	urxe_pending_idle_timers(p.a.dev);
	CU_ASSERT_EQUAL(atomic_load(next), URXE_NEVER);
	/* The next one has its timer again. */
	pair_post(&p.a, IBV_WR_RDMA_WRITE, 2, 0, 8, &p.b, 0, IBV_SEND_SIGNALED);
	CU_ASSERT_NOT_EQUAL(atomic_load(next), URXE_NEVER);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	pair_close(&p);
}

/* @op, of a peer, changes memory that they may watch (@written), and they may post (@landed). */
static void peer_does(struct pair *p, enum ibv_wr_opcode op, bool written, bool landed)
{
	struct urxe_service_thread *thread = &p->b.dev->service;
	struct ibv_wc wc;

	/* Nothing is noted but where they are known to watch. */
	for (int watched = 0; watched < 2; watched++) {
		atomic_store(&thread->watched, watched);
		CU_ASSERT_EQUAL(pair_recv(&p->b, 1, 0x1000, 64), 0);
		CU_ASSERT_EQUAL(pair_post(&p->a, op, 2, 0, 8, &p->b, 0, IBV_SEND_SIGNALED), 0);
		CU_ASSERT(pair_wait(p, p->a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
		pair_settle(p, 1000000);
		CU_ASSERT_EQUAL(atomic_exchange(&thread->written, false), watched && written);
		CU_ASSERT_EQUAL(atomic_exchange(&thread->landed, false), watched && landed);
		while (ibv_poll_cq(p->b.cq, 1, &wc) > 0)
			;
	}
}

static void test_written(void)
{
	const struct pair_params pp = {.link = {.latency = 1000}};
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	peer_does(&p, IBV_WR_SEND, false, false);
	peer_does(&p, IBV_WR_RDMA_WRITE_WITH_IMM, false, false);
	peer_does(&p, IBV_WR_RDMA_READ, false, false);
	peer_does(&p, IBV_WR_RDMA_WRITE, true, true);
	peer_does(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, true, false);
	pair_close(&p);
	pair_open(&p, &pp, IBV_QPT_UC);
	peer_does(&p, IBV_WR_SEND, false, false);
	peer_does(&p, IBV_WR_RDMA_WRITE_WITH_IMM, false, false);
	peer_does(&p, IBV_WR_RDMA_WRITE, true, true);
	pair_close(&p);
}

URXE_TEST_MAIN("service", T(test_timer_wakes), T(test_room_wakes), T(test_room_in_a_round),
	       T(test_driven), T(test_gsi_service), T(test_idle_timers), T(test_written))
