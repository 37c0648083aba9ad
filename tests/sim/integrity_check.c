/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What must be true of what has arrived. */
#include <stdlib.h>
#include <string.h>

#include "integrity.h"

/* ---- connected and reliable: each once, in order ---- */

static void check_sent(struct flow *f, unsigned i)
{
	struct op *o = &f->ops[i];
	uint8_t data[MAX_LEN], *dst = DST(f, i);
	struct ibv_sge at = {(uintptr_t)dst + o->at, o->len, 0};
	bool good = true;

	data_of(f, i, data, o->len);
	if (IS_READ(o->what)) {
		good = slot_is(SRC(f, i), o->sge, o->num_sge, data, o->len);
		memset(RD(f, i), GUARD, SLOT);
	} else if (IS_ATOMIC(o->what)) {
		good = slot_is(SRC(f, i), o->sge, o->num_sge, (uint8_t *)&o->expect, 8);
	} else if (IS_WRITE(o->what) || o->what == W_AWRITE) {
		good = slot_is(dst, &at, 1, data, o->len);
		memset(dst, GUARD, SLOT);
	} else if (o->what == W_BIND) {
		f->back->mw_state = MW_BOUND;
	} else if (o->what == W_LOCAL_INV) {
		f->back->mw_state = MW_IDLE;
	} else if (o->what == W_SEND_INV) {
		f->mw_state = MW_IDLE;
	}
	if (o->what == W_MW_WRITE || o->what == W_MW_READ)
		f->mw_out--;
	if (!good)
		FAIL(f->r, "operation %u of kind %d, %u bytes: not what it should be\n", i, o->what,
		     o->len);
}

static void sent(struct flow *f, const struct ibv_wc *wc)
{
	struct op *o = &f->ops[wc->wr_id % OPS];

	if (wc->status || wc->wr_id >= f->posted || wc->wr_id < f->completed ||
	    wc->opcode != codes[o->what].wc || wc->qp_num != f->qp->qp_num ||
	    ((IS_READ(o->what) || IS_ATOMIC(o->what)) && wc->byte_len != o->len)) {
		FAIL(f->r, "send %u of kind %d: %s, opcode %u\n", (unsigned)wc->wr_id, o->what,
		     ibv_wc_status_str(wc->status), wc->opcode);
		return;
	}
	while (f->completed <= wc->wr_id)
		check_sent(f, f->completed++);
}

static bool wc_fits(const struct flow *f, unsigned i, const struct ibv_wc *wc)
{
	const struct op *o = &f->ops[i];
	unsigned grh = f->r->kind == K_UD ? GRH : 0;
	bool imm = o->what == W_SEND_IMM || o->what == W_WRITE_IMM || o->what == W_MCAST;

	return !wc->status && wc->byte_len == o->len + grh &&
	       wc->opcode == (o->what == W_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) &&
	       !(wc->wc_flags & IBV_WC_WITH_IMM) == !imm &&
	       !(wc->wc_flags & IBV_WC_WITH_INV) == (o->what != W_SEND_INV) &&
	       (!imm || wc->imm_data == htobe32(i)) &&
	       (o->what != W_SEND_INV || wc->invalidated_rkey == o->rkey) &&
	       (grh ? wc->src_qp == f->qp->qp_num && wc->wc_flags & IBV_WC_GRH : true);
}

static void received(struct flow *f, const struct ibv_wc *wc)
{
	unsigned i = f->out < f->in ? f->fifo[f->out] : OPS, n = f->received;
	struct op *o = &f->ops[i % OPS];
	struct recv *v = &f->recvs[n % WINDOW];
	uint8_t data[MAX_LEN];

	if (i == OPS || wc->wr_id != n || !wc_fits(f, i, wc)) {
		FAIL(f->r, "receive %u for %u of kind %d: %s, %u bytes of %u\n", n, i, o->what,
		     ibv_wc_status_str(wc->status), wc->byte_len, o->len);
		return;
	}
	data_of(f, i, data, o->len);
	if (!slot_is(RCV(f, n), v->sge, v->num_sge, data, o->what == W_WRITE_IMM ? 0 : o->len))
		FAIL(f->r, "receive %u of %u bytes: not what was sent\n", n, o->len);
	f->out++;
	f->received++;
}

static bool done(const struct run *r)
{
	for (int k = 0; k < 2; k++)
		if (r->flow[k].completed < OPS || r->flow[k].out < r->flow[k].in)
			return false;
	return true;
}

static bool drive(void *arg)
{
	struct run *r = arg;
	struct ibv_wc wc;

	for (int k = 0; k < 2; k++) {
		struct flow *f = &r->flow[k];

		while (ibv_poll_cq(f->to->rcq, 1, &wc) == 1)
			received(f, &wc);
		while (ibv_poll_cq(f->from->scq, 1, &wc) == 1)
			sent(f, &wc);
		/* Late now and then: RNR NAKs are part of it. */
		while (f->recvs_posted < f->received + 2 + rnd(r, 4))
			post_recv(f);
		while (!r->failed && f->posted < OPS && f->posted < f->completed + WINDOW)
			post_some(f);
	}
	return r->failed || done(r);
}

static void check_words(struct run *r)
{
	for (int k = 0; k < 2; k++) {
		struct flow *f = &r->flow[k];

		if (f->to->words[0] != f->counter || f->to->words[1] != f->word)
			FAIL(r, "the words of atomics are not what they should be\n");
	}
}

void run_reliable(struct run *r)
{
	if (!pair_run(&r->p, 600000000000ull, drive, r))
		FAIL(r, "stuck: sent %u and %u of %u\n", r->flow[0].completed, r->flow[1].completed,
		     OPS);
	check_words(r);
}

/* ---- unreliable: what arrives is whole ---- */

/* Which message of either side is this? Several may be alike. */
static bool arrived(struct run *r, struct flow *f, const struct ibv_wc *wc)
{
	static uint8_t got[SLOT];
	struct recv *v = &f->recvs[wc->wr_id % WINDOW];
	uint8_t data[GRH + MAX_LEN], *slot = RCV(f, wc->wr_id); /* the GRH is checked elsewhere */
	uint32_t grh = r->kind == K_UD ? GRH : 0, n = 0;

	for (unsigned i = 0; i < v->num_sge; i++) {
		memcpy(got + n, (void *)(uintptr_t)v->sge[i].addr, v->sge[i].length);
		n += v->sge[i].length;
	}
	for (int k = 0; k < 2; k++) {
		struct flow *g = &r->flow[k];

		for (unsigned i = g->completed; i < g->posted; i++) {
			struct op *o = &g->ops[i];

			if ((o->what == W_MCAST || g == f) && wc_fits(g, i, wc)) {
				/* A message that was given up leaves its beginning there. */
				memcpy(data, got, n);
				data_of(g, i, data + grh, o->what == W_WRITE_IMM ? 0 : o->len);
				if (slot_is(slot, v->sge, v->num_sge, data, n)) {
					o->copies++;
					return true;
				}
			}
		}
	}
	return false;
}

/* Each byte of a WRITE is there or is not; all of it when its immediate has come. */
static void check_write(struct flow *f, unsigned i)
{
	struct op *o = &f->ops[i];
	uint8_t data[MAX_LEN], *dst = DST(f, i);
	struct ibv_sge at = {(uintptr_t)dst + o->at, o->len, 0};

	data_of(f, i, data, o->len);
	if (!o->copies)
		for (uint32_t k = 0; k < o->len; k++)
			if (dst[o->at + k] == GUARD)
				dst[o->at + k] = data[k];
	if (!slot_is(dst, &at, 1, data, o->len))
		FAIL(f->r, "write %u of %u bytes: not what was sent\n", i, o->len);
	memset(dst, GUARD, SLOT);
}

static void end_of_batch(struct run *r)
{
	struct ibv_wc wc;

	for (int k = 0; k < 2; k++) {
		struct flow *f = &r->flow[k];

		while (ibv_poll_cq(f->to->rcq, 1, &wc) == 1) {
			f->received++;
			if (!arrived(r, f, &wc))
				FAIL(r, "receive %u: %s, %u bytes that nobody sent\n",
				     (unsigned)wc.wr_id, ibv_wc_status_str(wc.status), wc.byte_len);
		}
	}
	for (int k = 0; k < 2; k++) {
		struct flow *f = &r->flow[k];

		while (ibv_poll_cq(f->from->scq, 1, &wc) == 1)
			if (wc.status || wc.opcode != codes[f->ops[wc.wr_id % OPS].what].wc)
				FAIL(r, "send %u: %s\n", (unsigned)wc.wr_id,
				     ibv_wc_status_str(wc.status));
		for (unsigned i = f->completed; i < f->posted; i++)
			if (IS_WRITE(f->ops[i].what))
				check_write(f, i);
		f->completed = f->posted;
	}
}

/* Most of it must have come through, or nothing was tested. */
static void check_arrivals(struct run *r)
{
	unsigned copies = 0, messages = 0;

	for (int k = 0; k < 2; k++)
		for (unsigned i = 0; i < r->flow[k].posted; i++) {
			copies += !!r->flow[k].ops[i].copies;
			messages += HAS_RECV(r->flow[k].ops[i].what) ||
				    r->flow[k].ops[i].what == W_MCAST;
		}
	if (copies < messages / 3)
		FAIL(r, "only %u messages of %u came\n", copies, messages);
}

void run_unreliable(struct run *r)
{
	while (!r->failed && r->flow[0].completed < OPS) {
		for (int k = 0; k < 2; k++)
			while (r->flow[k].recvs_posted < r->flow[k].received + WINDOW)
				post_recv(&r->flow[k]);
		for (int k = 0; k < 2; k++)
			for (unsigned n = 0; n < 6 && r->flow[k].posted < OPS; n++)
				post_some(&r->flow[k]);
		pair_settle(&r->p, 10000000);
		end_of_batch(r);
	}
	check_arrivals(r);
}
