/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections: rlisten(), raccept(), rconnect(), and events of the channel. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#include "urxe/free.h"
#include "urxe/log.h"

#define RESOLVE_MS   4000
#define RETRIES	     7 /* of what is lost, and of a receive that is not there */
#define BACKLOG_MOST 1024

static struct rdma_conn_param params(const uint8_t hello[URXE_RS_HELLO_LEN])
{
	return (struct rdma_conn_param){
		.private_data = hello,
		.private_data_len = URXE_RS_HELLO_LEN,
		.flow_control = 1,
		.retry_count = RETRIES,
		.rnr_retry_count = RETRIES,
	};
}

/* ---- events ---- */

static int connect_now(struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	uint8_t hello[URXE_RS_HELLO_LEN];
	struct rdma_conn_param p = params(hello);
	int err = urxe_rs_stream_create(s);

	if (err)
		return err;
	urxe_rs_stream_hello(s, hello);
	if (rdma_connect(s->id, &p))
		return errno;
	urxe_rs_set_state(s, URXE_RS_CONNECTING);
	return 0;
}

/* RDMA_ROUTE's path instead of one that is looked up; the event comes in both cases. */
static int resolve_route(struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	int ret;

	if (s->path)
		ret = rdma_set_option(s->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, s->path,
				      s->path_len);
	else
		ret = rdma_resolve_route(s->id, RESOLVE_MS);
	return ret ? errno : 0;
}

static int established(struct urxe_rs *s, const struct rdma_cm_event *e) URXE_REQUIRES(s->lock)
{
	int err = 0;

	if (s->state == URXE_RS_CONNECTING)
		err = urxe_rs_stream_meet(s, e->param.conn.private_data,
					  e->param.conn.private_data_len);
	if (!err && (s->state == URXE_RS_CONNECTING || s->state == URXE_RS_ACCEPTING))
		urxe_rs_set_state(s, URXE_RS_CONNECTED);
	return err;
}

/* Why there is no connection. rdma_cm's status is a negative errno, or a REJ's reason. */
static int event_errno(const struct rdma_cm_event *e)
{
	switch (e->event) {
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return e->status < 0 ? -e->status : ETIMEDOUT;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENODEV;
	default:
		return e->status < 0 ? -e->status : ECONNABORTED;
	}
}

static void handle(struct urxe_rs *s, const struct rdma_cm_event *e) URXE_REQUIRES(s->lock)
{
	int err = 0;

	if (s->state == URXE_RS_FAILED) {
		/* It was given up (rshutdown()) while the peer accepted it. */
		if (e->event == RDMA_CM_EVENT_ESTABLISHED)
			rdma_disconnect(s->id);
		return;
	}
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = resolve_route(s);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = connect_now(s);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		err = established(s, e);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* What it sent before has arrived. */
		urxe_rs_last_completions(s);
		urxe_rs_set_state(s, URXE_RS_CLOSED);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		err = event_errno(e);
		break;
	default: /* TIMEWAIT_EXIT, ADDR_CHANGE */
		break;
	}
	if (err)
		urxe_rs_fail(s, err);
}

/* False: there is no memory, and its sender tries again. */
static bool queue_request(struct urxe_rs *s, struct rdma_cm_event *e) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_request *r = malloc(sizeof(*r));

	if (!r)
		return false;
	r->event = e;
	cds_list_add_tail(&r->entry, &s->requests);
	s->n_requests++;
	urxe_rs_changed(s);
	return true;
}

void urxe_rs_cm_events(struct urxe_rs *s)
{
	struct rdma_cm_event *e;

	/* More requests than its backlog stay with rdma_cm, which knows what to do about them. */
	while (!urxe_rs_backlog_full(s) && !rdma_get_cm_event(s->channel, &e)) {
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			struct rdma_cm_id *id = e->id;

			if (queue_request(s, e))
				continue;
			rdma_ack_cm_event(e);
			rdma_destroy_id(id);
			continue;
		}
		handle(s, e);
		rdma_ack_cm_event(e);
	}
}

/* ---- listening ---- */

static int listen_with(struct urxe_rs *s, int backlog) URXE_REQUIRES(s->lock)
{
	if (backlog < 1)
		backlog = 1;
	if (backlog > BACKLOG_MOST)
		backlog = BACKLOG_MOST;
	if (rdma_listen(s->id, backlog))
		return errno;
	s->backlog = (unsigned)backlog;
	urxe_rs_set_state(s, URXE_RS_LISTENING);
	return 0;
}

int urxe_rs_unlisten(struct urxe_rs *s)
{
	struct sockaddr_storage at = s->id->route.addr.src_storage;
	struct rdma_cm_id *id, *old = s->id;

	if (rdma_create_id(s->channel, &id, s, RDMA_PS_TCP))
		return errno;
	urxe_rs_drop_requests(s);
	rdma_destroy_id(old);
	s->id = id;
	urxe_rs_tell_flags(s);
	if (rdma_bind_addr(id, (struct sockaddr *)&at))
		urxe_info("rsocket %d: it is bound no more: %s", s->fd, strerror(errno));
	s->backlog = 0;
	urxe_rs_set_state(s, URXE_RS_OPEN);
	return 0;
}

URXE_RS_API int rlisten(int fd, int backlog)
{
	struct urxe_rs_call c;
	int err;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	if (c.s->dg)
		err = EOPNOTSUPP;
	else if (c.s->state == URXE_RS_OPEN)
		err = listen_with(c.s, backlog);
	else
		err = c.s->state == URXE_RS_LISTENING ? 0 : EINVAL;
	urxe_rs_end(&c);
	return urxe_rs_ret(err);
}

/* Of the oldest request: a socket that nobody knows yet. */
static int take_request(struct urxe_rs *s, const struct urxe_rs_call *c, struct rdma_cm_event **e)
	URXE_REQUIRES(s->lock)
{
	struct urxe_rs_request *r;
	bool full;
	int err;

	for (;;) {
		if (s->state != URXE_RS_LISTENING)
			return s->dg ? EOPNOTSUPP : EINVAL;
		urxe_rs_look(s, true);
		if (!cds_list_empty(&s->requests))
			break;
		err = urxe_rs_await(s, c);
		if (err)
			return err;
	}
	r = cds_list_first_entry(&s->requests, struct urxe_rs_request, entry);
	*e = r->event;
	full = urxe_rs_backlog_full(s);
	cds_list_del(&r->entry);
	s->n_requests--;
	free(r);
	/* Who slept while there was no room for more did not watch its channel. */
	if (full)
		urxe_rs_changed(s);
	return 0;
}

static int answer(struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	uint8_t hello[URXE_RS_HELLO_LEN];
	struct rdma_conn_param p = params(hello);

	urxe_rs_stream_hello(s, hello);
	urxe_rs_set_state(s, URXE_RS_ACCEPTING);
	return rdma_accept(s->id, &p) ? errno : 0;
}

/* @s has the request's id. */
static int accept_request(struct urxe_rs *s, const struct rdma_cm_event *e)
{
	int err;

	urxe_mutex_lock(&s->lock);
	err = rdma_migrate_id(s->id, s->channel) ? errno : 0;
	if (!err)
		err = urxe_rs_stream_create(s);
	if (!err)
		err = urxe_rs_stream_meet(s, e->param.conn.private_data,
					  e->param.conn.private_data_len);
	if (!err)
		err = answer(s);
	urxe_mutex_unlock(&s->lock);
	return err;
}

/* A socket for it; NULL and errno: it is refused. */
static struct urxe_rs *accepted(const struct urxe_rs *listener, struct rdma_cm_event *e)
{
	struct urxe_rs *s = urxe_rs_new(listener->domain, listener);
	struct rdma_cm_id *id = e->id;
	struct rdma_cm_event own = *e;
	uint8_t hello[URXE_RS_HELLO_LEN];
	int err = s ? 0 : errno;

	/* An id moves to another channel when its events are acknowledged. */
	if (own.param.conn.private_data_len > sizeof(hello))
		own.param.conn.private_data_len = sizeof(hello);
	if (own.param.conn.private_data)
		memcpy(hello, own.param.conn.private_data, own.param.conn.private_data_len);
	own.param.conn.private_data = hello;
	rdma_ack_cm_event(e);
	if (s) {
		s->id = id;
		id->context = s;
		err = accept_request(s, &own);
	}
	if (!err)
		return s;
	urxe_info("rsocket %d: a request is refused: %s", listener->fd, strerror(err));
	rdma_reject(id, NULL, 0);
	if (s)
		urxe_rs_put(s);
	else
		rdma_destroy_id(id);
	errno = err;
	return NULL;
}

static int accept_one(struct urxe_rs *s, const struct urxe_rs_call *c, struct sockaddr *addr,
		      socklen_t *len) URXE_REQUIRES(s->lock)
{
	struct urxe_rs *new = NULL;
	struct rdma_cm_event *e;
	int err;

	do {
		err = take_request(s, c, &e);
		if (err)
			return urxe_rs_ret(err);
		new = accepted(s, e);
		/* Who is no rsocket is none of the application's. */
	} while (!new && (errno == EPROTO || errno == ENOTSUP));
	if (!new)
		return -1;
	urxe_rs_sockaddr(rdma_get_peer_addr(new->id), addr, len);
	urxe_rs_add(new);
	return new->fd;
}

URXE_RS_API int raccept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct urxe_rs_call c;
	int ret;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	urxe_rs_patience(c.s, &c, 0, c.s->rcvtimeo);
	ret = accept_one(c.s, &c, addr, len);
	urxe_rs_end(&c);
	return ret;
}

/* ---- connecting ---- */

static int begin(struct urxe_rs *s, const struct sockaddr *addr, socklen_t len)
	URXE_REQUIRES(s->lock)
{
	if (!addr)
		return EFAULT;
	if (len < sizeof(struct sockaddr_in) || addr->sa_family != s->domain ||
	    (addr->sa_family == AF_INET6 && len < sizeof(struct sockaddr_in6)))
		return EINVAL;
	if (rdma_resolve_addr(s->id, NULL, (struct sockaddr *)(uintptr_t)addr, RESOLVE_MS))
		return errno;
	urxe_rs_set_state(s, URXE_RS_RESOLVING);
	return 0;
}

static int connect_socket(struct urxe_rs *s, const struct urxe_rs_call *c,
			  const struct sockaddr *addr, socklen_t len) URXE_REQUIRES(s->lock)
{
	bool again = s->state != URXE_RS_OPEN;
	int err = again ? 0 : begin(s, addr, len);

	if (err)
		return err;
	if (again && s->state == URXE_RS_LISTENING)
		return EISCONN;
	urxe_rs_look(s, true);
	while (urxe_rs_is_under_way(s)) {
		if (!c->deadline)
			return again ? EALREADY : EINPROGRESS;
		err = urxe_rs_await(s, c);
		if (err)
			return err == EAGAIN ? EINPROGRESS : err;
	}
	if (s->reported)
		return s->state == URXE_RS_FAILED ? ECONNABORTED : EISCONN;
	s->reported = true;
	return urxe_rs_take_error(s);
}

URXE_RS_API int rconnect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct urxe_rs_call c;
	int err;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	urxe_rs_patience(c.s, &c, 0, c.s->sndtimeo);
	err = c.s->dg ? urxe_rs_dgram_connect(c.s, addr, len) : connect_socket(c.s, &c, addr, len);
	urxe_rs_end(&c);
	return urxe_rs_ret(err);
}
