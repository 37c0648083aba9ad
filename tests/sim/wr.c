/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_wr_*: every operation and setter, chains, abort, errors that take the whole chain back; and
 * the operations that came with it, over a network that loses.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | URXEDV_ACCESS_FLUSH_GLOBAL)
#define RC_OPS                                                                                  \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |              \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV |     \
	 IBV_QP_EX_WITH_ATOMIC_WRITE | URXEDV_QP_EX_WITH_FLUSH)

/* A pair whose QP of a has the extended interface. */
static struct ibv_qp_ex *open_ex(struct pair *p, struct pair_params *pp, enum ibv_qp_type type,
				 uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 3,
			.max_recv_sge = 3,
			.max_inline_data = 64},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp;

	if (!pp->access)
		pp->access = ACCESS;
	pair_open(p, pp, type);
	attr.send_cq = attr.recv_cq = p->a.cq;
	attr.pd = p->a.pd;
	qp = ibv_create_qp_ex(p->a.ctx, &attr);
	CU_ASSERT_FATAL(qp != NULL);
	/* In place of the plain ones: b needs a new one too. */
	ibv_destroy_qp(p->a.qp);
	ibv_destroy_qp(p->b.qp);
	p->a.qp = qp;
	p->b.qp = pair_qp(&p->b, pp, type);
	pair_connect(p, &p->a, p->a.qp, &p->b, p->b.qp, pp);
	return ibv_qp_to_qp_ex(qp);
}

static void expect(struct pair *p, struct side *s, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = {0};

	CU_ASSERT_FATAL(pair_wait(p, s->cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(wc.wr_id, wr_id);
	CU_ASSERT_EQUAL(wc.opcode, opcode);
}

static void next(struct ibv_qp_ex *x, uint64_t wr_id)
{
	x->wr_id = wr_id;
	x->wr_flags = IBV_SEND_SIGNALED;
}

static void test_every_operation(void)
{
	static const enum ibv_wc_opcode opcodes[] = {
		IBV_WC_SEND,	   IBV_WC_SEND,		IBV_WC_RDMA_WRITE,
		IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,	IBV_WC_COMP_SWAP,
		IBV_WC_FETCH_ADD,  IBV_WC_ATOMIC_WRITE, (enum ibv_wc_opcode)URXEDV_WC_FLUSH,
	};
	struct pair_params pp = {.seed = 3, .link = {.latency = 5000}};
	char left[] = "left and ", right[] = "right";
	struct ibv_data_buf bufs[] = {{left, 9}, {right, 5}};
	uint64_t value = 0x1122334455667788, *word;
	struct ibv_sge list[2];
	struct ibv_qp_ex *x;
	struct pair p;
	uintptr_t ra;
	uint32_t rk, lk;

	x = open_ex(&p, &pp, IBV_QPT_RC, RC_OPS);
	ra = (uintptr_t)p.b.buf;
	rk = p.b.mr->rkey;
	lk = p.a.mr->lkey;
	list[0] = (struct ibv_sge){(uintptr_t)p.a.buf, 10, lk};
	list[1] = (struct ibv_sge){(uintptr_t)p.a.buf + 100, 2000, lk};
	memset(p.a.buf, 'w', 4096);
	word = (uint64_t *)(void *)(p.b.buf + 0x8000);
	*word = 41;
	memset(p.b.buf + 0x9000, 'r', 3000);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(pair_recv(&p.b, i, 0x1000 * (i + 1), 0x1000), 0);
	ibv_wr_start(x);
	next(x, 0);
	ibv_wr_send(x);
	ibv_wr_set_inline_data_list(x, 2, bufs);
	next(x, 1);
	ibv_wr_send_imm(x, htobe32(77));
	ibv_wr_set_sge_list(x, 2, list);
	next(x, 2);
	ibv_wr_rdma_write(x, rk, ra + 0x5000);
	ibv_wr_set_sge(x, lk, (uintptr_t)p.a.buf, 3000);
	next(x, 3);
	ibv_wr_rdma_write_imm(x, rk, ra + 0x6000, htobe32(78));
	ibv_wr_set_inline_data(x, right, 5);
	next(x, 4);
	ibv_wr_rdma_read(x, rk, ra + 0x9000);
	ibv_wr_set_sge(x, lk, (uintptr_t)p.a.buf + 0x9000, 3000);
	next(x, 5);
	ibv_wr_atomic_cmp_swp(x, rk, ra + 0x8000, 41, 50);
	ibv_wr_set_sge(x, lk, (uintptr_t)p.a.buf + 0x8000, 8);
	next(x, 6);
	ibv_wr_atomic_fetch_add(x, rk, ra + 0x8000, 7);
	ibv_wr_set_sge(x, lk, (uintptr_t)p.a.buf + 0x8008, 8);
	next(x, 7);
	ibv_wr_atomic_write(x, rk, ra + 0x8010, &value);
	next(x, 8);
	urxedv_wr_flush(x, rk, ra, 0x8000, URXEDV_FLUSH_GLOBAL, URXEDV_FLUSH_RANGE);
	CU_ASSERT_EQUAL(ibv_wr_complete(x), 0);
	for (unsigned i = 0; i < 9; i++)
		expect(&p, &p.a, i, opcodes[i]);
	for (unsigned i = 0; i < 3; i++)
		expect(&p, &p.b, i, i < 2 ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM);
	CU_ASSERT(!memcmp(p.b.buf + 0x1000, "left and right", 14));
	CU_ASSERT(p.b.buf[0x2000] == 'w' && p.b.buf[0x2000 + 2009] == 'w' &&
		  !p.b.buf[0x2000 + 2010]);
	CU_ASSERT(p.b.buf[0x5000 + 2999] == 'w' && !p.b.buf[0x5000 + 3000]);
	CU_ASSERT(!memcmp(p.b.buf + 0x6000, "right", 5));
	CU_ASSERT(p.a.buf[0x9000 + 2999] == 'r' && !p.a.buf[0x9000 + 3000]);
	CU_ASSERT_EQUAL(*word, 57);
	CU_ASSERT_EQUAL(*(uint64_t *)(void *)(p.a.buf + 0x8000), 41);
	CU_ASSERT_EQUAL(*(uint64_t *)(void *)(p.a.buf + 0x8008), 50);
	CU_ASSERT_EQUAL(*(uint64_t *)(void *)(p.b.buf + 0x8010), value);
	pair_close(&p);
}

static void test_ud(void)
{
	struct pair_params pp = {.seed = 4, .link = {.latency = 5000}};
	struct ibv_ah_attr attr;
	struct ibv_qp_ex *x;
	struct ibv_ah *ah;
	struct urxe_ah *uah;
	struct ibv_wc wc;
	struct pair p;

	x = open_ex(&p, &pp, IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
	attr = pair_path(&p.a, &p.b);
	ah = ibv_create_ah(p.a.pd, &attr);
	uah = urxe_container_of(ah, struct urxe_ah, ah);
	pair_meet(&p);
	pair_recv(&p.b, 1, 0, 2048);
	ibv_wr_start(x);
	next(x, 1);
	ibv_wr_send_imm(x, htobe32(5));
	ibv_wr_set_ud_addr(x, ah, p.b.qp->qp_num, 0x11111111);
	ibv_wr_set_inline_data(x, (void *)(uintptr_t) "hello", 5);
	CU_ASSERT_EQUAL(ibv_wr_complete(x), 0);
	expect(&p, &p.a, 1, IBV_WC_SEND);
	CU_ASSERT(pair_wait(&p, p.b.cq, &wc));
	CU_ASSERT(wc.byte_len == 45 && wc.imm_data == htobe32(5));
	CU_ASSERT(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && wc.src_qp == p.a.qp->qp_num);
	CU_ASSERT(!memcmp(p.b.buf + 40, "hello", 5));

	/* Without an address, with one of another PD, and too long: refused, no reference left. */
	ibv_wr_start(x);
	ibv_wr_send(x);
	ibv_wr_set_inline_data(x, (void *)(uintptr_t) "hello", 5);
	CU_ASSERT_EQUAL(ibv_wr_complete(x), EINVAL);
	ibv_wr_start(x);
	ibv_wr_send(x);
	ibv_wr_set_ud_addr(x, ah, 1, 1);
	ibv_wr_set_ud_addr(x, ah, 2, 1);
	ibv_wr_set_sge(x, p.a.mr->lkey, (uintptr_t)p.a.buf, 1025);
	CU_ASSERT_EQUAL(ibv_wr_complete(x), EINVAL);
	ibv_wr_start(x);
	ibv_wr_send(x);
	ibv_wr_set_ud_addr(x, ah, 2, 1);
	ibv_wr_send(x);
	ibv_wr_set_ud_addr(x, ah, 2, 1);
	ibv_wr_abort(x);
	CU_ASSERT_EQUAL(atomic_load(&uah->refs), 1);
	CU_ASSERT(pair_no_wc(&p, &p.a, 1000000));
	ibv_destroy_ah(ah);
	pair_close(&p);
}

static void one_send(struct ibv_qp_ex *x, struct pair *p)
{
	ibv_wr_send(x);
	ibv_wr_set_sge(x, p->a.mr->lkey, (uintptr_t)p->a.buf, 4);
}

static void test_errors(void)
{
	struct pair_params pp = {.seed = 5, .link = {.latency = 5000}};
	struct ibv_mw_bind_info info = {0};
	struct ibv_sge list[4] = {{0}};
	char data[65] = "";
	struct ibv_qp_ex *x;
	struct pair p;

	x = open_ex(&p, &pp, IBV_QPT_RC, RC_OPS & ~(uint64_t)IBV_QP_EX_WITH_RDMA_READ);
	next(x, 1);
#define REFUSED(err, ...)                                 \
	do {                                              \
		ibv_wr_start(x);                          \
		one_send(x, &p);                          \
		__VA_ARGS__;                              \
		one_send(x, &p);                          \
		CU_ASSERT_EQUAL(ibv_wr_complete(x), err); \
		CU_ASSERT(pair_no_wc(&p, &p.a, 1000000)); \
	} while (0)
	REFUSED(EINVAL, ibv_wr_rdma_read(x, 1, 1)); /* not asked for at creation */
	REFUSED(EINVAL, ibv_wr_send(x); ibv_wr_set_sge_list(x, 4, list));
	REFUSED(EINVAL, ibv_wr_send(x); ibv_wr_set_inline_data(x, data, 65));
	/* Data of both kinds: what is checked of one says nothing of the other. */
	REFUSED(EINVAL, ibv_wr_send(x); ibv_wr_set_sge(x, p.a.mr->lkey, (uintptr_t)p.a.buf, 100);
		ibv_wr_set_inline_data(x, data, 8));
	REFUSED(EINVAL, ibv_wr_send(x); ibv_wr_set_inline_data(x, data, 8);
		ibv_wr_set_sge(x, p.a.mr->lkey, (uintptr_t)p.a.buf, 4000));
	REFUSED(EINVAL, ibv_wr_atomic_fetch_add(x, 1, 8, 1)); /* no place for the answer */
	REFUSED(EINVAL, ibv_wr_atomic_fetch_add(x, 1, 8, 1); ibv_wr_set_inline_data(x, data, 8));
	REFUSED(EINVAL, urxedv_wr_flush(x, 1, 8, 1, 0, 0));
	REFUSED(EINVAL, urxedv_wr_flush(x, 1, 8, 1, 4, 0));
	REFUSED(EINVAL, urxedv_wr_flush(x, 1, 8, 1, 1, 2));
	REFUSED(EINVAL, ibv_wr_bind_mw(x, NULL, 1, &info));
	REFUSED(EINVAL, ibv_wr_set_ud_addr(x, NULL, 1, 1));
	REFUSED(EINVAL, ibv_wr_set_xrc_srqn(x, 1));
	REFUSED(ENOMEM, for (int i = 0; i < 16; i++) one_send(x, &p));
	ibv_wr_start(x);
	ibv_wr_set_sge(x, 1, 1, 1); /* of nothing */
	CU_ASSERT_EQUAL(ibv_wr_complete(x), EINVAL);
	/* After all that it works, the whole queue long. */
	for (unsigned i = 0; i < 16; i++)
		pair_recv(&p.b, i, 0x1000 * i, 64);
	ibv_wr_start(x);
	for (unsigned i = 0; i < 16; i++) {
		next(x, i);
		one_send(x, &p);
	}
	CU_ASSERT_EQUAL(ibv_wr_complete(x), 0);
	for (unsigned i = 0; i < 16; i++)
		expect(&p, &p.a, i, IBV_WC_SEND);
	/* In no state to send; and in error, where it is flushed. */
	pair_modify(p.a.qp, IBV_QPS_ERR);
	ibv_wr_start(x);
	next(x, 100);
	one_send(x, &p);
	CU_ASSERT_EQUAL(ibv_wr_complete(x), 0);
	struct ibv_wc wc;
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc));
	CU_ASSERT(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 100);
	pair_modify(p.a.qp, IBV_QPS_RESET);
	ibv_wr_start(x);
	one_send(x, &p);
	CU_ASSERT_EQUAL(ibv_wr_complete(x), EINVAL);
	pair_close(&p);
}

static void test_flags_at_creation(void)
{
	static const struct {
		enum ibv_qp_type type;
		uint64_t ops;
	} refused[] = {
		{IBV_QPT_RC, IBV_QP_EX_WITH_TSO},	 {IBV_QPT_RC, 1ull << 40},
		{IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ},	 {IBV_QPT_UC, IBV_QP_EX_WITH_SEND_WITH_INV},
		{IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE}, {IBV_QPT_UD, IBV_QP_EX_WITH_BIND_MW},
	};
	struct pair_params pp = {.seed = 6};
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	CU_ASSERT_PTR_NULL(ibv_qp_to_qp_ex(p.a.qp));
	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct ibv_qp_init_attr_ex attr = {
			.qp_type = refused[i].type,
			.send_cq = p.a.cq,
			.recv_cq = p.a.cq,
			.pd = p.a.pd,
			.cap = {.max_send_wr = 1, .max_recv_wr = 1},
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.send_ops_flags = refused[i].ops,
		};

		errno = 0;
		CU_ASSERT_PTR_NULL(ibv_create_qp_ex(p.a.ctx, &attr));
		CU_ASSERT_EQUAL(errno, EOPNOTSUPP);
	}
	pair_close(&p);
}

/* ATOMIC WRITEs and FLUSHes, each carried out once and in order, whatever the network loses. */
static bool lossy_seed(uint64_t seed)
{
	struct pair_params pp = {
		.seed = seed,
		.rd_atomic = 4,
		.link = {.latency = 5000, .loss = 0.05, .dup = 0.05, .reorder = 0.05}};
	uint64_t *log = NULL, value;
	struct ibv_qp_ex *x;
	struct ibv_wc wc;
	struct pair p;
	bool ok = true;

	x = open_ex(&p, &pp, IBV_QPT_RC, RC_OPS);
	log = (uint64_t *)(void *)p.b.buf;
	for (value = 1; value <= 40 && ok; value++) {
		ibv_wr_start(x);
		next(x, value);
		ibv_wr_atomic_write(x, p.b.mr->rkey, (uintptr_t)&log[value % 8], &value);
		x->wr_flags = 0;
		urxedv_wr_flush(x, p.b.mr->rkey, 0, 0, URXEDV_FLUSH_GLOBAL, URXEDV_FLUSH_MR);
		next(x, value);
		ibv_wr_rdma_read(x, p.b.mr->rkey, (uintptr_t)&log[value % 8]);
		ibv_wr_set_sge(x, p.a.mr->lkey, (uintptr_t)p.a.buf, 8);
		ok = !ibv_wr_complete(x);
		for (unsigned i = 0; i < 2 && ok; i++)
			ok = pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS &&
			     wc.wr_id == value;
		ok = ok && *(uint64_t *)(void *)p.a.buf == value && log[value % 8] == value;
	}
	pair_close(&p);
	if (!ok)
		fprintf(stderr, "seed %llu failed\n", (unsigned long long)seed);
	return ok;
}

static void test_lossy(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++)
		CU_ASSERT(lossy_seed(seed));
}

/* Bad keys and ranges of the new operations: the right error, on the right side. */
static void refused_by_peer(unsigned what)
{
	struct pair_params pp = {.seed = what, .link = {.latency = 5000}};
	uint64_t value = 1;
	struct ibv_qp_ex *x;
	struct ibv_wc wc;
	struct pair p;
	uint32_t rk;

	if (what == 3) /* a right that the region does not give */
		pp.access = ACCESS & ~URXEDV_ACCESS_FLUSH_GLOBAL;
	x = open_ex(&p, &pp, IBV_QPT_RC, RC_OPS);
	rk = p.b.mr->rkey;
	ibv_wr_start(x);
	next(x, 9);
	switch (what) {
	case 0:
		ibv_wr_atomic_write(x, rk ^ 1, (uintptr_t)p.b.buf, &value);
		break;
	case 1:
		ibv_wr_atomic_write(x, rk, (uintptr_t)p.b.buf + PAIR_BUF, &value);
		break;
	case 2:
		urxedv_wr_flush(x, rk, (uintptr_t)p.b.buf, PAIR_BUF + 1, 1, URXEDV_FLUSH_RANGE);
		break;
	case 3:
		urxedv_wr_flush(x, rk, (uintptr_t)p.b.buf, 8, 1, URXEDV_FLUSH_RANGE);
		break;
	case 4: /* persistence was not registered for */
		urxedv_wr_flush(x, rk, (uintptr_t)p.b.buf, 8, 2, URXEDV_FLUSH_RANGE);
		break;
	default: /* not aligned */
		ibv_wr_atomic_write(x, rk, (uintptr_t)p.b.buf + 4, &value);
	}
	CU_ASSERT_EQUAL(ibv_wr_complete(x), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, what < 5 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR);
	CU_ASSERT_EQUAL(p.b.buf[0] | p.b.buf[4], 0);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_ERR);
	pair_close(&p);
}

static void test_refused_by_peer(void)
{
	for (unsigned i = 0; i < 6; i++)
		refused_by_peer(i);
}

URXE_TEST_MAIN("wr", T(test_every_operation), T(test_ud), T(test_errors), T(test_flags_at_creation),
	       T(test_lossy), T(test_refused_by_peer))
