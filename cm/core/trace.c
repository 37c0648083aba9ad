/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The tracepoints of the connection managers, and their log lines. */
#include "cm/core/cm_priv.h"
#include "cm/core/trace.h"
#include "urxe/gid.h"
#include "urxe/probe.h"

URXE_CM_POINTS(URXE_TRACE_DEFINE)

#define FIRE  URXE_TRACE_FIRE
#define NAMED urxe_trace_string

void urxe_trace_cm_state(const struct urxe_cm_id *id, enum urxe_cm_state from,
			 enum urxe_cm_state to)
{
	const char *before = NAMED(urxe_cm_state_names[from]);
	const char *after = NAMED(urxe_cm_state_names[to]);
	const char *input = NAMED(urxe_cm_input_names[id->cm->input]);
	char peer[URXE_GID_STRLEN];

	if (!(URXE_TRACE_WATCHED(cm_state) | urxe_log_enabled(URXE_LOG_DEBUG)))
		return;
	urxe_gid_print(id->path.dgid.raw, peer, sizeof(peer));
	FIRE(cm_state, id->local_comm_id, id->remote_comm_id, (const char *)peer, before, after,
	     input);
	urxe_debug("cm %08x/%08x %s: %s -> %s by %s", id->local_comm_id, id->remote_comm_id, peer,
		   before, after, input);
}

void urxe_trace_cm_event(const struct urxe_cm_id *id, enum urxe_cm_event_type event)
{
	const char *name = NAMED(urxe_cm_event_names[event]);

	FIRE(cm_event, id->local_comm_id, name);
	urxe_debug("cm %08x: event %s", id->local_comm_id, name);
}

void urxe_trace_cm_retry(const struct urxe_cm_id *id, uint16_t attr)
{
	const char *message = NAMED(urxe_mad_msg_name(attr));

	FIRE(cm_retry, id->local_comm_id, message, id->tries);
	urxe_debug("cm %08x: %s again, try %u", id->local_comm_id, message, id->tries);
}

struct mad_names {
	const char *message;
	uint32_t comm_id, remote_comm_id; /* the sender's, the receiver's */
};

static struct mad_names names_of(const uint8_t *mad)
{
	return (struct mad_names){
		NAMED(urxe_mad_msg_name((uint16_t)urxe_mad_get(mad, URXE_HDR_ATTR_ID))),
		(uint32_t)urxe_mad_get(mad, URXE_REP_LOCAL_COMM_ID),
		(uint32_t)urxe_mad_get(mad, URXE_REP_REMOTE_COMM_ID),
	};
}

void urxe_trace_mad_tx(const uint8_t *mad)
{
	struct mad_names n = names_of(mad);

	FIRE(mad_tx, n.message, n.comm_id, n.remote_comm_id);
	urxe_debug("cm -> %s %08x/%08x", n.message, n.comm_id, n.remote_comm_id);
}

void urxe_trace_mad_rx(const uint8_t *mad)
{
	struct mad_names n = names_of(mad);

	FIRE(mad_rx, n.message, n.comm_id, n.remote_comm_id);
	urxe_debug("cm <- %s %08x/%08x", n.message, n.comm_id, n.remote_comm_id);
}

void urxe_trace_mad_drop(uint16_t attr, uint32_t comm_id, const char *reason)
{
	const char *message = NAMED(urxe_mad_msg_name(attr));

	FIRE(mad_drop, message, comm_id, NAMED(reason));
	urxe_debug("cm <- %s %08x dropped: %s", message, comm_id, reason);
}

void urxe_trace_rdma_event(const void *id, const char *event, int status)
{
	FIRE(rdma_event, id, NAMED(event), status);
	urxe_debug("rdma_cm: %s status %d", event, status);
}
