/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A device with rdma_cm on virtual time, and a crowd of peers at the other end of its link, whose
 * frames are made by hand: any number of addresses of 10.1.0.0/16 and fd00::/64, of which those
 * that live answer ARP and ND. The device is 10.1.0.1 and fd00::1, one for all tests of a program.
 */
#ifndef URXE_TEST_CM_CROWD_H
#define URXE_TEST_CM_CROWD_H

#include "harness.h"
#include "pair.h"

#include <rdma/rdma_cma.h>

#include "urxe/mad.h"

#define CROWD_PORT 7471
#define CROWD_MS   1000000ull

/** An address and what it was told. */
struct crowd_peer {
	uint8_t gid[16];
	bool lives;	/* answers ARP and ND */
	bool moved;	/* to another MAC */
	uint32_t comm;	/* of its REQ */
	uint32_t their; /* the device's, from its REP or MRA */
	unsigned reqs, reps, mras, rejs, dreqs, reason;
};

struct crowd {
	struct urxe_sim *sim;
	struct urxe_device *dev;
	struct ibv_context *ctx;
	struct urxe_sim_end *own, *end; /* the device's, the crowd's */
	uint8_t mac[6];			/* of the device */
	struct crowd_peer *peers;	/* set by the test, who may be asked for */
	unsigned n_peers;
	uint64_t rnd;
	uint64_t bytes_in, bytes_out, frames_out; /* as the device sees them */
	uint64_t questions;			  /* of the device, by ARP and ND */
};

/** crowd_open - the device is up. */
void crowd_open(struct crowd *c, uint64_t seed);
/** crowd_gid - the address with this number, of IPv4 (below 2^16) or IPv6. */
void crowd_gid(uint8_t gid[16], bool v4, uint64_t number);
/** crowd_meet - a peer asks for the device's MAC, as who is about to send does. */
void crowd_meet(struct crowd *c, struct crowd_peer *p);
/** crowd_req - a REQ for CROWD_PORT. @qpn: the peer's QP. */
void crowd_req(struct crowd *c, const uint8_t gid[16], uint32_t comm, uint32_t qpn);
/** crowd_answer - a MAD with the two comm ids of the peer and the device alone: RTU, REJ. */
void crowd_answer(struct crowd *c, const struct crowd_peer *p, enum urxe_mad_attr attr);
/** crowd_turn - the device takes some turns, and what has arrived of it is heard. */
void crowd_turn(struct crowd *c);
/** crowd_run - turns and time: @ns, in steps of @step. */
void crowd_run(struct crowd *c, uint64_t ns, uint64_t step);
/** crowd_listen - an id that listens, and its channel, which does not block. */
struct rdma_cm_id *crowd_listen(struct rdma_event_channel **ch, int backlog);
/** crowd_event - the next event of the channel, if there is one; acked. */
bool crowd_event(struct rdma_event_channel *ch, struct rdma_cm_id **id,
		 enum rdma_cm_event_type *type);

#endif
