/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connections by librdmacm, one after the other: resolve, create a QP, connect, disconnect,
 * destroy. Prints connections per second and how long connect() to ESTABLISHED takes.
 *
 *	conn -s ADDR		serve until killed or until the peer's last connection
 *	conn -c ADDR [-n N]	connect N times (1000)
 */
#include <errno.h>
#include <getopt.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SERVICE "7471"
#define LAST	1 /* private data of the connection after which the server ends */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void need(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "conn: %s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static struct ibv_qp_init_attr qp_attr(void)
{
	return (struct ibv_qp_init_attr){
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};
}

static struct rdma_addrinfo *resolve(const char *addr, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *res;

	need(!rdma_getaddrinfo(addr, SERVICE, &hints, &res), addr);
	return res;
}

/* Waits until the synchronous id's peer has gone, or an error says so. */
static void gone(struct rdma_cm_id *id)
{
	struct rdma_cm_event *e;

	while (!rdma_get_cm_event(id->channel, &e)) {
		enum rdma_cm_event_type type = e->event;

		rdma_ack_cm_event(e);
		if (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			return;
	}
}

static int serve(const char *addr)
{
	struct rdma_addrinfo *res = resolve(addr, RAI_PASSIVE);
	struct ibv_qp_init_attr attr = qp_attr();
	struct rdma_cm_id *l, *id;
	int last = 0;

	need(!rdma_create_ep(&l, res, NULL, &attr), "rdma_create_ep");
	need(!rdma_listen(l, 128), "rdma_listen");
	printf("listening\n");
	fflush(stdout);
	while (!last) {
		need(!rdma_get_request(l, &id), "rdma_get_request");
		if (id->event->param.conn.private_data_len)
			last = *(const uint8_t *)id->event->param.conn.private_data == LAST;
		need(!rdma_accept(id, NULL), "rdma_accept");
		gone(id);
		rdma_destroy_ep(id);
	}
	rdma_destroy_ep(l);
	rdma_freeaddrinfo(res);
	return 0;
}

static int cmp(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int dial(const char *addr, unsigned count)
{
	struct rdma_addrinfo *res = resolve(addr, 0);
	double *took = calloc(count, sizeof(*took)), t, start = 0;
	uint8_t priv;

	need(took != NULL, "calloc");
	/* The first brings up the link, and is not counted. */
	for (unsigned i = 0; i <= count; i++) {
		struct rdma_conn_param param = {.private_data = &priv, .private_data_len = 1};
		struct ibv_qp_init_attr attr = qp_attr();
		struct rdma_cm_id *id;

		priv = i == count ? LAST : 0;
		need(!rdma_create_ep(&id, res, NULL, &attr), "rdma_create_ep");
		t = now();
		need(!rdma_connect(id, &param), "rdma_connect");
		if (i)
			took[i - 1] = now() - t;
		need(!rdma_disconnect(id), "rdma_disconnect");
		rdma_destroy_ep(id);
		if (!i)
			start = now();
	}
	t = now() - start;
	qsort(took, count, sizeof(*took), cmp);
	printf("%u connections, %.0f a second, connect p50 %.1f us, p99 %.1f us\n", count,
	       count / t * 1e6, took[count / 2], took[count * 99 / 100]);
	free(took);
	rdma_freeaddrinfo(res);
	return 0;
}

int main(int argc, char **argv)
{
	const char *server = NULL, *client = NULL;
	unsigned count = 1000;
	int opt;

	while ((opt = getopt(argc, argv, "s:c:n:")) != -1) {
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
		default:
			return 2;
		}
	}
	if (!server == !client || !count) {
		fprintf(stderr, "usage: conn -s ADDR | -c ADDR [-n COUNT]\n");
		return 2;
	}
	return server ? serve(server) : dial(client, count);
}
