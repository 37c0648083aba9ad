/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A hostile member of a local fabric: it writes what it likes into the ring that we read, into our
 * bell and into the one that we write to, whenever it likes, also between our reading a frame's
 * headers and its payload. Records: what to do, then its arguments.
 */
#include "fuzz.h"

#include <unistd.h>

#include "netio/fabric_ring_tx.h"
#include "netio/stack.h"

#define RING	    4096u
#define FRAME_MAX   1600u
#define MAX_RECORDS 200
#define BORROWED    8

struct world {
	struct urxe_ring_rx rx;
	struct urxe_ring_tx tx;
	struct urxe_fabric_bell bell;
	struct urxe_ring_frame held[BORROWED];
	unsigned num_held;
	bool over;
};

/* Room for the frame of a record is inside, and of what we have there is no part in two. */
static void check_frame(struct world *w, const struct urxe_ring_frame *f)
{
	const uint8_t *records = w->rx.mem + URXE_RING_CONTROL;
	uint8_t copy[FRAME_MAX];
	struct urxe_frame frame = {.data = copy, .len = f->len};
	uint32_t bth;

	FUZZ_CHECK(f->len >= ETH_LEN && f->len <= FRAME_MAX);
	FUZZ_CHECK(f->data >= records && f->data + f->len <= records + RING);
	for (unsigned i = 0; i < w->num_held; i++) {
		const struct urxe_ring_frame *o = &w->held[i];

		FUZZ_CHECK(f->data + f->len <= o->data || o->data + o->len <= f->data);
	}
	memcpy(copy, f->data, f->len);
	bth = urxe_frame_roce(&frame);
	FUZZ_CHECK(!bth || bth + URXE_BTH_LEN + URXE_ICRC_LEN <= f->len);
}

static void release_all(struct world *w)
{
	for (; w->num_held; w->num_held--)
		urxe_ring_release(&w->rx);
	urxe_ring_return(&w->rx);
}

static void read_some(struct world *w, unsigned most)
{
	struct urxe_ring_frame f;

	for (unsigned i = 0; i < most && !w->over && w->num_held < BORROWED; i++) {
		switch (urxe_ring_next(&w->rx, &f)) {
		case URXE_RING_FRAME:
			check_frame(w, &f);
			w->held[w->num_held++] = f;
			break;
		case URXE_RING_NOTHING:
			return;
		default:
			w->over = true;
		}
	}
}

/* What we write stays inside, whatever the reader says of itself. */
static void write_some(struct world *w, uint32_t len)
{
	uint8_t *records = w->tx.mem + URXE_RING_CONTROL;
	uint8_t *to = urxe_ring_reserve(&w->tx, len);

	if (!to)
		return;
	FUZZ_CHECK(to >= records && to + len <= records + RING);
	memset(to, 0xa5, len);
	urxe_ring_commit(&w->tx, len, 0);
	FUZZ_CHECK(w->tx.pos - w->tx.tail <= RING);
}

/* Words of records alone, or any bytes. */
static void scribble(struct fuzz_in *in, uint8_t *mem, uint8_t how)
{
	size_t at = how & 1 ? URXE_RING_CONTROL + (fuzz_u8(in) % (RING / 64)) * 64u
			    : fuzz_u16(in) % urxe_ring_bytes(RING);
	size_t len = how & 1 ? 4 : fuzz_u8(in);
	const uint8_t *data;

	if (at + len > urxe_ring_bytes(RING))
		len = urxe_ring_bytes(RING) - at;
	data = fuzz_bytes(in, &len);
	memcpy(mem + at, data, len);
}

static void step(struct world *w, struct fuzz_in *in)
{
	uint8_t what = fuzz_u8(in);

	switch (what & 7) {
	case 0:
	case 1:
		scribble(in, w->rx.mem, what >> 3);
		break;
	case 2:
		scribble(in, w->tx.mem, what >> 3);
		break;
	case 3:
		read_some(w, 1 + (what >> 3 & 7));
		break;
	case 4:
		release_all(w);
		break;
	case 5:
		write_some(w, ETH_LEN + fuzz_u16(in) % FRAME_MAX);
		break;
	case 6:
		urxe_ring_publish(&w->tx);
		urxe_ring_want(&w->tx);
		break;
	case 7:
		atomic_store(&w->bell.from[what >> 3 & 3], fuzz_u32(in));
		for (unsigned i = 0; i < URXE_FABRIC_SLOTS / 64; i++) {
			uint64_t news = urxe_bell_news(&w->bell, i, 0);

			for (; news; news &= news - 1)
				urxe_bell_clear(&w->bell, i * 64 + (unsigned)__builtin_ctzll(news));
			FUZZ_CHECK(!urxe_bell_news(&w->bell, i, 0));
		}
		break;
	}
}

/* Rings of this program's life: making one costs more than an input. */
static void rings(struct world *w)
{
	static struct urxe_ring_rx read, other;
	static struct urxe_ring_tx tx;
	int fd;

	if (!read.mem) {
		FUZZ_CHECK(!urxe_ring_create(&read, RING, FRAME_MAX, &fd));
		close(fd);
		FUZZ_CHECK(!urxe_ring_create(&other, RING, FRAME_MAX, &fd));
		FUZZ_CHECK(!urxe_ring_map(&tx, RING, fd));
		close(fd);
	}
	memset(read.mem, 0, urxe_ring_bytes(RING));
	memset(tx.mem, 0, urxe_ring_bytes(RING));
	w->rx = read;
	w->tx = tx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};
	struct world w;

	memset(&w, 0, sizeof(w));
	rings(&w);
	/* It begins anywhere, as after a long time. */
	w.rx.read = w.rx.tail = fuzz_u32(&in) & ~(URXE_RING_UNIT - 1);
	for (unsigned i = 0; i < MAX_RECORDS && in.n; i++)
		step(&w, &in);
	release_all(&w);
	return 0;
}
