/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ports: a link with its addresses. Read here first: who we are, where a destination
 * lies, and how the link is brought up and slept on.
 */
#include "netio/stack.h"

#include <arpa/inet.h>
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "netio/identity.h"
#include "urxe/log.h"

/* ---- addresses ---- */

const char *urxe_gid_print(const uint8_t gid[16], char *buf, size_t len)
{
	bool v4 = urxe_gid_is_v4(gid);

	return inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid + 12 : gid, buf, (socklen_t)len);
}

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

static bool is_loopback(const uint8_t gid[16])
{
	static const uint8_t one[16] = {[15] = 1};

	return urxe_gid_is_v4(gid) ? gid[12] == 127 : !memcmp(gid, one, 16);
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
	if (index >= URXE_PORT_MAX_GIDS)
		return EINVAL;
	if (index >= port->num_gids)
		return ENODATA;
	*entry = port->gids[index];
	return 0;
}

int urxe_port_gid_find(struct urxe_port *port, const uint8_t gid[16])
{
	for (unsigned i = 0; i < port->num_gids; i++) {
		if (!memcmp(port->gids[i].gid, gid, 16))
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
	for (unsigned i = 0; i < port->num_gids; i++) {
		if (port->gids[i].ipv4 == ipv4 && (!gid || urxe_gid_on_link(&port->gids[i], gid)))
			return (int)i;
	}
	return -1;
}

static int source_for(const struct urxe_port *port, const uint8_t dgid[16])
{
	bool ipv4 = urxe_gid_is_v4(dgid);
	const uint8_t *gw;
	int i;

	if (urxe_gid_is_mcast(dgid) || is_loopback(dgid))
		return own_near(port, ipv4, NULL);
	i = own_near(port, ipv4, dgid);
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

	if (!memcmp(dgid, zero, 16))
		return ENETUNREACH;
	if (i < 0)
		i = source_for(port, dgid);
	if (i < 0 || is_broadcast(&port->gids[i], dgid))
		return ENETUNREACH;
	*sgid_index = (unsigned)i;
	if (next)
		memcpy(next, is_loopback(dgid) ? port->gids[i].gid : dgid, 16);
	return 0;
}

int urxe_port_next_hop(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16],
		       uint8_t next[16])
{
	const struct urxe_gid_entry *own = &port->gids[sgid_index];
	const uint8_t *gw;

	if (is_broadcast(own, dgid) || urxe_gid_is_v4(dgid) != own->ipv4)
		return ENETUNREACH;
	if (urxe_gid_on_link(own, dgid) || own_near(port, own->ipv4, dgid) >= 0) {
		memcpy(next, dgid, 16);
		return 0;
	}
	if (!has_gateway(port, own->ipv4, &gw))
		return ENETUNREACH;
	memcpy(next, gw, 16);
	return 0;
}

bool urxe_port_known(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16])
{
	uint8_t next[16];

	if (sgid_index >= port->num_gids || !atomic_load(&port->started))
		return false;
	if (urxe_port_gid_find(port, dgid) >= 0 || is_loopback(dgid) || urxe_gid_is_mcast(dgid))
		return true;
	return !urxe_port_next_hop(port, sgid_index, dgid, next) && urxe_neigh_known(port, next);
}

int urxe_port_resolve(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16],
		      uint8_t dmac[6])
{
	struct urxe_lane *lane;
	struct urxe_neigh *n;
	uint8_t next[16];
	uint64_t word;
	int err;

	if (sgid_index >= port->num_gids || !atomic_load(&port->started))
		return ENETUNREACH;
	if (urxe_port_gid_find(port, dgid) >= 0 || is_loopback(dgid)) {
		memcpy(dmac, port->mac, 6);
		return 0;
	}
	if (urxe_gid_is_mcast(dgid)) {
		urxe_mcast_mac(dgid, dmac);
		return 0;
	}
	err = urxe_port_next_hop(port, sgid_index, dgid, next);
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

/* ---- clock, randomness, sleep ---- */

uint64_t urxe_port_now(struct urxe_port *port)
{
	struct timespec ts;

	if (port->ops->now)
		return port->ops->now(port->link_arg);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * URXE_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t urxe_port_random(struct urxe_port *port)
{
	if (port->ops->random)
		return port->ops->random(port->link_arg);
	return urxe_random64();
}

static uint64_t ident_random(void *arg)
{
	return urxe_port_random(arg);
}

static bool frames_wait(struct urxe_port *port)
{
	for (unsigned i = 0; i < port->num_lanes; i++) {
		if (atomic_load_explicit(&port->lanes[i].loop_count, memory_order_relaxed) ||
		    atomic_load_explicit(&port->lanes[i].pend_count, memory_order_relaxed))
			return true;
	}
	return false;
}

/* True when there was a wake. A later one writes again, as woken is false from here on. */
static bool wake_consume(struct urxe_port *port)
{
	uint64_t v;

	(void)!read(port->wake_fd, &v, sizeof(v));
	return atomic_exchange_explicit(&port->woken, false, memory_order_acq_rel);
}

void urxe_port_wait(struct urxe_port *port, uint64_t ns, bool *interrupt)
{
	struct pollfd pfd = {.fd = port->wake_fd, .events = POLLIN};
	struct timespec ts = {(time_t)(ns / URXE_SEC), (long)(ns % URXE_SEC)};
	bool started = atomic_load_explicit(&port->started, memory_order_acquire), dummy;

	if (!interrupt)
		interrupt = &dummy;
	/* Nothing arrives on a wire that is not there. */
	*interrupt = !started || port->ops == &urxe_link_loop_ops;
	if (atomic_load_explicit(&port->woken, memory_order_relaxed) && wake_consume(port))
		return;
	if (started && frames_wait(port))
		return;
	if (started && port->ops->wait)
		port->ops->wait(port->link, ns, port->wake_fd, interrupt);
	else
		ppoll(&pfd, 1, ns == URXE_NEVER ? NULL : &ts, NULL);
	wake_consume(port);
}

void urxe_port_wake(struct urxe_port *port)
{
	uint64_t one = 1;

	if (!atomic_exchange_explicit(&port->woken, true, memory_order_acq_rel))
		(void)!write(port->wake_fd, &one, sizeof(one));
}

/* ---- queries ---- */

void urxe_port_query(struct urxe_port *port, struct urxe_port_info *info)
{
	urxe_spin_lock(&port->info_lock);
	*info = port->info;
	urxe_spin_unlock(&port->info_lock);
	info->dead = info->started && port->ops->dead && port->ops->dead(port->link);
	info->link_up = !info->started || (!info->dead && port->ops->up(port->link));
}

void urxe_port_carrier(struct urxe_port *port)
{
	if (atomic_load_explicit(&port->started, memory_order_acquire))
		urxe_neigh_schedule(port, 0);
}

struct urxe_ident *urxe_port_ident(struct urxe_port *port)
{
	return port->ident;
}

struct urxe_lane *urxe_port_lane(struct urxe_port *port, unsigned i)
{
	if (!atomic_load_explicit(&port->started, memory_order_acquire) || i >= port->num_lanes)
		return NULL;
	return &port->lanes[i];
}

/* ---- life ---- */

/* A local address (IEEE 802 bit 0x02) that is the same for the same configuration each time. */
static void make_mac(const struct urxe_port *port, uint8_t mac[6])
{
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

	for (unsigned i = 0; i < port->num_gids; i++) {
		for (unsigned j = 0; j < 16; j++)
			h = (h ^ port->gids[i].gid[j]) * 0x100000001b3ull;
	}
	for (const char *s = port->cfg.name; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3ull;
	h ^= h >> 29;
	for (unsigned i = 0; i < 6; i++, h >>= 8)
		mac[i] = (uint8_t)h;
	mac[0] = 0x02;
}

static_assert(URXE_PORT_MAX_GIDS == URXE_CONFIG_MAX_IPS, "the GID table can be filled");

/* IPv4 first: clients take the first GID that is not zero. */
static int fill_gids(struct urxe_port *port)
{
	const struct urxe_port_config *cfg = &port->cfg;

	for (int ipv4 = 1; ipv4 >= 0; ipv4--) {
		for (unsigned i = 0; i < cfg->num_ips; i++) {
			const struct urxe_config_ip *ip = &cfg->ips[i];

			if (ip->ipv4 != ipv4 || urxe_port_gid_find(port, ip->gid) >= 0)
				continue;
			if (urxe_gid_is_v4(ip->gid) != ip->ipv4 || urxe_gid_is_mcast(ip->gid) ||
			    ip->prefix_len > (ipv4 ? 32 : 128))
				return EINVAL;
			port->gids[port->num_gids].ipv4 = ip->ipv4;
			port->gids[port->num_gids].prefix_len = ip->prefix_len;
			port->gids[port->num_gids].vlan = cfg->vlan;
			memcpy(port->gids[port->num_gids++].gid, ip->gid, 16);
		}
	}
	return 0;
}

static void fill_info(struct urxe_port *port)
{
	struct urxe_port_info *info = &port->info;
	const struct urxe_port_config *cfg = &port->cfg;

	snprintf(info->name, sizeof(info->name), "%s", cfg->name);
	snprintf(info->link, sizeof(info->link), "%s", cfg->port);
	if (cfg->has_mac)
		memcpy(port->mac, cfg->mac, 6);
	else
		make_mac(port, port->mac);
	memcpy(info->mac, port->mac, 6);
	info->l3_mtu = urxe_config_l3_mtu(cfg);
	info->path_mtu = urxe_config_path_mtu(info->l3_mtu);
	info->vlan = cfg->vlan;
	info->lanes = 1;
	atomic_store(&port->l3_mtu, info->l3_mtu);
}

int urxe_port_create(struct urxe_port **out, const struct urxe_port_config *cfg,
		     const struct urxe_link_ops *ops, void *link_arg)
{
	struct urxe_port *port = calloc(1, sizeof(*port));
	int err = EINVAL;

	if (!port)
		return ENOMEM;
	port->cfg = *cfg;
	if (!port->cfg.vlan || port->cfg.vlan > 4094)
		port->cfg.vlan = URXE_NO_VLAN;
	port->ops = ops;
	port->link_arg = link_arg;
	port->wake_fd = -1;
	pthread_mutex_init(&port->start_lock, NULL);
	pthread_mutex_init(&port->mcast.filter_lock, NULL);
	atomic_store(&port->neigh.next_due, URXE_NEVER);
	port->neigh.announce_due = URXE_NEVER;
	port->mcast.due = URXE_NEVER;
	if (cfg->num_ips > URXE_CONFIG_MAX_IPS || fill_gids(port))
		goto fail;
	fill_info(port);
	if (!port->info.path_mtu || port->info.l3_mtu > 9600 || (port->mac[0] & 1))
		goto fail;
	err = urxe_ident_create(&port->ident, ident_random, port);
	if (err)
		goto fail;
	port->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (port->wake_fd < 0) {
		err = errno;
		goto fail;
	}
	*out = port;
	return 0;
fail:
	urxe_port_destroy(port);
	return err;
}

static void stop(struct urxe_port *port)
{
	for (unsigned i = 0; i < port->num_lanes; i++)
		urxe_tx_fini(&port->lanes[i]);
	free(port->lanes);
	port->ops->close(port->link);
}

void urxe_port_destroy(struct urxe_port *port)
{
	if (!port)
		return;
	if (atomic_load(&port->started))
		stop(port);
	urxe_neigh_destroy(port);
	if (port->ident)
		urxe_ident_destroy(port->ident);
	if (port->wake_fd >= 0)
		close(port->wake_fd);
	pthread_mutex_destroy(&port->mcast.filter_lock);
	pthread_mutex_destroy(&port->start_lock);
	free(port);
}

static int make_lanes(struct urxe_port *port, unsigned n)
{
	port->lanes = calloc(n, sizeof(*port->lanes));
	if (!port->lanes) {
		urxe_err("%s: no memory for %u lanes", port->cfg.name, n);
		return ENOMEM;
	}
	for (unsigned i = 0; i < n; i++) {
		struct urxe_lane *lane = &port->lanes[i];

		urxe_spin_init(&lane->lock);
		lane->index = i;
		lane->port = port;
		lane->ip_id = (uint16_t)urxe_port_random(port);
		urxe_fault_init(lane);
	}
	port->num_lanes = n;
	return 0;
}

/* What the link turned out to be. */
static int adopt(struct urxe_port *port, const struct urxe_link_info *li)
{
	struct urxe_port_info *info = &port->info;
	uint32_t l3 = atomic_load(&port->l3_mtu);

	if (li->max_l3_mtu < l3) {
		urxe_warn("%s: %s carries IP packets of %u bytes, not %u", port->cfg.name,
			  port->cfg.port, li->max_l3_mtu, l3);
		l3 = li->max_l3_mtu;
	}
	if (!urxe_config_path_mtu(l3) || !li->lanes) {
		urxe_err("%s: %s carries too little for RoCEv2 (%u bytes)", port->cfg.name,
			 port->cfg.port, l3);
		return EINVAL;
	}
	memcpy(port->mac, li->mac, 6);
	atomic_store(&port->l3_mtu, l3);
	port->capture = port->ops->capture && port->cfg.pcap[0];
	port->loop_icrc = port->capture || port->cfg.corrupt > 0;
	port->tx_csum = li->tx_offloads & URXE_OFFLOAD_IPV4_CSUM;
	port->rx_csum = li->rx_offloads & URXE_OFFLOAD_IPV4_CSUM;
	urxe_spin_lock(&port->info_lock);
	memcpy(info->driver, li->driver, sizeof(info->driver));
	memcpy(info->mac, li->mac, 6);
	info->l3_mtu = l3;
	info->path_mtu = urxe_config_path_mtu(l3);
	info->speed_mbps = li->speed_mbps;
	info->lanes = li->lanes;
	info->tx_offloads = li->tx_offloads;
	info->rx_offloads = li->rx_offloads;
	info->started = true;
	urxe_spin_unlock(&port->info_lock);
	return 0;
}

static int start_locked(struct urxe_port *port)
{
	struct urxe_link_info li;
	int err;

	memset(&li, 0, sizeof(li));
	err = port->ops->open(port->link_arg, &port->cfg, port->mac, atomic_load(&port->l3_mtu),
			      &port->link, &li);
	if (err)
		return err; /* the link has said why */
	err = make_lanes(port, li.lanes);
	if (!err)
		err = adopt(port, &li);
	if (err) {
		free(port->lanes);
		port->lanes = NULL;
		port->num_lanes = 0;
		port->ops->close(port->link);
		return err;
	}
	atomic_store_explicit(&port->started, true, memory_order_release);
	urxe_neigh_announce(port);
	urxe_mcast_start(port);
	return 0;
}

int urxe_port_start(struct urxe_port *port)
{
	int err = 0;

	if (atomic_load_explicit(&port->started, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&port->start_lock);
	if (!atomic_load_explicit(&port->started, memory_order_relaxed))
		err = start_locked(port);
	pthread_mutex_unlock(&port->start_lock);
	return err;
}
