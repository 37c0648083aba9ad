/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libfabric and UCX overwrite the code of munmap() and its friends while a program runs, to see
 * each call. A thread that is inside of one at that moment comes back into the middle of a jump.
 * The application's own threads are the application's business; ours must never be there. So all
 * of these are overwritten here, the way it is done there, again and again, and with a function
 * that looks at who calls. Run by `urxe run --port loop`.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cm_rdma.h"
#include "urxe/free.h"
#include "urxe/thread.h"

#define ROUNDS 40
#define QPS    64
#define BLOCKS 8
#define BLOCK  (64u << 20) /* malloc() maps each for itself */
#define DEEP   8192	   /* work requests: rings that malloc() maps each for itself */

static atomic_uint calls[6];  /* by anybody */
static atomic_uint caught[6]; /* by threads of ours */
static char who[16];

static void look(unsigned i)
{
	char name[16] = "";

	atomic_fetch_add(&calls[i], 1);
	prctl(PR_GET_NAME, name);
	if (strncmp(name, "urxe/", 5))
		return;
	memcpy(who, name, sizeof(who));
	atomic_fetch_add(&caught[i], 1);
}

static long to_munmap(long a, long b)
{
	look(0);
	return syscall(SYS_munmap, a, b);
}

static long to_mmap(long a, long b, long c, long d, long e, long f)
{
	look(1);
	return syscall(SYS_mmap, a, b, c, d, e, f);
}

static long to_mremap(long a, long b, long c, long d, long e)
{
	look(2);
	return syscall(SYS_mremap, a, b, c, d, e);
}

static long to_madvise(long a, long b, long c)
{
	look(3);
	return syscall(SYS_madvise, a, b, c);
}

static long to_shmdt(long a)
{
	look(4);
	return syscall(SYS_shmdt, a);
}

extern void *__curbrk; /* libc's own mark, which sbrk() goes by */

static long to_brk(long a)
{
	look(5);
	__curbrk = (void *)syscall(SYS_brk, a);
	return (long)__curbrk < a ? -1 : 0;
}

#define JUMP 13

static struct target {
	const char *name;
	uintptr_t to;
	uint8_t *code;
	uint8_t was[JUMP];
} targets[] = {
	{.name = "munmap", .to = (uintptr_t)to_munmap},
	{.name = "mmap", .to = (uintptr_t)to_mmap},
	{.name = "mremap", .to = (uintptr_t)to_mremap},
	{.name = "madvise", .to = (uintptr_t)to_madvise},
	{.name = "shmdt", .to = (uintptr_t)to_shmdt},
	{.name = "brk", .to = (uintptr_t)to_brk},
};
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

/* Over the pages of a function's beginning, without a word to other threads. */
static void write_code(uint8_t *at, const uint8_t *bytes)
{
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;

	CU_ASSERT_FATAL(!syscall(SYS_mprotect, page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC));
	memcpy(at, bytes, JUMP);
	CU_ASSERT_FATAL(!syscall(SYS_mprotect, page, 8192, PROT_READ | PROT_EXEC));
}

static void patch(void)
{
	for (unsigned i = 0; i < TARGETS; i++) {
		uint8_t jump[JUMP] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};

		memcpy(jump + 2, &targets[i].to, 8); /* movabs $to,%r11; jmp *%r11 */
		write_code(targets[i].code, jump);
	}
}

static void unpatch(void)
{
	for (unsigned i = 0; i < TARGETS; i++)
		write_code(targets[i].code, targets[i].was);
}

static void find_targets(void)
{
	for (unsigned i = 0; i < TARGETS; i++) {
		targets[i].code = dlsym(RTLD_DEFAULT, targets[i].name);
		CU_ASSERT_PTR_NOT_NULL_FATAL(targets[i].code);
		if (targets[i].code)
			memcpy(targets[i].was, targets[i].code, JUMP);
	}
}

/* Queue pairs with large rings, as many as a program has that looks for what can be had. */
static void many_qps(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr ia = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEEP, .max_recv_wr = DEEP, .max_recv_sge = 4}};
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp[QPS];

	for (unsigned i = 0; i < QPS; i++) {
		qp[i] = ibv_create_qp(pd, &ia);
		CU_ASSERT_PTR_NOT_NULL_FATAL(qp[i]);
	}
	CU_ASSERT_EQUAL(
		ibv_modify_qp(qp[0], &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	for (unsigned n = 0; n < DEEP / 2; n++)
		CU_ASSERT_EQUAL_FATAL(ibv_post_recv(qp[0], &wr, &bad), 0);
	for (unsigned i = 0; i < QPS; i++)
		CU_ASSERT_EQUAL(ibv_destroy_qp(qp[i]), 0);
}

static struct {
	sem_t go, done, end;
	void *block[BLOCKS];
} other;

/* Its own end is in libc: madvise() of its stack. */
static void *give_back(void *unused)
{
	sem_wait(&other.go);
	for (unsigned i = 0; i < BLOCKS; i++)
		urxe_free(other.block[i]);
	sem_post(&other.done);
	sem_wait(&other.end);
	return unused;
}

/* What a thread of ours frees, be it large, waits for one of the application's. */
static void blocks_of_others(void)
{
	unsigned before;
	pthread_t t;

	CU_ASSERT_FATAL(!sem_init(&other.go, 0, 0) && !sem_init(&other.done, 0, 0) &&
			!sem_init(&other.end, 0, 0));
	for (unsigned i = 0; i < BLOCKS; i++)
		CU_ASSERT_PTR_NOT_NULL_FATAL(other.block[i] = malloc(BLOCK));
	CU_ASSERT_EQUAL_FATAL(urxe_thread_start(&t, "urxe/test", give_back, NULL), 0);
	patch();
	sem_post(&other.go);
	sem_wait(&other.done);
	before = atomic_load(&calls[0]);
	urxe_free_rest();
	CU_ASSERT(atomic_load(&calls[0]) > before);
	unpatch();
	sem_post(&other.end);
	pthread_join(t, NULL);
}

static void our_threads_stay_out(void)
{
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct pair p;

	find_targets();
	pair_open(&p, "10.0.0.1");
	id = p.client;
	cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(cq);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct pair p2;

		patch();
		many_qps(id->pd, cq);
		pair_open(&p2, "10.0.0.1");
		pair_close(&p2);
		unpatch();
	}
	blocks_of_others();
	for (unsigned i = 0; i < TARGETS; i++) {
		if (atomic_load(&caught[i]))
			printf("\n    %s: %u calls by %s\n", targets[i].name,
			       atomic_load(&caught[i]), who);
		CU_ASSERT_EQUAL(atomic_load(&caught[i]), 0);
	}
	/* It was the code that runs. */
	CU_ASSERT(atomic_load(&calls[0]) && atomic_load(&calls[1]) &&
		  atomic_load(&calls[5]) > ROUNDS);
	CU_ASSERT_EQUAL(ibv_destroy_cq(cq), 0);
	pair_close(&p);
}

/* A sanitizer has its own functions in place of these. */
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_PATCH 0
#else
#define CAN_PATCH 1
#endif

static void test(void)
{
	if (CAN_PATCH)
		our_threads_stay_out();
	else
		urxe_harness_skip("the code of this build's munmap() cannot be overwritten");
}

URXE_TEST_MAIN("patched", T(test))
