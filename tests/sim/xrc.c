/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * XRC: domains and their sharing, SRQs by number, all operations through them (under loss too),
 * what a request with a bad SRQ number meets, target QPs opened more than once.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "harness.h"
#include "pair.h"
#include "xrc.h"

struct xrc {
	struct pair p;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq[2];
	struct ibv_cq *srq_cq[2];
	uint32_t srqn[2];
	struct ibv_qp *snd, *rcv;
};

static void xrc_open(struct xrc *x, const struct pair_params *pp)
{
	struct side *b = &x->p.b;

	memset(x, 0, sizeof(*x));
	pair_open(&x->p, pp, IBV_QPT_RC);
	x->xrcd = xrc_open_xrcd(b->ctx, -1, O_CREAT);
	CU_ASSERT_FATAL(x->xrcd != NULL);
	for (int i = 0; i < 2; i++) {
		x->srq_cq[i] = ibv_create_cq(b->ctx, 256, NULL, NULL, 0);
		x->srq[i] = xrc_make_srq(b, b->pd, x->xrcd, x->srq_cq[i]);
		CU_ASSERT_FATAL(x->srq[i] != NULL);
		CU_ASSERT_EQUAL(ibv_get_srq_num(x->srq[i], &x->srqn[i]), 0);
	}
	CU_ASSERT_NOT_EQUAL(x->srqn[0], x->srqn[1]);
	x->snd = xrc_make_send(&x->p.a);
	x->rcv = xrc_make_recv(b, x->xrcd);
	CU_ASSERT_FATAL(x->snd && x->rcv);
	xrc_connect(&x->p.a, x->snd, b, x->rcv);
}

static void xrc_close(struct xrc *x)
{
	CU_ASSERT_EQUAL(ibv_destroy_qp(x->snd), 0);
	if (x->rcv) {
		CU_ASSERT_EQUAL(ibv_close_xrcd(x->xrcd), EBUSY);
		CU_ASSERT_EQUAL(ibv_destroy_qp(x->rcv), 0);
	}
	for (int i = 0; i < 2; i++) {
		if (!x->srq[i])
			continue;
		CU_ASSERT_EQUAL(ibv_destroy_cq(x->srq_cq[i]), EBUSY);
		CU_ASSERT_EQUAL(ibv_destroy_srq(x->srq[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(ibv_destroy_cq(x->srq_cq[i]), 0);
	CU_ASSERT_EQUAL(ibv_close_xrcd(x->xrcd), 0);
	pair_close(&x->p);
}

static int post(struct xrc *x, enum ibv_wr_opcode op, uint32_t srqn, uint64_t id, uint32_t off,
		uint32_t len, uint32_t remote)
{
	struct xrc_work work = {op, srqn, id, off, len, remote};

	return xrc_post(x->snd, &x->p.a, &x->p.b, &work);
}

static void post_recv(struct xrc *x, int i, uint64_t id, uint32_t off, uint32_t len)
{
	CU_ASSERT_EQUAL(xrc_recv(x->srq[i], &x->p.b, id, off, len), 0);
}

static void operations(const struct pair_params *pp)
{
	struct xrc x;
	struct ibv_wc wc;
	uint64_t sum;

	xrc_open(&x, pp);
	for (unsigned i = 0; i < 0x8000; i++)
		x.p.a.buf[i] = (uint8_t)(i * 7 + i / 251);
	for (unsigned i = 0; i < 8; i++) {
		post_recv(&x, 0, i, 0x10000 + i * 0x2000, 0x2000);
		post_recv(&x, 1, 100 + i, 0x40000 + i * 0x2000, 0x2000);
	}
	for (unsigned i = 0; i < 16; i++)
		CU_ASSERT_EQUAL(post(&x, IBV_WR_SEND, x.srqn[i & 1], i, 16 * i, 5000, 0), 0);
	for (unsigned i = 0; i < 16; i++) {
		CU_ASSERT_FATAL(pair_wait(&x.p, x.p.a.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(wc.wr_id, i);
	}
	for (unsigned i = 0; i < 16; i++) {
		const uint8_t *got = x.p.b.buf + (i & 1 ? 0x40000 : 0x10000) + i / 2 * 0x2000;

		CU_ASSERT_FATAL(pair_wait(&x.p, x.srq_cq[i & 1], &wc));
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(wc.wr_id, (i & 1) * 100 + i / 2);
		CU_ASSERT_EQUAL(wc.byte_len, 5000);
		CU_ASSERT_EQUAL(wc.qp_num, x.rcv->qp_num);
		CU_ASSERT_EQUAL(memcmp(got, x.p.a.buf + 16 * i, 5000), 0);
	}
	post_recv(&x, 1, 200, 0x10000, 16);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_RDMA_WRITE_WITH_IMM, x.srqn[1], 1, 0, 5000, 0x80000), 0);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_RDMA_READ, x.srqn[0], 2, 0x90000, 5000, 0x80000), 0);
	memset(x.p.b.buf + 0xa0000, 0, 8);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(post(&x, IBV_WR_ATOMIC_FETCH_AND_ADD, x.srqn[i & 1], 3 + i, 0xb0000,
				     8, 0xa0000),
				0);
	for (unsigned i = 0; i < 6; i++) {
		CU_ASSERT_FATAL(pair_wait(&x.p, x.p.a.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(wc.wr_id, 1 + i);
	}
	CU_ASSERT_FATAL(pair_wait(&x.p, x.srq_cq[1], &wc));
	CU_ASSERT_EQUAL(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CU_ASSERT_EQUAL(wc.imm_data, htobe32(7));
	CU_ASSERT_EQUAL(memcmp(x.p.a.buf, x.p.a.buf + 0x90000, 5000), 0);
	memcpy(&sum, x.p.b.buf + 0xa0000, 8);
	CU_ASSERT_EQUAL(sum, 4);
	xrc_close(&x);
}

static void test_operations(void)
{
	struct pair_params pp = {.seed = 1, .link = {.latency = 5000}};

	operations(&pp);
	pp.link.loss = pp.link.dup = pp.link.reorder = 0.05;
	for (pp.seed = 1; pp.seed <= 40; pp.seed++)
		operations(&pp);
}

/* The sender's next completion. */
static enum ibv_wc_status outcome(struct xrc *x)
{
	struct ibv_wc wc;

	CU_ASSERT_FATAL(pair_wait(&x->p, x->p.a.cq, &wc));
	return wc.status;
}

static const struct pair_params plain = {.seed = 5, .link = {.latency = 5000}};

static void test_bad_srqn(void)
{
	struct ibv_xrcd *other;
	struct ibv_srq *foreign;
	struct ibv_pd *pd;
	struct ibv_srq *srq2;
	uint32_t n;
	struct xrc x;

	/* no such SRQ */
	xrc_open(&x, &plain);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_SEND, x.srqn[0] ^ 1, 1, 0, 100, 0), 0);
	CU_ASSERT_EQUAL(outcome(&x), IBV_WC_REM_INV_REQ_ERR);
	xrc_close(&x);

	/* one of another domain */
	xrc_open(&x, &plain);
	other = xrc_open_xrcd(x.p.b.ctx, -1, O_CREAT);
	foreign = xrc_make_srq(&x.p.b, x.p.b.pd, other, x.srq_cq[0]);
	CU_ASSERT_EQUAL(ibv_get_srq_num(foreign, &n), 0);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_RDMA_WRITE, n, 1, 0, 100, 0), 0);
	CU_ASSERT_EQUAL(outcome(&x), IBV_WC_REM_INV_REQ_ERR);
	CU_ASSERT_EQUAL(ibv_close_xrcd(other), EBUSY);
	CU_ASSERT_EQUAL(ibv_destroy_srq(foreign), 0);
	CU_ASSERT_EQUAL(ibv_close_xrcd(other), 0);
	xrc_close(&x);

	/* the PD of a request is that of its SRQ */
	xrc_open(&x, &plain);
	pd = ibv_alloc_pd(x.p.b.ctx);
	srq2 = xrc_make_srq(&x.p.b, pd, x.xrcd, x.srq_cq[0]);
	CU_ASSERT_EQUAL(ibv_get_srq_num(srq2, &n), 0);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_RDMA_WRITE, x.srqn[0], 1, 0, 100, 0x1000), 0);
	CU_ASSERT_EQUAL(outcome(&x), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_RDMA_WRITE, n, 2, 0, 100, 0x1000), 0);
	CU_ASSERT_EQUAL(outcome(&x), IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(ibv_destroy_srq(srq2), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(pd), 0);
	xrc_close(&x);
}

/* A SRQ goes while a message into it is under way. */
static void test_srq_goes(void)
{
	struct pair_params pp = plain;
	struct ibv_wc wc;
	struct xrc x;

	pp.link.bandwidth = 1000000000;
	xrc_open(&x, &pp);
	post_recv(&x, 0, 1, 0, 0x40000);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_SEND, x.srqn[0], 1, 0, 0x40000, 0), 0);
	while (!to_urxe_qp(x.rcv)->resp.in_recv)
		CU_ASSERT_FATAL(pair_step(&x.p));
	CU_ASSERT_EQUAL(ibv_destroy_srq(x.srq[0]), 0);
	x.srq[0] = NULL;
	CU_ASSERT_EQUAL(outcome(&x), IBV_WC_REM_INV_REQ_ERR);
	CU_ASSERT_EQUAL(ibv_poll_cq(x.srq_cq[0], 1, &wc), 0);
	xrc_close(&x);
}

/* While it is read from by: no more is read, for its PD may be gone with it. */
static void test_srq_goes_under_read(void)
{
	struct pair_params pp = plain;
	struct xrc x;

	pp.link.bandwidth = 1000000000;
	xrc_open(&x, &pp);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_RDMA_READ, x.srqn[0], 1, 0, 0x80000, 0), 0);
	while (!to_urxe_qp(x.rcv)->resp.res_pending)
		CU_ASSERT_FATAL(pair_step(&x.p));
	CU_ASSERT_EQUAL(ibv_destroy_srq(x.srq[0]), 0);
	x.srq[0] = NULL;
	CU_ASSERT_EQUAL(outcome(&x), IBV_WC_REM_ACCESS_ERR);
	xrc_close(&x);
}

/* The packets of a message name one SRQ: a peer that changes it meanwhile is refused (A14). */
static void test_srq_changes(void)
{
	struct pair_params pp = plain;
	struct ibv_wc wc;
	struct urxe_sq *sq;
	struct xrc x;

	pp.link.bandwidth = 1000000000;
	xrc_open(&x, &pp);
	post_recv(&x, 0, 1, 0, 0x40000);
	post_recv(&x, 1, 2, 0x40000, 0x40000);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_SEND, x.srqn[0], 1, 0, 0x40000, 0), 0);
	while (!to_urxe_qp(x.rcv)->resp.in_recv)
		CU_ASSERT_FATAL(pair_step(&x.p));
	sq = &to_urxe_qp(x.snd)->sq;
	urxe_sq_at(sq, sq->done)->remote_qpn = x.srqn[1];
	CU_ASSERT_EQUAL(outcome(&x), IBV_WC_REM_INV_REQ_ERR);
	CU_ASSERT_EQUAL(ibv_poll_cq(x.srq_cq[0], 1, &wc), 1);
	CU_ASSERT(wc.wr_id == 1 && wc.status != IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_poll_cq(x.srq_cq[1], 1, &wc), 0);
	xrc_close(&x);
}

static void test_domains(void)
{
	char name[] = "/tmp/urxe-xrc-XXXXXX";
	int fd = mkstemp(name), fd2 = open(name, O_RDONLY);
	struct ibv_xrcd *one, *two;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct pair p;
	struct ibv_context *ctx2;

	pair_open(&p, &plain, IBV_QPT_RC);
	ctx2 = ibv_open_device(&p.b.dev->vdev.device);
	errno = 0;
	CU_ASSERT(xrc_open_xrcd(p.b.ctx, fd, 0) == NULL);
	CU_ASSERT_EQUAL(errno, EAGAIN);
	CU_ASSERT(xrc_open_xrcd(p.b.ctx, 9999, O_CREAT) == NULL);
	CU_ASSERT_EQUAL(errno, EBADF);
	CU_ASSERT(xrc_open_xrcd(p.b.ctx, fd, O_CREAT | O_TRUNC) == NULL);
	CU_ASSERT_EQUAL(errno, EINVAL);
	one = xrc_open_xrcd(p.b.ctx, fd, O_CREAT | O_EXCL);
	CU_ASSERT_FATAL(one != NULL);
	CU_ASSERT(xrc_open_xrcd(ctx2, fd2, O_CREAT | O_EXCL) == NULL);
	CU_ASSERT_EQUAL(errno, EINVAL);
	two = xrc_open_xrcd(ctx2, fd2, 0);
	CU_ASSERT_FATAL(two != NULL);

	/* It is one domain: a QP of the one finds SRQs of the other. */
	srq = xrc_make_srq(&p.b, p.b.pd, one, p.b.cq);
	qp = xrc_make_recv(&p.b, two);
	CU_ASSERT_FATAL(srq && qp);
	CU_ASSERT(to_urxe_qp(qp)->domain == to_urxe_srq(srq)->domain);
	CU_ASSERT_EQUAL(ibv_close_xrcd(one), EBUSY);
	CU_ASSERT_EQUAL(ibv_close_xrcd(two), EBUSY);
	CU_ASSERT_EQUAL(ibv_destroy_srq(srq), 0);
	CU_ASSERT_EQUAL(ibv_close_xrcd(one), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(qp), 0);
	CU_ASSERT_EQUAL(ibv_close_xrcd(two), 0);
	/* and gone with its last user */
	CU_ASSERT(xrc_open_xrcd(p.b.ctx, fd, 0) == NULL);
	CU_ASSERT_EQUAL(errno, EAGAIN);
	ibv_close_device(ctx2);
	close(fd);
	close(fd2);
	unlink(name);
	pair_close(&p);
}

/* While a domain is open its file's inode is no other file's: it stays though the file is removed.
 */
static void test_file_stays(void)
{
	char name[] = "/tmp/urxe-xrc-XXXXXX", event[sizeof(struct inotify_event) + NAME_MAX + 1];
	int fd = mkstemp(name), gone = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct flock lock = {.l_type = F_WRLCK};
	struct ibv_xrcd *xrcd;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	CU_ASSERT(inotify_add_watch(gone, name, IN_DELETE_SELF) >= 0);
	CU_ASSERT_EQUAL(fcntl(fd, F_SETLK, &lock), 0);
	xrcd = xrc_open_xrcd(p.b.ctx, fd, O_CREAT);
	CU_ASSERT_FATAL(xrcd != NULL);
	CU_ASSERT_EQUAL(ibv_close_xrcd(xrcd), 0);
	/* The program's lock, which it would lose by any close(2) of the file, is still there. */
	CU_ASSERT_EQUAL(fcntl(fd, F_OFD_GETLK, &lock), 0);
	CU_ASSERT_EQUAL(lock.l_type, F_WRLCK);
	xrcd = xrc_open_xrcd(p.b.ctx, fd, O_CREAT);
	CU_ASSERT_FATAL(xrcd != NULL);
	close(fd);
	unlink(name);
	CU_ASSERT(read(gone, event, sizeof(event)) < 0);
	CU_ASSERT_EQUAL(ibv_close_xrcd(xrcd), 0);
	CU_ASSERT(read(gone, event, sizeof(event)) > 0);
	close(gone);
	pair_close(&p);
}

static bool event_waits(struct ibv_context *ctx)
{
	struct pollfd pfd = {.fd = ctx->async_fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

static void expect_event(struct ibv_context *ctx, struct ibv_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event ev;

	CU_ASSERT_FATAL(event_waits(ctx));
	CU_ASSERT_EQUAL(ibv_get_async_event(ctx, &ev), 0);
	CU_ASSERT_EQUAL(ev.event_type, type);
	CU_ASSERT(ev.element.qp == qp);
	ibv_ack_async_event(&ev);
}

static void test_open_qp(void)
{
	struct ibv_qp_open_attr oa = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						   IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
				      .qp_context = &oa,
				      .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp_init_attr init;
	struct ibv_context *ctx2;
	struct ibv_qp_attr attr;
	struct ibv_xrcd *other;
	struct ibv_qp *second;
	struct xrc x;

	xrc_open(&x, &plain);
	ctx2 = ibv_open_device(&x.p.b.dev->vdev.device);
	oa.xrcd = x.xrcd;
	oa.qp_num = x.rcv->qp_num + 1;
	CU_ASSERT(ibv_open_qp(ctx2, &oa) == NULL);
	CU_ASSERT_EQUAL(errno, EINVAL);
	oa.qp_num = x.rcv->qp_num;
	other = xrc_open_xrcd(x.p.b.ctx, -1, 0);
	oa.xrcd = other;
	CU_ASSERT(ibv_open_qp(ctx2, &oa) == NULL);
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT_EQUAL(ibv_close_xrcd(other), 0);
	oa.xrcd = x.xrcd;
	second = ibv_open_qp(ctx2, &oa);
	CU_ASSERT_FATAL(second != NULL);
	CU_ASSERT(second != x.rcv && second->qp_context == &oa);
	CU_ASSERT_EQUAL(ibv_query_qp(second, &attr, IBV_QP_STATE, &init), 0);
	CU_ASSERT_EQUAL(attr.qp_state, IBV_QPS_RTS);

	/* The maker leaves; the QP lives on for the other. */
	CU_ASSERT_EQUAL(ibv_destroy_qp(x.rcv), 0);
	x.rcv = second;
	CU_ASSERT_EQUAL(post(&x, IBV_WR_RDMA_WRITE, x.srqn[0], 1, 0, 100, 0), 0);
	CU_ASSERT_EQUAL(outcome(&x), IBV_WC_SUCCESS);
	/* Events go to all who have it open. */
	oa.qp_context = NULL;
	second = ibv_open_qp(x.p.b.ctx, &oa);
	CU_ASSERT_FATAL(second != NULL);
	CU_ASSERT_EQUAL(post(&x, IBV_WR_RDMA_WRITE, 0, 2, 0, 100, 0), 0);
	CU_ASSERT_EQUAL(outcome(&x), IBV_WC_REM_INV_REQ_ERR);
	expect_event(ctx2, x.rcv, IBV_EVENT_QP_LAST_WQE_REACHED);
	expect_event(ctx2, x.rcv, IBV_EVENT_QP_REQ_ERR);
	expect_event(x.p.b.ctx, second, IBV_EVENT_QP_LAST_WQE_REACHED);
	/* an unread event does not keep a handle alive */
	CU_ASSERT_EQUAL(ibv_destroy_qp(second), 0);
	CU_ASSERT(!event_waits(x.p.b.ctx));
	CU_ASSERT_EQUAL(ibv_destroy_qp(x.rcv), 0);
	x.rcv = NULL;
	ibv_close_device(ctx2);
	xrc_close(&x);
}

static void test_refused(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {.num_sge = 0}, *rbad;
	struct ibv_qp_init_attr_ex a = {.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp_init_attr plain_attr = {.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_srq_init_attr_ex sa = {.attr = {.max_wr = 1, .max_sge = 1},
					  .comp_mask =
						  IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = IBV_SRQT_XRC};
	uint32_t n;
	struct xrc x;

	xrc_open(&x, &plain);
	CU_ASSERT_NOT_EQUAL(ibv_post_send(x.rcv, &wr, &bad), 0);
	CU_ASSERT_NOT_EQUAL(ibv_post_recv(x.rcv, &rwr, &rbad), 0);
	CU_ASSERT_NOT_EQUAL(ibv_post_recv(x.snd, &rwr, &rbad), 0);
	CU_ASSERT(ibv_create_qp_ex(x.p.b.ctx, &a) == NULL);
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT(ibv_create_qp(x.p.b.pd, &plain_attr) == NULL);
	sa.pd = x.p.b.pd;
	CU_ASSERT(ibv_create_srq_ex(x.p.b.ctx, &sa) == NULL);
	CU_ASSERT_EQUAL(errno, EINVAL);
	sa.srq_type = IBV_SRQT_TM;
	CU_ASSERT(ibv_create_srq_ex(x.p.b.ctx, &sa) == NULL);
	CU_ASSERT_EQUAL(errno, EOPNOTSUPP);
	sa.srq_type = IBV_SRQT_BASIC;
	x.srq[1] = (ibv_destroy_srq(x.srq[1]), ibv_create_srq_ex(x.p.b.ctx, &sa));
	CU_ASSERT_FATAL(x.srq[1] != NULL);
	CU_ASSERT_EQUAL(ibv_get_srq_num(x.srq[1], &n), EINVAL);
	CU_ASSERT_EQUAL(ibv_destroy_srq(x.srq[1]), 0);
	x.srq[1] = NULL;
	xrc_close(&x);
}

URXE_TEST_MAIN("xrc", T(test_operations), T(test_bad_srqn), T(test_srq_goes),
	       T(test_srq_goes_under_read), T(test_srq_changes), T(test_domains),
	       T(test_file_stays), T(test_open_qp), T(test_refused))
