/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The real libibverbs, behind the shim.
 */
#ifndef URXE_SHIM_REAL_H
#define URXE_SHIM_REAL_H

#include <infiniband/verbs.h>
#include <sys/types.h>

#include "rdma_driver.h"

/** The real library's versions of what the shim interposes. */
struct real_verbs {
	struct ibv_device **(*get_device_list)(int *num);
	void (*free_device_list)(struct ibv_device **list);
	__be64 (*get_device_guid)(struct ibv_device *device);
	int (*get_device_index)(struct ibv_device *device);
	struct ibv_context *(*import_device)(int cmd_fd);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *ctx);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context);
	int (*query_gid)(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid);
	int (*query_gid_ex)(struct ibv_context *ctx, uint32_t port, uint32_t index,
			    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
	ssize_t (*query_gid_table)(struct ibv_context *ctx, struct ibv_gid_entry *entries,
				   size_t max, uint32_t flags, size_t entry_size);
	int (*query_gid_type)(struct ibv_context *ctx, uint8_t port, unsigned int index,
			      enum ibv_gid_type_sysfs *type);
	int (*query_pkey)(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey);
	int (*resolve_eth_l2_from_gid)(struct ibv_context *ctx, struct ibv_ah_attr *attr,
				       uint8_t mac[6], uint16_t *vid);
};

/**
 * real_verbs - the table, looked up at the first call. Thread-safe.
 *
 * Ends the process, with a line that says why, when the library behind the shim is not one:
 * that is a broken installation, and no call could be answered.
 */
const struct real_verbs *real_verbs(void);

#endif
