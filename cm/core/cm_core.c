/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Ids of the IB CM: life, look-ups, timers. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cm/core/cm_priv.h"
#include "urxe/log.h"

#define BUCKETS 512u /* to begin with, of tables that grow with the ids */

#define BEAT 1000000000ull /* ns */

void urxe_cm_config_default(struct urxe_cm_config *cfg)
{
	*cfg = (struct urxe_cm_config){
		.first_ms = 200,
		.max_ms = 800,
		.req_tries = 7,
		.rep_tries = 13,
		.heard_tries = 1 + URXE_CM_ADV_RETRIES,
		.dreq_first_ms = 100,
		.dreq_max_ms = 800,
		.dreq_tries = 5,
		.dreq_sends = 16, /* the first, and as many retries as we advertise */
		.mra_after_ms = 100,
		.mra_again_ms = 2000,
		.mra_service = 20, /* 4.3 s */
		.timewait_ms = 1000,
		.repeat_ms = 200,
		.listen_grace_ms = 100,
		.refused_ms = 50,
		.unreachable_sends = 2,
		.probe_first_ms = 50,
		.probe_ms = 1000,
		.probe_misses = 4,
		.patience_ms = 4000,
		.max_mtu = IBV_MTU_4096,
		.max_rd_atom = 16,
		.qp_ack_timeout = 16, /* 268 ms */
	};
}

/* How many tries fill this time. */
static uint8_t tries_for(uint32_t total_ms, uint32_t first_ms, uint32_t max_ms)
{
	uint64_t total = total_ms * URXE_CM_MS, sum = 0;
	uint8_t n = 0;

	while (sum < total && n < UINT8_MAX)
		sum += urxe_cm_try_ns(++n, first_ms, max_ms);
	return n;
}

void urxe_cm_config_set(struct urxe_cm_config *cfg, const struct urxe_cm_settings *s)
{
	if (s->req_first)
		cfg->first_ms = s->req_first;
	if (cfg->max_ms < cfg->first_ms)
		cfg->max_ms = cfg->first_ms;
	cfg->req_tries = tries_for(s->req_total ? s->req_total : 4600, cfg->first_ms, cfg->max_ms);
	cfg->rep_tries = tries_for(s->rep_total ? s->rep_total : 9400, cfg->first_ms, cfg->max_ms);
	if (s->req_retries)
		cfg->heard_tries = (uint8_t)(s->req_retries + 1);
	if (s->dreq_total)
		cfg->dreq_tries = tries_for(s->dreq_total, cfg->dreq_first_ms, cfg->dreq_max_ms);
	if (cfg->dreq_sends < cfg->dreq_tries)
		cfg->dreq_sends = cfg->dreq_tries;
	if (s->timewait)
		cfg->timewait_ms = s->timewait;
	if (s->mra) {
		for (cfg->mra_service = 0; (4096ull << cfg->mra_service) < s->mra * URXE_CM_MS;)
			cfg->mra_service++;
		if (cfg->mra_again_ms > s->mra / 2)
			cfg->mra_again_ms = s->mra / 2;
	}
	if (s->patience == URXE_CM_PATIENCE_OFF) {
		cfg->probe_ms = 0;
	} else if (s->patience) {
		cfg->patience_ms = s->patience;
		if (cfg->probe_ms > s->patience / cfg->probe_misses)
			cfg->probe_ms = s->patience / cfg->probe_misses;
	}
}

static uint64_t hash(const struct urxe_cm *cm, uint64_t v)
{
	v ^= cm->hash_seed;
	v *= 0x9e3779b97f4a7c15ull;
	return v ^ v >> 32;
}

static uint64_t key_hash(const struct urxe_cm *cm, const struct urxe_cm_key *k)
{
	uint64_t a, b;

	memcpy(&a, k->gid.raw, 8);
	memcpy(&b, k->gid.raw + 8, 8);
	return hash(cm, hash(cm, hash(cm, a ^ k->num) ^ b) ^ k->guid);
}

static bool key_equal(const struct urxe_cm_id *id, uint32_t num, const struct urxe_cm_key *k)
{
	return num == k->num && id->remote_guid == k->guid &&
	       !memcmp(&id->peer_gid, &k->gid, sizeof(k->gid));
}

static int match_local(struct urxe_hash_node *n, const void *key)
{
	return caa_container_of(n, struct urxe_cm_id, by_local)->local_comm_id ==
	       *(const uint32_t *)key;
}

static int match_remote(struct urxe_hash_node *n, const void *key)
{
	struct urxe_cm_id *id = caa_container_of(n, struct urxe_cm_id, by_remote);

	return key_equal(id, id->remote_comm_id, key);
}

static int match_qp(struct urxe_hash_node *n, const void *key)
{
	struct urxe_cm_id *id = caa_container_of(n, struct urxe_cm_id, by_qp);

	return key_equal(id, id->remote_qpn, key);
}

static int match_service(struct urxe_hash_node *n, const void *key)
{
	return caa_container_of(n, struct urxe_cm_id, by_service)->service_id ==
	       *(const uint64_t *)key;
}

static struct urxe_hash_node *find(const struct urxe_hash *ht, uint64_t h,
				   int (*match)(struct urxe_hash_node *n, const void *key),
				   const void *key)
{
	struct urxe_hash_node *n = urxe_hash_find(ht, h);

	while (n && !match(n, key))
		n = urxe_hash_again(n);
	return n;
}

struct urxe_cm_id *urxe_cm_find_local(struct urxe_cm *cm, uint32_t comm_id)
{
	struct urxe_hash_node *n = find(&cm->by_local, hash(cm, comm_id), match_local, &comm_id);

	return n ? caa_container_of(n, struct urxe_cm_id, by_local) : NULL;
}

struct urxe_cm_id *urxe_cm_find_remote(struct urxe_cm *cm, const union ibv_gid *gid, uint64_t guid,
				       uint32_t comm_id)
{
	struct urxe_cm_key key = {.gid = *gid, .guid = guid, .num = comm_id};
	struct urxe_hash_node *n = find(&cm->by_remote, key_hash(cm, &key), match_remote, &key);

	return n ? caa_container_of(n, struct urxe_cm_id, by_remote) : NULL;
}

struct urxe_cm_id *urxe_cm_find_qp(struct urxe_cm *cm, const union ibv_gid *gid, uint64_t guid,
				   uint32_t qpn)
{
	struct urxe_cm_key key = {.gid = *gid, .guid = guid, .num = qpn};
	struct urxe_hash_node *n = find(&cm->by_qp, key_hash(cm, &key), match_qp, &key);

	return n ? caa_container_of(n, struct urxe_cm_id, by_qp) : NULL;
}

struct urxe_cm_id *urxe_cm_find_service(struct urxe_cm *cm, uint64_t service_id)
{
	struct urxe_hash_node *n =
		find(&cm->by_service, hash(cm, service_id), match_service, &service_id);

	if (n)
		return caa_container_of(n, struct urxe_cm_id, by_service);
	for (struct urxe_cm_id *id = cm->masked; id; id = id->masked_next) {
		if ((service_id & id->service_mask) == (id->service_id & id->service_mask))
			return id;
	}
	return NULL;
}

/* Is there a service id that both would have? */
static bool overlap(const struct urxe_cm_id *a, const struct urxe_cm_id *b)
{
	return !((a->service_id ^ b->service_id) & a->service_mask & b->service_mask);
}

static bool overlaps_any(const struct urxe_cm_id *id)
{
	struct urxe_hash_node *node = NULL;

	for (const struct urxe_cm_id *other = id->cm->masked; other; other = other->masked_next) {
		if (overlap(id, other))
			return true;
	}
	while ((node = urxe_hash_next(&id->cm->by_service, node))) {
		if (overlap(id, caa_container_of(node, struct urxe_cm_id, by_service)))
			return true;
	}
	return false;
}

int urxe_cm_index_listener(struct urxe_cm_id *id)
{
	struct urxe_cm *cm = id->cm;

	/* One service id is looked up. */
	if (id->service_mask == UINT64_MAX ? urxe_cm_find_service(cm, id->service_id) != NULL
					   : overlaps_any(id))
		return EADDRINUSE;
	if (id->service_mask != UINT64_MAX) {
		id->masked_next = cm->masked;
		cm->masked = id;
		return 0;
	}
	urxe_hash_add(&cm->by_service, &id->by_service, hash(cm, id->service_id));
	id->in_service = true;
	return 0;
}

/* REQs to one address for one service. */
static uint64_t waiting_hash(const struct urxe_cm *cm, const union ibv_gid *peer,
			     uint64_t service_id)
{
	struct urxe_cm_key key = {.gid = *peer, .guid = service_id};

	return key_hash(cm, &key);
}

void urxe_cm_index_waiting(struct urxe_cm_id *id)
{
	urxe_hash_add(&id->cm->by_peer, &id->by_peer,
		      waiting_hash(id->cm, &id->path.dgid, id->service_id));
	id->in_peer = true;
}

void urxe_cm_unindex_waiting(struct urxe_cm_id *id)
{
	if (id->in_peer)
		urxe_hash_del(&id->cm->by_peer, &id->by_peer);
	id->in_peer = false;
}

struct waiting_key {
	const struct urxe_cm_source *src;
	const uint8_t *mad;
};

static int match_waiting(struct urxe_hash_node *n, const void *key)
{
	const struct urxe_cm_id *id = caa_container_of(n, struct urxe_cm_id, by_peer);
	const struct waiting_key *k = key;
	bool uc = urxe_mad_get(k->mad, URXE_REQ_TRANSPORT_SERVICE_TYPE);

	return id->service_id == urxe_mad_get(k->mad, URXE_REQ_SERVICE_ID) &&
	       !memcmp(&id->path.dgid, &k->src->sgid, sizeof(k->src->sgid)) &&
	       !memcmp(&id->path.sgid, &k->src->dgid, sizeof(k->src->dgid)) &&
	       uc == (id->qp_type == IBV_QPT_UC) &&
	       /* on the way to ourselves it may be its own */
	       id->local_comm_id != urxe_mad_get(k->mad, URXE_REQ_LOCAL_COMM_ID);
}

struct urxe_cm_id *urxe_cm_find_waiting(struct urxe_cm *cm, const struct urxe_cm_source *src,
					const uint8_t *mad)
{
	struct waiting_key key = {src, mad};
	uint64_t service_id = urxe_mad_get(mad, URXE_REQ_SERVICE_ID);
	struct urxe_hash_node *n =
		find(&cm->by_peer, waiting_hash(cm, &src->sgid, service_id), match_waiting, &key);

	return n ? caa_container_of(n, struct urxe_cm_id, by_peer) : NULL;
}

static void unindex_listener(struct urxe_cm_id *id)
{
	if (id->in_service) {
		urxe_hash_del(&id->cm->by_service, &id->by_service);
		id->in_service = false;
	}
	for (struct urxe_cm_id **p = &id->cm->masked; *p; p = &(*p)->masked_next) {
		if (*p == id) {
			*p = id->masked_next;
			break;
		}
	}
}

void urxe_cm_index_peer(struct urxe_cm_id *id)
{
	struct urxe_cm_key key = {.gid = id->path.dgid, .guid = id->remote_guid};

	/* The path may change (PATH_MIG), this does not. */
	id->peer_gid = id->path.dgid;
	if (!id->active && !id->in_remote) {
		key.num = id->remote_comm_id;
		urxe_hash_add(&id->cm->by_remote, &id->by_remote, key_hash(id->cm, &key));
		id->in_remote = true;
	}
	if (!id->in_qp && id->remote_qpn) {
		key.num = id->remote_qpn;
		urxe_hash_add(&id->cm->by_qp, &id->by_qp, key_hash(id->cm, &key));
		id->in_qp = true;
	}
}

void urxe_cm_unindex_peer(struct urxe_cm_id *id)
{
	if (id->in_remote)
		urxe_hash_del(&id->cm->by_remote, &id->by_remote);
	if (id->in_qp)
		urxe_hash_del(&id->cm->by_qp, &id->by_qp);
	id->in_remote = id->in_qp = false;
}

unsigned urxe_cm_peer_hash(const struct urxe_cm *cm, const union ibv_gid *gid)
{
	struct urxe_cm_key key = {.gid = *gid};

	return (unsigned)(key_hash(cm, &key) % URXE_CM_PEERS);
}

/* In two tables: two addresses that share an entry in one of them share none in the other. */
static void unanswered_of(const struct urxe_cm *cm, const union ibv_gid *gid,
			  unsigned at[URXE_CM_UNANSWERED])
{
	struct urxe_cm_key key = {.gid = *gid};
	uint64_t hash = key_hash(cm, &key);

	for (unsigned i = 0; i < URXE_CM_UNANSWERED; i++)
		at[i] = (unsigned)(hash >> 16 * i) % URXE_CM_PEERS;
}

void urxe_cm_count_unanswered(struct urxe_cm_id *id, int n)
{
	unsigned at[URXE_CM_UNANSWERED];

	unanswered_of(id->cm, &id->peer_gid, at);
	for (unsigned i = 0; i < URXE_CM_UNANSWERED; i++)
		id->cm->unanswered[i][at[i]] += (unsigned)n;
}

unsigned urxe_cm_unanswered(const struct urxe_cm_id *id)
{
	unsigned at[URXE_CM_UNANSWERED], least = UINT_MAX;

	unanswered_of(id->cm, &id->path.dgid, at);
	for (unsigned i = 0; i < URXE_CM_UNANSWERED; i++) {
		if (id->cm->unanswered[i][at[i]] < least)
			least = id->cm->unanswered[i][at[i]];
	}
	return least;
}

uint64_t urxe_cm_try_ns(unsigned tries, uint32_t first_ms, uint32_t max_ms)
{
	uint64_t ms = (uint64_t)first_ms << (tries > 16 ? 16 : tries - 1);

	return (ms < max_ms ? ms : max_ms) * URXE_CM_MS;
}

uint64_t urxe_cm_peer_heard(const struct urxe_cm_id *id)
{
	return id->cm->heard[urxe_cm_peer_hash(id->cm, &id->path.dgid)];
}

bool urxe_cm_may_try(const struct urxe_cm_id *id, uint8_t tries)
{
	const struct urxe_cm *cm = id->cm;

	if (id->max_tries)
		return id->tries < id->max_tries;
	/* A peer that lives is worth as many retries as we advertise. */
	if (urxe_cm_peer_heard(id) > id->since && id->tries < cm->cfg.heard_tries)
		return true;
	return id->tries < tries;
}

void urxe_cm_arm_try(struct urxe_cm_id *id, uint32_t first_ms, uint32_t max_ms)
{
	urxe_cm_arm(id, id->wait_ms ? id->wait_ms * URXE_CM_MS
				    : urxe_cm_try_ns(id->tries, first_ms, max_ms));
}

void urxe_cm_cancel(struct urxe_cm_id *id)
{
	urxe_timer_cancel(&id->cm->timers, &id->timer);
}

void urxe_cm_arm(struct urxe_cm_id *id, uint64_t delay_ns)
{
	struct urxe_cm *cm = id->cm;

	/* urxe_cm_new_id() has made room for it. */
	urxe_timer_set(&cm->timers, &id->timer, cm->ops->now(cm->arg) + delay_ns);
}

static uint64_t timer_deadline(const struct urxe_cm *cm)
{
	const struct urxe_timer *first = urxe_timer_first(&cm->timers);

	return first ? first->when : UINT64_MAX;
}

uint64_t urxe_cm_deadline(const struct urxe_cm *cm)
{
	uint64_t timer = timer_deadline(cm);

	if (cm->park_next < timer)
		timer = cm->park_next;
	/* To notice a stop of ourselves, while peers are watched. */
	if (cm->cfg.probe_ms && cm->counters.states[URXE_CM_ESTABLISHED] && cm->ran + BEAT < timer)
		timer = cm->ran + BEAT;
	return timer;
}

/*
 * We have not run for long: stopped by a debugger, or with our machine, or starved. What peers said
 * meanwhile may be lost, and is no silence of theirs: it begins now.
 */
static void notice_stop(struct urxe_cm *cm, uint64_t now)
{
	if (now - cm->ran > 2 * BEAT)
		cm->woke = now;
	cm->ran = now;
}

uint64_t urxe_cm_run(struct urxe_cm *cm)
{
	uint64_t now = cm->ops->now(cm->arg);

	notice_stop(cm, now);
	urxe_cm_park_run(cm, now);
	while (timer_deadline(cm) <= now) {
		struct urxe_timer *t = urxe_timer_first(&cm->timers);
		struct urxe_cm_step s = {0};

		urxe_timer_cancel(&cm->timers, t);
		if (t->kind == URXE_CM_TIMER_LAP)
			urxe_cm_do(caa_container_of(t, struct urxe_cm_alt, timer)->id,
				   URXE_CM_IN_LAP_TIMEOUT, &s);
		else
			urxe_cm_do(caa_container_of(t, struct urxe_cm_id, timer),
				   URXE_CM_IN_TIMEOUT, &s);
	}
	return urxe_cm_deadline(cm);
}

struct urxe_cm_id *urxe_cm_new_id(struct urxe_cm *cm, urxe_cm_handler handler, void *context)
{
	struct urxe_cm_id *id;

	if (urxe_timer_heap_reserve(&cm->timers, (unsigned)(cm->n_ids + cm->n_alts) + 1))
		return NULL;
	id = urxe_slab_get(&cm->ids, sizeof(*id));
	if (!id)
		return NULL;
	id->cm = cm;
	id->handler = handler;
	id->context = context;
	do {
		id->local_comm_id = cm->ops->comm_id(cm->arg);
	} while (id->local_comm_id && urxe_cm_find_local(cm, id->local_comm_id));
	if (!id->local_comm_id) {
		urxe_slab_put(&cm->ids, id);
		return NULL;
	}
	urxe_hash_add(&cm->by_local, &id->by_local, hash(cm, id->local_comm_id));
	cm->n_ids++;
	cm->counters.states[URXE_CM_IDLE]++;
	return id;
}

void urxe_cm_free_id(struct urxe_cm_id *id)
{
	struct urxe_cm *cm = id->cm;

	urxe_cm_cancel(id);
	urxe_cm_unindex_peer(id);
	urxe_cm_unindex_waiting(id);
	urxe_cm_free_alt(id);
	unindex_listener(id);
	urxe_hash_del(&cm->by_local, &id->by_local);
	cm->n_ids--;
	cm->counters.states[id->state]--;
	urxe_slab_put(&cm->ids, id);
}

void urxe_cm_destroy(struct urxe_cm_id *id)
{
	struct urxe_cm_step s = {0};

	if (id->orphan)
		return;
	id->orphan = true;
	id->handler = NULL;
	urxe_cm_do(id, URXE_CM_IN_DESTROY, &s);
}

void urxe_cm_set_handler(struct urxe_cm_id *id, urxe_cm_handler handler, void *context)
{
	id->handler = handler;
	id->context = context;
}

enum urxe_cm_state urxe_cm_get_lap_state(const struct urxe_cm_id *id)
{
	return id->alt ? id->alt->state : URXE_CM_LAP_IDLE;
}

enum urxe_cm_state urxe_cm_get_state(const struct urxe_cm_id *id)
{
	return id->state;
}

uint32_t urxe_cm_local_comm_id(const struct urxe_cm_id *id)
{
	return id->local_comm_id;
}

uint32_t urxe_cm_remote_comm_id(const struct urxe_cm_id *id)
{
	return id->remote_comm_id;
}

uint32_t urxe_cm_remote_qpn(const struct urxe_cm_id *id)
{
	return id->remote_qpn;
}

const struct urxe_cm_path *urxe_cm_get_path(const struct urxe_cm_id *id)
{
	return &id->path;
}

const struct urxe_cm_counters *urxe_cm_get_counters(const struct urxe_cm *cm)
{
	return &cm->counters;
}

bool urxe_cm_is_idle(const struct urxe_cm *cm)
{
	return !cm->n_ids;
}

uint64_t urxe_cm_new_tid(struct urxe_cm *cm)
{
	return (uint64_t)cm->tid_hi << 32 | cm->tid_lo++;
}

static void free_tables(struct urxe_cm *cm)
{
	struct urxe_hash *tables[] = {&cm->by_local, &cm->by_remote, &cm->by_qp, &cm->by_service,
				      &cm->by_peer};

	for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		urxe_hash_fini(tables[i]);
	urxe_timer_heap_fini(&cm->timers);
	urxe_slab_fini(&cm->ids);
	free(cm);
}

struct urxe_cm *urxe_cm_create(const struct urxe_cm_ops *ops, void *arg,
			       const struct urxe_cm_config *cfg)
{
	struct urxe_cm *cm = calloc(1, sizeof(*cm));

	if (!cm)
		return NULL;
	cm->ops = ops;
	cm->arg = arg;
	cm->cfg = *cfg;
	cm->park_next = UINT64_MAX;
	cm->ids = (struct urxe_slab)URXE_SLAB_INIT(struct urxe_cm_id);
	cm->hash_seed = ops->random(arg);
	cm->tid_hi = (uint32_t)ops->random(arg);
	if (urxe_hash_init(&cm->by_local, BUCKETS) || urxe_hash_init(&cm->by_remote, BUCKETS) ||
	    urxe_hash_init(&cm->by_qp, BUCKETS) || urxe_hash_init(&cm->by_service, 64) ||
	    urxe_hash_init(&cm->by_peer, 64)) {
		free_tables(cm);
		return NULL;
	}
	return cm;
}

static struct urxe_cm_id *first_id(struct urxe_cm *cm)
{
	struct urxe_hash_node *n = urxe_hash_next(&cm->by_local, NULL);

	return n ? caa_container_of(n, struct urxe_cm_id, by_local) : NULL;
}

void urxe_cm_destroy_all(struct urxe_cm *cm)
{
	struct urxe_cm_id *id;

	while ((id = first_id(cm)))
		urxe_cm_free_id(id);
	free_tables(cm);
}

void urxe_cm_get_info(const struct urxe_cm_id *id, struct urxe_cm_info *info)
{
	*info = (struct urxe_cm_info){
		.handler = id->handler,
		.state = id->state,
		.last_event = id->last_event,
		.local_comm_id = id->local_comm_id,
		.remote_comm_id = id->remote_comm_id,
		.local_qpn = id->local_qpn,
		.remote_qpn = id->remote_qpn,
		.service_id = id->service_id,
		.retries = id->retries,
		.path = &id->path,
	};
}

void urxe_cm_for_each(struct urxe_cm *cm, void (*fn)(const struct urxe_cm_info *info, void *arg),
		      void *arg)
{
	struct urxe_hash_node *node = NULL;
	struct urxe_cm_info info;

	while ((node = urxe_hash_next(&cm->by_local, node))) {
		urxe_cm_get_info(caa_container_of(node, struct urxe_cm_id, by_local), &info);
		fn(&info, arg);
	}
}

static void readdress(struct urxe_cm *cm, struct urxe_cm_path *path)
{
	/* An address that is gone has no index at all, until it is back. */
	path->sgid_index = (uint8_t)cm->ops->own_gid(cm->arg, &path->sgid);
}

void urxe_cm_readdress(struct urxe_cm *cm)
{
	struct urxe_hash_node *node = NULL;

	while ((node = urxe_hash_next(&cm->by_local, node))) {
		struct urxe_cm_id *id = caa_container_of(node, struct urxe_cm_id, by_local);

		readdress(cm, &id->path);
		if (id->alt) {
			readdress(cm, &id->alt->path);
			readdress(cm, &id->alt->offer);
		}
	}
}

void urxe_cm_goodbye(struct urxe_cm *cm)
{
	struct urxe_hash_node *node = NULL;
	struct urxe_cm_id **ids = calloc(cm->n_ids + 1, sizeof(*ids));
	size_t n = 0;

	if (!ids)
		return;
	while ((node = urxe_hash_next(&cm->by_local, node)))
		ids[n++] = caa_container_of(node, struct urxe_cm_id, by_local);
	for (size_t i = 0; i < n; i++) {
		/* Should it have been lost, nobody will be here to send it again. */
		if (cm->ops->now(cm->arg) < ids[i]->drep_until)
			urxe_cm_issue_drep(ids[i], NULL, 0);
		urxe_cm_destroy(ids[i]);
	}
	free(ids);
}

bool urxe_cm_may_lose(const struct urxe_cm_id *id)
{
	const struct urxe_cm *cm = id->cm;

	return !cm->cfg.shared || (cm->ops->far && cm->ops->far(cm->arg, &id->path));
}

bool urxe_cm_parting(struct urxe_cm *cm)
{
	struct urxe_hash_node *node = NULL;

	if (!cm->counters.states[URXE_CM_DREQ_SENT])
		return false;
	while ((node = urxe_hash_next(&cm->by_local, node))) {
		struct urxe_cm_id *id = caa_container_of(node, struct urxe_cm_id, by_local);

		if (id->state == URXE_CM_DREQ_SENT && urxe_cm_may_lose(id))
			return true;
	}
	return false;
}
