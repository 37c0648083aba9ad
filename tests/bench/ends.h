/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What benchmarks have in common whose two ends are connected by librdmacm. */
#ifndef URXE_BENCH_ENDS_H
#define URXE_BENCH_ENDS_H

#include <rdma/rdma_cma.h>

#include "measure.h"

/** ends_create - rdma_create_ep() of an RC end at @address and this port number: @flags are
 * RAI_PASSIVE for who listens, else 0; @attr may be NULL. Ends the program if it fails. */
static inline struct rdma_cm_id *ends_create(const char *address, const char *port, int flags,
					     struct ibv_qp_init_attr *attr)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *ai;
	struct rdma_cm_id *id;

	measure_need(!rdma_getaddrinfo(address, port, &hints, &ai), "rdma_getaddrinfo");
	measure_need(!rdma_create_ep(&id, ai, NULL, attr), "rdma_create_ep");
	rdma_freeaddrinfo(ai);
	return id;
}

/** ends_poll - up to @most completions, all of which must be good: else the program ends. */
static inline unsigned ends_poll(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(cq, most, wc);

	measure_need(n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++) {
		errno = EIO;
		measure_need(!wc[i].status, ibv_wc_status_str(wc[i].status));
	}
	return (unsigned)n;
}

#endif
