/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions of every kind, registered again, paged, without memory, on a device's or a file's;
 * and the domains they live in.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/udmabuf.h>

#include "harness.h"
#include "pair.h"
#include "flush.h"
#include "progress.h"

#define LW IBV_ACCESS_LOCAL_WRITE
#define RW IBV_ACCESS_REMOTE_WRITE
#define RR IBV_ACCESS_REMOTE_READ

static void pair_of(struct pair *p, uint64_t seed)
{
	struct pair_params pp = {.seed = seed, .link = {.latency = 5000}};

	pair_open(p, &pp, IBV_QPT_RC);
}

/* One WRITE or READ of @len bytes by a, at an address behind a key of b. */
static enum ibv_wc_status rdma(struct pair *p, enum ibv_wr_opcode op, uint32_t rkey, uint64_t va,
			       uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)p->a.buf, len, p->a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = va, .rkey = rkey}},
			   *bad;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	CU_ASSERT_EQUAL(ibv_post_send(p->a.qp, &wr, &bad), 0);
	CU_ASSERT(pair_wait(p, p->a.cq, &wc));
	return wc.status;
}

static enum ibv_wc_status write_to(struct pair *p, uint32_t rkey, uint64_t va, uint32_t len)
{
	return rdma(p, IBV_WR_RDMA_WRITE, rkey, va, len);
}

static void refuse(struct ibv_pd *pd, void *addr, size_t len, int access, int err)
{
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_reg_mr(pd, addr, len, access));
	CU_ASSERT_EQUAL(errno, err);
}

static void test_access(void)
{
	static const int good[] = {0,
				   LW,
				   RR,
				   LW | RW,
				   LW | IBV_ACCESS_REMOTE_ATOMIC,
				   LW | RR | RW | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
				   IBV_ACCESS_RELAXED_ORDERING | LW,
				   IBV_ACCESS_OPTIONAL_RANGE,
				   IBV_ACCESS_HUGETLB | LW,
				   URXEDV_ACCESS_FLUSH_GLOBAL | LW,
				   IBV_ACCESS_ON_DEMAND | LW};
	struct pair p;
	void *hole, *ro;

	pair_of(&p, 1);
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct ibv_mr *mr = ibv_reg_mr(p.b.pd, p.b.buf, 100, good[i]);

		CU_ASSERT_FATAL(mr != NULL);
		CU_ASSERT(mr->addr == p.b.buf && mr->length == 100 && mr->pd == p.b.pd);
		CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	}
	refuse(p.b.pd, p.b.buf, 100, RW, EINVAL);
	refuse(p.b.pd, p.b.buf, 100, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
	refuse(p.b.pd, p.b.buf, 100, 1 << 15, EOPNOTSUPP);
	refuse(p.b.pd, (void *)(UINTPTR_MAX - 50), 100, LW, EINVAL);
	refuse(p.b.pd, NULL, SIZE_MAX, LW, EINVAL);
	/* Persistence is nothing that this memory could give. */
	refuse(p.b.pd, p.b.buf, 100, LW | URXEDV_ACCESS_FLUSH_PERSISTENT, EINVAL);
	/* Memory that is not there, or cannot be written. */
	hole = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ro = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap((char *)hole + 4096, 4096);
	refuse(p.b.pd, hole, 8192, LW, EFAULT);
	refuse(p.b.pd, ro, 8192, LW, EFAULT);
	munmap(hole, 4096);
	refuse(p.b.pd, hole, 4096, 0, EFAULT);
	struct ibv_mr *mr = ibv_reg_mr(p.b.pd, ro, 8192, RR);
	CU_ASSERT(mr && !ibv_dereg_mr(mr));
	munmap(ro, 8192);
	pair_close(&p);
}

/* Of a large one only the pages that are not there are asked for; and what is true of each is. */
static void test_large(void)
{
	enum {
		PAGE = 4096,
		PAGES = 5000
	};
	static unsigned char there[PAGES];
	unsigned present = 0;
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;

	pair_of(&p, 1);
	mem = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CU_ASSERT_FATAL(mem != MAP_FAILED);
	for (unsigned i = 0; i < PAGES; i++) {
		if (i != 3 && (i < 4090 || i > 4100) && i != PAGES - 1)
			mem[i * PAGE] = 1;
	}
	mr = ibv_reg_mr(p.b.pd, mem, PAGES * PAGE, LW);
	CU_ASSERT_FATAL(mr != NULL);
	CU_ASSERT_EQUAL(mincore(mem, PAGES * PAGE, there), 0);
	for (unsigned i = 0; i < PAGES; i++)
		present += there[i] & 1;
	CU_ASSERT_EQUAL(present, PAGES);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);

	CU_ASSERT_EQUAL(mprotect(mem + 4200 * PAGE, PAGE, PROT_READ), 0);
	refuse(p.b.pd, mem, PAGES * PAGE, LW, EFAULT);
	mr = ibv_reg_mr(p.b.pd, mem, PAGES * PAGE, RR);
	CU_ASSERT(mr && !ibv_dereg_mr(mr));
	munmap(mem + 4200 * PAGE, PAGE);
	refuse(p.b.pd, mem, PAGES * PAGE, RR, EFAULT);
	munmap(mem, PAGES * PAGE);
	pair_close(&p);
}

static void test_zero_based(void)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_of(&p, 1);
	memset(p.a.buf, 'z', 64);
	mr = ibv_reg_mr(p.b.pd, p.b.buf + 0x1000, 0x1000, LW | RW | IBV_ACCESS_ZERO_BASED);
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, 0xff8, 8), IBV_WC_SUCCESS);
	CU_ASSERT(p.b.buf[0x1ff8] == 'z' && p.b.buf[0x1fff] == 'z');
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, (uintptr_t)p.b.buf + 0x1000, 8),
			IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	pair_close(&p);

	pair_of(&p, 2);
	mr = ibv_reg_mr_iova2(p.b.pd, p.b.buf, 0x1000, 0xdead0000, LW | RW);
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, 0xdead0010, 8), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_reg_mr_iova2(p.b.pd, p.b.buf, 0x1000, UINT64_MAX - 10, LW));
	CU_ASSERT_EQUAL(errno, EINVAL);
	pair_close(&p);
}

static void test_rereg(void)
{
	struct ibv_pd *pd2;
	struct ibv_mr *mr;
	uint32_t lkey, rkey;
	struct pair p;

	pair_of(&p, 1);
	memset(p.a.buf, 'r', 64);
	pd2 = ibv_alloc_pd(p.b.ctx);
	mr = ibv_reg_mr(p.b.pd, p.b.buf, 0x1000, LW);
	lkey = mr->lkey;
	rkey = mr->rkey;
	/* A failure leaves it as it was. */
	CU_ASSERT_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RW),
			IBV_REREG_MR_ERR_CMD);
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT_EQUAL(ibv_rereg_mr(mr, 8, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	CU_ASSERT_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, p.a.pd, NULL, 0, 0),
			IBV_REREG_MR_ERR_CMD);
	CU_ASSERT_EQUAL(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 4096, 0),
		IBV_REREG_MR_ERR_CMD);
	CU_ASSERT_EQUAL(errno, EFAULT);
	CU_ASSERT_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW | RW), 0);
	CU_ASSERT_EQUAL(write_to(&p, rkey, (uintptr_t)p.b.buf, 8), IBV_WC_SUCCESS);
	/* The keys stay, the place changes. */
	CU_ASSERT_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p.b.buf + 0x8000,
				     0x1000, 0),
			0);
	CU_ASSERT(mr->lkey == lkey && mr->rkey == rkey && mr->addr == p.b.buf + 0x8000);
	CU_ASSERT_EQUAL(write_to(&p, rkey, (uintptr_t)p.b.buf + 0x8ff8, 8), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(p.b.buf[0x8fff], 'r');
	/* To the other domain and back: there it is nothing to the QP. It counts where it is. */
	CU_ASSERT_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd2, NULL, 0, 0), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(pd2), EBUSY);
	CU_ASSERT_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, p.b.pd, NULL, 0, 0), 0);
	CU_ASSERT_EQUAL(write_to(&p, rkey, (uintptr_t)p.b.buf + 0x8000, 8), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd2, NULL, 0, 0), 0);
	CU_ASSERT_EQUAL(write_to(&p, rkey, (uintptr_t)p.b.buf + 0x8000, 8), IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(pd2), 0);
	pair_close(&p);
}

/* Reads of it are zeros, what is written to it is gone, and no peer can name it. */
static void test_null(void)
{
	struct ibv_sge sge[2];
	struct ibv_recv_wr rwr = {.sg_list = sge, .num_sge = 2}, *rbad;
	struct ibv_send_wr wr = {.sg_list = sge,
				 .num_sge = 2,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_mr *null_a, *null_b;
	struct ibv_wc wc;
	struct pair p;

	pair_of(&p, 1);
	null_a = ibv_alloc_null_mr(p.a.pd);
	null_b = ibv_alloc_null_mr(p.b.pd);
	CU_ASSERT_FATAL(null_a && null_b);
	memset(p.a.buf, 'n', 8192);
	memset(p.b.buf, 'o', 8192);
	sge[0] = (struct ibv_sge){0, 1500, null_a->lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)p.a.buf, 1500, p.a.mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf;
	wr.wr.rdma.rkey = p.b.mr->rkey;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(!p.b.buf[0] && !p.b.buf[1499] && p.b.buf[1500] == 'n' && p.b.buf[2999] == 'n' &&
		  p.b.buf[3000] == 'o');
	/* The head of a message to nowhere. */
	sge[0] = (struct ibv_sge){0x1234, 100, null_b->lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)p.b.buf, 100, p.b.mr->lkey};
	CU_ASSERT_EQUAL(ibv_post_recv(p.b.qp, &rwr, &rbad), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 1, 0, 150, &p.b, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT(p.b.buf[49] == 'n' && p.b.buf[50] == 0);
	CU_ASSERT_EQUAL(write_to(&p, null_b->rkey, 0, 8), IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(null_a);
	ibv_dereg_mr(null_b);
	pair_close(&p);
}

/* Pages may be missing when a region on demand is made, come, and go again. */
static void test_on_demand(void)
{
	struct ibv_mr *mr, *all;
	struct ibv_sge sge;
	uint8_t *mem;
	struct ibv_pd *pd2;
	struct pair p;

	pair_of(&p, 1);
	memset(p.a.buf, 'd', 64);
	mem = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(mem, 1 << 20);
	mr = ibv_reg_mr(p.b.pd, mem, 1 << 20, LW | RW | RR | IBV_ACCESS_ON_DEMAND);
	CU_ASSERT_FATAL(mr != NULL);
	sge = (struct ibv_sge){(uintptr_t)mem, 4096, mr->lkey};
	CU_ASSERT_EQUAL(ibv_advise_mr(p.b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
				      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			EFAULT);
	mmap(mem, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, (uintptr_t)mem + 4090, 12), IBV_WC_SUCCESS);
	CU_ASSERT(mem[4090] == 'd' && mem[4101] == 'd');
	CU_ASSERT_EQUAL(rdma(&p, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)mem + 0x80000, 64),
			IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(p.a.buf[0], 0);
	CU_ASSERT_EQUAL(ibv_advise_mr(p.b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			0);
	CU_ASSERT_EQUAL(ibv_advise_mr(p.b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &sge, 1), EINVAL);
	CU_ASSERT_EQUAL(ibv_advise_mr(p.b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0), EINVAL);
	pd2 = ibv_alloc_pd(p.b.ctx);
	CU_ASSERT_EQUAL(ibv_advise_mr(pd2, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EPERM);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(pd2), 0);
	sge.length = (1 << 20) + 1;
	CU_ASSERT_EQUAL(ibv_advise_mr(p.b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	sge = (struct ibv_sge){(uintptr_t)p.b.buf, 1, p.b.mr->lkey};
	CU_ASSERT_EQUAL(ibv_advise_mr(p.b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
	/* All there is, without asking for a place: what is not there is refused, not run into. */
	all = ibv_reg_mr(p.b.pd, NULL, SIZE_MAX, LW | RW | IBV_ACCESS_ON_DEMAND);
	CU_ASSERT_FATAL(all != NULL);
	CU_ASSERT_EQUAL(write_to(&p, all->rkey, (uintptr_t)p.b.buf + 5, 8), IBV_WC_SUCCESS);
	munmap(mem, 1 << 20);
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, (uintptr_t)mem, 8), IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(all);
	pair_close(&p);

	for (unsigned i = 0; i < 4; i++) {
		static const uint64_t nowhere[] = {0, 8, 1ull << 63, UINT64_MAX - 8};

		pair_of(&p, i);
		all = ibv_reg_mr(p.b.pd, NULL, SIZE_MAX, LW | RW | IBV_ACCESS_ON_DEMAND);
		CU_ASSERT_EQUAL(write_to(&p, all->rkey, nowhere[i], 8), IBV_WC_REM_ACCESS_ERR);
		ibv_dereg_mr(all);
		pair_close(&p);
	}
}

static void test_device_memory(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_device_attr_ex dev;
	struct ibv_dm *dm, *all;
	struct ibv_mr *mr;
	uint32_t v[4] = {1, 2, 3, 4}, back[4];
	struct pair p;

	pair_of(&p, 1);
	CU_ASSERT_EQUAL(ibv_query_device_ex(p.b.ctx, NULL, &dev), 0);
	dm = ibv_alloc_dm(p.b.ctx, &attr);
	CU_ASSERT_FATAL(dm != NULL);
	CU_ASSERT_EQUAL(ibv_memcpy_to_dm(dm, 0x800, v, 16), 0);
	CU_ASSERT_EQUAL(ibv_memcpy_from_dm(back, dm, 0x804, 12), 0);
	CU_ASSERT_EQUAL(back[0], 2);
	CU_ASSERT_EQUAL(ibv_memcpy_to_dm(dm, 1, v, 4), EINVAL);
	CU_ASSERT_EQUAL(ibv_memcpy_to_dm(dm, 0, v, 3), EINVAL);
	CU_ASSERT_EQUAL(ibv_memcpy_to_dm(dm, 4096, v, 4), EINVAL);
	CU_ASSERT_EQUAL(ibv_memcpy_from_dm(back, dm, UINT64_MAX - 3, 8), EINVAL);
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_reg_dm_mr(p.b.pd, dm, 0, 4096, LW));
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT_PTR_NULL(ibv_reg_dm_mr(p.b.pd, dm, 8, 4096, LW | IBV_ACCESS_ZERO_BASED));
	mr = ibv_reg_dm_mr(p.b.pd, dm, 0x800, 0x400, LW | RW | RR | IBV_ACCESS_ZERO_BASED);
	CU_ASSERT_FATAL(mr != NULL);
	CU_ASSERT_EQUAL(rdma(&p, IBV_WR_RDMA_READ, mr->rkey, 0, 16), IBV_WC_SUCCESS);
	CU_ASSERT(!memcmp(p.a.buf, v, 16));
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, 0x3f0, 16), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_memcpy_from_dm(back, dm, 0xbf0, 16), 0);
	CU_ASSERT(!memcmp(back, v, 16));
	CU_ASSERT_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW),
			IBV_REREG_MR_ERR_CMD);
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, 0x3f1, 16), IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(ibv_free_dm(dm), EBUSY);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	CU_ASSERT_EQUAL(ibv_free_dm(dm), 0);

	attr.length = dev.max_dm_size;
	attr.log_align_req = 12;
	all = ibv_alloc_dm(p.b.ctx, &attr);
	CU_ASSERT_FATAL(all != NULL);
	attr.length = 4;
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_alloc_dm(p.b.ctx, &attr));
	CU_ASSERT_EQUAL(errno, ENOMEM);
	CU_ASSERT_EQUAL(ibv_free_dm(all), 0);
	attr.length = dev.max_dm_size + 1;
	CU_ASSERT_PTR_NULL(ibv_alloc_dm(p.b.ctx, &attr));
	attr.length = 64;
	attr.log_align_req = 60;
	CU_ASSERT_PTR_NULL(ibv_alloc_dm(p.b.ctx, &attr));
	attr.log_align_req = 0;
	attr.comp_mask = 1;
	CU_ASSERT_PTR_NULL(ibv_alloc_dm(p.b.ctx, &attr));
	pair_close(&p);
}

static void use_dmabuf(int fd, size_t size)
{
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ibv_mr *mr;
	struct pair p;

	CU_ASSERT_FATAL(mem != MAP_FAILED);
	pair_of(&p, 1);
	memset(p.a.buf, 'b', 64);
	mr = ibv_reg_dmabuf_mr(p.b.pd, 0x1100, 0x2000, 0x10100, fd, LW | RW);
	CU_ASSERT_FATAL(mr != NULL);
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, 0x10100, 64), IBV_WC_SUCCESS);
	CU_ASSERT(mem[0x1100] == 'b' && mem[0x113f] == 'b' && !mem[0x1140] && !mem[0x10ff]);
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, 0x10100 + 0x1fff, 2), IBV_WC_REM_ACCESS_ERR);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_reg_dmabuf_mr(p.b.pd, size - 4, 8, 0, fd, LW));
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT_PTR_NULL(ibv_reg_dmabuf_mr(p.b.pd, UINT64_MAX - 4, 8, 0, fd, LW));
	CU_ASSERT_PTR_NULL(ibv_reg_dmabuf_mr(p.b.pd, 0, 8, 0, fd, RW));
	CU_ASSERT_PTR_NULL(ibv_reg_dmabuf_mr(p.b.pd, 0, 8, 0, -1, LW));
	CU_ASSERT_EQUAL(errno, EBADF);
	munmap(mem, size);
	pair_close(&p);
}

static void test_dmabuf(void)
{
	struct udmabuf_create create = {.size = 0x4000};
	int mem = memfd_create("mr", MFD_ALLOW_SEALING), dev = open("/dev/udmabuf", O_RDWR), fd;
	struct ibv_mr *mr;
	struct pair p;

	CU_ASSERT_EQUAL(ftruncate(mem, 0x4000), 0);
	use_dmabuf(mem, 0x4000);
	/* A file that shrinks under a region is refused, not run into. */
	pair_of(&p, 1);
	mr = ibv_reg_dmabuf_mr(p.b.pd, 0, 0x4000, 0, mem, LW | RW);
	CU_ASSERT_FATAL(mr != NULL);
	CU_ASSERT_EQUAL(ftruncate(mem, 0x1000), 0);
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, 0, 8), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(write_to(&p, mr->rkey, 0x2000, 8), IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(mr);
	pair_close(&p);
	if (dev >= 0) {
		CU_ASSERT_EQUAL(ftruncate(mem, 0), 0);
		CU_ASSERT_EQUAL(ftruncate(mem, 0x4000), 0);
		fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK);
		create.memfd = (uint32_t)mem;
		fd = ioctl(dev, UDMABUF_CREATE, &create);
		CU_ASSERT(fd >= 0);
		use_dmabuf(fd, 0x4000);
		close(fd);
		close(dev);
	}
	close(mem);
}

/* FLUSH to persistence, of memory that a file holds. */
static void test_flush_persistent(void)
{
	const int access = LW | RW | URXEDV_ACCESS_FLUSH_GLOBAL | URXEDV_ACCESS_FLUSH_PERSISTENT;
	struct pair_params pp = {.seed = 1, .link = {.latency = 5000}};
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC,
					   .cap = {.max_send_wr = 4, .max_recv_wr = 4},
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = URXEDV_QP_EX_WITH_FLUSH};
	struct ibv_qp_attr attr = {.qp_access_flags = (unsigned)access};
	int fd = memfd_create("mr", 0);
	struct ibv_qp_ex *x;
	struct ibv_qp *qb;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct pair p;
	void *mem;

	CU_ASSERT_EQUAL(ftruncate(fd, 8192), 0);
	mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pair_open(&p, &pp, IBV_QPT_RC);
	init.send_cq = init.recv_cq = p.a.cq;
	init.pd = p.a.pd;
	x = ibv_qp_to_qp_ex(ibv_create_qp_ex(p.a.ctx, &init));
	qb = pair_qp(&p.b, &pp, IBV_QPT_RC);
	pair_connect(&p, &p.a, &x->qp_base, &p.b, qb, &pp);
	mr = ibv_reg_mr(p.b.pd, mem, 8192, access);
	CU_ASSERT_FATAL(mr != NULL);
	for (int allowed = 1; allowed >= 0; allowed--) {
		/* Asked of the QP as of the region. */
		attr.qp_access_flags = allowed ? (unsigned)access : LW | RW;
		CU_ASSERT_EQUAL(ibv_modify_qp(qb, &attr, IBV_QP_ACCESS_FLAGS), 0);
		ibv_wr_start(x);
		x->wr_flags = IBV_SEND_SIGNALED;
		urxedv_wr_flush(x, mr->rkey, (uintptr_t)mem + 100, 5000,
				URXEDV_FLUSH_GLOBAL | URXEDV_FLUSH_PERSISTENT, URXEDV_FLUSH_RANGE);
		CU_ASSERT_EQUAL(ibv_wr_complete(x), 0);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		if (allowed)
			CU_ASSERT_EQUAL((int)wc.opcode, URXEDV_WC_FLUSH);
	}
	ibv_destroy_qp(&x->qp_base);
	ibv_destroy_qp(qb);
	ibv_dereg_mr(mr);
	munmap(mem, 8192);
	close(fd);
	pair_close(&p);
}

/* QPs on which FLUSH can be asked for, and memory of a file at b. */
struct flush_rig {
	struct pair p;
	struct ibv_qp_ex *x;
	struct ibv_qp *qb;
	struct ibv_mr *mr;
	uint64_t *mem;
};

static void flush_open(struct flush_rig *r, bool threaded)
{
	const int access = LW | RW | URXEDV_ACCESS_FLUSH_GLOBAL | URXEDV_ACCESS_FLUSH_PERSISTENT;
	struct pair_params pp = {
		.seed = 1, .link = {.latency = 5000}, .timeout = 12, .threaded = threaded};
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 64, .max_recv_wr = 4, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = URXEDV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_ATOMIC_WRITE};
	struct ibv_qp_attr attr = {.qp_access_flags = (unsigned)access};
	int fd = memfd_create("mr", 0);

	CU_ASSERT_EQUAL(ftruncate(fd, 8192), 0);
	r->mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	pair_open(&r->p, &pp, IBV_QPT_RC);
	init.send_cq = init.recv_cq = r->p.a.cq;
	init.pd = r->p.a.pd;
	r->x = ibv_qp_to_qp_ex(ibv_create_qp_ex(r->p.a.ctx, &init));
	r->qb = pair_qp(&r->p.b, &pp, IBV_QPT_RC);
	pair_connect(&r->p, &r->p.a, &r->x->qp_base, &r->p.b, r->qb, &pp);
	CU_ASSERT_EQUAL(ibv_modify_qp(r->qb, &attr, IBV_QP_ACCESS_FLAGS), 0);
	r->mr = ibv_reg_mr(r->p.b.pd, r->mem, 8192, access);
	CU_ASSERT_FATAL(r->mr != NULL);
}

static void flush_close(struct flush_rig *r)
{
	ibv_destroy_qp(&r->x->qp_base);
	if (r->qb)
		ibv_destroy_qp(r->qb);
	ibv_dereg_mr(r->mr);
	munmap(r->mem, 8192);
	pair_close(&r->p);
}

/* Two FLUSHes, each with a WRITE and an ATOMIC WRITE behind it; wr_ids from 1 on. */
static void flush_post(struct flush_rig *r)
{
	static const uint64_t value = 42;

	memcpy(r->p.a.buf, &value, sizeof(value));
	ibv_wr_start(r->x);
	r->x->wr_flags = IBV_SEND_SIGNALED;
	for (unsigned i = 0; i < 2; i++) {
		r->x->wr_id = 3 * i + 1;
		urxedv_wr_flush(r->x, r->mr->rkey, (uintptr_t)r->mem, 4096, URXEDV_FLUSH_PERSISTENT,
				URXEDV_FLUSH_RANGE);
		r->x->wr_id = 3 * i + 2;
		ibv_wr_rdma_write(r->x, r->mr->rkey, (uintptr_t)&r->mem[2 * i]);
		ibv_wr_set_sge(r->x, r->p.a.mr->lkey, (uintptr_t)r->p.a.buf, sizeof(value));
		r->x->wr_id = 3 * i + 3;
		ibv_wr_atomic_write(r->x, r->mr->rkey, (uintptr_t)&r->mem[2 * i + 1], &value);
	}
	CU_ASSERT_EQUAL(ibv_wr_complete(r->x), 0);
}

/* Time passes, but no FLUSH is carried out. */
static void flush_stuck(struct flush_rig *r, uint64_t ns)
{
	uint64_t end = urxe_sim_now(r->p.sim) + ns;

	while (urxe_sim_now(r->p.sim) < end) {
		while (urxe_progress_turn(r->p.a.dev) + urxe_progress_turn(r->p.b.dev) > 0)
			;
		urxe_sim_advance(r->p.sim, urxe_sim_now(r->p.sim) + 10000);
	}
}

/* While a FLUSH takes its time nothing behind it is executed, and all other QPs go on. */
static void test_flush_waits(void)
{
	struct flush_rig r;
	struct ibv_wc wc;

	flush_open(&r, false);
	pair_meet(&r.p);
	flush_post(&r);
	flush_stuck(&r, 1000000);
	CU_ASSERT_EQUAL(ibv_poll_cq(r.p.a.cq, 1, &wc), 0);
	CU_ASSERT(!r.mem[0] && !r.mem[1]);
	CU_ASSERT_EQUAL(
		pair_post(&r.p.a, IBV_WR_RDMA_WRITE, 99, 0, 8, &r.p.b, 0, IBV_SEND_SIGNALED), 0);
	flush_stuck(&r, 1000000);
	CU_ASSERT(ibv_poll_cq(r.p.a.cq, 1, &wc) == 1 && wc.wr_id == 99 && !wc.status);
	/* Longer than the requester waits: it asks again, nothing is done twice. */
	flush_stuck(&r, 50000000);
	CU_ASSERT(pair_stat(&r.p.a, URXE_STAT_TIMEOUTS) > 0);
	CU_ASSERT_EQUAL(ibv_poll_cq(r.p.a.cq, 1, &wc), 0);
	CU_ASSERT(urxe_flush_run(r.p.b.dev) && !urxe_flush_run(r.p.b.dev));
	flush_stuck(&r, 1000000);
	/* The first is answered and what was behind it done; now it is the other's turn. */
	for (unsigned i = 1; i <= 3; i++)
		CU_ASSERT(ibv_poll_cq(r.p.a.cq, 1, &wc) == 1 && wc.wr_id == i && !wc.status);
	CU_ASSERT_EQUAL(ibv_poll_cq(r.p.a.cq, 1, &wc), 0);
	CU_ASSERT(r.mem[0] == 42 && r.mem[1] == 42 && !r.mem[2] && !r.mem[3]);
	for (unsigned i = 4; i <= 6; i++)
		CU_ASSERT(pair_wait(&r.p, r.p.a.cq, &wc) && wc.wr_id == i && !wc.status);
	CU_ASSERT(r.mem[2] == 42 && r.mem[3] == 42);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_TX_NAK_SEQ), 0);
	flush_close(&r);
}

/* What it waits for is gone: memory unmapped, or the QP in error, reset, destroyed meanwhile. */
static void test_flush_interrupted(void)
{
	for (unsigned how = 0; how < 4; how++) {
		struct flush_rig r;
		struct ibv_wc wc;

		flush_open(&r, false);
		pair_meet(&r.p);
		flush_post(&r);
		flush_stuck(&r, 1000000);
		if (how == 0) {
			munmap(r.mem, 8192);
			CU_ASSERT(pair_wait(&r.p, r.p.a.cq, &wc) && wc.wr_id == 1 &&
				  wc.status == IBV_WC_REM_OP_ERR);
			CU_ASSERT_EQUAL(pair_state(r.qb), IBV_QPS_ERR);
		} else if (how == 3) {
			ibv_destroy_qp(r.qb);
			r.qb = NULL;
		} else {
			pair_modify(r.qb, how == 1 ? IBV_QPS_ERR : IBV_QPS_RESET);
		}
		if (how == 1)
			CU_ASSERT(urxe_flush_run(r.p.b.dev));
		flush_close(&r);
	}
}

/* With the threads of real devices. */
static void test_flush_thread(void)
{
	struct flush_rig r;
	struct ibv_wc wc;
	int n;

	flush_open(&r, true);
	flush_post(&r);
	for (unsigned i = 1; i <= 6; i++) {
		while (!(n = ibv_poll_cq(r.p.a.cq, 1, &wc)))
			;
		CU_ASSERT(n == 1 && wc.wr_id == i && !wc.status);
	}
	CU_ASSERT(r.mem[0] == 42 && r.mem[1] == 42 && r.mem[2] == 42 && r.mem[3] == 42);
	flush_close(&r);
}

/* ---- parent domains ---- */

struct heap {
	unsigned allocs, frees, fail_at;
	bool defer;
	uint64_t types;
};

static void *heap_alloc(struct ibv_pd *pd, void *ctx, size_t size, size_t align, uint64_t type)
{
	struct heap *h = ctx;
	void *p = NULL;

	h->types |= 1ull << type;
	if (h->defer)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (++h->allocs == h->fail_at || posix_memalign(&p, align, size))
		return NULL;
	return p;
}

static void heap_free(struct ibv_pd *pd, void *ctx, void *ptr, uint64_t type)
{
	struct heap *h = ctx;

	h->frees++;
	free(ptr);
}

static void use_parent(struct heap *h)
{
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = heap_alloc,
		.free = heap_free,
		.pd_context = h,
	};
	struct pair_params pp = {.seed = 1, .link = {.latency = 5000}};
	struct ibv_cq_init_attr_ex cqa = {.cqe = 100, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_attr resize = {.max_wr = 100};
	struct ibv_td_init_attr tda = {0};
	struct ibv_pd *parent, *root;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p, &pp, IBV_QPT_RC);
	root = p.a.pd;
	attr.pd = root;
	attr.td = ibv_alloc_td(p.a.ctx, &tda);
	parent = ibv_alloc_parent_domain(p.a.ctx, &attr);
	CU_ASSERT_FATAL(attr.td && parent);
	CU_ASSERT_EQUAL(ibv_dealloc_td(attr.td), EBUSY);
	/* What is made in the parent domain works with what is made in the root. */
	ibv_destroy_qp(p.a.qp);
	ibv_destroy_qp(p.b.qp);
	p.a.pd = parent;
	p.a.qp = pair_qp(&p.a, &pp, IBV_QPT_RC);
	p.b.qp = pair_qp(&p.b, &pp, IBV_QPT_RC);
	p.a.pd = root;
	pair_connect(&p, &p.a, p.a.qp, &p.b, p.b.qp, &pp);
	CU_ASSERT_PTR_EQUAL(p.a.qp->pd, parent);
	CU_ASSERT_EQUAL(write_to(&p, p.b.mr->rkey, (uintptr_t)p.b.buf, 64), IBV_WC_SUCCESS);
	mr = ibv_reg_mr(parent, p.a.buf, 64, LW);
	cqa.parent_domain = parent;
	cq = ibv_create_cq_ex(p.a.ctx, &cqa);
	srq = ibv_create_srq(parent, &sa);
	CU_ASSERT_FATAL(mr && cq && srq);
	CU_ASSERT_EQUAL(ibv_modify_srq(srq, &resize, IBV_SRQ_MAX_WR), 0);
	CU_ASSERT_EQUAL(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 1000), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(parent), EBUSY);
	CU_ASSERT_EQUAL(h->types, 1 << URXEDV_RES_SQ | 1 << URXEDV_RES_RQ | 1 << URXEDV_RES_SRQ |
					  1 << URXEDV_RES_CQ);
	CU_ASSERT_EQUAL(h->allocs, h->defer ? 0 : 6);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	CU_ASSERT_EQUAL(ibv_destroy_srq(srq), 0);
	CU_ASSERT_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(p.a.qp), 0);
	p.a.qp = NULL;
	CU_ASSERT_EQUAL(h->frees, h->allocs);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(root), EBUSY);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(parent), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_td(attr.td), 0);
	pair_close(&p);
}

static void test_parent_domain(void)
{
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = heap_alloc,
		.free = heap_free,
	};
	struct ibv_qp_init_attr qa = {.qp_type = IBV_QPT_RC,
				      .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_cq_init_attr_ex cqa = {.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
	struct heap own = {0}, defer = {.defer = true};
	struct ibv_pd *parent;
	struct pair p;

	use_parent(&own);
	use_parent(&defer);
	pair_of(&p, 1);
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_alloc_parent_domain(p.a.ctx, &attr));
	CU_ASSERT_EQUAL(errno, EINVAL);
	attr.pd = p.b.pd;
	CU_ASSERT_PTR_NULL(ibv_alloc_parent_domain(p.a.ctx, &attr));
	cqa.parent_domain = p.a.pd; /* is none */
	CU_ASSERT_PTR_NULL(ibv_create_cq_ex(p.a.ctx, &cqa));
	CU_ASSERT_EQUAL(errno, EINVAL);
	/* Whichever allocation fails, nothing stays behind. */
	attr.pd = p.a.pd;
	for (unsigned i = 1; i <= 2; i++) {
		struct heap h = {.fail_at = i};

		attr.pd_context = &h;
		parent = ibv_alloc_parent_domain(p.a.ctx, &attr);
		qa.send_cq = qa.recv_cq = p.a.cq;
		errno = 0;
		CU_ASSERT_PTR_NULL(ibv_create_qp(parent, &qa));
		CU_ASSERT_EQUAL(errno, ENOMEM);
		CU_ASSERT_EQUAL(h.frees, i - 1);
		CU_ASSERT_EQUAL(ibv_dealloc_pd(parent), 0);
	}
	pair_close(&p);
}

URXE_TEST_MAIN("mr", T(test_access), T(test_large), T(test_zero_based), T(test_rereg), T(test_null),
	       T(test_on_demand), T(test_device_memory), T(test_dmabuf), T(test_flush_persistent),
	       T(test_flush_waits), T(test_flush_interrupted), T(test_flush_thread),
	       T(test_parent_domain))
