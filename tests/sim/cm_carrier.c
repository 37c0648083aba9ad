/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A link that is not up when rdma_resolve_addr() is called, as between two processes that start at
 * the same time: the application's time-out begins when the link is up, and a link that never comes
 * ends the wait all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include "cm_device.h"
#include "harness.h"
#include "pair.h"
#include "progress.h"
#include "provider/gsi.h"

#define MS	1000000ull
#define TIMEOUT 1000 /* ms, of the application */

static struct pair p;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

/* Up to @ms pass, or until an event; returns how many passed. */
static unsigned drive(unsigned ms, struct rdma_cm_event **ev)
{
	for (unsigned at = 0; at < ms; at++) {
		for (unsigned i = 0; i < 8; i++) {
			urxe_gsi_drive(p.a.ctx);
			urxe_progress_turn(p.b.dev);
		}
		if (!rdma_get_cm_event(channel, ev))
			return at;
		urxe_sim_advance(p.sim, urxe_sim_now(p.sim) + MS);
	}
	*ev = NULL;
	return ms;
}

static void expect(struct rdma_cm_event *ev, enum rdma_cm_event_type type, int status)
{
	CU_ASSERT_PTR_NOT_NULL_FATAL(ev);
	CU_ASSERT_EQUAL(ev->event, type);
	CU_ASSERT_EQUAL(ev->status, status);
	rdma_ack_cm_event(ev);
}

/* The library keeps its devices: one pair for all tests, whose link was never up before the first.
 */
static void open_pair(void)
{
	static const struct pair_params params = {.seed = 7,
						  .link = {.latency = 1000, .card = true}};

	pair_open(&p, &params, IBV_QPT_RC);
	cm_device = &p.a.dev->vdev.device;
	urxe_sim_end_up(p.a.end, false);
	urxe_sim_end_up(p.b.end, false);
}

static void resolve(uint8_t host)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htobe16(7471)};
	struct ibv_ah_attr ah;

	channel = rdma_create_event_channel();
	CU_ASSERT_FATAL(channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	ah = pair_path(&p.a, &p.b);
	memcpy(&sin.sin_addr, ah.grh.dgid.raw + 12, 4);
	if (host)
		((uint8_t *)&sin.sin_addr)[3] = host;
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, TIMEOUT), 0);
}

static void close_id(void)
{
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* A card: for its first seconds its link is up, but nothing comes through yet. */
static void test_comes_late(void)
{
	struct rdma_cm_event *ev;

	open_pair();
	resolve(0);
	CU_ASSERT_EQUAL(drive(6 * TIMEOUT, &ev), 6 * TIMEOUT);
	urxe_sim_end_up(p.a.end, true);
	CU_ASSERT_EQUAL(drive(2 * TIMEOUT + TIMEOUT / 2, &ev), 2 * TIMEOUT + TIMEOUT / 2);
	urxe_sim_end_up(p.b.end, true);
	CU_ASSERT_TRUE(drive(TIMEOUT + TIMEOUT / 2, &ev) < TIMEOUT + TIMEOUT / 2);
	expect(ev, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	close_id();
}

/* From then on who does not answer is not there, also after the link was away. */
static void test_settled(void)
{
	struct rdma_cm_event *ev;
	unsigned ms;

	urxe_sim_end_up(p.a.end, false);
	resolve(76);
	CU_ASSERT_EQUAL(drive(TIMEOUT + TIMEOUT / 2, &ev), TIMEOUT + TIMEOUT / 2);
	urxe_sim_end_up(p.a.end, true);
	ms = drive(20 * TIMEOUT, &ev);
	CU_ASSERT_TRUE(ms >= TIMEOUT && ms < 2 * TIMEOUT);
	expect(ev, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	close_id();
}

static void test_nobody_there(void)
{
	struct rdma_cm_event *ev;
	unsigned ms;

	resolve(77);
	ms = drive(20 * TIMEOUT, &ev);
	CU_ASSERT_TRUE(ms >= TIMEOUT && ms < TIMEOUT + 100);
	expect(ev, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	close_id();
}

static void test_never_comes(void)
{
	struct rdma_cm_event *ev;
	unsigned ms;

	urxe_sim_end_up(p.a.end, false);
	resolve(78);
	ms = drive(60 * TIMEOUT, &ev);
	CU_ASSERT_TRUE(ms >= TIMEOUT && ms < 12 * TIMEOUT);
	expect(ev, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
	close_id();
}

URXE_TEST_MAIN("cm_carrier", T(test_comes_late), T(test_settled), T(test_nobody_there),
	       T(test_never_comes))
