/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Own addresses come and go while a REQ waits for its sender's neighbour to be known: it is for the
 * address that it came to, wherever that is by then.
 */
#include <string.h>

#include "cm/device/device.h"
#include "cm_crowd.h"
#include "cm_device.h"
#include "provider/gsi.h"

static struct crowd crowd;
static struct rdma_event_channel *channel;

static void change(bool add, uint64_t number)
{
	union ibv_gid gid;

	crowd_gid(gid.raw, true, number);
	CU_ASSERT_EQUAL(urxe_gsi_addr(crowd.ctx, add, &gid, 16), 0);
}

/* One whose MAC is not known has asked for 10.1.0.1. */
static void stranger(struct crowd_peer *p, uint64_t number)
{
	memset(p, 0, sizeof(*p));
	crowd_gid(p->gid, true, number);
	p->comm = (uint32_t)number;
	crowd.peers = p;
	crowd.n_peers = 1;
	crowd_req(&crowd, p->gid, p->comm, 0x1000);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
}

static bool event(struct rdma_cm_id **id, enum rdma_cm_event_type expected)
{
	enum rdma_cm_event_type type;

	return crowd_event(channel, id, &type) && type == expected;
}

static uint64_t drops(void)
{
	struct urxe_agent_drops d;

	urxe_agent_get_drops(cm_device_own()->agent, &d);
	return d.received;
}

/* The address is back in another place of the GID table, and its own is another's. */
static void other_place(void)
{
	struct rdma_conn_param param = {.qp_num = 0x99};
	struct rdma_cm_id *id, *listener;
	struct crowd_peer p;

	crowd_open(&crowd, 1);
	listener = crowd_listen(&channel, 1);
	stranger(&p, 7);
	change(false, 1);
	change(true, 9);
	change(true, 1);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
	CU_ASSERT(!event(&id, RDMA_CM_EVENT_CONNECT_REQUEST));
	p.lives = true;
	crowd_meet(&crowd, &p);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
	CU_ASSERT_FATAL(event(&id, RDMA_CM_EVENT_CONNECT_REQUEST));
	CU_ASSERT_EQUAL(rdma_accept(id, &param), 0);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
	CU_ASSERT_EQUAL(p.reps, 1);
	crowd_answer(&crowd, &p, URXE_MAD_RTU);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
	CU_ASSERT(event(&id, RDMA_CM_EVENT_ESTABLISHED));
	rdma_destroy_id(id);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	change(false, 9);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
}

/* It is gone: nobody gets the request by the address that has its place. */
static void gone(void)
{
	struct rdma_cm_id *id, *listener = crowd_listen(&channel, 1);
	struct crowd_peer p;
	uint64_t before;

	stranger(&p, 11);
	before = drops();
	change(false, 1);
	change(true, 9); /* what was free */
	change(true, 10);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
	CU_ASSERT_EQUAL(drops(), before + 1);
	p.lives = true;
	crowd_meet(&crowd, &p);
	crowd_run(&crowd, 200 * CROWD_MS, CROWD_MS);
	CU_ASSERT(!event(&id, RDMA_CM_EVENT_CONNECT_REQUEST));
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

URXE_TEST_MAIN("cm_readdressed", T(other_place), T(gone))
