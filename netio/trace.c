/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The tracepoints of the wire, and their log lines. */
#include "netio/trace.h"
#include "urxe/probe.h"

URXE_NETIO_POINTS(URXE_TRACE_DEFINE)

#define FIRE  URXE_TRACE_FIRE
#define NAMED urxe_trace_string

void urxe_trace_frame_drop(const struct urxe_lane *lane, enum urxe_counter why)
{
	const char *reason = NAMED(urxe_counter_name(why));

	FIRE(frame_drop, reason, lane->index);
	urxe_debug("%s: frame dropped: %s", lane->port->cfg.name, reason);
}

void urxe_trace_fault(enum urxe_counter what, const uint8_t *bth)
{
	const char *kind = NAMED(urxe_counter_name(what));
	uint32_t qpn = urxe_bth_dqpn(bth), psn = urxe_bth_psn(bth);

	FIRE(fault, kind, qpn, psn);
	urxe_debug("QP %06x: %s as configured, PSN %u on its way there", qpn, kind, psn);
}

void urxe_trace_neighbour(const uint8_t gid[16], enum urxe_neigh_state from,
			  enum urxe_neigh_state to)
{
	const char *before = NAMED(urxe_neigh_state_names[from]);
	const char *after = NAMED(urxe_neigh_state_names[to]);
	char address[URXE_GID_STRLEN];

	if (from == to || !(URXE_TRACE_WATCHED(neighbour) | urxe_log_enabled(URXE_LOG_DEBUG)))
		return;
	urxe_gid_print(gid, address, sizeof(address));
	FIRE(neighbour, (const char *)address, before, after);
	urxe_debug("neighbour %s: %s -> %s", address, before, after);
}

void urxe_trace_tx_wait(const struct urxe_lane *lane, enum urxe_counter why)
{
	const char *reason = NAMED(urxe_counter_name(why));

	FIRE(tx_wait, reason, lane->index);
	urxe_log(URXE_LOG_TRACE, "%s: a packet has to wait: %s", lane->port->cfg.name, reason);
}
