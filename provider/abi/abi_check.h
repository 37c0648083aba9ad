/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Is the libibverbs in this process the one rdma_driver.h describes?
 */
#ifndef URXE_ABI_CHECK_H
#define URXE_ABI_CHECK_H

#include <stddef.h>

/**
 * urxe_abi_check - verify that libibverbs has the private ABI that rdma_driver.h declares
 *
 * Looks for the version nodes, then has verbs_set_ops() copy a table of marks and looks where each
 * one went. Touches no device. Returns 0, or EPROTONOSUPPORT after a log line saying what was
 * found. Thread-safe, any number of times.
 */
int urxe_abi_check(void);

/**
 * urxe_abi_check_lib - the same for a library of one's choice
 * @lib: a handle from dlopen(), or RTLD_DEFAULT
 * @why: out, may be NULL: one line, without newline, on what was found; untouched on success
 * @size: bytes at @why
 */
int urxe_abi_check_lib(void *lib, char *why, size_t size);

#endif
