/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Destinations of a datagram socket. The way to each is looked for as rdma_cm does it, by an id
 * that is there until it has an answer; the QP is told by the peer.
 *
 * UD does not tell when a QP has gone. So one that its peer said nothing more of for a while is
 * asked for again: the next datagram goes over UDP.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/rsocket/dgram.h"

#include "urxe/free.h"
#include "urxe/gid.h"
#include "urxe/log.h"

#define RESOLVE_MS 4000
#define RETRY_NS   (1 * URXE_SEC)  /* until a way that was not found is looked for again */
#define STALE_NS   (10 * URXE_SEC) /* until a QP that was not heard of is asked for again */

static struct cds_list_head *bucket(const struct urxe_rs *s, const struct urxe_rs_addr *a)
{
	return &s->dg->buckets[(urxe_gid_hash(a->ip) ^ a->port ^ a->port >> 8) %
			       URXE_RS_DEST_BUCKETS];
}

struct urxe_rs_dest *urxe_rs_dest_find(const struct urxe_rs *s, const struct urxe_rs_addr *to)
{
	struct urxe_rs_dest *d;

	cds_list_for_each_entry (d, bucket(s, to), entry) {
		if (urxe_rs_addr_same(&d->to, to))
			return d;
	}
	return NULL;
}

bool urxe_rs_dest_direct(const struct urxe_rs_dest *d)
{
	return d->ah && d->qpn && urxe_rs_left(d->stale_at);
}

size_t urxe_rs_dest_room(const struct urxe_rs *s, const struct urxe_rs_dest *d)
{
	size_t udp = URXE_RS_DGRAM_MOST - urxe_rs_udp_header_len(s->domain);
	size_t ud = d->mtu - urxe_rs_ud_header_len(s->domain);

	return udp < ud ? udp : ud;
}

/* ---- the way there ---- */

static void end_search(struct urxe_rs *s, struct urxe_rs_dest *d)
{
	if (!d->id)
		return;
	rdma_destroy_id(d->id);
	d->id = NULL;
	s->dg->resolving--;
}

/* Its device and our address there are known when this returns; that it can be reached, later. */
static int search(struct urxe_rs *s, struct urxe_rs_dest *d) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_addr from = d->from;
	struct sockaddr_storage src, dst;
	bool own = !urxe_gid_is_loopback(from.ip); /* else it is one of the device's */
	int err;

	from.port = 0;
	urxe_rs_addr_put(&from, s->domain, &src);
	urxe_rs_addr_put(&d->to, s->domain, &dst);
	d->retry_at = urxe_rs_deadline(RETRY_NS);
	if (rdma_create_id(s->channel, &d->id, d, RDMA_PS_UDP))
		return errno;
	s->dg->resolving++;
	if (!rdma_resolve_addr(d->id, own ? (struct sockaddr *)&src : NULL, (struct sockaddr *)&dst,
			       RESOLVE_MS))
		return 0;
	err = errno;
	end_search(s, d);
	return err;
}

static bool is_lost(const struct urxe_rs_dest *d)
{
	return !d->ah && !d->id;
}

void urxe_rs_dest_heard(struct urxe_rs *s, struct urxe_rs_dest *d, uint32_t qpn)
{
	bool news = qpn != d->qpn;

	d->qpn = qpn > 1 ? qpn : 0; /* the first two are none that datagrams go to */
	d->stale_at = urxe_rs_deadline(STALE_NS);
	/* Its device may have started with that QP. */
	if (news && is_lost(d))
		search(s, d);
}

static int sgid_index(const struct urxe_rs_dest *d, const union ibv_gid *gid, uint8_t *index)
{
	struct ibv_port_attr port;
	union ibv_gid own;
	int err = ibv_query_port(d->ud->id->verbs, 1, &port);

	if (err)
		return err;
	for (int i = 0; i < port.gid_tbl_len && i <= UINT8_MAX; i++) {
		if (!ibv_query_gid(d->ud->id->verbs, 1, i, &own) &&
		    !memcmp(&own, gid, sizeof(own))) {
			*index = (uint8_t)i;
			return 0;
		}
	}
	return EADDRNOTAVAIL;
}

static int make_ah(struct urxe_rs_dest *d)
{
	const struct ibv_sa_path_rec *path = d->id->route.path_rec;
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.sl = path->sl,
		.grh = {.dgid = path->dgid,
			.flow_label = be32toh(path->flow_label),
			.hop_limit = path->hop_limit,
			.traffic_class = path->traffic_class},
	};
	uint32_t mtu = 128u << path->mtu;
	int err = sgid_index(d, &path->sgid, &attr.grh.sgid_index);

	if (err)
		return err;
	d->ah = ibv_create_ah(d->ud->id->pd, &attr);
	if (!d->ah)
		return errno;
	if (mtu < d->mtu)
		d->mtu = mtu;
	return 0;
}

/* ---- the table ---- */

static void drop(struct urxe_rs *s, struct urxe_rs_dest *d)
{
	end_search(s, d);
	if (d->ah)
		ibv_destroy_ah(d->ah);
	cds_list_del(&d->entry);
	cds_list_del(&d->age);
	s->dg->dests--;
	free(d);
}

void urxe_rs_dest_free_all(struct urxe_rs *s)
{
	struct urxe_rs_dest *d, *next;

	cds_list_for_each_entry_safe (d, next, &s->dg->ages, age)
		drop(s, d);
}

static int fill(struct urxe_rs *s, struct urxe_rs_dest *d) URXE_REQUIRES(s->lock)
{
	int err;

	if (urxe_gid_is_mcast(d->to.ip))
		return EOPNOTSUPP;
	err = urxe_rs_udp_own(s, &d->to, &d->from);
	if (!err)
		err = search(s, d);
	if (err)
		return err;
	d->ud = urxe_rs_ud_get(s, d->id, &err);
	if (!d->ud)
		return err;
	d->mtu = d->ud->mtu;
	return 0;
}

static struct urxe_rs_dest *add(struct urxe_rs *s, const struct urxe_rs_addr *to, bool stranger,
				int *err) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_dgram *dg = s->dg;
	struct urxe_rs_dest *d = calloc(1, sizeof(*d));

	*err = ENOMEM;
	if (!d)
		return NULL;
	if (dg->dests == URXE_RS_DESTS)
		drop(s, cds_list_entry(dg->ages.prev, struct urxe_rs_dest, age));
	d->to = *to;
	cds_list_add(&d->entry, bucket(s, to));
	if (stranger)
		cds_list_add_tail(&d->age, &dg->ages);
	else
		cds_list_add(&d->age, &dg->ages);
	dg->dests++;
	*err = fill(s, d);
	if (!*err)
		return d;
	drop(s, d);
	return NULL;
}

struct urxe_rs_dest *urxe_rs_dest_get(struct urxe_rs *s, const struct urxe_rs_addr *to,
				      bool stranger, int *err)
{
	struct urxe_rs_dest *d = urxe_rs_dest_find(s, to);

	*err = ENOBUFS;
	if (!d && stranger && s->dg->resolving >= URXE_RS_DEST_STRANGER)
		return NULL;
	if (!d)
		return add(s, to, stranger, err);
	*err = 0;
	if (!stranger)
		cds_list_move(&d->age, &s->dg->ages);
	if (is_lost(d) && !urxe_rs_left(d->retry_at))
		search(s, d); /* UDP goes on until there is a way */
	return d;
}

/* ---- events ---- */

/* A device is gone, and with it its QP and where that led to. */
static void lost(struct urxe_rs *s, const struct rdma_cm_id *id) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_dest *d, *next;
	struct urxe_rs_ud *ud;

	cds_list_for_each_entry (ud, &s->dg->uds, entry) {
		if (ud->id == id)
			break;
	}
	if (&ud->entry == &s->dg->uds)
		return;
	cds_list_for_each_entry_safe (d, next, &s->dg->ages, age) {
		if (d->ud == ud)
			drop(s, d);
	}
	urxe_rs_ud_free(s, ud);
	urxe_rs_changed(s);
}

static void found(struct urxe_rs *s, struct urxe_rs_dest *d, enum rdma_cm_event_type event)
	URXE_REQUIRES(s->lock)
{
	int err = EHOSTUNREACH;

	if (event == RDMA_CM_EVENT_ADDR_CHANGE)
		return;
	if (event == RDMA_CM_EVENT_ADDR_RESOLVED && !rdma_resolve_route(d->id, RESOLVE_MS))
		return;
	if (event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		err = make_ah(d);
	if (err)
		urxe_debug("rsocket %d: no way by UD: %s", s->fd, strerror(err));
	end_search(s, d);
}

void urxe_rs_dest_events(struct urxe_rs *s)
{
	struct rdma_cm_event *e;

	while (!rdma_get_cm_event(s->channel, &e)) {
		enum rdma_cm_event_type event = e->event;
		struct rdma_cm_id *id = e->id;
		struct urxe_rs_dest *d = id->context;

		/* Ids are destroyed when none of their events is held. */
		rdma_ack_cm_event(e);
		if (d)
			found(s, d, event);
		else if (event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			lost(s, id);
	}
}
