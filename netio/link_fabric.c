/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link between processes of one machine: frames are written straight into rings in their
 * receivers' memory (fabric_ring.h), where each peer that talks has its own. Who they are is the
 * control plane's (fabric.h). Nothing is lost for want of room: whoever sends to a peer whose ring
 * is full waits, and nobody else does.
 */
#include "netio/link_fabric.h"

#include "netio/stack.h"

#include <stdio.h>
#include <stdlib.h>

#include "netio/clock.h"
#include "netio/fabric_link.h"
#include "netio/fabric_ring_tx.h"
#include "urxe/free.h"
#include "urxe/log.h"

#define TIDY_NS URXE_SEC
#define FULL_NS (20 * URXE_MSEC) /* a peer that has read nothing for so long may lose MADs */
/*
 * Bytes of rings that have grown. More would not stay in a cache from writer to reader: 32
 * processes that write 64 KiB to each other carry 1.4 times as much as with 32 MiB
 * (tests/bench/crowd.c).
 */
#define GROWN_MOST (4u << 20)
#define VISIT	   4	/* a quarter of a ring is borrowed at a time */
#define PATIENCE   4096 /* looks at a silent ring, of one; fewer where more are watched */
#define TIDY_POLLS 0x10000

/* A forked child has the parent's link, and not its memory. */
static bool ours(const struct fabric_link *l)
{
	return urxe_fabric_in(&l->process);
}

/* ---- frames of our own ---- */

static unsigned fabric_alloc(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct fabric_link *l = link;

	return ours(l) ? urxe_buf_get(&l->pool, f, n) : 0;
}

static void slot_put(struct fabric_link *l, struct fabric_slot *s)
{
	s->next = l->free_slots;
	l->free_slots = s;
}

/* The last frame of a ring that was borrowed: what it took is the writer's again. */
static void give_back(struct fabric_link *l, struct fabric_slot *s)
{
	struct fabric_rx *rx = s->rx;

	urxe_ring_release(&rx->ring);
	if (urxe_ring_return(&rx->ring))
		fabric_peer_room(rx);
	slot_put(l, s);
}

static void fabric_free(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct fabric_link *l = link;

	if (!ours(l))
		return;
	for (unsigned i = 0; i < n; i++) {
		struct fabric_slot *s = f[i].buf;

		if (s < l->slots || s >= l->slots + FABRIC_SLOTS)
			urxe_buf_put(&l->pool, &f[i]);
		else if (s->rx)
			give_back(l, s);
		else
			slot_put(l, s);
	}
}

/* ---- sending ---- */

static bool reaches(const struct fabric_peer *p, const uint8_t dmac[6])
{
	return p->on && !memcmp(p->mac, dmac, 6);
}

/* As many of our own frames wait for it as may, and it has read nothing since: it is stopped, say.
 */
static bool has_given_up(struct fabric_peer *p)
{
	return p->held_count == FABRIC_HELD && p->stuck && !urxe_ring_progress(&p->tx);
}

static int fabric_reserve(void *link, unsigned lane, const uint8_t dmac[6], uint32_t dqpn,
			  uint32_t len, struct urxe_frame *f)
{
	struct fabric_link *l = link;
	unsigned slot = dqpn >> 16 & 0xff;
	struct fabric_peer *p = &l->peer[slot];
	uint8_t *data;
	int err;

	if (!ours(l))
		return EHOSTUNREACH;
	if (!reaches(p, dmac) && !reaches(p = &l->peer[l->gate], dmac)) {
		slot = fabric_steer_qp(l, dqpn, dmac);
		err = fabric_peer_attach(l, slot, dmac);
		if (err)
			return err;
		p = &l->peer[slot];
	}
	/* The order is that of sending. */
	if (p->held_count)
		return has_given_up(p) ? ENOSPC : EAGAIN;
	if (!f)
		return 0;
	if (len > p->max)
		return EMSGSIZE;
	data = urxe_ring_reserve(&p->tx, len);
	if (!data) {
		if (!p->tx.open)
			fabric_peer_full(l, p->slot);
		return EAGAIN;
	}
	p->stuck = false;
	f->data = data;
	f->room = len;
	f->buf = p;
	return 0;
}

static void fabric_commit(void *link, unsigned lane, void *buf, uint32_t len, uint32_t flags)
{
	struct fabric_link *l = link;
	struct fabric_peer *p = buf;

	/* A handler of a signal may have forked. */
	if (!ours(l))
		return;
	urxe_ring_commit(&p->tx, len, flags & URXE_FRAME_NO_ICRC ? URXE_RING_NO_ICRC : 0);
	fabric_peer_committed(l, p);
}

static void fabric_abort(void *link, unsigned lane, void *buf)
{
	struct fabric_peer *p = buf;

	urxe_ring_abort(&p->tx);
}

static void send_to(struct fabric_link *l, const uint64_t slots[FABRIC_WORDS],
		    const struct urxe_frame *f)
{
	for (unsigned w = 0; w < FABRIC_WORDS; w++) {
		for (uint64_t left = slots[w]; left; left &= left - 1)
			fabric_peer_send(l, w * 64 + (unsigned)__builtin_ctzll(left), f);
	}
}

static void send_all(struct fabric_link *l, const struct urxe_frame *f)
{
	for (unsigned slot = URXE_FABRIC_FIRST; slot <= URXE_FABRIC_LAST; slot++) {
		if (slot != l->own && urxe_fabric_shares(l->fabric, slot, f->data))
			fabric_peer_send(l, slot, f);
	}
}

/*
 * Many MADs at once, as when a thousand connections are made, are more than a ring of a pair that
 * begins to talk has room for. What waits for a peer is bounded; the rest waits with us as long as
 * that peer reads, so that nothing of a burst is lost.
 */
static bool has_place(struct fabric_link *l, unsigned slot)
{
	struct fabric_peer *p = &l->peer[slot];
	uint64_t now;

	if (p->held_count < FABRIC_HELD)
		return true;
	now = urxe_clock_now(NULL);
	if (!p->full_since)
		p->full_since = now;
	return now - p->full_since >= FULL_NS;
}

/* False: not yet. */
static bool send_one(struct fabric_link *l, const struct urxe_frame *f)
{
	unsigned slot;

	if (f->len < ETH_LEN)
		return true;
	if (f->data[0] & 1) {
		send_to(l, fabric_steer_group(l, f), f);
		return true;
	}
	slot = fabric_steer_slot(l, f);
	if (slot == FABRIC_ALL) {
		send_all(l, f);
	} else if (slot != FABRIC_NOBODY) {
		if (!has_place(l, slot))
			return false;
		fabric_peer_send(l, slot, f);
	} else if (urxe_frame_roce(f)) {
		fabric_peer_gone(l, 0);
	}
	return true;
}

/* Others' frames wait behind one that waits for a peer: those of QPs do not go this way. */
static unsigned fabric_tx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct fabric_link *l = link;
	unsigned k = 0;

	if (!ours(l))
		return n;
	fabric_peer_retry(l);
	for (; k < n && send_one(l, &f[k]); k++)
		urxe_buf_put(&l->pool, &f[k]);
	fabric_peer_publish(l);
	return k;
}

/* ---- receiving ---- */

/* Its headers are all in the first FABRIC_HEAD bytes, and nobody needs to sum up the rest. */
static bool payload_stays(const struct urxe_ring_frame *rec, uint8_t *head)
{
	struct urxe_frame f = {.data = head, .len = FABRIC_HEAD};
	uint32_t bth;

	if (!(rec->flags & URXE_RING_NO_ICRC))
		return false;
	bth = urxe_frame_roce(&f);
	return bth && !urxe_get16(head + bth - 2);
}

/* False: there is no memory for it, and it is lost. */
static bool take_whole(struct fabric_link *l, const struct urxe_ring_frame *rec,
		       struct urxe_frame *f)
{
	if (!urxe_buf_get(&l->pool, f, 1)) {
		atomic_fetch_add_explicit(&l->dropped, 1, memory_order_relaxed);
		return false;
	}
	memcpy(f->data, rec->data, rec->len);
	return true;
}

/* What is read of a frame's headers is a copy: its sender may change the frame. */
static bool take(struct fabric_link *l, struct fabric_rx *rx, const struct urxe_ring_frame *rec,
		 struct urxe_frame *f)
{
	struct fabric_slot *s = l->free_slots;
	bool whole = rec->len <= FABRIC_SHORT, stays;

	urxe_ring_copy(s->head, rec->data, whole ? rec->len : FABRIC_HEAD);
	stays = !whole && payload_stays(rec, s->head);
	if (whole || stays) {
		l->free_slots = s->next;
		*f = (struct urxe_frame){
			.data = s->head, .rest = stays ? rec->data : NULL, .buf = s};
	} else if (!take_whole(l, rec, f)) {
		urxe_ring_release(&rx->ring);
		return false;
	}
	s->rx = stays ? rx : NULL;
	if (!stays)
		urxe_ring_release(&rx->ring);
	f->len = f->room = rec->len;
	f->flags = rec->flags & URXE_RING_NO_ICRC ? URXE_FRAME_NO_ICRC : 0;
	return true;
}

/* Nothing there. Who is silent for long is left to the bell: looks cost something. */
static void grow_quiet(struct fabric_link *l, unsigned slot)
{
	struct fabric_peer *p = &l->peer[slot];

	if (p->fading)
		fabric_peer_unwatch(l, slot);
	else if (++p->quiet >= PATIENCE / (l->num_watched * l->num_watched)) {
		/* One look more, with the bit clear. */
		urxe_bell_clear(l->bell, slot);
		p->fading = true;
	}
}

/* The first ring of a peer has nothing more for us: true when there is another one to look at. */
static bool go_on(struct fabric_link *l, unsigned slot, enum urxe_ring_found found)
{
	struct fabric_peer *p = &l->peer[slot];

	if (found == URXE_RING_NOTHING && !p->rx->last)
		return false;
	if (found == URXE_RING_BAD)
		urxe_warn("%s: what the process in slot %u sends makes no sense: it is not heard",
			  l->name, slot);
	return !fabric_peer_retire(l, p);
}

/* A part of the first ring of a peer: *@got frames more. */
static enum urxe_ring_found read_some(struct fabric_link *l, struct fabric_peer *p,
				      struct urxe_frame *f, unsigned n, unsigned *got)
{
	struct fabric_rx *rx = p->rx;
	enum urxe_ring_found found = URXE_RING_FRAME;
	struct urxe_ring_frame rec;
	uint32_t from = rx->ring.read;

	while (*got < n && l->free_slots && rx->ring.read - from < rx->ring.size / VISIT) {
		found = urxe_ring_next(&rx->ring, &rec);
		if (found != URXE_RING_FRAME)
			break;
		*got += take(l, rx, &rec, &f[*got]);
	}
	if (rx->ring.read != from) {
		rx->begun = true;
		p->quiet = 0;
		p->fading = false;
		fabric_peer_at(p);
	}
	return found;
}

static unsigned visit(struct fabric_link *l, unsigned slot, struct urxe_frame *f, unsigned n)
{
	struct fabric_peer *p = &l->peer[slot];
	enum urxe_ring_found found;
	unsigned got = 0;

	do {
		if (!p->rx) {
			urxe_bell_clear(l->bell, slot);
			fabric_peer_unwatch(l, slot);
			return got;
		}
		found = read_some(l, p, f, n, &got);
	} while (found != URXE_RING_FRAME && go_on(l, slot, found));
	if (urxe_ring_return(&p->rx->ring))
		fabric_peer_room(p->rx);
	if (found == URXE_RING_NOTHING && !got)
		grow_quiet(l, slot);
	return got;
}

/* The next slot from @from on, around, that is watched; SLOTS: none. */
static unsigned next_watched(const struct fabric_link *l, unsigned from)
{
	for (unsigned i = 0; i <= FABRIC_WORDS; i++) {
		unsigned w = (from / 64 + i) % FABRIC_WORDS;
		uint64_t left = fabric_watched(l, w);

		if (!i)
			left &= ~0ull << from % 64;
		if (left)
			return w * 64 + (unsigned)__builtin_ctzll(left);
	}
	return URXE_FABRIC_SLOTS;
}

/* Mail for several, or room in a ring; our own bit in our bell says so. */
static void fetch_mail(struct fabric_link *l)
{
	for (unsigned w = 0; w < FABRIC_WORDS; w++) {
		uint64_t left = atomic_load(&l->mailed[w]);

		for (; left; left &= left - 1)
			fabric_peer_mail(l, w * 64 + (unsigned)__builtin_ctzll(left));
	}
}

/* Who has news, and was not watched, is. Its bit stays set. */
static void look_around(struct fabric_link *l)
{
	for (unsigned w = 0; w < FABRIC_WORDS; w++) {
		uint64_t news = urxe_bell_news(l->bell, w, fabric_watched(l, w));

		for (; news; news &= news - 1) {
			unsigned slot = w * 64 + (unsigned)__builtin_ctzll(news);

			if (slot == l->own) {
				urxe_bell_clear(l->bell, slot);
				fetch_mail(l);
			} else {
				fabric_peer_watch(l, slot);
			}
		}
	}
}

static void tidy(struct fabric_link *l)
{
	uint64_t now = urxe_clock_now(NULL);

	atomic_store_explicit(&l->look, false, memory_order_relaxed);
	if (now - l->tidied < TIDY_NS)
		return;
	l->tidied = now;
	fabric_peer_tidy(l);
}

/* No yield here, under the lane's lock: whoever polls does that when it has let go of it. */
static unsigned fabric_rx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct fabric_link *l = link;
	unsigned got = 0, slot;

	if (!ours(l))
		return 0;
	look_around(l);
	fabric_peer_retry(l);
	for (unsigned left = l->num_watched; left && got < n && l->free_slots; left--) {
		slot = next_watched(l, l->next);
		if (slot == URXE_FABRIC_SLOTS)
			break;
		got += visit(l, slot, f + got, n - got);
		l->next = (slot + 1) % URXE_FABRIC_SLOTS;
	}
	fabric_peer_publish(l);
	if (!got &&
	    (atomic_load_explicit(&l->look, memory_order_relaxed) || !(++l->polls % TIDY_POLLS)))
		tidy(l);
	return got;
}

/* ---- waiting ---- */

static void fabric_wake(void *link)
{
	struct fabric_link *l = link;

	if (!ours(l))
		return;
	/* Pairs with fabric_wait(): it sees this, or we see that it waits. */
	atomic_store(&l->kicked, true);
	if (atomic_load(&l->waiting))
		urxe_bell_wake(l->bell);
}

static void fabric_wait(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	struct fabric_link *l = link;
	bool arm = how->interrupt; /* a caller that drives would fetch what wakes us */
	uint32_t futex;

	if (!ours(l)) {
		how->interrupt = false;
		urxe_sleep_poll(how, NULL, 0, ns);
		return;
	}
	futex = atomic_load(&l->bell->futex);
	atomic_store(&l->waiting, true);
	if (arm) {
		futex = urxe_bell_doze(l->bell);
		if (!fabric_peer_quiet(l))
			atomic_store(&l->kicked, true);
	}
	if (!atomic_load(&l->kicked))
		urxe_bell_sleep(l->bell, futex, ns, how);
	if (arm)
		urxe_bell_up(l->bell);
	atomic_store(&l->waiting, false);
	atomic_store(&l->kicked, false);
	atomic_store_explicit(&l->look, true, memory_order_relaxed);
}

/* ---- the rest of the ops ---- */

static bool fabric_up(void *link)
{
	return ours(link);
}

static uint64_t fabric_dropped(void *link)
{
	struct fabric_link *l = link;

	return atomic_load_explicit(&l->dropped, memory_order_relaxed);
}

static bool fabric_waits(void *link)
{
	struct fabric_link *l = link;

	return ours(l) && atomic_load_explicit(&l->coming, memory_order_relaxed);
}

static bool fabric_nobody(void *link, unsigned slot)
{
	struct fabric_link *l = link;

	return ours(l) && slot >= URXE_FABRIC_FIRST && slot <= URXE_FABRIC_LAST &&
	       !urxe_fabric_incarnation(l->fabric, slot);
}

static void fabric_on_gone(void *link, void (*fn)(void *arg, unsigned slot), void *arg)
{
	struct fabric_link *l = link;

	urxe_spin_lock(&l->lock);
	l->gone = fn;
	l->gone_arg = arg;
	urxe_spin_unlock(&l->lock);
}

/* ---- open and close ---- */

static int fabric_fabric(const struct urxe_port_config *cfg, struct urxe_fabric **f)
{
	struct urxe_fabric_spec spec;
	char err[200] = "";
	int ret = urxe_fabric_spec_parse(cfg->port, &spec, err, sizeof(err));

	if (ret) {
		urxe_err("%s: port '%s': %s", cfg->name, cfg->port, err);
		return EINVAL;
	}
	return urxe_fabric_create(f, &spec, !cfg->host, cfg->has_mac ? cfg->mac : NULL);
}

static void release(struct fabric_link *l)
{
	urxe_buf_fini(&l->pool);
	urxe_spawn_free(&l->spawn);
	free(l->slots);
	free(l);
}

static int make_slots(struct fabric_link *l)
{
	l->slots = aligned_alloc(64, FABRIC_SLOTS * sizeof(*l->slots));
	if (!l->slots)
		return ENOMEM;
	memset(l->slots, 0, FABRIC_SLOTS * sizeof(*l->slots));
	for (unsigned i = 0; i < FABRIC_SLOTS; i++)
		slot_put(l, &l->slots[i]);
	return 0;
}

/* Who leads out of the fabric, and a node that has another address than the host, start none. */
static void may_start_gate(struct fabric_link *l, bool node)
{
	char dir[4096];

	if (node || l->is_gate ||
	    urxe_fabric_spec_dir(urxe_fabric_spec_of(l->fabric), dir, sizeof(dir)))
		dir[0] = '\0';
	urxe_spawn_init(&l->spawn, dir, urxe_fabric_spawn_hold(l->fabric));
}

static int start(struct fabric_link *l, bool node, struct urxe_link_info *info)
{
	int err = urxe_fabric_join(l->fabric);

	if (!err)
		err = make_slots(l);
	if (err)
		return err;
	l->own = urxe_fabric_slot(l->fabric);
	l->is_gate = urxe_fabric_is_gate(l->fabric, l->own);
	may_start_gate(l, node);
	l->bell = urxe_fabric_bell(l->fabric, l->own);
	if (!l->bell || !urxe_fabric_mac(l->fabric, info->mac))
		return ENODEV;
	urxe_fabric_hook(l->fabric, &urxe_fabric_link_hooks, l);
	/* Somebody may listen already. */
	urxe_fabric_call_at(l->fabric, 0);
	snprintf(info->driver, sizeof(info->driver), "fabric");
	info->max_l3_mtu = l->room - ETH_LEN - VLAN_LEN;
	info->lanes = 1;
	info->no_icrc = true;
	info->tx_offloads = info->rx_offloads = URXE_OFFLOAD_IPV4_CSUM;
	return 0;
}

static int fabric_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		       uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	struct fabric_link *l = calloc(1, sizeof(*l));
	char why[200];
	int err;

	if (!l) {
		urxe_err("%s: no memory", cfg->name);
		return ENOMEM;
	}
	snprintf(l->name, sizeof(l->name), "%s", cfg->name);
	l->fabric = arg;
	l->process = urxe_fabric_process(l->fabric);
	l->room = l3_mtu + ETH_LEN + VLAN_LEN;
	l->pool.room = l->room;
	l->grown_most = GROWN_MOST;
	urxe_spin_init(&l->lock);
	for (unsigned i = 0; i < URXE_FABRIC_SLOTS; i++)
		l->peer[i].slot = (uint8_t)i;
	err = start(l, cfg->num_ips != 0, info);
	if (err) {
		urxe_fabric_error(l->fabric, why, sizeof(why));
		urxe_err("%s: cannot start port '%s': %s", cfg->name, cfg->port,
			 why[0] ? why : strerror(err));
		release(l);
		return err;
	}
	*link = l;
	return 0;
}

static void fabric_close(void *link)
{
	struct fabric_link *l = link;

	if (ours(l)) {
		urxe_fabric_hook(l->fabric, NULL, NULL);
		urxe_spawn_end(&l->spawn);
		fabric_peer_close(l);
	}
	release(l);
}

const struct urxe_link_ops urxe_link_fabric_ops = {
	.name = "fabric",
	.forks = true,
	.prompt = true,
	.fabric = fabric_fabric,
	.open = fabric_open,
	.close = fabric_close,
	.alloc = fabric_alloc,
	.free = fabric_free,
	.rx = fabric_rx,
	.tx = fabric_tx,
	.up = fabric_up,
	.dropped = fabric_dropped,
	.wait = fabric_wait,
	.wake = fabric_wake,
	.reserve = fabric_reserve,
	.commit = fabric_commit,
	.abort = fabric_abort,
	.resolve = fabric_steer_resolve,
	.far = fabric_steer_far,
	.nowhere = fabric_steer_nowhere,
	.waits = fabric_waits,
	.steer = fabric_steer_own,
	.on_gone = fabric_on_gone,
	.nobody = fabric_nobody,
	.now = urxe_clock_now,
};
