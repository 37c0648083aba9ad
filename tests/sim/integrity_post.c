/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the operations of integrity.c carry, how they are cut into SGEs, and posted. */
#include <stdlib.h>
#include <string.h>

#include "integrity.h"
#include "urxe/random.h"

const struct code codes[] = {
	[W_SEND] = {IBV_WR_SEND, IBV_WC_SEND},
	[W_SEND_IMM] = {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND},
	[W_SEND_INV] = {IBV_WR_SEND_WITH_INV, IBV_WC_SEND},
	[W_WRITE] = {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
	[W_WRITE_IMM] = {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
	[W_READ] = {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
	[W_CAS] = {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP},
	[W_FADD] = {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD},
	[W_AWRITE] = {IBV_WR_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE},
	[W_FLUSH] = {(enum ibv_wr_opcode)URXEDV_WR_FLUSH, (enum ibv_wc_opcode)URXEDV_WC_FLUSH},
	[W_MW_WRITE] = {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
	[W_MW_READ] = {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
	[W_BIND] = {IBV_WR_BIND_MW, IBV_WC_BIND_MW},
	[W_LOCAL_INV] = {IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV},
	[W_MCAST] = {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND},
};

const struct kind_info kinds[] = {
	[K_RC] = {IBV_QPT_RC, MSGS | WRITES | ANSWERS | WINDOWS},
	[K_RC_SRQ] = {IBV_QPT_RC, MSGS | WRITES | ANSWERS | WINDOWS},
	[K_XRC] = {IBV_QPT_XRC_SEND, MSGS | WRITES | ANSWERS},
	[K_UC] = {IBV_QPT_UC, MSGS | WRITES},
	[K_UD] = {IBV_QPT_UD, MSGS | B(W_MCAST)},
};

uint32_t rnd(struct run *r, uint32_t below)
{
	return urxe_random_below(&r->rnd, below);
}

/* ---- bytes ---- */

void data_of(const struct flow *f, unsigned i, uint8_t *out, uint32_t len)
{
	uint64_t of = f->r->seed << 20 | (uint64_t)(f == &f->r->flow[1]) << 16 | i, x = 0;

	for (uint32_t k = 0; k < len; k++) {
		if (!(k & 7))
			x = urxe_random_step(&of);
		out[k] = (uint8_t)(x >> (k & 7) * 8);
	}
}

uint8_t *slot_at(const struct end *e, unsigned area, unsigned i)
{
	return e->mem + area * AREA + i % WINDOW * SLOT;
}

/* Cut @len bytes of a slot into SGEs, with gaps between them, of either key. */
static unsigned cut(struct run *r, struct ibv_sge *sge, const struct end *e, uint8_t *slot,
		    uint32_t len)
{
	unsigned n = rnd(r, 4) ? 1 + rnd(r, 3) : 1 + rnd(r, MAX_SGE);
	uint32_t at = rnd(r, 100);

	for (unsigned i = 0; i < n; i++) {
		uint32_t part = i == n - 1  ? len
				: rnd(r, 2) ? rnd(r, len + 1)
					    : rnd(r, len + 1) / 8;

		sge[i] = (struct ibv_sge){(uintptr_t)slot + at, part, e->mr[rnd(r, 2)]->lkey};
		at += part + (rnd(r, 2) ? rnd(r, 40) : 0);
		len -= part;
	}
	return n;
}

/* A slot with @data in its SGEs and GUARD around it. */
static void image(uint8_t *out, const uint8_t *slot, const struct ibv_sge *sge, unsigned n,
		  const uint8_t *data, uint32_t len)
{
	memset(out, GUARD, SLOT);
	for (unsigned i = 0; i < n && len; i++) {
		uint32_t part = sge[i].length < len ? sge[i].length : len;

		memcpy(out + (sge[i].addr - (uintptr_t)slot), data, part);
		data += part;
		len -= part;
	}
}

bool slot_is(const uint8_t *slot, const struct ibv_sge *sge, unsigned n, const uint8_t *data,
	     uint32_t len)
{
	static uint8_t want[SLOT];

	image(want, slot, sge, n, data, len);
	return !memcmp(slot, want, SLOT);
}

/* ---- posting ---- */

static int build(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
	struct ibv_data_buf bufs[MAX_SGE];
	uint8_t value[8];

	ibv_wr_start(x);
	x->wr_id = wr->wr_id;
	x->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
	switch ((unsigned)wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(x);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(x, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(x, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(x, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(x, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	case IBV_WR_ATOMIC_WRITE:
		for (int i = 0, at = 0; i < wr->num_sge; at += (int)wr->sg_list[i++].length)
			memcpy(value + at, (void *)(uintptr_t)wr->sg_list[i].addr,
			       wr->sg_list[i].length);
		ibv_wr_atomic_write(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, value);
		break;
	case URXEDV_WR_FLUSH:
		urxedv_wr_flush(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, 64,
				URXEDV_FLUSH_GLOBAL, URXEDV_FLUSH_RANGE);
		break;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(x, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	default:
		ibv_wr_local_inv(x, wr->invalidate_rkey);
	}
	if (qp->qp_type == IBV_QPT_XRC_SEND)
		ibv_wr_set_xrc_srqn(x, wr->qp_type.xrc.remote_srqn);
	if (qp->qp_type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(x, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	if (wr->opcode == IBV_WR_ATOMIC_WRITE)
		return ibv_wr_complete(x);
	if (wr->send_flags & IBV_SEND_INLINE) {
		for (int i = 0; i < wr->num_sge; i++)
			bufs[i] = (struct ibv_data_buf){(void *)(uintptr_t)wr->sg_list[i].addr,
							wr->sg_list[i].length};
		ibv_wr_set_inline_data_list(x, (size_t)wr->num_sge, bufs);
	} else if (wr->num_sge) {
		ibv_wr_set_sge_list(x, (size_t)wr->num_sge, wr->sg_list);
	}
	return ibv_wr_complete(x);
}

static uint32_t some_len(struct run *r)
{
	uint32_t most = r->kind == K_UD ? r->mtu : MAX_LEN;

	switch (rnd(r, 8)) {
	case 0:
		return rnd(r, 9);
	case 1: /* around whole packets */
		return (r->mtu * (1 + rnd(r, 4)) + rnd(r, 7) - 3) % (most + 1);
	case 2:
	case 3:
		return rnd(r, most + 1);
	default:
		return rnd(r, (most < 2000 ? most : 2000) + 1);
	}
}

static void window_attr(struct flow *f, struct ibv_send_wr *wr)
{
	f->mw_key = ibv_inc_rkey(f->mw->rkey);
	f->mw->rkey = f->mw_key;
	f->mw_zero = rnd(f->r, 2);
	wr->bind_mw.mw = f->mw;
	wr->bind_mw.rkey = f->mw_key;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = f->to->mr[0],
		.addr = (uintptr_t)slot_at(f->to, 2, 0),
		.length = 2 * AREA,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   (f->mw_zero ? (unsigned)IBV_ACCESS_ZERO_BASED : 0u),
	};
}

/* The part that goes with the operation, of work request @i. */
static void operation(struct flow *f, unsigned i, struct op *o, struct ibv_send_wr *wr)
{
	struct run *r = f->r;
	uint8_t *remote = (IS_READ(o->what) ? RD(f, i) : DST(f, i)) + o->at;
	bool window = o->what == W_MW_WRITE || o->what == W_MW_READ;

	wr->imm_data = htobe32(i);
	if (o->what == W_BIND) {
		window_attr(f->back, wr);
	} else if (o->what == W_LOCAL_INV || o->what == W_SEND_INV) {
		struct flow *of = o->what == W_LOCAL_INV ? f->back : f;

		of->mw_state = MW_CLOSING;
		wr->invalidate_rkey = o->rkey = of->mw_key;
	} else if (o->what == W_FADD) {
		wr->wr.atomic.remote_addr = (uintptr_t)&f->to->words[0];
		wr->wr.atomic.rkey = f->to->words_mr->rkey;
		wr->wr.atomic.compare_add = 1 + rnd(r, 1000);
		o->expect = f->counter;
		f->counter += wr->wr.atomic.compare_add;
	} else if (o->what == W_CAS) {
		wr->wr.atomic.remote_addr = (uintptr_t)&f->to->words[1];
		wr->wr.atomic.rkey = f->to->words_mr->rkey;
		wr->wr.atomic.compare_add = rnd(r, 2) ? f->word : f->word + 1;
		wr->wr.atomic.swap = i * 0x100000001ull + 7;
		o->expect = f->word;
		if (wr->wr.atomic.compare_add == f->word)
			f->word = wr->wr.atomic.swap;
	} else if (r->kind != K_UD) {
		wr->wr.rdma.remote_addr = (uintptr_t)remote;
		wr->wr.rdma.rkey = f->to->mr[rnd(r, 2)]->rkey;
		if (window) {
			f->mw_out++;
			wr->wr.rdma.rkey = f->mw_key;
			if (f->mw_zero)
				wr->wr.rdma.remote_addr -= (uintptr_t)slot_at(f->to, 2, 0);
		}
	} else {
		wr->wr.ud.ah = o->what == W_MCAST ? f->from->group_ah : f->from->ah;
		wr->wr.ud.remote_qpn = o->what == W_MCAST ? 0xffffff : f->rqp->qp_num;
		wr->wr.ud.remote_qkey = QKEY;
	}
	if (r->kind == K_XRC)
		wr->qp_type.xrc.remote_srqn = f->srqn;
}

/* Data in place at both ends, and the SGEs that name it. */
static void operands(struct flow *f, unsigned i, struct op *o)
{
	uint8_t data[MAX_LEN], *src = SRC(f, i);
	struct run *r = f->r;

	o->len = IS_ATOMIC(o->what) || o->what == W_AWRITE ? 8 : some_len(r);
	if (o->what == W_FLUSH || o->what == W_BIND || o->what == W_LOCAL_INV)
		o->len = 0;
	o->at = o->what == W_AWRITE ? 8 * rnd(r, 100) : rnd(r, SLOT - MAX_LEN);
	memset(src, GUARD, SLOT);
	o->num_sge = cut(r, o->sge, f->from, src, o->len);
	if (!o->len && rnd(r, 2))
		o->num_sge = 0;
	if (o->what == W_FLUSH || o->what == W_BIND || o->what == W_LOCAL_INV)
		o->num_sge = 0;
	data_of(f, i, data, o->len);
	if (IS_READ(o->what))
		memcpy(RD(f, i) + o->at, data, o->len);
	else if (!IS_ATOMIC(o->what))
		image(src, src, o->sge, o->num_sge, data, o->len);
	o->in_line = !IS_READ(o->what) && !IS_ATOMIC(o->what) && o->num_sge && o->len <= INLINE &&
		     rnd(r, 2);
}

static void post(struct flow *f, enum what what)
{
	unsigned i = f->posted;
	struct op *o = &f->ops[i];
	struct run *r = f->r;
	struct ibv_send_wr wr = {.wr_id = i, .opcode = codes[what].wr}, *bad;
	int err;

	o->what = what;
	operands(f, i, o);
	operation(f, i, o, &wr);
	wr.sg_list = o->sge;
	wr.num_sge = (int)o->num_sge;
	if (o->in_line)
		wr.send_flags |= IBV_SEND_INLINE;
	/* All is known of what came before by the next that is signaled. */
	if (rnd(r, 2) || i % 8 == 7 || i == OPS - 1)
		wr.send_flags |= IBV_SEND_SIGNALED;
	/* A READ that is asked for again must not find the window gone. */
	if (what == W_SEND_INV || !rnd(r, 8))
		wr.send_flags |= IBV_SEND_FENCE;
	if (!rnd(r, 8))
		wr.send_flags |= IBV_SEND_SOLICITED;
	err = what == W_FLUSH || rnd(r, 2) ? build(f->qp, &wr) : ibv_post_send(f->qp, &wr, &bad);
	if (err)
		FAIL(r, "posting %u of kind %d: %s\n", i, what, strerror(err));
	if (o->in_line) /* it is ours again at once */
		memset(SRC(f, i), 0, SLOT);
	if (HAS_RECV(what))
		f->fifo[f->in++] = i;
	f->posted++;
}

void post_recv(struct flow *f)
{
	unsigned i = f->recvs_posted;
	struct recv *v = &f->recvs[i % WINDOW];
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = v->sge}, *bad;

	memset(RCV(f, i), GUARD, SLOT);
	v->num_sge = cut(f->r, v->sge, f->to, RCV(f, i), MAX_LEN + GRH);
	wr.num_sge = (int)v->num_sge;
	if (f->to->srq ? ibv_post_srq_recv(f->to->srq, &wr, &bad)
		       : ibv_post_recv(f->rqp, &wr, &bad))
		FAIL(f->r, "receive %u refused\n", i);
	f->recvs_posted++;
}

/* What may come next; a window must be bound before it is used, and not in use when it goes. */
void post_some(struct flow *f)
{
	unsigned allowed = kinds[f->r->kind].ops;
	enum what w;

	if (f->mw_state != MW_BOUND)
		allowed &= ~WINDOWS;
	/* LOCAL_INV is ours for the window we lent. */
	allowed &= ~B(W_LOCAL_INV);
	if (f->back->mw_state == MW_BOUND && !f->back->mw_out && kinds[f->r->kind].ops & WINDOWS)
		allowed |= B(W_LOCAL_INV);
	if (kinds[f->r->kind].ops & WINDOWS && f->back->mw_state == MW_IDLE) {
		f->back->mw_state = MW_BINDING;
		post(f, W_BIND);
		return;
	}
	do
		w = (enum what)rnd(f->r, N_WHAT);
	while (!(allowed & B(w)));
	post(f, w);
}
