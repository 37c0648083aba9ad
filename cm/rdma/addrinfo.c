/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rdma_getaddrinfo(), also as an event: names by getaddrinfo(3), as QP types and port spaces. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cm/rdma/cma.h"

static void to_hints(struct addrinfo *ai, const struct rdma_addrinfo *rai)
{
	*ai = (struct addrinfo){
		.ai_flags = (rai->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) |
			    (rai->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
		/* On RoCE a GID is an IP address: AF_IB ones are found as those are. */
		.ai_family = rai->ai_family == AF_IB ? AF_UNSPEC : rai->ai_family,
	};
	if (rai->ai_qp_type == IBV_QPT_UD)
		ai->ai_socktype = SOCK_DGRAM;
	else if (rai->ai_qp_type)
		ai->ai_socktype = SOCK_STREAM;
	if (rai->ai_port_space == RDMA_PS_TCP ||
	    (rai->ai_port_space == RDMA_PS_IB && ai->ai_socktype == SOCK_STREAM))
		ai->ai_protocol = IPPROTO_TCP;
	else if (rai->ai_port_space == RDMA_PS_UDP || rai->ai_port_space == RDMA_PS_IPOIB ||
		 (rai->ai_port_space == RDMA_PS_IB && ai->ai_socktype == SOCK_DGRAM))
		ai->ai_protocol = IPPROTO_UDP;
}

static int copy_addr(struct sockaddr **dst, socklen_t *dst_len, const void *src, socklen_t len)
{
	*dst = malloc(len);
	if (!*dst)
		return EAI_MEMORY;
	memcpy(*dst, src, len);
	*dst_len = len;
	return 0;
}

/* What the hints leave open follows from the kind of socket. */
static void set_types(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints, int socktype)
{
	bool dgram = socktype == SOCK_DGRAM;

	rai->ai_qp_type = hints->ai_qp_type ? hints->ai_qp_type : dgram ? IBV_QPT_UD : IBV_QPT_RC;
	rai->ai_port_space = hints->ai_port_space ? hints->ai_port_space
			     : dgram		  ? RDMA_PS_UDP
						  : RDMA_PS_TCP;
}

/* The service id's port space and, where a service was named, its port count; the rest does not. */
static int copy_as_ib(const struct rdma_addrinfo *rai, struct sockaddr **dst, socklen_t *dst_len,
		      const struct sockaddr *src)
{
	struct sockaddr_ib sib = {0};
	uint16_t port = urxe_cma_addr_port(src);
	union ibv_gid gid;

	urxe_cma_addr_gid(src, &gid);
	urxe_cma_gid_addr(&gid, AF_IB, port, (struct sockaddr *)&sib);
	if (urxe_cma_addr_any(src))
		memset(&sib.sib_addr, 0, sizeof(sib.sib_addr));
	sib.sib_sid |= htobe64((uint64_t)rai->ai_port_space << 16);
	sib.sib_sid_mask |= htobe64(RDMA_IB_IP_PS_MASK);
	if (src->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)src;

		sib.sib_flowinfo = in6->sin6_flowinfo;
		sib.sib_scope_id = in6->sin6_scope_id;
	}
	return copy_addr(dst, dst_len, &sib, sizeof(sib));
}

static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *rai)
{
	struct addrinfo ai_hints, *ai;
	bool passive = hints->ai_flags & RAI_PASSIVE;
	struct sockaddr **addr = passive ? &rai->ai_src_addr : &rai->ai_dst_addr;
	socklen_t *len = passive ? &rai->ai_src_len : &rai->ai_dst_len;
	int ret;

	to_hints(&ai_hints, hints);
	ret = getaddrinfo(node, service, &ai_hints, &ai);
	if (ret)
		return ret;
	rai->ai_flags = passive ? RAI_PASSIVE : 0;
	rai->ai_family = hints->ai_family == AF_IB ? AF_IB : ai->ai_family;
	set_types(rai, hints, ai->ai_socktype);
	if (rai->ai_family == AF_IB)
		ret = copy_as_ib(rai, addr, len, ai->ai_addr);
	else
		ret = copy_addr(addr, len, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return ret;
}

static void free_one(struct rdma_addrinfo *rai)
{
	free(rai->ai_connect);
	free(rai->ai_route);
	free(rai->ai_src_canonname);
	free(rai->ai_dst_canonname);
	free(rai->ai_src_addr);
	free(rai->ai_dst_addr);
	free(rai);
}

static int from_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *rai)
{
	rai->ai_flags = hints->ai_flags;
	rai->ai_family = hints->ai_family;
	rai->ai_qp_type = hints->ai_qp_type;
	rai->ai_port_space = hints->ai_port_space;
	if (!hints->ai_dst_len)
		return 0;
	return copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr,
			 hints->ai_dst_len);
}

static int check_hints(const struct rdma_addrinfo *hints)
{
	static const int known = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY;

	if (hints->ai_flags & ~known)
		return EAI_BADFLAGS;
	if (hints->ai_family != AF_UNSPEC && hints->ai_family != AF_INET &&
	    hints->ai_family != AF_INET6 && hints->ai_family != AF_IB)
		return EAI_FAMILY;
	return 0;
}

URXE_CMA_API int rdma_getaddrinfo(const char *node, const char *service,
				  const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	struct rdma_addrinfo *rai;
	int ret;

	if (!res || (!node && !service && !hints))
		return urxe_cma_ret(EINVAL);
	ret = urxe_cma_enter();
	if (ret)
		return urxe_cma_ret(ret);
	urxe_cma_leave();
	if (!hints)
		hints = &none;
	ret = check_hints(hints);
	if (ret)
		return ret;
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return urxe_cma_ret(ENOMEM);
	ret = node || service ? look_up(node, service, hints, rai) : from_hints(hints, rai);
	if (!ret && !rai->ai_src_len && hints->ai_src_len)
		ret = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
				hints->ai_src_len);
	if (ret) {
		free_one(rai);
		return ret;
	}
	*res = rai;
	return 0;
}

URXE_CMA_API void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free_one(res);
		res = next;
	}
}

/* ---- the same with the answer as an event ---- */

static int begin_info(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock)
{
	if (id->resolving_info)
		return EBUSY;
	id->resolving_info = true;
	return 0;
}

/* Locked. The answer, or that there is none: the call says why. */
static int end_info(struct urxe_cma_id *id, struct rdma_addrinfo *info) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_event *ev =
		info ? urxe_cma_event_new(id, URXE_CMA_EVENT_ADDRINFO_RESOLVED, 0) : NULL;

	id->resolving_info = ev;
	if (!ev) {
		rdma_freeaddrinfo(info);
		return info ? ENOMEM : 0;
	}
	id->info = info;
	urxe_cma_event_post(ev);
	return 0;
}

/* What rdma_getaddrinfo() returned, as an errno. */
static int info_errno(int ret)
{
	switch (ret) {
	case 0:
		return 0;
	case -1: /* EAI_BADFLAGS, too */
		return errno ? errno : EINVAL;
	case EAI_MEMORY:
		return ENOMEM;
	case EAI_SYSTEM:
		return errno;
	case EAI_AGAIN:
		return EAGAIN;
	default:
		return ENOENT;
	}
}

URXE_CMA_API int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
				       const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *info = NULL, own;
	int err, ret;

	/* RoCE has no subnet administrator with service records, as the kernel says. */
	if (id && hints && hints->ai_flags & RAI_SA)
		return urxe_cma_ret(EOPNOTSUPP);
	err = urxe_cma_begin(id);
	if (!err)
		err = urxe_cma_end(begin_info(to_cma_id(id)));
	if (err)
		return urxe_cma_ret(err);
	if (hints) {
		own = *hints;
		own.ai_flags &= ~RAI_DNS; /* the other way, and the usual one */
		hints = &own;
	}
	errno = 0;
	err = info_errno(rdma_getaddrinfo(node, service, hints, &info));
	urxe_cma_hold();
	urxe_cma_looks(to_cma_id(id));
	ret = end_info(to_cma_id(id), info);
	return urxe_cma_end_wait(id, err ? err : ret);
}

static int query_info(struct urxe_cma_id *id, struct rdma_addrinfo **info)
	URXE_REQUIRES(urxe_cma_lock)
{
	if (!id->info)
		return ENOENT;
	*info = id->info;
	id->info = NULL;
	id->resolving_info = false;
	return 0;
}

URXE_CMA_API int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	int err;

	if (!info)
		return urxe_cma_ret(EINVAL);
	err = urxe_cma_begin(id);
	if (!err)
		err = urxe_cma_end(query_info(to_cma_id(id), info));
	return urxe_cma_ret(err);
}
