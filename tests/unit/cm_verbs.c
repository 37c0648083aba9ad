/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The inlines of <rdma/rdma_verbs.h> on a connection, ECE, and ids that become synchronous. */
#include "cm_rdma.h"

#include <string.h>

#define SIZE 64

static void done(int n, const struct ibv_wc *wc)
{
	CU_ASSERT_EQUAL(n, 1);
	CU_ASSERT_EQUAL(wc->status, IBV_WC_SUCCESS);
}

static struct ibv_sge half(uint8_t *buf, const struct ibv_mr *mr, unsigned which)
{
	return (struct ibv_sge){(uintptr_t)(buf + which * SIZE / 2), SIZE / 2, mr->lkey};
}

/* Each verb as a buffer and as a list: what the client has goes to the server and comes back. */
static void inlines(void)
{
	uint8_t buf[SIZE], far[SIZE] = {0};
	struct ibv_mr *mr, *far_msgs, *far_read, *far_write;
	struct ibv_sge sgl[1];
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, "10.0.0.1");
	mr = rdma_reg_msgs(p.client, buf, SIZE);
	far_msgs = rdma_reg_msgs(p.server, far, SIZE);
	far_read = rdma_reg_read(p.server, far, SIZE);
	far_write = rdma_reg_write(p.server, far, SIZE);
	CU_ASSERT_FATAL(mr && far_msgs && far_read && far_write);
	memset(buf, 1, SIZE);
	WORKS(rdma_post_write(p.client, NULL, buf, SIZE, mr, 0, (uintptr_t)far, far_write->rkey));
	done(rdma_get_send_comp(p.client, &wc), &wc);
	CU_ASSERT_FALSE(memcmp(buf, far, SIZE));
	memset(buf, 2, SIZE);
	sgl[0] = half(buf, mr, 1);
	WORKS(rdma_post_writev(p.client, NULL, sgl, 1, 0, (uintptr_t)far, far_write->rkey));
	done(rdma_get_send_comp(p.client, &wc), &wc);
	CU_ASSERT_EQUAL(far[SIZE / 2 - 1], 2);
	CU_ASSERT_EQUAL(far[SIZE / 2], 1);
	WORKS(rdma_post_read(p.client, NULL, buf, SIZE, mr, 0, (uintptr_t)far, far_read->rkey));
	done(rdma_get_send_comp(p.client, &wc), &wc);
	CU_ASSERT_FALSE(memcmp(buf, far, SIZE));
	sgl[0] = half(buf, mr, 0);
	WORKS(rdma_post_readv(p.client, NULL, sgl, 1, 0, (uintptr_t)far + SIZE / 2,
			      far_read->rkey));
	done(rdma_get_send_comp(p.client, &wc), &wc);
	CU_ASSERT_EQUAL(buf[0], 1);
	memset(buf, 3, SIZE);
	WORKS(rdma_post_recv(p.server, far, far, SIZE, far_msgs));
	WORKS(rdma_post_send(p.client, buf, buf, SIZE, mr, 0));
	done(rdma_get_send_comp(p.client, &wc), &wc);
	CU_ASSERT_EQUAL(wc.wr_id, (uintptr_t)buf);
	done(rdma_get_recv_comp(p.server, &wc), &wc);
	CU_ASSERT_EQUAL(wc.wr_id, (uintptr_t)far);
	CU_ASSERT_FALSE(memcmp(buf, far, SIZE));
	memset(buf, 4, SIZE);
	sgl[0] = half(far, far_msgs, 1);
	WORKS(rdma_post_recvv(p.server, NULL, sgl, 1));
	sgl[0] = half(buf, mr, 0);
	WORKS(rdma_post_sendv(p.client, NULL, sgl, 1, 0));
	done(rdma_get_send_comp(p.client, &wc), &wc);
	done(rdma_get_recv_comp(p.server, &wc), &wc);
	CU_ASSERT_EQUAL(far[SIZE / 2], 4);
	CU_ASSERT_EQUAL(far[0], 3);
	WORKS(rdma_dereg_mr(mr));
	WORKS(rdma_dereg_mr(far_msgs));
	WORKS(rdma_dereg_mr(far_read));
	WORKS(rdma_dereg_mr(far_write));
	pair_close(&p);
}

/* An SRQ of the id: its QP has it, and receives go there. */
static void srq(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct rdma_cm_id *id = resolved(ch, "10.0.0.1", 9);
	uint8_t buf[SIZE];
	struct ibv_mr *mr;

	WORKS(rdma_create_srq(id, NULL, &attr));
	CU_ASSERT(attr.attr.max_wr >= 4);
	FAILS(rdma_create_srq(id, NULL, &attr), EINVAL);
	with_qp(id);
	CU_ASSERT_PTR_EQUAL(id->qp->srq, id->srq);
	mr = rdma_reg_msgs(id, buf, SIZE);
	WORKS(rdma_post_recv(id, NULL, buf, SIZE, mr));
	WORKS(rdma_dereg_mr(mr));
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	CU_ASSERT_PTR_NULL(id->srq);
	drop(id);
	rdma_destroy_event_channel(ch);
}

/* The vendor and options of each side come to the other; ids with a QP leave that to it. */
static void ece(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l = listener(ch, "10.0.0.1", 4), *s;
	struct rdma_cm_id *c = resolved(ch, "10.0.0.1", ntohs(rdma_get_src_port(l)));
	struct ibv_ece mine = {.vendor_id = 0x15b3, .options = 0x10000001}, got;
	struct rdma_conn_param param = {.qp_num = 0x70};

	FAILS(rdma_set_local_ece(c, NULL), EINVAL);
	FAILS(rdma_get_remote_ece(c, NULL), EINVAL);
	WORKS(rdma_set_local_ece(c, &mine));
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	WORKS(rdma_get_remote_ece(s, &got));
	CU_ASSERT_EQUAL(got.vendor_id, 0x15b3);
	CU_ASSERT_EQUAL(got.options, 0x10000001);
	mine.options = 0x1;
	WORKS(rdma_set_local_ece(s, &mine));
	param.qp_num++;
	WORKS(rdma_accept(s, &param));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL), 0);
	WORKS(rdma_get_remote_ece(c, &got));
	CU_ASSERT_EQUAL(got.vendor_id, 0x15b3);
	CU_ASSERT_EQUAL(got.options, 1);
	WORKS(rdma_reject_ece(c, NULL, 0));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, NULL), 35);
	drop(c);
	c = resolved(ch, "10.0.0.1", 9);
	with_qp(c);
	FAILS(rdma_set_local_ece(c, &mine), EINVAL);
	FAILS(rdma_get_remote_ece(c, &got), EINVAL);
	drop(c);
	drop(s);
	drop(l);
	rdma_destroy_event_channel(ch);
}

/* Without a channel an id waits by itself; with one, its calls return at once again. */
static void migrate(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", 9), 1000));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	WORKS(rdma_migrate_id(id, NULL));
	FAILS(rdma_migrate_id(id, NULL), EINVAL);
	CU_ASSERT_PTR_NOT_EQUAL(id->channel, ch);
	WORKS(rdma_resolve_route(id, 1000));
	CU_ASSERT_EQUAL(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	WORKS(rdma_migrate_id(id, ch));
	CU_ASSERT_PTR_NULL(id->event);
	with_qp(id);
	WORKS(rdma_connect(id, NULL));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_REJECTED, NULL), 8);
	drop(id);
	rdma_destroy_event_channel(ch);
}

URXE_TEST_MAIN("cm_verbs", T(inlines), T(srq), T(ece), T(migrate))
