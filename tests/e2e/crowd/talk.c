/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What goes over a connection: the active side begins an exchange in each of its slots, the other
 * one answers in kind. A message has a header and bytes that both sides can make from the sender's
 * key, so that each byte of each message is compared. It comes by SEND, by RDMA WRITE and a SEND
 * that says so, by WRITE with immediate, or is fetched by READ.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crowd.h"
#include "urxe/random.h"

#define MAGIC 0x64776f7263u

struct header {
	uint64_t magic, seq;
	uint32_t from, life, op, slot, len, answer;
};

/* Where a connection's memory has what; each has room for a message in each slot. */
enum area {
	OUT,   /* what is sent, and what the peer READs */
	IN,    /* what the peer WRITEs */
	FETCH, /* what was READ */
	RECV,  /* what is received: twice as much */
	AREAS = RECV + 2
};

enum what {
	WR_RECV,
	WR_SENT,
	WR_FETCHED
};

static uint8_t *at(const struct self *s, const struct conn *c, enum area a, unsigned k)
{
	return c->mem + ((size_t)a * s->board->shape.slots + k) * s->board->shape.bytes;
}

static uint64_t remote(const struct self *s, const struct conn *c, enum area a, unsigned k)
{
	return c->peer.base + ((uint64_t)a * s->board->shape.slots + k) * s->board->shape.bytes;
}

static uint64_t wr_id(const struct conn *c, enum what what, unsigned k)
{
	return (uint64_t)c->number << 32 | (uint64_t)what << 16 | k;
}

/* ---- messages ---- */

static uint64_t stream_of(uint64_t key, const struct header *h)
{
	return key ^ h->seq << 20 ^ (uint64_t)h->slot << 8 ^ h->answer;
}

static void fill(uint8_t *to, uint64_t stream, uint32_t len)
{
	uint32_t i = 0;

	for (; i + 8 <= len; i += 8) {
		uint64_t w = urxe_random_step(&stream);

		memcpy(to + i, &w, 8);
	}
	for (; i < len; i++)
		to[i] = (uint8_t)urxe_random_step(&stream);
}

static bool right(const uint8_t *p, uint64_t stream, uint32_t len)
{
	uint32_t i = 0;

	for (; i + 8 <= len; i += 8) {
		uint64_t w = urxe_random_step(&stream);

		if (memcmp(p + i, &w, 8))
			return false;
	}
	for (; i < len; i++) {
		if (p[i] != (uint8_t)urxe_random_step(&stream))
			return false;
	}
	return true;
}

static void make(struct self *s, struct conn *c, unsigned k, bool answer)
{
	struct slot *sl = &c->slot[k];
	struct header h = {MAGIC, sl->seq, s->index, s->life, sl->op, k, sl->len, answer};
	uint8_t *to = at(s, c, OUT, k);

	memcpy(to, &h, sizeof(h));
	fill(to + sizeof(h), stream_of(c->own.key, &h), sl->len);
}

/* The header at @p is of the peer's next message in a slot. */
static struct header open_header(struct self *s, struct conn *c, const uint8_t *p, uint32_t len)
{
	struct header h;

	errno = EBADMSG;
	need(s, len >= sizeof(h), "a message is too short");
	memcpy(&h, p, sizeof(h));
	need(s, h.magic == MAGIC && h.from == c->peer.index && h.life == c->peer.life,
	     "a message is not its sender's");
	need(s,
	     h.slot < s->board->shape.slots && h.op < OPS && h.answer == c->active &&
		     h.len <= s->board->shape.bytes - sizeof(h),
	     "a header makes no sense");
	need(s, h.seq == c->slot[h.slot].seq + !c->active, "a message is missing, or comes twice");
	return h;
}

static void check(struct self *s, struct conn *c, const struct header *h, const uint8_t *p)
{
	errno = EBADMSG;
	need(s, !memcmp(p, h, sizeof(*h)), "a message is not the one that was announced");
	need(s, right(p + sizeof(*h), stream_of(c->peer.key, h), h->len), "data differ");
	count(&s->me->messages[h->op]);
	count(&s->me->view[c->peer.index].messages);
	atomic_fetch_add_explicit(&s->me->bytes, h->len, memory_order_relaxed);
}

/* ---- work requests ---- */

/* A QP that has failed refuses: its event is on its way. */
static void post(struct conn *c, unsigned k, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(c->id->qp, wr, &bad))
		c->broken = true;
	else
		c->slot[k].out++;
}

static void receive(struct self *s, struct conn *c, unsigned k)
{
	struct ibv_sge sge = {(uintptr_t)at(s, c, RECV, k), s->board->shape.bytes, c->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id(c, WR_RECV, k), .sg_list = &sge, .num_sge = 1},
			   *bad;

	if (ibv_post_recv(c->id->qp, &wr, &bad))
		c->broken = true;
}

static void send_slot(struct self *s, struct conn *c, unsigned k)
{
	struct slot *sl = &c->slot[k];
	uint32_t all = (uint32_t)sizeof(struct header) + sl->len;
	struct ibv_sge sge = {(uintptr_t)at(s, c, OUT, k), all, c->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id(c, WR_SENT, k),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {remote(s, c, IN, k), c->peer.rkey}};

	make(s, c, k, !c->active);
	if (sl->op == OP_IMM) {
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = k;
		post(c, k, &wr);
		return;
	}
	if (sl->op == OP_WRITE) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		post(c, k, &wr);
	}
	/* What was written, or is to be read, is announced by its header alone. */
	if (sl->op == OP_WRITE || (sl->op == OP_READ && c->active))
		sge.length = sizeof(struct header);
	wr.opcode = IBV_WR_SEND;
	post(c, k, &wr);
}

static void fetch(struct self *s, struct conn *c, unsigned k)
{
	uint32_t all = (uint32_t)sizeof(struct header) + c->slot[k].len;
	struct ibv_sge sge = {(uintptr_t)at(s, c, FETCH, k), all, c->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id(c, WR_FETCHED, k),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .wr.rdma = {remote(s, c, OUT, k), c->peer.rkey}};

	post(c, k, &wr);
}

/* ---- exchanges ---- */

/* Many short ones, some that take many packets. */
static uint32_t random_len(struct self *s)
{
	uint32_t room = s->board->shape.bytes - (uint32_t)sizeof(struct header);
	uint32_t how = urxe_random_below(&s->random, 10);
	uint32_t most = how < 5 ? 256 : how < 9 ? 4096 : room;

	return urxe_random_below(&s->random, (most < room ? most : room) + 1);
}

static void next_exchange(struct self *s, struct conn *c, unsigned k)
{
	struct slot *sl = &c->slot[k];

	sl->seq++;
	sl->op = (enum op)urxe_random_below(&s->random, OPS);
	sl->len = random_len(s);
	sl->waits = true;
	send_slot(s, c, k);
}

/* What may not go before all that a slot has under way has gone. */
static void go_on(struct self *s, struct conn *c, unsigned k)
{
	struct slot *sl = &c->slot[k];

	if (c->broken || sl->out || !sl->due)
		return;
	sl->due = false;
	if (c->active && s->board->shape.most && sl->seq >= s->board->shape.most)
		return;
	if (c->active)
		next_exchange(s, c, k);
	else
		send_slot(s, c, k);
}

/* A message, or its header, has come. */
static void heard(struct self *s, struct conn *c, const uint8_t *p, uint32_t len)
{
	struct header h = open_header(s, c, p, len);
	struct slot *sl = &c->slot[h.slot];

	if (c->active) {
		errno = EBADMSG;
		need(s, sl->waits && h.op == sl->op && h.len == sl->len,
		     "an answer is not that to the question");
		sl->waits = false;
	} else {
		sl->op = (enum op)h.op;
		sl->len = h.len;
		if (h.op == OP_READ) {
			fetch(s, c, h.slot);
			return;
		}
		sl->seq = h.seq;
	}
	check(s, c, &h, h.op == OP_WRITE ? at(s, c, IN, h.slot) : p);
	sl->due = true;
	go_on(s, c, h.slot);
}

static void fetched(struct self *s, struct conn *c, unsigned k)
{
	struct header h = open_header(s, c, at(s, c, FETCH, k), s->board->shape.bytes);

	errno = EBADMSG;
	need(s, h.len == c->slot[k].len && h.op == OP_READ && h.slot == k,
	     "what was read is not what was announced");
	check(s, c, &h, at(s, c, FETCH, k));
	c->slot[k].seq = h.seq;
	c->slot[k].due = true;
	go_on(s, c, k);
}

void talk_completion(struct self *s, struct conn *c, const struct ibv_wc *wc)
{
	unsigned k = (unsigned)wc->wr_id & 0xffff;
	enum what what = (enum what)(wc->wr_id >> 16 & 0xffff);

	if (wc->status) {
		if (!c->broken)
			count(&s->me->broken);
		c->broken = true;
		return;
	}
	if (what == WR_RECV) {
		bool imm = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;

		errno = EBADMSG;
		need(s, !imm || wc->imm_data < s->board->shape.slots,
		     "an immediate makes no sense");
		heard(s, c, imm ? at(s, c, IN, wc->imm_data) : at(s, c, RECV, k), wc->byte_len);
		receive(s, c, k);
		return;
	}
	c->slot[k].out--;
	if (what == WR_FETCHED)
		fetched(s, c, k);
	else
		go_on(s, c, k);
}

/* ---- life ---- */

bool talk_prepare(struct self *s, struct conn *c)
{
	size_t bytes = (size_t)AREAS * s->board->shape.slots * s->board->shape.bytes;
	struct ibv_qp_init_attr attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {3 * s->board->shape.slots, 2 * s->board->shape.slots, 1, 1, 0},
	};

	need(s, !posix_memalign((void **)&c->mem, 4096, bytes), "memory");
	c->mr = ibv_reg_mr(s->pd, c->mem, bytes,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	need(s, c->mr, "ibv_reg_mr");
	if (rdma_create_qp(c->id, s->pd, &attr))
		return false;
	c->own = (struct hello){s->index, s->life, c->mr->rkey, (uintptr_t)c->mem,
				urxe_random_step(&s->random)};
	for (unsigned k = 0; k < 2 * s->board->shape.slots; k++)
		receive(s, c, k);
	return true;
}

void talk_begin(struct self *s, struct conn *c)
{
	c->up = true;
	for (unsigned k = 0; c->active && k < s->board->shape.slots; k++) {
		c->slot[k].due = true;
		go_on(s, c, k);
	}
}

void talk_destroy(struct self *s, struct conn *c)
{
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	if (c->mr)
		need(s, !ibv_dereg_mr(c->mr), "ibv_dereg_mr");
	free(c->mem);
}
