/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Who has UDP port 4791 (udp_holder.h): the kernel's list of sockets, and who has the one of them
 * open. */
#include "netio/udp_holder.h"

#include <glob.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "urxe/owner.h"
#include "urxe/wire.h"

static void read_name(struct urxe_udp_holder *h)
{
	char path[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)h->pid);
	f = fopen(path, "re");
	if (!f || !fgets(h->comm, sizeof(h->comm), f))
		h->comm[0] = '\0';
	h->comm[strcspn(h->comm, "\n")] = '\0';
	if (f)
		fclose(f);
}

/* The first process that has it open, of those that we may look at. */
static void find_process(struct urxe_udp_holder *h, unsigned long inode)
{
	char want[40], link[64];
	glob_t all = {0};

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	glob("/proc/[0-9]*/fd/*", GLOB_NOSORT, NULL, &all);
	for (size_t i = 0; i < all.gl_pathc && !h->pid; i++) {
		ssize_t n = readlink(all.gl_pathv[i], link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		if (!strcmp(link, want))
			h->pid = (pid_t)strtol(all.gl_pathv[i] + strlen("/proc/"), NULL, 10);
	}
	globfree(&all);
	if (h->pid)
		read_name(h);
}

/* Has anybody a socket at the port? Its inode is 0 if it is the kernel's. */
static bool find_socket(const char *path, struct urxe_udp_holder *h, unsigned long *inode)
{
	FILE *f = fopen(path, "re");
	bool there = false;
	char line[512];
	unsigned local;

	while (f && !there && fgets(line, sizeof(line), f)) {
		/* Number, both addresses, state, queues, timer, retransmits, uid, timeout, inode.
		 */
		there = sscanf(line, " %*u: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %u %*s %lu", &local,
			       &h->uid, inode) == 3 &&
			local == URXE_UDP_DPORT;
	}
	if (f)
		fclose(f);
	return there;
}

bool urxe_udp_holder(struct urxe_udp_holder *h)
{
	unsigned long inode = 0;
	struct passwd pw, *found = NULL;
	char room[1024];

	memset(h, 0, sizeof(*h));
	if (!find_socket("/proc/net/udp", h, &inode) && !find_socket("/proc/net/udp6", h, &inode))
		return false;
	if (inode)
		find_process(h, inode);
	/* Its socket looks like one of root's whom nobody has open. */
	h->kernel = !inode || (!h->pid && !h->uid && !access("/sys/module/rdma_rxe", F_OK));
	if (!urxe_owner_known(h->uid))
		snprintf(h->user, sizeof(h->user), "(unknown here)");
	else if (!getpwuid_r(h->uid, &pw, room, sizeof(room), &found) && found)
		snprintf(h->user, sizeof(h->user), "%s", found->pw_name);
	else
		snprintf(h->user, sizeof(h->user), "%u", h->uid);
	return true;
}
