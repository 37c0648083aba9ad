/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A process whose devices are on links that are not DPDK's has no DPDK in it, though it makes QPs;
 * and one with a device that is has it from that device's first QP on, with no more drivers than it
 * needs. Run by `urxe run` with three
 * devices: on the port `loop`, on an interface (net_af_packet0,iface=lo), and on net_ring0.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "harness.h"

static bool own_network;

static bool has(const char *library)
{
	FILE *f = fopen("/proc/self/maps", "re");
	bool found = false;
	char line[512];

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, library) != NULL;
	fclose(f);
	return found;
}

static bool has_dpdk(void)
{
	return has("/librte_") || has("/liburxe-dpdk");
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (struct ibv_device **d = list; d && *d && !ctx; d++) {
		if (!strcmp(ibv_get_device_name(*d), name))
			ctx = ibv_open_device(*d);
	}
	ibv_free_device_list(list);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ctx);
	return ctx;
}

static void with_qp(const char *name)
{
	struct ibv_context *ctx = open_named(name);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_qp *qp;

	init.send_cq = init.recv_cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	CU_ASSERT_FATAL(pd && init.send_cq);
	qp = ibv_create_qp(pd, &init);
	CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
	CU_ASSERT_EQUAL(ibv_destroy_qp(qp), 0);
	CU_ASSERT_EQUAL(ibv_destroy_cq(init.send_cq), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(pd), 0);
	CU_ASSERT_EQUAL(ibv_close_device(ctx), 0);
}

static void setup(void)
{
	/* Before the first thread: all are to live in it. */
	own_network = !unshare(CLONE_NEWNET);
	unsetenv("LD_PRELOAD"); /* a sanitizer, which system() has no use for */
	CU_ASSERT(!has_dpdk());
}

static void opened(void)
{
	for (char name[] = "urxe0"; name[4] < '3'; name[4]++)
		CU_ASSERT_EQUAL(ibv_close_device(open_named(name)), 0);
	CU_ASSERT(!has_dpdk());
}

static void loop(void)
{
	with_qp("urxe0");
	CU_ASSERT(!has_dpdk());
}

static void interface(void)
{
	if (!own_network) {
		printf("skipped: no network namespace of our own ");
		return;
	}
	CU_ASSERT_EQUAL_FATAL(system("ip link set lo up"), 0);
	with_qp("urxe1");
	CU_ASSERT(!has_dpdk());
}

static void dpdk(void)
{
	with_qp("urxe2");
	CU_ASSERT(has("/liburxe-dpdk"));
	/* All drivers that are installed, or those alone that are linked in, which is sooner. */
	CU_ASSERT_EQUAL(has("/librte_"), getenv("URXE_TEST_SHARED_DPDK") != NULL);
}

URXE_TEST_MAIN("no_dpdk", T(setup), T(opened), T(loop), T(interface), T(dpdk))
