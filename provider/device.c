/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A device: made on a port, brought up when the first QP wants to talk.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "netio/emulated.h"
#include "duty.h"
#include "flush.h"
#include "keep.h"
#include "lend.h"
#include "service.h"
#include "wq.h"
#include "rcu.h"
#include "status.h"
#include "netio/identity.h"

static void device_identify(struct urxe_device *dev)
{
	struct urxe_port_info info;
	uint8_t g[8];

	/* EUI-64 of the MAC, as every RoCE device makes its node GUID. Programs ask for it before
	 * the port is started, and peers know us by it: so it stays, also when the port then turns
	 * out to have another MAC than could be told now. */
	urxe_port_query(dev->port, &info);
	g[0] = info.mac[0] ^ 2;
	g[1] = info.mac[1];
	g[2] = info.mac[2];
	g[3] = 0xff;
	g[4] = 0xfe;
	memcpy(g + 5, info.mac + 3, 3);
	memcpy(&dev->guid, g, sizeof(g));
}

static void device_init_verbs(struct urxe_device *dev)
{
	struct ibv_device *ibdev = &dev->vdev.device;

	ibdev->node_type = IBV_NODE_CA;
	ibdev->transport_type = IBV_TRANSPORT_IB;
	snprintf(ibdev->name, sizeof(ibdev->name), "%s", dev->cfg.name);
	/* No kernel device stands behind it: files below this path do not exist. */
	snprintf(ibdev->ibdev_path, sizeof(ibdev->ibdev_path), "/sys/class/infiniband/%s",
		 dev->cfg.name);
	snprintf(ibdev->dev_name, sizeof(ibdev->dev_name), "%s", dev->cfg.name);
	dev->vdev.ops = &urxe_device_ops;
	atomic_init(&dev->vdev.refcount, 1);
	dev->vdev.sysfs = NULL;
	dev->vdev.core_support = 1;
}

static bool one_processor(void)
{
	cpu_set_t set;

	return !sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) == 1;
}

/* Which bits of a QPN are its index is the identity's to say. */
static int device_qpns(struct urxe_device *dev)
{
	unsigned bits = urxe_ident_qpn_index_bits(urxe_port_ident(dev->port));

	dev->qpn_mask = (1u << bits) - 1;
	return urxe_table_init(&dev->qps, bits);
}

int urxe_device_create(struct urxe_device **out, const struct urxe_port_config *cfg,
		       const struct urxe_link_ops *ops, void *link_arg, bool threaded)
{
	struct urxe_device *dev = calloc(1, sizeof(*dev));
	int err = ENOMEM;

	if (!dev)
		return ENOMEM;
	dev->cfg = *cfg;
	urxe_mutex_init(&dev->mutex);
	urxe_mutex_init(&dev->cqs_lock);
	urxe_mutex_init(&dev->service.gsi_lock);
	urxe_duty_init(dev);
	urxe_flush_init(dev);
	urxe_keep_init(dev);
	urxe_lend_init(dev);
	dev->threaded = threaded;
	dev->cc = urxe_cc_table[URXE_CC_WINDOW];
	dev->one_cpu = one_processor();
	atomic_init(&dev->yield_after, urxe_pause_yield_after(0, dev->one_cpu));
	dev->service.running = !threaded; /* nothing to start then */
	CDS_INIT_LIST_HEAD(&dev->contexts);
	CDS_INIT_LIST_HEAD(&dev->xrcds);
	CDS_INIT_LIST_HEAD(&dev->wqs);
	CDS_INIT_LIST_HEAD(&dev->cqs);
	CDS_INIT_LIST_HEAD(&dev->status_node);
	for (unsigned i = 0; i < URXE_MAX_LANES; i++)
		CDS_INIT_LIST_HEAD(&dev->sched.lanes[i].qps);
	atomic_init(&dev->sched.next_timer, URXE_NEVER);
	if (urxe_table_init(&dev->mkeys, URXE_MKEY_INDEX_BITS) ||
	    urxe_table_init(&dev->srqs, URXE_SRQN_INDEX_BITS))
		goto fail;
	err = urxe_port_create(&dev->port, cfg, ops, link_arg);
	if (err)
		goto fail;
	dev->rx_most = urxe_port_burst(dev->port);
	err = device_qpns(dev);
	if (err)
		goto fail_port;
	urxe_port_on_path_error(dev->port, urxe_path_error, dev);
	urxe_port_on_gone(dev->port, urxe_peer_gone, dev);
	dev->mkey_next = (uint32_t)urxe_port_random(dev->port) & ((1u << URXE_MKEY_INDEX_BITS) - 1);
	device_identify(dev);
	device_init_verbs(dev);
	*out = dev;
	return 0;

fail_port:
	urxe_port_destroy(dev->port);
fail:
	urxe_table_fini(&dev->qps);
	urxe_table_fini(&dev->mkeys);
	urxe_table_fini(&dev->srqs);
	free(dev);
	return err;
}

void urxe_device_destroy(struct urxe_device *dev)
{
	urxe_status_remove_device(dev);
	urxe_service_stop(dev);
	urxe_flush_fini(dev);
	urxe_keep_fini(dev);
	urxe_lend_fini(dev);
	urxe_port_destroy(dev->port);
	urxe_table_fini(&dev->qps);
	urxe_table_fini(&dev->mkeys);
	urxe_table_fini(&dev->srqs);
	urxe_timer_heap_fini(&dev->sched.timers);
	urxe_mutex_fini(&dev->mutex);
	urxe_mutex_fini(&dev->cqs_lock);
	urxe_mutex_fini(&dev->service.gsi_lock);
	urxe_duty_fini(dev);
	free(dev);
}

int urxe_device_start(struct urxe_device *dev)
{
	struct urxe_port_info info;
	int err = 0;

	if (urxe_device_check(dev))
		return EIO;
	/* Nobody has looked so far. */
	if (!atomic_load_explicit(&dev->started, memory_order_relaxed))
		urxe_device_follow_host(dev);
	/* Pairs with the release below: dev->lanes and the port are there. */
	if (atomic_load_explicit(&dev->started, memory_order_acquire))
		return 0;
	urxe_mutex_lock(&dev->mutex);
	if (atomic_load(&dev->started))
		goto out;
	err = urxe_rcu_start();
	if (!err)
		err = urxe_port_start(dev->port);
	if (err)
		goto out;
	urxe_port_query(dev->port, &info);
	dev->lanes = info.lanes;
	/* Callers may poll already. */
	atomic_store_explicit(&dev->emulated,
			      dev->threaded && urxe_emulated() &&
				      (urxe_port_is_card(dev->port) || urxe_port_naps(dev->port)),
			      memory_order_relaxed);
	err = urxe_service_start(dev);
	if (!err) {
		/* Pairs with the acquire above. */
		atomic_store_explicit(&dev->started, true, memory_order_release);
		urxe_status_add_device(dev);
	}
out:
	urxe_mutex_unlock(&dev->mutex);
	return err;
}

bool urxe_device_active(struct urxe_device *dev, const struct urxe_port_info *info)
{
	if (info->link_up && info->started)
		atomic_store_explicit(&dev->seen_up, true, memory_order_relaxed);
	if (info->link_up || info->dead)
		return info->link_up;
	return info->peer || !atomic_load_explicit(&dev->seen_up, memory_order_relaxed);
}

#define WATCH_NS 100000000ull

void urxe_device_watch(struct urxe_device *dev, uint64_t now)
{
	struct urxe_port_info info;
	bool active;

	urxe_peer_gone_run(dev);
	if (now < dev->watch_next || urxe_device_check(dev))
		return;
	dev->watch_next = now + WATCH_NS;
	urxe_device_follow_host(dev);
	urxe_port_query(dev->port, &info);
	if (info.dead) {
		urxe_err("%s: the port is gone", dev->cfg.name);
		/* What is posted from now on is refused, what was posted before is flushed. */
		atomic_store(&dev->dead, true);
		/*
		 * Why comes first: a program whose work is flushed ends, and would not have heard
		 * of the removal.
		 */
		urxe_event_device(dev, IBV_EVENT_DEVICE_FATAL);
		urxe_service_gsi(dev);
		urxe_service_run_gsi(dev, now, true);
		urxe_qp_flush_all(dev);
		urxe_wq_flush_all(dev, NULL);
		return;
	}
	active = urxe_device_active(dev, &info);
	/* What a link is found in at first is no change. */
	if (dev->watched && info.link_up != dev->was_up)
		urxe_port_carrier(dev->port);
	/* Of a peer that leaves the link has told the log. */
	if (dev->watched && active != dev->was_active)
		urxe_event_device(dev, active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	dev->watched = true;
	dev->was_up = info.link_up;
	dev->was_active = active;
}

int urxe_device_addr(struct urxe_device *dev, bool add, const union ibv_gid *gid,
		     unsigned prefix_len)
{
	int err = urxe_device_check(dev);

	if (err)
		return err;
	if (add)
		err = urxe_port_addr_add(dev->port, gid->raw, prefix_len);
	else
		err = urxe_port_addr_del(dev->port, gid->raw, prefix_len);
	if (err)
		return err;
	atomic_fetch_add(&dev->gids_news, 1);
	urxe_event_device(dev, IBV_EVENT_GID_CHANGE);
	/* The CM may wait for a neighbour of this address. */
	urxe_service_gsi(dev);
	return 0;
}

static void host_changed(void *arg, bool add, const uint8_t gid[16], unsigned prefix_len)
{
	union ibv_gid g;

	memcpy(g.raw, gid, sizeof(g.raw));
	urxe_device_addr(arg, add, &g, prefix_len);
}

void urxe_device_follow_host(struct urxe_device *dev)
{
	urxe_port_follow_host(dev->port, host_changed, dev);
}

void urxe_device_adopt(struct urxe_device *dev)
{
	urxe_mutex_init(&dev->mutex);
	urxe_port_inherit(dev->port);
}

void urxe_device_orphan(struct urxe_device *dev)
{
	struct urxe_cq *cq;

	dev->forked = true;
	atomic_store(&dev->dead, true);
	cds_list_for_each_entry (cq, &dev->cqs, node) {
		memset(&cq->lock, 0, sizeof(cq->lock));
		memset(&cq->poll_lock, 0, sizeof(cq->poll_lock));
		cq->tail = atomic_load(&cq->head);
	}
}

struct urxe_port *urxe_context_port(struct ibv_context *ctx)
{
	return to_urxe_dev(ctx)->port;
}
