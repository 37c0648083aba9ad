/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Inside of the fuzzer "agent": who sends MADs, ICMP errors and ARP by hand to the device whose CM
 * is under test (agent_peer.c). fuzz_agent.c has its consumer, and reads the input.
 */
#ifndef URXE_TEST_FUZZ_AGENT_PEER_H
#define URXE_TEST_FUZZ_AGENT_PEER_H

#include "forge.h"
#include "fuzz.h"
#include "urxe/mad.h"

#define AGENT_PORT  7777
#define CONSUMER_QP 0x99u /* of an id without a QP */

/** The peer at the other end of the link, and all whose addresses it takes. */
struct peer {
	struct fuzz_in *in;
	struct pair *p; /* a is the device, b the peer */
	struct raw_log log;
	uint32_t psn;
};

/** peer_raw - a datagram of any bytes to QP1. */
void peer_raw(struct peer *r);
/** peer_mad - a MAD that begins as it should, for the CM's newest connection. */
void peer_mad(struct peer *r);
/** peer_reply - what may be answered to one of the CM's last MADs. */
void peer_reply(struct peer *r);
/** peer_strangers - REQs from addresses that are not known, or one of them answers ARP. */
void peer_strangers(struct peer *r);
/** peer_icmp - one of the device's last packets does not reach its destination, says somebody. */
void peer_icmp(struct peer *r);
/** peer_ask_nobody - a REQ for a service that nobody offers. */
void peer_ask_nobody(struct peer *r, uint32_t comm_id);
/** peer_rejected - has the CM rejected this REQ? */
bool peer_rejected(const struct peer *r, uint32_t comm_id);

#endif
