/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What comes and goes while packets look it up: group members, flow rules, SRQs by number, opens
 * of target QPs. In real time, two devices of two lanes each; ThreadSanitizer looks on.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "harness.h"
#include "pair.h"
#include "raw.h"

#define ROUNDS 150
#define QKEY   0x11111111

static struct pair pair;
static struct pair_params params = {
	.seed = 4, .link = {.latency = 2000, .lanes = 2}, .threaded = true};
static const union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 1, 1}};
static atomic_bool stop;
static atomic_uint copies;

/* Datagrams from a to the group, one after the other. */
static void *sender(void *arg)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = group}};
	struct ibv_ah *ah = ibv_create_ah(pair.a.pd, &attr);
	struct ibv_sge sge = {(uintptr_t)pair.a.buf, 200, pair.a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	while (!atomic_load(&stop)) {
		if (!ibv_post_send(pair.a.qp, &wr, &bad))
			while (ibv_poll_cq(pair.a.cq, 1, &wc) == 0)
				;
	}
	ibv_destroy_ah(ah);
	return NULL;
}

static void *member(void *arg)
{
	struct side *s = &pair.b;
	struct ibv_cq *cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr ia = {
		.send_cq = cq, .recv_cq = cq, .cap = {1, 32, 1, 1, 0}, .qp_type = IBV_QPT_UD};

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_qp *qp = ibv_create_qp(s->pd, &ia);
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
		struct ibv_sge sge = {(uintptr_t)s->buf + 0x1000, 1000, s->mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
		struct ibv_wc wc;

		ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
		a.qp_state = IBV_QPS_RTR;
		ibv_modify_qp(qp, &a, IBV_QP_STATE);
		for (unsigned j = 0; j < 16; j++)
			ibv_post_recv(qp, &wr, &bad);
		if (ibv_attach_mcast(qp, &group, 0))
			break;
		for (unsigned j = 0; j < 200; j++)
			if (ibv_poll_cq(cq, 1, &wc) == 1)
				atomic_fetch_add(&copies, 1);
		ibv_detach_mcast(qp, &group, 0);
		ibv_destroy_qp(qp);
	}
	ibv_destroy_cq(cq);
	return NULL;
}

static void *sniffer(void *arg)
{
	struct side *s = &pair.b;
	struct ibv_flow_attr attr = {
		.type = IBV_FLOW_ATTR_SNIFFER, .port = 1, .size = sizeof(attr)};
	struct ibv_cq *cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr ia = {.send_cq = cq,
				      .recv_cq = cq,
				      .cap = {1, 32, 1, 1, 0},
				      .qp_type = IBV_QPT_RAW_PACKET};
	struct ibv_wc wc;

	if (urxe_raw_check_permission()) {
		ibv_destroy_cq(cq);
		return NULL;
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_qp *qp = ibv_create_qp(s->pd, &ia);
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
		struct ibv_sge sge = {(uintptr_t)s->buf + 0x2000, 2000, s->mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
		struct ibv_flow *f;

		ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT);
		a.qp_state = IBV_QPS_RTR;
		ibv_modify_qp(qp, &a, IBV_QP_STATE);
		for (unsigned j = 0; j < 16; j++)
			ibv_post_recv(qp, &wr, &bad);
		f = ibv_create_flow(qp, &attr);
		for (unsigned j = 0; j < 200; j++)
			ibv_poll_cq(cq, 1, &wc);
		if (f)
			ibv_destroy_flow(f);
		ibv_destroy_qp(qp);
	}
	ibv_destroy_cq(cq);
	return NULL;
}

static void *domains(void *arg)
{
	struct side *s = &pair.b;
	struct ibv_cq *cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0);

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_xrcd_init_attr xa = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
							     IBV_XRCD_INIT_ATTR_OFLAGS,
						.fd = -1,
						.oflags = O_CREAT};
		struct ibv_xrcd *x = ibv_open_xrcd(s->ctx, &xa);
		struct ibv_srq_init_attr_ex sa = {
			.attr = {.max_wr = 4, .max_sge = 1},
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
				     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
			.srq_type = IBV_SRQT_XRC,
			.pd = s->pd,
			.xrcd = x,
			.cq = cq};
		struct ibv_srq *srq = ibv_create_srq_ex(s->ctx, &sa);
		struct ibv_qp_init_attr_ex qa = {
			.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = x};
		struct ibv_qp *qp = ibv_create_qp_ex(s->ctx, &qa), *again;
		struct ibv_qp_open_attr oa = {.comp_mask = IBV_QP_OPEN_ATTR_NUM |
							   IBV_QP_OPEN_ATTR_XRCD |
							   IBV_QP_OPEN_ATTR_TYPE,
					      .qp_num = qp->qp_num,
					      .xrcd = x,
					      .qp_type = IBV_QPT_XRC_RECV};

		again = ibv_open_qp(s->ctx, &oa);
		ibv_destroy_qp(qp);
		ibv_destroy_qp(again);
		ibv_destroy_srq(srq);
		if (ibv_close_xrcd(x))
			break;
	}
	ibv_destroy_cq(cq);
	return NULL;
}

static void test_churn(void)
{
	void *(*const mains[])(void *) = {sender, member, member, sniffer, domains};
	pthread_t t[5];

	pair_open(&pair, &params, IBV_QPT_UD);
	for (unsigned i = 0; i < 5; i++)
		pthread_create(&t[i], NULL, mains[i], NULL);
	for (unsigned i = 1; i < 5; i++)
		pthread_join(t[i], NULL);
	atomic_store(&stop, true);
	pthread_join(t[0], NULL);
	CU_ASSERT(atomic_load(&copies) > 0);
	CU_ASSERT_EQUAL(pair.b.dev->num_mcast, 0);
	CU_ASSERT_EQUAL(pair.b.dev->num_flows, 0);
	pair_close(&pair);
}

URXE_TEST_MAIN("churn", T(test_churn))
