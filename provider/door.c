/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The door of the control verbs. In: an object that is not of ours, or whose `handle` is not the
 * one that it was given, or that is of another device than the others of the call, is EINVAL, as
 * the kernel answers for a handle that it does not know. In a forked child the parent's objects
 * are EIO, as those of a kernel's device that has been taken away, and to destroy one is good and
 * does nothing. Out: an error is in errno as well, however the verb returns it. In between the
 * caller's thread is not cancelled.
 */
#include "provider.h"
#include "door.h"
#include "flow.h"
#include "mcast.h"
#include "post.h"
#include "rate.h"
#include "wq.h"
#include "xrc.h"
#include "urxe/cancel.h"

static bool ctx_ours(const struct ibv_context *ctx)
{
	return ctx &&
	       urxe_container_of(ctx->device, struct verbs_device, device)->ops == &urxe_device_ops;
}

static const struct urxe_device *dev_of(const struct ibv_context *ctx)
{
	return urxe_container_of(ctx, struct urxe_context, vctx.context)->dev;
}

/* Of the device of @ctx, which is ours? In a forked child its parent's is another one. */
static bool on(const struct ibv_context *ctx, const struct ibv_context *object)
{
	return object && object->device == ctx->device && dev_of(object) == dev_of(ctx);
}

/* The parent's, in a forked child. */
static bool inherited(const struct ibv_context *ctx)
{
	return ctx_ours(ctx) && urxe_device_inherited(dev_of(ctx));
}

static bool pd_ours(const struct ibv_pd *pd)
{
	return pd && ctx_ours(pd->context) && pd->handle == urxe_handle(pd);
}

static bool cq_ours(const struct ibv_cq *cq)
{
	return cq && ctx_ours(cq->context) && cq->handle == urxe_handle(cq);
}

static bool srq_ours(const struct ibv_srq *srq)
{
	return srq && ctx_ours(srq->context) && srq->handle == urxe_handle(srq);
}

static bool qp_ours(struct ibv_qp *qp)
{
	return qp && ctx_ours(qp->context) && qp->handle == to_urxe_qp(qp)->qpn;
}

static bool mr_ours(struct ibv_mr *mr)
{
	return mr && ctx_ours(mr->context) && mr->handle == to_urxe_mr(mr)->mkey->key;
}

static bool mw_ours(struct ibv_mw *mw)
{
	return mw && ctx_ours(mw->context) &&
	       mw->handle == urxe_container_of(mw, struct urxe_mw, mw)->idle.key;
}

static bool ah_ours(const struct ibv_ah *ah)
{
	return ah && ctx_ours(ah->context) && ah->handle == urxe_handle(ah);
}

static bool wq_ours(const struct ibv_wq *wq)
{
	return wq && ctx_ours(wq->context) && wq->handle == wq->wq_num;
}

#define CTX_OF(object) ((object) ? (object)->context : NULL)

/* An errno, or what the call returns; @gone: of what is the parent's, in a forked child. */
#define DOOR_OR(gone, ctx, ours, call)                                        \
	do {                                                                  \
		int cancel = urxe_cancel_off();                               \
		int err = inherited(ctx) ? (gone) : (ours) ? (call) : EINVAL; \
                                                                              \
		urxe_cancel_back(cancel);                                     \
		return urxe_ret(err);                                         \
	} while (0)
#define DOOR(ctx, ours, call) DOOR_OR(EIO, ctx, ours, call)
/* Likewise, of a call that destroys: what is the parent's stays, in the child's memory, too. */
#define DOOR_OUT(ctx, ours, call) DOOR_OR(0, ctx, ours, call)

static void *refused(const struct ibv_context *ctx)
{
	errno = inherited(ctx) ? EIO : EINVAL;
	return NULL;
}
#define DOOR_TO(ctx, ours, call)                                                \
	do {                                                                    \
		int cancel = urxe_cancel_off();                                 \
		void *made = !inherited(ctx) && (ours) ? (call) : refused(ctx); \
                                                                                \
		urxe_cancel_back(cancel);                                       \
		return made;                                                    \
	} while (0)

/* ---- made in a PD, or of other objects ---- */

static struct ibv_pd *alloc_parent_domain(struct ibv_context *ctx,
					  struct ibv_parent_domain_init_attr *attr)
{
	DOOR_TO(ctx, !attr->pd || pd_ours(attr->pd), urxe_alloc_parent_domain(ctx, attr));
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     int access)
{
	DOOR_TO(CTX_OF(pd), pd_ours(pd), urxe_reg_mr(pd, addr, length, iova, access));
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	DOOR_TO(CTX_OF(pd), pd_ours(pd), urxe_alloc_null_mr(pd));
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access)
{
	DOOR_TO(CTX_OF(pd), pd_ours(pd), urxe_reg_dmabuf_mr(pd, offset, length, iova, fd, access));
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
				size_t length, unsigned access)
{
	DOOR_TO(CTX_OF(pd), pd_ours(pd) && dm && on(pd->context, dm->context),
		urxe_reg_dm_mr(pd, dm, offset, length, access));
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	DOOR_TO(CTX_OF(pd), pd_ours(pd), urxe_alloc_mw(pd, type));
}

static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	DOOR_TO(CTX_OF(pd), pd_ours(pd), urxe_create_ah(pd, attr));
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	DOOR_TO(CTX_OF(pd), pd_ours(pd), urxe_create_srq(pd, attr));
}

static struct ibv_cq *create_cq(struct ibv_context *ctx, int cqe, struct ibv_comp_channel *channel,
				int vector)
{
	DOOR_TO(ctx, !channel || on(ctx, channel->context),
		urxe_create_cq(ctx, cqe, channel, vector));
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	DOOR_TO(ctx, !attr->channel || on(ctx, attr->channel->context),
		urxe_create_cq_ex(ctx, attr));
}

static struct ibv_srq *create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	bool cq = attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ && attr->cq;
	bool pd = attr->comp_mask & IBV_SRQ_INIT_ATTR_PD && attr->pd;
	bool xrcd = attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD && attr->xrcd;

	DOOR_TO(ctx,
		(!xrcd || on(ctx, attr->xrcd->context)) &&
			(!pd || (pd_ours(attr->pd) && on(ctx, attr->pd->context))) &&
			(!cq || (cq_ours(attr->cq) && on(ctx, attr->cq->context))),
		urxe_create_srq_ex(ctx, attr));
}

/* The queues of a QP to be; those that are missing are for the QP to complain of. */
static bool queues_ours(const struct ibv_context *ctx, struct ibv_cq *scq, struct ibv_cq *rcq,
			struct ibv_srq *srq)
{
	return (!scq || (cq_ours(scq) && on(ctx, scq->context))) &&
	       (!rcq || (cq_ours(rcq) && on(ctx, rcq->context))) &&
	       (!srq || (srq_ours(srq) && on(ctx, srq->context)));
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	DOOR_TO(CTX_OF(pd),
		pd_ours(pd) && queues_ours(pd->context, attr->send_cq, attr->recv_cq, attr->srq),
		urxe_create_qp(pd, attr));
}

static struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	bool xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->xrcd;
	bool table = attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE && attr->rwq_ind_tbl;

	/* A target QP of XRC has a domain alone. */
	DOOR_TO(ctx,
		attr->qp_type == IBV_QPT_XRC_RECV
			? !xrcd || on(ctx, attr->xrcd->context)
			: pd_ours(pd) && on(ctx, pd->context) &&
				  (!table || on(ctx, attr->rwq_ind_tbl->context)) &&
				  queues_ours(ctx, attr->send_cq, attr->recv_cq, attr->srq),
		urxe_create_qp_ex(ctx, attr));
}

static struct ibv_wq *create_wq(struct ibv_context *ctx, struct ibv_wq_init_attr *attr)
{
	DOOR_TO(ctx,
		(!attr->pd || (pd_ours(attr->pd) && on(ctx, attr->pd->context))) &&
			(!attr->cq || (cq_ours(attr->cq) && on(ctx, attr->cq->context))),
		urxe_create_wq(ctx, attr));
}

static struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	DOOR_TO(CTX_OF(qp), qp_ours(qp), urxe_create_flow(qp, attr));
}

static struct ibv_rwq_ind_table *create_rwq_ind_table(struct ibv_context *ctx,
						      struct ibv_rwq_ind_table_init_attr *attr)
{
	DOOR_TO(ctx, true, urxe_create_rwq_ind_table(ctx, attr));
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr)
{
	DOOR_TO(ctx, true, urxe_open_xrcd(ctx, attr));
}

static struct ibv_qp *open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr)
{
	bool xrcd = attr->comp_mask & IBV_QP_OPEN_ATTR_XRCD && attr->xrcd;

	DOOR_TO(ctx, !xrcd || on(ctx, attr->xrcd->context), urxe_open_qp(ctx, attr));
}

/* ---- changed, asked, and taken away ---- */

static int query_port(struct ibv_context *ctx, uint8_t port_num, struct ibv_port_attr *attr)
{
	DOOR(ctx, true, urxe_query_port(ctx, port_num, attr));
}

static int dealloc_pd(struct ibv_pd *pd)
{
	DOOR_OUT(CTX_OF(pd), pd_ours(pd), urxe_dealloc_pd(pd));
}

static int dealloc_td(struct ibv_td *td)
{
	DOOR_OUT(CTX_OF(td), td && ctx_ours(td->context), urxe_dealloc_td(td));
}

static int rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		    int access)
{
	DOOR(vmr->ibv_mr.context,
	     mr_ours(&vmr->ibv_mr) && (!(flags & IBV_REREG_MR_CHANGE_PD) || !pd || pd_ours(pd)),
	     urxe_rereg_mr(vmr, flags, pd, addr, length, access));
}

static int dereg_mr(struct verbs_mr *vmr)
{
	DOOR_OUT(vmr->ibv_mr.context, mr_ours(&vmr->ibv_mr), urxe_dereg_mr(vmr));
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sges, uint32_t n)
{
	DOOR(CTX_OF(pd), pd_ours(pd), urxe_advise_mr(pd, advice, flags, sges, n));
}

static int free_dm(struct ibv_dm *dm)
{
	/* A child may have made it: urxe_alloc_dm(). */
	return urxe_ret(dm && ctx_ours(dm->context) ? urxe_free_dm(dm) : EINVAL);
}

static int dealloc_mw(struct ibv_mw *mw)
{
	DOOR_OUT(CTX_OF(mw), mw_ours(mw), urxe_dealloc_mw(mw));
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_mr *mr = bind->bind_info.mr;

	DOOR(CTX_OF(qp),
	     qp_ours(qp) && mw_ours(mw) && on(qp->context, mw->context) &&
		     (!mr || (mr_ours(mr) && on(qp->context, mr->context))),
	     urxe_bind_mw(qp, mw, bind));
}

static int destroy_ah(struct ibv_ah *ah)
{
	DOOR_OUT(CTX_OF(ah), ah_ours(ah), urxe_destroy_ah(ah));
}

static int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	DOOR(CTX_OF(cq), cq_ours(cq), urxe_modify_cq(cq, attr));
}

static int destroy_cq(struct ibv_cq *cq)
{
	DOOR_OUT(CTX_OF(cq), cq_ours(cq), urxe_destroy_cq(cq));
}

static int resize_cq(struct ibv_cq *cq, int cqe)
{
	DOOR(CTX_OF(cq), cq_ours(cq), urxe_resize_cq(cq, cqe));
}

static int modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	DOOR(CTX_OF(srq), srq_ours(srq), urxe_modify_srq(srq, attr, mask));
}

static int query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	DOOR(CTX_OF(srq), srq_ours(srq), urxe_query_srq(srq, attr));
}

static int destroy_srq(struct ibv_srq *srq)
{
	DOOR_OUT(CTX_OF(srq), srq_ours(srq), urxe_destroy_srq(srq));
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	DOOR(CTX_OF(srq), srq_ours(srq), urxe_get_srq_num(srq, num));
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	DOOR(CTX_OF(qp), qp_ours(qp), urxe_modify_qp(qp, attr, mask));
}

static int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	DOOR(CTX_OF(qp), qp_ours(qp), urxe_modify_qp_rate_limit(qp, attr));
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		    struct ibv_qp_init_attr *init)
{
	DOOR(CTX_OF(qp), qp_ours(qp), urxe_query_qp(qp, attr, mask, init));
}

/* Enhanced connection establishment: there is nothing to agree on with a peer. */
static int query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (qp_ours(qp))
		*ece = (struct ibv_ece){.vendor_id = 0};
	DOOR(CTX_OF(qp), qp_ours(qp), 0);
}

static int set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return urxe_ret(EOPNOTSUPP);
}

static int destroy_qp(struct ibv_qp *qp)
{
	DOOR_OUT(CTX_OF(qp), qp_ours(qp), urxe_destroy_qp(qp));
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	DOOR_OUT(CTX_OF(xrcd), xrcd && ctx_ours(xrcd->context), urxe_close_xrcd(xrcd));
}

static int destroy_flow(struct ibv_flow *flow)
{
	DOOR_OUT(CTX_OF(flow), flow && ctx_ours(flow->context), urxe_destroy_flow(flow));
}

static int attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	DOOR(CTX_OF(qp), qp_ours(qp), urxe_attach_mcast(qp, gid, lid));
}

static int detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	DOOR_OUT(CTX_OF(qp), qp_ours(qp), urxe_detach_mcast(qp, gid, lid));
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	DOOR(CTX_OF(wq), wq_ours(wq), urxe_modify_wq(wq, attr));
}

static int destroy_wq(struct ibv_wq *wq)
{
	DOOR_OUT(CTX_OF(wq), wq_ours(wq), urxe_destroy_wq(wq));
}

static int destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	DOOR_OUT(CTX_OF(table), table && ctx_ours(table->context),
		 urxe_destroy_rwq_ind_table(table));
}

const struct verbs_context_ops urxe_door_ops = {
	.alloc_parent_domain = alloc_parent_domain,
	.reg_mr = reg_mr,
	.alloc_null_mr = alloc_null_mr,
	.reg_dmabuf_mr = reg_dmabuf_mr,
	.reg_dm_mr = reg_dm_mr,
	.alloc_mw = alloc_mw,
	.create_ah = create_ah,
	.create_cq = create_cq,
	.create_cq_ex = create_cq_ex,
	.create_srq = create_srq,
	.create_srq_ex = create_srq_ex,
	.create_qp = create_qp,
	.create_qp_ex = create_qp_ex,
	.create_wq = create_wq,
	.create_flow = create_flow,
	.create_rwq_ind_table = create_rwq_ind_table,
	.open_xrcd = open_xrcd,
	.open_qp = open_qp,
	.query_port = query_port,
	.dealloc_pd = dealloc_pd,
	.dealloc_td = dealloc_td,
	.rereg_mr = rereg_mr,
	.dereg_mr = dereg_mr,
	.advise_mr = advise_mr,
	.free_dm = free_dm,
	.dealloc_mw = dealloc_mw,
	.bind_mw = bind_mw,
	.destroy_ah = destroy_ah,
	.modify_cq = modify_cq,
	.destroy_cq = destroy_cq,
	.resize_cq = resize_cq,
	.modify_srq = modify_srq,
	.query_srq = query_srq,
	.destroy_srq = destroy_srq,
	.get_srq_num = get_srq_num,
	.modify_qp = modify_qp,
	.modify_qp_rate_limit = modify_qp_rate_limit,
	.query_qp = query_qp,
	.query_ece = query_ece,
	.set_ece = set_ece,
	.destroy_qp = destroy_qp,
	.close_xrcd = close_xrcd,
	.destroy_flow = destroy_flow,
	.attach_mcast = attach_mcast,
	.detach_mcast = detach_mcast,
	.modify_wq = modify_wq,
	.destroy_wq = destroy_wq,
	.destroy_rwq_ind_table = destroy_rwq_ind_table,
};
