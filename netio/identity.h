/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The identity of a process on an address: the one place where numbers that the wire
 * shows are allotted. A process that owns its port alone has a local table; processes that
 * share an address will each have a slot, whose number stands in the upper bits of
 * QPNs (8 of 24) and comm ids (8 of 32), and claim RDMA ports in a shared table.
 * Whoever makes or takes apart such a number asks here.
 *
 * All calls are thread-safe.
 */
#ifndef URXE_NETIO_IDENTITY_H
#define URXE_NETIO_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

struct urxe_ident;

/** Port spaces of the RDMA IP CM service, as in rdma_cma.h (enum rdma_port_space). */
enum urxe_ident_space {
	URXE_IDENT_TCP,
	URXE_IDENT_UDP,
	URXE_IDENT_IB,
	URXE_IDENT_IPOIB,
	URXE_IDENT_SPACES,
};

/** urxe_ident_create - a local identity; @random64 gives random bits. 0 or ENOMEM. */
int urxe_ident_create(struct urxe_ident **ident, uint64_t (*random64)(void *arg), void *arg);
/** urxe_ident_destroy - also with ports still claimed: those claims are freed. @ident may be NULL.
 */
void urxe_ident_destroy(struct urxe_ident *ident);

/** How QPNs are built: the low bits of a QPN are a table index, what is above is random. */
#define URXE_IDENT_QPN_INDEX_BITS 17

/**
 * urxe_ident_qpn_alloc - a QPN that is free (never 0, 1 or 0xffffff)
 *
 * The low URXE_IDENT_QPN_INDEX_BITS bits are unique among live QPNs, so that they index a
 * table, and come in a random order; the rest is random, so that a late packet does not find a new
 * QP. Who has seen some QPNs cannot tell another one. A freed index is used again as late as
 * possible. Returns 0 or ENOMEM when all are taken.
 */
int urxe_ident_qpn_alloc(struct urxe_ident *ident, uint32_t *qpn);
/** urxe_ident_qpn_free - give back what urxe_ident_qpn_alloc() gave. */
void urxe_ident_qpn_free(struct urxe_ident *ident, uint32_t qpn);

/** urxe_ident_comm_id - a new random CM communication id (IBTA 12.6.5), never 0. Uniqueness among
 * live ids is for the caller to check (it has the table): ask again on a clash. */
uint32_t urxe_ident_comm_id(struct urxe_ident *ident);

/**
 * urxe_ident_port_claim - an RDMA port number for a port space
 * @gid: the bound address, or 16 zero bytes for the wildcard
 * @port: in: the wanted number (host order), 0 for an ephemeral one; out: the number
 * @flags: URXE_IDENT_PORT_*
 * @claim: out: handle for the release
 *
 * Conflicts follow sockets: same number and overlapping address is EADDRINUSE unless both
 * sides asked for reuse and neither listens. Returns 0, EADDRINUSE, EADDRNOTAVAIL (no ephemeral
 * number left), ENOMEM.
 */
int urxe_ident_port_claim(struct urxe_ident *ident, enum urxe_ident_space space,
			  const uint8_t gid[16], unsigned flags, uint16_t *port, void **claim);
/** urxe_ident_port_listen - the claim now listens: EADDRINUSE if another overlapping one does. */
int urxe_ident_port_listen(struct urxe_ident *ident, void *claim);
/** urxe_ident_port_reuse - URXE_IDENT_PORT_REUSE on or off, for claims that come later. */
void urxe_ident_port_reuse(struct urxe_ident *ident, void *claim, bool reuse);
/** urxe_ident_port_release - the number is free for others; @claim, which may be NULL, is gone. */
void urxe_ident_port_release(struct urxe_ident *ident, void *claim);

#define URXE_IDENT_PORT_REUSE  0x1 /* RDMA_OPTION_ID_REUSEADDR */
#define URXE_IDENT_PORT_V4     0x2 /* address is IPv4, or the IPv4 wildcard */
#define URXE_IDENT_PORT_V6ONLY 0x4 /* IPv6 wildcard that leaves IPv4 alone (AFONLY) */

#endif
