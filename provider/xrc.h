/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * XRC domains, their SRQs by number, target QPs (xrc.c).
 */
#ifndef URXE_PROVIDER_XRC_H
#define URXE_PROVIDER_XRC_H

#include "qp.h"

struct ibv_xrcd *urxe_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr);
int urxe_close_xrcd(struct ibv_xrcd *xrcd);
int urxe_get_srq_num(struct ibv_srq *srq, uint32_t *num);
struct ibv_qp *urxe_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr);
struct ibv_qp *urxe_xrc_create_recv_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
int urxe_xrc_close_qp(struct ibv_qp *qp);
/** urxe_xrc_publish_srq - give a SRQ its number in a domain. 0, ENOMEM, or as urxe_ident_slot().
 */
int urxe_xrc_publish_srq(struct urxe_srq *srq, struct ibv_xrcd *xrcd);
/** urxe_xrc_unpublish_srq - nobody finds it any more, nor is anybody using it. */
void urxe_xrc_unpublish_srq(struct urxe_srq *srq);
/** urxe_xrc_domain_id - 56 bits, the same in each process for the inode of a file; 0: of none. */
uint64_t urxe_xrc_domain_id(const struct urxe_xrcd_domain *domain);
/** urxe_xrc_srq_any - the SRQ of that number, or NULL. Within RCU read-side. */
struct urxe_srq *urxe_xrc_srq_any(struct urxe_device *dev, uint32_t srqn);
/** urxe_xrc_srq - the SRQ of that number in the QP's domain, or NULL. Within RCU read-side. */
struct urxe_srq *urxe_xrc_srq(const struct urxe_qp *qp, uint32_t srqn);

#endif
