/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event channels. The descriptor is readable while events wait: one byte lies in a socket pair
 * from the first event queued until the last is taken, however many there are. A reader takes the
 * byte before it looks, and puts it back when there is more.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm/cma.h"
#include "urxe/log.h"

struct urxe_cma_channel *urxe_cma_channel_create(void)
{
	struct urxe_cma_channel *ch = calloc(1, sizeof(*ch));
	int fds[2];

	if (!ch)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		free(ch);
		return NULL;
	}
	ch->channel.fd = fds[0];
	ch->wake_fd = fds[1];
	CDS_INIT_LIST_HEAD(&ch->events);
	return ch;
}

void urxe_cma_channel_free(struct urxe_cma_channel *ch)
{
	close(ch->channel.fd);
	close(ch->wake_fd);
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

static CDS_LIST_HEAD(dead_channels);
static unsigned n_dead;

URXE_CMA_API void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct urxe_cma_channel *ch, *old;

	if (!channel)
		return;
	ch = to_cma_channel(channel);
	urxe_cma_hold();
	ch->dead = true;
	close(ch->wake_fd); /* readers get an end of file */
	if (!ch->readers)
		close(ch->channel.fd);
	cds_list_add_tail(&ch->entry, &dead_channels);
	if (n_dead < KEEP_DEAD) {
		n_dead++;
	} else {
		old = cds_list_first_entry(&dead_channels, struct urxe_cma_channel, entry);
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
	if (ch->dead && !ch->readers)
		close(ch->channel.fd);
}

static void reader_cancelled(void *ch)
{
	urxe_cma_hold();
	reader_out(ch);
	urxe_cma_release();
}

/* Read what says that there are events: bytes, 0 for a dead channel, or -1. */
static ssize_t wait_readable(struct urxe_cma_channel *ch, bool *dead)
{
	char buf[16];
	ssize_t n;
	int err;

	urxe_cma_hold();
	*dead = ch->dead;
	ch->readers += !ch->dead;
	urxe_cma_release();
	if (*dead)
		return 0;
	pthread_cleanup_push(reader_cancelled, ch);
	n = read(ch->channel.fd, buf, sizeof(buf));
	pthread_cleanup_pop(0);
	err = errno;
	urxe_cma_hold();
	*dead = ch->dead;
	if (n > 0)
		ch->bytes -= (unsigned)n;
	reader_out(ch);
	urxe_cma_release();
	errno = err;
	return n;
}

/*
 * Locked. Make the descriptor tell the truth. Bytes that readers have read and not yet accounted
 * for count as there: those readers look next.
 */
static void set_token(struct urxe_cma_channel *ch)
{
	bool wanted = !cds_list_empty(&ch->events);
	char buf[16];
	ssize_t n;

	if (wanted && !ch->bytes) {
		if (send(ch->wake_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
			urxe_err("event channel: %s", strerror(errno));
		ch->bytes++;
	} else if (!wanted && ch->bytes) {
		n = recv(ch->channel.fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0)
			ch->bytes -= (unsigned)n;
	}
}

struct urxe_cma_event *urxe_cma_event_new(struct urxe_cma_id *id, enum rdma_cm_event_type type,
					  int status)
{
	struct urxe_cma_event *ev = calloc(1, sizeof(*ev));

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

	urxe_debug("rdma_cm: %s status %d", rdma_event_str(ev->event.event), ev->event.status);
	cds_list_add_tail(&ev->entry, &ch->events);
	set_token(ch);
}

void urxe_cma_tell(struct urxe_cma_id *id, enum rdma_cm_event_type type, int status)
{
	struct urxe_cma_event *ev = urxe_cma_event_new(id, type, status);

	if (ev)
		urxe_cma_event_post(ev);
}

/* Does the event go where the id goes? A request goes with its listener. */
static bool belongs(const struct urxe_cma_event *ev, const struct urxe_cma_id *id)
{
	return ev->owner == id;
}

void urxe_cma_events_move(struct urxe_cma_id *id, struct urxe_cma_channel *to)
{
	struct urxe_cma_channel *from = id->channel;
	struct urxe_cma_event *ev, *next;

	cds_list_for_each_entry_safe (ev, next, &from->events, entry) {
		if (!belongs(ev, id))
			continue;
		cds_list_del(&ev->entry);
		cds_list_add_tail(&ev->entry, &to->events);
	}
	set_token(from);
	set_token(to);
}

void urxe_cma_events_purge(struct urxe_cma_id *id, struct cds_list_head *orphans)
{
	struct urxe_cma_channel *ch = id->channel;
	struct urxe_cma_event *ev, *next;

	cds_list_for_each_entry_safe (ev, next, &ch->events, entry) {
		if (!belongs(ev, id))
			continue;
		cds_list_del(&ev->entry);
		if (ev->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			struct urxe_cma_id *child = to_cma_id(ev->event.id);

			cds_list_del(&child->all);
			cds_list_add_tail(&child->all, orphans);
		}
		free(ev);
	}
	set_token(ch);
}

void urxe_cma_events_purge_mcast(const struct urxe_cma_mcast *mc)
{
	struct urxe_cma_channel *ch = mc->id->channel;
	struct urxe_cma_event *ev, *next;

	cds_list_for_each_entry_safe (ev, next, &ch->events, entry) {
		if (ev->mcast != mc)
			continue;
		cds_list_del(&ev->entry);
		free(ev);
	}
	set_token(ch);
}

void urxe_cma_wait(const unsigned *events_out)
{
	while (*events_out)
		pthread_cond_wait(&urxe_cma_acked, &urxe_cma_lock);
}

/* Locked. Take the first event off the channel; NULL when there is none. */
static struct urxe_cma_event *take(struct urxe_cma_channel *ch)
{
	struct urxe_cma_event *ev;

	if (cds_list_empty(&ch->events))
		return NULL;
	ev = cds_list_first_entry(&ch->events, struct urxe_cma_event, entry);
	cds_list_del(&ev->entry);
	ev->owner->events_out++;
	if (ev->event.event == RDMA_CM_EVENT_DISCONNECTED)
		ev->owner->disconnect_taken = true;
	if (ev->mcast)
		urxe_cma_mcast_taken(ev);
	if (ev->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct urxe_cma_id *child = to_cma_id(ev->event.id);

		ev->owner->pending--;
		/* The listener may have moved since. */
		if (child->channel != ch) {
			urxe_cma_events_move(child, ch);
			child->channel = ch;
			child->id.channel = &ch->channel;
		}
	}
	return ev;
}

static void ack(struct urxe_cma_event *ev)
{
	urxe_cma_hold();
	ev->owner->events_out--;
	if (ev->mcast)
		ev->mcast->events_out--;
	pthread_cond_broadcast(&urxe_cma_acked);
	urxe_cma_release();
	free(ev);
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
		ssize_t n = wait_readable(ch, &dead);

		if (dead)
			return stay();
		if (n <= 0)
			return -1;
		err = urxe_cma_enter();
		if (err)
			return urxe_cma_ret(err);
		ev = ch->dead ? NULL : take(ch);
		set_token(ch);
		urxe_cma_leave();
	}
	/* A request that cannot have what it needs was rejected; the caller hears why. */
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

int urxe_cma_complete(struct rdma_cm_id *id)
{
	struct rdma_cm_event *ev = NULL;
	int status;

	if (!to_cma_id(id)->sync)
		return 0;
	if (id->event) {
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
	if (rdma_get_cm_event(id->channel, &ev) || !ev)
		return -1;
	id->event = ev;
	status = ev->status;
	if (!status)
		return 0;
	if (ev->event == RDMA_CM_EVENT_REJECTED)
		status = ECONNREFUSED;
	return urxe_cma_ret(status < 0 ? -status : status);
}

URXE_CMA_API const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define NAME(x) [RDMA_CM_EVENT_##x] = "RDMA_CM_EVENT_" #x
	static const char *const names[] = {
		NAME(ADDR_RESOLVED),  NAME(ADDR_ERROR),	     NAME(ROUTE_RESOLVED),
		NAME(ROUTE_ERROR),    NAME(CONNECT_REQUEST), NAME(CONNECT_RESPONSE),
		NAME(CONNECT_ERROR),  NAME(UNREACHABLE),     NAME(REJECTED),
		NAME(ESTABLISHED),    NAME(DISCONNECTED),    NAME(DEVICE_REMOVAL),
		NAME(MULTICAST_JOIN), NAME(MULTICAST_ERROR), NAME(ADDR_CHANGE),
		NAME(TIMEWAIT_EXIT),
	};
#undef NAME

	if ((unsigned)event >= sizeof(names) / sizeof(names[0]) || !names[event])
		return "UNKNOWN EVENT";
	return names[event];
}
