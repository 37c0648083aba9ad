/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The RC responder against hand-made requests that come again (IBTA 9.7.5.1.4 and 5.).
 */
#include "responder_rig.h"

#include <string.h>

#include "progress.h"

static void test_duplicate_send_write(void)
{
	struct ibv_wc wc;
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	pair_recv(&r.p.b, 1, 0x1000, 64);
	pair_recv(&r.p.b, 2, 0x2000, 64);
	put(&r, req(RC(SEND_ONLY), 8));
	put(&r, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	memset(r.p.b.buf, 0, PAIR_BUF);
	put_at(&r, psn, req(RC(SEND_ONLY), 8));
	CU_ASSERT(answered(&r, OK_AETH, psn, 2));
	put_at(&r, psn + 1, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(answered(&r, OK_AETH, psn + 1, 2));
	CU_ASSERT_EQUAL(r.log.n, 4);
	CU_ASSERT_EQUAL(r.p.b.buf[0], 0);
	CU_ASSERT_EQUAL(r.p.b.buf[0x2000], 0);
	CU_ASSERT(poll1(&r.p.b, &wc) == 1 && wc.wr_id == 1);
	CU_ASSERT_EQUAL(poll1(&r.p.b, &wc), 0);
	rig_close(&r);
}

/* Into the receive queue, for a turn to come. */
static void put_frame(struct rig *r, uint32_t psn, struct raw_pkt k)
{
	uint8_t f[2048];

	k.psn = psn;
	urxe_sim_put(r->p.b.end, f, raw_frame(&r->p.a, &r->p.b, &k, f));
}

/* Packets @from to @to of a WRITE of four, in one burst; the first PSN is @psn. */
static void burst(struct rig *r, uint32_t psn, uint32_t from, uint32_t to)
{
	static const uint8_t ops[] = {RC(WRITE_FIRST), RC(WRITE_MIDDLE), RC(WRITE_MIDDLE),
				      RC(WRITE_LAST)};

	for (uint32_t i = from; i <= to; i++) {
		struct raw_pkt k = rdma(r, ops[i], 0, 4096, 1024);

		k.ackreq = i == 3;
		put_frame(r, psn + i, k);
	}
	for (int i = 0; i < 3; i++)
		urxe_progress_turn(r->p.b.dev);
}

/*
 * provider/quirks.md, ack-in-resend: a message that is sent again is acknowledged as far as it has
 * come again, once a burst; never beyond, but for what was not acknowledged before.
 */
static void test_duplicate_burst(void)
{
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	burst(&r, psn, 0, 3);
	put_at(&r, psn + 4, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(r.log.n == 2 && answered(&r, OK_AETH, psn + 4, 2));
	burst(&r, psn, 0, 0);
	CU_ASSERT(r.log.n == 3 && answered(&r, OK_AETH, psn, 2));
	burst(&r, psn, 1, 2);
	CU_ASSERT(r.log.n == 4 && answered(&r, OK_AETH, psn + 2, 2));
	burst(&r, psn, 3, 3);
	CU_ASSERT(r.log.n == 5 && answered(&r, OK_AETH, psn + 3, 2));
	/* Out of order, and with the new request that the burst brings before or behind it. */
	put_frame(&r, psn + 2, rdma(&r, RC(WRITE_MIDDLE), 0, 4096, 1024));
	burst(&r, psn, 0, 1);
	CU_ASSERT(r.log.n == 6 && answered(&r, OK_AETH, psn + 2, 2));
	put_frame(&r, psn + 5, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	burst(&r, psn, 0, 1);
	CU_ASSERT(r.log.n == 7 && answered(&r, OK_AETH, psn + 5, 3));
	put_frame(&r, psn, rdma(&r, RC(WRITE_FIRST), 0, 4096, 1024));
	put_at(&r, psn + 6, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(r.log.n == 8 && answered(&r, OK_AETH, psn + 6, 4));
	rig_close(&r);
}

/*
 * provider/quirks.md, retry-7: a QP that goes repeats its last ACK, if it is one; of a READ or
 * ATOMIC it would say that the response had come.
 */
static void test_leave(void)
{
	static const struct {
		uint8_t opcode;
		bool ackreq, state;
		unsigned acks;
	} cases[] = {
		{RC(WRITE_ONLY), true, false, 2},   {RC(WRITE_ONLY), true, true, 2},
		{RC(WRITE_ONLY), false, false, 1},  {RC(WRITE_FIRST), true, false, 1},
		{RC(READ_REQUEST), true, false, 0}, {RC(FETCH_ADD), true, false, 0},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct raw_pkt k;
		struct rig r;

		rig_open(&r);
		k = rdma(&r, cases[i].opcode, 0, cases[i].opcode == RC(WRITE_FIRST) ? 2048 : 8,
			 cases[i].opcode == RC(WRITE_FIRST)  ? 1024
			 : cases[i].opcode == RC(WRITE_ONLY) ? 8
							     : 0);
		k.ackreq = cases[i].ackreq;
		put(&r, k);
		if (cases[i].state)
			pair_modify(r.p.b.qp, IBV_QPS_ERR);
		ibv_destroy_qp(r.p.b.qp);
		r.p.b.qp = NULL;
		CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, ACK, OK_AETH), cases[i].acks);
		if (cases[i].acks)
			CU_ASSERT_EQUAL(last(&r)->psn, (r.psn - 1) & URXE_PSN_MASK);
		rig_close(&r);
	}
}

static void test_duplicate_read(void)
{
	const struct raw_seen *s;
	struct raw_pkt k;
	unsigned at, n;
	uint32_t psn;
	struct rig r;

	rig_open(&r);
	psn = r.psn;
	memset(r.p.b.buf, 1, 3000);
	put(&r, rdma(&r, RC(READ_REQUEST), 0, 3000, 0));
	CU_ASSERT_EQUAL(r.log.n, 3);
	/* It reads again: what is there now. */
	memset(r.p.b.buf, 2, 3000);
	put_at(&r, psn, rdma(&r, RC(READ_REQUEST), 0, 3000, 0));
	CU_ASSERT_EQUAL(r.log.n, 6);
	at = 3;
	s = raw_log_find(&r.log, &r.p.b, RC(READ_RESPONSE_FIRST), &at);
	CU_ASSERT(s && s->psn == psn && s->msn == 1 && s->frame[14 + 20 + 8 + 16] == 2);
	/* The rest only: the second packet is a FIRST now. */
	put_at(&r, psn + 1, rdma(&r, RC(READ_REQUEST), 1024, 3000 - 1024, 0));
	CU_ASSERT_EQUAL(r.log.n, 8);
	at = 6;
	s = raw_log_find(&r.log, &r.p.b, RC(READ_RESPONSE_FIRST), &at);
	CU_ASSERT(s && s->psn == ((psn + 1) & URXE_PSN_MASK) && s->payload == 1024);
	s = raw_log_find(&r.log, &r.p.b, RC(READ_RESPONSE_LAST), &at);
	CU_ASSERT(s && s->psn == ((psn + 2) & URXE_PSN_MASK) && s->payload == 3000 - 2048);
	put_at(&r, psn + 2, rdma(&r, RC(READ_REQUEST), 2048, 3000 - 2048, 0));
	CU_ASSERT(last(&r)->opcode == RC(READ_RESPONSE_ONLY) && last(&r)->payload == 952);
	/* A part of it from the beginning: no more than was asked for. */
	n = r.log.n;
	put_at(&r, psn, rdma(&r, RC(READ_REQUEST), 0, 1024, 0));
	CU_ASSERT_EQUAL(r.log.n, n + 1);
	CU_ASSERT(last(&r)->opcode == RC(READ_RESPONSE_ONLY) && last(&r)->psn == psn &&
		  last(&r)->payload == 1024);
	/* More than was asked for, elsewhere, by another key: nothing. */
	n = r.log.n;
	put_at(&r, psn, rdma(&r, RC(READ_REQUEST), 0, 4000, 0));
	put_at(&r, psn, rdma(&r, RC(READ_REQUEST), 8, 3000, 0));
	k = rdma(&r, RC(READ_REQUEST), 0, 3000, 0);
	k.rkey ^= 1;
	put_at(&r, psn, k);
	k = rdma(&r, RC(READ_REQUEST), 0, 3000, 0);
	k.va = (uint64_t)-1000;
	put_at(&r, psn, k);
	CU_ASSERT_EQUAL(r.log.n, n);
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_RTS);
	rig_close(&r);
}

/*
 * A copy of a READ that the network kept, while the peer saw it answered and let the region go: no
 * reason to end the connection.
 */
static void test_duplicate_read_after_dereg(void)
{
	struct ibv_mr *mr;
	struct raw_pkt k;
	struct rig r;
	uint32_t psn;
	unsigned n;

	rig_open(&r);
	psn = r.psn;
	mr = ibv_reg_mr(r.p.b.pd, r.p.b.buf, PAIR_BUF, IBV_ACCESS_REMOTE_READ);
	k = rdma(&r, RC(READ_REQUEST), 0, 3000, 0);
	k.rkey = mr->rkey;
	put(&r, k);
	CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, RC(READ_RESPONSE_LAST), -1), 1);
	ibv_dereg_mr(mr);
	n = r.log.n;
	put_at(&r, psn, k);
	CU_ASSERT_EQUAL(r.log.n, n);
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_RTS);
	/* Nor is it in the way of others. */
	put_at(&r, psn + 3, rdma(&r, RC(READ_REQUEST), 0, 8, 0));
	CU_ASSERT_EQUAL(last(&r)->opcode, RC(READ_RESPONSE_ONLY));
	rig_close(&r);
}

/* A duplicate READ is answered with its own MSN and does not hold up what is new. */
static void test_duplicate_read_then_new(void)
{
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	put(&r, rdma(&r, RC(READ_REQUEST), 0, 8, 0));
	put(&r, rdma(&r, RC(WRITE_ONLY), 64, 8, 8));
	put_at(&r, psn, rdma(&r, RC(READ_REQUEST), 0, 8, 0));
	CU_ASSERT(last(&r)->opcode == RC(READ_RESPONSE_ONLY) && last(&r)->psn == psn);
	put(&r, rdma(&r, RC(WRITE_ONLY), 72, 8, 8));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 3));
	rig_close(&r);
}

static void test_duplicate_atomic(void)
{
	struct rig r;
	uint32_t psn;
	uint64_t v = 41;

	rig_open(&r);
	psn = r.psn;
	memcpy(r.p.b.buf, &v, 8);
	for (int i = 0; i < 3; i++) {
		struct raw_pkt k = good_atomic(&r);

		k.swap_add = 1;
		if (i)
			put_at(&r, psn, k);
		else
			put(&r, k);
		CU_ASSERT(last(&r)->opcode == RC(ATOMIC_ACKNOWLEDGE) && last(&r)->psn == psn);
		CU_ASSERT_EQUAL(urxe_get64(last(&r)->frame + 14 + 20 + 8 + 16), 41);
	}
	memcpy(&v, r.p.b.buf, 8);
	CU_ASSERT_EQUAL(v, 42);
	/* Not in the table any more: no answer, no second execution. */
	for (int i = 0; i < 16; i++)
		put(&r, rdma(&r, RC(READ_REQUEST), 64, 8, 0));
	put_at(&r, psn, good_atomic(&r));
	CU_ASSERT_EQUAL(last(&r)->opcode, RC(READ_RESPONSE_ONLY));
	memcpy(&v, r.p.b.buf, 8);
	CU_ASSERT_EQUAL(v, 42);
	rig_close(&r);
}

static void test_compare_swap(void)
{
	struct rig r;
	struct raw_pkt k;
	uint64_t v = 10;

	rig_open(&r);
	memcpy(r.p.b.buf, &v, 8);
	k = rdma(&r, RC(COMPARE_SWAP), 0, 0, 0);
	k.compare = 9;
	k.swap_add = 77;
	put(&r, k);
	CU_ASSERT_EQUAL(urxe_get64(last(&r)->frame + 14 + 20 + 8 + 16), 10);
	memcpy(&v, r.p.b.buf, 8);
	CU_ASSERT_EQUAL(v, 10);
	k.compare = 10;
	put(&r, k);
	CU_ASSERT_EQUAL(urxe_get64(last(&r)->frame + 14 + 20 + 8 + 16), 10);
	memcpy(&v, r.p.b.buf, 8);
	CU_ASSERT_EQUAL(v, 77);
	rig_close(&r);
}

/* A resource of 2^24 PSNs ago does not stand in the way of one at the same PSN. */
static void test_stale_resource(void)
{
	struct urxe_qp *qp;
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	put(&r, rdma(&r, RC(READ_REQUEST), 0, 8, 0));
	/* All the PSNs of a round, in no time. */
	qp = to_urxe_qp(r.p.b.qp);
	qp->resp.epsn = psn;
	put_at(&r, psn, rdma(&r, RC(READ_REQUEST), 512, 16, 0));
	CU_ASSERT(last(&r)->payload == 16);
	put_at(&r, psn, rdma(&r, RC(READ_REQUEST), 512, 16, 0));
	CU_ASSERT_EQUAL(r.log.n, 3);
	rig_close(&r);
}

URXE_TEST_MAIN("rc_duplicates", T(test_duplicate_send_write), T(test_duplicate_burst),
	       T(test_leave), T(test_duplicate_read), T(test_duplicate_read_after_dereg),
	       T(test_duplicate_read_then_new), T(test_duplicate_atomic), T(test_compare_swap),
	       T(test_stale_resource))
