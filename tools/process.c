/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The running processes that have a CM, and how they are asked: each listens at a socket of its own
 * (cm/device/report_path.h).
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cm/device/report_path.h"
#include "tool.h"

#define PATIENCE_S 3

static int connect_to(const char *path, const char *line)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = PATIENCE_S};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;
	ssize_t len = (ssize_t)strlen(line);

	if (fd < 0)
		return -1;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) ||
	    send(fd, line, (size_t)len, MSG_NOSIGNAL) != len) {
		err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

int tool_process_ask(const char *path, const char *line)
{
	int fd = connect_to(path, line);

	if (fd >= 0)
		return fd;
	/* Nobody is there any more: it was killed. */
	if (errno == ECONNREFUSED)
		unlink(path);
	else if (errno != ENOENT)
		fprintf(stderr, "urxe: %s: %s\n", path, strerror(errno));
	return -1;
}

/* A folder that somebody else made or may write to is not asked. */
static void each_in(const char *dir, void (*fn)(const char *path, void *arg), void *arg)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct dirent *e;
	struct stat st;
	DIR *d;

	if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_mode & 022 ||
	    (geteuid() && st.st_uid != geteuid()))
		return;
	d = opendir(dir);
	while (d && (e = readdir(d))) {
		if (strspn(e->d_name, "0123456789") != strlen(e->d_name))
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < (int)sizeof(path))
			fn(path, arg);
	}
	if (d)
		closedir(d);
}

void tool_process_each(void (*fn)(const char *path, void *arg), void *arg)
{
	char dir[256];
	glob_t all = {0};

	if (!geteuid() && !getenv(URXE_REPORT_ENV) && !glob(URXE_REPORT_DIR "*", 0, NULL, &all)) {
		for (size_t i = 0; i < all.gl_pathc; i++)
			each_in(all.gl_pathv[i], fn, arg);
		globfree(&all);
	} else if (!urxe_report_dir(geteuid(), dir, sizeof(dir))) {
		each_in(dir, fn, arg);
	}
}
