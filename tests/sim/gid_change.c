/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Addresses that come and go on a device in use: who is told, what the GID table says, what
 * objects may be made of it, and what becomes of QPs whose source address went.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "gid.h"
#include "harness.h"
#include "pair.h"

static union ibv_gid host(unsigned net, unsigned n)
{
	return (union ibv_gid){{[10] = 0xff, 0xff, 10, 0, (uint8_t)net, (uint8_t)n}};
}

static int change(struct side *s, bool add, unsigned net, unsigned n)
{
	union ibv_gid gid = host(net, n);

	return urxe_device_addr(s->dev, add, &gid, 24);
}

static void test_told(void)
{
	const struct pair_params params = {.seed = 3, .link = {.latency = 1000}};
	struct ibv_gid_entry e, table[4];
	union ibv_gid gid = host(5, 1);
	struct ibv_context *second;
	struct pair p;
	size_t n;

	pair_open(&p, &params, IBV_QPT_RC);
	second = ibv_open_device(&p.a.dev->vdev.device);
	CU_ASSERT_EQUAL(urxe_query_gid(p.a.ctx, 1, 1, &e), ENODATA);
	CU_ASSERT_EQUAL(change(&p.a, true, 5, 1), 0);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), IBV_EVENT_GID_CHANGE);
	CU_ASSERT_EQUAL(pair_ctx_event(second), IBV_EVENT_GID_CHANGE);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), -1);
	CU_ASSERT_EQUAL(pair_ctx_event(p.b.ctx), -1);
	CU_ASSERT_EQUAL(urxe_query_gid(second, 1, 1, &e), 0);
	CU_ASSERT(!memcmp(&e.gid, &gid, 16) && e.gid_index == 1);
	CU_ASSERT_EQUAL(change(&p.a, true, 5, 1), EEXIST);
	CU_ASSERT_EQUAL(change(&p.a, false, 5, 2), EADDRNOTAVAIL);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), -1); /* nothing has changed */
	CU_ASSERT_EQUAL(change(&p.a, false, 0, 1), 0);
	CU_ASSERT_EQUAL(pair_ctx_event(p.a.ctx), IBV_EVENT_GID_CHANGE);
	CU_ASSERT_EQUAL(urxe_query_gid(p.a.ctx, 1, 0, &e), ENODATA);
	CU_ASSERT_EQUAL(urxe_query_gid_table(p.a.ctx, table, 4, &n), 0);
	CU_ASSERT(n == 1 && table[0].gid_index == 1);
	ibv_close_device(second);
	pair_close(&p);
}

/* An empty slot is no source for anything. */
static void test_empty_slot(void)
{
	const struct pair_params params = {.seed = 4, .link = {.latency = 1000}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_ah_attr ah;
	struct ibv_qp *qp;
	struct pair p;
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	pair_open(&p, &params, IBV_QPT_RC);
	ah = pair_path(&p.a, &p.b);
	qp = pair_qp(&p.a, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	CU_ASSERT_EQUAL(change(&p.a, true, 5, 1), 0);
	CU_ASSERT_EQUAL(change(&p.a, false, 0, 1), 0);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = p.b.qp->qp_num;
	attr.ah_attr = ah;
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &attr, mask), EINVAL);
	CU_ASSERT_EQUAL(pair_state(qp), IBV_QPS_INIT);
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_create_ah(p.a.pd, &ah));
	CU_ASSERT_EQUAL(errno, EINVAL);
	/* It is a source again. */
	CU_ASSERT_EQUAL(change(&p.a, true, 0, 1), 0);
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &attr, mask), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(qp), 0);
	pair_close(&p);
}

static void test_retries(void)
{
	const struct pair_params params = {
		.seed = 5, .link = {.latency = 1000}, .set_retries = true, .retry_cnt = 3};
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	pair_meet(&p);
	CU_ASSERT_EQUAL(change(&p.a, false, 0, 1), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 100, &p.b, 0, IBV_SEND_SIGNALED),
			0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_RETRY_EXC_ERR);
	CU_ASSERT(pair_counter(&p.a, "tx_no_source") >= 4);
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_ERR);
	/* Its peer has heard nothing. */
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
	pair_close(&p);
}

/* The responder's address goes, and comes back before the requester gives up. */
static void test_returns(void)
{
	const struct pair_params params = {.seed = 6, .link = {.latency = 1000}};
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = i ? &p.a : &p.b;

		CU_ASSERT_EQUAL(change(s, false, 0, i ? 1 : 2), 0);
		CU_ASSERT_EQUAL(
			pair_post(&p.a, IBV_WR_RDMA_READ, i, 0, 5000, &p.b, 0, IBV_SEND_SIGNALED),
			0);
		CU_ASSERT(pair_no_wc(&p, &p.a, 100000000));
		CU_ASSERT_EQUAL(change(s, true, 0, i ? 1 : 2), 0);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc));
		CU_ASSERT(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
	CU_ASSERT(pair_counter(&p.b, "rx_ip_not_ours") > 0);
	pair_close(&p);
}

/* Datagrams are lost, as on any wire; the AH is good again with its address. */
static void test_datagrams(void)
{
	const struct pair_params params = {.seed = 7, .link = {.latency = 1000}};
	struct ibv_ah_attr attr;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_UD);
	pair_meet(&p);
	attr = pair_path(&p.a, &p.b);
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_ah *ah = ibv_create_ah(p.a.pd, &attr);
		struct ibv_sge sge = {(uintptr_t)p.a.buf, 64, p.a.mr->lkey};
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.ud = {ah, p.b.qp->qp_num, 0x11111111}},
				   *bad;

		CU_ASSERT_PTR_NOT_NULL_FATAL(ah);
		CU_ASSERT_EQUAL(pair_recv(&p.b, 10 + i, 0, 200), 0);
		if (!i)
			CU_ASSERT_EQUAL(change(&p.a, false, 0, 1), 0);
		CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
		if (!i)
			CU_ASSERT(pair_no_wc(&p, &p.b, 10000000));
		if (!i)
			CU_ASSERT_EQUAL(change(&p.a, true, 0, 1), 0);
		if (i)
			CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && wc.wr_id == 10);
		CU_ASSERT_EQUAL(ibv_destroy_ah(ah), 0);
	}
	CU_ASSERT_EQUAL(pair_counter(&p.a, "tx_no_source"), 1);
	pair_close(&p);
}

static atomic_bool churned;

static void *churn(void *arg)
{
	struct pair *p = arg;

	for (unsigned i = 0; i < 200; i++) {
		unsigned n = 1 + i % 100;

		/* Slots are left and taken again, by the source of the traffic as well. */
		if (change(&p->a, true, 7, n) || change(&p->b, true, 8, n) ||
		    change(&p->a, false, 0, 1) || change(&p->a, true, 0, 1) ||
		    change(&p->a, false, 7, n) || change(&p->b, false, 8, n))
			CU_FAIL("change");
		while (pair_ctx_event(p->a.ctx) >= 0 || pair_ctx_event(p->b.ctx) >= 0)
			;
	}
	atomic_store(&churned, true);
	return NULL;
}

/* In real time, with service threads: traffic goes on while its source address comes and goes. */
static void test_threads(void)
{
	const struct pair_params params = {.seed = 8, .threaded = true, .timeout = 12};
	pthread_t thread;
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, churn, &p), 0);
	for (unsigned i = 0; !atomic_load(&churned); i++) {
		int n = 0;

		CU_ASSERT_EQUAL(
			pair_post(&p.a, IBV_WR_RDMA_WRITE, i, 0, 3000, &p.b, 0, IBV_SEND_SIGNALED),
			0);
		while (!n)
			n = ibv_poll_cq(p.a.cq, 1, &wc);
		CU_ASSERT(n == 1 && wc.status == IBV_WC_SUCCESS);
		if (n != 1 || wc.status)
			break;
	}
	pthread_join(thread, NULL);
	pair_close(&p);
}

URXE_TEST_MAIN("gid_change", T(test_told), T(test_empty_slot), T(test_retries), T(test_returns),
	       T(test_datagrams), T(test_threads))
