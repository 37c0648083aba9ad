/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive work queues, tables of them, and raw packet QPs that spread frames over them (wq.c).
 */
#ifndef URXE_PROVIDER_WQ_H
#define URXE_PROVIDER_WQ_H

#include "qp.h"

struct ibv_wq *urxe_create_wq(struct ibv_context *ctx, struct ibv_wq_init_attr *attr);
int urxe_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int urxe_destroy_wq(struct ibv_wq *wq);
/** urxe_wq_flush_all - the device is dead, or the context @of was closed: all its work queues go to
 * ERR, without an event each. No lock may be held. */
void urxe_wq_flush_all(struct urxe_device *dev, const struct urxe_context *of);
struct ibv_rwq_ind_table *urxe_create_rwq_ind_table(struct ibv_context *ctx,
						    struct ibv_rwq_ind_table_init_attr *attr);
int urxe_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
struct ibv_qp *urxe_rss_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
void urxe_rss_free(struct urxe_rss *rss);
/** urxe_rss_receive - a frame that a flow rule gave to such a QP; its lock held, RCU read-side. */
void urxe_rss_receive(const struct urxe_rss *rss, const uint8_t *frame, uint32_t len);
/** urxe_rss_hash - Toeplitz with a key of 40 bytes (for the test). */
uint32_t urxe_rss_hash(const uint8_t *key, const uint8_t *in, unsigned len);
void urxe_rss_caps(struct ibv_rss_caps *caps);

#endif
