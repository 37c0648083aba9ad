/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rules of RC that are easily broken unnoticed, with one end made by hand: which packet says what,
 * and what is no answer. rc_responder.c, rc_refusals.c, rc_duplicates.c and rc_requester.c have the
 * others.
 */
#include <string.h>

#include "harness.h"
#include "forge.h"
#include "progress.h"
#include "rcu.h"

#define PSN 0xffffe0u /* the first one of either side */

struct rig {
	struct pair p;
	struct raw_log log;
};

static void rig_open(struct rig *r, unsigned tx_room)
{
	struct pair_params pp = {
		.seed = 5, .timeout = 20, .link = {.latency = 1000, .tx_room = tx_room}};

	memset(r, 0, sizeof(*r));
	pair_open(&r->p, &pp, IBV_QPT_RC);
	pair_meet(&r->p);
	raw_log_start(&r->log, &r->p);
}

static void rig_close(struct rig *r)
{
	raw_log_stop(&r->log);
	pair_close(&r->p);
}

static struct raw_pkt rdma(struct rig *r, uint8_t opcode, uint32_t psn, uint32_t dmalen,
			   uint32_t len)
{
	return (struct raw_pkt){.opcode = opcode,
				.psn = psn & URXE_PSN_MASK,
				.ackreq = true,
				.va = (uintptr_t)r->p.b.buf,
				.rkey = r->p.b.mr->rkey,
				.dmalen = dmalen,
				.len = len};
}

/* ---- b responds ---- */

/* The missing packet comes before the NAK of its gap is out: there is nothing to complain of. */
static void test_nak_taken_back(void)
{
	static const uint32_t order[] = {1, 2, 3, 4, 0};
	uint8_t f[256];
	struct rig r;

	rig_open(&r, 0);
	for (unsigned i = 0; i < 5; i++) {
		struct raw_pkt k = rdma(&r, RC(WRITE_ONLY), PSN + order[i], 8, 8);

		urxe_sim_put(r.p.b.end, f, raw_frame(&r.p.a, &r.p.b, &k, f));
	}
	for (unsigned i = 0; i < 5; i++)
		urxe_progress_turn(r.p.b.dev);
	CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, ACK, NAK(PSN_SEQ)), 0);
	CU_ASSERT_EQUAL(r.log.v[r.log.n - 1].syndrome, OK_AETH);
	CU_ASSERT_EQUAL(r.log.v[r.log.n - 1].psn, PSN + 4);
	CU_ASSERT_EQUAL(r.log.v[r.log.n - 1].msn, 5);
	rig_close(&r);
}

/* A READ of bytes that comes again and asks for none is no duplicate of it. */
static void test_duplicate_of_nothing(void)
{
	struct raw_pkt k;
	struct rig r;

	rig_open(&r, 0);
	k = rdma(&r, RC(READ_REQUEST), PSN, 100, 0);
	raw_send(&r.p.a, &r.p.b, &k);
	CU_ASSERT_EQUAL(r.log.n, 1);
	k.dmalen = 0;
	raw_send(&r.p.a, &r.p.b, &k);
	CU_ASSERT_EQUAL(r.log.n, 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_BAD_LENGTH), 1);
	rig_close(&r);
}

/* A READ that ends half way says so at the PSN where it does (IBTA 9.7.5.2.4). */
static void test_nak_in_read(void)
{
	const struct raw_seen *s;
	struct ibv_mr *mr;
	struct raw_pkt k;
	struct rig r;
	unsigned n;

	rig_open(&r, 1);
	mr = ibv_reg_mr(r.p.b.pd, r.p.b.buf, PAIR_BUF, IBV_ACCESS_REMOTE_READ);
	k = rdma(&r, RC(READ_REQUEST), PSN, 900 * 1024, 0);
	k.rkey = mr->rkey;
	raw_send(&r.p.a, &r.p.b, &k);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	for (int i = 0; i < 2000; i++)
		urxe_progress_turn(r.p.b.dev);
	n = raw_log_count(&r.log, &r.p.b, RC(READ_RESPONSE_FIRST), -1) +
	    raw_log_count(&r.log, &r.p.b, RC(READ_RESPONSE_MIDDLE), -1);
	s = &r.log.v[r.log.n - 1];
	CU_ASSERT(n > 1 && n < 900);
	CU_ASSERT(s->opcode == ACK && s->syndrome == NAK(REMOTE_ACCESS));
	CU_ASSERT_EQUAL(s->psn, (PSN + n) & URXE_PSN_MASK);
	rig_close(&r);
}

/* A repeated answer is the one of then (9.7.5.1.2): its MSN, too. */
static void test_msn_of_then(void)
{
	struct raw_pkt k;
	struct rig r;

	rig_open(&r, 0);
	k = rdma(&r, RC(FETCH_ADD), PSN, 0, 0);
	raw_send(&r.p.a, &r.p.b, &k);
	k = rdma(&r, RC(WRITE_ONLY), PSN + 1, 8, 8);
	raw_send(&r.p.a, &r.p.b, &k);
	CU_ASSERT_EQUAL(r.log.v[r.log.n - 1].msn, 2);
	k = rdma(&r, RC(FETCH_ADD), PSN, 0, 0);
	raw_send(&r.p.a, &r.p.b, &k);
	CU_ASSERT_EQUAL(r.log.n, 3);
	CU_ASSERT_EQUAL(r.log.v[2].opcode, RC(ATOMIC_ACKNOWLEDGE));
	CU_ASSERT_EQUAL(r.log.v[2].msn, 1);
	rig_close(&r);
}

static void dest_rd_atomic(struct rig *r, uint8_t n)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .max_dest_rd_atomic = n};

	CU_ASSERT_EQUAL(ibv_modify_qp(r->p.b.qp, &a, IBV_QP_STATE), 0);
	CU_ASSERT_EQUAL(ibv_modify_qp(r->p.b.qp, &a, IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC), 0);
	CU_ASSERT_EQUAL(pair_modify(r->p.b.qp, IBV_QPS_RTS), 0);
}

/* With more resources the old ones are kept as long as there are new ones: for their duplicates. */
static void test_more_resources(void)
{
	struct raw_pkt k;
	struct rig r;

	rig_open(&r, 0);
	dest_rd_atomic(&r, 2);
	for (unsigned i = 0; i < 4; i++) {
		if (i == 2)
			dest_rd_atomic(&r, 4);
		k = rdma(&r, RC(READ_REQUEST), PSN + i, 8, 0);
		raw_send(&r.p.a, &r.p.b, &k);
		CU_ASSERT_EQUAL(r.log.n, i + 1);
	}
	for (unsigned i = 0; i < 4; i++) {
		k = rdma(&r, RC(READ_REQUEST), PSN + i, 8, 0);
		raw_send(&r.p.a, &r.p.b, &k);
		CU_ASSERT_EQUAL(r.log.n, 5 + i);
		CU_ASSERT_EQUAL(r.log.v[r.log.n - 1].psn, PSN + i);
	}
	rig_close(&r);
}

/* ---- a requests ---- */

/* An ATOMIC WRITE is answered as a READ of nothing (A19): bytes are no answer. */
static void test_atomic_write_answer(void)
{
	for (uint32_t len = 0; len <= 4; len += 4) {
		struct raw_pkt k = {
			.opcode = RC(READ_RESPONSE_ONLY), .psn = PSN, .syndrome = OK_AETH};
		struct urxe_sim_params deaf = {.latency = 1000, .loss = 1};
		struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
		struct rig r;

		rig_open(&r, 0);
		urxe_sim_end_params(r.p.b.end, &deaf);
		pair_modify(r.p.b.qp, IBV_QPS_RESET);
		CU_ASSERT_EQUAL(pair_post(&r.p.a, IBV_WR_ATOMIC_WRITE, 1, 0, 8, &r.p.b, 0,
					  IBV_SEND_SIGNALED),
				0);
		k.len = len;
		raw_send(&r.p.b, &r.p.a, &k);
		CU_ASSERT_EQUAL(ibv_poll_cq(r.p.a.cq, 1, &wc), 1);
		CU_ASSERT_EQUAL(wc.status, len ? IBV_WC_BAD_RESP_ERR : IBV_WC_SUCCESS);
		rig_close(&r);
	}
}

/* How many packets of a message of three say "solicited", and where the last one of these is. */
static unsigned solicited(enum ibv_wr_opcode op, unsigned flags, unsigned *at)
{
	unsigned n = 0;
	struct rig r;

	rig_open(&r, 0);
	CU_ASSERT_EQUAL(pair_recv(&r.p.b, 1, 0, 4096), 0);
	CU_ASSERT_EQUAL(pair_post(&r.p.a, op, 1, 0, 3000, &r.p.b, 0, flags), 0);
	pair_settle(&r.p, 1000000);
	for (unsigned i = 0; i < r.log.n; i++) {
		if (r.log.v[i].from != &r.p.a || !r.log.v[i].se)
			continue;
		n++;
		*at = (r.log.v[i].psn - PSN) & URXE_PSN_MASK;
	}
	rig_close(&r);
	return n;
}

/* The last packet says it, of what takes a receive (IBTA 9.2.3). */
static void test_solicited(void)
{
	unsigned at = 0;

	CU_ASSERT_EQUAL(solicited(IBV_WR_SEND, IBV_SEND_SOLICITED, &at), 1);
	CU_ASSERT_EQUAL(at, 2);
	CU_ASSERT_EQUAL(solicited(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SOLICITED, &at), 1);
	CU_ASSERT_EQUAL(at, 2);
	CU_ASSERT_EQUAL(solicited(IBV_WR_SEND, 0, &at), 0);
	CU_ASSERT_EQUAL(solicited(IBV_WR_RDMA_WRITE, IBV_SEND_SOLICITED, &at), 0);
}

/* b answers nothing by itself any more. */
static void no_peer(struct rig *r)
{
	struct urxe_sim_params deaf = {.latency = 1000, .loss = 1};

	urxe_sim_end_params(r->p.b.end, &deaf);
	pair_modify(r->p.b.qp, IBV_QPS_RESET);
}

static int post(struct rig *r, enum ibv_wr_opcode op, uint64_t id, unsigned flags)
{
	return pair_post(&r->p.a, op, id, 0, 8, &r->p.b, 0, IBV_SEND_SIGNALED | flags);
}

static void respond(struct rig *r, uint8_t opcode, uint32_t psn, uint32_t len)
{
	struct raw_pkt k = {.opcode = opcode, .psn = psn, .syndrome = OK_AETH, .len = len};

	raw_send(&r->p.b, &r->p.a, &k);
}

/* What is fenced waits for READs and ATOMICs, and for nothing else (IBTA 10.8.3.3). */
static void test_fence(void)
{
	struct rig r;

	rig_open(&r, 0);
	no_peer(&r);
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 1, 0), 0);
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 2, IBV_SEND_FENCE), 0);
	CU_ASSERT_EQUAL(r.log.n, 2);
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_READ, 3, 0), 0);
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 4, IBV_SEND_FENCE), 0);
	CU_ASSERT_EQUAL(r.log.n, 3);
	CU_ASSERT_EQUAL(r.log.v[2].opcode, RC(READ_REQUEST));
	respond(&r, ACK, PSN + 1, 0);
	CU_ASSERT_EQUAL(r.log.n, 3);
	respond(&r, RC(READ_RESPONSE_ONLY), PSN + 2, 8);
	CU_ASSERT_EQUAL(r.log.n, 4);
	CU_ASSERT_EQUAL(r.log.v[3].opcode, RC(WRITE_ONLY));
	rig_close(&r);
}

/* A window's key, as its posted bind makes it. */
static uint32_t post_bind(struct rig *r, struct ibv_mr *mr, struct ibv_mw *mw, unsigned flags)
{
	struct ibv_send_wr wr = {.wr_id = 9,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED | flags,
				 .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey)}},
			   *bad;

	wr.bind_mw.bind_info =
		(struct ibv_mw_bind_info){mr, (uintptr_t)r->p.a.buf, 64, IBV_ACCESS_REMOTE_WRITE};
	CU_ASSERT_EQUAL(ibv_post_send(r->p.a.qp, &wr, &bad), 0);
	return wr.bind_mw.rkey;
}

static bool is_bound(struct rig *r, uint32_t key)
{
	struct urxe_mkey *mk;
	bool bound;

	urxe_rcu_read_lock();
	mk = urxe_mkey_get(r->p.a.dev, key);
	bound = mk && mk->length;
	urxe_rcu_read_unlock();
	return bound;
}

/* A bind takes no packet, and waits all the same: for its fence, and for the end of a drain. */
static void test_bind_waits(void)
{
	for (unsigned drained = 0; drained < 2; drained++) {
		struct ibv_mr *mr;
		struct ibv_mw *mw;
		uint32_t key;
		struct rig r;

		rig_open(&r, 0);
		no_peer(&r);
		mr = ibv_reg_mr(r.p.a.pd, r.p.a.buf, 64,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
		mw = ibv_alloc_mw(r.p.a.pd, IBV_MW_TYPE_2);
		CU_ASSERT_FATAL(mr && mw);
		CU_ASSERT_EQUAL(drained ? pair_modify(r.p.a.qp, IBV_QPS_SQD)
					: post(&r, IBV_WR_RDMA_READ, 1, 0),
				0);
		key = post_bind(&r, mr, mw, drained ? 0 : IBV_SEND_FENCE);
		CU_ASSERT(!is_bound(&r, key));
		if (drained)
			pair_modify(r.p.a.qp, IBV_QPS_RTS);
		else
			respond(&r, RC(READ_RESPONSE_ONLY), PSN, 8);
		urxe_progress_turn(r.p.a.dev);
		CU_ASSERT(is_bound(&r, key));
		CU_ASSERT_EQUAL(ibv_dealloc_mw(mw), 0);
		CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
		rig_close(&r);
	}
}

/* Of what nobody polled, successes outlive the QP, and errors go with it. */
static void test_destroyed_unpolled(void)
{
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r, 0);
	no_peer(&r);
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 1, 0), 0);
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 2, 0), 0);
	respond(&r, ACK, PSN, 0);
	CU_ASSERT_EQUAL(pair_modify(r.p.a.qp, IBV_QPS_ERR), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(r.p.a.qp), 0);
	r.p.a.qp = NULL;
	CU_ASSERT_EQUAL(ibv_poll_cq(r.p.a.cq, 1, &wc), 1);
	CU_ASSERT(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_poll_cq(r.p.a.cq, 1, &wc), 0);
	rig_close(&r);
}

URXE_TEST_MAIN("rc_rules", T(test_nak_taken_back), T(test_duplicate_of_nothing),
	       T(test_nak_in_read), T(test_msn_of_then), T(test_more_resources),
	       T(test_atomic_write_answer), T(test_solicited), T(test_fence), T(test_bind_waits),
	       T(test_destroyed_unpolled))
