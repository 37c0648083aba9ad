/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues and completion channels.
 */
#ifndef URXE_PROVIDER_CQ_H
#define URXE_PROVIDER_CQ_H

#include "memory.h"
#include "slots.h"

/* ---- completion queue ---- */

struct urxe_qp;

/* So many users, of which each QP is one or two, and its QPs share the memory of their send queues
 * (slots.h), and who posts to one fetches the next (wqe.c). */
#define URXE_CQ_CROWD 64

struct urxe_channel {
	struct ibv_comp_channel channel; /* fd is the read end */
	struct urxe_pipe pipe;
	struct urxe_mutex
		lock;	       /* writers and the purge; of what follows, but for the atomic ones */
	atomic_uint events;    /* sent so far */
	uint32_t written;      /* of these to the pipe, but for those that were purged */
	atomic_uint read;      /* from there */
	bool awaited;	       /* the next one goes to who waits on duty, not to the pipe, */
	struct ibv_cq *handed; /* and is here: of that CQ; or NULL */
};

struct urxe_cqe {
	struct ibv_wc wc;
	uint64_t when;	   /* the port's clock; for CQs with time stamps */
	uint32_t flow_tag; /* raw packets */
	uint16_t cvlan;
	bool solicited; /* or failed: wakes those that wait for such only */
};

enum urxe_cq_arm {
	URXE_CQ_UNARMED,
	URXE_CQ_ARM_SOLICITED,
	URXE_CQ_ARM_ANY
};

struct urxe_cq {
	struct verbs_cq vcq;
	struct urxe_device *dev;
	struct urxe_context *ctx;
	struct urxe_spin lock;
	struct urxe_cqe *ring;
	struct urxe_buf buf; /* the ring's */
	struct urxe_pd *pd;  /* parent domain with the allocator, or NULL */
	bool ignore_overrun, single_threaded, timed;
	uint32_t size;	       /* entries, a power of two */
	_Atomic uint32_t head; /* next to fill */
	_Atomic uint32_t tail; /* next to poll; written under lock */
	atomic_int armed;
	bool overrun; /* it has lost a completion */
	bool failing; /* and those who use it are yet to fail for it; under lock */
	bool gsi;     /* completions are for the GSI service */
	_Atomic uint32_t empty_polls;
	uint32_t events_sent;	 /* under lock */
	atomic_uint events_held; /* of them, by turns that are about to send them */
	uint32_t async_events;
	/* moderation of events, under lock: after so many completions, or so long after the first
	 */
	uint32_t mod_count, mod_waiting;
	uint64_t mod_period; /* ns; 0: none */
	/* of moderation, of what an arming request found unpolled, of failing; under sched.lock */
	struct urxe_timer timer;
	bool timer_used; /* ever; under lock */
	/* ibv_start_poll ... ibv_end_poll */
	struct urxe_spin poll_lock;
	struct urxe_cqe cur;
	atomic_int users;
	_Atomic(struct urxe_qp *) posted; /* of those that send to it, the last posted to; RCU */
	struct urxe_slots slots;	  /* of send queues */
	uint32_t number;		  /* for people: no other CQ of the device has it */
	struct cds_list_head node;	  /* on dev->cqs */
};

static inline struct urxe_channel *to_urxe_channel(struct ibv_comp_channel *ch)
{
	return urxe_container_of(ch, struct urxe_channel, channel);
}

static inline struct urxe_cq *to_urxe_cq(struct ibv_cq *cq)
{
	return cq ? urxe_container_of(cq, struct urxe_cq, vcq.cq) : NULL;
}

static inline uint32_t urxe_cq_tail(const struct urxe_cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

/**
 * urxe_cq_empty - is there nothing to poll? Without the lock
 *
 * What was pushed before this call, as the caller may know, is seen: by itself, or by who armed it
 * under the lock (urxe_req_notify_cq()).
 */
static inline bool urxe_cq_empty(const struct urxe_cq *cq)
{
	return urxe_cq_tail(cq) == atomic_load_explicit(&cq->head, memory_order_relaxed);
}

/** urxe_cq_crowded - do so many QPs use it that most of them are in no cache? Any thread. */
static inline bool urxe_cq_crowded(const struct urxe_cq *cq)
{
	return atomic_load_explicit(&cq->users, memory_order_relaxed) > URXE_CQ_CROWD;
}

/* ---- channel.c ---- */
struct ibv_comp_channel *urxe_channel_create(struct ibv_context *ctx);
int urxe_channel_destroy(struct ibv_comp_channel *ch);
/** urxe_channel_notify - one completion event for @cq; false when the channel is full. */
bool urxe_channel_notify(struct ibv_comp_channel *ch, struct ibv_cq *cq);
/** urxe_channel_read - an event of @cq has been read from the pipe. */
void urxe_channel_read(struct ibv_cq *cq);
/**
 * urxe_channel_take - has it an event?
 * True: *@cq, or, if that is NULL, one to read. False: none, and if @wait the next one is handed to
 * the caller: it is here by the time that ch->events is not *@was.
 */
bool urxe_channel_take(struct urxe_channel *ch, bool wait, struct ibv_cq **cq, unsigned *was);
/** urxe_channel_leave - the caller waits no more; true: *@cq had been handed to it before. */
bool urxe_channel_leave(struct urxe_channel *ch, struct ibv_cq **cq);
/** urxe_channel_abandon - the same for one that can take nothing: that event is for the next one.
 */
void urxe_channel_abandon(struct urxe_channel *ch);
/** urxe_channel_await - wait for an event, as the blocking read would. 0: *@cq, or, if that is
 * NULL, the read follows; EINTR; EBADF: it goes. No lock held (await.c). */
int urxe_channel_await(struct ibv_comp_channel *ch, struct ibv_cq **cq);
/** urxe_channel_purge - take @cq's unread events out; returns how many. */
unsigned urxe_channel_purge(struct ibv_comp_channel *ch, struct ibv_cq *cq);

/* ---- cq.c ---- */
struct ibv_cq *urxe_create_cq(struct ibv_context *ctx, int cqe, struct ibv_comp_channel *channel,
			      int vector);
struct ibv_cq_ex *urxe_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);
int urxe_destroy_cq(struct ibv_cq *cq);
int urxe_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int urxe_resize_cq(struct ibv_cq *cq, int cqe);
/** urxe_cq_pop - what ibv_poll_cq() does, without driving the device when the CQ is empty. */
int urxe_cq_pop(struct urxe_cq *cq, int n, struct ibv_wc *wc) URXE_EXCLUDES(cq->lock);
int urxe_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
/** urxe_cq_push_raw - urxe_cq_push() with what only raw packets have. */
bool urxe_cq_push_raw(struct urxe_cq *cq, const struct ibv_wc *wc, bool solicited, uint16_t cvlan,
		      uint32_t flow_tag) URXE_EXCLUDES(cq->lock);
/** urxe_cq_push - add a completion; @solicited wakes those who wait for solicited ones only. False:
 * it is lost, and the QPs that use the CQ are about to fail. */
static inline bool urxe_cq_push(struct urxe_cq *cq, const struct ibv_wc *wc, bool solicited)
	URXE_EXCLUDES(cq->lock)
{
	return urxe_cq_push_raw(cq, wc, solicited, 0, 0);
}
/**
 * urxe_cq_open - the entry that the next completion takes, to be filled where it lies
 *
 * Its lock is held then, up to urxe_cq_close(). NULL, and nothing is held, where there is more to
 * do than that: urxe_cq_push() does it.
 */
static inline struct urxe_cqe *urxe_cq_open(struct urxe_cq *cq) URXE_UNCHECKED
{
	uint32_t head;

	if (cq->timed || cq->gsi)
		return NULL;
	urxe_spin_lock(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	if (__builtin_expect(head - urxe_cq_tail(cq) < cq->size - 1, 1) &&
	    atomic_load_explicit(&cq->armed, memory_order_relaxed) == URXE_CQ_UNARMED)
		return &cq->ring[head & (cq->size - 1)];
	urxe_spin_unlock(&cq->lock);
	return NULL;
}
/** urxe_cq_close - the entry that urxe_cq_open() gave is a completion. */
static inline void urxe_cq_close(struct urxe_cq *cq) URXE_UNCHECKED
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	atomic_store_explicit(&cq->head, head + 1, memory_order_relaxed);
	urxe_spin_unlock(&cq->lock);
}
/** urxe_cq_take - one completion into cq->cur, driving the device if there is none. 0, ENOENT, EIO.
 */
int urxe_cq_take(struct urxe_cq *cq, bool drive) URXE_EXCLUDES(cq->lock);
/** urxe_cq_ex_init - set the ibv_start_poll family up. */
void urxe_cq_ex_init(struct urxe_cq *cq);
/**
 * urxe_cq_clean - forget the completions of a QP that is reset or destroyed
 * @keep_good: but for successes
 */
void urxe_cq_clean(struct urxe_cq *cq, uint32_t qpn, bool keep_good) URXE_EXCLUDES(cq->lock);

/* ---- cq_event.c ---- */
/** urxe_cq_event_send - one that was held back (wake.h); without room the CQ is @armed again. */
void urxe_cq_event_send(struct urxe_cq *cq, int armed) URXE_EXCLUDES(cq->lock);
/** urxe_cq_notify - an event is due for a completion; true: a timer was set instead. */
bool urxe_cq_notify(struct urxe_cq *cq, bool urgent) URXE_REQUIRES(cq->lock);
/** urxe_cq_set_timer - have urxe_cq_timer() called @when (port's clock, ns). */
void urxe_cq_set_timer(struct urxe_cq *cq, uint64_t when) URXE_REQUIRES(cq->lock);
/** urxe_cq_timer - its timer has come: a moderated event is due, or one for completions that are
 * older than the request for it, or the QPs that use it fail. RCU at the most is held. */
void urxe_cq_timer(struct urxe_cq *cq) URXE_EXCLUDES(cq->lock);
int urxe_req_notify_cq(struct ibv_cq *cq, int solicited_only);

#endif
