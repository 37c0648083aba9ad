/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The `port` key: DPDK devargs, a PCI address or "loop"; and what we know of the drivers.
 * Pure strings and files, no DPDK.
 */
#ifndef URXE_NETIO_DEVARGS_H
#define URXE_NETIO_DEVARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct urxe_port_config;
struct urxe_devargs_out;

/** The UNIX socket at which a port meets its peer. */
struct urxe_devargs_socket {
	char path[256];
	int type;      /* SOCK_STREAM or SOCK_SEQPACKET */
	bool listens;  /* we make it; the peer connects to it */
	bool abstract; /* in no folder, without owner */
	char id[24];   /* of the interface, where a socket has several (memif's clients), or "" */
	bool by_fd;    /* it connects to a socket that we opened, and not to what has the path */
};

/** What a driver needs from us, measured with DPDK 22.11. */
struct urxe_driver_kind {
	const char *prefix; /* of the device name: "net_vhost" */
	const char *alias;  /* another one; may be NULL */
	const char *driver;
	/* Its MAC is an invention, nobody but us filters on it: ours is as good. */
	bool own_mac;
	bool peer; /* the other end is a process: its life is no carrier */
	/* It reports a smaller largest frame than it carries. */
	bool any_mtu;
	/* When its link is down, only this brings it up again: */
	enum {
		URXE_REVIVE_NONE,
		URXE_REVIVE_RESTART,
		URXE_REVIVE_REPLUG
	} revive;
	bool gated;	      /* its interrupt handlers must be kept out (netio/eal_gate.c) */
	bool rx_intr;	      /* rx interrupts work */
	uint32_t max_l3_mtu;  /* what it carries at most, where that is little; 0: no such limit */
	const char *ring_arg; /* argument: descriptors per queue; NULL: none */
	bool same_queues;     /* queue i talks to queue i of the peer: lanes without RSS */
	/* It frees sent frames when its ring is full, unless it is asked to do so sooner. */
	bool hoards;
	/* Its peer's processor writes to where its received frames are. Not set for cards: their
	 * hosts were not measured, and some are devices. */
	bool written;
	bool linked; /* it is in liburxe-dpdk-static.so, too, wherever that is built */
	/* Its thread does not notice a new listening socket (netio/vhost_nudge.c). */
	bool nudge;
	/* Private to devargs.c. Add what the user did not give; NULL: nothing. As
	 * urxe_devargs_complete(). */
	int (*complete)(struct urxe_devargs_out *out, const struct urxe_port_config *cfg,
			uint32_t l3_mtu, char *err, size_t errlen);
	/* Private to devargs.c. As urxe_devargs_socket(); NULL: none. */
	bool (*socket)(const char *port, struct urxe_devargs_socket *s);
};

/**
 * urxe_devargs_kind - by a port string, or by the name of a driver (a PCI address has none)
 *
 * Never NULL: a generic entry for drivers that we do not know.
 */
const struct urxe_driver_kind *urxe_devargs_kind(const char *port);

/**
 * urxe_devargs_rx_intr - does a frame that arrives at @port, of this @kind, end a wait by an
 * interrupt?
 *
 * Not behind an IOMMU of the peer's: a frame whose address is not known here yet is fetched at a
 * later look only, for which there is no interrupt.
 */
bool urxe_devargs_rx_intr(const char *port, const struct urxe_driver_kind *kind);

/** urxe_devargs_pci - is it a PCI address? Then its full form ("0000:03:00.0") in @addr. */
bool urxe_devargs_pci(const char *port, char *addr, size_t len);

/** urxe_devargs_name - the device name, what stands before the first comma. */
void urxe_devargs_name(const char *port, char *name, size_t len);

/** urxe_devargs_get - value of an argument; false when it is not given. */
bool urxe_devargs_get(const char *port, const char *key, char *val, size_t len);

/**
 * urxe_devargs_complete - the port string with arguments added that the frame size asks for
 *
 * What the user gave stands. Returns 0, E2BIG, or EOPNOTSUPP with a reason in @err.
 */
int urxe_devargs_complete(const struct urxe_port_config *cfg, uint32_t l3_mtu, char *out,
			  size_t len, char *err, size_t errlen);

/** urxe_devargs_socket - the socket of a port; false: it has none. */
bool urxe_devargs_socket(const char *port, struct urxe_devargs_socket *s);

/**
 * urxe_devargs_replace - @port with another value of argument @key, which it has, to @out
 *
 * False: it does not have it, or @out is too small.
 */
bool urxe_devargs_replace(const char *port, const char *key, const char *val, char *out,
			  size_t len);

/**
 * urxe_devargs_data_room - bytes of buffer that a frame of this L3 MTU needs, without headroom
 * @devargs: completed or not
 *
 * For a PCI card whole KiB, 2 at least: cards of e1000's family use no parts of one, and would
 * scatter a frame over two buffers, which costs a copy each.
 */
uint32_t urxe_devargs_data_room(const char *devargs, uint32_t l3_mtu);

#define URXE_LANE_DESC 1024 /* descriptors per queue, at the most */
#define URXE_LANE_BUFS 4096 /* buffers per lane: two rings full, and what the stack holds */

/** urxe_devargs_desc - descriptors per queue; @devargs: completed. */
uint16_t urxe_devargs_desc(const char *devargs);

/** urxe_devargs_pool_mb - memory for a device's buffers and rings, in MiB. */
unsigned urxe_devargs_pool_mb(const struct urxe_port_config *cfg, uint32_t l3_mtu);

/** urxe_devargs_queues - pairs of queues that a port is to have. */
unsigned urxe_devargs_queues(const struct urxe_port_config *cfg);

#endif
