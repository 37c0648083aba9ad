/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Contexts that are closed before what was made of them is destroyed: libibverbs cannot refuse it.
 * QPs end, as with a kernel's device; all objects can still be destroyed, in any order that they
 * themselves allow.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "descriptors.h"
#include "harness.h"
#include "pair.h"

static const struct pair_params pp = {.seed = 12, .link = {.latency = 5000}};

/* A pair, and of b's device another context, with all that a side has. */
struct rig {
	struct pair p;
	struct side c;
	struct ibv_qp *first; /* a's to b; a.qp is connected to c's */
	unsigned fds;
};

static void rig_open(struct rig *r, bool events)
{
	memset(r, 0, sizeof(*r));
	pair_open(&r->p, &pp, IBV_QPT_RC);
	r->fds = descriptors();
	r->c = r->p.b;
	r->c.ctx = ibv_open_device(&r->p.b.dev->vdev.device);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r->c.ctx);
	r->c.pd = ibv_alloc_pd(r->c.ctx);
	r->c.channel = events ? urxe_channel_create(r->c.ctx) : NULL;
	r->c.cq = ibv_create_cq(r->c.ctx, 64, NULL, r->c.channel, 0);
	r->c.mr = ibv_reg_mr(r->c.pd, r->c.buf, PAIR_BUF,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CU_ASSERT_FATAL(r->c.pd && r->c.cq && r->c.mr);
	r->c.qp = pair_qp(&r->c, &pp, IBV_QPT_RC);
	r->first = r->p.a.qp;
	r->p.a.qp = pair_qp(&r->p.a, &pp, IBV_QPT_RC);
	pair_connect(&r->p, &r->p.a, r->p.a.qp, &r->c, r->c.qp, &pp);
}

/* What is left of c, whose context is closed, goes; and with it the context. */
static void rig_close(struct rig *r)
{
	CU_ASSERT_EQUAL(ibv_destroy_qp(r->c.qp), 0);
	CU_ASSERT_EQUAL(ibv_dereg_mr(r->c.mr), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(r->c.pd), 0);
	CU_ASSERT_EQUAL(ibv_destroy_cq(r->c.cq), 0);
	if (r->c.channel)
		CU_ASSERT_EQUAL(urxe_channel_destroy(r->c.channel), 0);
	CU_ASSERT_EQUAL(descriptors(), r->fds);
	CU_ASSERT_EQUAL(ibv_destroy_qp(r->p.a.qp), 0);
	r->p.a.qp = r->first;
	pair_close(&r->p);
}

/* Nothing reaches the program's memory any more, and other contexts do not notice. */
static void test_qp_ends(void)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	struct rig r;

	rig_open(&r, false);
	memset(r.p.a.buf, 'x', 64);
	CU_ASSERT_EQUAL(pair_recv(&r.c, 3, 0, 64), 0);
	CU_ASSERT_EQUAL(ibv_close_device(r.c.ctx), 0);
	CU_ASSERT_EQUAL(pair_state(r.c.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(ibv_poll_cq(r.c.cq, 1, &wc), 1);
	CU_ASSERT(wc.wr_id == 3 && wc.status == IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(pair_post(&r.p.a, IBV_WR_RDMA_WRITE, 1, 0, 64, &r.c, 0, IBV_SEND_SIGNALED),
			0);
	CU_ASSERT(pair_wait(&r.p, r.p.a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_RETRY_EXC_ERR);
	CU_ASSERT_EQUAL(r.c.buf[0], 0);
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_RTS);
	rig_close(&r);
}

/* The ACK of what was received last is sent first. */
static void test_owed_ack(void)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	struct rig r;

	rig_open(&r, false);
	CU_ASSERT_EQUAL(pair_recv(&r.c, 3, 0, 64), 0);
	CU_ASSERT_EQUAL(pair_post(&r.p.a, IBV_WR_SEND, 1, 0, 64, &r.c, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT(pair_wait(&r.p, r.c.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_close_device(r.c.ctx), 0);
	CU_ASSERT(pair_wait(&r.p, r.p.a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	rig_close(&r);
}

/* Events that nobody has read when it is closed, and those that come then: none is waited for. */
static void test_events(void)
{
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r, true);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(r.c.cq, 0), 0);
	CU_ASSERT_EQUAL(pair_recv(&r.c, 3, 0, 64), 0);
	CU_ASSERT_EQUAL(
		pair_post(&r.p.a, IBV_WR_RDMA_WRITE, 1, 0, 64, &r.p.b, 0, IBV_SEND_SIGNALED),
		0); /* b's key: of another PD */
	CU_ASSERT(pair_wait(&r.p, r.p.a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(to_urxe_qp(r.c.qp)->async_events, 1);
	CU_ASSERT_EQUAL(ibv_close_device(r.c.ctx), 0);
	urxe_event_qp(to_urxe_qp(r.c.qp), IBV_EVENT_QP_FATAL);
	urxe_event_cq(to_urxe_cq(r.c.cq), IBV_EVENT_CQ_ERR);
	urxe_event_device(r.c.dev, IBV_EVENT_PORT_ERR);
	CU_ASSERT_EQUAL(to_urxe_qp(r.c.qp)->async_events, 1);
	CU_ASSERT_EQUAL(pair_ctx_event(r.p.b.ctx), IBV_EVENT_PORT_ERR);
	rig_close(&r);
}

/* Nor those of others are waited for, when what has some goes: each takes its own out alone. */
static void test_events_of_others(void)
{
	struct ibv_qp *other;
	struct rig r;

	rig_open(&r, false);
	other = pair_qp(&r.c, &pp, IBV_QPT_UD);
	CU_ASSERT_PTR_NOT_NULL_FATAL(other);
	urxe_event_qp(to_urxe_qp(r.c.qp), IBV_EVENT_COMM_EST);
	urxe_event_qp(to_urxe_qp(other), IBV_EVENT_COMM_EST);
	urxe_event_cq(to_urxe_cq(r.c.cq), IBV_EVENT_CQ_ERR);
	CU_ASSERT_EQUAL(ibv_close_device(r.c.ctx), 0);
	alarm(10);
	CU_ASSERT_EQUAL(ibv_destroy_qp(other), 0);
	rig_close(&r);
	alarm(0);
}

/* The same while the context is open, and its pipe full: nobody reads. */
static void test_full(void)
{
	struct ibv_qp *other;
	struct rig r;
	unsigned n;

	rig_open(&r, false);
	other = pair_qp(&r.c, &pp, IBV_QPT_UD);
	CU_ASSERT_PTR_NOT_NULL_FATAL(other);
	do {
		n = to_urxe_qp(other)->async_events;
		urxe_event_qp(to_urxe_qp(r.c.qp), IBV_EVENT_COMM_EST);
		urxe_event_qp(to_urxe_qp(other), IBV_EVENT_COMM_EST);
	} while (to_urxe_qp(other)->async_events != n);
	CU_ASSERT(n > 1000);
	alarm(10);
	CU_ASSERT_EQUAL(ibv_destroy_qp(other), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(r.c.qp), 0);
	alarm(0);
	r.c.qp = pair_qp(&r.c, &pp, IBV_QPT_UD);
	CU_ASSERT_EQUAL(ibv_close_device(r.c.ctx), 0);
	rig_close(&r);
}

/* Each of the other objects alone keeps its context. */
static void test_each(void)
{
	struct ibv_xrcd_init_attr xa = {.comp_mask =
						IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					.fd = -1,
					.oflags = O_CREAT};
	struct ibv_alloc_dm_attr da = {.length = 64};
	struct ibv_td_init_attr ta = {0};
	struct rig r;

	rig_open(&r, false);
	for (unsigned i = 0; i < 5; i++) {
		struct ibv_context *ctx = ibv_open_device(&r.p.b.dev->vdev.device);
		struct ibv_comp_channel *channel;
		struct ibv_xrcd *xrcd;
		struct ibv_dm *dm;
		struct ibv_td *td;
		struct ibv_cq *cq;

		CU_ASSERT_PTR_NOT_NULL_FATAL(ctx);
		switch (i) {
		case 0:
			td = ibv_alloc_td(ctx, &ta);
			CU_ASSERT_EQUAL(ibv_close_device(ctx), 0);
			CU_ASSERT_EQUAL(ibv_dealloc_td(td), 0);
			break;
		case 1:
			channel = urxe_channel_create(ctx);
			CU_ASSERT_EQUAL(ibv_close_device(ctx), 0);
			CU_ASSERT_EQUAL(urxe_channel_destroy(channel), 0);
			break;
		case 2:
			xrcd = ibv_open_xrcd(ctx, &xa);
			CU_ASSERT_EQUAL(ibv_close_device(ctx), 0);
			CU_ASSERT_EQUAL(ibv_close_xrcd(xrcd), 0);
			break;
		case 3:
			dm = ibv_alloc_dm(ctx, &da);
			CU_ASSERT_EQUAL(ibv_close_device(ctx), 0);
			CU_ASSERT_EQUAL(ibv_free_dm(dm), 0);
			break;
		default:
			cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
			CU_ASSERT_EQUAL(ibv_close_device(ctx), 0);
			CU_ASSERT_EQUAL(ibv_destroy_cq(cq), 0);
		}
	}
	CU_ASSERT_EQUAL(ibv_close_device(r.c.ctx), 0);
	rig_close(&r);
}

/* SRQs, work queues and their table, with the context that they were made of. */
static void test_queues(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_wq_init_attr wa = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_rwq_ind_table_init_attr ia = {.log_ind_tbl_size = 0};
	struct ibv_rwq_ind_table *table;
	struct ibv_srq *srq;
	struct ibv_wq *wq;
	struct rig r;

	rig_open(&r, false);
	wa.pd = r.c.pd;
	wa.cq = r.c.cq;
	srq = ibv_create_srq(r.c.pd, &sa);
	wq = ibv_create_wq(r.c.ctx, &wa);
	ia.ind_tbl = &wq;
	table = ibv_create_rwq_ind_table(r.c.ctx, &ia);
	CU_ASSERT_FATAL(srq && wq && table);
	CU_ASSERT_EQUAL(ibv_modify_wq(wq, &ready), 0);
	CU_ASSERT_EQUAL(ibv_close_device(r.c.ctx), 0);
	CU_ASSERT_EQUAL(ibv_destroy_srq(srq), 0);
	CU_ASSERT_EQUAL(ibv_destroy_wq(wq), EBUSY);
	CU_ASSERT_EQUAL(ibv_destroy_rwq_ind_table(table), 0);
	ready.wq_state = IBV_WQS_RDY; /* not from ERR */
	CU_ASSERT_EQUAL(ibv_modify_wq(wq, &ready), EINVAL);
	CU_ASSERT_EQUAL(ibv_destroy_wq(wq), 0);
	rig_close(&r);
}

/* A target QP that another context has open goes on without the one that made it. */
static void test_shared_target(void)
{
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = O_CREAT};
	struct ibv_qp_init_attr_ex qa = {.qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp_open_attr oa = {.comp_mask = IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_NUM |
						   IBV_QP_OPEN_ATTR_TYPE,
				      .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_xrcd *x1, *x2;
	struct ibv_qp *made, *opened;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct rig r;

	rig_open(&r, false);
	xa.fd = open("/", O_RDONLY | O_DIRECTORY);
	x1 = ibv_open_xrcd(r.c.ctx, &xa);
	x2 = ibv_open_xrcd(r.p.b.ctx, &xa);
	close(xa.fd);
	CU_ASSERT_FATAL(x1 && x2);
	qa.xrcd = x1;
	made = ibv_create_qp_ex(r.c.ctx, &qa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(made);
	oa.xrcd = x2;
	oa.qp_num = made->qp_num;
	opened = ibv_open_qp(r.p.b.ctx, &oa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(opened);
	CU_ASSERT_EQUAL(
		ibv_modify_qp(opened, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	CU_ASSERT_EQUAL(ibv_close_device(r.c.ctx), 0);
	CU_ASSERT_EQUAL(pair_state(opened), IBV_QPS_INIT);
	CU_ASSERT_EQUAL(ibv_destroy_qp(made), 0);
	CU_ASSERT_EQUAL(ibv_close_xrcd(x1), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(opened), 0);
	CU_ASSERT_EQUAL(ibv_close_xrcd(x2), 0);
	rig_close(&r);
}

URXE_TEST_MAIN("closed", T(test_qp_ends), T(test_owed_ack), T(test_events),
	       T(test_events_of_others), T(test_full), T(test_each), T(test_queues),
	       T(test_shared_target))
