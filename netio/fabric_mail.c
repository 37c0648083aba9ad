/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the fabric's thread does for the link: it makes rings that peers ask for, maps those that
 * they have made for us, and leaves both in the mail of the peer.
 *
 * Who asks a peer for a ring offers it one for the way back along with the question. So both ways
 * are there when the first frame arrives: a process that answers and ends at once, as one that
 * acknowledges a last message or rejects a connection, would take its answer along otherwise.
 */
#include "netio/fabric_link.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "urxe/free.h"

#define MAX_RINGS 4 /* of one peer at a time: the one it writes to, and some not read yet */

/* Words of a request and its answer. */
enum {
	WORD_SIZE,  /* of the ring's records */
	WORD_MAX,   /* answer: bytes of the longest frame that is read */
	WORD_OFFER, /* request: the size of the ring whose descriptor comes with it; answer: whether
		       it is taken */
	WORD_OFFER_MAX, /* request: as WORD_MAX */
};

/* Something is in the mail of @slot: who looks next will find it. */
static void leave(struct fabric_link *l, unsigned slot)
{
	atomic_fetch_or(&l->mailed[slot / 64], 1ull << slot % 64);
	/* Our own bit: there is no ring to watch. */
	urxe_bell_set(l->bell, l->own);
}

/* The same, and who sleeps looks now. */
static void post(struct fabric_link *l, unsigned slot)
{
	leave(l, slot);
	urxe_bell_wake(l->bell);
}

static void add_rx(struct fabric_link *l, unsigned slot, struct fabric_rx *rx)
{
	struct fabric_mail *m = &l->peer[slot].mail;

	urxe_spin_lock(&l->lock);
	if (!m->rx)
		m->rx_tail = &m->rx;
	*m->rx_tail = rx;
	m->rx_tail = &rx->next;
	urxe_spin_unlock(&l->lock);
	/* Nothing is in it yet: who writes to it rings. */
	leave(l, slot);
}

/* ---- rings of ours, that a peer writes to ---- */

/* What a ring takes of the memory that is there for those that have grown. */
static uint32_t grown_by(uint32_t size)
{
	return size > URXE_RING_FIRST ? size : 0;
}

/*
 * May there be a larger ring? All may have one of that size: who writes to us is not served by when
 * it came. Where many do, each finds room in a small ring by the time the others have been read.
 */
static bool may_grow(const struct fabric_link *l, uint32_t size) URXE_REQUIRES(l->lock)
{
	return grown_by(size) <= l->grown_most - l->grown &&
	       (uint64_t)grown_by(size) * l->rings <= l->grown_most;
}

/* One more, of a peer that has @most - 1 at most. */
static int count_ring(struct fabric_link *l, unsigned slot, uint32_t size, unsigned most)
{
	struct fabric_mail *m = &l->peer[slot].mail;
	int err = 0;

	urxe_spin_lock(&l->lock);
	if (m->rings >= most) {
		err = EAGAIN;
	} else if (!may_grow(l, size)) {
		err = ENOBUFS;
	} else {
		m->rings++;
		l->rings++;
		l->grown += grown_by(size);
	}
	urxe_spin_unlock(&l->lock);
	return err;
}

void fabric_mail_uncount(struct fabric_link *l, struct fabric_peer *p, uint32_t size)
{
	p->mail.rings--;
	l->rings--;
	l->grown -= grown_by(size);
}

/* A ring for a peer that is not told of it yet. */
static int make_rx(struct fabric_link *l, unsigned slot, uint32_t incarnation, uint32_t size,
		   bool offered, int *fd)
{
	struct fabric_rx *rx;
	int err = count_ring(l, slot, size, offered ? 1 : MAX_RINGS);

	if (err)
		return err;
	rx = calloc(1, sizeof(*rx));
	err = rx ? urxe_ring_create(&rx->ring, size, l->room, fd) : ENOMEM;
	if (err) {
		urxe_free(rx);
		urxe_spin_lock(&l->lock);
		fabric_mail_uncount(l, &l->peer[slot], size);
		urxe_spin_unlock(&l->lock);
		return err;
	}
	rx->slot = slot;
	rx->incarnation = incarnation;
	rx->writer = urxe_fabric_bell(l->fabric, slot);
	rx->offered = offered;
	add_rx(l, slot, rx);
	return 0;
}

/* Of one that has a ring already, the way back is there. */
static void asking(void *arg, unsigned slot, uint32_t incarnation, struct urxe_fabric_words *req)
{
	struct fabric_link *l = arg;
	uint32_t size = fabric_first_size(urxe_fabric_is_gate(l->fabric, slot));
	int fd;

	if (make_rx(l, slot, incarnation, size, true, &fd))
		return; /* it asks for one when it needs it */
	req->fd = fd;
	req->w[WORD_OFFER] = size;
	req->w[WORD_OFFER_MAX] = l->room;
}

/* ---- rings of peers, that we write to ---- */

/* What @fd, which is closed, is to us: 0, EPROTO, or errno. */
static int map_way(struct fabric_way *way, uint32_t incarnation, uint64_t size, uint64_t max,
		   int fd)
{
	int err = size <= URXE_RING_LARGEST && fd >= 0 ? urxe_ring_map(&way->tx, (uint32_t)size, fd)
						       : EPROTO;

	if (fd >= 0)
		close(fd);
	way->incarnation = incarnation;
	way->max = max < 65536 ? (uint32_t)max : 0;
	return err;
}

/* One that the lane has not seen, and will not. Its reader may wait for it. */
static void end_way(struct fabric_way *way)
{
	if (!way->tx.mem)
		return;
	urxe_ring_end(&way->tx);
	urxe_ring_unmap(way->tx.mem, way->tx.size);
}

static bool take_offer(struct fabric_link *l, unsigned slot, uint32_t incarnation,
		       const struct urxe_fabric_words *req)
{
	struct fabric_mail *m = &l->peer[slot].mail;
	struct fabric_way way = {.max = 0}, old;

	if (map_way(&way, incarnation, req->w[WORD_OFFER], req->w[WORD_OFFER_MAX], req->fd))
		return false;
	urxe_spin_lock(&l->lock);
	old = m->offer;
	m->offer = way;
	urxe_spin_unlock(&l->lock);
	end_way(&old);
	return true;
}

int fabric_mail_ask(struct fabric_link *l, unsigned slot, uint32_t size)
{
	struct urxe_fabric_words req = {.w = {[WORD_SIZE] = size}, .fd = -1};

	return urxe_fabric_ask(l->fabric, slot, &req);
}

/* ---- hooks ---- */

static int asked(void *arg, unsigned slot, uint32_t incarnation,
		 const struct urxe_fabric_words *req, struct urxe_fabric_words *ans, bool *close_fd)
{
	struct fabric_link *l = arg;
	int err;

	if (slot >= URXE_FABRIC_SLOTS || req->w[WORD_SIZE] > URXE_RING_LARGEST) {
		if (req->fd >= 0)
			close(req->fd);
		return EINVAL;
	}
	ans->w[WORD_OFFER] = take_offer(l, slot, incarnation, req);
	err = make_rx(l, slot, incarnation, (uint32_t)req->w[WORD_SIZE], false, &ans->fd);
	/* Once for both: a sleeper would be woken, and put us aside, before there is an answer. */
	post(l, slot);
	if (err)
		return err;
	*close_fd = true;
	ans->w[WORD_SIZE] = req->w[WORD_SIZE];
	ans->w[WORD_MAX] = l->room;
	return 0;
}

static void answered(void *arg, unsigned slot, uint32_t incarnation, int err,
		     const struct urxe_fabric_words *ans)
{
	struct fabric_link *l = arg;
	struct fabric_mail *m;
	struct fabric_way way = {.max = 0}, old;

	if (slot >= URXE_FABRIC_SLOTS)
		return;
	if (!err)
		err = map_way(&way, incarnation, ans->w[WORD_SIZE], ans->w[WORD_MAX], ans->fd);
	else if (ans->fd >= 0)
		close(ans->fd);
	m = &l->peer[slot].mail;
	urxe_spin_lock(&l->lock);
	old = m->way;
	m->way = way;
	m->answer = true;
	m->err = err;
	/* What an error says of an offer is not known: the peer may have it, or have had no time.
	 */
	m->offer_over = err || !ans->w[WORD_OFFER];
	urxe_spin_unlock(&l->lock);
	end_way(&old);
	post(l, slot);
}

static void gone(void *arg, unsigned slot, uint32_t incarnation)
{
	struct fabric_link *l = arg;
	struct fabric_mail *m;

	if (slot >= URXE_FABRIC_SLOTS)
		return;
	m = &l->peer[slot].mail;
	urxe_spin_lock(&l->lock);
	m->gone[m->gone[0] != 0] = incarnation;
	urxe_spin_unlock(&l->lock);
	/* It writes no more: what it has sent is there. */
	post(l, slot);
	/* It may have been the gateway. */
	urxe_fabric_call_at(l->fabric, 0);
}

const struct urxe_fabric_hooks urxe_fabric_link_hooks = {.asking = asking,
							 .asked = asked,
							 .answered = answered,
							 .gone = gone,
							 .later = fabric_steer_later};
