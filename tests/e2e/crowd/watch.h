/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a process uses, as /proc shows it. */
#ifndef CROWD_WATCH_H
#define CROWD_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct usage {
	unsigned fds, rings; /* rings: mapped, of both ends */
	uint64_t pss, anon;  /* bytes; shared memory is divided by those who have it */
	uint64_t ring_pss;
};

/* False: it cannot be seen. */
bool watch_usage(pid_t pid, struct usage *u);

#endif
