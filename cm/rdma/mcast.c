/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast groups of ids. On RoCE there is no subnet administrator to ask: the group's GID is its
 * IP address (IBTA A17.4.5.3), the Q_Key is the port space's, and what makes a port a member is the
 * QP that is attached (provider/mcast.c, which has the port join, and report by IGMP or MLD). So a
 * join is known to be good at once; the QP is attached when the application takes the event.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/rdma/cma.h"
#include "urxe/gid.h"

#define MCAST_QPN 0xffffff

static struct urxe_cma_mcast *find(const struct urxe_cma_id *id, const union ibv_gid *mgid)
{
	struct urxe_cma_mcast *mc;

	cds_list_for_each_entry (mc, &id->mcasts, entry) {
		if (!memcmp(&mc->mgid, mgid, sizeof(*mgid)))
			return mc;
	}
	return NULL;
}

static void detach(struct urxe_cma_id *id, struct urxe_cma_mcast *mc)
{
	struct urxe_cma_mcast *other;

	if (!mc->attached)
		return;
	mc->attached = false;
	/* Joined twice, the QP is attached once: the last one detaches it. */
	cds_list_for_each_entry (other, &id->mcasts, entry) {
		if (other->attached && !memcmp(&other->mgid, &mc->mgid, sizeof(mc->mgid)))
			return;
	}
	if (id->id.qp)
		ibv_detach_mcast(id->id.qp, &mc->mgid, 0);
}

void urxe_cma_mcast_detach_all(struct urxe_cma_id *id)
{
	struct urxe_cma_mcast *mc;

	cds_list_for_each_entry (mc, &id->mcasts, entry)
		detach(id, mc);
}

void urxe_cma_mcast_taken(struct urxe_cma_event *ev)
{
	struct urxe_cma_mcast *mc = ev->mcast;
	struct urxe_cma_id *id = mc->id;
	int err;

	mc->events_out++;
	if (ev->event.event != RDMA_CM_EVENT_MULTICAST_JOIN || mc->send_only || !id->id.qp)
		return;
	err = ibv_attach_mcast(id->id.qp, &mc->mgid, 0);
	mc->attached = !err;
	if (err) {
		ev->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		ev->event.status = -err;
	} else {
		urxe_cma_say_ready();
	}
}

static void fill_joined(const struct urxe_cma_mcast *mc, struct rdma_ud_param *ud)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cm_path path;

	urxe_cma_path(mc->id, &path);
	path.dgid = mc->mgid;
	urxe_cm_path_to_ah(&path, &ud->ah_attr);
	ud->qp_num = MCAST_QPN;
	ud->qkey = RDMA_UDP_QKEY;
}

static int tell(struct urxe_cma_mcast *mc, enum rdma_cm_event_type type, int status)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_event *ev = urxe_cma_event_new(mc->id, type, status);

	if (!ev)
		return ENOMEM;
	ev->mcast = mc;
	fill_joined(mc, &ev->event.param.ud);
	ev->event.param.ud.private_data = mc->context;
	urxe_cma_event_post(ev);
	return 0;
}

void urxe_cma_mcast_lost(struct urxe_cma_id *id, int err)
{
	struct urxe_cma_mcast *mc;

	cds_list_for_each_entry (mc, &id->mcasts, entry)
		tell(mc, RDMA_CM_EVENT_MULTICAST_ERROR, -err);
}

struct join {
	const struct sockaddr *addr;
	bool send_only;
	void *context;
};

static int join(struct urxe_cma_id *id, const struct join *j) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_mcast *mc;
	int err;

	if (id->id.qp_type != IBV_QPT_UD || !id->dev || !urxe_cma_addr_mcast(j->addr) ||
	    (id->state != URXE_CMA_BOUND && id->state != URXE_CMA_ADDR_RESOLVED))
		return EINVAL;
	mc = calloc(1, sizeof(*mc));
	if (!mc)
		return ENOMEM;
	mc->id = id;
	mc->context = j->context;
	mc->send_only = j->send_only;
	urxe_cma_addr_gid(j->addr, &mc->mgid);
	/* The packets' source is of the group's family. */
	if (urxe_cma_addr_v4(j->addr) != urxe_gid_is_v4(id->sgid.raw))
		err = EADDRNOTAVAIL;
	else
		err = urxe_cma_stock(id);
	if (!err)
		err = tell(mc, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	if (err) {
		free(mc);
		return err;
	}
	cds_list_add_tail(&mc->entry, &id->mcasts);
	return 0;
}

static int join_multicast(struct rdma_cm_id *id, const struct join *j)
{
	int err = urxe_cma_begin_wait(urxe_cma_addr_len(j->addr) ? id : NULL);

	if (err)
		return urxe_cma_ret(err);
	return urxe_cma_end_wait(id, join(to_cma_id(id), j));
}

URXE_CMA_API int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return join_multicast(id, &(struct join){.addr = addr, .context = context});
}

URXE_CMA_API int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
					void *context)
{
	const uint32_t need = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (!attr)
		return urxe_cma_ret(EINVAL);
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return urxe_cma_ret(ENOTSUP);
	if ((attr->comp_mask & need) != need || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return urxe_cma_ret(EINVAL);
	return join_multicast(
		id, &(struct join){
			    .addr = attr->addr,
			    .send_only = attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
			    .context = context,
		    });
}

static int leave(struct urxe_cma_id *id, const struct sockaddr *addr) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_mcast *mc;
	union ibv_gid mgid;

	urxe_cma_addr_gid(addr, &mgid);
	mc = find(id, &mgid);
	if (!mc)
		return EADDRNOTAVAIL;
	urxe_cma_events_purge_mcast(mc);
	cds_list_del(&mc->entry);
	detach(id, mc);
	urxe_cma_wait(id, mc, "rdma_leave_multicast()");
	urxe_cma_unstock(id);
	free(mc);
	return 0;
}

URXE_CMA_API int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int err = urxe_cma_begin(urxe_cma_addr_len(addr) ? id : NULL);

	if (!err)
		err = urxe_cma_end(leave(to_cma_id(id), addr));
	return urxe_cma_ret(err);
}

void urxe_cma_mcast_end(struct urxe_cma_id *id)
{
	struct urxe_cma_mcast *mc, *next;

	cds_list_for_each_entry_safe (mc, next, &id->mcasts, entry) {
		cds_list_del(&mc->entry);
		free(mc);
	}
}
