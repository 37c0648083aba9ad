/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What both sides do, computed from the seed alone: neither tells the other. Each side works
 * through batches of operations against the arena of the other, both at once. Within a batch no
 * two operations touch the same bytes (but a READ may read what a WRITE before it on the same QP
 * wrote), so that the outcome is one, whatever the order between QPs.
 */
#ifndef INTEGRITY_PLAN_H
#define INTEGRITY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_QP	  4u
#define MAX_OPS	  48u
#define MAX_SGE	  8u
#define AREA	  0x200000u
#define BATCHES	  16u
#define WORDS	  64u /* of 8 bytes: what atomics work on */
#define SRC_OFF	  0u
#define DST_OFF	  AREA
#define RECV_OFF  (2 * AREA)
#define TGT_OFF	  (3 * AREA)
#define WORD_OFF  (4 * AREA)
#define ARENA	  (4 * AREA + WORDS * 8)
#define GRH_BYTES 40u /* in front of each datagram received */

enum transport {
	RC,
	UC,
	UD,
	XRC,
	TRANSPORTS
};
extern const char *const transport_names[TRANSPORTS];

enum op {
	OP_SEND,
	OP_SEND_IMM,
	OP_SEND_INV,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_CAS,
	OP_FADD,
	OP_ATOMIC_WRITE,
	OPS
};
extern const char *const op_names[OPS];

/* How a run is laid out, of its seed: the same on both sides. */
struct shape {
	uint64_t seed;
	enum transport transport;
	unsigned qps, mtu, batches;
	bool srq, windows, builder, events, v6;
};

/* Part of a gather or scatter list: bytes of the arena, through one of its two MRs. */
struct piece {
	uint32_t off, len;
	unsigned mr;
};

struct pieces {
	unsigned n;
	struct piece at[MAX_SGE];
};

struct plan_op {
	enum op op;
	unsigned qp, mr; /* mr: of the peer's; 2 is the QP's memory window */
	uint32_t len, remote, imm;
	bool signaled, inl, fence, hit; /* hit: a CAS that compares with what is there */
	uint64_t operand;
	struct pieces local, recv; /* recv: of the j-th receive, not of this operation's own */
};

struct batch {
	unsigned side, number, n;
	unsigned recvs, early; /* receives that the peer posts for it; so many before it starts */
	struct plan_op op[MAX_OPS];
};

void plan_shape(struct shape *s, uint64_t seed, enum transport transport, unsigned mtu);
void plan_batch(const struct shape *s, unsigned side, unsigned number, struct batch *b);

/* Does an operation use up a receive of the peer's? */
bool plan_receives(enum op op);
bool plan_reliable(const struct shape *s);

/* The bytes that an operation carries. From 8 bytes on they begin with plan_id(). */
void plan_content(const struct shape *s, const struct batch *b, unsigned i, uint8_t *out);
uint32_t plan_id(const struct batch *b, unsigned i);
/* What an arena holds in the beginning. */
void plan_initial(const struct shape *s, unsigned side, uint8_t *arena);

/*
 * Does to an arena what the operation does to the peer's; result is what it brings back: a READ's
 * bytes, an atomic's word. data: of plan_content().
 */
void plan_apply(const struct plan_op *op, uint8_t *arena, const uint8_t *data, uint8_t *result);
/* The operand that a CAS compares with, given the word that is there. */
uint64_t plan_compare(const struct plan_op *op, uint64_t there);

/* Between len contiguous bytes and the pieces of an arena. */
void pieces_scatter(const struct pieces *p, uint8_t *arena, const uint8_t *from, uint32_t len);
/* Receives of UC and UD, which may be lost, stay posted: slot s of n, cut up as the seed has it. */
void plan_slot(const struct shape *s, unsigned side, unsigned slot, unsigned n, struct pieces *out);

#endif
