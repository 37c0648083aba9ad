/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packet pacing: what a QP sends in virtual time, for RC, UC, UD and raw packets, and how the limit
 * is set, changed and lifted.
 */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

static const struct pair_params params = {.seed = 2, .link = {.latency = 1000}};

static struct {
	struct urxe_sim_end *end;
	uint64_t bytes, first, last;
} seen;

static void watch(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len,
		  uint64_t now)
{
	if (from != seen.end || len < 60 || data[12] != 0x08 || data[13] != 0x00)
		return;
	if (!seen.bytes)
		seen.first = now;
	seen.bytes += len;
	seen.last = now;
}

/* Megabits a second that a is seen to send for 512 KiB in messages of 1 KiB. */
static double measure(struct pair *p, struct ibv_ah *ah, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)p->a.buf, len, p->a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = p->b.qp->qp_num;
		wr.wr.ud.remote_qkey = 0x11111111;
	}
	memset(&seen, 0, sizeof(seen));
	seen.end = p->a.end;
	urxe_sim_tap(p->sim, watch, NULL);
	for (unsigned i = 0, done = 0; done < 512;) {
		while (i < 512 && i - done < 100) {
			/* Full is fine where a message without one is lost. */
			if (pair_recv(&p->b, i, 0, 4096))
				CU_ASSERT(p->a.qp->qp_type != IBV_QPT_RC);
			CU_ASSERT_EQUAL(ibv_post_send(p->a.qp, &wr, &bad), 0);
			i++;
		}
		CU_ASSERT_FATAL(pair_wait(p, p->a.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		done++;
		while (ibv_poll_cq(p->b.cq, 1, &wc) == 1)
			;
	}
	pair_settle(p, 1000000);
	while (ibv_poll_cq(p->b.cq, 1, &wc) == 1)
		;
	urxe_sim_tap(p->sim, NULL, NULL);
	if (seen.last == seen.first)
		return 1e9;
	return (double)seen.bytes * 8e3 / (double)(seen.last - seen.first);
}

static void limited(enum ibv_qp_type type)
{
	struct ibv_qp_rate_limit_attr rl = {.rate_limit = 100000};
	struct ibv_qp_attr a = {.rate_limit = 20000};
	struct ibv_qp_init_attr init;
	struct ibv_ah *ah = NULL;
	struct ibv_ah_attr path;
	struct pair p;
	double mbps;

	pair_open(&p, &params, type);
	pair_meet(&p);
	if (type == IBV_QPT_UD) {
		path = pair_path(&p.a, &p.b);
		ah = ibv_create_ah(p.a.pd, &path);
	}
	mbps = measure(&p, ah, 1000);
	CU_ASSERT(mbps > 1000);
	CU_ASSERT_EQUAL(ibv_modify_qp_rate_limit(p.a.qp, &rl), 0);
	mbps = measure(&p, ah, 1000);
	CU_ASSERT(mbps > 95 && mbps < 108);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_RATE_LIMIT), 0);
	mbps = measure(&p, ah, 1000);
	CU_ASSERT(mbps > 19 && mbps < 21.6);
	CU_ASSERT_EQUAL(ibv_query_qp(p.a.qp, &a, IBV_QP_RATE_LIMIT, &init), 0);
	CU_ASSERT_EQUAL(a.rate_limit, 20000);
	rl.rate_limit = 0;
	CU_ASSERT_EQUAL(ibv_modify_qp_rate_limit(p.a.qp, &rl), 0);
	mbps = measure(&p, ah, 1000);
	CU_ASSERT(mbps > 1000);
	if (ah)
		ibv_destroy_ah(ah);
	pair_close(&p);
}

static void test_rc(void)
{
	limited(IBV_QPT_RC);
}

static void test_uc(void)
{
	limited(IBV_QPT_UC);
}

static void test_ud(void)
{
	limited(IBV_QPT_UD);
}

/* A message of many packets at a slow pace: it takes its time, which nobody takes for a silence. */
static void test_slow(void)
{
	static const uint32_t kbps[] = {1000, 8000, 40000, 100000};

	for (unsigned i = 0; i < sizeof(kbps) / sizeof(kbps[0]); i++) {
		struct ibv_qp_rate_limit_attr rl = {.rate_limit = kbps[i]};
		struct ibv_wc wc;
		struct pair p;

		pair_open(&p, &params, IBV_QPT_RC);
		pair_meet(&p);
		/* The round trip is known after it. */
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.b, 0x40000,
					  IBV_SEND_SIGNALED),
				0);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc));
		CU_ASSERT_EQUAL(ibv_modify_qp_rate_limit(p.a.qp, &rl), 0);
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 200 << 10, &p.b, 0x40000,
					  IBV_SEND_SIGNALED),
				0);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_PROBES), 0);
		CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RETRANSMITS), 0);
		CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TIMEOUTS), 0);
		pair_close(&p);
	}
}

static void test_rules(void)
{
	struct ibv_qp_rate_limit_attr rl = {.rate_limit = 1000};
	struct ibv_device_attr_ex attr;
	struct ibv_qp_attr a = {.rate_limit = 1};
	struct ibv_qp *qp;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_device_ex(p.a.ctx, NULL, &attr), 0);
	CU_ASSERT(attr.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_RATE_LIMIT), EINVAL); /* too little */
	a.rate_limit = attr.packet_pacing_caps.qp_rate_limit_min;
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_RATE_LIMIT), 0);
	a.rate_limit = attr.packet_pacing_caps.qp_rate_limit_max;
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_RATE_LIMIT), 0);
	rl.comp_mask = 1;
	CU_ASSERT_EQUAL(ibv_modify_qp_rate_limit(p.a.qp, &rl), EINVAL);
	rl.comp_mask = 0;
	qp = pair_qp(&p.a, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_modify_qp_rate_limit(qp, &rl), EINVAL); /* in RESET */
	ibv_destroy_qp(qp);
	pair_close(&p);
}

URXE_TEST_MAIN("rate", T(test_rc), T(test_uc), T(test_ud), T(test_slow), T(test_rules))
