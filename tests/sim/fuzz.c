/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What broke others (design.md section 10), and seeded garbage: random bytes, and valid packets
 * seen on the wire with something changed, thrown at a working pair. Nothing crashes, nothing
 * is written outside of the regions that the peer may write, a bystander goes on undisturbed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "netio/stack.h"
#include "raw.h"
#include "rcu.h"

#define SEEDS  30
#define ROUNDS 1500
#define BTH_AT (ETH_LEN + IPV4_LEN + UDP_LEN)
#define MAX    5000

static const struct pair_params plain = {.seed = 21, .link = {.latency = 1000}};

static uint64_t state;

static uint32_t rnd(uint32_t below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % below;
}

/* ---- named inputs ---- */

/* Everything from nothing to the whole of each opcode's headers, with every pad. */
static void test_short_packet_forged_pad(void)
{
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned op = 0; op < 256; op++) {
		uint32_t hdr = urxe_opcode_table[op].hdr_len;

		for (int cut = 0; cut <= (int)hdr - URXE_BTH_LEN; cut++)
			for (int pad = 0; pad < 4; pad++) {
				struct raw_pkt k = {.opcode = (uint8_t)op,
						    .psn = 0xffffe0,
						    .pad = pad,
						    .cut = cut};

				/* All of it: the NAK for an unsupported one is not meant here. */
				if (cut || pad)
					raw_send(&p.a, &p.b, &k);
			}
	}
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
	CU_ASSERT(pair_stat(&p.b, URXE_STAT_RX_BAD_LENGTH) > 1000);
	CU_ASSERT_EQUAL(to_urxe_qp(p.b.qp)->resp.epsn, 0xffffe0);
	pair_close(&p);
}

/* A length that is no multiple of four, though pad would make it fit. */
static void test_odd_length(void)
{
	struct raw_pkt k = {.opcode = RC(WRITE_ONLY),
			    .psn = 0xffffe0,
			    .len = 5,
			    .cut = 3,
			    .dmalen = 5,
			    .pad = -3};
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	k.va = (uintptr_t)p.b.buf;
	k.rkey = p.b.mr->rkey;
	raw_send(&p.a, &p.b, &k);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_BAD_LENGTH), 1);
	CU_ASSERT_EQUAL(p.b.buf[0], 0);
	pair_close(&p);
}

static void test_invalid_opcode_multicast(void)
{
	const union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	struct raw_pkt k = {.opcode = 0xff, .dqpn = URXE_MCAST_QPN, .len = 48 - 12 - 4 - 8};
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UD);
	pair_meet(&p);
	raw_send(&p.a, &p.b, &k);
	k.opcode = UD(SEND_ONLY);
	k.qkey = 0x11111111;
	raw_send(&p.a, &p.b, &k);
	for (uint32_t qpn = 0; qpn < 3; qpn++) {
		k.dqpn = qpn ? qpn : 0xfffffe;
		raw_send(&p.a, &p.b, &k);
	}
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_BAD_OPCODE), 1);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_NO_QP), 4);
	/* To a group with a member that has room for anything. */
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.b.qp, &group, 0), 0);
	pair_recv(&p.b, 1, 0x1000, 4096);
	k.dqpn = URXE_MCAST_QPN;
	k.group = group.raw;
	for (unsigned op = 0; op < 256; op++) {
		k.opcode = (uint8_t)op;
		if (op != UD(SEND_ONLY) && op != UD(SEND_ONLY_IMM))
			raw_send(&p.a, &p.b, &k);
	}
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);
	k.opcode = UD(SEND_ONLY);
	raw_send(&p.a, &p.b, &k);
	CU_ASSERT(ibv_poll_cq(p.b.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.b.qp, &group, 0), 0);
	pair_close(&p);
}

/* Neither asked for nor sent: eight bytes it is. */
static void test_zero_length_atomic_write(void)
{
	struct raw_pkt k = {.opcode = RC(ATOMIC_WRITE), .psn = 0xffffe0, .ackreq = true};
	struct raw_log log;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_ATOMIC_WRITE, 1, 0, 0, &p.b, 0, 0), EINVAL);
	k.va = (uintptr_t)p.b.buf;
	k.rkey = p.b.mr->rkey;
	raw_log_start(&log, &p);
	raw_send(&p.a, &p.b, &k);
	CU_ASSERT_EQUAL(raw_log_count(&log, &p.b, ACK, NAK(INVALID_REQ)), 1);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_ERR);
	raw_log_stop(&log);
	pair_close(&p);
}

/* Every operation on a range that ends behind the last address. */
static void test_iova_wraps(void)
{
	static const uint8_t ops[] = {RC(WRITE_ONLY), RC(WRITE_FIRST), RC(READ_REQUEST),
				      RC(FETCH_ADD), RC(ATOMIC_WRITE)};
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	for (unsigned i = 0; i < sizeof(ops); i++) {
		struct raw_pkt k = {.opcode = ops[i], .psn = 0xffffe0, .ackreq = true};
		struct raw_log log;
		struct ibv_mr *mr;
		struct pair p;

		pair_open(&p, &plain, IBV_QPT_RC);
		pair_meet(&p);
		/* A region whose addresses end there themselves, and none that goes beyond. */
		CU_ASSERT(!ibv_reg_mr_iova(p.b.pd, p.b.buf, 64, (uint64_t)-32, access));
		mr = ibv_reg_mr_iova(p.b.pd, p.b.buf, 64, (uint64_t)-65, access);
		CU_ASSERT_FATAL(mr != NULL);
		k.rkey = mr->rkey;
		k.va = (uint64_t)-8;
		k.dmalen = ops[i] == RC(ATOMIC_WRITE) ? 8 : 4096;
		k.len = ops[i] == RC(WRITE_ONLY)     ? 1024
			: ops[i] == RC(WRITE_FIRST)  ? 1024
			: ops[i] == RC(ATOMIC_WRITE) ? 8
						     : 0;
		if (ops[i] == RC(WRITE_ONLY))
			k.dmalen = 1024;
		raw_log_start(&log, &p);
		raw_send(&p.a, &p.b, &k);
		CU_ASSERT_EQUAL(raw_log_count(&log, &p.b, ACK, NAK(REMOTE_ACCESS)), 1);
		CU_ASSERT_EQUAL(p.b.buf[0], 0);
		raw_log_stop(&log);
		CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
		pair_close(&p);
	}
}

/* Where the answer of an atomic is to go is looked at when it comes: once, and nothing else. */
static void test_atomic_bad_lkey(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = i & 1 ? IBV_WR_ATOMIC_CMP_AND_SWP
							 : IBV_WR_ATOMIC_FETCH_AND_ADD},
				   *bad;
		struct ibv_mr *ro;
		struct ibv_wc wc;
		struct pair p;

		pair_open(&p, &plain, IBV_QPT_RC);
		ro = ibv_reg_mr(p.a.pd, p.a.buf, 4096, 0);
		CU_ASSERT_FATAL(ro != NULL);
		/* An unknown one; one that must not be written. */
		sge = (struct ibv_sge){(uintptr_t)p.a.buf, 8, i & 2 ? ro->lkey : p.a.mr->lkey ^ 1};
		memset(p.a.buf, 0x77, 16);
		wr.wr.atomic.remote_addr = (uintptr_t)p.b.buf;
		wr.wr.atomic.rkey = p.b.mr->rkey;
		wr.wr.atomic.swap = wr.wr.atomic.compare_add = i & 1 ? 0 : 1;
		CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_LOC_PROT_ERR);
		CU_ASSERT(p.a.buf[0] == 0x77 && p.a.buf[7] == 0x77);
		CU_ASSERT_EQUAL(p.b.buf[0], i & 1 ? 0 : 1);
		CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_ERR);
		CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
		CU_ASSERT_EQUAL(ibv_dereg_mr(ro), 0);
		pair_close(&p);
	}
}

/* Another thread changes a work request while it is posted. */
static struct ibv_send_wr flipped;
static struct ibv_recv_wr rflipped;
static atomic_bool stop;

static void *flipper(void *arg)
{
	volatile int *a = &flipped.num_sge, *b = &rflipped.num_sge;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		*a = 250;
		*b = 1000;
		*a = 1;
		*b = 1;
	}
	return NULL;
}

static void test_num_sge_changes(void)
{
	struct ibv_sge *sge = calloc(1024, sizeof(*sge));
	struct ibv_recv_wr *rbad;
	struct ibv_send_wr *bad;
	struct ibv_wc wc[16];
	pthread_t thread;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	for (int i = 0; i < 1024; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)p.a.buf, 1, p.a.mr->lkey};
	flipped = (struct ibv_send_wr){.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	flipped.wr.rdma.remote_addr = (uintptr_t)p.b.buf;
	flipped.wr.rdma.rkey = p.b.mr->rkey;
	rflipped = (struct ibv_recv_wr){.sg_list = sge, .num_sge = 1};
	atomic_store(&stop, false);
#ifndef URXE_TSAN /* the race is the application's */
	pthread_create(&thread, NULL, flipper, NULL);
	for (unsigned i = 0; i < 20000; i++) {
		ibv_post_send(p.a.qp, &flipped, &bad);
		ibv_post_recv(p.a.qp, &rflipped, &rbad);
		if (i % 64 == 0) {
			pair_step(&p);
			ibv_poll_cq(p.a.cq, 16, wc);
			if (i % 1024 == 0)
				to_urxe_qp(p.a.qp)->own_rq.tail = to_urxe_qp(p.a.qp)->own_rq.head;
		}
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
#else
	(void)thread, (void)flipper, (void)bad, (void)rbad, (void)wc;
#endif
	/* What was taken is never more than what was checked. */
	struct urxe_qp *qp = to_urxe_qp(p.a.qp);
	for (uint32_t i = qp->own_rq.tail; i != qp->own_rq.head; i++)
		CU_ASSERT(urxe_rq_at(&qp->own_rq, i)->num_sge <= qp->own_rq.max_sge);
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_RTS);
	pair_settle(&p, 100000000);
	pair_close(&p);
	free(sge);
}

/* Packets after the QP went to error are not executed: rc_responder's check_fatal sees to that. */

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

URXE_TEST_MAIN("fuzz", T(test_short_packet_forged_pad), T(test_odd_length),
	       T(test_invalid_opcode_multicast), T(test_zero_length_atomic_write),
	       T(test_iova_wraps), T(test_atomic_bad_lkey), T(test_num_sge_changes),
	       T(test_garbage_rc), T(test_garbage_uc))
