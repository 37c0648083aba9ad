/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The counters of a port by name, summed over its lanes. */
#include "netio/stack.h"

#define COUNTER_NAME(name) #name,

static const char *const counter_names[] = {URXE_COUNTER_LIST(COUNTER_NAME)};

const char *urxe_counter_name(enum urxe_counter c)
{
	return counter_names[c];
}

unsigned urxe_port_counters(struct urxe_port *port, const char *const **names, uint64_t *values,
			    unsigned max)
{
	/* Pairs with start_locked(). */
	bool started = atomic_load_explicit(&port->started, memory_order_acquire);

	if (names)
		*names = counter_names;
	for (unsigned c = 0; c < URXE_COUNTERS && c < max; c++) {
		values[c] = 0;
		for (unsigned i = 0; started && i < port->num_lanes; i++)
			values[c] += atomic_load_explicit(&port->lanes[i].counters[c],
							  memory_order_relaxed);
	}
	if (started && max > URXE_CNT_rx_ring_full && port->ops->dropped)
		values[URXE_CNT_rx_ring_full] += port->ops->dropped(port->link);
	if (started && max > URXE_CNT_tx_refused && port->ops->refused)
		values[URXE_CNT_tx_refused] += port->ops->refused(port->link);
	return URXE_COUNTERS;
}

uint64_t urxe_port_drops(const uint64_t *values)
{
	static const enum urxe_counter dropped[] = {
		URXE_CNT_rx_ring_full, URXE_CNT_tx_too_long,  URXE_CNT_tx_unreachable,
		URXE_CNT_tx_no_source, URXE_CNT_tx_link_down, URXE_CNT_tx_control_dropped,
		URXE_CNT_tx_refused,
	};
	static const enum urxe_counter nothing[] = {
		URXE_CNT_rx_arp_ignored,
		URXE_CNT_rx_nd_ignored,
		URXE_CNT_rx_icmp_ignored,
		URXE_CNT_rx_group_ignored,
	};
	uint64_t sum = 0;

	for (unsigned c = URXE_CNT_rx_short; c <= URXE_CNT_rx_group_ignored; c++)
		sum += values[c];
	for (unsigned i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++)
		sum -= values[nothing[i]];
	for (unsigned i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		sum += values[dropped[i]];
	return sum;
}
