/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Each size that the device reports can be had and is of use, and one more is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attrs.h"
#include "harness.h"
#include "forge.h"
#include "progress.h"

static const struct pair_params pp = {.seed = 1, .link = {.latency = 5000}};

/* ---- queues ---- */

/* The deepest and widest queues at once, full, and not one more. */
void attr_max_qp_wr_sge(void)
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

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
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

/* A READ scattered over as many places as may be. */
void attr_max_sge_rd(void)
{
	struct pair_params wide = pp;
	struct ibv_device_attr_ex dev;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_sge *sges;
	struct ibv_wc wc;
	struct pair p;
	int n;

	wide.max_sge = URXE_MAX_SGE;
	attrs_open(&p, &wide, IBV_QPT_RC, &dev);
	n = dev.orig_attr.max_sge_rd;
	CU_ASSERT_EQUAL_FATAL(n, URXE_MAX_SGE);
	sges = calloc((size_t)n + 1, sizeof(*sges));
	for (int i = 0; i <= n; i++)
		sges[i] = (struct ibv_sge){(uintptr_t)p.a.buf + 0x1000u * (unsigned)i, 100,
					   p.a.mr->lkey};
	for (int i = 0; i < 100 * n; i++)
		p.b.buf[i] = (uint8_t)(i * 7 + i / 100);
	wr.sg_list = sges;
	wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf;
	wr.wr.rdma.rkey = p.b.mr->rkey;
	wr.num_sge = n + 1;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), EINVAL);
	wr.num_sge = n;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	for (int i = 0; i < n; i++)
		CU_ASSERT(!memcmp(p.a.buf + 0x1000u * (unsigned)i, p.b.buf + 100 * i, 100));
	free(sges);
	pair_close(&p);
}

void attr_max_cqe(void)
{
	struct ibv_device_attr_ex dev;
	struct ibv_cq *cq;
	struct pair p;
	int max;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	max = dev.orig_attr.max_cqe;
	cq = ibv_create_cq(p.a.ctx, max, NULL, NULL, 0);
	CU_ASSERT_FATAL(cq && cq->cqe >= max);
	CU_ASSERT_EQUAL(ibv_resize_cq(cq, max + 1), EINVAL);
	CU_ASSERT_EQUAL(ibv_resize_cq(cq, 1), 0);
	CU_ASSERT_EQUAL(ibv_resize_cq(cq, max), 0);
	CU_ASSERT_EQUAL(ibv_destroy_cq(cq), 0);
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_create_cq(p.a.ctx, max + 1, NULL, NULL, 0));
	CU_ASSERT_EQUAL(errno, EINVAL);
	pair_close(&p);
}

void attr_max_srq_wr_sge(void)
{
	struct ibv_srq_init_attr sa = {0};
	struct ibv_srq_attr at = {0};
	struct ibv_device_attr_ex dev;
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_sge *sges;
	struct ibv_srq *srq;
	struct pair p;
	int err = 0;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	sa.attr.max_wr = (uint32_t)dev.orig_attr.max_srq_wr;
	sa.attr.max_sge = (uint32_t)dev.orig_attr.max_srq_sge;
	sges = calloc((size_t)dev.orig_attr.max_srq_sge + 1, sizeof(*sges));
	srq = ibv_create_srq(p.a.pd, &sa);
	CU_ASSERT_FATAL(srq != NULL);
	wr.sg_list = sges;
	wr.num_sge = dev.orig_attr.max_srq_sge + 1;
	CU_ASSERT_EQUAL(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	wr.num_sge = dev.orig_attr.max_srq_sge;
	for (int i = 0; i < dev.orig_attr.max_srq_wr && !err; i++)
		err = ibv_post_srq_recv(srq, &wr, &bad);
	CU_ASSERT_EQUAL(err, 0);
	CU_ASSERT_EQUAL(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
	at.max_wr = (uint32_t)dev.orig_attr.max_srq_wr + 1;
	CU_ASSERT_EQUAL(ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR), EINVAL);
	ibv_destroy_srq(srq);
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_srq_init_attr more = sa;

		*(i ? &more.attr.max_sge : &more.attr.max_wr) += 1;
		errno = 0;
		CU_ASSERT_PTR_NULL(ibv_create_srq(p.a.pd, &more));
		CU_ASSERT_EQUAL(errno, EINVAL);
	}
	free(sges);
	pair_close(&p);
}

/* ---- READs and ATOMICs ---- */

/* As many out as the device says. */
void attr_max_init_rd_atom(void)
{
	struct pair_params many = pp;
	struct ibv_qp_attr attr = {0};
	struct ibv_device_attr_ex dev;
	struct ibv_wc wc;
	struct pair p;
	uint32_t most = 0;

	many.rd_atomic = URXE_MAX_RD_ATOMIC;
	many.max_wr = 512;
	attrs_open(&p, &many, IBV_QPT_RC, &dev);
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
	CU_ASSERT_EQUAL(most, (uint32_t)dev.orig_attr.max_qp_init_rd_atom);
	attr.max_rd_atomic = (uint8_t)(dev.orig_attr.max_qp_init_rd_atom + 1);
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_SQD), 0);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC), EINVAL);
	attr.max_rd_atomic--;
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC), 0);
	pair_close(&p);
}

/* A READ request to b of more than its link takes at once. */
static void put_read(struct pair *p, unsigned i)
{
	struct raw_pkt k = {.opcode = RC(READ_REQUEST),
			    .psn = urxe_psn_add(0xffffe0, 100 * i),
			    .va = (uintptr_t)p->b.buf,
			    .rkey = p->b.mr->rkey,
			    .dmalen = 100 * 1024};
	uint8_t f[256];

	urxe_sim_put(p->b.end, f, raw_frame(&p->a, &p->b, &k, f));
	urxe_progress_turn(p->b.dev);
}

/* As many kept as the device says, when nothing can be answered; one more is too many. */
void attr_max_qp_rd_atom(void)
{
	const struct urxe_sim_params stall = {.latency = 1000, .tx_stall = true};
	struct ibv_qp_attr attr = {0};
	struct pair_params many = pp;
	struct ibv_device_attr_ex dev;
	unsigned max;
	struct pair p;

	many.rd_atomic = URXE_MAX_RD_ATOMIC;
	attrs_open(&p, &many, IBV_QPT_RC, &dev);
	max = (unsigned)dev.orig_attr.max_qp_rd_atom;
	pair_meet(&p);
	urxe_sim_end_params(p.b.end, &stall);
	for (unsigned i = 0; i < max; i++)
		put_read(&p, i);
	for (unsigned i = 0; i < max; i++)
		urxe_progress_turn(p.b.dev);
	CU_ASSERT_EQUAL(to_urxe_qp(p.b.qp)->resp.res_pending, max);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
	attr.max_dest_rd_atomic = (uint8_t)(max + 1);
	CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_SQD), 0);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.b.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC), EINVAL);
	CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_RTS), 0);
	put_read(&p, max);
	urxe_progress_turn(p.b.dev);
	urxe_sim_end_params(p.b.end, &pp.link);
	pair_settle(&p, 1000000000);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_ERR);
	pair_close(&p);
}

/* ---- memory ---- */

/* All that an address can name, with whatever is there; and as much that is all there. */
void attr_max_mr_size(void)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_device_attr_ex dev;
	struct ibv_mr *all, *null;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT_EQUAL(dev.orig_attr.max_mr_size, SIZE_MAX);
	all = ibv_reg_mr(p.b.pd, NULL, dev.orig_attr.max_mr_size, access);
	null = ibv_alloc_null_mr(p.a.pd);
	CU_ASSERT_FATAL(all && null);
	CU_ASSERT(all->length == dev.orig_attr.max_mr_size && null->length == SIZE_MAX);
	memset(p.b.buf, 1, 16);
	sge = (struct ibv_sge){UINT64_MAX - 8, 8, null->lkey};
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf;
	wr.wr.rdma.rkey = all->rkey;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(!p.b.buf[0] && !p.b.buf[7] && p.b.buf[8] == 1);
	/* One more is more than an address has. */
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_reg_mr(p.b.pd, (void *)1, dev.orig_attr.max_mr_size, access));
	CU_ASSERT_EQUAL(errno, EINVAL);
	ibv_dereg_mr(all);
	ibv_dereg_mr(null);
	pair_close(&p);
}

/* In one piece, or in pieces; and four bytes that are left for nobody. */
void attr_max_dm_size(void)
{
	struct ibv_alloc_dm_attr attr = {0};
	struct ibv_device_attr_ex dev;
	struct ibv_dm *dm[16];
	struct ibv_mr *mr;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	for (unsigned pieces = 1; pieces <= 16; pieces *= 16) {
		attr.length = dev.max_dm_size / pieces;
		for (unsigned i = 0; i < pieces; i++) {
			dm[i] = ibv_alloc_dm(p.a.ctx, &attr);
			CU_ASSERT_FATAL(dm[i] != NULL);
		}
		attr.length = 4;
		errno = 0;
		CU_ASSERT_PTR_NULL(ibv_alloc_dm(p.a.ctx, &attr));
		CU_ASSERT_EQUAL(errno, ENOMEM);
		mr = ibv_reg_dm_mr(p.a.pd, dm[0], 0, dev.max_dm_size / pieces,
				   IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
		CU_ASSERT(mr && !ibv_dereg_mr(mr));
		for (unsigned i = 0; i < pieces; i++)
			CU_ASSERT_EQUAL(ibv_free_dm(dm[i]), 0);
	}
	attr.length = dev.max_dm_size + 1;
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_alloc_dm(p.a.ctx, &attr));
	CU_ASSERT_EQUAL(errno, EINVAL);
	pair_close(&p);
}

/* ---- tables of work queues ---- */

/* The widest table of work queues there may be. */
void attr_max_table_size(void)
{
	struct ibv_wq_init_attr wa = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1};
	struct ibv_rwq_ind_table_init_attr ta = {0};
	struct ibv_rwq_ind_table *t;
	struct ibv_device_attr_ex a;
	struct ibv_wq **wqs;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &a);
	wa.pd = p.a.pd;
	wa.cq = p.a.cq;
	wqs = calloc(2ul * a.rss_caps.max_rwq_indirection_table_size, sizeof(struct ibv_wq *));
	wqs[0] = ibv_create_wq(p.a.ctx, &wa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(wqs[0]);
	for (uint32_t i = 1; i < 2 * a.rss_caps.max_rwq_indirection_table_size; i++)
		wqs[i] = wqs[0];
	while (1u << ta.log_ind_tbl_size < a.rss_caps.max_rwq_indirection_table_size)
		ta.log_ind_tbl_size++;
	ta.ind_tbl = wqs;
	t = ibv_create_rwq_ind_table(p.a.ctx, &ta);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t);
	CU_ASSERT_EQUAL(ibv_destroy_rwq_ind_table(t), 0);
	ta.log_ind_tbl_size++;
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_create_rwq_ind_table(p.a.ctx, &ta));
	CU_ASSERT_EQUAL(errno, EINVAL);
	ibv_destroy_wq(wqs[0]);
	free(wqs);
	pair_close(&p);
}

/* ---- times and rates ---- */

/* Longer or more cannot be said: the fields are as wide. */
void attr_cq_moderation(void)
{
	struct ibv_modify_cq_attr m = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct pair_params with_channel = pp;
	struct ibv_device_attr_ex dev;
	struct ibv_wc wc;
	struct pair p;

	with_channel.channel = true;
	attrs_open(&p, &with_channel, IBV_QPT_RC, &dev);
	CU_ASSERT(dev.cq_mod_caps.max_cq_count == UINT16_MAX &&
		  dev.cq_mod_caps.max_cq_period == UINT16_MAX);
	m.moderate.cq_count = dev.cq_mod_caps.max_cq_count;
	m.moderate.cq_period = dev.cq_mod_caps.max_cq_period;
	CU_ASSERT_EQUAL(ibv_modify_cq(p.a.cq, &m), 0);
	/* An event comes, as late as was asked for (microseconds). */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 0), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	pair_settle(&p, (dev.cq_mod_caps.max_cq_period - 100) * 1000ull);
	CU_ASSERT_EQUAL(to_urxe_cq(p.a.cq)->events_sent, 0);
	pair_settle(&p, 200 * 1000ull);
	CU_ASSERT_EQUAL(to_urxe_cq(p.a.cq)->events_sent, 1);
	m.attr_mask = IBV_CQ_ATTR_RESERVED;
	CU_ASSERT_EQUAL(ibv_modify_cq(p.a.cq, &m), EINVAL);
	pair_close(&p);
}

/* What rate.c measures is between these. */
void attr_rate_limits(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(dev.packet_pacing_caps.qp_rate_limit_min > 0);
	for (unsigned i = 0; i < 4; i++) {
		const struct {
			uint32_t rate;
			int err;
		} tries[] = {{dev.packet_pacing_caps.qp_rate_limit_min, 0},
			     {dev.packet_pacing_caps.qp_rate_limit_min - 1, EINVAL},
			     {dev.packet_pacing_caps.qp_rate_limit_max, 0},
			     {0, 0}};
		struct ibv_qp_rate_limit_attr rl = {.rate_limit = tries[i].rate};
		struct ibv_qp_attr a = {.rate_limit = tries[i].rate}, is;
		struct ibv_qp_init_attr init;

		CU_ASSERT_EQUAL(ibv_modify_qp_rate_limit(p.a.qp, &rl), tries[i].err);
		CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_RATE_LIMIT), tries[i].err);
		CU_ASSERT_EQUAL(ibv_query_qp(p.a.qp, &is, IBV_QP_RATE_LIMIT, &init), 0);
		CU_ASSERT(tries[i].err || is.rate_limit == tries[i].rate);
	}
	/* More cannot be said. */
	CU_ASSERT_EQUAL(dev.packet_pacing_caps.qp_rate_limit_max, UINT32_MAX);
	pair_close(&p);
}
