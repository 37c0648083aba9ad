/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Inside of the fuzzer "packets": two devices each of IPv4 and IPv6, which outlive an input
 * (packets_world.c); the QPs of one input with the work that is given to them (packets_work.c); and
 * packets that are made by hand (packets_wire.c). fuzz_packets.c reads the input.
 */
#ifndef URXE_TEST_FUZZ_PACKETS_H
#define URXE_TEST_FUZZ_PACKETS_H

#include "forge.h"
#include "fuzz.h"
#include "urxedv.h"

#define MR_AT	 0x10000u /* of the buffer, on both sides */
#define MR_LEN	 0x10000u
#define FILE_LEN 0x2000u
#define CANARY	 0xc5 /* fills what is outside */
#define INSIDE	 0x3a /* fills the region */
#define MAX_WRS	 1024
#define N_KINDS	 4
#define QKEY	 0x11111111

enum kind {
	K_RC,
	K_UC,
	K_UD,
	K_XRC
};

/* What befalls a region of a file's memory. */
enum gone {
	GONE_NOT,
	GONE_ALL,   /* unmapped, in effect */
	GONE_WRITE, /* read-only */
	GONE_FILE,  /* the file is truncated: SIGBUS */
};

/* Networks that lose all RoCE packets: bits. */
#define DEAD_NET(n) (1u << (n))
#define DEAD_ALL    4u

/** What outlives an input, for its making takes long. */
struct world {
	bool open, v6;
	struct pair p;
	struct ibv_ah *ah[2], *group_ah[2];
	struct ibv_xrcd *xrcd[2];
	struct ibv_mw *mw[2];
	union ibv_gid group;
	/* A region of a file's memory a side, which may be flushed to persistence. */
	int fd[2];
	uint8_t *file[2];
	struct ibv_mr *file_mr[2];
	unsigned dead;
};

/** What does not: the QPs, and the work given to them. */
struct run {
	struct fuzz_in *in;
	struct world *w;
	struct pair_params params;
	struct ibv_qp *qp[N_KINDS][2]; /* XRC: sender on side 0, receiver on side 1 */
	struct ibv_srq *srq;	       /* NULL: destroyed */
	uint32_t srqn;
	/* Side 1, of who may have such: a raw packet QP with rules, one that spreads. */
	struct ibv_qp *raw, *rss;
	struct ibv_wq *wq[2];
	struct ibv_rwq_ind_table *table;
	struct ibv_flow *flow[2];
	bool member[2];
	unsigned n_wrs;
	bool on_srq[MAX_WRS];
	uint8_t done[MAX_WRS];
};

/* ---- packets_world.c ---- */

/** world_get - the one of IPv4 or IPv6, opened. */
struct world *world_get(bool v6);
/** world_side - side a (0) or b. */
struct side *world_side(struct world *w, unsigned i);
/** world_gone - what befalls the file's memory of a side. */
void world_gone(struct world *w, unsigned i, enum gone how);
/** world_disk - does msync() fail from now on? */
void world_disk(bool fails);
/** world_heal - networks, disk and memory are as they were. */
void world_heal(struct world *w);
/** run_make - all QPs, connected; @how: bits that choose retries, resources and MTU. */
void run_make(struct run *r, uint8_t how);
/** run_raw_make - what takes whole frames, when it is first asked for. False: not for us. */
bool run_raw_make(struct run *r);
/** run_unmake - everything destroyed. */
void run_unmake(struct run *r);

/* ---- packets_work.c: calls, as the input says ---- */

void work_send(struct run *r, enum kind k, unsigned i);
void work_recv(struct run *r, enum kind k, unsigned i);
void work_window(struct run *r, unsigned i);
void work_member(struct run *r, unsigned i);
void work_group_send(struct run *r, unsigned i);
void work_rule(struct run *r, unsigned i);
void work_raw_recv(struct run *r, unsigned i);
/** work_path - path migration of a connected QP. */
void work_path(struct run *r, enum kind k, unsigned i);
/** work_qp - its attributes; the SRQ. */
void work_qp(struct run *r, enum kind k, unsigned i);
/** work_reap - all completions: each of a work request of ours, and once. */
void work_reap(struct run *r);

/* ---- packets_wire.c ---- */

/** wire_request - any packet; with all bits zero, the request that is right. @group: to that. */
void wire_request(struct run *r, enum kind k, unsigned i, bool group);
/** wire_answer - what the peer might say to the oldest request that is out. */
void wire_answer(struct run *r, enum kind k, unsigned i);

#endif
