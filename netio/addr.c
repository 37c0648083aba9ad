/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The addresses of a port: who we are, and where a destination lies.
 *
 * The data path reads the table without a lock, and paths refer to their own address. So an entry,
 * once made, stays as it is until the port goes; what comes and goes is the table's pointer to it.
 */
#include "netio/stack.h"

#include <assert.h>
#include <stdlib.h>

#include "netio/fabric.h"
#include "urxe/log.h"

static bool same_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	if (memcmp(a, b, bits / 8))
		return false;
	return !(bits % 8) || !((a[bits / 8] ^ b[bits / 8]) >> (8 - bits % 8));
}

bool urxe_gid_on_link(const struct urxe_gid_entry *own, const uint8_t gid[16])
{
	if (urxe_gid_is_v4(gid) != own->ipv4)
		return false;
	return same_prefix(own->gid, gid, own->prefix_len + (own->ipv4 ? 96u : 0u));
}

/* The last address of an IPv4 prefix, and 255.255.255.255: nobody to talk RDMA to. */
static bool is_broadcast(const struct urxe_gid_entry *own, const uint8_t gid[16])
{
	uint32_t addr = urxe_get32(gid + 12);

	if (!urxe_gid_is_v4(gid))
		return false;
	if (addr == 0xffffffff || addr >> 24 == 0)
		return true;
	return own->prefix_len < 31 && urxe_gid_on_link(own, gid) &&
	       !(~addr & (0xffffffffu >> own->prefix_len));
}

int urxe_port_gid(struct urxe_port *port, unsigned index, struct urxe_gid_entry *entry)
{
	const struct urxe_gid_entry *own;

	if (index >= URXE_PORT_MAX_GIDS)
		return EINVAL;
	own = urxe_port_own(port, index);
	if (!own)
		return ENODATA;
	*entry = *own;
	return 0;
}

int urxe_port_gid_find(struct urxe_port *port, const uint8_t gid[16])
{
	const struct urxe_gid_entry *own;

	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		own = urxe_port_own(port, i);
		if (own && !memcmp(own->gid, gid, 16))
			return (int)i;
	}
	return -1;
}

static bool has_gateway(const struct urxe_port *port, bool ipv4, const uint8_t **gw)
{
	*gw = ipv4 ? port->cfg.gw4 : port->cfg.gw6;
	return ipv4 ? port->cfg.has_gw4 : port->cfg.has_gw6;
}

/* The first own address of the family, on whose prefix @gid lies when one is given. */
static int own_near(const struct urxe_port *port, bool ipv4, const uint8_t *gid)
{
	const struct urxe_gid_entry *own;

	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		own = urxe_port_own(port, i);
		if (own && own->ipv4 == ipv4 && (!gid || urxe_gid_on_link(own, gid)))
			return (int)i;
	}
	return -1;
}

/* The same, of those that the fabric's gateway has given. */
static int way_out(const struct urxe_port *port, bool ipv4, const uint8_t *gid)
{
	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		const struct urxe_own *own =
			atomic_load_explicit(&port->gids[i], memory_order_acquire);

		if (own && atomic_load_explicit(&own->way_out, memory_order_relaxed) &&
		    own->entry.ipv4 == ipv4 && (!gid || urxe_gid_on_link(&own->entry, gid)))
			return (int)i;
	}
	return -1;
}

/* Of the host's addresses the first is the default route's. */
static int host_source(const struct urxe_port *port, bool ipv4)
{
	int out = way_out(port, ipv4, NULL);
	int i = out < 0 ? own_near(port, ipv4, NULL) : out;
	const struct urxe_gid_entry *own = i < 0 ? NULL : urxe_port_own(port, (unsigned)i);

	return own && !urxe_gid_is_loopback(own->gid) ? i : -1;
}

static int source_for(const struct urxe_port *port, const uint8_t dgid[16])
{
	bool ipv4 = urxe_gid_is_v4(dgid);
	const uint8_t *gw;
	int i;

	if (urxe_gid_is_mcast(dgid) || urxe_gid_is_loopback(dgid))
		return own_near(port, ipv4, NULL);
	/* The host may have the network, too: the gateway has no way for its addresses. */
	i = port->cfg.host ? way_out(port, ipv4, dgid) : -1;
	if (i < 0)
		i = own_near(port, ipv4, dgid);
	if (i < 0 && port->cfg.host)
		return host_source(port, ipv4);
	if (i < 0 && port->ops->routes)
		return own_near(port, ipv4, NULL);
	if (i >= 0 || !has_gateway(port, ipv4, &gw))
		return i;
	i = own_near(port, ipv4, gw);
	return i >= 0 ? i : own_near(port, ipv4, NULL);
}

int urxe_port_route(struct urxe_port *port, const uint8_t dgid[16], unsigned *sgid_index,
		    uint8_t next[16])
{
	static const uint8_t zero[16];
	int i = urxe_port_gid_find(port, dgid);
	const struct urxe_gid_entry *own;

	if (!memcmp(dgid, zero, 16))
		return ENETUNREACH;
	if (i < 0)
		i = source_for(port, dgid);
	own = i < 0 ? NULL : urxe_port_own(port, (unsigned)i);
	if (!own || is_broadcast(own, dgid))
		return ENETUNREACH;
	*sgid_index = (unsigned)i;
	if (next)
		memcpy(next, urxe_gid_is_loopback(dgid) ? own->gid : dgid, 16);
	return 0;
}

const uint8_t *urxe_port_asker(const struct urxe_port *port, unsigned sgid_index,
			       const uint8_t gid[16])
{
	bool ipv4 = urxe_gid_is_v4(gid);
	const struct urxe_gid_entry *own = urxe_port_own(port, sgid_index);
	int i;

	if (own && own->ipv4 == ipv4)
		return own->gid;
	i = own_near(port, ipv4, gid);
	if (i < 0)
		i = own_near(port, ipv4, NULL);
	own = i < 0 ? NULL : urxe_port_own(port, (unsigned)i);
	return own ? own->gid : NULL;
}

int urxe_port_next_hop(struct urxe_port *port, const struct urxe_gid_entry *own,
		       const uint8_t dgid[16], uint8_t next[16])
{
	const uint8_t *gw;

	if (is_broadcast(own, dgid) || urxe_gid_is_v4(dgid) != own->ipv4)
		return ENETUNREACH;
	/* Where the host's addresses are ours, the fabric's gateway has its routes. */
	if (port->cfg.host || port->ops->routes || urxe_gid_on_link(own, dgid) ||
	    own_near(port, own->ipv4, dgid) >= 0) {
		memcpy(next, dgid, 16);
		return 0;
	}
	if (!has_gateway(port, own->ipv4, &gw))
		return ENETUNREACH;
	memcpy(next, gw, 16);
	return 0;
}

enum urxe_path_kind urxe_port_way(struct urxe_port *port, const uint8_t dgid[16])
{
	if (urxe_port_gid_find(port, dgid) >= 0 || urxe_gid_is_loopback(dgid))
		return port->ops->steer ? PATH_LOCAL : PATH_LOOP;
	return urxe_gid_is_mcast(dgid) ? PATH_MCAST : PATH_WIRE;
}

bool urxe_port_known(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16])
{
	const struct urxe_gid_entry *own = urxe_port_own(port, sgid_index);
	uint8_t next[16];

	if (!own || !atomic_load(&port->started))
		return false;
	if (urxe_port_way(port, dgid) != PATH_WIRE)
		return true;
	return !urxe_port_next_hop(port, own, dgid, next) && urxe_neigh_known(port, next);
}

bool urxe_port_far(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16])
{
	const struct urxe_gid_entry *own = urxe_port_own(port, sgid_index);
	uint8_t next[16];

	return own && atomic_load(&port->started) && urxe_port_way(port, dgid) == PATH_WIRE &&
	       !urxe_port_next_hop(port, own, dgid, next) && urxe_neigh_far(port, next);
}

void urxe_port_suspect(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16])
{
	const struct urxe_gid_entry *own = urxe_port_own(port, sgid_index);
	struct urxe_lane *lane = port->lanes;
	struct urxe_neigh *n;
	uint8_t next[16];

	if (!own || !atomic_load(&port->started) || urxe_port_way(port, dgid) != PATH_WIRE ||
	    urxe_port_next_hop(port, own, dgid, next) || urxe_neigh_get(port, next, sgid_index, &n))
		return;
	urxe_lane_lock(lane);
	urxe_neigh_suspect(lane, n);
	urxe_lane_unlock(lane);
	urxe_neigh_put(port, n);
}

void urxe_port_ask(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16])
{
	const struct urxe_gid_entry *own = urxe_port_own(port, sgid_index);
	struct urxe_lane *lane = port->lanes;
	uint8_t next[16];

	if (!own || !atomic_load(&port->started) || urxe_port_way(port, dgid) != PATH_WIRE ||
	    urxe_port_next_hop(port, own, dgid, next))
		return;
	urxe_lane_lock(lane);
	urxe_neigh_ask(lane, next, sgid_index);
	urxe_lane_unlock(lane);
}

unsigned urxe_port_neigh_news(const struct urxe_port *port)
{
	return atomic_load_explicit(&port->neigh.news, memory_order_relaxed);
}

int urxe_port_resolve(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16],
		      uint8_t dmac[6])
{
	const struct urxe_gid_entry *own = urxe_port_own(port, sgid_index);
	struct urxe_lane *lane;
	struct urxe_neigh *n;
	uint8_t next[16];
	uint64_t word;
	int err;

	if (!own || !atomic_load(&port->started))
		return ENETUNREACH;
	switch (urxe_port_way(port, dgid)) {
	case PATH_LOOP:
	case PATH_LOCAL:
		memcpy(dmac, port->mac, 6);
		return 0;
	case PATH_MCAST:
		urxe_mcast_mac(dgid, dmac);
		return 0;
	case PATH_WIRE:
		break;
	}
	err = urxe_port_next_hop(port, own, dgid, next);
	if (!err)
		err = urxe_neigh_get(port, next, sgid_index, &n);
	if (err)
		return err;
	lane = &port->lanes[0];
	urxe_lane_lock(lane);
	word = atomic_load_explicit(&n->word, memory_order_relaxed);
	if (urxe_neigh_word_state(word) < NEIGH_DELAY)
		err = urxe_neigh_use(lane, n, &word);
	urxe_lane_unlock(lane);
	urxe_neigh_put(port, n);
	if (!err)
		urxe_neigh_word_mac(word, dmac);
	return err;
}

/* ---- coming and going ---- */

/* The entry for an address: the one from before, should it come back, so that its paths live on. */
static struct urxe_own *entry_for(struct urxe_port *port, const uint8_t gid[16],
				  unsigned prefix_len)
{
	struct urxe_own *own = port->owns;

	while (own && (memcmp(own->entry.gid, gid, 16) || own->entry.prefix_len != prefix_len))
		own = own->next;
	if (own)
		return own;
	own = calloc(1, sizeof(*own));
	if (!own)
		return NULL;
	memcpy(own->entry.gid, gid, 16);
	own->entry.prefix_len = (uint8_t)prefix_len;
	own->entry.ipv4 = urxe_gid_is_v4(gid);
	own->entry.vlan = port->cfg.vlan;
	own->next = port->owns;
	port->owns = own;
	return own;
}

static bool unicast4(const uint8_t *a, unsigned len)
{
	uint32_t host = len < 32 ? urxe_get32(a) & (0xffffffffu >> len) : 0;

	if (a[0] == 0 || a[0] == 127 || a[0] >= 224)
		return false;
	/* neither the network's own address nor its broadcast address */
	return len > 30 || (host != 0 && host != 0xffffffffu >> len);
}

static bool unicast6(const uint8_t *a)
{
	static const uint8_t zero[15];

	return a[0] != 0xff && (memcmp(a, zero, 15) != 0 || a[15] > 1);
}

bool urxe_config_ip_valid(const struct urxe_config_ip *ip)
{
	if (ip->prefix_len > (ip->ipv4 ? 32 : 128))
		return false;
	return ip->ipv4 ? unicast4(ip->gid + 12, ip->prefix_len) : unicast6(ip->gid);
}

static bool is_host(const struct urxe_port *port, const uint8_t gid[16], unsigned prefix_len)
{
	struct urxe_config_ip ip = {.ipv4 = urxe_gid_is_v4(gid), .prefix_len = (uint8_t)prefix_len};

	/* Of a host that has no other. */
	if (port->cfg.host && urxe_gid_is_loopback(gid))
		return true;
	memcpy(ip.gid, gid, sizeof(ip.gid));
	return prefix_len <= UINT8_MAX && urxe_config_ip_valid(&ip);
}

/* Others' indices stay, so the first empty slot it is. start_lock held, or nobody knows the port.
 */
static int publish(struct urxe_port *port, const uint8_t gid[16], unsigned prefix_len, unsigned *at)
{
	struct urxe_own *own;
	unsigned i = 0;

	if (!is_host(port, gid, prefix_len))
		return EINVAL;
	if (urxe_port_gid_find(port, gid) >= 0)
		return EEXIST;
	while (i < URXE_PORT_MAX_GIDS && urxe_port_own(port, i))
		i++;
	if (i == URXE_PORT_MAX_GIDS)
		return ENOSPC;
	own = entry_for(port, gid, prefix_len);
	if (!own)
		return ENOMEM;
	atomic_store(&own->live, true);
	/* Pairs with urxe_port_own() and urxe_path_create(): the entry is whole. */
	atomic_store_explicit(&port->gids[i], own, memory_order_release);
	/* Pairs with urxe_port_gid_end(): who goes so far finds the entry. */
	if (i >= urxe_port_gid_end(port))
		atomic_store_explicit(&port->gid_end, i + 1, memory_order_release);
	*at = i;
	return 0;
}

/* The fabric's other processes find us by them. */
static void tell_fabric(struct urxe_port *port)
{
	uint8_t gids[URXE_PORT_MAX_GIDS][16];
	const struct urxe_gid_entry *own;
	unsigned n = 0, other = 0;

	if (!port->fabric)
		return;
	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		own = urxe_port_own(port, i);
		if (own)
			memcpy(gids[n++], own->gid, 16);
	}
	if (urxe_fabric_addr_set(port->fabric, (const uint8_t(*)[16])gids, n, &other) != EADDRINUSE)
		return;
	/* Who is found by it is not known. */
	if (other)
		urxe_warn("%s: the process with slot %u of the fabric has an address of ours",
			  port->cfg.name, other);
	else
		urxe_warn("%s: an address of ours is the host's, too", port->cfg.name);
}

static void retract(struct urxe_port *port, unsigned i)
{
	struct urxe_own *own = atomic_load(&port->gids[i]);

	atomic_store(&own->live, false);
	/* Pairs with urxe_port_own(): who no longer finds it sees that it is not live, too. */
	atomic_store_explicit(&port->gids[i], NULL, memory_order_release);
}

static void log_change(const struct urxe_port *port, const uint8_t gid[16], const char *what)
{
	char buf[URXE_GID_STRLEN];

	urxe_info("%s: address %s %s", port->cfg.name, urxe_gid_print(gid, buf, sizeof(buf)), what);
}

/* The link is told by port.c of those that there are when it starts. */
static int tell_link(struct urxe_port *port, bool add, const uint8_t gid[16])
	URXE_REQUIRES(port->start_lock)
{
	return port->ops->addr && atomic_load(&port->started)
		       ? port->ops->addr(port->link, add, gid)
		       : 0;
}

int urxe_port_addr_add(struct urxe_port *port, const uint8_t gid[16], unsigned prefix_len)
{
	unsigned i;
	int err;

	urxe_mutex_lock(&port->start_lock);
	err = publish(port, gid, prefix_len, &i);
	if (!err) {
		/* IPv6: its solicited-node group is to be received before anybody asks. */
		err = urxe_mcast_refilter(port);
		if (!err)
			err = tell_link(port, true, gid);
		if (err)
			retract(port, i);
		else if (atomic_load(&port->started))
			urxe_neigh_announce(port, 1ull << i);
		tell_fabric(port);
	}
	urxe_mutex_unlock(&port->start_lock);
	if (!err)
		log_change(port, gid, "added");
	return err;
}

int urxe_port_addr_del(struct urxe_port *port, const uint8_t gid[16], unsigned prefix_len)
{
	int i, err = 0;

	urxe_mutex_lock(&port->start_lock);
	i = urxe_port_gid_find(port, gid);
	if (i < 0 || urxe_port_own(port, (unsigned)i)->prefix_len != prefix_len) {
		err = EADDRNOTAVAIL;
	} else {
		retract(port, (unsigned)i);
		tell_link(port, false, gid);
		/* A filter that lets more in than it need does no harm. */
		urxe_mcast_refilter(port);
		tell_fabric(port);
	}
	urxe_mutex_unlock(&port->start_lock);
	if (!err)
		log_change(port, gid, "removed");
	return err;
}

static_assert(URXE_PORT_MAX_GIDS == URXE_CONFIG_MAX_IPS, "the GID table can be filled");
static_assert(URXE_PORT_MAX_GIDS <= 64, "a bit for each, of who is to be announced");

int urxe_addr_publish(struct urxe_port *port, const uint8_t gid[16], unsigned prefix_len)
{
	unsigned at;
	int err = publish(port, gid, prefix_len, &at);

	return err == EEXIST ? 0 : err;
}

/* IPv4 first: clients take the first GID that is not zero. */
static int publish_all(struct urxe_port *port)
{
	const struct urxe_port_config *cfg = &port->cfg;
	int err;

	if (cfg->num_ips > URXE_CONFIG_MAX_IPS)
		return EINVAL;
	for (int ipv4 = 1; ipv4 >= 0; ipv4--) {
		for (unsigned i = 0; i < cfg->num_ips; i++) {
			const struct urxe_config_ip *ip = &cfg->ips[i];

			if (urxe_gid_is_v4(ip->gid) != ip->ipv4)
				return EINVAL;
			if (ip->ipv4 != ipv4)
				continue;
			err = urxe_addr_publish(port, ip->gid, ip->prefix_len);
			if (err)
				return err;
		}
	}
	return 0;
}

int urxe_addr_init(struct urxe_port *port)
{
	int err = port->cfg.host ? urxe_addr_host_init(port) : publish_all(port);

	if (!err)
		tell_fabric(port);
	return err;
}

void urxe_addr_fini(struct urxe_port *port)
{
	for (struct urxe_own *own = port->owns, *next; own; own = next) {
		next = own->next;
		free(own);
	}
	urxe_addr_host_fini(port);
}
