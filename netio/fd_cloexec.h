/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Descriptors that a library opens without O_CLOEXEC, as DPDK does: whatever the program executes
 * would have them.
 */
#ifndef URXE_NETIO_FD_CLOEXEC_H
#define URXE_NETIO_FD_CLOEXEC_H

#include <stdint.h>

#define URXE_FDS_MAX 4096 /* those above are left alone */

/** Which descriptors are open. */
struct urxe_fds {
	uint64_t open[URXE_FDS_MAX / 64];
};

/** urxe_fds_note - those that are open now. Without /proc: all. */
void urxe_fds_note(struct urxe_fds *fds);
/**
 * urxe_fds_cloexec - what was opened since urxe_fds_note() is closed by exec
 *
 * What other threads opened meanwhile, too: for moments of the process's beginning.
 */
void urxe_fds_cloexec(const struct urxe_fds *fds);

#endif
