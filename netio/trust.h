/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Whose the socket of a link is. Who is at its other end shares memory with us: the frames, and
 * with net_virtio_user all of DPDK's heap. So it must be our user or root, unless the
 * configuration says `trust-peer`. Files alone, no DPDK.
 */
#ifndef URXE_NETIO_TRUST_H
#define URXE_NETIO_TRUST_H

#include <stddef.h>

struct urxe_devargs_socket;

/**
 * urxe_trust_socket - may this process meet its peer at @s?
 * @fd: what the port connects to (O_PATH; the caller closes it), or -1: nothing is there, or the
 *	port listens
 *
 * Its folder, and the socket if it is there, belong to the effective user or to root, and nobody
 * else may write to the folder. A sticky one will do where the port listens, since others cannot
 * take the socket away, and where the driver connects to /proc/self/fd/@fd: that is what was
 * checked, whatever becomes of the path. Folders above are not looked at. One that is not there is
 * good: the driver says what is wrong. Returns 0, or errno and a line in @err; EPERM: a stranger's.
 */
int urxe_trust_socket(const struct urxe_devargs_socket *s, int *fd, char *err, size_t errlen);

#endif
