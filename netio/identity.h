/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The identity of a process on an address: the one place where numbers that the wire
 * shows are allotted. A process that owns its port alone has a local table; processes on the local
 * fabric (netio/fabric.h) each have a slot, whose number stands in the upper bits of
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
struct urxe_fabric;

/* The connection manager, in a library of its own, calls those of the provider's: a process has one
 * membership. */
#pragma GCC visibility push(default)

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
/**
 * urxe_ident_create_fabric - the identity of a member of the local fabric
 *
 * It joins when a number is first asked for, and has a reference of @f. 0 or ENOMEM.
 */
int urxe_ident_create_fabric(struct urxe_ident **ident, struct urxe_fabric *f,
			     uint64_t (*random64)(void *arg), void *arg);
/** urxe_ident_destroy - also with ports still claimed: those claims are freed. @ident may be NULL.
 */
void urxe_ident_destroy(struct urxe_ident *ident);

/** How QPNs are built: the low bits of a QPN are a table index, what is above is random, or on the
 * fabric the slot. */
#define URXE_IDENT_QPN_INDEX_BITS	 17
#define URXE_IDENT_FABRIC_QPN_INDEX_BITS 16

/** urxe_ident_qpn_index_bits - how many of the low bits are the index: 17 or 16. */
unsigned urxe_ident_qpn_index_bits(const struct urxe_ident *ident);

/** urxe_ident_qpn_slot, urxe_ident_comm_id_slot - of which member of a fabric a number is; 0 and
 * 255: of none. Not for numbers of a local identity. */
static inline unsigned urxe_ident_qpn_slot(uint32_t qpn)
{
	return qpn >> 16 & 0xff;
}

static inline unsigned urxe_ident_comm_id_slot(uint32_t comm_id)
{
	return comm_id >> 24;
}

/** urxe_ident_slot - whose slot a number that others are to find is to have in its upper bits, as a
 * QPN has; joins. 0, and *@slot, which is 0 for a local identity; or the errno of the join. */
int urxe_ident_slot(struct urxe_ident *ident, unsigned *slot);

/** urxe_ident_is_others - is @qpn of another member of the fabric, that is there now? False for a
 * local identity. A load or two. */
bool urxe_ident_is_others(const struct urxe_ident *ident, uint32_t qpn);

/**
 * urxe_ident_qpn_alloc - a QPN that is free (never 0, 1 or 0xffffff)
 *
 * The low URXE_IDENT_QPN_INDEX_BITS bits are unique among live QPNs, so that they index a
 * table, and come in a random order; the rest is random, so that a late packet does not find a new
 * QP. Who has seen some QPNs cannot tell another one. A freed index is used again as late as
 * possible. Returns 0 or ENOMEM when all are taken; on the fabric also the errno of the join.
 */
int urxe_ident_qpn_alloc(struct urxe_ident *ident, uint32_t *qpn);
/** urxe_ident_qpn_free - give back what urxe_ident_qpn_alloc() gave. */
void urxe_ident_qpn_free(struct urxe_ident *ident, uint32_t qpn);

/** urxe_ident_comm_id - a new random CM communication id (IBTA 12.6.5), never 0. Uniqueness among
 * live ids is for the caller to check (it has the table): ask again on a clash. On the fabric 24 of
 * its bits are random, and it is 0 if the member cannot join. */
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
/** urxe_ident_serve - others than the processes of this host may connect to us, from now on: on the
 * fabric, somebody is to lead there. */
void urxe_ident_serve(struct urxe_ident *ident);
/** urxe_ident_port_reuse - URXE_IDENT_PORT_REUSE on or off, for claims that come later. */
void urxe_ident_port_reuse(struct urxe_ident *ident, void *claim, bool reuse);
/** urxe_ident_port_release - the number is free for others; @claim, which may be NULL, is gone. */
void urxe_ident_port_release(struct urxe_ident *ident, void *claim);

/**
 * urxe_ident_service_listen - REQs for service ids that are @service_id under @mask come to us
 *
 * For those that are no RDMA port; the CM sees to clashes within the process. 0; on the fabric
 * EADDRINUSE: another member on our addresses listens to some of them, ENOBUFS, or the errno of
 * the join. *@claim, out: for the release.
 */
int urxe_ident_service_listen(struct urxe_ident *ident, uint64_t service_id, uint64_t mask,
			      void **claim);
/** urxe_ident_service_release - no longer. @claim may be NULL. */
void urxe_ident_service_release(struct urxe_ident *ident, void *claim);

#define URXE_IDENT_PORT_REUSE  0x1 /* RDMA_OPTION_ID_REUSEADDR */
#define URXE_IDENT_PORT_V4     0x2 /* address is IPv4, or the IPv4 wildcard */
#define URXE_IDENT_PORT_V6ONLY 0x4 /* IPv6 wildcard that leaves IPv4 alone (AFONLY) */

#pragma GCC visibility pop

#endif
