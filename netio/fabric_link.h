/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to link_fabric.c, fabric_mail.c, fabric_peer.c and fabric_steer.c: the link of a local
 * fabric.
 *
 * What is not under `lock` belongs to who has the lane. The fabric's thread (the hooks of fabric.h)
 * makes and maps rings, and leaves them in the mail of their peer, which the lane fetches.
 */
#ifndef URXE_NETIO_FABRIC_LINK_H
#define URXE_NETIO_FABRIC_LINK_H

#include "netio/buf_pool.h"
#include "netio/fabric_ring.h"
#include "netio/gate_spawn.h"
#include "netio/link.h"
#include "urxe/lock.h"

#define FABRIC_WORDS  (URXE_FABRIC_SLOTS / 64)
#define FABRIC_SLOTS  128		  /* frames that are received and not given back */
#define FABRIC_SHORT  URXE_RING_UNITS(3u) /* bytes of a frame that is copied whole */
#define FABRIC_HEAD   URXE_RING_UNITS(2u) /* of others: Ethernet to the last extension header */
#define FABRIC_GROW   4			  /* times as large is a ring that replaces another */
#define FABRIC_PART   4	 /* such a part of a ring is published before the burst is over */
#define FABRIC_HELD   64 /* frames of our own that wait for one peer */
#define FABRIC_ALL    URXE_FABRIC_SLOTS
#define FABRIC_NOBODY 0
#define FABRIC_ASKED  256 /* requests of the CM that are remembered */

/** A ring that a peer writes to. Several of one peer are read one after the other. */
struct fabric_rx {
	struct urxe_ring_rx ring;
	struct fabric_rx *next;
	struct urxe_fabric_bell *writer;
	unsigned slot;	      /* of the writer */
	uint32_t incarnation; /* likewise */
	bool last;	      /* the writer is gone: what is there now is all */
	bool begun;	      /* something was written */
	bool offered;	      /* the writer may know of it, though it has not asked for it */
};

/** A ring of a peer's, that we may write to. */
struct fabric_way {
	struct urxe_ring_tx tx; /* tx.mem is NULL: there is none */
	uint32_t incarnation;	/* of who reads it */
	uint32_t max;		/* bytes of the longest frame that it takes */
};

/** What the fabric's thread has for the lane; under the link's lock. */
struct fabric_mail {
	struct fabric_rx *rx, **rx_tail; /* new rings, the oldest first */
	unsigned rings;			 /* of this peer's, mail or not */
	bool answer;			 /* way, or an error */
	int err;
	bool offer_over; /* and it has not taken the ring that we offered */
	struct fabric_way way;
	struct fabric_way offer; /* it asked us, and offered this one */
	uint32_t gone[2];	 /* incarnations that are; 0: none */
};

/** A member, as we see it. */
struct fabric_peer {
	struct urxe_ring_tx tx;
	struct urxe_ring_stage stage; /* tx's */
	uint8_t slot;
	bool on; /* tx is mapped */
	bool asked;
	bool dirty; /* something was committed since it was last published */
	bool stuck; /* it was full, and nothing has been read since */
	bool used;  /* since the last look */
	unsigned idle;
	unsigned fulls;
	unsigned refused;     /* times in a row that it could not grow */
	uint32_t incarnation; /* of who reads tx */
	uint32_t max;	      /* bytes of the longest frame it takes */
	uint8_t mac[6];	      /* by which it is reached */
	struct urxe_fabric_bell *bell;
	struct urxe_frame *held; /* a queue of FABRIC_HELD frames of our own */
	unsigned held_head, held_count;
	uint64_t full_since; /* then that queue was full, and none of it was sent since; 0: no */
	bool coming;	     /* they wait for tx to be made */
	struct fabric_rx *rx;
	unsigned quiet; /* looks in a row that found nothing in rx */
	bool fading;	/* its bit in our bell is clear again */
	/* The word in rx that is read next; NULL: there is no rx. Written with the lane, NULL under
	 * lock; read under lock by who is about to sleep. */
	const _Atomic uint32_t *_Atomic at;
	struct fabric_mail mail;
};

/** A received frame. */
struct fabric_slot {
	_Alignas(64) uint8_t head[FABRIC_SHORT];
	struct fabric_rx *rx; /* whose ring has the rest; NULL: there is none */
	struct fabric_slot *next;
};

struct fabric_link {
	struct urxe_fabric *fabric;
	struct urxe_fabric_process process; /* that opened it */
	char name[32];			    /* of the device, for log lines */
	unsigned own;			    /* slot */
	unsigned gate;			    /* of the gateway that was last written to; 0: none */
	bool is_gate;			    /* we are it */
	struct urxe_spawn spawn;	    /* that one is started */
	struct urxe_fabric_bell *bell;	    /* ours */
	uint32_t room;			    /* bytes of the longest frame */
	_Atomic uint64_t watched[FABRIC_WORDS]; /* peers at whose rings we look; written with the
						 * lane */
	unsigned num_watched;
	unsigned next; /* slot whose turn it is */
	unsigned dirty_count;
	uint8_t dirty[URXE_FABRIC_SLOTS];
	uint64_t held[FABRIC_WORDS]; /* peers that frames of ours wait for */
	unsigned num_held;	     /* such peers */
	atomic_uint coming;	     /* how many of them are not there yet */
	/* Rings in our memory; bytes of those that have grown, and how many at most; under lock. */
	unsigned rings;
	uint64_t grown, grown_most;
	unsigned polls;	 /* that found nothing */
	uint64_t tidied; /* when idle rings were last looked for */
	struct urxe_buf_pool pool;
	struct fabric_slot *slots, *free_slots;
	atomic_bool waiting, kicked, look;
	_Atomic uint64_t dropped;
	/* frames to a group: who gets them */
	uint8_t group[16];
	/* Who got a request of the CM, by its transaction (fabric_steer.c). */
	struct {
		uint64_t tid;
		uint32_t id;
		uint8_t slot;
	} asked[FABRIC_ASKED];
	uint32_t group_version;
	uint64_t group_slots[FABRIC_WORDS];
	struct urxe_spin lock; /* all mail, and what is next */
	void (*gone)(void *arg, unsigned slot);
	void *gone_arg;
	_Atomic uint64_t mailed[FABRIC_WORDS]; /* who has some */
	struct fabric_peer peer[URXE_FABRIC_SLOTS];
};

/** fabric_watched - the peers from 64 * @word on at whose rings we look: a bit each. */
static inline uint64_t fabric_watched(const struct fabric_link *l, unsigned word)
{
	return atomic_load_explicit(&l->watched[word], memory_order_relaxed);
}

/** fabric_first_size - of the ring of a pair that begins to talk. @gate: its writer is the gateway:
 * what comes from outside cannot be told to wait. */
static inline uint32_t fabric_first_size(bool gate)
{
	return gate ? URXE_RING_FIRST * FABRIC_GROW : URXE_RING_FIRST;
}

/* ---- fabric_mail.c ---- */

extern const struct urxe_fabric_hooks urxe_fabric_link_hooks;

/** fabric_mail_ask - ask @slot for a ring of @size bytes: as urxe_fabric_ask(). The answer comes by
 * mail. */
int fabric_mail_ask(struct fabric_link *l, unsigned slot, uint32_t size);
/** fabric_mail_uncount - a ring of @size bytes, of this peer's, is no more. */
void fabric_mail_uncount(struct fabric_link *l, struct fabric_peer *p, uint32_t size)
	URXE_REQUIRES(l->lock);

/* ---- fabric_peer.c ---- */

/** fabric_peer_watch - look at its rings from now on. */
void fabric_peer_watch(struct fabric_link *l, unsigned slot);
/** fabric_peer_unwatch - and no more, until its bit in our bell is set. */
void fabric_peer_unwatch(struct fabric_link *l, unsigned slot);
/** fabric_peer_at - where its ring is read next has changed. */
void fabric_peer_at(struct fabric_peer *p);
/** fabric_peer_room - frames of @rx were given back, and its writer waits for that. */
void fabric_peer_room(const struct fabric_rx *rx);
/** fabric_peer_quiet - for who is about to sleep, without the lane: is there nothing to read, from
 * anybody? */
bool fabric_peer_quiet(struct fabric_link *l);
/** fabric_peer_mail - what the fabric's thread has left for a peer, if anything. */
void fabric_peer_mail(struct fabric_link *l, unsigned slot);
/** fabric_peer_attach - 0: we may write to @slot, whose MAC is @mac; EINPROGRESS; EHOSTUNREACH. */
int fabric_peer_attach(struct fabric_link *l, unsigned slot, const uint8_t mac[6]);
/** fabric_peer_full - its ring has no room: publishes, asks for a larger one, asks to be told. */
void fabric_peer_full(struct fabric_link *l, unsigned slot);
/** fabric_peer_publish - what was committed to peers is there for them to read. */
void fabric_peer_publish(struct fabric_link *l);
/** fabric_peer_publish_one - likewise, to one of them. */
void fabric_peer_publish_one(struct fabric_link *l, struct fabric_peer *p);
/** fabric_peer_committed - something was committed to its ring. */
static inline void fabric_peer_committed(struct fabric_link *l, struct fabric_peer *p)
{
	p->used = true;
	if (!p->dirty) {
		p->dirty = true;
		l->dirty[l->dirty_count++] = p->slot;
	}
	if (urxe_ring_unpublished(&p->tx) >= p->tx.size / FABRIC_PART)
		fabric_peer_publish_one(l, p);
}
/** fabric_peer_send - a frame of our own, to a peer's ring or to wait for it; it is copied. */
void fabric_peer_send(struct fabric_link *l, unsigned slot, const struct urxe_frame *f);
/** fabric_peer_retry_all - of fabric_peer_retry(), when any wait. */
void fabric_peer_retry_all(struct fabric_link *l);
/** fabric_peer_retry - frames that wait for peers, as far as there is room now. */
static inline void fabric_peer_retry(struct fabric_link *l)
{
	if (l->num_held)
		fabric_peer_retry_all(l);
}
/** fabric_peer_retire - the first ring of a peer is at its end: 0, or EBUSY while something of it
 * is borrowed. */
int fabric_peer_retire(struct fabric_link *l, struct fabric_peer *p);
/** fabric_peer_gone - a member is no more, and all that it sent has been received: tells those
 * above (urxe_link_ops.on_gone()). */
void fabric_peer_gone(struct fabric_link *l, unsigned slot);
/** fabric_peer_tidy - give back rings that nobody has written to for long. Once a second. */
void fabric_peer_tidy(struct fabric_link *l);
/** fabric_peer_close - give back all. The hooks are not called any more. */
void fabric_peer_close(struct fabric_link *l);

/* ---- fabric_steer.c ---- */

/** fabric_steer_slot - who gets a frame that goes to @mac, one of a member's: a slot, FABRIC_ALL
 * (of the host's), or FABRIC_NOBODY. */
unsigned fabric_steer_slot(struct fabric_link *l, const struct urxe_frame *f);
/** fabric_steer_own - urxe_link_ops.steer(). */
unsigned fabric_steer_own(void *link, uint32_t dqpn, const struct urxe_frame *f);
/** fabric_steer_qp - who gets a frame for a QP by way of @dmac: a slot; beyond a gateway QPNs are
 * nobody's here. */
unsigned fabric_steer_qp(struct fabric_link *l, uint32_t dqpn, const uint8_t dmac[6]);
/** fabric_steer_resolve, fabric_steer_far - urxe_link_ops.resolve() and far(). */
int fabric_steer_resolve(void *link, const uint8_t gid[16], uint8_t mac[6]);
bool fabric_steer_far(void *link, const uint8_t mac[6]);
/** fabric_steer_nowhere - urxe_link_ops.nowhere(). */
const char *fabric_steer_nowhere(void *link);
/** fabric_steer_later - urxe_fabric_hooks.later(). */
uint64_t fabric_steer_later(void *arg, uint64_t now);
/** fabric_steer_group - the members that get a frame to a group, without ourselves. */
const uint64_t *fabric_steer_group(struct fabric_link *l, const struct urxe_frame *f);

#endif
