/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to link_packet.c and packet_*.c: a link that is an interface of the kernel's, by
 * packet(7) sockets. No DPDK.
 *
 * A run is what the kernel knows as a UDP datagram to be segmented: packets of a flow, all of one
 * length but the last, under the headers of one. From Linux 6.2 on packet sockets send and receive
 * those whole.
 */
#ifndef URXE_NETIO_PACKET_H
#define URXE_NETIO_PACKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>

#include "netio/buf_pool.h"
#include "netio/config.h"
#include "netio/link.h"
#include "urxe/lock.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 /* since Linux 6.2 */
#endif

/** The arguments of a port ("net_af_packet0,iface=IF,framecnt=N"). */
struct packet_args {
	char iface[32];
	unsigned lanes;
	uint32_t frame_size, block_size; /* of the ring: bytes of a slot, of a block of slots */
	unsigned frames;		 /* in the ring */
	bool qdisc_bypass;
	bool runs;	/* this kernel may have them */
	bool send_runs; /* and they are wanted */
	bool own;	/* packet_own_frames() */
};

/**
 * packet_args_parse - what the user gave, and for the rest what fits IP packets of @l3_mtu bytes
 *
 * 0, or EINVAL with a line in @err that says what is wrong.
 */
int packet_args_parse(const struct urxe_port_config *cfg, uint32_t l3_mtu, struct packet_args *args,
		      char *err, size_t errlen);

/** A socket and the ring that the kernel fills (TPACKET_V2). */
struct packet_ring {
	int fd;
	uint8_t *mem;
	size_t len;
	uint32_t frame_size, block_size;
	unsigned frames, per_block;
	unsigned next; /* slot that is filled next */
	bool runs;     /* a struct virtio_net_hdr is before each frame, both ways */
	/* For who looks after it without the lane (packet_ring_look()): */
	_Atomic uint64_t taken;	  /* slots that were read, of this ring */
	_Atomic uint64_t dropped; /* frames that the kernel had no slot for */
	atomic_bool deaf;	  /* the kernel fills it no more */
	struct {
		uint64_t taken, dropped;
		bool free; /* the slot that is filled next */
	} seen;		   /* at the last look */
};

/**
 * packet_ring_open - a socket that receives nothing yet
 *
 * 0, or errno with a line in @err. packet_ring_close() in either case.
 */
int packet_ring_open(struct packet_ring *r, const struct packet_args *args, char *err,
		     size_t errlen);

/** packet_ring_bind - from now on it receives @ifindex's frames; @fanout: of the group that shares
 * them, or -1: alone. 0 or errno. */
int packet_ring_bind(struct packet_ring *r, unsigned ifindex, int fanout);

/** packet_ring_fanout - a new group with @r in it; its id, or -errno. @r must be bound. */
int packet_ring_fanout(struct packet_ring *r);

/** packet_ring_dropped - frames that the kernel had no slot for, since the ring was opened.
 * Thread-safe. */
uint64_t packet_ring_dropped(struct packet_ring *r);

enum packet_look {
	PACKET_HEARS,
	PACKET_UNSURE, /* look again soon */
	PACKET_DEAF,   /* found just now: who has the lane is to call packet_ring_again() */
};

/**
 * packet_ring_look - does the kernel still fill the ring?
 *
 * Linux (6.18 and before) never fills a slot again that was to have a frame whose segmentation a
 * struct virtio_net_hdr cannot tell: UDP in IP fragments, as a virtual machine may send it. That
 * slot would have been the next one, and all that comes from then on is dropped. Without the lane,
 * by one thread.
 */
enum packet_look packet_ring_look(struct packet_ring *r);

/** packet_ring_again - a new ring in the place of one that is deaf, unless a frame in it is lent,
 * or there is no memory: then it is deaf as before. The caller has the lane. */
void packet_ring_again(struct packet_ring *r);

void packet_ring_close(struct packet_ring *r);

/** packet_ring_slot - slot @i's header. */
static inline struct tpacket2_hdr *packet_ring_slot(const struct packet_ring *r, unsigned i)
{
	return (struct tpacket2_hdr *)(r->mem + (size_t)(i / r->per_block) * r->block_size +
				       (size_t)(i % r->per_block) * r->frame_size);
}

/** A slot that we have the frame of: neither filled (USER) nor the kernel's (0). */
#define PACKET_SLOT_LENT TP_STATUS_COPY

/* ---- receive (packet_rx.c) ---- */

#define PACKET_RUN_MOST 128 /* packets of one (UDP_MAX_SEGMENTS) */

/** A run that was received, cut into frames. */
struct packet_run {
	unsigned num, at; /* those before @at were handed out */
	struct urxe_frame frame[PACKET_RUN_MOST];
};

/**
 * packet_rx_frames - up to @n frames, in the ring where they can be, else in buffers of @pool
 * @lost: is added to by frames that neither a buffer nor the socket's queue had room for, or of a
 * run that is not one
 *
 * Returns how many. The caller has the ring.
 */
unsigned packet_rx_frames(struct packet_ring *r, struct packet_run *run, struct urxe_buf_pool *pool,
			  struct urxe_frame *f, unsigned n, uint64_t *lost);

/** packet_rx_fini - gives back what was not handed out. */
void packet_rx_fini(struct packet_run *run, struct urxe_buf_pool *pool);

/** packet_rx_free - gives back a frame, received or of @pool; looks at buf alone. */
void packet_rx_free(struct packet_ring *r, struct urxe_buf_pool *pool, const struct urxe_frame *f);

/* ---- frames that are ours alone (packet_own.c) ---- */

struct nl_sock;

/** packet_own_socket - in the network namespace of this thread; NULL: this kernel has no such, or
 * there is no memory. packet_own_close() ends all that it was used for. */
struct nl_sock *packet_own_socket(void);

/**
 * packet_own_frames - keep the kernel's own protocols from RoCEv2 frames to @mac and one of @n
 * addresses (IPv4 as ::ffff:a.b.c.d), on interface @iface
 *
 * In the place of what it was told before. 0, or errno: EPERM: that needs CAP_NET_ADMIN; EOPNOTSUPP
 * and others: this kernel cannot. Nothing is lost then but time.
 */
int packet_own_frames(struct nl_sock *sock, const char *iface, const uint8_t mac[6],
		      const uint8_t (*gids)[16], unsigned n);
/** packet_own_close - NULL: nothing. */
void packet_own_close(struct nl_sock *sock);

/* ---- own addresses (packet_addr.c) ---- */

struct packet_addr {
	uint8_t gid[16];
	int claim; /* as urxe_claim_address() has it */
};

struct packet_addrs {
	struct urxe_mutex lock; /* what follows; innermost */
	bool news;		/* they have changed since packet_addrs_own() */
	unsigned num;
	struct packet_addr addr[URXE_CONFIG_MAX_IPS];
	/* The control thread's, once the link is open: */
	struct nl_sock *own; /* NULL: the kernel's protocols get all our frames */
	unsigned rules;	     /* that it has now */
};

/** packet_addrs_add - one more on interface @ifindex. 0, or errno: EBUSY: a process has it, which
 * @err names; ENOSPC. Thread-safe. */
int packet_addrs_add(struct packet_addrs *a, unsigned ifindex, const uint8_t gid[16], char *err,
		     size_t errlen);
/** packet_addrs_del - one less. Thread-safe. */
void packet_addrs_del(struct packet_addrs *a, const uint8_t gid[16]);
/** packet_addrs_news - have they changed since packet_addrs_own()? Thread-safe. */
bool packet_addrs_news(struct packet_addrs *a);
/** packet_addrs_own - packet_own_frames() of those that the kernel has not got itself, with
 * a->own. 0, or errno: a->own is closed. */
int packet_addrs_own(struct packet_addrs *a, const char *iface, const uint8_t mac[6]);
/** packet_addrs_fini - all are free, and a->own is closed. */
void packet_addrs_fini(struct packet_addrs *a);

/* ---- send (packet_tx.c) ---- */

/**
 * packet_tx_frames - has the kernel send frames
 * @runs: as runs where they are some
 * @refused: is set if the kernel refused a run, whose frames went one by one
 * @lost: is added to by frames that the kernel never takes
 *
 * Returns how many of @n it has taken; what it will never take counts as taken; if that
 * is not all, errno tells why. The caller has the lane.
 */
unsigned packet_tx_frames(const struct packet_ring *r, bool runs, const struct urxe_frame *f,
			  unsigned n, bool *refused, uint64_t *lost);

/** What a lane waits for: the kernel to take a frame that it has no room for. */
struct packet_waits {
	uint64_t since; /* ns; 0: for none */
	uint32_t len;	/* bytes of a frame that it never took; 0: there was none */
};

/**
 * packet_tx_gives_up - is the first frame that packet_tx_frames() left, @f[@done] of @n, to be
 * dropped?
 * @err: why it was left
 * @now: ns
 *
 * One that has waited for long is, and those that are as long from then on, until such a one is
 * taken. The caller has the lane.
 */
bool packet_tx_gives_up(struct packet_waits *w, const struct urxe_frame *f, unsigned done,
			unsigned n, int err, uint64_t now);

#define PACKET_BURST 64 /* frames of a call */

/**
 * packet_put_lengths - makes headers those of a datagram of @len bytes from the BTH on
 * @l3: an IP header without options, of either family, with the UDP header behind it
 *
 * The checksum of the IPv4 header is put, too; that of UDP is left.
 */
void packet_put_lengths(uint8_t *l3, bool ipv4, uint32_t len);

#define PACKET_FILTER_MAX 40

/**
 * packet_filter - a classic BPF program that takes what the stack has a use for: to @mac or a
 * group, and ARP, RoCEv2, ICMP, ICMPv6, IGMP
 * @all: everything that is received
 *
 * Returns how many instructions it has.
 */
unsigned packet_filter(struct sock_filter prog[PACKET_FILTER_MAX], const uint8_t mac[6], bool all);

#endif
