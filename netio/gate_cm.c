/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connections of members with the outside, as their MADs tell of them, for one purpose: a member
 * that is killed cannot send DREQs. A kernel sends those of its processes; here the gateway does.
 * Else a peer that only receives would wait for ever.
 *
 * Who learns by whom: a connection is known by its member's comm id, which nobody but that member
 * chooses. What comes from outside completes only what a member has begun; requests from there are
 * remembered in a table of fixed size, where a later one takes an earlier one's place.
 */
#include "netio/gate_priv.h"

#include <stdlib.h>

#include "netio/identity.h"
#include "urxe/log.h"
#include "urxe/mad.h"
#include "urxe/opcode.h"

#define MOST	 65536u		   /* connections; of more it is not known */
#define FIRST_NS (100 * URXE_MSEC) /* between DREQs, doubled each time */
#define DREQS	 5
#define SWEEP_NS (10 * URXE_SEC)
#define ENDS_NS	 (60 * URXE_SEC) /* a request, or a DREQ, of which nothing came */
#define AT_MAD	 (URXE_BTH_LEN + URXE_DETH_LEN)

enum conn_state {
	CONN_ASKED, /* the member has sent a REQ */
	CONN_UP,
	CONN_ENDS, /* the member has sent a DREQ */
	CONN_LEFT, /* the member is gone, and we end it */
};

struct gate_conn {
	struct urxe_hash_node node;
	struct gate_key key;  /* the way to the peer */
	uint32_t own, their;  /* comm ids */
	uint32_t qpn;	      /* the peer's */
	uint32_t incarnation; /* of the slot, when it began: the member's; 0: that was gone */
	enum conn_state state;
	unsigned dreqs;
	uint64_t at; /* the next DREQ; else when the state began */
};

/* A REQ from outside, until the member's REP. */
struct gate_asked {
	uint8_t gid[16];
	uint32_t their, qpn;
};

static struct gate_conn *conn_of(struct urxe_hash_node *node)
{
	return (struct gate_conn *)((uint8_t *)node - offsetof(struct gate_conn, node));
}

/* Each to another number: of one hash there is one comm id. */
static uint64_t mix(uint64_t v)
{
	v *= 0x9e3779b97f4a7c15ull;
	return v ^ v >> 29;
}

static struct gate_conn *find(struct urxe_gate *g, uint32_t own)
{
	struct urxe_hash_node *node = urxe_hash_find(&g->conns, mix(own));

	return node ? conn_of(node) : NULL;
}

static void forget(struct urxe_gate *g, struct gate_conn *c)
{
	urxe_hash_del(&g->conns, &c->node);
	free(c);
}

static struct gate_conn *enter(struct urxe_gate *g, uint32_t own, const struct gate_key *key,
			       enum conn_state state, uint64_t now)
{
	struct gate_conn *c = find(g, own);

	if (!c) {
		c = g->conns.count < MOST ? calloc(1, sizeof(*c)) : NULL;
		if (!c) {
			gate_count(g, URXE_GATE_cm_unknown, 1);
			return NULL;
		}
		c->own = own;
		c->incarnation = urxe_fabric_incarnation(g->fabric, urxe_ident_comm_id_slot(own));
		urxe_hash_add(&g->conns, &c->node, mix(own));
	}
	c->key = *key;
	c->state = state;
	c->at = now;
	return c;
}

static struct gate_asked *asked_by(struct urxe_gate *g, const uint8_t gid[16], uint32_t their)
{
	return &g->asked[(mix(their) ^ urxe_gid_hash(gid)) % GATE_ASKED];
}

/* The MAD of a packet to QP1; NULL: it has none, or not of the CM's. */
static const uint8_t *cm_mad(const uint8_t *body, uint32_t len)
{
	const uint8_t *mad = body + AT_MAD;

	return len == GATE_MAD_LEN && urxe_mad_get8(mad, URXE_HDR_MGMT_CLASS) == URXE_MAD_CLASS_CM
		       ? mad
		       : NULL;
}

/* ---- what members send ---- */

static void rep_out(struct urxe_gate *g, const struct gate_key *key, const uint8_t *mad,
		    uint64_t now)
{
	uint32_t their = urxe_mad_get32(mad, URXE_REP_REMOTE_COMM_ID);
	const struct gate_asked *a = asked_by(g, key->dgid, their);
	struct gate_conn *c;

	if (a->their != their || memcmp(a->gid, key->dgid, 16))
		return;
	c = enter(g, urxe_mad_get32(mad, URXE_REP_LOCAL_COMM_ID), key, CONN_UP, now);
	if (!c)
		return;
	c->their = their;
	c->qpn = a->qpn;
}

void gate_cm_out(struct urxe_gate *g, const struct gate_key *key, const uint8_t *body, uint32_t len,
		 uint64_t now)
{
	const uint8_t *theirs = cm_mad(body, len);
	uint8_t mad[URXE_MAD_LEN];
	struct gate_conn *c;
	uint32_t own;

	if (!theirs)
		return;
	/* A copy: what is looked at twice stays the same. */
	memcpy(mad, theirs, sizeof(mad));
	own = urxe_mad_get32(mad, URXE_REQ_LOCAL_COMM_ID);
	switch (urxe_mad_get16(mad, URXE_HDR_ATTR_ID)) {
	case URXE_MAD_REQ:
		if (!find(g, own))
			enter(g, own, key, CONN_ASKED, now);
		break;
	case URXE_MAD_REP:
		rep_out(g, key, mad, now);
		break;
	case URXE_MAD_DREQ:
		c = find(g, own);
		if (c && c->state == CONN_UP) {
			c->state = CONN_ENDS;
			c->at = now;
		}
		break;
	case URXE_MAD_REJ:
	case URXE_MAD_DREP:
		c = find(g, own);
		if (c)
			forget(g, c);
		break;
	default:
		break;
	}
}

/* ---- what comes for them ---- */

static void req_in(struct urxe_gate *g, const uint8_t gid[16], const uint8_t *mad)
{
	uint32_t their = urxe_mad_get32(mad, URXE_REQ_LOCAL_COMM_ID);
	struct gate_asked *a = asked_by(g, gid, their);

	memcpy(a->gid, gid, 16);
	a->their = their;
	a->qpn = urxe_mad_get32(mad, URXE_REQ_LOCAL_QPN);
}

static void send_mad(struct urxe_gate *g, const struct gate_conn *c, enum urxe_mad_attr attr,
		     uint64_t tid, uint64_t now) URXE_REQUIRES(g->lane)
{
	const struct urxe_bth bth = {
		.opcode = URXE_SVC_UD | URXE_OP_SEND_ONLY, .pkey = 0xffff, .dqpn = 1};
	uint8_t p[GATE_MAD_LEN], *mad = p + AT_MAD;

	urxe_bth_put(p, &bth);
	urxe_deth_put(p + URXE_BTH_LEN, URXE_GSI_QKEY, 1);
	urxe_mad_init(mad, attr, tid);
	urxe_mad_put(mad, URXE_DREQ_LOCAL_COMM_ID, c->own);
	urxe_mad_put(mad, URXE_DREQ_REMOTE_COMM_ID, c->their);
	if (attr == URXE_MAD_DREQ) {
		urxe_mad_put(mad, URXE_DREQ_REMOTE_QPN, c->qpn);
		memcpy(urxe_mad_bytes(mad, URXE_DREQ_PRIVATE_DATA), URXE_MAD_DREQ_GONE,
		       sizeof(URXE_MAD_DREQ_GONE));
	}
	gate_send(g, &c->key, p, sizeof(p), now);
}

bool gate_cm_in(struct urxe_gate *g, const uint8_t sgid[16], const uint8_t *body, uint32_t len)
{
	const uint8_t *mad = cm_mad(body, len);
	struct gate_conn *c;
	uint16_t attr;
	bool left;

	if (!mad)
		return false;
	attr = urxe_mad_get16(mad, URXE_HDR_ATTR_ID);
	if (attr == URXE_MAD_REQ) {
		req_in(g, sgid, mad);
		return false;
	}
	c = find(g, urxe_mad_get32(mad, URXE_REP_REMOTE_COMM_ID));
	if (!c || memcmp(c->key.dgid, sgid, 16))
		return false;
	left = c->state == CONN_LEFT;
	switch (attr) {
	case URXE_MAD_REP:
		if (c->state == CONN_ASKED) {
			c->their = urxe_mad_get32(mad, URXE_REP_LOCAL_COMM_ID);
			c->qpn = urxe_mad_get32(mad, URXE_REP_LOCAL_QPN);
			c->state = CONN_UP;
		}
		break;
	case URXE_MAD_DREQ:
		if (left)
			send_mad(g, c, URXE_MAD_DREP, urxe_mad_get(mad, URXE_HDR_TID),
				 urxe_port_now(g->port));
		forget(g, c);
		break;
	case URXE_MAD_REJ:
	case URXE_MAD_DREP:
		forget(g, c);
		break;
	default:
		break;
	}
	return left;
}

/* ---- members that are gone ---- */

void gate_cm_gone(void *gate, unsigned slot)
{
	struct urxe_gate *g = gate;

	/* A number that is nobody's, in a MAD of anybody's: all connections would be looked at. */
	if (!slot)
		return;
	g->gone[slot / 64] |= 1ull << slot % 64;
	g->conns_at = 0;
}

/* Its slot may have a new owner by now, whose messages came in the same turn. @slots: whose end was
 * told. */
static bool is_gone(struct urxe_gate *g, const struct gate_conn *c, const uint64_t *slots)
{
	unsigned slot = urxe_ident_comm_id_slot(c->own);

	return slots[slot / 64] >> slot % 64 & 1 &&
	       (!c->incarnation || c->incarnation != urxe_fabric_incarnation(g->fabric, slot));
}

/* Its connections are ours to end; what was not one yet its peer gives up. True: it is not over. */
static bool leave(struct urxe_gate *g, struct gate_conn *c, uint64_t now)
{
	if (c->state == CONN_ASKED) {
		forget(g, c);
		return false;
	}
	c->state = CONN_LEFT;
	c->dreqs = 0;
	c->at = now;
	gate_count(g, URXE_GATE_cm_ended, 1);
	return true;
}

/* True: it is not over. */
static bool end(struct urxe_gate *g, struct gate_conn *c, uint64_t now) URXE_REQUIRES(g->lane)
{
	if (now < c->at)
		return true;
	if (c->dreqs >= DREQS) {
		forget(g, c);
		return false;
	}
	c->at = now + (FIRST_NS << c->dreqs++);
	send_mad(g, c, URXE_MAD_DREQ, (uint64_t)c->own << 32 | c->their, now);
	return true;
}

void gate_cm_tick(struct urxe_gate *g, uint64_t now)
{
	uint64_t gone[URXE_FABRIC_SLOTS / 64];
	struct urxe_hash_node *node, *next;
	bool ending = false;
	unsigned left = 0;

	if (now < g->conns_at)
		return;
	memcpy(gone, g->gone, sizeof(gone));
	memset(g->gone, 0, sizeof(g->gone));
	for (node = urxe_hash_next(&g->conns, NULL); node; node = next) {
		struct gate_conn *c = conn_of(node);

		next = urxe_hash_next(&g->conns, node);
		if (c->state != CONN_LEFT && is_gone(g, c, gone))
			left += leave(g, c, now);
		else if (c->state == CONN_LEFT)
			ending |= end(g, c, now);
		else if (c->state != CONN_UP && now - c->at > ENDS_NS)
			forget(g, c);
	}
	if (left)
		urxe_info("%s: %u connections of processes that are gone are ended", g->name, left);
	g->conns_at = now + (left || ending ? FIRST_NS / 10 : SWEEP_NS);
}

int gate_cm_init(struct urxe_gate *g)
{
	g->asked = calloc(GATE_ASKED, sizeof(*g->asked));
	return g->asked ? urxe_hash_init(&g->conns, 256) : ENOMEM;
}

void gate_cm_fini(struct urxe_gate *g)
{
	struct urxe_hash_node *node;

	while ((node = urxe_hash_next(&g->conns, NULL)))
		forget(g, conn_of(node));
	urxe_hash_fini(&g->conns);
	free(g->asked);
}
