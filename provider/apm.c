/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Automatic path migration (IBTA 17.2.8), and with it the question whose packets a connected QP
 * takes: those of its peer's address on the path in use.
 *
 *	MIGRATED --software: a path is loaded, rearm--> REARM --a packet without MigReq--> ARMED
 *	ARMED --software, retries used up, or a packet with MigReq on the other path--> MIGRATED
 *
 * What we send says MigReq in the state MIGRATED.
 */
#include <errno.h>
#include <string.h>

#include "provider.h"
#include "apm.h"
#include "retry.h"

static bool is_from(const struct urxe_decoded *pkt, const uint8_t gid[16])
{
	return !memcmp(gid, pkt->sgid, 16);
}

bool urxe_apm_is_peer(const struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	return is_from(pkt, qp->dgid) || (qp->alt_path && is_from(pkt, qp->alt_dgid));
}

#define SWAP(a, b)                       \
	do {                             \
		__typeof__(a) swap_ = a; \
		a = b;                   \
		b = swap_;               \
	} while (0)

/* The path that is left becomes the other one: late packets come from there. */
static void switch_paths(struct urxe_qp *qp)
{
	struct ibv_qp_attr *a = &qp->attr;
	uint8_t gid[16];

	SWAP(qp->path, qp->alt_path);
	memcpy(gid, qp->dgid, sizeof(gid));
	memcpy(qp->dgid, qp->alt_dgid, sizeof(gid));
	memcpy(qp->alt_dgid, gid, sizeof(gid));
	qp->peer = urxe_peer_of(qp->dev, qp->dgid);
	SWAP(a->ah_attr, a->alt_ah_attr);
	SWAP(a->port_num, a->alt_port_num);
	SWAP(a->pkey_index, a->alt_pkey_index);
	SWAP(a->timeout, a->alt_timeout);
}

bool urxe_apm_migrate(struct urxe_qp *qp)
{
	if (qp->mig_state != IBV_MIG_ARMED)
		return false;
	switch_paths(qp);
	qp->mig_state = IBV_MIG_MIGRATED;
	qp->req.retries = qp->attr.retry_cnt;
	urxe_event_qp(qp, IBV_EVENT_PATH_MIG);
	return true;
}

static bool accept_armed(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock)
{
	bool known = is_from(pkt, qp->dgid);

	if (!pkt->migreq)
		return known;
	if (is_from(pkt, qp->alt_dgid) && pkt->sgid_index == qp->attr.alt_ah_attr.grh.sgid_index)
		return urxe_apm_migrate(qp);
	/* The peer has gone where we cannot follow (IBTA 17.2.8.1.3). Say so once. */
	if (known && !qp->mig_refused) {
		qp->mig_refused = true;
		urxe_event_qp(qp, IBV_EVENT_PATH_MIG_ERR);
	}
	return known;
}

bool urxe_apm_accept_any(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	switch (qp->mig_state) {
	case IBV_MIG_ARMED:
		return accept_armed(qp, pkt);
	case IBV_MIG_REARM:
		if (!is_from(pkt, qp->dgid))
			return false;
		if (!pkt->migreq)
			qp->mig_state = IBV_MIG_ARMED;
		return true;
	default:
		/* The peer may not have followed yet. */
		return urxe_apm_is_peer(qp, pkt);
	}
}

int urxe_apm_check(const struct urxe_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_ALT_PATH &&
	    (a->alt_port_num != 1 || a->alt_pkey_index || a->alt_timeout > 31))
		return EINVAL;
	if (!(mask & IBV_QP_PATH_MIG_STATE))
		return 0;
	switch (a->path_mig_state) {
	case IBV_MIG_MIGRATED:
		return 0;
	case IBV_MIG_REARM:
		return mask & IBV_QP_ALT_PATH || qp->alt_path ? 0 : EINVAL;
	default:
		return EINVAL; /* ARMED is for the two QPs to find */
	}
}

void urxe_apm_modify(struct urxe_qp *qp, enum ibv_mig_state to)
{
	if (to == IBV_MIG_MIGRATED && urxe_apm_migrate(qp))
		return;
	qp->mig_state = to;
	qp->mig_refused = false;
}
