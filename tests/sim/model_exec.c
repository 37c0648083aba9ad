/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What becomes of work requests: at the requester, at the responder, in memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define GRH 40u
#define OK  IBV_WC_SUCCESS

/* ---- keys ---- */

static bool in_range(const struct m_obj *o, uint64_t addr, uint64_t len)
{
	return addr >= o->base && addr - o->base <= o->length &&
	       len <= o->length - (addr - o->base);
}

struct m_obj *m_local(struct m_world *w, int side, const struct m_obj *pd, uint32_t key,
		      uint64_t addr, uint64_t len, unsigned access, uint8_t **mem)
{
	for (unsigned i = 0; i < M_OBJS; i++) {
		struct m_obj *mr = w->obj[M_MR][i];

		if (!mr || mr->side != side || mr->key != key)
			continue;
		if (mr->uses[0]->root != pd->root || (mr->access & access) != access ||
		    !in_range(mr, addr, len))
			return NULL;
		*mem = mr->null ? NULL : mr->mem + (addr - mr->base);
		return mr;
	}
	return NULL;
}

/* The memory behind an rkey that came to @qp; NULL: not for it. */
static uint8_t *remote(struct m_world *w, const struct m_obj *qp, const struct m_obj *pd,
		       uint32_t key, uint64_t addr, uint64_t len, unsigned access)
{
	uint8_t *mem;

	if (!(qp->qp_access & access))
		return NULL;
	for (unsigned i = 0; i < M_OBJS; i++) {
		struct m_obj *mw = w->obj[M_MW][i];

		if (!mw || mw->side != qp->side || !mw->bound || mw->key != key)
			continue;
		if (mw->pd_of->root != pd->root || !(mw->access & access) ||
		    (mw->qp_of && mw->qp_of != qp) || !in_range(mw, addr, len))
			return NULL;
		return mw->mem + (addr - mw->base);
	}
	return m_local(w, qp->side, pd, key, addr, len, access, &mem) ? mem : NULL;
}

/* ---- memory ---- */

uint32_t m_bytes(const struct ibv_sge *sge, int n)
{
	uint32_t len = 0;

	for (int i = 0; i < n; i++)
		len += sge[i].length;
	return len;
}

static void loosen(struct m_world *w, const uint8_t *mem, uint32_t len)
{
	for (int side = 0; side < 2; side++)
		if (mem >= w->want[side] && mem < w->want[side] + M_ARENA && w->n_loose < 64) {
			w->loose[w->n_loose].side = side;
			w->loose[w->n_loose].at = (uint32_t)(mem - w->want[side]);
			w->loose[w->n_loose++].len = len;
			return;
		}
	for (unsigned i = 0; i < M_OBJS; i++) /* a device memory: no more is known of it */
		if (w->obj[M_DM][i] && mem >= w->obj[M_DM][i]->mem &&
		    mem < w->obj[M_DM][i]->mem + M_DM_SIZE)
			w->obj[M_DM][i]->ex = true;
}

/* What is done with a part of an SGE list; a look at the keys comes first. */
enum walk {
	CHECK,
	GATHER,
	SCATTER,
	LOOSEN
};

static bool walk(struct m_world *w, enum walk what, int side, const struct m_obj *pd,
		 const struct ibv_sge *sge, int n, uint32_t off, uint32_t len, unsigned access,
		 uint8_t *data)
{
	if (what != CHECK && !walk(w, CHECK, side, pd, sge, n, off, len, access, NULL))
		return false;
	for (int i = 0; i < n && len; i++) {
		uint32_t part = sge[i].length > off ? sge[i].length - off : 0;
		uint64_t addr = sge[i].addr + off;
		uint8_t *mem;

		off -= off < sge[i].length ? off : sge[i].length;
		part = part < len ? part : len;
		if (!part)
			continue;
		if (!m_local(w, side, pd, sge[i].lkey, addr, part, access, &mem))
			return false;
		if (what == GATHER)
			mem ? memcpy(data, mem, part) : memset(data, 0, part);
		else if (what == SCATTER && mem)
			memcpy(mem, data, part);
		else if (what == LOOSEN && mem)
			loosen(w, mem, part);
		if (data)
			data += part;
		len -= part;
	}
	return true;
}

/* ---- ends ---- */

static int wc_opcode(unsigned op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

static void complete(struct m_world *w, struct m_obj *qp, const struct m_wr *wr,
		     enum ibv_wc_status status)
{
	if (status || qp->sig_all || wr->flags & IBV_SEND_SIGNALED)
		m_expect(w, qp->scq, qp->qp->qp_num, wr->id, status, wc_opcode(wr->op), 0);
}

void m_qp_error(struct m_world *w, struct m_obj *qp)
{
	if (qp->state == IBV_QPS_RESET)
		return;
	qp->state = IBV_QPS_ERR;
	for (unsigned i = 0; i < qp->n_pend; i++)
		complete(w, qp, &qp->pend[i], IBV_WC_WR_FLUSH_ERR);
	qp->n_pend = 0;
	if (qp->has_held)
		m_expect(w, qp->rcq, qp->qp->qp_num, qp->held.id, IBV_WC_WR_FLUSH_ERR, 0, 0);
	qp->has_held = false;
	/* What is in a shared queue is not the QP's (IBTA 10.2.9.3). */
	for (unsigned i = 0; i < qp->rq.n && !qp->srq_of && qp->rcq; i++)
		m_expect(w, qp->rcq, qp->qp->qp_num, qp->rq.v[i].id, IBV_WC_WR_FLUSH_ERR, 0, 0);
	qp->rq.n = 0;
}

/* ---- the responder ---- */

/* Where the receives of a request come from, and whose memory it may name. */
struct target {
	struct m_obj *qp, *cq;
	struct m_obj *pd, *recv_pd; /* of rkeys, of receives */
	struct m_rq *rq;
};

static bool alive(const struct m_obj *qp, enum ibv_qp_state last)
{
	return qp && qp->state >= IBV_QPS_RTR && qp->state <= last;
}

/* False: XRC, and no such SRQ. */
static bool find_target(struct m_world *w, struct m_obj *qp, const struct m_wr *wr,
			struct target *t)
{
	struct m_obj *srq = qp->srq_of;

	t->qp = qp;
	if (qp->qpt == IBV_QPT_XRC_RECV) {
		srq = NULL;
		for (unsigned i = 0; i < M_OBJS; i++) {
			struct m_obj *o = w->obj[M_SRQ][i];

			if (o && o->side == qp->side && o->xrc && o->srqn == wr->srqn &&
			    o->xrcd_of == qp->xrcd_of)
				srq = o;
		}
		if (!srq)
			return false;
	}
	t->rq = srq ? &srq->rq : &qp->rq;
	t->cq = qp->qpt == IBV_QPT_XRC_RECV ? srq->rcq : qp->rcq;
	t->pd = qp->qpt == IBV_QPT_XRC_RECV ? srq->pd_of : qp->pd_of;
	t->recv_pd = srq ? srq->pd_of : qp->pd_of;
	return true;
}

static bool take(struct target *t, struct m_recv *v)
{
	if (t->qp->has_held) {
		*v = t->qp->held;
		t->qp->has_held = false;
		return true;
	}
	if (!t->rq->n)
		return false;
	*v = t->rq->v[0];
	memmove(t->rq->v, t->rq->v + 1, --t->rq->n * sizeof(*t->rq->v));
	return true;
}

static void received(struct m_world *w, const struct target *t, const struct m_recv *v,
		     enum ibv_wc_status status, int opcode, uint32_t len)
{
	m_expect(w, t->cq, t->qp->qp->qp_num, v->id, status, opcode, len);
}

static bool invalidate(struct m_world *w, struct m_obj *qp, uint32_t key)
{
	for (unsigned i = 0; i < M_OBJS; i++) {
		struct m_obj *mw = w->obj[M_MW][i];

		if (mw && mw->bound && mw->qp_of == qp && mw->key == key) {
			m_unbind(mw);
			return true;
		}
	}
	return false;
}

/* The rest of a message, packet by packet. Statuses: the requester's, or what UC has instead. */
static enum ibv_wc_status take_send(struct m_world *w, struct target *t, const struct m_wr *wr,
				    uint8_t *data, uint32_t len)
{
	struct m_recv v;

	if (!take(t, &v))
		return IBV_WC_RNR_RETRY_EXC_ERR;
	for (uint32_t at = 0; at < len || !at; at += M_MTU) {
		uint32_t part = len - at < M_MTU ? len - at : M_MTU;

		if (at + part > m_bytes(v.sge, v.num_sge)) {
			received(w, t, &v, IBV_WC_LOC_LEN_ERR, 0, 0);
			return IBV_WC_REM_INV_REQ_ERR;
		}
		if (!walk(w, SCATTER, t->qp->side, t->recv_pd, v.sge, v.num_sge, at, part,
			  IBV_ACCESS_LOCAL_WRITE, data + at)) {
			received(w, t, &v, IBV_WC_LOC_PROT_ERR, 0, 0);
			return IBV_WC_REM_OP_ERR;
		}
	}
	if (wr->op == IBV_WR_SEND_WITH_INV && !invalidate(w, t->qp, wr->rkey)) {
		received(w, t, &v, IBV_WC_REM_INV_REQ_ERR, 0, 0);
		return IBV_WC_REM_ACCESS_ERR;
	}
	received(w, t, &v, OK, IBV_WC_RECV, len);
	return OK;
}

static enum ibv_wc_status take_write(struct m_world *w, struct target *t, const struct m_wr *wr,
				     uint8_t *data, uint32_t len)
{
	bool imm = wr->op == IBV_WR_RDMA_WRITE_WITH_IMM, uc = t->qp->qpt == IBV_QPT_UC;
	bool denied = !(t->qp->qp_access & IBV_ACCESS_REMOTE_WRITE) ||
		      (len && !uc &&
		       !remote(w, t->qp, t->pd, wr->rkey, wr->addr, len, IBV_ACCESS_REMOTE_WRITE));
	struct m_recv v;

	/* Refused at its first packet: a receive is told if that one has the immediate data. */
	if (denied && (uc || !imm || len > M_MTU))
		return IBV_WC_REM_ACCESS_ERR;
	for (uint32_t at = 0; at < len || !at; at += M_MTU) {
		uint32_t part = len - at < M_MTU ? len - at : M_MTU;
		bool last = at + part == len;
		uint8_t *mem = part ? remote(w, t->qp, t->pd, wr->rkey, wr->addr + at, part,
					     IBV_ACCESS_REMOTE_WRITE)
				    : NULL;

		if (imm && last && !take(t, &v))
			return IBV_WC_RNR_RETRY_EXC_ERR;
		if (denied) {
			received(w, t, &v, IBV_WC_LOC_ACCESS_ERR, 0, 0);
			return IBV_WC_REM_ACCESS_ERR;
		}
		if (part && !mem) { /* UC: given up; the receive waits for the next */
			if (imm && last) {
				t->qp->held = v;
				t->qp->has_held = true;
			}
			return IBV_WC_REM_ACCESS_ERR;
		}
		if (part)
			memcpy(mem, data + at, part);
	}
	if (imm)
		received(w, t, &v, OK, IBV_WC_RECV_RDMA_WITH_IMM, len);
	return OK;
}

/* READs and ATOMICs; what they give is in @data. */
static enum ibv_wc_status take_answered(struct m_world *w, struct target *t, const struct m_wr *wr,
					uint8_t *data, uint32_t len)
{
	unsigned access = wr->op == IBV_WR_RDMA_READ	  ? IBV_ACCESS_REMOTE_READ
			  : wr->op == IBV_WR_ATOMIC_WRITE ? IBV_ACCESS_REMOTE_WRITE
							  : IBV_ACCESS_REMOTE_ATOMIC;
	uint8_t *mem = remote(w, t->qp, t->pd, wr->rkey, wr->addr, len, access);
	uint64_t old, new;

	if (wr->op != IBV_WR_RDMA_READ && wr->addr & 7)
		return IBV_WC_REM_INV_REQ_ERR;
	if (!(t->qp->qp_access & access) || (len && !mem) ||
	    (wr->op != IBV_WR_RDMA_READ && (uintptr_t)mem & 7))
		return IBV_WC_REM_ACCESS_ERR;
	if (!t->qp->max_dest_rd)
		return IBV_WC_REM_INV_REQ_ERR;
	if (wr->op == IBV_WR_RDMA_READ) {
		if (len)
			memcpy(data, mem, len);
		return OK;
	}
	if (wr->op == IBV_WR_ATOMIC_WRITE) {
		memcpy(mem, data, 8);
		return OK;
	}
	memcpy(&old, mem, 8);
	new = wr->op == IBV_WR_ATOMIC_FETCH_AND_ADD ? old + wr->compare_add
	      : old == wr->compare_add		    ? wr->swap
						    : old;
	memcpy(mem, &new, 8);
	memcpy(data, &old, 8);
	return OK;
}

/* ---- the requester ---- */

static bool is_fetch(unsigned op)
{
	return op == IBV_WR_RDMA_READ || op == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool gather(struct m_world *w, const struct m_obj *qp, const struct m_wr *wr, uint8_t *data,
		   uint32_t len)
{
	if (wr->flags & IBV_SEND_INLINE) {
		memcpy(data, wr->data, len);
		return true;
	}
	return is_fetch(wr->op) ||
	       walk(w, GATHER, qp->side, qp->pd_of, wr->sge, wr->num_sge, 0, len, 0, data);
}

static enum ibv_wc_status to_peer(struct m_world *w, struct m_obj *qp, const struct m_wr *wr,
				  uint8_t *data, uint32_t len)
{
	enum ibv_wc_status status = IBV_WC_REM_INV_REQ_ERR;
	struct target t;

	if (!alive(qp->peer, IBV_QPS_SQD))
		return IBV_WC_RETRY_EXC_ERR;
	if (find_target(w, qp->peer, wr, &t)) {
		if (wr->op == IBV_WR_RDMA_WRITE || wr->op == IBV_WR_RDMA_WRITE_WITH_IMM)
			status = take_write(w, &t, wr, data, len);
		else if (is_fetch(wr->op) || wr->op == IBV_WR_ATOMIC_WRITE)
			status = take_answered(w, &t, wr, data, len);
		else
			status = take_send(w, &t, wr, data, len);
	}
	if (status && status != IBV_WC_RNR_RETRY_EXC_ERR)
		m_qp_error(w, qp->peer);
	for (uint32_t at = 0; !status && is_fetch(wr->op) && at < len; at += M_MTU)
		if (!walk(w, SCATTER, qp->side, qp->pd_of, wr->sge, wr->num_sge, at,
			  len - at < M_MTU ? len - at : M_MTU, IBV_ACCESS_LOCAL_WRITE, data + at))
			status = IBV_WC_LOC_PROT_ERR;
	return status;
}

/* Nothing comes back: what fails there is lost, or the receiver's own affair. */
static void to_uc_peer(struct m_world *w, struct m_obj *qp, const struct m_wr *wr, uint8_t *data,
		       uint32_t len)
{
	enum ibv_wc_status status;
	struct target t;

	if (!alive(qp->peer, IBV_QPS_SQE) || !find_target(w, qp->peer, wr, &t))
		return;
	if (wr->op == IBV_WR_RDMA_WRITE || wr->op == IBV_WR_RDMA_WRITE_WITH_IMM) {
		take_write(w, &t, wr, data, len);
		return;
	}
	status = take_send(w, &t, wr, data, len);
	if (status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR)
		m_qp_error(w, qp->peer);
}

static struct m_obj *ud_target(struct m_world *w, const struct m_wr *wr)
{
	for (unsigned i = 0; i < M_OBJS; i++) {
		struct m_obj *o = w->obj[M_QP][i];

		if (o && o->qpt == IBV_QPT_UD && o->side == (int)wr->ah->max_wr &&
		    o->qp->qp_num == wr->dest->qp->qp_num)
			return o;
	}
	return NULL;
}

/* Will there be a receive for it? */
static bool ud_fits(struct m_world *w, const struct m_obj *from, const struct m_wr *wr,
		    struct m_obj *to, struct target *t, uint32_t len)
{
	uint32_t qkey = wr->qkey & 0x80000000u ? from->qkey : wr->qkey;

	return alive(to, IBV_QPS_SQE) && to->qkey == qkey && find_target(w, to, wr, t) &&
	       t->rq->n && m_bytes(t->rq->v[0].sge, t->rq->v[0].num_sge) >= GRH + len;
}

static void to_ud(struct m_world *w, struct m_obj *from, const struct m_wr *wr, uint8_t *data,
		  uint32_t len)
{
	const unsigned lw = IBV_ACCESS_LOCAL_WRITE;
	struct m_obj *to = ud_target(w, wr);
	struct target t;
	struct m_recv v;

	if (!ud_fits(w, from, wr, to, &t, len) || !take(&t, &v))
		return;
	if (!walk(w, LOOSEN, to->side, t.recv_pd, v.sge, v.num_sge, 0, GRH, lw, NULL) ||
	    !walk(w, SCATTER, to->side, t.recv_pd, v.sge, v.num_sge, GRH, len, lw, data)) {
		received(w, &t, &v, IBV_WC_LOC_PROT_ERR, 0, 0);
		m_qp_error(w, to);
		return;
	}
	received(w, &t, &v, OK, IBV_WC_RECV, GRH + len);
}

/* IBTA 10.6.7.2: which binds are good. */
static bool bind(struct m_world *w, struct m_obj *qp, const struct m_wr *wr)
{
	const unsigned rights =
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	const unsigned writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	bool type2 = wr->mw->mw->type == IBV_MW_TYPE_2;
	struct m_obj *mw = wr->mw, *mr = wr->mr;

	if (mw->pd_of->root != qp->pd_of->root || (type2 && (mw->bound || !wr->bind_length)))
		return false;
	if (!wr->bind_length) {
		m_unbind(mw);
		return true;
	}
	if (!mr || mr->uses[0]->root != qp->pd_of->root || !(mr->access & IBV_ACCESS_MW_BIND) ||
	    (wr->bind_access & writes && !(mr->access & IBV_ACCESS_LOCAL_WRITE)) ||
	    !in_range(mr, wr->addr, wr->bind_length))
		return false;
	m_unbind(mw);
	mw->bound = true;
	mw->key = wr->rkey;
	mw->access = wr->bind_access & rights;
	mw->base = wr->bind_access & IBV_ACCESS_ZERO_BASED ? 0 : wr->addr;
	mw->length = wr->bind_length;
	mw->mem = mr->mem + (wr->addr - mr->base);
	mw->mr_of = mr;
	mw->qp_of = type2 ? qp : NULL;
	mr->users++;
	return true;
}

static void exec_raw(struct m_world *w, struct m_obj *qp, const struct m_wr *wr, uint32_t len)
{
	uint8_t data[M_MAX];
	bool good = gather(w, qp, wr, data, len);

	if (good && len >= 14) {
		complete(w, qp, wr, OK);
		return;
	}
	complete(w, qp, wr, good ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR);
	qp->state = IBV_QPS_SQE;
}

static enum ibv_wc_status exec_connected(struct m_world *w, struct m_obj *qp, const struct m_wr *wr,
					 uint32_t len)
{
	uint8_t data[M_MAX];

	if (wr->op == IBV_WR_BIND_MW)
		return bind(w, qp, wr) ? OK : IBV_WC_MW_BIND_ERR;
	if (wr->op == IBV_WR_LOCAL_INV)
		return invalidate(w, qp, wr->rkey) ? OK : IBV_WC_MW_BIND_ERR;
	if ((is_fetch(wr->op) || wr->op == IBV_WR_ATOMIC_WRITE) && !qp->max_rd)
		return IBV_WC_LOC_QP_OP_ERR;
	if (!gather(w, qp, wr, data, len))
		return IBV_WC_LOC_PROT_ERR;
	if (qp->qpt != IBV_QPT_UC)
		return to_peer(w, qp, wr, data, len);
	to_uc_peer(w, qp, wr, data, len);
	return OK;
}

void m_exec(struct m_world *w, struct m_obj *qp, const struct m_wr *wr)
{
	uint32_t len = m_bytes(wr->sge, wr->num_sge);
	enum ibv_wc_status status;
	uint8_t data[M_MAX];

	if (qp->state == IBV_QPS_SQD) {
		qp->pend[qp->n_pend++] = *wr;
		return;
	}
	if (qp->state != IBV_QPS_RTS) {
		complete(w, qp, wr, IBV_WC_WR_FLUSH_ERR);
		return;
	}
	if (qp->qpt == IBV_QPT_RAW_PACKET) {
		exec_raw(w, qp, wr, len);
	} else if (qp->qpt == IBV_QPT_UD) {
		bool good = gather(w, qp, wr, data, len);

		complete(w, qp, wr, good ? OK : IBV_WC_LOC_PROT_ERR);
		if (good)
			to_ud(w, qp, wr, data, len);
		else
			qp->state = IBV_QPS_SQE;
	} else {
		status = exec_connected(w, qp, wr, len);
		complete(w, qp, wr, status);
		if (status && qp->qpt == IBV_QPT_UC)
			qp->state = IBV_QPS_SQE;
		else if (status)
			m_qp_error(w, qp);
	}
}

void m_exec_pending(struct m_world *w, struct m_obj *qp)
{
	struct m_wr pend[M_QUEUE];
	unsigned n = qp->n_pend;

	memcpy(pend, qp->pend, sizeof(pend));
	qp->n_pend = 0;
	for (unsigned i = 0; i < n; i++)
		m_exec(w, qp, &pend[i]);
}

bool m_silent(struct m_world *w, const struct m_obj *qp, const struct m_wr *wr)
{
	uint32_t len = m_bytes(wr->sge, wr->num_sge);
	struct target t;

	if (qp->state == IBV_QPS_SQD)
		return true;
	if (qp->state != IBV_QPS_RTS || wr->op == IBV_WR_BIND_MW || wr->op == IBV_WR_LOCAL_INV)
		return false;
	if (qp->qpt == IBV_QPT_UD)
		return wr->dest->side != (int)wr->ah->max_wr ||
		       !ud_fits(w, qp, wr, ud_target(w, wr), &t, len);
	if (qp->qpt == IBV_QPT_UC)
		return (wr->op != IBV_WR_SEND && wr->op != IBV_WR_SEND_WITH_IMM) ||
		       !alive(qp->peer, IBV_QPS_SQE) || !find_target(w, qp->peer, wr, &t) ||
		       !(t.rq->n || qp->peer->has_held);
	return !alive(qp->peer, IBV_QPS_SQD);
}
