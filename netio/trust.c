/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Whose a link's socket and its folder are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netio/devargs.h"
#include "netio/trust.h"
#include "urxe/owner.h"

__attribute__((format(printf, 3, 4))) static int refuse(char *err, size_t len, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(err, len, fmt, ap);
	va_end(ap);
	if (n > 0 && (size_t)n < len)
		snprintf(
			err + n, len - (size_t)n,
			", and who is there shares this process's memory (--trust-peer allows it)");
	return EPERM;
}

static bool is_ours(int fd, const struct stat *st)
{
	return !st->st_uid || urxe_owner_is_us(fd, st);
}

static int check_folder(const struct urxe_devargs_socket *s, char *err, size_t errlen)
{
	const char *slash = strrchr(s->path, '/');
	bool sticky_will_do = s->listens || s->by_fd;
	char dir[sizeof(s->path)] = ".", whose[80];
	struct stat st;
	bool ours;
	int fd;

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", slash == s->path ? 1 : (int)(slash - s->path),
			 s->path);
	fd = open(dir, O_PATH | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (fd < 0 || fstat(fd, &st)) {
		int ret = errno;

		snprintf(err, errlen, "cannot look at its folder %s", dir);
		if (fd >= 0)
			close(fd);
		return ret;
	}
	ours = is_ours(fd, &st);
	close(fd);
	if (!ours)
		return refuse(err, errlen, "its folder %s belongs to %s", dir,
			      urxe_owner_name(st.st_uid, whose, sizeof(whose)));
	if (st.st_mode & 022 && !(st.st_mode & S_ISVTX && sticky_will_do))
		return refuse(err, errlen, "others can write to its folder %s", dir);
	return 0;
}

/* What is no socket is the kernel's (/dev/vhost-net), or the driver will not have it. */
static int check_socket(const struct urxe_devargs_socket *s, int fd, char *err, size_t errlen)
{
	struct stat st;
	char whose[80];

	if (fstat(fd, &st) || !S_ISSOCK(st.st_mode) || is_ours(fd, &st))
		return 0;
	return refuse(err, errlen, "the socket %s belongs to %s", s->path,
		      urxe_owner_name(st.st_uid, whose, sizeof(whose)));
}

int urxe_trust_socket(const struct urxe_devargs_socket *s, int *fd, char *err, size_t errlen)
{
	int ret;

	*fd = -1;
	if (s->abstract)
		return refuse(err, errlen, "an abstract socket is open to all users");
	ret = check_folder(s, err, errlen);
	if (ret)
		return ret;
	*fd = open(s->path, O_PATH | O_CLOEXEC);
	if (*fd < 0) {
		if (errno == ENOENT)
			return 0;
		ret = errno;
		snprintf(err, errlen, "cannot reach %s", s->path);
		return ret;
	}
	ret = check_socket(s, *fd, err, errlen);
	if (ret || s->listens) {
		close(*fd);
		*fd = -1;
	}
	return ret;
}
