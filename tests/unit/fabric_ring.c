/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rings of a local fabric: a model of a writer and a reader in which each interleaving of what
 * they do to shared memory is tried, with the writer's death after each step; two threads; and
 * memory in which a hostile writer has written anything.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netio/fabric_ring_tx.h"
#include "urxe/random.h"

/* ---- the model ---- */

#define RECORDS	 4
#define BURST	 2
#define WRITER	 3 /* its slot */
#define MAX_LOOK 400000

/* Records of one to three units in a ring of eight: each place is used more than once. */
static const uint32_t lengths[RECORDS] = {100, 150, 20, 170};

/* The next step of each; a step touches shared memory once, or in a way that nobody can see. */
enum writer {
	W_RESERVE,
	W_COMMIT,
	W_MORE, /* another one first, or publish? */
	W_PUBLISH,
	W_PENDING,
	W_SET,
	W_ASLEEP,
	W_WAKE,
	W_END,
	W_DONE,
	W_DEAD,
};

enum reader {
	R_NEWS,
	R_NEXT,
	R_CLEAR, /* the bit; then one look more */
	R_RELEASE,
	R_RETURN,
	R_FUTEX,
	R_DOZE,
	R_LOOK,
	R_SLEEP,
	R_UP,
	R_DONE,
};

struct world {
	_Alignas(128) uint8_t mem[URXE_RING_CONTROL + URXE_RING_MIN];
	struct urxe_fabric_bell bell;
	struct urxe_ring_stage stage;
	struct urxe_ring_tx tx;
	struct urxe_ring_rx rx;
	enum writer w;
	enum reader r;
	unsigned begun, committed, published, seen, before, held;
	uint32_t futex;		   /* what the reader goes to sleep with */
	uint32_t last_at, held_at; /* where frames are: the last one, one that is still looked at */
	bool watched, fading, ended, last;
};

static uint64_t *visited;
static unsigned num_visited, ends, deaths;
static bool failed;

static uint8_t content(unsigned k, uint32_t i)
{
	return (uint8_t)(k * 37 + i * 5 + 1);
}

static void wrong(const struct world *m, const char *what)
{
	if (!failed)
		printf("    %s: writer at %d, reader at %d, published %u, seen %u\n", what, m->w,
		       m->r, m->published, m->seen);
	failed = true;
}

/* Padding, too, as it is hashed. */
static void copy_world(struct world *to, const struct world *from)
{
	memcpy(to, from, sizeof(*to));
	to->tx.mem = to->rx.mem = to->mem;
	if (from->tx.stage)
		to->tx.stage = &to->stage;
	if (from->tx.made)
		to->tx.made = to->stage.first + (from->tx.made - from->stage.first);
}

static uint64_t hash_of(const struct world *m)
{
	struct world c;
	uint64_t p[sizeof(c) / 8];
	uint64_t h = 0xcbf29ce484222325ull;

	copy_world(&c, m);
	c.tx.mem = c.rx.mem = c.tx.made = NULL;
	c.tx.stage = NULL;
	memcpy(p, &c, sizeof(p));
	for (unsigned i = 0; i < sizeof(c) / 8; i++)
		h = (h ^ p[i]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
	return h ? h : 1;
}

/* True: it was there. */
static bool visit(const struct world *m)
{
	uint64_t h = hash_of(m), i = h % (2 * MAX_LOOK);

	for (; visited[i]; i = (i + 1) % (2 * MAX_LOOK)) {
		if (visited[i] == h)
			return true;
	}
	visited[i] = h;
	return ++num_visited > MAX_LOOK;
}

static void write_record(struct world *m)
{
	uint8_t *to = m->mem + URXE_RING_CONTROL + ((m->tx.pos + m->tx.skip) & (m->tx.size - 1)) +
		      URXE_RING_HEAD;

	if (m->tx.made)
		to = m->tx.made;
	for (uint32_t i = 0; i < lengths[m->committed]; i++)
		to[i] = content(m->committed, i);
	urxe_ring_commit(&m->tx, lengths[m->committed], 0);
	m->committed++;
	m->w = W_MORE;
}

static bool writer_can(const struct world *m)
{
	return m->w != W_DONE && m->w != W_DEAD;
}

/* @choice: publish now, where there is a choice. False: the step leads to where it began. */
static bool writer_step(struct world *m, bool choice)
{
	switch (m->w) {
	case W_RESERVE:
		if (m->begun == RECORDS) {
			m->w = W_END;
			return true;
		}
		if (!urxe_ring_reserve(&m->tx, lengths[m->begun])) {
			if (m->tx.first == m->tx.pos)
				return false;
			m->w = W_PUBLISH;
			return true;
		}
		m->begun++;
		m->w = W_COMMIT;
		return true;
	case W_COMMIT:
		write_record(m);
		return true;
	case W_MORE:
		m->w = choice || m->committed - m->published >= BURST ? W_PUBLISH : W_RESERVE;
		return true;
	case W_PUBLISH:
		if (!urxe_ring_publish(&m->tx))
			wrong(m, "nothing to publish");
		m->published = m->committed;
		m->w = W_PENDING;
		return true;
	case W_PENDING:
		urxe_bell_fence();
		m->w = urxe_bell_pending(&m->bell, WRITER) ? W_ASLEEP : W_SET;
		return true;
	case W_SET:
		urxe_bell_set(&m->bell, WRITER);
		m->w = W_ASLEEP;
		return true;
	case W_ASLEEP:
		if (urxe_bell_asleep(&m->bell))
			m->w = W_WAKE;
		else
			m->w = m->ended ? W_DONE : W_RESERVE;
		return true;
	case W_WAKE:
		m->bell.futex++;
		m->w = m->ended ? W_DONE : W_RESERVE;
		return true;
	case W_END:
		if (m->tx.first != m->tx.pos)
			m->published = m->committed;
		urxe_ring_end(&m->tx);
		m->ended = true;
		m->w = W_PENDING;
		return true;
	default:
		return false;
	}
}

static void check_content(const struct world *m, uint32_t at, unsigned k)
{
	for (uint32_t i = 0; i < lengths[k] && !failed; i++) {
		if (m->mem[at + i] != content(k, i))
			wrong(m, "another content");
	}
}

static void check_frame(struct world *m, const struct urxe_ring_frame *f)
{
	m->last_at = (uint32_t)(f->data - m->mem);
	if (m->seen >= m->published)
		wrong(m, "a frame before it was published");
	else if (f->len != lengths[m->seen])
		wrong(m, "another length");
	else
		check_content(m, m->last_at, m->seen);
	m->seen++;
}

/* What was borrowed is as it was. */
static void release_all(struct world *m)
{
	if (m->held_at)
		check_content(m, m->held_at, m->held);
	m->held_at = 0;
	while (m->rx.borrowed)
		urxe_ring_release(&m->rx);
}

static void read_next(struct world *m, bool choice)
{
	struct urxe_ring_frame f;

	switch (urxe_ring_next(&m->rx, &f)) {
	case URXE_RING_FRAME:
		check_frame(m, &f);
		m->fading = false;
		m->r = R_RELEASE;
		break;
	case URXE_RING_NOTHING:
		/* It was silent for long enough, or not. */
		if (m->fading)
			m->watched = m->fading = false;
		else if (choice)
			m->fading = true;
		m->r = m->fading ? R_CLEAR : R_RETURN;
		break;
	case URXE_RING_ENDED:
		m->r = R_DONE;
		break;
	case URXE_RING_BAD:
		wrong(m, "not a record");
		m->r = R_DONE;
		break;
	}
}

static bool reader_can(const struct world *m)
{
	return m->r != R_DONE && (m->r != R_SLEEP || m->bell.futex != m->futex);
}

/* Whose bit is set is watched from then on, and the bit stays set. */
static void look_for_news(struct world *m)
{
	if (urxe_bell_news(&m->bell, 0, m->watched ? 1ull << WRITER : 0))
		m->watched = true;
	m->r = m->watched || m->last ? R_NEXT : m->rx.borrowed ? R_RELEASE : R_FUTEX;
}

/* Of a ring that is watched the bell says nothing. */
static bool anything(struct world *m)
{
	return urxe_bell_news(&m->bell, 0, m->watched ? 1ull << WRITER : 0) ||
	       (m->watched && atomic_load(urxe_ring_at(&m->rx)));
}

/* @choice: keep the frame for a while; watch the ring no longer. The doze is urxe_bell_doze(), step
 * by step. */
static void reader_step(struct world *m, bool choice)
{
	switch (m->r) {
	case R_NEWS:
		look_for_news(m);
		break;
	case R_NEXT:
		read_next(m, choice);
		break;
	case R_CLEAR:
		urxe_bell_clear(&m->bell, WRITER);
		m->r = R_NEXT;
		break;
	case R_RELEASE:
		/* It is looked at while the writer goes on; no more than one at a time. */
		if (choice && m->rx.borrowed == 1 && !m->held_at) {
			m->held_at = m->last_at;
			m->held = m->seen - 1;
		} else {
			release_all(m);
		}
		m->r = R_RETURN;
		break;
	case R_RETURN:
		urxe_ring_return(&m->rx);
		if (m->last && !m->watched)
			m->r = R_DONE;
		else if (m->watched && !m->rx.borrowed && m->seen == m->before)
			m->r = R_FUTEX; /* nothing, and it goes on being watched */
		else
			m->r = R_NEWS;
		m->before = m->seen;
		break;
	case R_FUTEX:
		m->futex = m->bell.futex;
		m->r = R_DOZE;
		break;
	case R_DOZE:
		m->bell.asleep = 1;
		m->r = R_LOOK;
		break;
	case R_LOOK:
		m->r = anything(m) ? R_UP : R_SLEEP;
		break;
	case R_SLEEP:
		m->r = R_UP;
		break;
	case R_UP:
		urxe_bell_up(&m->bell);
		m->r = R_NEWS;
		break;
	case R_DONE:
		break;
	}
}

/* The fabric's thread says that the writer is gone: what is there is read, once. */
static void sweep(struct world *m)
{
	m->last = m->watched = true;
	m->fading = false;
	m->w = W_DEAD;
	m->bell.futex++;
	if (m->r == R_FUTEX)
		m->r = R_NEWS;
	for (unsigned i = 0; i < 200 && m->r != R_DONE; i++)
		reader_step(m, m->r == R_NEXT);
	if (m->r != R_DONE)
		wrong(m, "the reader does not end");
	if (m->seen != m->published)
		wrong(m, "published, and not read after the death");
	deaths++;
}

static void explore(const struct world *at)
{
	struct world m;
	bool any = false;

	if (failed || visit(at))
		return;
	for (unsigned choice = 0; choice < 2; choice++) {
		if (writer_can(at) && (!choice || at->w == W_MORE)) {
			copy_world(&m, at);
			if (writer_step(&m, choice)) {
				any = true;
				explore(&m);
			}
		}
		if (reader_can(at) && (!choice || at->r == R_RELEASE || at->r == R_NEXT)) {
			copy_world(&m, at);
			reader_step(&m, choice);
			any = true;
			explore(&m);
		}
	}
	copy_world(&m, at);
	if (writer_can(at))
		sweep(&m);
	if (any || failed)
		return;
	ends++;
	if (at->w != W_DONE || at->r != R_DONE || at->seen != RECORDS)
		wrong(at, "both wait");
}

static void try_all(bool staged)
{
	struct world m;

	memset(&m, 0, sizeof(m));
	if (staged)
		m.tx.stage = &m.stage;
	num_visited = ends = deaths = 0;
	m.tx.size = m.rx.size = URXE_RING_MIN;
	m.rx.max = 200;
	m.tx.mem = m.rx.mem = m.mem;
	visited = calloc(2 * (size_t)MAX_LOOK, sizeof(*visited));
	CU_ASSERT_PTR_NOT_NULL_FATAL(visited);
	explore(&m);
	CU_ASSERT(!failed);
	CU_ASSERT(num_visited > 1000 && num_visited <= MAX_LOOK);
	CU_ASSERT(ends > 0 && deaths > 1000);
	printf("    %u states, %u deaths, ", num_visited, deaths);
	free(visited);
}

static void test_model(void)
{
	try_all(false);
}

/* Frames are made outside of the ring; where one begins it changes when it is published. */
static void test_model_staged(void)
{
	try_all(true);
}

/* ---- memory ---- */

/* What the memory of a ring takes, in bytes. */
static uint64_t taken(int fd)
{
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static uint64_t pages(uint32_t size)
{
	return (urxe_ring_bytes(size) + 4095) & ~4095u;
}

/* A pair's first ring takes memory as it is used; one that has grown is there. */
static void test_lazy(void)
{
	struct urxe_ring_rx rx;
	int fd;

	CU_ASSERT_EQUAL_FATAL(urxe_ring_create(&rx, URXE_RING_FIRST, 9000, &fd), 0);
	CU_ASSERT_EQUAL(taken(fd), 8192);
	memset(rx.mem, 0, urxe_ring_bytes(rx.size));
	CU_ASSERT_EQUAL(taken(fd), pages(rx.size));
	close(fd);
	urxe_ring_unmap(rx.mem, rx.size);
	CU_ASSERT_EQUAL_FATAL(urxe_ring_create(&rx, 4 * URXE_RING_FIRST, 9000, &fd), 0);
	CU_ASSERT_EQUAL(taken(fd), pages(rx.size));
	close(fd);
	urxe_ring_unmap(rx.mem, rx.size);
}

static void test_memory(void)
{
	struct urxe_ring_rx rx;
	struct urxe_ring_tx tx;
	int fd, bad;

	CU_ASSERT_EQUAL(urxe_ring_create(&rx, 1000, 200, &fd), EINVAL);
	CU_ASSERT_EQUAL(urxe_ring_create(&rx, URXE_RING_LARGEST * 2, 200, &fd), EINVAL);
	CU_ASSERT_EQUAL_FATAL(urxe_ring_create(&rx, URXE_RING_FIRST, 9000, &fd), 0);
	CU_ASSERT_EQUAL(urxe_ring_map(&tx, URXE_RING_FIRST * 2, fd), EPROTO);
	CU_ASSERT_EQUAL_FATAL(urxe_ring_map(&tx, URXE_RING_FIRST, fd), 0);
	CU_ASSERT(ftruncate(fd, 0) && errno == EPERM);
	/* One that may be made shorter is not touched. */
	bad = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CU_ASSERT_EQUAL(ftruncate(bad, urxe_ring_bytes(URXE_RING_FIRST)), 0);
	urxe_ring_unmap(tx.mem, tx.size);
	CU_ASSERT_EQUAL(urxe_ring_map(&tx, URXE_RING_FIRST, bad), EPROTO);
	close(bad);
	close(fd);
	urxe_ring_unmap(rx.mem, rx.size);
}

/* ---- two threads ---- */

#define FRAMES 20000u

struct two {
	struct urxe_ring_tx tx;
	struct urxe_ring_rx rx;
	struct urxe_fabric_bell bell, back;
};

static uint32_t length_of(uint32_t i)
{
	return 14 + (i * 2654435761u >> 20) % 1500;
}

static void *write_all(void *arg)
{
	struct two *t = arg;

	for (uint32_t i = 0; i < FRAMES; i++) {
		uint8_t *to;

		while (!(to = urxe_ring_reserve(&t->tx, length_of(i)))) {
			urxe_ring_publish(&t->tx);
			urxe_bell_fence();
			urxe_bell_ring(&t->bell, WRITER);
			sched_yield();
		}
		memset(to, (uint8_t)i, length_of(i));
		urxe_ring_commit(&t->tx, length_of(i), i & 1 ? URXE_RING_NO_ICRC : 0);
		if (i % 7)
			continue;
		urxe_ring_publish(&t->tx);
		urxe_bell_fence();
		urxe_bell_ring(&t->bell, WRITER);
	}
	urxe_ring_end(&t->tx);
	urxe_bell_fence();
	urxe_bell_ring(&t->bell, WRITER);
	return NULL;
}

/*
 * The reader sleeps without a time-out whenever there is nothing: a wake that is lost is the end.
 * Half of the time it watches the ring, and leaves the bit set.
 */
static unsigned read_all(struct two *t)
{
	unsigned bad = 0, n = 0;
	struct urxe_ring_frame f;
	enum urxe_ring_found found;
	struct urxe_sleep how = {0};
	bool watch;
	uint32_t futex;

	do {
		watch = n % 512 < 256;
		if (!watch)
			urxe_bell_clear(&t->bell, WRITER);
		else if (!atomic_load(urxe_ring_at(&t->rx))) {
			futex = urxe_bell_doze(&t->bell);
			if (!urxe_bell_news(&t->bell, 0, 1ull << WRITER) &&
			    !atomic_load(urxe_ring_at(&t->rx)))
				urxe_bell_sleep(&t->bell, futex, UINT64_MAX, &how);
			urxe_bell_up(&t->bell);
		}
		while ((found = urxe_ring_next(&t->rx, &f)) == URXE_RING_FRAME) {
			bad += f.len != length_of(n) || f.data[0] != (uint8_t)n ||
			       f.data[f.len - 1] != (uint8_t)n || f.flags != (n & 1);
			n++;
			urxe_ring_release(&t->rx);
			urxe_ring_return(&t->rx);
		}
		if (found == URXE_RING_BAD)
			return 1;
		if (found == URXE_RING_ENDED)
			return bad + (n != FRAMES);
		if (watch)
			continue;
		futex = urxe_bell_doze(&t->bell);
		if (!urxe_bell_news(&t->bell, 0, 0))
			urxe_bell_sleep(&t->bell, futex, UINT64_MAX, &how);
		urxe_bell_up(&t->bell);
	} while (true);
}

static void two_threads(bool staged)
{
	struct urxe_ring_stage stage;
	struct two t;
	pthread_t thread;
	int fd;

	memset(&t, 0, sizeof(t));
	CU_ASSERT_EQUAL_FATAL(urxe_ring_create(&t.rx, 8192, 2000, &fd), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_ring_map(&t.tx, 8192, fd), 0);
	close(fd);
	t.tx.stage = staged ? &stage : NULL;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, write_all, &t), 0);
	CU_ASSERT_EQUAL(read_all(&t), 0);
	pthread_join(thread, NULL);
	urxe_ring_unmap(t.tx.mem, t.tx.size);
	urxe_ring_unmap(t.rx.mem, t.rx.size);
}

static void test_threads(void)
{
	two_threads(false);
	two_threads(true);
}

/* ---- a hostile writer, and a hostile reader ---- */

static enum urxe_ring_found found_with(uint32_t at, uint32_t word, uint32_t tail)
{
	static _Alignas(128) uint8_t mem[URXE_RING_CONTROL + URXE_RING_MIN];
	struct urxe_ring_rx rx = {
		.mem = mem, .size = URXE_RING_MIN, .max = 300, .read = at, .tail = tail};
	struct urxe_ring_frame f;

	memset(mem, 0, sizeof(mem));
	memcpy(mem + URXE_RING_CONTROL + at % URXE_RING_MIN, &word, 4);
	return urxe_ring_next(&rx, &f);
}

static void test_words(void)
{
	CU_ASSERT_EQUAL(found_with(0, 0, 0), URXE_RING_NOTHING);
	CU_ASSERT_EQUAL(found_with(0, 14, 0), URXE_RING_FRAME);
	CU_ASSERT_EQUAL(found_with(0, 13, 0), URXE_RING_BAD);
	CU_ASSERT_EQUAL(found_with(0, 300, 0), URXE_RING_FRAME);
	CU_ASSERT_EQUAL(found_with(0, 301, 0), URXE_RING_BAD);
	CU_ASSERT_EQUAL(found_with(448, 60, 448), URXE_RING_FRAME);
	CU_ASSERT_EQUAL(found_with(448, 61, 448), URXE_RING_BAD); /* beyond the end */
	CU_ASSERT_EQUAL(found_with(512, 100, 128), URXE_RING_FRAME);
	CU_ASSERT_EQUAL(found_with(512, 100, 64), URXE_RING_BAD); /* what we still look at */
	CU_ASSERT_EQUAL(found_with(0, 0xffffff, 0), URXE_RING_BAD);
	CU_ASSERT_EQUAL(found_with(0, 60 | 0x08u << 24, 0), URXE_RING_BAD);
	CU_ASSERT_EQUAL(found_with(0, 60 | (URXE_RING_PAD | URXE_RING_END) << 24, 0),
			URXE_RING_BAD);
	CU_ASSERT_EQUAL(found_with(448, 64 | URXE_RING_PAD << 24, 448), URXE_RING_NOTHING);
	CU_ASSERT_EQUAL(found_with(448, 128 | URXE_RING_PAD << 24, 448), URXE_RING_BAD);
	CU_ASSERT_EQUAL(found_with(0, 512 | URXE_RING_PAD << 24, 0), URXE_RING_BAD);
	CU_ASSERT_EQUAL(found_with(0, URXE_RING_END << 24, 0), URXE_RING_ENDED);
}

/* Whatever is written: what is handed out is inside, and there is an end to it. */
static void test_garbage(void)
{
	uint64_t prng = 7;
	struct urxe_ring_rx rx;
	int fd;

	CU_ASSERT_EQUAL_FATAL(urxe_ring_create(&rx, 4096, 1600, &fd), 0);
	close(fd);
	for (unsigned i = 0; i < 20000; i++) {
		struct urxe_ring_frame f;
		uint8_t *records = rx.mem + URXE_RING_CONTROL;
		uint32_t word = (uint32_t)urxe_random_step(&prng) % 2000;

		if (i % 3 == 0)
			word |= (uint32_t)(urxe_random_step(&prng) & 7) << 24;
		memcpy(records + (urxe_random_step(&prng) % 64) * 64, &word, 4);
		if (urxe_ring_next(&rx, &f) != URXE_RING_FRAME) {
			urxe_ring_return(&rx);
			rx.tail = rx.read = (uint32_t)urxe_random_step(&prng) & ~63u;
			continue;
		}
		CU_ASSERT_FATAL(f.data >= records && f.len <= 1600 &&
				f.data + f.len <= records + rx.size);
		if (i % 5) {
			while (rx.borrowed)
				urxe_ring_release(&rx);
			urxe_ring_return(&rx);
		}
		CU_ASSERT_FATAL(rx.read - rx.tail <= 2 * rx.size);
	}
	urxe_ring_unmap(rx.mem, rx.size);
}

/* A reader that says to have read more than there is, or less than before, gains nothing. */
static void test_hostile_reader(void)
{
	static const uint32_t tails[] = {64, 512, 0x80000000, UINT32_MAX, 192 + 64};
	struct urxe_ring_rx rx;
	struct urxe_ring_tx tx;
	int fd;

	CU_ASSERT_EQUAL_FATAL(urxe_ring_create(&rx, URXE_RING_MIN, 300, &fd), 0);
	CU_ASSERT_EQUAL_FATAL(urxe_ring_map(&tx, URXE_RING_MIN, fd), 0);
	close(fd);
	/* 192 bytes are published, 128 more are not; 128 were given back. */
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_PTR_NOT_NULL_FATAL(urxe_ring_reserve(&tx, 60));
		urxe_ring_commit(&tx, 60, 0);
	}
	urxe_ring_publish(&tx);
	*(volatile uint32_t *)(void *)rx.mem = 128;
	CU_ASSERT(urxe_ring_progress(&tx));
	CU_ASSERT_PTR_NOT_NULL_FATAL(urxe_ring_reserve(&tx, 120));
	urxe_ring_commit(&tx, 120, 0);
	for (unsigned i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		*(volatile uint32_t *)(void *)rx.mem = tails[i];
		CU_ASSERT(!urxe_ring_progress(&tx));
		CU_ASSERT_EQUAL(tx.tail, 128);
	}
	urxe_ring_unmap(tx.mem, tx.size);
	urxe_ring_unmap(rx.mem, rx.size);
}

URXE_TEST_MAIN("fabric_ring", T(test_model), T(test_model_staged), T(test_memory), T(test_lazy),
	       T(test_threads), T(test_words), T(test_garbage), T(test_hostile_reader))
