/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The fabric's ports, services, addresses and groups: between members, and after a death. */
#include <pthread.h>
#include <stdatomic.h>

#include "fabric_rig.h"

#define REUSE  URXE_IDENT_PORT_REUSE
#define V4     URXE_IDENT_PORT_V4
#define V6ONLY URXE_IDENT_PORT_V6ONLY

static const uint8_t a4[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1};
static const uint8_t b4[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2};
static const uint8_t lo4[16] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1};
static const uint8_t any4[16] = {[10] = 0xff, [11] = 0xff};
static const uint8_t any[16];
static const uint8_t a6[16] = {0xfd, [15] = 1};

static int claim(struct urxe_fabric *f, const uint8_t gid[16], unsigned flags, uint16_t port,
		 urxe_fabric_claim *c)
{
	return urxe_fabric_port_claim(f, URXE_IDENT_TCP, gid, flags, 0, &port, c);
}

/* As sockets have it: the same rows as for a process alone (netio_identity.c). */
static void conflicts(void)
{
	static const struct {
		const uint8_t *a;
		unsigned fa;
		bool listens;
		const uint8_t *b;
		unsigned fb;
		int err;
	} rows[] = {
		{a4, V4, false, a4, V4, EADDRINUSE},
		{a4, V4, false, b4, V4, 0},
		{a4, V4 | REUSE, false, a4, V4 | REUSE, 0},
		{a4, V4 | REUSE, true, a4, V4 | REUSE, EADDRINUSE},
		{a4, V4 | REUSE, false, a4, V4, EADDRINUSE},
		{any, V4, false, a4, V4, EADDRINUSE},
		{any4, 0, false, a4, V4, EADDRINUSE},
		{any, 0, false, a4, V4, EADDRINUSE},
		{any, V6ONLY, false, a4, V4, 0},
		{any, V6ONLY, false, a6, 0, EADDRINUSE},
		{any, V4, false, a6, 0, 0},
		{any, V4, false, any, V6ONLY, 0},
		{any, V4, false, any, 0, EADDRINUSE},
		{a6, 0, false, a6, 0, EADDRINUSE},
	};
	struct urxe_fabric *f, *g;

	rig_begin();
	f = rig_join(false);
	g = rig_join(false);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned turned = 0; turned < 2; turned++) {
			struct urxe_fabric *x = turned ? g : f, *y = turned ? f : g;
			urxe_fabric_claim c, d = 0;

			CU_ASSERT_EQUAL(claim(x, rows[i].a, rows[i].fa, 7174, &c), 0);
			if (rows[i].listens)
				CU_ASSERT_EQUAL(urxe_fabric_port_listen(x, c), 0);
			CU_ASSERT_EQUAL(claim(y, rows[i].b, rows[i].fb, 7174, &d), rows[i].err);
			/* Nor does one's own pass. */
			urxe_fabric_port_release(y, d);
			d = 0;
			CU_ASSERT_EQUAL(claim(x, rows[i].b, rows[i].fb, 7174, &d), rows[i].err);
			urxe_fabric_port_release(x, d);
			urxe_fabric_port_release(x, c);
			urxe_fabric_port_release(x, c); /* twice is once */
			CU_ASSERT_EQUAL(claim(y, rows[i].b, rows[i].fb, 7174, &d), 0);
			urxe_fabric_port_release(y, d);
		}
	}
	urxe_fabric_put(f);
	urxe_fabric_put(g);
	rig_end();
}

static void listeners(void)
{
	struct urxe_fabric *f, *g;
	urxe_fabric_claim c, d;
	const uint64_t service = 0x01060000 | 7174;

	rig_begin();
	f = rig_join(false);
	g = rig_join(false);
	CU_ASSERT_EQUAL(urxe_fabric_addr_set(f, &a4, 1, NULL), 0);
	CU_ASSERT_EQUAL(claim(f, a4, V4 | REUSE, 7174, &c), 0);
	CU_ASSERT_EQUAL(claim(g, any, V4 | REUSE, 7174, &d), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, service), 0);
	CU_ASSERT_EQUAL(urxe_fabric_port_listen(g, d), 0);
	CU_ASSERT_EQUAL(urxe_fabric_port_listen(f, c), EADDRINUSE);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, service), 2);
	CU_ASSERT_EQUAL(urxe_fabric_listener(g, a4, service), 2);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, service + 1), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 0x01110000 | 7174), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a6, service), 0);
	urxe_fabric_port_release(g, d);
	CU_ASSERT_EQUAL(urxe_fabric_port_listen(f, c), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(g, a4, service), 1);
	urxe_fabric_port_release(f, c);
	/* What was sent to 127.0.0.1 arrives at another address of the host. */
	CU_ASSERT_EQUAL(claim(g, lo4, V4, 7174, &d), 0);
	CU_ASSERT_EQUAL(urxe_fabric_port_listen(g, d), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, service), 2);
	urxe_fabric_put(g);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, service), 0);
	urxe_fabric_put(f);
	rig_end();
}

/* Nodes have port spaces of their own. */
static void nodes(void)
{
	struct urxe_fabric *host, *n, *m;
	struct urxe_fabric_where where;
	urxe_fabric_claim c;
	uint8_t mac[6];
	unsigned other = 99;

	rig_begin();
	host = rig_join(false);
	n = rig_join(true);
	m = rig_join(true);
	CU_ASSERT_EQUAL(urxe_fabric_addr_set(host, &a4, 1, NULL), 0);
	CU_ASSERT_EQUAL(urxe_fabric_addr_set(n, &b4, 1, NULL), 0);
	CU_ASSERT_EQUAL(urxe_fabric_addr_set(m, &a6, 1, NULL), 0);
	CU_ASSERT_EQUAL(claim(host, any, 0, 7174, &c), 0);
	CU_ASSERT_EQUAL(claim(n, any, 0, 7174, &c), 0);
	CU_ASSERT_EQUAL(claim(m, any, 0, 7174, &c), 0);
	CU_ASSERT_EQUAL(urxe_fabric_lookup(m, b4, &where), 0);
	CU_ASSERT_EQUAL(where.slot, urxe_fabric_slot(n));
	CU_ASSERT_TRUE(urxe_fabric_mac(n, mac) && !memcmp(mac, where.mac, 6));
	CU_ASSERT_FALSE(where.ours);
	CU_ASSERT_EQUAL(urxe_fabric_lookup(m, a4, &where), 0);
	CU_ASSERT_EQUAL(where.slot, 0);
	CU_ASSERT_EQUAL(urxe_fabric_lookup(host, a4, &where), 0);
	CU_ASSERT_TRUE(where.ours);
	CU_ASSERT_EQUAL(urxe_fabric_lookup(m, lo4, &where), EHOSTUNREACH);
	CU_ASSERT_EQUAL(urxe_fabric_addr_set(m, &b4, 1, &other), EADDRINUSE);
	CU_ASSERT_EQUAL(other, urxe_fabric_slot(n));
	/* A node gets all requests for its addresses. */
	CU_ASSERT_EQUAL(urxe_fabric_listener(host, b4, 0x01060000 | 1), urxe_fabric_slot(n));
	urxe_fabric_put(host);
	urxe_fabric_put(n);
	urxe_fabric_put(m);
	rig_end();
}

static void ephemeral(void)
{
	static uint8_t seen[65536];
	static urxe_fabric_claim held[28232];
	struct urxe_fabric *f[2];
	uint16_t port;
	urxe_fabric_claim c;

	memset(seen, 0, sizeof(seen));
	rig_begin();
	f[0] = rig_join(false);
	f[1] = rig_join(false);
	for (unsigned i = 0; i < 28232; i++) {
		port = 0;
		CU_ASSERT_EQUAL_FATAL(urxe_fabric_port_claim(f[i & 1], URXE_IDENT_TCP, any, V4,
							     i * 7919, &port, &held[i]),
				      0);
		if (port < 32768 || seen[port]++)
			CU_FAIL_FATAL("a port twice, or no ephemeral one");
	}
	port = 0;
	CU_ASSERT_EQUAL(urxe_fabric_port_claim(f[0], URXE_IDENT_TCP, any, V4 | REUSE, 5, &port, &c),
			EADDRNOTAVAIL);
	CU_ASSERT_EQUAL(urxe_fabric_port_claim(f[0], URXE_IDENT_UDP, any, V4, 5, &port, &c), 0);
	urxe_fabric_port_release(f[1], held[777]);
	port = 0;
	CU_ASSERT_EQUAL(urxe_fabric_port_claim(f[0], URXE_IDENT_TCP, any, V4, 5, &port, &c), 0);
	urxe_fabric_put(f[1]); /* half of them come back */
	for (unsigned i = 0; i < 1000; i++) {
		port = 0;
		CU_ASSERT_EQUAL(urxe_fabric_port_claim(f[0], URXE_IDENT_TCP, any, V4, i, &port, &c),
				0);
	}
	urxe_fabric_put(f[0]);
	rig_end();
}

/* One port, on more addresses than a bucket has room for. */
static void crowded(void)
{
	struct urxe_fabric *f, *g;
	urxe_fabric_claim c[200], d;
	uint8_t gid[16] = {0xfd};

	rig_begin();
	f = rig_join(false);
	g = rig_join(false);
	for (unsigned i = 0; i < 200; i++) {
		gid[15] = (uint8_t)i;
		CU_ASSERT_EQUAL_FATAL(claim(i & 1 ? f : g, gid, 0, 7174, &c[i]), 0);
	}
	for (unsigned i = 0; i < 200; i++) {
		gid[15] = (uint8_t)i;
		CU_ASSERT_EQUAL(claim(f, gid, 0, 7174, &d), EADDRINUSE);
		CU_ASSERT_EQUAL(claim(g, any, 0, 7174, &d), EADDRINUSE);
		urxe_fabric_port_release(i & 1 ? f : g, c[i]);
	}
	CU_ASSERT_EQUAL(claim(g, any, 0, 7174, &d), 0);
	urxe_fabric_put(f);
	urxe_fabric_put(g);
	rig_end();
}

static void services(void)
{
	struct urxe_fabric *f, *g, *node;
	urxe_fabric_claim c, d;

	rig_begin();
	f = rig_join(false);
	g = rig_join(false);
	node = rig_join(true);
	CU_ASSERT_EQUAL(urxe_fabric_service_listen(f, 0x1000, ~0xfull, &c), 0);
	CU_ASSERT_EQUAL(urxe_fabric_service_listen(g, 0x1007, ~0ull, &d), EADDRINUSE);
	CU_ASSERT_EQUAL(urxe_fabric_service_listen(f, 0x1007, ~0ull, &d), 0);
	CU_ASSERT_EQUAL(urxe_fabric_service_listen(node, 0x1007, ~0ull, &d), 0);
	CU_ASSERT_EQUAL(urxe_fabric_service_listen(g, 0x1010, ~0ull, &d), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(g, a4, 0x100f), 1);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 0x1010), 2);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 0x1011), 0);
	urxe_fabric_service_release(g, d);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 0x1010), 0);
	urxe_fabric_put(f);
	CU_ASSERT_EQUAL(urxe_fabric_service_listen(g, 0x1007, ~0ull, &d), 0);
	urxe_fabric_put(g);
	urxe_fabric_put(node);
	rig_end();
}

static void groups(void)
{
	struct urxe_fabric *f, *g;
	uint8_t mgid[16] = {0xff, 0x12};
	uint64_t who[4];
	uint32_t version;

	rig_begin();
	f = rig_join(false);
	g = rig_make(false);
	CU_ASSERT_EQUAL(urxe_fabric_group_join(g, mgid), 0); /* before it is a member */
	CU_ASSERT_EQUAL(urxe_fabric_join(g), 0);
	CU_ASSERT_EQUAL(urxe_fabric_group_join(f, mgid), 0);
	urxe_fabric_group_members(f, mgid, who);
	CU_ASSERT_EQUAL(who[0], 1u << 2);
	urxe_fabric_group_members(g, mgid, who);
	CU_ASSERT_EQUAL(who[0], 1u << 1);
	CU_ASSERT_EQUAL(urxe_fabric_group_join(g, mgid), 0);
	urxe_fabric_group_leave(g, mgid);
	version = urxe_fabric_groups_version(f);
	urxe_fabric_group_members(f, mgid, who);
	CU_ASSERT_EQUAL(who[0], 1u << 2);
	urxe_fabric_group_leave(g, mgid);
	CU_ASSERT_NOT_EQUAL(urxe_fabric_groups_version(f), version);
	urxe_fabric_group_members(f, mgid, who);
	CU_ASSERT_EQUAL(who[0], 0);
	for (unsigned i = 0; i <= URXE_FABRIC_GROUPS; i++) {
		mgid[14] = 1;
		mgid[15] = (uint8_t)i;
		CU_ASSERT_EQUAL(urxe_fabric_group_join(g, mgid), 0);
	}
	mgid[14] = 2; /* one that it did not join */
	urxe_fabric_group_members(f, mgid, who);
	CU_ASSERT_EQUAL(who[0], 1u << 2);
	mgid[14] = 1;
	urxe_fabric_group_leave(g, mgid);
	urxe_fabric_group_members(f, mgid, who);
	CU_ASSERT_EQUAL(who[0], 0);
	urxe_fabric_put(f);
	urxe_fabric_put(g);
	rig_end();
}

/* ---- all at once ---- */

#define RACERS 4
#define ROUNDS 20000

static atomic_uint holders, wins;

struct racer {
	struct urxe_fabric *f;
	pthread_t thread;
	unsigned bad;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	urxe_fabric_claim c;

	for (unsigned i = 0; i < ROUNDS; i++) {
		/* With a wildcard or an address: all are in each other's way. */
		int ret = claim(r->f, i & 1 ? any : a4, i & 1 ? 0 : V4, 7174, &c);

		if (ret) {
			r->bad += ret != EADDRINUSE;
			continue;
		}
		r->bad += atomic_fetch_add(&holders, 1) != 0;
		atomic_fetch_add(&wins, 1);
		atomic_fetch_sub(&holders, 1);
		urxe_fabric_port_release(r->f, c);
	}
	return NULL;
}

static void *race_to_listen(void *arg)
{
	struct racer *r = arg;
	urxe_fabric_claim c = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		r->bad += claim(r->f, a4, V4 | REUSE, 7175, &c) == EADDRNOTAVAIL;
		if (!c)
			continue;
		if (!urxe_fabric_port_listen(r->f, c)) {
			r->bad += atomic_fetch_add(&holders, 1) != 0;
			atomic_fetch_add(&wins, 1);
			atomic_fetch_sub(&holders, 1);
		}
		urxe_fabric_port_release(r->f, c);
		c = 0;
	}
	return NULL;
}

static void run_race(void *(*fn)(void *))
{
	struct racer r[RACERS];

	rig_begin();
	holders = wins = 0;
	for (unsigned i = 0; i < RACERS; i++)
		r[i] = (struct racer){.f = rig_join(false)};
	for (unsigned i = 0; i < RACERS; i++)
		pthread_create(&r[i].thread, NULL, fn, &r[i]);
	for (unsigned i = 0; i < RACERS; i++) {
		pthread_join(r[i].thread, NULL);
		CU_ASSERT_EQUAL(r[i].bad, 0);
		urxe_fabric_put(r[i].f);
	}
	CU_ASSERT_TRUE(wins > 0);
	rig_end();
}

static void races(void)
{
	run_race(race);
	run_race(race_to_listen);
}

/* ---- a death ---- */

static void claimer(int in, int out)
{
	struct urxe_fabric *f = rig_make(false);
	urxe_fabric_claim c, d;
	int bad = claim(f, any, 0, 7174, &c); /* joins */

	bad += urxe_fabric_port_listen(f, c);
	bad += urxe_fabric_service_listen(f, 0x1000, ~0ull, &d);
	rig_say(out, bad);
	rig_hear(in);
}

static void death(void)
{
	struct urxe_fabric *f;
	struct rig_process p;
	urxe_fabric_claim c;

	if (!rig_can_fork())
		return;
	rig_begin();
	f = rig_join(false);
	rig_start(&p, claimer);
	CU_ASSERT_EQUAL(rig_hear(p.from), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 0x01060000 | 7174), 2);
	CU_ASSERT_EQUAL(claim(f, a4, V4, 7174, &c), EADDRINUSE);
	rig_kill(&p);
	/* Nobody has said so, and yet they are free. */
	CU_ASSERT_EQUAL(claim(f, a4, V4, 7174, &c), 0);
	CU_ASSERT_EQUAL(urxe_fabric_port_listen(f, c), 0);
	CU_ASSERT_EQUAL(urxe_fabric_service_listen(f, 0x1000, ~0ull, &c), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 0x01060000 | 7174), 1);
	urxe_fabric_put(f);
	rig_end();
}

/* ---- numbers ---- */

static uint64_t some(void *arg)
{
	return *(uint64_t *)arg += 0x9e3779b97f4a7c15;
}

static void numbers(void)
{
	static uint8_t seen[65536];
	struct urxe_fabric *f, *g;
	struct urxe_ident *id;
	uint64_t seed = 1;
	uint32_t qpn, count = 0, first;
	uint16_t port = 0;
	void *c;

	memset(seen, 0, sizeof(seen));
	rig_begin();
	f = rig_join(false);
	g = rig_make(false);
	CU_ASSERT_EQUAL_FATAL(urxe_ident_create_fabric(&id, g, some, &seed), 0);
	CU_ASSERT_EQUAL(urxe_ident_qpn_index_bits(id), 16);
	CU_ASSERT_EQUAL(urxe_fabric_slot(g), 0);
	CU_ASSERT_EQUAL(urxe_ident_qpn_alloc(id, &first), 0); /* it has joined */
	CU_ASSERT_EQUAL(urxe_fabric_slot(g), 2);
	CU_ASSERT_EQUAL(urxe_ident_qpn_slot(first), 2);
	seen[first & 0xffff] = 1;
	while (!urxe_ident_qpn_alloc(id, &qpn)) {
		if (qpn >> 16 != 2 || seen[qpn & 0xffff]++)
			CU_FAIL_FATAL("a QPN twice, or another slot's");
		count++;
	}
	CU_ASSERT_EQUAL(count, 65535);
	urxe_ident_qpn_free(id, first);
	CU_ASSERT_EQUAL(urxe_ident_qpn_alloc(id, &qpn), 0);
	CU_ASSERT_EQUAL(qpn, first);
	CU_ASSERT_EQUAL(urxe_ident_comm_id_slot(urxe_ident_comm_id(id)), 2);
	CU_ASSERT_NOT_EQUAL(urxe_ident_comm_id(id), urxe_ident_comm_id(id));
	CU_ASSERT_EQUAL(urxe_ident_port_claim(id, URXE_IDENT_TCP, a4, V4, &port, &c), 0);
	CU_ASSERT_EQUAL(urxe_ident_port_listen(id, c), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 0x01060000 | port), 2);
	urxe_ident_port_release(id, c);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 0x01060000 | port), 0);
	CU_ASSERT_EQUAL(urxe_ident_service_listen(id, 77, ~0ull, &c), 0);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 77), 2);
	urxe_ident_service_release(id, c);
	CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, 77), 0);
	urxe_fabric_put(g);
	CU_ASSERT_NOT_EQUAL(urxe_fabric_incarnation(f, 2), 0); /* the identity has it */
	urxe_ident_destroy(id);
	CU_ASSERT_EQUAL(urxe_fabric_incarnation(f, 2), 0);
	urxe_fabric_put(f);
	rig_end();
}

/* A service id has the space in it, as rdma_cma.h numbers them. */
static void spaces(void)
{
	static const uint64_t service[URXE_IDENT_SPACES] = {0x01060000, 0x01110000, 0x013f0000,
							    0x00020000};
	struct urxe_fabric *f, *g;

	rig_begin();
	f = rig_join(false);
	g = rig_join(false);
	CU_ASSERT_EQUAL(urxe_fabric_addr_set(f, &a4, 1, NULL), 0);
	for (unsigned s = 0; s < URXE_IDENT_SPACES; s++) {
		urxe_fabric_claim c = 0;
		uint16_t port = 7180;

		CU_ASSERT_EQUAL(
			urxe_fabric_port_claim(g, (enum urxe_ident_space)s, a4, V4, 0, &port, &c),
			0);
		CU_ASSERT_EQUAL(urxe_fabric_port_listen(g, c), 0);
		for (unsigned other = 0; other < URXE_IDENT_SPACES; other++)
			CU_ASSERT_EQUAL(urxe_fabric_listener(f, a4, service[other] | 7180),
					other == s ? 2 : 0);
		urxe_fabric_port_release(g, c);
	}
	urxe_fabric_put(g);
	urxe_fabric_put(f);
	rig_end();
}

URXE_TEST_MAIN("fabric_ports", T(conflicts), T(listeners), T(spaces), T(nodes), T(ephemeral),
	       T(crowded), T(services), T(groups), T(races), T(death), T(numbers))
