/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An XRC domain that two processes share: requests go to the target QP of the one (b), and name a
 * SRQ of either (a has the initiator, too). Under loss, duplication and reordering; RNR; what is
 * refused; deaths.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "pair.h"
#include "progress.h"
#include "provider/xrc.h"
#include "sim_fabric.h"
#include "xrc.h"

#define LEN    3001u /* of three packets, and a pad */
#define ROOM   4096u
#define MS     1000000ull
#define ROUNDS 24

static const struct pair_params params = {.seed = 5,
					  .link = {.latency = 1000},
					  .ops = &urxe_link_sim_fabric_ops,
					  .join = sim_fabric_join};

/* [0]: the process with the initiator; [1]: the one with the target. Each has a SRQ. */
struct world {
	struct pair p;
	struct side *side[2];
	int fd[2];
	struct ibv_xrcd *xrcd[2];
	struct ibv_cq *cq[2];
	struct ibv_srq *srq[2];
	uint32_t srqn[2];
	struct ibv_qp *snd, *rcv;
};

static void world_open(struct world *w, const struct pair_params *pp, bool same_file)
{
	char name[2][32] = {"/tmp/urxe-xrc-XXXXXX", "/tmp/urxe-xrc-XXXXXX"};

	memset(w, 0, sizeof(*w));
	pair_open(&w->p, pp, IBV_QPT_RC);
	w->side[0] = &w->p.a;
	w->side[1] = &w->p.b;
	for (int i = 0; i < 2; i++) {
		struct side *s = w->side[i];

		w->fd[i] = i && same_file ? open(name[0], O_RDONLY) : mkstemp(name[i]);
		w->xrcd[i] = xrc_open_xrcd(s->ctx, w->fd[i], O_CREAT);
		w->cq[i] = ibv_create_cq(s->ctx, 256, NULL, NULL, 0);
		CU_ASSERT_FATAL(w->xrcd[i] && w->cq[i]);
		w->srq[i] = xrc_make_srq(s, s->pd, w->xrcd[i], w->cq[i]);
		CU_ASSERT_PTR_NOT_NULL_FATAL(w->srq[i]);
		CU_ASSERT_EQUAL(ibv_get_srq_num(w->srq[i], &w->srqn[i]), 0);
		CU_ASSERT_EQUAL(w->srqn[i] >> 16, sim_fabric_slot((unsigned)i + 1));
	}
	unlink(name[0]);
	unlink(name[1]);
	w->snd = xrc_make_send(&w->p.a);
	w->rcv = xrc_make_recv(&w->p.b, w->xrcd[1]);
	xrc_connect(&w->p.a, w->snd, &w->p.b, w->rcv);
}

static void world_close(struct world *w)
{
	CU_ASSERT_EQUAL(ibv_destroy_qp(w->snd), 0);
	if (w->rcv)
		CU_ASSERT_EQUAL(ibv_destroy_qp(w->rcv), 0);
	for (int i = 0; i < 2; i++) {
		if (w->srq[i])
			CU_ASSERT_EQUAL(ibv_destroy_srq(w->srq[i]), 0);
		CU_ASSERT_EQUAL(ibv_destroy_cq(w->cq[i]), 0);
		CU_ASSERT_EQUAL(ibv_close_xrcd(w->xrcd[i]), 0);
		close(w->fd[i]);
	}
	pair_close(&w->p);
	sim_fabric_destroy(sim_fabric_hub());
}

static void recv_at(struct world *w, int i, uint64_t id, uint32_t off, uint32_t len)
{
	CU_ASSERT_EQUAL(xrc_recv(w->srq[i], w->side[i], id, off, len), 0);
}

/* To the SRQ of process @i; memory of its buffer at @remote, if the operation has that. */
static void post(struct world *w, enum ibv_wr_opcode op, int i, uint64_t id, uint32_t off,
		 uint32_t len, uint32_t remote)
{
	struct xrc_work work = {op, w->srqn[i], id, off, len, remote};

	CU_ASSERT_EQUAL(xrc_post(w->snd, &w->p.a, w->side[i], &work), 0);
}

static enum ibv_wc_status outcome(struct world *w)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	CU_ASSERT_FATAL(pair_wait(&w->p, w->p.a.cq, &wc));
	return wc.status;
}

static void received(struct world *w, int i, uint64_t id, uint32_t len, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	CU_ASSERT_FATAL(pair_wait(&w->p, w->cq[i], &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(wc.wr_id, id);
	CU_ASSERT_EQUAL(wc.byte_len, len);
	CU_ASSERT_EQUAL(wc.opcode, opcode);
	CU_ASSERT_EQUAL(wc.qp_num, w->rcv->qp_num);
	CU_ASSERT_EQUAL(wc.src_qp, w->snd->qp_num);
}

/* Messages to both in turn: a receive each, in the order of sending, and once. */
static void messages(const struct pair_params *pp)
{
	static const uint32_t at[2] = {0x40000, 0x80000};
	struct world w;
	struct ibv_wc wc;

	world_open(&w, pp, true);
	for (unsigned i = 0; i < 0x8000; i++)
		w.p.a.buf[i] = (uint8_t)(i * 7 + i / 251);
	for (uint32_t i = 0; i < ROUNDS; i++)
		recv_at(&w, i % 2, i, at[i % 2] + i * ROOM, ROOM);
	for (uint32_t i = 0; i < ROUNDS; i++)
		post(&w, i % 3 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, i % 2, i, 16 * i, LEN + i, 0);
	for (uint32_t i = 0; i < ROUNDS; i++)
		CU_ASSERT_EQUAL(outcome(&w), IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		received(&w, i % 2, i, LEN + i, IBV_WC_RECV);
		CU_ASSERT_EQUAL(memcmp(w.side[i % 2]->buf + at[i % 2] + i * ROOM,
				       w.p.a.buf + 16 * i, LEN + i),
				0);
	}
	CU_ASSERT_EQUAL(ibv_poll_cq(w.cq[0], 1, &wc), 0);
	/* Memory of either, with its rkey and the SRQ's PD; then a READ of what is in b. */
	post(&w, IBV_WR_RDMA_WRITE, 0, 1, 0, LEN, 0xc0000);
	recv_at(&w, 0, 77, 0, 16);
	post(&w, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 2, 0, LEN, 0xd0000);
	post(&w, IBV_WR_RDMA_WRITE, 1, 3, 0, LEN, 0xc0000);
	post(&w, IBV_WR_RDMA_READ, 1, 4, 0xe0000, LEN, 0xc0000);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(outcome(&w), IBV_WC_SUCCESS);
	received(&w, 0, 77, LEN, IBV_WC_RECV_RDMA_WITH_IMM);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(memcmp(w.p.a.buf + 0xc0000 + i * 0x10000, w.p.a.buf, LEN), 0);
	world_close(&w);
}

static void plain(void)
{
	messages(&params);
}

static void ipv6(void)
{
	struct pair_params pp = params;

	pp.v6 = true;
	messages(&pp);
}

static void lossy(void)
{
	struct pair_params pp = params;

	pp.link.loss = pp.link.dup = pp.link.reorder = 0.05;
	for (pp.seed = 1; pp.seed <= 40; pp.seed++)
		messages(&pp);
}

/* No receive is there: the sender waits, and b's own SRQ is not disturbed. */
static void rnr(void)
{
	struct world w;

	world_open(&w, &params, true);
	post(&w, IBV_WR_SEND, 0, 1, 0, LEN, 0);
	recv_at(&w, 1, 9, 0x1000, ROOM);
	post(&w, IBV_WR_SEND, 1, 2, 0, 100, 0);
	pair_settle(&w.p, MS);
	CU_ASSERT(pair_stat(&w.p.b, URXE_STAT_TX_RNR_NAK) > 0);
	CU_ASSERT(pair_no_wc(&w.p, &w.p.a, MS));
	recv_at(&w, 0, 8, 0x1000, ROOM);
	CU_ASSERT_EQUAL(outcome(&w), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(outcome(&w), IBV_WC_SUCCESS);
	received(&w, 0, 8, LEN, IBV_WC_RECV);
	received(&w, 1, 9, 100, IBV_WC_RECV);
	world_close(&w);
}

/* What the owner of the SRQ refuses is refused, and ends b's QP. */
static void refused(enum ibv_wr_opcode op, uint32_t srqn_change, bool same_file, uint32_t room,
		    enum ibv_wc_status want)
{
	struct ibv_wc wc;
	struct world w;

	world_open(&w, &params, same_file);
	if (room)
		recv_at(&w, 0, 5, 0x1000, room);
	w.srqn[0] ^= srqn_change;
	post(&w, op, 0, 1, 0, LEN, PAIR_BUF);
	CU_ASSERT_EQUAL(outcome(&w), want);
	pair_settle(&w.p, MS);
	CU_ASSERT_EQUAL(pair_state(w.rcv), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(ibv_poll_cq(w.cq[0], 1, &wc), !!room);
	if (room)
		CU_ASSERT_EQUAL(wc.status, IBV_WC_LOC_LEN_ERR);
	CU_ASSERT_EQUAL(pair_event(&w.p.b), IBV_EVENT_QP_LAST_WQE_REACHED);
	CU_ASSERT(pair_event(&w.p.b) >= 0);
	world_close(&w);
}

static void refusals(void)
{
	refused(IBV_WR_SEND, 1, true, 0, IBV_WC_REM_INV_REQ_ERR);	/* no such SRQ */
	refused(IBV_WR_SEND, 0x50000, true, 0, IBV_WC_REM_INV_REQ_ERR); /* no such process */
	refused(IBV_WR_SEND, 0, false, 0, IBV_WC_REM_INV_REQ_ERR);	/* another domain */
	refused(IBV_WR_SEND, 0, true, 1500, IBV_WC_REM_INV_REQ_ERR);	/* too short */
	refused(IBV_WR_RDMA_WRITE, 0, true, 0, IBV_WC_REM_ACCESS_ERR);	/* behind the region */
	refused(IBV_WR_RDMA_READ, 0, true, 0, IBV_WC_REM_INV_REQ_ERR);	/* is not lent */
}

/* ---- the end of either ---- */

static bool in_recv(struct world *w)
{
	return w->srq[0] && to_urxe_srq(w->srq[0])->rq.tail != 0;
}

/* A message is under way into a's SRQ. */
static void half_way(struct world *w)
{
	struct pair_params pp = params;

	pp.link.bandwidth = 1000000000;
	world_open(w, &pp, true);
	recv_at(w, 0, 6, 0x1000, 0x40000);
	post(w, IBV_WR_SEND, 0, 1, 0, 0x40000, 0);
	while (!in_recv(w))
		CU_ASSERT_FATAL(pair_step(&w->p));
}

/* b's QP goes meanwhile: what will not be finished fails. */
static void qp_goes(void)
{
	struct ibv_wc wc;
	struct world w;

	half_way(&w);
	pair_settle(&w.p, MS / 10);
	CU_ASSERT_EQUAL(ibv_destroy_qp(w.rcv), 0);
	w.rcv = NULL;
	CU_ASSERT_FATAL(pair_wait(&w.p, w.cq[0], &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(wc.wr_id, 6);
	world_close(&w);
}

/* b dies with it: the receive fails, and the sender's work, too. */
static void lender_dies(void)
{
	struct ibv_wc wc;
	struct world w;

	half_way(&w);
	sim_fabric_kill(sim_fabric_hub(), sim_fabric_slot(2));
	urxe_peer_gone_run(w.p.a.dev);
	CU_ASSERT_EQUAL(ibv_poll_cq(w.cq[0], 1, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(outcome(&w), IBV_WC_RETRY_EXC_ERR);
	world_close(&w);
}

/* The process with the SRQ dies before it has answered: what was lent is refused. The sender is b,
 * too. */
static void borrower_dies(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	struct world w;

	world_open(&w, &params, true);
	CU_ASSERT_EQUAL(ibv_destroy_qp(w.snd), 0);
	CU_ASSERT_EQUAL(pair_modify(w.rcv, IBV_QPS_RESET), 0);
	w.snd = xrc_make_send(&w.p.b);
	xrc_connect(&w.p.b, w.snd, &w.p.b, w.rcv);
	wr.qp_type.xrc.remote_srqn = w.srqn[0];
	CU_ASSERT_EQUAL(ibv_post_send(w.snd, &wr, &bad), 0);
	for (unsigned i = 0; i < 4; i++)
		urxe_progress_turn(w.p.b.dev);
	CU_ASSERT_EQUAL(ibv_poll_cq(w.p.b.cq, 1, &wc), 0);
	sim_fabric_kill(sim_fabric_hub(), sim_fabric_slot(1));
	urxe_peer_gone_run(w.p.b.dev);
	CU_ASSERT_EQUAL(ibv_poll_cq(w.p.b.cq, 1, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_REM_INV_REQ_ERR);
	world_close(&w);
}

static void srq_goes(void)
{
	struct world w;

	half_way(&w);
	CU_ASSERT_EQUAL(ibv_destroy_srq(w.srq[0]), 0);
	w.srq[0] = NULL;
	CU_ASSERT_EQUAL(outcome(&w), IBV_WC_REM_INV_REQ_ERR);
	world_close(&w);
}

/* As many SRQs as there may be, and one more: each is found by its number. */
static void all_numbers(void)
{
	struct ibv_srq **srq = calloc(URXE_MAX_SRQ, sizeof(struct ibv_srq *));
	unsigned n = 0, lost = 0;
	struct world w;

	world_open(&w, &params, true);
	CU_ASSERT_PTR_NOT_NULL_FATAL(srq);
	while (n < URXE_MAX_SRQ && (srq[n] = xrc_make_srq(&w.p.a, w.p.a.pd, w.xrcd[0], w.cq[0])))
		n++;
	CU_ASSERT_EQUAL(n, URXE_MAX_SRQ - 1); /* and the world's */
	for (unsigned i = 0; i < n; i++) {
		struct urxe_srq *s = to_urxe_srq(srq[i]);

		lost += urxe_xrc_srq_any(w.p.a.dev, s->num) != s;
	}
	CU_ASSERT_EQUAL(lost, 0);
	CU_ASSERT_PTR_EQUAL(urxe_xrc_srq_any(w.p.a.dev, w.srqn[0]), to_urxe_srq(w.srq[0]));
	for (unsigned i = 0; i < n; i++)
		ibv_destroy_srq(srq[i]);
	free(srq);
	world_close(&w);
}

URXE_TEST_MAIN("xrc_shared", T(all_numbers), T(plain), T(ipv6), T(lossy), T(rnr), T(refusals),
	       T(qp_goes), T(lender_dies), T(borrower_dies), T(srq_goes))
