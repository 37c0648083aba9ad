/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How a frame gets into a ring: what is done for each, where it is done (link_fabric.c,
 * fabric_peer.c). What is done for a burst is in fabric_ring.c.
 */
#ifndef URXE_NETIO_FABRIC_RING_TX_H
#define URXE_NETIO_FABRIC_RING_TX_H

#include "netio/fabric_ring.h"

#define URXE_RING_FLAGS_AT 24 /* of a record's word: flags above, below bytes of the frame */

/** urxe_ring_record - where the record at @pos begins. */
static inline uint8_t *urxe_ring_record(uint8_t *mem, uint32_t size, uint32_t pos)
{
	return mem + URXE_RING_CONTROL + (pos & (size - 1));
}

/** urxe_ring_word - its word. */
static inline _Atomic uint32_t *urxe_ring_word(uint8_t *mem, uint32_t size, uint32_t pos)
{
	return (_Atomic uint32_t *)(void *)urxe_ring_record(mem, size, pos);
}

/** urxe_ring_record_len - bytes of a record with a frame of @len. */
static inline uint32_t urxe_ring_record_len(uint32_t len)
{
	return (URXE_RING_HEAD + len + URXE_RING_UNIT - 1) & ~(URXE_RING_UNIT - 1);
}

/** urxe_ring_fits - is there room for @len bytes? One unit stays free, for the 0 behind the last
 * record. */
static inline bool urxe_ring_fits(const struct urxe_ring_tx *tx, uint32_t len)
{
	return tx->pos + len + URXE_RING_UNIT - tx->tail <= tx->size;
}

/** urxe_ring_may_wait - is the next record the one that the reader is looking at? */
static inline bool urxe_ring_may_wait(const struct urxe_ring_tx *tx)
{
	return tx->first == tx->pos && !tx->skip;
}

/** urxe_ring_reserve - room for a frame of @len bytes; NULL: there is none. One at a time. */
static inline uint8_t *urxe_ring_reserve(struct urxe_ring_tx *tx, uint32_t len)
{
	uint32_t size = tx->size, need = urxe_ring_record_len(len);
	uint32_t left = size - (tx->pos & (size - 1));

	if (tx->open || need > size / 2)
		return NULL;
	/* A frame is in one piece. */
	tx->skip = need > left ? left : 0;
	need += tx->skip;
	if (!urxe_ring_fits(tx, need) && (!urxe_ring_progress(tx) || !urxe_ring_fits(tx, need)))
		return NULL;
	tx->open = true;
	tx->made = NULL;
	if (tx->stage && len <= URXE_RING_STAGE) {
		tx->made = urxe_ring_may_wait(tx) ? tx->stage->first : tx->stage->other;
		return tx->made;
	}
	return urxe_ring_record(tx->mem, size, tx->pos + tx->skip) + URXE_RING_HEAD;
}

/** urxe_ring_put - a record of @len bytes in all; the next one's word says that there is none
 * yet. */
static inline void urxe_ring_put(struct urxe_ring_tx *tx, uint8_t *mem, uint32_t size, uint32_t len,
				 uint32_t word)
{
	uint32_t pos = tx->pos;

	atomic_store_explicit(urxe_ring_word(mem, size, pos + len), 0, memory_order_relaxed);
	/* The first one's word opens all that come behind it. */
	if (tx->first == pos)
		tx->word = word;
	else
		atomic_store_explicit(urxe_ring_word(mem, size, pos), word, memory_order_relaxed);
	tx->pos = pos + len;
}

/** urxe_ring_commit - the frame of the last urxe_ring_reserve() is complete: @len bytes of it, no
 * more than were reserved. The reader does not see it before the next urxe_ring_publish(). */
static inline void urxe_ring_commit(struct urxe_ring_tx *tx, uint32_t len, uint32_t flags)
{
	uint8_t *mem = tx->mem;
	uint32_t size = tx->size;

	if (tx->made && urxe_ring_may_wait(tx))
		tx->staged = len;
	else if (tx->made)
		urxe_ring_copy(urxe_ring_record(mem, size, tx->pos + tx->skip) + URXE_RING_HEAD,
			       tx->made, len);
	if (__builtin_expect(tx->skip != 0, 0))
		urxe_ring_put(tx, mem, size, tx->skip,
			      tx->skip | URXE_RING_PAD << URXE_RING_FLAGS_AT);
	urxe_ring_put(tx, mem, size, urxe_ring_record_len(len), len | flags << URXE_RING_FLAGS_AT);
	tx->open = false;
}

#endif
