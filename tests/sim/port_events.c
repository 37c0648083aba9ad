/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What contexts are told of their port: carrier late, gone and back, a peer that goes, and its
 * death; and what still works on a device whose port is dead.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

#define LOOK 200000000ull

static const struct pair_params params = {.seed = 2, .link = {.latency = 1000}};

static uint64_t clock_ns;

/* Time passes for whoever watches. */
static void watch(struct side *s)
{
	clock_ns += LOOK;
	urxe_device_watch(s->dev, clock_ns);
}

static enum ibv_port_state port_state(struct side *s)
{
	struct ibv_port_attr attr;

	CU_ASSERT_EQUAL(ibv_query_port(s->ctx, 1, &attr), 0);
	return attr.state;
}

static void test_carrier(void)
{
	struct ibv_context *second;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	second = ibv_open_device(&p.a.dev->vdev.device);
	watch(&p.a);
	watch(&p.a);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), -1);
	urxe_sim_end_up(p.a.end, false);
	watch(&p.a);
	watch(&p.a);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), IBV_EVENT_PORT_ERR);
	CU_ASSERT_EQUAL(pair_ctx_event(second), IBV_EVENT_PORT_ERR);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), -1); /* once */
	CU_ASSERT_EQUAL(port_state(&p.a), IBV_PORT_DOWN);
	urxe_sim_end_up(p.a.end, true);
	watch(&p.a);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), IBV_EVENT_PORT_ACTIVE);
	CU_ASSERT_EQUAL(pair_ctx_event(second), IBV_EVENT_PORT_ACTIVE);
	CU_ASSERT_EQUAL(port_state(&p.a), IBV_PORT_ACTIVE);
	CU_ASSERT_EQUAL(pair_ctx_event(p.b.ctx), -1);
	ibv_close_device(second);
	pair_close(&p);
}

/* A link that has not been up yet may come up in a moment: the port is not down. */
static void test_late(void)
{
	struct pair_params late = params;
	struct pair p;

	late.link.late = true;
	pair_open(&p, &late, IBV_QPT_RC);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(port_state(&p.a), IBV_PORT_ACTIVE);
		watch(&p.a);
	}
	urxe_sim_end_up(p.a.end, true);
	watch(&p.a);
	CU_ASSERT_EQUAL(port_state(&p.a), IBV_PORT_ACTIVE);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), -1);
	urxe_sim_end_up(p.a.end, false);
	CU_ASSERT_EQUAL(port_state(&p.a), IBV_PORT_DOWN);
	watch(&p.a);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), IBV_EVENT_PORT_ERR);
	pair_close(&p);
}

/* The other end is a process that leaves, and another that comes: nothing that the port tells. */
static void test_peer(void)
{
	struct pair_params process = params;
	struct pair p;

	process.link.peer = true;
	pair_open(&p, &process, IBV_QPT_RC);
	watch(&p.a);
	for (unsigned i = 0; i < 4; i++) {
		urxe_sim_end_up(p.a.end, i & 1);
		watch(&p.a);
		CU_ASSERT_EQUAL(port_state(&p.a), IBV_PORT_ACTIVE);
		CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), -1);
	}
	pair_close(&p);
}

#define REFUSED(call)                        \
	do {                                 \
		errno = 0;                   \
		CU_ASSERT_PTR_NULL(call);    \
		CU_ASSERT_EQUAL(errno, EIO); \
	} while (0)

/* Nothing is made on a dead device. */
static void refuses_all(struct side *s, struct ibv_qp_init_attr *qp)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1}};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_td_init_attr td = {0};
	struct ibv_ah_attr ah = pair_path(s, s);
	struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = s->pd, .cq = s->cq};

	REFUSED(ibv_alloc_pd(s->ctx));
	REFUSED(ibv_create_cq(s->ctx, 1, NULL, NULL, 0));
	REFUSED(ibv_reg_mr(s->pd, s->buf, 1, 0));
	REFUSED(ibv_create_qp(s->pd, qp));
	REFUSED(ibv_create_srq(s->pd, &srq));
	REFUSED(ibv_create_ah(s->pd, &ah));
	REFUSED(ibv_alloc_mw(s->pd, IBV_MW_TYPE_1));
	REFUSED(ibv_alloc_td(s->ctx, &td));
	REFUSED(ibv_alloc_dm(s->ctx, &dm));
	REFUSED(ibv_open_xrcd(s->ctx, &xrcd));
	REFUSED(ibv_create_wq(s->ctx, &wq));
	CU_ASSERT_EQUAL(ibv_resize_cq(s->cq, 100), EIO);
}

static void test_death(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	pair_meet(&p);
	watch(&p.a);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 100, &p.b, 0, 0), 0);
	CU_ASSERT_EQUAL(pair_recv(&p.a, 2, 0, 100), 0);
	urxe_sim_end_die(p.a.end);
	watch(&p.a);
	watch(&p.a);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), IBV_EVENT_DEVICE_FATAL);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), -1);
	CU_ASSERT_EQUAL(port_state(&p.a), IBV_PORT_DOWN);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 100, &p.b, 0, 0), EIO);
	CU_ASSERT_EQUAL(pair_recv(&p.a, 2, 0, 100), EIO);
	/* What was posted comes back, and then nothing any more. */
	for (unsigned i = 1; i <= 2; i++)
		CU_ASSERT(ibv_poll_cq(p.a.cq, 1, &wc) == 1 && wc.wr_id == i &&
			  wc.status == IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), -1);
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE), EIO);
	CU_ASSERT_EQUAL(ibv_query_qp(p.a.qp, &attr, IBV_QP_STATE, &init), 0);
	refuses_all(&p.a, &init);
	CU_ASSERT(ibv_open_device(&p.a.dev->vdev.device) == NULL);
	CU_ASSERT_EQUAL(errno, EIO);
	pair_close(&p); /* destroys everything */
}

static int wq_to(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr a = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};

	return ibv_modify_wq(wq, &a);
}

static int wq_post(struct side *s, struct ibv_wq *wq, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, 64, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int err = ibv_post_wq_recv(wq, &wr, &bad);

	CU_ASSERT(bad == (err ? &wr : NULL));
	return err;
}

/* Receive work queues get back what they have; one in RESET has nothing, and gets no further. */
static void test_death_of_work_queues(void)
{
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1};
	struct ibv_rwq_ind_table_init_attr ta = {0};
	struct ibv_wq *wq[2];
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	watch(&p.a);
	init.pd = p.a.pd;
	init.cq = p.a.cq;
	for (unsigned i = 0; i < 2; i++) {
		wq[i] = ibv_create_wq(p.a.ctx, &init);
		CU_ASSERT_PTR_NOT_NULL_FATAL(wq[i]);
	}
	CU_ASSERT_EQUAL(wq_to(wq[0], IBV_WQS_RDY), 0);
	for (unsigned i = 1; i <= 2; i++)
		CU_ASSERT_EQUAL(wq_post(&p.a, wq[0], i), 0);
	urxe_sim_end_die(p.a.end);
	watch(&p.a);
	for (unsigned i = 1; i <= 2; i++)
		CU_ASSERT(ibv_poll_cq(p.a.cq, 1, &wc) == 1 && wc.wr_id == i &&
			  wc.status == IBV_WC_WR_FLUSH_ERR && wc.qp_num == wq[0]->wq_num);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), -1);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), IBV_EVENT_DEVICE_FATAL);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), -1);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(wq_post(&p.a, wq[i], 3), EIO);
		CU_ASSERT_EQUAL(wq_to(wq[i], IBV_WQS_RDY), EIO);
	}
	ta.ind_tbl = wq;
	REFUSED(ibv_create_rwq_ind_table(p.a.ctx, &ta));
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(ibv_destroy_wq(wq[i]), 0);
	pair_close(&p);
}

static int gsi_post(struct side *s, struct ibv_qp *qp, struct ibv_ah *ah)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, 256, s->mr->lkey};
	struct ibv_recv_wr rwr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *rbad;
	struct ibv_send_wr wr = {.wr_id = 2,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = ah, .remote_qpn = 1, .remote_qkey = 0x80010000}},
			   *bad;
	int err = ibv_post_recv(qp, &rwr, &rbad);

	return err ? err : ibv_post_send(qp, &wr, &bad);
}

/* The connection manager's QP1 is flushed as all others are: nobody waits for its last words. */
static void test_death_of_gsi(void)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 4, .max_recv_wr = 4}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x80010000};
	struct ibv_ah_attr path;
	unsigned seen = 0;
	struct ibv_qp *gsi;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	watch(&p.a);
	init.send_cq = init.recv_cq = p.a.cq;
	gsi = urxe_gsi_create_qp(p.a.pd, &init);
	CU_ASSERT_PTR_NOT_NULL_FATAL(gsi);
	CU_ASSERT_EQUAL(ibv_modify_qp(gsi, &attr,
				      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
			0);
	CU_ASSERT_EQUAL(pair_modify(gsi, IBV_QPS_RTR), 0);
	attr.qp_state = IBV_QPS_RTS;
	CU_ASSERT_EQUAL(ibv_modify_qp(gsi, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	path = pair_path(&p.a, &p.b);
	ah = ibv_create_ah(p.a.pd, &path);
	/* Its neighbour is not known: it is waiting when the port dies. */
	CU_ASSERT_EQUAL(gsi_post(&p.a, gsi, ah), 0);
	urxe_sim_end_die(p.a.end);
	watch(&p.a);
	while (urxe_gsi_poll_cq(p.a.cq, 1, &wc) == 1) {
		CU_ASSERT(wc.status == IBV_WC_WR_FLUSH_ERR && wc.qp_num == 1);
		seen |= 1u << wc.wr_id;
	}
	CU_ASSERT_EQUAL(seen, 1u << 1 | 1u << 2);
	CU_ASSERT_EQUAL(pair_state(gsi), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(gsi_post(&p.a, gsi, ah), EIO);
	CU_ASSERT(urxe_gsi_lost(p.a.ctx));
	CU_ASSERT_EQUAL(ibv_destroy_qp(gsi), 0);
	CU_ASSERT_EQUAL(ibv_destroy_ah(ah), 0);
	pair_close(&p);
}

URXE_TEST_MAIN("port_events", T(test_carrier), T(test_late), T(test_peer), T(test_death),
	       T(test_death_of_work_queues), T(test_death_of_gsi))
