/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * DPDK's EAL as a guest of the process: its start, its log, ids for lanes.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/eal.h"
#include "netio/eal_want.h"
#include "netio/fd_cloexec.h"
#include "netio/pci.h"
#include "urxe/lock.h"
#include "urxe/log.h"
#include "urxe/thread.h"

#define EAL_MAX_ARGS 64

struct eal_args {
	char *argv[EAL_MAX_ARGS];
	int argc;
	bool users; /* some are the user's own */
};

/* EAL is one a process, and so is what is kept of it. */
static struct {
	/* DPDK's log. */
	struct {
		struct urxe_mutex lock;
		char error[200]; /* the first since somebody asked */
		FILE *stream;	 /* control thread's */
	} log;
	/* The control thread's own. */
	bool up;
	struct eal_args args;	  /* EAL permutes argv, and keeps the strings */
	char *argv[EAL_MAX_ARGS]; /* as it was, to be freed */
	int lcore_free[RTE_MAX_LCORE];
	unsigned lcore_frees;
} eal = {
	.log.lock = URXE_MUTEX_INIT,
};

/* ---- DPDK's log ---- */

static void log_line(const char *line, size_t len)
{
	while (len && isspace((unsigned char)line[len - 1]))
		len--;
	if (!len)
		return;
	if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_ERR) {
		urxe_mutex_lock(&eal.log.lock);
		if (!eal.log.error[0]) /* the first one is nearest to the cause */
			snprintf(eal.log.error, sizeof(eal.log.error), "%.*s", (int)len, line);
		urxe_mutex_unlock(&eal.log.lock);
	}
	urxe_debug("dpdk: %.*s", (int)len, line);
}

static ssize_t log_write(void *unused, const char *buf, size_t size)
{
	const char *p = buf, *end = buf + size, *nl;

	while (p < end) {
		nl = memchr(p, '\n', (size_t)(end - p));
		log_line(p, (size_t)((nl ? nl : end) - p));
		p = nl ? nl + 1 : end;
	}
	return (ssize_t)size;
}

static int log_open(void)
{
	if (eal.log.stream)
		return 0;
	eal.log.stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_write});
	if (!eal.log.stream)
		return ENOMEM;
	setvbuf(eal.log.stream, NULL, _IOLBF, 512);
	rte_openlog_stream(eal.log.stream);
	if (urxe_log_enabled(URXE_LOG_DEBUG))
		rte_log_set_global_level(RTE_LOG_DEBUG);
	return 0;
}

void urxe_eal_error(char *buf, size_t len)
{
	urxe_mutex_lock(&eal.log.lock);
	if (len)
		snprintf(buf, len, "%s", eal.log.error);
	eal.log.error[0] = '\0';
	urxe_mutex_unlock(&eal.log.lock);
}

/* ---- EAL ---- */

__attribute__((format(printf, 2, 3))) static void arg_add(struct eal_args *a, const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;

	if (a->argc >= EAL_MAX_ARGS - 1)
		return;
	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) >= 0)
		a->argv[a->argc++] = s;
	va_end(ap);
}

/* "0@(0,1,5)": one lcore that floats over all CPUs the caller may use, so that nothing is pinned.
 */
static void arg_lcores(struct eal_args *a)
{
	char list[4096];
	size_t n = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (unsigned c = 0; c < CPU_SETSIZE && n < sizeof(list) - 8; c++) {
		if (CPU_ISSET(c, &set))
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%u", n ? "," : "", c);
	}
	arg_add(a, "--lcores=0@(%s)", list);
}

static void args_build(struct eal_args *a, const struct urxe_eal_wants *want)
{
	char *copy, *save = NULL;

	arg_add(a, "urxe");
	arg_lcores(a);
	arg_add(a, "--no-telemetry");
	arg_add(a, "--file-prefix=urxe-%d", (int)getpid());
	if (want->pci) {
		for (unsigned i = 0; i < want->allows; i++) {
			arg_add(a, "-a");
			arg_add(a, "%s", want->allow[i]);
		}
	} else {
		arg_add(a, "--no-pci");
	}
	if (want->pci && urxe_pci_hugepages(&urxe_pci_machine)) {
		/* DMA wants pages that stay where they are. */
		arg_add(a, "--in-memory");
		arg_add(a, "--single-file-segments");
	} else {
		arg_add(a, "--no-huge");
		arg_add(a, "--no-shconf");
		arg_add(a, "--iova-mode=va");
		arg_add(a, "-m");
		arg_add(a, "%u", want->mb);
	}
	copy = strdup(want->args);
	a->users = want->args[0] != '\0';
	for (char *t = copy ? strtok_r(copy, " \t", &save) : NULL; t;
	     t = strtok_r(NULL, " \t", &save))
		arg_add(a, "%s", t);
	free(copy);
	a->argv[a->argc] = NULL;
}

/*
 * EAL makes a directory <run>/dpdk/<prefix> even when it shares nothing. <run> is /tmp for a user
 * without a session, where another user's dpdk/ is in the way: then lead it elsewhere, to
 * @dir.
 */
static char *runtime_dir_detour(char *dir)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR"), *base = getenv("RUNTIME_DIRECTORY");
	char path[4096];

	if (!base)
		base = getuid() == 0 ? "/var/run" : xdg ? xdg : "/tmp";
	snprintf(path, sizeof(path), "%s/dpdk", base);
	if (access(path, W_OK | X_OK) == 0)
		return NULL;
	if (errno == ENOENT && access(base, W_OK | X_OK) == 0)
		return NULL;
	if (!mkdtemp(dir) || setenv("RUNTIME_DIRECTORY", dir, 1))
		return NULL;
	return dir;
}

static int eal_init(struct eal_args *a)
{
	bool had = getenv("RUNTIME_DIRECTORY") != NULL;
	char dir[] = "/tmp/urxe-XXXXXX", *detour = had ? NULL : runtime_dir_detour(dir);
	FILE *out = stdout, *err = stderr, *sink = NULL;
	struct urxe_fds fds;
	char path[4096];
	int ret;

	urxe_fds_note(&fds);
	/* Only the user's own arguments can be wrong; EAL and getopt then print what we say better.
	 */
	if (a->users)
		sink = fopen("/dev/null", "we");
	if (sink)
		stdout = stderr = sink;
	ret = rte_eal_init(a->argc, a->argv);
	if (sink) {
		stdout = out;
		stderr = err;
		fclose(sink);
	}
	urxe_fds_cloexec(&fds);
	/* There may be one after a failure as well; unless it is the program's, which has just been
	 * faster. */
	if (ret >= 0 || rte_errno != EALREADY)
		rmdir(rte_eal_get_runtime_dir());
	if (detour) {
		snprintf(path, sizeof(path), "%s/dpdk", detour);
		rmdir(path);
		rmdir(detour);
		unsetenv("RUNTIME_DIRECTORY");
	}
	return ret;
}

/*
 * A DPDK program has started EAL, which is one a process: it serves us, too. To try would print
 * "FATAL". No call asks for that, but EAL has the TSC's frequency from its start on.
 */
static bool is_applications(void)
{
	return rte_get_tsc_hz() != 0;
}

int urxe_eal_start(char *err, size_t errlen)
{
	struct eal_args *a = &eal.args;
	struct urxe_eal_wants want;
	int ret, n;

	if (eal.up)
		return 0;
	if (is_applications()) {
		eal.up = true;
		return 0;
	}
	ret = urxe_eal_room(err, errlen);
	if (!ret)
		ret = log_open();
	if (ret)
		return ret;
	memset(a, 0, sizeof(*a));
	urxe_eal_wants(&want);
	args_build(a, &want);
	n = a->argc;
	memcpy(eal.argv, a->argv, sizeof(eal.argv));
	urxe_eal_error(err, errlen);
	ret = 0;
	if (eal_init(a) < 0) {
		ret = rte_errno ? rte_errno : EIO;
		if (ret == EALREADY) /* at this very moment */
			ret = 0;
	}
	if (ret) {
		urxe_eal_error(err, errlen);
		if (!err[0])
			snprintf(err, errlen, "EAL refuses its arguments '%s'", want.args);
		for (int i = 0; i < n; i++)
			free(eal.argv[i]);
		return ret;
	}
	eal.up = true;
	return 0;
}

static void alarm_post(void *arg)
{
	sem_post(arg);
}

void urxe_eal_alarm_barrier(void)
{
	sem_t sem;

	/* Alarms run in the order of their times, on one thread. */
	sem_init(&sem, 0, 0);
	if (rte_eal_alarm_set(10, alarm_post, &sem) == 0)
		while (sem_wait(&sem) && errno == EINTR)
			;
	sem_destroy(&sem);
}

/* ---- lcore ids for lanes ---- */

static void *lcore_main(void *arg)
{
	int *id = arg;

	*id = rte_thread_register() ? -1 : (int)rte_lcore_id();
	return NULL;
}

int urxe_eal_lcore(void)
{
	pthread_t thread;
	int id = -1;

	if (eal.lcore_frees)
		return eal.lcore_free[--eal.lcore_frees];
	/* The id stays taken when the thread that registered is gone: that is what we want. */
	if (urxe_thread_start(&thread, "urxe/lcore", lcore_main, &id))
		return -1;
	pthread_join(thread, NULL);
	return id;
}

void urxe_eal_lcore_put(int lcore)
{
	if (lcore >= 0 && eal.lcore_frees < RTE_MAX_LCORE)
		eal.lcore_free[eal.lcore_frees++] = lcore;
}
