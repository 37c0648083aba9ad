/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that has started DPDK itself, and then uses verbs: its EAL serves urxe without a word,
 * and urxe's port is not among those that it goes through, nor can it be taken from it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rte_eal.h>
#include <rte_ethdev.h>

#include "harness.h"

static struct ibv_context *ctx;
static FILE *said;

static unsigned ports(void)
{
	unsigned n = 0;
	uint16_t i;

	RTE_ETH_FOREACH_DEV(i)
	n++;
	return n;
}

/* stderr from now on, and what it was. */
static int listen_to_stderr(void)
{
	int old = dup(2);

	said = tmpfile();
	CU_ASSERT_FATAL(said && old >= 0 && dup2(fileno(said), 2) == 2);
	return old;
}

static bool heard(const char *word)
{
	char line[512];
	bool found = false;

	rewind(said);
	while (fgets(line, sizeof(line), said))
		found |= strstr(line, word) != NULL;
	return found;
}

static void theirs_first(void)
{
	char *argv[] = {"own_eal", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
			"-m",	   "128",	"--vdev",   "net_null5",   NULL};

	CU_ASSERT_FATAL(rte_eal_init(9, argv) >= 0);
	CU_ASSERT_EQUAL(ports(), 1);
}

static void then_verbs(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	int old = listen_to_stderr();

	for (struct ibv_device **d = list; *d && !ctx; d++) {
		if (!strcmp(ibv_get_device_name(*d), "urxe0"))
			ctx = ibv_open_device(*d);
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(ctx);
	init.send_cq = init.recv_cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	CU_ASSERT_PTR_NOT_NULL(ibv_create_qp(ibv_alloc_pd(ctx), &init));
	fflush(NULL);
	dup2(old, 2);
	CU_ASSERT(!heard("FATAL"));
	ibv_free_device_list(list);
}

static void port_is_hidden(void)
{
	struct rte_eth_dev_owner owner, mine = {.name = "program"};
	uint16_t port;

	CU_ASSERT_EQUAL(ports(), 1);
	CU_ASSERT_EQUAL_FATAL(rte_eth_dev_get_port_by_name("net_ring3", &port), 0);
	CU_ASSERT_EQUAL(rte_eth_dev_owner_get(port, &owner), 0);
	CU_ASSERT_STRING_EQUAL(owner.name, "urxe urxe0");
	CU_ASSERT_EQUAL(rte_eth_dev_owner_new(&mine.id), 0);
	CU_ASSERT_NOT_EQUAL(rte_eth_dev_owner_set(port, &mine), 0);
}

URXE_TEST_MAIN("own_eal", T(theirs_first), T(then_verbs), T(port_is_hidden))
