/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* GIDs, P_Keys and MAC addresses: what libibverbs does not ask a provider (urxe/shim_ops.h). */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "gid.h"
#include "gsi.h"
#include "netio/port.h"
#include "provider.h"
#include "urxe/cancel.h"
#include "urxe/wire.h"

#define PORT_NUM 1

int urxe_query_gid(struct ibv_context *ctx, uint32_t port, uint32_t index,
		   struct ibv_gid_entry *entry)
{
	struct urxe_gid_entry own;
	int ret;

	if (port != PORT_NUM)
		return EINVAL;
	if (urxe_device_inherited(to_urxe_dev(ctx)))
		return EIO;
	ret = urxe_port_gid(urxe_context_port(ctx), index, &own);
	if (ret)
		return ret;
	memset(entry, 0, sizeof(*entry));
	memcpy(entry->gid.raw, own.gid, sizeof(entry->gid.raw));
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	return 0;
}

int urxe_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max,
			 size_t *num)
{
	struct ibv_gid_entry entry;
	size_t n = 0;

	for (uint32_t i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		int ret = urxe_query_gid(ctx, PORT_NUM, i, &entry);

		if (ret == ENODATA)
			continue;
		if (ret)
			return ret;
		if (n == max)
			return EINVAL;
		entries[n++] = entry;
	}
	*num = n;
	return 0;
}

int urxe_query_pkey(struct ibv_context *ctx, uint32_t port, int index, __be16 *pkey)
{
	if (port != PORT_NUM || index != 0)
		return EINVAL;
	*pkey = 0xffff; /* the default P_Key, full member: the table has no other */
	return 0;
}

int urxe_resolve_eth_l2(struct ibv_context *ctx, const struct ibv_ah_attr *attr, uint8_t mac[6],
			uint16_t *vid)
{
	const struct timespec pause = {.tv_nsec = 200000};
	struct urxe_port_info info;
	struct urxe_gid_entry own;
	int ret, cancel;

	if (urxe_device_inherited(to_urxe_dev(ctx)))
		return EIO;
	if (attr->port_num != PORT_NUM ||
	    urxe_port_gid(urxe_context_port(ctx), attr->grh.sgid_index, &own))
		return EINVAL;
	/* netio ends the resolution by its own time-out; the service thread carries it on. */
	cancel = urxe_cancel_off(); /* it may start the device, with locks */
	while ((ret = urxe_gsi_resolve(ctx, attr->grh.sgid_index, &attr->grh.dgid, mac)) ==
	       EINPROGRESS)
		nanosleep(&pause, NULL);
	urxe_cancel_back(cancel);
	if (ret)
		return ret;
	if (vid) {
		urxe_port_query(urxe_context_port(ctx), &info);
		*vid = info.vlan;
	}
	return 0;
}
