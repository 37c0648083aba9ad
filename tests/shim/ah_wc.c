/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Through the shim, on a port without a wire: a datagram to ourselves over IPv4 and IPv6, an
 * address handle from its completion, an answer with that; L2 addresses of GIDs; who waits for a
 * completion event. Run by `urxe run --port loop` with an address of each family.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "harness.h"

#define QKEY 0x1234

/* Of the library, but in no public header. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx, struct ibv_ah_attr *attr, uint8_t mac[6],
				uint16_t *vid);

static struct {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t buf[8192];
} e;

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	CU_ASSERT_EQUAL(
		ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	a.qp_state = IBV_QPS_RTR;
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void env_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr ia = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD};

	for (unsigned i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "urxe0"))
			e.ctx = ibv_open_device(list[i]);
	CU_ASSERT_FATAL(e.ctx != NULL);
	ibv_free_device_list(list);
	e.pd = ibv_alloc_pd(e.ctx);
	e.cq = ibv_create_cq(e.ctx, 16, NULL, NULL, 0);
	e.mr = ibv_reg_mr(e.pd, e.buf, sizeof(e.buf), IBV_ACCESS_LOCAL_WRITE);
	ia.send_cq = ia.recv_cq = e.cq;
	e.qp = ibv_create_qp(e.pd, &ia);
	CU_ASSERT_FATAL(e.qp && e.mr);
	to_rts(e.qp);
}

static void env_close(void)
{
	CU_ASSERT_EQUAL(ibv_destroy_qp(e.qp), 0);
	CU_ASSERT_EQUAL(ibv_dereg_mr(e.mr), 0);
	CU_ASSERT_EQUAL(ibv_destroy_cq(e.cq), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(e.pd), 0);
	CU_ASSERT_EQUAL(ibv_close_device(e.ctx), 0);
}

/* To ourselves; the completion of the receive, whose GRH area begins the buffer. */
static struct ibv_wc roundtrip(struct ibv_ah *ah)
{
	struct ibv_sge rs = {(uintptr_t)e.buf, 4096, e.mr->lkey},
		       ss = {(uintptr_t)e.buf + 4096, 64, e.mr->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &rs, .num_sge = 1}, *rbad;
	struct ibv_send_wr wr = {.sg_list = &ss, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_wc wc;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = e.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	CU_ASSERT_EQUAL(ibv_post_recv(e.qp, &rwr, &rbad), 0);
	CU_ASSERT_EQUAL(ibv_post_send(e.qp, &wr, &bad), 0);
	for (;;) {
		int n = ibv_poll_cq(e.cq, 1, &wc);

		CU_ASSERT_FATAL(n >= 0);
		if (n)
			return wc;
	}
}

static void answer(unsigned sgid_index)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1}, back;
	struct ibv_ah *ah, *ah2;
	struct ibv_wc wc;

	CU_ASSERT_EQUAL_FATAL(ibv_query_gid(e.ctx, 1, (int)sgid_index, &attr.grh.dgid), 0);
	attr.grh.sgid_index = (uint8_t)sgid_index;
	ah = ibv_create_ah(e.pd, &attr);
	CU_ASSERT_FATAL(ah != NULL);
	wc = roundtrip(ah);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT(wc.wc_flags & IBV_WC_GRH);
	CU_ASSERT_EQUAL(ibv_init_ah_from_wc(e.ctx, 1, &wc, (struct ibv_grh *)e.buf, &back), 0);
	CU_ASSERT(back.is_global);
	CU_ASSERT_EQUAL(back.grh.sgid_index, sgid_index);
	CU_ASSERT_EQUAL(memcmp(&back.grh.dgid, &attr.grh.dgid, 16), 0);
	ah2 = ibv_create_ah_from_wc(e.pd, &wc, (struct ibv_grh *)e.buf, 1);
	CU_ASSERT_FATAL(ah2 != NULL);
	wc = roundtrip(ah2);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(wc.src_qp, e.qp->qp_num);
	ibv_destroy_ah(ah);
	ibv_destroy_ah(ah2);
}

static void test_answer(void)
{
	env_open();
	answer(0);
	answer(1);
	env_close();
}

static void test_without_grh(void)
{
	struct ibv_ah_attr attr = {.port_num = 1, .dlid = 7};

	env_open();
	errno = 0;
	CU_ASSERT(ibv_create_ah(e.pd, &attr) == NULL);
	CU_ASSERT_EQUAL(errno, EINVAL);
	env_close();
}

static void test_resolve(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	uint8_t mac[6] = {0};
	uint16_t vid = 0;

	env_open();
	CU_ASSERT_EQUAL(ibv_query_gid(e.ctx, 1, 0, &attr.grh.dgid), 0);
	CU_ASSERT_EQUAL(ibv_resolve_eth_l2_from_gid(e.ctx, &attr, mac, &vid), 0);
	CU_ASSERT_EQUAL(memcmp(mac, "\x02\x00\x00\x00\x00\x0a", 6), 0);
	CU_ASSERT_EQUAL(vid, 0xffff);
	/* a group */
	inet_pton(AF_INET, "239.1.2.3", attr.grh.dgid.raw + 12);
	CU_ASSERT_EQUAL(ibv_resolve_eth_l2_from_gid(e.ctx, &attr, mac, NULL), 0);
	CU_ASSERT_EQUAL(memcmp(mac, "\x01\x00\x5e\x01\x02\x03", 6), 0);
	/* beyond any network of ours */
	inet_pton(AF_INET, "192.0.2.1", attr.grh.dgid.raw + 12);
	CU_ASSERT_NOT_EQUAL(ibv_resolve_eth_l2_from_gid(e.ctx, &attr, mac, NULL), 0);
	env_close();
}

static atomic_int waiter;

static void *wait_for_event(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	atomic_store(&waiter, gettid());
	errno = 0;
	CU_ASSERT_EQUAL(ibv_get_cq_event(arg, &cq, &context), -1);
	CU_ASSERT_EQUAL(errno, EBADF);
	return NULL;
}

static void until_asleep(int tid)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	while (state != 'S') {
		FILE *f = fopen(path, "r");

		CU_ASSERT_FATAL(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
		fclose(f);
		sched_yield();
	}
}

/* It is the provider that waits: a plain read would find the end of the pipe, and no errno. */
static void test_event(void)
{
	struct ibv_comp_channel *channel;
	pthread_t thread;

	env_open();
	for (unsigned i = 0; i < 20; i++) {
		channel = ibv_create_comp_channel(e.ctx);
		CU_ASSERT_FATAL(channel != NULL);
		atomic_store(&waiter, 0);
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, wait_for_event, channel), 0);
		while (!atomic_load(&waiter))
			sched_yield();
		until_asleep(atomic_load(&waiter));
		CU_ASSERT_EQUAL(ibv_destroy_comp_channel(channel), 0);
		pthread_join(thread, NULL);
	}
	env_close();
}

URXE_TEST_MAIN("ah_wc", T(test_answer), T(test_without_grh), T(test_resolve), T(test_event))
