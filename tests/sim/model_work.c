/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Work requests: drawn, good and bad, posted in either way, and given to the model. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* ---- what they name ---- */

static uint32_t some_key(struct m_world *w)
{
	return m_rnd(w, 2) && w->n_stale ? w->stale[m_rnd(w, w->n_stale < 16 ? w->n_stale : 16)]
					 : m_rnd(w, UINT32_MAX);
}

static bool usable(const struct m_obj *mr, const struct m_obj *pd, unsigned access)
{
	return mr->uses[0]->root == pd->root && (mr->access & access) == access;
}

/* A region, one that will do in most cases. */
static struct m_obj *some_mr(struct m_world *w, const struct m_obj *of, const struct m_obj *pd,
			     unsigned access)
{
	struct m_obj *mr = NULL;

	for (unsigned n = 0; n < 12; n++) {
		mr = m_pick(w, M_MR, of->side, -1);
		if (!mr || usable(mr, pd, access))
			break;
	}
	return mr;
}

/* SGEs of @max bytes in all at the most; most of them are good. */
static int some_sges(struct m_world *w, const struct m_obj *of, const struct m_obj *pd,
		     struct ibv_sge *sge, unsigned n, uint32_t max)
{
	for (unsigned i = 0; i < n; i++) {
		struct m_obj *mr = some_mr(w, of, pd, IBV_ACCESS_LOCAL_WRITE);
		uint64_t len = mr ? mr->length : 0, at;

		if (mr && mr->null)
			len = M_ARENA;
		at = len ? m_rnd(w, (uint32_t)len) : 0;
		len = len - at < max ? len - at : max;
		sge[i].lkey = mr ? mr->key : 0;
		sge[i].addr = mr ? mr->base + at : 0x1000;
		sge[i].length = len ? m_rnd(w, (uint32_t)len + 1) : 0;
		if (!m_rnd(w, 40))
			sge[i].lkey = some_key(w);
		else if (!m_rnd(w, 40))
			sge[i].addr = mr && m_rnd(w, 2) ? mr->base + mr->length - sge[i].length / 2
							: UINT64_MAX - m_rnd(w, 9);
		max -= sge[i].length;
	}
	return (int)n;
}

static bool all_good(struct m_world *w, const struct m_obj *of, const struct m_obj *pd,
		     const struct ibv_sge *sge, int n, unsigned access)
{
	uint8_t *mem;

	for (int i = 0; i < n; i++)
		if (sge[i].length && !m_local(w, of->side, pd, sge[i].lkey, sge[i].addr,
					      sge[i].length, access, &mem))
			return false;
	return true;
}

/* A range of the far end's: of a region or a window, or of nothing. */
static void some_remote(struct m_world *w, const struct m_obj *qp, struct m_wr *wr, uint32_t len)
{
	int side = qp->peer ? qp->peer->side : !qp->side;
	struct m_obj *o = NULL;

	for (unsigned n = 0; n < 6; n++) {
		o = m_pick(w, m_rnd(w, 3) ? M_MR : M_MW, side, -1);
		if (o && o->length >= len && (o->type == M_MR ? !o->null : o->bound) &&
		    (!qp->peer || !qp->peer->pd_of ||
		     (o->type == M_MR ? o->uses[0] : o->pd_of)->root == qp->peer->pd_of->root))
			break;
	}
	wr->rkey = o ? o->key : some_key(w);
	wr->addr = o ? o->base : 0;
	if (o && o->length > len)
		wr->addr += m_rnd(
			w, (uint32_t)(o->length - len < M_ARENA ? o->length - len : M_ARENA) + 1);
	if (m_rnd(w, 8))
		wr->addr &= ~7ull;
	if (!m_rnd(w, 30))
		wr->rkey = some_key(w);
	if (!m_rnd(w, 30))
		wr->addr = m_rnd(w, 2) ? UINT64_MAX - 3 : wr->addr - M_ARENA;
}

/* ---- drawing ---- */

static const unsigned ops[] = {
	IBV_WR_SEND,
	IBV_WR_SEND,
	IBV_WR_SEND,
	IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ,
	IBV_WR_RDMA_READ,
	IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_ATOMIC_WRITE,
	IBV_WR_SEND_WITH_INV,
	IBV_WR_LOCAL_INV,
	IBV_WR_BIND_MW,
	IBV_WR_BIND_MW,
	IBV_WR_TSO,
};

static bool can(const struct m_obj *qp, unsigned op)
{
	switch (op) {
	case IBV_WR_SEND:
		return true;
	case IBV_WR_SEND_WITH_IMM:
		return qp->qpt != IBV_QPT_RAW_PACKET;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_BIND_MW:
	case IBV_WR_LOCAL_INV:
		return qp->qpt != IBV_QPT_UD && qp->qpt != IBV_QPT_RAW_PACKET;
	case IBV_WR_TSO:
		return false;
	default:
		return qp->qpt == IBV_QPT_RC || qp->qpt == IBV_QPT_XRC_SEND;
	}
}

static bool is_atomic(unsigned op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       op == IBV_WR_ATOMIC_WRITE;
}

static bool has_answer(unsigned op)
{
	return op == IBV_WR_RDMA_READ || is_atomic(op);
}

/* Returns what posting it should say. */
static int draw_bind(struct m_world *w, const struct m_obj *qp, struct m_wr *wr)
{
	wr->mw = m_pick(w, M_MW, qp->side, -1);
	wr->mr = some_mr(w, qp, qp->pd_of, IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE);
	if (!wr->mw || !wr->mr || wr->mr->null || (wr->mr->type == M_MR && wr->mr->n_uses == 2))
		return -1;
	wr->addr = wr->mr->base;
	wr->bind_length = wr->mr->length;
	if (m_rnd(w, 2) && wr->mr->length) {
		wr->addr += m_rnd(w, (uint32_t)wr->mr->length);
		wr->bind_length = m_rnd(w, (uint32_t)wr->mr->length);
	}
	wr->bind_access = IBV_ACCESS_REMOTE_READ |
			  (m_rnd(w, 4) ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC : 0u) |
			  (m_rnd(w, 3) ? 0u : (unsigned)IBV_ACCESS_ZERO_BASED);
	wr->rkey = ibv_inc_rkey(wr->mw->mw->rkey);
	if (!m_rnd(w, 12)) {
		wr->bind_access |= IBV_ACCESS_HUGETLB; /* means nothing here */
		return EINVAL;
	}
	if (wr->mw->mw->type == IBV_MW_TYPE_1)
		return EINVAL; /* ibv_bind_mw() is for them */
	if (!m_rnd(w, 3))
		wr->bind_high = m_rnd(w, UINT32_MAX) & ~0xffu; /* not its owner's to choose */
	return 0;
}

static void draw_key_to_invalidate(struct m_world *w, const struct m_obj *qp, struct m_wr *wr)
{
	int side = wr->op == IBV_WR_LOCAL_INV ? qp->side : qp->peer ? qp->peer->side : !qp->side;
	const struct m_obj *owner = wr->op == IBV_WR_LOCAL_INV ? qp : qp->peer;
	struct m_obj *mw = NULL;

	for (unsigned n = 0; n < 8; n++) {
		mw = m_pick(w, M_MW, side, -1);
		if (mw && mw->bound && mw->qp_of == owner)
			break;
	}
	wr->rkey = mw && mw->key && m_rnd(w, 12) ? mw->key : some_key(w);
}

/* A datagram's way; EINVAL: it has none that is allowed. -1: nothing to draw from. */
static int draw_ud(struct m_world *w, const struct m_obj *qp, struct m_wr *wr)
{
	for (unsigned n = 0; n < 10; n++) {
		wr->ah = m_pick(w, M_AH, qp->side, qp->ctx);
		if (wr->ah && wr->ah->pd_of->root == qp->pd_of->root)
			break;
	}
	if (!wr->ah)
		return -1;
	for (unsigned n = 0; n < 10; n++) {
		wr->dest = m_pick(w, M_QP, (int)wr->ah->max_wr, -1);
		if (wr->dest && wr->dest->qpt == IBV_QPT_UD)
			break;
	}
	if (!wr->dest || wr->dest->qpt != IBV_QPT_UD)
		return -1;
	wr->qkey = m_rnd(w, 6) ? wr->dest->qkey : m_rnd(w, 2) ? 0x80000000u : 0x7777;
	if (wr->ah->pd_of->root != qp->pd_of->root)
		return EINVAL;
	if (!m_rnd(w, 30)) {
		wr->ah = NULL;
		return EINVAL;
	}
	return 0;
}

/* Data as it will be when the work request is taken. */
static void draw_inline(struct m_world *w, struct m_wr *wr, uint32_t len)
{
	wr->flags |= IBV_SEND_INLINE;
	for (uint32_t i = 0; i < len; i++)
		wr->data[i] = (uint8_t)m_rnd(w, 256);
	/* Two pieces of our own memory. */
	wr->num_sge = len ? 2 : 1;
	wr->sge[0] = (struct ibv_sge){(uintptr_t)wr->data, len / 2, 0};
	wr->sge[1] = (struct ibv_sge){(uintptr_t)wr->data + len / 2, len - len / 2, 0};
}

static int draw_data(struct m_world *w, const struct m_obj *qp, struct m_wr *wr)
{
	bool one = qp->qpt == IBV_QPT_UD || qp->qpt == IBV_QPT_RAW_PACKET;
	uint32_t max = one || m_rnd(w, 3) ? M_MTU : M_MAX, len;
	bool fetch = has_answer(wr->op) && wr->op != IBV_WR_ATOMIC_WRITE;

	if (is_atomic(wr->op))
		max = 8;
	wr->num_sge = some_sges(w, qp, qp->pd_of, wr->sge,
				is_atomic(wr->op) ? 1 : m_rnd(w, qp->max_sge + 1), max);
	if (is_atomic(wr->op) && m_rnd(w, 20))
		wr->sge[0].length = 8;
	len = m_bytes(wr->sge, wr->num_sge);
	/* Within a long message all is good: where it breaks off otherwise is another test's. */
	if (len > M_MTU &&
	    !all_good(w, qp, qp->pd_of, wr->sge, wr->num_sge, fetch ? IBV_ACCESS_LOCAL_WRITE : 0))
		return -1;
	if (!fetch && wr->op != IBV_WR_ATOMIC_WRITE && qp->max_sge >= 2 && !m_rnd(w, 4)) {
		len = m_rnd(w, qp->max_inline + 1);
		if (!m_rnd(w, 12))
			len = qp->max_inline + 1;
		draw_inline(w, wr, len);
		return len > qp->max_inline ? EINVAL : 0;
	}
	if (fetch && wr->num_sge && !m_rnd(w, 30)) {
		wr->flags |= IBV_SEND_INLINE;
		return EINVAL;
	}
	if (is_atomic(wr->op) && len != 8)
		return EINVAL;
	if (!m_rnd(w, 40)) {
		wr->num_sge = (int)qp->max_sge + 1;
		return EINVAL;
	}
	if (!m_rnd(w, 80)) {
		wr->num_sge = -1;
		return EINVAL;
	}
	return 0;
}

/* One work request. Returns what posting it should say, or -1: none could be drawn. */
static int draw(struct m_world *w, const struct m_obj *qp, struct m_wr *wr, bool first)
{
	int err = 0, e;

	memset(wr, 0, offsetof(struct m_wr, data));
	wr->id = w->next_id++;
	do
		wr->op = ops[m_rnd(w, sizeof(ops) / sizeof(ops[0]))];
	while (!can(qp, wr->op) && m_rnd(w, 40));
	wr->flags = w->threaded || m_rnd(w, 3) ? IBV_SEND_SIGNALED : 0;
	if (!m_rnd(w, 8))
		wr->flags |= IBV_SEND_FENCE;
	if (!can(qp, wr->op))
		return EINVAL;
	/* They do not wait for what was posted before. */
	if ((wr->op == IBV_WR_BIND_MW || wr->op == IBV_WR_LOCAL_INV) && (!first || qp->n_pend))
		return -1;
	if (wr->op == IBV_WR_BIND_MW)
		return draw_bind(w, qp, wr);
	if (wr->op == IBV_WR_LOCAL_INV) {
		draw_key_to_invalidate(w, qp, wr);
		return 0;
	}
	if (qp->qpt == IBV_QPT_UD)
		err = draw_ud(w, qp, wr);
	if (err < 0)
		return err;
	e = draw_data(w, qp, wr);
	if (e < 0)
		return e;
	err = err ? err : e;
	if (wr->num_sge >= 0 && qp->qpt != IBV_QPT_UD)
		some_remote(w, qp, wr, m_bytes(wr->sge, wr->num_sge));
	if (wr->op == IBV_WR_SEND_WITH_INV)
		draw_key_to_invalidate(w, qp, wr);
	wr->compare_add = m_rnd(w, 4);
	wr->swap = m_rnd(w, 1000);
	if (qp->qpt == IBV_QPT_XRC_SEND) {
		struct m_obj *srq = m_pick(w, M_SRQ, qp->peer ? qp->peer->side : -1, -1);

		for (unsigned n = 0; n < 8 && qp->peer && srq && srq->xrcd_of != qp->peer->xrcd_of;
		     n++)
			srq = m_pick(w, M_SRQ, qp->peer->side, -1);
		wr->srqn = srq && m_rnd(w, 20) ? srq->srqn : m_rnd(w, 1 << 24);
	}
	return err;
}

/* ---- posting ---- */

static void to_verbs(const struct m_wr *m, struct ibv_send_wr *wr, const struct m_obj *qp)
{
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = m->id;
	wr->opcode = (enum ibv_wr_opcode)m->op;
	wr->send_flags = m->flags;
	wr->sg_list = (struct ibv_sge *)(uintptr_t)m->sge;
	wr->num_sge = m->num_sge;
	if (m->op == IBV_WR_SEND_WITH_INV || m->op == IBV_WR_LOCAL_INV)
		wr->invalidate_rkey = m->rkey;
	if (m->op == IBV_WR_BIND_MW && m->mw) {
		wr->bind_mw.mw = m->mw->mw;
		wr->bind_mw.rkey = m->rkey ^ m->bind_high;
		wr->bind_mw.bind_info = (struct ibv_mw_bind_info){m->mr->mr, m->addr,
								  m->bind_length, m->bind_access};
	} else if (qp->qpt == IBV_QPT_UD) {
		wr->wr.ud.ah = m->ah ? m->ah->ah : NULL;
		wr->wr.ud.remote_qpn = m->dest ? m->dest->qp->qp_num : 0;
		wr->wr.ud.remote_qkey = m->qkey;
	} else if (m->op == IBV_WR_ATOMIC_CMP_AND_SWP || m->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = m->addr;
		wr->wr.atomic.rkey = m->rkey;
		wr->wr.atomic.compare_add = m->compare_add;
		wr->wr.atomic.swap = m->swap;
	} else {
		wr->wr.rdma.remote_addr = m->addr;
		wr->wr.rdma.rkey = m->rkey;
	}
	if (qp->qpt == IBV_QPT_XRC_SEND)
		wr->qp_type.xrc.remote_srqn = m->srqn;
}

static void build_operation(struct ibv_qp_ex *x, const struct ibv_send_wr *wr, const struct m_wr *m)
{
	switch ((unsigned)wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(x);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(x, 0);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(x, m->rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(x, m->rkey, m->addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(x, m->rkey, m->addr, 0);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(x, m->rkey, m->addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(x, m->rkey, m->addr, m->compare_add, m->swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(x, m->rkey, m->addr, m->compare_add);
		break;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(x, m->mw->mw, m->rkey ^ m->bind_high, &wr->bind_mw.bind_info);
		break;
	default:
		ibv_wr_local_inv(x, m->rkey);
	}
}

/* All or nothing of a chain. */
static int build(const struct m_obj *qp, const struct ibv_send_wr *wr, const struct m_wr *m)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp->qp);

	ibv_wr_start(x);
	for (; wr; wr = wr->next, m++) {
		x->wr_id = wr->wr_id;
		x->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
		build_operation(x, wr, m);
		if (qp->qpt == IBV_QPT_UD)
			ibv_wr_set_ud_addr(x, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
					   wr->wr.ud.remote_qkey);
		if (qp->qpt == IBV_QPT_XRC_SEND)
			ibv_wr_set_xrc_srqn(x, m->srqn);
		if (m->flags & IBV_SEND_INLINE)
			ibv_wr_set_inline_data(x, (void *)(uintptr_t)m->data,
					       m_bytes(m->sge, m->num_sge));
		else if (m->num_sge)
			ibv_wr_set_sge_list(x, (size_t)m->num_sge, m->sge);
	}
	return ibv_wr_complete(x);
}

/* What the builder cannot say, or is not for. */
static bool for_builder(const struct m_obj *qp, const struct m_wr *m, unsigned n, int err)
{
	if (!qp->builder)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (m[i].op == IBV_WR_ATOMIC_WRITE || m[i].op == IBV_WR_TSO ||
		    (err && has_answer(m[i].op)) || !can(qp, m[i].op))
			return false;
	return true;
}

/*
 * Nothing is posted behind what is answered, or goes to memory of its own side: it may be sent, and
 * what it carries read, before that one has been executed or has failed.
 */
static bool is_last(const struct m_obj *qp, const struct m_wr *m)
{
	return has_answer(m->op) || m->op == IBV_WR_LOCAL_INV || m->op == IBV_WR_BIND_MW ||
	       (qp->peer && qp->peer->side == qp->side) ||
	       (m->ah && (int)m->ah->max_wr == qp->side);
}

void m_post_send(struct m_world *w)
{
	struct m_obj *qp = NULL;
	struct ibv_send_wr wr[M_QUEUE], *bad = NULL;
	struct m_wr *m;
	unsigned n = w->threaded ? 1 : 1 + m_rnd(w, 3), good = 0, i;
	bool builder, refused;
	int err = 0, got;

	for (i = 0; i < 12; i++) {
		qp = m_pick(w, M_QP, -1, -1);
		if (qp && !qp->rss && qp->qpt != IBV_QPT_XRC_RECV &&
		    (qp->state == IBV_QPS_RTS || !m_rnd(w, 20)))
			break;
	}
	if (i == 12)
		return;
	if (!w->threaded && !m_rnd(w, 30))
		n = qp->max_wr + 1;
	m = calloc(n, sizeof(*m));
	if (!m)
		abort();
	/* All SGEs stay where they are: m does not move. */
	for (i = 0; i < n && !err; i++) {
		err = draw(w, qp, &m[i], i == 0);
		if (!err && (m_silent(w, qp, &m[i]) && w->threaded && qp->state != IBV_QPS_SQD))
			err = -1;
		if (err < 0)
			break;
		/* A full queue is seen before what else may be wrong. */
		if (err >= 0 && qp->n_pend + i >= qp->max_wr && can(qp, m[i].op))
			err = ENOMEM;
		good += !err;
		if (is_last(qp, &m[i])) {
			i++;
			break;
		}
	}
	if (err < 0)
		err = 0;
	n = good + !!err;
	for (i = 0; i < qp->n_pend; i++)
		if (is_last(qp, &qp->pend[i]))
			n = 0;
	if (!n) {
		free(m);
		return;
	}
	for (i = 0; i < n; i++) {
		to_verbs(&m[i], &wr[i], qp);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	refused = qp->state < IBV_QPS_RTS;
	if (refused)
		err = EINVAL;
	builder = for_builder(qp, m, n, err);
	got = builder ? build(qp, wr, m) : ibv_post_send(qp->qp, wr, &bad);
	m_check(w, builder ? "wr_complete" : "post_send", got, err);
	if (got == err && err && !builder && bad != &wr[refused ? 0 : good])
		m_fail(w, "post_send: not the bad work request");
	if (refused || (builder && err))
		good = 0;
	for (i = 0; i < good && got == err; i++) {
		if (m[i].op == IBV_WR_BIND_MW && m[i].mw->mw->rkey != m[i].rkey)
			m_fail(w, "the window's rkey does not follow the post");
		m_exec(w, qp, &m[i]);
	}
	free(m);
}

void m_bind_type1(struct m_world *w)
{
	struct m_obj *qp = m_pick(w, M_QP, -1, -1);
	struct ibv_mw_bind b = {0};
	struct m_wr *m;
	int want = 0;

	if (!qp || qp->rss || qp->qpt == IBV_QPT_XRC_RECV || qp->n_pend)
		return;
	m = calloc(1, sizeof(*m));
	if (!m)
		abort();
	m->id = w->next_id++;
	m->op = IBV_WR_BIND_MW;
	m->flags = b.send_flags = IBV_SEND_SIGNALED;
	if (draw_bind(w, qp, m) < 0)
		goto out;
	if (!m_rnd(w, 6))
		m->bind_length = 0;
	b.wr_id = m->id;
	b.bind_info = (struct ibv_mw_bind_info){m->mr->mr, m->addr, m->bind_length, m->bind_access};
	m->rkey = ibv_inc_rkey(m->mw->mw->rkey);
	if (m->mw->mw->type != IBV_MW_TYPE_1)
		want = EINVAL;
	else if (m->mr->uses[0] != m->mw->pd_of)
		want = EPERM; /* says libibverbs */
	else if (!can(qp, IBV_WR_BIND_MW) || qp->state < IBV_QPS_RTS ||
		 m->bind_access & IBV_ACCESS_HUGETLB)
		want = EINVAL;
	if (m_check(w, "bind_mw", ibv_bind_mw(qp->qp, m->mw->mw, &b), want))
		m_exec(w, qp, m);
out:
	free(m);
}

/* ---- receives ---- */

static int verb_recv(struct m_obj *o, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return o->type == M_SRQ	 ? ibv_post_srq_recv(o->srq, wr, bad)
	       : o->type == M_WQ ? ibv_post_wq_recv(o->wq, wr, bad)
				 : ibv_post_recv(o->qp, wr, bad);
}

void m_post_recv(struct m_world *w)
{
	static const enum m_type from[] = {M_QP, M_QP, M_QP, M_SRQ, M_SRQ, M_WQ};
	struct m_obj *o = m_pick(w, from[m_rnd(w, 6)], -1, -1);
	struct m_recv v = {.id = w->next_id++ | M_RECV};
	struct ibv_recv_wr wr = {.wr_id = v.id, .sg_list = v.sge}, *bad = NULL;
	const struct m_obj *pd;
	int want = 0;

	if (!o || o->rss || (o->type == M_QP && o->qpt == IBV_QPT_XRC_RECV))
		return;
	if (o->type == M_QP && o->state == IBV_QPS_ERR && m_rnd(w, 8))
		return;
	pd = o->type == M_WQ ? o->uses[0] : o->pd_of;
	v.num_sge = some_sges(w, o, pd, v.sge, m_rnd(w, o->rq.max_sge + 1), M_MAX + 64);
	wr.num_sge = v.num_sge;
	if (o->rq.n < o->rq.max_wr && !m_rnd(w, 30))
		wr.num_sge = m_rnd(w, 2) ? -1 : (int)o->rq.max_sge + 1, want = EINVAL;
	if (o->type == M_QP &&
	    (o->srq_of || o->qpt == IBV_QPT_XRC_SEND || o->state == IBV_QPS_RESET))
		want = EINVAL;
	else if (o->type == M_WQ && o->wq_state == IBV_WQS_RESET)
		want = EINVAL;
	else if (!want && o->rq.n == o->rq.max_wr)
		want = ENOMEM;
	if (!m_check(w, "post_recv", verb_recv(o, &wr, &bad), want)) {
		if (want && bad != &wr)
			m_fail(w, "post_recv: not the bad work request");
		return;
	}
	if (o->type == M_QP && o->state == IBV_QPS_ERR)
		m_expect(w, o->rcq, o->qp->qp_num, v.id, IBV_WC_WR_FLUSH_ERR, 0, 0);
	else if (o->type == M_WQ && o->wq_state == IBV_WQS_ERR)
		m_expect(w, o->rcq, o->wq->wq_num, v.id, IBV_WC_WR_FLUSH_ERR, 0, 0);
	else
		o->rq.v[o->rq.n++] = v;
}
