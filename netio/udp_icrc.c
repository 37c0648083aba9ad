/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The identification of IPv4 in the ICRC. The ICRC covers it (IBTA A17.3.3), and a socket neither
 * shows nor chooses it: an unconnected socket that forbids fragments sends 0, a message that the
 * kernel cuts into segments 0, 1, 2 ..., and peers what they like: kernel Soft-RoCE counts.
 *
 * A CRC is linear in the bits of its message. So each bit of the identification changes the ICRC by
 * a word that depends on the packet's length alone, and 16 such words can be solved for the one
 * identification, if any, with which a received ICRC is right.
 */
#include "netio/udp.h"

#include <string.h>

#include "netio/stack.h"

#define ZEROS_MOST 1024

/* From behind the identification to the end of what the ICRC covers. */
static uint32_t bytes_behind(uint32_t len)
{
	return IPV4_LEN - 6 + UDP_LEN + len;
}

/* The CRC of an identification with @len zero bytes behind it. */
static uint32_t crc_of(uint16_t id, uint32_t len)
{
	static const uint8_t zeros[512];
	const uint8_t bytes[2] = {(uint8_t)(id >> 8), (uint8_t)id};
	uint32_t crc = urxe_icrc_more(0, bytes, 2);

	for (uint32_t n; len; len -= n) {
		n = len < sizeof(zeros) ? len : sizeof(zeros);
		crc = urxe_icrc_more(crc, zeros, n);
	}
	return crc;
}

/* Gauss: reduce each by those before, so that each has a bit that none behind it has. */
static void reduce(struct udp_basis *b)
{
	for (unsigned i = 0; i < 16; i++) {
		uint32_t v = b->bit[i];
		uint16_t ids = (uint16_t)(1u << i);

		for (unsigned j = 0; j < i; j++) {
			if (v & b->lead[j]) {
				v ^= b->vec[j];
				ids ^= b->ids[j];
			}
		}
		b->vec[i] = v;
		b->ids[i] = ids;
		b->lead[i] = v & -v; /* never 0: what follows the bits can be undone */
	}
}

static const struct udp_basis *basis_of(struct udp_link *u, uint32_t len)
{
	struct udp_basis *b = &u->basis[len / 4 % UDP_LENGTHS];
	uint32_t none;

	if (b->len == len)
		return b;
	b->len = len;
	none = crc_of(0, bytes_behind(len));
	for (unsigned i = 0; i < 16; i++)
		b->bit[i] = crc_of((uint16_t)(1u << i), bytes_behind(len)) ^ none;
	reduce(b);
	return b;
}

uint32_t udp_icrc_of_id(struct udp_link *u, uint32_t len, uint16_t id)
{
	const struct udp_basis *b = basis_of(u, len);
	uint32_t diff = 0;

	for (unsigned i = 0; id; i++, id >>= 1)
		diff ^= id & 1 ? b->bit[i] : 0;
	return diff;
}

bool udp_icrc_solve(struct udp_link *u, uint32_t len, uint32_t diff, uint16_t *id)
{
	const struct udp_basis *b = basis_of(u, len);

	*id = 0;
	for (unsigned i = 0; i < 16; i++) {
		if (diff & b->lead[i]) {
			diff ^= b->vec[i];
			*id ^= b->ids[i];
		}
	}
	return !diff;
}

bool udp_icrc_trust(struct udp_link *u, const uint8_t addr[4], uint16_t id)
{
	struct udp_peer *p = &u->peer[(addr[3] + 37u * addr[2] + 101u * addr[1]) % UDP_PEERS];

	if (memcmp(p->addr, addr, 4)) {
		*p = (struct udp_peer){.ids = false};
		memcpy(p->addr, addr, 4);
	}
	if (p->ids)
		return true;
	if (!id) {
		p->zeros += p->zeros < ZEROS_MOST;
		return true;
	}
	p->ids = true; /* the next one is believed */
	return p->zeros < ZEROS_MOST;
}
