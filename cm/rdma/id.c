/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rdma_cm ids: their life, options, and what can be asked of them. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/sa.h>

#include "cm/rdma/cma.h"
#include "urxe/slab.h"

#define NAME(name) #name,
const char *const urxe_cma_state_names[URXE_CMA_N_STATES] = {URXE_CMA_STATES(NAME)};
#undef NAME

CDS_LIST_HEAD(urxe_cma_ids);
CDS_LIST_HEAD(urxe_cma_leaving);

int urxe_cma_ret(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

int urxe_cma_begin(const struct rdma_cm_id *id)
{
	int err = id ? urxe_cma_enter() : EINVAL;

	if (err || caa_container_of(id, struct urxe_cma_id, id)->life == urxe_cma_life())
		return err;
	urxe_cma_leave();
	return EIO;
}

int urxe_cma_end(int err)
{
	urxe_cma_release();
	return err;
}

static struct urxe_slab ids = URXE_SLAB_INIT(struct urxe_cma_id);

struct urxe_cma_id *urxe_cma_id_new(struct urxe_cma_channel *ch, void *context,
				    enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
	struct urxe_cma_id *id = urxe_slab_get(&ids, offsetof(struct urxe_cma_id, own_events));

	if (!id)
		return NULL;
	id->channel = ch;
	CDS_INIT_LIST_HEAD(&id->events);
	CDS_INIT_LIST_HEAD(&id->taken);
	id->id.channel = &ch->channel;
	id->id.context = context;
	id->id.ps = id->space = ps;
	id->id.qp_type = qp_type;
	id->initiator_depth = RDMA_MAX_INIT_DEPTH;
	id->responder_resources = RDMA_MAX_RESP_RES;
	CDS_INIT_LIST_HEAD(&id->mcasts);
	urxe_cma_stock_own(id);
	return id;
}

static int qp_type_of(enum rdma_port_space ps, enum ibv_qp_type *qp_type)
{
	switch (ps) {
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		*qp_type = IBV_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*qp_type = IBV_QPT_UD;
		return 0;
	default:
		return EINVAL;
	}
}

int urxe_cma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		       enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
	struct urxe_cma_channel *ch = channel ? to_cma_channel(channel) : NULL;
	struct urxe_cma_id *p = NULL;
	int err;

	if (!ch)
		ch = urxe_cma_channel_create();
	if (!ch)
		return errno;
	err = urxe_cma_enter();
	if (err)
		goto fail;
	err = urxe_cma_channel_check(ch);
	if (!err) {
		p = urxe_cma_id_new(ch, context, ps, qp_type);
		err = p ? 0 : ENOMEM;
	}
	if (err) {
		urxe_cma_leave();
		goto fail;
	}
	p->life = urxe_cma_life();
	p->sync = !channel;
	urxe_cma_set_client(&urxe_cma_client);
	cds_list_add_tail(&p->all, &urxe_cma_ids);
	urxe_cma_leave();
	*id = &p->id;
	return 0;

fail:
	if (!channel)
		urxe_cma_channel_free(ch);
	return err;
}

URXE_CMA_API int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
				void *context, enum rdma_port_space ps)
{
	enum ibv_qp_type qp_type;
	int err;

	if (!id)
		return urxe_cma_ret(EINVAL);
	err = qp_type_of(ps, &qp_type);
	if (!err)
		err = urxe_cma_create_id(channel, id, context, ps, qp_type);
	return urxe_cma_ret(err);
}

void urxe_cma_attach(struct urxe_cma_id *id, struct urxe_cma_dev *dev)
{
	id->dev = dev;
	id->id.verbs = dev->verbs;
	if (!id->id.pd)
		id->id.pd = dev->pd;
	id->id.port_num = 1;
	id->id.route.addr.addr.ibaddr.pkey = htobe16(0xffff);
}

void urxe_cma_id_quiesce(struct urxe_cma_id *id)
{
	urxe_agent_resolve_cancel(&id->query);
	urxe_cma_unlisten(id);
	if (id->cm) {
		urxe_cm_destroy(id->cm);
		id->cm = NULL;
	}
}

void urxe_cma_id_end(struct urxe_cma_id *id, struct cds_list_head *orphans)
{
	urxe_cma_id_quiesce(id);
	urxe_cma_mcast_detach_all(id);
	urxe_cma_release_port(id);
	urxe_cma_events_purge(id, orphans);
	cds_list_del(&id->all);
	if (id->passive)
		urxe_cma_backlog_admit_all(id->dev);
}

void urxe_cma_id_free(struct urxe_cma_id *id)
{
	urxe_cma_mcast_end(id);
	urxe_cma_stock_free(id);
	/* An application may have put one of its own there. */
	if (id->id.route.path_rec != &id->path_rec)
		free(id->id.route.path_rec);
	free(id->qp_init_attr);
	free(id->senders);
	free(id->last_req);
	free(id->connect);
	rdma_freeaddrinfo(id->info);
	urxe_slab_put(&ids, id);
}

/* In a child: its parent's stays, in the child's memory, too. But for the descriptor of a channel
 * that nobody else knows: that is the child's own. */
static int leave_to_parent(struct urxe_cma_id *id)
{
	if (id->sync && id->channel->channel.fd >= 0) {
		close(id->channel->channel.fd);
		id->channel->channel.fd = -1;
	}
	return 0;
}

URXE_CMA_API int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct urxe_cma_id *p = to_cma_id(id), *child, *next;
	struct urxe_cma_channel *own;
	CDS_LIST_HEAD(orphans);
	int err = urxe_cma_begin(id);

	if (err)
		return err == EIO ? leave_to_parent(p) : urxe_cma_ret(err);
	urxe_cma_id_end(p, &orphans);
	/* Requests that nobody has seen: rejected with their listener. */
	cds_list_for_each_entry_safe (child, next, &orphans, all) {
		CDS_LIST_HEAD(none);

		urxe_cma_id_end(child, &none);
		urxe_cma_id_free(child);
	}
	if (id->event) {
		urxe_cma_ack(caa_container_of(id->event, struct urxe_cma_event, event));
		id->event = NULL;
	}
	p->state = URXE_CMA_DESTROY;
	cds_list_add_tail(&p->all, &urxe_cma_leaving);
	urxe_cma_wait(p, NULL, "rdma_destroy_id()");
	cds_list_del(&p->all);
	own = p->sync ? p->channel : NULL;
	urxe_cma_id_free(p);
	urxe_cma_leave();
	if (own)
		urxe_cma_channel_free(own);
	return 0;
}

URXE_CMA_API int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct urxe_cma_id *p = to_cma_id(id);
	struct urxe_cma_channel *ch = channel ? to_cma_channel(channel) : NULL, *old;
	bool was_sync;
	int err;

	if (!id || (p->sync && !ch))
		return urxe_cma_ret(EINVAL);
	if (!ch)
		ch = urxe_cma_channel_create();
	if (!ch)
		return -1;
	err = urxe_cma_begin(id);
	if (err) {
		if (!channel)
			urxe_cma_channel_free(ch);
		return urxe_cma_ret(err);
	}
	err = urxe_cma_channel_check(ch);
	if (err)
		return urxe_cma_ret(urxe_cma_end(err));
	old = p->channel;
	was_sync = p->sync;
	urxe_cma_move(p, ch);
	p->sync = !channel;
	if (was_sync && id->event) {
		urxe_cma_ack(caa_container_of(id->event, struct urxe_cma_event, event));
		id->event = NULL;
	}
	/*
	 * What was taken from the old channel is acked before we return. Once the lock is given,
	 * who reads the new one may take an event and destroy the id.
	 */
	urxe_cma_wait(p, NULL, "rdma_migrate_id()");
	urxe_cma_leave();
	if (was_sync && old != ch)
		urxe_cma_channel_free(old);
	return 0;
}

static int set_id_option(struct urxe_cma_id *id, int optname, const void *optval, size_t optlen)
	URXE_REQUIRES(urxe_cma_lock)
{
	int on;

	switch (optname) {
	case RDMA_OPTION_ID_TOS:
		if (optlen != sizeof(uint8_t))
			return EINVAL;
		id->tos = *(const uint8_t *)optval;
		id->tos_set = true;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		if (optlen != sizeof(int))
			return EINVAL;
		memcpy(&on, optval, sizeof(on));
		/* As the kernel: nobody shares what one listens on. */
		if (id->state == URXE_CMA_LISTEN)
			return EINVAL;
		id->reuse = on;
		urxe_cma_reuse_port(id);
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (optlen != sizeof(int))
			return EINVAL;
		memcpy(&on, optval, sizeof(on));
		if (id->state != URXE_CMA_IDLE && id->state != URXE_CMA_BOUND)
			return EINVAL;
		id->afonly = on;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (optlen != sizeof(uint8_t) || *(const uint8_t *)optval > 31)
			return EINVAL;
		if (id->id.qp_type == IBV_QPT_UD)
			return EINVAL;
		id->ack_timeout = *(const uint8_t *)optval;
		id->ack_timeout_set = true;
		return 0;
	default:
		return ENOSYS;
	}
}

/* A path of the application's own: what RoCE can use of it, and the route is resolved by that. */
static int set_ib_path(struct urxe_cma_id *id, const void *optval, size_t optlen)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct ibv_path_data path;

	if (!optlen || optlen % sizeof(path))
		return EINVAL;
	if (id->state != URXE_CMA_ADDR_RESOLVED)
		return EINVAL;
	memcpy(&path, optval, sizeof(path));
	if ((path.path.mtu & 0x3f) >= IBV_MTU_256 && (path.path.mtu & 0x3f) <= IBV_MTU_4096)
		id->path_mtu = path.path.mtu & 0x3f;
	id->tos = path.path.tclass;
	urxe_cma_set_path_rec(id);
	id->state = URXE_CMA_ROUTE_RESOLVED;
	urxe_cma_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

static int set_option(struct urxe_cma_id *id, int level, int optname, const void *optval,
		      size_t optlen) URXE_REQUIRES(urxe_cma_lock)
{
	if (level == RDMA_OPTION_ID)
		return set_id_option(id, optname, optval, optlen);
	if (level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH)
		return set_ib_path(id, optval, optlen);
	return ENOSYS;
}

URXE_CMA_API int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
				 size_t optlen)
{
	int err = urxe_cma_begin(optval ? id : NULL);

	if (!err)
		err = urxe_cma_end(set_option(to_cma_id(id), level, optname, optval, optlen));
	return urxe_cma_ret(err);
}

URXE_CMA_API __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htobe16(urxe_cma_addr_port(&id->route.addr.src_addr));
}

URXE_CMA_API __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return htobe16(urxe_cma_addr_port(&id->route.addr.dst_addr));
}

URXE_CMA_API int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return urxe_cma_ret(EINVAL);
	urxe_cma_hold();
	to_cma_id(id)->local_ece = *ece;
	urxe_cma_release();
	return 0;
}

URXE_CMA_API int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece)
		return urxe_cma_ret(EINVAL);
	urxe_cma_hold();
	*ece = to_cma_id(id)->remote_ece;
	ece->comp_mask = 0;
	urxe_cma_release();
	return 0;
}
