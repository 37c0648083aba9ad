/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How a command says what is wrong. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "tool.h"

#ifndef URXE_NAME
#define URXE_NAME "urxe"
#endif

int tool_fail(const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fprintf(stderr, URXE_NAME ": %s\n", line);
	return TOOL_EXIT_USAGE;
}

int tool_flush(void)
{
	static bool said;
	int err = fflush(stdout) ? errno : 0;

	if (!err && !ferror(stdout))
		return 0;
	/* What could not be written is gone, so a second call has no errno. */
	if (!said)
		tool_fail("standard output: %s", err ? strerror(err) : "not all was written");
	said = true;
	return 1;
}
