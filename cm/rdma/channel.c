/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event channels. The descriptor, an eventfd, is readable while events wait: it holds a token from
 * the first event queued until the last is taken, however many there are. A thread that waits for
 * events drives the device for a moment, and then sleeps in read(): it takes the token before it
 * looks, and puts it back when there is more.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cm/core/trace.h"
#include "cm/rdma/cma.h"
#include "provider/gsi.h"

pthread_cond_t urxe_cma_acked = PTHREAD_COND_INITIALIZER;

#define WARN_AFTER_S 1	     /* that rdma_destroy_id() waits for events to be acked */
#define DRIVE_NS     200000u /* some round trips, and what the peer's application does in between */
#define YIELD_AFTER  256     /* turns that found nothing: the peer may share the core */

static void set_token(struct urxe_cma_channel *ch);

/* Those that are not destroyed. Guarded by urxe_cma_lock. */
static CDS_LIST_HEAD(living);

/*
 * A descriptor that parent and child share has one token for both. So in the child a channel that
 * it may use gets another one under the same number; the parent's others are not read there.
 */
static void renew(struct urxe_cma_channel *ch)
{
	int fd = eventfd(0, EFD_CLOEXEC), flags = fcntl(ch->channel.fd, F_GETFL);
	struct stat old, new;

	/* Under the number there may be something else, where a program closes all there is. */
	if (fd >= 0 && flags >= 0 && !fstat(ch->channel.fd, &old) && !fstat(fd, &new) &&
	    old.st_dev == new.st_dev &&
	    old.st_ino == new.st_ino &&dup3(fd, ch->channel.fd, O_CLOEXEC) >= 0) {
		fcntl(ch->channel.fd, F_SETFL, flags & O_NONBLOCK);
		ch->token = false;
		ch->readers = ch->drivers = ch->sleepers = 0;
		set_token(ch);
	}
	if (fd >= 0)
		close(fd);
}

static void forked(bool begun)
{
	struct urxe_cma_channel *ch;

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
static void set_token(struct urxe_cma_channel *ch)
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

/*
 * The waiting thread drives the device for as long as an answer takes when all goes well: the
 * service thread, and waking us, would take longer. True: there is something to look at.
 */
static bool drive(struct urxe_cma_channel *ch)
{
	bool nonblock = fcntl(ch->channel.fd, F_GETFL) & O_NONBLOCK;
	struct urxe_cma_drive d;
	unsigned idle = 0;
	uint64_t until;
	bool ready;

	urxe_cma_hold();
	urxe_cma_drive_begin(&d);
	ch->drivers++;
	set_token(ch);
	urxe_cma_release();
	until = d.n && !nonblock ? urxe_gsi_now(d.verbs[0]) + DRIVE_NS : 0;
	do {
		if (urxe_cma_drive_turn(&d))
			idle = 0;
		else if (++idle >= YIELD_AFTER)
			sched_yield();
	} while (!atomic_load(&ch->ready) && until && urxe_gsi_now(d.verbs[0]) < until);
	urxe_cma_hold();
	ch->drivers--;
	set_token(ch);
	ready = atomic_load(&ch->ready) || ch->dead;
	ch->sleepers += !ready;
	urxe_cma_release();
	urxe_cma_drive_end(&d, !ready);
	return ready;
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
	urxe_cma_release();
	return err;
}

/* Wait for events, as one of the channel's readers. 0 when it is worth looking, or an errno. */
static int wait_events(struct urxe_cma_channel *ch)
{
	int old, err = 0;
	bool dead, ready;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	ready = drive(ch);
	pthread_setcancelstate(old, &old);
	if (!ready)
		err = sleep_for_token(ch);
	urxe_cma_hold();
	reader_out(ch);
	dead = ch->dead;
	urxe_cma_release();
	return dead ? 0 : err;
}

/*
 * Somebody waits for an event, and for ever when it does not come. So an id has some in stock from
 * the beginning, and what was acknowledged fills it up again.
 */
static void put_in_stock(struct urxe_cma_id *id, struct urxe_cma_event *ev)
{
	cds_list_add(&ev->entry, &id->stock);
	id->stocked++;
}

static struct urxe_cma_event *take_from_stock(struct urxe_cma_id *id)
{
	struct urxe_cma_event *ev;

	if (!id->stocked)
		return NULL;
	ev = cds_list_first_entry(&id->stock, struct urxe_cma_event, entry);
	cds_list_del(&ev->entry);
	id->stocked--;
	memset(ev, 0, sizeof(*ev));
	return ev;
}

int urxe_cma_stock(struct urxe_cma_id *id, unsigned n)
{
	for (; n; n--) {
		struct urxe_cma_event *ev = calloc(1, sizeof(*ev));

		if (!ev)
			return ENOMEM;
		put_in_stock(id, ev);
		id->stock_size++;
	}
	return 0;
}

void urxe_cma_stock_free(struct urxe_cma_id *id)
{
	struct urxe_cma_event *ev;

	while ((ev = take_from_stock(id)))
		free(ev);
}

/* Locked; on no list. */
static void event_free(struct urxe_cma_event *ev)
{
	if (ev->owner->stocked < ev->owner->stock_size)
		put_in_stock(ev->owner, ev);
	else
		free(ev);
}

struct urxe_cma_event *urxe_cma_event_new(struct urxe_cma_id *id, enum rdma_cm_event_type type,
					  int status)
{
	struct urxe_cma_event *ev = calloc(1, sizeof(*ev));

	if (!ev)
		ev = take_from_stock(id);
	if (!ev) {
		urxe_err("rdma_cm: out of memory: %s is lost", rdma_event_str(type));
		return NULL;
	}
	ev->owner = id;
	ev->event.id = &id->id;
	ev->event.event = type;
	ev->event.status = status;
	return ev;
}

void urxe_cma_event_data(struct urxe_cma_event *ev, const void **data, uint8_t *data_len,
			 const void *src, uint8_t len)
{
	if (!src || !len)
		return;
	memcpy(ev->private_data, src, len);
	*data = ev->private_data;
	*data_len = len;
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
	set_token(ch);
}

static void unqueue(struct urxe_cma_event *ev)
{
	cds_list_del(&ev->entry);
	cds_list_del(&ev->own);
}

void urxe_cma_tell(struct urxe_cma_id *id, enum rdma_cm_event_type type, int status)
{
	struct urxe_cma_event *ev = urxe_cma_event_new(id, type, status);

	if (ev)
		urxe_cma_event_post(ev);
}

void urxe_cma_events_move(struct urxe_cma_id *id, struct urxe_cma_channel *to)
{
	struct urxe_cma_channel *from = id->channel;
	struct urxe_cma_event *ev;

	cds_list_for_each_entry (ev, &id->events, own) {
		cds_list_del(&ev->entry);
		cds_list_add_tail(&ev->entry, &to->events);
	}
	set_token(from);
	set_token(to);
}

void urxe_cma_events_purge(struct urxe_cma_id *id, struct cds_list_head *orphans)
{
	struct urxe_cma_event *ev, *next;

	cds_list_for_each_entry_safe (ev, next, &id->events, own) {
		unqueue(ev);
		if (ev->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			struct urxe_cma_id *child = to_cma_id(ev->event.id);

			cds_list_del(&child->all);
			cds_list_add_tail(&child->all, orphans);
		}
		event_free(ev);
	}
	set_token(id->channel);
}

void urxe_cma_events_purge_mcast(const struct urxe_cma_mcast *mc)
{
	struct urxe_cma_event *ev, *next;

	cds_list_for_each_entry_safe (ev, next, &mc->id->events, own) {
		if (ev->mcast != mc)
			continue;
		unqueue(ev);
		event_free(ev);
	}
	set_token(mc->id->channel);
}

/* The field's favourite question is why rdma_destroy_id() hangs: it waits for these events. */
static void warn_unacked(const struct urxe_cma_id *id, const struct urxe_cma_mcast *mc,
			 const char *call) URXE_REQUIRES(urxe_cma_lock)
{
	char local[URXE_REPORT_ADDR_LEN], peer[URXE_REPORT_ADDR_LEN], names[256] = "";
	const struct urxe_cma_event *ev;
	size_t len = 0;

	urxe_cma_addr_print(&id->id.route.addr.src_addr, &id->sgid, local);
	urxe_cma_addr_print(&id->id.route.addr.dst_addr, &id->dgid, peer);
	cds_list_for_each_entry (ev, &id->taken, own) {
		if ((mc && ev->mcast != mc) || len >= sizeof(names))
			continue;
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "",
					rdma_event_str(ev->event.event));
	}
	urxe_warn("%s waits for rdma_ack_cm_event(): id %p, %s to %s has %u unacked: %s", call,
		  (const void *)&id->id, local, peer, mc ? mc->events_out : id->events_out, names);
}

void urxe_cma_wait(const struct urxe_cma_id *id, const struct urxe_cma_mcast *mc, const char *call)
{
	const unsigned *out = mc ? &mc->events_out : &id->events_out;
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WARN_AFTER_S;
	while (*out) {
		if (urxe_mutex_timedwait(&urxe_cma_lock, &urxe_cma_acked, &until) && *out)
			break;
	}
	if (*out)
		warn_unacked(id, mc, call);
	while (*out)
		urxe_mutex_wait(&urxe_cma_lock, &urxe_cma_acked);
}

/* Locked. Take the first event off the channel; NULL when there is none. */
static struct urxe_cma_event *take(struct urxe_cma_channel *ch) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_event *ev;

	if (cds_list_empty(&ch->events))
		return NULL;
	ev = cds_list_first_entry(&ch->events, struct urxe_cma_event, entry);
	unqueue(ev);
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
		/* The listener may have moved since. */
		if (child->channel != ch) {
			urxe_cma_events_move(child, ch);
			child->channel = ch;
			child->id.channel = &ch->channel;
		}
	}
	return ev;
}

void urxe_cma_ack(struct urxe_cma_event *ev)
{
	cds_list_del(&ev->own);
	ev->owner->events_out--;
	if (ev->mcast)
		ev->mcast->events_out--;
	event_free(ev);
	pthread_cond_broadcast(&urxe_cma_acked);
}

static void ack(struct urxe_cma_event *ev)
{
	urxe_cma_hold();
	if (ev->owner->life == urxe_cma_life())
		urxe_cma_ack(ev);
	urxe_cma_release();
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
	urxe_cma_events_move(child, ch);
	child->channel = ch;
	child->id.channel = &ch->channel;
	child->sync = true;
	urxe_cma_release();
	return 0;
}

URXE_CMA_API int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct urxe_cma_channel *ch;
	struct urxe_cma_event *ev = NULL;
	bool dead;
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
		dead = ch->dead;
		ev = dead ? NULL : take(ch);
		if (ev)
			set_token(ch);
		ch->readers += !ev && !dead;
		urxe_cma_leave();
		if (dead)
			return stay();
		err = ev ? 0 : wait_events(ch);
		if (err)
			return urxe_cma_ret(err);
	}
	/* A request that cannot have what it needs was rejected; the caller gets the reason. */
	err = give_channel(ev);
	if (err) {
		ack(ev);
		return urxe_cma_ret(err);
	}
	*event = &ev->event;
	return 0;
}

URXE_CMA_API int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!event)
		return urxe_cma_ret(EINVAL);
	ack(caa_container_of(event, struct urxe_cma_event, event));
	return 0;
}

static int write_event(struct urxe_cma_id *id, int status, uint64_t arg)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_event *ev = urxe_cma_event_new(id, URXE_CMA_EVENT_USER, status);

	if (!ev)
		return ENOMEM;
	/* A member of the union in later headers. */
	memcpy(&ev->event.param, &arg, sizeof(arg));
	urxe_cma_event_post(ev);
	return 0;
}

URXE_CMA_API int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event,
				     int status, uint64_t arg)
{
	int err = urxe_cma_begin(event == URXE_CMA_EVENT_USER ? id : NULL);

	if (!err)
		err = urxe_cma_end(write_event(to_cma_id(id), status, arg));
	return urxe_cma_ret(err);
}

int urxe_cma_complete(struct rdma_cm_id *id)
{
	struct rdma_cm_event *ev = NULL;
	int status;

	if (id->event) {
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
	if (rdma_get_cm_event(id->channel, &ev) || !ev)
		return -1;
	id->event = ev;
	status = ev->status;
	/* Not what the call waits for, whatever it is. */
	if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		status = ENODEV;
	if (!status)
		return 0;
	if (ev->event == RDMA_CM_EVENT_REJECTED)
		status = ECONNREFUSED;
	return urxe_cma_ret(status < 0 ? -status : status);
}

URXE_CMA_API const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define NAME(x)	 [RDMA_CM_EVENT_##x] = "RDMA_CM_EVENT_" #x
#define LATER(x) [URXE_CMA_EVENT_##x] = "RDMA_CM_EVENT_" #x
	static const char *const names[] = {
		NAME(ADDR_RESOLVED),  NAME(ADDR_ERROR),		NAME(ROUTE_RESOLVED),
		NAME(ROUTE_ERROR),    NAME(CONNECT_REQUEST),	NAME(CONNECT_RESPONSE),
		NAME(CONNECT_ERROR),  NAME(UNREACHABLE),	NAME(REJECTED),
		NAME(ESTABLISHED),    NAME(DISCONNECTED),	NAME(DEVICE_REMOVAL),
		NAME(MULTICAST_JOIN), NAME(MULTICAST_ERROR),	NAME(ADDR_CHANGE),
		NAME(TIMEWAIT_EXIT),  LATER(ADDRINFO_RESOLVED), LATER(ADDRINFO_ERROR),
		LATER(USER),
	};
#undef LATER
#undef NAME

	if ((unsigned)event >= sizeof(names) / sizeof(names[0]) || !names[event])
		return "UNKNOWN EVENT";
	return names[event];
}
