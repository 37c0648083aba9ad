/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rsetsockopt(), rgetsockopt(), rfcntl(). Each option is a row: what it is, when it may be set. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#include "urxe/free.h"

enum kind {
	FLAG,	  /* an int, of which 0 is false, in a bool */
	NUMBER,	  /* an int from least to most, in an uint32_t */
	SECONDS,  /* an int from 1 on, in an int */
	TIMEOUT,  /* a struct timeval in ns; 0: for ever */
	LINGER,	  /* a struct linger */
	INFO,	  /* a struct tcp_info */
	COMPUTED, /* it is only asked for: by what is in get() */
};

struct option {
	int level, name;
	enum kind kind;
	size_t at; /* in struct urxe_rs */
	uint32_t least, most;
	bool early; /* only before there is a connection */
};

#define AT(member) offsetof(struct urxe_rs, member)

static const struct option options[] = {
	{SOL_SOCKET, SO_ERROR, COMPUTED, 0, 0, 0, false},
	{SOL_SOCKET, SO_TYPE, COMPUTED, 0, 0, 0, false},
	{SOL_SOCKET, SO_DOMAIN, COMPUTED, 0, 0, 0, false},
	{SOL_SOCKET, SO_PROTOCOL, COMPUTED, 0, 0, 0, false},
	{SOL_SOCKET, SO_ACCEPTCONN, COMPUTED, 0, 0, 0, false},
	{SOL_SOCKET, SO_REUSEADDR, FLAG, AT(reuse), 0, 0, false},
	{SOL_SOCKET, SO_KEEPALIVE, FLAG, AT(keepalive), 0, 0, false},
	{SOL_SOCKET, SO_OOBINLINE, FLAG, AT(oobinline), 0, 0, false},
	{SOL_SOCKET, SO_LINGER, LINGER, AT(linger), 0, 0, false},
	{SOL_SOCKET, SO_RCVTIMEO, TIMEOUT, AT(rcvtimeo), 0, 0, false},
	{SOL_SOCKET, SO_SNDTIMEO, TIMEOUT, AT(sndtimeo), 0, 0, false},
	{SOL_SOCKET, SO_RCVBUF, NUMBER, AT(set.rcvbuf), URXE_RS_BUF_MIN, URXE_RS_BUF_MAX, true},
	{SOL_SOCKET, SO_SNDBUF, NUMBER, AT(set.sndbuf), URXE_RS_BUF_MIN, URXE_RS_BUF_MAX, true},
	{IPPROTO_TCP, TCP_NODELAY, FLAG, AT(nodelay), 0, 0, false},
	{IPPROTO_TCP, TCP_MAXSEG, COMPUTED, 0, 0, 0, false},
	{IPPROTO_TCP, TCP_INFO, INFO, 0, 0, 0, false},
	{IPPROTO_TCP, TCP_KEEPIDLE, SECONDS, AT(keep[0]), 0, 0, false},
	{IPPROTO_TCP, TCP_KEEPINTVL, SECONDS, AT(keep[1]), 0, 0, false},
	{IPPROTO_TCP, TCP_KEEPCNT, SECONDS, AT(keep[2]), 0, 0, false},
	{IPPROTO_IPV6, IPV6_V6ONLY, FLAG, AT(v6only), 0, 0, true},
	{SOL_RDMA, RDMA_SQSIZE, NUMBER, AT(set.sq_size), URXE_RS_QUEUE_MIN, URXE_RS_QUEUE_MAX,
	 true},
	{SOL_RDMA, RDMA_RQSIZE, NUMBER, AT(set.rq_size), URXE_RS_QUEUE_MIN, URXE_RS_QUEUE_MAX,
	 true},
	{SOL_RDMA, RDMA_INLINE, NUMBER, AT(set.inline_size), 0, URXE_RS_INLINE_MAX, true},
	{SOL_RDMA, RDMA_IOMAPSIZE, NUMBER, AT(set.iomap_size), 0, URXE_RS_IOMAPS_MAX, true},
};

static const struct option *find(int level, int name)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].level == level && options[i].name == name)
			return &options[i];
	return NULL;
}

/* ---- setting ---- */

static int set_timeout(uint64_t *ns, const void *val, socklen_t len)
{
	struct timeval tv;

	if (len < sizeof(tv))
		return EINVAL;
	memcpy(&tv, val, sizeof(tv));
	if (tv.tv_usec < 0 || tv.tv_usec >= 1000000)
		return EDOM;
	if (tv.tv_sec < 0)
		tv.tv_sec = tv.tv_usec = 0;
	*ns = (uint64_t)tv.tv_sec * URXE_SEC + (uint64_t)tv.tv_usec * URXE_USEC;
	if (!*ns || (uint64_t)tv.tv_sec >= URXE_RS_FOREVER / URXE_SEC)
		*ns = URXE_RS_FOREVER;
	return 0;
}

static int tell(struct urxe_rs *s, int name, int v) URXE_REQUIRES(s->lock)
{
	return rdma_set_option(s->id, RDMA_OPTION_ID, name, &v, sizeof(v)) ? errno : 0;
}

/* What rdma_cm has to know. */
static int tell_id(struct urxe_rs *s, const struct option *o, int v) URXE_REQUIRES(s->lock)
{
	int name, err;

	if (o->level == SOL_SOCKET && o->name == SO_REUSEADDR)
		name = RDMA_OPTION_ID_REUSEADDR;
	else if (o->level == IPPROTO_IPV6)
		name = RDMA_OPTION_ID_AFONLY;
	else
		return 0;
	if (s->dg)
		return setsockopt(s->fd, o->level, o->name, &v, sizeof(v)) ? errno : 0;
	/* Of use before it is bound alone, and sockets of TCP take it at any time. */
	err = tell(s, name, v);
	return s->state == URXE_RS_OPEN ? err : 0;
}

void urxe_rs_tell_flags(struct urxe_rs *s)
{
	if (s->reuse)
		tell(s, RDMA_OPTION_ID_REUSEADDR, 1);
	if (s->v6only)
		tell(s, RDMA_OPTION_ID_AFONLY, 1);
}

/* Out of bounds is what comes next in them, as of SO_RCVBUF (socket(7)). */
static uint32_t bounded(const struct option *o, int v)
{
	uint32_t n = v < 0 ? 0 : (uint32_t)v;

	if (n < o->least)
		n = o->least;
	if (n > o->most)
		n = o->most;
	return o->name == RDMA_IOMAPSIZE && o->level == SOL_RDMA ? urxe_rs_iomap_size(n) : n;
}

static int set_int(struct urxe_rs *s, const struct option *o, int v) URXE_REQUIRES(s->lock)
{
	char *at = (char *)s + o->at;
	int err = 0;

	switch (o->kind) {
	case FLAG:
		err = tell_id(s, o, v != 0);
		if (!err)
			*(bool *)at = v;
		return err;
	case NUMBER:
		*(uint32_t *)(void *)at = bounded(o, v);
		return 0;
	case SECONDS:
		if (v < 1)
			return EINVAL;
		*(int *)(void *)at = v;
		return 0;
	default:
		return ENOPROTOOPT;
	}
}

static int set_route(struct urxe_rs *s, const void *val, socklen_t len) URXE_REQUIRES(s->lock)
{
	void *copy;

	if (!len || len > 4096 || s->state != URXE_RS_OPEN)
		return EINVAL;
	copy = malloc(len);
	if (!copy)
		return ENOMEM;
	memcpy(copy, val, len);
	free(s->path);
	s->path = copy;
	s->path_len = len;
	return 0;
}

static int set(struct urxe_rs *s, int level, int name, const void *val, socklen_t len)
	URXE_REQUIRES(s->lock)
{
	const struct option *o = find(level, name);
	int v;

	if (!val)
		return EFAULT;
	if (level == SOL_RDMA && name == RDMA_ROUTE && !s->dg)
		return set_route(s, val, len);
	if (!o || (s->dg && level == IPPROTO_TCP))
		return ENOPROTOOPT;
	/* Buffers of a connection stay: TCP takes it, and perftest-like programs set them late. */
	if (o->early && (s->st || (s->dg && !cds_list_empty(&s->dg->uds))))
		return level == SOL_SOCKET ? 0 : EINVAL;
	if (o->kind == TIMEOUT)
		return set_timeout((uint64_t *)(void *)((char *)s + o->at), val, len);
	if (o->kind == LINGER) {
		if (len < sizeof(s->linger))
			return EINVAL;
		memcpy(&s->linger, val, sizeof(s->linger));
		if (s->linger.l_linger < 0)
			s->linger.l_linger = 0;
		return 0;
	}
	if (len < sizeof(v))
		return EINVAL;
	memcpy(&v, val, sizeof(v));
	return set_int(s, o, v);
}

URXE_RS_API int rsetsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct urxe_rs_call c;
	int err;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	err = set(c.s, level, name, val, len);
	urxe_rs_end(&c);
	return urxe_rs_ret(err);
}

/* ---- asking ---- */

static int path_mtu(const struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {0};

	if (!s->st || !s->id->qp || ibv_query_qp(s->id->qp, &attr, IBV_QP_PATH_MTU, &init))
		return 0;
	return attr.path_mtu ? 128 << attr.path_mtu : 0;
}

static int computed(struct urxe_rs *s, const struct option *o) URXE_REQUIRES(s->lock)
{
	if (o->level == IPPROTO_TCP)
		return path_mtu(s);
	switch (o->name) {
	case SO_ERROR:
		urxe_rs_look(s, true);
		/* Whoever waited for a connection learns of it here. */
		if (s->state != URXE_RS_RESOLVING && s->state != URXE_RS_CONNECTING)
			s->reported = true;
		return urxe_rs_take_error(s);
	case SO_TYPE:
		return s->dg ? SOCK_DGRAM : SOCK_STREAM;
	case SO_DOMAIN:
		return s->domain;
	case SO_PROTOCOL:
		return s->dg ? IPPROTO_UDP : IPPROTO_TCP;
	default:
		return s->state == URXE_RS_LISTENING;
	}
}

/* TCP's name for each state, to TCP_INFO. */
static const uint8_t states[URXE_RS_N_STATES] = {
	[URXE_RS_OPEN] = TCP_CLOSE,	    [URXE_RS_LISTENING] = TCP_LISTEN,
	[URXE_RS_RESOLVING] = TCP_SYN_SENT, [URXE_RS_CONNECTING] = TCP_SYN_SENT,
	[URXE_RS_ACCEPTING] = TCP_SYN_RECV, [URXE_RS_CONNECTED] = TCP_ESTABLISHED,
	[URXE_RS_CLOSED] = TCP_CLOSE,	    [URXE_RS_FAILED] = TCP_CLOSE,
};

static int get_int(struct urxe_rs *s, const struct option *o) URXE_REQUIRES(s->lock)
{
	const char *at = (const char *)s + o->at;

	switch (o->kind) {
	case FLAG:
		return *(const bool *)at;
	case NUMBER:
		return (int)*(const uint32_t *)(const void *)at;
	case SECONDS:
		return *(const int *)(const void *)at;
	default:
		return computed(s, o);
	}
}

/* What programs that measure TCP ask for. Losses are the adapter's, and not known here. */
static struct tcp_info info(struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	const struct urxe_rs_stream *st = s->st;
	struct tcp_info i = {.tcpi_state = states[s->state]};

	if (st) {
		i.tcpi_snd_mss = i.tcpi_rcv_mss = (uint32_t)path_mtu(s);
		i.tcpi_unacked = s->set.sq_size - URXE_RS_CONTROLS - st->sends;
		i.tcpi_rcv_space = 2 * st->half;
	}
	return i;
}

static void give(void *val, socklen_t *len, const void *from, socklen_t whole)
{
	if (*len > whole)
		*len = whole;
	memcpy(val, from, *len);
}

static int get(struct urxe_rs *s, int level, int name, void *val, socklen_t *len)
	URXE_REQUIRES(s->lock)
{
	const struct option *o = find(level, name);
	uint64_t ns;
	int v;

	if (!val || !len)
		return EFAULT;
	if (!o || (s->dg && level == IPPROTO_TCP))
		return ENOPROTOOPT;
	if (o->kind == LINGER) {
		give(val, len, &s->linger, sizeof(s->linger));
	} else if (o->kind == INFO) {
		struct tcp_info i = info(s);

		give(val, len, &i, sizeof(i));
	} else if (o->kind == TIMEOUT) {
		struct timeval tv = {0};

		ns = *(const uint64_t *)(const void *)((const char *)s + o->at);
		if (ns != URXE_RS_FOREVER)
			tv = (struct timeval){(time_t)(ns / URXE_SEC),
					      (suseconds_t)(ns % URXE_SEC / URXE_USEC)};
		give(val, len, &tv, sizeof(tv));
	} else {
		v = get_int(s, o);
		give(val, len, &v, sizeof(v));
	}
	return 0;
}

URXE_RS_API int rgetsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct urxe_rs_call c;
	int err;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	err = get(c.s, level, name, val, len);
	urxe_rs_end(&c);
	return urxe_rs_ret(err);
}

/* ---- rfcntl ---- */

URXE_RS_API int rfcntl(int fd, int cmd, ...)
{
	struct urxe_rs_call c;
	int ret = 0;
	long arg;
	va_list args;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	va_start(args, cmd);
	arg = va_arg(args, long);
	va_end(args);
	switch (cmd) {
	case F_GETFL:
		ret = O_RDWR | c.s->flags;
		break;
	case F_SETFL:
		c.s->flags = (int)arg & O_NONBLOCK;
		break;
	case F_GETFD:
		ret = fcntl(fd, F_GETFD);
		break;
	case F_SETFD:
		ret = fcntl(fd, F_SETFD, (int)arg);
		break;
	default:
		ret = urxe_rs_ret(EINVAL);
		break;
	}
	urxe_rs_end(&c);
	return ret;
}
