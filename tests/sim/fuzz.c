/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Seeded garbage: random bytes, and valid packets seen on the wire with something changed, thrown
 * at a working pair. Nothing crashes, nothing is written outside of the regions that the peer may
 * write, a bystander goes on undisturbed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "netio/stack.h"
#include "forge.h"
#include "rcu.h"
#include "urxe/random.h"

#define SEEDS  (30 / URXE_TEST_PART)
#define ROUNDS 1500
#define BTH_AT (ETH_LEN + IPV4_LEN + UDP_LEN)
#define MAX    5000

static const struct pair_params plain = {.seed = 21, .link = {.latency = 1000}};

static uint64_t state;

static uint32_t rnd(uint32_t below)
{
	return urxe_random_below(&state, below);
}

/* ---- garbage ---- */

struct thrower {
	struct pair p;
	uint8_t (*seen)[MAX];
	uint32_t *lens;
	unsigned n, all;
};

#define KEEP 256

static void keep(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len,
		 uint64_t now)
{
	struct thrower *t = arg;
	unsigned at = t->n < KEEP ? t->n++ : t->all % KEEP;

	t->all++;
	if (len <= MAX) {
		memcpy(t->seen[at], data, len);
		t->lens[at] = len;
	}
}

/* Each field that a machine looks at gets its share. */
static uint32_t mutate(uint8_t *f, uint32_t len)
{
	uint8_t *bth = f + BTH_AT;
	uint32_t n;

	if (len < BTH_AT + URXE_BTH_LEN + URXE_ICRC_LEN)
		return len;
	switch (rnd(9)) {
	case 0:
		bth[0] = (uint8_t)rnd(256);
		break;
	case 1:
		bth[1] = (uint8_t)rnd(256);
		break;
	case 2: /* near the right PSN, or anywhere */
		urxe_put24(bth + 9, rnd(2) ? urxe_get24(bth + 9) + rnd(64) - 32 : rnd(1 << 24));
		break;
	case 3: /* the extension headers */
		n = len - BTH_AT - URXE_BTH_LEN - URXE_ICRC_LEN;
		for (unsigned i = rnd(8) + 1; n && i; i--)
			bth[URXE_BTH_LEN + rnd(n < 28 ? n : 28)] = (uint8_t)rnd(256);
		break;
	case 4: /* shorter */
		len -= rnd(len - BTH_AT - URXE_ICRC_LEN);
		break;
	case 5: /* longer */
		n = rnd(300);
		if (len + n <= MAX) {
			for (uint32_t i = 0; i < n; i++)
				f[len + i] = (uint8_t)rnd(256);
			len += n;
		}
		break;
	case 6:
		f[rnd(len)] ^= (uint8_t)(1 << rnd(8));
		break;
	case 7: /* lengths in the RETH at the edges */
		if (len >= BTH_AT + 28 + 4)
			urxe_put32(bth + 24, rnd(2) ? 0xffffffffu - rnd(4) : rnd(4));
		break;
	case 8: /* addresses at the edges */
		if (len >= BTH_AT + 28 + 4)
			urxe_put64(bth + 12, (uint64_t) - (int64_t)rnd(4096));
		break;
	}
	/* Most of it gets past the checks of lengths and ICRC. */
	if (rnd(8))
		raw_reseal(f, len);
	return len;
}

static void throw_one(struct thrower *t)
{
	struct side *to = rnd(2) ? &t->p.a : &t->p.b;
	static uint8_t f[MAX];
	uint32_t len;

	if (!t->n || !rnd(10)) {
		len = rnd(MAX);
		for (uint32_t i = 0; i < len; i++)
			f[i] = (uint8_t)rnd(256);
	} else {
		unsigned at = rnd(t->n);

		len = t->lens[at];
		memcpy(f, t->seen[at], len);
		for (unsigned i = rnd(3) + 1; i; i--)
			len = mutate(f, len);
	}
	urxe_sim_put(to->end, f, len);
}

/* QPs that fell are brought up again: most of the run is between working ones. */
static void revive(struct thrower *t, enum ibv_qp_type type)
{
	struct side *s[2] = {&t->p.a, &t->p.b};
	struct ibv_wc wc;

	if (pair_state(s[0]->qp) == IBV_QPS_RTS && pair_state(s[1]->qp) == IBV_QPS_RTS)
		return;
	for (int i = 0; i < 2; i++) {
		ibv_destroy_qp(s[i]->qp);
		while (pair_event(s[i]) >= 0)
			;
		while (ibv_poll_cq(s[i]->cq, 1, &wc) == 1)
			;
		s[i]->qp = pair_qp(s[i], &plain, type);
	}
	pair_connect(&t->p, s[0], s[0]->qp, s[1], s[1]->qp, &plain);
}

static void work(struct thrower *t, uint64_t id)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	       IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE,
	};
	struct side *s = rnd(2) ? &t->p.a : &t->p.b, *to = s == &t->p.a ? &t->p.b : &t->p.a;
	bool uc = s->qp->qp_type == IBV_QPT_UC;
	enum ibv_wr_opcode op = ops[rnd(uc ? 3 : 6)];

	/* The first 64 KiB are what the peer may touch; the rest are canaries. */
	pair_recv(to, id, 0x8000, 0x4000);
	pair_post(s, op, id, 0, op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : rnd(6000), to, 0x1000,
		  IBV_SEND_SIGNALED);
}

static void bystander(struct thrower *t, struct ibv_qp *qa, uint64_t id)
{
	struct ibv_qp *was = t->p.a.qp;
	int err;

	t->p.a.qp = qa;
	err = pair_post(&t->p.a, IBV_WR_RDMA_WRITE, id, 0xe000, 1500, &t->p.b, 0xe000, 0);
	t->p.a.qp = was;
	CU_ASSERT_EQUAL(err, 0);
}

static void garbage(uint64_t seed, enum ibv_qp_type type)
{
	struct thrower *t = calloc(1, sizeof(*t));
	struct ibv_qp *qa, *qb;
	struct ibv_mr *narrow[2];
	struct ibv_wc wc;

	t->seen = calloc(KEEP, sizeof(*t->seen));
	t->lens = calloc(KEEP, sizeof(*t->lens));
	state = seed;
	pair_open(&t->p, &plain, type);
	pair_meet(&t->p);
	/* The region of the whole buffer goes: only its beginning can be written. */
	for (int i = 0; i < 2; i++) {
		struct side *s = i ? &t->p.b : &t->p.a;

		memset(s->buf, 0xc5, PAIR_BUF);
		ibv_dereg_mr(s->mr);
		s->mr = ibv_reg_mr(s->pd, s->buf, 0x10000,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
		narrow[i] = s->mr;
	}
	qa = pair_qp(&t->p.a, &plain, IBV_QPT_RC);
	qb = pair_qp(&t->p.b, &plain, IBV_QPT_RC);
	pair_connect(&t->p, &t->p.a, qa, &t->p.b, qb, &plain);
	urxe_sim_tap(t->p.sim, keep, t);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		work(t, i);
		throw_one(t);
		for (unsigned k = rnd(4); k; k--)
			pair_step(&t->p);
		while (ibv_poll_cq(t->p.a.cq, 1, &wc) == 1)
			;
		while (ibv_poll_cq(t->p.b.cq, 1, &wc) == 1)
			;
		if (i % 50 == 0)
			revive(t, type);
	}
	urxe_sim_tap(t->p.sim, NULL, NULL);
	/* Mutations of the bystander's own packets may end it; others must not. */
	(void)bystander;
	for (uint32_t i = 0x10000; i < PAIR_BUF; i++)
		if (t->p.a.buf[i] != 0xc5 || t->p.b.buf[i] != 0xc5) {
			CU_FAIL("a canary is dead");
			break;
		}
	CU_ASSERT_EQUAL(pair_state(qa), IBV_QPS_RTS);
	CU_ASSERT_EQUAL(pair_state(qb), IBV_QPS_RTS);
	pair_settle(&t->p, 100000000);
	while (ibv_poll_cq(t->p.a.cq, 1, &wc) == 1)
		;
	bystander(t, qa, 1);
	pair_settle(&t->p, 100000000);
	CU_ASSERT(!memcmp(t->p.a.buf + 0xe000, t->p.b.buf + 0xe000, 1500));
	CU_ASSERT(t->p.a.mr == narrow[0] && t->p.b.mr == narrow[1]);
	ibv_destroy_qp(qa);
	ibv_destroy_qp(qb);
	pair_close(&t->p);
	free(t->seen);
	free(t->lens);
	free(t);
}

static void test_garbage_rc(void)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		garbage(seed, IBV_QPT_RC);
}

static void test_garbage_uc(void)
{
	for (uint64_t seed = 100; seed <= 100 + SEEDS / 3; seed++)
		garbage(seed, IBV_QPT_UC);
}

URXE_TEST_MAIN("fuzz", T(test_garbage_rc), T(test_garbage_uc))
