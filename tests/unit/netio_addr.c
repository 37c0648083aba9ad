/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Addresses that come and go on a running port: slots of the GID table, who answers for them, and
 * what becomes of paths.
 */
#include "netio_net.h"

static struct urxe_sim *sim;
static struct node a, b;

static void set_up(void)
{
	struct urxe_port_config one = node_cfg(1), two = node_cfg(2);

	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	node_start(&a, sim, NULL, &one);
	node_start(&b, sim, NULL, &two);
}

static void tear_down(void)
{
	while (urxe_sim_step(sim))
		;
	urxe_port_destroy(a.port);
	urxe_port_destroy(b.port);
	CU_ASSERT_EQUAL(urxe_sim_buffers(sim), 0);
	urxe_sim_destroy(sim);
}

static void run(unsigned ms)
{
	for (unsigned i = 0; i < ms / 10; i++) {
		do {
			node_poll(&a);
			node_poll(&b);
		} while (urxe_sim_step(sim));
		urxe_sim_advance(sim, urxe_sim_now(sim) + 10 * URXE_MSEC);
	}
}

static int add(const char *addr, unsigned prefix_len)
{
	uint8_t gid[16];

	gid_of(addr, gid);
	return urxe_port_addr_add(a.port, gid, prefix_len);
}

static int del(const char *addr, unsigned prefix_len)
{
	uint8_t gid[16];

	gid_of(addr, gid);
	return urxe_port_addr_del(a.port, gid, prefix_len);
}

/* The slot holds this address, or none. */
static void slot(unsigned i, const char *addr)
{
	struct urxe_gid_entry e;
	uint8_t gid[16];
	int err = urxe_port_gid(a.port, i, &e);

	CU_ASSERT_EQUAL(err, addr ? 0 : ENODATA);
	if (err || !addr)
		return;
	gid_of(addr, gid);
	CU_ASSERT_EQUAL(memcmp(e.gid, gid, 16), 0);
	CU_ASSERT_EQUAL(urxe_port_gid_find(a.port, gid), (int)i);
}

static void slots(void)
{
	char more[32];

	set_up();
	CU_ASSERT_EQUAL(add("10.9.0.9", 24), 0);
	slot(0, "10.9.0.1");
	slot(1, "fd00::1");
	slot(2, "10.9.0.9");
	CU_ASSERT_EQUAL(del("10.9.0.1", 24), 0);
	slot(0, NULL);
	slot(1, "fd00::1");
	slot(2, "10.9.0.9");
	CU_ASSERT_EQUAL(add("fd01::1", 64), 0); /* the first that is empty, of whichever family */
	slot(0, "fd01::1");
	CU_ASSERT_EQUAL(add("10.9.0.1", 24), 0);
	slot(3, "10.9.0.1");
	for (unsigned i = 4; i < URXE_PORT_MAX_GIDS; i++) {
		snprintf(more, sizeof(more), "10.10.0.%u", i);
		CU_ASSERT_EQUAL(add(more, 16), 0);
	}
	slot(URXE_PORT_MAX_GIDS - 1, more);
	CU_ASSERT_EQUAL(add("10.11.0.1", 16), ENOSPC);
	tear_down();
}

static void refused(void)
{
	static const struct {
		const char *addr;
		unsigned prefix_len;
		int add, del;
	} cases[] = {
		{"10.9.0.1", 24, EEXIST, 0},
		{"10.9.0.7", 24, 0, EADDRNOTAVAIL},
		{"10.9.0.1", 16, EEXIST, EADDRNOTAVAIL},
		{"0.0.0.0", 24, EINVAL, EADDRNOTAVAIL},
		{"127.0.0.1", 8, EINVAL, EADDRNOTAVAIL},
		{"224.0.0.1", 24, EINVAL, EADDRNOTAVAIL},
		{"10.9.7.255", 24, EINVAL, EADDRNOTAVAIL},
		{"10.9.7.0", 24, EINVAL, EADDRNOTAVAIL},
		{"10.9.7.1", 33, EINVAL, EADDRNOTAVAIL},
		{"10.9.7.1", 256 + 24, EINVAL, EADDRNOTAVAIL},
		{"::", 64, EINVAL, EADDRNOTAVAIL},
		{"::1", 128, EINVAL, EADDRNOTAVAIL},
		{"ff02::1", 64, EINVAL, EADDRNOTAVAIL},
		{"fd00::7", 129, EINVAL, EADDRNOTAVAIL},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up();
		if (cases[i].add)
			CU_ASSERT_EQUAL(add(cases[i].addr, cases[i].prefix_len), cases[i].add);
		CU_ASSERT_EQUAL(del(cases[i].addr, cases[i].prefix_len), cases[i].del);
		tear_down();
	}
}

/* Does b find a's address? */
static bool found(const char *addr)
{
	uint8_t gid[16], mac[6];
	unsigned i;

	gid_of(addr, gid);
	CU_ASSERT_EQUAL(urxe_port_route(b.port, gid, &i, NULL), 0);
	CU_ASSERT_EQUAL(urxe_port_resolve(b.port, i, gid, mac), EINPROGRESS);
	run(5000);
	return urxe_port_known(b.port, i, gid);
}

static void answers(void)
{
	static const struct {
		const char *addr, *other;
		unsigned prefix_len;
	} cases[] = {{"10.9.0.9", "10.9.0.10", 24}, {"fd00::9", "fd00::10", 64}};
	uint64_t asked;

	for (unsigned i = 0; i < 2; i++) {
		set_up();
		run(5000);
		CU_ASSERT(!found(cases[i].other));
		CU_ASSERT_EQUAL(add(cases[i].addr, cases[i].prefix_len), 0);
		CU_ASSERT(found(cases[i].addr));
		CU_ASSERT_EQUAL(add(cases[i].other, cases[i].prefix_len), 0);
		CU_ASSERT_EQUAL(del(cases[i].other, cases[i].prefix_len), 0);
		asked = counter(a.port, "neigh_answered");
		CU_ASSERT(!found(cases[i].other));
		CU_ASSERT_EQUAL(counter(a.port, "neigh_answered"), asked);
		tear_down();
	}
}

/* Who has the address already, answers the probe; nobody is asked about the other addresses. */
static void announced(void)
{
	set_up();
	run(5000);
	CU_ASSERT_EQUAL(add("10.9.0.2", 24), 0);
	CU_ASSERT_EQUAL(add("fd00::2", 64), 0);
	run(5000);
	CU_ASSERT(counter(a.port, "neigh_duplicate") >= 2);
	tear_down();
	set_up();
	run(5000);
	CU_ASSERT_EQUAL(add("10.9.0.9", 24), 0);
	run(5000);
	CU_ASSERT_EQUAL(counter(a.port, "neigh_duplicate"), 0);
	CU_ASSERT_EQUAL(counter(b.port, "neigh_duplicate"), 0);
	tear_down();
}

static int try_send(struct node *n, struct urxe_path *path)
{
	static const uint8_t bth[12];
	int err;

	urxe_lane_lock(n->lane);
	err = send_bytes(n->lane, path, bth, sizeof(bth));
	urxe_lane_unlock(n->lane);
	return err;
}

static struct urxe_path *known_path(struct node *n, const char *to)
{
	struct urxe_path *path = path_to(n->port, to, 0xc000);

	CU_ASSERT_PTR_NOT_NULL_FATAL(path);
	try_send(n, path);
	run(100);
	CU_ASSERT_EQUAL(try_send(n, path), 0);
	run(100);
	return path;
}

static void paths(void)
{
	struct urxe_path_attr attr = {.sgid_index = 0};
	struct urxe_path *out, *back, *none = NULL;
	uint64_t got;
	uint8_t mac[6];

	set_up();
	out = known_path(&a, "10.9.0.2");
	back = known_path(&b, "10.9.0.1");
	CU_ASSERT_EQUAL(del("10.9.0.1", 24), 0);
	/* Nothing is sent from it, nor received at it. */
	CU_ASSERT_EQUAL(try_send(&a, out), EHOSTUNREACH);
	CU_ASSERT_EQUAL(counter(a.port, "tx_no_source"), 1);
	got = counter(a.port, "rx_packets");
	CU_ASSERT_EQUAL(try_send(&b, back), 0);
	run(100);
	CU_ASSERT_EQUAL(counter(a.port, "rx_packets"), got);
	CU_ASSERT_EQUAL(counter(a.port, "rx_ip_not_ours"), 1);
	/* An empty slot is nobody's source. */
	gid_of("10.9.0.2", attr.dgid);
	CU_ASSERT_EQUAL(urxe_path_create(a.port, &attr, &none), EINVAL);
	CU_ASSERT_EQUAL(urxe_port_resolve(a.port, 0, attr.dgid, mac), ENETUNREACH);
	CU_ASSERT(!urxe_port_known(a.port, 0, attr.dgid));
	/* The neighbour that it asked for is asked for by another address from now on. */
	CU_ASSERT_EQUAL(add("10.9.0.9", 24), 0);
	slot(0, "10.9.0.9");
	CU_ASSERT_EQUAL(try_send(&a, out), EHOSTUNREACH); /* not from that one */
	run(60000);
	CU_ASSERT_EQUAL(urxe_port_resolve(a.port, 0, attr.dgid, mac), 0);
	/* Back, in another slot: paths from it go on. */
	CU_ASSERT_EQUAL(add("10.9.0.1", 24), 0);
	slot(2, "10.9.0.1");
	CU_ASSERT_EQUAL(try_send(&a, out), 0);
	urxe_path_destroy(out);
	urxe_path_destroy(back);
	tear_down();
}

URXE_TEST_MAIN("netio_addr", T(slots), T(refused), T(answers), T(announced), T(paths))
