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
#include "duty.h"
#include "pause.h"
#include "service.h"
#include "wake.h"
#include "urxe/thread.h"

#define SLICE_NS   100000ull  /* of a processor, at a time */
#define TURN_NS	   5000000ull /* for so long a turn without a processor is waited for */
#define TURN_LOOKS 64
#define PASS_NS	   50000ull /* callers hand over once in that time */

/*
 * Does it sleep? Pairs with go_to_sleep() in duty.c, which writes asleep and then reads nudged
 * (until, gsi_due): in the one order of these seq_cst accesses it sees what we ask, or we see that
 * it sleeps.
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
 * to be here in vain now and then than to find out by naps. But where what it watches for is there
 * already, it will post, and poll, and is put aside for nothing.
 */
void urxe_service_pass(struct urxe_device *dev)
{
	struct urxe_service_thread *s = &dev->service;
	uint64_t now = urxe_port_now(dev->port);

	if (atomic_load_explicit(&s->landed, memory_order_relaxed))
		return;
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

/* What the thread remembers from round to round. */
struct service_state {
	struct urxe_duty_mind mind;
	enum urxe_pause_policy policy;
	uint32_t sched; /* by which we are scheduled, if no other has chosen */
	int place;	/* the one processor that we run on; -1: any of @anywhere */
	cpu_set_t anywhere;
};

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
	int to = st->policy == URXE_PAUSE_SHORT && now < st->mind.pause.crowded ? on - 1 : -1;
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
	struct urxe_pause *pause = &st.mind.pause;
	struct urxe_sleep how = {0};

	urxe_duty_begin(dev, &st.mind);
	prctl(PR_SET_TIMERSLACK, 1000ul);
	while (!atomic_load_explicit(&dev->service.stop, memory_order_relaxed)) {
		uint64_t ns = urxe_duty_round(dev, &st.mind);

		if (st.policy != urxe_pause_policy(pause))
			set_policy(dev, &st, urxe_pause_policy(pause));
		set_place(dev, &st, pause->looked);
		urxe_duty_pause(dev, &st.mind, ns, &how, NULL, 0);
		urxe_duty_hand_over(dev);
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
	urxe_duty_begin(dev, &s->duty.mind);
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
	urxe_duty_stop(dev);
	pthread_join(s->thread, NULL);
	s->thread = 0;
}
