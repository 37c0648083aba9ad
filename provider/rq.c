/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queues, a QP's own or shared.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

int urxe_rq_init(struct urxe_rq *rq, struct urxe_pd *pd, uint64_t type, uint32_t max_wr,
		 uint32_t max_sge)
{
	memset(rq, 0, sizeof(*rq));
	rq->max_sge = max_sge;
	return urxe_ring_init(
		&rq->ring, pd, type, max_wr,
		(uint32_t)(sizeof(struct urxe_rwqe) + max_sge * sizeof(struct ibv_sge)), NULL);
}

void urxe_rq_fini(struct urxe_rq *rq)
{
	urxe_ring_fini(&rq->ring);
}
