/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Many QPs on one CQ: their send queues share memory, and rest with their timers while they are
 * empty; who posts to one knows the next. Nothing of that is seen from outside.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "pair.h"
#include "urxe/random.h"

#define CROWD (2u * URXE_CQ_CROWD)
#define PART  4096u /* of the buffer, for each QP */
#define DEEP  128u

struct crowd {
	struct pair p;
	struct ibv_qp *a[CROWD], *b[CROWD];
	unsigned posted[CROWD], done[CROWD]; /* wr_id: QP << 16 | number */
};

static struct pair_params pp = {.seed = 5, .link = {.latency = 5000}};

static void crowd_open(struct crowd *c, const struct pair_params *params)
{
	memset(c, 0, sizeof(*c));
	pair_open(&c->p, params, IBV_QPT_RC);
	for (unsigned k = 0; k < CROWD; k++) {
		c->a[k] = pair_qp(&c->p.a, params, IBV_QPT_RC);
		c->b[k] = pair_qp(&c->p.b, params, IBV_QPT_RC);
		pair_connect(&c->p, &c->p.a, c->a[k], &c->p.b, c->b[k], params);
	}
	for (size_t i = 0; i < PAIR_BUF; i++)
		c->p.a.buf[i] = (uint8_t)(i * 5 + i / 251);
	pair_meet(&c->p);
}

static void crowd_close(struct crowd *c)
{
	for (unsigned k = 0; k < CROWD; k++) {
		if (c->a[k])
			CU_ASSERT_EQUAL(ibv_destroy_qp(c->a[k]), 0);
		CU_ASSERT_EQUAL(ibv_destroy_qp(c->b[k]), 0);
	}
	pair_close(&c->p);
}

/* Message number @n of QP @k, 8 bytes to the same place at the peer. */
static int write_one(struct crowd *c, unsigned k)
{
	unsigned n = c->posted[k];
	uint32_t off = k * PART + n % (PART / 8) * 8;
	struct side s = c->p.a;
	int err;

	s.qp = c->a[k];
	err = pair_post(&s, IBV_WR_RDMA_WRITE, (uint64_t)k << 16 | n, off, 8, &c->p.b, off,
			IBV_SEND_SIGNALED);
	c->posted[k] += !err;
	return err;
}

/* Completions come by QP in the order of its posts; returns how many did. */
static unsigned reap(struct crowd *c)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(c->p.a.cq, 16, wc);

	for (int i = 0; i < n; i++) {
		unsigned k = (unsigned)(wc[i].wr_id >> 16);

		CU_ASSERT_EQUAL_FATAL(wc[i].status, IBV_WC_SUCCESS);
		CU_ASSERT_FATAL(k < CROWD && c->a[k]->qp_num == wc[i].qp_num);
		CU_ASSERT_EQUAL((wc[i].wr_id & 0xffff), c->done[k]);
		c->done[k]++;
	}
	return n > 0 ? (unsigned)n : 0;
}

static bool all_done(void *arg)
{
	struct crowd *c = arg;

	while (reap(c))
		;
	for (unsigned k = 0; k < CROWD; k++)
		if (c->done[k] != c->posted[k])
			return false;
	return true;
}

static unsigned blocks(struct ibv_cq *cq, unsigned size)
{
	unsigned n = 0;

	for (void **b = (void **)to_urxe_cq(cq)->slots.rest[size]; b; b = *b)
		n++;
	return n;
}

static unsigned all_blocks(struct ibv_cq *cq)
{
	unsigned n = 0;

	for (unsigned i = 0; i < URXE_SLOTS_CLASSES; i++)
		n += blocks(cq, i);
	return n;
}

static bool rests(struct ibv_qp *qp)
{
	const struct urxe_qp *q = to_urxe_qp(qp);

	return !q->sq.ring.size && !q->sq.ring.slots && !q->sq.post && !q->sq.done && !q->sq.cur &&
	       !q->timer_at && !q->timer.pos;
}

/* As many blocks as QPs that had something under way at once; and no timer is left. */
static void test_rest(void)
{
	struct crowd *c = calloc(1, sizeof(*c));

	crowd_open(c, &pp);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned k = 0; k < CROWD; k += 4) {
			for (unsigned i = 0; i < 4; i++)
				CU_ASSERT_EQUAL(write_one(c, k + i), 0);
			CU_ASSERT(pair_run(&c->p, 1000000000, all_done, c));
		}
	}
	for (unsigned k = 0; k < CROWD; k++)
		CU_ASSERT(rests(c->a[k]));
	CU_ASSERT_EQUAL(all_blocks(c->p.a.cq), 4);
	CU_ASSERT_EQUAL(c->p.a.dev->sched.timers.n, 0);
	/* Who answers alone never had one. */
	CU_ASSERT_EQUAL(all_blocks(c->p.b.cq), 0);
	CU_ASSERT(!memcmp(c->p.a.buf, c->p.b.buf, 3 * 8));
	crowd_close(c);
	free(c);
}

/* Bursts of any depth, on a link that loses: queues grow, are gone back over, and change blocks. */
static void test_depths(void)
{
	struct pair_params lossy = pp;
	struct crowd *c = calloc(1, sizeof(*c));
	uint64_t seed = 7;

	lossy.link.loss = lossy.link.reorder = 0.02;
	crowd_open(c, &lossy);
	for (unsigned round = 0; round < 400; round++) {
		unsigned k = urxe_random_below(&seed, CROWD);
		unsigned n = 1u << urxe_random_below(&seed, 8);

		for (unsigned i = 0; i < n; i++)
			if (write_one(c, k)) {
				CU_ASSERT(c->posted[k] - c->done[k] >= DEEP / 2);
				break;
			}
		pair_settle(&c->p, urxe_random_below(&seed, 20000));
		reap(c);
	}
	CU_ASSERT(pair_run(&c->p, 60000000000, all_done, c));
	for (unsigned k = 0; k < CROWD; k++) {
		uint32_t len = c->posted[k] * 8;

		len = len < PART ? len : PART;
		CU_ASSERT(!memcmp(c->p.a.buf + k * PART, c->p.b.buf + k * PART, len));
		CU_ASSERT(!c->posted[k] || rests(c->a[k]));
	}
	CU_ASSERT(all_blocks(c->p.a.cq) <= CROWD);
	crowd_close(c);
	free(c);
}

static uintptr_t next_of(struct ibv_qp *qp)
{
	return to_urxe_qp(qp)->next_posted;
}

static void in_turn(struct crowd *c, unsigned step)
{
	for (unsigned i = 0, k = 0; i < CROWD; i++, k = (k + step) % CROWD)
		if (c->a[k])
			CU_ASSERT_EQUAL(write_one(c, k), 0);
	CU_ASSERT(pair_run(&c->p, 1000000000, all_done, c));
}

/* The next one is known when it was that twice, and forgotten when another one is. */
static void test_next(void)
{
	struct crowd *c = calloc(1, sizeof(*c));
	struct urxe_cq *cq;

	crowd_open(c, &pp);
	cq = to_urxe_cq(c->p.a.cq);
	in_turn(c, 1);
	CU_ASSERT_EQUAL(next_of(c->a[6]), (uintptr_t)to_urxe_qp(c->a[7]));
	in_turn(c, 1);
	for (unsigned k = 0; k + 1 < CROWD; k++)
		CU_ASSERT_EQUAL(next_of(c->a[k]), (uintptr_t)to_urxe_qp(c->a[k + 1]) | 1);
	CU_ASSERT_PTR_EQUAL(cq->posted, to_urxe_qp(c->a[CROWD - 1]));
	/* One that is gone is not written to, nor missed. */
	CU_ASSERT_EQUAL(ibv_destroy_qp(c->a[CROWD - 1]), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(c->a[5]), 0);
	c->a[CROWD - 1] = c->a[5] = NULL;
	CU_ASSERT_PTR_NULL(cq->posted);
	urxe_rcu_drain();
	in_turn(c, 1);
	CU_ASSERT_EQUAL(next_of(c->a[4]), (uintptr_t)to_urxe_qp(c->a[6]));
	in_turn(c, 7);
	CU_ASSERT_EQUAL(next_of(c->a[6]), (uintptr_t)to_urxe_qp(c->a[13]));
	crowd_close(c);
	free(c);
}

/* A queue that is reset, fails or ends with work in it: its block is one that others can have. */
static void test_ends(void)
{
	struct crowd *c = calloc(1, sizeof(*c));
	struct side s;

	crowd_open(c, &pp);
	in_turn(c, 1);
	CU_ASSERT_EQUAL(all_blocks(c->p.a.cq), CROWD);
	s = c->p.a;
	for (unsigned k = 0; k < 30; k++) {
		s.qp = c->a[k];
		for (unsigned i = 0; i < 4; i++)
			CU_ASSERT_EQUAL(pair_post(&s, IBV_WR_RDMA_WRITE, 0, 0, 8, &c->p.b, 0, 0),
					0);
		if (k % 3 == 0)
			pair_modify(c->a[k], IBV_QPS_RESET);
		else if (k % 3 == 1)
			pair_modify(c->a[k], IBV_QPS_ERR);
		if (k % 2) {
			CU_ASSERT_EQUAL(ibv_destroy_qp(c->a[k]), 0);
			c->a[k] = NULL;
		}
	}
	/* The 15 that are gone have taken one each with them. */
	pair_settle(&c->p, 100000000);
	CU_ASSERT_EQUAL(all_blocks(c->p.a.cq), CROWD - 15);
	for (unsigned k = 0; k < 30; k += 6) {
		pair_modify(c->b[k], IBV_QPS_RESET);
		pair_connect(&c->p, &c->p.a, c->a[k], &c->p.b, c->b[k], &pp);
		CU_ASSERT_EQUAL(write_one(c, k), 0);
	}
	while (ibv_poll_cq(c->p.a.cq, 1, &(struct ibv_wc){0}) > 0)
		;
	crowd_close(c);
	free(c);
}

/* A few QPs keep what they have, and their timers stay where they are. */
static void test_few(void)
{
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	CU_ASSERT_EQUAL(to_urxe_qp(p.a.qp)->sq.ring.size, 0);
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(
			pair_post(&p.a, IBV_WR_RDMA_WRITE, i, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.wr_id == i && !wc.status);
	CU_ASSERT_EQUAL(to_urxe_qp(p.a.qp)->sq.ring.size, 8);
	CU_ASSERT_EQUAL(to_urxe_qp(p.a.qp)->sq.post, 5);
	CU_ASSERT_EQUAL(next_of(p.a.qp), 0);
	/* The four slots that it began with are nobody's. */
	CU_ASSERT_EQUAL(all_blocks(p.a.cq), 0);
	pair_close(&p);
}

URXE_TEST_MAIN("crowd", T(test_rest), T(test_depths), T(test_next), T(test_ends), T(test_few))
