/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RoCEv2 packets with a good ICRC to connected QPs that are at work: RC, UC, UD and XRC, in both
 * directions; to groups, windows, flow rules and work queues as well, over IPv4 and IPv6. PSNs,
 * addresses and keys are given relative to the right ones. Whatever comes: what is outside of the
 * regions is neither written nor sent, and each work request completes once.
 */
#include <fcntl.h>

#include "fuzz.h"
#include "netio/stack.h"
#include "forge.h"
#include "progress.h"
#include "raw.h"

#define MR_AT	    0x10000u /* of the buffer, on both sides */
#define MR_LEN	    0x10000u
#define CANARY	    0xc5 /* fills what is outside */
#define INSIDE	    0x3a /* fills the region */
#define LEAK	    12	 /* bytes of CANARY in a row that no frame has by chance */
#define MAX_RECORDS 96
#define MAX_WRS	    1024
#define N_KINDS	    4

enum kind {
	K_RC,
	K_UC,
	K_UD,
	K_XRC
};

/* What outlives an input: two devices each of IPv4 and of IPv6, for their making takes long. */
static struct world {
	bool open;
	struct pair p;
	struct ibv_ah *ah[2], *group_ah[2];
	struct ibv_xrcd *xrcd[2];
	struct ibv_mw *mw[2];
	union ibv_gid group;
} worlds[2], *w = worlds;

/* What does not: the QPs, and the work given to them. */
struct run {
	struct ibv_qp *qp[N_KINDS][2]; /* XRC: sender on side 0, receiver on side 1 */
	struct ibv_srq *srq;
	uint32_t srqn;
	/* Side 1, of who may have such: a raw packet QP with rules, one that spreads. */
	struct ibv_qp *raw, *rss;
	struct ibv_wq *wq[2];
	struct ibv_rwq_ind_table *table;
	struct ibv_flow *flow[2];
	bool member[2];
	unsigned n_wrs;
	bool on_srq[MAX_WRS];
	uint8_t done[MAX_WRS];
};

static const struct pair_params params[2] = {{.seed = 21, .link = {.latency = 1000}},
					     {.seed = 22, .link = {.latency = 1000}, .v6 = true}};

static struct side *side_of(unsigned i)
{
	return i ? &w->p.b : &w->p.a;
}

static void leaks(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len,
		  uint64_t now)
{
	static const uint8_t canary[LEAK] = {CANARY, CANARY, CANARY, CANARY, CANARY, CANARY,
					     CANARY, CANARY, CANARY, CANARY, CANARY, CANARY};

	FUZZ_CHECK(!memmem(data, len, canary, LEAK));
}

static bool all_canary(const uint8_t *p, uint32_t len)
{
	return p[0] == CANARY && !memcmp(p, p + 1, len - 1);
}

static void close_worlds(void)
{
	for (w = worlds; w < worlds + 2; w++) {
		if (!w->open)
			continue;
		urxe_sim_tap(w->p.sim, NULL, NULL);
		for (int i = 0; i < 2; i++) {
			ibv_destroy_ah(w->ah[i]);
			ibv_destroy_ah(w->group_ah[i]);
			ibv_close_xrcd(w->xrcd[i]);
			ibv_dealloc_mw(w->mw[i]);
		}
		pair_close(&w->p);
	}
}

static void open_world(bool v6)
{
	const union ibv_gid g4 = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	const union ibv_gid g6 = {.raw = {0xff, 0x0e, [15] = 7}};
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	w->group = v6 ? g6 : g4;
	pair_open(&w->p, &params[v6], IBV_QPT_RC);
	pair_meet(&w->p);
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = side_of(i);
		struct ibv_ah_attr ah = pair_path(s, side_of(!i));

		ibv_destroy_qp(s->qp);
		s->qp = NULL;
		ibv_dereg_mr(s->mr);
		memset(s->buf, CANARY, PAIR_BUF);
		s->mr = ibv_reg_mr(s->pd, s->buf + MR_AT, MR_LEN,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
					   IBV_ACCESS_MW_BIND);
		w->ah[i] = ibv_create_ah(s->pd, &ah);
		ah.grh.dgid = w->group;
		w->group_ah[i] = ibv_create_ah(s->pd, &ah);
		w->xrcd[i] = ibv_open_xrcd(s->ctx, &xa);
		w->mw[i] = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2);
		FUZZ_CHECK(s->mr && w->ah[i] && w->group_ah[i] && w->xrcd[i] && w->mw[i]);
	}
	urxe_sim_tap(w->p.sim, leaks, NULL);
	if (!worlds[0].open && !worlds[1].open)
		atexit(close_worlds);
	w->open = true;
}

/* ---- QPs ---- */

static void xrc_make(struct run *r)
{
	struct ibv_srq_init_attr_ex sa = {
		.attr = {.max_wr = 64, .max_sge = 2},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = w->p.b.pd,
		.xrcd = w->xrcd[1],
		.cq = w->p.b.cq,
	};
	struct ibv_qp_init_attr_ex qa = {
		.send_cq = w->p.a.cq,
		.cap = {.max_send_wr = 64, .max_send_sge = 2},
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = w->p.a.pd,
	};
	struct ibv_qp_init_attr_ex ra = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = w->xrcd[1],
	};

	r->srq = ibv_create_srq_ex(w->p.b.ctx, &sa);
	FUZZ_CHECK(r->srq && !ibv_get_srq_num(r->srq, &r->srqn));
	r->qp[K_XRC][0] = ibv_create_qp_ex(w->p.a.ctx, &qa);
	r->qp[K_XRC][1] = ibv_create_qp_ex(w->p.b.ctx, &ra);
	FUZZ_CHECK(r->qp[K_XRC][0] && r->qp[K_XRC][1]);
}

static void xrc_connect(struct run *r)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	const int conn =
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp *qp = r->qp[K_XRC][i];

		a = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
		a.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		FUZZ_CHECK(!ibv_modify_qp(qp, &a,
					  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_ACCESS_FLAGS));
		a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
					 .path_mtu = IBV_MTU_1024,
					 .rq_psn = 0xfffff0,
					 .max_dest_rd_atomic = 4,
					 .min_rnr_timer = 5,
					 .dest_qp_num = r->qp[K_XRC][!i]->qp_num};
		a.ah_attr = pair_path(side_of(i), side_of(!i));
		FUZZ_CHECK(!ibv_modify_qp(
			qp, &a, conn | (i ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
		a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
					 .sq_psn = 0xfffff0,
					 .timeout = 14,
					 .retry_cnt = 7,
					 .rnr_retry = 7,
					 .max_rd_atomic = 4};
		FUZZ_CHECK(!ibv_modify_qp(qp, &a,
					  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN |
						  (i ? 0
						     : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
								   IBV_QP_MAX_QP_RD_ATOMIC)));
	}
}

static struct ibv_qp *to_rtr(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	FUZZ_CHECK(qp && !ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT));
	FUZZ_CHECK(!pair_modify(qp, IBV_QPS_RTR));
	return qp;
}

/* What takes whole frames, when it is first asked for: its end takes long. False: not for us. */
static bool raw_make(struct run *r)
{
	static uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2};
	struct ibv_wq_init_attr wa = {.wq_type = IBV_WQT_RQ,
				      .max_wr = 16,
				      .max_sge = 1,
				      .pd = w->p.b.pd,
				      .cq = w->p.b.cq};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_rwq_ind_table_init_attr ta = {.log_ind_tbl_size = 1, .ind_tbl = r->wq};
	struct ibv_qp_init_attr_ex qa = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.pd = w->p.b.pd,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, 40, key,
				 IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6 |
					 IBV_RX_HASH_SRC_PORT_UDP},
	};

	if (r->raw)
		return true;
	if (urxe_raw_check_permission())
		return false;
	r->raw = to_rtr(pair_qp(&w->p.b, &params[0], IBV_QPT_RAW_PACKET));
	for (unsigned i = 0; i < 2; i++) {
		r->wq[i] = ibv_create_wq(w->p.b.ctx, &wa);
		FUZZ_CHECK(r->wq[i] && !ibv_modify_wq(r->wq[i], &ready));
	}
	r->table = ibv_create_rwq_ind_table(w->p.b.ctx, &ta);
	qa.rwq_ind_tbl = r->table;
	r->rss = to_rtr(ibv_create_qp_ex(w->p.b.ctx, &qa));
	return true;
}

static void raw_unmake(struct run *r)
{
	for (unsigned i = 0; i < 2; i++)
		if (r->flow[i])
			FUZZ_CHECK(!ibv_destroy_flow(r->flow[i]));
	if (!r->raw)
		return;
	FUZZ_CHECK(!ibv_destroy_qp(r->raw) && !ibv_destroy_qp(r->rss));
	FUZZ_CHECK(!ibv_destroy_rwq_ind_table(r->table));
	for (unsigned i = 0; i < 2; i++)
		FUZZ_CHECK(!ibv_destroy_wq(r->wq[i]));
}

static void make(struct run *r)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	memset(r, 0, sizeof(*r));
	for (unsigned k = 0; k < K_XRC; k++) {
		for (unsigned i = 0; i < 2; i++)
			r->qp[k][i] = pair_qp(side_of(i), &params[0], types[k]);
		pair_connect(&w->p, &w->p.a, r->qp[k][0], &w->p.b, r->qp[k][1], &params[0]);
	}
	xrc_make(r);
	xrc_connect(r);
}

/* ---- work ---- */

static uint64_t new_wr(struct run *r, bool on_srq)
{
	r->on_srq[r->n_wrs] = on_srq;
	return r->n_wrs;
}

static void reap(struct run *r)
{
	struct ibv_wc wc[16];

	for (unsigned i = 0; i < 2; i++) {
		int n;

		while ((n = ibv_poll_cq(side_of(i)->cq, 16, wc)) > 0) {
			for (int k = 0; k < n; k++) {
				FUZZ_CHECK(wc[k].wr_id < r->n_wrs);
				FUZZ_CHECK(!r->done[wc[k].wr_id]++);
				FUZZ_CHECK(wc[k].status <= IBV_WC_GENERAL_ERR);
			}
		}
		FUZZ_CHECK(!n);
	}
}

static void do_send(struct run *r, struct fuzz_in *in, enum kind k, unsigned i)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_SEND_WITH_INV,
	};
	uint8_t how = fuzz_u8(in);
	struct side *s = side_of(i), *to = side_of(!i);
	struct ibv_sge sge = {(uintptr_t)s->buf + MR_AT + 0x4000, fuzz_u16(in) % 6000, s->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = ops[how & 7],
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (r->n_wrs == MAX_WRS || (k == K_XRC && i) || wr.opcode == IBV_WR_SEND_WITH_INV)
		return;
	wr.wr_id = new_wr(r, false);
	if (how & 0x10)
		wr.send_flags |= IBV_SEND_FENCE;
	if (how & 0x20)
		wr.send_flags |= IBV_SEND_SOLICITED;
	wr.qp_type.xrc.remote_srqn = r->srqn;
	if (k == K_UD) {
		sge.length %= 1025;
		wr.wr.ud.ah = w->ah[i];
		wr.wr.ud.remote_qpn = r->qp[k][!i]->qp_num;
		wr.wr.ud.remote_qkey = 0x11111111;
	} else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)to->buf + MR_AT + (how & 0x80);
		wr.wr.atomic.rkey = to->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to->buf + MR_AT + (how & 0x80);
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	if (!ibv_post_send(r->qp[k][i], &wr, &bad))
		r->n_wrs++;
}

static void do_recv(struct run *r, struct fuzz_in *in, enum kind k, unsigned i)
{
	struct side *s = side_of(k == K_XRC ? 1 : i);
	uint32_t off = (fuzz_u8(in) & 15) * 0x800u, len = fuzz_u16(in) % 0x4000;
	struct ibv_sge sge = {(uintptr_t)s->buf + MR_AT + off, len, s->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (r->n_wrs == MAX_WRS)
		return;
	wr.wr_id = new_wr(r, k == K_XRC);
	if (!(k == K_XRC ? ibv_post_srq_recv(r->srq, &wr, &bad)
			 : ibv_post_recv(r->qp[k][i], &wr, &bad)))
		r->n_wrs++;
}

/* A window of the RC QP's over a part of the region; or it is taken back. */
static void do_window(struct run *r, struct fuzz_in *in, unsigned i)
{
	uint8_t how = fuzz_u8(in);
	struct ibv_send_wr wr = {.opcode = how & 1 ? IBV_WR_LOCAL_INV : IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct side *s = side_of(i);

	if (r->n_wrs == MAX_WRS)
		return;
	wr.wr_id = new_wr(r, false);
	wr.invalidate_rkey = w->mw[i]->rkey;
	if (!(how & 1)) {
		wr.bind_mw.mw = w->mw[i];
		wr.bind_mw.rkey = ibv_inc_rkey(w->mw[i]->rkey);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			s->mr, (uintptr_t)s->buf + MR_AT + fuzz_u16(in) % 0x8000, fuzz_u16(in),
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				(how & 2 ? (unsigned)IBV_ACCESS_ZERO_BASED : 0u)};
	}
	if (ibv_post_send(r->qp[K_RC][i], &wr, &bad))
		return;
	r->n_wrs++;
	if (!(how & 1))
		w->mw[i]->rkey = wr.bind_mw.rkey;
}

static void do_membership(struct run *r, unsigned i)
{
	struct ibv_qp *qp = r->qp[K_UD][i];

	FUZZ_CHECK(!(r->member[i] ? ibv_detach_mcast(qp, &w->group, 0)
				  : ibv_attach_mcast(qp, &w->group, 0)));
	r->member[i] = !r->member[i];
}

static void do_group_send(struct run *r, struct fuzz_in *in, unsigned i)
{
	struct side *s = side_of(i);
	struct ibv_sge sge = {(uintptr_t)s->buf + MR_AT + 0x4000, fuzz_u16(in) % 1025, s->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (r->n_wrs == MAX_WRS)
		return;
	wr.wr_id = new_wr(r, false);
	wr.wr.ud.ah = w->group_ah[i];
	wr.wr.ud.remote_qpn = URXE_MCAST_QPN;
	wr.wr.ud.remote_qkey = 0x11111111;
	if (!ibv_post_send(r->qp[K_UD][i], &wr, &bad))
		r->n_wrs++;
}

/* A rule comes or goes: all frames that nobody else takes, UDP by mask, or a sniffer. */
static void do_rule(struct run *r, struct fuzz_in *in, unsigned i)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_tcp_udp udp;
	} f = {.attr = {.size = sizeof(f), .port = 1},
	       .udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(f.udp)}};
	uint8_t how = fuzz_u8(in);

	if (!raw_make(r))
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

/* Into the raw packet QP, or one of the queues. */
static void do_raw_recv(struct run *r, struct fuzz_in *in, unsigned i)
{
	struct side *s = side_of(1);
	uint8_t how = fuzz_u8(in);
	struct ibv_sge sge = {(uintptr_t)s->buf + MR_AT + (how & 15) * 0x800u,
			      fuzz_u16(in) % 0x2000, how & 0x40 ? 1 : s->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (r->n_wrs == MAX_WRS || !raw_make(r))
		return;
	wr.wr_id = new_wr(r, false);
	if (!(how & 0x80 ? ibv_post_wq_recv(r->wq[i], &wr, &bad)
			 : ibv_post_recv(r->raw, &wr, &bad)))
		r->n_wrs++;
}

/* ---- packets ---- */

static uint64_t some_va(struct fuzz_in *in, struct side *to, uint8_t how)
{
	uint64_t start = (uintptr_t)to->buf + MR_AT;

	switch (how & 7) {
	case 4:
		return start + MR_LEN - fuzz_u8(in);
	case 5:
		return start - fuzz_u8(in);
	case 6:
		return (uint64_t)0 - fuzz_u8(in);
	case 7:
		return start + fuzz_u32(in);
	default:
		return start + fuzz_u16(in);
	}
}

static uint32_t some_psn(struct fuzz_in *in, struct urxe_qp *qp, uint8_t opcode, uint8_t how)
{
	bool answer = urxe_opcode_table[opcode].flags & URXE_OPF_RESPONSE;
	uint32_t psn = answer ? qp->req.una : qp->resp.epsn;

	if (how & 0x80)
		return psn + fuzz_u32(in);
	return how & 0x40 ? psn + (uint32_t)(int8_t)fuzz_u8(in) : psn;
}

/* Of one kind and direction: opcode, HOW, then what HOW makes variable. */
static void inject(struct run *r, struct fuzz_in *in, enum kind k, unsigned i, bool group)
{
	static const uint8_t service[] = {URXE_SVC_RC, URXE_SVC_UC, URXE_SVC_UD, URXE_SVC_XRC};
	struct side *from = side_of(!i), *to = side_of(i);
	uint8_t op = fuzz_u8(in), how = fuzz_u8(in), more = fuzz_u8(in);
	struct raw_pkt p = {.opcode = op & 0x80 ? op : (uint8_t)(service[k] | (op & 0x1f))};
	uint8_t *f = malloc(9700), *bth;
	uint32_t len;

	FUZZ_CHECK(f);
	to->qp = r->qp[k][i];
	p.psn = some_psn(in, to_urxe_qp(to->qp), p.opcode, how);
	p.ackreq = how & 0x08;
	p.se = how & 0x10;
	p.va = some_va(in, to, how);
	p.rkey = more & 1 ? fuzz_u32(in) : how & 0x20 ? w->mw[i]->rkey : to->mr->rkey;
	if (group) {
		p.group = w->group.raw;
		p.dqpn = URXE_MCAST_QPN;
	}
	p.len = more & 2 ? fuzz_u16(in) % 1400 : more & 4 ? 1024 : 0;
	p.dmalen = more & 8 ? fuzz_u32(in) : more & 16 ? fuzz_u16(in) : p.len;
	p.syndrome = more & 32 ? fuzz_u8(in) : 0x1f;
	p.msn = more & 32 ? fuzz_u32(in) : to_urxe_qp(to->qp)->resp.msn;
	p.qkey = 0x11111111;
	p.sqpn = r->qp[k][!i]->qp_num;
	p.swap_add = 0x0101010101010101ull;
	len = raw_frame(from, to, &p, f);
	bth = raw_bth(f);
	if (k == K_XRC && urxe_opcode_table[p.opcode].xrceth_off)
		urxe_put32(bth + urxe_opcode_table[p.opcode].xrceth_off, r->srqn);
	if (more & 64) /* bytes of the headers, at will */
		for (unsigned n = fuzz_u8(in) & 7; n; n--) {
			uint32_t at = fuzz_u8(in) & 63;
			uint8_t x = fuzz_u8(in);

			if (bth + at + URXE_ICRC_LEN < f + len)
				bth[at] ^= x;
		}
	if (more & 128) { /* cut short */
		uint32_t cut = fuzz_u8(in);

		if (len > (uint32_t)(bth - f) + URXE_ICRC_LEN + cut)
			len -= cut;
	}
	raw_reseal(f, len);
	urxe_sim_put(to->end, f, len);
	to->qp = NULL;
	free(f);
	for (int t = 0; t < 2; t++)
		urxe_progress_turn(to->dev);
}

/* ---- the end ---- */

static void finish(struct run *r)
{
	struct ibv_wq_attr err = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_ERR};

	for (unsigned i = 0; i < 2; i++)
		if (r->member[i])
			do_membership(r, i);
	for (unsigned i = 0; i < 2 && r->raw; i++)
		FUZZ_CHECK(!ibv_modify_wq(r->wq[i], &err));
	if (r->raw)
		FUZZ_CHECK(!pair_modify(r->raw, IBV_QPS_ERR));
	for (unsigned k = 0; k < N_KINDS; k++)
		for (unsigned i = 0; i < 2; i++)
			FUZZ_CHECK(!pair_modify(r->qp[k][i], IBV_QPS_ERR));
	reap(r);
	pair_settle(&w->p, 1000000);
	reap(r);
	/* A receive of the SRQ stays there, or went with the QP. */
	for (unsigned i = 0; i < r->n_wrs; i++)
		FUZZ_CHECK(r->done[i] || r->on_srq[i]);
	for (unsigned k = 0; k < N_KINDS; k++)
		for (unsigned i = 0; i < 2; i++)
			FUZZ_CHECK(!ibv_destroy_qp(r->qp[k][i]));
	FUZZ_CHECK(!ibv_destroy_srq(r->srq));
	raw_unmake(r);
	reap(r);
	pair_settle(&w->p, 1000000);
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = side_of(i);

		while (pair_event(s) >= 0)
			;
		FUZZ_CHECK(all_canary(s->buf, MR_AT));
		FUZZ_CHECK(all_canary(s->buf + MR_AT + MR_LEN, PAIR_BUF - MR_AT - MR_LEN));
	}
}

/* What is not of one kind of QP alone. */
static void more(struct run *r, struct fuzz_in *in, uint8_t what)
{
	unsigned i = what >> 2 & 1;

	switch (what >> 3 & 7) {
	case 0:
		do_window(r, in, i);
		break;
	case 1:
		do_membership(r, i);
		break;
	case 2:
		do_group_send(r, in, i);
		break;
	case 3:
		do_rule(r, in, i);
		break;
	case 4:
	case 5:
		do_raw_recv(r, in, i);
		break;
	default:
		inject(r, in, K_UD, i, true);
		break;
	}
}

/* The highest bit of the first byte chooses IPv6. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run r;
	struct fuzz_in in = {data, size};
	bool v6 = size && data[0] & 0x80;

	w = &worlds[v6];
	if (!w->open)
		open_world(v6);
	memset(w->p.a.buf + MR_AT, INSIDE, MR_LEN);
	memset(w->p.b.buf + MR_AT, INSIDE, MR_LEN);
	make(&r);
	for (unsigned n = 0; n < MAX_RECORDS && in.n; n++) {
		uint8_t what = fuzz_u8(&in);
		enum kind k = what & 3;
		unsigned i = what >> 2 & 1;

		switch (what & 0x40 ? 8 : what >> 3 & 7) {
		case 0:
			do_send(&r, &in, k, i);
			break;
		case 1:
			do_recv(&r, &in, k, i);
			break;
		case 2:
			for (unsigned t = fuzz_u8(&in) & 31; t; t--)
				pair_step(&w->p);
			break;
		case 3: /* 1 us to 131 ms */
			pair_settle(&w->p, 1000ull << fuzz_u8(&in) % 18);
			break;
		case 8:
			more(&r, &in, what);
			break;
		default:
			inject(&r, &in, k, i, false);
			break;
		}
		reap(&r);
	}
	finish(&r);
	return 0;
}
