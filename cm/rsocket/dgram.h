/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Datagram sockets: a UDP socket of the kernel's, whose descriptor is the socket's, and a UD QP on
 * each device that leads to who it talks to. The first datagrams to an address go over UDP, and
 * tell our QP; their answer tells the peer's, and from then on the QPs talk.
 *
 * No thread stands behind one: what comes is looked at when the application calls, and until then
 * the kernel, and the receives of the QPs, keep as much of it as they can.
 *
 * Anybody may send here. So all there is has bounds: datagrams wait in what was allocated for them
 * with the first QP, destinations are in a table of URXE_RS_DESTS.
 */
#ifndef URXE_CM_RSOCKET_DGRAM_H
#define URXE_CM_RSOCKET_DGRAM_H

#include <infiniband/verbs.h>

#include "cm/rsocket/cq.h"
#include "cm/rsocket/dgram_wire.h"
#include "cm/rsocket/rsocket.h"

#define URXE_RS_DESTS	      1024u /* of one socket */
#define URXE_RS_DEST_BUCKETS  256u
#define URXE_RS_DEST_STRANGER 64u /* ways that are looked for at once, until strangers wait */
#define URXE_RS_UDP_SLOTS     64u /* datagrams of the kernel's that wait to be read */

struct urxe_rs_ud;

/** A datagram that came: it is in a list while it waits to be read. */
struct urxe_rs_datagram {
	struct cds_list_head entry;
	struct urxe_rs_addr from;
	const uint8_t *data; /* behind the header */
	uint32_t len;
	uint8_t *buf;
	struct urxe_rs_ud *ud; /* whose receive it took; NULL: of the kernel's */
};

/** A UD QP, one for each device. */
struct urxe_rs_ud {
	struct cds_list_head entry; /* in urxe_rs_dgram.uds */
	struct rdma_cm_id *id;
	struct urxe_rs_cq cq;
	uint32_t mtu; /* of the port, bytes */
	uint8_t *buf; /* places to send from, then to receive into */
	struct ibv_mr *mr;
	uint32_t sends, receives; /* of these */
	uint32_t *free;		  /* places to send from that are: */
	uint32_t n_free;
	struct urxe_rs_datagram *datagrams; /* one for each receive */
};

/** Where datagrams go to, or have come from. */
struct urxe_rs_dest {
	struct cds_list_head entry; /* in its bucket */
	struct cds_list_head age;   /* in urxe_rs_dgram.ages */
	struct urxe_rs_addr to;
	struct urxe_rs_addr from; /* ours, as that end sees it */
	struct urxe_rs_ud *ud;
	struct rdma_cm_id *id; /* while its way is looked for */
	struct ibv_ah *ah;     /* NULL: it is not known */
	uint32_t qpn;	       /* 0: likewise */
	uint32_t mtu;	       /* of the path, bytes */
	uint64_t stale_at;     /* until when @qpn is believed; urxe_rs_deadline()'s clock */
	uint64_t retry_at;     /* when to look for its way again */
};

/** What a datagram socket has beside struct urxe_rs. */
struct urxe_rs_dgram {
	int epfd;      /* readable as the channel and those of the CQs are */
	bool udp_full; /* the kernel takes no more, for now */
	bool connected;
	struct urxe_rs_addr peer; /* of a connected one */
	struct cds_list_head uds;
	struct cds_list_head received; /* oldest first */

	uint8_t *udp_buf;
	struct urxe_rs_datagram udp_datagrams[URXE_RS_UDP_SLOTS];
	struct cds_list_head udp_free;

	struct cds_list_head buckets[URXE_RS_DEST_BUCKETS];
	struct cds_list_head ages; /* first the one that was used last */
	unsigned dests, resolving;
	uint64_t dropped; /* what was no datagram of ours */
};

/* ---- dgram.c ---- */

/** urxe_rs_dgram_open - make a new socket one of datagrams; its descriptor is another one then. */
int urxe_rs_dgram_open(struct urxe_rs *s, int type);
/** urxe_rs_dgram_free - all of it; nobody else knows the socket any more. NULL is fine. */
void urxe_rs_dgram_free(struct urxe_rs *s);
/** urxe_rs_dgram_connect - as connect(2). */
int urxe_rs_dgram_connect(struct urxe_rs *s, const struct sockaddr *addr, socklen_t len)
	URXE_REQUIRES(s->lock);
/** urxe_rs_dgram_shutdown - as shutdown(2). */
int urxe_rs_dgram_shutdown(struct urxe_rs *s, int how) URXE_REQUIRES(s->lock);
/** urxe_rs_dgram_flush - until nothing is under way; EAGAIN: the call's deadline has come. */
int urxe_rs_dgram_flush(struct urxe_rs *s, const struct urxe_rs_call *c) URXE_REQUIRES(s->lock);
/** urxe_rs_dgram_ready - as urxe_rs_ready(), which completes it. */
short urxe_rs_dgram_ready(const struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_dgram_look - as urxe_rs_look(). */
void urxe_rs_dgram_look(struct urxe_rs *s, bool whole) URXE_REQUIRES(s->lock);
/** urxe_rs_dgram_glance - at what the QPs have, and now and then at the rest: that costs system
 * calls. */
void urxe_rs_dgram_glance(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_dgram_watch - the descriptors of one that somebody sleeps for. */
void urxe_rs_dgram_watch(struct urxe_rs *s, struct pollfd fds[2]) URXE_REQUIRES(s->lock);
/** urxe_rs_dgram_woken - what is to be done when these have revents. */
void urxe_rs_dgram_woken(struct urxe_rs *s, const struct pollfd fds[2]) URXE_REQUIRES(s->lock);

/* ---- dgram_ud.c ---- */

/** urxe_rs_ud_get - the QP on the device of @id, whose own address is known; NULL and @*err. */
struct urxe_rs_ud *urxe_rs_ud_get(struct urxe_rs *s, const struct rdma_cm_id *id, int *err)
	URXE_REQUIRES(s->lock);
/** urxe_rs_ud_free - with what it received; no destination uses it. */
void urxe_rs_ud_free(struct urxe_rs *s, struct urxe_rs_ud *ud);
/** urxe_rs_ud_arm, urxe_rs_ud_disarm - as urxe_rs_cq_arm(), urxe_rs_cq_disarm(), of all; who
 * relied on one is woken. */
void urxe_rs_ud_arm(struct urxe_rs *s) URXE_REQUIRES(s->lock);
void urxe_rs_ud_disarm(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_ud_completions - what was sent, and what came. */
void urxe_rs_ud_completions(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_ud_send - @len bytes, for which there is a place to send from. */
int urxe_rs_ud_send(struct urxe_rs *s, const struct urxe_rs_dest *d, const struct iovec *iov,
		    size_t n, size_t len) URXE_REQUIRES(s->lock);
/** urxe_rs_ud_post_receive - a datagram of a UD QP's was read. */
void urxe_rs_ud_post_receive(struct urxe_rs_datagram *m);
/** urxe_rs_ud_can_send - has each QP a place to send from? */
bool urxe_rs_ud_can_send(const struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_ud_all_sent - is nothing under way? */
bool urxe_rs_ud_all_sent(const struct urxe_rs *s) URXE_REQUIRES(s->lock);

/* ---- dgram_dest.c ---- */

/** urxe_rs_dest_find - NULL: it is not in the table. */
struct urxe_rs_dest *urxe_rs_dest_find(const struct urxe_rs *s, const struct urxe_rs_addr *to)
	URXE_REQUIRES(s->lock);
/**
 * urxe_rs_dest_get - find it, or put it in, and look for its way where that is not known
 * @stranger: it sent something, and is the first one to go when the table is full
 *
 * NULL and @*err: EADDRNOTAVAIL and ENETUNREACH, there is no device for it; EOPNOTSUPP, it is a
 * group; ENOBUFS; what the kernel says of its own way there.
 */
struct urxe_rs_dest *urxe_rs_dest_get(struct urxe_rs *s, const struct urxe_rs_addr *to,
				      bool stranger, int *err) URXE_REQUIRES(s->lock);
/** urxe_rs_dest_heard - it has told its QP. */
void urxe_rs_dest_heard(struct urxe_rs *s, struct urxe_rs_dest *d, uint32_t qpn)
	URXE_REQUIRES(s->lock);
/** urxe_rs_dest_direct - can it be sent to by UD? */
bool urxe_rs_dest_direct(const struct urxe_rs_dest *d);
/** urxe_rs_dest_room - bytes of the longest datagram that it can be sent. */
size_t urxe_rs_dest_room(const struct urxe_rs *s, const struct urxe_rs_dest *d);
/** urxe_rs_dest_events - what the channel has. */
void urxe_rs_dest_events(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_dest_free_all - of a socket that goes. */
void urxe_rs_dest_free_all(struct urxe_rs *s);

/* ---- dgram_udp.c: the kernel's side ---- */

/** urxe_rs_udp_own - the address that the peers of @to see, with our port number, which there is
 * from now on. Or the kernel's errno. */
int urxe_rs_udp_own(struct urxe_rs *s, const struct urxe_rs_addr *to, struct urxe_rs_addr *own)
	URXE_REQUIRES(s->lock);
/** urxe_rs_udp_send - EAGAIN: not now; the kernel's errno. */
int urxe_rs_udp_send(struct urxe_rs *s, const struct urxe_rs_dest *d, enum urxe_rs_udp_op op,
		     const struct iovec *iov, size_t n, size_t len) URXE_REQUIRES(s->lock);
/** urxe_rs_udp_receive - what came, as long as there is room for it. */
void urxe_rs_udp_receive(struct urxe_rs *s) URXE_REQUIRES(s->lock);

/* ---- dgram_io.c ---- */

/** urxe_rs_dgram_deliver - @m came; false: it is nothing for the application. */
bool urxe_rs_dgram_deliver(struct urxe_rs *s, struct urxe_rs_datagram *m) URXE_REQUIRES(s->lock);
/** urxe_rs_dgram_drop - something came that was none of ours. */
void urxe_rs_dgram_drop(struct urxe_rs *s, const char *what) URXE_REQUIRES(s->lock);
/** urxe_rs_dgram_send, urxe_rs_dgram_recv - as sendmsg(2), recvmsg(2). @len: bytes of the vectors.
 */
ssize_t urxe_rs_dgram_send(struct urxe_rs *s, const struct urxe_rs_call *c,
			   const struct msghdr *msg, size_t len) URXE_REQUIRES(s->lock);
ssize_t urxe_rs_dgram_recv(struct urxe_rs *s, const struct urxe_rs_call *c, struct msghdr *msg,
			   size_t len, int flags) URXE_REQUIRES(s->lock);

#endif
