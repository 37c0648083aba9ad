/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How long a peer takes to answer at present. One that is busy with a thousand requests has ours
 * among them: to send it once more makes the queue longer, for all of them, and each of those that
 * come twice is answered twice.
 */
#include "cm/core/cm_priv.h"

#define LONGEST (1000 * URXE_CM_MS)

/* What waits for an answer in this state, or NULL. */
static uint64_t *answer_of(const struct urxe_cm_id *id)
{
	unsigned peer = urxe_cm_peer_hash(id->cm, &id->path.dgid);

	switch (id->state) {
	case URXE_CM_REQ_SENT:
		return &id->cm->answer_ns[0][peer];
	case URXE_CM_REP_SENT:
		return &id->cm->answer_ns[1][peer];
	case URXE_CM_DREQ_SENT:
		return &id->cm->answer_ns[2][peer];
	default:
		return NULL;
	}
}

/* The longest of late: one that took less counts for an eighth. */
void urxe_cm_answered(const struct urxe_cm_id *id)
{
	uint64_t *answer = answer_of(id), took = id->cm->ops->now(id->cm->arg) - id->since;

	if (!answer)
		return;
	if (took > LONGEST)
		took = LONGEST;
	*answer = took > *answer ? took : *answer - (*answer - took) / 8;
}

bool urxe_cm_in_line(struct urxe_cm_id *id)
{
	const uint64_t *answer = answer_of(id);
	uint64_t heard = urxe_cm_peer_heard(id), first = id->cm->cfg.first_ms * URXE_CM_MS;
	uint64_t now = id->cm->ops->now(id->cm->arg), until;

	/* Of a peer that answers nobody there is no queue. */
	if (!answer || id->tries != 1 || id->wait_ms || heard <= id->since || heard + first <= now)
		return false;
	until = id->since + *answer + *answer / 2;
	if (until <= now)
		return false;
	urxe_cm_arm(id, until < now + first ? until - now : first);
	return true;
}
