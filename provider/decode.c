/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Received packets are decoded here, by the opcode table, which says where each header is. */
#include <string.h>

#include "decode.h"
#include "urxe/wire.h"

#define OPF_RARE (URXE_OPF_DETH | URXE_OPF_XRCETH | URXE_OPF_IMM | URXE_OPF_IETH | URXE_OPF_FETH)

#define OPF_ETHS (OPF_RARE | URXE_OPF_AETH | URXE_OPF_RETH | URXE_OPF_ATOMIC_ETH)

static void decode_rare(const uint8_t *bth, struct urxe_decoded *pkt)
{
	const struct urxe_opcode_info *op = pkt->op;

	if (op->deth_off) {
		pkt->deth.qkey = urxe_deth_qkey(bth + op->deth_off);
		pkt->deth.sqpn = urxe_deth_sqpn(bth + op->deth_off);
	} else if (op->xrceth_off) {
		pkt->srqn = urxe_xrceth_srqn(bth + op->xrceth_off);
	}
	if (op->imm_off)
		memcpy(&pkt->imm, bth + op->imm_off, URXE_IMM_LEN);
	else if (op->ieth_off)
		pkt->inv_rkey = urxe_get32(bth + op->ieth_off);
	if (op->feth_off) {
		pkt->placement = urxe_feth_placement(bth + op->feth_off);
		pkt->level = urxe_feth_level(bth + op->feth_off);
	}
}

static void decode_eths(const uint8_t *bth, struct urxe_decoded *pkt)
{
	const struct urxe_opcode_info *op = pkt->op;
	uint32_t aeth;

	if (pkt->what & URXE_OPF_AETH) {
		aeth = urxe_get32(bth + op->aeth_off);
		pkt->aeth.syndrome = (uint8_t)(aeth >> 24);
		pkt->aeth.msn = aeth & URXE_PSN_MASK;
		if (pkt->what & URXE_OPF_ATOMIC_ACK_ETH)
			pkt->aeth.original = urxe_get64(bth + op->atomic_ack_off);
	} else if (pkt->what & URXE_OPF_RETH) {
		pkt->reth.va = urxe_reth_va(bth + op->reth_off);
		pkt->reth.rkey = urxe_reth_rkey(bth + op->reth_off);
		pkt->reth.length = urxe_reth_len(bth + op->reth_off);
	} else if (pkt->what & URXE_OPF_ATOMIC_ETH) {
		pkt->atomic.va = urxe_atomic_va(bth + op->atomic_off);
		pkt->atomic.rkey = urxe_atomic_rkey(bth + op->atomic_off);
		pkt->atomic.swap_add = urxe_atomic_swap_add(bth + op->atomic_off);
		pkt->atomic.compare = urxe_atomic_compare(bth + op->atomic_off);
	}
	if (pkt->what & OPF_RARE)
		decode_rare(bth, pkt);
}

/* The GRH area of RoCEv2: an IPv6 header, or 20 unused bytes and the IPv4 header (IBTA A17). */
static void decode_grh(const struct urxe_packet *frame, uint8_t grh[URXE_GRH_LEN])
{
	if (frame->ipv4) {
		memset(grh, 0, 20);
		memcpy(grh + 20, frame->l3, 20);
	} else {
		memcpy(grh, frame->l3, URXE_GRH_LEN);
	}
}

static void decode_source(const struct urxe_packet *frame, uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (frame->ipv4) {
		memcpy(gid, mapped, sizeof(mapped));
		memcpy(gid + 12, frame->l3 + 12, 4);
	} else {
		memcpy(gid, frame->l3 + 8, 16);
	}
}

enum urxe_stat urxe_decode(struct urxe_packet *frame, struct urxe_decoded *pkt)
{
	const struct urxe_opcode_info *op;
	struct urxe_bth bth;
	uint32_t head, what;

	urxe_bth_get(frame->bth, &bth);
	pkt->psn = bth.psn;
	pkt->dqpn = bth.dqpn;
	pkt->opcode = bth.opcode;
	op = &urxe_opcode_table[bth.opcode];
	what = op->flags;
	if (!(what & URXE_OPF_VALID))
		return URXE_STAT_RX_BAD_OPCODE;
	head = op->hdr_len + bth.pad;
	/* Headers, payload and pad are words (IBTA 9.4.1). */
	if (frame->len & 3 || frame->len < head ||
	    (!(what & URXE_OPF_PAYLOAD) && frame->len != head))
		return URXE_STAT_RX_BAD_LENGTH;
	if (bth.tver)
		return URXE_STAT_RX_BAD_TVER;
	/* The one partition is the default one, full or limited member. */
	if ((bth.pkey & 0x7fff) != (URXE_DEFAULT_PKEY & 0x7fff))
		return URXE_STAT_RX_BAD_PKEY;

	pkt->frame = frame;
	pkt->op = op;
	pkt->what = what;
	pkt->payload = frame->body + op->hdr_len;
	pkt->length = frame->len - head;
	pkt->flags = frame->flags;
	pkt->ecn = frame->ecn;
	pkt->solicited = bth.solicited;
	pkt->migreq = bth.migreq;
	pkt->ackreq = bth.ackreq;
	pkt->ipv4 = frame->ipv4;
	pkt->sgid_index = frame->sgid_index;
	if (what & OPF_ETHS)
		decode_eths(frame->bth, pkt);
	if (what & URXE_OPF_DETH)
		decode_grh(frame, pkt->grh);
	else
		decode_source(frame, pkt->sgid);
	return URXE_STAT_NONE;
}
