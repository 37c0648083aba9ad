/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packet pacing (rate.c). The caller holds qp->lock.
 */
#ifndef URXE_PROVIDER_RATE_H
#define URXE_PROVIDER_RATE_H

#include "qp.h"

#define URXE_PACE_HEADERS 78 /* Ethernet, IPv4, UDP, BTH, RETH, ICRC: about */
#define URXE_RATE_MIN	  8  /* kbit/s */

/** urxe_pace_on - is there a limit? @kbps: as below. Without one the rest need not be asked. */
static inline bool urxe_pace_on(const struct urxe_qp *qp, uint32_t kbps) URXE_REQUIRES(qp->lock)
{
	return qp->kbps | kbps;
}

/**
 * urxe_pace_wait - must the QP wait before it sends? Its timer is set then.
 * @kbps: a limit beside the QP's own, of congestion control (cc.h); 0: none
 */
bool urxe_pace_wait(struct urxe_qp *qp, uint32_t kbps, uint64_t now) URXE_REQUIRES(qp->lock);
/** urxe_pace_packets - how many of @bytes go out within @ns, within the same limit; UINT32_MAX
 * without one. */
uint32_t urxe_pace_packets(const struct urxe_qp *qp, uint32_t kbps, uint32_t bytes, uint64_t ns);
/** urxe_pace_sent - @bytes went out, within the same limit. */
void urxe_pace_sent(struct urxe_qp *qp, uint32_t kbps, uint64_t now, uint32_t bytes)
	URXE_REQUIRES(qp->lock);
/** urxe_pace_set - the limit, 0 for none; @burst bytes at once, 0: as we like. */
void urxe_pace_set(struct urxe_qp *qp, uint32_t kbps, uint32_t burst) URXE_REQUIRES(qp->lock);
int urxe_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

#endif
