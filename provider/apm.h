/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Automatic path migration (apm.c). The caller holds qp->lock.
 */
#ifndef URXE_PROVIDER_APM_H
#define URXE_PROVIDER_APM_H

#include <string.h>

#include "decode.h"
#include "qp.h"

/** urxe_apm_accept_any - urxe_apm_accept() of a QP with an alternate path. */
bool urxe_apm_accept_any(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock);
/** urxe_apm_accept - is the packet from the QP's peer? Moves the migration state along. */
static inline bool urxe_apm_accept(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock)
{
	return __builtin_expect(!qp->alt_path, 1) ? !memcmp(qp->dgid, pkt->sgid, sizeof(qp->dgid))
						  : urxe_apm_accept_any(qp, pkt);
}
/** urxe_apm_is_peer - is it from one of the peer's addresses? Says nothing of migration. */
bool urxe_apm_is_peer(const struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock);
/** urxe_apm_migrate - to the alternate path if the QP is armed; false if not. */
bool urxe_apm_migrate(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_apm_check - the attributes of an alternate path and of migration. 0 or EINVAL. */
int urxe_apm_check(const struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask)
	URXE_REQUIRES(qp->lock);
/** urxe_apm_modify - what ibv_modify_qp() asks for: rearm, or migrate. */
void urxe_apm_modify(struct urxe_qp *qp, enum ibv_mig_state to) URXE_REQUIRES(qp->lock);
/** urxe_apm_migreq - the MigReq bit of a packet that is sent. */
static inline bool urxe_apm_migreq(const struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	return qp->mig_state == IBV_MIG_MIGRATED;
}

#endif
