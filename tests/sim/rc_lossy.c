/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RC over a network that loses, doubles, reorders and damages frames: every operation arrives
 * exactly once, in order, unharmed, for many seeds and MTUs. A failing seed is printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "pair.h"
#include "urxe/random.h"

#define SEEDS	 (40 / URXE_TEST_PART)
#define OPS	 120
#define RECV_OFF 0	 /* receive area of b */
#define DATA_OFF 0x40000 /* RDMA area */
#define SRC_OFF	 0x80000
#define SLOT	 0x1000u

struct run {
	struct pair p;
	uint64_t rnd;
	unsigned posted, completed, received, errors;
	struct {
		enum ibv_wr_opcode op;
		uint32_t off, len, remote;
		uint8_t fill;
	} ops[OPS];
	unsigned recv_expect[OPS], recvs_posted, recvs_expected;
	uint64_t counter;
};

static uint32_t rnd(struct run *r, uint32_t below)
{
	return urxe_random_below(&r->rnd, below);
}

static void post_one(struct run *r)
{
	static const enum ibv_wr_opcode kinds[] = {
		IBV_WR_SEND,	   IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	unsigned i = r->posted, slot = i % 16;
	enum ibv_wr_opcode op = kinds[rnd(r, 6)];
	uint32_t len = rnd(r, 4) ? rnd(r, SLOT + 1) : 0;

	r->ops[i].op = op;
	r->ops[i].off = SRC_OFF + slot * SLOT;
	r->ops[i].remote = DATA_OFF + slot * SLOT;
	r->ops[i].fill = (uint8_t)(i + 1);
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		len = 8;
		r->ops[i].remote = DATA_OFF + 16 * SLOT;
	} else if (op == IBV_WR_RDMA_READ) {
		memset(r->p.a.buf + r->ops[i].off, 0, SLOT);
		r->ops[i].remote = DATA_OFF + 17 * SLOT;
	} else {
		memset(r->p.a.buf + r->ops[i].off, r->ops[i].fill, len);
	}
	r->ops[i].len = len;
	if (op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM)
		r->recv_expect[r->recvs_expected++] = i;
	if (pair_post(&r->p.a, op, i, r->ops[i].off, len, &r->p.b, r->ops[i].remote,
		      IBV_SEND_SIGNALED))
		r->errors++;
	r->posted++;
}

static bool all_is(const uint8_t *p, uint8_t v, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != v)
			return false;
	return true;
}

static void check_send(struct run *r, const struct ibv_wc *wc)
{
	unsigned i = r->completed;

	if (wc->status != IBV_WC_SUCCESS || wc->wr_id != i) {
		if (!r->errors++)
			fprintf(stderr, "send %u (opcode %u): %s\n", i, r->ops[i].op,
				ibv_wc_status_str(wc->status));
		return;
	}
	if (r->ops[i].op == IBV_WR_RDMA_READ &&
	    !all_is(r->p.a.buf + r->ops[i].off, 0xa5, r->ops[i].len))
		r->errors++;
	if (r->ops[i].op == IBV_WR_RDMA_WRITE &&
	    !all_is(r->p.b.buf + r->ops[i].remote, r->ops[i].fill, r->ops[i].len))
		r->errors++;
	if (r->ops[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		uint64_t v;

		memcpy(&v, r->p.a.buf + r->ops[i].off, 8);
		if (v != r->counter++)
			r->errors++;
	}
	r->completed++;
}

static void check_recv(struct run *r, const struct ibv_wc *wc)
{
	unsigned i = r->recv_expect[r->received];

	if (wc->status != IBV_WC_SUCCESS || wc->wr_id != r->received ||
	    wc->byte_len != r->ops[i].len)
		r->errors++;
	else if (r->ops[i].op == IBV_WR_RDMA_WRITE_WITH_IMM
			 ? wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM
			 : wc->opcode != IBV_WC_RECV ||
				   !all_is(r->p.b.buf + RECV_OFF + (r->received % 32) * SLOT,
					   r->ops[i].fill, r->ops[i].len))
		r->errors++;
	r->received++;
}

/* One message at a time in each slot: at most 16 sends are out. */
static bool drive(void *arg)
{
	struct run *r = arg;
	struct ibv_wc wc;

	while (ibv_poll_cq(r->p.b.cq, 1, &wc) == 1)
		check_recv(r, &wc);
	while (ibv_poll_cq(r->p.a.cq, 1, &wc) == 1)
		check_send(r, &wc);
	/* Receives are late now and then: RNR NAKs are part of it. */
	while (r->recvs_posted < r->received + 3) {
		pair_recv(&r->p.b, r->recvs_posted, RECV_OFF + (r->recvs_posted % 32) * SLOT, SLOT);
		r->recvs_posted++;
	}
	while (r->posted < OPS && r->posted < r->completed + 12)
		post_one(r);
	return r->errors || (r->completed == OPS && r->received == r->recvs_expected);
}

static bool run_seed(uint64_t seed, const struct pair_params *base)
{
	struct pair_params pp = *base;
	struct run *r = calloc(1, sizeof(*r));
	bool ok;

	pp.seed = seed;
	/* ARP has no checksum of its own: damage begins when the neighbours know each other. */
	pp.link.corrupt = 0;
	r->rnd = seed;
	pair_open(&r->p, &pp, IBV_QPT_RC);
	pair_meet(&r->p);
	urxe_sim_end_params(r->p.a.end, &base->link);
	urxe_sim_end_params(r->p.b.end, &base->link);
	memset(r->p.b.buf + DATA_OFF + 17 * SLOT, 0xa5, SLOT);
	ok = pair_run(&r->p, 300000000000ull, drive, r) && !r->errors;
	if (getenv("URXE_TEST_VERBOSE"))
		fprintf(stderr, "seed %llu: %llu us\n", (unsigned long long)seed,
			(unsigned long long)urxe_sim_now(r->p.sim) / 1000);
	if (!ok)
		fprintf(stderr,
			"seed %llu mtu %u: posted %u completed %u of %u, received %u of %u, %u "
			"errors\n",
			(unsigned long long)seed, pp.mtu, r->posted, r->completed, OPS, r->received,
			r->recvs_expected, r->errors);
	pair_close(&r->p);
	free(r);
	return ok;
}

static void run_seeds(const struct pair_params *pp)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		CU_ASSERT(run_seed(seed, pp));
}

static void test_clean(void)
{
	struct pair_params pp = {.link = {.latency = 5000}};

	run_seeds(&pp);
}

static void test_loss(void)
{
	static const uint32_t mtus[] = {256, 1024, 4096};

	for (unsigned i = 0; i < 3; i++) {
		struct pair_params pp = {.mtu = mtus[i], .link = {.latency = 5000, .loss = 0.05}};

		run_seeds(&pp);
	}
}

static void test_everything(void)
{
	struct pair_params pp = {.mtu = 1024,
				 .link = {.latency = 5000,
					  .loss = 0.02,
					  .dup = 0.05,
					  .reorder = 0.05,
					  .corrupt = 0.02}};

	run_seeds(&pp);
	pp.v6 = true;
	run_seeds(&pp);
}

static void test_narrow(void)
{
	/* A link that takes few frames at a time, one READ or ATOMIC out at a time. */
	struct pair_params pp = {
		.mtu = 256, .rd_atomic = 1, .link = {.latency = 5000, .loss = 0.01, .tx_room = 3}};

	run_seeds(&pp);
}

URXE_TEST_MAIN("rc_lossy", T(test_clean), T(test_loss), T(test_everything), T(test_narrow))
