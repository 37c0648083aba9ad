/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Hand-made RoCEv2 packets for a pair, and a record of all that its ends send. The test plays
 * one side's peer, with that peer's addresses; what comes back is in the record.
 */
#ifndef URXE_TEST_FORGE_H
#define URXE_TEST_FORGE_H

#include "pair.h"

/** A packet to be made. Extension headers are written from opcode, by the values given. */
struct raw_pkt {
	uint8_t opcode; /* whole: service and operation */
	uint32_t psn;
	uint32_t dqpn; /* 0: the receiving side's qp */
	bool se, ackreq;
	uint16_t pkey; /* 0: the default one */
	uint8_t tver;
	uint64_t va; /* RETH, AtomicETH */
	uint32_t rkey, dmalen;
	uint64_t swap_add, compare; /* AtomicETH; AtomicAckETH: compare */
	uint8_t syndrome;	    /* AETH */
	uint32_t msn;
	uint32_t qkey, sqpn; /* DETH */
	const void *payload; /* NULL: bytes of 0x5a */
	uint32_t len;
	int pad;	 /* 0: as it should be; else this much more than that, in the BTH alone */
	int cut;	 /* bytes missing at the end of the packet */
	uint32_t src_ip; /* IPv4; 0: the sending side's */
	const uint8_t *group; /* MGID, instead of the receiving side's address */
};

/** raw_frame - the whole Ethernet frame from @from to @to; returns its length. */
uint32_t raw_frame(struct side *from, struct side *to, const struct raw_pkt *p, uint8_t *frame);
/** raw_send - put it into @to's receive queue, and let @to take a turn or two. */
void raw_send(struct side *from, struct side *to, const struct raw_pkt *p);
/** raw_bth - where the BTH of such a frame begins. */
uint8_t *raw_bth(uint8_t *frame);
/** raw_reseal - make checksum, lengths and ICRC of a changed frame good again. */
void raw_reseal(uint8_t *frame, uint32_t len);

/** What a side sent: RoCEv2 packets only. */
struct raw_seen {
	struct side *from;
	uint64_t when;
	uint8_t opcode;
	bool se, ackreq;
	uint32_t dqpn, psn;
	uint8_t syndrome; /* AETH, when it has one */
	uint32_t msn;
	uint32_t dmalen;    /* RETH */
	uint32_t payload;   /* bytes */
	uint32_t total;	    /* bytes of frame */
	uint8_t frame[192]; /* its beginning */
};

struct raw_log {
	struct pair *p;
	struct raw_seen *v;
	unsigned n, room;
};

/** raw_log_start - record from now on; raw_log_stop before the log goes. */
void raw_log_start(struct raw_log *log, struct pair *p);
void raw_log_stop(struct raw_log *log);
/** raw_log_find - the first packet from @from of @opcode at or after *@at (moved behind it). */
const struct raw_seen *raw_log_find(const struct raw_log *log, const struct side *from,
				    uint8_t opcode, unsigned *at);
/** raw_log_count - how many of them there are. @syndrome: -1 for any. */
unsigned raw_log_count(const struct raw_log *log, const struct side *from, uint8_t opcode,
		       int syndrome);

/**
 * raw_unreachable - an ICMP error (type 3) about a packet that @to has sent over IPv4
 * @host: last byte of who reports it
 * @flip: a bit of what is quoted of the packet that is another; 0: none
 */
void raw_unreachable(struct side *to, const struct raw_seen *s, uint8_t code, uint8_t host,
		     unsigned flip);

#define RC(op)	(URXE_SVC_RC | URXE_OP_##op)
#define UC(op)	(URXE_SVC_UC | URXE_OP_##op)
#define UD(op)	(URXE_SVC_UD | URXE_OP_##op)
#define ACK	RC(ACKNOWLEDGE)
#define NAK(c)	(URXE_AETH_NAK | URXE_NAK_##c)
#define RNR(c)	(URXE_AETH_RNR | (c))
#define OK_AETH (URXE_AETH_ACK | URXE_AETH_CREDIT_INVALID)

#endif
