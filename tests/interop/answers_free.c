/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Calls of rdma_cma.h that need no id of a state, for answers.c. */
#include "answers.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

static int create_id(enum rdma_port_space ps, bool sync)
{
	struct rdma_event_channel *ch = sync ? NULL : rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;
	int ret = rdma_create_id(ch, &id, NULL, ps), e = errno;

	if (!ret)
		rdma_destroy_id(id);
	if (ch)
		rdma_destroy_event_channel(ch);
	errno = e;
	return ret;
}

static int no_event(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_event *ev;
	int ret, e;

	fcntl(ch->fd, F_SETFL, O_NONBLOCK);
	ret = rdma_get_cm_event(ch, &ev);
	e = errno;
	rdma_destroy_event_channel(ch);
	errno = e;
	return ret;
}

static int event_text(int type, char *text, size_t len)
{
	snprintf(text, len, "%s", rdma_event_str((enum rdma_cm_event_type)type));
	return 0;
}

static int devices(char *text, size_t len)
{
	int n = -1;
	struct ibv_context **list = rdma_get_devices(&n);

	snprintf(text, len, "%s, %s", list ? "a list" : "none",
		 list && !list[n] ? "ended" : "open");
	if (list)
		rdma_free_devices(list);
	return n;
}

static const char *host(enum place place)
{
	static char text[INET6_ADDRSTRLEN];
	const struct sockaddr *sa = here(place, 0);

	return inet_ntop(sa->sa_family, &((const struct sockaddr_in *)(const void *)sa)->sin_addr,
			 text, sizeof(text));
}

/* rdma_addrinfo as far as it is not the machine's */
static int addrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		    char *text, size_t len)
{
	struct rdma_addrinfo *res = NULL;
	int ret = rdma_getaddrinfo(node, service, hints, &res), e = errno;

	if (!ret)
		snprintf(text, len, "flags %x family %d type %d ps %x src %u dst %u%s%s%s%s",
			 res->ai_flags, res->ai_family, res->ai_qp_type, res->ai_port_space,
			 res->ai_src_len, res->ai_dst_len, res->ai_src_canonname ? " srcname" : "",
			 res->ai_dst_canonname ? " dstname" : "", res->ai_route_len ? " route" : "",
			 res->ai_next ? " next" : "");
	if (!ret)
		rdma_freeaddrinfo(res);
	errno = e;
	return ret;
}

static int endpoint(int flags, int ps, int qp_type, const struct ibv_qp_init_attr *attr, char *text,
		    size_t len)
{
	struct rdma_addrinfo info = {.ai_flags = flags,
				     .ai_family = AF_INET,
				     .ai_qp_type = qp_type,
				     .ai_port_space = ps};
	struct ibv_qp_init_attr copy = attr ? *attr : (struct ibv_qp_init_attr){0};
	struct rdma_cm_id *id = NULL;
	int ret, e;

	if (flags & RAI_PASSIVE) {
		info.ai_src_addr = here(OWN, 0);
		info.ai_src_len = sizeof(struct sockaddr_in);
	} else {
		info.ai_dst_addr = here(OWN, NOBODY);
		info.ai_dst_len = sizeof(struct sockaddr_in);
	}
	ret = rdma_create_ep(&id, &info, NULL, attr ? &copy : NULL);
	e = errno;
	if (!ret) {
		snprintf(text, len, "type %d %c%c%c%c%c", id->qp_type, id->verbs ? 'v' : '-',
			 id->pd ? 'p' : '-', id->qp ? 'q' : '-', rdma_get_src_port(id) ? 's' : '-',
			 rdma_get_dst_port(id) ? 'd' : '-');
		rdma_destroy_ep(id);
	}
	errno = e;
	return ret;
}

#define HINTS(...)		  (&(const struct rdma_addrinfo){__VA_ARGS__})
#define INFO(node, service, ...)  addrinfo(node, service, HINTS(__VA_ARGS__), text, len)
#define EP(flags, ps, type, attr) endpoint(flags, RDMA_PS_##ps, IBV_QPT_##type, attr, text, len)

/* X(name, call) */
/* clang-format off */
#define FREE_CALLS(X) \
	X(create_id_tcp,        create_id(RDMA_PS_TCP, false)) \
	X(create_id_udp,        create_id(RDMA_PS_UDP, false)) \
	X(create_id_ib,         create_id(RDMA_PS_IB, false)) \
	X(create_id_ipoib,      create_id(RDMA_PS_IPOIB, false)) \
	X(create_id_no_space,   create_id((enum rdma_port_space)0, false)) \
	X(create_id_of_99,      create_id((enum rdma_port_space)99, false)) \
	X(create_id_sync,       create_id(RDMA_PS_TCP, true)) \
	X(create_id_sync_99,    create_id((enum rdma_port_space)99, true)) \
	X(no_event,             no_event()) \
	X(event_str_0,          event_text(0, text, len)) \
	X(event_str_1,          event_text(1, text, len)) \
	X(event_str_2,          event_text(2, text, len)) \
	X(event_str_3,          event_text(3, text, len)) \
	X(event_str_4,          event_text(4, text, len)) \
	X(event_str_5,          event_text(5, text, len)) \
	X(event_str_6,          event_text(6, text, len)) \
	X(event_str_7,          event_text(7, text, len)) \
	X(event_str_8,          event_text(8, text, len)) \
	X(event_str_9,          event_text(9, text, len)) \
	X(event_str_10,         event_text(10, text, len)) \
	X(event_str_11,         event_text(11, text, len)) \
	X(event_str_12,         event_text(12, text, len)) \
	X(event_str_13,         event_text(13, text, len)) \
	X(event_str_14,         event_text(14, text, len)) \
	X(event_str_15,         event_text(15, text, len)) \
	X(event_str_99,         event_text(99, text, len)) \
	X(get_devices,          devices(text, len)) \
	X(info_of_nothing,      INFO(NULL, NULL)) \
	X(info_node,            INFO(host(OWN), NULL)) \
	X(info_service,         INFO(NULL, "7471")) \
	X(info_both,            INFO(host(OWN), "7471")) \
	X(info_no_hints,        addrinfo(host(OWN), "7471", NULL, text, len)) \
	X(info_passive,         INFO(NULL, "7471", .ai_flags = RAI_PASSIVE)) \
	X(info_passive_node,    INFO(host(OWN), "7471", .ai_flags = RAI_PASSIVE)) \
	X(info_passive_alone,   INFO(NULL, NULL, .ai_flags = RAI_PASSIVE)) \
	X(info_numeric,         INFO(host(OWN), "7471", .ai_flags = RAI_NUMERICHOST)) \
	X(info_not_numeric,     INFO("localhost", "7471", .ai_flags = RAI_NUMERICHOST)) \
	X(info_bad_service,     INFO(host(OWN), "no such service")) \
	X(info_no_route,        INFO(host(OWN), "7471", .ai_flags = RAI_NOROUTE)) \
	X(info_foreign,         INFO(host(FOREIGN), "7471")) \
	X(info_family_4,        INFO(host(OWN), "7471", .ai_flags = RAI_FAMILY, .ai_family = AF_INET)) \
	X(info_family_6,        INFO(host(OWN), "7471", .ai_flags = RAI_FAMILY, .ai_family = AF_INET6)) \
	X(info_family_unset,    INFO(host(OWN), "7471", .ai_family = AF_INET6)) \
	X(info_udp,             INFO(host(OWN), "7471", .ai_port_space = RDMA_PS_UDP)) \
	X(info_ib,              INFO(host(OWN), "7471", .ai_port_space = RDMA_PS_IB)) \
	X(info_ipoib,           INFO(host(OWN), "7471", .ai_port_space = RDMA_PS_IPOIB)) \
	X(info_ud,              INFO(host(OWN), "7471", .ai_qp_type = IBV_QPT_UD)) \
	X(info_uc,              INFO(host(OWN), "7471", .ai_qp_type = IBV_QPT_UC)) \
	X(info_src,             INFO(host(OWN), "7471", .ai_src_len = sizeof(struct sockaddr_in), .ai_src_addr = here(OWN, 0))) \
	X(info_src_alone,       INFO(NULL, NULL, .ai_src_len = sizeof(struct sockaddr_in), .ai_src_addr = here(OWN, 0))) \
	X(info_dst_alone,       INFO(NULL, NULL, .ai_dst_len = sizeof(struct sockaddr_in), .ai_dst_addr = here(OWN, NOBODY))) \
	X(ep_active,            EP(0, TCP, RC, NULL)) \
	X(ep_active_qp,         EP(0, TCP, RC, qp_of(IBV_QPT_RC))) \
	X(ep_active_udp,        EP(0, UDP, UD, NULL)) \
	X(ep_active_udp_qp,     EP(0, UDP, UD, qp_of(IBV_QPT_UD))) \
	X(ep_active_uc,         EP(0, TCP, UC, NULL)) \
	X(ep_active_ud,         EP(0, TCP, UD, NULL)) \
	X(ep_active_udp_rc,     EP(0, UDP, RC, NULL)) \
	X(ep_active_ib,         EP(0, IB, RC, NULL)) \
	X(ep_passive,           EP(RAI_PASSIVE, TCP, RC, NULL)) \
	X(ep_passive_qp,        EP(RAI_PASSIVE, TCP, RC, qp_of(IBV_QPT_RC))) \
	X(ep_passive_udp,       EP(RAI_PASSIVE, UDP, UD, NULL)) \
	X(ep_passive_udp_qp,    EP(RAI_PASSIVE, UDP, UD, qp_of(IBV_QPT_UD))) \
	X(ep_passive_ud,        EP(RAI_PASSIVE, TCP, UD, NULL))
/* clang-format on */

#define FUNCTION(name, expr)                                      \
	static int try_##name(char *text __attribute__((unused)), \
			      size_t len __attribute__((unused))) \
	{                                                         \
		return expr;                                      \
	}
FREE_CALLS(FUNCTION)

#define ROW(name, expr) {#name, try_##name},
const struct free_call free_calls[] = {FREE_CALLS(ROW)};
const size_t n_free_calls = sizeof(free_calls) / sizeof(free_calls[0]);
