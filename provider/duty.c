/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a device's thread on duty does, round by round, and who that is.
 *
 * A frame that comes wakes one thread, which takes a turn. Where that is the service thread, and
 * the turn has an event for a caller, a second one is woken, which costs more than all else that
 * the frame makes us do. So who waits for an event has the duty, if nobody else waits; the service
 * thread stands by, without a look at the port. Who goes to work on its event mostly is back soon,
 * and the duty is free till then, for @stand_by ns at most. The service thread looks after it once
 * in that time while there are events, and else is told when somebody goes.
 */
#include <sched.h>
#include <time.h>

#include "provider.h"
#include "duty.h"
#include "pause.h"
#include "pending.h"
#include "progress.h"
#include "service.h"
#include "wake.h"
#include "netio/clock.h"
#include "netio/emulated.h"

#define SLEEP_FULL_NS 100000ull	 /* while QPs wait for room to send */
#define SWITCH_NS     30000ull	 /* from a caller to us, on its processor */
#define SLACK_NS      10000ull	 /* between two looks at the clock */
#define DUE_NS	      1000ull	 /* when a timer is due */
#define SOON_NS	      200000ull	 /* a pause that is shorter costs more than a wake-up */
#define RESOLVE_NS    200000ull	 /* while a neighbour is being resolved */
#define STAND_BY_NS   1000000ull /* who had the duty is waited for */
#define STAND_BY_SLOW 8		 /* times as long in an emulated machine */

/* ---- reasons for a shorter pause: each says how long it may be, or URXE_NEVER ---- */

/*
 * Have callers left something over that may not come back for it? Who does so while we are awake
 * does not wake us: go_to_sleep() asks again when it has written asleep, and sees it.
 */
static bool left_over(const struct urxe_device *dev, const struct urxe_duty_mind *st)
{
	return st->pause.callers == URXE_CALLERS_NONE && atomic_load(&dev->sched.npending);
}

/*
 * Somebody waits for room in the link, of which nothing tells. A caller comes back to it, perhaps
 * when others have had their time on its processor; these need it to make that room.
 */
static uint64_t pause_full(struct urxe_device *dev, const struct urxe_duty_mind *st,
			   const struct urxe_pause_look *l)
{
	(void)l;
	return left_over(dev, st) ? SLEEP_FULL_NS : URXE_NEVER;
}

static uint64_t pause_resolving(struct urxe_device *dev, const struct urxe_duty_mind *st,
				const struct urxe_pause_look *l)
{
	(void)st;
	return l->now < atomic_load_explicit(&dev->service.resolve_until, memory_order_relaxed)
		       ? RESOLVE_NS
		       : URXE_NEVER;
}

/* Timers; those who have all lanes run them. */
static uint64_t pause_until(const struct urxe_duty_mind *st, const struct urxe_pause_look *l,
			    uint64_t when)
{
	if (st->others)
		return URXE_NEVER;
	return when <= l->now ? DUE_NS : when - l->now;
}

/* Likewise, with the slack that they have. */
static uint64_t pause_until_late(const struct urxe_duty_mind *st, const struct urxe_pause_look *l,
				 uint64_t when)
{
	return pause_until(st, l, when == URXE_NEVER ? when : when + st->slack);
}

static uint64_t pause_timer(struct urxe_device *dev, const struct urxe_duty_mind *st,
			    const struct urxe_pause_look *l)
{
	return pause_until_late(st, l,
				atomic_load_explicit(&dev->sched.next_timer, memory_order_relaxed));
}

/*
 * Soon after a frame the next message is posted, with a timer that is due before a long pause is
 * over. Who ends its pause by then need not be woken for each, and a frame mostly ends it before.
 */
static uint64_t pause_soon(struct urxe_device *dev, const struct urxe_duty_mind *st,
			   const struct urxe_pause_look *l)
{
	uint64_t soon = atomic_load_explicit(&dev->service.soon, memory_order_relaxed);

	return soon >= SOON_NS && l->now - st->pause.since < soon ? soon : URXE_NEVER;
}

static uint64_t pause_tick(struct urxe_device *dev, const struct urxe_duty_mind *st,
			   const struct urxe_pause_look *l)
{
	(void)dev;
	return pause_until_late(st, l, st->tick);
}

static uint64_t pause_gsi(struct urxe_device *dev, const struct urxe_duty_mind *st,
			  const struct urxe_pause_look *l)
{
	return pause_until(st, l, urxe_service_gsi_next(dev));
}

typedef uint64_t pause_reason(struct urxe_device *dev, const struct urxe_duty_mind *st,
			      const struct urxe_pause_look *l);

static pause_reason *const pause_reasons[] = {
	pause_full, pause_resolving, pause_timer, pause_soon, pause_tick, pause_gsi,
};

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

/* Was a caller at it when we came? What was before @looked was our own turn. */
static bool caller_at_it(const struct urxe_device *dev, uint64_t looked)
{
	uint64_t now = urxe_port_now(dev->port), last = 0;

	for (unsigned i = 0; i < dev->lanes; i++) {
		uint64_t t =
			atomic_load_explicit(&dev->sched.lanes[i].turned, memory_order_relaxed);

		if (t > last)
			last = t;
	}
	return last > looked && now < last + SWITCH_NS;
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

static bool take_flag(atomic_bool *flag)
{
	return atomic_load_explicit(flag, memory_order_relaxed) && atomic_exchange(flag, false);
}

/* How long to sleep now; 0: not at all. @n: what the turn found; -1: others have all lanes. */
static uint64_t next_pause(struct urxe_device *dev, struct urxe_duty_mind *st, uint64_t now, int n,
			   bool at_it)
{
	struct urxe_service_thread *s = &dev->service;
	bool watched = st->pause.callers != URXE_CALLERS_NONE;
	uint64_t had = watched ? caller_time(dev) : 0;
	struct urxe_pause_look l = {
		.now = now,
		.n = n,
		.at_it = at_it,
		.polls = atomic_load_explicit(&s->polls, memory_order_relaxed),
		.ran = had > st->caller_time ? had - st->caller_time : 0,
		.yields = atomic_load_explicit(&s->yields, memory_order_relaxed),
		.away = atomic_load_explicit(&s->away, memory_order_relaxed),
		.yielding = atomic_load_explicit(&s->yielding, memory_order_relaxed),
		.nudged = take_flag(&s->nudged),
		.written = take_flag(&s->written),
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
	st->tick = urxe_port_next_tick(dev->port);
	for (unsigned i = 0; ns && i < sizeof(pause_reasons) / sizeof(pause_reasons[0]); i++) {
		uint64_t most = pause_reasons[i](dev, st, &l);

		if (ns > most)
			ns = most;
	}
	return ns;
}

void urxe_duty_begin(struct urxe_device *dev, struct urxe_duty_mind *m)
{
	*m = (struct urxe_duty_mind){0};
	urxe_pause_init(&m->pause, urxe_config_spin(&dev->cfg), urxe_port_prompt(dev->port),
			dev->one_cpu, urxe_emulated());
}

void urxe_duty_resume(struct urxe_device *dev, struct urxe_duty_mind *m)
{
	struct urxe_service_thread *s = &dev->service;

	m->pause.polls = atomic_load_explicit(&s->polls, memory_order_relaxed);
	m->pause.yields = atomic_load_explicit(&s->yields, memory_order_relaxed);
	m->pause.away = atomic_load_explicit(&s->away, memory_order_relaxed);
	/* Nor is it one that polls and will be back: a frame is to wake it. */
	m->pause.callers = URXE_CALLERS_NONE;
}

uint64_t urxe_duty_round(struct urxe_device *dev, struct urxe_duty_mind *m)
{
	bool at_it = caller_at_it(dev, m->pause.looked);
	int n = take_turn(dev);
	uint64_t now = urxe_port_now(dev->port);

	urxe_service_run_gsi(dev, now, true);
	urxe_device_watch(dev, now);
	return next_pause(dev, m, now, n, at_it);
}

/* Has somebody asked before it could see that we sleep (ask() in service.c)? */
static bool asked(const struct urxe_device *dev)
{
	const struct urxe_service_thread *s = &dev->service;

	return atomic_load(&s->nudged) || atomic_load(&s->gsi_due) || atomic_load(&s->stop) ||
	       atomic_load(&s->duty.wanted);
}

static void go_to_sleep(struct urxe_device *dev, struct urxe_duty_mind *m, uint64_t ns,
			struct urxe_sleep *how, const atomic_uint *ended, unsigned was)
{
	struct urxe_service_thread *s = &dev->service;
	uint64_t until = urxe_port_now(dev->port) + ns;

	how->interrupt = m->pause.wanted;
	how->driven = m->pause.callers != URXE_CALLERS_NONE;
	how->tick = m->tick;
	atomic_store(&s->until, until);
	atomic_store(&s->alert, urxe_pause_alert(&m->pause));
	atomic_store(&s->asleep, true);
	if (!asked(dev) && !(ns > SLEEP_FULL_NS && left_over(dev, m)) &&
	    (!ended || atomic_load(ended) == was) &&
	    (ns < 10 * SLACK_NS || m->others ||
	     (atomic_load(&dev->sched.next_timer) >= until - SLACK_NS - m->slack &&
	      urxe_service_gsi_next(dev) >= until - SLACK_NS))) {
		urxe_port_wait(dev->port, ns, how);
		urxe_pause_ended(&m->pause, ns, urxe_port_now(dev->port) + ns - until,
				 how->interrupt);
	}
	atomic_store(&s->asleep, false);
}

/* Others are let in, and soon we look again. */
static void give_way(struct urxe_device *dev, struct urxe_duty_mind *m)
{
	sched_yield();
	urxe_pause_gave_way(&m->pause, m->pause.looked, urxe_port_now(dev->port));
}

void urxe_duty_pause(struct urxe_device *dev, struct urxe_duty_mind *m, uint64_t ns,
		     struct urxe_sleep *how, const atomic_uint *ended, unsigned was)
{
	how->signal = false;
	if (ns)
		go_to_sleep(dev, m, ns, how, ended, was);
	else if (m->pause.yield)
		give_way(dev, m);
}

/* ---- who has it ---- */

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void urxe_duty_init(struct urxe_device *dev)
{
	struct urxe_duty *d = &dev->service.duty;
	pthread_condattr_t attr;

	urxe_mutex_init(&d->lock);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&d->moved, &attr);
	pthread_condattr_destroy(&attr);
	d->thread_has = true;
	d->stand_by = STAND_BY_NS * (urxe_emulated() ? STAND_BY_SLOW : 1);
}

void urxe_duty_fini(struct urxe_device *dev)
{
	pthread_cond_destroy(&dev->service.duty.moved);
	urxe_mutex_fini(&dev->service.duty.lock);
}

/* Until that time, ns, or till it moves. */
static void wait_moved(struct urxe_duty *d, uint64_t until) URXE_REQUIRES(d->lock)
{
	struct timespec at = urxe_clock_span(until);

	if (until == URXE_NEVER)
		pthread_cond_wait(&d->moved, &d->lock.m);
	else
		pthread_cond_timedwait(&d->moved, &d->lock.m, &at);
}

/*
 * While events come one after the other the thread looks by itself: to be told costs its caller a
 * system call each time.
 */
static void stand_by(struct urxe_duty *d, const atomic_bool *stop) URXE_REQUIRES(d->lock)
{
	uint32_t seen = d->leaves - 1;
	uint64_t now;

	while (!atomic_load(stop)) {
		now = clock_ns();
		if (!d->has && (d->gone || now >= d->left + d->stand_by))
			return;
		d->tell = d->has && d->leaves == seen;
		seen = d->leaves;
		wait_moved(d, d->tell ? URXE_NEVER : now + d->stand_by);
	}
}

void urxe_duty_hand_over(struct urxe_device *dev)
{
	struct urxe_duty *d = &dev->service.duty;

	if (!atomic_load_explicit(&d->wanted, memory_order_relaxed))
		return;
	urxe_mutex_lock(&d->lock);
	atomic_store(&d->wanted, false);
	if (d->has) {
		d->thread_has = false;
		pthread_cond_broadcast(&d->moved);
		stand_by(d, &dev->service.stop);
		d->tell = false;
		d->thread_has = true;
	}
	urxe_mutex_unlock(&d->lock);
}

void urxe_duty_stop(struct urxe_device *dev)
{
	struct urxe_duty *d = &dev->service.duty;

	urxe_mutex_lock(&d->lock);
	atomic_store(&dev->service.stop, true);
	pthread_cond_broadcast(&d->moved);
	urxe_mutex_unlock(&d->lock);
	urxe_port_wake(dev->port);
}

bool urxe_duty_take(struct urxe_device *dev, struct urxe_channel *ch)
{
	struct urxe_service_thread *s = &dev->service;
	struct urxe_duty *d = &s->duty;
	bool mine;

	urxe_mutex_lock(&d->lock);
	mine = !d->waiting++ && dev->threaded && atomic_load(&dev->started) &&
	       !atomic_load(&s->watched);
	if (mine) {
		atomic_store(&d->has, ch);
		d->gone = false;
	}
	while (mine && d->thread_has && !atomic_load(&s->stop)) {
		atomic_store(&d->wanted, true);
		/* As in ask() (service.c). */
		if (atomic_load(&s->asleep))
			urxe_port_wake(dev->port);
		wait_moved(d, URXE_NEVER);
	}
	urxe_mutex_unlock(&d->lock);
	return mine;
}

static void let_go(struct urxe_duty *d, bool comes_back) URXE_REQUIRES(d->lock)
{
	/* Others that wait need somebody at once. */
	d->gone = !comes_back || d->waiting || atomic_load(&d->evict);
	atomic_store(&d->has, NULL);
	atomic_store(&d->evict, false);
	d->leaves++;
	d->left = clock_ns();
	if (d->gone || d->tell)
		pthread_cond_broadcast(&d->moved);
}

void urxe_duty_leave(struct urxe_device *dev, bool on_duty, bool comes_back)
{
	struct urxe_duty *d = &dev->service.duty;

	urxe_mutex_lock(&d->lock);
	d->waiting--;
	if (on_duty)
		let_go(d, comes_back);
	urxe_mutex_unlock(&d->lock);
}

void urxe_duty_give_up(struct urxe_device *dev)
{
	struct urxe_duty *d = &dev->service.duty;

	urxe_mutex_lock(&d->lock);
	urxe_duty_begin(dev, &d->mind);
	let_go(d, false);
	urxe_mutex_unlock(&d->lock);
}

bool urxe_duty_sleeps(const struct urxe_device *dev, const struct urxe_channel *ch)
{
	return atomic_load(&dev->service.asleep) && atomic_load(&dev->service.duty.has) == ch;
}

void urxe_duty_evict(struct urxe_device *dev, struct urxe_channel *ch)
{
	struct urxe_duty *d = &dev->service.duty;

	urxe_mutex_lock(&d->lock);
	while (d->has == ch) {
		atomic_store(&d->evict, true);
		urxe_port_wake(dev->port);
		wait_moved(d, URXE_NEVER);
	}
	urxe_mutex_unlock(&d->lock);
}
