/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Whose a frame on a local fabric is. A node has a MAC of its own. Members that share the host's
 * addresses are told apart by the upper bits of QPNs, and for MADs of comm ids; what asks for a
 * service goes to who listens to it.
 */
#include "netio/stack.h"

#include <time.h>

#include "netio/fabric_link.h"
#include "urxe/mad.h"

#define QPN_SLOT(qpn)	 ((qpn) >> 16)
#define COMM_ID_SLOT(id) ((id) >> 24)
#define REMOTE_ID	 4 /* where messages of the CM have the receiver's comm id */
#define MAX_DEAD	 8 /* that are buried for one question */

/* The MAD of a RoCEv2 frame to QP1; NULL: it has none. */
static const uint8_t *mad_of(const struct urxe_frame *f, uint32_t bth)
{
	uint32_t at = bth + URXE_BTH_LEN + URXE_DETH_LEN;

	return f->len >= at + URXE_MAD_LEN ? f->data + at : NULL;
}

static void dgid_of(const struct urxe_frame *f, uint32_t bth, uint8_t gid[16])
{
	const uint8_t *udp = f->data + bth - UDP_LEN;
	const uint8_t *type = f->data + 12;

	if (urxe_get16(type) == ETHERTYPE_VLAN)
		type += VLAN_LEN;
	if (urxe_get16(type) == ETHERTYPE_IPV4)
		urxe_gid_from_v4(gid, udp - 4);
	else
		memcpy(gid, udp - 16, 16);
}

static bool serves(struct fabric_link *l, unsigned slot, const uint8_t mac[6])
{
	return slot && (slot == l->own || urxe_fabric_shares(l->fabric, slot, mac));
}

/*
 * Whoever listens gets a request, and what is sent again of it: its listener may be gone by then,
 * and it has the connection all the same.
 */
static unsigned asked_slot(struct fabric_link *l, const struct urxe_frame *f, uint32_t bth,
			   const uint8_t *mad)
{
	uint64_t tid = urxe_mad_get(mad, URXE_HDR_TID);
	uint32_t id = urxe_mad_get32(mad, URXE_REQ_LOCAL_COMM_ID);
	unsigned at = (unsigned)((tid ^ tid >> 32 ^ id) * 0x9e3779b1u >> 16) % FABRIC_ASKED, slot;
	uint8_t dgid[16];

	if (l->asked[at].tid == tid && l->asked[at].id == id &&
	    serves(l, l->asked[at].slot, f->data))
		return l->asked[at].slot;
	dgid_of(f, bth, dgid);
	/* SIDR_REQ has both at the same places. */
	slot = urxe_fabric_listener(l->fabric, dgid, urxe_mad_get(mad, URXE_REQ_SERVICE_ID));
	if (slot != FABRIC_NOBODY && slot < URXE_FABRIC_SLOTS) {
		l->asked[at].tid = tid;
		l->asked[at].id = id;
		l->asked[at].slot = (uint8_t)slot;
	}
	return slot;
}

/* Among the members that share an address: a slot, FABRIC_ALL or FABRIC_NOBODY. */
static unsigned mad_slot(struct fabric_link *l, const struct urxe_frame *f, uint32_t bth)
{
	const uint8_t *mad = mad_of(f, bth);
	uint32_t id;

	if (!mad || urxe_mad_get8(mad, URXE_HDR_MGMT_CLASS) != URXE_MAD_CLASS_CM)
		return FABRIC_NOBODY;
	switch (urxe_mad_get16(mad, URXE_HDR_ATTR_ID)) {
	case URXE_MAD_REQ:
	case URXE_MAD_SIDR_REQ:
		return asked_slot(l, f, bth, mad);
	case URXE_MAD_SIDR_REP:
		return COMM_ID_SLOT(urxe_mad_get32(mad, URXE_SIDR_REP_REQUEST_ID));
	default:
		/* A REJ of what could not be read names nobody. */
		id = urxe_get32(mad + URXE_MAD_HDR_LEN + REMOTE_ID);
		return id ? COMM_ID_SLOT(id) : FABRIC_ALL;
	}
}

unsigned fabric_steer_own(void *link, uint32_t dqpn, const struct urxe_frame *f)
{
	struct fabric_link *l = link;
	unsigned slot = QPN_SLOT(dqpn);
	uint32_t bth = f ? urxe_frame_roce(f) : 0;

	if (dqpn <= 1)
		slot = bth ? mad_slot(l, f, bth) : FABRIC_NOBODY;
	if (slot == FABRIC_ALL)
		return URXE_STEER_LOOP | URXE_STEER_LINK;
	/* What is for nobody is refused by our own CM. */
	return slot == l->own || slot == FABRIC_NOBODY ? URXE_STEER_LOOP : URXE_STEER_LINK;
}

/* Somebody of a host, to refuse what nobody there wants. */
static unsigned anybody(struct fabric_link *l, const uint8_t mac[6])
{
	for (unsigned slot = URXE_FABRIC_FIRST; slot <= URXE_FABRIC_LAST; slot++) {
		if (slot != l->own && urxe_fabric_shares(l->fabric, slot, mac))
			return slot;
	}
	return FABRIC_NOBODY;
}

unsigned fabric_steer_slot(struct fabric_link *l, const struct urxe_frame *f)
{
	int node = urxe_fabric_mac_slot(l->fabric, f->data);
	uint32_t bth = urxe_frame_roce(f), dqpn;
	unsigned slot;

	if (node)
		return node > 0 ? (unsigned)node : FABRIC_NOBODY;
	/* A gateway passes on ICMP errors: whoever has sent what they quote will know. */
	if (!bth)
		return l->is_gate ? FABRIC_ALL : FABRIC_NOBODY;
	dqpn = urxe_bth_dqpn(f->data + bth);
	slot = dqpn > 1 ? QPN_SLOT(dqpn) : mad_slot(l, f, bth);
	if (slot == FABRIC_NOBODY && dqpn <= 1)
		slot = anybody(l, f->data);
	if (slot != FABRIC_ALL && slot != FABRIC_NOBODY &&
	    !urxe_fabric_shares(l->fabric, slot, f->data))
		return FABRIC_NOBODY;
	return slot;
}

const uint64_t *fabric_steer_group(struct fabric_link *l, const struct urxe_frame *f)
{
	static const uint64_t nobody[FABRIC_WORDS];
	uint32_t bth = urxe_frame_roce(f), version;
	uint8_t gid[16];

	if (!bth)
		return nobody;
	dgid_of(f, bth, gid);
	version = urxe_fabric_groups_version(l->fabric);
	if (version != l->group_version || memcmp(gid, l->group, 16)) {
		urxe_fabric_group_members(l->fabric, gid, l->group_slots);
		memcpy(l->group, gid, 16);
		l->group_version = version;
	}
	return l->group_slots;
}

/* ---- addresses, and beyond ---- */

unsigned fabric_steer_qp(struct fabric_link *l, uint32_t dqpn, const uint8_t dmac[6])
{
	int node = urxe_fabric_mac_slot(l->fabric, dmac);

	if (node <= 0 || !urxe_fabric_is_gate(l->fabric, (unsigned)node))
		return QPN_SLOT(dqpn) & 0xff;
	l->gate = (unsigned)node;
	return l->gate;
}

/* One that was killed may not be known to be dead, and another one have its place. */
static bool lives(struct fabric_link *l, unsigned slot)
{
	return slot == l->own ||
	       urxe_fabric_alive(l->fabric, slot, urxe_fabric_incarnation(l->fabric, slot));
}

uint64_t fabric_steer_later(void *arg, uint64_t now)
{
	struct fabric_link *l = arg;
	uint8_t mac[6];
	unsigned slot = urxe_fabric_gate(l->fabric, mac);

	return urxe_spawn_run(&l->spawn, now, slot && lives(l, slot),
			      urxe_fabric_serves(l->fabric));
}

const char *fabric_steer_nowhere(void *link)
{
	const struct fabric_link *l = link;

	return urxe_spawn_why(&l->spawn);
}

/* There is no gateway: one may be started. */
static int want_gate(struct fabric_link *l)
{
	struct timespec ts;
	bool call;
	int err;

	/* As the fabric's thread has it: the TSC's may drift away. */
	clock_gettime(CLOCK_MONOTONIC, &ts);
	err = urxe_spawn_want(&l->spawn, (uint64_t)ts.tv_sec * URXE_SEC + (uint64_t)ts.tv_nsec,
			      &call);
	if (call)
		urxe_fabric_call_at(l->fabric, 0);
	return err;
}

/* To an address that nobody here has. */
static int resolve_far(struct fabric_link *l, uint8_t mac[6])
{
	unsigned slot;

	for (unsigned i = 0; i < MAX_DEAD; i++) {
		slot = urxe_fabric_gate(l->fabric, mac);
		if (!slot || slot == l->own)
			break;
		if (lives(l, slot)) {
			if (urxe_spawn_use(&l->spawn))
				urxe_fabric_call_at(l->fabric, 0);
			return 0;
		}
	}
	return want_gate(l);
}

int fabric_steer_resolve(void *link, const uint8_t gid[16], uint8_t mac[6])
{
	struct fabric_link *l = link;
	struct urxe_fabric_where where;

	for (unsigned i = 0; i < MAX_DEAD; i++) {
		if (urxe_fabric_lookup(l->fabric, gid, &where))
			return resolve_far(l, mac);
		memcpy(mac, where.mac, 6);
		if (!where.slot || lives(l, where.slot))
			return 0;
	}
	return EHOSTUNREACH;
}

bool fabric_steer_far(void *link, const uint8_t mac[6])
{
	struct fabric_link *l = link;
	int node = urxe_fabric_mac_slot(l->fabric, mac);

	return node > 0 && urxe_fabric_is_gate(l->fabric, (unsigned)node);
}
