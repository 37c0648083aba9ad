/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Fault injection: RoCEv2 frames are dropped, doubled, overtaken by later ones, or get a
 * bit flipped, each at its rate, from a seeded generator per lane and direction. The
 * stack's own protocols are spared: it is the transport that is to be tested. With the key
 * `fault-every` they happen at times.
 */
#include "netio/stack.h"
#include "netio/trace.h"

#define HOLD_MAX_FRAMES 4
#define HOLD_MAX_TIME	URXE_MSEC

static uint64_t rate(double r)
{
	if (!(r > 0))
		return 0;
	return r >= 1 ? 1ull << 32 : (uint64_t)(r * 4294967296.0);
}

double urxe_config_fault(const struct urxe_port_config *cfg, bool tx, enum urxe_fault what)
{
	const struct urxe_fault_rate *of = cfg->fault[what];
	const struct urxe_fault_rate *one = &of[tx ? URXE_FAULT_TX : URXE_FAULT_RX];

	return one->given ? one->rate : of[URXE_FAULT_BOTH].rate;
}

#define LOOK_AHEAD 256

/* What happens to one frame, a bit each. Always one draw for each, so that a run stays comparable
 * when one rate changes. */
static unsigned draw(struct urxe_fault_dir *d)
{
	unsigned hits = 0;

	for (unsigned i = 0; i < URXE_NUM_FAULTS; i++)
		hits |= (unsigned)(urxe_random_step(&d->prng) >> 32 < d->rate[i]) << i;
	return hits;
}

/*
 * How many frames pass, and what happens to the one behind them: frames that nothing happens to,
 * which are most, are to take no time, or a benchmark with faults would measure this.
 */
static void look_ahead(struct urxe_fault_dir *d)
{
	for (d->spared = 0; d->spared < LOOK_AHEAD; d->spared++) {
		d->hits = draw(d);
		if (d->hits)
			return;
	}
	d->spared--; /* the last one that passes is behind the others */
}

/* Returns whether anything can happen in this direction. */
static bool dir_init(struct urxe_fault_dir *d, const struct urxe_port_config *cfg, bool tx,
		     uint64_t seed, enum urxe_counter base)
{
	bool on = false;

	d->prng = seed;
	urxe_random_step(&d->prng);
	d->base = base;
	for (unsigned i = 0; i < URXE_NUM_FAULTS; i++) {
		d->rate[i] = rate(urxe_config_fault(cfg, tx, (enum urxe_fault)i));
		on |= d->rate[i] != 0;
	}
	if (on)
		look_ahead(d);
	return on;
}

void urxe_fault_init(struct urxe_lane *lane)
{
	const struct urxe_port_config *cfg = &lane->port->cfg;
	struct urxe_faults *x = &lane->faults;
	uint64_t seed = cfg->seed ? cfg->seed : urxe_port_random(lane->port);
	bool tx, rx;

	seed += lane->index * 0x10001ull;
	tx = dir_init(&x->tx, cfg, true, seed, URXE_CNT_fault_tx_drop);
	rx = dir_init(&x->rx, cfg, false, ~seed, URXE_CNT_fault_rx_drop);
	x->on = tx || rx;
}

static void corrupt(struct urxe_fault_dir *d, const struct urxe_frame *f, uint32_t bth)
{
	uint64_t r = urxe_random_step(&d->prng);
	uint32_t at = bth + (uint32_t)(r >> 8) % (f->len - bth);

	/* A flip in BTH byte 4, which the ICRC does not cover, would be no fault. */
	if (at == bth + 4)
		at++;
	f->data[at] ^= (uint8_t)(1u << (r & 7));
}

/* The counters of a direction stand in the order of enum urxe_fault. */
static void count(struct urxe_lane *lane, struct urxe_fault_dir *d, enum urxe_fault what,
		  const uint8_t *bth) URXE_REQUIRES(lane)
{
	enum urxe_counter c = (enum urxe_counter)(d->base + what);

	urxe_count(lane, c, 1);
	urxe_trace_fault(c, bth);
}

/*
 * Who sleeps does not know of this timer. Beside callers that poll, and see to it, it looks soon
 * enough by itself: to wake it for each frame would take a processor from those who are tested.
 */
static void hold(struct urxe_lane *lane, struct urxe_fault_dir *d, const struct urxe_frame *f)
{
	uint64_t now = urxe_port_now(lane->port);

	d->held = *f;
	d->holding = true;
	d->countdown = 1 + (unsigned)(urxe_random_step(&d->prng) >> 32) % HOLD_MAX_FRAMES;
	d->deadline = now + HOLD_MAX_TIME;
	if (d->deadline >= atomic_load_explicit(&lane->tick, memory_order_relaxed))
		return;
	atomic_store(&lane->tick, d->deadline);
	urxe_port_wake_by(lane->port, d->deadline);
}

/* A frame that is not spared: does it pass? Before it go @n copies. */
static bool passes(struct urxe_lane *lane, struct urxe_fault_dir *d, const struct urxe_frame *f,
		   uint32_t bth, struct urxe_frame *copy, unsigned *n) URXE_REQUIRES(lane)
{
	if (d->hits & 1u << URXE_FAULT_DROP) {
		struct urxe_frame gone = *f;

		count(lane, d, URXE_FAULT_DROP, f->data + bth);
		urxe_frame_free(lane, &gone);
		return false;
	}
	if (d->hits & 1u << URXE_FAULT_DUP && urxe_frame_copy(lane, copy, f)) {
		count(lane, d, URXE_FAULT_DUP, f->data + bth);
		++*n;
	}
	if (d->hits & 1u << URXE_FAULT_CORRUPT) {
		count(lane, d, URXE_FAULT_CORRUPT, f->data + bth);
		corrupt(d, f, bth);
	}
	if (d->hits & 1u << URXE_FAULT_REORDER && !d->holding) {
		count(lane, d, URXE_FAULT_REORDER, f->data + bth);
		hold(lane, d, f);
		return false;
	}
	return true;
}

/*
 * Is it the time for them? What faults cost is seen in one run, where the times without stand
 * between those with: whatever else the machine does meets both alike.
 */
static bool in_season(const struct urxe_lane *lane)
{
	uint64_t every = lane->port->cfg.fault_every * (uint64_t)URXE_MSEC;

	return !every || urxe_port_now(lane->port) / every % 2;
}

unsigned urxe_fault_apply(struct urxe_lane *lane, struct urxe_fault_dir *d,
			  const struct urxe_frame *f, struct urxe_frame out[FAULT_OUT])
{
	uint32_t bth;
	unsigned n = 0;

	/* Its bytes are in another processor's cache still: only where something may happen to it
	 * are they looked at. */
	if (d->spared) {
		d->spared--;
	} else if ((bth = urxe_frame_roce(f))) {
		bool pass = !in_season(lane) || passes(lane, d, f, bth, out, &n);

		look_ahead(d);
		if (!pass)
			return n;
	}
	out[n++] = *f;
	if (d->holding && !--d->countdown) {
		out[n++] = d->held;
		d->holding = false;
	}
	return n;
}

bool urxe_fault_due(struct urxe_fault_dir *d, uint64_t now, struct urxe_frame *out)
{
	if (!d->holding || now < d->deadline)
		return false;
	d->holding = false;
	*out = d->held;
	return true;
}
