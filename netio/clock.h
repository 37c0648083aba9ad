/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The clock of links that have a wire.
 */
#ifndef URXE_NETIO_CLOCK_H
#define URXE_NETIO_CLOCK_H

#include <stdint.h>

/** urxe_clock_now - the TSC in nanoseconds of CLOCK_MONOTONIC, where the kernel trusts it, or that
 * clock; @unused: as `now` of netio/link.h has it. Thread-safe. */
uint64_t urxe_clock_now(void *unused);

#endif
