/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The opcode table of urxe/opcode.h: flags, header offsets and lengths, made by the compiler. */
#include "urxe/opcode.h"
#include "urxe/wire.h"

#define F_(x)  URXE_OPF_##x
#define BEGINS URXE_OPF_FIRST
#define ENDS   URXE_OPF_LAST
#define BOTH   (URXE_OPF_FIRST | URXE_OPF_LAST)

/*
 * Header offsets follow from the order in which IBTA 9.2 lists the extension headers:
 * DETH or XRCETH stand first, then FETH, RETH, AtomicETH or AETH, then AtomicAckETH, ImmDt or IETH.
 */
#define L_DETH(f) (((f)&F_(DETH)) ? URXE_DETH_LEN : 0)
#define L_XRC(f)  (((f)&F_(XRCETH)) ? URXE_XRCETH_LEN : 0)
#define L_FETH(f) (((f)&F_(FETH)) ? URXE_FETH_LEN : 0)
#define L_RETH(f) (((f)&F_(RETH)) ? URXE_RETH_LEN : 0)
#define L_ATM(f)  (((f)&F_(ATOMIC_ETH)) ? URXE_ATOMIC_ETH_LEN : 0)
#define L_AETH(f) (((f)&F_(AETH)) ? URXE_AETH_LEN : 0)
#define L_AACK(f) (((f)&F_(ATOMIC_ACK_ETH)) ? URXE_ATOMIC_ACK_ETH_LEN : 0)
#define L_IMM(f)  (((f)&F_(IMM)) ? URXE_IMM_LEN : 0)
#define L_IETH(f) (((f)&F_(IETH)) ? URXE_IETH_LEN : 0)

#define O_DETH(f) URXE_BTH_LEN
#define O_XRC(f)  (O_DETH(f) + L_DETH(f))
#define O_FETH(f) (O_XRC(f) + L_XRC(f))
#define O_RETH(f) (O_FETH(f) + L_FETH(f))
#define O_ATM(f)  (O_RETH(f) + L_RETH(f))
#define O_AETH(f) (O_ATM(f) + L_ATM(f))
#define O_AACK(f) (O_AETH(f) + L_AETH(f))
#define O_IMM(f)  (O_AACK(f) + L_AACK(f))
#define O_IETH(f) (O_IMM(f) + L_IMM(f))
#define O_END(f)  (O_IETH(f) + L_IETH(f))

#define ENTRY(op, f, n)                                      \
	[op] = {                                             \
		.flags = F_(VALID) | (f),                    \
		.hdr_len = O_END(f),                         \
		.deth_off = L_DETH(f) ? O_DETH(f) : 0,       \
		.xrceth_off = L_XRC(f) ? O_XRC(f) : 0,       \
		.reth_off = L_RETH(f) ? O_RETH(f) : 0,       \
		.atomic_off = L_ATM(f) ? O_ATM(f) : 0,       \
		.aeth_off = L_AETH(f) ? O_AETH(f) : 0,       \
		.atomic_ack_off = L_AACK(f) ? O_AACK(f) : 0, \
		.imm_off = L_IMM(f) ? O_IMM(f) : 0,          \
		.ieth_off = L_IETH(f) ? O_IETH(f) : 0,       \
		.feth_off = L_FETH(f) ? O_FETH(f) : 0,       \
		.name = n,                                   \
	}

/* SEND and RDMA WRITE, with and without immediate: RC, UC and XRC alike. X: XRCETH of requests. */
#define SEND_WRITE(svc, sname, X)                                                                  \
	ENTRY(svc | URXE_OP_SEND_FIRST, BEGINS | F_(SEND) | F_(PAYLOAD) | (X),                     \
	      sname " SEND_FIRST"),                                                                \
		ENTRY(svc | URXE_OP_SEND_MIDDLE, F_(SEND) | F_(PAYLOAD) | (X),                     \
		      sname " SEND_MIDDLE"),                                                       \
		ENTRY(svc | URXE_OP_SEND_LAST, ENDS | F_(SEND) | F_(PAYLOAD) | F_(RECV_WQE) | (X), \
		      sname " SEND_LAST"),                                                         \
		ENTRY(svc | URXE_OP_SEND_LAST_IMM,                                                 \
		      ENDS | F_(SEND) | F_(PAYLOAD) | F_(IMM) | F_(RECV_WQE) | (X),                \
		      sname " SEND_LAST_IMM"),                                                     \
		ENTRY(svc | URXE_OP_SEND_ONLY, BOTH | F_(SEND) | F_(PAYLOAD) | F_(RECV_WQE) | (X), \
		      sname " SEND_ONLY"),                                                         \
		ENTRY(svc | URXE_OP_SEND_ONLY_IMM,                                                 \
		      BOTH | F_(SEND) | F_(PAYLOAD) | F_(IMM) | F_(RECV_WQE) | (X),                \
		      sname " SEND_ONLY_IMM"),                                                     \
		ENTRY(svc | URXE_OP_WRITE_FIRST,                                                   \
		      BEGINS | F_(WRITE) | F_(PAYLOAD) | F_(RETH) | (X), sname " WRITE_FIRST"),    \
		ENTRY(svc | URXE_OP_WRITE_MIDDLE, F_(WRITE) | F_(PAYLOAD) | (X),                   \
		      sname " WRITE_MIDDLE"),                                                      \
		ENTRY(svc | URXE_OP_WRITE_LAST, ENDS | F_(WRITE) | F_(PAYLOAD) | (X),              \
		      sname " WRITE_LAST"),                                                        \
		ENTRY(svc | URXE_OP_WRITE_LAST_IMM,                                                \
		      ENDS | F_(WRITE) | F_(PAYLOAD) | F_(IMM) | F_(RECV_WQE) | (X),               \
		      sname " WRITE_LAST_IMM"),                                                    \
		ENTRY(svc | URXE_OP_WRITE_ONLY, BOTH | F_(WRITE) | F_(PAYLOAD) | F_(RETH) | (X),   \
		      sname " WRITE_ONLY"),                                                        \
		ENTRY(svc | URXE_OP_WRITE_ONLY_IMM,                                                \
		      BOTH | F_(WRITE) | F_(PAYLOAD) | F_(RETH) | F_(IMM) | F_(RECV_WQE) | (X),    \
		      sname " WRITE_ONLY_IMM")

/* What only reliable services have. Responses carry no XRCETH (IBTA A14). */
#define RELIABLE(svc, sname, X)                                                                  \
	ENTRY(svc | URXE_OP_READ_REQUEST, BOTH | F_(READ) | F_(RETH) | (X),                      \
	      sname " READ_REQUEST"),                                                            \
		ENTRY(svc | URXE_OP_READ_RESPONSE_FIRST,                                         \
		      BEGINS | F_(READ) | F_(RESPONSE) | F_(PAYLOAD) | F_(AETH),                 \
		      sname " READ_RESPONSE_FIRST"),                                             \
		ENTRY(svc | URXE_OP_READ_RESPONSE_MIDDLE, F_(READ) | F_(RESPONSE) | F_(PAYLOAD), \
		      sname " READ_RESPONSE_MIDDLE"),                                            \
		ENTRY(svc | URXE_OP_READ_RESPONSE_LAST,                                          \
		      ENDS | F_(READ) | F_(RESPONSE) | F_(PAYLOAD) | F_(AETH),                   \
		      sname " READ_RESPONSE_LAST"),                                              \
		ENTRY(svc | URXE_OP_READ_RESPONSE_ONLY,                                          \
		      BOTH | F_(READ) | F_(RESPONSE) | F_(PAYLOAD) | F_(AETH),                   \
		      sname " READ_RESPONSE_ONLY"),                                              \
		ENTRY(svc | URXE_OP_ACKNOWLEDGE, BOTH | F_(RESPONSE) | F_(AETH),                 \
		      sname " ACKNOWLEDGE"),                                                     \
		ENTRY(svc | URXE_OP_ATOMIC_ACKNOWLEDGE,                                          \
		      BOTH | F_(ATOMIC) | F_(RESPONSE) | F_(AETH) | F_(ATOMIC_ACK_ETH),          \
		      sname " ATOMIC_ACKNOWLEDGE"),                                              \
		ENTRY(svc | URXE_OP_COMPARE_SWAP, BOTH | F_(ATOMIC) | F_(ATOMIC_ETH) | (X),      \
		      sname " COMPARE_SWAP"),                                                    \
		ENTRY(svc | URXE_OP_FETCH_ADD, BOTH | F_(ATOMIC) | F_(ATOMIC_ETH) | (X),         \
		      sname " FETCH_ADD"),                                                       \
		ENTRY(svc | URXE_OP_SEND_LAST_INV,                                               \
		      ENDS | F_(SEND) | F_(PAYLOAD) | F_(IETH) | F_(RECV_WQE) | (X),             \
		      sname " SEND_LAST_INV"),                                                   \
		ENTRY(svc | URXE_OP_SEND_ONLY_INV,                                               \
		      BOTH | F_(SEND) | F_(PAYLOAD) | F_(IETH) | F_(RECV_WQE) | (X),             \
		      sname " SEND_ONLY_INV"),                                                   \
		ENTRY(svc | URXE_OP_FLUSH, BOTH | F_(FLUSH) | F_(FETH) | F_(RETH) | (X),         \
		      sname " FLUSH"),                                                           \
		ENTRY(svc | URXE_OP_ATOMIC_WRITE,                                                \
		      BOTH | F_(ATOMIC_WRITE) | F_(RETH) | F_(PAYLOAD) | (X),                    \
		      sname " ATOMIC_WRITE")

const struct urxe_opcode_info urxe_opcode_table[256] = {
	/* clang-format off */
	SEND_WRITE(URXE_SVC_RC, "RC", 0),
	RELIABLE(URXE_SVC_RC, "RC", 0),
	SEND_WRITE(URXE_SVC_UC, "UC", 0),
	SEND_WRITE(URXE_SVC_XRC, "XRC", F_(XRCETH)),
	RELIABLE(URXE_SVC_XRC, "XRC", F_(XRCETH)),
	ENTRY(URXE_SVC_UD | URXE_OP_SEND_ONLY, BOTH | F_(SEND) | F_(PAYLOAD) | F_(DETH) | F_(RECV_WQE),
	      "UD SEND_ONLY"),
	ENTRY(URXE_SVC_UD | URXE_OP_SEND_ONLY_IMM,
	      BOTH | F_(SEND) | F_(PAYLOAD) | F_(DETH) | F_(IMM) | F_(RECV_WQE), "UD SEND_ONLY_IMM"),
	[URXE_OPCODE_CNP] = {
		.flags = F_(VALID) | F_(CNP), .hdr_len = URXE_BTH_LEN + URXE_CNP_LEN, .name = "CNP",
	},
	ENTRY(URXE_OPCODE_LEND, F_(LEND) | F_(PAYLOAD), "urxe LEND"),
	ENTRY(URXE_OPCODE_LENT, F_(LEND) | F_(PAYLOAD), "urxe LENT"),
	/* clang-format on */
};

const char *urxe_opcode_name(uint8_t opcode)
{
	const char *name = urxe_opcode_table[opcode].name;

	return name ? name : "invalid";
}
