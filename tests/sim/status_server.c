/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The socket of `urxe status`. Whoever finds one that refuses takes it for that of a process that
 * was killed, and removes it. One that the program has closed is served no more.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "provider/status_path.h"
#include "provider/status_server.h"

static char dir[64] = "/tmp/urxe-test-XXXXXX";
static char path[96], unnamed[96];
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
	struct stat st;
	mode_t mask;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	strcat(dir, "/status");
	setenv(URXE_STATUS_ENV, dir, 1);
	snprintf(path, sizeof(path), "%s/%d", dir, (int)getpid());
	snprintf(unnamed, sizeof(unnamed), "%s/.%d", dir, (int)getpid());
	mask = umask(0777);
	urxe_status_server_start(NULL);
	umask(mask);
	CU_ASSERT(!stat(dir, &st) && (st.st_mode & 0777) == 0700);
	CU_ASSERT(!stat(path, &st) && (st.st_mode & 0777) == 0600);
	CU_ASSERT(!early);
	CU_ASSERT_NOT_EQUAL(access(unnamed, F_OK), 0);
	strcpy(sun.sun_path, path);
	CU_ASSERT_EQUAL(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	/* Until the thread has done with it: it is to sleep when the next test begins. */
	shutdown(fd, SHUT_WR);
	CU_ASSERT_EQUAL(read(fd, &mask, sizeof(mask)), 0);
	close(fd);
}

static long cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/*
 * A program that closes all it finds, as daemons do: nobody is served, and nothing spins. It does
 * so behind ThreadSanitizer's back, which takes it for a race, and is right.
 */
static void test_closed(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int low = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = fcntl(low, F_DUPFD, 100);
	int mine = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	long before;

	mine = fcntl(mine, F_DUPFD, 100);
	client = fcntl(client, F_DUPFD, 100);
	strcpy(sun.sun_path, unnamed);
	CU_ASSERT_EQUAL(bind(mine, (struct sockaddr *)&sun, sizeof(sun)), 0);
	CU_ASSERT_EQUAL(listen(mine, 5), 0);
	/* What has its number then is another one's listener, and not to be served. */
	for (int i = 3; i < 100; i++)
		syscall(SYS_dup3, mine, i, 0);
	CU_ASSERT_EQUAL(connect(client, (struct sockaddr *)&sun, sizeof(sun)), 0);
	/* The thread may still wait for the file that it had, and wakes up; or it knows already. */
	strcpy(sun.sun_path, path);
	connect(fd, (struct sockaddr *)&sun, sizeof(sun));
	while (!access(path, F_OK))
		usleep(1000);
	CU_ASSERT(accept(mine, NULL, NULL) >= 0);
	for (int i = 3; i < 100; i++)
		syscall(SYS_close, i);
	unlink(unnamed);
	before = cpu_ms();
	usleep(500000);
	CU_ASSERT(cpu_ms() - before < 100);
	close(fd);
	unlink(path);
	CU_ASSERT_EQUAL(rmdir(dir), 0);
	*strrchr(dir, '/') = '\0';
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

URXE_TEST_MAIN("status_server", T(test_name), T(test_closed))
