/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A process that is nobody's child, from within somebody's program. What is between is a child
 * without a signal for its end (clone(2)), which only we can wait for; it shares our memory, as
 * vfork()'s does, since a program may have much of it. So the two write nothing but their own
 * stacks and struct job, and what a sanitizer would look at is left to the kernel: no handler of
 * the program runs in them, no interceptor takes note of what they close.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netio/gate_spawn.h"
#include "netio/sysmap.h"
#include "urxe/owner.h"

#define STACK (64u << 10)
#define KEEP  3	   /* the lock's descriptor in the new process */
#define CPUS  8192 /* more than there are */

/* In the child, and its: they are no threads of the program's that a sanitizer would follow. What
 * one notes of their stacks would stay when they end by execve(2), for what is mapped there next.
 */
#define BARE __attribute__((no_sanitize("thread", "address")))

/* clone() by its other name: that of ThreadSanitizer has the child turn its checks off, which are
 * those of the parent as well. */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...); // NOLINT: the library's

struct job {
	const char *const *argv;
	const char *lock; /* the folder */
	char *const *env;
	int said, null;
	uint8_t *stacks; /* of the child, and of its */
	uint8_t cpus[CPUS / 8];
	int err;
};

/* The kernel's struct sigaction, of which all zeros is SIG_DFL; sigaction(2) of the library may
 * keep a record, in memory that is the program's. */
BARE static void signals_default(void)
{
	static const uint64_t dfl[8], none;

	for (int sig = 1; sig <= 64; sig++)
		syscall(SYS_rt_sigaction, sig, dfl, NULL, sizeof(none));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}

/* A program that is pinned, or of real time, says nothing of how another one is to run. */
BARE static void schedule(struct job *j)
{
	const struct sched_param param = {0};
	long policy = syscall(SYS_sched_getscheduler, 0);

	syscall(SYS_sched_setaffinity, 0, sizeof(j->cpus), j->cpus);
	if (policy == SCHED_FIFO || policy == SCHED_RR)
		syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &param);
}

/* 0..2, and KEEP. They are above that before. */
BARE static bool descriptors(const struct job *j, int lock)
{
	int first = j->lock ? KEEP + 1 : KEEP;

	if (syscall(SYS_dup3, j->null, 0, 0) < 0 || syscall(SYS_dup3, j->null, 1, 0) < 0 ||
	    syscall(SYS_dup3, j->said, 2, 0) < 0)
		return false;
	if (j->lock && syscall(SYS_dup3, lock, KEEP, 0) < 0)
		return false;
	if (syscall(SYS_close_range, first, ~0u, 0)) {
		for (long fd = sysconf(_SC_OPEN_MAX); --fd >= first;)
			syscall(SYS_close, fd);
	}
	return true;
}

/*
 * Here, since the program may fork meanwhile: its child would have the lock, too. Above KEEP, and
 * not open in the program at all. -1, with errno.
 */
BARE static int take_lock(const char *dir)
{
	long fd = syscall(SYS_openat, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	long up = fd < 0 ? -1 : syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, KEEP + 1);

	if (up < 0 || syscall(SYS_flock, up, LOCK_EX | LOCK_NB))
		return -1;
	return (int)up;
}

/* The child's child: it returns only if it has failed. Not by _exit(): clone() does that. */
BARE static int new_process(void *arg)
{
	struct job *j = arg;
	int lock = j->lock ? take_lock(j->lock) : -1;

	if (!j->lock || lock >= 0) {
		/* Before signals come: those of a terminal are not for it. */
		syscall(SYS_setsid);
		signals_default();
		schedule(j);
		if (!syscall(SYS_chdir, "/") && descriptors(j, lock))
			syscall(SYS_execve, j->argv[0], j->argv, j->env);
	}
	j->err = errno;
	return 127;
}

BARE static int between(void *arg)
{
	struct job *j = arg;
	int pid = __clone(new_process, j->stacks + 2 * STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, j);

	if (pid < 0)
		j->err = errno;
	/* Who has failed is left to nobody. */
	else if (j->err)
		syscall(SYS_wait4, pid, NULL, 0, NULL);
	return 0;
}

/* ---- ours ---- */

static bool passed_on(const char *var)
{
	return strncmp(var, "LD_", 3) != 0 &&
	       (strncmp(var, "URXE_", 5) != 0 || !strncmp(var, "URXE_STATUS_DIR=", 16) ||
		!strncmp(var, URXE_OWNER_ENV "=", sizeof(URXE_OWNER_ENV)));
}

char **urxe_spawn_env(char **from)
{
	size_t n = 0, bytes = 0;
	char **env, *text;

	for (size_t i = 0; from && from[i]; i++) {
		if (passed_on(from[i])) {
			n++;
			bytes += strlen(from[i]) + 1;
		}
	}
	env = malloc((n + 1) * sizeof(*env) + bytes);
	if (!env)
		return NULL;
	text = (char *)(env + n + 1);
	n = 0;
	for (size_t i = 0; from && from[i]; i++) {
		if (passed_on(from[i])) {
			env[n++] = text;
			text = stpcpy(text, from[i]) + 1;
		}
	}
	env[n] = NULL;
	return env;
}

/* A descriptor that none of 0..KEEP stands in for. */
static int above(int fd)
{
	int up = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, KEEP + 1);

	if (fd >= 0)
		close(fd);
	return up;
}

static void run(struct job *j)
{
	sigset_t all, old;
	pid_t pid;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = __clone(between, j->stacks + STACK, CLONE_VM | CLONE_VFORK, j);
	if (pid < 0)
		j->err = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	while (pid > 0 && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
}

/* Its descriptors: 0 or errno. */
static int open_all(struct job *j, int *said)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return errno;
	*said = ends[0];
	j->said = above(ends[1]);
	/* Who writes waits. */
	if (j->said < 0 || fcntl(j->said, F_SETFL, 0))
		return errno;
	j->null = above(open("/dev/null", O_RDWR | O_CLOEXEC));
	return j->null < 0 ? errno : 0;
}

static uint8_t *map_stacks(void)
{
	void *p = NULL;

	return urxe_sys_map(-1, 2 * STACK, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, &p) ? NULL : p;
}

int urxe_spawn_process(const char *const argv[], char *const env[], const char *lock, int *said)
{
	struct job j = {.argv = argv, .env = env, .lock = lock, .null = -1, .said = -1};

	*said = -1;
	memset(j.cpus, 0xff, sizeof(j.cpus));
	j.stacks = map_stacks();
	j.err = j.stacks ? open_all(&j, said) : ENOMEM;
	if (!j.err)
		run(&j);
	if (j.said >= 0)
		close(j.said);
	if (j.null >= 0)
		close(j.null);
	urxe_sys_unmap(j.stacks, 2 * STACK);
	if (j.err && *said >= 0) {
		close(*said);
		*said = -1;
	}
	return j.err;
}
