/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where addresses are, and who is in which group. Each member writes its own into its record; who
 * asks looks through all records.
 */
#include <errno.h>
#include <stdlib.h>

#include "netio/fabric_priv.h"
#include "urxe/gid.h"

static bool is_slot(unsigned slot)
{
	return slot >= URXE_FABRIC_FIRST && slot <= URXE_FABRIC_LAST;
}

uint32_t urxe_fabric_incarnation(const struct urxe_fabric *f, unsigned slot)
{
	struct urxe_ftable *t = urxe_fabric_table(f);

	return t && is_slot(slot) ? urxe_ft_incarnation(t, slot) : 0;
}

bool urxe_fabric_alive(struct urxe_fabric *f, unsigned slot, uint32_t incarnation)
{
	struct urxe_ftable *t = urxe_fabric_table(f);

	return t && is_slot(slot) && urxe_ft_live(t, slot, incarnation) &&
	       !urxe_fhub_bury(f->hub, t, slot, incarnation);
}

struct urxe_fabric_bell *urxe_fabric_bell(struct urxe_fabric *f, unsigned slot)
{
	struct urxe_ftable *t = urxe_fabric_table(f);

	return t && slot < URXE_FABRIC_SLOTS ? &t->bell[slot] : NULL;
}

unsigned urxe_fabric_domain(const struct urxe_fabric *f, unsigned slot)
{
	return urxe_fabric_incarnation(f, slot) ? urxe_ft_domain(urxe_fabric_table(f), slot) : 0;
}

/* ---- MACs ---- */

static uint64_t mac_at(struct urxe_ftable *t, unsigned slot)
{
	return atomic_load_explicit(&t->member[slot].mac, memory_order_relaxed) & 0xffffffffffff;
}

static bool node_at(struct urxe_ftable *t, unsigned slot)
{
	return atomic_load_explicit(&t->member[slot].flags, memory_order_relaxed) & FT_NODE;
}

bool urxe_fabric_mac(const struct urxe_fabric *f, uint8_t mac[6])
{
	unsigned slot = urxe_fabric_slot(f);

	if (!slot)
		return false;
	urxe_ft_mac_bytes(mac_at(urxe_fabric_table(f), slot), mac);
	return true;
}

int urxe_fabric_mac_slot(const struct urxe_fabric *f, const uint8_t mac[6])
{
	struct urxe_ftable *t = urxe_fabric_table(f);
	uint64_t want = urxe_ft_mac_number(mac);
	unsigned s = mac[5];

	if (!t)
		return -1;
	if (is_slot(s) && mac_at(t, s) == want && urxe_ft_incarnation(t, s))
		return node_at(t, s) ? (int)s : 0;
	for (s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		if (mac_at(t, s) == want && urxe_ft_incarnation(t, s))
			return node_at(t, s) ? (int)s : 0;
	}
	return -1;
}

bool urxe_fabric_shares(const struct urxe_fabric *f, unsigned slot, const uint8_t mac[6])
{
	struct urxe_ftable *t = urxe_fabric_table(f);

	return t && is_slot(slot) && urxe_ft_incarnation(t, slot) && !node_at(t, slot) &&
	       mac_at(t, slot) == urxe_ft_mac_number(mac);
}

bool urxe_fabric_is_gate(const struct urxe_fabric *f, unsigned slot)
{
	struct urxe_ftable *t = urxe_fabric_table(f);

	return t && is_slot(slot) && urxe_ft_incarnation(t, slot) &&
	       atomic_load_explicit(&t->member[slot].flags, memory_order_relaxed) & FT_GATE;
}

unsigned urxe_fabric_gate(const struct urxe_fabric *f, uint8_t mac[6])
{
	for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		if (!urxe_fabric_is_gate(f, s))
			continue;
		urxe_ft_mac_bytes(mac_at(urxe_fabric_table(f), s), mac);
		return s;
	}
	return 0;
}

/* ---- addresses ---- */

static bool same_gid(const _Atomic uint64_t a[2], const uint64_t b[2])
{
	return atomic_load_explicit(&a[1], memory_order_relaxed) == b[1] &&
	       atomic_load_explicit(&a[0], memory_order_relaxed) == b[0];
}

static bool has_addr(struct urxe_ftable *t, unsigned slot, const uint64_t gid[2])
{
	struct urxe_ft_member *m = &t->member[slot];
	uint32_t n = atomic_load_explicit(&m->gids, memory_order_relaxed);

	if (!urxe_ft_incarnation(t, slot))
		return false;
	for (uint32_t i = 0; i < n && i < URXE_FABRIC_GIDS; i++) {
		if (same_gid(m->gid[i], gid))
			return true;
	}
	return false;
}

static void found(const struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot,
		  struct urxe_fabric_where *where)
{
	urxe_ft_mac_bytes(mac_at(t, slot), where->mac);
	where->slot = node_at(t, slot) ? slot : 0;
	where->domain = urxe_ft_domain(t, slot);
	where->ours = where->domain == f->domain;
}

int urxe_fabric_lookup(const struct urxe_fabric *f, const uint8_t gid[16],
		       struct urxe_fabric_where *where)
{
	struct urxe_ftable *t = urxe_fabric_table(f);
	unsigned own = urxe_fabric_slot(f), s;
	uint64_t want[2];

	if (!t)
		return EHOSTUNREACH;
	urxe_ft_gid_words(gid, want);
	/* Should two have it: ourselves first. */
	if (own && has_addr(t, own, want)) {
		found(f, t, own, where);
		return 0;
	}
	for (s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		if (has_addr(t, s, want)) {
			found(f, t, s, where);
			return 0;
		}
	}
	return EHOSTUNREACH;
}

uint32_t urxe_fabric_addrs_version(const struct urxe_fabric *f)
{
	struct urxe_ftable *t = urxe_fabric_table(f);

	return t ? atomic_load_explicit(&t->addrs, memory_order_acquire) : 0;
}

static int duplicate(const struct urxe_fabric *f, struct urxe_ftable *t, unsigned n,
		     unsigned *other)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t gid[2];
		unsigned s;

		urxe_ft_gid_words(f->gid[i], gid);
		for (s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
			if (!has_addr(t, s, gid) || urxe_ft_domain(t, s) == f->domain)
				continue;
			if (other)
				*other = node_at(t, s) ? s : 0;
			return EADDRINUSE;
		}
	}
	return 0;
}

int urxe_fabric_addr_set(struct urxe_fabric *f, const uint8_t (*gids)[16], unsigned n,
			 unsigned *other)
{
	unsigned slot;
	bool many = n > URXE_FABRIC_GIDS;
	int ret = 0;

	if (!urxe_fabric_ours(f))
		return ENODEV;
	if (many)
		n = URXE_FABRIC_GIDS;
	urxe_mutex_lock(&f->lock);
	memcpy(f->gid, gids, n * sizeof(f->gid[0]));
	f->gids = n;
	/* Who joins at this moment has not read them yet, or is seen here. */
	slot = f->described;
	if (slot) {
		urxe_ft_addrs(f, f->hub->map->table, slot);
		ret = duplicate(f, f->hub->map->table, n, other);
	}
	urxe_mutex_unlock(&f->lock);
	return ret ? ret : many ? E2BIG : 0;
}

/* ---- beyond the fabric ---- */

void urxe_fabric_serve(struct urxe_fabric *f)
{
	if (!atomic_exchange(&f->serves, true))
		urxe_fabric_call_at(f, 0);
}

bool urxe_fabric_serves(struct urxe_fabric *f)
{
	bool any = false;

	if (!atomic_load(&f->serves) || !urxe_fabric_ours(f))
		return false;
	urxe_mutex_lock(&f->lock);
	for (unsigned i = 0; i < f->gids && !any; i++)
		any = !urxe_gid_is_loopback(f->gid[i]);
	urxe_mutex_unlock(&f->lock);
	return any;
}

_Atomic uint64_t *urxe_fabric_spawn_hold(struct urxe_fabric *f)
{
	struct urxe_ftable *t = urxe_fabric_table(f);

	return t ? &t->spawn_hold : NULL;
}

/* ---- groups ---- */

static struct urxe_fgroup *find_group(struct urxe_fabric *f, const uint8_t mgid[16])
{
	for (unsigned i = 0; i < f->groups; i++) {
		if (!memcmp(f->group[i].gid, mgid, 16))
			return &f->group[i];
	}
	return NULL;
}

static void publish_groups(struct urxe_fabric *f)
{
	if (f->described)
		urxe_ft_groups(f, f->hub->map->table, f->described);
}

static int add_group(struct urxe_fabric *f, const uint8_t mgid[16])
{
	struct urxe_fgroup *more = f->group;
	unsigned room = f->groups_room;

	if (f->groups == room) {
		room = room ? 2 * room : 8;
		more = realloc(f->group, room * sizeof(*more));
		if (!more)
			return ENOMEM;
		f->group = more;
		f->groups_room = room;
	}
	memcpy(more[f->groups].gid, mgid, 16);
	more[f->groups++].joins = 1;
	publish_groups(f);
	return 0;
}

int urxe_fabric_group_join(struct urxe_fabric *f, const uint8_t mgid[16])
{
	struct urxe_fgroup *g;
	int ret = 0;

	if (!urxe_fabric_ours(f))
		return ENODEV;
	urxe_mutex_lock(&f->lock);
	g = find_group(f, mgid);
	if (g)
		g->joins++;
	else
		ret = add_group(f, mgid);
	urxe_mutex_unlock(&f->lock);
	if (!ret)
		urxe_fabric_serve(f);
	return ret;
}

void urxe_fabric_group_leave(struct urxe_fabric *f, const uint8_t mgid[16])
{
	struct urxe_fgroup *g;

	if (!urxe_fabric_ours(f))
		return;
	urxe_mutex_lock(&f->lock);
	g = find_group(f, mgid);
	if (g && !--g->joins) {
		*g = f->group[--f->groups];
		publish_groups(f);
	}
	urxe_mutex_unlock(&f->lock);
}

static bool in_group(struct urxe_ftable *t, unsigned slot, const uint64_t gid[2])
{
	struct urxe_ft_member *m = &t->member[slot];
	uint32_t n = atomic_load_explicit(&m->groups, memory_order_relaxed);

	if (!urxe_ft_incarnation(t, slot))
		return false;
	if (atomic_load_explicit(&m->flags, memory_order_relaxed) & FT_ALL_GROUPS)
		return true;
	for (uint32_t i = 0; i < n && i < URXE_FABRIC_GROUPS; i++) {
		if (same_gid(m->group[i], gid))
			return true;
	}
	return false;
}

void urxe_fabric_group_members(const struct urxe_fabric *f, const uint8_t mgid[16],
			       uint64_t slots[URXE_FABRIC_SLOTS / 64])
{
	struct urxe_ftable *t = urxe_fabric_table(f);
	unsigned own = urxe_fabric_slot(f), s;
	uint64_t want[2];

	memset(slots, 0, URXE_FABRIC_SLOTS / 8);
	if (!t)
		return;
	urxe_ft_gid_words(mgid, want);
	for (s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		if (s != own && in_group(t, s, want))
			slots[s / 64] |= 1ull << s % 64;
	}
}

uint32_t urxe_fabric_groups_version(const struct urxe_fabric *f)
{
	struct urxe_ftable *t = urxe_fabric_table(f);

	return t ? atomic_load_explicit(&t->groups, memory_order_acquire) : 0;
}
