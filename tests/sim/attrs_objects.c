/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Each number of objects that the device reports can be had, and not one more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attrs.h"
#include "harness.h"
#include "forge.h"
#include "rcu.h"
#include "progress.h"

#if defined(URXE_TSAN) || defined(__SANITIZE_ADDRESS__)
#define SHARE 16 /* one thread, and minutes: a part will do */
#else
#define SHARE 1
#endif
#define RES_MEMORY (2ull << 30) /* what all responder resources take, or that part of them */

static const struct pair_params pp = {.seed = 1, .link = {.latency = 5000}};

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

static void *make_raw_qp(struct pair *p, unsigned i)
{
	struct ibv_qp_init_attr a = {.send_cq = p->a.cq,
				     .recv_cq = p->a.cq,
				     .qp_type = IBV_QPT_RAW_PACKET,
				     .cap = {.max_send_wr = 1, .max_recv_wr = 1}};

	return ibv_create_qp(p->a.pd, &a);
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

void attr_max_qp(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(dev.orig_attr.max_qp >= 65535);
	fill(&(struct kind){make_qp, unmake_qp}, &p, (unsigned)dev.orig_attr.max_qp, 1);
	pair_close(&p);
}

void attr_max_raw_ethy_qp(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	if (!attrs_raw_permitted())
		return;
	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	fill(&(struct kind){make_raw_qp, unmake_qp}, &p, (unsigned)dev.orig_attr.max_raw_ethy_qp,
	     1);
	pair_close(&p);
}

void attr_max_cq(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	fill(&(struct kind){make_cq, unmake_cq}, &p, (unsigned)dev.orig_attr.max_cq, 1);
	pair_close(&p);
}

void attr_max_pd(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	fill(&(struct kind){make_pd, unmake_pd}, &p, (unsigned)dev.orig_attr.max_pd, 1);
	pair_close(&p);
}

void attr_max_ah(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	fill(&(struct kind){make_ah, unmake_ah}, &p, (unsigned)dev.orig_attr.max_ah, 0);
	pair_close(&p);
}

void attr_max_srq(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	fill(&(struct kind){make_srq, unmake_srq}, &p, (unsigned)dev.orig_attr.max_srq, 0);
	pair_close(&p);
}

void attr_max_wq(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	fill(&(struct kind){make_wq, unmake_wq}, &p, (unsigned)dev.max_wq_type_rq, 0);
	pair_close(&p);
}

void attr_max_rwq_tables(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	one_wq = make_wq(&p, 0);
	fill(&(struct kind){make_table, unmake_table}, &p, dev.rss_caps.max_rwq_indirection_tables,
	     0);
	ibv_destroy_wq(one_wq);
	pair_close(&p);
}

/* All regions there may be, and then all windows too: they share their keys. */
void attr_max_mr_mw(void)
{
	struct ibv_device_attr_ex dev;
	struct ibv_mr **mrs;
	unsigned n, counted, windows, counted_windows;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(dev.orig_attr.max_mr >= 1000000);
	n = ((unsigned)dev.orig_attr.max_mr - 1) / SHARE;
	counted = (unsigned)dev.orig_attr.max_mr - 1 - n;
	windows = (unsigned)dev.orig_attr.max_mw / SHARE;
	p.a.dev->mr_count += counted;
	counted_windows = (unsigned)dev.orig_attr.max_mw - windows;
	p.a.dev->mw_count += counted_windows;
	mrs = calloc(n, sizeof(*mrs));
	for (unsigned i = 0; i < n; i++)
		mrs[i] = make_mr(&p, i);
	CU_ASSERT_PTR_NOT_NULL(mrs[n - 1]);
	errno = 0;
	CU_ASSERT_PTR_NULL(make_mr(&p, 0));
	CU_ASSERT_EQUAL(errno, ENOMEM);
	fill(&(struct kind){make_mw, unmake_mw}, &p, windows, 0);
	while (n--)
		ibv_dereg_mr(mrs[n]);
	free(mrs);
	p.a.dev->mr_count -= counted;
	p.a.dev->mw_count -= counted_windows;
	CU_ASSERT_EQUAL(p.a.dev->mw_count, 0);
	pair_close(&p);
}

/* All members of all groups: so many attachments, and neither a member nor a group more. */
static union ibv_gid group(int n)
{
	return (union ibv_gid){
		.raw = {[10] = 0xff, [11] = 0xff, 239, 1, (uint8_t)(n >> 8), (uint8_t)n}};
}

static void attach_all(struct ibv_qp *qp, int groups, int want)
{
	int failed = 0;

	for (int g = 0; g < groups; g++) {
		union ibv_gid gid = group(g);

		failed += ibv_attach_mcast(qp, &gid, 0) != want;
	}
	CU_ASSERT_EQUAL(failed, 0);
}

static void detach_all(struct ibv_qp *qp, int groups)
{
	int failed = 0;

	for (int g = 0; g < groups; g++) {
		union ibv_gid gid = group(g);

		failed += ibv_detach_mcast(qp, &gid, 0) != 0;
	}
	CU_ASSERT_EQUAL(failed, 0);
}

void attr_max_mcast(void)
{
	struct ibv_qp_init_attr init = {.cap = {.max_recv_wr = 1}, .qp_type = IBV_QPT_UD};
	struct ibv_device_attr_ex dev;
	int members, groups, some, n;
	union ibv_gid more;
	struct ibv_qp **qp;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	members = dev.orig_attr.max_mcast_qp_attach;
	groups = dev.orig_attr.max_mcast_grp;
	some = groups / SHARE; /* that have all their members */
	CU_ASSERT(groups >= 256);
	CU_ASSERT_EQUAL(dev.orig_attr.max_total_mcast_qp_attach, members * groups);
	qp = calloc((size_t)members + 1, sizeof(*qp));
	init.send_cq = init.recv_cq = p.a.cq;
	for (n = 0; n <= members; n++) {
		qp[n] = ibv_create_qp(p.a.pd, &init);
		attach_all(qp[n], n ? some : groups, n < members ? 0 : ENOMEM);
	}
	more = group(groups);
	CU_ASSERT_EQUAL(ibv_attach_mcast(qp[0], &more, 0), ENOMEM);
	CU_ASSERT_EQUAL(ibv_attach_mcast(qp[members], &more, 0), ENOMEM);
	/* One leaves, another comes. */
	detach_all(qp[members - 1], some);
	attach_all(qp[members], some, 0);
	detach_all(qp[members], some);
	ibv_destroy_qp(qp[members]);
	ibv_destroy_qp(qp[members - 1]);
	for (n = members - 2; n >= 0; n--) {
		detach_all(qp[n], n ? some : groups);
		ibv_destroy_qp(qp[n]);
	}
	/* Nothing is left of them: other groups have room. */
	CU_ASSERT_EQUAL(p.a.dev->num_mcast, 0);
	free(qp);
	pair_close(&p);
}

/* All QPs there may be, each with all its responder resources in use by what a READ needs. */
static struct ibv_qp *responder_of(struct pair *p, uint8_t rd_atomic)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ};
	struct ibv_qp_init_attr init = {
		.send_cq = p->b.cq, .recv_cq = p->b.cq, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(p->b.pd, &init);
	int err;

	if (!qp)
		return NULL;
	err = ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	a.qp_state = IBV_QPS_RTR;
	a.ah_attr = pair_path(&p->b, &p->a);
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = p->a.qp->qp_num;
	a.max_dest_rd_atomic = rd_atomic;
	if (!err)
		err = ibv_modify_qp(qp, &a,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					    IBV_QP_MIN_RNR_TIMER);
	if (!err)
		return qp;
	ibv_destroy_qp(qp);
	return NULL;
}

void attr_max_res_rd_atom(void)
{
	struct raw_pkt k = {.opcode = RC(READ_REQUEST), .dmalen = 8};
	struct ibv_device_attr_ex dev;
	struct ibv_qp **qps;
	uint64_t all = 0;
	struct pair p;
	unsigned n;

	if ((uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) < RES_MEMORY) {
		urxe_harness_skip("max_res_rd_atom: not enough free memory");
		return;
	}
	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	ibv_destroy_qp(p.b.qp);
	p.b.qp = NULL;
	pair_meet(&p);
	k.va = (uintptr_t)p.b.buf;
	k.rkey = p.b.mr->rkey;
	n = (unsigned)dev.orig_attr.max_qp / SHARE;
	qps = calloc(n, sizeof(struct ibv_qp *));
	for (unsigned i = 0; i < n; i++) {
		const struct urxe_responder *r;

		qps[i] = responder_of(&p, (uint8_t)dev.orig_attr.max_qp_rd_atom);
		if (!qps[i])
			break;
		k.dqpn = qps[i]->qp_num;
		raw_send(&p.a, &p.b, &k);
		r = &to_urxe_qp(qps[i])->resp;
		if (r->res && r->res_size && r->res[0].sent)
			all += r->res_size;
		CU_ASSERT_EQUAL(pair_event(&p.b), IBV_EVENT_COMM_EST);
		/* What a gets is not what it asked for. */
		urxe_progress_turn(p.a.dev);
	}
	CU_ASSERT_EQUAL((uint64_t)dev.orig_attr.max_res_rd_atom,
			(uint64_t)(unsigned)dev.orig_attr.max_qp *
				(unsigned)dev.orig_attr.max_qp_rd_atom);
	CU_ASSERT_EQUAL(all, (uint64_t)n * (unsigned)dev.orig_attr.max_qp_rd_atom);
	while (n--)
		if (qps[n])
			ibv_destroy_qp(qps[n]);
	free(qps);
	pair_close(&p);
}
