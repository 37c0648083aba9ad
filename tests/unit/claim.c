/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who has a link's socket (netio/claim.h), where another program listens there, or a process that
 * is dead has left it.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "netio/claim.h"
#include "netio/devargs.h"

static char dir[] = "/tmp/urxe-ut-XXXXXX";
static struct urxe_devargs_socket at = {.type = SOCK_SEQPACKET, .listens = true};
static char err[200];

static void setup(void)
{
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	CU_ASSERT_EQUAL(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* of children's children */
	snprintf(at.path, sizeof(at.path), "%s/s", dir);
}

static void cleanup(void)
{
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

/* Any other program's. @backlog: -1: it does not listen yet */
static int socket_at(int type, int backlog)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(un.sun_path, at.path);
	unlink(at.path);
	if (bind(fd, (struct sockaddr *)&un, sizeof(un)) || (backlog >= 0 && listen(fd, backlog)))
		abort();
	return fd;
}

/* What is at the path is removed, and the side is ours. */
static bool is_free(void)
{
	struct urxe_claim *c;
	bool gone;

	if (urxe_claim_socket(&at, &c, err, sizeof(err)))
		return false;
	gone = access(at.path, F_OK) && c;
	urxe_claim_release(c);
	return gone;
}

/* It is left alone. */
static bool is_taken(void)
{
	struct urxe_claim *c;

	return urxe_claim_socket(&at, &c, err, sizeof(err)) == EBUSY && !c &&
	       !access(at.path, F_OK);
}

static bool named(pid_t pid)
{
	char name[40];

	snprintf(name, sizeof(name), "process %d (", (int)pid);
	return strstr(err, name);
}

/* Who listens there is asked nothing: some servers do not survive a client that says nothing. */
static void others(void)
{
	static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
	int fd;

	for (unsigned i = 0; i < 4; i++) {
		at.type = types[i % 2];
		fd = socket_at(types[i / 2], 4);
		CU_ASSERT(is_taken() && named(getpid()));
		CU_ASSERT_EQUAL(accept(fd, NULL, NULL), -1);
		CU_ASSERT_EQUAL(errno, EAGAIN);
		close(fd);
		CU_ASSERT(is_free());
	}
}

/* It will listen in a moment. */
static void others_begin(void)
{
	int fd = socket_at(SOCK_SEQPACKET, -1);

	CU_ASSERT(is_taken());
	close(fd);
	CU_ASSERT(is_free());
}

/*
 * A process with the side and a socket there, which it has told of if @made, is killed. Its child,
 * which has the descriptors, lives until @until is closed. Returns that child.
 */
static pid_t leave_child(bool made, int *until)
{
	int told[2] = {-1, -1}, stop[2] = {-1, -1};
	pid_t owner, child = 0;
	struct urxe_claim *c;

	CU_ASSERT_FATAL(!pipe(told) && !pipe(stop));
	owner = fork();
	if (!owner) {
		close(stop[1]);
		if (urxe_claim_socket(&at, &c, err, sizeof(err)))
			_exit(1);
		socket_at(SOCK_SEQPACKET, 4);
		if (made)
			urxe_claim_made(c, at.path);
		child = fork();
		if (!child)
			_exit(read(stop[0], err, 1) != 0);
		(void)!write(told[1], &child, sizeof(child));
		raise(SIGKILL);
	}
	close(stop[0]);
	close(told[1]);
	CU_ASSERT_EQUAL(read(told[0], &child, sizeof(child)), sizeof(child));
	CU_ASSERT_EQUAL(waitpid(owner, NULL, 0), owner);
	close(told[0]);
	*until = stop[1];
	return child;
}

/* Its socket goes with it, which has the same name as the next one's. */
static void end_child(pid_t child, int until)
{
	close(until);
	CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
}

static void dead_with_child(void)
{
	int until;
	pid_t child = leave_child(true, &until);

	CU_ASSERT(is_free());
	end_child(child, until);
}

/* That the last one has died says nothing of a socket that came after its own. */
static void dead_and_others(void)
{
	int until, fd;
	pid_t child = leave_child(false, &until);

	CU_ASSERT(is_taken() && named(child));
	end_child(child, until);
	unlink(at.path);
	child = leave_child(true, &until);
	unlink(at.path);
	fd = socket_at(SOCK_SEQPACKET, 4);
	CU_ASSERT(is_taken());
	close(fd);
	end_child(child, until);
	CU_ASSERT(is_free());
}

URXE_TEST_MAIN("claim", T(setup), T(others), T(others_begin), T(dead_with_child),
	       T(dead_and_others), T(cleanup))
