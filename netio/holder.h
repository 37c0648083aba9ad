/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which process has a socket open, by /proc. */
#ifndef URXE_NETIO_HOLDER_H
#define URXE_NETIO_HOLDER_H

#include <stddef.h>
#include <sys/types.h>

/** urxe_holder_find - the first process that has the socket with this inode open, of those that we
 * may look at; 0: none. Takes its time. */
pid_t urxe_holder_find(unsigned long inode);

/** urxe_holder_name - what process @pid is called, in @name; "": that cannot be seen. */
void urxe_holder_name(pid_t pid, char *name, size_t len);

#endif
