/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * `urxe status --cm` asks this very process: states, comm ids, events and counters are those that
 * the calls have brought about; a killed process leaves nothing, a child takes nothing away.
 */
#include "cm_rdma.h"
#include "fork_leaks.h"

#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "provider/status_path.h"

static char text[1 << 16];

/* What the command prints and how it ends; blanks and newlines in a row become one blank. */
static int run(const char *args)
{
	char line[64], *out = text;
	int ret;

	snprintf(line, sizeof(line), "status --cm %s", args);
	ret = urxe_command(line, text, sizeof(text));
	for (const char *p = text; *p && strstr(args, "--json"); p++) {
		if (!isspace((unsigned char)*p))
			*out++ = *p;
		else if (out > text && out[-1] != ' ')
			*out++ = ' ';
	}
	if (out != text)
		*out = '\0';
	return ret;
}

static const char *status(const char *args)
{
	CU_ASSERT_EQUAL(run(args), 0);
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
	status("--json");
	/* json-c writes an empty array as "[ ]" or, from 0.17 on, as "[]". */
	CU_ASSERT(!strcmp(text, "{ \"processes\": [ ] } ") ||
		  !strcmp(text, "{ \"processes\": [] } "));
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
	CU_ASSERT_EQUAL(count(text, "\"REQ\": { \"sent\": 1, \"received\": 1, \"retried\": 0, "
				    "\"dropped\": 0 }"),
			1);
	CU_ASSERT_EQUAL(count(text, "\"pid\": "), 1);
	snprintf(qpns, sizeof(qpns), "\"qpn\": %u, \"remote_qpn\": %u", p.client->qp->qp_num,
		 p.server->qp->qp_num);
	CU_ASSERT_EQUAL(count(text, qpns), 1);
	/* No UTF-8, and what a terminal would obey. */
	CU_ASSERT_EQUAL(count(text, "\"command\": \"a\\\"\\\\\\t\\u001b\xef\xbf\xbd\""), 1);
	status("");
	CU_ASSERT_EQUAL(count(text, " a\"\\??\xef\xbf\xbd "), 3);
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

static void *destroy(void *arg)
{
	rdma_destroy_id(arg);
	return NULL;
}

/* What is logged from now on is read from the descriptor; what was stderr, in *old. */
static int catch_log(int *old)
{
	int fds[2];

	CU_ASSERT_FATAL(!pipe(fds));
	fflush(stderr);
	*old = dup(2);
	dup2(fds[1], 2);
	close(fds[1]);
	return fds[0];
}

/* Why rdma_destroy_id() hangs: the program is told, and who asks. */
static void unacked(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	char line[512], name[32];
	int fd, old;
	ssize_t n;
	pthread_t t;

	id = resolved(ch, "10.0.0.1", 9);
	CU_ASSERT_EQUAL(count(status("--json"), "\"unacked\": 0"), 1);
	drop(id);
	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", 9), 1000));
	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_EQUAL(count(status("--json"), "\"unacked\": 1"), 1);
	fd = catch_log(&old);
	WORKS(pthread_create(&t, NULL, destroy, id));
	n = poll(&(struct pollfd){fd, POLLIN, 0}, 1, 10000) == 1 ? read(fd, line, sizeof(line) - 1)
								 : 0;
	dup2(old, 2);
	close(old);
	close(fd);
	CU_ASSERT_FATAL(n > 0);
	line[n] = '\0';
	snprintf(name, sizeof(name), "id %p", (void *)id);
	CU_ASSERT_EQUAL(count(line, "rdma_destroy_id()"), 1);
	CU_ASSERT_EQUAL(count(line, name), 1);
	CU_ASSERT_EQUAL(count(line, "10.0.0.1:9 has 1 unacked: RDMA_CM_EVENT_ADDR_RESOLVED\n"), 1);
	status("--json");
	CU_ASSERT_EQUAL(count(text, "\"state\": \"DESTROY\""), 1);
	CU_ASSERT_EQUAL(count(text, "\"unacked\": 1"), 1);
	WORKS(rdma_ack_cm_event(ev));
	WORKS(pthread_join(t, NULL));
	CU_ASSERT_EQUAL(count(status("--json"), "\"unacked\": "), 0);
	rdma_destroy_event_channel(ch);
}

/* Who asks and goes, or says nonsense, does no harm. */
static void bad_clients(void)
{
	char buf[256];
	int fd;

	close(connect_to(getpid()));
	fd = connect_to(getpid());
	CU_ASSERT_EQUAL(send(fd, "cm", 2, 0), 2);
	close(fd);
	fd = connect_to(getpid());
	memset(buf, 0xff, sizeof(buf));
	CU_ASSERT_EQUAL(send(fd, buf, sizeof(buf), 0), sizeof(buf));
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
	CU_ASSERT_EQUAL(count(status("--json"), "\"pid\": "), 1);
}

/* Another version asks, and is told which one this is. */
static void other_words(void)
{
	char buf[256] = "";
	int fd = connect_to(getpid());

	CU_ASSERT_EQUAL(send(fd, "r\n", 2, 0), 2);
	CU_ASSERT(recv(fd, buf, sizeof(buf) - 1, MSG_WAITALL) > 0);
	CU_ASSERT_EQUAL(count(buf, "{\"urxe_status\":2,"), 1);
	CU_ASSERT_EQUAL(count(buf, "\"error\":\""), 1);
	CU_ASSERT_EQUAL(count(buf, "\"ids\""), 0);
	close(fd);
}

/* A process that answers each who asks with @text, whatever is asked. */
static pid_t pretend(const char *answer)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), c;
	char word[16];
	pid_t pid;

	status_path(sun.sun_path, sizeof(sun.sun_path), 1);
	unlink(sun.sun_path);
	WORKS(bind(fd, (struct sockaddr *)&sun, sizeof(sun)));
	WORKS(listen(fd, 8));
	pid = fork();
	while (!pid && (c = accept(fd, NULL, NULL)) >= 0) {
		if (recv(c, word, sizeof(word), 0) > 0)
			send(c, answer, strlen(answer), MSG_NOSIGNAL);
		close(c);
	}
	close(fd);
	return pid;
}

/* Other versions' reports, cut off ones, and whatever else somebody may answer. */
static void bad_reports(void)
{
	static const struct {
		const char *answer, *says;
	} c[] = {
		{"", NULL},
		{"{\"urxe_status\":2}", NULL},
		{"{\"urxe_status\":2,\"ids\":[{\"kind\":\"x\"},7,null]}\n", NULL},
		{"{\"urxe_status\":2,\"ids\":1,\"pid\":\"y\"}", NULL},
		{"{\"urxe_status\":2,\"ids\":[{\"state\":{},\"qpn\":-1,\"peer\":[]}]}", NULL},
		{"urxe-report 1\n{ -\n}\n", "another version"},
		{"{\"urxe_status\":3}", "another version"},
		{"{\"urxe_status\":\"2\"}", "another version"},
		{"{}", "another version"},
		{"x", "breaks off"},
		{"[]", "breaks off"},
		{"{\"urxe_status\":2", "breaks off"},
		{"{\"urxe_status\":2}}", "breaks off"},
		{"{\"urxe_status\":2}{\"urxe_status\":2}", "breaks off"},
		{"{\"urxe_status\":2,\"x\":\"\xff\"}", "breaks off"},
		{"{\"urxe_status\":2,\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]"
		 "]]]]"
		 "]]]]]]]]]]]]}",
		 "breaks off"},
	};

	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;

	CU_ASSERT_EQUAL_FATAL(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	for (unsigned i = 0; i < 2 * sizeof(c) / sizeof(c[0]); i++) {
		pid_t pid = pretend(c[i / 2].answer);
		int ret = run(i % 2 ? "--json" : "");

		CU_ASSERT_EQUAL(ret, c[i / 2].says ? 1 : 0);
		if (c[i / 2].says)
			CU_ASSERT_EQUAL(count(text, c[i / 2].says), 1);
		/* The others' are shown all the same. */
		CU_ASSERT_EQUAL(count(text, i % 2 ? "\"state\": \"IDLE\"" : " IDLE "), 1);
		kill(pid, SIGKILL);
		WORKS(waitpid(pid, NULL, 0) != pid);
	}
	WORKS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
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
	prctl(PR_SET_NAME, "a\"\\\t\x1b\xff");
}

URXE_TEST_MAIN("cm_status", T(nothing), T(unacked), T(connection), T(bad_clients), T(other_words),
	       T(bad_reports), T(left_behind), T(after_fork), T(open_folder))
