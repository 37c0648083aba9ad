/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queues take memory as they fill: rings that grow in the middle of work, and what an idle QP
 * costs.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

#define QP_COST	     (12u << 10) /* of an idle RC QP with room for 128 + 128 work requests */
#define QP_COST_FULL (32u << 10) /* when all of them are posted */

static struct pair_params pp = {.seed = 1, .link = {.latency = 5000}};

/* Rings that grow while they are used from the middle on: nothing is lost or swapped. */
static void test_growth(void)
{
	static const unsigned rounds[] = {11, 14, 15, 29, 31, 60, 127, 128, 100};
	unsigned sent = 0, got = 0;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	CU_ASSERT(to_urxe_qp(p.a.qp)->sq.ring.size < 128);
	for (unsigned r = 0; r < sizeof(rounds) / sizeof(rounds[0]); r++) {
		for (unsigned i = 0; i < rounds[r]; i++, sent++) {
			memcpy(p.a.buf + 4ul * sent, &sent, sizeof(sent));
			CU_ASSERT_EQUAL(pair_recv(&p.b, sent, 4 * sent, 4), 0);
			CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, sent, 4 * sent, 4, &p.b, 0, 0),
					0);
		}
		for (; got < sent; got++)
			CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && wc.status == IBV_WC_SUCCESS &&
				  wc.wr_id == got);
		/* Until the sender has its acknowledgements, so that there is room. */
		pair_settle(&p, 1000000);
	}
	CU_ASSERT(!memcmp(p.a.buf, p.b.buf, 4ul * sent));
	CU_ASSERT_EQUAL(to_urxe_qp(p.a.qp)->sq.ring.size, 128);
	CU_ASSERT_EQUAL(to_urxe_qp(p.b.qp)->own_rq.ring.size, 128);
	pair_close(&p);
}

/*
 * A receive is used where it lies in the ring, packet by packet: the ring grows under it. It keeps
 * its place until it is complete, or is flushed, once and before the others.
 */
static void test_growth_in_message(void)
{
	const uint32_t len = 0x20000;

	for (unsigned error = 0; error < 2; error++) {
		struct pair_params slow = pp;
		struct ibv_wc wc;
		struct urxe_qp *qp;
		struct pair p;

		slow.link.bandwidth = 1000000000;
		pair_open(&p, &slow, IBV_QPT_RC);
		qp = to_urxe_qp(p.b.qp);
		for (uint32_t i = 0; i < len; i++)
			p.a.buf[i] = (uint8_t)(i * 7 + i / 256);
		CU_ASSERT_EQUAL(pair_recv(&p.b, 0, 0, len), 0);
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 0, 0, len, &p.b, 0, 0), 0);
		while (!qp->resp.in_recv || !qp->resp.offset)
			CU_ASSERT_FATAL(pair_step(&p));
		for (unsigned i = 1; i < 128; i++)
			CU_ASSERT_EQUAL(pair_recv(&p.b, i, 0, 0), 0);
		CU_ASSERT_EQUAL(pair_recv(&p.b, 128, 0, 0), ENOMEM);
		CU_ASSERT(qp->resp.in_recv && qp->own_rq.ring.size == 128);
		if (error)
			pair_modify(p.b.qp, IBV_QPS_ERR);
		CU_ASSERT_FATAL(pair_wait(&p, p.b.cq, &wc));
		CU_ASSERT_EQUAL(wc.wr_id, 0);
		CU_ASSERT_EQUAL(wc.status, error ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
		CU_ASSERT(error || !memcmp(p.a.buf, p.b.buf, len));
		for (unsigned i = 1; i < 128 && error; i++)
			CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && wc.wr_id == i);
		CU_ASSERT_EQUAL(pair_recv(&p.b, 128, 0, 0), 0);
		pair_close(&p);
	}
}

static size_t memory_in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* Both queues at their deepest. Nothing leaves: the neighbour is not resolved yet. */
static void fill_queues(struct pair *p, struct ibv_qp *qp)
{
	struct side s = p->a;

	s.qp = qp;
	for (unsigned i = 0; i < 128; i++) {
		CU_ASSERT_EQUAL(pair_recv(&s, i, 0, 64), 0);
		CU_ASSERT_EQUAL(pair_post(&s, IBV_WR_SEND, i, 0, 64, &p->b, 0, 0), 0);
	}
	CU_ASSERT_EQUAL(pair_recv(&s, 128, 0, 64), ENOMEM);
	CU_ASSERT_EQUAL(pair_post(&s, IBV_WR_SEND, 128, 0, 64, &p->b, 0, 0), ENOMEM);
}

static void test_qp_memory(void)
{
	enum {
		N = 1000
	};
	struct ibv_qp *qps[N];
	size_t before, idle, full;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	before = memory_in_use();
	for (unsigned i = 0; i < N; i++) {
		qps[i] = pair_qp(&p.a, &pp, IBV_QPT_RC);
		pair_modify(p.b.qp, IBV_QPS_RESET);
		pair_connect(&p, &p.a, qps[i], &p.b, p.b.qp, &pp);
	}
	idle = (memory_in_use() - before) / N;
	for (unsigned i = 0; i < N; i++)
		fill_queues(&p, qps[i]);
	full = (memory_in_use() - before) / N;
	printf(" %zu bytes per RC QP of 128 + 128 work requests, %zu when all are posted ", idle,
	       full);
	CU_ASSERT(idle < QP_COST && full < QP_COST_FULL); /* a sanitizer reports nothing */
	for (unsigned i = 0; i < N; i++)
		ibv_destroy_qp(qps[i]);
	pair_close(&p);
}

URXE_TEST_MAIN("rings", T(test_growth), T(test_growth_in_message), T(test_qp_memory))
