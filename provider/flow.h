/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rules that give frames to raw packet QPs (flow.c).
 */
#ifndef URXE_PROVIDER_FLOW_H
#define URXE_PROVIDER_FLOW_H

#include "qp.h"

struct ibv_flow *urxe_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int urxe_destroy_flow(struct ibv_flow *flow);

#endif
