/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast groups of UD QPs (mcast.c).
 */
#ifndef URXE_PROVIDER_MCAST_H
#define URXE_PROVIDER_MCAST_H

#include "decode.h"
#include "urxe/json.h"
#include "qp.h"

int urxe_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int urxe_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
/** urxe_mcast_attached - is the QP in any group? No lock held. */
bool urxe_mcast_attached(struct urxe_qp *qp);
/** urxe_mcast_put_groups - an array of the groups and their members, for `urxe status`. Within no
 * RCU read-side section. */
void urxe_mcast_put_groups(struct urxe_json *j, struct urxe_device *dev);
/**
 * urxe_mcast_receive - a packet whose QPN or address is a multicast one: to each member its copy
 * Lane held, RCU read-side. False: it was for nobody.
 */
bool urxe_mcast_receive(struct urxe_device *dev, const struct urxe_decoded *pkt);

#endif
