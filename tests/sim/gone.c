/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registered memory that was unmapped, made read-only, or whose file was truncated: an error of the
 * work request and a NAK to the peer, one line of the log that names the region, and the process
 * lives on.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "log_kept.h"
#include "pair.h"
#include "urxe/guarded.h"
#include "urxe/log.h"

#define ROOM 16384u
#define AT   7192u /* 1000 bytes are there, the rest is behind the edge */
#define EDGE 8192u
#define LEN  3000u /* several packets */

#define ALL                                                                          \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

enum how {
	UNMAPPED,
	READ_ONLY,
	TRUNCATED,
	HOWS
};

struct mem {
	uint8_t *p;
	struct ibv_mr *mr;
	int fd;
};

/* Of a file, which all three can befall. */
static struct mem mem_make(struct side *s, int access)
{
	char name[] = "/tmp/urxe-gone-XXXXXX";
	struct mem m = {.fd = mkstemp(name)};

	CU_ASSERT_FATAL(m.fd >= 0);
	unlink(name);
	CU_ASSERT_EQUAL(ftruncate(m.fd, ROOM), 0);
	m.p = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	CU_ASSERT_FATAL(m.p != MAP_FAILED);
	memset(m.p, 'm', ROOM);
	m.mr = ibv_reg_mr(s->pd, m.p, ROOM, access);
	CU_ASSERT_PTR_NOT_NULL_FATAL(m.mr);
	return m;
}

static void mem_lose(struct mem *m, enum how how)
{
	/* Nothing, in a place where nobody else maps memory meanwhile. */
	if (how == UNMAPPED)
		CU_ASSERT(mmap(m->p + EDGE, ROOM - EDGE, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	if (how == READ_ONLY)
		CU_ASSERT_EQUAL(mprotect(m->p + EDGE, ROOM - EDGE, PROT_READ), 0);
	if (how == TRUNCATED)
		CU_ASSERT_EQUAL(ftruncate(m->fd, EDGE), 0);
}

static void mem_free(struct mem *m)
{
	CU_ASSERT_EQUAL(ibv_dereg_mr(m->mr), 0);
	munmap(m->p, ROOM);
	close(m->fd);
}

/* ---- what is said meanwhile ---- */

static struct log_kept kept;

/* One line that names the region, and no other. */
static bool log_names(const struct ibv_mr *mr)
{
	char text[4096], want[64];

	log_kept(&kept, text, sizeof(text));
	snprintf(want, sizeof(want), "MR of lkey %#x, %zu bytes at %p", mr->lkey, mr->length,
		 mr->addr);
	if (strstr(text, want) && strchr(text, '\n') == text + strlen(text) - 1)
		return true;
	printf("lacks one line '%s' in:\n%s", want, text);
	return false;
}

static enum ibv_wc_status next_status(struct pair *p, struct side *s)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	CU_ASSERT(pair_wait(p, s->cq, &wc));
	return wc.status;
}

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* One work request of a, with local memory and remote. */
static enum ibv_wc_status request(struct pair *p, enum ibv_wr_opcode op, uint64_t local,
				  uint32_t lkey, uint64_t remote, uint32_t rkey)
{
	bool word = is_atomic(op) || op == IBV_WR_ATOMIC_WRITE;
	struct ibv_sge sge = {local, word ? 8 : LEN, lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (is_atomic(op)) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	CU_ASSERT_EQUAL(ibv_post_send(p->a.qp, &wr, &bad), 0);
	return next_status(p, &p->a);
}

/* ---- memory that a peer names ---- */

enum key {
	REGION,
	ON_DEMAND,
	WINDOW1,
	WINDOW2,
	KEYS
};

static uint32_t window_open(struct pair *p, struct mem *m, struct ibv_mw *mw)
{
	struct ibv_mw_bind_info info = {m->mr, (uintptr_t)m->p, ROOM,
					ALL & ~IBV_ACCESS_LOCAL_WRITE};
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = info};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	uint32_t rkey = ibv_inc_rkey(mw->rkey);

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = info;
	CU_ASSERT_EQUAL(mw->type == IBV_MW_TYPE_1 ? ibv_bind_mw(p->b.qp, mw, &bind)
						  : ibv_post_send(p->b.qp, &wr, &bad),
			0);
	CU_ASSERT_EQUAL(next_status(p, &p->b), IBV_WC_SUCCESS);
	return rkey;
}

static void remote(enum ibv_wr_opcode op, enum how how, enum key key)
{
	struct pair_params pp = {.seed = 3, .link = {.latency = 5000}};
	bool word = is_atomic(op) || op == IBV_WR_ATOMIC_WRITE;
	struct ibv_mw *mw = NULL;
	enum ibv_wc_status got;
	struct pair p;
	struct mem m;
	uint32_t rkey;

	pair_open(&p, &pp, IBV_QPT_RC);
	m = mem_make(&p.b,
		     ALL | IBV_ACCESS_MW_BIND | (key == ON_DEMAND ? IBV_ACCESS_ON_DEMAND : 0));
	rkey = m.mr->rkey;
	if (key == WINDOW1 || key == WINDOW2) {
		mw = ibv_alloc_mw(p.b.pd, key == WINDOW1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
		CU_ASSERT_PTR_NOT_NULL_FATAL(mw);
		rkey = window_open(&p, &m, mw);
	}
	if (op == IBV_WR_RDMA_WRITE_WITH_IMM)
		CU_ASSERT_EQUAL(pair_recv(&p.b, 9, 0, 64), 0);
	mem_lose(&m, how);
	log_keep(&kept);
	got = request(&p, op, (uintptr_t)p.a.buf, p.a.mr->lkey, (uintptr_t)m.p + (word ? EDGE : AT),
		      rkey);
	CU_ASSERT(log_names(m.mr));
	CU_ASSERT_EQUAL(got, IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(pair_event(&p.b), IBV_EVENT_QP_ACCESS_ERR);
	if (mw)
		CU_ASSERT_EQUAL(ibv_dealloc_mw(mw), 0);
	mem_free(&m);
	pair_close(&p);
}

static void test_remote(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE,	   IBV_WR_RDMA_WRITE_WITH_IMM,	IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE};

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		for (enum how how = UNMAPPED; how < HOWS; how++)
			for (enum key key = REGION; key < KEYS; key++)
				if (ops[i] != IBV_WR_RDMA_READ || how != READ_ONLY)
					remote(ops[i], how, key);
}

/* Two QPs fail over the same region: it is said once, and again of a region registered anew. */
static void test_said_once(void)
{
	struct pair_params pp = {.seed = 4, .link = {.latency = 5000}};
	struct ibv_qp *qa, *qb, *first;
	struct pair p;
	struct mem m;

	pair_open(&p, &pp, IBV_QPT_RC);
	m = mem_make(&p.b, ALL);
	mem_lose(&m, READ_ONLY);
	qa = pair_qp(&p.a, &pp, IBV_QPT_RC);
	qb = pair_qp(&p.b, &pp, IBV_QPT_RC);
	pair_connect(&p, &p.a, qa, &p.b, qb, &pp);
	log_keep(&kept);
	CU_ASSERT_EQUAL(request(&p, IBV_WR_RDMA_WRITE, (uintptr_t)p.a.buf, p.a.mr->lkey,
				(uintptr_t)m.p + AT, m.mr->rkey),
			IBV_WC_REM_ACCESS_ERR);
	first = p.a.qp;
	p.a.qp = qa;
	CU_ASSERT_EQUAL(request(&p, IBV_WR_RDMA_WRITE, (uintptr_t)p.a.buf, p.a.mr->lkey,
				(uintptr_t)m.p + AT, m.mr->rkey),
			IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT(log_names(m.mr));
	p.a.qp = first;
	mprotect(m.p, ROOM, PROT_READ | PROT_WRITE);
	CU_ASSERT_EQUAL(ibv_rereg_mr(m.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), 0);
	CU_ASSERT(!atomic_load(&to_urxe_mr(m.mr)->gone));
	ibv_destroy_qp(qa);
	ibv_destroy_qp(qb);
	mem_free(&m);
	pair_close(&p);
}

/* ---- memory of receives ---- */

static void receive(enum ibv_qp_type type, enum how how, bool shared)
{
	struct pair_params pp = {.seed = 5, .mtu = 4096, .link = {.latency = 5000}};
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr qa = {.cap = {4, 4, 1, 1, 0}, .qp_type = type};
	struct ibv_send_wr wr = {.num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_recv_wr rr = {.num_sge = 1}, *bad_rr;
	enum ibv_wc_status want = type == IBV_QPT_RC ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS;
	struct ibv_ah_attr path;
	struct ibv_ah *ah;
	struct ibv_sge sge, into;
	struct ibv_srq *srq = NULL;
	struct ibv_qp *first;
	struct pair p;
	struct mem m;

	pair_open(&p, &pp, type);
	first = p.b.qp;
	if (shared) {
		srq = qa.srq = ibv_create_srq(p.b.pd, &sa);
		qa.send_cq = qa.recv_cq = p.b.cq;
		p.b.qp = ibv_create_qp(p.b.pd, &qa);
		CU_ASSERT_FATAL(srq && p.b.qp);
		ibv_destroy_qp(p.a.qp);
		p.a.qp = pair_qp(&p.a, &pp, type);
		pair_connect(&p, &p.a, p.a.qp, &p.b, p.b.qp, &pp);
	}
	m = mem_make(&p.b, IBV_ACCESS_LOCAL_WRITE);
	into = (struct ibv_sge){(uintptr_t)m.p + AT, LEN + 100, m.mr->lkey};
	rr.sg_list = &into;
	CU_ASSERT_EQUAL(shared ? ibv_post_srq_recv(srq, &rr, &bad_rr)
			       : ibv_post_recv(p.b.qp, &rr, &bad_rr),
			0);
	mem_lose(&m, how);
	path = pair_path(&p.a, &p.b);
	ah = ibv_create_ah(p.a.pd, &path);
	sge = (struct ibv_sge){(uintptr_t)p.a.buf, LEN, p.a.mr->lkey};
	wr.sg_list = &sge;
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = p.b.qp->qp_num;
	wr.wr.ud.remote_qkey = 0x11111111;
	log_keep(&kept);
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	CU_ASSERT_EQUAL(next_status(&p, &p.a), want);
	CU_ASSERT_EQUAL(next_status(&p, &p.b), IBV_WC_LOC_PROT_ERR);
	CU_ASSERT(log_names(m.mr));
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_ERR);
	ibv_destroy_ah(ah);
	if (shared) {
		CU_ASSERT_EQUAL(ibv_destroy_qp(p.b.qp), 0);
		CU_ASSERT_EQUAL(ibv_destroy_srq(srq), 0);
		p.b.qp = first;
	}
	mem_free(&m);
	pair_close(&p);
}

static void test_receive(void)
{
	for (enum how how = UNMAPPED; how < HOWS; how++) {
		receive(IBV_QPT_RC, how, false);
		receive(IBV_QPT_RC, how, true);
		receive(IBV_QPT_UC, how, false);
		receive(IBV_QPT_UD, how, false);
		receive(IBV_QPT_UD, how, true);
	}
}

/* A WRITE of an unreliable connection is dropped, as with any R_Key that does not fit. */
static void test_uc_write(void)
{
	struct pair_params pp = {.seed = 6, .link = {.latency = 5000}};
	struct pair p;
	struct mem m;

	pair_open(&p, &pp, IBV_QPT_UC);
	m = mem_make(&p.b, ALL);
	mem_lose(&m, UNMAPPED);
	log_keep(&kept);
	CU_ASSERT_EQUAL(request(&p, IBV_WR_RDMA_WRITE, (uintptr_t)p.a.buf, p.a.mr->lkey,
				(uintptr_t)m.p + AT, m.mr->rkey),
			IBV_WC_SUCCESS);
	pair_settle(&p, 1000000);
	CU_ASSERT(log_names(m.mr));
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
	mem_free(&m);
	pair_close(&p);
}

/* ---- memory of our own work requests ---- */

static void local(enum ibv_qp_type type, enum ibv_wr_opcode op, enum how how)
{
	struct pair_params pp = {.seed = 7, .mtu = 4096, .link = {.latency = 5000}};
	bool word = is_atomic(op);
	struct ibv_send_wr wr = {
		.num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED, .wr.ud = {0}};
	struct ibv_ah_attr path;
	struct ibv_send_wr *bad;
	struct ibv_ah *ah;
	struct ibv_sge sge;
	struct pair p;
	struct mem m;

	pair_open(&p, &pp, type);
	m = mem_make(&p.a, IBV_ACCESS_LOCAL_WRITE);
	CU_ASSERT_EQUAL(type == IBV_QPT_UD ? 0 : pair_recv(&p.b, 1, 0, LEN), 0);
	mem_lose(&m, how);
	log_keep(&kept);
	if (type == IBV_QPT_UD) {
		path = pair_path(&p.a, &p.b);
		ah = ibv_create_ah(p.a.pd, &path);
		sge = (struct ibv_sge){(uintptr_t)m.p + AT, LEN, m.mr->lkey};
		wr.sg_list = &sge;
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = p.b.qp->qp_num;
		CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
		CU_ASSERT_EQUAL(next_status(&p, &p.a), IBV_WC_LOC_PROT_ERR);
		ibv_destroy_ah(ah);
	} else {
		CU_ASSERT_EQUAL(request(&p, op, (uintptr_t)m.p + (word ? EDGE : AT), m.mr->lkey,
					(uintptr_t)p.b.buf, p.b.mr->rkey),
				IBV_WC_LOC_PROT_ERR);
	}
	CU_ASSERT(log_names(m.mr));
	CU_ASSERT_EQUAL(pair_state(p.a.qp), type == IBV_QPT_RC ? IBV_QPS_ERR : IBV_QPS_SQE);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
	mem_free(&m);
	pair_close(&p);
}

static void test_local(void)
{
	static const enum ibv_wr_opcode reads[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE};
	static const enum ibv_wr_opcode writes[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						    IBV_WR_ATOMIC_FETCH_AND_ADD};

	for (enum how how = UNMAPPED; how < HOWS; how++) {
		for (unsigned i = 0; i < 2 && how != READ_ONLY; i++) {
			local(IBV_QPT_RC, reads[i], how);
			local(IBV_QPT_UC, reads[i], how);
		}
		if (how != READ_ONLY)
			local(IBV_QPT_UD, IBV_WR_SEND, how);
		for (unsigned i = 0; i < 3; i++)
			local(IBV_QPT_RC, writes[i], how);
	}
}

/* Lost on the way, and no more there when it is to be sent again. */
static void test_sent_again(void)
{
	struct pair_params pp = {.seed = 8, .link = {.latency = 5000}};
	struct ibv_send_wr wr = {.num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_sge sge;
	struct pair p;
	struct mem m;

	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	m = mem_make(&p.a, IBV_ACCESS_LOCAL_WRITE);
	pp.link.loss = 1;
	urxe_sim_end_params(p.a.end, &pp.link);
	sge = (struct ibv_sge){(uintptr_t)m.p + AT, LEN, m.mr->lkey};
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf;
	wr.wr.rdma.rkey = p.b.mr->rkey;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	pair_settle(&p, 20000);
	mem_lose(&m, UNMAPPED);
	pp.link.loss = 0;
	urxe_sim_end_params(p.a.end, &pp.link);
	log_keep(&kept);
	CU_ASSERT_EQUAL(next_status(&p, &p.a), IBV_WC_LOC_PROT_ERR);
	CU_ASSERT(log_names(m.mr));
	mem_free(&m);
	pair_close(&p);
}

/* The service thread, which blocks all other signals, meets it. */
static void test_service_thread(void)
{
	struct pair_params pp = {.seed = 9, .threaded = true};
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct pair p;
	struct mem m;

	pair_open(&p, &pp, IBV_QPT_RC);
	m = mem_make(&p.b, ALL);
	mem_lose(&m, UNMAPPED);
	sge = (struct ibv_sge){(uintptr_t)p.a.buf, LEN, p.a.mr->lkey};
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = (uintptr_t)m.p + AT;
	wr.wr.rdma.rkey = m.mr->rkey;
	log_keep(&kept);
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	while (!ibv_poll_cq(p.a.cq, 1, &wc))
		sched_yield();
	CU_ASSERT(log_names(m.mr));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_REM_ACCESS_ERR);
	mem_free(&m);
	pair_close(&p);
}

int main(int argc, char **argv)
{
	static const struct urxe_test tests[] = {
		T(test_remote), T(test_said_once),  T(test_receive),	    T(test_uc_write),
		T(test_local),	T(test_sent_again), T(test_service_thread), {NULL, NULL}};

#ifndef URXE_GUARDED
	urxe_harness_skip("no guarded copies on this processor");
	return 77;
#endif
	return urxe_harness_main(argc, argv, "gone", tests);
}
