/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * DPDK's EAL as a guest of the process: what the devices want of it, its start, its log, and the
 * control thread on which all its slow calls run.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/eal.h"
#include "netio/pci.h"
#include "urxe/lock.h"
#include "urxe/log.h"
#include "urxe/thread.h"

#define EAL_MAX_ARGS 64
#define EAL_BASE_MB  32

bool urxe_eal_dead;

/* What the devices want, gathered before the start. */
static struct urxe_mutex want_lock = URXE_MUTEX_INIT;
static unsigned want_mb;
static bool want_pci;
static char want_allow[URXE_CONFIG_MAX_DEVICES][32];
static unsigned want_allows;
static char extra_args[256];

/* ---- the control thread ---- */

struct eal_job {
	int (*fn)(void *arg);
	void *arg;
	int ret;
	bool done;
	struct eal_job *next;
};

static struct urxe_mutex ctl_lock = URXE_MUTEX_INIT;
static pthread_cond_t ctl_work; /* on CLOCK_MONOTONIC */
static pthread_cond_t ctl_done;
static struct eal_job *ctl_head, **ctl_tail = &ctl_head;
static bool ctl_running;
static struct urxe_eal_watch *watches; /* control thread's */

static uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t ctl_poll_watches(void)
{
	uint64_t now = mono_ns(), next = UINT64_MAX;
	struct urxe_eal_watch *w, *n;

	for (w = watches; w; w = n) {
		n = w->next;
		if (w->due_ns <= now) {
			w->poll(w->arg);
			w->due_ns = mono_ns() + w->interval_ns;
		}
		if (w->due_ns < next)
			next = w->due_ns;
	}
	return next;
}

static void *ctl_main(void *unused)
{
	struct eal_job *job;
	uint64_t next;

	pthread_setname_np(pthread_self(), "urxe-ctl");
	for (;;) {
		next = ctl_poll_watches();
		urxe_mutex_lock(&ctl_lock);
		if (!ctl_head) {
			if (next == UINT64_MAX) {
				urxe_mutex_wait(&ctl_lock, &ctl_work);
			} else {
				struct timespec ts = {.tv_sec = (time_t)(next / 1000000000u),
						      .tv_nsec = (long)(next % 1000000000u)};

				urxe_mutex_timedwait(&ctl_lock, &ctl_work, &ts);
			}
		}
		job = ctl_head;
		if (job) {
			ctl_head = job->next;
			if (!ctl_head)
				ctl_tail = &ctl_head;
		}
		urxe_mutex_unlock(&ctl_lock);
		if (!job)
			continue;
		job->ret = job->fn(job->arg);
		urxe_mutex_lock(&ctl_lock);
		job->done = true;
		pthread_cond_broadcast(&ctl_done);
		urxe_mutex_unlock(&ctl_lock);
	}
	return unused;
}

static void after_fork_child(void)
{
	if (ctl_running)
		urxe_eal_dead = true;
}

/* Threads that run our code outlive whoever loaded us: never let us be unloaded. */
static void pin_library(void)
{
	Dl_info info;

	if (dladdr((void *)(uintptr_t)pin_library, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static int ctl_start(void)
{
	static bool once;
	pthread_condattr_t attr;
	pthread_t thread;
	int ret;

	if (ctl_running)
		return 0;
	if (!once) {
		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&ctl_work, &attr);
		pthread_condattr_destroy(&attr);
		pthread_cond_init(&ctl_done, NULL);
		ret = pthread_atfork(NULL, NULL, after_fork_child);
		if (ret)
			return ret;
		pin_library();
		once = true;
	}
	ret = urxe_thread_start(&thread, ctl_main, NULL);
	if (ret)
		return ret;
	pthread_detach(thread);
	ctl_running = true;
	return 0;
}

int urxe_eal_call(int (*fn)(void *arg), void *arg)
{
	struct eal_job job = {.fn = fn, .arg = arg};
	int ret;

	if (urxe_eal_dead)
		return ENODEV;
	urxe_mutex_lock(&ctl_lock);
	ret = ctl_start();
	if (ret) {
		urxe_mutex_unlock(&ctl_lock);
		return ret;
	}
	*ctl_tail = &job;
	ctl_tail = &job.next;
	pthread_cond_signal(&ctl_work);
	while (!job.done)
		urxe_mutex_wait(&ctl_lock, &ctl_done);
	urxe_mutex_unlock(&ctl_lock);
	return job.ret;
}

void urxe_eal_watch_add(struct urxe_eal_watch *w)
{
	w->due_ns = mono_ns() + w->interval_ns;
	w->next = watches;
	watches = w;
}

void urxe_eal_watch_del(struct urxe_eal_watch *w)
{
	for (struct urxe_eal_watch **p = &watches; *p; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			return;
		}
	}
}

/* ---- DPDK's log ---- */

static struct urxe_mutex log_lock = URXE_MUTEX_INIT;
static char log_error[200];

static void log_line(const char *line, size_t len)
{
	while (len && isspace((unsigned char)line[len - 1]))
		len--;
	if (!len)
		return;
	if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_ERR) {
		urxe_mutex_lock(&log_lock);
		if (!log_error[0]) /* the first one is nearest to the cause */
			snprintf(log_error, sizeof(log_error), "%.*s", (int)len, line);
		urxe_mutex_unlock(&log_lock);
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
	static FILE *stream;

	if (stream)
		return 0;
	stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_write});
	if (!stream)
		return ENOMEM;
	setvbuf(stream, NULL, _IOLBF, 512);
	rte_openlog_stream(stream);
	if (urxe_log_enabled(URXE_LOG_DEBUG))
		rte_log_set_global_level(RTE_LOG_DEBUG);
	return 0;
}

void urxe_eal_error(char *buf, size_t len)
{
	urxe_mutex_lock(&log_lock);
	if (len)
		snprintf(buf, len, "%s", log_error);
	log_error[0] = '\0';
	urxe_mutex_unlock(&log_lock);
}

/* ---- EAL ---- */

void urxe_eal_want(const struct urxe_port_config *cfg, uint32_t l3_mtu)
{
	char pci[32];

	urxe_mutex_lock(&want_lock);
	want_mb += urxe_devargs_pool_mb(cfg, l3_mtu);
	if (urxe_devargs_pci(cfg->port, pci, sizeof(pci))) {
		want_pci = true;
		if (want_allows < URXE_CONFIG_MAX_DEVICES)
			snprintf(want_allow[want_allows++], sizeof(want_allow[0]), "%s", pci);
	}
	urxe_mutex_unlock(&want_lock);
}

void urxe_eal_set_args(const char *args)
{
	urxe_mutex_lock(&want_lock);
	snprintf(extra_args, sizeof(extra_args), "%s", args);
	urxe_mutex_unlock(&want_lock);
}

struct eal_args {
	char *argv[EAL_MAX_ARGS];
	int argc;
};

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

static void args_build(struct eal_args *a)
{
	char *copy, *save = NULL;

	arg_add(a, "urxe");
	arg_lcores(a);
	arg_add(a, "--no-telemetry");
	arg_add(a, "--file-prefix=urxe-%d", (int)getpid());
	urxe_mutex_lock(&want_lock);
	if (want_pci) {
		for (unsigned i = 0; i < want_allows; i++) {
			arg_add(a, "-a");
			arg_add(a, "%s", want_allow[i]);
		}
	} else {
		arg_add(a, "--no-pci");
	}
	if (want_pci && urxe_pci_hugepages(&urxe_pci_machine)) {
		/* DMA wants pages that stay where they are. */
		arg_add(a, "--in-memory");
		arg_add(a, "--single-file-segments");
	} else {
		arg_add(a, "--no-huge");
		arg_add(a, "--no-shconf");
		arg_add(a, "--iova-mode=va");
		arg_add(a, "-m");
		arg_add(a, "%u", EAL_BASE_MB + want_mb);
	}
	copy = strdup(extra_args);
	urxe_mutex_unlock(&want_lock);
	for (char *t = copy ? strtok_r(copy, " \t", &save) : NULL; t;
	     t = strtok_r(NULL, " \t", &save))
		arg_add(a, "%s", t);
	free(copy);
	a->argv[a->argc] = NULL;
}

/*
 * EAL makes a directory <run>/dpdk/<prefix> even when it shares nothing. <run> is /tmp for a user
 * without a session, where another user's dpdk/ is in the way: then lead it elsewhere.
 */
static char *runtime_dir_detour(void)
{
	static char dir[] = "/tmp/urxe-XXXXXX";
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
	char *detour = had ? NULL : runtime_dir_detour();
	FILE *out = stdout, *err = stderr, *sink = NULL;
	char path[4096];
	int ret;

	/* Only the user's own arguments can be wrong; EAL and getopt then print what we say better.
	 */
	if (extra_args[0])
		sink = fopen("/dev/null", "we");
	if (sink)
		stdout = stderr = sink;
	ret = rte_eal_init(a->argc, a->argv);
	if (sink) {
		stdout = out;
		stderr = err;
		fclose(sink);
	}
	if (ret >= 0)
		rmdir(rte_eal_get_runtime_dir());
	if (detour) {
		snprintf(path, sizeof(path), "%s/dpdk", detour);
		rmdir(path);
		rmdir(detour);
		unsetenv("RUNTIME_DIRECTORY");
	}
	return ret;
}

int urxe_eal_start(char *err, size_t errlen)
{
	static bool up;
	/* EAL permutes argv, and keeps the strings. */
	static struct eal_args a;
	static char *argv[EAL_MAX_ARGS];
	int ret, n;

	if (up)
		return 0;
	ret = log_open();
	if (ret)
		return ret;
	memset(&a, 0, sizeof(a));
	args_build(&a);
	n = a.argc;
	memcpy(argv, a.argv, sizeof(argv));
	urxe_eal_error(err, errlen);
	ret = 0;
	if (eal_init(&a) < 0) {
		ret = rte_errno ? rte_errno : EIO;
		if (ret == EALREADY) /* a DPDK program: its EAL serves us too */
			ret = 0;
	}
	if (ret) {
		urxe_eal_error(err, errlen);
		if (!err[0])
			snprintf(err, errlen, "EAL refuses its arguments '%s'", extra_args);
		for (int i = 0; i < n; i++)
			free(argv[i]);
		return ret;
	}
	up = true;
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

static int lcore_free[RTE_MAX_LCORE];
static unsigned lcore_frees;

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

	if (lcore_frees)
		return lcore_free[--lcore_frees];
	/* The id stays taken when the thread that registered is gone: that is what we want. */
	if (pthread_create(&thread, NULL, lcore_main, &id))
		return -1;
	pthread_join(thread, NULL);
	return id;
}

void urxe_eal_lcore_put(int lcore)
{
	if (lcore >= 0 && lcore_frees < RTE_MAX_LCORE)
		lcore_free[lcore_frees++] = lcore;
}
