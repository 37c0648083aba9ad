/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The tracepoints of the connection managers, IB and rdma_cm (urxe/trace.h, urxe-trace(7)).
 */
#ifndef URXE_CM_TRACE_H
#define URXE_CM_TRACE_H

#include "cm/core/cm.h"
#include "urxe/trace.h"

#define URXE_CM_POINTS(X)                                           \
	X(cm_state, comm_id, remote_comm_id, peer, from, to, input) \
	X(cm_event, comm_id, event)                                 \
	X(cm_retry, comm_id, message, tries)                        \
	X(mad_tx, message, comm_id, remote_comm_id)                 \
	X(mad_rx, message, comm_id, remote_comm_id)                 \
	X(mad_drop, message, comm_id, reason)                       \
	X(rdma_event, id, event, status)

URXE_CM_POINTS(URXE_TRACE_DECLARE)

/** urxe_trace_cm_state - the id goes from state to state, by the input under way. */
void urxe_trace_cm_state(const struct urxe_cm_id *id, enum urxe_cm_state from,
			 enum urxe_cm_state to);
/** urxe_trace_cm_event - the id's owner is about to be told. */
void urxe_trace_cm_event(const struct urxe_cm_id *id, enum urxe_cm_event_type event);
/** urxe_trace_cm_retry - a message of kind @attr goes out once more. */
void urxe_trace_cm_retry(const struct urxe_cm_id *id, uint16_t attr);
/** urxe_trace_mad_tx - a MAD is about to be sent. */
void urxe_trace_mad_tx(const uint8_t *mad);
/** urxe_trace_mad_rx - a MAD that is well formed came. */
void urxe_trace_mad_rx(const uint8_t *mad);
/** urxe_trace_mad_drop - a MAD of kind @attr (0: none that we know) is dropped. @comm_id: its
 * sender's. */
void urxe_trace_mad_drop(uint16_t attr, uint32_t comm_id, const char *reason);
/** urxe_trace_rdma_event - an event of the rdma_cm is about to be queued. @event: its name. */
void urxe_trace_rdma_event(const void *id, const char *event, int status);

#endif
