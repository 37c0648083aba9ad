/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * flush-icrc of provider/quirks.md: peers that count a FLUSH's headers twice in its ICRC, and drop
 * one that does not. Side a asks; b is such a peer, or one that takes the standard form alone, as
 * the frames that are lost on the way to it make it.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "netio/stack.h"
#include "forge.h"
#include "urxedv.h"

#define MS    1000000ull
#define FLUSH RC(FLUSH)
#define ACCESS                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | URXEDV_ACCESS_FLUSH_GLOBAL | \
	 URXEDV_ACCESS_FLUSH_PERSISTENT)

enum form {
	STANDARD,
	TWICE,
	FORMS
};

struct rig {
	struct pair p;
	struct ibv_qp_ex *a, *b;
	struct ibv_mr *mr; /* of a file, at b */
	void *mem;
	unsigned lose[FORMS]; /* FLUSHes to b of that form that are lost from now on */
	unsigned sent[FORMS]; /* that came by */
};

/* A frame's form, or FORMS when it is no FLUSH. */
static enum form form_of(const uint8_t *data, uint32_t len)
{
	struct urxe_frame f = {.data = (uint8_t *)(uintptr_t)data, .len = len};
	uint32_t at = urxe_frame_roce(&f), n = len - at - URXE_ICRC_LEN;
	const uint8_t *l3 = data + ETH_LEN;
	uint32_t crc = urxe_icrc_get(data + len - URXE_ICRC_LEN);

	if (!at || data[at] != FLUSH)
		return FORMS;
	if (crc == urxe_icrc(l3, true, n))
		return STANDARD;
	/* Once masked from the IP header on, once more as they are. */
	CU_ASSERT_EQUAL(crc, urxe_icrc_more(urxe_icrc(l3, true, n), data + at, n));
	return TWICE;
}

static bool pass(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	struct rig *r = arg;
	enum form form = from == r->p.a.end ? form_of(data, len) : FORMS;

	if (form == FORMS)
		return true;
	r->sent[form]++;
	if (!r->lose[form])
		return true;
	if (r->lose[form] != UINT32_MAX)
		r->lose[form]--;
	return false;
}

static struct ibv_qp_ex *flush_qp(struct side *s)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 64, .max_recv_wr = 4, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = URXEDV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.pd = s->pd};

	return ibv_qp_to_qp_ex(ibv_create_qp_ex(s->ctx, &init));
}

static void rig_open(struct rig *r, uint8_t retries)
{
	struct pair_params pp = {.seed = 3,
				 .link = {.latency = 5000},
				 .timeout = 12, /* 16.8 ms */
				 .set_retries = true,
				 .retry_cnt = retries};
	struct ibv_qp_attr attr = {.qp_access_flags = ACCESS};
	int fd = memfd_create("flush", 0);

	memset(r, 0, sizeof(*r));
	CU_ASSERT_EQUAL(ftruncate(fd, 4096), 0);
	r->mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	pair_open(&r->p, &pp, IBV_QPT_RC);
	r->a = flush_qp(&r->p.a);
	r->b = flush_qp(&r->p.b);
	pair_connect(&r->p, &r->p.a, &r->a->qp_base, &r->p.b, &r->b->qp_base, &pp);
	CU_ASSERT_EQUAL(ibv_modify_qp(&r->a->qp_base, &attr, IBV_QP_ACCESS_FLAGS), 0);
	CU_ASSERT_EQUAL(ibv_modify_qp(&r->b->qp_base, &attr, IBV_QP_ACCESS_FLAGS), 0);
	r->mr = ibv_reg_mr(r->p.b.pd, r->mem, 4096, ACCESS);
	CU_ASSERT_FATAL(r->mr != NULL);
	pair_meet(&r->p);
	urxe_sim_filter(r->p.sim, pass, r);
}

static void rig_close(struct rig *r)
{
	urxe_sim_filter(r->p.sim, NULL, NULL);
	ibv_destroy_qp(&r->a->qp_base);
	ibv_destroy_qp(&r->b->qp_base);
	ibv_dereg_mr(r->mr);
	munmap(r->mem, 4096);
	pair_close(&r->p);
}

static void ask(struct ibv_qp_ex *x, struct ibv_mr *mr, void *at, uint8_t placement)
{
	ibv_wr_start(x);
	x->wr_flags = IBV_SEND_SIGNALED;
	urxedv_wr_flush(x, mr->rkey, (uintptr_t)at, 8, placement, URXEDV_FLUSH_RANGE);
	CU_ASSERT_EQUAL(ibv_wr_complete(x), 0);
}

/* A FLUSH of a's; it ends so. */
static void flush(struct rig *r, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	ask(r->a, r->mr, r->mem, URXEDV_FLUSH_GLOBAL);
	CU_ASSERT(pair_wait(&r->p, r->p.a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, status);
}

static uint64_t timeouts(struct rig *r)
{
	return pair_stat(&r->p.a, URXE_STAT_TIMEOUTS);
}

static bool sent(const struct rig *r, unsigned standard, unsigned twice)
{
	if (r->sent[STANDARD] == standard && r->sent[TWICE] == twice)
		return true;
	printf("\n    sent %u standard, %u twice; expected %u, %u\n", r->sent[STANDARD],
	       r->sent[TWICE], standard, twice);
	return false;
}

/* ---- sending ---- */

/* One time-out tells; all later FLUSHes of the QP go out as the peer likes them. */
static void test_fall_back_once(void)
{
	struct rig r;

	rig_open(&r, 7);
	r.lose[STANDARD] = UINT32_MAX;
	flush(&r, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(timeouts(&r), 1);
	CU_ASSERT_EQUAL(r.sent[TWICE], 1);
	r.sent[STANDARD] = 0;
	for (unsigned i = 0; i < 5; i++)
		flush(&r, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(timeouts(&r), 1);
	CU_ASSERT(sent(&r, 0, 6));
	rig_close(&r);
}

/* A peer of the standard gets nothing else, whatever else is lost later. */
static void test_standard_stays(void)
{
	struct rig r;

	rig_open(&r, 7);
	r.lose[TWICE] = UINT32_MAX;
	flush(&r, IBV_WC_SUCCESS);
	r.lose[STANDARD] = 12;
	flush(&r, IBV_WC_SUCCESS);
	CU_ASSERT(timeouts(&r) >= 1);
	CU_ASSERT_EQUAL(r.sent[TWICE], 0);
	rig_close(&r);
}

/*
 * Whichever is the peer's form, loss may speak against it, and is got over. (Probes are none here:
 * no round trip is known.)
 */
static void test_loss(void)
{
	for (unsigned mine = STANDARD; mine < FORMS; mine++) {
		struct rig r;

		rig_open(&r, 7);
		r.lose[!mine] = UINT32_MAX;
		r.lose[mine] = 2;
		flush(&r, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(timeouts(&r), mine == STANDARD ? 4 : 5);
		flush(&r, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(timeouts(&r), mine == STANDARD ? 4 : 5);
		rig_close(&r);
	}
}

/*
 * An answer that comes late, to the form that was sent first, says nothing of the one sent last:
 * the next FLUSH finds it out.
 */
static void test_slow_peer(void)
{
	struct urxe_sim_params slow = {.latency = 20 * MS}, quick = {.latency = 5000};
	struct rig r;

	rig_open(&r, 7);
	r.lose[TWICE] = UINT32_MAX;
	urxe_sim_end_params(r.p.b.end, &slow);
	flush(&r, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(timeouts(&r), 1);
	CU_ASSERT(sent(&r, 1, 1));
	urxe_sim_end_params(r.p.b.end, &quick);
	for (unsigned i = 0; i < 5; i++)
		flush(&r, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(timeouts(&r), 2);
	CU_ASSERT_EQUAL(r.sent[STANDARD], 6);
	rig_close(&r);
}

/* A peer that is gone: as many time-outs as of any request; and without a retry there is no other.
 */
static void test_dead_peer(void)
{
	for (uint8_t retries = 0; retries <= 7; retries++) {
		struct rig r;

		rig_open(&r, retries);
		r.lose[STANDARD] = r.lose[TWICE] = UINT32_MAX;
		flush(&r, IBV_WC_RETRY_EXC_ERR);
		CU_ASSERT_EQUAL(timeouts(&r), retries + 1u);
		CU_ASSERT(sent(&r, 1 + retries / 2u, (retries + 1u) / 2));
		rig_close(&r);
	}
}

/* Another request is silent: that is no FLUSH's fault. */
static bool lose_writes(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	struct rig *r = arg;
	struct urxe_frame f = {.data = (uint8_t *)(uintptr_t)data, .len = len};
	uint32_t at = urxe_frame_roce(&f);

	if (from == r->p.a.end && at && data[at] == RC(WRITE_ONLY) && r->lose[STANDARD]) {
		r->lose[STANDARD]--;
		return false;
	}
	if (from == r->p.a.end && form_of(data, len) != FORMS)
		r->sent[form_of(data, len)]++;
	return true;
}

static void test_behind_a_write(void)
{
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r, 7);
	urxe_sim_filter(r.p.sim, lose_writes, &r);
	r.lose[STANDARD] = 2;
	ibv_wr_start(r.a);
	r.a->wr_flags = 0;
	ibv_wr_rdma_write(r.a, r.mr->rkey, (uintptr_t)r.mem);
	ibv_wr_set_sge(r.a, r.p.a.mr->lkey, (uintptr_t)r.p.a.buf, 8);
	CU_ASSERT_EQUAL(ibv_wr_complete(r.a), 0);
	ask(r.a, r.mr, r.mem, URXEDV_FLUSH_GLOBAL);
	CU_ASSERT(pair_wait(&r.p, r.p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(!r.lose[STANDARD] && r.sent[STANDARD] && !r.sent[TWICE]);
	rig_close(&r);
}

/* ---- receiving ---- */

/* What comes from the peer tells what it wants; also when it had to wait behind another one. */
static void test_learn_from_peer(void)
{
	for (unsigned how = 0; how < 2; how++) {
		struct ibv_mr *mr;
		struct ibv_wc wc;
		struct rig r;
		unsigned n = how ? 3 : 1;

		rig_open(&r, 7);
		mr = ibv_reg_mr(r.p.a.pd, r.mem, 4096, ACCESS);
		CU_ASSERT_FATAL(mr != NULL);
		to_urxe_qp(&r.b->qp_base)->req.flush_form = URXE_FLUSH_TWICE;
		for (unsigned i = 0; i < n; i++)
			ask(r.b, mr, r.mem, how ? URXEDV_FLUSH_PERSISTENT : URXEDV_FLUSH_GLOBAL);
		for (unsigned i = 0; i < n; i++) {
			CU_ASSERT(pair_wait(&r.p, r.p.b.cq, &wc));
			CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		}
		CU_ASSERT_EQUAL(pair_counter(&r.p.a, "rx_icrc"), 0);
		CU_ASSERT_EQUAL(to_urxe_qp(&r.a->qp_base)->req.flush_form, URXE_FLUSH_TWICE);
		r.lose[STANDARD] = UINT32_MAX;
		flush(&r, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(timeouts(&r), 0);
		CU_ASSERT(sent(&r, 0, 1));
		ibv_dereg_mr(mr);
		rig_close(&r);
	}
}

/* The other sum is for FLUSHes alone, of RC and XRC, and no licence for wrong ones. */
static void test_only_flush(void)
{
	static const struct {
		uint8_t opcode;
		bool spoil, taken;
	} cases[] = {
		{RC(FLUSH), false, true},	  {URXE_SVC_XRC | URXE_OP_FLUSH, false, true},
		{RC(FLUSH), true, false},	  {RC(READ_REQUEST), false, false},
		{RC(ATOMIC_WRITE), false, false}, {RC(SEND_ONLY), false, false},
		{UD(FLUSH), false, false},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct raw_pkt k = {.opcode = cases[i].opcode, .dqpn = 0x123456};
		uint8_t f[256], *bth;
		uint32_t len;
		struct rig r;

		rig_open(&r, 7);
		len = raw_frame(&r.p.a, &r.p.b, &k, f);
		bth = raw_bth(f);
		urxe_icrc_put(f + len - URXE_ICRC_LEN,
			      urxe_icrc_more(urxe_icrc_get(f + len - URXE_ICRC_LEN), bth,
					     (uint32_t)(f + len - bth) - URXE_ICRC_LEN));
		if (cases[i].spoil)
			bth[URXE_BTH_LEN + 5] ^= 1;
		urxe_sim_put(r.p.b.end, f, len);
		pair_settle(&r.p, MS);
		CU_ASSERT_EQUAL(pair_counter(&r.p.b, "rx_icrc"), !cases[i].taken);
		CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_NO_QP), cases[i].taken);
		rig_close(&r);
	}
}

URXE_TEST_MAIN("flush", T(test_fall_back_once), T(test_standard_stays), T(test_loss),
	       T(test_slow_peer), T(test_dead_peer), T(test_behind_a_write),
	       T(test_learn_from_peer), T(test_only_flush))
