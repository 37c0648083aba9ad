/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A process that may have so many threads, descriptors or bytes and no more: whatever the number,
 * a call that needs another fails with the errno that says so, and nothing dies or waits for ever.
 * Run by `urxe run`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "harness.h"

#define NOBODY 65534
#define WAIT_S 30 /* until something hangs */

static int line; /* of the call that failed */

/* The errno of a call that fails ends the work. */
#define TRY(x)                                     \
	do {                                       \
		line = __LINE__;                   \
		errno = 0;                         \
		if (!(x))                          \
			return errno ? errno : -1; \
	} while (0)

static int next_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type,
		      struct rdma_cm_id **id)
{
	struct rdma_cm_event *ev;

	TRY(!rdma_get_cm_event(ch, &ev));
	if (ev->event != type)
		return -1;
	*id = ev->id;
	rdma_ack_cm_event(ev);
	return 0;
}

static int use_verbs(struct ibv_context *ctx)
{
	struct ibv_qp_init_attr ia = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 8}};
	struct ibv_comp_channel *channel;
	static char buf[4096];
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	TRY(pd = ibv_alloc_pd(ctx));
	TRY(mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE));
	TRY(channel = ibv_create_comp_channel(ctx));
	TRY(ia.send_cq = ia.recv_cq = ibv_create_cq(ctx, 16, NULL, channel, 0));
	TRY(qp = ibv_create_qp(pd, &ia));
	TRY(!ibv_destroy_qp(qp));
	TRY(qp = ibv_create_qp(pd, &ia));
	TRY(!ibv_destroy_qp(qp));
	TRY(!ibv_destroy_cq(ia.send_cq));
	TRY(!ibv_destroy_comp_channel(channel));
	TRY(!ibv_dereg_mr(mr));
	TRY(!ibv_dealloc_pd(pd));
	return 0;
}

static int use_cm(void)
{
	struct rdma_event_channel *sch, *cch;
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.0.0.1")};
	struct rdma_conn_param param = {.qp_num = 0x123, .retry_count = 7};
	struct rdma_cm_id *l, *c, *s, *id;
	int err;

	TRY(sch = rdma_create_event_channel());
	TRY(cch = rdma_create_event_channel());
	TRY(!rdma_create_id(sch, &l, NULL, RDMA_PS_TCP));
	TRY(!rdma_bind_addr(l, (struct sockaddr *)&sin));
	TRY(!rdma_listen(l, 1));
	sin.sin_port = rdma_get_src_port(l);
	TRY(!rdma_create_id(cch, &c, NULL, RDMA_PS_TCP));
	TRY(!rdma_resolve_addr(c, NULL, (struct sockaddr *)&sin, 1000));
	err = next_event(cch, RDMA_CM_EVENT_ADDR_RESOLVED, &id);
	if (err)
		return err;
	TRY(!rdma_resolve_route(c, 1000));
	err = next_event(cch, RDMA_CM_EVENT_ROUTE_RESOLVED, &id);
	if (err)
		return err;
	TRY(!rdma_connect(c, &param));
	err = next_event(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &s);
	if (err)
		return err;
	TRY(!rdma_destroy_id(s));
	TRY(!rdma_destroy_id(c));
	TRY(!rdma_destroy_id(l));
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
	return 0;
}

static int work(struct ibv_device *dev)
{
	struct ibv_context *ctx;
	int err;

	TRY(ctx = ibv_open_device(dev));
	err = use_verbs(ctx);
	if (err)
		return err;
	err = use_cm();
	if (err)
		return err;
	TRY(!ibv_close_device(ctx));
	return 0;
}

static uint64_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* In a child. 0: all of it worked, or the errno of what did not. */
static int limited(int what, uint64_t value)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct rlimit lim = {value, value};

	if (!list || !list[0])
		return -1;
	if (what == RLIMIT_AS)
		lim.rlim_cur = lim.rlim_max = address_space() + value;
	/* Root may have as many as it likes. */
	if (what == RLIMIT_NPROC && !geteuid() &&
	    (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	     setresuid(NOBODY, NOBODY, NOBODY)))
		return -1;
	if (setrlimit(what, &lim))
		return -1;
	return work(list[0]);
}

/* Returns the errno; fails the test when the child dies, or says anything but @good and @also. */
static int in_child(int what, const char *name, uint64_t value, int good, int also)
{
	int status = 0, err;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CU_ASSERT_FATAL(pid >= 0);
	if (!pid) {
		alarm(WAIT_S);
		err = limited(what, value);
		if (err && err != good && err != also)
			printf("    %s of %llu: line %d: %s\n", name, (unsigned long long)value,
			       line, err > 0 ? strerror(err) : "no errno");
		fflush(stdout);
		_exit(err < 0 || err > 250 ? 251 : err);
	}
	CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status))
		printf("    %s of %llu: signal %d\n", name, (unsigned long long)value,
		       WTERMSIG(status));
	CU_ASSERT_TRUE(WIFEXITED(status));
	err = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	CU_ASSERT_TRUE(!err || err == good || err == also);
	return err;
}

static void threads(void)
{
	/* Others of this user count, too: it may be that none can be had. */
	for (unsigned n = 0; n < 8; n++)
		in_child(RLIMIT_NPROC, "threads", n, EAGAIN, 0);
}

static void descriptors(void)
{
	int err = EMFILE;

	for (unsigned n = 3; n < 128 && err; n++)
		err = in_child(RLIMIT_NOFILE, "descriptors", n, EMFILE, 0);
	CU_ASSERT_EQUAL(err, 0);
}

static void memory(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return; /* which have their own ideas of the address space */
#endif
	/* A thread that has no room for its stack is EAGAIN. */
	int err = ENOMEM;

	for (uint64_t n = 4096; n < 1ull << 32; n += n / 2)
		err = in_child(RLIMIT_AS, "bytes", n & ~(uint64_t)4095, ENOMEM, EAGAIN);
	CU_ASSERT_EQUAL(err, 0);
}

URXE_TEST_MAIN("limits", T(threads), T(descriptors), T(memory))
