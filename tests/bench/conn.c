/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connections by librdmacm: one after the other, or many at once. Prints connections (resolve,
 * create a QP, connect, disconnect, destroy) per second, how long rdma_connect() to ESTABLISHED
 * takes, and the memory that one takes on either side. Fails unless each was established, or
 * rejected, and both sides have counted the same.
 *
 *	conn -s ADDR [-b BACKLOG]	serve until the peer's last connection
 *	conn -c ADDR [-n N]		connect N times (1000), one after the other
 *	conn -c ADDR -p P [-n N]	P at once, N in all; one event channel, nothing blocks
 *	     -q				completion queues of its own for each, not one for all
 */
#include <errno.h>
#include <getopt.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SERVICE	   7471
#define RESOLVE_MS 2000
#define LAST	   1 /* private data of the connection after which the server ends */

/* What the server tells in its last REP. */
struct report {
	uint32_t closed, open, failed; /* so far; now; given up */
	uint32_t peak;		       /* open at once, at most */
	uint64_t bytes;		       /* that it grew by for those */
};

struct conn {
	struct rdma_cm_id *id;
	double start;
	bool up;
};

static bool own_cqs;
static struct ibv_cq *cq;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void need(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "conn: %s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static uint64_t resident(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	need(f && fscanf(f, "%*u %lu", &pages) == 1, "/proc/self/statm");
	fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};

	if (!own_cqs && !cq) {
		cq = ibv_create_cq(id->verbs, 1024, NULL, NULL, 0);
		need(cq, "ibv_create_cq");
	}
	attr.send_cq = attr.recv_cq = own_cqs ? NULL : cq;
	return rdma_create_qp(id, NULL, &attr);
}

static void drop(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static enum rdma_cm_event_type next_event(struct rdma_event_channel *ch, struct rdma_cm_id **id,
					  uint8_t *data)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *e;

	need(!rdma_get_cm_event(ch, &e), "rdma_get_cm_event");
	type = e->event;
	*id = e->id;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST && e->param.conn.private_data_len)
		*data = *(const uint8_t *)e->param.conn.private_data;
	rdma_ack_cm_event(e);
	return type;
}

/* ---- the server ---- */

static struct rdma_cm_id *server_accept(struct rdma_cm_id *id, struct report *r, bool last)
{
	struct rdma_conn_param param = {.private_data = r, .private_data_len = sizeof(*r)};

	need(!create_qp(id), "rdma_create_qp");
	/* The peer may have given up meanwhile. */
	if (rdma_accept(id, last ? &param : NULL)) {
		drop(id);
		return NULL;
	}
	id->context = r;
	r->open++;
	return id;
}

static int serve(struct sockaddr *addr, int backlog)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener, *id, *last = NULL;
	uint64_t base = 0;
	struct report r = {0};
	uint8_t data = 0;

	need(ch, "rdma_create_event_channel");
	need(!rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	need(!rdma_bind_addr(listener, addr), "rdma_bind_addr");
	need(!rdma_listen(listener, backlog), "rdma_listen");
	printf("listening\n");
	fflush(stdout);
	for (bool end = false; !end;) {
		switch (next_event(ch, &id, &data)) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			if (!base)
				base = resident();
			id = server_accept(id, &r, data == LAST);
			if (data == LAST)
				last = id;
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			r.closed++;
			if (r.open > r.peak) {
				r.peak = r.open;
				r.bytes = resident() - base;
			}
			end = id == last;
			r.open--;
			drop(id);
			break;
		/* A peer that is quick to disconnect may have its RTU overtaken. */
		case RDMA_CM_EVENT_ESTABLISHED:
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			r.failed++;
			/* fall through */
		/*
		 * A REQ said again while its REJ was on the way is a new one here, and given up by
		 * the peer.
		 */
		case RDMA_CM_EVENT_REJECTED:
			r.open--;
			drop(id);
			break;
		}
	}
	drop(listener);
	rdma_destroy_event_channel(ch);
	return 0;
}

/* ---- the client ---- */

static int cmp(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static struct rdma_cm_id *resolved(struct sockaddr *addr)
{
	struct rdma_cm_id *id;

	need(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	need(!rdma_resolve_addr(id, NULL, addr, RESOLVE_MS), "rdma_resolve_addr");
	need(!rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
	need(!create_qp(id), "rdma_create_qp");
	return id;
}

/* Blocking calls; returns how long rdma_connect() took. */
static double one(struct sockaddr *addr, uint8_t data, struct report *r)
{
	struct rdma_conn_param param = {.private_data = &data, .private_data_len = 1};
	struct rdma_cm_id *id = resolved(addr);
	double t = now();

	need(!rdma_connect(id, &param), "rdma_connect");
	t = now() - t;
	if (r)
		memcpy(r, id->event->param.conn.private_data, sizeof(*r));
	need(!rdma_disconnect(id), "rdma_disconnect");
	drop(id);
	return t;
}

struct crowd {
	struct conn *conns;
	unsigned n, up, rejected, failed, down;
	double *took; /* of all rounds */
	unsigned n_took;
};

static void step(struct crowd *c, struct rdma_event_channel *ch)
{
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *id;
	uint8_t data;
	enum rdma_cm_event_type type = next_event(ch, &id, &data);
	struct conn *conn = id->context;

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		need(!rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		need(!create_qp(id), "rdma_create_qp");
		conn->start = now();
		need(!rdma_connect(id, &param), "rdma_connect");
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		c->took[c->n_took++] = now() - conn->start;
		conn->up = true;
		c->up++;
		break;
	case RDMA_CM_EVENT_REJECTED:
		c->rejected++;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		c->down++;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		printf("%s\n", rdma_event_str(type));
		c->failed++;
		break;
	}
}

/* One round: all at once, until each is up or has failed; then all down. */
static void round_of(struct crowd *c, struct rdma_event_channel *ch, struct sockaddr *addr,
		     uint64_t *peak)
{
	unsigned up = c->up, over = c->up + c->rejected + c->failed + c->n, down = c->down;

	memset(c->conns, 0, c->n * sizeof(*c->conns));
	for (unsigned i = 0; i < c->n; i++) {
		struct conn *conn = &c->conns[i];

		need(!rdma_create_id(ch, &conn->id, conn, RDMA_PS_TCP), "rdma_create_id");
		need(!rdma_resolve_addr(conn->id, NULL, addr, RESOLVE_MS), "rdma_resolve_addr");
	}
	while (c->up + c->rejected + c->failed < over)
		step(c, ch);
	if (resident() > *peak)
		*peak = resident();
	for (unsigned i = 0; i < c->n; i++) {
		if (c->conns[i].up)
			need(!rdma_disconnect(c->conns[i].id), "rdma_disconnect");
	}
	while (c->down - down < c->up - up)
		step(c, ch);
	for (unsigned i = 0; i < c->n; i++)
		drop(c->conns[i].id);
}

static void print_took(double *took, unsigned n)
{
	qsort(took, n, sizeof(*took), cmp);
	printf(" a second, connect p50 %.1f us, p99 %.1f us\n", n ? took[n / 2] : 0,
	       n ? took[(uint64_t)n * 99 / 100] : 0);
}

static int dial(struct sockaddr *addr, unsigned count, unsigned parallel)
{
	struct crowd c = {.n = parallel ? parallel : 1};
	struct rdma_event_channel *ch = rdma_create_event_channel();
	unsigned rounds = parallel ? (count + parallel - 1) / parallel : 0;
	struct report r;
	uint64_t base, peak = 0;
	double start;
	bool good;

	c.took = calloc(parallel ? (size_t)rounds * parallel : count, sizeof(*c.took));
	c.conns = calloc(c.n, sizeof(*c.conns));
	need(ch && c.took && c.conns, "calloc");
	one(addr, 0, NULL); /* brings up the link, and is not counted */
	base = resident();
	start = now();
	if (parallel) {
		for (unsigned i = 0; i < rounds; i++)
			round_of(&c, ch, addr, &peak);
		printf("%u connections, %u at once, %.0f", rounds * parallel, parallel,
		       (double)rounds * parallel / (now() - start) * 1e6);
	} else {
		while (c.up < count)
			c.took[c.up++] = one(addr, 0, NULL);
		c.n_took = c.down = c.up;
		printf("%u connections, %.0f", count, count / (now() - start) * 1e6);
	}
	print_took(c.took, c.n_took);
	one(addr, LAST, &r);
	if (parallel && c.up)
		printf("memory per connection: client %.1f KiB, server %.1f KiB\n",
		       (double)(peak - base) / parallel / 1024,
		       r.peak ? (double)r.bytes / r.peak / 1024 : 0);
	/* The first and the last are the server's, too; the last is not up yet when it tells. */
	good = !c.failed && c.down == c.up && r.closed == c.up + 1 && !r.open;
	printf("established %u, rejected %u, failed %u; "
	       "server: accepted %u, open %u, failed %u\n",
	       c.up, c.rejected, c.failed, r.closed - 1, r.open, r.failed);
	rdma_destroy_event_channel(ch);
	free(c.conns);
	free(c.took);
	return !good;
}

int main(int argc, char **argv)
{
	const char *server = NULL, *client = NULL;
	struct rdma_addrinfo *res, hints = {.ai_port_space = RDMA_PS_TCP};
	unsigned count = 1000, parallel = 0;
	char service[8];
	int opt, backlog = 1024;

	while ((opt = getopt(argc, argv, "s:c:n:p:b:q")) != -1) {
		switch (opt) {
		case 's':
			server = optarg;
			break;
		case 'c':
			client = optarg;
			break;
		case 'n':
			count = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'p':
			parallel = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'b':
			backlog = (int)strtol(optarg, NULL, 0);
			break;
		case 'q':
			own_cqs = true;
			break;
		default:
			return 2;
		}
	}
	if (!server == !client || !count) {
		fprintf(stderr, "usage: conn -s ADDR [-b BACKLOG] | -c ADDR [-n COUNT] [-p "
				"AT_ONCE] [-q]\n");
		return 2;
	}
	hints.ai_flags = server ? RAI_PASSIVE : 0;
	snprintf(service, sizeof(service), "%d", SERVICE);
	need(!rdma_getaddrinfo(server ? server : client, service, &hints, &res),
	     "rdma_getaddrinfo");
	opt = server ? serve(res->ai_src_addr, backlog) : dial(res->ai_dst_addr, count, parallel);
	rdma_freeaddrinfo(res);
	return opt;
}
