/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Is every byte where it belongs? Two sides work through the operations that a seed gives
 * (plan.h), each on the arena of the other and both at once, over whatever the link does to their
 * frames (`urxe run --drop --dup --reorder --corrupt`). After each batch the whole arena, gaps
 * too, is compared with what must be there.
 *
 *	integrity -s SEED [-t rc|uc|ud|xrc] [-p PORT] [HOST]
 * The side without HOST listens on the TCP port, by which the sides wait for each other. Status 0
 * when all was as it must be; else the seed, the batch and the operation are printed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs.h"

#define STUCK_SECONDS 150 /* of a run as a whole */
#define SLOTS	      64u /* receives of UC and UD */

struct run {
	struct shape s;
	struct verbs v;
	unsigned side;
	uint8_t *want;	  /* what our arena must hold */
	uint8_t *initial; /* what it held */
	uint8_t *peer;	  /* what the peer's must hold */
	uint8_t *tmp;
	struct batch own, theirs;
	unsigned completed[MAX_QP], received; /* of the batch */
	unsigned next_recv[MAX_QP];	      /* the peer's operation looked at next */
	bool invalidated[MAX_QP];
	uint64_t ops, bytes, arrived, expected;
};

static struct {
	uint64_t seed;
	const char *transport;
	unsigned batch, op;
} where;

static void complain(const char *what)
{
	fprintf(stderr, "integrity: seed %llu, %s, batch %u, operation %u: %s\n",
		(unsigned long long)where.seed, where.transport, where.batch, where.op, what);
}

void need(bool ok, const char *what)
{
	char text[256];

	if (ok)
		return;
	snprintf(text, sizeof(text), "%s: %s", what, strerror(errno));
	complain(text);
	exit(1);
}

static char stuck[128]; /* a signal handler may not format */

static void on_alarm(int sig)
{
	(void)sig;
	(void)!write(2, stuck, strlen(stuck));
	_exit(1);
}

static void wrong(const struct plan_op *o, const char *what, uint64_t is, uint64_t should)
{
	char text[256];

	snprintf(text, sizeof(text), "%s of %u bytes, QP %u: %s is %llu, not %llu", op_names[o->op],
		 o->len, o->qp, what, (unsigned long long)is, (unsigned long long)should);
	complain(text);
	exit(1);
}

/* ---- posting ---- */

static void to_sges(const struct run *r, const struct pieces *p, struct ibv_sge *sge)
{
	for (unsigned i = 0; i < p->n; i++)
		sge[i] = (struct ibv_sge){
			.addr = r->v.own.base[p->at[i].mr] + p->at[i].off,
			.length = p->at[i].len,
			.lkey = r->v.mr[p->at[i].mr]->lkey,
		};
}

static void post_recv(struct run *r, unsigned q, uint64_t id, const struct pieces *p)
{
	struct ibv_sge sge[MAX_SGE + 1];
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = sge, .num_sge = (int)p->n}, *bad;

	to_sges(r, p, sge);
	errno = r->v.srq ? ibv_post_srq_recv(r->v.srq, &wr, &bad)
			 : ibv_post_recv(r->v.rqp[q], &wr, &bad);
	need(!errno, "post of a receive");
}

/* The receives from..to, of those that the peer's batch needs. */
static void post_recvs(struct run *r, unsigned from, unsigned to)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->theirs.n; i++)
		if (plan_receives(r->theirs.op[i].op)) {
			if (n >= from && n < to)
				post_recv(r, r->theirs.op[i].qp, i, &r->theirs.op[i].recv);
			n++;
		}
}

static uint32_t rkey(const struct run *r, const struct plan_op *o)
{
	return o->mr == 2 ? r->v.peer_rkey[o->qp] : r->v.peer.rkey[o->mr];
}

/* A window starts at the arena, as the first MR does. */
static uint64_t address(const struct run *r, const struct plan_op *o)
{
	return r->v.peer.base[o->mr == 2 ? 0 : o->mr] + o->remote;
}

static unsigned flags(const struct plan_op *o)
{
	return (o->signaled ? IBV_SEND_SIGNALED : 0u) | (o->fence ? IBV_SEND_FENCE : 0u) |
	       (o->inl ? IBV_SEND_INLINE : 0u);
}

static void post_classic(struct run *r, const struct plan_op *o, unsigned i, uint64_t compare)
{
	static const enum ibv_wr_opcode codes[] = {
		[OP_SEND] = IBV_WR_SEND,
		[OP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[OP_SEND_INV] = IBV_WR_SEND_WITH_INV,
		[OP_WRITE] = IBV_WR_RDMA_WRITE,
		[OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[OP_READ] = IBV_WR_RDMA_READ,
		[OP_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
		[OP_FADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_sge sge[MAX_SGE];
	struct ibv_send_wr wr =
				   {
					   .wr_id = i,
					   .sg_list = sge,
					   .num_sge = (int)o->local.n,
					   .opcode = codes[o->op],
					   .send_flags = flags(o),
					   .imm_data = htonl(o->imm),
				   },
			   *bad;

	to_sges(r, &o->local, sge);
	/* Inline data are read by the caller: at its own addresses, whatever an MR calls them. */
	for (unsigned k = 0; o->inl && k < o->local.n; k++)
		sge[k].addr = (uintptr_t)r->v.arena + o->local.at[k].off;
	if (o->op == OP_SEND_INV)
		wr.invalidate_rkey = r->v.peer_rkey[o->qp];
	if (r->s.transport == UD) {
		wr.wr.ud.ah = r->v.ah;
		wr.wr.ud.remote_qpn = r->v.peer.qpn[o->qp];
		wr.wr.ud.remote_qkey = QKEY;
	} else if (o->op == OP_CAS || o->op == OP_FADD) {
		wr.wr.atomic.remote_addr = address(r, o);
		wr.wr.atomic.rkey = rkey(r, o);
		wr.wr.atomic.compare_add = o->op == OP_CAS ? compare : o->operand;
		wr.wr.atomic.swap = o->operand;
	} else {
		wr.wr.rdma.remote_addr = address(r, o);
		wr.wr.rdma.rkey = rkey(r, o);
	}
	if (r->s.transport == XRC)
		wr.qp_type.xrc.remote_srqn = r->v.peer.srqn;
	errno = ibv_post_send(r->v.qp[o->qp], &wr, &bad);
	need(!errno, "ibv_post_send");
}

static void build(struct run *r, struct ibv_qp_ex *q, const struct plan_op *o, uint64_t compare)
{
	uint64_t to = address(r, o);
	uint32_t key = rkey(r, o);

	switch (o->op) {
	case OP_SEND:
		ibv_wr_send(q);
		break;
	case OP_SEND_IMM:
		ibv_wr_send_imm(q, htonl(o->imm));
		break;
	case OP_SEND_INV:
		ibv_wr_send_inv(q, r->v.peer_rkey[o->qp]);
		break;
	case OP_WRITE:
		ibv_wr_rdma_write(q, key, to);
		break;
	case OP_WRITE_IMM:
		ibv_wr_rdma_write_imm(q, key, to, htonl(o->imm));
		break;
	case OP_READ:
		ibv_wr_rdma_read(q, key, to);
		break;
	case OP_CAS:
		ibv_wr_atomic_cmp_swp(q, key, to, compare, o->operand);
		break;
	case OP_FADD:
		ibv_wr_atomic_fetch_add(q, key, to, o->operand);
		break;
	case OP_ATOMIC_WRITE:
		ibv_wr_atomic_write(q, key, to, &o->operand);
		break;
	default:
		break;
	}
}

static void post_built(struct run *r, const struct plan_op *o, unsigned i, uint64_t compare)
{
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(r->v.qp[o->qp]);
	struct ibv_data_buf buf[MAX_SGE];
	struct ibv_sge sge[MAX_SGE];

	ibv_wr_start(q);
	q->wr_id = i;
	q->wr_flags = flags(o) & ~(unsigned)IBV_SEND_INLINE;
	build(r, q, o, compare);
	if (r->s.transport == UD)
		ibv_wr_set_ud_addr(q, r->v.ah, r->v.peer.qpn[o->qp], QKEY);
	if (r->s.transport == XRC)
		ibv_wr_set_xrc_srqn(q, r->v.peer.srqn);
	to_sges(r, &o->local, sge);
	for (unsigned k = 0; o->inl && k < o->local.n; k++)
		buf[k] = (struct ibv_data_buf){r->v.arena + o->local.at[k].off, sge[k].length};
	if (o->inl)
		ibv_wr_set_inline_data_list(q, o->local.n, buf);
	else if (o->op != OP_ATOMIC_WRITE)
		ibv_wr_set_sge_list(q, o->local.n, sge);
	errno = ibv_wr_complete(q);
	need(!errno, "ibv_wr_complete");
}

/* Posts one, and does to our picture of the peer's arena, and of ours, what it will do. */
static void post_op(struct run *r, unsigned i)
{
	const struct plan_op *o = &r->own.op[i];
	uint64_t compare = 0;

	where.op = i;
	if (o->op <= OP_WRITE_IMM) {
		plan_content(&r->s, &r->own, i, r->tmp);
		pieces_scatter(&o->local, r->want, r->tmp, o->len);
		pieces_scatter(&o->local, r->v.arena, r->tmp, o->len);
	}
	if (o->op == OP_CAS) {
		memcpy(&compare, r->peer + o->remote, 8);
		compare = plan_compare(o, compare);
	}
	if (r->s.builder)
		post_built(r, o, i, compare);
	else
		post_classic(r, o, i, compare);
	if (o->inl) {
		/* The data were taken: the memory is the program's again. */
		memset(r->tmp + o->len, 0x5a, o->len);
		pieces_scatter(&o->local, r->want, r->tmp + o->len, o->len);
		pieces_scatter(&o->local, r->v.arena, r->tmp + o->len, o->len);
	}
	plan_apply(o, r->peer, r->tmp, r->tmp);
	if (o->op == OP_READ || o->op == OP_CAS || o->op == OP_FADD)
		pieces_scatter(&o->local, r->want, r->tmp, o->len);
	r->ops++;
	r->bytes += o->len;
}

/* ---- completions ---- */

static void check_status(const struct plan_op *o, const struct ibv_wc *wc)
{
	char text[128];

	if (wc->status == IBV_WC_SUCCESS)
		return;
	snprintf(text, sizeof(text), "%s of %u bytes, QP %u: %s", op_names[o->op], o->len, o->qp,
		 ibv_wc_status_str(wc->status));
	complain(text);
	exit(1);
}

static const enum ibv_wc_opcode sent[] = {
	[OP_SEND] = IBV_WC_SEND,
	[OP_SEND_IMM] = IBV_WC_SEND,
	[OP_SEND_INV] = IBV_WC_SEND,
	[OP_WRITE] = IBV_WC_RDMA_WRITE,
	[OP_WRITE_IMM] = IBV_WC_RDMA_WRITE,
	[OP_READ] = IBV_WC_RDMA_READ,
	[OP_CAS] = IBV_WC_COMP_SWAP,
	[OP_FADD] = IBV_WC_FETCH_ADD,
	[OP_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
};

static void on_sent(struct run *r, const struct ibv_wc *wc)
{
	unsigned i = (unsigned)wc->wr_id;
	const struct plan_op *o;

	where.op = i;
	need(i < r->own.n, "completion of nothing we posted");
	o = &r->own.op[i];
	check_status(o, wc);
	if (wc->opcode != sent[o->op])
		wrong(o, "opcode of the completion", wc->opcode, sent[o->op]);
	if (!o->signaled || i + 1 <= r->completed[o->qp])
		wrong(o, "order of completions", i, r->completed[o->qp]);
	r->completed[o->qp] = i + 1;
}

static unsigned qp_of(const struct run *r, uint32_t qpn)
{
	for (unsigned q = 0; q < r->s.qps; q++)
		if (r->v.rqp[q]->qp_num == qpn)
			return q;
	complain("completion of an unknown QP");
	exit(1);
}

static void check_received(struct run *r, const struct plan_op *o, const struct ibv_wc *wc)
{
	enum ibv_wc_opcode code = o->op == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	unsigned flag = o->op == OP_SEND_INV ? IBV_WC_WITH_INV
			: o->op == OP_SEND   ? 0u
					     : IBV_WC_WITH_IMM;
	uint32_t len = o->len + (r->s.transport == UD ? GRH_BYTES : 0);

	check_status(o, wc);
	if (wc->opcode != code)
		wrong(o, "opcode of the receive", wc->opcode, code);
	if (wc->byte_len != len)
		wrong(o, "byte_len of the receive", wc->byte_len, len);
	if ((wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) != flag)
		wrong(o, "wc_flags of the receive", wc->wc_flags, flag);
	if (flag == IBV_WC_WITH_IMM && ntohl(wc->imm_data) != o->imm)
		wrong(o, "immediate", ntohl(wc->imm_data), o->imm);
	if (flag == IBV_WC_WITH_INV && wc->invalidated_rkey != r->v.mw[o->qp]->rkey)
		wrong(o, "invalidated rkey", wc->invalidated_rkey, r->v.mw[o->qp]->rkey);
	r->received++;
	r->arrived++;
}

/* RC and XRC: messages of a QP come in order, all of them. */
static void on_received(struct run *r, const struct ibv_wc *wc)
{
	unsigned q = qp_of(r, wc->qp_num), i = r->next_recv[q];
	const struct plan_op *o;

	while (i < r->theirs.n && (r->theirs.op[i].qp != q || !plan_receives(r->theirs.op[i].op)))
		i++;
	where.op = i;
	need(i < r->theirs.n && wc->wr_id < r->theirs.n, "receive of nothing that was sent");
	o = &r->theirs.op[i];
	r->next_recv[q] = i + 1;
	check_received(r, o, wc);
	if (o->op == OP_SEND_INV)
		r->invalidated[q] = true;
	if (o->op == OP_WRITE_IMM)
		return;
	plan_content(&r->s, &r->theirs, i, r->tmp);
	pieces_scatter(&r->theirs.op[wc->wr_id].recv, r->want, r->tmp, o->len);
}

/* ---- UC and UD: what comes at all must be whole ---- */

static void slot_pieces(const struct run *r, unsigned slot, struct pieces *p)
{
	plan_slot(&r->s, r->side, slot, SLOTS, p);
}

static void post_slot(struct run *r, unsigned slot)
{
	struct pieces p;

	slot_pieces(r, slot, &p);
	post_recv(r, slot % r->s.qps, slot, &p);
}

static void gather(const struct pieces *p, const uint8_t *arena, uint8_t *to, uint32_t len)
{
	for (unsigned i = 0; i < p->n && len; i++) {
		uint32_t n = p->at[i].len < len ? p->at[i].len : len;

		memcpy(to, arena + p->at[i].off, n);
		to += n;
		len -= n;
	}
}

static void on_arrived(struct run *r, const struct ibv_wc *wc)
{
	uint32_t grh = r->s.transport == UD ? GRH_BYTES : 0, id = 0, i;
	const struct plan_op none = {.op = OP_SEND}, *o;
	static struct batch b; /* of any number: reordering may make one late */
	struct pieces p;

	check_status(&none, wc);
	slot_pieces(r, (unsigned)wc->wr_id, &p);
	if (wc->wc_flags & IBV_WC_WITH_IMM) {
		id = ntohl(wc->imm_data);
	} else {
		gather(&p, r->v.arena, r->tmp, grh + 4);
		memcpy(&id, r->tmp + grh, 4);
	}
	where.batch = id >> 16;
	where.op = i = id & 0xffff;
	need(id >> 16 <= r->theirs.number, "a message that was never sent");
	plan_batch(&r->s, !r->side, id >> 16, &b);
	need(i < b.n && plan_receives(b.op[i].op), "a message that was never sent");
	o = &b.op[i];
	check_received(r, o, wc);
	plan_content(&r->s, &b, i, r->tmp);
	if (o->op == OP_WRITE_IMM) {
		if (memcmp(r->v.arena + o->remote, r->tmp, o->len))
			wrong(o, "what was written", 1, 0);
	} else {
		gather(&p, r->v.arena, r->tmp + AREA, grh + o->len);
		if (memcmp(r->tmp + AREA + grh, r->tmp, o->len))
			wrong(o, "what was received", 1, 0);
	}
	post_slot(r, (unsigned)wc->wr_id);
	where.batch = r->own.number;
}

/* ---- progress ---- */

static bool poll_all(struct run *r)
{
	struct ibv_wc wc[8];
	int n, m;

	n = ibv_poll_cq(r->v.rcq, 8, wc);
	need(n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++)
		if (plan_reliable(&r->s))
			on_received(r, &wc[i]);
		else
			on_arrived(r, &wc[i]);
	m = ibv_poll_cq(r->v.scq, 8, wc);
	need(m >= 0, "ibv_poll_cq");
	for (int i = 0; i < m; i++)
		on_sent(r, &wc[i]);
	return n || m;
}

static void sleep_for_event(struct run *r)
{
	struct ibv_cq *cq;
	void *context;

	need(!ibv_req_notify_cq(r->v.scq, 0) && !ibv_req_notify_cq(r->v.rcq, 0),
	     "ibv_req_notify_cq");
	if (poll_all(r))
		return;
	need(!ibv_get_cq_event(r->v.channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static bool done(const struct run *r)
{
	unsigned last[MAX_QP] = {0};

	for (unsigned i = 0; i < r->own.n; i++)
		last[r->own.op[i].qp] = i + 1;
	for (unsigned q = 0; q < r->s.qps; q++)
		if (r->completed[q] < last[q])
			return false;
	return !plan_reliable(&r->s) || r->received == r->theirs.recvs;
}

static void progress(struct run *r)
{
	while (!done(r))
		if (!poll_all(r) && r->s.events)
			sleep_for_event(r);
}

/* ---- memory windows: a fresh one for each batch, bound by its owner ---- */

static void post_bind(struct run *r, unsigned q, bool local_inv)
{
	struct ibv_mw *mw = r->v.mw[q];
	struct ibv_mw_bind_info info = {
		.mr = r->v.mr[0],
		.addr = (uintptr_t)r->v.arena,
		.length = ARENA,
		.mw_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_send_wr inv = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey}, *bad;
	struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

	if (local_inv) {
		errno = ibv_post_send(r->v.qp[q], &inv, &bad);
		need(!errno, "LOCAL_INV");
	}
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = info;
	errno = ibv_post_send(r->v.qp[q], &bind, &bad);
	need(!errno, "BIND_MW");
	mw->rkey = bind.bind_mw.rkey;
}

static void bind_windows(struct run *r)
{
	struct ibv_wc wc;
	int n;

	for (unsigned q = 0; q < r->s.qps; q++) {
		post_bind(r, q, r->own.number && !r->invalidated[q]);
		r->invalidated[q] = false;
		do {
			n = ibv_poll_cq(r->v.scq, 1, &wc);
		} while (!n);
		need(n == 1, "ibv_poll_cq");
		errno = EIO;
		need(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW,
		     ibv_wc_status_str(wc.status));
	}
}

/* ---- a batch ---- */

/*
 * That the peer is done we know by TCP, of which ThreadSanitizer sees nothing: memory that a peer
 * may write is read here alone, without it. (Its memcmp() would look all the same.)
 */
#define PEER_DONE __attribute__((no_sanitize_thread))

/* The first byte from i on, before end, where two arenas differ; else end. */
PEER_DONE static uint32_t differs(const uint8_t *a, const uint8_t *b, uint32_t i, uint32_t end)
{
	while (i < end && a[i] == b[i])
		i++;
	return i;
}

static void same(struct run *r, uint32_t from, uint32_t len, const char *what)
{
	char text[200];
	uint32_t i;

	i = differs(r->v.arena, r->want, from, from + len);
	if (i == from + len)
		return;
	for (unsigned k = 0; k < r->theirs.n; k++) {
		const struct plan_op *o = &r->theirs.op[k];

		if (o->op >= OP_WRITE && i - o->remote < o->len)
			fprintf(stderr, "integrity: the peer's operation %u there: %s\n", k,
				op_names[o->op]);
	}
	for (unsigned k = 0; k < r->own.n; k++)
		for (unsigned j = 0; j < r->own.op[k].local.n; j++)
			if (i - r->own.op[k].local.at[j].off < r->own.op[k].local.at[j].len)
				fprintf(stderr, "integrity: our operation %u there: %s\n", k,
					op_names[r->own.op[k].op]);
	snprintf(text, sizeof(text), "%s: byte 0x%x of the arena is %02x, not %02x", what, i,
		 r->v.arena[i], r->want[i]);
	complain(text);
	exit(1);
}

/* UC: what was lost stays as it was, byte by byte. */
static void same_or_lost(struct run *r)
{
	char text[100];
	uint32_t i = TGT_OFF;

	while ((i = differs(r->v.arena, r->want, i, ARENA)) < ARENA) {
		if (differs(r->v.arena, r->initial, i, i + 1) == i) {
			snprintf(text, sizeof(text), "byte 0x%x of the arena is neither", i);
			complain(text);
			exit(1);
		}
		i++;
	}
}

/* What the peer's batch does to our memory, as if nothing could go wrong. */
static void foresee(struct run *r)
{
	for (unsigned i = 0; i < r->theirs.n; i++) {
		const struct plan_op *o = &r->theirs.op[i];

		r->expected += plan_receives(o->op);
		if (o->op < OP_WRITE)
			continue;
		if (o->op <= OP_WRITE_IMM)
			plan_content(&r->s, &r->theirs, i, r->tmp);
		plan_apply(o, r->want, r->tmp, r->tmp + AREA);
	}
}

static void verify(struct run *r)
{
	where.op = r->own.n;
	if (plan_reliable(&r->s)) {
		same(r, 0, ARENA, "after the batch");
		return;
	}
	same(r, SRC_OFF, 2 * AREA, "after the batch");
	if (r->s.transport == UC)
		same_or_lost(r);
	else
		same(r, TGT_OFF, ARENA - TGT_OFF, "after the batch");
}

static void barrier(struct run *r)
{
	uint64_t mine = r->own.number, theirs;

	verbs_exchange(&r->v, &mine, &theirs, sizeof(mine));
	errno = EPROTO;
	need(mine == theirs, "the peer is elsewhere");
}

static void run_batch(struct run *r, unsigned number)
{
	uint32_t keys[MAX_QP] = {0};

	where.batch = number;
	where.op = 0;
	plan_batch(&r->s, r->side, number, &r->own);
	plan_batch(&r->s, !r->side, number, &r->theirs);
	memset(r->completed, 0, sizeof(r->completed));
	memset(r->next_recv, 0, sizeof(r->next_recv));
	r->received = 0;
	if (r->s.windows)
		bind_windows(r);
	post_recvs(r, 0, r->theirs.early);
	foresee(r);
	for (unsigned q = 0; q < r->s.qps && r->s.windows; q++)
		keys[q] = r->v.mw[q]->rkey;
	/* From here on the peer's operations come. */
	verbs_exchange(&r->v, keys, r->v.peer_rkey, sizeof(keys));
	post_recvs(r, r->theirs.early, r->theirs.recvs);
	for (unsigned i = 0; i < r->own.n; i++)
		post_op(r, i);
	progress(r);
	barrier(r);
	/* Unreliable ones may still come. */
	while (poll_all(r))
		;
	verify(r);
}

static void start(struct run *r, uint64_t seed, enum transport t)
{
	unsigned mtu = verbs_open(&r->v);

	plan_shape(&r->s, seed, t, mtu);
	r->want = malloc(ARENA);
	r->initial = malloc(ARENA);
	r->peer = malloc(ARENA);
	r->tmp = malloc(2 * AREA);
	need(r->want && r->initial && r->peer && r->tmp, "memory");
	plan_initial(&r->s, r->side, r->v.arena);
	memcpy(r->want, r->v.arena, ARENA);
	memcpy(r->initial, r->v.arena, ARENA);
	plan_initial(&r->s, !r->side, r->peer);
	/* Which starts the device: its thread may write there from now on. */
	verbs_connect(&r->v, &r->s);
	for (unsigned i = 0; i < SLOTS && !plan_reliable(&r->s); i++)
		post_slot(r, i);
}

static int finish(struct run *r)
{
	/* A few percent get lost, not half: else this would test nothing. */
	need(r->arrived * 2 >= r->expected, "too few messages came");
	verbs_close(&r->v);
	printf("integrity: seed %llu, %s: %llu operations, %llu bytes, %llu of %llu messages "
	       "came, all good\n",
	       (unsigned long long)r->s.seed, transport_names[r->s.transport],
	       (unsigned long long)r->ops, (unsigned long long)r->bytes,
	       (unsigned long long)r->arrived, (unsigned long long)r->expected);
	free(r->want);
	free(r->initial);
	free(r->peer);
	free(r->tmp);
	return 0;
}

int main(int argc, char **argv)
{
	static struct run r;
	enum transport t = RC;
	const char *port = "18600", *host;
	int c;

	while ((c = getopt(argc, argv, "s:t:p:")) != -1) {
		if (c == 's')
			where.seed = strtoull(optarg, NULL, 0);
		else if (c == 'p')
			port = optarg;
		else if (c == 't')
			for (t = RC; t < TRANSPORTS && strcmp(optarg, transport_names[t]);)
				t++;
		if (c == '?' || t == TRANSPORTS) {
			fprintf(stderr, "usage: %s -s SEED [-t rc|uc|ud|xrc] [-p PORT] [HOST]\n",
				argv[0]);
			return 2;
		}
	}
	host = argv[optind];
	where.transport = transport_names[t];
	snprintf(stuck, sizeof(stuck), "integrity: seed %llu, %s: stuck\n",
		 (unsigned long long)where.seed, where.transport);
	signal(SIGALRM, on_alarm);
	alarm(STUCK_SECONDS);
	r.side = host != NULL;
	r.v.fd = verbs_tcp(host, port);
	start(&r, where.seed, t);
	for (unsigned i = 0; i < r.s.batches; i++)
		run_batch(&r, i);
	return finish(&r);
}
