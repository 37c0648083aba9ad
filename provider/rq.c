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
		(uint32_t)(sizeof(struct urxe_rwqe) + max_sge * sizeof(struct ibv_sge)));
}

void urxe_rq_fini(struct urxe_rq *rq)
{
	urxe_ring_fini(&rq->ring);
}

int urxe_rq_post(struct urxe_rq *rq, const struct ibv_recv_wr *wr)
{
	struct urxe_rwqe *wqe;
	uint64_t length = 0;
	int num_sge = *(volatile const int *)&wr->num_sge; /* read once */

	if (num_sge < 0 || (uint32_t)num_sge > rq->max_sge)
		return EINVAL;
	if (urxe_ring_room(&rq->ring, rq->tail, rq->head))
		return ENOMEM;
	wqe = urxe_rq_at(rq, rq->head);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)num_sge;
	/* Checked on our copy: the application may change its own meanwhile. */
	for (int i = 0; i < num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		length += wqe->sge[i].length;
	}
	if (length > URXE_MAX_MSG_SZ)
		return EINVAL;
	wqe->length = (uint32_t)length;
	rq->head++;
	return 0;
}
