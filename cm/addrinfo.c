/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rdma_getaddrinfo(): names by getaddrinfo(3), in terms of QP types and port spaces. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cma.h"

static void to_hints(struct addrinfo *ai, const struct rdma_addrinfo *rai)
{
	*ai = (struct addrinfo){
		.ai_flags = (rai->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) |
			    (rai->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
		.ai_family = rai->ai_family,
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

static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *rai)
{
	struct addrinfo ai_hints, *ai;
	bool passive = hints->ai_flags & RAI_PASSIVE;
	int ret;

	to_hints(&ai_hints, hints);
	ret = getaddrinfo(node, service, &ai_hints, &ai);
	if (ret)
		return ret;
	rai->ai_flags = passive ? RAI_PASSIVE : 0;
	rai->ai_family = ai->ai_family;
	set_types(rai, hints, ai->ai_socktype);
	if (passive)
		ret = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, ai->ai_addr, ai->ai_addrlen);
	else
		ret = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
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
	/* A family of InfiniBand addresses is not offered. */
	if (hints->ai_family != AF_UNSPEC && hints->ai_family != AF_INET &&
	    hints->ai_family != AF_INET6)
		return EAI_FAMILY;
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
