/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The CM's agent on a device: QP1, its buffers and address handles. It runs on the device's
 * service thread, in poll(): a MAD is answered there, with no other thread woken in between.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cm/cma.h"
#include "provider/gsi.h"
#include "urxe/log.h"
#include "urxe/wire.h"

/*
 * Who receives MADs mostly handles them, too, so that a few bursts of room are plenty. Sends wait
 * for a link that is slower than we are: a storm's answers are not to be lost for want of room.
 */
#define N_RECV	   1024u
#define N_SEND	   2048u
#define REAP_AT	   128u
#define GRH_LEN	   40u
#define RECV_ROOM  320u /* GRH and MAD; more is nobody's MAD */
#define AH_SETS	   64u
#define AH_WAYS	   4u
#define MAX_GIDS   64u
#define N_DEFERRED 64u
#define DEFER_NS   500000000ull
#define N_HELD	   64u
#define HOLD_NS	   100000000ull
#define POLL_BATCH 32

/* An address handle for MADs, kept for the next one to the same place. */
struct agent_ah {
	struct ibv_ah *ah;
	union ibv_gid sgid, dgid; /* an index may be another address' now */
	uint8_t sgid_index, traffic_class;
	uint64_t used;
};

/* A MAD from an address whose neighbour is not known yet. */
struct held {
	struct urxe_cm_source src;
	uint64_t until;
	uint8_t mad[URXE_MAD_LEN];
};

/* A MAD to a neighbour that is not known yet. */
struct deferred {
	struct urxe_cm_path path;
	uint64_t until;
	uint8_t mad[URXE_MAD_LEN];
};

struct urxe_agent {
	struct urxe_cma_dev *dev;
	struct urxe_cm *cm;
	struct ibv_pd *pd;
	struct ibv_cq *recv_cq, *send_cq;
	struct ibv_qp *qp;
	uint8_t *buf; /* receive buffers */
	struct ibv_mr *mr;
	uint64_t sent, completed; /* sends: one after the other */
	uint64_t tick;
	struct agent_ah ahs[AH_SETS][AH_WAYS];
	struct deferred *deferred;
	unsigned n_deferred;
	struct held *held;
	unsigned n_held;
	struct cds_list_head resolving;
	struct urxe_gsi_service svc;
	bool in_poll;
	uint64_t drop_recv, drop_send; /* not ours, broken; no room or no way */
	uint64_t drop_stranger;	       /* from where nobody is */
};

int urxe_agent_own_gid(const struct urxe_cma_dev *dev, const union ibv_gid *gid)
{
	union ibv_gid own;

	for (unsigned i = 0; i < MAX_GIDS; i++) {
		int err = urxe_gsi_gid(dev->verbs, i, &own);

		if (err == EINVAL)
			break;
		if (!err && !memcmp(&own, gid, sizeof(own)))
			return (int)i;
	}
	return -1;
}

struct urxe_cm *urxe_agent_cm(struct urxe_agent *agent)
{
	return agent->cm;
}

/* poll() is wanted by @when; when it runs now, it finds that out itself. */
static void run_by(struct urxe_agent *a, uint64_t when)
{
	if (a->in_poll || when >= atomic_load(&a->svc.next))
		return;
	atomic_store(&a->svc.next, when);
	urxe_gsi_by(a->dev->verbs, when);
}

void urxe_agent_kick(struct urxe_agent *agent)
{
	run_by(agent, urxe_cm_deadline(agent->cm));
}

/* ---- sending ---- */

static void reap_sends(struct urxe_agent *a)
{
	struct ibv_wc wc[POLL_BATCH];
	int n;

	while ((n = urxe_gsi_poll_cq(a->send_cq, POLL_BATCH, wc)) > 0)
		a->completed += (unsigned)n;
}

static struct ibv_ah *get_ah(struct urxe_agent *a, const struct urxe_cm_path *path)
{
	unsigned h = (path->dgid.raw[15] ^ path->dgid.raw[14] * 7u ^ path->dgid.raw[13] * 31u ^
		      path->traffic_class ^ path->sgid_index * 13u) %
		     AH_SETS;
	struct agent_ah *way = &a->ahs[h][0];
	struct urxe_cm_path p = *path;
	struct ibv_ah_attr attr;

	for (unsigned i = 0; i < AH_WAYS; i++) {
		struct agent_ah *e = &a->ahs[h][i];

		if (e->ah && !memcmp(&e->dgid, &path->dgid, sizeof(e->dgid)) &&
		    !memcmp(&e->sgid, &path->sgid, sizeof(e->sgid)) &&
		    e->sgid_index == path->sgid_index && e->traffic_class == path->traffic_class) {
			e->used = ++a->tick;
			return e->ah;
		}
		if (e->used < way->used)
			way = e;
	}
	/* The flow label is the connection's: MADs of all go one way. */
	p.flow_label = 0;
	p.port_num = 1;
	urxe_cm_path_to_ah(&p, &attr);
	if (way->ah)
		ibv_destroy_ah(way->ah);
	way->ah = ibv_create_ah(a->pd, &attr);
	way->sgid = path->sgid;
	way->dgid = path->dgid;
	way->sgid_index = path->sgid_index;
	way->traffic_class = path->traffic_class;
	way->used = way->ah ? ++a->tick : 0;
	return way->ah;
}

static void post(struct urxe_agent *a, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct ibv_sge sge = {(uintptr_t)mad, URXE_MAD_LEN, 0};
	struct ibv_send_wr wr =
				   {
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND,
					   .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
					   .wr.ud = {.remote_qpn = 1, .remote_qkey = URXE_GSI_QKEY},
				   },
			   *bad;

	if (a->sent - a->completed >= REAP_AT)
		reap_sends(a);
	wr.wr.ud.ah = get_ah(a, path);
	if (a->sent - a->completed >= N_SEND || !wr.wr.ud.ah || ibv_post_send(a->qp, &wr, &bad))
		a->drop_send++;
	else
		a->sent++;
}

static void defer(struct urxe_agent *a, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct deferred *d;

	if (a->n_deferred == N_DEFERRED) {
		a->drop_send++;
		return;
	}
	d = &a->deferred[a->n_deferred++];
	d->path = *path;
	d->until = urxe_gsi_now(a->dev->verbs) + DEFER_NS;
	memcpy(d->mad, mad, URXE_MAD_LEN);
}

/*
 * A neighbour that is not resolved would hold up all that follow in QP1's queue: its MADs wait
 * aside. What is lost here is sent again by whoever waits for an answer.
 */
static void cm_send(void *arg, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct urxe_agent *a = arg;
	uint8_t mac[6];

	switch (urxe_gsi_resolve(a->dev->verbs, path->sgid_index, &path->dgid, mac)) {
	case 0:
		post(a, path, mad);
		break;
	case EINPROGRESS:
		defer(a, path, mad);
		break;
	default:
		a->drop_send++;
		break;
	}
}

static void run_deferred(struct urxe_agent *a, uint64_t now)
{
	unsigned left = 0;
	uint8_t mac[6];

	for (unsigned i = 0; i < a->n_deferred; i++) {
		struct deferred *d = &a->deferred[i];
		int err = urxe_gsi_resolve(a->dev->verbs, d->path.sgid_index, &d->path.dgid, mac);

		if (!err)
			post(a, &d->path, d->mad);
		else if (err == EINPROGRESS && now < d->until)
			a->deferred[left++] = *d;
		else
			a->drop_send++;
	}
	a->n_deferred = left;
}

static uint64_t cm_now(void *arg)
{
	return urxe_gsi_now(((struct urxe_agent *)arg)->dev->verbs);
}

static uint64_t cm_random(void *arg)
{
	return urxe_gsi_random(((struct urxe_agent *)arg)->dev->verbs);
}

static uint32_t cm_comm_id(void *arg)
{
	return urxe_ident_comm_id(urxe_gsi_ident(((struct urxe_agent *)arg)->dev->verbs));
}

static int cm_own_gid(void *arg, const union ibv_gid *gid)
{
	return urxe_agent_own_gid(((struct urxe_agent *)arg)->dev, gid);
}

static const struct urxe_cm_ops cm_ops = {cm_send, cm_now, cm_random, cm_comm_id, cm_own_gid};

void urxe_agent_readdress(struct urxe_agent *a)
{
	for (unsigned i = 0; i < a->n_deferred; i++) {
		struct urxe_cm_path *p = &a->deferred[i].path;

		p->sgid_index = (uint8_t)cm_own_gid(a, &p->sgid);
	}
	urxe_cm_readdress(a->cm);
}

/* ---- receiving ---- */

static int post_recvs(struct urxe_agent *a, const uint64_t *slots, unsigned n)
{
	struct ibv_recv_wr wr[POLL_BATCH], *bad;
	struct ibv_sge sge[POLL_BATCH];

	for (unsigned i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)a->buf + slots[i] * RECV_ROOM, RECV_ROOM,
					  a->mr->lkey};
		wr[i] = (struct ibv_recv_wr){
			.wr_id = slots[i],
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
		};
	}
	return n ? ibv_post_recv(a->qp, wr, &bad) : 0;
}

/*
 * The 40 bytes in front of a datagram: an IPv6 header, or an IPv4 header in the last 20
 * (IBTA A17.4.5.2). These are the packet's own addresses, whatever the MAD says.
 */
static bool read_grh(const uint8_t *grh, struct urxe_cm_source *src)
{
	memset(src, 0, sizeof(*src));
	if (grh[0] >> 4 == 6) {
		src->traffic_class = (uint8_t)(grh[0] << 4 | grh[1] >> 4);
		memcpy(src->sgid.raw, grh + 8, 16);
		memcpy(src->dgid.raw, grh + 24, 16);
		return true;
	}
	grh += 20;
	if (grh[0] >> 4 != 4)
		return false;
	src->traffic_class = grh[1];
	src->sgid.raw[10] = src->sgid.raw[11] = 0xff;
	src->dgid.raw[10] = src->dgid.raw[11] = 0xff;
	memcpy(src->sgid.raw + 12, grh + 12, 4);
	memcpy(src->dgid.raw + 12, grh + 16, 4);
	return true;
}

/*
 * Nothing is kept, nor answered, for who is not there: a MAD waits until its sender's neighbour has
 * said that it is. Peers ask for us before they send, so that mostly theirs is known. A flood of
 * REQs from addresses that nobody has ends here, and questions for them are few.
 */
static void hold(struct urxe_agent *a, const struct urxe_cm_source *src, const uint8_t *mad)
{
	struct held *h = &a->held[a->n_held];
	uint8_t mac[6];
	int err = ENOSPC;

	if (a->n_held < N_HELD)
		err = urxe_gsi_resolve(a->dev->verbs, src->dgid_index, &src->sgid, mac);
	if (!err) { /* it was heard of meanwhile */
		urxe_cm_recv(a->cm, src, mad, URXE_MAD_LEN);
		return;
	}
	if (err != EINPROGRESS) {
		a->drop_stranger++;
		return;
	}
	a->n_held++;
	h->src = *src;
	h->until = urxe_gsi_now(a->dev->verbs) + HOLD_NS;
	memcpy(h->mad, mad, URXE_MAD_LEN);
}

/* Returns when the first of them is to be given up. */
static uint64_t run_held(struct urxe_agent *a, uint64_t now)
{
	unsigned left = 0;

	for (unsigned i = 0; i < a->n_held; i++) {
		struct held *h = &a->held[i];

		if (urxe_gsi_known(a->dev->verbs, h->src.dgid_index, &h->src.sgid))
			urxe_cm_recv(a->cm, &h->src, h->mad, URXE_MAD_LEN);
		else if (now < h->until)
			a->held[left++] = *h;
		else
			a->drop_stranger++;
	}
	a->n_held = left;
	return left ? a->held[0].until : UINT64_MAX;
}

static void receive(struct urxe_agent *a, const struct ibv_wc *wc)
{
	const uint8_t *buf = a->buf + wc->wr_id * RECV_ROOM;
	struct urxe_cm_source src;
	uint32_t len;
	int own;

	if (wc->status != IBV_WC_SUCCESS)
		return;
	if (!(wc->wc_flags & IBV_WC_GRH) || wc->byte_len < GRH_LEN || !read_grh(buf, &src)) {
		a->drop_recv++;
		return;
	}
	own = urxe_agent_own_gid(a->dev, &src.dgid);
	if (own < 0) {
		a->drop_recv++;
		return;
	}
	src.dgid_index = (uint8_t)own;
	src.port_num = 1;
	src.qpn = wc->src_qp;
	len = wc->byte_len - GRH_LEN;
	if (len == URXE_MAD_LEN && !urxe_gsi_known(a->dev->verbs, src.dgid_index, &src.sgid))
		hold(a, &src, buf + GRH_LEN);
	else
		urxe_cm_recv(a->cm, &src, buf + GRH_LEN, len);
}

static void poll_recv(struct urxe_agent *a)
{
	struct ibv_wc wc[POLL_BATCH];
	uint64_t slots[POLL_BATCH];
	int n;

	do {
		unsigned again = 0;

		n = urxe_gsi_poll_cq(a->recv_cq, POLL_BATCH, wc);
		for (int i = 0; i < n; i++) {
			receive(a, &wc[i]);
			if (wc[i].status == IBV_WC_SUCCESS)
				slots[again++] = wc[i].wr_id;
		}
		post_recvs(a, slots, again);
	} while (n == POLL_BATCH);
}

/* ---- address resolution ---- */

void urxe_agent_resolve(struct urxe_agent *agent, struct urxe_cma_id *id)
{
	cds_list_add_tail(&id->resolving, &agent->resolving);
	id->in_resolving = true;
	run_by(agent, id->resolve_deadline);
}

void urxe_agent_resolve_cancel(struct urxe_cma_id *id)
{
	if (id->in_resolving)
		cds_list_del(&id->resolving);
	id->in_resolving = false;
}

/* Ids that wait for the same neighbour mostly follow each other: it is asked for once. */
static uint64_t run_resolving(struct urxe_agent *a, uint64_t now)
{
	struct urxe_cma_id *id, *next;
	const union ibv_gid *last = NULL;
	union ibv_gid last_gid;
	uint64_t deadline = UINT64_MAX;
	uint8_t mac[6];
	int err = 0;

	cds_list_for_each_entry_safe (id, next, &a->resolving, resolving) {
		if (!last || memcmp(last, &id->dgid, sizeof(*last))) {
			err = urxe_gsi_resolve(a->dev->verbs, id->sgid_index, &id->dgid, mac);
			last_gid = id->dgid;
			last = &last_gid;
		}
		if (err == EINPROGRESS && now < id->resolve_deadline) {
			if (id->resolve_deadline < deadline)
				deadline = id->resolve_deadline;
			continue;
		}
		urxe_agent_resolve_cancel(id);
		urxe_cma_resolve_done(id, err == EINPROGRESS ? ETIMEDOUT : err);
	}
	return deadline;
}

static void agent_poll(void *arg, uint64_t now)
{
	struct urxe_agent *a = arg;
	uint64_t deadline, resolve, held;

	urxe_cma_hold();
	a->in_poll = true;
	if (!a->dev->lost && urxe_gsi_lost(a->dev->verbs))
		urxe_cma_device_lost(a->dev);
	poll_recv(a);
	held = run_held(a, now);
	run_deferred(a, now);
	resolve = run_resolving(a, now);
	deadline = urxe_cm_run(a->cm);
	if (resolve < deadline)
		deadline = resolve;
	if (held < deadline)
		deadline = held;
	atomic_store(&a->svc.next, deadline);
	a->in_poll = false;
	urxe_cma_release();
}

void urxe_agent_get_drops(const struct urxe_agent *agent, struct urxe_agent_drops *drops)
{
	drops->received = agent->drop_recv;
	drops->sent = agent->drop_send;
	drops->strangers = agent->drop_stranger;
}

/* ---- start and end ---- */

static void agent_free(struct urxe_agent *a)
{
	if (a->qp)
		ibv_destroy_qp(a->qp);
	for (unsigned i = 0; i < AH_SETS * AH_WAYS; i++) {
		if (a->ahs[i / AH_WAYS][i % AH_WAYS].ah)
			ibv_destroy_ah(a->ahs[i / AH_WAYS][i % AH_WAYS].ah);
	}
	if (a->recv_cq)
		ibv_destroy_cq(a->recv_cq);
	if (a->send_cq)
		ibv_destroy_cq(a->send_cq);
	if (a->mr)
		ibv_dereg_mr(a->mr);
	if (a->pd)
		ibv_dealloc_pd(a->pd);
	if (a->cm)
		urxe_cm_destroy_all(a->cm);
	free(a->deferred);
	free(a->held);
	free(a->buf);
	free(a);
}

static int qp_up(struct urxe_agent *a)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = URXE_GSI_QKEY,
	};
	int err = ibv_modify_qp(a->qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	for (uint64_t i = 0; !err && i < N_RECV; i++)
		err = post_recvs(a, &i, 1);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = ibv_modify_qp(a->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = ibv_modify_qp(a->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return err;
}

static int fail(void)
{
	return errno ? errno : ENOMEM;
}

static int create_qp(struct urxe_agent *a)
{
	size_t size = N_RECV * RECV_ROOM;
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = N_SEND,
			.max_recv_wr = N_RECV,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = URXE_MAD_LEN},
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_context *verbs = a->dev->verbs;

	errno = 0;
	a->pd = ibv_alloc_pd(verbs);
	a->recv_cq = a->pd ? ibv_create_cq(verbs, (int)N_RECV, NULL, NULL, 0) : NULL;
	a->send_cq = a->recv_cq ? ibv_create_cq(verbs, (int)N_SEND, NULL, NULL, 0) : NULL;
	if (!a->send_cq)
		return fail();
	a->buf = calloc(1, size);
	a->mr = a->buf ? ibv_reg_mr(a->pd, a->buf, size, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!a->mr)
		return fail();
	init.send_cq = a->send_cq;
	init.recv_cq = a->recv_cq;
	a->qp = urxe_gsi_create_qp(a->pd, &init);
	return a->qp ? qp_up(a) : fail();
}

static int create_cm(struct urxe_agent *a)
{
	const struct ibv_device_attr *attr = &a->dev->attr;
	struct urxe_cm_config cfg;
	struct ibv_port_attr port;
	int err = ibv_query_port(a->dev->verbs, 1, &port);

	if (err)
		return err;
	urxe_cm_config_default(&cfg);
	cfg.ca_guid = be64toh(attr->node_guid);
	cfg.max_mtu = (uint8_t)port.active_mtu;
	cfg.max_rd_atom = (uint8_t)(attr->max_qp_rd_atom < 255 ? attr->max_qp_rd_atom : 255);
	a->cm = urxe_cm_create(&cm_ops, a, &cfg);
	a->deferred = calloc(N_DEFERRED, sizeof(*a->deferred));
	a->held = calloc(N_HELD, sizeof(*a->held));
	return a->cm && a->deferred && a->held ? 0 : ENOMEM;
}

int urxe_agent_get(struct urxe_cma_dev *dev, struct urxe_agent **agent)
{
	struct urxe_agent *a;
	int err;

	*agent = dev->agent;
	if (dev->agent)
		return 0;
	a = calloc(1, sizeof(*a));
	if (!a)
		return ENOMEM;
	a->dev = dev;
	CDS_INIT_LIST_HEAD(&a->resolving);
	err = create_cm(a);
	if (!err)
		err = create_qp(a);
	if (!err) {
		a->svc.poll = agent_poll;
		a->svc.arg = a;
		atomic_init(&a->svc.next, UINT64_MAX);
		err = urxe_gsi_set_service(dev->verbs, &a->svc);
	}
	if (err) {
		urxe_err("rdma_cm: the CM of %s cannot be started: %s",
			 ibv_get_device_name(dev->device), strerror(err));
		agent_free(a);
		return err;
	}
	dev->agent = *agent = a;
	urxe_report_start();
	return 0;
}

void urxe_agent_stop(struct urxe_cma_dev *dev)
{
	struct urxe_agent *a = dev->agent;
	struct timespec pause = {0, 1000000};

	if (!a)
		return;
	urxe_gsi_set_service(dev->verbs, NULL);
	urxe_cm_goodbye(a->cm);
	/* Let the last words out, those that wait for a neighbour, too. */
	for (unsigned i = 0; i < 100; i++) {
		urxe_gsi_drive(dev->verbs);
		run_deferred(a, urxe_gsi_now(dev->verbs));
		reap_sends(a);
		if (!a->n_deferred && a->completed == a->sent)
			break;
		nanosleep(&pause, NULL);
	}
	urxe_report_log(dev);
	dev->agent = NULL;
	agent_free(a);
}
