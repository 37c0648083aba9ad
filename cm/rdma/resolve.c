/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Destination addresses to devices, own addresses and neighbours; routes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/sa.h>

#include "cm/rdma/cma.h"
#include "provider/gsi.h"
#include "urxe/gid.h"

/* How near a destination is by a device; -1: cannot be reached by it. */
static int nearness(struct urxe_cma_dev *dev, const union ibv_gid *dgid, unsigned *index,
		    union ibv_gid *next) URXE_REQUIRES(urxe_cma_lock)
{
	bool v4 = urxe_gid_is_v4(dgid->raw);
	unsigned bit = v4 ? 96 : 0, len;
	union ibv_gid own;
	int prefix;

	if (urxe_gsi_route(dev->verbs, dgid, index, next)) {
		/* The host may just have got an address. */
		urxe_cma_look(dev);
		if (urxe_gsi_route(dev->verbs, dgid, index, next))
			return -1;
	}
	if (urxe_agent_own_gid(dev, next) >= 0)
		return 1000;
	prefix = urxe_gsi_prefix(dev->verbs, *index);
	if (prefix < 0 || urxe_gsi_gid(dev->verbs, *index, &own))
		return -1;
	len = bit + (unsigned)prefix;
	for (; bit < len; bit++) {
		if ((own.raw[bit / 8] ^ dgid->raw[bit / 8]) & 0x80 >> bit % 8)
			return 0; /* by a gateway */
	}
	return 1 + prefix;
}

/* The device and own address for the destination; respects what the id is bound to. */
static int route(struct urxe_cma_id *id, const struct sockaddr *dst) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_dev *best = NULL;
	unsigned best_index = 0;
	union ibv_gid dgid, best_next;
	int best_near = -1, err = 0;

	urxe_cma_addr_gid(dst, &dgid);
	if (urxe_cma_addr_any(dst)) { /* means: here */
		memset(&dgid, 0, sizeof(dgid));
		dgid.raw[15] = 1;
		if (urxe_cma_addr_v4(dst)) {
			dgid.raw[10] = dgid.raw[11] = 0xff;
			dgid.raw[12] = 127;
		}
	}
	for (unsigned i = 0; i < urxe_cma_num_devices(); i++) {
		struct urxe_cma_dev *dev = urxe_cma_device(i, &err);
		union ibv_gid next;
		unsigned index;
		int near;

		if (!dev || dev->lost || (id->dev && dev != id->dev))
			continue;
		near = nearness(dev, &dgid, &index, &next);
		if (near > best_near) {
			best = dev;
			best_near = near;
			best_index = index;
			best_next = next;
		}
	}
	if (!best)
		return err ? err : ENETUNREACH;
	id->dgid = best_next;
	if (id->has_sgid)
		return 0; /* stays with its own address */
	id->sgid_index = (uint8_t)best_index;
	err = urxe_gsi_gid(best->verbs, best_index, &id->sgid);
	if (!err && !id->dev)
		urxe_cma_attach(id, best);
	return err;
}

uint32_t urxe_cma_flow_label(const struct urxe_cma_id *id)
{
	/* A hash of both port numbers, as entropy for the UDP source port (IBTA A17). */
	uint64_t v = (uint64_t)urxe_cma_addr_port(&id->id.route.addr.src_addr) *
		     urxe_cma_addr_port(&id->id.route.addr.dst_addr);

	v ^= v >> 20;
	v ^= v >> 40;
	v &= 0xfffff;
	return v ? (uint32_t)v : 1;
}

void urxe_cma_set_path_rec(struct urxe_cma_id *id)
{
	struct rdma_route *r = &id->id.route;
	struct urxe_cm_path path;

	r->path_rec = &id->path_rec;
	urxe_cma_path(id, &path);
	*r->path_rec = (struct ibv_sa_path_rec){
		.dgid = path.dgid,
		.sgid = path.sgid,
		.flow_label = htobe32(path.flow_label),
		.hop_limit = path.hop_limit,
		.traffic_class = path.traffic_class,
		.reversible = 1,
		.numb_path = 1,
		.pkey = htobe16(path.pkey),
		.sl = path.sl,
		.mtu_selector = 2, /* exactly */
		.mtu = path.mtu,
		.rate_selector = 2,
		.rate = IBV_RATE_10_GBPS,
		.packet_life_time_selector = 2,
		.packet_life_time = (uint8_t)(path.ack_timeout - 1), /* one way; ACKs come back */
	};
	r->num_paths = 1;
}

/* Ephemeral port and public addresses of an id whose way is known. */
static int fill_addresses(struct urxe_cma_id *id, const struct sockaddr *dst)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct rdma_addr *a = &id->id.route.addr;
	uint16_t port = urxe_cma_addr_port(&a->src_addr);
	int err = 0;

	/* Bound by number only: the address is known now. A new id has nothing yet. */
	if (id->state == URXE_CMA_IDLE || id->loopback || urxe_cma_addr_any(&a->src_addr))
		urxe_cma_gid_addr(&id->sgid, dst->sa_family, port, &a->src_addr);
	urxe_cma_addr_set_scope(&a->src_addr, urxe_gsi_scope(id->dev->verbs, &id->sgid));
	memcpy(&a->dst_storage, dst, urxe_cma_addr_len(dst));
	if (!port)
		err = urxe_cma_claim_port(id, &id->sgid);
	a->addr.ibaddr.sgid = id->sgid;
	a->addr.ibaddr.dgid = id->dgid;
	return err;
}

/*
 * The id is what it was before, so that it may find another destination by another device; who put
 * something on the device before it was resolved keeps it.
 */
static void undo(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock)
{
	id->state = URXE_CMA_BOUND;
	if (id->before.on_device || id->id.qp || id->id.srq)
		return;
	if (!id->before.bound)
		urxe_cma_release_port(id);
	urxe_cma_unbind(id);
	if (id->before.bound)
		memcpy(&id->id.route.addr.src_storage, &id->before.src, sizeof(id->before.src));
	else
		id->state = URXE_CMA_IDLE;
	id->loopback = id->before.loopback;
}

static void resolve_done(struct urxe_cma_id *id, int err) URXE_REQUIRES(urxe_cma_lock)
{
	if (err) {
		undo(id);
		urxe_cma_tell(id, RDMA_CM_EVENT_ADDR_ERROR, -err);
		return;
	}
	id->state = URXE_CMA_ADDR_RESOLVED;
	urxe_cma_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

static void query_done(struct urxe_agent_query *q, int err) URXE_REQUIRES(urxe_cma_lock)
{
	resolve_done(caa_container_of(q, struct urxe_cma_id, query), err);
}

static int bind_source(struct urxe_cma_id *id, const struct sockaddr *src,
		       const struct sockaddr *dst) URXE_REQUIRES(urxe_cma_lock)
{
	bool says_nothing = urxe_cma_addr_any(src) && !urxe_cma_addr_port(src);

	return says_nothing && !urxe_cma_addr_mix(src, dst) ? 0 : urxe_cma_bind(id, src);
}

static int resolve(struct urxe_cma_id *id, const struct sockaddr *src, const struct sockaddr *dst,
		   int timeout_ms) URXE_REQUIRES(urxe_cma_lock)
{
	int err;

	if (id->state != URXE_CMA_IDLE && id->state != URXE_CMA_BOUND)
		return EINVAL;
	id->before.bound = id->state == URXE_CMA_BOUND;
	id->before.on_device = id->dev;
	id->before.loopback = id->loopback;
	id->before.src = id->id.route.addr.src_storage;
	/* As the kernel: the source of an id that is bound is not looked at. */
	err = id->state == URXE_CMA_IDLE && src ? bind_source(id, src, dst) : 0;
	if (!err && id->state == URXE_CMA_BOUND &&
	    urxe_cma_addr_mix(&id->id.route.addr.src_addr, dst))
		err = EINVAL;
	if (!err)
		err = route(id, dst);
	if (!err)
		err = fill_addresses(id, dst);
	if (err) {
		undo(id);
		return err;
	}
	id->query.sgid_index = id->sgid_index;
	id->query.dgid = id->dgid;
	id->query.patience = (timeout_ms > 0 ? (uint64_t)timeout_ms : 0) * 1000000ull;
	id->query.done = query_done;
	id->state = URXE_CMA_ADDR_QUERY;
	err = urxe_agent_resolve(id->dev, &id->query);
	if (err)
		undo(id);
	return err;
}

URXE_CMA_API int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
				   struct sockaddr *dst_addr, int timeout_ms)
{
	int err;

	if (!urxe_cma_addr_len(dst_addr) || (src_addr && !urxe_cma_addr_len(src_addr)))
		return urxe_cma_ret(EINVAL);
	err = urxe_cma_begin_wait(id);
	if (err)
		return urxe_cma_ret(err);
	return urxe_cma_end_wait(id, resolve(to_cma_id(id), src_addr, dst_addr, timeout_ms));
}

/* On RoCE a route is known with the address: there is nobody to ask. */
static int resolve_route(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock)
{
	if (id->state != URXE_CMA_ADDR_RESOLVED)
		return EINVAL;
	urxe_cma_set_path_rec(id);
	id->state = URXE_CMA_ROUTE_RESOLVED;
	urxe_cma_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

URXE_CMA_API int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	int err = urxe_cma_begin_wait(id);

	if (err)
		return urxe_cma_ret(err);
	return urxe_cma_end_wait(id, resolve_route(to_cma_id(id)));
}
