/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The RC responder, and a requester that the test plays (responder_rig.c): side b responds; the
 * test sends as side a would, and looks at what b answers, completes and raises.
 */
#ifndef TESTS_SIM_RESPONDER_RIG_H
#define TESTS_SIM_RESPONDER_RIG_H

#include "harness.h"
#include "forge.h"

struct rig {
	struct pair p;
	struct raw_log log;
	uint32_t psn; /* the next that b expects */
};

/** rig_open - two RC QPs that are connected */
void rig_open(struct rig *r);
/** rig_open_with - the same, with these parameters */
void rig_open_with(struct rig *r, const struct pair_params *pp);
void rig_close(struct rig *r);

/** req - a request that asks for an ACK, of @len bytes of payload */
struct raw_pkt req(uint8_t opcode, uint32_t len);
/** rdma - the same with a RETH: @dmalen bytes, @off into b's buffer */
struct raw_pkt rdma(struct rig *r, uint8_t opcode, uint32_t off, uint32_t dmalen, uint32_t len);
/** good_write, good_read, good_atomic - one of b's buffer that is as it should be */
struct raw_pkt good_write(struct rig *r);
struct raw_pkt good_read(struct rig *r);
struct raw_pkt good_atomic(struct rig *r);
/** put - sends the packet at the PSN that b expects */
void put(struct rig *r, struct raw_pkt k);
/** put_at - sends it at @psn */
void put_at(struct rig *r, uint32_t psn, struct raw_pkt k);

/** last - the last answer of b; all 0: there is none */
const struct raw_seen *last(struct rig *r);
/** answered - is this ACK or NAK the last answer? */
bool answered(struct rig *r, uint8_t syndrome, uint32_t psn, uint32_t msn);
/** check_fatal - a NAK at @psn, an event, b's QP in error; nothing more answered after that */
void check_fatal(struct rig *r, uint8_t syndrome, uint32_t psn, int event);
/** expect_fatal - one bad first packet, the NAK for it, and no byte written */
void expect_fatal(struct raw_pkt (*make)(struct rig *), uint8_t syndrome, int event);
/** poll1 - as ibv_poll_cq() of one */
int poll1(struct side *s, struct ibv_wc *wc);

#endif
