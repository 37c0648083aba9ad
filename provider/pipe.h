/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pipes that the program reads events from: of a context, of a completion channel. A forked child
 * has pipes of its own in their place, for what it took out of its parent's the parent would miss.
 */
#ifndef URXE_PROVIDER_PIPE_H
#define URXE_PROVIDER_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <urcu/list.h>

#include "urxe/inode.h"

struct urxe_device;

/** A pipe; its owner's, but for what is private. Descriptors are -1 when there is none. */
struct urxe_pipe {
	int rfd;     /* the program's, which may set O_NONBLOCK, and close it */
	int wfd;     /* never waits */
	int own_rfd; /* the read end, when the program has closed its own; or -1 */
	/* private: */
	const struct urxe_device *dev;
	struct cds_list_head node;
	struct urxe_inode inode;
};

/**
 * urxe_pipe_open - make it
 * @dev: whose events: when it is a parent's, the pipe ends with the parent's
 * @own: with own_rfd
 *
 * 0 or errno. All descriptors are closed by exec.
 */
int urxe_pipe_open(struct urxe_pipe *p, const struct urxe_device *dev, bool own);

/** urxe_pipe_close - of urxe_pipe_open(); the read end of the program's stays for @keep_rfd. */
void urxe_pipe_close(struct urxe_pipe *p, bool keep_rfd);

/** urxe_pipe_put - a record of at most PIPE_BUF bytes, whole or not at all: false, when the pipe is
 * full, or nobody can read it. */
bool urxe_pipe_put(const struct urxe_pipe *p, const void *record, size_t size);

/**
 * urxe_pipe_purge - take out what is somebody's who goes
 * @size: of each record, at most 32 bytes; it begins with 64 bits, which say whose it is
 * @lost: records of others that could not be put back: none, but for want of descriptors
 *
 * Returns how many. Others go to the end of the pipe, in their order. It does not wait, though
 * the program may read at the same time; the owner keeps others of us from writing.
 */
unsigned urxe_pipe_purge(const struct urxe_pipe *p, size_t size, uint64_t whose, unsigned *lost);

/**
 * urxe_pipe_fork_prepare, _parent, _child - around fork()
 *
 * Innermost. In the child each pipe is a new and empty one under the same descriptors; that of a
 * device which is the parent's (dev->forked) has nobody who writes: who reads finds its end.
 */
void urxe_pipe_fork_prepare(void);
void urxe_pipe_fork_parent(void);
void urxe_pipe_fork_child(void);

#endif
