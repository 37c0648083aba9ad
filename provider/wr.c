/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ibv_wr_* interface: work requests are built in place, between wr_start, which takes the
 * QP's lock, and wr_complete or wr_abort, which give it back. The first error is kept and told at
 * the end; then nothing of what was built is posted.
 */
#include <errno.h>
#include <string.h>

#include "provider.h"
#include "door.h"
#include "wqe.h"
#include "wr.h"
#include "wake.h"

static struct urxe_qp *of(struct ibv_qp_ex *qpx)
{
	return to_urxe_qp(&qpx->qp_base);
}

/*
 * Between wr_start() and wr_complete() or wr_abort() the application's thread has qp->lock: what it
 * calls in between assumes so.
 */

/* Finish the work request under construction, if there is one. */
static void end(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	struct urxe_builder *b = &qp->wr;

	if (!b->wqe)
		return;
	if (!b->err)
		b->err = urxe_wqe_finish(qp, b->wqe);
	if (b->err)
		urxe_wqe_drop(b->wqe);
	else
		b->next++;
	b->wqe = NULL;
}

static struct urxe_swqe *begin(struct ibv_qp_ex *qpx, unsigned opcode, uint64_t op)
{
	struct urxe_qp *qp = of(qpx);
	struct urxe_builder *b = &qp->wr;

	urxe_spin_assume(&qp->lock);
	end(qp);
	if (!b->err && !(qp->send_ops & op))
		b->err = EINVAL;
	if (!b->err)
		b->err = urxe_wqe_begin(qp, b->next, opcode, qpx->wr_id, qpx->wr_flags, &b->wqe);
	return b->err ? NULL : b->wqe;
}

static void wr_plain(struct ibv_qp_ex *qpx, unsigned opcode, uint64_t op, __be32 imm)
{
	struct urxe_swqe *wqe = begin(qpx, opcode, op);

	if (wqe)
		wqe->imm = imm;
}

static void wr_invalidate(struct ibv_qp_ex *qpx, unsigned opcode, uint64_t op, uint32_t rkey)
{
	struct urxe_swqe *wqe = begin(qpx, opcode, op);

	if (wqe)
		wqe->inv_rkey = rkey;
}

static void wr_rdma(struct ibv_qp_ex *qpx, unsigned opcode, uint64_t op, uint32_t rkey,
		    uint64_t addr, __be32 imm)
{
	struct urxe_swqe *wqe = begin(qpx, opcode, op);

	if (!wqe)
		return;
	wqe->remote_addr = addr;
	wqe->rkey = rkey;
	wqe->imm = imm;
}

static void wr_send(struct ibv_qp_ex *qpx)
{
	wr_plain(qpx, IBV_WR_SEND, IBV_QP_EX_WITH_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *qpx, __be32 imm)
{
	wr_plain(qpx, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM, imm);
}

static void wr_send_inv(struct ibv_qp_ex *qpx, uint32_t rkey)
{
	wr_invalidate(qpx, IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *qpx, uint32_t rkey)
{
	wr_invalidate(qpx, IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV, rkey);
}

static void wr_rdma_write(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr)
{
	wr_rdma(qpx, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr, __be32 imm)
{
	wr_rdma(qpx, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, addr,
		imm);
}

static void wr_rdma_read(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr)
{
	wr_rdma(qpx, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, addr, 0);
}

static void wr_atomic(struct ibv_qp_ex *qpx, unsigned opcode, uint64_t op, uint32_t rkey,
		      uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	struct urxe_swqe *wqe = begin(qpx, opcode, op);

	if (!wqe)
		return;
	wqe->remote_addr = addr;
	wqe->rkey = rkey;
	wqe->atomic.compare_add = compare_add;
	wqe->atomic.swap = swap;
}

static void wr_cmp_swp(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr, uint64_t compare,
		       uint64_t swap)
{
	wr_atomic(qpx, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey, addr,
		  compare, swap);
}

static void wr_fetch_add(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr, uint64_t add)
{
	wr_atomic(qpx, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey, addr,
		  add, 0);
}

static void wr_atomic_write(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr, const void *value)
{
	struct urxe_swqe *wqe = begin(qpx, IBV_WR_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE);

	if (!wqe)
		return;
	wqe->remote_addr = addr;
	wqe->rkey = rkey;
	urxe_wqe_value(wqe, value);
}

static void wr_flush(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr, size_t length,
		     uint8_t placement, uint8_t level)
{
	const uint8_t known = URXEDV_FLUSH_GLOBAL | URXEDV_FLUSH_PERSISTENT;
	struct urxe_swqe *wqe = begin(qpx, URXEDV_WR_FLUSH, URXEDV_QP_EX_WITH_FLUSH);

	if (!wqe)
		return;
	if (!placement || placement & ~known || level > URXEDV_FLUSH_MR || length > UINT32_MAX)
		of(qpx)->wr.err = EINVAL;
	wqe->remote_addr = addr;
	wqe->rkey = rkey;
	wqe->flush.length = (uint32_t)length;
	wqe->flush.feth = urxe_feth(placement, level);
}

static void wr_bind_mw(struct ibv_qp_ex *qpx, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct urxe_swqe *wqe = begin(qpx, IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW);

	of(qpx)->wr.binds = true;
	if (wqe)
		of(qpx)->wr.err = mw && mw->type == IBV_MW_TYPE_2
					  ? urxe_wqe_bind(wqe, mw, rkey, info)
					  : EINVAL;
}

/* ---- setters: of the work request begun last ---- */

/* Run @call (with qp, b) unless there was an error; a setter without a work request is one. */
#define SET(qpx, call)                                     \
	do {                                               \
		struct urxe_qp *qp = of(qpx);              \
		struct urxe_builder *b = &qp->wr;          \
                                                           \
		urxe_spin_assume(&qp->lock);               \
		if (!b->err)                               \
			b->err = b->wqe ? (call) : EINVAL; \
	} while (0)

static void wr_set_ud_addr(struct ibv_qp_ex *qpx, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	SET(qpx, urxe_wqe_ud(qp, b->wqe, ah, qpn, qkey));
}

static int set_srqn(struct urxe_qp *qp, struct urxe_swqe *wqe, uint32_t srqn)
{
	if (qp->type != IBV_QPT_XRC_SEND)
		return EINVAL;
	wqe->remote_qpn = srqn;
	return 0;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *qpx, uint32_t srqn)
{
	SET(qpx, set_srqn(qp, b->wqe, srqn));
}

static void wr_set_sge_list(struct ibv_qp_ex *qpx, size_t n, const struct ibv_sge *sges)
{
	SET(qpx, urxe_wqe_sges(qp, b->wqe, sges, n));
}

static void wr_set_sge(struct ibv_qp_ex *qpx, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {addr, length, lkey};

	wr_set_sge_list(qpx, 1, &sge);
}

static void wr_set_inline_data(struct ibv_qp_ex *qpx, void *addr, size_t length)
{
	SET(qpx, urxe_wqe_inline(qp, b->wqe, addr, length));
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qpx, size_t n,
				    const struct ibv_data_buf *bufs)
{
	for (size_t i = 0; i < n; i++)
		SET(qpx, urxe_wqe_inline(qp, b->wqe, bufs[i].addr, bufs[i].length));
}

/* ---- start, complete, abort ---- */

static void wr_start(struct ibv_qp_ex *qpx) URXE_UNCHECKED
{
	struct urxe_qp *qp = of(qpx);
	struct urxe_builder *b = &qp->wr;

	urxe_wqe_fetch(qp);
	/* A thread that is not here may have it, and the QP is good for nothing but saying so. */
	if (urxe_device_inherited(qp->dev))
		memset(&qp->lock, 0, sizeof(qp->lock));
	urxe_spin_lock(&qp->lock);
	b->next = qp->sq.post;
	b->wqe = NULL;
	b->binds = false;
	b->err = urxe_device_check(qp->dev)	       ? EIO
		 : qp->state < IBV_QPS_RTS || !qp->scq ? EINVAL
						       : 0;
}

static void drop_all(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	if (qp->wr.wqe)
		urxe_wqe_drop(qp->wr.wqe);
	qp->wr.wqe = NULL;
	while (qp->wr.next != qp->sq.post)
		urxe_wqe_drop(urxe_sq_at(&qp->sq, --qp->wr.next));
}

/* Those that are about to be posted. */
static void name_windows(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	for (uint32_t i = qp->sq.post; i != qp->wr.next; i++) {
		const struct urxe_swqe *wqe = urxe_sq_at(&qp->sq, i);

		if (wqe->opcode == IBV_WR_BIND_MW)
			urxe_mw_posted(qp->dev, wqe->rkey);
	}
}

static int wr_complete(struct ibv_qp_ex *qpx)
{
	struct urxe_qp *qp = of(qpx);
	struct urxe_wakes wakes;
	bool held = urxe_wakes_hold_for(qp, &wakes);
	int err;

	urxe_spin_assume(&qp->lock);
	end(qp);
	err = qp->wr.err;
	if (!err && qp->wr.binds)
		name_windows(qp);
	if (err)
		drop_all(qp);
	else
		urxe_wqe_publish(qp, qp->wr.next);
	urxe_spin_unlock(&qp->lock);
	if (held)
		urxe_wakes_send(&wakes);
	return urxe_ret(err);
}

static void wr_abort(struct ibv_qp_ex *qpx)
{
	struct urxe_qp *qp = of(qpx);

	urxe_spin_assume(&qp->lock);
	drop_all(qp);
	urxe_spin_unlock(&qp->lock);
}

/* Which send_ops_flags go with which operation. */
static const struct {
	uint64_t flag;
	uint8_t opcode;
} ops[] = {
	{IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE},
	{IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM},
	{IBV_QP_EX_WITH_SEND, IBV_WR_SEND},
	{IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM},
	{IBV_QP_EX_WITH_RDMA_READ, IBV_WR_RDMA_READ},
	{IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP},
	{IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD},
	{IBV_QP_EX_WITH_LOCAL_INV, IBV_WR_LOCAL_INV},
	{IBV_QP_EX_WITH_BIND_MW, IBV_WR_BIND_MW},
	{IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV},
	{IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE},
	{URXEDV_QP_EX_WITH_FLUSH, URXEDV_WR_FLUSH},
};

int urxe_wr_enable(struct urxe_qp *qp, uint64_t flags)
{
	struct ibv_qp_ex *x = &qp->vqp.qp_ex;
	uint64_t offered = 0;

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (qp->sq.ops & 1u << ops[i].opcode)
			offered |= ops[i].flag;
	if (flags & ~offered)
		return EOPNOTSUPP;
	qp->send_ops = flags;
	x->wr_atomic_cmp_swp = wr_cmp_swp;
	x->wr_atomic_fetch_add = wr_fetch_add;
	x->wr_atomic_write = wr_atomic_write;
	x->wr_bind_mw = wr_bind_mw;
	x->wr_local_inv = wr_local_inv;
	x->wr_rdma_read = wr_rdma_read;
	x->wr_rdma_write = wr_rdma_write;
	x->wr_rdma_write_imm = wr_rdma_write_imm;
#ifdef URXE_HAVE_WR_FLUSH
	x->wr_flush = wr_flush;
#endif
	x->wr_send = wr_send;
	x->wr_send_imm = wr_send_imm;
	x->wr_send_inv = wr_send_inv;
	x->wr_set_ud_addr = wr_set_ud_addr;
	x->wr_set_xrc_srqn = wr_set_xrc_srqn;
	x->wr_set_inline_data = wr_set_inline_data;
	x->wr_set_inline_data_list = wr_set_inline_data_list;
	x->wr_set_sge = wr_set_sge;
	x->wr_set_sge_list = wr_set_sge_list;
	x->wr_start = wr_start;
	x->wr_complete = wr_complete;
	x->wr_abort = wr_abort;
	qp->vqp.comp_mask |= VERBS_QP_EX;
	return 0;
}

/* For libibverbs before 45, which has no slot for it. */
__attribute__((visibility("default"))) void urxedv_wr_flush(struct ibv_qp_ex *qpx, uint32_t rkey,
							    uint64_t addr, size_t length,
							    uint8_t placement, uint8_t level)
{
	wr_flush(qpx, rkey, addr, length, placement, level);
}
