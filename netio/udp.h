/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the files of the UDP link share: link_udp.c, udp_rx.c, udp_tx.c, udp_icrc.c. */
#ifndef URXE_NETIO_UDP_H
#define URXE_NETIO_UDP_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netio/buf_pool.h"

struct urxe_frame;
struct urxe_port_config;

/* Offset of the BTH in a frame, by family. */
#define UDP_HEAD_V4 42
#define UDP_HEAD_V6 62

#define UDP_MSGS  8	/* of a system call, to receive */
#define UDP_MOST  65535 /* bytes of a message: of segments, or alone */
#define UDP_BURST 64	/* frames of a call to send */
#define UDP_SEGS  64	/* that the kernel makes of one message (UDP_MAX_SEGMENTS) */
#define UDP_PEERS 256

/** A family's socket. */
struct udp_sock {
	int fd; /* -1: the family is not there */
	bool ipv4;
	bool gso;	       /* UDP_SEGMENT: the kernel makes segments of what we give it */
	_Atomic unsigned idle; /* calls in a row that received nothing */
	unsigned num, at;      /* messages fetched, and the first that is not done with */
	uint32_t off;	       /* of what is left of it */
	unsigned nth;	       /* segments of it that were taken */
	struct udp_msgs *msgs; /* UDP_MSGS */
	unsigned ask;	       /* so many of them, the next time: after an empty call one */
	bool one_address;    /* it is bound to that: neither groups nor other addresses reach it */
	uint8_t address[16]; /* then */
};

/** Whether packets of a peer have had identifications. */
struct udp_peer {
	uint8_t addr[4];
	uint32_t zeros; /* in a row, and no other */
	bool ids;
};

/* Where the 16 bits of an identification show in the ICRC of packets of one length. */
struct udp_basis {
	uint32_t len; /* from the BTH on, without ICRC; 0: not made */
	uint32_t bit[16];
	/* The same, reduced: each has a bit of its own, by which it is found. */
	uint32_t vec[16], lead[16];
	uint16_t ids[16];
};

#define UDP_LENGTHS 64

struct udp_link {
	char name[32]; /* of the device, for log lines */
	uint8_t mac[6];
	struct udp_sock sock[2]; /* IPv4, IPv6 */
	unsigned turn;
	struct urxe_buf_pool pool;
	struct udp_peer peer[UDP_PEERS];
	struct udp_basis basis[UDP_LENGTHS];
	_Atomic uint64_t dropped; /* no buffer */
	_Atomic uint64_t refused; /* packets that the kernel never sends */
	_Atomic uint64_t warned;  /* when something that is not sent was last reported, ns */
	int wake;
};

/** udp_peer_mac - the MAC that stands for all other hosts: the kernel has the true ones. */
extern const uint8_t udp_peer_mac[6];

/* ---- ways (udp_mtu.c) ---- */

/** udp_link_local - fe80::/10 or a group of the link: means something on an interface alone. */
bool udp_link_local(const uint8_t a[16]);
/** udp_interface_of - the index of the interface that has our address @addr; 0: none. */
unsigned udp_interface_of(const uint8_t addr[16]);
/** udp_way_mtu - way_mtu() of link.h. */
uint32_t udp_way_mtu(const struct urxe_port_config *cfg, const uint8_t *src, const uint8_t *dst);

/* ---- ICRC (udp_icrc.c) ---- */

/**
 * udp_icrc_of_id - by what the ICRC differs with this identification from that with 0
 * @len: bytes from the BTH on, without ICRC. The caller has the lane.
 *
 * A CRC is linear: the difference is the same whatever the packet says.
 */
uint32_t udp_icrc_of_id(struct udp_link *u, uint32_t len, uint16_t id);

/**
 * udp_icrc_solve - the identification by which an ICRC differs by @diff (not 0)
 *
 * False: there is none; the packet was damaged. One of 65,536 damaged packets has one all the same:
 * the UDP checksum, which the kernel checks, is there as well.
 */
bool udp_icrc_solve(struct udp_link *u, uint32_t len, uint32_t diff, uint16_t *id);

/**
 * udp_icrc_trust - may a packet of this IPv4 address have this identification?
 *
 * Who has sent a thousand without is not believed the first one with: it may be a damaged packet.
 */
bool udp_icrc_trust(struct udp_link *u, const uint8_t addr[4], uint16_t id);

/* ---- data path ---- */

/** udp_msgs_init - room for what is received; 0 or ENOMEM. */
int udp_msgs_init(struct udp_sock *s, bool ipv4);
void udp_msgs_fini(struct udp_sock *s);
/** udp_rx, udp_tx - as urxe_link_ops. */
unsigned udp_rx(struct udp_link *u, struct urxe_frame *f, unsigned n);
unsigned udp_tx(struct udp_link *u, struct urxe_frame *f, unsigned n);

#endif
