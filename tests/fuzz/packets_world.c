/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The devices of the fuzzer "packets", and the QPs of an input. */
#include "packets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "netio/stack.h"
#include "raw.h"
#include "urxe/guarded.h"

#define LEAK 12 /* bytes of CANARY in a row that no frame has by chance */
#define MR_ACCESS                                                                    \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | URXEDV_ACCESS_FLUSH_GLOBAL)
#define SEND_OPS                                                                             \
	(URXEDV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_RDMA_WRITE | \
	 IBV_QP_EX_WITH_SEND)

static struct world worlds[2];
static atomic_bool disk_fails; /* a thread of the device may be at it */

/* The provider's msync() comes here (meson.build). */
int __wrap_msync(void *addr, size_t length, int flags);
int __real_msync(void *addr, size_t length, int flags);

int __wrap_msync(void *addr, size_t length, int flags)
{
	if (!disk_fails)
		return __real_msync(addr, length, flags);
	errno = EIO;
	return -1;
}

struct side *world_side(struct world *w, unsigned i)
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

/* Neighbours find each other whatever befalls the packets. */
static bool passes(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	const struct world *w = arg;
	struct urxe_frame f = {.data = (uint8_t *)(uintptr_t)data, .len = len};

	if (!w->dead || !urxe_frame_roce(&f))
		return true;
	/* Net 1 of IPv4 is another third byte of the address. */
	return !(w->dead & DEAD_ALL) && (w->v6 || !(w->dead & DEAD_NET(data[32] & 1)));
}

/* ---- memory of a file ---- */

void world_gone(struct world *w, unsigned i, enum gone how)
{
#ifndef URXE_GUARDED
	/* Such a processor's stack dies of it, and its programs know that. */
	return;
#endif
	int prot = how == GONE_ALL     ? PROT_NONE
		   : how == GONE_WRITE ? PROT_READ
				       : PROT_READ | PROT_WRITE;

	FUZZ_CHECK(!ftruncate(w->fd[i], how == GONE_FILE ? 0 : FILE_LEN));
	FUZZ_CHECK(!mprotect(w->file[i], FILE_LEN, prot));
}

void world_disk(bool fails)
{
	disk_fails = fails;
}

static void file_open(struct world *w, unsigned i)
{
	struct side *s = world_side(w, i);

	w->fd[i] = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_CHECK(w->fd[i] >= 0 && !ftruncate(w->fd[i], FILE_LEN));
	w->file[i] = mmap(NULL, FILE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd[i], 0);
	FUZZ_CHECK(w->file[i] != MAP_FAILED);
	/* Those of IPv6 have a thread that flushes; those of IPv4 do it in turns, and repeat. */
	s->dev->threaded = w->v6;
	w->file_mr[i] =
		ibv_reg_mr(s->pd, w->file[i], FILE_LEN, MR_ACCESS | URXEDV_ACCESS_FLUSH_PERSISTENT);
	s->dev->threaded = false;
	FUZZ_CHECK(w->file_mr[i]);
}

static void file_close(struct world *w, unsigned i)
{
	ibv_dereg_mr(w->file_mr[i]);
	munmap(w->file[i], FILE_LEN);
	close(w->fd[i]);
}

/* ---- worlds ---- */

static void close_worlds(void)
{
	for (struct world *w = worlds; w < worlds + 2; w++) {
		if (!w->open)
			continue;
		urxe_sim_tap(w->p.sim, NULL, NULL);
		urxe_sim_filter(w->p.sim, NULL, NULL);
		for (unsigned i = 0; i < 2; i++) {
			ibv_destroy_ah(w->ah[i]);
			ibv_destroy_ah(w->group_ah[i]);
			ibv_close_xrcd(w->xrcd[i]);
			ibv_dealloc_mw(w->mw[i]);
			file_close(w, i);
		}
		pair_close(&w->p);
	}
}

static void open_world(struct world *w, bool v6)
{
	const struct pair_params params = {
		.seed = 21 + v6, .link = {.latency = 1000}, .v6 = v6, .two_nets = !v6};
	const union ibv_gid g4 = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	const union ibv_gid g6 = {.raw = {0xff, 0x0e, [15] = 7}};
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	w->v6 = v6;
	w->group = v6 ? g6 : g4;
	pair_open(&w->p, &params, IBV_QPT_RC);
	pair_meet(&w->p);
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = world_side(w, i);
		struct ibv_ah_attr ah = pair_path(s, world_side(w, !i));

		ibv_destroy_qp(s->qp);
		s->qp = NULL;
		ibv_dereg_mr(s->mr);
		memset(s->buf, CANARY, PAIR_BUF);
		s->mr = ibv_reg_mr(s->pd, s->buf + MR_AT, MR_LEN, MR_ACCESS);
		w->ah[i] = ibv_create_ah(s->pd, &ah);
		ah.grh.dgid = w->group;
		w->group_ah[i] = ibv_create_ah(s->pd, &ah);
		w->xrcd[i] = ibv_open_xrcd(s->ctx, &xa);
		w->mw[i] = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2);
		FUZZ_CHECK(s->mr && w->ah[i] && w->group_ah[i] && w->xrcd[i] && w->mw[i]);
		file_open(w, i);
	}
	urxe_sim_tap(w->p.sim, leaks, NULL);
	urxe_sim_filter(w->p.sim, passes, w);
	if (!worlds[0].open && !worlds[1].open)
		atexit(close_worlds);
	w->open = true;
}

void world_heal(struct world *w)
{
	w->dead = 0;
	disk_fails = false;
	for (unsigned i = 0; i < 2; i++) {
		world_gone(w, i, GONE_NOT);
		memset(w->file[i], INSIDE, FILE_LEN);
		memset(world_side(w, i)->buf + MR_AT, INSIDE, MR_LEN);
	}
}

struct world *world_get(bool v6)
{
	struct world *w = &worlds[v6];

	if (!w->open)
		open_world(w, v6);
	world_heal(w);
	return w;
}

/* ---- QPs ---- */

static struct ibv_qp *connected_qp(struct run *r, unsigned i, enum ibv_qp_type type)
{
	struct side *s = world_side(r->w, i);
	struct ibv_qp_init_attr_ex a = {
		.send_cq = s->cq,
		.recv_cq = type == IBV_QPT_RC ? s->cq : NULL,
		.cap = {.max_send_wr = 64,
			.max_recv_wr = type == IBV_QPT_RC ? 64 : 0,
			.max_send_sge = 2,
			.max_recv_sge = type == IBV_QPT_RC ? 2 : 0},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = SEND_OPS,
		.pd = s->pd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(s->ctx, &a);

	FUZZ_CHECK(qp);
	return qp;
}

static void xrc_make(struct run *r)
{
	struct world *w = r->w;
	struct ibv_srq_init_attr_ex sa = {
		.attr = {.max_wr = 64, .max_sge = 2},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = w->p.b.pd,
		.xrcd = w->xrcd[1],
		.cq = w->p.b.cq,
	};
	struct ibv_qp_init_attr_ex ra = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = w->xrcd[1],
	};

	r->srq = ibv_create_srq_ex(w->p.b.ctx, &sa);
	FUZZ_CHECK(r->srq && !ibv_get_srq_num(r->srq, &r->srqn));
	r->qp[K_XRC][0] = connected_qp(r, 0, IBV_QPT_XRC_SEND);
	r->qp[K_XRC][1] = ibv_create_qp_ex(w->p.b.ctx, &ra);
	FUZZ_CHECK(r->qp[K_XRC][1]);
}

static void choose_params(struct pair_params *p, uint8_t how)
{
	static const struct {
		uint8_t retry_cnt, rnr_retry;
	} retries[4] = {{7, 7}, {1, 1}, {0, 0}, {3, 2}};
	static const uint8_t rd_atomic[4] = {16, 1, 2, 4};

	*p = (struct pair_params){.seed = 21, .set_retries = true};
	p->retry_cnt = retries[how & 3].retry_cnt;
	p->rnr_retry = retries[how & 3].rnr_retry;
	p->rd_atomic = rd_atomic[how >> 2 & 3];
	p->mtu = how & 0x10 ? 256 : 1024;
	p->min_rnr_timer = 16; /* 2.56 ms: not too many in the time that an input has */
	p->access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
		    URXEDV_ACCESS_FLUSH_GLOBAL | URXEDV_ACCESS_FLUSH_PERSISTENT;
}

void run_make(struct run *r, uint8_t how)
{
	struct pair *p = &r->w->p;

	choose_params(&r->params, how);
	for (unsigned i = 0; i < 2; i++) {
		r->qp[K_RC][i] = connected_qp(r, i, IBV_QPT_RC);
		r->qp[K_UC][i] = pair_qp(world_side(r->w, i), &r->params, IBV_QPT_UC);
		r->qp[K_UD][i] = pair_qp(world_side(r->w, i), &r->params, IBV_QPT_UD);
	}
	xrc_make(r);
	for (unsigned k = 0; k < N_KINDS; k++)
		pair_connect(p, &p->a, r->qp[k][0], &p->b, r->qp[k][1], &r->params);
}

/* ---- what takes whole frames ---- */

static struct ibv_qp *to_rtr(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	FUZZ_CHECK(qp && !ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT));
	FUZZ_CHECK(!pair_modify(qp, IBV_QPS_RTR));
	return qp;
}

bool run_raw_make(struct run *r)
{
	static uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2};
	struct side *b = &r->w->p.b;
	struct ibv_wq_init_attr wa = {
		.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1, .pd = b->pd, .cq = b->cq};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_rwq_ind_table_init_attr ta = {.log_ind_tbl_size = 1, .ind_tbl = r->wq};
	struct ibv_qp_init_attr_ex qa = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.pd = b->pd,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, 40, key,
				 IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6 |
					 IBV_RX_HASH_SRC_PORT_UDP},
	};

	if (r->raw)
		return true;
	if (urxe_raw_check_permission())
		return false;
	r->raw = to_rtr(pair_qp(b, &r->params, IBV_QPT_RAW_PACKET));
	for (unsigned i = 0; i < 2; i++) {
		r->wq[i] = ibv_create_wq(b->ctx, &wa);
		FUZZ_CHECK(r->wq[i] && !ibv_modify_wq(r->wq[i], &ready));
	}
	r->table = ibv_create_rwq_ind_table(b->ctx, &ta);
	qa.rwq_ind_tbl = r->table;
	r->rss = to_rtr(ibv_create_qp_ex(b->ctx, &qa));
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

void run_unmake(struct run *r)
{
	for (unsigned k = 0; k < N_KINDS; k++)
		for (unsigned i = 0; i < 2; i++)
			FUZZ_CHECK(!ibv_destroy_qp(r->qp[k][i]));
	if (r->srq)
		FUZZ_CHECK(!ibv_destroy_srq(r->srq));
	raw_unmake(r);
}
