/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Devices and contexts, what waits for their lanes, their counters and events.
 */
#ifndef URXE_PROVIDER_DEVICE_H
#define URXE_PROVIDER_DEVICE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <urcu/list.h>
#include <urcu/urcu-bp.h>

#include "abi/abi_check.h"
#include "abi/rdma_driver.h"
#include "gsi.h"
#include "live.h"
#include "caps.h"
#include "netio/config.h"
#include "netio/identity.h"
#include "netio/port.h"
#include "netio/link.h"
#include "pause.h"
#include "pipe.h"
#include "rlist.h"
#include "table.h"
#include "urxe/lock.h"
#include "urxe/log.h"
#include "urxe/timer.h"
#include "urxe/opcode.h"
#include "urxe/wire.h"
#include "urxedv.h"

#define urxe_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct urxe_channel;
struct urxe_qp;
struct urxe_cq;
struct urxe_srq;
struct urxe_td;
struct urxe_rss;
struct urxe_context;
struct urxe_device;
struct urxe_cc_ops;

/** Whose timer it is (struct urxe_timer's kind). */
enum urxe_timer_kind {
	URXE_TIMER_QP,
	URXE_TIMER_CQ,
};

/* ---- device ---- */

/** QPs with something to send that wait for their lane. */
struct urxe_waiting {
	struct cds_list_head qps; /* under sched.lock */
	atomic_uint n;		  /* of them; written under it */
	_Atomic uint64_t patient; /* all of them may wait until then, ns; likewise */
	atomic_bool contended;	  /* a sender found the lane taken by another sender */
	_Atomic uint64_t turned;  /* when the last turn began, ns; written under the lane's lock */
};

/** What waits for lanes: QPs with something to send (pending lists), and timers. */
struct urxe_sched {
	struct urxe_spin lock;
	atomic_uint npending; /* QPs, of all lanes */
	/*
	 * One entry a QP or CQ. The data path does not touch it: a QP moves its deadline by
	 * writing it down, and the timer, when it comes, looks whether it came too early.
	 */
	struct urxe_timer_heap timers;
	_Atomic uint64_t next_timer; /* the earliest, URXE_NEVER when none */
	struct urxe_waiting lanes[URXE_MAX_LANES];
};

/** A round-trip time and how much it varies, smoothed, ns; 0: not known (retry.c). */
struct urxe_rtt {
	_Atomic uint64_t srtt, var;
};

/** What a peer does with packets behind a gap (recover.c). */
enum urxe_peer_way {
	URXE_PEER_UNKNOWN,
	URXE_PEER_KEEPS,
	URXE_PEER_DROPS, /* it goes back N */
};

/**
 * What all QPs together know of a peer (retry.c). By a hash of its GID: two that share one only
 * know less well. Written under any lane's lock.
 */
struct urxe_peer {
	_Atomic uint64_t heard;	 /* when a packet of it came */
	_Atomic uint64_t since;	 /* when it began to send, never silent for long after */
	_Atomic uint64_t probed; /* when a QP sent a probe, last */
	_Atomic uint64_t said;	 /* when a line told that a QP gave it up; 0: never */
	struct urxe_rtt rtt;
	struct urxe_rtt repair; /* from our NAK of a gap till what was missing comes */
	_Atomic uint8_t way;	/* enum urxe_peer_way */
};

/** What a thread on duty remembers from round to round (duty.c). */
struct urxe_duty_mind {
	struct urxe_pause pause;
	uint64_t slack;	      /* that timers have: callers drive, and look at them */
	uint64_t caller_time; /* when last looked at */
	uint64_t tick;	      /* the port's next, likewise */
	bool others;	      /* have all lanes: they run the timers */
};

/** Who is on duty (duty.h). All but the atomic ones under lock. */
struct urxe_duty {
	struct urxe_mutex lock; /* innermost */
	pthread_cond_t moved;
	bool thread_has;		    /* the service thread is on duty */
	atomic_bool wanted;		    /* and is to hand over */
	_Atomic(struct urxe_channel *) has; /* who waits there is, or is about to be; or NULL */
	atomic_bool evict;		    /* that one is to leave */
	bool gone;			    /* who had it last will not be back soon */
	bool tell;			    /* the service thread sleeps till somebody leaves */
	unsigned waiting;		    /* callers that wait for events */
	uint32_t leaves;		    /* how often one left */
	uint64_t left;			    /* and when, last; CLOCK_MONOTONIC */
	uint64_t stand_by;		    /* ns that one who left is waited for */
	struct urxe_duty_mind mind;	    /* of who waits; who is on duty has it */
};

/** The service thread of a device (service.c). */
struct urxe_service_thread {
	pthread_t thread;
	bool running;
	atomic_bool stop;
	struct urxe_duty duty;
	atomic_bool asleep;	   /* in a long wait, or about to */
	atomic_bool alert;	   /* and a frame ends it; valid while asleep */
	_Atomic uint64_t until;	   /* when it takes a turn by itself; valid while asleep */
	_Atomic uint64_t soon;	   /* it was woken last for what was due after that time, ns */
	_Atomic uint64_t polls;	   /* lane turns by callers: they drive */
	_Atomic uint32_t turns;	   /* that it began, and that it ended: odd while it takes one */
	atomic_uint yielding;	   /* callers that have let others in, and will poll again */
	_Atomic uint64_t yields;   /* how often one did, and was back */
	_Atomic uint64_t away;	   /* ns, till then */
	_Atomic uint64_t patience; /* urxe_pause_patience() */
	atomic_bool who;	   /* the next one is to tell who it is */
	atomic_int caller;	   /* thread id; 0: not known */
	atomic_bool watched;	   /* callers are found to stop, and to watch memory */
	_Atomic uint64_t passed;   /* when one of these got a completion, at last */
	atomic_bool landed;	   /* a WRITE has come in full, and nothing was posted since */
	atomic_bool written;	   /* a peer has changed memory that they may watch */
	atomic_int passed_on;	   /* and on which processor: its number and 1; 0: not known */
	atomic_bool partway;	   /* what came last was not the last packet of its message */
	atomic_bool nudged;	   /* a caller goes to sleep: drive for a while */
	atomic_bool gsi_due;
	_Atomic uint64_t resolve_until;		    /* the GSI waits for a neighbour: look often */
	struct urxe_mutex gsi_lock;		    /* held while the GSI's poll runs */
	_Atomic(struct urxe_gsi_service *) gsi_svc; /* set when NULL; cleared under gsi_lock */
	atomic_uint gsi_drivers;		    /* callers that run the GSI's poll themselves */
	atomic_bool gsi_waits;			    /* the last of these sleeps now */
};

/** ICMP errors about QP1's packets, until its service takes them (gsi.c). Innermost lock. */
#define URXE_GSI_ERRORS 16
struct urxe_gsi_errors {
	struct urxe_gsi_error entry[URXE_GSI_ERRORS];
	unsigned head, count;
	struct urxe_spin lock;
};

/** Processes that share the port's link and died (peer_gone.c): a bit for each slot. */
struct urxe_peers_gone {
	_Atomic uint64_t slots[4]; /* not looked at yet */
	_Atomic uint64_t cm[4];	   /* the CM is to be told of them, after their last MADs */
};

/** The flusher, which carries out FLUSHes to persistence (flush.c). */
struct urxe_flusher {
	struct urxe_mutex lock; /* innermost but for sched.lock */
	pthread_cond_t work;
	struct cds_list_head jobs;
	pthread_t thread;
	bool running, stop;
};

/** Buffers for packets that came before what is before them (keep.c). */
struct urxe_keep {
	struct urxe_spin lock;	   /* innermost */
	struct cds_list_head free; /* those in use are their QPs' */
	unsigned made;		   /* how many there are: URXE_KEEP_BUFFERS at the most */
};

/** Provider-level counters; written under a lane's lock, read by anybody. */
enum urxe_stat {
	URXE_STAT_RX_PACKETS,
	URXE_STAT_RX_BAD_OPCODE,
	URXE_STAT_RX_BAD_LENGTH,
	URXE_STAT_RX_BAD_TVER,
	URXE_STAT_RX_BAD_PKEY,
	URXE_STAT_RX_BAD_QKEY,
	URXE_STAT_RX_NO_QP,
	URXE_STAT_RX_WRONG_TYPE,
	URXE_STAT_RX_BAD_STATE,
	URXE_STAT_RX_WRONG_PEER,
	URXE_STAT_RX_DUPLICATE,
	URXE_STAT_RX_OUT_OF_SEQUENCE, /* and not kept */
	URXE_STAT_RX_EARLY,	      /* kept until what is before it has come */
	URXE_STAT_RX_GHOST_ACK,
	URXE_STAT_RX_NAK, /* a sequence error, or an error of the request */
	URXE_STAT_RX_RNR_NAK,
	URXE_STAT_RX_UD_NO_RECV,
	URXE_STAT_RX_UD_TOO_LONG,
	URXE_STAT_RX_UC_DROP,
	URXE_STAT_RX_NO_MEMORY,
	URXE_STAT_RX_ECN_MARKED, /* URXE_ECN_CE */
	URXE_STAT_RX_CNP,
	URXE_STAT_TX_PACKETS,
	URXE_STAT_TX_NAK_SEQ,
	URXE_STAT_TX_NAK_OTHER,
	URXE_STAT_TX_RNR_NAK,
	URXE_STAT_TX_UNREACHABLE,
	URXE_STAT_RETRANSMITS,
	URXE_STAT_TIMEOUTS,
	URXE_STAT_PROBES,
	URXE_STAT_EVENTS_LOST,
	URXE_STAT_GSI_ERRORS_LOST,
	URXE_NUM_STATS,
	URXE_STAT_NONE = URXE_NUM_STATS, /* no error: none of them counts it */
};

struct urxe_device {
	struct verbs_device vdev; /* first: libibverbs knows us by it */
	struct urxe_port_config cfg;
	struct urxe_port *port;
	__be64 guid;

	struct urxe_mutex mutex; /* bring-up, contexts, GSI, table writers */
	struct cds_list_head contexts;
	atomic_bool started;
	atomic_bool dead; /* its port is, or we are a forked child of the process that started it */
	bool forked;	  /* the latter */
	/**
	 * Of a forked device: that of this process, which is made when there is none yet. 0 or
	 * errno. NULL: there can be none. Thread-safe.
	 */
	int (*heir)(struct urxe_device *dev, struct urxe_device **heir);
	unsigned lanes;
	atomic_uint lane_hint;
	unsigned rx_most;		  /* packets that a turn receives */
	atomic_bool finishing;		  /* urxe_progress_finish() */
	bool one_cpu;			  /* our threads have one processor between them */
	atomic_uint yield_after;	  /* so many empty polls in a row a caller lets others in */
	atomic_bool emulated;		  /* it is emulated, and so are cards */
	struct urxe_pause_caller in_vain; /* then: callers that poll */
	const struct urxe_cc_ops *cc;	  /* congestion control of QPs that begin to send (cc.h) */

	atomic_bool seen_up; /* the link was, at some time since the port was started */
	/* urxe_device_watch()'s */
	bool watched, was_up, was_active;
	atomic_uint gids_news; /* counts changes of own addresses */
	atomic_bool told_gid;  /* an address was refused for its GIDs, and that was logged */
	uint64_t watch_next;

	struct urxe_table qps; /* by qpn & qpn_mask */
	uint32_t qpn_mask;
	struct urxe_table mkeys;
	uint32_t mkey_next; /* where the search for a free key index begins */
	uint32_t mr_count, mw_count;
	struct urxe_spin mw_lock; /* what windows are bound to; innermost */
	_Atomic uint64_t dm_used;
	struct urxe_table srqs; /* of XRC, by number */
	uint32_t srqn_next;
	atomic_uint srqn_slot; /* in the upper bits of their numbers; 0: none */
	struct cds_list_head xrcds;
	struct cds_list_head guests; /* lend.c's; with lane 0 */
	unsigned num_guests;
	struct cds_list_head wqs; /* receive work queues; under mutex */
	_Atomic(struct urxe_qp *) gsi;
	struct urxe_rlist flows; /* rules of raw packet QPs; read under RCU */
	unsigned num_flows;
	struct urxe_rlist mcast_groups; /* read under RCU */
	unsigned num_mcast;

	struct urxe_sched sched;
	struct urxe_peer peers[URXE_PEERS];
	struct urxe_service_thread service;
	struct urxe_gsi_errors gsi_errors;
	struct urxe_peers_gone gone;
	struct urxe_flusher flusher;
	struct urxe_keep keep;
	bool threaded; /* has threads of its own; else (tests) its creator does their work */
	_Atomic uint64_t stats[URXE_NUM_STATS];
	atomic_int num_event_cq; /* of num_cq, those with a completion channel */
	atomic_int num_qp, num_cq, num_pd, num_ah, num_srq, num_wq, num_rwq_table;
	struct urxe_mutex cqs_lock; /* before any cq->lock */
	struct cds_list_head cqs;
	uint32_t cq_number;		  /* the last one's */
	struct cds_list_head status_node; /* status.c's */
	uint64_t live[URXE_LIVE_NUM];	  /* what the view has of each; under status.c's lock */
};

/** urxe_stat_name - of a counter. */
const char *urxe_stat_name(enum urxe_stat s);
/** urxe_stat_drops - how many packets were dropped, of all counters: each for its reason. */
uint64_t urxe_stat_drops(const uint64_t stats[URXE_NUM_STATS]);
/** urxe_stat_log - the counters of port and transport that are not 0, as two log lines (info). */
void urxe_stat_log(struct urxe_device *dev);

/** urxe_stat_add - count @n of them; from any thread. */
static inline void urxe_stat_add(struct urxe_device *dev, enum urxe_stat s, uint64_t n)
{
	/* A lost count under contention of two lanes is worth less than a locked add. */
	_Atomic uint64_t *v = &dev->stats[s];

	atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/** urxe_stat_inc - count one. */
static inline void urxe_stat_inc(struct urxe_device *dev, enum urxe_stat s)
{
	urxe_stat_add(dev, s, 1);
}

/**
 * What ibv_open_device() gives. It lives until it is closed and all objects that were made of it
 * are destroyed, for libibverbs finds their functions through it.
 */
struct urxe_context {
	struct verbs_context vctx;
	struct urxe_device *dev;
	atomic_uint refs;	   /* the open, and each object that points here by itself */
	atomic_bool closed;	   /* nobody reads events any more */
	struct cds_list_head node; /* on dev->contexts */
	struct urxe_pipe async;	   /* its read end is async_fd */
	struct urxe_mutex async_lock;
};

static inline struct urxe_context *to_urxe_ctx(struct ibv_context *ctx)
{
	return urxe_container_of(ctx, struct urxe_context, vctx.context);
}

static inline struct urxe_device *to_urxe_dev(struct ibv_context *ctx)
{
	return to_urxe_ctx(ctx)->dev;
}

/* ---- device.c ---- */

/** urxe_device_start - bring port and service thread up, once; thread-safe. 0 or errno. */
int urxe_device_start(struct urxe_device *dev);

/** urxe_device_check - 0; EIO: it is dead, and gives nothing any more. */
static inline int urxe_device_check(const struct urxe_device *dev)
{
	return atomic_load_explicit(&dev->dead, memory_order_relaxed) ? EIO : 0;
}

/**
 * urxe_device_inherited - it is the parent's, in a forked child: its locks may be held by threads
 * that are not here, so nothing of it is touched, and what is destroyed of it stays as it is
 */
static inline bool urxe_device_inherited(const struct urxe_device *dev)
{
	return __builtin_expect(dev->forked, 0);
}

/** urxe_device_adopt - in the child of a fork: a device that was not started is the child's own. By
 * its only thread. */
void urxe_device_adopt(struct urxe_device *dev);

/**
 * urxe_device_orphan - in the child of a fork: the device is the parent's from now on
 *
 * It is dead. Its CQs are empty and can be polled, which says so. The caller holds cqs_lock and
 * flusher.lock since before the fork.
 */
void urxe_device_orphan(struct urxe_device *dev);

/**
 * urxe_device_claim - one more object of which there are @max
 *
 * 0; ENOMEM: they are all taken; EIO: the device is dead. Whatever it returns, @count is counted
 * down when the object is gone, or was not made.
 */
static inline int urxe_device_claim(const struct urxe_device *dev, atomic_int *count, int max)
{
	int err = urxe_device_check(dev);

	if (atomic_fetch_add(count, 1) >= max && !err)
		err = ENOMEM;
	return err;
}

/** urxe_device_create - a device on a port of @ops (tests: a simulated link). 0 or errno. */
int urxe_device_create(struct urxe_device **dev, const struct urxe_port_config *cfg,
		       const struct urxe_link_ops *ops, void *link_arg, bool threaded);

/** urxe_device_addr - add an own address or remove it, with an event for all contexts. 0, EIO
 * (dead), or urxe_port_addr_add()'s and urxe_port_addr_del()'s. */
int urxe_device_addr(struct urxe_device *dev, bool add, const union ibv_gid *gid,
		     unsigned prefix_len);
/** urxe_device_follow_host - the same for what has changed of the host's addresses, where the port
 * has those. Thread-safe, with no lane held. */
void urxe_device_follow_host(struct urxe_device *dev);
/**
 * urxe_device_active - the state of the port as programs see it
 *
 * One that comes up in a moment is active: some (libfabric) look once, right after they have bound
 * an id, and give up. It is not when the link has been up and is down; but as a card that has a
 * switch at its other end, where that is a process, which may come and go. Thread-safe.
 */
bool urxe_device_active(struct urxe_device *dev, const struct urxe_port_info *info);

/**
 * urxe_device_watch - look at the carrier now and then; contexts get events of what has changed
 * One thread calls it, with no lock held. When the port is dead, so is the device: nothing of it
 * works but destroying.
 */
void urxe_device_watch(struct urxe_device *dev, uint64_t now);

/** urxe_device_destroy - free a device of urxe_device_create() that has no context open. */
void urxe_device_destroy(struct urxe_device *dev);

/** urxe_context_port - the port of the device behind an ibv_context of ours. */
struct urxe_port *urxe_context_port(struct ibv_context *ctx);

/** urxe_peer_gone - the port's hook: notes that the process with @slot died. Takes no lock. */
void urxe_peer_gone(void *dev, unsigned slot);

/**
 * urxe_peer_gone_run - RC QPs whose peer died: what they have outstanding, and what is posted from
 * now on, fails at once, as if all retries were used up
 *
 * Cheap when nobody died. One thread calls it, with no lock held.
 */
void urxe_peer_gone_run(struct urxe_device *dev);

/** urxe_path_error - the port's hook: keeps the error for QP1's service. A lane is held. */
void urxe_path_error(void *dev, const struct urxe_path_error *e);

/* ---- context.c ---- */
extern const struct verbs_device_ops urxe_device_ops;
/** urxe_query_port - ibv_query_port(), of a device that is this process's own. */
int urxe_query_port(struct ibv_context *ctx, uint8_t port_num, struct ibv_port_attr *attr);
/**
 * urxe_context_get - an object was made that keeps @ctx: those of which others are made, or that
 * raise events. Any lock.
 */
void urxe_context_get(struct ibv_context *ctx);
/** urxe_context_put - it is gone, and nobody looks at the context by it any more. Holds no lock. */
void urxe_context_put(struct ibv_context *ctx);

/* ---- event.c: asynchronous events ---- */

/** urxe_event_cq, _srq, _wq, _device - raise an event on the context of the object. Any lock may be
 * held but async_lock. */
void urxe_event_cq(struct urxe_cq *cq, enum ibv_event_type type);
void urxe_event_srq(struct urxe_srq *srq, enum ibv_event_type type);
void urxe_event_wq(struct urxe_context *ctx, struct ibv_wq *wq, uint32_t *counter);
void urxe_event_device(struct urxe_device *dev, enum ibv_event_type type);

/** urxe_event_purge - take the unread events of a dying object out; returns how many. */
unsigned urxe_event_purge(struct urxe_context *ctx, const void *element);

#endif
