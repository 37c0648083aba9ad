/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The simulated network of link_sim.h: ends, frames on their way in a heap by time of arrival, and
 * the link ops of a port on an end. One lock for all of it.
 */
#include "link_sim.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "netio/stack.h"

#define ROOM	      (9600 + ETH_LEN + VLAN_LEN)
#define QUEUE_DEFAULT 4096
#define MAX_LANES     16
#define SPEED_MBPS    100000
#define WAIT_STEP     (50 * URXE_USEC)
#define MAY_HOLD      100 /* others of the 512 that a QP keeps are copies */

/* AddressSanitizer knows where a received frame ends, as it would of a block of its own. */
#ifdef __has_feature
#define HAS_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#else
#define HAS_ASAN 0
#endif
#if HAS_ASAN
#include <sanitizer/asan_interface.h>
#define FORBID(p, len) ASAN_POISON_MEMORY_REGION(p, len)
#define ALLOW(p, len)  ASAN_UNPOISON_MEMORY_REGION(p, len)
#else
#define FORBID(p, len) ((void)(p), (void)(len))
#define ALLOW(p, len)  ((void)(p), (void)(len))
#endif

struct buf {
	struct buf *next; /* in a queue, or free */
	uint64_t when, seq;
	struct urxe_sim_end *to;
	int lane; /* it was sent by, where that matters; else -1 */
	uint32_t len;
	uint8_t data[ROOM];
};

struct queue {
	struct buf *head, **tail;
	unsigned count;
};

struct urxe_sim_end {
	struct urxe_sim_end *next;
	struct urxe_sim *sim;
	struct urxe_sim_params p;
	bool dead;		 /* and will never work again */
	bool open, closed, down; /* a port has it, had it; no carrier */
	uint8_t mac[6];
	unsigned lanes;
	uint64_t busy_until; /* with a bandwidth */
	struct queue rx[MAX_LANES];
};

struct urxe_sim {
	struct urxe_spin lock;
	bool realtime;
	uint64_t now, seq, prng;
	int lane; /* by which an end sends; as of a buffer */
	struct urxe_sim_end *ends, **last_end;
	struct buf *free;
	unsigned used;
	/* frames on their way: a heap by arrival, then by order of sending */
	struct buf **heap;
	unsigned heap_count, heap_size;
	void (*tap)(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len,
		    uint64_t now);
	void *tap_arg;
	bool (*filter)(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len);
	void *filter_arg;
	bool (*route)(void *arg, struct urxe_sim_end *from, struct urxe_sim_end *to,
		      const uint8_t *data, uint32_t len);
	void *route_arg;
};

/* ---- buffers ---- */

static struct buf *buf_get(struct urxe_sim *sim)
{
	struct buf *b = sim->free;

	if (b)
		sim->free = b->next;
	else
		b = malloc(sizeof(*b));
	if (b) {
		sim->used++;
		ALLOW(b->data, ROOM);
	}
	return b;
}

static void buf_put(struct urxe_sim *sim, struct buf *b)
{
	b->next = sim->free;
	sim->free = b;
	sim->used--;
}

static void queue_init(struct queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
	q->count = 0;
}

static void queue_add(struct queue *q, struct buf *b)
{
	b->next = NULL;
	*q->tail = b;
	q->tail = &b->next;
	q->count++;
}

static struct buf *queue_take(struct queue *q)
{
	struct buf *b = q->head;

	if (!b)
		return NULL;
	q->head = b->next;
	if (!q->head)
		q->tail = &q->head;
	q->count--;
	return b;
}

/* ---- the heap ---- */

static bool before(const struct buf *a, const struct buf *b)
{
	return a->when != b->when ? a->when < b->when : a->seq < b->seq;
}

static bool heap_add(struct urxe_sim *sim, struct buf *b)
{
	unsigned i = sim->heap_count;

	if (i == sim->heap_size) {
		unsigned size = i ? 2 * i : 256;
		struct buf **h = realloc(sim->heap, size * sizeof(*h));

		if (!h)
			return false;
		sim->heap = h;
		sim->heap_size = size;
	}
	sim->heap_count++;
	for (unsigned up; i; i = up) {
		up = (i - 1) / 2;
		if (!before(b, sim->heap[up]))
			break;
		sim->heap[i] = sim->heap[up];
	}
	sim->heap[i] = b;
	return true;
}

static struct buf *heap_take(struct urxe_sim *sim)
{
	struct buf *top = sim->heap[0], *b = sim->heap[--sim->heap_count];
	unsigned i = 0;

	for (unsigned c; (c = 2 * i + 1) < sim->heap_count; i = c) {
		if (c + 1 < sim->heap_count && before(sim->heap[c + 1], sim->heap[c]))
			c++;
		if (!before(sim->heap[c], b))
			break;
		sim->heap[i] = sim->heap[c];
	}
	sim->heap[i] = b;
	return top;
}

/* ---- the hub ---- */

static uint64_t clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * URXE_SEC + (uint64_t)ts.tv_nsec;
}

static void arrive(struct urxe_sim *sim, struct buf *b)
{
	struct urxe_sim_end *e = b->to;
	struct urxe_frame f = {.data = b->data, .len = b->len};
	uint32_t bth = urxe_frame_roce(&f);
	unsigned lane = bth && e->lanes > 1 ? urxe_get16(b->data + bth - UDP_LEN) % e->lanes : 0;
	unsigned limit = e->p.queue ? e->p.queue : QUEUE_DEFAULT;

	if (b->lane >= 0)
		lane = (unsigned)b->lane % e->lanes;
	if (e->down || e->closed || e->rx[lane].count >= limit)
		buf_put(sim, b);
	else
		queue_add(&e->rx[lane], b);
}

static void deliver_due(struct urxe_sim *sim)
{
	while (sim->heap_count && sim->heap[0]->when <= sim->now)
		arrive(sim, heap_take(sim));
}

static void update(struct urxe_sim *sim)
{
	if (sim->realtime)
		sim->now = clock_now();
	deliver_due(sim);
}

static bool chance(struct urxe_sim *sim, double rate)
{
	/* A draw for each, so that a run stays comparable when one rate changes. */
	return (double)(urxe_random_step(&sim->prng) >> 11) * 0x1p-53 < rate;
}

static bool wants(const struct urxe_sim_end *e, const uint8_t *data, uint32_t len)
{
	return !e->open || len < 6 || (data[0] & 1) || !memcmp(data, e->mac, 6);
}

static int launch(struct urxe_sim *sim, struct urxe_sim_end *to, const uint8_t *data, uint32_t len,
		  uint64_t when)
{
	struct buf *b = buf_get(sim);

	if (!b)
		return ENOMEM;
	b->to = to;
	b->lane = sim->lane;
	b->when = when;
	b->seq = sim->seq++;
	b->len = len;
	memcpy(b->data, data, len);
	if (heap_add(sim, b))
		return 0;
	buf_put(sim, b);
	return ENOMEM;
}

/* One copy of a frame leaves @from, damaged perhaps, for all that want it. */
static int leave(struct urxe_sim_end *from, uint8_t *data, uint32_t len, uint64_t when)
{
	struct urxe_sim *sim = from->sim;
	const struct urxe_sim_params *p = &from->p;
	bool late = chance(sim, p->reorder), bad = chance(sim, p->corrupt);
	uint64_t r = urxe_random_step(&sim->prng);
	uint32_t at = (uint32_t)(r >> 8) % (len ? len : 1);
	uint8_t flip = bad && len ? (uint8_t)(1u << (r & 7)) : 0;
	int err = 0;

	if (late)
		when += p->reorder_delay ? p->reorder_delay : 3 * p->latency + 1;
	data[at] ^= flip;
	for (struct urxe_sim_end *e = sim->ends; e && !err; e = e->next) {
		if (e != from && (sim->route ? sim->route(sim->route_arg, from, e, data, len)
					     : wants(e, data, len)))
			err = launch(sim, e, data, len, when);
	}
	data[at] ^= flip;
	return err;
}

static int send_locked(struct urxe_sim_end *from, uint8_t *data, uint32_t len)
{
	struct urxe_sim *sim = from->sim;
	const struct urxe_sim_params *p = &from->p;
	uint64_t when = sim->now;
	bool lost = chance(sim, p->loss), twice = chance(sim, p->dup);
	int err = 0;

	if (sim->tap)
		sim->tap(sim->tap_arg, from, data, len, sim->now);
	if (sim->filter && !sim->filter(sim->filter_arg, from, data, len))
		lost = true, twice = false;
	if (p->bandwidth) {
		if (from->busy_until > when)
			when = from->busy_until;
		when += (uint64_t)len * 8 * URXE_SEC / p->bandwidth;
		from->busy_until = when;
	}
	when += p->latency;
	if (!lost && !from->down)
		err = leave(from, data, len, when);
	if (!err && twice && !from->down)
		err = leave(from, data, len, when);
	return err;
}

/* ---- the test's side ---- */

int urxe_sim_create(struct urxe_sim **out, uint64_t seed, bool realtime)
{
	struct urxe_sim *sim = calloc(1, sizeof(*sim));

	if (!sim)
		return ENOMEM;
	urxe_spin_init(&sim->lock);
	sim->prng = seed;
	sim->realtime = realtime;
	sim->lane = -1;
	sim->now = realtime ? clock_now() : URXE_SEC; /* 0 is for "never yet" */
	sim->last_end = &sim->ends;
	*out = sim;
	return 0;
}

static void end_clear(struct urxe_sim_end *e)
{
	struct buf *b;

	for (unsigned i = 0; i < MAX_LANES; i++) {
		while ((b = queue_take(&e->rx[i])))
			buf_put(e->sim, b);
	}
}

void urxe_sim_destroy(struct urxe_sim *sim)
{
	if (!sim)
		return;
	while (sim->heap_count)
		buf_put(sim, heap_take(sim));
	for (struct urxe_sim_end *e = sim->ends, *next; e; e = next) {
		next = e->next;
		end_clear(e);
		free(e);
	}
	for (struct buf *b = sim->free, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(sim->heap);
	free(sim);
}

struct urxe_sim_end *urxe_sim_end(struct urxe_sim *sim, const struct urxe_sim_params *params)
{
	struct urxe_sim_end *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->sim = sim;
	e->lanes = 1;
	if (params)
		e->p = *params;
	e->down = e->p.late;
	for (unsigned i = 0; i < MAX_LANES; i++)
		queue_init(&e->rx[i]);
	urxe_spin_lock(&sim->lock);
	*sim->last_end = e;
	sim->last_end = &e->next;
	urxe_spin_unlock(&sim->lock);
	return e;
}

void urxe_sim_end_params(struct urxe_sim_end *e, const struct urxe_sim_params *params)
{
	urxe_spin_lock(&e->sim->lock);
	e->p = *params;
	urxe_spin_unlock(&e->sim->lock);
}

void urxe_sim_end_up(struct urxe_sim_end *e, bool up)
{
	urxe_spin_lock(&e->sim->lock);
	e->down = !up;
	urxe_spin_unlock(&e->sim->lock);
}

void urxe_sim_end_die(struct urxe_sim_end *e)
{
	urxe_spin_lock(&e->sim->lock);
	e->dead = e->down = true;
	urxe_spin_unlock(&e->sim->lock);
}

uint64_t urxe_sim_now(struct urxe_sim *sim)
{
	uint64_t now;

	urxe_spin_lock(&sim->lock);
	update(sim);
	now = sim->now;
	urxe_spin_unlock(&sim->lock);
	return now;
}

uint64_t urxe_sim_next(struct urxe_sim *sim)
{
	uint64_t next;

	urxe_spin_lock(&sim->lock);
	next = sim->heap_count ? sim->heap[0]->when : UINT64_MAX;
	urxe_spin_unlock(&sim->lock);
	return next;
}

void urxe_sim_advance(struct urxe_sim *sim, uint64_t t)
{
	urxe_spin_lock(&sim->lock);
	if (t > sim->now && !sim->realtime)
		sim->now = t;
	update(sim);
	urxe_spin_unlock(&sim->lock);
}

bool urxe_sim_step(struct urxe_sim *sim)
{
	uint64_t next = urxe_sim_next(sim);

	if (next == UINT64_MAX)
		return false;
	urxe_sim_advance(sim, next);
	return true;
}

int urxe_sim_send(struct urxe_sim_end *e, const void *data, uint32_t len)
{
	uint8_t copy[ROOM];
	int err;

	if (len > ROOM)
		return EMSGSIZE;
	memcpy(copy, data, len);
	urxe_spin_lock(&e->sim->lock);
	update(e->sim);
	err = send_locked(e, copy, len);
	deliver_due(e->sim);
	urxe_spin_unlock(&e->sim->lock);
	return err;
}

uint32_t urxe_sim_recv(struct urxe_sim_end *e, void *buf, uint32_t size)
{
	uint32_t len = 0;
	struct buf *b;

	urxe_spin_lock(&e->sim->lock);
	update(e->sim);
	b = queue_take(&e->rx[0]);
	if (b) {
		len = b->len;
		memcpy(buf, b->data, len < size ? len : size);
		buf_put(e->sim, b);
	}
	urxe_spin_unlock(&e->sim->lock);
	return len;
}

int urxe_sim_put(struct urxe_sim_end *e, const void *data, uint32_t len)
{
	struct buf *b;

	if (len > ROOM)
		return EMSGSIZE;
	urxe_spin_lock(&e->sim->lock);
	b = buf_get(e->sim);
	if (b) {
		b->to = e;
		b->lane = -1;
		b->len = len;
		memcpy(b->data, data, len);
		arrive(e->sim, b);
	}
	urxe_spin_unlock(&e->sim->lock);
	return b ? 0 : ENOMEM;
}

void urxe_sim_tap(struct urxe_sim *sim,
		  void (*fn)(void *arg, struct urxe_sim_end *from, const uint8_t *data,
			     uint32_t len, uint64_t now),
		  void *arg)
{
	urxe_spin_lock(&sim->lock);
	sim->tap = fn;
	sim->tap_arg = arg;
	urxe_spin_unlock(&sim->lock);
}

void urxe_sim_filter(struct urxe_sim *sim,
		     bool (*fn)(void *arg, struct urxe_sim_end *from, const uint8_t *data,
				uint32_t len),
		     void *arg)
{
	urxe_spin_lock(&sim->lock);
	sim->filter = fn;
	sim->filter_arg = arg;
	urxe_spin_unlock(&sim->lock);
}

void urxe_sim_route(struct urxe_sim *sim,
		    bool (*fn)(void *arg, struct urxe_sim_end *from, struct urxe_sim_end *to,
			       const uint8_t *data, uint32_t len),
		    void *arg)
{
	urxe_spin_lock(&sim->lock);
	sim->route = fn;
	sim->route_arg = arg;
	urxe_spin_unlock(&sim->lock);
}

unsigned urxe_sim_buffers(struct urxe_sim *sim)
{
	unsigned n;

	urxe_spin_lock(&sim->lock);
	n = sim->used;
	urxe_spin_unlock(&sim->lock);
	return n;
}

/* ---- the link's side ---- */

static int sim_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		    uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	struct urxe_sim_end *e = arg;
	unsigned lanes = e->p.lanes ? e->p.lanes : 1;

	if (lanes > MAX_LANES || l3_mtu > ROOM - ETH_LEN - VLAN_LEN)
		return EINVAL;
	urxe_spin_lock(&e->sim->lock);
	e->open = true;
	e->closed = false;
	e->lanes = lanes;
	memcpy(e->mac, mac, 6);
	urxe_spin_unlock(&e->sim->lock);
	memset(info, 0, sizeof(*info));
	strcpy(info->driver, "sim");
	memcpy(info->mac, mac, 6);
	info->max_l3_mtu = l3_mtu;
	info->lanes = lanes;
	info->peer = e->p.peer;
	info->may_hold = MAY_HOLD;
	info->card = e->p.card;
	info->speed_mbps = SPEED_MBPS;
	*link = e;
	return 0;
}

static void sim_close(void *link)
{
	struct urxe_sim_end *e = link;

	urxe_spin_lock(&e->sim->lock);
	/* Gone like a process that was killed: the end stays, unplugged. */
	e->open = false;
	e->closed = true;
	end_clear(e);
	urxe_spin_unlock(&e->sim->lock);
}

static unsigned sim_alloc(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct urxe_sim_end *e = link;
	unsigned i;

	urxe_spin_lock(&e->sim->lock);
	for (i = 0; i < n; i++) {
		struct buf *b = buf_get(e->sim);

		if (!b)
			break;
		f[i] = (struct urxe_frame){.data = b->data, .room = ROOM, .buf = b};
	}
	urxe_spin_unlock(&e->sim->lock);
	return i;
}

static void sim_free(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct urxe_sim_end *e = link;

	urxe_spin_lock(&e->sim->lock);
	for (unsigned i = 0; i < n; i++)
		buf_put(e->sim, f[i].buf);
	urxe_spin_unlock(&e->sim->lock);
}

static void sim_let_go(void *link, void *buf)
{
	struct urxe_frame f = {.buf = buf};

	sim_free(link, 0, &f, 1);
}

static unsigned sim_rx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct urxe_sim_end *e = link;
	unsigned i;

	urxe_spin_lock(&e->sim->lock);
	update(e->sim);
	for (i = 0; i < n; i++) {
		struct buf *b = queue_take(&e->rx[lane]);

		if (!b)
			break;
		FORBID(b->data + b->len, ROOM - b->len);
		f[i] = (struct urxe_frame){.data = b->data, .len = b->len, .room = ROOM, .buf = b};
	}
	urxe_spin_unlock(&e->sim->lock);
	return i;
}

static unsigned sim_tx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct urxe_sim_end *e = link;

	urxe_spin_lock(&e->sim->lock);
	update(e->sim);
	if (e->p.tx_stall)
		n = 0;
	if (e->p.tx_room && n > e->p.tx_room)
		n = e->p.tx_room;
	e->sim->lane = e->p.paired ? (int)lane : -1;
	for (unsigned i = 0; i < n; i++) {
		send_locked(e, f[i].data, f[i].len);
		buf_put(e->sim, f[i].buf);
	}
	e->sim->lane = -1;
	deliver_due(e->sim);
	urxe_spin_unlock(&e->sim->lock);
	return n;
}

static bool sim_dead(void *link)
{
	struct urxe_sim_end *e = link;
	bool dead;

	urxe_spin_lock(&e->sim->lock);
	dead = e->dead;
	urxe_spin_unlock(&e->sim->lock);
	return dead;
}

static bool sim_up(void *link)
{
	struct urxe_sim_end *e = link;
	bool up;

	urxe_spin_lock(&e->sim->lock);
	up = !e->down;
	urxe_spin_unlock(&e->sim->lock);
	return up;
}

/* On virtual time nobody knows when the test will move it: a short real while, or a wake. */
static void sim_wait(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	struct pollfd pfd = {.fd = wake_fd, .events = POLLIN};

	how->interrupt = false;
	urxe_sleep_poll(how, &pfd, 1, ns < WAIT_STEP ? ns : WAIT_STEP);
}

static uint64_t sim_now(void *arg)
{
	struct urxe_sim_end *e = arg;

	return urxe_sim_now(e->sim);
}

static uint64_t sim_random(void *arg)
{
	struct urxe_sim_end *e = arg;
	uint64_t v;

	urxe_spin_lock(&e->sim->lock);
	v = urxe_random_step(&e->sim->prng);
	urxe_spin_unlock(&e->sim->lock);
	return v;
}

const struct urxe_link_ops urxe_link_sim_ops = {
	.name = "sim",
	.open = sim_open,
	.close = sim_close,
	.alloc = sim_alloc,
	.free = sim_free,
	.let_go = sim_let_go,
	.rx = sim_rx,
	.tx = sim_tx,
	.up = sim_up,
	.dead = sim_dead,
	.wait = sim_wait,
	.now = sim_now,
	.random = sim_random,
};
