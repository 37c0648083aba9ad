/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The extended posting interface, ibv_wr_*() (wr.c).
 */
#ifndef URXE_PROVIDER_WR_H
#define URXE_PROVIDER_WR_H

#include "qp.h"

/** urxe_wr_enable - set ibv_wr_* up for a new QP. EOPNOTSUPP: not all of @flags are offered. */
int urxe_wr_enable(struct urxe_qp *qp, uint64_t flags);

#endif
