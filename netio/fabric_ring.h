/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What two members of a local fabric share: a ring of frames from one to the other, in memory of
 * the receiver's, and the receiver's bell, which says who has news.
 *
 * The ring has records of 64-byte units: a word with length and flags, the frame. A record is there
 * when its word is not 0; the word behind the last one is 0. So the reader needs no index of the
 * writer's, and a hole punched into the memory is nothing. One thread at a time writes, one reads.
 * Neither believes the other: each has its own positions, bounds what it reads once, and follows
 * nothing. The reader leaves what it reads as it is, but writes to each line of it
 * (urxe/lines.h says why), so nobody else may write to a record before it was given back.
 */
#ifndef URXE_NETIO_FABRIC_RING_H
#define URXE_NETIO_FABRIC_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "netio/fabric.h"
#include "netio/sleep.h"

/* ThreadSanitizer knows no fences. */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define URXE_BELL_NO_FENCE
#endif
#elif defined(__SANITIZE_THREAD__)
#define URXE_BELL_NO_FENCE
#endif

#define URXE_RING_UNIT	   64u
#define URXE_RING_MIN	   512u	       /* of tests */
#define URXE_RING_FIRST	   (64u << 10) /* bytes of records, of a pair that begins to talk */
#define URXE_RING_LARGEST  (1u << 20)
#define URXE_RING_HEAD	   4u	/* bytes of the word before the frame */
#define URXE_RING_CONTROL  256u /* bytes before the first record: two pairs of cache lines */
#define URXE_RING_UNITS(n) ((n)*URXE_RING_UNIT - URXE_RING_HEAD) /* of a frame in n units */
#define URXE_RING_STAGE	   URXE_RING_UNITS(3u) /* of one that is made outside of the ring */
#define URXE_RING_NO_ICRC  0x1		       /* flags of a record: the frame has no ICRC */
#define URXE_RING_PAD	   0x2		       /* there is none up to the end of the ring */
#define URXE_RING_END	   0x4		       /* the writer will not write here again */

/**
 * Where the writer makes small frames before they go into the ring. The reader looks at the line of
 * the next record all the time, and each look takes the line away from who is writing it: so the
 * first frame of a burst is copied there when it is published, in one go.
 */
struct urxe_ring_stage {
	uint8_t first[URXE_RING_STAGE];
	uint8_t other[URXE_RING_STAGE]; /* while that one waits */
};

/** The writer's end. */
struct urxe_ring_tx {
	uint8_t *mem;  /* control, records */
	uint32_t size; /* of the records: a power of two */
	/* Positions go on and on, modulo 2^32. */
	uint32_t pos;	/* the next record */
	uint32_t first; /* the first that is not published; pos: none */
	uint32_t word;	/* and what its word will be */
	uint32_t tail;	/* what the reader has given back, when last looked at */
	uint32_t skip;	/* units passed over by the record that is being written, in bytes */
	bool open;	/* a record is being written */
	struct urxe_ring_stage *stage; /* NULL: frames are made in the ring, whatever their size */
	uint8_t *made;	 /* where in it the open record's frame is made; NULL: nowhere */
	uint32_t staged; /* bytes of the first frame that are still there */
};

/** The reader's end. */
struct urxe_ring_rx {
	uint8_t *mem;
	uint32_t size;
	uint32_t max;	   /* bytes of the longest frame */
	uint32_t read;	   /* the next record */
	uint32_t tail;	   /* what was given back */
	unsigned borrowed; /* frames of the ring that are still looked at */
};

/** A record as it was when it was read. */
struct urxe_ring_frame {
	const uint8_t *data; /* in the ring: the writer may change it at any time */
	uint32_t len;
	uint32_t flags; /* URXE_RING_NO_ICRC */
};

enum urxe_ring_found {
	URXE_RING_NOTHING,
	URXE_RING_FRAME,
	URXE_RING_ENDED, /* nor will there be anything */
	URXE_RING_BAD,	 /* no writer of ours has written this: look at it no more */
};

/** urxe_ring_bytes - of memory that a ring of @size bytes of records needs. */
static inline uint32_t urxe_ring_bytes(uint32_t size)
{
	return URXE_RING_CONTROL + size;
}

/** urxe_ring_copy - @len bytes of a frame from or to a record, and what is behind them up to the
 * end of its last unit. By lines: all of them are fetched at once, which a copy by bytes does not
 * do. */
static inline void urxe_ring_copy(uint8_t *to, const uint8_t *from, uint32_t len)
{
	memcpy(to, from, URXE_RING_UNITS(1u));
	for (uint32_t at = URXE_RING_UNITS(1u); at < len; at += URXE_RING_UNIT)
		memcpy(to + at, from + at, URXE_RING_UNIT);
}

/* ---- memory ---- */

/**
 * urxe_ring_create - a ring to read from: a sealed memfd that nobody can make smaller
 * @size: a power of two, URXE_RING_MIN..URXE_RING_LARGEST
 * @max: bytes of the longest frame
 * @fd: out, for the writer; the caller closes it
 *
 * 0, or errno.
 */
int urxe_ring_create(struct urxe_ring_rx *rx, uint32_t size, uint32_t max, int *fd);
/** urxe_ring_map - the writer's end of the ring in @fd, which stays open. 0; EPROTO: it is not what
 * urxe_ring_create() makes; or errno. */
int urxe_ring_map(struct urxe_ring_tx *tx, uint32_t size, int fd);
/** urxe_ring_unmap - @mem, of a ring of @size bytes of records; NULL is fine. Any thread. */
void urxe_ring_unmap(uint8_t *mem, uint32_t size);

/* ---- writing: fabric_ring_tx.h, and ---- */

/** urxe_ring_abort - the frame of the last urxe_ring_reserve() is not to be. */
static inline void urxe_ring_abort(struct urxe_ring_tx *tx)
{
	tx->open = false;
}
/** urxe_ring_publish - the reader may see all that was committed; true: there was something. Then
 * its bell is to be rung (urxe_bell_ring()). */
bool urxe_ring_publish(struct urxe_ring_tx *tx);
/** urxe_ring_unpublished - bytes of what was committed since. */
static inline uint32_t urxe_ring_unpublished(const struct urxe_ring_tx *tx)
{
	return tx->pos - tx->first;
}
/** urxe_ring_end - publish all, and that nothing more will come. There is always room for that. */
void urxe_ring_end(struct urxe_ring_tx *tx);
/** urxe_ring_want - have the reader ring our bell when a quarter of the ring is free. It may be
 * missed: not to be relied on. */
void urxe_ring_want(struct urxe_ring_tx *tx);
/** urxe_ring_progress - has the reader given something back since the last look? */
bool urxe_ring_progress(struct urxe_ring_tx *tx);

/* ---- reading ---- */

/** urxe_ring_next - the next record; a frame is borrowed until urxe_ring_release(). */
enum urxe_ring_found urxe_ring_next(struct urxe_ring_rx *rx, struct urxe_ring_frame *f);
/** urxe_ring_at - the word of the next record: 0 while there is none. Good as long as the ring. */
const _Atomic uint32_t *urxe_ring_at(const struct urxe_ring_rx *rx);
/** urxe_ring_release - one borrowed frame less. */
static inline void urxe_ring_release(struct urxe_ring_rx *rx)
{
	rx->borrowed--;
}
/** urxe_ring_return - the writer may use what nothing is borrowed of; true: it waits for that, and
 * its bell is to be rung. */
bool urxe_ring_return(struct urxe_ring_rx *rx);

/* ---- bells: who has news ---- */

/*
 * A reader leaves the bit of a ring set while it watches it: it looks at the ring itself, and its
 * writer, who finds the bit set, writes nothing else than the ring. Only what is silent for long is
 * left to the bell.
 *
 * Order: the writer publishes, then looks whether its bit is set; the reader clears the bit, then
 * reads the ring once more. The writer sets the bit, or has found it set, then looks whether the
 * reader sleeps; the reader says that it sleeps, then looks for bits, and at the rings that it
 * watches. All in the one order of seq_cst.
 */

/** urxe_bell_fence - between publishing and looking at bells; one is enough for several. */
static inline void urxe_bell_fence(void)
{
#ifndef URXE_BELL_NO_FENCE
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/** urxe_bell_pending - is it known that @slot has news? After the fence. */
static inline bool urxe_bell_pending(struct urxe_fabric_bell *bell, unsigned slot)
{
#ifdef URXE_BELL_NO_FENCE
	/* It comes before the owner's exchange, which then sees what was published, or after. */
	return atomic_fetch_or(&bell->from[slot / 64], 0) >> slot % 64 & 1;
#else
	return atomic_load_explicit(&bell->from[slot / 64], memory_order_relaxed) >> slot % 64 & 1;
#endif
}

/** urxe_bell_set - @slot has news. */
static inline void urxe_bell_set(struct urxe_fabric_bell *bell, unsigned slot)
{
	atomic_fetch_or(&bell->from[slot / 64], 1ull << slot % 64);
}

/** urxe_bell_asleep - does the owner sleep, and has nobody else seen it? After the bit. */
static inline bool urxe_bell_asleep(struct urxe_fabric_bell *bell)
{
	return atomic_load(&bell->asleep) && atomic_exchange(&bell->asleep, 0);
}

/** urxe_bell_wake - end the owner's sleep. A system call. */
void urxe_bell_wake(struct urxe_fabric_bell *bell);

/** urxe_bell_ring - @slot has news for the owner: all of these but the fence. */
static inline void urxe_bell_ring(struct urxe_fabric_bell *bell, unsigned slot)
{
	if (!urxe_bell_pending(bell, slot))
		urxe_bell_set(bell, slot);
	if (urxe_bell_asleep(bell))
		urxe_bell_wake(bell);
}

/** urxe_bell_news - which of the slots from 64 * @word on have news, without those that the owner
 * watches? A bit each. */
static inline uint64_t urxe_bell_news(struct urxe_fabric_bell *bell, unsigned word,
				      uint64_t watched)
{
	/* Pairs with urxe_bell_set(): the ring has what it was set for. */
	return atomic_load_explicit(&bell->from[word], memory_order_acquire) & ~watched;
}

/** urxe_bell_clear - by the owner: @slot has none, or is not watched any more. Its ring must be
 * looked at after that. */
static inline void urxe_bell_clear(struct urxe_fabric_bell *bell, unsigned slot)
{
	atomic_fetch_and(&bell->from[slot / 64], ~(1ull << slot % 64));
	urxe_bell_fence();
}

/**
 * urxe_bell_doze - the owner sleeps from now on; then it must look for news, and if there are any
 * say urxe_bell_up()
 *
 * Returns what urxe_bell_sleep() needs.
 */
uint32_t urxe_bell_doze(struct urxe_fabric_bell *bell);
/** urxe_bell_sleep - until somebody wakes the owner, or @ns passed. */
void urxe_bell_sleep(struct urxe_fabric_bell *bell, uint32_t futex, uint64_t ns,
		     struct urxe_sleep *how);
/** urxe_bell_up - the owner is awake. */
static inline void urxe_bell_up(struct urxe_fabric_bell *bell)
{
	atomic_store(&bell->asleep, 0);
}

#endif
