/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ports of several lanes, between which nothing keeps an order: all that a queue pair sends goes by
 * one of them, so that no packet overtakes another one.
 */
#include "harness.h"
#include "pair.h"

#define LANES 4
#define QPS   8
#define ROUND 24
#define LEN   5000 /* bytes, of several packets */

static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

static void in_order(struct side *s)
{
	CU_ASSERT_EQUAL(pair_stat(s, URXE_STAT_RX_EARLY), 0);
	CU_ASSERT_EQUAL(pair_stat(s, URXE_STAT_RX_OUT_OF_SEQUENCE), 0);
	CU_ASSERT_EQUAL(pair_stat(s, URXE_STAT_TX_NAK_SEQ), 0);
}

/* Some of all that there is on @qa and @qb, which are the sides' own meanwhile. */
static void exchange(struct pair *p, struct ibv_qp *qa, struct ibv_qp *qb, unsigned seed)
{
	unsigned recvs = 0, done = 0;
	struct ibv_wc wc;

	p->a.qp = qa;
	p->b.qp = qb;
	for (unsigned i = 0; i < ROUND; i++) {
		enum ibv_wr_opcode op = ops[(i + seed) % 3];

		if (op == IBV_WR_SEND) {
			CU_ASSERT_EQUAL(pair_recv(&p->b, i, 0, LEN), 0);
			recvs++;
		}
		CU_ASSERT_EQUAL(pair_post(&p->a, op, i, 0, i % 2 ? LEN : 64, &p->b, 0x10000,
					  IBV_SEND_SIGNALED),
				0);
		if (i % 4 == 3)
			pair_step(p);
	}
	for (; done < ROUND && pair_wait(p, p->a.cq, &wc); done++)
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(done, ROUND);
	while (recvs && pair_wait(p, p->b.cq, &wc))
		recvs--;
	CU_ASSERT_EQUAL(recvs, 0);
}

static void test_order(void)
{
	const struct pair_params pp = {.seed = 11,
				       .link = {.latency = 1000, .lanes = LANES, .paired = true}};
	struct ibv_qp *qp[QPS][2];
	unsigned used = 0;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	qp[0][0] = p.a.qp;
	qp[0][1] = p.b.qp;
	for (unsigned i = 0; i < QPS; i++) {
		if (i) {
			qp[i][0] = pair_qp(&p.a, &pp, IBV_QPT_RC);
			qp[i][1] = pair_qp(&p.b, &pp, IBV_QPT_RC);
			pair_connect(&p, &p.a, qp[i][0], &p.b, qp[i][1], &pp);
		}
		/* Answers go the way that requests have come. */
		CU_ASSERT_EQUAL(to_urxe_qp(qp[i][0])->lane, to_urxe_qp(qp[i][1])->lane);
		used |= 1u << to_urxe_qp(qp[i][0])->lane;
		exchange(&p, qp[i][0], qp[i][1], i);
	}
	CU_ASSERT(used & (used - 1)); /* more than one */
	in_order(&p.a);
	in_order(&p.b);
	p.a.qp = qp[0][0];
	p.b.qp = qp[0][1];
	for (unsigned i = 1; i < QPS; i++) {
		CU_ASSERT_EQUAL(ibv_destroy_qp(qp[i][0]), 0);
		CU_ASSERT_EQUAL(ibv_destroy_qp(qp[i][1]), 0);
	}
	pair_close(&p);
}

/* From any state, with this label: so the flow is, and by it the lane, another one. */
static void to_rtr(struct pair *p, uint32_t flow_label)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	CU_ASSERT_EQUAL(pair_modify(p->a.qp, IBV_QPS_RESET), 0);
	CU_ASSERT_EQUAL(
		ibv_modify_qp(p->a.qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	a.qp_state = IBV_QPS_RTR;
	a.ah_attr = pair_path(&p->a, &p->b);
	a.ah_attr.grh.flow_label = flow_label;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = p->b.qp->qp_num;
	CU_ASSERT_EQUAL(ibv_modify_qp(p->a.qp, &a,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER),
			0);
}

/* A QP that waits for its lane when it is reset, and has another lane the next time. */
static void test_reset_while_pending(void)
{
	const struct pair_params pp = {.seed = 11,
				       .link = {.latency = 1000, .lanes = LANES, .paired = true}};
	struct urxe_sim_params full = pp.link;
	struct urxe_qp *q;
	struct pair p;
	unsigned lane;

	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	q = to_urxe_qp(p.a.qp);
	lane = q->lane;
	full.tx_stall = true;
	urxe_sim_end_params(p.a.end, &full);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, i, 0, LEN, &p.b, 0x10000,
					  IBV_SEND_SIGNALED),
				0);
	CU_ASSERT(q->pending);
	for (uint32_t label = 1; q->lane == lane && label < 100; label++)
		to_rtr(&p, label);
	CU_ASSERT(q->lane != lane);
	CU_ASSERT_EQUAL(ibv_destroy_qp(p.a.qp), 0);
	for (unsigned i = 0; i < LANES; i++)
		CU_ASSERT_EQUAL(atomic_load(&p.a.dev->sched.lanes[i].n), 0);
	urxe_sim_end_params(p.a.end, &pp.link);
	p.a.qp = pair_qp(&p.a, &pp, IBV_QPT_RC);
	pair_close(&p);
}

URXE_TEST_MAIN("lanes", T(test_order), T(test_reset_while_pending))
