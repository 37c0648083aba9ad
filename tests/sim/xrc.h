/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What tests of XRC make. */
#ifndef URXE_TEST_XRC_H
#define URXE_TEST_XRC_H

#include "pair.h"

/** xrc_open_xrcd - ibv_open_xrcd() of the file @fd, or -1. */
struct ibv_xrcd *xrc_open_xrcd(struct ibv_context *ctx, int fd, int oflags);
/** xrc_make_srq - a SRQ of 64 receives. */
struct ibv_srq *xrc_make_srq(struct side *s, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			     struct ibv_cq *cq);
/** xrc_make_send, xrc_make_recv - an initiator, with the side's CQ; a target. */
struct ibv_qp *xrc_make_send(struct side *s);
struct ibv_qp *xrc_make_recv(struct side *s, struct ibv_xrcd *xrcd);
/** xrc_connect - bring both to RTS. */
void xrc_connect(struct side *from, struct ibv_qp *snd, struct side *to, struct ibv_qp *rcv);

#endif
