/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Data integrity under loss: what is tested is in integrity.h. Here runs are made. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "integrity.h"
#include "seeds.h"

/* ---- making and unmaking ---- */

static void end_open(struct run *r, struct end *e, struct side *s)
{
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex sa = {
		.attr = {.max_wr = 2 * WINDOW, .max_sge = MAX_SGE},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.pd = s->pd,
	};

	e->s = s;
	e->scq = ibv_create_cq(s->ctx, 4 * OPS, NULL, NULL, 0);
	e->rcq = ibv_create_cq(s->ctx, 4 * OPS, NULL, NULL, 0);
	e->mem = aligned_alloc(4096, 4 * AREA);
	e->words = calloc(512, 8);
	CU_ASSERT_FATAL(e->scq && e->rcq && e->mem && e->words);
	memset(e->mem, GUARD, 4 * AREA);
	e->mr[0] = ibv_reg_mr(s->pd, e->mem, 4 * AREA, ACCESS);
	e->mr[1] = ibv_reg_mr(s->pd, e->mem, 4 * AREA, ACCESS | IBV_ACCESS_ON_DEMAND);
	e->words_mr = ibv_reg_mr(s->pd, e->words, 4096, ACCESS);
	CU_ASSERT_FATAL(e->mr[0] && e->mr[1] && e->words_mr);
	if (r->kind == K_XRC) {
		e->xrcd = ibv_open_xrcd(s->ctx, &xa);
		CU_ASSERT_FATAL(e->xrcd != NULL);
		sa.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		sa.srq_type = IBV_SRQT_XRC;
		sa.xrcd = e->xrcd;
		sa.cq = e->rcq;
	}
	if (r->kind == K_XRC || r->kind == K_RC_SRQ) {
		e->srq = ibv_create_srq_ex(s->ctx, &sa);
		CU_ASSERT_FATAL(e->srq != NULL);
	}
}

static struct ibv_qp *make_qp(struct run *r, struct end *e)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = e->scq,
		.recv_cq = e->rcq,
		.srq = r->kind == K_RC_SRQ ? e->srq : NULL,
		.cap = {2 * WINDOW, 2 * WINDOW, MAX_SGE, MAX_SGE, INLINE},
		.qp_type = kinds[r->kind].type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = e->s->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct ibv_qp *qp;

	if (kinds[r->kind].ops & WRITES)
		a.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (kinds[r->kind].ops & ANSWERS)
		a.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				    IBV_QP_EX_WITH_ATOMIC_WRITE | URXEDV_QP_EX_WITH_FLUSH;
	if (kinds[r->kind].ops & WINDOWS)
		a.send_ops_flags |= IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
				    IBV_QP_EX_WITH_SEND_WITH_INV;
	qp = ibv_create_qp_ex(e->s->ctx, &a);
	CU_ASSERT_FATAL(qp != NULL);
	return qp;
}

static void join_group(struct run *r, struct flow *f, const struct pair_params *pp)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	struct ibv_ah_attr attr = pair_path(f->from->s, f->to->s);

	if (pp->v6)
		g = (union ibv_gid){.raw = {0xff, 0x0e, [15] = 7}};
	f->from->ah = ibv_create_ah(f->from->s->pd, &attr);
	attr.grh.dgid = g;
	f->from->group_ah = ibv_create_ah(f->from->s->pd, &attr);
	CU_ASSERT_FATAL(f->from->ah && f->from->group_ah);
	CU_ASSERT_EQUAL_FATAL(ibv_attach_mcast(f->qp, &g, 0), 0);
}

static void leave_group(struct flow *f, const struct pair_params *pp)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};

	if (pp->v6)
		g = (union ibv_gid){.raw = {0xff, 0x0e, [15] = 7}};
	CU_ASSERT_EQUAL(ibv_detach_mcast(f->qp, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_destroy_ah(f->from->ah), 0);
	CU_ASSERT_EQUAL(ibv_destroy_ah(f->from->group_ah), 0);
}

static void run_open(struct run *r, const struct pair_params *pp)
{
	struct side *s[2] = {&r->p.a, &r->p.b};

	pair_open(&r->p, pp, IBV_QPT_RC);
	pair_meet(&r->p);
	for (int k = 0; k < 2; k++)
		end_open(r, &r->end[k], s[k]);
	for (int k = 0; k < 2; k++) {
		struct flow *f = &r->flow[k];
		struct ibv_qp_init_attr_ex ra = {.qp_type = IBV_QPT_XRC_RECV,
						 .comp_mask = IBV_QP_INIT_ATTR_XRCD};

		f->r = r;
		f->back = &r->flow[!k];
		f->from = &r->end[k];
		f->to = &r->end[!k];
		f->qp = make_qp(r, f->from);
		f->mw = ibv_alloc_mw(f->to->s->pd, IBV_MW_TYPE_2);
		CU_ASSERT_FATAL(f->mw != NULL);
		if (r->kind != K_XRC)
			continue;
		ra.xrcd = f->to->xrcd;
		f->rqp = ibv_create_qp_ex(f->to->s->ctx, &ra);
		CU_ASSERT_FATAL(f->rqp != NULL && !ibv_get_srq_num(f->to->srq, &f->srqn));
		pair_connect(&r->p, f->from->s, f->qp, f->to->s, f->rqp, pp);
	}
	if (r->kind != K_XRC) {
		r->flow[0].rqp = r->flow[1].qp;
		r->flow[1].rqp = r->flow[0].qp;
		pair_connect(&r->p, s[0], r->flow[0].qp, s[1], r->flow[1].qp, pp);
	}
	for (int k = 0; k < 2 && r->kind == K_UD; k++)
		join_group(r, &r->flow[k], pp);
	pair_settle(&r->p, 1000000000); /* memberships are told */
}

static void run_close(struct run *r, const struct pair_params *pp)
{
	for (int k = 0; k < 2; k++) {
		struct flow *f = &r->flow[k];

		if (r->kind == K_UD)
			leave_group(f, pp);
		CU_ASSERT_EQUAL(ibv_destroy_qp(f->qp), 0);
		if (r->kind == K_XRC)
			CU_ASSERT_EQUAL(ibv_destroy_qp(f->rqp), 0);
		CU_ASSERT_EQUAL(ibv_dealloc_mw(f->mw), 0);
	}
	for (int k = 0; k < 2; k++) {
		struct end *e = &r->end[k];

		if (e->srq)
			CU_ASSERT_EQUAL(ibv_destroy_srq(e->srq), 0);
		if (e->xrcd)
			CU_ASSERT_EQUAL(ibv_close_xrcd(e->xrcd), 0);
		for (int m = 0; m < 2; m++)
			CU_ASSERT_EQUAL(ibv_dereg_mr(e->mr[m]), 0);
		CU_ASSERT_EQUAL(ibv_dereg_mr(e->words_mr), 0);
		CU_ASSERT_EQUAL(ibv_destroy_cq(e->scq) | ibv_destroy_cq(e->rcq), 0);
		free(e->mem);
		free(e->words);
	}
	pair_close(&r->p);
}

static bool run_seed(uint64_t seed, enum kind kind)
{
	const struct urxe_sim_params bad = {
		.latency = 5000, .loss = 0.01, .dup = 0.01, .reorder = 0.01};
	struct pair_params pp = {.seed = seed, .access = ACCESS, .link = {.latency = 5000}};
	struct run *r = calloc(1, sizeof(*r));
	bool ok;

	r->seed = r->rnd = seed;
	r->kind = kind;
	r->mtu = pp.mtu = 256u << rnd(r, 5);
	pp.v6 = rnd(r, 2);
	pp.rd_atomic = (uint8_t)(1 + rnd(r, 16));
	pp.min_rnr_timer = 5;
	run_open(r, &pp);
	urxe_sim_end_params(r->p.a.end, &bad);
	urxe_sim_end_params(r->p.b.end, &bad);
	if (kind == K_UC || kind == K_UD)
		run_unreliable(r);
	else
		run_reliable(r);
	ok = !r->failed;
	run_close(r, &pp);
	free(r);
	return ok;
}

static bool rc(uint64_t seed)
{
	return run_seed(seed, K_RC);
}

static bool rc_srq(uint64_t seed)
{
	return run_seed(seed, K_RC_SRQ);
}

static bool xrc(uint64_t seed)
{
	return run_seed(seed, K_XRC);
}

static bool uc(uint64_t seed)
{
	return run_seed(seed, K_UC);
}

static bool ud(uint64_t seed)
{
	return run_seed(seed, K_UD);
}

#define SEEDS(fn, count)                                              \
	static void test_##fn(void)                                   \
	{                                                             \
		seeds_run("test_" #fn, (count) / URXE_TEST_PART, fn); \
	}

SEEDS(rc, 80)
SEEDS(rc_srq, 40)
SEEDS(xrc, 40)
SEEDS(uc, 40)
SEEDS(ud, 40)

int main(int argc, char **argv)
{
	static const struct urxe_test tests[] = {T(test_rc), T(test_rc_srq), T(test_xrc),
						 T(test_uc), T(test_ud),     {NULL, NULL}};

	seeds_args(&argc, argv);
	return urxe_harness_main(argc, argv, "integrity", tests);
}
