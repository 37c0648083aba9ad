/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When posted work is sent: at once, or, while much is under way and the caller polls, together
 * with what it posts until its next poll. And how much at a time a link is given and asked for.
 */
#include "harness.h"
#include "pair.h"
#include "progress.h"

#define UNDER_WAY 16  /* packets that keep a peer busy */
#define PATIENCE  256 /* work requests without a poll */

static const struct pair_params params = {.seed = 3, .link = {.latency = 1000}, .max_wr = 512};

static struct {
	struct urxe_sim_end *end;
	unsigned frames;
} sent;

static void watch(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len,
		  uint64_t now)
{
	if (from == sent.end && len >= 60 && data[12] == 0x08 && data[13] == 0x00)
		sent.frames++;
}

/* A pair whose time stands still: nothing is acknowledged before pair_settle(). */
static void open_watched(struct pair *p)
{
	pair_open(p, &params, IBV_QPT_RC);
	pair_meet(p);
	sent.end = p->a.end;
	sent.frames = 0;
	urxe_sim_tap(p->sim, watch, NULL);
}

static void post(struct pair *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		CU_ASSERT_EQUAL(
			pair_post(&p->a, IBV_WR_RDMA_WRITE, i, 0, 8, &p->b, 64, IBV_SEND_SIGNALED),
			0);
}

static void poll_empty(struct pair *p)
{
	struct ibv_wc wc;

	CU_ASSERT_EQUAL(ibv_poll_cq(p->a.cq, 1, &wc), 0);
}

/* All that was posted completes. */
static void finish(struct pair *p, unsigned n)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < n; i++) {
		CU_ASSERT_FATAL(pair_wait(p, p->a.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	}
	CU_ASSERT_EQUAL(sent.frames, n);
	pair_close(p);
}

static void test_little_under_way(void)
{
	struct pair p;

	open_watched(&p);
	for (unsigned i = 0; i < UNDER_WAY; i++) {
		poll_empty(&p);
		post(&p, 1);
		CU_ASSERT_EQUAL(sent.frames, i + 1);
	}
	finish(&p, UNDER_WAY);
}

static void test_waits_for_the_poll(void)
{
	struct pair p;

	open_watched(&p);
	poll_empty(&p);
	post(&p, UNDER_WAY);
	CU_ASSERT_EQUAL(sent.frames, UNDER_WAY);
	post(&p, 8);
	CU_ASSERT_EQUAL(sent.frames, UNDER_WAY);
	poll_empty(&p);
	CU_ASSERT_EQUAL(sent.frames, UNDER_WAY + 8);
	finish(&p, UNDER_WAY + 8);
}

static void test_not_too_many(void)
{
	struct pair p;

	open_watched(&p);
	poll_empty(&p);
	post(&p, UNDER_WAY + 15);
	CU_ASSERT_EQUAL(sent.frames, UNDER_WAY);
	post(&p, 1);
	CU_ASSERT_EQUAL(sent.frames, UNDER_WAY + 16);
	finish(&p, UNDER_WAY + 16);
}

/* One that waits for memory to change, or goes away, has nobody who would send for it. */
static void test_no_poller(void)
{
	struct pair p;

	open_watched(&p);
	/* As many as it takes to see that nobody polls. */
	for (unsigned i = 0; i < PATIENCE; i += PATIENCE / 4) {
		post(&p, PATIENCE / 4);
		pair_settle(&p, 10000000);
	}
	post(&p, UNDER_WAY);
	for (unsigned i = PATIENCE + UNDER_WAY + 1; i < PATIENCE + UNDER_WAY + 10; i++) {
		post(&p, 1);
		CU_ASSERT_EQUAL(sent.frames, i);
	}
	finish(&p, PATIENCE + UNDER_WAY + 9);
}

static void test_leaves_with_its_qp(void)
{
	struct pair p;

	open_watched(&p);
	poll_empty(&p);
	post(&p, UNDER_WAY + 5);
	CU_ASSERT_EQUAL(sent.frames, UNDER_WAY);
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_ERR), 0);
	CU_ASSERT_EQUAL(sent.frames, UNDER_WAY + 5);
	pair_close(&p);
}

/* The service thread sends what a caller left who polled, posted and went; and each next time. */
static void test_nobody_comes_back(void)
{
	struct pair p;

	open_watched(&p);
	poll_empty(&p);
	post(&p, UNDER_WAY);
	for (unsigned sum = UNDER_WAY; sum < UNDER_WAY + 15; sum += 5) {
		post(&p, 2);
		post(&p, 3);
		CU_ASSERT_EQUAL(sent.frames, sum);
		CU_ASSERT(urxe_progress_turn(p.a.dev) >= 0);
		CU_ASSERT_EQUAL(sent.frames, sum + 5);
	}
	finish(&p, UNDER_WAY + 15);
}

static unsigned calls;

static unsigned count_tx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	calls += n > 0;
	return urxe_link_sim_ops.tx(link, lane, f, n);
}

/* A message of 64 packets on a link that likes @burst at a time: calls to send it, and answers. */
static void large_message(unsigned burst, uint32_t mtu, unsigned *sends, uint64_t *answers)
{
	struct urxe_link_ops ops = urxe_link_sim_ops;
	struct pair_params pp = params;
	uint64_t before;
	struct pair p;

	ops.burst = burst;
	pp.mtu = mtu;
	ops.tx = count_tx;
	pp.ops = &ops;
	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	calls = 0;
	before = pair_stat(&p.b, URXE_STAT_TX_PACKETS);
	CU_ASSERT_EQUAL(
		pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 64 * mtu, &p.b, 0, IBV_SEND_SIGNALED), 0);
	*sends = calls;
	/* All of it is there when b looks. */
	urxe_sim_advance(p.sim, urxe_sim_now(p.sim) + params.link.latency);
	for (unsigned i = 0; i < 4; i++)
		urxe_progress_turn(p.b.dev);
	*answers = pair_stat(&p.b, URXE_STAT_TX_PACKETS) - before;
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_PACKETS), 64);
	pair_close(&p);
}

/* Where a call costs much, a message of 64 packets is sent by one, and has one answer. */
static void test_link_burst(void)
{
	uint64_t answers;
	unsigned sends;

	large_message(0, 1024, &sends, &answers);
	CU_ASSERT_EQUAL(sends, 2);
	CU_ASSERT_EQUAL(answers, 2);
	large_message(URXE_BURST_MOST, 1024, &sends, &answers);
	CU_ASSERT_EQUAL(sends, 1);
	CU_ASSERT_EQUAL(answers, 1);
	large_message(URXE_BURST_MOST, 4096, &sends, &answers);
	CU_ASSERT_EQUAL(sends, 2);
	CU_ASSERT_EQUAL(answers, 2);
	/* No more than there is room for. */
	large_message(10 * URXE_BURST_MOST, 1024, &sends, &answers);
	CU_ASSERT_EQUAL(sends, 1);
	CU_ASSERT_EQUAL(answers, 1);
}

URXE_TEST_MAIN("gather", T(test_little_under_way), T(test_waits_for_the_poll), T(test_not_too_many),
	       T(test_no_poller), T(test_leaves_with_its_qp), T(test_nobody_comes_back),
	       T(test_link_burst))
