/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The socket of another process that a DPDK port connects to (net_virtio_user's `path`, memif's
 * `socket`).
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
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

/* DPDK keeps the connection to itself: it is the one whose other end has that name. The next of
 * them in @fds, or -1. */
static int next_connection(DIR *fds, const char *path)
{
	struct dirent *entry;

	while ((entry = readdir(fds))) {
		struct sockaddr_un un = {0};
		socklen_t len = sizeof(un) - 1;
		int fd = atoi(entry->d_name);

		if (!getpeername(fd, (struct sockaddr *)&un, &len) && un.sun_family == AF_UNIX &&
		    !strcmp(un.sun_path, path))
			return fd;
	}
	return -1;
}

void ethdev_peer_hang_up(const struct ethdev *e)
{
	char path[256];
	DIR *fds;
	int fd;

	if (!peer_path(e, path, sizeof(path)) || !(fds = opendir("/proc/self/fd")))
		return;
	while ((fd = next_connection(fds, path)) >= 0)
		shutdown(fd, SHUT_RDWR);
	closedir(fds);
}

bool ethdev_peer_connected(const struct ethdev *e)
{
	struct urxe_devargs_socket s;
	struct pollfd p = {.fd = -1};
	DIR *fds;

	if (!urxe_devargs_socket(e->devargs, &s) || s.listens || s.abstract ||
	    !(fds = opendir("/proc/self/fd")))
		return false;
	p.fd = next_connection(fds, s.path);
	closedir(fds);
	return p.fd >= 0 && poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLERR | POLLNVAL));
}
