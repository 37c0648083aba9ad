/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the tests of rdma_cma.h share: addresses, events, ids, pairs. */
#include "cm_rdma.h"

#include <arpa/inet.h>
#include <string.h>

static union {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
} addr_buf;

struct sockaddr *addr(const char *host, uint16_t port)
{
	memset(&addr_buf, 0, sizeof(addr_buf));
	if (inet_pton(AF_INET, host, &addr_buf.in.sin_addr) == 1) {
		addr_buf.in.sin_family = AF_INET;
		addr_buf.in.sin_port = htons(port);
	} else {
		CU_ASSERT_EQUAL_FATAL(inet_pton(AF_INET6, host, &addr_buf.in6.sin6_addr), 1);
		addr_buf.in6.sin6_family = AF_INET6;
		addr_buf.in6.sin6_port = htons(port);
	}
	return &addr_buf.sa;
}

int expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type, struct rdma_cm_id **id)
{
	struct rdma_cm_event *ev;
	int status;

	WORKS(rdma_get_cm_event(ch, &ev));
	if (ev->event != type)
		printf("\ngot %s status %d, not %s\n", rdma_event_str(ev->event), ev->status,
		       rdma_event_str(type));
	CU_ASSERT_EQUAL(ev->event, type);
	status = ev->status;
	if (id)
		*id = ev->id;
	WORKS(rdma_ack_cm_event(ev));
	return status;
}

struct ibv_qp_init_attr qp_attr(void)
{
	return (struct ibv_qp_init_attr){
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
		.qp_type = IBV_QPT_RC,
	};
}

struct rdma_cm_id *listener_in(enum rdma_port_space space, struct rdma_event_channel *ch,
			       const char *host, int backlog)
{
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(ch, &id, NULL, space));
	WORKS(rdma_bind_addr(id, addr(host, 0)));
	CU_ASSERT(rdma_get_src_port(id) != 0);
	WORKS(rdma_listen(id, backlog));
	return id;
}

struct rdma_cm_id *listener(struct rdma_event_channel *ch, const char *host, int backlog)
{
	return listener_in(RDMA_PS_TCP, ch, host, backlog);
}

struct rdma_cm_id *resolved_in(enum rdma_port_space space, struct rdma_event_channel *ch,
			       const char *host, uint16_t port)
{
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(ch, &id, NULL, space));
	WORKS(rdma_resolve_addr(id, NULL, addr(host, port), 1000));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	CU_ASSERT_PTR_NOT_NULL(id->verbs);
	CU_ASSERT_PTR_NOT_NULL(id->pd);
	WORKS(rdma_resolve_route(id, 1000));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
	CU_ASSERT_EQUAL(id->route.num_paths, 1);
	return id;
}

struct rdma_cm_id *resolved(struct rdma_event_channel *ch, const char *host, uint16_t port)
{
	return resolved_in(RDMA_PS_TCP, ch, host, port);
}

void with_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = qp_attr();

	WORKS(rdma_create_qp(id, NULL, &attr));
	CU_ASSERT_PTR_NOT_NULL_FATAL(id->qp);
	CU_ASSERT_PTR_NOT_NULL(id->send_cq);
	CU_ASSERT_PTR_NOT_NULL(id->recv_cq_channel);
}

uint32_t nobodys_qpn(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 1, NULL, NULL, 0);
	struct ibv_qp *qp;
	uint32_t qpn;

	CU_ASSERT_PTR_NOT_NULL_FATAL(cq);
	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp(id->pd, &attr);
	CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
	qpn = qp ? qp->qp_num : 0;
	WORKS(ibv_destroy_qp(qp));
	WORKS(ibv_destroy_cq(cq));
	return qpn;
}

void drop(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	WORKS(rdma_destroy_id(id));
}

void pair_open(struct pair *p, const char *host)
{
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};

	p->sch = rdma_create_event_channel();
	p->cch = rdma_create_event_channel();
	CU_ASSERT_PTR_NOT_NULL_FATAL(p->sch);
	CU_ASSERT_PTR_NOT_NULL_FATAL(p->cch);
	p->listen = listener(p->sch, host, 8);
	p->client = resolved(p->cch, host, ntohs(rdma_get_src_port(p->listen)));
	with_qp(p->client);
	WORKS(rdma_connect(p->client, &param));
	CU_ASSERT_EQUAL(expect(p->sch, RDMA_CM_EVENT_CONNECT_REQUEST, &p->server), 0);
	with_qp(p->server);
	WORKS(rdma_accept(p->server, NULL));
	CU_ASSERT_EQUAL(expect(p->cch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	CU_ASSERT_EQUAL(expect(p->sch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
}

void pair_close(struct pair *p)
{
	drop(p->client);
	drop(p->server);
	drop(p->listen);
	rdma_destroy_event_channel(p->sch);
	rdma_destroy_event_channel(p->cch);
}
