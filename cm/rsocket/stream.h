/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A connected socket's bytes. Each end has a ring that its peer WRITEs into, and tells it of one
 * half at a time, by WRITEs to an array of SGEs of the peer's (`targets`). A DATA message says how
 * many bytes were written; it takes one receive of the peer's, and as many may be under way as
 * there are credits. Four more sends are kept for what carries no data, so that none waits for the
 * other.
 *
 * The peer writes into the ring and the targets when it likes: what is read there is copied once
 * and checked.
 */
#ifndef URXE_CM_RSOCKET_STREAM_H
#define URXE_CM_RSOCKET_STREAM_H

#include <infiniband/verbs.h>

#include "cm/rsocket/cq.h"
#include "cm/rsocket/rsocket.h"
#include "cm/rsocket/wire.h"

#define URXE_RS_BUF_MIN	   4096u
#define URXE_RS_BUF_MAX	   (64u << 20)
#define URXE_RS_QUEUE_MIN  16u
#define URXE_RS_QUEUE_MAX  0xfffeu
#define URXE_RS_INLINE_MAX 4096u
#define URXE_RS_IOMAPS_MAX 32512u /* 127 * 256, the largest that a hello can tell */
#define URXE_RS_CONTROLS   4u	  /* messages without data that are under way */
#define URXE_RS_LOW_WATER  2048u  /* bytes of room that make a socket writable */
#define URXE_RS_SEND_MOST  65536u /* bytes of one DATA */

/** Memory of the application's that is mapped for riowrite() (iomap.c). */
struct urxe_rs_mapping {
	struct cds_list_head entry; /* in urxe_rs_stream.mappings */
	struct ibv_mr *mr;
	uint64_t offset;
	int index; /* in the peer's array; -1: for us alone */
	bool told; /* it was written there; without an mr: that it is no more */
};

struct urxe_rs_stream {
	struct urxe_rs_cq cq;
	bool hello;    /* the peer's is known */
	bool swap_big; /* byte order of what is written to the peer */

	/* sending */
	uint8_t *sbuf;
	struct ibv_mr *smr;
	uint32_t ssize, shead, sused; /* of sbuf; where the next bytes go; bytes under way */
	uint32_t sends, controls;     /* that may be posted */
	uint32_t inline_most;
	uint16_t seq, limit; /* of the next DATA; of the first that may not be sent */
	struct urxe_rs_sge to[URXE_RS_SGL_SIZE]; /* where bytes may go: */
	unsigned to_count;
	unsigned target; /* which of targets is written next */

	/* receiving */
	uint8_t *rbuf;
	struct ibv_mr *rmr;
	uint32_t half;	  /* of rbuf */
	uint32_t rhead;	  /* the next byte that is read */
	uint32_t unread;  /* bytes */
	uint32_t granted; /* that the peer may still write */
	uint32_t free;	  /* read, and not granted again */
	uint32_t grant;	  /* the half that is granted next: 0 or half */
	uint16_t got;	  /* messages that took a receive and a credit */
	uint16_t told;	  /* of them, when credits were last told */

	/* what the peer writes beside bytes */
	uint8_t *targets; /* SGEs, then iomap entries */
	struct ibv_mr *tmr;
	uint32_t iomap_size; /* entries that the peer may write */

	/* what is written to the peer beside bytes */
	struct urxe_rs_sge peer_sgl; /* length: entries */
	uint32_t peer_target;	     /* the next one */
	struct urxe_rs_sge peer_iomap;
	struct cds_list_head mappings;
	uint8_t *notes; /* of URXE_RS_CONTROLS, behind sbuf: SGEs on their way */
	unsigned note;	/* the next one */
};

/** What a send was, in the upper half of its wr_id. */
enum urxe_rs_sent {
	URXE_RS_SENT_DATA, /* lower half: bytes of sbuf */
	URXE_RS_SENT_CONTROL,
	URXE_RS_SENT_END, /* DISCONNECT */
	URXE_RS_RECEIVE,
};

/* ---- endpoint.c ---- */

/** urxe_rs_receives - that it keeps posted. */
uint32_t urxe_rs_receives(const struct urxe_rs *s);
/** urxe_rs_stream_create - QP, CQ, memory for a socket whose id has a device. */
int urxe_rs_stream_create(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_stream_free - all of it; NULL is fine. Nobody else knows the socket any more. */
void urxe_rs_stream_free(struct urxe_rs *s);
/** urxe_rs_stream_hello - private data of ours. */
void urxe_rs_stream_hello(const struct urxe_rs *s, uint8_t p[URXE_RS_HELLO_LEN])
	URXE_REQUIRES(s->lock);
/** urxe_rs_stream_meet - the peer's private data. 0, EPROTO or ENOTSUP. */
int urxe_rs_stream_meet(struct urxe_rs *s, const uint8_t *p, unsigned len) URXE_REQUIRES(s->lock);

/* ---- stream.c ---- */

/** urxe_rs_completions - take in what has completed. True: there may be more. */
bool urxe_rs_completions(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_last_completions - all of them, as many as its queues hold. */
void urxe_rs_last_completions(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_stream_arm - before a sleep: have its completion channel become readable. */
void urxe_rs_stream_arm(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_stream_watch - the descriptors of one that somebody sleeps for. */
void urxe_rs_stream_watch(struct urxe_rs *s, struct pollfd fds[2]) URXE_REQUIRES(s->lock);
/** urxe_rs_stream_woken - what is to be done when these have revents. */
void urxe_rs_stream_woken(struct urxe_rs *s, const struct pollfd fds[2]) URXE_REQUIRES(s->lock);
/** urxe_rs_grant - tell the peer of room and credits, if it is worth it and can be done now. */
void urxe_rs_grant(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_control - send a control message; EAGAIN: not now. */
int urxe_rs_control(struct urxe_rs *s, enum urxe_rs_control what) URXE_REQUIRES(s->lock);
/** urxe_rs_can_write - is there room for a message, here and there? */
bool urxe_rs_can_write(const struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_all_sent - is nothing under way? */
bool urxe_rs_all_sent(const struct urxe_rs *s) URXE_REQUIRES(s->lock);

/** A message to be written. */
struct urxe_rs_write {
	uint64_t wr_id;
	struct ibv_sge sge[2];
	int num_sge;
	uint64_t addr; /* the peer's */
	uint32_t key;
	uint32_t imm; /* of the host's byte order */
	bool with_imm, inlined;
};

/** urxe_rs_post - post it; a failure ends the socket. */
void urxe_rs_post(struct urxe_rs *s, struct urxe_rs_write *w) URXE_REQUIRES(s->lock);
/** urxe_rs_wr_id - of a send or receive. */
static inline uint64_t urxe_rs_wr_id(enum urxe_rs_sent what, uint32_t bytes)
{
	return (uint64_t)what << 32 | bytes;
}

/* ---- send.c ---- */

/** A place in what an application sends or receives. */
struct urxe_rs_cursor {
	const struct iovec *iov;
	size_t left, at; /* vectors; bytes of the first one that are done */
};

/** urxe_rs_iov_length - bytes of @n vectors; EINVAL: more than SSIZE_MAX, or @n is none. */
int urxe_rs_iov_length(const struct iovec *iov, size_t n, size_t *len);
/** urxe_rs_begin_message - urxe_rs_begin() of a call with a message of *@len bytes, which has no
 * flags that are @refused. */
bool urxe_rs_begin_message(struct urxe_rs_call *c, int fd, const struct msghdr *msg, int refused,
			   size_t *len) URXE_TRY_ACQUIRE(true, c->s->lock);
/** urxe_rs_cursor_copy - @len bytes to (@out) or from the application's memory, and go on. */
void urxe_rs_cursor_copy(struct urxe_rs_cursor *c, uint8_t *p, size_t len, bool out);
/** urxe_rs_stage - @len bytes of @c, no more than fit: into the next ones of sbuf, of which @w gets
 * the SGEs; or as they are, where they can go inline. */
void urxe_rs_stage(struct urxe_rs *s, struct urxe_rs_cursor *c, uint32_t len,
		   struct urxe_rs_write *w) URXE_REQUIRES(s->lock);
/** urxe_rs_await_room - until something can be written. 0 or errno. */
int urxe_rs_await_room(struct urxe_rs *s, const struct urxe_rs_call *c) URXE_REQUIRES(s->lock);
/** urxe_rs_done - what a call returns that has sent so much before @err, or without one: an error
 * of the socket's that it does not tell stays for the next call. */
ssize_t urxe_rs_done(struct urxe_rs *s, size_t done, int err) URXE_REQUIRES(s->lock);

/* ---- iomap.c ---- */

/** urxe_rs_tell_mappings - write what the peer does not know yet; false: there is no room for all.
 */
bool urxe_rs_tell_mappings(struct urxe_rs *s) URXE_REQUIRES(s->lock);
/** urxe_rs_unmap_all - the socket goes. */
void urxe_rs_unmap_all(struct urxe_rs_stream *st);

#endif
