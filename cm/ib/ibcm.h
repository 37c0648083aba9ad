/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Inside of ib_cm (urxe_cm.h): ids, and the events on their way to callbacks. */
#ifndef URXE_CM_IB_IBCM_H
#define URXE_CM_IB_IBCM_H

#include "cm/device/device.h"
#include "urxe_cm.h"

/* REQs that wait for the callback of a listening id: more are rejected. */
#define URXE_IBCM_MAX_PENDING 1024

struct urxe_ibcm_id {
	struct ib_cm_id id; /* first */
	struct urxe_cma_dev *dev;
	struct urxe_cm_id *cm;
	void *claim;	  /* of its service ids, among processes; NULL: it does not listen */
	unsigned life;	  /* urxe_cma_life() of its making */
	unsigned pending; /* requests in the queue, for a listening id */
	bool gone;	  /* is being destroyed: no more callbacks */
	struct cds_list_head stock; /* events for when there is no memory */
	unsigned stocked;
	struct urxe_ibcm_id *next_gone;
};

struct urxe_ibcm_event {
	struct cds_list_head entry;
	struct urxe_ibcm_id *id,
		*listener; /* listener: the id is new, and not its consumer's yet */
	struct ib_cm_event event;
	struct ibv_sa_path_rec primary, alternate;
	uint8_t private_data[URXE_RTU_PRIVATE_LEN];
	uint8_t info[URXE_INFO_LEN];
};

static inline struct urxe_ibcm_id *to_ibcm(struct ib_cm_id *id)
{
	return caa_container_of(id, struct urxe_ibcm_id, id);
}

/* ---- ibcm.c ---- */

/** urxe_ibcm_publish - what the consumer may look at in its id, as it is now. Locked. */
void urxe_ibcm_publish(struct urxe_ibcm_id *id) URXE_REQUIRES(urxe_cma_lock);
/** urxe_ibcm_end - the CM's id is destroyed, its events forgotten. Locked; free it then. */
void urxe_ibcm_end(struct urxe_ibcm_id *id) URXE_REQUIRES(urxe_cma_lock);

/* ---- ibcm_event.c ---- */

/** Events that an id has in stock. */
#define URXE_IBCM_STOCK 2
/** urxe_ibcm_id_new, urxe_ibcm_id_free - memory of an id, with its stock of events. NULL: none. */
struct urxe_ibcm_id *urxe_ibcm_id_new(void);
void urxe_ibcm_id_free(struct urxe_ibcm_id *id);
/** urxe_ibcm_event_free - of an event on no list, before its id goes. Locked. */
void urxe_ibcm_event_free(struct urxe_ibcm_event *e) URXE_REQUIRES(urxe_cma_lock);

/** urxe_ibcm_handler - what the IB CM calls; @context: struct urxe_ibcm_id. */
int urxe_ibcm_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_ibcm_path_rec - a path as consumers see it. */
void urxe_ibcm_path_rec(const struct urxe_cm_path *p, struct ibv_sa_path_rec *rec);

/* ---- ibcm_thread.c: the one thread that calls consumers ---- */

/** urxe_ibcm_start - have the thread. Locked. 0 or errno. */
int urxe_ibcm_start(void) URXE_REQUIRES(urxe_cma_lock);
/** urxe_ibcm_post - queue an event. Locked. */
void urxe_ibcm_post(struct urxe_ibcm_event *e) URXE_REQUIRES(urxe_cma_lock);
/** urxe_ibcm_purge - forget the events of ids that are gone. Locked. */
void urxe_ibcm_purge(void) URXE_REQUIRES(urxe_cma_lock);
/** urxe_ibcm_children - ids of requests that wait for @listener's callback, linked by next_gone.
 * Locked. */
struct urxe_ibcm_id *urxe_ibcm_children(struct urxe_ibcm_id *listener) URXE_REQUIRES(urxe_cma_lock);
/**
 * urxe_ibcm_wait - until no callback uses the id. Locked; gives the lock away meanwhile.
 *
 * False from within the id's own callback: the id is freed when that returns, not by the caller.
 */
bool urxe_ibcm_wait(const struct urxe_ibcm_id *id) URXE_REQUIRES(urxe_cma_lock);

#endif
