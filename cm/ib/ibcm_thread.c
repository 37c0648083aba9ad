/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The thread that calls the consumers of ib_cm. Not the device's service thread: a callback may
 * block, and may call us again, while MADs are answered and timers run.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "cm/ib/ibcm.h"
#include "urxe/thread.h"

/* One for all ids, for they have nothing else in common. Guarded by urxe_cma_lock. */
static struct {
	bool started;
	pthread_t thread;
	struct cds_list_head events;
	struct urxe_ibcm_event *now; /* whose callback runs */
	bool free_now;		     /* it destroyed its own id */
	pthread_cond_t more, done;
} caller = {
	.events = CDS_LIST_HEAD_INIT(caller.events),
	.more = PTHREAD_COND_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER,
};

static bool by_caller(void)
{
	return caller.started && pthread_equal(caller.thread, pthread_self());
}

/* The next event, whose callback is to run. */
static struct urxe_ibcm_event *next_event(void) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_ibcm_event *e;

	while (cds_list_empty(&caller.events))
		urxe_cma_await(&caller.more, NULL);
	e = cds_list_first_entry(&caller.events, struct urxe_ibcm_event, entry);
	cds_list_del(&e->entry);
	caller.now = e;
	if (e->listener)
		e->listener->pending--;
	urxe_ibcm_publish(e->id);
	return e;
}

/* Its callback returned @ret. */
static void called(struct urxe_ibcm_event *e, int ret) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_ibcm_id *id = e->id;

	if (ret && !id->gone) {
		urxe_ibcm_end(id);
		caller.free_now = true;
	}
	urxe_ibcm_event_free(e);
	if (caller.free_now)
		urxe_ibcm_id_free(id);
	caller.free_now = false;
	caller.now = NULL;
	pthread_cond_broadcast(&caller.done);
}

/* The thread is not here; but a callback that forks is, and goes no further than its end. */
static void forked(bool begun)
{
	pthread_cond_init(&caller.more, NULL);
	pthread_cond_init(&caller.done, NULL);
	caller.started = caller.free_now = false;
	caller.now = NULL;
	if (begun)
		CDS_INIT_LIST_HEAD(&caller.events);
}

static void *run(void *arg)
{
	unsigned life;

	if (urxe_cma_enter())
		return NULL;
	life = urxe_cma_life();
	for (;;) {
		struct urxe_ibcm_event *e = next_event();
		int ret;

		urxe_cma_leave();
		ret = e->id->id.cm_handler(&e->id->id, &e->event);
		/* At the process's end this thread goes no further. */
		if (urxe_cma_enter())
			return NULL;
		if (life != urxe_cma_life()) {
			urxe_cma_leave();
			return NULL;
		}
		called(e, ret);
	}
	return NULL;
}

int urxe_ibcm_start(void)
{
	int err;

	if (caller.started)
		return 0;
	err = urxe_thread_start(&caller.thread, "urxe/ib_cm", run, NULL);
	if (err)
		return err;
	pthread_detach(caller.thread);
	caller.started = true;
	urxe_cma_on_child(forked);
	return 0;
}

void urxe_ibcm_post(struct urxe_ibcm_event *e)
{
	if (e->listener)
		e->listener->pending++;
	cds_list_add_tail(&e->entry, &caller.events);
	pthread_cond_signal(&caller.more);
}

struct urxe_ibcm_id *urxe_ibcm_children(struct urxe_ibcm_id *listener)
{
	struct urxe_ibcm_id *first = NULL;
	struct urxe_ibcm_event *e;

	cds_list_for_each_entry (e, &caller.events, entry) {
		if (e->listener == listener) {
			e->id->next_gone = first;
			first = e->id;
		}
	}
	return first;
}

void urxe_ibcm_purge(void)
{
	struct urxe_ibcm_event *e, *next;

	cds_list_for_each_entry_safe (e, next, &caller.events, entry) {
		if (!e->id->gone)
			continue;
		cds_list_del(&e->entry);
		urxe_ibcm_event_free(e);
	}
}

bool urxe_ibcm_wait(const struct urxe_ibcm_id *id)
{
	if (by_caller()) {
		if (!caller.now || caller.now->id != id)
			return true;
		caller.free_now = true;
		return false;
	}
	while (caller.now && (caller.now->id == id || caller.now->listener == id))
		urxe_cma_await(&caller.done, NULL);
	return true;
}
