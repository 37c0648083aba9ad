/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What `urxe doctor` found of one thing.
 */
#ifndef URXE_TOOL_DOCTOR_H
#define URXE_TOOL_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum verdict {
	OK,
	NOTE,	/* works without */
	MISSING /* does not */
};

struct finding {
	enum verdict verdict;
	char text[PATH_MAX + 64];
	const char *command; /* that mends it; NULL: none */
};

void doctor_find(struct finding *f, enum verdict v, const char *command, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/** doctor_has_rdma - whether one of rdma-core's libraries is in @dir; its path is in @name. */
bool doctor_has_rdma(const char *dir, char *name, size_t len);

/** doctor_program - whether the program @name, a path or one in $PATH, can load urxe's libraries.
 */
void doctor_program(struct finding *f, const char *name);

#endif
