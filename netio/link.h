/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What netio's stack asks of a link below it: whole Ethernet frames, in bursts.
 * Implementations: link_ethdev.c (any DPDK port), link_packet.c (an interface of the kernel's),
 * link_loop.c (no wire at all), tests/rig/link_sim.c (virtual time). Lane-related calls come from
 * the one thread that holds that lane.
 */
#ifndef URXE_NETIO_LINK_H
#define URXE_NETIO_LINK_H

#include <stdbool.h>
#include <stdint.h>

struct urxe_port_config;

/** One frame: a window on a buffer of the link. */
struct urxe_frame {
	uint8_t *data;	/* first byte of the Ethernet header */
	uint32_t len;	/* bytes of frame, without FCS */
	uint32_t room;	/* bytes that may be written from data on (tx) */
	uint32_t flags; /* URXE_FRAME_* */
	void *buf;	/* the link's: an mbuf, a simulated frame */
};

#define URXE_FRAME_TX_IPV4_CSUM 0x1 /* tx: please fill in the IPv4 header checksum */
#define URXE_FRAME_RX_BAD_CSUM	0x2 /* rx: the link found a bad IP or UDP checksum */
#define URXE_FRAME_RAW		0x4 /* not the link's: looped, for the raw tap alone */

/** The properties of a link that is up. */
struct urxe_link_info {
	char driver[64];
	uint8_t mac[6];
	uint32_t max_l3_mtu; /* the largest IP packet it carries as set up */
	unsigned lanes;
	bool peer;			   /* the other end is a process, which may come and go */
	uint32_t speed_mbps;		   /* 0 unknown */
	uint32_t tx_offloads, rx_offloads; /* URXE_OFFLOAD_* */
};

struct urxe_link_ops {
	const char *name;
	bool no_wire; /* nothing ever arrives, nobody else receives what is sent */
	bool prompt;  /* as urxe_port_prompt() */
	/** mac: the MAC that the link is known to have before it is opened; false: unknown. May be
	 * NULL. */
	bool (*mac)(void *arg, const struct urxe_port_config *cfg, uint8_t mac[6]);
	/** open: bring up for @cfg, of @l3_mtu bytes; *@link is passed to all other calls. 0, or
	 * errno and a log line that says why. */
	int (*open)(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		    uint32_t l3_mtu, void **link, struct urxe_link_info *info);
	void (*close)(void *link);
	/** alloc: up to @n empty frames with room for the largest frame; returns how many. */
	unsigned (*alloc)(void *link, unsigned lane, struct urxe_frame *f, unsigned n);
	/** free: gives frames back, whether from alloc or rx; looks at buf alone. */
	void (*free)(void *link, unsigned lane, struct urxe_frame *f, unsigned n);
	unsigned (*rx)(void *link, unsigned lane, struct urxe_frame *f, unsigned n);
	/** tx: takes the first k frames of @f (they are the link's then); returns k. */
	unsigned (*tx)(void *link, unsigned lane, struct urxe_frame *f, unsigned n);
	/** up: carrier. Thread-safe. */
	bool (*up)(void *link);
	/** dead: the port is gone for good (unplugged, its driver failed). Thread-safe. NULL:
	 * never. */
	bool (*dead)(void *link);
	/** mcast: program the receive filter with these group MACs; 0 or errno. May be NULL. */
	int (*mcast)(void *link, const uint8_t (*macs)[6], unsigned n);
	/** everything: receive all frames that are on the wire (@on), or those for the MAC and the
	 * groups of mcast() that the stack has a use for. NULL: it always receives all. */
	void (*everything)(void *link, bool on);
	/** dropped: frames that came and found no room, since the open. Thread-safe. NULL: unknown.
	 */
	uint64_t (*dropped)(void *link);
	/** wait: as urxe_port_wait(); wake_fd turns readable for urxe_port_wake(). NULL: no
	 * interrupt. */
	void (*wait)(void *link, uint64_t ns, int wake_fd, bool *interrupt);
	/* The clock and randomness work without an open link. NULL: the system's. */
	uint64_t (*now)(void *arg);
	uint64_t (*random)(void *arg);
};

extern const struct urxe_link_ops urxe_link_loop_ops; /* no wire: own addresses only */

/**
 * urxe_link_select - the link for a device's `port`
 *
 * To be called for every configured device before the first link opens: EAL is started once and
 * must know then how much memory and which buses it needs. Starts nothing. Thread-safe.
 */
void urxe_link_select(const struct urxe_port_config *cfg, const struct urxe_link_ops **ops,
		      void **arg);

#endif
