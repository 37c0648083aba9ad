/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RoCEv2 frames by hand, for an end of the simulated network that the test plays. */
#include <stdlib.h>
#include <string.h>

#include "netio/stack.h"
#include "forge.h"
#include "progress.h"

static bool is_ipv4(const uint8_t *f)
{
	return urxe_get16(f + 12) != ETHERTYPE_IPV6;
}

uint8_t *raw_bth(uint8_t *f)
{
	return f + ETH_LEN + (is_ipv4(f) ? IPV4_LEN : IPV6_LEN) + UDP_LEN;
}

void raw_reseal(uint8_t *f, uint32_t len)
{
	uint8_t *ip = f + ETH_LEN, *bth = raw_bth(f), *udp = bth - UDP_LEN;

	if (is_ipv4(f)) {
		urxe_put16(ip + 2, (uint16_t)(len - ETH_LEN));
		urxe_put16(ip + 10, 0);
		urxe_put16(ip + 10, urxe_sum_fold(urxe_sum(0, ip, IPV4_LEN)));
	} else {
		urxe_put16(ip + 4, (uint16_t)(len - ETH_LEN - IPV6_LEN));
	}
	urxe_put16(udp + 4, (uint16_t)(f + len - udp));
	urxe_put16(udp + 6, 0);
	if (f + len >= bth + URXE_BTH_LEN + URXE_ICRC_LEN)
		urxe_icrc_put(f + len - URXE_ICRC_LEN,
			      urxe_icrc(ip, is_ipv4(f), (uint32_t)(f + len - bth) - URXE_ICRC_LEN));
}

static void put_eths(const struct raw_pkt *p, const struct urxe_opcode_info *op, uint8_t *bth)
{
	if (op->deth_off)
		urxe_deth_put(bth + op->deth_off, p->qkey, p->sqpn);
	if (op->reth_off)
		urxe_reth_put(bth + op->reth_off, p->va, p->rkey, p->dmalen);
	if (op->atomic_off)
		urxe_atomic_put(bth + op->atomic_off, p->va, p->rkey, p->swap_add, p->compare);
	if (op->aeth_off)
		urxe_aeth_put(bth + op->aeth_off, p->syndrome, p->msn);
	if (op->atomic_ack_off)
		urxe_put64(bth + op->atomic_ack_off, p->compare);
	if (op->imm_off)
		urxe_put32(bth + op->imm_off, 0x01020304);
}

/* Ethernet, IP and UDP headers up to lengths and checksums. */
static void put_headers(struct side *from, struct side *to, const struct raw_pkt *p, uint8_t *f)
{
	static const uint8_t group4[3] = {1, 0, 0x5e}, group6[2] = {0x33, 0x33};
	uint8_t *ip = f + ETH_LEN, *udp;
	struct urxe_gid_entry ga, gb;
	struct urxe_port_info a, b;
	const uint8_t *dgid;

	urxe_port_query(from->dev->port, &a);
	urxe_port_query(to->dev->port, &b);
	urxe_port_gid(from->dev->port, 0, &ga);
	urxe_port_gid(to->dev->port, 0, &gb);
	dgid = p->group ? p->group : gb.gid;
	memset(f, 0, ETH_LEN + IPV6_LEN + UDP_LEN);
	memcpy(f, b.mac, 6);
	memcpy(f + 6, a.mac, 6);
	if (p->group && ga.ipv4) { /* RFC 1112 */
		memcpy(f, group4, sizeof(group4));
		memcpy(f + 3, dgid + 13, 3);
		f[3] &= 0x7f;
	} else if (p->group) { /* RFC 2464 */
		memcpy(f, group6, sizeof(group6));
		memcpy(f + 2, dgid + 12, 4);
	}
	urxe_put16(f + 12, ga.ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	if (ga.ipv4) {
		ip[0] = 0x45;
		ip[8] = 64;
		ip[9] = PROTO_UDP;
		memcpy(ip + 12, ga.gid + 12, 4);
		if (p->src_ip)
			urxe_put32(ip + 12, p->src_ip);
		memcpy(ip + 16, dgid + 12, 4);
	} else {
		ip[0] = 0x60;
		ip[6] = PROTO_UDP;
		ip[7] = 64;
		memcpy(ip + 8, ga.gid, 16);
		memcpy(ip + 24, dgid, 16);
	}
	udp = raw_bth(f) - UDP_LEN;
	urxe_put16(udp, 0xc123);
	urxe_put16(udp + 2, URXE_UDP_DPORT);
}

uint32_t raw_frame(struct side *from, struct side *to, const struct raw_pkt *p, uint8_t *f)
{
	const struct urxe_opcode_info *op = &urxe_opcode_table[p->opcode];
	uint32_t hdr = op->hdr_len ? op->hdr_len : URXE_BTH_LEN;
	uint32_t pad = (4 - (p->len & 3)) & 3, n = hdr + p->len + pad - (uint32_t)p->cut;
	struct urxe_bth h = {
		.opcode = p->opcode,
		.solicited = p->se,
		.migreq = true,
		.pad = (uint8_t)(pad + (uint32_t)p->pad),
		.pkey = p->pkey ? p->pkey : URXE_DEFAULT_PKEY,
		.dqpn = p->dqpn ? p->dqpn : to->qp->qp_num,
		.ackreq = p->ackreq,
		.psn = p->psn & URXE_PSN_MASK,
	};
	uint8_t *bth;

	put_headers(from, to, p, f);
	bth = raw_bth(f);
	urxe_bth_put(bth, &h);
	bth[1] = (uint8_t)((bth[1] & 0xf0) | p->tver);
	memset(bth + URXE_BTH_LEN, 0, hdr - URXE_BTH_LEN);
	put_eths(p, op, bth);
	if (p->payload)
		memcpy(bth + hdr, p->payload, p->len);
	else
		memset(bth + hdr, 0x5a, p->len);
	memset(bth + hdr + p->len, 0, pad);
	n += (uint32_t)(bth - f) + URXE_ICRC_LEN;
	raw_reseal(f, n);
	return n;
}

void raw_send(struct side *from, struct side *to, const struct raw_pkt *p)
{
	uint8_t *f = malloc(9700);
	uint32_t len = raw_frame(from, to, p, f);

	urxe_sim_put(to->end, f, len);
	free(f);
	for (int i = 0; i < 3; i++)
		urxe_progress_turn(to->dev);
}

static void tap(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len,
		uint64_t now)
{
	struct raw_log *log = arg;
	struct urxe_frame f = {.data = (uint8_t *)(uintptr_t)data, .len = len};
	uint32_t at = urxe_frame_roce(&f);
	const uint8_t *bth = data + at;
	const struct urxe_opcode_info *op;
	struct raw_seen *s;

	if (!at)
		return;
	if (log->n == log->room) {
		log->room = log->room ? 2 * log->room : 256;
		log->v = realloc(log->v, log->room * sizeof(*log->v));
	}
	op = &urxe_opcode_table[bth[0]];
	s = &log->v[log->n++];
	memset(s, 0, sizeof(*s));
	s->from = from == log->p->a.end ? &log->p->a : &log->p->b;
	s->when = now;
	s->opcode = bth[0];
	s->se = urxe_bth_solicited(bth);
	s->ackreq = urxe_bth_ackreq(bth);
	s->dqpn = urxe_bth_dqpn(bth);
	s->psn = urxe_bth_psn(bth);
	if (op->aeth_off) {
		s->syndrome = urxe_aeth_syndrome(bth + op->aeth_off);
		s->msn = urxe_aeth_msn(bth + op->aeth_off);
	}
	if (op->reth_off)
		s->dmalen = urxe_reth_len(bth + op->reth_off);
	s->payload = len - at - URXE_ICRC_LEN - op->hdr_len - urxe_bth_pad(bth);
	s->total = len;
	memcpy(s->frame, data, len < sizeof(s->frame) ? len : sizeof(s->frame));
}

void raw_log_start(struct raw_log *log, struct pair *p)
{
	memset(log, 0, sizeof(*log));
	log->p = p;
	urxe_sim_tap(p->sim, tap, log);
}

void raw_log_stop(struct raw_log *log)
{
	urxe_sim_tap(log->p->sim, NULL, NULL);
	free(log->v);
	log->v = NULL;
}

const struct raw_seen *raw_log_find(const struct raw_log *log, const struct side *from,
				    uint8_t opcode, unsigned *at)
{
	while (*at < log->n) {
		const struct raw_seen *s = &log->v[(*at)++];

		if (s->from == from && s->opcode == opcode)
			return s;
	}
	return NULL;
}

unsigned raw_log_count(const struct raw_log *log, const struct side *from, uint8_t opcode,
		       int syndrome)
{
	unsigned at = 0, n = 0;
	const struct raw_seen *s;

	while ((s = raw_log_find(log, from, opcode, &at)))
		n += syndrome < 0 || s->syndrome == syndrome;
	return n;
}

void raw_unreachable(struct side *to, const struct raw_seen *s, uint8_t code, uint8_t host,
		     unsigned flip)
{
	uint32_t quoted = sizeof(s->frame) - ETH_LEN;
	uint8_t f[ETH_LEN + IPV4_LEN + 8 + sizeof(s->frame) - ETH_LEN] = {0}, *ip = f + ETH_LEN;
	uint8_t *icmp = ip + IPV4_LEN;

	memcpy(f, s->frame + 6, 6);
	memcpy(f + 6, s->frame, 6);
	urxe_put16(f + 12, ETHERTYPE_IPV4);
	ip[0] = 0x45;
	urxe_put16(ip + 2, sizeof(f) - ETH_LEN);
	ip[8] = 64;
	ip[9] = PROTO_ICMP;
	memcpy(ip + 12, s->frame + ETH_LEN + 16, 3);
	ip[15] = host;
	memcpy(ip + 16, s->frame + ETH_LEN + 12, 4);
	urxe_put16(ip + 10, urxe_sum_fold(urxe_sum(0, ip, IPV4_LEN)));
	icmp[0] = 3;
	icmp[1] = code;
	memcpy(icmp + 8, s->frame + ETH_LEN, quoted);
	if (flip)
		icmp[8 + flip / 8] ^= (uint8_t)(1 << flip % 8);
	urxe_put16(icmp + 2, urxe_sum_fold(urxe_sum(0, icmp, 8 + quoted)));
	urxe_sim_put(to->end, f, sizeof(f));
}
