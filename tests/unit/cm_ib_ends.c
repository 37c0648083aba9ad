/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe_cm.h: callbacks and the end of ids, threads and children of the process. Run as cm_ib.c is.
 */
#include "cm_ib_rig.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_leaks.h"

static sem_t in_callback, go_on;
static atomic_bool returned;
static struct ib_cm_id *child;

static int slow_handler(struct ib_cm_id *id, const struct ib_cm_event *ev)
{
	child = id;
	sem_post(&in_callback);
	sem_wait(&go_on);
	atomic_store(&returned, true);
	return 0;
}

static void *destroyer(void *id)
{
	ib_destroy_cm_id(id);
	/* Its callback is over by now. */
	return atomic_load(&returned) ? NULL : id;
}

/* ib_destroy_cm_id() waits for the callback; requests behind it are rejected unheard. */
static void destroy_waits(void)
{
	struct ib_cm_id *listener = ib_create_cm_id(ctx, slow_handler, NULL), *id, *second;
	pthread_t thread;
	void *early;

	sem_init(&in_callback, 0, 0);
	sem_init(&go_on, 0, 0);
	CU_ASSERT_EQUAL_FATAL(ib_cm_listen(listener, htobe64(SERVICE), 0), 0);
	id = ask(NULL);
	sem_wait(&in_callback);
	second = ask(NULL);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, destroyer, listener), 0);
	/* Until the listener is on its way out: a call, though refused, says the state of now. */
	while (second->state != IB_CM_IDLE) {
		CU_ASSERT_EQUAL_FATAL(ib_send_cm_rtu(second, NULL, 0), -EINVAL);
		sched_yield();
	}
	sem_post(&go_on);
	CU_ASSERT_EQUAL(pthread_join(thread, &early), 0);
	CU_ASSERT_PTR_NULL(early);
	/* The second one: rejected with its listener, or for want of one. */
	expect_for(second, IB_CM_REJ_RECEIVED);
	/* The first one's id is the consumer's: it was told. */
	ib_destroy_cm_id(child);
	expect_for(id, IB_CM_REJ_RECEIVED);
	ib_destroy_cm_id(id);
	ib_destroy_cm_id(second);
	sem_destroy(&in_callback);
	sem_destroy(&go_on);
}

static int suicide(struct ib_cm_id *id, const struct ib_cm_event *ev)
{
	int ret = handler(id, ev);

	ib_destroy_cm_id(id);
	return ret;
}

/* From its own callback: done when that returns, whatever it returns. */
static void destroy_in_callback(void)
{
	struct ib_cm_id *listener = ib_create_cm_id(ctx, suicide, NULL), *id;

	CU_ASSERT_EQUAL_FATAL(ib_cm_listen(listener, htobe64(SERVICE), 0), 0);
	for (int i = 0; i < 2; i++) {
		next_verdict(i);
		id = ask(NULL);
		expect(IB_CM_REQ_RECEIVED);
		expect_for(id, IB_CM_REJ_RECEIVED);
		ib_destroy_cm_id(id);
	}
	ib_destroy_cm_id(listener);
}

/* A device and a CM of the child's own. */
static bool child_works(void)
{
	struct ib_cm_id *own;
	bool ok;

#ifdef __SANITIZE_THREAD__
	return true; /* it takes a child's threads for the parent's, whose stacks they have */
#endif
	ctx = ibv_open_device(ctx->device);
	own = ctx ? ib_create_cm_id(ctx, handler, NULL) : NULL;
	ok = own && !ib_cm_listen(own, htobe64(0x4711), 0);
	if (ok)
		ib_destroy_cm_id(own);
	return ok;
}

/* A child cannot use what is its parent's, and says so. */
static void after_fork(void)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_req_param req = req_param(&path, NULL);
	struct ib_cm_id *id = new_id();
	int status;
	pid_t pid = fork();

	CU_ASSERT_FATAL(pid >= 0);
	if (!pid) {
		bool ok = !ib_create_cm_id(ctx, handler, NULL) && errno == EIO &&
			  ib_send_cm_req(id, &req) == -EIO;

		ib_destroy_cm_id(id);
		ok = ok && child_works();
		_exit(!ok);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	ib_destroy_cm_id(id);
}

/* Is it the status of a thread of this name, which leaves all signals but faults to others? */
static bool is_deaf(FILE *status, const char *name)
{
	uint64_t blocked = 0,
		 all = UINT64_MAX & ~(1ull << (SIGKILL - 1)) & ~(1ull << (SIGSTOP - 1)),
		 faults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
	bool named = false;
	char line[256];

	while (fgets(line, sizeof(line), status)) {
		if (!strncmp(line, "Name:\t", 6))
			named = !strcmp(strtok(line + 6, "\n"), name);
		sscanf(line, "SigBlk: %" SCNx64, &blocked);
	}
	/* glibc keeps two below SIGRTMIN for itself. */
	return named && (blocked | faults | 3ull << 31) == all;
}

static unsigned deaf_threads(const char *name)
{
	char path[sizeof("/proc/self/task//status") + NAME_MAX];
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
	if (!dir)
		return 0;
	for (struct dirent *d; (d = readdir(dir));) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", d->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		n += is_deaf(f, name);
		fclose(f);
	}
	closedir(dir);
	return n;
}

/* Those of ours that a program finds in itself say whose they are, and take none of its signals. */
static void names_of_threads(void)
{
	CU_ASSERT_EQUAL(deaf_threads("urxe/urxe0"), 1);
	CU_ASSERT_EQUAL(deaf_threads("urxe/ib_cm"), 1);
	CU_ASSERT_EQUAL(deaf_threads("urxe/status"), 1);
	CU_ASSERT_EQUAL(deaf_threads("urxe/rcu"), 1);
}

static atomic_int forked;
static sem_t has_forked;

/* Returns twice. */
static int forking_handler(struct ib_cm_id *id, const struct ib_cm_event *ev)
{
	pid_t pid = fork();

	if (pid) {
		atomic_store(&forked, pid);
		sem_post(&has_forked);
	}
	return 0;
}

/* In the child the CM is no more: the thread that called back has nothing to go on with, and ends.
 */
static void fork_in_callback(void)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_req_param req = req_param(&path, NULL);
	struct ib_cm_id *id = ib_create_cm_id(ctx, forking_handler, NULL);
	struct pollfd gone = {.events = POLLIN};
	int status = -1;

	CU_ASSERT_PTR_NOT_NULL_FATAL(id);
	sem_init(&has_forked, 0, 0);
	fflush(NULL);
	/* Nobody listens there: REJ is the event. */
	req.service_id = htobe64(SERVICE + 0x1000);
	CU_ASSERT_EQUAL_FATAL(ib_send_cm_req(id, &req), 0);
	sem_wait(&has_forked);
	CU_ASSERT_FATAL(atomic_load(&forked) > 0);
	gone.fd = pidfd_open(atomic_load(&forked), 0);
	CU_ASSERT_FATAL(gone.fd >= 0);
	CU_ASSERT_EQUAL(poll(&gone, 1, 20000), 1);
	if (!gone.revents)
		kill(atomic_load(&forked), SIGKILL);
	CU_ASSERT_EQUAL(waitpid(atomic_load(&forked), &status, 0), atomic_load(&forked));
	CU_ASSERT_EQUAL(status, 0);
	close(gone.fd);
	ib_destroy_cm_id(id);
	sem_destroy(&has_forked);
}

URXE_TEST_MAIN("cm_ib_ends", T(device), T(destroy_waits), T(destroy_in_callback),
	       T(names_of_threads), T(after_fork), T(fork_in_callback))
