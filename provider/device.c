/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Devices: made from the configuration when first asked for, brought up when the
 * first QP wants to talk, dead in a child forked after that.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netio/link_ethdev.h"
#include "provider.h"
#include "rcu.h"
#include "urxedv.h"

#ifdef URXE_TSAN
char urxe_rcu_tsan_order;
#endif

/* The device list of the process: the only global state. */
static struct {
	pthread_mutex_t lock;
	bool loaded;
	int error; /* of the configuration */
	unsigned n;
	struct urxe_device *devices[URXE_CONFIG_MAX_DEVICES];
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void device_identify(struct urxe_device *dev)
{
	struct urxe_port_info info;
	uint8_t g[8];

	/* EUI-64 of the MAC, as every RoCE device makes its node GUID. */
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
	/* No kernel device stands behind it: names without a path are what opens nothing. */
	snprintf(ibdev->dev_name, sizeof(ibdev->dev_name), "%s", dev->cfg.name);
	dev->vdev.ops = &urxe_device_ops;
	atomic_init(&dev->vdev.refcount, 1);
	dev->vdev.sysfs = NULL;
	dev->vdev.core_support = 1;
}

int urxe_device_create(struct urxe_device **out, const struct urxe_port_config *cfg,
		       const struct urxe_link_ops *ops, void *link_arg, bool threaded)
{
	struct urxe_device *dev = calloc(1, sizeof(*dev));
	int err = ENOMEM;

	if (!dev)
		return ENOMEM;
	dev->cfg = *cfg;
	pthread_mutex_init(&dev->mutex, NULL);
	pthread_mutex_init(&dev->service.gsi_lock, NULL);
	dev->service.running = !threaded; /* nothing to start then */
	dev->service.gsi_next = URXE_NEVER;
	CDS_INIT_LIST_HEAD(&dev->contexts);
	CDS_INIT_LIST_HEAD(&dev->sched.pending);
	atomic_init(&dev->sched.next_timer, URXE_NEVER);
	if (urxe_table_init(&dev->qps, URXE_IDENT_QPN_INDEX_BITS) ||
	    urxe_table_init(&dev->mrs, URXE_MR_INDEX_BITS))
		goto fail;
	err = urxe_port_create(&dev->port, cfg, ops, link_arg);
	if (err)
		goto fail;
	dev->mr_next = (uint32_t)urxe_port_random(dev->port) & ((1u << URXE_MR_INDEX_BITS) - 1);
	device_identify(dev);
	device_init_verbs(dev);
	*out = dev;
	return 0;

fail:
	urxe_table_fini(&dev->qps);
	urxe_table_fini(&dev->mrs);
	free(dev);
	return err;
}

void urxe_device_destroy(struct urxe_device *dev)
{
	urxe_service_stop(dev);
	urxe_port_destroy(dev->port);
	urxe_table_fini(&dev->qps);
	urxe_table_fini(&dev->mrs);
	urxe_timer_heap_fini(&dev->sched.timers);
	pthread_mutex_destroy(&dev->mutex);
	pthread_mutex_destroy(&dev->service.gsi_lock);
	free(dev);
}

int urxe_device_start(struct urxe_device *dev)
{
	struct urxe_port_info info;
	int err = 0;

	if (atomic_load_explicit(&dev->dead, memory_order_relaxed))
		return EIO;
	if (atomic_load_explicit(&dev->started, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&dev->mutex);
	if (atomic_load(&dev->started))
		goto out;
	err = urxe_port_start(dev->port);
	if (err)
		goto out;
	urxe_port_query(dev->port, &info);
	dev->lanes = info.lanes;
	err = urxe_service_start(dev);
	if (!err)
		atomic_store_explicit(&dev->started, true, memory_order_release);
out:
	pthread_mutex_unlock(&dev->mutex);
	return err;
}

struct urxe_port *urxe_context_port(struct ibv_context *ctx)
{
	return to_urxe_dev(ctx)->port;
}

/*
 * A child shares the port's memory with its parent, and has none of its threads: a device
 * that was up is dead there. One that was only opened is as good as new.
 */
static void fork_prepare(void)
{
	pthread_mutex_lock(&registry.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&registry.lock);
}

static void fork_child(void)
{
	for (unsigned i = 0; i < registry.n; i++) {
		struct urxe_device *dev = registry.devices[i];

		if (atomic_load(&dev->started))
			atomic_store(&dev->dead, true);
		else
			pthread_mutex_init(&dev->mutex, NULL);
	}
	pthread_mutex_unlock(&registry.lock);
}

static int registry_load(void)
{
	struct urxe_config *cfg = calloc(1, sizeof(*cfg));
	char line[512] = "";
	int err;

	if (!cfg)
		return ENOMEM;
	err = urxe_abi_check();
	if (err)
		goto out;
	err = urxe_config_load(cfg, line, sizeof(line));
	if (err) {
		urxe_err("configuration: %s", line);
		goto out;
	}
	urxe_log_set_level(cfg->log);
	for (unsigned i = 0; i < cfg->num_devices; i++) {
		const struct urxe_link_ops *ops;
		void *arg;

		urxe_link_select(&cfg->devices[i], &ops, &arg);
		err = urxe_device_create(&registry.devices[registry.n], &cfg->devices[i], ops, arg,
					 true);
		if (err) {
			urxe_err("device %s: %s", cfg->devices[i].name, strerror(err));
			break;
		}
		registry.n++;
	}
	if (registry.n)
		pthread_atfork(fork_prepare, fork_parent, fork_child);
out:
	free(cfg);
	return err;
}

struct ibv_device **urxedv_get_device_list(int *num_devices)
{
	struct ibv_device **list = NULL;
	int err;

	pthread_mutex_lock(&registry.lock);
	if (!registry.loaded) {
		registry.error = registry_load();
		registry.loaded = true;
	}
	err = registry.error;
	if (!err) {
		list = calloc(registry.n + 1, sizeof(struct ibv_device *));
		if (!list)
			err = ENOMEM;
		else
			for (unsigned i = 0; i < registry.n; i++)
				list[i] = &registry.devices[i]->vdev.device;
	}
	if (num_devices)
		*num_devices = list ? (int)registry.n : 0;
	pthread_mutex_unlock(&registry.lock);
	if (!list)
		errno = err;
	return list;
}

void urxedv_free_device_list(struct ibv_device **list)
{
	free(list);
}

bool urxedv_is_supported(struct ibv_device *device)
{
	struct verbs_device *vdev = (struct verbs_device *)device;

	return vdev && vdev->ops == &urxe_device_ops;
}
