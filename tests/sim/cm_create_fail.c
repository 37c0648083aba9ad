/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rdma_cm when memory runs out: each call fails with ENOMEM at each of its allocations, and works
 * the next time; and what somebody waits for, comes, though there is no memory for the event.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

#include "cm_device.h"
#include "harness.h"
#include "pair.h"
#include "progress.h"
#include "provider/gsi.h"
#include "urxe/slab.h"

#define MS 1000000ull

/* The linker sends all allocations here (--wrap). */
static int fail_at = -1;  /* this many more go well; -1: all */
static bool failed, none; /* none: no allocation goes well */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_urxe_slab_get(struct urxe_slab *s, size_t zero);
void *__wrap_urxe_slab_get(struct urxe_slab *s, size_t zero);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);

static bool out_of_memory(void)
{
	if (!none && (fail_at < 0 || fail_at--))
		return false;
	failed = true;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t n)
{
	return out_of_memory() ? NULL : __real_malloc(n);
}

/* Most of what a slab gives takes none of these. */
void *__wrap_urxe_slab_get(struct urxe_slab *s, size_t zero)
{
	return out_of_memory() ? NULL : __real_urxe_slab_get(s, zero);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return out_of_memory() ? NULL : __real_calloc(n, size);
}

static struct pair p;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;

/* The library keeps its devices: one for all tests. */
static void set_up(void)
{
	static const struct pair_params params = {.seed = 7, .link = {.latency = 1000}};

	if (!p.sim) {
		pair_open(&p, &params, IBV_QPT_RC);
		cm_device = &p.a.dev->vdev.device;
	}
	channel = rdma_create_event_channel();
	CU_ASSERT_FATAL(channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
}

static struct sockaddr *own_address(__be16 port)
{
	static struct sockaddr_in sin = {.sin_family = AF_INET};
	struct ibv_ah_attr ah = pair_path(&p.b, &p.a);

	memcpy(&sin.sin_addr, ah.grh.dgid.raw + 12, 4);
	sin.sin_port = port;
	return (struct sockaddr *)&sin;
}

/* The next event, of this type, within 20 s; acknowledged. */
static struct rdma_cm_id *next(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = NULL;
	struct rdma_cm_id *id = NULL;

	for (unsigned i = 0; i < 20000 && !ev; i++) {
		urxe_gsi_drive(p.a.ctx);
		if (rdma_get_cm_event(channel, &ev))
			urxe_sim_advance(p.sim, urxe_sim_now(p.sim) + MS);
	}
	CU_ASSERT_PTR_NOT_NULL(ev);
	if (!ev)
		return NULL;
	CU_ASSERT_EQUAL(ev->event, type);
	if (ev->event != type)
		printf("\n    %s, %d, not %s\n", rdma_event_str(ev->event), ev->status,
		       rdma_event_str(type));
	id = ev->id;
	rdma_ack_cm_event(ev);
	return id;
}

static struct rdma_cm_id *new_listener(void)
{
	struct rdma_cm_id *id;

	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_bind_addr(id, own_address(0)), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_listen(id, 8), 0);
	return id;
}

static void events_without_memory(void)
{
	struct rdma_conn_param param = {.qp_num = 0x123, .retry_count = 7};
	struct rdma_cm_id *active, *passive;

	set_up();
	listener = new_listener();
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &active, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL_FATAL(
		rdma_resolve_addr(active, NULL, own_address(rdma_get_src_port(listener)), 1000), 0);
	none = true;
	next(RDMA_CM_EVENT_ADDR_RESOLVED);
	none = false;
	CU_ASSERT_EQUAL_FATAL(rdma_resolve_route(active, 1000), 0);
	next(RDMA_CM_EVENT_ROUTE_RESOLVED);
	CU_ASSERT_EQUAL_FATAL(rdma_connect(active, &param), 0);
	passive = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	param.qp_num++; /* one that is connected twice would be stale */
	CU_ASSERT_EQUAL_FATAL(rdma_accept(passive, &param), 0);
	/* Nothing can be had until both are disconnected. */
	none = true;
	CU_ASSERT_PTR_EQUAL(next(RDMA_CM_EVENT_CONNECT_RESPONSE), active);
	CU_ASSERT_EQUAL(rdma_establish(active), 0);
	CU_ASSERT_PTR_EQUAL(next(RDMA_CM_EVENT_ESTABLISHED), passive);
	CU_ASSERT_EQUAL(rdma_disconnect(active), 0);
	next(RDMA_CM_EVENT_DISCONNECTED);
	next(RDMA_CM_EVENT_DISCONNECTED);
	next(RDMA_CM_EVENT_TIMEWAIT_EXIT);
	none = false;
	CU_ASSERT_EQUAL(rdma_destroy_id(active), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(passive), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* Each makes something and undoes it; 0 or errno. */
static int make_id(void)
{
	struct rdma_cm_id *id;

	return rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ? errno : rdma_destroy_id(id);
}

static int make_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	int err = ch ? 0 : errno;

	rdma_destroy_event_channel(ch);
	return err;
}

static int make_sync_id(void)
{
	struct rdma_cm_id *id;

	return rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP) ? errno : rdma_destroy_id(id);
}

static int make_listener(void)
{
	struct rdma_cm_id *id;
	int err, later = fail_at;

	fail_at = -1;
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_bind_addr(id, own_address(0)), 0);
	fail_at = later;
	err = rdma_listen(id, 8) ? errno : 0;
	fail_at = -1;
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	return err;
}

static void each_call(void)
{
	static int (*const make[])(void) = {make_id, make_channel, make_sync_id, make_listener};

	set_up();
	for (unsigned i = 0; i < sizeof(make) / sizeof(make[0]); i++) {
		int n = 0, err;

		do {
			failed = false;
			fail_at = n;
			err = make[i]();
			fail_at = -1;
			CU_ASSERT_EQUAL(err, failed ? ENOMEM : 0);
			CU_ASSERT_EQUAL_FATAL(make[i](), 0);
		} while (failed && ++n < 100);
		CU_ASSERT(n > 0 && n < 100);
	}
	rdma_destroy_event_channel(channel);
}

URXE_TEST_MAIN("cm_create_fail", T(events_without_memory), T(each_call))
