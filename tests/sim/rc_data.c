/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What RC carries: lengths around the MTU, many odd SGEs, inline data, messages of 2^31 bytes,
 * nothing at all; and in which order: fences, limits of READs, queues filled to the brim.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "forge.h"

static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					 IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};

static bool has_recv(enum ibv_wr_opcode op)
{
	return op != IBV_WR_RDMA_WRITE && op != IBV_WR_RDMA_READ;
}

static void fill(uint8_t *p, uint32_t len, unsigned salt)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 31 + (i >> 8) + salt);
}

/* One operation of each kind at one length; the byte behind stays as it is. */
static void one_length(struct pair *p, uint32_t len)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < 5; i++) {
		struct side *from = ops[i] == IBV_WR_RDMA_READ ? &p->b : &p->a,
			    *to = from == &p->a ? &p->b : &p->a;
		bool send = i < 2;
		uint32_t at = send ? 0x40000 : 0x20000;

		fill(from->buf + (from == &p->a ? 0 : 0x20000), len, i);
		memset(to->buf, 0xee, 0x80000);
		if (from == &p->b)
			at = 0;
		if (has_recv(ops[i]))
			pair_recv(&p->b, i, 0x40000, send ? len : 0);
		CU_ASSERT_EQUAL_FATAL(
			pair_post(&p->a, ops[i], i, 0, len, &p->b, 0x20000, IBV_SEND_SIGNALED), 0);
		CU_ASSERT_FATAL(pair_wait(p, p->a.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		CU_ASSERT(!memcmp(to->buf + at, from->buf + (from == &p->a ? 0 : 0x20000), len));
		CU_ASSERT_EQUAL(to->buf[at + len], 0xee);
		if (has_recv(ops[i])) {
			CU_ASSERT_FATAL(pair_wait(p, p->b.cq, &wc));
			CU_ASSERT(wc.status == IBV_WC_SUCCESS && wc.byte_len == len);
			CU_ASSERT_EQUAL(!!(wc.wc_flags & IBV_WC_WITH_IMM), i != 0);
		}
	}
}

static void test_lengths(void)
{
	static const uint32_t mtus[] = {256, 512, 1024, 2048, 4096};

	for (unsigned m = 0; m < 5; m++) {
		struct pair_params pp = {.seed = m, .mtu = mtus[m], .link = {.latency = 1000}};
		struct pair p;

		pair_open(&p, &pp, IBV_QPT_RC);
		for (uint32_t n = 0; n < 5; n++)
			for (int d = -5; d <= 5; d++)
				if (n * mtus[m] + (uint32_t)d < 0x10000)
					one_length(&p, n * mtus[m] + (uint32_t)d);
		one_length(&p, 0x10000);
		pair_close(&p);
	}
}

/* 32 SGEs on both sides, of odd lengths, some of them empty. */
static void test_many_sges(void)
{
	struct pair_params pp = {.seed = 4, .max_sge = 32, .link = {.latency = 1000}};
	struct ibv_sge s[32], d[32];
	uint8_t flat[2][0x8000];
	struct ibv_send_wr wr = {.sg_list = s, .num_sge = 32, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_recv_wr rwr = {.sg_list = d, .num_sge = 32}, *rbad;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	for (unsigned round = 0; round < 40; round++) {
		bool read = round & 1;
		struct side *from = read ? &p.b : &p.a;
		uint32_t len = 0, room = 0, n;

		fill(from->buf, 0x40000, round);
		for (unsigned i = 0; i < 32; i++) {
			s[i] = (struct ibv_sge){(uintptr_t)p.a.buf + i * 0x1000 + (round + i) % 7,
						i % 5 == 3 ? 0 : (round * 97 + i * 61) % 700,
						i % 5 == 3 ? 0 : p.a.mr->lkey};
			d[i] = (struct ibv_sge){(uintptr_t)p.b.buf + 0x40000 + i * 0x1000 + i % 3,
						(round * 53 + i * 89) % 900 + 300, p.b.mr->lkey};
			len += s[i].length;
			room += d[i].length;
		}
		CU_ASSERT_FATAL(len <= room && len < sizeof(flat[0]));
		wr.opcode = read ? IBV_WR_RDMA_READ : IBV_WR_SEND;
		wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf + 5;
		wr.wr.rdma.rkey = p.b.mr->rkey;
		if (!read)
			CU_ASSERT_EQUAL(ibv_post_recv(p.b.qp, &rwr, &rbad), 0);
		CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
		CU_ASSERT_FATAL(pair_wait(&p, p.a.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		if (!read)
			CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && wc.byte_len == len);
		n = 0;
		for (unsigned i = 0; i < 32; n += s[i++].length)
			memcpy(flat[0] + n, (void *)(uintptr_t)s[i].addr, s[i].length);
		if (read) {
			memcpy(flat[1], p.b.buf + 5, len);
		} else {
			n = 0;
			for (unsigned i = 0; i < 32 && n < len; i++) {
				uint32_t k = d[i].length < len - n ? d[i].length : len - n;

				memcpy(flat[1] + n, (void *)(uintptr_t)d[i].addr, k);
				n += k;
			}
		}
		CU_ASSERT(!memcmp(flat[0], flat[1], len));
	}
	wr.num_sge = 33;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), EINVAL);
	wr.num_sge = -1;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), EINVAL);
	rwr.num_sge = 33;
	CU_ASSERT_EQUAL(ibv_post_recv(p.b.qp, &rwr, &rbad), EINVAL);
	/* More than 2^31 in all. */
	wr.num_sge = 3;
	s[0].length = s[1].length = 0x40000000;
	s[2].length = 1;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), EINVAL);
	s[0].length = s[1].length = s[2].length = 0xffffffff;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), EINVAL);
	pair_close(&p);
}

static void test_inline(void)
{
	struct pair_params pp = {.seed = 4, .max_inline = 1024, .link = {.latency = 1000}};
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	for (uint32_t len = 0; len <= 1024; len += len < 8 ? 1 : 127) {
		fill(p.a.buf, len, len);
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, len, 0, len, &p.b, 0x100,
					  IBV_SEND_INLINE | IBV_SEND_SIGNALED),
				0);
		/* The buffer is the application's again at once. */
		memset(p.a.buf, 0xff, len);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
		fill(p.a.buf, len, len);
		CU_ASSERT(!memcmp(p.a.buf, p.b.buf + 0x100, len));
	}
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 1025, &p.b, 0, IBV_SEND_INLINE),
			EINVAL);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_READ, 1, 0, 8, &p.b, 0, IBV_SEND_INLINE),
			EINVAL);
	pair_close(&p);
}

/* The longest message there is (IBTA 9.2). A sanitizer, which needs minutes for it, gets an eighth.
 */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define HUGE_MSG (1u << 28)
#else
#define HUGE_MSG (1u << 31)
#endif

/* So much of the same 2 MiB, and all pages there at once: fault after fault takes a minute in VMs.
 */
static uint8_t *echo_map(int *fd)
{
	const size_t piece = 2u << 20, all = HUGE_MSG;
	uint8_t *p = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*fd = memfd_create("urxe-test", 0);
	CU_ASSERT_FATAL(p != MAP_FAILED && *fd >= 0 && !ftruncate(*fd, (off_t)piece));
	for (size_t at = 0; at < all; at += piece)
		CU_ASSERT_FATAL(mmap(p + at, piece, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_FIXED | MAP_POPULATE, *fd, 0) == p + at);
	return p;
}

/* @src to @dst, by who has the one or by who has the other. */
static void huge(enum ibv_wr_opcode op, uint8_t *src, uint8_t *dst)
{
	struct pair_params pp = {.seed = 4, .mtu = 4096, .link = {.latency = 1000}};
	struct ibv_mr *ms, *md;
	struct ibv_wc wc;
	struct pair p;
	bool read = op == IBV_WR_RDMA_READ;

	pair_open(&p, &pp, IBV_QPT_RC);
	fill(src, 2u << 20, (uint8_t)(3 + read));
	ms = ibv_reg_mr(read ? p.b.pd : p.a.pd, src, HUGE_MSG, IBV_ACCESS_REMOTE_READ);
	md = ibv_reg_mr(read ? p.a.pd : p.b.pd, dst, HUGE_MSG,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CU_ASSERT_FATAL(ms && md);
	struct ibv_mr *local = read ? md : ms, *remote = read ? ms : md;
	struct ibv_sge sge = {(uintptr_t)local->addr, HUGE_MSG, local->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)remote->addr, remote->rkey}},
			   *bad;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	if (read)
		CU_ASSERT_EQUAL(wc.byte_len, HUGE_MSG);
	CU_ASSERT(!memcmp(src, dst, 2u << 20));
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TIMEOUTS), 0);
	ibv_dereg_mr(ms);
	ibv_dereg_mr(md);
	pair_close(&p);
}

static void test_huge(void)
{
	int fd[2];
	uint8_t *src = echo_map(&fd[0]), *dst = echo_map(&fd[1]);

	huge(IBV_WR_RDMA_WRITE, src, dst);
	huge(IBV_WR_RDMA_READ, src, dst);
	munmap(src, HUGE_MSG);
	munmap(dst, HUGE_MSG);
	close(fd[0]);
	close(fd[1]);
}

/* ---- order ---- */

static unsigned count(struct raw_log *log, struct pair *p, uint8_t opcode)
{
	return raw_log_count(log, &p->a, opcode, -1);
}

/* A fenced request waits for the READs and ATOMICs before it, and what is behind waits too. */
static void test_fence(void)
{
	struct pair_params pp = {.seed = 4, .link = {.latency = 1000}};
	struct urxe_sim_params deaf = {.latency = 1000, .loss = 1};
	struct raw_log log;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	pair_meet(&p);
	raw_log_start(&log, &p);
	urxe_sim_end_params(p.b.end, &deaf);
	pair_post(&p.a, IBV_WR_RDMA_READ, 1, 0, 8, &p.b, 0, IBV_SEND_SIGNALED);
	pair_post(&p.a, IBV_WR_RDMA_WRITE, 2, 0, 8, &p.b, 0, IBV_SEND_SIGNALED);
	pair_post(&p.a, IBV_WR_RDMA_WRITE, 3, 0, 8, &p.b, 0, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	pair_post(&p.a, IBV_WR_RDMA_WRITE, 4, 0, 8, &p.b, 0, IBV_SEND_SIGNALED);
	pair_settle(&p, 1000000);
	CU_ASSERT_EQUAL(count(&log, &p, RC(READ_REQUEST)), 1);
	CU_ASSERT_EQUAL(count(&log, &p, RC(WRITE_ONLY)), 1);
	urxe_sim_end_params(p.b.end, &pp.link);
	for (unsigned i = 1; i <= 4; i++)
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.wr_id == i && !wc.status);
	raw_log_stop(&log);
	pair_close(&p);
}

static void test_rd_atomic_limit(void)
{
	for (uint8_t limit = 1; limit <= 4; limit++) {
		struct pair_params pp = {.seed = 4, .rd_atomic = limit, .link = {.latency = 1000}};
		struct urxe_sim_params deaf = {.latency = 1000, .loss = 1};
		struct raw_log log;
		struct ibv_wc wc;
		struct pair p;

		pair_open(&p, &pp, IBV_QPT_RC);
		pair_meet(&p);
		raw_log_start(&log, &p);
		urxe_sim_end_params(p.b.end, &deaf);
		for (unsigned i = 0; i < 10; i++)
			pair_post(&p.a, i & 1 ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ, i,
				  64 * i, 8, &p.b, 0, IBV_SEND_SIGNALED);
		pair_settle(&p, 1000000);
		CU_ASSERT_EQUAL(count(&log, &p, RC(READ_REQUEST)) + count(&log, &p, RC(FETCH_ADD)),
				limit);
		urxe_sim_end_params(p.b.end, &pp.link);
		for (unsigned i = 0; i < 10; i++)
			CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.wr_id == i && !wc.status);
		raw_log_stop(&log);
		pair_close(&p);
	}
}

/* The queue is full, few ask for completions: what is done makes room. */
static void test_selective_signalling(void)
{
	struct pair_params pp = {.seed = 4, .max_wr = 16, .link = {.latency = 1000}};
	unsigned done = 0, full = 0;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	for (unsigned i = 0; i < 1000;) {
		int err = pair_post(&p.a, IBV_WR_RDMA_WRITE, i, 0, 100, &p.b, 0,
				    i % 8 == 7 ? IBV_SEND_SIGNALED : 0);

		if (err) {
			CU_ASSERT_EQUAL(err, ENOMEM);
			full++;
			CU_ASSERT_FATAL(pair_step(&p));
		} else {
			i++;
		}
		while (ibv_poll_cq(p.a.cq, 1, &wc) == 1)
			CU_ASSERT(!wc.status && wc.wr_id == 8ull * done++ + 7);
	}
	while (done < 125 && pair_wait(&p, p.a.cq, &wc))
		CU_ASSERT(!wc.status && wc.wr_id == 8ull * done++ + 7);
	CU_ASSERT_EQUAL(done, 125);
	CU_ASSERT(full > 0);
	pair_close(&p);
}

static void test_sig_all(void)
{
	struct pair_params pp = {.seed = 4, .sig_all = true, .link = {.latency = 1000}};
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	for (unsigned i = 0; i < 5; i++)
		pair_post(&p.a, IBV_WR_RDMA_WRITE, i, 0, 100, &p.b, 0, 0);
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.wr_id == i);
	pair_close(&p);
}

/* Two contexts of one device talk to each other without a wire; so does a QP with itself. */
static void test_own_address(void)
{
	struct pair_params pp = {.seed = 4, .link = {.latency = 1000}};
	struct ibv_qp *q[2];
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	ibv_destroy_qp(p.a.qp);
	q[0] = pair_qp(&p.a, &pp, IBV_QPT_RC);
	q[1] = pair_qp(&p.a, &pp, IBV_QPT_RC);
	pair_connect(&p, &p.a, q[0], &p.a, q[1], &pp);
	p.a.qp = q[0];
	fill(p.a.buf, 50000, 1);
	CU_ASSERT_EQUAL(
		pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 50000, &p.a, 0x20000, IBV_SEND_SIGNALED),
		0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && !wc.status);
	CU_ASSERT(!memcmp(p.a.buf, p.a.buf + 0x20000, 50000));
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_READ, 2, 0x40000, 50000, &p.a, 0x20000,
				  IBV_SEND_SIGNALED),
			0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && !wc.status);
	CU_ASSERT(!memcmp(p.a.buf, p.a.buf + 0x40000, 50000));
	ibv_destroy_qp(q[1]);
	pair_close(&p);
}

URXE_TEST_MAIN("rc_data", T(test_lengths), T(test_many_sges), T(test_inline), T(test_huge),
	       T(test_fence), T(test_rd_atomic_limit), T(test_selective_signalling),
	       T(test_sig_all), T(test_own_address))
