/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the director (crowd.c) and its workers share, and what a worker's files share: mesh.c has
 * its connections, talk.c what goes over them.
 */
#ifndef CROWD_H
#define CROWD_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MAX_WORKERS 250
#define MAX_SLOTS   4 /* messages of a connection under way */
#define MAX_HOSTS   2
#define REASON	    200

/* ---- what all see, in memory of the director's ---- */

enum op {
	OP_SEND,
	OP_WRITE,
	OP_IMM,
	OP_READ,
	OPS
};

/* What a worker knows of another one. */
struct view {
	_Atomic uint32_t life;	   /* of who it is connected with; 0: with nobody */
	_Atomic uint32_t ended;	   /* the last life that it was connected with, and is no more */
	_Atomic uint64_t ended_at; /* CLOCK_MONOTONIC, ns */
	_Atomic uint64_t messages; /* that were exchanged, both ways, and were right */
};

struct worker {
	_Atomic uint32_t life; /* each process has another one */
	_Atomic uint32_t listens;
	_Atomic uint64_t messages[OPS], bytes;
	_Atomic uint64_t disconnected, broken; /* connections that ended by an event; with a
						* completion that told it first */
	_Atomic uint64_t refused;
	char reason[REASON]; /* why it gave up */
	struct view view[MAX_WORKERS];
};

/* What it is to be like. */
struct shape {
	unsigned workers, slots, bytes, port;
	uint64_t seed;
	unsigned hosts;
	uint32_t address[MAX_HOSTS]; /* network order; worker N is on host N modulo hosts */
	bool events;		     /* all workers sleep while nothing comes */
	unsigned most;		     /* exchanges in a slot of a connection; 0: without end */
};

struct board {
	struct shape shape;
	_Atomic uint32_t stop;
	struct worker worker[MAX_WORKERS];
};

/* Are these to be connected? With two hosts, those between them. */
static inline bool pair(const struct shape *s, unsigned i, unsigned j)
{
	return i != j && (s->hosts == 1 || i % s->hosts != j % s->hosts);
}

uint64_t now_ns(void);

/* ---- a worker ---- */

/* What a side says of itself, in the CM's private data. */
struct __attribute__((packed)) hello {
	uint32_t index, life, rkey;
	uint64_t base, key; /* its memory; what its messages are made of */
};

struct slot {
	uint64_t seq;
	unsigned out; /* work requests under way */
	enum op op;
	uint32_t len;
	bool waits; /* for the other side's message */
	bool due;   /* something is to be sent when all that is out has gone */
};

struct conn {
	struct conn *next;
	struct rdma_cm_id *id;
	uint32_t number; /* in wr_ids */
	bool active;	 /* the side that begins each exchange */
	bool up, broken;
	struct hello own, peer;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct slot slot[MAX_SLOTS];
};

struct self {
	struct board *board;
	struct worker *me;
	unsigned index;
	uint32_t life;
	uint64_t random;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	unsigned unacked; /* events of the CQ */
	bool sleeps;
	struct conn *conns;
	uint32_t numbers;
	uint64_t retry[MAX_WORKERS]; /* when to connect; 0: a connection is there, or is being made
				      */
};

/* What cannot be: says so on the board, and ends the process. */
void need(struct self *s, bool ok, const char *what);
void count(_Atomic uint64_t *n);

/* Memory of a connection, its MR and its QP. False: no QP, for an id whose peer has gone. */
bool talk_prepare(struct self *s, struct conn *c);
void talk_destroy(struct self *s, struct conn *c);
/* It is up: the active side begins. */
void talk_begin(struct self *s, struct conn *c);
/* The active side goes on, as far as it may. */
void talk_completion(struct self *s, struct conn *c, const struct ibv_wc *wc);

/* All of a worker's life. */
int mesh_run(struct board *board, unsigned index, uint32_t life);
struct conn *mesh_find(struct self *s, uint32_t number);

#endif
