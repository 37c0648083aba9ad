/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the libibverbs shim asks of the provider: the calls that libibverbs answers itself, from
 * sysfs or by a kernel command, without asking a provider. The shim (provider/shim) interposes
 * them, keeps the conventions of the public API, and comes here for devices of ours; everything
 * else reaches the provider through struct verbs_context_ops.
 *
 * The provider exports one function, urxe_shim_ops_v1(). All calls are thread-safe, return 0 or a
 * positive errno unless said otherwise, and never get a device or context that is not ours.
 * A member may be NULL: the shim then answers EOPNOTSUPP (the first three must be set).
 */
#ifndef URXE_SHIM_OPS_H
#define URXE_SHIM_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/** The provider's file name, and the function that it exports. */
#define URXE_PROVIDER_FILE  "liburxe-rdmav34.so"
#define URXE_SHIM_OPS_ENTRY "urxe_shim_ops_v1"

struct urxe_shim_ops {
	/** sizeof(struct urxe_shim_ops): members are only ever added, at the end. */
	size_t size;

	/** Is @device (any device of the process, or a foreign one) one of ours? Takes no lock. */
	bool (*is_ours)(struct ibv_device *device);

	/**
	 * The devices that the process's configuration names, as urxedv_get_device_list(): a
	 * NULL-terminated array, or NULL and errno (the provider has logged why).
	 *
	 * The array comes without references: the shim adds one (verbs_device.refcount) a device,
	 * which the application's ibv_free_device_list() drops; the provider keeps one of its own.
	 *
	 * DPDK's mlx5 PMD calls ibv_get_device_list() while EAL starts: no lock may be taken here
	 * that is held during that start.
	 */
	struct ibv_device **(*get_device_list)(int *num);

	/** Free the array of get_device_list. */
	void (*free_device_list)(struct ibv_device **list);

	/** Node GUID, network order. Not 0: 0 is how ibv_get_device_guid() reports an error. */
	__be64 (*get_device_guid)(struct ibv_device *device);

	/** A number >= 0 that no other device of the process has, or -1 for "no index". */
	int (*get_device_index)(struct ibv_device *device);

	/**
	 * One GID table entry, all its fields; ndev_ifindex is 0 where the kernel has no such link.
	 *
	 * Returns 0, ENODATA for an empty slot, EINVAL for a bad @port or an @index beyond the
	 * table.
	 */
	int (*query_gid)(struct ibv_context *ctx, uint32_t port, uint32_t index,
			 struct ibv_gid_entry *entry);

	/**
	 * All entries in use, of all ports.
	 *
	 * @max: entries that fit at @entries. *@num: out. EINVAL when they do not fit.
	 */
	int (*query_gid_table)(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max,
			       size_t *num);

	/** A P_Key, network order. EINVAL for a bad @port or index. */
	int (*query_pkey)(struct ibv_context *ctx, uint32_t port, int index, __be16 *pkey);

	/** A completion channel, as ibv_create_comp_channel(): NULL and errno. */
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *ctx);

	/** Destroy a channel of create_comp_channel. EBUSY while a CQ is attached. */
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);

	/**
	 * L2 address of @attr->grh.dgid seen from @attr->grh.sgid_index; blocks until it is known
	 *
	 * Starts the port. *@vid: VLAN of the port or 0xffff; @vid may be NULL.
	 * Returns 0, EINVAL (port, index), EHOSTUNREACH, ENETUNREACH, or why the port did not
	 * start.
	 */
	int (*resolve_eth_l2)(struct ibv_context *ctx, const struct ibv_ah_attr *attr,
			      uint8_t mac[6], uint16_t *vid);

	/**
	 * A context on the device behind @cmd_fd (a context's cmd_fd, dup'ed or received)
	 *
	 * NULL and errno ENODEV when @cmd_fd is nothing of ours: libibverbs is asked then. Any
	 * other errno is final.
	 */
	struct ibv_context *(*import_device)(int cmd_fd);

	/** NULL since get_comp_event is there. */
	int (*await_comp_channel)(struct ibv_comp_channel *channel);

	/**
	 * The next event of a channel of create_comp_channel; waits for one as read(2) of it would:
	 * what comes meanwhile wakes the caller alone, rather than a thread that wakes the caller
	 *
	 * Returns 0: it is *@cq's, or if *@cq is NULL libibverbs is to read it: it is there, or the
	 * channel does not block. EINTR; EBADF: it is being destroyed, and is not to be touched any
	 * more. NULL: libibverbs waits. A cancellation point.
	 */
	int (*get_comp_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq);
};

/** urxe_shim_ops_v1 - the table; lives as long as the process. Exported by the provider. */
const struct urxe_shim_ops *urxe_shim_ops_v1(void);

#endif
