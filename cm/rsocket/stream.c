/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of a connected socket: completions, credits, room (stream.h). */
#include <errno.h>
#include <string.h>

#include "cm/rsocket/stream.h"

#include "urxe/log.h"

#define BATCH 16

/* ---- posting ---- */

void urxe_rs_post(struct urxe_rs *s, struct urxe_rs_write *w)
{
	struct ibv_send_wr wr =
				   {
					   .wr_id = w->wr_id,
					   .sg_list = w->sge,
					   .num_sge = w->num_sge,
					   .opcode = w->with_imm ? IBV_WR_RDMA_WRITE_WITH_IMM
								 : IBV_WR_RDMA_WRITE,
					   .send_flags = w->inlined ? IBV_SEND_INLINE : 0,
					   .imm_data = htobe32(w->imm),
					   .wr.rdma = {w->addr, w->key},
				   },
			   *bad;
	int err = ibv_post_send(s->id->qp, &wr, &bad);

	if (err)
		urxe_rs_fail(s, err);
}

static void post_control(struct urxe_rs *s, struct urxe_rs_write *w) URXE_REQUIRES(s->lock)
{
	w->with_imm = true;
	s->st->controls--;
	urxe_rs_post(s, w);
}

int urxe_rs_control(struct urxe_rs *s, enum urxe_rs_control what)
{
	struct urxe_rs_write w = {
		.wr_id = urxe_rs_wr_id(
			what == URXE_RS_DISCONNECT ? URXE_RS_SENT_END : URXE_RS_SENT_CONTROL, 0),
		.imm = urxe_rs_message(URXE_RS_CONTROL, what),
	};

	if (!s->st->controls)
		return EAGAIN;
	post_control(s, &w);
	return 0;
}

/* ---- room and credits for the peer ---- */

/* Half of the ring is free again: the next entry of the peer's array says so. */
static void grant_half(struct urxe_rs *s, struct urxe_rs_write *w) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_stream *st = s->st;
	const struct urxe_rs_sge sge = {(uintptr_t)(st->rbuf + st->grant), st->rmr->rkey, st->half};
	uint8_t *note = st->notes + st->note * URXE_RS_SGE_LEN;

	urxe_rs_sge_put(note, &sge, st->swap_big);
	st->note = (st->note + 1) % URXE_RS_CONTROLS;
	w->sge[0] = (struct ibv_sge){(uintptr_t)note, URXE_RS_SGE_LEN, st->smr->lkey};
	w->num_sge = 1;
	w->addr = st->peer_sgl.addr + (uint64_t)st->peer_target * URXE_RS_SGE_LEN;
	w->key = st->peer_sgl.key;
	st->peer_target = (st->peer_target + 1) % st->peer_sgl.length;
	st->free -= st->half;
	st->granted += st->half;
	st->grant = st->half - st->grant;
}

void urxe_rs_grant(struct urxe_rs *s)
{
	struct urxe_rs_stream *st = s->st;
	struct urxe_rs_write w = {.wr_id = urxe_rs_wr_id(URXE_RS_SENT_CONTROL, 0)};
	bool room, credits;

	if (s->state != URXE_RS_CONNECTED || !st->controls)
		return;
	room = st->free >= st->half;
	credits = (uint16_t)(st->got - st->told) >= s->set.rq_size / 2;
	if (!room && !credits)
		return;
	if (room)
		grant_half(s, &w);
	st->told = st->got;
	w.imm = urxe_rs_message(URXE_RS_CREDITS, (uint16_t)(st->got + s->set.rq_size));
	post_control(s, &w);
}

/*
 * Room that the peer has told of, by a message with bytes: these are the entry, which is not
 * written again before what it stands for is full. Without such a message nobody may look at one:
 * it may be on its way.
 */
static void take_target(struct urxe_rs_stream *st)
{
	uint8_t *p = st->targets + st->target * URXE_RS_SGE_LEN;
	struct urxe_rs_sge sge;

	if (st->to_count == URXE_RS_SGL_SIZE)
		return;
	urxe_rs_sge_get(p, &sge, urxe_rs_host_big());
	if (!sge.length)
		return;
	st->to[st->to_count++] = sge;
	st->target = (st->target + 1) % URXE_RS_SGL_SIZE;
}

/* ---- what completed ---- */

static void got_control(struct urxe_rs *s, uint32_t what) URXE_REQUIRES(s->lock)
{
	switch (what) {
	case URXE_RS_DISCONNECT:
		urxe_rs_set_state(s, URXE_RS_CLOSED);
		break;
	case URXE_RS_SHUTDOWN:
		s->can_recv = false;
		if (!s->can_send)
			urxe_rs_set_state(s, URXE_RS_CLOSED);
		break;
	default: /* KEEPALIVE, or what is not known yet */
		break;
	}
}

/* @written: the bytes that came with the message. */
static void got_data(struct urxe_rs *s, uint32_t len, uint32_t written) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_stream *st = s->st;

	st->got++;
	if (len > st->granted || len != written) {
		urxe_warn("rsocket %d: the peer tells of %u bytes, wrote %u, and may write %u",
			  s->fd, len, written, st->granted);
		urxe_rs_fail(s, EPROTO);
		return;
	}
	st->granted -= len;
	st->unread += len;
}

static void repost(struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	struct ibv_recv_wr wr = {.wr_id = urxe_rs_wr_id(URXE_RS_RECEIVE, 0)}, *bad;
	int err = ibv_post_recv(s->id->qp, &wr, &bad);

	if (err)
		urxe_rs_fail(s, err);
}

static void got_message(struct urxe_rs *s, const struct ibv_wc *wc) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_stream *st = s->st;
	uint32_t imm, value;

	repost(s);
	if (!(wc->wc_flags & IBV_WC_WITH_IMM))
		return;
	imm = be32toh(wc->imm_data);
	value = imm & URXE_RS_VALUE_MASK;
	switch (imm >> 29) {
	case URXE_RS_DATA:
		got_data(s, value, wc->byte_len);
		break;
	case URXE_RS_CREDITS:
		st->limit = (uint16_t)value;
		if (wc->byte_len)
			take_target(st);
		break;
	case URXE_RS_IOMAP:
		st->got++; /* what it is about is there */
		break;
	case URXE_RS_CONTROL:
		got_control(s, value);
		break;
	default:
		break;
	}
}

static void sent(struct urxe_rs *s, const struct ibv_wc *wc) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_stream *st = s->st;

	switch ((enum urxe_rs_sent)(wc->wr_id >> 32)) {
	case URXE_RS_SENT_CONTROL:
		st->controls++;
		break;
	case URXE_RS_SENT_END:
		st->controls++;
		urxe_rs_set_state(s, URXE_RS_CLOSED);
		break;
	default:
		st->sends++;
		st->sused -= (uint32_t)wc->wr_id;
		break;
	}
}

/* The peer is gone, or refuses what we write; what was flushed says nothing new. */
static int wc_errno(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return ETIMEDOUT;
	case IBV_WC_WR_FLUSH_ERR:
		return ECONNRESET;
	default:
		return EIO;
	}
}

static void completed(struct urxe_rs *s, const struct ibv_wc *wc) URXE_REQUIRES(s->lock)
{
	bool received = wc->wr_id >> 32 == URXE_RS_RECEIVE;

	if (!received)
		sent(s, wc);
	if (wc->status == IBV_WC_SUCCESS) {
		/* The peer has our REP, though its RTU may be lost. */
		if (received && s->state == URXE_RS_ACCEPTING)
			urxe_rs_set_state(s, URXE_RS_CONNECTED);
		if (received)
			got_message(s, wc);
	} else if (s->state == URXE_RS_CONNECTED) {
		urxe_rs_fail(s, wc_errno(wc->status));
	}
}

bool urxe_rs_completions(struct urxe_rs *s)
{
	struct urxe_rs_stream *st = s->st;
	struct ibv_wc wc[BATCH];
	int n, all = 0;

	if (!st || !st->cq.cq || !st->hello)
		return false;
	do {
		n = ibv_poll_cq(st->cq.cq, BATCH, wc);
		for (int i = 0; i < n; i++)
			completed(s, &wc[i]);
		all += n;
	} while (n == BATCH && all < URXE_RS_LOOK_MOST);
	if (n < 0)
		urxe_rs_fail(s, EIO);
	urxe_rs_grant(s);
	if (all > 0) {
		urxe_rs_tell_mappings(s);
		urxe_rs_changed(s);
	}
	return n == BATCH;
}

void urxe_rs_last_completions(struct urxe_rs *s)
{
	uint32_t all = s->set.sq_size + urxe_rs_receives(s);

	for (uint32_t i = 0; urxe_rs_completions(s) && i < all; i += URXE_RS_LOOK_MOST)
		;
}

/* ---- events ---- */

void urxe_rs_stream_arm(struct urxe_rs *s)
{
	if (s->st)
		urxe_rs_cq_arm(&s->st->cq);
}

void urxe_rs_stream_watch(struct urxe_rs *s, struct pollfd fds[2])
{
	const struct ibv_comp_channel *events = s->st ? s->st->cq.events : NULL;

	/* A listener whose backlog is full leaves what its channel has there. */
	fds[0] = (struct pollfd){.fd = urxe_rs_backlog_full(s) ? -1 : s->fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = events ? events->fd : -1, .events = POLLIN};
}

void urxe_rs_stream_woken(struct urxe_rs *s, const struct pollfd fds[2])
{
	if (fds[1].revents && s->st && urxe_rs_cq_disarm(&s->st->cq))
		urxe_rs_changed(s);
	if (fds[0].revents && !s->gone)
		urxe_rs_cm_events(s);
}

/* ---- what may be done ---- */

bool urxe_rs_can_write(const struct urxe_rs *s)
{
	const struct urxe_rs_stream *st = s->st;
	uint32_t least = st->ssize / 2 < URXE_RS_LOW_WATER ? st->ssize / 2 : URXE_RS_LOW_WATER;

	return st->sends && st->seq != st->limit && st->to_count && st->ssize - st->sused >= least;
}

bool urxe_rs_all_sent(const struct urxe_rs *s)
{
	const struct urxe_rs_stream *st = s->st;

	return st->sends == s->set.sq_size - URXE_RS_CONTROLS && st->controls == URXE_RS_CONTROLS;
}
