/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Who has UDP port 4791 (udp_holder.h): the kernel's list of sockets, and who has the one of them
 * open. */
#include "netio/udp_holder.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "netio/holder.h"
#include "urxe/owner.h"
#include "urxe/wire.h"

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
		h->pid = urxe_holder_find(inode);
	if (h->pid)
		urxe_holder_name(h->pid, h->comm, sizeof(h->comm));
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
