/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The state of a network interface of the kernel, by its index: a name may change.
 */
#ifndef URXE_NETIO_KERNEL_IF_H
#define URXE_NETIO_KERNEL_IF_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

/** What does not change while we use it, but for @mtu. */
struct urxe_kernel_if {
	uint8_t mac[6];
	uint32_t mtu;	     /* bytes of IP packet */
	uint32_t speed_mbps; /* 0: unknown */
};

/**
 * urxe_kernel_if_query - fill @info
 *
 * 0; ENXIO: there is no such interface (any more); EAFNOSUPPORT: it carries no Ethernet frames; or
 * another errno. Thread-safe.
 */
int urxe_kernel_if_query(unsigned ifindex, struct urxe_kernel_if *info);

/** urxe_kernel_if_name - its name, at the moment; @fd: any socket of its network namespace. 0;
 * ENXIO when it has been deleted; or errno. Thread-safe. */
int urxe_kernel_if_name(int fd, unsigned ifindex, char name[IF_NAMESIZE]);

/** urxe_kernel_if_up - is it up, and has it a carrier? @fd: any socket of its network namespace;
 * *@err: ENXIO when it has been deleted, else 0 or errno: then it is taken to be up. Thread-safe.
 */
bool urxe_kernel_if_up(int fd, unsigned ifindex, int *err);

/**
 * urxe_kernel_if_segments_udp - does the interface take UDP datagrams to be segmented as they are?
 * @bit: where the kernel has the answer; -1 at first
 *
 * Thread-safe. (ethtool's tx-udp-segmentation)
 */
bool urxe_kernel_if_segments_udp(unsigned ifindex, int *bit);

/** urxe_kernel_if_owns - is @gid (@ipv4: a mapped one) an address of the kernel's? False also when
 * it cannot be told. Thread-safe. */
bool urxe_kernel_if_owns(const uint8_t gid[16], bool ipv4);

/**
 * urxe_kernel_if_forwards - does the kernel pass on what comes to interface @name for the address
 * @gid (@ipv4: a mapped one), which is not its own? False also when it cannot be told. Thread-safe.
 */
bool urxe_kernel_if_forwards(const char *name, const uint8_t gid[16], bool ipv4);

#endif
