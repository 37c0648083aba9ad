/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices of the process: made from the configuration when first asked for, made anew in a
 * child forked after they were brought up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netio/eal_want.h"
#include "netio/link.h"
#include "provider.h"
#include "progress.h"
#include "rcu.h"
#include "status.h"
#include "urxedv.h"

#define EXIT_LINGER_US 10000   /* several times what an idle peer sleeps */
#define EXIT_ANSWER_US 1000000 /* that a peer may take which is stopped, or has no processor */
#define EXIT_GLANCE_US 100
#define EXIT_LOOK_US   1000
#define EXIT_WAITS_US  2500000 /* more than the fabric waits for a member that does not answer */

/* The device list of the process: the only global state. */
static struct {
	struct urxe_mutex lock;
	bool loaded;
	int error; /* of the configuration */
	unsigned n;
	struct urxe_device *devices[URXE_CONFIG_MAX_DEVICES]; /* programs know these */
	/* What they stand for in this process: in a child of one that had started them, others. */
	struct urxe_device *now[URXE_CONFIG_MAX_DEVICES];
	bool refused[URXE_CONFIG_MAX_DEVICES]; /* there can be none, and the log says so */
} registry = {.lock = URXE_MUTEX_INIT};

/*
 * A child shares the port's memory with its parent, and has none of its threads: a device that was
 * up is the parent's, and dead there; who opens it again gets one of the child's own. One that was
 * only opened is as good as new. (As many locks as there are devices: more than clang follows.)
 */
static void fork_prepare(void) URXE_UNCHECKED
{
	urxe_status_fork_prepare();
	urxe_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.n; i++) {
		urxe_mutex_lock(&registry.now[i]->cqs_lock);
		urxe_mutex_lock(&registry.now[i]->flusher.lock);
	}
	urxe_rcu_fork_prepare();
	urxe_pipe_fork_prepare();
}

static void fork_parent(void) URXE_UNCHECKED
{
	urxe_pipe_fork_parent();
	urxe_rcu_fork_parent();
	for (unsigned i = 0; i < registry.n; i++) {
		urxe_mutex_unlock(&registry.now[i]->flusher.lock);
		urxe_mutex_unlock(&registry.now[i]->cqs_lock);
	}
	urxe_mutex_unlock(&registry.lock);
	urxe_status_fork_parent();
}

static void fork_child(void) URXE_UNCHECKED
{
	urxe_rcu_fork_child();
	for (unsigned i = 0; i < registry.n; i++) {
		struct urxe_device *dev = registry.now[i];

		if (atomic_load(&dev->started))
			urxe_device_orphan(dev);
		else
			urxe_device_adopt(dev);
		urxe_mutex_unlock(&dev->flusher.lock);
		urxe_mutex_unlock(&dev->cqs_lock);
	}
	urxe_pipe_fork_child();
	urxe_mutex_unlock(&registry.lock);
	urxe_status_fork_child();
}

/* A device of this process in the place of its parent's. 0 or errno. */
static int renew(unsigned i) URXE_REQUIRES(registry.lock)
{
	struct urxe_device *old = registry.devices[i], *dev;
	const struct urxe_link_ops *ops;
	void *arg;
	int err;

	urxe_link_select(&old->cfg, &ops, &arg);
	if (!ops->forks) {
		if (!registry.refused[i])
			urxe_err("%s: port %s is the parent process's, and a forked child can have "
				 "no other: use --port fabric, or urxed",
				 old->cfg.name, old->cfg.port);
		registry.refused[i] = true;
		return EIO;
	}
	err = urxe_device_create(&dev, &old->cfg, ops, arg, true);
	if (err)
		return err;
	/* One device has one, whichever process looks at it. */
	dev->guid = old->guid;
	registry.now[i] = dev;
	return 0;
}

static int heir(struct urxe_device *dev, struct urxe_device **out)
{
	int err = EIO;

	urxe_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.n; i++) {
		if (registry.devices[i] != dev)
			continue;
		err = registry.now[i]->forked ? renew(i) : 0;
		*out = registry.now[i];
	}
	urxe_mutex_unlock(&registry.lock);
	return err ? err : urxe_device_check(*out);
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
	urxe_eal_set_args(cfg->eal_args);
	for (unsigned i = 0; i < cfg->num_devices; i++) {
		const struct urxe_link_ops *ops;
		void *arg;

		if (urxe_link_check(&cfg->devices[i], cfg->eal_args, line, sizeof(line))) {
			urxe_err("configuration: %s", line);
			continue;
		}
		urxe_link_select(&cfg->devices[i], &ops, &arg);
		err = urxe_device_create(&registry.devices[registry.n], &cfg->devices[i], ops, arg,
					 true);
		if (err) {
			urxe_err("device %s: %s", cfg->devices[i].name, strerror(err));
			break;
		}
		registry.devices[registry.n]->heir = heir;
		registry.now[registry.n] = registry.devices[registry.n];
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

	urxe_mutex_lock(&registry.lock);
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
	urxe_mutex_unlock(&registry.lock);
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

/* Turns, with pauses of @pause us, while it is so, and for no longer than @most us. */
static void turn_while(struct urxe_device *dev, bool (*is_so)(const struct urxe_port *port),
		       unsigned pause, unsigned most)
{
	for (unsigned us = 0; us < most && is_so(dev->port); us += pause) {
		usleep(pause);
		urxe_progress_glance(dev);
	}
}

/* A ring between two processes: until the other one has fetched what was sent. False: there is no
 * such, or nobody known to ask; or more lanes than the one that was asked about. */
static bool was_fetched(struct urxe_device *dev)
{
	if (!urxe_port_call(dev->port))
		return false;
	turn_while(dev, urxe_port_unanswered, EXIT_GLANCE_US, EXIT_ANSWER_US);
	return dev->lanes == 1;
}

/*
 * Does the link have an other end that may not have fetched all we sent? What an application
 * gave to a NIC is sent though it exits; a ring between processes goes with its owner.
 */
static bool exit_lingers(struct urxe_device *dev)
{
	return urxe_port_wired(dev->port) &&
	       atomic_load_explicit(&dev->stats[URXE_STAT_TX_PACKETS], memory_order_relaxed) &&
	       !was_fetched(dev);
}

/* Peers must not wait for acknowledgements of what this process has received. */
__attribute__((destructor)) static void registry_exit(void)
{
	bool linger = false;

	for (unsigned i = 0; i < registry.n; i++) {
		struct urxe_device *dev = registry.now[i];

		if (!atomic_load(&dev->started) || atomic_load(&dev->dead))
			continue;
		urxe_progress_finish(dev);
		/* What was sent to a group is complete, and may wait for the way to a member. */
		turn_while(dev, urxe_port_waits, EXIT_LOOK_US, EXIT_WAITS_US);
		urxe_stat_log(dev);
		linger |= exit_lingers(dev);
	}
	if (linger)
		usleep(EXIT_LINGER_US);
}
