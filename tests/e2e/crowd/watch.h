/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a process uses, as /proc shows it. */
#ifndef CROWD_WATCH_H
#define CROWD_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WATCH_RING (68ul << 10) /* bytes of a pair's first ring (netio/README.md) */

struct usage {
	unsigned fds, rings; /* rings: mapped, of both ends */
	uint64_t pss, anon;  /* bytes; shared memory is divided by those who have it */
	uint64_t ring_pss;
	uint64_t grown; /* bytes of rings larger than a pair's first one, likewise of both ends */
};

/* False: it cannot be seen. */
bool watch_usage(pid_t pid, struct usage *u);

#endif
