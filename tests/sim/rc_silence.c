/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Losses after which both ends are silent: the requester asks before its ACK time-out, which is
 * made long here, and that is counted as ever. Side a requests.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "netio/stack.h"
#include "forge.h"
#include "progress.h"

#define MS	1000000ull
#define LATENCY 1000
#define TIMEOUT 18 /* 1.07 s */
#define SOON	(60 * MS)
#define ANY	(-1)

/* Frames that are lost: the first @times of @opcode that @back or forth pass by. */
struct loss {
	bool back;
	int opcode, at; /* at: packet of the message, or ANY */
	unsigned times;
};

struct rig {
	struct pair p;
	struct loss loss[2];
	uint32_t psn; /* of the message's first packet */
};

static bool pass(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	struct rig *r = arg;
	struct urxe_frame f = {.data = (uint8_t *)(uintptr_t)data, .len = len};
	uint32_t at = urxe_frame_roce(&f);
	const uint8_t *bth = data + at;

	for (unsigned i = 0; at && i < 2; i++) {
		struct loss *l = &r->loss[i];

		if (!l->times || l->back != (from == r->p.b.end) ||
		    (l->opcode != ANY && bth[0] != l->opcode) ||
		    (l->at != ANY && urxe_psn_diff(urxe_bth_psn(bth), r->psn) != l->at))
			continue;
		l->times--;
		return false;
	}
	return true;
}

static struct urxe_requester *requester(struct rig *r)
{
	return &to_urxe_qp(r->p.a.qp)->req;
}

static int post(struct rig *r, enum ibv_wr_opcode op, uint64_t id, uint32_t len)
{
	return pair_post(&r->p.a, op, id, 0x4000, len, &r->p.b, 0x8000, IBV_SEND_SIGNALED);
}

static bool done(struct rig *r, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	return pair_wait(&r->p, r->p.a.cq, &wc) && wc.wr_id == id && wc.status == status;
}

/* What a round trip takes is known. */
static void warm_up(struct rig *r)
{
	for (unsigned i = 0; i < 8; i++) {
		CU_ASSERT_EQUAL(post(r, IBV_WR_RDMA_WRITE, i, 8), 0);
		CU_ASSERT(done(r, i, IBV_WC_SUCCESS));
	}
	r->psn = requester(r)->next_psn;
}

static void rig_open(struct rig *r, const struct pair_params *params)
{
	struct pair_params pp = *params;

	memset(r, 0, sizeof(*r));
	if (!pp.seed)
		pp.seed = 5;
	pp.link.latency = LATENCY;
	if (!pp.timeout)
		pp.timeout = TIMEOUT;
	pair_open(&r->p, &pp, IBV_QPT_RC);
	pair_meet(&r->p);
	urxe_sim_filter(r->p.sim, pass, r);
}

static void rig_close(struct rig *r)
{
	urxe_sim_filter(r->p.sim, NULL, NULL);
	pair_close(&r->p);
}

/* ---- losses ---- */

static const struct {
	const char *what;
	enum ibv_wr_opcode op;
	uint32_t len;	 /* the path MTU is 1024 */
	unsigned probes; /* it takes */
	struct loss loss[2];
} cases[] = {
	{"the only packet", IBV_WR_SEND, 9, 1, {{false, ANY, 0, 1}}},
	{"the last packet", IBV_WR_RDMA_WRITE, 5000, 1, {{false, ANY, 4, 1}}},
	{"all packets", IBV_WR_RDMA_WRITE, 5000, 1, {{false, ANY, ANY, 5}}},
	{"a packet, and it again", IBV_WR_RDMA_WRITE, 9000, 0, {{false, ANY, 2, 2}}},
	{"a packet, four times", IBV_WR_SEND, 9000, 0, {{false, ANY, 2, 4}}},
	{"the last packet, four times", IBV_WR_SEND, 9000, 4, {{false, ANY, 8, 4}}},
	{"the ACK", IBV_WR_RDMA_WRITE, 9, 1, {{true, ACK, ANY, 1}}},
	{"the ACK, four times", IBV_WR_SEND, 9000, 4, {{true, ACK, ANY, 4}}},
	{"a packet, and its NAK", IBV_WR_SEND, 9000, 1, {{false, ANY, 3, 1}, {true, ACK, ANY, 1}}},
	{"a packet twice, and the next ACK",
	 IBV_WR_SEND,
	 9000,
	 1,
	 {{false, ANY, 3, 2}, {true, ACK, 3, 1}}},
	{"the READ request", IBV_WR_RDMA_READ, 9000, 1, {{false, ANY, 0, 1}}},
	{"the last READ response", IBV_WR_RDMA_READ, 9000, 1, {{true, ANY, 8, 1}}},
	{"a READ response, and it again", IBV_WR_RDMA_READ, 9000, 1, {{true, ANY, 3, 2}}},
	{"a READ response, three times", IBV_WR_RDMA_READ, 9000, 2, {{true, ANY, 3, 3}}},
	{"a READ response, and the second request",
	 IBV_WR_RDMA_READ,
	 9000,
	 1,
	 {{true, ANY, 3, 1}, {false, ANY, 3, 1}}},
	{"the ATOMIC", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1, {{false, ANY, 0, 1}}},
	{"the ATOMIC's answer, twice", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 2, {{true, ANY, 0, 2}}},
};

static void lose(unsigned i)
{
	struct pair_params pp = {.set_retries = true, .retry_cnt = 1};
	bool read = cases[i].op == IBV_WR_RDMA_READ;
	uint64_t start, word;
	struct rig r;
	bool ok;

	rig_open(&r, &pp);
	warm_up(&r);
	for (uint32_t k = 0; k < cases[i].len; k++)
		(read ? r.p.b.buf + 0x8000 : r.p.a.buf + 0x4000)[k] = (uint8_t)(k * 7 + 3);
	memset(r.p.b.buf, 0, 0x4000);
	if (cases[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		memset(r.p.b.buf + 0x8000, 0, 8);
	pair_recv(&r.p.b, 1, 0, 0x4000);
	memcpy(r.loss, cases[i].loss, sizeof(r.loss));
	start = urxe_sim_now(r.p.sim);
	CU_ASSERT_EQUAL(post(&r, cases[i].op, 99, cases[i].len), 0);
	ok = done(&r, 99, IBV_WC_SUCCESS) && urxe_sim_now(r.p.sim) - start < SOON &&
	     !pair_stat(&r.p.a, URXE_STAT_TIMEOUTS) &&
	     pair_stat(&r.p.a, URXE_STAT_PROBES) == cases[i].probes &&
	     requester(&r)->retries == 1 && !r.loss[0].times && !r.loss[1].times;
	if (cases[i].op == IBV_WR_SEND)
		ok = ok && !memcmp(r.p.b.buf, r.p.a.buf + 0x4000, cases[i].len);
	else if (cases[i].op != IBV_WR_ATOMIC_FETCH_AND_ADD)
		ok = ok && !memcmp(r.p.b.buf + 0x8000, r.p.a.buf + 0x4000, cases[i].len);
	memcpy(&word, r.p.b.buf + 0x8000, 8);
	if (cases[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		ok = ok && word == 1; /* once */
	if (!ok)
		printf("\n    lost: %s; after %llu us, time-outs %llu, probes %llu, %u and %u not "
		       "lost",
		       cases[i].what, (unsigned long long)(urxe_sim_now(r.p.sim) - start) / 1000,
		       (unsigned long long)pair_stat(&r.p.a, URXE_STAT_TIMEOUTS),
		       (unsigned long long)pair_stat(&r.p.a, URXE_STAT_PROBES), r.loss[0].times,
		       r.loss[1].times);
	CU_ASSERT(ok);
	rig_close(&r);
}

static void test_lost(void)
{
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		lose(i);
}

/* A lost RNR NAK is asked for again; and while the requester waits as told, it asks nothing. */
static void test_rnr(void)
{
	struct pair_params pp = {.min_rnr_timer = 26}; /* 81.92 ms */
	struct rig r;

	rig_open(&r, &pp);
	warm_up(&r);
	r.loss[0] = (struct loss){true, ACK, 0, 1};
	CU_ASSERT_EQUAL(post(&r, IBV_WR_SEND, 1, 8), 0);
	pair_settle(&r.p, 20 * MS);
	CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_PROBES), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_TX_RNR_NAK), 2);
	pair_recv(&r.p.b, 1, 0, 8);
	CU_ASSERT(done(&r, 1, IBV_WC_SUCCESS));
	CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_PROBES), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_TIMEOUTS), 0);
	rig_close(&r);
}

/* ---- what must not change ---- */

/* A peer that is gone: as many time-outs, and as long, as with a round trip that is not known. */
static void test_dead_peer(void)
{
	for (uint8_t retries = 0; retries <= 7; retries++) {
		struct pair_params pp = {.set_retries = true, .retry_cnt = retries, .timeout = 14};
		uint64_t took[2];

		for (unsigned known = 0; known < 2; known++) {
			struct rig r;

			rig_open(&r, &pp);
			if (known)
				warm_up(&r);
			r.loss[0] = (struct loss){true, ANY, ANY, UINT32_MAX};
			took[known] = urxe_sim_now(r.p.sim);
			CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 99, 5000), 0);
			CU_ASSERT(done(&r, 99, IBV_WC_RETRY_EXC_ERR));
			took[known] = urxe_sim_now(r.p.sim) - took[known];
			CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_TIMEOUTS), retries + 1u);
			CU_ASSERT_EQUAL(pair_state(r.p.a.qp), IBV_QPS_ERR);
			/* Each waits twice as long as the one before. */
			CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_PROBES) != 0, known);
			CU_ASSERT(pair_stat(&r.p.a, URXE_STAT_PROBES) <= 24);
			rig_close(&r);
		}
		CU_ASSERT(took[1] / 100000 == took[0] / 100000); /* to a tenth of a millisecond */
	}
}

/* The way becomes longer than was ever measured: nothing was lost, and the window shows it. */
static void test_late_answer(void)
{
	struct urxe_sim_params slow = {.latency = 10 * MS};
	struct pair_params pp = {0};
	uint32_t cwnd, ssthresh;
	uint64_t probes = 0;
	struct rig r;

	rig_open(&r, &pp);
	warm_up(&r);
	cwnd = requester(&r)->cc.window.cwnd;
	ssthresh = requester(&r)->cc.window.ssthresh;
	urxe_sim_end_params(r.p.b.end, &slow);
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 1, 9000), 0);
	CU_ASSERT(done(&r, 1, IBV_WC_SUCCESS));
	CU_ASSERT(pair_stat(&r.p.a, URXE_STAT_PROBES) > 0);
	CU_ASSERT(requester(&r)->cc.window.cwnd >= cwnd);
	CU_ASSERT_EQUAL(requester(&r)->cc.window.ssthresh, ssthresh);
	/* What was sent twice measures nothing; backing off at last lets one be measured. */
	for (unsigned i = 0; i < 6; i++) {
		if (i == 2)
			probes = pair_stat(&r.p.a, URXE_STAT_PROBES);
		pair_settle(&r.p, 50 * MS);
		CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 2 + i, 9000), 0);
		CU_ASSERT(done(&r, 2 + i, IBV_WC_SUCCESS));
	}
	CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_PROBES), probes);
	CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_TIMEOUTS), 0);
	rig_close(&r);
}

/* Answers to many packets come late, and one after the other: little is sent twice. */
static void test_late_answers(void)
{
	struct urxe_sim_params slow = {.latency = 10 * MS, .bandwidth = 500000}; /* 1 ms each */
	struct pair_params pp = {0};
	struct rig r;

	rig_open(&r, &pp);
	warm_up(&r);
	urxe_sim_end_params(r.p.b.end, &slow);
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 1, 64 << 10), 0);
	CU_ASSERT_EQUAL(urxe_psn_diff(requester(&r)->max_psn, requester(&r)->una), 64);
	CU_ASSERT(done(&r, 1, IBV_WC_SUCCESS));
	CU_ASSERT(pair_stat(&r.p.a, URXE_STAT_PROBES) > 0);
	CU_ASSERT(pair_stat(&r.p.b, URXE_STAT_RX_DUPLICATE) <= 24);
	rig_close(&r);
}

/* It was we who did not run: what has arrived meanwhile is looked at before anything is suspected.
 */
static void test_away(void)
{
	struct pair_params pp = {0};
	struct rig r;

	rig_open(&r, &pp);
	warm_up(&r);
	/* The ACK is behind more than is received at once. */
	for (unsigned i = 0; i < URXE_RX_BURST + 8; i++)
		CU_ASSERT_EQUAL(pair_post(&r.p.b, IBV_WR_RDMA_WRITE, i, 0, 8, &r.p.a, 0, 0), 0);
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 99, 8), 0);
	for (unsigned i = 0; i < 50; i++) {
		urxe_sim_advance(r.p.sim, urxe_sim_now(r.p.sim) + MS / 10);
		urxe_progress_turn(r.p.b.dev);
	}
	CU_ASSERT(done(&r, 99, IBV_WC_SUCCESS));
	CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_PROBES), 0);
	rig_close(&r);
}

/* As pair_settle(), but time does not jump to the next timer. */
static void pass_time(struct pair *p, uint64_t ns)
{
	uint64_t end = urxe_sim_now(p->sim) + ns;

	while (urxe_sim_now(p->sim) < end) {
		if (urxe_progress_turn(p->a.dev) + urxe_progress_turn(p->b.dev) == 0)
			urxe_sim_advance(p->sim, urxe_sim_now(p->sim) + ns / 64);
	}
}

/* A far peer that speaks now and then is there: what it does not answer is asked for. */
static void test_far(void)
{
	struct urxe_sim_params far = {.latency = 10 * MS};
	struct pair_params pp = {0};
	struct rig r;

	rig_open(&r, &pp);
	urxe_sim_end_params(r.p.a.end, &far);
	urxe_sim_end_params(r.p.b.end, &far);
	warm_up(&r);
	r.loss[0] = (struct loss){false, RC(WRITE_ONLY), ANY, 1};
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 99, 8), 0);
	for (unsigned i = 0; i < 12; i++) {
		CU_ASSERT_EQUAL(pair_post(&r.p.b, IBV_WR_RDMA_WRITE, i, 0, 8, &r.p.a, 0, 0), 0);
		pass_time(&r.p, 8 * MS);
	}
	CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_PROBES), 1);
	CU_ASSERT(done(&r, 99, IBV_WC_SUCCESS));
	CU_ASSERT_EQUAL(pair_stat(&r.p.a, URXE_STAT_TIMEOUTS), 0);
	rig_close(&r);
}

/* A window that was lost, all of it, stays small. */
static void test_window(void)
{
	struct pair_params pp = {0};
	struct rig r;

	rig_open(&r, &pp);
	warm_up(&r);
	r.loss[0] = (struct loss){false, ANY, ANY, 60};
	CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_WRITE, 1, 60 << 10), 0);
	CU_ASSERT(done(&r, 1, IBV_WC_SUCCESS));
	CU_ASSERT(requester(&r)->cc.window.cwnd <= 40);
	CU_ASSERT(requester(&r)->cc.window.ssthresh <= 40);
	rig_close(&r);
}

/* ---- many QPs ---- */

#define QPS 16

struct crowd {
	struct rig r;
	struct ibv_qp *qp[2][QPS], *own[2];
	uint64_t left[2][QPS]; /* messages to post */
	unsigned out, errors;
};

static struct side *side_of(struct crowd *c, unsigned s)
{
	return s ? &c->r.p.b : &c->r.p.a;
}

static void crowd_open(struct crowd *c, const struct pair_params *pp, uint64_t messages)
{
	memset(c, 0, sizeof(*c));
	rig_open(&c->r, pp);
	for (unsigned i = 0; i < QPS; i++) {
		struct pair_params q = {.timeout = TIMEOUT, .seed = i};

		for (unsigned s = 0; s < 2; s++) {
			c->qp[s][i] = pair_qp(side_of(c, s), &q, IBV_QPT_RC);
			c->left[s][i] = messages;
		}
		pair_connect(&c->r.p, &c->r.p.a, c->qp[0][i], &c->r.p.b, c->qp[1][i], &q);
	}
	c->own[0] = c->r.p.a.qp;
	c->own[1] = c->r.p.b.qp;
}

static void crowd_close(struct crowd *c)
{
	for (unsigned s = 0; s < 2; s++) {
		side_of(c, s)->qp = c->own[s];
		for (unsigned i = 0; i < QPS; i++)
			CU_ASSERT_EQUAL(ibv_destroy_qp(c->qp[s][i]), 0);
	}
	rig_close(&c->r);
}

static void crowd_post(struct crowd *c, unsigned s, unsigned i, uint32_t len)
{
	struct side *from = side_of(c, s), *to = side_of(c, !s);

	from->qp = c->qp[s][i];
	c->errors += pair_post(from, IBV_WR_RDMA_WRITE, i, 0x4000, len, to, 0x8000,
			       IBV_SEND_SIGNALED) != 0;
	c->left[s][i]--;
	c->out++;
}

static bool crowd_drive(void *arg)
{
	struct crowd *c = arg;
	struct ibv_wc wc;

	for (unsigned s = 0; s < 2; s++) {
		while (ibv_poll_cq(side_of(c, s)->cq, 1, &wc) == 1) {
			c->errors += wc.status != IBV_WC_SUCCESS;
			c->out--;
			if (c->left[s][wc.wr_id])
				crowd_post(c, s, (unsigned)wc.wr_id, 3000);
		}
	}
	return !c->out || c->errors;
}

/* Both directions lose: nobody waits for a time-out. */
static void test_lossy_crowd(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct pair_params pp = {0};
		struct urxe_sim_params lossy = {.latency = LATENCY, .loss = 0.05};
		struct crowd c;

		crowd_open(&c, &pp, 30 + seed);
		warm_up(&c.r);
		urxe_sim_end_params(c.r.p.a.end, &lossy);
		urxe_sim_end_params(c.r.p.b.end, &lossy);
		for (unsigned i = 0; i < 2 * QPS; i++)
			crowd_post(&c, i % 2, i / 2, 3000);
		CU_ASSERT(pair_run(&c.r.p, 100000 * MS, crowd_drive, &c));
		CU_ASSERT_EQUAL(c.errors, 0);
		CU_ASSERT_EQUAL(pair_stat(&c.r.p.a, URXE_STAT_TIMEOUTS), 0);
		CU_ASSERT(pair_stat(&c.r.p.a, URXE_STAT_PROBES) > 0);
		crowd_close(&c);
	}
}

/* A peer that says nothing to anybody is asked by one QP at a time, not by each. */
static void test_silent_crowd(void)
{
	struct pair_params pp = {0};
	struct crowd c;
	uint64_t probes;

	crowd_open(&c, &pp, 1);
	warm_up(&c.r);
	pair_settle(&c.r.p, 5 * MS);
	c.r.loss[0] = (struct loss){true, ANY, ANY, UINT32_MAX};
	for (unsigned i = 0; i < QPS; i++)
		crowd_post(&c, 0, i, 3000);
	pair_settle(&c.r.p, 100 * MS);
	probes = pair_stat(&c.r.p.a, URXE_STAT_PROBES);
	CU_ASSERT(probes > 0 && probes <= QPS * 11);
	c.r.loss[0].times = 0;
	CU_ASSERT(pair_run(&c.r.p, 300 * MS, crowd_drive, &c));
	CU_ASSERT_EQUAL(c.errors, 0);
	CU_ASSERT_EQUAL(pair_stat(&c.r.p.a, URXE_STAT_TIMEOUTS), 0);
	crowd_close(&c);
}

/* One that does speak is asked by all that miss something. */
static void test_talking_crowd(void)
{
	struct pair_params pp = {0};
	struct crowd c;

	crowd_open(&c, &pp, 1);
	warm_up(&c.r);
	c.r.loss[0] = (struct loss){false, RC(WRITE_ONLY), ANY, QPS};
	for (unsigned i = 0; i < QPS; i++)
		crowd_post(&c, 0, i, 8);
	for (unsigned i = 0; i < 60; i++) {
		CU_ASSERT_EQUAL(pair_post(&c.r.p.b, IBV_WR_RDMA_WRITE, i, 0, 8, &c.r.p.a, 0, 0), 0);
		pass_time(&c.r.p, MS / 10);
	}
	CU_ASSERT(crowd_drive(&c));
	CU_ASSERT_EQUAL(c.errors, 0);
	CU_ASSERT_EQUAL(pair_stat(&c.r.p.a, URXE_STAT_PROBES), QPS);
	CU_ASSERT_EQUAL(pair_stat(&c.r.p.a, URXE_STAT_TIMEOUTS), 0);
	crowd_close(&c);
}

/* ---- a peer that answers no part of a READ before one that it was asked for again ---- */

#define READS	  16
#define READ_PSNS 8

static struct {
	uint32_t first;	      /* PSN of the first READ */
	uint32_t from[READS]; /* parts of each that begin before are not answered any more */
	unsigned refused;
} reads;

/* quirks.md: read-from */
static bool answers_from(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	struct rig *r = arg;
	struct urxe_frame f = {.data = (uint8_t *)(uintptr_t)data, .len = len};
	uint32_t at = urxe_frame_roce(&f), psn, i;

	if (!at || from != r->p.a.end || data[at] != (URXE_SVC_RC | URXE_OP_READ_REQUEST))
		return true;
	psn = (urxe_bth_psn(data + at) - reads.first) & URXE_PSN_MASK;
	i = psn / READ_PSNS;
	if (i >= READS || psn < reads.from[i]) {
		reads.refused += i < READS;
		return i >= READS;
	}
	reads.from[i] = psn;
	return true;
}

static void test_reads_again(void)
{
	struct urxe_sim_params lossy = {.latency = LATENCY, .loss = 0.1};
	struct rig r;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct pair_params pp = {.rd_atomic = 8, .seed = seed};

		rig_open(&r, &pp);
		warm_up(&r);
		memset(&reads, 0, sizeof(reads));
		reads.first = r.psn;
		urxe_sim_filter(r.p.sim, answers_from, &r);
		urxe_sim_end_params(r.p.b.end, &lossy);
		for (unsigned i = 0; i < READS; i++)
			CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_READ, i, READ_PSNS * 1024), 0);
		for (unsigned i = 0; i < READS; i++)
			CU_ASSERT(done(&r, i, IBV_WC_SUCCESS));
		CU_ASSERT_EQUAL(reads.refused, 0);
		rig_close(&r);
	}
}

/* Of a READ in parts no more is asked for again than was asked for: the peer has no resource for
 * parts that were not begun. */
static void test_long_read(void)
{
	static const struct {
		uint8_t limit;
		struct loss loss;
	} of[] = {
		{1, {true, ANY, 511, 1}},  /* the last response of the first part */
		{1, {false, ANY, 0, 1}},   /* the first request */
		{2, {true, ANY, 1023, 1}}, /* the last response of the second part of two */
		{4, {true, ANY, 1023, 1}},
		{2, {false, ANY, 0, 1}}, /* three parts, two resources: the first request */
	};

	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct pair_params pp = {.mtu = 256, .rd_atomic = of[i].limit};
		uint32_t len = 3 * 512 * 256;
		struct rig r;

		rig_open(&r, &pp);
		warm_up(&r);
		for (uint32_t k = 0; k < len; k++)
			r.p.b.buf[0x8000 + k] = (uint8_t)(k >> 8 ^ k * 3);
		r.loss[0] = of[i].loss;
		CU_ASSERT_EQUAL(post(&r, IBV_WR_RDMA_READ, 1, len), 0);
		CU_ASSERT(done(&r, 1, IBV_WC_SUCCESS));
		CU_ASSERT(!memcmp(r.p.a.buf + 0x4000, r.p.b.buf + 0x8000, len));
		rig_close(&r);
	}
}

URXE_TEST_MAIN("rc_silence", T(test_lost), T(test_rnr), T(test_dead_peer), T(test_late_answer),
	       T(test_late_answers), T(test_away), T(test_far), T(test_window), T(test_lossy_crowd),
	       T(test_silent_crowd), T(test_talking_crowd), T(test_reads_again), T(test_long_read))
