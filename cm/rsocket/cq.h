/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A CQ that a thread can sleep for, of streams and of datagrams. All with the socket's lock. */
#ifndef URXE_CM_RSOCKET_CQ_H
#define URXE_CM_RSOCKET_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/** URXE_RS_LOOK_MOST - completions that are taken in one look (or a batch more): a peer that sends
 * all the time does not keep who looks. */
#define URXE_RS_LOOK_MOST 1024

struct urxe_rs_cq {
	struct ibv_comp_channel *events; /* does not block */
	struct ibv_cq *cq;		 /* NULL: there is none */
	bool armed;
	unsigned unacked; /* events */
};

/** urxe_rs_cq_most - work requests that a queue of a QP may have, where one CQ is for both. 0 or
 * errno. */
int urxe_rs_cq_most(struct ibv_context *verbs, uint32_t *most);
/** urxe_rs_cq_create - with @entries. 0 or errno: then urxe_rs_cq_free() takes what there is. */
int urxe_rs_cq_create(struct urxe_rs_cq *q, struct ibv_context *verbs, uint32_t entries);
/** urxe_rs_cq_free - no QP uses it. One of zeros is fine. */
void urxe_rs_cq_free(struct urxe_rs_cq *q);
/** urxe_rs_cq_arm - have its channel become readable when something completes. */
void urxe_rs_cq_arm(struct urxe_rs_cq *q);
/** urxe_rs_cq_disarm - take what its channel has; true: something, and another one that sleeps
 * relies on it to be armed (urxe_rs_changed()). */
bool urxe_rs_cq_disarm(struct urxe_rs_cq *q);

#endif
