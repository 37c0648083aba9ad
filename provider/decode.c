/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Received packets are decoded here, by the opcode table, which says where each header is. */
#include <string.h>

#include <urcu/compiler.h>

#include "decode.h"
#include "urxe/wire.h"

/* Those that the opcode has; @p is the BTH. */
static void decode_eths(const uint8_t *p, struct urxe_decoded *pkt)
{
	const struct urxe_opcode_info *op = pkt->op;

	if (op->reth_off) {
		pkt->reth.va = urxe_reth_va(p + op->reth_off);
		pkt->reth.rkey = urxe_reth_rkey(p + op->reth_off);
		pkt->reth.length = urxe_reth_len(p + op->reth_off);
	} else if (op->aeth_off) {
		pkt->aeth.syndrome = urxe_aeth_syndrome(p + op->aeth_off);
		pkt->aeth.msn = urxe_aeth_msn(p + op->aeth_off);
		if (op->atomic_ack_off)
			pkt->aeth.original = urxe_get64(p + op->atomic_ack_off);
	} else if (op->atomic_off) {
		pkt->atomic.va = urxe_atomic_va(p + op->atomic_off);
		pkt->atomic.rkey = urxe_atomic_rkey(p + op->atomic_off);
		pkt->atomic.swap_add = urxe_atomic_swap_add(p + op->atomic_off);
		pkt->atomic.compare = urxe_atomic_compare(p + op->atomic_off);
	}
	if (op->deth_off) {
		pkt->deth.qkey = urxe_deth_qkey(p + op->deth_off);
		pkt->deth.sqpn = urxe_deth_sqpn(p + op->deth_off);
	} else if (op->xrceth_off) {
		pkt->srqn = urxe_xrceth_srqn(p + op->xrceth_off);
	}
	if (op->imm_off)
		memcpy(&pkt->imm, p + op->imm_off, URXE_IMM_LEN);
	else if (op->ieth_off)
		pkt->inv_rkey = urxe_get32(p + op->ieth_off);
	if (op->feth_off) {
		pkt->placement = urxe_feth_placement(p + op->feth_off);
		pkt->level = urxe_feth_level(p + op->feth_off);
	}
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

enum urxe_stat urxe_decode(const struct urxe_packet *frame, struct urxe_decoded *pkt)
{
	const struct urxe_opcode_info *op;
	uint8_t bth[URXE_BTH_LEN];
	uint32_t head;

	memcpy(bth, frame->bth, sizeof(bth));
	cmm_barrier(); /* checked and used is the copy: the compiler must not look again */
	pkt->opcode = urxe_bth_opcode(bth);
	pkt->op = op = &urxe_opcode_table[pkt->opcode];
	if (!(op->flags & URXE_OPF_VALID))
		return URXE_STAT_RX_BAD_OPCODE;
	head = op->hdr_len + urxe_bth_pad(bth);
	/* Headers, payload and pad are words (IBTA 9.4.1). */
	if (frame->len & 3 || frame->len < head ||
	    (!(op->flags & URXE_OPF_PAYLOAD) && frame->len != head))
		return URXE_STAT_RX_BAD_LENGTH;
	if (urxe_bth_tver(bth))
		return URXE_STAT_RX_BAD_TVER;
	/* The one partition is the default one, full or limited member. */
	if ((urxe_bth_pkey(bth) & 0x7fff) != (URXE_DEFAULT_PKEY & 0x7fff))
		return URXE_STAT_RX_BAD_PKEY;

	pkt->what = op->flags;
	pkt->psn = urxe_bth_psn(bth);
	pkt->dqpn = urxe_bth_dqpn(bth);
	pkt->solicited = urxe_bth_solicited(bth);
	pkt->migreq = urxe_bth_migreq(bth);
	pkt->ackreq = urxe_bth_ackreq(bth);
	pkt->payload = frame->bth + op->hdr_len;
	pkt->length = frame->len - head;
	pkt->flags = frame->flags;
	pkt->ipv4 = frame->ipv4;
	pkt->sgid_index = frame->sgid_index;
	if (op->hdr_len > URXE_BTH_LEN)
		decode_eths(frame->bth, pkt);
	if (op->deth_off)
		decode_grh(frame, pkt->grh);
	else
		decode_source(frame, pkt->sgid);
	return URXE_STAT_NONE;
}
