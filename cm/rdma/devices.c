/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices under rdma_cm ids: which there are, that one is gone, that its addresses change, and
 * who asks for the state of all.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/rdma/cma.h"

URXE_CMA_API struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	unsigned n = 0;
	int err = urxe_cma_enter();

	if (num_devices)
		*num_devices = 0;
	if (!err) {
		list = calloc(urxe_cma_num_devices() + 1, sizeof(struct ibv_context *));
		if (!list)
			err = ENOMEM;
		for (unsigned i = 0; list && i < urxe_cma_num_devices(); i++) {
			struct urxe_cma_dev *dev = urxe_cma_device(i, &err);

			if (dev)
				list[n++] = dev->verbs;
		}
		urxe_cma_leave();
	}
	if (!list) {
		errno = err;
		return NULL;
	}
	if (num_devices)
		*num_devices = (int)n;
	return list;
}

URXE_CMA_API void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}

/* All ids on the device get DEVICE_REMOVAL. */
static void lost(struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_id *id;

	cds_list_for_each_entry (id, &urxe_cma_ids, all) {
		if (id->dev != dev)
			continue;
		urxe_cma_id_quiesce(id);
		urxe_cma_mcast_lost(id, ENODEV);
		id->state = URXE_CMA_REMOVED;
		urxe_cma_tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	}
}

/*
 * Does the id get ADDR_CHANGE when its address is gone? While it resolves or has a request it gets
 * another event anyway; who calls synchronously would take it for the answer.
 */
static bool wants_change(const struct urxe_cma_id *id)
{
	switch (id->state) {
	case URXE_CMA_BOUND:
	case URXE_CMA_ADDR_RESOLVED:
	case URXE_CMA_ROUTE_RESOLVED:
	case URXE_CMA_CONNECT:
	case URXE_CMA_LISTEN:
		return !id->sync;
	default:
		return false;
	}
}

static void readdressed(struct urxe_cma_dev *dev, bool add, const union ibv_gid *gid)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_id *id;

	cds_list_for_each_entry (id, &urxe_cma_ids, all) {
		if (id->dev != dev || memcmp(&id->sgid, gid, sizeof(*gid)))
			continue;
		/* Gone: an index beyond the table, which no call takes. */
		id->sgid_index = (uint8_t)urxe_agent_own_gid(dev, gid);
		id->query.sgid_index = id->sgid_index;
		if (!add && wants_change(id))
			urxe_cma_tell(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	}
}

/* ---- urxe status --cm ---- */

static void put_id(struct urxe_report *r, const struct urxe_cma_id *id)
{
	struct urxe_report_row row = {
		.kind = "rdma_cm",
		.state = urxe_cma_state_names[id->state],
		.last_event = id->last_event ? id->last_event : "-",
		.dev = id->dev,
	};

	if (id->cm) {
		urxe_cm_get_info(id->cm, &row.cm);
		row.state = urxe_cm_state_names[row.cm.state];
	}
	/* Known before the CM knows it. */
	if (id->id.qp)
		row.cm.local_qpn = id->id.qp->qp_num;
	row.unacked = id->events_out;
	urxe_cma_addr_print(&id->id.route.addr.src_addr, &id->sgid, row.local);
	urxe_cma_addr_print(&id->id.route.addr.dst_addr, &id->dgid, row.peer);
	urxe_report_put(r, &row);
}

static void report(struct urxe_report *r)
{
	const struct urxe_cma_id *id;

	cds_list_for_each_entry (id, &urxe_cma_ids, all)
		put_id(r, id);
	cds_list_for_each_entry (id, &urxe_cma_leaving, all)
		put_id(r, id);
}

static bool owns(urxe_cm_handler handler)
{
	return handler == urxe_cma_conn_handler || handler == urxe_cma_request_handler ||
	       handler == urxe_cma_waiter_handler;
}

const struct urxe_device_client urxe_cma_client = {lost, readdressed, report, owns};
