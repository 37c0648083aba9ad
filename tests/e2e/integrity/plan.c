/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Random operations from a seed, the same on both nodes: what plan.h promises. */
#include "plan.h"

#include <string.h>

#include "urxe/random.h"

#define GAP	 100u	 /* bytes at most between pieces: all alignments come up */
#define BIG	 200000u /* longest message */
#define SLOT_MAX 30000u	 /* longest message of UC: its receives are slots of fixed size */

const char *const transport_names[TRANSPORTS] = {"rc", "uc", "ud", "xrc"};
const char *const op_names[OPS] = {
	"SEND", "SEND_WITH_IMM", "SEND_WITH_INV", "WRITE",	  "WRITE_WITH_IMM",
	"READ", "CMP_AND_SWP",	 "FETCH_AND_ADD", "ATOMIC_WRITE",
};

/* A stream of its own for each purpose. */
static uint64_t stream(const struct shape *s, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t r = s->seed ^ a << 56 ^ b << 24 ^ c;

	r = urxe_random_step(&r) + s->transport;
	return r;
}

static void fill(uint64_t *r, uint8_t *out, uint32_t len)
{
	uint64_t v;

	for (; len >= 8; len -= 8, out += 8) {
		v = urxe_random_step(r);
		memcpy(out, &v, 8);
	}
	v = urxe_random_step(r);
	memcpy(out, &v, len);
}

void plan_shape(struct shape *s, uint64_t seed, enum transport transport, unsigned mtu)
{
	uint64_t r;

	*s = (struct shape){.seed = seed, .transport = transport, .mtu = mtu, .batches = BATCHES};
	r = stream(s, 1, 0, 0);
	s->qps = 1 + urxe_random_below(&r, MAX_QP);
	s->srq = transport == XRC || (transport == RC && !urxe_random_below(&r, 3));
	s->windows = transport == RC && urxe_random_below(&r, 2);
	s->builder = urxe_random_below(&r, 2);
	s->events = !urxe_random_below(&r, 3);
	s->v6 = !urxe_random_below(&r, 4);
}

bool plan_reliable(const struct shape *s)
{
	return s->transport == RC || s->transport == XRC;
}

bool plan_receives(enum op op)
{
	return op == OP_SEND || op == OP_SEND_IMM || op == OP_SEND_INV || op == OP_WRITE_IMM;
}

uint32_t plan_id(const struct batch *b, unsigned i)
{
	return b->number << 16 | i;
}

void plan_content(const struct shape *s, const struct batch *b, unsigned i, uint8_t *out)
{
	uint64_t r = stream(s, 2 + b->side, b->number, i);
	uint32_t id = plan_id(b, i);

	fill(&r, out, b->op[i].len);
	if (b->op[i].len >= 8)
		memcpy(out, &id, 4);
}

void plan_initial(const struct shape *s, unsigned side, uint8_t *arena)
{
	uint64_t r = stream(s, 4 + side, 0, 0);

	fill(&r, arena, ARENA);
}

/* ---- memory: what is taken lies behind what was taken before ---- */

struct area {
	uint32_t at, end;
};

static bool take(uint64_t *r, struct area *a, uint32_t len, uint32_t *off)
{
	uint32_t gap = urxe_random_below(r, GAP);

	if (a->at + gap + len > a->end)
		return false;
	*off = a->at + gap;
	a->at += gap + len;
	return true;
}

/* Cuts len bytes into up to max pieces, of random lengths, in random order. */
static bool cut(uint64_t *r, struct area *a, uint32_t len, unsigned max, struct pieces *out)
{
	unsigned n = len ? 1 + urxe_random_below(r, max) : 0;

	if (n > len)
		n = len;
	out->n = n;
	for (unsigned i = 0; i < n; i++) {
		uint32_t rest = n - 1 - i;
		uint32_t part = rest ? 1 + urxe_random_below(r, len - rest) : len;

		out->at[i] = (struct piece){.len = part, .mr = urxe_random_below(r, 2)};
		if (!take(r, a, part, &out->at[i].off))
			return false;
		len -= part;
	}
	for (unsigned i = n; i > 1; i--) {
		unsigned j = urxe_random_below(r, i);
		struct piece p = out->at[j];

		out->at[j] = out->at[i - 1];
		out->at[i - 1] = p;
	}
	return true;
}

void pieces_scatter(const struct pieces *p, uint8_t *arena, const uint8_t *from, uint32_t len)
{
	for (unsigned i = 0; i < p->n && len; i++) {
		uint32_t n = p->at[i].len < len ? p->at[i].len : len;

		memcpy(arena + p->at[i].off, from, n);
		from += n;
		len -= n;
	}
}

void plan_slot(const struct shape *s, unsigned side, unsigned slot, unsigned n, struct pieces *out)
{
	uint64_t r = stream(s, 6 + side, slot, n);
	uint32_t size = AREA / n;
	struct area a = {RECV_OFF + slot * size, RECV_OFF + (slot + 1) * size};

	cut(&r, &a, size - MAX_SGE * GAP, MAX_SGE, out);
}

/* ---- operations ---- */

struct room {
	struct area src, dst, recv, tgt;
};

static uint32_t length(const struct shape *s, uint64_t *r)
{
	uint32_t max = s->transport == UD ? s->mtu : s->transport == UC ? SLOT_MAX : BIG;
	uint32_t len = 0;

	switch (urxe_random_below(r, 9)) {
	case 0:
		len = 0;
		break;
	case 1:
		len = 1 + urxe_random_below(r, 16);
		break;
	case 2:
		len = urxe_random_below(r, 256);
		break;
	case 3:
		len = s->mtu - 2 + urxe_random_below(r, 5);
		break;
	case 4:
		len = s->mtu * (1 + urxe_random_below(r, 8)) - 1 + urxe_random_below(r, 3);
		break;
	case 5:
		len = urxe_random_below(r, 4 * s->mtu);
		break;
	case 6:
		len = urxe_random_below(r, 16384);
		break;
	case 7:
		len = urxe_random_below(r, 65536);
		break;
	default:
		len = urxe_random_below(r, 16) ? urxe_random_below(r, 4096)
					       : urxe_random_below(r, BIG);
		break;
	}
	return len <= max ? len : urxe_random_below(r, max + 1);
}

static enum op kind(const struct shape *s, uint64_t *r, unsigned left)
{
	static const enum op datagrams[] = {OP_SEND, OP_SEND_IMM};
	static const enum op unreliable[] = {OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE_IMM};
	static const enum op all[] = {OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE, OP_WRITE_IMM,
				      OP_READ, OP_READ,	    OP_CAS,   OP_FADD,	OP_ATOMIC_WRITE};

	if (s->transport == UD)
		return datagrams[urxe_random_below(r, 2)];
	if (s->transport == UC)
		return unreliable[urxe_random_below(r, 4)];
	/* A window lasts for a while, in most batches. */
	if (s->windows && left < MAX_OPS / 4 && !urxe_random_below(r, 6))
		return OP_SEND_INV;
	/* Without the builder there is no way to ask for the last. */
	return all[urxe_random_below(r, s->builder ? 10 : 9)];
}

/* A READ of what an earlier WRITE of the batch, on the same QP, writes: the responder sees to it.
 */
static bool reread(uint64_t *r, const struct batch *b, struct plan_op *o)
{
	const struct plan_op *w;

	if (!b->n || urxe_random_below(r, 3))
		return false;
	w = &b->op[urxe_random_below(r, b->n)];
	if (w->op != OP_WRITE && w->op != OP_WRITE_IMM)
		return false;
	o->qp = w->qp;
	o->len = w->len;
	o->remote = w->remote;
	return true;
}

/* Picks a word of the QP's own: between QPs there is no order. */
static void word(const struct shape *s, uint64_t *r, struct plan_op *o)
{
	o->len = 8;
	o->remote = WORD_OFF + 8 * (urxe_random_below(r, WORDS / s->qps) * s->qps + o->qp);
	o->operand = urxe_random_step(r);
	o->hit = urxe_random_below(r, 2);
}

static bool make(const struct shape *s, uint64_t *r, struct room *room, struct batch *b,
		 bool window[MAX_QP], struct plan_op *o)
{
	bool ok = true;

	o->op = kind(s, r, MAX_OPS - b->n);
	o->qp = urxe_random_below(r, s->qps);
	o->len = length(s, r);
	if (o->op == OP_SEND_INV && !window[o->qp])
		o->op = OP_SEND;
	/* Nothing but the content tells which one has come. */
	if (o->op == OP_SEND && !plan_reliable(s) && o->len < 8)
		o->len = 8;
	switch (o->op) {
	case OP_CAS:
	case OP_FADD:
	case OP_ATOMIC_WRITE:
		word(s, r, o);
		break;
	case OP_READ:
		if (!reread(r, b, o))
			ok = take(r, &room->tgt, o->len, &o->remote);
		break;
	case OP_WRITE:
	case OP_WRITE_IMM:
		ok = take(r, &room->tgt, o->len, &o->remote);
		break;
	default:
		break;
	}
	if (o->op == OP_READ || o->op == OP_CAS || o->op == OP_FADD)
		ok = ok && cut(r, &room->dst, o->len, o->op == OP_READ ? MAX_SGE : 1, &o->local);
	else if (o->op != OP_ATOMIC_WRITE)
		ok = ok && cut(r, &room->src, o->len, MAX_SGE, &o->local);
	o->mr = urxe_random_below(r, s->windows && window[o->qp] ? 3 : 2);
	if (o->op == OP_SEND_INV && ok)
		window[o->qp] = false;
	o->signaled = urxe_random_below(r, 2);
	/*
	 * A READ whose answer was lost is asked for again: the window must live until then, so what
	 * ends it waits for READs (IBTA 10.8.3.3, table of ordering: F).
	 */
	o->fence = o->op == OP_SEND_INV || (plan_reliable(s) && !urxe_random_below(r, 8));
	o->inl = o->local.n && o->op <= OP_WRITE_IMM && o->len <= 512 && urxe_random_below(r, 2);
	return ok;
}

/* Receives: the j-th of a QP takes its j-th message; of an SRQ, any. */
static bool receives(const struct shape *s, uint64_t *r, struct room *room, struct batch *b)
{
	uint32_t longest = 0;

	for (unsigned i = 0; i < b->n; i++)
		if (plan_receives(b->op[i].op) && b->op[i].len > longest)
			longest = b->op[i].len;
	b->recvs = 0;
	for (unsigned i = 0; i < b->n; i++) {
		uint32_t len = s->srq ? longest : b->op[i].len;

		if (!plan_receives(b->op[i].op))
			continue;
		/* WRITE_WITH_IMM takes a receive, and no memory of it. */
		if (b->op[i].op == OP_WRITE_IMM && !s->srq)
			len = 0;
		if (!cut(r, &room->recv,
			 len + (urxe_random_below(r, 2) ? urxe_random_below(r, 50) : 0), MAX_SGE,
			 &b->op[i].recv))
			return false;
		b->recvs++;
	}
	b->early = urxe_random_below(r, 4) ? b->recvs : urxe_random_below(r, b->recvs + 1);
	return true;
}

static struct room whole(const struct shape *s, unsigned number)
{
	struct room room = {
		.src = {SRC_OFF, SRC_OFF + AREA},
		.dst = {DST_OFF, DST_OFF + AREA},
		.recv = {RECV_OFF, RECV_OFF + AREA},
		.tgt = {TGT_OFF, TGT_OFF + AREA},
	};

	/* What UC lost stays as it was: a batch never writes where another one did. */
	if (!plan_reliable(s)) {
		room.tgt.at = TGT_OFF + AREA / BATCHES * number;
		room.tgt.end = room.tgt.at + AREA / BATCHES;
	}
	return room;
}

void plan_batch(const struct shape *s, unsigned side, unsigned number, struct batch *b)
{
	uint64_t r = stream(s, 8 + side, number, 0);
	struct room room = whole(s, number);
	bool window[MAX_QP], last[MAX_QP] = {false};
	unsigned want = 1 + urxe_random_below(&r, MAX_OPS);

	*b = (struct batch){.side = side, .number = number};
	for (unsigned q = 0; q < MAX_QP; q++)
		window[q] = s->windows;
	for (; b->n < want; b->n++) {
		struct plan_op *o = &b->op[b->n];

		*o = (struct plan_op){.imm = plan_id(b, b->n)};
		if (!make(s, &r, &room, b, window, o))
			break;
	}
	while (plan_reliable(s) && !receives(s, &r, &room, b)) {
		room.recv.at = RECV_OFF;
		b->n /= 2;
	}
	/* Without an end that is signalled nobody knows when a QP is done. */
	for (unsigned i = b->n; i-- > 0;) {
		struct plan_op *o = &b->op[i];

		o->signaled = o->signaled || !last[o->qp];
		last[o->qp] = true;
	}
}

uint64_t plan_compare(const struct plan_op *op, uint64_t there)
{
	return op->hit ? there : ~there;
}

void plan_apply(const struct plan_op *op, uint8_t *arena, const uint8_t *data, uint8_t *result)
{
	uint8_t *at = arena + op->remote;
	uint64_t there, put;

	switch (op->op) {
	case OP_WRITE:
	case OP_WRITE_IMM:
		memcpy(at, data, op->len);
		break;
	case OP_READ:
		memcpy(result, at, op->len);
		break;
	case OP_CAS:
	case OP_FADD:
		memcpy(&there, at, 8);
		memcpy(result, &there, 8);
		put = op->operand;
		if (op->op == OP_FADD)
			put += there;
		else if (!op->hit)
			put = there;
		memcpy(at, &put, 8);
		break;
	case OP_ATOMIC_WRITE:
		memcpy(at, &op->operand, 8);
		break;
	default:
		break;
	}
}
