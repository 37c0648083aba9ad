/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How a command says what is wrong. */
#include <stdarg.h>

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
