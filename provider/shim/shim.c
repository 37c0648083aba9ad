/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The functions of libibverbs that never ask a provider, with the conventions of their man pages.
 * For a device of ours they ask the provider, for any other the real library.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "rdma_driver.h"
#include "real.h"

#define EXPORT __attribute__((visibility("default")))

/* Not in a public header: it belongs to the private version node. */
EXPORT int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index,
			      enum ibv_gid_type_sysfs *type);

/* The real library's own look through the list must not meet devices without sysfs. */
static __thread unsigned real_devices_only;

static const struct urxe_shim_ops *ops_of_device(struct ibv_device *device)
{
	const struct urxe_shim_ops *ops;

	/* A kernel device: the provider need not be loaded to know. */
	if (urxe_rdma_device(device)->sysfs)
		return NULL;
	ops = plugin_ops();
	return ops && ops->is_ours(device) ? ops : NULL;
}

static const struct urxe_shim_ops *ops_of(struct ibv_context *ctx)
{
	return ops_of_device(ctx->device);
}

#define OFFERED(ops, member)                                                              \
	((ops)->size >= offsetof(struct urxe_shim_ops, member) + sizeof((ops)->member) && \
	 (ops)->member)

/* The convention of the older calls: -1 and errno. */
static int minus_one(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

static void hold(struct ibv_device *device)
{
	atomic_fetch_add(&urxe_rdma_device(device)->refcount, 1);
}

/* ---- devices ---- */

/* One array of both lists; references of the first pass on, the second's are taken here. */
static struct ibv_device **join(struct ibv_device **real, int nreal, struct ibv_device **ours,
				int nours)
{
	struct ibv_device **list = calloc((size_t)nreal + (size_t)nours + 1, sizeof(*list));

	if (!list)
		return NULL;
	for (int i = 0; i < nreal; i++)
		list[i] = real[i];
	for (int i = 0; i < nours; i++) {
		list[nreal + i] = ours[i];
		hold(ours[i]);
	}
	return list;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **real, **ours = NULL, **list;
	const struct urxe_shim_ops *ops;
	int nreal = 0, nours = 0, before = errno, err;

	/* No kernel support (ENOSYS) is no reason not to list ours. */
	real = real_verbs()->get_device_list(&nreal);
	err = errno;
	ops = real_devices_only ? NULL : plugin_ops();
	if (ops)
		ours = ops->get_device_list(&nours);
	if (!ours || !nours) {
		if (ours)
			ops->free_device_list(ours);
		if (num)
			*num = nreal;
		errno = err;
		return real;
	}
	list = join(real, nreal, ours, nours);
	ops->free_device_list(ours);
	if (list) {
		free(real);
		errno = before;
	} else {
		if (real)
			real_verbs()->free_device_list(real);
		errno = ENOMEM;
	}
	if (num)
		*num = list ? nreal + nours : 0;
	return list;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	const struct urxe_shim_ops *ops = ops_of_device(device);

	if (!ops)
		return real_verbs()->get_device_guid(device);
	return OFFERED(ops, get_device_guid) ? ops->get_device_guid(device) : 0;
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	const struct urxe_shim_ops *ops = ops_of_device(device);

	if (!ops)
		return real_verbs()->get_device_index(device);
	return OFFERED(ops, get_device_index) ? ops->get_device_index(device) : -1;
}

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	const struct urxe_shim_ops *ops = plugin_ops();
	struct ibv_context *ctx;

	if (ops && OFFERED(ops, import_device)) {
		ctx = ops->import_device(cmd_fd);
		if (ctx || errno != ENODEV)
			return ctx;
	}
	real_devices_only++;
	ctx = real_verbs()->import_device(cmd_fd);
	real_devices_only--;
	return ctx;
}

/* ---- completion channels ---- */

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	const struct urxe_shim_ops *ops = ops_of(ctx);

	if (!ops)
		return real_verbs()->create_comp_channel(ctx);
	if (OFFERED(ops, create_comp_channel))
		return ops->create_comp_channel(ctx);
	errno = EOPNOTSUPP;
	return NULL;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	const struct urxe_shim_ops *ops = ops_of(channel->context);

	if (!ops)
		return real_verbs()->destroy_comp_channel(channel);
	return OFFERED(ops, destroy_comp_channel) ? ops->destroy_comp_channel(channel) : EOPNOTSUPP;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	const struct urxe_shim_ops *ops = ops_of(channel->context);
	struct ibv_cq *got = NULL;
	int err = 0;

	if (ops && OFFERED(ops, get_comp_event))
		err = ops->get_comp_event(channel, &got);
	if (err || !got)
		return err ? minus_one(err) : real_verbs()->get_cq_event(channel, cq, context);
	*cq = got;
	*context = got->cq_context;
	return 0;
}

/* ---- GIDs, P_Keys, L2 addresses ---- */

static int query_entry(const struct urxe_shim_ops *ops, struct ibv_context *ctx, uint32_t port,
		       uint32_t index, struct ibv_gid_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	return OFFERED(ops, query_gid) ? ops->query_gid(ctx, port, index, entry) : EOPNOTSUPP;
}

/* Program and library may have been built with different ideas of an entry's length. */
static void copy_entry(void *to, size_t size, const struct ibv_gid_entry *entry)
{
	if (size > sizeof(*entry)) {
		memset((char *)to + sizeof(*entry), 0, size - sizeof(*entry));
		size = sizeof(*entry);
	}
	memcpy(to, entry, size);
}

EXPORT int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	const struct urxe_shim_ops *ops = ops_of(ctx);
	struct ibv_gid_entry entry;
	int err;

	if (!ops)
		return real_verbs()->query_gid(ctx, port, index, gid);
	err = index < 0 ? EINVAL : query_entry(ops, ctx, port, (uint32_t)index, &entry);
	/* An empty slot is a zero GID here. */
	if (err == ENODATA) {
		memset(gid, 0, sizeof(*gid));
		return 0;
	}
	if (!err)
		*gid = entry.gid;
	return minus_one(err);
}

EXPORT int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index,
			      enum ibv_gid_type_sysfs *type)
{
	const struct urxe_shim_ops *ops = ops_of(ctx);
	struct ibv_gid_entry entry;
	int err;

	if (!ops)
		return real_verbs()->query_gid_type(ctx, port, index, type);
	err = query_entry(ops, ctx, port, index, &entry);
	if (err && err != ENODATA)
		return minus_one(err);
	*type = !err && entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? IBV_GID_TYPE_SYSFS_ROCE_V2
							       : IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
	return 0;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *out, uint32_t flags, size_t entry_size)
{
	const struct urxe_shim_ops *ops = ops_of(ctx);
	struct ibv_gid_entry entry;
	int err;

	if (!ops)
		return real_verbs()->query_gid_ex(ctx, port, index, out, flags, entry_size);
	if (flags)
		return EINVAL;
	err = query_entry(ops, ctx, port, index, &entry);
	if (!err)
		copy_entry(out, entry_size, &entry);
	return err;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *out, size_t max,
				    uint32_t flags, size_t entry_size)
{
	const struct urxe_shim_ops *ops = ops_of(ctx);
	struct ibv_gid_entry *entries;
	size_t num = 0;
	int err;

	if (!ops)
		return real_verbs()->query_gid_table(ctx, out, max, flags, entry_size);
	if (!OFFERED(ops, query_gid_table))
		return -EOPNOTSUPP;
	if (flags || !entry_size)
		return -EINVAL;
	if (entry_size == sizeof(*out)) {
		err = ops->query_gid_table(ctx, out, max, &num);
		return err ? -err : (ssize_t)num;
	}
	entries = calloc(max ? max : 1, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	err = ops->query_gid_table(ctx, entries, max, &num);
	for (size_t i = 0; !err && i < num; i++)
		copy_entry((char *)out + i * entry_size, entry_size, &entries[i]);
	free(entries);
	return err ? -err : (ssize_t)num;
}

EXPORT int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	const struct urxe_shim_ops *ops = ops_of(ctx);

	if (!ops)
		return real_verbs()->query_pkey(ctx, port, index, pkey);
	return minus_one(OFFERED(ops, query_pkey) ? ops->query_pkey(ctx, port, index, pkey)
						  : EOPNOTSUPP);
}

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx, struct ibv_ah_attr *attr,
				       uint8_t mac[6], uint16_t *vid)
{
	const struct urxe_shim_ops *ops = ops_of(ctx);

	if (!ops)
		return real_verbs()->resolve_eth_l2_from_gid(ctx, attr, mac, vid);
	return OFFERED(ops, resolve_eth_l2) ? -ops->resolve_eth_l2(ctx, attr, mac, vid)
					    : -EOPNOTSUPP;
}
