/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Members of a local fabric, as one of them sees the others: rings are taken into use
 * (fabric_mail.c makes them), grow, go when they are idle or their peer is gone; frames of our own
 * wait for room.
 */
#include "netio/fabric_link.h"
#include "netio/fabric_ring_tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "urxe/free.h"

#define GROW_AFTER   32u /* times that a ring was full, and read since */
#define REFUSED_MOST 10	 /* times that the wait for the next try is doubled */
#define IDLE_LOOKS   10	 /* that found it unused */

/* ---- whose rings are looked at ---- */

void fabric_peer_watch(struct fabric_link *l, unsigned slot)
{
	uint64_t was = fabric_watched(l, slot / 64), bit = 1ull << slot % 64;

	l->peer[slot].quiet = 0;
	l->peer[slot].fading = false;
	l->num_watched += !(was & bit);
	atomic_store_explicit(&l->watched[slot / 64], was | bit, memory_order_relaxed);
}

void fabric_peer_unwatch(struct fabric_link *l, unsigned slot)
{
	uint64_t was = fabric_watched(l, slot / 64), bit = 1ull << slot % 64;

	l->num_watched -= !!(was & bit);
	atomic_store_explicit(&l->watched[slot / 64], was & ~bit, memory_order_relaxed);
}

void fabric_peer_at(struct fabric_peer *p)
{
	if (p->rx)
		atomic_store_explicit(&p->at, urxe_ring_at(&p->rx->ring), memory_order_relaxed);
}

void fabric_peer_room(const struct fabric_rx *rx)
{
	/* By its own bit, as its mail: that of our slot may be set because it watches our ring. */
	urxe_bell_ring(rx->writer, rx->slot);
}

/* Whoever has the lane may read on meanwhile: then it looks, too, and we need not sleep. */
static bool peek(struct fabric_peer *p)
{
	const _Atomic uint32_t *at = atomic_load(&p->at);

	return !at || atomic_load(at) || atomic_load(&p->at) != at;
}

bool fabric_peer_quiet(struct fabric_link *l)
{
	bool news = false;

	urxe_spin_lock(&l->lock);
	for (unsigned w = 0; w < FABRIC_WORDS && !news; w++) {
		uint64_t watched = fabric_watched(l, w);

		news = urxe_bell_news(l->bell, w, watched);
		for (; watched && !news; watched &= watched - 1)
			news = peek(&l->peer[w * 64 + (unsigned)__builtin_ctzll(watched)]);
	}
	urxe_spin_unlock(&l->lock);
	return !news;
}

/* ---- what waits for a peer ---- */

static void set_coming(struct fabric_link *l, struct fabric_peer *p, bool coming)
{
	if (p->coming == coming)
		return;
	p->coming = coming;
	atomic_fetch_add_explicit(&l->coming, coming ? 1u : -1u, memory_order_relaxed);
}

static void set_held(struct fabric_link *l, unsigned slot, bool held)
{
	uint64_t *word = &l->held[slot / 64], bit = 1ull << slot % 64;

	if (!(*word & bit) == !held)
		return;
	*word ^= bit;
	l->num_held += held ? 1u : -1u;
}

static void drop_held(struct fabric_link *l, unsigned slot)
{
	struct fabric_peer *p = &l->peer[slot];

	set_coming(l, p, false);
	atomic_fetch_add_explicit(&l->dropped, p->held_count, memory_order_relaxed);
	for (; p->held_count; p->held_count--) {
		urxe_buf_put(&l->pool, &p->held[p->held_head]);
		p->held_head = (p->held_head + 1) % FABRIC_HELD;
	}
	urxe_free(p->held);
	p->held = NULL;
	p->full_since = 0;
	set_held(l, slot, false);
}

static void hold(struct fabric_link *l, unsigned slot, const struct urxe_frame *f)
{
	struct fabric_peer *p = &l->peer[slot];
	struct urxe_frame *to;

	if (!p->held)
		p->held = calloc(FABRIC_HELD, sizeof(*p->held));
	to = p->held ? &p->held[(p->held_head + p->held_count) % FABRIC_HELD] : NULL;
	if (!to || p->held_count == FABRIC_HELD || f->len > l->room ||
	    !urxe_buf_get(&l->pool, to, 1)) {
		/* As a switch does whose queue is full: of groups' frames and MADs. */
		atomic_fetch_add_explicit(&l->dropped, 1, memory_order_relaxed);
		return;
	}
	memcpy(to->data, f->data, f->len);
	to->len = f->len;
	to->flags = f->flags;
	p->held_count++;
	set_held(l, slot, true);
	if (!p->on)
		set_coming(l, p, true);
}

/* ---- the end of a peer ---- */

void fabric_peer_gone(struct fabric_link *l, unsigned slot)
{
	void (*fn)(void *arg, unsigned slot);
	void *arg;

	urxe_spin_lock(&l->lock);
	fn = l->gone;
	arg = l->gone_arg;
	urxe_spin_unlock(&l->lock);
	if (fn)
		fn(arg, slot);
}

/* Is there a ring of a writer that is gone, not read to its end? */
static bool has_last(const struct fabric_peer *p)
{
	const struct fabric_rx *rx = p->rx;

	while (rx && !rx->last)
		rx = rx->next;
	return rx;
}

/* ---- rings that we write to ---- */

static void drop_tx(struct fabric_peer *p)
{
	if (p->on)
		urxe_ring_unmap(p->tx.mem, p->tx.size);
	p->on = p->stuck = false;
	p->fulls = p->idle = 0;
	p->tx.mem = NULL;
}

/* No more comes by this ring: its reader frees it, when it has read all. */
static void end_ring(struct fabric_link *l, struct fabric_peer *p, struct urxe_ring_tx *tx)
{
	urxe_ring_end(tx);
	urxe_bell_fence();
	urxe_bell_ring(p->bell, l->own);
}

static void end_tx(struct fabric_link *l, struct fabric_peer *p)
{
	end_ring(l, p, &p->tx);
	drop_tx(p);
}

/* From now on we write to this one. */
static void take_way(struct fabric_link *l, unsigned slot, const struct fabric_way *way)
{
	struct fabric_peer *p = &l->peer[slot];

	if (p->on && p->incarnation == way->incarnation)
		end_tx(l, p);
	else
		drop_tx(p);
	p->tx = way->tx;
	p->tx.stage = &p->stage;
	p->on = true;
	p->used = true;
	p->refused = 0;
	p->incarnation = way->incarnation;
	p->max = way->max;
	p->bell = urxe_fabric_bell(l->fabric, slot);
}

/* One that we did not ask for. Where we have one, its reader is told that nothing comes by it. */
static void take_offer(struct fabric_link *l, unsigned slot, struct fabric_way *way)
{
	struct fabric_peer *p = &l->peer[slot];

	if (!way->tx.mem)
		return;
	if (!p->on || p->incarnation != way->incarnation) {
		take_way(l, slot, way);
		return;
	}
	end_ring(l, p, &way->tx);
	urxe_ring_unmap(way->tx.mem, way->tx.size);
}

/* What we offered is nobody's, and may go. */
static void offer_over(struct fabric_peer *p)
{
	for (struct fabric_rx *rx = p->rx; rx; rx = rx->next)
		rx->offered = false;
}

static void take_answer(struct fabric_link *l, unsigned slot, const struct fabric_mail *m)
{
	struct fabric_peer *p = &l->peer[slot];

	p->asked = false;
	if (m->offer_over)
		offer_over(p);
	if (m->err) {
		/* Its memory for larger rings is used up: we ask more rarely. */
		p->refused += m->err == ENOBUFS && p->refused < REFUSED_MOST;
		/* One that does not answer is asked again, by whoever sends to it next. */
		if (!p->on)
			drop_held(l, slot);
		/* It went before we knew each other. */
		if (m->err == EHOSTUNREACH && !has_last(p))
			fabric_peer_gone(l, slot);
		return;
	}
	take_way(l, slot, &m->way);
}

static uint32_t first_size(const struct fabric_link *l, unsigned slot)
{
	return fabric_first_size(l->is_gate && !l->peer[slot].refused);
}

static int ask(struct fabric_link *l, unsigned slot, uint32_t size)
{
	int err = fabric_mail_ask(l, slot, size);

	l->peer[slot].asked = !err || err == EALREADY;
	return l->peer[slot].asked ? 0 : EHOSTUNREACH;
}

/* ---- mail ---- */

/* One that is not among the peer's any more. */
static void free_rx(struct fabric_link *l, struct fabric_peer *p, struct fabric_rx *rx)
{
	/* Nobody looks at it from here on. */
	urxe_spin_lock(&l->lock);
	atomic_store(&p->at, p->rx ? urxe_ring_at(&p->rx->ring) : NULL);
	fabric_mail_uncount(l, p, rx->ring.size);
	urxe_spin_unlock(&l->lock);
	urxe_ring_unmap(rx->ring.mem, rx->ring.size);
	urxe_free(rx);
}

static void take_gone(struct fabric_link *l, unsigned slot, uint32_t incarnation)
{
	struct fabric_peer *p = &l->peer[slot];

	if (!incarnation)
		return;
	if (p->on && p->incarnation == incarnation) {
		drop_tx(p);
		drop_held(l, slot);
	}
	/* It may have published without ringing: what there is is read, once. */
	for (struct fabric_rx *rx = p->rx; rx; rx = rx->next) {
		if (rx->incarnation == incarnation)
			rx->last = true;
	}
	if (!has_last(p))
		fabric_peer_gone(l, slot);
	fabric_peer_watch(l, slot);
}

/*
 * A peer asks for another ring when it has none, or has filled the one it has. So those before the
 * newest that nothing was ever written to it does not know of: our answer came too late for it.
 */
static void drop_unused(struct fabric_link *l, struct fabric_peer *p)
{
	struct fabric_rx **at = &p->rx, *rx;

	while ((rx = *at)->next) {
		if (rx->begun || rx->offered || atomic_load(urxe_ring_at(&rx->ring))) {
			at = &rx->next;
			continue;
		}
		*at = rx->next;
		free_rx(l, p, rx);
	}
}

void fabric_peer_mail(struct fabric_link *l, unsigned slot)
{
	struct fabric_peer *p = &l->peer[slot];
	struct fabric_rx **end = &p->rx;
	struct fabric_mail m;

	/* A frame is being written: later. */
	if (p->on && p->tx.open) {
		urxe_bell_set(l->bell, l->own);
		return;
	}
	atomic_fetch_and(&l->mailed[slot / 64], ~(1ull << slot % 64));
	urxe_spin_lock(&l->lock);
	m = p->mail;
	p->mail.rx = NULL;
	p->mail.answer = p->mail.offer_over = false;
	p->mail.way.tx.mem = p->mail.offer.tx.mem = NULL;
	p->mail.gone[0] = p->mail.gone[1] = 0;
	urxe_spin_unlock(&l->lock);
	while (*end)
		end = &(*end)->next;
	*end = m.rx;
	take_offer(l, slot, &m.offer);
	if (m.answer)
		take_answer(l, slot, &m);
	if (p->rx)
		drop_unused(l, p);
	if (m.rx)
		fabric_peer_watch(l, slot);
	fabric_peer_at(p);
	take_gone(l, slot, m.gone[0]);
	take_gone(l, slot, m.gone[1]);
	/*
	 * What comes is mostly answered: the way back is made meanwhile, where none was offered.
	 */
	if (m.rx && !p->on && !p->asked)
		ask(l, slot, first_size(l, slot));
}

static bool has_mail(struct fabric_link *l, unsigned slot)
{
	return atomic_load_explicit(&l->mailed[slot / 64], memory_order_relaxed) >> slot % 64 & 1;
}

/* ---- attaching ---- */

/* Is it this member that has @mac? */
static bool has_mac(struct fabric_link *l, unsigned slot, const uint8_t mac[6])
{
	int node = urxe_fabric_mac_slot(l->fabric, mac);

	return node > 0 ? (unsigned)node == slot
			: !node && urxe_fabric_shares(l->fabric, slot, mac);
}

int fabric_peer_attach(struct fabric_link *l, unsigned slot, const uint8_t mac[6])
{
	struct fabric_peer *p = &l->peer[slot];
	int err;

	if (has_mail(l, slot))
		fabric_peer_mail(l, slot);
	if (slot == l->own || !urxe_fabric_incarnation(l->fabric, slot) || !has_mac(l, slot, mac))
		return EHOSTUNREACH;
	if (p->on) {
		memcpy(p->mac, mac, 6);
		return 0;
	}
	err = p->asked ? 0 : ask(l, slot, first_size(l, slot));
	return err ? err : EINPROGRESS;
}

/* ---- writing ---- */

void fabric_peer_publish(struct fabric_link *l)
{
	if (!l->dirty_count)
		return;
	for (unsigned i = 0; i < l->dirty_count; i++) {
		struct fabric_peer *p = &l->peer[l->dirty[i]];

		if (p->on)
			urxe_ring_publish(&p->tx);
		p->dirty = false;
	}
	urxe_bell_fence();
	for (unsigned i = 0; i < l->dirty_count; i++) {
		struct fabric_peer *p = &l->peer[l->dirty[i]];

		if (p->on)
			urxe_bell_ring(p->bell, l->own);
	}
	l->dirty_count = 0;
}

/* Its reader need not wait for the end of our burst. */
void fabric_peer_publish_one(struct fabric_link *l, struct fabric_peer *p)
{
	if (!urxe_ring_publish(&p->tx))
		return;
	urxe_bell_fence();
	urxe_bell_ring(p->bell, l->own);
}

void fabric_peer_full(struct fabric_link *l, unsigned slot)
{
	struct fabric_peer *p = &l->peer[slot];

	fabric_peer_publish_one(l, p);
	/* One that reads nothing has no use for more. */
	if (urxe_ring_progress(&p->tx) || !p->stuck)
		p->fulls++;
	p->stuck = true;
	if (p->fulls >= GROW_AFTER << p->refused && !p->asked && p->tx.size < URXE_RING_LARGEST) {
		p->fulls = 0;
		ask(l, slot, p->tx.size * FABRIC_GROW);
	}
	urxe_ring_want(&p->tx);
}

static bool write_frame(struct fabric_link *l, unsigned slot, const struct urxe_frame *f)
{
	struct fabric_peer *p = &l->peer[slot];
	uint8_t *to;

	if (f->len > p->max) { /* it would not be read */
		atomic_fetch_add_explicit(&l->dropped, 1, memory_order_relaxed);
		return true;
	}
	to = urxe_ring_reserve(&p->tx, f->len);
	if (!to) {
		fabric_peer_full(l, slot);
		return false;
	}
	memcpy(to, f->data, f->len);
	urxe_ring_commit(&p->tx, f->len, f->flags & URXE_FRAME_NO_ICRC ? URXE_RING_NO_ICRC : 0);
	fabric_peer_committed(l, p);
	return true;
}

void fabric_peer_send(struct fabric_link *l, unsigned slot, const struct urxe_frame *f)
{
	struct fabric_peer *p = &l->peer[slot];

	if (!p->on) {
		if (slot == l->own || !urxe_fabric_incarnation(l->fabric, slot) ||
		    (!p->asked && ask(l, slot, first_size(l, slot)))) {
			atomic_fetch_add_explicit(&l->dropped, 1, memory_order_relaxed);
			fabric_peer_gone(l, slot == l->own ? 0 : slot);
			return;
		}
		hold(l, slot, f);
		return;
	}
	if (p->held_count || !write_frame(l, slot, f))
		hold(l, slot, f);
}

static void retry(struct fabric_link *l, unsigned slot)
{
	struct fabric_peer *p = &l->peer[slot];

	while (p->on && p->held_count && write_frame(l, slot, &p->held[p->held_head])) {
		urxe_buf_put(&l->pool, &p->held[p->held_head]);
		p->held_head = (p->held_head + 1) % FABRIC_HELD;
		p->held_count--;
		p->full_since = 0;
	}
	if (!p->held_count)
		drop_held(l, slot);
}

void fabric_peer_retry_all(struct fabric_link *l)
{
	for (unsigned w = 0; w < FABRIC_WORDS; w++) {
		for (uint64_t left = l->held[w]; left; left &= left - 1)
			retry(l, w * 64 + (unsigned)__builtin_ctzll(left));
	}
}

/* ---- rings that we read ---- */

int fabric_peer_retire(struct fabric_link *l, struct fabric_peer *p)
{
	struct fabric_rx *rx = p->rx;
	bool last = rx->last;

	if (rx->ring.borrowed)
		return EBUSY;
	p->rx = rx->next;
	free_rx(l, p, rx);
	if (last && !has_last(p))
		fabric_peer_gone(l, p->slot);
	return 0;
}

/* ---- the end ---- */

void fabric_peer_tidy(struct fabric_link *l)
{
	for (unsigned slot = URXE_FABRIC_FIRST; slot <= URXE_FABRIC_LAST; slot++) {
		struct fabric_peer *p = &l->peer[slot];

		if (!p->on || p->tx.open || p->dirty)
			continue;
		p->idle = p->used ? 0 : p->idle + 1;
		p->used = false;
		if (p->idle >= IDLE_LOOKS && !p->asked)
			end_tx(l, p);
	}
}

static void close_peer(struct fabric_link *l, unsigned slot)
{
	struct fabric_peer *p = &l->peer[slot];

	fabric_peer_mail(l, slot);
	if (p->on)
		end_tx(l, p);
	drop_held(l, slot);
	while (p->rx) {
		p->rx->ring.borrowed = 0;
		fabric_peer_retire(l, p);
	}
}

void fabric_peer_close(struct fabric_link *l)
{
	l->gone = NULL;
	fabric_peer_publish(l);
	for (unsigned slot = 0; slot < URXE_FABRIC_SLOTS; slot++) {
		l->peer[slot].tx.open = false;
		close_peer(l, slot);
	}
}
