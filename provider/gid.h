/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * GID and P_Key tables of a port, and L2 addresses, as struct urxe_shim_ops asks for them
 * (urxe/shim_ops.h says what each returns). All are thread-safe, take no lock of the caller's, and
 * start nothing; but urxe_resolve_eth_l2() starts the port, and waits for the neighbour.
 */
#ifndef URXE_PROVIDER_GID_H
#define URXE_PROVIDER_GID_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

int urxe_query_gid(struct ibv_context *ctx, uint32_t port, uint32_t index,
		   struct ibv_gid_entry *entry);
int urxe_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max,
			 size_t *num);
int urxe_query_pkey(struct ibv_context *ctx, uint32_t port, int index, __be16 *pkey);
int urxe_resolve_eth_l2(struct ibv_context *ctx, const struct ibv_ah_attr *attr, uint8_t mac[6],
			uint16_t *vid);

#endif
