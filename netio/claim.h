/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who has a link's socket: one process listens at it, and one is its client. DPDK's drivers would
 * let a second one in, which takes the place of the first without a word. So each side holds a
 * lock on a file beside the socket. Likewise an address on a kernel's interface has one process, or
 * both would answer. No DPDK.
 */
#ifndef URXE_NETIO_CLAIM_H
#define URXE_NETIO_CLAIM_H

#include <stddef.h>
#include <stdint.h>

struct urxe_claim;
struct urxe_devargs_socket;

/**
 * urxe_claim_socket - take our side of the socket @s
 * @claim: for urxe_claim_release(); NULL: no file can be made there, and so nobody is kept out
 *
 * The file is PATH.lock for who listens and PATH.client.lock (memif: PATH.client-ID.lock) for who
 * connects. The lock is the process's: its end, however it comes, frees it, and a child that was
 * forked does not have it. What a dead process left at a path where we are to listen is removed.
 * Two ports of memif in a process may listen at one socket. Thread-safe. Returns 0, or EBUSY and
 * in @err a line that names the process.
 */
int urxe_claim_socket(const struct urxe_devargs_socket *s, struct urxe_claim **claim, char *err,
		      size_t errlen);

/**
 * urxe_claim_made - the socket at @path is ours, made after the claim; NULL: nothing
 *
 * Should the process be killed, and a child of its have the descriptor still, the next one that
 * claims the socket knows by that that nobody serves it.
 */
void urxe_claim_made(struct urxe_claim *claim, const char *path);

/** urxe_claim_release - the side is free, and its file goes; NULL: nothing. Not in a child. */
void urxe_claim_release(struct urxe_claim *claim);

/**
 * urxe_claim_address - an address on an interface of the kernel's is this process's
 * @gid: IPv4 as ::ffff:a.b.c.d
 * @fd: for urxe_claim_put(); -1: it is nobody's, and cannot be claimed
 *
 * The claim is the name of an abstract socket, and so good within the network namespace, as the
 * interface is. Returns 0, or EBUSY and in @err a line that names the process.
 */
int urxe_claim_address(unsigned ifindex, const uint8_t gid[16], int *fd, char *err, size_t errlen);

/** urxe_claim_put - the address is free, though a child that was forked may have the descriptor. */
void urxe_claim_put(int fd);

#endif
