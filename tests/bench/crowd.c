/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Processes that share an address and a machine, by verbs alone: children of one, each of which
 * opens the device itself.
 *
 *	crowd pairs|all PROCESSES SIZE SECONDS	RDMA WRITEs of each to its partner, or to all others
 *						in turn, a batch at a time; of all together: M/s
 *	crowd lat ROUNDS			2 B RDMA WRITEs to and fro, by who polls its CQ
 *						meanwhile: half of a round trip, median: us
 *	crowd open COUNT			from exec to ibv_open_device(), median: ms
 *	crowd idle SECONDS			CPU of a process with a connected, idle QP: %
 *
 * Each prints one number.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"

#define MOST	64
#define BATCH	32
#define LARGE	4096 /* bytes of a message from which on a batch is an eighth */
#define WINDOW	128  /* work requests under way in a QP */
#define POLLED	32
#define WARM	12	  /* batches to each: more than a first ring has room for */
#define PATIENT 10000000u /* ns for a nap */

/* What the children share: each tells every other one about a QP for it. */
struct shared {
	_Atomic unsigned ready[4];
	_Atomic bool stop;
	_Atomic uint64_t done;
	struct {
		uint32_t qpn, rkey;
		uint64_t addr;
		union ibv_gid gid;
	} end[MOST][MOST];
};

struct peer {
	struct ibv_qp *qp;
	unsigned posted, under_way, unsignaled;
	uint64_t addr;
	uint32_t rkey;
};

struct node {
	unsigned self, all;
	unsigned batch;
	uint32_t size;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct peer peer[MOST];
};

static struct shared *shared;

static void nap(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	nanosleep(&t, NULL);
}

/* Until all are here. */
static void meet(unsigned which, unsigned all)
{
	atomic_fetch_add(&shared->ready[which], 1);
	while (atomic_load(&shared->ready[which]) < all)
		nap(PATIENT / 10);
}

/* ---- a process ---- */

static bool talks(const struct node *n, bool pairs, unsigned to)
{
	return pairs ? to == (n->self ^ 1) : to != n->self;
}

static void open_device(struct node *n)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	measure_need(list && list[0], "no device");
	n->ctx = ibv_open_device(list[0]);
	measure_need(n->ctx, "open");
	ibv_free_device_list(list);
	n->pd = ibv_alloc_pd(n->ctx);
	n->cq = ibv_create_cq(n->ctx, WINDOW * MOST, NULL, NULL, 0);
	measure_need(n->pd && n->cq, "objects");
}

static void make_memory(struct node *n)
{
	size_t len = (size_t)n->size * 2;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	measure_need(p != MAP_FAILED, "memory");
	memset(p, 0xff, len);
	n->mr = ibv_reg_mr(n->pd, p, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	measure_need(n->mr, "MR");
}

static void make_qp(struct node *n, unsigned to)
{
	struct ibv_qp_init_attr init = {.send_cq = n->cq,
					.recv_cq = n->cq,
					.qp_type = IBV_QPT_RC,
					.cap = {WINDOW, 1, 1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp *qp = ibv_create_qp(n->pd, &init);

	measure_need(qp, "QP");
	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	measure_need(!errno, "INIT");
	n->peer[to].qp = qp;
	shared->end[n->self][to].qpn = qp->qp_num;
	shared->end[n->self][to].rkey = n->mr->rkey;
	shared->end[n->self][to].addr = (uintptr_t)n->mr->addr + n->size;
	measure_need(!ibv_query_gid(n->ctx, 1, 0, &shared->end[n->self][to].gid), "GID");
}

static void connect_qp(struct node *n, unsigned to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = shared->end[to][n->self].qpn,
		.min_rnr_timer = 12,
		.ah_attr = {.grh = {.dgid = shared->end[to][n->self].gid, .hop_limit = 64},
			    .is_global = 1,
			    .port_num = 1}};
	struct peer *p = &n->peer[to];

	errno = ibv_modify_qp(p->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	measure_need(!errno, "RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 17;
	attr.retry_cnt = attr.rnr_retry = 7;
	errno = ibv_modify_qp(p->qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	measure_need(!errno, "RTS");
	p->addr = shared->end[to][n->self].addr;
	p->rkey = shared->end[to][n->self].rkey;
}

static void join(struct node *n, bool pairs)
{
	open_device(n);
	make_memory(n);
	for (unsigned to = 0; to < n->all; to++) {
		if (talks(n, pairs, to))
			make_qp(n, to);
	}
	meet(0, n->all);
	for (unsigned to = 0; to < n->all; to++) {
		if (talks(n, pairs, to))
			connect_qp(n, to);
	}
	meet(1, n->all);
}

/* The last of a batch has a completion. */
static void post_batch(struct node *n, unsigned to)
{
	struct ibv_sge sge = {(uintptr_t)n->mr->addr, n->size, n->mr->lkey};
	struct ibv_send_wr wr[BATCH], *bad;
	struct peer *p = &n->peer[to];

	for (unsigned i = 0; i < n->batch; i++) {
		wr[i] = (struct ibv_send_wr){.wr_id = to,
					     .next = i < n->batch - 1 ? &wr[i + 1] : NULL,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags =
						     i == n->batch - 1 ? IBV_SEND_SIGNALED : 0};
		wr[i].wr.rdma.remote_addr = p->addr;
		wr[i].wr.rdma.rkey = p->rkey;
	}
	errno = ibv_post_send(p->qp, wr, &bad);
	measure_need(!errno, "post");
	p->under_way += n->batch;
}

/* How many work requests were completed. */
static uint64_t reap(struct node *n)
{
	struct ibv_wc wc[POLLED];
	int got = ibv_poll_cq(n->cq, POLLED, wc);

	measure_need(got >= 0, "poll");
	for (int i = 0; i < got; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "crowd: %s\n", ibv_wc_status_str(wc[i].status));
			exit(1);
		}
		n->peer[wc[i].wr_id].under_way -= n->batch;
	}
	return (uint64_t)got * n->batch;
}

/*
 * Rings are made at first use, and their pages as they are used: of a thousand rings that takes as
 * long as is measured, and has a row of its own.
 */
static void warm_up(struct node *n)
{
	for (unsigned i = 0; i < WARM; i++) {
		for (unsigned to = 0; to < n->all; to++) {
			if (n->peer[to].qp)
				post_batch(n, to);
		}
		for (unsigned to = 0; to < n->all; to++) {
			while (n->peer[to].under_way)
				reap(n);
		}
	}
	atomic_fetch_add(&shared->ready[3], 1);
	while (atomic_load(&shared->ready[3]) < n->all)
		reap(n);
}

/* One batch under way to each is enough where there are many. */
static unsigned window(const struct node *n, bool pairs)
{
	return pairs || n->all <= 4 ? 4 * n->batch : n->batch;
}

/* Until it is over; who is done goes on polling for the others. */
static void run(struct node *n, bool pairs)
{
	unsigned most = window(n, pairs), busy = 1;
	uint64_t done = 0;
	bool stop = false;

	while (!stop || busy) {
		stop = atomic_load_explicit(&shared->stop, memory_order_relaxed);
		busy = 0;
		for (unsigned i = 1; i < n->all; i++) {
			unsigned to = (n->self + i) % n->all;

			if (!n->peer[to].qp)
				continue;
			if (!stop && n->peer[to].under_way + n->batch <= most)
				post_batch(n, to);
			busy += n->peer[to].under_way;
		}
		done += reap(n) * !stop;
	}
	atomic_fetch_add(&shared->done, done);
	atomic_fetch_add(&shared->ready[2], 1);
	while (atomic_load(&shared->ready[2]) < n->all)
		reap(n);
}

static void child(unsigned self, unsigned all, bool pairs, uint32_t size)
{
	struct node *n = calloc(1, sizeof(*n));

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	measure_need(n, "memory");
	n->self = self;
	n->all = all;
	n->size = size;
	n->batch = size < LARGE ? BATCH : BATCH / 8;
	join(n, pairs);
	warm_up(n);
	run(n, pairs);
	exit(0);
}

static int crowd(bool pairs, unsigned all, uint32_t size, double seconds)
{
	uint64_t start, end;
	int status, bad = 0;

	if (all < 2 || all > MOST || (pairs && all % 2) || !size)
		return 2;
	for (unsigned i = 0; i < all; i++) {
		pid_t pid = fork();

		measure_need(pid >= 0, "fork");
		if (!pid)
			child(i, all, pairs, size);
	}
	while (atomic_load(&shared->ready[3]) < all) {
		nap(PATIENT / 10);
		if (waitpid(-1, &status, WNOHANG) > 0)
			return 1;
	}
	start = measure_now();
	nap((uint64_t)(seconds * 1e9));
	atomic_store(&shared->stop, true);
	end = measure_now();
	while (wait(&status) > 0)
		bad |= status;
	printf("%.4f\n", (double)atomic_load(&shared->done) / (double)(end - start) * 1e3);
	return bad != 0;
}

/* ---- to and fro ---- */

/* The last of its bytes is written by the peer. */
static void await(struct node *n, uint8_t what)
{
	const volatile uint8_t *p = (const uint8_t *)n->mr->addr + n->size * 2 - 1;

	while (*p != what)
		reap(n);
}

static void say(struct node *n, uint8_t what)
{
	memset(n->mr->addr, what, n->size);
	post_batch(n, !n->self);
}

static void to_and_fro(unsigned self, unsigned rounds)
{
	struct node *n = calloc(1, sizeof(*n));
	uint64_t *t = calloc(rounds, sizeof(*t)), start;

	measure_need(n && t, "memory");
	n->self = self;
	n->all = 2;
	n->size = 2;
	n->batch = 1;
	join(n, true);
	measure_pin(
		self); /* not before: the device would take itself to have one processor alone */
	for (unsigned i = 0; i < rounds; i++) {
		start = measure_now();
		if (self)
			await(n, (uint8_t)i);
		say(n, (uint8_t)i);
		if (!self)
			await(n, (uint8_t)i);
		t[i] = measure_now() - start;
	}
	while (n->peer[!self].under_way)
		reap(n);
	if (!self)
		printf("%.3f\n", (double)measure_median(t, rounds) / 2e3);
	exit(0);
}

/* ---- one that does nothing ---- */

static double cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void idler(unsigned self, unsigned seconds)
{
	struct node *n = calloc(1, sizeof(*n));
	double before;

	measure_need(n, "memory");
	n->self = self;
	n->all = 2;
	n->size = 64;
	n->batch = 1;
	join(n, true);
	post_batch(n, !self);
	while (n->peer[!self].under_way)
		reap(n);
	meet(2, 2);
	nap(500000000);
	before = cpu();
	nap(seconds * 1000000000ull);
	if (!self)
		printf("%.3f\n", (cpu() - before) / (double)seconds * 100);
	fflush(stdout);
	meet(3, 2);
	exit(0);
}

/* Two that do the same. */
static int two(void (*what)(unsigned self, unsigned arg), unsigned arg)
{
	int status, bad = 0;

	for (unsigned i = 0; i < 2; i++) {
		pid_t pid = fork();

		measure_need(pid >= 0, "fork");
		if (!pid)
			what(i, arg);
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad != 0;
}

/* ---- exec to open ---- */

static int opener(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	uint64_t at;

	measure_need(list && list[0] && ibv_open_device(list[0]), "open");
	at = measure_now();
	measure_need(write(1, &at, sizeof(at)) == sizeof(at), "write");
	_exit(0);
}

static uint64_t open_one(void)
{
	char *const argv[] = {"crowd", "opener", NULL};
	uint64_t start, at;
	int p[2], status;
	pid_t pid;

	measure_need(!pipe(p), "pipe");
	start = measure_now();
	pid = vfork();
	measure_need(pid >= 0, "fork");
	if (!pid) {
		dup2(p[1], 1);
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	measure_need(read(p[0], &at, sizeof(at)) == sizeof(at), "read");
	waitpid(pid, &status, 0);
	close(p[0]);
	close(p[1]);
	return at - start;
}

static int opens(unsigned count)
{
	uint64_t *t = calloc(count, sizeof(*t));

	measure_need(t && count, "count");
	for (unsigned i = 0; i < count; i++)
		t[i] = open_one();
	printf("%.3f\n", (double)measure_median(t, count) / 1e6);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "opener"))
		return opener();
	if (!strcmp(what, "open") && argc == 3)
		return opens((unsigned)atoi(argv[2]));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	measure_need(shared != MAP_FAILED, "memory");
	if (!strcmp(what, "idle") && argc == 3)
		return two(idler, (unsigned)atoi(argv[2]));
	if (!strcmp(what, "lat") && argc == 3)
		return two(to_and_fro, (unsigned)atoi(argv[2]));
	if ((!strcmp(what, "pairs") || !strcmp(what, "all")) && argc == 5)
		return crowd(*what == 'p', (unsigned)atoi(argv[2]), (uint32_t)atoi(argv[3]),
			     atof(argv[4]));
	fprintf(stderr,
		"usage: crowd pairs|all PROCESSES SIZE SECONDS | open COUNT | idle SECONDS\n");
	return 2;
}
