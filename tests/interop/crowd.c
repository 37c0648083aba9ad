/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Many connections at once to a server with a small backlog, which does not look at them for a
 * while. Linked with Debian's librdmacm alone, as peer.c is: the same binary on the kernel and on
 * urxe.
 *
 *	crowd s ADDR BACKLOG BUSY_MS N	server: from the first request on it does nothing for so
 *					long, then it accepts all; exit when N are established
 *	crowd c ADDR N R		client: N connections at once; exit when each is established
 *or rejected; or when R were rejected, unless R is 0 The client prints "established N, rejected: N
 *with REASON". Exit status 0 when all is as it says.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT	   "7178"
#define WAIT_MS	   60000 /* that nothing at all happens */
#define RESOLVE_MS 10000
#define SERVER_QPN 0x800000
#define N_REASONS  64
#define BATCH	   256 /* ids that resolve at a time */

static void die(const char *what)
{
	printf("FAIL %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct rdma_cm_event *next(struct rdma_event_channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	errno = ETIME;
	if (poll(&p, 1, WAIT_MS) != 1 || rdma_get_cm_event(ch, &ev))
		die("no event");
	return ev;
}

/* No connection has a QP: numbers that no other one has. */
static struct rdma_conn_param param_of(uint32_t qpn)
{
	return (struct rdma_conn_param){.qp_num = qpn, .retry_count = 7, .rnr_retry_count = 7};
}

static struct sockaddr *address(const char *host)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *res;

	if (getaddrinfo(host, PORT, &hints, &res))
		die(host);
	return res->ai_addr;
}

static int server(struct rdma_event_channel *ch, char **arg)
{
	unsigned established = 0, taken = 0, n = (unsigned)atoi(arg[3]);
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_id *l;

	if (rdma_create_id(ch, &l, NULL, RDMA_PS_TCP) || rdma_bind_addr(l, address(arg[0])) ||
	    rdma_listen(l, atoi(arg[1])))
		die("listen");
	poll(&p, 1, -1);
	poll(NULL, 0, atoi(arg[2]));
	while (established < n) {
		struct rdma_cm_event *ev = next(ch);
		struct rdma_conn_param param = param_of(SERVER_QPN + taken);

		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			taken++;
			if (rdma_accept(ev->id, &param))
				die("rdma_accept");
		} else if (ev->event == RDMA_CM_EVENT_ESTABLISHED) {
			established++;
		} else if (ev->event != RDMA_CM_EVENT_DISCONNECTED) {
			printf("%s, status %d\n", rdma_event_str(ev->event), ev->status);
		}
		rdma_ack_cm_event(ev);
	}
	printf("took %u, established %u\n", taken, established);
	return 0;
}

struct crowd {
	struct rdma_event_channel *ch;
	struct sockaddr *to;
	unsigned n, begun, established, rejected, with[N_REASONS];
};

static void begin(struct crowd *c)
{
	struct rdma_cm_id *id;

	if (c->begun == c->n)
		return;
	if (rdma_create_id(c->ch, &id, (void *)(uintptr_t)++c->begun, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, c->to, RESOLVE_MS))
		die("rdma_resolve_addr");
}

static void go_on(struct crowd *c, const struct rdma_cm_event *ev)
{
	struct rdma_conn_param param = param_of((uint32_t)(uintptr_t)ev->id->context);

	switch ((int)ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(ev->id, RESOLVE_MS))
			die("rdma_resolve_route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (rdma_connect(ev->id, &param))
			die("rdma_connect");
		begin(c);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (rdma_establish(ev->id))
			die("rdma_establish");
		c->established++;
		break;
	case RDMA_CM_EVENT_REJECTED:
		c->rejected++;
		c->with[ev->status % N_REASONS]++;
		break;
	default:
		printf("FAIL %s, status %d\n", rdma_event_str(ev->event), ev->status);
		exit(1);
	}
}

static int client(struct rdma_event_channel *ch, char **arg)
{
	struct crowd c = {.ch = ch, .to = address(arg[0]), .n = (unsigned)atoi(arg[1])};
	unsigned enough = (unsigned)atoi(arg[2]);

	for (unsigned i = 0; i < BATCH; i++)
		begin(&c);
	while (c.established + c.rejected < c.n && (!enough || c.rejected < enough)) {
		struct rdma_cm_event *ev = next(ch);

		go_on(&c, ev);
		rdma_ack_cm_event(ev);
	}
	printf("established %u, rejected:", c.established);
	for (unsigned i = 0; i < N_REASONS; i++)
		if (c.with[i])
			printf(" %u with %u", c.with[i], i);
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!ch)
		die("no event channel");
	if (argc == 6 && !strcmp(argv[1], "s"))
		return server(ch, argv + 2);
	if (argc == 5 && !strcmp(argv[1], "c"))
		return client(ch, argv + 2);
	fprintf(stderr, "usage: crowd s ADDR BACKLOG BUSY_MS N | crowd c ADDR N R\n");
	return 2;
}
