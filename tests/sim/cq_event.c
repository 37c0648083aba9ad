/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion events, and the service thread's: who is woken runs at once, so who wakes has no lock
 * then that the other needs; and a channel without room loses no request for an event.
 */
#include <fcntl.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

/* The linker sends notifications here (--wrap). */
bool __real_urxe_channel_notify(struct ibv_comp_channel *ch, struct ibv_cq *cq);
bool __wrap_urxe_channel_notify(struct ibv_comp_channel *ch, struct ibv_cq *cq);
void __real_urxe_port_wake(struct urxe_port *port);
void __wrap_urxe_port_wake(struct urxe_port *port);

static struct pair p;
static unsigned sent, woken, locked;
static bool full, watched; /* from when the pair is there */

static bool spin_free(struct urxe_spin *l)
{
	bool got = urxe_spin_trylock(l);

	if (got)
		urxe_spin_unlock(l);
	return got;
}

static bool side_free(struct side *s)
{
	struct urxe_lane *lane = urxe_port_lane(s->dev->port, 0);
	bool got = urxe_lane_trylock(lane);

	if (got)
		urxe_lane_unlock(lane);
	return got && spin_free(&to_urxe_qp(s->qp)->lock) && spin_free(&to_urxe_cq(s->cq)->lock);
}

bool __wrap_urxe_channel_notify(struct ibv_comp_channel *ch, struct ibv_cq *cq)
{
	sent++;
	locked += !side_free(ch == p.a.channel ? &p.a : &p.b);
	return !full && __real_urxe_channel_notify(ch, cq);
}

void __wrap_urxe_port_wake(struct urxe_port *port)
{
	if (watched && atomic_load(&p.a.dev->service.asleep)) {
		woken++;
		locked += !side_free(port == p.a.dev->port ? &p.a : &p.b);
	}
	__real_urxe_port_wake(port);
}

static void open_pair(enum ibv_qp_type type)
{
	const struct pair_params params = {.seed = 3, .channel = true, .link = {.latency = 1000}};

	pair_open(&p, &params, type);
	fcntl(p.a.channel->fd, F_SETFL, O_NONBLOCK);
	fcntl(p.b.channel->fd, F_SETFL, O_NONBLOCK);
	sent = woken = locked = 0;
	watched = true;
}

static void close_pair(void)
{
	watched = false;
	pair_close(&p);
}

static unsigned events(struct side *s)
{
	struct ibv_cq *cq;
	unsigned n = 0;
	void *ctx;

	while (!ibv_get_cq_event(s->channel, &cq, &ctx)) {
		CU_ASSERT_PTR_EQUAL(cq, s->cq);
		ibv_ack_cq_events(cq, 1);
		n++;
	}
	return n;
}

static void send_one(void)
{
	struct ibv_wc wc;

	CU_ASSERT_EQUAL(pair_recv(&p.b, 1, 0x1000, 64), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 2, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && wc.status == IBV_WC_SUCCESS);
}

/* Of a receive and of what the peer acknowledged: a turn found both. */
static void test_turn(void)
{
	open_pair(IBV_QPT_RC);
	for (unsigned i = 1; i <= 3; i++) {
		CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 0), 0);
		CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
		send_one();
		CU_ASSERT_EQUAL(events(&p.a), 1);
		CU_ASSERT_EQUAL(events(&p.b), 1);
		CU_ASSERT_EQUAL(sent, 2 * i);
	}
	CU_ASSERT_EQUAL(locked, 0);
	close_pair();
}

/* A QP of @a's on which both ways to post work. */
static struct ibv_qp_ex *qp_ex(void)
{
	const struct pair_params params = {0};
	struct ibv_qp_init_attr_ex attr = {.send_cq = p.a.cq,
					   .recv_cq = p.a.cq,
					   .cap = {8, 8, 1, 1, 0},
					   .qp_type = IBV_QPT_UC,
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = p.a.pd,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_qp *qp = ibv_create_qp_ex(p.a.ctx, &attr);

	CU_ASSERT_FATAL(qp != NULL);
	pair_connect(&p, &p.a, qp, &p.b, p.b.qp, &params);
	return ibv_qp_to_qp_ex(qp);
}

/* Nobody acknowledges: the sender itself completes what it has just posted. */
static void test_sender(void)
{
	struct ibv_qp_ex *qpx;
	struct ibv_wc wc;

	open_pair(IBV_QPT_UC);
	pair_meet(&p);
	ibv_destroy_qp(p.a.qp);
	pair_modify(p.b.qp, IBV_QPS_RESET);
	qpx = qp_ex();
	p.a.qp = &qpx->qp_base;
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 0), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 1, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT_EQUAL(sent, 1);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 0), 0);
	ibv_wr_start(qpx);
	qpx->wr_id = 2;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	ibv_wr_set_sge(qpx, p.a.mr->lkey, (uintptr_t)p.a.buf, 8);
	CU_ASSERT_EQUAL(ibv_wr_complete(qpx), 0);
	CU_ASSERT_EQUAL(sent, 2);
	CU_ASSERT_EQUAL(locked, 0);
	CU_ASSERT_EQUAL(events(&p.a), 2);
	for (unsigned i = 1; i <= 2; i++)
		CU_ASSERT(ibv_poll_cq(p.a.cq, 1, &wc) == 1 && wc.wr_id == i);
	close_pair();
}

/* A sender that will sleep for its completion, and a timer that comes before the thread's own. */
static void test_service(void)
{
	struct urxe_service_thread *s;

	open_pair(IBV_QPT_RC);
	pair_meet(&p);
	s = &p.a.dev->service;
	atomic_store(&s->until, URXE_NEVER);
	atomic_store(&s->asleep, true);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 0), 0);
	CU_ASSERT_EQUAL(woken, 1);
	CU_ASSERT_EQUAL(pair_recv(&p.b, 1, 0x1000, 64), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 2, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT_EQUAL(woken, 2);
	CU_ASSERT_EQUAL(locked, 0);
	atomic_store(&s->asleep, false);
	pair_settle(&p, 1000000);
	CU_ASSERT_EQUAL(events(&p.a), 1);
	close_pair();
}

/* Who waits for events does not wake a thread that waits for frames, and its polls do not count. */
static void test_leaves(void)
{
	struct urxe_service_thread *s;
	struct ibv_wc wc;

	open_pair(IBV_QPT_RC);
	pair_meet(&p);
	s = &p.a.dev->service;
	atomic_store(&s->until, URXE_NEVER);
	atomic_store(&s->alert, true);
	atomic_store(&s->asleep, true);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 0), 0);
	CU_ASSERT_TRUE(atomic_load(&s->nudged));
	CU_ASSERT_EQUAL(woken, 0);
	for (unsigned i = 0; i < 8; i++) {
		CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 0);
		/* One that polls on is no such. */
		CU_ASSERT_EQUAL(atomic_load(&s->polls), i < 4 ? 0 : i - 3);
	}
	/* For the timer: it ends its pauses by then itself, from now on. */
	CU_ASSERT_EQUAL(pair_recv(&p.b, 1, 0x1000, 64), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 2, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT_EQUAL(woken, 1);
	CU_ASSERT(atomic_load(&s->soon) > 0);
	atomic_store(&s->asleep, false);
	pair_settle(&p, 1000000);
	CU_ASSERT_EQUAL(events(&p.a), 1);
	close_pair();
}

/* No room: the CQ stays armed, as strongly as it was, and counts nothing that must be acked. */
static void test_full(void)
{
	open_pair(IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
	full = true;
	send_one();
	send_one();
	CU_ASSERT_EQUAL(sent, 2);
	CU_ASSERT_EQUAL(events(&p.b), 0);
	/* Weaker than what is asked for already. */
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 1), 0);
	full = false;
	send_one();
	CU_ASSERT_EQUAL(events(&p.b), 1);
	send_one();
	CU_ASSERT_EQUAL(events(&p.b), 0);
	CU_ASSERT_EQUAL(to_urxe_cq(p.b.cq)->events_sent, 1);
	CU_ASSERT_EQUAL(to_urxe_cq(p.b.cq)->events_held, 0);
	close_pair();
}

/*
 * Who asks, polls in vain once, and is told, time and again, is none that polls. Who asked and
 * polls on is one.
 */
static void test_looks(void)
{
	_Atomic uint64_t *polls;
	struct ibv_wc wc;
	uint64_t before;

	open_pair(IBV_QPT_RC);
	polls = &p.b.dev->service.polls;
	for (unsigned i = 0; i < 20; i++) {
		CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
		before = atomic_load(polls);
		CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);
		CU_ASSERT_EQUAL(atomic_load(polls), before);
		send_one();
		CU_ASSERT_EQUAL(events(&p.b), 1);
	}
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
	before = atomic_load(polls);
	for (unsigned i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);
	CU_ASSERT(atomic_load(polls) > before);
	close_pair();
}

URXE_TEST_MAIN("cq_event", T(test_turn), T(test_sender), T(test_service), T(test_leaves),
	       T(test_full), T(test_looks))
