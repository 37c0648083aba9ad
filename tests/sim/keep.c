/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests that come before what is before them: kept, within bounds, and executed in their turn
 * as if they had come then. Side a's packets are made by hand; b responds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forge.h"
#include "harness.h"
#include "pair.h"

#define MS 1000000ull

struct rig {
	struct pair p;
	struct raw_log log;
	uint32_t psn; /* that b expects */
};

static void rig_open(struct rig *r)
{
	struct pair_params pp = {.seed = 7, .min_rnr_timer = 1};

	memset(r, 0, sizeof(*r));
	pair_open(&r->p, &pp, IBV_QPT_RC);
	pair_meet(&r->p);
	r->psn = to_urxe_qp(r->p.b.qp)->resp.epsn;
	raw_log_start(&r->log, &r->p);
}

/* All buffers are back when the QPs are gone. */
static unsigned free_buffers(struct urxe_device *dev)
{
	struct cds_list_head *at;
	unsigned n = 0;

	cds_list_for_each (at, &dev->keep.free)
		n++;
	return n;
}

static void rig_close(struct rig *r)
{
	raw_log_stop(&r->log);
	CU_ASSERT_EQUAL(pair_modify(r->p.b.qp, IBV_QPS_RESET), 0);
	CU_ASSERT_EQUAL(free_buffers(r->p.b.dev), r->p.b.dev->keep.made);
	pair_close(&r->p);
}

static const struct urxe_responder *resp(struct rig *r)
{
	return &to_urxe_qp(r->p.b.qp)->resp;
}

/* One packet, @ahead of what is expected now. */
static void put(struct rig *r, uint32_t ahead, struct raw_pkt k)
{
	k.psn = urxe_psn_add(r->psn, ahead);
	k.ackreq = true;
	raw_send(&r->p.a, &r->p.b, &k);
}

static struct raw_pkt write_to(struct rig *r, uint32_t off, uint32_t len)
{
	return (struct raw_pkt){.opcode = RC(WRITE_ONLY),
				.len = len,
				.va = (uintptr_t)r->p.b.buf + off,
				.rkey = r->p.b.mr->rkey,
				.dmalen = len};
}

static struct raw_pkt add_to(struct rig *r, uint32_t off)
{
	return (struct raw_pkt){.opcode = RC(FETCH_ADD),
				.va = (uintptr_t)r->p.b.buf + off,
				.rkey = r->p.b.mr->rkey,
				.swap_add = 1};
}

static const struct raw_seen *last(struct rig *r)
{
	static const struct raw_seen none;

	return r->log.n ? &r->log.v[r->log.n - 1] : &none;
}

static bool answered(struct rig *r, uint8_t syndrome, uint32_t ahead)
{
	return last(r)->from == &r->p.b && last(r)->opcode == ACK &&
	       last(r)->syndrome == syndrome && last(r)->psn == urxe_psn_add(r->psn, ahead);
}

/* ---- what is kept ---- */

/* Each arrival, and what b expects, keeps, and has answered last after it: a ACK, n NAK, - nothing
 * new. All are WRITEs of one packet; @come is relative to the first one expected. */
static const struct {
	const char *what;
	struct {
		uint32_t come, expected, kept;
		char answer;
		uint32_t psn; /* it is of */
	} step[9];
} table[] = {
	{"in order", {{0, 1, 0, 'a', 0}, {1, 2, 0, 'a', 1}}},
	{"one that is late", {{1, 0, 1, '-', 0}, {0, 2, 0, 'a', 1}}},
	{"overtaken by two", {{2, 0, 1, '-', 0}, {1, 0, 2, '-', 0}, {0, 3, 0, 'a', 2}}},
	{"overtaken by three is lost: told, and answered as far as it comes again",
	 {{1, 0, 1, '-', 0},
	  {2, 0, 2, '-', 0},
	  {3, 0, 3, 'n', 0},
	  {4, 0, 4, '-', 0},
	  {0, 1, 4, 'a', 0},
	  {1, 2, 3, 'a', 1},
	  {2, 3, 2, 'a', 2},
	  {5, 6, 0, 'a', 5}}},
	{"sent again alone, with the newest behind it",
	 {{1, 0, 1, '-', 0},
	  {2, 0, 2, '-', 0},
	  {3, 0, 3, 'n', 0},
	  {0, 1, 3, 'a', 0},
	  {3, 4, 0, 'a', 3}}},
	{"the newest, without what was to be sent again: told once more",
	 {{1, 0, 1, '-', 0},
	  {2, 0, 2, '-', 0},
	  {3, 0, 3, 'n', 0},
	  {3, 0, 3, 'n', 0},
	  {0, 1, 3, 'a', 0},
	  {3, 4, 0, 'a', 3}}},
	{"all again but the first: told once a time",
	 {{1, 0, 1, '-', 0},
	  {2, 0, 2, '-', 0},
	  {3, 0, 3, 'n', 0},
	  {1, 0, 3, 'n', 0},
	  {2, 0, 3, '-', 0},
	  {3, 0, 3, '-', 0},
	  {1, 0, 3, 'n', 0}}},
	{"all again but the first, with one that closes another gap: told once",
	 {{1, 0, 1, '-', 0},
	  {3, 0, 2, '-', 0},
	  {4, 0, 3, 'n', 0},
	  {1, 0, 3, 'n', 0},
	  {2, 0, 4, '-', 0},
	  {3, 0, 4, '-', 0},
	  {4, 0, 4, '-', 0},
	  {5, 0, 5, '-', 0}}},
	{"two gaps: the second is told when the peer is behind it, and known not to come back",
	 {{1, 0, 1, '-', 0},
	  {3, 0, 2, '-', 0},
	  {4, 0, 3, 'n', 0},
	  {5, 0, 4, '-', 0},
	  {0, 1, 4, 'a', 0},
	  {6, 2, 4, 'n', 2},
	  {2, 7, 0, 'a', 6}}},
	{"twice", {{2, 0, 1, '-', 0}, {2, 0, 1, '-', 0}, {1, 0, 2, 'n', 0}}},
};

static void run_row(unsigned i)
{
	struct rig r;

	rig_open(&r);
	for (unsigned s = 0; s < 9 && table[i].step[s].answer; s++) {
		unsigned before = r.log.n;
		bool ok;

		put(&r, table[i].step[s].come, write_to(&r, 0, 8));
		ok = urxe_psn_diff(resp(&r)->epsn, r.psn) == (int32_t)table[i].step[s].expected &&
		     resp(&r)->nkept == table[i].step[s].kept;
		if (table[i].step[s].answer == '-')
			ok = ok && r.log.n == before;
		else
			ok = ok && r.log.n == before + 1 &&
			     answered(&r, table[i].step[s].answer == 'n' ? NAK(PSN_SEQ) : OK_AETH,
				      table[i].step[s].psn);
		if (!ok)
			printf("\n    %s, step %u: expects %d, keeps %u, %u answers, the last "
			       "%02x of %d",
			       table[i].what, s, urxe_psn_diff(resp(&r)->epsn, r.psn),
			       resp(&r)->nkept, r.log.n - before, last(&r)->syndrome,
			       urxe_psn_diff(last(&r)->psn, r.psn));
		CU_ASSERT(ok);
	}
	rig_close(&r);
}

static void test_table(void)
{
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		run_row(i);
}

/* Few overtake it, and nothing follows: it is told after a while. */
static void test_late(void)
{
	struct rig r;

	rig_open(&r);
	put(&r, 1, write_to(&r, 0, 8));
	CU_ASSERT_EQUAL(r.log.n, 0);
	pair_settle(&r.p, MS);
	CU_ASSERT(r.log.n == 1 && answered(&r, NAK(PSN_SEQ), 0));
	pair_settle(&r.p, 50 * MS);
	CU_ASSERT_EQUAL(r.log.n, 1);
	rig_close(&r);
}

/* ---- told again ---- */

#define REPAIR 50000ull /* ns */

/* As many as tell of a gap. */
static void overtake(struct rig *r)
{
	for (uint32_t i = 1; i <= 3; i++)
		put(r, i, write_to(r, 0, 8));
}

/* A gap is told, and what is missing comes in a while: alone, but for the newest, or with all. */
static void close_gap(struct rig *r, bool all)
{
	overtake(r);
	CU_ASSERT(answered(r, NAK(PSN_SEQ), 0));
	pair_settle(&r->p, REPAIR);
	put(r, 0, write_to(r, 0, 8));
	for (uint32_t i = all ? 1 : 3; i <= 3; i++)
		put(r, i, write_to(r, 0, 8));
	CU_ASSERT(answered(r, OK_AETH, 3));
	r->psn = urxe_psn_add(r->psn, 4);
	CU_ASSERT_EQUAL(resp(r)->epsn, r->psn);
}

/* So often is a gap told that nobody closes. */
static unsigned told(struct rig *r)
{
	unsigned before = r->log.n;

	overtake(r);
	CU_ASSERT_EQUAL(r->log.n, before + 1);
	/* Not before it could have been closed. */
	pair_settle(&r->p, REPAIR);
	CU_ASSERT_EQUAL(r->log.n, before + 1);
	pair_settle(&r->p, 50 * MS);
	for (unsigned i = before; i < r->log.n; i++)
		CU_ASSERT(r->log.v[i].syndrome == NAK(PSN_SEQ) && r->log.v[i].psn == r->psn);
	return r->log.n - before;
}

static unsigned told_after(const char *gaps)
{
	struct rig r;
	unsigned n;

	rig_open(&r);
	for (; *gaps; gaps++)
		close_gap(&r, *gaps == 'a');
	n = told(&r);
	/* It closes as ever, and what comes late is what was told. */
	put(&r, 0, write_to(&r, 0, 8));
	put(&r, 0, write_to(&r, 0, 8));
	put(&r, 3, write_to(&r, 0, 8));
	CU_ASSERT(answered(&r, OK_AETH, 3));
	CU_ASSERT_EQUAL(resp(&r)->patience, URXE_OVERTAKEN);
	rig_close(&r);
	return n;
}

/* The NAK of who sends what is missing alone (m) is told again; that of who sends all (a) is not.
 */
static void test_told_again(void)
{
	CU_ASSERT_EQUAL(told_after(""), 1);
	CU_ASSERT_EQUAL(told_after("m"), 4);
	CU_ASSERT_EQUAL(told_after("a"), 1);
	CU_ASSERT_EQUAL(told_after("ma"), 1);
	CU_ASSERT_EQUAL(told_after("am"), 4);
}

/* Of who sends what is missing alone nothing else need come: it is known to have come there. */
static void test_goes_on(void)
{
	struct rig r;

	rig_open(&r);
	close_gap(&r, false);
	overtake(&r);
	put(&r, 0, write_to(&r, 0, 8));
	CU_ASSERT(answered(&r, OK_AETH, 3));
	rig_close(&r);
}

/* What was told to be lost was late, and the peer is one of whom nothing is known. */
static void test_was_late(void)
{
	struct rig r;

	rig_open(&r);
	close_gap(&r, false);
	CU_ASSERT(resp(&r)->selective);
	overtake(&r);
	put(&r, 0, write_to(&r, 0, 8));
	put(&r, 4, write_to(&r, 0, 8));
	put(&r, 0, write_to(&r, 0, 8));
	CU_ASSERT(!resp(&r)->selective);
	CU_ASSERT_EQUAL(resp(&r)->patience, 2 * URXE_OVERTAKEN);
	rig_close(&r);
}

/* ---- executed in its turn, by what holds then ---- */

static void test_not_before(void)
{
	struct rig r;
	uint64_t word;

	rig_open(&r);
	memset(r.p.b.buf, 0, 64);
	put(&r, 1, add_to(&r, 0));
	put(&r, 2, write_to(&r, 32, 8));
	memcpy(&word, r.p.b.buf, 8);
	CU_ASSERT(word == 0 && r.p.b.buf[32] == 0);
	put(&r, 0, write_to(&r, 16, 8));
	memcpy(&word, r.p.b.buf, 8);
	CU_ASSERT(word == 1 && r.p.b.buf[32] == 0x5a && r.p.b.buf[16] == 0x5a);
	/* Once: what comes again is answered. */
	put(&r, 1, add_to(&r, 0));
	memcpy(&word, r.p.b.buf, 8);
	CU_ASSERT_EQUAL(word, 1);
	CU_ASSERT_EQUAL(last(&r)->opcode, RC(ATOMIC_ACKNOWLEDGE));
	rig_close(&r);
}

/*
 * 100 are kept, of which @bad has a key that is none; then what is before them comes, and the
 * newest again. True: b's answers to that are of these packets, the last one with this syndrome.
 */
static bool answers_to_many(uint32_t bad, const uint32_t *of, unsigned n, uint8_t syndrome)
{
	unsigned before;
	struct rig r;
	bool ok;

	rig_open(&r);
	for (uint32_t i = 1; i <= 100; i++) {
		struct raw_pkt k = write_to(&r, i, 1);

		k.rkey ^= i == bad;
		put(&r, i, k);
	}
	put(&r, 0, write_to(&r, 0, 1));
	before = r.log.n;
	put(&r, 100, write_to(&r, 100, 1));
	ok = r.log.n == before + n && resp(&r)->nkept == 0 && !resp(&r)->backlog;
	for (unsigned i = 0; ok && i < n; i++)
		ok = r.log.v[before + i].psn == urxe_psn_add(r.psn, of[i]) &&
		     r.log.v[before + i].syndrome == (i + 1 < n ? OK_AETH : syndrome);
	rig_close(&r);
	return ok;
}

/* Many that are kept are executed in parts, each of which is answered. */
static void test_parts(void)
{
	static const uint32_t all[] = {16, 32, 48, 64, 80, 96, 100}, some[] = {16, 32, 40};

	CU_ASSERT(answers_to_many(0, all, 7, OK_AETH));
	CU_ASSERT(answers_to_many(40, some, 3, NAK(REMOTE_ACCESS)));
}

/* The region goes while a WRITE to it is kept. */
static void test_region_goes(void)
{
	struct rig r;
	uint32_t rkey;
	struct ibv_mr *mr;

	rig_open(&r);
	mr = ibv_reg_mr(r.p.b.pd, r.p.b.buf + 4096, 4096,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	rkey = mr->rkey;
	r.p.b.buf[4096] = 0;
	for (unsigned i = 1; i < 3; i++) {
		struct raw_pkt k = write_to(&r, 4096, 8);

		k.rkey = rkey;
		put(&r, i, k);
	}
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	put(&r, 0, write_to(&r, 0, 8));
	CU_ASSERT(answered(&r, NAK(REMOTE_ACCESS), 1));
	CU_ASSERT_EQUAL(r.p.b.buf[4096], 0);
	CU_ASSERT_EQUAL(resp(&r)->nkept, 0);
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(pair_event(&r.p.b), IBV_EVENT_QP_ACCESS_ERR);
	rig_close(&r);
}

/* A SEND without a receive: RNR NAK of its PSN, and what is behind it is not waited for. */
static void test_no_receive(void)
{
	struct rig r;
	struct raw_pkt send = {.opcode = RC(SEND_ONLY), .len = 8};
	struct ibv_wc wc;

	rig_open(&r);
	put(&r, 1, send);
	put(&r, 2, write_to(&r, 0, 8));
	put(&r, 0, write_to(&r, 0, 8));
	CU_ASSERT_EQUAL(last(&r)->syndrome & URXE_AETH_TYPE_MASK, URXE_AETH_RNR);
	CU_ASSERT_EQUAL(last(&r)->psn, urxe_psn_add(r.psn, 1));
	CU_ASSERT_EQUAL(resp(&r)->nkept, 0);
	pair_recv(&r.p.b, 5, 64, 8);
	put(&r, 1, send);
	CU_ASSERT(ibv_poll_cq(r.p.b.cq, 1, &wc) == 1 && wc.wr_id == 5);
	put(&r, 2, write_to(&r, 0, 8));
	CU_ASSERT(answered(&r, OK_AETH, 2));
	rig_close(&r);
}

/* ---- bounds ---- */

static void test_bounds(void)
{
	struct ibv_qp *more[10];
	struct pair_params pp = {0};
	struct ibv_qp *own_a, *own_b;
	struct rig r;
	unsigned n = sizeof(more) / sizeof(more[0]);

	rig_open(&r);
	for (uint32_t i = 1; i < URXE_KEEP_PER_QP + 20; i++)
		put(&r, i, write_to(&r, 0, 8));
	CU_ASSERT_EQUAL(resp(&r)->nkept, URXE_KEEP_PER_QP);
	CU_ASSERT_EQUAL(r.p.b.dev->keep.made, URXE_KEEP_PER_QP);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_OUT_OF_SEQUENCE), 19);
	/* Too far, and nonsense: they are not kept. */
	put(&r, URXE_KEEP_AHEAD + 1, write_to(&r, 0, 8));
	put(&r, 0x7fffff, write_to(&r, 0, 8));
	CU_ASSERT_EQUAL(resp(&r)->nkept, URXE_KEEP_PER_QP);
	own_a = r.p.a.qp;
	own_b = r.p.b.qp;
	for (unsigned q = 0; q < n; q++) {
		struct ibv_qp *a = pair_qp(&r.p.a, &pp, IBV_QPT_RC);
		uint32_t psn;

		more[q] = pair_qp(&r.p.b, &pp, IBV_QPT_RC);
		pair_connect(&r.p, &r.p.a, a, &r.p.b, more[q], &pp);
		r.p.a.qp = a;
		r.p.b.qp = more[q];
		psn = r.psn;
		r.psn = resp(&r)->epsn;
		for (uint32_t i = 1; i <= URXE_KEEP_PER_QP; i++)
			put(&r, i, write_to(&r, 0, 8));
		r.psn = psn;
		CU_ASSERT(r.p.b.dev->keep.made <= URXE_KEEP_BUFFERS);
		CU_ASSERT_EQUAL(ibv_destroy_qp(a), 0);
	}
	CU_ASSERT_EQUAL(r.p.b.dev->keep.made, URXE_KEEP_BUFFERS);
	CU_ASSERT_EQUAL(free_buffers(r.p.b.dev), 0);
	for (unsigned q = 0; q < n; q++)
		CU_ASSERT_EQUAL(ibv_destroy_qp(more[q]), 0);
	r.p.a.qp = own_a;
	r.p.b.qp = own_b;
	/* There is room again, and the first QP goes on. */
	CU_ASSERT_EQUAL(free_buffers(r.p.b.dev), URXE_KEEP_BUFFERS - URXE_KEEP_PER_QP);
	rig_close(&r);
}

URXE_TEST_MAIN("keep", T(test_table), T(test_late), T(test_told_again), T(test_goes_on),
	       T(test_was_late), T(test_not_before), T(test_parts), T(test_region_goes),
	       T(test_no_receive), T(test_bounds))
