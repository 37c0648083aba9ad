/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The one place that knows BTH opcodes (IBTA 9.2.1, table 38; atomic write and
 * flush from A19). An opcode that is not in the table is not valid: no caller
 * can mistake it for one without headers.
 */
#ifndef URXE_OPCODE_H
#define URXE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

/* Transport service: the upper three bits of the opcode. */
enum urxe_service {
	URXE_SVC_RC = 0x00,
	URXE_SVC_UC = 0x20,
	URXE_SVC_RD = 0x40,
	URXE_SVC_UD = 0x60,
	URXE_SVC_CNP = 0x80,
	URXE_SVC_XRC = 0xa0,
};
#define URXE_SVC_MASK 0xe0

/* Congestion notification (IBTA A17.9.3): the one opcode of its service. */
#define URXE_OPCODE_CNP 0x81

/* Of those that are left to manufacturers: between processes that share an XRC domain, within a
 * machine (provider/lend.c). */
#define URXE_OPCODE_LEND 0xc0
#define URXE_OPCODE_LENT 0xc1

/* Operation: the lower five bits. */
enum urxe_op {
	URXE_OP_SEND_FIRST = 0x00,
	URXE_OP_SEND_MIDDLE = 0x01,
	URXE_OP_SEND_LAST = 0x02,
	URXE_OP_SEND_LAST_IMM = 0x03,
	URXE_OP_SEND_ONLY = 0x04,
	URXE_OP_SEND_ONLY_IMM = 0x05,
	URXE_OP_WRITE_FIRST = 0x06,
	URXE_OP_WRITE_MIDDLE = 0x07,
	URXE_OP_WRITE_LAST = 0x08,
	URXE_OP_WRITE_LAST_IMM = 0x09,
	URXE_OP_WRITE_ONLY = 0x0a,
	URXE_OP_WRITE_ONLY_IMM = 0x0b,
	URXE_OP_READ_REQUEST = 0x0c,
	URXE_OP_READ_RESPONSE_FIRST = 0x0d,
	URXE_OP_READ_RESPONSE_MIDDLE = 0x0e,
	URXE_OP_READ_RESPONSE_LAST = 0x0f,
	URXE_OP_READ_RESPONSE_ONLY = 0x10,
	URXE_OP_ACKNOWLEDGE = 0x11,
	URXE_OP_ATOMIC_ACKNOWLEDGE = 0x12,
	URXE_OP_COMPARE_SWAP = 0x13,
	URXE_OP_FETCH_ADD = 0x14,
	URXE_OP_SEND_LAST_INV = 0x16,
	URXE_OP_SEND_ONLY_INV = 0x17,
	URXE_OP_FLUSH = 0x1c,
	URXE_OP_ATOMIC_WRITE = 0x1d,
};
#define URXE_OP_MASK 0x1f

/* What a packet of an opcode is and carries. */
enum urxe_opcode_flag {
	URXE_OPF_VALID = 1 << 0,
	URXE_OPF_FIRST = 1 << 1, /* begins a message (FIRST and ONLY) */
	URXE_OPF_LAST = 1 << 2,	 /* ends a message (LAST and ONLY) */
	URXE_OPF_SEND = 1 << 3,
	URXE_OPF_WRITE = 1 << 4,
	URXE_OPF_READ = 1 << 5,
	URXE_OPF_ATOMIC = 1 << 6,   /* compare & swap, fetch & add */
	URXE_OPF_RESPONSE = 1 << 7, /* for the completer; else a request, for the responder */
	URXE_OPF_PAYLOAD = 1 << 8,
	URXE_OPF_DETH = 1 << 9,
	URXE_OPF_XRCETH = 1 << 10,
	URXE_OPF_RETH = 1 << 11,
	URXE_OPF_ATOMIC_ETH = 1 << 12,
	URXE_OPF_AETH = 1 << 13,
	URXE_OPF_ATOMIC_ACK_ETH = 1 << 14,
	URXE_OPF_IMM = 1 << 15,
	URXE_OPF_IETH = 1 << 16,
	URXE_OPF_FETH = 1 << 17,
	URXE_OPF_ATOMIC_WRITE = 1 << 18,
	URXE_OPF_FLUSH = 1 << 19,
	URXE_OPF_RECV_WQE = 1 << 20, /* its last packet consumes a receive WQE */
	URXE_OPF_CNP = 1 << 21,	     /* no request nor response: to who sends, of congestion */
	URXE_OPF_LEND = 1 << 22,     /* neither: to a process, not to a QP */
};

struct urxe_opcode_info {
	uint32_t flags;
	uint8_t hdr_len;  /* BTH and extension headers, bytes; 0 when not valid */
	uint8_t deth_off; /* offsets from BTH, 0 when the header is absent */
	uint8_t xrceth_off;
	uint8_t reth_off;
	uint8_t atomic_off;
	uint8_t aeth_off;
	uint8_t atomic_ack_off;
	uint8_t imm_off;
	uint8_t ieth_off;
	uint8_t feth_off;
	const char *name; /* "RC SEND_FIRST"; NULL when not valid */
};

/** urxe_opcode_table - all 256; an entry without URXE_OPF_VALID is no opcode. */
extern const struct urxe_opcode_info urxe_opcode_table[256];

/** urxe_opcode_name - for logs; "invalid" for what is no opcode. */
const char *urxe_opcode_name(uint8_t opcode);

#endif
