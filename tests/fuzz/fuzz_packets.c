/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RoCEv2 packets with a good ICRC to connected QPs that are at work: RC, UC, UD and XRC, in both
 * directions; to groups, windows, flow rules and work queues as well, over IPv4 and IPv6; while
 * networks die, paths migrate, memory goes away and a disk fails. The input is a program: one byte
 * chooses retries, resources and MTU, then records follow (packets.h has who carries them out).
 * Whatever comes: what is outside of the regions is neither written nor sent, and each work request
 * completes once.
 */
#include "packets.h"

#include "flush.h"
#include "progress.h"

#define MAX_RECORDS 96

static bool all_canary(const uint8_t *p, uint32_t len)
{
	return p[0] == CANARY && !memcmp(p, p + 1, len - 1);
}

/* ---- what holds after each record ---- */

static void check_requester(const struct urxe_qp *qp)
{
	const struct urxe_requester *q = &qp->req;

	FUZZ_CHECK(qp->sq.post - qp->sq.done <= qp->sq.ring.max);
	FUZZ_CHECK(qp->sq.cur - qp->sq.done <= qp->sq.post - qp->sq.done);
	FUZZ_CHECK(q->retries <= qp->attr.retry_cnt && q->rnr_retries <= qp->attr.rnr_retry);
	if (!urxe_qp_acked(qp) || qp->state < IBV_QPS_RTS || qp->state == IBV_QPS_ERR)
		return;
	/* una <= psn <= max_psn <= next_psn */
	FUZZ_CHECK(urxe_psn_diff(q->psn, q->una) >= 0);
	FUZZ_CHECK(urxe_psn_diff(q->max_psn, q->psn) >= 0);
	FUZZ_CHECK(urxe_psn_diff(q->next_psn, q->max_psn) >= 0);
}

static void check_responder(const struct urxe_qp *qp)
{
	const struct urxe_responder *p = &qp->resp;
	uint32_t pending = 0;

	FUZZ_CHECK(p->state < URXE_NUM_RESP_STATES && p->resume < URXE_NUM_RESP_STATES);
	for (uint32_t i = 0; p->res && i < p->res_size; i++)
		pending += p->res[i].kind != URXE_RES_NONE && p->res[i].pending;
	/* What cannot be answered any more is left as it is. */
	FUZZ_CHECK(pending == p->res_pending || p->state == URXE_RESP_FATAL ||
		   qp->state == IBV_QPS_ERR);
	FUZZ_CHECK(qp->answers || !(p->ack_due || p->nak_due || p->res_pending || p->stall));
	FUZZ_CHECK(!p->in_recv || p->offset <= p->rwqe->length || p->state != URXE_RESP_IN_SEND);
	FUZZ_CHECK(p->epsn <= URXE_PSN_MASK && p->msn <= URXE_PSN_MASK);
}

static void check(const struct run *r)
{
	for (unsigned k = 0; k < N_KINDS; k++)
		for (unsigned i = 0; i < 2; i++) {
			const struct urxe_qp *qp = to_urxe_qp(r->qp[k][i]);

			if (k != K_UD)
				check_requester(qp);
			check_responder(qp);
		}
}

/* ---- records ---- */

/* What befalls the world, or who of it has a turn. */
static void event(struct run *r, unsigned i)
{
	struct world *w = r->w;
	uint8_t what = fuzz_u8(r->in);

	switch (what & 7) {
	case 0:
	case 1:
		w->dead ^= DEAD_NET(what & 1);
		break;
	case 2:
		w->dead = DEAD_ALL;
		break;
	case 3:
		w->dead = 0;
		break;
	case 4:
		world_gone(w, i, (enum gone)(what >> 3 & 3));
		break;
	case 5:
		world_disk(what & 8);
		break;
	case 6:
		urxe_flush_run(world_side(w, i)->dev);
		break;
	default:
		urxe_progress_turn(world_side(w, i)->dev);
		break;
	}
}

static void steps(struct run *r)
{
	for (unsigned t = fuzz_u8(r->in) & 31; t; t--)
		pair_step(&r->w->p);
}

static void record(struct run *r)
{
	uint8_t what = fuzz_u8(r->in);
	enum kind k = what & 3;
	unsigned i = what >> 2 & 1;

	switch (what >> 3 & 15) {
	case 0:
		work_send(r, k, i);
		break;
	case 1:
		work_recv(r, k, i);
		break;
	case 2:
		steps(r);
		break;
	case 3: /* 1 us to 131 ms */
		pair_settle(&r->w->p, 1000ull << fuzz_u8(r->in) % 18);
		break;
	case 6:
	case 7:
		wire_answer(r, k, i);
		break;
	case 8:
		work_window(r, i);
		break;
	case 9:
		work_member(r, i);
		break;
	case 10:
		work_group_send(r, i);
		break;
	case 11:
		if (k & 1)
			work_rule(r, i);
		else
			work_raw_recv(r, i);
		break;
	case 12:
		wire_request(r, K_UD, i, true);
		break;
	case 13:
		work_path(r, k, i);
		break;
	case 14:
		work_qp(r, k, i);
		break;
	case 15:
		event(r, i);
		break;
	default:
		wire_request(r, k, i, false);
		break;
	}
	work_reap(r);
	check(r);
}

/* ---- the end ---- */

static void all_to_error(struct run *r)
{
	struct ibv_wq_attr err = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_ERR};

	for (unsigned i = 0; i < 2 && r->raw; i++)
		FUZZ_CHECK(!ibv_modify_wq(r->wq[i], &err));
	if (r->raw)
		FUZZ_CHECK(!pair_modify(r->raw, IBV_QPS_ERR));
	for (unsigned k = 0; k < N_KINDS; k++)
		for (unsigned i = 0; i < 2; i++)
			FUZZ_CHECK(!pair_modify(r->qp[k][i], IBV_QPS_ERR));
}

static void finish(struct run *r)
{
	struct pair *p = &r->w->p;

	for (unsigned i = 0; i < 2; i++)
		if (r->member[i])
			work_member(r, i);
	all_to_error(r);
	work_reap(r);
	pair_settle(p, 1000000);
	work_reap(r);
	/* A receive of the SRQ stays there, or went with the QP. */
	for (unsigned i = 0; i < r->n_wrs; i++)
		FUZZ_CHECK(r->done[i] || r->on_srq[i]);
	run_unmake(r);
	work_reap(r);
	pair_settle(p, 1000000);
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = world_side(r->w, i);

		while (pair_event(s) >= 0)
			;
		FUZZ_CHECK(all_canary(s->buf, MR_AT));
		FUZZ_CHECK(all_canary(s->buf + MR_AT + MR_LEN, PAIR_BUF - MR_AT - MR_LEN));
	}
	world_heal(r->w);
}

/* The highest bit of the first byte chooses IPv6. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run r;
	struct fuzz_in in = {data, size};
	uint8_t how = fuzz_u8(&in);

	memset(&r, 0, sizeof(r));
	r.in = &in;
	r.w = world_get(how & 0x80);
	run_make(&r, how);
	for (unsigned n = 0; n < MAX_RECORDS && in.n; n++)
		record(&r);
	finish(&r);
	return 0;
}
