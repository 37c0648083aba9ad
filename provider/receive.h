/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A burst of packets goes to its QPs (receive.c).
 */
#ifndef URXE_PROVIDER_RECEIVE_H
#define URXE_PROVIDER_RECEIVE_H

#include "provider.h"

/**
 * urxe_receive - @got packets that urxe_lane_rx() gave, and as many more as one answer is to be for
 *
 * Where sending an answer costs much, a message that the link had whole is not answered twice.
 * @pkts has room for URXE_RX_BURST, @at is the number of @lane, @now the port's clock in ns.
 * Returns how many packets it took. RCU.
 */
unsigned urxe_receive(struct urxe_device *dev, struct urxe_lane *lane, unsigned at,
		      struct urxe_packet *pkts, unsigned got, uint64_t now) URXE_REQUIRES(lane);

#endif
