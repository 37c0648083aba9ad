/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The fabric of sim_fabric.h: what netio asks of netio/fabric.h, and the link. */
#include "sim_fabric.h"

#include <stdlib.h>

#include "netio/fabric.h"
#include "netio/gate.h"
#include "netio/stack.h"
#include "urxe/mad.h"

#define SLOTS	  256
#define CLAIMS	  512
#define GROUPS	  16
#define EPHEMERAL 32768u

/* A port or, with a mask, a range of service ids. */
struct sim_claim {
	unsigned slot; /* 0: free */
	bool service, any, listens;
	enum urxe_ident_space space;
	uint16_t port;
	unsigned flags;
	uint8_t gid[16];
	uint64_t id, mask;
};

struct urxe_fabric {
	struct sim_fabric *hub;
	struct urxe_sim_end *end;
	unsigned slot, refs;
	void *link; /* the simulated one, once it is open */
	uint8_t gids[URXE_FABRIC_GIDS][16], groups[GROUPS][16];
	unsigned num_gids, num_groups;
	void (*gone)(void *arg, unsigned slot);
	void *gone_arg;
};

struct sim_fabric {
	struct urxe_sim *sim;
	struct urxe_fabric *member[SLOTS], *next;
	struct sim_claim claim[CLAIMS];
	uint16_t ephemeral;
};

static struct sim_fabric *the_hub;

static const uint8_t host_mac[6] = {2, 0xfa, 0xb, 0, 0, 0};

/* ---- membership ---- */

struct urxe_fabric *urxe_fabric_ref(struct urxe_fabric *f)
{
	f->refs++;
	return f;
}

void urxe_fabric_inherit(struct urxe_fabric *f)
{
}

void urxe_fabric_put(struct urxe_fabric *f)
{
	if (!f || --f->refs)
		return;
	if (f->hub->member[f->slot] == f)
		sim_fabric_kill(f->hub, f->slot);
	free(f);
}

int urxe_fabric_join(struct urxe_fabric *f)
{
	return f->slot ? 0 : ENODEV;
}

unsigned urxe_fabric_slot(const struct urxe_fabric *f)
{
	return f->slot;
}

uint32_t urxe_fabric_incarnation(const struct urxe_fabric *f, unsigned slot)
{
	return slot < SLOTS && f->hub->member[slot];
}

/* It has no gateway, and starts none. */
void urxe_fabric_serve(struct urxe_fabric *f)
{
}

const struct urxe_fabric_spec *urxe_fabric_spec_of(const struct urxe_fabric *f)
{
	static const struct urxe_fabric_spec none;

	return &none;
}

uint32_t urxe_fabric_addrs_version(const struct urxe_fabric *f)
{
	return 0;
}

int urxe_gate_look(const struct urxe_fabric_spec *spec, struct urxe_gate_info *info)
{
	return ENOENT;
}

int urxe_fabric_addr_set(struct urxe_fabric *f, const uint8_t (*gids)[16], unsigned n,
			 unsigned *other)
{
	memcpy(f->gids, gids, 16 * n);
	f->num_gids = n;
	return 0;
}

/* ---- groups ---- */

int urxe_fabric_group_join(struct urxe_fabric *f, const uint8_t mgid[16])
{
	if (f->num_groups == GROUPS)
		return ENOMEM;
	memcpy(f->groups[f->num_groups++], mgid, 16);
	return 0;
}

void urxe_fabric_group_leave(struct urxe_fabric *f, const uint8_t mgid[16])
{
	for (unsigned i = 0; i < f->num_groups; i++) {
		if (memcmp(f->groups[i], mgid, 16) != 0)
			continue;
		memcpy(f->groups[i], f->groups[--f->num_groups], 16);
		return;
	}
}

static bool in_group(const struct urxe_fabric *f, const uint8_t mgid[16])
{
	for (unsigned i = 0; i < f->num_groups; i++) {
		if (!memcmp(f->groups[i], mgid, 16))
			return true;
	}
	return false;
}

/* ---- ports and services ---- */

static bool any_covers(const struct sim_claim *a, bool v4)
{
	if (a->flags & URXE_IDENT_PORT_V4)
		return v4;
	return !v4 || !(a->flags & URXE_IDENT_PORT_V6ONLY);
}

static bool clash(const struct sim_claim *a, const struct sim_claim *b)
{
	bool a4 = a->flags & URXE_IDENT_PORT_V4, b4 = b->flags & URXE_IDENT_PORT_V4;

	if (!a->slot || a->service != b->service || a == b)
		return false;
	if (a->service)
		return a->slot != b->slot && !((a->id ^ b->id) & a->mask & b->mask);
	if (a->space != b->space || a->port != b->port)
		return false;
	if (a->any || b->any)
		return (a->any && any_covers(a, b4)) || (b->any && any_covers(b, a4));
	return !memcmp(a->gid, b->gid, 16);
}

static bool tolerates(const struct sim_claim *a, const struct sim_claim *b)
{
	return a->flags & b->flags & URXE_IDENT_PORT_REUSE && !a->listens && !b->listens;
}

static int take(struct sim_fabric *hub, const struct sim_claim *c, urxe_fabric_claim *claim)
{
	struct sim_claim *place = NULL;

	for (unsigned i = 0; i < CLAIMS; i++) {
		struct sim_claim *o = &hub->claim[i];

		if (clash(o, c) && !tolerates(o, c))
			return EADDRINUSE;
		if (!o->slot && !place)
			place = o;
	}
	if (!place)
		return ENOBUFS;
	*place = *c;
	*claim = (uintptr_t)place;
	return 0;
}

int urxe_fabric_port_claim(struct urxe_fabric *f, enum urxe_ident_space space,
			   const uint8_t gid[16], unsigned flags, uint64_t random, uint16_t *port,
			   urxe_fabric_claim *claim)
{
	static const uint8_t zero[16], v4_any[16] = {[10] = 0xff, [11] = 0xff};
	struct sim_claim c = {.slot = f->slot, .space = space, .port = *port, .flags = flags};
	int err;

	memcpy(c.gid, gid, 16);
	c.any = !memcmp(gid, zero, 16) || !memcmp(gid, v4_any, 16);
	if (!memcmp(gid, v4_any, 12))
		c.flags |= URXE_IDENT_PORT_V4;
	do {
		if (!*port)
			c.port = (uint16_t)(EPHEMERAL + f->hub->ephemeral++ % 20000);
		err = take(f->hub, &c, claim);
	} while (err == EADDRINUSE && !*port);
	*port = c.port;
	return err;
}

int urxe_fabric_port_listen(struct urxe_fabric *f, urxe_fabric_claim claim)
{
	struct sim_claim *c = (struct sim_claim *)(uintptr_t)claim;

	for (unsigned i = 0; i < CLAIMS; i++) {
		if (f->hub->claim[i].listens && clash(&f->hub->claim[i], c))
			return EADDRINUSE;
	}
	c->listens = true;
	return 0;
}

void urxe_fabric_port_reuse(struct urxe_fabric *f, urxe_fabric_claim claim, bool reuse)
{
	struct sim_claim *c = (struct sim_claim *)(uintptr_t)claim;

	c->flags =
		(c->flags & ~(unsigned)URXE_IDENT_PORT_REUSE) | (reuse ? URXE_IDENT_PORT_REUSE : 0);
}

void urxe_fabric_port_release(struct urxe_fabric *f, urxe_fabric_claim claim)
{
	memset((void *)(uintptr_t)claim, 0, sizeof(struct sim_claim));
}

int urxe_fabric_service_listen(struct urxe_fabric *f, uint64_t service_id, uint64_t mask,
			       urxe_fabric_claim *claim)
{
	struct sim_claim c = {.slot = f->slot, .service = true, .id = service_id, .mask = mask};

	return take(f->hub, &c, claim);
}

void urxe_fabric_service_release(struct urxe_fabric *f, urxe_fabric_claim claim)
{
	if (claim)
		memset((void *)(uintptr_t)claim, 0, sizeof(struct sim_claim));
}

/* Port spaces by what stands above the port in a service id (rdma_cma.h). */
static enum urxe_ident_space space_of(uint64_t service_id)
{
	switch (service_id >> 16) {
	case 0x0106:
		return URXE_IDENT_TCP;
	case 0x0111:
		return URXE_IDENT_UDP;
	case 0x013f:
		return URXE_IDENT_IB;
	case 0x0002:
		return URXE_IDENT_IPOIB;
	default:
		return URXE_IDENT_SPACES;
	}
}

static bool listens_for(const struct sim_claim *c, const uint8_t dgid[16], uint64_t service_id)
{
	if (!c->slot)
		return false;
	if (c->service)
		return !((c->id ^ service_id) & c->mask);
	return c->listens && c->space == space_of(service_id) && c->port == (uint16_t)service_id &&
	       (c->any ? any_covers(c, urxe_gid_is_v4(dgid)) : !memcmp(c->gid, dgid, 16));
}

unsigned urxe_fabric_listener(const struct urxe_fabric *f, const uint8_t dgid[16],
			      uint64_t service_id)
{
	for (unsigned i = 0; i < CLAIMS; i++) {
		if (listens_for(&f->hub->claim[i], dgid, service_id))
			return f->hub->claim[i].slot;
	}
	return 0;
}

/* ---- whom a frame is for ---- */

#define MAD_OFF (URXE_BTH_LEN + URXE_DETH_LEN)

static void dest_gid(const struct urxe_frame *f, uint32_t bth, uint8_t gid[16])
{
	const uint8_t *l3 = f->data + ETH_LEN;

	if (bth - ETH_LEN == IPV4_LEN + UDP_LEN)
		urxe_gid_from_v4(gid, l3 + 16);
	else
		memcpy(gid, l3 + 24, 16);
}

/* The slot; SLOTS: everybody's; 0: nobody's. */
static unsigned mad_for(const struct urxe_fabric *from, const struct urxe_frame *f, uint32_t bth)
{
	const uint8_t *mad = f->data + bth + MAD_OFF;
	uint8_t gid[16];
	unsigned slot;

	if (f->len < bth + MAD_OFF + URXE_MAD_LEN)
		return 0;
	dest_gid(f, bth, gid);
	switch (urxe_mad_get16(mad, URXE_HDR_ATTR_ID)) {
	case URXE_MAD_REQ:
		slot = urxe_fabric_listener(from, gid, urxe_mad_get(mad, URXE_REQ_SERVICE_ID));
		return slot ? slot : from->slot;
	case URXE_MAD_SIDR_REQ:
		slot = urxe_fabric_listener(from, gid, urxe_mad_get(mad, URXE_SIDR_REQ_SERVICE_ID));
		return slot ? slot : from->slot;
	case URXE_MAD_SIDR_REP:
		return urxe_ident_comm_id_slot(urxe_mad_get32(mad, URXE_SIDR_REP_REQUEST_ID));
	case URXE_MAD_REJ:
		if (!urxe_mad_get32(mad, URXE_REJ_REMOTE_COMM_ID))
			return SLOTS;
		__attribute__((fallthrough));
	default:
		return urxe_ident_comm_id_slot(urxe_mad_get32(mad, URXE_REP_REMOTE_COMM_ID));
	}
}

static unsigned frame_for(const struct urxe_fabric *from, const struct urxe_frame *f)
{
	uint32_t bth = urxe_frame_roce(f), qpn;

	if (!bth)
		return 0;
	qpn = urxe_bth_dqpn(f->data + bth);
	return qpn == 1 ? mad_for(from, f, bth) : urxe_ident_qpn_slot(qpn);
}

static bool is_for(const struct urxe_fabric *from, const struct urxe_fabric *to,
		   const struct urxe_frame *f)
{
	uint32_t bth = urxe_frame_roce(f);
	uint8_t gid[16];
	unsigned slot;

	if (bth && f->data[0] & 1) {
		dest_gid(f, bth, gid);
		return to != from && in_group(to, gid);
	}
	slot = frame_for(from, f);
	return slot == SLOTS || slot == to->slot;
}

static struct urxe_fabric *member_at(struct sim_fabric *hub, const struct urxe_sim_end *end)
{
	for (unsigned i = 1; i < SLOTS; i++) {
		if (hub->member[i] && hub->member[i]->end == end)
			return hub->member[i];
	}
	return NULL;
}

static bool route(void *arg, struct urxe_sim_end *from, struct urxe_sim_end *to,
		  const uint8_t *data, uint32_t len)
{
	const struct urxe_frame f = {.data = (uint8_t *)(uintptr_t)data, .len = len};
	struct urxe_fabric *a = member_at(arg, from), *b = member_at(arg, to);

	return a && b && is_for(a, b, &f);
}

/* ---- the link ---- */

static int sf_fabric(const struct urxe_port_config *cfg, struct urxe_fabric **f)
{
	*f = the_hub->next;
	the_hub->next = NULL;
	return *f ? 0 : EINVAL;
}

static bool sf_mac(void *arg, const struct urxe_port_config *cfg, uint8_t mac[6])
{
	memcpy(mac, host_mac, 6);
	return true;
}

static int sf_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		   uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	struct urxe_fabric *f = arg;
	int err = urxe_link_sim_ops.open(f->end, cfg, mac, l3_mtu, &f->link, info);

	*link = f;
	return err;
}

static void sf_close(void *link)
{
	urxe_link_sim_ops.close(((struct urxe_fabric *)link)->link);
}

static unsigned sf_alloc(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	return urxe_link_sim_ops.alloc(((struct urxe_fabric *)link)->link, lane, f, n);
}

static void sf_free(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	urxe_link_sim_ops.free(((struct urxe_fabric *)link)->link, lane, f, n);
}

static unsigned sf_rx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	return urxe_link_sim_ops.rx(((struct urxe_fabric *)link)->link, lane, f, n);
}

static unsigned sf_tx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	return urxe_link_sim_ops.tx(((struct urxe_fabric *)link)->link, lane, f, n);
}

static bool sf_up(void *link)
{
	return urxe_link_sim_ops.up(((struct urxe_fabric *)link)->link);
}

static void sf_wait(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	urxe_link_sim_ops.wait(((struct urxe_fabric *)link)->link, ns, wake_fd, how);
}

static int sf_resolve(void *link, const uint8_t gid[16], uint8_t mac[6])
{
	const struct sim_fabric *hub = ((struct urxe_fabric *)link)->hub;

	for (unsigned i = 1; i < SLOTS; i++) {
		const struct urxe_fabric *f = hub->member[i];

		for (unsigned k = 0; f && k < f->num_gids; k++) {
			if (memcmp(f->gids[k], gid, 16) != 0)
				continue;
			memcpy(mac, host_mac, 6);
			return 0;
		}
	}
	return EHOSTUNREACH;
}

static unsigned sf_steer(void *link, uint32_t dqpn, const struct urxe_frame *f)
{
	const struct urxe_fabric *from = link;
	unsigned slot = dqpn == 1 ? frame_for(from, f) : urxe_ident_qpn_slot(dqpn);

	if (slot == SLOTS)
		return URXE_STEER_LOOP | URXE_STEER_LINK;
	if (slot == from->slot)
		return URXE_STEER_LOOP;
	return slot && from->hub->member[slot] ? URXE_STEER_LINK : 0;
}

static bool sf_nobody(void *link, unsigned slot)
{
	const struct sim_fabric *hub = ((struct urxe_fabric *)link)->hub;

	return slot && slot < SLOTS && !hub->member[slot];
}

static void sf_on_gone(void *link, void (*fn)(void *arg, unsigned slot), void *arg)
{
	struct urxe_fabric *f = link;

	f->gone = fn;
	f->gone_arg = arg;
}

static uint64_t sf_now(void *arg)
{
	return urxe_link_sim_ops.now(((struct urxe_fabric *)arg)->end);
}

static uint64_t sf_random(void *arg)
{
	return urxe_link_sim_ops.random(((struct urxe_fabric *)arg)->end);
}

const struct urxe_link_ops urxe_link_sim_fabric_ops = {
	.name = "sim_fabric",
	.fabric = sf_fabric,
	.mac = sf_mac,
	.open = sf_open,
	.close = sf_close,
	.alloc = sf_alloc,
	.free = sf_free,
	.rx = sf_rx,
	.tx = sf_tx,
	.up = sf_up,
	.wait = sf_wait,
	.resolve = sf_resolve,
	.steer = sf_steer,
	.on_gone = sf_on_gone,
	.nobody = sf_nobody,
	.now = sf_now,
	.random = sf_random,
};

/* ---- the test's side ---- */

struct sim_fabric *sim_fabric_create(struct urxe_sim *sim)
{
	struct sim_fabric *hub = calloc(1, sizeof(*hub));

	if (!hub)
		abort();
	hub->sim = sim;
	urxe_sim_route(sim, route, hub);
	the_hub = hub;
	return hub;
}

void sim_fabric_destroy(struct sim_fabric *hub)
{
	the_hub = NULL;
	free(hub);
}

void sim_fabric_next(struct sim_fabric *hub, unsigned slot, struct urxe_sim_end *end)
{
	struct urxe_fabric *f = calloc(1, sizeof(*f));

	if (!f)
		abort();
	f->hub = hub;
	f->end = end;
	f->slot = slot;
	f->refs = 1;
	hub->member[slot] = hub->next = f;
}

void sim_fabric_kill(struct sim_fabric *hub, unsigned slot)
{
	if (!hub->member[slot])
		return;
	if (hub->next == hub->member[slot]) {
		/* No port was made for it. */
		free(hub->next);
		hub->next = NULL;
	}
	hub->member[slot] = NULL;
	for (unsigned i = 0; i < CLAIMS; i++) {
		if (hub->claim[i].slot == slot)
			memset(&hub->claim[i], 0, sizeof(hub->claim[i]));
	}
	for (unsigned i = 1; i < SLOTS; i++) {
		struct urxe_fabric *f = hub->member[i];

		if (f && f->gone)
			f->gone(f->gone_arg, slot);
	}
}

struct sim_fabric *sim_fabric_hub(void)
{
	return the_hub;
}

unsigned sim_fabric_slot(unsigned host)
{
	return 20 + host;
}

void sim_fabric_join(struct urxe_sim *sim, struct urxe_sim_end *end, unsigned host)
{
	if (host == 1)
		sim_fabric_create(sim);
	sim_fabric_next(the_hub, sim_fabric_slot(host), end);
}
