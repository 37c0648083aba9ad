/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe's own calls, for programs that know it. They need neither the libibverbs shim nor
 * `urxe run`: link with liburxe and configure by the environment.
 */
#ifndef URXEDV_H
#define URXEDV_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/** urxedv_free_device_list - free the array; opened devices stay good. */
void urxedv_free_device_list(struct ibv_device **list);

/** urxedv_is_supported - is this one of ours? */
bool urxedv_is_supported(struct ibv_device *device);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
