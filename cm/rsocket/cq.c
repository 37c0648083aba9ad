/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* CQs of sockets, and their events (cq.h). */
#include "cm/rsocket/cq.h"

#include <errno.h>

#include "cm/rsocket/rsocket.h"

#define ACK_AFTER 1024 /* events; to acknowledge takes a lock */

int urxe_rs_cq_most(struct ibv_context *verbs, uint32_t *most)
{
	struct ibv_device_attr attr;
	int err = ibv_query_device(verbs, &attr);

	if (!err)
		*most = (uint32_t)(attr.max_qp_wr < attr.max_cqe / 2 ? attr.max_qp_wr
								     : attr.max_cqe / 2);
	return err;
}

int urxe_rs_cq_create(struct urxe_rs_cq *q, struct ibv_context *verbs, uint32_t entries)
{
	int err;

	q->events = ibv_create_comp_channel(verbs);
	if (!q->events)
		return errno;
	err = urxe_rs_nonblock(q->events->fd);
	if (err)
		return err;
	q->cq = ibv_create_cq(verbs, (int)entries, NULL, q->events, 0);
	return q->cq ? 0 : errno;
}

static void ack(struct urxe_rs_cq *q)
{
	ibv_ack_cq_events(q->cq, q->unacked);
	q->unacked = 0;
}

void urxe_rs_cq_free(struct urxe_rs_cq *q)
{
	if (q->cq) {
		if (q->unacked)
			ack(q);
		ibv_destroy_cq(q->cq);
	}
	if (q->events)
		ibv_destroy_comp_channel(q->events);
}

void urxe_rs_cq_arm(struct urxe_rs_cq *q)
{
	if (q->cq && !q->armed && !ibv_req_notify_cq(q->cq, 0))
		q->armed = true;
}

bool urxe_rs_cq_disarm(struct urxe_rs_cq *q)
{
	struct ibv_cq *cq;
	bool any = false;
	void *arg;

	while (q->events && !ibv_get_cq_event(q->events, &cq, &arg)) {
		q->armed = false;
		q->unacked++;
		any = true;
	}
	if (q->unacked >= ACK_AFTER)
		ack(q);
	return any;
}
