/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How the service thread pauses: its state machine against a clock of the test's.
 */
#include "harness.h"
#include "pause.h"

#define US    1000ull
#define BOUND (100 * US)

struct rig {
	struct urxe_pause p;
	uint64_t now, polls;
	bool partway;	       /* the rest of a message is to come */
	bool written;	       /* a peer has changed memory */
	bool at_it;	       /* a caller polled until we came */
	bool aside;	       /* callers are not let run */
	uint64_t late;	       /* we wake up so much too late */
	uint64_t yields, away; /* of theirs */
	bool yielding;	       /* one is in one */
	uint64_t spun;	       /* looked without a pause for so long */
	unsigned naps, sleeps; /* that a frame did not, or would have ended */
};

static void begin(struct rig *r, uint64_t bound, bool prompt)
{
	*r = (struct rig){.now = 5000 * US};
	urxe_pause_init(&r->p, bound, prompt, false, false);
}

static uint64_t look(struct rig *r, int n, bool nudged)
{
	struct urxe_pause_look l = {
		.now = r->now,
		.n = n,
		.polls = r->polls,
		.ran = r->aside ? 0 : r->now - r->p.looked,
		.yields = r->yields,
		.away = r->away,
		.yielding = r->yielding,
		.nudged = nudged,
		.partway = r->partway,
		.written = r->written,
		.at_it = r->at_it,
	};

	return urxe_pause_next(&r->p, &l);
}

/* Nothing, until @until: a frame comes then, and ends a sleep. */
static void nothing(struct rig *r, uint64_t until)
{
	while (r->now < until) {
		uint64_t ns = look(r, 0, false), slept = ns;

		if (!ns) {
			r->spun += US;
			r->now += US;
			continue;
		}
		if (r->p.wanted)
			r->sleeps++;
		else
			r->naps++;
		if (r->p.wanted && slept > until - r->now)
			slept = until - r->now;
		urxe_pause_ended(&r->p, ns, slept, r->p.wanted);
		r->now += slept;
	}
}

/* @n times a frame, @gap after the one before. */
static void frames(struct rig *r, unsigned n, uint64_t gap)
{
	while (n--) {
		nothing(r, r->now + gap);
		CU_ASSERT_EQUAL(look(r, 1, false), 0);
	}
}

static void forget(struct rig *r)
{
	r->spun = 0;
	r->naps = r->sleeps = 0;
}

static void spins_while_it_pays(void)
{
	struct rig r;

	begin(&r, BOUND, true);
	frames(&r, 8, 10 * US);
	forget(&r);
	frames(&r, 100, 10 * US);
	CU_ASSERT_EQUAL(r.naps + r.sleeps, 0);
	/* Then silence: for less than the bound, and no more. */
	forget(&r);
	nothing(&r, r.now + 1000 * US);
	CU_ASSERT(r.spun > 10 * US && r.spun <= BOUND);
	CU_ASSERT_EQUAL(r.sleeps, 1);
}

static void rare_frames_are_slept_for(void)
{
	struct rig r;

	begin(&r, BOUND, true);
	frames(&r, 8, 1000 * US);
	forget(&r);
	frames(&r, 100, 1000 * US);
	CU_ASSERT_EQUAL(r.spun, 0);
	CU_ASSERT_EQUAL(r.sleeps, 100);
	/* A request and its ACK, every millisecond. */
	for (unsigned i = 0; i < 8; i++) {
		frames(&r, 1, 980 * US);
		frames(&r, 1, 20 * US);
	}
	forget(&r);
	for (unsigned i = 0; i < 100; i++) {
		frames(&r, 1, 980 * US);
		frames(&r, 1, 20 * US);
	}
	CU_ASSERT(r.spun < 2000 * US);
}

/* Whoever asks, gets the answer soon, and asks again in a millisecond: the waits between count. */
static void wishes_after_silence(void)
{
	struct rig r;

	begin(&r, BOUND, true);
	for (unsigned i = 0; i < 100; i++) {
		if (i == 10)
			forget(&r);
		nothing(&r, r.now + 980 * US);
		CU_ASSERT_EQUAL(look(&r, 0, true), 0);
		frames(&r, 1, 20 * US);
	}
	CU_ASSERT(r.spun < 90 * 50 * US);
}

static void not_at_all(void)
{
	struct rig r;

	begin(&r, 0, true);
	frames(&r, 100, 10 * US);
	CU_ASSERT_EQUAL(r.spun, 0);
	begin(&r, BOUND, true);
	r.p.one_cpu = true;
	frames(&r, 100, 10 * US);
	CU_ASSERT_EQUAL(r.spun, 0);
	/* It pays where no frame would wake it at once, but in an emulated machine. */
	begin(&r, BOUND, false);
	r.p.one_cpu = true;
	frames(&r, 100, 10 * US);
	CU_ASSERT(r.spun > 0);
	begin(&r, BOUND, false);
	r.p.one_cpu = r.p.emulated = true;
	frames(&r, 100, 10 * US);
	CU_ASSERT_EQUAL(r.spun, 0);
}

/* Of a processor that others have, too. */
static void crowded(void)
{
	struct rig r;

	begin(&r, BOUND, true);
	frames(&r, 8, 10 * US);
	for (uint64_t ms = 20; ms <= 160; ms *= 2) {
		urxe_pause_gave_way(&r.p, r.now, r.now + 4000 * US);
		r.now += 4000 * US;
		CU_ASSERT_EQUAL(r.p.crowded, r.now + ms * 1000 * US);
		forget(&r);
		while (r.now + 100 * US < r.p.crowded)
			frames(&r, 1, 10 * US);
		CU_ASSERT_EQUAL(r.spun, 0);
		r.now += 100 * US;
		frames(&r, 10, 10 * US);
		CU_ASSERT(r.spun > 0);
	}
	/* Alone for long: it begins as before. */
	urxe_pause_gave_way(&r.p, r.now, r.now + 1 * US);
	r.now += 2000000 * US;
	urxe_pause_gave_way(&r.p, r.now, r.now + 1 * US);
	urxe_pause_gave_way(&r.p, r.now, r.now + 4000 * US);
	CU_ASSERT_EQUAL(r.p.crowded, r.now + 24000 * US);
}

/* Callers poll, and the thread looks after them; @n: what it finds. */
static uint64_t driven(struct rig *r, int n)
{
	uint64_t ns;

	r->polls += 100;
	ns = look(r, n, false);
	if (ns) {
		CU_ASSERT_FALSE(r->p.wanted);
		urxe_pause_ended(&r->p, ns, ns + r->late, false);
		r->now += r->late;
	}
	r->now += ns;
	return ns;
}

static void stays_out_of_the_way(void)
{
	struct rig r;
	uint64_t ns = 0;

	begin(&r, BOUND, true);
	for (unsigned i = 0; i < 10; i++)
		ns = driven(&r, i % 2 ? 0 : -1);
	CU_ASSERT_EQUAL(ns, 1000 * US);
	/* Frames wait, and after a nap they are found at work: all is well. */
	CU_ASSERT_EQUAL(driven(&r, 3), 20 * US);
	CU_ASSERT(driven(&r, 3) >= 50 * US);
	/* They have been let run for little: they have had no time for frames, nor to stop. */
	for (ns = 0; ns < 1000 * US;)
		ns = driven(&r, 0);
	r.aside = true;
	CU_ASSERT_EQUAL(driven(&r, 3), 1000 * US);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_POLL);
}

/* @n frames are found, and no poll has come. */
static uint64_t no_poll(struct rig *r, int n)
{
	uint64_t ns = look(r, n, false);

	urxe_pause_ended(&r->p, ns, ns, r->p.wanted);
	r->now += ns;
	return ns;
}

/* Among others that poll as well: no look of ours makes it faster, until that is all too long. */
static void callers_wait_for_a_processor(void)
{
	struct rig r;
	uint64_t since;

	begin(&r, BOUND, true);
	for (unsigned i = 0; i < 10; i++)
		driven(&r, 0);
	since = r.now - 1000 * US;
	r.aside = true;
	while (r.now - since < 10000 * US) {
		CU_ASSERT(no_poll(&r, 5) >= 1000 * US);
		CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_ASIDE);
		CU_ASSERT_FALSE(r.p.wanted);
	}
	CU_ASSERT_EQUAL(look(&r, 5, false), 0);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_NONE);
	/* Back again. */
	CU_ASSERT(driven(&r, 0) > 0);
	CU_ASSERT(no_poll(&r, 0) >= 50 * US);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_ASIDE);
	/* Who sleeps for an event, and who waits for the CM, wants a look at once. */
	r.polls++;
	CU_ASSERT_EQUAL(look(&r, 0, true), 0);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_NONE);
	r.now += 10 * US;
	look(&r, 0, false);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_NONE);
}

/* They poll, yield, and poll again after @round, of which they were away for @away. */
static uint64_t with_yields(struct rig *r, int n, uint64_t round, uint64_t away)
{
	uint64_t times = (r->now - r->p.looked) / round;

	r->yields += times;
	r->away += times * away;
	r->yielding = r->aside = away > round / 2;
	r->polls += times * 10;
	return no_poll(r, n);
}

/* Of many callers that poll: a look puts one of them aside, and is worth less than a round. */
static void callers_in_a_crowd(void)
{
	struct rig r;
	uint64_t since;

	begin(&r, BOUND, true);
	driven(&r, 0);
	for (unsigned i = 0; i < 10; i++)
		with_yields(&r, 3, 1600 * US, 1500 * US);
	/* Frames wait for them, not for us. */
	CU_ASSERT(with_yields(&r, 3, 1600 * US, 1500 * US) >= 8 * 1600 * US);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_POLL);
	CU_ASSERT(urxe_pause_patience(&r.p) >= 8 * 1600 * US);
	/* However long a round is, that is not for ever. */
	for (unsigned i = 0; i < 10; i++)
		with_yields(&r, 0, 20000 * US, 19000 * US);
	CU_ASSERT_EQUAL(with_yields(&r, 0, 20000 * US, 19000 * US), 32000 * US);
	/* One that is in a yield will be back: it has not stopped, unless it takes too long. */
	since = r.p.looked;
	while (no_poll(&r, 5))
		CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_ASIDE);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_NONE);
	CU_ASSERT(r.now - since >= 42000 * US);
	CU_ASSERT_EQUAL(urxe_pause_patience(&r.p), 0);
	/* Who runs, and does not poll, has stopped: as soon as we look. */
	begin(&r, BOUND, true);
	driven(&r, 0);
	for (unsigned i = 0; i < 10; i++)
		with_yields(&r, 0, 1600 * US, 1500 * US);
	r.yielding = r.aside = false;
	CU_ASSERT_EQUAL(no_poll(&r, 5), 0);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_NONE);
	CU_ASSERT_EQUAL(urxe_pause_patience(&r.p), 0);
}

/* Who lets others in, that do the same, does so sooner; who is alone, or beside one that works,
 * later. */
static void lets_in(void)
{
	static const struct {
		uint64_t away;
		unsigned polls;
	} t[] = {{0, 32}, {1 * US, 32}, {3 * US, 4}, {200 * US, 4}, {400 * US, 4}, {1400 * US, 32}};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		CU_ASSERT_EQUAL(urxe_pause_yield_after(t[i].away, false), t[i].polls);
		CU_ASSERT_EQUAL(urxe_pause_yield_after(t[i].away, true), 1);
	}
}

/* Who polls now and then, and is back from a yield at once, is in none. */
static void callers_alone(void)
{
	struct rig r;

	begin(&r, BOUND, true);
	driven(&r, 0);
	for (unsigned i = 0; i < 10; i++) {
		r.polls++;
		CU_ASSERT(with_yields(&r, 0, 400 * US, US) <= 1000 * US);
		CU_ASSERT_EQUAL(urxe_pause_patience(&r.p), 0);
	}
}

/*
 * On one processor that a program plays they are left alone for long, and so are their timers. Who
 * polled all the time is not doubted; who polled little is, and who has stopped is found out.
 */
static void callers_on_an_emulated_processor(void)
{
	struct rig r;

	begin(&r, BOUND, true);
	r.p.one_cpu = r.p.emulated = true;
	for (unsigned i = 0; i < 20; i++) {
		r.now += 4000 * US;
		r.polls += 16;
		CU_ASSERT(look(&r, i % 3, false) <= 16000 * US);
		CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_POLL);
		CU_ASSERT_EQUAL(urxe_pause_patience(&r.p), 16000 * US);
	}
	r.now += 4000 * US;
	r.polls += 16;
	CU_ASSERT_EQUAL(look(&r, 0, false), 16000 * US);
	r.now += 16000 * US;
	r.polls += 15;
	CU_ASSERT_EQUAL(look(&r, 1, false), 20 * US);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_DOUBT);
	r.now += 4000 * US;
	look(&r, 1, false);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_NONE);
	CU_ASSERT_EQUAL(urxe_pause_patience(&r.p), 0);
	/* As are those whose processor it really is. */
	begin(&r, BOUND, true);
	r.p.one_cpu = true;
	for (unsigned i = 0; i < 20; i++) {
		r.now += 4000 * US;
		r.polls += 100;
		CU_ASSERT(look(&r, 0, false) <= 4000 * US);
		CU_ASSERT_EQUAL(urxe_pause_patience(&r.p), 0);
	}
	r.now += 4000 * US;
	r.polls += 100;
	look(&r, 1, false);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_DOUBT);
}

/* They run, without a poll, and frames wait: they have stopped. */
static void stop_once(struct rig *r)
{
	CU_ASSERT_EQUAL(driven(r, 64), 20 * US);
	CU_ASSERT_EQUAL(no_poll(r, 64), 20 * US);
	CU_ASSERT_EQUAL(no_poll(r, 64), 20 * US);
	CU_ASSERT_EQUAL(r->p.callers, URXE_CALLERS_DOUBT);
	CU_ASSERT_EQUAL(no_poll(r, 64), 0);
	CU_ASSERT_EQUAL(r->p.callers, URXE_CALLERS_NONE);
	driven(r, 0);
}

/* They poll, and then stop so often that it is known of them. */
static void come_to_stop(struct rig *r)
{
	for (unsigned i = 0; i < 10; i++)
		driven(r, 0);
	for (unsigned i = 0; i < 3; i++)
		stop_once(r);
}

/* They have stopped, and watch memory. */
static void lapses(void)
{
	struct rig r;
	unsigned pauses = 0;

	begin(&r, BOUND, true);
	for (unsigned i = 0; i < 10; i++)
		driven(&r, 0);
	/* That may be by chance, now and then. */
	for (unsigned i = 0; i < 10; i++) {
		stop_once(&r);
		r.now += 21000 * US;
		r.p.looked = r.now;
	}
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_USUAL);
	r.now += 21000 * US;
	driven(&r, 0);
	for (unsigned i = 0; i < 3; i++)
		stop_once(&r);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_SHORT);
	/* From now on more often. */
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT(driven(&r, 0) <= 62500);
	/* And at once, for a while. */
	CU_ASSERT_EQUAL(driven(&r, 64), 0);
	/* But what came while we took the processor of one that polls is its own. */
	driven(&r, 0);
	r.at_it = true;
	CU_ASSERT(driven(&r, 64) > 0);
	r.at_it = false;
	for (unsigned i = 0; i < 16; i++)
		driven(&r, 0);
	CU_ASSERT_EQUAL(driven(&r, 64), 20 * US);
	/* Until it has not happened for longer. */
	while (driven(&r, 0) < 1000 * US && ++pauses < 1000)
		;
	CU_ASSERT(pauses > 20 && pauses < 60);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_SHORT);
}

/* Where a switch takes long there are fewer looks, and never fewer than where nobody stops. */
static void looks_that_cost(void)
{
	static const struct {
		uint64_t late, least, most;
	} steps[] = {{0, 50 * US, 62500},
		     {5 * US, 50 * US, 62500},
		     {40 * US, 100 * US, 200 * US},
		     {62 * US, 150 * US, 320 * US},
		     {100000 * US, 300 * US, 999 * US},
		     {0, 50 * US, 62500}};
	struct rig r;
	uint64_t ns;

	begin(&r, BOUND, true);
	r.late = 40 * US;
	for (unsigned k = 0; k < 10; k++)
		driven(&r, 0);
	r.late = 0;
	/* Not before they are known to stop. */
	CU_ASSERT_EQUAL(look(&r, 0, true), 0);
	CU_ASSERT_EQUAL(driven(&r, 0), 50 * US);
	come_to_stop(&r);
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		r.late = steps[i].late;
		for (unsigned k = 0; k < 40; k++)
			driven(&r, 0);
		r.late = 0;
		stop_once(&r);
		r.late = steps[i].late;
		for (unsigned k = 0; k < 10; k++) {
			ns = driven(&r, 0);
			CU_ASSERT(ns >= steps[i].least && ns <= steps[i].most);
		}
		for (unsigned k = 0; k < 100; k++)
			CU_ASSERT(driven(&r, 0) <= 1000 * US);
		CU_ASSERT_EQUAL(driven(&r, 0), 1000 * US);
	}
}

/* They poll until we come, and frames come while we do: they have not stopped. */
static void put_aside_for_us(void)
{
	struct rig r;

	begin(&r, BOUND, true);
	for (unsigned i = 0; i < 10; i++)
		driven(&r, 0);
	r.at_it = true;
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT(driven(&r, 64) > 20 * US);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_POLL);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_USUAL);
}

/* It hands over, and polls on. */
static void polls_on(struct rig *r)
{
	CU_ASSERT_EQUAL(look(r, 0, true), 0);
	driven(r, 0);
}

/* Who is known to stop hands over; it is known till it has polled on nearly each time, for long. */
static void hand_overs(void)
{
	struct rig r;

	begin(&r, BOUND, true);
	come_to_stop(&r);
	for (unsigned n = 63; n >= 32; n -= 31) {
		for (unsigned k = 0; k < n; k++)
			polls_on(&r);
		CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_SHORT);
		/* This one was right. */
		CU_ASSERT_EQUAL(look(&r, 0, true), 0);
		r.written = true;
		CU_ASSERT_EQUAL(look(&r, 64, false), 0);
		r.written = false;
		driven(&r, 0);
	}
	for (unsigned k = 0; k < 33; k++) {
		CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_SHORT);
		polls_on(&r);
	}
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_USUAL);
}

/* Until it polls it had no processor, as we received its ACKs: these wake nobody who watches. */
static void hand_overs_for_acks(void)
{
	struct rig r;

	begin(&r, BOUND, true);
	come_to_stop(&r);
	for (unsigned k = 0; k < 64; k++) {
		CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_SHORT);
		CU_ASSERT_EQUAL(look(&r, 0, true), 0);
		CU_ASSERT_EQUAL(look(&r, 64, false), 0);
		/* It has polled, and perhaps got a completion again. */
		r.polls++;
	}
	look(&r, 0, true);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_USUAL);
}

/* Or has polled for seconds. */
static void forgotten(void)
{
	unsigned pauses = 0;
	struct rig r;

	begin(&r, BOUND, true);
	come_to_stop(&r);
	while (urxe_pause_policy(&r.p) == URXE_PAUSE_SHORT && ++pauses < 5000)
		driven(&r, 0);
	CU_ASSERT(pauses > 2000 && pauses < 2200);
}

/* Who watches memory for the end of a message has no use for the processor before. */
static void partway(void)
{
	struct rig r;

	begin(&r, 0, true);
	r.partway = true;
	frames(&r, 1, 10 * US);
	nothing(&r, r.now + 10 * US);
	CU_ASSERT_EQUAL(r.spun, 0);
	come_to_stop(&r);
	CU_ASSERT_EQUAL(look(&r, 64, false), 0);
	CU_ASSERT_EQUAL(look(&r, 64, false), 0);
	CU_ASSERT_EQUAL(r.p.callers, URXE_CALLERS_NONE);
	forget(&r);
	nothing(&r, r.now + 40 * US);
	CU_ASSERT_EQUAL(r.naps + r.sleeps, 0);
	CU_ASSERT_FALSE(r.p.yield);
	/* Its sender does not get on. */
	nothing(&r, r.now + 100 * US);
	CU_ASSERT(r.spun >= 50 * US && r.spun <= 52 * US);
	CU_ASSERT_EQUAL(r.sleeps, 1);
	/* The message has come: it is for who watches to go on. */
	r.partway = false;
	CU_ASSERT_EQUAL(look(&r, 1, false), 0);
	forget(&r);
	nothing(&r, r.now + 100 * US);
	CU_ASSERT_EQUAL(r.spun, 0);
}

static void without_interrupts(void)
{
	struct rig r;
	uint64_t ns;

	/* It can have some, which cost the sender: after 200 us. */
	begin(&r, BOUND, false);
	frames(&r, 8, 10 * US);
	r.p.crowded = r.now + 20000 * US;
	forget(&r);
	nothing(&r, r.now + 1000 * US);
	CU_ASSERT_EQUAL(r.naps, 10);
	CU_ASSERT_EQUAL(r.sleeps, 1);
	/* It has none. */
	begin(&r, 0, false);
	frames(&r, 1, 10 * US);
	r.now += 300 * US;
	ns = look(&r, 0, false);
	CU_ASSERT_TRUE(r.p.wanted);
	CU_ASSERT_FALSE(urxe_pause_alert(&r.p));
	urxe_pause_ended(&r.p, ns, 4000 * US, false);
	for (uint64_t want = 50 * US; want <= 3200 * US; want *= 2) {
		CU_ASSERT_EQUAL(look(&r, 0, false), want);
		CU_ASSERT_FALSE(r.p.wanted);
		urxe_pause_ended(&r.p, want, want, false);
	}
	CU_ASSERT_EQUAL(look(&r, 0, false), URXE_SLEEP_MAX_NS);
	/* It has, by now. */
	urxe_pause_ended(&r.p, URXE_SLEEP_MAX_NS, 100 * US, true);
	look(&r, 0, false);
	CU_ASSERT_TRUE(r.p.wanted);
}

/* Frames of who shares our processor wake us one by one: they are let gather. */
static void gathers(void)
{
	struct rig r;

	begin(&r, 0, true);
	frames(&r, 9, 2 * US);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_BATCH);
	frames(&r, 6, 2 * US);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_BATCH);
	/* They do not gather: that ends, and is tried after a longer time. */
	frames(&r, 2, 2 * US);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_USUAL);
	frames(&r, 60, 2 * US);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_USUAL);
	frames(&r, 16, 2 * US);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_BATCH);
	/* Each ends the sleep all the same. */
	CU_ASSERT_EQUAL(r.naps, 0);
	/* Many at once: it stays. */
	begin(&r, 0, true);
	frames(&r, 9, 2 * US);
	for (unsigned i = 0; i < 100; i++) {
		look(&r, 50, false);
		nothing(&r, r.now + 20 * US);
		CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_BATCH);
	}
	/* Who watches memory does not wait for that. */
	come_to_stop(&r);
	CU_ASSERT_EQUAL(urxe_pause_policy(&r.p), URXE_PAUSE_SHORT);
}

/* Quiet, and a pause that a frame is to end: of how many ns? */
static uint64_t asleep(struct rig *r)
{
	uint64_t ns;

	while (!(ns = look(r, 0, false)) || !r->p.wanted) {
		r->naps += ns != 0;
		/* One of that length arms it, too. */
		urxe_pause_ended(&r->p, ns, ns, ns >= URXE_SLEEP_MAX_NS);
		r->now += ns ? ns : US;
	}
	return ns;
}

/* It slept on, and then a frame is there. */
static void miss(struct rig *r)
{
	uint64_t ns = asleep(r);

	urxe_pause_ended(&r->p, ns, ns + 50 * US, true);
	r->now += ns;
	look(r, 1, false);
}

static void interrupts_that_do_not_come(void)
{
	struct rig r;

	begin(&r, BOUND, false);
	/* Once may be by chance. */
	miss(&r);
	CU_ASSERT_EQUAL(asleep(&r), URXE_SLEEP_TRY_NS);
	urxe_pause_ended(&r.p, URXE_SLEEP_TRY_NS, 1000 * US, true);
	look(&r, 1, false);
	CU_ASSERT_EQUAL(asleep(&r), URXE_SLEEP_INTR_NS);
	CU_ASSERT_TRUE(urxe_pause_alert(&r.p));
	/* It came late, as did we. */
	for (unsigned i = 0; i < 9; i++) {
		urxe_pause_ended(&r.p, URXE_SLEEP_INTR_NS, URXE_SLEEP_INTR_NS + 1000 * US, true);
		look(&r, 1, false);
		CU_ASSERT_EQUAL(asleep(&r), URXE_SLEEP_INTR_NS);
	}
	/* A timer made the pause short. */
	for (unsigned i = 0; i < 9; i++) {
		urxe_pause_ended(&r.p, 150 * US, 220 * US, true);
		look(&r, 1, false);
		CU_ASSERT_EQUAL(asleep(&r), URXE_SLEEP_INTR_NS);
	}
	/* Twice is not: for a while it looks itself, and then tries again. */
	for (uint64_t sec = 4; sec < 32; sec *= 2) {
		uint64_t from;

		miss(&r);
		miss(&r);
		from = r.now;
		forget(&r);
		CU_ASSERT_EQUAL(asleep(&r), URXE_SLEEP_TRY_NS);
		CU_ASSERT(r.naps >= 250 * sec);
		CU_ASSERT(r.now >= from + 1000000 * US * sec);
	}
}

static void nudges(void)
{
	struct rig r;

	/* What was left to do may have come after the turn. */
	begin(&r, 0, true);
	r.polls++;
	CU_ASSERT_EQUAL(look(&r, -1, true), 0);
	CU_ASSERT_FALSE(r.p.yield);
}

/*
 * Who polls in vain for longer than a frame takes sleeps, until one has come; who exchanges
 * messages one by one, for longer than an answer takes.
 */
static void in_vain(void)
{
	static const struct {
		unsigned packets, waits;
		bool few;
	} steps[] = {{4, 1, true}, {80, 20, false}, {4, 40, true}, {300, 0, true},
		     {4, 9, true}, {14, 40, false}, {11, 40, true}};
	struct urxe_pause_caller c = {0};
	uint64_t now = 0, packets = 0, most;

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		for (unsigned j = 0; j < steps[i].waits; j++) {
			now += 7000 * US;
			packets += steps[i].packets;
			CU_ASSERT_FALSE(urxe_pause_in_vain(&c, now, packets));
			urxe_pause_not_in_vain(&c);
		}
		most = steps[i].few ? 20000 * US : 200 * US;
		now += 7000 * US;
		packets += steps[i].packets;
		CU_ASSERT_FALSE(urxe_pause_in_vain(&c, now, packets));
		/* What is sent while it waits ends no wait. */
		CU_ASSERT_FALSE(urxe_pause_in_vain(&c, now + most - US, packets + 90));
		CU_ASSERT(urxe_pause_in_vain(&c, now + most + US, packets + 90));
		CU_ASSERT(urxe_pause_in_vain(&c, now + 30000 * US, packets));
		urxe_pause_not_in_vain(&c);
	}
}

URXE_TEST_MAIN("pause", T(spins_while_it_pays), T(rare_frames_are_slept_for),
	       T(wishes_after_silence), T(not_at_all), T(crowded), T(stays_out_of_the_way),
	       T(callers_wait_for_a_processor), T(callers_in_a_crowd), T(callers_alone),
	       T(callers_on_an_emulated_processor), T(lapses), T(looks_that_cost),
	       T(put_aside_for_us), T(hand_overs), T(hand_overs_for_acks), T(forgotten), T(partway),
	       T(without_interrupts), T(interrupts_that_do_not_come), T(gathers), T(nudges),
	       T(in_vain), T(lets_in), {NULL, NULL})
