/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Many requests to one listener, on virtual time: they wait for room in its backlog, as many as are
 * remembered, and get in when there is some.
 */
#include <string.h>

#include "cm_crowd.h"

#define MANY	  16384 /* may wait, of these of one address: */
#define OF_ONE	  12288
#define BACKLOG	  4
#define FIRST_QPN 0x1000u

static struct crowd crowd;

/* REQs of one address, the first of which is @from; some turns in between. */
static void ask(struct crowd_peer *p, uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < from + n; i++) {
		p->comm = 1 + i;
		crowd_req(&crowd, p->gid, 1 + i, FIRST_QPN + i);
		if (i % 16 == 15)
			crowd_turn(&crowd);
	}
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 10);
}

/* Requests that the application gets and refuses, until there are no more. */
static unsigned take_all(struct rdma_event_channel *ch)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	unsigned n = 0;

	while (crowd_event(ch, &id, &type)) {
		CU_ASSERT_EQUAL(type, RDMA_CM_EVENT_CONNECT_REQUEST);
		CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
		if (++n % 16 == 0)
			crowd_turn(&crowd);
	}
	crowd_turn(&crowd);
	return n;
}

/* What one address may have waiting is all that it may have; others still find room. */
static void full(void)
{
	struct crowd_peer peers[2] = {{.lives = true}, {.lives = true}};
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener;

	crowd_open(&crowd, 1);
	listener = crowd_listen(&ch, BACKLOG);
	crowd_gid(peers[0].gid, true, 7);
	crowd_gid(peers[1].gid, false, 8);
	crowd.peers = peers;
	crowd.n_peers = 2;
	crowd_meet(&crowd, &peers[0]);
	crowd_meet(&crowd, &peers[1]);
	crowd_turn(&crowd);
	ask(&peers[0], 0, BACKLOG + OF_ONE);
	CU_ASSERT_EQUAL(peers[0].rejs, 0);
	ask(&peers[0], BACKLOG + OF_ONE, 1);
	CU_ASSERT_EQUAL(peers[0].rejs, 1);
	CU_ASSERT_EQUAL(peers[0].reason, 3);
	ask(&peers[1], 0, 2 + MANY - OF_ONE);
	CU_ASSERT_EQUAL(peers[1].rejs, 0);
	ask(&peers[1], 2 + MANY - OF_ONE, 1);
	CU_ASSERT_EQUAL(peers[1].rejs, 1);
	CU_ASSERT_EQUAL(take_all(ch), BACKLOG + OF_ONE + 2 + MANY - OF_ONE);
	CU_ASSERT_EQUAL(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

/* Who waits hears MRA; who died while it waited gives its place back, and is not let in. */
static void silent(void)
{
	struct crowd_peer p = {.lives = true};
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener = crowd_listen(&ch, 1);

	crowd_gid(p.gid, true, 9);
	crowd.peers = &p;
	crowd.n_peers = 1;
	crowd_meet(&crowd, &p);
	ask(&p, 0, 3);
	CU_ASSERT_EQUAL(p.mras, 0);
	crowd_run(&crowd, 150 * CROWD_MS, CROWD_MS);
	CU_ASSERT_EQUAL(p.mras, 1);
	crowd_run(&crowd, 20000 * CROWD_MS, 100 * CROWD_MS);
	ask(&p, 2, 1); /* again */
	CU_ASSERT(p.mras >= 2);
	crowd_run(&crowd, 15000 * CROWD_MS, 100 * CROWD_MS);
	CU_ASSERT_EQUAL(take_all(ch), 2);
	CU_ASSERT_EQUAL(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

/* A peer that has another MAC than it had: its request goes there after its first try. */
static void moved(void)
{
	struct rdma_conn_param param = {.qp_num = 0x99};
	struct crowd_peer p = {.lives = true};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htobe16(CROWD_PORT)};
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener = crowd_listen(&ch, 1), *id, *told;
	enum rdma_cm_event_type type;

	crowd_gid(p.gid, true, 10);
	memcpy(&to.sin_addr, p.gid + 12, 4);
	crowd.peers = &p;
	crowd.n_peers = 1;
	CU_ASSERT_EQUAL(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
	crowd_run(&crowd, 10 * CROWD_MS, CROWD_MS / 10);
	CU_ASSERT(crowd_event(ch, &told, &type) && type == RDMA_CM_EVENT_ADDR_RESOLVED);
	CU_ASSERT_EQUAL(rdma_resolve_route(id, 1000), 0);
	CU_ASSERT(crowd_event(ch, &told, &type) && type == RDMA_CM_EVENT_ROUTE_RESOLVED);
	p.moved = true;
	CU_ASSERT_EQUAL(rdma_connect(id, &param), 0);
	crowd_run(&crowd, 100 * CROWD_MS, CROWD_MS / 10);
	CU_ASSERT_EQUAL(p.reqs, 0);
	crowd_run(&crowd, 1900 * CROWD_MS, CROWD_MS / 10);
	CU_ASSERT(p.reqs >= 1);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

URXE_TEST_MAIN("cm_crowd", T(full), T(silent), T(moved))
