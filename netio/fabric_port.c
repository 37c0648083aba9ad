/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RDMA ports of all members: claims in the shared table, without a lock, since whoever held one
 * might be stopped. A claim is written, shown to all (TRYING), and then compared with the others of
 * its port. Of two that are in each other's way at least one sees the other. What is held stays;
 * what is only tried is removed by whoever finds it in the way, and its owner, who finds that out
 * when he wants to hold it, begins again.
 *
 * A bucket has room for several claims. Those of one port that do not fit go to further buckets,
 * and a mark stays on what they passed by, so that they are looked for.
 */
#include <errno.h>

#include "netio/fabric_priv.h"

#define EPHEMERAL_FIRST 32768
#define EPHEMERAL_COUNT 28232
#define TRIES		1000 /* to hold what others remove: they are done in less than a microsecond */

/* A claim as it is read, or is to be. */
struct claim {
	uint64_t word;
	uint64_t gid[2];
	uint32_t port;
};

/* The table, and us. */
struct who {
	struct urxe_fabric *f;
	struct urxe_ftable *t;
	unsigned slot;
};

static bool mine(const struct who *w, uint64_t word)
{
	return FT_SLOT(word) == w->slot && FT_INCARN(word) == w->f->incarnation;
}

/* ---- places ---- */

static unsigned bucket_of(uint32_t port, unsigned probe)
{
	/* Spaces begin apart, or few ports in each would crowd. */
	return ((port & 0xffff) + (port >> 16) * 2048 + probe * FT_STEP) % FT_BUCKETS;
}

static _Atomic uint64_t *word_at(struct urxe_ftable *t, unsigned place)
{
	return &t->word[place / FT_WAYS][place % FT_WAYS];
}

static struct urxe_ft_key *key_at(struct urxe_ftable *t, unsigned place)
{
	return &t->key[place / FT_WAYS][place % FT_WAYS];
}

/* Is it anybody's? What a member that is gone has left is not. */
static bool in_use(struct urxe_ftable *t, uint64_t word)
{
	return word & FT_STATE && urxe_ft_live(t, FT_SLOT(word), FT_INCARN(word));
}

static bool goes_on(struct urxe_ftable *t, unsigned bucket)
{
	return atomic_load(&t->over[bucket]);
}

/* A place of ours that nobody sees yet. */
static bool take_place(const struct who *w, struct claim *c, unsigned *place)
{
	for (unsigned probe = 0; probe < FT_PROBES; probe++) {
		unsigned b = bucket_of(c->port, probe);

		for (unsigned i = 0; i < FT_WAYS; i++) {
			uint64_t old =
				atomic_load_explicit(&w->t->word[b][i], memory_order_relaxed);
			uint64_t word;

			if (in_use(w->t, old))
				continue;
			word = (uint64_t)w->f->incarnation << 32 | w->slot << FT_OWNER_SHIFT |
			       ((FT_SEQ(old) + 1) & FT_SEQ_MASK) << FT_SEQ_SHIFT | (c->word & 0xfc);
			if (atomic_compare_exchange_strong(&w->t->word[b][i], &old,
							   word | FT_WRITING)) {
				c->word = word | FT_TRYING;
				*place = b * FT_WAYS + i;
				return true;
			}
		}
		if (probe + 1 < FT_PROBES && !goes_on(w->t, b))
			atomic_store(&w->t->over[b], 1);
	}
	return false;
}

static void show(const struct who *w, const struct claim *c, unsigned place)
{
	struct urxe_ft_key *key = key_at(w->t, place);

	/* Who reads these sees by the word that they are being written. */
	for (unsigned i = 0; i < 2; i++)
		atomic_store_explicit(&key->gid[i], c->gid[i], memory_order_release);
	atomic_store_explicit(&key->port, c->port, memory_order_release);
	/* Sequentially consistent, as are the loads of those who compare: either they see this or
	 * we shall see theirs. */
	atomic_store(word_at(w->t, place), c->word);
}

static void withdraw(const struct who *w, uint64_t word, unsigned place)
{
	/* Somebody may have removed it. */
	atomic_compare_exchange_strong(word_at(w->t, place), &word,
				       word & ((uint64_t)FT_SEQ_MASK << FT_SEQ_SHIFT));
}

/* What is at a place, if it is shown and its owner is there. What changes meanwhile is read again:
 * it may just have become held. */
static bool read_claim(struct urxe_ftable *t, unsigned place, struct claim *c)
{
	struct urxe_ft_key *key = key_at(t, place);

	c->word = atomic_load(word_at(t, place));
	for (unsigned tries = 0; tries < TRIES; tries++) {
		uint64_t before = c->word;

		if ((before & FT_STATE) < FT_TRYING || !in_use(t, before))
			return false;
		for (unsigned i = 0; i < 2; i++)
			c->gid[i] = atomic_load_explicit(&key->gid[i], memory_order_acquire);
		c->port = atomic_load_explicit(&key->port, memory_order_acquire);
		/* Pairs with the releases in show(). Each use of a place has another word. */
		c->word = atomic_load(word_at(t, place));
		if (c->word == before)
			break;
	}
	return true;
}

/* ---- who is in whose way ---- */

/* Does the wildcard @a take in the addresses of family @v4? */
static bool any_covers(uint64_t a, bool v4)
{
	return a & FT_V4 ? v4 : !v4 || !(a & FT_V6ONLY);
}

static bool overlap(const struct claim *a, const struct claim *b)
{
	bool a4 = a->word & FT_V4, b4 = b->word & FT_V4;

	if (a->port != b->port)
		return false;
	if (!((a->word | b->word) & FT_ANY))
		return a->gid[0] == b->gid[0] && a->gid[1] == b->gid[1];
	if (a->word & b->word & FT_ANY)
		return any_covers(a->word, b4) || any_covers(b->word, a4);
	return a->word & FT_ANY ? any_covers(a->word, b4) : any_covers(b->word, a4);
}

static bool clash(const struct claim *a, const struct claim *b)
{
	return overlap(a, b) &&
	       (!(a->word & b->word & FT_REUSE) || (a->word | b->word) & FT_LISTENS);
}

static bool both_listen(const struct claim *a, const struct claim *b)
{
	return overlap(a, b) && b->word & (FT_LISTENS | FT_WILL_LISTEN);
}

/* One that is in our way: 0: it is not any more; EAGAIN: it has changed; EADDRINUSE: it stays. */
static int push(const struct who *w, unsigned place, const struct claim *c, bool listening)
{
	uint64_t word = c->word, without = word & ((uint64_t)FT_SEQ_MASK << FT_SEQ_SHIFT);

	if (listening && !(word & FT_LISTENS))
		without = word & ~(uint64_t)FT_WILL_LISTEN;
	else if ((word & FT_STATE) != FT_TRYING)
		/* Its owner may have died just now. */
		return urxe_fabric_alive(w->f, FT_SLOT(word), FT_INCARN(word)) ? EADDRINUSE : 0;
	return atomic_compare_exchange_strong(word_at(w->t, place), &word, without) ? 0 : EAGAIN;
}

/* All other claims of @c's port. @own: its place, or none; @shown: others that only try give way.
 */
static int compare(const struct who *w, const struct claim *c, unsigned own, bool shown,
		   bool listening)
{
	unsigned again = 0;

	for (unsigned probe = 0; probe < FT_PROBES; probe++) {
		unsigned b = bucket_of(c->port, probe);

		for (unsigned i = 0; i < FT_WAYS; i++) {
			unsigned place = b * FT_WAYS + i;
			struct claim o;
			int ret;

			if (place == own || !read_claim(w->t, place, &o) ||
			    urxe_ft_domain(w->t, FT_SLOT(o.word)) != w->f->domain)
				continue;
			if (!(listening ? both_listen(c, &o) : clash(c, &o)))
				continue;
			if (!shown && (o.word & FT_STATE) == FT_TRYING)
				continue;
			ret = push(w, place, &o, listening);
			if (ret == EADDRINUSE || again == TRIES)
				return EADDRINUSE;
			if (ret) {
				again++;
				i--;
			}
		}
		if (!goes_on(w->t, b))
			break;
	}
	return 0;
}

/* ---- claims ---- */

#define NOWHERE UINT32_MAX

/* EAGAIN: somebody else had the same in mind. */
static int try_claim(const struct who *w, struct claim *c, unsigned flags, unsigned *place)
{
	uint64_t word;
	int ret;

	c->word = flags;
	if (!take_place(w, c, place))
		return ENOBUFS;
	show(w, c, *place);
	ret = compare(w, c, *place, true, false);
	word = c->word;
	if (ret) {
		withdraw(w, word, *place);
		return ret;
	}
	c->word = (word & ~(uint64_t)FT_STATE) | FT_HELD;
	return atomic_compare_exchange_strong(word_at(w->t, *place), &word, c->word) ? 0 : EAGAIN;
}

static int claim_port(const struct who *w, struct claim *c, unsigned flags, unsigned *place)
{
	int ret = EAGAIN;

	/* Who is sure to fail disturbs nobody. */
	c->word = flags;
	if (compare(w, c, NOWHERE, false, false))
		return EADDRINUSE;
	for (unsigned i = 0; i < TRIES && ret == EAGAIN; i++) {
		ret = try_claim(w, c, flags, place);
		if (ret == EAGAIN && i > 8)
			sched_yield();
	}
	return ret == EAGAIN ? EADDRINUSE : ret;
}

/* An ephemeral number is nobody else's, reuse or not: so it is compared without, and held with. */
static int claim_ephemeral(const struct who *w, struct claim *c, unsigned flags, uint64_t random,
			   unsigned *place)
{
	uint32_t start = (uint32_t)(random % EPHEMERAL_COUNT), space = c->port;
	int ret = EADDRINUSE;

	for (uint32_t i = 0; i < EPHEMERAL_COUNT && ret == EADDRINUSE; i++) {
		c->port = space | (EPHEMERAL_FIRST + (start + i) % EPHEMERAL_COUNT);
		ret = claim_port(w, c, flags & ~FT_REUSE, place);
	}
	if (!ret && flags & FT_REUSE)
		atomic_fetch_or(word_at(w->t, *place), FT_REUSE);
	return ret == EADDRINUSE ? EADDRNOTAVAIL : ret;
}

static int begin(struct urxe_fabric *f, struct who *w)
{
	int ret = urxe_fabric_join(f);

	if (ret)
		return ret;
	w->f = f;
	w->t = urxe_fabric_table(f);
	w->slot = urxe_fabric_slot(f);
	return w->t && w->slot ? 0 : ENODEV;
}

static unsigned flags_of(const uint8_t gid[16], unsigned flags)
{
	static const uint8_t zero[16], v4_any[16] = {[10] = 0xff, [11] = 0xff};
	bool v4 = !memcmp(gid, v4_any, 12),
	     any = !memcmp(gid, zero, 16) || !memcmp(gid, v4_any, 16);

	/* The family is in the address itself, but for the wildcard of all zeros. */
	if (any && flags & URXE_IDENT_PORT_V4)
		v4 = true;
	return (any ? FT_ANY : 0) | (v4 ? FT_V4 : 0) |
	       (flags & URXE_IDENT_PORT_REUSE ? FT_REUSE : 0) |
	       (flags & URXE_IDENT_PORT_V6ONLY ? FT_V6ONLY : 0);
}

int urxe_fabric_port_claim(struct urxe_fabric *f, enum urxe_ident_space space,
			   const uint8_t gid[16], unsigned flags, uint64_t random, uint16_t *port,
			   urxe_fabric_claim *claim)
{
	struct who w;
	struct claim c = {.port = (uint32_t)space << 16 | *port};
	unsigned place;
	int ret = begin(f, &w);

	if (ret)
		return ret;
	urxe_ft_gid_words(gid, c.gid);
	if (*port)
		ret = claim_port(&w, &c, flags_of(gid, flags), &place);
	else
		ret = claim_ephemeral(&w, &c, flags_of(gid, flags), random, &place);
	if (ret)
		return ret;
	*port = (uint16_t)c.port;
	*claim = (uint64_t)FT_SEQ(c.word) << 32 | (place + 1);
	return 0;
}

/* The word of a claim, if it is ours still. */
static bool ours(struct urxe_fabric *f, urxe_fabric_claim claim, struct who *w, unsigned *place,
		 uint64_t *word)
{
	*place = (uint32_t)claim - 1;
	w->f = f;
	w->t = urxe_fabric_table(f);
	w->slot = urxe_fabric_slot(f);
	if (!claim || !w->t || !w->slot || *place >= FT_BUCKETS * FT_WAYS)
		return false;
	*word = atomic_load(word_at(w->t, *place));
	return mine(w, *word) && FT_SEQ(*word) == claim >> 32 && (*word & FT_STATE) == FT_HELD;
}

static bool listen_once(const struct who *w, unsigned place, uint64_t word, int *ret)
{
	struct claim c;
	uint64_t will = word | FT_WILL_LISTEN;

	if (!atomic_compare_exchange_strong(word_at(w->t, place), &word, will) ||
	    !read_claim(w->t, place, &c))
		return false;
	*ret = compare(w, &c, place, true, true);
	word = will & ~(uint64_t)FT_WILL_LISTEN;
	if (!*ret)
		word |= FT_LISTENS;
	return atomic_compare_exchange_strong(word_at(w->t, place), &will, word) || *ret;
}

int urxe_fabric_port_listen(struct urxe_fabric *f, urxe_fabric_claim claim)
{
	struct who w;
	unsigned place;
	uint64_t word;
	int ret;

	if (!urxe_fabric_ours(f))
		return ENODEV;
	for (unsigned i = 0; i < TRIES; i++) {
		if (!ours(f, claim, &w, &place, &word))
			return EADDRNOTAVAIL;
		if (listen_once(&w, place, word, &ret))
			return ret;
		if (i > 8)
			sched_yield();
	}
	return EADDRINUSE;
}

void urxe_fabric_port_reuse(struct urxe_fabric *f, urxe_fabric_claim claim, bool reuse)
{
	struct who w;
	unsigned place;
	uint64_t word;

	if (!ours(f, claim, &w, &place, &word))
		return;
	if (reuse)
		atomic_fetch_or(word_at(w.t, place), FT_REUSE);
	else
		atomic_fetch_and(word_at(w.t, place), ~(uint64_t)FT_REUSE);
}

void urxe_fabric_port_release(struct urxe_fabric *f, urxe_fabric_claim claim)
{
	struct who w;
	unsigned place;
	uint64_t word;

	/* Others change no more than a flag of what is held. */
	for (unsigned i = 0; i < TRIES && ours(f, claim, &w, &place, &word); i++)
		withdraw(&w, word, place);
}

/* ---- who listens ---- */

static bool loopback(const struct claim *c)
{
	static const uint8_t one[16] = {[15] = 1};
	uint8_t gid[16];

	memcpy(gid, c->gid, 16);
	return c->word & FT_V4 ? gid[12] == 127 : !memcmp(gid, one, 16);
}

unsigned urxe_fport_listener(struct urxe_ftable *t, unsigned domain, const uint8_t gid[16],
			     enum urxe_ident_space space, uint16_t port)
{
	struct claim want = {.word = flags_of(gid, 0), .port = (uint32_t)space << 16 | port};
	unsigned second = 0;

	urxe_ft_gid_words(gid, want.gid);
	for (unsigned probe = 0; probe < FT_PROBES; probe++) {
		unsigned b = bucket_of(want.port, probe);

		for (unsigned i = 0; i < FT_WAYS; i++) {
			struct claim c;

			if (!read_claim(t, b * FT_WAYS + i, &c) || !(c.word & FT_LISTENS) ||
			    urxe_ft_domain(t, FT_SLOT(c.word)) != domain)
				continue;
			if (overlap(&want, &c))
				return FT_SLOT(c.word);
			/* What was sent to 127.0.0.1 arrives at another own address. */
			if (c.port == want.port && !((c.word ^ want.word) & FT_V4) && loopback(&c))
				second = FT_SLOT(c.word);
		}
		if (!goes_on(t, b))
			break;
	}
	return second;
}
