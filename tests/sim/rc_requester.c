/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The RC requester and completer (IBTA 9.7.3, 9.7.5, 9.7.6, 9.9.2): timers, retries, losses at
 * every place, and answers that nobody should give. Side a requests.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "rc_rig.h"

#define MS 1000000ull

static const uint32_t rnr_us[32] = {
	655360, 10,    20,    30,    40,    60,	    80,	    120,    160,    240,    320,
	480,	640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
	20480,	30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

/* ---- time-outs ---- */

static void test_silent_peer(void)
{
	for (uint8_t timeout = 10; timeout <= 18; timeout += 4) {
		for (uint8_t retries = 0; retries <= 7; retries += 7) {
			struct pair_params pp = {
				.set_retries = true, .retry_cnt = retries, .timeout = timeout};
			uint64_t t = 4096ull << timeout, start, took;
			struct rc_rig r;

			rc_open(&r, &pp);
			rc_silence(&r);
			start = urxe_sim_now(r.p.sim);
			rc_post(&r, IBV_WR_RDMA_WRITE, 1, 100);
			rc_post(&r, IBV_WR_RDMA_WRITE, 2, 100);
			CU_ASSERT(rc_wc_is(&r, 1, IBV_WC_RETRY_EXC_ERR));
			took = urxe_sim_now(r.p.sim) - start;
			/* IBTA 9.7.6.1.3: between T and 4T each. */
			CU_ASSERT(took >= (retries + 1) * t && took <= (retries + 1) * t * 4);
			CU_ASSERT(rc_wc_now(&r, 2, IBV_WC_WR_FLUSH_ERR));
			CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.a, RC(WRITE_ONLY), -1),
					2u * (retries + 1));
			CU_ASSERT_EQUAL(pair_state(r.p.a.qp), IBV_QPS_ERR);
			rc_close(&r);
		}
	}
}

/* When the next WRITE of the record went out; 0: there is none. */
static uint64_t next_write(const struct rc_rig *r, unsigned *at)
{
	const struct raw_seen *s = raw_log_find(&r->log, &r->p.a, RC(WRITE_ONLY), at);

	return s ? s->when : 0;
}

/* A silent peer is given up to four times as long, as the standard allows; never less. */
static void test_patience(void)
{
	struct pair_params pp = {.set_retries = true, .retry_cnt = 5, .timeout = 14};
	static const unsigned times[] = {1, 2, 4, 4, 4};
	uint64_t t = 4096ull << pp.timeout, last, when;
	struct ibv_wc wc;
	unsigned at = 0;
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_silence(&r);
	CU_ASSERT_EQUAL(rc_post(&r, IBV_WR_RDMA_WRITE, 1, 8), 0);
	CU_ASSERT(pair_wait(&r.p, r.p.a.cq, &wc) && wc.status == IBV_WC_RETRY_EXC_ERR);
	last = next_write(&r, &at);
	CU_ASSERT(last);
	for (unsigned i = 0; i < 5; i++) {
		when = next_write(&r, &at);
		CU_ASSERT(when - last >= times[i] * t && when - last < times[i] * t + t / 2);
		last = when;
	}
	CU_ASSERT(!next_write(&r, &at));
	rc_close(&r);
}

/* Whatever comes in between begins the count anew. */
static void test_retries_begin_anew(void)
{
	struct pair_params pp = {.set_retries = true, .retry_cnt = 1, .timeout = 12};
	struct urxe_sim_params ok = {.latency = 1000};
	struct rc_rig r;

	rc_open(&r, &pp);
	for (unsigned i = 1; i < 5; i++) {
		rc_silence(&r);
		rc_post(&r, IBV_WR_RDMA_WRITE, i, 100);
		pair_settle(&r.p, 10 * MS);
		urxe_sim_end_params(r.p.b.end, &ok);
		CU_ASSERT(rc_wc_is(&r, i, IBV_WC_SUCCESS));
	}
	rc_close(&r);
}

static void test_no_timeout(void)
{
	struct pair_params pp = {.set_retries = true, .timeout = 14};
	struct rc_rig r;

	rc_open(&r, &pp);
	to_urxe_qp(r.p.a.qp)->attr.timeout = 0; /* as by ibv_modify_qp: none at all */
	rc_silence(&r);
	rc_post(&r, IBV_WR_RDMA_WRITE, 1, 100);
	CU_ASSERT(pair_no_wc(&r.p, &r.p.a, 100000 * MS));
	CU_ASSERT_EQUAL(pair_state(r.p.a.qp), IBV_QPS_RTS);
	rc_close(&r);
}

/* ---- RNR ---- */

static void test_rnr_timer_codes(void)
{
	for (uint8_t code = 0; code < 32; code++) {
		struct pair_params pp = {.timeout = 20};
		uint64_t when;
		struct rc_rig r;
		unsigned n;

		rc_open(&r, &pp);
		rc_no_peer(&r);
		rc_post(&r, IBV_WR_SEND, 1, 8);
		when = urxe_sim_now(r.p.sim);
		rc_answer(&r, ACK, r.psn, RNR(code), 0);
		n = r.log.n;
		while (r.log.n == n && pair_step(&r.p))
			;
		when = urxe_sim_now(r.p.sim) - when;
		CU_ASSERT(when >= rnr_us[code] * 1000ull);
		CU_ASSERT(when <= rnr_us[code] * 1000ull + 100000);
		rc_close(&r);
	}
}

static void test_rnr_exhausted(void)
{
	for (uint8_t retry = 0; retry < 7; retry += 3) {
		struct pair_params pp = {.set_retries = true, .retry_cnt = 2, .rnr_retry = retry};
		struct rc_rig r;

		rc_open(&r, &pp);
		rc_post(&r, IBV_WR_SEND, 1, 8);
		rc_post(&r, IBV_WR_SEND, 2, 8);
		CU_ASSERT(rc_wc_is(&r, 1, IBV_WC_RNR_RETRY_EXC_ERR));
		CU_ASSERT(rc_wc_now(&r, 2, IBV_WC_WR_FLUSH_ERR));
		CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, ACK, RNR(12)), retry + 1u);
		rc_close(&r);
	}
}

static void test_rnr_for_ever(void)
{
	struct pair_params pp = {.set_retries = true, .retry_cnt = 0, .rnr_retry = 7};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_post(&r, IBV_WR_SEND, 1, 8);
	CU_ASSERT(pair_no_wc(&r.p, &r.p.a, 100 * MS));
	CU_ASSERT(raw_log_count(&r.log, &r.p.b, ACK, RNR(12)) > 50);
	pair_recv(&r.p.b, 1, 0, 8);
	CU_ASSERT(rc_wc_is(&r, 1, IBV_WC_SUCCESS));
	rc_close(&r);
}

/* The network doubles an RNR NAK: that is one, not two. */
static void test_rnr_twice(void)
{
	struct pair_params pp = {.set_retries = true, .retry_cnt = 7, .rnr_retry = 1};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_SEND, 1, 8);
	for (int i = 0; i < 5; i++)
		rc_answer(&r, ACK, r.psn, RNR(20), 0);
	CU_ASSERT(rc_no_wc(&r));
	pair_settle(&r.p, 11 * MS);
	rc_answer(&r, ACK, r.psn, RNR(20), 0);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_RNR_RETRY_EXC_ERR));
	rc_close(&r);
}

/* ---- NAKs ---- */

static void test_naks(void)
{
	static const struct {
		uint8_t code;
		enum ibv_wc_status status;
	} k[] = {{NAK(INVALID_REQ), IBV_WC_REM_INV_REQ_ERR},
		 {NAK(REMOTE_ACCESS), IBV_WC_REM_ACCESS_ERR},
		 {NAK(REMOTE_OP), IBV_WC_REM_OP_ERR}};
	struct pair_params pp = {0};
	struct rc_rig r;

	for (unsigned i = 0; i < 3; i++) {
		rc_open(&r, &pp);
		rc_no_peer(&r);
		for (unsigned id = 1; id <= 3; id++)
			rc_post(&r, IBV_WR_RDMA_WRITE, id, 8);
		/* It acknowledges what was before it. */
		rc_answer(&r, ACK, r.psn + 1, k[i].code, 0);
		CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_SUCCESS));
		CU_ASSERT(rc_wc_now(&r, 2, k[i].status));
		CU_ASSERT(rc_wc_now(&r, 3, IBV_WC_WR_FLUSH_ERR));
		CU_ASSERT(rc_no_wc(&r));
		CU_ASSERT_EQUAL(pair_state(r.p.a.qp), IBV_QPS_ERR);
		CU_ASSERT_EQUAL(pair_event(&r.p.a), -1);
		rc_close(&r);
	}
}

static void test_sequence_nak(void)
{
	struct pair_params pp = {.set_retries = true, .retry_cnt = 2, .timeout = 20};
	struct rc_rig r;
	unsigned n;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_WRITE, 1, 5000);
	CU_ASSERT_EQUAL(r.log.n, 5);
	rc_answer(&r, ACK, r.psn + 2, NAK(PSN_SEQ), 0);
	/* The third packet and the last, at once. */
	CU_ASSERT_EQUAL(r.log.n, 7);
	CU_ASSERT_EQUAL(r.log.v[5].psn, urxe_psn_add(r.psn, 2));
	CU_ASSERT_EQUAL(r.log.v[5].opcode, RC(WRITE_MIDDLE));
	CU_ASSERT_EQUAL(r.log.v[6].opcode, RC(WRITE_LAST));
	CU_ASSERT_EQUAL(r.log.v[6].payload, 5000 - 4096);
	/* The same again without progress counts, but for a few that may be lost again. */
	for (unsigned i = 0; i < 16; i++)
		rc_answer(&r, ACK, r.psn + 2, NAK(PSN_SEQ), 0);
	CU_ASSERT_EQUAL(r.log.n, 7 + 16 * 2);
	rc_answer(&r, ACK, r.psn + 2, NAK(PSN_SEQ), 0);
	rc_answer(&r, ACK, r.psn + 2, NAK(PSN_SEQ), 0);
	CU_ASSERT(rc_no_wc(&r));
	rc_answer(&r, ACK, r.psn + 2, NAK(PSN_SEQ), 0);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_RETRY_EXC_ERR));
	n = r.log.n;
	rc_answer(&r, ACK, r.psn + 2, NAK(PSN_SEQ), 0);
	CU_ASSERT_EQUAL(r.log.n, n);
	rc_close(&r);
}

/*
 * A peer that throws away what comes behind a gap says so by its next NAK: all is sent again from
 * there. After the second time it gets all at once.
 */
static void test_goes_back_n(void)
{
	struct pair_params pp = {.timeout = 20};
	struct rc_rig r;
	unsigned n;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_WRITE, 1, 20 << 10);
	for (uint32_t gap = 2; gap <= 8; gap += 6) {
		n = r.log.n;
		rc_answer(&r, ACK, r.psn + gap, NAK(PSN_SEQ), 0);
		CU_ASSERT(rc_sent(&r, n, 2, gap, 19));
		n = r.log.n;
		rc_answer(&r, ACK, r.psn + gap + 1, NAK(PSN_SEQ), 0);
		CU_ASSERT(rc_sent(&r, n, 19 - gap, gap + 1, 19));
	}
	CU_ASSERT_EQUAL(to_urxe_qp(r.p.a.qp)->peer->way, URXE_PEER_DROPS);
	atomic_store(&to_urxe_qp(r.p.a.qp)->req.rtt.srtt, MS);
	n = r.log.n;
	rc_answer(&r, ACK, r.psn + 14, NAK(PSN_SEQ), 0);
	CU_ASSERT(rc_sent(&r, n, 6, 14, 19));
	/* Others that were on their way: neither sent again, nor a retry each. */
	n = r.log.n;
	for (unsigned i = 0; i < 20; i++)
		rc_answer(&r, ACK, r.psn + 14, NAK(PSN_SEQ), 0);
	CU_ASSERT(rc_sent(&r, n, 0, 0, 0));
	CU_ASSERT(rc_no_wc(&r));
	rc_answer(&r, ACK, r.psn + 19, OK_AETH, 0);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_SUCCESS));
	/* Holes in what a READ brings say nothing of that. */
	rc_post(&r, IBV_WR_RDMA_READ, 2, 8 << 10);
	rc_answer_part(&r, 20, 0);
	rc_answer_part(&r, 20, 2);
	for (uint32_t i = 4; i < 7; i++)
		rc_answer_part(&r, 20, i);
	rc_answer(&r, RC(READ_RESPONSE_ONLY), r.psn + 21, OK_AETH, 1024);
	CU_ASSERT_EQUAL(to_urxe_qp(r.p.a.qp)->peer->way, URXE_PEER_DROPS);
	rc_answer(&r, RC(READ_RESPONSE_ONLY), r.psn + 23, OK_AETH, 1024);
	rc_answer_part(&r, 20, 7);
	CU_ASSERT(rc_wc_now(&r, 2, IBV_WC_SUCCESS));
	rc_close(&r);
}

/* One that keeps it shows that by what it acknowledges; a burst that was lost is found by doubling.
 */
static void test_keeps(void)
{
	struct pair_params pp = {.timeout = 20};
	struct rc_rig r;
	unsigned n;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_WRITE, 1, 40 << 10);
	rc_answer(&r, ACK, r.psn + 2, NAK(PSN_SEQ), 0);
	rc_answer(&r, ACK, r.psn + 9, OK_AETH, 0);
	CU_ASSERT_EQUAL(to_urxe_qp(r.p.a.qp)->peer->way, URXE_PEER_KEEPS);
	n = r.log.n;
	rc_answer(&r, ACK, r.psn + 12, NAK(PSN_SEQ), 0);
	CU_ASSERT(rc_sent(&r, n, 2, 12, 39));
	n = r.log.n;
	rc_answer(&r, ACK, r.psn + 13, NAK(PSN_SEQ), 0);
	CU_ASSERT(rc_sent(&r, n, 3, 13, 39));
	n = r.log.n;
	rc_answer(&r, ACK, r.psn + 15, NAK(PSN_SEQ), 0);
	CU_ASSERT(rc_sent(&r, n, 5, 15, 39));
	n = r.log.n;
	/* Not right behind it: another gap. */
	rc_answer(&r, ACK, r.psn + 30, NAK(PSN_SEQ), 0);
	CU_ASSERT(rc_sent(&r, n, 2, 30, 39));
	/* What was sent again was lost: twice, from then on. */
	for (uint32_t gap = 30; gap <= 33; gap += 3) {
		n = r.log.n;
		urxe_sim_advance(r.p.sim, urxe_sim_now(r.p.sim) + 20000);
		rc_answer(&r, ACK, r.psn + gap, NAK(PSN_SEQ), 0);
		CU_ASSERT(rc_sent(&r, n, 3, gap, 39));
		CU_ASSERT_EQUAL(r.log.v[n + 1].psn, r.log.v[n].psn);
	}
	rc_answer(&r, ACK, r.psn + 39, OK_AETH, 0);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_SUCCESS));
	rc_close(&r);
}

/* A NAK that ends the QP is no copy of the one that told of a gap at the same PSN. */
static void test_fatal_nak_after_gap(void)
{
	struct pair_params pp = {.timeout = 14, .set_retries = true, .retry_cnt = 2};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	/* The round trip has been long. */
	CU_ASSERT_EQUAL(rc_post(&r, IBV_WR_RDMA_WRITE, 1, 8), 0);
	urxe_sim_advance(r.p.sim, urxe_sim_now(r.p.sim) + 8 * MS);
	rc_answer(&r, ACK, r.psn, OK_AETH, 0);
	CU_ASSERT(rc_wc_is(&r, 1, IBV_WC_SUCCESS));
	/* Now it is short. */
	CU_ASSERT_EQUAL(rc_post(&r, IBV_WR_RDMA_WRITE, 2, 8), 0);
	CU_ASSERT_EQUAL(rc_post(&r, IBV_WR_RDMA_WRITE, 3, 8), 0);
	urxe_sim_advance(r.p.sim, urxe_sim_now(r.p.sim) + 10000);
	rc_answer(&r, ACK, urxe_psn_add(r.psn, 1), NAK(PSN_SEQ), 0);
	urxe_sim_advance(r.p.sim, urxe_sim_now(r.p.sim) + 100000);
	rc_answer(&r, ACK, urxe_psn_add(r.psn, 1), NAK(REMOTE_ACCESS), 0);
	CU_ASSERT(rc_wc_is(&r, 2, IBV_WC_REM_ACCESS_ERR));
	CU_ASSERT(rc_wc_is(&r, 3, IBV_WC_WR_FLUSH_ERR));
	rc_close(&r);
}

static void test_reserved_syndromes(void)
{
	struct pair_params pp = {0};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_WRITE, 1, 8);
	for (unsigned v = 5; v < 32; v++)
		rc_answer(&r, ACK, r.psn, (uint8_t)(URXE_AETH_NAK | v), 0);
	rc_answer(&r, ACK, r.psn, 0x40, 0);
	rc_answer(&r, ACK, r.psn, 0x5f, 0);
	CU_ASSERT(rc_no_wc(&r));
	/* The top bit is reserved: ignored when it comes. */
	CU_ASSERT_EQUAL(pair_state(r.p.a.qp), IBV_QPS_RTS);
	rc_answer(&r, ACK, r.psn, OK_AETH, 0);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_SUCCESS));
	rc_close(&r);
}

/* ---- acknowledgements ---- */

static void test_ack_covers_all(void)
{
	struct pair_params pp = {0};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	for (unsigned id = 1; id <= 10; id++)
		rc_post(&r, IBV_WR_RDMA_WRITE, id, 8);
	rc_answer(&r, ACK, r.psn + 8, OK_AETH, 0);
	for (unsigned id = 1; id <= 9; id++)
		CU_ASSERT(rc_wc_now(&r, id, IBV_WC_SUCCESS));
	CU_ASSERT(rc_no_wc(&r));
	/* an older one, that was overtaken */
	rc_answer(&r, ACK, r.psn + 3, OK_AETH, 0);
	rc_answer(&r, ACK, r.psn + 3, NAK(REMOTE_ACCESS), 0);
	rc_answer(&r, ACK, r.psn + 3, RNR(5), 0);
	CU_ASSERT(rc_no_wc(&r));
	rc_answer(&r, ACK, r.psn + 9, OK_AETH, 0);
	CU_ASSERT(rc_wc_now(&r, 10, IBV_WC_SUCCESS));
	rc_close(&r);
}

/* An ACK for a PSN never sent. */
static void test_ghost_ack(void)
{
	static const uint8_t ops[] = {ACK, RC(READ_RESPONSE_ONLY), RC(ATOMIC_ACKNOWLEDGE)};
	static const uint8_t syndromes[] = {OK_AETH, NAK(PSN_SEQ), NAK(REMOTE_ACCESS), RNR(1)};
	struct pair_params pp = {0};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	/* nothing out at all, then one */
	for (unsigned out = 0; out < 2; out++) {
		if (out)
			rc_post(&r, IBV_WR_RDMA_WRITE, 1, 8);
		for (unsigned o = 0; o < 3; o++)
			for (unsigned s = 0; s < 4; s++)
				for (uint32_t d = out; d < 0x800000; d = d * 7 + 1)
					rc_answer(&r, ops[o], r.psn + d, syndromes[s], 0);
		CU_ASSERT(rc_no_wc(&r));
		CU_ASSERT_EQUAL(pair_state(r.p.a.qp), IBV_QPS_RTS);
	}
	CU_ASSERT_EQUAL(r.log.n, 1);
	rc_answer(&r, ACK, r.psn, OK_AETH, 0);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_SUCCESS));
	rc_close(&r);
}

/* A response of the wrong kind, or of the wrong length. */
static void bad_response(enum ibv_wr_opcode op, uint32_t len, uint8_t opcode, uint32_t payload,
			 enum ibv_wc_status status)
{
	struct pair_params pp = {.timeout = 20};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, op, 1, len);
	rc_answer(&r, opcode, r.psn, OK_AETH, payload);
	CU_ASSERT(status == IBV_WC_SUCCESS ? rc_no_wc(&r) : rc_wc_now(&r, 1, status));
	for (uint32_t i = 0; i < PAIR_BUF; i++) {
		if (r.p.a.buf[i]) {
			CU_FAIL("bytes were written");
			break;
		}
	}
	rc_close(&r);
}

static void test_bad_responses(void)
{
	bad_response(IBV_WR_RDMA_READ, 100, RC(READ_RESPONSE_ONLY), 99, IBV_WC_BAD_RESP_ERR);
	bad_response(IBV_WR_RDMA_READ, 100, RC(READ_RESPONSE_ONLY), 101, IBV_WC_BAD_RESP_ERR);
	bad_response(IBV_WR_RDMA_READ, 100, RC(READ_RESPONSE_ONLY), 0, IBV_WC_BAD_RESP_ERR);
	bad_response(IBV_WR_RDMA_READ, 100, RC(READ_RESPONSE_FIRST), 100, IBV_WC_BAD_RESP_ERR);
	bad_response(IBV_WR_RDMA_READ, 3000, RC(READ_RESPONSE_FIRST), 1023, IBV_WC_BAD_RESP_ERR);
	bad_response(IBV_WR_RDMA_READ, 3000, RC(READ_RESPONSE_FIRST), 3000, IBV_WC_BAD_RESP_ERR);
	bad_response(IBV_WR_RDMA_READ, 0, RC(READ_RESPONSE_ONLY), 4, IBV_WC_BAD_RESP_ERR);
	bad_response(IBV_WR_RDMA_READ, 8, RC(ATOMIC_ACKNOWLEDGE), 0, IBV_WC_BAD_RESP_ERR);
	bad_response(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, RC(READ_RESPONSE_ONLY), 8,
		     IBV_WC_BAD_RESP_ERR);
	/* Nobody asked a WRITE for data: not ours. An ACK is no answer to a READ: it is missing. */
	bad_response(IBV_WR_RDMA_WRITE, 8, RC(READ_RESPONSE_ONLY), 8, IBV_WC_SUCCESS);
	bad_response(IBV_WR_RDMA_WRITE, 8, RC(ATOMIC_ACKNOWLEDGE), 0, IBV_WC_SUCCESS);
	bad_response(IBV_WR_RDMA_READ, 8, ACK, 0, IBV_WC_SUCCESS);
}

/* A response acknowledges all requests before it. */
static void test_response_acks_before(void)
{
	struct pair_params pp = {.timeout = 20};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_WRITE, 1, 8);
	rc_post(&r, IBV_WR_SEND, 2, 3000);
	rc_post(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 8);
	rc_answer(&r, RC(ATOMIC_ACKNOWLEDGE), r.psn + 4, OK_AETH, 0);
	for (unsigned id = 1; id <= 3; id++)
		CU_ASSERT(rc_wc_now(&r, id, IBV_WC_SUCCESS));
	rc_close(&r);
}

/* ---- losses at every place ---- */

/* The nth RoCE packet of one direction is lost; all goes well in the end all the same. */
static void lose_nth(enum ibv_wr_opcode op, uint32_t len, bool back, unsigned nth)
{
	struct pair_params pp = {.timeout = 12};
	struct urxe_sim_params ok = {.latency = 1000}, lossy = {.latency = 1000, .loss = 1};
	struct side *from;
	struct ibv_wc wc;
	struct rc_rig r;
	bool done = false;
	unsigned n = 0, got = 0;
	uint8_t *src, *dst;

	rc_open(&r, &pp);
	from = back ? &r.p.b : &r.p.a;
	/* One frame a burst, so that the loss can be switched between two. */
	ok.tx_room = lossy.tx_room = 1;
	urxe_sim_end_params(from->end, nth ? &ok : &lossy);
	src = op == IBV_WR_RDMA_READ ? r.p.b.buf : r.p.a.buf;
	dst = op == IBV_WR_RDMA_READ ? r.p.a.buf : r.p.b.buf;
	for (uint32_t i = 0; i < len; i++)
		src[0x1000 + i] = (uint8_t)(i * 7 + 1);
	pair_recv(&r.p.b, 1, 0x1000, 0x4000);
	rc_post(&r, op, 1, len);
	while (!done && pair_step(&r.p)) {
		for (; got < r.log.n; got++)
			n += r.log.v[got].from == from;
		urxe_sim_end_params(from->end, n == nth ? &lossy : &ok);
		done = ibv_poll_cq(r.p.a.cq, 1, &wc) == 1;
	}
	CU_ASSERT(done && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(n > nth);
	if (op != IBV_WR_ATOMIC_FETCH_AND_ADD)
		CU_ASSERT(!memcmp(dst + 0x1000, src + 0x1000, len));
	urxe_sim_end_params(from->end, &pp.link);
	rc_close(&r);
}

static void test_loss_everywhere(void)
{
	for (unsigned nth = 0; nth < 10; nth++) {
		lose_nth(IBV_WR_RDMA_READ, 9 * 1024 + 5, true, nth);
		lose_nth(IBV_WR_RDMA_WRITE, 9 * 1024 + 5, false, nth);
		lose_nth(IBV_WR_SEND, 9 * 1024 + 5, false, nth);
	}
	lose_nth(IBV_WR_RDMA_READ, 9 * 1024, false, 0);
	lose_nth(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, true, 0);
	lose_nth(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, false, 0);
	lose_nth(IBV_WR_SEND, 9, true, 0);
}

/* A READ of more packets than one request asks for, with losses in each part of it. */
static void test_long_read_with_loss(void)
{
	struct pair_params pp = {.mtu = 256, .timeout = 12};
	const uint32_t len = 70000 * 256 + 3;
	struct urxe_sim_params lossy = {.latency = 1000, .loss = 0.0005};
	uint8_t *src = calloc(1, len), *dst = calloc(1, len);
	struct ibv_mr *ms, *md;
	struct ibv_wc wc;
	struct rc_rig r;

	rc_open(&r, &pp);
	for (uint32_t i = 0; i < len; i++)
		src[i] = (uint8_t)(i >> 8 ^ i);
	ms = ibv_reg_mr(r.p.b.pd, src, len, IBV_ACCESS_REMOTE_READ);
	md = ibv_reg_mr(r.p.a.pd, dst, len, IBV_ACCESS_LOCAL_WRITE);
	urxe_sim_end_params(r.p.b.end, &lossy);
	urxe_sim_tap(r.p.sim, NULL, NULL);
	struct ibv_sge sge = {(uintptr_t)dst, len, md->lkey};
	struct ibv_send_wr wr =
				   {
					   .opcode = IBV_WR_RDMA_READ,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .send_flags = IBV_SEND_SIGNALED,
					   .wr.rdma = {(uintptr_t)src, ms->rkey},
				   },
			   *bad;
	CU_ASSERT_EQUAL(ibv_post_send(r.p.a.qp, &wr, &bad), 0);
	CU_ASSERT(pair_wait(&r.p, r.p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(!memcmp(src, dst, len));
	CU_ASSERT(pair_stat(&r.p.a, URXE_STAT_RETRANSMITS) > 10);
	ibv_dereg_mr(ms);
	ibv_dereg_mr(md);
	free(src);
	free(dst);
	rc_close(&r);
}

/* Parts of a long READ are under way together, if the peer has the resources for both. */
static void test_long_read_parts(void)
{
	for (uint8_t limit = 1; limit <= 3; limit++) {
		struct pair_params pp = {.mtu = 256, .rd_atomic = limit};
		uint32_t out, most = 0, taken = 0;
		struct urxe_requester *q;
		struct rc_rig r;

		rc_open(&r, &pp);
		q = &to_urxe_qp(r.p.a.qp)->req;
		for (uint32_t i = 0; i < PAIR_BUF; i++)
			r.p.b.buf[i] = (uint8_t)(i >> 8 ^ i * 3);
		pair_post(&r.p.a, IBV_WR_RDMA_READ, 1, 0, 512 * 1024 + 7, &r.p.b, 0,
			  IBV_SEND_SIGNALED);
		pair_post(&r.p.a, IBV_WR_RDMA_READ, 2, 600000, 300000, &r.p.b, 600000,
			  IBV_SEND_SIGNALED);
		/* While the first is under way: parts asked for without those that are in. */
		while (urxe_psn_diff(q->una, r.psn) < 2048 && pair_step(&r.p)) {
			out = ((q->psn - r.psn + 511) & URXE_PSN_MASK) / 512 -
			      ((q->una - r.psn) & URXE_PSN_MASK) / 512;
			most = out > most ? out : most;
			taken = q->rd_out > taken ? q->rd_out : taken;
		}
		CU_ASSERT_EQUAL(most, limit); /* three: the last part of the first is short */
		CU_ASSERT_EQUAL(taken, limit);
		CU_ASSERT(rc_wc_is(&r, 1, IBV_WC_SUCCESS) && rc_wc_is(&r, 2, IBV_WC_SUCCESS));
		CU_ASSERT(!memcmp(r.p.a.buf, r.p.b.buf, 512 * 1024 + 7));
		CU_ASSERT(!memcmp(r.p.a.buf + 600000, r.p.b.buf + 600000, 300000));
		CU_ASSERT_EQUAL(q->rd_out, 0);
		CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_RETRANSMITS), 0);
		rc_close(&r);
	}
}

URXE_TEST_MAIN("rc_requester", T(test_silent_peer), T(test_patience), T(test_retries_begin_anew),
	       T(test_no_timeout), T(test_rnr_timer_codes), T(test_rnr_exhausted),
	       T(test_rnr_for_ever), T(test_rnr_twice), T(test_naks), T(test_sequence_nak),
	       T(test_fatal_nak_after_gap), T(test_reserved_syndromes), T(test_ack_covers_all),
	       T(test_ghost_ack), T(test_bad_responses), T(test_goes_back_n), T(test_keeps),
	       T(test_response_acks_before), T(test_loss_everywhere), T(test_long_read_with_loss),
	       T(test_long_read_parts))
