/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RDMA_PS_UDP: service id resolution (SIDR) by the calls of rdma_cma.h. */
#include "cm_rdma.h"

#include <arpa/inet.h>
#include <string.h>

static struct rdma_cm_id *resolved_to(struct rdma_event_channel *ch, struct rdma_cm_id *l)
{
	return resolved_in(RDMA_PS_UDP, ch, "10.0.0.1", ntohs(rdma_get_src_port(l)));
}

static struct rdma_cm_id *ask(struct rdma_event_channel *ch, struct rdma_cm_id *l)
{
	struct rdma_conn_param param = {.qp_num = 0x77};
	struct rdma_cm_id *id = resolved_to(ch, l);

	WORKS(rdma_connect(id, &param));
	return id;
}

/* A backlog that is full (cm_rdma.c: backlog), by service id resolution, which knows no MRA. */
static void backlog_of_datagrams(void)
{
	struct rdma_event_channel *lch = rdma_create_event_channel();
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_conn_param param = {.qp_num = 0x88};
	struct rdma_cm_id *l, *c[4], *s;

	l = listener_in(RDMA_PS_UDP, lch, "10.0.0.1", 1);
	for (unsigned i = 0; i < 4; i++)
		c[i] = ask(ch, l);
	for (unsigned i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL(expect(lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
		WORKS(rdma_accept(s, &param));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
		drop(s);
	}
	for (unsigned i = 0; i < 4; i++)
		drop(c[i]);
	drop(l);
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(lch);
}

static void datagrams(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l, *c, *s;
	struct rdma_conn_param param = {.qp_num = 0x77};
	struct rdma_cm_event *ev;
	struct ibv_ece mine = {.vendor_id = 0x15b3, .options = 0x10000001}, got;
	uint8_t data[181] = "datagram";

	l = listener_in(RDMA_PS_UDP, ch, "10.0.0.1", 1);
	c = resolved_to(ch, l);
	param.private_data = data;
	param.private_data_len = 181;
	FAILS(rdma_connect(c, &param), EINVAL);
	param.private_data_len = 180;
	WORKS(rdma_connect(c, &param));
	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_EQUAL_FATAL(ev->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	CU_ASSERT_EQUAL(ev->param.ud.private_data_len, 180);
	CU_ASSERT_FALSE(memcmp(ev->param.ud.private_data, data, 180));
	s = ev->id;
	WORKS(rdma_ack_cm_event(ev));
	param.private_data_len = 136;
	WORKS(rdma_set_local_ece(s, &mine));
	WORKS(rdma_accept(s, &param));
	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_EQUAL_FATAL(ev->event, RDMA_CM_EVENT_ESTABLISHED);
	CU_ASSERT_EQUAL(ev->param.ud.qp_num, 0x77);
	CU_ASSERT_EQUAL(ev->param.ud.qkey, RDMA_UDP_QKEY);
	CU_ASSERT_EQUAL(ev->param.ud.ah_attr.is_global, 1);
	CU_ASSERT_FALSE(memcmp(ev->param.ud.private_data, data, 136));
	WORKS(rdma_ack_cm_event(ev));
	WORKS(rdma_get_remote_ece(c, &got));
	CU_ASSERT_EQUAL(got.vendor_id, 0x15b3);
	CU_ASSERT_EQUAL(got.options, 0x10000001);
	/* No event follows: also a synchronous call does not wait for one. */
	WORKS(rdma_migrate_id(c, NULL));
	WORKS(rdma_disconnect(c));
	drop(c);
	drop(s);
	drop(l);
	rdma_destroy_event_channel(ch);
}

/* ask(), as far as its listener. */
static struct rdma_cm_id *ask_datagram(struct rdma_event_channel *ch, struct rdma_cm_id *l,
				       struct rdma_cm_id **s)
{
	struct rdma_cm_id *c = ask(ch, l);

	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, s), 0);
	return c;
}

static void datagrams_refused(void)
{
	static const char data[137];
	struct rdma_conn_param param = {
		.qp_num = 0x78, .private_data = data, .private_data_len = sizeof(data)};
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l, *c, *s;
	struct rdma_cm_event *ev;

	l = listener_in(RDMA_PS_UDP, ch, "10.0.0.1", 1);
	c = ask_datagram(ch, l, &s);
	WORKS(rdma_reject(s, "because", 8));
	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_UNREACHABLE);
	CU_ASSERT_EQUAL(ev->status, 2);
	CU_ASSERT_EQUAL_FATAL(ev->param.ud.private_data_len, 136);
	CU_ASSERT_STRING_EQUAL(ev->param.ud.private_data, "because");
	WORKS(rdma_ack_cm_event(ev));
	drop(c);
	drop(s);
	/* Data that does not fit: the call fails, and the peer hears at once. */
	c = ask_datagram(ch, l, &s);
	FAILS(rdma_accept(s, &param), EINVAL);
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_UNREACHABLE, NULL), 2);
	param.private_data_len = 0;
	FAILS(rdma_accept(s, &param), EINVAL);
	drop(c);
	drop(s);
	/* The length of nothing does not count. */
	c = ask_datagram(ch, l, &s);
	WORKS(rdma_reject(s, NULL, 255));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_UNREACHABLE, NULL), 2);
	drop(c);
	drop(s);
	drop(l);
	rdma_destroy_event_channel(ch);
}

URXE_TEST_MAIN("cm_datagrams", T(backlog_of_datagrams), T(datagrams), T(datagrams_refused))
