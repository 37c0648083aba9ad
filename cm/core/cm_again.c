/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests that are rejected because nobody listens, while the listener may be about to come: they
 * are sent again. A CM that does not park them (cm_park.c; the kernel's does not, nor do ours on a
 * fabric, where the listener may come in another process) rejects at once.
 *
 * Once, in a moment, is enough for programs that agree by other means, then one listens and the
 * other connects. Who is connected with a service already has more patience: perftest, for one,
 * listens for its first connection, then listens anew on the same port for those that it measures,
 * and a busy machine takes long to get there.
 */
#include <string.h>

#include "cm/core/cm_priv.h"

#define AGAIN_MOST 5 /* of who is connected: 1.6 s in all */

/* What is remembered of @id's peer and service; NULL: nothing. */
static struct urxe_cm_service *find(const struct urxe_cm_id *id)
{
	struct urxe_cm *cm = id->cm;

	for (unsigned i = 0; i < URXE_CM_SERVICES; i++) {
		struct urxe_cm_service *s = &cm->services[i];

		if (s->id == id->service_id && !memcmp(&s->peer, &id->path.dgid, sizeof(s->peer)))
			return s;
	}
	return NULL;
}

void urxe_cm_note_service(const struct urxe_cm_id *id)
{
	struct urxe_cm *cm = id->cm;
	struct urxe_cm_service *s = find(id);

	if (!s)
		s = &cm->services[cm->next_service++ % URXE_CM_SERVICES];
	s->peer = id->path.dgid;
	s->id = id->service_id;
	s->comm_id = id->local_comm_id;
}

/* Is it the service of a connection that there is? */
static bool is_connected(const struct urxe_cm_id *id)
{
	const struct urxe_cm_service *s = find(id);
	const struct urxe_cm_id *other = s ? urxe_cm_find_local(id->cm, s->comm_id) : NULL;

	return other && other->state == URXE_CM_ESTABLISHED;
}

bool urxe_cm_ask_again(struct urxe_cm_id *id)
{
	struct urxe_cm *cm = id->cm;
	uint64_t first = cm->cfg.first_ms * URXE_CM_MS, again = cm->cfg.refused_ms * URXE_CM_MS;

	if (is_connected(id)) {
		if (id->refused >= AGAIN_MOST || !urxe_cm_may_try(id, cm->cfg.req_tries))
			return false;
		again <<= id->refused;
	} else if (id->refused || id->tries != 1 ||
		   cm->ops->now(cm->arg) + first > id->timer.when + again) {
		return false;
	}
	id->refused++;
	urxe_cm_arm(id, again);
	return true;
}
