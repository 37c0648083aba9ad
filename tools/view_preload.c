/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * liburxe-view.so: the view where no mount namespace is to be had. A program that has it in its
 * LD_PRELOAD finds the folders of the devices by the functions of libc that take a path; who goes
 * to the kernel past libc, such as a static program, does not.
 */
/* Both widths of a file offset have a name of their own below. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "view_preload.h"

#define EXPORT __attribute__((visibility("default")))

static char root[PATH_MAX];

__attribute__((constructor)) static void find_root(void)
{
	const char *env = getenv(TOOL_VIEW_ROOT);

	if (env && env[0] == '/' && strlen(env) < sizeof(root))
		strcpy(root, env);
}

static const char *skip_slashes(const char *p)
{
	while (p[0] == '/' && p[1] == '/')
		p++;
	return p;
}

/* Is @path @folder, or in it? A slash may be several. */
static bool is_below(const char *path, const char *folder)
{
	for (; *folder; folder++, path++) {
		path = skip_slashes(path);
		if (*path != *folder)
			return false;
	}
	return !*path || *path == '/';
}

/* Where @path is: itself, or in @buf. */
static const char *place(const char *path, char buf[PATH_MAX])
{
	static const char *const folders[] = {TOOL_VIEW_FOLDERS};

	if (!root[0] || !path || path[0] != '/')
		return path;
	for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		if (is_below(path, folders[i]) &&
		    snprintf(buf, PATH_MAX, "%s%s", root, path) < PATH_MAX)
			return buf;
	}
	return path;
}

/* libc's own, as far as this one has it. */
#define FIND(real, name)                                             \
	do {                                                         \
		if (!(real))                                         \
			*(void **)&(real) = dlsym(RTLD_NEXT, #name); \
	} while (0)

/* A function with a parameter `path`; in @args it is where that is. */
#define FORWARD(type, failed, name, params, args) \
	EXPORT type name params;                  \
	EXPORT type name params                   \
	{                                         \
		static type(*real) params;        \
		char buf[PATH_MAX];               \
                                                  \
		FIND(real, name);                 \
		if (!real) {                      \
			errno = ENOSYS;           \
			return failed;            \
		}                                 \
		path = place(path, buf);          \
		return real args;                 \
	}

/* One that takes a mode, if it makes a file. */
#define FORWARD_OPEN(name, params, args, last)          \
	EXPORT int name params                          \
	{                                               \
		static int(*real) params;               \
		char buf[PATH_MAX];                     \
		mode_t mode = 0;                        \
		va_list ap;                             \
                                                        \
		FIND(real, name);                       \
		if ((last) & (O_CREAT | __O_TMPFILE)) { \
			va_start(ap, last);             \
			mode = va_arg(ap, mode_t);      \
			va_end(ap);                     \
		}                                       \
		path = place(path, buf);                \
		return real args;                       \
	}

FORWARD_OPEN(open, (const char *path, int flags, ...), (path, flags, mode), flags)
FORWARD_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), flags)
FORWARD_OPEN(openat, (int fd, const char *path, int flags, ...), (fd, path, flags, mode), flags)
FORWARD_OPEN(openat64, (int fd, const char *path, int flags, ...), (fd, path, flags, mode), flags)
/* What fortified programs call. */
FORWARD(int, -1, __open_2, (const char *path, int flags), (path, flags))
FORWARD(int, -1, __open64_2, (const char *path, int flags), (path, flags))
FORWARD(int, -1, __openat_2, (int fd, const char *path, int flags), (fd, path, flags))
FORWARD(int, -1, __openat64_2, (int fd, const char *path, int flags), (fd, path, flags))
FORWARD(FILE *, NULL, fopen, (const char *restrict path, const char *restrict mode), (path, mode))
FORWARD(FILE *, NULL, fopen64, (const char *restrict path, const char *restrict mode), (path, mode))

FORWARD(int, -1, stat, (const char *restrict path, struct stat *restrict st), (path, st))
FORWARD(int, -1, stat64, (const char *restrict path, struct stat64 *restrict st), (path, st))
FORWARD(int, -1, lstat, (const char *restrict path, struct stat *restrict st), (path, st))
FORWARD(int, -1, lstat64, (const char *restrict path, struct stat64 *restrict st), (path, st))
FORWARD(int, -1, fstatat, (int fd, const char *restrict path, struct stat *restrict st, int flags),
	(fd, path, st, flags))
FORWARD(int, -1, fstatat64,
	(int fd, const char *restrict path, struct stat64 *restrict st, int flags),
	(fd, path, st, flags))
FORWARD(int, -1, statx,
	(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict st),
	(fd, path, flags, mask, st))
/* Those of programs that were linked before glibc 2.33. */
FORWARD(int, -1, __xstat, (int version, const char *path, struct stat *st), (version, path, st))
FORWARD(int, -1, __xstat64, (int version, const char *path, struct stat64 *st), (version, path, st))
FORWARD(int, -1, __lxstat, (int version, const char *path, struct stat *st), (version, path, st))
FORWARD(int, -1, __lxstat64, (int version, const char *path, struct stat64 *st),
	(version, path, st))
FORWARD(int, -1, __fxstatat, (int version, int fd, const char *path, struct stat *st, int flags),
	(version, fd, path, st, flags))
FORWARD(int, -1, __fxstatat64,
	(int version, int fd, const char *path, struct stat64 *st, int flags),
	(version, fd, path, st, flags))

FORWARD(int, -1, access, (const char *path, int mode), (path, mode))
FORWARD(int, -1, euidaccess, (const char *path, int mode), (path, mode))
FORWARD(int, -1, eaccess, (const char *path, int mode), (path, mode))
FORWARD(int, -1, faccessat, (int fd, const char *path, int mode, int flags),
	(fd, path, mode, flags))
FORWARD(ssize_t, -1, readlink, (const char *restrict path, char *restrict to, size_t len),
	(path, to, len))
FORWARD(ssize_t, -1, __readlink_chk, (const char *path, char *to, size_t len, size_t room),
	(path, to, len, room))
FORWARD(ssize_t, -1, readlinkat, (int fd, const char *restrict path, char *restrict to, size_t len),
	(fd, path, to, len))
FORWARD(ssize_t, -1, __readlinkat_chk,
	(int fd, const char *path, char *to, size_t len, size_t room), (fd, path, to, len, room))
/* ls -l asks for access control lists. */
FORWARD(ssize_t, -1, getxattr, (const char *path, const char *name, void *to, size_t len),
	(path, name, to, len))
FORWARD(ssize_t, -1, lgetxattr, (const char *path, const char *name, void *to, size_t len),
	(path, name, to, len))
FORWARD(ssize_t, -1, listxattr, (const char *path, char *to, size_t len), (path, to, len))
FORWARD(ssize_t, -1, llistxattr, (const char *path, char *to, size_t len), (path, to, len))
FORWARD(int, -1, statfs, (const char *path, struct statfs *s), (path, s))
FORWARD(int, -1, statfs64, (const char *path, struct statfs64 *s), (path, s))
FORWARD(int, -1, chdir, (const char *path), (path))
FORWARD(int, -1, inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask))

FORWARD(DIR *, NULL, opendir, (const char *path), (path))
FORWARD(int, -1, scandir,
	(const char *restrict path, struct dirent ***restrict list,
	 int (*want)(const struct dirent *),
	 int (*order)(const struct dirent **, const struct dirent **)),
	(path, list, want, order))
FORWARD(int, -1, scandir64,
	(const char *restrict path, struct dirent64 ***restrict list,
	 int (*want)(const struct dirent64 *),
	 int (*order)(const struct dirent64 **, const struct dirent64 **)),
	(path, list, want, order))
FORWARD(int, GLOB_ABORTED, glob,
	(const char *restrict path, int flags, int (*failed)(const char *, int),
	 glob_t *restrict found),
	(path, flags, failed, found))
FORWARD(int, GLOB_ABORTED, glob64,
	(const char *restrict path, int flags, int (*failed)(const char *, int),
	 glob64_t *restrict found),
	(path, flags, failed, found))

/* ---- what answers with a path ---- */

/* That of a file in the folder of the view is where programs know it. */
static char *known(char *path)
{
	size_t n = strlen(root);

	if (path && n && !strncmp(path, root, n) && path[n] == '/')
		memmove(path, path + n, strlen(path + n) + 1);
	return path;
}

EXPORT char *realpath(const char *restrict path, char *restrict to)
{
	static char *(*real)(const char *restrict, char *restrict);
	char buf[PATH_MAX];

	FIND(real, realpath);
	return known(real(place(path, buf), to));
}

EXPORT char *__realpath_chk(const char *path, char *to, size_t room);
EXPORT char *__realpath_chk(const char *path, char *to, size_t room)
{
	static char *(*real)(const char *, char *, size_t);
	char buf[PATH_MAX];

	FIND(real, __realpath_chk);
	return known(real(place(path, buf), to, room));
}

EXPORT char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}
