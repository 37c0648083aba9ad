/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion channels: a pipe of 8-byte descriptors, as ibv_get_cq_event() reads them. A pipe of
 * 64 KiB holds 8192 of them; applications may set O_NONBLOCK on its read end, and poll it.
 *
 * To a caller that waits on duty (await.c) an event is handed without the pipe: a write and a read
 * less. The pipe is empty while one is awaited so, and events keep their order.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "provider.h"
#include "duty.h"
#include "urxe/cancel.h"

struct ibv_comp_channel *urxe_channel_create(struct ibv_context *ctx)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_channel *ch = calloc(1, sizeof(*ch));
	int err = ch ? 0 : ENOMEM;

	if (!err)
		err = urxe_device_inherited(dev) ? EIO : urxe_pipe_open(&ch->pipe, dev, false);
	if (err) {
		free(ch);
		errno = err;
		return NULL;
	}
	ch->channel.context = ctx;
	urxe_context_get(ctx);
	ch->channel.fd = ch->pipe.rfd;
	urxe_mutex_init(&ch->lock);
	return &ch->channel;
}

int urxe_channel_destroy(struct ibv_comp_channel *channel)
{
	struct urxe_channel *ch = to_urxe_channel(channel);
	struct ibv_context *ctx = channel->context;
	int busy, cancel;

	if (urxe_device_inherited(to_urxe_dev(ctx))) {
		cancel = urxe_cancel_off();
		urxe_pipe_close(&ch->pipe, false);
		urxe_cancel_back(cancel);
		return 0;
	}
	/* libibverbs counts a channel's CQs under the context's mutex. */
	pthread_mutex_lock(&ctx->mutex);
	busy = channel->refcnt;
	pthread_mutex_unlock(&ctx->mutex);
	if (busy)
		return EBUSY;
	/* To wait, and to close, are cancellation points; in the one a lock is held. */
	cancel = urxe_cancel_off();
	urxe_duty_evict(to_urxe_dev(ctx), ch);
	urxe_pipe_close(&ch->pipe, false);
	urxe_mutex_fini(&ch->lock);
	free(ch);
	urxe_context_put(ctx);
	urxe_cancel_back(cancel);
	return 0;
}

static bool write_event(struct urxe_channel *ch, struct ibv_cq *cq) URXE_REQUIRES(ch->lock)
{
	const struct ib_uverbs_comp_event_desc ev = {.cq_handle = (uintptr_t)cq};
	bool ok = urxe_pipe_put(&ch->pipe, &ev, sizeof(ev));

	ch->written += ok;
	return ok;
}

/* A reader counts when it has read: at worst one that is gone is taken to be there. */
static bool unread(const struct urxe_channel *ch) URXE_REQUIRES(ch->lock)
{
	return ch->written != atomic_load(&ch->read);
}

void urxe_channel_read(struct ibv_cq *cq)
{
	if (cq->channel)
		atomic_fetch_add(&to_urxe_channel(cq->channel)->read, 1);
}

static struct ibv_cq *take_handed(struct urxe_channel *ch) URXE_REQUIRES(ch->lock)
{
	struct ibv_cq *cq = ch->handed;

	ch->handed = NULL;
	return cq;
}

bool urxe_channel_take(struct urxe_channel *ch, bool wait, struct ibv_cq **cq, unsigned *was)
{
	bool found;

	urxe_mutex_lock(&ch->lock);
	*cq = take_handed(ch);
	found = *cq || unread(ch);
	if (wait)
		ch->awaited = !found;
	*was = atomic_load(&ch->events);
	urxe_mutex_unlock(&ch->lock);
	return found;
}

bool urxe_channel_leave(struct urxe_channel *ch, struct ibv_cq **cq)
{
	urxe_mutex_lock(&ch->lock);
	*cq = take_handed(ch);
	ch->awaited = false;
	urxe_mutex_unlock(&ch->lock);
	return *cq;
}

void urxe_channel_abandon(struct urxe_channel *ch)
{
	urxe_mutex_lock(&ch->lock);
	ch->awaited = false;
	/* If the pipe is full it stays, for who asks next. */
	if (ch->handed && write_event(ch, ch->handed))
		ch->handed = NULL;
	urxe_mutex_unlock(&ch->lock);
}

bool urxe_channel_notify(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct urxe_channel *ch = to_urxe_channel(channel);
	struct urxe_device *dev = to_urxe_dev(channel->context);
	int err = errno, cancel = urxe_cancel_off();
	bool ok = true;

	urxe_mutex_lock(&ch->lock);
	if (ch->awaited) {
		ch->handed = cq;
		ch->awaited = false;
	} else {
		ok = write_event(ch, cq);
	}
	atomic_fetch_add(&ch->events, 1);
	urxe_mutex_unlock(&ch->lock);
	if (urxe_duty_sleeps(dev, ch))
		urxe_port_wake(dev->port);
	urxe_cancel_back(cancel);
	errno = err;
	return ok;
}

unsigned urxe_channel_purge(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct urxe_channel *ch = to_urxe_channel(channel);
	unsigned purged, lost, handed = 0;

	urxe_mutex_lock(&ch->lock);
	if (ch->handed == cq) {
		ch->handed = NULL;
		handed = 1;
	}
	purged = urxe_pipe_purge(&ch->pipe, sizeof(struct ib_uverbs_comp_event_desc), (uintptr_t)cq,
				 &lost);
	ch->written -= purged + lost;
	urxe_mutex_unlock(&ch->lock);
	return purged + handed;
}
