/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder's READs, ATOMICs, ATOMIC WRITEs and FLUSHes: executed once, kept in the responder
 * resources for their duplicates (IBTA 9.7.4.3, 9.7.5.1.2). A duplicate READ reads again, a
 * duplicate of the others is answered from what was kept.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "flush.h"
#include "quirks.h"
#include "responder.h"
#include "rcu.h"
#include "service.h"
#include "urxe/guarded.h"

/* Many a QP never gets a READ: the resources are there from the first on. */
static bool resources_there(struct urxe_responder *r)
{
	if (!r->res && r->res_size)
		r->res = calloc(r->res_size, sizeof(*r->res));
	return r->res || !r->res_size;
}

/* The slot for a new request: the oldest goes. NULL when the peer has more out than agreed. */
static struct urxe_resource *resource_get(struct urxe_responder *r)
{
	struct urxe_resource *res;

	if (!r->res_size)
		return NULL;
	res = &r->res[r->res_head];
	if (res->kind != URXE_RES_NONE && res->pending) {
		if (!res->sent)
			return NULL;
		res->pending = false; /* a repeat that the peer no longer waits for */
		r->res_pending--;
	}
	r->res_head = (r->res_head + 1) % r->res_size;
	memset(res, 0, sizeof(*res));
	return res;
}

/* An answer is due from PSN @from on, of @n PSNs of the request's and @stop of its bytes. */
static void resource_answer(struct urxe_responder *r, struct urxe_resource *res, uint32_t from,
			    uint32_t n, uint32_t stop)
{
	if (!res->pending) {
		r->res_pending++;
		res->rest_end = 0;
	}
	res->pending = true;
	res->first = true;
	res->cur = from;
	res->end = n;
	res->stop = stop;
}

/* The newest first: one from a round of PSNs ago may be at the same PSN. */
static struct urxe_resource *resource_find(struct urxe_responder *r, uint32_t psn)
{
	for (uint32_t i = 1; r->res && i <= r->res_size; i++) {
		struct urxe_resource *res = &r->res[(r->res_head + r->res_size - i) % r->res_size];

		if (res->kind != URXE_RES_NONE && ((psn - res->psn) & URXE_PSN_MASK) < res->npsn)
			return res;
	}
	return NULL;
}

static uint32_t read_packets(const struct urxe_qp *qp, uint32_t length)
{
	return length ? (uint32_t)(((uint64_t)length + qp->mtu - 1) >> qp->mtu_shift) : 1;
}

static bool read_allowed(struct urxe_qp *qp, const struct urxe_reth *reth)
{
	return qp->access & IBV_ACCESS_REMOTE_READ &&
	       (!reth->length || urxe_mr_remote(qp, qp->resp.pd, reth->rkey, reth->va, reth->length,
						IBV_ACCESS_REMOTE_READ));
}

static void accept_read(struct urxe_qp *qp, struct urxe_resource *res, uint8_t kind, uint32_t npsn)
{
	struct urxe_responder *r = &qp->resp;

	res->kind = kind;
	res->pd = r->pd;
	res->srqn = r->srqn;
	res->psn = r->epsn;
	res->npsn = npsn;
	r->epsn = urxe_psn_add(r->epsn, npsn);
	r->msn = urxe_psn_add(r->msn, 1);
	res->msn = r->msn;
	resource_answer(r, res, res->psn, npsn, res->length);
}

static void execute_read(struct urxe_qp *qp, const struct urxe_reth *reth) URXE_REQUIRES(qp->lock)
{
	struct urxe_resource *res;
	if (reth->length > URXE_MAX_MSG_SZ) {
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_LOC_LEN_ERR);
		return;
	}
	if (!read_allowed(qp, reth)) {
		urxe_responder_fatal(qp, URXE_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR);
		return;
	}
	res = resource_get(&qp->resp);
	if (!res) {
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	res->va = reth->va;
	res->rkey = reth->rkey;
	res->length = reth->length;
	accept_read(qp, res, URXE_RES_READ, read_packets(qp, reth->length));
}

static void word_gone(struct urxe_qp *qp, uint32_t rkey, uint64_t va, unsigned access)
	URXE_REQUIRES(qp->lock)
{
	urxe_rkey_gone(qp, rkey, va, sizeof(uint64_t), access);
	urxe_responder_fatal(qp, URXE_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR);
}

static void execute_atomic(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock)
{
	const struct urxe_atomic_eth *eth = &pkt->atomic;
	struct urxe_resource *res;
	uint64_t *word;
	int err;

	if (eth->va & 7) { /* IBTA 9.4.5 */
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	word = (uint64_t *)(void *)urxe_mr_remote(qp, qp->resp.pd, eth->rkey, eth->va, 8,
						  IBV_ACCESS_REMOTE_ATOMIC);
	if (!(qp->access & IBV_ACCESS_REMOTE_ATOMIC) || !word || (uintptr_t)word & 7) {
		urxe_responder_fatal(qp, URXE_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR);
		return;
	}
	res = resource_get(&qp->resp);
	if (!res) {
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	if ((pkt->opcode & URXE_OP_MASK) == URXE_OP_COMPARE_SWAP)
		err = urxe_guarded_compare_swap(word, eth->compare, eth->swap_add, &res->value);
	else
		err = urxe_guarded_fetch_add(word, eth->swap_add, &res->value);
	if (err) {
		word_gone(qp, eth->rkey, eth->va, IBV_ACCESS_REMOTE_ATOMIC);
		return;
	}
	urxe_service_written(qp->dev, false);
	accept_read(qp, res, URXE_RES_ATOMIC, 1);
}

/* Eight bytes that appear at once (IBTA A19.4.2). */
static void execute_atomic_write(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock)
{
	uint64_t va = pkt->reth.va, value;
	struct urxe_resource *res;
	uint64_t *word;

	if (va & 7 || pkt->reth.length != sizeof(value) || pkt->length != sizeof(value)) {
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	word = (uint64_t *)(void *)urxe_mr_remote(qp, qp->resp.pd, pkt->reth.rkey, va,
						  sizeof(value), IBV_ACCESS_REMOTE_WRITE);
	if (!(qp->access & IBV_ACCESS_REMOTE_WRITE) || !word || (uintptr_t)word & 7) {
		urxe_responder_fatal(qp, URXE_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR);
		return;
	}
	res = resource_get(&qp->resp);
	if (!res) {
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	memcpy(&value, pkt->payload, sizeof(value));
	if (urxe_guarded_store(word, value)) {
		word_gone(qp, pkt->reth.rkey, va, IBV_ACCESS_REMOTE_WRITE);
		return;
	}
	urxe_service_written(qp->dev, false);
	accept_read(qp, res, URXE_RES_ATOMIC_WRITE, 1);
}

static void execute_flush(struct urxe_qp *qp, const struct urxe_decoded *pkt)
	URXE_REQUIRES(qp->lock)
{
	uint8_t placement = pkt->placement, level = pkt->level;
	uint64_t va = pkt->reth.va, length = pkt->reth.length;
	const struct urxe_mkey *mk;
	unsigned access = 0;
	uint8_t *addr = NULL;

	urxe_quirk_flush_received(qp, pkt);
	if (!placement || placement & ~(URXEDV_FLUSH_GLOBAL | URXEDV_FLUSH_PERSISTENT) ||
	    level > URXEDV_FLUSH_MR) {
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	if (placement & URXEDV_FLUSH_GLOBAL)
		access |= URXEDV_ACCESS_FLUSH_GLOBAL;
	if (placement & URXEDV_FLUSH_PERSISTENT)
		access |= URXEDV_ACCESS_FLUSH_PERSISTENT;
	mk = urxe_mkey_remote(qp, qp->resp.pd, pkt->reth.rkey, access);
	if (mk && level == URXEDV_FLUSH_MR) {
		va = mk->iova;
		length = mk->length;
		addr = mk->addr;
	} else if (mk) {
		addr = urxe_mr_remote(qp, qp->resp.pd, mk->key, va, length, access);
	}
	if ((qp->access & access) != access || !addr) {
		urxe_responder_fatal(qp, URXE_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR);
		return;
	}
	/* Everybody sees what we wrote with the processor, once it is written. Pairs with whatever
	 * the application reads it by: that is the FLUSH's meaning (IBTA A19.4.1). */
#ifndef URXE_TSAN /* which knows no fences */
	atomic_thread_fence(memory_order_seq_cst);
#endif
	if (!(placement & URXEDV_FLUSH_PERSISTENT) || !length)
		urxe_responder_flushed(qp, true);
	else if (urxe_flush_start(qp, addr, length))
		urxe_stat_inc(qp->dev, URXE_STAT_RX_NO_MEMORY); /* lost: it comes again */
}

void urxe_responder_flushed(struct urxe_qp *qp, bool good)
{
	struct urxe_resource *res = good ? resource_get(&qp->resp) : NULL;

	if (res)
		accept_read(qp, res, URXE_RES_FLUSH, 1);
	else if (good)
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR);
	else
		urxe_responder_fatal(qp, URXE_NAK_REMOTE_OP, IBV_WC_LOC_ACCESS_ERR);
}

void urxe_responder_execute_read(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	if (!resources_there(&qp->resp))
		urxe_stat_inc(qp->dev, URXE_STAT_RX_NO_MEMORY); /* lost: it comes again */
	else if (pkt->what & URXE_OPF_READ)
		execute_read(qp, &pkt->reth);
	else if (pkt->what & URXE_OPF_ATOMIC)
		execute_atomic(qp, pkt);
	else if (pkt->what & URXE_OPF_ATOMIC_WRITE)
		execute_atomic_write(qp, pkt);
	else if (pkt->what & URXE_OPF_FLUSH)
		execute_flush(qp, pkt);
	else /* an operation that this QP does not offer */
		urxe_responder_fatal(qp, URXE_NAK_INVALID_REQ, IBV_WC_REM_INV_REQ_ERR);
}

/*
 * A part of a READ is asked for while another part is being answered: both are. False: what was
 * under way comes behind, and the new one is to be begun.
 */
static bool join_answers(struct urxe_resource *res, uint32_t psn, uint32_t end, uint32_t stop)
{
	uint32_t at = (psn - res->psn) & URXE_PSN_MASK, cur = (res->cur - res->psn) & URXE_PSN_MASK;

	if (at >= cur && end <= res->end)
		return true;
	if (at <= cur && end >= cur) {
		res->first |= at < cur;
		res->cur = psn;
		res->end = end > res->end ? end : res->end;
		res->stop = stop > res->stop ? stop : res->stop;
		return true;
	}
	if (res->rest_end) {
		if (urxe_psn_diff(psn, res->rest) < 0)
			res->rest = psn;
		res->rest_end = end > res->rest_end ? end : res->rest_end;
		res->rest_stop = stop > res->rest_stop ? stop : res->rest_stop;
		return true;
	}
	if (at > cur) {
		res->rest = psn;
		res->rest_end = end;
		res->rest_stop = stop;
		return true;
	}
	res->rest = res->cur;
	res->rest_end = res->end;
	res->rest_stop = res->stop;
	return false;
}

void urxe_responder_duplicate_read(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	uint32_t psn = pkt->psn;
	struct urxe_resource *res = resource_find(&qp->resp, psn);
	uint32_t len, stop;
	uint64_t at;

	/* Not kept any more: older than anything the peer may still wait for. */
	if (!res)
		return;
	if ((pkt->what & URXE_OPF_ATOMIC && res->kind == URXE_RES_ATOMIC) ||
	    (pkt->what & URXE_OPF_ATOMIC_WRITE && res->kind == URXE_RES_ATOMIC_WRITE) ||
	    (pkt->what & URXE_OPF_FLUSH && res->kind == URXE_RES_FLUSH)) {
		resource_answer(&qp->resp, res, psn, 1, 0);
		return;
	}
	if (!(pkt->what & URXE_OPF_READ) || res->kind != URXE_RES_READ)
		return;
	/* It may ask for a part only, but for nothing that the first one did not. */
	at = (uint64_t)((psn - res->psn) & URXE_PSN_MASK) << qp->mtu_shift;
	len = pkt->reth.length;
	if (pkt->reth.va != res->va + at || pkt->reth.rkey != res->rkey || len > res->length - at ||
	    (!len && res->length)) {
		urxe_stat_inc(qp->dev, URXE_STAT_RX_BAD_LENGTH);
		return;
	}
	stop = (uint32_t)at + len;
	if (!res->pending || !join_answers(res, psn, read_packets(qp, stop), stop))
		resource_answer(&qp->resp, res, psn, read_packets(qp, stop), stop);
}
