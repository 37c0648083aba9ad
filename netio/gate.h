/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The gateway of a local fabric: the one member that has a link to the outside, an ordinary port
 * with its addresses, and carries frames between both. Neighbours, ICMP and reports for groups are
 * that port's, once for all members; ICRCs are made and checked by it. Towards members it is one of
 * them (netio/README.md, "The gateway").
 *
 * Beside the fabric's table there is a file in the fabric's folder that tells of it, also to those
 * who have not joined: `gateway`. Who has it locked is the gateway.
 */
#ifndef URXE_NETIO_GATE_H
#define URXE_NETIO_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netio/config.h"
#include "netio/fabric.h"

struct urxe_gate;
struct urxe_link_ops;
struct urxe_port;

/* ---- what it says of itself ---- */

struct urxe_gate_info {
	int pid;	 /* 0: of another pid namespace */
	char port[256];	 /* of its configuration */
	uint32_t l3_mtu; /* bytes of the longest IP packet that it takes out */
	/* Addresses that are its own, and every member's that has the host's. */
	struct urxe_config_ip ips[URXE_CONFIG_MAX_IPS];
	unsigned num_ips;
};

/** urxe_gate_look - the gateway of a fabric. 0; ENOENT: there is none; or errno. Joins nothing. */
int urxe_gate_look(const struct urxe_fabric_spec *spec, struct urxe_gate_info *info);

/* ---- being it ---- */

/* What it counts. */
#define URXE_GATE_COUNTER_LIST(X)                                                         \
	X(out_packets) /* carried from members to the outside */                          \
	X(out_bytes)                                                                      \
	X(in_packets) /* carried from the outside to members */                           \
	X(in_bytes)                                                                       \
	X(out_bad)	   /* of a member's: no whole RoCEv2 packet, or to one of us */   \
	X(out_source)	   /* from an address that the outer link does not have */        \
	X(out_too_long)	   /* longer than the outer link carries */                       \
	X(out_unreachable) /* nobody answers for the address */                           \
	X(out_no_room)	   /* too many wait for a neighbour, or go to different places */ \
	X(errors)	   /* MADs that came nowhere: their members were told */          \
	X(cm_ended)	   /* connections of members that are gone: DREQs were sent */    \
	X(cm_unknown)	   /* connections of members that are too many to be known */     \
	X(in_source)	   /* from the outside, with an address of ours as its source */  \
	X(in_nobody)	   /* to a QPN or an address that no member has */                \
	X(in_too_long)	   /* longer than the member takes */                             \
	X(in_full)	   /* the member does not keep up, or is not there yet */

#define URXE_GATE_COUNTER_ENUM(name) URXE_GATE_##name,

enum urxe_gate_counter {
	URXE_GATE_COUNTER_LIST(URXE_GATE_COUNTER_ENUM) URXE_GATE_COUNTERS
};

/** urxe_gate_counter_name - as the list has it. */
const char *urxe_gate_counter_name(enum urxe_gate_counter c);

/**
 * urxe_gate_open - become the gateway of a fabric
 * @cfg: of the outer port, with its addresses
 * @ops, @link_arg: its link
 * @own: its addresses are not the host's: members are to have them as well
 *
 * The outer port is started. 0; EBUSY: there is a gateway; or errno. A line in @err, which may be
 * "" when the log has one.
 */
int urxe_gate_open(struct urxe_gate **gate, const struct urxe_fabric_spec *spec,
		   const struct urxe_port_config *cfg, const struct urxe_link_ops *ops,
		   void *link_arg, bool own, char *err, size_t errlen);
/** urxe_gate_close - and leave. @gate may be NULL. */
void urxe_gate_close(struct urxe_gate *gate);

/** urxe_gate_turn - carry what there is. True: there was something. One thread at a time. */
bool urxe_gate_turn(struct urxe_gate *gate);
/** urxe_gate_run - turns and sleep, until urxe_gate_stop(), or until no other process has been on
 * the fabric for @alone ns (URXE_NEVER: however long that is). 0, or ENODEV: the outer link is gone
 * for good. */
int urxe_gate_run(struct urxe_gate *gate, uint64_t alone);
/** urxe_gate_stop - urxe_gate_run() returns soon. For signal handlers, too. */
void urxe_gate_stop(struct urxe_gate *gate);

/** urxe_gate_port - the outer port. */
struct urxe_port *urxe_gate_port(struct urxe_gate *gate);
/** urxe_gate_fabric - its membership. */
struct urxe_fabric *urxe_gate_fabric(struct urxe_gate *gate);
/** urxe_gate_counters - all values. Thread-safe. */
void urxe_gate_counters(struct urxe_gate *gate, uint64_t values[URXE_GATE_COUNTERS]);

#endif
