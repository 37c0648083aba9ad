/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Inside of rsockets: a socket of <rdma/rsocket.h> is an rdma_cm id with a channel of its own,
 * whose descriptor is the socket's, and once it is connected a QP, whose WRITEs put bytes into a
 * ring of the peer's (stream.h).
 *
 * One lock a socket (struct urxe_rs.lock) guards all of it; calls of rdma_cm and verbs are made
 * under it, but none that waits. Functions return 0 or a positive errno; what rsocket.h declares
 * returns -1 and errno.
 */
#ifndef URXE_CM_RSOCKET_H
#define URXE_CM_RSOCKET_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <urcu/list.h>

#include "urxe/lock.h"
#include "urxe/units.h"

#define URXE_RS_API	__attribute__((visibility("default")))
#define URXE_RS_FOREVER UINT64_MAX

/* Each with its name for logs. */
#define URXE_RS_STATES(S)                                                  \
	S(OPEN) /* rsocket(), perhaps rbind() */                           \
	S(LISTENING)                                                       \
	S(RESOLVING)  /* rconnect(): the address, then the route */        \
	S(CONNECTING) /* REQ sent */                                       \
	S(ACCEPTING)  /* REP sent */                                       \
	S(CONNECTED)                                                       \
	S(CLOSED) /* no more is sent or received; what came is readable */ \
	S(FAILED) /* likewise, because of urxe_rs.err */

#define URXE_RS_STATE(name) URXE_RS_##name,
enum urxe_rs_state {
	URXE_RS_STATES(URXE_RS_STATE) URXE_RS_N_STATES
};
#undef URXE_RS_STATE

/** What an administrator may set for all sockets, and rsetsockopt() for one (config.c, options.c).
 */
struct urxe_rs_settings {
	uint32_t sndbuf, rcvbuf;   /* bytes */
	uint32_t sq_size, rq_size; /* work requests */
	uint32_t inline_size;	   /* bytes */
	uint32_t iomap_size;	   /* buffers that the peer may map */
	uint32_t polling_us;	   /* to look for news before sleeping */
};

struct urxe_rs_dgram;
struct urxe_rs_stream;

/** A socket. */
struct urxe_rs {
	int fd; /* the channel's; of datagrams: a UDP socket's */
	int domain;
	struct cds_list_head entry; /* in its bucket of the table */
	atomic_uint refs;	    /* the table's, and each call's */

	struct urxe_mutex lock; /* for all that follows */
	enum urxe_rs_state state;
	bool gone;		 /* rclose() was called */
	bool reported;		 /* what came of rconnect() */
	bool can_recv, can_send; /* while CONNECTED: neither end has shut that direction */
	bool v6only, reuse, nodelay, keepalive, oobinline;
	int keep[3]; /* TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT */
	int err;     /* positive errno; SO_ERROR */
	int flags;   /* O_NONBLOCK */
	struct linger linger;
	uint64_t rcvtimeo, sndtimeo; /* ns; URXE_RS_FOREVER */
	struct urxe_rs_settings set;
	void *path; /* RDMA_ROUTE's, until it is used */
	size_t path_len;

	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct urxe_rs_stream *st; /* NULL before there is a QP */
	struct urxe_rs_dgram *dg;  /* NULL: not of datagrams; else there is neither id nor st */

	struct cds_list_head requests; /* of a listener (struct urxe_rs_request) */
	unsigned n_requests, backlog;
	struct cds_list_head watches; /* of threads that sleep until something changes */
	uint64_t changes;	      /* how often that was */
	unsigned looks;		      /* at completions alone, since the last one at the channel */
};

/** A connection that a listener has not accepted yet. */
struct urxe_rs_request {
	struct cds_list_head entry;
	struct rdma_cm_event *event;
};

/* ---- config.c ---- */

/** urxe_rs_config_read - the files of @dir, each one number; what is missing, or is none, is left
 * as it is. */
void urxe_rs_config_read(const char *dir, struct urxe_rs_settings *set);
/** urxe_rs_config - what new sockets begin with: from /etc/rdma/rsocket, read once. */
const struct urxe_rs_settings *urxe_rs_config(void);

/* ---- table.c ---- */

/** urxe_rs_watch_forks - from now on a fork holds the locks of the tables. */
void urxe_rs_watch_forks(void);
/** urxe_rs_add - have urxe_rs_get() find @s, which has one reference. */
void urxe_rs_add(struct urxe_rs *s);
/** urxe_rs_get - the socket of a descriptor, one reference more; NULL and EBADF: there is none. */
struct urxe_rs *urxe_rs_get(int fd);
/** urxe_rs_take - the same, and it is found no more: its table's reference is the caller's. */
struct urxe_rs *urxe_rs_take(int fd);
/** urxe_rs_put - one reference less; with the last one goes the socket. Keeps errno. */
void urxe_rs_put(struct urxe_rs *s);

/** A call of the application's for one socket. It may be cancelled while it waits, and only then.
 */
struct urxe_rs_call {
	struct urxe_rs *s; /* a reference */
	int cancel;	   /* urxe_rs_wait.cancel */
	bool whole;	   /* no signal ends it */
	uint64_t deadline;
};

/** urxe_rs_begin - the socket of @fd, and its lock; false and errno: there is none. It may not wait
 * until it is said for how long. */
bool urxe_rs_begin(struct urxe_rs_call *c, int fd) URXE_TRY_ACQUIRE(true, c->s->lock);
/** urxe_rs_end - gives both back, keeps errno. */
void urxe_rs_end(struct urxe_rs_call *c) URXE_RELEASE(c->s->lock);

/* ---- socket.c ---- */

/** urxe_rs_new - a socket that nobody finds yet; NULL and errno. @like: whose settings it has. */
struct urxe_rs *urxe_rs_new(int domain, const struct urxe_rs *like);
/** urxe_rs_unlisten - a listener is as it was before, as with TCP: who waits in raccept() is told,
 * and whoever has asked, or asks, is refused. 0 or errno. */
int urxe_rs_unlisten(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_tell_flags - have a new id know the options that rdma_cm has to know. */
void urxe_rs_tell_flags(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_drop_requests - refuse what nobody has accepted. */
void urxe_rs_drop_requests(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_free - with all it has; for urxe_rs_put(). */
void urxe_rs_free(struct urxe_rs *s);
/** urxe_rs_nonblock - calls for @fd wait no more. 0 or errno. */
int urxe_rs_nonblock(int fd);
/** urxe_rs_sockaddr - @from, cut to @*len, which becomes its whole length; both may be NULL. */
void urxe_rs_sockaddr(const struct sockaddr *from, struct sockaddr *to, socklen_t *len);

/* ---- state.c ---- */

/** urxe_rs_set_state - with what goes with it. */
void urxe_rs_set_state(struct urxe_rs *s, enum urxe_rs_state state) URXE_REQUIRES(s->lock);
/** urxe_rs_fail - it is over: SO_ERROR and what is called next say @err. */
void urxe_rs_fail(struct urxe_rs *s, int err) URXE_REQUIRES(s->lock);
/** urxe_rs_take_error - SO_ERROR: @s->err, which is 0 then. */
int urxe_rs_take_error(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_ready - poll(2)'s events that are true of it. */
short urxe_rs_ready(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_look - take in what has come: completions, and events of the channel. @whole: of the
 * channel in any case, and not only now and then. */
void urxe_rs_look(struct urxe_rs *s, bool whole) URXE_REQUIRES(s->lock);

/* ---- connect.c ---- */

/** urxe_rs_is_under_way - is it being connected? */
static inline bool urxe_rs_is_under_way(const struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	return s->state == URXE_RS_RESOLVING || s->state == URXE_RS_CONNECTING;
}
/** urxe_rs_backlog_full - has a listener as many requests as it may, which are to be accepted? */
static inline bool urxe_rs_backlog_full(const struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	return s->backlog && s->n_requests >= s->backlog;
}
/** urxe_rs_cm_events - what its channel has. */
void urxe_rs_cm_events(struct urxe_rs *s) URXE_REQUIRES(s->lock);

/* ---- wait.c ---- */

/** A thread that sleeps, to one of the sockets that it sleeps for. */
struct urxe_rs_watch {
	struct cds_list_head entry; /* in urxe_rs.watches */
	int wake;		    /* an eventfd */
};

/** One of the sockets that a thread waits for. */
struct urxe_rs_polled {
	struct urxe_rs *s;
	short events, revents;
	unsigned at;   /* which of the descriptors of rpoll() it is */
	uint64_t seen; /* s->changes, when it was last looked at */
	uint64_t edge; /* of which nothing is told, and 1; 0: all that is true is */
	struct urxe_rs_watch watch;
};

/** urxe_rs_wake - end the sleeps of a list of struct urxe_rs_watch, under its lock. */
void urxe_rs_wake(const struct cds_list_head *watches);
/** urxe_rs_changed - wake those that sleep for it. */
void urxe_rs_changed(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_deadline - @ns from now, of the clock of urxe_rs_wait(); 0 and URXE_RS_FOREVER stay. */
uint64_t urxe_rs_deadline(uint64_t ns);
/** urxe_rs_deadline_ms - of a poll(2)'s time-out: below 0 is for ever. */
uint64_t urxe_rs_deadline_ms(int timeout);
/** urxe_rs_left - has @deadline not come yet? */
bool urxe_rs_left(uint64_t deadline);

/** What a thread waits for: it fills in all but what is private. */
struct urxe_rs_wait {
	struct urxe_rs_polled *sockets;
	struct pollfd *others; /* the kernel's descriptors */
	unsigned n, m;	       /* of both */
	uint64_t deadline;
	int cancel; /* what urxe_cancel_off() returned: a sleep may be cancelled if that could be */
	/* What is to be done then, with arg. */
	void (*drop)(void *arg);
	/* NULL, or what is called before a sleep that the eventfd @wake ends, and with -1 after it.
	 * True: these are not what is to be waited for any more, and urxe_rs_wait() returns 0. */
	bool (*around)(void *arg, int wake);
	void *arg;
	/* private: */
	bool stale; /* what around() said last */
	int wake;
	struct pollfd *all;
};

/**
 * urxe_rs_wait - until one of its descriptors has one of its events
 *
 * All get their revents. Deadline 0: without waiting; it is looked at once in any case. No lock
 * held, and cancellation off. Returns how many have some, or -1 and errno (EINTR).
 */
int urxe_rs_wait(struct urxe_rs_wait *w);
/** urxe_rs_await - until something changes of the call's socket, whose lock is given meanwhile. 0:
 * perhaps it has; EAGAIN: the call's deadline has come; EINTR; EBADF: the socket was closed. */
int urxe_rs_await(struct urxe_rs *s, const struct urxe_rs_call *c) URXE_REQUIRES(s->lock);
/** urxe_rs_patience - the call may wait for @ns, unless it has MSG_DONTWAIT in @flags. */
void urxe_rs_patience(const struct urxe_rs *s, struct urxe_rs_call *c, int flags, uint64_t ns)
	URXE_REQUIRES(s->lock);

/* ---- repoll.c ---- */

/** urxe_rs_repoll_close - EBADF: @fd is not of repoll_create(). */
int urxe_rs_repoll_close(int fd);
/** urxe_rs_repoll_forget - a socket is closed. */
void urxe_rs_repoll_forget(int fd);

/** urxe_rs_repoll_hold, urxe_rs_repoll_release - over a fork, its one lock. @child: threads that
 * slept are not there. */
void urxe_rs_repoll_hold(void);
void urxe_rs_repoll_release(bool child);

/** urxe_rs_ret - 0, or -1 and errno. */
int urxe_rs_ret(int err);

#endif
