/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fork() before a device is opened, after it, with connected QPs, under traffic, in a thread, in a
 * child: the parent goes on, the child opens the device afresh, the parent's objects say so and are
 * destroyed without harm, and no descriptor goes through exec. Run by `urxe run --port loop`.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "harness.h"

#define LEN    8192
#define ROUNDS 20

/* Two connected QPs of one device. */
struct talk {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cqx;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	char *buf; /* LEN to send, LEN to receive */
	const char *failed;
};

static struct ibv_device **list;

#define TRY(t, x)                         \
	do {                              \
		if (!(x)) {               \
			(t)->failed = #x; \
			return false;     \
		}                         \
	} while (0)

static bool open_all(struct talk *t)
{
	struct ibv_cq_init_attr_ex cqx = {.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};

	memset(t, 0, sizeof(*t));
	TRY(t, t->ctx = ibv_open_device(list[0]));
	TRY(t, t->pd = ibv_alloc_pd(t->ctx));
	TRY(t, t->ch = ibv_create_comp_channel(t->ctx));
	TRY(t, t->cq = ibv_create_cq(t->ctx, 16, t, t->ch, 0));
	TRY(t, t->cqx = ibv_create_cq_ex(t->ctx, &cqx));
	TRY(t, t->buf = calloc(2, LEN));
	TRY(t, t->mr = ibv_reg_mr(t->pd, t->buf, 2 * LEN,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	return true;
}

static bool connect_one(struct talk *t, unsigned i)
{
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = t->qp[!i]->qp_num,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	TRY(t, !ibv_query_gid(t->ctx, 1, 0, &a.ah_attr.grh.dgid));
	TRY(t, !ibv_modify_qp(t->qp[i], &a, init));
	a.qp_state = IBV_QPS_RTR;
	TRY(t, !ibv_modify_qp(t->qp[i], &a, rtr));
	a.qp_state = IBV_QPS_RTS;
	TRY(t, !ibv_modify_qp(t->qp[i], &a, rts));
	return true;
}

static bool connect_all(struct talk *t)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = t->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	for (unsigned i = 0; i < 2; i++)
		TRY(t, t->qp[i] = ibv_create_qp_ex(t->ctx, &a));
	return connect_one(t, 0) && connect_one(t, 1);
}

static bool await(struct talk *t, unsigned n)
{
	struct ibv_wc wc;
	int got;

	while (n) {
		got = ibv_poll_cq(t->cq, 1, &wc);
		TRY(t, got >= 0);
		TRY(t, !got || wc.status == IBV_WC_SUCCESS);
		n -= (unsigned)got;
	}
	return true;
}

/* A message from the first QP to the second, whose bytes are looked at. */
static bool send_one(struct talk *t, unsigned round)
{
	struct ibv_sge from = {(uintptr_t)t->buf, LEN, t->mr->lkey};
	struct ibv_sge to = {(uintptr_t)t->buf + LEN, LEN, t->mr->lkey};
	struct ibv_recv_wr rr = {.sg_list = &to, .num_sge = 1}, *badr;
	struct ibv_send_wr wr = {.sg_list = &from,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	memset(t->buf, (int)round + 1, LEN);
	memset(t->buf + LEN, 0, LEN);
	TRY(t, !ibv_post_recv(t->qp[1], &rr, &badr));
	TRY(t, !ibv_post_send(t->qp[0], &wr, &bad));
	if (!await(t, 2))
		return false;
	TRY(t, !memcmp(t->buf, t->buf + LEN, LEN));
	return true;
}

/* By the channel. */
static bool get_event(struct talk *t)
{
	struct ibv_cq *cq = NULL;
	void *arg = NULL;

	TRY(t, !ibv_req_notify_cq(t->cq, 0));
	if (!send_one(t, 9))
		return false;
	TRY(t, !ibv_get_cq_event(t->ch, &cq, &arg));
	TRY(t, cq == t->cq && arg == t);
	ibv_ack_cq_events(cq, 1);
	return true;
}

static bool close_all(struct talk *t)
{
	for (unsigned i = 0; i < 2; i++)
		TRY(t, !t->qp[i] || !ibv_destroy_qp(t->qp[i]));
	TRY(t, !ibv_dereg_mr(t->mr));
	TRY(t, !ibv_destroy_cq(t->cq));
	TRY(t, !ibv_destroy_cq(ibv_cq_ex_to_cq(t->cqx)));
	TRY(t, !ibv_destroy_comp_channel(t->ch));
	TRY(t, !ibv_dealloc_pd(t->pd));
	TRY(t, !ibv_close_device(t->ctx));
	free(t->buf);
	return true;
}

/* All of it, as a process that knows nothing of another. */
static bool talk(struct talk *t)
{
	if (!open_all(t) || !connect_all(t))
		return false;
	for (unsigned i = 0; i < ROUNDS; i++)
		if (!send_one(t, i))
			return false;
	return get_event(t) && close_all(t);
}

/* ---- what a child has of its parent ---- */

#define EIO_OF(t, x) TRY(t, (errno = 0, (x)) && errno == EIO)

static bool refused(struct talk *t)
{
	struct ibv_sge sge = {(uintptr_t)t->buf, 8, t->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_recv_wr rr = {.sg_list = &sge, .num_sge = 1}, *badr = NULL;
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(t->qp[0]);
	struct ibv_poll_cq_attr none = {0};
	struct ibv_qp_init_attr init;
	struct ibv_async_event ev;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	union ibv_gid gid;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *arg;

	EIO_OF(t, ibv_post_send(t->qp[0], &wr, &bad) == EIO && bad == &wr);
	EIO_OF(t, ibv_post_recv(t->qp[0], &rr, &badr) == EIO && badr == &rr);
	ibv_wr_start(x);
	ibv_wr_send(x);
	ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf, 8);
	EIO_OF(t, ibv_wr_complete(x) == EIO);
	EIO_OF(t, ibv_poll_cq(t->cq, 1, &wc) < 0);
	TRY(t, ibv_start_poll(t->cqx, &none) == EIO);
	EIO_OF(t, ibv_req_notify_cq(t->cq, 0) == EIO);
	EIO_OF(t, ibv_modify_qp(t->qp[0], &attr, IBV_QP_STATE) == EIO);
	EIO_OF(t, ibv_query_qp(t->qp[0], &attr, IBV_QP_STATE, &init) == EIO);
	EIO_OF(t, !ibv_alloc_pd(t->ctx));
	EIO_OF(t, !ibv_create_cq(t->ctx, 1, NULL, NULL, 0));
	EIO_OF(t, !ibv_create_comp_channel(t->ctx));
	EIO_OF(t, !ibv_reg_mr(t->pd, t->buf, LEN, IBV_ACCESS_LOCAL_WRITE));
	EIO_OF(t, ibv_query_port(t->ctx, 1, &port));
	EIO_OF(t, ibv_query_gid(t->ctx, 1, 0, &gid) == -1);
	/* They have ended: nothing is taken out of the parent's. */
	TRY(t, ibv_get_cq_event(t->ch, &cq, &arg) == -1);
	TRY(t, ibv_get_async_event(t->ctx, &ev) == -1);
	return true;
}

/* Neither goes with the other. */
static bool not_mixed(struct talk *t, struct talk *old)
{
	struct ibv_qp_init_attr a = {
		.send_cq = old->cq,
		.recv_cq = old->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1},
	};

	TRY(t, !ibv_create_qp(t->pd, &a) && errno == EINVAL);
	return true;
}

/* What a child does that has inherited @old: 0, or an exit status. */
static int child(struct talk *old)
{
	struct talk t;
	bool ok = !old || refused(old);

	if (!ok)
		t = *old;
	ok = ok && talk(&t);
	if (ok && old) {
		ok = open_all(&t) && not_mixed(&t, old) && close_all(old) && talk(&t);
		if (old->failed)
			t = *old;
	}
	if (!ok)
		fprintf(stderr, "child %d: %s: %s\n", (int)getpid(), t.failed, strerror(errno));
	return !ok;
}

static bool ended_well(pid_t pid)
{
	int status = -1;

	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static pid_t fork_child(struct talk *old)
{
	pid_t pid = fork();

	if (!pid)
		_exit(child(old));
	return pid;
}

/* ---- the tests ---- */

#define WELL(t, x)                                                                       \
	do {                                                                             \
		bool ok_ = (x);                                                          \
		CU_ASSERT(ok_);                                                          \
		if (!ok_)                                                                \
			fprintf(stderr, "%s: %s\n", (t)->failed ? (t)->failed : "child", \
				strerror(errno));                                        \
	} while (0)

/* Nothing was up when the child came: before all others, which are in this process. */
static void before_open(void)
{
	pid_t pid = fork_child(NULL);
	struct talk t = {0};

	WELL(&t, talk(&t));
	WELL(&t, ended_well(pid));
}

/* Opened, with a QP that has started it: inherited, and one more that is opened. */
static void after_connect(void)
{
	struct talk t = {0};
	pid_t pid[3];

	WELL(&t, open_all(&t) && connect_all(&t) && send_one(&t, 1));
	for (unsigned i = 0; i < 3; i++)
		pid[i] = fork_child(&t);
	WELL(&t, send_one(&t, 2));
	for (unsigned i = 0; i < 3; i++)
		WELL(&t, ended_well(pid[i]));
	WELL(&t, get_event(&t));
	WELL(&t, close_all(&t));
}

/* An event that waits in a pipe is the parent's, whatever a child does with its own. */
static void events(void)
{
	struct ibv_cq *cq = NULL;
	struct talk t = {0};
	void *arg;

	WELL(&t, open_all(&t) && connect_all(&t));
	CU_ASSERT_EQUAL(ibv_req_notify_cq(t.cq, 0), 0);
	WELL(&t, send_one(&t, 3));
	WELL(&t, ended_well(fork_child(&t)));
	CU_ASSERT_EQUAL(ibv_get_cq_event(t.ch, &cq, &arg), 0);
	CU_ASSERT_PTR_EQUAL(cq, t.cq);
	ibv_ack_cq_events(t.cq, 1);
	WELL(&t, close_all(&t));
}

static int grandchild(struct talk *old)
{
	struct talk t = {0};
	bool ok = open_all(&t) && connect_all(&t) && send_one(&t, 4);
	pid_t pid = fork_child(&t), other = fork_child(old);

	ok = ok && ended_well(pid) && ended_well(other) && send_one(&t, 5) && close_all(&t);
	return !ok;
}

static void generations(void)
{
	struct talk t = {0};
	pid_t pid;

	WELL(&t, open_all(&t) && connect_all(&t) && send_one(&t, 1));
	pid = fork();
	if (!pid)
		_exit(grandchild(&t));
	WELL(&t, ended_well(pid));
	WELL(&t, send_one(&t, 6) && close_all(&t));
}

/* ---- while other threads are in the midst of it ---- */

static atomic_bool stop;

static void *traffic(void *arg)
{
	struct talk *t = arg;
	bool ok = true;

	for (unsigned i = 0; ok && !atomic_load(&stop); i++) {
		ok = send_one(t, i);
		/* Locks of the device's, too. */
		ok = ok && (i % 8 || !ibv_dealloc_pd(ibv_alloc_pd(t->ctx)));
	}
	return ok ? arg : NULL;
}

static void *forking(void *arg)
{
	struct talk *t = arg;
	bool ok = true;

	for (unsigned i = 0; i < ROUNDS; i++)
		ok = ended_well(fork_child(t)) && ok;
	return ok ? arg : NULL;
}

static void under_traffic(void)
{
	struct talk t[2] = {0};
	pthread_t thread[2], forker;
	void *ret;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	/*
	 * TSan takes a child's threads for the parent's, whose stacks they have; of ASan's
	 * allocator a child inherits the lock, taken if another thread had it.
	 */
	return;
#endif
	atomic_store(&stop, false);
	for (unsigned i = 0; i < 2; i++) {
		WELL(&t[i], open_all(&t[i]) && connect_all(&t[i]));
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, traffic, &t[i]), 0);
	}
	CU_ASSERT_EQUAL_FATAL(pthread_create(&forker, NULL, forking, &t[0]), 0);
	pthread_join(forker, &ret);
	CU_ASSERT_PTR_NOT_NULL(ret);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(thread[i], &ret);
		CU_ASSERT_PTR_NOT_NULL(ret);
		WELL(&t[i], close_all(&t[i]));
	}
}

/* ---- exec ---- */

/* Those that come from who started the test are no business of ours. */
static char before[1024];

/* What a program finds open that is executed here: numbers and names, sorted. */
static void executed(char *out, size_t size)
{
	int fds[2];
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], 1);
		close(fds[0]);
		close(fds[1]);
		unsetenv("LD_PRELOAD");
		unsetenv("LD_LIBRARY_PATH");
		execl("/bin/ls", "ls", "/proc/self/fd", NULL);
		_exit(1);
	}
	close(fds[1]);
	while ((n = read(fds[0], out + len, size - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	close(fds[0]);
	CU_ASSERT(ended_well(pid));
}

static void exec_leaks_nothing(void)
{
	struct talk t = {0};
	char after[1024];

	WELL(&t, open_all(&t) && connect_all(&t) && get_event(&t));
	executed(after, sizeof(after));
	CU_ASSERT_STRING_EQUAL(before, after);
	WELL(&t, close_all(&t));
}

/* First. */
static void device(void)
{
	int n = 0;

	executed(before, sizeof(before));
	list = ibv_get_device_list(&n);
	CU_ASSERT_FATAL(list && n == 1);
}

/* ---- a link whose port stays the parent's ---- */

/* In the child, whose log is @log. */
static int refused_port(int log)
{
	bool ok;

	dup2(log, 2);
	ok = !ibv_open_device(list[0]) && errno == EIO;
	return !(ok && !ibv_open_device(list[0]) && errno == EIO);
}

/* Of "unit-fork parents_port", with such a link. The log has one line that names what to do. */
static void parents_port(void)
{
	struct talk t = {0};
	char line[512] = "";
	int fds[2];
	FILE *log;
	pid_t pid;

	if (!strstr(getenv("URXE_CONFIG_TEXT"), "net_null0"))
		return;
	list = ibv_get_device_list(NULL);
	CU_ASSERT_FATAL(list && list[0]);
	CU_ASSERT_FATAL(open_all(&t) && connect_all(&t));
	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	pid = fork();
	if (!pid)
		_exit(refused_port(fds[1]));
	WELL(&t, ended_well(pid));
	close(fds[1]);
	log = fdopen(fds[0], "r");
	CU_ASSERT_PTR_NOT_NULL(fgets(line, sizeof(line), log));
	CU_ASSERT_PTR_NOT_NULL(strstr(line, "--port fabric"));
	CU_ASSERT_PTR_NULL(fgets(line, sizeof(line), log));
	fclose(log);
	WELL(&t, send_one(&t, 1) && close_all(&t));
}

URXE_TEST_MAIN("fork", T(device), T(before_open), T(exec_leaks_nothing), T(after_connect),
	       T(events), T(generations), T(under_traffic), T(parents_port))
