/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The namespaces of the view. A child makes them, and this process joins them when all is done: a
 * refusal, at whatever step, leaves it as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"
#include "urxe/log.h"
#include "urxe/owner.h"
#include "view.h"
#include "view_preload.h"

/* How far the child came; what it tells of a refusal. */
struct report {
	const char *at; /* of this program, which the child is too */
	int err;
};

struct fill {
	const struct tool_view_device *devices;
	unsigned num, first; /* the number of the first one's uverbs file */
};

/* ---- what is put in ---- */

static int bind_null(const char *folder, const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	/* A kernel's stays what it is. */
	if (!access(path, F_OK))
		return 0;
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	close(fd);
	return mount("/dev/null", path, NULL, MS_BIND, NULL);
}

/* Character devices that can be looked at and opened; nobody's requests go through them. */
static int fill_dev(const char *stage, void *arg)
{
	const struct fill *f = arg;
	char folder[256], name[32];

	snprintf(folder, sizeof(folder), "%s/infiniband", stage);
	for (unsigned i = 0; i < f->num; i++) {
		snprintf(name, sizeof(name), "uverbs%u", f->first + i);
		if (bind_null(folder, f->devices[i].name) || bind_null(folder, name))
			return -1;
	}
	return bind_null(folder, "rdma_cm");
}

static int fill_class(const char *stage, void *arg)
{
	const struct fill *f = arg;
	char ib[256], verbs[256];

	snprintf(ib, sizeof(ib), "%s/infiniband", stage);
	snprintf(verbs, sizeof(verbs), "%s/infiniband_verbs", stage);
	for (unsigned i = 0; i < f->num; i++) {
		char old[512];

		/* The link to a kernel's device whose name this one takes. */
		snprintf(old, sizeof(old), "%s/%s", ib, f->devices[i].name);
		if (unlink(old) && errno != ENOENT)
			return -1;
		if (tool_view_tree(ib, verbs, &f->devices[i], f->first + i))
			return -1;
	}
	return 0;
}

static bool is_kernels(const char *folder, unsigned number)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/uverbs%u", folder, number);
	return !access(path, F_OK) && !tool_view_is_ours(path);
}

/* Behind all of the kernel's. */
static unsigned first_free(void)
{
	unsigned first = 0;

	for (unsigned n = 0; n < 32; n++) {
		if (is_kernels("/sys/class/infiniband_verbs", n) ||
		    is_kernels("/dev/infiniband", n))
			first = n + 1;
	}
	return first;
}

/* ---- the child ---- */

static int put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -1;
	ret = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	close(fd);
	return ret;
}

static int map_ids(uid_t uid, gid_t gid)
{
	char u[64], g[64];

	snprintf(u, sizeof(u), "%u %u 1", uid, uid);
	snprintf(g, sizeof(g), "%u %u 1", gid, gid);
	return put_file("/proc/self/uid_map", u) || put_file("/proc/self/setgroups", "deny") ||
			       put_file("/proc/self/gid_map", g)
		       ? -1
		       : 0;
}

/*
 * libibverbs loads each driver named here, 17 as Debian has it, for a device that is none's of
 * those it has: a third of a program's start. Ours need none, and the kernel's will not come any
 * more. Where the folder cannot be hidden they are loaded in vain.
 */
static void hide_drivers(void)
{
	(void)mount("urxe", "/etc/libibverbs.d", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755");
}

/* The name of the step that failed, with errno; NULL: none did. */
static const char *make(bool user, struct fill *f)
{
	static const char *const dev[] = {"infiniband", NULL};
	static const char *const classes[] = {"infiniband", "infiniband_verbs", NULL};
	uid_t uid = geteuid();
	gid_t gid = getegid();

	umask(022);
	if (unshare(CLONE_NEWNS | (user ? CLONE_NEWUSER : 0)))
		return "unshare";
	if (user && map_ids(uid, gid))
		return "uid_map";
	if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL))
		return "mount";
	f->first = first_free();
	if (tool_view_cover("/dev", "/sys/class", dev, fill_dev, f))
		return "/dev";
	if (tool_view_cover("/sys/class", "/dev", classes, fill_class, f))
		return "/sys/class";
	if (!f->first)
		hide_drivers();
	return NULL;
}

/* Tells how it went, and stays until it is joined. */
static void child(bool user, struct fill *f, int say, int wait)
{
	struct report r = {make(user, f), errno};
	char c;

	if (write(say, &r, sizeof(r)) == (ssize_t)sizeof(r) && read(wait, &c, 1) == 0)
		_exit(0);
	_exit(1);
}

/* ---- this process ---- */

/*
 * The working folder is in the old tree: by its name it is in the new one. One that has been
 * deleted, or that we could not enter, is what it was.
 */
static int join(int pidfd, bool user)
{
	char *cwd = getcwd(NULL, 0);
	int here = open(".", O_PATH | O_CLOEXEC), ret, err;

	ret = setns(pidfd, CLONE_NEWNS | (user ? CLONE_NEWUSER : 0));
	err = errno;
	if (!ret && (!cwd || cwd[0] != '/' || chdir(cwd)) && (here < 0 || fchdir(here)))
		tool_fail("the working folder is lost: %s", strerror(errno));
	if (here >= 0)
		close(here);
	free(cwd);
	errno = err;
	return ret;
}

static int join_child(pid_t pid, bool user)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0), ret, err;

	if (fd < 0)
		return -1;
	ret = join(fd, user);
	err = errno;
	close(fd);
	errno = err;
	return ret;
}

static int try(bool user, struct fill *f, struct report *r)
{
	int say[2], wait[2];
	pid_t pid;

	*r = (struct report){"pipe", 0};
	if (pipe2(say, O_CLOEXEC) || pipe2(wait, O_CLOEXEC))
		return r->err = errno;
	pid = fork();
	if (!pid) {
		close(wait[1]);
		child(user, f, say[1], wait[0]);
	}
	r->err = errno;
	r->at = "fork";
	close(say[1]);
	close(wait[0]);
	if (pid > 0 && read(say[0], r, sizeof(*r)) != (ssize_t)sizeof(*r))
		*r = (struct report){"child", EIO};
	if (pid > 0 && !r->at) {
		r->err = join_child(pid, user) ? errno : 0;
		r->at = r->err ? "setns" : NULL;
	}
	close(say[0]);
	close(wait[1]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return r->at ? r->err : 0;
}

/* That of another process, else a new one. */
static int enter(bool user, struct fill *f, struct report *r)
{
	struct tool_view_share share;
	bool inside = false, joined = false;
	int fd, err = 0;

	tool_view_share_open(&share, f->devices, f->num);
	fd = tool_view_share_find(&share, &inside);
	if (fd >= 0) {
		joined = inside || !join(fd, user);
		close(fd);
	}
	if (!joined)
		err = try(user, f, r);
	if (!joined && !err)
		tool_view_share_put(&share);
	tool_view_share_close(&share);
	return err;
}

static uint64_t capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{0}};

	if (syscall(SYS_capget, &h, d))
		return 0;
	return (uint64_t)d[1].effective << 32 | d[0].effective;
}

int tool_view_flags(void)
{
	uint64_t caps = capabilities();

	/* In a user namespace of their own they would lose them. */
	if (caps && !(caps & 1ull << CAP_SYS_ADMIN))
		return -1;
	return CLONE_NEWNS | (caps ? 0 : CLONE_NEWUSER);
}

static int refused(const struct urxe_config *cfg, const char *at, const char *why)
{
	if (cfg->view != URXE_VIEW_AUTO)
		return tool_fail("no view of /sys and /dev (%s: %s), and --view %s: see "
				 "urxe doctor",
				 at, why, urxe_config_views[cfg->view]);
	/* Not at each start: many containers forbid it, and many programs do not look. */
	if (cfg->log >= URXE_LOG_INFO)
		tool_fail("no view of /sys and /dev (%s: %s): programs that look for devices "
			  "there see none, see urxe doctor",
			  at, why);
	return 0;
}

/* Without namespaces, which failed @at, if they were tried. */
static int fall_back(const struct urxe_config *cfg, struct fill *f, const char *at, const char *why)
{
	struct tool_view_share share;
	int err;

	if (cfg->view == URXE_VIEW_ALWAYS)
		return refused(cfg, at, why);
	tool_view_share_open(&share, f->devices, f->num);
	f->first = first_free();
	err = tool_view_folder(&share, f->devices, f->num, f->first);
	tool_view_share_close(&share);
	if (err)
		return at ? refused(cfg, at, why) : refused(cfg, "folder", strerror(err));
	if (at && cfg->log >= URXE_LOG_INFO)
		tool_fail("no namespace for the view of /sys and /dev (%s: %s): programs see it by "
			  "LD_PRELOAD",
			  at, why);
	return 0;
}

/* In the view, whose user namespace is within the one of before: folders keep their names. */
static int settle(uid_t user)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", (unsigned)user);
	if (unsetenv(TOOL_VIEW_ROOT) || /* a surrounding one's */
	    (urxe_owner_uid() != user && setenv(URXE_OWNER_ENV, number, 1)))
		return tool_fail("cannot set the environment: %s", strerror(errno));
	return 0;
}

int tool_view_enter(const struct urxe_config *cfg)
{
	struct tool_view_device *devices;
	int flags = tool_view_flags(), n, err = 0;
	uid_t user;
	struct fill f = {0};
	struct report r;

	if (cfg->view == URXE_VIEW_NEVER)
		return 0;
	n = tool_view_devices(cfg, &devices);
	if (n < 0)
		return refused(cfg, "devices", strerror(errno));
	user = urxe_owner_uid();
	f = (struct fill){devices, (unsigned)n, 0};
	if (cfg->view == URXE_VIEW_PRELOAD) {
		err = fall_back(cfg, &f, NULL, NULL);
	} else if (flags < 0) {
		err = fall_back(cfg, &f, "capabilities", "some, but not CAP_SYS_ADMIN");
	} else if (enter(flags & CLONE_NEWUSER, &f, &r)) {
		err = fall_back(cfg, &f, r.at, strerror(r.err));
	} else {
		err = settle(user);
	}
	free(devices);
	return err;
}
