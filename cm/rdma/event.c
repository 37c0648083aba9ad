/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Events: their making, with a stock for when there is no memory, and their end. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cm/core/trace.h"
#include "cm/rdma/cma.h"

pthread_cond_t urxe_cma_acked = PTHREAD_COND_INITIALIZER;

#define WARN_AFTER_S 1 /* that rdma_destroy_id() waits for events to be acked */

/*
 * Somebody waits for an event, and for ever when it does not come. So an id has some in stock from
 * the beginning, which are its first, and are back in it when they were acknowledged.
 */
static bool is_own(const struct urxe_cma_id *id, const struct urxe_cma_event *ev)
{
	return ev >= id->own_events && ev < id->own_events + URXE_CMA_STOCK;
}

static void put_in_stock(struct urxe_cma_id *id, struct urxe_cma_event *ev)
{
	cds_list_add(&ev->entry, &id->stock);
	id->more_stocked += !is_own(id, ev);
}

static struct urxe_cma_event *take_from_stock(struct urxe_cma_id *id)
{
	struct urxe_cma_event *ev;

	if (cds_list_empty(&id->stock))
		return NULL;
	ev = cds_list_first_entry(&id->stock, struct urxe_cma_event, entry);
	cds_list_del(&ev->entry);
	id->more_stocked -= !is_own(id, ev);
	return ev;
}

void urxe_cma_stock_own(struct urxe_cma_id *id)
{
	CDS_INIT_LIST_HEAD(&id->stock);
	for (unsigned i = 0; i < URXE_CMA_STOCK; i++)
		put_in_stock(id, &id->own_events[i]);
}

int urxe_cma_stock(struct urxe_cma_id *id)
{
	struct urxe_cma_event *ev = malloc(sizeof(*ev));

	if (!ev)
		return ENOMEM;
	id->more++;
	put_in_stock(id, ev);
	return 0;
}

void urxe_cma_unstock(struct urxe_cma_id *id)
{
	struct urxe_cma_event *ev;

	id->more--;
	if (id->more_stocked <= id->more)
		return;
	cds_list_for_each_entry (ev, &id->stock, entry) {
		if (is_own(id, ev))
			continue;
		cds_list_del(&ev->entry);
		id->more_stocked--;
		free(ev);
		return;
	}
}

void urxe_cma_stock_free(struct urxe_cma_id *id)
{
	struct urxe_cma_event *ev;

	while ((ev = take_from_stock(id)))
		if (!is_own(id, ev))
			free(ev);
}

/* Locked; on no list. */
static void event_free(struct urxe_cma_event *ev)
{
	struct urxe_cma_id *id = ev->owner;

	if (is_own(id, ev) || id->more_stocked < id->more)
		put_in_stock(id, ev);
	else
		free(ev);
}

static void init(struct urxe_cma_event *ev, struct urxe_cma_id *owner, struct urxe_cma_id *id,
		 enum rdma_cm_event_type type, int status)
{
	/* But for the private data, whose length is 0. */
	memset(ev, 0, offsetof(struct urxe_cma_event, private_data));
	ev->owner = owner;
	ev->event.id = &id->id;
	ev->event.event = type;
	ev->event.status = status;
}

struct urxe_cma_event *urxe_cma_event_new(struct urxe_cma_id *id, enum rdma_cm_event_type type,
					  int status)
{
	/* Of the application's own there may be any number: these are not what the stock is for. */
	struct urxe_cma_event *ev = type == URXE_CMA_EVENT_USER ? NULL : take_from_stock(id);

	if (!ev)
		ev = malloc(sizeof(*ev));
	if (!ev) {
		urxe_err("rdma_cm: out of memory: %s is lost", rdma_event_str(type));
		return NULL;
	}
	init(ev, id, id, type, status);
	return ev;
}

struct urxe_cma_event *urxe_cma_event_request(struct urxe_cma_id *listener, struct urxe_cma_id *id)
{
	/* Of nobody's stock: the listener's is for what comes once, and the id may go first. */
	struct urxe_cma_event *ev = malloc(sizeof(*ev));

	if (!ev)
		return NULL;
	init(ev, listener, id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ev->event.listen_id = &listener->id;
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

void urxe_cma_tell(struct urxe_cma_id *id, enum rdma_cm_event_type type, int status)
{
	struct urxe_cma_event *ev = urxe_cma_event_new(id, type, status);

	if (ev)
		urxe_cma_event_post(ev);
}

void urxe_cma_event_unqueue(struct urxe_cma_event *ev)
{
	cds_list_del(&ev->entry);
	cds_list_del(&ev->own);
}

void urxe_cma_events_purge(struct urxe_cma_id *id, struct cds_list_head *orphans)
{
	struct urxe_cma_event *ev, *next;

	cds_list_for_each_entry_safe (ev, next, &id->events, own) {
		urxe_cma_event_unqueue(ev);
		if (ev->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			struct urxe_cma_id *child = to_cma_id(ev->event.id);

			cds_list_del(&child->all);
			cds_list_add_tail(&child->all, orphans);
		}
		event_free(ev);
	}
	urxe_cma_set_token(id->channel);
}

void urxe_cma_events_purge_mcast(const struct urxe_cma_mcast *mc)
{
	struct urxe_cma_event *ev, *next;

	cds_list_for_each_entry_safe (ev, next, &mc->id->events, own) {
		if (ev->mcast != mc)
			continue;
		urxe_cma_event_unqueue(ev);
		event_free(ev);
	}
	urxe_cma_set_token(mc->id->channel);
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
		if (urxe_cma_await(&urxe_cma_acked, &until) && *out)
			break;
	}
	if (*out)
		warn_unacked(id, mc, call);
	while (*out)
		urxe_cma_await(&urxe_cma_acked, NULL);
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
