/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table that the members of a fabric share: its layout. Any member may write anything anywhere
 * in it at any time. So: all of it is atomic, each index and count that is read is bounded before
 * use, no pointer is in it, and nobody waits for a word in it. What an owner wrote counts as long
 * as the owner lives: an entry names a slot and its incarnation, and is free again when that slot
 * has another one or none. So the entries of a dead member need not be looked for.
 */
#ifndef URXE_NETIO_FABRIC_TABLE_H
#define URXE_NETIO_FABRIC_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "netio/fabric.h"

#define FT_MAGIC   0x6261662d65787275 /* "urxe-fab" */
#define FT_VERSION 1

#define FT_HOSTS    32	/* network namespaces */
#define FT_HOST	    256 /* domains of hosts begin here; those of nodes are their slots */
#define FT_SERVICES 1024

/* RDMA ports: a hash of (space, port) with places for several claims of a port. Consecutive ports
 * lie in consecutive buckets, so that all ephemeral ones of all spaces find room. */
#define FT_BUCKETS 8192
#define FT_WAYS	   16
#define FT_PROBES  16	/* buckets that one port may spread over */
#define FT_STEP	   2731 /* from one to the next */

/* ---- who has a slot ---- */

/* life: incarnation << 32 | state. */
enum {
	FT_FREE,
	FT_JOINING,
	FT_LIVE
};

struct urxe_ft_life {
	_Atomic uint64_t life;
	_Atomic uint32_t owner; /* a robust futex, held by the member's thread (fabric_thread.c) */
	_Atomic uint32_t freed; /* by the clock, for the slot that is free the longest */
	_Atomic uint32_t domain;
	_Atomic uint32_t spare[3];
};

/* What a member says of itself. seq is odd while it writes; who reads gives up soon. */
struct urxe_ft_member {
	_Atomic uint32_t seq;
	_Atomic uint32_t flags;
	_Atomic uint32_t gids, groups;
	_Atomic uint64_t start_time;
	_Atomic uint64_t mac; /* as a number, 48 bits */
	_Atomic uint64_t command[8];
	_Atomic uint64_t gid[URXE_FABRIC_GIDS][2];
	_Atomic uint64_t group[URXE_FABRIC_GROUPS][2];
};

#define FT_NODE	      0x1
#define FT_ALL_GROUPS 0x2
#define FT_GATE	      0x4

/* ---- claims: of ports and services ---- */

/* The word of a claim. Bits 0, 1: state; 2-8 flags; 9-23 sequence, another one for each use; 24-31
 * slot; 32-63 incarnation. */
enum {
	FT_UNUSED,
	FT_WRITING, /* the owner writes the key */
	FT_TRYING,  /* all can see it; any that is in its way may remove it */
	FT_HELD,
};

#define FT_STATE	3u
#define FT_ANY		0x004u /* a wildcard address */
#define FT_REUSE	0x008u
#define FT_V4		0x010u
#define FT_V6ONLY	0x020u
#define FT_WILL_LISTEN	0x040u /* trying to */
#define FT_LISTENS	0x080u
#define FT_SEQ_SHIFT	9
#define FT_SEQ_MASK	0x7fffu
#define FT_OWNER_SHIFT	24
#define FT_SLOT(word)	((unsigned)((word) >> 24 & 0xff))
#define FT_INCARN(word) ((uint32_t)((word) >> 32))
#define FT_SEQ(word)	((unsigned)((word) >> FT_SEQ_SHIFT & FT_SEQ_MASK))

struct urxe_ft_key {
	_Atomic uint64_t gid[2];
	_Atomic uint32_t port; /* space << 16 | port */
	_Atomic uint32_t spare;
};

struct urxe_ft_service {
	_Atomic uint64_t word, id, mask;
};

/* ---- all of it ---- */

struct urxe_ftable {
	uint64_t magic;
	uint32_t version, size;
	_Atomic uint64_t mac; /* of the first host */
	_Atomic uint32_t clock;
	_Atomic uint32_t addrs, groups; /* versions */
	_Atomic uint32_t services;	/* that were ever in use: those below are to be looked at */
	_Atomic uint64_t host[FT_HOSTS];
	_Atomic uint64_t spawn_hold; /* CLOCK_MONOTONIC, ns: no urxed is started before */
	_Alignas(4096) struct urxe_ft_life life[URXE_FABRIC_SLOTS];
	_Alignas(4096) struct urxe_fabric_bell bell[URXE_FABRIC_SLOTS];
	_Alignas(4096) struct urxe_ft_service service[FT_SERVICES];
	_Alignas(4096) _Atomic uint8_t over[FT_BUCKETS]; /* the next bucket is to be looked at */
	_Alignas(4096) struct urxe_ft_member member[URXE_FABRIC_SLOTS];
	_Alignas(4096) _Atomic uint64_t word[FT_BUCKETS][FT_WAYS];
	_Alignas(4096) struct urxe_ft_key key[FT_BUCKETS][FT_WAYS];
};

/** urxe_ft_live - has @slot the living incarnation @incarnation? */
static inline bool urxe_ft_live(struct urxe_ftable *t, unsigned slot, uint32_t incarnation)
{
	/* Pairs with the release of who has joined. */
	return atomic_load_explicit(&t->life[slot & 0xff].life, memory_order_acquire) ==
	       ((uint64_t)incarnation << 32 | FT_LIVE);
}

/** urxe_ft_incarnation - the living incarnation that has @slot; 0: none. */
static inline uint32_t urxe_ft_incarnation(struct urxe_ftable *t, unsigned slot)
{
	uint64_t life = atomic_load_explicit(&t->life[slot & 0xff].life, memory_order_acquire);

	return (uint32_t)life == FT_LIVE ? (uint32_t)(life >> 32) : 0;
}

/** urxe_ft_domain - which port space a slot belongs to. */
static inline unsigned urxe_ft_domain(struct urxe_ftable *t, unsigned slot)
{
	return atomic_load_explicit(&t->life[slot & 0xff].domain, memory_order_relaxed);
}

/** urxe_ft_owner_alive - is the thread alive that holds @owner? The kernel clears the number of one
 * that ends. */
static inline bool urxe_ft_owner_alive(uint32_t owner)
{
	return owner & 0x3fffffff /* FUTEX_TID_MASK */ && !(owner & 0x40000000);
}

static inline void urxe_ft_gid_words(const uint8_t gid[16], uint64_t w[2])
{
	memcpy(w, gid, 16);
}

static inline void urxe_ft_mac_bytes(uint64_t mac, uint8_t out[6])
{
	for (unsigned i = 0; i < 6; i++)
		out[i] = (uint8_t)(mac >> (40 - 8 * i));
}

static inline uint64_t urxe_ft_mac_number(const uint8_t mac[6])
{
	uint64_t n = 0;

	for (unsigned i = 0; i < 6; i++)
		n = n << 8 | mac[i];
	return n;
}

#endif
