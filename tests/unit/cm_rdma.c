/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The calls of rdma_cma.h on a device without a wire, in one process: run by `urxe run --port
 * loop` with 10.0.0.1/24 and fd00::1/64.
 */
#include "cm_rdma.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int min_rnr_timer(const struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(id->qp, &attr, IBV_QP_MIN_RNR_TIMER, &init) ? -1 : attr.min_rnr_timer;
}

static void connect_and_disconnect(void)
{
	static const char *const hosts[] = {"10.0.0.1", "127.0.0.1",	   "fd00::1",
					    "::1",	"::ffff:10.0.0.1", "::ffff:127.0.0.1"};

	for (unsigned i = 0; i < 6; i++) {
		struct ibv_qp_attr attr;
		struct ibv_qp_init_attr init;
		struct pair p;

		pair_open(&p, hosts[i]);
		WORKS(ibv_query_qp(p.client->qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init));
		CU_ASSERT_EQUAL(attr.qp_state, IBV_QPS_RTS);
		CU_ASSERT_EQUAL(attr.dest_qp_num, p.server->qp->qp_num);
		/* Whom the server asks to try for ever may try soon, after 2.56 ms. */
		CU_ASSERT_EQUAL(min_rnr_timer(p.server), 16);
		CU_ASSERT_EQUAL(min_rnr_timer(p.client), 0);
		CU_ASSERT_EQUAL(rdma_get_dst_port(p.client), rdma_get_src_port(p.listen));
		CU_ASSERT_EQUAL(rdma_get_src_port(p.server), rdma_get_src_port(p.listen));
		CU_ASSERT_EQUAL(rdma_get_dst_port(p.server), rdma_get_src_port(p.client));
		WORKS(rdma_disconnect(p.client));
		CU_ASSERT_EQUAL(expect(p.sch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
		CU_ASSERT_EQUAL(expect(p.cch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
		WORKS(ibv_query_qp(p.client->qp, &attr, IBV_QP_STATE, &init));
		CU_ASSERT_EQUAL(attr.qp_state, IBV_QPS_ERR);
		WORKS(rdma_disconnect(p.server));
		CU_ASSERT_EQUAL(expect(p.cch, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL), 0);
		pair_close(&p);
	}
}

/* Destroying a connected id is a disconnect for the peer. */
static void destroy_connected(void)
{
	struct pair p;

	pair_open(&p, "10.0.0.1");
	drop(p.client);
	CU_ASSERT_EQUAL(expect(p.sch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	p.client = resolved(p.cch, "10.0.0.1", 9);
	pair_close(&p);
}

static void private_data(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l = listener(ch, "10.0.0.1", 8);
	struct rdma_cm_id *c = resolved(ch, "10.0.0.1", ntohs(rdma_get_src_port(l))), *s;
	struct rdma_conn_param param = {.retry_count = 3, .rnr_retry_count = 5};
	struct rdma_cm_event *ev;
	uint8_t data[255];

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i + 1);
	with_qp(c);
	param.private_data = data;
	param.private_data_len = 57;
	param.initiator_depth = 2;
	param.responder_resources = 1;
	FAILS(rdma_connect(c, &param), EINVAL);
	param.private_data_len = 56;
	WORKS(rdma_connect(c, &param));
	FAILS(rdma_connect(c, &param), EINVAL);
	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_EQUAL_FATAL(ev->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	CU_ASSERT_PTR_EQUAL(ev->listen_id, l);
	CU_ASSERT_EQUAL(ev->param.conn.private_data_len, 56);
	CU_ASSERT_FALSE(memcmp(ev->param.conn.private_data, data, 56));
	CU_ASSERT_EQUAL(ev->param.conn.qp_num, c->qp->qp_num);
	CU_ASSERT_EQUAL(ev->param.conn.retry_count, 3);
	CU_ASSERT_EQUAL(ev->param.conn.rnr_retry_count, 5);
	/* Turned round: what the other may start, we must be able to answer. */
	CU_ASSERT_EQUAL(ev->param.conn.responder_resources, 2);
	CU_ASSERT_EQUAL(ev->param.conn.initiator_depth, 1);
	s = ev->id;
	WORKS(rdma_ack_cm_event(ev));
	with_qp(s);
	param.private_data_len = 196;
	WORKS(rdma_accept(s, &param));
	FAILS(rdma_accept(s, &param), EINVAL);
	for (unsigned i = 0; i < 2; i++) {
		WORKS(rdma_get_cm_event(ch, &ev));
		CU_ASSERT_EQUAL_FATAL(ev->event, RDMA_CM_EVENT_ESTABLISHED);
		if (ev->id == c) {
			CU_ASSERT_EQUAL(ev->param.conn.private_data_len, 196);
			CU_ASSERT_FALSE(memcmp(ev->param.conn.private_data, data, 196));
		}
		WORKS(rdma_ack_cm_event(ev));
	}
	/* Who gives up after some tries of his does so as late as with the kernel. */
	CU_ASSERT_EQUAL(min_rnr_timer(c), 0);
	CU_ASSERT_EQUAL(min_rnr_timer(s), 0);
	drop(c);
	drop(s);
	drop(l);
	rdma_destroy_event_channel(ch);
}

static void rejections(void)
{
	struct rdma_event_channel *lch = rdma_create_event_channel();
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l = listener(lch, "10.0.0.1", 8), *c, *s;
	uint16_t port = ntohs(rdma_get_src_port(l));
	struct rdma_conn_param param = {.retry_count = 3};
	struct rdma_cm_event *ev;
	uint8_t data[149] = "no thanks";

	/* By the application, with a reason. */
	c = resolved(ch, "10.0.0.1", port);
	with_qp(c);
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	FAILS(rdma_reject(s, data, 149), EINVAL);
	WORKS(rdma_reject(s, data, 148));
	FAILS(rdma_accept(s, &param), EINVAL);
	drop(s);
	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_REJECTED);
	CU_ASSERT_EQUAL(ev->status, 28);
	CU_ASSERT_EQUAL(ev->param.conn.private_data_len, 148);
	CU_ASSERT_FALSE(memcmp(ev->param.conn.private_data, data, 148));
	WORKS(rdma_ack_cm_event(ev));
	drop(c);
	/* By an id that goes away without a word. */
	c = resolved(ch, "10.0.0.1", port);
	with_qp(c);
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	drop(s);
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, NULL), 28);
	drop(c);
	/* By a listener that goes with the request unseen. */
	c = resolved(ch, "10.0.0.1", port);
	with_qp(c);
	WORKS(rdma_connect(c, &param));
	{
		struct pollfd pfd = {lch->fd, POLLIN, 0};

		CU_ASSERT_EQUAL(poll(&pfd, 1, 5000), 1);
		drop(l);
		CU_ASSERT_EQUAL(poll(&pfd, 1, 0), 0);
	}
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, NULL), 28);
	drop(c);
	/* Nobody listens. */
	c = resolved(ch, "10.0.0.1", port);
	with_qp(c);
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, NULL), 8);
	drop(c);
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(lch);
}

static struct rdma_cm_id *knock(struct rdma_event_channel *ch, const char *host,
				struct rdma_cm_id *l)
{
	struct rdma_conn_param param = {.retry_count = 3};
	struct rdma_cm_id *id = resolved(ch, host, ntohs(rdma_get_src_port(l)));

	with_qp(id);
	WORKS(rdma_connect(id, &param));
	return id;
}

/*
 * Two may wait; who comes later waits outside, however long the application is busy, and all get in
 * once it has time.
 */
static void backlog(void)
{
	enum {
		N = 6
	};
	struct rdma_event_channel *lch = rdma_create_event_channel();
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l = listener(lch, "10.0.0.1", 2), *c[N], *s;
	struct pollfd pfd = {ch->fd, POLLIN, 0};

	for (unsigned i = 0; i < N; i++)
		c[i] = knock(ch, "10.0.0.1", l);
	CU_ASSERT_EQUAL(poll(&pfd, 1, 1500), 0);
	for (unsigned i = 0; i < N; i++) {
		CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
		drop(s);
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, NULL), 28);
	}
	for (unsigned i = 0; i < N; i++)
		drop(c[i]);
	/* One who goes while it waits is not heard of; the listener's end is that of the others. */
	for (unsigned i = 0; i < 5; i++)
		c[i] = knock(ch, "10.0.0.1", l);
	drop(c[2]);
	CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	drop(s);
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, &s), 28);
	CU_ASSERT_PTR_EQUAL(s, c[0]);
	drop(l);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, NULL), 28);
	for (unsigned i = 0; i < 5; i++) {
		if (i != 2)
			drop(c[i]);
	}
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(lch);
}

/* What was sent before has arrived: a REQ that nobody waits for is answered after it. */
static void all_arrived(struct rdma_event_channel *ch)
{
	struct rdma_conn_param param = {.retry_count = 3};
	struct rdma_cm_id *id = resolved(ch, "fd00::1", 9);

	with_qp(id);
	WORKS(rdma_connect(id, &param));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, NULL), 8);
	drop(id);
}

/* Whoever fills the backlog does not shut out others. */
static void backlog_of_others(void)
{
	struct rdma_event_channel *lch = rdma_create_event_channel();
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l = listener(lch, "::", 4), *c[6], *s[5];

	for (unsigned i = 0; i < 6; i++)
		c[i] = knock(ch, i < 5 ? "10.0.0.1" : "fd00::1", l);
	all_arrived(ch);
	for (unsigned i = 0; i < 5; i++) {
		CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s[i]), 0);
		CU_ASSERT_EQUAL(rdma_get_peer_addr(s[i])->sa_family, i < 4 ? AF_INET : AF_INET6);
	}
	for (unsigned i = 0; i < 5; i++)
		drop(s[i]);
	for (unsigned i = 0; i < 6; i++)
		drop(c[i]);
	drop(l);
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(lch);
}

/* Accepted, and no RTU comes, for the applications do not establish. */
static void never_established(void)
{
	enum {
		OWED = 1024
	};
	struct rdma_event_channel *lch = rdma_create_event_channel();
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l = listener(lch, "::", 2), *c[OWED + 2], *s[OWED + 1];
	struct rdma_conn_param param = {0};

	for (unsigned i = 0; i < OWED; i++) {
		c[i] = resolved(ch, "10.0.0.1", ntohs(rdma_get_src_port(l)));
		param.qp_num = nobodys_qpn(c[i]);
		WORKS(rdma_connect(c[i], &param));
		CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s[i]), 0);
		param.qp_num = nobodys_qpn(s[i]);
		WORKS(rdma_accept(s[i], &param));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL), 0);
	}
	/* It waits, and the other address is served. */
	c[OWED] = knock(ch, "10.0.0.1", l);
	c[OWED + 1] = knock(ch, "fd00::1", l);
	CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s[OWED]), 0);
	CU_ASSERT_EQUAL(rdma_get_peer_addr(s[OWED])->sa_family, AF_INET6);
	drop(s[OWED]);
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, NULL), 28);
	/* Who pays may come in. */
	WORKS(rdma_establish(c[0]));
	CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s[OWED]), 0);
	CU_ASSERT_EQUAL(rdma_get_peer_addr(s[OWED])->sa_family, AF_INET);
	for (unsigned i = 0; i < OWED + 2; i++)
		drop(c[i]);
	for (unsigned i = 0; i < OWED + 1; i++)
		drop(s[i]);
	drop(l);
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(lch);
}

static void addresses(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *a, *b, *any;
	struct sockaddr un = {.sa_family = AF_UNIX};
	uint16_t port;

	WORKS(rdma_create_id(ch, &a, NULL, RDMA_PS_TCP));
	WORKS(rdma_create_id(ch, &b, NULL, RDMA_PS_TCP));
	FAILS(rdma_bind_addr(a, &un), EINVAL);
	FAILS(rdma_bind_addr(a, addr("10.9.9.9", 0)), EADDRNOTAVAIL);
	FAILS(rdma_connect(a, NULL), EINVAL);
	FAILS(rdma_disconnect(a), EINVAL);
	FAILS(rdma_accept(a, NULL), EINVAL);
	FAILS(rdma_reject(a, NULL, 0), EINVAL);
	FAILS(rdma_resolve_route(a, 1000), EINVAL);
	CU_ASSERT_PTR_NULL(a->verbs);
	WORKS(rdma_bind_addr(a, addr("10.0.0.1", 0)));
	CU_ASSERT_PTR_NOT_NULL(a->verbs);
	CU_ASSERT_EQUAL(rdma_get_peer_addr(a)->sa_family, AF_INET);
	CU_ASSERT_EQUAL(rdma_get_dst_port(a), 0);
	FAILS(rdma_bind_addr(a, addr("10.0.0.1", 0)), EINVAL);
	port = ntohs(rdma_get_src_port(a));
	FAILS(rdma_bind_addr(b, addr("10.0.0.1", port)), EADDRINUSE);
	FAILS(rdma_bind_addr(b, addr("0.0.0.0", port)), EADDRINUSE);
	/* The failed attempts left nothing behind. */
	WORKS(rdma_bind_addr(b, addr("0.0.0.0", (uint16_t)(port ^ 1))));
	CU_ASSERT_PTR_NULL(b->verbs);
	WORKS(rdma_listen(b, 0));
	FAILS(rdma_listen(b, 0), EINVAL);
	FAILS(rdma_resolve_addr(b, NULL, addr("10.0.0.1", 1), 100), EINVAL);
	FAILS(rdma_resolve_addr(a, NULL, addr("fd00::1", 1), 100), EINVAL);
	WORKS(rdma_destroy_id(a));
	WORKS(rdma_destroy_id(b));
	/* Listening without a bind: a number is chosen. */
	WORKS(rdma_create_id(ch, &any, NULL, RDMA_PS_TCP));
	WORKS(rdma_listen(any, 0));
	CU_ASSERT(rdma_get_src_port(any) != 0);
	WORKS(rdma_destroy_id(any));
	/* No way there. */
	WORKS(rdma_create_id(ch, &a, NULL, RDMA_PS_TCP));
	FAILS(rdma_resolve_addr(a, NULL, addr("10.77.0.1", 1), 100), ENETUNREACH);
	WORKS(rdma_destroy_id(a));
	/* Nobody there. */
	WORKS(rdma_create_id(ch, &a, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addr(a, NULL, addr("10.0.0.9", 1), 50));
	CU_ASSERT(expect(ch, RDMA_CM_EVENT_ADDR_ERROR, NULL) < 0);
	WORKS(rdma_destroy_id(a));
	FAILS(rdma_create_id(ch, &a, NULL, (enum rdma_port_space)77), EINVAL);
	rdma_destroy_event_channel(ch);
}

static void options(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	uint8_t tos = 0x20, ack = 18, bad = 32;
	struct rdma_cm_id *id;
	int on = 1;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 4), EINVAL);
	WORKS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack, 1));
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &bad, 1), EINVAL);
	WORKS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)));
	WORKS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)));
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, 99, &on, sizeof(on)), ENOSYS);
	FAILS(rdma_set_option(id, 7, 0, &on, sizeof(on)), ENOSYS);
	WORKS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", 1), 1000));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	WORKS(rdma_resolve_route(id, 1000));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
	CU_ASSERT_EQUAL(id->route.path_rec->traffic_class, 0x20);
	CU_ASSERT_EQUAL(id->route.path_rec->packet_life_time, 17);
	WORKS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

/* The time-out of a connection's QPs, as each end chose it: 0 is one, and so is what is advertised.
 */
static void ack_timeouts(void)
{
	static const struct {
		int client, server; /* -1: not set */
		uint8_t client_qp, server_qp;
	} rows[] = {
		{-1, -1, 16, 16}, {0, -1, 0, 16},   {19, 0, 19, 0},   {-1, 19, 16, 19},
		{17, -1, 17, 16}, {20, -1, 20, 20}, {20, 21, 20, 21}, {31, 0, 31, 0},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		struct rdma_cm_id *l = listener(ch, "10.0.0.1", 8), *s;
		struct rdma_cm_id *c = resolved(ch, "10.0.0.1", ntohs(rdma_get_src_port(l)));
		struct rdma_conn_param param = {.retry_count = 7};
		uint8_t client = (uint8_t)rows[i].client, server = (uint8_t)rows[i].server;
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		with_qp(c);
		if (rows[i].client >= 0)
			WORKS(rdma_set_option(c, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					      &client, 1));
		WORKS(rdma_connect(c, &param));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
		with_qp(s);
		if (rows[i].server >= 0)
			WORKS(rdma_set_option(s, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					      &server, 1));
		WORKS(rdma_accept(s, NULL));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
		WORKS(ibv_query_qp(c->qp, &attr, IBV_QP_TIMEOUT, &init));
		CU_ASSERT_EQUAL(attr.timeout, rows[i].client_qp);
		WORKS(ibv_query_qp(s->qp, &attr, IBV_QP_TIMEOUT, &init));
		CU_ASSERT_EQUAL(attr.timeout, rows[i].server_qp);
		drop(c);
		drop(s);
		drop(l);
		rdma_destroy_event_channel(ch);
	}
}

static void *sync_server(void *arg)
{
	struct rdma_cm_id *l = arg, *id;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	char buf[64];

	WORKS(rdma_get_request(l, &id));
	CU_ASSERT_PTR_NOT_NULL_FATAL(id->qp);
	mr = rdma_reg_msgs(id, buf, sizeof(buf));
	WORKS(rdma_post_recv(id, NULL, buf, sizeof(buf), mr));
	WORKS(rdma_accept(id, NULL));
	CU_ASSERT_EQUAL(rdma_get_recv_comp(id, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_STRING_EQUAL(buf, "hello");
	WORKS(rdma_disconnect(id));
	WORKS(rdma_disconnect(id));
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static void synchronous(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
	struct ibv_qp_init_attr attr = qp_attr();
	struct rdma_cm_id *l, *c;
	char buf[64] = "hello", port[8];
	struct ibv_wc wc;
	struct ibv_mr *mr;
	pthread_t t;

	WORKS(rdma_getaddrinfo("10.0.0.1", NULL, &hints, &res));
	WORKS(rdma_create_ep(&l, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	WORKS(rdma_listen(l, 0));
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(l)));
	WORKS(pthread_create(&t, NULL, sync_server, l));
	hints.ai_flags = RAI_NUMERICHOST;
	WORKS(rdma_getaddrinfo("10.0.0.1", port, &hints, &res));
	CU_ASSERT_EQUAL(res->ai_qp_type, IBV_QPT_RC);
	WORKS(rdma_create_ep(&c, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	FAILS(rdma_migrate_id(c, NULL), EINVAL);
	mr = rdma_reg_msgs(c, buf, sizeof(buf));
	WORKS(rdma_connect(c, NULL));
	CU_ASSERT_EQUAL(c->event->event, RDMA_CM_EVENT_ESTABLISHED);
	WORKS(rdma_post_send(c, NULL, buf, sizeof(buf), mr, 0));
	CU_ASSERT_EQUAL(rdma_get_send_comp(c, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	WORKS(pthread_join(t, NULL));
	WORKS(rdma_disconnect(c));
	rdma_dereg_mr(mr);
	rdma_destroy_ep(c);
	/* Refused is an errno here. */
	rdma_destroy_ep(l);
	hints.ai_flags = 0;
	attr = qp_attr(); /* it named the CQs of the one before */
	WORKS(rdma_getaddrinfo("10.0.0.1", port, &hints, &res));
	WORKS(rdma_create_ep(&c, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	FAILS(rdma_connect(c, NULL), ECONNREFUSED);
	rdma_destroy_ep(c);
	CU_ASSERT(rdma_getaddrinfo("not a name", NULL, &hints, &res) != 0);
	FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
}

/* Without a QP on the id the application goes through the states by itself. */
static void external_qp(void)
{
	struct rdma_event_channel *sch = rdma_create_event_channel();
	struct rdma_event_channel *cch = rdma_create_event_channel();
	struct rdma_cm_id *l = listener(sch, "10.0.0.1", 8), *s;
	struct rdma_cm_id *c = resolved(cch, "10.0.0.1", ntohs(rdma_get_src_port(l)));
	struct rdma_conn_param param = {.qp_num = 0x1234, .retry_count = 7};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	FAILS(rdma_connect(c, NULL), EINVAL);
	WORKS(rdma_init_qp_attr(c, &attr, &mask));
	CU_ASSERT(mask & IBV_QP_PORT);
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	attr.qp_state = IBV_QPS_RTR;
	WORKS(rdma_init_qp_attr(s, &attr, &mask));
	CU_ASSERT_EQUAL(attr.dest_qp_num, 0x1234);
	param.qp_num = 0x4321;
	WORKS(rdma_accept(s, &param));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL), 0);
	attr.qp_state = IBV_QPS_RTR;
	WORKS(rdma_init_qp_attr(c, &attr, &mask));
	CU_ASSERT_EQUAL(attr.dest_qp_num, 0x4321);
	WORKS(rdma_notify(s, IBV_EVENT_COMM_EST));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	FAILS(rdma_notify(s, IBV_EVENT_COMM_EST), EISCONN);
	WORKS(rdma_notify(s, IBV_EVENT_PATH_MIG));
	WORKS(rdma_establish(c));
	WORKS(rdma_disconnect(s));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	drop(c);
	drop(s);
	drop(l);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

#define STORM 300

/* Many at once: all are established, and all end. */
static void storm(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l = listener(ch, "10.0.0.1", STORM), *c[STORM];
	uint16_t port = ntohs(rdma_get_src_port(l));
	struct rdma_conn_param param = {.retry_count = 7};
	unsigned established = 0, disconnected = 0;
	static struct rdma_cm_id *s[STORM];
	unsigned n = 0;

	for (unsigned i = 0; i < STORM; i++)
		c[i] = resolved(ch, "10.0.0.1", port);
	for (unsigned i = 0; i < STORM; i++) {
		/* Each connection needs its own number. */
		param.qp_num = nobodys_qpn(c[i]);
		WORKS(rdma_connect(c[i], &param));
	}
	while (established < STORM) {
		struct rdma_cm_event *ev;

		WORKS(rdma_get_cm_event(ch, &ev));
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			s[n++] = ev->id;
			param.qp_num = nobodys_qpn(ev->id);
			WORKS(rdma_accept(ev->id, &param));
		} else if (ev->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
			WORKS(rdma_establish(ev->id));
		} else {
			CU_ASSERT_EQUAL_FATAL(ev->event, RDMA_CM_EVENT_ESTABLISHED);
			established++;
		}
		rdma_ack_cm_event(ev);
	}
	CU_ASSERT_EQUAL(n, STORM);
	for (unsigned i = 0; i < STORM; i++)
		WORKS(rdma_disconnect(c[i]));
	while (disconnected < 2 * STORM) {
		struct rdma_cm_event *ev;

		WORKS(rdma_get_cm_event(ch, &ev));
		if (ev->event == RDMA_CM_EVENT_DISCONNECTED)
			disconnected++;
		else
			CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		rdma_ack_cm_event(ev);
	}
	for (unsigned i = 0; i < STORM; i++) {
		WORKS(rdma_destroy_id(c[i]));
		WORKS(rdma_destroy_id(s[i]));
	}
	drop(l);
	rdma_destroy_event_channel(ch);
}

static void devices(void)
{
	struct ibv_context **list;
	int n;

	list = rdma_get_devices(&n);
	CU_ASSERT_PTR_NOT_NULL(list);
	if (!list)
		return;
	CU_ASSERT_EQUAL(n, 1);
	CU_ASSERT_STRING_EQUAL(ibv_get_device_name(list[0]->device), "urxe0");
	CU_ASSERT_PTR_NULL(list[1]);
	rdma_free_devices(list);
}

static bool refused(struct pair *p)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	return rdma_create_id(p->sch, &id, NULL, RDMA_PS_TCP) == -1 && errno == EIO &&
	       rdma_get_cm_event(p->sch, &ev) == -1 && errno == EIO &&
	       rdma_disconnect(p->client) == -1 && errno == EIO && !rdma_destroy_id(p->client);
}

/*
 * What is its parent's a child cannot use. It can let go of it, and twice, as libraries and their
 * users do.
 */
static bool child_lets_go(struct pair *p, struct rdma_cm_id *sync)
{
	int fd = sync->channel->fd;
	bool ok = refused(p) && fcntl(fd, F_GETFD) >= 0;

	/* The second time the number may be another file's. */
	ok = ok && !rdma_destroy_id(sync) && fcntl(fd, F_GETFD) < 0 && dup2(2, fd) == fd &&
	     !rdma_destroy_id(sync) && fcntl(fd, F_GETFD) >= 0;
	close(fd);
	rdma_destroy_event_channel(p->sch);
	return ok;
}

/* A child has a CM of its own, too. */
static bool child_connects(struct pair *p, struct rdma_cm_id *sync)
{
	struct pair own;
	bool ok = child_lets_go(p, sync);

	pair_open(&own, "10.0.0.1");
	ok = ok && !rdma_disconnect(own.server) &&
	     !expect(own.cch, RDMA_CM_EVENT_DISCONNECTED, NULL) &&
	     !expect(own.sch, RDMA_CM_EVENT_DISCONNECTED, NULL);
	pair_close(&own);
	return ok;
}

/* The CM is up: what a child does leaves its parent's connection alone. */
static void beside_child(bool (*child)(struct pair *p, struct rdma_cm_id *sync))
{
	struct rdma_cm_id *sync;
	struct pair p;
	int status;
	pid_t pid;

	pair_open(&p, "10.0.0.1");
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
	pid = fork();
	CU_ASSERT_FATAL(pid >= 0);
	if (!pid)
		_exit(child(&p, sync) && !CU_get_number_of_failures() ? 0 : 1);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	WORKS(rdma_disconnect(p.server));
	CU_ASSERT_EQUAL(expect(p.cch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	CU_ASSERT_EQUAL(expect(p.sch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	pair_close(&p);
	CU_ASSERT_EQUAL(rdma_destroy_id(sync), 0);
}

static void forked_child(void)
{
	beside_child(child_lets_go);
}

static void childs_own(void)
{
#ifdef __SANITIZE_THREAD__
	return urxe_harness_skip("TSan takes a child's threads for its parent's: same stacks");
#endif
	beside_child(child_connects);
}

URXE_TEST_MAIN("cm_rdma", T(devices), T(connect_and_disconnect), T(destroy_connected),
	       T(private_data), T(rejections), T(backlog), T(backlog_of_others),
	       T(never_established), T(addresses), T(options), T(ack_timeouts), T(synchronous),
	       T(external_qp), T(storm), T(forked_child), T(childs_own))
