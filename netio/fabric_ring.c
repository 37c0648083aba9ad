/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rings and bells of a local fabric (fabric_ring.h).
 */
#include "netio/fabric_ring_tx.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "netio/sysmap.h"
#include "urxe/lines.h"

#define SEALS	  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define FRAME_MIN 14u /* an Ethernet header */
#define LEN_MASK  0xffffffu
#define AT_ONCE	  8192 /* bytes of a first ring that are there before they are used */

/* The reader's line, and the writer's, a pair of cache lines each. */
struct control {
	_Alignas(128) _Atomic uint32_t tail;
	_Alignas(128) _Atomic uint32_t want;
};

_Static_assert(sizeof(struct control) == URXE_RING_CONTROL, "the records begin behind it");

static struct control *control(uint8_t *mem)
{
	return (struct control *)(void *)mem;
}

/* ---- memory ---- */

static bool good_size(uint32_t size)
{
	return size >= URXE_RING_MIN && size <= URXE_RING_LARGEST && !(size & (size - 1));
}

/* This may be a thread of ours. A fork's child has no use for it. */
static int map(int fd, uint32_t size, uint8_t **mem)
{
	size_t len = urxe_ring_bytes(size);
	int all = size > URXE_RING_FIRST ? MAP_POPULATE : 0;
	void *p = NULL;
	int err = urxe_sys_map(fd, len, MAP_SHARED | all, &p);

	if (err)
		return err;
	*mem = p;
	/* Of a pair's first ring all the pages take as long to make as all the rest of an attach,
	 * and who says little never needs them. */
	if (!all)
		urxe_sys_advise(p, AT_ONCE, MADV_POPULATE_WRITE);
	urxe_sys_advise(p, len, MADV_DONTFORK);
	urxe_sys_advise(p, len, MADV_DONTDUMP);
	return 0;
}

void urxe_ring_unmap(uint8_t *mem, uint32_t size)
{
	urxe_sys_unmap(mem, urxe_ring_bytes(size));
}

int urxe_ring_create(struct urxe_ring_rx *rx, uint32_t size, uint32_t max, int *fd)
{
	int err = 0;

	if (!good_size(size))
		return EINVAL;
	*rx = (struct urxe_ring_rx){.size = size, .max = max};
	*fd = memfd_create("urxe-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return errno;
	if (ftruncate(*fd, urxe_ring_bytes(size)) || fcntl(*fd, F_ADD_SEALS, SEALS))
		err = errno;
	if (!err)
		err = map(*fd, size, &rx->mem);
	if (err)
		close(*fd);
	return err;
}

int urxe_ring_map(struct urxe_ring_tx *tx, uint32_t size, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	/* Without the seals, whoever has it as well makes it shorter, and that is SIGBUS for us. */
	if (!good_size(size) || seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) ||
	    st.st_size != urxe_ring_bytes(size))
		return EPROTO;
	*tx = (struct urxe_ring_tx){.size = size};
	return map(fd, size, &tx->mem);
}

/* ---- writing ---- */

bool urxe_ring_progress(struct urxe_ring_tx *tx)
{
	/* Pairs with urxe_ring_return(): what it has read is not written over before. */
	uint32_t tail = atomic_load_explicit(&control(tx->mem)->tail, memory_order_acquire);

	/* Forward, and not beyond what it can have read. */
	if (tail == tx->tail || tx->first - tail >= tx->first - tx->tail)
		return false;
	tx->tail = tail;
	return true;
}

bool urxe_ring_publish(struct urxe_ring_tx *tx)
{
	if (tx->first == tx->pos)
		return false;
	if (tx->staged)
		urxe_ring_copy(urxe_ring_record(tx->mem, tx->size, tx->first) + URXE_RING_HEAD,
			       tx->stage->first, tx->staged);
	tx->staged = 0;
	/* Pairs with urxe_ring_next(). */
	atomic_store_explicit(urxe_ring_word(tx->mem, tx->size, tx->first), tx->word,
			      memory_order_release);
	tx->first = tx->pos;
	return true;
}

void urxe_ring_end(struct urxe_ring_tx *tx)
{
	urxe_ring_publish(tx);
	atomic_store_explicit(urxe_ring_word(tx->mem, tx->size, tx->pos),
			      URXE_RING_END << URXE_RING_FLAGS_AT, memory_order_release);
}

void urxe_ring_want(struct urxe_ring_tx *tx)
{
	atomic_store_explicit(&control(tx->mem)->want, 1, memory_order_relaxed);
}

/* ---- reading ---- */

/* Up to the end of the ring there is nothing. */
static bool skip_pad(struct urxe_ring_rx *rx, uint32_t word)
{
	uint32_t off = rx->read & (rx->size - 1);

	if (!off || (word & LEN_MASK) != rx->size - off)
		return false;
	rx->read += rx->size - off;
	return true;
}

enum urxe_ring_found urxe_ring_next(struct urxe_ring_rx *rx, struct urxe_ring_frame *f)
{
	/* Read once, as the writer may change it. Pairs with urxe_ring_publish(). */
	uint32_t word = atomic_load_explicit(urxe_ring_word(rx->mem, rx->size, rx->read),
					     memory_order_acquire);
	uint32_t len, need;

	if (word >> URXE_RING_FLAGS_AT == URXE_RING_PAD) {
		if (!skip_pad(rx, word))
			return URXE_RING_BAD;
		word = atomic_load_explicit(urxe_ring_word(rx->mem, rx->size, rx->read),
					    memory_order_acquire);
	}
	if (!word)
		return URXE_RING_NOTHING;
	if (word >> URXE_RING_FLAGS_AT == URXE_RING_END)
		return URXE_RING_ENDED;
	len = word & LEN_MASK;
	need = urxe_ring_record_len(len);
	if (word >> URXE_RING_FLAGS_AT & ~(uint32_t)URXE_RING_NO_ICRC || len < FRAME_MIN ||
	    len > rx->max || (rx->read & (rx->size - 1)) + need > rx->size ||
	    rx->read + need - rx->tail > rx->size)
		return URXE_RING_BAD;
	*f = (struct urxe_ring_frame){
		.data = urxe_ring_record(rx->mem, rx->size, rx->read) + URXE_RING_HEAD,
		.len = len,
		.flags = word >> URXE_RING_FLAGS_AT,
	};
	/* A thread without a lock may be looking for news amid it (urxe_ring_at()). */
	urxe_lines_take(urxe_ring_record(rx->mem, rx->size, rx->read), need);
	rx->read += need;
	rx->borrowed++;
	return URXE_RING_FRAME;
}

const _Atomic uint32_t *urxe_ring_at(const struct urxe_ring_rx *rx)
{
	return urxe_ring_word(rx->mem, rx->size, rx->read);
}

bool urxe_ring_return(struct urxe_ring_rx *rx)
{
	struct control *c = control(rx->mem);

	if (rx->borrowed || rx->tail == rx->read)
		return false;
	rx->tail = rx->read;
	/* Pairs with urxe_ring_progress(). */
	atomic_store_explicit(&c->tail, rx->tail, memory_order_release);
	if (!atomic_load_explicit(&c->want, memory_order_relaxed))
		return false;
	atomic_store_explicit(&c->want, 0, memory_order_relaxed);
	return true;
}

/* ---- bells ---- */

void urxe_bell_wake(struct urxe_fabric_bell *bell)
{
	atomic_fetch_add(&bell->futex, 1);
	syscall(SYS_futex, &bell->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t urxe_bell_doze(struct urxe_fabric_bell *bell)
{
	/* First: who wakes us from here on changes it. */
	uint32_t futex = atomic_load(&bell->futex);

	atomic_store(&bell->asleep, 1);
	urxe_bell_fence();
	return futex;
}

void urxe_bell_sleep(struct urxe_fabric_bell *bell, uint32_t futex, uint64_t ns,
		     struct urxe_sleep *how)
{
	urxe_sleep_futex(how, &bell->futex, futex, ns);
}
