/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The service thread of a device: drives the port when no caller does, runs what timers ask
 * for, and the GSI's service. How it pauses between turns is in pause.c.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "provider.h"
#include "pause.h"
#include "pending.h"
#include "progress.h"
#include "service.h"
#include "wake.h"
#include "urxe/thread.h"

#define SLEEP_FULL_NS 100000ull	 /* while QPs wait for room to send */
#define SLACK_NS      10000ull	 /* between two looks at the clock */
#define SLICE_NS      100000ull	 /* of a processor, at a time */
#define TURN_NS	      5000000ull /* for so long a turn without a processor is waited for */
#define TURN_LOOKS    64
#define PASS_NS	      50000ull	/* callers hand over once in that time */
#define DUE_NS	      1000ull	/* when a timer is due */
#define SOON_NS	      200000ull /* a pause that is shorter costs more than a wake-up */
#define RESOLVE_NS    200000ull /* while a neighbour is being resolved */

/*
 * Does it sleep? Pairs with service_sleep(), which writes asleep and then reads nudged (until,
 * gsi_due): in the one order of these seq_cst accesses it sees what we ask, or we see that it
 * sleeps.
 */
static bool ask(struct urxe_service_thread *s)
{
	if (!atomic_load_explicit(&s->nudged, memory_order_relaxed))
		atomic_store(&s->nudged, true);
	return atomic_load(&s->asleep);
}

void urxe_service_nudge(struct urxe_device *dev)
{
	if (ask(&dev->service))
		urxe_wakes_service(dev);
}

void urxe_service_leave(struct urxe_device *dev)
{
	/* It is written before asleep is. */
	if (ask(&dev->service) && !atomic_load(&dev->service.alert))
		urxe_wakes_service(dev);
}

/*
 * It may come back at once, or not before it has seen what we are to receive for it: it costs less
 * to be here in vain now and then than to find out by naps.
 */
void urxe_service_pass(struct urxe_device *dev)
{
	struct urxe_service_thread *s = &dev->service;
	uint64_t now = urxe_port_now(dev->port);

	if (now - atomic_load_explicit(&s->passed, memory_order_relaxed) < PASS_NS)
		return;
	atomic_store_explicit(&s->passed, now, memory_order_relaxed);
	atomic_store_explicit(&s->passed_on, sched_getcpu() + 1, memory_order_relaxed);
	urxe_service_nudge(dev);
}

void urxe_service_by(struct urxe_device *dev, uint64_t when)
{
	struct urxe_service_thread *s = &dev->service;

	/* Pairs as in ask(), with next_timer or svc->next as what was asked. */
	if (atomic_load(&s->asleep) && when < atomic_load(&s->until)) {
		uint64_t now = urxe_port_now(dev->port);

		atomic_store_explicit(&s->soon, when > now ? when - now : 0, memory_order_relaxed);
		urxe_wakes_service(dev);
	}
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
	struct urxe_pause pause;
	uint64_t slack;	      /* that timers have: callers drive, and look at them */
	uint64_t caller_time; /* when last looked at */
	bool others;	      /* have all lanes: they run the timers */
	enum urxe_pause_policy policy;
	uint32_t sched; /* by which we are scheduled, if no other has chosen */
	int place;	/* the one processor that we run on; -1: any of @anywhere */
	cpu_set_t anywhere;
};

/* ---- reasons for a shorter pause: each says how long it may be, or URXE_NEVER ---- */

/*
 * Somebody waits for room in the link, of which nothing tells. A caller comes back to it, perhaps
 * when others have had their time on its processor; these need it to make that room.
 */
static uint64_t pause_full(struct urxe_device *dev, const struct service_state *st,
			   const struct urxe_pause_look *l)
{
	(void)l;
	return st->pause.callers == URXE_CALLERS_NONE &&
			       atomic_load_explicit(&dev->sched.npending, memory_order_relaxed)
		       ? SLEEP_FULL_NS
		       : URXE_NEVER;
}

static uint64_t pause_resolving(struct urxe_device *dev, const struct service_state *st,
				const struct urxe_pause_look *l)
{
	(void)st;
	return l->now < atomic_load_explicit(&dev->service.resolve_until, memory_order_relaxed)
		       ? RESOLVE_NS
		       : URXE_NEVER;
}

/* Timers; those who have all lanes run them. */
static uint64_t pause_until(const struct service_state *st, const struct urxe_pause_look *l,
			    uint64_t when)
{
	if (st->others)
		return URXE_NEVER;
	return when <= l->now ? DUE_NS : when - l->now;
}

static uint64_t pause_timer(struct urxe_device *dev, const struct service_state *st,
			    const struct urxe_pause_look *l)
{
	uint64_t next = atomic_load_explicit(&dev->sched.next_timer, memory_order_relaxed);

	return pause_until(st, l, next == URXE_NEVER ? next : next + st->slack);
}

/*
 * Soon after a frame the next message is posted, with a timer that is due before a long pause is
 * over. Who ends its pause by then need not be woken for each, and a frame mostly ends it before.
 */
static uint64_t pause_soon(struct urxe_device *dev, const struct service_state *st,
			   const struct urxe_pause_look *l)
{
	uint64_t soon = atomic_load_explicit(&dev->service.soon, memory_order_relaxed);

	return soon >= SOON_NS && l->now - st->pause.since < soon ? soon : URXE_NEVER;
}

static uint64_t pause_tick(struct urxe_device *dev, const struct service_state *st,
			   const struct urxe_pause_look *l)
{
	return pause_until(st, l, urxe_port_next_tick(dev->port));
}

static uint64_t pause_gsi(struct urxe_device *dev, const struct service_state *st,
			  const struct urxe_pause_look *l)
{
	return pause_until(st, l, urxe_service_gsi_next(dev));
}

typedef uint64_t pause_reason(struct urxe_device *dev, const struct service_state *st,
			      const struct urxe_pause_look *l);

static pause_reason *const pause_reasons[] = {
	pause_full, pause_resolving, pause_timer, pause_soon, pause_tick, pause_gsi,
};

void urxe_service_caller(struct urxe_device *dev)
{
	struct urxe_service_thread *s = &dev->service;

	atomic_store_explicit(&s->who, false, memory_order_relaxed);
	atomic_store_explicit(&s->caller, (int)syscall(SYS_gettid), memory_order_relaxed);
}

void urxe_service_turn_end(struct urxe_device *dev)
{
	_Atomic uint32_t *turns = &dev->service.turns;
	uint32_t which = atomic_load_explicit(turns, memory_order_acquire);
	uint64_t until = urxe_port_now(dev->port) + TURN_NS;

	for (unsigned i = 1;
	     which & 1 && which == atomic_load_explicit(turns, memory_order_acquire); i++) {
		if (i % TURN_LOOKS)
			continue;
		if (urxe_port_now(dev->port) >= until)
			return;
		sched_yield();
	}
}

/*
 * A turn of ours, which callers see. It is over before those are woken that have got something: who
 * takes our processor would wait for us.
 */
static int take_turn(struct urxe_device *dev)
{
	_Atomic uint32_t *turns = &dev->service.turns;
	uint32_t n = atomic_load_explicit(turns, memory_order_relaxed);
	struct urxe_wakes wakes;
	bool held = urxe_wakes_hold_turn(dev, &wakes);
	int found;

	/* Before any completion of this turn: who sees that sees this. */
	atomic_store_explicit(turns, n + 1, memory_order_relaxed);
	found = urxe_progress_turn(dev);
	atomic_store_explicit(turns, n + 2, memory_order_release);
	if (held)
		urxe_wakes_send(&wakes);
	return found;
}

void urxe_service_yield(struct urxe_device *dev)
{
	struct urxe_service_thread *s = &dev->service;
	uint64_t away = urxe_port_now(dev->port);

	atomic_fetch_add_explicit(&s->yielding, 1, memory_order_relaxed);
	sched_yield();
	atomic_fetch_sub_explicit(&s->yielding, 1, memory_order_relaxed);
	away = urxe_port_now(dev->port) - away;
	atomic_fetch_add_explicit(&s->away, away, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->yields, 1, memory_order_relaxed);
	atomic_store_explicit(&dev->yield_after, urxe_pause_yield_after(away, dev->one_cpu),
			      memory_order_relaxed);
}

/* What a caller that we know of has had of a processor, ns; 0: it is no more. */
static uint64_t caller_time(const struct urxe_device *dev)
{
	int tid = atomic_load_explicit(&dev->service.caller, memory_order_relaxed);
	struct timespec t;

	/* The clock of a thread, as clock_getcpuclockid(3) makes that of a process. */
	if (!tid || clock_gettime((clockid_t)(~(unsigned)tid << 3 | 6), &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool take_nudge(struct urxe_service_thread *s)
{
	return atomic_load_explicit(&s->nudged, memory_order_relaxed) &&
	       atomic_exchange(&s->nudged, false);
}

/* How long to sleep now; 0: not at all. @n: what the turn found; -1: others have all lanes. */
static uint64_t service_pause(struct urxe_device *dev, struct service_state *st, uint64_t now,
			      int n)
{
	struct urxe_service_thread *s = &dev->service;
	bool watched = st->pause.callers != URXE_CALLERS_NONE;
	uint64_t had = watched ? caller_time(dev) : 0;
	struct urxe_pause_look l = {
		.now = now,
		.n = n,
		.polls = atomic_load_explicit(&s->polls, memory_order_relaxed),
		.ran = had > st->caller_time ? had - st->caller_time : 0,
		.yields = atomic_load_explicit(&s->yields, memory_order_relaxed),
		.away = atomic_load_explicit(&s->away, memory_order_relaxed),
		.yielding = atomic_load_explicit(&s->yielding, memory_order_relaxed),
		.nudged = take_nudge(s),
		.partway = n >= 0 && atomic_load_explicit(&s->partway, memory_order_relaxed),
		.waits = atomic_load_explicit(&s->gsi_waits, memory_order_relaxed),
	};
	uint64_t ns = urxe_pause_next(&st->pause, &l), patience;

	st->caller_time =
		watched || st->pause.callers == URXE_CALLERS_NONE ? had : caller_time(dev);
	if (st->pause.callers == URXE_CALLERS_POLL)
		atomic_store_explicit(&s->who, true, memory_order_relaxed);
	st->others = n < 0;
	patience = urxe_pause_patience(&st->pause);
	st->slack = (l.driven || patience ? URXE_TIMER_SLACK : 0) + patience;
	if (patience != urxe_service_patience(dev))
		atomic_store_explicit(&s->patience, patience, memory_order_relaxed);
	if (ns > SOON_NS && st->pause.callers == URXE_CALLERS_NONE &&
	    atomic_load_explicit(&dev->sched.next_timer, memory_order_relaxed) < now + ns)
		urxe_pending_idle_timers(dev);
	for (unsigned i = 0; ns && i < sizeof(pause_reasons) / sizeof(pause_reasons[0]); i++) {
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
	bool interrupt = st->pause.wanted;

	atomic_store(&s->until, until);
	atomic_store(&s->alert, urxe_pause_alert(&st->pause));
	atomic_store(&s->asleep, true);
	/* Who asked before it could see that we sleep (ask()). */
	if (!atomic_load(&s->nudged) && !atomic_load(&s->gsi_due) && !atomic_load(&s->stop) &&
	    (ns < 10 * SLACK_NS || st->others ||
	     (atomic_load(&dev->sched.next_timer) >= until - SLACK_NS - st->slack &&
	      urxe_service_gsi_next(dev) >= until - SLACK_NS))) {
		urxe_port_wait(dev->port, ns, &interrupt);
		urxe_pause_ended(&st->pause, ns, urxe_port_now(dev->port) + ns - until, interrupt);
	}
	atomic_store(&s->asleep, false);
}

/* Others are let in, and soon we look again. */
static void give_way(struct urxe_device *dev, struct service_state *st, uint64_t now)
{
	sched_yield();
	urxe_pause_gave_way(&st->pause, now, urxe_port_now(dev->port));
}

/*
 * Who wakes up gets in sooner beside a thread that spins, and loses less by a yield, the shorter
 * its slice is: under the scheduler EEVDF a thread may choose (sched_setattr(2), Linux 6.12; it
 * needs no right). Earlier kernels take no notice. It is for those who watch memory alone: many
 * processes that poll would be put aside for each frame. A policy that is not ours stays.
 */
static void set_policy(struct urxe_device *dev, struct service_state *st,
		       enum urxe_pause_policy policy)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr;

	st->policy = policy;
	atomic_store_explicit(&dev->service.watched, policy == URXE_PAUSE_SHORT,
			      memory_order_relaxed);
	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.policy != st->sched)
		return;
	attr.policy = policy == URXE_PAUSE_BATCH ? SCHED_BATCH : SCHED_OTHER;
	attr.runtime = policy == URXE_PAUSE_SHORT ? SLICE_NS : 0; /* 0: as others have */
	if (!syscall(SYS_sched_setattr, 0, &attr, 0))
		st->sched = attr.policy;
}

static bool runs_on(const cpu_set_t *set)
{
	cpu_set_t now;

	return !sched_getaffinity(0, sizeof(now), &now) && CPU_EQUAL(&now, set);
}

/*
 * Where threads are more than processors, whose place we take matters: that of a caller which
 * watches memory is free until we have received what it waits for, and another one's is perhaps
 * that of who sends it. The scheduler does not know. Processors that others have chosen for us
 * stay.
 */
static void set_place(struct urxe_device *dev, struct service_state *st, uint64_t now)
{
	int on = atomic_load_explicit(&dev->service.passed_on, memory_order_relaxed);
	int to = st->policy == URXE_PAUSE_SHORT && now < st->pause.crowded ? on - 1 : -1;
	cpu_set_t set;

	if (to == st->place)
		return;
	CPU_ZERO(&set);
	if (st->place >= 0)
		CPU_SET(st->place, &set);
	else if (sched_getaffinity(0, sizeof(st->anywhere), &st->anywhere))
		return;
	if (st->place >= 0 && !runs_on(&set)) {
		st->place = -1;
		return;
	}
	CPU_ZERO(&set);
	if (to >= 0)
		CPU_SET(to, &set);
	if (to >= 0 && !CPU_ISSET(to, &st->anywhere))
		return;
	if (!sched_setaffinity(0, sizeof(set), to < 0 ? &st->anywhere : &set))
		st->place = to;
}

static void *service_main(void *arg)
{
	struct urxe_device *dev = arg;
	struct service_state st = {.sched = SCHED_OTHER, .place = -1};

	urxe_pause_init(&st.pause, urxe_config_spin(&dev->cfg), urxe_port_prompt(dev->port),
			dev->one_cpu);
	prctl(PR_SET_TIMERSLACK, 1000ul);
	while (!atomic_load_explicit(&dev->service.stop, memory_order_relaxed)) {
		int n = take_turn(dev);
		uint64_t now = urxe_port_now(dev->port), ns;

		urxe_service_run_gsi(dev, now, true);
		urxe_device_watch(dev, now);
		ns = service_pause(dev, &st, now, n);
		if (st.policy != urxe_pause_policy(&st.pause))
			set_policy(dev, &st, urxe_pause_policy(&st.pause));
		set_place(dev, &st, now);
		if (ns)
			service_sleep(dev, &st, ns);
		else if (st.pause.yield)
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
