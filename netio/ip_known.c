/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Headers that were seen before. A lane remembers a few frames that passed all checks of ip.c, by
 * their length; one that differs from such a frame in what may differ alone (identification and
 * checksum of IPv4, the port that it came from) would pass them, too, and is not taken apart again.
 * What is not found here goes the long way, where it is dropped and counted if need be.
 *
 * IPv4 without options and VLAN, to one of our addresses, with no UDP checksum.
 */
#include "netio/stack.h"

#define HEADERS (ETH_LEN + IPV4_LEN + UDP_LEN)
#define AT_ID	(ETH_LEN + 4)
#define AT_SUM	(ETH_LEN + 10)
#define AT_UDP	(ETH_LEN + IPV4_LEN)

/* Of each 8 bytes of the headers, those that have to be the same. In order of bytes. */
static const uint8_t same[URXE_KNOWN_WORDS * 8] = {
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* MACs */
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* type, version, TOS */
	0xff, 0xff, 0,	  0,	0xff, 0xff, 0xff, 0xff, /* length; fragment, TTL, protocol */
	0,    0,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* addresses */
	0xff, 0xff, 0,	  0,	0xff, 0xff, 0xff, 0xff, /* destination port, length */
};

static inline __attribute__((always_inline)) uint64_t word(const uint8_t *p, unsigned i)
{
	uint64_t w, mask;

	memcpy(&w, p + 8 * (size_t)i, 8);
	memcpy(&mask, same + 8 * (size_t)i, 8);
	return w & mask;
}

static inline struct urxe_known *known_of(struct urxe_lane *lane, uint32_t len)
{
	return &lane->known[len / 4 % URXE_KNOWN];
}

void urxe_known_learn(struct urxe_lane *lane, const struct urxe_frame *f,
		      const struct urxe_packet *pkt)
{
	struct urxe_known *k = known_of(lane, f->len);
	const uint8_t *p = f->data;

	if (!pkt->ipv4 || pkt->flags || pkt->bth != p + HEADERS || urxe_get16(p + AT_UDP + 6))
		return;
	for (unsigned i = 0; i < URXE_KNOWN_WORDS; i++)
		k->words[i] = word(p, i);
	k->own = atomic_load_explicit(&lane->port->gids[pkt->sgid_index], memory_order_acquire);
	k->ip_sum = urxe_sum(0, p + ETH_LEN, 4);
	k->ip_sum = urxe_sum(k->ip_sum, p + AT_ID + 2, 4);
	k->ip_sum = urxe_sum(k->ip_sum, p + AT_SUM + 2, 8);
	k->pkt = *pkt;
	k->len = f->len;
}

bool urxe_known_input(struct urxe_lane *lane, const struct urxe_frame *f, struct urxe_packet *pkt)
{
	const struct urxe_known *k = known_of(lane, f->len);
	struct urxe_port *port = lane->port;
	const uint8_t *p = f->data;
	uint64_t differ;

	if (f->len != k->len || !k->len || f->flags & URXE_FRAME_RX_BAD_CSUM)
		return false;
	differ = (word(p, 0) ^ k->words[0]) | (word(p, 1) ^ k->words[1]) |
		 (word(p, 2) ^ k->words[2]) | (word(p, 3) ^ k->words[3]) |
		 (word(p, 4) ^ k->words[4]);
	if (differ || urxe_get16(p + AT_UDP + 6))
		return false;
	/* Pairs with publish(): it is ours still. */
	if (atomic_load_explicit(&port->gids[k->pkt.sgid_index], memory_order_acquire) != k->own)
		return false;
	if (!port->rx_csum &&
	    urxe_sum_fold(k->ip_sum + urxe_get16(p + AT_ID) + urxe_get16(p + AT_SUM)))
		return false;
	if (!(f->flags & (URXE_FRAME_NO_ICRC | URXE_FRAME_ICRC_OK)) &&
	    urxe_icrc(p + ETH_LEN, true, k->pkt.len) != urxe_icrc_get(p + HEADERS + k->pkt.len))
		return false;
	*pkt = k->pkt;
	pkt->bth = p + HEADERS;
	pkt->body = f->rest ? f->rest + HEADERS : pkt->bth;
	pkt->l3 = p + ETH_LEN;
	pkt->udp_sport = urxe_get16(p + AT_UDP);
	pkt->frame = f->buf;
	return true;
}
