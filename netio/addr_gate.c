/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a port on the fabric takes from the fabric's gateway (gate.h): addresses of its own, and how
 * long packets to the outside may be. All of it stays when the gateway goes: it may come back, and
 * connections with it.
 */
#include "netio/stack.h"

#include <stdlib.h>

#include "netio/fabric.h"
#include "netio/gate.h"
#include "urxe/free.h"

static bool same(const struct urxe_gate_info *a, const struct urxe_gate_info *b)
{
	if (a->l3_mtu != b->l3_mtu || a->num_ips != b->num_ips)
		return false;
	for (unsigned i = 0; i < a->num_ips; i++) {
		if (memcmp(a->ips[i].gid, b->ips[i].gid, 16) ||
		    a->ips[i].prefix_len != b->ips[i].prefix_len)
			return false;
	}
	return true;
}

bool urxe_addr_gate_look(struct urxe_port *port)
{
	struct urxe_gate_info *now;
	uint32_t version;

	if (!port->fabric)
		return false;
	/* Who has not joined sees no version. It writes its file before it joins. */
	version = urxe_fabric_addrs_version(port->fabric);
	if (version && version == port->gate_version)
		return false;
	port->gate_version = version;
	now = malloc(sizeof(*now));
	if (!now)
		return false;
	if (urxe_gate_look(urxe_fabric_spec_of(port->fabric), now) ||
	    (port->gate && same(port->gate, now))) {
		urxe_free(now);
		return false;
	}
	urxe_free(port->gate);
	port->gate = now;
	atomic_store(&port->far_l3, now->l3_mtu);
	return true;
}

bool urxe_addr_gate_has(const struct urxe_port *port, const struct urxe_gid_entry *own)
{
	for (unsigned i = 0; port->gate && i < port->gate->num_ips; i++) {
		if (!memcmp(port->gate->ips[i].gid, own->gid, 16) &&
		    port->gate->ips[i].prefix_len == own->prefix_len)
			return true;
	}
	return false;
}

void urxe_addr_gate_mark(struct urxe_port *port)
{
	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		struct urxe_own *own = atomic_load_explicit(&port->gids[i], memory_order_acquire);

		if (own)
			atomic_store_explicit(&own->way_out, urxe_addr_gate_has(port, &own->entry),
					      memory_order_relaxed);
	}
}

/* Beyond a gateway that is only being started goes what one takes that nobody has told anything. */
static uint32_t most(struct urxe_port *port, bool far)
{
	const struct urxe_port_config told_nothing = {.mtu = 0};
	struct urxe_port_info info;
	uint32_t mtu;

	urxe_port_query(port, &info);
	if (!far || (atomic_load(&port->far_l3) && !info.far_mtu))
		return info.path_mtu;
	mtu = info.far_mtu ? info.far_mtu : urxe_config_path_mtu(urxe_config_l3_mtu(&told_nothing));
	return mtu < info.path_mtu ? mtu : info.path_mtu;
}

uint32_t urxe_port_path_mtu(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16])
{
	const struct urxe_gid_entry *own = urxe_port_own(port, sgid_index);
	struct urxe_port_info info;
	uint32_t way = 0;

	if (port->ops->way_mtu) {
		urxe_port_query(port, &info);
		if (own)
			way = urxe_config_path_mtu(port->ops->way_mtu(&port->cfg, own->gid, dgid));
		return way && way < info.path_mtu ? way : info.path_mtu;
	}
	return most(port, urxe_port_far(port, sgid_index, dgid));
}

uint32_t urxe_path_mtu(const struct urxe_path *path)
{
	return most(path->port, urxe_path_far(path));
}
