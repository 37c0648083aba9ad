/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A provider that does next to nothing, for the tests of the shim: one device with a GID table
 * that has a hole. $FAKE_DEVICES says how many devices there are (default 1), "error" that the list
 * fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_provider.h"
#include "rdma_driver.h"
#include "urxe/shim_ops.h"

#define MAX_DEVICES 4

__attribute__((visibility("default"))) const struct urxe_shim_ops *urxe_shim_ops_v1(void);

struct fake_context {
	struct verbs_context vctx;
};

struct fake_channel {
	struct ibv_comp_channel channel;
	int wfd;
};

static const uint8_t gids[FAKE_GIDS][16] = FAKE_GID_TABLE;

static int query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	memset(attr, 0, size);
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "fake");
	attr->orig_attr.vendor_id = 0x7572;
	attr->orig_attr.node_guid = FAKE_GUID;
	attr->orig_attr.phys_port_cnt = 1;
	attr->orig_attr.max_qp = 7;
	return 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	if (port != 1)
		return EINVAL;
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = IBV_MTU_1024;
	attr->gid_tbl_len = FAKE_GIDS;
	attr->pkey_tbl_len = 1;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

static void free_context(struct ibv_context *ctx)
{
	struct fake_context *fake =
		urxe_rdma_container(urxe_rdma_context(ctx), struct fake_context, vctx);

	verbs_uninit_context(&fake->vctx);
	free(fake);
}

static const struct verbs_context_ops context_ops = {
	.query_device_ex = query_device_ex,
	.query_port = query_port,
	.free_context = free_context,
};

static struct verbs_context *alloc_context(struct ibv_device *device, int cmd_fd, void *arg)
{
	struct fake_context *ctx = NULL;

	ctx = urxe_rdma_alloc_context(device, cmd_fd, ctx, vctx);
	if (!ctx)
		return NULL;
	verbs_set_ops(&ctx->vctx, &context_ops);
	return &ctx->vctx;
}

static const struct verbs_device_ops device_ops = {
	.name = "fake",
	.alloc_context = alloc_context,
};

static struct verbs_device devices[MAX_DEVICES];

static bool is_ours(struct ibv_device *device)
{
	return urxe_rdma_device(device)->ops == &device_ops;
}

static struct ibv_device **get_device_list(int *num)
{
	const char *env = getenv("FAKE_DEVICES");
	struct ibv_device **list;
	int n = env ? atoi(env) : 1;

	*num = 0;
	if (env && !strcmp(env, "error")) {
		fprintf(stderr, "fake: bad configuration\n");
		errno = EINVAL;
		return NULL;
	}
	list = calloc(MAX_DEVICES + 1, sizeof(struct ibv_device *));
	if (!list)
		return NULL;
	for (int i = 0; i < n && i < MAX_DEVICES; i++, ++*num) {
		struct verbs_device *dev = &devices[i];

		if (!dev->ops) {
			snprintf(dev->device.name, sizeof(dev->device.name), "fake%d", i);
			dev->device.node_type = IBV_NODE_CA;
			dev->device.transport_type = IBV_TRANSPORT_IB;
			atomic_init(&dev->refcount, 1);
			dev->ops = &device_ops;
		}
		list[i] = &dev->device;
	}
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	free(list);
}

static __be64 get_device_guid(struct ibv_device *device)
{
	return FAKE_GUID;
}

static int get_device_index(struct ibv_device *device)
{
	return FAKE_INDEX;
}

static int query_gid(struct ibv_context *ctx, uint32_t port, uint32_t index,
		     struct ibv_gid_entry *entry)
{
	static const uint8_t zero[16];

	if (port != 1 || index >= FAKE_GIDS)
		return EINVAL;
	if (!memcmp(gids[index], zero, 16))
		return ENODATA;
	memcpy(entry->gid.raw, gids[index], 16);
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	return 0;
}

static int query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max,
			   size_t *num)
{
	struct ibv_gid_entry entry = {0};
	size_t n = 0;

	for (uint32_t i = 0; i < FAKE_GIDS; i++) {
		if (query_gid(ctx, 1, i, &entry))
			continue;
		if (n == max)
			return EINVAL;
		entries[n++] = entry;
	}
	*num = n;
	return 0;
}

static int query_pkey(struct ibv_context *ctx, uint32_t port, int index, __be16 *pkey)
{
	if (port != 1 || index)
		return EINVAL;
	*pkey = 0xffff;
	return 0;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *ctx)
{
	struct fake_channel *ch = calloc(1, sizeof(*ch));
	int fds[2];

	if (!ch || pipe2(fds, O_CLOEXEC)) {
		free(ch);
		return NULL;
	}
	ch->channel.context = ctx;
	ch->channel.fd = fds[0];
	ch->wfd = fds[1];
	return &ch->channel;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct fake_channel *ch = urxe_rdma_container(channel, struct fake_channel, channel);

	if (channel->refcnt)
		return EBUSY;
	close(channel->fd);
	close(ch->wfd);
	free(ch);
	return 0;
}

static int resolve_eth_l2(struct ibv_context *ctx, const struct ibv_ah_attr *attr, uint8_t mac[6],
			  uint16_t *vid)
{
	if (attr->port_num != 1)
		return EINVAL;
	memcpy(mac, FAKE_MAC, 6);
	if (vid)
		*vid = 0xffff;
	return 0;
}

const struct urxe_shim_ops *urxe_shim_ops_v1(void)
{
	/* import_device is not there yet: an older provider with a newer shim. */
	static const struct urxe_shim_ops ops = {
		.size = offsetof(struct urxe_shim_ops, import_device),
		.is_ours = is_ours,
		.get_device_list = get_device_list,
		.free_device_list = free_device_list,
		.get_device_guid = get_device_guid,
		.get_device_index = get_device_index,
		.query_gid = query_gid,
		.query_gid_table = query_gid_table,
		.query_pkey = query_pkey,
		.create_comp_channel = create_comp_channel,
		.destroy_comp_channel = destroy_comp_channel,
		.resolve_eth_l2 = resolve_eth_l2,
	};

	return &ops;
}
