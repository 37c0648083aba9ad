/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The objects of a run, and the TCP connection beside them on which the sides wait for each other.
 */
#ifndef INTEGRITY_VERBS_H
#define INTEGRITY_VERBS_H

#include <infiniband/verbs.h>

#include "plan.h"

#define QKEY 0x11111111u

struct link_addr {
	union ibv_gid gid;
	uint32_t qpn[MAX_QP], psn[MAX_QP], srqn;
	uint64_t base[2]; /* of the arena, in each MR */
	uint32_t rkey[2];
	uint32_t mtu;
};

struct verbs {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr[2];
	struct ibv_comp_channel *channel;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp[MAX_QP], *rqp[MAX_QP]; /* rqp: what receives; of XRC another one */
	struct ibv_mw *mw[MAX_QP];
	struct ibv_ah *ah;
	uint32_t peer_rkey[MAX_QP]; /* of the peer's windows */
	struct link_addr own, peer;
	uint8_t *arena;
	int fd; /* TCP */
};

/* Prints what could not be done, with errno, the seed and where the run was, and exits. */
void need(bool ok, const char *what);

/* The device's path MTU, in bytes: the layout of a run depends on it. The arena is there, empty. */
unsigned verbs_open(struct verbs *v);
/* Makes all objects, and connects them with the peer's. */
void verbs_connect(struct verbs *v, const struct shape *s);
void verbs_close(struct verbs *v);
/* Sends len bytes to the peer and takes as many from it. */
void verbs_exchange(struct verbs *v, const void *out, void *in, size_t len);
/* TCP: host NULL listens. */
int verbs_tcp(const char *host, const char *port);

#endif
