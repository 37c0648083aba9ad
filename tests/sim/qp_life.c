/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Lives of queue pairs and what hangs on them: errors and flushes, draining, events, reset and
 * return, shared receive queues, completion queues.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "forge.h"
#include "progress.h"

#define MS 1000000ull

static const struct pair_params plain = {.seed = 11, .link = {.latency = 1000}};

static bool wc_is(struct pair *p, struct side *s, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	bool got = pair_wait(p, s->cq, &wc);

	if (got && (wc.wr_id != id || wc.status != status))
		printf("\n    wr %llu: %s\n", (unsigned long long)wc.wr_id,
		       ibv_wc_status_str(wc.status));
	return got && wc.wr_id == id && wc.status == status && wc.qp_num == s->qp->qp_num;
}

static int write_to(struct pair *p, uint64_t id, uint32_t len, unsigned flags)
{
	return pair_post(&p->a, IBV_WR_RDMA_WRITE, id, 0, len, &p->b, 0, flags);
}

static void silence(struct side *s, double loss)
{
	struct urxe_sim_params deaf = {.latency = 1000, .loss = loss};

	urxe_sim_end_params(s->end, &deaf);
}

/* ---- error and flush ---- */

static void test_flush_order(void)
{
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	silence(&p.b, 1);
	for (unsigned i = 0; i < 5; i++) {
		/* Flushed ones are all reported, signalled or not. */
		write_to(&p, i, 100, i & 1 ? IBV_SEND_SIGNALED : 0);
		pair_recv(&p.a, 100 + i, 0, 100);
	}
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_ERR), 0);
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT(wc_is(&p, &p.a, i, IBV_WC_WR_FLUSH_ERR));
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT(wc_is(&p, &p.a, 100 + i, IBV_WC_WR_FLUSH_ERR));
	/* What is posted now is flushed at once. */
	CU_ASSERT_EQUAL(write_to(&p, 7, 100, 0), 0);
	CU_ASSERT_EQUAL(pair_recv(&p.a, 8, 0, 100), 0);
	CU_ASSERT(wc_is(&p, &p.a, 7, IBV_WC_WR_FLUSH_ERR));
	CU_ASSERT(wc_is(&p, &p.a, 8, IBV_WC_WR_FLUSH_ERR));
	CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 0);
	/* By request: no event. */
	CU_ASSERT_EQUAL(pair_event(&p.a), -1);
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_ERR), 0);
	pair_close(&p);
}

static void test_post_in_early_states(void)
{
	struct ibv_qp *old;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	old = p.a.qp;
	p.a.qp = pair_qp(&p.a, &plain, IBV_QPT_RC);
	CU_ASSERT_EQUAL(write_to(&p, 1, 8, 0), EINVAL);
	CU_ASSERT_EQUAL(pair_recv(&p.a, 1, 0, 8), EINVAL);
	ibv_destroy_qp(p.a.qp);
	p.a.qp = old;
	pair_close(&p);
}

static void test_local_errors(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD,
						 IBV_WR_ATOMIC_CMP_AND_SWP};
	struct pair p;

	/* A bad lkey: what was before it is done, what is behind it is flushed. */
	for (unsigned i = 0; i < 5; i++) {
		pair_open(&p, &plain, IBV_QPT_RC);
		sge = (struct ibv_sge){(uintptr_t)p.a.buf, 8, p.a.mr->lkey ^ 3};
		wr.opcode = ops[i];
		wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf + 64;
		wr.wr.rdma.rkey = p.b.mr->rkey;
		if (i > 2) {
			wr.wr.atomic.remote_addr = (uintptr_t)p.b.buf + 64;
			wr.wr.atomic.rkey = p.b.mr->rkey;
		}
		pair_recv(&p.b, 9, 0, 100);
		CU_ASSERT_EQUAL(write_to(&p, 1, 3000, IBV_SEND_SIGNALED), 0);
		CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
		CU_ASSERT_EQUAL(write_to(&p, 3, 8, IBV_SEND_SIGNALED), 0);
		CU_ASSERT(wc_is(&p, &p.a, 1, IBV_WC_SUCCESS));
		CU_ASSERT(wc_is(&p, &p.a, 2, IBV_WC_LOC_PROT_ERR));
		CU_ASSERT(wc_is(&p, &p.a, 3, IBV_WC_WR_FLUSH_ERR));
		CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_ERR);
		pair_close(&p);
	}
}

static void test_dereg_under_write(void)
{
	struct pair_params pp = {.seed = 1, .link = {.latency = 1000, .tx_room = 2}};
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE},
			   *bad;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	mr = ibv_reg_mr(p.a.pd, p.a.buf, PAIR_BUF, 0);
	sge = (struct ibv_sge){(uintptr_t)p.a.buf, PAIR_BUF, mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf;
	wr.wr.rdma.rkey = p.b.mr->rkey;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	for (int i = 0; i < 30; i++)
		pair_step(&p);
	ibv_dereg_mr(mr);
	CU_ASSERT(wc_is(&p, &p.a, 2, IBV_WC_LOC_PROT_ERR));
	pair_close(&p);
}

/* READs and ATOMICs where none were agreed on fail; they do not wait for ever. */
static void test_no_rd_atomic(void)
{
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	to_urxe_qp(p.a.qp)->attr.max_rd_atomic = 0;
	write_to(&p, 1, 8, IBV_SEND_SIGNALED);
	pair_post(&p.a, IBV_WR_RDMA_READ, 2, 0, 8, &p.b, 0, IBV_SEND_SIGNALED);
	CU_ASSERT(wc_is(&p, &p.a, 1, IBV_WC_SUCCESS));
	CU_ASSERT(wc_is(&p, &p.a, 2, IBV_WC_LOC_QP_OP_ERR));
	pair_close(&p);
}

/* ---- ERR, RESET and up again, with what ibv_query_qp told ---- */

static void up_again(struct ibv_qp *qp, struct ibv_qp_attr *a, uint32_t psn)
{
	a->qp_state = IBV_QPS_INIT;
	CU_ASSERT_EQUAL(
		ibv_modify_qp(qp, a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	a->qp_state = IBV_QPS_RTR;
	a->rq_psn = psn;
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, a,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER),
			0);
	a->qp_state = IBV_QPS_RTS;
	a->sq_psn = psn;
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, a,
				      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					      IBV_QP_MAX_QP_RD_ATOMIC),
			0);
}

static void test_reset_and_return(void)
{
	struct ibv_qp_attr qa, qb;
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	for (uint32_t round = 0; round < 5; round++) {
		ibv_query_qp(p.a.qp, &qa, 0xffff, &init);
		ibv_query_qp(p.b.qp, &qb, 0xffff, &init);
		/* in the middle of things */
		silence(&p.b, 1);
		write_to(&p, 1, 5000, IBV_SEND_SIGNALED);
		pair_post(&p.a, IBV_WR_RDMA_READ, 2, 0, 9000, &p.b, 0, IBV_SEND_SIGNALED);
		pair_post(&p.a, IBV_WR_SEND, 3, 0, 3000, &p.b, 0, IBV_SEND_SIGNALED);
		pair_recv(&p.b, 4, 0, 4096);
		pair_settle(&p, 100000);
		if (round & 1)
			CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_ERR), 0);
		CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_RESET), 0);
		CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_ERR), 0);
		CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_RESET), 0);
		/* Completions go with the reset. */
		CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 0);
		CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);
		silence(&p.b, 0);
		up_again(p.a.qp, &qa, 0x100 * round);
		up_again(p.b.qp, &qb, 0x100 * round);
		memset(p.a.buf, (int)round + 1, 5000);
		write_to(&p, 10, 5000, IBV_SEND_SIGNALED);
		CU_ASSERT(wc_is(&p, &p.a, 10, IBV_WC_SUCCESS));
		CU_ASSERT(!memcmp(p.a.buf, p.b.buf, 5000));
		pair_post(&p.a, IBV_WR_RDMA_READ, 11, 0, 9000, &p.b, 0, IBV_SEND_SIGNALED);
		CU_ASSERT(wc_is(&p, &p.a, 11, IBV_WC_SUCCESS));
	}
	pair_close(&p);
}

/* A retransmission timer that fires for a QP that is gone, reset, or gone and created anew. */
static void test_timer_against_destroy(void)
{
	struct pair_params pp = plain;
	struct pair p;

	pp.timeout = 8;
	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned i = 0; i < 50; i++) {
		silence(&p.b, 1);
		write_to(&p, i, 9000, IBV_SEND_SIGNALED);
		pair_settle(&p, i * 100000);
		CU_ASSERT_EQUAL(ibv_destroy_qp(p.a.qp), 0);
		CU_ASSERT_EQUAL(ibv_destroy_qp(p.b.qp), 0);
		silence(&p.b, 0);
		p.a.qp = pair_qp(&p.a, &pp, IBV_QPT_RC);
		p.b.qp = pair_qp(&p.b, &pp, IBV_QPT_RC);
		pair_connect(&p, &p.a, p.a.qp, &p.b, p.b.qp, &pp);
		write_to(&p, 1000 + i, 9000, IBV_SEND_SIGNALED);
		CU_ASSERT(wc_is(&p, &p.a, 1000 + i, IBV_WC_SUCCESS));
	}
	pair_close(&p);
}

static void test_destroy_with_work(void)
{
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	write_to(&p, 1, 8, IBV_SEND_SIGNALED);
	pair_settle(&p, MS);
	silence(&p.b, 1);
	for (unsigned i = 0; i < 10; i++)
		write_to(&p, i, 50000, IBV_SEND_SIGNALED);
	pair_recv(&p.a, 1, 0, 8);
	CU_ASSERT_EQUAL(ibv_destroy_qp(p.a.qp), 0);
	p.a.qp = NULL;
	/* What was done before is told; of the rest nothing. */
	CU_ASSERT(ibv_poll_cq(p.a.cq, 1, &wc) == 1 && wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 0);
	pair_close(&p);
}

/* ---- draining ---- */

static int to_sqd(struct ibv_qp *qp, bool notify)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify};

	return ibv_modify_qp(qp, &a, IBV_QP_STATE | (notify ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
}

static void test_drain(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	write_to(&p, 1, 9000, IBV_SEND_SIGNALED);
	pair_post(&p.a, IBV_WR_RDMA_READ, 2, 0, 9000, &p.b, 0, IBV_SEND_SIGNALED);
	CU_ASSERT_EQUAL(to_sqd(p.a.qp, true), 0);
	write_to(&p, 3, 8, IBV_SEND_SIGNALED);
	ibv_query_qp(p.a.qp, &attr, 0xffff, &init);
	CU_ASSERT(attr.qp_state == IBV_QPS_SQD && attr.sq_draining);
	CU_ASSERT_EQUAL(pair_event(&p.a), -1);
	CU_ASSERT(wc_is(&p, &p.a, 1, IBV_WC_SUCCESS));
	CU_ASSERT(wc_is(&p, &p.a, 2, IBV_WC_SUCCESS));
	CU_ASSERT_EQUAL(pair_event(&p.a), IBV_EVENT_SQ_DRAINED);
	ibv_query_qp(p.a.qp, &attr, 0xffff, &init);
	CU_ASSERT(!attr.sq_draining);
	CU_ASSERT(pair_no_wc(&p, &p.a, 1000 * MS));
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_RTS), 0);
	CU_ASSERT(wc_is(&p, &p.a, 3, IBV_WC_SUCCESS));
	/* Idle: drained at once. Without the wish for it: no event. */
	CU_ASSERT_EQUAL(to_sqd(p.a.qp, true), 0);
	CU_ASSERT_EQUAL(pair_event(&p.a), IBV_EVENT_SQ_DRAINED);
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_RTS), 0);
	CU_ASSERT_EQUAL(to_sqd(p.a.qp, false), 0);
	CU_ASSERT_EQUAL(pair_event(&p.a), -1);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 0);
	/* Nor when it had something to finish. */
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_RTS), 0);
	write_to(&p, 4, 9000, IBV_SEND_SIGNALED);
	CU_ASSERT_EQUAL(to_sqd(p.a.qp, false), 0);
	CU_ASSERT(wc_is(&p, &p.a, 4, IBV_WC_SUCCESS));
	CU_ASSERT_EQUAL(pair_event(&p.a), -1);
	/* The responder goes on meanwhile. */
	CU_ASSERT_EQUAL(pair_post(&p.b, IBV_WR_RDMA_READ, 5, 0, 5000, &p.a, 0, IBV_SEND_SIGNALED),
			0);
	CU_ASSERT(wc_is(&p, &p.b, 5, IBV_WC_SUCCESS));
	pair_close(&p);
}

/* max_dest_rd_atomic changes while the responder works. */
static void test_change_dest_rd_atomic(void)
{
	struct pair_params pp = {.seed = 2, .link = {.latency = 1000, .tx_room = 1}};
	struct ibv_qp_attr attr = {0};
	struct pair p;

	for (uint8_t n = 0; n < 3; n++) {
		pair_open(&p, &pp, IBV_QPT_RC);
		for (unsigned i = 0; i < 3; i++)
			pair_post(&p.a, IBV_WR_RDMA_READ, i, 0, 200000, &p.b, 0, IBV_SEND_SIGNALED);
		for (unsigned i = 0; i < 40; i++)
			pair_step(&p);
		CU_ASSERT_EQUAL(to_sqd(p.b.qp, false), 0);
		attr.max_dest_rd_atomic = n == 0 ? 3 : n == 1 ? 16 : 128;
		CU_ASSERT_EQUAL(ibv_modify_qp(p.b.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC), 0);
		for (unsigned i = 0; i < 3; i++)
			CU_ASSERT(wc_is(&p, &p.a, i, IBV_WC_SUCCESS));
		pair_close(&p);
	}
}

/* ---- events ---- */

/* b back to RTR, as it is between REP and RTU; a's next PSN is @psn. */
static void back_to_rtr(struct pair *p, uint32_t psn)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	ibv_query_qp(p->b.qp, &attr, 0xffff, &init);
	pair_modify(p->b.qp, IBV_QPS_RESET);
	attr.qp_state = IBV_QPS_INIT;
	ibv_modify_qp(p->b.qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	attr.rq_psn = psn;
	CU_ASSERT_EQUAL(ibv_modify_qp(p->b.qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER),
			0);
}

/* Once in each life of the QP. */
static void test_comm_est(void)
{
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	for (unsigned i = 0; i < 2; i++) {
		back_to_rtr(&p, to_urxe_qp(p.a.qp)->req.next_psn);
		CU_ASSERT_EQUAL(pair_event(&p.b), -1);
		write_to(&p, 1, 8, IBV_SEND_SIGNALED);
		write_to(&p, 2, 8, IBV_SEND_SIGNALED);
		CU_ASSERT(wc_is(&p, &p.a, 1, IBV_WC_SUCCESS));
		CU_ASSERT(wc_is(&p, &p.a, 2, IBV_WC_SUCCESS));
		CU_ASSERT_EQUAL(pair_event(&p.b), IBV_EVENT_COMM_EST);
		CU_ASSERT_EQUAL(pair_event(&p.b), -1);
	}
	pair_close(&p);
}

/* Nobody reads the events: objects can go all the same. */
static void test_unread_events(void)
{
	struct pair p;
	struct raw_pkt k = {.opcode = RC(SEND_MIDDLE), .psn = 0xffffe0, .len = 1024};

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	raw_send(&p.a, &p.b, &k);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_ERR);
	pair_close(&p);
}

/* ---- shared receive queues ---- */

static struct ibv_qp *srq_qp(struct side *s, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr ia = {.send_cq = s->cq,
				      .recv_cq = s->cq,
				      .srq = srq,
				      .cap = {.max_send_wr = 16, .max_send_sge = 1},
				      .qp_type = IBV_QPT_RC};

	return ibv_create_qp(s->pd, &ia);
}

static int srq_post(struct ibv_srq *srq, struct side *s, uint64_t id, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->buf + off, len, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int err = ibv_post_srq_recv(srq, &wr, &bad);

	CU_ASSERT(!err == !bad);
	return err;
}

static void test_srq(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 8, .max_sge = 2}};
	struct ibv_srq_attr at = {0};
	struct ibv_qp *qp[2];
	struct ibv_srq *srq;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	srq = ibv_create_srq(p.b.pd, &sa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(srq);
	CU_ASSERT(sa.attr.max_wr >= 8 && sa.attr.max_sge >= 2);
	ibv_destroy_qp(p.b.qp);
	qp[0] = p.a.qp;
	qp[1] = p.b.qp = srq_qp(&p.b, srq);
	CU_ASSERT_PTR_NOT_NULL_FATAL(qp[1]);
	pair_modify(p.a.qp, IBV_QPS_RESET);
	pair_connect(&p, &p.a, qp[0], &p.b, qp[1], &plain);
	CU_ASSERT_EQUAL(pair_recv(&p.b, 1, 0, 8), EINVAL);

	for (unsigned i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(srq_post(srq, &p.b, i, 0x1000 * i, 100), 0);
	CU_ASSERT_EQUAL(srq_post(srq, &p.b, 9, 0, 8), ENOMEM);
	/* Resize with WQEs in it: not below them, and they stay. */
	at.max_wr = 7;
	CU_ASSERT_EQUAL(ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR), EINVAL);
	at.max_wr = 40000;
	CU_ASSERT_EQUAL(ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR), EINVAL);
	at.max_wr = 100;
	CU_ASSERT_EQUAL(ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR), 0);
	CU_ASSERT_EQUAL(srq_post(srq, &p.b, 8, 0x8000, 100), 0);
	/* The limit: one event when it falls below. */
	at.srq_limit = 101;
	CU_ASSERT_EQUAL(ibv_modify_srq(srq, &at, IBV_SRQ_LIMIT), EINVAL);
	at.srq_limit = 7;
	CU_ASSERT_EQUAL(ibv_modify_srq(srq, &at, IBV_SRQ_LIMIT), 0);
	for (unsigned i = 0; i < 5; i++) {
		pair_post(&p.a, IBV_WR_SEND, i, 0, 100, &p.b, 0, IBV_SEND_SIGNALED);
		CU_ASSERT(wc_is(&p, &p.b, i, IBV_WC_SUCCESS));
		CU_ASSERT(wc_is(&p, &p.a, i, IBV_WC_SUCCESS));
		CU_ASSERT_EQUAL(pair_event(&p.b), i == 2 ? IBV_EVENT_SRQ_LIMIT_REACHED : -1);
	}
	CU_ASSERT_EQUAL(ibv_query_srq(srq, &at), 0);
	CU_ASSERT(at.srq_limit == 0 && at.max_wr == 100);
	/* The QP falls: its last WQE event; the queue's WQEs stay. */
	CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_ERR), 0);
	CU_ASSERT_EQUAL(pair_event(&p.b), IBV_EVENT_QP_LAST_WQE_REACHED);
	CU_ASSERT_EQUAL(pair_event(&p.b), -1);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);
	CU_ASSERT_EQUAL(ibv_destroy_srq(srq), EBUSY);
	CU_ASSERT_EQUAL(ibv_destroy_qp(p.b.qp), 0);
	p.b.qp = NULL;
	CU_ASSERT_EQUAL(ibv_destroy_srq(srq), 0);
	pair_close(&p);
}

/* ---- completion queues ---- */

static void test_cq_resize(void)
{
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	for (unsigned i = 0; i < 50; i++)
		write_to(&p, i, 8, IBV_SEND_SIGNALED);
	pair_settle(&p, MS);
	CU_ASSERT_EQUAL(ibv_resize_cq(p.a.cq, 49), EINVAL);
	CU_ASSERT_EQUAL(ibv_resize_cq(p.a.cq, 0), EINVAL);
	CU_ASSERT_EQUAL(ibv_resize_cq(p.a.cq, 60), 0);
	CU_ASSERT(p.a.cq->cqe >= 60 && p.a.cq->cqe < 200);
	for (unsigned i = 0; i < 20; i++)
		CU_ASSERT(wc_is(&p, &p.a, i, IBV_WC_SUCCESS));
	CU_ASSERT_EQUAL(ibv_resize_cq(p.a.cq, 1000), 0);
	for (unsigned i = 20; i < 50; i++)
		CU_ASSERT(wc_is(&p, &p.a, i, IBV_WC_SUCCESS));
	pair_close(&p);
}

/* The CQ says so, and all QPs that use it fail, those alone (IBTA 11.6.3.2). */
static void test_cq_overrun(void)
{
	struct ibv_qp_init_attr ia = {
		.cap = {.max_send_wr = 100, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp *other, *receiver, *fresh;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	unsigned n = 0;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	other = p.a.qp;
	cq = ibv_create_cq(p.a.ctx, 4, NULL, NULL, 0);
	ia.send_cq = ia.recv_cq = cq;
	p.a.qp = ibv_create_qp(p.a.pd, &ia);
	fresh = ibv_create_qp(p.a.pd, &ia); /* in RESET: nothing happens to it */
	ia.send_cq = p.a.cq;
	receiver = ibv_create_qp(p.a.pd, &ia);
	pair_modify(p.b.qp, IBV_QPS_RESET);
	pair_connect(&p, &p.a, receiver, &p.b, p.b.qp, &plain);
	pair_modify(p.b.qp, IBV_QPS_RESET);
	pair_modify(p.b.qp, IBV_QPS_RESET);
	pair_connect(&p, &p.a, p.a.qp, &p.b, p.b.qp, &plain);
	for (unsigned i = 0; i < 90; i++)
		CU_ASSERT_EQUAL(write_to(&p, i, 8, IBV_SEND_SIGNALED), 0);
	pair_settle(&p, 10 * MS);
	CU_ASSERT_EQUAL(pair_event(&p.a), IBV_EVENT_CQ_ERR);
	CU_ASSERT_EQUAL(pair_event(&p.a), IBV_EVENT_QP_FATAL);
	CU_ASSERT_EQUAL(pair_event(&p.a), IBV_EVENT_QP_FATAL);
	CU_ASSERT_EQUAL(pair_event(&p.a), -1);
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(pair_state(receiver), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(pair_state(other), IBV_QPS_RTS);
	CU_ASSERT_EQUAL(pair_state(fresh), IBV_QPS_RESET);
	/* What is in it is good. */
	while (ibv_poll_cq(cq, 1, &wc) == 1)
		CU_ASSERT_EQUAL(wc.wr_id, n++);
	CU_ASSERT_EQUAL(n, (unsigned)cq->cqe);
	CU_ASSERT_EQUAL(ibv_destroy_cq(cq), EBUSY);
	ibv_destroy_qp(p.a.qp);
	ibv_destroy_qp(receiver);
	ibv_destroy_qp(fresh);
	p.a.qp = other;
	CU_ASSERT_EQUAL(ibv_destroy_cq(cq), 0);
	pair_close(&p);
}

/* Overrun, and gone before anybody's turn. */
static void test_cq_overrun_destroy(void)
{
	struct ibv_qp_init_attr ia = {.cap = {.max_recv_wr = 100}, .qp_type = IBV_QPT_UD};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	cq = ibv_create_cq(p.a.ctx, 4, NULL, NULL, 0);
	ia.send_cq = ia.recv_cq = cq;
	qp = ibv_create_qp(p.a.pd, &ia);
	CU_ASSERT_EQUAL(pair_modify(qp, IBV_QPS_ERR), 0);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(ibv_post_recv(qp, &wr, &bad), 0);
	CU_ASSERT_EQUAL(pair_event(&p.a), IBV_EVENT_CQ_ERR);
	CU_ASSERT_EQUAL(ibv_destroy_qp(qp), 0);
	CU_ASSERT_EQUAL(ibv_destroy_cq(cq), 0);
	pair_settle(&p, 10 * MS);
	CU_ASSERT_EQUAL(pair_event(&p.a), -1);
	pair_close(&p);
}

static unsigned events(struct side *s)
{
	struct ibv_cq *cq;
	unsigned n = 0;
	void *ctx;

	fcntl(s->channel->fd, F_SETFL, O_NONBLOCK);
	while (!ibv_get_cq_event(s->channel, &cq, &ctx)) {
		CU_ASSERT_PTR_EQUAL(cq, s->cq);
		ibv_ack_cq_events(cq, 1);
		n++;
	}
	return n;
}

static void send_one(struct pair *p, uint64_t id, unsigned flags)
{
	pair_recv(&p->b, id, 0, 100);
	CU_ASSERT_EQUAL(
		pair_post(&p->a, IBV_WR_SEND, id, 0, 10, &p->b, 0, flags | IBV_SEND_SIGNALED), 0);
	pair_settle(p, MS);
}

static void test_notify(void)
{
	struct pair_params pp = plain;
	struct ibv_wc wc;
	struct pair p;

	pp.channel = true;
	pair_open(&p, &pp, IBV_QPT_RC);
	send_one(&p, 1, 0);
	CU_ASSERT_EQUAL(events(&p.b), 0);
	/* One event a request, for what comes after it. */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
	CU_ASSERT_EQUAL(events(&p.b), 0);
	send_one(&p, 2, 0);
	send_one(&p, 3, 0);
	CU_ASSERT_EQUAL(events(&p.b), 1);
	/* Solicited ones only, for the receiver ... */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 1), 0);
	send_one(&p, 4, 0);
	CU_ASSERT_EQUAL(events(&p.b), 0);
	send_one(&p, 5, IBV_SEND_SOLICITED);
	CU_ASSERT_EQUAL(events(&p.b), 1);
	/* ... and what was sent well is never one (IBTA 11.4.2.2) */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 1), 0);
	send_one(&p, 6, IBV_SEND_SOLICITED);
	CU_ASSERT_EQUAL(events(&p.a), 0);
	/* The stronger wish stays. */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 1), 0);
	send_one(&p, 7, 0);
	CU_ASSERT_EQUAL(events(&p.b), 1);
	/* An error is always worth an event. */
	while (ibv_poll_cq(p.a.cq, 1, &wc) == 1)
		;
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 1), 0);
	pair_recv(&p.a, 8, 0, 8);
	pair_modify(p.a.qp, IBV_QPS_ERR);
	CU_ASSERT_EQUAL(events(&p.a), 1);
	/* Unread events are no obstacle to destruction. */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
	pair_recv(&p.b, 9, 0, 8);
	pair_modify(p.b.qp, IBV_QPS_ERR);
	pair_close(&p);
}

/* The link takes nothing and everybody wants to send: a turn does not try each of them. */
static void test_full_link(void)
{
	enum {
		N = 300
	};
	struct urxe_sim_params stalled = {.latency = 1000, .tx_stall = true};
	struct ibv_qp *qa[N], *qb[N];
	struct ibv_wc wc;
	struct pair p;
	uint64_t before;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned i = 0; i < N; i++) {
		qa[i] = pair_qp(&p.a, &plain, IBV_QPT_RC);
		qb[i] = pair_qp(&p.b, &plain, IBV_QPT_RC);
		pair_connect(&p, &p.a, qa[i], &p.b, qb[i], &plain);
	}
	urxe_sim_end_params(p.a.end, &stalled);
	for (unsigned i = 0; i < N; i++) {
		struct side one = p.a;

		one.qp = qa[i];
		CU_ASSERT_EQUAL(
			pair_post(&one, IBV_WR_RDMA_WRITE, i, 0, 8, &p.b, 8 * i, IBV_SEND_SIGNALED),
			0);
	}
	CU_ASSERT(atomic_load(&p.a.dev->sched.npending) > 200);
	for (unsigned i = 0; i < 10; i++) {
		before = pair_counter(&p.a, "tx_backlog_full");
		urxe_progress_turn(p.a.dev);
		CU_ASSERT(pair_counter(&p.a, "tx_backlog_full") - before < 50);
	}
	urxe_sim_end_params(p.a.end, &plain.link);
	for (unsigned i = 0; i < N; i++)
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	for (unsigned i = 0; i < N; i++) {
		ibv_destroy_qp(qa[i]);
		ibv_destroy_qp(qb[i]);
	}
	pair_close(&p);
}

URXE_TEST_MAIN("qp_life", T(test_flush_order), T(test_post_in_early_states), T(test_local_errors),
	       T(test_dereg_under_write), T(test_no_rd_atomic), T(test_reset_and_return),
	       T(test_timer_against_destroy), T(test_destroy_with_work), T(test_drain),
	       T(test_change_dest_rd_atomic), T(test_comm_est), T(test_unread_events), T(test_srq),
	       T(test_cq_resize), T(test_cq_overrun), T(test_full_link), T(test_cq_overrun_destroy),
	       T(test_notify))
