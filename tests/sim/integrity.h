/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Every operation of every transport, of random sizes, split at random over SGEs at odd offsets,
 * over a network that loses, doubles and reorders. All bytes at the far end are compared with what
 * was sent, and those around them with what was there before; connected transports deliver each
 * message once and in order. Both sides send at once.
 *
 * A buffer consists of slots of 32 KiB. Operation N has slot N % WINDOW to itself, in each area it
 * uses: what it sends or fetches (of the sender), what it writes or reads, what receives it.
 */
#ifndef URXE_TEST_INTEGRITY_H
#define URXE_TEST_INTEGRITY_H

#include <stdio.h>

#include "pair.h"

#define OPS	100
#define WINDOW	16
#define SLOT	0x8000u
#define AREA	(WINDOW * SLOT)
#define MAX_LEN 20000u
#define MAX_SGE 12
#define INLINE	200u
#define GUARD	0xee
#define GRH	40u
#define QKEY	0x11111111
#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | URXEDV_ACCESS_FLUSH_GLOBAL)

enum what {
	W_SEND,
	W_SEND_IMM,
	W_SEND_INV,
	W_WRITE,
	W_WRITE_IMM,
	W_READ,
	W_CAS,
	W_FADD,
	W_AWRITE,
	W_FLUSH,
	W_MW_WRITE,
	W_MW_READ,
	W_BIND, /* for the flow that comes back */
	W_LOCAL_INV,
	W_MCAST,
	N_WHAT
};

#define HAS_RECV(w)  ((w) == W_SEND || (w) == W_SEND_IMM || (w) == W_SEND_INV || (w) == W_WRITE_IMM)
#define IS_READ(w)   ((w) == W_READ || (w) == W_MW_READ)
#define IS_ATOMIC(w) ((w) == W_CAS || (w) == W_FADD)
#define IS_WRITE(w)  ((w) == W_WRITE || (w) == W_WRITE_IMM || (w) == W_MW_WRITE)

/** What is posted for it, and what its completion says. */
struct code {
	enum ibv_wr_opcode wr;
	enum ibv_wc_opcode wc;
};
extern const struct code codes[];

/* ---- one run ---- */

enum kind {
	K_RC,
	K_RC_SRQ,
	K_XRC,
	K_UC,
	K_UD
};

/** The QPs of a kind, and what they can do: bits 1 << enum what. */
struct kind_info {
	enum ibv_qp_type type;
	unsigned ops;
};
extern const struct kind_info kinds[];

#define B(w)	(1u << (w))
#define MSGS	(B(W_SEND) | B(W_SEND_IMM))
#define WRITES	(B(W_WRITE) | B(W_WRITE_IMM))
#define ANSWERS (B(W_READ) | B(W_CAS) | B(W_FADD) | B(W_AWRITE) | B(W_FLUSH))
#define WINDOWS (B(W_MW_WRITE) | B(W_MW_READ) | B(W_SEND_INV) | B(W_LOCAL_INV))

struct op {
	enum what what;
	uint32_t len, at; /* of the remote range: offset in its slot */
	struct ibv_sge sge[MAX_SGE];
	unsigned num_sge;
	bool in_line;
	uint64_t expect; /* an atomic's answer */
	uint32_t rkey;	 /* invalidated */
	unsigned copies; /* unreliable ones: how often it has arrived */
};

struct recv {
	struct ibv_sge sge[MAX_SGE];
	unsigned num_sge;
};

enum mw_state {
	MW_IDLE,
	MW_BINDING,
	MW_BOUND,
	MW_CLOSING
};

struct end {
	struct side *s;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	uint8_t *mem; /* areas: sent or fetched, received, written, read */
	struct ibv_mr *mr[2];
	uint64_t *words; /* of atomics */
	struct ibv_mr *words_mr;
	struct ibv_ah *ah, *group_ah;
};

struct flow {
	struct run *r;
	struct flow *back;
	struct end *from, *to;
	struct ibv_qp *qp, *rqp;
	uint32_t srqn;
	struct op ops[OPS];
	unsigned posted, completed;
	unsigned fifo[OPS], in, out; /* operations that take a receive, in order */
	struct recv recvs[WINDOW];
	unsigned recvs_posted, received;
	uint64_t counter, word; /* what the far end's words hold when all is done */
	/* a window of the far end's for us */
	struct ibv_mw *mw;
	enum mw_state mw_state;
	uint32_t mw_key;
	unsigned mw_out;
	bool mw_zero;
};

struct run {
	struct pair p;
	enum kind kind;
	uint64_t seed, rnd;
	uint32_t mtu;
	struct end end[2];
	struct flow flow[2];
	bool failed;
};

#define FAIL(r, ...)                                  \
	do {                                          \
		if (!(r)->failed)                     \
			fprintf(stderr, __VA_ARGS__); \
		(r)->failed = true;                   \
	} while (0)

#define SRC(f, i) slot_at((f)->from, 0, i)
#define RCV(f, i) slot_at((f)->to, 1, i)
#define DST(f, i) slot_at((f)->to, 2, i)
#define RD(f, i)  slot_at((f)->to, 3, i)

/* ---- integrity_post.c ---- */

/** rnd - below @below. */
uint32_t rnd(struct run *r, uint32_t below);
/** data_of - what operation @i of a flow carries. */
void data_of(const struct flow *f, unsigned i, uint8_t *out, uint32_t len);
/** slot_at - of an area of an end's memory, that of operation @i. */
uint8_t *slot_at(const struct end *e, unsigned area, unsigned i);
/** slot_is - does a slot hold @data in these SGEs, and GUARD around them? */
bool slot_is(const uint8_t *slot, const struct ibv_sge *sge, unsigned n, const uint8_t *data,
	     uint32_t len);
/** post_some - the next operation of a flow, whatever may come now. */
void post_some(struct flow *f);
/** post_recv - the next receive at its far end. */
void post_recv(struct flow *f);

/* ---- integrity_check.c ---- */

/** run_reliable - all operations, each of which must arrive once and in order. */
void run_reliable(struct run *r);
/** run_unreliable - all of them in batches; what arrives must be whole. */
void run_unreliable(struct run *r);

#endif
