/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The inside of netio's stack: what port.c, lane.c, tx.c, ip.c, neigh.c ... share.
 * Nobody outside netio includes this file.
 *
 * Locks, outermost first: port->host_lock; port->start_lock; a lane's lock; neigh.lock, mcast.lock
 * or paths.lock (none within another); port->info_lock. struct urxe_lane has what a lane's lock
 * guards; counters are written under it and read by anybody.
 */
#ifndef URXE_NETIO_STACK_H
#define URXE_NETIO_STACK_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/queue.h>

#include "netio/capture.h"
#include "netio/config.h"
#include "netio/counters.h"
#include "netio/host.h"
#include "netio/link.h"
#include "netio/port.h"
#include "urxe/gid.h"
#include "urxe/lines.h"
#include "urxe/lock.h"
#include "urxe/random.h"
#include "urxe/units.h"
#include "urxe/wire.h"

#define ETH_LEN	 14
#define VLAN_LEN 4
#define IPV4_LEN 20
#define IPV6_LEN 40
#define UDP_LEN	 8

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_ARP  0x0806
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_IPV6 0x86dd

#define PROTO_HOPOPTS 0
#define PROTO_ICMP    1
#define PROTO_IGMP    2
#define PROTO_UDP     17
#define PROTO_ICMPV6  58

/* ---- neighbours (neigh.c) ---- */

/* RFC 4861 7.3.2; from DELAY on, the MAC may be used without asking the table. */
enum urxe_neigh_state {
	NEIGH_NONE,
	NEIGH_INCOMPLETE,
	NEIGH_FAILED,
	NEIGH_STALE,
	NEIGH_DELAY,
	NEIGH_PROBE,
	NEIGH_REACHABLE,
	NEIGH_STATES,
};

extern const char *const urxe_neigh_state_names[NEIGH_STATES];

struct urxe_neigh {
	_Atomic uint64_t word; /* state << 48 | MAC: all that a sender needs, in one load */
	atomic_bool used;      /* since the last confirmation */
	atomic_bool far;       /* urxe_link_ops.far() of the MAC that was last found */
	/* under neigh.lock: */
	struct urxe_neigh *next;
	uint8_t gid[16];
	unsigned sgid_index; /* own address that asks */
	unsigned refs;	     /* paths */
	bool brief;	     /* asked for a stranger's sake: goes when it does not answer */
	unsigned tries;
	uint64_t due;	  /* when the state times out, or URXE_NEVER */
	uint64_t hold;	  /* FAILED: no new attempt before */
	uint64_t doubt;	  /* no new question of urxe_neigh_suspect() before */
	uint64_t settled; /* until then no other MAC is considered */
	bool rival;  /* PROBE: another MAC claims to be it, and is, if the known one is silent */
	bool unsure; /* since the carrier came: the next MAC is believed */
	uint8_t rival_mac[6];
};

#define NEIGH_BUCKETS 256
#define NEIGH_MAX     1024 /* beyond, one goes that nobody refers to: failed ones first */

#define LIMIT_TICK (10 * URXE_MSEC)

/** A bound on how often something is done: so many times in each LIMIT_TICK. The lane's. */
struct urxe_limit {
	uint64_t from;
	unsigned count;
};

/** urxe_limit - once more? */
static inline bool urxe_limit(struct urxe_limit *l, unsigned most, uint64_t now)
{
	if (now - l->from >= LIMIT_TICK) {
		l->from = now;
		l->count = 0;
	}
	return l->count++ < most;
}

struct urxe_neigh_table {
	struct urxe_spin lock;
	unsigned count;
	_Atomic uint64_t next_due; /* nothing is to do before */
	uint64_t scheduled;	   /* the first that came since urxe_neigh_tick() began to look */
	unsigned victim;	   /* the bucket where the last one that had to go was */
	_Atomic unsigned news;	   /* counts addresses that became known */
	struct urxe_neigh *bucket[NEIGH_BUCKETS];
	/* announcements of our own addresses, also under lock */
	unsigned announce_left;
	uint64_t announce_who; /* a bit a GID index */
	uint64_t announce_due;
	atomic_bool unanswered; /* urxe_port_call() asked, and nobody has answered yet */
	atomic_bool was_up;	/* written under lock */
};

static inline enum urxe_neigh_state urxe_neigh_word_state(uint64_t word)
{
	return (enum urxe_neigh_state)(word >> 48);
}

static inline void urxe_neigh_word_mac(uint64_t word, uint8_t mac[6])
{
	uint64_t be = htobe64(word << 16);

	memcpy(mac, &be, 6);
}

/* What a received ARP or ND packet means for a neighbour. */
#define NEIGH_HEARD_SOLICITED 0x1 /* answers our question */
#define NEIGH_HEARD_OVERRIDE  0x2 /* replaces another MAC (ND; always set for ARP) */
#define NEIGH_HEARD_CREATE    0x4 /* it sends to us: worth an entry */

/** urxe_neigh_get - the entry of an on-link address, referenced. 0 or ENOMEM. */
int urxe_neigh_get(struct urxe_port *port, const uint8_t gid[16], unsigned sgid_index,
		   struct urxe_neigh **n);
void urxe_neigh_put(struct urxe_port *port, struct urxe_neigh *n);
/** urxe_neigh_known - is there an L2 address of an on-link address? Asks nobody. */
bool urxe_neigh_known(struct urxe_port *port, const uint8_t gid[16]);
/** urxe_neigh_far - does an on-link address lead to others than those on the link? As it was last
 * found, if it was. Thread-safe. */
bool urxe_neigh_far(struct urxe_port *port, const uint8_t gid[16]);
/** urxe_neigh_use - slow path of a sender: *word is usable upon 0; EINPROGRESS, EHOSTUNREACH. */
int urxe_neigh_use(struct urxe_lane *lane, struct urxe_neigh *n, uint64_t *word)
	URXE_REQUIRES(lane);
/**
 * urxe_neigh_ask - one question about an on-link address, on behalf of a stranger who says that it
 * is his
 *
 * Nothing of it is left in 100 ms if nobody answers.
 */
void urxe_neigh_ask(struct urxe_lane *lane, const uint8_t gid[16], unsigned sgid_index)
	URXE_REQUIRES(lane);
/** urxe_neigh_suspect - ask everybody for the MAC, which stays in use; at a bounded rate. */
void urxe_neigh_suspect(struct urxe_lane *lane, struct urxe_neigh *n) URXE_REQUIRES(lane);
/** urxe_neigh_doubt - where the link knows who has which address: it is asked again before any
 * MAC is used. Thread-safe. */
void urxe_neigh_doubt(struct urxe_port *port);
void urxe_neigh_heard(struct urxe_lane *lane, const uint8_t gid[16], const uint8_t mac[6],
		      unsigned heard) URXE_REQUIRES(lane);
/** urxe_neigh_answers - is a question of @gid, with @mac, answered? A flood is not, and counted;
 * what strangers ask does not keep those from an answer that we send to. */
bool urxe_neigh_answers(struct urxe_lane *lane, const uint8_t gid[16], const uint8_t mac[6])
	URXE_REQUIRES(lane);
uint64_t urxe_neigh_tick(struct urxe_lane *lane, uint64_t now) URXE_REQUIRES(lane);
/** urxe_neigh_announce - announce soon the own addresses at the GID indices in @who. */
void urxe_neigh_announce(struct urxe_port *port, uint64_t who);
void urxe_neigh_schedule(struct urxe_port *port, uint64_t due);
void urxe_neigh_destroy(struct urxe_port *port);
/** urxe_neigh_duplicate - somebody else uses our address: count, and warn now and then. */
void urxe_neigh_duplicate(struct urxe_lane *lane, const uint8_t gid[16], const uint8_t mac[6])
	URXE_REQUIRES(lane);
/** urxe_neigh_state - for tests and status: the state of an address, NEIGH_NONE if unknown. */
enum urxe_neigh_state urxe_neigh_state(struct urxe_port *port, const uint8_t gid[16]);

/* ---- multicast (mcast.c) ---- */

#define MCAST_MAX 512

struct urxe_mcast_group {
	uint8_t gid[16];
	unsigned members; /* 0: left, the report of that is still to go out */
	unsigned reports; /* state change reports still to send (RFC 3376 robustness) */
};

struct urxe_mcast {
	struct urxe_mcast_group group[MCAST_MAX];
	unsigned count;
	struct urxe_mutex filter_lock; /* joins and leaves; held while the link's filter changes */
	struct urxe_spin lock;
	_Atomic uint64_t due; /* next report; set before urxe_neigh_schedule() */
	bool query4, query6;  /* somebody asked for all groups */
};

bool urxe_mcast_joined(struct urxe_port *port, const uint8_t mgid[16]);
void urxe_mcast_mac(const uint8_t mgid[16], uint8_t mac[6]);
/** urxe_mcast_start - the link is there: its filter, and reports for all groups. */
void urxe_mcast_start(struct urxe_port *port);
/** urxe_mcast_refilter - our addresses have changed. 0, or the link's errno. */
int urxe_mcast_refilter(struct urxe_port *port);
/** urxe_mcast_report_all - the carrier has come: a switch there knows nothing of our groups. */
void urxe_mcast_report_all(struct urxe_port *port);
void urxe_mcast_tick(struct urxe_lane *lane, uint64_t now) URXE_REQUIRES(lane);
void urxe_mcast_query(struct urxe_lane *lane, bool ipv4) URXE_REQUIRES(lane);

/* ---- paths in use (path.c), for ICMP errors (icmp_error.c) ---- */

#define PATH_BUCKETS 256

struct urxe_path_table {
	struct urxe_spin lock;
	LIST_HEAD(urxe_path_list, urxe_path) bucket[PATH_BUCKETS];
	/* When the last log line was about a destination with this hash, of both kinds. */
	_Atomic uint64_t logged[2][PATH_BUCKETS];
	urxe_path_error_fn *error_fn; /* set before start */
	void *error_arg;
};

/** urxe_path_in_use - is there a path over the wire with these addresses and this port? */
bool urxe_path_in_use(struct urxe_port *port, const uint8_t sgid[16], const uint8_t dgid[16],
		      uint16_t udp_sport);

/* ---- fault injection (fault.c) ---- */

#define FAULT_OUT 3

struct urxe_fault_dir {
	uint64_t prng;
	uint64_t rate[URXE_NUM_FAULTS]; /* of 2^32 */
	unsigned spared;		/* frames that nothing happens to, from now on */
	unsigned hits; /* what happens to the one behind them: 1 << enum urxe_fault */
	bool holding;
	unsigned countdown; /* frames that still overtake the held one */
	uint64_t deadline;
	struct urxe_frame held;
	enum urxe_counter base; /* drop; dup, reorder, corrupt follow */
};

struct urxe_faults {
	bool on;
	struct urxe_fault_dir tx, rx;
};

void urxe_fault_init(struct urxe_lane *lane);
/** urxe_fault_apply - what becomes of a frame: 0..FAULT_OUT frames in order; returns how many.
 * Something happens to RoCEv2 frames alone. */
unsigned urxe_fault_apply(struct urxe_lane *lane, struct urxe_fault_dir *d,
			  const struct urxe_frame *f, struct urxe_frame out[FAULT_OUT])
	URXE_REQUIRES(lane);
/** urxe_fault_spares - nothing happens to the next @n frames, and they need not be shown to
 * urxe_fault_apply(): they count as if they had been. */
static inline bool urxe_fault_spares(struct urxe_fault_dir *d, unsigned n)
{
	if (d->holding || d->spared < n)
		return false;
	d->spared -= n;
	return true;
}
/** urxe_fault_adds - perhaps more frames come out than the next @n. */
static inline bool urxe_fault_adds(const struct urxe_fault_dir *d, unsigned n)
{
	return d->holding || (d->spared < n && d->rate[URXE_FAULT_DUP]);
}
/** urxe_fault_due - the held frame, once its time is over: true and @out. */
bool urxe_fault_due(struct urxe_fault_dir *d, uint64_t now, struct urxe_frame *out);

/* ---- lanes ---- */

/* frames waiting for the link that senders may cause */
#define TX_LIMIT   URXE_BURST_MOST
#define TX_QUEUE   128 /* and the stack's own (answers, duplicates) on top */
#define TX_CACHE   URXE_BURST
#define LOOP_LIMIT 192
#define LOOP_QUEUE 256
#define RX_BURST   64
#define RX_PENDING (RX_BURST * FAULT_OUT)

/* How long frames wait for a carrier, from when a sender misses it: at first, as a card's link
 * takes seconds to come up and a peer's process its time to start; and when it was there and went.
 */
#define LINK_PATIENCE_FIRST (10 * URXE_SEC)
#define LINK_PATIENCE	    (2 * URXE_SEC)
#define LINK_SETTLES	    (3 * URXE_SEC) /* a card's, after its first link-up */

#define URXE_KNOWN	 8
#define URXE_KNOWN_WORDS 5

/** A frame that passed all checks of its headers (ip_known.c). */
struct urxe_known {
	uint64_t words[URXE_KNOWN_WORDS]; /* its headers, without what may differ */
	uint32_t len;			  /* of the frame; 0: there is none */
	uint32_t ip_sum;		  /* of the IPv4 header, likewise */
	const struct urxe_own *own;	  /* whom it was sent to */
	struct urxe_packet pkt;
};

/** The ICRC of a short frame that is queued without: tx.c puts it there before the link sees it. */
struct urxe_tx_icrc {
	const uint8_t *l3; /* its IP header; NULL: no frame is without */
	uint8_t *at;	   /* where the ICRC belongs, behind @len bytes from the BTH on */
	uint32_t len;
	bool ipv4;
};

struct URXE_CAPABILITY("lane") urxe_lane {
	struct urxe_spin lock;
	unsigned index;
	struct urxe_port *port;

	/* frames to send: txq[tx_head .. tx_head + tx_count) wait for the link */
	struct urxe_frame cache[TX_CACHE];
	unsigned cached;
	unsigned burst;			  /* so many go to the link at once */
	unsigned reserved, loop_reserved; /* begun, neither committed nor aborted */
	unsigned tx_head, tx_count;
	unsigned placed; /* committed where their receivers read them, since the last flush */
	uint64_t placed_bytes;
	struct urxe_frame txq[TX_QUEUE];
	struct urxe_tx_icrc icrc_due;
	uint16_t ip_id, ip_id_step; /* 0: it stays 0 */

	/* frames to ourselves: a ring; loop_count is read without the lock by urxe_port_wait() */
	unsigned loop_head;
	_Atomic unsigned loop_count;
	struct urxe_frame loop[LOOP_QUEUE];
	bool wire_first;

	struct urxe_known known[URXE_KNOWN];

	/* received, and through fault injection */
	unsigned pend_head;
	_Atomic unsigned pend_count;
	struct urxe_frame pend[RX_PENDING];

	urxe_raw_fn *raw_fn;
	void *raw_arg;
	bool raw_taken; /* the frame in hand */

	struct urxe_faults faults;
	_Atomic uint64_t tick;	    /* its own timers: when the next is due */
	struct urxe_limit echoes;   /* ICMP answers */
	struct urxe_limit answers;  /* ARP and ND answers to strangers, */
	struct urxe_limit to_peers; /* and to neighbours that paths lead to */

	_Atomic uint64_t counters[URXE_COUNTERS];
};

static inline void urxe_count(struct urxe_lane *lane, enum urxe_counter c, uint64_t n)
	URXE_REQUIRES(lane)
{
	/* One writer at a time: no locked instruction needed. */
	uint64_t v = atomic_load_explicit(&lane->counters[c], memory_order_relaxed);

	atomic_store_explicit(&lane->counters[c], v + n, memory_order_relaxed);
}

/* ---- ports ---- */

/* An own address. Never changed nor freed before the port goes: paths and the table point to it. */
struct urxe_own {
	struct urxe_gid_entry entry;
	atomic_bool live; /* it is in the table */
	atomic_bool
		way_out; /* the fabric's gateway has given it: what leaves the host is from it */
	struct urxe_own *next;
};

struct urxe_port {
	struct urxe_port_config cfg;
	const struct urxe_link_ops *ops;
	void *link_arg;
	struct urxe_fabric *fabric;			     /* NULL: the link has none */
	_Atomic(struct urxe_own *) gids[URXE_PORT_MAX_GIDS]; /* written under start_lock */
	_Atomic unsigned gid_end; /* one past the last slot that was ever used */
	struct urxe_own *owns;	  /* all there were; under start_lock */
	struct urxe_ident *ident;

	struct urxe_mutex start_lock;
	struct urxe_spin info_lock; /* guards info */
	struct urxe_port_info info;
	atomic_bool started; /* released when what follows is set */
	void *link;
	uint8_t mac[6];
	_Atomic uint32_t l3_mtu;      /* a start may make it smaller */
	struct urxe_capture *capture; /* NULL: none */
	bool loop_icrc;		      /* looped frames carry a true ICRC, and it is checked */
	bool wire_icrc;		      /* and those that the link carries */
	bool shared;		      /* its senders make none: frames are in their memory, too */
	bool rx_csum;
	bool places;	     /* frames are written into their receivers' memory */
	uint32_t wire_flags; /* TX_*, of frames that the link carries */
	unsigned num_lanes;
	struct urxe_lane *lanes;
	unsigned may_hold; /* as struct urxe_link_info's */
	atomic_uint held;

	int wake_fd;
	atomic_bool woken;
	atomic_uint wakes;		/* written to wake_fd, or about to be, and not read */
	_Atomic uint64_t wait_until;	/* who waits looks by then; 0: nobody waits */
	atomic_bool was_ever_up;	/* written under neigh.lock */
	_Atomic uint64_t carrier_until; /* what waits for a carrier is dropped from then on; 0: no
					 * sender has missed one since it last came or went */

	bool card, peer;		/* as struct urxe_link_info's */
	_Atomic uint64_t settles_until; /* no neighbour's silence counts before; 0: it does */

	struct urxe_host *host;	     /* NULL: the addresses are configured */
	struct urxe_mutex host_lock; /* guards host and what was read from it last; before the
				      * device's own, and start_lock */
	struct urxe_host_addr *host_addrs;
	unsigned num_host_addrs;
	struct urxe_gate_info *gate; /* the last gateway of the fabric that was seen; NULL: none */
	uint32_t gate_version;	     /* urxe_fabric_addrs_version() when it was looked for */
	_Atomic uint32_t way_l3;     /* way_mtu() of no destination, as it was at way_asked */
	_Atomic uint64_t way_asked;  /* 0: not yet */
	_Atomic uint32_t far_l3;     /* bytes of IP packet it takes; 0: there was none */
	urxe_gone_fn *gone_fn;	     /* set before start */
	void *gone_arg;

	struct urxe_neigh_table neigh;
	struct urxe_mcast mcast;
	struct urxe_path_table paths;
	_Atomic uint64_t dup_warned; /* when the last duplicate address was reported */
};

static inline unsigned urxe_port_gid_end(const struct urxe_port *port)
{
	/* Pairs with publish() in addr.c, as the acquire below. */
	return atomic_load_explicit(&port->gid_end, memory_order_acquire);
}

/** urxe_port_own - the own address at a GID index, or NULL; good as long as the port. */
static inline const struct urxe_gid_entry *urxe_port_own(const struct urxe_port *port, unsigned i)
{
	const struct urxe_own *own;

	if (i >= URXE_PORT_MAX_GIDS)
		return NULL;
	own = atomic_load_explicit(&port->gids[i], memory_order_acquire);
	return own ? &own->entry : NULL;
}

/** Which way packets to a destination go. */
enum urxe_path_kind {
	PATH_WIRE,
	PATH_LOOP,
	PATH_MCAST,
	PATH_LOCAL, /* to an address of ours that other processes have as well */
};

/** urxe_port_way - to a neighbour, back to us (own and loopback addresses), or to a group? */
enum urxe_path_kind urxe_port_way(struct urxe_port *port, const uint8_t dgid[16]);

/** urxe_gid_on_link - is @gid on the prefix of this own address? */
bool urxe_gid_on_link(const struct urxe_gid_entry *own, const uint8_t gid[16]);
/** urxe_port_next_hop - the on-link address that frames to @dgid go to; 0 or ENETUNREACH. */
int urxe_port_next_hop(struct urxe_port *port, const struct urxe_gid_entry *own,
		       const uint8_t dgid[16], uint8_t next[16]);
/** urxe_port_asker - the own address that asks for a neighbour: the one at @sgid_index or, should
 * that be gone, one near it; NULL: there is none of its family. */
const uint8_t *urxe_port_asker(const struct urxe_port *port, unsigned sgid_index,
			       const uint8_t gid[16]);
/** urxe_addr_init - the configuration's addresses. 0, EINVAL, ENOMEM. */
int urxe_addr_init(struct urxe_port *port);
void urxe_addr_fini(struct urxe_port *port);
/** urxe_addr_publish - an own address of a port that nobody knows yet; one that is there already is
 * fine. 0 or ENOMEM, ENOSPC. */
int urxe_addr_publish(struct urxe_port *port, const uint8_t gid[16], unsigned prefix_len);
/** urxe_addr_gate_look - what the fabric's gateway says of itself: true if that is news. */
bool urxe_addr_gate_look(struct urxe_port *port) URXE_REQUIRES(port->host_lock);
/** urxe_addr_gate_mark - tell its addresses from the host's, where both are in the table. */
void urxe_addr_gate_mark(struct urxe_port *port) URXE_REQUIRES(port->host_lock);
/** urxe_addr_gate_has - is it one of the addresses that the gateway gives? */
bool urxe_addr_gate_has(const struct urxe_port *port, const struct urxe_gid_entry *own)
	URXE_REQUIRES(port->host_lock);
/** urxe_addr_host_init, _fini - the host's addresses (addr_host.c). 0, or errno, logged. */
int urxe_addr_host_init(struct urxe_port *port);
void urxe_addr_host_fini(struct urxe_port *port);

/** urxe_random64 - 64 random bits of the kernel's. Thread-safe, may be called with any lock held.
 */
uint64_t urxe_random64(void);

/* ---- the way in (ip.c) ---- */

/** urxe_frame_input - a received frame that urxe_known_input() does not know: true when @pkt now
 * borrows it, false when it is done with. */
bool urxe_frame_input(struct urxe_lane *lane, struct urxe_frame *f, bool loop,
		      struct urxe_packet *pkt) URXE_REQUIRES(lane);
/** urxe_frame_roce - offset of the BTH if the frame looks like RoCEv2, else 0. */
uint32_t urxe_frame_roce(const struct urxe_frame *f);

/* ones' complement sums (RFC 1071), in host order of network 16-bit words */
uint32_t urxe_sum(uint32_t sum, const void *data, uint32_t len);

/** urxe_sum_fold - the checksum field of a sum. */
static inline uint16_t urxe_sum_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/** urxe_sum_pseudo - pseudo header of the IPv4 or IPv6 header at @l3. */
uint32_t urxe_sum_pseudo(const uint8_t *l3, bool ipv4, uint8_t proto, uint32_t len);

/* What a control protocol's handler gets. */
struct urxe_input {
	const uint8_t *eth;
	const uint8_t *l3;
	const uint8_t *l4;
	uint32_t l4_len;
	bool ipv4;
	bool mcast; /* IP destination is a group */
	int sgid_index;
};

void urxe_arp_input(struct urxe_lane *lane, const uint8_t *eth, const uint8_t *arp, uint32_t len)
	URXE_REQUIRES(lane);
void urxe_icmp_input(struct urxe_lane *lane, const struct urxe_input *in) URXE_REQUIRES(lane);
void urxe_icmpv6_input(struct urxe_lane *lane, const struct urxe_input *in) URXE_REQUIRES(lane);
/** urxe_icmp_error_input - ICMP or ICMPv6 with a good checksum: true if it is an error. */
bool urxe_icmp_error_input(struct urxe_lane *lane, const struct urxe_input *in) URXE_REQUIRES(lane);
void urxe_nd_input(struct urxe_lane *lane, const struct urxe_input *in) URXE_REQUIRES(lane);
void urxe_igmp_input(struct urxe_lane *lane, const struct urxe_input *in) URXE_REQUIRES(lane);
void urxe_mld_input(struct urxe_lane *lane, const struct urxe_input *in) URXE_REQUIRES(lane);

/** urxe_raw_input - show a frame to the tap; false: that was all it is for. */
bool urxe_raw_input(struct urxe_lane *lane, const struct urxe_frame *f) URXE_REQUIRES(lane);
/** urxe_tx_reserve - a frame of @len bytes for the wire, taken from the lane's; 0, EAGAIN,
 * EMSGSIZE. */
int urxe_tx_reserve(struct urxe_lane *lane, struct urxe_tx *tx, uint32_t len) URXE_REQUIRES(lane);

/* ---- questions and announcements ---- */

/** urxe_arp_ask / urxe_nd_ask - who has @gid? asks @own. @mac: ask this one alone, or NULL: all. */
void urxe_arp_ask(struct urxe_lane *lane, const uint8_t own[16], const uint8_t gid[16],
		  const uint8_t *mac) URXE_REQUIRES(lane);
void urxe_nd_ask(struct urxe_lane *lane, const uint8_t own[16], const uint8_t gid[16],
		 const uint8_t *mac) URXE_REQUIRES(lane);
/** urxe_arp_announce / urxe_nd_announce - here we are; @probe: and is anybody else? */
void urxe_arp_announce(struct urxe_lane *lane, const uint8_t own[16], bool probe)
	URXE_REQUIRES(lane);
void urxe_nd_announce(struct urxe_lane *lane, const uint8_t own[16], bool probe)
	URXE_REQUIRES(lane);
/** urxe_nd_group - the solicited-node group of an address (RFC 4291 2.7.1). */
void urxe_nd_group(const uint8_t gid[16], uint8_t group[16]);

/** urxe_known_learn - a frame of the link's has passed all checks, and is @pkt. */
void urxe_known_learn(struct urxe_lane *lane, const struct urxe_frame *f,
		      const struct urxe_packet *pkt) URXE_REQUIRES(lane);
/** urxe_known_input - true: a frame of the link's passes as one before it did, and is @pkt. */
bool urxe_known_input(struct urxe_lane *lane, const struct urxe_frame *f, struct urxe_packet *pkt)
	URXE_REQUIRES(lane);

/* ---- the way out (tx.c) ---- */

/* A frame of the stack's own: begin, write at the pointer returned, end with its length. */
uint8_t *urxe_ctl_begin(struct urxe_lane *lane, struct urxe_frame *f, const uint8_t dmac[6],
			uint16_t ethertype) URXE_REQUIRES(lane);
void urxe_ctl_end(struct urxe_lane *lane, struct urxe_frame *f, const uint8_t *end)
	URXE_REQUIRES(lane);
/** urxe_frame_copy - a copy of a frame in a new one; false when there is none. */
bool urxe_frame_copy(struct urxe_lane *lane, struct urxe_frame *to, const struct urxe_frame *from)
	URXE_REQUIRES(lane);
void urxe_frame_free(struct urxe_lane *lane, struct urxe_frame *f) URXE_REQUIRES(lane);
/** urxe_lane_emit - a complete frame to the wire, or to ourselves. */
void urxe_lane_emit(struct urxe_lane *lane, struct urxe_frame *f, bool loop) URXE_REQUIRES(lane);
/** urxe_tx_init/fini - the send half of a lane. */
void urxe_tx_fini(struct urxe_lane *lane);

/* ---- ICRC (icrc.c) ---- */

#define URXE_ICRC_SHORT 128 /* bytes from the BTH on that are summed in one go */

/** urxe_icrc_plain - urxe_icrc() without urxe_icrc_fold(): for processors that cannot. */
uint32_t urxe_icrc_plain(const uint8_t *l3, bool ipv4, uint32_t len);
/** urxe_icrc_long - urxe_icrc() of any length. */
uint32_t urxe_icrc_long(const uint8_t *l3, bool ipv4, uint32_t len);
/** urxe_icrc_can_fold - does this processor have what urxe_icrc_fold() needs? */
bool urxe_icrc_can_fold(void);
/** urxe_icrc_folds - is urxe_icrc_fold() what is quickest here? */
extern bool urxe_icrc_folds;
/** urxe_icrc_fold - urxe_icrc() of up to URXE_ICRC_SHORT bytes, a multiple of 4, in half of the
 * time (icrc_fold.c). Only where urxe_icrc_folds. */
uint32_t urxe_icrc_fold(const uint8_t *l3, bool ipv4, uint32_t len);

/** urxe_icrc - IBTA A17 ICRC of IP and UDP header at @l3 and the first @len (>= 12) bytes behind.
 */
static inline uint32_t urxe_icrc(const uint8_t *l3, bool ipv4, uint32_t len)
{
	return urxe_icrc_folds && len <= URXE_ICRC_SHORT && !(len & 3)
		       ? urxe_icrc_fold(l3, ipv4, len)
		       : urxe_icrc_long(l3, ipv4, len);
}

/** urxe_icrc_twice - urxe_icrc(), carried on over the @len bytes once more, nothing masked. */
uint32_t urxe_icrc_twice(const uint8_t *l3, bool ipv4, uint32_t len);
/** urxe_icrc_more - carry on over @len more bytes. */
uint32_t urxe_icrc_more(uint32_t crc, const void *data, uint32_t len);
/**
 * urxe_icrc_copy - copy and carry on, in pieces that stay in the L1 cache
 *
 * 0, or EFAULT: @from cannot all be read (urxe/guarded.h).
 */
int urxe_icrc_copy(uint32_t *crc, void *to, const void *from, uint32_t len);

/**
 * urxe_icrc_choose - how all of these sum: by tables, or by carry-less multiplication
 *
 * Done when we are loaded, with what urxe_emulated() says; after that for tests alone.
 */
void urxe_icrc_choose(bool emulated);
/** urxe_icrc_load - find what sums, which the first sum would do otherwise, in its time.
 * Thread-safe.
 */
void urxe_icrc_load(void);
/** urxe_icrc_table_make - what urxe_icrc_table() needs. */
void urxe_icrc_table_make(void);
/** urxe_icrc_table - the CRC of @len bytes behind @seed, as ISA-L's crc32_gzip_refl(). */
uint32_t urxe_icrc_table(uint32_t seed, const unsigned char *p, uint64_t len);

static inline void urxe_icrc_put(uint8_t *p, uint32_t crc)
{
	crc = htole32(crc);
	memcpy(p, &crc, sizeof(crc));
}

static inline uint32_t urxe_icrc_get(const uint8_t *p)
{
	uint32_t crc;

	memcpy(&crc, p, sizeof(crc));
	return le32toh(crc);
}

/* ---- paths (path.c) ---- */

#define PATH_MACS     12 /* bytes of a header before those that a path has */
#define PATH_HDR_IPV4 36 /* VLAN, IPv4, UDP: 34, copied whole */
#define PATH_HDR_ROOM 56 /* VLAN, IPv6, UDP: 54, likewise */

/* What a packet of IPv4 needs is in the first line of it. */
struct urxe_path {
	URXE_NEW_LINE const struct urxe_own *own;
	struct urxe_neigh *neigh; /* PATH_WIRE only */
	uint32_t ip_sum;	  /* IPv4: of the header without length, id, checksum */
	uint16_t max_len;	  /* of BTH to pad */
	uint16_t udp_sport;
	uint8_t hdr_len; /* up to the BTH, with the MACs */
	uint8_t l3_off;	 /* likewise */
	uint8_t kind;	 /* enum urxe_path_kind */
	bool ipv4;
	uint8_t hdr[PATH_HDR_ROOM]; /* from behind the MACs on */
	uint8_t mac[6];		    /* PATH_MCAST only */
	uint8_t dgid[16];	    /* as on the wire */
	struct urxe_port *port;
	LIST_ENTRY(urxe_path) in_use; /* PATH_WIRE only */
};

static_assert(offsetof(struct urxe_path, hdr) + PATH_HDR_IPV4 <= URXE_LINE, "one line");

/* urxe_tx.flags */
#define TX_IPV4	  0x1
#define TX_LOOP	  0x2
#define TX_MCAST  0x4 /* to the wire, and a copy to ourselves */
#define TX_NOICRC 0x8
#define TX_CSUM	  0x10
#define TX_SHORT  0x20 /* its ICRC is made at commit, in one go */
#define TX_PLACED 0x40 /* of urxe_link_ops.reserve() */
#define TX_STEER  0x80 /* where it goes is seen at commit */

#endif
