/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The gateway of a fabric: how it comes to be, takes turns, and sleeps. It sleeps on the outer
 * link; a thread of its own sleeps meanwhile on the bell that members ring, which is a futex.
 */
#include "netio/gate.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "netio/gate_priv.h"
#include "netio/link_fabric.h"
#include "urxe/log.h"
#include "urxe/thread.h"

#define INNER	  (&urxe_link_fabric_ops)
#define L3_MTU	  9600		    /* of what members may send: the longest there is */
#define YIELD	  20		    /* looks */
#define NAP_NS	  (100 * URXE_USEC) /* at first, where what comes wakes nobody */
#define NAP_MOST  URXE_MSEC
#define SLEEP_NS  (100 * URXE_MSEC)
#define FOLLOW_NS URXE_SEC /* the host's addresses */

#define NAME_OF(name) #name,

const char *urxe_gate_counter_name(enum urxe_gate_counter c)
{
	static const char *const names[URXE_GATE_COUNTERS] = {URXE_GATE_COUNTER_LIST(NAME_OF)};

	return c < URXE_GATE_COUNTERS ? names[c] : "";
}

void urxe_gate_counters(struct urxe_gate *g, uint64_t values[URXE_GATE_COUNTERS])
{
	for (unsigned i = 0; i < URXE_GATE_COUNTERS; i++)
		values[i] = atomic_load_explicit(&g->counters[i], memory_order_relaxed);
	/* What waited for a member in vain. */
	values[URXE_GATE_in_full] += INNER->dropped(g->link);
}

struct urxe_port *urxe_gate_port(struct urxe_gate *g)
{
	return g->port;
}

struct urxe_fabric *urxe_gate_fabric(struct urxe_gate *g)
{
	return g->fabric;
}

/* ---- turns ---- */

bool urxe_gate_turn(struct urxe_gate *g)
{
	uint64_t now = urxe_port_now(g->port);
	bool work;

	urxe_lane_lock(g->lane);
	work = gate_in(g);
	work |= gate_out(g, now);
	gate_cm_tick(g, now);
	urxe_lane_tick(g->lane, now);
	/* Members may read. */
	INNER->tx(g->link, 0, NULL, 0);
	urxe_lane_unlock(g->lane);
	gate_groups(g);
	return work;
}

/* ---- sleep ---- */

static void *bell(void *arg)
{
	struct urxe_gate *g = arg;

	for (;;) {
		struct urxe_sleep how = {.interrupt = true};

		while (sem_wait(&g->arm))
			;
		if (atomic_load(&g->stop))
			return NULL;
		INNER->wait(g->link, URXE_SEC, -1, &how);
		atomic_store(&g->armed, false);
		urxe_port_wake(g->port);
	}
}

/* @idle: since when there was nothing to do. */
static void doze(struct urxe_gate *g, uint64_t idle)
{
	uint64_t now = urxe_port_now(g->port), next = urxe_port_next_tick(g->port);
	uint64_t ns = SLEEP_NS;
	struct urxe_sleep how = {.interrupt = true, .tick = next};

	if (next <= now)
		return;
	/* A nap of a tenth of the time so far delays by little what comes. */
	if (g->blind)
		ns = now - idle < 10 * NAP_NS ? NAP_NS : (now - idle) / 10;
	if (g->blind && ns > NAP_MOST)
		ns = NAP_MOST;
	if (g->stalled_at < g->stalled_end)
		ns = NAP_NS;
	if (next - now < ns)
		ns = next - now;
	if (!atomic_exchange(&g->armed, true))
		sem_post(&g->arm);
	urxe_port_wait(g->port, ns, &how);
	g->blind = !how.interrupt;
}

static void address(void *arg, bool add, const uint8_t gid[16], unsigned prefix_len)
{
	struct urxe_gate *g = arg;

	if (add)
		urxe_port_addr_add(g->port, gid, prefix_len);
	else
		urxe_port_addr_del(g->port, gid, prefix_len);
}

static bool is_dead(struct urxe_gate *g)
{
	return g->port->ops->dead && g->port->ops->dead(g->port->link);
}

static bool has_company(struct urxe_gate *g)
{
	unsigned own = urxe_fabric_slot(g->fabric);
	uint32_t who;

	for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		who = s == own ? 0 : urxe_fabric_incarnation(g->fabric, s);
		if (who && urxe_fabric_alive(g->fabric, s, who))
			return true;
	}
	return false;
}

int urxe_gate_run(struct urxe_gate *g, uint64_t alone)
{
	uint64_t spin = urxe_config_spin(&g->port->cfg), idle = 0, now;
	unsigned looks = 0;
	bool work;

	g->company = urxe_port_now(g->port);
	while (!atomic_load(&g->stop)) {
		work = urxe_gate_turn(g);
		now = urxe_port_now(g->port);
		/* Also while frames come all the time: a member whose end is not seen has its
		 * connections ended by us, for which we must be there. */
		if (now - g->followed >= FOLLOW_NS) {
			g->followed = now;
			urxe_port_follow_host(g->port, address, g);
			if (is_dead(g))
				return ENODEV;
			if (alone == URXE_NEVER || has_company(g))
				g->company = now;
			else if (now - g->company >= alone)
				return 0;
		}
		if (work) {
			idle = 0;
			continue;
		}
		if (!idle)
			idle = now;
		if (now - idle >= spin) {
			doze(g, idle);
			continue;
		}
		urxe_cpu_relax();
		if (!(++looks % YIELD))
			sched_yield();
	}
	return 0;
}

void urxe_gate_stop(struct urxe_gate *g)
{
	atomic_store(&g->stop, true);
	urxe_port_wake(g->port);
}

/* ---- open and close ---- */

static int open_outer(struct urxe_gate *g, const struct urxe_port_config *cfg,
		      const struct urxe_link_ops *ops, void *link_arg)
{
	struct urxe_port_config outer = *cfg;
	int err;

	/* One lane does: one thread carries all. */
	outer.queues = 1;
	err = urxe_port_create(&g->port, &outer, ops, link_arg);
	if (err)
		return err;
	urxe_port_on_path_error(g->port, gate_error, g);
	err = urxe_port_start(g->port);
	if (!err)
		g->lane = urxe_port_lane(g->port, 0);
	return err;
}

static int tell(struct urxe_gate *g, const struct urxe_port_config *cfg)
{
	struct urxe_gate_info info = {.l3_mtu = atomic_load(&g->port->l3_mtu)};
	uint32_t far = urxe_port_far_l3(g->port);

	if (far && far < info.l3_mtu)
		info.l3_mtu = far;

	snprintf(info.port, sizeof(info.port), "%s", cfg->port);
	if (g->own) {
		info.num_ips = cfg->num_ips;
		memcpy(info.ips, cfg->ips, sizeof(info.ips));
	}
	return urxe_gate_publish(g->file, &info);
}

static int open_inner(struct urxe_gate *g)
{
	struct urxe_port_config cfg = {.vlan = URXE_NO_VLAN};
	struct urxe_link_info info = {.lanes = 0};
	int err = urxe_fabric_create(&g->fabric, &g->spec, true, NULL);

	if (err)
		return err;
	urxe_fabric_be_gate(g->fabric);
	snprintf(cfg.name, sizeof(cfg.name), "%s", g->name);
	snprintf(cfg.port, sizeof(cfg.port), "fabric");
	err = INNER->open(g->fabric, &cfg, NULL, L3_MTU, &g->link, &info);
	memcpy(g->mac, info.mac, 6);
	if (!err)
		INNER->on_gone(g->link, gate_cm_gone, g);
	return err;
}

static int open_all(struct urxe_gate *g, const struct urxe_port_config *cfg,
		    const struct urxe_link_ops *ops, void *link_arg, char *err, size_t errlen)
{
	int ret = urxe_gate_claim(&g->spec, &g->file, err, errlen);

	if (ret) {
		g->file = -1;
		return ret;
	}
	ret = urxe_hash_init(&g->paths, 256);
	if (!ret)
		ret = gate_cm_init(g);
	if (!ret)
		ret = open_outer(g, cfg, ops, link_arg);
	if (!ret) {
		ret = tell(g, cfg);
		if (ret)
			snprintf(err, errlen, "cannot write to the fabric's folder: %s",
				 strerror(ret));
	}
	if (!ret)
		ret = open_inner(g);
	if (!ret)
		ret = urxe_thread_start(&g->bell, "urxe/gate-bell", bell, g);
	g->has_bell = !ret;
	return ret;
}

int urxe_gate_open(struct urxe_gate **gate, const struct urxe_fabric_spec *spec,
		   const struct urxe_port_config *cfg, const struct urxe_link_ops *ops,
		   void *link_arg, bool own, char *err, size_t errlen)
{
	struct urxe_gate *g = calloc(1, sizeof(*g));
	int ret;

	err[0] = '\0';
	if (!g)
		return ENOMEM;
	snprintf(g->name, sizeof(g->name), "%s", cfg->name);
	g->spec = *spec;
	g->own = own;
	g->waiting_end = &g->waiting;
	g->groups_version = UINT32_MAX;
	sem_init(&g->arm, 0, 0);
	ret = open_all(g, cfg, ops, link_arg, err, errlen);
	if (ret) {
		urxe_gate_close(g);
		return ret;
	}
	*gate = g;
	return 0;
}

static void stop_bell(struct urxe_gate *g)
{
	atomic_store(&g->stop, true);
	sem_post(&g->arm);
	INNER->wake(g->link);
	pthread_join(g->bell, NULL);
}

void urxe_gate_close(struct urxe_gate *g)
{
	if (!g)
		return;
	if (g->has_bell)
		stop_bell(g);
	gate_out_fini(g);
	gate_cm_fini(g);
	if (g->link)
		INNER->close(g->link);
	if (g->fabric)
		urxe_fabric_put(g->fabric);
	if (g->port)
		urxe_port_destroy(g->port);
	if (g->file >= 0)
		urxe_gate_unclaim(&g->spec, g->file);
	sem_destroy(&g->arm);
	free(g->groups);
	free(g);
}
