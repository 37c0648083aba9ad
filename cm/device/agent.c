/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The CM's agent on a device: QP1, its buffers and address handles. It runs on the device's
 * service thread, in poll(): a MAD is answered there, with no other thread woken in between.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cm/device/agent.h"
#include "netio/identity.h"
#include "urxe/log.h"
#include "urxe/wire.h"

/* At exit: for what was told to get out; for peers to answer a DREQ, which goes three times. */
#define EXIT_SEND_MS 100u
#define EXIT_DREQ_MS 400u

int urxe_agent_own_gid(const struct urxe_cma_dev *dev, const union ibv_gid *gid)
{
	return urxe_gsi_gid_find(dev->verbs, gid);
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

static int cm_own_gid(void *arg, const union ibv_gid *gid) URXE_REQUIRES(urxe_cma_lock)
{
	return urxe_agent_own_gid(((struct urxe_agent *)arg)->dev, gid);
}

static void cm_suspect(void *arg, const struct urxe_cm_path *path)
{
	urxe_gsi_suspect(((struct urxe_agent *)arg)->dev->verbs, path->sgid_index, &path->dgid);
}

static bool cm_nobody(void *arg, const struct urxe_cm_path *path)
{
	return !urxe_gsi_known(((struct urxe_agent *)arg)->dev->verbs, path->sgid_index,
			       &path->dgid);
}

static bool cm_far(void *arg, const struct urxe_cm_path *path)
{
	return urxe_gsi_far(((struct urxe_agent *)arg)->dev->verbs, path->sgid_index, &path->dgid);
}

static uint8_t cm_max_mtu(void *arg, const struct urxe_cm_source *src)
{
	return urxe_gsi_path_mtu(((struct urxe_agent *)arg)->dev->verbs, src->dgid_index,
				 &src->sgid);
}

static uint64_t cm_quiet_ns(void *arg, const struct urxe_cm_path *path)
{
	return urxe_gsi_quiet_ns(((struct urxe_agent *)arg)->dev->verbs, &path->dgid);
}

static const struct urxe_cm_ops cm_ops = {
	urxe_agent_send, cm_now,    cm_random, cm_comm_id, cm_own_gid,	cm_suspect,
	urxe_gsi_free,	 cm_nobody, cm_far,    cm_max_mtu, cm_quiet_ns,
};

void urxe_agent_readdress(struct urxe_agent *a)
{
	for (unsigned i = 0; i < a->n_deferred; i++) {
		struct urxe_cm_path *p = &a->deferred[i].path;

		p->sgid_index = (uint8_t)cm_own_gid(a, &p->sgid);
	}
	urxe_agent_recv_readdress(a);
	urxe_cm_readdress(a->cm);
}

/* What routers and hosts report by ICMP; a few at a time, as others can make it up. */
static void take_errors(struct urxe_agent *a)
{
	struct urxe_gsi_error e;

	for (unsigned i = 0; i < URXE_AGENT_BATCH && urxe_gsi_take_error(a->dev->verbs, &e); i++) {
		const struct urxe_cm_unreachable u = {e.err, e.from, e.sgid, e.dgid, e.mad, e.len};

		urxe_cm_unreachable(a->cm, &u);
	}
}

/* Processes that died: their connections end now. */
static void take_gone(struct urxe_agent *a)
{
	uint64_t slots[4];

	if (!urxe_gsi_take_gone(a->dev->verbs, slots))
		return;
	for (unsigned i = 0; i < 256; i++) {
		if (slots[i / 64] >> i % 64 & 1)
			urxe_cm_gone(a->cm, i << 24, 0xffu << 24);
	}
}

/* ---- address resolution ---- */

static void ask(struct urxe_agent *a, struct urxe_agent_query *q) URXE_REQUIRES(urxe_cma_lock)
{
	struct ibv_context *verbs = a->dev->verbs;
	uint8_t mac[6];
	int err = urxe_gsi_resolve(verbs, q->sgid_index, &q->dgid, mac);

	if (err != EINPROGRESS) {
		q->done(q, err);
		return;
	}
	q->deadline = urxe_gsi_now(verbs) + q->patience;
	cds_list_add_tail(&q->entry, &a->queries);
	q->waits = true;
	run_by(a, q->deadline);
}

/* The device has started, or failed to. */
static void start_done(void *arg, int err)
{
	struct urxe_cma_dev *dev = arg;
	struct urxe_agent_query *q, *next;
	struct urxe_agent *a;

	urxe_cma_hold();
	dev->starting = false;
	if (urxe_cma_start_end()) {
		urxe_cma_release();
		return;
	}
	if (!err)
		err = urxe_agent_get(dev, &a);
	cds_list_for_each_entry_safe (q, next, &dev->starters, entry) {
		urxe_agent_resolve_cancel(q);
		if (err)
			q->done(q, err);
		else
			ask(a, q);
	}
	urxe_cma_release();
}

/* 0: the agent is there; EINPROGRESS: it will be, or else start_done() has the reason. */
static int start(struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_agent *a;
	int err;

	if (dev->agent || dev->starting)
		return dev->agent ? 0 : EINPROGRESS;
	err = urxe_gsi_start(dev->verbs, start_done, dev);
	if (err != EINPROGRESS)
		return err ? err : urxe_agent_get(dev, &a);
	/* start_done() waits for the lock. */
	dev->starting = true;
	urxe_cma_start_begin();
	return err;
}

int urxe_agent_resolve(struct urxe_cma_dev *dev, struct urxe_agent_query *q)
{
	int err = start(dev);

	if (!err) {
		ask(dev->agent, q);
		return 0;
	}
	if (err != EINPROGRESS)
		return err;
	cds_list_add_tail(&q->entry, &dev->starters);
	q->waits = true;
	return 0;
}

void urxe_agent_resolve_cancel(struct urxe_agent_query *q)
{
	if (q->waits)
		cds_list_del(&q->entry);
	q->waits = false;
}

/* Ids that wait for the same neighbour mostly follow each other: it is asked for once. */
static uint64_t run_queries(struct urxe_agent *a, uint64_t now) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_agent_query *q, *next;
	const union ibv_gid *last = NULL;
	union ibv_gid last_gid;
	bool comes = !cds_list_empty(&a->queries) && urxe_gsi_awaits_carrier(a->dev->verbs);
	bool coming = comes || a->was_coming;
	uint64_t deadline = UINT64_MAX;
	uint8_t mac[6];
	int err = 0;

	cds_list_for_each_entry_safe (q, next, &a->queries, entry) {
		/* A link whose other end is a process comes up when both have started: while that
		 * is waited for, the neighbour's time does not run; it begins with the first run
		 * after that. */
		if (coming)
			q->deadline = now + q->patience;
		if (!last || memcmp(last, &q->dgid, sizeof(*last))) {
			err = urxe_gsi_resolve(a->dev->verbs, q->sgid_index, &q->dgid, mac);
			last_gid = q->dgid;
			last = &last_gid;
		}
		if ((err == EINPROGRESS || (err == EHOSTUNREACH && coming)) && now < q->deadline) {
			if (q->deadline < deadline)
				deadline = q->deadline;
			continue;
		}
		urxe_agent_resolve_cancel(q);
		q->done(q, err == EINPROGRESS ? ETIMEDOUT : err);
	}
	a->was_coming = comes;
	return deadline;
}

/* The port is gone for good: the client is called once. */
static void lose(struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock)
{
	const struct urxe_device_client *client = urxe_cma_get_client();

	dev->lost = true;
	if (client)
		client->lost(dev);
}

static void agent_poll(void *arg, uint64_t now)
{
	struct urxe_agent *a = arg;
	uint64_t deadline, resolve, held;

	urxe_cma_hold();
	a->in_poll = true;
	if (!a->dev->lost && urxe_gsi_lost(a->dev->verbs))
		lose(a->dev);
	urxe_agent_recv(a);
	take_errors(a);
	/* Behind what the dead have sent. */
	take_gone(a);
	urxe_cma_follow_gids(a->dev);
	held = urxe_agent_recv_held(a, now);
	urxe_agent_send_deferred(a, now);
	resolve = run_queries(a, now);
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
	for (unsigned i = 0; i < URXE_AGENT_AH_SETS * URXE_AGENT_AH_WAYS; i++) {
		if (a->ahs[i / URXE_AGENT_AH_WAYS][i % URXE_AGENT_AH_WAYS].ah)
			ibv_destroy_ah(a->ahs[i / URXE_AGENT_AH_WAYS][i % URXE_AGENT_AH_WAYS].ah);
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

static int qp_up(struct urxe_agent *a) URXE_REQUIRES(urxe_cma_lock)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = URXE_GSI_QKEY,
	};
	int err = ibv_modify_qp(a->qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	for (uint64_t i = 0; !err && i < URXE_AGENT_RECVS; i++)
		err = urxe_agent_post(a, &i, 1);
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

static int create_qp(struct urxe_agent *a) URXE_REQUIRES(urxe_cma_lock)
{
	size_t size = URXE_AGENT_RECVS * URXE_AGENT_ROOM;
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = URXE_AGENT_SENDS,
			.max_recv_wr = URXE_AGENT_RECVS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = URXE_MAD_LEN},
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_context *verbs = a->dev->verbs;

	errno = 0;
	a->pd = ibv_alloc_pd(verbs);
	a->recv_cq = a->pd ? ibv_create_cq(verbs, (int)URXE_AGENT_RECVS, NULL, NULL, 0) : NULL;
	a->send_cq = a->recv_cq ? ibv_create_cq(verbs, (int)URXE_AGENT_SENDS, NULL, NULL, 0) : NULL;
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
	urxe_cm_config_set(&cfg, urxe_gsi_cm_settings(a->dev->verbs));
	/* The listener that is waited for may come in another process: the peer asks once more. */
	cfg.shared = urxe_gsi_shared(a->dev->verbs);
	if (cfg.shared)
		cfg.listen_grace_ms = 0;
	cfg.ca_guid = be64toh(attr->node_guid);
	cfg.max_mtu = (uint8_t)port.active_mtu;
	cfg.max_rd_atom = (uint8_t)(attr->max_qp_rd_atom < 255 ? attr->max_qp_rd_atom : 255);
	a->cm = urxe_cm_create(&cm_ops, a, &cfg);
	a->deferred = calloc(URXE_AGENT_DEFERRED, sizeof(*a->deferred));
	a->held = calloc(URXE_AGENT_HELD, sizeof(*a->held));
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
	CDS_INIT_LIST_HEAD(&a->queries);
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

/* What it had to say is with the provider, to the last word. */
static bool all_sent(struct urxe_agent *a) URXE_REQUIRES(urxe_cma_lock)
{
	urxe_agent_send_deferred(a, urxe_gsi_now(a->dev->verbs));
	urxe_agent_reap(a);
	return !a->n_deferred && a->completed == a->sent;
}

/* No call enters any more, but some may be under way. */
bool urxe_agent_part(struct urxe_cma_dev *dev)
{
	struct urxe_agent *a;

	if (!urxe_cma_hold_at_exit())
		return false;
	a = dev->agent;
	urxe_cma_release();
	if (!a)
		return false;
	urxe_gsi_set_service(dev->verbs, NULL);
	if (!urxe_cma_hold_at_exit())
		return false;
	urxe_cm_goodbye(a->cm);
	urxe_cma_release();
	return true;
}

/*
 * A DREQ or its DREP may have been lost, and when this process is gone nobody sends it again: a
 * peer that only receives would wait for ever. Peers in processes on the same link get what is
 * sent.
 */
static bool parting(struct urxe_agent *a) URXE_REQUIRES(urxe_cma_lock)
{
	struct ibv_context *verbs = a->dev->verbs;

	urxe_agent_recv(a);
	urxe_cm_run(a->cm);
	return urxe_cm_parting(a->cm) && !urxe_gsi_awaits_carrier(verbs) && !urxe_gsi_lost(verbs);
}

enum urxe_agent_parting urxe_agent_parting(struct urxe_cma_dev *dev)
{
	enum urxe_agent_parting state = URXE_AGENT_PARTED;

	urxe_gsi_drive(dev->verbs);
	if (!urxe_cma_hold_at_exit())
		return state;
	if (!all_sent(dev->agent))
		state = URXE_AGENT_SENDING;
	else if (parting(dev->agent))
		state = URXE_AGENT_PARTING;
	urxe_cma_release();
	return state;
}

void urxe_agent_stop(struct urxe_cma_dev *dev)
{
	static const unsigned most[] = {
		[URXE_AGENT_SENDING] = EXIT_SEND_MS,
		[URXE_AGENT_PARTING] = EXIT_DREQ_MS,
	};
	const struct timespec pause = {0, 1000000};
	unsigned ms[URXE_AGENT_PARTING + 1] = {0};
	enum urxe_agent_parting state;

	if (!urxe_agent_part(dev))
		return;
	while ((state = urxe_agent_parting(dev)) && ms[state]++ < most[state])
		nanosleep(&pause, NULL);
	if (!urxe_cma_hold_at_exit())
		return;
	urxe_report_log(dev);
	urxe_cma_release();
}

void urxe_agent_free(struct urxe_cma_dev *dev)
{
	agent_free(dev->agent);
	dev->agent = NULL;
}
