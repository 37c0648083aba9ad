/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The send half of a lane: frames are reserved, filled, committed into a queue that
 * keeps their order, and handed to the link in bursts. No allocation, no lock but the
 * lane's.
 */
#include "netio/stack.h"
#include "netio/trace.h"
#include "urxe/guarded.h"
#include "urxe/lines.h"

/* On the way of each packet, from more places than one. */
#define ALWAYS static inline __attribute__((always_inline))

static bool cache_refill(struct urxe_lane *lane)
{
	struct urxe_port *port = lane->port;

	lane->cached = port->ops->alloc(port->link, lane->index, lane->cache, TX_CACHE);
	return lane->cached != 0;
}

/*
 * The frame that comes next: a peer that shares our memory (vhost) has read it, and its first
 * lines take as long to come back as a small message takes for all the rest.
 */
static void fetch_next(const struct urxe_lane *lane)
{
	const uint8_t *next;

	if (!lane->cached)
		return;
	next = lane->cache[lane->cached - 1].data;
	urxe_line_fetch(next);
	urxe_line_fetch(next + URXE_LINE);
}

void urxe_frame_free(struct urxe_lane *lane, struct urxe_frame *f)
{
	lane->port->ops->free(lane->port->link, lane->index, f, 1);
}

bool urxe_frame_copy(struct urxe_lane *lane, struct urxe_frame *to, const struct urxe_frame *from)
{
	if (!lane->cached && !cache_refill(lane))
		return false;
	if (lane->cache[lane->cached - 1].room < from->len)
		return false;
	*to = lane->cache[--lane->cached];
	memcpy(to->data, from->rest ? from->rest : from->data, from->len);
	to->len = from->len;
	to->flags = from->flags;
	return true;
}

/* ---- queues ---- */

/*
 * There is no carrier: has a frame that waits for it waited long enough? Without this a datagram to
 * a group, which no neighbour's answer holds back, would be lost while the link is being brought
 * up.
 */
static bool carrier_given_up(struct urxe_port *port)
{
	uint64_t until = atomic_load_explicit(&port->carrier_until, memory_order_relaxed);
	uint64_t now = urxe_port_now(port);

	if (!until) {
		until = now + (atomic_load_explicit(&port->was_ever_up, memory_order_relaxed)
				       ? LINK_PATIENCE
				       : LINK_PATIENCE_FIRST);
		atomic_store_explicit(&port->carrier_until, until, memory_order_relaxed);
	}
	return now >= until;
}

static void queue_dropped(struct urxe_lane *lane) URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;

	urxe_count(lane, URXE_CNT_tx_link_down, lane->tx_count);
	port->ops->free(port->link, lane->index, lane->txq + lane->tx_head, lane->tx_count);
	lane->tx_head = lane->tx_count = 0;
}

/*
 * Reading with wide loads what narrow stores have just written makes the processor wait until these
 * have left its store buffer. So the ICRC of a short frame is made when the next one is written, or
 * else the lane flushed.
 */
ALWAYS void put_icrc_due(struct urxe_lane *lane) URXE_REQUIRES(lane)
{
	struct urxe_tx_icrc *due = &lane->icrc_due;

	if (!due->l3)
		return;
	urxe_icrc_put(due->at, urxe_icrc(due->l3, due->ipv4, due->len));
	due->l3 = NULL;
}

static __attribute__((noinline)) void flush(struct urxe_lane *lane) URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	struct urxe_frame *f = lane->txq + lane->tx_head;
	uint64_t bytes = 0;
	unsigned n = lane->tx_count, k;

	put_icrc_due(lane);
	/* The frames are the link's once it has taken them, and ours if it has not. */
	for (unsigned i = 0; i < n; i++)
		bytes += f[i].len;
	k = port->ops->tx(port->link, lane->index, f, n);
	for (unsigned i = k; i < n; i++)
		bytes -= f[i].len;
	urxe_count(lane, URXE_CNT_tx_frames, k + lane->placed);
	urxe_count(lane, URXE_CNT_tx_bytes, bytes + lane->placed_bytes);
	lane->placed = 0;
	lane->placed_bytes = 0;
	lane->tx_count -= k;
	lane->tx_head = lane->tx_count ? lane->tx_head + k : 0;
	/* A peer that stays away takes nothing for ever: what waits for it is lost on the wire. */
	if (lane->tx_count && !k && !port->ops->up(port->link) && carrier_given_up(port))
		queue_dropped(lane);
}

void urxe_lane_flush(struct urxe_lane *lane)
{
	if (lane->tx_count || lane->placed)
		flush(lane);
}

/* Room for one more at the end of the transmit queue. */
static bool queue_room(struct urxe_lane *lane)
{
	if (lane->tx_head + lane->tx_count < TX_QUEUE)
		return true;
	if (!lane->tx_head)
		return false;
	memmove(lane->txq, lane->txq + lane->tx_head, lane->tx_count * sizeof(lane->txq[0]));
	lane->tx_head = 0;
	return true;
}

static unsigned loop_count(struct urxe_lane *lane)
{
	return atomic_load_explicit(&lane->loop_count, memory_order_relaxed);
}

void urxe_lane_emit(struct urxe_lane *lane, struct urxe_frame *f, bool loop)
{
	struct urxe_port *port = lane->port;
	unsigned n = loop_count(lane);

	if (loop ? n >= LOOP_QUEUE : !queue_room(lane)) {
		urxe_count(lane, URXE_CNT_tx_control_dropped, 1);
		urxe_frame_free(lane, f);
		return;
	}
	if (port->capture)
		urxe_capture_write(port->capture, f->data, f->len, true);
	if (loop) {
		lane->loop[(lane->loop_head + n) % LOOP_QUEUE] = *f;
		atomic_store_explicit(&lane->loop_count, n + 1, memory_order_relaxed);
		urxe_count(lane, URXE_CNT_loop_packets, 1);
	} else {
		lane->txq[lane->tx_head + lane->tx_count++] = *f;
	}
}

static __attribute__((noinline)) void emit_roce(struct urxe_lane *lane, struct urxe_frame *f,
						bool loop) URXE_REQUIRES(lane)
{
	struct urxe_frame out[FAULT_OUT];
	unsigned n;

	if (!lane->faults.on) {
		urxe_lane_emit(lane, f, loop);
		return;
	}
	/* The held frame, and a copy, remember where they go. */
	if (loop)
		f->flags |= URXE_FRAME_LOOP;
	n = urxe_fault_apply(lane, &lane->faults.tx, f, out);
	for (unsigned i = 0; i < n; i++)
		urxe_lane_emit(lane, &out[i], out[i].flags & URXE_FRAME_LOOP);
}

/* ---- RoCEv2 frames ---- */

static int no_room(struct urxe_lane *lane, enum urxe_counter why) URXE_REQUIRES(lane)
{
	urxe_count(lane, why, 1);
	urxe_trace_tx_wait(lane, why);
	return EAGAIN;
}

ALWAYS int reserve_wire(struct urxe_lane *lane) URXE_REQUIRES(lane)
{
	if (lane->tx_count + lane->reserved < TX_LIMIT)
		return 0;
	urxe_lane_flush(lane);
	if (lane->tx_count + lane->reserved < TX_LIMIT)
		return 0;
	return no_room(lane, URXE_CNT_tx_backlog_full);
}

bool urxe_port_awaits_carrier(struct urxe_port *port)
{
	return !port->ops->up(port->link) && !carrier_given_up(port);
}

bool urxe_port_settles(struct urxe_port *port)
{
	uint64_t until = atomic_load_explicit(&port->settles_until, memory_order_relaxed);

	return until && urxe_port_now(port) < until;
}

/* For frames that go without anybody's answer: unicast ones wait for their neighbour's. */
static int await_carrier(struct urxe_lane *lane) URXE_REQUIRES(lane)
{
	return urxe_port_awaits_carrier(lane->port) ? no_room(lane, URXE_CNT_tx_no_carrier) : 0;
}

static int reserve_loop(struct urxe_lane *lane) URXE_REQUIRES(lane)
{
	if (loop_count(lane) + lane->loop_reserved < LOOP_LIMIT)
		return 0;
	return no_room(lane, URXE_CNT_tx_loop_full);
}

/* What keeps a frame from its receiver's memory. */
static int no_place(struct urxe_lane *lane, int err) URXE_REQUIRES(lane)
{
	switch (err) {
	case EAGAIN:
	case ENOSPC:
		return no_room(lane, URXE_CNT_tx_peer_full);
	case EINPROGRESS:
		urxe_count(lane, URXE_CNT_tx_unresolved, 1);
		return err;
	case EHOSTUNREACH:
		urxe_count(lane, URXE_CNT_tx_unreachable, 1);
		return err;
	default:
		return err;
	}
}

/*
 * For one receiver over the link. Where frames are written into its memory, the QPN says whose that
 * is. MADs go by what they say, which is not known yet; faults want frames that they can keep, but
 * there must be room for them.
 */
ALWAYS int to_peer(struct urxe_lane *lane, const uint8_t mac[6], uint32_t dqpn, uint32_t *flags)
	URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	int err;

	*flags |= port->wire_flags;
	if (port->places && dqpn > 1) {
		if (!lane->faults.on) {
			*flags |= TX_PLACED;
			return 0;
		}
		err = port->ops->reserve(port->link, lane->index, mac, dqpn, 0, NULL);
		if (err && err != ENOBUFS)
			return no_place(lane, err);
	}
	return reserve_wire(lane);
}

static int to_ourselves(struct urxe_lane *lane, uint32_t *flags) URXE_REQUIRES(lane)
{
	*flags |= TX_LOOP | (lane->port->loop_icrc ? 0 : TX_NOICRC);
	return reserve_loop(lane);
}

/* To an address that is not ours alone. A MAD may be for several. */
static int to_local(struct urxe_lane *lane, uint32_t dqpn, uint32_t *flags) URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	int err;

	if (dqpn > 1 && port->ops->steer(port->link, dqpn, NULL) != URXE_STEER_LINK)
		return to_ourselves(lane, flags);
	err = to_peer(lane, port->mac, dqpn, flags);
	if (err || dqpn > 1)
		return err;
	*flags |= TX_STEER;
	return reserve_loop(lane);
}

/* destination() of a path that leads to no neighbour. */
static __attribute__((noinline)) int not_to_neighbour(struct urxe_lane *lane,
						      const struct urxe_path *path, uint32_t dqpn,
						      uint8_t mac[6], uint32_t *flags)
	URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	int err;

	switch ((enum urxe_path_kind)path->kind) {
	case PATH_WIRE:
		break;
	case PATH_LOOP:
		memcpy(mac, port->mac, 6);
		return to_ourselves(lane, flags);
	case PATH_LOCAL:
		memcpy(mac, port->mac, 6);
		return to_local(lane, dqpn, flags);
	case PATH_MCAST:
		err = await_carrier(lane);
		if (err)
			return err;
		memcpy(mac, path->mac, 6);
		if (!port->wire_icrc)
			*flags |= TX_NOICRC;
		if (urxe_mcast_joined(port, path->dgid)) {
			*flags |= TX_MCAST;
			err = reserve_loop(lane);
			if (err)
				return err;
		}
		return reserve_wire(lane);
	}
	return EINVAL;
}

/* Where a frame on this path goes: MAC and TX_* flags; or why it cannot go now. */
ALWAYS int destination(struct urxe_lane *lane, struct urxe_path *path, uint32_t dqpn,
		       uint8_t mac[6], uint32_t *flags) URXE_REQUIRES(lane)
{
	uint64_t word;
	int err;

	if (!atomic_load_explicit(&path->own->live, memory_order_relaxed)) {
		urxe_count(lane, URXE_CNT_tx_no_source, 1);
		return EHOSTUNREACH;
	}
	*flags = path->ipv4 ? TX_IPV4 : 0;
	if (__builtin_expect(path->kind != PATH_WIRE, 0))
		return not_to_neighbour(lane, path, dqpn, mac, flags);
	word = atomic_load_explicit(&path->neigh->word, memory_order_relaxed);
	if (urxe_neigh_word_state(word) < NEIGH_DELAY) {
		err = urxe_neigh_use(lane, path->neigh, &word);
		if (err)
			return err;
	}
	if (!atomic_load_explicit(&path->neigh->used, memory_order_relaxed))
		atomic_store_explicit(&path->neigh->used, true, memory_order_relaxed);
	urxe_neigh_word_mac(word, mac);
	return to_peer(lane, mac, dqpn, flags);
}
/* Lengths, id and checksum: all that differs from the path's template. */
static void finish_ip(struct urxe_lane *lane, const struct urxe_path *path, uint8_t *l2,
		      uint32_t len, uint32_t flags)
{
	uint8_t *l3 = l2 + path->l3_off;
	uint32_t udp_len = UDP_LEN + len + URXE_ICRC_LEN;

	urxe_put16(l2 + path->hdr_len - UDP_LEN + 4, (uint16_t)udp_len);
	if (!path->ipv4) {
		urxe_put16(l3 + 4, (uint16_t)udp_len);
		return;
	}
	urxe_put16(l3 + 2, (uint16_t)(IPV4_LEN + udp_len));
	urxe_put16(l3 + 4, lane->ip_id);
	if (!(flags & TX_CSUM))
		urxe_put16(l3 + 10, urxe_sum_fold(path->ip_sum + IPV4_LEN + udp_len + lane->ip_id));
	lane->ip_id = (uint16_t)(lane->ip_id + lane->ip_id_step);
}

/* A frame of our own for @len bytes: *@f is good until the next one is taken. */
ALWAYS int take_frame(struct urxe_lane *lane, const struct urxe_frame **f, uint32_t len)
	URXE_REQUIRES(lane)
{
	if (!lane->cached && !cache_refill(lane))
		return no_room(lane, URXE_CNT_tx_no_frame);
	*f = &lane->cache[lane->cached - 1];
	if (len > (*f)->room) {
		urxe_count(lane, URXE_CNT_tx_too_long, 1);
		return EMSGSIZE;
	}
	lane->cached--;
	fetch_next(lane);
	return 0;
}

int urxe_tx_reserve(struct urxe_lane *lane, struct urxe_tx *tx, uint32_t len)
{
	const struct urxe_frame *f = NULL;
	int err = await_carrier(lane);

	if (!err)
		err = reserve_wire(lane);
	if (!err)
		err = take_frame(lane, &f, len);
	if (err)
		return err;
	lane->reserved++;
	tx->flags = TX_NOICRC;
	tx->l2 = tx->bth = tx->cur = f->data;
	tx->end = tx->l2 + len;
	tx->frame = f->buf;
	tx->room = f->room;
	return 0;
}

/* One of the receiver's, in *@place; or one of our own, if that is the only way to it. */
static int place_frame(struct urxe_lane *lane, const uint8_t mac[6], uint32_t dqpn,
		       struct urxe_frame *place, const struct urxe_frame **f, uint32_t len,
		       uint32_t *flags) URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	int err;

	/* What was committed before goes before. */
	if (lane->tx_count)
		urxe_lane_flush(lane);
	*f = place;
	err = port->ops->reserve(port->link, lane->index, mac, dqpn, len, place);
	if (err != ENOBUFS)
		return err ? no_place(lane, err) : 0;
	*flags &= ~(uint32_t)TX_PLACED;
	err = reserve_wire(lane);
	return err ? err : take_frame(lane, f, len);
}

int urxe_tx_begin(struct urxe_lane *lane, struct urxe_path *path, uint32_t dqpn, struct urxe_tx *tx,
		  uint32_t len)
{
	uint32_t flags, hdr_len = path->hdr_len;
	const struct urxe_frame *f = NULL;
	struct urxe_frame place;
	uint8_t mac[6], *l2;
	int err;

	if (len > path->max_len || len < URXE_BTH_LEN) {
		urxe_count(lane, URXE_CNT_tx_too_long, 1);
		return EMSGSIZE;
	}
	err = destination(lane, path, dqpn, mac, &flags);
	if (err)
		return err;
	if (flags & TX_PLACED)
		err = place_frame(lane, mac, dqpn, &place, &f, hdr_len + len + URXE_ICRC_LEN,
				  &flags);
	else
		err = take_frame(lane, &f, hdr_len + len + URXE_ICRC_LEN);
	/* Its address may have gone over to another one. */
	if (err == EHOSTUNREACH && path->kind == PATH_WIRE)
		urxe_neigh_suspect(lane, path->neigh);
	if (err)
		return err;
	l2 = f->data;
	tx->l2 = l2;
	tx->frame = f->buf;
	tx->room = f->room;
	memcpy(l2, mac, 6);
	memcpy(l2 + 6, lane->port->mac, 6);
	memcpy(l2 + PATH_MACS, path->hdr, PATH_HDR_IPV4);
	if (!(flags & TX_IPV4))
		memcpy(l2 + PATH_MACS + PATH_HDR_IPV4, path->hdr + PATH_HDR_IPV4,
		       PATH_HDR_ROOM - PATH_HDR_IPV4);
	finish_ip(lane, path, l2, len, flags);
	if (len <= URXE_ICRC_SHORT)
		flags |= TX_SHORT;
	if (!(flags & (TX_LOOP | TX_PLACED)))
		lane->reserved++;
	if (flags & (TX_LOOP | TX_MCAST | TX_STEER))
		lane->loop_reserved++;
	tx->bth = tx->cur = l2 + hdr_len;
	tx->end = tx->bth + len;
	tx->flags = flags;
	return 0;
}

ALWAYS const uint8_t *frame_l3(const struct urxe_tx *tx)
{
	return tx->bth - UDP_LEN - (tx->flags & TX_IPV4 ? IPV4_LEN : IPV6_LEN);
}

ALWAYS uint32_t frame_icrc(const struct urxe_tx *tx, uint32_t len)
{
	return urxe_icrc(frame_l3(tx), tx->flags & TX_IPV4, len);
}

static_assert(URXE_TX_UNSUMMED == (TX_NOICRC | TX_SHORT), "as port.h has it");

void urxe_tx_sum_headers(struct urxe_tx *tx, uint32_t hdr_len)
{
	tx->crc = frame_icrc(tx, hdr_len);
}

void urxe_tx_headers_twice(struct urxe_tx *tx, uint32_t hdr_len)
{
	tx->cur = tx->bth + hdr_len;
	tx->flags &= ~(uint32_t)TX_SHORT; /* it is made here, not at commit */
	if (!(tx->flags & TX_NOICRC))
		tx->crc = urxe_icrc_twice(frame_l3(tx), tx->flags & TX_IPV4, hdr_len);
}

static __attribute__((noinline)) void append_zeros(struct urxe_tx *tx, uint8_t *to, uint32_t len)
{
	memset(to, 0, len);
	if (!(tx->flags & URXE_TX_UNSUMMED))
		tx->crc = urxe_icrc_more(tx->crc, to, len);
}

int urxe_tx_append_summed(struct urxe_tx *tx, const void *src, uint32_t len)
{
	uint8_t *to = tx->cur;

	if (len > (uint32_t)(tx->end - to))
		len = (uint32_t)(tx->end - to);
	tx->cur = to + len;
	if (!src) {
		append_zeros(tx, to, len);
		return 0;
	}
	if (tx->flags & URXE_TX_UNSUMMED)
		return urxe_guarded_copy(to, src, len);
	return urxe_icrc_copy(&tx->crc, to, src, len);
}

static void unreserve(struct urxe_lane *lane, const struct urxe_tx *tx)
{
	if (!(tx->flags & (TX_LOOP | TX_PLACED)))
		lane->reserved--;
	if (tx->flags & (TX_LOOP | TX_MCAST | TX_STEER))
		lane->loop_reserved--;
}

static uint32_t frame_flags(const struct urxe_tx *tx)
{
	return (tx->flags & TX_CSUM ? URXE_FRAME_TX_IPV4_CSUM : 0) |
	       (tx->flags & TX_NOICRC ? URXE_FRAME_NO_ICRC : 0);
}

/* A copy for ourselves of what goes to others, too. */
static void emit_copy(struct urxe_lane *lane, const struct urxe_frame *f) URXE_REQUIRES(lane)
{
	struct urxe_frame copy;

	if (urxe_frame_copy(lane, &copy, f))
		urxe_lane_emit(lane, &copy, true);
	else
		urxe_count(lane, URXE_CNT_tx_control_dropped, 1);
}

/* To an address that is not ours alone; for nobody it is ours, who refuse it. */
static void emit_steered(struct urxe_lane *lane, struct urxe_frame *f, uint32_t dqpn)
	URXE_REQUIRES(lane)
{
	unsigned to = lane->port->ops->steer(lane->port->link, dqpn, f);

	if (to == (URXE_STEER_LOOP | URXE_STEER_LINK))
		emit_copy(lane, f);
	emit_roce(lane, f, !(to & URXE_STEER_LINK));
}

/* A complete frame of our own, to where its flags say. */
static __attribute__((noinline)) void emit_special(struct urxe_lane *lane, const struct urxe_tx *tx,
						   struct urxe_frame *f) URXE_REQUIRES(lane)
{
	if (tx->flags & TX_MCAST)
		emit_copy(lane, f);
	if (tx->flags & TX_STEER)
		emit_steered(lane, f, urxe_bth_dqpn(tx->bth));
	else
		emit_roce(lane, f, tx->flags & TX_LOOP);
}

/* Goes a frame to the wire, with nobody to look at it or to harm it? To be asked once a frame. */
ALWAYS bool goes_straight(struct urxe_lane *lane, const struct urxe_tx *tx) URXE_REQUIRES(lane)
{
	return !(tx->flags & (TX_MCAST | TX_STEER | TX_LOOP)) && !lane->port->capture &&
	       lane->tx_head + lane->tx_count < TX_QUEUE &&
	       (!lane->faults.on || urxe_fault_spares(&lane->faults.tx, 1));
}

/* Its ICRC; frames of TX_SHORT are of words, as are all. @queued: nobody sees it before flush(). */
ALWAYS void put_icrc(struct urxe_lane *lane, const struct urxe_tx *tx, bool queued)
	URXE_REQUIRES(lane)
{
	if (tx->flags & TX_NOICRC) {
		memset(tx->end, 0, URXE_ICRC_LEN);
	} else if (tx->flags & TX_SHORT && queued) {
		put_icrc_due(lane);
		lane->icrc_due = (struct urxe_tx_icrc){.l3 = frame_l3(tx),
						       .at = tx->end,
						       .len = (uint32_t)(tx->end - tx->bth),
						       .ipv4 = tx->flags & TX_IPV4};
	} else if (tx->flags & TX_SHORT) {
		urxe_icrc_put(tx->end, frame_icrc(tx, (uint32_t)(tx->end - tx->bth)));
	} else {
		urxe_icrc_put(tx->end, tx->crc);
	}
}

ALWAYS uint32_t frame_len(const struct urxe_tx *tx)
{
	return (uint32_t)(tx->end + URXE_ICRC_LEN - tx->l2);
}

ALWAYS void make_frame(const struct urxe_tx *tx, struct urxe_frame *f)
{
	f->data = tx->l2;
	f->rest = NULL;
	f->len = frame_len(tx);
	f->room = tx->room;
	f->flags = frame_flags(tx);
	f->buf = tx->frame;
}

/* It is where its receiver reads it. */
ALWAYS void commit_placed(struct urxe_lane *lane, const struct urxe_tx *tx) URXE_REQUIRES(lane)
{
	struct urxe_port *port = lane->port;
	uint32_t len = frame_len(tx);

	put_icrc(lane, tx, false);
	if (port->capture)
		urxe_capture_write(port->capture, tx->l2, len, true);
	port->ops->commit(port->link, lane->index, tx->frame, len, frame_flags(tx));
	lane->placed++;
	lane->placed_bytes += len;
}

ALWAYS void commit_own(struct urxe_lane *lane, const struct urxe_tx *tx) URXE_REQUIRES(lane)
{
	bool straight = goes_straight(lane, tx);
	struct urxe_frame own, *f = &own;

	put_icrc(lane, tx, straight);
	unreserve(lane, tx);
	if (straight)
		f = &lane->txq[lane->tx_head + lane->tx_count++];
	make_frame(tx, f);
	if (!straight)
		emit_special(lane, tx, f);
}

void urxe_tx_commit(struct urxe_lane *lane, struct urxe_tx *tx)
{
	if (tx->cur < tx->end)
		urxe_tx_append(tx, NULL, (uint32_t)(tx->end - tx->cur));
	urxe_count(lane, URXE_CNT_tx_packets, 1);
	if (tx->flags & TX_PLACED)
		commit_placed(lane, tx);
	else
		commit_own(lane, tx);
	if (lane->tx_count + lane->placed >= lane->burst)
		urxe_lane_flush(lane);
}

void urxe_tx_abort(struct urxe_lane *lane, struct urxe_tx *tx)
{
	struct urxe_frame f = {.data = tx->l2, .room = tx->room, .buf = tx->frame};

	unreserve(lane, tx);
	if (tx->flags & TX_PLACED)
		lane->port->ops->abort(lane->port->link, lane->index, tx->frame);
	else if (lane->cached < TX_CACHE)
		lane->cache[lane->cached++] = f;
	else
		urxe_frame_free(lane, &f);
}

/* ---- the stack's own frames ---- */

uint8_t *urxe_ctl_begin(struct urxe_lane *lane, struct urxe_frame *f, const uint8_t dmac[6],
			uint16_t ethertype)
{
	uint16_t vlan = lane->port->cfg.vlan;
	uint8_t *p;

	if (!queue_room(lane) || (!lane->cached && !cache_refill(lane))) {
		urxe_count(lane, URXE_CNT_tx_control_dropped, 1);
		return NULL;
	}
	*f = lane->cache[--lane->cached];
	f->flags = 0;
	memcpy(f->data, dmac, 6);
	memcpy(f->data + 6, lane->port->mac, 6);
	p = f->data + 12;
	if (vlan != URXE_NO_VLAN) {
		urxe_put16(p, ETHERTYPE_VLAN);
		urxe_put16(p + 2, vlan);
		p += VLAN_LEN;
	}
	urxe_put16(p, ethertype);
	return p + 2;
}

void urxe_ctl_end(struct urxe_lane *lane, struct urxe_frame *f, const uint8_t *end)
{
	f->len = (uint32_t)(end - f->data);
	urxe_lane_emit(lane, f, false);
}

/* Nobody else uses the lane any more: its lock is not taken. */
void urxe_tx_fini(struct urxe_lane *lane) URXE_UNCHECKED
{
	struct urxe_port *port = lane->port;
	struct urxe_frame f;

	port->ops->free(port->link, lane->index, lane->cache, lane->cached);
	port->ops->free(port->link, lane->index, lane->txq + lane->tx_head, lane->tx_count);
	for (unsigned n = loop_count(lane); n; n--) {
		urxe_frame_free(lane, &lane->loop[lane->loop_head]);
		lane->loop_head = (lane->loop_head + 1) % LOOP_QUEUE;
	}
	for (unsigned n = atomic_load(&lane->pend_count); n; n--) {
		urxe_frame_free(lane, &lane->pend[lane->pend_head]);
		lane->pend_head = (lane->pend_head + 1) % RX_PENDING;
	}
	if (urxe_fault_due(&lane->faults.tx, URXE_NEVER, &f))
		urxe_frame_free(lane, &f);
	if (urxe_fault_due(&lane->faults.rx, URXE_NEVER, &f))
		urxe_frame_free(lane, &f);
}
