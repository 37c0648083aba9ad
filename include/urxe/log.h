/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Log lines of the library. One line a call, to stderr by default.
 */
#ifndef URXE_LOG_H
#define URXE_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum urxe_log_level {
	URXE_LOG_NONE,
	URXE_LOG_ERR,
	URXE_LOG_WARN,
	URXE_LOG_INFO,
	URXE_LOG_DEBUG,
	URXE_LOG_TRACE, /* each packet, work request and completion */
};

/** urxe_log_threshold - the most talkative level that is printed; use the functions below. Each
 * library has its own: hidden, it is one load away. */
extern atomic_int urxe_log_threshold __attribute__((visibility("hidden")));

/**
 * urxe_log_set_level - choose the most talkative level that is printed
 *
 * Thread-safe; the default is URXE_LOG_WARN.
 */
void urxe_log_set_level(enum urxe_log_level level);

/** urxe_log_enabled - would a line of this level be printed? Thread-safe. */
static inline bool urxe_log_enabled(enum urxe_log_level level)
{
	return (int)level <= atomic_load_explicit(&urxe_log_threshold, memory_order_relaxed);
}

/**
 * urxe_log_level_parse - a level from its name (none err warn info debug trace)
 *
 * Returns 0, or EINVAL for a name that is none of these.
 */
int urxe_log_level_parse(const char *name, enum urxe_log_level *level);

/**
 * urxe_log_printf - print one line (no newline in FMT) if LEVEL is enabled
 *
 * Thread-safe, keeps errno. Use the macros below.
 */
void urxe_log_printf(enum urxe_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * urxe_log_due - may a line go out that anybody may cause, as often as he likes?
 * @told: when the last of its kind did; 0: none has
 * @now, @every: ns; so long is from one to the next
 *
 * Thread-safe: of several at once one may.
 */
static inline bool urxe_log_due(_Atomic uint64_t *told, uint64_t now, uint64_t every)
{
	uint64_t last = atomic_load(told);

	return (!last || now >= last + every) &&
	       atomic_compare_exchange_strong(told, &last, now ? now : 1);
}

#define urxe_log(level, ...)                                 \
	do {                                                 \
		if (urxe_log_enabled(level))                 \
			urxe_log_printf(level, __VA_ARGS__); \
	} while (0)
#define urxe_err(...)	urxe_log(URXE_LOG_ERR, __VA_ARGS__)
#define urxe_warn(...)	urxe_log(URXE_LOG_WARN, __VA_ARGS__)
#define urxe_info(...)	urxe_log(URXE_LOG_INFO, __VA_ARGS__)
#define urxe_debug(...) urxe_log(URXE_LOG_DEBUG, __VA_ARGS__)

#endif
