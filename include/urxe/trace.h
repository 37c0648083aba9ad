/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tracepoints: places that a tool can watch in a program that runs, by USDT (urxe-trace(7)), and
 * that are log lines too.
 *
 * A folder's trace.h lists its points as X(NAME, ARGUMENT, ...) and declares a function
 * urxe_trace_NAME for each; its trace.c defines them by urxe/probe.h. A call costs as much as the
 * function does; where packets pass, URXE_TRACE_ON goes before it: two loads and one branch.
 */
#ifndef URXE_TRACE_H
#define URXE_TRACE_H

#include "urxe/log.h"

#define URXE_TRACE_COUNT(...)					URXE_TRACE_COUNT_(__VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define URXE_TRACE_COUNT_(a, b, c, d, e, f, g, h, i, j, n, ...) n

/** URXE_TRACE_WATCHED - is a tool attached to the point? It counts the semaphore up meanwhile. */
#ifdef URXE_HAVE_SDT
#define URXE_TRACE_WATCHED(name) urxe_##name##_semaphore
#define URXE_TRACE_SEMAPHORE_(name)                            \
	extern volatile unsigned short urxe_##name##_semaphore \
		__attribute__((visibility("hidden")));
#else
#define URXE_TRACE_WATCHED(name) 0
#define URXE_TRACE_SEMAPHORE_(name)
#endif

/** URXE_TRACE_DECLARE - what a list of points is expanded by in its header. */
#define URXE_TRACE_DECLARE(name, ...)                                  \
	URXE_TRACE_SEMAPHORE_(name)                                    \
	enum {                                                         \
		URXE_TRACE_ARGS_##name = URXE_TRACE_COUNT(__VA_ARGS__) \
	};

/** URXE_TRACE_ON - does anybody want to know of a point that is logged at the level "trace"? */
#define URXE_TRACE_ON(name) \
	__builtin_expect(URXE_TRACE_WATCHED(name) | urxe_log_enabled(URXE_LOG_TRACE), 0)

#endif
