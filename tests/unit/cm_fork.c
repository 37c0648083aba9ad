/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that opens its device and forks before it means to talk, as libfabric and pyverbs
 * do, and again when it has talked: parent and children each have a working CM. Run by `urxe run`,
 * with an own address as argument; without a configuration (argument "none") there is no device,
 * and each call says so.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "fork_leaks.h"

#define TRY(x)                                                                          \
	do {                                                                            \
		if (!(x)) {                                                             \
			printf("pid %d line %d: %s: %s\n", (int)getpid(), __LINE__, #x, \
			       strerror(errno));                                        \
			return 1;                                                       \
		}                                                                       \
	} while (0)

static const char *own_addr;

static int expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type,
		  struct rdma_cm_id **id)
{
	struct rdma_cm_event *ev;
	int ok;

	TRY(!rdma_get_cm_event(ch, &ev));
	ok = ev->event == type && !ev->status;
	if (!ok)
		printf("%s status %d\n", rdma_event_str(ev->event), ev->status);
	if (id)
		*id = ev->id;
	rdma_ack_cm_event(ev);
	return !ok;
}

/* On a server's channel, which may be a parent's that had not begun: then it is the child's, too.
 */
static int talk_on(struct rdma_event_channel *sch)
{
	struct rdma_event_channel *cch = rdma_create_event_channel();
	struct sockaddr_in sin = {.sin_family = AF_INET};
	static unsigned qpn = 0x100; /* in timewait for a while */
	struct rdma_conn_param param = {.qp_num = qpn++, .retry_count = 7};
	struct rdma_cm_id *l, *c, *s;

	TRY(cch);
	sin.sin_addr.s_addr = inet_addr(own_addr);
	TRY(!rdma_create_id(sch, &l, NULL, RDMA_PS_TCP));
	TRY(!rdma_bind_addr(l, (struct sockaddr *)&sin));
	TRY(!rdma_listen(l, 1));
	sin.sin_port = rdma_get_src_port(l);
	TRY(!rdma_create_id(cch, &c, NULL, RDMA_PS_TCP));
	TRY(!rdma_resolve_addr(c, NULL, (struct sockaddr *)&sin, 1000));
	TRY(!expect(cch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL));
	TRY(!rdma_resolve_route(c, 1000));
	TRY(!expect(cch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL));
	TRY(!rdma_connect(c, &param));
	TRY(!expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &s));
	param.qp_num = qpn++;
	TRY(!rdma_accept(s, &param));
	TRY(!expect(cch, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL));
	TRY(!rdma_establish(c));
	TRY(!expect(sch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	TRY(!rdma_disconnect(s));
	TRY(!expect(sch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	TRY(!expect(cch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	TRY(!rdma_destroy_id(c));
	TRY(!rdma_destroy_id(s));
	TRY(!rdma_destroy_id(l));
	rdma_destroy_event_channel(cch);
	return 0;
}

static int talk(void)
{
	struct rdma_event_channel *sch = rdma_create_event_channel();
	int failed;

	TRY(sch);
	failed = talk_on(sch);
	rdma_destroy_event_channel(sch);
	return failed;
}

/* Two children and their parent, all at once. */
static int family(struct rdma_event_channel *sch)
{
	int failed = 0, status;
	pid_t pid[2];

	for (unsigned i = 0; i < 2; i++) {
		pid[i] = fork();
		TRY(pid[i] >= 0);
		if (!pid[i])
			exit(sch ? talk_on(sch) : talk());
	}
	failed |= sch ? talk_on(sch) : talk();
	for (unsigned i = 0; i < 2; i++) {
		TRY(waitpid(pid[i], &status, 0) == pid[i]);
		failed |= status;
	}
	return failed;
}

/* An address is bound, which starts nothing, and the process forks. */
static int bind_and_fork(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;
	int status;
	pid_t pid;

	TRY(ch);
	sin.sin_addr.s_addr = inet_addr(own_addr);
	TRY(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	TRY(!rdma_bind_addr(id, (struct sockaddr *)&sin));
	pid = fork();
	TRY(pid >= 0);
	if (!pid)
		exit(talk() || rdma_destroy_id(id));
	TRY(waitpid(pid, &status, 0) == pid && !status);
	/* The port is the parent's still. */
	TRY(!rdma_listen(id, 1));
	TRY(!rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
	return talk();
}

static int bound(void)
{
	int status;
	pid_t pid = fork();

	TRY(pid >= 0);
	if (!pid)
		exit(bind_and_fork());
	TRY(waitpid(pid, &status, 0) == pid);
	return status;
}

/* Of later headers. */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);
#define USER_EVENT ((enum rdma_cm_event_type)18)

static bool readable(const struct rdma_event_channel *ch)
{
	struct pollfd pfd = {.fd = ch->fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

/* An event that waits at the fork waits in both: who takes it does not take it from the other. */
static int waiting_event(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;
	int fds[2], status;
	pid_t pid;
	char c;

	TRY(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	TRY(!rdma_write_cm_event(id, USER_EVENT, 0, 0));
	TRY(!pipe(fds));
	pid = fork();
	TRY(pid >= 0);
	close(fds[!pid]);
	if (!pid)
		TRY(!read(fds[0], &c, 1)); /* the parent has taken its own */
	TRY(readable(ch));
	TRY(!expect(ch, USER_EVENT, NULL));
	TRY(!readable(ch));
	TRY(!rdma_destroy_id(id));
	close(fds[!!pid]);
	if (!pid)
		exit(0);
	TRY(waitpid(pid, &status, 0) == pid);
	return status;
}

static int no_device(void)
{
	struct rdma_addrinfo hints = {0}, *res;
	struct rdma_cm_id *id;
	int n = 1;

	TRY(!rdma_create_event_channel() && errno == ENODEV);
	TRY(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == -1 && errno == ENODEV);
	TRY(!rdma_get_devices(&n) && errno == ENODEV && n == 0);
	TRY(rdma_getaddrinfo("10.0.0.1", "1", &hints, &res) == -1 && errno == ENODEV);
	return 0;
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *sch;
	struct ibv_context **list;
	int failed;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (argc > 1 && !strcmp(argv[1], "none"))
		return no_device();
	own_addr = argv[1];
	list = rdma_get_devices(NULL);
	TRY(list && list[0]);
	rdma_free_devices(list);
	failed = bound();
	sch = rdma_create_event_channel();
	TRY(sch);
	failed |= waiting_event(sch) || family(sch);
#ifdef __SANITIZE_THREAD__
	/* It ends a child whose thread gets the stack of one of its parent's, as the fabric's do.
	 */
	if (!strcmp(own_addr, "127.0.0.1")) {
		printf("skipped: children of a CM that is up\n");
		return failed ? 1 : 0;
	}
#endif
	/* The CM is up now. */
	failed |= family(NULL);
	return failed ? 1 : 0;
}
