/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Paging on demand: each operation of each transport whose bit is set, with memory that came to its
 * addresses after it was registered; what has no bit, cannot be asked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "attrs.h"
#include "harness.h"

#define ROOM 65536u
#define LEN  3000u /* several packets */
#define GRH  40u

static const struct pair_params pp = {.seed = 6, .mtu = 4096, .link = {.latency = 5000}};

/* What an operation is of, and where it finds pages on demand. */
static const struct op {
	unsigned bit;
	enum ibv_wr_opcode opcode;
	bool local, remote, recv, srq;
} ops[] = {
	{IBV_ODP_SUPPORT_SEND, IBV_WR_SEND, .local = true, .recv = true},
	{IBV_ODP_SUPPORT_RECV, IBV_WR_SEND, .remote = true, .recv = true},
	{IBV_ODP_SUPPORT_SRQ_RECV, IBV_WR_SEND, .remote = true, .recv = true, .srq = true},
	{IBV_ODP_SUPPORT_WRITE, IBV_WR_RDMA_WRITE, .local = true, .remote = true},
	{IBV_ODP_SUPPORT_READ, IBV_WR_RDMA_READ, .local = true, .remote = true},
	{IBV_ODP_SUPPORT_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD, .local = true, .remote = true},
};

struct odp {
	struct pair p;
	enum ibv_qp_type type;
	struct ibv_qp *snd, *rcv;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_ah *ah;
	struct ibv_mr *local, *remote;
};

/* ---- memory ---- */

static struct ibv_mr *memory(struct side *s, bool on_demand)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	const int anon = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *mem = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, anon, -1, 0);
	struct ibv_mr *mr;

	CU_ASSERT_FATAL(mem != MAP_FAILED);
	if (on_demand)
		munmap(mem, ROOM);
	mr = ibv_reg_mr(s->pd, mem, ROOM, access | (on_demand ? IBV_ACCESS_ON_DEMAND : 0));
	CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
	if (on_demand)
		CU_ASSERT_FATAL(mmap(mem, ROOM, PROT_READ | PROT_WRITE, anon | MAP_FIXED, -1, 0) ==
				mem);
	return mr;
}

static void memory_free(struct ibv_mr *mr)
{
	void *mem = mr->addr;

	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	munmap(mem, ROOM);
}

/* ---- queue pairs ---- */

static void open_srq(struct odp *o)
{
	struct ibv_xrcd_init_attr xa = {.comp_mask =
						IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					.fd = -1,
					.oflags = O_CREAT};
	struct ibv_srq_init_attr_ex sa = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.pd = o->p.b.pd,
	};

	if (o->type == IBV_QPT_XRC_SEND) {
		o->xrcd = ibv_open_xrcd(o->p.b.ctx, &xa);
		CU_ASSERT_PTR_NOT_NULL_FATAL(o->xrcd);
		sa.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		sa.srq_type = IBV_SRQT_XRC;
		sa.xrcd = o->xrcd;
		sa.cq = o->p.b.cq;
	}
	o->srq = ibv_create_srq_ex(o->p.b.ctx, &sa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(o->srq);
}

static void odp_open(struct odp *o, enum ibv_qp_type type, bool srq)
{
	struct ibv_qp_init_attr_ex ra = {.qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp_init_attr qa = {.cap = {4, 4, 1, 1, 0}, .qp_type = type};
	struct ibv_ah_attr path;

	memset(o, 0, sizeof(*o));
	o->type = type;
	pair_open(&o->p, &pp, type == IBV_QPT_XRC_SEND ? IBV_QPT_RC : type);
	if (srq || type == IBV_QPT_XRC_SEND)
		open_srq(o);
	qa.send_cq = qa.recv_cq = o->p.a.cq;
	o->snd = ibv_create_qp(o->p.a.pd, &qa);
	qa.send_cq = qa.recv_cq = o->p.b.cq;
	qa.srq = o->srq;
	ra.xrcd = o->xrcd;
	o->rcv = o->xrcd ? ibv_create_qp_ex(o->p.b.ctx, &ra) : ibv_create_qp(o->p.b.pd, &qa);
	CU_ASSERT_FATAL(o->snd && o->rcv);
	pair_connect(&o->p, &o->p.a, o->snd, &o->p.b, o->rcv, &pp);
	path = pair_path(&o->p.a, &o->p.b);
	o->ah = ibv_create_ah(o->p.a.pd, &path);
}

static void odp_close(struct odp *o)
{
	CU_ASSERT_EQUAL(ibv_destroy_ah(o->ah), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(o->snd), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(o->rcv), 0);
	if (o->srq)
		CU_ASSERT_EQUAL(ibv_destroy_srq(o->srq), 0);
	if (o->xrcd)
		CU_ASSERT_EQUAL(ibv_close_xrcd(o->xrcd), 0);
	pair_close(&o->p);
}

/* ---- operations ---- */

static int post(struct odp *o, const struct op *op, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)o->local->addr, len, o->local->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op->opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)o->remote->addr;
		wr.wr.atomic.rkey = o->remote->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (o->type == IBV_QPT_UD) {
		wr.wr.ud.ah = o->ah;
		wr.wr.ud.remote_qpn = o->rcv->qp_num;
		wr.wr.ud.remote_qkey = 0x11111111;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)o->remote->addr;
		wr.wr.rdma.rkey = o->remote->rkey;
	}
	if (o->xrcd)
		ibv_get_srq_num(o->srq, &wr.qp_type.xrc.remote_srqn);
	return ibv_post_send(o->snd, &wr, &bad);
}

static int post_recv(struct odp *o, const struct op *op)
{
	struct ibv_sge sge = {(uintptr_t)o->remote->addr, ROOM, o->remote->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return o->srq && op->bit != IBV_ODP_SUPPORT_RECV ? ibv_post_srq_recv(o->srq, &wr, &bad)
							 : ibv_post_recv(o->rcv, &wr, &bad);
}

static bool moved(const struct odp *o, const struct op *op, uint32_t len)
{
	const uint8_t *l = o->local->addr, *r = o->remote->addr;

	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		uint64_t got, left;

		memcpy(&got, l, sizeof(got));
		memcpy(&left, r, sizeof(left));
		return l[0] == 0x33 && left == got + 1;
	}
	return !memcmp(l, op->recv && o->type == IBV_QPT_UD ? r + GRH : r, len);
}

static void used(struct odp *o, const struct op *op)
{
	uint32_t len = op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : LEN;
	struct ibv_wc wc;

	for (uint32_t i = 0; i < len; i++) {
		((uint8_t *)o->local->addr)[i] = (uint8_t)(i * 13);
		((uint8_t *)o->remote->addr)[i] = 0x33;
	}
	if (op->recv)
		CU_ASSERT_EQUAL_FATAL(post_recv(o, op), 0);
	CU_ASSERT_EQUAL(post(o, op, len), 0);
	CU_ASSERT(pair_wait(&o->p, o->p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	/* UC: there is no answer to wait for. */
	pair_settle(&o->p, 1000000);
	if (op->recv)
		CU_ASSERT(pair_wait(&o->p, o->p.b.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(moved(o, op, len));
}

/* No such operation, or no queue of that kind to receive from. */
static void not_there(struct odp *o, const struct op *op)
{
	struct ibv_recv_wr wr = {0}, *bad;

	CU_ASSERT_EQUAL(op->recv ? ibv_post_recv(o->rcv, &wr, &bad) : post(o, op, 8), EINVAL);
}

static void transport(enum ibv_qp_type type, uint32_t caps)
{
	uint32_t known = 0;

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		const struct op *op = &ops[i];
		struct odp o;

		known |= op->bit;
		odp_open(&o, type, op->srq);
		o.local = memory(&o.p.a, op->local);
		o.remote = memory(&o.p.b, op->remote);
		if (caps & op->bit)
			used(&o, op);
		else
			not_there(&o, op);
		memory_free(o.local);
		memory_free(o.remote);
		odp_close(&o);
	}
	CU_ASSERT_EQUAL(caps & ~known, 0);
}

static struct ibv_device_attr_ex ask(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	pair_close(&p);
	return dev;
}

void attr_odp_rc(void)
{
	transport(IBV_QPT_RC, ask().odp_caps.per_transport_caps.rc_odp_caps);
}

void attr_odp_uc(void)
{
	transport(IBV_QPT_UC, ask().odp_caps.per_transport_caps.uc_odp_caps);
}

void attr_odp_ud(void)
{
	transport(IBV_QPT_UD, ask().odp_caps.per_transport_caps.ud_odp_caps);
}

void attr_odp_xrc(void)
{
	transport(IBV_QPT_XRC_SEND, ask().xrc_odp_caps);
}

/* Of the whole address space as well; that it ends where memory ends: mr.c, test_on_demand. */
void attr_odp_general(void)
{
	struct ibv_device_attr_ex dev;
	struct ibv_mr *implicit;
	struct ibv_wc wc;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT_EQUAL(dev.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	implicit = ibv_reg_mr(p.a.pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
	CU_ASSERT_PTR_NOT_NULL_FATAL(implicit);
	memset(p.a.buf, 0x5a, LEN);
	CU_ASSERT_EQUAL(ibv_dereg_mr(p.a.mr), 0);
	p.a.mr = implicit;
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, LEN, &p.b, 0, IBV_SEND_SIGNALED),
			0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(!memcmp(p.a.buf, p.b.buf, LEN));
	pair_close(&p);
}
