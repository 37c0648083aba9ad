/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * `urxe status`: a device, what it counted, its CQs, and how many there are of what is not shown
 * one by one. All is counted for other reasons already.
 */
#include "provider.h"
#include "mcast.h"
#include "rcu.h"
#include "status.h"
#include "urxe/gid.h"

#define MAX_COUNTERS 128
#define CHUNK	     256 /* keys that are looked at in one read-side section */

static const char *device_state(const struct urxe_device *dev)
{
	struct urxe_port_info info;

	if (urxe_device_check(dev))
		return "dead";
	urxe_port_query(dev->port, &info);
	return !info.started ? "not started" : info.link_up ? "up" : "down";
}

static void put_addresses(struct urxe_json *j, struct urxe_device *dev)
{
	struct urxe_gid_entry e;
	char gid[URXE_GID_STRLEN], text[URXE_GID_STRLEN + 8];

	urxe_json_array(j, "addresses");
	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		if (urxe_port_gid(dev->port, i, &e))
			continue;
		snprintf(text, sizeof(text), "%s/%u", urxe_gid_print(e.gid, gid, sizeof(gid)),
			 e.prefix_len);
		urxe_json_string(j, NULL, text);
	}
	urxe_json_end(j);
}

/* ---- counters ---- */

static void put_counters(struct urxe_json *j, struct urxe_device *dev)
{
	uint64_t values[MAX_COUNTERS], stats[URXE_NUM_STATS];
	const char *const *names;
	unsigned n = urxe_port_counters(dev->port, &names, values, MAX_COUNTERS);

	/* The clock that rates are made of, beside what they count. */
	urxe_json_number(j, "time_ns", urxe_port_now(dev->port));
	urxe_json_object(j, "port");
	for (unsigned i = 0; i < n; i++)
		urxe_json_number(j, names[i], values[i]);
	urxe_json_end(j);
	urxe_json_object(j, "transport");
	for (unsigned i = 0; i < URXE_NUM_STATS; i++) {
		stats[i] = atomic_load_explicit(&dev->stats[i], memory_order_relaxed);
		urxe_json_number(j, urxe_stat_name((enum urxe_stat)i), stats[i]);
	}
	urxe_json_end(j);
	urxe_json_number(j, "drops", urxe_port_drops(values) + urxe_stat_drops(stats));
}

/* ---- memory ---- */

struct memory {
	uint64_t regions, bytes, windows;
};

/* Of a region, and not its keys, which are a right to the memory, but what numbers them. */
struct region {
	uint32_t mrn;
	uint64_t length;
};

/* False: it is a window. */
static bool count_key(struct memory *m, const struct urxe_mkey *k, struct region *r)
{
	if (k->kind != URXE_MKEY_MR) {
		m->windows++;
		return false;
	}
	*r = (struct region){k->key >> 8, k->length};
	m->regions++;
	/* A null region has no memory, and all addresses. */
	if (!(k->flags & URXE_MKEY_NULL))
		m->bytes += k->length;
	return true;
}

static void put_memory(struct urxe_json *j, struct urxe_device *dev)
{
	const struct urxe_mkey *k = NULL;
	struct memory m = {0};
	struct region list[CHUNK];
	unsigned i = 0, num;

	urxe_json_object(j, "mrs");
	urxe_json_array(j, "list");
	do {
		num = 0;
		urxe_rcu_read_lock();
		for (unsigned n = 0; n < CHUNK && (k = urxe_table_next(&dev->mkeys, &i)); n++, i++)
			num += count_key(&m, k, &list[num]);
		urxe_rcu_read_unlock();
		for (unsigned n = 0; n < num; n++) {
			urxe_json_object(j, NULL);
			urxe_json_number(j, "mrn", list[n].mrn);
			urxe_json_number(j, "length", list[n].length);
			urxe_json_end(j);
		}
	} while (k);
	urxe_json_end(j);
	urxe_json_number(j, "count", m.regions);
	urxe_json_number(j, "bytes", m.bytes);
	urxe_json_end(j);
	urxe_json_number(j, "mws", m.windows);
}

/* ---- CQs ---- */

static void put_cq(struct urxe_json *j, struct urxe_cq *cq)
{
	static const char *const armed[] = {
		[URXE_CQ_UNARMED] = "no",
		[URXE_CQ_ARM_SOLICITED] = "solicited",
		[URXE_CQ_ARM_ANY] = "any",
	};
	uint32_t size, filled;
	bool overrun;

	urxe_spin_lock(&cq->lock);
	size = cq->size;
	filled = atomic_load_explicit(&cq->head, memory_order_relaxed) - urxe_cq_tail(cq);
	overrun = cq->overrun;
	urxe_spin_unlock(&cq->lock);
	urxe_json_object(j, NULL);
	urxe_json_number(j, "cqn", cq->number);
	urxe_json_number(j, "entries", size - 1);
	urxe_json_number(j, "unpolled", filled);
	urxe_json_string(j, "armed", armed[atomic_load(&cq->armed)]);
	urxe_json_bool(j, "overrun", overrun);
	urxe_json_number(j, "users", (uint64_t)atomic_load(&cq->users));
	urxe_json_end(j);
}

static void put_cqs(struct urxe_json *j, struct urxe_device *dev)
{
	struct urxe_cq *cq;

	urxe_json_array(j, "cqs");
	urxe_mutex_lock(&dev->cqs_lock);
	cds_list_for_each_entry (cq, &dev->cqs, node)
		put_cq(j, cq);
	urxe_mutex_unlock(&dev->cqs_lock);
	urxe_json_end(j);
}

/* ---- the whole ---- */

static void put_number_of(struct urxe_json *j, const char *key, const atomic_int *n)
{
	int v = atomic_load_explicit(n, memory_order_relaxed);

	urxe_json_number(j, key, v > 0 ? (uint64_t)v : 0);
}

void urxe_status_put_device(struct urxe_json *j, struct urxe_device *dev, bool objects)
{
	urxe_json_string(j, "name", dev->cfg.name);
	urxe_json_string(j, "link", dev->cfg.port);
	urxe_json_string(j, "state", device_state(dev));
	put_counters(j, dev);
	if (!objects)
		return;
	put_addresses(j, dev);
	put_number_of(j, "pds", &dev->num_pd);
	put_number_of(j, "ahs", &dev->num_ah);
	put_number_of(j, "srqs", &dev->num_srq);
	put_number_of(j, "wqs", &dev->num_wq);
	put_memory(j, dev);
	urxe_mcast_put_groups(j, dev);
	put_cqs(j, dev);
	urxe_status_put_qps(j, dev);
}
