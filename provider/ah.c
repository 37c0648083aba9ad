/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Address handles (IBTA 11.2.2): a path of netio, made once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "door.h"
#include "netio/port.h"
#include "urxe/free.h"
#include "urxe/gid.h"
#include "urxe/log.h"

/* The index of the first address of a family; of any, if there is none of that one. -1: none. */
static int first_gid(struct urxe_device *dev, bool ipv4, struct urxe_gid_entry *e)
{
	int other = -1;

	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		if (urxe_port_gid(dev->port, i, e))
			continue;
		if (e->ipv4 == ipv4)
			return (int)i;
		if (other < 0)
			other = (int)i;
	}
	if (other >= 0)
		urxe_port_gid(dev->port, (unsigned)other, e);
	return other;
}

/* What is wrong with an address, as text, and which of our GIDs would do; false: not its GIDs. */
static bool wrong_gid(struct urxe_device *dev, const struct ibv_ah_attr *attr, int err, char *text,
		      size_t len)
{
	static const uint8_t none[16];
	const uint8_t *dgid = attr->grh.dgid.raw;
	char own[URXE_GID_STRLEN], peer[URXE_GID_STRLEN];
	unsigned asked = attr->grh.sgid_index;
	struct urxe_gid_entry e, used;
	bool no_peer = !attr->is_global || !memcmp(dgid, none, sizeof(none));
	int index = first_gid(dev, no_peer || urxe_gid_is_v4(dgid), &e);

	if (attr->port_num != 1 || index < 0)
		return false;
	urxe_gid_print(e.gid, own, sizeof(own));
	urxe_gid_print(dgid, peer, sizeof(peer));
	if (!attr->is_global)
		snprintf(text, len,
			 "it has no GRH, which RoCE needs: give the index of a GID, %d for %s "
			 "(ibv_rc_pingpong: -g %d)",
			 index, own, index);
	else if (urxe_port_gid(dev->port, asked, &used))
		snprintf(text, len, "GID index %u is empty; %s has index %d", asked, own, index);
	else if (no_peer)
		snprintf(text, len,
			 "the peer's GID is ::, so the peer took an index that is empty, "
			 "or none (ibv_rc_pingpong: -g)");
	else if (e.ipv4 != urxe_gid_is_v4(dgid))
		snprintf(text, len,
			 "the peer's GID is %s, and there is no address of that kind here", peer);
	else if (used.ipv4 != e.ipv4)
		snprintf(text, len,
			 "the peer's GID is %s, and index %u is of another kind; %s has %d", peer,
			 asked, own, index);
	else if (err == ENETUNREACH)
		snprintf(text, len, "%s is on none of its networks, and there is no gateway (--gw)",
			 peer);
	else
		return false;
	return true;
}

/*
 * Programs say no more than that a QP could not be modified. What is wrong is mostly the index of a
 * GID, which is another one on each kind of device: the log has it, once a device.
 */
static int refused(struct urxe_device *dev, const struct ibv_ah_attr *attr, int err)
{
	char text[192];

	if (wrong_gid(dev, attr, err, text, sizeof(text)) && !atomic_exchange(&dev->told_gid, true))
		urxe_warn("%s: an address is refused: %s", dev->cfg.name, text);
	return err;
}

int urxe_path_from_ah(struct urxe_device *dev, const struct ibv_ah_attr *attr, uint16_t udp_sport,
		      uint8_t ecn, struct urxe_path **path)
{
	struct urxe_path_attr pa = {0};
	int err;

	/* RoCE addresses by GID only (IBTA A16.5.1). */
	if (!attr->is_global || attr->port_num != 1)
		return refused(dev, attr, EINVAL);
	pa.sgid_index = attr->grh.sgid_index;
	memcpy(pa.dgid, attr->grh.dgid.raw, sizeof(pa.dgid));
	pa.flow_label = attr->grh.flow_label & 0xfffff;
	pa.traffic_class = attr->grh.traffic_class;
	if (ecn)
		pa.traffic_class = (uint8_t)((pa.traffic_class & ~URXE_ECN_MASK) | ecn);
	pa.hop_limit = attr->grh.hop_limit;
	pa.udp_sport = udp_sport;
	err = urxe_path_create(dev->port, &pa, path);
	return err ? refused(dev, attr, err) : 0;
}

struct ibv_ah *urxe_create_ah(struct ibv_pd *ibpd, struct ibv_ah_attr *attr)
{
	struct urxe_pd *pd = to_urxe_pd(ibpd);
	struct urxe_device *dev = pd->dev;
	struct urxe_ah *ah;
	uint32_t label = attr->grh.flow_label & 0xfffff;
	uint16_t sport;
	int err = urxe_device_claim(dev, &dev->num_ah, URXE_MAX_AH);

	if (err)
		goto fail;
	ah = calloc(1, sizeof(*ah));
	if (!ah) {
		err = ENOMEM;
		goto fail;
	}
	/* Entropy per flow: the flow label folded to 14 bits where there is one (IBTA A17). */
	sport = (uint16_t)(0xc000 | ((label ^ label >> 14) & 0x3fff));
	err = urxe_path_from_ah(dev, attr, sport, URXE_ECN_NONE, &ah->path);
	if (err) {
		free(ah);
		goto fail;
	}
	ah->dev = dev;
	ah->attr = *attr;
	ah->ah.pd = ibpd;
	ah->ah.context = ibpd->context;
	ah->ah.handle = urxe_handle(&ah->ah);
	atomic_init(&ah->refs, 1);
	atomic_fetch_add(&pd->users, 1);
	return &ah->ah;

fail:
	atomic_fetch_sub(&dev->num_ah, 1);
	errno = err;
	return NULL;
}

void urxe_ah_put(struct urxe_ah *ah)
{
	if (atomic_fetch_sub(&ah->refs, 1) != 1)
		return;
	urxe_path_destroy(ah->path);
	urxe_free(ah);
}

int urxe_destroy_ah(struct ibv_ah *ibah)
{
	struct urxe_ah *ah = urxe_container_of(ibah, struct urxe_ah, ah);

	/* Sends that wait for the neighbour keep what they need of it. */
	atomic_fetch_sub(&to_urxe_pd(ibah->pd)->users, 1);
	atomic_fetch_sub(&ah->dev->num_ah, 1);
	urxe_ah_put(ah);
	return 0;
}
