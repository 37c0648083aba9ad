/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe's own calls, for programs that know it. They need neither the libibverbs shim nor
 * `urxe run`: link with `pkg-config urxe` and configure by the environment. Without the shim the
 * installed libibverbs fails what it does not ask a provider (provider/shim/interposed.txt):
 * completion channels, GIDs, P_Keys, GUIDs.
 */
#ifndef URXEDV_H
#define URXEDV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What the buffer is for that a parent domain's allocator is asked for (resource_type). */
enum urxedv_resource_type {
	URXEDV_RES_SQ = 1,
	URXEDV_RES_RQ,
	URXEDV_RES_SRQ,
	URXEDV_RES_CQ,
};

/*
 * FLUSH (IBTA A19), under the values that later libibverbs give it: its header may lack them.
 * These are access flags for regions and QPs, a work completion's opcode, and bits of the
 * device_cap_flags_ex of query_device_ex.
 */
#define URXEDV_ACCESS_FLUSH_GLOBAL     (1 << 8)
#define URXEDV_ACCESS_FLUSH_PERSISTENT (1 << 9)
#define URXEDV_QP_EX_WITH_FLUSH	       (1 << 11)
#define URXEDV_WR_FLUSH		       14
#define URXEDV_WC_FLUSH		       8
#define URXEDV_DEVICE_FLUSH_GLOBAL     (1ull << 38)
#define URXEDV_DEVICE_FLUSH_PERSISTENT (1ull << 39)

enum urxedv_flush_placement {
	URXEDV_FLUSH_GLOBAL = 1 << 0,
	URXEDV_FLUSH_PERSISTENT = 1 << 1,
};

enum urxedv_flush_level {
	URXEDV_FLUSH_RANGE,
	URXEDV_FLUSH_MR,
};

#pragma GCC visibility push(default)

/**
 * urxedv_get_device_list - the devices that this process's urxe configuration names
 * @num_devices: out, may be NULL
 *
 * The devices are good for ibv_open_device(). Returns a NULL-terminated array, to be freed with
 * urxedv_free_device_list(), or NULL and errno: EINVAL for a bad configuration (a line on stderr
 * says what), ENOMEM, EPROTONOSUPPORT for a libibverbs of another private ABI. No configuration:
 * an empty list. Starts no DPDK. Thread-safe. Devices live as long as the process.
 */
struct ibv_device **urxedv_get_device_list(int *num_devices);

/** urxedv_free_device_list - free the array, or NULL; the devices stay good. Thread-safe. */
void urxedv_free_device_list(struct ibv_device **list);

/** urxedv_is_supported - is this one of ours? NULL is not. Thread-safe. */
bool urxedv_is_supported(struct ibv_device *device);

/**
 * urxedv_wr_flush - as ibv_wr_flush() of later libibverbs: a FLUSH, between ibv_wr_start() and
 * ibv_wr_complete(), on a QP (RC, XRC) created with URXEDV_QP_EX_WITH_FLUSH
 * @rkey: of a region or window with URXEDV_ACCESS_FLUSH_*
 * @remote_addr, @length: bytes, at most 2^32 - 1; with URXEDV_FLUSH_MR they do not matter
 * @placement: enum urxedv_flush_placement, or'ed
 * @level: enum urxedv_flush_level
 *
 * By the thread that called ibv_wr_start(). ibv_wr_complete() returns what was wrong: EINVAL,
 * ENOMEM.
 */
void urxedv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t length,
		     uint8_t placement, uint8_t level);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
