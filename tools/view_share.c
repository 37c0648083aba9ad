/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A view that another process of the user has made, and that would be the same: to join it takes a
 * tenth of the time, and processes in one user namespace may look at each other's memory
 * (process_vm_readv(2), ptrace(2)), which those in two may not.
 *
 * A file in the folder of status sockets names the process. It is locked while somebody makes a
 * view, so that those who start at once have one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "provider/status_path.h"
#include "urxe/owner.h"
#include "view.h"

#define PATIENCE_MS 2000 /* for who makes one, and may be stopped meanwhile */

/* FNV-1a, of 64 bits. */
#define MIX_BEGIN 0xcbf29ce484222325u

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
	const uint8_t *b = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * 0x100000001b3u;
	return h;
}

static uint64_t mix_file(uint64_t h, const char *path)
{
	struct stat st = {0};

	if (stat(path, &st))
		return h;
	h = mix(h, &st.st_dev, sizeof(st.st_dev));
	return mix(h, &st.st_ino, sizeof(st.st_ino));
}

/* What a process sees without a view. A device that came to /dev is not in an older view. */
static uint64_t surroundings(void)
{
	uint64_t h = mix_file(MIX_BEGIN, "/proc/self/ns/mnt");
	struct stat st = {0};

	h = mix_file(h, "/proc/self/ns/user");
	h = mix_file(h, "/proc/self/ns/net");
	h = mix_file(h, "/");
	if (!stat("/dev", &st))
		h = mix(h, &st.st_mtim, sizeof(st.st_mtim));
	return h;
}

static uint64_t content(const struct tool_view_device *d, unsigned n)
{
	uint64_t h = mix_file(MIX_BEGIN, "/proc/self/ns/pid");

	for (unsigned i = 0; i < n; i++) {
		h = mix(h, d[i].name, strlen(d[i].name) + 1);
		h = mix(h, d[i].guid, sizeof(d[i].guid));
		h = mix(h, &d[i].mbps, sizeof(d[i].mbps));
		h = mix(h, &d[i].active, sizeof(d[i].active));
		for (unsigned k = 0; k < URXE_PORT_MAX_GIDS; k++) {
			if (!d[i].has_gid[k])
				continue;
			h = mix(h, &k, sizeof(k));
			h = mix(h, d[i].gids[k].gid, sizeof(d[i].gids[k].gid));
			h = mix(h, d[i].ifnames[k], strlen(d[i].ifnames[k]) + 1);
		}
	}
	return h;
}

/* The namespaces that a process is in. */
static uint64_t view_of(int pid)
{
	char mnt[40], user[40];

	snprintf(mnt, sizeof(mnt), "/proc/%d/ns/mnt", pid);
	snprintf(user, sizeof(user), "/proc/%d/ns/user", pid);
	return mix_file(mix_file(MIX_BEGIN, mnt), user);
}

/* Since when a process is there: another one may have its number. 0: it is gone. */
static uint64_t start_of(int pid)
{
	char path[32], line[1024] = "", *at;
	uint64_t start = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	at = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	/* The name is the second field, this the 22nd. */
	for (unsigned field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		start = strtoull(at, NULL, 10);
	return start;
}

static bool lock(int fd)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	for (unsigned ms = 0; flock(fd, LOCK_EX | LOCK_NB); ms++) {
		if (errno != EWOULDBLOCK || ms >= PATIENCE_MS)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

/* Believed only where nobody else could have written it. */
static int open_file(void)
{
	char dir[256], path[280];
	struct stat st;
	int fd;

	if (urxe_status_dir(dir, sizeof(dir)) || urxe_owner_make_dir(dir))
		return -1;
	if (!urxe_owner_has_dir(dir, &st))
		return -1;
	snprintf(path, sizeof(path), "%s/view", dir);
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && !fchmod(fd, 0600) && lock(fd)) /* whatever the umask is */
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

void tool_view_share_open(struct tool_view_share *s, const struct tool_view_device *d, unsigned n)
{
	s->fd = open_file();
	s->around = surroundings();
	s->content = content(d, n);
}

int tool_view_share_find(const struct tool_view_share *s, bool *inside)
{
	uint64_t around, content, start, view;
	char line[160];
	ssize_t len;
	int pid, fd;

	*inside = false;
	len = s->fd < 0 ? 0 : pread(s->fd, line, sizeof(line) - 1, 0);
	if (len <= 0)
		return -1;
	line[len] = '\0';
	if (sscanf(line, "%" SCNx64 " %" SCNx64 " %d %" SCNu64 " %" SCNx64, &around, &content, &pid,
		   &start, &view) != 5 ||
	    pid <= 0 || content != s->content)
		return -1;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -1;
	*inside = view == view_of((int)getpid());
	/* It may have made namespaces of its own since, as a sandbox does. */
	if (start_of(pid) == start && view_of(pid) == view && (*inside || around == s->around))
		return fd;
	*inside = false;
	close(fd);
	return -1;
}

void tool_view_share_put(const struct tool_view_share *s)
{
	int pid = (int)getpid();

	if (s->fd >= 0 && !ftruncate(s->fd, 0))
		dprintf(s->fd, "%" PRIx64 " %" PRIx64 " %d %" PRIu64 " %" PRIx64 "\n", s->around,
			s->content, pid, start_of(pid), view_of(pid));
}

void tool_view_share_close(struct tool_view_share *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}
