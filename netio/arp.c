/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ARP (RFC 826; probes and announcements RFC 5227).
 */
#include "netio/stack.h"

#define ARP_LEN	    28
#define ARP_REQUEST 1
#define ARP_REPLY   2

static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const uint8_t no_addr[16];

static void arp_send(struct urxe_lane *lane, const uint8_t dmac[6], uint16_t op,
		     const uint8_t sip[4], const uint8_t tha[6], const uint8_t tip[4])
	URXE_REQUIRES(lane)
{
	struct urxe_frame f;
	uint8_t *p = urxe_ctl_begin(lane, &f, dmac, ETHERTYPE_ARP);

	if (!p)
		return;
	urxe_put16(p, 1); /* Ethernet */
	urxe_put16(p + 2, ETHERTYPE_IPV4);
	p[4] = 6;
	p[5] = 4;
	urxe_put16(p + 6, op);
	memcpy(p + 8, lane->port->mac, 6);
	memcpy(p + 14, sip, 4);
	memcpy(p + 18, tha, 6);
	memcpy(p + 24, tip, 4);
	urxe_ctl_end(lane, &f, p + ARP_LEN);
}

void urxe_arp_ask(struct urxe_lane *lane, const uint8_t own[16], const uint8_t gid[16],
		  const uint8_t *mac)
{
	arp_send(lane, mac ? mac : broadcast, ARP_REQUEST, own + 12, no_addr, gid + 12);
}

void urxe_arp_announce(struct urxe_lane *lane, const uint8_t own[16], bool probe)
{
	/* A probe has no sender address: another owner answers it, and nobody learns from it. */
	if (probe)
		arp_send(lane, broadcast, ARP_REQUEST, no_addr, no_addr, own + 12);
	arp_send(lane, broadcast, ARP_REQUEST, own + 12, no_addr, own + 12);
}

void urxe_arp_input(struct urxe_lane *lane, const uint8_t *eth, const uint8_t *arp, uint32_t len)
{
	static const uint8_t head[6] = {0, 1, 0x08, 0x00, 6, 4};
	const uint8_t *sha, *sip, *tip;
	uint8_t sgid[16], tgid[16];
	bool for_us, request;

	if (len < ARP_LEN || memcmp(arp, head, sizeof(head)) || arp[6] ||
	    (arp[7] != ARP_REQUEST && arp[7] != ARP_REPLY) || arp[8] & 1) {
		urxe_count(lane, URXE_CNT_rx_arp_bad, 1);
		return;
	}
	request = arp[7] == ARP_REQUEST;
	sha = arp + 8, sip = arp + 14, tip = arp + 24;
	if (!memcmp(sha, lane->port->mac, 6))
		return; /* our own, sent back */
	urxe_gid_from_v4(sgid, sip);
	urxe_gid_from_v4(tgid, tip);
	for_us = urxe_port_gid_find(lane->port, tgid) >= 0;
	if (urxe_port_gid_find(lane->port, sgid) >= 0 || (!memcmp(sip, no_addr, 4) && for_us)) {
		urxe_neigh_duplicate(lane, for_us ? tgid : sgid, sha);
	} else if (sip[0] == 0 || sip[0] == 127 || sip[0] >= 224) {
		urxe_count(lane, URXE_CNT_rx_arp_ignored, 1);
		return;
	} else if (request) {
		bool new = for_us || (lane->port->peer && !memcmp(sip, tip, 4));

		urxe_neigh_heard(lane, sgid, sha,
				 NEIGH_HEARD_OVERRIDE | (new ? NEIGH_HEARD_CREATE : 0));
	} else {
		urxe_neigh_heard(lane, sgid, sha,
				 NEIGH_HEARD_OVERRIDE |
					 (for_us && !(eth[0] & 1) ? NEIGH_HEARD_SOLICITED : 0));
	}
	if (request && for_us && urxe_neigh_answers(lane, sgid, sha)) {
		urxe_count(lane, URXE_CNT_neigh_answered, 1);
		arp_send(lane, sha, ARP_REPLY, tip, sha, sip);
	} else if (!for_us) {
		urxe_count(lane, URXE_CNT_rx_arp_ignored, 1);
	}
}
