/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Port spaces beside RDMA_PS_TCP and RDMA_PS_UDP: RDMA_PS_IB with XRC, RDMA_PS_IPOIB. */
#include "cm_rdma.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>

/* ---- XRC ---- */

static struct rdma_cm_id *endpoint(const char *port, int flags, enum ibv_qp_type type)
{
	struct rdma_addrinfo hints = {
		.ai_flags = flags,
		.ai_family = AF_INET,
		.ai_port_space = RDMA_PS_IB,
		.ai_qp_type = type,
	};
	struct ibv_qp_init_attr attr = qp_attr();
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id;

	WORKS(rdma_getaddrinfo("10.0.0.1", port, &hints, &res));
	CU_ASSERT_EQUAL(res->ai_qp_type, (int)type);
	CU_ASSERT_EQUAL(res->ai_port_space, RDMA_PS_IB);
	WORKS(rdma_create_ep(&id, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	return id;
}

static uint32_t create_srq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	uint32_t num;

	WORKS(rdma_create_srq(id, NULL, &attr));
	FAILS(rdma_create_srq(id, NULL, &attr), EINVAL);
	WORKS(ibv_get_srq_num(id->srq, &num));
	CU_ASSERT_PTR_NOT_NULL(id->recv_cq);
	return num;
}

/* Take a request, give it an SRQ, tell its number, receive one message. */
static void *target(void *listener)
{
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *id;
	char buf[64] = "";
	struct ibv_wc wc;
	struct ibv_mr *mr;
	uint32_t srqn;

	WORKS(rdma_get_request(listener, &id));
	CU_ASSERT_PTR_NOT_NULL_FATAL(id->qp);
	CU_ASSERT_EQUAL(id->qp_type, IBV_QPT_XRC_RECV);
	CU_ASSERT_PTR_NULL(id->send_cq);
	srqn = create_srq(id);
	mr = rdma_reg_msgs(id, buf, sizeof(buf));
	WORKS(rdma_post_recv(id, NULL, buf, sizeof(buf), mr));
	param.private_data = &srqn;
	param.private_data_len = sizeof(srqn);
	WORKS(rdma_accept(id, &param));
	CU_ASSERT_EQUAL(rdma_get_recv_comp(id, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_STRING_EQUAL(buf, "by SRQ number");
	WORKS(rdma_disconnect(id));
	WORKS(rdma_dereg_mr(mr));
	rdma_destroy_ep(id);
	return NULL;
}

static void xrc_send(struct rdma_cm_id *id, uint32_t srqn)
{
	char buf[] = "by SRQ number";
	struct ibv_sge sge = {(uintptr_t)buf, sizeof(buf), 0};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = srqn,
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	WORKS(ibv_post_send(id->qp, &wr, &bad));
	CU_ASSERT_EQUAL(rdma_get_send_comp(id, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
}

static void xrc(void)
{
	struct rdma_cm_id *l = endpoint(NULL, RAI_PASSIVE, IBV_QPT_XRC_RECV), *c;
	struct rdma_conn_param param = {.retry_count = 7};
	pthread_t t;
	uint32_t srqn;
	char port[8];

	WORKS(rdma_listen(l, 0));
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(l)));
	/* Another transport than the listener's is turned away. */
	c = endpoint(port, 0, IBV_QPT_RC);
	FAILS(rdma_connect(c, &param), ECONNREFUSED);
	CU_ASSERT_EQUAL(c->event->status, 9);
	rdma_destroy_ep(c);
	WORKS(pthread_create(&t, NULL, target, l));
	c = endpoint(port, 0, IBV_QPT_XRC_SEND);
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(c->event->event, RDMA_CM_EVENT_ESTABLISHED);
	CU_ASSERT_EQUAL(c->event->param.conn.srq, 1);
	memcpy(&srqn, c->event->param.conn.private_data, sizeof(srqn));
	xrc_send(c, srqn);
	WORKS(pthread_join(t, NULL));
	WORKS(rdma_disconnect(c));
	rdma_destroy_ep(c);
	rdma_destroy_ep(l);
}

/* The application's own domain and CQ, and SRQ and QP destroyed in either order. */
static void xrc_own(void)
{
	for (int srq_first = 0; srq_first < 2; srq_first++) {
		struct ibv_xrcd_init_attr xattr = {
			.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
			.fd = -1,
			.oflags = O_CREAT,
		};
		struct ibv_qp_init_attr_ex qattr = {.qp_type = IBV_QPT_XRC_RECV,
						    .comp_mask = IBV_QP_INIT_ATTR_XRCD};
		struct ibv_srq_init_attr_ex sattr = {
			.attr = {.max_wr = 4, .max_sge = 1},
			.srq_type = IBV_SRQT_XRC,
			.comp_mask = IBV_SRQ_INIT_ATTR_XRCD,
		};
		struct rdma_cm_id *id = endpoint(NULL, RAI_PASSIVE, IBV_QPT_XRC_RECV);
		struct ibv_xrcd *xrcd;

		xrcd = ibv_open_xrcd(id->verbs, &xattr);
		CU_ASSERT_PTR_NOT_NULL_FATAL(xrcd);
		qattr.xrcd = sattr.xrcd = xrcd;
		FAILS(rdma_create_srq_ex(id, &sattr), EINVAL); /* of which type? */
		sattr.comp_mask |= IBV_SRQ_INIT_ATTR_TYPE;
		WORKS(rdma_create_srq_ex(id, &sattr));
		WORKS(rdma_create_qp_ex(id, &qattr));
		FAILS(rdma_create_qp_ex(id, &qattr), EINVAL);
		CU_ASSERT_PTR_NOT_NULL(id->recv_cq);
		if (srq_first)
			rdma_destroy_srq(id);
		rdma_destroy_qp(id);
		if (!srq_first) {
			CU_ASSERT_PTR_NOT_NULL(id->recv_cq);
			rdma_destroy_srq(id);
		}
		CU_ASSERT_PTR_NULL(id->recv_cq);
		WORKS(ibv_close_xrcd(xrcd));
		rdma_destroy_ep(id);
	}
}

/* ---- the spaces ---- */

static void port_numbers(void)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB,
						      RDMA_PS_IPOIB};
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id[4], *again;

	/* Each has its own numbers. */
	for (unsigned i = 0; i < 4; i++) {
		WORKS(rdma_create_id(ch, &id[i], NULL, spaces[i]));
		CU_ASSERT_EQUAL(id[i]->ps, spaces[i]);
		CU_ASSERT_EQUAL(id[i]->qp_type, i & 1 ? IBV_QPT_UD : IBV_QPT_RC);
		WORKS(rdma_bind_addr(id[i], addr("10.0.0.1", 4711)));
		WORKS(rdma_listen(id[i], 1));
		WORKS(rdma_create_id(ch, &again, NULL, spaces[i]));
		FAILS(rdma_bind_addr(again, addr("10.0.0.1", 4711)), EADDRINUSE);
		drop(again);
	}
	for (unsigned i = 0; i < 4; i++)
		drop(id[i]);
	FAILS(rdma_create_id(ch, &again, NULL, (enum rdma_port_space)0x77), EINVAL);
	FAILS(rdma_create_id(ch, NULL, NULL, RDMA_PS_IB), EINVAL);
	rdma_destroy_event_channel(ch);
}

/* A service id look-up, in the space of IPoIB as in that of UDP. */
static void ipoib(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_conn_param param = {.qp_num = 0x77};
	struct rdma_cm_id *l, *c, *s;

	l = listener_in(RDMA_PS_IPOIB, ch, "10.0.0.1", 1);
	c = resolved_in(RDMA_PS_IPOIB, ch, "10.0.0.1", ntohs(rdma_get_src_port(l)));
	WORKS(rdma_connect(c, NULL));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	CU_ASSERT_EQUAL(s->ps, RDMA_PS_IPOIB);
	WORKS(rdma_accept(s, &param));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	drop(c);
	drop(s);
	drop(l);
	rdma_destroy_event_channel(ch);
}

/* Which QP types a port space has. */
static void endpoint_types(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_family = AF_INET}, *res;
	static const struct {
		int ps, type, err;
	} rows[] = {
		{RDMA_PS_TCP, IBV_QPT_RC, 0},	   {RDMA_PS_TCP, IBV_QPT_UC, 0},
		{RDMA_PS_TCP, IBV_QPT_UD, EINVAL}, {RDMA_PS_TCP, IBV_QPT_XRC_RECV, EINVAL},
		{RDMA_PS_UDP, IBV_QPT_UD, 0},	   {RDMA_PS_UDP, IBV_QPT_RC, EINVAL},
		{RDMA_PS_IPOIB, IBV_QPT_UD, 0},	   {RDMA_PS_IPOIB, IBV_QPT_RC, EINVAL},
		{RDMA_PS_IB, IBV_QPT_RC, 0},	   {RDMA_PS_IB, IBV_QPT_UC, 0},
		{RDMA_PS_IB, IBV_QPT_UD, 0},	   {RDMA_PS_IB, IBV_QPT_XRC_SEND, 0},
		{RDMA_PS_IB, IBV_QPT_XRC_RECV, 0}, {RDMA_PS_IB, IBV_QPT_RAW_PACKET, EINVAL},
		{0x77, IBV_QPT_RC, EINVAL},
	};
	struct rdma_cm_id *id;

	WORKS(rdma_getaddrinfo("10.0.0.1", NULL, &hints, &res));
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		res->ai_port_space = rows[i].ps;
		res->ai_qp_type = rows[i].type;
		if (rows[i].err) {
			FAILS(rdma_create_ep(&id, res, NULL, NULL), rows[i].err);
			continue;
		}
		WORKS(rdma_create_ep(&id, res, NULL, NULL));
		CU_ASSERT_EQUAL(id->qp_type, (enum ibv_qp_type)rows[i].type);
		rdma_destroy_ep(id);
	}
	rdma_freeaddrinfo(res);
}

URXE_TEST_MAIN("cm_spaces", T(xrc), T(xrc_own), T(port_numbers), T(ipoib), T(endpoint_types))
