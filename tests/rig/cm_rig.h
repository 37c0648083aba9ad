/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An IB CM with one listener, on virtual time, and a peer whose MADs are made by hand: what the
 * tests of the CM's states share.
 */
#ifndef URXE_TEST_CM_RIG_H
#define URXE_TEST_CM_RIG_H

#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cm/core/cm.h"
#include "urxe/wire.h"

#define PEER_COMM 0x0badcafeu
#define PEER_QPN  0x4711u
#define PEER_GUID 0x1122334455667788ull
#define OWN_GUID  0x5054ull
#define OWN_QPN	  0x99u
#define SERVICE	  0x0000000001061e61ull

struct rig {
	struct urxe_cm *cm;
	struct urxe_cm_id *listener, *id;
	struct urxe_cm_source src;
	uint64_t now;
	uint64_t rand;
	uint8_t sent[URXE_MAD_LEN]; /* the last one */
	unsigned n_sent, n_events;
	enum urxe_cm_event_type event; /* the last one */
	uint16_t reason;
	int error;
	uint8_t apr_status;
	bool alternate;		      /* the REQ had one */
	struct urxe_cm_id *told;      /* who got it */
	int verdict;		      /* what the handler returns */
	struct urxe_cm_id *count_for; /* whose ends are counted */
	unsigned n_ends;
	bool nobody;	   /* has any address */
	uint64_t quiet_ns; /* since a QP received something */
	bool far;	   /* all paths lead to others than processes whose end is told */
	bool probes;	   /* the peer, by its REP */
	uint8_t max_mtu;   /* of the way to who sends a REQ; 0: IBV_MTU_4096 */
};

/** rig_handler - writes down what it is told; for ids of the test's own. @context: the rig. */
int rig_handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context);
/** rig_open_with - a CM with a listener for SERVICE. @set: settings, or NULL. */
void rig_open_with(struct rig *r, uint64_t guid, const struct urxe_cm_settings *set);
/** rig_open_on - the same; @shared: on a link of processes. */
void rig_open_on(struct rig *r, uint64_t guid, const struct urxe_cm_settings *set, bool shared);
/** rig_open - the same, without any. */
void rig_open(struct rig *r, uint64_t guid);
void rig_close(struct rig *r);
/** rig_path - from our address (11...) to the peer's (22...). */
struct urxe_cm_path rig_path(const struct rig *r);
/** rig_other_path - from our other address (33...) to the peer's (44...). */
struct urxe_cm_path rig_other_path(const struct rig *r);
/** row - the id's state, or the one within ESTABLISHED where that is not LAP_IDLE. */
enum urxe_cm_state row(const struct urxe_cm_id *id);
/** sent_attr - the attribute id of the last MAD that we sent. */
uint16_t sent_attr(const struct rig *r);
/** peer_mad - a MAD of the peer's for r->id. */
void peer_mad(struct rig *r, enum urxe_cm_input in, uint8_t *m);
/** peer_gave_up - into @m: a REJ of the peer's, which knows no comm id of ours, and names @guid. */
void peer_gave_up(struct rig *r, uint64_t guid, uint8_t *m);
/** peer_says - the same, received. */
void peer_says(struct rig *r, enum urxe_cm_input in);
/** do_call - the call that an input stands for, on r->id. Returns the call's. */
int do_call(struct rig *r, enum urxe_cm_input in);
/** bring_to - r->id is one in this state. */
void bring_to(struct rig *r, enum urxe_cm_state state);
/** wait_ms - so much time in turns of 10 ms; a multiple of them. */
void wait_ms(struct rig *r, unsigned ms);
/** run_out - 100 ms turns until no id is left, 20 s at most. */
void run_out(struct rig *r);

#endif
