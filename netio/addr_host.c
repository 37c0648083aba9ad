/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A port whose addresses are the host's (netio/host.h): they come and go with those.
 */
#include "netio/stack.h"

#include <stdlib.h>

#include "netio/gate.h"
#include "netio/host.h"
#include "urxe/log.h"

static int read_host(struct urxe_port *port) URXE_REQUIRES(port->host_lock)
{
	unsigned n;
	int err = urxe_host_read(port->host, port->host_addrs, URXE_PORT_MAX_GIDS, &n);

	if (err)
		urxe_warn("%s: the host's addresses cannot be read: %s", port->cfg.name,
			  strerror(err));
	else
		port->num_host_addrs = n;
	return err;
}

int urxe_addr_host_init(struct urxe_port *port)
{
	static const uint8_t lo[16] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1};
	int err;

	port->host_addrs = calloc(URXE_PORT_MAX_GIDS, sizeof(*port->host_addrs));
	if (!port->host_addrs)
		return ENOMEM;
	err = urxe_host_open(&port->host);
	if (err) {
		/* In a sandbox, say: its processes reach each other all the same. */
		urxe_warn("%s: the kernel cannot be asked for the host's addresses (%s): 127.0.0.1 "
			  "is all there is",
			  port->cfg.name, strerror(err));
		err = urxe_addr_publish(port, lo, 8);
	}
	if (port->host)
		urxe_host_only(port->host, port->cfg.host_if);
	urxe_mutex_lock(&port->host_lock);
	if (port->host)
		err = read_host(port);
	urxe_addr_gate_look(port);
	/* Those that lead everywhere come first: programs take GID 0 when they are told none. */
	for (unsigned i = 0; port->gate && i < port->gate->num_ips && !err; i++)
		err = urxe_addr_publish(port, port->gate->ips[i].gid,
					port->gate->ips[i].prefix_len);
	for (unsigned i = 0; i < port->num_host_addrs && !err; i++)
		err = urxe_addr_publish(port, port->host_addrs[i].gid,
					port->host_addrs[i].prefix_len);
	urxe_addr_gate_mark(port);
	urxe_mutex_unlock(&port->host_lock);
	/* Many addresses on the host: the first ones do. */
	return err == ENOSPC ? 0 : err;
}

void urxe_addr_host_fini(struct urxe_port *port)
{
	urxe_host_close(port->host);
	free(port->host_addrs);
	free(port->gate);
}

static bool on_host(const struct urxe_port *port, const struct urxe_gid_entry *own)
	URXE_REQUIRES(port->host_lock)
{
	for (unsigned i = 0; i < port->num_host_addrs; i++) {
		if (!memcmp(port->host_addrs[i].gid, own->gid, 16) &&
		    port->host_addrs[i].prefix_len == own->prefix_len)
			return true;
	}
	return false;
}

void urxe_port_follow_host(struct urxe_port *port,
			   void (*fn)(void *arg, bool add, const uint8_t gid[16],
				      unsigned prefix_len),
			   void *arg)
{
	const struct urxe_gid_entry *own;
	bool news;

	if (!port->cfg.host || !urxe_mutex_trylock(&port->host_lock))
		return;
	news = port->host && urxe_host_changed(port->host) && !read_host(port);
	news |= urxe_addr_gate_look(port);
	for (unsigned i = 0; news && i < urxe_port_gid_end(port); i++) {
		own = urxe_port_own(port, i);
		/* Whoever used loopback while there was nothing else goes on. */
		if (own && !urxe_gid_is_loopback(own->gid) && !on_host(port, own) &&
		    !urxe_addr_gate_has(port, own))
			fn(arg, false, own->gid, own->prefix_len);
	}
	for (unsigned i = 0; news && i < port->num_host_addrs; i++) {
		if (urxe_port_gid_find(port, port->host_addrs[i].gid) < 0)
			fn(arg, true, port->host_addrs[i].gid, port->host_addrs[i].prefix_len);
	}
	for (unsigned i = 0; news && port->gate && i < port->gate->num_ips; i++) {
		if (urxe_port_gid_find(port, port->gate->ips[i].gid) < 0)
			fn(arg, true, port->gate->ips[i].gid, port->gate->ips[i].prefix_len);
	}
	if (news)
		urxe_addr_gate_mark(port);
	urxe_mutex_unlock(&port->host_lock);
}

bool urxe_port_on_host(const struct urxe_port *port)
{
	return port->cfg.host;
}

uint32_t urxe_port_scope(struct urxe_port *port, const uint8_t gid[16])
{
	uint32_t scope = 0;

	if (!port->host)
		return 0;
	urxe_mutex_lock(&port->host_lock);
	for (unsigned i = 0; i < port->num_host_addrs; i++) {
		if (!memcmp(port->host_addrs[i].gid, gid, 16))
			scope = port->host_addrs[i].scope_id;
	}
	urxe_mutex_unlock(&port->host_lock);
	return scope;
}
