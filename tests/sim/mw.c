/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory windows of both types: what they open and to whom, how they are bound, rebound and
 * invalidated, and every rule whose breach is an error (IBTA 10.6.7).
 */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "pair.h"
#include "rcu.h"

#define RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define OFF    0x4000 /* where windows begin */
#define LEN    0x1000

struct rig {
	struct pair p;
	struct pair_params pp;
	struct ibv_mr *mr; /* of b, for local use and windows only */
	struct ibv_mw *mw;
	uint32_t mrs; /* that b has without the one */
};

static void rig_open(struct rig *r, enum ibv_mw_type type, uint64_t seed)
{
	memset(r, 0, sizeof(*r));
	r->pp.seed = seed;
	r->pp.link.latency = 5000;
	pair_open(&r->p, &r->pp, IBV_QPT_RC);
	r->mrs = r->p.b.dev->mr_count;
	r->mr = ibv_reg_mr(r->p.b.pd, r->p.b.buf, PAIR_BUF,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CU_ASSERT_FATAL(r->mr != NULL);
	r->mw = ibv_alloc_mw(r->p.b.pd, type);
	CU_ASSERT_FATAL(r->mw != NULL);
}

static void rig_close(struct rig *r)
{
	if (r->mw)
		CU_ASSERT_EQUAL(ibv_dealloc_mw(r->mw), 0);
	CU_ASSERT_EQUAL(r->p.b.dev->mw_count, 0);
	CU_ASSERT_EQUAL(r->p.b.dev->mr_count, r->mrs + 1);
	CU_ASSERT_EQUAL(ibv_dereg_mr(r->mr), 0);
	CU_ASSERT_EQUAL(r->p.b.dev->mr_count, r->mrs);
	pair_close(&r->p);
}

static enum ibv_wc_status completion(struct rig *r, struct side *s, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	CU_ASSERT(pair_wait(&r->p, s->cq, &wc));
	if (wc.status == IBV_WC_SUCCESS)
		CU_ASSERT_EQUAL(wc.opcode, opcode);
	return wc.status;
}

/* Of type 1 by ibv_bind_mw, of type 2 by a work request with the next key. */
static int post_bind(struct rig *r, struct ibv_mw_bind_info info, uint32_t rkey)
{
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = info};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (r->mw->type == IBV_MW_TYPE_1)
		return ibv_bind_mw(r->p.b.qp, r->mw, &bind);
	wr.bind_mw.mw = r->mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = info;
	return ibv_post_send(r->p.b.qp, &wr, &bad);
}

static struct ibv_mw_bind_info info(struct rig *r, uint64_t addr, uint64_t len, unsigned rights)
{
	return (struct ibv_mw_bind_info){r->mr, addr, len, rights};
}

static enum ibv_wc_status bind(struct rig *r, uint64_t len, unsigned rights, uint32_t *rkey)
{
	uint32_t key = ibv_inc_rkey(r->mw->rkey);

	CU_ASSERT_EQUAL(post_bind(r, info(r, (uintptr_t)r->p.b.buf + OFF, len, rights), key), 0);
	*rkey = key;
	CU_ASSERT_EQUAL(r->mw->rkey, key);
	return completion(r, &r->p.b, IBV_WC_BIND_MW);
}

static enum ibv_wc_status rdma(struct rig *r, enum ibv_wr_opcode op, uint32_t rkey, uint64_t va,
			       uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)r->p.a.buf, len, r->p.a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = va, .rkey = rkey}},
			   *bad;

	CU_ASSERT_EQUAL(ibv_post_send(r->p.a.qp, &wr, &bad), 0);
	return completion(r, &r->p.a,
			  op == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
}

static uint64_t start(struct rig *r)
{
	return (uintptr_t)r->p.b.buf + OFF;
}

static void opens(enum ibv_mw_type type)
{
	struct rig r;
	uint32_t key;

	rig_open(&r, type, 1);
	CU_ASSERT_EQUAL(bind(&r, LEN, RIGHTS, &key), IBV_WC_SUCCESS);
	memset(r.p.a.buf, 'x', LEN);
	CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), LEN), IBV_WC_SUCCESS);
	CU_ASSERT(r.p.b.buf[OFF] == 'x' && r.p.b.buf[OFF + LEN - 1] == 'x');
	CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_READ, key, start(&r) + 8, 16), IBV_WC_SUCCESS);
	/* One byte before, one byte more, the region's key, the old key. */
	CU_ASSERT_EQUAL(ibv_dereg_mr(r.mr), EBUSY);
	CU_ASSERT_EQUAL(ibv_rereg_mr(r.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			IBV_REREG_MR_ERR_CMD);
	CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r) - 1, 8), IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(r.p.b.buf[OFF - 1], 0);
	rig_close(&r);
}

static void test_opens(void)
{
	opens(IBV_MW_TYPE_1);
	opens(IBV_MW_TYPE_2);
}

static void refuses(enum ibv_mw_type type, unsigned what)
{
	unsigned rights = what == 2 ? IBV_ACCESS_REMOTE_READ : RIGHTS;
	enum ibv_wc_status status;
	struct rig r;
	uint32_t key;

	rig_open(&r, type, what);
	CU_ASSERT_EQUAL(bind(&r, LEN, rights, &key), IBV_WC_SUCCESS);
	switch (what) {
	case 0: /* beyond its end */
		status = rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r) + LEN - 4, 8);
		break;
	case 1: /* another key of its owner's */
		status = rdma(&r, IBV_WR_RDMA_WRITE, ibv_inc_rkey(key), start(&r), 8);
		break;
	case 2: /* no such right */
		status = rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), 8);
		break;
	case 3: /* the region itself is closed */
		status = rdma(&r, IBV_WR_RDMA_WRITE, r.mr->rkey, start(&r), 8);
		break;
	case 4: /* an address that wraps */
		status = rdma(&r, IBV_WR_RDMA_WRITE, key, UINT64_MAX - 3, 8);
		break;
	default: /* gone */
		CU_ASSERT_EQUAL(ibv_dealloc_mw(r.mw), 0);
		r.mw = NULL;
		status = rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), 8);
	}
	CU_ASSERT_EQUAL(status, IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(r.p.b.buf[OFF] | r.p.b.buf[OFF + LEN], 0);
	rig_close(&r);
}

static void test_refuses(void)
{
	for (unsigned i = 0; i < 6; i++) {
		refuses(IBV_MW_TYPE_1, i);
		refuses(IBV_MW_TYPE_2, i);
	}
}

static void test_zero_based(void)
{
	for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct rig r;
		uint32_t key;

		rig_open(&r, (enum ibv_mw_type)type, 1);
		memset(r.p.a.buf, 'z', 8);
		CU_ASSERT_EQUAL(bind(&r, LEN, RIGHTS | IBV_ACCESS_ZERO_BASED, &key),
				IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, LEN - 8, 8), IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(r.p.b.buf[OFF + LEN - 1], 'z');
		CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), 8),
				IBV_WC_REM_ACCESS_ERR);
		rig_close(&r);
	}
}

/* Type 1 is rebound at will, and bound to nothing by a length of zero. */
static void test_rebind_type1(void)
{
	struct rig r;
	uint32_t first, second, third;

	rig_open(&r, IBV_MW_TYPE_1, 1);
	CU_ASSERT_EQUAL(bind(&r, LEN, RIGHTS, &first), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(bind(&r, 2 * LEN, RIGHTS, &second), IBV_WC_SUCCESS);
	CU_ASSERT_NOT_EQUAL(first, second);
	CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, second, start(&r) + LEN, 8), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(bind(&r, 0, 0, &third), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, second, start(&r), 8), IBV_WC_REM_ACCESS_ERR);
	rig_close(&r);
}

static enum ibv_wc_status invalidate(struct rig *r, uint32_t key, bool remote)
{
	struct ibv_send_wr wr = {.opcode = remote ? IBV_WR_SEND_WITH_INV : IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = key},
			   *bad;
	struct side *s = remote ? &r->p.a : &r->p.b;

	CU_ASSERT_EQUAL(ibv_post_send(s->qp, &wr, &bad), 0);
	return completion(r, s, remote ? IBV_WC_SEND : IBV_WC_LOCAL_INV);
}

static void test_invalidate(void)
{
	for (int remote = 0; remote <= 1; remote++) {
		struct ibv_wc wc;
		struct rig r;
		uint32_t key;

		rig_open(&r, IBV_MW_TYPE_2, 1);
		for (int round = 0; round < 3; round++) {
			/* Bound anew with another key: the old one stays dead. */
			r.mw->rkey += (uint32_t)round;
			CU_ASSERT_EQUAL(bind(&r, LEN, RIGHTS, &key), IBV_WC_SUCCESS);
			CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), 8),
					IBV_WC_SUCCESS);
			if (remote)
				CU_ASSERT_EQUAL(pair_recv(&r.p.b, 5, 0, 64), 0);
			CU_ASSERT_EQUAL(invalidate(&r, key, remote), IBV_WC_SUCCESS);
			if (!remote)
				continue;
			CU_ASSERT(pair_wait(&r.p, r.p.b.cq, &wc));
			CU_ASSERT(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
			CU_ASSERT(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == key);
		}
		CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), 8),
				IBV_WC_REM_ACCESS_ERR);
		rig_close(&r);
	}
}

/* What may not be invalidated: a region, a window of type 1, one not bound, another QP's. */
static void test_invalidate_errors(void)
{
	for (unsigned what = 0; what < 8; what++) {
		bool remote = what & 1;
		struct rig r;
		uint32_t key;

		rig_open(&r, what / 2 == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2, what);
		key = r.mw->rkey;
		if (what / 2 == 0)
			key = r.mr->rkey;
		if (what / 2 == 1)
			CU_ASSERT_EQUAL(bind(&r, LEN, RIGHTS, &key), IBV_WC_SUCCESS);
		if (what / 2 == 3)
			key = 0;
		if (remote)
			pair_recv(&r.p.b, 5, 0, 64);
		CU_ASSERT_EQUAL(invalidate(&r, key, remote),
				remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_MW_BIND_ERR);
		/* The receive is told, too (class J); its peer need not wait (provider/README.md).
		 */
		if (remote)
			CU_ASSERT_EQUAL(completion(&r, &r.p.b, IBV_WC_RECV),
					IBV_WC_REM_INV_REQ_ERR);
		CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_ERR);
		rig_close(&r);
	}
}

static enum ibv_wc_status write_imm(struct rig *r, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)r->p.a.buf, len, r->p.a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = start(r), .rkey = r->mw->rkey}},
			   *bad;

	CU_ASSERT_EQUAL(ibv_post_send(r->p.a.qp, &wr, &bad), 0);
	return completion(r, &r->p.a, IBV_WC_RDMA_WRITE);
}

/*
 * A WRITE with immediate data and a key that opens nothing: the receive that it would complete is
 * told (IBTA 11.6.2), if it was reached: of several packets the first is refused, and the last has
 * the immediate data. Who has posted none is not ready, first of all.
 */
static void test_imm_refused(void)
{
	struct rig r;

	rig_open(&r, IBV_MW_TYPE_2, 1);
	CU_ASSERT_EQUAL(pair_recv(&r.p.b, 5, 0, 64), 0);
	CU_ASSERT_EQUAL(pair_recv(&r.p.b, 6, 0, 64), 0);
	CU_ASSERT_EQUAL(write_imm(&r, 8), IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(completion(&r, &r.p.b, IBV_WC_RECV), IBV_WC_LOC_ACCESS_ERR);
	CU_ASSERT_EQUAL(completion(&r, &r.p.b, IBV_WC_RECV), IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_ERR);
	rig_close(&r);

	rig_open(&r, IBV_MW_TYPE_2, 2);
	CU_ASSERT_EQUAL(pair_recv(&r.p.b, 5, 0, 64), 0);
	CU_ASSERT_EQUAL(write_imm(&r, LEN), IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(completion(&r, &r.p.b, IBV_WC_RECV), IBV_WC_WR_FLUSH_ERR);
	rig_close(&r);
}

/* A type 2 window is its QP's alone; when that goes, so does what was bound. */
static void test_other_qp(void)
{
	struct ibv_qp *qa, *qb, *first_a, *first_b;
	struct rig r;
	uint32_t key;

	rig_open(&r, IBV_MW_TYPE_2, 1);
	CU_ASSERT_EQUAL(bind(&r, LEN, RIGHTS, &key), IBV_WC_SUCCESS);
	qa = pair_qp(&r.p.a, &r.pp, IBV_QPT_RC);
	qb = pair_qp(&r.p.b, &r.pp, IBV_QPT_RC);
	pair_connect(&r.p, &r.p.a, qa, &r.p.b, qb, &r.pp);
	first_a = r.p.a.qp;
	first_b = r.p.b.qp;
	r.p.a.qp = qa;
	CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), 8), IBV_WC_REM_ACCESS_ERR);
	r.p.a.qp = first_a;
	CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), 8), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_destroy_qp(first_b), 0);
	r.p.b.qp = NULL;
	/* Bound to nothing now: the region is free to go. */
	CU_ASSERT_EQUAL(ibv_dereg_mr(r.mr), 0);
	r.mr = ibv_reg_mr(r.p.b.pd, r.p.b.buf, LEN, 0);
	ibv_destroy_qp(qa);
	ibv_destroy_qp(qb);
	rig_close(&r);
}

static void test_bind_errors(void)
{
	for (unsigned what = 0; what < 11; what++) {
		enum ibv_mw_type type = what & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
		uint64_t addr, len = LEN;
		unsigned rights = RIGHTS;
		struct ibv_pd *pd = NULL;
		struct ibv_mr *other = NULL;
		uint32_t key;
		struct rig r;
		int err;

		rig_open(&r, type, what);
		addr = (uintptr_t)r.p.b.buf + OFF;
		switch (what / 2) {
		case 0: /* out of the region */
			len = PAIR_BUF;
			break;
		case 1: /* wraps */
			len = UINT64_MAX;
			break;
		case 2: /* write access to what is not written locally */
			other = ibv_reg_mr(r.p.b.pd, r.p.b.buf, PAIR_BUF, IBV_ACCESS_MW_BIND);
			break;
		case 3: /* a window of another PD (the library itself refuses that of type 1) */
			if (type == IBV_MW_TYPE_1)
				break;
			pd = ibv_alloc_pd(r.p.b.ctx);
			ibv_dealloc_mw(r.mw);
			r.mw = ibv_alloc_mw(pd, type);
			break;
		case 4: /* to a region that has no windows */
			other = ibv_reg_mr(r.p.b.pd, r.p.b.buf, PAIR_BUF, IBV_ACCESS_LOCAL_WRITE);
			break;
		default: /* type 2: bound already */
			CU_ASSERT_EQUAL(bind(&r, LEN, RIGHTS, &key), IBV_WC_SUCCESS);
		}
		if (what == 7) {
			rig_close(&r);
			continue;
		}
		key = ibv_inc_rkey(r.mw->rkey);
		err = post_bind(&r,
				(struct ibv_mw_bind_info){other ? other : r.mr, addr, len, rights},
				key);
		CU_ASSERT_EQUAL(err, 0);
		CU_ASSERT_EQUAL(completion(&r, &r.p.b, IBV_WC_BIND_MW), IBV_WC_MW_BIND_ERR);
		CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_ERR);
		if (what == 10) /* the queue died, the window is still bound */
			CU_ASSERT_EQUAL(ibv_dereg_mr(r.mr), EBUSY);
		CU_ASSERT_EQUAL(ibv_dealloc_mw(r.mw), 0);
		r.mw = NULL;
		if (pd)
			CU_ASSERT_EQUAL(ibv_dealloc_pd(pd), 0);
		if (other)
			CU_ASSERT_EQUAL(ibv_dereg_mr(other), 0);
		rig_close(&r);
	}
}

/* By ibv_wr_*: b's QP is another one, made for that. */
static void extend(struct rig *r, struct ibv_qp *first[2])
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = r->p.b.cq,
		.recv_cq = r->p.b.cq,
		.pd = r->p.b.pd,
		.cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	};

	first[0] = r->p.a.qp;
	first[1] = r->p.b.qp;
	r->p.b.qp = ibv_create_qp_ex(r->p.b.ctx, &attr);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r->p.b.qp);
	r->p.a.qp = pair_qp(&r->p.a, &r->pp, IBV_QPT_RC);
	pair_connect(&r->p, &r->p.a, r->p.a.qp, &r->p.b, r->p.b.qp, &r->pp);
}

static enum ibv_wc_status unbind(struct rig *r, uint32_t key)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(r->p.b.qp);

	ibv_wr_start(x);
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(x, key);
	CU_ASSERT_EQUAL(ibv_wr_complete(x), 0);
	return completion(r, &r->p.b, IBV_WC_LOCAL_INV);
}

static int build_bind(struct rig *r, uint32_t rkey, bool keep)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(r->p.b.qp);
	const struct ibv_mw_bind_info what = info(r, start(r), LEN, RIGHTS);

	ibv_wr_start(x);
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(x, r->mw, rkey, &what);
	if (keep)
		return ibv_wr_complete(x);
	ibv_wr_abort(x);
	return 0;
}

/* Of the key of a type 2 bind the low eight bits count, whatever is above them. */
static void test_owner_bits(void)
{
	static const uint32_t given[] = {0,	     1,		 0x7f,	     0x80,	 0xff,
					 0x100,	     0x1ff,	 0x12345678, 0x80000000, 0xffffff00,
					 0xffffffff, 0x55aa55aa, 0x00ff00ff, 0xdeadbe01};

	for (int ex = 0; ex <= 1; ex++) {
		struct ibv_qp *first[2];
		uint32_t high, key = 0;
		struct rig r;

		rig_open(&r, IBV_MW_TYPE_2, 1);
		extend(&r, first);
		high = r.mw->rkey & ~0xffu;
		for (unsigned i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
			key = r.mw->rkey;
			CU_ASSERT_EQUAL(ex ? build_bind(&r, given[i], false) : 0, 0);
			CU_ASSERT_EQUAL(r.mw->rkey, key);
			key = high | (given[i] & 0xff);
			CU_ASSERT_EQUAL(
				ex ? build_bind(&r, given[i], true)
				   : post_bind(&r, info(&r, start(&r), LEN, RIGHTS), given[i]),
				0);
			CU_ASSERT_EQUAL(r.mw->rkey, key);
			CU_ASSERT_EQUAL(completion(&r, &r.p.b, IBV_WC_BIND_MW), IBV_WC_SUCCESS);
			CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), 8),
					IBV_WC_SUCCESS);
			CU_ASSERT_EQUAL(ex ? unbind(&r, key) : invalidate(&r, key, false),
					IBV_WC_SUCCESS);
		}
		CU_ASSERT_EQUAL(rdma(&r, IBV_WR_RDMA_WRITE, key, start(&r), 8),
				IBV_WC_REM_ACCESS_ERR);
		ibv_destroy_qp(r.p.a.qp);
		ibv_destroy_qp(r.p.b.qp);
		r.p.a.qp = first[0];
		r.p.b.qp = first[1];
		rig_close(&r);
	}
}

/* Refused when posted. */
static void test_post_errors(void)
{
	struct rig r;
	uint32_t key;

	rig_open(&r, IBV_MW_TYPE_2, 1);
	key = r.mw->rkey;
	CU_ASSERT_EQUAL(post_bind(&r, info(&r, start(&r), LEN, 1 << 15), key), EINVAL);
	CU_ASSERT_EQUAL(post_bind(&r, (struct ibv_mw_bind_info){NULL, 1, 1, 0}, key), EINVAL);
	CU_ASSERT_EQUAL(r.mw->rkey, key);
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_alloc_mw(r.p.b.pd, (enum ibv_mw_type)3));
	CU_ASSERT_EQUAL(errno, EINVAL);
	rig_close(&r);
}

/* A bind takes its turn: done when what was posted before is done, and once, whatever is sent
 * again. */
static void test_order_under_loss(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct ibv_send_wr wr[3] = {0}, *bad;
		struct ibv_sge sge;
		struct ibv_wc wc;
		struct rig r;

		rig_open(&r, IBV_MW_TYPE_2, seed);
		pair_meet(&r.p);
		r.pp.link.loss = 0.2;
		urxe_sim_end_params(r.p.a.end, &r.pp.link);
		urxe_sim_end_params(r.p.b.end, &r.pp.link);
		sge = (struct ibv_sge){(uintptr_t)r.p.b.buf, 5000, r.p.b.mr->lkey};
		for (unsigned i = 0; i < 3; i++) {
			wr[i].wr_id = i;
			wr[i].next = i < 2 ? &wr[i + 1] : NULL;
			wr[i].send_flags = IBV_SEND_SIGNALED;
			wr[i].opcode = IBV_WR_RDMA_WRITE;
			wr[i].sg_list = &sge;
			wr[i].num_sge = 1;
			wr[i].wr.rdma.remote_addr = (uintptr_t)r.p.a.buf;
			wr[i].wr.rdma.rkey = r.p.a.mr->rkey;
		}
		wr[1].opcode = IBV_WR_BIND_MW;
		wr[1].num_sge = 0;
		wr[1].bind_mw.mw = r.mw;
		wr[1].bind_mw.rkey = ibv_inc_rkey(r.mw->rkey);
		wr[1].bind_mw.bind_info = info(&r, start(&r), LEN, RIGHTS);
		CU_ASSERT_EQUAL(ibv_post_send(r.p.b.qp, wr, &bad), 0);
		for (unsigned i = 0; i < 3; i++) {
			CU_ASSERT(pair_wait(&r.p, r.p.b.cq, &wc));
			CU_ASSERT(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
		}
		rig_close(&r);
	}
}

/* A window has no right that its region has not: to FLUSH, for one (A19). */
static void test_no_flush(void)
{
	const unsigned flush = URXEDV_ACCESS_FLUSH_GLOBAL;
	const struct urxe_mkey *mk;
	struct rig r;
	uint32_t key;

	rig_open(&r, IBV_MW_TYPE_2, 1);
	CU_ASSERT_EQUAL(bind(&r, LEN, RIGHTS | flush, &key), IBV_WC_SUCCESS);
	urxe_rcu_read_lock();
	mk = urxe_mkey_get(r.p.b.dev, key);
	CU_ASSERT(mk && (mk->access & RIGHTS) == RIGHTS && !(mk->access & flush));
	urxe_rcu_read_unlock();
	rig_close(&r);
}

URXE_TEST_MAIN("mw", T(test_opens), T(test_no_flush), T(test_refuses), T(test_zero_based),
	       T(test_rebind_type1), T(test_invalidate), T(test_invalidate_errors),
	       T(test_imm_refused), T(test_other_qp), T(test_bind_errors), T(test_owner_bits),
	       T(test_post_errors), T(test_order_under_loss))
