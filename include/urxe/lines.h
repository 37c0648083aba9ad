/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Structs laid out by cache lines. Where thousands of them are in use, each line that a message
 * touches is one that has to be fetched.
 */
#ifndef URXE_LINES_H
#define URXE_LINES_H

#include <stdlib.h>
#include <string.h>

#define URXE_LINE 64 /* bytes; where it is more or less, things go on working */

/** URXE_LINES - so many bytes in whole lines */
#define URXE_LINES(size) (((size) + URXE_LINE - 1) / URXE_LINE * URXE_LINE)

/** URXE_NEW_LINE - the member that it stands before begins a line. */
#define URXE_NEW_LINE _Alignas(URXE_LINE)

/** urxe_line_fetch - begin to fetch the line of @p, which will be written to. Any address. */
static inline void urxe_line_fetch(const void *p)
{
#if defined(__x86_64__)
	/* The compiler must not count on PREFETCHW: it would read, and the line stays shared. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/** urxe_alloc_lines - zeroed memory for a struct of @size bytes that has such members; free() ends
 * it. NULL: there is none. */
static inline void *urxe_alloc_lines(size_t size)
{
	void *p = aligned_alloc(URXE_LINE, URXE_LINES(size));

	return p ? memset(p, 0, size) : NULL;
}

#endif
