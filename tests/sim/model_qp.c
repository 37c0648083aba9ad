/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* QPs: made, connected, moved from state to state; groups, rules and tables that go with them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "model.h"
#include "raw.h"

#define A(x) IBV_QP_##x

/* ---- birth ---- */

static const enum ibv_qp_type types[] = {
	IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC,	  IBV_QPT_UC,	    IBV_QPT_UC,
	IBV_QPT_UD, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET,
};

static int made(const void *ib)
{
	return ib ? 0 : errno;
}

static uint64_t builder_ops(enum ibv_qp_type type)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (type != IBV_QPT_UD)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		       IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		ops |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
		       IBV_QP_EX_WITH_ATOMIC_WRITE;
	return ops;
}

/* One mistake, and what it should be answered with. */
static int mistake(struct m_world *w, struct ibv_qp_init_attr_ex *a)
{
	switch (m_rnd(w, 20)) {
	case 0:
		a->cap.max_send_wr = URXE_MAX_QP_WR + 1;
		return EINVAL;
	case 1:
		a->cap.max_send_sge = URXE_MAX_SGE + 1;
		return EINVAL;
	case 2:
		a->cap.max_inline_data = URXE_MAX_INLINE + 1;
		return EINVAL;
	case 3:
		a->send_cq = NULL;
		return EINVAL;
	case 4:
		a->comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
		a->create_flags = IBV_QP_CREATE_SCATTER_FCS;
		return EOPNOTSUPP;
	case 5:
		if (a->srq || a->qp_type == IBV_QPT_XRC_SEND)
			return 0;
		a->cap.max_recv_wr = URXE_MAX_QP_WR + 1;
		return EINVAL;
	case 6:
		a->comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a->send_ops_flags = 1ull << 50;
		return EOPNOTSUPP;
	case 7:
		a->comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
		a->create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
		return a->qp_type == IBV_QPT_UD ? 0 : EINVAL;
	default:
		return 0;
	}
}

static void make_xrc_recv(struct m_world *w, struct m_obj *t)
{
	struct ibv_qp_init_attr_ex a = {.qp_type = IBV_QPT_XRC_RECV,
					.comp_mask = IBV_QP_INIT_ATTR_XRCD};
	bool bad = !m_rnd(w, 8);

	t->xrcd_of = m_pick(w, M_XRCD, t->side, t->ctx);
	if (!t->xrcd_of)
		return;
	a.xrcd = bad ? NULL : t->xrcd_of->xrcd;
	t->qp = ibv_create_qp_ex(w->ctx[t->side][t->ctx], &a);
	if (m_check(w, "create_qp_ex", made(t->qp), bad ? EINVAL : 0))
		m_add(w, t, t->qp, 1, &t->xrcd_of);
}

static void make_rss(struct m_world *w, struct m_obj *t)
{
	struct m_obj *pd = m_pick(w, M_PD, t->side, t->ctx);
	struct m_obj *table = m_pick(w, M_TABLE, t->side, t->ctx);
	uint8_t key[40] = {1, 2, 3};
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, 40, key, IBV_RX_HASH_SRC_IPV4},
	};
	unsigned bad = m_rnd(w, 4) ? 0 : 1 + m_rnd(w, 2);

	if (!pd || !table)
		return;
	a.pd = pd->pd;
	a.rwq_ind_tbl = table->table;
	if (bad == 1)
		a.rx_hash_conf.rx_hash_key_len = 39;
	if (bad == 2)
		a.rx_hash_conf.rx_hash_function = 2;
	t->rss = true;
	t->pd_of = pd;
	t->qp = ibv_create_qp_ex(w->ctx[t->side][t->ctx], &a);
	/* It holds the CQ of the first queue as well. */
	if (m_check(w, "create_qp_ex", made(t->qp), bad == 2 ? EOPNOTSUPP : bad ? EINVAL : 0))
		m_add(w, t, t->qp, 3, (struct m_obj *[]){pd, table, table->scq});
}

void m_make_qp(struct m_world *w)
{
	struct m_obj t = {.type = M_QP,
			  .side = (int)m_rnd(w, 2),
			  .ctx = (int)m_rnd(w, M_CTXS),
			  .qpt = types[m_rnd(w, sizeof(types) / sizeof(types[0]))]};
	struct m_obj *pd = m_pick(w, M_PD, t.side, t.ctx), *srq;
	struct ibv_qp_init_attr_ex a = {
		.cap = {1 + m_rnd(w, 8), 1 + m_rnd(w, 8), 1 + m_rnd(w, M_SGES),
			1 + m_rnd(w, M_SGES), m_rnd(w, 2) * 64},
		.qp_type = t.qpt,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.sq_sig_all = !w->threaded && !m_rnd(w, 4),
	};
	int want;

	if (!m_room(w, M_QP) ||
	    (t.qpt == IBV_QPT_RAW_PACKET && (w->threaded || urxe_raw_check_permission())))
		return;
	if (t.qpt == IBV_QPT_XRC_RECV) {
		make_xrc_recv(w, &t);
		return;
	}
	if (t.qpt == IBV_QPT_RAW_PACKET && m_rnd(w, 2)) {
		make_rss(w, &t);
		return;
	}
	t.scq = m_pick(w, M_CQ, t.side, t.ctx);
	t.rcq = m_pick(w, M_CQ, t.side, t.ctx);
	if (!pd || !t.scq || !t.rcq)
		return;
	srq = m_rnd(w, 3) ? NULL : m_pick(w, M_SRQ, t.side, t.ctx);
	if (srq && !srq->xrc && t.qpt != IBV_QPT_XRC_SEND && t.qpt != IBV_QPT_RAW_PACKET)
		t.srq_of = srq;
	if (t.qpt == IBV_QPT_XRC_SEND)
		t.rcq = t.scq;
	a.pd = pd->pd;
	a.send_cq = t.scq->cq;
	a.recv_cq = t.qpt == IBV_QPT_XRC_SEND ? NULL : t.rcq->cq;
	a.srq = t.srq_of ? t.srq_of->srq : NULL;
	if (t.qpt != IBV_QPT_RAW_PACKET && m_rnd(w, 2)) {
		t.builder = true;
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = builder_ops(t.qpt);
	}
	want = mistake(w, &a);
	t.max_wr = a.cap.max_send_wr;
	t.qp = ibv_create_qp_ex(w->ctx[t.side][t.ctx], &a);
	if (!m_check(w, "create_qp_ex", made(t.qp), want))
		return;
	t.pd_of = pd;
	t.max_sge = a.cap.max_send_sge;
	t.max_inline = a.cap.max_inline_data;
	t.sig_all = a.sq_sig_all;
	t.rq.max_wr = a.cap.max_recv_wr;
	t.rq.max_sge = a.cap.max_recv_sge;
	m_add(w, &t, t.qp, 4, (struct m_obj *[]){pd, t.scq, t.rcq, t.srq_of});
}

/* ---- transitions ---- */

static bool is_rc(const struct m_obj *qp)
{
	return qp->qpt == IBV_QPT_RC || qp->qpt == IBV_QPT_XRC_SEND || qp->qpt == IBV_QPT_XRC_RECV;
}

/* What the way from @from to @to needs (IBTA table 91; of XRC what it is given by all); -1: none.
 */
static int needed(const struct m_obj *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	bool ud = qp->qpt == IBV_QPT_UD, raw = qp->qpt == IBV_QPT_RAW_PACKET;
	bool resp = qp->qpt == IBV_QPT_RC || qp->qpt == IBV_QPT_XRC_RECV;
	bool req = qp->qpt == IBV_QPT_RC || qp->qpt == IBV_QPT_XRC_SEND;

	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return 0;
	if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
		return raw  ? A(PORT)
		       : ud ? A(PKEY_INDEX) | A(PORT) | A(QKEY)
			    : A(PKEY_INDEX) | A(PORT) | A(ACCESS_FLAGS);
	if (from == IBV_QPS_INIT && to == IBV_QPS_INIT)
		return 0;
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		return (raw || ud ? 0 : A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN)) |
		       (resp ? A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER) : 0);
	if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		return (raw ? 0 : A(SQ_PSN)) |
		       (req ? A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(MAX_QP_RD_ATOMIC) : 0) |
		       (qp->qpt == IBV_QPT_XRC_RECV ? A(TIMEOUT) : 0);
	if ((from == IBV_QPS_RTS || from == IBV_QPS_SQD) &&
	    (to == IBV_QPS_RTS || to == IBV_QPS_SQD))
		return 0;
	if (from == IBV_QPS_SQE && to == IBV_QPS_RTS)
		return is_rc(qp) ? -1 : 0;
	return -1;
}

/* Attributes of a good transition of this QP to @to, towards @peer (NULL: towards nobody). */
static struct ibv_qp_attr attributes(struct m_world *w, struct m_obj *qp, struct m_obj *peer,
				     enum ibv_qp_state to)
{
	struct side *s[2] = {&w->p->a, &w->p->b};
	struct ibv_qp_attr a = {
		.qp_state = to,
		.port_num = 1,
		.qp_access_flags = m_rnd(w, 4) ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
							 IBV_ACCESS_REMOTE_ATOMIC
					       : m_rnd(w, 16) & ~1u,
		.qkey = 0x100 + m_rnd(w, 2),
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer ? peer->qp->qp_num : 0xfffff0,
		.rq_psn = 0xfffffe,
		.sq_psn = 0xfffffe,
		.max_dest_rd_atomic = m_rnd(w, 8) ? (uint8_t)(1 + m_rnd(w, 8)) : 0,
		.max_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = w->threaded ? 17 : 1,
		.retry_cnt = w->threaded ? 7 : (uint8_t)m_rnd(w, 3),
		.rnr_retry = (uint8_t)m_rnd(w, 3),
	};

	a.ah_attr = pair_path(s[qp->side], s[peer ? peer->side : !qp->side]);
	/* No more are out than the peer answers; none at all is a case of its own. */
	if (!m_rnd(w, 8))
		a.max_rd_atomic = 0;
	return a;
}

static void take(struct m_world *w, struct m_obj *qp, const struct ibv_qp_attr *a, int mask)
{
	if (mask & A(ACCESS_FLAGS))
		qp->qp_access = a->qp_access_flags;
	if (mask & A(QKEY))
		qp->qkey = a->qkey;
	if (mask & A(MAX_DEST_RD_ATOMIC))
		qp->max_dest_rd = a->max_dest_rd_atomic;
	if (mask & A(MAX_QP_RD_ATOMIC))
		qp->max_rd = a->max_rd_atomic;
	qp->state = a->qp_state;
}

static void reset(struct m_world *w, struct m_obj *qp)
{
	qp->n_pend = qp->rq.n = 0;
	qp->has_held = false;
	qp->max_rd = qp->max_dest_rd = qp->qp_access = qp->qkey = 0;
	if (qp->scq) {
		m_forget(w, qp->scq, qp->qp->qp_num);
		m_forget(w, qp->rcq, qp->qp->qp_num);
	}
}

static void go(struct m_world *w, struct m_obj *qp, struct m_obj *peer, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = attributes(w, qp, peer, to);
	int mask = A(STATE) | needed(qp, qp->state, to);

	if (m_check(w, "modify_qp", ibv_modify_qp(qp->qp, &a, mask), 0))
		take(w, qp, &a, mask);
}

void m_leave(struct m_world *w, struct m_obj *qp)
{
	struct m_obj *peer = qp->peer;

	if (!peer)
		return;
	qp->peer = peer->peer = NULL;
	if (peer == qp)
		return;
	go(w, peer, NULL, IBV_QPS_RESET);
	reset(w, peer);
}

static bool fits(const struct m_obj *a, const struct m_obj *b)
{
	if (a == b || a->state != IBV_QPS_RESET || b->state != IBV_QPS_RESET || a->peer || b->peer)
		return false;
	if (a->qpt == IBV_QPT_XRC_SEND)
		return b->qpt == IBV_QPT_XRC_RECV;
	return a->qpt == b->qpt && (a->qpt == IBV_QPT_RC || a->qpt == IBV_QPT_UC);
}

/* All the way up: two that fit together, or a datagram QP. */
void m_connect(struct m_world *w)
{
	struct m_obj *a = NULL, *b = NULL;

	for (unsigned n = 0; n < 40 && !b; n++) {
		a = m_pick(w, M_QP, -1, -1);
		b = m_pick(w, M_QP, m_rnd(w, 6) && a ? !a->side : -1, -1);
		if (!a || !b)
			return;
		if ((a->qpt == IBV_QPT_UD || a->qpt == IBV_QPT_RAW_PACKET) &&
		    a->state == IBV_QPS_RESET && !a->rss)
			b = a;
		else if (!fits(a, b))
			b = NULL;
	}
	if (!b)
		return;
	for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
		go(w, a, b, to);
		if (a != b)
			go(w, b, a, to);
	}
	if (a != b) {
		a->peer = b;
		b->peer = a;
	}
}

/* One that has failed, or came to a halt half way, may begin anew. */
void m_revive(struct m_world *w)
{
	struct m_obj *qp = NULL;

	for (unsigned n = 0; n < 12; n++) {
		qp = m_pick(w, M_QP, -1, -1);
		if (qp && qp->state != IBV_QPS_RESET &&
		    (qp->state != IBV_QPS_RTS || (!qp->peer && qp->qpt != IBV_QPT_UD)))
			break;
	}
	if (!qp || qp->state == IBV_QPS_RTS)
		return;
	m_leave(w, qp);
	go(w, qp, NULL, IBV_QPS_RESET);
	reset(w, qp);
}

/* A value that no attribute may have. */
static bool spoil(struct m_world *w, struct ibv_qp_attr *a, int mask)
{
	switch (m_rnd(w, 8)) {
	case 0:
		a->pkey_index = 1;
		return mask & A(PKEY_INDEX);
	case 1:
		a->port_num = 2;
		return mask & A(PORT);
	case 2:
		a->path_mtu = IBV_MTU_4096; /* the port carries less */
		return mask & A(PATH_MTU);
	case 3:
		a->dest_qp_num = 1u << 24;
		return mask & A(DEST_QPN);
	case 4:
		a->timeout = 32;
		return mask & A(TIMEOUT);
	case 5:
		a->rnr_retry = 8;
		return mask & A(RNR_RETRY);
	case 6:
		a->max_dest_rd_atomic = 129;
		return mask & A(MAX_DEST_RD_ATOMIC);
	default:
		a->ah_attr.is_global = 0;
		return mask & A(AV);
	}
}

void m_modify(struct m_world *w)
{
	struct m_obj *qp = m_pick(w, M_QP, -1, -1);
	enum ibv_qp_state from, to = (enum ibv_qp_state)m_rnd(w, 7);
	struct ibv_qp_attr a;
	int mask, need, want = 0;

	if (!qp)
		return;
	from = qp->state;
	need = needed(qp, from, to);
	/* A peer that was told its PSNs would meet another QP. */
	if (to == IBV_QPS_RTR && from == IBV_QPS_INIT && qp->peer)
		return;
	/* Draining has its own steps; a spreading QP has no queues to speak of. */
	if ((to == IBV_QPS_ERR || to == IBV_QPS_RESET) && m_rnd(w, 4))
		return;
	a = attributes(w, qp, NULL, to);
	mask = A(STATE) | (need > 0 ? need : 0);
	if (need < 0) {
		want = EINVAL;
	} else if (need > 0 && !m_rnd(w, 3)) { /* one is missing */
		int bit = need;

		while (bit & (bit - 1) && m_rnd(w, 2))
			bit &= bit - 1;
		mask &= ~(bit & -bit);
		want = EINVAL;
	} else if (!m_rnd(w, 3)) { /* one that has no place there */
		mask |= A(CAP);
		want = EINVAL;
	} else if (!m_rnd(w, 6)) {
		mask |= A(CUR_STATE);
		a.cur_qp_state = m_rnd(w, 2) ? from : from ^ 1;
		/* Only with some. */
		if (a.cur_qp_state != from || to == IBV_QPS_INIT || to == IBV_QPS_RTR ||
		    to == IBV_QPS_SQD)
			want = EINVAL;
	} else if (spoil(w, &a, mask)) {
		want = EINVAL;
	}
	if (!want && to == IBV_QPS_RESET)
		m_leave(w, qp);
	if (!m_check(w, "modify_qp", ibv_modify_qp(qp->qp, &a, mask), want))
		return;
	if (to == IBV_QPS_ERR) {
		if (from == IBV_QPS_RESET)
			qp->state = IBV_QPS_ERR;
		else
			m_qp_error(w, qp);
		return;
	}
	take(w, qp, &a, mask);
	if (to == IBV_QPS_RESET)
		reset(w, qp);
	if (to == IBV_QPS_RTS)
		m_exec_pending(w, qp);
}

/* ---- groups, rules, tables ---- */

union ibv_gid m_group(const struct m_world *w, unsigned i)
{
	return (union ibv_gid){.raw = {[10] = 0xff,
				       [11] = 0xff,
				       i == 2 ? 10 : 239,
				       (uint8_t)w->seed,
				       (uint8_t)(w->seed >> 8),
				       (uint8_t)(1 + i)}};
}

void m_mcast(struct m_world *w)
{
	struct m_obj *qp = m_pick(w, M_QP, -1, -1);
	unsigned i = m_rnd(w, 3);
	union ibv_gid gid = m_group(w, i);
	bool ud, had;

	if (!qp)
		return;
	ud = qp->qpt == IBV_QPT_UD;
	had = qp->groups & 1u << i;
	if (m_rnd(w, 2)) {
		if (m_check(w, "attach_mcast", ibv_attach_mcast(qp->qp, &gid, 0),
			    ud && i < 2 ? 0 : EINVAL))
			qp->groups |= 1u << i;
	} else if (m_check(w, "detach_mcast", ibv_detach_mcast(qp->qp, &gid, 0),
			   had ? 0 : EINVAL)) {
		qp->groups &= ~(1u << i);
	}
}

void m_make_flow(struct m_world *w)
{
	struct m_obj t = {.type = M_FLOW}, *qp = m_pick(w, M_QP, -1, -1);
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} f = {.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			.size = sizeof(f),
			.priority = (uint16_t)m_rnd(w, 4),
			.num_of_specs = 1,
			.port = 1},
	       .eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(f.eth)}};
	unsigned bad = m_rnd(w, 4) ? 0 : 1 + m_rnd(w, 4);
	int want = 0;

	if (!qp || !m_room(w, M_FLOW) || urxe_raw_check_permission())
		return;
	/* To nobody: what the others send is not disturbed. */
	memset(f.eth.val.dst_mac, 0x42, 6);
	memset(f.eth.mask.dst_mac, 0xff, 6);
	if (bad == 1)
		f.attr.port = 2, want = EINVAL;
	if (bad == 2)
		f.eth.size--, want = EINVAL;
	if (bad == 3)
		f.eth.type = IBV_FLOW_SPEC_ESP, want = EOPNOTSUPP;
	if (bad == 4)
		f.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS, want = EOPNOTSUPP;
	if (qp->qpt != IBV_QPT_RAW_PACKET)
		want = qp->qpt == IBV_QPT_UD ? EOPNOTSUPP : EINVAL;
	t.side = qp->side;
	t.ctx = qp->ctx;
	t.flow = ibv_create_flow(qp->qp, &f.attr);
	if (m_check(w, "create_flow", made(t.flow), want))
		m_add(w, &t, t.flow, 1, &qp);
}

void m_make_table(struct m_world *w)
{
	struct m_obj t = {.type = M_TABLE, .side = (int)m_rnd(w, 2), .ctx = (int)m_rnd(w, M_CTXS)};
	struct m_obj *wqs[4];
	struct ibv_wq *ib[4];
	struct ibv_rwq_ind_table_init_attr a = {.log_ind_tbl_size = m_rnd(w, 3), .ind_tbl = ib};
	bool bad = !m_rnd(w, 4);

	if (!m_room(w, M_TABLE))
		return;
	for (unsigned i = 0; i < 4; i++) {
		wqs[i] = m_pick(w, M_WQ, t.side, t.ctx);
		if (!wqs[i])
			return;
		ib[i] = wqs[i]->wq;
	}
	t.scq = wqs[0]->rcq;
	if (bad)
		a.log_ind_tbl_size = 31;
	t.table = ibv_create_rwq_ind_table(w->ctx[t.side][t.ctx], &a);
	if (m_check(w, "create_rwq_ind_table", made(t.table), bad ? EINVAL : 0))
		m_add(w, &t, t.table, 1u << a.log_ind_tbl_size, wqs);
}
