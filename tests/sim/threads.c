/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Many threads on two devices in real time, service threads running: posting, polling, creating,
 * destroying, modifying and deregistering, on shared and on own objects. There is nothing to see
 * but that it ends well; ThreadSanitizer looks at the rest.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "pair.h"
#include "rcu.h"

#define THREADS 8
#define LANES	16
#define ROUNDS	12
#define OPS	60

struct world {
	struct pair p;
	struct pair_params pp;
	atomic_uint sent, failed, stuck;
	atomic_bool stop;
};

struct worker {
	struct world *w;
	unsigned id;
	pthread_t thread;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A QP of its own on each side, with own CQs and MRs, back and forth. */
struct own {
	struct ibv_cq *cq[2];
	struct ibv_mr *mr[2];
	struct ibv_qp *qp[2];
	uint8_t *buf;
};

#define OWN_BUF 8192

static void own_open(struct world *w, struct own *o)
{
	struct side *s[2] = {&w->p.a, &w->p.b};

	o->buf = calloc(2, OWN_BUF);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr ia = {
			.cap = {.max_send_wr = 64,
				.max_recv_wr = 64,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = 64},
			.qp_type = IBV_QPT_RC,
		};

		o->cq[i] = ibv_create_cq(s[i]->ctx, 256, NULL, NULL, 0);
		ia.send_cq = ia.recv_cq = o->cq[i];
		o->mr[i] = ibv_reg_mr(s[i]->pd, o->buf + i * OWN_BUF, OWN_BUF,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					      IBV_ACCESS_REMOTE_READ);
		o->qp[i] = ibv_create_qp(s[i]->pd, &ia);
	}
	pair_connect(&w->p, &w->p.a, o->qp[0], &w->p.b, o->qp[1], &w->pp);
}

static void own_close(struct own *o, bool mr_first)
{
	for (int i = 0; i < 2; i++) {
		if (mr_first)
			ibv_dereg_mr(o->mr[i]);
		if (ibv_destroy_qp(o->qp[i]) || ibv_destroy_cq(o->cq[i]))
			CU_FAIL("destroy");
		if (!mr_first)
			ibv_dereg_mr(o->mr[i]);
	}
	free(o->buf);
}

static int own_post(struct own *o, unsigned n)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};
	struct ibv_sge sge = {(uintptr_t)o->buf, n * 97 % OWN_BUF, o->mr[0]->lkey};
	struct ibv_send_wr wr = {.wr_id = n,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = ops[n % 3],
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)o->buf + OWN_BUF, o->mr[1]->rkey}},
			   *bad;
	struct ibv_sge rsge = {(uintptr_t)o->buf + OWN_BUF, OWN_BUF, o->mr[1]->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &rsge, .num_sge = 1}, *rbad;

	if (wr.opcode == IBV_WR_SEND)
		ibv_post_recv(o->qp[1], &rwr, &rbad);
	return ibv_post_send(o->qp[0], &wr, &bad);
}

/* All done, without an error. */
static bool own_finish(struct world *w, struct own *o, unsigned n)
{
	uint64_t end = now_ns() + 60000000000ull;
	struct ibv_wc wc;
	unsigned got = 0;

	while (got < n && now_ns() < end) {
		int k = ibv_poll_cq(o->cq[0], 1, &wc);

		ibv_poll_cq(o->cq[1], 1, &wc);
		if (k == 1)
			got++;
	}
	return got == n;
}

static void *own_main(void *arg)
{
	struct worker *me = arg;
	struct world *w = me->w;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct own o;
		unsigned n;

		own_open(w, &o);
		for (n = 0; n < OPS; n++)
			if (own_post(&o, n))
				break;
		atomic_fetch_add(&w->sent, n);
		/* Every other time it is torn down in the middle of it all. */
		if (round & 1) {
			if (!own_finish(w, &o, n))
				atomic_fetch_add(&w->stuck, 1);
		} else if (round & 2) {
			pair_modify(o.qp[0], IBV_QPS_ERR);
		} else {
			pair_modify(o.qp[1], IBV_QPS_RESET);
		}
		own_close(&o, round & 4);
	}
	return NULL;
}

/* All of them use the one QP of the pair; each waits for its own completions on the way. */
static void *shared_main(void *arg)
{
	struct worker *me = arg;
	struct world *w = me->w;
	struct side *s = me->id & 1 ? &w->p.b : &w->p.a, *to = me->id & 1 ? &w->p.a : &w->p.b;
	struct ibv_wc wc[4];

	for (unsigned n = 0; n < ROUNDS * OPS;) {
		uint32_t off = 0x10000 * (me->id + 1); /* each its own */

		if (!pair_post(s, n % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, n, off,
			       n * 31 % 4096, to, off + 0x8000, n % 4 ? 0 : IBV_SEND_SIGNALED))
			n++;
		for (int k = ibv_poll_cq(s->cq, 4, wc); k > 0; k--)
			if (wc[k - 1].status != IBV_WC_SUCCESS && !atomic_fetch_add(&w->failed, 1))
				printf("%s: %s, %llu time-outs, %llu NAKs, %llu retransmissions\n",
				       s == &w->p.a ? "a" : "b",
				       ibv_wc_status_str(wc[k - 1].status),
				       (unsigned long long)pair_stat(s, URXE_STAT_TIMEOUTS),
				       (unsigned long long)pair_stat(to, URXE_STAT_TX_NAK_SEQ),
				       (unsigned long long)pair_stat(s, URXE_STAT_RETRANSMITS));
	}
	return NULL;
}

/* Small changes while it all goes on. */
static void *fiddle_main(void *arg)
{
	struct worker *me = arg;
	struct world *w = me->w;
	struct side *s = &w->p.a;
	unsigned n = 0;

	while (!atomic_load(&w->stop)) {
		struct ibv_qp_attr attr = {.qp_access_flags = 15, .min_rnr_timer = 10};
		struct ibv_qp_init_attr init;
		struct ibv_mr *mr = ibv_reg_mr(s->pd, s->buf, PAIR_BUF, IBV_ACCESS_LOCAL_WRITE);
		struct ibv_ah_attr aa = pair_path(&w->p.a, &w->p.b);
		struct ibv_ah *ah = ibv_create_ah(s->pd, &aa);

		ibv_modify_qp(s->qp, &attr, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER);
		ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init);
		ibv_resize_cq(s->cq, 4096 + (int)(n++ % 5000));
		ibv_destroy_ah(ah);
		ibv_dereg_mr(mr);
	}
	return NULL;
}

typedef void *worker_main(void *arg);

/* @all in order: no packet may have come before its turn. */
static void run_as(const struct urxe_sim_params *link, worker_main *const mains[], unsigned n,
		   bool all)
{
	struct world *w = calloc(1, sizeof(*w));
	struct worker k[LANES];

	w->pp.link = *link;
	/* A loaded machine may leave a thread waiting for long. */
	w->pp.timeout = 16;
	w->pp.threaded = true;
	pair_open(&w->p, &w->pp, IBV_QPT_RC);
	for (unsigned i = 0; i < n; i++) {
		k[i] = (struct worker){.w = w, .id = i};
		pthread_create(&k[i].thread, NULL, mains[i], &k[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		if (mains[i] == fiddle_main)
			atomic_store(&w->stop, true);
		pthread_join(k[i].thread, NULL);
	}
	CU_ASSERT_EQUAL(atomic_load(&w->stuck), 0);
	CU_ASSERT_EQUAL(atomic_load(&w->failed), 0);
	CU_ASSERT_EQUAL(pair_state(w->p.a.qp), IBV_QPS_RTS);
	CU_ASSERT_EQUAL(pair_state(w->p.b.qp), IBV_QPS_RTS);
	for (struct side *s = &w->p.a; all; s = &w->p.b) {
		CU_ASSERT_EQUAL(pair_stat(s, URXE_STAT_RX_EARLY), 0);
		CU_ASSERT_EQUAL(pair_stat(s, URXE_STAT_RX_OUT_OF_SEQUENCE), 0);
		all = s == &w->p.a;
	}
	pair_close(&w->p);
	free(w);
}

static void run(const struct urxe_sim_params *link)
{
	static worker_main *const mains[THREADS] = {own_main,	 own_main,    own_main,
						    shared_main, shared_main, shared_main,
						    shared_main, fiddle_main};

	run_as(link, mains, THREADS, false);
}

static void test_clean(void)
{
	struct urxe_sim_params link = {.latency = 2000};

	run(&link);
}

static void test_lossy(void)
{
	struct urxe_sim_params link = {.latency = 2000, .loss = 0.01, .dup = 0.01, .reorder = 0.01};

	run(&link);
}

static void test_two_lanes(void)
{
	struct urxe_sim_params link = {.latency = 2000, .lanes = 2};

	run(&link);
}

/* As many threads as lanes, whose queue pairs are each bound to one of them. */
static void test_sixteen_lanes(void)
{
	struct urxe_sim_params link = {.latency = 2000, .lanes = LANES, .paired = true};
	worker_main *mains[LANES];

	for (unsigned i = 0; i < LANES; i++)
		mains[i] = own_main;
	run_as(&link, mains, LANES, true);
}

/* A blocked reader of a completion channel is woken, with nobody polling. */
static void test_blocked(void)
{
	struct pair_params pp = {.link = {.latency = 2000}, .threaded = true, .channel = true};
	struct ibv_cq *cq;
	struct pair p;
	struct ibv_wc wc;
	void *ctx;

	pair_open(&p, &pp, IBV_QPT_RC);
	for (unsigned i = 0; i < 200; i++) {
		pair_recv(&p.b, i, 0, 4096);
		CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
		CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 0), 0);
		CU_ASSERT_EQUAL(
			pair_post(&p.a, IBV_WR_SEND, i, 0, 2000, &p.b, 0, IBV_SEND_SIGNALED), 0);
		CU_ASSERT_EQUAL_FATAL(ibv_get_cq_event(p.b.channel, &cq, &ctx), 0);
		CU_ASSERT(cq == p.b.cq && ibv_poll_cq(cq, 1, &wc) == 1 && wc.wr_id == i);
		ibv_ack_cq_events(cq, 1);
		CU_ASSERT_EQUAL_FATAL(ibv_get_cq_event(p.a.channel, &cq, &ctx), 0);
		CU_ASSERT(cq == p.a.cq && ibv_poll_cq(cq, 1, &wc) == 1 && wc.wr_id == i);
		ibv_ack_cq_events(cq, 1);
	}
	pair_close(&p);
}

URXE_TEST_MAIN("threads", T(test_clean), T(test_lossy), T(test_two_lanes), T(test_sixteen_lanes),
	       T(test_blocked))
