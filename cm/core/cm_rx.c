/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Received MADs: which id is meant, and may this sender mean it? A MAD from another address or QP
 * than the connection's peer, or with another comm id than the peer's, is dropped here and moves
 * nothing.
 */
#include <errno.h>
#include <string.h>

#include "cm/core/cm_priv.h"
#include "cm/core/trace.h"
#include "urxe/log.h"

static bool gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a->raw, b->raw, sizeof(a->raw));
}

static bool by_path(const struct urxe_cm_path *p, const struct urxe_cm_source *src)
{
	return gid_equal(&p->dgid, &src->sgid) && gid_equal(&p->sgid, &src->dgid);
}

/* By the alternate path it may come, too: one side knows earlier than the other of a migration. */
static bool from_peer(const struct urxe_cm_id *id, const struct urxe_cm_source *src)
{
	return by_path(&id->path, src) ||
	       (id->alt && id->alt->has_path && by_path(&id->alt->path, src));
}

static bool stale_req(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad)
{
	struct urxe_cm_step s = {0};
	struct urxe_cm_id *old =
		urxe_cm_find_qp(cm, &src->sgid, urxe_mad_get(mad, URXE_REQ_LOCAL_CA_GUID),
				urxe_mad_get32(mad, URXE_REQ_LOCAL_QPN));

	if (!old)
		return false;
	/* It is the one that was dropped of two REQs that met (12.10.4), once more. */
	if (old->peer && old->active &&
	    old->remote_comm_id == urxe_mad_get(mad, URXE_REQ_LOCAL_COMM_ID)) {
		s.mad = mad;
		s.src = src;
		urxe_cm_do(old, URXE_CM_IN_REQ, &s);
		return true;
	}
	if (urxe_cm_allows(old->state, URXE_CM_IN_STALE))
		urxe_cm_do(old, URXE_CM_IN_STALE, &s);
	urxe_cm_answer_rej(cm, src, mad, URXE_CM_REJ_STALE_CONN, NULL, 0);
	return true;
}

/*
 * An id of ours that asks the same peer for the same service may be meant; else REQ ids are made
 * here, and belong to nobody until a listener's handler takes them.
 */
void urxe_cm_new_req(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
		     bool may_wait)
{
	uint64_t service_id = urxe_mad_get(mad, URXE_REQ_SERVICE_ID);
	struct urxe_cm_id *listener = urxe_cm_find_service(cm, service_id);
	struct urxe_cm_step s = {.mad = mad, .src = src, .listener = listener};
	struct urxe_cm_id *id;

	if (stale_req(cm, src, mad))
		return;
	id = urxe_cm_find_waiting(cm, src, mad);
	if (id) {
		s.listener = NULL;
		urxe_cm_do(id, URXE_CM_IN_REQ, &s);
		return;
	}
	if (!listener) {
		if (!may_wait || !urxe_cm_park(cm, src, mad))
			urxe_cm_answer_rej(cm, src, mad, URXE_CM_REJ_INVALID_SERVICE_ID, NULL, 0);
		return;
	}
	id = urxe_cm_new_id(cm, listener->handler, listener->context);
	if (!id) {
		/* No answer: the peer retransmits. */
		cm->counters.drop_no_memory++;
		return;
	}
	if (urxe_cm_do(id, URXE_CM_IN_REQ, &s))
		urxe_cm_free_id(id);
}

static bool own_alternate(struct urxe_cm *cm, const uint8_t *mad)
{
	union ibv_gid gid;

	memcpy(gid.raw, urxe_mad_cbytes(mad, URXE_REQ_ALTERNATE_REMOTE_GID), sizeof(gid.raw));
	return cm->ops->own_gid(cm->arg, &gid) >= 0;
}

static void rx_req(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad)
{
	uint32_t comm_id = urxe_mad_get32(mad, URXE_REQ_LOCAL_COMM_ID);
	uint8_t mtu = urxe_mad_get8(mad, URXE_REQ_PATH_MTU), max_mtu;
	struct urxe_cm_id *id;

	if (memcmp(urxe_mad_cbytes(mad, URXE_REQ_PRIMARY_LOCAL_GID), src->sgid.raw, 16)) {
		cm->counters.drop_wrong_source++;
		return;
	}
	/* Any QPN: whose it is is the consumer's business, as with the kernel's CM. */
	if (!comm_id || mtu < IBV_MTU_256 || mtu > IBV_MTU_4096) {
		cm->counters.drop_malformed++;
		return;
	}
	id = urxe_cm_find_remote(cm, &src->sgid, urxe_mad_get(mad, URXE_REQ_LOCAL_CA_GUID),
				 comm_id);
	if (id) {
		struct urxe_cm_step s = {.mad = mad, .src = src};

		if (from_peer(id, src))
			urxe_cm_do(id, URXE_CM_IN_REQ, &s);
		else
			cm->counters.drop_wrong_source++;
		return;
	}
	if (memcmp(urxe_mad_cbytes(mad, URXE_REQ_PRIMARY_REMOTE_GID), src->dgid.raw, 16)) {
		urxe_cm_answer_rej(cm, src, mad, URXE_CM_REJ_INVALID_GID, NULL, 0);
		return;
	}
	if (!urxe_cm_req_qp_type(mad)) {
		urxe_cm_answer_rej(cm, src, mad, URXE_CM_REJ_INVALID_TRANSPORT_TYPE, NULL, 0);
		return;
	}
	if (urxe_cm_req_has_alternate(mad) && !own_alternate(cm, mad)) {
		urxe_cm_answer_rej(cm, src, mad, URXE_CM_REJ_INVALID_ALT_GID, NULL, 0);
		return;
	}
	max_mtu = cm->ops->max_mtu ? cm->ops->max_mtu(cm->arg, src) : cm->cfg.max_mtu;
	if (mtu > max_mtu) {
		/* Table 109: the information is the MTU that would do. */
		urxe_cm_answer_rej(cm, src, mad, URXE_CM_REJ_INVALID_MTU, &max_mtu, 1);
		return;
	}
	urxe_cm_new_req(cm, src, mad, true);
}

void urxe_cm_new_sidr_req(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
			  bool park)
{
	uint32_t request = urxe_mad_get32(mad, URXE_SIDR_REQ_REQUEST_ID);
	struct urxe_cm_id *id = urxe_cm_find_remote(cm, &src->sgid, 0, request);
	struct urxe_cm_step s = {.mad = mad, .src = src};
	struct urxe_cm_path path;
	uint8_t m[URXE_MAD_LEN];

	if (id) {
		urxe_cm_do(id, URXE_CM_IN_SIDR_REQ, &s);
		return;
	}
	if (urxe_cm_refused(cm, src, mad))
		return;
	s.listener = urxe_cm_find_service(cm, urxe_mad_get(mad, URXE_SIDR_REQ_SERVICE_ID));
	if (s.listener) {
		id = urxe_cm_new_id(cm, s.listener->handler, s.listener->context);
		if (!id)
			cm->counters.drop_no_memory++;
		else
			urxe_cm_do(id, URXE_CM_IN_SIDR_REQ, &s);
		return;
	}
	if (park && urxe_cm_park(cm, src, mad))
		return;
	urxe_mad_init(m, URXE_MAD_SIDR_REP, urxe_mad_get(mad, URXE_HDR_TID));
	urxe_mad_put(m, URXE_SIDR_REP_REQUEST_ID, request);
	urxe_mad_put(m, URXE_SIDR_REP_STATUS, URXE_CM_SIDR_UNSUPPORTED);
	urxe_mad_put(m, URXE_SIDR_REP_SERVICE_ID, urxe_mad_get(mad, URXE_SIDR_REQ_SERVICE_ID));
	urxe_cm_path_back(src, &path);
	urxe_cm_send_mad(cm, &path, m);
}

/* REJ of a REQ before we answered: the peer knows no comm id of ours, but its GUID is in it. */
static struct urxe_cm_id *find_rej_timeout(struct urxe_cm *cm, const struct urxe_cm_source *src,
					   const uint8_t *mad)
{
	const uint8_t *ari = urxe_mad_cbytes(mad, URXE_REJ_ARI);
	uint64_t guid = 0;

	if (urxe_mad_get(mad, URXE_REJ_REASON) != URXE_CM_REJ_TIMEOUT ||
	    urxe_mad_get(mad, URXE_REJ_REJECTED_INFO_LENGTH) != 8)
		return NULL;
	for (unsigned i = 0; i < 8; i++)
		guid = guid << 8 | ari[i];
	return urxe_cm_find_remote(cm, &src->sgid, guid,
				   urxe_mad_get32(mad, URXE_REJ_LOCAL_COMM_ID));
}

/* May the message's sender comm id stand for this id's peer? Before REP it is not known. */
static bool right_comm_id(const struct urxe_cm_id *id, enum urxe_cm_input in, uint32_t sender)
{
	if (id->remote_comm_id)
		return id->remote_comm_id == sender ||
		       /* a REJ by a peer that has no id any more */
		       (in == URXE_CM_IN_REJ && !sender);
	return in == URXE_CM_IN_REP ? sender != 0
				    : in == URXE_CM_IN_REJ || in == URXE_CM_IN_MRA_REQ;
}

static void rx_unknown(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
		       enum urxe_cm_input in)
{
	cm->counters.drop_unknown_id++;
	/* Neither answer is answered: no two CMs can keep each other busy by this. */
	if (in == URXE_CM_IN_REP)
		urxe_cm_answer_rej(cm, src, mad, URXE_CM_REJ_INVALID_COMM_ID, NULL, 0);
	else if (in == URXE_CM_IN_DREQ)
		urxe_cm_answer_drep(cm, src, mad);
}

/*
 * Of a REQ: that the peer has answered by a REP, so it is a copy that somebody else got, or came
 * when its listener was gone; or that was forgotten, from before the peer asked.
 */
static bool is_late_rej(const struct urxe_cm_id *id, const uint8_t *mad)
{
	return urxe_mad_get(mad, URXE_REJ_MESSAGE_REJECTED) == URXE_CM_ANSWER_REQ &&
	       (id->active ? id->remote_comm_id != 0 : id->peer);
}

static void rx_pair(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
		    enum urxe_cm_input in)
{
	uint32_t sender = urxe_mad_get32(mad, URXE_REP_LOCAL_COMM_ID);
	uint32_t own = urxe_mad_get32(mad, URXE_REP_REMOTE_COMM_ID);
	struct urxe_cm_step s = {.mad = mad, .src = src};
	struct urxe_cm_id *id;

	if (in == URXE_CM_IN_REJ && !own)
		id = find_rej_timeout(cm, src, mad);
	else
		id = urxe_cm_find_local(cm, own);
	if (!id || id->state == URXE_CM_IDLE || id->state == URXE_CM_LISTEN) {
		rx_unknown(cm, src, mad, in);
		return;
	}
	if (!from_peer(id, src) || !right_comm_id(id, in, sender) ||
	    (in == URXE_CM_IN_DREQ && urxe_mad_get(mad, URXE_DREQ_REMOTE_QPN) != id->local_qpn) ||
	    (in == URXE_CM_IN_LAP && urxe_mad_get(mad, URXE_LAP_REMOTE_QPN) != id->local_qpn)) {
		cm->counters.drop_wrong_source++;
		urxe_debug("cm %08x: %s not from its peer, dropped", id->local_comm_id,
			   urxe_cm_input_names[in]);
		return;
	}
	if (in == URXE_CM_IN_REJ && is_late_rej(id, mad)) {
		cm->counters.drop_state++;
		return;
	}
	urxe_cm_do(id, in, &s);
}

static void rx_mra(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad)
{
	switch (urxe_mad_get(mad, URXE_MRA_MESSAGE_MRAED)) {
	case URXE_CM_ANSWER_REQ:
		rx_pair(cm, src, mad, URXE_CM_IN_MRA_REQ);
		break;
	case URXE_CM_ANSWER_REP:
		rx_pair(cm, src, mad, URXE_CM_IN_MRA_REP);
		break;
	case URXE_CM_ANSWER_OTHER:
		rx_pair(cm, src, mad, URXE_CM_IN_MRA_LAP);
		break;
	default:
		cm->counters.drop_malformed++;
		break;
	}
}

static void rx_sidr_rep(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad)
{
	struct urxe_cm_step s = {.mad = mad, .src = src};
	struct urxe_cm_id *id =
		urxe_cm_find_local(cm, urxe_mad_get32(mad, URXE_SIDR_REP_REQUEST_ID));

	if (!id || id->state != URXE_CM_SIDR_REQ_SENT)
		cm->counters.drop_unknown_id++;
	else if (!from_peer(id, src) ||
		 urxe_mad_get(mad, URXE_SIDR_REP_SERVICE_ID) != id->service_id)
		cm->counters.drop_wrong_source++;
	else
		urxe_cm_do(id, URXE_CM_IN_SIDR_REP, &s);
}

static void rx_mad(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
		   uint16_t attr)
{
	/* GSI to GSI (13.5.1.3). */
	if (src->qpn != 1) {
		cm->counters.drop_wrong_source++;
		return;
	}
	urxe_trace_mad_rx(mad);
	switch (attr) {
	case URXE_MAD_REQ:
		rx_req(cm, src, mad);
		break;
	case URXE_MAD_MRA:
		rx_mra(cm, src, mad);
		break;
	case URXE_MAD_REJ:
		rx_pair(cm, src, mad, URXE_CM_IN_REJ);
		break;
	case URXE_MAD_REP:
		rx_pair(cm, src, mad, URXE_CM_IN_REP);
		break;
	case URXE_MAD_RTU:
		rx_pair(cm, src, mad, URXE_CM_IN_RTU);
		break;
	case URXE_MAD_DREQ:
		rx_pair(cm, src, mad, URXE_CM_IN_DREQ);
		break;
	case URXE_MAD_DREP:
		rx_pair(cm, src, mad, URXE_CM_IN_DREP);
		break;
	case URXE_MAD_SIDR_REQ:
		urxe_cm_new_sidr_req(cm, src, mad, true);
		break;
	case URXE_MAD_SIDR_REP:
		rx_sidr_rep(cm, src, mad);
		break;
	case URXE_MAD_LAP:
		rx_pair(cm, src, mad, URXE_CM_IN_LAP);
		break;
	case URXE_MAD_APR:
		rx_pair(cm, src, mad, URXE_CM_IN_APR);
		break;
	default: /* urxe_mad_check() knows no others */
		break;
	}
}

/* Why MADs are dropped: X(name, counter). */
#define DROPS(X)                           \
	X(malformed, drop_malformed)       \
	X(wrong_source, drop_wrong_source) \
	X(unknown_id, drop_unknown_id)     \
	X(state, drop_state)               \
	X(no_memory, drop_no_memory)       \
	X(backlog, drop_backlog)
#define DROP_NAME(name, counter)  #name,
#define DROP_VALUE(name, counter) c->counter,

static const char *const drop_names[] = {DROPS(DROP_NAME)};
#define N_DROPS (sizeof(drop_names) / sizeof(drop_names[0]))

static void copy_drops(uint64_t to[N_DROPS], const struct urxe_cm_counters *c)
{
	const uint64_t values[N_DROPS] = {DROPS(DROP_VALUE)};

	memcpy(to, values, sizeof(values));
}

/* Was the MAD dropped, by what the counters were before it and are now? NULL: it was not. */
static const char *drop_reason(const uint64_t before[N_DROPS], const struct urxe_cm_counters *c)
{
	uint64_t now[N_DROPS];

	copy_drops(now, c);
	for (unsigned i = 0; i < N_DROPS; i++)
		if (now[i] != before[i])
			return drop_names[i];
	return NULL;
}

void urxe_cm_recv(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
		  uint32_t len)
{
	uint64_t before[N_DROPS];
	const char *reason;
	uint16_t attr;

	if (urxe_mad_check(mad, len)) {
		cm->counters.drop_malformed++;
		urxe_trace_mad_drop(0, 0, "malformed");
		return;
	}
	copy_drops(before, &cm->counters);
	cm->heard[urxe_cm_peer_hash(cm, &src->sgid)] = cm->ops->now(cm->arg);
	attr = urxe_mad_get16(mad, URXE_HDR_ATTR_ID);
	cm->counters.received[attr - URXE_MAD_REQ]++;
	rx_mad(cm, src, mad, attr);
	reason = drop_reason(before, &cm->counters);
	if (!reason)
		return;
	cm->counters.dropped[attr - URXE_MAD_REQ]++;
	urxe_trace_mad_drop(attr, (uint32_t)urxe_mad_get(mad, URXE_REP_LOCAL_COMM_ID), reason);
}
