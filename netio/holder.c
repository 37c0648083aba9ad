/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which process has a socket open (holder.h). */
#include "netio/holder.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pid_t urxe_holder_find(unsigned long inode)
{
	char want[40], link[64];
	glob_t all = {0};
	pid_t pid = 0;

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	glob("/proc/[0-9]*/fd/*", GLOB_NOSORT, NULL, &all);
	for (size_t i = 0; i < all.gl_pathc && !pid; i++) {
		ssize_t n = readlink(all.gl_pathv[i], link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		if (!strcmp(link, want))
			pid = (pid_t)strtol(all.gl_pathv[i] + strlen("/proc/"), NULL, 10);
	}
	globfree(&all);
	return pid;
}

void urxe_holder_name(pid_t pid, char *name, size_t len)
{
	char path[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (!f || !fgets(name, (int)len, f))
		name[0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	if (f)
		fclose(f);
}
