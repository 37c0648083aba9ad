/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The socket of another process that a DPDK port connects to (net_virtio_user's `path`).
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "netio/ethdev.h"

static bool peer_path(const struct ethdev *e, char *path, size_t len)
{
	return e->kind->revive == URXE_REVIVE_REPLUG &&
	       urxe_devargs_get(e->devargs, "path", path, len);
}

bool ethdev_peer_absent(const struct ethdev *e)
{
	char path[256];
	struct stat st;

	if (!peer_path(e, path, sizeof(path)))
		return false;
	return stat(path, &st) ? errno == ENOENT : S_ISSOCK(st.st_mode);
}

uint64_t ethdev_peer_mark(const struct ethdev *e)
{
	char path[256];
	struct stat st;

	if (!peer_path(e, path, sizeof(path)) || stat(path, &st))
		return 0;
	return (uint64_t)st.st_ino << 20 ^ (uint64_t)st.st_ctim.tv_sec << 30 ^
	       (uint64_t)st.st_ctim.tv_nsec ^ 1;
}

/* DPDK keeps the connection to itself: it is the one whose other end has that name. */
void ethdev_peer_hang_up(const struct ethdev *e)
{
	struct dirent *entry;
	char path[256];
	DIR *fds;

	if (!peer_path(e, path, sizeof(path)) || !(fds = opendir("/proc/self/fd")))
		return;
	while ((entry = readdir(fds))) {
		struct sockaddr_un un = {0};
		socklen_t len = sizeof(un) - 1;
		int fd = atoi(entry->d_name);

		if (!getpeername(fd, (struct sockaddr *)&un, &len) && un.sun_family == AF_UNIX &&
		    !strcmp(un.sun_path, path))
			shutdown(fd, SHUT_RDWR);
	}
	closedir(fds);
}
