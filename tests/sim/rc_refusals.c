/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The RC responder against hand-made requests that are wrong: in their order, their lengths, or
 * what they ask to touch (IBTA 9.7.4, 10.6).
 */
#include "responder_rig.h"

#include <string.h>

#include "progress.h"

/* ---- invalid requests ---- */

static void bad_sequence(uint8_t first, uint32_t first_len, uint8_t then, uint32_t then_len)
{
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r);
	pair_recv(&r.p.b, 7, 0x1000, 8192);
	if (first != 0xff)
		put(&r, rdma(&r, first, 0x8000, 4096, first_len));
	put(&r, rdma(&r, then, 0x8000, then_len, then_len));
	check_fatal(&r, NAK(INVALID_REQ), r.psn - 1, IBV_EVENT_QP_REQ_ERR);
	/* The receive is used up or flushed, but never reported good. */
	CU_ASSERT_EQUAL(poll1(&r.p.b, &wc), 1);
	CU_ASSERT(wc.wr_id == 7 && wc.status != IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(poll1(&r.p.b, &wc), 0);
	rig_close(&r);
}

static void test_opcode_sequence(void)
{
	bad_sequence(0xff, 0, RC(SEND_MIDDLE), 1024);
	bad_sequence(0xff, 0, RC(SEND_LAST), 4);
	bad_sequence(0xff, 0, RC(WRITE_MIDDLE), 1024);
	bad_sequence(0xff, 0, RC(WRITE_LAST_IMM), 4);
	bad_sequence(RC(SEND_FIRST), 1024, RC(SEND_FIRST), 1024);
	bad_sequence(RC(SEND_FIRST), 1024, RC(SEND_ONLY), 4);
	bad_sequence(RC(SEND_FIRST), 1024, RC(WRITE_LAST), 4);
	bad_sequence(RC(SEND_FIRST), 1024, RC(READ_REQUEST), 0);
	bad_sequence(RC(SEND_FIRST), 1024, RC(FETCH_ADD), 0);
	bad_sequence(RC(WRITE_FIRST), 1024, RC(SEND_LAST), 4);
	bad_sequence(RC(WRITE_FIRST), 1024, RC(SEND_MIDDLE), 1024);
	bad_sequence(RC(WRITE_FIRST), 1024, RC(WRITE_FIRST), 1024);
	/* without a placement type; without data */
	bad_sequence(0xff, 0, RC(FLUSH), 0);
	bad_sequence(0xff, 0, RC(ATOMIC_WRITE), 0);
	bad_sequence(0xff, 0, RC(ATOMIC_WRITE), 16);
}

static void test_lengths(void)
{
	/* All packets but the last are full, the last of several is not empty. */
	bad_sequence(0xff, 0, RC(SEND_FIRST), 1020);
	bad_sequence(0xff, 0, RC(SEND_FIRST), 1028);
	bad_sequence(0xff, 0, RC(SEND_ONLY), 1025);
	bad_sequence(RC(SEND_FIRST), 1024, RC(SEND_MIDDLE), 1023);
	bad_sequence(RC(SEND_FIRST), 1024, RC(SEND_LAST), 0);
	bad_sequence(RC(SEND_FIRST), 1024, RC(SEND_LAST), 1025);
	bad_sequence(0xff, 0, RC(WRITE_FIRST), 1000);
	bad_sequence(RC(WRITE_FIRST), 1024, RC(WRITE_LAST), 0);
	/* RETH said 4096 */
	bad_sequence(RC(WRITE_FIRST), 1024, RC(WRITE_LAST), 1024);
}

static struct raw_pkt write_longer(struct rig *r)
{
	return rdma(r, RC(WRITE_ONLY), 16, 8, 12);
}
static struct raw_pkt write_shorter(struct rig *r)
{
	return rdma(r, RC(WRITE_ONLY), 16, 12, 8);
}
static struct raw_pkt write_first_of_one(struct rig *r)
{
	return rdma(r, RC(WRITE_FIRST), 0, 1024, 1024);
}
static struct raw_pkt write_huge(struct rig *r)
{
	return rdma(r, RC(WRITE_FIRST), 0, 0x80000001u, 1024);
}
static struct raw_pkt read_huge(struct rig *r)
{
	return rdma(r, RC(READ_REQUEST), 0, 0xffffffffu, 0);
}
static struct raw_pkt atomic_misaligned(struct rig *r)
{
	return rdma(r, RC(FETCH_ADD), 4, 0, 0);
}

static void test_write_lengths(void)
{
	expect_fatal(write_longer, NAK(INVALID_REQ), IBV_EVENT_QP_REQ_ERR);
	expect_fatal(write_shorter, NAK(INVALID_REQ), IBV_EVENT_QP_REQ_ERR);
	expect_fatal(write_first_of_one, NAK(INVALID_REQ), IBV_EVENT_QP_REQ_ERR);
	expect_fatal(write_huge, NAK(INVALID_REQ), IBV_EVENT_QP_REQ_ERR);
	expect_fatal(read_huge, NAK(INVALID_REQ), IBV_EVENT_QP_REQ_ERR);
	expect_fatal(atomic_misaligned, NAK(INVALID_REQ), IBV_EVENT_QP_REQ_ERR);
}

static void test_send_too_long(void)
{
	struct ibv_wc wc;
	struct rig r;

	for (int in_many = 0; in_many < 2; in_many++) {
		rig_open(&r);
		pair_recv(&r.p.b, 7, 0x1000, in_many ? 1500 : 99);
		pair_recv(&r.p.b, 8, 0x3000, 4096);
		if (in_many)
			put(&r, req(RC(SEND_FIRST), 1024));
		put(&r, req(in_many ? RC(SEND_LAST) : RC(SEND_ONLY), in_many ? 477 : 100));
		check_fatal(&r, NAK(INVALID_REQ), r.psn - 1, IBV_EVENT_QP_REQ_ERR);
		CU_ASSERT(poll1(&r.p.b, &wc) == 1 && wc.wr_id == 7 &&
			  wc.status == IBV_WC_LOC_LEN_ERR);
		CU_ASSERT(poll1(&r.p.b, &wc) == 1 && wc.wr_id == 8 &&
			  wc.status == IBV_WC_WR_FLUSH_ERR);
		CU_ASSERT_EQUAL(r.p.b.buf[0x1000 + (in_many ? 1500 : 99)], 0);
		rig_close(&r);
	}
}

static void test_too_many_reads(void)
{
	struct pair_params pp = {.seed = 5, .rd_atomic = 2, .link = {.latency = 1000}};
	struct urxe_sim_params stall = {.latency = 1000, .tx_stall = true};
	struct rig r;
	uint8_t f[256];

	rig_open_with(&r, &pp);
	/* b cannot answer: three are out where two were agreed on. */
	urxe_sim_end_params(r.p.b.end, &stall);
	for (uint32_t i = 0; i < 3; i++) {
		/* Each more than the link and its queues take. */
		struct raw_pkt k = rdma(&r, RC(READ_REQUEST), 0, 1000 * 1024, 0);

		k.psn = r.psn;
		r.psn = urxe_psn_add(r.psn, 1000);
		urxe_sim_put(r.p.b.end, f, raw_frame(&r.p.a, &r.p.b, &k, f));
	}
	for (int i = 0; i < 50; i++)
		urxe_progress_turn(r.p.b.dev);
	urxe_sim_end_params(r.p.b.end, &pp.link);
	for (int i = 0; i < 200; i++)
		urxe_progress_turn(r.p.b.dev);
	CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, ACK, NAK(INVALID_REQ)), 1);
	CU_ASSERT(answered(&r, NAK(INVALID_REQ), r.psn - 1000, 2));
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_ERR);
	rig_close(&r);
}

/* ---- remote access ---- */

static struct raw_pkt bad_rkey(struct rig *r)
{
	struct raw_pkt k = rdma(r, RC(WRITE_ONLY), 0, 8, 8);

	k.rkey ^= 1;
	return k;
}
static struct raw_pkt no_rkey(struct rig *r)
{
	struct raw_pkt k = rdma(r, RC(WRITE_ONLY), 0, 8, 8);

	k.rkey = 0;
	return k;
}
static struct raw_pkt unknown_rkey(struct rig *r)
{
	struct raw_pkt k = rdma(r, RC(READ_REQUEST), 0, 8, 0);

	k.rkey = 0xffffffff;
	return k;
}
static struct raw_pkt past_end(struct rig *r)
{
	return rdma(r, RC(WRITE_ONLY), PAIR_BUF - 7, 8, 8);
}
static struct raw_pkt past_end_later(struct rig *r)
{
	return rdma(r, RC(WRITE_FIRST), PAIR_BUF - 2000, 2048, 1024);
}
static struct raw_pkt before_start(struct rig *r)
{
	struct raw_pkt k = rdma(r, RC(WRITE_ONLY), 0, 8, 8);

	k.va--;
	return k;
}
static struct raw_pkt read_past_end(struct rig *r)
{
	return rdma(r, RC(READ_REQUEST), PAIR_BUF - 7, 8, 0);
}
static struct raw_pkt atomic_past_end(struct rig *r)
{
	return rdma(r, RC(FETCH_ADD), PAIR_BUF, 0, 0);
}
static struct raw_pkt atomic_bad_rkey(struct rig *r)
{
	struct raw_pkt k = rdma(r, RC(COMPARE_SWAP), 0, 0, 0);

	k.rkey += 0x1000;
	return k;
}
/* va + length wraps 2^64 and would end inside the region. */
static struct raw_pkt wrap_write(struct rig *r)
{
	struct raw_pkt k = rdma(r, RC(WRITE_FIRST), 0, 0x80000000u, 1024);

	k.va = (uint64_t)-1024;
	return k;
}
static struct raw_pkt wrap_read(struct rig *r)
{
	struct raw_pkt k = rdma(r, RC(READ_REQUEST), 0, 0x80000000u, 0);

	k.va = (uint64_t)-8;
	return k;
}
static struct raw_pkt wrap_atomic(struct rig *r)
{
	struct raw_pkt k = rdma(r, RC(FETCH_ADD), 0, 0, 0);

	k.va = (uint64_t)-8;
	return k;
}

static void test_remote_access(void)
{
	static struct raw_pkt (*const bad[])(struct rig *) = {
		bad_rkey,	 no_rkey,      unknown_rkey,  past_end,
		past_end_later,	 before_start, read_past_end, atomic_past_end,
		atomic_bad_rkey, wrap_write,   wrap_read,     wrap_atomic,
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_fatal(bad[i], NAK(REMOTE_ACCESS), IBV_EVENT_QP_ACCESS_ERR);
}

static void no_right(int access, bool on_qp, struct raw_pkt (*make)(struct rig *))
{
	struct pair_params pp = {.seed = 5, .link = {.latency = 1000}};
	struct ibv_mr *mr;
	struct rig r;
	struct raw_pkt k;

	if (on_qp)
		pp.access = access;
	rig_open_with(&r, &pp);
	mr = ibv_reg_mr(r.p.b.pd, r.p.b.buf, PAIR_BUF,
			on_qp ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
			      : access);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
	k = make(&r);
	k.rkey = mr->rkey;
	put(&r, k);
	check_fatal(&r, NAK(REMOTE_ACCESS), r.psn - 1, IBV_EVENT_QP_ACCESS_ERR);
	ibv_dereg_mr(mr);
	rig_close(&r);
}

static void test_access_flags(void)
{
	for (int on_qp = 0; on_qp < 2; on_qp++) {
		no_right(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
			 on_qp, good_write);
		no_right(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				 IBV_ACCESS_REMOTE_ATOMIC,
			 on_qp, good_read);
		no_right(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
			 on_qp, good_atomic);
	}
}

static void test_wrong_pd(void)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct raw_pkt k;
	struct rig r;

	rig_open(&r);
	pd = ibv_alloc_pd(r.p.b.ctx);
	mr = ibv_reg_mr(pd, r.p.b.buf, PAIR_BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	k = good_write(&r);
	k.rkey = mr->rkey;
	put(&r, k);
	check_fatal(&r, NAK(REMOTE_ACCESS), r.psn - 1, IBV_EVENT_QP_ACCESS_ERR);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(pd), EBUSY);
	ibv_dereg_mr(mr);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(pd), 0);
	rig_close(&r);
}

static void test_zero_length_any_rkey(void)
{
	struct raw_pkt k;
	struct rig r;
	unsigned at = 0;

	rig_open(&r);
	k = rdma(&r, RC(WRITE_ONLY), 0, 0, 0);
	k.rkey = 0x12345678;
	k.va = 1;
	put(&r, k);
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 1));
	k.opcode = RC(READ_REQUEST);
	put(&r, k);
	CU_ASSERT_PTR_NOT_NULL(raw_log_find(&r.log, &r.p.b, RC(READ_RESPONSE_ONLY), &at));
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_RTS);
	rig_close(&r);
}

URXE_TEST_MAIN("rc_refusals", T(test_opcode_sequence), T(test_lengths), T(test_write_lengths),
	       T(test_send_too_long), T(test_too_many_reads), T(test_remote_access),
	       T(test_access_flags), T(test_wrong_pd), T(test_zero_length_any_rkey))
