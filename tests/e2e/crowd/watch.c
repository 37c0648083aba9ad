/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a process uses: descriptors, and its memory by mapping. */
#include "watch.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define RING "memfd:urxe-ring"

static unsigned count_fds(pid_t pid)
{
	char path[64];
	unsigned n = 0;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

bool watch_usage(pid_t pid, struct usage *u)
{
	char path[64], line[512];
	bool ring = false;
	unsigned long kb, from, to;
	FILE *f;

	*u = (struct usage){.fds = count_fds(pid)};
	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (line[0] >= 'A' && line[0] <= 'Z') {
			if (sscanf(line, "Pss: %lu kB", &kb) == 1) {
				u->pss += kb << 10;
				u->ring_pss += ring ? kb << 10 : 0;
			} else if (sscanf(line, "Anonymous: %lu kB", &kb) == 1) {
				u->anon += kb << 10;
			}
			continue;
		}
		ring = strstr(line, RING);
		u->rings += ring;
		if (ring && sscanf(line, "%lx-%lx", &from, &to) == 2 && to - from > WATCH_RING)
			u->grown += to - from;
	}
	fclose(f);
	return true;
}
