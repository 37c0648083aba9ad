/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A caller that waits for a completion event, in ibv_get_cq_event(): on duty (duty.h), if it can
 * be, and else asleep until the channel has one.
 *
 * To it this is read(2) of the channel: a signal's handler ends it unless all handlers were
 * installed with SA_RESTART, and pthread_cancel(3) does.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "provider.h"
#include "cq.h"
#include "duty.h"
#include "pause.h"
#include "urxe/cancel.h"

/*
 * What comes while we drive ends no system call: a signal's handler has run when we sleep next, and
 * nothing tells of it; a cancellation waits for that sleep, and there may be none. So that a call
 * which others keep at work, by one-sided operations, say, can be ended, it has the duty for this
 * long, less what it sleeps. Events end most calls much sooner.
 */
#define DRIVE_NS 10000000ull

/* A call that waits. */
struct await {
	struct urxe_device *dev;
	struct urxe_channel *ch; /* not touched off duty: it may go */
	int fd;
	struct ibv_cq *cq; /* the event's; NULL: it is in the pipe */
	bool on_duty;
	bool cancelable;
	uint64_t since; /* it drives, less what it has slept; 0: it has not looked yet */
};

/*
 * poll(2) and futex(2) end by any handler, and do not tell which one ran. Faults are not meant:
 * their handlers run in place of what failed.
 */
static bool signals_interrupt(void)
{
	struct sigaction sa;

	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		if (sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE ||
		    sigaction(sig, NULL, &sa))
			continue;
		if (sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN &&
		    !(sa.sa_flags & SA_RESTART))
			return true;
	}
	return false;
}

static bool blocks(const struct urxe_channel *ch)
{
	int flags = fcntl(ch->channel.fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

/* 0: an event has come since @was; EINTR; EBADF: the channel goes; EAGAIN: wait on, off duty. */
static int until_event(struct await *a, unsigned was)
{
	struct urxe_duty *d = &a->dev->service.duty;
	struct urxe_duty_mind *m = &d->mind;
	struct urxe_sleep how = {.cancelable = a->cancelable};
	uint64_t ns;

	while (atomic_load(&a->ch->events) == was) {
		if (atomic_load(&d->evict) || atomic_load(&a->dev->service.stop))
			return EBADF;
		ns = urxe_duty_round(a->dev, m);
		if (!a->since)
			a->since = m->pause.looked;
		if (urxe_pause_policy(&m->pause) == URXE_PAUSE_SHORT ||
		    m->pause.looked - a->since > DRIVE_NS)
			return EAGAIN;
		urxe_duty_pause(a->dev, m, ns, &how, &a->ch->events, was);
		if (ns)
			a->since += urxe_port_now(a->dev->port) - m->pause.looked;
		if (how.signal && signals_interrupt())
			return EINTR;
	}
	return 0;
}

/* The same, but for 0: the channel has an event. */
static int wait_on_duty(struct await *a)
{
	unsigned was;
	int err;

	urxe_duty_resume(a->dev, &a->dev->service.duty.mind);
	/* What had come may be gone, with its CQ. */
	while (!urxe_channel_take(a->ch, true, &a->cq, &was)) {
		err = until_event(a, was);
		if (!err)
			continue;
		if (urxe_channel_leave(a->ch, &a->cq))
			return 0;
		if (err == EAGAIN) {
			a->on_duty = false;
			urxe_duty_give_up(a->dev);
		}
		return err;
	}
	return 0;
}

static int wait_off_duty(const struct await *a)
{
	struct pollfd fd = {.fd = a->fd, .events = POLLIN};
	struct urxe_sleep how = {.cancelable = a->cancelable};

	while (urxe_sleep_poll(&how, &fd, 1, UINT64_MAX) < 0) {
		if (errno != EINTR)
			return errno;
		if (signals_interrupt())
			return EINTR;
	}
	/* Nobody writes to it any more. */
	return fd.revents & POLLIN ? 0 : EBADF;
}

/* In the middle of a sleep. */
static void cancelled(void *arg)
{
	struct await *a = arg;

	if (a->on_duty) {
		atomic_store(&a->dev->service.asleep, false);
		urxe_channel_abandon(a->ch);
	}
	urxe_duty_leave(a->dev, a->on_duty, false);
}

int urxe_channel_await(struct ibv_comp_channel *channel, struct ibv_cq **cq)
{
	struct urxe_channel *ch = to_urxe_channel(channel);
	struct await a = {.dev = to_urxe_dev(channel->context), .ch = ch, .fd = channel->fd};
	int err, cancel;
	unsigned was;

	*cq = NULL;
	/* The read that follows answers. */
	if (urxe_device_inherited(a.dev) || urxe_channel_take(ch, false, cq, &was) || !blocks(ch))
		return 0;
	cancel = urxe_cancel_off();
	a.cancelable = cancel == PTHREAD_CANCEL_ENABLE;
	a.on_duty = urxe_duty_take(a.dev, ch);
	pthread_cleanup_push(cancelled, &a);
	err = a.on_duty ? wait_on_duty(&a) : EAGAIN;
	if (err == EAGAIN)
		err = wait_off_duty(&a);
	pthread_cleanup_pop(0);
	urxe_duty_leave(a.dev, a.on_duty, !err);
	urxe_cancel_back(cancel);
	*cq = a.cq;
	return err;
}
