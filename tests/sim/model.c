/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Random walks over verbs, compared with the model of model.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"
#include "model.h"
#include "seeds.h"
#include "urxe/random.h"

#define STEPS	     4000
#define WARM_UP	     100
#define THREADS	     4
#define THREAD_STEPS 1500
#define PATIENCE_S   60 /* of real time, where there are threads */

uint32_t m_rnd(struct m_world *w, uint32_t below)
{
	return urxe_random_below(&w->rnd, below);
}

void m_fail(struct m_world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->failed)
		return;
	w->failed = true;
	fprintf(stderr, "\nseed %llu, step %u: ", (unsigned long long)w->seed, w->step);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
}

bool m_check(struct m_world *w, const char *verb, int got, int want)
{
	w->calls++;
	w->refused += want != 0;
	if (getenv("URXE_TEST_VERBOSE"))
		fprintf(stderr, "%u: %s: %s\n", w->step, verb, strerror(want));
	if (got != want)
		m_fail(w, "%s: %d (%s), not %d (%s)", verb, got, strerror(got), want,
		       strerror(want));
	return !got && !want;
}

/* ---- completions ---- */

void m_expect(struct m_world *w, struct m_obj *cq, uint32_t qpn, uint64_t id,
	      enum ibv_wc_status status, int opcode, uint32_t len)
{
	if (w->n_wc == sizeof(w->wc) / sizeof(w->wc[0])) {
		m_fail(w, "more completions to come than the model has room for");
		return;
	}
	w->wc[w->n_wc++] = (struct m_wc){cq, qpn, id, status, opcode, len, false};
}

void m_forget(struct m_world *w, const struct m_obj *cq, uint32_t qpn)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->n_wc; i++)
		if (w->wc[i].cq != cq || (qpn && w->wc[i].qpn != qpn))
			w->wc[n++] = w->wc[i];
	w->n_wc = n;
}

void m_destroyed(struct m_world *w, const struct m_obj *cq, uint32_t qpn)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->n_wc; i++) {
		struct m_wc wc = w->wc[i];
		bool its = wc.cq == cq && wc.qpn == qpn;

		wc.late |= its;
		if (!its || wc.status == IBV_WC_SUCCESS)
			w->wc[n++] = wc;
	}
	w->n_wc = n;
}

/* Nothing is under way any more: what has not come does not. */
static void forget_late(struct m_world *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->n_wc; i++)
		if (!w->wc[i].late)
			w->wc[n++] = w->wc[i];
	w->n_wc = n;
}

static void match(struct m_world *w, const struct m_obj *cq, const struct ibv_wc *wc)
{
	const struct m_wc *want = NULL;
	unsigned i;

	/* Those of one queue come in order. */
	for (i = 0; i < w->n_wc && !want; i++)
		if (w->wc[i].cq == cq && w->wc[i].qpn == wc->qp_num &&
		    !(w->wc[i].id & M_RECV) == !(wc->wr_id & M_RECV))
			want = &w->wc[i];
	if (!want || want->id != wc->wr_id || want->status != wc->status ||
	    (!wc->status && want->opcode != (int)wc->opcode) ||
	    (!wc->status && wc->wr_id & M_RECV && want->len != wc->byte_len)) {
		m_fail(w, "completion of %llx: %s, opcode %d, %u bytes; not %llx: %s, %d, %u",
		       (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), wc->opcode,
		       wc->byte_len, want ? (unsigned long long)want->id : 0ull,
		       want ? ibv_wc_status_str(want->status) : "nothing", want ? want->opcode : 0,
		       want ? want->len : 0);
		return;
	}
	w->completions++;
	w->by_status[wc->status]++;
	w->n_wc--;
	memmove(&w->wc[i - 1], &w->wc[i], (w->n_wc - (i - 1)) * sizeof(w->wc[0]));
}

static void poll_ex(struct m_world *w, const struct m_obj *cq)
{
	struct ibv_cq_ex *x = (struct ibv_cq_ex *)cq->cq;
	struct ibv_poll_cq_attr a = {0};
	int err = ibv_start_poll(x, &a);

	if (err == ENOENT)
		return;
	for (; !err && !w->failed; err = ibv_next_poll(x)) {
		struct ibv_wc wc = {.wr_id = x->wr_id,
				    .status = x->status,
				    .opcode = ibv_wc_read_opcode(x),
				    .byte_len = ibv_wc_read_byte_len(x),
				    .qp_num = ibv_wc_read_qp_num(x)};

		match(w, cq, &wc);
	}
	ibv_end_poll(x);
}

static void poll_all(struct m_world *w)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < M_OBJS; i++) {
		struct m_obj *cq = w->obj[M_CQ][i];

		if (cq && cq->ex)
			poll_ex(w, cq);
		while (cq && !cq->ex && !w->failed && ibv_poll_cq(cq->cq, 1, &wc) == 1)
			match(w, cq, &wc);
	}
}

/* ---- rest ---- */

static bool arrived(void *arg)
{
	struct m_world *w = arg;

	poll_all(w);
	forget_late(w); /* they were there before this poll */
	return w->failed || !w->n_wc;
}

/* Are the states of all QPs what they should be? @tell: it is too late otherwise. */
static bool states(struct m_world *w, bool tell)
{
	for (unsigned i = 0; i < M_OBJS; i++) {
		const struct m_obj *qp = w->obj[M_QP][i];

		if (qp && pair_state(qp->qp) != qp->state) {
			if (tell)
				m_fail(w, "a QP of type %d is in state %d, not %d", qp->qpt,
				       pair_state(qp->qp), qp->state);
			return false;
		}
	}
	return true;
}

static uint64_t seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec;
}

static void rest_threaded(struct m_world *w)
{
	uint64_t end = seconds() + PATIENCE_S;

	while (!w->failed && (!arrived(w) || !states(w, false)) && seconds() < end)
		sched_yield();
}

static void compare_memory(struct m_world *w)
{
	for (unsigned i = 0; i < w->n_loose; i++)
		memcpy(w->want[w->loose[i].side] + w->loose[i].at,
		       w->mem[w->loose[i].side] + w->loose[i].at, w->loose[i].len);
	w->n_loose = 0;
	for (int side = 0; side < 2; side++)
		for (uint32_t i = 0; memcmp(w->mem[side], w->want[side], M_ARENA); i++)
			if (w->mem[side][i] != w->want[side][i]) {
				m_fail(w, "memory of side %d at %x is %02x, not %02x", side, i,
				       w->mem[side][i], w->want[side][i]);
				return;
			}
	for (unsigned i = 0; i < M_OBJS; i++) {
		struct m_obj *dm = w->obj[M_DM][i];
		uint8_t now[M_DM_SIZE];

		if (!dm)
			continue;
		ibv_memcpy_from_dm(now, dm->dm, 0, sizeof(now));
		if (dm->ex) /* something is in it that only urxe knows */
			memcpy(dm->mem, now, sizeof(now));
		dm->ex = false;
		if (memcmp(now, dm->mem, sizeof(now)))
			m_fail(w, "device memory holds something else");
	}
}

static void drain_events(struct m_world *w)
{
	struct ibv_async_event ev;

	for (int i = 0; i < 2 * M_CTXS; i++)
		while (!ibv_get_async_event(w->ctx[i & 1][i / 2], &ev))
			ibv_ack_async_event(&ev);
}

/* All that the last step began comes to its end. */
static void rest(struct m_world *w)
{
	if (w->threaded) {
		rest_threaded(w);
	} else if (m_rnd(w, 8)) {
		pair_run(w->p, 5000000000ull, arrived, w);
		pair_settle(w->p, 200000);
		poll_all(w);
	} else { /* completions are left for later, or to be forgotten */
		pair_settle(w->p, 300000000);
	}
	if (!w->failed && w->n_wc && w->threaded)
		m_fail(w, "%u completions are missing: %llx", w->n_wc,
		       (unsigned long long)w->wc[0].id);
	states(w, true);
	if (!w->failed)
		compare_memory(w);
	drain_events(w);
}

/* ---- walks ---- */

static void make_some(struct m_world *w)
{
	static const enum m_type types[] = {M_PD, M_PD,	 M_XRCD, M_DM, M_CQ, M_CQ, M_MR,
					    M_MR, M_MR,	 M_MR,	 M_MW, M_MW, M_MW, M_AH,
					    M_AH, M_SRQ, M_SRQ,	 M_WQ, M_WQ};

	m_make(w, types[m_rnd(w, sizeof(types) / sizeof(types[0]))]);
}

static void destroy_some(struct m_world *w)
{
	struct m_obj *o = m_pick(w, (enum m_type)m_rnd(w, M_TYPES), -1, -1);

	/* Work that waits may name it: it stays until that is done. */
	for (unsigned i = 0; i < M_OBJS && o &&
			     (o->type == M_AH || o->type == M_MW || o->type == M_QP ||
			      o->type == M_MR || o->type == M_SRQ);
	     i++)
		if (w->obj[M_QP][i] && w->obj[M_QP][i]->n_pend && w->obj[M_QP][i] != o)
			return;
	if (o)
		m_destroy(w, o);
}

static const struct {
	void (*step)(struct m_world *w);
	unsigned weight;
} steps[] = {
	{make_some, 26},   {destroy_some, 10}, {m_make_qp, 8},	  {m_make_table, 1},
	{m_make_flow, 1},  {m_connect, 20},    {m_modify, 10},	  {m_revive, 12},
	{m_post_send, 70}, {m_post_recv, 50},  {m_bind_type1, 5}, {m_rereg, 2},
	{m_srq_modify, 3}, {m_wq_modify, 2},   {m_dm_copy, 3},	  {m_cq_misc, 3},
	{m_mcast, 2},
};

static void one_step(struct m_world *w)
{
	const unsigned n = sizeof(steps) / sizeof(steps[0]);
	unsigned sum = 0, i = 0, at;

	for (unsigned k = 0; k < n; k++)
		sum += steps[k].weight;
	at = m_rnd(w, sum);
	while (at >= steps[i].weight)
		at -= steps[i++].weight;
	steps[i].step(w);
}

static void world_open(struct m_world *w)
{
	struct side *s[2] = {&w->p->a, &w->p->b};

	for (int k = 0; k < 2; k++) {
		w->mem[k] = aligned_alloc(4096, M_ARENA);
		w->want[k] = aligned_alloc(4096, M_ARENA);
		CU_ASSERT_FATAL(w->mem[k] && w->want[k]);
		for (uint32_t i = 0; i < M_ARENA; i++)
			w->mem[k][i] = w->want[k][i] = (uint8_t)m_rnd(w, 256);
		for (int c = 0; c < M_CTXS; c++) {
			w->ctx[k][c] = ibv_open_device(&s[k]->dev->vdev.device);
			CU_ASSERT_FATAL(w->ctx[k][c] != NULL);
			fcntl(w->ctx[k][c]->async_fd, F_SETFL, O_NONBLOCK);
		}
	}
}

/* Nothing may be left that cannot go. Parent domains go before what they stand for. */
static void world_close(struct m_world *w)
{
	for (int t = M_TYPES - 1; t >= 0; t--)
		for (unsigned i = 0; i < 2 * M_OBJS; i++) {
			struct m_obj *o = w->obj[t][i % M_OBJS];

			if (!o || (t == M_PD && o->root == o && i < M_OBJS))
				continue;
			for (unsigned g = 0; t == M_QP && g < 2; g++) {
				union ibv_gid gid = m_group(w, g);

				if (o->groups & 1u << g)
					m_check(w, "detach_mcast", ibv_detach_mcast(o->qp, &gid, 0),
						0);
			}
			o->groups = 0;
			m_destroy(w, o);
			/* What is left of the rest is a leak on purpose: the walk has failed. */
			if (w->failed)
				return;
		}
	for (int k = 0; k < 2; k++) {
		for (int c = 0; c < M_CTXS; c++)
			m_check(w, "close_device", ibv_close_device(w->ctx[k][c]), 0);
		free(w->mem[k]);
		free(w->want[k]);
	}
}

static void tell(const struct m_world *w)
{
	fprintf(stderr, "seed %llu: %u calls, %u refused, %u completions",
		(unsigned long long)w->seed, w->calls, w->refused, w->completions);
	for (int i = 0; i < 32; i++)
		if (w->by_status[i])
			fprintf(stderr, ", %u %s", w->by_status[i],
				ibv_wc_status_str((enum ibv_wc_status)i));
	fprintf(stderr, "\n");
}

static void walk(struct m_world *w, unsigned n)
{
	world_open(w);
	for (w->step = 1; w->step <= n && !w->failed; w->step++) {
		if (w->step > WARM_UP)
			one_step(w);
		else /* there must be something to play with */
			(m_rnd(w, 4) ? make_some : m_make_qp)(w);
		if (!w->failed)
			rest(w);
	}
	if (!w->failed)
		world_close(w);
	if (getenv("URXE_TEST_STATS"))
		tell(w);
}

static bool alone(uint64_t seed)
{
	struct pair_params pp = {.seed = seed, .link = {.latency = 1000}};
	struct m_world *w = calloc(1, sizeof(*w));
	static struct pair p;
	bool ok;

	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	w->p = &p;
	w->seed = seed;
	w->rnd = seed * 0x9e3779b97f4a7c15ull;
	walk(w, seeds_steps(STEPS));
	ok = !w->failed;
	/* It must have been about something. */
	if (ok && w->step > 1000 && (w->by_status[IBV_WC_SUCCESS] < w->step / 100 || !w->refused))
		m_fail(w, "little has happened");
	ok = ok && !w->failed;
	if (ok)
		pair_close(&p);
	free(w);
	return ok;
}

static void *thread_main(void *arg)
{
	walk(arg, seeds_steps(THREAD_STEPS));
	return NULL;
}

/* Each has contexts and objects of its own; devices, lanes and service threads are shared. */
static bool together(uint64_t seed)
{
	struct pair_params pp = {
		.seed = seed, .threaded = true, .link = {.latency = 1000, .lanes = 1 + seed % 2}};
	struct m_world *w = calloc(THREADS, sizeof(*w));
	pthread_t t[THREADS];
	static struct pair p;
	bool ok = true;

	pair_open(&p, &pp, IBV_QPT_RC);
	for (unsigned i = 0; i < THREADS; i++) {
		w[i].p = &p;
		w[i].threaded = true;
		w[i].seed = seed * 16 + i;
		w[i].rnd = w[i].seed * 0x9e3779b97f4a7c15ull;
		pthread_create(&t[i], NULL, thread_main, &w[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		ok = ok && !w[i].failed;
	}
	if (ok)
		pair_close(&p);
	free(w);
	return ok;
}

static void test_alone(void)
{
	seeds_run("test_alone", 6, alone);
}

static void test_threads(void)
{
	seeds_run("test_threads", 2, together);
}

int main(int argc, char **argv)
{
	static const struct urxe_test tests[] = {T(test_alone), T(test_threads), {NULL, NULL}};

	seeds_args(&argc, argv);
	return urxe_harness_main(argc, argv, "model", tests);
}
