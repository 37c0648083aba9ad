/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets of the fuzzer "packets": any request, and what the peer might say to the oldest request
 * that is out. PSNs, addresses, keys and lengths are given relative to the right ones.
 */
#include "packets.h"

#include "netio/stack.h"
#include "progress.h"
#include "requester.h"

#define MIGREQ 0x40 /* in the second byte of the BTH */

/* What struct raw_pkt has no place for. */
struct twist {
	bool no_migreq;	     /* the BTH's bit */
	unsigned from, dest; /* networks, of IPv4 */
	bool twice;	     /* the ICRC counts the headers twice, as some peers' do of FLUSHes */
	bool wait;	     /* with the packets that come next */
	uint32_t feth, inv_rkey, srqn;
	uint8_t n_flips, cut;
	struct {
		uint8_t at, x;
	} flips[7];
};

static uint64_t some_va(struct fuzz_in *in, uint64_t start, uint32_t len, uint8_t how)
{
	switch (how & 7) {
	case 1:
		return start + fuzz_u16(in);
	case 2:
		return start + fuzz_u16(in) % len;
	case 4:
		return start + len - fuzz_u8(in);
	case 5:
		return start - fuzz_u8(in);
	case 6:
		return (uint64_t)0 - fuzz_u8(in);
	case 7:
		return start + fuzz_u32(in);
	default:
		return start;
	}
}

/* bits of @ext, of which 0x10 is the caller's */
static void read_twist(struct run *r, struct twist *t, uint8_t ext)
{
	t->no_migreq = ext & 1;
	t->from = ext >> 1 & 1;
	t->dest = ext >> 2 & 1;
	t->twice = ext & 8;
	t->wait = ext & 0x20;
	t->srqn = ext & 0x80 ? fuzz_u32(r->in) : r->srqn;
}

static void read_flips(struct run *r, struct twist *t)
{
	t->n_flips = fuzz_u8(r->in) & 7;
	for (unsigned n = 0; n < t->n_flips; n++) {
		t->flips[n].at = fuzz_u8(r->in) & 63;
		t->flips[n].x = fuzz_u8(r->in);
	}
}

static void patch(const struct world *w, const struct twist *t, const struct raw_pkt *p, uint8_t *f,
		  uint8_t *end)
{
	const struct urxe_opcode_info *op = &urxe_opcode_table[p->opcode];
	uint8_t *bth = raw_bth(f);

	if (t->no_migreq)
		bth[1] &= (uint8_t)~MIGREQ;
	if (!w->v6 && !p->group) {
		f[ETH_LEN + 14] = (uint8_t)t->from;
		f[ETH_LEN + 18] = (uint8_t)t->dest;
	}
	if (op->xrceth_off)
		urxe_put32(bth + op->xrceth_off, t->srqn);
	if (op->feth_off)
		urxe_put32(bth + op->feth_off, t->feth);
	if (op->ieth_off)
		urxe_put32(bth + op->ieth_off, t->inv_rkey);
	for (unsigned n = 0; n < t->n_flips; n++)
		if (bth + t->flips[n].at + URXE_ICRC_LEN < end)
			bth[t->flips[n].at] ^= t->flips[n].x;
}

static void emit(struct run *r, unsigned i, const struct raw_pkt *p, const struct twist *t)
{
	struct side *from = world_side(r->w, !i), *to = world_side(r->w, i);
	uint8_t *f = malloc(9700), *bth;
	uint32_t len, n;

	FUZZ_CHECK(f);
	len = raw_frame(from, to, p, f);
	bth = raw_bth(f);
	patch(r->w, t, p, f, f + len);
	if (len > (uint32_t)(bth - f) + URXE_ICRC_LEN + t->cut)
		len -= t->cut;
	raw_reseal(f, len);
	n = len - (uint32_t)(bth - f) - URXE_ICRC_LEN;
	if (t->twice && n >= URXE_BTH_LEN)
		urxe_icrc_put(bth + n, urxe_icrc_more(urxe_icrc_get(bth + n), bth, n));
	urxe_sim_put(to->end, f, len);
	free(f);
	for (int turn = 0; turn < 2 && !t->wait; turn++)
		urxe_progress_turn(to->dev);
}

/* ---- requests ---- */

static uint32_t some_psn(struct fuzz_in *in, struct urxe_qp *qp, uint8_t opcode, uint8_t how)
{
	bool answer = urxe_opcode_table[opcode].flags & URXE_OPF_RESPONSE;
	uint32_t psn = answer ? qp->req.una : qp->resp.epsn;

	if (how & 0x80)
		return psn + fuzz_u32(in);
	return how & 0x40 ? psn + (uint32_t)(int8_t)fuzz_u8(in) : psn;
}

static uint32_t right_len(const struct urxe_qp *qp, const struct raw_pkt *p)
{
	const struct urxe_opcode_info *op = &urxe_opcode_table[p->opcode];

	if (op->flags & URXE_OPF_ATOMIC_WRITE)
		return 8;
	return op->flags & URXE_OPF_PAYLOAD && !(op->flags & URXE_OPF_LAST) ? qp->mtu : 0;
}

void wire_request(struct run *r, enum kind k, unsigned i, bool group)
{
	static const uint8_t service[] = {URXE_SVC_RC, URXE_SVC_UC, URXE_SVC_UD, URXE_SVC_XRC};
	struct fuzz_in *in = r->in;
	uint8_t op = fuzz_u8(in), how = fuzz_u8(in), more = fuzz_u8(in), ext = fuzz_u8(in);
	struct world *w = r->w;
	struct side *to = world_side(w, i);
	struct urxe_qp *qp = to_urxe_qp(r->qp[k][i]);
	bool file = ext & 0x10;
	struct raw_pkt p = {.opcode = op & 0x80 ? op : (uint8_t)(service[k] | (op & 0x1f))};
	struct twist t = {.inv_rkey = w->mw[i]->rkey};

	p.dqpn = group ? URXE_MCAST_QPN : qp->qpn;
	p.group = group ? w->group.raw : NULL;
	p.psn = some_psn(in, qp, p.opcode, how);
	p.ackreq = how & 0x08;
	p.se = how & 0x10;
	p.va = file ? some_va(in, (uintptr_t)w->file[i], FILE_LEN, how)
		    : some_va(in, (uintptr_t)to->buf + MR_AT, MR_LEN, how);
	p.rkey = more & 1     ? fuzz_u32(in)
		 : how & 0x20 ? w->mw[i]->rkey
			      : (file ? w->file_mr[i] : to->mr)->rkey;
	p.len = more & 2 ? fuzz_u16(in) % 1400 : more & 4 ? qp->mtu : right_len(qp, &p);
	p.dmalen = more & 8 ? fuzz_u32(in) : more & 16 ? fuzz_u16(in) : p.len;
	p.syndrome = more & 32 ? fuzz_u8(in) : 0x1f;
	p.msn = more & 32 ? fuzz_u32(in) : qp->resp.msn;
	p.qkey = QKEY;
	p.sqpn = r->qp[k][!i]->qp_num;
	p.swap_add = 0x0101010101010101ull;
	read_twist(r, &t, ext);
	t.feth = ext & 0x40 ? fuzz_u8(in)
			    : urxe_feth(file ? URXEDV_FLUSH_PERSISTENT : URXEDV_FLUSH_GLOBAL,
					URXEDV_FLUSH_RANGE);
	if (more & 64)
		read_flips(r, &t);
	if (more & 128)
		t.cut = fuzz_u8(in);
	emit(r, i, &p, &t);
}

/* ---- answers ---- */

static const struct urxe_swqe *oldest(struct urxe_qp *qp)
{
	const struct urxe_swqe *wqe;

	if (qp->sq.done == qp->sq.post)
		return NULL;
	wqe = urxe_sq_at(&qp->sq, qp->sq.done);
	return wqe->flags & URXE_WQE_STARTED ? wqe : NULL;
}

static uint8_t read_op(uint32_t offset, uint32_t left, uint32_t mtu)
{
	if (left <= mtu)
		return offset ? URXE_OP_READ_RESPONSE_LAST : URXE_OP_READ_RESPONSE_ONLY;
	return offset ? URXE_OP_READ_RESPONSE_MIDDLE : URXE_OP_READ_RESPONSE_FIRST;
}

/* What is due for the oldest; @whole: an ACK of all its packets, else of the first of them. */
static uint8_t right_answer(struct urxe_qp *qp, struct raw_pkt *p, bool whole)
{
	const struct urxe_swqe *wqe = oldest(qp);
	uint32_t offset, left;

	p->psn = qp->req.una;
	p->syndrome = OK_AETH;
	if (!wqe) {
		p->psn--;
		return URXE_OP_ACKNOWLEDGE;
	}
	switch ((unsigned)wqe->opcode) {
	case IBV_WR_RDMA_READ:
		offset = ((qp->req.una - wqe->psn) & URXE_PSN_MASK) << qp->mtu_shift;
		left = wqe->length - offset;
		p->len = left < qp->mtu ? left : qp->mtu;
		return read_op(offset, left, qp->mtu);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return URXE_OP_ATOMIC_ACKNOWLEDGE;
	case IBV_WR_ATOMIC_WRITE:
	case URXEDV_WR_FLUSH:
		return URXE_OP_READ_RESPONSE_ONLY;
	default:
		if (whole)
			p->psn = wqe->psn + wqe->npsn - 1;
		return URXE_OP_ACKNOWLEDGE;
	}
}

void wire_answer(struct run *r, enum kind k, unsigned i)
{
	struct fuzz_in *in = r->in;
	uint8_t how = fuzz_u8(in), op;
	struct urxe_qp *qp = to_urxe_qp(r->qp[k][i]);
	struct raw_pkt p = {.dqpn = qp->qpn};
	struct twist t = {0};

	op = right_answer(qp, &p, !(how & 0x80));
	if ((how & 3) == 3)
		p.psn = qp->req.max_psn - 1;
	else if (how & 3)
		p.psn += how & 1 ? (uint32_t)(int8_t)fuzz_u8(in) : fuzz_u32(in);
	if (how & 4) {
		op = URXE_OP_ACKNOWLEDGE;
		p.syndrome = fuzz_u8(in);
		p.len = 0;
	}
	if (how & 8)
		op = (uint8_t)(URXE_OP_READ_RESPONSE_FIRST + fuzz_u8(in) % 6);
	p.opcode = (uint8_t)(urxe_qp_service(qp) | op);
	if (!(urxe_opcode_table[p.opcode].flags & URXE_OPF_PAYLOAD))
		p.len = 0;
	if (how & 0x10)
		p.len = fuzz_u16(in) % 1400;
	if (how & 0x20)
		read_twist(r, &t, fuzz_u8(in));
	emit(r, i, &p, &t);
	if (how & 0x40)
		emit(r, i, &p, &t);
}
