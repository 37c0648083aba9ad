/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The tracepoints of the transport, and their log lines: what changes or goes wrong at "debug",
 * what each packet does at "trace".
 */
#include "names.h"
#include "trace.h"
#include "urxe/probe.h"

URXE_PROVIDER_POINTS(URXE_TRACE_DEFINE)

#define FIRE	   URXE_TRACE_FIRE
#define NAMED	   urxe_trace_string
#define TRACE(...) urxe_log(URXE_LOG_TRACE, __VA_ARGS__)

/* ---- QPs ---- */

void urxe_trace_qp_create(const struct urxe_qp *qp)
{
	const char *type = NAMED(urxe_qp_type_name(qp->type));

	FIRE(qp_create, qp->qpn, type);
	urxe_debug("QP %06x: created, %s", qp->qpn, type);
}

void urxe_trace_qp_state(const struct urxe_qp *qp, enum ibv_qp_state to)
{
	const char *from = NAMED(urxe_qp_state_name(qp->state));
	const char *name = NAMED(urxe_qp_state_name(to));

	FIRE(qp_state, qp->qpn, from, name);
	urxe_debug("QP %06x: %s -> %s", qp->qpn, from, name);
}

void urxe_trace_qp_destroy(const struct urxe_qp *qp)
{
	const char *state = NAMED(urxe_qp_state_name(qp->state));

	FIRE(qp_destroy, qp->qpn, state);
	urxe_debug("QP %06x: destroyed in %s", qp->qpn, state);
}

/* ---- what the application gives and gets ---- */

void urxe_trace_fire_post_send(const struct urxe_qp *qp, const struct urxe_swqe *wqe)
{
	FIRE(post_send, qp->qpn, wqe->wr_id, wqe->opcode, wqe->length);
	TRACE("QP %06x: send posted, wr_id %#llx, opcode %u, %u bytes", qp->qpn,
	      (unsigned long long)wqe->wr_id, wqe->opcode, wqe->length);
}

void urxe_trace_fire_post_recv(uint32_t qpn, const struct ibv_recv_wr *wr)
{
	FIRE(post_recv, qpn, wr->wr_id, wr->num_sge);
	TRACE("QP %06x: receive posted, wr_id %#llx, %d SGEs", qpn, (unsigned long long)wr->wr_id,
	      wr->num_sge);
}

void urxe_trace_fire_completion(const struct ibv_wc *wc)
{
	const char *name = NAMED(ibv_wc_status_str(wc->status));
	bool quiet = wc->status == IBV_WC_SUCCESS || wc->status == IBV_WC_WR_FLUSH_ERR;

	FIRE(completion, wc->qp_num, wc->wr_id, (int)wc->status, name, (unsigned)wc->opcode,
	     wc->byte_len);
	urxe_log(quiet ? URXE_LOG_TRACE : URXE_LOG_DEBUG,
		 "QP %06x: completion, wr_id %#llx: %s, opcode %u", wc->qp_num,
		 (unsigned long long)wc->wr_id, name, (unsigned)wc->opcode);
}

void urxe_trace_event(const char *object, uint32_t number, enum ibv_event_type event)
{
	const char *name = NAMED(ibv_event_type_str(event));

	FIRE(event, NAMED(object), number, (int)event, name);
	urxe_debug("%s %06x: event: %s", object, number, name);
}

/* ---- packets ---- */

void urxe_trace_fire_packet_tx(const struct urxe_qp *qp, const struct urxe_tx *tx)
{
	uint32_t length = (uint32_t)(tx->end - tx->bth);
	struct urxe_bth bth;
	const char *name;

	urxe_bth_get(tx->bth, &bth);
	name = NAMED(urxe_opcode_name(bth.opcode));
	FIRE(packet_tx, qp->qpn, bth.dqpn, bth.opcode, name, bth.psn, length);
	TRACE("QP %06x: -> %06x %s, PSN %u, %u bytes", qp->qpn, bth.dqpn, name, bth.psn, length);
}

void urxe_trace_fire_packet_rx(const struct urxe_decoded *pkt, uint32_t length)
{
	const char *name = NAMED(urxe_opcode_name(pkt->opcode));

	FIRE(packet_rx, pkt->dqpn, pkt->opcode, name, pkt->psn, length);
	TRACE("QP %06x: <- %s, PSN %u, %u bytes", pkt->dqpn, name, pkt->psn, length);
}

void urxe_trace_packet_drop(uint32_t qpn, uint32_t psn, enum urxe_stat why)
{
	const char *reason = NAMED(urxe_stat_name(why));
	/* What follows a gap, or was sent again in vain, is as good as any other packet. */
	bool quiet = why == URXE_STAT_RX_DUPLICATE || why == URXE_STAT_RX_OUT_OF_SEQUENCE;

	FIRE(packet_drop, qpn, psn, reason);
	urxe_log(quiet ? URXE_LOG_TRACE : URXE_LOG_DEBUG, "QP %06x: not taken: %s, PSN %u", qpn,
		 reason, psn);
}

/* ---- the requester ---- */

void urxe_trace_go_back(const struct urxe_qp *qp, uint32_t psn)
{
	const struct urxe_requester *r = &qp->req;

	FIRE(go_back, qp->qpn, psn, r->psn, r->una);
	urxe_debug("QP %06x: sends again from PSN %u, was at %u", qp->qpn, psn, r->psn);
}

void urxe_trace_resend(const struct urxe_qp *qp, uint32_t psn, uint32_t count)
{
	FIRE(resend, qp->qpn, psn, count);
	urxe_debug("QP %06x: sends again PSN %u alone, count %u", qp->qpn, psn, count);
}

void urxe_trace_probe(const struct urxe_qp *qp, uint64_t silence)
{
	const struct urxe_requester *r = &qp->req;

	FIRE(probe, qp->qpn, r->una, r->max_psn, silence);
	urxe_debug("QP %06x: probes after %llu us of silence, PSN %u up to %u not acknowledged",
		   qp->qpn, (unsigned long long)silence / 1000, r->una, r->max_psn);
}

void urxe_trace_timeout(const struct urxe_qp *qp)
{
	const struct urxe_requester *r = &qp->req;

	FIRE(timeout, qp->qpn, r->una, r->max_psn, r->retries);
	urxe_debug("QP %06x: ACK time-out, PSN %u up to %u not acknowledged, %u of %u retries left",
		   qp->qpn, r->una, r->max_psn, r->retries, qp->attr.retry_cnt);
}

void urxe_trace_rtt(const struct urxe_qp *qp, uint64_t rtt)
{
	uint64_t smoothed = atomic_load_explicit(&qp->req.rtt.srtt, memory_order_relaxed);

	FIRE(rtt, qp->qpn, rtt, smoothed);
	TRACE("QP %06x: round trip of %llu ns, smoothed %llu", qp->qpn, (unsigned long long)rtt,
	      (unsigned long long)smoothed);
}

void urxe_trace_nak_rx(const struct urxe_qp *qp, uint32_t psn, uint8_t code)
{
	const char *name = NAMED(urxe_nak_name(URXE_AETH_NAK | code));

	FIRE(nak_rx, qp->qpn, psn, code, name, qp->req.retries);
	urxe_debug("QP %06x: <- NAK %s, PSN %u, %u of %u retries left", qp->qpn, name, psn,
		   qp->req.retries, qp->attr.retry_cnt);
}

void urxe_trace_rnr_rx(const struct urxe_qp *qp, uint32_t psn, uint32_t wait_us)
{
	FIRE(rnr_rx, qp->qpn, psn, wait_us, qp->req.rnr_retries);
	urxe_debug("QP %06x: <- RNR NAK, PSN %u, waits %u us, %u of %u RNR retries left", qp->qpn,
		   psn, wait_us, qp->req.rnr_retries, qp->attr.rnr_retry);
}

/* ---- the responder ---- */

void urxe_trace_nak(const struct urxe_qp *qp, uint8_t syndrome)
{
	const struct urxe_responder *r = &qp->resp;
	const char *state = NAMED(urxe_resp_state_name(r->state));
	const char *name = NAMED(urxe_nak_name(syndrome));
	uint8_t code = syndrome & URXE_AETH_VAL_MASK;

	if ((syndrome & URXE_AETH_TYPE_MASK) == URXE_AETH_RNR) {
		FIRE(rnr_tx, qp->qpn, r->epsn, code);
		urxe_debug("QP %06x: -> RNR NAK, PSN %u, timer %u, no receive WQE", qp->qpn,
			   r->epsn, code);
	} else {
		FIRE(nak_tx, qp->qpn, r->epsn, code, name, state);
		urxe_debug("QP %06x: -> NAK %s, PSN %u, in %s", qp->qpn, name, r->epsn, state);
	}
}

/* ---- keys ---- */

void urxe_trace_rkey_denied(const struct urxe_qp *qp, uint32_t rkey, uint64_t addr, uint64_t length,
			    unsigned access)
{
	FIRE(rkey_denied, qp->qpn, rkey, addr, length, access);
	urxe_debug("QP %06x: rkey %#x does not allow access %#x to %llu bytes at %#llx", qp->qpn,
		   rkey, access, (unsigned long long)length, (unsigned long long)addr);
}

void urxe_trace_lkey_denied(uint32_t lkey, uint64_t addr, uint64_t length, unsigned access)
{
	FIRE(lkey_denied, lkey, addr, length, access);
	urxe_debug("lkey %#x does not allow access %#x to %llu bytes at %#llx", lkey, access,
		   (unsigned long long)length, (unsigned long long)addr);
}
