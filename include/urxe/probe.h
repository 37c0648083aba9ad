/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * For the trace.c of a folder alone: defines its tracepoints, and fires them.
 *
 * A point is a nop in the code and a note in the library (.note.stapsdt), which says where it is
 * and where its arguments are; without <sys/sdt.h> (meson's option sdt) there is but the log line.
 */
#ifndef URXE_PROBE_H
#define URXE_PROBE_H

#include "urxe/trace.h"

#ifdef URXE_HAVE_SDT
#define _SDT_HAS_SEMAPHORES 1
#define SDT_USE_VARIADIC    1
#include <sys/sdt.h>

/** URXE_TRACE_DEFINE - what a list of points is expanded by in its trace.c. */
#define URXE_TRACE_DEFINE(name, ...) \
	volatile unsigned short urxe_##name##_semaphore __attribute__((section(".probes"), used));
#define URXE_TRACE_PROBE_(name, ...) STAP_PROBEV(urxe, name, __VA_ARGS__)
#else
#define URXE_TRACE_DEFINE(name, ...)
#define URXE_TRACE_PROBE_(name, ...) \
	do {                         \
	} while (0)
#endif

/**
 * URXE_TRACE_FIRE - the point itself, with as many arguments as its list names
 *
 * Integers and pointers; strings by urxe_trace_string().
 */
#define URXE_TRACE_FIRE(name, ...)                                                           \
	do {                                                                                 \
		_Static_assert(URXE_TRACE_COUNT(__VA_ARGS__) == (int)URXE_TRACE_ARGS_##name, \
			       "arguments as listed");                                       \
		URXE_TRACE_PROBE_(name, __VA_ARGS__);                                        \
	} while (0)

/**
 * urxe_trace_string - @s, with its first page present
 *
 * What watches a point must not fault: of a constant that nobody has read yet it would see nothing.
 */
static inline const char *urxe_trace_string(const char *s)
{
	(void)*(const volatile char *)s;
	return s;
}

#endif
