/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What members send each other over their sockets: one message there, one back, and descriptors
 * with them. A connection is short, so that nobody needs one for each other member all the time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "netio/fabric_priv.h"
#include "urxe/cancel.h"
#include "urxe/owner.h"

#define MSG_MAGIC   0x67736d2d65787275 /* "urxe-msg" */
#define BACKLOG	    1024
#define FETCH_ASKED 32		       /* members that the table is asked of at a time */
#define FETCH_STEP  (10 * FABRIC_MSEC) /* before the next one is asked, too */

uint64_t urxe_fabric_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * FABRIC_SEC + (uint64_t)ts.tv_nsec;
}

/* ---- one message ---- */

int urxe_fmsg_send(int sock, struct urxe_fmsg *m, int pidfd, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct iovec iov = {.iov_base = m, .iov_len = sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	int fds[2], n = 0, err, cancel;

	m->magic = MSG_MAGIC;
	m->version = FT_VERSION;
	m->has_pidfd = pidfd >= 0;
	m->has_fd = fd >= 0;
	if (pidfd >= 0)
		fds[n++] = pidfd;
	if (fd >= 0)
		fds[n++] = fd;
	if (n) {
		h.msg_control = control;
		h.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
	}
	cancel = urxe_cancel_off();
	err = sendmsg(sock, &h, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
	urxe_cancel_back(cancel);
	return err;
}

/* All descriptors that came: two fit. */
static int take_fds(struct msghdr *h, int fds[2])
{
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	size_t n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	return (int)n;
}

int urxe_fmsg_recv(int sock, struct urxe_fmsg *m, int *pidfd, int *fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
	struct iovec iov = {.iov_base = m, .iov_len = sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	int fds[2], n, cancel = urxe_cancel_off();
	ssize_t len = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	urxe_cancel_back(cancel);
	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? EAGAIN : ECONNRESET;
	/* Also of a message of no bytes, which looks like the end. */
	n = take_fds(&h, fds);
	if (len == sizeof(*m) && !(h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	    m->magic == MSG_MAGIC && m->version == FT_VERSION && m->has_pidfd <= 1 &&
	    m->has_fd <= 1 && m->has_pidfd + m->has_fd == n) {
		*pidfd = m->has_pidfd ? fds[0] : -1;
		*fd = m->has_fd ? fds[n - 1] : -1;
		return 0;
	}
	while (n--)
		close(fds[n]);
	return len ? EPROTO : ECONNRESET;
}

/* ---- sockets ---- */

/* A folder whose name is too long for a socket is named by its descriptor. */
static int address(const struct urxe_fhub *hub, unsigned slot, struct sockaddr_un *un)
{
	int n;

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	n = snprintf(un->sun_path, sizeof(un->sun_path), "%s/%u", hub->path, slot);
	if ((size_t)n >= sizeof(un->sun_path))
		n = snprintf(un->sun_path, sizeof(un->sun_path), "/proc/self/fd/%d/%u", hub->dir,
			     slot);
	return n > 0 && (size_t)n < sizeof(un->sun_path) ? 0 : ENAMETOOLONG;
}

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int failed(int fd, int err)
{
	close(fd);
	errno = err;
	return -1;
}

/* Until listen() nobody can connect: the mode is right by then. */
int urxe_fmsg_listen(const struct urxe_fhub *hub, unsigned slot)
{
	struct sockaddr_un un;
	struct stat dir, st;
	char name[16];
	int fd = new_socket();

	if (fd < 0)
		return -1;
	urxe_fhub_unlink((struct urxe_fhub *)hub, slot);
	if (address(hub, slot, &un))
		return failed(fd, ENAMETOOLONG);
	if (bind(fd, (struct sockaddr *)&un, sizeof(un)))
		return failed(fd, errno);
	snprintf(name, sizeof(name), "%u", slot);
	/* In a folder that gives its group on it has that already; and where the group is not
	 * mapped, as in the view of `urxe run`, it cannot be given. */
	if (hub->group && !fstat(hub->dir, &dir) &&
	    !fstatat(hub->dir, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_gid != dir.st_gid &&
	    fchownat(hub->dir, name, (uid_t)-1, dir.st_gid, AT_SYMLINK_NOFOLLOW))
		return failed(fd, errno);
	if (fchmodat(hub->dir, name, hub->group ? 0660 : 0600, 0) || listen(fd, BACKLOG))
		return failed(fd, errno);
	return fd;
}

bool urxe_fmsg_trusted(const struct urxe_fhub *hub, int sock)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return hub->group || (!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) &&
			      (!peer.uid || urxe_owner_runs(peer.uid, peer.pid)));
}

int urxe_fmsg_connect(const struct urxe_fhub *hub, unsigned slot)
{
	struct sockaddr_un un;
	int fd = new_socket();

	if (fd < 0)
		return -1;
	if (address(hub, slot, &un))
		return failed(fd, ENAMETOOLONG);
	if (connect(fd, (struct sockaddr *)&un, sizeof(un)))
		return failed(fd, errno);
	if (!urxe_fmsg_trusted(hub, fd))
		return failed(fd, EPERM);
	return fd;
}

/* ---- the table ---- */

/* @settled: the table must have the member; else it may be about to move in. */
static int adopt_if(const char *path, unsigned slot, bool settled, struct urxe_fmap **map)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || urxe_fmap_adopt(fd, map))
		return ENOENT;
	if (!settled || atomic_load(&(*map)->table->life[slot].life))
		return 0;
	urxe_fmap_put(*map, false);
	return ENOENT;
}

static int search_proc(const struct urxe_fhub *hub, unsigned slot, pid_t pid, bool settled,
		       struct urxe_fmap **map)
{
	char dir[64], want[96], path[96], is[96], name[64];
	struct dirent *e;
	DIR *fds;
	int ret = ENOENT;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)pid);
	urxe_fmap_name(hub, name, sizeof(name));
	snprintf(want, sizeof(want), "/memfd:%s (deleted)", name);
	fds = opendir(dir);
	while (fds && ret && (e = readdir(fds))) {
		ssize_t n;

		snprintf(path, sizeof(path), "%s/%.20s", dir, e->d_name);
		n = readlink(path, is, sizeof(is) - 1);
		if (n <= 0)
			continue;
		is[n] = '\0';
		if (!strcmp(is, want))
			ret = adopt_if(path, slot, settled, map);
	}
	if (fds)
		closedir(fds);
	return ret;
}

/*
 * Of a member that is stopped, or has lost its socket: what it has open can be opened by another
 * process of the user's, if /proc shows it. It may look at a table that was before, too.
 */
static int fetch_from_proc(const struct urxe_fhub *hub, unsigned slot, pid_t pid,
			   struct urxe_fmap **map)
{
	int ret = pid ? search_proc(hub, slot, pid, true, map) : ENOENT;

	return ret && pid ? search_proc(hub, slot, pid, false, map) : ret;
}

struct fetch {
	struct urxe_fhub *hub;
	struct pollfd asked[FETCH_ASKED];
	unsigned n;
	int why; /* the most telling of what was wrong */
	struct urxe_fmap **map;
};

static void ask_for_table(struct fetch *f, unsigned slot)
{
	struct urxe_fmsg m = {.type = FM_GET};
	int fd = f->n < FETCH_ASKED ? urxe_fmsg_connect(f->hub, slot) : -1;

	if (fd < 0) {
		if (errno == EPERM || errno == EACCES)
			f->why = errno;
		return;
	}
	if (urxe_fmsg_send(fd, &m, -1, -1)) {
		close(fd);
		return;
	}
	f->asked[f->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

/* 0: there it is. */
static int take_answer(struct fetch *f, int sock)
{
	struct urxe_fmsg m;
	int pidfd, fd, ret = urxe_fmsg_recv(sock, &m, &pidfd, &fd);

	if (!ret) {
		if (pidfd >= 0)
			close(pidfd);
		if (fd >= 0 && m.type == FM_TABLE)
			ret = urxe_fmap_adopt(fd, f->map);
		else
			ret = EPROTO;
		if (ret && fd >= 0 && m.type != FM_TABLE)
			close(fd);
	}
	if (ret == EPROTO)
		f->why = ret;
	return ret;
}

static int wait_for_table(struct fetch *f, uint64_t ns)
{
	uint64_t until = urxe_fabric_now() + ns, now;

	while (f->n && (now = urxe_fabric_now()) < until) {
		if (poll(f->asked, f->n, (int)((until - now) / FABRIC_MSEC) + 1) <= 0)
			continue;
		for (unsigned i = 0; i < f->n; i++) {
			int ret = f->asked[i].revents ? take_answer(f, f->asked[i].fd) : EAGAIN;

			if (!ret)
				return 0;
			if (ret == EAGAIN)
				continue;
			close(f->asked[i].fd);
			f->asked[i--] = f->asked[--f->n];
		}
	}
	return ETIMEDOUT;
}

int urxe_fmsg_fetch(struct urxe_fhub *hub, uint64_t wait, struct urxe_fmap **map)
{
	struct fetch f = {.hub = hub, .why = ENOENT, .map = map};
	uint64_t until = urxe_fabric_now() + wait;
	int ret = ENOENT;
	pid_t pid;

	for (unsigned s = URXE_FABRIC_FIRST; ret && (s = urxe_fhub_next(hub, s, &pid)); s++) {
		if (f.why == ENOENT)
			f.why = ETIMEDOUT;
		ask_for_table(&f, s);
		ret = wait_for_table(&f, FETCH_STEP);
		if (ret && f.why == ETIMEDOUT)
			ret = fetch_from_proc(hub, s, pid, map);
		if (ret && urxe_fabric_now() > until)
			break;
	}
	if (ret && f.n && urxe_fabric_now() < until)
		ret = wait_for_table(&f, until - urxe_fabric_now());
	for (unsigned i = 0; i < f.n; i++)
		close(f.asked[i].fd);
	return ret ? f.why : 0;
}
