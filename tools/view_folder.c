/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The view without namespaces: a folder of the user's, beside his status sockets, to which
 * liburxe-view.so sends the programs that look. Who has the same devices uses it again. Nobody
 * knows who looks last: one that no process has in its environment goes when another one is made.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "provider/status_path.h"
#include "tool.h"
#include "view.h"
#include "view_preload.h"

#define LIBRARY "liburxe-view.so"
#define ROOM	1024 /* of a path; that of the folder has at most 300 */

static int make_folders(const char *top)
{
	static const char *const folders[] = {"", "/sys", "/sys/class", "/dev", TOOL_VIEW_FOLDERS};
	char path[ROOM];

	for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%.300s%s", top, folders[i]);
		if (mkdir(path, 0755) && errno != EEXIST)
			return -1;
	}
	return 0;
}

/* The kernel's own devices, by links. */
static int link_kernels(const char *top)
{
	static const char *const folders[] = {TOOL_VIEW_FOLDERS};
	char from[320], to[ROOM];
	struct dirent *e;
	int ret = 0;
	DIR *d;

	for (unsigned i = 0; !ret && i < sizeof(folders) / sizeof(folders[0]); i++) {
		d = opendir(folders[i]);
		while (d && !ret && (e = readdir(d))) {
			snprintf(from, sizeof(from), "%s/%.255s", folders[i], e->d_name);
			snprintf(to, sizeof(to), "%.300s%s", top, from);
			if (e->d_name[0] != '.' && !tool_view_is_ours(from) && symlink(from, to) &&
			    errno != EEXIST)
				ret = -1;
		}
		if (d)
			closedir(d);
	}
	return ret;
}

static int link_null(const char *top, const char *name)
{
	char path[ROOM];

	snprintf(path, sizeof(path), "%.300s/dev/infiniband/%s", top, name);
	return symlink("/dev/null", path) && errno != EEXIST ? -1 : 0;
}

static int fill(const char *top, const struct tool_view_device *d, unsigned n, unsigned first)
{
	char ib[ROOM], verbs[ROOM], name[32];
	int ret;

	snprintf(ib, sizeof(ib), "%.300s/sys/class/infiniband", top);
	snprintf(verbs, sizeof(verbs), "%.300s/sys/class/infiniband_verbs", top);
	ret = make_folders(top);
	for (unsigned i = 0; !ret && i < n; i++) {
		snprintf(name, sizeof(name), "uverbs%u", first + i);
		ret = link_null(top, d[i].name) || link_null(top, name) ||
		      tool_view_tree(ib, verbs, &d[i], first + i);
	}
	return ret || link_null(top, "rdma_cm") || link_kernels(top) ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

/* ---- those that are not used any more ---- */

#define PREFIX	  "view-"
#define YOUNG_SEC 60 /* its process may not have executed its program yet */

static bool environ_has(const char *pid, const char *name)
{
	static char text[1 << 18];
	char path[300];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text));
	close(fd);
	return n > 0 && memmem(text, (size_t)n, name, strlen(name));
}

static bool is_used(const char *name)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	bool used = !d;

	while (d && !used && (e = readdir(d)))
		used = e->d_name[0] >= '1' && e->d_name[0] <= '9' && environ_has(e->d_name, name);
	if (d)
		closedir(d);
	return used;
}

static void sweep(const char *dir)
{
	char path[600];
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%.256s/%.255s", dir, e->d_name);
		if (!strncmp(e->d_name, PREFIX, strlen(PREFIX)) && !lstat(path, &st) &&
		    time(NULL) - st.st_mtime > YOUNG_SEC && !is_used(e->d_name))
			nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	}
	if (d)
		closedir(d);
}

/* ---- that of these devices ---- */

/* It appears when it is whole. */
static int make(const char *dir, const char *top, const struct tool_view_device *d, unsigned n,
		unsigned first)
{
	char fresh[ROOM];
	int err = 0;

	/* Used again, and so it stays. */
	if (!utimensat(AT_FDCWD, top, NULL, 0))
		return 0;
	sweep(dir);
	snprintf(fresh, sizeof(fresh), "%.300s.%d", top, (int)getpid());
	nftw(fresh, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	if (fill(fresh, d, n, first) || rename(fresh, top))
		err = errno;
	if (err)
		nftw(fresh, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	/* Somebody else was faster. */
	return err == EEXIST || err == ENOTEMPTY ? 0 : err;
}

int tool_view_folder(const struct tool_view_share *s, const struct tool_view_device *d, unsigned n,
		     unsigned first)
{
	struct tool_places places;
	char dir[256], top[300], lib[sizeof(places.dropin) + 32];
	const char *old = getenv(TOOL_VIEW_ROOT), *preload = getenv("LD_PRELOAD");
	mode_t mask;
	int err;

	if (s->fd < 0 || urxe_status_dir(dir, sizeof(dir)) || dir[0] != '/')
		return ENOENT;
	if (tool_places_find(&places))
		return ENOENT;
	snprintf(lib, sizeof(lib), "%s/%s", places.dropin, LIBRARY);
	if (access(lib, R_OK))
		return errno;
	snprintf(top, sizeof(top), "%s/" PREFIX "%016" PRIx64, dir, s->content);
	mask = umask(022);
	err = make(dir, top, d, n, first);
	umask(mask);
	if (err)
		return err;
	/* A program with AddressSanitizer does not start where a library comes before that: this
	 * one needs nothing of it. */
	if (tool_prepend("ASAN_OPTIONS", "verify_asan_link_order=0"))
		return errno;
	/* In a surrounding one the library is there already. */
	if ((!old || !preload || !strstr(preload, lib)) && tool_prepend("LD_PRELOAD", lib))
		return errno;
	return setenv(TOOL_VIEW_ROOT, top, 1) ? errno : 0;
}
