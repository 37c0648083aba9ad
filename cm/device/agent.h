/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Inside of a device's agent: QP1, and MADs that wait. All functions want urxe_cma_lock held. */
#ifndef URXE_CM_DEVICE_AGENT_H
#define URXE_CM_DEVICE_AGENT_H

#include "cm/device/device.h"
#include "provider/gsi.h"

/*
 * The thread that receives MADs mostly handles them too, so that a few bursts of room are plenty.
 * Sends wait for a link that is slower than we are: the answers to a storm find room.
 */
#define URXE_AGENT_RECVS    1024u
#define URXE_AGENT_SENDS    2048u
#define URXE_AGENT_ROOM	    320u /* GRH and MAD; more is nobody's MAD */
#define URXE_AGENT_AH_SETS  64u
#define URXE_AGENT_AH_WAYS  4u
#define URXE_AGENT_DEFERRED 64u
#define URXE_AGENT_HELD	    64u
#define URXE_AGENT_BATCH    32

/* An address handle for MADs, kept for the next one to the same place. */
struct urxe_agent_ah {
	struct ibv_ah *ah;
	union ibv_gid sgid, dgid; /* an index may be another address' now */
	uint8_t sgid_index, traffic_class;
	uint64_t used;
};

/* A MAD from an address whose neighbour is not known yet. */
struct urxe_agent_held {
	struct urxe_cm_source src;
	uint64_t until;
	uint8_t mad[URXE_MAD_LEN];
};

/* A MAD to a neighbour that is not known yet. */
struct urxe_agent_deferred {
	struct urxe_cm_path path;
	uint64_t until;
	uint8_t mad[URXE_MAD_LEN];
};

/* Questions in a stretch of time. */
struct urxe_agent_budget {
	uint64_t until;
	unsigned spent;
};

/* Which addresses were seen in the last one or two seconds: bits, of two hashes an address. */
#define URXE_AGENT_SEEN_WORDS 4096u
struct urxe_agent_seen {
	uint64_t key, turn; /* when the older half is forgotten */
	unsigned now;
	uint64_t bits[2][URXE_AGENT_SEEN_WORDS];
};

struct urxe_agent {
	struct urxe_cma_dev *dev;
	struct urxe_cm *cm;
	struct ibv_pd *pd;
	struct ibv_cq *recv_cq, *send_cq;
	struct ibv_qp *qp;
	uint8_t *buf; /* receive buffers */
	struct ibv_mr *mr;
	uint64_t sent, completed; /* sends: one after the other */
	uint64_t tick;
	struct urxe_agent_ah ahs[URXE_AGENT_AH_SETS][URXE_AGENT_AH_WAYS];
	struct urxe_agent_deferred *deferred;
	unsigned n_deferred;
	struct urxe_agent_held *held;
	unsigned n_held;
	unsigned news;	     /* urxe_gsi_neigh_news() when these were looked at */
	uint64_t held_until; /* the first of these */
	struct urxe_agent_budget asked_new, asked_again;
	struct urxe_agent_seen seen;  /* strangers */
	struct cds_list_head queries; /* neighbours that ids wait for */
	bool was_coming;	      /* it was waited for when they were last run */
	struct urxe_gsi_service svc;
	bool in_poll;
	uint64_t drop_recv, drop_send; /* not ours, broken; no room or no way */
	uint64_t drop_stranger;	       /* from where nobody is */
};

/* ---- agent_send.c ---- */

/** urxe_agent_send - a MAD, now or once its neighbour is known (struct urxe_cm_ops). */
void urxe_agent_send(void *arg, const struct urxe_cm_path *path, const uint8_t *mad)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_send_deferred - those whose neighbour is known by now; others are given up in time.
 */
void urxe_agent_send_deferred(struct urxe_agent *a, uint64_t now) URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_reap - take completions of sends. */
void urxe_agent_reap(struct urxe_agent *a) URXE_REQUIRES(urxe_cma_lock);

/* ---- agent_recv.c ---- */

/** urxe_agent_post - give receive buffers to QP1. 0 or errno. */
int urxe_agent_post(struct urxe_agent *a, const uint64_t *slots, unsigned n)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_recv - take what QP1 has received. */
void urxe_agent_recv(struct urxe_agent *a) URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_recv_readdress - own addresses have come or gone: those that wait are for the same
 * ones as before, or are dropped. */
void urxe_agent_recv_readdress(struct urxe_agent *a) URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_recv_held - MADs whose sender is known by now. When the first is to be given up. */
uint64_t urxe_agent_recv_held(struct urxe_agent *a, uint64_t now) URXE_REQUIRES(urxe_cma_lock);

#endif
