/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Three connection managers that talk to each other, on virtual time. The input is their consumers
 * and the net between them: who calls what, which MAD arrives next, twice, changed, from elsewhere
 * or not at all. Then the net is perfect and the consumers are quiet for two minutes. An end is
 * told of its end once; where no MAD was lost or forged, both ends of a connection agree; and when
 * all ids are destroyed no id and no timer is left.
 */
#include "cm/core/cm.h"

#include <errno.h>
#include <stdlib.h>
#include "fuzz.h"
#include "urxe/free.h"
#include "urxe/random.h"

#define SERVICE	    0x0000000001061e61ull
#define NODES	    3
#define ENDS	    24
#define FLY	    48
#define MAX_RECORDS 256
#define MS	    1000000ull

struct flying {
	unsigned to;
	struct urxe_cm_source src;
	uint8_t mad[URXE_MAD_LEN];
};

struct node {
	struct rig *r;
	unsigned index;
	struct urxe_cm *cm;
	struct urxe_cm_id *listener;
};

struct end {
	struct node *node;
	struct urxe_cm_id *id; /* NULL: free, or destroyed */
	uint32_t qpn, peer_qpn, comm, peer_comm;
	bool used, connected;
	unsigned ends_told;
};

struct rig {
	struct fuzz_in *in;
	struct node node[NODES];
	struct end ends[ENDS];
	struct flying fly[FLY];
	unsigned n_fly;
	uint64_t now, rand;
	uint32_t next_qpn;
	bool quiet; /* the input has nothing more to say */
	bool lossy; /* a MAD was lost or forged */
	unsigned depth;
};

static void node_gid(union ibv_gid *gid, unsigned i, unsigned net)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[12] = 10;
	gid->raw[14] = (uint8_t)net;
	gid->raw[15] = (uint8_t)(i + 1);
}

static void net_send(void *arg, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct rig *r = ((struct node *)arg)->r;
	unsigned to = path->dgid.raw[15] - 1u;
	struct flying *f;

	FUZZ_CHECK(!urxe_mad_check(mad, URXE_MAD_LEN));
	if (to >= NODES || r->n_fly == FLY) {
		r->lossy = true;
		return;
	}
	f = &r->fly[r->n_fly++];
	f->to = to;
	f->src = (struct urxe_cm_source){.sgid = path->sgid,
					 .dgid = path->dgid,
					 .dgid_index = path->dgid.raw[14] & 1,
					 .port_num = 1,
					 .qpn = 1};
	memcpy(f->mad, mad, URXE_MAD_LEN);
}

static uint64_t net_now(void *arg)
{
	return ((struct node *)arg)->r->now;
}

static uint64_t net_random(void *arg)
{
	struct rig *r = ((struct node *)arg)->r;

	return urxe_random_step(&r->rand);
}

static uint32_t net_comm_id(void *arg)
{
	return (uint32_t)net_random(arg);
}

static int net_own_gid(void *arg, const union ibv_gid *gid)
{
	return gid->raw[15] - 1u == ((struct node *)arg)->index && gid->raw[14] < 2 ? gid->raw[14]
										    : -1;
}

static const struct urxe_cm_ops ops = {net_send,    net_now, net_random, net_comm_id,
				       net_own_gid, NULL,    urxe_free,	 NULL,
				       NULL,	    NULL,    NULL};

/* ---- consumers ---- */

static struct end *new_end(struct rig *r, struct node *node)
{
	for (unsigned i = 0; i < ENDS; i++) {
		struct end *e = &r->ends[i];

		if (!e->used) {
			*e = (struct end){.node = node, .used = true, .qpn = r->next_qpn++};
			return e;
		}
	}
	return NULL;
}

static void path_between(struct urxe_cm_path *p, unsigned from, unsigned to, unsigned net)
{
	*p = (struct urxe_cm_path){.mtu = IBV_MTU_1024,
				   .hop_limit = 64,
				   .pkey = 0xffff,
				   .port_num = 1,
				   .sgid_index = (uint8_t)net};
	node_gid(&p->sgid, from, net);
	node_gid(&p->dgid, to, net);
}

static const struct end *other(const struct rig *r, const struct end *e)
{
	for (unsigned i = 0; i < ENDS; i++) {
		const struct end *o = &r->ends[i];

		if (o != e && o->used && o->comm == e->peer_comm && o->peer_comm == e->comm &&
		    o->qpn == e->peer_qpn && o->peer_qpn == e->qpn)
			return o;
	}
	return NULL;
}

/* Its handler is called once more, which may do the same. */
static void tell_again(struct rig *r, struct end *e)
{
	if (r->depth == 8)
		return;
	r->depth++;
	urxe_cm_tell_again(e->id);
	r->depth--;
}

/* Data has come from the other end, says the consumer, be it true or not. */
static void notify(struct rig *r, struct end *e)
{
	const struct end *o = other(r, e);
	bool lie = !o || !o->connected;

	if (!urxe_cm_notify_established(e->id))
		r->lossy |= lie;
}

static void call(struct rig *r, struct end *e, uint8_t what)
{
	static const uint8_t bytes[256];
	struct urxe_cm_conn c = {.qpn = e->qpn, .psn = 1, .rnr_retry_count = 7};
	struct urxe_cm_path path;

	switch (what & 15) {
	case 1:
		c.failover = what >> 4 & 3;
		urxe_cm_send_rep(e->id, &c);
		break;
	case 2:
		if (!urxe_cm_send_rtu(e->id, bytes, what))
			e->connected = true;
		break;
	case 3:
		if (!urxe_cm_send_rej(e->id, what, NULL, 0, bytes, what >> 4))
			e->connected = false;
		break;
	case 4:
		urxe_cm_send_mra(e->id, what >> 4, NULL, 0);
		break;
	case 5:
		if (!urxe_cm_send_dreq(e->id, bytes, what))
			e->connected = false;
		break;
	case 6:
		urxe_cm_send_drep(e->id, bytes, what);
		break;
	case 7:
		notify(r, e);
		break;
	case 8:
		path = *urxe_cm_get_path(e->id);
		path.sgid.raw[14] ^= 1;
		path.dgid.raw[14] ^= 1;
		path.sgid_index ^= 1;
		urxe_cm_send_lap(e->id, &path, bytes, what);
		break;
	case 9:
		urxe_cm_send_apr(e->id, what >> 4 & 3, bytes, what >> 4, bytes, what);
		break;
	case 10:
		urxe_cm_send_sidr_rep(e->id, what >> 4 & 3, e->qpn, 1, bytes, what);
		break;
	case 11:
		tell_again(r, e);
		break;
	case 12:
		urxe_cm_notify_migrated(e->id);
		break;
	case 13:
		urxe_cm_set_ack_timeout(e->id, what >> 3);
		urxe_cm_set_wait(e->id, what, what >> 6);
		break;
	case 14:
		urxe_cm_readdress(e->node->cm);
		break;
	default:
		break;
	}
}

static void ended(struct end *e)
{
	e->ends_told++;
	e->connected = false;
	FUZZ_CHECK(e->ends_told == 1);
}

static int on_event(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct end *e = context;
	struct rig *r = e->node->r;
	uint8_t what = r->quiet ? 0 : fuzz_u8(r->in);

	FUZZ_CHECK(e->id == id && ev->type < URXE_CM_N_EVENTS);
	switch (ev->type) {
	case URXE_CM_EV_REQ_RECEIVED:
		e->peer_qpn = ev->req.conn.qpn;
		e->peer_comm = urxe_cm_remote_comm_id(id);
		break;
	case URXE_CM_EV_REP_RECEIVED:
		e->peer_qpn = ev->rep.qpn;
		e->peer_comm = urxe_cm_remote_comm_id(id);
		break;
	case URXE_CM_EV_RTU_RECEIVED:
	case URXE_CM_EV_USER_ESTABLISHED:
		e->connected = true;
		break;
	case URXE_CM_EV_DREQ_RECEIVED:
		if (urxe_cm_get_state(id) == URXE_CM_DREQ_RCVD && what & 1)
			urxe_cm_send_drep(id, NULL, 0);
		ended(e);
		return 0;
	case URXE_CM_EV_REQ_ERROR:
	case URXE_CM_EV_REP_ERROR:
	case URXE_CM_EV_REJ_RECEIVED:
	case URXE_CM_EV_DREQ_ERROR:
	case URXE_CM_EV_DREP_RECEIVED:
	case URXE_CM_EV_PEER_LOST:
		ended(e);
		return 0;
	default:
		break;
	}
	if (what == 0xff || what == 0xfe) {
		/* It has not come, if it can be taken for that. */
		if (what == 0xfe)
			urxe_cm_ignore(id);
		e->id = NULL;
		e->connected = false;
		return 1;
	}
	if (what)
		call(r, e, what);
	return 0;
}

static int on_request(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct node *node = context;
	struct end *e = node->r->quiet ? NULL : new_end(node->r, node);

	if (!e)
		return 1;
	e->id = id;
	e->comm = urxe_cm_local_comm_id(id);
	urxe_cm_set_handler(id, on_event, e);
	return on_event(id, ev, e);
}

static void ask(struct rig *r, uint8_t how)
{
	unsigned from = (how & 3) % NODES, to = (how >> 2 & 3) % NODES;
	struct urxe_cm_req req = {.qp_type = how & 0x80 ? IBV_QPT_UC : IBV_QPT_RC};
	struct end *e = new_end(r, &r->node[from]);
	struct urxe_cm_path alternate;

	if (!e)
		return;
	e->id = urxe_cm_new_id(e->node->cm, on_event, e);
	FUZZ_CHECK(e->id);
	e->comm = urxe_cm_local_comm_id(e->id);
	path_between(&req.path, from, to, 0);
	path_between(&alternate, from, to, 1);
	if (how & 0x40) {
		FUZZ_CHECK(!urxe_cm_send_sidr_req(e->id, &req.path, SERVICE + (how >> 4 & 1), NULL,
						  0));
		return;
	}
	req.peer_to_peer = how & 0x10;
	req.service_id = SERVICE + req.peer_to_peer;
	req.alternate = how & 0x20 ? &alternate : NULL;
	req.conn.qpn = e->qpn;
	req.conn.retry_count = 7;
	FUZZ_CHECK(!urxe_cm_send_req(e->id, &req));
}

/* ---- the net ---- */

static void deliver(struct rig *r, unsigned i, uint8_t how)
{
	struct flying f = r->fly[i];

	if (!(how & 1)) /* else it comes again */
		memmove(&r->fly[i], &r->fly[i + 1], (--r->n_fly - i) * sizeof(f));
	if (how & 2)
		node_gid(&f.src.sgid, fuzz_u8(r->in) & 3, how >> 4 & 1);
	for (unsigned n = how >> 2 & 3; n; n--) {
		uint8_t at = fuzz_u8(r->in);

		f.mad[at] = fuzz_u8(r->in);
	}
	if (how & 14)
		r->lossy = true;
	urxe_cm_recv(r->node[f.to].cm, &f.src, f.mad, URXE_MAD_LEN);
}

/* A MAD is lost; a router, or a kernel at the peer's address, may report that to its sender. */
static void lose(struct rig *r, uint8_t how)
{
	const struct flying f = r->fly[--r->n_fly];
	struct urxe_cm_unreachable u = {.err = how & 2 ? EHOSTUNREACH : ECONNREFUSED,
					.from = f.src.dgid,
					.sgid = f.src.sgid,
					.dgid = f.src.dgid,
					.mad = f.mad,
					.len = 64};
	unsigned from = f.src.sgid.raw[15] - 1u;

	r->lossy = true;
	if (!(how & 1) || from >= NODES)
		return;
	if (how & 4)
		u.from.raw[15] = 0xfe;
	urxe_cm_unreachable(r->node[from].cm, &u);
}

static uint64_t first_deadline(struct rig *r, struct node **node)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < NODES; i++) {
		uint64_t d = urxe_cm_deadline(r->node[i].cm);

		if (d < first) {
			first = d;
			*node = &r->node[i];
		}
	}
	return first;
}

/* Everything arrives at once, time goes on to @until. */
static void run(struct rig *r, uint64_t until)
{
	for (unsigned turns = 0;; turns++) {
		struct node *node = NULL;
		uint64_t next;

		FUZZ_CHECK(turns < 200000);
		if (r->n_fly) {
			deliver(r, 0, 0);
			continue;
		}
		next = first_deadline(r, &node);
		if (!node || next > until) {
			r->now = until;
			return;
		}
		if (next > r->now)
			r->now = next;
		urxe_cm_run(node->cm);
	}
}

static void record(struct rig *r, uint8_t what)
{
	struct node *node = NULL;
	struct end *e;
	uint64_t next;

	switch (what & 7) {
	case 0:
		ask(r, fuzz_u8(r->in));
		break;
	case 1:
		e = &r->ends[fuzz_u8(r->in) % ENDS];
		if (e->id)
			call(r, e, fuzz_u8(r->in));
		break;
	case 2:
		if (r->n_fly)
			deliver(r, fuzz_u8(r->in) % r->n_fly, what >> 3);
		break;
	case 3:
		if (r->n_fly)
			lose(r, what >> 3);
		break;
	case 4: /* the next timer */
		next = first_deadline(r, &node);
		if (!node)
			break;
		if (next > r->now)
			r->now = next;
		urxe_cm_run(node->cm);
		break;
	case 5: /* 1 ms to 2 s */
		run(r, r->now + (MS << (what >> 3) % 12));
		break;
	case 6:
		e = &r->ends[fuzz_u8(r->in) % ENDS];
		if (e->id)
			urxe_cm_destroy(e->id);
		e->id = NULL;
		e->connected = false;
		break;
	default: /* in order, so many */
		for (unsigned n = (what >> 3) + 1; n && r->n_fly; n--)
			deliver(r, 0, 0);
		break;
	}
}

/* ---- the end ---- */

static void check_agreement(struct rig *r)
{
	for (unsigned i = 0; i < ENDS; i++) {
		struct end *e = &r->ends[i];
		const struct end *o = other(r, e);

		if (!e->id || !e->connected)
			continue;
		FUZZ_CHECK(urxe_cm_get_state(e->id) == URXE_CM_ESTABLISHED);
		if (!r->lossy)
			FUZZ_CHECK(o && o->id && o->connected);
	}
}

static void finish(struct rig *r)
{
	r->quiet = true;
	run(r, r->now + 120000 * MS);
	check_agreement(r);
	for (unsigned i = 0; i < ENDS; i++) {
		if (r->ends[i].id)
			urxe_cm_destroy(r->ends[i].id);
	}
	run(r, r->now + 120000 * MS);
	for (unsigned i = 0; i < NODES; i++) {
		struct urxe_cm *cm = r->node[i].cm;

		urxe_cm_destroy(r->node[i].listener);
		FUZZ_CHECK(urxe_cm_is_idle(cm) && urxe_cm_deadline(cm) == UINT64_MAX);
		FUZZ_CHECK(!urxe_cm_get_counters(cm)->bad_steps);
		for (unsigned s = 0; s < URXE_CM_N_STATES; s++)
			FUZZ_CHECK(!urxe_cm_get_counters(cm)->states[s]);
		urxe_cm_destroy_all(cm);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rig r;
	struct fuzz_in in = {data, size};

	r = (struct rig){.in = &in, .now = 1000, .rand = 42, .next_qpn = 0x100};
	for (unsigned i = 0; i < NODES; i++) {
		struct node *node = &r.node[i];
		struct urxe_cm_config cfg;

		urxe_cm_config_default(&cfg);
		/* Two of them are one device's: the QPNs decide there. */
		cfg.ca_guid = 0x5054 + i / 2;
		*node = (struct node){.r = &r, .index = i};
		node->cm = urxe_cm_create(&ops, node, &cfg);
		FUZZ_CHECK(node->cm);
		node->listener = urxe_cm_new_id(node->cm, on_request, node);
		FUZZ_CHECK(node->listener && !urxe_cm_listen(node->listener, SERVICE, UINT64_MAX));
	}
	for (unsigned n = 0; n < MAX_RECORDS && in.n; n++)
		record(&r, fuzz_u8(&in));
	finish(&r);
	return 0;
}
