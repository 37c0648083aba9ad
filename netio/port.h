/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire as the provider sees it: ports, lanes, paths, frames. This is the one
 * interface between provider and netio. It knows no verbs, and shows no mbuf.
 *
 * A port is one Ethernet link with its addresses. It exists, and can be queried,
 * before its link does: urxe_port_start() brings the link up when the first frame
 * must be carried. A lane is a pair of rx and tx queues of the port; whoever holds
 * the lane's lock may receive and send on it. Any lane may carry any flow.
 *
 * Times are nanoseconds of the port's own monotonic clock, from urxe_port_now().
 * GIDs are 16 bytes in network order, IPv4 as ::ffff:a.b.c.d (IBTA A17).
 */
#ifndef URXE_NETIO_PORT_H
#define URXE_NETIO_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "netio/sleep.h"
#include "urxe/guarded.h"
#include "urxe/thread_safety.h"

struct urxe_port;
struct URXE_CAPABILITY("lane") urxe_lane;
struct urxe_path;
struct urxe_port_config;
struct urxe_link_ops;
struct urxe_ident;

#define URXE_PORT_MAX_GIDS 32 /* as many as a configuration may have addresses */
#define URXE_NO_VLAN	   0xffff
#define URXE_NEVER	   UINT64_MAX

#define URXE_MAX_LANES 64 /* of a port */

/** What a port is and can do. Valid before start unless said otherwise. */
struct urxe_port_info {
	char name[32];	   /* device name, "urxe0" */
	char link[256];	   /* what the configuration names as its port */
	char driver[64];   /* PMD or link name; "" before start */
	uint8_t mac[6];	   /* may change at start when none was configured */
	uint32_t l3_mtu;   /* bytes of IP packet */
	uint32_t path_mtu; /* 256..4096: largest RDMA payload that fits */
	uint32_t far_mtu; /* the same beyond the link's gateway or interfaces, if it is less; else 0
			   */
	uint16_t vlan;	  /* tag of every frame, or URXE_NO_VLAN */
	bool started;	  /* urxe_port_start() succeeded */
	bool link_up;	  /* carrier; true before start (nothing speaks against it) */
	bool peer;	  /* the other end is a process: when it goes the link is down */
	bool dead;	  /* the link is gone for good: nothing will ever be carried again */
	uint32_t speed_mbps;  /* 0 when unknown */
	unsigned lanes;	      /* 1 before start */
	uint32_t tx_offloads; /* URXE_OFFLOAD_* in use */
	uint32_t rx_offloads;
};

#define URXE_OFFLOAD_IPV4_CSUM 0x1
#define URXE_OFFLOAD_UDP_CSUM  0x2
#define URXE_OFFLOAD_VLAN      0x4

struct urxe_gid_entry {
	uint8_t gid[16];
	uint8_t prefix_len; /* of the address family: 0..32 or 0..128 */
	bool ipv4;
	uint16_t vlan;
};

/**
 * urxe_port_create - make a port from its configuration, without touching its link
 * @ops, @link_arg: the link below (netio/link.h)
 *
 * Returns 0, or EINVAL/ENOMEM. @cfg is copied.
 */
int urxe_port_create(struct urxe_port **port, const struct urxe_port_config *cfg,
		     const struct urxe_link_ops *ops, void *link_arg);

/**
 * urxe_port_inherit - in a forked child: a port that was not started is the child's own
 *
 * By the child's only thread, whatever other threads of the parent were about to do.
 */
void urxe_port_inherit(struct urxe_port *port);

/** urxe_port_destroy - stop the link and free; no lane may be held, all paths destroyed. */
void urxe_port_destroy(struct urxe_port *port);

/**
 * urxe_port_start - bring the link up; does nothing when it is up
 *
 * Thread-safe, may take a second. Returns 0, or the errno of what failed (a log
 * line says what). A failed start may be tried again.
 */
int urxe_port_start(struct urxe_port *port);

/** urxe_port_query - fill @info. Thread-safe. */
void urxe_port_query(struct urxe_port *port, struct urxe_port_info *info);

/**
 * urxe_port_awaits_carrier - the link is not up, and has not been waited for long enough yet
 *
 * The time begins with the first call, for the caller waits. Needs a started port; thread-safe.
 */
bool urxe_port_awaits_carrier(struct urxe_port *port);

/**
 * urxe_port_settles - the link has just come up for the first time, and nobody was reached yet
 *
 * For three seconds, on a card: its receive path, and the switch's port, may begin later than the
 * link. Needs a started port; thread-safe.
 */
bool urxe_port_settles(struct urxe_port *port);

/** urxe_port_carrier - the carrier has gone or come: soon our addresses are announced, and
 * neighbours are asked again. */
void urxe_port_carrier(struct urxe_port *port);

/** urxe_port_gid - the GID table: of the configuration, IPv4 entries first. 0, ENODATA for an empty
 * slot, EINVAL beyond.
 */
int urxe_port_gid(struct urxe_port *port, unsigned index, struct urxe_gid_entry *entry);

/**
 * urxe_port_addr_add - one more own address, in the first empty slot of the GID table
 * @prefix_len: of the address family
 *
 * It is announced, and probed for a duplicate, as at start. 0; EEXIST: it is there;
 * EINVAL: no host's address; ENOSPC: no slot is empty; EBUSY: another process has it on the link's
 * interface; EADDRNOTAVAIL: the link cannot receive at it; ENOMEM; or the errno of the link, which
 * does not take one more group. Thread-safe; call with no lane held.
 */
int urxe_port_addr_add(struct urxe_port *port, const uint8_t gid[16], unsigned prefix_len);

/**
 * urxe_port_addr_del - an own address goes; its slot stays empty, the indices of others stay
 *
 * From now on nothing is received at nor sent from it: paths from it return EHOSTUNREACH until it
 * comes back. 0, or EADDRNOTAVAIL: there is none such with this prefix. Thread-safe, as above.
 */
int urxe_port_addr_del(struct urxe_port *port, const uint8_t gid[16], unsigned prefix_len);

/**
 * urxe_port_follow_host - the host's addresses may have changed
 * @fn: called for each own address that is to come or go; it does so, by urxe_port_addr_add() or
 * urxe_port_addr_del(), and tells whoever must know
 *
 * @fn is called with the port's host_lock, so that of two threads one alone makes the changes: it
 * may take locks that come behind that one (provider/threads.md), and so whoever has one of those
 * calls neither this nor urxe_port_scope().
 *
 * To be called now and then: one system call when nothing changed. Nothing on a port whose
 * addresses are configured, and while another thread is at it. Thread-safe, with no lane held.
 * Loopback addresses, once there for want of others, stay.
 */
void urxe_port_follow_host(struct urxe_port *port,
			   void (*fn)(void *arg, bool add, const uint8_t gid[16],
				      unsigned prefix_len),
			   void *arg);

/** urxe_port_far_l3 - bytes of IP packet that go beyond the link, at most; 0: unknown, or no less
 * than on it. */
uint32_t urxe_port_far_l3(struct urxe_port *port);
/** urxe_port_path_mtu - the largest RDMA payload on the way to a destination, 256..4096. */
uint32_t urxe_port_path_mtu(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16]);

/** urxe_port_on_host - are the port's addresses the host's? Then nobody else changes them. */
bool urxe_port_on_host(const struct urxe_port *port);

/** urxe_port_scope - the host's interface that has a link-local own address (sin6_scope_id); 0:
 * none, or unknown. Thread-safe. */
uint32_t urxe_port_scope(struct urxe_port *port, const uint8_t gid[16]);

/** urxe_port_gid_find - index of an own address, or -1. Loopback addresses (127/8, ::1) are not
 * own. */
int urxe_port_gid_find(struct urxe_port *port, const uint8_t gid[16]);

/**
 * urxe_port_route - the source address for a destination
 *
 * Picks the own address on whose prefix @dgid lies, else one of the family that has a
 * gateway. An own address, 127.0.0.0/8 and ::1 answer with an own address as both.
 * @sgid_index: out. @next: out, may be NULL: the destination GID to put on the wire
 * (differs from @dgid for loopback addresses only).
 * Returns 0, or ENETUNREACH. Thread-safe.
 */
int urxe_port_route(struct urxe_port *port, const uint8_t dgid[16], unsigned *sgid_index,
		    uint8_t next[16]);

/** urxe_port_ident - who we are on this port: allots QPNs, comm ids, RDMA ports (netio/identity.h).
 */
struct urxe_ident *urxe_port_ident(struct urxe_port *port);

/** urxe_port_now - the port's monotonic clock, ns. Thread-safe, cheap. Works before start. */
uint64_t urxe_port_now(struct urxe_port *port);

/** urxe_port_is_card - a network card, on PCI? Once it is started. */
bool urxe_port_is_card(const struct urxe_port *port);

/** urxe_port_random - 64 random bits (of the seed, on a simulated link). Thread-safe. */
uint64_t urxe_port_random(struct urxe_port *port);

/**
 * urxe_port_wait - sleep until frames may have come, urxe_port_wake() or @ns passed
 *
 * Called by one thread at a time, which holds no lane. May return early. Where the link has no
 * interrupt to wait for, a link with traffic expected must be waited for in short steps:
 * @how->interrupt, out: does an arriving frame end the wait? In: should it, however short the wait
 * is? A link that is prompt does that.
 */
void urxe_port_wait(struct urxe_port *port, uint64_t ns, struct urxe_sleep *how);

/** urxe_port_naps - can urxe_port_nap() end by a frame? */
bool urxe_port_naps(const struct urxe_port *port);

/**
 * urxe_port_nap - sleep until frames may have come, or @ns passed
 *
 * For threads other than the one of urxe_port_wait(), of which it takes no urxe_port_wake(). Any
 * number of them, which hold no lane; the port is started. May return early.
 */
void urxe_port_nap(struct urxe_port *port, uint64_t ns);

/**
 * urxe_port_prompt - can an arriving frame end a wait of any length, at no cost to its sender?
 */
bool urxe_port_prompt(const struct urxe_port *port);

#define URXE_BURST	32 /* frames to send, and to receive, at a time */
#define URXE_BURST_MOST 64

/** urxe_port_burst - so many packets at a time its link likes to be asked for: URXE_BURST ..
 * URXE_BURST_MOST. */
unsigned urxe_port_burst(const struct urxe_port *port);

/** urxe_port_waits - do frames that were sent wait in this process, for the way to a peer to be
 * made? Whoever has a turn sends them. Thread-safe. */
bool urxe_port_waits(const struct urxe_port *port);

/**
 * urxe_port_call - ask some of whom we know at the other end of a link to a process (info.peer)
 * whether they are there
 *
 * For the end of the process. Whoever answers has fetched what was sent before, on the first lane.
 * Needs a started port, and no lane held. False: nobody is known, the link is another one, or its
 * first lane is in use for longer than urxe_lane_lock_at_exit() waits.
 */
bool urxe_port_call(struct urxe_port *port);

/** urxe_port_unanswered - nobody has answered urxe_port_call() yet, and the link is up. Answers
 * come in while a lane is received from. Thread-safe. */
bool urxe_port_unanswered(const struct urxe_port *port);

/** urxe_port_wired - is there anybody but ourselves that a frame may reach? Works before start. */
bool urxe_port_wired(const struct urxe_port *port);

/** urxe_port_wake - end a urxe_port_wait() now. Thread-safe, async; a wake before the wait counts.
 */
void urxe_port_wake(struct urxe_port *port);

/** urxe_port_wake_by - end a urxe_port_wait() that would be longer than until @when, of which who
 * waits may not know: urxe_port_next_tick() has it already. Thread-safe. */
void urxe_port_wake_by(struct urxe_port *port, uint64_t when);

/** urxe_port_lane - lane @i, i < info.lanes. Valid after start, until destroy. */
struct urxe_lane *urxe_port_lane(struct urxe_port *port, unsigned i);

/** urxe_lane_trylock - take the lane if nobody has it. */
bool urxe_lane_trylock(struct urxe_lane *lane) URXE_TRY_ACQUIRE(true, lane);
/** urxe_lane_lock - take the lane, waiting (spins, then yields). */
void urxe_lane_lock(struct urxe_lane *lane) URXE_ACQUIRE(lane);
/**
 * urxe_lane_lock_at_exit - take the lane, unless it is not given back in 1,000 sleeps of 100 us: a
 * tenth of a second, and more where the caller itself waits for a processor
 *
 * Who has it is put aside for longer than that on no machine that is merely busy; but it may be
 * the caller, by exit() in a signal's handler, or be stopped.
 */
bool urxe_lane_lock_at_exit(struct urxe_lane *lane) URXE_TRY_ACQUIRE(true, lane);
/** urxe_lane_unlock - flush what was committed, and give the lane back. */
void urxe_lane_unlock(struct urxe_lane *lane) URXE_RELEASE(lane);

/* ---- receive: all calls need the lane's lock ---- */

#define URXE_PKT_MULTICAST 0x1
#define URXE_PKT_LOOPBACK  0x2 /* sent by this port itself */
#define URXE_PKT_TWICE	   0x4 /* its ICRC counts the headers twice (urxe_tx_headers_twice()) */

/** The ECN field of an IP header: the lower two bits of the traffic class (RFC 3168 5). */
enum urxe_ecn {
	URXE_ECN_NONE = 0, /* its sender heeds no marks */
	URXE_ECN_ECT1 = 1, /* "ECN-capable transport": a switch may mark it, and need not drop it */
	URXE_ECN_ECT0 = 2, /* likewise: what RoCE senders use */
	URXE_ECN_CE = 3,   /* marked: "congestion experienced" */
};
#define URXE_ECN_MASK 3

/** A received RoCEv2 packet: addressed to us (or multicast), lengths and ICRC checked. */
struct urxe_packet {
	const uint8_t *bth; /* BTH and the headers behind it */
	/* The same, with all that follows, up to the end of the pad; the ICRC is cut off. It may be
	 * another copy, which the sender can change: headers are read at bth, the payload here. */
	const uint8_t *body;
	uint32_t len;	   /* bytes from body, at least 12 */
	const uint8_t *l3; /* IPv4 (20 bytes, no options) or IPv6 (40 bytes) header */
	bool ipv4;
	uint8_t flags; /* URXE_PKT_* */
	uint8_t ecn;   /* enum urxe_ecn */
	uint8_t src_mac[6];
	uint16_t vlan;	    /* URXE_NO_VLAN when untagged */
	int sgid_index;	    /* own GID it was sent to; -1 for multicast */
	uint16_t udp_sport; /* host order */
	void *frame;	    /* netio's */
};

/**
 * urxe_lane_rx - borrow up to @n packets
 *
 * Handles everything that is not RoCEv2 itself (ARP, ND, ICMP, drops), so it may return 0
 * though frames came. Packets stay valid until urxe_lane_release(). @n <= 64.
 */
unsigned urxe_lane_rx(struct urxe_lane *lane, struct urxe_packet *pkts, unsigned n)
	URXE_REQUIRES(lane);

/** urxe_lane_release - give back borrowed packets. */
void urxe_lane_release(struct urxe_lane *lane, struct urxe_packet *pkts, unsigned n)
	URXE_REQUIRES(lane);

/**
 * urxe_packet_hold - a borrowed packet stays valid until urxe_port_let_go() of what this returns
 *
 * NULL: the link cannot do without its frame, or without one more: make a copy. By whoever has
 * the lane; the port must not be destroyed before all are back.
 */
void *urxe_packet_hold(struct urxe_port *port, struct urxe_packet *pkt);

/** urxe_port_let_go - give back what urxe_packet_hold() returned. Thread-safe, any lock held. */
void urxe_port_let_go(struct urxe_port *port, void *frame);

/**
 * urxe_lane_let_go - the same of @n <= URXE_BURST frames, by who has a lane, whichever they came by
 *
 * It receives into them next, while they are in the processor's cache.
 */
void urxe_lane_let_go(struct urxe_lane *lane, void *const *frames, unsigned n) URXE_REQUIRES(lane);

/**
 * urxe_lane_tick - timers of the lane, and the port's for neighbours and groups
 *
 * Cheap when nothing is due: for every turn of a lane. Returns the time of the next, or URXE_NEVER.
 */
uint64_t urxe_lane_tick(struct urxe_lane *lane, uint64_t now) URXE_REQUIRES(lane);

/** urxe_port_next_tick - when a urxe_lane_tick() has something to do at the earliest. Thread-safe.
 */
uint64_t urxe_port_next_tick(struct urxe_port *port);

/* ---- send: all calls need the lane's lock ---- */

/** A frame being filled; the members are for the inline helpers and the provider's headers. */
struct urxe_tx {
	uint8_t *bth;	/* write BTH and extension headers here */
	uint8_t *cur;	/* netio's: where the next payload byte goes */
	uint8_t *end;	/* netio's: end of pad, where the ICRC goes */
	uint32_t crc;	/* netio's: running ICRC */
	void *frame;	/* netio's */
	uint8_t *l2;	/* netio's: start of the frame */
	uint32_t room;	/* netio's: bytes of frame */
	uint32_t flags; /* netio's */
};

#define URXE_TX_UNSUMMED \
	0x28 /* netio's: flags of a frame whose ICRC is not made as it is written */

/**
 * urxe_tx_begin - reserve a frame for @len bytes from BTH to the end of the pad
 * @dqpn: the QPN that its BTH will have: some links have receivers for each
 *
 * Returns 0; EAGAIN: no room now, or a group's link is not up yet, try after the next progress;
 * EINPROGRESS: the neighbour is being resolved, likewise; EHOSTUNREACH: resolution failed (it is
 * tried again by later calls, at a bounded rate), or the own address was removed; EMSGSIZE: longer
 * than the port carries.
 */
int urxe_tx_begin(struct urxe_lane *lane, struct urxe_path *path, uint32_t dqpn, struct urxe_tx *tx,
		  uint32_t len) URXE_REQUIRES(lane);

/** urxe_tx_sum_headers, urxe_tx_append_summed - of urxe_tx_headers() and urxe_tx_append(), what few
 * small frames need. */
void urxe_tx_sum_headers(struct urxe_tx *tx, uint32_t hdr_len);
int urxe_tx_append_summed(struct urxe_tx *tx, const void *src, uint32_t len);

/** urxe_tx_headers - the first @hdr_len bytes at tx->bth are written; starts the ICRC. Once a
 * frame. */
static inline void urxe_tx_headers(struct urxe_tx *tx, uint32_t hdr_len)
{
	tx->cur = tx->bth + hdr_len;
	if (!(tx->flags & URXE_TX_UNSUMMED))
		urxe_tx_sum_headers(tx, hdr_len);
}

/**
 * urxe_tx_headers_twice - instead of urxe_tx_headers(), of a packet without payload: its ICRC goes
 * on over the same @hdr_len bytes once more, now as they are
 *
 * It is what some peers make and want of a FLUSH (provider/quirks.md: flush-icrc).
 */
void urxe_tx_headers_twice(struct urxe_tx *tx, uint32_t hdr_len);

/**
 * urxe_tx_append - copy payload (or pad zeros when @src is NULL) and carry the ICRC on
 *
 * Returns 0, or EFAULT: @src cannot be read (urxe/guarded.h). The frame is of no use then:
 * urxe_tx_abort().
 */
static inline int urxe_tx_append(struct urxe_tx *tx, const void *src, uint32_t len)
{
	uint8_t *to = tx->cur;

	if (!src || !(tx->flags & URXE_TX_UNSUMMED) || len > (uint32_t)(tx->end - to))
		return urxe_tx_append_summed(tx, src, len);
	tx->cur = to + len;
	return urxe_guarded_copy(to, src, len);
}

/** urxe_tx_commit - the frame is complete: all @len bytes of urxe_tx_begin() were given. */
void urxe_tx_commit(struct urxe_lane *lane, struct urxe_tx *tx) URXE_REQUIRES(lane);

/** urxe_tx_abort - give the reserved frame back unsent. */
void urxe_tx_abort(struct urxe_lane *lane, struct urxe_tx *tx) URXE_REQUIRES(lane);

/** urxe_lane_flush - hand what was committed to the link. Also done by unlock. */
void urxe_lane_flush(struct urxe_lane *lane) URXE_REQUIRES(lane);

/* ---- raw frames: whole, as they are on the wire, without FCS ---- */

/**
 * urxe_raw_fn - a frame has arrived, or was sent to ourselves
 * @frame: good during the call only
 * @roce: it looks like RoCEv2 to our own address
 *
 * With the lane's lock held. True: somebody took a copy; the stack gets the frame all the same, but
 * does not count it as dropped when it has no use for it.
 */
typedef bool urxe_raw_fn(void *arg, const uint8_t *frame, uint32_t len, bool roce);

/**
 * urxe_port_raw_tap - show received frames to @fn; NULL: to nobody
 *
 * One a port. Needs a started port; takes each lane's lock: call with none held. When it
 * returns, the one before is not running any more.
 */
void urxe_port_raw_tap(struct urxe_port *port, urxe_raw_fn *fn, void *arg);

/**
 * urxe_raw_begin - reserve a frame of @len bytes, to be filled with urxe_tx_append() alone
 *
 * Needs the lane's lock, as what follows. 0; EAGAIN as above; EMSGSIZE: less than an Ethernet
 * header or longer than the port carries.
 */
int urxe_raw_begin(struct urxe_lane *lane, struct urxe_tx *tx, uint32_t len) URXE_REQUIRES(lane);

/**
 * urxe_raw_commit - send it, padded to Ethernet's least; to our own MAC: to the tap alone; to a
 * group: to the tap as well
 *
 * 0; EMSGSIZE: too long for a frame without VLAN tag, not sent.
 */
int urxe_raw_commit(struct urxe_lane *lane, struct urxe_tx *tx) URXE_REQUIRES(lane);

/* ---- paths ---- */

/** Where a flow goes: the attributes of an AH or of a QP's path. */
struct urxe_path_attr {
	unsigned sgid_index;
	uint8_t dgid[16];
	uint32_t flow_label;   /* 20 bits; IPv6 only on the wire */
	uint8_t traffic_class; /* TOS / traffic class: DSCP and ECN */
	uint8_t hop_limit;     /* 0: 64 */
	uint16_t udp_sport;    /* host order, 0xC000.. */
};

/**
 * urxe_path_create - a path with its header template
 *
 * Returns 0, EINVAL (bad index or zero dgid), ENETUNREACH, ENOMEM. Starts resolution at the
 * first urxe_tx_begin() or urxe_path_resolve(). Multicast GIDs map to their MAC. Thread-safe.
 */
int urxe_path_create(struct urxe_port *port, const struct urxe_path_attr *attr,
		     struct urxe_path **path);

/**
 * urxe_path_suspect - the transport has reason to doubt the neighbour (a retransmission time-out)
 *
 * Everybody is asked for the neighbour's MAC, at a bounded rate, while the one known stays in
 * use: one that was learned wrongly, or has changed, heals before a QP's retries are used up. Needs
 * the lane's lock. With a path without a neighbour (own address, group) it does nothing.
 */
void urxe_path_suspect(struct urxe_lane *lane, struct urxe_path *path) URXE_REQUIRES(lane);

/** urxe_path_far - was the destination last seen beyond the link's processes (urxe_port_shared())?
 * Then the other side's QPN and comm id do not say of which of them it is. Thread-safe. */
bool urxe_path_far(const struct urxe_path *path);
/** urxe_port_far - the same without a path; with a lock of the link's table: not for each packet.
 */
bool urxe_port_far(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16]);

/** urxe_path_mtu - the largest RDMA payload on it, as urxe_port_path_mtu(). Thread-safe. */
uint32_t urxe_path_mtu(const struct urxe_path *path);

/** urxe_path_destroy - free; the caller knows that no lane uses it. NULL is fine. */
void urxe_path_destroy(struct urxe_path *path);

/**
 * urxe_port_known - is the L2 address of a destination known? Asks nobody, keeps nothing.
 *
 * False also where there is no way. Thread-safe.
 */
bool urxe_port_known(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16]);

/**
 * urxe_port_suspect - the same as urxe_path_suspect(), without a path
 *
 * Thread-safe (takes a lane's lock itself: call with none held).
 */
void urxe_port_suspect(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16]);

/**
 * urxe_port_ask - one question for the L2 address of a destination that a stranger says is his
 *
 * No more follow, and nothing is kept of it when nobody answers. As urxe_port_resolve() else.
 */
void urxe_port_ask(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16]);

/** urxe_port_neigh_news - changes whenever an L2 address becomes known. Thread-safe. */
unsigned urxe_port_neigh_news(const struct urxe_port *port);

/**
 * urxe_port_resolve - the L2 address of a destination, without a path
 *
 * Starts resolution where needed. Returns 0 and @dmac; EINPROGRESS; EHOSTUNREACH; ENETUNREACH.
 * Needs a started port. Thread-safe (takes a lane's lock itself: call with none held).
 */
int urxe_port_resolve(struct urxe_port *port, unsigned sgid_index, const uint8_t dgid[16],
		      uint8_t dmac[6]);

/* ---- errors from the path ---- */

/** What a router, or the host at the other end, reports by ICMP of a packet that we sent. */
struct urxe_path_error {
	int err; /* ENETUNREACH, EHOSTUNREACH, EACCES (prohibited), ECONNREFUSED (nobody there has
		  * the UDP port) */
	uint8_t from[16];	    /* GID of the reporting router or host */
	uint8_t sgid[16], dgid[16]; /* of the packet; the first is own */
	uint16_t udp_sport;	    /* host order */
	const uint8_t *bth; /* how much of the packet is quoted; good during the call only */
	uint32_t len;	    /* bytes from bth; may be 0 */
};

/**
 * urxe_path_error_fn - somebody reports that a destination cannot be reached
 *
 * With a lane's lock held. A path with these addresses and this UDP port exists; no more is
 * checked, and whoever guesses them can send this. "Too big" does not come here: it is logged and
 * counted.
 */
typedef void urxe_path_error_fn(void *arg, const struct urxe_path_error *e);

/** urxe_port_on_path_error - have @fn called with errors; before the port is started. */
void urxe_port_on_path_error(struct urxe_port *port, urxe_path_error_fn *fn, void *arg);

/* ---- processes that share our addresses ---- */

/** urxe_port_shared - may other processes have our addresses, too? Then a QPN and a comm id say of
 * which one they are (netio/identity.h). */
bool urxe_port_shared(const struct urxe_port *port);

/** A process that was talked to is no more; @slot 0: one that was to be talked to. All that it sent
 * has been received: the lane is let go after that. Called on any thread; it takes no lane, and
 * does not wait. */
typedef void urxe_gone_fn(void *arg, unsigned slot);

/** urxe_port_on_gone - have @fn called when one dies; before the port is started. */
void urxe_port_on_gone(struct urxe_port *port, urxe_gone_fn *fn, void *arg);
/** urxe_port_nobody - is there no process now whose QPN this can be? False where a link does not
 * know. Thread-safe. */
bool urxe_port_nobody(struct urxe_port *port, uint32_t qpn);

/* ---- multicast ---- */

/** urxe_port_mcast_join - receive a multicast GID's group (counted). Thread-safe. 0 or errno. */
int urxe_port_mcast_join(struct urxe_port *port, const uint8_t mgid[16]);
/** urxe_port_mcast_leave - undo one join; ENOENT when there is none. */
int urxe_port_mcast_leave(struct urxe_port *port, const uint8_t mgid[16]);

/* ---- counters ---- */

/** urxe_port_counters - names and values, in a fixed order; returns how many there are. */
unsigned urxe_port_counters(struct urxe_port *port, const char *const **names, uint64_t *values,
			    unsigned max);

/**
 * urxe_port_drops - how many frames were dropped, of all that urxe_port_counters() gave
 *
 * Those that are nobody's fault, neighbours' talk about others and group queries, are not counted.
 */
uint64_t urxe_port_drops(const uint64_t *values);

#endif
