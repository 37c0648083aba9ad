/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sending: rsend() and its kin. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#define NO_FLAGS \
	(MSG_OOB | MSG_FASTOPEN) /* others that mean nothing here are ignored, as TCP does */

int urxe_rs_iov_length(const struct iovec *iov, size_t n, size_t *len)
{
	*len = 0;
	if (n > IOV_MAX || (n && !iov))
		return EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - *len)
			return EINVAL;
		*len += iov[i].iov_len;
	}
	return 0;
}

static void skip_empty(struct urxe_rs_cursor *c)
{
	while (c->left && c->at == c->iov->iov_len) {
		c->iov++;
		c->left--;
		c->at = 0;
	}
}

void urxe_rs_cursor_copy(struct urxe_rs_cursor *c, uint8_t *p, size_t len, bool out)
{
	while (len) {
		size_t part;
		uint8_t *app;

		skip_empty(c);
		app = (uint8_t *)c->iov->iov_base + c->at;
		part = c->iov->iov_len - c->at < len ? c->iov->iov_len - c->at : len;
		if (out)
			memcpy(app, p, part);
		else
			memcpy(p, app, part);
		c->at += part;
		p += part;
		len -= part;
	}
}

static void stage_part(struct urxe_rs *s, struct urxe_rs_cursor *c, uint32_t at, uint32_t len,
		       struct urxe_rs_write *w) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_stream *st = s->st;

	urxe_rs_cursor_copy(c, st->sbuf + at, len, false);
	w->sge[w->num_sge++] = (struct ibv_sge){(uintptr_t)(st->sbuf + at), len, st->smr->lkey};
}

void urxe_rs_stage(struct urxe_rs *s, struct urxe_rs_cursor *c, uint32_t len,
		   struct urxe_rs_write *w)
{
	struct urxe_rs_stream *st = s->st;
	uint32_t first;

	skip_empty(c);
	if (len <= st->inline_most && c->left && c->iov->iov_len - c->at >= len) {
		uint8_t *app = (uint8_t *)c->iov->iov_base + c->at;

		w->sge[0] = (struct ibv_sge){(uintptr_t)app, len, 0};
		w->num_sge = 1;
		w->inlined = true;
		c->at += len;
		return;
	}
	first = st->ssize - st->shead < len ? st->ssize - st->shead : len;
	stage_part(s, c, st->shead, first, w);
	if (first < len)
		stage_part(s, c, 0, len - first, w);
	st->shead = (st->shead + len) % st->ssize;
	st->sused += len;
	w->wr_id |= len;
}

/* As much as goes in one message. */
static uint32_t send_some(struct urxe_rs *s, struct urxe_rs_cursor *c, size_t left)
	URXE_REQUIRES(s->lock)
{
	struct urxe_rs_stream *st = s->st;
	struct urxe_rs_sge *to = &st->to[0];
	uint32_t len = left < URXE_RS_SEND_MOST ? (uint32_t)left : URXE_RS_SEND_MOST;
	struct urxe_rs_write w = {
		.wr_id = urxe_rs_wr_id(URXE_RS_SENT_DATA, 0),
		.addr = to->addr,
		.key = to->key,
		.with_imm = true,
	};

	if (len > st->ssize - st->sused)
		len = st->ssize - st->sused;
	if (len > to->length)
		len = to->length;
	w.imm = urxe_rs_message(URXE_RS_DATA, len);
	urxe_rs_stage(s, c, len, &w);
	to->addr += len;
	to->length -= len;
	if (!to->length)
		st->to[0] = st->to[--st->to_count];
	st->sends--;
	st->seq++;
	urxe_rs_post(s, &w);
	return len;
}

/* Why nothing can be sent, now or ever. */
static int send_errno(struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	switch (s->state) {
	case URXE_RS_CONNECTED:
		return s->can_send ? EAGAIN : EPIPE;
	case URXE_RS_ACCEPTING:
	case URXE_RS_CONNECTING:
	case URXE_RS_RESOLVING:
		return EAGAIN;
	case URXE_RS_FAILED:
		return s->err ? s->err : EPIPE;
	case URXE_RS_CLOSED:
		return EPIPE;
	default:
		return ENOTCONN;
	}
}

ssize_t urxe_rs_done(struct urxe_rs *s, size_t done, int err)
{
	if (done || !err)
		return (ssize_t)done;
	if (err == s->err)
		s->err = 0;
	return urxe_rs_ret(err);
}

int urxe_rs_await_room(struct urxe_rs *s, const struct urxe_rs_call *c)
{
	int err = 0;

	urxe_rs_look(s, false);
	while (!err) {
		/* What is sent after riomap() finds that done (rsocket(7)). */
		if (s->state == URXE_RS_CONNECTED && s->can_send && urxe_rs_tell_mappings(s) &&
		    urxe_rs_can_write(s))
			return 0;
		err = send_errno(s);
		if (err == EAGAIN)
			err = urxe_rs_await(s, c);
	}
	return err;
}

/* All of it, unless it may not wait: then what fits. */
static ssize_t send_all(struct urxe_rs *s, const struct urxe_rs_call *c, const struct iovec *iov,
			size_t n, size_t len) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_cursor from = {iov, n, 0};
	size_t done = 0;
	int err = 0;

	if (!len) {
		err = send_errno(s);
		return urxe_rs_done(s, 0, err == EAGAIN ? 0 : err);
	}
	while (done < len && !err) {
		err = urxe_rs_await_room(s, c);
		if (!err)
			done += send_some(s, &from, len - done);
	}
	return urxe_rs_done(s, done, err);
}

bool urxe_rs_begin_message(struct urxe_rs_call *c, int fd, const struct msghdr *msg, int refused,
			   size_t *len)
{
	int err;

	if (!urxe_rs_begin(c, fd))
		return false;
	err = refused ? EOPNOTSUPP : urxe_rs_iov_length(msg->msg_iov, msg->msg_iovlen, len);
	if (!err)
		return true;
	urxe_rs_end(c);
	errno = err;
	return false;
}

static ssize_t send_msg(int fd, const struct msghdr *msg, int flags)
{
	struct urxe_rs_call c;
	ssize_t ret;
	size_t len;

	if (!urxe_rs_begin_message(&c, fd, msg, flags & NO_FLAGS, &len))
		return -1;
	urxe_rs_patience(c.s, &c, flags, c.s->sndtimeo);
	if (c.s->dg)
		ret = urxe_rs_dgram_send(c.s, &c, msg, len);
	else
		ret = send_all(c.s, &c, msg->msg_iov, msg->msg_iovlen, len);
	urxe_rs_end(&c);
	return ret;
}

URXE_RS_API ssize_t rsend(int fd, const void *buf, size_t len, int flags)
{
	return rsendto(fd, buf, len, flags, NULL, 0);
}

/* A stream's peer is known: an address is ignored, as TCP does. */
URXE_RS_API ssize_t rsendto(int fd, const void *buf, size_t len, int flags,
			    const struct sockaddr *addr, socklen_t addrlen)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct msghdr msg = {.msg_name = (void *)(uintptr_t)addr,
			     .msg_namelen = addrlen,
			     .msg_iov = &iov,
			     .msg_iovlen = 1};

	return send_msg(fd, &msg, flags);
}

URXE_RS_API ssize_t rsendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (!msg)
		return urxe_rs_ret(EFAULT);
	if (msg->msg_controllen)
		return urxe_rs_ret(EOPNOTSUPP);
	return send_msg(fd, msg, flags);
}

URXE_RS_API ssize_t rwrite(int fd, const void *buf, size_t len)
{
	return rsend(fd, buf, len, 0);
}

URXE_RS_API ssize_t rwritev(int fd, const struct iovec *iov, int n)
{
	struct msghdr msg = {.msg_iov = (void *)(uintptr_t)iov, .msg_iovlen = (size_t)n};

	return n < 0 ? urxe_rs_ret(EINVAL) : send_msg(fd, &msg, 0);
}
