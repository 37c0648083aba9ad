/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ICMP from the path to a whole stack: rdma_cm on a simulated device asks for a connection, nobody
 * answers, and a router or the peer's kernel reports that by ICMP, truly or not.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include "cm_device.h"
#include "harness.h"
#include "provider/gsi.h"
#include "forge.h"
#include "progress.h"

#define MS	1000000ull
#define TIMEOUT 4600 /* ms: the CM's own */

static struct pair p;
static struct raw_log seen;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static void drive_ms(unsigned ms)
{
	for (uint64_t end = urxe_sim_now(p.sim) + ms * MS; urxe_sim_now(p.sim) < end;) {
		for (unsigned i = 0; i < 8; i++) {
			urxe_gsi_drive(p.a.ctx);
			urxe_progress_turn(p.b.dev);
		}
		urxe_sim_advance(p.sim, urxe_sim_now(p.sim) + MS);
	}
}

/* About the packet that a sent in @s; @host: last byte of who reports; @flip: a bit of the quote.
 */
static void report(const struct raw_seen *s, uint8_t code, uint8_t host, unsigned flip)
{
	raw_unreachable(&p.a, s, code, host, flip);
}

/* ---- the consumer ---- */

static bool event(enum rdma_cm_event_type type, int *status)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(channel, &ev))
		return false;
	CU_ASSERT_EQUAL(ev->event, type);
	*status = ev->status;
	rdma_ack_cm_event(ev);
	return true;
}

/* The library keeps its devices: one pair for all tests. */
static void open_world(void)
{
	static const struct pair_params params = {.seed = 7, .link = {.latency = 1000}};

	if (p.sim)
		return;
	pair_open(&p, &params, IBV_QPT_RC);
	cm_device = &p.a.dev->vdev.device;
	pair_meet(&p);
	raw_log_start(&seen, &p);
}

static void set_up(enum rdma_port_space ps)
{
	struct rdma_conn_param param = {.qp_num = 0x99, .rnr_retry_count = 7, .retry_count = 7};
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htobe16(7471)};
	struct ibv_ah_attr ah;
	int status;

	open_world();
	channel = rdma_create_event_channel();
	CU_ASSERT_FATAL(channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	ah = pair_path(&p.a, &p.b);
	memcpy(&sin.sin_addr, ah.grh.dgid.raw + 12, 4);
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &id, NULL, ps), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000), 0);
	drive_ms(2);
	CU_ASSERT_TRUE_FATAL(event(RDMA_CM_EVENT_ADDR_RESOLVED, &status));
	CU_ASSERT_EQUAL_FATAL(rdma_resolve_route(id, 1000), 0);
	drive_ms(2);
	CU_ASSERT_TRUE_FATAL(event(RDMA_CM_EVENT_ROUTE_RESOLVED, &status));
	seen.n = 0;
	CU_ASSERT_EQUAL_FATAL(rdma_connect(id, &param), 0);
	drive_ms(2);
}

static void tear_down(void)
{
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	drive_ms(20);
}

/* Each request of a's that is new is reported; returns the ms until the end, and its status. */
static unsigned until_end(uint8_t code, uint8_t host, unsigned flip, int *status)
{
	unsigned at = 0;

	for (unsigned ms = 0; ms < 10000; ms++) {
		const struct raw_seen *s;

		while ((s = raw_log_find(&seen, &p.a, UD(SEND_ONLY), &at)))
			report(s, code, host, flip);
		drive_ms(1);
		if (event(RDMA_CM_EVENT_UNREACHABLE, status))
			return ms;
	}
	CU_FAIL("the request never ended");
	return 0;
}

/* What is reported of a request, by whom, and how it ends. */
static void requests(void)
{
	static const struct {
		enum rdma_port_space ps;
		uint8_t code, host;
		unsigned flip; /* bit of the quoted packet */
		int status;
		unsigned min_ms, max_ms;
	} c[] = {
		{RDMA_PS_TCP, 1, 254, 0, -EHOSTUNREACH, 0, 3},
		{RDMA_PS_UDP, 0, 254, 0, -ENETUNREACH, 0, 3},
		{RDMA_PS_TCP, 13, 254, 0, -EACCES, 0, 3},
		{RDMA_PS_TCP, 3, 254, 0, -ECONNREFUSED, 0, 3},
		{RDMA_PS_TCP, 3, 2, 0, -ECONNREFUSED, 350, 450},
		{RDMA_PS_UDP, 3, 2, 0, -ECONNREFUSED, 350, 450},
		{RDMA_PS_TCP, 1, 2, 0, -EHOSTUNREACH, 350, 450},
		/* not ours: comm id, transaction id, destination, UDP port, QP */
		{RDMA_PS_TCP, 1, 254, 72 * 8 + 7, -ETIMEDOUT, TIMEOUT - 50, TIMEOUT + 50},
		{RDMA_PS_TCP, 1, 254, 56 * 8 + 1, -ETIMEDOUT, TIMEOUT - 50, TIMEOUT + 50},
		{RDMA_PS_TCP, 1, 254, 63 * 8, -ETIMEDOUT, TIMEOUT - 50, TIMEOUT + 50},
		{RDMA_PS_UDP, 1, 254, 75 * 8, -ETIMEDOUT, TIMEOUT - 50, TIMEOUT + 50},
		{RDMA_PS_TCP, 1, 254, 19 * 8 + 4, -ETIMEDOUT, TIMEOUT - 50, TIMEOUT + 50},
		{RDMA_PS_TCP, 1, 254, 21 * 8, -ETIMEDOUT, TIMEOUT - 50, TIMEOUT + 50},
		{RDMA_PS_TCP, 1, 254, 35 * 8 + 1, -ETIMEDOUT, TIMEOUT - 50, TIMEOUT + 50},
		/* nothing that counts */
		{RDMA_PS_TCP, 5, 254, 0, -ETIMEDOUT, TIMEOUT - 50, TIMEOUT + 50},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		int status = 0;
		unsigned ms;

		set_up(c[i].ps);
		ms = until_end(c[i].code, c[i].host, c[i].flip, &status);
		if (status != c[i].status || ms < c[i].min_ms || ms > c[i].max_ms)
			printf("\n    row %u: status %d after %u ms\n", i, status, ms);
		CU_ASSERT_EQUAL(status, c[i].status);
		CU_ASSERT_TRUE(ms >= c[i].min_ms && ms <= c[i].max_ms);
		tear_down();
	}
}

/* A flood of what is not ours is counted, and the true one found all the same. */
static void flood(void)
{
	const struct raw_seen *s;
	unsigned at = 0;
	int status = 0;
	uint64_t before;

	set_up(RDMA_PS_TCP);
	before = pair_counter(&p.a, "icmp_unreachable");
	s = raw_log_find(&seen, &p.a, UD(SEND_ONLY), &at);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	for (unsigned i = 0; i < 200; i++)
		report(s, 1, 254, 72 * 8 + i % 32);
	drive_ms(50);
	CU_ASSERT_FALSE(event(RDMA_CM_EVENT_UNREACHABLE, &status));
	CU_ASSERT_EQUAL(pair_counter(&p.a, "icmp_unreachable") - before, 200);
	CU_ASSERT_TRUE(pair_stat(&p.a, URXE_STAT_GSI_ERRORS_LOST) < 200);
	report(s, 1, 254, 0);
	drive_ms(2);
	CU_ASSERT_TRUE(event(RDMA_CM_EVENT_UNREACHABLE, &status));
	CU_ASSERT_EQUAL(status, -EHOSTUNREACH);
	tear_down();
}

/* Of a connection's packets: counted, and it goes on. */
static void connected(void)
{
	const struct raw_seen *s;
	unsigned at = 0;
	struct ibv_wc wc;
	uint64_t before;
	int status;

	set_up(RDMA_PS_TCP);
	before = pair_counter(&p.a, "icmp_unreachable");
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 900, &p.b, 0, IBV_SEND_SIGNALED),
			0);
	urxe_progress_turn(p.a.dev);
	s = raw_log_find(&seen, &p.a, RC(WRITE_ONLY), &at);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	for (uint8_t code = 0; code < 16; code++)
		report(s, code, code & 1 ? 2 : 254, 0);
	drive_ms(20);
	CU_ASSERT_EQUAL(pair_counter(&p.a, "icmp_unreachable") - before, 14);
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_RTS);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_FALSE(event(RDMA_CM_EVENT_UNREACHABLE, &status));
	tear_down();
}

URXE_TEST_MAIN("cm_icmp", T(requests), T(flood), T(connected))
