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

/** What xrc_post() posts, signaled: from @off of the side's buffer, to @remote of the other's. */
struct xrc_work {
	enum ibv_wr_opcode op; /* an atomic adds 1; immediate data is 7 */
	uint32_t srqn;
	uint64_t id;
	uint32_t off, len, remote;
};

/** xrc_post - ibv_post_send() of @w to the initiator of @from. @to: whose memory it names. */
int xrc_post(struct ibv_qp *snd, struct side *from, struct side *to, const struct xrc_work *w);
/** xrc_recv - ibv_post_srq_recv() of a part of the side's buffer. */
int xrc_recv(struct ibv_srq *srq, struct side *s, uint64_t id, uint32_t off, uint32_t len);

#endif
