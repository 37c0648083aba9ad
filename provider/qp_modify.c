/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_modify_qp: the table of transitions with their required and optional attributes
 * (IBTA 11.2.5.2, table 91), the checks of each attribute, and what a transition does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "apm.h"
#include "early.h"
#include "pending.h"
#include "progress.h"
#include "rate.h"
#include "responder.h"
#include "retry.h"

enum qp_class {
	CLASS_RC,
	CLASS_UC,
	CLASS_UD,
	CLASS_RAW,
	CLASS_XI, /* XRC_SEND: of RC what the requester needs */
	CLASS_XT, /* XRC_RECV: of RC what the responder needs */
	CLASSES
};

struct transition {
	uint8_t from, to;
	struct {
		int required, optional;
	} of[CLASSES];
};

#define S(x) IBV_QPS_##x
#define A(x) IBV_QP_##x

#define INIT_CONN (A(PKEY_INDEX) | A(PORT) | A(ACCESS_FLAGS))
#define INIT_UD	  (A(PKEY_INDEX) | A(PORT) | A(QKEY))
#define RTR_CONN  (A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN))
#define RTR_RESP  (A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER))
#define RTR_OPT	  (A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX))
#define RTR_UD	  (A(PKEY_INDEX) | A(QKEY))
#define RTS_REQ	  (A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(SQ_PSN) | A(MAX_QP_RD_ATOMIC))
#define RTS_CONN  (A(CUR_STATE) | A(ACCESS_FLAGS) | A(ALT_PATH) | A(PATH_MIG_STATE) | A(RATE_LIMIT))
#define RTS_RESP  (RTS_CONN | A(MIN_RNR_TIMER))
#define RTS_UD	  (A(CUR_STATE) | A(QKEY) | A(RATE_LIMIT))
#define RTS_RAW	  (A(CUR_STATE) | A(RATE_LIMIT))
#define SQD_CONN  (A(AV) | A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX) | A(PATH_MIG_STATE))
#define SQD_REQ	  (A(PORT) | A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(MAX_QP_RD_ATOMIC))
#define NOTIFY	  A(EN_SQD_ASYNC_NOTIFY)

/*
 * What the other half of an XRC connection needs is taken and means nothing: perftest sets up both
 * halves alike. {-1, 0}: a class has no such state.
 */
/* clang-format off */
static const struct transition transitions[] = {
	{S(RESET), S(INIT), {
		[CLASS_RC] = {INIT_CONN, 0},
		[CLASS_UC] = {INIT_CONN, 0},
		[CLASS_XI] = {INIT_CONN, 0},
		[CLASS_XT] = {INIT_CONN, 0},
		[CLASS_UD] = {INIT_UD, 0},
		[CLASS_RAW] = {A(PORT), 0}}},
	{S(INIT), S(INIT), {
		[CLASS_RC] = {0, INIT_CONN},
		[CLASS_UC] = {0, INIT_CONN},
		[CLASS_XI] = {0, INIT_CONN},
		[CLASS_XT] = {0, INIT_CONN},
		[CLASS_UD] = {0, INIT_UD},
		[CLASS_RAW] = {0, A(PORT)}}},
	{S(INIT), S(RTR), {
		[CLASS_RC] = {RTR_CONN | RTR_RESP, RTR_OPT},
		[CLASS_UC] = {RTR_CONN, RTR_OPT},
		[CLASS_XI] = {RTR_CONN, RTR_OPT | RTR_RESP},
		[CLASS_XT] = {RTR_CONN | RTR_RESP, RTR_OPT},
		[CLASS_UD] = {0, RTR_UD}}},
	{S(RTR), S(RTS), {
		[CLASS_RC] = {RTS_REQ, RTS_RESP},
		[CLASS_UC] = {A(SQ_PSN), RTS_CONN},
		[CLASS_XI] = {RTS_REQ, RTS_CONN},
		[CLASS_XT] = {A(TIMEOUT) | A(SQ_PSN), RTS_RESP | RTS_REQ},
		[CLASS_UD] = {A(SQ_PSN), RTS_UD},
		[CLASS_RAW] = {0, RTS_RAW}}},
	{S(RTS), S(RTS), {
		[CLASS_RC] = {0, RTS_RESP},
		[CLASS_UC] = {0, RTS_CONN},
		[CLASS_XI] = {0, RTS_CONN},
		[CLASS_XT] = {0, RTS_RESP},
		[CLASS_UD] = {0, RTS_UD},
		[CLASS_RAW] = {0, RTS_RAW}}},
	{S(RTS), S(SQD), {
		[CLASS_RC] = {0, NOTIFY},
		[CLASS_UC] = {0, NOTIFY},
		[CLASS_XI] = {0, NOTIFY},
		[CLASS_XT] = {0, NOTIFY},
		[CLASS_UD] = {0, NOTIFY},
		[CLASS_RAW] = {0, NOTIFY}}},
	{S(SQD), S(RTS), {
		[CLASS_RC] = {0, RTS_RESP},
		[CLASS_UC] = {0, RTS_CONN},
		[CLASS_XI] = {0, RTS_CONN},
		[CLASS_XT] = {0, RTS_RESP},
		[CLASS_UD] = {0, RTS_UD},
		[CLASS_RAW] = {0, RTS_RAW}}},
	{S(SQD), S(SQD), {
		[CLASS_RC] = {0, SQD_CONN | SQD_REQ | RTR_RESP},
		[CLASS_UC] = {0, SQD_CONN},
		[CLASS_XI] = {0, SQD_CONN | SQD_REQ},
		[CLASS_XT] = {0, SQD_CONN | RTR_RESP | A(PORT) | A(TIMEOUT)},
		[CLASS_UD] = {0, RTR_UD}}},
	{S(SQE), S(RTS), {
		[CLASS_RC] = {-1, 0},
		[CLASS_UC] = {0, A(CUR_STATE) | A(ACCESS_FLAGS)},
		[CLASS_XI] = {-1, 0},
		[CLASS_XT] = {-1, 0},
		[CLASS_UD] = {0, RTS_UD},
		[CLASS_RAW] = {0, RTS_RAW}}},
};
/* clang-format on */

static enum qp_class qp_class_of(const struct urxe_qp *qp)
{
	switch (qp->type) {
	case IBV_QPT_UC:
		return CLASS_UC;
	case IBV_QPT_UD:
		return CLASS_UD;
	case IBV_QPT_RAW_PACKET:
		return CLASS_RAW;
	case IBV_QPT_XRC_SEND:
		return CLASS_XI;
	case IBV_QPT_XRC_RECV:
		return CLASS_XT;
	default:
		return CLASS_RC;
	}
}

static int check_transition(const struct urxe_qp *qp, uint8_t to, int mask)
{
	enum qp_class c = qp_class_of(qp);

	mask &= ~A(STATE);
	if (to == S(RESET) || to == S(ERR)) /* from any state */
		return mask & ~A(CUR_STATE) ? EINVAL : 0;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];
		int req = t->of[c].required;

		if (t->from != qp->state || t->to != to)
			continue;
		if (req < 0 || (mask & req) != req || mask & ~(req | t->of[c].optional))
			return EINVAL;
		return 0;
	}
	return EINVAL;
}

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu; /* IBV_MTU_256 is 1 */
}

static uint32_t port_mtu(const struct urxe_qp *qp)
{
	struct urxe_port_info info;

	urxe_port_query(qp->dev->port, &info);
	return info.path_mtu;
}

static int check_values(const struct urxe_qp *qp, const struct ibv_qp_attr *a, int mask)
	URXE_REQUIRES(qp->lock)
{
	if (mask & A(PKEY_INDEX) && a->pkey_index)
		return EINVAL;
	if (mask & A(PORT) && a->port_num != 1)
		return EINVAL;
	if (mask & A(PATH_MTU) && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096 ||
				   mtu_bytes(a->path_mtu) > port_mtu(qp)))
		return EINVAL;
	if (mask & A(DEST_QPN) && a->dest_qp_num > URXE_QPN_MASK)
		return EINVAL;
	if (mask & A(MAX_QP_RD_ATOMIC) && a->max_rd_atomic > URXE_MAX_RD_ATOMIC)
		return EINVAL;
	if (mask & A(MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > URXE_MAX_RD_ATOMIC)
		return EINVAL;
	if ((mask & A(MIN_RNR_TIMER) && a->min_rnr_timer > 31) ||
	    (mask & A(TIMEOUT) && a->timeout > 31) || (mask & A(RETRY_CNT) && a->retry_cnt > 7) ||
	    (mask & A(RNR_RETRY) && a->rnr_retry > 7))
		return EINVAL;
	if (mask & A(RATE_LIMIT) && a->rate_limit && a->rate_limit < URXE_RATE_MIN)
		return EINVAL;
	return urxe_apm_check(qp, a, mask);
}

/* Entropy of the UDP source port (IBTA A17): of the flow label, else of both QPNs. */
static uint16_t flow_sport(const struct urxe_qp *qp, const struct ibv_ah_attr *ah, uint32_t dqpn)
{
	uint32_t label = ah->grh.flow_label & 0xfffff;

	if (!label) {
		uint64_t v = (uint64_t)qp->qpn * dqpn;

		v ^= v >> 20;
		v ^= v >> 40;
		label = (uint32_t)v & 0xfffff;
	}
	return (uint16_t)(0xc000 | ((label ^ label >> 14) & 0x3fff));
}

static void take(struct urxe_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr *q = &qp->attr;

	if (mask & A(PKEY_INDEX))
		q->pkey_index = a->pkey_index;
	if (mask & A(PORT))
		q->port_num = a->port_num;
	if (mask & A(ACCESS_FLAGS))
		qp->access = a->qp_access_flags;
	if (mask & A(QKEY))
		q->qkey = a->qkey;
	if (mask & A(AV))
		q->ah_attr = a->ah_attr;
	if (mask & A(PATH_MTU))
		q->path_mtu = a->path_mtu;
	if (mask & A(DEST_QPN))
		qp->dqpn = a->dest_qp_num;
	if (mask & A(RQ_PSN))
		q->rq_psn = a->rq_psn & URXE_PSN_MASK;
	if (mask & A(SQ_PSN))
		q->sq_psn = a->sq_psn & URXE_PSN_MASK;
	if (mask & A(MIN_RNR_TIMER))
		q->min_rnr_timer = a->min_rnr_timer;
	if (mask & A(TIMEOUT))
		q->timeout = a->timeout;
	if (mask & A(RETRY_CNT))
		q->retry_cnt = a->retry_cnt;
	if (mask & A(RNR_RETRY))
		q->rnr_retry = a->rnr_retry;
	if (mask & A(MAX_QP_RD_ATOMIC))
		q->max_rd_atomic = a->max_rd_atomic;
	if (mask & A(MAX_DEST_RD_ATOMIC))
		q->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & A(ALT_PATH)) {
		q->alt_ah_attr = a->alt_ah_attr;
		q->alt_pkey_index = a->alt_pkey_index;
		q->alt_port_num = a->alt_port_num;
		q->alt_timeout = a->alt_timeout;
	}
	if (mask & A(EN_SQD_ASYNC_NOTIFY))
		q->en_sqd_async_notify = a->en_sqd_async_notify;
}

static void clear_requester(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	struct urxe_early *early = qp->req.early;

	urxe_early_forget(qp);
	memset(&qp->req, 0, sizeof(qp->req));
	qp->req.early = early;
}

static void start_requester(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	struct urxe_requester *r = &qp->req;

	clear_requester(qp);
	r->psn = r->una = r->max_psn = r->next_psn = qp->attr.sq_psn;
	r->ack_psn = urxe_psn_add(r->psn, URXE_PSN_MASK);
	r->retries = qp->attr.retry_cnt;
	r->rnr_retries = qp->attr.rnr_retry;
	r->patience = URXE_OVERTAKEN;
	r->deadline = URXE_NEVER;
	urxe_cc_start(&r->cc, qp->dev->cc);
}

static void start_responder(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;

	r->epsn = qp->attr.rq_psn;
	r->msn = 0;
	r->state = r->resume = URXE_RESP_EXPECT_FIRST;
	r->ack_due = URXE_ACK_NONE;
	r->nak_due = r->in_recv = r->established = qp->got = qp->replies = qp->ack_waits = false;
	qp->ack_skips = qp->ack_vain = 0;
	urxe_responder_forget(qp);
	r->patience = URXE_OVERTAKEN;
	r->selective = false;
	r->nak_syndrome = 0;
	r->res_head = r->res_pending = 0;
	if (r->res)
		memset(r->res, 0, r->res_size * sizeof(*r->res));
}

/* A set of responder resources of another size. */
static void install_resources(struct urxe_qp *qp, struct urxe_resource *res)
{
	struct urxe_responder *r = &qp->resp;
	uint32_t n = qp->attr.max_dest_rd_atomic, keep = n < r->res_size ? n : r->res_size;

	/* The newest stay: for what is being answered, and for their duplicates. */
	qp->answers = true;
	r->res_pending = 0;
	for (uint32_t i = 0; i < keep; i++) {
		res[i] = r->res[(r->res_head + r->res_size - keep + i) % r->res_size];
		r->res_pending += res[i].pending;
	}
	free(r->res);
	r->res = res;
	r->res_size = n;
	r->res_head = keep < n ? keep : 0;
}

static void reset_qp(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	urxe_qp_release_wqes(qp);
	urxe_qp_clean_cqs(qp, false);
	urxe_path_destroy(qp->path);
	urxe_path_destroy(qp->alt_path);
	urxe_path_destroy(qp->lend_path);
	qp->path = qp->alt_path = qp->lend_path = NULL;
	memset(&qp->pace, 0, sizeof(qp->pace));
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->kbps = qp->dqpn = qp->access = 0;
	qp->mig_state = IBV_MIG_MIGRATED;
	clear_requester(qp);
	qp->req.deadline = URXE_NEVER;
	start_responder(qp);
	qp->last_wqe_reached = false;
	qp->sq_draining = qp->sqd_notify = false;
	urxe_qp_enter(qp, S(RESET));
}

/* Begin to drain: what has been started is finished, nothing new is begun (IBTA 10.3.1.5). */
static void drain(struct urxe_qp *qp, bool notify) URXE_REQUIRES(qp->lock)
{
	struct urxe_sq *sq = &qp->sq;

	qp->sqd_notify = notify;
	qp->sq_draining =
		sq->done != sq->post && urxe_sq_at(sq, sq->done)->flags & URXE_WQE_STARTED;
	if (!qp->sq_draining && qp->sqd_notify)
		urxe_event_qp(qp, IBV_EVENT_SQ_DRAINED);
}

struct prepared_path {
	struct urxe_path *path;
	uint16_t sport;
	uint8_t dgid[16];
};

/* What needs memory or may fail, made before anything is changed. */
struct prepared {
	struct prepared_path path, alt;
	struct urxe_resource *res;
};

static int prepare_path(struct urxe_qp *qp, const struct ibv_ah_attr *ah, uint32_t dqpn,
			struct prepared_path *p)
{
	unsigned sgid_index;
	uint8_t ecn = urxe_qp_acked(qp) ? qp->dev->cc->ecn : URXE_ECN_NONE;
	int err;

	p->sport = flow_sport(qp, ah, dqpn);
	err = urxe_path_from_ah(qp->dev, ah, p->sport, ecn, &p->path);
	if (err)
		return err;
	/* What comes from 127.0.0.1 bears an own address. */
	memcpy(p->dgid, ah->grh.dgid.raw, sizeof(p->dgid));
	urxe_port_route(qp->dev->port, ah->grh.dgid.raw, &sgid_index, p->dgid);
	return 0;
}

static int prepare(struct urxe_qp *qp, const struct ibv_qp_attr *a, int mask, struct prepared *p)
{
	uint32_t dqpn = mask & A(DEST_QPN) ? a->dest_qp_num : qp->dqpn;
	int err = 0;

	memset(p, 0, sizeof(*p));
	if (mask & A(MAX_DEST_RD_ATOMIC) && qp->resp.res) {
		p->res = calloc(a->max_dest_rd_atomic + 1u, sizeof(*p->res));
		if (!p->res)
			return ENOMEM;
	}
	if (mask & A(AV))
		err = prepare_path(qp, &a->ah_attr, dqpn, &p->path);
	if (!err && mask & A(ALT_PATH))
		err = prepare_path(qp, &a->alt_ah_attr, dqpn, &p->alt);
	if (err) {
		urxe_path_destroy(p->path.path);
		free(p->res);
	}
	return err;
}

/*
 * Out of the fabric less may go than what ibv_query_port() said to who asked before there was an
 * urxed: both ends would send what nobody carries. Both come to the same.
 */
static void set_mtu(struct urxe_qp *qp, enum ibv_mtu mtu)
{
	uint32_t most = qp->path ? urxe_path_mtu(qp->path) : mtu_bytes(mtu);

	while (mtu > IBV_MTU_256 && mtu_bytes(mtu) > most)
		mtu--;
	qp->attr.path_mtu = mtu;
	qp->mtu = mtu_bytes(mtu);
	qp->mtu_shift = (uint8_t)(7 + mtu);
}

static void install_paths(struct urxe_qp *qp, const struct prepared *p)
{
	if (p->path.path) {
		urxe_path_destroy(qp->path);
		qp->path = p->path.path;
		memcpy(qp->dgid, p->path.dgid, sizeof(qp->dgid));
		qp->peer = urxe_peer_of(qp->dev, qp->dgid);
	}
	if (p->alt.path) {
		urxe_path_destroy(qp->alt_path);
		qp->alt_path = p->alt.path;
		memcpy(qp->alt_dgid, p->alt.dgid, sizeof(qp->alt_dgid));
	}
}

static int modify_locked(struct urxe_qp *qp, const struct ibv_qp_attr *a, int mask)
	URXE_REQUIRES(qp->lock)
{
	uint8_t from = qp->state, to = mask & A(STATE) ? (uint8_t)a->qp_state : from;
	struct prepared p;
	int err;

	if ((mask & A(STATE) && (unsigned)a->qp_state > S(ERR)) ||
	    (mask & A(CUR_STATE) && a->cur_qp_state != from))
		return EINVAL;
	err = check_transition(qp, to, mask);
	if (!err)
		err = check_values(qp, a, mask);
	if (!err)
		err = prepare(qp, a, mask, &p);
	if (err)
		return err;
	take(qp, a, mask);
	install_paths(qp, &p);
	if (mask & A(PATH_MIG_STATE))
		urxe_apm_modify(qp, a->path_mig_state);
	if (mask & A(RATE_LIMIT))
		urxe_pace_set(qp, a->rate_limit, 0);
	if (mask & A(PATH_MTU))
		set_mtu(qp, a->path_mtu);
	if (to == S(RTR) && from == S(INIT)) {
		/* Both ends have the same number, and so most packets come by the lane they are
		 * answered on. The path may change later, and the lane does not. Before a reset it
		 * had another one, perhaps, and may still wait there. */
		urxe_pending_move(qp, (p.path.path ? p.path.sport : qp->qpn) % qp->dev->lanes);
		start_responder(qp);
		if (qp->type == IBV_QPT_UD)
			qp->mtu = port_mtu(qp);
	}
	if (p.res)
		install_resources(qp, p.res);
	else if (mask & A(MAX_DEST_RD_ATOMIC))
		qp->resp.res_size = a->max_dest_rd_atomic; /* they come with the first request */
	if (to == S(RTS) && from == S(RTR)) {
		start_requester(qp);
		urxe_peer_check(qp);
	}
	if (to == S(RESET)) {
		reset_qp(qp);
	} else if (to == S(ERR)) {
		if (from != S(ERR) && from != S(RESET))
			urxe_qp_error(qp);
		urxe_qp_enter(qp, S(ERR));
	} else {
		urxe_qp_enter(qp, (enum ibv_qp_state)to);
		if (to == S(SQD) && from == S(RTS))
			drain(qp, mask & A(EN_SQD_ASYNC_NOTIFY) && a->en_sqd_async_notify);
		else if (to == S(RTS))
			qp->sq_draining = false;
	}
	return 0;
}

int urxe_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	int err;

	if (urxe_device_check(qp->dev))
		return EIO;
	if (mask & A(STATE) && (attr->qp_state == S(RESET) || attr->qp_state == S(ERR)))
		urxe_progress_flush(qp);
	urxe_spin_lock(&qp->lock);
	err = modify_locked(qp, attr, mask);
	if (!err && qp->state == S(RTS) && qp->sq.cur != qp->sq.post)
		urxe_progress_kick(qp); /* out of SQD: go on */
	urxe_spin_unlock(&qp->lock);
	return err;
}
