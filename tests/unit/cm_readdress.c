/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * `urxe ip` is asked to change this very process's addresses: who gets ADDR_CHANGE, what can be
 * bound and reached, and what the command says to nonsense.
 */
#include "cm_rdma.h"

#include <poll.h>
#include <stdbool.h>
#include <string.h>

static char text[4096];

/* The command's exit status; what it says, in a static buffer. */
static int ip(const char *args)
{
	char line[128];

	snprintf(line, sizeof(line), "ip %s", args);
	return urxe_command(line, text, sizeof(text));
}

static bool silent(struct rdma_event_channel *ch)
{
	struct pollfd pfd = {.fd = ch->fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 0;
}

static void nobody(void)
{
	CU_ASSERT_EQUAL(ip("add 10.0.0.7/24"), 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "no running program"));
}

static void nonsense(void)
{
	static const char *const wrong[] = {
		"",
		"add",
		"show 10.0.0.7/24",
		"add 10.0.0.7",
		"add 10.0.0.255/24",
		"add ff02::1/64",
		"add 10.0.0.7/24 --device",
		"add 10.0.0.7/24 --quick",
		"add 10.0.0.7/24 --device urxe9",
		"add 10.0.0.7/24 --pid 1",
	};
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = listener(ch, "0.0.0.0", 1);

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CU_ASSERT_EQUAL(ip(wrong[i]), 2);
		CU_ASSERT(!strncmp(text, "urxe: ip: ", 10));
		CU_ASSERT_PTR_EQUAL(strchr(text, '\n'), text + strlen(text) - 1);
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "urxe0 of ")); /* what there is */
	CU_ASSERT_EQUAL(ip("add 10.0.0.1/24"), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "has this address"));
	CU_ASSERT_EQUAL(ip("del 10.0.0.7/24"), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "no such address"));
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}

/* Ids bound to the address that goes hear it; those of other addresses, and the wildcard's, not. */
static void told(void)
{
	struct rdma_event_channel *ch[4];
	struct rdma_cm_id *id[4], *who;

	for (unsigned i = 0; i < 4; i++)
		ch[i] = rdma_create_event_channel();
	id[0] = listener(ch[0], "0.0.0.0", 1);
	id[1] = listener(ch[1], "10.0.0.1", 1);
	CU_ASSERT_EQUAL(ip("add 10.0.0.7/24 --device urxe0"), 0);
	CU_ASSERT_STRING_EQUAL(text, "");
	id[2] = listener(ch[2], "10.0.0.7", 1);
	id[3] = resolved(ch[3], "10.0.0.7", rdma_get_src_port(id[2]) ? 7 : 0);
	CU_ASSERT_EQUAL(ip("del 10.0.0.7/24"), 0);
	CU_ASSERT_EQUAL(expect(ch[2], RDMA_CM_EVENT_ADDR_CHANGE, &who), 0);
	CU_ASSERT_PTR_EQUAL(who, id[2]);
	/* To itself: its own address is the one it went to. */
	CU_ASSERT_EQUAL(expect(ch[3], RDMA_CM_EVENT_ADDR_CHANGE, &who), 0);
	CU_ASSERT_PTR_EQUAL(who, id[3]);
	CU_ASSERT(silent(ch[0]) && silent(ch[1]) && silent(ch[2]) && silent(ch[3]));
	for (unsigned i = 0; i < 4; i++) {
		rdma_destroy_id(id[i]);
		rdma_destroy_event_channel(ch[i]);
	}
}

/* What can be bound follows, at once. */
static void bound(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *all = listener(ch, "0.0.0.0", 1), *id;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_bind_addr(id, addr("10.0.0.8", 0)), EADDRNOTAVAIL);
	CU_ASSERT_EQUAL(ip("add 10.0.0.8/24"), 0);
	WORKS(rdma_bind_addr(id, addr("10.0.0.8", 0)));
	rdma_destroy_id(id);
	CU_ASSERT_EQUAL(ip("del 10.0.0.8/24"), 0);
	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_bind_addr(id, addr("10.0.0.8", 0)), EADDRNOTAVAIL);
	rdma_destroy_id(id);
	rdma_destroy_id(all);
	rdma_destroy_event_channel(ch);
}

/* Connections over an address that came: the listener on the wildcard was there before. */
static void connection(const char *host, const char *with_len)
{
	struct rdma_event_channel *sch = rdma_create_event_channel(),
				  *cch = rdma_create_event_channel();
	struct rdma_cm_id *all = listener(sch, strchr(host, ':') ? "::" : "0.0.0.0", 1), *server,
			  *client, *who;
	struct rdma_conn_param param = {0};
	char line[64];

	snprintf(line, sizeof(line), "add %s", with_len);
	CU_ASSERT_EQUAL(ip(line), 0);
	client = resolved(cch, host, ntohs(rdma_get_src_port(all)));
	with_qp(client);
	WORKS(rdma_connect(client, &param));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &server), 0);
	with_qp(server);
	WORKS(rdma_accept(server, &param));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	/* Its address goes under both, and comes back in time. */
	snprintf(line, sizeof(line), "del %s", with_len);
	CU_ASSERT_EQUAL(ip(line), 0);
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_ADDR_CHANGE, &who), 0);
	CU_ASSERT_PTR_EQUAL(who, server);
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ADDR_CHANGE, &who), 0);
	CU_ASSERT_PTR_EQUAL(who, client);
	snprintf(line, sizeof(line), "add %s", with_len);
	CU_ASSERT_EQUAL(ip(line), 0);
	WORKS(rdma_disconnect(client));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	drop(client);
	drop(server);
	rdma_destroy_id(all);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

static void connections(void)
{
	connection("10.0.3.1", "10.0.3.1/24");
	connection("fd03::1", "fd03::1/64");
}

/* Its address is gone, and another has the slot: an id does not connect from that one. */
static void stale_index(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct rdma_conn_param param = {.retry_count = 7};

	CU_ASSERT_EQUAL(ip("add 10.0.4.1/24"), 0);
	id = resolved(ch, "10.0.4.1", 7);
	with_qp(id);
	CU_ASSERT_EQUAL(ip("del 10.0.4.1/24"), 0);
	CU_ASSERT_EQUAL(ip("add 10.0.4.2/24"), 0);
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_CHANGE, NULL), 0);
	WORKS(rdma_connect(id, &param));
	CU_ASSERT(expect(ch, RDMA_CM_EVENT_UNREACHABLE, NULL) < 0);
	drop(id);
	rdma_destroy_event_channel(ch);
}

/* Its address is back in another slot, and the old one is another's: it connects from its own. */
static void other_slot(void)
{
	struct rdma_event_channel *sch = rdma_create_event_channel(),
				  *cch = rdma_create_event_channel();
	struct rdma_cm_id *all = listener(sch, "0.0.0.0", 1), *id, *server;
	struct rdma_conn_param param = {0};

	CU_ASSERT_EQUAL(ip("add 10.0.5.1/24"), 0);
	WORKS(rdma_create_id(cch, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_bind_addr(id, addr("10.0.5.1", 0)));
	WORKS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", ntohs(rdma_get_src_port(all))), 1000));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	WORKS(rdma_resolve_route(id, 1000));
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
	with_qp(id);
	CU_ASSERT_EQUAL(ip("del 10.0.5.1/24"), 0);
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ADDR_CHANGE, NULL), 0);
	CU_ASSERT_EQUAL(ip("add 10.0.5.2/24"), 0);
	CU_ASSERT_EQUAL(ip("add 10.0.5.1/24"), 0);
	WORKS(rdma_connect(id, &param));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, &server), 0);
	CU_ASSERT_EQUAL(memcmp(&((struct sockaddr_in *)rdma_get_peer_addr(server))->sin_addr,
			       &((struct sockaddr_in *)addr("10.0.5.1", 0))->sin_addr, 4),
			0);
	with_qp(server);
	WORKS(rdma_accept(server, &param));
	CU_ASSERT_EQUAL(expect(sch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	CU_ASSERT_EQUAL(expect(cch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	drop(id);
	drop(server);
	rdma_destroy_id(all);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

__attribute__((constructor)) static void set_up(void)
{
	status_dir();
}

URXE_TEST_MAIN("cm_readdress", T(nobody), T(nonsense), T(told), T(bound), T(connections),
	       T(stale_index), T(other_slot))
