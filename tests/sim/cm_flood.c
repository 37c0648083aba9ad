/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Floods of REQs, on virtual time and by seeds: from addresses that nobody has, of an IPv4 /16 and
 * an IPv6 /64, and from one that is known. Whoever comes meanwhile for the first time gets in, be
 * it that he asks for our MAC first or has it from another day; and what we say is little.
 */
#include <stdlib.h>
#include <string.h>

#include "cm_crowd.h"
#include "urxe/random.h"

#define CLIENTS 200
#define EVERY	20 /* ms: one of them comes */
#define FLOOD	20 /* REQs a ms */
#define FIRST	40000
#define ASKS	3 /* of one client, in the second that it has */

static const unsigned ask_at[ASKS] = {0, 200, 600}; /* ms */

static struct crowd crowd;
static struct crowd_peer clients[CLIENTS + 1]; /* the last: the known sender */

static bool is_in(const struct crowd_peer *p)
{
	return p->rejs && p->reason == 28; /* that of the application */
}

static void make_clients(bool v4)
{
	memset(clients, 0, sizeof(clients));
	for (unsigned i = 0; i <= CLIENTS; i++) {
		crowd_gid(clients[i].gid, v4, FIRST + i);
		clients[i].lives = true;
		clients[i].comm = 0x100000 + i;
	}
	crowd.peers = clients;
	crowd.n_peers = CLIENTS + 1;
}

/* What the clients do in this ms. Returns how many were not in a second after they came. */
static unsigned come(unsigned ms)
{
	unsigned late = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		struct crowd_peer *p = &clients[i];
		unsigned came = EVERY * i;

		if (ms == came && i % 2)
			crowd_meet(&crowd, p);
		for (unsigned k = 0; k < ASKS; k++) {
			/* A little after its question. */
			if (ms == came + ask_at[k] + 1 && !is_in(p))
				crowd_req(&crowd, p->gid, p->comm, 0x5000 + i);
		}
		late += ms == came + 1000 && !is_in(p);
	}
	return late;
}

/* An application that takes @n requests. */
static void serve(struct rdma_event_channel *ch, unsigned n)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	while (n-- && crowd_event(ch, &id, &type))
		rdma_destroy_id(id);
}

static void pass(unsigned ms, const char *what, unsigned late)
{
	if (late > CLIENTS / 100)
		printf("\n    %s: %u of %u were late after %u ms\n", what, late, CLIENTS, ms);
	CU_ASSERT(late <= CLIENTS / 100);
}

static void strangers(bool v4)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener;
	unsigned late = 0, ms;

	make_clients(v4);
	listener = crowd_listen(&ch, 128);
	crowd.bytes_in = crowd.bytes_out = crowd.questions = 0;
	for (ms = 0; ms < EVERY * CLIENTS + 1100; ms++) {
		for (unsigned i = 0; i < FLOOD; i++) {
			uint64_t r = urxe_random_step(&crowd.rnd);
			uint8_t gid[16];

			crowd_gid(gid, v4, v4 ? 2 + r % 30000 : r | 1ull << 40);
			crowd_req(&crowd, gid, (uint32_t)(r >> 32) | 1, 0x6000 + i);
			if (i % 4 == 3)
				crowd_turn(&crowd);
		}
		late += come(ms);
		serve(ch, 100);
		crowd_run(&crowd, CROWD_MS, CROWD_MS / 4);
	}
	pass(ms, v4 ? "IPv4" : "IPv6", late);
	/* 20,000 a second, and none of the budgets is above 13,000. */
	CU_ASSERT(crowd.questions < 13 * ms);
	CU_ASSERT(crowd.bytes_out < 3 * crowd.bytes_in);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(ch);
	crowd_run(&crowd, 5000 * CROWD_MS, 10 * CROWD_MS);
}

static void from_a_network(void)
{
	crowd_open(&crowd, 11);
	strangers(true);
}

static void from_a_network6(void)
{
	strangers(false);
}

/* 3,000 a second, each of a connection of its own, and an application that takes 1,000. */
static void from_one(void)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener;
	unsigned late = 0, ms;
	uint32_t n = 0;

	make_clients(true);
	for (unsigned i = 0; i <= CLIENTS; i++)
		clients[i].gid[14] ^= 0x20;
	listener = crowd_listen(&ch, 16);
	crowd_meet(&crowd, &clients[CLIENTS]);
	crowd_run(&crowd, CROWD_MS, CROWD_MS / 4);
	for (ms = 0; ms < EVERY * CLIENTS + 1100; ms++) {
		for (unsigned i = 0; i < 3; i++, n++)
			crowd_req(&crowd, clients[CLIENTS].gid, 0x800000 + n, 0x10000 + n);
		late += come(ms);
		serve(ch, 1);
		crowd_run(&crowd, CROWD_MS, CROWD_MS / 2);
	}
	pass(ms, "one known", late);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(ch);
}

URXE_TEST_MAIN("cm_flood", T(from_a_network), T(from_a_network6), T(from_one))
