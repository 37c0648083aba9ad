/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory, descriptors or threads run out: at each place of each call once. The call fails with the
 * errno that says of what, what was half made is gone again (the leak checker sees to that), and
 * the next attempt works.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "pair.h"
#include "status_path.h"

/* The linker sends the provider's and netio's calls here (--wrap). */
static int fail_at = -1; /* this many more go well; -1: all */
static bool failed;
static int failure;		  /* its errno */
static _Thread_local bool tester; /* threads of the device have all they want */

static bool out_of(int err)
{
	if (!tester || fail_at < 0 || fail_at--)
		return false;
	failed = true;
	failure = errno = err;
	return true;
}

static bool out_of_memory(void)
{
	return out_of(ENOMEM);
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__real_urxe_slab_get(struct urxe_slab *s, size_t zero);
void *__wrap_urxe_slab_get(struct urxe_slab *s, size_t zero);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static void *none(void)
{
	errno = ENOMEM;
	return NULL;
}
void *__wrap_malloc(size_t n)
{
	return out_of_memory() ? none() : __real_malloc(n);
}

/* Most of what a slab gives takes none of these. */
void *__wrap_urxe_slab_get(struct urxe_slab *s, size_t zero)
{
	return out_of_memory() ? NULL : __real_urxe_slab_get(s, zero);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return out_of_memory() ? none() : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
	return out_of_memory() ? none() : __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return out_of_memory() ? none() : __real_aligned_alloc(align, n);
}

void *__real_mmap64(void *addr, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t n, int prot, int flags, int fd, off_t offset);
int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __real_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags);
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

void *__wrap_mmap64(void *addr, size_t n, int prot, int flags, int fd, off_t offset)
{
	return out_of_memory() ? MAP_FAILED : __real_mmap64(addr, n, prot, flags, fd, offset);
}
int __wrap_eventfd(unsigned count, int flags)
{
	return out_of(EMFILE) ? -1 : __real_eventfd(count, flags);
}
int __wrap_pipe2(int fds[2], int flags)
{
	return out_of(EMFILE) ? -1 : __real_pipe2(fds, flags);
}
int __wrap_open64(const char *path, int flags, ...)
{
	mode_t mode = 0;

	if (flags & O_CREAT) {
		va_list ap;

		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	return out_of(EMFILE) ? -1 : __real_open64(path, flags, mode);
}
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	return out_of(EAGAIN) ? EAGAIN : __real_pthread_create(t, attr, fn, arg);
}

static const struct pair_params params = {.seed = 5, .link = {.latency = 1000}};
static struct pair p;

/* Each makes something and undoes it; 0 or errno. */
static int make_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(p.a.ctx);

	return pd ? ibv_dealloc_pd(pd) : errno;
}

static int make_mr(void)
{
	struct ibv_mr *mr = ibv_reg_mr(p.a.pd, p.a.buf, 4096, 0);

	return mr ? ibv_dereg_mr(mr) : errno;
}

/* A dma-buf, or what is as good as one. */
static int make_dmabuf_mr(void)
{
	int fd = memfd_create("create_fail", MFD_CLOEXEC), err;
	struct ibv_mr *mr;

	CU_ASSERT_FATAL(fd >= 0 && !ftruncate(fd, 4096));
	mr = ibv_reg_dmabuf_mr(p.a.pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE);
	err = mr ? ibv_dereg_mr(mr) : errno;
	close(fd);
	return err;
}

static int make_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = memfd_create("create_fail", MFD_CLOEXEC),
					  .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(p.a.ctx, &attr);
	int err = xrcd ? ibv_close_xrcd(xrcd) : errno;

	close(attr.fd);
	return err;
}

static int make_context(void)
{
	struct ibv_context *ctx = ibv_open_device(&p.a.dev->vdev.device);

	return ctx ? ibv_close_device(ctx) : errno;
}

static int make_channel(void)
{
	struct ibv_comp_channel *ch = urxe_channel_create(p.a.ctx);

	return ch ? urxe_channel_destroy(ch) : errno;
}

static int make_cq(void)
{
	struct ibv_cq *cq = ibv_create_cq(p.a.ctx, 100, NULL, NULL, 0);
	int err;

	if (!cq)
		return errno;
	err = ibv_resize_cq(cq, 1000);
	/* A failed resize leaves it as it was. */
	CU_ASSERT_EQUAL(cq->cqe >= 1000, !err);
	ibv_destroy_cq(cq);
	return err;
}

static int make_srq(void)
{
	struct ibv_srq_init_attr ia = {.attr = {.max_wr = 10, .max_sge = 2}};
	struct ibv_srq_attr at = {.max_wr = 100};
	struct ibv_srq *srq = ibv_create_srq(p.a.pd, &ia);
	int err;

	if (!srq)
		return errno;
	err = ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR);
	ibv_query_srq(srq, &at);
	CU_ASSERT_EQUAL(at.max_wr == 100, !err);
	ibv_destroy_srq(srq);
	return err;
}

static int make_ah(void)
{
	struct ibv_ah_attr attr = pair_path(&p.a, &p.b);
	struct ibv_ah *ah;

	attr.grh.dgid.raw[15] ^= 0x80; /* a neighbour not known yet */
	ah = ibv_create_ah(p.a.pd, &attr);
	return ah ? ibv_destroy_ah(ah) : errno;
}

static int make_qp(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct ibv_qp_init_attr ia = {.send_cq = p.a.cq,
				      .recv_cq = p.a.cq,
				      .cap = {.max_send_wr = 10,
					      .max_recv_wr = 10,
					      .max_send_sge = 2,
					      .max_recv_sge = 2}};

	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp *qp;

		ia.qp_type = types[i];
		qp = ibv_create_qp(p.a.pd, &ia);
		if (!qp)
			return errno;
		ibv_destroy_qp(qp);
	}
	return 0;
}

/* In what a transition to RTR sets. */
static bool same(const struct ibv_qp_attr *a, const struct ibv_qp_attr *b)
{
	return a->qp_state == b->qp_state && a->path_mtu == b->path_mtu &&
	       a->dest_qp_num == b->dest_qp_num && a->rq_psn == b->rq_psn &&
	       a->max_dest_rd_atomic == b->max_dest_rd_atomic &&
	       a->min_rnr_timer == b->min_rnr_timer &&
	       !memcmp(&a->ah_attr.grh.dgid, &b->ah_attr.grh.dgid, sizeof(union ibv_gid));
}

/* The QP itself is made in peace. */
static int bring_up(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1}, before, after;
	int err, later = fail_at;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;

	fail_at = -1;
	qp = pair_qp(&p.a, &params, IBV_QPT_RC);

	CU_ASSERT_EQUAL(
		ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	a.qp_state = IBV_QPS_RTR;
	a.ah_attr = pair_path(&p.a, &p.b);
	a.path_mtu = IBV_MTU_1024;
	a.max_dest_rd_atomic = 4;
	ibv_query_qp(qp, &before, 0xffff, &init);
	fail_at = later;
	err = ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	fail_at = -1;
	ibv_query_qp(qp, &after, 0xffff, &init);
	if (err)
		CU_ASSERT(same(&before, &after));
	ibv_destroy_qp(qp);
	return err;
}

static void each_allocation(int (*make)(void))
{
	int n = 0, err;

	pair_open(&p, &params, IBV_QPT_RC);
	do {
		failed = false;
		fail_at = n;
		err = make();
		fail_at = -1;
		CU_ASSERT_EQUAL(err, failed ? failure : 0);
		CU_ASSERT_EQUAL_FATAL(make(), 0);
	} while (failed && ++n < 100);
	CU_ASSERT(n > 0 && n < 100);
	pair_close(&p);
}

static void test_pd(void)
{
	each_allocation(make_pd);
}
static void test_mr(void)
{
	each_allocation(make_mr);
}
static void test_dmabuf_mr(void)
{
	each_allocation(make_dmabuf_mr);
}
static void test_xrcd(void)
{
	each_allocation(make_xrcd);
}
static void test_context(void)
{
	each_allocation(make_context);
}
static void test_channel(void)
{
	each_allocation(make_channel);
}
static void test_cq(void)
{
	each_allocation(make_cq);
}
static void test_srq(void)
{
	each_allocation(make_srq);
}
static void test_ah(void)
{
	each_allocation(make_ah);
}
static void test_qp(void)
{
	each_allocation(make_qp);
}
static void test_modify(void)
{
	each_allocation(bring_up);
}

/* Many QPs: tables and heap grow, and each growth fails once. */
static void test_growth(void)
{
	struct ibv_qp *qps[300];
	unsigned n = 0;

	pair_open(&p, &params, IBV_QPT_RC);
	while (n < 300) {
		struct ibv_qp_init_attr ia = {
			.send_cq = p.a.cq, .recv_cq = p.a.cq, .qp_type = IBV_QPT_RC};

		for (int k = 0; k < 8; k++) {
			struct ibv_qp *qp;

			failed = false;
			fail_at = k;
			qp = ibv_create_qp(p.a.pd, &ia);
			fail_at = -1;
			if (!qp) {
				CU_ASSERT(failed && errno == ENOMEM);
			} else if (n < 300) {
				qps[n++] = qp;
			} else {
				ibv_destroy_qp(qp);
			}
		}
	}
	while (n)
		ibv_destroy_qp(qps[--n]);
	pair_close(&p);
}

/* Once refused for want of memory, then taken. */
static void post_one(struct side *s, uint64_t i, bool recv)
{
	int err;

	failed = false;
	fail_at = 0;
	err = recv ? pair_recv(s, i, 16 * (uint32_t)i, 16)
		   : pair_post(s, IBV_WR_SEND, i, 16 * (uint32_t)i, 16, NULL, 0, 0);
	fail_at = -1;
	CU_ASSERT(!err || (err == ENOMEM && failed));
	if (err && recv)
		err = pair_recv(s, i, 16 * (uint32_t)i, 16);
	else if (err)
		err = pair_post(s, IBV_WR_SEND, i, 16 * (uint32_t)i, 16, NULL, 0, 0);
	CU_ASSERT_EQUAL_FATAL(err, 0);
}

/* Queues that cannot grow: what was posted stays. */
static void test_post(void)
{
	struct ibv_wc wc;

	pair_open(&p, &params, IBV_QPT_RC);
	for (unsigned i = 0; i < 100 * 16; i++)
		p.a.buf[i] = (uint8_t)(i * 7);
	for (unsigned i = 0; i < 100; i++) {
		post_one(&p.b, i, true);
		post_one(&p.a, i, false);
	}
	CU_ASSERT_EQUAL(to_urxe_qp(p.b.qp)->own_rq.ring.size, 128);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && wc.status == IBV_WC_SUCCESS &&
			  wc.wr_id == i);
	CU_ASSERT(!memcmp(p.a.buf, p.b.buf, 100 * 16));
	pair_close(&p);
}

/* A READ for whose resources there is no memory is as good as lost, and comes again. */
static void test_resources(void)
{
	struct ibv_wc wc;
	int n = 0;

	pair_open(&p, &params, IBV_QPT_RC);
	memset(p.b.buf, 0x5a, 100);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_READ, 1, 0, 100, &p.b, 0, IBV_SEND_SIGNALED),
			0);
	while (!pair_stat(&p.b, URXE_STAT_RX_NO_MEMORY) && n < 1000) {
		fail_at = n++ & 1;
		pair_step(&p);
	}
	fail_at = -1;
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_NO_MEMORY), 1);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(!memcmp(p.a.buf, p.b.buf, 100));
	pair_close(&p);
}

/* A device that cannot be made, at each step of it. @threaded: threads of its own are among them.
 */
static void each_step(bool threaded, int least)
{
	struct urxe_port_config cfg = {
		.name = "x", .port = "sim", .mtu = 1024, .vlan = URXE_NO_VLAN, .num_ips = 1};
	struct urxe_device *dev;
	struct urxe_sim_end *end;
	struct urxe_sim *sim;
	int n = 0, err;

	cfg.ips[0] = (struct urxe_config_ip){
		.ipv4 = true, .prefix_len = 24, .gid = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, threaded), 0);
	do {
		end = urxe_sim_end(sim, NULL);
		failed = false;
		fail_at = n;
		err = urxe_device_create(&dev, &cfg, &urxe_link_sim_ops, end, threaded);
		if (!err) {
			err = urxe_device_start(dev);
			fail_at = -1;
			/* A failed start may be tried again. */
			if (err)
				CU_ASSERT_EQUAL(urxe_device_start(dev), 0);
			urxe_device_destroy(dev);
		}
		fail_at = -1;
		if (err != (failed ? failure : 0))
			printf("\n    step %d: %s, not %s\n", n, strerror(err), strerror(failure));
		CU_ASSERT_EQUAL(err, failed ? failure : 0);
	} while (failed && ++n < 200);
	CU_ASSERT(n > least);
	urxe_sim_destroy(sim);
}

/* First of all: that of RCU is started once a process. */
static void test_threads(void)
{
	each_step(true, 7);
}

static void test_device(void)
{
	each_step(false, 5);
}

/* The configuration; what was read of it is freed. */
static void test_config(void)
{
	static struct urxe_config cfg;
	struct urxe_config_settings s;
	char err[512];
	int n = 0, ret;

	do {
		memset(&s, 0, sizeof(s));
		failed = false;
		fail_at = n;
		ret = urxe_config_add_text(&s,
					   "[urxe]\nlog = info\n[a]\nport = loop\nmtu = 1024\n"
					   "ip = 10.0.0.1/24\n",
					   "f", err, sizeof(err));
		if (!ret)
			ret = urxe_config_resolve(&s, &cfg, err, sizeof(err));
		fail_at = -1;
		CU_ASSERT_EQUAL(ret, failed ? ENOMEM : 0);
		urxe_config_settings_free(&s);
	} while (failed && ++n < 100);
	CU_ASSERT_EQUAL(n, 4);
	CU_ASSERT_EQUAL(cfg.devices[0].mtu, 1024);
}

/* Nobody is to ask over a socket, which a device can do without. */
__attribute__((constructor)) static void set_up(void)
{
	tester = true;
	setenv(URXE_STATUS_ENV, "", 1);
}

URXE_TEST_MAIN("create_fail", T(test_threads), T(test_pd), T(test_mr), T(test_dmabuf_mr),
	       T(test_xrcd), T(test_context), T(test_channel), T(test_cq), T(test_srq), T(test_ah),
	       T(test_qp), T(test_modify), T(test_growth), T(test_post), T(test_resources),
	       T(test_device), T(test_config))
