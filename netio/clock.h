/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The clock of links that have a wire, and spans of time.
 */
#ifndef URXE_NETIO_CLOCK_H
#define URXE_NETIO_CLOCK_H

#include <stdint.h>
#include <time.h>

/** urxe_clock_now - the TSC in nanoseconds of CLOCK_MONOTONIC, where the kernel trusts it, or that
 * clock; @unused: as `now` of netio/link.h has it. Thread-safe. */
uint64_t urxe_clock_now(void *unused);

/** urxe_clock_span - @ns as the kernel's calls have a span of time. */
static inline struct timespec urxe_clock_span(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u)};
}

#endif
