/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast groups of a port: counted joins, the link's receive filter, and membership
 * reports (IGMPv3, RFC 3376; MLDv2, RFC 3810) for switches that listen to them.
 */
#include "netio/stack.h"

#include "netio/fabric.h"

#define REPORTS	       2 /* robustness variable */
#define REPORT_GAP     URXE_SEC
#define FILTER_MAX     (MCAST_MAX + URXE_PORT_MAX_GIDS + 2)
#define TO_EXCLUDE     4 /* record types: CHANGE_TO_EXCLUDE_MODE {} is a join */
#define TO_INCLUDE     3 /* CHANGE_TO_INCLUDE_MODE {} is a leave */
#define IS_EXCLUDE     2 /* the answer to a query */
#define IGMP_QUERY     0x11
#define IGMP_REPORT    0x22
#define MLD_QUERY      130
#define MLD_REPORT     143
#define IGMP_IP_LEN    24 /* with the router alert option */
#define MLD_QUERY_LEN  24
#define IGMP_QUERY_LEN 8

void urxe_mcast_mac(const uint8_t mgid[16], uint8_t mac[6])
{
	if (urxe_gid_is_v4(mgid)) { /* RFC 1112 6.4 */
		mac[0] = 0x01, mac[1] = 0x00, mac[2] = 0x5e;
		mac[3] = mgid[13] & 0x7f, mac[4] = mgid[14], mac[5] = mgid[15];
	} else { /* RFC 2464 7 */
		mac[0] = mac[1] = 0x33;
		memcpy(mac + 2, mgid + 12, 4);
	}
}

static struct urxe_mcast_group *find(struct urxe_mcast *m, const uint8_t mgid[16])
{
	for (unsigned i = 0; i < m->count; i++) {
		if (!memcmp(m->group[i].gid, mgid, 16))
			return &m->group[i];
	}
	return NULL;
}

bool urxe_mcast_joined(struct urxe_port *port, const uint8_t mgid[16])
{
	struct urxe_mcast_group *g;
	bool joined;

	urxe_spin_lock(&port->mcast.lock);
	g = find(&port->mcast, mgid);
	joined = g && g->members;
	urxe_spin_unlock(&port->mcast.lock);
	return joined;
}

/* ---- the link's filter ---- */

static unsigned filter_macs(struct urxe_port *port, uint8_t (*macs)[6])
{
	static const uint8_t all_hosts[16] = {[10] = 0xff, [11] = 0xff, 224, 0, 0, 1};
	static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};
	const struct urxe_gid_entry *own;
	uint8_t group[16];
	unsigned n = 0;

	urxe_mcast_mac(all_hosts, macs[n++]);
	urxe_mcast_mac(all_nodes, macs[n++]);
	for (unsigned i = 0; i < urxe_port_gid_end(port); i++) {
		own = urxe_port_own(port, i);
		if (!own || own->ipv4)
			continue;
		urxe_nd_group(own->gid, group);
		urxe_mcast_mac(group, macs[n++]);
	}
	urxe_spin_lock(&port->mcast.lock);
	for (unsigned i = 0; i < port->mcast.count; i++) {
		if (port->mcast.group[i].members)
			urxe_mcast_mac(port->mcast.group[i].gid, macs[n++]);
	}
	urxe_spin_unlock(&port->mcast.lock);
	return n;
}

/* With the filter lock held, so that filters reach the link in order. */
static int filter_set(struct urxe_port *port) URXE_REQUIRES(port->mcast.filter_lock)
{
	uint8_t macs[FILTER_MAX][6];
	unsigned n;

	if (!atomic_load(&port->started) || !port->ops->mcast)
		return 0;
	n = filter_macs(port, macs);
	return port->ops->mcast(port->link, (const uint8_t(*)[6])macs, n);
}

/* The fabric has a table of who has joined. */
static int group_set(struct urxe_port *port, const uint8_t mgid[16], bool join)
	URXE_REQUIRES(port->mcast.filter_lock)
{
	int err = 0;

	if (port->fabric && join)
		err = urxe_fabric_group_join(port->fabric, mgid);
	else if (port->fabric)
		urxe_fabric_group_leave(port->fabric, mgid);
	if (!err && port->ops->group && atomic_load(&port->started))
		err = port->ops->group(port->link, mgid, join);
	return err ? err : filter_set(port);
}

static void report_now(struct urxe_port *port)
{
	/* No switch listens. */
	if (port->fabric)
		return;
	atomic_store_explicit(&port->mcast.due, 0, memory_order_relaxed);
	if (atomic_load(&port->started))
		urxe_neigh_schedule(port, 0);
}

int urxe_mcast_refilter(struct urxe_port *port)
{
	int err;

	urxe_mutex_lock(&port->mcast.filter_lock);
	err = filter_set(port);
	urxe_mutex_unlock(&port->mcast.filter_lock);
	return err;
}

/* Groups that were joined before there was a link to tell. */
static void join_all(struct urxe_port *port)
{
	struct urxe_mcast *m = &port->mcast;
	uint8_t gids[MCAST_MAX][16];
	unsigned n = 0;

	urxe_mutex_lock(&m->filter_lock);
	urxe_spin_lock(&m->lock);
	for (unsigned i = 0; i < m->count; i++) {
		if (m->group[i].members)
			memcpy(gids[n++], m->group[i].gid, 16);
	}
	urxe_spin_unlock(&m->lock);
	for (unsigned i = 0; i < n; i++)
		port->ops->group(port->link, gids[i], true);
	urxe_mutex_unlock(&m->filter_lock);
}

void urxe_mcast_start(struct urxe_port *port)
{
	urxe_mcast_refilter(port);
	if (port->ops->group)
		join_all(port);
	report_now(port);
}

/* ---- join, leave ---- */

/* Room for a new group: groups that were left and reported so give theirs. */
static struct urxe_mcast_group *add(struct urxe_mcast *m, const uint8_t mgid[16])
{
	struct urxe_mcast_group *g = NULL;

	for (unsigned i = 0; i < m->count && !g; i++) {
		if (!m->group[i].members && !m->group[i].reports)
			g = &m->group[i];
	}
	if (!g && m->count < MCAST_MAX)
		g = &m->group[m->count++];
	/* A report that a group was left is worth less than a new member. */
	for (unsigned i = 0; i < m->count && !g; i++) {
		if (!m->group[i].members)
			g = &m->group[i];
	}
	if (!g)
		return NULL;
	memcpy(g->gid, mgid, 16);
	g->members = 0;
	return g;
}

int urxe_port_mcast_join(struct urxe_port *port, const uint8_t mgid[16])
{
	struct urxe_mcast *m = &port->mcast;
	struct urxe_mcast_group *g;
	bool first = false;
	int err = 0;

	if (!urxe_gid_is_mcast(mgid))
		return EINVAL;
	urxe_mutex_lock(&port->mcast.filter_lock);
	urxe_spin_lock(&m->lock);
	g = find(m, mgid);
	if (!g)
		g = add(m, mgid);
	if (!g) {
		err = ENOSPC;
	} else if (!g->members++) {
		first = true;
		g->reports = port->fabric ? 0 : REPORTS;
	}
	urxe_spin_unlock(&m->lock);
	if (first) {
		err = group_set(port, mgid, true);
		if (err) {
			urxe_spin_lock(&m->lock);
			g->members = g->reports = 0;
			urxe_spin_unlock(&m->lock);
		} else {
			report_now(port);
		}
	}
	urxe_mutex_unlock(&port->mcast.filter_lock);
	return err;
}

int urxe_port_mcast_leave(struct urxe_port *port, const uint8_t mgid[16])
{
	struct urxe_mcast *m = &port->mcast;
	struct urxe_mcast_group *g;
	bool last = false;
	int err = 0;

	urxe_mutex_lock(&port->mcast.filter_lock);
	urxe_spin_lock(&m->lock);
	g = find(m, mgid);
	if (!g || !g->members) {
		err = ENOENT;
	} else if (!--g->members) {
		last = true;
		g->reports = atomic_load(&port->started) && !port->fabric ? REPORTS : 0;
	}
	urxe_spin_unlock(&m->lock);
	if (last) {
		group_set(port, mgid, false);
		report_now(port);
	}
	urxe_mutex_unlock(&port->mcast.filter_lock);
	return err;
}

/* ---- reports ---- */

static void igmp_report(struct urxe_lane *lane, const uint8_t mgid[16], uint8_t type)
	URXE_REQUIRES(lane)
{
	static const uint8_t to[16] = {[10] = 0xff, [11] = 0xff, 224, 0, 0, 22};
	const uint8_t *own = urxe_port_asker(lane->port, 0, to);
	uint8_t mac[6], *ip, *p;
	struct urxe_frame f;

	urxe_mcast_mac(to, mac);
	if (!own)
		return;
	ip = urxe_ctl_begin(lane, &f, mac, ETHERTYPE_IPV4);
	if (!ip)
		return;
	p = ip + IGMP_IP_LEN;
	memset(ip, 0, IGMP_IP_LEN + 16);
	ip[0] = 0x46;
	ip[1] = 0xc0;
	urxe_put16(ip + 2, IGMP_IP_LEN + 16);
	ip[6] = 0x40;
	ip[8] = 1;
	ip[9] = PROTO_IGMP;
	memcpy(ip + 12, own + 12, 4);
	memcpy(ip + 16, to + 12, 4);
	ip[20] = 0x94; /* router alert (RFC 2113) */
	ip[21] = 4;
	urxe_put16(ip + 10, urxe_sum_fold(urxe_sum(0, ip, IGMP_IP_LEN)));
	p[0] = IGMP_REPORT;
	urxe_put16(p + 6, 1); /* record */
	p[8] = type;
	memcpy(p + 12, mgid + 12, 4);
	urxe_put16(p + 2, urxe_sum_fold(urxe_sum(0, p, 16)));
	urxe_ctl_end(lane, &f, p + 16);
	urxe_count(lane, URXE_CNT_group_reports, 1);
}

static void mld_report(struct urxe_lane *lane, const uint8_t mgid[16], uint8_t type)
	URXE_REQUIRES(lane)
{
	static const uint8_t to[16] = {0xff, 0x02, [15] = 22};
	static const uint8_t hop_opt[8] = {PROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0}; /* RFC 2711, PadN */
	uint8_t mac[6], *ip, *p;
	struct urxe_frame f;

	urxe_mcast_mac(to, mac);
	ip = urxe_ctl_begin(lane, &f, mac, ETHERTYPE_IPV6);
	if (!ip)
		return;
	p = ip + IPV6_LEN + sizeof(hop_opt);
	memset(ip, 0, IPV6_LEN + sizeof(hop_opt) + 28);
	urxe_put32(ip, 6u << 28);
	urxe_put16(ip + 4, sizeof(hop_opt) + 28);
	ip[6] = PROTO_HOPOPTS;
	ip[7] = 1;
	/* The source would be a link-local address; without one it is :: (RFC 3810 5.2.13). */
	memcpy(ip + 24, to, 16);
	memcpy(ip + IPV6_LEN, hop_opt, sizeof(hop_opt));
	p[0] = MLD_REPORT;
	urxe_put16(p + 6, 1); /* record */
	p[8] = type;
	memcpy(p + 12, mgid, 16);
	urxe_put16(p + 2,
		   urxe_sum_fold(urxe_sum(urxe_sum_pseudo(ip, false, PROTO_ICMPV6, 28), p, 28)));
	urxe_ctl_end(lane, &f, p + 28);
	urxe_count(lane, URXE_CNT_group_reports, 1);
}

static void report(struct urxe_lane *lane, const uint8_t mgid[16], uint8_t type) URXE_REQUIRES(lane)
{
	if (urxe_gid_is_v4(mgid))
		igmp_report(lane, mgid, type);
	else
		mld_report(lane, mgid, type);
}

/* The report that is due now for the group at @i, if any. Under the lock. */
static uint8_t report_due(struct urxe_mcast *m, unsigned i, bool all4, bool all6, uint8_t gid[16])
{
	struct urxe_mcast_group *g = &m->group[i];

	memcpy(gid, g->gid, 16);
	if (g->reports) {
		g->reports--;
		return g->members ? TO_EXCLUDE : TO_INCLUDE;
	}
	if (g->members && (urxe_gid_is_v4(gid) ? all4 : all6))
		return IS_EXCLUDE;
	return 0;
}

void urxe_mcast_report_all(struct urxe_port *port)
{
	struct urxe_mcast *m = &port->mcast;

	urxe_spin_lock(&m->lock);
	for (unsigned i = 0; i < m->count; i++) {
		if (m->group[i].members && !port->fabric)
			m->group[i].reports = REPORTS;
	}
	if (m->count)
		atomic_store_explicit(&m->due, 0, memory_order_relaxed);
	urxe_spin_unlock(&m->lock);
}

void urxe_mcast_tick(struct urxe_lane *lane, uint64_t now)
{
	struct urxe_mcast *m = &lane->port->mcast;
	bool all4, all6, more = false, end = false;
	uint8_t gid[16], type;

	if (now < atomic_load_explicit(&m->due, memory_order_relaxed))
		return;
	urxe_spin_lock(&m->lock);
	all4 = m->query4, all6 = m->query6;
	m->query4 = m->query6 = false;
	/* A join from here on makes it 0 again, and so does the carrier: without it nobody
	 * receives reports. */
	atomic_store_explicit(&m->due, URXE_NEVER, memory_order_relaxed);
	end = !atomic_load_explicit(&lane->port->neigh.was_up, memory_order_relaxed);
	urxe_spin_unlock(&m->lock);
	for (unsigned i = 0; !end; i++) {
		type = 0;
		urxe_spin_lock(&m->lock);
		end = i >= m->count;
		if (!end) {
			type = report_due(m, i, all4, all6, gid);
			more |= m->group[i].reports != 0;
		}
		urxe_spin_unlock(&m->lock);
		if (type)
			report(lane, gid, type);
	}
	urxe_spin_lock(&m->lock);
	if (more && atomic_load_explicit(&m->due, memory_order_relaxed) == URXE_NEVER)
		atomic_store_explicit(&m->due, now + REPORT_GAP, memory_order_relaxed);
	urxe_spin_unlock(&m->lock);
}

/* ---- queries ---- */

void urxe_mcast_query(struct urxe_lane *lane, bool ipv4)
{
	struct urxe_mcast *m = &lane->port->mcast;
	uint64_t due = urxe_port_now(lane->port) + REPORT_GAP / 10;

	urxe_spin_lock(&m->lock);
	*(ipv4 ? &m->query4 : &m->query6) = true;
	/* Many queries in a row get one answer. */
	if (atomic_load_explicit(&m->due, memory_order_relaxed) > due)
		atomic_store_explicit(&m->due, due, memory_order_relaxed);
	urxe_spin_unlock(&m->lock);
	urxe_neigh_schedule(lane->port, due);
}

void urxe_igmp_input(struct urxe_lane *lane, const struct urxe_input *in)
{
	if (in->l4_len < IGMP_QUERY_LEN || urxe_sum_fold(urxe_sum(0, in->l4, in->l4_len)))
		urxe_count(lane, URXE_CNT_rx_icmp_bad, 1);
	else if (in->l4[0] == IGMP_QUERY)
		urxe_mcast_query(lane, true);
	else
		urxe_count(lane, URXE_CNT_rx_group_ignored, 1);
}

void urxe_mld_input(struct urxe_lane *lane, const struct urxe_input *in)
{
	uint32_t sum = urxe_sum_pseudo(in->l3, false, PROTO_ICMPV6, in->l4_len);

	if (in->l4_len < 8 || urxe_sum_fold(urxe_sum(sum, in->l4, in->l4_len)))
		urxe_count(lane, URXE_CNT_rx_icmp_bad, 1);
	else if (in->l4[0] == MLD_QUERY && in->l4_len >= MLD_QUERY_LEN && in->l3[7] == 1)
		urxe_mcast_query(lane, false);
	else
		urxe_count(lane, URXE_CNT_rx_group_ignored, 1);
}
