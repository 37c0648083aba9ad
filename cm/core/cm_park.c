/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * REQs and SIDR_REQs that come before their listener. Programs agree over TCP that they are
 * about to connect, then one listens and the other connects (perftest does): with a kernel
 * between them the listener wins, with us it may not. So what nobody listens for is looked at again
 * for a moment before it is rejected. A few at a time: a flood is rejected at once.
 */
#include <string.h>

#include "cm/core/cm_priv.h"

#define AGAIN_NS  2000000ull
#define OF_SENDER (URXE_CM_PARKED / 4 * 3) /* may be of one address */

static bool is_sidr(const uint8_t *mad)
{
	return urxe_mad_get(mad, URXE_HDR_ATTR_ID) == URXE_MAD_SIDR_REQ;
}

static bool same_req(const struct urxe_cm_parked *p, const struct urxe_cm_source *src,
		     const uint8_t *mad)
{
	enum urxe_mad_field_id by =
		is_sidr(mad) ? URXE_SIDR_REQ_REQUEST_ID : URXE_REQ_LOCAL_COMM_ID;

	return !memcmp(&p->src.sgid, &src->sgid, sizeof(src->sgid)) &&
	       is_sidr(p->mad) == is_sidr(mad) && urxe_mad_get(p->mad, by) == urxe_mad_get(mad, by);
}

static bool listened_for(struct urxe_cm *cm, const struct urxe_cm_parked *p)
{
	if (is_sidr(p->mad))
		return urxe_cm_find_service(cm, urxe_mad_get(p->mad, URXE_SIDR_REQ_SERVICE_ID));
	return urxe_cm_find_service(cm, urxe_mad_get(p->mad, URXE_REQ_SERVICE_ID)) ||
	       urxe_cm_find_waiting(cm, &p->src, p->mad);
}

/* It came twice, or was retransmitted, and the other one found its listener. */
static bool served(struct urxe_cm *cm, const struct urxe_cm_parked *p)
{
	return !is_sidr(p->mad) &&
	       urxe_cm_find_remote(cm, &p->src.sgid, urxe_mad_get(p->mad, URXE_REQ_LOCAL_CA_GUID),
				   urxe_mad_get32(p->mad, URXE_REQ_LOCAL_COMM_ID));
}

static void find_first(struct urxe_cm *cm)
{
	cm->park_next = UINT64_MAX;
	for (unsigned i = 0; i < URXE_CM_PARKED; i++) {
		if (cm->parked[i].next && cm->parked[i].next < cm->park_next)
			cm->park_next = cm->parked[i].next;
	}
}

bool urxe_cm_park(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad)
{
	uint64_t now = cm->ops->now(cm->arg);
	struct urxe_cm_parked *p, *room = NULL;
	unsigned of_sender = 0;

	if (!cm->cfg.listen_grace_ms)
		return false;
	for (unsigned i = 0; i < URXE_CM_PARKED; i++) {
		p = &cm->parked[i];
		if (!p->next)
			room = p;
		else if (same_req(p, src, mad))
			return true;
		else
			of_sender += !memcmp(&p->src.sgid, &src->sgid, sizeof(src->sgid));
	}
	if (!room || of_sender >= OF_SENDER)
		return false;
	room->src = *src;
	memcpy(room->mad, mad, URXE_MAD_LEN);
	room->next = now + AGAIN_NS;
	room->until = now + cm->cfg.listen_grace_ms * 1000000ull;
	find_first(cm);
	return true;
}

void urxe_cm_park_run(struct urxe_cm *cm, uint64_t now)
{
	/* Each turn comes here, and hardly ever is one parked. */
	if (now < cm->park_next)
		return;
	for (unsigned i = 0; i < URXE_CM_PARKED; i++) {
		struct urxe_cm_parked p = cm->parked[i];
		bool listens;

		if (!p.next || now < p.next)
			continue;
		listens = listened_for(cm, &p);
		if (!listens && now < p.until) {
			cm->parked[i].next = now + AGAIN_NS;
			continue;
		}
		cm->parked[i].next = 0;
		if (served(cm, &p))
			cm->counters.duplicates++;
		else if (is_sidr(p.mad))
			urxe_cm_new_sidr_req(cm, &p.src, p.mad, false);
		else
			urxe_cm_new_req(cm, &p.src, p.mad, false);
	}
	find_first(cm);
}
