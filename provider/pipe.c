/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pipes that the program reads events from, and what fork() does to them (pipe.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "device.h"
#include "pipe.h"
#include "urxe/cancel.h"

static struct {
	struct urxe_mutex lock; /* innermost; held across fork() */
	struct cds_list_head all;
} pipes = {
	.lock = URXE_MUTEX_INIT,
	.all = CDS_LIST_HEAD_INIT(pipes.all),
};

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int make(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC))
		return errno;
	/* The read end blocks until the application says otherwise; a notifier never waits. */
	if (!fcntl(fds[1], F_SETFL, O_NONBLOCK))
		return 0;
	close(fds[0]);
	close(fds[1]);
	return EMFILE;
}

int urxe_pipe_open(struct urxe_pipe *p, const struct urxe_device *dev, bool own)
{
	int fds[2], err = make(fds);

	*p = (struct urxe_pipe){.rfd = -1, .wfd = -1, .own_rfd = -1, .dev = dev};
	if (err)
		return err;
	p->rfd = fds[0];
	p->wfd = fds[1];
	p->own_rfd = own ? fcntl(p->rfd, F_DUPFD_CLOEXEC, 0) : -1;
	if (own && p->own_rfd < 0)
		err = errno;
	else if (!urxe_inode_of(p->rfd, &p->inode))
		err = errno;
	if (err) {
		shut(&p->rfd);
		shut(&p->wfd);
		shut(&p->own_rfd);
		return err;
	}
	urxe_mutex_lock(&pipes.lock);
	cds_list_add_tail(&p->node, &pipes.all);
	urxe_mutex_unlock(&pipes.lock);
	return 0;
}

void urxe_pipe_close(struct urxe_pipe *p, bool keep_rfd)
{
	/* Before its number is another file's. */
	urxe_mutex_lock(&pipes.lock);
	cds_list_del(&p->node);
	urxe_mutex_unlock(&pipes.lock);
	if (!keep_rfd)
		shut(&p->rfd);
	shut(&p->wfd);
	shut(&p->own_rfd);
}

bool urxe_pipe_put(const struct urxe_pipe *p, const void *record, size_t size)
{
	ssize_t n;

	do {
		n = write(p->wfd, record, size);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)size;
}

/* ---- what is somebody's who goes ---- */

#define CHUNK 4096 /* a page: a pipe that is full has room again by the page */

/* At most @left bytes of @from; others' records go to the end of @p, which may be the same pipe. */
static unsigned sift(int from, const struct urxe_pipe *p, size_t left, size_t size, uint64_t whose,
		     unsigned *lost)
{
	struct pollfd pfd = {.fd = from, .events = POLLIN};
	uint8_t chunk[CHUNK];
	unsigned purged = 0;
	uint64_t of;
	ssize_t n;

	while (left >= size && poll(&pfd, 1, 0) == 1) {
		n = read(from, chunk, left < CHUNK ? left : CHUNK);
		if (n <= 0)
			break;
		left -= (size_t)n;
		for (ssize_t i = 0; i + (ssize_t)size <= n; i += (ssize_t)size) {
			memcpy(&of, chunk + i, sizeof(of));
			if (of == whose)
				purged++;
			else if (!urxe_pipe_put(p, chunk + i, size))
				++*lost;
		}
	}
	return purged;
}

/* As much of @left as there is room for; returns how much it was. */
static size_t move(int from, int to, size_t left)
{
	int size = fcntl(from, F_GETPIPE_SZ);
	size_t moved = 0;
	ssize_t n;

	if (size > 0)
		fcntl(to, F_SETPIPE_SZ, size);
	while (moved < left) {
		n = splice(from, NULL, to, NULL, left - moved, SPLICE_F_NONBLOCK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		moved += (size_t)n;
	}
	return moved;
}

/*
 * The read end may be in blocking mode, and a reader of the application's may be quicker than
 * we: so records are not read from it, but spliced, which can be told not to wait, to a pipe of our
 * own. Only when there is no descriptor left for that are they read in place.
 */
unsigned urxe_pipe_purge(const struct urxe_pipe *p, size_t size, uint64_t whose, unsigned *lost)
{
	int from = p->own_rfd >= 0 ? p->own_rfd : p->rfd, tmp[2], left, cancel;
	unsigned purged = 0;
	size_t n;

	*lost = 0;
	if (ioctl(from, FIONREAD, &left) || left <= 0)
		return 0;
	cancel = urxe_cancel_off(); /* the owner has locks */
	if (pipe2(tmp, O_CLOEXEC | O_NONBLOCK)) {
		purged = sift(from, p, (size_t)left, size, whose, lost);
	} else {
		/* A user with very many pipes gets small ones. */
		while (left > 0 && (n = move(from, tmp[1], (size_t)left))) {
			purged += sift(tmp[0], p, n, size, whose, lost);
			left -= (int)n;
		}
		close(tmp[0]);
		close(tmp[1]);
	}
	urxe_cancel_back(cancel);
	return purged;
}

/* ---- fork ---- */

/* Under the same number, unless that is another file's by now, and as blocking as before. */
static void put_in_place(const struct urxe_pipe *p, int from, int fd)
{
	int flags;

	if (!urxe_inode_in(fd, &p->inode))
		return;
	flags = fcntl(fd, F_GETFL);
	if (dup3(from, fd, O_CLOEXEC) >= 0 && flags >= 0)
		fcntl(fd, F_SETFL, flags & O_NONBLOCK);
}

static void renew(struct urxe_pipe *p)
{
	int fds[2];

	if (make(fds))
		return;
	put_in_place(p, fds[0], p->own_rfd);
	put_in_place(p, fds[0], p->rfd);
	if (p->dev->forked && urxe_inode_in(p->wfd, &p->inode))
		shut(&p->wfd);
	else
		put_in_place(p, fds[1], p->wfd);
	urxe_inode_of(fds[0], &p->inode);
	close(fds[0]);
	close(fds[1]);
}

void urxe_pipe_fork_prepare(void) URXE_ACQUIRE(pipes.lock)
{
	urxe_mutex_lock(&pipes.lock);
}

void urxe_pipe_fork_parent(void) URXE_RELEASE(pipes.lock)
{
	urxe_mutex_unlock(&pipes.lock);
}

void urxe_pipe_fork_child(void) URXE_RELEASE(pipes.lock)
{
	struct urxe_pipe *p;

	cds_list_for_each_entry (p, &pipes.all, node)
		renew(p);
	urxe_mutex_unlock(&pipes.lock);
}
