/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What loss and reordering cost, in virtual time, on a link of 25 Gb/s: bytes of 64 KiB messages
 * against the same link without faults, and the latency of small messages that take turns. Both
 * directions have the faults.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

#define LATENCY	  3000
#define BANDWIDTH 25000000000ull
#define MESSAGE	  65536u
#define OUT	  8 /* messages under way */
#define COUNT	  400
#define SEEDS	  (4 / URXE_TEST_PART)
#define PINGS	  20000

struct flow {
	struct pair p;
	enum ibv_wr_opcode op;
	unsigned posted, done, received, errors;
};

static uint8_t byte_of(unsigned i)
{
	return (uint8_t)(i * 37 + 1);
}

/* Where it comes from, and where it is to be found. */
static void check(struct flow *f, unsigned i, bool at_receiver)
{
	const uint8_t *got = (f->op == IBV_WR_RDMA_READ ? f->p.a.buf : f->p.b.buf) +
			     (i % OUT) * MESSAGE + (at_receiver ? PAIR_BUF / 2 : 0);

	if (f->op == IBV_WR_SEND && !at_receiver)
		return;
	f->errors += got[0] != byte_of(i) || got[MESSAGE / 2] != byte_of(i) ||
		     got[MESSAGE - 1] != byte_of(i);
}

static void post_next(struct flow *f)
{
	unsigned i = f->posted++, at = (i % OUT) * MESSAGE;
	uint8_t *from = f->op == IBV_WR_RDMA_READ ? f->p.b.buf : f->p.a.buf;

	memset(from + PAIR_BUF / 2 * (f->op != IBV_WR_SEND) + at, byte_of(i), MESSAGE);
	f->errors +=
		pair_post(&f->p.a, f->op, i, f->op == IBV_WR_RDMA_WRITE ? PAIR_BUF / 2 + at : at,
			  MESSAGE, &f->p.b, f->op == IBV_WR_RDMA_READ ? PAIR_BUF / 2 + at : at,
			  IBV_SEND_SIGNALED) != 0;
}

static bool drive(void *arg)
{
	struct flow *f = arg;
	struct ibv_wc wc;

	while (ibv_poll_cq(f->p.b.cq, 1, &wc) == 1) {
		f->errors += wc.status != IBV_WC_SUCCESS;
		check(f, f->received++, true);
		pair_recv(&f->p.b, 0, PAIR_BUF / 2 + (f->received + OUT - 1) % OUT * MESSAGE,
			  MESSAGE);
	}
	while (ibv_poll_cq(f->p.a.cq, 1, &wc) == 1) {
		f->errors += wc.status != IBV_WC_SUCCESS || wc.wr_id != f->done;
		check(f, f->done++, false);
	}
	while (f->posted < COUNT && f->posted < f->done + OUT &&
	       (f->op != IBV_WR_SEND || f->posted < f->received + OUT))
		post_next(f);
	return f->errors || (f->done == COUNT && (f->op != IBV_WR_SEND || f->received == COUNT));
}

/* Virtual ns for all of them. */
static uint64_t take(enum ibv_wr_opcode op, const struct urxe_sim_params *link, uint64_t seed)
{
	struct pair_params pp = {.seed = seed, .mtu = 4096, .link = *link};
	struct flow *f = calloc(1, sizeof(*f));
	uint64_t start, ns;

	f->op = op;
	pair_open(&f->p, &pp, IBV_QPT_RC);
	pair_meet(&f->p);
	for (unsigned i = 0; i < OUT; i++)
		pair_recv(&f->p.b, 0, PAIR_BUF / 2 + i * MESSAGE, MESSAGE);
	start = urxe_sim_now(f->p.sim);
	CU_ASSERT(pair_run(&f->p, 60000000000ull, drive, f));
	ns = urxe_sim_now(f->p.sim) - start;
	CU_ASSERT_EQUAL(f->errors, 0);
	CU_ASSERT_EQUAL(pair_stat(&f->p.a, URXE_STAT_TIMEOUTS), 0);
	if (getenv("URXE_TEST_VERBOSE"))
		printf("\n  op %d seed %llu: %llu us, probes %llu, resent %llu, NAKs %llu, early "
		       "%llu "
		       "+ %llu, lost for good %llu, duplicates %llu",
		       op, (unsigned long long)seed, (unsigned long long)ns / 1000,
		       (unsigned long long)pair_stat(&f->p.a, URXE_STAT_PROBES),
		       (unsigned long long)pair_stat(&f->p.a, URXE_STAT_RETRANSMITS),
		       (unsigned long long)pair_stat(&f->p.b, URXE_STAT_TX_NAK_SEQ),
		       (unsigned long long)pair_stat(&f->p.b, URXE_STAT_RX_EARLY),
		       (unsigned long long)pair_stat(&f->p.a, URXE_STAT_RX_EARLY),
		       (unsigned long long)pair_stat(&f->p.b, URXE_STAT_RX_OUT_OF_SEQUENCE),
		       (unsigned long long)pair_stat(&f->p.b, URXE_STAT_RX_DUPLICATE));
	pair_close(&f->p);
	free(f);
	return ns;
}

static void test_goodput(void)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};
	static const struct {
		double loss, reorder, dup, ratio;
	} t[] = {
		{0.001, 0, 0, 0.95}, {0.01, 0, 0, 0.8},	       {0, 0.01, 0, 0.95},
		{0.05, 0, 0, 0.4},   {0.005, 0.01, 0.01, 0.8},
	};

	for (unsigned o = 0; o < 3; o++) {
		struct urxe_sim_params clean = {.latency = LATENCY, .bandwidth = BANDWIDTH};
		uint64_t best = take(ops[o], &clean, 1);

		for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
			struct urxe_sim_params link = clean;
			uint64_t sum = 0;
			double ratio;

			link.loss = t[i].loss;
			link.reorder = t[i].reorder;
			link.dup = t[i].dup;
			for (uint64_t seed = 1; seed <= SEEDS; seed++)
				sum += take(ops[o], &link, seed);
			ratio = (double)best * SEEDS / (double)sum;
			if (getenv("URXE_TEST_VERBOSE") || ratio < t[i].ratio)
				printf("\n    op %d, loss %g, reordered %g, doubled %g: %.2f of "
				       "the link without faults, expected %.2f",
				       ops[o], t[i].loss, t[i].reorder, t[i].dup, ratio,
				       t[i].ratio);
			CU_ASSERT(ratio >= t[i].ratio);
		}
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* 64 bytes there and 64 bytes back, one after the other: few take long. */
static void test_latency(void)
{
	struct pair_params pp = {.seed = 3, .link = {.latency = LATENCY, .loss = 0.001}};
	uint64_t *took = calloc(PINGS, sizeof(*took));
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned i = 0; i < PINGS; i++) {
		uint64_t start = urxe_sim_now(p.sim);

		pair_recv(&p.a, 1, 0, 64);
		pair_recv(&p.b, 1, 0, 64);
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 2, 1024, 64, &p.b, 0, 0), 0);
		CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && wc.wr_id == 1);
		CU_ASSERT_EQUAL(pair_post(&p.b, IBV_WR_SEND, 2, 1024, 64, &p.a, 0, 0), 0);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.wr_id == 1);
		took[i] = urxe_sim_now(p.sim) - start;
	}
	qsort(took, PINGS, sizeof(*took), by_size);
	if (getenv("URXE_TEST_VERBOSE"))
		printf("\n  latency: median %llu, p99.9 %llu, most %llu ns",
		       (unsigned long long)took[PINGS / 2],
		       (unsigned long long)took[PINGS - PINGS / 1000],
		       (unsigned long long)took[PINGS - 1]);
	CU_ASSERT(took[PINGS - PINGS / 1000] < 1000000);
	CU_ASSERT(took[PINGS - 1] < 2000000);
	pair_close(&p);
	free(took);
}

URXE_TEST_MAIN("goodput", T(test_goodput), T(test_latency))
