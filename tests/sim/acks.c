/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When an ACK goes: in the turn that received the message, or with what the application sends soon
 * (ack_patience() of receive.c).
 */
#include "harness.h"
#include "pair.h"
#include "progress.h"
#include "requester.h"

static const struct pair_params plain = {.seed = 11, .link = {.latency = 1000}};

/* Turns of one side alone, and what is on its way to it. */
static void turns_of(struct pair *p, struct side *s)
{
	for (unsigned i = 0; i < 10; i++) {
		urxe_sim_advance(p->sim, urxe_sim_now(p->sim) + 10000);
		urxe_progress_turn(s->dev);
	}
}

/* A ping from a, which b takes in one turn; how many packets b has sent in that. */
static uint64_t ping(struct pair *p, uint64_t id)
{
	uint64_t before = pair_stat(&p->b, URXE_STAT_TX_PACKETS);
	struct ibv_wc wc;

	pair_recv(&p->b, id, 0, 8);
	CU_ASSERT_EQUAL(pair_post(&p->a, IBV_WR_SEND, id, 0, 8, NULL, 0, 0), 0);
	urxe_sim_advance(p->sim, urxe_sim_now(p->sim) + 10000);
	CU_ASSERT_EQUAL(ibv_poll_cq(p->b.cq, 1, &wc), 1);
	return pair_stat(&p->b, URXE_STAT_TX_PACKETS) - before;
}

static void pong(struct pair *p, uint64_t id)
{
	pair_recv(&p->a, id, 64, 8);
	CU_ASSERT_EQUAL(pair_post(&p->b, IBV_WR_SEND, id, 0, 8, NULL, 0, 0), 0);
}

/*
 * A message to an application that has nothing to say is acknowledged in the turn that received it:
 * the next one may be long in coming. To one that answers each message the ACK goes with the
 * answer.
 */
static void test_ack_in_turn(void)
{
	struct ibv_wc wc;
	struct pair p;
	uint64_t before;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned i = 0; i < 3; i++) {
		pair_recv(&p.b, i, 0, 8);
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, i, 0, 8, NULL, 0, IBV_SEND_SIGNALED),
				0);
		urxe_sim_advance(p.sim, urxe_sim_now(p.sim) + 10000);
		CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 1); /* one turn, and none after it */
		turns_of(&p, &p.a);
		CU_ASSERT(ibv_poll_cq(p.a.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	}
	for (unsigned i = 0; i < 4; i++) {
		before = pair_stat(&p.b, URXE_STAT_TX_PACKETS);
		CU_ASSERT_EQUAL(ping(&p, i), !i);
		pong(&p, i);
		CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_TX_PACKETS) - before, 2);
		turns_of(&p, &p.a);
		turns_of(&p, &p.b);
		CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 1);
	}
	pair_close(&p);
}

/* b's next turn, @ns later; what it sends. */
static uint64_t turn_after(struct pair *p, uint64_t ns)
{
	uint64_t before = pair_stat(&p->b, URXE_STAT_TX_PACKETS);
	struct ibv_wc wc;

	urxe_sim_advance(p->sim, urxe_sim_now(p->sim) + ns);
	CU_ASSERT_EQUAL(ibv_poll_cq(p->b.cq, 1, &wc), 0);
	return pair_stat(&p->b, URXE_STAT_TX_PACKETS) - before;
}

/* A WRITE of 8 bytes from a, which b takes in one turn; how many packets b has sent in that. */
static uint64_t write_to_b(struct pair *p)
{
	uint64_t before = pair_stat(&p->b, URXE_STAT_TX_PACKETS);
	struct ibv_wc wc;

	CU_ASSERT_EQUAL(pair_post(&p->a, IBV_WR_RDMA_WRITE, 0, 0, 8, &p->b, 0, 0), 0);
	urxe_sim_advance(p->sim, urxe_sim_now(p->sim) + 10000);
	CU_ASSERT_EQUAL(ibv_poll_cq(p->b.cq, 1, &wc), 0);
	return pair_stat(&p->b, URXE_STAT_TX_PACKETS) - before;
}

/* One from b; how many packets went with the post. */
static uint64_t write_to_a(struct pair *p, uint32_t packets)
{
	uint64_t before = pair_stat(&p->b, URXE_STAT_TX_PACKETS);

	CU_ASSERT_EQUAL(pair_post(&p->b, IBV_WR_RDMA_WRITE, 0, 0, packets * 1024, &p->a, 0, 0), 0);
	return pair_stat(&p->b, URXE_STAT_TX_PACKETS) - before;
}

static void send_again(struct urxe_qp *qp)
{
	urxe_spin_lock(&qp->lock);
	urxe_requester_go_back(qp, qp->req.una);
	urxe_progress_kick(qp);
	urxe_spin_unlock(&qp->lock);
}

/*
 * Who watches memory answers as well, and its peer polls until it has the ACK of its own message:
 * that goes behind all of the answer, so that the peer receives it. But not for ever, nor where the
 * peer asks again.
 */
static void test_ack_behind(void)
{
	enum {
		IN_TIME,
		LATE,
		ASKED,
		CASES
	};

	for (unsigned how = 0; how < CASES; how++) {
		struct urxe_qp *qa, *qb;
		uint32_t window;
		uint64_t sent;
		struct pair p;

		pair_open(&p, &plain, IBV_QPT_RC);
		pair_meet(&p);
		qa = to_urxe_qp(p.a.qp);
		qb = to_urxe_qp(p.b.qp);
		for (unsigned i = 0; i < 4; i++) {
			CU_ASSERT_EQUAL(write_to_b(&p), !i);
			CU_ASSERT_EQUAL(write_to_a(&p, 1), i ? 2 : 1);
			turns_of(&p, i < 3 ? &p.a : &p.b);
			turns_of(&p, &p.b);
		}
		/* a has not taken the last one. */
		window = qb->req.cc.window.cwnd;
		CU_ASSERT_EQUAL(write_to_b(&p), 0);
		CU_ASSERT_EQUAL(turn_after(&p, 0), 0);
		CU_ASSERT(qb->ack_waits && qb->ack_until > urxe_sim_now(p.sim));
		qb->ack_until = urxe_sim_now(p.sim) + (how == LATE ? 20000 : 1000000000);
		CU_ASSERT_EQUAL(write_to_a(&p, window + 16), window - 1);
		CU_ASSERT_EQUAL(turn_after(&p, 10000), 0);
		CU_ASSERT_EQUAL(qb->resp.ack_due, URXE_ACK_REQUESTS);
		if (how == ASKED)
			send_again(qa);
		if (how == IN_TIME)
			turns_of(&p, &p.a);
		/* It may ask again itself then. */
		sent = turn_after(&p, 10000) + turn_after(&p, 10000);
		CU_ASSERT(how == IN_TIME ? sent == 17 + 1 : sent >= 1 && sent <= 3);
		CU_ASSERT_EQUAL(qb->resp.ack_due, URXE_ACK_NONE);
		/* Something was posted in time. */
		CU_ASSERT(how != ASKED || !qb->ack_vain);
		pair_close(&p);
	}
}

/* A pair whose end b has an ACK that waits, for long. */
static void open_with_ack_held(struct pair *p)
{
	struct urxe_qp *qb;

	pair_open(p, &plain, IBV_QPT_RC);
	pair_meet(p);
	qb = to_urxe_qp(p->b.qp);
	for (unsigned i = 0; i < 4; i++) {
		write_to_b(p);
		write_to_a(p, 1);
		turns_of(p, i < 3 ? &p->a : &p->b);
		turns_of(p, &p->b);
	}
	CU_ASSERT_EQUAL(write_to_b(p), 0);
	CU_ASSERT(qb->ack_waits);
	qb->ack_until = urxe_sim_now(p->sim) + 1000000000;
	atomic_store(&p->b.dev->sched.lanes[0].patient, qb->ack_until);
}

/* A peer that goes on with a long message gets its ACKs in the midst of it, whatever waits. */
static void test_ack_in_bulk(void)
{
	uint64_t sent = 0;
	struct pair p;

	open_with_ack_held(&p);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 0, 0, 200 * 1024, &p.b, 0, 0), 0);
	for (unsigned i = 0; i < 3; i++)
		sent += turn_after(&p, 2000);
	CU_ASSERT(sent > 0 && to_urxe_qp(p.b.qp)->resp.ack_due == URXE_ACK_NONE);
	pair_close(&p);
}

static uint64_t timers_of_b(struct pair *p)
{
	return pair_stat(&p->b, URXE_STAT_PROBES) + pair_stat(&p->b, URXE_STAT_TIMEOUTS);
}

/* A timer of the QP, which comes due with each message that takes long, sends no ACK that waits. */
static void test_ack_and_timer(void)
{
	struct urxe_qp *qb;
	uint64_t before;
	struct pair p;

	open_with_ack_held(&p);
	qb = to_urxe_qp(p.b.qp);
	before = timers_of_b(&p);
	for (unsigned i = 0; i < 20; i++)
		turn_after(&p, 1000000);
	CU_ASSERT(timers_of_b(&p) > before);
	CU_ASSERT(qb->ack_waits && qb->resp.ack_due == URXE_ACK_REQUESTS);
	urxe_sim_advance(p.sim, qb->ack_until);
	turns_of(&p, &p.b);
	CU_ASSERT(!qb->ack_waits && qb->resp.ack_due == URXE_ACK_NONE);
	pair_close(&p);
}

/*
 * Who answers each message, and whose own last one is not acknowledged yet, is given time: its ACK
 * comes, and the answer is posted. The ACK goes with that, or when the time is over.
 */
static void test_ack_patience(void)
{
	uint64_t before, sent;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned i = 0; i < 3; i++) {
		ping(&p, i);
		pong(&p, i);
		turns_of(&p, &p.a);
		turns_of(&p, &p.b);
	}
	/* All that b has sent is acknowledged: it is about to answer, or never. */
	CU_ASSERT_EQUAL(ping(&p, 3), 0);
	CU_ASSERT_EQUAL(turn_after(&p, 0), 1);
	pong(&p, 3);
	/* a sends on, and has not taken that answer. */
	CU_ASSERT_EQUAL(ping(&p, 4), 0);
	CU_ASSERT_EQUAL(turn_after(&p, 0), 0);
	before = pair_stat(&p.b, URXE_STAT_TX_PACKETS);
	turns_of(&p, &p.a);
	pong(&p, 4);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_TX_PACKETS) - before, 2);
	CU_ASSERT_EQUAL(turn_after(&p, 0), 0);
	CU_ASSERT_EQUAL(ping(&p, 5), 0);
	CU_ASSERT_EQUAL(turn_after(&p, 0), 0);
	CU_ASSERT_EQUAL(turn_after(&p, 50000), 1);
	/* Once more: a may do the same. Two do not wait, the one after them does. */
	turns_of(&p, &p.a);
	pong(&p, 5);
	CU_ASSERT_EQUAL(ping(&p, 6), 0);
	CU_ASSERT_EQUAL(turn_after(&p, 50000), 1);
	CU_ASSERT_EQUAL(to_urxe_qp(p.b.qp)->ack_skips, 2);
	for (unsigned i = 7; i < 9; i++) {
		turns_of(&p, &p.a);
		pong(&p, i - 1);
		sent = ping(&p, i);
		CU_ASSERT_EQUAL(sent + turn_after(&p, 0), 1);
	}
	turns_of(&p, &p.a);
	pong(&p, 8);
	ping(&p, 9);
	CU_ASSERT(to_urxe_qp(p.b.qp)->ack_waits);
	pair_close(&p);
}

/* The peer asks again while an ACK waits: once may be by chance, and then some do not wait. */
static void test_ack_asked_for(void)
{
	struct urxe_qp *qb;
	struct pair p;

	open_with_ack_held(&p);
	qb = to_urxe_qp(p.b.qp);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT(qb->ack_waits);
		send_again(to_urxe_qp(p.a.qp));
		CU_ASSERT_EQUAL(turn_after(&p, 10000), 1);
		CU_ASSERT(!qb->ack_waits && qb->resp.ack_due == URXE_ACK_NONE);
		CU_ASSERT_EQUAL(qb->ack_skips, 2 * i);
		write_to_a(&p, 1);
		turns_of(&p, &p.a);
		turns_of(&p, &p.b);
		write_to_b(&p);
		write_to_a(&p, 1);
		if (!i)
			CU_ASSERT_EQUAL(write_to_b(&p), 0);
	}
	CU_ASSERT_EQUAL(qb->ack_skips, 2);
	CU_ASSERT_EQUAL(write_to_b(&p) + turn_after(&p, 0), 1);
	CU_ASSERT_EQUAL(qb->ack_skips, 1);
	pair_close(&p);
}

URXE_TEST_MAIN("acks", T(test_ack_in_turn), T(test_ack_behind), T(test_ack_in_bulk),
	       T(test_ack_and_timer), T(test_ack_patience), T(test_ack_asked_for))
