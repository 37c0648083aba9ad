/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a socket needs to be connected: QP, CQ, rings, and what the peer writes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/rsocket/stream.h"

#include "urxe/free.h"

#define PAGE 4096u

static uint32_t targets_len(const struct urxe_rs *s)
{
	return URXE_RS_SGL_SIZE * URXE_RS_SGE_LEN + s->set.iomap_size * URXE_RS_IOMAP_LEN;
}

static uint8_t *memory(uint32_t len)
{
	uint32_t whole = (len + PAGE - 1) & ~(PAGE - 1);

	return aligned_alloc(PAGE, whole);
}

static int make_memory(struct urxe_rs *s)
{
	struct urxe_rs_stream *st = s->st;
	struct ibv_pd *pd = s->id->pd;
	uint32_t len = targets_len(s), notes = URXE_RS_CONTROLS * URXE_RS_SGE_LEN;

	st->ssize = s->set.sndbuf;
	st->half = s->set.rcvbuf / 2;
	st->iomap_size = s->set.iomap_size;
	st->sbuf = memory(st->ssize + notes);
	st->rbuf = memory(2 * st->half);
	st->targets = memory(len);
	if (!st->sbuf || !st->rbuf || !st->targets)
		return ENOMEM;
	/* A peer may tell of bytes that it has not written: these are none of our heap's. */
	memset(st->rbuf, 0, 2 * (size_t)st->half);
	memset(st->targets, 0, len); /* no entries */
	st->notes = st->sbuf + st->ssize;
	st->smr = ibv_reg_mr(pd, st->sbuf, (size_t)st->ssize + notes, 0);
	if (st->smr)
		st->rmr = ibv_reg_mr(pd, st->rbuf, 2 * (size_t)st->half,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (st->rmr)
		st->tmr = ibv_reg_mr(pd, st->targets, len,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return st->tmr ? 0 : errno;
}

/* Settings were asked for before there was a device. */
static int fit(struct urxe_rs *s)
{
	uint32_t most;
	int err = urxe_rs_cq_most(s->id->verbs, &most);

	if (err)
		return err;
	most -= URXE_RS_CONTROLS;
	if (s->set.sq_size > most)
		s->set.sq_size = most;
	if (s->set.rq_size > most)
		s->set.rq_size = most;
	return 0;
}

/* Besides those that there are credits for: the peer's last word shall not wait for a call here. */
uint32_t urxe_rs_receives(const struct urxe_rs *s)
{
	return s->set.rq_size + URXE_RS_CONTROLS;
}

static int make_qp(struct urxe_rs *s)
{
	struct urxe_rs_stream *st = s->st;
	struct ibv_qp_init_attr attr = {
		.send_cq = st->cq.cq,
		.recv_cq = st->cq.cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = s->set.sq_size,
			.max_recv_wr = urxe_rs_receives(s),
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = s->set.inline_size},
	};

	if (rdma_create_qp(s->id, NULL, &attr))
		return errno;
	st->inline_most = attr.cap.max_inline_data < s->set.inline_size ? attr.cap.max_inline_data
									: s->set.inline_size;
	return 0;
}

static int post_receives(struct urxe_rs *s)
{
	struct ibv_recv_wr wr = {.wr_id = urxe_rs_wr_id(URXE_RS_RECEIVE, 0)}, *bad;
	int err = 0;

	for (uint32_t i = 0; i < urxe_rs_receives(s) && !err; i++)
		err = ibv_post_recv(s->id->qp, &wr, &bad);
	return err;
}

int urxe_rs_stream_create(struct urxe_rs *s)
{
	struct urxe_rs_stream *st = calloc(1, sizeof(*st));
	int err;

	if (!st)
		return ENOMEM;
	CDS_INIT_LIST_HEAD(&st->mappings);
	s->st = st;
	err = fit(s);
	if (!err)
		err = make_memory(s);
	if (!err)
		err = urxe_rs_cq_create(&st->cq, s->id->verbs,
					s->set.sq_size + urxe_rs_receives(s));
	if (!err)
		err = make_qp(s);
	if (!err)
		err = post_receives(s);
	if (err)
		return err; /* what there is goes with the socket */
	st->controls = URXE_RS_CONTROLS;
	st->sends = s->set.sq_size - URXE_RS_CONTROLS;
	/* The first half is in our hello. */
	st->granted = st->half;
	st->free = st->half;
	st->grant = st->half;
	return 0;
}

static void dereg(struct ibv_mr *mr)
{
	if (mr)
		ibv_dereg_mr(mr);
}

void urxe_rs_stream_free(struct urxe_rs *s)
{
	struct urxe_rs_stream *st = s->st;

	if (!st)
		return;
	if (s->id->qp)
		rdma_destroy_qp(s->id);
	urxe_rs_unmap_all(st);
	urxe_rs_cq_free(&st->cq);
	dereg(st->tmr);
	dereg(st->rmr);
	dereg(st->smr);
	free(st->targets);
	free(st->rbuf);
	free(st->sbuf);
	free(st);
	s->st = NULL;
}

void urxe_rs_stream_hello(const struct urxe_rs *s, uint8_t p[URXE_RS_HELLO_LEN])
{
	const struct urxe_rs_stream *st = s->st;
	const struct urxe_rs_hello h = {
		.big_endian = urxe_rs_host_big(),
		.iomap = true,
		.credits = (uint16_t)s->set.rq_size,
		.iomap_size = st->iomap_size,
		.sgl = {(uintptr_t)st->targets, st->tmr->rkey, URXE_RS_SGL_SIZE},
		.buf = {(uintptr_t)st->rbuf, st->rmr->rkey, st->half},
	};

	urxe_rs_hello_put(p, &h);
}

int urxe_rs_stream_meet(struct urxe_rs *s, const uint8_t *p, unsigned len)
{
	struct urxe_rs_stream *st = s->st;
	struct urxe_rs_hello h;
	int err = urxe_rs_hello_get(p, len, &h);

	if (err)
		return err;
	st->swap_big = h.big_endian;
	st->peer_sgl = h.sgl;
	st->peer_target = 1 % h.sgl.length; /* its hello stands for the first */
	st->peer_iomap = (struct urxe_rs_sge){
		.addr = h.sgl.addr + (uint64_t)h.sgl.length * URXE_RS_SGE_LEN,
		.key = h.sgl.key,
		.length = h.iomap_size,
	};
	st->limit = h.credits;
	if (h.buf.length)
		st->to[st->to_count++] = h.buf;
	st->target = 1;
	st->hello = true;
	return 0;
}
