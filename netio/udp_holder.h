/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Who has UDP port 4791 in this network namespace. */
#ifndef URXE_NETIO_UDP_HOLDER_H
#define URXE_NETIO_UDP_HOLDER_H

#include <stdbool.h>
#include <sys/types.h>

struct urxe_udp_holder {
	bool kernel;   /* Soft-RoCE: no process has it */
	pid_t pid;     /* 0: of a process that we may not look at */
	char comm[32]; /* its name, with @pid */
	uid_t uid;     /* whose socket it is */
	char user[40]; /* the same by name, or as a number */
};

/** urxe_udp_holder - fill @h; false: nobody has it. Reads /proc, and takes its time. */
bool urxe_udp_holder(struct urxe_udp_holder *h);

#endif
