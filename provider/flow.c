/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Flow rules (ibv_create_flow): which received frames go to which raw packet QP. Rules lie in
 * one list, by priority; writers hold dev->mutex, frames are matched under RCU.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "flow.h"
#include "raw.h"
#include "rcu.h"

#define MAX_FLOWS 1024
#define MAX_SPECS 8

/* All that a frame is matched by, and a mask of the same form. */
struct flow_key {
	uint8_t dst_mac[6], src_mac[6];
	__be16 ether_type, vlan_tag;
	uint8_t src_ip[16], dst_ip[16]; /* of IPv4 the first four bytes */
	__be32 flow_label;
	uint8_t proto, tos, ttl;
	uint8_t has; /* HAS_*: headers that are there */
	__be16 src_port, dst_port;
};

#define HAS_VLAN 0x1
#define HAS_IPV4 0x2
#define HAS_IPV6 0x4
#define HAS_TCP	 0x8
#define HAS_UDP	 0x10

struct urxe_flow {
	struct ibv_flow flow;
	struct urxe_device *dev;
	struct urxe_qp *qp;
	struct urxe_rlist node; /* on dev->flows */
	enum ibv_flow_attr_type type;
	uint16_t priority;
	bool dont_trap;
	struct flow_key val, mask;
	struct urxe_rcu_head rcu;
};

static struct urxe_flow *flow_at(struct urxe_rlist *l)
{
	return urxe_container_of(l, struct urxe_flow, node);
}

/* ---- frames ---- */

static void dissect_l4(const uint8_t *p, uint32_t len, struct flow_key *k)
{
	if ((k->proto != 6 && k->proto != 17) || len < 4)
		return;
	k->has |= k->proto == 6 ? HAS_TCP : HAS_UDP;
	memcpy(&k->src_port, p, 2);
	memcpy(&k->dst_port, p + 2, 2);
}

static void dissect_ipv4(const uint8_t *p, uint32_t len, struct flow_key *k)
{
	uint32_t ihl;

	if (len < 20 || p[0] >> 4 != 4)
		return;
	ihl = (p[0] & 15u) * 4;
	if (ihl < 20 || ihl > len)
		return;
	k->has |= HAS_IPV4;
	k->tos = p[1];
	k->ttl = p[8];
	k->proto = p[9];
	memcpy(k->src_ip, p + 12, 4);
	memcpy(k->dst_ip, p + 16, 4);
	/* Only the first fragment has ports. */
	if (!(urxe_get16(p + 6) & 0x1fff))
		dissect_l4(p + ihl, len - ihl, k);
}

static void dissect_ipv6(const uint8_t *p, uint32_t len, struct flow_key *k)
{
	if (len < 40 || p[0] >> 4 != 6)
		return;
	k->has |= HAS_IPV6;
	k->tos = (uint8_t)(urxe_get16(p) >> 4);
	k->flow_label = htobe32(urxe_get32(p) & 0xfffff);
	k->proto = p[6];
	k->ttl = p[7];
	memcpy(k->src_ip, p + 8, 16);
	memcpy(k->dst_ip, p + 24, 16);
	dissect_l4(p + 40, len - 40, k);
}

/* At least an Ethernet header. */
static void dissect(const uint8_t *p, uint32_t len, struct flow_key *k)
{
	uint32_t off = 14;

	memset(k, 0, sizeof(*k));
	memcpy(k->dst_mac, p, 12);
	memcpy(&k->ether_type, p + 12, 2);
	if (k->ether_type == htobe16(0x8100) && len >= 18) {
		k->has |= HAS_VLAN;
		memcpy(&k->vlan_tag, p + 14, 2);
		memcpy(&k->ether_type, p + 16, 2);
		off = 18;
	}
	if (k->ether_type == htobe16(0x0800))
		dissect_ipv4(p + off, len - off, k);
	else if (k->ether_type == htobe16(0x86dd))
		dissect_ipv6(p + off, len - off, k);
}

static bool matches(const struct urxe_flow *f, const struct flow_key *k)
{
	const uint8_t *a = (const uint8_t *)k, *v = (const uint8_t *)&f->val,
		      *m = (const uint8_t *)&f->mask;

	for (size_t i = 0; i < sizeof(*k); i++)
		if ((a[i] ^ v[i]) & m[i])
			return false;
	return true;
}

static bool deliver(const struct urxe_flow *f, const uint8_t *frame, uint32_t len)
{
	urxe_spin_lock(&f->qp->lock);
	urxe_raw_receive(f->qp, frame, len);
	urxe_spin_unlock(&f->qp->lock);
	return true;
}

/* A QP gets one copy, however many of its rules match: was an earlier one of this kind his? */
static bool had_it(const struct urxe_device *dev, const struct urxe_flow *f,
		   const struct flow_key *k)
{
	struct urxe_rlist *l;

	urxe_rlist_for_each (l, &dev->flows) {
		const struct urxe_flow *e = flow_at(l);

		if (e == f)
			return false;
		if (e->qp == f->qp && e->type == f->type && matches(e, k))
			return true;
	}
	return false;
}

/* All rules of a type that match, down to the priority of the first that keeps the frame. */
static bool deliver_type(struct urxe_device *dev, enum ibv_flow_attr_type type,
			 const struct flow_key *k, const uint8_t *frame, uint32_t len)
{
	unsigned limit = UINT16_MAX;
	struct urxe_rlist *l;
	bool kept = false;

	urxe_rlist_for_each (l, &dev->flows) {
		const struct urxe_flow *f = flow_at(l);

		if (f->type != type || f->priority > limit || !matches(f, k))
			continue;
		if (!had_it(dev, f, k))
			deliver(f, frame, len);
		if (!f->dont_trap) {
			limit = f->priority;
			kept = true;
		}
	}
	return kept;
}

/* RCU read-side. */
static bool flow_deliver(struct urxe_device *dev, const uint8_t *frame, uint32_t len, bool roce)
{
	struct flow_key k;
	bool taken;

	dissect(frame, len, &k);
	taken = deliver_type(dev, IBV_FLOW_ATTR_NORMAL, &k, frame, len);
	/* The defaults take what has no other taker; RoCEv2 has. */
	if (!taken && !roce) {
		if (frame[0] & 1)
			taken = deliver_type(dev, IBV_FLOW_ATTR_MC_DEFAULT, &k, frame, len);
		if (!taken)
			taken = deliver_type(dev, IBV_FLOW_ATTR_ALL_DEFAULT, &k, frame, len);
	}
	deliver_type(dev, IBV_FLOW_ATTR_SNIFFER, &k, frame, len);
	return taken;
}

/* The port's tap: lane held. */
static bool flow_input(void *arg, const uint8_t *frame, uint32_t len, bool roce)
{
	bool taken;

	urxe_rcu_read_lock();
	taken = flow_deliver(arg, frame, len, roce);
	urxe_rcu_read_unlock();
	return taken;
}

/* ---- rules ---- */

#define FIELD(key, to, from)                                                      \
	do {                                                                      \
		memcpy(&f->val.to, &(key)->val.from, sizeof((key)->val.from));    \
		memcpy(&f->mask.to, &(key)->mask.from, sizeof((key)->mask.from)); \
	} while (0)

static void require(struct urxe_flow *f, uint8_t has)
{
	f->val.has |= has;
	f->mask.has |= has;
}

static int spec_eth(struct urxe_flow *f, const struct ibv_flow_spec_eth *s)
{
	FIELD(s, dst_mac, dst_mac);
	FIELD(s, src_mac, src_mac);
	FIELD(s, ether_type, ether_type);
	FIELD(s, vlan_tag, vlan_tag);
	if (s->mask.vlan_tag)
		require(f, HAS_VLAN);
	return 0;
}

static int spec_ipv4(struct urxe_flow *f, const struct ibv_flow_spec_ipv4 *s)
{
	FIELD(s, src_ip, src_ip);
	FIELD(s, dst_ip, dst_ip);
	require(f, HAS_IPV4);
	return 0;
}

static int spec_ipv4_ext(struct urxe_flow *f, const struct ibv_flow_spec_ipv4_ext *s)
{
	FIELD(s, src_ip, src_ip);
	FIELD(s, dst_ip, dst_ip);
	FIELD(s, proto, proto);
	FIELD(s, tos, tos);
	FIELD(s, ttl, ttl);
	require(f, HAS_IPV4);
	return s->mask.flags ? EOPNOTSUPP : 0;
}

static int spec_ipv6(struct urxe_flow *f, const struct ibv_flow_spec_ipv6 *s)
{
	FIELD(s, src_ip, src_ip);
	FIELD(s, dst_ip, dst_ip);
	FIELD(s, flow_label, flow_label);
	FIELD(s, proto, next_hdr);
	FIELD(s, tos, traffic_class);
	FIELD(s, ttl, hop_limit);
	require(f, HAS_IPV6);
	return 0;
}

static int spec_ports(struct urxe_flow *f, const struct ibv_flow_spec_tcp_udp *s)
{
	FIELD(s, src_port, src_port);
	FIELD(s, dst_port, dst_port);
	require(f, s->type == IBV_FLOW_SPEC_TCP ? HAS_TCP : HAS_UDP);
	return 0;
}

static int add_spec(struct urxe_flow *f, const struct ibv_flow_spec *s)
{
	switch (s->hdr.type) {
	case IBV_FLOW_SPEC_ETH:
		return s->hdr.size == sizeof(s->eth) ? spec_eth(f, &s->eth) : EINVAL;
	case IBV_FLOW_SPEC_IPV4:
		return s->hdr.size == sizeof(s->ipv4) ? spec_ipv4(f, &s->ipv4) : EINVAL;
	case IBV_FLOW_SPEC_IPV4_EXT:
		return s->hdr.size == sizeof(s->ipv4_ext) ? spec_ipv4_ext(f, &s->ipv4_ext) : EINVAL;
	case IBV_FLOW_SPEC_IPV6:
		return s->hdr.size == sizeof(s->ipv6) ? spec_ipv6(f, &s->ipv6) : EINVAL;
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		return s->hdr.size == sizeof(s->tcp_udp) ? spec_ports(f, &s->tcp_udp) : EINVAL;
	default:
		return EOPNOTSUPP; /* tunnels, inner headers, actions */
	}
}

static int add_specs(struct urxe_flow *f, const struct ibv_flow_attr *attr)
{
	const uint8_t *p = (const uint8_t *)(attr + 1);
	const uint8_t twice = HAS_IPV4 | HAS_IPV6, ports = HAS_TCP | HAS_UDP;

	if (attr->num_of_specs > MAX_SPECS)
		return EINVAL;
	for (unsigned i = 0; i < attr->num_of_specs; i++) {
		struct ibv_flow_spec s;
		int err;

		/* They lie one behind the other at any address: a copy is aligned. */
		memcpy(&s.hdr, p, sizeof(s.hdr));
		if (s.hdr.size < sizeof(s.hdr) || s.hdr.size > sizeof(s))
			return EINVAL;
		memcpy(&s, p, s.hdr.size);
		err = add_spec(f, &s);
		if (err)
			return err;
		p += s.hdr.size;
	}
	/* No frame is both. */
	if ((f->val.has & twice) == twice || (f->val.has & ports) == ports)
		return EINVAL;
	return 0;
}

static int check_attr(const struct urxe_qp *qp, const struct ibv_flow_attr *attr)
{
	int err = urxe_raw_check_permission();

	if (err)
		return err;
	if (qp->type != IBV_QPT_RAW_PACKET)
		return qp->type == IBV_QPT_UD ? EOPNOTSUPP : EINVAL;
	if (attr->comp_mask || attr->port != 1 || attr->type > IBV_FLOW_ATTR_SNIFFER)
		return EINVAL;
	if (attr->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP)
		return EOPNOTSUPP;
	/* The other types are about all frames. */
	if (attr->type != IBV_FLOW_ATTR_NORMAL && attr->num_of_specs)
		return EINVAL;
	return 0;
}

/* By priority, behind its equals. */
static void insert(struct urxe_device *dev, struct urxe_flow *f) URXE_REQUIRES(dev->mutex)
{
	struct urxe_rlist *at = &dev->flows, *l;

	urxe_rlist_for_each (l, &dev->flows) {
		if (flow_at(l)->priority > f->priority)
			break;
		at = l;
	}
	urxe_rlist_add(at, &f->node);
}

struct ibv_flow *urxe_create_flow(struct ibv_qp *ibqp, struct ibv_flow_attr *attr)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	struct urxe_device *dev = qp->dev;
	struct urxe_flow *f = NULL;
	int err = urxe_device_check(dev);

	if (!err)
		err = check_attr(qp, attr);
	if (!err) {
		f = calloc(1, sizeof(*f));
		err = f ? add_specs(f, attr) : ENOMEM;
	}
	if (err)
		goto fail;
	f->dev = dev;
	f->qp = qp;
	f->type = attr->type;
	f->priority = attr->priority;
	f->dont_trap = attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	f->flow.context = ibqp->context;
	urxe_mutex_lock(&dev->mutex);
	if (dev->num_flows >= MAX_FLOWS)
		err = ENOMEM;
	else
		f->flow.handle = ++dev->num_flows;
	if (!err) {
		atomic_fetch_add(&qp->flows, 1);
		insert(dev, f);
		if (dev->num_flows == 1)
			urxe_port_raw_tap(dev->port, flow_input, dev);
	}
	urxe_mutex_unlock(&dev->mutex);
	if (!err)
		return &f->flow;
fail:
	free(f);
	errno = err;
	return NULL;
}

int urxe_destroy_flow(struct ibv_flow *ibflow)
{
	struct urxe_flow *f = urxe_container_of(ibflow, struct urxe_flow, flow);
	struct urxe_device *dev = f->dev;

	urxe_mutex_lock(&dev->mutex);
	urxe_rlist_del(&dev->flows, &f->node);
	if (!--dev->num_flows)
		urxe_port_raw_tap(dev->port, NULL, NULL);
	urxe_mutex_unlock(&dev->mutex);
	atomic_fetch_sub(&f->qp->flows, 1);
	urxe_rcu_free(&f->rcu, f);
	return 0;
}
