/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Receiving: rrecv() and its kin. */
#include <errno.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#define NO_FLAGS (MSG_OOB | MSG_ERRQUEUE)

/* Bytes that are there, at most @len; they stay if it is only to look at them. */
static size_t take(struct urxe_rs *s, struct urxe_rs_cursor *c, size_t len, bool peek)
	URXE_REQUIRES(s->lock)
{
	struct urxe_rs_stream *st = s->st;
	uint32_t size = 2 * st->half, n = len < st->unread ? (uint32_t)len : st->unread;
	uint32_t first = size - st->rhead < n ? size - st->rhead : n;

	urxe_rs_cursor_copy(c, st->rbuf + st->rhead, first, true);
	urxe_rs_cursor_copy(c, st->rbuf, n - first, true);
	if (peek)
		return n;
	st->rhead = (st->rhead + n) % size;
	st->unread -= n;
	st->free += n;
	urxe_rs_grant(s);
	return n;
}

/* Nothing is there: 0 at the end, else why, or EAGAIN: it may come. */
static int recv_errno(struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	switch (s->state) {
	case URXE_RS_CONNECTED:
		return s->can_recv ? EAGAIN : 0;
	case URXE_RS_ACCEPTING:
	case URXE_RS_CONNECTING:
	case URXE_RS_RESOLVING:
		return EAGAIN;
	case URXE_RS_FAILED:
		return urxe_rs_take_error(s);
	case URXE_RS_CLOSED:
		return 0;
	default:
		return ENOTCONN;
	}
}

static ssize_t recv_some(struct urxe_rs *s, const struct urxe_rs_call *c, const struct iovec *iov,
			 size_t n, size_t len, int flags) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_cursor to = {iov, n, 0};
	bool peek = flags & MSG_PEEK, all = flags & MSG_WAITALL && !peek;
	size_t done = 0;
	int err = 0;

	urxe_rs_look(s, false);
	for (;;) {
		if (s->st && s->st->unread)
			done += take(s, &to, len - done, peek);
		/* An error stays for the next call. */
		if (done == len || (done && (!all || s->state == URXE_RS_FAILED)))
			return (ssize_t)done;
		err = recv_errno(s);
		if (err == EAGAIN)
			err = urxe_rs_await(s, c);
		else if (!err)
			return (ssize_t)done;
		if (err)
			return done ? (ssize_t)done : urxe_rs_ret(err);
	}
}

static ssize_t recv_stream(struct urxe_rs *s, const struct urxe_rs_call *c, struct msghdr *msg,
			   size_t len, int flags) URXE_REQUIRES(s->lock)
{
	ssize_t ret = recv_some(s, c, msg->msg_iov, msg->msg_iovlen, len, flags);

	/* A connected socket tells no address, as TCP's. */
	if (ret >= 0) {
		msg->msg_namelen = 0;
		msg->msg_flags = 0;
	}
	return ret;
}

static ssize_t recv_msg(int fd, struct msghdr *msg, int flags)
{
	struct urxe_rs_call c;
	ssize_t ret;
	size_t len;

	if (!urxe_rs_begin_message(&c, fd, msg, flags & NO_FLAGS, &len))
		return -1;
	urxe_rs_patience(c.s, &c, flags, c.s->rcvtimeo);
	if (c.s->dg)
		ret = urxe_rs_dgram_recv(c.s, &c, msg, len, flags);
	else
		ret = recv_stream(c.s, &c, msg, len, flags);
	urxe_rs_end(&c);
	return ret;
}

URXE_RS_API ssize_t rrecv(int fd, void *buf, size_t len, int flags)
{
	return rrecvfrom(fd, buf, len, flags, NULL, NULL);
}

URXE_RS_API ssize_t rrecvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
			      socklen_t *addrlen)
{
	struct iovec iov = {buf, len};
	struct msghdr msg = {.msg_name = addr,
			     .msg_namelen = addr && addrlen ? *addrlen : 0,
			     .msg_iov = &iov,
			     .msg_iovlen = 1};
	ssize_t ret = recv_msg(fd, &msg, flags);

	if (ret >= 0 && addrlen)
		*addrlen = msg.msg_namelen;
	return ret;
}

URXE_RS_API ssize_t rrecvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t ret;

	if (!msg)
		return urxe_rs_ret(EFAULT);
	ret = recv_msg(fd, msg, flags);
	if (ret >= 0)
		msg->msg_controllen = 0;
	return ret;
}

URXE_RS_API ssize_t rread(int fd, void *buf, size_t len)
{
	return rrecv(fd, buf, len, 0);
}

URXE_RS_API ssize_t rreadv(int fd, const struct iovec *iov, int n)
{
	struct msghdr msg = {.msg_iov = (void *)(uintptr_t)iov, .msg_iovlen = (size_t)n};

	return n < 0 ? urxe_rs_ret(EINVAL) : recv_msg(fd, &msg, 0);
}
