/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Callers that wait for completion events: who of them is on duty in place of the service thread,
 * what ends the wait, and that somebody is on duty when nobody waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "harness.h"
#include "pair.h"
#include "provider/duty.h"
#include "provider/pause.h"
#include "provider/progress.h"

#define ROUNDS 300

static struct pair p;
static struct urxe_duty *duty;
static struct urxe_service_thread *service;
static atomic_uint handled;

struct waiter {
	pthread_t thread;
	struct ibv_comp_channel *channel;
	unsigned want; /* events */
	atomic_uint got;
	bool uncancelable;
	int err;
};

static void set_up(const struct urxe_link_ops *ops)
{
	const struct pair_params pp = {
		.threaded = true, .channel = true, .ops = ops, .link = {.latency = 1000}};

	pair_open(&p, &pp, IBV_QPT_RC);
	service = &p.b.dev->service;
	duty = &service->duty;
}

static void tear_down(void)
{
	CU_ASSERT_EQUAL(duty->waiting, 0);
	CU_ASSERT_PTR_NULL(atomic_load(&duty->has));
	pair_close(&p);
}

/* A message from a to b, taken by whoever b has for that; a's own completion is polled for. */
static void send_one(void)
{
	struct ibv_wc wc;

	CU_ASSERT_EQUAL(pair_recv(&p.b, 1, 0, 64), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 1, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	while (!ibv_poll_cq(p.a.cq, 1, &wc))
		sched_yield();
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
}

static void *wait_for_events(void *arg)
{
	struct waiter *w = arg;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	/* In a thread's first sleep TSan makes what it keeps signals in, and loses one that comes
	 * meanwhile. */
	poll(NULL, 0, 0);
	if (w->uncancelable)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	while (atomic_load(&w->got) < w->want) {
		w->err = urxe_channel_await(w->channel, &cq);
		if (w->err)
			return NULL;
		if (!cq && ibv_get_cq_event(w->channel, &cq, &context))
			return w;
		ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(cq, 0);
		while (ibv_poll_cq(cq, 1, &wc))
			;
		atomic_fetch_add(&w->got, 1);
	}
	return NULL;
}

static void start(struct waiter *w, struct ibv_comp_channel *channel, unsigned want)
{
	*w = (struct waiter){.channel = channel, .want = want, .uncancelable = w->uncancelable};
	CU_ASSERT_EQUAL_FATAL(pthread_create(&w->thread, NULL, wait_for_events, w), 0);
}

static unsigned waiting(void)
{
	unsigned n;

	urxe_mutex_lock(&duty->lock);
	n = duty->waiting;
	urxe_mutex_unlock(&duty->lock);
	return n;
}

static bool thread_has_it(void)
{
	bool has;

	urxe_mutex_lock(&duty->lock);
	has = duty->thread_has;
	urxe_mutex_unlock(&duty->lock);
	return has;
}

/* Where who has the duty waits, or is about to. */
static const struct ibv_comp_channel *waits_on_duty(void)
{
	const struct urxe_channel *ch = atomic_load(&duty->has);

	return ch ? &ch->channel : NULL;
}

/* And asleep. */
static void until_on_duty(const struct waiter *w)
{
	while (waits_on_duty() != w->channel || thread_has_it() || !atomic_load(&service->asleep))
		sched_yield();
}

static void until_waiting(unsigned n)
{
	while (waiting() < n)
		sched_yield();
}

static void end(struct waiter *w, int err)
{
	void *ret;

	pthread_join(w->thread, &ret);
	CU_ASSERT_PTR_NULL(ret);
	CU_ASSERT_EQUAL(w->err, err);
}

/* Event after event, and then nobody waits: the service thread answers. */
static void test_events(void)
{
	struct waiter w = {0};

	set_up(NULL);
	ibv_req_notify_cq(p.b.cq, 0);
	start(&w, p.b.channel, ROUNDS);
	until_on_duty(&w);
	CU_ASSERT_FALSE(thread_has_it());
	for (unsigned i = 1; i <= ROUNDS; i++) {
		send_one();
		while (atomic_load(&w.got) < i)
			sched_yield();
	}
	end(&w, 0);
	for (unsigned i = 0; i < 10; i++)
		send_one();
	while (!thread_has_it())
		sched_yield();
	tear_down();
}

/* Of two that wait nobody is on duty for long while the other one is away. */
static void test_two(void)
{
	struct waiter w = {0}, idle = {0};

	set_up(NULL);
	start(&idle, urxe_channel_create(p.b.ctx), 1);
	until_on_duty(&idle);
	ibv_req_notify_cq(p.b.cq, 0);
	start(&w, p.b.channel, ROUNDS);
	until_waiting(2);
	for (unsigned i = 1; i <= ROUNDS; i++) {
		send_one();
		while (atomic_load(&w.got) < i)
			sched_yield();
	}
	end(&w, 0);
	/* Nobody, if it drove for long. */
	CU_ASSERT(!waits_on_duty() || waits_on_duty() == idle.channel);
	CU_ASSERT_EQUAL(urxe_channel_destroy(idle.channel), 0);
	end(&idle, EBADF);
	tear_down();
}

/* Where others watch memory the service thread keeps the duty, or has it again. */
static void test_watched(void)
{
	struct waiter w = {0};

	set_up(NULL);
	for (unsigned i = 0; i < 20; i++) {
		/* It is found before the wait, or by who is on duty. */
		if (i % 2)
			atomic_store(&service->watched, true);
		else
			duty->mind.pause.may_lapse = true;
		ibv_req_notify_cq(p.b.cq, 0);
		start(&w, p.b.channel, 1);
		until_waiting(1);
		while (waits_on_duty() || !thread_has_it())
			sched_yield();
		CU_ASSERT_EQUAL(waiting(), 1);
		send_one();
		end(&w, 0);
		atomic_store(&service->watched, false);
		CU_ASSERT_FALSE(duty->mind.pause.may_lapse);
	}
	tear_down();
}

/* What is there, or does not wait, is left to the read. */
static void test_at_once(void)
{
	struct ibv_cq *cq;
	uint32_t leaves;

	set_up(NULL);
	leaves = duty->leaves;
	CU_ASSERT(urxe_channel_notify(p.b.channel, p.b.cq));
	CU_ASSERT_EQUAL(urxe_channel_await(p.b.channel, &cq), 0);
	CU_ASSERT_PTR_NULL(cq);
	CU_ASSERT_EQUAL(urxe_channel_purge(p.b.channel, p.b.cq), 1);
	fcntl(p.b.channel->fd, F_SETFL, O_NONBLOCK);
	CU_ASSERT_EQUAL(urxe_channel_await(p.b.channel, &cq), 0);
	CU_ASSERT_PTR_NULL(cq);
	CU_ASSERT_EQUAL(duty->leaves, leaves);
	tear_down();
}

static unsigned in_pipe(const struct urxe_channel *ch)
{
	int bytes = -1;

	CU_ASSERT_EQUAL(ioctl(ch->channel.fd, FIONREAD, &bytes), 0);
	return (unsigned)bytes / sizeof(struct ib_uverbs_comp_event_desc);
}

/* Nobody has an event, and the next one is handed to us. */
static void await_one(struct urxe_channel *ch, unsigned *was)
{
	struct ibv_cq *cq;

	CU_ASSERT_FALSE(urxe_channel_take(ch, true, &cq, was));
	CU_ASSERT_PTR_NULL(cq);
	CU_ASSERT_EQUAL(in_pipe(ch), 0);
}

/* Who waits on duty is handed the event; all others are for the pipe. */
static void test_handed(void)
{
	struct urxe_channel *ch;
	struct waiter w = {0};
	struct ibv_cq *cq;
	void *context;
	unsigned was;

	set_up(NULL);
	ch = to_urxe_channel(p.b.channel);
	await_one(ch, &was);
	CU_ASSERT(urxe_channel_notify(p.b.channel, p.b.cq));
	CU_ASSERT_EQUAL(atomic_load(&ch->events), was + 1);
	CU_ASSERT_EQUAL(in_pipe(ch), 0);
	/* A second one, and first things first. */
	CU_ASSERT(urxe_channel_notify(p.b.channel, p.b.cq));
	CU_ASSERT_EQUAL(in_pipe(ch), 1);
	CU_ASSERT(urxe_channel_take(ch, true, &cq, &was) && cq == p.b.cq);
	CU_ASSERT(urxe_channel_take(ch, true, &cq, &was) && !cq);
	/* Not acknowledged: the CQ has not sent it. */
	CU_ASSERT_EQUAL(ibv_get_cq_event(p.b.channel, &cq, &context), 0);
	/* It goes with its CQ. */
	await_one(ch, &was);
	CU_ASSERT(urxe_channel_notify(p.b.channel, p.b.cq));
	CU_ASSERT_EQUAL(urxe_channel_purge(p.b.channel, p.b.cq), 1);
	CU_ASSERT_FALSE(urxe_channel_leave(ch, &cq));
	/* Who leaves, or cannot take it. */
	await_one(ch, &was);
	CU_ASSERT(urxe_channel_notify(p.b.channel, p.b.cq));
	CU_ASSERT(urxe_channel_leave(ch, &cq) && cq == p.b.cq);
	await_one(ch, &was);
	CU_ASSERT(urxe_channel_notify(p.b.channel, p.b.cq));
	urxe_channel_abandon(ch);
	CU_ASSERT_EQUAL(in_pipe(ch), 1);
	CU_ASSERT_EQUAL(urxe_channel_purge(p.b.channel, p.b.cq), 1);
	await_one(ch, &was);
	urxe_channel_abandon(ch);
	CU_ASSERT(urxe_channel_notify(p.b.channel, p.b.cq));
	CU_ASSERT_EQUAL(urxe_channel_purge(p.b.channel, p.b.cq), 1);
	/* A thread. */
	was = ch->written;
	start(&w, p.b.channel, 1);
	until_on_duty(&w);
	ibv_req_notify_cq(p.b.cq, 0);
	send_one();
	end(&w, 0);
	CU_ASSERT_EQUAL(ch->written, was);
	tear_down();
}

/* Nothing but a wake ends this sleep. */
static void wait_for_wake(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	struct pollfd pfd = {.fd = wake_fd, .events = POLLIN};

	how->interrupt = true;
	urxe_sleep_poll(how, &pfd, 1, ns > URXE_SLEEP_TRY_NS / 2 ? UINT64_MAX : ns);
}

/* An event that another thread's turn writes ends the sleep on the port. */
static void test_others_event(void)
{
	struct urxe_link_ops ops = urxe_link_sim_ops;
	struct ibv_comp_channel *ch;
	struct waiter w = {0};

	ops.wait = wait_for_wake;
	set_up(&ops);
	ch = urxe_channel_create(p.b.ctx);
	for (unsigned i = 0; i < 20; i++) {
		start(&w, ch, 1);
		until_on_duty(&w);
		CU_ASSERT(urxe_channel_notify(ch, p.b.cq));
		/* ibv_ack_cq_events() counts it. */
		end(&w, 0);
	}
	to_urxe_cq(p.b.cq)->events_sent += 20;
	CU_ASSERT_EQUAL(urxe_channel_destroy(ch), 0);
	tear_down();
}

/* A frame would end a long sleep at no cost, and none comes. */
static void wait_for_frame(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	struct pollfd pfd = {.fd = wake_fd, .events = POLLIN};

	how->interrupt = true;
	urxe_sleep_poll(how, &pfd, 1, ns > URXE_SLEEP_INTR_NS / 2 ? UINT64_MAX : ns);
}

/*
 * Who asks for an event and has left completions is told in a while, also where a frame would end
 * the thread's sleep: none comes.
 */
static void test_left(void)
{
	struct pollfd pfd = {.events = POLLIN};
	struct urxe_link_ops ops = urxe_link_sim_ops;
	struct ibv_cq *cq;
	void *context;
	struct ibv_wc wc;

	ops.wait = wait_for_frame;
	ops.prompt = true;
	set_up(&ops);
	CU_ASSERT_EQUAL(pair_recv(&p.b, 1, 0, 64), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 1, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	while (!ibv_poll_cq(p.a.cq, 1, &wc))
		urxe_progress_turn(p.b.dev);
	CU_ASSERT_FALSE(urxe_cq_empty(to_urxe_cq(p.b.cq)));
	do {
		poll(NULL, 0, 20);
	} while (!atomic_load(&service->asleep) || !atomic_load(&service->alert));
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
	pfd.fd = p.b.channel->fd;
	CU_ASSERT_EQUAL(poll(&pfd, 1, 2000), 1);
	if (pfd.revents) {
		CU_ASSERT_EQUAL(ibv_get_cq_event(p.b.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
	}
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 1);
	tear_down();
}

static void on_signal(int sig)
{
	atomic_fetch_add(&handled, 1);
}

static void handle(int flags)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = flags};

	sigemptyset(&sa.sa_mask);
	sigaction(SIGUSR1, &sa, NULL);
}

/* @w: waits for one event of b's CQ, on duty or not. */
static void signals(struct waiter *w, unsigned others)
{
	handle(SA_RESTART);
	for (unsigned i = 1; i <= 20; i++) {
		unsigned before = atomic_load(&handled);

		pthread_kill(w->thread, SIGUSR1);
		while (atomic_load(&handled) == before)
			sched_yield();
	}
	ibv_req_notify_cq(p.b.cq, 0);
	send_one();
	end(w, 0);
	/* It may come before it sleeps, as with any read: one of them comes later. */
	handle(0);
	start(w, p.b.channel, 2);
	until_waiting(others + 1);
	while (pthread_tryjoin_np(w->thread, NULL)) {
		pthread_kill(w->thread, SIGUSR1);
		sched_yield();
	}
	CU_ASSERT_EQUAL(w->err, EINTR);
	handle(SA_RESTART);
}

static void test_signals(void)
{
	struct waiter w = {0}, idle = {0};

	set_up(NULL);
	start(&w, p.b.channel, 1);
	until_on_duty(&w);
	signals(&w, 0);
	start(&idle, urxe_channel_create(p.b.ctx), 1);
	until_on_duty(&idle);
	start(&w, p.b.channel, 1);
	until_waiting(2);
	signals(&w, 1);
	CU_ASSERT_EQUAL(urxe_channel_destroy(idle.channel), 0);
	end(&idle, EBADF);
	tear_down();
}

/* It never sleeps. */
static void wait_for_nothing(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	how->interrupt = true;
}

/* Does a thread that has always something to do on duty end, cancelled or by signals? *@ret: of it.
 */
static bool ends(int sig, void **ret)
{
	struct urxe_link_ops ops = urxe_link_sim_ops;
	struct waiter w = {0};
	struct timespec t;
	bool late = false;
	time_t until;

	ops.wait = wait_for_nothing;
	set_up(&ops);
	clock_gettime(CLOCK_MONOTONIC, &t);
	until = t.tv_sec + 10;
	start(&w, p.b.channel, 1);
	until_waiting(1);
	if (!sig)
		pthread_cancel(w.thread);
	while (!late && pthread_tryjoin_np(w.thread, ret)) {
		if (sig)
			pthread_kill(w.thread, sig);
		sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &t);
		late = t.tv_sec > until;
	}
	if (late) {
		ibv_req_notify_cq(p.b.cq, 0);
		send_one();
		pthread_join(w.thread, ret);
	}
	CU_ASSERT_EQUAL(w.err, sig && !late ? EINTR : 0);
	tear_down();
	return !late;
}

static void test_busy(void)
{
	void *ret;

	handle(0);
	CU_ASSERT(ends(SIGUSR1, &ret));
	handle(SA_RESTART);
}

/*
 * Not with ThreadSanitizer, which takes no notice of locks once a thread was cancelled in poll(2),
 * nor with AddressSanitizer, to which frames stay poisoned that are not returned from.
 */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CANCELS
static void cancel(struct waiter *w)
{
	void *ret;

	pthread_cancel(w->thread);
	pthread_join(w->thread, &ret);
	CU_ASSERT_PTR_EQUAL(ret, PTHREAD_CANCELED);
}

/* A thread that is cancelled leaves nothing behind, on duty or not. */
static void test_cancel(void)
{
	struct waiter w = {0}, idle = {0}, stays = {.uncancelable = true};

	set_up(NULL);
	for (unsigned i = 0; i < 20; i++) {
		start(&w, p.b.channel, 1);
		until_on_duty(&w);
		start(&idle, p.b.channel, 1);
		until_waiting(2);
		cancel(&idle);
		cancel(&w);
		CU_ASSERT_EQUAL(waiting(), 0);
		send_one();
	}
	for (struct ibv_wc wc; ibv_poll_cq(p.b.cq, 1, &wc);)
		;
	/* One that is not to be cancelled has its event first. */
	start(&stays, p.b.channel, 1);
	until_on_duty(&stays);
	pthread_cancel(stays.thread);
	ibv_req_notify_cq(p.b.cq, 0);
	send_one();
	end(&stays, 0);
	tear_down();
}

static void test_cancel_busy(void)
{
	void *ret;

	CU_ASSERT(ends(0, &ret));
	CU_ASSERT_PTR_EQUAL(ret, PTHREAD_CANCELED);
}

#endif

/* A channel that goes while threads wait there, which is their error. */
static void test_destroy(void)
{
	struct waiter w[2] = {0};

	set_up(NULL);
	for (unsigned i = 0; i < 20; i++) {
		struct ibv_comp_channel *ch = urxe_channel_create(p.b.ctx);

		start(&w[0], ch, 1);
		until_on_duty(&w[0]);
		start(&w[1], ch, 1);
		until_waiting(2);
		CU_ASSERT_EQUAL(urxe_channel_destroy(ch), 0);
		end(&w[0], EBADF);
		end(&w[1], EBADF);
	}
	send_one();
	tear_down();
}

/* Who goes on duty sleeps: that it, or another one, polled before is forgotten. */
static void test_resumes(void)
{
	struct urxe_duty_mind m;

	set_up(NULL);
	urxe_duty_begin(p.b.dev, &m);
	m.pause.callers = URXE_CALLERS_POLL;
	atomic_fetch_add(&service->polls, 7);
	urxe_duty_resume(p.b.dev, &m);
	CU_ASSERT_EQUAL(m.pause.polls, atomic_load(&service->polls));
	CU_ASSERT_EQUAL(m.pause.callers, URXE_CALLERS_NONE);
	tear_down();
}

URXE_TEST_MAIN("await", T(test_events), T(test_two), T(test_watched), T(test_at_once),
	       T(test_handed), T(test_others_event), T(test_left), T(test_signals), T(test_busy),
#ifdef CANCELS
	       T(test_cancel), T(test_cancel_busy),
#endif
	       T(test_destroy), T(test_resumes))
