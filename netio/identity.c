/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The identity of a process: one that has its addresses to itself has all in local tables; a member
 * of the local fabric has its ports in the table that it shares.
 */
#include "netio/identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netio/fabric.h"
#include "urxe/lock.h"
#include "urxe/sparse.h"

#define QPN_END	 UINT32_MAX /* of the queue of freed indexes */
#define QPN_LIVE (UINT32_MAX - 1)

#define ORDER_ROUNDS 6

#define EPHEMERAL_FIRST 32768
#define EPHEMERAL_COUNT 28232
#define PORT_BUCKETS	1024

struct claim {
	struct claim *next;
	enum urxe_ident_space space;
	uint16_t port;
	uint8_t gid[16];
	bool any; /* wildcard */
	unsigned flags;
	bool listens;
};

struct urxe_ident {
	struct urxe_mutex lock;
	uint64_t (*random64)(void *arg);
	void *arg;
	struct urxe_fabric *fabric; /* NULL: local */
	uint32_t indexes, first, usable;
	unsigned order_half; /* bits of half an index, rounded up */
	/* QPN indexes: fresh ones first, in an order of this identity's own; then freed ones,
	 * oldest first. next[] links the freed and marks the live. */
	uint32_t *next;
	uint64_t order[ORDER_ROUNDS]; /* keys of the order */
	uint32_t fresh_tried;
	uint32_t freed_head, freed_tail;
	struct claim *ports[URXE_IDENT_SPACES][PORT_BUCKETS];
};

static int create(struct urxe_ident **out, unsigned index_bits, uint64_t (*random64)(void *arg),
		  void *arg)
{
	struct urxe_ident *id = urxe_alloc_sparse(sizeof(*id));

	if (!id)
		return ENOMEM;
	id->indexes = 1u << index_bits;
	id->next = calloc(id->indexes, sizeof(*id->next));
	if (!id->next) {
		free(id);
		return ENOMEM;
	}
	id->order_half = (index_bits + 1) / 2;
	urxe_mutex_init(&id->lock);
	id->random64 = random64;
	id->arg = arg;
	for (unsigned i = 0; i < ORDER_ROUNDS; i++)
		id->order[i] = random64(arg);
	id->freed_head = id->freed_tail = QPN_END;
	*out = id;
	return 0;
}

int urxe_ident_create(struct urxe_ident **out, uint64_t (*random64)(void *arg), void *arg)
{
	int err = create(out, URXE_IDENT_QPN_INDEX_BITS, random64, arg);

	if (!err) {
		(*out)->first = 2;		      /* 0 and 1 are QP0 and QP1 */
		(*out)->usable = (*out)->indexes - 3; /* the last would make the multicast QPN */
	}
	return err;
}

/* Slots are such that no index makes one of those. */
int urxe_ident_create_fabric(struct urxe_ident **out, struct urxe_fabric *f,
			     uint64_t (*random64)(void *arg), void *arg)
{
	int err = create(out, URXE_IDENT_FABRIC_QPN_INDEX_BITS, random64, arg);

	if (!err) {
		(*out)->usable = (*out)->indexes;
		(*out)->fabric = urxe_fabric_ref(f);
	}
	return err;
}

unsigned urxe_ident_qpn_index_bits(const struct urxe_ident *id)
{
	return id->fabric ? URXE_IDENT_FABRIC_QPN_INDEX_BITS : URXE_IDENT_QPN_INDEX_BITS;
}

int urxe_ident_slot(struct urxe_ident *id, unsigned *slot)
{
	int err = id->fabric ? urxe_fabric_join(id->fabric) : 0;

	*slot = id->fabric && !err ? urxe_fabric_slot(id->fabric) : 0;
	return err;
}

bool urxe_ident_is_others(const struct urxe_ident *id, uint32_t qpn)
{
	unsigned slot = urxe_ident_qpn_slot(qpn);

	return id->fabric && slot != urxe_fabric_slot(id->fabric) &&
	       urxe_fabric_incarnation(id->fabric, slot);
}

void urxe_ident_destroy(struct urxe_ident *id)
{
	if (!id)
		return;
	urxe_fabric_put(id->fabric);
	for (unsigned s = 0; s < URXE_IDENT_SPACES; s++) {
		for (unsigned b = 0; b < PORT_BUCKETS; b++) {
			for (struct claim *c = id->ports[s][b], *next; c; c = next) {
				next = c->next;
				free(c);
			}
		}
	}
	urxe_mutex_fini(&id->lock);
	free(id->next);
	free(id);
}

/* ---- QPNs ---- */

/* The finaliser of splitmix64 (Steele and others, 2014). */
static uint64_t mix(uint64_t v)
{
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
	v = (v ^ v >> 27) * 0x94d049bb133111eb;
	return v ^ v >> 31;
}

/*
 * The @n-th number in an order that only the keys tell: a Feistel network, which takes each to
 * another one and none twice. No table, so that a program with one QP pays for one. Its halves are
 * of equal size: what may be too large, with one bit more than indexes have, is passed over.
 */
static uint32_t permute(const struct urxe_ident *id, uint32_t n)
{
	uint32_t mask = (1u << id->order_half) - 1;
	uint32_t left = n >> id->order_half, right = n & mask, next;

	for (unsigned i = 0; i < ORDER_ROUNDS; i++) {
		next = left ^ (uint32_t)(mix(id->order[i] ^ right) & mask);
		left = right;
		right = next;
	}
	return left << id->order_half | right;
}

static int qpn_index(struct urxe_ident *id, uint32_t *index)
{
	while (id->fresh_tried < 1u << 2 * id->order_half) {
		*index = id->first + permute(id, id->fresh_tried++);
		if (*index < id->first + id->usable)
			return 0;
	}
	if (id->freed_head == QPN_END)
		return ENOMEM;
	*index = id->freed_head;
	id->freed_head = id->next[*index];
	if (id->freed_head == QPN_END)
		id->freed_tail = QPN_END;
	return 0;
}

int urxe_ident_qpn_alloc(struct urxe_ident *id, uint32_t *qpn)
{
	uint32_t index, high;
	int err = id->fabric ? urxe_fabric_join(id->fabric) : 0;

	if (err)
		return err;
	high = id->fabric ? urxe_fabric_slot(id->fabric) : (uint32_t)(id->random64(id->arg) >> 40);
	urxe_mutex_lock(&id->lock);
	err = qpn_index(id, &index);
	if (!err) {
		id->next[index] = QPN_LIVE;
		*qpn = (high * id->indexes | index) & 0xffffff;
	}
	urxe_mutex_unlock(&id->lock);
	return err;
}

void urxe_ident_qpn_free(struct urxe_ident *id, uint32_t qpn)
{
	uint32_t index = qpn & (id->indexes - 1);

	urxe_mutex_lock(&id->lock);
	if (id->next[index] == QPN_LIVE) {
		id->next[index] = QPN_END;
		if (id->freed_tail == QPN_END)
			id->freed_head = index;
		else
			id->next[id->freed_tail] = index;
		id->freed_tail = index;
	}
	urxe_mutex_unlock(&id->lock);
}

static uint32_t fabric_comm_id(struct urxe_ident *id)
{
	if (urxe_fabric_join(id->fabric))
		return 0;
	return urxe_fabric_slot(id->fabric) << 24 | (uint32_t)(id->random64(id->arg) >> 40);
}

uint32_t urxe_ident_comm_id(struct urxe_ident *id)
{
	uint32_t v;

	if (id->fabric)
		return fabric_comm_id(id);
	do
		v = (uint32_t)(id->random64(id->arg) >> 16);
	while (!v);
	return v;
}

/* ---- RDMA port numbers ---- */

/* Does the wildcard @a take in the addresses of family @v4? */
static bool any_covers(const struct claim *a, bool v4)
{
	if (a->flags & URXE_IDENT_PORT_V4)
		return v4;
	return !v4 || !(a->flags & URXE_IDENT_PORT_V6ONLY);
}

static bool overlap(const struct claim *a, const struct claim *b)
{
	bool a4 = a->flags & URXE_IDENT_PORT_V4, b4 = b->flags & URXE_IDENT_PORT_V4;

	if (a->port != b->port)
		return false;
	if (!a->any && !b->any)
		return !memcmp(a->gid, b->gid, 16);
	if (a->any && b->any)
		return any_covers(a, b4) || any_covers(b, a4);
	return a->any ? any_covers(a, b4) : any_covers(b, a4);
}

static struct claim **bucket(struct urxe_ident *id, enum urxe_ident_space space, uint16_t port)
{
	return &id->ports[space][port % PORT_BUCKETS];
}

/* An overlapping claim that does not tolerate @c. */
static bool clash(struct urxe_ident *id, const struct claim *c)
{
	for (struct claim *o = *bucket(id, c->space, c->port); o; o = o->next) {
		if (o == c || !overlap(o, c))
			continue;
		if (!(o->flags & c->flags & URXE_IDENT_PORT_REUSE) || o->listens || c->listens)
			return true;
	}
	return false;
}

/* An ephemeral number is nobody else's, reuse or not. */
static int pick_ephemeral(struct urxe_ident *id, struct claim *c)
{
	uint32_t start = (uint32_t)(id->random64(id->arg) % EPHEMERAL_COUNT);
	unsigned flags = c->flags;

	c->flags &= ~(unsigned)URXE_IDENT_PORT_REUSE;
	for (uint32_t i = 0; i < EPHEMERAL_COUNT; i++) {
		c->port = (uint16_t)(EPHEMERAL_FIRST + (start + i) % EPHEMERAL_COUNT);
		if (!clash(id, c)) {
			c->flags = flags;
			return 0;
		}
	}
	return EADDRNOTAVAIL;
}

static int local_claim(struct urxe_ident *id, enum urxe_ident_space space, const uint8_t gid[16],
		       unsigned flags, uint16_t *port, void **claim)
{
	static const uint8_t zero[16], v4_any[16] = {[10] = 0xff, [11] = 0xff};
	struct claim *c = calloc(1, sizeof(*c)), **head;
	int err = 0;

	if (!c)
		return ENOMEM;
	c->space = space;
	c->port = *port;
	c->flags = flags;
	memcpy(c->gid, gid, 16);
	c->any = !memcmp(gid, zero, 16) || !memcmp(gid, v4_any, 16);
	/* The family is in the address itself. */
	if (!memcmp(gid, v4_any, 12))
		c->flags |= URXE_IDENT_PORT_V4;
	else if (!c->any)
		c->flags &= ~(unsigned)URXE_IDENT_PORT_V4;
	urxe_mutex_lock(&id->lock);
	if (!c->port)
		err = pick_ephemeral(id, c);
	else if (clash(id, c))
		err = EADDRINUSE;
	if (!err) {
		head = bucket(id, space, c->port);
		c->next = *head;
		*head = c;
		*port = c->port;
		*claim = c;
	}
	urxe_mutex_unlock(&id->lock);
	if (err)
		free(c);
	return err;
}

/* A claim in the fabric's table is a number; it is not 0. */
static int fabric_claim(struct urxe_ident *id, enum urxe_ident_space space, const uint8_t gid[16],
			unsigned flags, uint16_t *port, void **claim)
{
	urxe_fabric_claim c = 0;
	int err = urxe_fabric_port_claim(id->fabric, space, gid, flags, id->random64(id->arg), port,
					 &c);

	*claim = (void *)(uintptr_t)c;
	return err;
}

int urxe_ident_port_claim(struct urxe_ident *id, enum urxe_ident_space space, const uint8_t gid[16],
			  unsigned flags, uint16_t *port, void **claim)
{
	if (id->fabric)
		return fabric_claim(id, space, gid, flags, port, claim);
	return local_claim(id, space, gid, flags, port, claim);
}

int urxe_ident_port_listen(struct urxe_ident *id, void *claim)
{
	struct claim *c = claim;
	int err = 0;

	if (id->fabric)
		return urxe_fabric_port_listen(id->fabric, (uintptr_t)claim);
	urxe_mutex_lock(&id->lock);
	for (struct claim *o = *bucket(id, c->space, c->port); o; o = o->next) {
		if (o != c && o->listens && overlap(o, c))
			err = EADDRINUSE;
	}
	if (!err)
		c->listens = true;
	urxe_mutex_unlock(&id->lock);
	return err;
}

void urxe_ident_serve(struct urxe_ident *id)
{
	if (id->fabric)
		urxe_fabric_serve(id->fabric);
}

void urxe_ident_port_reuse(struct urxe_ident *id, void *claim, bool reuse)
{
	struct claim *c = claim;

	if (id->fabric) {
		urxe_fabric_port_reuse(id->fabric, (uintptr_t)claim, reuse);
		return;
	}
	urxe_mutex_lock(&id->lock);
	if (reuse)
		c->flags |= URXE_IDENT_PORT_REUSE;
	else
		c->flags &= ~(unsigned)URXE_IDENT_PORT_REUSE;
	urxe_mutex_unlock(&id->lock);
}

void urxe_ident_port_release(struct urxe_ident *id, void *claim)
{
	struct claim *c = claim, **pc;

	if (!c)
		return;
	if (id->fabric) {
		urxe_fabric_port_release(id->fabric, (uintptr_t)claim);
		return;
	}
	urxe_mutex_lock(&id->lock);
	for (pc = bucket(id, c->space, c->port); *pc; pc = &(*pc)->next) {
		if (*pc == c) {
			*pc = c->next;
			break;
		}
	}
	urxe_mutex_unlock(&id->lock);
	free(c);
}

/* ---- services ---- */

int urxe_ident_service_listen(struct urxe_ident *id, uint64_t service_id, uint64_t mask,
			      void **claim)
{
	urxe_fabric_claim c = 0;
	int err = 0;

	if (id->fabric)
		err = urxe_fabric_service_listen(id->fabric, service_id, mask, &c);
	*claim = (void *)(uintptr_t)c;
	return err;
}

void urxe_ident_service_release(struct urxe_ident *id, void *claim)
{
	if (id->fabric)
		urxe_fabric_service_release(id->fabric, (uintptr_t)claim);
}
