/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder: receives requests in PSN order, executes them, and notes what is to be
 * answered (IBTA 9.7.4). The order of the checks is that of 9.7.4.1: PSN, opcode sequence,
 * resources, length, access. Answers are sent by responder_tx.c.
 */
#include <errno.h>
#include <string.h>

#include "provider.h"
#include "lend.h"
#include "responder.h"
#include "service.h"
#include "sge.h"
#include "stall.h"
#include "trace.h"
#include "urxe/guarded.h"
#include "xrc.h"

void urxe_responder_nak(struct urxe_qp *qp, uint8_t syndrome)
{
	struct urxe_responder *r = &qp->resp;

	qp->answers = r->nak_due = true;
	r->nak_syndrome = syndrome;
	r->nak_psn = r->epsn;
	if (r->state == URXE_RESP_FATAL)
		return;
	urxe_trace_nak(qp, syndrome);
	if (r->state != URXE_RESP_WAIT_RETRY)
		r->resume = r->state;
	r->state = URXE_RESP_WAIT_RETRY;
}

void urxe_responder_fatal(struct urxe_qp *qp, enum urxe_nak_code code, enum ibv_wc_status status)
{
	struct urxe_responder *r = &qp->resp;

	urxe_trace_nak(qp, URXE_AETH_NAK | code);
	/* The receive WQE in use fails now, the QP when the NAK is out (IBTA 9.9.3). */
	if (r->in_recv)
		urxe_responder_finish_recv(qp, status, NULL, 0);
	urxe_responder_forget(qp);
	r->state = URXE_RESP_FATAL;
	r->fatal_status = code == URXE_NAK_REMOTE_ACCESS ? IBV_EVENT_QP_ACCESS_ERR
			  : code == URXE_NAK_INVALID_REQ ? IBV_EVENT_QP_REQ_ERR
							 : IBV_EVENT_QP_FATAL;
	urxe_stat_inc(qp->dev, URXE_STAT_TX_NAK_OTHER);
	urxe_responder_nak(qp, URXE_AETH_NAK | code);
}

/*
 * Ethernet has no service level. mlx5 tells in its place which header came, and UCX takes the lower
 * three bits of it: 2 is IPv4. Where it finds something else it looks for the peer by an IPv6
 * address, and loses the datagram.
 */
#define SL_IPV4 0xa
#define SL_IPV6 0x9

static struct urxe_srq *recv_srq(const struct urxe_qp *qp)
{
	return qp->type == IBV_QPT_XRC_RECV ? urxe_xrc_srq(qp, qp->resp.srqn) : qp->srq;
}

void urxe_responder_push(struct urxe_qp *qp, const struct ibv_wc *wc, bool solicited)
{
	struct urxe_srq *srq;

	if (qp->type != IBV_QPT_XRC_RECV) {
		urxe_cq_push(qp->rcq, wc, solicited);
		return;
	}
	/* Of a SRQ that was destroyed under the message nobody wants to know. */
	srq = recv_srq(qp);
	if (srq)
		urxe_cq_push(srq->cq, wc, solicited);
}

/* It stays where it is, for nobody else gets its slot: until it is complete it counts as posted. */
static inline __attribute__((always_inline)) int take_own(struct urxe_qp *qp, uint32_t min_length)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_rq *rq = &qp->own_rq;
	struct urxe_rwqe *wqe;

	if (rq->tail == rq->head)
		return ENOENT;
	wqe = urxe_rq_at(rq, rq->tail);
	if (wqe->length < min_length)
		return EMSGSIZE;
	qp->resp.rwqe = wqe;
	qp->resp.in_recv = true;
	return 0;
}

static __attribute__((noinline)) int take_shared(struct urxe_qp *qp, uint32_t min_length)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_srq *srq = recv_srq(qp);
	const struct urxe_rwqe *wqe;
	struct urxe_rq *rq;
	bool limit = false;
	int err = 0;

	if (!srq)
		return ENOENT;
	rq = &srq->rq;
	urxe_spin_lock(&rq->lock);
	if (rq->tail == rq->head) {
		err = ENOENT;
		goto out;
	}
	wqe = urxe_rq_at(rq, rq->tail);
	if (wqe->length < min_length) {
		err = EMSGSIZE;
		goto out;
	}
	memcpy(qp->resp.rwqe, wqe, sizeof(*wqe) + wqe->num_sge * sizeof(wqe->sge[0]));
	qp->resp.in_recv = true;
	rq->tail++;
	if (rq->limit && rq->head - rq->tail < rq->limit) {
		rq->limit = 0; /* once (ibv_modify_srq) */
		limit = true;
	}
out:
	urxe_spin_unlock(&rq->lock);
	if (limit)
		urxe_event_srq(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	return err;
}

static inline int take_rwqe(struct urxe_qp *qp, uint32_t min_length) URXE_REQUIRES(qp->lock)
{
	return __builtin_expect(qp->resp.shared, 0) ? take_shared(qp, min_length)
						    : take_own(qp, min_length);
}

int urxe_responder_take_rwqe(struct urxe_qp *qp, uint32_t min_length)
{
	return take_rwqe(qp, min_length);
}

uint64_t urxe_responder_end_recv(struct urxe_qp *qp)
{
	struct urxe_responder *r = &qp->resp;

	r->in_recv = false;
	if (!r->shared)
		qp->own_rq.tail++;
	return r->rwqe->wr_id;
}

/* A message has come in full. @answered: the application may post because of it. */
static inline void message_got(struct urxe_qp *qp, bool answered) URXE_REQUIRES(qp->lock)
{
	qp->replies = qp->replies && !qp->got;
	qp->got = qp->got || answered;
}

/* That of a SEND which brought nothing but data. False: it is another one, or its CQ is. */
static inline bool finish_plain(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint32_t len)
	URXE_REQUIRES(qp->lock)
{
	const uint32_t more = URXE_OPF_WRITE | URXE_OPF_IMM | URXE_OPF_IETH | URXE_OPF_DETH;
	struct urxe_cqe *e;

	if (pkt->what & more || qp->type == IBV_QPT_XRC_RECV || URXE_TRACE_ON(completion))
		return false;
	e = urxe_cq_open(qp->rcq);
	if (!e)
		return false;
	message_got(qp, true);
	*e = (struct urxe_cqe){.wc = {.wr_id = urxe_responder_end_recv(qp),
				      .status = IBV_WC_SUCCESS,
				      .opcode = IBV_WC_RECV,
				      .byte_len = len,
				      .qp_num = qp->qpn,
				      .src_qp = qp->dqpn},
			       .solicited = pkt->solicited};
	urxe_cq_close(qp->rcq);
	return true;
}

void urxe_responder_finish_recv(struct urxe_qp *qp, enum ibv_wc_status status,
				const struct urxe_decoded *pkt, uint32_t len)
{
	struct ibv_wc wc;

	urxe_qp_wc(qp, &wc, urxe_responder_end_recv(qp), status, IBV_WC_RECV);
	if (status == IBV_WC_SUCCESS) {
		message_got(qp, true);
		if (pkt->what & URXE_OPF_WRITE)
			wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		if (pkt->what & URXE_OPF_IMM) {
			wc.imm_data = pkt->imm;
			wc.wc_flags |= IBV_WC_WITH_IMM;
		}
		if (pkt->what & URXE_OPF_IETH) {
			wc.invalidated_rkey = pkt->inv_rkey;
			wc.wc_flags |= IBV_WC_WITH_INV;
		}
		wc.byte_len = len;
		wc.src_qp = qp->dqpn;
		if (pkt->what & URXE_OPF_DETH) {
			wc.src_qp = pkt->deth.sqpn;
			wc.wc_flags |= IBV_WC_GRH;
			wc.sl = pkt->ipv4 ? SL_IPV4 : SL_IPV6;
		}
	}
	if (qp->type != IBV_QPT_XRC_RECV)
		urxe_cq_push(qp->rcq, &wc, !pkt || pkt->solicited);
	else
		urxe_responder_push(qp, &wc, !pkt || pkt->solicited);
}

/* Does the opcode fit what we are in the middle of (IBTA 9.7.4.1.2)? */
static bool in_sequence(const struct urxe_responder *r, const struct urxe_decoded *pkt)
{
	switch (r->state) {
	case URXE_RESP_IN_SEND:
		return !(pkt->what & URXE_OPF_FIRST) && pkt->what & URXE_OPF_SEND;
	case URXE_RESP_IN_WRITE:
		return !(pkt->what & URXE_OPF_FIRST) && pkt->what & URXE_OPF_WRITE;
	default:
		return pkt->what & URXE_OPF_FIRST;
	}
}

static void executed(struct urxe_responder *r, const struct urxe_decoded *pkt)
{
	r->epsn = urxe_psn_add(r->epsn, 1);
	if (pkt->ackreq)
		r->ack_due = URXE_ACK_REQUESTS;
}

static void message_done(struct urxe_responder *r)
{
	r->msn = urxe_psn_add(r->msn, 1);
	r->state = URXE_RESP_EXPECT_FIRST;
}

static void rnr(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	urxe_stat_inc(qp->dev, URXE_STAT_TX_RNR_NAK);
	urxe_responder_forget(qp); /* the peer waits, and sends all of it again */
	urxe_responder_nak(qp, URXE_AETH_RNR | qp->attr.min_rnr_timer);
}

/* All packets but the last are full (IBTA 9.7.4.1.6). */
static bool good_length(const struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	if (!(pkt->what & URXE_OPF_LAST))
		return pkt->length == qp->mtu;
	return pkt->length <= qp->mtu && (pkt->length || pkt->what & URXE_OPF_FIRST);
}

/* Each returns true when the packet was executed. */
static bool execute_send(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;

	if (pkt->what & URXE_OPF_FIRST) {
		if (take_rwqe(qp, 0)) {
			rnr(qp);
			return false;
		}
		r->offset = 0;
	}
	if (!good_length(qp, pkt) || pkt->length > r->rwqe->length - r->offset) {
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_LOC_LEN_ERR);
		return false;
	}
	if (pkt->length && !urxe_sge_scatter(qp->dev, r->recv_pd, r->rwqe->sge, r->rwqe->num_sge,
					     r->offset, pkt->payload, pkt->length)) {
		urxe_responder_fatal(qp, URXE_NAK_REMOTE_OP, IBV_WC_LOC_PROT_ERR);
		return false;
	}
	if (pkt->what & URXE_OPF_IETH && urxe_mw_invalidate(qp, r->pd, pkt->inv_rkey)) {
		urxe_responder_fatal(qp, URXE_NAK_REMOTE_ACCESS, IBV_WC_REM_INV_REQ_ERR);
		return false;
	}
	r->offset += pkt->length;
	r->state = URXE_RESP_IN_SEND;
	if (pkt->what & URXE_OPF_LAST) {
		message_done(r);
		if (!finish_plain(qp, pkt, r->offset))
			urxe_responder_finish_recv(qp, IBV_WC_SUCCESS, pkt, r->offset);
	}
	return true;
}

static bool begin_write(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;

	r->va = pkt->reth.va;
	r->rkey = pkt->reth.rkey;
	r->length = r->resid = pkt->reth.length;
	if (r->length > URXE_MAX_MSG_SZ) {
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_LOC_LEN_ERR);
		return false;
	}
	/*
	 * Of a zero-length operation the R_Key is not checked (IBTA 9.7.4.1.3). One packet that has
	 * all of it is checked when it is written: its length comes first (9.7.4.1).
	 */
	if (!(qp->access & IBV_ACCESS_REMOTE_WRITE) ||
	    (r->length && !(pkt->what & URXE_OPF_LAST) &&
	     !urxe_mr_remote(qp, r->pd, r->rkey, r->va, r->length, IBV_ACCESS_REMOTE_WRITE))) {
		urxe_responder_fatal(qp, URXE_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR);
		return false;
	}
	return true;
}

static inline __attribute__((always_inline)) bool write_packet(struct urxe_qp *qp,
							       const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;
	uint8_t *dst;

	if (pkt->length) {
		/* A region, as nearly always; a window, or no permission. */
		dst = urxe_mr_plain(qp->dev, r->pd, r->rkey, r->va, pkt->length,
				    IBV_ACCESS_REMOTE_WRITE);
		if (!dst)
			dst = urxe_mr_remote(qp, r->pd, r->rkey, r->va, pkt->length,
					     IBV_ACCESS_REMOTE_WRITE);
		if (!dst)
			return false;
		if (urxe_guarded_copy(dst, pkt->payload, pkt->length)) {
			urxe_rkey_gone(qp, r->rkey, r->va, pkt->length, IBV_ACCESS_REMOTE_WRITE);
			return false;
		}
	}
	r->va += pkt->length;
	r->resid -= pkt->length;
	r->state = URXE_RESP_IN_WRITE;
	return true;
}

bool urxe_responder_write(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	return write_packet(qp, pkt);
}

/* Who watches memory sees it, and posts perhaps, as who gets a completion would. */
static void landed(struct urxe_qp *qp, uint32_t length) URXE_REQUIRES(qp->lock)
{
	bool answered = length <= URXE_ANSWERED_MOST;

	message_got(qp, answered);
	urxe_service_written(qp->dev, answered);
}

static bool execute_write(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;

	/*
	 * Before anything is checked or written: after an RNR NAK this packet comes again, and an
	 * error of what has immediate data is told to its receive (LOC_ACCESS_ERR, IBTA 11.6.2).
	 */
	if (pkt->what & URXE_OPF_RECV_WQE && take_rwqe(qp, 0)) {
		rnr(qp);
		return false;
	}
	if (pkt->what & URXE_OPF_FIRST && !begin_write(qp, pkt))
		return false;
	if (!good_length(qp, pkt) ||
	    (pkt->what & URXE_OPF_LAST ? pkt->length != r->resid : pkt->length >= r->resid)) {
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_LOC_LEN_ERR);
		return false;
	}
	if (!write_packet(qp, pkt)) {
		urxe_responder_fatal(qp, URXE_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR);
		return false;
	}
	if (pkt->what & URXE_OPF_LAST) {
		message_done(r);
		if (pkt->what & URXE_OPF_RECV_WQE) {
			urxe_responder_finish_recv(qp, IBV_WC_SUCCESS, pkt, r->length);
		} else {
			landed(qp, r->length);
		}
	}
	return true;
}

/*
 * Each request of XRC names its SRQ, which must be of the QP's domain, and the same throughout a
 * message; the SRQ's PD is that of the request (IBTA A14).
 */
static bool choose_srq(struct urxe_qp *qp, uint32_t srqn)
{
	struct urxe_responder *r = &qp->resp;
	struct urxe_srq *srq = urxe_xrc_srq(qp, srqn);

	if (!srq || (r->state != URXE_RESP_EXPECT_FIRST && srqn != r->srqn))
		return false;
	r->srqn = srqn;
	r->pd = r->recv_pd = srq->pd->root;
	return true;
}

void urxe_responder_execute(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	struct urxe_responder *r = &qp->resp;
	bool good = in_sequence(r, pkt), done;

	if (!good || (pkt->what & URXE_OPF_XRCETH && !choose_srq(qp, pkt->srqn))) {
		if (!good || !urxe_lend(qp, pkt))
			urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	if (pkt->what & URXE_OPF_SEND) {
		done = execute_send(qp, pkt);
	} else if (pkt->what & URXE_OPF_WRITE) {
		done = execute_write(qp, pkt);
	} else {
		urxe_responder_execute_read(qp, pkt);
		return;
	}
	if (done)
		executed(r, pkt);
}

void urxe_responder_lent(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint8_t syndrome)
{
	struct urxe_responder *r = &qp->resp;

	switch (syndrome & URXE_AETH_TYPE_MASK) {
	case URXE_AETH_ACK:
		r->state = pkt->what & URXE_OPF_SEND ? URXE_RESP_IN_SEND : URXE_RESP_IN_WRITE;
		if (pkt->what & URXE_OPF_LAST)
			message_done(r);
		executed(r, pkt);
		return;
	case URXE_AETH_RNR:
		rnr(qp);
		return;
	default:
		urxe_responder_fatal(qp, (enum urxe_nak_code)(syndrome & URXE_AETH_VAL_MASK),
				     IBV_WC_REM_INV_REQ_ERR);
	}
}

/*
 * What was executed is not executed again, but acknowledged again (IBTA 9.7.5.1.2): as far as it
 * came again, and no further (quirks.md: ack-in-resend).
 */
static void acknowledge_again(struct urxe_responder *r, uint32_t psn)
{
	if (r->ack_due == URXE_ACK_REQUESTS)
		return;
	if (r->ack_due == URXE_ACK_NONE || urxe_psn_diff(psn, r->dup_psn) > 0)
		r->dup_psn = psn;
	r->ack_due = URXE_ACK_DUPLICATES;
}

static void duplicate(struct urxe_qp *qp, const struct urxe_decoded *pkt) URXE_REQUIRES(qp->lock)
{
	struct urxe_responder *r = &qp->resp;

	urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_DUPLICATE);
	r->asked_again = true;
	/* With what was posted it may still wait for the rest of that. */
	if (qp->ack_waits && qp->got)
		urxe_responder_waited_in_vain(qp);
	qp->ack_waits = false;
	/* What was told to be lost was late: more patience. One right behind the first was sent
	 * again twice (recover.c). */
	if (r->told && pkt->psn == r->nak_psn && urxe_psn_diff(r->epsn, pkt->psn) > 1) {
		r->told = r->selective = false;
		if (r->patience < URXE_OVERTAKEN_MAX)
			r->patience *= 2;
	}
	/* It sends again what has come behind the gap, too (responder_gap.c). */
	if (pkt->psn == urxe_psn_add(r->nak_psn, 1))
		r->selective = false;
	r->passed = r->gap;
	if (pkt->what & (URXE_OPF_SEND | URXE_OPF_WRITE))
		acknowledge_again(&qp->resp, pkt->psn);
	else
		urxe_responder_duplicate_read(qp, pkt);
}

void urxe_responder_receive(struct urxe_qp *qp, const struct urxe_decoded *pkt, uint64_t now)
{
	struct urxe_responder *r = &qp->resp;
	int32_t ahead;

	if (qp->state < IBV_QPS_RTR || qp->state > IBV_QPS_SQD || r->state == URXE_RESP_FATAL) {
		urxe_qp_drop(qp, pkt->psn, URXE_STAT_RX_BAD_STATE);
		return;
	}
	qp->answers = true;
	ahead = urxe_psn_diff(pkt->psn, r->epsn);
	if (r->stall && ahead >= 0) {
		urxe_stall_keep(qp, pkt);
		return;
	}
	if (ahead > 0) {
		urxe_responder_early(qp, pkt, now);
		return;
	}
	if (ahead < 0) {
		duplicate(qp, pkt);
		return;
	}
	if (r->state == URXE_RESP_WAIT_RETRY)
		urxe_responder_came(qp, now);
	if (qp->state == IBV_QPS_RTR && !r->established) {
		r->established = true;
		urxe_event_qp(qp, IBV_EVENT_COMM_EST);
	}
	urxe_responder_execute(qp, pkt);
	if (r->gap)
		urxe_responder_settle(qp, now);
}
