/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Own addresses and port numbers of ids. */
#include <errno.h>
#include <string.h>

#include "cm/rdma/cma.h"
#include "provider/gsi.h"

static enum urxe_ident_space space_of(enum rdma_port_space ps)
{
	switch (ps) {
	case RDMA_PS_UDP:
		return URXE_IDENT_UDP;
	case RDMA_PS_IB:
		return URXE_IDENT_IB;
	case RDMA_PS_IPOIB:
		return URXE_IDENT_IPOIB;
	default:
		return URXE_IDENT_TCP;
	}
}

uint64_t urxe_cma_service_id(const struct urxe_cma_id *id, const struct sockaddr *addr)
{
	if (urxe_cma_addr_ib(addr))
		return be64toh(((const struct sockaddr_ib *)(const void *)addr)->sib_sid);
	return (uint64_t)id->id.ps << 16 | urxe_cma_addr_port(addr);
}

void urxe_cma_release_port(struct urxe_cma_id *id)
{
	for (unsigned i = 0; i < urxe_cma_num_devices(); i++) {
		int err;
		struct urxe_cma_dev *dev;

		if (!id->claims[i])
			continue;
		dev = urxe_cma_device(i, &err);
		urxe_ident_port_release(urxe_gsi_ident(dev->verbs), id->claims[i]);
		id->claims[i] = NULL;
	}
}

void urxe_cma_reuse_port(struct urxe_cma_id *id)
{
	for (unsigned i = 0; i < urxe_cma_num_devices(); i++) {
		struct urxe_cma_dev *dev;
		int err;

		if (!id->claims[i])
			continue;
		dev = urxe_cma_device(i, &err);
		urxe_ident_port_reuse(urxe_gsi_ident(dev->verbs), id->claims[i], id->reuse);
	}
}

static int claim_on(struct urxe_cma_id *id, struct urxe_cma_dev *dev, const union ibv_gid *gid,
		    uint16_t *port)
{
	unsigned flags = id->reuse ? URXE_IDENT_PORT_REUSE : 0;

	if (urxe_cma_addr_v4(&id->id.route.addr.src_addr))
		flags |= URXE_IDENT_PORT_V4;
	else if (id->afonly || id->loopback)
		flags |= URXE_IDENT_PORT_V6ONLY;
	return urxe_ident_port_claim(urxe_gsi_ident(dev->verbs), space_of(id->space), gid->raw,
				     flags, port, &id->claims[dev->index]);
}

static int claim_on_all(struct urxe_cma_id *id, const union ibv_gid *gid, uint16_t *port)
	URXE_REQUIRES(urxe_cma_lock)
{
	uint16_t wanted = *port;
	int err = 0;

	/* The same number on all devices: an ephemeral one of the first may be taken elsewhere. */
	for (unsigned tries = 0; tries < 64; tries++) {
		*port = wanted;
		err = 0;
		for (unsigned i = 0; !err && i < urxe_cma_num_devices(); i++) {
			struct urxe_cma_dev *dev = urxe_cma_device(i, &err);

			if (dev)
				err = claim_on(id, dev, gid, port);
		}
		if (!err)
			return 0;
		urxe_cma_release_port(id);
		if (wanted || err != EADDRINUSE)
			break;
	}
	return err;
}

int urxe_cma_claim_port(struct urxe_cma_id *id, const union ibv_gid *gid)
{
	struct sockaddr *src = &id->id.route.addr.src_addr;
	uint16_t port = urxe_cma_addr_port(src);
	int err = 0;

	if (urxe_cma_addr_ib(src))
		err = urxe_cma_addr_ib_space(src, id->id.ps, &id->space);
	if (err)
		return err;
	if (id->dev)
		err = claim_on(id, id->dev, gid, &port);
	else
		err = claim_on_all(id, gid, &port);
	if (!err)
		urxe_cma_addr_set_port(src, port);
	return err;
}

/* The device of an own address. */
static int find_device(struct urxe_cma_id *id, const struct sockaddr *addr, union ibv_gid *gid)
	URXE_REQUIRES(urxe_cma_lock)
{
	int err = 0;

	urxe_cma_addr_gid(addr, gid);
	for (unsigned i = 0; i < urxe_cma_num_devices(); i++) {
		struct urxe_cma_dev *dev = urxe_cma_device(i, &err);
		int own;

		if (!dev || dev->lost)
			continue;
		own = urxe_agent_own_gid(dev, gid);
		if (own < 0) {
			/* The host may just have got it. */
			urxe_cma_look(dev);
			own = urxe_agent_own_gid(dev, gid);
		}
		if (own < 0)
			continue;
		urxe_cma_attach(id, dev);
		id->sgid_index = (uint8_t)own;
		id->sgid = *gid;
		id->has_sgid = true;
		return 0;
	}
	return err ? err : EADDRNOTAVAIL;
}

void urxe_cma_unbind(struct urxe_cma_id *id)
{
	memset(&id->id.route.addr.src_storage, 0, sizeof(id->id.route.addr.src_storage));
	id->id.verbs = NULL;
	id->id.pd = NULL;
	id->dev = NULL;
	id->has_sgid = id->loopback = false;
}

int urxe_cma_bind(struct urxe_cma_id *id, const struct sockaddr *addr)
{
	struct sockaddr *src = &id->id.route.addr.src_addr;
	union ibv_gid gid = {{0}};
	int err = 0;

	if (id->state != URXE_CMA_IDLE)
		return EINVAL;
	/*
	 * A loopback address is one of each device, as the wildcard: programs take an id with a
	 * device for one that only peers on the network reach (libfabric's listeners).
	 */
	id->loopback = urxe_cma_addr_loopback(addr);
	if (!urxe_cma_addr_any(addr) && !id->loopback)
		err = find_device(id, addr, &gid);
	if (err)
		return err;
	memcpy(src, addr, urxe_cma_addr_len(addr));
	err = urxe_cma_claim_port(id, &gid);
	if (err) {
		urxe_cma_unbind(id);
		return err;
	}
	id->id.route.addr.addr.ibaddr.sgid = gid;
	/* As the kernel: the peer's address, not known yet, is of the same family. */
	id->id.route.addr.dst_addr.sa_family = src->sa_family;
	id->state = URXE_CMA_BOUND;
	return 0;
}

URXE_CMA_API int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int err = urxe_cma_begin(urxe_cma_addr_len(addr) ? id : NULL);

	if (!err)
		err = urxe_cma_end(urxe_cma_bind(to_cma_id(id), addr));
	return urxe_cma_ret(err);
}
