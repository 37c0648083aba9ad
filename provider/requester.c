/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The requester: turns send WQEs into request packets (IBTA 9.7.3), in order, within a window,
 * and begins again at an earlier PSN when the completer or a timer (retry.c) says so. Packets are
 * built from the WQE each time; nothing but the cursor moves.
 */
#include <errno.h>

#include "provider.h"
#include "apm.h"
#include "rate.h"
#include "recover.h"
#include "requester.h"
#include "retry.h"
#include "sge.h"
#include "trace.h"
#include "wqe.h"

#define RD_CHUNK 512u /* packets that one READ request asks for at the most */

/* Wire operations of a work request: for a packet that is first, middle, last or the only one. */
struct wr_ops {
	_Alignas(8) uint8_t first;
	uint8_t middle, last, only;
	uint8_t wc_opcode;
};

#define ALWAYS(op) op, op, op, op

/* On the way of each packet. */
#define EACH_PACKET static inline __attribute__((always_inline))

static const struct wr_ops wr_ops[] = {
	[IBV_WR_SEND] = {URXE_OP_SEND_FIRST, URXE_OP_SEND_MIDDLE, URXE_OP_SEND_LAST,
			 URXE_OP_SEND_ONLY, IBV_WC_SEND},
	[IBV_WR_SEND_WITH_IMM] = {URXE_OP_SEND_FIRST, URXE_OP_SEND_MIDDLE, URXE_OP_SEND_LAST_IMM,
				  URXE_OP_SEND_ONLY_IMM, IBV_WC_SEND},
	[IBV_WR_RDMA_WRITE] = {URXE_OP_WRITE_FIRST, URXE_OP_WRITE_MIDDLE, URXE_OP_WRITE_LAST,
			       URXE_OP_WRITE_ONLY, IBV_WC_RDMA_WRITE},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {URXE_OP_WRITE_FIRST, URXE_OP_WRITE_MIDDLE,
					URXE_OP_WRITE_LAST_IMM, URXE_OP_WRITE_ONLY_IMM,
					IBV_WC_RDMA_WRITE},
	[IBV_WR_SEND_WITH_INV] = {URXE_OP_SEND_FIRST, URXE_OP_SEND_MIDDLE, URXE_OP_SEND_LAST_INV,
				  URXE_OP_SEND_ONLY_INV, IBV_WC_SEND},
	[IBV_WR_RDMA_READ] = {ALWAYS(URXE_OP_READ_REQUEST), IBV_WC_RDMA_READ},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {ALWAYS(URXE_OP_COMPARE_SWAP), IBV_WC_COMP_SWAP},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {ALWAYS(URXE_OP_FETCH_ADD), IBV_WC_FETCH_ADD},
	[IBV_WR_ATOMIC_WRITE] = {ALWAYS(URXE_OP_ATOMIC_WRITE), IBV_WC_ATOMIC_WRITE},
	[URXEDV_WR_FLUSH] = {ALWAYS(URXE_OP_FLUSH), URXEDV_WC_FLUSH},
	[IBV_WR_LOCAL_INV] = {ALWAYS(0), IBV_WC_LOCAL_INV},
	[IBV_WR_BIND_MW] = {ALWAYS(0), IBV_WC_BIND_MW},
};

enum ibv_wc_opcode urxe_requester_wc_opcode(uint8_t wr_opcode)
{
	return (enum ibv_wc_opcode)wr_ops[wr_opcode].wc_opcode;
}

static bool is_local(const struct urxe_swqe *wqe)
{
	const uint32_t local = URXE_OPS_LOCAL;

	return local >> wqe->opcode & 1;
}

/* One PSN, whatever its length. */
static bool has_one_psn(const struct urxe_swqe *wqe)
{
	const uint32_t one = URXE_OPS_ATOMIC | URXE_OP_BIT(ATOMIC_WRITE) | URXE_OPS_FLUSH;

	return !wqe->length || one >> wqe->opcode & 1;
}

/* How many of the peer's responder resources a READ or ATOMIC takes at once. */
static uint32_t rd_charge(const struct urxe_swqe *wqe)
{
	return wqe->flags & URXE_WQE_PAIR ? 2 : 1;
}

static void complete_oldest(struct urxe_qp *qp, struct urxe_swqe *wqe, enum ibv_wc_status status)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_sq *sq = &qp->sq;
	struct ibv_wc wc;

	if (wqe->flags & URXE_WQE_STARTED && urxe_requester_answered(wqe))
		qp->req.rd_out = (uint16_t)(qp->req.rd_out - rd_charge(wqe));
	if (status != IBV_WC_SUCCESS || wqe->flags & URXE_WQE_SIGNALED) {
		urxe_qp_wc(qp, &wc, wqe->wr_id, status, urxe_requester_wc_opcode(wqe->opcode));
		if (urxe_requester_answered(wqe))
			wc.byte_len = wqe->length;
		urxe_cq_push(qp->scq, &wc, false); /* solicited are receives (IBTA 11.4.2.2) */
	}
	urxe_wqe_drop(wqe);
	if (sq->cur == sq->done)
		sq->cur++;
	sq->done++;
	if (qp->sq_draining &&
	    (sq->done == sq->post || !(urxe_sq_at(sq, sq->done)->flags & URXE_WQE_STARTED))) {
		qp->sq_draining = false;
		if (qp->sqd_notify)
			urxe_event_qp(qp, IBV_EVENT_SQ_DRAINED);
	}
}

/* Local operations take no PSN: those that were carried out are complete with what is before. */
void urxe_requester_complete(struct urxe_qp *qp, enum ibv_wc_status status)
{
	const struct urxe_sq *sq = &qp->sq;
	struct urxe_swqe *wqe = urxe_sq_at(sq, sq->done);

	do {
		complete_oldest(qp, wqe, status);
		if (status != IBV_WC_SUCCESS || sq->done == sq->post)
			return;
		wqe = urxe_sq_at(sq, sq->done);
	} while (is_local(wqe) && wqe->flags & URXE_WQE_STARTED);
}

/* Assign PSNs: from here on the WQE is under way. False: it has to wait. */
static bool start_wqe(struct urxe_qp *qp, struct urxe_swqe *wqe)
{
	struct urxe_requester *r = &qp->req;

	if (qp->state == IBV_QPS_SQD)
		return false;
	if (wqe->flags & URXE_WQE_FENCE && r->rd_out)
		return false;
	if (urxe_requester_answered(wqe) && r->rd_out >= qp->attr.max_rd_atomic)
		return false;
	wqe->psn = r->next_psn;
	wqe->npsn = has_one_psn(wqe)
			    ? 1
			    : (uint32_t)(((uint64_t)wqe->length + qp->mtu - 1) >> qp->mtu_shift);
	if (urxe_requester_answered(wqe)) {
		if (wqe->npsn > RD_CHUNK && r->rd_out + 2u <= qp->attr.max_rd_atomic)
			wqe->flags |= URXE_WQE_PAIR;
		r->rd_out = (uint16_t)(r->rd_out + rd_charge(wqe));
	}
	r->next_psn = urxe_psn_add(r->next_psn, wqe->npsn);
	wqe->flags |= URXE_WQE_STARTED;
	return true;
}

/* The WQE at the cursor cannot be carried out: it fails when all before it are complete. */
static void fail_local(struct urxe_qp *qp, enum ibv_wc_status status) URXE_REQUIRES(qp->lock)
{
	if (qp->sq.done != qp->sq.cur)
		return;
	urxe_requester_complete(qp, status);
	if (qp->type == IBV_QPT_UC)
		urxe_qp_sq_error(qp);
	else
		urxe_qp_error(qp);
}

/* One packet to be built. */
struct request {
	uint32_t psn, npsn; /* PSNs it takes */
	uint32_t offset, payload;
	uint32_t ack_every; /* packets within a message that ask for an ACK */
	bool first, last;
	bool again; /* alone: it asks for an ACK */
	uint8_t op;
};

/* The packet of PSN @psn; of a READ it asks for @most PSNs. */
EACH_PACKET void plan_packet(const struct urxe_qp *qp, const struct urxe_swqe *wqe, uint32_t psn,
			     uint32_t most, struct request *rq)
{
	const struct wr_ops *ops = &wr_ops[wqe->opcode];
	uint32_t at = (psn - wqe->psn) & URXE_PSN_MASK;
	uint32_t left;

	rq->psn = psn;
	rq->npsn = 1;
	rq->offset = at << qp->mtu_shift;
	left = wqe->length - rq->offset;
	rq->first = at == 0;
	rq->last = left <= qp->mtu;
	rq->payload = rq->last ? left : qp->mtu;
	if (urxe_requester_answered(wqe)) {
		if (wqe->opcode != IBV_WR_ATOMIC_WRITE)
			rq->payload = 0;
		rq->last = true;
		if (wqe->opcode == IBV_WR_RDMA_READ) {
			/* Asked for again, it ends where it ended the first time. */
			uint32_t part = RD_CHUNK - at % RD_CHUNK;

			rq->npsn = wqe->npsn - at < part ? wqe->npsn - at : part;
			if (rq->npsn > most)
				rq->npsn = most;
		}
		rq->first = true;
	}
	rq->op = rq->first ? (rq->last ? ops->only : ops->first)
			   : (rq->last ? ops->last : ops->middle);
}

/* So often that the window never closes with nobody asked, nor a slow pace passes for a silence. */
static uint32_t ack_every(const struct urxe_qp *qp, const struct urxe_cc_allowed *can)
	URXE_REQUIRES(qp->lock)
{
	uint32_t n = can->packets / 2 < URXE_ACK_EVERY ? can->packets / 2 : URXE_ACK_EVERY;
	uint32_t paced;

	if (!urxe_pace_on(qp, can->kbps))
		return n;
	paced = urxe_pace_packets(qp, can->kbps, qp->mtu, URXE_ACK_WITHIN);
	return paced < n ? paced : n;
}

EACH_PACKET bool wants_ack(struct urxe_qp *qp, const struct request *rq)
{
	if (rq->again)
		return true;
	if (!rq->last && ((rq->psn - qp->req.ack_psn) & URXE_PSN_MASK) < rq->ack_every)
		return false;
	qp->req.ack_psn = rq->psn;
	return true;
}

#define OPF_RARE \
	(URXE_OPF_XRCETH | URXE_OPF_ATOMIC_ETH | URXE_OPF_FETH | URXE_OPF_IMM | URXE_OPF_IETH)

/* Behind the BTH and RETH. */
static __attribute__((noinline)) void put_rare(const struct urxe_swqe *wqe,
					       const struct urxe_opcode_info *op, uint8_t *bth)
{
	if (op->xrceth_off)
		urxe_put32(bth + op->xrceth_off, wqe->remote_qpn & URXE_QPN_MASK);
	if (op->atomic_off) {
		bool cas = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

		urxe_atomic_put(bth + op->atomic_off, wqe->remote_addr, wqe->rkey,
				cas ? wqe->atomic.swap : wqe->atomic.compare_add,
				cas ? wqe->atomic.compare_add : 0);
	}
	if (op->feth_off)
		urxe_put32(bth + op->feth_off, wqe->flush.feth);
	if (op->imm_off)
		memcpy(bth + op->imm_off, &wqe->imm, URXE_IMM_LEN);
	if (op->ieth_off)
		urxe_put32(bth + op->ieth_off, wqe->inv_rkey);
}

/* Bytes that the RETH asks for. */
EACH_PACKET uint32_t reth_length(const struct urxe_qp *qp, const struct urxe_swqe *wqe,
				 const struct request *rq)
{
	uint32_t len = wqe->length - rq->offset;

	if (__builtin_expect(!urxe_requester_answered(wqe), 1))
		return len;
	if ((unsigned)wqe->opcode == URXEDV_WR_FLUSH)
		return wqe->flush.length;
	if (wqe->opcode == IBV_WR_RDMA_READ && len > (uint64_t)rq->npsn << qp->mtu_shift)
		len = rq->npsn << qp->mtu_shift;
	return len;
}

EACH_PACKET void put_headers(struct urxe_qp *qp, const struct urxe_swqe *wqe,
			     const struct request *rq, uint8_t opcode,
			     const struct urxe_opcode_info *op, struct urxe_tx *tx)
	URXE_REQUIRES(qp->lock)
{
	struct urxe_bth bth = {
		.opcode = opcode,
		.solicited = rq->last && wqe->flags & URXE_WQE_SOLICITED &&
			     op->flags & URXE_OPF_RECV_WQE,
		.migreq = urxe_apm_migreq(qp),
		.pad = -rq->payload & 3,
		.pkey = URXE_DEFAULT_PKEY,
		.dqpn = qp->dqpn,
		.ackreq = urxe_qp_acked(qp) && wants_ack(qp, rq),
		.psn = rq->psn,
	};

	urxe_bth_put(tx->bth, &bth);
	if (op->reth_off)
		urxe_reth_put(tx->bth + op->reth_off, wqe->remote_addr + rq->offset, wqe->rkey,
			      reth_length(qp, wqe, rq));
	if (__builtin_expect(op->flags & OPF_RARE, 0)) {
		put_rare(wqe, op, tx->bth);
		if (op->feth_off && qp->req.flush_form == URXE_FLUSH_TWICE) {
			urxe_tx_headers_twice(tx, op->hdr_len);
			return;
		}
	}
	urxe_tx_headers(tx, op->hdr_len);
}

/* What put_payload() finds out by itself, of a packet that does not go out. */
static bool can_read(struct urxe_qp *qp, const struct urxe_swqe *wqe, const struct request *rq)
{
	return !rq->payload || wqe->flags & URXE_WQE_INLINE ||
	       urxe_sge_check(qp->dev, qp->pd, wqe->sge, wqe->num_sge, rq->offset, rq->payload, 0);
}

EACH_PACKET bool put_payload(struct urxe_qp *qp, const struct urxe_swqe *wqe,
			     const struct request *rq, struct urxe_tx *tx)
{
	if (rq->payload) {
		if (wqe->flags & URXE_WQE_INLINE)
			urxe_tx_append(tx, wqe->data + rq->offset, rq->payload);
		else if (!urxe_sge_gather(qp->dev, qp->pd, wqe->sge, wqe->num_sge, rq->offset,
					  rq->payload, tx))
			return false;
	}
	if (__builtin_expect(rq->payload & 3, 0))
		urxe_tx_append(tx, NULL, 4 - (rq->payload & 3));
	return true;
}

/* 0 sent (or lost: the timer sees to it); EAGAIN no room; EFAULT a bad lkey, or no memory. */
EACH_PACKET int send_packet(struct urxe_qp *qp, struct urxe_lane *lane, const struct urxe_swqe *wqe,
			    const struct request *rq, struct urxe_sent *sent)
	URXE_REQUIRES(qp->lock, lane)
{
	uint8_t opcode = urxe_qp_service(qp) | rq->op;
	const struct urxe_opcode_info *op = &urxe_opcode_table[opcode];
	struct urxe_tx tx;
	int err;

	err = urxe_tx_begin(lane, qp->path, qp->dqpn, &tx, op->hdr_len + ((rq->payload + 3) & ~3u));
	if (err == EHOSTUNREACH) {
		urxe_stat_inc(qp->dev, URXE_STAT_TX_UNREACHABLE);
		urxe_peer_check(qp);
		return can_read(qp, wqe, rq) ? 0 : EFAULT;
	}
	if (err)
		return err == EMSGSIZE ? EMSGSIZE : EAGAIN;
	put_headers(qp, wqe, rq, opcode, op, &tx);
	if (!put_payload(qp, wqe, rq, &tx)) {
		urxe_tx_abort(lane, &tx);
		return EFAULT;
	}
	urxe_trace_packet_tx(qp, &tx);
	urxe_tx_commit(lane, &tx);
	sent->packets++;
	return 0;
}

static void advance(struct urxe_qp *qp, const struct urxe_swqe *wqe, const struct request *rq,
		    uint64_t now)
{
	struct urxe_requester *r = &qp->req;

	if (rq->psn == r->ack_psn)
		urxe_requester_measure(r, now);
	r->psn = urxe_psn_add(r->psn, rq->npsn);
	if (urxe_psn_diff(r->psn, r->max_psn) > 0)
		r->max_psn = r->psn;
	if (((r->psn - wqe->psn) & URXE_PSN_MASK) >= wqe->npsn)
		qp->sq.cur++;
}

/* UC: nothing comes back; a message is complete when its last packet is out. */
static void complete_unacked(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	qp->req.una = qp->req.psn;
	while (qp->sq.done != qp->sq.cur)
		urxe_requester_complete(qp, IBV_WC_SUCCESS);
}

/*
 * A READ of very many packets goes out in parts, each of which takes a responder resource: the next
 * while one is out, or when none is, as was agreed. True: it has to wait.
 */
static bool parts_outstanding(const struct urxe_qp *qp, const struct urxe_swqe *wqe)
{
	uint32_t at = (qp->req.psn - wqe->psn) & URXE_PSN_MASK;
	int32_t in = urxe_psn_diff(qp->req.una, wqe->psn); /* of it; less than 0: not begun */

	if (wqe->opcode != IBV_WR_RDMA_READ || !at)
		return false;
	return at - (in > 0 ? (uint32_t)in : 0) > (wqe->flags & URXE_WQE_PAIR ? RD_CHUNK : 0);
}

/* False: it has to wait. A failure stops the queue when all before it are complete. */
static bool run_local(struct urxe_qp *qp, struct urxe_swqe *wqe) URXE_REQUIRES(qp->lock)
{
	struct urxe_sq *sq = &qp->sq;
	int err;

	if (wqe->flags & URXE_WQE_STARTED) {
		sq->cur++; /* gone back over it: what is done is done */
		return true;
	}
	if (qp->state == IBV_QPS_SQD || (wqe->flags & URXE_WQE_FENCE && qp->req.rd_out))
		return false;
	if (wqe->opcode == IBV_WR_BIND_MW)
		err = urxe_mw_bind(qp, wqe->rkey, wqe->bind.lkey, wqe->remote_addr,
				   wqe->bind.length, wqe->bind.access);
	else
		err = urxe_mw_invalidate(qp, qp->pd, wqe->inv_rkey);
	if (err) {
		fail_local(qp, IBV_WC_MW_BIND_ERR);
		return false;
	}
	wqe->psn = qp->req.next_psn;
	wqe->npsn = 0;
	wqe->flags |= URXE_WQE_STARTED;
	sq->cur++;
	if (sq->done == sq->cur - 1)
		urxe_requester_complete(qp, IBV_WC_SUCCESS);
	return true;
}

/* Not one more copy of it in the code. */
static __attribute__((noinline)) int
send_one_again(struct urxe_qp *qp, struct urxe_lane *lane, const struct urxe_swqe *wqe,
	       const struct request *rq, uint32_t kbps, uint64_t now, struct urxe_sent *sent)
	URXE_REQUIRES(qp->lock, lane)
{
	int err = send_packet(qp, lane, wqe, rq, sent);

	if (err)
		return err;
	urxe_pace_sent(qp, kbps, now, rq->payload + URXE_PACE_HEADERS);
	urxe_stat_inc(qp->dev, URXE_STAT_RETRANSMITS);
	return 0;
}

/* What is missing goes before all else (recover.c). False: there is no room. */
static bool send_again(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now,
		       struct urxe_sent *sent) URXE_REQUIRES(qp->lock, lane)
{
	struct urxe_requester *r = &qp->req;
	struct urxe_again *g = &r->again;
	uint32_t kbps = urxe_cc_allowed(&r->cc).kbps;
	struct request rq = {.again = true};

	for (unsigned i = 0; i < g->left; i++) {
		while (g->at[i].n) {
			uint32_t psn = g->at[i].psn;
			const struct urxe_swqe *wqe = urxe_requester_find(qp, psn);
			int err;

			rq.npsn = 1;
			if (wqe) { /* else it is acknowledged */
				plan_packet(qp, wqe, psn, g->at[i].part ? g->at[i].n : UINT32_MAX,
					    &rq);
				err = send_one_again(qp, lane, wqe, &rq, kbps, now, sent);
				if (err == EAGAIN) {
					sent->more = true;
					return false;
				}
				if (err) { /* it is found out, and told, in its turn */
					urxe_requester_go_back(qp, r->una);
					return true;
				}
				/* Nothing depends on the second copy. */
				if (g->at[i].twice)
					send_one_again(qp, lane, wqe, &rq, kbps, now, sent);
			}
			g->at[i].psn = urxe_psn_add(psn, rq.npsn);
			g->at[i].n -= rq.npsn < g->at[i].n ? rq.npsn : g->at[i].n;
		}
	}
	g->left = 0;
	/* The peer waits for this, and not for what is new. */
	urxe_lane_flush(lane);
	return true;
}

struct urxe_sent urxe_requester_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now)
{
	struct urxe_requester *r = &qp->req;
	struct urxe_sq *sq = &qp->sq;
	struct urxe_sent sent = {0};
	struct urxe_cc_allowed can;
	struct request rq = {0};
	bool advanced = false, paced;

	/* Whoever has nothing to send, but receives, needs none of the requester's lines. */
	if (sq->done == sq->post)
		return sent;
	if (r->peer_gone)
		urxe_requester_check_peer(qp);
	if ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) || r->rnr_wait ||
	    (sq->cur == sq->post && !urxe_recover_due(r)))
		return sent;
	if (urxe_recover_due(r) && !send_again(qp, lane, now, &sent))
		return sent;
	can = urxe_cc_allowed(&r->cc);
	paced = urxe_pace_on(qp, can.kbps);
	rq.ack_every = ack_every(qp, &can);
	while (sq->cur != sq->post) {
		struct urxe_swqe *wqe = urxe_sq_at(sq, sq->cur);
		int err;

		if (is_local(wqe)) {
			if (!run_local(qp, wqe))
				break;
			continue;
		}
		if (!(wqe->flags & URXE_WQE_STARTED) && !start_wqe(qp, wqe)) {
			/* None were agreed on: it would wait for ever. */
			if (urxe_requester_answered(wqe) && !qp->attr.max_rd_atomic &&
			    qp->state == IBV_QPS_RTS)
				fail_local(qp, IBV_WC_LOC_QP_OP_ERR);
			break;
		}
		if (urxe_psn_diff(r->psn, r->una) >= (int32_t)can.packets ||
		    parts_outstanding(qp, wqe))
			break;
		if (paced && urxe_pace_wait(qp, can.kbps, now))
			break;
		plan_packet(qp, wqe, r->psn, UINT32_MAX, &rq);
		err = send_packet(qp, lane, wqe, &rq, &sent);
		if (err == EAGAIN) {
			sent.more = true;
			break;
		}
		if (err) {
			fail_local(qp, err == EFAULT ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR);
			break;
		}
		if (paced)
			urxe_pace_sent(qp, can.kbps, now, rq.payload + URXE_PACE_HEADERS);
		advance(qp, wqe, &rq, now);
		advanced = true;
		if (qp->type == IBV_QPT_UC)
			complete_unacked(qp);
	}
	if (advanced && r->deadline == URXE_NEVER && urxe_qp_acked(qp))
		urxe_requester_arm(qp, now);
	return sent;
}

/* *@i: its place in the queue. False: none has it. */
static bool find(const struct urxe_qp *qp, uint32_t psn, uint32_t *i)
{
	const struct urxe_sq *sq = &qp->sq;

	for (*i = sq->done; *i != sq->post; ++*i) {
		const struct urxe_swqe *wqe = urxe_sq_at(sq, *i);

		if (!(wqe->flags & URXE_WQE_STARTED))
			break;
		if (((psn - wqe->psn) & URXE_PSN_MASK) < wqe->npsn)
			return true;
	}
	return false;
}

struct urxe_swqe *urxe_requester_find(const struct urxe_qp *qp, uint32_t psn)
{
	uint32_t i;

	return find(qp, psn, &i) ? urxe_sq_at(&qp->sq, i) : NULL;
}

uint32_t urxe_requester_span(const struct urxe_qp *qp, uint32_t psn)
{
	const struct urxe_swqe *wqe = urxe_requester_find(qp, psn);
	struct request rq;

	if (!wqe)
		return 1;
	plan_packet(qp, wqe, psn, UINT32_MAX, &rq);
	return rq.npsn;
}

uint32_t urxe_requester_first(const struct urxe_qp *qp, uint32_t psn)
{
	const struct urxe_swqe *wqe = urxe_requester_find(qp, psn);

	if (!wqe || wqe->opcode != IBV_WR_RDMA_READ)
		return psn;
	return urxe_psn_add(psn, URXE_PSN_MASK + 1 - ((psn - wqe->psn) & URXE_PSN_MASK) % RD_CHUNK);
}

void urxe_requester_go_back(struct urxe_qp *qp, uint32_t psn)
{
	uint32_t i;

	if (!find(qp, psn, &i))
		return;
	urxe_trace_go_back(qp, psn);
	urxe_recover_stop(&qp->req);
	qp->sq.cur = i;
	qp->req.psn = psn;
	qp->req.ack_psn = urxe_psn_add(psn, URXE_PSN_MASK);
	qp->req.rtt_since = 0;
	urxe_stat_inc(qp->dev, URXE_STAT_RETRANSMITS);
}
