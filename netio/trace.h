/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The tracepoints of the wire (urxe/trace.h, urxe-trace(7)). A lane's lock is held.
 */
#ifndef URXE_NETIO_TRACE_H
#define URXE_NETIO_TRACE_H

#include "netio/stack.h"
#include "urxe/trace.h"

#define URXE_NETIO_POINTS(X)            \
	X(frame_drop, reason, lane)     \
	X(fault, kind, dest_qpn, psn)   \
	X(neighbour, address, from, to) \
	X(tx_wait, reason, lane)

URXE_NETIO_POINTS(URXE_TRACE_DECLARE)

/** urxe_trace_frame_drop - a received frame goes no further, and is counted as @why. */
void urxe_trace_frame_drop(const struct urxe_lane *lane, enum urxe_counter why);
/** urxe_trace_fault - this is done on purpose, counted as @what, to the packet at @bth. */
void urxe_trace_fault(enum urxe_counter what, const uint8_t *bth);
/** urxe_trace_neighbour - the entry of @gid goes from state to state; neigh.lock is held, no lane's
 * need be. */
void urxe_trace_neighbour(const uint8_t gid[16], enum urxe_neigh_state from,
			  enum urxe_neigh_state to);
/** urxe_trace_tx_wait - a packet cannot go now, is counted as @why, and will be tried again. */
void urxe_trace_tx_wait(const struct urxe_lane *lane, enum urxe_counter why);

#endif
