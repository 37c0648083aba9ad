/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the libibverbs shim finds here (urxe/shim_ops.h).
 */
#include <errno.h>
#include <fcntl.h>

#include "gid.h"
#include "provider.h"
#include "urxe/shim_ops.h"
#include "urxedv.h"

static __be64 device_guid(struct ibv_device *device)
{
	return urxe_container_of(device, struct urxe_device, vdev.device)->guid;
}

static int device_index(struct ibv_device *device)
{
	return -1; /* the kernel numbers its devices; ours have no such number */
}

static struct ibv_context *import_device(int cmd_fd)
{
	int flags = fcntl(cmd_fd, F_GETFL);

	/* Ours (context.c). Contexts live in one process: no descriptor could carry one. */
	errno = flags >= 0 && flags & O_PATH ? EOPNOTSUPP : ENODEV;
	return NULL;
}

static const struct urxe_shim_ops ops = {
	.size = sizeof(ops),
	.is_ours = urxedv_is_supported,
	.get_device_list = urxedv_get_device_list,
	.free_device_list = urxedv_free_device_list,
	.get_device_guid = device_guid,
	.get_device_index = device_index,
	.query_gid = urxe_query_gid,
	.query_gid_table = urxe_query_gid_table,
	.query_pkey = urxe_query_pkey,
	.create_comp_channel = urxe_channel_create,
	.destroy_comp_channel = urxe_channel_destroy,
	.resolve_eth_l2 = urxe_resolve_eth_l2,
	.import_device = import_device,
	.get_comp_event = urxe_channel_await,
};

__attribute__((visibility("default"))) const struct urxe_shim_ops *urxe_shim_ops_v1(void)
{
	return &ops;
}
