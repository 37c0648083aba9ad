/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A folder of the kernel's, in which nobody can make files, as a tmpfs that has all of it and can.
 * Not overlayfs: above sysfs it keeps the names that were not found, above devtmpfs it is refused.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "view.h"

#define ROOM 512

static int link_again(const char *from, const char *to)
{
	char target[ROOM];
	ssize_t n = readlink(from, target, sizeof(target) - 1);

	if (n < 0)
		return -1;
	target[n] = '\0';
	return symlink(target, to);
}

/* Recursive: the kernel lets nobody of a user namespace show what a mount hid. */
static int bind_again(const char *from, const char *to, const struct stat *st)
{
	if (S_ISDIR(st->st_mode)) {
		if (mkdir(to, 0755))
			return -1;
	} else {
		int fd = open(to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

		if (fd < 0)
			return -1;
		close(fd);
	}
	return mount(from, to, NULL, MS_BIND | MS_REC, NULL);
}

/* A link into a clone of /dev, which is made for the first one. */
static int link_clone(const char *to)
{
	const char *name = strrchr(to, '/') + 1;
	char path[ROOM];

	snprintf(path, sizeof(path), "%.*s/.urxe", (int)(name - 1 - to), to);
	if (!mkdir(path, 0755)) {
		if (mount("/dev", path, NULL, MS_BIND | MS_REC, NULL))
			return -1;
	} else if (errno != EEXIST) {
		return -1;
	}
	snprintf(path, sizeof(path), ".urxe/%s", name);
	return symlink(path, to);
}

/*
 * It finds its devpts by the folder that it lies in, which of a bound file is another one. The one
 * in the devpts is nobody's to open on most machines.
 */
static int link_ptmx(const char *to)
{
	return access("/dev/pts/ptmx", R_OK | W_OK) ? link_clone(to) : symlink("pts/ptmx", to);
}

/* One of the consoles and empty disks of which every machine has dozens: a mount of its own for
 * each would take most of a view's time. */
static bool is_of_many(const char *name, mode_t mode)
{
	static const char *const many[] = {"tty", "ttyS", "vcs", "vcsa", "vcsu", "loop", "ram"};

	if (!S_ISCHR(mode) && !S_ISBLK(mode))
		return false;
	for (unsigned i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		size_t len = strlen(many[i]);

		if (!strncmp(name, many[i], len) && name[len] &&
		    !name[len + strspn(name + len, "0123456789")])
			return true;
	}
	return false;
}

static int copy(const char *from, const char *to)
{
	struct stat st;

	/* What has gone meanwhile is not there. */
	if (lstat(from, &st))
		return errno == ENOENT ? 0 : -1;
	if (S_ISLNK(st.st_mode))
		return link_again(from, to);
	if (!strcmp(from, "/dev/ptmx"))
		return link_ptmx(to);
	if (!strncmp(from, "/dev/", 5) && is_of_many(from + 5, st.st_mode))
		return link_clone(to);
	return bind_again(from, to, &st);
}

/* Sysfs has links there, and no device of RDMA is /dev/null, or a link to it. */
bool tool_view_is_ours(const char *path)
{
	struct stat st;

	return (!lstat(path, &st) && S_ISDIR(st.st_mode)) ||
	       (!stat(path, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
}

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names;
}

/* All entries of @dir into @to, which is there; @apart: they get folders, filled likewise, but not
 * with what a surrounding view has there. */
static int copy_all(const char *dir, const char *to, const char *const *apart)
{
	char from[ROOM], into[ROOM];
	DIR *d = opendir(dir);
	struct dirent *e;
	int ret = 0;

	if (!d)
		return -1;
	while (!ret && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(from, sizeof(from), "%s/%s", dir, e->d_name);
		snprintf(into, sizeof(into), "%s/%s", to, e->d_name);
		if (!apart && tool_view_is_ours(from))
			continue;
		if (!apart || !is_one_of(e->d_name, apart))
			ret = copy(from, into);
		else if (!mkdir(into, 0755))
			ret = copy_all(from, into, NULL);
		else
			ret = -1;
	}
	closedir(d);
	return ret;
}

int tool_view_cover(const char *dir, const char *stage, const char *const *classes,
		    int (*fill)(const char *stage, void *arg), void *arg)
{
	char path[ROOM];

	if (mount("urxe", stage, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755") ||
	    copy_all(dir, stage, classes))
		return -1;
	for (; *classes; classes++) {
		snprintf(path, sizeof(path), "%s/%s", stage, *classes);
		if (mkdir(path, 0755) && errno != EEXIST)
			return -1;
	}
	return fill(stage, arg) || mount(stage, dir, NULL, MS_MOVE, NULL) ? -1 : 0;
}
