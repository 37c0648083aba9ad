/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What comes to the requester before something that is before it (early.c): responses, ACKs, NAKs.
 */
#include "harness.h"
#include "rc_rig.h"

/* READ responses that come early are put in place; the rest of them alone is asked for again. */
static void test_early_responses(void)
{
	struct pair_params pp = {.timeout = 20};
	struct rc_rig r;
	unsigned n;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_READ, 1, 8 << 10);
	rc_post(&r, IBV_WR_RDMA_WRITE, 2, 8);
	rc_post(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 8);
	n = r.log.n;
	rc_answer(&r, RC(READ_RESPONSE_FIRST), r.psn, OK_AETH, 1024);
	rc_answer(&r, RC(READ_RESPONSE_MIDDLE), r.psn + 3, 0, 1024);
	rc_answer(&r, RC(READ_RESPONSE_MIDDLE), r.psn + 4, 0, 1024);
	CU_ASSERT_EQUAL(r.log.n, n);
	/* The wrong length, which the last one may not have; it is not taken. */
	rc_answer(&r, RC(READ_RESPONSE_MIDDLE), r.psn + 5, 0, 1000);
	CU_ASSERT(rc_sent(&r, n, 1, 1, 1));
	CU_ASSERT_EQUAL(r.log.v[n].opcode, RC(READ_REQUEST));
	CU_ASSERT_EQUAL(r.log.v[n].dmalen, 2048);
	n = r.log.n;
	rc_answer(&r, RC(READ_RESPONSE_LAST), r.psn + 7, OK_AETH, 1024);
	rc_answer(&r, RC(ATOMIC_ACKNOWLEDGE), r.psn + 9, OK_AETH, 0);
	rc_answer(&r, RC(READ_RESPONSE_FIRST), r.psn + 1, OK_AETH, 1024);
	CU_ASSERT(rc_no_wc(&r) && r.log.n == n);
	rc_answer(&r, RC(READ_RESPONSE_LAST), r.psn + 2, OK_AETH, 1024);
	CU_ASSERT_EQUAL(urxe_psn_diff(to_urxe_qp(r.p.a.qp)->req.una, r.psn), 5);
	CU_ASSERT(rc_no_wc(&r));
	rc_answer(&r, RC(READ_RESPONSE_MIDDLE), r.psn + 5, 0, 1024);
	rc_answer(&r, RC(READ_RESPONSE_LAST), r.psn + 6, OK_AETH, 1024);
	for (unsigned id = 1; id <= 3; id++)
		CU_ASSERT(rc_wc_now(&r, id, IBV_WC_SUCCESS));
	for (uint32_t i = 0; i < 8 << 10; i++) {
		if (r.p.a.buf[0x1000 + i] != 0x5a) {
			CU_FAIL("bytes are missing");
			break;
		}
	}
	rc_close(&r);
}

/*
 * Holes in several READs: each is asked for when three responses have passed it, of each READ one
 * at a time (quirks.md: read-from); the oldest once more, when one that was asked for later is
 * closed. From then on each is asked for twice, as the loss of what asks costs a round trip.
 */
static void test_holes(void)
{
	struct pair_params pp = {.timeout = 20, .rd_atomic = 4};
	struct rc_rig r;
	unsigned n;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_READ, 1, 2 << 10);
	rc_post(&r, IBV_WR_RDMA_READ, 2, 8 << 10);
	rc_answer(&r, RC(READ_RESPONSE_FIRST), r.psn, OK_AETH, 1024);
	n = r.log.n;
	rc_answer_part(&r, 2, 0);
	rc_answer_part(&r, 2, 2);
	CU_ASSERT(rc_sent(&r, n, 0, 0, 0));
	rc_answer_part(&r, 2, 4);
	CU_ASSERT(rc_sent(&r, n, 1, 1, 1));
	n = r.log.n;
	rc_answer_part(&r, 2, 5);
	CU_ASSERT(rc_sent(&r, n, 1, 3, 3));
	CU_ASSERT_EQUAL(r.log.v[n].dmalen, 1024);
	n = r.log.n;
	rc_answer_part(&r, 2, 6);
	rc_answer_part(&r, 2, 7);
	CU_ASSERT(rc_sent(&r, n, 0, 0, 0));
	rc_answer(&r, RC(READ_RESPONSE_ONLY), r.psn + 3, OK_AETH, 1024);
	CU_ASSERT(rc_sent(&r, n, 4, 1, 5));
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(urxe_psn_diff(r.log.v[n + i].psn, r.psn), i < 2 ? 1 : 5);
	n = r.log.n;
	rc_answer(&r, RC(READ_RESPONSE_ONLY), r.psn + 1, OK_AETH, 1024);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_SUCCESS));
	CU_ASSERT(rc_no_wc(&r));
	rc_answer(&r, RC(READ_RESPONSE_ONLY), r.psn + 5, OK_AETH, 1024);
	CU_ASSERT(rc_wc_now(&r, 2, IBV_WC_SUCCESS));
	CU_ASSERT(rc_sent(&r, n, 0, 0, 0));
	rc_close(&r);
}

/* A response that was asked for again was late after all: the next one is waited for longer. */
static void test_late_response(void)
{
	struct pair_params pp = {.timeout = 20, .rd_atomic = 4};
	struct rc_rig r;
	unsigned n;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	for (uint32_t read = 0; read < 2; read++) {
		uint32_t first = 8 * read, enough = read ? 6 : 3;

		rc_post(&r, IBV_WR_RDMA_READ, read, 8 << 10);
		rc_answer_part(&r, first, 0);
		n = r.log.n;
		for (uint32_t i = 2; i < 2 + enough; i++) {
			CU_ASSERT(rc_sent(&r, n, 0, 0, 0));
			rc_answer_part(&r, first, i);
		}
		CU_ASSERT(rc_sent(&r, n, 1, first + 1, first + 1));
		rc_answer_part(&r, first, 1);
		for (uint32_t i = 2 + enough; i < 8; i++)
			rc_answer_part(&r, first, i);
		CU_ASSERT(rc_wc_now(&r, read, IBV_WC_SUCCESS));
	}
	rc_close(&r);
}

/* An ACK behind a READ tells that its answer was lost: asked for again, once. */
static void test_implied_nak(void)
{
	struct pair_params pp = {.timeout = 20};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_READ, 1, 8);
	rc_post(&r, IBV_WR_RDMA_WRITE, 2, 8);
	CU_ASSERT_EQUAL(r.log.n, 2);
	rc_answer(&r, ACK, r.psn + 1, OK_AETH, 0);
	CU_ASSERT_EQUAL(r.log.n, 3);
	CU_ASSERT_EQUAL(r.log.v[2].opcode, RC(READ_REQUEST));
	rc_answer(&r, ACK, r.psn + 1, OK_AETH, 0);
	CU_ASSERT_EQUAL(r.log.n, 3);
	CU_ASSERT(rc_no_wc(&r));
	rc_answer(&r, RC(READ_RESPONSE_ONLY), r.psn, OK_AETH, 8);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_SUCCESS));
	rc_answer(&r, ACK, r.psn + 1, OK_AETH, 0);
	CU_ASSERT(rc_wc_now(&r, 2, IBV_WC_SUCCESS));
	rc_close(&r);
}

/*
 * A NAK that ends the QP acknowledges what is before it (IBTA 9.7.5.1.2), and is told once: the
 * peer is in error. It waits for the responses that it has overtaken.
 */
static void test_refused(void)
{
	struct pair_params pp = {.timeout = 20};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_READ, 1, 8);
	rc_post(&r, IBV_WR_RDMA_WRITE, 2, 8);
	rc_post(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 8);
	rc_post(&r, IBV_WR_SEND, 4, 3000);
	rc_post(&r, IBV_WR_RDMA_WRITE, 5, 8);
	rc_answer(&r, ACK, r.psn + 4, NAK(REMOTE_ACCESS), 0);
	CU_ASSERT(rc_no_wc(&r));
	/* It was refused, whatever else is said of it, or of what is behind it. */
	rc_answer(&r, ACK, r.psn + 4, OK_AETH, 0);
	rc_answer(&r, ACK, r.psn + 6, NAK(REMOTE_OP), 0);
	rc_answer(&r, ACK, r.psn + 3, NAK(REMOTE_OP), 0);
	rc_answer(&r, RC(READ_RESPONSE_ONLY), r.psn, OK_AETH, 8);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_SUCCESS));
	CU_ASSERT(rc_wc_now(&r, 2, IBV_WC_SUCCESS));
	CU_ASSERT(rc_no_wc(&r));
	CU_ASSERT_EQUAL(pair_state(r.p.a.qp), IBV_QPS_RTS);
	rc_answer(&r, RC(ATOMIC_ACKNOWLEDGE), r.psn + 2, OK_AETH, 0);
	CU_ASSERT(rc_wc_now(&r, 3, IBV_WC_SUCCESS));
	CU_ASSERT(rc_wc_now(&r, 4, IBV_WC_REM_ACCESS_ERR));
	CU_ASSERT(rc_wc_now(&r, 5, IBV_WC_WR_FLUSH_ERR));
	CU_ASSERT(rc_no_wc(&r));
	CU_ASSERT_EQUAL(pair_state(r.p.a.qp), IBV_QPS_ERR);
	rc_close(&r);
}

/* The end of a READ is refused, when its memory has gone, and a response before that comes late. */
static void test_refused_within(void)
{
	struct pair_params pp = {.timeout = 20};
	struct rc_rig r;

	rc_open(&r, &pp);
	rc_no_peer(&r);
	rc_post(&r, IBV_WR_RDMA_READ, 1, 8 << 10);
	rc_answer_part(&r, 0, 0);
	rc_answer_part(&r, 0, 2);
	rc_answer(&r, ACK, r.psn + 3, NAK(REMOTE_OP), 0);
	CU_ASSERT(rc_no_wc(&r));
	rc_answer_part(&r, 0, 1);
	CU_ASSERT(rc_wc_now(&r, 1, IBV_WC_REM_OP_ERR));
	CU_ASSERT_EQUAL(pair_state(r.p.a.qp), IBV_QPS_ERR);
	rc_close(&r);
}

/* With a real peer, whose responses and NAK overtake each other. */
static void test_refused_in_disorder(void)
{
	struct urxe_sim_params link = {.latency = 1000, .reorder = 0.3, .reorder_delay = 20000};
	struct pair_params pp = {.timeout = 14};
	struct rc_rig r;

	for (unsigned i = 0; i < 50; i++) {
		rc_open(&r, &pp);
		for (unsigned k = 0; k < i; k++)
			urxe_port_random(r.p.b.dev->port);
		urxe_sim_end_params(r.p.b.end, &link);
		rc_post(&r, IBV_WR_RDMA_READ, 1, 3000);
		rc_post(&r, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 8);
		pair_post(&r.p.a, IBV_WR_RDMA_WRITE, 3, 0, 8, &r.p.b, PAIR_BUF, IBV_SEND_SIGNALED);
		CU_ASSERT(rc_wc_is(&r, 1, IBV_WC_SUCCESS));
		CU_ASSERT(rc_wc_is(&r, 2, IBV_WC_SUCCESS));
		CU_ASSERT(rc_wc_is(&r, 3, IBV_WC_REM_ACCESS_ERR));
		rc_close(&r);
	}
}

static bool no_response(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	(void)arg;
	(void)from;
	return len < 60 || raw_bth((uint8_t *)(uintptr_t)data)[0] != RC(READ_RESPONSE_ONLY);
}

/* The response is lost. The peer is in error and never answers again: one time-out is enough. */
static void test_refused_and_lost(void)
{
	struct pair_params pp = {.timeout = 14};
	struct rc_rig r;
	uint64_t start;

	rc_open(&r, &pp);
	urxe_sim_filter(r.p.sim, no_response, NULL);
	start = urxe_sim_now(r.p.sim);
	rc_post(&r, IBV_WR_RDMA_READ, 1, 8);
	pair_post(&r.p.a, IBV_WR_RDMA_WRITE, 2, 0, 8, &r.p.b, PAIR_BUF, IBV_SEND_SIGNALED);
	CU_ASSERT(rc_wc_is(&r, 1, IBV_WC_RETRY_EXC_ERR));
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, ACK, NAK(REMOTE_ACCESS)), 1);
	CU_ASSERT(urxe_sim_now(r.p.sim) - start < 2 * (4096ull << pp.timeout));
	CU_ASSERT(rc_wc_now(&r, 2, IBV_WC_WR_FLUSH_ERR));
	urxe_sim_filter(r.p.sim, NULL, NULL);
	rc_close(&r);
}

URXE_TEST_MAIN("rc_early", T(test_early_responses), T(test_holes), T(test_late_response),
	       T(test_implied_nak), T(test_refused), T(test_refused_within),
	       T(test_refused_in_disorder), T(test_refused_and_lost))
