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

#include "cm_net.h"
#include "urxe/random.h"

#define NODES	CM_NET_NODES
#define CONNS	24
#define SERVICE 0x0000000001061234ull
#define SEEDS	60

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
	struct cm_node *node;
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
	struct cm_net base; /* first */
	bool keep;	    /* applications leave what is connected alone */
	unsigned forgers;   /* forged MADs beside each true one */
	uint64_t forger;    /* their randomness */
	struct end ends[CONNS * 4];
	unsigned n_ends;
	uint32_t next_qpn;
	unsigned failed;
	unsigned given_up; /* connections whose peer was silent for too long */
};

static struct end *new_end(struct net *n, struct cm_node *node, struct urxe_cm_id *id, bool active)
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
	uint32_t kind = cm_net_below(&e->net->base, 10);

	e->todo = todo;
	e->at = e->net->base.now + (kind < 6   ? 0
				    : kind < 9 ? cm_net_below(&e->net->base, 300)
					       : 3000) *
					   MS;
}

/* The same, and now and then with an MRA first. */
static void plan_answer(struct end *e, enum todo todo)
{
	e->after = todo;
	plan(e, cm_net_below(&e->net->base, 6) ? todo : SLOW);
}

/* What an application does with a connection that is up. */
static void use(struct end *e)
{
	struct net *n = e->net;

	if (!cm_net_below(&n->base, 3))
		plan(e, LAP);
	else if (!n->keep)
		plan(e, cm_net_below(&n->base, 3)   ? DISCONNECT
			: cm_net_below(&n->base, 2) ? DESTROY
						    : NOTHING);
}

static struct end *peer_of(struct net *n, const struct end *e);

/* Both QPs have the path, so they migrate together; each application may or may not say so yet. */
static void migrate(struct end *e)
{
	struct end *p = peer_of(e->net, e);

	if (cm_net_below(&e->net->base, 2))
		urxe_cm_notify_migrated(e->id);
	if (p && p->id && cm_net_below(&e->net->base, 2))
		urxe_cm_notify_migrated(p->id);
}

static int handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context);

static int listen_handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct cm_node *node = context;
	struct net *n = (struct net *)node->net;
	uint32_t what = cm_net_below(&n->base, 20);
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
		plan_answer(e, cm_net_below(&n->base, 20)  ? RTU
			       : cm_net_below(&n->base, 2) ? REJECT
							   : DESTROY);
		break;
	case URXE_CM_EV_REQ_RECEIVED: /* the other side asked as well */
		e->active = false;
		e->peer_qpn = ev->req.conn.qpn;
		e->peer_comm = urxe_cm_remote_comm_id(id);
		if (e->todo != DESTROY)
			plan_answer(e, cm_net_below(&n->base, 20) ? ACCEPT : REJECT);
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
			plan(e, cm_net_below(&n->base, 2) ? DISCONNECT : LAP);
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
		over(e);
		break;
	case URXE_CM_EV_PEER_LOST:
		n->given_up++;
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

	req.path = cm_net_path(e->node->index, e->peer_node, 0);
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
		e->lap_yes |=
			!urxe_cm_send_apr(e->id, cm_net_below(&n->base, 4) ? 0 : URXE_CM_APR_REJECT,
					  NULL, 0, NULL, 0);
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
	unsigned from = cm_net_below(&n->base, NODES),
		 to = cm_net_below(&n->base, NODES); /* to itself as well */
	struct urxe_cm_req req = {.service_id = SERVICE, .qp_type = IBV_QPT_RC};
	struct cm_node *node = &n->base.node[from];
	struct end *e = new_end(n, node, urxe_cm_new_id(node->cm, NULL, NULL), true);

	urxe_cm_set_handler(e->id, handler, e);
	req.path = cm_net_path(from, to, 0);
	req.conn.qpn = e->qpn;
	req.conn.retry_count = 7;
	if (urxe_cm_send_req(e->id, &req))
		n->failed++;
	if (!cm_net_below(&n->base, 12)) {
		/* An application in a hurry. */
		e->todo = DESTROY;
		e->at = n->base.now + cm_net_below(&n->base, 50) * MS;
	}
}

/* Two applications ask each other, one a little later. */
static void connect_peers(struct net *n, unsigned service)
{
	unsigned from = cm_net_below(&n->base, NODES), to = cm_net_below(&n->base, NODES);

	for (unsigned i = 0; i < 2; i++) {
		struct cm_node *node = &n->base.node[i ? to : from];
		struct end *e = new_end(n, node, urxe_cm_new_id(node->cm, NULL, NULL), true);

		urxe_cm_set_handler(e->id, handler, e);
		e->peer_node = i ? from : to;
		e->service = service;
		e->todo = ASK;
		e->at = n->base.now + cm_net_below(&n->base, 150) * MS;
	}
}

static void resolve_one(struct net *n)
{
	unsigned from = cm_net_below(&n->base, NODES);
	struct cm_node *node = &n->base.node[from];
	struct end *e = new_end(n, node, urxe_cm_new_id(node->cm, NULL, NULL), true);
	struct urxe_cm_path path = cm_net_path(from, cm_net_below(&n->base, NODES), 0);

	urxe_cm_set_handler(e->id, handler, e);
	if (urxe_cm_send_sidr_req(e->id, &path, SERVICE + cm_net_below(&n->base, 2) * 999, "?", 1))
		n->failed++;
	e->is_sidr = true;
}

/*
 * What a forger makes of a MAD that it has seen: the same, or a REJ, with all comm ids right, but
 * from another host; or from the host, but not its QP1; a REQ that lies about its address; noise.
 */
static void forge(struct net *n, const struct cm_net_mad *f)
{
	uint16_t attr = urxe_mad_get16(f->mad, URXE_HDR_ATTR_ID);
	bool alone = attr == URXE_MAD_REQ || attr == URXE_MAD_SIDR_REQ || attr == URXE_MAD_SIDR_REP;
	struct urxe_cm_source src = {.qpn = 1, .sgid = f->sgid, .dgid = f->dgid};
	uint64_t r = urxe_random_step(&n->forger);
	uint8_t m[URXE_MAD_LEN];

	memcpy(m, f->mad, sizeof(m));
	switch (attr == URXE_MAD_SIDR_REQ ? 3 : r >> 40 & 3) {
	case 0:
		src.sgid = cm_net_path(0, NODES + (unsigned)(r >> 33) % 20, 0).dgid;
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
	urxe_cm_recv(n->base.node[f->to].cm, &src, m, sizeof(m));
}

static void before_arrival(struct cm_net *base, const struct cm_net_mad *f)
{
	struct net *n = (struct net *)base;

	for (unsigned i = 0; i < n->forgers; i++)
		forge(n, f);
}

static struct end *next_end(struct net *n)
{
	struct end *first = NULL;

	for (unsigned i = 0; i < n->n_ends; i++) {
		struct end *e = &n->ends[i];

		if (e->todo != NOTHING && (!first || e->at < first->at))
			first = e;
	}
	return first;
}

static uint64_t next_todo(struct cm_net *base)
{
	const struct end *e = next_end((struct net *)base);

	return e ? e->at : UINT64_MAX;
}

static void do_next(struct cm_net *base)
{
	do_todo(next_end((struct net *)base));
}

static struct net *net_open(uint64_t seed, unsigned loss, unsigned dup, uint64_t max_delay)
{
	struct net *n = calloc(1, sizeof(*n));

	CU_ASSERT_PTR_NOT_NULL_FATAL(n);
	n->next_qpn = 0x100;
	n->base.next_todo = next_todo;
	n->base.do_todo = do_next;
	n->base.before_arrival = before_arrival;
	cm_net_open(&n->base, seed, loss, dup, max_delay);
	for (unsigned i = 0; i < NODES; i++) {
		struct cm_node *node = &n->base.node[i];

		node->listener = urxe_cm_new_id(node->cm, listen_handler, node);
		if (urxe_cm_listen(node->listener, SERVICE, UINT64_MAX))
			n->failed++;
	}
	return n;
}

static void net_close(struct net *n)
{
	cm_net_close(&n->base);
	free(n);
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
	cm_net_run(&n->base, n->base.now + 60000 * MS);
	for (unsigned i = 0; i < NODES; i++) {
		if (n->base.node[i].dead)
			continue;
		urxe_cm_destroy(n->base.node[i].listener);
		if (!urxe_cm_is_idle(n->base.node[i].cm) ||
		    urxe_cm_deadline(n->base.node[i].cm) != UINT64_MAX) {
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
	struct net *n = net_open(seed, loss, dup, max_delay);
	uint64_t said;
	unsigned bad;

	n->keep = keep;
	n->forgers = forgers;
	for (unsigned i = 0; i < CONNS; i++) {
		if (i % 4 == 1)
			connect_peers(n, i);
		else
			connect_one(n);
		if (i % 6 == 2)
			resolve_one(n);
		cm_net_run(&n->base, n->base.now + cm_net_below(&n->base, 100) * MS);
	}
	cm_net_run(&n->base, n->base.now + 60000 * MS);
	/* Who just gave its peer up by mistake gets through to it. */
	n->base.loss = 0;
	cm_net_run(&n->base, n->base.now + 10000 * MS);
	bad = n->failed + check_agreement(n);
	bad += check_empty(n);
	if (bad)
		printf("seed %lu loss %u dup %u delay %lu ms keep %d forgers %u\n",
		       (unsigned long)seed, loss, dup, (unsigned long)(max_delay / MS), keep,
		       forgers);
	CU_ASSERT_EQUAL(bad, 0);
	said = n->base.hash;
	net_close(n);
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
		run(seed, 25, 0, 1 * MS, true);
		run(seed, 25, 0, 1 * MS, false);
	}
}

/* A connection without traffic outlives a minute of bad weather. */
static void not_given_up(void)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct net *n = net_open(seed, 15, 5, 2 * MS);

		n->keep = true;
		for (unsigned i = 0; i < CONNS; i++)
			connect_one(n);
		cm_net_run(&n->base, n->base.now + 60000 * MS);
		if (n->given_up)
			printf("seed %lu: %u given up\n", (unsigned long)seed, n->given_up);
		CU_ASSERT_EQUAL(n->given_up, 0);
		CU_ASSERT_EQUAL(check_empty(n), 0);
		net_close(n);
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
		struct net *n = net_open(seed, 5, 5, 2 * MS);
		unsigned bad = 0;

		n->keep = true;
		for (unsigned i = 0; i < CONNS; i++)
			connect_one(n);
		cm_net_run(&n->base, n->base.now + 20000 * MS);
		n->base.node[0].dead = true;
		for (unsigned i = 0; i < n->n_ends; i++) {
			if (n->ends[i].node == &n->base.node[0])
				n->ends[i].todo = NOTHING;
		}
		cm_net_run(&n->base, n->base.now + 10000 * MS);
		for (unsigned i = 0; i < n->n_ends; i++) {
			struct end *e = &n->ends[i], *p = peer_of(n, e);

			if (e->node != &n->base.node[0] && e->established && p &&
			    p->node == &n->base.node[0]) {
				printf("seed %lu: end %u did not hear of the death\n",
				       (unsigned long)seed, i);
				bad++;
			}
			/* And nobody else is disturbed. */
			if (e->node != &n->base.node[0] && p && p->node != &n->base.node[0] &&
			    e->established != p->established)
				bad++;
		}
		CU_ASSERT_EQUAL(bad, 0);
		/* What is left of the dead is freed without more ado. */
		for (unsigned i = 0; i < n->n_ends; i++) {
			if (n->ends[i].node == &n->base.node[0])
				n->ends[i].id = NULL;
		}
		CU_ASSERT_EQUAL(check_empty(n), 0);
		net_close(n);
	}
}

static int accepts(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	const struct urxe_cm_conn conn = {.qpn = (urxe_cm_local_comm_id(id) & 0xffffff) | 2};

	if (ev->type == URXE_CM_EV_REQ_RECEIVED)
		urxe_cm_send_rep(id, &conn);
	return 0;
}

static int connects(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	if (ev->type == URXE_CM_EV_REP_RECEIVED)
		urxe_cm_send_rtu(id, NULL, 0);
	return 0;
}

/* At 30 % loss each way, connections one by one: all are made, and both sides know. */
static void stubborn(void)
{
	unsigned failed = 0;

	for (uint64_t seed = 0; seed < 300; seed++) {
		struct urxe_cm_req req = {.service_id = SERVICE, .qp_type = IBV_QPT_RC};
		const struct urxe_cm_counters *a, *b;
		struct cm_net n = {0};
		struct urxe_cm_id *id;

		cm_net_open(&n, seed + 1000, 30, 0, 2 * MS);
		for (unsigned i = 0; i < 2; i++) {
			n.node[i].listener = urxe_cm_new_id(n.node[i].cm, accepts, NULL);
			urxe_cm_listen(n.node[i].listener, SERVICE, UINT64_MAX);
		}
		id = urxe_cm_new_id(n.node[0].cm, connects, NULL);
		req.path = cm_net_path(0, 1, 0);
		req.conn.qpn = 0x1234;
		req.conn.retry_count = 7;
		CU_ASSERT_EQUAL(urxe_cm_send_req(id, &req), 0);
		cm_net_run(&n, 15000 * MS);
		a = urxe_cm_get_counters(n.node[0].cm);
		b = urxe_cm_get_counters(n.node[1].cm);
		failed += a->established != 1 || b->established != 1;
		cm_net_close(&n);
	}
	CU_ASSERT_EQUAL(failed, 0);
	if (failed)
		printf("%u of 300 failed\n", failed);
}

static const struct end *first_established(const struct net *n)
{
	for (unsigned i = 0; i < n->n_ends; i++) {
		if (n->ends[i].active && n->ends[i].established)
			return &n->ends[i];
	}
	return NULL;
}

/* It dies as soon as the other end, which asked for the connection, thinks itself connected. */
static void death_at_once(void)
{
	unsigned seen = 0;

	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct net *n = net_open(seed, 20, 5, 1 * MS);
		const struct end *e;

		n->keep = true;
		connect_one(n);
		for (unsigned ms = 0; !first_established(n) && ms < 5000; ms++)
			cm_net_run(&n->base, n->base.now + MS / 4);
		e = first_established(n);
		for (unsigned i = 0; e && i < n->n_ends; i++) {
			if (n->ends[i].node != e->node) {
				n->ends[i].node->dead = true;
				n->ends[i].todo = NOTHING;
				seen++;
			}
		}
		cm_net_run(&n->base, n->base.now + 5000 * MS);
		if (e && e->established && !n->ends[n->n_ends - 1].established) {
			printf("seed %lu: it waits for ever\n", (unsigned long)seed);
			CU_FAIL("a death is not noticed");
		}
		for (unsigned i = 0; i < n->n_ends; i++) {
			if (n->ends[i].node->dead)
				n->ends[i].id = NULL;
		}
		n->base.loss = 0;
		CU_ASSERT_EQUAL(check_empty(n), 0);
		net_close(n);
	}
	CU_ASSERT(seen > SEEDS / 4);
}

URXE_TEST_MAIN("cm_lossy", T(stubborn), T(death_at_once), T(lossy), T(not_given_up), T(clean),
	       T(doubled_and_reordered), T(everything), T(forged), T(death))
