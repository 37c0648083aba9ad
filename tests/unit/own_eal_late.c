/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that uses verbs, and then starts a DPDK of its own: shared, or linked into it with its
 * symbols seen by all libraries (-rdynamic, as pkg-config has it), and then in the other order, too
 * (THEIRS_FIRST). Each has its own EAL, and both work. Two devices of ours are the two ends of a
 * wire.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "harness.h"

#define QKEY 0x11111
#define GRH  40

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buf[GRH + 64];
};

static struct end ends[2];
static char dir[] = "/tmp/urxe-ut-XXXXXX";

/* The wire's socket and its locks: the ports stay until the end. */
static void remove_dir(void)
{
	static const char *const names[] = {"/s", "/s.lock", "/s.client.lock", ""};
	char path[64];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", dir, names[i]);
		remove(path);
	}
}

static void configure(void)
{
	char text[512];

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	atexit(remove_dir);
	snprintf(text, sizeof(text),
		 "[urxe0]\nport = net_vhost0,iface=%s/s\nip = 10.0.0.1/24\n"
		 "[urxe1]\nport = net_virtio_user0,path=%s/s\nip = 10.0.0.2/24\n",
		 dir, dir);
	CU_ASSERT_EQUAL(setenv("URXE_CONFIG_TEXT", text, 1), 0);
}

static void open_end(struct end *e, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_device **d = list; d && *d && !e->ctx; d++) {
		if (!strcmp(ibv_get_device_name(*d), name))
			e->ctx = ibv_open_device(*d);
	}
	ibv_free_device_list(list);
	CU_ASSERT_PTR_NOT_NULL_FATAL(e->ctx);
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq(e->ctx, 4, NULL, NULL, 0);
	e->mr = ibv_reg_mr(e->pd, e->buf, sizeof(e->buf), IBV_ACCESS_LOCAL_WRITE);
	CU_ASSERT_FATAL(e->pd && e->cq && e->mr);
}

static struct ibv_qp *make_qp(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};

	return ibv_create_qp(e->pd, &init);
}

static void ready(struct ibv_qp *qp)
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

static void completion(struct end *e, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(e->cq, 1, &wc)))
		;
	CU_ASSERT_EQUAL_FATAL(n, 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(wc.opcode, opcode);
}

/* A datagram from the one to the other. */
static void message(struct end *from, struct end *to, const char *text)
{
	struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1};
	struct ibv_sge rsge = {(uintptr_t)to->buf, sizeof(to->buf), to->mr->lkey};
	struct ibv_sge ssge = {(uintptr_t)from->buf, 64, from->mr->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &rsge, .num_sge = 1}, *rbad;
	struct ibv_send_wr swr = {.sg_list = &ssge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED},
			   *sbad;

	CU_ASSERT_EQUAL(ibv_query_gid(to->ctx, 1, 0, &attr.grh.dgid), 0);
	swr.wr.ud.ah = ibv_create_ah(from->pd, &attr);
	CU_ASSERT_FATAL(swr.wr.ud.ah && to->qp);
	if (!to->qp)
		return;
	swr.wr.ud.remote_qpn = to->qp->qp_num;
	swr.wr.ud.remote_qkey = QKEY;
	snprintf(from->buf, 64, "%s", text);
	CU_ASSERT_EQUAL(ibv_post_recv(to->qp, &rwr, &rbad), 0);
	CU_ASSERT_EQUAL(ibv_post_send(from->qp, &swr, &sbad), 0);
	completion(from, IBV_WC_SEND);
	completion(to, IBV_WC_RECV);
	CU_ASSERT_STRING_EQUAL(to->buf + GRH, text);
	ibv_destroy_ah(swr.wr.ud.ah);
}

static void ours(void)
{
	configure();
	for (unsigned i = 0; i < 2; i++) {
		open_end(&ends[i], i ? "urxe1" : "urxe0");
		ends[i].qp = make_qp(&ends[i]);
		CU_ASSERT_PTR_NOT_NULL_FATAL(ends[i].qp);
		ready(ends[i].qp);
	}
	message(&ends[0], &ends[1], "before");
	message(&ends[1], &ends[0], "and back");
}

static void use_theirs(void)
{
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("theirs", 255, 0, 0, 2048, SOCKET_ID_ANY);
	struct rte_eth_conf conf = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_NONE}};
	struct rte_mbuf *m[4];
	unsigned n;
	uint16_t port;

	CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
	CU_ASSERT_EQUAL_FATAL(rte_eth_dev_get_port_by_name("net_null5", &port), 0);
	CU_ASSERT_EQUAL(rte_eth_dev_get_port_by_name("net_vhost0", &port), -ENODEV);
	CU_ASSERT_EQUAL(rte_eth_dev_count_total(), 1);
	CU_ASSERT_EQUAL(rte_eth_dev_configure(port, 1, 1, &conf), 0);
	CU_ASSERT_EQUAL(rte_eth_rx_queue_setup(port, 0, 64, 0, NULL, pool), 0);
	CU_ASSERT_EQUAL(rte_eth_tx_queue_setup(port, 0, 64, 0, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(rte_eth_dev_start(port), 0);
	n = rte_eth_rx_burst(port, 0, m, 4);
	CU_ASSERT_EQUAL(n, 4);
	CU_ASSERT_EQUAL(rte_eth_tx_burst(port, 0, m, (uint16_t)n), n);
}

static void theirs(void)
{
	char *argv[] = {"own_eal", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
			"-m",	   "64",	"--vdev",   "net_null5",   NULL};

	CU_ASSERT_FATAL(rte_eal_init(9, argv) >= 0);
	use_theirs();
}

static void both_work(void)
{
	message(&ends[0], &ends[1], "after");
	message(&ends[1], &ends[0], "as well");
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(ibv_destroy_qp(ends[i].qp), 0);
		CU_ASSERT_EQUAL(ibv_dereg_mr(ends[i].mr), 0);
		CU_ASSERT_EQUAL(ibv_destroy_cq(ends[i].cq), 0);
		CU_ASSERT_EQUAL(ibv_dealloc_pd(ends[i].pd), 0);
		CU_ASSERT_EQUAL(ibv_close_device(ends[i].ctx), 0);
	}
	CU_ASSERT_EQUAL(rte_eal_cleanup(), 0);
}

#ifdef THEIRS_FIRST
URXE_TEST_MAIN("own_eal_static_first", T(theirs), T(ours), T(both_work))
#else
URXE_TEST_MAIN("own_eal_late", T(ours), T(theirs), T(both_work))
#endif
