/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pipes that the program reads events from, and what fork() does to them (pipe.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "device.h"
#include "pipe.h"

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

static int reopen(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
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
	struct stat st = {0};

	*p = (struct urxe_pipe){.rfd = -1, .wfd = -1, .own_rfd = -1, .dev = dev};
	if (err)
		return err;
	p->rfd = fds[0];
	p->wfd = fds[1];
	p->own_rfd = own ? reopen(p->rfd) : -1;
	/* Without /proc the events of objects that go are not taken out. */
	if (own && p->own_rfd < 0 && errno != ENOENT)
		err = errno;
	else if (fstat(p->rfd, &st))
		err = errno;
	if (err) {
		shut(&p->rfd);
		shut(&p->wfd);
		shut(&p->own_rfd);
		return err;
	}
	p->st_dev = st.st_dev;
	p->st_ino = st.st_ino;
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

/* ---- fork ---- */

/* A program that closes all descriptors may have other files under our numbers by now. */
static bool is_ours(const struct urxe_pipe *p, int fd)
{
	struct stat st = {0};

	return fd >= 0 && !fstat(fd, &st) && st.st_dev == p->st_dev && st.st_ino == p->st_ino;
}

/* Under the same number, as blocking as before. */
static void put_in_place(const struct urxe_pipe *p, int from, int fd)
{
	int flags;

	if (!is_ours(p, fd))
		return;
	flags = fcntl(fd, F_GETFL);
	if (dup3(from, fd, O_CLOEXEC) >= 0 && flags >= 0)
		fcntl(fd, F_SETFL, flags & O_NONBLOCK);
}

static void renew(struct urxe_pipe *p)
{
	int fds[2], own = -1;
	struct stat st = {0};

	if (make(fds))
		return;
	if (p->own_rfd >= 0)
		own = reopen(fds[0]);
	if (own >= 0)
		put_in_place(p, own, p->own_rfd);
	put_in_place(p, fds[0], p->rfd);
	if (p->dev->forked && is_ours(p, p->wfd))
		shut(&p->wfd);
	else
		put_in_place(p, fds[1], p->wfd);
	if (!fstat(fds[0], &st)) {
		p->st_dev = st.st_dev;
		p->st_ino = st.st_ino;
	}
	close(fds[0]);
	close(fds[1]);
	if (own >= 0)
		close(own);
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
