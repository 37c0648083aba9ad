/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the connection manager needs beyond verbs (gsi.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "progress.h"
#include "retry.h"
#include "service.h"
#include "urxe/free.h"
#include "urxe/log.h"
#include "urxe/thread.h"

#define RESOLVE_WINDOW 20000000ull /* ns: the GSI looks often for so long after it asked */

struct start {
	struct urxe_device *dev;
	void (*done)(void *arg, int err);
	void *arg;
};

static void *start_main(void *arg)
{
	struct start s = *(struct start *)arg;

	free(arg);
	s.done(s.arg, urxe_device_start(s.dev));
	return NULL;
}

int urxe_gsi_start(struct ibv_context *ctx, void (*done)(void *arg, int err), void *arg)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct start *s;
	pthread_t thread;
	int err;

	/* Pairs with the release in urxe_device_start(), which looks again. */
	if (!dev->threaded || atomic_load_explicit(&dev->started, memory_order_acquire))
		return urxe_device_start(dev);
	s = malloc(sizeof(*s));
	if (!s)
		return ENOMEM;
	*s = (struct start){dev, done, arg};
	err = urxe_thread_start(&thread, "urxe/start", start_main, s);
	if (err) {
		free(s);
		return err;
	}
	pthread_detach(thread);
	return EINPROGRESS;
}

struct ibv_qp *urxe_gsi_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr ud = *attr;
	struct urxe_qp *qp;

	ud.qp_type = IBV_QPT_UD;
	qp = urxe_qp_create_common(pd->context, pd, &ud, 1);
	if (!qp)
		return NULL;
	attr->cap = ud.cap;
	/* What was sent is looked at before the next send. */
	qp->rcq->gsi = true;
	return &qp->vqp.qp;
}

int urxe_gsi_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return urxe_cq_pop(to_urxe_cq(cq), n, wc);
}

int urxe_gsi_set_service(struct ibv_context *ctx, struct urxe_gsi_service *svc)
{
	struct urxe_service_thread *s = &to_urxe_dev(ctx)->service;
	struct urxe_gsi_service *none = NULL;

	if (!svc) {
		/* Not while it runs. */
		urxe_mutex_lock(&s->gsi_lock);
		atomic_store(&s->gsi_svc, NULL);
		urxe_mutex_unlock(&s->gsi_lock);
		return 0;
	}
	/* Without the lock, for the caller holds the one that its poll() takes inside. */
	if (!atomic_compare_exchange_strong(&s->gsi_svc, &none, svc))
		return EBUSY;
	/* Who looked for a service just before clears this first: it has to be set after. */
	atomic_store(&s->gsi_due, true);
	urxe_service_gsi(to_urxe_dev(ctx));
	return 0;
}

void urxe_gsi_wake(struct ibv_context *ctx)
{
	urxe_service_gsi(to_urxe_dev(ctx));
}

void urxe_gsi_by(struct ibv_context *ctx, uint64_t when)
{
	urxe_service_by(to_urxe_dev(ctx), when);
}

void urxe_gsi_drive_begin(struct ibv_context *ctx)
{
	struct urxe_service_thread *s = &to_urxe_dev(ctx)->service;

	atomic_fetch_add(&s->gsi_drivers, 1);
	if (atomic_load_explicit(&s->gsi_waits, memory_order_relaxed))
		atomic_store(&s->gsi_waits, false);
}

int urxe_gsi_drive(struct ibv_context *ctx)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	int n;

	if (atomic_load_explicit(&dev->dead, memory_order_relaxed))
		return -1;
	n = urxe_progress_poll(dev);
	if (urxe_service_run_gsi(dev, urxe_port_now(dev->port), false))
		n = n > 0 ? n + 1 : 1;
	return n;
}

void urxe_gsi_drive_end(struct ibv_context *ctx, bool sleeps)
{
	struct urxe_device *dev = to_urxe_dev(ctx);

	if (sleeps)
		atomic_store(&dev->service.gsi_waits, true);
	atomic_fetch_sub(&dev->service.gsi_drivers, 1);
	if (atomic_load_explicit(&dev->dead, memory_order_relaxed))
		return;
	/* What came since our last turn woke nobody. */
	if (atomic_load(&dev->service.gsi_due))
		urxe_service_gsi(dev);
	if (sleeps)
		urxe_service_nudge(dev);
}

/*
 * Of connections nothing is heard here: what ICMP says is easily forged and often passes, and their
 * own retries find out.
 */
void urxe_path_error(void *arg, const struct urxe_path_error *e)
{
	const uint32_t hdr = URXE_BTH_LEN + URXE_DETH_LEN;
	struct urxe_device *dev = arg;
	struct urxe_gsi_errors *q = &dev->gsi_errors;
	struct urxe_gsi_error *to;

	if (!atomic_load(&dev->service.gsi_svc) || e->len < hdr ||
	    urxe_bth_opcode(e->bth) != (URXE_SVC_UD | URXE_OP_SEND_ONLY) ||
	    urxe_bth_dqpn(e->bth) != 1 || urxe_deth_sqpn(e->bth + URXE_BTH_LEN) != 1)
		return;
	urxe_spin_lock(&q->lock);
	if (q->count == URXE_GSI_ERRORS) {
		urxe_stat_inc(dev, URXE_STAT_GSI_ERRORS_LOST);
	} else {
		to = &q->entry[(q->head + q->count++) % URXE_GSI_ERRORS];
		to->err = e->err;
		memcpy(to->from.raw, e->from, sizeof(to->from));
		memcpy(to->sgid.raw, e->sgid, sizeof(to->sgid));
		memcpy(to->dgid.raw, e->dgid, sizeof(to->dgid));
		to->len = e->len - hdr < sizeof(to->mad) ? e->len - hdr : sizeof(to->mad);
		memcpy(to->mad, e->bth + hdr, to->len);
	}
	urxe_spin_unlock(&q->lock);
	urxe_service_gsi(dev);
}

bool urxe_gsi_take_error(struct ibv_context *ctx, struct urxe_gsi_error *e)
{
	struct urxe_gsi_errors *q = &to_urxe_dev(ctx)->gsi_errors;
	bool any;

	urxe_spin_lock(&q->lock);
	any = q->count;
	if (any) {
		*e = q->entry[q->head];
		q->head = (q->head + 1) % URXE_GSI_ERRORS;
		q->count--;
	}
	urxe_spin_unlock(&q->lock);
	return any;
}

bool urxe_gsi_lost(struct ibv_context *ctx)
{
	return urxe_device_check(to_urxe_dev(ctx));
}

uint64_t urxe_gsi_now(struct ibv_context *ctx)
{
	return urxe_port_now(to_urxe_dev(ctx)->port);
}

uint64_t urxe_gsi_random(struct ibv_context *ctx)
{
	return urxe_port_random(to_urxe_dev(ctx)->port);
}

bool urxe_gsi_waits(struct ibv_context *ctx)
{
	return urxe_port_waits(to_urxe_dev(ctx)->port);
}

struct urxe_ident *urxe_gsi_ident(struct ibv_context *ctx)
{
	return urxe_port_ident(to_urxe_dev(ctx)->port);
}

int urxe_gsi_route(struct ibv_context *ctx, const union ibv_gid *dgid, unsigned *sgid_index,
		   union ibv_gid *next)
{
	return urxe_port_route(to_urxe_dev(ctx)->port, dgid->raw, sgid_index,
			       next ? next->raw : NULL);
}

bool urxe_gsi_known(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid)
{
	return urxe_port_known(to_urxe_dev(ctx)->port, sgid_index, dgid->raw);
}

void urxe_gsi_suspect(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid)
{
	urxe_port_suspect(to_urxe_dev(ctx)->port, sgid_index, dgid->raw);
}

uint64_t urxe_gsi_quiet_ns(struct ibv_context *ctx, const union ibv_gid *dgid)
{
	struct urxe_device *dev = to_urxe_dev(ctx);

	return urxe_peer_quiet_ns(urxe_peer_of(dev, dgid->raw), urxe_port_now(dev->port));
}

bool urxe_gsi_awaits_carrier(struct ibv_context *ctx)
{
	struct urxe_port *port = to_urxe_dev(ctx)->port;

	return urxe_port_awaits_carrier(port) || urxe_port_settles(port);
}

/* A neighbour was asked. */
static void await_answer(struct urxe_device *dev)
{
	atomic_store_explicit(&dev->service.resolve_until,
			      urxe_port_now(dev->port) + RESOLVE_WINDOW, memory_order_relaxed);
	urxe_service_nudge(dev);
}

int urxe_gsi_resolve(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid,
		     uint8_t dmac[6])
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	int err = urxe_device_start(dev);

	if (err)
		return err;
	err = urxe_port_resolve(dev->port, sgid_index, dgid->raw, dmac);
	if (err == EINPROGRESS)
		await_answer(dev);
	return err;
}

void urxe_gsi_ask(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid)
{
	struct urxe_device *dev = to_urxe_dev(ctx);

	urxe_port_ask(dev->port, sgid_index, dgid->raw);
	await_answer(dev);
}

unsigned urxe_gsi_neigh_news(struct ibv_context *ctx)
{
	return urxe_port_neigh_news(to_urxe_dev(ctx)->port);
}

int urxe_gsi_prefix(struct ibv_context *ctx, unsigned sgid_index)
{
	struct urxe_gid_entry e;

	return urxe_port_gid(to_urxe_dev(ctx)->port, sgid_index, &e) ? -1 : e.prefix_len;
}

int urxe_gsi_gid(struct ibv_context *ctx, unsigned sgid_index, union ibv_gid *gid)
{
	struct urxe_gid_entry e;
	int err = urxe_port_gid(to_urxe_dev(ctx)->port, sgid_index, &e);

	if (!err)
		memcpy(gid->raw, e.gid, sizeof(gid->raw));
	return err;
}

int urxe_gsi_gid_find(struct ibv_context *ctx, const union ibv_gid *gid)
{
	return urxe_port_gid_find(to_urxe_dev(ctx)->port, gid->raw);
}

int urxe_gsi_addr(struct ibv_context *ctx, bool add, const union ibv_gid *gid, unsigned prefix_len)
{
	struct urxe_device *dev = to_urxe_dev(ctx);

	if (urxe_port_on_host(dev->port))
		return EOPNOTSUPP;
	return urxe_device_addr(dev, add, gid, prefix_len);
}

bool urxe_gsi_shared(struct ibv_context *ctx)
{
	return urxe_port_shared(to_urxe_dev(ctx)->port);
}

uint8_t urxe_gsi_path_mtu(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid)
{
	struct urxe_port *port = to_urxe_dev(ctx)->port;
	uint32_t bytes = urxe_port_path_mtu(port, sgid_index, dgid->raw);
	uint8_t mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && 128u << (mtu + 1) <= bytes)
		mtu++;
	return mtu;
}

bool urxe_gsi_far(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid)
{
	return urxe_port_far(to_urxe_dev(ctx)->port, sgid_index, dgid->raw);
}

unsigned urxe_gsi_gids_news(struct ibv_context *ctx)
{
	return atomic_load(&to_urxe_dev(ctx)->gids_news);
}

void urxe_gsi_look(struct ibv_context *ctx)
{
	urxe_device_follow_host(to_urxe_dev(ctx));
}

uint32_t urxe_gsi_scope(struct ibv_context *ctx, const union ibv_gid *gid)
{
	return urxe_port_scope(to_urxe_dev(ctx)->port, gid->raw);
}

void urxe_gsi_free(void *block)
{
	urxe_free(block);
}

const struct urxe_cm_settings *urxe_gsi_cm_settings(struct ibv_context *ctx)
{
	return &to_urxe_dev(ctx)->cfg.cm;
}

int urxe_gsi_log_level(void)
{
	int level = URXE_LOG_TRACE;

	while (level > URXE_LOG_NONE && !urxe_log_enabled((enum urxe_log_level)level))
		level--;
	return level;
}
