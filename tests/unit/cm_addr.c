/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Addresses of ids: AF_IB, rdma_getaddrinfo(), and who may have which. */
#include "cm_rdma.h"

#include <netdb.h>
#include <stdbool.h>
#include <string.h>

#include <infiniband/ib.h>

#define SID_TCP RDMA_IB_IP_PS_TCP
#define ANY_SID 0, 0
#define FULL	UINT64_MAX

/* An AF_IB address: GID as text, service id and what of it counts, in host order. */
static struct sockaddr *gid(const char *host, uint64_t sid, uint64_t mask)
{
	static struct sockaddr_ib sib;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr(host, 0);

	memset(&sib, 0, sizeof(sib));
	sib.sib_family = AF_IB;
	sib.sib_pkey = htobe16(0xffff);
	if (in6->sin6_family == AF_INET6)
		memcpy(&sib.sib_addr, &in6->sin6_addr, 16);
	sib.sib_sid = htobe64(sid);
	sib.sib_sid_mask = htobe64(mask);
	return (struct sockaddr *)&sib;
}

static const struct sockaddr_ib *as_ib(const struct sockaddr *sa)
{
	CU_ASSERT_EQUAL_FATAL(sa->sa_family, AF_IB);
	return (const struct sockaddr_ib *)(const void *)sa;
}

static struct rdma_cm_id *ib_id(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_IB));
	return id;
}

/* Connected by GID and service id: all of the private data is the application's. */
static void ib_connect(void)
{
	static const char *const hosts[] = {"::ffff:10.0.0.1", "fd00::1"};

	for (unsigned i = 0; i < 2; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		struct rdma_cm_id *l = ib_id(ch), *c = ib_id(ch), *s;
		struct rdma_conn_param param = {.retry_count = 7};
		struct rdma_cm_event *ev;
		uint8_t data[93];

		memset(data, 0xa5, sizeof(data));
		WORKS(rdma_bind_addr(l, gid(hosts[i], ANY_SID)));
		CU_ASSERT(rdma_get_src_port(l) != 0);
		CU_ASSERT_EQUAL(be64toh(as_ib(rdma_get_local_addr(l))->sib_sid),
				(uint64_t)RDMA_PS_IB << 16 | ntohs(rdma_get_src_port(l)));
		WORKS(rdma_listen(l, 1));
		WORKS(rdma_resolve_addr(
			c, NULL,
			gid(hosts[i], be64toh(as_ib(rdma_get_local_addr(l))->sib_sid), FULL),
			1000));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
		WORKS(rdma_resolve_route(c, 1000));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
		CU_ASSERT_EQUAL(rdma_get_dst_port(c), rdma_get_src_port(l));
		CU_ASSERT_FALSE(memcmp(&as_ib(rdma_get_local_addr(c))->sib_addr,
				       &as_ib(rdma_get_local_addr(l))->sib_addr, 16));
		with_qp(c);
		param.private_data = data;
		param.private_data_len = 93;
		FAILS(rdma_connect(c, &param), EINVAL);
		param.private_data_len = 92;
		WORKS(rdma_connect(c, &param));
		WORKS(rdma_get_cm_event(ch, &ev));
		CU_ASSERT_EQUAL_FATAL(ev->event, RDMA_CM_EVENT_CONNECT_REQUEST);
		CU_ASSERT_EQUAL(ev->param.conn.private_data_len, 92);
		CU_ASSERT_FALSE(memcmp(ev->param.conn.private_data, data, 92));
		s = ev->id;
		WORKS(rdma_ack_cm_event(ev));
		CU_ASSERT_EQUAL(as_ib(rdma_get_local_addr(s))->sib_sid,
				as_ib(rdma_get_local_addr(l))->sib_sid);
		CU_ASSERT_FALSE(memcmp(&as_ib(rdma_get_peer_addr(s))->sib_addr,
				       &as_ib(rdma_get_local_addr(l))->sib_addr, 16));
		with_qp(s);
		WORKS(rdma_accept(s, NULL));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
		drop(c);
		drop(s);
		drop(l);
		rdma_destroy_event_channel(ch);
	}
}

/* The service id is of a port space, and that of an id which is not RDMA_PS_IB is its own. */
static void ib_service_ids(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id, *tcp, *other;

	id = ib_id(ch);
	FAILS(rdma_bind_addr(id, gid("fd00::1", 0x1234560000, FULL)), EPROTONOSUPPORT);
	CU_ASSERT_PTR_NULL(id->verbs);
	FAILS(rdma_bind_addr(id, gid("fd00::77", ANY_SID)), EADDRNOTAVAIL);
	WORKS(rdma_bind_addr(id, gid("fd00::1", SID_TCP | 4712, FULL)));
	CU_ASSERT_EQUAL(ntohs(rdma_get_src_port(id)), 4712);
	/* It has a number of the TCP space. */
	WORKS(rdma_create_id(ch, &tcp, NULL, RDMA_PS_TCP));
	FAILS(rdma_bind_addr(tcp, addr("fd00::1", 4712)), EADDRINUSE);
	FAILS(rdma_bind_addr(tcp, addr("::", 4712)), EADDRINUSE);
	WORKS(rdma_bind_addr(tcp, gid("::ffff:10.0.0.1", SID_TCP | 4712, FULL)));
	drop(tcp);
	WORKS(rdma_create_id(ch, &tcp, NULL, RDMA_PS_TCP));
	FAILS(rdma_bind_addr(tcp, gid("fd00::1", RDMA_IB_IP_PS_UDP | 1, FULL)), EPROTONOSUPPORT);
	/* Only the space counts: a number is found. */
	WORKS(rdma_bind_addr(tcp, gid("::", SID_TCP | 4712, RDMA_IB_IP_PS_MASK)));
	CU_ASSERT(ntohs(rdma_get_src_port(tcp)) != 4712);
	FAILS(rdma_resolve_addr(tcp, NULL, addr("fd00::1", 1), 100), EINVAL);
	FAILS(rdma_resolve_addr(tcp, gid("fd00::1", ANY_SID), addr("fd00::1", 1), 100), EINVAL);
	drop(tcp);
	other = ib_id(ch);
	FAILS(rdma_resolve_addr(other, gid("fd00::1", ANY_SID), addr("::ffff:10.0.0.1", 1), 100),
	      EINVAL);
	drop(other);
	drop(id);
	rdma_destroy_event_channel(ch);
}

/* A listener by GID and one by IP address under the same service id: each gets its own. */
static void ib_and_ip(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel(), *ich, *cch;
	struct rdma_cm_id *ip = listener(ch, "10.0.0.1", 4), *ib, *c, *s;
	uint16_t port = ntohs(rdma_get_src_port(ip));
	struct rdma_conn_param param = {.qp_num = 0x123};

	ich = rdma_create_event_channel();
	cch = rdma_create_event_channel();
	ib = ib_id(ich);
	WORKS(rdma_bind_addr(ib, gid("fd00::1", SID_TCP | port, FULL)));
	WORKS(rdma_listen(ib, 4));
	c = resolved(cch, "10.0.0.1", port);
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	CU_ASSERT_EQUAL(rdma_get_local_addr(s)->sa_family, AF_INET);
	drop(s);
	drop(c);
	c = resolved(cch, "fd00::1", port);
	param.qp_num++;
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(ich, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	CU_ASSERT_EQUAL(rdma_get_local_addr(s)->sa_family, AF_IB);
	drop(s);
	drop(c);
	drop(ip);
	drop(ib);
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(ich);
	rdma_destroy_event_channel(cch);
}

/* ---- rdma_getaddrinfo() ---- */

static void getaddrinfo_rows(void)
{
	static const struct {
		const char *node, *service;
		int flags, family, type, ps;
		int ret, got_family, got_type, got_ps;
	} rows[] = {
		{"10.0.0.1", "7", 0, 0, 0, 0, 0, AF_INET, IBV_QPT_RC, RDMA_PS_TCP},
		{"fd00::1", "7", 0, 0, IBV_QPT_UD, 0, 0, AF_INET6, IBV_QPT_UD, RDMA_PS_UDP},
		{"10.0.0.1", "7", 0, 0, 0, RDMA_PS_UDP, 0, AF_INET, IBV_QPT_UD, RDMA_PS_UDP},
		{"10.0.0.1", "7", 0, 0, IBV_QPT_UC, RDMA_PS_IB, 0, AF_INET, IBV_QPT_UC, RDMA_PS_IB},
		{NULL, "7", RAI_PASSIVE, AF_INET6, 0, 0, 0, AF_INET6, IBV_QPT_RC, RDMA_PS_TCP},
		{"localhost", "7", RAI_NUMERICHOST, 0, 0, 0, EAI_NONAME, 0, 0, 0},
		{"10.0.0.1", "no-such-service", 0, 0, 0, 0, EAI_SERVICE, 0, 0, 0},
		{"10.0.0.1", "7", 0, 0, IBV_QPT_UD, RDMA_PS_TCP, EAI_SOCKTYPE, 0, 0, 0},
		{"fd00::1", "7", RAI_FAMILY, AF_INET, 0, 0, EAI_ADDRFAMILY, 0, 0, 0},
		{"10.0.0.1", "7", 0, AF_UNIX, 0, 0, EAI_FAMILY, 0, 0, 0},
		{"10.0.0.1", "7", 0x40, 0, 0, 0, EAI_BADFLAGS, 0, 0, 0},
		{"10.0.0.1", "7", RAI_NOROUTE, 0, 0, 0, 0, AF_INET, IBV_QPT_RC, RDMA_PS_TCP},
		{"fd00::1", "7", RAI_FAMILY | RAI_NUMERICHOST, AF_IB, 0, RDMA_PS_TCP, 0, AF_IB,
		 IBV_QPT_RC, RDMA_PS_TCP},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdma_addrinfo *res = NULL, hints = {
							  .ai_flags = rows[i].flags,
							  .ai_family = rows[i].family,
							  .ai_qp_type = rows[i].type,
							  .ai_port_space = rows[i].ps,
						  };
		int ret = rdma_getaddrinfo(rows[i].node, rows[i].service, &hints, &res);

		if (ret != rows[i].ret)
			printf("\nrow %u: %d (%s)\n", i, ret, gai_strerror(ret));
		CU_ASSERT_EQUAL_FATAL(ret, rows[i].ret);
		if (ret)
			continue;
		CU_ASSERT_EQUAL(res->ai_family, rows[i].got_family);
		CU_ASSERT_EQUAL(res->ai_qp_type, rows[i].got_type);
		CU_ASSERT_EQUAL(res->ai_port_space, rows[i].got_ps);
		CU_ASSERT_EQUAL(!res->ai_dst_len, !!(rows[i].flags & RAI_PASSIVE));
		CU_ASSERT_EQUAL(!res->ai_src_len, !(rows[i].flags & RAI_PASSIVE));
		CU_ASSERT_PTR_NULL(res->ai_next);
		CU_ASSERT_EQUAL(res->ai_route_len, 0);
		rdma_freeaddrinfo(res);
	}
}

/* Without names the hints' own addresses count; what is there, is freed in chains. */
static void getaddrinfo_hints(void)
{
	struct sockaddr_in6 dst, src;
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *res, *more;

	memcpy(&dst, addr("fd00::1", 9), sizeof(dst));
	memcpy(&src, addr("fd00::1", 0), sizeof(src));
	hints.ai_dst_addr = (struct sockaddr *)&dst;
	hints.ai_dst_len = sizeof(dst);
	hints.ai_src_addr = (struct sockaddr *)&src;
	hints.ai_src_len = sizeof(src);
	WORKS(rdma_getaddrinfo(NULL, NULL, &hints, &res));
	CU_ASSERT_EQUAL(res->ai_dst_len, sizeof(dst));
	CU_ASSERT_FALSE(memcmp(res->ai_dst_addr, &dst, sizeof(dst)));
	CU_ASSERT_FALSE(memcmp(res->ai_src_addr, &src, sizeof(src)));
	WORKS(rdma_getaddrinfo("fd00::1", "9", &hints, &more));
	CU_ASSERT_EQUAL(more->ai_src_len, sizeof(src));
	res->ai_next = more;
	rdma_freeaddrinfo(res);
	rdma_freeaddrinfo(NULL);
	FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	FAILS(rdma_getaddrinfo("fd00::1", "9", NULL, NULL), EINVAL);
	WORKS(rdma_getaddrinfo("fd00::1", "9", NULL, &res));
	rdma_freeaddrinfo(res);
}

/* By GID all the way: what rdma_getaddrinfo() gives can be listened on, and connected to. */
static void getaddrinfo_ib(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE | RAI_FAMILY | RAI_NUMERICHOST,
				      .ai_family = AF_IB,
				      .ai_port_space = RDMA_PS_IB,
				      .ai_qp_type = IBV_QPT_RC};
	struct rdma_addrinfo *res;
	struct rdma_cm_id *l, *c;
	const struct sockaddr_ib *sib;

	WORKS(rdma_getaddrinfo("10.0.0.1", "4713", &hints, &res));
	CU_ASSERT_EQUAL_FATAL(res->ai_src_len, sizeof(struct sockaddr_ib));
	sib = as_ib(res->ai_src_addr);
	CU_ASSERT_EQUAL(be64toh(sib->sib_sid), (uint64_t)RDMA_PS_IB << 16 | 4713);
	CU_ASSERT_EQUAL(sib->sib_sid_mask, UINT64_MAX);
	CU_ASSERT_FALSE(memcmp(&sib->sib_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\n\0\0\1", 16));
	WORKS(rdma_create_ep(&l, res, NULL, NULL));
	rdma_freeaddrinfo(res);
	WORKS(rdma_listen(l, 1));
	hints.ai_flags &= ~RAI_PASSIVE;
	WORKS(rdma_getaddrinfo("10.0.0.1", "4713", &hints, &res));
	WORKS(rdma_create_ep(&c, res, NULL, NULL));
	rdma_freeaddrinfo(res);
	CU_ASSERT_EQUAL(c->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CU_ASSERT_EQUAL(rdma_get_dst_port(c), htons(4713));
	rdma_destroy_ep(c);
	rdma_destroy_ep(l);
	/* No service: the listener's number is chosen. */
	hints.ai_flags |= RAI_PASSIVE;
	WORKS(rdma_getaddrinfo("::", NULL, &hints, &res));
	CU_ASSERT_EQUAL(be64toh(as_ib(res->ai_src_addr)->sib_sid_mask), RDMA_IB_IP_PS_MASK);
	WORKS(rdma_create_ep(&l, res, NULL, NULL));
	rdma_freeaddrinfo(res);
	CU_ASSERT(rdma_get_src_port(l) != 0);
	rdma_destroy_ep(l);
}

/* ---- who may have which ---- */

struct claim {
	const char *host;
	int reuse, afonly;
};

static struct rdma_cm_id *claimant(struct rdma_event_channel *ch, const struct claim *c)
{
	struct rdma_cm_id *id;
	int reuse = c->reuse, afonly = c->afonly;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof(int)));
	WORKS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &afonly, sizeof(int)));
	return id;
}

/* Bound and listening, by twos, as sockets have it. */
/* Both addresses are of one family; the source of an id that is bound does not count. */
static void mixed(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in6 own = *(struct sockaddr_in6 *)addr("fd00::1", 0);
	struct sockaddr_in6 foreign = *(struct sockaddr_in6 *)addr("fd00::9", 0);
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_resolve_addr(id, (struct sockaddr *)&foreign, addr("10.0.0.1", 9), 1000),
	      EADDRNOTAVAIL);
	CU_ASSERT_EQUAL(rdma_get_src_port(id), 0);
	FAILS(rdma_resolve_addr(id, (struct sockaddr *)&own, addr("10.0.0.1", 9), 1000), EINVAL);
	CU_ASSERT_EQUAL(rdma_get_src_port(id), 0);
	CU_ASSERT_PTR_NULL(id->verbs);
	WORKS(rdma_resolve_addr(id, NULL, addr("fd00::1", 9), 1000));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	WORKS(rdma_destroy_id(id));
	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_bind_addr(id, addr("10.0.0.1", 0)));
	WORKS(rdma_resolve_addr(id, (struct sockaddr *)&foreign, addr("10.0.0.1", 9), 1000));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	WORKS(rdma_destroy_id(id));
	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_resolve_addr(id, &none, addr("10.0.0.1", 9), 1000), EINVAL);
	WORKS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

/* A destination that is not there leaves an id as it was, be it that it was on a device already. */
static void nobody_there(void)
{
	static const char *const bound_to[] = {NULL, "0.0.0.0", "10.0.0.1"};

	for (unsigned i = 0; i < 3; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		struct rdma_cm_id *id;
		uint16_t port;

		WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
		if (bound_to[i])
			WORKS(rdma_bind_addr(id, addr(bound_to[i], 0)));
		port = rdma_get_src_port(id);
		CU_ASSERT_EQUAL(!!port, i > 0);
		WORKS(rdma_resolve_addr(id, NULL, addr("10.0.0.9", 1), 50));
		CU_ASSERT(expect(ch, RDMA_CM_EVENT_ADDR_ERROR, NULL) < 0);
		CU_ASSERT_EQUAL(!!id->verbs, i == 2);
		CU_ASSERT_EQUAL(!!id->pd, i == 2);
		CU_ASSERT_EQUAL(rdma_get_src_port(id), port);
		if (!bound_to[i])
			WORKS(rdma_bind_addr(id, addr("10.0.0.1", 0)));
		WORKS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", 1), 1000));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
		CU_ASSERT(rdma_get_src_port(id) == port || !port);
		WORKS(rdma_destroy_id(id));
		rdma_destroy_event_channel(ch);
	}
}

static void in_use(void)
{
	static const struct {
		struct claim a, b;
		bool a_listens;
		int bind_err, listen_err;
	} rows[] = {
		{{"10.0.0.1", 0, 0}, {"10.0.0.1", 0, 0}, false, EADDRINUSE, 0},
		{{"10.0.0.1", 0, 0}, {"0.0.0.0", 0, 0}, false, EADDRINUSE, 0},
		{{"10.0.0.1", 0, 0}, {"::", 0, 0}, false, EADDRINUSE, 0},
		{{"10.0.0.1", 0, 0}, {"::", 0, 1}, false, 0, 0},
		{{"0.0.0.0", 0, 0}, {"::", 0, 1}, true, 0, 0},
		{{"::", 0, 0}, {"0.0.0.0", 0, 0}, false, EADDRINUSE, 0},
		{{"10.0.0.1", 0, 0}, {"fd00::1", 0, 0}, true, 0, 0},
		{{"10.0.0.1", 1, 0}, {"10.0.0.1", 1, 0}, false, 0, 0},
		{{"10.0.0.1", 1, 0}, {"10.0.0.1", 0, 0}, false, EADDRINUSE, 0},
		{{"10.0.0.1", 1, 0}, {"10.0.0.1", 1, 0}, true, EADDRINUSE, 0},
		{{"fd00::1", 1, 0}, {"::", 1, 0}, false, 0, 0},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		struct rdma_cm_id *a = claimant(ch, &rows[i].a), *b = claimant(ch, &rows[i].b);
		uint16_t port;

		WORKS(rdma_bind_addr(a, addr(rows[i].a.host, 0)));
		port = ntohs(rdma_get_src_port(a));
		CU_ASSERT(port >= 32768 && port < 61000); /* the kernel's ephemeral range */
		if (rows[i].a_listens)
			WORKS(rdma_listen(a, 1));
		if (rows[i].bind_err) {
			FAILS(rdma_bind_addr(b, addr(rows[i].b.host, port)), rows[i].bind_err);
		} else {
			WORKS(rdma_bind_addr(b, addr(rows[i].b.host, port)));
			WORKS(rdma_listen(b, 1));
			/* Reuse ends where one listens. */
			if (rows[i].a.reuse)
				FAILS(rdma_listen(a, 1), EADDRINUSE);
		}
		drop(a);
		drop(b);
		rdma_destroy_event_channel(ch);
	}
}

/* An id bound to a loopback address has no device, and its peers are in the house. */
static void loopback(void)
{
	static const char *const hosts[][2] = {{"127.0.0.1", "0.0.0.0"}, {"::1", "fd00::1"}};

	for (unsigned i = 0; i < 2; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		struct rdma_cm_id *l, *other, *c, *s;
		struct rdma_conn_param param = {.qp_num = 0x91 + 2 * i};
		uint16_t port;

		WORKS(rdma_create_id(ch, &l, NULL, RDMA_PS_TCP));
		WORKS(rdma_bind_addr(l, addr(hosts[i][0], 0)));
		port = ntohs(rdma_get_src_port(l));
		CU_ASSERT(port != 0);
		CU_ASSERT_PTR_NULL(l->verbs);
		CU_ASSERT_FALSE(memcmp(rdma_get_local_addr(l), addr(hosts[i][0], port), 16));
		WORKS(rdma_create_id(ch, &other, NULL, RDMA_PS_TCP));
		FAILS(rdma_bind_addr(other, addr(hosts[i][1], port)), EADDRINUSE);
		WORKS(rdma_listen(l, 1));
		CU_ASSERT_PTR_NULL(l->verbs);
		/* As a source it is any own address. */
		WORKS(rdma_create_id(ch, &c, NULL, RDMA_PS_TCP));
		WORKS(rdma_bind_addr(c, addr(hosts[i][0], 0)));
		WORKS(rdma_resolve_addr(c, NULL, addr(hosts[i][0], port), 1000));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
		CU_ASSERT_PTR_NOT_NULL(c->verbs);
		CU_ASSERT_FALSE(
			memcmp(rdma_get_local_addr(c),
			       addr(i ? "fd00::1" : "10.0.0.1", ntohs(rdma_get_src_port(c))), 16));
		WORKS(rdma_resolve_route(c, 1000));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
		WORKS(rdma_connect(c, &param));
		CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
		drop(s);
		drop(c);
		drop(other);
		drop(l);
		rdma_destroy_event_channel(ch);
	}
}

/* The option counts when the other comes, not when its owner was bound. */
static void reuse_later(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	static const struct claim plain = {"10.0.0.1", 0, 0}, shared = {"10.0.0.1", 1, 0};
	struct rdma_cm_id *a = claimant(ch, &plain), *b = claimant(ch, &shared);
	uint16_t port;
	int on = 1;

	WORKS(rdma_bind_addr(a, addr("10.0.0.1", 0)));
	port = ntohs(rdma_get_src_port(a));
	FAILS(rdma_bind_addr(b, addr("10.0.0.1", port)), EADDRINUSE);
	WORKS(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)));
	WORKS(rdma_bind_addr(b, addr("10.0.0.1", port)));
	drop(a);
	drop(b);
	rdma_destroy_event_channel(ch);
}

/* A scope id comes along, and stays. */
static void scope(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in6 own, peer;
	struct rdma_cm_id *id;

	memcpy(&own, addr("fd00::1", 0), sizeof(own));
	memcpy(&peer, addr("fd00::1", 9), sizeof(peer));
	own.sin6_scope_id = peer.sin6_scope_id = 7;
	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addr(id, (struct sockaddr *)&own, (struct sockaddr *)&peer, 1000));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	CU_ASSERT_FALSE(memcmp(rdma_get_peer_addr(id), &peer, sizeof(peer)));
	memcpy(&own, rdma_get_local_addr(id), sizeof(own));
	CU_ASSERT(own.sin6_port != 0);
	drop(id);
	rdma_destroy_event_channel(ch);
}

/* ---- calls of rdma-core 60, which our headers may not have ---- */

#define ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define USER		  ((enum rdma_cm_event_type)18)
#define SA		  0x10
#define DNS		  0x20
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

static void addrinfo_events(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_addrinfo hints = {.ai_flags = DNS, .ai_port_space = RDMA_PS_TCP}, *res = NULL;
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_query_addrinfo(id, &res), ENOENT);
	FAILS(rdma_resolve_addrinfo(NULL, "10.0.0.1", "7", NULL), EINVAL);
	FAILS(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	hints.ai_flags = SA;
	FAILS(rdma_resolve_addrinfo(id, NULL, "7", &hints), EOPNOTSUPP);
	hints.ai_flags = RAI_NUMERICHOST;
	FAILS(rdma_resolve_addrinfo(id, "not a number", "7", &hints), ENOENT);
	hints.ai_flags = DNS;
	WORKS(rdma_resolve_addrinfo(id, "10.0.0.1", "7", &hints));
	FAILS(rdma_resolve_addrinfo(id, "10.0.0.1", "7", &hints), EBUSY);
	CU_ASSERT_EQUAL(expect(ch, ADDRINFO_RESOLVED, NULL), 0);
	FAILS(rdma_query_addrinfo(id, NULL), EINVAL);
	WORKS(rdma_query_addrinfo(id, &res));
	CU_ASSERT_EQUAL(res->ai_port_space, RDMA_PS_TCP);
	CU_ASSERT_FALSE(memcmp(res->ai_dst_addr, addr("10.0.0.1", 7), 8));
	rdma_freeaddrinfo(res);
	FAILS(rdma_query_addrinfo(id, &res), ENOENT);
	/* Nobody asks for this one: it goes with its id. */
	WORKS(rdma_resolve_addrinfo(id, "fd00::1", "7", NULL));
	CU_ASSERT_STRING_EQUAL(rdma_event_str(ADDRINFO_RESOLVED),
			       "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
	WORKS(rdma_destroy_id(id));
	/* A synchronous id has it when the call returns. */
	WORKS(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addrinfo(id, "10.0.0.1", "7", NULL));
	WORKS(rdma_query_addrinfo(id, &res));
	rdma_freeaddrinfo(res);
	WORKS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

/* An application's own event, with its number. */
static void user_events(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	const uint64_t sent = 0x123456789abcdef0;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	uint64_t got;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_write_cm_event(NULL, USER, 0, sent), EINVAL);
	FAILS(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, sent), EINVAL);
	WORKS(rdma_write_cm_event(id, USER, -7, sent));
	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_EQUAL(ev->event, USER);
	CU_ASSERT_PTR_EQUAL(ev->id, id);
	CU_ASSERT_EQUAL(ev->status, -7);
	memcpy(&got, &ev->param, sizeof(got));
	CU_ASSERT_EQUAL(got, sent);
	CU_ASSERT_STRING_EQUAL(rdma_event_str(ev->event), "RDMA_CM_EVENT_USER");
	WORKS(rdma_ack_cm_event(ev));
	WORKS(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

URXE_TEST_MAIN("cm_addr", T(ib_connect), T(ib_service_ids), T(ib_and_ip), T(getaddrinfo_rows),
	       T(getaddrinfo_hints), T(getaddrinfo_ib), T(mixed), T(nobody_there), T(in_use),
	       T(loopback), T(reuse_later), T(scope), T(addrinfo_events), T(user_events))
