/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What is logged meanwhile, to look into it. */
#ifndef URXE_TESTS_LOG_KEPT_H
#define URXE_TESTS_LOG_KEPT_H

#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct log_kept {
	FILE *file;
	int saved;
};

/** log_keep - from now on what goes to stderr goes to a file instead. */
static inline void log_keep(struct log_kept *k)
{
	k->file = tmpfile();
	CU_ASSERT_PTR_NOT_NULL_FATAL(k->file);
	fflush(stderr);
	k->saved = dup(STDERR_FILENO);
	CU_ASSERT_FATAL(k->saved >= 0 && dup2(fileno(k->file), STDERR_FILENO) >= 0);
}

/** log_kept - no longer; what it was, in @text. Returns how many lines. */
static inline unsigned log_kept(struct log_kept *k, char *text, size_t size)
{
	unsigned lines = 0;
	size_t len;

	fflush(stderr);
	CU_ASSERT(dup2(k->saved, STDERR_FILENO) >= 0);
	close(k->saved);
	rewind(k->file);
	len = fread(text, 1, size - 1, k->file);
	text[len] = '\0';
	fclose(k->file);
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	return lines;
}

#endif
