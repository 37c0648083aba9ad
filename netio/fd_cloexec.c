/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Finds what a library has opened, by /proc/self/fd, and has exec close it (fd_cloexec.h).
 */
#include "netio/fd_cloexec.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* The next descriptor below the limit; -1: no more. */
static int next_fd(DIR *d)
{
	struct dirent *e;

	while ((e = readdir(d))) {
		int fd = e->d_name[0] == '.' ? -1 : atoi(e->d_name);

		if (fd >= 0 && fd < URXE_FDS_MAX && fd != dirfd(d))
			return fd;
	}
	return -1;
}

void urxe_fds_note(struct urxe_fds *fds)
{
	DIR *d = opendir("/proc/self/fd");
	int fd;

	memset(fds->open, d ? 0 : 0xff, sizeof(fds->open));
	if (!d)
		return;
	while ((fd = next_fd(d)) >= 0)
		fds->open[fd / 64] |= 1ull << fd % 64;
	closedir(d);
}

void urxe_fds_cloexec(const struct urxe_fds *fds)
{
	DIR *d = opendir("/proc/self/fd");
	int fd;

	if (!d)
		return;
	while ((fd = next_fd(d)) >= 0) {
		if (!(fds->open[fd / 64] >> fd % 64 & 1))
			fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	closedir(d);
}
