/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the applications of the fuzzer "packets" do: work requests, groups, rules, paths. */
#include "packets.h"

#include "netio/stack.h"
#include "raw.h"

static struct side *side_of(const struct run *r, unsigned i)
{
	return world_side(r->w, i);
}

static struct ibv_sge some_sge(struct run *r, unsigned i, uint32_t off, uint32_t len, bool file)
{
	struct side *s = side_of(r, i);

	if (file)
		return (struct ibv_sge){(uintptr_t)r->w->file[i], len % FILE_LEN,
					r->w->file_mr[i]->lkey};
	return (struct ibv_sge){(uintptr_t)s->buf + MR_AT + off, len, s->mr->lkey};
}

/* ---- sends ---- */

/* FLUSH has no struct ibv_send_wr. */
static void send_flush(struct run *r, enum kind k, unsigned i)
{
	uint8_t how = fuzz_u8(r->in);
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(r->qp[k][i]);
	bool file = how & 4;
	const struct ibv_mr *mr = file ? r->w->file_mr[!i] : side_of(r, !i)->mr;
	uint32_t len = how & 0x20 ? 0 : 0x1800;

	if (k != K_RC && k != K_XRC)
		return;
	ibv_wr_start(x);
	x->wr_id = r->n_wrs;
	x->wr_flags = IBV_SEND_SIGNALED;
	urxedv_wr_flush(x, how & 8 ? ~mr->rkey : mr->rkey, (uintptr_t)mr->addr, len, how & 3,
			how & 0x10 ? URXEDV_FLUSH_MR : URXEDV_FLUSH_RANGE);
	if (k == K_XRC)
		ibv_wr_set_xrc_srqn(x, r->srqn);
	if (how & 0x80)
		ibv_wr_abort(x);
	else if (!ibv_wr_complete(x))
		r->n_wrs++;
}

static void set_remote(struct run *r, struct ibv_send_wr *wr, unsigned i, uint32_t off, bool file)
{
	struct side *to = side_of(r, !i);
	uint64_t va = file ? (uintptr_t)r->w->file[!i] : (uintptr_t)to->buf + MR_AT + off;
	uint32_t rkey = file ? r->w->file_mr[!i]->rkey : to->mr->rkey;

	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = va;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = 1;
	} else if (wr->opcode == IBV_WR_SEND_WITH_INV) {
		wr->invalidate_rkey = r->w->mw[!i]->rkey;
	} else {
		wr->wr.rdma.remote_addr = va;
		wr->wr.rdma.rkey = rkey;
	}
}

void work_send(struct run *r, enum kind k, unsigned i)
{
	static const unsigned ops[16] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_SEND_WITH_INV,
		IBV_WR_ATOMIC_WRITE,
		URXEDV_WR_FLUSH,
		IBV_WR_RDMA_READ,
	};
	uint8_t how = fuzz_u8(r->in);
	uint32_t len = fuzz_u16(r->in) % 6000;
	struct ibv_sge sge = some_sge(r, i, 0x4000, len, how & 0x40);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = (enum ibv_wr_opcode)ops[how & 15],
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (r->n_wrs == MAX_WRS || (k == K_XRC && i))
		return;
	if (ops[how & 15] == URXEDV_WR_FLUSH) {
		send_flush(r, k, i);
		return;
	}
	wr.wr_id = r->n_wrs;
	if (how & 0x10)
		wr.send_flags |= IBV_SEND_FENCE;
	if (how & 0x20)
		wr.send_flags |= IBV_SEND_SOLICITED;
	wr.qp_type.xrc.remote_srqn = r->srqn;
	if (k == K_UD) {
		sge.length %= 1025;
		wr.wr.ud.ah = r->w->ah[i];
		wr.wr.ud.remote_qpn = r->qp[k][!i]->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		set_remote(r, &wr, i, how & 0x80, (how & 0xc0) == 0xc0);
	}
	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    wr.opcode == IBV_WR_ATOMIC_WRITE)
		sge.length = 8;
	if (!ibv_post_send(r->qp[k][i], &wr, &bad))
		r->n_wrs++;
}

void work_group_send(struct run *r, unsigned i)
{
	struct ibv_sge sge = some_sge(r, i, 0x4000, fuzz_u16(r->in) % 1025, false);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (r->n_wrs == MAX_WRS)
		return;
	wr.wr_id = r->n_wrs;
	wr.wr.ud.ah = r->w->group_ah[i];
	wr.wr.ud.remote_qpn = URXE_MCAST_QPN;
	wr.wr.ud.remote_qkey = QKEY;
	if (!ibv_post_send(r->qp[K_UD][i], &wr, &bad))
		r->n_wrs++;
}

/* A window of the RC QP's over a part of a region; or it is taken back. */
void work_window(struct run *r, unsigned i)
{
	uint8_t how = fuzz_u8(r->in);
	struct ibv_send_wr wr = {.opcode = how & 1 ? IBV_WR_LOCAL_INV : IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_mw *mw = r->w->mw[i];
	struct side *s = side_of(r, i);

	if (r->n_wrs == MAX_WRS)
		return;
	wr.wr_id = r->n_wrs;
	wr.invalidate_rkey = mw->rkey;
	if (!(how & 1)) {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			s->mr, (uintptr_t)s->buf + MR_AT + fuzz_u16(r->in) % 0x8000,
			fuzz_u16(r->in),
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				(how & 2 ? (unsigned)IBV_ACCESS_ZERO_BASED : 0u) |
				(how & 4 ? (unsigned)IBV_ACCESS_REMOTE_ATOMIC : 0u) |
				(how & 8 ? (unsigned)URXEDV_ACCESS_FLUSH_GLOBAL : 0u)};
		if (how & 0x10) {
			wr.bind_mw.bind_info.mr = r->w->file_mr[i];
			wr.bind_mw.bind_info.addr = (uintptr_t)r->w->file[i];
			wr.bind_mw.bind_info.length %= FILE_LEN;
		}
	}
	if (ibv_post_send(r->qp[K_RC][i], &wr, &bad))
		return;
	r->n_wrs++;
	if (!(how & 1))
		mw->rkey = wr.bind_mw.rkey;
}

/* ---- receives ---- */

void work_recv(struct run *r, enum kind k, unsigned i)
{
	uint8_t where = fuzz_u8(r->in);
	struct ibv_sge sge = some_sge(r, k == K_XRC ? 1 : i, (where & 15) * 0x800u,
				      fuzz_u16(r->in) % 0x4000, where & 0x10);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (r->n_wrs == MAX_WRS || (k == K_XRC && !r->srq))
		return;
	if (where & 0x20)
		sge.lkey = 1;
	wr.wr_id = r->n_wrs;
	r->on_srq[r->n_wrs] = k == K_XRC;
	if (!(k == K_XRC ? ibv_post_srq_recv(r->srq, &wr, &bad)
			 : ibv_post_recv(r->qp[k][i], &wr, &bad)))
		r->n_wrs++;
}

/* Into the raw packet QP, or one of the queues. */
void work_raw_recv(struct run *r, unsigned i)
{
	uint8_t how = fuzz_u8(r->in);
	struct ibv_sge sge = some_sge(r, 1, (how & 15) * 0x800u, fuzz_u16(r->in) % 0x2000, false);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (r->n_wrs == MAX_WRS || !run_raw_make(r))
		return;
	if (how & 0x40)
		sge.lkey = 1;
	wr.wr_id = r->n_wrs;
	r->on_srq[r->n_wrs] = false;
	if (!(how & 0x80 ? ibv_post_wq_recv(r->wq[i], &wr, &bad)
			 : ibv_post_recv(r->raw, &wr, &bad)))
		r->n_wrs++;
}

/* ---- what is not work ---- */

void work_member(struct run *r, unsigned i)
{
	struct ibv_qp *qp = r->qp[K_UD][i];

	FUZZ_CHECK(!(r->member[i] ? ibv_detach_mcast(qp, &r->w->group, 0)
				  : ibv_attach_mcast(qp, &r->w->group, 0)));
	r->member[i] = !r->member[i];
}

/* A rule comes or goes: all frames that nobody else takes, UDP by mask, or a sniffer. */
void work_rule(struct run *r, unsigned i)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_tcp_udp udp;
	} f = {.attr = {.size = sizeof(f), .port = 1},
	       .udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(f.udp)}};
	uint8_t how = fuzz_u8(r->in);

	if (!run_raw_make(r))
		return;
	if (r->flow[i]) {
		FUZZ_CHECK(!ibv_destroy_flow(r->flow[i]));
		r->flow[i] = NULL;
		return;
	}
	f.attr.type = (enum ibv_flow_attr_type)(how & 3);
	f.attr.priority = how >> 2 & 3;
	f.attr.flags = how & 0x10 ? IBV_FLOW_ATTR_FLAGS_DONT_TRAP : 0;
	if (f.attr.type == IBV_FLOW_ATTR_NORMAL) {
		f.attr.num_of_specs = 1;
		f.udp.val.dst_port = htobe16(URXE_UDP_DPORT);
		f.udp.mask.dst_port = how & 0x20 ? 0xffff : 0;
	}
	r->flow[i] = ibv_create_flow(how & 0x80 ? r->rss : r->raw, &f.attr);
	FUZZ_CHECK(r->flow[i]);
}

void work_path(struct run *r, enum kind k, unsigned i)
{
	uint8_t how = fuzz_u8(r->in);
	unsigned net = how >> 2 & 1;
	struct ibv_qp_attr a = {.alt_port_num = 1,
				.alt_timeout = how >> 3 & 15,
				.path_mig_state = how & 1 ? IBV_MIG_MIGRATED : IBV_MIG_REARM};
	int mask = (how & 1 ? 0 : IBV_QP_ALT_PATH) | (how & 2 ? 0 : IBV_QP_PATH_MIG_STATE);

	/* 0: a path, to be armed; 1: migrate; 2: a path alone; 3: rearm. What is wrong is refused.
	 */
	if ((how & 3) == 3) {
		a.path_mig_state = IBV_MIG_REARM;
		mask = IBV_QP_PATH_MIG_STATE;
	}
	a.alt_ah_attr = pair_path(side_of(r, i), side_of(r, !i));
	a.alt_ah_attr.grh.sgid_index = (uint8_t)net;
	if (!r->w->v6)
		a.alt_ah_attr.grh.dgid.raw[14] = (uint8_t)net;
	ibv_modify_qp(r->qp[k][i], &a, mask);
}

static void drop_srq(struct run *r)
{
	if (r->srq && !ibv_destroy_srq(r->srq))
		r->srq = NULL;
}

void work_qp(struct run *r, enum kind k, unsigned i)
{
	uint8_t how = fuzz_u8(r->in);
	struct ibv_qp *qp = r->qp[k][i];
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD};
	struct ibv_srq_attr limit = {.srq_limit = how >> 3 & 7};
	struct ibv_qp_init_attr init;

	switch (how & 7) {
	case 0:
		pair_modify(qp, IBV_QPS_SQD);
		break;
	case 1:
		pair_modify(qp, IBV_QPS_RTS);
		break;
	case 2: /* some of the remote access rights, or none */
		a.qp_access_flags = how >> 3 & 1 ? r->params.access : (how >> 3) & 0x0e;
		ibv_modify_qp(qp, &a, IBV_QP_ACCESS_FLAGS);
		break;
	case 3:
		FUZZ_CHECK(!pair_modify(qp, IBV_QPS_ERR));
		break;
	case 4:
		FUZZ_CHECK(!ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
		break;
	case 5:
		if (r->srq)
			ibv_modify_srq(r->srq, &limit, IBV_SRQ_LIMIT);
		break;
	case 6:
		drop_srq(r);
		break;
	default: /* in SQD alone */
		a.timeout = how >> 3;
		a.max_rd_atomic = a.max_dest_rd_atomic = how >> 3 & 3;
		ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC |
				      IBV_QP_MAX_DEST_RD_ATOMIC);
		break;
	}
}

void work_reap(struct run *r)
{
	struct ibv_wc wc[16];

	for (unsigned i = 0; i < 2; i++) {
		int n;

		while ((n = ibv_poll_cq(side_of(r, i)->cq, 16, wc)) > 0) {
			for (int k = 0; k < n; k++) {
				FUZZ_CHECK(wc[k].wr_id < r->n_wrs);
				FUZZ_CHECK(!r->done[wc[k].wr_id]++);
				FUZZ_CHECK(wc[k].status <= IBV_WC_GENERAL_ERR);
			}
		}
		FUZZ_CHECK(!n);
	}
}
