/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ports: a link with its addresses (addr.c). Read here first: how the link is brought up and slept
 * on.
 */
#include "netio/stack.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "netio/clock.h"
#include "netio/fabric.h"
#include "netio/identity.h"
#include "urxe/cancel.h"
#include "urxe/inode.h"
#include "urxe/log.h"
#include "urxe/sparse.h"

#define LARGE_L3 2200		   /* bytes of an IP packet: of path MTU 2048 are none */
#define WAY_NS	 (200 * URXE_MSEC) /* what the widest way takes may be so old */

/* ---- clock, randomness, sleep ---- */

bool urxe_port_is_card(const struct urxe_port *port)
{
	return port->card;
}

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

/*
 * Who wakes us may have been put aside by us, between its two steps: the descriptor is read until
 * what it wrote is there.
 */
static void wake_consume(struct urxe_port *port)
{
	uint64_t v;

	if (atomic_load(&port->woken) && atomic_exchange(&port->woken, false))
		atomic_fetch_add(&port->wakes, 1);
	if (atomic_load_explicit(&port->wakes, memory_order_relaxed) &&
	    read(port->wake_fd, &v, sizeof(v)) == sizeof(v))
		atomic_fetch_sub(&port->wakes, (unsigned)v);
}

static uint64_t until(struct urxe_port *port, uint64_t ns)
{
	uint64_t now = urxe_port_now(port);

	return ns < URXE_NEVER - now ? now + ns : URXE_NEVER;
}

void urxe_port_wait(struct urxe_port *port, uint64_t ns, struct urxe_sleep *how)
{
	struct pollfd pfd = {.fd = port->wake_fd, .events = POLLIN};
	/* Pairs with start_locked(), as all acquires of it. */
	bool started = atomic_load_explicit(&port->started, memory_order_acquire);
	bool wanted = how->interrupt;

	how->signal = false;
	/* Nothing arrives on a wire that is not there. */
	how->interrupt = !started || port->ops->no_wire;
	if (atomic_load(&port->woken)) {
		wake_consume(port);
		return;
	}
	if (started && frames_wait(port))
		return;
	/* Pairs with urxe_port_wake_by(): who is late to see that we wait has told the time of the
	 * tick before. */
	atomic_store(&port->wait_until, until(port, ns));
	if (started && urxe_port_next_tick(port) < how->tick) {
		atomic_store(&port->wait_until, 0);
		return;
	}
	if (started && port->ops->wait) {
		how->interrupt = wanted;
		port->ops->wait(port->link, ns, port->wake_fd, how);
	} else
		urxe_sleep_poll(how, &pfd, 1, ns);
	atomic_store_explicit(&port->wait_until, 0, memory_order_relaxed);
	wake_consume(port);
}

bool urxe_port_naps(const struct urxe_port *port)
{
	return port->ops->nap;
}

void urxe_port_nap(struct urxe_port *port, uint64_t ns)
{
	struct timespec ts = urxe_clock_span(ns);

	if (frames_wait(port))
		return;
	if (port->ops->nap)
		port->ops->nap(port->link, ns);
	else
		nanosleep(&ts, NULL);
}

bool urxe_port_prompt(const struct urxe_port *port)
{
	return port->ops->prompt;
}

unsigned urxe_port_burst(const struct urxe_port *port)
{
	unsigned n = port->ops->burst;

	/* Of large packets a few are much already, and more would leave the cache meanwhile. */
	if (!n || atomic_load(&port->l3_mtu) > LARGE_L3)
		return URXE_BURST;
	return n < URXE_BURST_MOST ? n : URXE_BURST_MOST;
}

bool urxe_port_waits(const struct urxe_port *port)
{
	return port->ops->waits && atomic_load(&port->started) && port->ops->waits(port->link);
}

bool urxe_port_shared(const struct urxe_port *port)
{
	return port->ops->steer;
}

void urxe_port_on_gone(struct urxe_port *port, urxe_gone_fn *fn, void *arg)
{
	port->gone_fn = fn;
	port->gone_arg = arg;
}

bool urxe_port_nobody(struct urxe_port *port, uint32_t qpn)
{
	return port->ops->nobody && atomic_load_explicit(&port->started, memory_order_acquire) &&
	       port->ops->nobody(port->link, urxe_ident_qpn_slot(qpn));
}

/* Its address may be somebody else's by now. */
static void somebody_gone(void *arg, unsigned slot)
{
	struct urxe_port *port = arg;

	urxe_neigh_doubt(port);
	if (port->gone_fn)
		port->gone_fn(port->gone_arg, slot);
}

bool urxe_port_wired(const struct urxe_port *port)
{
	return !port->ops->no_wire;
}

void urxe_port_wake(struct urxe_port *port)
{
	uint64_t one = 1;
	int cancel;

	/* Before the write: who is woken finds it so, and the next wake writes again. */
	if (atomic_exchange(&port->woken, true))
		return;
	cancel = urxe_cancel_off();
	(void)!write(port->wake_fd, &one, sizeof(one));
	urxe_cancel_back(cancel);
	if (port->ops->wake && atomic_load_explicit(&port->started, memory_order_acquire))
		port->ops->wake(port->link);
}

void urxe_port_wake_by(struct urxe_port *port, uint64_t when)
{
	if (when < atomic_load(&port->wait_until))
		urxe_port_wake(port);
}

/* ---- queries ---- */

/* The kernel's interfaces are looked through for that: not for each query. */
static uint32_t widest_way(struct urxe_port *port)
{
	uint64_t now = urxe_port_now(port), asked = atomic_load(&port->way_asked);

	if (!asked || now - asked >= WAY_NS) {
		atomic_store(&port->way_l3, port->ops->way_mtu(&port->cfg, NULL, NULL));
		atomic_store(&port->way_asked, now ? now : 1);
	}
	return atomic_load(&port->way_l3);
}

uint32_t urxe_port_far_l3(struct urxe_port *port)
{
	return port->ops->way_mtu ? widest_way(port) : atomic_load(&port->far_l3);
}

void urxe_port_query(struct urxe_port *port, struct urxe_port_info *info)
{
	urxe_spin_lock(&port->info_lock);
	*info = port->info;
	urxe_spin_unlock(&port->info_lock);
	info->far_mtu = urxe_config_path_mtu(urxe_port_far_l3(port));
	if (info->far_mtu >= info->path_mtu)
		info->far_mtu = 0;
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

	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		for (unsigned j = 0; j < 16; j++)
			h = (h ^ urxe_port_own(port, i)->gid[j]) * 0x100000001b3ull;
	}
	for (const char *s = port->cfg.name; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3ull;
	h ^= h >> 29;
	for (unsigned i = 0; i < 6; i++, h >>= 8)
		mac[i] = (uint8_t)h;
	mac[0] = 0x02;
}

static void fill_info(struct urxe_port *port)
{
	struct urxe_port_info *info = &port->info;
	const struct urxe_port_config *cfg = &port->cfg;

	static_assert(sizeof(info->name) == sizeof(cfg->name) &&
			      sizeof(info->link) == sizeof(cfg->port),
		      "strings with their ends");
	memcpy(info->name, cfg->name, sizeof(info->name));
	memcpy(info->link, cfg->port, sizeof(info->link));
	if (cfg->has_mac)
		memcpy(port->mac, cfg->mac, 6);
	else if (!port->ops->mac || !port->ops->mac(port->link_arg, cfg, port->mac))
		make_mac(port, port->mac);
	memcpy(info->mac, port->mac, 6);
	info->l3_mtu = urxe_config_l3_mtu(cfg);
	info->path_mtu = urxe_config_port_path_mtu(cfg, info->l3_mtu);
	info->vlan = cfg->vlan;
	info->lanes = 1;
	atomic_store(&port->l3_mtu, info->l3_mtu);
}

static void locks_init(struct urxe_port *port)
{
	urxe_mutex_init(&port->host_lock);
	urxe_mutex_init(&port->start_lock);
	urxe_mutex_init(&port->mcast.filter_lock);
}

int urxe_port_create(struct urxe_port **out, const struct urxe_port_config *cfg,
		     const struct urxe_link_ops *ops, void *link_arg)
{
	struct urxe_port *port = urxe_alloc_sparse(sizeof(*port));
	int err;

	if (!port)
		return ENOMEM;
	port->cfg = *cfg;
	if (!port->cfg.vlan || port->cfg.vlan > 4094)
		port->cfg.vlan = URXE_NO_VLAN;
	port->ops = ops;
	port->link_arg = link_arg;
	port->wake_fd = -1;
	locks_init(port);
	atomic_store(&port->neigh.next_due, URXE_NEVER);
	port->neigh.announce_due = URXE_NEVER;
	port->mcast.due = URXE_NEVER;
	err = ops->fabric ? ops->fabric(cfg, &port->fabric) : 0;
	if (port->fabric)
		port->link_arg = port->fabric;
	if (!err)
		err = urxe_addr_init(port);
	if (err)
		goto fail;
	err = EINVAL;
	fill_info(port);
	if (!port->info.path_mtu || port->info.l3_mtu > 9600 || (port->mac[0] & 1))
		goto fail;
	err = port->fabric
		      ? urxe_ident_create_fabric(&port->ident, port->fabric, ident_random, port)
		      : urxe_ident_create(&port->ident, ident_random, port);
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

/* Under one number, a descriptor of our own: the parent's takes wakes from us, and we from it. */
static void renew_wake_fd(struct urxe_port *port)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct urxe_inode new;

	/* A program that closes all there is may have another file there. */
	if (fd >= 0 && urxe_inode_of(fd, &new) && urxe_inode_in(port->wake_fd, &new))
		dup3(fd, port->wake_fd, O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	atomic_store(&port->woken, false);
	atomic_store(&port->wakes, 0);
}

void urxe_port_inherit(struct urxe_port *port)
{
	locks_init(port);
	renew_wake_fd(port);
	if (port->fabric)
		urxe_fabric_inherit(port->fabric);
}

static void stop(struct urxe_port *port)
{
	for (unsigned i = 0; i < port->num_lanes; i++)
		urxe_tx_fini(&port->lanes[i]);
	free(port->lanes);
	port->ops->close(port->link);
	urxe_capture_close(port->capture);
}

void urxe_port_destroy(struct urxe_port *port)
{
	if (!port)
		return;
	if (atomic_load(&port->started))
		stop(port);
	urxe_neigh_destroy(port);
	urxe_addr_fini(port);
	if (port->ident)
		urxe_ident_destroy(port->ident);
	if (port->fabric)
		urxe_fabric_put(port->fabric);
	if (port->wake_fd >= 0)
		close(port->wake_fd);
	urxe_mutex_fini(&port->mcast.filter_lock);
	urxe_mutex_fini(&port->start_lock);
	urxe_mutex_fini(&port->host_lock);
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
		lane->burst = urxe_port_burst(port);
		lane->port = port;
		lane->ip_id_step = !port->ops->udp_sport;
		lane->ip_id = lane->ip_id_step ? (uint16_t)urxe_port_random(port) : 0;
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
	/* Looped frames pass the faults of what is sent, and no others. */
	port->loop_icrc =
		port->capture || urxe_config_fault(&port->cfg, true, URXE_FAULT_CORRUPT) > 0;
	port->shared = li->no_icrc;
	port->wire_icrc = !li->no_icrc || port->loop_icrc;
	if (port->wire_icrc)
		urxe_icrc_load();
	port->card = li->card;
	port->peer = li->peer;
	port->may_hold = port->ops->let_go ? li->may_hold : 0;
	port->wire_flags = (li->tx_offloads & URXE_OFFLOAD_IPV4_CSUM ? TX_CSUM : 0) |
			   (port->wire_icrc ? 0 : TX_NOICRC);
	port->places = port->ops->reserve;
	port->rx_csum = li->rx_offloads & URXE_OFFLOAD_IPV4_CSUM;
	urxe_spin_lock(&port->info_lock);
	memcpy(info->driver, li->driver, sizeof(info->driver));
	memcpy(info->mac, li->mac, 6);
	info->l3_mtu = l3;
	info->path_mtu = urxe_config_port_path_mtu(&port->cfg, l3);
	info->speed_mbps = li->speed_mbps;
	info->lanes = li->lanes;
	info->peer = li->peer;
	info->tx_offloads = li->tx_offloads;
	info->rx_offloads = li->rx_offloads;
	info->started = true;
	urxe_spin_unlock(&port->info_lock);
	return 0;
}

static void capture_end(struct urxe_port *port)
{
	urxe_capture_close(port->capture);
	port->capture = NULL;
}

static int tell_addresses(struct urxe_port *port) URXE_REQUIRES(port->start_lock)
{
	const struct urxe_gid_entry *own;
	int err = 0;

	for (unsigned i = 0; port->ops->addr && i < urxe_port_gid_end(port) && !err; i++) {
		own = urxe_port_own(port, i);
		if (own)
			err = port->ops->addr(port->link, true, own->gid);
	}
	return err;
}

static int start_locked(struct urxe_port *port) URXE_REQUIRES(port->start_lock)
{
	struct urxe_link_info li;
	int err;

	memset(&li, 0, sizeof(li));
	if (port->cfg.pcap[0]) {
		err = urxe_capture_open(&port->capture, port->cfg.pcap, port->cfg.name);
		if (err)
			return err;
	}
	err = port->ops->open(port->link_arg, &port->cfg, port->mac, atomic_load(&port->l3_mtu),
			      &port->link, &li);
	if (err) {
		capture_end(port);
		return err; /* the link has said why */
	}
	err = tell_addresses(port);
	if (!err)
		err = make_lanes(port, li.lanes);
	if (!err)
		err = adopt(port, &li);
	if (err) {
		free(port->lanes);
		port->lanes = NULL;
		port->num_lanes = 0;
		port->ops->close(port->link);
		capture_end(port);
		return err;
	}
	/* Pairs with the acquires of it: who sees it sees link, lanes, MAC and capture. */
	atomic_store_explicit(&port->started, true, memory_order_release);
	urxe_neigh_announce(port, UINT64_MAX);
	urxe_mcast_start(port);
	if (port->ops->on_gone)
		port->ops->on_gone(port->link, somebody_gone, port);
	return 0;
}

int urxe_port_start(struct urxe_port *port)
{
	int err = 0;

	if (atomic_load_explicit(&port->started, memory_order_acquire))
		return 0;
	urxe_mutex_lock(&port->start_lock);
	if (!atomic_load_explicit(&port->started, memory_order_relaxed))
		err = start_locked(port);
	urxe_mutex_unlock(&port->start_lock);
	return err;
}
