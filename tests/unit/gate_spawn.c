/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxed on demand: who starts it and when, by a clock of the test's own and scripts that stand in
 * for it; what of the program such a process has.
 */
#include "fabric_rig.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "netio/fabric_priv.h"
#include "netio/gate_spawn.h"

#define SEC 1000000000ull

static char dir[64], path[96];
static _Atomic uint64_t hold;
static uint64_t now;

/* ---- setting up ---- */

/* What is to be started: a script. */
static void program(const char *text)
{
	FILE *f = fopen(path, "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fprintf(f, "#!/bin/sh\n%s\n", text);
	CU_ASSERT_EQUAL(fclose(f), 0);
	CU_ASSERT_EQUAL(chmod(path, 0700), 0);
}

static void begin(const char *text)
{
	strcpy(dir, "/tmp/urxe-spawn-XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/urxed", dir);
	program(text);
	setenv("URXE_URXED", path, 1);
	unsetenv("URXE_NO_SPAWN");
	atomic_store(&hold, 0);
	now = 100 * SEC;
}

static void end(void)
{
	unlink(path);
	CU_ASSERT_EQUAL(rmdir(dir), 0);
	unsetenv("URXE_URXED");
}

static int want(struct urxe_spawn *s)
{
	bool call;

	return urxe_spawn_want(s, now, &call);
}

static enum urxe_spawn_state state_of(struct urxe_spawn *s)
{
	return (enum urxe_spawn_state)atomic_load(&s->state);
}

/* Until the one that was started says something, or ends. */
static void await(struct urxe_spawn *s)
{
	struct pollfd p = {.fd = s->said_fd, .events = POLLIN};

	CU_ASSERT_FATAL(s->said_fd >= 0);
	CU_ASSERT_EQUAL(poll(&p, 1, -1), 1);
	urxe_spawn_run(s, now, false, false);
}

/* Its lock has gone when this returns: the clock of the test stands still until then. */
static void end_process(pid_t pid)
{
	struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

	CU_ASSERT_FATAL(p.fd >= 0);
	kill(pid, SIGKILL);
	CU_ASSERT_EQUAL(poll(&p, 1, -1), 1);
	close(p.fd);
}

/* It has said which process it is. */
static pid_t pid_of(struct urxe_spawn *s)
{
	while (strncmp(s->said, "pid ", 4) != 0)
		await(s);
	return (pid_t)atoi(s->said + 4);
}

static void stop(struct urxe_spawn *s)
{
	urxe_spawn_end(s);
	urxe_spawn_free(s);
}

/* ---- who may ---- */

static enum urxe_spawn_state may(const char *urxed, const char *no, const char *where)
{
	struct urxe_spawn s;
	enum urxe_spawn_state state;

	unsetenv("URXE_NO_SPAWN");
	unsetenv("URXE_URXED");
	if (urxed)
		setenv("URXE_URXED", urxed, 1);
	if (no)
		setenv("URXE_NO_SPAWN", no, 1);
	urxe_spawn_init(&s, where, NULL);
	state = state_of(&s);
	stop(&s);
	unsetenv("URXE_NO_SPAWN");
	unsetenv("URXE_URXED");
	return state;
}

static void who_may(void)
{
	struct urxe_spawn s;
	bool call;

	CU_ASSERT_EQUAL(may("/bin/true", NULL, "/tmp"), URXE_SPAWN_IDLE);
	CU_ASSERT_EQUAL(may("/bin/true", "", "/tmp"), URXE_SPAWN_IDLE);
	CU_ASSERT_EQUAL(may("/bin/true", "0", "/tmp"), URXE_SPAWN_IDLE);
	CU_ASSERT_EQUAL(may("/bin/true", "1", "/tmp"), URXE_SPAWN_NEVER);
	CU_ASSERT_EQUAL(may("/bin/true", "yes", "/tmp"), URXE_SPAWN_NEVER);
	/* A node, or a gateway. */
	CU_ASSERT_EQUAL(may("/bin/true", NULL, ""), URXE_SPAWN_NEVER);
	/* Not under `urxe run`, or no urxed beside it. */
	CU_ASSERT_EQUAL(may(NULL, NULL, "/tmp"), URXE_SPAWN_NEVER);
	CU_ASSERT_EQUAL(may("", NULL, "/tmp"), URXE_SPAWN_NEVER);
	CU_ASSERT_EQUAL(may("urxed", NULL, "/tmp"), URXE_SPAWN_NEVER);

	setenv("URXE_URXED", "/bin/true", 1);
	setenv("URXE_NO_SPAWN", "1", 1);
	urxe_spawn_init(&s, "/tmp", NULL);
	CU_ASSERT_EQUAL(urxe_spawn_want(&s, SEC, &call), EHOSTUNREACH);
	CU_ASSERT_FALSE(call);
	CU_ASSERT_EQUAL(urxe_spawn_run(&s, SEC, false, true), UINT64_MAX);
	CU_ASSERT_PTR_NOT_NULL(strstr(urxe_spawn_why(&s), "URXE_NO_SPAWN"));
	stop(&s);
	unsetenv("URXE_NO_SPAWN");
	unsetenv("URXE_URXED");
}

/* A program that has more rights than who runs it: here, than who it says it is. */
static void privileged(void)
{
	if (getuid()) {
		CU_PASS("only root can become somebody else and back");
		return;
	}
	CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
	CU_ASSERT_EQUAL(may("/bin/true", NULL, "/tmp"), URXE_SPAWN_NEVER);
	CU_ASSERT_EQUAL_FATAL(seteuid(0), 0);
	CU_ASSERT_EQUAL_FATAL(setegid(65534), 0);
	CU_ASSERT_EQUAL(may("/bin/true", NULL, "/tmp"), URXE_SPAWN_NEVER);
	CU_ASSERT_EQUAL_FATAL(setegid(0), 0);
	CU_ASSERT_EQUAL(may("/bin/true", NULL, "/tmp"), URXE_SPAWN_IDLE);
}

/* ---- when ---- */

static void on_demand(void)
{
	struct urxe_spawn s;
	bool call;
	pid_t pid;

	begin("echo pid $$ >&2; exec sleep 1000");
	urxe_spawn_init(&s, dir, &hold);
	/* Nobody wants it. */
	CU_ASSERT_EQUAL(urxe_spawn_run(&s, now, false, false), UINT64_MAX);
	CU_ASSERT_EQUAL(urxe_spawn_want(&s, now, &call), EINPROGRESS);
	CU_ASSERT_TRUE(call);
	CU_ASSERT_EQUAL(urxe_spawn_want(&s, now, &call), EINPROGRESS);
	CU_ASSERT_FALSE(call);
	CU_ASSERT(urxe_spawn_run(&s, now, false, false) > now);
	CU_ASSERT_EQUAL(state_of(&s), URXE_SPAWN_STARTING);
	pid = pid_of(&s);
	CU_ASSERT_EQUAL(want(&s), EINPROGRESS);
	/* It is there: looked at now and then. */
	CU_ASSERT_EQUAL(urxe_spawn_run(&s, now, true, false), now + SEC);
	CU_ASSERT_EQUAL(state_of(&s), URXE_SPAWN_IDLE);
	CU_ASSERT_EQUAL(s.said_fd, -1);
	/* Gone: another one, though nobody sends; its lock goes with it. */
	end_process(pid);
	do
		urxe_spawn_run(&s, now += SEC / 10, false, false);
	while (s.said_fd < 0);
	end_process(pid_of(&s));
	await(&s);
	CU_ASSERT_EQUAL(state_of(&s), URXE_SPAWN_FAILED);
	stop(&s);
	end();
}

/* A program that found one there, and may now only receive. */
static void for_a_user(void)
{
	struct urxe_spawn s;

	begin("echo pid $$ >&2; exec sleep 1000");
	urxe_spawn_init(&s, dir, &hold);
	CU_ASSERT_TRUE(urxe_spawn_use(&s));
	CU_ASSERT_FALSE(urxe_spawn_use(&s));
	CU_ASSERT_EQUAL(urxe_spawn_run(&s, now, true, false), now + SEC);
	urxe_spawn_run(&s, now, false, false);
	CU_ASSERT_EQUAL(state_of(&s), URXE_SPAWN_STARTING);
	end_process(pid_of(&s));
	stop(&s);
	end();
}

static void for_a_server(void)
{
	struct urxe_spawn s;

	begin("echo pid $$ >&2; exec sleep 1000");
	urxe_spawn_init(&s, dir, &hold);
	/* One that is there is not started again, and not even looked for by who does not serve. */
	CU_ASSERT_EQUAL(urxe_spawn_run(&s, now, true, false), UINT64_MAX);
	CU_ASSERT_EQUAL(urxe_spawn_run(&s, now, false, false), UINT64_MAX);
	CU_ASSERT_EQUAL(urxe_spawn_run(&s, now, true, true), now + SEC);
	CU_ASSERT_EQUAL(s.said_fd, -1);
	urxe_spawn_run(&s, now, false, true);
	CU_ASSERT_EQUAL(state_of(&s), URXE_SPAWN_STARTING);
	end_process(pid_of(&s));
	stop(&s);
	end();
}

/* The last thing it says is why, and there is a pause after each try that becomes longer. */
static void failing(void)
{
	struct urxe_spawn s, other;
	uint64_t first, second;

	begin("echo once >&2; echo 'the port is taken' >&2; exit 1");
	urxe_spawn_init(&s, dir, &hold);
	urxe_spawn_init(&other, dir, &hold);
	CU_ASSERT_EQUAL(want(&s), EINPROGRESS);
	urxe_spawn_run(&s, now, false, false);
	while (state_of(&s) == URXE_SPAWN_STARTING)
		await(&s);
	CU_ASSERT_EQUAL(state_of(&s), URXE_SPAWN_FAILED);
	CU_ASSERT_STRING_EQUAL(s.told, "the port is taken");
	CU_ASSERT_EQUAL(want(&s), EHOSTUNREACH);
	first = urxe_spawn_run(&s, now, false, false) - now;
	CU_ASSERT(first >= SEC && first <= 60 * SEC);
	/* Another member tries no more than this one. */
	CU_ASSERT_EQUAL(want(&other), EINPROGRESS);
	CU_ASSERT(urxe_spawn_run(&other, now, false, false) >= now + first);
	CU_ASSERT_EQUAL(state_of(&other), URXE_SPAWN_FAILED);
	CU_ASSERT_EQUAL(want(&other), EHOSTUNREACH);
	CU_ASSERT_EQUAL(other.said_fd, -1);

	now += first;
	urxe_spawn_run(&s, now, false, false);
	while (state_of(&s) == URXE_SPAWN_STARTING)
		await(&s);
	second = urxe_spawn_run(&s, now, false, false) - now;
	CU_ASSERT(second > first && second <= 60 * SEC);
	/* Who wants it does not wait as long. */
	now += first;
	CU_ASSERT_EQUAL(want(&s), EINPROGRESS);
	/* Rubbish in the table stops nobody for ever. */
	atomic_store(&hold, UINT64_MAX - 1);
	urxe_spawn_run(&s, now, false, false);
	CU_ASSERT_EQUAL(state_of(&s), URXE_SPAWN_STARTING);
	stop(&s);
	stop(&other);
	end();
}

static void missing(void)
{
	struct urxe_spawn s;

	begin("exit 0");
	unlink(path);
	urxe_spawn_init(&s, dir, &hold);
	CU_ASSERT_EQUAL(want(&s), EINPROGRESS);
	urxe_spawn_run(&s, now, false, false);
	CU_ASSERT_EQUAL(state_of(&s), URXE_SPAWN_FAILED);
	CU_ASSERT_STRING_EQUAL(s.told, strerror(ENOENT));
	CU_ASSERT_EQUAL(want(&s), EHOSTUNREACH);
	stop(&s);
	program("exit 0");
	end();
}

static void never_ready(void)
{
	struct urxe_spawn s;
	pid_t pid;

	begin("echo pid $$ >&2; exec sleep 1000");
	urxe_spawn_init(&s, dir, &hold);
	want(&s);
	urxe_spawn_run(&s, now, false, false);
	pid = pid_of(&s);
	urxe_spawn_run(&s, now + 10 * SEC, false, false);
	CU_ASSERT_EQUAL(state_of(&s), URXE_SPAWN_FAILED);
	end_process(pid);
	stop(&s);
	end();
}

/* One that starts, and ends soon, time and again. */
static void crashing(void)
{
	struct urxe_spawn s;
	unsigned n = 0;

	begin("echo pid $$ >&2; exec sleep 1000");
	urxe_spawn_init(&s, dir, &hold);
	want(&s);
	while (n < 100 && state_of(&s) != URXE_SPAWN_FAILED) {
		urxe_spawn_run(&s, now, false, false);
		if (s.said_fd >= 0) {
			pid_t pid = pid_of(&s);

			n++;
			urxe_spawn_run(&s, now, true, false);
			end_process(pid);
		}
		now += SEC / 10;
	}
	CU_ASSERT(n > 1 && n < 20);
	stop(&s);
	end();
}

/* ---- one of many ---- */

static void only_one(void)
{
	struct urxe_spawn s[4];
	unsigned started = 0;
	pid_t pid;

	begin("echo pid $$ >&2; exec sleep 1000");
	for (unsigned i = 0; i < 4; i++) {
		urxe_spawn_init(&s[i], dir, &hold);
		want(&s[i]);
		urxe_spawn_run(&s[i], now, false, false);
		CU_ASSERT_EQUAL(state_of(&s[i]), URXE_SPAWN_STARTING);
		started += s[i].said_fd >= 0;
	}
	CU_ASSERT_EQUAL(started, 1);
	CU_ASSERT(s[0].said_fd >= 0);
	/* Who waits for it has it as soon as it is there. */
	urxe_spawn_run(&s[1], now, true, false);
	CU_ASSERT_EQUAL(state_of(&s[1]), URXE_SPAWN_IDLE);
	/* Its death is not the others': the next one has a try. */
	pid = pid_of(&s[0]);
	end_process(pid);
	do
		urxe_spawn_run(&s[2], now += SEC / 10, false, false);
	while (s[2].said_fd < 0);
	end_process(pid_of(&s[2]));
	for (unsigned i = 0; i < 4; i++)
		stop(&s[i]);
	end();
}

/* ---- what it has of us ---- */

static volatile sig_atomic_t children;

static void on_child(int sig)
{
	children++;
}

/* All that it writes. */
static void read_all(int fd, char *buf, size_t len)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t got = 0;
	ssize_t n;

	while (poll(&p, 1, -1) == 1 && (n = read(fd, buf + got, len - 1 - got)) > 0)
		got += (size_t)n;
	buf[got] = '\0';
	close(fd);
}

static void clean(void)
{
	static const char *const argv[] = {
		"/bin/sh", "-c", "exec >&2; env; grep Sig /proc/self/status; pwd; ls /proc/self/fd",
		NULL};
	static char *from[] = {"PATH=/usr/bin:/bin",
			       "LD_PRELOAD=/nowhere",
			       "URXE_LOG=debug",
			       "URXE_STATUS_DIR=/somewhere",
			       "URXE_OWNER_UID=7",
			       "OTHER=1",
			       NULL};
	char buf[4096], **env = urxe_spawn_env(from);
	struct sigaction act = {.sa_handler = on_child}, old;
	int said, open_fd = open("/dev/null", O_RDONLY);
	sigset_t block, was;

	CU_ASSERT_PTR_NOT_NULL_FATAL(env);
	sigaction(SIGCHLD, &act, &old);
	signal(SIGUSR1, SIG_IGN);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR2);
	sigprocmask(SIG_BLOCK, &block, &was);
	CU_ASSERT_EQUAL_FATAL(urxe_spawn_process(argv, env, NULL, &said), 0);
	read_all(said, buf, sizeof(buf));
	/* No child of ours, and no signal. */
	CU_ASSERT_EQUAL(waitpid(-1, NULL, 0), -1);
	CU_ASSERT_EQUAL(errno, ECHILD);
	CU_ASSERT_EQUAL(waitpid(-1, NULL, __WALL), -1);
	CU_ASSERT_EQUAL(errno, ECHILD);
	CU_ASSERT_EQUAL(children, 0);
	/* The 3 is that of ls. */
	CU_ASSERT_PTR_NOT_NULL(strstr(buf, "\n/\n0\n1\n2\n3\n"));
	CU_ASSERT_PTR_NULL(strstr(buf, "\n4\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(buf, "OTHER=1\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(buf, "URXE_STATUS_DIR=/somewhere\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(buf, "URXE_OWNER_UID=7\n"));
	CU_ASSERT_PTR_NULL(strstr(buf, "LD_PRELOAD"));
	CU_ASSERT_PTR_NULL(strstr(buf, "URXE_LOG"));
	CU_ASSERT_PTR_NOT_NULL(strstr(buf, "SigBlk:\t0000000000000000\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(buf, "SigIgn:\t0000000000000000\n"));
	sigprocmask(SIG_SETMASK, &was, NULL);
	signal(SIGUSR1, SIG_DFL);
	sigaction(SIGCHLD, &old, NULL);
	close(open_fd);
	free(env);
}

static void handler(int sig)
{
}

/* The program's own handlers, and what it has open, are as before. */
static void unharmed(void)
{
	static const char *const argv[] = {"/bin/true", NULL}, *const none[] = {"/nowhere", NULL};
	struct sigaction act = {.sa_handler = handler}, now_act;
	char *env[] = {NULL}, buf[16];
	unsigned before = 0, after = 0;
	int said;

	sigaction(SIGUSR1, &act, NULL);
	for (int fd = 0; fd < 256; fd++)
		before += fcntl(fd, F_GETFD) >= 0;
	CU_ASSERT_EQUAL(urxe_spawn_process(argv, env, NULL, &said), 0);
	read_all(said, buf, sizeof(buf));
	CU_ASSERT_EQUAL(urxe_spawn_process(none, env, NULL, &said), ENOENT);
	CU_ASSERT_EQUAL(said, -1);
	CU_ASSERT_EQUAL(urxe_spawn_process(argv, env, "/nowhere", &said), ENOENT);
	for (int fd = 0; fd < 256; fd++)
		after += fcntl(fd, F_GETFD) >= 0;
	CU_ASSERT_EQUAL(before, after);
	sigaction(SIGUSR1, NULL, &now_act);
	CU_ASSERT_PTR_EQUAL(now_act.sa_handler, handler);
	CU_ASSERT_EQUAL(waitpid(-1, NULL, __WALL), -1);
	signal(SIGUSR1, SIG_DFL);
}

/* What is mapped next is where its stacks were: a sanitizer is to know nothing of these. */
static void memory_of_stacks(void)
{
	static const char *const argv[] = {"/bin/true", NULL};
	const size_t size = 128u << 10; /* as both stacks have */
	char *env[] = {NULL}, buf[16];
	int said;

	for (unsigned i = 0; i < 4; i++) {
		uint8_t *p;

		CU_ASSERT_EQUAL(urxe_spawn_process(argv, env, NULL, &said), 0);
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CU_ASSERT_PTR_NOT_EQUAL_FATAL(p, MAP_FAILED);
		memset(p, 1, size);
		munmap(p, size);
		read_all(said, buf, sizeof(buf));
	}
}

/* A program that is pinned to a CPU: the gateway is not. */
static void not_pinned(void)
{
	static const char *const argv[] = {"/bin/sh", "-c", "nproc >&2", NULL};
	char *env[] = {"PATH=/usr/bin:/bin", NULL}, buf[64];
	cpu_set_t all, one;
	int said;

	CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++) {
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	}
	CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof(one), &one), 0);
	CU_ASSERT_EQUAL(urxe_spawn_process(argv, env, NULL, &said), 0);
	read_all(said, buf, sizeof(buf));
	CU_ASSERT(atoi(buf) >= CPU_COUNT(&all));
	sched_setaffinity(0, sizeof(all), &all);
}

/* ---- who serves those beyond ---- */

typedef void serve_fn(struct urxe_fabric *f);

static const uint8_t lo_alone[2][16] = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}, {[15] = 1}},
		     with_host[2][16] = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1},
					 {[10] = 0xff, [11] = 0xff, 10, 9, 0, 1}},
		     group[16] = {0xff, 0x0e, [15] = 9};

static void nothing(struct urxe_fabric *f)
{
}

static void a_port(struct urxe_fabric *f)
{
	urxe_fabric_claim claim;
	uint16_t port = 7000;

	CU_ASSERT_EQUAL(
		urxe_fabric_port_claim(f, URXE_IDENT_TCP, with_host[1], 0, 0, &port, &claim), 0);
	/* Whether it is for others, too, says the CM. */
	CU_ASSERT_EQUAL(urxe_fabric_port_listen(f, claim), 0);
}

static void a_service(struct urxe_fabric *f)
{
	urxe_fabric_claim claim;

	CU_ASSERT_EQUAL(urxe_fabric_service_listen(f, 77, ~0ull, &claim), 0);
}

static void a_group(struct urxe_fabric *f)
{
	CU_ASSERT_EQUAL(urxe_fabric_group_join(f, group), 0);
}

/* Does a program that has these addresses, and does this? */
static bool serves(const uint8_t addrs[2][16], serve_fn *fn)
{
	struct urxe_fabric *f;
	bool does;

	rig_begin();
	f = rig_join(false);
	urxe_fabric_addr_set(f, addrs, 2, NULL);
	fn(f);
	does = urxe_fabric_serves(f);
	/* What the host has may change. */
	urxe_fabric_addr_set(f, lo_alone, 2, NULL);
	CU_ASSERT_FALSE(urxe_fabric_serves(f));
	urxe_fabric_put(f);
	rig_end();
	return does;
}

static void who_serves(void)
{
	static serve_fn *const fns[] = {urxe_fabric_serve, a_service, a_group};

	CU_ASSERT_FALSE(serves(with_host, nothing));
	CU_ASSERT_FALSE(serves(with_host, a_port));
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_TRUE(serves(with_host, fns[i]));
		CU_ASSERT_FALSE(serves(lo_alone, fns[i]));
	}
}

URXE_TEST_MAIN("gate_spawn", T(who_may), T(privileged), T(on_demand), T(for_a_user),
	       T(for_a_server), T(failing), T(missing), T(never_ready), T(crashing), T(only_one),
	       T(clean), T(unharmed), T(memory_of_stacks), T(not_pinned), T(who_serves))
