/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * `urxe status`: QPs. What there is to know of one is copied under its lock, and written down
 * without any; a read-side section is no longer than a few QPs take.
 */
#include "names.h"
#include "provider.h"
#include "rcu.h"
#include "status.h"
#include "urxe/gid.h"

#define CHUNK 32

/* A copy of a QP: a zero where it has nothing of the kind. */
struct row {
	uint32_t qpn, peer_qpn, mtu, scqn, rcqn;
	uint8_t type, state, resp_state;
	bool gsi, has_peer, rnr_wait;
	uint8_t dgid[16];
	/* requester */
	uint32_t psn, una, max_psn, posted, unsent;
	const struct urxe_cc_ops *cc; /* NULL: it has not begun to send */
	struct urxe_cc_allowed allowed;
	uint64_t srtt, rttvar;
	uint8_t retry_cnt, retries, rnr_retry, rnr_retries;
	uint8_t nak;
	uint32_t nak_psn;
	uint64_t nak_age;
	/* responder */
	uint32_t epsn, msn, receives;
	uint8_t sent_nak;
	uint32_t sent_nak_psn;
};

static bool is_connected(const struct urxe_qp *qp)
{
	return qp->type != IBV_QPT_UD && qp->type != IBV_QPT_RAW_PACKET;
}

static void copy_requester(struct row *row, const struct urxe_qp *qp, uint64_t now)
{
	const struct urxe_requester *r = &qp->req;

	row->psn = r->psn;
	row->una = r->una;
	row->max_psn = r->max_psn;
	row->cc = r->cc.ops;
	if (row->cc)
		row->allowed = urxe_cc_allowed(&r->cc);
	row->posted = qp->sq.post - qp->sq.done;
	row->unsent = qp->sq.post - qp->sq.cur;
	row->srtt = atomic_load_explicit(&r->rtt.srtt, memory_order_relaxed);
	row->rttvar = atomic_load_explicit(&r->rtt.var, memory_order_relaxed);
	row->retry_cnt = qp->attr.retry_cnt;
	row->rnr_retry = qp->attr.rnr_retry;
	/* They count down. */
	row->retries = (uint8_t)(qp->attr.retry_cnt - r->retries);
	row->rnr_retries = (uint8_t)(qp->attr.rnr_retry - r->rnr_retries);
	row->rnr_wait = r->rnr_wait;
	row->nak = r->last_nak;
	row->nak_psn = r->last_nak_psn;
	row->nak_age = now > r->last_nak_at ? now - r->last_nak_at : 0;
}

static void copy_responder(struct row *row, struct urxe_qp *qp)
{
	const struct urxe_responder *r = &qp->resp;

	row->resp_state = r->state;
	row->epsn = r->epsn;
	row->msn = r->msn;
	row->sent_nak = r->nak_syndrome;
	row->sent_nak_psn = r->nak_psn;
	urxe_spin_lock(&qp->rq->lock);
	row->receives = qp->rq->head - qp->rq->tail;
	urxe_spin_unlock(&qp->rq->lock);
}

/* False: it is just being destroyed. RCU read-side. */
static bool copy(struct row *row, struct urxe_qp *qp, uint64_t now)
{
	bool there;

	memset(row, 0, sizeof(*row));
	urxe_spin_lock(&qp->lock);
	there = !qp->destroyed;
	if (there) {
		row->qpn = qp->qpn;
		row->type = qp->type;
		row->gsi = qp->gsi;
		row->state = qp->state;
		row->mtu = qp->mtu;
		row->scqn = qp->scq ? qp->scq->number : 0;
		row->rcqn = qp->rcq ? qp->rcq->number : 0;
		row->has_peer = is_connected(qp) && qp->path;
		row->peer_qpn = row->has_peer ? qp->dqpn : 0;
		memcpy(row->dgid, qp->dgid, sizeof(row->dgid));
		copy_requester(row, qp, now);
		copy_responder(row, qp);
	}
	urxe_spin_unlock(&qp->lock);
	return there;
}

static void put_nak(struct urxe_json *j, const char *key, uint8_t syndrome, uint32_t psn,
		    const uint64_t *age)
{
	const char *name = urxe_nak_name(syndrome);

	if (!name) {
		urxe_json_string(j, key, NULL);
		return;
	}
	urxe_json_object(j, key);
	urxe_json_string(j, "name", name);
	urxe_json_number(j, "psn", psn);
	if (age)
		urxe_json_number(j, "age_ns", *age);
	urxe_json_end(j);
}

static void put_requester(struct urxe_json *j, const struct row *r)
{
	urxe_json_object(j, "requester");
	urxe_json_number(j, "psn", r->psn);
	urxe_json_number(j, "una", r->una);
	urxe_json_number(j, "max_psn", r->max_psn);
	urxe_json_number(j, "posted", r->posted);
	urxe_json_number(j, "unsent", r->unsent);
	urxe_json_string(j, "congestion_control", r->cc ? r->cc->name : NULL);
	urxe_json_number(j, "window", r->allowed.packets);
	urxe_json_number(j, "rate_kbps", r->allowed.kbps);
	urxe_json_number(j, "srtt_ns", r->srtt);
	urxe_json_number(j, "rttvar_ns", r->rttvar);
	urxe_json_number(j, "retries", r->retries);
	urxe_json_number(j, "retry_cnt", r->retry_cnt);
	urxe_json_number(j, "rnr_retries", r->rnr_retries);
	urxe_json_number(j, "rnr_retry", r->rnr_retry);
	urxe_json_bool(j, "rnr_wait", r->rnr_wait);
	put_nak(j, "last_nak", r->nak, r->nak_psn, &r->nak_age);
	urxe_json_end(j);
}

static void put_responder(struct urxe_json *j, const struct row *r)
{
	urxe_json_object(j, "responder");
	urxe_json_string(j, "state", urxe_resp_state_name(r->resp_state));
	urxe_json_number(j, "epsn", r->epsn);
	urxe_json_number(j, "msn", r->msn);
	put_nak(j, "last_nak", r->sent_nak, r->sent_nak_psn, NULL);
	urxe_json_end(j);
}

static void put_row(struct urxe_json *j, const struct row *r)
{
	char gid[URXE_GID_STRLEN];

	urxe_json_object(j, NULL);
	urxe_json_number(j, "qpn", r->qpn);
	urxe_json_string(j, "type", r->gsi ? "GSI" : urxe_qp_type_name(r->type));
	urxe_json_string(j, "state", urxe_qp_state_name(r->state));
	urxe_json_string(j, "peer", r->has_peer ? urxe_gid_print(r->dgid, gid, sizeof(gid)) : NULL);
	urxe_json_number(j, "peer_qpn", r->peer_qpn);
	urxe_json_number(j, "path_mtu", r->mtu);
	urxe_json_number(j, "send_cqn", r->scqn);
	urxe_json_number(j, "recv_cqn", r->rcqn);
	urxe_json_number(j, "receives", r->receives);
	put_requester(j, r);
	put_responder(j, r);
	urxe_json_end(j);
}

void urxe_status_put_qps(struct urxe_json *j, struct urxe_device *dev)
{
	uint64_t now = urxe_port_now(dev->port);
	struct row rows[CHUNK];
	struct urxe_qp *qp;
	unsigned i = 0, n = 0;

	urxe_json_array(j, "qps");
	urxe_rcu_read_lock();
	qp = atomic_load_explicit(&dev->gsi, memory_order_acquire);
	if (qp && copy(&rows[0], qp, now))
		n = 1;
	do {
		for (; n < CHUNK && (qp = urxe_table_next(&dev->qps, &i)); i++)
			n += copy(&rows[n], qp, now);
		urxe_rcu_read_unlock();
		for (unsigned k = 0; k < n; k++)
			put_row(j, &rows[k]);
		n = 0;
		urxe_rcu_read_lock();
	} while (qp);
	urxe_rcu_read_unlock();
	urxe_json_end(j);
}
