/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Calls of rdma_cm in an order that broke others: QPs that go before their ids, ids that go under
 * running work, listeners of which one fails.
 */
#include <string.h>

#include "cm_rdma.h"

static struct rdma_conn_param param = {
	.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};

/* Of a connection: the other side disconnects, or its owner does; each hears of it all the same. */
static void qp_destroyed_before_id(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct rdma_cm_id *gone, *other;
		struct pair p;

		pair_open(&p, "10.0.0.1");
		gone = i & 1 ? p.server : p.client;
		other = i & 1 ? p.client : p.server;
		rdma_destroy_qp(gone);
		CU_ASSERT_PTR_NULL(gone->qp);
		WORKS(rdma_disconnect(i & 2 ? gone : other));
		CU_ASSERT_EQUAL(expect(p.sch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
		CU_ASSERT_EQUAL(expect(p.cch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
		pair_close(&p);
	}
}

/* While the connection is being made: before the REP, and before the answer to a request. */
static void qp_destroyed_before_accept(void)
{
	struct rdma_event_channel *sch = rdma_create_event_channel(),
				  *cch = rdma_create_event_channel();
	struct rdma_cm_id *listen = listener(sch, "10.0.0.1", 8), *server, *client;
	uint16_t port = ntohs(rdma_get_src_port(listen));

	/* The client's: it is told of the answer, as who brings up its QP itself. */
	client = resolved(cch, "10.0.0.1", port);
	with_qp(client);
	WORKS(rdma_connect(client, &param));
	rdma_destroy_qp(client);
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &server), 0);
	with_qp(server);
	WORKS(rdma_accept(server, NULL));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL), 0);
	drop(client);
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_REJECTED, NULL), 28);
	drop(server);

	/* The server's: nothing can be accepted without one; it can be refused. */
	client = resolved(cch, "10.0.0.1", port);
	with_qp(client);
	WORKS(rdma_connect(client, &param));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &server), 0);
	with_qp(server);
	rdma_destroy_qp(server);
	FAILS(rdma_accept(server, NULL), EINVAL);
	WORKS(rdma_reject(server, NULL, 0));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_REJECTED, NULL), 28);
	drop(client);
	drop(server);
	drop(listen);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

/* With receives and sends posted and nobody who has seen a completion. */
static void id_destroyed_under_work(void)
{
	static uint8_t buf[2][4096];

	for (unsigned i = 0; i < 20; i++) {
		struct ibv_mr *mr[2];
		struct pair p;

		pair_open(&p, "10.0.0.1");
		mr[0] = rdma_reg_msgs(p.client, buf[0], sizeof(buf[0]));
		mr[1] = rdma_reg_msgs(p.server, buf[1], sizeof(buf[1]));
		CU_ASSERT_FATAL(mr[0] && mr[1]);
		for (unsigned k = 0; k < 4; k++) {
			WORKS(rdma_post_recv(p.server, NULL, buf[1] + 1024 * k, 1024, mr[1]));
			WORKS(rdma_post_recv(p.client, NULL, buf[0] + 1024 * k, 1024, mr[0]));
			WORKS(rdma_post_send(p.client, NULL, buf[0], 1024, mr[0], 0));
			WORKS(rdma_post_send(p.server, NULL, buf[1], 1024, mr[1], 0));
		}
		drop(i & 1 ? p.server : p.client);
		CU_ASSERT_EQUAL(expect(i & 1 ? p.cch : p.sch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
		WORKS(rdma_dereg_mr(mr[!(i & 1) ? 0 : 1]));
		WORKS(rdma_dereg_mr(mr[!(i & 1) ? 1 : 0]));
		if (i & 1)
			p.server = resolved(p.sch, "10.0.0.1", 9);
		else
			p.client = resolved(p.cch, "10.0.0.1", 9);
		pair_close(&p);
	}
}

static void visit(struct rdma_event_channel *sch, struct rdma_event_channel *cch,
		  struct rdma_cm_id *listen)
{
	struct rdma_cm_id *c = resolved(cch, "10.0.0.1", ntohs(rdma_get_src_port(listen))), *s;

	with_qp(c);
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	CU_ASSERT_EQUAL(rdma_get_src_port(s), rdma_get_src_port(listen));
	WORKS(rdma_reject(s, NULL, 0));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_REJECTED, NULL), 28);
	drop(s);
	drop(c);
}

/* One of many cannot listen: the others go on, and it can when the number is free again. */
static void listen_on_many_then_fail_one(void)
{
	enum {
		N = 32,
		BAD = 16
	};
	struct rdma_event_channel *sch = rdma_create_event_channel(),
				  *cch = rdma_create_event_channel();
	struct rdma_cm_id *l[N], *first;
	int yes = 1;

	WORKS(rdma_create_id(sch, &first, NULL, RDMA_PS_TCP));
	WORKS(rdma_set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
	WORKS(rdma_bind_addr(first, addr("10.0.0.1", 0)));
	for (unsigned i = 0; i < N; i++) {
		uint16_t port = i == BAD ? ntohs(rdma_get_src_port(first)) : 0;

		WORKS(rdma_create_id(sch, &l[i], NULL, RDMA_PS_TCP));
		WORKS(rdma_set_option(l[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
				      sizeof(yes)));
		WORKS(rdma_bind_addr(l[i], addr("10.0.0.1", port)));
	}
	WORKS(rdma_listen(first, 1));
	for (unsigned i = 0; i < N; i++) {
		if (i == BAD)
			FAILS(rdma_listen(l[i], 4), EADDRINUSE);
		else
			WORKS(rdma_listen(l[i], 4));
	}
	for (unsigned i = 0; i < N; i++)
		visit(sch, cch, i == BAD ? first : l[i]);
	drop(first);
	WORKS(rdma_listen(l[BAD], 4));
	visit(sch, cch, l[BAD]);
	for (unsigned i = 0; i < N; i++)
		drop(l[i]);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

/* A listener stays what it is, whatever it is asked to resolve meanwhile. */
static void resolve_addr_while_listening(void)
{
	struct rdma_event_channel *sch = rdma_create_event_channel(),
				  *cch = rdma_create_event_channel();
	struct rdma_cm_id *listen = listener(sch, "10.0.0.1", 8);

	for (unsigned i = 0; i < 3; i++) {
		FAILS(rdma_resolve_addr(listen, NULL, addr("10.0.0.1", 9), 1000), EINVAL);
		FAILS(rdma_resolve_addr(listen, addr("10.0.0.1", 0), addr("10.0.0.9", 9), 1000),
		      EINVAL);
		FAILS(rdma_resolve_route(listen, 1000), EINVAL);
		visit(sch, cch, listen);
	}
	drop(listen);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

/*
 * Before rdma_connect() it is refused, and the connection can still be made. After it, and for a
 * request, it is good and ends the QP's life, as with the kernel: nothing is told to the peer, and
 * the connection that was under way fails.
 */
static void disconnect_before_connect(void)
{
	struct rdma_event_channel *sch = rdma_create_event_channel(),
				  *cch = rdma_create_event_channel();
	struct rdma_cm_id *listen = listener(sch, "10.0.0.1", 8), *client, *server;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	WORKS(rdma_create_id(cch, &client, NULL, RDMA_PS_TCP));
	FAILS(rdma_disconnect(client), EINVAL);
	WORKS(rdma_resolve_addr(client, NULL, addr("10.0.0.1", ntohs(rdma_get_src_port(listen))),
				1000));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	FAILS(rdma_disconnect(client), EINVAL);
	WORKS(rdma_resolve_route(client, 1000));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
	with_qp(client);
	FAILS(rdma_disconnect(client), EINVAL);
	WORKS(rdma_connect(client, &param));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &server), 0);
	WORKS(rdma_disconnect(server));
	with_qp(server);
	WORKS(rdma_accept(server, NULL));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	WORKS(rdma_disconnect(listen));
	drop(client);
	drop(server);
	client = resolved(cch, "10.0.0.1", ntohs(rdma_get_src_port(listen)));
	with_qp(client);
	WORKS(rdma_connect(client, &param));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &server), 0);
	WORKS(rdma_disconnect(client));
	WORKS(ibv_query_qp(client->qp, &attr, IBV_QP_STATE, &init));
	CU_ASSERT_EQUAL(attr.qp_state, IBV_QPS_ERR);
	with_qp(server);
	WORKS(rdma_accept(server, NULL));
	CU_ASSERT_NOT_EQUAL(expect(cch, RDMA_CM_EVENT_CONNECT_ERROR, NULL), 0);
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_REJECTED, NULL), 28);
	drop(client);
	drop(server);
	drop(listen);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

URXE_TEST_MAIN("cm_order", T(qp_destroyed_before_id), T(qp_destroyed_before_accept),
	       T(id_destroyed_under_work), T(listen_on_many_then_fail_one),
	       T(resolve_addr_while_listening), T(disconnect_before_connect))
