/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_post_send(), ibv_post_recv(), ibv_bind_mw() (post.c).
 */
#ifndef URXE_PROVIDER_POST_H
#define URXE_PROVIDER_POST_H

#include "qp.h"

int urxe_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int urxe_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int urxe_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
