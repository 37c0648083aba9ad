/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The socket of `urxe status`. Whoever finds one that refuses takes it for that of a process that
 * was killed, and removes it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"
#include "provider/status_path.h"
#include "provider/status_server.h"

static char dir[] = "/tmp/urxe-test-XXXXXX";
static char path[64], unnamed[64];
static bool early; /* it had its name before it listened */

/* In place of libc's. */
int listen(int fd, int n)
{
	early |= !access(path, F_OK);
	return (int)syscall(SYS_listen, fd, n);
}

static void test_name(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	setenv(URXE_STATUS_ENV, dir, 1);
	snprintf(path, sizeof(path), "%s/%d", dir, (int)getpid());
	snprintf(unnamed, sizeof(unnamed), "%s/.%d", dir, (int)getpid());
	urxe_status_server_start(NULL);
	CU_ASSERT(!early);
	CU_ASSERT_NOT_EQUAL(access(unnamed, F_OK), 0);
	strcpy(sun.sun_path, path);
	CU_ASSERT_EQUAL(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	close(fd);
	unlink(path);
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

URXE_TEST_MAIN("status_server", T(test_name))
