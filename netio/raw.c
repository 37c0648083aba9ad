/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Raw frames: a tap on what is received, and a way out past the stack. Neither costs anything
 * while nobody uses it.
 */
#include "netio/stack.h"

#define FRAME_MIN 60 /* IEEE 802.3 without FCS */

void urxe_port_raw_tap(struct urxe_port *port, urxe_raw_fn *fn, void *arg)
{
	if (port->ops->everything)
		port->ops->everything(port->link, fn != NULL);
	for (unsigned i = 0; i < port->num_lanes; i++) {
		struct urxe_lane *lane = &port->lanes[i];

		urxe_lane_lock(lane);
		lane->raw_fn = fn;
		lane->raw_arg = arg;
		lane->raw_taken = false;
		urxe_lane_unlock(lane);
	}
}

bool urxe_raw_input(struct urxe_lane *lane, const struct urxe_frame *f)
{
	bool roce;

	if (f->len < ETH_LEN)
		return true; /* the stack counts it */
	roce = !(f->flags & URXE_FRAME_RAW) && !memcmp(f->data, lane->port->mac, 6) &&
	       urxe_frame_roce(f);
	lane->raw_taken = lane->raw_fn(lane->raw_arg, f->data, f->len, roce);
	if (lane->raw_taken)
		urxe_count(lane, URXE_CNT_raw_rx, 1);
	return !(f->flags & URXE_FRAME_RAW);
}

int urxe_raw_begin(struct urxe_lane *lane, struct urxe_tx *tx, uint32_t len)
{
	uint32_t most = atomic_load(&lane->port->l3_mtu) + ETH_LEN + VLAN_LEN;

	if (len < ETH_LEN || len > most) {
		urxe_count(lane, URXE_CNT_tx_too_long, 1);
		return EMSGSIZE;
	}
	return urxe_tx_reserve(lane, tx, len < FRAME_MIN ? FRAME_MIN : len);
}

int urxe_raw_commit(struct urxe_lane *lane, struct urxe_tx *tx)
{
	struct urxe_port *port = lane->port;
	struct urxe_frame f = {.data = tx->l2, .room = tx->room, .buf = tx->frame}, copy;
	bool own, group;

	if (tx->cur < tx->end)
		urxe_tx_append(tx, NULL, (uint32_t)(tx->end - tx->cur));
	f.len = (uint32_t)(tx->end - tx->l2);
	if (f.len > atomic_load(&port->l3_mtu) + ETH_LEN &&
	    urxe_get16(f.data + 12) != ETHERTYPE_VLAN) {
		urxe_count(lane, URXE_CNT_tx_too_long, 1);
		urxe_tx_abort(lane, tx);
		return EMSGSIZE;
	}
	lane->reserved--;
	urxe_count(lane, URXE_CNT_raw_tx, 1);
	group = f.data[0] & 1;
	own = !memcmp(f.data, port->mac, 6);
	if (group && lane->raw_fn && urxe_frame_copy(lane, &copy, &f)) {
		copy.flags = URXE_FRAME_RAW;
		urxe_lane_emit(lane, &copy, true);
	}
	if (own)
		f.flags = URXE_FRAME_RAW;
	urxe_lane_emit(lane, &f, own);
	return 0;
}
