/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Links of a test program: open one end of a wire, send and get a frame.
 */
#ifndef URXE_TEST_ETHDEV_END_H
#define URXE_TEST_ETHDEV_END_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "netio/clock.h"
#include "netio/config.h"
#include "netio/link.h"
#include "netio/port.h"
#include "urxe/log.h"

struct end {
	struct urxe_port_config cfg;
	const struct urxe_link_ops *ops;
	void *link;
	struct urxe_link_info info;
};

static char dir[] = "/tmp/urxe-ut-XXXXXX";
#ifdef __SANITIZE_ADDRESS__
/* The driver (22.11) forgets what it has when its peer dies while the port is probed. */
const char *__lsan_default_suppressions(void);

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:rte_intr_instance_alloc\nleak:vhost_user_setup\nleak:librte_net_virtio\n";
}
#endif

static bool end_trusts; /* `trust-peer` of the ends that are opened */
static const uint8_t own_mac[6] = {2, 0, 0, 0, 0, 7};

static inline uint64_t now(void)
{
	return urxe_clock_now(NULL);
}

/* @mac: `mac` of the configuration; NULL: it has none */
static inline int end_open_as(struct end *e, const char *port, uint32_t mtu, const uint8_t *mac)
{
	void *arg;

	memset(e, 0, sizeof(*e));
	strcpy(e->cfg.name, "urxe0");
	snprintf(e->cfg.port, sizeof(e->cfg.port), port, dir);
	e->cfg.mtu = mtu;
	e->cfg.vlan = URXE_NO_VLAN;
	e->cfg.trust_peer = end_trusts;
	e->cfg.has_mac = mac;
	if (mac)
		memcpy(e->cfg.mac, mac, 6);
	urxe_link_select(&e->cfg, &e->ops, &arg);
	return e->ops->open(arg, &e->cfg, own_mac, urxe_config_l3_mtu(&e->cfg), &e->link, &e->info);
}

static inline int end_open(struct end *e, const char *port, uint32_t mtu)
{
	return end_open_as(e, port, mtu, NULL);
}

static inline void end_close(struct end *e)
{
	e->ops->close(e->link);
}

static inline bool both_up(struct end *a, struct end *b)
{
	uint64_t end = now() + 10000000000u;

	while (!a->ops->up(a->link) || !b->ops->up(b->link)) {
		if (now() > end)
			return false;
		sched_yield();
	}
	return true;
}

static inline bool await(struct end *e, bool (*is)(void *link), bool want)
{
	uint64_t end = now() + 10000000000u;

	while (is(e->link) != want) {
		if (now() > end)
			return false;
		sched_yield();
	}
	return true;
}

static inline void check_gone(struct end *e)
{
	struct urxe_frame f;

	CU_ASSERT(!e->ops->up(e->link));
	/* The data path keeps away from it. */
	CU_ASSERT_EQUAL(e->ops->rx(e->link, 0, &f, 1), 0);
	if (e->ops->alloc(e->link, 0, &f, 1) == 1) {
		f.len = 60;
		CU_ASSERT_EQUAL(e->ops->tx(e->link, 0, &f, 1), 0);
		e->ops->free(e->link, 0, &f, 1);
	}
}

static inline bool send_one(struct end *e, uint32_t len, uint8_t mark)
{
	struct urxe_frame f;
	uint64_t end = now() + 5000000000u;

	if (e->ops->alloc(e->link, 0, &f, 1) != 1 || f.room < len)
		return false;
	memset(f.data, mark, len);
	f.len = len;
	while (!e->ops->tx(e->link, 0, &f, 1)) {
		if (now() > end)
			return false;
		sched_yield();
	}
	return true;
}

/* Waits for a frame with this mark; frames of before (a link coming up) are thrown away. */
static inline bool get_one(struct end *e, uint32_t len, uint8_t mark)
{
	uint64_t end = now() + 5000000000u;
	struct urxe_frame f;
	bool ok = false;

	while (!ok && now() < end) {
		if (!e->ops->rx(e->link, 0, &f, 1)) {
			sched_yield();
			continue;
		}
		ok = f.len == len;
		for (uint32_t i = 0; i < f.len && ok; i++)
			ok = f.data[i] == mark;
		e->ops->free(e->link, 0, &f, 1);
	}
	return ok;
}

static inline void ends_setup(void)
{
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
}

static inline void ends_cleanup(void)
{
	char cmd[300];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	CU_ASSERT_EQUAL(system(cmd), 0);
}

#endif
