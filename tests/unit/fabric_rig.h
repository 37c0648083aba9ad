/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What tests of the fabric share: a folder of their own, members in this process and in others.
 */
#ifndef URXE_TEST_FABRIC_RIG_H
#define URXE_TEST_FABRIC_RIG_H

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netio/fabric.h"
#include "tests/rig/harness.h"
#include "urxe/log.h"

static char rig_dir[64];

/* A folder that nobody else uses. */
static inline void rig_begin(void)
{
	snprintf(rig_dir, sizeof(rig_dir), "/tmp/urxe-fabric-XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(rig_dir));
}

/* How many files are in it. */
static inline unsigned rig_files(void)
{
	DIR *d = opendir(rig_dir);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

/* All have left: it is empty. */
static inline void rig_end(void)
{
	CU_ASSERT_EQUAL(rig_files(), 0);
	CU_ASSERT_EQUAL(rmdir(rig_dir), 0);
}

static inline void rig_spec(struct urxe_fabric_spec *spec)
{
	memset(spec, 0, sizeof(*spec));
	snprintf(spec->dir, sizeof(spec->dir), "%s", rig_dir);
}

static inline struct urxe_fabric *rig_make(bool node)
{
	struct urxe_fabric_spec spec;
	struct urxe_fabric *f = NULL;

	rig_spec(&spec);
	CU_ASSERT_EQUAL_FATAL(urxe_fabric_create(&f, &spec, node, NULL), 0);
	return f;
}

static inline struct urxe_fabric *rig_join(bool node)
{
	struct urxe_fabric *f = rig_make(node);

	CU_ASSERT_EQUAL_FATAL(urxe_fabric_join(f), 0);
	return f;
}

/* ---- processes: each runs a function, and is told and asked by bytes ---- */

struct rig_process {
	pid_t pid;
	int to, from; /* pipes */
};

/* TSan does not follow the child of a process with threads. */
static inline bool rig_can_fork(void)
{
#if defined(__SANITIZE_THREAD__)
	return false;
#else
	return true;
#endif
}

typedef void rig_fn(int in, int out);

static inline void rig_start(struct rig_process *p, rig_fn *fn)
{
	int to[2], from[2];

	CU_ASSERT_EQUAL_FATAL(pipe(to), 0);
	CU_ASSERT_EQUAL_FATAL(pipe(from), 0);
	p->pid = fork();
	CU_ASSERT_FATAL(p->pid >= 0);
	if (!p->pid) {
		close(to[1]);
		close(from[0]);
		fn(to[0], from[1]);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	p->to = to[1];
	p->from = from[0];
}

/* A byte from a process: -1 at its end. */
static inline int rig_hear(int from)
{
	unsigned char c;

	return read(from, &c, 1) == 1 ? c : -1;
}

static inline void rig_say(int to, int byte)
{
	unsigned char c = (unsigned char)byte;

	if (write(to, &c, 1) != 1)
		_exit(99);
}

static inline int rig_reap(struct rig_process *p)
{
	int status = 0;

	/* Not by closing alone: later processes have the pipe's end, too. */
	signal(SIGPIPE, SIG_IGN);
	if (write(p->to, "", 1) != 1) {
		/* It has ended already. */
	}
	close(p->to);
	close(p->from);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static inline void rig_kill(struct rig_process *p)
{
	kill(p->pid, SIGKILL);
	rig_reap(p);
}

/* A member that says its slot (0: it could not join), and stays until told, or left alone. */
static inline void rig_member(int in, int out)
{
	struct urxe_fabric_spec spec;
	struct urxe_fabric *f;

	rig_spec(&spec);
	if (urxe_fabric_create(&f, &spec, false, NULL))
		_exit(1);
	rig_say(out, urxe_fabric_join(f) ? 0 : (int)urxe_fabric_slot(f));
	rig_hear(in);
	urxe_fabric_put(f);
}

#endif
