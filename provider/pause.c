/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Whether the service thread looks again at once, naps, or sleeps until a frame wakes it.
 *
 * To look without a pause (to spin) is quick, and costs a processor. It pays where the next frame
 * comes soon. That is measured: the time from a frame, or from a caller's wish for one, to the
 * next, smoothed. While that is less than the bound, the thread spins for a few times as long, and
 * otherwise not at all. A time without any frame counts once, as a multiple of the bound: after it
 * only frames that come quickly, one after the other, make it spin again.
 *
 * Callers that poll have the work; the thread looks after them now and then. They may stop after
 * any poll, and wait for memory to change: who is found to have stopped, with frames waiting, is
 * looked after more often. Who only waits for a processor, among others that poll, will be back: it
 * tells when it lets them in, and is looked after once in some of its rounds.
 *
 * Who watches memory for the end of a message does nothing before that end, and may spin on our
 * processor. To leave it between two packets is to wait until we are let in again: for as long as
 * we ran, or until the next tick. So we look on without a yield until the message is complete.
 */
#include "pause.h"

#define SPIN_FACTOR	   4	      /* times the smoothed gap */
#define SPIN_LEAST_NS	   10000ull   /* more than that */
#define GAP_CLAMP	   16	      /* times the bound: what a longer gap counts as */
#define BACKOFF_NS	   1000000ull /* while callers drive */
#define BACKOFF_LEAST_NS   62500ull
#define BACKOFF_LATES	   8 /* times as long as we wake up too late */
#define LATE_CLAMP	   (BACKOFF_NS / BACKOFF_LATES)
#define BACKOFF_QUIET	   16	/* pauses that met nobody's lapse, until they get longer */
#define PASSES_VAIN	   64	/* hand-overs of callers that polled on, more or less in a row: */
#define FORGET_QUIET	   2048 /* or so many such pauses: they are taken to stop no more */
#define SLEEP_MIN_NS	   50000ull
#define SPREAD_NS	   200000ull /* naps for so long after a frame; then a frame is to wake us */
#define CROWDED_NS	   300000ull   /* who yields and is away for so long is beside a spinner */
#define CROWDED_FOR	   20000000ull /* for that time, and each next time for twice that */
#define CROWDED_FOR_MOST   160000000ull
#define NAP_NS		   20000ull  /* the pause in a crowd */
#define QUICK_NS	   200000ull /* between two wake-ups: who waits longer has time for each */
#define GATHER_AFTER	   8	     /* quick wake-ups in a row for little */
#define GATHER_FEW	   4	     /* that is what little is */
#define GATHER_HOLDOFF	   64
#define GATHER_HOLDOFF_MAX 4096
#define SPUN		   8	    /* polls between two looks: a caller is at it all the time */
#define LAPSE_NS	   50000ull /* of a processor without a poll: they have stopped */
#define LAPSES		   3	    /* in LAPSES_NS: that is what they do */
#define PARTWAY_NS	   50000ull /* without a frame: its sender does not get on */
#define LAPSES_NS	   20000000ull
#define ROUNDS		   8		 /* of callers in a crowd, between two looks at them */
#define ROUNDS_MOST_NS	   32000000ull	 /* or that time */
#define AWAY_NS		   16000000ull	 /* where a look takes as long as a message */
#define POLLS_ON	   16		 /* polls from look to look: one after the other */
#define ASIDE_NS	   10000000ull	 /* who gets none for so long sleeps, rather than waits */
#define MISSES		   2		 /* frames that ended no pause, until we look ourselves */
#define UNSURE_NS	   4000000000ull /* for that time, and each next time for twice that */
#define UNSURE_MOST	   64000000000ull
#define ALONE_POLLS	   32	       /* in vain, until a caller lets others in */
#define SHARED_POLLS	   4	       /* with others on its processor that do the same */
#define SHARED_NS	   2000ull     /* a switch to another process and back takes longer */
#define SHARED_MOST_NS	   1000000ull  /* less than the time slice of who does not yield */
#define VAIN_NS		   200000ull   /* a frame would have come */
#define VAIN_FEW_NS	   20000000ull /* or the answer to one */
#define VAIN_FEW	   12	       /* packets from wait to wait: messages one by one */
#define VAIN_MANY	   48	       /* more count as so many */
#define LATE_NS		   200000ull   /* not more: who wakes up later is not asked */
#define LATE_PART	   32	       /* or by such a part of the pause */

/* ---- callers that let others in ---- */

/*
 * Where others have had the processor meanwhile and gave it back soon, they poll as well, and who
 * finds nothing may let them in at once: what it waits for is perhaps theirs to send. Who is away
 * for longer is beside one that works, or spins without a yield: each time costs it a time slice,
 * and it polls on for as long as it does where it is alone, a round trip or two.
 */
unsigned urxe_pause_yield_after(uint64_t away, bool one_cpu)
{
	if (one_cpu)
		return 1;
	return away >= SHARED_NS && away < SHARED_MOST_NS ? SHARED_POLLS : ALONE_POLLS;
}

/* ---- callers beside an emulated processor's cards ---- */

/*
 * The cards of a machine that a program plays are a thread of that program, beside those that are
 * its processors. Who spins keeps one of these running, and on a host that is busy the cards get no
 * turn till its time is up. Who sleeps stops the processor. A frame's way through such a card is
 * some 100 us where nobody is in its way, so that this costs nothing where there is room for all.
 *
 * Where little is under way it costs much: the card has its turn at once, since the scheduler
 * prefers who has slept, and two that exchange messages one by one make each other wait until they
 * are awake, and so sleep. They poll on for longer than an answer takes, several times as long:
 * the host may be slow for a while.
 */
bool urxe_pause_in_vain(struct urxe_pause_caller *c, uint64_t now, uint64_t packets)
{
	uint64_t since = atomic_load(&c->since), n;

	if (since)
		return since > 1 &&
		       now >= since + atomic_load_explicit(&c->most, memory_order_relaxed);
	if (!atomic_compare_exchange_strong(&c->since, &since, 1))
		return false;
	n = packets - c->packets;
	c->packets = packets;
	c->eighths = c->eighths - c->eighths / 8 + (unsigned)(n < VAIN_MANY ? n : VAIN_MANY);
	atomic_store_explicit(&c->most, c->eighths < VAIN_FEW * 8 ? VAIN_FEW_NS : VAIN_NS,
			      memory_order_relaxed);
	atomic_store(&c->since, now > 1 ? now : 2);
	return false;
}

void urxe_pause_init(struct urxe_pause *p, uint64_t spin_most, bool prompt, bool one_cpu,
		     bool emulated)
{
	*p = (struct urxe_pause){
		.spin_most = spin_most,
		.prompt = prompt,
		.one_cpu = one_cpu,
		.emulated = emulated,
		.sleep = SLEEP_MIN_NS,
		.driven_most = BACKOFF_NS,
		.crowded_for = CROWDED_FOR,
		.backoff = GATHER_HOLDOFF,
		.unsure_for = UNSURE_NS,
	};
}

/* ---- does spinning pay? ---- */

/*
 * Of one processor, too: who else wants it is let in by a yield, as is a peer on the same one. But
 * where a frame wakes us promptly that is as good, and leaves it to others; and in a machine that a
 * program plays those are kept from their work that bring us frames.
 */
static bool may_spin(const struct urxe_pause *p)
{
	return !p->one_cpu || (!p->emulated && !p->prompt);
}

static uint64_t spin_for(const struct urxe_pause *p)
{
	uint64_t ns = SPIN_FACTOR * p->gap + SPIN_LEAST_NS;

	if (p->gap > p->spin_most)
		return 0;
	return ns < p->spin_most ? ns : p->spin_most;
}

/* A frame, or a wish to have one. What callers fetch tells nothing of what we would have met. */
static void count_gap(struct urxe_pause *p, const struct urxe_pause_look *l)
{
	uint64_t gap = l->now - p->since, most = GAP_CLAMP * p->spin_most;

	if (gap > most)
		gap = most;
	/* A wish says nothing, but where it comes late: nothing had come till then. */
	if (l->n > 0 ? p->callers == URXE_CALLERS_NONE : gap > p->spin_most)
		p->gap = (3 * p->gap + gap) / 4;
	p->since = l->now;
}

/* ---- frames that gather ---- */

/*
 * Frames wake us one by one when their sender shares our processor: it is put aside for each, and
 * that costs more than the frame. A thread for batches puts nobody aside, and finds several when
 * its turn comes. When it does not, as each waits for the answer to the one before, that only costs
 * time, and is tried again rarely. Who watches memory would wait for as long as its time slice.
 */
static void gather_frames(struct urxe_pause *p)
{
	bool few = p->found < GATHER_FEW;

	p->found = 0;
	if (p->gather) {
		p->quick = few ? p->quick + 1 : 0;
		if (!few)
			p->backoff = GATHER_HOLDOFF;
		if (p->quick < GATHER_AFTER)
			return;
		p->gather = false;
		p->quick = 0;
		p->holdoff = p->backoff;
		if (p->backoff < GATHER_HOLDOFF_MAX)
			p->backoff *= 2;
	} else if (p->holdoff) {
		p->holdoff--;
	} else {
		p->quick = few && p->slept < QUICK_NS ? p->quick + 1 : 0;
		p->gather = p->quick >= GATHER_AFTER;
		if (p->gather)
			p->quick = 0;
	}
}

/* ---- callers that drive ---- */

/*
 * Each look takes a caller's processor from it, for two switches, and where one switch takes long
 * the next look comes later. How long is seen from when we wake up too late.
 */
static uint64_t dear_look(const struct urxe_pause *p)
{
	return BACKOFF_LATES * p->late;
}

/* They were said to drive, had stopped, and frames had been waiting. Once may be by chance. */
static void lapsed(struct urxe_pause *p, uint64_t now)
{
	if (now - p->lapsed > LAPSES_NS)
		p->lapses = 0;
	p->lapsed = now;
	if (++p->lapses < LAPSES && !p->may_lapse)
		return;
	p->may_lapse = true;
	p->driven_least = dear_look(p) > BACKOFF_LEAST_NS ? dear_look(p) : BACKOFF_LEAST_NS;
	p->driven_most = p->driven_least;
	p->driven_quiet = p->vain = 0;
}

/*
 * Who may stop, and has got a completion, hands over. That they polled on nearly each time tells
 * that they do not stop any more, and to be handed over to costs them as much as a look. It was
 * right if we received meanwhile what they may watch. To have got ACKs and the like tells nothing:
 * we may have put them aside for that, and the next look sees whether they poll.
 */
static void count_pass(struct urxe_pause *p, const struct urxe_pause_look *l)
{
	if (p->passed && l->driven) {
		p->passed = false;
		p->may_lapse = ++p->vain < PASSES_VAIN;
	} else if (p->passed && l->n > 0 && l->written) {
		p->passed = false;
		p->vain /= 2;
		if (p->driven_most >= BACKOFF_NS)
			p->driven_quiet = 0;
	}
	if (l->nudged)
		p->passed = p->may_lapse;
}

/* Who stopped a moment ago is not waited for. */
static bool waited_for(const struct urxe_pause *p)
{
	return !p->may_lapse || p->driven_most > p->driven_least ||
	       p->driven_quiet >= BACKOFF_QUIET / 2;
}

/*
 * Among many that poll, how long is it from one time that a caller is let run to the next? Where it
 * is alone, who yields is back at once.
 */
static void count_round(struct urxe_pause *p, const struct urxe_pause_look *l)
{
	uint64_t n = l->yields - p->yields, ns = l->now - p->looked;
	bool crowd = n ? l->away - p->away >= ns / 2 : l->yielding && l->polls == p->polls;

	p->round = crowd && ns >= LAPSE_NS ? ns / (n ? n : 1) : 0;
	p->yields = l->yields;
	p->away = l->away;
}

static uint64_t rounds(const struct urxe_pause *p)
{
	uint64_t ns = ROUNDS * p->round;

	return ns < ROUNDS_MOST_NS ? ns : ROUNDS_MOST_NS;
}

/*
 * Callers drove, and no poll has come since the last look. Who has not been let run will be back;
 * who has, with frames waiting, has something else to do.
 */
static enum urxe_pause_callers without_poll(struct urxe_pause *p, const struct urxe_pause_look *l)
{
	p->ran += l->ran;
	if (l->waits || !waited_for(p))
		return URXE_CALLERS_NONE;
	if (l->yielding && l->now - p->polled < ASIDE_NS + rounds(p))
		return URXE_CALLERS_ASIDE;
	if (p->ran >= LAPSE_NS) {
		if (l->n > 0)
			lapsed(p, l->now);
		return URXE_CALLERS_NONE;
	}
	if (l->now - p->polled >= ASIDE_NS)
		return URXE_CALLERS_NONE;
	return p->ran >= (l->now - p->polled) / 4 ? URXE_CALLERS_DOUBT : URXE_CALLERS_ASIDE;
}

/* Has the caller had little of a processor since the last look? Only while watched is that known.
 */
static bool put_aside(const struct urxe_pause *p, const struct urxe_pause_look *l)
{
	if (p->round)
		return true;
	return p->callers != URXE_CALLERS_NONE && l->ran < (l->now - p->looked) / 4;
}

/*
 * On one processor that a program plays, a look of ours (the timer, two switches, the turn, the
 * next timer) takes as long as a message does, and the machine's other threads have as much to do.
 */
static bool looks_are_dear(const struct urxe_pause *p)
{
	return p->one_cpu && p->emulated;
}

/*
 * They polled, and frames waited: have they stopped since? The next look tells. Where looks are
 * dear, who polled all the time is taken to go on: frames come while we take their processor.
 */
static bool in_doubt(const struct urxe_pause *p, const struct urxe_pause_look *l, uint64_t polled)
{
	if (l->n <= 0 || l->at_it || !waited_for(p) || put_aside(p, l))
		return false;
	return !looks_are_dear(p) || polled < POLLS_ON;
}

/* What callers do, now. @polled: since the last look. */
static enum urxe_pause_callers
look_at_callers(struct urxe_pause *p, const struct urxe_pause_look *l, bool paused, uint64_t polled)
{
	/* Who nudges us sleeps now, or leaves us something: it is not waited for. */
	if (l->nudged)
		return URXE_CALLERS_NONE;
	if (!l->driven)
		return p->callers == URXE_CALLERS_NONE ? p->callers : without_poll(p, l);
	p->ran = 0;
	p->polled = l->now;
	if (paused && in_doubt(p, l, polled))
		return URXE_CALLERS_DOUBT;
	return URXE_CALLERS_POLL;
}

/* A pause that is twice as long as the one before. */
static uint64_t longer(struct urxe_pause *p, uint64_t most)
{
	uint64_t ns = p->sleep < most ? p->sleep : most;

	p->sleep = ns * 2 > most ? most : ns * 2;
	return ns;
}

uint64_t urxe_pause_patience(const struct urxe_pause *p)
{
	if (p->callers == URXE_CALLERS_NONE)
		return 0;
	return looks_are_dear(p) && rounds(p) < AWAY_NS ? AWAY_NS : rounds(p);
}

/* While callers drive. In a crowd each look of ours would put one of them aside. */
static uint64_t driven_most(const struct urxe_pause *p)
{
	uint64_t ns =
		p->one_cpu || p->callers == URXE_CALLERS_ASIDE ? URXE_SLEEP_MAX_NS : p->driven_most;
	uint64_t patience = urxe_pause_patience(p);

	return ns > patience ? ns : patience;
}

static uint64_t pause_driven(struct urxe_pause *p)
{
	if (++p->driven_quiet >= BACKOFF_QUIET && p->driven_most < BACKOFF_NS) {
		p->driven_most = p->driven_most < BACKOFF_NS / 2 ? 2 * p->driven_most : BACKOFF_NS;
		p->driven_quiet = 0;
	}
	if (p->driven_quiet >= FORGET_QUIET)
		p->may_lapse = false;
	p->driven_paused = true;
	p->wanted = false;
	if (p->may_lapse && p->sleep < dear_look(p))
		p->sleep = dear_look(p);
	return longer(p, driven_most(p));
}

/* ---- interrupts ---- */

/*
 * There are cards, or machines that play cards, whose interrupts do not come although the driver
 * has them. A frame that is there after a pause which it should have ended tells that.
 */
static void judge_interrupt(struct urxe_pause *p, const struct urxe_pause_look *l)
{
	enum urxe_pause_end end = p->end;

	p->end = URXE_PAUSE_END_OTHER;
	if (l->n <= 0 || end == URXE_PAUSE_END_OTHER)
		return;
	if (end == URXE_PAUSE_END_FRAME) {
		p->proved = true;
		p->missed = 0;
		p->unsure_for = UNSURE_NS;
	} else if (++p->missed >= MISSES) {
		p->proved = false;
		p->missed = 0;
		p->unsure = l->now + p->unsure_for;
		if (p->unsure_for < UNSURE_MOST)
			p->unsure_for *= 2;
	}
}

/* ---- nobody drives ---- */

static uint64_t pause_alone(struct urxe_pause *p, const struct urxe_pause_look *l)
{
	bool rare = p->gap > p->spin_most || l->now - p->since >= SPREAD_NS;
	bool found = p->found;

	if (p->prompt) {
		if (found)
			gather_frames(p);
		p->wanted = true;
		return URXE_SLEEP_INTR_NS;
	}
	p->found = 0;
	/* Who waits for an answer of the CM would rather have an interrupt than a look later. */
	p->wanted = (rare || l->waits) && !p->no_interrupt && l->now >= p->unsure;
	if (p->wanted)
		return p->proved ? URXE_SLEEP_INTR_NS : URXE_SLEEP_TRY_NS;
	return rare ? longer(p, URXE_SLEEP_MAX_NS) : NAP_NS;
}

uint64_t urxe_pause_next(struct urxe_pause *p, struct urxe_pause_look *l)
{
	uint64_t polled = l->polls - p->polls;
	bool traffic = l->n > 0, paused = p->driven_paused;

	l->driven = polled || l->n < 0;
	count_round(p, l);
	p->polls = l->polls;
	p->driven_paused = false;
	p->yield = false;
	judge_interrupt(p, l);
	if (traffic) {
		p->found += (unsigned)l->n;
		/* Who is seldom let run polls seldom, but leaves us nothing. */
		if (polled < (p->one_cpu ? 1 : SPUN) && !put_aside(p, l))
			p->sleep = SLEEP_MIN_NS;
	}
	count_pass(p, l);
	p->callers = look_at_callers(p, l, paused, polled);
	if (l->nudged)
		p->sleep = SLEEP_MIN_NS;
	p->looked = l->now;
	if (traffic || l->nudged) {
		count_gap(p, l);
		/* What callers had no time for; while they come back, it is theirs. */
		if (p->callers == URXE_CALLERS_NONE || l->nudged)
			p->busy_until = l->now + spin_for(p);
	}
	if (p->callers == URXE_CALLERS_DOUBT) {
		p->wanted = false;
		return NAP_NS;
	}
	if (l->nudged || (traffic && paused && p->may_lapse && !l->at_it))
		return 0;
	if (p->callers != URXE_CALLERS_NONE)
		return pause_driven(p);
	if (traffic)
		return 0;
	if (l->partway && p->may_lapse && !p->one_cpu && l->now - p->since < PARTWAY_NS)
		return 0;
	if (l->now < p->busy_until && l->now >= p->crowded && may_spin(p)) {
		p->yield = true;
		return 0;
	}
	return pause_alone(p, l);
}

/*
 * Who wakes up by so much too late meets a frame that came when the time was up, rather than one
 * that should have ended the pause. Of short pauses, as timers make them, that is most of what they
 * meet.
 */
static uint64_t late(uint64_t ns)
{
	return ns / LATE_PART < LATE_NS ? ns / LATE_PART : LATE_NS;
}

void urxe_pause_ended(struct urxe_pause *p, uint64_t ns, uint64_t slept, bool interrupt)
{
	if (p->wanted)
		p->slept = slept;
	if (slept >= ns)
		p->late = (3 * p->late + (slept - ns < LATE_CLAMP ? slept - ns : LATE_CLAMP)) / 4;
	if (interrupt && p->wanted && !p->prompt && slept >= NAP_NS && slept < ns + late(ns))
		p->end = slept < ns ? URXE_PAUSE_END_FRAME : URXE_PAUSE_END_TIME;
	/* One that ended at once was not for frames to end. */
	if (interrupt)
		p->no_interrupt = false;
	else if ((p->wanted || ns >= URXE_SLEEP_MAX_NS) && slept >= NAP_NS)
		p->no_interrupt = true;
}

bool urxe_pause_alert(const struct urxe_pause *p)
{
	return p->wanted && (p->prompt || p->proved);
}

enum urxe_pause_policy urxe_pause_policy(const struct urxe_pause *p)
{
	if (p->may_lapse)
		return URXE_PAUSE_SHORT;
	return p->gather ? URXE_PAUSE_BATCH : URXE_PAUSE_USUAL;
}

/*
 * Beside a thread that spins (on memory that we fill, say), a yield costs its whole time slice, and
 * the scheduler takes us for one that has work; a sleeper is let in when it wakes up.
 */
void urxe_pause_gave_way(struct urxe_pause *p, uint64_t now, uint64_t back)
{
	if (back - now <= CROWDED_NS) {
		/* Alone for as long as it was crowded. */
		if (back > p->crowded && back - p->crowded > p->crowded_for)
			p->crowded_for = CROWDED_FOR;
		return;
	}
	p->crowded = back + p->crowded_for;
	if (p->crowded_for < CROWDED_FOR_MOST)
		p->crowded_for *= 2;
}
