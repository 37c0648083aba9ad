/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two devices on a simulated network, with a QP each: what most tests of the provider start from.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "rcu.h"
#include "flush.h"
#include "progress.h"
#include "service.h"

#define REQUIRE(x)                                                                        \
	do {                                                                              \
		if (!(x)) {                                                               \
			fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #x, \
				strerror(errno));                                         \
			abort();                                                          \
		}                                                                         \
	} while (0)

static void side_config(struct urxe_port_config *cfg, const char *name, unsigned host,
			const struct pair_params *pp)
{
	struct urxe_config_ip *ip = cfg->ips;

	memset(cfg, 0, sizeof(*cfg));
	snprintf(cfg->name, sizeof(cfg->name), "%s", name);
	strcpy(cfg->port, "sim");
	cfg->mtu = pp->mtu ? pp->mtu : 1024;
	cfg->vlan = URXE_NO_VLAN;
	if (!pp->v6) {
		ip->ipv4 = true;
		ip->prefix_len = 24;
		ip->gid[10] = ip->gid[11] = 0xff;
		ip->gid[12] = 10;
		ip->gid[15] = (uint8_t)host;
	} else {
		ip->prefix_len = 64;
		ip->gid[0] = 0xfd;
		ip->gid[15] = (uint8_t)host;
	}
	cfg->num_ips = 1;
	if (pp->two_nets) {
		ip[1] = ip[0];
		ip[1].gid[14] = 1;
		cfg->num_ips = 2;
	}
	if (pp->v6_too)
		cfg->ips[cfg->num_ips++] = (struct urxe_config_ip){
			.prefix_len = 64, .gid = {0xfd, [15] = (uint8_t)host}};
}

static int all_access(const struct pair_params *pp)
{
	return pp->access ? pp->access
			  : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void side_open(struct side *s, struct urxe_sim *sim, const char *name, unsigned host,
		      const struct pair_params *pp)
{
	struct urxe_port_config cfg;

	side_config(&cfg, name, pp->join ? 1 : host, pp);
	s->end = urxe_sim_end(sim, &pp->link);
	REQUIRE(s->end);
	if (pp->join)
		pp->join(sim, s->end, host);
	REQUIRE(!urxe_device_create(&s->dev, &cfg, pp->ops ? pp->ops : &urxe_link_sim_ops, s->end,
				    pp->threaded));
	s->ctx = ibv_open_device(&s->dev->vdev.device);
	REQUIRE(s->ctx);
	s->pd = ibv_alloc_pd(s->ctx);
	REQUIRE(s->pd);
	if (pp->channel) {
		/* What the shim does for libibverbs. */
		s->channel = urxe_channel_create(s->ctx);
		REQUIRE(s->channel);
	}
	s->cq = ibv_create_cq(s->ctx, 4096, NULL, s->channel, 0);
	REQUIRE(s->cq);
	s->buf = aligned_alloc(4096, PAIR_BUF);
	REQUIRE(s->buf);
	memset(s->buf, 0, PAIR_BUF);
	s->mr = ibv_reg_mr(s->pd, s->buf, PAIR_BUF, all_access(pp));
	REQUIRE(s->mr);
}

struct ibv_qp *pair_qp(struct side *s, const struct pair_params *pp, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = {.max_send_wr = pp->max_wr ? pp->max_wr : 128,
			.max_recv_wr = pp->max_wr ? pp->max_wr : 128,
			.max_send_sge = pp->max_sge ? pp->max_sge : 4,
			.max_recv_sge = pp->max_sge ? pp->max_sge : 4,
			.max_inline_data = pp->max_inline},
		.qp_type = type,
		.sq_sig_all = pp->sig_all,
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &attr);

	REQUIRE(qp);
	return qp;
}

struct ibv_ah_attr pair_path(struct side *from, struct side *to)
{
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};
	struct urxe_gid_entry e;

	REQUIRE(!urxe_port_gid(to->dev->port, 0, &e));
	memcpy(ah.grh.dgid.raw, e.gid, 16);
	ah.grh.hop_limit = 64;
	return ah;
}

static enum ibv_mtu mtu_enum(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (128u << mtu < bytes)
		mtu++;
	return mtu;
}

static void to_rts(struct side *s, struct ibv_qp *qp, struct side *to, struct ibv_qp *peer,
		   const struct pair_params *pp, uint32_t sq_psn, uint32_t rq_psn)
{
	/* The halves of XRC take what the other half needs. */
	bool rc = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND ||
		  qp->qp_type == IBV_QPT_XRC_RECV;
	bool ud = qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_port_attr port;

	REQUIRE(!ibv_query_port(s->ctx, 1, &port));
	a.qp_access_flags = (unsigned)all_access(pp);
	a.qkey = 0x11111111;
	REQUIRE(!ibv_modify_qp(qp, &a,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	a.qp_state = IBV_QPS_RTR;
	a.ah_attr = pair_path(s, to);
	/* The port may carry more. */
	a.path_mtu = mtu_enum(pp->mtu ? pp->mtu : 1024);
	REQUIRE(a.path_mtu <= port.active_mtu);
	a.dest_qp_num = peer ? peer->qp_num : 0;
	a.rq_psn = rq_psn;
	a.max_dest_rd_atomic = pp->rd_atomic ? pp->rd_atomic : 16;
	a.min_rnr_timer = pp->min_rnr_timer ? pp->min_rnr_timer : 12;
	REQUIRE(!ibv_modify_qp(
		qp, &a,
		IBV_QP_STATE |
			(ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
			(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = sq_psn;
	a.timeout = pp->timeout ? pp->timeout : 14;
	a.retry_cnt = pp->set_retries ? pp->retry_cnt : 7;
	a.rnr_retry = pp->set_retries ? pp->rnr_retry : 7;
	a.max_rd_atomic = pp->rd_atomic ? pp->rd_atomic : 16;
	REQUIRE(!ibv_modify_qp(qp, &a,
			       IBV_QP_STATE | IBV_QP_SQ_PSN |
				       (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
							IBV_QP_MAX_QP_RD_ATOMIC
					   : 0)));
}

void pair_connect(struct pair *p, struct side *a, struct ibv_qp *qa, struct side *b,
		  struct ibv_qp *qb, const struct pair_params *pp)
{
	/* Near the wrap on one side: PSN arithmetic is part of every test. */
	uint32_t psn_a = 0xffffe0, psn_b = (uint32_t)pp->seed & 0xffffff;

	to_rts(a, qa, b, qb, pp, psn_a, psn_b);
	to_rts(b, qb, a, qa, pp, psn_b, psn_a);
}

void pair_open(struct pair *p, const struct pair_params *pp, enum ibv_qp_type type)
{
	memset(p, 0, sizeof(*p));
	p->threaded = pp->threaded;
	REQUIRE(!urxe_sim_create(&p->sim, pp->seed, pp->threaded));
	side_open(&p->a, p->sim, "a", 1, pp);
	side_open(&p->b, p->sim, "b", 2, pp);
	p->a.qp = pair_qp(&p->a, pp, type);
	p->b.qp = pair_qp(&p->b, pp, type);
	pair_connect(p, &p->a, p->a.qp, &p->b, p->b.qp, pp);
}

static void side_close(struct side *s)
{
	REQUIRE(!ibv_dereg_mr(s->mr));
	REQUIRE(!ibv_destroy_cq(s->cq));
	if (s->channel)
		REQUIRE(!urxe_channel_destroy(s->channel));
	REQUIRE(!ibv_dealloc_pd(s->pd));
	REQUIRE(!ibv_close_device(s->ctx));
	urxe_device_destroy(s->dev);
	free(s->buf);
}

void pair_close(struct pair *p)
{
	uint64_t t;

	if (p->a.qp)
		REQUIRE(!ibv_destroy_qp(p->a.qp));
	if (p->b.qp)
		REQUIRE(!ibv_destroy_qp(p->b.qp));
	/* Nobody sends any more; let what is still on the wire arrive. */
	urxe_service_stop(p->a.dev);
	urxe_service_stop(p->b.dev);
	while ((t = urxe_sim_next(p->sim)) != UINT64_MAX) {
		if (p->threaded)
			sched_yield();
		else
			urxe_sim_advance(p->sim, t);
		while (urxe_progress_turn(p->a.dev) + urxe_progress_turn(p->b.dev) > 0)
			;
	}
	side_close(&p->a);
	side_close(&p->b);
	urxe_rcu_drain();
	REQUIRE(!urxe_sim_buffers(p->sim));
	urxe_sim_destroy(p->sim);
}

static uint64_t side_next(const struct side *s)
{
	uint64_t t = atomic_load(&s->dev->sched.next_timer), k = urxe_port_next_tick(s->dev->port);

	return t < k ? t : k;
}

bool pair_step(struct pair *p)
{
	uint64_t next = urxe_sim_next(p->sim), t;
	int n = 0;

	n += urxe_progress_turn(p->a.dev);
	n += urxe_progress_turn(p->b.dev);
	if (!p->threaded)
		n += urxe_flush_run(p->a.dev) + urxe_flush_run(p->b.dev);
	if (n > 0 || urxe_sim_next(p->sim) != next)
		return true;
	t = side_next(&p->a);
	next = next < t ? next : t;
	t = side_next(&p->b);
	next = next < t ? next : t;
	if (next == UINT64_MAX)
		return false;
	t = urxe_sim_now(p->sim);
	urxe_sim_advance(p->sim, next > t ? next : t + 1000);
	return true;
}

bool pair_run(struct pair *p, uint64_t limit, bool (*done)(void *), void *arg)
{
	uint64_t end = urxe_sim_now(p->sim) + limit;

	while (!done(arg)) {
		if (urxe_sim_now(p->sim) > end || !pair_step(p))
			return done(arg);
	}
	return true;
}

void pair_settle(struct pair *p, uint64_t ns)
{
	uint64_t end = urxe_sim_now(p->sim) + ns;

	while (urxe_sim_now(p->sim) < end && pair_step(p))
		;
}

struct wait {
	struct ibv_cq *cq;
	struct ibv_wc *wc;
};

static bool wait_done(void *arg)
{
	struct wait *w = arg;

	return ibv_poll_cq(w->cq, 1, w->wc) == 1;
}

bool pair_wait(struct pair *p, struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct wait w = {cq, wc};

	return pair_run(p, 10000000000ull, wait_done, &w);
}

static bool met(void *arg)
{
	struct pair *p = arg;
	struct urxe_gid_entry a, b;
	uint8_t mac[6];

	urxe_port_gid(p->a.dev->port, 0, &a);
	urxe_port_gid(p->b.dev->port, 0, &b);
	return !urxe_port_resolve(p->a.dev->port, 0, b.gid, mac) &&
	       !urxe_port_resolve(p->b.dev->port, 0, a.gid, mac);
}

void pair_meet(struct pair *p)
{
	REQUIRE(pair_run(p, 10000000000ull, met, p));
}

uint64_t pair_stat(struct side *s, enum urxe_stat stat)
{
	return atomic_load(&s->dev->stats[stat]);
}

uint64_t pair_counter(struct side *s, const char *name)
{
	const char *const *names;
	uint64_t v[256];
	unsigned n = urxe_port_counters(s->dev->port, &names, v, 256);

	for (unsigned i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return v[i];
	return UINT64_MAX;
}

int pair_post(struct side *s, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t off, uint32_t len,
	      struct side *to, uint32_t remote_off, unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)s->buf + off, len, s->mr->lkey};
	struct ibv_send_wr wr =
				   {
					   .wr_id = wr_id,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = op,
					   .send_flags = flags,
					   .imm_data = htobe32(0x12345678),
				   },
			   *bad;

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->buf + remote_off;
		wr.wr.atomic.rkey = to->mr->rkey;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 2;
	} else if (op != IBV_WR_SEND && op != IBV_WR_SEND_WITH_IMM) {
		wr.wr.rdma.remote_addr = (uintptr_t)to->buf + remote_off;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	return ibv_post_send(s->qp, &wr, &bad);
}

int pair_recv(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->buf + off, len, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(s->qp, &wr, &bad);
}

int pair_ctx_event(struct ibv_context *ctx)
{
	struct pollfd pfd = {.fd = ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	if (poll(&pfd, 1, 0) != 1)
		return -1;
	REQUIRE(!ibv_get_async_event(ctx, &ev));
	REQUIRE(ev.event_type == IBV_EVENT_DEVICE_FATAL || ev.element.port_num == 1);
	ibv_ack_async_event(&ev);
	return (int)ev.event_type;
}

int pair_event(struct side *s)
{
	struct ibv_async_event ev;

	fcntl(s->ctx->async_fd, F_SETFL, O_NONBLOCK);
	if (ibv_get_async_event(s->ctx, &ev))
		return -1;
	ibv_ack_async_event(&ev);
	return (int)ev.event_type;
}

bool pair_no_wc(struct pair *p, struct side *s, uint64_t ns)
{
	struct ibv_wc wc;

	pair_settle(p, ns);
	return ibv_poll_cq(s->cq, 1, &wc) == 0;
}

enum ibv_qp_state pair_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	REQUIRE(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

int pair_modify(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}
