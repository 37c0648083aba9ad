/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The log at "debug" says why a QP failed: on both sides, with states, NAKs, PSNs and retries; at
 * "trace" each packet, and at "warn" nothing.
 */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "log_kept.h"
#include "pair.h"
#include "urxe/log.h"

#define MS 1000000ull

static char text[1 << 18];

/* Post, wait for the failure, and keep in text[] what was said meanwhile. */
static enum ibv_wc_status said(struct pair *p, enum urxe_log_level level, enum ibv_wr_opcode op,
			       uint32_t remote_off)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	struct log_kept log;

	log_keep(&log);
	urxe_log_set_level(level);
	CU_ASSERT_EQUAL(pair_post(&p->a, op, 7, 0, 64, &p->b, remote_off, IBV_SEND_SIGNALED), 0);
	CU_ASSERT(pair_wait(p, p->a.cq, &wc));
	pair_settle(p, MS);
	urxe_log_set_level(URXE_LOG_WARN);
	log_kept(&log, text, sizeof(text));
	return wc.status;
}

static bool has_line(uint32_t qpn, const char *what)
{
	char line[256];

	snprintf(line, sizeof(line), "debug: QP %06x: %s", qpn, what);
	if (strstr(text, line))
		return true;
	printf("lacks '%s' in:\n%s", line, text);
	return false;
}

static void test_denied_rkey(void)
{
	struct pair_params pp = {.seed = 1};
	char line[200];
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	CU_ASSERT_EQUAL(said(&p, URXE_LOG_DEBUG, IBV_WR_RDMA_WRITE, PAIR_BUF - 8),
			IBV_WC_REM_ACCESS_ERR);
	snprintf(line, sizeof(line), "rkey %#x does not allow access 0x2 to 64 bytes at %p",
		 p.b.mr->rkey, (void *)(p.b.buf + PAIR_BUF - 8));
	CU_ASSERT(has_line(p.b.qp->qp_num, line));
	snprintf(line, sizeof(line), "-> NAK REMOTE_ACCESS, PSN %u, in EXPECT_FIRST",
		 to_urxe_qp(p.b.qp)->attr.rq_psn);
	CU_ASSERT(has_line(p.b.qp->qp_num, line));
	CU_ASSERT(has_line(p.b.qp->qp_num, "RTS -> ERR"));
	snprintf(line, sizeof(line), "<- NAK REMOTE_ACCESS, PSN %u, 7 of 7 retries left",
		 to_urxe_qp(p.a.qp)->attr.sq_psn);
	CU_ASSERT(has_line(p.a.qp->qp_num, line));
	CU_ASSERT(has_line(p.a.qp->qp_num, "completion, wr_id 0x7: remote access error"));
	CU_ASSERT(has_line(p.a.qp->qp_num, "RTS -> ERR"));
	pair_close(&p);
}

static void test_no_receive(void)
{
	struct pair_params pp = {.seed = 1, .set_retries = true, .retry_cnt = 2, .rnr_retry = 1};
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	CU_ASSERT_EQUAL(said(&p, URXE_LOG_DEBUG, IBV_WR_SEND, 0), IBV_WC_RNR_RETRY_EXC_ERR);
	CU_ASSERT(has_line(p.b.qp->qp_num, "-> RNR NAK, PSN "));
	CU_ASSERT(has_line(p.a.qp->qp_num, "<- RNR NAK, PSN "));
	CU_ASSERT(strstr(text, " us, 1 of 1 RNR retries left") &&
		  strstr(text, " us, 0 of 1 RNR retries left"));
	CU_ASSERT(has_line(p.a.qp->qp_num, "sends again from PSN "));
	pair_close(&p);
}

static void test_silent_peer(void)
{
	struct pair_params pp = {.seed = 1, .set_retries = true, .retry_cnt = 1, .timeout = 10};
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_ERR), 0);
	CU_ASSERT_EQUAL(said(&p, URXE_LOG_DEBUG, IBV_WR_RDMA_WRITE, 0), IBV_WC_RETRY_EXC_ERR);
	CU_ASSERT(has_line(p.b.qp->qp_num, "not taken: rx_bad_state, PSN "));
	CU_ASSERT(has_line(p.a.qp->qp_num, "ACK time-out, PSN "));
	CU_ASSERT(strstr(text, "not acknowledged, 1 of 1 retries left") &&
		  strstr(text, "not acknowledged, 0 of 1 retries left"));
	CU_ASSERT(has_line(p.a.qp->qp_num, "RTS -> ERR"));
	pair_close(&p);
}

/* Who does not look into it is told as well. */
static void test_unanswered(void)
{
	struct pair_params pp = {.seed = 1, .set_retries = true, .retry_cnt = 1, .timeout = 10};
	char line[200];
	struct pair p;

	for (unsigned i = 0; i < 2; i++) {
		pair_open(&p, &pp, IBV_QPT_RC);
		if (i) {
			CU_ASSERT_EQUAL(said(&p, URXE_LOG_WARN, IBV_WR_RDMA_WRITE, 0),
					IBV_WC_SUCCESS);
			CU_ASSERT_EQUAL(text[0], '\0');
		}
		CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_ERR), 0);
		CU_ASSERT_EQUAL(said(&p, URXE_LOG_WARN, IBV_WR_RDMA_WRITE, 0),
				IBV_WC_RETRY_EXC_ERR);
		snprintf(line, sizeof(line), ": QP 0x%x: QP 0x%x of 10.0.0.2 has not answered, ",
			 p.a.qp->qp_num, p.b.qp->qp_num);
		CU_ASSERT_PTR_NOT_NULL(strstr(text, line));
		CU_ASSERT_PTR_NOT_NULL(strstr(text, "retry_cnt 1 (RETRY_EXC_ERR); "));
		CU_ASSERT_PTR_NOT_NULL(strstr(text, i ? "what came from there last came 0."
						      : "nothing ever came from there"));
		pair_close(&p);
	}
}

static void test_levels(void)
{
	struct pair_params pp = {.seed = 1};
	char line[200];
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	CU_ASSERT_EQUAL(said(&p, URXE_LOG_WARN, IBV_WR_RDMA_WRITE, 0), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(text[0], '\0');
	CU_ASSERT_EQUAL(said(&p, URXE_LOG_TRACE, IBV_WR_RDMA_WRITE, 0), IBV_WC_SUCCESS);
	snprintf(line, sizeof(line), "trace: QP %06x: -> %06x RC WRITE_ONLY, PSN ", p.a.qp->qp_num,
		 p.b.qp->qp_num);
	CU_ASSERT(strstr(text, line) != NULL);
	snprintf(line, sizeof(line), "trace: QP %06x: <- RC ACKNOWLEDGE, PSN ", p.a.qp->qp_num);
	CU_ASSERT(strstr(text, line) != NULL);
	snprintf(line, sizeof(line), "trace: QP %06x: send posted, wr_id 0x7, ", p.a.qp->qp_num);
	CU_ASSERT(strstr(text, line) != NULL);
	CU_ASSERT(strstr(text, ": completion, wr_id 0x7: success") != NULL);
	pair_close(&p);
}

URXE_TEST_MAIN("why", T(test_denied_rkey), T(test_no_receive), T(test_silent_peer),
	       T(test_unanswered), T(test_levels))
