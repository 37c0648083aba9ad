/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Address handles (IBTA 11.2.2): a path of netio, made once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "door.h"
#include "urxe/free.h"

int urxe_path_from_ah(struct urxe_device *dev, const struct ibv_ah_attr *attr, uint16_t udp_sport,
		      uint8_t ecn, struct urxe_path **path)
{
	struct urxe_path_attr pa = {0};

	/* RoCE addresses by GID only (IBTA A16.5.1). */
	if (!attr->is_global || attr->port_num != 1)
		return EINVAL;
	pa.sgid_index = attr->grh.sgid_index;
	memcpy(pa.dgid, attr->grh.dgid.raw, sizeof(pa.dgid));
	pa.flow_label = attr->grh.flow_label & 0xfffff;
	pa.traffic_class = attr->grh.traffic_class;
	if (ecn)
		pa.traffic_class = (uint8_t)((pa.traffic_class & ~URXE_ECN_MASK) | ecn);
	pa.hop_limit = attr->grh.hop_limit;
	pa.udp_sport = udp_sport;
	return urxe_path_create(dev->port, &pa, path);
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
