/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The RC responder against hand-made requests: each rule of IBTA 9.7.4 and 9.7.5, one test. Side
 * b responds; the test sends as side a would, and looks at what b answers, completes and raises.
 */
#include <string.h>

#include "harness.h"
#include "forge.h"
#include "progress.h"

struct rig {
	struct pair p;
	struct raw_log log;
	uint32_t psn; /* the next that b expects */
};

static void rig_open_with(struct rig *r, const struct pair_params *pp)
{
	memset(r, 0, sizeof(*r));
	pair_open(&r->p, pp, IBV_QPT_RC);
	pair_meet(&r->p);
	raw_log_start(&r->log, &r->p);
	r->psn = 0xffffe0;
}

static void rig_open(struct rig *r)
{
	struct pair_params pp = {.seed = 5, .link = {.latency = 1000}};

	rig_open_with(r, &pp);
}

static void rig_close(struct rig *r)
{
	raw_log_stop(&r->log);
	pair_close(&r->p);
}

/* The packet at the expected PSN. */
static void put(struct rig *r, struct raw_pkt k)
{
	k.psn = r->psn;
	r->psn = urxe_psn_add(r->psn, 1);
	raw_send(&r->p.a, &r->p.b, &k);
}

static void put_at(struct rig *r, uint32_t psn, struct raw_pkt k)
{
	k.psn = psn;
	raw_send(&r->p.a, &r->p.b, &k);
}

static struct raw_pkt req(uint8_t opcode, uint32_t len)
{
	return (struct raw_pkt){.opcode = opcode, .len = len, .ackreq = true};
}

static struct raw_pkt rdma(struct rig *r, uint8_t opcode, uint32_t off, uint32_t dmalen,
			   uint32_t len)
{
	struct raw_pkt k = req(opcode, len);

	k.va = (uintptr_t)r->p.b.buf + off;
	k.rkey = r->p.b.mr->rkey;
	k.dmalen = dmalen;
	return k;
}

/* The last answer of b. */
static const struct raw_seen *last(struct rig *r)
{
	static const struct raw_seen none;

	return r->log.n ? &r->log.v[r->log.n - 1] : &none;
}

static bool answered(struct rig *r, uint8_t syndrome, uint32_t psn, uint32_t msn)
{
	const struct raw_seen *s = last(r);
	bool ok = s->from == &r->p.b && s->opcode == ACK && s->syndrome == syndrome &&
		  s->psn == (psn & URXE_PSN_MASK) && s->msn == msn;

	if (!ok)
		printf("\n    last answer: opcode %02x syndrome %02x psn %06x msn %u; "
		       "expected %02x %06x %u\n",
		       s->opcode, s->syndrome, s->psn, s->msn, syndrome, psn & URXE_PSN_MASK, msn);
	return ok;
}

static int poll1(struct side *s, struct ibv_wc *wc)
{
	return ibv_poll_cq(s->cq, 1, wc);
}

/* A NAK at the expected PSN, an event, the QP in error; nothing more answered after that. */
static void check_fatal(struct rig *r, uint8_t syndrome, uint32_t psn, int event)
{
	unsigned n;

	CU_ASSERT(answered(r, syndrome, psn, last(r)->msn));
	CU_ASSERT_EQUAL(pair_state(r->p.b.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(pair_event(&r->p.b), event);
	n = r->log.n;
	put_at(r, psn, rdma(r, RC(WRITE_ONLY), 0, 4, 4));
	put_at(r, psn, req(RC(SEND_ONLY), 4));
	CU_ASSERT_EQUAL(r->log.n, n);
	CU_ASSERT_EQUAL(r->p.b.buf[0], 0);
}

/* One bad first packet, the NAK for it, and no byte written. */
static void expect_fatal(struct raw_pkt (*make)(struct rig *), uint8_t syndrome, int event)
{
	struct rig r;

	rig_open(&r);
	put(&r, make(&r));
	check_fatal(&r, syndrome, r.psn - 1, event);
	for (uint32_t i = 0; i < PAIR_BUF; i++) {
		if (r.p.b.buf[i]) {
			CU_FAIL("bytes were written");
			break;
		}
	}
	rig_close(&r);
}

/* ---- sequence ---- */

static void test_one_nak_a_gap(void)
{
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	put_at(&r, psn + 2, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	put_at(&r, psn + 3, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT_EQUAL(r.log.n, 0); /* it may be late */
	put_at(&r, psn + 5, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(answered(&r, NAK(PSN_SEQ), psn, 0));
	put_at(&r, psn + 1, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT_EQUAL(r.log.n, 1);
	/* The expected one ends it: the peer has gone back there, and is answered no further. */
	put(&r, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(answered(&r, OK_AETH, psn, 1));
	put_at(&r, psn + 1, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(answered(&r, OK_AETH, psn + 1, 2));
	CU_ASSERT_EQUAL(r.log.n, 3);
	/* It goes on with what it has never sent: what is kept is all it will get. */
	put_at(&r, psn + 6, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(r.log.n == 4 && answered(&r, OK_AETH, psn + 3, 4));
	/* And so there is another gap, after a while. */
	pair_settle(&r.p, 1000000);
	CU_ASSERT(answered(&r, NAK(PSN_SEQ), psn + 4, 4));
	CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, ACK, NAK(PSN_SEQ)), 2);
	rig_close(&r);
}

static void test_gap_in_message(void)
{
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	put(&r, rdma(&r, RC(WRITE_FIRST), 0, 2100, 1024));
	put_at(&r, psn + 2, req(RC(WRITE_LAST), 52));
	pair_settle(&r.p, 1000000);
	CU_ASSERT(answered(&r, NAK(PSN_SEQ), psn + 1, 0));
	put(&r, req(RC(WRITE_MIDDLE), 1024));
	put(&r, req(RC(WRITE_LAST), 52));
	CU_ASSERT(answered(&r, OK_AETH, psn + 2, 1));
	CU_ASSERT_EQUAL(r.p.b.buf[2099], 0x5a);
	CU_ASSERT_EQUAL(r.p.b.buf[2100], 0);
	rig_close(&r);
}

/* Half of the PSN space is old, half is new. */
static void test_psn_regions(void)
{
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	put_at(&r, psn + 0x7fffff, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	pair_settle(&r.p, 1000000);
	CU_ASSERT(answered(&r, NAK(PSN_SEQ), psn, 0));
	put(&r, rdma(&r, RC(WRITE_ONLY), 8, 8, 8));
	put_at(&r, psn + 1 - 0x7fffff, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(answered(&r, OK_AETH, psn + 1 - 0x7fffff, 1));
	CU_ASSERT_EQUAL(r.p.b.buf[0], 0);
	rig_close(&r);
}

static void test_ack_coalescing(void)
{
	struct rig r;
	uint8_t f[256];

	rig_open(&r);
	for (uint32_t i = 0; i < 20; i++) {
		struct raw_pkt k = rdma(&r, RC(WRITE_ONLY), 8 * i, 8, 8);

		k.psn = r.psn++;
		urxe_sim_put(r.p.b.end, f, raw_frame(&r.p.a, &r.p.b, &k, f));
	}
	for (int i = 0; i < 3; i++)
		urxe_progress_turn(r.p.b.dev);
	CU_ASSERT_EQUAL(r.log.n, 1);
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 20));
	rig_close(&r);
}

static void test_no_ack_unasked(void)
{
	struct raw_pkt k;
	struct rig r;

	rig_open(&r);
	k = rdma(&r, RC(WRITE_ONLY), 0, 8, 8);
	k.ackreq = false;
	put(&r, k);
	CU_ASSERT_EQUAL(r.log.n, 0);
	CU_ASSERT_EQUAL(r.p.b.buf[0], 0x5a);
	rig_close(&r);
}

static void test_msn(void)
{
	struct rig r;
	unsigned at = 0;
	const struct raw_seen *s;

	rig_open(&r);
	pair_recv(&r.p.b, 1, 0x1000, 4096);
	put(&r, req(RC(SEND_FIRST), 1024));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 0));
	put(&r, req(RC(SEND_LAST), 4));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 1));
	put(&r, rdma(&r, RC(READ_REQUEST), 0, 3000, 0));
	r.psn += 2;
	s = raw_log_find(&r.log, &r.p.b, RC(READ_RESPONSE_FIRST), &at);
	CU_ASSERT(s && s->msn == 2);
	s = raw_log_find(&r.log, &r.p.b, RC(READ_RESPONSE_LAST), &at);
	CU_ASSERT(s && s->msn == 2 && s->psn == ((r.psn - 1) & URXE_PSN_MASK));
	put(&r, rdma(&r, RC(FETCH_ADD), 0, 0, 0));
	s = raw_log_find(&r.log, &r.p.b, RC(ATOMIC_ACKNOWLEDGE), &at);
	CU_ASSERT(s && s->msn == 3);
	put(&r, rdma(&r, RC(WRITE_ONLY), 0, 0, 0));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 4));
	rig_close(&r);
}

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

static struct raw_pkt good_write(struct rig *r)
{
	return rdma(r, RC(WRITE_ONLY), 0, 8, 8);
}
static struct raw_pkt good_read(struct rig *r)
{
	return rdma(r, RC(READ_REQUEST), 0, 8, 0);
}
static struct raw_pkt good_atomic(struct rig *r)
{
	return rdma(r, RC(FETCH_ADD), 0, 0, 0);
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

/* ---- remote operational, RNR ---- */

static void test_receive_into_bad_mr(void)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_mr *ro;
	struct ibv_wc wc;
	struct rig r;

	for (int kind = 0; kind < 3; kind++) {
		rig_open(&r);
		ro = ibv_reg_mr(r.p.b.pd, r.p.b.buf, 4096, 0);
		sge = (struct ibv_sge){(uintptr_t)r.p.b.buf, 4096,
				       kind == 0   ? r.p.b.mr->lkey + 1
				       : kind == 1 ? ro->lkey
						   : r.p.b.mr->lkey};
		if (kind == 2)
			sge.addr = (uintptr_t)r.p.b.buf + PAIR_BUF - 100;
		CU_ASSERT_EQUAL(ibv_post_recv(r.p.b.qp, &wr, &bad), 0);
		put(&r, req(RC(SEND_ONLY), 200));
		check_fatal(&r, NAK(REMOTE_OP), r.psn - 1, IBV_EVENT_QP_FATAL);
		CU_ASSERT(poll1(&r.p.b, &wc) == 1 && wc.wr_id == 9 &&
			  wc.status == IBV_WC_LOC_PROT_ERR);
		ibv_dereg_mr(ro);
		rig_close(&r);
	}
}

static void test_rnr(void)
{
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r);
	put(&r, req(RC(SEND_FIRST), 1024));
	CU_ASSERT(answered(&r, RNR(12), r.psn - 1, 0));
	/* What comes behind it is dropped without a word. */
	put(&r, req(RC(SEND_LAST), 4));
	CU_ASSERT_EQUAL(r.log.n, 1);
	pair_recv(&r.p.b, 3, 0, 4096);
	r.psn -= 2;
	put(&r, req(RC(SEND_FIRST), 1024));
	put(&r, req(RC(SEND_LAST), 4));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 1));
	CU_ASSERT(poll1(&r.p.b, &wc) == 1 && wc.byte_len == 1028);
	rig_close(&r);
}

/* WRITE with immediate: RNR at its last packet; it goes on from there, and nothing twice. */
static void test_rnr_write_imm(void)
{
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r);
	put(&r, rdma(&r, RC(WRITE_FIRST), 0x100, 1030, 1024));
	put(&r, req(RC(WRITE_LAST_IMM), 6));
	CU_ASSERT(answered(&r, RNR(12), r.psn - 1, 0));
	CU_ASSERT_EQUAL(r.p.b.buf[0x100 + 1024], 0);
	pair_recv(&r.p.b, 4, 0, 0);
	r.psn--;
	put(&r, req(RC(WRITE_LAST_IMM), 6));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 1));
	CU_ASSERT(poll1(&r.p.b, &wc) == 1 && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
		  wc.byte_len == 1030 && wc.wc_flags & IBV_WC_WITH_IMM &&
		  wc.imm_data == htobe32(0x01020304));
	CU_ASSERT_EQUAL(r.p.b.buf[0x100 + 1029], 0x5a);
	rig_close(&r);
}

/* ---- duplicates ---- */

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

/* ---- a region that goes while it is read ---- */

static void test_dereg_under_read(void)
{
	struct pair_params pp = {.seed = 5, .link = {.latency = 1000, .tx_room = 1}};
	struct ibv_mr *mr;
	struct raw_pkt k;
	struct rig r;

	rig_open_with(&r, &pp);
	mr = ibv_reg_mr(r.p.b.pd, r.p.b.buf, PAIR_BUF, IBV_ACCESS_REMOTE_READ);
	k = rdma(&r, RC(READ_REQUEST), 0, 900 * 1024, 0);
	k.rkey = mr->rkey;
	put(&r, k);
	CU_ASSERT(r.log.n < 300);
	ibv_dereg_mr(mr);
	for (int i = 0; i < 2000; i++)
		urxe_progress_turn(r.p.b.dev);
	CU_ASSERT_EQUAL(last(&r)->opcode, ACK);
	CU_ASSERT_EQUAL(last(&r)->syndrome, NAK(REMOTE_ACCESS));
	CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, RC(READ_RESPONSE_LAST), -1), 0);
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(pair_event(&r.p.b), IBV_EVENT_QP_ACCESS_ERR);
	rig_close(&r);
}

/* ---- who is heard ---- */

static void test_not_for_us(void)
{
	struct raw_pkt k;
	const struct urxe_peer *peer;
	uint64_t heard;
	struct rig r;

	rig_open(&r);
	peer = to_urxe_qp(r.p.b.qp)->peer;
	heard = atomic_load(&peer->heard);
	k = good_write(&r);
	k.dqpn = r.p.b.qp->qp_num ^ 0x800000;
	put_at(&r, r.psn, k);
	k = good_write(&r);
	k.src_ip = 0x0a000009;
	put_at(&r, r.psn, k);
	k = good_write(&r);
	k.pkey = 0x1234;
	put_at(&r, r.psn, k);
	k = good_write(&r);
	k.tver = 1;
	put_at(&r, r.psn, k);
	k = good_write(&r);
	k.opcode = UC(WRITE_ONLY);
	put_at(&r, r.psn, k);
	CU_ASSERT_EQUAL(r.log.n, 0);
	CU_ASSERT_EQUAL(r.p.b.buf[0], 0);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_NO_QP), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_WRONG_PEER), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_BAD_PKEY), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_BAD_TVER), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_WRONG_TYPE), 1);
	CU_ASSERT_EQUAL(atomic_load(&peer->heard), heard); /* no sign of its life */
	/* A limited member of the partition is one of it. */
	k = good_write(&r);
	k.pkey = 0x7fff;
	put(&r, k);
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 1));
	CU_ASSERT(atomic_load(&peer->heard) > heard);
	rig_close(&r);
}

URXE_TEST_MAIN("rc_responder", T(test_one_nak_a_gap), T(test_gap_in_message), T(test_psn_regions),
	       T(test_ack_coalescing), T(test_no_ack_unasked), T(test_msn), T(test_opcode_sequence),
	       T(test_lengths), T(test_write_lengths), T(test_send_too_long),
	       T(test_too_many_reads), T(test_remote_access), T(test_access_flags),
	       T(test_wrong_pd), T(test_zero_length_any_rkey), T(test_receive_into_bad_mr),
	       T(test_rnr), T(test_rnr_write_imm), T(test_duplicate_send_write),
	       T(test_duplicate_burst), T(test_leave), T(test_duplicate_read),
	       T(test_duplicate_read_after_dereg), T(test_duplicate_read_then_new),
	       T(test_duplicate_atomic), T(test_compare_swap), T(test_stale_resource),
	       T(test_dereg_under_read), T(test_not_for_us))
