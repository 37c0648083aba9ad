/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The actions of the state table in cm_state.c: alternate paths (IBTA 12.8.2). One LAP at a time
 * is under way on a connection. LAPs differ by their transaction ids: one that was answered already
 * gets the same answer again, and an APR counts only for the LAP that waits for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/core/cm_priv.h"

#define ACTION(name) int urxe_cm_act_##name(struct urxe_cm_id *id, struct urxe_cm_step *s)

int urxe_cm_new_alt(struct urxe_cm_id *id)
{
	struct urxe_cm *cm = id->cm;

	if (id->alt)
		return 0;
	if (urxe_timer_heap_reserve(&cm->timers, (unsigned)(cm->n_ids + cm->n_alts) + 1))
		return ENOMEM;
	id->alt = calloc(1, sizeof(*id->alt));
	if (!id->alt)
		return ENOMEM;
	id->alt->id = id;
	id->alt->timer.kind = URXE_CM_TIMER_LAP;
	cm->n_alts++;
	urxe_cm_begin_lap(id);
	return 0;
}

void urxe_cm_free_alt(struct urxe_cm_id *id)
{
	if (!id->alt)
		return;
	urxe_timer_cancel(&id->cm->timers, &id->alt->timer);
	id->cm->n_alts--;
	id->cm->counters.states[id->alt->state]--;
	id->cm->ops->free(id->alt);
	id->alt = NULL;
}

static void arm(struct urxe_cm_id *id, uint64_t delay_ns)
{
	struct urxe_cm *cm = id->cm;

	urxe_timer_set(&cm->timers, &id->alt->timer, cm->ops->now(cm->arg) + delay_ns);
}

/* ---- who asks ---- */

static void send_try(struct urxe_cm_id *id)
{
	const struct urxe_cm_config *cfg = &id->cm->cfg;

	urxe_cm_send_mad(id->cm, &id->path, id->alt->lap);
	arm(id, urxe_cm_try_ns(++id->alt->tries, cfg->first_ms, cfg->max_ms));
}

ACTION(send_lap)
{
	const struct urxe_cm_reply *r = s->param;

	if (urxe_cm_new_alt(id))
		return ENOMEM;
	id->alt->offer = *r->path;
	id->alt->tries = 0;
	urxe_cm_build_lap(id, r);
	send_try(id);
	return 0;
}

ACTION(mra_lap)
{
	arm(id, urxe_cm_heard_mra(id, s));
	return 0;
}

ACTION(tmo_lap)
{
	if (id->alt->tries < id->cm->cfg.req_tries) {
		urxe_cm_count_retry(id, URXE_MAD_LAP);
		send_try(id);
		return URXE_CM_STAY;
	}
	s->ev.type = URXE_CM_EV_LAP_ERROR;
	return 0;
}

/* The time that the peer asked for is over: ask anew. */
ACTION(tmo_lap_wait)
{
	id->alt->tries = 0;
	send_try(id);
	return 0;
}

static void take_offer(struct urxe_cm_alt *alt)
{
	alt->path = alt->offer;
	alt->has_path = alt->by_lap = true;
}

ACTION(apr)
{
	struct urxe_cm_alt *alt = id->alt;
	uint8_t info_len = urxe_mad_get8(s->mad, URXE_APR_INFO_LENGTH);

	if (urxe_mad_get(s->mad, URXE_HDR_TID) != urxe_mad_get(alt->lap, URXE_HDR_TID)) {
		id->cm->counters.duplicates++;
		return URXE_CM_STAY;
	}
	s->ev.type = URXE_CM_EV_APR_RECEIVED;
	s->ev.apr.status = urxe_mad_get8(s->mad, URXE_APR_AR_STATUS);
	s->ev.apr.info = urxe_mad_cbytes(s->mad, URXE_APR_INFO);
	s->ev.apr.info_len = info_len > URXE_INFO_LEN ? URXE_INFO_LEN : info_len;
	s->ev.private_data = urxe_mad_cbytes(s->mad, URXE_APR_PRIVATE_DATA);
	s->ev.private_len = URXE_APR_PRIVATE_LEN;
	if (s->ev.apr.status == URXE_CM_APR_SUCCESS)
		take_offer(alt);
	return 0;
}

/* ---- who is asked ---- */

/* Without asking the consumer. */
static void refuse(struct urxe_cm_id *id, uint64_t tid, enum urxe_cm_apr_status status)
{
	struct urxe_cm_reply r = {.reason = status};
	uint8_t m[URXE_MAD_LEN];

	urxe_cm_build_apr(id, tid, &r, m);
	urxe_cm_send_mad(id->cm, &id->path, m);
}

/* A LAP that was answered: our APR got lost, or they crossed. */
static bool answered(struct urxe_cm_id *id, uint64_t tid)
{
	if (!id->alt || !id->alt->has_apr || id->alt->tid != tid)
		return false;
	id->cm->counters.duplicates++;
	urxe_cm_send_mad(id->cm, &id->path, id->alt->apr);
	return true;
}

ACTION(lap)
{
	uint64_t tid = urxe_mad_get(s->mad, URXE_HDR_TID);
	struct urxe_cm_path offer = id->path;
	int own;

	if (answered(id, tid))
		return URXE_CM_STAY;
	urxe_cm_read_path(s->mad, &urxe_cm_lap_alternate, &offer);
	own = id->cm->ops->own_gid(id->cm->arg, &offer.sgid);
	if (own < 0) {
		refuse(id, tid, URXE_CM_APR_INVALID_GID);
		return URXE_CM_STAY;
	}
	/* The peer does not know yet that we migrated: to forget its path would be to lose it. */
	if (!memcmp(&offer.dgid, &id->path.dgid, sizeof(offer.dgid)) &&
	    !memcmp(&offer.sgid, &id->path.sgid, sizeof(offer.sgid))) {
		refuse(id, tid, URXE_CM_APR_IS_CURRENT);
		return URXE_CM_STAY;
	}
	if (urxe_cm_new_alt(id)) {
		/* No answer: the peer retransmits. */
		id->cm->counters.drop_no_memory++;
		return URXE_CM_STAY;
	}
	offer.sgid_index = (uint8_t)own;
	id->alt->offer = offer;
	id->alt->tid = tid;
	id->alt->has_apr = false;
	arm(id, id->cm->cfg.mra_after_ms * URXE_CM_MS);
	s->ev.type = URXE_CM_EV_LAP_RECEIVED;
	s->ev.lap.path = &id->alt->offer;
	s->ev.private_data = urxe_mad_cbytes(s->mad, URXE_LAP_PRIVATE_DATA);
	s->ev.private_len = URXE_LAP_PRIVATE_LEN;
	return 0;
}

/* Both sides ask at once: both are rejected. */
ACTION(lap_crossed)
{
	uint64_t tid = urxe_mad_get(s->mad, URXE_HDR_TID);

	if (!answered(id, tid))
		refuse(id, tid, URXE_CM_APR_REJECT);
	return 0;
}

static int send_mra(struct urxe_cm_id *id, uint8_t service, const void *data, uint8_t len)
{
	urxe_cm_issue_mra(id, URXE_CM_ANSWER_OTHER, service, data, len);
	arm(id, id->cm->cfg.mra_again_ms * URXE_CM_MS);
	return 0;
}

/* The one that the consumer has not answered. Another one, of a peer that gave that up, waits. */
ACTION(dup_lap)
{
	id->cm->counters.duplicates++;
	if (urxe_mad_get(s->mad, URXE_HDR_TID) != id->alt->tid)
		return URXE_CM_STAY;
	return send_mra(id, id->cm->cfg.mra_service, NULL, 0);
}

ACTION(tmo_mra_lap)
{
	return send_mra(id, id->cm->cfg.mra_service, NULL, 0);
}

ACTION(send_mra_lap)
{
	const struct urxe_cm_reply *r = s->param;

	return send_mra(id, (uint8_t)r->reason, r->private_data, r->private_len);
}

ACTION(send_apr)
{
	const struct urxe_cm_reply *r = s->param;
	struct urxe_cm_alt *alt = id->alt;

	urxe_cm_build_apr(id, alt->tid, r, alt->apr);
	alt->has_apr = true;
	if (r->reason == URXE_CM_APR_SUCCESS)
		take_offer(alt);
	urxe_cm_send_mad(id->cm, &id->path, alt->apr);
	return 0;
}

/*
 * ---- the QP migrated: so do the MADs. The path that was left is the alternate one now. ----
 *
 * A consumer may have loaded a path into its QP that the CM does not know: MADs go on by the one
 * that it knows.
 */

ACTION(path_mig)
{
	struct urxe_cm_path old = id->path;

	if (!id->alt || !id->alt->has_path)
		return 0;
	id->path = id->alt->path;
	id->alt->path = old;
	return 0;
}
