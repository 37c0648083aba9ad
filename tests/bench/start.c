/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a program waits for before its first message:
 *
 *	start qp	the first ibv_create_qp() of the process, which starts the port: ms
 *	start mr MIB	ibv_reg_mr() of so much memory, which is there: ms
 *
 * Each prints one number.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "measure.h"

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;

	measure_need(list && list[0], "no device");
	ctx = ibv_open_device(list[0]);
	measure_need(ctx, "open");
	ibv_free_device_list(list);
	return ctx;
}

static double first_qp(void)
{
	struct ibv_context *ctx = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
	uint64_t start;

	measure_need(pd && cq, "objects");
	start = measure_now();
	measure_need(ibv_create_qp(pd, &init), "QP");
	return (double)(measure_now() - start) / 1e6;
}

static double large_mr(size_t len)
{
	struct ibv_pd *pd = ibv_alloc_pd(open_device());
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start;

	measure_need(pd && p != MAP_FAILED, "memory");
	memset(p, 1, len);
	start = measure_now();
	measure_need(ibv_reg_mr(pd, p, len, IBV_ACCESS_LOCAL_WRITE), "MR");
	return (double)(measure_now() - start) / 1e6;
}

int main(int argc, char **argv)
{
	double ms;

	if (argc == 2 && !strcmp(argv[1], "qp")) {
		ms = first_qp();
	} else if (argc == 3 && !strcmp(argv[1], "mr") && atoi(argv[2]) > 0) {
		ms = large_mr((size_t)atoi(argv[2]) << 20);
	} else {
		fprintf(stderr, "usage: start qp | mr MIB\n");
		return 2;
	}
	printf("%.3f\n", ms);
	return 0;
}
