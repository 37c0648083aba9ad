/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Everything but QPs: how it is made, what keeps it from going. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "model.h"

bool m_room(const struct m_world *w, enum m_type type)
{
	for (unsigned i = 0; i < M_OBJS; i++)
		if (!w->obj[type][i])
			return true;
	return false;
}

struct m_obj *m_add(struct m_world *w, const struct m_obj *template, void *ib, unsigned n,
		    struct m_obj *const *uses)
{
	struct m_obj *o = malloc(sizeof(*o));

	CU_ASSERT_FATAL(o != NULL);
	*o = *template;
	o->ib = ib;
	for (unsigned i = 0; i < n; i++)
		if (uses[i]) {
			o->uses[o->n_uses++] = uses[i];
			uses[i]->users++;
		}
	for (unsigned i = 0; i < M_OBJS; i++)
		if (!w->obj[o->type][i]) {
			w->obj[o->type][i] = o;
			break;
		}
	return o;
}

struct m_obj *m_pick(struct m_world *w, enum m_type type, int side, int ctx)
{
	struct m_obj *found = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < M_OBJS; i++) {
		struct m_obj *o = w->obj[type][i];

		if (o && (side < 0 || o->side == side) && (ctx < 0 || o->ctx == ctx) &&
		    !m_rnd(w, ++n))
			found = o;
	}
	return found;
}

void m_remove(struct m_world *w, struct m_obj *o)
{
	for (unsigned i = 0; i < o->n_uses; i++)
		o->uses[i]->users--;
	for (unsigned i = 0; i < M_OBJS; i++)
		if (w->obj[o->type][i] == o)
			w->obj[o->type][i] = NULL;
	if (o->key)
		w->stale[w->n_stale++ % 16] = o->key;
	if (o->type == M_DM)
		free(o->mem);
	free(o);
}

void m_unbind(struct m_obj *mw)
{
	if (mw->bound)
		mw->mr_of->users--;
	mw->bound = false;
	mw->mr_of = mw->qp_of = NULL;
}

/* One in so many times, something is wrong with the arguments. */
static unsigned mistake(struct m_world *w, unsigned kinds)
{
	return m_rnd(w, 4) ? 0 : 1 + m_rnd(w, kinds);
}

/* What a verb that makes something returned: 0 or errno. */
static int made(const void *ib)
{
	return ib ? 0 : errno;
}

static void make_pd(struct m_world *w, struct m_obj *t)
{
	struct ibv_context *ctx = w->ctx[t->side][t->ctx];
	struct m_obj *of = m_rnd(w, 3) ? NULL : m_pick(w, M_PD, t->side, t->ctx), *o;
	struct ibv_parent_domain_init_attr a = {.pd = of ? of->pd : NULL};
	unsigned bad = of ? mistake(w, 2) : 0;

	if (!of) {
		struct ibv_pd *pd = ibv_alloc_pd(ctx);

		if (m_check(w, "alloc_pd", made(pd), 0)) {
			o = m_add(w, t, pd, 0, NULL);
			o->root = o;
		}
		return;
	}
	t->root = of->root;
	if (bad == 1)
		a.comp_mask = 1u << 20;
	if (bad == 2)
		a.pd = NULL;
	t->pd = ibv_alloc_parent_domain(ctx, &a);
	if (m_check(w, "alloc_parent_domain", made(t->pd),
		    bad == 1   ? EOPNOTSUPP
		    : bad == 2 ? EINVAL
			       : 0))
		m_add(w, t, t->pd, 1, &t->root);
}

static void make_xrcd(struct m_world *w, struct m_obj *t)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	unsigned bad = mistake(w, 3);
	struct ibv_xrcd *x;

	if (bad == 1)
		a.comp_mask = IBV_XRCD_INIT_ATTR_FD;
	if (bad == 2)
		a.oflags = O_APPEND;
	if (bad == 3)
		a.fd = 1 << 20;
	x = ibv_open_xrcd(w->ctx[t->side][t->ctx], &a);
	if (m_check(w, "open_xrcd", made(x), bad == 3 ? EBADF : bad ? EINVAL : 0))
		m_add(w, t, x, 0, NULL);
}

static void make_dm(struct m_world *w, struct m_obj *t)
{
	struct ibv_alloc_dm_attr a = {.length = M_DM_SIZE};
	unsigned bad = mistake(w, 4);
	struct ibv_dm *dm;

	if (bad == 1)
		a.length = 0;
	if (bad == 2)
		a.length = URXE_MAX_DM + 1;
	if (bad == 3)
		a.log_align_req = 30;
	if (bad == 4)
		a.comp_mask = 1;
	dm = ibv_alloc_dm(w->ctx[t->side][t->ctx], &a);
	if (m_check(w, "alloc_dm", made(dm), bad ? EINVAL : 0)) {
		t->mem = calloc(1, M_DM_SIZE);
		m_add(w, t, dm, 0, NULL);
	}
}

static void make_cq(struct m_world *w, struct m_obj *t)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 300, .wc_flags = IBV_CREATE_CQ_SUP_WC_FLAGS};
	struct ibv_context *ctx = w->ctx[t->side][t->ctx];
	unsigned bad = mistake(w, 4);
	int cqe = 300, vector = 0;

	a.wc_flags &= ~(uint64_t)IBV_WC_EX_WITH_TM_INFO;
	t->ex = m_rnd(w, 2);
	if (bad == 1)
		a.cqe = 0, cqe = 0;
	if (bad == 2)
		a.cqe = URXE_MAX_CQE, cqe = URXE_MAX_CQE;
	if (bad == 3)
		vector = ctx->num_comp_vectors, a.comp_vector = (uint32_t)vector;
	if (bad == 4)
		t->ex = true, a.wc_flags |= IBV_WC_EX_WITH_TM_INFO;
	if (t->ex) {
		struct ibv_cq_ex *x = ibv_create_cq_ex(ctx, &a);

		t->cq = x ? ibv_cq_ex_to_cq(x) : NULL;
	} else {
		t->cq = ibv_create_cq(ctx, cqe, NULL, NULL, vector);
	}
	if (m_check(w, "create_cq", made(t->cq), bad == 4 ? EOPNOTSUPP : bad ? EINVAL : 0))
		m_add(w, t, t->cq, 0, NULL);
}

static unsigned some_access(struct m_world *w)
{
	static const unsigned bits[] = {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
					IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_MW_BIND,
					IBV_ACCESS_RELAXED_ORDERING};
	unsigned access = m_rnd(w, 6) ? IBV_ACCESS_LOCAL_WRITE : 0;

	for (unsigned i = 0; i < 5; i++)
		if (m_rnd(w, 4))
			access |= bits[i];
	return access;
}

static int access_error(unsigned access)
{
	return access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
			       !(access & IBV_ACCESS_LOCAL_WRITE)
		       ? EINVAL
		       : 0;
}

static void make_dm_mr(struct m_world *w, struct m_obj *t, struct m_obj *pd, struct m_obj *dm)
{
	uint32_t off = m_rnd(w, M_DM_SIZE), len = m_rnd(w, M_DM_SIZE);
	int want;

	t->access = some_access(w) & ~(unsigned)IBV_ACCESS_RELAXED_ORDERING;
	if (m_rnd(w, 6))
		t->access |= IBV_ACCESS_ZERO_BASED;
	want = !(t->access & IBV_ACCESS_ZERO_BASED) || off + len > M_DM_SIZE
		       ? EINVAL
		       : access_error(t->access);
	t->length = len;
	t->mem = dm->mem + off;
	t->mr = ibv_reg_dm_mr(pd->pd, dm->dm, off, len, t->access);
	if (m_check(w, "reg_dm_mr", made(t->mr), want)) {
		t->key = t->mr->lkey;
		m_add(w, t, t->mr, 2, (struct m_obj *[]){pd, dm});
	}
}

static void make_mr(struct m_world *w, struct m_obj *t)
{
	struct m_obj *pd = m_pick(w, M_PD, t->side, t->ctx);
	struct m_obj *dm = m_rnd(w, 8) ? NULL : m_pick(w, M_DM, t->side, t->ctx);
	uint32_t off = m_rnd(w, 2) ? 0 : m_rnd(w, M_ARENA / 2);
	unsigned bad = mistake(w, 4);
	uint8_t *addr;
	int want;

	if (!pd)
		return;
	if (dm) {
		make_dm_mr(w, t, pd, dm);
		return;
	}
	if (!m_rnd(w, 10)) {
		t->null = true;
		t->length = SIZE_MAX;
		t->access = IBV_ACCESS_LOCAL_WRITE;
		t->mr = ibv_alloc_null_mr(pd->pd);
		want = 0;
	} else {
		addr = w->mem[t->side] + off;
		t->mem = w->want[t->side] + off;
		t->length = m_rnd(w, 2) ? M_ARENA - off : m_rnd(w, M_ARENA - off + 1);
		t->access = some_access(w);
		if (!m_rnd(w, 5))
			t->access |= IBV_ACCESS_ON_DEMAND;
		if (!m_rnd(w, 5))
			t->access |= IBV_ACCESS_ZERO_BASED;
		want = access_error(t->access);
		if (bad == 1)
			t->access |= 1u << 15, want = EOPNOTSUPP;
		if (bad == 2 && !want && !(t->access & IBV_ACCESS_ON_DEMAND) && t->length)
			addr = (uint8_t *)64, want = EFAULT;
		if (bad == 3)
			t->length = SIZE_MAX - 16, want = want ? want : EINVAL;
		t->base = t->access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
		if (bad == 4 && !(t->access & IBV_ACCESS_ZERO_BASED)) {
			t->base = 0x123456789000ull + m_rnd(w, 100);
			t->mr = ibv_reg_mr_iova(pd->pd, addr, t->length, t->base, t->access);
		} else {
			t->mr = ibv_reg_mr(pd->pd, addr, t->length, (int)t->access);
		}
	}
	if (m_check(w, "reg_mr", made(t->mr), want)) {
		t->key = t->mr->lkey;
		m_add(w, t, t->mr, 1, &pd);
	}
}

static void make_mw(struct m_world *w, struct m_obj *t)
{
	struct m_obj *pd = m_pick(w, M_PD, t->side, t->ctx);
	enum ibv_mw_type type = m_rnd(w, 2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
	unsigned bad = mistake(w, 1);
	struct ibv_mw *mw;

	if (!pd)
		return;
	mw = ibv_alloc_mw(pd->pd, bad ? (enum ibv_mw_type)7 : type);
	if (m_check(w, "alloc_mw", made(mw), bad ? EINVAL : 0)) {
		t->pd_of = pd;
		m_add(w, t, mw, 1, &pd);
	}
}

static void make_ah(struct m_world *w, struct m_obj *t)
{
	struct side *s[2] = {&w->p->a, &w->p->b};
	struct m_obj *pd = m_pick(w, M_PD, t->side, t->ctx);
	int to = m_rnd(w, 4) ? !t->side : t->side;
	struct ibv_ah_attr a = pair_path(s[t->side], s[to]);
	unsigned bad = mistake(w, 4);

	if (!pd)
		return;
	if (bad == 1)
		a.is_global = 0;
	if (bad == 2)
		a.port_num = 2;
	if (bad == 3)
		a.grh.sgid_index = 50;
	if (bad == 4)
		memset(&a.grh.dgid, 0, 16);
	t->pd_of = pd;
	t->max_wr = (unsigned)to;
	t->ah = ibv_create_ah(pd->pd, &a);
	if (m_check(w, "create_ah", made(t->ah), bad ? EINVAL : 0))
		m_add(w, t, t->ah, 1, &pd);
}

static void make_srq(struct m_world *w, struct m_obj *t)
{
	struct m_obj *pd = m_pick(w, M_PD, t->side, t->ctx), *x = NULL, *cq = NULL;
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 1 + m_rnd(w, M_QUEUE), .max_sge = 1 + m_rnd(w, M_SGES)},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
	};
	unsigned bad = mistake(w, 4);

	if (!pd)
		return;
	a.pd = pd->pd;
	if (m_rnd(w, 2)) {
		x = m_pick(w, M_XRCD, t->side, t->ctx);
		cq = m_pick(w, M_CQ, t->side, t->ctx);
	}
	if (x && cq) {
		t->xrc = true;
		t->xrcd_of = x;
		t->rcq = cq;
		a.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		a.srq_type = IBV_SRQT_XRC;
		a.xrcd = x->xrcd;
		a.cq = cq->cq;
	} else {
		x = cq = NULL;
	}
	if (bad == 1)
		a.attr.max_wr = 0;
	if (bad == 2)
		a.attr.max_wr = URXE_MAX_SRQ_WR + 1;
	if (bad == 3)
		a.attr.max_sge = URXE_MAX_SGE + 1;
	if (bad == 4)
		a.srq_type = IBV_SRQT_TM;
	t->srq = ibv_create_srq_ex(w->ctx[t->side][t->ctx], &a);
	if (!m_check(w, "create_srq_ex", made(t->srq), bad == 4 ? EOPNOTSUPP : bad ? EINVAL : 0))
		return;
	t->pd_of = pd;
	t->rq.max_wr = a.attr.max_wr;
	t->rq.max_sge = a.attr.max_sge;
	if (t->xrc)
		m_check(w, "get_srq_num", ibv_get_srq_num(t->srq, &t->srqn), 0);
	m_add(w, t, t->srq, 3, (struct m_obj *[]){pd, x, cq});
}

static void make_wq(struct m_world *w, struct m_obj *t)
{
	struct m_obj *pd = m_pick(w, M_PD, t->side, t->ctx);
	struct m_obj *cq = m_pick(w, M_CQ, t->side, t->ctx);
	struct ibv_wq_init_attr a = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 2};
	unsigned bad = mistake(w, 3);

	if (!pd || !cq)
		return;
	a.pd = pd->pd;
	a.cq = cq->cq;
	if (bad == 1)
		a.max_wr = 0;
	if (bad == 2)
		a.max_sge = URXE_MAX_SGE + 1;
	if (bad == 3) {
		a.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
		a.create_flags = IBV_WQ_FLAGS_SCATTER_FCS;
	}
	t->wq = ibv_create_wq(w->ctx[t->side][t->ctx], &a);
	if (!m_check(w, "create_wq", made(t->wq), bad == 3 ? EOPNOTSUPP : bad ? EINVAL : 0))
		return;
	t->rcq = cq;
	t->rq.max_wr = 4;
	t->rq.max_sge = 2;
	t->wq_state = IBV_WQS_RESET;
	m_add(w, t, t->wq, 2, (struct m_obj *[]){pd, cq});
}

void m_make(struct m_world *w, enum m_type type)
{
	static void (*const makers[])(struct m_world *, struct m_obj *) = {
		[M_PD] = make_pd, [M_XRCD] = make_xrcd, [M_DM] = make_dm,
		[M_CQ] = make_cq, [M_MR] = make_mr,	[M_MW] = make_mw,
		[M_AH] = make_ah, [M_SRQ] = make_srq,	[M_WQ] = make_wq,
	};
	struct m_obj t = {.type = type, .side = (int)m_rnd(w, 2), .ctx = (int)m_rnd(w, M_CTXS)};

	if (m_room(w, type))
		makers[type](w, &t);
}

/* ---- the end of them ---- */

static int verb_destroy(struct m_obj *o)
{
	switch (o->type) {
	case M_PD:
		return ibv_dealloc_pd(o->pd);
	case M_XRCD:
		return ibv_close_xrcd(o->xrcd);
	case M_DM:
		return ibv_free_dm(o->dm);
	case M_CQ:
		return ibv_destroy_cq(o->cq);
	case M_MR:
		return ibv_dereg_mr(o->mr);
	case M_MW:
		return ibv_dealloc_mw(o->mw);
	case M_AH:
		return ibv_destroy_ah(o->ah);
	case M_SRQ:
		return ibv_destroy_srq(o->srq);
	case M_WQ:
		return ibv_destroy_wq(o->wq);
	case M_TABLE:
		return ibv_destroy_rwq_ind_table(o->table);
	case M_QP:
		return ibv_destroy_qp(o->qp);
	default:
		return ibv_destroy_flow(o->flow);
	}
}

/* What goes with a QP. */
static void end_qp(struct m_world *w, struct m_obj *qp)
{
	m_leave(w, qp);
	if (qp->scq) {
		m_destroyed(w, qp->scq, qp->qp->qp_num);
		m_destroyed(w, qp->rcq, qp->qp->qp_num);
	}
	for (unsigned i = 0; i < M_OBJS; i++)
		if (w->obj[M_MW][i] && w->obj[M_MW][i]->qp_of == qp)
			m_unbind(w->obj[M_MW][i]);
}

void m_destroy(struct m_world *w, struct m_obj *o)
{
	static const char *const verbs[] = {"dealloc_pd",  "close_xrcd",  "free_dm",
					    "destroy_cq",  "dereg_mr",	  "dealloc_mw",
					    "destroy_ah",  "destroy_srq", "destroy_wq",
					    "destroy_tbl", "destroy_qp",  "destroy_flow"};
	int want = o->users || (o->type == M_QP && o->groups) ? EBUSY : 0;
	uint32_t num = o->type == M_WQ ? o->wq->wq_num : 0;

	if (o->type == M_QP && !want)
		end_qp(w, o);
	if (o->type == M_MW)
		m_unbind(o);
	if (!m_check(w, verbs[o->type], verb_destroy(o), want))
		return;
	if (o->type == M_WQ)
		m_forget(w, o->rcq, num);
	if (o->type == M_CQ)
		m_forget(w, o, 0);
	m_remove(w, o);
}

/* ---- changes ---- */

void m_rereg(struct m_world *w)
{
	struct m_obj *mr = m_pick(w, M_MR, -1, -1), *pd, old;
	int flags = 1 + (int)m_rnd(w, 7), want = 0, got;
	uint32_t off = m_rnd(w, M_ARENA / 2), len = 1 + m_rnd(w, M_ARENA / 2);
	unsigned access = some_access(w);

	if (!mr || mr->null)
		return;
	old = *mr;
	pd = m_pick(w, M_PD, mr->side, m_rnd(w, 8) ? mr->ctx : !mr->ctx);
	if (!pd)
		return;
	/* Where it begins stays a matter of how it was registered. */
	access |= mr->access & IBV_ACCESS_ZERO_BASED;
	if (flags & IBV_REREG_MR_CHANGE_PD && pd->ctx != mr->ctx)
		want = EINVAL;
	else if (mr->n_uses == 2) /* device memory */
		want = EOPNOTSUPP;
	else if (flags & IBV_REREG_MR_CHANGE_ACCESS && access_error(access))
		want = EINVAL;
	else if (mr->users)
		want = EBUSY;
	got = ibv_rereg_mr(mr->mr, flags, pd->pd, w->mem[mr->side] + off, len,
			   flags & IBV_REREG_MR_CHANGE_ACCESS ? (int)access : 0);
	if (!m_check(w, "rereg_mr", got ? errno : 0, want))
		return;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		old.uses[0]->users--;
		mr->uses[0] = pd;
		pd->users++;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		mr->access = access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->mem = w->want[mr->side] + off;
		mr->length = len;
		mr->base =
			mr->access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)w->mem[mr->side] + off;
	}
}
