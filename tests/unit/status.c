/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * `urxe status` and `urxe stat` ask this very process, which uses verbs alone: what they show, who
 * may ask, and that nobody who asks badly keeps others from it, or the process from its work.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "command.h"
#include "harness.h"
#include "tools/json.h"
#include "provider/status_path.h"

#define WORKS(call) CU_ASSERT_EQUAL_FATAL((call), 0)

static char text[1 << 17];
static char buf[8192];

/* A QP that is connected to itself. */
static struct {
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
} v;

static int run(const char *args)
{
	return urxe_command(args, text, sizeof(text));
}

/* "status --json PID" and the like, which must work: an object, to be put. */
static struct json_object *run_json(const char *command)
{
	char line[64];
	struct json_object *o;

	snprintf(line, sizeof(line), "%s --json %d", command, (int)getpid());
	CU_ASSERT_EQUAL(run(line), 0);
	o = tool_json_parse(text, strlen(text));
	if (!o)
		printf("\n%s\n", text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	return o;
}

static void works(void)
{
	struct json_object *o = run_json("status");

	CU_ASSERT_EQUAL(tool_json_length(o, "processes"), 1);
	json_object_put(o);
}

/* ---- a program that uses verbs alone ---- */

static void open_device(void)
{
	v.list = ibv_get_device_list(NULL);
	CU_ASSERT_FATAL(v.list && v.list[0]);
	v.ctx = ibv_open_device(v.list[0]);
	CU_ASSERT_PTR_NOT_NULL_FATAL(v.ctx);
	v.pd = ibv_alloc_pd(v.ctx);
	v.mr = ibv_reg_mr(v.pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	v.cq = ibv_create_cq(v.ctx, 100, NULL, NULL, 0);
	CU_ASSERT_FATAL(v.pd && v.mr && v.cq);
}

static void open_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = v.cq,
		.recv_cq = v.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	v.qp = ibv_create_qp(v.pd, &init);
	CU_ASSERT_PTR_NOT_NULL_FATAL(v.qp);
	WORKS(ibv_modify_qp(v.qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = v.qp->qp_num;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.hop_limit = 64;
	WORKS(ibv_query_gid(v.ctx, 1, 0, &a.ah_attr.grh.dgid));
	WORKS(ibv_modify_qp(v.qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = 7;
	a.rnr_retry = 6;
	a.max_rd_atomic = 1;
	WORKS(ibv_modify_qp(v.qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static int write_once(void)
{
	struct ibv_sge sge = {(uintptr_t)buf, 64, v.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)buf + 4096, v.mr->rkey}},
			   *bad;
	struct ibv_wc wc = {0};
	int n = ibv_post_send(v.qp, &wr, &bad);

	while (!n && !(n = ibv_poll_cq(v.cq, 1, &wc)))
		;
	return n == 1 ? (int)wc.status : -1;
}

/* A device that has carried nothing yet does not show. */
static void nothing(void)
{
	char line[64];

	open_device();
	snprintf(line, sizeof(line), "status %d", (int)getpid());
	CU_ASSERT_EQUAL(run(line), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "found no process"));
	snprintf(line, sizeof(line), "stat %d", (int)getpid());
	CU_ASSERT_EQUAL(run(line), 1);
	open_qp();
}

static void objects(void)
{
	struct json_object *o, *p, *d, *q;
	char line[64];

	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(write_once(), IBV_WC_SUCCESS);
	o = run_json("status");
	p = tool_json_at(o, "processes", 0);
	CU_ASSERT_EQUAL(tool_json_number(p, "pid"), (uint64_t)getpid());
	CU_ASSERT_STRING_EQUAL(tool_json_text(p, "command"), "a\"\\\t\x1b\xef\xbf\xbd");
	d = tool_json_at(p, "devices", 0);
	CU_ASSERT_EQUAL(tool_json_number(tool_json_get(d, "mrs"), "bytes"), sizeof(buf));
	q = tool_json_at(tool_json_get(d, "mrs"), "list", 0);
	CU_ASSERT_EQUAL(tool_json_number(q, "length"), sizeof(buf));
	CU_ASSERT_EQUAL(tool_json_number(q, "mrn"), v.mr->lkey >> 8);
	CU_ASSERT_EQUAL(tool_json_length(d, "cqs"), 1);
	q = tool_json_at(d, "qps", 0);
	CU_ASSERT_EQUAL(tool_json_number(q, "qpn"), v.qp->qp_num);
	CU_ASSERT_STRING_EQUAL(tool_json_text(q, "peer"), "10.0.0.1");
	CU_ASSERT_STRING_EQUAL(tool_json_text(q, "state"), "RTS");
	CU_ASSERT_EQUAL(tool_json_number(tool_json_get(q, "requester"), "una"), 10);
	json_object_put(o);
	snprintf(line, sizeof(line), "status %d", (int)getpid());
	CU_ASSERT_EQUAL(run(line), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, ": a\"\\??\xef\xbf\xbd, urxe "));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "RC       RTS   EXPECT_FIRST 10.0.0.1/"));
	/* It has no CM. */
	CU_ASSERT_EQUAL(run("ip add 10.0.0.9/24"), 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "found no running program"));
}

/* A multicast group, with the QP that has joined. */
static void groups(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = v.cq, .recv_cq = v.cq, .qp_type = IBV_QPT_UD, .cap = {1, 1, 1, 1}};
	struct ibv_qp *qp = ibv_create_qp(v.pd, &init);
	union ibv_gid gid = {.raw = {0xff, 0x0e, [15] = 0x17}};
	struct json_object *o, *d, *g;

	CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
	WORKS(ibv_attach_mcast(qp, &gid, 0));
	o = run_json("status");
	d = tool_json_at(tool_json_at(o, "processes", 0), "devices", 0);
	CU_ASSERT_EQUAL(tool_json_length(d, "groups"), 1);
	g = tool_json_at(d, "groups", 0);
	CU_ASSERT_STRING_EQUAL(tool_json_text(g, "mgid"), "ff0e::17");
	CU_ASSERT_EQUAL(json_object_get_int(tool_json_at(g, "qpns", 0)), (int)qp->qp_num);
	json_object_put(o);
	WORKS(ibv_detach_mcast(qp, &gid, 0));
	WORKS(ibv_destroy_qp(qp));
}

static atomic_bool pumping;

static void *pump(void *arg)
{
	while (atomic_load(&pumping))
		CU_ASSERT_EQUAL(write_once(), IBV_WC_SUCCESS);
	return arg;
}

static void rates(void)
{
	struct json_object *o, *r;
	pthread_t t;

	atomic_store(&pumping, true);
	WORKS(pthread_create(&t, NULL, pump, NULL));
	o = run_json("stat -i 0.2 -c 1");
	atomic_store(&pumping, false);
	pthread_join(t, NULL);
	r = tool_json_at(o, "rates", 0);
	CU_ASSERT_STRING_EQUAL(tool_json_text(r, "device"), "urxe0");
	CU_ASSERT(json_object_get_double(tool_json_get(r, "rx_packets")) > 10);
	CU_ASSERT(json_object_get_double(tool_json_get(r, "tx_packets")) > 10);
	json_object_put(o);
	CU_ASSERT_EQUAL(run("stat --interval=0.1 --count 2"), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, " urxe0              0           0 "));
}

/* ---- who asks badly ---- */

static int connect_to(int pid)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	status_path(sun.sun_path, sizeof(sun.sun_path), pid);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&sun, sizeof(sun)))
		return fd;
	close(fd);
	return -1;
}

/* How much comes until the end. */
static size_t drain(int fd)
{
	size_t len = 0;
	ssize_t n;

	while ((n = recv(fd, text, sizeof(text), 0)) > 0)
		len += (size_t)n;
	close(fd);
	return len;
}

static void nonsense(void)
{
	static const struct {
		const char *say;
		size_t len;
		bool answered;
	} c[] = {
		{"\n", 1, true},	{"status\nmore\n", 12, true}, {"status\0x\n", 9, true},
		{"\0\0\0\0", 4, false}, {text, 255, false},	      {text, 4096, false},
	};

	memset(text, 'x', 4096);
	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		int fd = connect_to(getpid());

		CU_ASSERT_FATAL(fd >= 0);
		CU_ASSERT_EQUAL(send(fd, c[i].say, c[i].len, MSG_NOSIGNAL), (ssize_t)c[i].len);
		CU_ASSERT_EQUAL(drain(fd) > 0, c[i].answered);
		memset(text, 'x', 4096);
	}
	works();
}

/* As many as there may be, who say nothing, or ask and take nothing: they go after a while. */
static void silent(void)
{
	int fds[8];

	for (unsigned i = 0; i < 8; i++) {
		fds[i] = connect_to(getpid());
		CU_ASSERT_FATAL(fds[i] >= 0);
	}
	CU_ASSERT_EQUAL(write_once(), IBV_WC_SUCCESS);
	works();
	for (unsigned i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(drain(fds[i]), 0);
	for (unsigned i = 0; i < 4; i++) {
		fds[i] = connect_to(getpid());
		CU_ASSERT_EQUAL(send(fds[i], "status\n", 7, MSG_NOSIGNAL), 7);
	}
	works();
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT(drain(fds[i]) > 0);
}

/* Another user, though somebody has opened the folder for him. */
static void other_user(void)
{
	char path[128];
	int st;
	pid_t pid;

	if (geteuid())
		return; /* nobody else can be */
	status_path(path, sizeof(path), getpid());
	WORKS(chmod(status_dir(), 0755));
	WORKS(chmod(path, 0777));
	pid = fork();
	if (!pid) {
		int fd = setresuid(65534, 65534, 65534) ? -1 : connect_to(getppid());

		_exit(fd < 0					  ? 2
		      : send(fd, "status\n", 7, MSG_NOSIGNAL) < 0 ? 0
		      : drain(fd)				  ? 3
								  : 0);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &st, 0), pid);
	CU_ASSERT_EQUAL(st, 0);
	WORKS(chmod(status_dir(), 0700));
	works();
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Without a descriptor for a client it waits, and does not spin. */
static void no_descriptors(void)
{
	struct timespec pause = {.tv_nsec = 300000000};
	struct rlimit was, few;
	double before;
	int fd = connect_to(getpid()), last;

	CU_ASSERT(drain(fd) == 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	last = dup(fd);
	close(last);
	WORKS(getrlimit(RLIMIT_NOFILE, &was));
	few = was;
	few.rlim_cur = (rlim_t)last;
	WORKS(setrlimit(RLIMIT_NOFILE, &few));
	close(fd);
	fd = connect_to(getpid());
	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(send(fd, "stat\n", 5, MSG_NOSIGNAL), 5);
	before = cpu_seconds();
	nanosleep(&pause, NULL);
	CU_ASSERT(cpu_seconds() - before < 0.05);
	WORKS(setrlimit(RLIMIT_NOFILE, &was));
	CU_ASSERT(drain(fd) > 0);
}

/* ---- processes that end ---- */

/* While it is asked all the time. */
static void *ask_on(void *arg)
{
	while (atomic_load(&pumping)) {
		int fd = connect_to(getpid());

		if (fd < 0)
			continue;
		send(fd, "status\n", 7, MSG_NOSIGNAL);
		while (recv(fd, arg, 4096, 0) > 0)
			;
		close(fd);
	}
	return NULL;
}

/* A child that lets go of what it has; @all: with what runs at exit. */
static void fork_once(bool all)
{
	pid_t pid = fork();
	int st;

	if (!pid) {
#ifndef __SANITIZE_THREAD__ /* it allows no new thread in a child: liburcu's */
		ibv_destroy_qp(v.qp);
#endif
		ibv_destroy_cq(v.cq);
		if (all)
			exit(0);
		_exit(0);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &st, 0), pid);
	CU_ASSERT_EQUAL(st, 0);
}

static void forks(void)
{
	static char other[4096];
	pthread_t t;

	fork_once(true);
	atomic_store(&pumping, true);
	WORKS(pthread_create(&t, NULL, ask_on, other));
	/* What the thread had in hand is a leak in these. */
	for (unsigned i = 0; i < 50; i++)
		fork_once(false);
	atomic_store(&pumping, false);
	pthread_join(t, NULL);
	works();
}

/* What a killed process left is taken away; another thing with such a name is left. */
static void left_behind(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char file[128];
	FILE *f;

	status_path(sun.sun_path, sizeof(sun.sun_path), 999999999);
	WORKS(bind(fd, (struct sockaddr *)&sun, sizeof(sun)));
	close(fd);
	status_path(file, sizeof(file), 999999998);
	f = fopen(file, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fclose(f);
	CU_ASSERT_EQUAL(run("status"), 0);
	CU_ASSERT_EQUAL(access(sun.sun_path, F_OK), -1);
	WORKS(unlink(file));
}

/* One that is stopped answers late or never; the others' answers are shown. */
static void stopped(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	status_path(sun.sun_path, sizeof(sun.sun_path), 1);
	WORKS(bind(fd, (struct sockaddr *)&sun, sizeof(sun)));
	WORKS(listen(fd, 8));
	CU_ASSERT_EQUAL(run("status"), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "/1: does not answer"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "10.0.0.1/"));
	close(fd);
	unlink(sun.sun_path);
}

__attribute__((constructor)) static void set_up(void)
{
	status_dir();
	prctl(PR_SET_NAME, "a\"\\\t\x1b\xff");
}

URXE_TEST_MAIN("status", T(nothing), T(objects), T(groups), T(rates), T(nonsense), T(silent),
	       T(other_user), T(no_descriptors), T(forks), T(left_behind), T(stopped))
