/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Extended CQs: polling by steps and what can be read, time stamps; moderation of events; the end
 * of a CQ that is too small.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "harness.h"
#include "pair.h"
#include "progress.h"

#define ALL_FIELDS (IBV_CREATE_CQ_SUP_WC_FLAGS & ~(uint64_t)IBV_WC_EX_WITH_TM_INFO)

struct rig {
	struct pair p;
	struct ibv_cq_ex *cq; /* of b */
	struct ibv_comp_channel *ch;
};

/* b's QP with a CQ of the kind wanted. */
static void rig_open(struct rig *r, struct ibv_cq_init_attr_ex *attr, bool channel)
{
	struct pair_params pp = {.seed = 7, .link = {.latency = 5000}};
	struct ibv_cq *plain;

	memset(r, 0, sizeof(*r));
	pair_open(&r->p, &pp, IBV_QPT_RC);
	ibv_destroy_qp(r->p.a.qp);
	ibv_destroy_qp(r->p.b.qp);
	if (channel) {
		r->ch = urxe_channel_create(r->p.b.ctx);
		CU_ASSERT_FATAL(r->ch != NULL);
		fcntl(r->ch->fd, F_SETFL, O_NONBLOCK);
		attr->channel = r->ch;
	}
	r->cq = ibv_create_cq_ex(r->p.b.ctx, attr);
	CU_ASSERT_FATAL(r->cq != NULL);
	plain = r->p.b.cq;
	r->p.b.cq = ibv_cq_ex_to_cq(r->cq);
	r->p.a.qp = pair_qp(&r->p.a, &pp, IBV_QPT_RC);
	r->p.b.qp = pair_qp(&r->p.b, &pp, IBV_QPT_RC);
	pair_connect(&r->p, &r->p.a, r->p.a.qp, &r->p.b, r->p.b.qp, &pp);
	r->p.b.cq = plain;
}

static void rig_close(struct rig *r)
{
	ibv_destroy_qp(r->p.b.qp);
	r->p.b.qp = NULL;
	CU_ASSERT_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(r->cq)), 0);
	if (r->ch)
		CU_ASSERT_EQUAL(urxe_channel_destroy(r->ch), 0);
	pair_close(&r->p);
}

static void sends_of(struct rig *r, enum ibv_wr_opcode opcode, unsigned n, unsigned flags)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < n; i++) {
		CU_ASSERT_EQUAL(pair_recv(&r->p.b, 100 + i, 0x1000, 256), 0);
		CU_ASSERT_EQUAL(pair_post(&r->p.a, opcode, i, 0, 50 + i, &r->p.b, 0,
					  IBV_SEND_SIGNALED | flags),
				0);
		CU_ASSERT(pair_wait(&r->p, r->p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	}
}

static void sends(struct rig *r, unsigned n, unsigned flags)
{
	sends_of(r, IBV_WR_SEND_WITH_IMM, n, flags);
}

/* A SEND's completion is written where it lies, that of one with more is not. */
static void check_fields(enum ibv_wr_opcode opcode)
{
	const bool imm = opcode == IBV_WR_SEND_WITH_IMM;
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = ALL_FIELDS};
	struct ibv_poll_cq_attr none = {0}, bad = {.comp_mask = 1};
	uint64_t before, stamp, wall;
	struct timespec now;
	struct rig r;

	rig_open(&r, &attr, false);
	CU_ASSERT_EQUAL(ibv_start_poll(r.cq, &none), ENOENT);
	CU_ASSERT_EQUAL(ibv_start_poll(r.cq, &bad), EINVAL);
	before = urxe_port_now(r.p.b.dev->port);
	sends_of(&r, opcode, 3, 0);
	CU_ASSERT_EQUAL(ibv_start_poll(r.cq, &none), 0);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(r.cq->wr_id, 100 + i);
		CU_ASSERT_EQUAL(r.cq->status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(ibv_wc_read_opcode(r.cq), IBV_WC_RECV);
		CU_ASSERT_EQUAL(ibv_wc_read_byte_len(r.cq), 50 + i);
		CU_ASSERT_EQUAL(ibv_wc_read_imm_data(r.cq), imm ? htobe32(0x12345678) : 0);
		CU_ASSERT_EQUAL(ibv_wc_read_wc_flags(r.cq), imm ? IBV_WC_WITH_IMM : 0);
		CU_ASSERT_EQUAL(ibv_wc_read_qp_num(r.cq), r.p.b.qp->qp_num);
		CU_ASSERT_EQUAL(ibv_wc_read_src_qp(r.cq), r.p.a.qp->qp_num);
		CU_ASSERT_EQUAL(ibv_wc_read_vendor_err(r.cq), 0);
		CU_ASSERT_EQUAL(ibv_wc_read_slid(r.cq), 0);
		CU_ASSERT_EQUAL(ibv_wc_read_sl(r.cq), 0);
		CU_ASSERT_EQUAL(ibv_wc_read_dlid_path_bits(r.cq), 0);
		CU_ASSERT_EQUAL(ibv_wc_read_cvlan(r.cq), 0);
		CU_ASSERT_EQUAL(ibv_wc_read_flow_tag(r.cq), 0);
		stamp = ibv_wc_read_completion_ts(r.cq);
		CU_ASSERT(stamp > before && stamp <= urxe_port_now(r.p.b.dev->port));
		before = stamp;
		wall = ibv_wc_read_completion_wallclock_ns(r.cq);
		clock_gettime(CLOCK_REALTIME, &now);
		CU_ASSERT(wall <= (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
		CU_ASSERT(wall > ((uint64_t)now.tv_sec - 3600) * 1000000000u);
		CU_ASSERT_EQUAL(ibv_next_poll(r.cq), i < 2 ? 0 : ENOENT);
	}
	ibv_end_poll(r.cq);
	CU_ASSERT_EQUAL(ibv_start_poll(r.cq, &none), ENOENT);
	/* The plain way works on it too. */
	sends_of(&r, opcode, 1, 0);
	struct ibv_wc wc;
	CU_ASSERT_EQUAL(ibv_poll_cq(ibv_cq_ex_to_cq(r.cq), 1, &wc), 1);
	CU_ASSERT_EQUAL(wc.wr_id, 100);
	rig_close(&r);
}

static void test_fields(void)
{
	check_fields(IBV_WR_SEND);
	check_fields(IBV_WR_SEND_WITH_IMM);
}

static void test_create(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16};
	struct ibv_cq_ex *cq;
	struct pair_params pp = {.seed = 1};
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
#define REFUSED(err)                                                  \
	do {                                                          \
		errno = 0;                                            \
		CU_ASSERT_PTR_NULL(ibv_create_cq_ex(p.a.ctx, &attr)); \
		CU_ASSERT_EQUAL(errno, err);                          \
	} while (0)
	attr.wc_flags = IBV_WC_EX_WITH_TM_INFO;
	REFUSED(EOPNOTSUPP);
	attr.wc_flags = 1ull << 50;
	REFUSED(EOPNOTSUPP);
	attr.wc_flags = 0;
	attr.comp_mask = 1 << 5;
	REFUSED(EOPNOTSUPP);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 1 << 5;
	REFUSED(EOPNOTSUPP);
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	cq = ibv_create_cq_ex(p.a.ctx, &attr);
	CU_ASSERT(cq && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	attr.cqe = 0;
	REFUSED(EINVAL);
	attr.cqe = URXE_MAX_CQE;
	REFUSED(EINVAL);
	attr.cqe = 1;
	attr.comp_vector = (uint32_t)p.a.ctx->num_comp_vectors;
	REFUSED(EINVAL);
	pair_close(&p);
}

static unsigned events(struct rig *r)
{
	struct ibv_cq *cq;
	unsigned n = 0;
	void *ctx;

	while (!ibv_get_cq_event(r->ch, &cq, &ctx)) {
		ibv_ack_cq_events(cq, 1);
		n++;
	}
	return n;
}

static void moderate(struct rig *r, uint16_t count, uint16_t us)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {count, us}};

	CU_ASSERT_EQUAL(ibv_modify_cq(ibv_cq_ex_to_cq(r->cq), &attr), 0);
}

/* Nothing but time goes by: @us of it. */
static void idle(struct rig *r, uint64_t us)
{
	uint64_t end = urxe_sim_now(r->p.sim) + us * 1000;

	while (urxe_sim_now(r->p.sim) < end) {
		urxe_sim_advance(r->p.sim, urxe_sim_now(r->p.sim) + 1000);
		urxe_progress_turn(r->p.a.dev);
		urxe_progress_turn(r->p.b.dev);
	}
}

static void test_moderation(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64};
	struct ibv_modify_cq_attr bad = {.attr_mask = 2};
	struct ibv_cq *cq;
	struct rig r;

	rig_open(&r, &attr, true);
	cq = ibv_cq_ex_to_cq(r.cq);
	CU_ASSERT_EQUAL(ibv_modify_cq(cq, &bad), EINVAL);
	bad.attr_mask = 0;
	CU_ASSERT_EQUAL(ibv_modify_cq(cq, &bad), EINVAL);
	/* Without: at once. */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	sends(&r, 1, 0);
	CU_ASSERT_EQUAL(events(&r), 1);
	/* After four, or 60 ms after the first. */
	moderate(&r, 4, 60000);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	sends(&r, 3, 0);
	CU_ASSERT_EQUAL(events(&r), 0);
	sends(&r, 1, 0);
	CU_ASSERT_EQUAL(events(&r), 1);
	sends(&r, 4, 0); /* nobody asked */
	CU_ASSERT_EQUAL(events(&r), 0);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	sends(&r, 2, 0);
	idle(&r, 50000);
	CU_ASSERT_EQUAL(events(&r), 0);
	idle(&r, 11000);
	CU_ASSERT_EQUAL(events(&r), 1);
	idle(&r, 200000);
	CU_ASSERT_EQUAL(events(&r), 0);
	/* By time alone. */
	moderate(&r, 0, 1000);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	sends(&r, 1, 0);
	idle(&r, 1100);
	CU_ASSERT_EQUAL(events(&r), 1);
	/* Only what is solicited counts for who asked for that. */
	moderate(&r, 2, 60000);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 1), 0);
	sends(&r, 5, 0);
	sends(&r, 1, IBV_SEND_SOLICITED);
	CU_ASSERT_EQUAL(events(&r), 0);
	sends(&r, 1, IBV_SEND_SOLICITED);
	CU_ASSERT_EQUAL(events(&r), 1);
	/* What waits is told when the rule is lifted; an error does not wait. */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	sends(&r, 1, 0);
	CU_ASSERT_EQUAL(events(&r), 0);
	moderate(&r, 0, 0);
	CU_ASSERT_EQUAL(events(&r), 1);
	moderate(&r, 100, 60000);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	pair_recv(&r.p.b, 1, 0, 8);
	pair_modify(r.p.b.qp, IBV_QPS_ERR);
	CU_ASSERT_EQUAL(events(&r), 1);
	/* Destroyed with a timer set. */
	pair_modify(r.p.b.qp, IBV_QPS_RESET);
	rig_close(&r);
}

static void drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 1)
		;
}

/* What an arming request finds unpolled is told of, late, and not to who polls meanwhile. */
static void test_armed_late(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64};
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r, &attr, true);
	cq = ibv_cq_ex_to_cq(r.cq);
	/* Armed after all has come, as perftest may be. */
	sends(&r, 3, 0);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	CU_ASSERT_EQUAL(events(&r), 0);
	idle(&r, 101000);
	CU_ASSERT_EQUAL(events(&r), 1);
	/* One completion an event; the last one leaves nothing to tell of. */
	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
		CU_ASSERT_EQUAL(ibv_poll_cq(cq, 1, &wc), 1);
		idle(&r, 101000);
		CU_ASSERT_EQUAL(events(&r), i < 2);
	}
	sends(&r, 1, 0);
	CU_ASSERT_EQUAL(events(&r), 1);
	/* Armed, then emptied: nothing but the next one. */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	drain(cq);
	idle(&r, 150000);
	CU_ASSERT_EQUAL(events(&r), 0);
	sends(&r, 1, 0);
	CU_ASSERT_EQUAL(events(&r), 1);
	/* Who waits for solicited ones hears of such. */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 1), 0);
	idle(&r, 150000);
	CU_ASSERT_EQUAL(events(&r), 0);
	sends(&r, 1, IBV_SEND_SOLICITED);
	CU_ASSERT_EQUAL(events(&r), 1);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 1), 0);
	idle(&r, 101000);
	CU_ASSERT_EQUAL(events(&r), 1);
	/* Moderated or not. */
	moderate(&r, 4, 1000);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(cq, 0), 0);
	idle(&r, 90000);
	CU_ASSERT_EQUAL(events(&r), 0);
	idle(&r, 11000);
	CU_ASSERT_EQUAL(events(&r), 1);
	drain(cq);
	rig_close(&r);
}

static void test_overrun(void)
{
	for (int ignore = 0; ignore <= 1; ignore++) {
		struct ibv_cq_init_attr_ex attr = {.cqe = 1,
						   .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS};
		struct ibv_wc wc;
		struct rig r;
		int n = 0;

		if (ignore)
			attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
		rig_open(&r, &attr, false);
		CU_ASSERT(r.cq->cqe >= 1);
		sends(&r, (unsigned)r.cq->cqe, 0);
		CU_ASSERT_EQUAL(pair_event(&r.p.b), -1);
		for (unsigned i = 0; i < 3; i++) {
			pair_recv(&r.p.b, i, 0, 64);
			pair_post(&r.p.a, IBV_WR_SEND, i, 0, 8, NULL, 0, 0);
		}
		pair_settle(&r.p, 10000000);
		CU_ASSERT_EQUAL(pair_event(&r.p.b), ignore ? -1 : IBV_EVENT_CQ_ERR);
		CU_ASSERT_EQUAL(pair_event(&r.p.b), ignore ? -1 : IBV_EVENT_QP_FATAL);
		CU_ASSERT_EQUAL(pair_state(r.p.b.qp), ignore ? IBV_QPS_RTS : IBV_QPS_ERR);
		while (ibv_poll_cq(ibv_cq_ex_to_cq(r.cq), 1, &wc) == 1)
			n++;
		CU_ASSERT_EQUAL(n, r.cq->cqe);
		rig_close(&r);
	}
}

/* An emulated processor: it counts for how long a caller has polled in vain, and no longer. */
static void test_in_vain(void)
{
	struct pair_params pp = {.seed = 7, .link = {.latency = 5000}};
	struct ibv_wc wc;
	struct pair p;

	for (unsigned emulated = 0; emulated < 2; emulated++) {
		pair_open(&p, &pp, IBV_QPT_RC);
		pair_meet(&p);
		atomic_store(&p.a.dev->emulated, emulated);
		for (unsigned i = 0; i < 100; i++)
			CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 0);
		CU_ASSERT_EQUAL(atomic_load(&p.a.dev->in_vain.since) != 0, emulated);
		pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.b, 0, IBV_SEND_SIGNALED);
		while (!ibv_poll_cq(p.a.cq, 1, &wc)) {
			urxe_progress_turn(p.b.dev);
			urxe_sim_advance(p.sim, urxe_sim_now(p.sim) + 1000);
		}
		CU_ASSERT_EQUAL(atomic_load(&p.a.dev->in_vain.since), 0);
		pair_close(&p);
	}
}

URXE_TEST_MAIN("cq", T(test_fields), T(test_create), T(test_moderation), T(test_armed_late),
	       T(test_overrun), T(test_in_vain))
