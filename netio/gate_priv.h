/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to gate*.c: the gateway of a fabric. All is the thread's that takes turns, but for
 * counters and what says so.
 */
#ifndef URXE_NETIO_GATE_PRIV_H
#define URXE_NETIO_GATE_PRIV_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "netio/gate.h"
#include "netio/stack.h"
#include "urxe/hash.h"
#include "urxe/mad.h"

#define GATE_BURST   64
#define GATE_PATHS   4096 /* flows at a time */
#define GATE_WAITING 512  /* packets that wait for neighbours, of all flows */
#define GATE_QUEUE   64	  /* and of one */
#define GATE_MAD_LEN (URXE_BTH_LEN + URXE_DETH_LEN + URXE_MAD_LEN) /* a MAD's packet */
#define GATE_ASKED   4096 /* REQs from the outside that are remembered */

/** What the packets of a flow have in common. Compared as memory: without padding. */
struct gate_key {
	uint8_t sgid[16], dgid[16];
	uint32_t flow_label;
	uint16_t udp_sport;
	uint8_t traffic_class, hop_limit;
};

/** A flow to the outside. */
struct gate_path {
	struct urxe_hash_node node; /* of gate->paths */
	struct gate_key key;
	struct urxe_path *path;
	uint64_t used;	  /* when */
	unsigned waiting; /* packets in the queue */
};

/** A packet that waits until its neighbour is known. */
struct gate_wait {
	struct gate_wait *next;
	struct gate_path *path;
	uint32_t len;
	uint8_t data[]; /* from the BTH on */
};

/** The members that have one of our addresses: by which MAC they are reached. */
struct gate_near {
	uint32_t version; /* urxe_fabric_addrs_version() + 1; 0: not looked for */
	bool found;
	uint8_t mac[6];
};

struct gate_asked;

struct urxe_gate {
	char name[32];
	struct urxe_fabric_spec spec;
	int file; /* `gateway`, locked */
	bool own;
	/* the outer link */
	struct urxe_port *port;
	struct urxe_lane *lane;
	/* the fabric */
	struct urxe_fabric *fabric;
	void *link;
	uint8_t mac[6];
	/* out: frames of members that the outer link does not take yet */
	struct urxe_frame stalled[GATE_BURST];
	unsigned stalled_at, stalled_end;
	struct urxe_hash paths;
	struct gate_path *last; /* the one of the last packet */
	uint64_t swept;
	struct gate_wait *waiting, **waiting_end;
	unsigned num_waiting;
	unsigned news; /* urxe_port_neigh_news() when they were last tried */
	uint64_t tried;
	uint64_t warned; /* of a packet that is too long */
	/* in */
	struct gate_near near[URXE_PORT_MAX_GIDS];
	struct urxe_limit errors;
	uint32_t groups_version;
	uint8_t (*groups)[16]; /* that members have joined, and the outer port for them */
	unsigned num_groups;
	/* connections, by the member's comm id */
	struct urxe_hash conns;
	struct gate_asked *asked; /* GATE_ASKED */
	uint64_t conns_at;	  /* when they are next looked at */
	uint64_t gone[URXE_FABRIC_SLOTS / 64];
	/* sleep */
	pthread_t bell;
	bool has_bell;
	sem_t arm;
	atomic_bool armed, stop;
	bool blind; /* what comes to the outer link ends no sleep */
	uint64_t followed;
	uint64_t company; /* when another process was last seen on the fabric */

	_Atomic uint64_t counters[URXE_GATE_COUNTERS];
};

static inline void gate_count(struct urxe_gate *g, enum urxe_gate_counter c, uint64_t n)
{
	uint64_t v = atomic_load_explicit(&g->counters[c], memory_order_relaxed);

	atomic_store_explicit(&g->counters[c], v + n, memory_order_relaxed);
}

/* ---- the file (gate_file.c) ---- */

/** urxe_gate_claim - be the only one: 0 and *@fd; EBUSY; or errno. A line in @err. */
int urxe_gate_claim(const struct urxe_fabric_spec *spec, int *fd, char *err, size_t errlen);
/** urxe_gate_publish - say who we are. 0 or errno. */
int urxe_gate_publish(int fd, const struct urxe_gate_info *info);
/** urxe_gate_unclaim - no longer. */
void urxe_gate_unclaim(const struct urxe_fabric_spec *spec, int fd);

/* ---- out (gate_out.c), with the lane ---- */

/** gate_out - frames of members; true: there were some. */
bool gate_out(struct urxe_gate *g, uint64_t now) URXE_REQUIRES(g->lane);
/** gate_send - a packet of our own, from the BTH on, as if a member had sent it. May lose it. */
void gate_send(struct urxe_gate *g, const struct gate_key *key, const uint8_t *data, uint32_t len,
	       uint64_t now) URXE_REQUIRES(g->lane);
/** gate_out_fini - what is left. */
void gate_out_fini(struct urxe_gate *g);

/* ---- in (gate_in.c) ---- */

/** gate_in - packets from the outside; true: there were some. */
bool gate_in(struct urxe_gate *g) URXE_REQUIRES(g->lane);
/** gate_near - where the members with the outer port's address at GID index @own are; NULL: there
 * are none. */
const struct gate_near *gate_near(struct urxe_gate *g, unsigned own);
/** gate_groups - the outer port joins what members have joined. Without the lane. */
void gate_groups(struct urxe_gate *g);

/* ---- connections (gate_cm.c) ---- */

/** gate_cm_out - a packet to QP1 that a member sends; @body: from the BTH on, @len bytes. */
void gate_cm_out(struct urxe_gate *g, const struct gate_key *key, const uint8_t *body, uint32_t len,
		 uint64_t now);
/** gate_cm_in - one that came from @sgid; true: it was for nobody but us. With the lane. */
bool gate_cm_in(struct urxe_gate *g, const uint8_t sgid[16], const uint8_t *body, uint32_t len)
	URXE_REQUIRES(g->lane);
/** gate_cm_gone - a member is no more: as urxe_link_ops.on_gone() has it. */
void gate_cm_gone(void *gate, unsigned slot);
/** gate_cm_tick - DREQs for such members, when it is time. */
void gate_cm_tick(struct urxe_gate *g, uint64_t now) URXE_REQUIRES(g->lane);
/** gate_cm_init, gate_cm_fini - 0 or ENOMEM. */
int gate_cm_init(struct urxe_gate *g);
void gate_cm_fini(struct urxe_gate *g);

/* ---- errors (gate_error.c) ---- */

/** gate_error - a member's packet came nowhere: it is told if that was a MAD. As
 * urxe_path_error_fn; with the lane. */
void gate_error(void *gate, const struct urxe_path_error *e);

#endif
