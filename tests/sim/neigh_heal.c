/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A neighbour whose MAC was learned wrongly, or has changed, under a connected QP: the
 * retransmission time-out has netio ask again, and the QP lives.
 */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

static const struct pair_params params = {.seed = 7, .link = {.latency = 5000}, .timeout = 12};

/* Somebody claims b's address. */
static void poison(struct pair *p, struct urxe_sim_end *evil)
{
	struct urxe_port_info info;
	uint8_t f[60] = {0};

	urxe_port_query(p->a.dev->port, &info);
	memcpy(f, info.mac, 6);
	memcpy(f + 6, "\x02\xee\xee\xee\xee\xee", 6);
	memcpy(f + 12, "\x08\x06\x00\x01\x08\x00\x06\x04\x00\x02", 10);
	memcpy(f + 22, f + 6, 6);
	memcpy(f + 28, "\x0a\x00\x00\x02", 4);
	memcpy(f + 32, info.mac, 6);
	memcpy(f + 38, "\x0a\x00\x00\x01", 4);
	CU_ASSERT_EQUAL(urxe_sim_send(evil, f, sizeof(f)), 0);
	pair_settle(p, 100000);
}

static const uint8_t evil_mac[6] = {0x02, 0xee, 0xee, 0xee, 0xee, 0xee};

/* Does a send to @mac for b's address? */
static bool is_known_as(struct pair *p, const uint8_t *mac)
{
	struct ibv_ah_attr ah = pair_path(&p->a, &p->b);
	uint8_t known[6];

	return !urxe_port_resolve(p->a.dev->port, 0, ah.grh.dgid.raw, known) &&
	       !memcmp(known, mac, 6);
}

static void write_through(struct pair *p)
{
	struct ibv_wc wc;

	CU_ASSERT_EQUAL(pair_post(&p->a, IBV_WR_RDMA_WRITE, 1, 0, 100, &p->b, 0, IBV_SEND_SIGNALED),
			0);
	CU_ASSERT_FATAL(pair_wait(p, p->a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
}

static void end_of(struct pair *p, struct urxe_sim_end *evil)
{
	static uint8_t frame[2048];

	ibv_destroy_qp(p->b.qp); /* which has a last word */
	p->b.qp = NULL;
	pair_settle(p, 1000000);
	while (urxe_sim_recv(evil, frame, sizeof(frame)))
		;
	pair_close(p);
}

/* b is there to say that it has the address, each time: nothing is lost. */
static void test_poisoned(void)
{
	struct urxe_port_info info;
	struct urxe_sim_end *evil;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	pair_meet(&p);
	evil = urxe_sim_end(p.sim, &params.link);
	urxe_port_query(p.b.dev->port, &info);
	for (unsigned i = 0; i < 5; i++) {
		pair_settle(&p, 1500000000);
		poison(&p, evil);
		write_through(&p);
		CU_ASSERT(is_known_as(&p, info.mac));
	}
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TIMEOUTS), 0);
	end_of(&p, evil);
}

/* b was away when it was asked, so that somebody else is believed. */
static void test_mistaken(void)
{
	struct urxe_sim_end *evil;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	pair_meet(&p);
	evil = urxe_sim_end(p.sim, &params.link);
	pair_settle(&p, 1500000000);
	urxe_sim_end_up(p.b.end, false);
	poison(&p, evil);
	pair_settle(&p, 1500000000);
	CU_ASSERT(is_known_as(&p, evil_mac));
	urxe_sim_end_up(p.b.end, true);
	write_through(&p);
	CU_ASSERT(pair_stat(&p.a, URXE_STAT_TIMEOUTS) > 0);
	CU_ASSERT(!is_known_as(&p, evil_mac));
	end_of(&p, evil);
}

/* Nobody answers at all: questions are asked, but not one a time-out of each QP. */
static void test_bounded(void)
{
	struct pair_params pp = params;
	uint64_t asked, timeouts;
	struct ibv_wc wc;
	struct ibv_qp *qps[16], *qpb[16];
	struct pair p;

	pp.timeout = 8; /* 1 ms: raised to the least that we wait */
	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned i = 0; i < 16; i++) {
		qps[i] = pair_qp(&p.a, &pp, IBV_QPT_RC);
		qpb[i] = pair_qp(&p.b, &pp, IBV_QPT_RC);
		pair_connect(&p, &p.a, qps[i], &p.b, qpb[i], &pp);
	}
	urxe_sim_end_up(p.b.end, false);
	asked = pair_counter(&p.a, "neigh_asked");
	for (unsigned i = 0; i < 16; i++) {
		struct ibv_qp *own = p.a.qp;

		p.a.qp = qps[i];
		pair_post(&p.a, IBV_WR_RDMA_WRITE, i, 0, 100, &p.b, 0, IBV_SEND_SIGNALED);
		p.a.qp = own;
	}
	for (unsigned i = 0; i < 16; i++) {
		CU_ASSERT_FATAL(pair_wait(&p, p.a.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, IBV_WC_RETRY_EXC_ERR);
	}
	timeouts = pair_stat(&p.a, URXE_STAT_TIMEOUTS);
	asked = pair_counter(&p.a, "neigh_asked") - asked;
	CU_ASSERT(timeouts >= 16 * 8);
	CU_ASSERT(asked >= 1 && asked <= 8);
	for (unsigned i = 0; i < 16; i++) {
		ibv_destroy_qp(qps[i]);
		ibv_destroy_qp(qpb[i]);
	}
	pair_close(&p);
}

/* Long after the start: questions that go unanswered are asked again, groups joined are reported.
 */
static void test_late(void)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	struct ibv_ah_attr path;
	struct ibv_ah *ah;
	uint64_t asked, reports;
	uint8_t mac[6];
	struct pair p;

	pair_open(&p, &params, IBV_QPT_UD);
	pair_settle(&p, 20000000000ull);
	asked = pair_counter(&p.a, "neigh_asked");
	path = pair_path(&p.a, &p.b);
	path.grh.dgid.raw[15] = 77; /* nobody */
	ah = ibv_create_ah(p.a.pd, &path);
	CU_ASSERT_EQUAL(urxe_port_resolve(p.a.dev->port, 0, path.grh.dgid.raw, mac), EINPROGRESS);
	pair_settle(&p, 10000000000ull);
	CU_ASSERT_EQUAL(pair_counter(&p.a, "neigh_asked"), asked + 5);
	CU_ASSERT_EQUAL(urxe_port_resolve(p.a.dev->port, 0, path.grh.dgid.raw, mac), EHOSTUNREACH);
	reports = pair_counter(&p.a, "group_reports");
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.a.qp, &g, 0), 0);
	pair_settle(&p, 10000000000ull);
	CU_ASSERT_EQUAL(pair_counter(&p.a, "group_reports"), reports + 2);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.a.qp, &g, 0), 0);
	pair_settle(&p, 10000000000ull);
	CU_ASSERT_EQUAL(pair_counter(&p.a, "group_reports"), reports + 4);
	ibv_destroy_ah(ah);
	pair_close(&p);
}

URXE_TEST_MAIN("neigh_heal", T(test_poisoned), T(test_mistaken), T(test_bounded), T(test_late))
