/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What answers.c, answers_calls.c and answers_states.c share: port spaces, states, scenes and
 * calls. One thread; a failed step of a scene is kept in `wrong`, and what is left of the scene is
 * skipped.
 */
#ifndef ANSWERS_H
#define ANSWERS_H

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOBODY	   9 /* a port that nobody listens on */
#define STEP_MS	   5000
#define MAX_EXTRAS 8

/* _QP: ids have a QP; 6: of IPv6; SYNC: without a channel; FREE: calls that need no id of a state
 */
#define SPACES(X) X(TCP) X(TCP_QP) X(UDP) X(UDP_QP) X(SYNC) X(TCP6) X(UDP6) X(FREE)
#define STATES(X)                                                                    \
	X(IDLE)                                                                      \
	X(BOUND)                                                                     \
	X(BOUND_ANY)                                                                 \
	X(ADDR)                                                                      \
	X(ROUTE)                                                                     \
	X(LISTEN)                                                                    \
	X(LISTEN_ANY)                                                                \
	X(SENT)	    /* active: REQ sent */                                           \
	X(REQUEST)  /* passive: REQ received */                                      \
	X(RESPONSE) /* active: REP received, no QP on the id */                      \
	X(ACCEPTED) /* passive: REP sent */                                          \
	X(ACTIVE)   /* established */                                                \
	X(PASSIVE)                                                                   \
	X(ENDED) /* both sides have disconnected */                                  \
	X(REJECTED)                                                                  \
	X(REJECTER)                                                                  \
	X(LEFT_REQUEST)	 /* passive: REQ received, and the peer's id is destroyed */ \
	X(LEFT_RESPONSE) /* active: REP received, likewise */                        \
	X(LEFT_ACTIVE)	 /* was established, likewise */                             \
	X(LEFT_PASSIVE)

#define ENUM(name) name,
#define NAME(name) #name,
enum space {
	SPACES(ENUM) N_SPACES
};
enum state {
	STATES(ENUM) N_STATES
};

/** id: what the call is tried on; l, c, s: listener, client, server's id of the connection */
struct scene {
	enum space space;
	enum state state;
	struct rdma_event_channel *own, *peer, *third;
	struct rdma_event_channel *lch, *cch;
	struct rdma_cm_id *id, *l, *c, *s;
	struct rdma_cm_id *extras[MAX_EXTRAS];
	int n_extras;
	bool destroyed; /* the id, by the call */
};

/** What may come after a call: nothing, events, or events only after the time that it takes. */
enum when {
	NOW,
	LATER,
	LATE
};
/** Who tries it besides the spaces of IPv4: those of IPv6 too? */
enum who {
	V4,
	BOTH
};
struct call {
	const char *name;
	enum when when;
	enum who who;
	int (*call)(struct scene *sc);
};
extern const struct call calls[];
extern const size_t n_calls;

/** Those of the space FREE: they write the rest of their line's answer to text. */
struct free_call {
	const char *name;
	int (*call)(char *text, size_t len);
};
extern const struct free_call free_calls[];
extern const size_t n_free_calls;

/** Shared with the process that sees to the end of this one: the line under way, and its number */
struct progress {
	char key[100];
	unsigned number;
	uint32_t qpn;	     /* of the next connection */
	uint32_t neighbours; /* so many were looked for */
	bool answered;
};
extern struct progress *now;
extern const char *const space_names[N_SPACES];
extern const char *const state_names[N_STATES];
/** Why the scene cannot be; "": it can. */
extern char wrong[200];

/* ---- answers.c: addresses ---- */

/** Addresses of each family. */
enum place {
	OWN,
	ANY,
	LOOPBACK,
	FOREIGN,   /* on no network of ours */
	NEIGHBOUR, /* on our network, and nobody has it */
	GROUP,
	N_PLACES
};
/** here - an address of the family that the scene is about, good for three more calls */
struct sockaddr *here(enum place place, uint16_t port);
/** there - one of the other family */
struct sockaddr *there(enum place place, uint16_t port);
/** Which family the scene is about: 0 is IPv4, 1 is IPv6. */
extern int family;
/** When nothing has come for so long, nothing will. */
extern int quiet_ms;

/* ---- answers_states.c ---- */

bool is_udp(enum space space);
bool has_qp(enum space space);
/** possible - has the space this state? */
bool possible(enum space space, enum state state);
/** go_to - makes sc's space and state true; or `wrong` says why not */
void go_to(struct scene *sc);
/** clean - undoes it */
void clean(struct scene *sc);
/**
 * take - takes an event, or says no
 * @text: where it is told of, behind what is there, up to @len
 * @fresh: the id of a request
 *
 * Its type, or -1.
 */
int take(struct rdma_event_channel *ch, char *text, size_t len, struct rdma_cm_id **fresh);

/* ---- answers_calls.c ---- */

/** makes_sense - is the call to be tried there? */
bool makes_sense(enum space space, enum state state, const struct call *call);
/** qp_of - attributes of a small QP; type_of - the type of the id's */
struct ibv_qp_init_attr *qp_of(enum ibv_qp_type type);
enum ibv_qp_type type_of(const struct rdma_cm_id *id);
/** with - parameters of a connection, with a QP's number that none in timewait has */
struct rdma_conn_param *with(const void *priv, uint8_t len);

#endif
