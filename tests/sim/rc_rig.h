/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A requester, side a of a pair, whose peer b is real, or played by the test; and a record of all
 * that both send. PSNs are counted from the first one of a's.
 */
#ifndef URXE_TEST_RC_RIG_H
#define URXE_TEST_RC_RIG_H

#include "forge.h"

struct rc_rig {
	struct pair p;
	struct raw_log log;
	uint32_t psn; /* first of a's */
};

/** rc_open - both ends know each other; seed and latency of @params are the rig's own. */
void rc_open(struct rc_rig *r, const struct pair_params *params);
void rc_close(struct rc_rig *r);

/** rc_silence - nothing that b sends arrives any more. */
void rc_silence(struct rc_rig *r);
/** rc_no_peer - b as a mere dummy, that neither answers by itself nor executes. */
void rc_no_peer(struct rc_rig *r);
/** rc_answer - as if b sent this packet, with an AETH if @opcode has one and @len bytes. */
void rc_answer(struct rc_rig *r, uint8_t opcode, uint32_t psn, uint8_t syndrome, uint32_t len);
/** rc_answer_part - response @i of eight to the READ whose PSNs begin at @first. */
void rc_answer_part(struct rc_rig *r, uint32_t first, uint32_t i);

/** rc_post - a request of a's, signaled, at a place of its own in both buffers. */
int rc_post(struct rc_rig *r, enum ibv_wr_opcode op, uint64_t id, uint32_t len);
/** rc_sent - did a send @n packets since @from (of the record), the first and the last of these
 * PSNs? */
bool rc_sent(struct rc_rig *r, unsigned from, unsigned n, uint32_t first, uint32_t last);

/** rc_wc_is - is this a's next completion, for which time is let pass? */
bool rc_wc_is(struct rc_rig *r, uint64_t id, enum ibv_wc_status status);
/** rc_wc_now - is it there already, and this one? */
bool rc_wc_now(struct rc_rig *r, uint64_t id, enum ibv_wc_status status);
/** rc_no_wc - is none there? */
bool rc_no_wc(struct rc_rig *r);

#endif
