/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Each maximum that the device reports can be had, and not one more; what an idle QP costs.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

#define QP_COST	     (12u << 10) /* of an idle RC QP with room for 128 + 128 work requests */
#define QP_COST_FULL (32u << 10) /* when all of them are posted */

static struct pair_params pp = {.seed = 1, .link = {.latency = 5000}};

static void open_pair(struct pair *p, struct ibv_device_attr_ex *attr)
{
	pair_open(p, &pp, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_device_ex(p->a.ctx, NULL, attr), 0);
}

/* A kind of object of which there are only so many. @have: those that the pair has already. */
struct kind {
	void *(*make)(struct pair *p, unsigned i);
	int (*unmake)(void *obj);
};

static void fill(const struct kind *k, struct pair *p, unsigned max, unsigned have)
{
	void **v = calloc(max, sizeof(*v));
	unsigned n;

	CU_ASSERT(have <= max);
	for (n = 0; n < max - have; n++) {
		v[n] = k->make(p, n);
		if (!v[n])
			break;
	}
	if (n != max - have)
		printf("\n    %u of %u: %s\n", n, max - have, strerror(errno));
	CU_ASSERT_EQUAL(n, max - have);
	if (n == max - have) {
		errno = 0;
		CU_ASSERT_PTR_NULL(k->make(p, n));
		CU_ASSERT_EQUAL(errno, ENOMEM);
	}
	/* One goes, another comes. */
	CU_ASSERT_EQUAL(k->unmake(v[n / 2]), 0);
	v[n / 2] = k->make(p, n / 2);
	CU_ASSERT_PTR_NOT_NULL(v[n / 2]);
	while (n--)
		if (k->unmake(v[n])) {
			CU_FAIL("cannot be destroyed");
			break;
		}
	free(v);
}

static void *make_qp(struct pair *p, unsigned i)
{
	struct ibv_qp_init_attr a = {.send_cq = p->a.cq,
				     .recv_cq = p->a.cq,
				     .qp_type = i & 1 ? IBV_QPT_RC : IBV_QPT_UD,
				     .cap = {.max_send_wr = 1, .max_recv_wr = 1}};

	return ibv_create_qp(p->a.pd, &a);
}

static int unmake_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static void *make_cq(struct pair *p, unsigned i)
{
	return ibv_create_cq(p->a.ctx, 1, NULL, NULL, 0);
}

static int unmake_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static void *make_pd(struct pair *p, unsigned i)
{
	return ibv_alloc_pd(p->a.ctx);
}

static int unmake_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void *make_mr(struct pair *p, unsigned i)
{
	return ibv_reg_mr(p->a.pd, p->a.buf + i % PAIR_BUF, 1, IBV_ACCESS_LOCAL_WRITE);
}

static void *make_mw(struct pair *p, unsigned i)
{
	return ibv_alloc_mw(p->a.pd, i & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
}

static int unmake_mw(void *mw)
{
	return ibv_dealloc_mw(mw);
}

static void *make_ah(struct pair *p, unsigned i)
{
	struct ibv_ah_attr a = pair_path(&p->a, &p->b);

	return ibv_create_ah(p->a.pd, &a);
}

static int unmake_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

static void *make_srq(struct pair *p, unsigned i)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(p->a.pd, &a);
}

static int unmake_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void *make_wq(struct pair *p, unsigned i)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = p->a.pd, .cq = p->a.cq};

	return ibv_create_wq(p->a.ctx, &a);
}

static int unmake_wq(void *wq)
{
	return ibv_destroy_wq(wq);
}

static struct ibv_wq *one_wq;

static void *make_table(struct pair *p, unsigned i)
{
	struct ibv_rwq_ind_table_init_attr a = {.ind_tbl = &one_wq};

	return ibv_create_rwq_ind_table(p->a.ctx, &a);
}

static int unmake_table(void *table)
{
	return ibv_destroy_rwq_ind_table(table);
}

static void test_wqs(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	open_pair(&p, &dev);
	fill(&(struct kind){make_wq, unmake_wq}, &p, dev.max_wq_type_rq, 0);
	one_wq = make_wq(&p, 0);
	fill(&(struct kind){make_table, unmake_table}, &p, dev.rss_caps.max_rwq_indirection_tables,
	     0);
	ibv_destroy_wq(one_wq);
	pair_close(&p);
}

static void test_qps(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	open_pair(&p, &dev);
	CU_ASSERT(dev.orig_attr.max_qp >= 65535);
	fill(&(struct kind){make_qp, unmake_qp}, &p, (unsigned)dev.orig_attr.max_qp, 1);
	pair_close(&p);
}

static void test_cqs_pds(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	open_pair(&p, &dev);
	fill(&(struct kind){make_cq, unmake_cq}, &p, (unsigned)dev.orig_attr.max_cq, 1);
	fill(&(struct kind){make_pd, unmake_pd}, &p, (unsigned)dev.orig_attr.max_pd, 1);
	pair_close(&p);
}

static void test_ahs_srqs(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	open_pair(&p, &dev);
	fill(&(struct kind){make_ah, unmake_ah}, &p, (unsigned)dev.orig_attr.max_ah, 0);
	fill(&(struct kind){make_srq, unmake_srq}, &p, (unsigned)dev.orig_attr.max_srq, 0);
	pair_close(&p);
}

/* All regions there may be, and then all windows too: they share their keys. */
static void test_mrs_mws(void)
{
	struct ibv_device_attr_ex dev;
	struct ibv_mr **mrs;
	struct pair p;
	unsigned n;

	open_pair(&p, &dev);
	CU_ASSERT(dev.orig_attr.max_mr >= 1000000);
	n = (unsigned)dev.orig_attr.max_mr - 1;
	mrs = calloc(n, sizeof(*mrs));
	for (unsigned i = 0; i < n; i++)
		mrs[i] = make_mr(&p, i);
	CU_ASSERT_PTR_NOT_NULL(mrs[n - 1]);
	errno = 0;
	CU_ASSERT_PTR_NULL(make_mr(&p, 0));
	CU_ASSERT_EQUAL(errno, ENOMEM);
	fill(&(struct kind){make_mw, unmake_mw}, &p, (unsigned)dev.orig_attr.max_mw, 0);
	while (n--)
		ibv_dereg_mr(mrs[n]);
	free(mrs);
	pair_close(&p);
}

/* The deepest and widest queues at once, full, and not one more. */
static void test_queues(void)
{
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC};
	struct ibv_sge *sges;
	struct ibv_recv_wr rwr = {0}, *rbad;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_device_attr_ex dev;
	struct ibv_qp *qp, *peer;
	char data[URXE_MAX_INLINE + 1] = "";
	struct ibv_sge line = {(uintptr_t)data, sizeof(data) - 1, 0};
	struct pair p;
	int err = 0;

	open_pair(&p, &dev);
	sges = calloc((size_t)dev.orig_attr.max_sge + 1, sizeof(*sges));
	a.send_cq = a.recv_cq = p.a.cq;
	a.cap = (struct ibv_qp_cap){.max_send_wr = (uint32_t)dev.orig_attr.max_qp_wr,
				    .max_recv_wr = (uint32_t)dev.orig_attr.max_qp_wr,
				    .max_send_sge = (uint32_t)dev.orig_attr.max_sge,
				    .max_recv_sge = (uint32_t)dev.orig_attr.max_sge,
				    .max_inline_data = URXE_MAX_INLINE};
	qp = ibv_create_qp(p.a.pd, &a);
	CU_ASSERT_FATAL(qp != NULL);
	peer = pair_qp(&p.b, &pp, IBV_QPT_RC);
	pair_connect(&p, &p.a, qp, &p.b, peer, &pp);
	rwr.sg_list = wr.sg_list = sges;
	rwr.num_sge = wr.num_sge = dev.orig_attr.max_sge;
	for (int i = 0; i < dev.orig_attr.max_qp_wr && !err; i++)
		err = ibv_post_recv(qp, &rwr, &rbad);
	CU_ASSERT_EQUAL(err, 0);
	CU_ASSERT_EQUAL(ibv_post_recv(qp, &rwr, &rbad), ENOMEM);
	for (int i = 0; i < dev.orig_attr.max_qp_wr - 1 && !err; i++)
		err = ibv_post_send(qp, &wr, &bad);
	CU_ASSERT_EQUAL(err, 0);
	/* Nothing is answered: there is no receive. What is too much is refused before it is full.
	 */
	wr.num_sge++;
	CU_ASSERT_EQUAL(ibv_post_send(qp, &wr, &bad), EINVAL);
	wr.num_sge = 1;
	wr.sg_list = &line;
	wr.send_flags = IBV_SEND_INLINE;
	line.length++;
	CU_ASSERT_EQUAL(ibv_post_send(qp, &wr, &bad), EINVAL);
	line.length--;
	CU_ASSERT_EQUAL(ibv_post_send(qp, &wr, &bad), 0);
	CU_ASSERT_EQUAL(ibv_post_send(qp, &wr, &bad), ENOMEM);
	ibv_destroy_qp(qp);
	ibv_destroy_qp(peer);
	for (unsigned i = 0; i < 5; i++) {
		struct ibv_qp_init_attr more = a;

		*(i == 0   ? &more.cap.max_send_wr
		  : i == 1 ? &more.cap.max_recv_wr
		  : i == 2 ? &more.cap.max_send_sge
		  : i == 3 ? &more.cap.max_recv_sge
			   : &more.cap.max_inline_data) += 1;
		errno = 0;
		CU_ASSERT_PTR_NULL(ibv_create_qp(p.a.pd, &more));
		CU_ASSERT_EQUAL(errno, EINVAL);
	}
	free(sges);
	pair_close(&p);
}

static void test_cqe_srq_wr(void)
{
	struct ibv_srq_init_attr sa = {0};
	struct ibv_device_attr_ex dev;
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct pair p;
	int err = 0;

	open_pair(&p, &dev);
	cq = ibv_create_cq(p.a.ctx, dev.orig_attr.max_cqe, NULL, NULL, 0);
	CU_ASSERT(cq && cq->cqe >= dev.orig_attr.max_cqe && !ibv_destroy_cq(cq));
	CU_ASSERT_PTR_NULL(ibv_create_cq(p.a.ctx, dev.orig_attr.max_cqe + 1, NULL, NULL, 0));
	sa.attr.max_wr = (uint32_t)dev.orig_attr.max_srq_wr;
	sa.attr.max_sge = (uint32_t)dev.orig_attr.max_srq_sge;
	srq = ibv_create_srq(p.a.pd, &sa);
	CU_ASSERT_FATAL(srq != NULL);
	for (int i = 0; i < dev.orig_attr.max_srq_wr && !err; i++)
		err = ibv_post_srq_recv(srq, &wr, &bad);
	CU_ASSERT_EQUAL(err, 0);
	CU_ASSERT_EQUAL(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
	ibv_destroy_srq(srq);
	sa.attr.max_wr++;
	CU_ASSERT_PTR_NULL(ibv_create_srq(p.a.pd, &sa));
	pair_close(&p);
}

/* As many READs under way as the device says, on both sides. */
static void test_reads(void)
{
	struct pair_params many = pp;
	struct ibv_device_attr_ex dev;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	struct pair p;
	uint32_t most = 0;

	many.rd_atomic = URXE_MAX_RD_ATOMIC;
	many.max_wr = 512;
	pair_open(&p, &many, IBV_QPT_RC);
	ibv_query_device_ex(p.a.ctx, NULL, &dev);
	CU_ASSERT_EQUAL(dev.orig_attr.max_qp_rd_atom, URXE_MAX_RD_ATOMIC);
	CU_ASSERT_EQUAL(dev.orig_attr.max_qp_init_rd_atom, URXE_MAX_RD_ATOMIC);
	for (unsigned i = 0; i < 512; i++)
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_READ, i, 16 * i, 16, &p.b, 16 * i,
					  IBV_SEND_SIGNALED),
				0);
	for (unsigned i = 0; i < 512; i++) {
		uint32_t out = to_urxe_qp(p.a.qp)->req.rd_out;

		most = out > most ? out : most;
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS &&
			  wc.wr_id == i);
	}
	CU_ASSERT_EQUAL(most, URXE_MAX_RD_ATOMIC);
	attr.max_dest_rd_atomic = URXE_MAX_RD_ATOMIC + 1;
	pair_modify(p.a.qp, IBV_QPS_SQD);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC), EINVAL);
	pair_close(&p);
}

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

URXE_TEST_MAIN("limits", T(test_qps), T(test_cqs_pds), T(test_ahs_srqs), T(test_wqs),
	       T(test_mrs_mws), T(test_queues), T(test_cqe_srq_wr), T(test_reads), T(test_growth),
	       T(test_qp_memory))
