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

/* A call that waits. */
struct await {
	struct urxe_device *dev;
	struct urxe_channel *ch; /* not touched off duty: it may go */
	int fd;
	bool on_duty;
	bool cancelable;
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

static bool has_event(const struct urxe_channel *ch)
{
	struct pollfd fd = {.fd = ch->channel.fd, .events = POLLIN};

	return poll(&fd, 1, 0);
}

/* Who is notified may have read the event before it is counted: so that both are done. */
static unsigned events_so_far(struct urxe_channel *ch)
{
	unsigned n;

	urxe_mutex_lock(&ch->lock);
	n = atomic_load(&ch->events);
	urxe_mutex_unlock(&ch->lock);
	return n;
}

static bool blocks(const struct urxe_channel *ch)
{
	int flags = fcntl(ch->channel.fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

/* 0: the channel has an event; EINTR; EBADF: it goes; EAGAIN: wait on, off duty. */
static int wait_on_duty(struct await *a, unsigned was)
{
	struct urxe_duty *d = &a->dev->service.duty;
	struct urxe_duty_mind *m = &d->mind;
	struct urxe_sleep how = {.cancelable = a->cancelable};
	uint64_t ns;

	urxe_duty_resume(a->dev, m);
	while (atomic_load(&a->ch->events) == was) {
		if (atomic_load(&d->evict) || atomic_load(&a->dev->service.stop))
			return EBADF;
		ns = urxe_duty_round(a->dev, m);
		if (urxe_pause_policy(&m->pause) == URXE_PAUSE_SHORT) {
			a->on_duty = false;
			urxe_duty_give_up(a->dev);
			return EAGAIN;
		}
		urxe_duty_pause(a->dev, m, ns, &how, &a->ch->events, was);
		if (how.signal && signals_interrupt())
			return EINTR;
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

	if (a->on_duty)
		atomic_store(&a->dev->service.asleep, false);
	urxe_duty_leave(a->dev, a->on_duty, false);
}

int urxe_channel_await(struct ibv_comp_channel *channel)
{
	struct urxe_channel *ch = to_urxe_channel(channel);
	struct await a = {.dev = to_urxe_dev(channel->context), .ch = ch, .fd = channel->fd};
	unsigned was = events_so_far(ch);
	int err, cancel;

	/* The read that follows answers. */
	if (urxe_device_inherited(a.dev) || has_event(ch) || !blocks(ch))
		return 0;
	cancel = urxe_cancel_off();
	a.cancelable = cancel == PTHREAD_CANCEL_ENABLE;
	a.on_duty = urxe_duty_take(a.dev, ch);
	pthread_cleanup_push(cancelled, &a);
	err = a.on_duty ? wait_on_duty(&a, was) : EAGAIN;
	if (err == EAGAIN)
		err = wait_off_duty(&a);
	pthread_cleanup_pop(0);
	urxe_duty_leave(a.dev, a.on_duty, !err);
	urxe_cancel_back(cancel);
	return err;
}
