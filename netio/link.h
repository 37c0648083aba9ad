/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What netio's stack asks of a link below it: whole Ethernet frames, in bursts.
 * Implementations: link_ethdev.c (any DPDK port), link_packet.c (an interface of the kernel's),
 * link_udp.c (its sockets), link_loop.c (no wire at all), tests/rig/link_sim.c (virtual time).
 * Lane-related calls come from the one thread that holds that lane.
 */
#ifndef URXE_NETIO_LINK_H
#define URXE_NETIO_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netio/sleep.h"

struct urxe_fabric;
struct urxe_port_config;

/** One frame: a window on a buffer of the link. */
struct urxe_frame {
	uint8_t *data; /* first byte of the Ethernet header */
	/* rx: where all of the frame is, in memory that its sender may change at any time; data has
	 * a copy of no more than its headers then, up to the last one before an RDMA payload. NULL:
	 * all of it is at data. Only RoCEv2 frames without UDP checksum and ICRC. */
	const uint8_t *rest;
	uint32_t len;	/* bytes of frame, without FCS */
	uint32_t room;	/* bytes that may be written from data on (tx) */
	uint32_t flags; /* URXE_FRAME_* */
	void *buf;	/* the link's: an mbuf, a simulated frame */
};

#define URXE_FRAME_TX_IPV4_CSUM 0x1 /* tx: please fill in the IPv4 header checksum */
#define URXE_FRAME_RX_BAD_CSUM	0x2 /* rx: the link found a bad IP or UDP checksum */
#define URXE_FRAME_RAW		0x4 /* not the link's: looped, for the raw tap alone */
#define URXE_FRAME_NO_ICRC	0x8 /* memory is its wire: its sender made no ICRC */

#define URXE_FRAME_LOOP 0x10 /* the stack's: to ourselves */

#define URXE_FRAME_ICRC_OK 0x20 /* rx: the link has found it to be right */

/** Who gets a frame to an address that other processes have as well. */
#define URXE_STEER_LOOP 0x1 /* ourselves */
#define URXE_STEER_LINK 0x2 /* whom the link finds */

/** The properties of a link that is up. */
struct urxe_link_info {
	char driver[64];
	uint8_t mac[6];
	uint32_t max_l3_mtu; /* the largest IP packet it carries as set up */
	unsigned lanes;
	bool peer;	     /* the other end is a process, which may come and go */
	bool card;	     /* it may deliver only a while after its link is up */
	bool no_icrc;	     /* it damages nothing: no ICRC is made for it */
	unsigned may_hold;   /* frames of rx() that it can do without for long: let_go() */
	uint32_t speed_mbps; /* 0 unknown */
	uint32_t tx_offloads, rx_offloads; /* URXE_OFFLOAD_* */
};

struct urxe_link_ops {
	const char *name;
	bool no_wire; /* nothing ever arrives, nobody else receives what is sent */
	bool prompt;  /* as urxe_port_prompt() */
	bool routes;  /* it has no next hops: resolve() is asked for each destination */
	/* All that it sends comes from this UDP port, with identification 0. 0: it sends what it is
	 * given. */
	uint16_t udp_sport;
	/* Frames that it would like to have at once to send, and to be asked for to receive: a call
	 * of its costs much, and little more for many. Up to URXE_BURST_MOST, of packets that are
	 * not large (urxe_port_burst()). 0: as all others. */
	unsigned burst;
	bool forks; /* a forked child may open one of its own while its parent has this one */
	/** mac: the MAC that the link is known to have before it is opened; false: unknown. May be
	 * NULL. */
	bool (*mac)(void *arg, const struct urxe_port_config *cfg, uint8_t mac[6]);
	/** fabric: the membership by which ports on this link have their identity and addresses,
	 * with a reference that is the port's; it is the @arg of all that follows. 0; EINVAL (a log
	 * line says why) or ENOMEM. NULL: they have none. */
	int (*fabric)(const struct urxe_port_config *cfg, struct urxe_fabric **f);
	/** open: bring up for @cfg, of @l3_mtu bytes; *@link is passed to all other calls. 0, or
	 * errno and a log line that says why. */
	int (*open)(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		    uint32_t l3_mtu, void **link, struct urxe_link_info *info);
	void (*close)(void *link);
	/** alloc: up to @n empty frames with room for the largest frame; returns how many. */
	unsigned (*alloc)(void *link, unsigned lane, struct urxe_frame *f, unsigned n);
	/** free: gives frames back, whether from alloc or rx; looks at buf alone. Those of another
	 * lane only where there is let_go(). */
	void (*free)(void *link, unsigned lane, struct urxe_frame *f, unsigned n);
	unsigned (*rx)(void *link, unsigned lane, struct urxe_frame *f, unsigned n);
	/** let_go: as free() of one, by a thread that may hold no lane. Thread-safe. NULL: it
	 * cannot do without one. */
	void (*let_go)(void *link, void *buf);
	/** tx: takes the first k frames of @f (they are the link's then); returns k. What commit()
	 * was called for goes out, too, also with @n 0. */
	unsigned (*tx)(void *link, unsigned lane, struct urxe_frame *f, unsigned n);
	/** up: carrier. Thread-safe. */
	bool (*up)(void *link);
	/** look: up() is to tell of what has just happened, too. The first lane is held. NULL: it
	 * does. */
	void (*look)(void *link);
	/** dead: the port is gone for good (unplugged, its driver failed). Thread-safe. NULL:
	 * never. */
	bool (*dead)(void *link);
	/** addr: an own address comes, or has gone; those that there are at the start come after
	 * the open. 0, or errno and a log line that says why: it cannot be ours. One call at a
	 * time. NULL: the link does not care. */
	int (*addr)(void *link, bool add, const uint8_t gid[16]);
	/** mcast: program the receive filter with these group MACs; 0 or errno. May be NULL. */
	int (*mcast)(void *link, const uint8_t (*macs)[6], unsigned n);
	/** group: join or leave an IP group, for links that know no MACs. 0 or errno. NULL: mcast
	 * is all it needs. */
	int (*group)(void *link, const uint8_t mgid[16], bool join);
	/** everything: receive all frames that are on the wire (@on), or those for the MAC and the
	 * groups of mcast() that the stack has a use for. NULL: it always receives all. */
	void (*everything)(void *link, bool on);
	/** dropped: frames that came and found no room, since the open. Thread-safe. NULL: unknown.
	 */
	uint64_t (*dropped)(void *link);
	/** refused: frames that tx() took and that can never be sent, since the open. Thread-safe.
	 * NULL: there are none. */
	uint64_t (*refused)(void *link);
	/** wait: as urxe_port_wait(); wake_fd turns readable for urxe_port_wake(). NULL: no
	 * interrupt. */
	void (*wait)(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how);
	/** nap: as urxe_port_nap(). NULL: no descriptor tells that a frame has come. */
	void (*nap)(void *link, uint64_t ns);
	/*
	 * Frames that are written where their receiver reads them: a link has all three or none.
	 */
	/**
	 * reserve: a frame of @len bytes straight in the memory of who has @dmac and the QPN @dqpn
	 *
	 * 0; EAGAIN: there is no room, for this receiver alone; ENOSPC: nor for one that waits, by
	 * alloc() and tx(), as it has read nothing for long; EINPROGRESS: we do not know it yet;
	 * EHOSTUNREACH: nobody has such a QPN there; ENOBUFS: not that way, but by alloc() and
	 * tx().
	 * @f NULL: only say whether a frame may go, and if not, why. One at a time a receiver.
	 */
	int (*reserve)(void *link, unsigned lane, const uint8_t dmac[6], uint32_t dqpn,
		       uint32_t len, struct urxe_frame *f);
	/** commit: what reserve() gave, by f->buf, is complete, with @len bytes and URXE_FRAME_*
	 * @flags, and leaves with the next tx(), or before. */
	void (*commit)(void *link, unsigned lane, void *buf, uint32_t len, uint32_t flags);
	/** abort: it is not sent. */
	void (*abort)(void *link, unsigned lane, void *buf);
	/** resolve: the MAC of who has an address; asks nobody. 0; EHOSTUNREACH; or EINPROGRESS:
	 * who leads there is being started. NULL: ARP and ND find it. Thread-safe. */
	int (*resolve)(void *link, const uint8_t gid[16], uint8_t mac[6]);
	/** way_mtu: bytes of the longest IP packet that the way from @src to @dst takes, as far as
	 * is known; with NULL of the way that takes most. 0: unknown. Works before the open, and
	 * sends nothing. NULL: the port's own. Thread-safe. */
	uint32_t (*way_mtu)(const struct urxe_port_config *cfg, const uint8_t *src,
			    const uint8_t *dst);
	/** far: does this MAC, of resolve(), lead to others than those on the link, whose QPNs and
	 * comm ids say nothing of where they are? NULL: none does. Thread-safe. */
	bool (*far)(void *link, const uint8_t mac[6]);
	/** nowhere: what to do where resolve() finds nobody: the end of a log line. NULL: nothing.
	 * Thread-safe. */
	const char *(*nowhere)(void *link);
	/** steer: URXE_STEER_* of a frame from an address of ours to one, where other processes
	 * have these too: by @dqpn alone, or where that is QP1 by what @f says; 0: nobody. NULL:
	 * our addresses are ours alone. Thread-safe. */
	unsigned (*steer)(void *link, uint32_t dqpn, const struct urxe_frame *f);
	/** wake: end a wait() now, or the next one. Besides @wake_fd, for a link that does not look
	 * at it. Thread-safe. NULL: it does. */
	void (*wake)(void *link);
	/** waits: do frames that tx() took wait for the way to a peer to be made? Thread-safe.
	 * NULL: never. */
	bool (*waits)(void *link);
	/** on_gone: have @fn called when a process that was talked to is no more, with its slot,
	 * when rx() has returned all that it sent; slot 0: of one that a frame was for, and is not
	 * there. @fn takes no lane and does not wait. Once, after the open. NULL: nobody knows. */
	void (*on_gone)(void *link, void (*fn)(void *arg, unsigned slot), void *arg);
	/** nobody: has no process this slot, now? Thread-safe. NULL if on_gone is. */
	bool (*nobody)(void *link, unsigned slot);
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

/**
 * urxe_link_check - can a device's `port` be at all, here and now? Starts nothing
 * @eal_args: of the configuration: with a driver of its own (-d) any driver may be meant
 *
 * 0, or EINVAL and in @err what is accepted: a link that there is, a driver of DPDK's, a PCI
 * address or an interface of this machine. What may come later (a peer, its socket) is not looked
 * at. Thread-safe.
 */
int urxe_link_check(const struct urxe_port_config *cfg, const char *eal_args, char *err,
		    size_t errlen);

#endif
