/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Congestion control and its QP: an algorithm of the test's own is told what happens, and obeyed.
 * Side a sends, or reads.
 */
#include <string.h>

#include "harness.h"
#include "forge.h"
#include "netio/stack.h"
#include "progress.h"

#define MS 1000000ull

static struct told {
	unsigned started, acked, missing, kept, lost, marked, timeouts, again, undone;
	uint32_t out; /* of the last mark */
	uint64_t now; /* of the last event */
} told;
static struct urxe_cc_allowed allow;

static void told_start(struct urxe_cc *cc)
{
	(void)cc;
	told.started++;
}

static void told_acked(struct urxe_cc *cc, uint32_t packets, uint64_t now)
{
	(void)cc;
	told.acked += packets;
	told.now = now;
}

static void told_missing(struct urxe_cc *cc, uint32_t packets, bool kept, uint64_t now)
{
	(void)cc;
	told.kept += kept;
	told.missing += packets;
	told.now = now;
}

static void told_lost(struct urxe_cc *cc, uint64_t now)
{
	(void)cc;
	told.lost++;
	told.now = now;
}

static void told_marked(struct urxe_cc *cc, uint32_t out, uint64_t now)
{
	(void)cc;
	told.marked++;
	told.out = out;
	told.now = now;
}

static void told_timeout(struct urxe_cc *cc, bool again, uint64_t now)
{
	(void)cc;
	told.timeouts += !again;
	told.again += again;
	told.now = now;
}

static void told_undo(struct urxe_cc *cc)
{
	(void)cc;
	told.undone++;
}

static struct urxe_cc_allowed told_allowed(const struct urxe_cc *cc)
{
	(void)cc;
	return allow;
}

static const struct urxe_cc_ops told_ops = {
	.name = "told",
	.ecn = URXE_ECN_ECT0,
	.start = told_start,
	.acked = told_acked,
	.missing = told_missing,
	.lost = told_lost,
	.marked = told_marked,
	.timeout = told_timeout,
	.undo = told_undo,
	.allowed = told_allowed,
};

/* A pair whose side a works by @ops; b has the window. */
static void open_with(struct pair *p, const struct urxe_cc_ops *ops, bool v6)
{
	struct pair_params pp = {.v6 = v6, .timeout = 16, .link.latency = 1000};

	memset(&told, 0, sizeof(told));
	pair_open(p, &pp, IBV_QPT_RC);
	p->a.dev->cc = ops;
	CU_ASSERT_EQUAL(pair_modify(p->a.qp, IBV_QPS_RESET), 0);
	CU_ASSERT_EQUAL(pair_modify(p->b.qp, IBV_QPS_RESET), 0);
	pair_connect(p, &p->a, p->a.qp, &p->b, p->b.qp, &pp);
	pair_meet(p);
}

static struct urxe_requester *requester(struct pair *p)
{
	return &to_urxe_qp(p->a.qp)->req;
}

static int out(struct pair *p)
{
	return urxe_psn_diff(requester(p)->max_psn, requester(p)->una);
}

static void write_all(struct pair *p, uint32_t len)
{
	CU_ASSERT_EQUAL(
		pair_post(&p->a, IBV_WR_RDMA_WRITE, 1, 0, len, &p->b, 0x40000, IBV_SEND_SIGNALED),
		0);
}

static bool done(struct pair *p)
{
	struct ibv_wc wc;

	return pair_wait(p, p->a.cq, &wc) && wc.status == IBV_WC_SUCCESS;
}

static void test_packets(void)
{
	struct pair p;

	allow = (struct urxe_cc_allowed){.packets = 4};
	open_with(&p, &told_ops, false);
	CU_ASSERT_EQUAL(told.started, 1);
	write_all(&p, 64 << 10);
	CU_ASSERT_EQUAL(out(&p), 4);
	allow.packets = 1;
	CU_ASSERT(done(&p));
	CU_ASSERT_EQUAL(told.acked, 64);
	CU_ASSERT_EQUAL(told.now, urxe_sim_now(p.sim));
	CU_ASSERT_EQUAL(told.lost + told.marked + told.timeouts + told.again + told.undone, 0);
	pair_close(&p);
}

/* The lower of the algorithm's rate and the QP's own. */
static void test_rate(void)
{
	static const struct {
		uint32_t cc, own;
		uint64_t least, most; /* for 128 KiB behind a burst of 16 KiB */
	} t[] = {
		{0, 0, 0, 1 * MS},
		{80000, 0, 11 * MS, 14 * MS},
		{80000, 8000, 110 * MS, 140 * MS},
		{8000, 80000, 110 * MS, 140 * MS},
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ibv_qp_rate_limit_attr rate = {.rate_limit = t[i].own};
		struct pair p;
		uint64_t took;

		allow = (struct urxe_cc_allowed){.packets = 256, .kbps = t[i].cc};
		open_with(&p, &told_ops, false);
		if (t[i].own)
			CU_ASSERT_EQUAL(ibv_modify_qp_rate_limit(p.a.qp, &rate), 0);
		took = urxe_sim_now(p.sim);
		write_all(&p, 128 << 10);
		CU_ASSERT(done(&p));
		took = urxe_sim_now(p.sim) - took;
		CU_ASSERT(took >= t[i].least && took <= t[i].most);
		CU_ASSERT_EQUAL(told.timeouts, 0);
		pair_close(&p);
	}
}

/* ---- losses ---- */

struct loss {
	int psn; /* to be lost, after the first; -1: all */
	unsigned times;
	uint32_t first;
};

static bool pass(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	struct loss *l = arg;
	struct urxe_frame f = {.data = (uint8_t *)(uintptr_t)data, .len = len};
	uint32_t at = urxe_frame_roce(&f);

	(void)from;
	if (!at || !l->times ||
	    (l->psn >= 0 && urxe_psn_diff(urxe_bth_psn(data + at), l->first) != l->psn))
		return true;
	l->times--;
	return false;
}

static void lose(int psn, unsigned times, uint32_t len)
{
	struct loss l = {.psn = psn, .times = times};
	struct pair p;

	allow = (struct urxe_cc_allowed){.packets = 64};
	open_with(&p, &told_ops, false);
	/* The round trip is known after it. */
	write_all(&p, 8);
	CU_ASSERT(done(&p));
	memset(&told, 0, sizeof(told));
	l.first = requester(&p)->next_psn;
	urxe_sim_filter(p.sim, pass, &l);
	write_all(&p, len);
	CU_ASSERT(done(&p));
	urxe_sim_filter(p.sim, NULL, NULL);
	pair_close(&p);
}

static void test_losses(void)
{
	/* A gap, which is reported. */
	lose(3, 1, 8 << 10);
	CU_ASSERT_EQUAL(told.missing, 1);
	CU_ASSERT_EQUAL(told.kept, 1);
	CU_ASSERT_EQUAL(told.lost, 0);
	CU_ASSERT_EQUAL(told.timeouts, 0);
	CU_ASSERT_EQUAL(told.acked, 8);
	/* Silence: one question is free. */
	lose(-1, 3, 8);
	CU_ASSERT_EQUAL(told.lost, 0);
	CU_ASSERT_EQUAL(told.timeouts, 1);
	CU_ASSERT_EQUAL(told.again, 1);
	CU_ASSERT_EQUAL(told.undone, 0);
}

/* ---- marks ---- */

static uint8_t ecn_of(const struct raw_seen *s)
{
	uint8_t l3[2] = {s->frame[14], s->frame[15]};

	return (l3[0] >> 4 == 4 ? l3[1] : l3[1] >> 4) & URXE_ECN_MASK;
}

static void codepoint(const struct urxe_cc_ops *ops, bool v6, uint8_t ecn)
{
	struct raw_log log;
	const struct raw_seen *s;
	struct pair p;
	unsigned at = 0;

	allow = (struct urxe_cc_allowed){.packets = 64};
	open_with(&p, ops, v6);
	raw_log_start(&log, &p);
	write_all(&p, 8);
	CU_ASSERT(done(&p));
	s = raw_log_find(&log, &p.a, RC(WRITE_ONLY), &at);
	CU_ASSERT(s && ecn_of(s) == ecn);
	/* b has the window. */
	at = 0;
	s = raw_log_find(&log, &p.b, ACK, &at);
	CU_ASSERT(s && ecn_of(s) == URXE_ECN_NONE);
	raw_log_stop(&log);
	pair_close(&p);
}

/* What the algorithm asks for; else what the application's traffic class has. */
static void test_codepoint(void)
{
	static const struct {
		uint8_t traffic_class, ecn, sent;
	} t[] = {
		{0x00, URXE_ECN_NONE, 0x00}, {0x69, URXE_ECN_NONE, 0x69},
		{0x68, URXE_ECN_ECT0, 0x6a}, {0x69, URXE_ECN_ECT0, 0x6a},
		{0xff, URXE_ECN_ECT1, 0xfd},
	};
	struct pair p;

	codepoint(&told_ops, false, URXE_ECN_ECT0);
	codepoint(&told_ops, true, URXE_ECN_ECT0);
	codepoint(&urxe_cc_window_ops, false, URXE_ECN_NONE);
	codepoint(&urxe_cc_window_ops, true, URXE_ECN_NONE);
	open_with(&p, &told_ops, false);
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ibv_ah_attr ah = pair_path(&p.a, &p.b);
		struct urxe_path *path;

		ah.grh.traffic_class = t[i].traffic_class;
		CU_ASSERT_EQUAL_FATAL(urxe_path_from_ah(p.a.dev, &ah, 0xc000, t[i].ecn, &path), 0);
		CU_ASSERT_EQUAL(path->hdr[path->l3_off - PATH_MACS + 1], t[i].sent);
		urxe_path_destroy(path);
	}
	pair_close(&p);
}

/* A packet as from b, with marks. */
static void put(struct pair *p, const struct raw_pkt *pkt, uint8_t ecn)
{
	uint8_t frame[2048];
	uint32_t len = raw_frame(&p->b, &p->a, pkt, frame);

	frame[15] |= ecn;
	raw_reseal(frame, len);
	urxe_sim_put(p->a.end, frame, len);
	urxe_progress_turn(p->a.dev);
}

/* CNPs count that come from the peer, to a QP that sends. */
static void test_cnp(void)
{
	struct raw_pkt cnp = {.opcode = URXE_OPCODE_CNP};
	struct loss all = {.psn = -1, .times = UINT32_MAX};
	struct pair p;

	allow = (struct urxe_cc_allowed){.packets = 64};
	open_with(&p, &told_ops, false);
	urxe_sim_filter(p.sim, pass, &all);
	write_all(&p, 5 << 10);
	put(&p, &cnp, 0);
	CU_ASSERT_EQUAL(told.marked, 1);
	CU_ASSERT_EQUAL(told.out, 5);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_CNP), 1);
	cnp.src_ip = 0x0a000077;
	put(&p, &cnp, 0);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_WRONG_PEER), 1);
	cnp.src_ip = 0;
	cnp.cut = 4;
	put(&p, &cnp, 0);
	cnp.cut = 0;
	cnp.len = 4;
	put(&p, &cnp, 0);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_BAD_LENGTH), 2);
	cnp.len = 0;
	cnp.opcode = URXE_OPCODE_CNP + 1;
	put(&p, &cnp, 0);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_BAD_OPCODE), 1);
	cnp.opcode = URXE_OPCODE_CNP;
	CU_ASSERT_EQUAL(told.marked, 1);
	/* A QP that failed has nothing to slow down. */
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_ERR), 0);
	put(&p, &cnp, 0);
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_RESET), 0);
	put(&p, &cnp, 0);
	CU_ASSERT_EQUAL(told.marked, 1);
	urxe_sim_filter(p.sim, NULL, NULL);
	pair_close(&p);
}

static void test_cnp_other_types(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};

	for (unsigned i = 0; i < 2; i++) {
		struct raw_pkt cnp = {.opcode = URXE_OPCODE_CNP};
		struct pair_params pp = {0};
		struct pair p;

		pair_open(&p, &pp, types[i]);
		raw_send(&p.b, &p.a, &cnp);
		CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_CNP), types[i] == IBV_QPT_UC);
		CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_WRONG_TYPE), types[i] == IBV_QPT_UD);
		CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_RTS);
		pair_close(&p);
	}
}

/* A mark on READ responses is about what we asked for; on ACKs and requests it is not. */
static void test_marks(void)
{
	struct loss all = {.psn = -1, .times = UINT32_MAX};
	struct raw_pkt resp = {.opcode = RC(READ_RESPONSE_FIRST), .len = 1024, .syndrome = OK_AETH};
	struct raw_pkt ack = {.opcode = ACK, .syndrome = OK_AETH};
	struct raw_pkt req = {.opcode = RC(WRITE_ONLY), .psn = 1000};
	struct pair p;

	allow = (struct urxe_cc_allowed){.packets = 64};
	open_with(&p, &told_ops, false);
	urxe_sim_filter(p.sim, pass, &all);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_READ, 1, 0, 4096, &p.b, 0, 0), 0);
	resp.psn = requester(&p)->una;
	put(&p, &resp, URXE_ECN_ECT0);
	CU_ASSERT_EQUAL(told.marked, 0);
	CU_ASSERT_EQUAL(told.acked, 1);
	resp.psn++;
	resp.opcode = RC(READ_RESPONSE_MIDDLE);
	put(&p, &resp, URXE_ECN_CE);
	CU_ASSERT_EQUAL(told.marked, 1);
	CU_ASSERT_EQUAL(told.acked, 2);
	ack.psn = resp.psn;
	put(&p, &ack, URXE_ECN_CE);
	put(&p, &req, URXE_ECN_CE);
	CU_ASSERT_EQUAL(told.marked, 1);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_ECN_MARKED), 3);
	urxe_sim_filter(p.sim, NULL, NULL);
	pair_close(&p);
}

URXE_TEST_MAIN("cc", T(test_packets), T(test_rate), T(test_losses), T(test_codepoint), T(test_cnp),
	       T(test_cnp_other_types), T(test_marks))
