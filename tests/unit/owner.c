/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Whose files and sockets are, in a user namespace that maps its own user alone, as the view of
 * `urxe run` does: all others look like user 65534, who may be the one that asks.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "harness.h"
#include "netio/devargs.h"
#include "netio/trust.h"
#include "urxe/owner.h"

#define OTHER 61002

static char base[] = "/tmp/urxe-ut-XXXXXX";

/* A folder of @uid's with a socket of his in it. */
static void make(const char *name, uid_t uid)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char dir[64];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(dir, sizeof(dir), "%s/%s", base, name);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/s", dir);
	CU_ASSERT_EQUAL_FATAL(mkdir(dir, 0755), 0);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	CU_ASSERT_EQUAL(chown(dir, uid, uid), 0);
	CU_ASSERT_EQUAL(chown(un.sun_path, uid, uid), 0);
	close(fd);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(77);
	close(fd);
}

static void become(uid_t uid)
{
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		_exit(77);
}

/* A user namespace that does not map anybody yet. */
static void leave(void)
{
	/* Else its files in /proc are root's, for it has changed its user. */
	if (prctl(PR_SET_DUMPABLE, 1) || unshare(CLONE_NEWUSER))
		_exit(77);
}

static void map_as(uid_t inside, uid_t uid)
{
	char map[64];

	snprintf(map, sizeof(map), "%u %u 1", inside, uid);
	put("/proc/self/uid_map", map);
}

static void is_good(pid_t pid)
{
	int status;

	CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		printf("skipped: no user namespace can be made ");
	else
		CU_ASSERT_EQUAL(WEXITSTATUS(status), 0);
}

static bool trusts(const char *name)
{
	struct urxe_devargs_socket s = {.listens = false};
	char err[256];
	int fd, ret;

	snprintf(s.path, sizeof(s.path), "%s/%s/s", base, name);
	ret = urxe_trust_socket(&s, &fd, err, sizeof(err));
	if (fd >= 0)
		close(fd);
	return !ret;
}

static bool file_is_us(const char *name)
{
	struct stat st;
	char path[64];
	bool is;
	int fd;

	snprintf(path, sizeof(path), "%s/%s/s", base, name);
	fd = open(path, O_PATH | O_CLOEXEC);
	is = !fstat(fd, &st) && urxe_owner_is_us(fd, &st);
	close(fd);
	return is;
}

static void asks(uid_t uid, bool in_view)
{
	bool root_known = !in_view;
	pid_t pid = fork();

	if (!pid) {
		become(uid);
		if (in_view) {
			leave();
			map_as(uid, uid);
		}
		/* Of root's nothing is known in a view. */
		_exit((file_is_us("ours") ? 0 : 1) | (file_is_us("other") ? 2 : 0) |
		      (trusts("ours") ? 0 : 4) | (trusts("other") ? 8 : 0) |
		      (trusts("root") == root_known ? 0 : 16) |
		      (urxe_owner_runs(uid, getpid()) ? 0 : 32) |
		      /* init looks like the overflow user */
		      (in_view && uid == URXE_OWNER_UNKNOWN && urxe_owner_runs(uid, 1) ? 64 : 0));
	}
	is_good(pid);
}

static void in_views(void)
{
	static const uid_t users[] = {URXE_OWNER_UNKNOWN, 61001};
	char name[16] = "ours", path[64];

	if (geteuid()) {
		printf("skipped: needs root ");
		return;
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(base));
	CU_ASSERT_EQUAL(chmod(base, 0755), 0);
	make("other", OTHER);
	make("root", 0);
	for (unsigned i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		make(name, users[i]);
		asks(users[i], false);
		asks(users[i], true);
		snprintf(path, sizeof(path), "%s/ours/s", base);
		unlink(path);
		*strrchr(path, '/') = '\0';
		rmdir(path);
	}
	snprintf(path, sizeof(path), "rm -r %s", base);
	CU_ASSERT_EQUAL(system(path), 0);
}

/* What a user is called is the same in each of his namespaces; the folder is his in all. */
static void number(void)
{
	struct stat st;
	pid_t pid = fork();

	if (!pid) {
		bool same;

		become(OTHER);
		leave();
		same = urxe_owner_uid() == URXE_OWNER_UNKNOWN;
		map_as(0, OTHER);
		same &= !geteuid() && urxe_owner_uid() == OTHER;
		/* One in between is known by what is left of it; nonsense is no number. */
		setenv(URXE_OWNER_ENV, "61003", 1);
		same &= urxe_owner_uid() == 61003;
		setenv(URXE_OWNER_ENV, "61003x", 1);
		same &= urxe_owner_uid() == OTHER;
		_exit(same && !mkdir(base, 0700) && urxe_owner_has_dir(base, &st) && !rmdir(base)
			      ? 0
			      : 1);
	}
	is_good(pid);
}

URXE_TEST_MAIN("owner", T(in_views), T(number))
