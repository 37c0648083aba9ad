/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The service thread of a device: drives the port when no caller does, runs what timers ask
 * for, and the GSI's service. It looks often after traffic or after a caller went to sleep,
 * stays out of the way while callers drive, and sleeps when all is idle.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "provider.h"
#include "progress.h"
#include "service.h"
#include "wake.h"
#include "urxe/thread.h"

#define SPIN_NS		   200000ull  /* look without a pause for so long after traffic */
#define BACKOFF_NS	   1000000ull /* while callers drive */
#define SLEEP_MIN_NS	   50000ull
#define SLEEP_MAX_NS	   4000000ull	 /* of a link without interrupts */
#define SLEEP_INTR_NS	   1000000000ull /* of a link with */
#define SLEEP_FULL_NS	   100000ull	 /* while QPs wait for room to send */
#define SLACK_NS	   10000ull	 /* between two looks at the clock */
#define DUE_NS		   1000ull	 /* when a timer is due */
#define RESOLVE_NS	   200000ull	 /* while a neighbour is being resolved */
#define CROWDED_NS	   30000ull    /* who yields and is away for so long shares its processor */
#define CROWDED_FOR	   20000000ull /* for that time */
#define NAP_NS		   20000ull    /* the pause in a crowd */
#define QUICK_NS	   200000ull /* between two wake-ups: who waits longer has time for each */
#define GATHER_AFTER	   8	     /* quick wake-ups in a row for little */
#define GATHER_FEW	   4	     /* that is what little is */
#define GATHER_HOLDOFF	   64
#define GATHER_HOLDOFF_MAX 4096
#define SPUN		   8 /* polls between two looks: a caller is at it all the time */

void urxe_service_nudge(struct urxe_device *dev)
{
	struct urxe_service_thread *s = &dev->service;

	/*
	 * Pairs with service_sleep(), which writes asleep and then reads nudged (until, gsi_due):
	 * in the one order of these seq_cst accesses it sees what we ask, or we see that it sleeps.
	 */
	if (!atomic_load_explicit(&s->nudged, memory_order_relaxed))
		atomic_store(&s->nudged, true);
	if (atomic_load(&s->asleep))
		urxe_wakes_service(dev);
}

void urxe_service_by(struct urxe_device *dev, uint64_t when)
{
	struct urxe_service_thread *s = &dev->service;

	/* Pairs as in urxe_service_nudge(), with next_timer or svc->next as what was asked. */
	if (atomic_load(&s->asleep) && when < atomic_load(&s->until))
		urxe_wakes_service(dev);
}

void urxe_service_gsi(struct urxe_device *dev)
{
	struct urxe_service_thread *s = &dev->service;

	if (!atomic_load_explicit(&s->gsi_due, memory_order_relaxed))
		atomic_store(&s->gsi_due, true);
	/* A driver looks before it goes, and wakes us if need be. */
	if (atomic_load(&s->asleep) && !atomic_load(&s->gsi_drivers))
		urxe_wakes_service(dev);
}

uint64_t urxe_service_gsi_next(const struct urxe_device *dev)
{
	const struct urxe_gsi_service *svc = atomic_load(&dev->service.gsi_svc);

	return svc ? atomic_load(&svc->next) : URXE_NEVER;
}

bool urxe_service_run_gsi(struct urxe_device *dev, uint64_t now, bool wait)
{
	struct urxe_service_thread *s = &dev->service;
	bool resolving = now < atomic_load_explicit(&s->resolve_until, memory_order_relaxed);
	struct urxe_gsi_service *svc;

	if (!atomic_load_explicit(&s->gsi_due, memory_order_relaxed) &&
	    now < urxe_service_gsi_next(dev) && !resolving)
		return false;
	if (wait)
		urxe_mutex_lock(&s->gsi_lock);
	else if (!urxe_mutex_trylock(&s->gsi_lock))
		return false;
	atomic_store(&s->gsi_due, false);
	svc = atomic_load(&s->gsi_svc);
	if (svc)
		svc->poll(svc->arg, now);
	urxe_mutex_unlock(&s->gsi_lock);
	return true;
}

/* What the thread remembers from turn to turn. */
struct service_state {
	uint64_t busy_until; /* no pause before */
	uint64_t crowded;    /* till then the processor is not ours alone */
	uint64_t polls;	     /* of callers, when last looked */
	uint64_t sleep;	     /* the pause that comes next */
	bool interrupt;	     /* the link wakes us */
	bool no_interrupt;   /* nor will it */
	bool prompt;	     /* it can, however short the pause */
	bool wanted;	     /* and should: nobody drives */
	uint64_t slack;	     /* that timers have: callers drive, and look at them */
	bool others;	     /* have all lanes: they run the timers */
	/* Does a frame at a time wake us? */
	bool gather;	  /* that is over */
	uint64_t slept;	  /* last, when it was wanted */
	unsigned found;	  /* since then */
	unsigned quick;	  /* wake-ups in a row that found few */
	unsigned holdoff; /* wake-ups till gathering is tried again */
	unsigned backoff; /* the next holdoff */
};

/* Of a thread that the program has given a policy of its own, it stays. */
static void set_gather(struct service_state *st, bool on)
{
	struct sched_param none = {0};
	int have = sched_getscheduler(0);

	st->gather = on;
	st->quick = 0;
	if (have == (on ? SCHED_OTHER : SCHED_BATCH))
		sched_setscheduler(0, on ? SCHED_BATCH : SCHED_OTHER, &none);
}

/*
 * Frames wake us one by one when their sender shares our processor: it is put aside for each, and
 * that costs more than the frame. A thread for batches puts nobody aside, and finds several when
 * its turn comes. When it does not, as each waits for the answer to the one before, or a thread
 * spins on memory that we fill and we come late, we are let in at once again, and try that rarely.
 */
static void gather_frames(struct service_state *st)
{
	bool few = st->found < GATHER_FEW;

	st->found = 0;
	if (st->gather) {
		st->quick = few ? st->quick + 1 : 0;
		if (!few)
			st->backoff = GATHER_HOLDOFF;
		if (st->quick < GATHER_AFTER)
			return;
		set_gather(st, false);
		st->holdoff = st->backoff;
		if (st->backoff < GATHER_HOLDOFF_MAX)
			st->backoff *= 2;
	} else if (st->holdoff) {
		st->holdoff--;
	} else {
		st->quick = few && st->slept < QUICK_NS ? st->quick + 1 : 0;
		if (st->quick >= GATHER_AFTER)
			set_gather(st, true);
	}
}

/* What a turn, and a look at the callers, came to. */
struct service_look {
	uint64_t now;
	bool traffic; /* the turn found something */
	bool driven;  /* callers drove since the last */
	bool spun;    /* and are at it all the time */
};

static struct service_look look_around(struct urxe_device *dev, struct service_state *st,
				       uint64_t now, int n)
{
	uint64_t polls = atomic_load_explicit(&dev->service.polls, memory_order_relaxed);
	struct service_look l = {
		.now = now,
		.traffic = n > 0,
		.driven = polls != st->polls || n < 0,
		.spun = polls - st->polls >= (dev->one_cpu ? 1 : SPUN),
	};

	st->polls = polls;
	st->others = n < 0;
	return l;
}

/* Why to look again soon, without a pause or with short ones. */
static void stay_awake(struct urxe_device *dev, struct service_state *st,
		       const struct service_look *l)
{
	struct urxe_service_thread *s = &dev->service;

	if (atomic_load_explicit(&s->nudged, memory_order_relaxed) &&
	    atomic_exchange(&s->nudged, false)) {
		st->busy_until = l->now + SPIN_NS;
		st->sleep = SLEEP_MIN_NS;
	}
	if (!l->traffic)
		return;
	/* Found what callers had no time for; while they come back, it is theirs. */
	if (!l->driven)
		st->busy_until = l->now + SPIN_NS;
	if (!l->spun)
		st->sleep = SLEEP_MIN_NS;
}

/* A pause that is twice as long as the one before; as long as it gets where a frame ends it. */
static uint64_t next_pause(struct urxe_device *dev, struct service_state *st,
			   const struct service_look *l)
{
	uint64_t max = l->driven && !dev->one_cpu ? BACKOFF_NS : SLEEP_MAX_NS;
	uint64_t ns = st->sleep < max ? st->sleep : max;

	st->sleep = ns * 2 > max ? max : ns * 2;
	/* Who waits for an answer of the CM would rather have an interrupt than a look later. */
	if (!l->driven && !st->no_interrupt && atomic_load(&dev->service.gsi_waits))
		ns = max;
	st->wanted = !l->driven && st->prompt;
	if (st->wanted)
		gather_frames(st);
	if (st->wanted || (!l->driven && st->interrupt && ns == max))
		ns = SLEEP_INTR_NS;
	return ns;
}

/* ---- reasons for a shorter pause: each says how long it may be, or URXE_NEVER ---- */

/* Somebody waits for room in the link, of which nothing tells. A caller comes back to it. */
static uint64_t pause_full(struct urxe_device *dev, const struct service_state *st,
			   const struct service_look *l)
{
	(void)st;
	return !l->driven && atomic_load_explicit(&dev->sched.npending, memory_order_relaxed)
		       ? SLEEP_FULL_NS
		       : URXE_NEVER;
}

static uint64_t pause_resolving(struct urxe_device *dev, const struct service_state *st,
				const struct service_look *l)
{
	(void)st;
	return l->now < atomic_load_explicit(&dev->service.resolve_until, memory_order_relaxed)
		       ? RESOLVE_NS
		       : URXE_NEVER;
}

/* Timers; those who have all lanes run them. */
static uint64_t pause_until(const struct service_state *st, const struct service_look *l,
			    uint64_t when)
{
	if (st->others)
		return URXE_NEVER;
	return when <= l->now ? DUE_NS : when - l->now;
}

static uint64_t pause_timer(struct urxe_device *dev, const struct service_state *st,
			    const struct service_look *l)
{
	uint64_t next = atomic_load_explicit(&dev->sched.next_timer, memory_order_relaxed);

	return pause_until(st, l, next == URXE_NEVER ? next : next + st->slack);
}

static uint64_t pause_tick(struct urxe_device *dev, const struct service_state *st,
			   const struct service_look *l)
{
	return pause_until(st, l, urxe_port_next_tick(dev->port));
}

static uint64_t pause_gsi(struct urxe_device *dev, const struct service_state *st,
			  const struct service_look *l)
{
	return pause_until(st, l, urxe_service_gsi_next(dev));
}

typedef uint64_t pause_reason(struct urxe_device *dev, const struct service_state *st,
			      const struct service_look *l);

static pause_reason *const pause_reasons[] = {
	pause_full, pause_resolving, pause_timer, pause_tick, pause_gsi,
};

/* How long to sleep now; 0: not at all. @n: what the turn found; -1: others have all lanes. */
static uint64_t service_pause(struct urxe_device *dev, struct service_state *st, uint64_t now,
			      int n)
{
	struct service_look l = look_around(dev, st, now, n);
	uint64_t ns;

	stay_awake(dev, st, &l);
	if (now < st->busy_until) {
		if (l.traffic || (now >= st->crowded && !dev->one_cpu))
			return 0;
		if (!st->prompt)
			return NAP_NS;
	}
	st->slack = l.driven ? URXE_TIMER_SLACK : 0;
	ns = next_pause(dev, st, &l);
	for (unsigned i = 0; i < sizeof(pause_reasons) / sizeof(pause_reasons[0]); i++) {
		uint64_t most = pause_reasons[i](dev, st, &l);

		if (ns > most)
			ns = most;
	}
	return ns;
}

static void service_sleep(struct urxe_device *dev, struct service_state *st, uint64_t ns)
{
	struct urxe_service_thread *s = &dev->service;
	uint64_t until = urxe_port_now(dev->port) + ns;

	atomic_store(&s->until, until);
	atomic_store(&s->asleep, true);
	/* Who asked before it could see that we sleep (urxe_service_nudge()). */
	if (!atomic_load(&s->nudged) && !atomic_load(&s->gsi_due) && !atomic_load(&s->stop) &&
	    (ns < 10 * SLACK_NS || st->others ||
	     (atomic_load(&dev->sched.next_timer) >= until - SLACK_NS - st->slack &&
	      urxe_service_gsi_next(dev) >= until - SLACK_NS))) {
		st->interrupt = st->wanted;
		urxe_port_wait(dev->port, ns, &st->interrupt);
	}
	if (st->wanted)
		st->slept = urxe_port_now(dev->port) + ns - until;
	if (ns >= SLEEP_MAX_NS)
		st->no_interrupt = !st->interrupt;
	atomic_store(&s->asleep, false);
}

/*
 * Nothing was found, and soon we look again. Beside a thread that spins (on memory that we fill,
 * say), a yield costs its whole time slice, and the scheduler takes us for one that has work; a
 * sleeper is let in when it wakes up.
 */
static void give_way(struct urxe_device *dev, struct service_state *st, uint64_t now)
{
	uint64_t back;

	sched_yield();
	back = urxe_port_now(dev->port);
	if (back - now > CROWDED_NS)
		st->crowded = back + CROWDED_FOR;
}

static void *service_main(void *arg)
{
	struct urxe_device *dev = arg;
	struct service_state st = {.sleep = SLEEP_MIN_NS,
				   .backoff = GATHER_HOLDOFF,
				   .prompt = urxe_port_prompt(dev->port)};

	prctl(PR_SET_TIMERSLACK, 1000ul);
	while (!atomic_load_explicit(&dev->service.stop, memory_order_relaxed)) {
		int n = urxe_progress_turn(dev);
		uint64_t now = urxe_port_now(dev->port), ns;

		urxe_service_run_gsi(dev, now, true);
		urxe_device_watch(dev, now);
		if (n > 0)
			st.found += (unsigned)n;
		ns = service_pause(dev, &st, now, n);
		if (ns)
			service_sleep(dev, &st, ns);
		else if (n <= 0)
			give_way(dev, &st, now);
	}
	return NULL;
}

int urxe_service_start(struct urxe_device *dev)
{
	struct urxe_service_thread *s = &dev->service;
	char name[URXE_THREAD_NAME_LEN];
	int err;

	if (s->running)
		return 0;
	snprintf(name, sizeof(name), "urxe/%.10s", dev->cfg.name);
	err = urxe_thread_start(&s->thread, name, service_main, dev);
	s->running = !err;
	return err;
}

void urxe_service_stop(struct urxe_device *dev)
{
	struct urxe_service_thread *s = &dev->service;

	if (!atomic_load(&dev->started) || !s->thread)
		return;
	atomic_store(&s->stop, true);
	urxe_port_wake(dev->port);
	pthread_join(s->thread, NULL);
	s->thread = 0;
}
