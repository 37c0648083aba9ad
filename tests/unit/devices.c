/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Several devices in one process, many contexts on each, and what no device of ours offers. Run
 * with two devices without a wire: 10.0.0.1 (urxe0) and 10.1.0.1 (urxe1).
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cm_rdma.h"

#define ROUNDS	 200
#define CONTEXTS 50

static const char *const hosts[] = {"10.0.0.1", "10.1.0.1"};

/* A connection on each, by one listener; their traffic goes on at the same time, each its own way.
 */
static void traffic_on_both(void)
{
	struct rdma_event_channel *sch = rdma_create_event_channel(),
				  *cch = rdma_create_event_channel();
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct rdma_cm_id *listen = listener(sch, "0.0.0.0", 8), *c[2], *s[2];
	static uint8_t from[2][64], to[2][64];
	struct ibv_mr *mf[2], *mt[2];

	for (unsigned i = 0; i < 2; i++) {
		c[i] = resolved(cch, hosts[i], ntohs(rdma_get_src_port(listen)));
		with_qp(c[i]);
		WORKS(rdma_connect(c[i], &param));
		CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &s[i]), 0);
		with_qp(s[i]);
		WORKS(rdma_accept(s[i], NULL));
		CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
		CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
		CU_ASSERT_PTR_EQUAL(s[i]->verbs->device, c[i]->verbs->device);
		mf[i] = rdma_reg_msgs(c[i], from[i], 64);
		mt[i] = rdma_reg_write(s[i], to[i], 64);
		CU_ASSERT_FATAL(mf[i] && mt[i]);
	}
	CU_ASSERT_STRING_EQUAL(ibv_get_device_name(c[0]->verbs->device), "urxe0");
	CU_ASSERT_STRING_EQUAL(ibv_get_device_name(c[1]->verbs->device), "urxe1");
	CU_ASSERT_NOT_EQUAL(ibv_get_device_guid(c[0]->verbs->device),
			    ibv_get_device_guid(c[1]->verbs->device));
	for (unsigned n = 1; n <= ROUNDS; n++) {
		struct ibv_wc wc;

		for (unsigned i = 0; i < 2; i++) {
			memset(from[i], (int)(n + 100 * i), 64);
			WORKS(rdma_post_write(c[i], NULL, from[i], 64, mf[i], IBV_SEND_SIGNALED,
					      (uintptr_t)to[i], mt[i]->rkey));
		}
		for (unsigned i = 0; i < 2; i++) {
			CU_ASSERT_EQUAL_FATAL(rdma_get_send_comp(c[i], &wc), 1);
			CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
			CU_ASSERT(!memcmp(from[i], to[i], 64));
		}
	}
	/* A key of one is nothing to the other. */
	WORKS(rdma_post_write(c[0], NULL, from[0], 64, mf[0], IBV_SEND_SIGNALED, (uintptr_t)to[1],
			      mt[1]->rkey ^ (mt[1]->rkey == mt[0]->rkey)));
	struct ibv_wc wc;
	CU_ASSERT_EQUAL(rdma_get_send_comp(c[0], &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_REM_ACCESS_ERR);
	for (unsigned i = 0; i < 2; i++) {
		rdma_dereg_mr(mf[i]);
		rdma_dereg_mr(mt[i]);
		drop(c[i]);
		drop(s[i]);
	}
	drop(listen);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (unsigned i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ctx);
	return ctx;
}

/* Each context has what it made, and nothing of the others'. */
static void many_contexts(void)
{
	struct ibv_context *ctx[CONTEXTS];
	struct ibv_pd *pd[CONTEXTS];
	struct ibv_cq *cq[CONTEXTS];
	struct ibv_qp *qp[CONTEXTS];

	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct ibv_qp_init_attr a = qp_attr();

		ctx[i] = open_named(i & 1 ? "urxe1" : "urxe0");
		pd[i] = ibv_alloc_pd(ctx[i]);
		cq[i] = ibv_create_cq(ctx[i], 4, NULL, NULL, 0);
		CU_ASSERT_FATAL(pd[i] && cq[i]);
		a.send_cq = a.recv_cq = cq[i];
		qp[i] = ibv_create_qp(pd[i], &a);
		CU_ASSERT_PTR_NOT_NULL_FATAL(qp[i]);
		for (unsigned k = 0; k < i; k++) {
			CU_ASSERT(ctx[k] != ctx[i] && ctx[k]->async_fd != ctx[i]->async_fd);
			/* QPNs are the device's, not the context's. */
			CU_ASSERT((i ^ k) & 1 || qp[k]->qp_num != qp[i]->qp_num);
		}
	}
	for (unsigned i = 0; i < CONTEXTS; i++) {
		CU_ASSERT_EQUAL(ibv_dealloc_pd(pd[i]), EBUSY);
		WORKS(ibv_destroy_qp(qp[i]));
		WORKS(ibv_destroy_cq(cq[i]));
		WORKS(ibv_dealloc_pd(pd[i]));
		WORKS(ibv_close_device(ctx[i]));
	}
}

#define REFUSED(call)                               \
	do {                                        \
		errno = 0;                          \
		CU_ASSERT_PTR_NULL(call);           \
		CU_ASSERT_EQUAL(errno, EOPNOTSUPP); \
	} while (0)

/* Objects of other processes, enhanced connections, counters, flow actions. */
static void not_offered(void)
{
	struct ibv_context *ctx = open_named("urxe0");
	struct ibv_ece ece = {.vendor_id = 0x15b3, .options = 1};
	struct ibv_counters_init_attr counters = {0};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_qp_init_attr a = qp_attr();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, &ece, sizeof(ece), 0);
	struct ibv_qp *qp;
	int fd;

	a.send_cq = a.recv_cq = cq;
	qp = ibv_create_qp(pd, &a);
	CU_ASSERT_FATAL(cq && mr && qp);
	CU_ASSERT_EQUAL(ibv_set_ece(qp, &ece), EOPNOTSUPP);
	CU_ASSERT_EQUAL(ibv_query_ece(qp, &ece), 0);
	CU_ASSERT(!ece.vendor_id && !ece.options);
	REFUSED(ibv_import_pd(ctx, pd->handle));
	REFUSED(ibv_import_mr(pd, mr->handle));
	REFUSED(ibv_import_dm(ctx, 1));
	fd = dup(ctx->cmd_fd);
	REFUSED(ibv_import_device(fd));
	close(fd);
	/* To let go of what was never taken changes nothing. */
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	REFUSED(ibv_create_counters(ctx, &counters));
	REFUSED(ibv_create_flow_action_esp(ctx, &esp));
	/* Bytes come in the order of packets, but within one as memcpy() has it. */
	for (unsigned op = IBV_WR_RDMA_WRITE; op <= IBV_WR_ATOMIC_FETCH_AND_ADD; op++)
		CU_ASSERT_EQUAL(ibv_query_qp_data_in_order(qp, (enum ibv_wr_opcode)op, 0), 0);
	WORKS(ibv_destroy_qp(qp));
	WORKS(ibv_dereg_mr(mr));
	WORKS(ibv_destroy_cq(cq));
	WORKS(ibv_dealloc_pd(pd));
	WORKS(ibv_close_device(ctx));
}

URXE_TEST_MAIN("devices", T(traffic_on_both), T(many_contexts), T(not_offered))
