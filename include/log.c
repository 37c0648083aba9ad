/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The log: one write() a line to stderr, at a level that the configuration sets. Thread-safe. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "urxe/cancel.h"
#include "urxe/log.h"

static const char *const level_names[] = {
	[URXE_LOG_NONE] = "none", [URXE_LOG_ERR] = "err",     [URXE_LOG_WARN] = "warn",
	[URXE_LOG_INFO] = "info", [URXE_LOG_DEBUG] = "debug", [URXE_LOG_TRACE] = "trace",
};

atomic_int urxe_log_threshold = URXE_LOG_WARN;

void urxe_log_set_level(enum urxe_log_level level)
{
	atomic_store_explicit(&urxe_log_threshold, (int)level, memory_order_relaxed);
}

int urxe_log_level_parse(const char *name, enum urxe_log_level *level)
{
	for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (!strcmp(name, level_names[i])) {
			*level = (enum urxe_log_level)i;
			return 0;
		}
	}
	return EINVAL;
}

void urxe_log_printf(enum urxe_log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[512];
	va_list ap;
	int n, m, cancel;

	/* One write a line: several threads and processes share stderr. */
	n = snprintf(line, sizeof(line), "urxe[%d] %s: ", (int)getpid(), level_names[level]);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (m > 0)
		n += m;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	cancel = urxe_cancel_off();
	if (write(STDERR_FILENO, line, (size_t)n) < 0) {
		/* Nowhere left to complain to. */
	}
	urxe_cancel_back(cancel);
	errno = saved;
}
