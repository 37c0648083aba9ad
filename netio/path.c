/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Paths: the headers of a flow, built once. What differs from packet to packet (MACs,
 * lengths, id, checksum) tx.c fills in.
 */
#include "netio/stack.h"

#include <stdlib.h>

#include "urxe/free.h"

#define DEFAULT_HOPS 64

static bool is_zero(const uint8_t *p, unsigned n)
{
	while (n && !*p)
		p++, n--;
	return !n;
}

static uint8_t *put_l2(struct urxe_path *path, uint16_t vlan)
{
	uint8_t *p = path->hdr;

	if (vlan != URXE_NO_VLAN) {
		urxe_put16(p, ETHERTYPE_VLAN);
		urxe_put16(p + 2, vlan);
		p += VLAN_LEN;
	}
	urxe_put16(p, path->ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	path->l3_off = (uint8_t)(PATH_MACS + p + 2 - path->hdr);
	return p + 2;
}

static uint8_t *put_l3(struct urxe_path *path, const struct urxe_path_attr *a,
		       const uint8_t sgid[16], uint8_t *p)
{
	uint8_t hops = a->hop_limit ? a->hop_limit : DEFAULT_HOPS;

	if (!path->ipv4) {
		urxe_put32(p,
			   6u << 28 | (uint32_t)a->traffic_class << 20 | (a->flow_label & 0xfffff));
		p[6] = PROTO_UDP;
		p[7] = hops;
		memcpy(p + 8, sgid, 16);
		memcpy(p + 24, path->dgid, 16);
		return p + IPV6_LEN;
	}
	p[0] = 0x45;
	p[1] = a->traffic_class;
	p[6] = 0x40; /* DF, as kernel rxe */
	p[8] = hops;
	p[9] = PROTO_UDP;
	memcpy(p + 12, sgid + 12, 4);
	memcpy(p + 16, path->dgid + 12, 4);
	path->ip_sum = urxe_sum(0, p, IPV4_LEN);
	return p + IPV4_LEN;
}

/* Beyond the fabric's gateway less may go. */
static uint32_t l3_mtu(const struct urxe_path *path)
{
	struct urxe_port *port = path->port;
	uint32_t l3 = atomic_load(&port->l3_mtu), far = atomic_load(&port->far_l3);

	return far && far < l3 && path->neigh && urxe_neigh_far(port, path->neigh->gid) ? far : l3;
}

static void put_headers(struct urxe_path *path, const struct urxe_path_attr *a)
{
	struct urxe_port *port = path->port;
	uint8_t *p = put_l2(path, port->cfg.vlan);

	p = put_l3(path, a, path->own->entry.gid, p);
	urxe_put16(p, path->udp_sport);
	urxe_put16(p + 2, URXE_UDP_DPORT);
	/* The checksum stays 0, over IPv6 too (RFC 6935), as kernel rxe's: the ICRC covers more. */
	path->hdr_len = (uint8_t)(PATH_MACS + p + UDP_LEN - path->hdr);
	path->max_len = (uint16_t)(l3_mtu(path) - (path->hdr_len - path->l3_off) - URXE_ICRC_LEN);
}

static int find_way(struct urxe_path *path, const struct urxe_path_attr *a)
{
	struct urxe_port *port = path->port;
	uint8_t next[16];
	int err;

	path->kind = urxe_port_way(port, path->dgid);
	if (path->kind == PATH_MCAST)
		urxe_mcast_mac(path->dgid, path->mac);
	if (path->kind != PATH_WIRE)
		return 0;
	err = urxe_port_next_hop(port, &path->own->entry, path->dgid, next);
	if (!err)
		err = urxe_neigh_get(port, next, a->sgid_index, &path->neigh);
	/* Before the first packet: deaths on this machine are no business of who is far. */
	if (!err)
		urxe_neigh_far(port, next);
	return err;
}

/* Whom a packet went to, and by which port: many flows may go to one peer. */
static struct urxe_path_list *bucket(struct urxe_port *port, const uint8_t dgid[16], uint16_t sport)
{
	return &port->paths.bucket[(urxe_gid_hash(dgid) + sport) % PATH_BUCKETS];
}

static void list_path(struct urxe_path *path)
{
	struct urxe_path_table *t = &path->port->paths;

	urxe_spin_lock(&t->lock);
	LIST_INSERT_HEAD(bucket(path->port, path->dgid, path->udp_sport), path, in_use);
	urxe_spin_unlock(&t->lock);
}

static void unlist_path(struct urxe_path *path)
{
	struct urxe_path_table *t = &path->port->paths;

	urxe_spin_lock(&t->lock);
	LIST_REMOVE(path, in_use);
	urxe_spin_unlock(&t->lock);
}

bool urxe_path_in_use(struct urxe_port *port, const uint8_t sgid[16], const uint8_t dgid[16],
		      uint16_t udp_sport)
{
	const struct urxe_path *p;

	urxe_spin_lock(&port->paths.lock);
	LIST_FOREACH(p, bucket(port, dgid, udp_sport), in_use)
	{
		if (p->udp_sport == udp_sport && !memcmp(p->dgid, dgid, 16) &&
		    !memcmp(p->own->entry.gid, sgid, 16))
			break;
	}
	urxe_spin_unlock(&port->paths.lock);
	return p;
}

int urxe_path_create(struct urxe_port *port, const struct urxe_path_attr *attr,
		     struct urxe_path **out)
{
	const struct urxe_own *own = NULL;
	struct urxe_path *path;
	unsigned other;
	int err;

	if (attr->sgid_index < URXE_PORT_MAX_GIDS)
		/* Pairs with publish(). */
		own = atomic_load_explicit(&port->gids[attr->sgid_index], memory_order_acquire);
	if (!own || is_zero(attr->dgid, 16))
		return EINVAL;
	if (urxe_gid_is_v4(attr->dgid) != own->entry.ipv4)
		return ENETUNREACH;
	path = urxe_alloc_lines(sizeof(*path));
	if (!path)
		return ENOMEM;
	path->port = port;
	path->own = own;
	path->ipv4 = own->entry.ipv4;
	path->udp_sport = port->ops->udp_sport ? port->ops->udp_sport : attr->udp_sport;
	memcpy(path->dgid, attr->dgid, 16);
	/* 127.0.0.1 and ::1 become an own address. */
	err = urxe_port_route(port, attr->dgid, &other, path->dgid);
	if (!err)
		err = find_way(path, attr);
	if (err) {
		free(path);
		return err;
	}
	put_headers(path, attr);
	if (path->kind == PATH_WIRE)
		list_path(path);
	*out = path;
	return 0;
}

void urxe_path_suspect(struct urxe_lane *lane, struct urxe_path *path)
{
	if (path->kind == PATH_WIRE)
		urxe_neigh_suspect(lane, path->neigh);
}

bool urxe_path_far(const struct urxe_path *path)
{
	return path->neigh && atomic_load_explicit(&path->neigh->far, memory_order_relaxed);
}

void urxe_path_destroy(struct urxe_path *path)
{
	if (!path)
		return;
	if (path->kind == PATH_WIRE)
		unlist_path(path);
	if (path->neigh)
		urxe_neigh_put(path->port, path->neigh);
	urxe_free(path);
}
