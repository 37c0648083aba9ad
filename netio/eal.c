/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * DPDK's EAL as a guest of the process: what the devices want of it, its start, its log, and the
 * control thread on which all its slow calls run.
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
#include "netio/pci.h"
#include "urxe/lock.h"
#include "urxe/log.h"
#include "urxe/thread.h"

#define EAL_MAX_ARGS 64
#define EAL_BASE_MB  32
#define EAL_FDS	     32	 /* descriptors that its start takes, and some more */
#define EAL_SPARE_MB 256 /* of addresses, besides its memory: its drivers, its threads' stacks */

bool urxe_eal_dead;

struct eal_job {
	int (*fn)(void *arg);
	void *arg;
	int ret;
	bool done;
	struct eal_job *next;
};

struct eal_args {
	char *argv[EAL_MAX_ARGS];
	int argc;
	bool users; /* some are the user's own */
};

/* EAL is one a process, and so is what is kept of it. */
static struct {
	/* What the devices want, gathered before the start. */
	struct {
		struct urxe_mutex lock;
		unsigned mb;
		bool pci;
		char allow[URXE_CONFIG_MAX_DEVICES][32];
		unsigned allows;
		char args[256]; /* the user's own */
	} want;
	/* The control thread's jobs. */
	struct {
		struct urxe_mutex lock;
		pthread_cond_t work; /* on CLOCK_MONOTONIC */
		pthread_cond_t done;
		struct eal_job *head, **tail;
		bool ready; /* the conditions are, and fork is looked after */
		bool running;
	} ctl;
	/* DPDK's log. */
	struct {
		struct urxe_mutex lock;
		char error[200]; /* the first since somebody asked */
		FILE *stream;	 /* control thread's */
	} log;
	/* The control thread's own. */
	struct urxe_eal_watch *watches;
	bool up;
	struct eal_args args;	  /* EAL permutes argv, and keeps the strings */
	char *argv[EAL_MAX_ARGS]; /* as it was, to be freed */
	int lcore_free[RTE_MAX_LCORE];
	unsigned lcore_frees;
} eal = {
	.want.lock = URXE_MUTEX_INIT,
	.ctl.lock = URXE_MUTEX_INIT,
	.ctl.tail = &eal.ctl.head,
	.log.lock = URXE_MUTEX_INIT,
};

/* ---- the control thread ---- */

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

	for (w = eal.watches; w; w = n) {
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

	for (;;) {
		next = ctl_poll_watches();
		urxe_mutex_lock(&eal.ctl.lock);
		if (!eal.ctl.head) {
			if (next == UINT64_MAX) {
				urxe_mutex_wait(&eal.ctl.lock, &eal.ctl.work);
			} else {
				struct timespec ts = {.tv_sec = (time_t)(next / 1000000000u),
						      .tv_nsec = (long)(next % 1000000000u)};

				urxe_mutex_timedwait(&eal.ctl.lock, &eal.ctl.work, &ts);
			}
		}
		job = eal.ctl.head;
		if (job) {
			eal.ctl.head = job->next;
			if (!eal.ctl.head)
				eal.ctl.tail = &eal.ctl.head;
		}
		urxe_mutex_unlock(&eal.ctl.lock);
		if (!job)
			continue;
		job->ret = job->fn(job->arg);
		urxe_mutex_lock(&eal.ctl.lock);
		job->done = true;
		pthread_cond_broadcast(&eal.ctl.done);
		urxe_mutex_unlock(&eal.ctl.lock);
	}
	return unused;
}

static void after_fork_child(void)
{
	if (eal.ctl.running)
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
	pthread_condattr_t attr;
	pthread_t thread;
	int ret;

	if (eal.ctl.running)
		return 0;
	if (!eal.ctl.ready) {
		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&eal.ctl.work, &attr);
		pthread_condattr_destroy(&attr);
		pthread_cond_init(&eal.ctl.done, NULL);
		ret = pthread_atfork(NULL, NULL, after_fork_child);
		if (ret)
			return ret;
		pin_library();
		eal.ctl.ready = true;
	}
	ret = urxe_thread_start(&thread, "urxe/ctl", ctl_main, NULL);
	if (ret)
		return ret;
	pthread_detach(thread);
	eal.ctl.running = true;
	return 0;
}

int urxe_eal_call(int (*fn)(void *arg), void *arg)
{
	struct eal_job job = {.fn = fn, .arg = arg};
	int ret;

	if (urxe_eal_dead)
		return ENODEV;
	urxe_mutex_lock(&eal.ctl.lock);
	ret = ctl_start();
	if (ret) {
		urxe_mutex_unlock(&eal.ctl.lock);
		return ret;
	}
	*eal.ctl.tail = &job;
	eal.ctl.tail = &job.next;
	pthread_cond_signal(&eal.ctl.work);
	while (!job.done)
		urxe_mutex_wait(&eal.ctl.lock, &eal.ctl.done);
	urxe_mutex_unlock(&eal.ctl.lock);
	return job.ret;
}

void urxe_eal_watch_add(struct urxe_eal_watch *w)
{
	w->due_ns = mono_ns() + w->interval_ns;
	w->next = eal.watches;
	eal.watches = w;
}

void urxe_eal_watch_del(struct urxe_eal_watch *w)
{
	for (struct urxe_eal_watch **p = &eal.watches; *p; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			return;
		}
	}
}

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

void urxe_eal_want(const struct urxe_port_config *cfg, uint32_t l3_mtu)
{
	char pci[32];

	urxe_mutex_lock(&eal.want.lock);
	eal.want.mb += urxe_devargs_pool_mb(cfg, l3_mtu);
	if (urxe_devargs_pci(cfg->port, pci, sizeof(pci))) {
		eal.want.pci = true;
		if (eal.want.allows < URXE_CONFIG_MAX_DEVICES)
			snprintf(eal.want.allow[eal.want.allows++], sizeof(eal.want.allow[0]), "%s",
				 pci);
	}
	urxe_mutex_unlock(&eal.want.lock);
}

void urxe_eal_set_args(const char *args)
{
	urxe_mutex_lock(&eal.want.lock);
	snprintf(eal.want.args, sizeof(eal.want.args), "%s", args);
	urxe_mutex_unlock(&eal.want.lock);
}

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
	urxe_mutex_lock(&eal.want.lock);
	if (eal.want.pci) {
		for (unsigned i = 0; i < eal.want.allows; i++) {
			arg_add(a, "-a");
			arg_add(a, "%s", eal.want.allow[i]);
		}
	} else {
		arg_add(a, "--no-pci");
	}
	if (eal.want.pci && urxe_pci_hugepages(&urxe_pci_machine)) {
		/* DMA wants pages that stay where they are. */
		arg_add(a, "--in-memory");
		arg_add(a, "--single-file-segments");
	} else {
		arg_add(a, "--no-huge");
		arg_add(a, "--no-shconf");
		arg_add(a, "--iova-mode=va");
		arg_add(a, "-m");
		arg_add(a, "%u", EAL_BASE_MB + eal.want.mb);
	}
	copy = strdup(eal.want.args);
	a->users = eal.want.args[0] != '\0';
	urxe_mutex_unlock(&eal.want.lock);
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
	char path[4096];
	int ret;

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

/*
 * A DPDK program has started EAL, which is one a process: it serves us, too. To try would print
 * "FATAL". No call asks for that, but EAL has the TSC's frequency from its start on.
 */
static bool is_applications(void)
{
	return rte_get_tsc_hz() != 0;
}

/*
 * Where descriptors or addresses run out in the midst of its start, EAL says that its arguments are
 * wrong, or ends the process. So they are counted before. 0 or errno, with a line in @err.
 */
static int have_room(char *err, size_t errlen)
{
	size_t size = ((size_t)EAL_BASE_MB + eal.want.mb + EAL_SPARE_MB) << 20;
	int fds[EAL_FDS], ret = 0;
	unsigned n = 0;
	void *p;

	while (n < EAL_FDS && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	if (n < EAL_FDS)
		ret = errno;
	if (ret)
		snprintf(err, errlen, "it needs %u descriptors, and there are %u (ulimit -n)",
			 EAL_FDS, n);
	while (n)
		close(fds[--n]);
	if (ret)
		return ret;
	p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		ret = errno;
		snprintf(err, errlen, "it needs %zu MB of addresses (ulimit -v)", size >> 20);
		return ret;
	}
	munmap(p, size);
	return 0;
}

int urxe_eal_start(char *err, size_t errlen)
{
	struct eal_args *a = &eal.args;
	int ret, n;

	if (eal.up)
		return 0;
	if (is_applications()) {
		eal.up = true;
		return 0;
	}
	ret = have_room(err, errlen);
	if (!ret)
		ret = log_open();
	if (ret)
		return ret;
	memset(a, 0, sizeof(*a));
	args_build(a);
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
			snprintf(err, errlen, "EAL refuses its arguments '%s'", eal.want.args);
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
