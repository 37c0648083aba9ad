/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * GIDs of RoCEv2: 16 bytes in network order that are an IPv6 address, or ::ffff:a.b.c.d for IPv4
 * (IBTA A17).
 */
#ifndef URXE_GID_H
#define URXE_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "urxe/wire.h"

#define URXE_GID_STRLEN 46 /* of any GID as text, with the NUL */

/** urxe_gid_is_v4 - is it an IPv4 address? */
static inline bool urxe_gid_is_v4(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, prefix, sizeof(prefix));
}

/** urxe_gid_from_v4 - the GID of an IPv4 address, which is in network order, too. */
static inline void urxe_gid_from_v4(uint8_t gid[16], const uint8_t addr[4])
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, addr, 4);
}

/** urxe_gid_is_mcast - is it a group's, of either family? */
static inline bool urxe_gid_is_mcast(const uint8_t gid[16])
{
	return gid[0] == 0xff || (urxe_gid_is_v4(gid) && (gid[12] & 0xf0) == 0xe0);
}

/** urxe_gid_is_loopback - is it 127.0.0.0/8 or ::1? */
static inline bool urxe_gid_is_loopback(const uint8_t gid[16])
{
	static const uint8_t one[16] = {[15] = 1};

	return urxe_gid_is_v4(gid) ? gid[12] == 127 : !memcmp(gid, one, sizeof(one));
}

/** urxe_gid_hash - 0 to 255, of all its bits: for tables of 256 buckets, or fewer. */
static inline unsigned urxe_gid_hash(const uint8_t gid[16])
{
	uint64_t h = (urxe_get64(gid) ^ urxe_get64(gid + 8)) * 0x9e3779b97f4a7c15ull;

	return (unsigned)(h >> 56);
}

/** urxe_gid_print - "10.0.0.1" or "fd00::1"; @len of URXE_GID_STRLEN at least. Returns @buf. */
const char *urxe_gid_print(const uint8_t gid[16], char *buf, size_t len);

#endif
