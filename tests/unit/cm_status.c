/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * `urxe status --cm` asks this very process: states, comm ids, events and counters are those that
 * the calls have brought about; a killed process leaves nothing, a child takes nothing away.
 */
#include "cm_rdma.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char text[1 << 16];

/* What the command prints, in a static buffer. */
static const char *status(const char *args)
{
	char line[64];

	snprintf(line, sizeof(line), "status --cm %s", args);
	CU_ASSERT_EQUAL(urxe_command(line, text, sizeof(text)), 0);
	return text;
}

static unsigned count(const char *s, const char *what)
{
	unsigned n = 0;

	while ((s = strstr(s, what))) {
		n++;
		s += strlen(what);
	}
	return n;
}

static int connect_to(int pid)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	status_path(sun.sun_path, sizeof(sun.sun_path), pid);
	WORKS(connect(fd, (struct sockaddr *)&sun, sizeof(sun)));
	return fd;
}

/* Nobody has a CM yet. */
static void nothing(void)
{
	CU_ASSERT_STRING_EQUAL(status("--json"), "{\n  \"processes\": []\n}\n");
	CU_ASSERT_EQUAL(count(status(""), "\n"), 1);
}

static void connection(void)
{
	char qpns[64];
	struct pair p;

	pair_open(&p, "10.0.0.1");
	status("--json");
	CU_ASSERT_EQUAL(count(text, "\"kind\": \"rdma_cm\""), 3);
	CU_ASSERT_EQUAL(count(text, "\"state\": \"LISTEN\""), 1);
	CU_ASSERT_EQUAL(count(text, "\"state\": \"ESTABLISHED\""), 2);
	CU_ASSERT_EQUAL(count(text, "\"last_event\": \"RDMA_CM_EVENT_ESTABLISHED\""), 2);
	CU_ASSERT_EQUAL(count(text, "\"REQ\": {\"sent\": 1, \"received\": 1, \"retried\": 0, "
				    "\"dropped\": 0}"),
			1);
	CU_ASSERT_EQUAL(count(text, "\"pid\": "), 1);
	snprintf(qpns, sizeof(qpns), "\"qpn\": %u, \"remote_qpn\": %u", p.client->qp->qp_num,
		 p.server->qp->qp_num);
	CU_ASSERT_EQUAL(count(text, qpns), 1);
	status("");
	CU_ASSERT_EQUAL(count(text, " ESTABLISHED "), 2);
	CU_ASSERT_EQUAL(count(text, "10.0.0.1:"), 5);
	WORKS(rdma_disconnect(p.client));
	CU_ASSERT_EQUAL(expect(p.cch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	CU_ASSERT_EQUAL(expect(p.sch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	CU_ASSERT_EQUAL(count(status("--json"), "\"state\": \"TIMEWAIT\""), 2);
	pair_close(&p);
	/* What is left of them has no owner. */
	status("--json");
	CU_ASSERT_EQUAL(count(text, "\"kind\": \"orphan\""), 2);
	CU_ASSERT_EQUAL(count(text, "\"kind\": \"rdma_cm\""), 0);
}

/* Who asks and goes, or says nonsense, does no harm. */
static void bad_clients(void)
{
	char buf[256];
	int fd;

	close(connect_to(getpid()));
	fd = connect_to(getpid());
	CU_ASSERT_EQUAL(send(fd, "j", 1, 0), 1);
	close(fd);
	fd = connect_to(getpid());
	memset(buf, 0xff, sizeof(buf));
	CU_ASSERT_EQUAL(send(fd, buf, sizeof(buf), 0), sizeof(buf));
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
	CU_ASSERT_EQUAL(count(status("--json"), "\"pid\": "), 1);
}

/* A socket that nobody listens at is what a killed process left. */
static void left_behind(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	status_path(sun.sun_path, sizeof(sun.sun_path), 999999999);
	WORKS(bind(fd, (struct sockaddr *)&sun, sizeof(sun)));
	close(fd);
	CU_ASSERT_EQUAL(count(status("--json"), "\"pid\": "), 1);
	CU_ASSERT_EQUAL(access(sun.sun_path, F_OK), -1);
}

static void after_fork(void)
{
	int st;
	pid_t pid = fork();

	if (!pid)
		exit(0); /* with all that runs at exit */
	CU_ASSERT_EQUAL(waitpid(pid, &st, 0), pid);
	CU_ASSERT_EQUAL(st, 0);
	CU_ASSERT_EQUAL(count(status("--json"), "\"pid\": "), 1);
}

/* A folder that others may write to is not believed. */
static void open_folder(void)
{
	WORKS(chmod(status_dir(), 0777));
	CU_ASSERT_EQUAL(count(status("--json"), "\"pid\": "), 0);
	WORKS(chmod(status_dir(), 0700));
	CU_ASSERT_EQUAL(count(status("--json"), "\"pid\": "), 1);
}

__attribute__((constructor)) static void set_up(void)
{
	status_dir();
}

URXE_TEST_MAIN("cm_status", T(nothing), T(connection), T(bad_clients), T(left_behind),
	       T(after_fork), T(open_folder))
