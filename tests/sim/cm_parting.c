/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A process ends: its peers get a DREQ, again when it was lost, while some turns are left.
 */
#include <string.h>

#include "cm/device/device.h"
#include "cm_crowd.h"
#include "cm_device.h"

static struct crowd crowd;

/* A connection that the peer has asked for. */
static void connect_peer(struct crowd_peer *p, struct rdma_event_channel *ch)
{
	struct rdma_conn_param param = {.qp_num = 0x99};
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	crowd_meet(&crowd, p);
	crowd_turn(&crowd);
	p->comm = 17;
	crowd_req(&crowd, p->gid, p->comm, 0x1000);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
	CU_ASSERT_FATAL(crowd_event(ch, &id, &type) && type == RDMA_CM_EVENT_CONNECT_REQUEST);
	CU_ASSERT_EQUAL(rdma_accept(id, &param), 0);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
	CU_ASSERT_EQUAL(p->reps, 1);
	crowd_answer(&crowd, p, URXE_MAD_RTU);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
	CU_ASSERT_FATAL(crowd_event(ch, &id, &type) && type == RDMA_CM_EVENT_ESTABLISHED);
}

/* Turns of the device that ends, for some time: what it still waits for. */
static enum urxe_agent_parting part(struct urxe_cma_dev *dev, unsigned ms)
{
	enum urxe_agent_parting state = URXE_AGENT_PARTED;

	for (unsigned i = 0; i < ms; i++) {
		state = urxe_agent_parting(dev);
		crowd_run(&crowd, CROWD_MS, CROWD_MS);
	}
	return state;
}

static void lost_dreq(void)
{
	struct crowd_peer p = {.lives = true};
	struct rdma_event_channel *ch;
	struct urxe_cma_dev *dev;

	crowd_open(&crowd, 1);
	crowd_listen(&ch, 1);
	crowd_gid(p.gid, true, 7);
	crowd.peers = &p;
	crowd.n_peers = 1;
	connect_peer(&p, ch);
	dev = cm_device_own();
	CU_ASSERT_EQUAL(p.dreqs, 0);
	CU_ASSERT(urxe_agent_part(dev));
	CU_ASSERT_EQUAL(part(dev, 50), URXE_AGENT_PARTING);
	CU_ASSERT_EQUAL(p.dreqs, 1);
	CU_ASSERT_EQUAL(part(dev, 300), URXE_AGENT_PARTING);
	CU_ASSERT_EQUAL(p.dreqs, 3);
	crowd_answer(&crowd, &p, URXE_MAD_DREP);
	CU_ASSERT_EQUAL(part(dev, 2), URXE_AGENT_PARTED);
	CU_ASSERT_EQUAL(part(dev, 1000), URXE_AGENT_PARTED);
	CU_ASSERT_EQUAL(p.dreqs, 3);
}

URXE_TEST_MAIN("cm_parting", T(lost_dreq))
