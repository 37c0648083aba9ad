/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ICMP errors about requests. Only what quotes the very REQ or SIDR_REQ that waits is believed: its
 * transaction id and comm id are random, so who is not on the way cannot make it up.
 *
 * A router's word ends the wait at once. The word of the host at the peer's own address does not:
 * where a port is a kernel's interface, that kernel may have the address as well; it gets the same
 * frames and, with nobody on UDP port 4791, refuses them while the peer is about to answer. So it
 * must refuse unreachable_sends sends, and no MAD may come from that address meanwhile.
 */
#include <errno.h>
#include <string.h>

#include "cm/core/cm_priv.h"

#define QUOTE_MIN 28u /* the MAD header, and the comm id or request id behind it */

int urxe_cm_doubt(const struct urxe_cm_id *id, unsigned sends)
{
	if (!id->doubt.sends || id->doubt.sends < sends ||
	    urxe_cm_peer_heard(id) >= id->doubt.since)
		return 0;
	return id->doubt.err;
}

bool urxe_cm_nobody_there(const struct urxe_cm_id *id)
{
	return urxe_cm_doubt(id, id->cm->cfg.unreachable_sends) != 0;
}

void urxe_cm_gave_up(struct urxe_cm_id *id, struct urxe_cm_step *s, int err)
{
	s->ev.type = id->state == URXE_CM_SIDR_REQ_SENT ? URXE_CM_EV_SIDR_REQ_ERROR
							: URXE_CM_EV_REQ_ERROR;
	s->ev.error = err;
	if (err)
		id->cm->counters.unreachable++;
}

/* The next send is what the peer has to answer: it need not wait for its whole time. */
static void doubt(struct urxe_cm_id *id, int err)
{
	struct urxe_cm *cm = id->cm;
	uint64_t now = cm->ops->now(cm->arg), first = cm->cfg.first_ms * URXE_CM_MS;

	if (id->doubt.last == id->tries)
		return;
	if (!id->doubt.sends)
		id->doubt.since = now;
	id->doubt.err = err;
	id->doubt.last = id->tries;
	id->doubt.sends++;
	if (urxe_cm_doubt(id, 1) && id->timer.when > now + first)
		urxe_cm_arm(id, first);
}

int urxe_cm_act_unreachable(struct urxe_cm_id *id, struct urxe_cm_step *s)
{
	const struct urxe_cm_unreachable *e = s->param;

	if (!memcmp(&e->from, &id->path.dgid, sizeof(e->from))) {
		/* A peer that is to ask us as well may be about to start. */
		if (!id->peer)
			doubt(id, e->err);
		return URXE_CM_STAY;
	}
	urxe_cm_gave_up(id, s, e->err);
	return id->state == URXE_CM_REQ_SENT ? urxe_cm_act_drop_req(id, s) : 0;
}

void urxe_cm_unreachable(struct urxe_cm *cm, const struct urxe_cm_unreachable *e)
{
	uint32_t len = e->len < URXE_MAD_LEN ? e->len : URXE_MAD_LEN;
	struct urxe_cm_step s = {.param = e};
	uint8_t m[URXE_MAD_LEN] = {0};
	struct urxe_cm_id *id = NULL;

	memcpy(m, e->mad, len);
	/* A SIDR_REQ has its request id in the same place (tables 106, 119). */
	if (len >= QUOTE_MIN)
		id = urxe_cm_find_local(cm, urxe_mad_get32(m, URXE_REQ_LOCAL_COMM_ID));
	if (!id) {
		cm->counters.drop_unknown_id++;
		return;
	}
	if (memcmp(id->mad, m, len) || memcmp(&id->path.dgid, &e->dgid, sizeof(e->dgid)) ||
	    memcmp(&id->path.sgid, &e->sgid, sizeof(e->sgid))) {
		cm->counters.drop_wrong_source++;
		return;
	}
	urxe_cm_do(id, URXE_CM_IN_UNREACHABLE, &s);
}
