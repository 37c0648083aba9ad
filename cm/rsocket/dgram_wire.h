/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What two datagram sockets tell each other: a header before each datagram, one over UDP of the
 * kernel's and another one between UD QPs. As in rdma-core's docs/rsocket, "Datagram Overview".
 */
#ifndef URXE_CM_RSOCKET_DGRAM_WIRE_H
#define URXE_CM_RSOCKET_DGRAM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define URXE_RS_DGRAM_MOST    2048u /* bytes of a datagram with its header: rdma-core's buffers */
#define URXE_RS_DGRAM_HEADERS 28u   /* bytes of the longest header */

/** An address of a datagram socket, of either family. */
struct urxe_rs_addr {
	uint8_t ip[16]; /* as a GID: IPv4 is mapped into IPv6 */
	uint32_t scope; /* the interface, of a link-local address */
	uint16_t port;
};

/** urxe_rs_addr_get - of an application's or the kernel's. EFAULT, EINVAL, EAFNOSUPPORT. */
int urxe_rs_addr_get(struct urxe_rs_addr *a, const struct sockaddr *sa, socklen_t len);
/** urxe_rs_addr_put - for a socket of this domain; its length, or 0: it cannot have that. */
socklen_t urxe_rs_addr_put(const struct urxe_rs_addr *a, int domain, struct sockaddr_storage *sa);
/** urxe_rs_addr_same - with the port. */
bool urxe_rs_addr_same(const struct urxe_rs_addr *a, const struct urxe_rs_addr *b);
/** urxe_rs_addr_any - is it 0.0.0.0 or ::? */
bool urxe_rs_addr_any(const struct urxe_rs_addr *a);
/** urxe_rs_addr_here - a destination that is any means this host: its loopback address. */
void urxe_rs_addr_here(struct urxe_rs_addr *a);

/** What a message over UDP is. */
enum urxe_rs_udp_op {
	URXE_RS_UDP_DATA = 0,	 /* a datagram; it is answered by the other kind */
	URXE_RS_UDP_CONTROL = 7, /* nothing but the header */
};

/** The header of a message over UDP. */
struct urxe_rs_udp_header {
	enum urxe_rs_udp_op op;
	uint32_t qpn;	/* of the sender's QP */
	uint8_t ip[16]; /* the sender's */
};

/** urxe_rs_udp_header_len, urxe_rs_ud_header_len - bytes, by the domain of the sending socket. */
static inline unsigned urxe_rs_udp_header_len(int domain)
{
	return domain == AF_INET6 ? 28 : 16;
}
static inline unsigned urxe_rs_ud_header_len(int domain)
{
	return domain == AF_INET6 ? 24 : 8;
}

/** urxe_rs_udp_header_put - urxe_rs_udp_header_len() bytes. */
void urxe_rs_udp_header_put(uint8_t *p, int domain, const struct urxe_rs_udp_header *h);
/** urxe_rs_udp_header_get - of @len bytes that came; how long it is, or 0: it is none. */
unsigned urxe_rs_udp_header_get(const uint8_t *p, size_t len, struct urxe_rs_udp_header *h);
/** urxe_rs_ud_header_put - the sender's address: urxe_rs_ud_header_len() bytes. */
void urxe_rs_ud_header_put(uint8_t *p, int domain, const struct urxe_rs_addr *from);
/** urxe_rs_ud_header_get - of @len bytes that came; how long it is, or 0: it is none. */
unsigned urxe_rs_ud_header_get(const uint8_t *p, size_t len, struct urxe_rs_addr *from);

#endif
