/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The UDP socket of a datagram socket: first datagrams, and what tells QPs. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#define BATCH 64 /* messages of one look */

/* ---- own addresses ---- */

/* The socket's own one, by which it gets a port number if it had none. */
static int bound(struct urxe_rs *s, struct urxe_rs_addr *own) URXE_REQUIRES(s->lock)
{
	struct sockaddr_storage sa = {.ss_family = (sa_family_t)s->domain};
	socklen_t len = sizeof(sa);
	int err;

	if (getsockname(s->fd, (struct sockaddr *)&sa, &len))
		return errno;
	err = urxe_rs_addr_get(own, (struct sockaddr *)&sa, len);
	if (err || own->port)
		return err;
	if (bind(s->fd, (struct sockaddr *)&sa, len))
		return errno;
	len = sizeof(sa);
	if (getsockname(s->fd, (struct sockaddr *)&sa, &len))
		return errno;
	return urxe_rs_addr_get(own, (struct sockaddr *)&sa, len);
}

/* What the kernel puts into packets from @own, which may be any, to @to: another socket tells. */
static int source(int domain, int probe, const struct urxe_rs_addr *own,
		  const struct urxe_rs_addr *to, struct urxe_rs_addr *from)
{
	struct urxe_rs_addr any_port = *own;
	struct sockaddr_storage sa;
	socklen_t len;

	any_port.port = 0;
	len = urxe_rs_addr_put(&any_port, domain, &sa);
	if (!urxe_rs_addr_any(own) && bind(probe, (struct sockaddr *)&sa, len))
		return errno;
	len = urxe_rs_addr_put(to, domain, &sa);
	if (!len)
		return EAFNOSUPPORT;
	if (connect(probe, (struct sockaddr *)&sa, len))
		return errno;
	len = sizeof(sa);
	if (getsockname(probe, (struct sockaddr *)&sa, &len))
		return errno;
	return urxe_rs_addr_get(from, (struct sockaddr *)&sa, len);
}

int urxe_rs_udp_own(struct urxe_rs *s, const struct urxe_rs_addr *to, struct urxe_rs_addr *own)
{
	struct urxe_rs_addr at = {0};
	int probe, err = bound(s, &at);

	if (err)
		return err;
	probe = socket(s->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (probe < 0)
		return errno;
	err = source(s->domain, probe, &at, to, own);
	close(probe);
	own->port = at.port;
	return err;
}

/* ---- sending ---- */

int urxe_rs_udp_send(struct urxe_rs *s, const struct urxe_rs_dest *d, enum urxe_rs_udp_op op,
		     const struct iovec *iov, size_t n, size_t len)
{
	struct urxe_rs_udp_header h = {.op = op, .qpn = d->ud->id->qp->qp_num};
	uint8_t message[URXE_RS_DGRAM_MOST];
	struct urxe_rs_cursor c = {iov, n, 0};
	unsigned header = urxe_rs_udp_header_len(s->domain);
	struct sockaddr_storage to;
	socklen_t to_len = urxe_rs_addr_put(&d->to, s->domain, &to);

	if (header + len > sizeof(message))
		return EMSGSIZE;
	memcpy(h.ip, d->from.ip, sizeof(h.ip));
	urxe_rs_udp_header_put(message, s->domain, &h);
	urxe_rs_cursor_copy(&c, message + header, len, false);
	if (sendto(s->fd, message, header + len, MSG_DONTWAIT | MSG_NOSIGNAL,
		   (struct sockaddr *)&to, to_len) >= 0)
		return 0;
	if (errno == EAGAIN)
		s->dg->udp_full = true;
	return errno;
}

/* ---- receiving ---- */

/* A message with a header of ours; true: the datagram is kept. */
static bool got(struct urxe_rs *s, struct urxe_rs_datagram *m, const struct urxe_rs_udp_header *h)
	URXE_REQUIRES(s->lock)
{
	struct urxe_rs_dest *d;
	int err;

	if (h->op == URXE_RS_UDP_CONTROL) {
		d = urxe_rs_dest_find(s, &m->from);
		if (d)
			urxe_rs_dest_heard(s, d, h->qpn);
		return false;
	}
	/* Who cannot be answered by a QP is heard all the same. */
	d = urxe_rs_dest_get(s, &m->from, true, &err);
	if (d) {
		urxe_rs_udp_send(s, d, URXE_RS_UDP_CONTROL, NULL, 0, 0);
		urxe_rs_dest_heard(s, d, h->qpn);
	}
	return urxe_rs_dgram_deliver(s, m);
}

/* One message into a free place; false: there is none. */
static bool receive_one(struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_dgram *dg = s->dg;
	struct urxe_rs_datagram *m =
		cds_list_first_entry(&dg->udp_free, struct urxe_rs_datagram, entry);
	struct sockaddr_storage from;
	struct iovec iov = {m->buf, URXE_RS_DGRAM_MOST};
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
	struct urxe_rs_udp_header h;
	ssize_t len = recvmsg(s->fd, &msg, MSG_DONTWAIT);
	unsigned header;

	if (len < 0) {
		/* What ICMP said of what was sent: the application's next call does. */
		if (errno != EAGAIN && errno != EINTR) {
			s->err = errno;
			urxe_rs_changed(s);
		}
		return false;
	}
	header = urxe_rs_udp_header_get(m->buf, (size_t)len, &h);
	if (!header || msg.msg_flags & MSG_TRUNC ||
	    urxe_rs_addr_get(&m->from, (struct sockaddr *)&from, msg.msg_namelen)) {
		urxe_rs_dgram_drop(s, "UDP");
		return true;
	}
	m->data = m->buf + header;
	m->len = (uint32_t)len - header;
	cds_list_del(&m->entry);
	if (!got(s, m, &h))
		cds_list_add(&m->entry, &dg->udp_free);
	return true;
}

void urxe_rs_udp_receive(struct urxe_rs *s)
{
	struct pollfd out = {.fd = s->fd, .events = POLLOUT};
	unsigned n = 0;

	while (n++ < BATCH && !cds_list_empty(&s->dg->udp_free) && receive_one(s))
		;
	if (s->dg->udp_full && poll(&out, 1, 0) > 0) {
		s->dg->udp_full = false;
		urxe_rs_changed(s);
	}
}
