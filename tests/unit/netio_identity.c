/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* QPNs, comm ids and port numbers: all of them, none twice, given back. */
#include "netio_net.h"

#include "netio/identity.h"

static uint64_t prng;

static uint64_t random64(void *arg)
{
	return urxe_random_step(&prng);
}

static struct urxe_ident *make(void)
{
	struct urxe_ident *id;

	prng = 7;
	CU_ASSERT_EQUAL_FATAL(urxe_ident_create(&id, random64, NULL), 0);
	return id;
}

#define INDEXES (1u << URXE_IDENT_QPN_INDEX_BITS)

static void qpns(void)
{
	struct urxe_ident *id = make();
	static uint8_t live[INDEXES];
	static uint32_t all[INDEXES];
	uint32_t count = 0, qpn, high = 0;

	memset(live, 0, sizeof(live));
	while (!urxe_ident_qpn_alloc(id, &qpn)) {
		CU_ASSERT_TRUE_FATAL(count < INDEXES);
		if (qpn > 0xfffffe || qpn < 2 || live[qpn % INDEXES])
			CU_FAIL("bad QPN, or its index twice");
		live[qpn % INDEXES] = 1;
		all[count++] = qpn;
		high |= qpn >> URXE_IDENT_QPN_INDEX_BITS;
	}
	CU_ASSERT_TRUE(count > INDEXES - 8);
	CU_ASSERT_EQUAL(high, 0x7f);
	CU_ASSERT_EQUAL(urxe_ident_qpn_alloc(id, &qpn), ENOMEM);
	/* Oldest first, and a double free frees nothing more. */
	urxe_ident_qpn_free(id, all[100]);
	urxe_ident_qpn_free(id, all[5]);
	urxe_ident_qpn_free(id, all[5]);
	CU_ASSERT_EQUAL(urxe_ident_qpn_alloc(id, &qpn), 0);
	CU_ASSERT_EQUAL(qpn % INDEXES, all[100] % INDEXES);
	CU_ASSERT_EQUAL(urxe_ident_qpn_alloc(id, &qpn), 0);
	CU_ASSERT_EQUAL(qpn % INDEXES, all[5] % INDEXES);
	CU_ASSERT_EQUAL(urxe_ident_qpn_alloc(id, &qpn), ENOMEM);
	urxe_ident_destroy(id);
}

/* An index comes back only when all others have been used. */
static void qpn_late_reuse(void)
{
	struct urxe_ident *id = make();
	uint32_t first, qpn;

	CU_ASSERT_EQUAL(urxe_ident_qpn_alloc(id, &first), 0);
	urxe_ident_qpn_free(id, first);
	for (unsigned i = 0; i < INDEXES - 100; i++) {
		CU_ASSERT_EQUAL_FATAL(urxe_ident_qpn_alloc(id, &qpn), 0);
		if (qpn % INDEXES == first % INDEXES)
			CU_FAIL("used again too soon");
		urxe_ident_qpn_free(id, qpn);
	}
	urxe_ident_destroy(id);
}

/* Who knows some of a process's QPNs knows nothing of the next: up or down, near or far. */
static void qpn_order(void)
{
	struct urxe_ident *id = make();
	uint32_t last = 0, qpn, up = 0, near = 0;

	for (unsigned i = 0; i < 10000; i++) {
		CU_ASSERT_EQUAL_FATAL(urxe_ident_qpn_alloc(id, &qpn), 0);
		up += qpn % INDEXES > last;
		near += (qpn - last) % INDEXES < 64;
		last = qpn % INDEXES;
	}
	CU_ASSERT(up > 4500 && up < 5500);
	CU_ASSERT(near < 20); /* 5, by chance */
	urxe_ident_destroy(id);
}

static void comm_ids(void)
{
	struct urxe_ident *id = make();
	uint32_t a = urxe_ident_comm_id(id);

	for (unsigned i = 0; i < 1000; i++) {
		uint32_t b = urxe_ident_comm_id(id);

		CU_ASSERT_TRUE(b && b != a);
	}
	urxe_ident_destroy(id);
}

#define V4    URXE_IDENT_PORT_V4
#define V6O   URXE_IDENT_PORT_V6ONLY
#define REUSE URXE_IDENT_PORT_REUSE

/* Two claims of one number: first, second, does the second succeed? "*" is the wildcard. */
static void port_rules(void)
{
	static const struct {
		const char *a;
		unsigned fa;
		bool listen_a;
		const char *b;
		unsigned fb;
		int want;
	} c[] = {
		{"10.0.0.1", V4, false, "10.0.0.1", V4, EADDRINUSE},
		{"10.0.0.1", V4, false, "10.0.0.2", V4, 0},
		{"10.0.0.1", V4, false, "*", V4, EADDRINUSE},
		{"*", V4, false, "10.0.0.2", V4, EADDRINUSE},
		{"*", V4, false, "fd00::1", 0, 0},
		{"*", 0, false, "fd00::1", 0, EADDRINUSE},
		{"*", 0, false, "10.0.0.1", V4, EADDRINUSE}, /* dual stack */
		{"*", V6O, false, "10.0.0.1", V4, 0},
		{"*", V6O, false, "*", V4, 0},
		{"*", 0, false, "*", V4, EADDRINUSE},
		{"*", V4, false, "*", 0, EADDRINUSE},
		{"fd00::1", 0, false, "10.0.0.1", V4, 0},
		{"10.0.0.1", V4 | REUSE, false, "10.0.0.1", V4 | REUSE, 0},
		{"10.0.0.1", V4 | REUSE, false, "10.0.0.1", V4, EADDRINUSE},
		{"10.0.0.1", V4, false, "10.0.0.1", V4 | REUSE, EADDRINUSE},
		{"10.0.0.1", V4 | REUSE, true, "10.0.0.1", V4 | REUSE, EADDRINUSE},
		{"*", V4 | REUSE, false, "10.0.0.1", V4 | REUSE, 0},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct urxe_ident *id = make();
		uint8_t ga[16] = {0}, gb[16] = {0};
		uint16_t pa = 7471, pb = 7471;
		void *ca, *cb = NULL;

		if (strcmp(c[i].a, "*"))
			gid_of(c[i].a, ga);
		if (strcmp(c[i].b, "*"))
			gid_of(c[i].b, gb);
		CU_ASSERT_EQUAL(urxe_ident_port_claim(id, URXE_IDENT_TCP, ga, c[i].fa, &pa, &ca),
				0);
		if (c[i].listen_a)
			CU_ASSERT_EQUAL(urxe_ident_port_listen(id, ca), 0);
		CU_ASSERT_EQUAL(urxe_ident_port_claim(id, URXE_IDENT_TCP, gb, c[i].fb, &pb, &cb),
				c[i].want);
		urxe_ident_port_release(id, cb);
		/* Another space, and after the release: free. */
		CU_ASSERT_EQUAL(urxe_ident_port_claim(id, URXE_IDENT_UDP, ga, c[i].fa, &pa, &cb),
				0);
		urxe_ident_port_release(id, ca);
		CU_ASSERT_EQUAL(urxe_ident_port_claim(id, URXE_IDENT_TCP, gb, c[i].fb, &pb, &ca),
				0);
		urxe_ident_destroy(id); /* with claims left */
	}
}

static void listeners(void)
{
	struct urxe_ident *id = make();
	uint8_t g[16];
	uint16_t port = 7471;
	void *a, *b;

	gid_of("10.0.0.1", g);
	CU_ASSERT_EQUAL(urxe_ident_port_claim(id, URXE_IDENT_TCP, g, V4 | REUSE, &port, &a), 0);
	CU_ASSERT_EQUAL(urxe_ident_port_claim(id, URXE_IDENT_TCP, g, V4 | REUSE, &port, &b), 0);
	CU_ASSERT_EQUAL(urxe_ident_port_listen(id, a), 0);
	CU_ASSERT_EQUAL(urxe_ident_port_listen(id, b), EADDRINUSE);
	urxe_ident_port_release(id, a);
	CU_ASSERT_EQUAL(urxe_ident_port_listen(id, b), 0);
	urxe_ident_port_release(id, b);
	urxe_ident_destroy(id);
}

static void ephemeral(void)
{
	struct urxe_ident *id = make();
	static uint8_t seen[65536];
	uint8_t g[16];
	uint16_t port;
	unsigned count = 0;
	void *c;
	int err;

	memset(seen, 0, sizeof(seen));
	gid_of("10.0.0.1", g);
	/* Most are taken by number, or the search for all would be long under TSan. */
	for (unsigned n = 32768; n < 61000; n++) {
		port = (uint16_t)n;
		if (n % 32 == 0)
			continue;
		CU_ASSERT_EQUAL(urxe_ident_port_claim(id, URXE_IDENT_TCP, g, V4, &port, &c), 0);
		seen[n] = 1;
		count++;
	}
	for (;; count++) {
		port = 0;
		err = urxe_ident_port_claim(id, URXE_IDENT_TCP, g, V4 | REUSE, &port, &c);
		if (err)
			break;
		if (port < 32768 || seen[port]++)
			CU_FAIL("ephemeral number out of range, or twice");
	}
	CU_ASSERT_EQUAL(err, EADDRNOTAVAIL);
	CU_ASSERT_TRUE(count > 28000);
	urxe_ident_destroy(id);
}

URXE_TEST_MAIN("netio_identity", T(qpns), T(qpn_late_reuse), T(qpn_order), T(comm_ids),
	       T(port_rules), T(listeners), T(ephemeral))
