/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A worker's connections, by rdma_cm: it listens at its port, and connects to each of its pairs
 * that has a lower index, again and again as these go away. On one host a connection ends by its
 * event and by nothing else: its QP waits for an answer for ever, so that no time-out stands in for
 * it. Between hosts it has half a minute, for what carries packets there may be gone meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crowd.h"
#include "urxe/random.h"

#define MSEC	    1000000ull
#define RESOLVE_MS  5000
#define RETRY	    (2 * MSEC)
#define ACK_TIMEOUT 31 /* 2.4 hours */
#define ACK_BETWEEN 20 /* 4.3 s, and 7 retries; hosts */
#define LOOKS	    64 /* at the CQ, to one at other things */
#define SLEEP_MS    20
#define AT_A_TIME   8 /* connections that are being made */
#define CQES	    8192
#define BURST	    32

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void need(struct self *s, bool ok, const char *what)
{
	if (ok)
		return;
	snprintf(s->me->reason, REASON, "%s: %s", what, strerror(errno));
	_exit(3);
}

void count(_Atomic uint64_t *n)
{
	atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

static bool stopping(const struct self *s)
{
	return atomic_load_explicit(&s->board->stop, memory_order_relaxed);
}

/* ---- connections ---- */

struct conn *mesh_find(struct self *s, uint32_t number)
{
	struct conn *c = s->conns;

	while (c && c->number != number)
		c = c->next;
	return c;
}

static struct conn *add(struct self *s, struct rdma_cm_id *id, bool active)
{
	struct conn *c = calloc(1, sizeof(*c));

	need(s, c, "memory");
	c->id = id;
	c->active = active;
	c->number = ++s->numbers;
	c->peer.index = MAX_WORKERS;
	c->next = s->conns;
	s->conns = c;
	id->context = c;
	return c;
}

static void destroy(struct self *s, struct conn *c)
{
	struct conn **p = &s->conns;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	talk_destroy(s, c);
	need(s, !rdma_destroy_id(c->id), "rdma_destroy_id");
	free(c);
}

static struct sockaddr_in address_of(const struct self *s, unsigned index)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)(s->board->shape.port + index)),
		.sin_addr.s_addr = s->board->shape.address[index % s->board->shape.hosts],
	};
}

static void begin(struct self *s, unsigned peer)
{
	struct sockaddr_in to = address_of(s, peer);
	struct rdma_cm_id *id;
	struct conn *c;

	need(s, !rdma_create_id(s->channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	c = add(s, id, true);
	c->peer.index = peer;
	s->retry[peer] = 0;
	need(s, !rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, RESOLVE_MS),
	     "rdma_resolve_addr");
}

static void retry_later(struct self *s, unsigned peer)
{
	s->retry[peer] = now_ns() + RETRY;
}

static struct rdma_conn_param param_of(struct conn *c)
{
	return (struct rdma_conn_param){
		.private_data = &c->own,
		.private_data_len = sizeof(c->own),
		.responder_resources = 16,
		.initiator_depth = 16,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

static bool set_ack_timeout(struct self *s, struct conn *c)
{
	uint8_t timeout = s->board->shape.hosts > 1 ? ACK_BETWEEN : ACK_TIMEOUT;

	return !rdma_set_option(c->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1);
}

static void connect_conn(struct self *s, struct conn *c)
{
	struct rdma_conn_param p;

	need(s, set_ack_timeout(s, c), "the ACK time-out");
	need(s, talk_prepare(s, c), "rdma_create_qp");
	p = param_of(c);
	need(s, !rdma_connect(c->id, &p), "rdma_connect");
}

static void accept_conn(struct self *s, struct rdma_cm_event *e)
{
	struct conn *c = add(s, e->id, false);
	struct rdma_conn_param p;

	errno = EBADMSG;
	need(s, e->param.conn.private_data_len >= sizeof(c->peer), "a request says too little");
	memcpy(&c->peer, e->param.conn.private_data, sizeof(c->peer));
	need(s, c->peer.index < s->board->shape.workers, "a request of nobody's");
	(void)set_ack_timeout(s, c);
	/* Who asked may be dead by now. */
	if (talk_prepare(s, c)) {
		p = param_of(c);
		if (!rdma_accept(c->id, &p))
			return;
	}
	count(&s->me->refused);
	destroy(s, c);
}

static void established(struct self *s, struct conn *c, const struct rdma_cm_event *e)
{
	struct view *v;

	errno = EBADMSG;
	if (c->active) {
		need(s, e->param.conn.private_data_len >= sizeof(c->peer),
		     "a reply says too little");
		need(s, ((const struct hello *)e->param.conn.private_data)->index == c->peer.index,
		     "the reply is of another worker");
		memcpy(&c->peer, e->param.conn.private_data, sizeof(c->peer));
	}
	v = &s->me->view[c->peer.index];
	atomic_store(&v->life, c->peer.life);
	talk_begin(s, c);
}

/* It has ended, or could not be made. */
static void ended(struct self *s, struct conn *c)
{
	unsigned peer = c->peer.index;
	struct view *v = &s->me->view[peer];
	uint32_t life = c->peer.life;

	if (c->up) {
		count(&s->me->disconnected);
		atomic_store(&v->ended_at, now_ns());
		atomic_store(&v->ended, life);
		/* There may be one with the next life already. */
		atomic_compare_exchange_strong(&v->life, &life, 0);
		rdma_disconnect(c->id);
	} else {
		count(&s->me->refused);
	}
	if (c->active)
		retry_later(s, peer);
	destroy(s, c);
}

/* ---- events ---- */

static void event(struct self *s, struct rdma_cm_event *e)
{
	struct rdma_cm_event copy = *e;
	struct conn *c = e->id == s->listener ? NULL : e->id->context;
	uint8_t private_data[256] = {0};

	if (e->param.conn.private_data) {
		memcpy(private_data, e->param.conn.private_data, e->param.conn.private_data_len);
		copy.param.conn.private_data = private_data;
	}
	/* Its id may be destroyed then. */
	need(s, !rdma_ack_cm_event(e), "rdma_ack_cm_event");
	switch (copy.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(copy.id, RESOLVE_MS))
			ended(s, c);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		connect_conn(s, c);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		accept_conn(s, &copy);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		established(s, c, &copy);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		ended(s, c);
		break;
	default:
		errno = EPROTO;
		need(s, false, rdma_event_str(copy.event));
	}
}

static void events(struct self *s)
{
	struct rdma_cm_event *e;

	while (!rdma_get_cm_event(s->channel, &e))
		event(s, e);
	need(s, errno == EAGAIN || errno == EINTR, "rdma_get_cm_event");
}

/* A few at a time: where a hundred processes share two processors, answers take long. */
static void reconnect(struct self *s)
{
	uint64_t now = now_ns();
	unsigned under_way = 0;

	for (const struct conn *c = s->conns; c; c = c->next)
		under_way += c->active && !c->up;
	for (unsigned i = 0; i < s->index && under_way < AT_A_TIME; i++) {
		if (!s->retry[i] || s->retry[i] > now)
			continue;
		begin(s, i);
		under_way++;
	}
}

/* ---- completions ---- */

static int completions(struct self *s)
{
	struct ibv_wc wc[BURST];
	int n = ibv_poll_cq(s->cq, BURST, wc);

	need(s, n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++) {
		struct conn *c = mesh_find(s, (uint32_t)(wc[i].wr_id >> 32));

		if (c)
			talk_completion(s, c, &wc[i]);
	}
	return n;
}

static void take_notice(struct self *s)
{
	struct ibv_cq *cq;
	void *arg;

	while (!ibv_get_cq_event(s->comp, &cq, &arg))
		s->unacked++;
	if (s->unacked > 1000) {
		ibv_ack_cq_events(s->cq, s->unacked);
		s->unacked = 0;
	}
}

/* Until something comes. What came before the request for a notice is looked at after it. */
static void sleep_on(struct self *s)
{
	struct pollfd p[] = {{.fd = s->channel->fd, .events = POLLIN},
			     {.fd = s->comp->fd, .events = POLLIN}};

	need(s, !ibv_req_notify_cq(s->cq, 0), "ibv_req_notify_cq");
	if (completions(s))
		return;
	poll(p, 2, SLEEP_MS);
	take_notice(s);
}

static void work(struct self *s)
{
	while (!stopping(s)) {
		unsigned n = 0;

		for (unsigned i = 0; i < LOOKS; i++) {
			int got = completions(s);

			n += (unsigned)got;
			if (s->sleeps && !got)
				break;
		}
		events(s);
		reconnect(s);
		if (s->sleeps && !n)
			sleep_on(s);
	}
}

/* ---- life ---- */

static void no_wait(struct self *s, int fd)
{
	need(s, !fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "O_NONBLOCK");
}

static void open_all(struct self *s)
{
	struct sockaddr_in own = address_of(s, s->index);
	struct ibv_context **devices, *verbs;

	s->channel = rdma_create_event_channel();
	need(s, s->channel, "rdma_create_event_channel");
	no_wait(s, s->channel->fd);
	need(s, !rdma_create_id(s->channel, &s->listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	/* Who had this port is dead. */
	need(s, !rdma_bind_addr(s->listener, (struct sockaddr *)&own), "rdma_bind_addr");
	/* One that is bound to 127.0.0.1 has no device yet. */
	devices = rdma_get_devices(NULL);
	errno = ENODEV;
	need(s, devices && devices[0], "rdma_get_devices");
	verbs = devices[0];
	rdma_free_devices(devices);
	s->pd = ibv_alloc_pd(verbs);
	need(s, s->pd, "ibv_alloc_pd");
	s->comp = ibv_create_comp_channel(verbs);
	need(s, s->comp, "ibv_create_comp_channel");
	no_wait(s, s->comp->fd);
	s->cq = ibv_create_cq(verbs, CQES, NULL, s->comp, 0);
	need(s, s->cq, "ibv_create_cq");
	need(s, !rdma_listen(s->listener, MAX_WORKERS), "rdma_listen");
	atomic_store(&s->me->listens, s->life);
	for (unsigned i = 0; i < s->index; i++)
		s->retry[i] = pair(&s->board->shape, i, s->index);
}

static void close_all(struct self *s)
{
	while (s->conns) {
		rdma_disconnect(s->conns->id);
		destroy(s, s->conns);
	}
	need(s, !rdma_destroy_id(s->listener), "rdma_destroy_id");
	if (s->unacked)
		ibv_ack_cq_events(s->cq, s->unacked);
	need(s, !(errno = ibv_destroy_cq(s->cq)), "ibv_destroy_cq");
	need(s, !ibv_destroy_comp_channel(s->comp), "ibv_destroy_comp_channel");
	need(s, !(errno = ibv_dealloc_pd(s->pd)), "ibv_dealloc_pd");
	rdma_destroy_event_channel(s->channel);
}

int mesh_run(struct board *board, unsigned index, uint32_t life)
{
	struct self s = {
		.board = board,
		.me = &board->worker[index],
		.index = index,
		.life = life,
		.random = board->shape.seed ^ (uint64_t)life << 32,
		.sleeps = board->shape.events || index % 2,
	};

	open_all(&s);
	work(&s);
	close_all(&s);
	return 0;
}
