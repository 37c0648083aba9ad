/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast (IBTA 10.5): groups of UD QPs by MGID. A packet to QPN 0xffffff is looked up by
 * its destination address, and each member gets a copy of its own. Writers hold dev->mutex,
 * packets read under RCU.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "mcast.h"
#include "ud.h"
#include "rcu.h"
#include "urxe/gid.h"

struct urxe_mcast_group {
	struct urxe_rlist node; /* on dev->mcast_groups */
	uint8_t mgid[16];
	struct urxe_rlist members;
	unsigned num_members;
	struct urxe_rcu_head rcu;
};

struct urxe_mcast_member {
	struct urxe_rlist node;	      /* on group->members */
	struct cds_list_head qp_node; /* on qp->mcast */
	struct urxe_mcast_group *group;
	struct urxe_qp *qp;
	struct urxe_rcu_head rcu;
};

static struct urxe_mcast_group *find_group(struct urxe_device *dev, const uint8_t mgid[16])
{
	struct urxe_rlist *l;

	urxe_rlist_for_each (l, &dev->mcast_groups) {
		struct urxe_mcast_group *g = urxe_container_of(l, struct urxe_mcast_group, node);

		if (!memcmp(g->mgid, mgid, sizeof(g->mgid)))
			return g;
	}
	return NULL;
}

static struct urxe_mcast_member *find_member(const struct urxe_qp *qp, const uint8_t mgid[16])
{
	struct urxe_mcast_member *m;

	cds_list_for_each_entry (m, &qp->mcast, qp_node)
		if (!memcmp(m->group->mgid, mgid, 16))
			return m;
	return NULL;
}

/* The group of @mgid, with the port joined. */
static int group_get(struct urxe_device *dev, const uint8_t mgid[16], struct urxe_mcast_group **out)
	URXE_REQUIRES(dev->mutex)
{
	struct urxe_mcast_group *g = find_group(dev, mgid);
	int err;

	*out = g;
	if (g)
		return g->num_members < URXE_MAX_MCAST_QPS ? 0 : ENOMEM;
	if (dev->num_mcast >= URXE_MAX_MCAST)
		return ENOMEM;
	g = calloc(1, sizeof(*g));
	if (!g)
		return ENOMEM;
	memcpy(g->mgid, mgid, sizeof(g->mgid));
	err = urxe_port_mcast_join(dev->port, mgid);
	if (err) {
		free(g);
		return err;
	}
	dev->num_mcast++;
	urxe_rlist_add(&dev->mcast_groups, &g->node);
	*out = g;
	return 0;
}

/* A group whose last member has left. */
static void group_put(struct urxe_device *dev, struct urxe_mcast_group *g) URXE_REQUIRES(dev->mutex)
{
	if (g->num_members)
		return;
	urxe_rlist_del(&dev->mcast_groups, &g->node);
	dev->num_mcast--;
	urxe_port_mcast_leave(dev->port, g->mgid);
	urxe_rcu_free(&g->rcu, g);
}

static int attach(struct urxe_device *dev, struct urxe_qp *qp, const uint8_t mgid[16])
	URXE_REQUIRES(dev->mutex)
{
	struct urxe_mcast_group *g;
	struct urxe_mcast_member *m;
	int err;

	/* Attaching again changes nothing: one detach ends it. */
	if (find_member(qp, mgid))
		return 0;
	err = group_get(dev, mgid, &g);
	if (err)
		return err;
	m = calloc(1, sizeof(*m));
	if (!m) {
		group_put(dev, g);
		return ENOMEM;
	}
	m->group = g;
	m->qp = qp;
	g->num_members++;
	cds_list_add_tail(&m->qp_node, &qp->mcast);
	urxe_rlist_add(&g->members, &m->node);
	return 0;
}

int urxe_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	struct urxe_device *dev = qp->dev;
	int err;

	if (urxe_device_check(dev))
		return EIO;
	/* The MLID means nothing on RoCE (IBTA A16.5.7). */
	if (qp->type != IBV_QPT_UD || qp->gsi || !urxe_gid_is_mcast(gid->raw))
		return EINVAL;
	urxe_mutex_lock(&dev->mutex);
	err = attach(dev, qp, gid->raw);
	urxe_mutex_unlock(&dev->mutex);
	return err;
}

int urxe_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct urxe_qp *qp = to_urxe_qp(ibqp);
	struct urxe_device *dev = qp->dev;
	struct urxe_mcast_member *m;

	if (qp->type != IBV_QPT_UD)
		return EINVAL;
	urxe_mutex_lock(&dev->mutex);
	m = find_member(qp, gid->raw);
	if (m) {
		cds_list_del(&m->qp_node);
		urxe_rlist_del(&m->group->members, &m->node);
		m->group->num_members--;
		group_put(dev, m->group);
		urxe_rcu_free(&m->rcu, m);
	}
	urxe_mutex_unlock(&dev->mutex);
	return m ? 0 : EINVAL;
}

bool urxe_mcast_attached(struct urxe_qp *qp)
{
	bool attached;

	urxe_mutex_lock(&qp->dev->mutex);
	attached = !cds_list_empty(&qp->mcast);
	urxe_mutex_unlock(&qp->dev->mutex);
	return attached;
}

static void put_group(struct urxe_json *j, struct urxe_mcast_group *g)
{
	char text[URXE_GID_STRLEN];
	struct urxe_rlist *l;

	urxe_json_object(j, NULL);
	urxe_json_string(j, "mgid", urxe_gid_print(g->mgid, text, sizeof(text)));
	urxe_json_array(j, "qpns");
	urxe_rlist_for_each (l, &g->members)
		urxe_json_number(j, NULL,
				 urxe_container_of(l, struct urxe_mcast_member, node)->qp->qpn);
	urxe_json_end(j);
	urxe_json_end(j);
}

void urxe_mcast_put_groups(struct urxe_json *j, struct urxe_device *dev)
{
	struct urxe_rlist *l;

	urxe_json_array(j, "groups");
	urxe_rcu_read_lock();
	urxe_rlist_for_each (l, &dev->mcast_groups)
		put_group(j, urxe_container_of(l, struct urxe_mcast_group, node));
	urxe_rcu_read_unlock();
	urxe_json_end(j);
}

static void packet_mgid(const struct urxe_decoded *pkt, uint8_t mgid[16])
{
	if (!pkt->ipv4) {
		memcpy(mgid, pkt->grh + 24, 16);
		return;
	}
	memset(mgid, 0, 10);
	mgid[10] = mgid[11] = 0xff;
	memcpy(mgid + 12, pkt->grh + 36, 4);
}

/* Its own datagram come back. The number alone does not say so: another node's QP may have it too.
 */
static bool is_own(const struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	return pkt->flags & URXE_PKT_LOOPBACK && pkt->deth.sqpn == qp->qpn;
}

bool urxe_mcast_receive(struct urxe_device *dev, const struct urxe_decoded *pkt)
{
	struct urxe_mcast_group *g;
	struct urxe_rlist *l;
	uint8_t mgid[16];

	/* The QPN and the address go together (IBTA 9.6.1.5): neither alone is a multicast. */
	if (!(pkt->flags & URXE_PKT_MULTICAST) || pkt->dqpn != URXE_MCAST_QPN ||
	    !(pkt->what & URXE_OPF_DETH))
		return false;
	packet_mgid(pkt, mgid);
	g = find_group(dev, mgid);
	if (!g)
		return false;
	urxe_rlist_for_each (l, &g->members) {
		struct urxe_mcast_member *m = urxe_container_of(l, struct urxe_mcast_member, node);

		if (m->qp->block_self_mcast && is_own(m->qp, pkt))
			continue;
		urxe_spin_lock(&m->qp->lock);
		if (!m->qp->destroyed)
			urxe_ud_receive(m->qp, pkt);
		urxe_spin_unlock(&m->qp->lock);
	}
	return true;
}
