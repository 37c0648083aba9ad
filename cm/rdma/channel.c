/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event channels. The descriptor, an eventfd, is readable while events wait: it holds a token from
 * the first event queued until the last is taken, however many there are. A thread that waits for
 * events drives the device for a moment, and then sleeps in read(): it takes the token before it
 * looks, and puts it back when there is more. What such a thread, or a synchronous call, finds
 * before it sleeps, it takes at once, with no token in between.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "cm/core/trace.h"
#include "cm/rdma/cma.h"
#include "provider/gsi.h"
#include "urxe/cancel.h"
#include "urxe/inode.h"

#define DRIVE_NS    200000u /* some round trips, and what the peer's application does in between */
#define YIELD_AFTER 256	    /* turns that found nothing: the peer may share the core */

/* Those that are not destroyed. Guarded by urxe_cma_lock. */
static CDS_LIST_HEAD(living);

/*
 * A descriptor that parent and child share has one token for both. So in the child a channel that
 * it may use gets another one under the same number; the parent's others are not read there.
 */
static void renew(struct urxe_cma_channel *ch) URXE_REQUIRES(urxe_cma_lock)
{
	int fd = eventfd(0, EFD_CLOEXEC), flags = fcntl(ch->channel.fd, F_GETFL);
	struct urxe_inode new;

	/* Under the number there may be something else, where a program closes all there is. */
	if (fd >= 0 && flags >= 0 && urxe_inode_of(fd, &new) &&
	    urxe_inode_in(ch->channel.fd, &new) && dup3(fd, ch->channel.fd, O_CLOEXEC) >= 0) {
		fcntl(ch->channel.fd, F_SETFL, flags & O_NONBLOCK);
		ch->token = false;
		ch->readers = ch->drivers = ch->sleepers = 0;
		urxe_cma_set_token(ch);
	}
	if (fd >= 0)
		close(fd);
}

/*
 * Descriptors for channels to come. Who makes connections one after the other, each id with a
 * channel of its own, waits for peers in between: that is when the next descriptor is made. There
 * are never more than channels have been freed. Those are closed, and not used once more: they may
 * be in the application's epoll sets. Guarded by urxe_cma_lock, but for a look at @wanted.
 */
#define STOCK 4
static struct {
	int fds[STOCK];
	unsigned n;
	atomic_uint wanted;
} stock;

static void restock(void)
{
	int fd;

	if (!atomic_load_explicit(&stock.wanted, memory_order_relaxed))
		return;
	fd = eventfd(0, EFD_CLOEXEC);
	urxe_cma_hold();
	if (fd >= 0 && stock.wanted && stock.n < STOCK) {
		stock.fds[stock.n++] = fd;
		fd = -1;
	}
	stock.wanted -= !!stock.wanted;
	urxe_cma_release();
	if (fd >= 0)
		close(fd);
}

/* In a child: they are the parent's. */
static void drop_stock(void)
{
	while (stock.n)
		close(stock.fds[--stock.n]);
	atomic_store(&stock.wanted, 0);
}

static void forked(bool begun) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_channel *ch;

	drop_stock();
	pthread_cond_init(&urxe_cma_acked, NULL);
	if (begun) {
		CDS_INIT_LIST_HEAD(&living);
		CDS_INIT_LIST_HEAD(&urxe_cma_ids);
		CDS_INIT_LIST_HEAD(&urxe_cma_leaving);
		return;
	}
	cds_list_for_each_entry (ch, &living, entry)
		renew(ch);
}

struct urxe_cma_channel *urxe_cma_channel_create(void)
{
	struct urxe_cma_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	urxe_cma_hold();
	ch->channel.fd = stock.n ? stock.fds[--stock.n] : -1;
	urxe_cma_release();
	if (ch->channel.fd < 0)
		ch->channel.fd = eventfd(0, EFD_CLOEXEC);
	if (ch->channel.fd < 0) {
		free(ch);
		return NULL;
	}
	CDS_INIT_LIST_HEAD(&ch->events);
	urxe_cma_hold();
	urxe_cma_on_child(forked);
	ch->life = urxe_cma_life();
	cds_list_add_tail(&ch->entry, &living);
	urxe_cma_release();
	return ch;
}

int urxe_cma_channel_check(const struct urxe_cma_channel *ch)
{
	return ch->life == urxe_cma_life() ? 0 : EIO;
}

void urxe_cma_channel_free(struct urxe_cma_channel *ch)
{
	urxe_cma_hold();
	cds_list_del(&ch->entry);
	if (stock.n + atomic_load(&stock.wanted) < STOCK)
		atomic_fetch_add(&stock.wanted, 1);
	urxe_cma_release();
	close(ch->channel.fd);
	free(ch);
}

URXE_CMA_API struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct urxe_cma_channel *ch;
	int err = urxe_cma_enter();

	if (err) {
		errno = err;
		return NULL;
	}
	urxe_cma_leave();
	ch = urxe_cma_channel_create();
	return ch ? &ch->channel : NULL;
}

/*
 * Programs destroy their channel at their end with an event thread in rdma_get_cm_event(), or
 * just about to call it, and expect that thread to stay there, as it does in the kernel (rping).
 * So the last few dead channels are kept to be recognised, and a reader closes what it reads.
 */
#define KEEP_DEAD 64

static struct {
	struct cds_list_head list;
	unsigned n;
} buried = {.list = CDS_LIST_HEAD_INIT(buried.list)};

/* Locked. */
static void write_token(struct urxe_cma_channel *ch)
{
	uint64_t one = 1;

	if (write(ch->channel.fd, &one, sizeof(one)) != sizeof(one))
		urxe_err("event channel: %s", strerror(errno));
	ch->token = true;
}

/* Locked. */
static void put_token(struct urxe_cma_channel *ch)
{
	if (!ch->token)
		write_token(ch);
}

URXE_CMA_API void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct urxe_cma_channel *ch, *old;

	if (!channel)
		return;
	ch = to_cma_channel(channel);
	urxe_cma_hold();
	if (urxe_cma_channel_check(ch)) {
		urxe_cma_release();
		close(channel->fd);
		return;
	}
	ch->dead = true;
	cds_list_del(&ch->entry);
	if (ch->readers)
		put_token(ch); /* each passes it on to the next */
	else
		close(ch->channel.fd);
	cds_list_add_tail(&ch->entry, &buried.list);
	if (buried.n < KEEP_DEAD) {
		buried.n++;
	} else {
		old = cds_list_first_entry(&buried.list, struct urxe_cma_channel, entry);
		cds_list_del(&old->entry);
		/* A reader of it may be asleep for good. */
		if (!old->readers)
			free(old);
	}
	urxe_cma_release();
}

/* Wait for the process to end, or a signal. */
static int stay(void)
{
	return poll(NULL, 0, -1);
}

/* Locked. */
static void reader_out(struct urxe_cma_channel *ch)
{
	ch->readers--;
	if (ch->dead && ch->readers)
		put_token(ch);
	else if (ch->dead)
		close(ch->channel.fd);
}

static void sleeper_cancelled(void *arg)
{
	struct urxe_cma_channel *ch = arg;

	urxe_cma_hold();
	ch->sleepers--;
	reader_out(ch);
	urxe_cma_release();
}

/*
 * Locked. Make the descriptor readable, or not, as it should be. A token that a sleeper has read
 * and not yet accounted for counts as there: the sleeper looks next. A driver looks next, too.
 */
void urxe_cma_set_token(struct urxe_cma_channel *ch)
{
	bool ready = !cds_list_empty(&ch->events);
	uint64_t v;

	if (ch->dead)
		return;
	atomic_store(&ch->ready, ready);
	if (ready && !ch->drivers) {
		put_token(ch);
	} else if (ch->token && !ch->sleepers) {
		/* Nobody else reads it: this does not wait. */
		if (read(ch->channel.fd, &v, sizeof(v)) == sizeof(v))
			ch->token = false;
	}
}

/* O_NONBLOCK is the application's to set, and looked at when it is worth a system call. */
static bool blocks(struct urxe_cma_channel *ch)
{
	bool nonblock = fcntl(ch->channel.fd, F_GETFL) & O_NONBLOCK;

	atomic_store_explicit(&ch->nonblock, nonblock, memory_order_relaxed);
	return !nonblock;
}

/* Turns, until there is an event, for as long as that is worth it. */
static void take_turns(struct urxe_cma_channel *ch, const struct urxe_cma_drive *d, bool block)
{
	uint64_t until = d->n && block ? urxe_gsi_now(d->verbs[0]) + DRIVE_NS : 0;
	unsigned turns = 0, idle = 0;

	do {
		if (urxe_cma_drive_turn(d))
			idle = 0;
		else if (++idle == 1)
			restock();
		else if (idle >= YIELD_AFTER)
			sched_yield();
		if (++turns == YIELD_AFTER && !blocks(ch))
			return;
	} while (!atomic_load(&ch->ready) && until && urxe_gsi_now(d->verbs[0]) < until);
}

/* Sleep until the descriptor is readable, so that there are events. 0 or errno. */
static int sleep_for_token(struct urxe_cma_channel *ch)
{
	uint64_t v;
	ssize_t n;
	int err;

	pthread_cleanup_push(sleeper_cancelled, ch);
	n = read(ch->channel.fd, &v, sizeof(v));
	pthread_cleanup_pop(0);
	err = n < 0 ? errno : 0;
	urxe_cma_hold();
	ch->sleepers--;
	if (n > 0)
		ch->token = false;
	reader_out(ch);
	if (ch->dead)
		err = 0;
	urxe_cma_release();
	return err;
}

/* A reader that has found no event begins to drive. Locked. */
static void begin_wait(struct urxe_cma_channel *ch, struct urxe_cma_drive *d)
	URXE_REQUIRES(urxe_cma_lock)
{
	ch->readers++;
	ch->drivers++;
	urxe_cma_drive_begin(d);
	urxe_cma_set_token(ch);
}

/* One that drove looks now. Locked. */
static void end_wait(struct urxe_cma_channel *ch)
{
	ch->drivers--;
	reader_out(ch);
}

/*
 * After begin_wait(): the waiting thread drives the device for as long as an answer takes when all
 * goes well: the service thread, and waking us, would take longer. Then it sleeps. 0 when it is
 * worth looking, or an errno. @drives: it is among the readers and drivers still, so that what it
 * takes needs no token, and end_wait() is to come.
 */
static int wait_events(struct urxe_cma_channel *ch, const struct urxe_cma_drive *d, bool *drives)
{
	/* Mostly what it was. */
	bool block = !atomic_load_explicit(&ch->nonblock, memory_order_relaxed) || blocks(ch);
	int cancel = urxe_cancel_off();

	take_turns(ch, d, block);
	*drives = atomic_load(&ch->ready);
	if (!*drives) {
		urxe_cma_hold();
		*drives = atomic_load(&ch->ready) || ch->dead;
		if (!*drives) {
			ch->drivers--;
			ch->sleepers++;
		}
		urxe_cma_release();
	}
	urxe_cma_drive_end(d, !*drives);
	urxe_cancel_back(cancel);
	return *drives ? 0 : sleep_for_token(ch);
}

void urxe_cma_event_post(struct urxe_cma_event *ev)
{
	struct urxe_cma_channel *ch = ev->owner->channel;

	urxe_trace_rdma_event(ev->event.id, rdma_event_str(ev->event.event), ev->event.status);
	to_cma_id(ev->event.id)->last_event = rdma_event_str(ev->event.event);
	cds_list_add_tail(&ev->entry, &ch->events);
	cds_list_add_tail(&ev->own, &ev->owner->events);
	/*
	 * Each event is an edge, as it is of the kernel's channels: a program with EPOLLET that
	 * takes one event a wake-up is woken for the next. What is written twice is read at once; a
	 * sleeper that has read looks next, and its token may not come back behind it.
	 */
	if (ch->token && !ch->dead && !ch->drivers && !ch->sleepers)
		write_token(ch);
	urxe_cma_set_token(ch);
}

void urxe_cma_move(struct urxe_cma_id *id, struct urxe_cma_channel *to)
{
	struct urxe_cma_channel *from = id->channel;
	struct urxe_cma_event *ev;

	if (from == to)
		return;
	cds_list_for_each_entry (ev, &id->events, own) {
		cds_list_del(&ev->entry);
		cds_list_add_tail(&ev->entry, &to->events);
		/* The id of a request that nobody has taken goes with its listener. */
		if (ev->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			urxe_cma_move(to_cma_id(ev->event.id), to);
	}
	id->channel = to;
	id->id.channel = &to->channel;
	urxe_cma_set_token(from);
	urxe_cma_set_token(to);
}

/* Locked. Take the first event off the channel; NULL when there is none. */
static struct urxe_cma_event *take(struct urxe_cma_channel *ch) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_event *ev;

	if (cds_list_empty(&ch->events))
		return NULL;
	ev = cds_list_first_entry(&ch->events, struct urxe_cma_event, entry);
	urxe_cma_event_unqueue(ev);
	cds_list_add_tail(&ev->own, &ev->owner->taken);
	ev->owner->events_out++;
	if (ev->event.event == RDMA_CM_EVENT_DISCONNECTED)
		ev->owner->disconnect_taken = true;
	if (ev->mcast)
		urxe_cma_mcast_taken(ev);
	if (ev->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct urxe_cma_id *child = to_cma_id(ev->event.id);

		urxe_cma_backlog_count(ev->owner, child, -1);
		urxe_cma_backlog_admit(ev->owner);
	}
	return ev;
}

/* A request to a synchronous listener: the new id gets a channel of its own. */
static int give_channel(struct urxe_cma_event *ev)
{
	struct urxe_cma_id *child = to_cma_id(ev->event.id);
	struct urxe_cma_channel *ch;

	if (ev->event.event != RDMA_CM_EVENT_CONNECT_REQUEST || !ev->owner->sync)
		return 0;
	ch = urxe_cma_channel_create();
	if (!ch) {
		int err = errno;

		rdma_destroy_id(&child->id);
		return err;
	}
	urxe_cma_hold();
	urxe_cma_move(child, ch);
	child->sync = true;
	urxe_cma_release();
	return 0;
}

/* A request that cannot have what it needs was rejected; the caller gets the reason. */
static int hand_out(struct urxe_cma_event *ev, struct rdma_cm_event **event)
{
	int err = give_channel(ev);

	if (err) {
		rdma_ack_cm_event(&ev->event);
		errno = err;
		return -1;
	}
	*event = &ev->event;
	return 0;
}

URXE_CMA_API int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct urxe_cma_channel *ch;
	struct urxe_cma_event *ev = NULL;
	struct urxe_cma_drive d;
	bool dead, drives = false;
	int err;

	if (!channel || !event)
		return urxe_cma_ret(EINVAL);
	ch = to_cma_channel(channel);
	while (!ev) {
		err = urxe_cma_enter();
		if (err)
			return urxe_cma_ret(err);
		err = urxe_cma_channel_check(ch);
		if (err) {
			urxe_cma_leave();
			return urxe_cma_ret(err);
		}
		if (drives)
			end_wait(ch);
		dead = ch->dead;
		ev = dead ? NULL : take(ch);
		if (ev)
			urxe_cma_set_token(ch);
		else if (!dead)
			begin_wait(ch, &d);
		urxe_cma_leave();
		if (dead)
			return stay();
		err = ev ? 0 : wait_events(ch, &d, &drives);
		if (err)
			return urxe_cma_ret(err);
	}
	return hand_out(ev, event);
}

/* The event that a call has waited for: the id keeps it. */
static int completed(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	int status = ev->status;

	id->event = ev;
	/* Not what the call waits for, whatever it is. */
	if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		status = ENODEV;
	if (!status)
		return 0;
	if (ev->event == RDMA_CM_EVENT_REJECTED)
		status = ECONNREFUSED;
	return urxe_cma_ret(status < 0 ? -status : status);
}

int urxe_cma_complete(struct rdma_cm_id *id)
{
	struct rdma_cm_event *ev = NULL;

	if (id->event) {
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
	return rdma_get_cm_event(id->channel, &ev) || !ev ? -1 : completed(id, ev);
}

int urxe_cma_begin_wait(const struct rdma_cm_id *id)
{
	int err = urxe_cma_begin(id);

	if (!err)
		urxe_cma_looks(caa_container_of(id, struct urxe_cma_id, id));
	return err;
}

void urxe_cma_looks(const struct urxe_cma_id *id)
{
	if (id->sync)
		id->channel->drivers++;
}

int urxe_cma_end_wait(struct rdma_cm_id *id, int err)
{
	struct urxe_cma_id *p = to_cma_id(id);
	bool wait = !err && p->sync;
	struct urxe_cma_event *ev = NULL;
	struct rdma_cm_event *event = NULL;

	if (wait && !cds_list_empty(&p->channel->events)) {
		if (id->event)
			urxe_cma_ack(caa_container_of(id->event, struct urxe_cma_event, event));
		id->event = NULL;
		ev = take(p->channel);
	}
	if (p->sync) {
		p->channel->drivers--;
		urxe_cma_set_token(p->channel);
	}
	urxe_cma_release();
	if (ev)
		return hand_out(ev, &event) ? -1 : completed(id, event);
	return wait ? urxe_cma_complete(id) : urxe_cma_ret(err);
}
