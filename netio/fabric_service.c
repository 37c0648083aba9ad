/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Service ids that members listen to without an RDMA port (ib_cm), and to whom a request for a
 * service goes. Ranges are few: they are claimed as ports are (fabric_port.c), and looked through.
 */
#include <errno.h>

#include "netio/fabric_priv.h"

#define TRIES 1000

static bool overlap(uint64_t a, uint64_t a_mask, uint64_t b, uint64_t b_mask)
{
	return !((a ^ b) & a_mask & b_mask);
}

static bool in_use(struct urxe_ftable *t, uint64_t word)
{
	return word & FT_STATE && urxe_ft_live(t, FT_SLOT(word), FT_INCARN(word));
}

static unsigned ever_used(struct urxe_ftable *t)
{
	uint32_t n = atomic_load(&t->services);

	return n < FT_SERVICES ? n : FT_SERVICES;
}

/* What changes meanwhile is read again: it may just have become held. */
static bool read_service(struct urxe_ftable *t, unsigned place, uint64_t *word, uint64_t *id,
			 uint64_t *mask)
{
	struct urxe_ft_service *s = &t->service[place];

	*word = atomic_load(&s->word);
	for (unsigned tries = 0; tries < TRIES; tries++) {
		uint64_t before = *word;

		if ((before & FT_STATE) < FT_TRYING || !in_use(t, before))
			return false;
		*id = atomic_load_explicit(&s->id, memory_order_acquire);
		*mask = atomic_load_explicit(&s->mask, memory_order_acquire);
		/* Pairs with the releases in try_listen(). */
		*word = atomic_load(&s->word);
		if (*word == before)
			break;
	}
	return true;
}

/* ---- claims ---- */

static bool take_place(struct urxe_fabric *f, struct urxe_ftable *t, unsigned *place,
		       uint64_t *word)
{
	for (unsigned i = 0; i < FT_SERVICES; i++) {
		uint64_t old = atomic_load_explicit(&t->service[i].word, memory_order_relaxed);
		uint32_t n = atomic_load(&t->services);

		if (in_use(t, old))
			continue;
		*word = (uint64_t)f->incarnation << 32 | f->starting << FT_OWNER_SHIFT |
			((FT_SEQ(old) + 1) & FT_SEQ_MASK) << FT_SEQ_SHIFT;
		if (!atomic_compare_exchange_strong(&t->service[i].word, &old, *word | FT_WRITING))
			continue;
		while (n <= i && !atomic_compare_exchange_strong(&t->services, &n, i + 1))
			;
		*place = i;
		return true;
	}
	return false;
}

static bool remove_word(struct urxe_ftable *t, unsigned place, uint64_t word)
{
	return atomic_compare_exchange_strong(&t->service[place].word, &word,
					      word & ((uint64_t)FT_SEQ_MASK << FT_SEQ_SHIFT));
}

/* Other members of our domain; our own are the CM's business. */
static int compare(struct urxe_fabric *f, struct urxe_ftable *t, uint64_t id, uint64_t mask)
{
	unsigned again = 0;

	for (unsigned i = 0; i < ever_used(t); i++) {
		uint64_t word, other_id, other_mask;
		unsigned slot;

		if (!read_service(t, i, &word, &other_id, &other_mask))
			continue;
		slot = FT_SLOT(word);
		if (slot == f->starting || urxe_ft_domain(t, slot) != f->domain ||
		    !overlap(id, mask, other_id, other_mask))
			continue;
		if ((word & FT_STATE) == FT_HELD) {
			if (urxe_fabric_alive(f, slot, FT_INCARN(word)))
				return EADDRINUSE;
		} else if (!remove_word(t, i, word)) {
			if (again++ == TRIES)
				return EADDRINUSE;
			i--; /* it has changed: look again */
		}
	}
	return 0;
}

static int try_listen(struct urxe_fabric *f, struct urxe_ftable *t, uint64_t id, uint64_t mask,
		      urxe_fabric_claim *claim)
{
	unsigned place;
	uint64_t word;
	int ret;

	if (!take_place(f, t, &place, &word))
		return ENOBUFS;
	atomic_store_explicit(&t->service[place].id, id, memory_order_release);
	atomic_store_explicit(&t->service[place].mask, mask, memory_order_release);
	word |= FT_TRYING;
	atomic_store(&t->service[place].word, word);
	ret = compare(f, t, id, mask);
	if (ret) {
		remove_word(t, place, word);
		return ret;
	}
	*claim = (uint64_t)FT_SEQ(word) << 32 | (place + 1);
	return atomic_compare_exchange_strong(&t->service[place].word, &word, word | FT_HELD)
		       ? 0
		       : EAGAIN;
}

int urxe_fabric_service_listen(struct urxe_fabric *f, uint64_t service_id, uint64_t mask,
			       urxe_fabric_claim *claim)
{
	struct urxe_ftable *t;
	int ret = urxe_fabric_join(f);

	if (ret)
		return ret;
	t = urxe_fabric_table(f);
	ret = EAGAIN;
	for (unsigned i = 0; i < TRIES && ret == EAGAIN; i++)
		ret = try_listen(f, t, service_id & mask, mask, claim);
	if (!ret)
		urxe_fabric_serve(f);
	return ret == EAGAIN ? EADDRINUSE : ret;
}

void urxe_fabric_service_release(struct urxe_fabric *f, urxe_fabric_claim claim)
{
	struct urxe_ftable *t = urxe_fabric_table(f);
	unsigned place = (uint32_t)claim - 1;
	uint64_t word;

	if (!claim || !t || !urxe_fabric_slot(f) || place >= FT_SERVICES)
		return;
	word = atomic_load(&t->service[place].word);
	if (FT_SLOT(word) == f->starting && FT_INCARN(word) == f->incarnation &&
	    FT_SEQ(word) == claim >> 32)
		remove_word(t, place, word);
}

/* ---- who listens ---- */

/* As rdma_cma.h numbers the spaces: with 16 bits of port below they are service ids (IBTA A11). */
static bool port_space(uint64_t service_id, enum urxe_ident_space *space)
{
	switch (service_id >> 16) {
	case 0x0106:
		*space = URXE_IDENT_TCP;
		return true;
	case 0x0111:
		*space = URXE_IDENT_UDP;
		return true;
	case 0x013f:
		*space = URXE_IDENT_IB;
		return true;
	case 0x0002:
		*space = URXE_IDENT_IPOIB;
		return true;
	default:
		return false;
	}
}

static unsigned range_listener(struct urxe_ftable *t, unsigned domain, uint64_t service_id)
{
	for (unsigned i = 0; i < ever_used(t); i++) {
		uint64_t word, id, mask;

		if (read_service(t, i, &word, &id, &mask) && (word & FT_STATE) == FT_HELD &&
		    urxe_ft_domain(t, FT_SLOT(word)) == domain &&
		    overlap(service_id, UINT64_MAX, id, mask))
			return FT_SLOT(word);
	}
	return 0;
}

unsigned urxe_fabric_listener(const struct urxe_fabric *f, const uint8_t dgid[16],
			      uint64_t service_id)
{
	struct urxe_ftable *t = urxe_fabric_table(f);
	struct urxe_fabric_where where = {.domain = f->domain};
	enum urxe_ident_space space;
	unsigned slot = 0;

	if (!t)
		return 0;
	/* An address that is not in the table is one of our own that came just now. */
	if (!urxe_fabric_lookup(f, dgid, &where) && where.slot)
		return where.slot;
	if (port_space(service_id, &space))
		slot = urxe_fport_listener(t, where.domain, dgid, space, (uint16_t)service_id);
	return slot ? slot : range_listener(t, where.domain, service_id);
}
