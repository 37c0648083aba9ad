/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IB CMs on a pipe that loses, doubles, delays and reorders MADs, on virtual time, from seeds:
 * whatever the applications do (connect, both at once, be slow, propose other paths and migrate,
 * resolve service ids, disconnect, destroy), both ends of each connection agree in the end, and
 * nothing is left over. A failing seed is printed.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

#define MS	1000000ull
#define NODES	3
#define CONNS	24
#define SERVICE 0x0000000001061234ull
#define SEEDS	60

struct mad_in_flight {
	uint64_t at;
	unsigned to;
	union ibv_gid sgid, dgid;
	uint8_t mad[URXE_MAD_LEN];
};

struct node {
	struct net *net;
	unsigned index;
	struct urxe_cm *cm;
	struct urxe_cm_id *listener;
	bool dead; /* neither hears nor speaks */
};

/* What an application does with one end, and when. */
enum todo {
	NOTHING,
	ACCEPT,
	REJECT,
	RTU,
	DISCONNECT,
	DESTROY,
	SLOW, /* MRA, and the answer later */
	ASK,  /* a peer sends its REQ */
	LAP,
	APR
};

struct end {
	struct urxe_cm_id *id;
	struct node *node;
	struct net *net;
	bool active, established, over;
	unsigned ends_told;    /* events that end the connection */
	enum todo todo, after; /* after: SLOW */
	uint64_t at;
	unsigned peer_node, service; /* ASK */
	bool is_sidr;
	bool lap_yes, lap_heard_yes; /* said APR 0; heard it */
	uint32_t qpn, peer_qpn, comm, peer_comm;
};

struct net {
	struct node node[NODES];
	uint64_t now, rnd;
	unsigned loss, dup; /* percent */
	uint64_t max_delay;
	bool keep;	       /* applications leave what is connected alone */
	unsigned forgers;      /* forged MADs beside each true one */
	uint64_t forger, said; /* their randomness; a hash of what all nodes said */
	struct mad_in_flight *fly;
	size_t n_fly, room;
	struct end ends[CONNS * 4];
	unsigned n_ends;
	uint32_t next_qpn;
	unsigned failed;
};

static uint64_t rnd(struct net *n)
{
	n->rnd = n->rnd * 6364136223846793005ull + 1442695040888963407ull;
	return n->rnd >> 24 ^ n->rnd << 40;
}

static uint32_t below(struct net *n, uint32_t max)
{
	return (uint32_t)(rnd(n) >> 16) % max;
}

static void node_gid(unsigned i, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[12] = 10;
	gid->raw[15] = (uint8_t)(i + 1);
}

static void fly(struct net *n, const struct urxe_cm_path *path, unsigned to, const uint8_t *mad)
{
	struct mad_in_flight *f;

	if (n->n_fly == n->room) {
		n->room = n->room ? n->room * 2 : 64;
		n->fly = realloc(n->fly, n->room * sizeof(*n->fly));
	}
	f = &n->fly[n->n_fly++];
	f->at = n->now + 1 + rnd(n) % n->max_delay;
	f->to = to;
	f->sgid = path->sgid;
	f->dgid = path->dgid;
	memcpy(f->mad, mad, URXE_MAD_LEN);
}

static void net_send(void *arg, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct node *node = arg;
	struct net *n = node->net;
	unsigned to = path->dgid.raw[15] - 1u;

	if (node->dead || to >= NODES)
		return;
	for (unsigned i = 0; i < URXE_MAD_LEN; i++)
		n->said = (n->said ^ mad[i]) * 0x100000001b3ull;
	if (below(n, 100) < n->loss)
		return;
	fly(n, path, to, mad);
	if (below(n, 100) < n->dup)
		fly(n, path, to, mad);
}

static uint64_t net_now(void *arg)
{
	return ((struct node *)arg)->net->now;
}

static uint64_t net_random(void *arg)
{
	return rnd(((struct node *)arg)->net);
}

static uint32_t net_comm_id(void *arg)
{
	return (uint32_t)net_random(arg);
}

static int net_own_gid(void *arg, const union ibv_gid *gid)
{
	return gid->raw[15] - 1u == ((struct node *)arg)->index ? gid->raw[14] : -1;
}

static const struct urxe_cm_ops net_ops = {net_send, net_now, net_random, net_comm_id, net_own_gid};

static struct end *new_end(struct net *n, struct node *node, struct urxe_cm_id *id, bool active)
{
	struct end *e;

	if (n->n_ends == sizeof(n->ends) / sizeof(n->ends[0]))
		return NULL;
	e = &n->ends[n->n_ends++];
	memset(e, 0, sizeof(*e));
	e->net = n;
	e->node = node;
	e->id = id;
	e->active = active;
	e->qpn = n->next_qpn++;
	e->comm = urxe_cm_local_comm_id(id);
	return e;
}

/* Mostly at once, sometimes after long. */
static void plan(struct end *e, enum todo todo)
{
	uint32_t kind = below(e->net, 10);

	e->todo = todo;
	e->at = e->net->now + (kind < 6 ? 0 : kind < 9 ? below(e->net, 300) : 3000) * MS;
}

/* The same, and now and then with an MRA first. */
static void plan_answer(struct end *e, enum todo todo)
{
	e->after = todo;
	plan(e, below(e->net, 6) ? todo : SLOW);
}

/* What an application does with a connection that is up. */
static void use(struct end *e)
{
	struct net *n = e->net;

	if (!below(n, 3))
		plan(e, LAP);
	else if (!n->keep)
		plan(e, below(n, 3) ? DISCONNECT : below(n, 2) ? DESTROY : NOTHING);
}

static struct end *peer_of(struct net *n, const struct end *e);

/* Both QPs have the path, so they migrate together; each application may or may not say so yet. */
static void migrate(struct end *e)
{
	struct end *p = peer_of(e->net, e);

	if (below(e->net, 2))
		urxe_cm_notify_migrated(e->id);
	if (p && p->id && below(e->net, 2))
		urxe_cm_notify_migrated(p->id);
}

static int handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context);

static int listen_handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct node *node = context;
	struct net *n = node->net;
	uint32_t what = below(n, 20);
	struct end *e;

	if (ev->type == URXE_CM_EV_SIDR_REQ_RECEIVED && what)
		urxe_cm_send_sidr_rep(id, URXE_CM_SIDR_SUCCESS, 5, 6, "here", 4);
	if (ev->type != URXE_CM_EV_REQ_RECEIVED || what == 0)
		return 1; /* refused on the spot */
	e = new_end(n, node, id, false);
	if (!e)
		return 1;
	e->peer_qpn = ev->req.conn.qpn;
	e->peer_comm = urxe_cm_remote_comm_id(id);
	urxe_cm_set_handler(id, handler, e);
	plan_answer(e, what == 1 ? REJECT : what == 2 ? DESTROY : ACCEPT);
	return 0;
}

static void over(struct end *e)
{
	e->ends_told++;
	e->established = false;
	e->over = true;
	plan(e, DESTROY);
}

static int handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct end *e = context;
	struct net *n = e->net;

	switch (ev->type) {
	case URXE_CM_EV_REP_RECEIVED:
		e->peer_qpn = ev->rep.qpn;
		e->peer_comm = urxe_cm_remote_comm_id(id);
		plan_answer(e, below(n, 20) ? RTU : below(n, 2) ? REJECT : DESTROY);
		break;
	case URXE_CM_EV_REQ_RECEIVED: /* the other side asked as well */
		e->active = false;
		e->peer_qpn = ev->req.conn.qpn;
		e->peer_comm = urxe_cm_remote_comm_id(id);
		if (e->todo != DESTROY)
			plan_answer(e, below(n, 20) ? ACCEPT : REJECT);
		break;
	case URXE_CM_EV_RTU_RECEIVED:
		e->established = true;
		use(e);
		break;
	case URXE_CM_EV_LAP_RECEIVED:
		if (e->todo == NOTHING)
			plan_answer(e, APR);
		else
			urxe_cm_send_apr(id, URXE_CM_APR_REJECT, NULL, 0, NULL, 0);
		break;
	case URXE_CM_EV_APR_RECEIVED:
		e->lap_heard_yes |= ev->apr.status == URXE_CM_APR_SUCCESS;
		if (ev->apr.status == URXE_CM_APR_SUCCESS)
			migrate(e);
		if (!n->keep && e->todo == NOTHING)
			plan(e, below(n, 2) ? DISCONNECT : LAP);
		break;
	case URXE_CM_EV_SIDR_REP_RECEIVED:
	case URXE_CM_EV_SIDR_REQ_ERROR:
	case URXE_CM_EV_DREQ_RECEIVED:
		if (urxe_cm_get_state(id) == URXE_CM_DREQ_RCVD)
			urxe_cm_send_drep(id, NULL, 0);
		over(e);
		break;
	case URXE_CM_EV_REQ_ERROR:
	case URXE_CM_EV_REP_ERROR:
	case URXE_CM_EV_REJ_RECEIVED:
	case URXE_CM_EV_DREQ_ERROR:
	case URXE_CM_EV_DREP_RECEIVED:
	case URXE_CM_EV_PEER_LOST:
		over(e);
		break;
	default:
		break;
	}
	return 0;
}

/* The other network of the same two nodes; or, in the end, the first one again. */
static void other_path(struct end *e, struct urxe_cm_path *path)
{
	*path = *urxe_cm_get_path(e->id);
	path->sgid.raw[14] ^= 1;
	path->dgid.raw[14] ^= 1;
	path->sgid_index ^= 1;
}

static void ask(struct end *e)
{
	struct net *n = e->net;
	struct urxe_cm_req req = {.service_id = SERVICE + 1 + e->service,
				  .qp_type = IBV_QPT_RC,
				  .peer_to_peer = true};

	node_gid(e->node->index, &req.path.sgid);
	node_gid(e->peer_node, &req.path.dgid);
	req.path.mtu = IBV_MTU_1024;
	req.path.hop_limit = 64;
	req.conn.qpn = e->qpn;
	req.conn.retry_count = 7;
	if (urxe_cm_send_req(e->id, &req))
		n->failed++;
}

static void do_todo(struct end *e)
{
	struct net *n = e->net;
	struct urxe_cm_conn conn = {.qpn = e->qpn, .psn = e->qpn * 3, .rnr_retry_count = 7};
	enum todo todo = e->todo;
	struct urxe_cm_path path;

	e->todo = NOTHING;
	switch (todo) {
	case ACCEPT:
		urxe_cm_send_rep(e->id, &conn);
		break;
	case REJECT:
		urxe_cm_send_rej(e->id, URXE_CM_REJ_CONSUMER, NULL, 0, NULL, 0);
		plan(e, DESTROY);
		break;
	case RTU:
		if (!urxe_cm_send_rtu(e->id, NULL, 0)) {
			e->established = true;
			use(e);
		}
		break;
	case SLOW:
		urxe_cm_send_mra(e->id, 18, NULL, 0);
		plan(e, e->after);
		break;
	case ASK:
		ask(e);
		break;
	case LAP:
		other_path(e, &path);
		urxe_cm_send_lap(e->id, &path, NULL, 0);
		break;
	case APR:
		e->lap_yes |= !urxe_cm_send_apr(e->id, below(n, 4) ? 0 : URXE_CM_APR_REJECT, NULL,
						0, NULL, 0);
		if (!n->keep)
			plan(e, DISCONNECT);
		break;
	case DISCONNECT:
		if (urxe_cm_get_state(e->id) == URXE_CM_ESTABLISHED)
			urxe_cm_send_dreq(e->id, NULL, 0);
		break;
	case DESTROY:
		urxe_cm_destroy(e->id);
		e->id = NULL;
		e->established = false;
		e->over = true;
		break;
	default:
		break;
	}
}

static void connect_one(struct net *n)
{
	unsigned from = below(n, NODES), to = below(n, NODES); /* to itself as well */
	struct urxe_cm_req req = {.service_id = SERVICE, .qp_type = IBV_QPT_RC};
	struct node *node = &n->node[from];
	struct end *e = new_end(n, node, urxe_cm_new_id(node->cm, NULL, NULL), true);

	urxe_cm_set_handler(e->id, handler, e);
	node_gid(from, &req.path.sgid);
	node_gid(to, &req.path.dgid);
	req.path.mtu = IBV_MTU_1024;
	req.path.hop_limit = 64;
	req.conn.qpn = e->qpn;
	req.conn.retry_count = 7;
	if (urxe_cm_send_req(e->id, &req))
		n->failed++;
	if (!below(n, 12)) {
		/* An application in a hurry. */
		e->todo = DESTROY;
		e->at = n->now + below(n, 50) * MS;
	}
}

/* Two applications ask each other, one a little later. */
static void connect_peers(struct net *n, unsigned service)
{
	unsigned from = below(n, NODES), to = below(n, NODES);

	for (unsigned i = 0; i < 2; i++) {
		struct node *node = &n->node[i ? to : from];
		struct end *e = new_end(n, node, urxe_cm_new_id(node->cm, NULL, NULL), true);

		urxe_cm_set_handler(e->id, handler, e);
		e->peer_node = i ? from : to;
		e->service = service;
		e->todo = ASK;
		e->at = n->now + below(n, 150) * MS;
	}
}

static void resolve_one(struct net *n)
{
	unsigned from = below(n, NODES);
	struct node *node = &n->node[from];
	struct end *e = new_end(n, node, urxe_cm_new_id(node->cm, NULL, NULL), true);
	struct urxe_cm_path path = {.hop_limit = 64};

	urxe_cm_set_handler(e->id, handler, e);
	node_gid(from, &path.sgid);
	node_gid(below(n, NODES), &path.dgid);
	if (urxe_cm_send_sidr_req(e->id, &path, SERVICE + below(n, 2) * 999, "?", 1))
		n->failed++;
	e->is_sidr = true;
}

/*
 * What a forger makes of a MAD that it has seen: the same, or a REJ, with all comm ids right, but
 * from another host; or from the host, but not its QP1; a REQ that lies about its address; noise.
 */
static void forge(struct net *n, const struct mad_in_flight *f)
{
	uint16_t attr = (uint16_t)urxe_mad_get(f->mad, URXE_HDR_ATTR_ID);
	bool alone = attr == URXE_MAD_REQ || attr == URXE_MAD_SIDR_REQ || attr == URXE_MAD_SIDR_REP;
	struct urxe_cm_source src = {.qpn = 1, .sgid = f->sgid, .dgid = f->dgid};
	uint64_t r = n->forger = n->forger * 6364136223846793005ull + 1442695040888963407ull;
	uint8_t m[URXE_MAD_LEN];

	memcpy(m, f->mad, sizeof(m));
	switch (attr == URXE_MAD_SIDR_REQ ? 3 : r >> 40 & 3) {
	case 0:
		node_gid(NODES + (unsigned)(r >> 33) % 20, &src.sgid);
		if (!alone && r >> 50 & 1) {
			urxe_mad_init(m, URXE_MAD_REJ, r);
			urxe_mad_put(m, URXE_REJ_LOCAL_COMM_ID,
				     urxe_mad_get(f->mad, URXE_REP_LOCAL_COMM_ID));
			urxe_mad_put(m, URXE_REJ_REMOTE_COMM_ID,
				     urxe_mad_get(f->mad, URXE_REP_REMOTE_COMM_ID));
			urxe_mad_put(m, URXE_REJ_REASON, URXE_CM_REJ_CONSUMER);
		}
		break;
	case 1:
		src.qpn = 2 + (r >> 33 & 0xff);
		break;
	case 2:
		if (attr == URXE_MAD_REQ) {
			urxe_mad_bytes(m, URXE_REQ_PRIMARY_LOCAL_GID)[15] ^= 0x40;
			break;
		}
		/* fall through */
	default:
		for (unsigned i = 0; i < sizeof(m); i++)
			m[i] = (uint8_t)(r >> i % 48);
		break;
	}
	urxe_cm_recv(n->node[f->to].cm, &src, m, sizeof(m));
}

static void deliver(struct net *n, size_t i)
{
	struct mad_in_flight f = n->fly[i];
	struct urxe_cm_source src = {.qpn = 1};

	n->fly[i] = n->fly[--n->n_fly];
	if (n->node[f.to].dead)
		return;
	for (unsigned k = 0; k < n->forgers; k++)
		forge(n, &f);
	src.sgid = f.sgid;
	src.dgid = f.dgid;
	urxe_cm_recv(n->node[f.to].cm, &src, f.mad, URXE_MAD_LEN);
}

/* Run to the time, in the order of what is due. */
static void run_until(struct net *n, uint64_t end)
{
	for (;;) {
		uint64_t next = end;
		size_t fly_i = SIZE_MAX;
		struct end *todo = NULL;
		struct urxe_cm *cm = NULL;

		for (size_t i = 0; i < n->n_fly; i++) {
			if (n->fly[i].at < next) {
				next = n->fly[i].at;
				fly_i = i;
			}
		}
		for (unsigned i = 0; i < n->n_ends; i++) {
			if (n->ends[i].todo != NOTHING && n->ends[i].at < next) {
				next = n->ends[i].at;
				todo = &n->ends[i];
			}
		}
		for (unsigned i = 0; i < NODES; i++) {
			if (!n->node[i].dead && urxe_cm_deadline(n->node[i].cm) < next) {
				next = urxe_cm_deadline(n->node[i].cm);
				cm = n->node[i].cm;
			}
		}
		if (next > n->now)
			n->now = next;
		if (cm)
			urxe_cm_run(cm);
		else if (todo)
			do_todo(todo);
		else if (fly_i != SIZE_MAX)
			deliver(n, fly_i);
		else
			return;
	}
}

static void net_open(struct net *n, uint64_t seed, unsigned loss, unsigned dup, uint64_t max_delay)
{
	memset(n, 0, sizeof(*n));
	n->rnd = seed * 2654435761u + 99;
	n->now = 1;
	n->loss = loss;
	n->dup = dup;
	n->max_delay = max_delay;
	n->next_qpn = 0x100;
	for (unsigned i = 0; i < NODES; i++) {
		struct node *node = &n->node[i];
		struct urxe_cm_config cfg;

		urxe_cm_config_default(&cfg);
		cfg.ca_guid = 0x1000 + i;
		node->net = n;
		node->index = i;
		node->cm = urxe_cm_create(&net_ops, node, &cfg);
		node->listener = urxe_cm_new_id(node->cm, listen_handler, node);
		if (urxe_cm_listen(node->listener, SERVICE, UINT64_MAX))
			n->failed++;
	}
}

static void net_close(struct net *n)
{
	for (unsigned i = 0; i < NODES; i++)
		urxe_cm_destroy_all(n->node[i].cm);
	free(n->fly);
}

/* The other end of a connection, by both QPNs. */
static struct end *peer_of(struct net *n, const struct end *e)
{
	for (unsigned i = 0; i < n->n_ends; i++) {
		struct end *p = &n->ends[i];

		if (p != e && p->active != e->active && p->qpn == e->peer_qpn &&
		    p->peer_qpn == e->qpn && p->comm == e->peer_comm && p->peer_comm == e->comm)
			return p;
	}
	return NULL;
}

static unsigned check_agreement(struct net *n)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < n->n_ends; i++) {
		struct end *e = &n->ends[i], *p;

		if (e->ends_told > 1) {
			printf("end %u: told its end %u times\n", i, e->ends_told);
			bad++;
		}
		if (e->established && urxe_cm_get_state(e->id) != URXE_CM_ESTABLISHED) {
			printf("end %u: thinks it is connected, id is in %s\n", i,
			       urxe_cm_state_names[urxe_cm_get_state(e->id)]);
			bad++;
		}
		if (e->is_sidr && !e->ends_told) {
			printf("end %u: its service id was not resolved, nor not\n", i);
			bad++;
		}
		p = peer_of(n, e);
		if (e->lap_heard_yes && p && !p->lap_yes) {
			printf("end %u: has a path that the other end did not take\n", i);
			bad++;
		}
		if (!e->established)
			continue;
		if (urxe_cm_get_lap_state(e->id) != URXE_CM_LAP_IDLE) {
			printf("end %u: its LAP has no end\n", i);
			bad++;
		}
		if (!p || !p->established) {
			printf("end %u (%s): connected to nobody\n", i,
			       e->active ? "active" : "passive");
			bad++;
		}
	}
	return bad;
}

/* Everything ends: no id but the listeners', no timer. */
static unsigned check_empty(struct net *n)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < n->n_ends; i++) {
		if (n->ends[i].id)
			urxe_cm_destroy(n->ends[i].id);
		n->ends[i].id = NULL;
		n->ends[i].todo = NOTHING;
		n->ends[i].established = false;
	}
	run_until(n, n->now + 60000 * MS);
	for (unsigned i = 0; i < NODES; i++) {
		if (n->node[i].dead)
			continue;
		urxe_cm_destroy(n->node[i].listener);
		if (!urxe_cm_is_idle(n->node[i].cm) ||
		    urxe_cm_deadline(n->node[i].cm) != UINT64_MAX) {
			printf("node %u: ids left\n", i);
			bad++;
		}
	}
	return bad;
}

/* Returns a hash of all that was said. */
static uint64_t run_among(unsigned forgers, uint64_t seed, unsigned loss, unsigned dup,
			  uint64_t max_delay, bool keep)
{
	struct net *n = calloc(1, sizeof(*n));
	uint64_t said;
	unsigned bad;

	net_open(n, seed, loss, dup, max_delay);
	n->keep = keep;
	n->forgers = forgers;
	for (unsigned i = 0; i < CONNS; i++) {
		if (i % 4 == 1)
			connect_peers(n, i);
		else
			connect_one(n);
		if (i % 6 == 2)
			resolve_one(n);
		run_until(n, n->now + below(n, 100) * MS);
	}
	run_until(n, n->now + 60000 * MS);
	bad = n->failed + check_agreement(n);
	bad += check_empty(n);
	if (bad)
		printf("seed %lu loss %u dup %u delay %lu ms keep %d forgers %u\n",
		       (unsigned long)seed, loss, dup, (unsigned long)(max_delay / MS), keep,
		       forgers);
	CU_ASSERT_EQUAL(bad, 0);
	said = n->said;
	net_close(n);
	free(n);
	return said;
}

static void run(uint64_t seed, unsigned loss, unsigned dup, uint64_t max_delay, bool keep)
{
	run_among(0, seed, loss, dup, max_delay, keep);
}

static void clean(void)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		run(seed, 0, 0, 1 * MS, true);
		run(seed, 0, 0, 1 * MS, false);
	}
}

static void lossy(void)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		run(seed, 10, 0, 1 * MS, true);
		run(seed, 10, 0, 1 * MS, false);
		run(seed, 25, 0, 1 * MS, false);
	}
}

static void doubled_and_reordered(void)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		run(seed, 0, 30, 50 * MS, true);
		run(seed, 0, 30, 50 * MS, false);
		run(seed, 0, 30, 400 * MS, false);
	}
}

static void everything(void)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		run(seed, 15, 20, 100 * MS, true);
		run(seed, 15, 20, 100 * MS, false);
	}
}

/* Forged MADs beside each true one: not one is answered, and nothing goes another way. */
static void forged(void)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		CU_ASSERT_EQUAL(run_among(10, seed, 0, 0, 1 * MS, true),
				run_among(0, seed, 0, 0, 1 * MS, true));
		CU_ASSERT_EQUAL(run_among(10, seed, 15, 20, 100 * MS, false),
				run_among(0, seed, 15, 20, 100 * MS, false));
	}
}

/* One node dies without a word: every other end of its connections hears so in seconds. */
static void death(void)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct net *n = calloc(1, sizeof(*n));
		unsigned bad = 0;

		net_open(n, seed, 5, 5, 2 * MS);
		n->keep = true;
		for (unsigned i = 0; i < CONNS; i++)
			connect_one(n);
		run_until(n, n->now + 20000 * MS);
		n->node[0].dead = true;
		for (unsigned i = 0; i < n->n_ends; i++) {
			if (n->ends[i].node == &n->node[0])
				n->ends[i].todo = NOTHING;
		}
		run_until(n, n->now + 10000 * MS);
		for (unsigned i = 0; i < n->n_ends; i++) {
			struct end *e = &n->ends[i], *p = peer_of(n, e);

			if (e->node != &n->node[0] && e->established && p &&
			    p->node == &n->node[0]) {
				printf("seed %lu: end %u did not hear of the death\n",
				       (unsigned long)seed, i);
				bad++;
			}
			/* And nobody else is disturbed. */
			if (e->node != &n->node[0] && p && p->node != &n->node[0] &&
			    e->established != p->established)
				bad++;
		}
		CU_ASSERT_EQUAL(bad, 0);
		/* What is left of the dead is freed without more ado. */
		for (unsigned i = 0; i < n->n_ends; i++) {
			if (n->ends[i].node == &n->node[0])
				n->ends[i].id = NULL;
		}
		CU_ASSERT_EQUAL(check_empty(n), 0);
		net_close(n);
		free(n);
	}
}

URXE_TEST_MAIN("cm_lossy", T(clean), T(lossy), T(doubled_and_reordered), T(everything), T(forged),
	       T(death))
