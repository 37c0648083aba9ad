/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The end of a peer's process, where the link tells of it at once (the local fabric). What its CM
 * would have said, had it been able to, is taken as said: a kernel disconnects a dead process's
 * connections and rejects its requests.
 */
#include <errno.h>
#include <stdlib.h>

#include "cm/core/cm_priv.h"

/* What an id in this state would have got of it. */
static enum urxe_cm_input last_word(const struct urxe_cm_id *id)
{
	switch (id->state) {
	case URXE_CM_REP_WAIT:
	case URXE_CM_REQ_RCVD:
	case URXE_CM_MRA_REQ_SENT:
	case URXE_CM_REP_RCVD:
	case URXE_CM_MRA_REP_SENT:
	case URXE_CM_REP_SENT:
	case URXE_CM_MRA_REP_RCVD:
		return URXE_CM_IN_REJ;
	case URXE_CM_ESTABLISHED:
		return URXE_CM_IN_DREQ;
	case URXE_CM_DREQ_SENT:
		return URXE_CM_IN_DREP;
	default:
		return URXE_CM_N_INPUTS;
	}
}

static void hear(struct urxe_cm_id *id, enum urxe_cm_input in)
{
	const struct urxe_cm_source src = {
		.sgid = id->path.dgid,
		.dgid = id->path.sgid,
		.dgid_index = id->path.sgid_index,
		.port_num = 1,
		.traffic_class = id->path.traffic_class,
		.qpn = 1,
	};
	uint8_t m[URXE_MAD_LEN];
	struct urxe_cm_step s = {.mad = m, .src = &src};

	if (in == URXE_CM_IN_REJ) {
		urxe_mad_init(m, URXE_MAD_REJ, id->tid);
		urxe_mad_put(m, URXE_REJ_MESSAGE_REJECTED, URXE_CM_ANSWER_OTHER);
		urxe_mad_put(m, URXE_REJ_REASON, URXE_CM_REJ_CONSUMER);
	} else {
		urxe_mad_init(m, in == URXE_CM_IN_DREQ ? URXE_MAD_DREQ : URXE_MAD_DREP, id->tid);
	}
	/* All have the comm ids in the same places (tables 106 to 115). */
	urxe_mad_put(m, URXE_REP_LOCAL_COMM_ID, id->remote_comm_id);
	urxe_mad_put(m, URXE_REP_REMOTE_COMM_ID, id->local_comm_id);
	urxe_cm_do(id, in, &s);
}

/*
 * Of a request without any answer nobody knows who had it. If it was the dead one it now finds
 * another listener, or none, or the address is nobody's any more: then that is known at once. If
 * not, it is a duplicate.
 */
static void ask_others(struct urxe_cm_id *id)
{
	const struct urxe_cm_ops *ops = id->cm->ops;
	const struct urxe_cm_unreachable u = {.err = EHOSTUNREACH};
	struct urxe_cm_step s = {.param = &u};

	if (ops->nobody && ops->nobody(id->cm->arg, &id->path)) {
		urxe_cm_do(id, URXE_CM_IN_UNREACHABLE, &s);
		return;
	}
	urxe_cm_count_retry(id, urxe_mad_get16(id->mad, URXE_HDR_ATTR_ID));
	urxe_cm_send_mad(id->cm, &id->path, id->mad);
}

static void gone(struct urxe_cm_id *id, uint32_t bits, uint32_t mask)
{
	uint32_t peer = id->state == URXE_CM_REP_WAIT ? id->mra_comm_id : id->remote_comm_id;
	enum urxe_cm_input in = last_word(id);
	const struct urxe_cm_ops *ops = id->cm->ops;

	/* Comm ids from elsewhere are of any kind, and the way there may come back. */
	if (ops->far && ops->far(id->cm->arg, &id->path))
		return;
	if (id->state == URXE_CM_REQ_SENT || id->state == URXE_CM_SIDR_REQ_SENT)
		ask_others(id);
	else if (in != URXE_CM_N_INPUTS && peer && (peer & mask) == bits)
		hear(id, in);
}

void urxe_cm_gone(struct urxe_cm *cm, uint32_t bits, uint32_t mask)
{
	struct urxe_hash_node *node = NULL;
	uint64_t *ids; /* of 32 bits: @free asks for a pointer's size */
	size_t n = 0;

	if (!cm->n_ids)
		return;
	ids = calloc(cm->n_ids, sizeof(*ids));
	/* Without memory the retries find out. */
	if (!ids)
		return;
	/* Handlers may destroy any id. */
	while ((node = urxe_hash_next(&cm->by_local, node)))
		ids[n++] = caa_container_of(node, struct urxe_cm_id, by_local)->local_comm_id;
	for (size_t i = 0; i < n; i++) {
		struct urxe_cm_id *id = urxe_cm_find_local(cm, (uint32_t)ids[i]);

		if (id)
			gone(id, bits, mask);
	}
	cm->ops->free(ids);
}
