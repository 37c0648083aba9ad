/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams of the application's: sending and receiving one. */
#include <errno.h>
#include <string.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#include "urxe/gid.h"
#include "urxe/log.h"

/* ---- receiving ---- */

void urxe_rs_dgram_drop(struct urxe_rs *s, const char *what)
{
	if (!s->dg->dropped++)
		urxe_info("rsocket %d: what comes by %s is none of an rsocket's", s->fd, what);
}

bool urxe_rs_dgram_deliver(struct urxe_rs *s, struct urxe_rs_datagram *m)
{
	struct urxe_rs_dgram *dg = s->dg;
	struct sockaddr_storage from;

	/* Of a connected socket the kernel does so for UDP. */
	if (dg->connected && !urxe_rs_addr_same(&m->from, &dg->peer))
		return false;
	if (!urxe_rs_addr_put(&m->from, s->domain, &from)) {
		urxe_rs_dgram_drop(s, "UD");
		return false;
	}
	cds_list_add_tail(&m->entry, &dg->received);
	urxe_rs_changed(s);
	return true;
}

static void release(struct urxe_rs *s, struct urxe_rs_datagram *m) URXE_REQUIRES(s->lock)
{
	cds_list_del(&m->entry);
	if (m->ud)
		urxe_rs_ud_post_receive(m);
	else
		cds_list_add(&m->entry, &s->dg->udp_free);
}

static ssize_t take(struct urxe_rs *s, struct msghdr *msg, size_t len, int flags)
	URXE_REQUIRES(s->lock)
{
	struct urxe_rs_datagram *m =
		cds_list_first_entry(&s->dg->received, struct urxe_rs_datagram, entry);
	struct urxe_rs_cursor c = {msg->msg_iov, msg->msg_iovlen, 0};
	uint32_t whole = m->len;
	struct sockaddr_storage from;

	urxe_rs_addr_put(&m->from, s->domain, &from);
	urxe_rs_sockaddr((struct sockaddr *)&from, msg->msg_name, &msg->msg_namelen);
	msg->msg_flags = whole > len ? MSG_TRUNC : 0;
	if (len > whole)
		len = whole;
	/* The cursor copies both ways. */
	urxe_rs_cursor_copy(&c, (uint8_t *)(uintptr_t)m->data, len, true);
	if (!(flags & MSG_PEEK))
		release(s, m);
	return (ssize_t)(flags & MSG_TRUNC ? whole : len);
}

ssize_t urxe_rs_dgram_recv(struct urxe_rs *s, const struct urxe_rs_call *c, struct msghdr *msg,
			   size_t len, int flags)
{
	int err = 0;

	urxe_rs_dgram_look(s, false);
	while (cds_list_empty(&s->dg->received)) {
		if (s->err)
			return urxe_rs_ret(urxe_rs_take_error(s));
		if (!s->can_recv) {
			msg->msg_namelen = 0;
			msg->msg_flags = 0;
			return 0;
		}
		err = urxe_rs_await(s, c);
		if (err)
			return urxe_rs_ret(err);
	}
	return take(s, msg, len, flags);
}

/* ---- sending ---- */

/* Whom a datagram is for. */
static int destination(const struct urxe_rs *s, const struct msghdr *msg, struct urxe_rs_addr *to)
	URXE_REQUIRES(s->lock)
{
	struct sockaddr_storage sa;
	int err;

	if (!msg->msg_name) {
		*to = s->dg->peer;
		return s->dg->connected ? 0 : EDESTADDRREQ;
	}
	err = urxe_rs_addr_get(to, msg->msg_name, msg->msg_namelen);
	if (err)
		return err;
	if (!urxe_rs_addr_put(to, s->domain, &sa))
		return EAFNOSUPPORT;
	urxe_rs_addr_here(to);
	return to->port ? 0 : EINVAL;
}

/* EAGAIN: not now. */
static int send_once(struct urxe_rs *s, const struct urxe_rs_addr *to, const struct msghdr *msg,
		     size_t len) URXE_REQUIRES(s->lock)
{
	int err;
	struct urxe_rs_dest *d = urxe_rs_dest_get(s, to, false, &err);

	if (!d)
		return err;
	if (len > urxe_rs_dest_room(s, d))
		return EMSGSIZE;
	if (!urxe_rs_dest_direct(d))
		return urxe_rs_udp_send(s, d, URXE_RS_UDP_DATA, msg->msg_iov, msg->msg_iovlen, len);
	if (!d->ud->n_free)
		return EAGAIN;
	return urxe_rs_ud_send(s, d, msg->msg_iov, msg->msg_iovlen, len);
}

ssize_t urxe_rs_dgram_send(struct urxe_rs *s, const struct urxe_rs_call *c,
			   const struct msghdr *msg, size_t len)
{
	const struct urxe_rs_dest *known;
	struct urxe_rs_addr to;
	int err = destination(s, msg, &to);

	if (err)
		return urxe_rs_ret(err);
	/* Perhaps the peer has told its QP by now. */
	known = urxe_rs_dest_find(s, &to);
	if (known && urxe_rs_dest_direct(known))
		urxe_rs_dgram_glance(s);
	else
		urxe_rs_dgram_look(s, false);
	do {
		if (!s->can_send)
			return urxe_rs_ret(EPIPE);
		if (s->err)
			return urxe_rs_ret(urxe_rs_take_error(s));
		err = send_once(s, &to, msg, len);
		if (err != EAGAIN)
			break;
		err = urxe_rs_await(s, c);
	} while (!err);
	return err ? urxe_rs_ret(err) : (ssize_t)len;
}
