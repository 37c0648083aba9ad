/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What contexts are told of their port: carrier gone and back, and its death; and what still works
 * on a device whose port is dead.
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

URXE_TEST_MAIN("port_events", T(test_carrier), T(test_death))
