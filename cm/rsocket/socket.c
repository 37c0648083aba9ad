/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sockets: their life, and their addresses. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#include "urxe/cancel.h"
#include "urxe/free.h"

#define CLOSE_NS    (10 * URXE_SEC) /* for what was sent to arrive, without an SO_LINGER */
#define KEEP_IDLE   7200	    /* s; TCP's */
#define KEEP_INTVL  75
#define KEEP_PROBES 9

int urxe_rs_ret(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

void urxe_rs_sockaddr(const struct sockaddr *from, struct sockaddr *to, socklen_t *len)
{
	socklen_t whole = from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						      : sizeof(struct sockaddr_in);

	if (!to || !len)
		return;
	memcpy(to, from, *len < whole ? *len : whole);
	*len = whole;
}

int urxe_rs_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? errno : 0;
}

/* ---- making and ending ---- */

static void settings(struct urxe_rs *s, const struct urxe_rs *like)
{
	s->set = like ? like->set : *urxe_rs_config();
	s->nodelay = like && like->nodelay;
	s->keepalive = like && like->keepalive;
	s->oobinline = like && like->oobinline;
	s->linger = like ? like->linger : (struct linger){0};
	s->rcvtimeo = like ? like->rcvtimeo : URXE_RS_FOREVER;
	s->sndtimeo = like ? like->sndtimeo : URXE_RS_FOREVER;
	s->keep[0] = like ? like->keep[0] : KEEP_IDLE;
	s->keep[1] = like ? like->keep[1] : KEEP_INTVL;
	s->keep[2] = like ? like->keep[2] : KEEP_PROBES;
}

struct urxe_rs *urxe_rs_new(int domain, const struct urxe_rs *like)
{
	struct urxe_rs *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->channel = rdma_create_event_channel();
	if (!s->channel) {
		free(s);
		return NULL;
	}
	s->fd = s->channel->fd;
	/* Nobody waits in the channel: who waits does so for several things at once. */
	urxe_rs_nonblock(s->fd);
	s->domain = domain;
	settings(s, like);
	CDS_INIT_LIST_HEAD(&s->requests);
	CDS_INIT_LIST_HEAD(&s->watches);
	urxe_mutex_init(&s->lock);
	atomic_init(&s->refs, 1);
	return s;
}

void urxe_rs_drop_requests(struct urxe_rs *s)
{
	struct urxe_rs_request *r, *next;

	cds_list_for_each_entry_safe (r, next, &s->requests, entry) {
		struct rdma_cm_id *id = r->event->id;

		rdma_reject(id, NULL, 0);
		rdma_ack_cm_event(r->event);
		rdma_destroy_id(id);
		free(r);
	}
	CDS_INIT_LIST_HEAD(&s->requests);
	s->n_requests = 0;
}

/* Nobody else knows it: its lock is not taken. */
void urxe_rs_free(struct urxe_rs *s) URXE_UNCHECKED
{
	urxe_rs_drop_requests(s);
	if (s->st && s->st->hello)
		rdma_disconnect(s->id);
	urxe_rs_stream_free(s);
	if (s->id)
		rdma_destroy_id(s->id);
	urxe_rs_dgram_free(s);
	rdma_destroy_event_channel(s->channel);
	free(s->path);
	urxe_mutex_fini(&s->lock);
	free(s);
}

static int open_flags(struct urxe_rs *s, int type)
{
	if (type & SOCK_NONBLOCK)
		s->flags = O_NONBLOCK;
	return type & SOCK_CLOEXEC ? fcntl(s->fd, F_SETFD, FD_CLOEXEC) : 0;
}

static int check(int domain, int type, int protocol)
{
	if (domain != AF_INET && domain != AF_INET6)
		return EAFNOSUPPORT;
	switch (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) {
	case SOCK_STREAM:
		return protocol && protocol != IPPROTO_TCP ? EPROTONOSUPPORT : 0;
	case SOCK_DGRAM:
		return protocol && protocol != IPPROTO_UDP ? EPROTONOSUPPORT : 0;
	default:
		return ESOCKTNOSUPPORT;
	}
}

/* What carries it. 0 or errno. */
static int give_type(struct urxe_rs *s, int type)
{
	if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_DGRAM)
		return urxe_rs_dgram_open(s, type);
	return rdma_create_id(s->channel, &s->id, s, RDMA_PS_TCP) ? errno : 0;
}

static int make(int domain, int type, int protocol)
{
	int err = check(domain, type, protocol);
	struct urxe_rs *s;

	if (err)
		return urxe_rs_ret(err);
	s = urxe_rs_new(domain, NULL);
	if (!s)
		return -1;
	err = give_type(s, type);
	if (err || open_flags(s, type)) {
		urxe_rs_put(s);
		return err ? urxe_rs_ret(err) : -1;
	}
	urxe_rs_add(s);
	return s->fd;
}

URXE_RS_API int rsocket(int domain, int type, int protocol)
{
	int cancel = urxe_cancel_off(), fd = make(domain, type, protocol);

	urxe_cancel_back(cancel);
	return fd;
}

/* ---- ending ---- */

/* The peer is told; true: that is under way. */
static int finish(struct urxe_rs *s, const struct urxe_rs_call *c, enum urxe_rs_control what)
	URXE_REQUIRES(s->lock)
{
	int err = 0;

	while (s->state == URXE_RS_CONNECTED && urxe_rs_control(s, what) && !err)
		err = urxe_rs_await(s, c);
	return err;
}

static int await_sent(struct urxe_rs *s, const struct urxe_rs_call *c) URXE_REQUIRES(s->lock)
{
	int err = 0;

	while (s->state == URXE_RS_CONNECTED && !urxe_rs_all_sent(s) && !err)
		err = urxe_rs_await(s, c);
	return err;
}

static uint64_t linger_deadline(const struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	bool said = s->linger.l_onoff && s->linger.l_linger; /* 0 s: of rclose() alone */

	return urxe_rs_deadline(said ? (uint64_t)s->linger.l_linger * URXE_SEC : CLOSE_NS);
}

/* A socket that was accepted is connected, to who has it; the peer may not know yet. */
static int await_connected(struct urxe_rs *s, const struct urxe_rs_call *c) URXE_REQUIRES(s->lock)
{
	int err = 0;

	while (s->state == URXE_RS_ACCEPTING && !err)
		err = urxe_rs_await(s, c);
	return err;
}

static int shut(struct urxe_rs *s, struct urxe_rs_call *c, int how) URXE_REQUIRES(s->lock)
{
	bool recv, send;
	int err;

	c->deadline = linger_deadline(s);
	err = await_connected(s, c);
	if (err || s->state != URXE_RS_CONNECTED)
		return err == EAGAIN ? ETIMEDOUT : err;
	recv = s->can_recv && how == SHUT_WR;
	send = s->can_send && how == SHUT_RD;
	s->can_recv = recv;
	s->can_send = send;
	urxe_rs_changed(s);
	if (send)
		return 0; /* the peer need not know */
	err = finish(s, c, recv ? URXE_RS_SHUTDOWN : URXE_RS_DISCONNECT);
	if (!err)
		err = await_sent(s, c);
	return err == EAGAIN ? ETIMEDOUT : err;
}

static bool is_connected(const struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	return s->state == URXE_RS_CONNECTED || s->state == URXE_RS_ACCEPTING;
}

URXE_RS_API int rshutdown(int fd, int how)
{
	struct urxe_rs_call c;
	int err = 0;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return urxe_rs_ret(EINVAL);
	if (!urxe_rs_begin(&c, fd))
		return -1;
	urxe_rs_look(c.s, true);
	if (c.s->dg)
		err = urxe_rs_dgram_shutdown(c.s, how);
	else if (is_connected(c.s))
		err = shut(c.s, &c, how);
	else if (c.s->state == URXE_RS_LISTENING)
		err = how == SHUT_WR ? 0 : urxe_rs_unlisten(c.s);
	else if (urxe_rs_is_under_way(c.s))
		urxe_rs_fail(c.s, ECONNRESET); /* given up, as TCP's */
	else if (c.s->state != URXE_RS_CLOSED)
		err = ENOTCONN;
	urxe_rs_end(&c);
	return urxe_rs_ret(err);
}

/* The peer is told that it is over, and what was sent arrives. */
static void finish_all(struct urxe_rs *s, struct urxe_rs_call *c) URXE_REQUIRES(s->lock)
{
	if (is_connected(s))
		shut(s, c, SHUT_RDWR);
	if (s->dg) {
		c->deadline = linger_deadline(s);
		urxe_rs_dgram_flush(s, c);
	}
}

/* To its end: half of it would leave a socket that nobody finds any more. */
static void close_socket(struct urxe_rs *s)
{
	struct urxe_rs_call c = {.s = s, .cancel = PTHREAD_CANCEL_DISABLE, .whole = true};

	urxe_mutex_lock(&s->lock);
	urxe_rs_look(s, true);
	if (!s->linger.l_onoff || s->linger.l_linger)
		finish_all(s, &c);
	s->gone = true;
	urxe_rs_changed(s);
	urxe_mutex_unlock(&s->lock);
	urxe_rs_put(s);
}

URXE_RS_API int rclose(int fd)
{
	int cancel = urxe_cancel_off(), err = 0;
	struct urxe_rs *s = urxe_rs_take(fd);

	urxe_rs_repoll_forget(fd);
	if (s)
		close_socket(s);
	else
		err = urxe_rs_repoll_close(fd);
	urxe_cancel_back(cancel);
	return urxe_rs_ret(err);
}

/* ---- addresses ---- */

static int check_addr(const struct urxe_rs *s, const struct sockaddr *addr, socklen_t len)
{
	if (!addr)
		return EFAULT;
	if (len < sizeof(addr->sa_family))
		return EINVAL;
	if (addr->sa_family != s->domain)
		return EAFNOSUPPORT;
	if (addr->sa_family == AF_INET)
		return len < sizeof(struct sockaddr_in) ? EINVAL : 0;
	return len < sizeof(struct sockaddr_in6) ? EINVAL : 0;
}

URXE_RS_API int rbind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct urxe_rs_call c;
	int err;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	err = c.s->state == URXE_RS_OPEN ? check_addr(c.s, addr, len) : EINVAL;
	if (!err && c.s->dg)
		err = bind(fd, addr, len) ? errno : 0;
	else if (!err && rdma_bind_addr(c.s->id, (struct sockaddr *)(uintptr_t)addr))
		err = errno;
	urxe_rs_end(&c);
	return urxe_rs_ret(err);
}

URXE_RS_API int rgetsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_storage none = {0};
	struct urxe_rs_call c;
	int ret = 0;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	none.ss_family = (sa_family_t)c.s->domain;
	if (c.s->dg)
		ret = getsockname(fd, addr, len);
	else if (c.s->id->route.addr.src_addr.sa_family)
		urxe_rs_sockaddr(rdma_get_local_addr(c.s->id), addr, len);
	else
		urxe_rs_sockaddr((struct sockaddr *)&none, addr, len);
	urxe_rs_end(&c);
	return ret;
}

URXE_RS_API int rgetpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct urxe_rs_call c;
	int err = ENOTCONN;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	if (c.s->dg) {
		err = getpeername(fd, addr, len) ? errno : 0;
	} else if (c.s->st && c.s->st->hello) {
		urxe_rs_sockaddr(rdma_get_peer_addr(c.s->id), addr, len);
		err = 0;
	}
	urxe_rs_end(&c);
	return urxe_rs_ret(err);
}
