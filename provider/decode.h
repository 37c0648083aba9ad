/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The door of the provider: the headers of a received packet are read here, once, and never again.
 * A peer may share the memory that a frame is in (vhost-user, memif, a packet ring) and change it
 * at any time: what was checked is what is used, since both are this copy.
 */
#ifndef URXE_PROVIDER_DECODE_H
#define URXE_PROVIDER_DECODE_H

#include <string.h>

#include <linux/types.h>

#include "device.h"
#include "netio/port.h"
#include "urxe/opcode.h"

#define URXE_GRH_LEN 40

/** RETH, of URXE_OPF_RETH (IBTA 9.3.4). */
struct urxe_reth {
	uint64_t va;
	uint32_t rkey;
	uint32_t length; /* bytes */
};

/** AtomicETH, of URXE_OPF_ATOMIC_ETH (IBTA 9.3.5). */
struct urxe_atomic_eth {
	uint64_t va;
	uint32_t rkey;
	uint64_t swap_add;
	uint64_t compare;
};

/** AETH, of URXE_OPF_AETH, and AtomicAckETH, of URXE_OPF_ATOMIC_ACK_ETH (IBTA 9.3.6, 9.3.7). */
struct urxe_aeth {
	uint64_t original; /* AtomicAckETH: what was there before */
	uint32_t msn;
	uint8_t syndrome;
};

/** DETH, of URXE_OPF_DETH (IBTA 9.3.3). */
struct urxe_deth {
	uint32_t qkey;
	uint32_t sqpn;
};

/**
 * A received packet as its headers described it when it came, in host order but for @imm
 *
 * Of the extension headers those are filled in that the opcode has; the others hold anything.
 * @payload alone is still in the frame: good until the frame is released, and a peer may change
 * the bytes.
 */
struct urxe_decoded {
	struct urxe_packet *frame; /* in which it is; NULL: a copy of it */
	const struct urxe_opcode_info *op;
	uint32_t what; /* enum urxe_opcode_flag: op->flags */
	const uint8_t *payload;
	uint32_t length; /* bytes of payload, without the pad */
	uint32_t psn;
	uint32_t dqpn;
	uint8_t opcode;
	uint8_t flags; /* URXE_PKT_* */
	uint8_t ecn;   /* enum urxe_ecn */
	bool solicited;
	bool migreq;
	bool ackreq;
	bool ipv4;
	uint8_t placement, level; /* FETH, of URXE_OPF_FETH */
	int sgid_index;		  /* own GID it was sent to; -1 for multicast */
	union {
		__be32 imm;	   /* ImmDt, of URXE_OPF_IMM */
		uint32_t inv_rkey; /* IETH, of URXE_OPF_IETH */
	};
	union {
		struct urxe_deth deth;
		uint32_t srqn; /* XRCETH, of URXE_OPF_XRCETH */
	};
	union {
		struct urxe_reth reth;
		struct urxe_atomic_eth atomic;
		struct urxe_aeth aeth;
	};
	union {
		uint8_t sgid[16];	   /* the sender's address; of packets without DETH */
		uint8_t grh[URXE_GRH_LEN]; /* of packets with DETH: what goes before the payload */
	};
};

/**
 * urxe_decode - read a packet's headers into @pkt, and check what needs no QP (IBTA 9.6.1)
 *
 * Returns URXE_STAT_NONE, or the counter of what is wrong; then @pkt is not to be used.
 * Thread-safe;
 * @frame must be borrowed (urxe_lane_rx()).
 */
enum urxe_stat urxe_decode(struct urxe_packet *frame, struct urxe_decoded *pkt);

/** urxe_decoded_copy - @to is as @pkt, with a copy of its payload in @room, and outlasts its frame
 */
static inline void urxe_decoded_copy(struct urxe_decoded *to, const struct urxe_decoded *pkt,
				     uint8_t *room)
{
	*to = *pkt;
	to->frame = NULL;
	to->payload = memcpy(room, pkt->payload, pkt->length);
}

#endif
