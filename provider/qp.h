/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs with their queues, and the state of requester and responder.
 */
#ifndef URXE_PROVIDER_QP_H
#define URXE_PROVIDER_QP_H

#include <linux/types.h>

#include "cc.h"
#include "cq.h"
#include "rcu.h"
#include "urxe/lines.h"

/* ---- rings of WQEs (ring.c) ---- */

/** Counters run free; an entry's slot is counter & (size - 1). Locked as the queue it is of. */
struct urxe_ring {
	uint8_t *slots;
	uint32_t stride; /* bytes of a slot */
	uint32_t size;	 /* slots there are: a power of two; 0: it rests */
	uint32_t max;	 /* entries there may be */
	uint32_t rested; /* slots it had before it rested, or begins with */
	struct urxe_slots
		*shared;     /* its memory is one of these blocks if there are such; or NULL */
	struct urxe_pd *pd;  /* whose allocator, if it has one */
	uint64_t type;	     /* enum urxedv_resource_type */
	struct urxe_buf buf; /* the slots', when they are its own */
};

/** urxe_ring_at - the slot of entry @i; good until the ring grows. */
static inline void *urxe_ring_at(const struct urxe_ring *r, uint32_t i)
{
	return r->slots + (size_t)(i & (r->size - 1)) * r->stride;
}

/**
 * urxe_ring_init - an empty ring. 0 or ENOMEM.
 * @shared: of what it may take memory, the first time too when that is needed; or NULL. Not of use
 * with a @pd that has an allocator.
 */
int urxe_ring_init(struct urxe_ring *r, struct urxe_pd *pd, uint64_t type, uint32_t max,
		   uint32_t stride, struct urxe_slots *shared);
void urxe_ring_fini(struct urxe_ring *r);
/** urxe_ring_grow - for urxe_ring_room(): twice the slots, or those it had before it rested. 0 or
 * ENOMEM. */
int urxe_ring_grow(struct urxe_ring *r, uint32_t from, uint32_t to);
/** urxe_ring_room - see to a slot for entry @to, with @from the oldest in use. 0; ENOMEM: full. */
static inline int urxe_ring_room(struct urxe_ring *r, uint32_t from, uint32_t to)
{
	if (to - from >= r->max)
		return ENOMEM;
	return to - from < r->size ? 0 : urxe_ring_grow(r, from, to);
}
/** urxe_ring_rest - it is empty: its memory is for others, if it is of such as is shared. */
void urxe_ring_rest(struct urxe_ring *r);
/** urxe_ring_resize - let it have @max entries; @from up to @to are in use. 0 or ENOMEM. */
int urxe_ring_resize(struct urxe_ring *r, uint32_t max, uint32_t from, uint32_t to);

/* ---- receive queues ---- */

struct urxe_rwqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length; /* sum of the SGEs, bytes */
	struct ibv_sge sge[];
};

/** Receive WQEs: a QP's own, or an SRQ's. */
struct urxe_rq {
	struct urxe_spin lock; /* of what several QPs use; a QP's own queue is under qp->lock */
	uint32_t head, tail;
	uint32_t max_sge;
	uint32_t limit; /* SRQ: an event below this many WQEs; 0 off */
	struct urxe_ring ring;
};

struct urxe_srq {
	struct verbs_srq vsrq;
	struct urxe_device *dev;
	struct urxe_pd *pd;
	/* XRC: */
	struct urxe_cq *cq;
	struct urxe_xrcd_domain *domain;
	uint32_t num;

	struct urxe_rq rq;
	uint32_t async_events;
	atomic_int users;
};

static inline struct urxe_srq *to_urxe_srq(struct ibv_srq *srq)
{
	return srq ? urxe_container_of(srq, struct urxe_srq, vsrq.srq) : NULL;
}

/* ---- send queue ---- */

enum urxe_wqe_flag {
	URXE_WQE_SIGNALED = 1 << 0,
	URXE_WQE_SOLICITED = 1 << 1,
	URXE_WQE_FENCE = 1 << 2,
	URXE_WQE_INLINE = 1 << 3,
	URXE_WQE_STARTED = 1 << 4, /* its PSNs are assigned */
	URXE_WQE_AH = 1 << 5,	   /* it has a reference of an AH */
	URXE_WQE_PAIR = 1 << 6,	   /* a READ that may have two requests out */
};

struct urxe_swqe {
	uint64_t wr_id;
	/* This and the union have what an operation puts there; of another one, anything. */
	uint64_t remote_addr;
	union {
		struct {
			uint64_t compare_add;
			uint64_t swap;
		} atomic;
		struct { /* BIND_MW; the range begins at remote_addr, the new key is rkey */
			uint64_t length; /* bytes */
			uint32_t lkey;	 /* of the MR */
			uint32_t access; /* enum ibv_access_flags */
		} bind;
		struct {
			uint32_t length; /* bytes */
			uint32_t feth;	 /* urxe_feth() */
		} flush;
		struct {
			struct urxe_ah *ah;
			uint32_t qkey;
		} ud;
	};
	uint32_t rkey;
	uint32_t remote_qpn; /* UD; of XRC the SRQ's number */
	union {
		__be32 imm;	   /* as given */
		uint32_t inv_rkey; /* SEND_WITH_INV, LOCAL_INV */
	};
	uint32_t length; /* sum of the SGEs, bytes */
	uint32_t psn;	 /* first PSN */
	uint32_t npsn;	 /* PSNs it takes */
	uint16_t flags;
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint8_t num_sge;
	union {
		struct ibv_sge sge[0];
		uint8_t data[0];
	};
};

static_assert(sizeof(struct urxe_swqe) == 64, "one cache line, then what it sends");

/* Counters: done <= cur <= post. */
struct urxe_sq {
	uint32_t post; /* next slot to fill */
	uint32_t cur;  /* WQE of the next packet to send */
	uint32_t done; /* oldest not completed */
	/* Who posts polls as well: the count of callers' turns when it last changed, and post then.
	 */
	uint32_t polled_at;
	uint32_t left_at; /* cur, when posts were last left to the caller's next turn */
	uint32_t ops;	  /* bits 1 << opcode of what the QP's transport can do */
	uint32_t polls;
	uint16_t max_sge, max_inline;
	struct urxe_ring ring;
};

/** What ibv_wr_* is building; under qp->lock, which wr_start takes. */
struct urxe_builder {
	uint32_t next;	       /* slot that the next finished WQE takes */
	struct urxe_swqe *wqe; /* under construction */
	int err;	       /* the first; wr_complete returns it */
	bool binds;	       /* a BIND_MW is among them */
};

/* ---- requester, completer, responder state of a QP ---- */

/* How the ICRC of a FLUSH is summed (quirks.md: flush-icrc). */
enum urxe_flush_form {
	URXE_FLUSH_STANDARD,
	URXE_FLUSH_TWICE,
};

#define URXE_AGAIN_MAX 4

/** What is sent again alone, and what became of the last gap (recover.c). */
struct urxe_again {
	uint32_t run;	     /* packets, */
	uint32_t psn, count; /* and PSNs, that were sent again alone at the last gap; 0: all is told
				of that */
	uint8_t left;	     /* entries of at, to be sent */
	uint8_t way;	     /* enum urxe_peer_way, as this QP knows */
	uint8_t naks;	     /* of what was sent again alone */
	uint8_t strikes;     /* the peer seems to have dropped what came behind a gap: in a row */
	uint32_t gaps;
	uint32_t high;	      /* max_psn then */
	uint32_t answered;    /* PSN of a NAK that was answered, by sending again, */
	uint8_t unlucky;      /* so many that are sent again go out twice: one was lost */
	uint64_t answered_at; /* and when; 0: none was, or more has been sent again since */
	struct {
		uint32_t psn, n; /* PSNs */
		bool part;	 /* of a READ that was executed */
		bool twice;
	} at[URXE_AGAIN_MAX];
};

/* In the order of use, by cache lines: each packet, each ACK, losses, the rest. */
struct urxe_requester {
	uint32_t psn;	   /* PSN of the next packet to send */
	uint32_t una;	   /* oldest PSN not acknowledged */
	uint32_t max_psn;  /* one past the highest PSN ever sent */
	uint32_t next_psn; /* first PSN of the next WQE to be started */
	uint32_t ack_psn;  /* PSN of the last packet that asked for an ACK */
	uint16_t rd_out;   /* requests that READs and ATOMICs may have out: not above the limit */
	bool recovering;   /* something in again may be to do, or be waited for */
	uint8_t retries;
	uint8_t rnr_retries;
	bool rnr_wait;
	bool gone_back;	       /* went back because of a gap; no more until there is progress */
	bool peer_gone;	       /* the peer's process died, on a link that tells */
	bool tail;	       /* asked after a silence, and has not gone back */
	bool probed;	       /* went back because of silence, which may mean nothing yet */
	uint8_t backoff;       /* probes since the last measurement: each waits twice as long */
	uint8_t patience;      /* overtaken by so many, a response is taken for lost */
	uint64_t deadline;     /* of the retransmission (or RNR) timer; URXE_NEVER: stopped */
	uint64_t silent_since; /* there was neither progress nor a probe; while the timer runs */
	uint64_t rtt_since;    /* the packet that is measured was sent; 0: there is none */
	uint32_t rtt_psn;      /* its PSN */
	uint32_t recover;      /* max_psn when it was probed */

	struct urxe_cc cc; /* how much may be out */
	struct urxe_rtt rtt;

	uint32_t nearly;	  /* responses that have come before others */
	uint32_t overtaken;	  /* and passed the one that is expected */
	struct urxe_early *early; /* which they are; NULL: there never were any */
	struct urxe_again again;

	uint8_t flush_form; /* enum urxe_flush_form of FLUSHes to be sent */
	bool flush_known;   /* it is the peer's */
	bool flush_tried;   /* it was changed at PSN flush_from; what is older went out in both */
	uint32_t flush_from;
	uint8_t last_nak; /* syndrome of the last NAK that came; 0: none has */
	uint32_t last_nak_psn;
	uint64_t last_nak_at;
};

/* Named as in IBTA 9.9.3: what the responder is in the middle of. */
enum urxe_resp_state {
	URXE_RESP_EXPECT_FIRST, /* between messages */
	URXE_RESP_IN_SEND,
	URXE_RESP_IN_WRITE,
	URXE_RESP_WAIT_RETRY, /* a sequence or RNR NAK is out: only the expected PSN goes on */
	URXE_RESP_FATAL,      /* NAK that ends the QP is to be sent */
	URXE_NUM_RESP_STATES,
};

/* What the ACK that is due answers. */
enum urxe_ack {
	URXE_ACK_NONE,
	URXE_ACK_DUPLICATES, /* alone, up to dup_psn */
	URXE_ACK_REQUESTS,   /* all that were executed */
};

enum urxe_res_kind {
	URXE_RES_NONE,
	URXE_RES_READ,
	URXE_RES_ATOMIC,
	URXE_RES_ATOMIC_WRITE,
	URXE_RES_FLUSH
};

/** A responder resource (IBTA 9.7.2): a READ or ATOMIC, kept for its duplicates. */
struct urxe_resource {
	uint8_t kind;
	bool pending; /* a response is to be sent from psn cur on */
	bool sent;    /* has been answered in full once */
	bool first;   /* the next response packet is the first of an answer */
	uint32_t psn, npsn, cur;
	uint32_t end, stop; /* of the answer: PSNs of the request, and READ: bytes of it */
	uint32_t rest, rest_end,
		rest_stop; /* a part was asked for again: then goes on; end 0: none */
	uint32_t rkey, length;
	uint64_t va;
	struct urxe_pd *pd; /* of the rkey */
	uint32_t srqn;	    /* XRC: whose PD it is */
	uint64_t value;	    /* ATOMIC: what was there before */
	uint32_t msn;
};

/* In the order of use: what each SEND needs is in one cache line, a WRITE has a second one. */
struct urxe_responder {
	uint32_t epsn;
	uint32_t msn;
	uint8_t state;
	uint8_t resume;	 /* state to go back to after WAIT_RETRY */
	uint8_t ack_due; /* enum urxe_ack */
	bool nak_due;
	bool in_recv;	  /* a receive WQE is in use: rwqe */
	bool established; /* COMM_EST raised */
	bool gap;	  /* packets have come before what is before them: what follows counts */
	bool told;	  /* the packet at nak_psn came after its NAK */
	bool passed;	  /* since the NAK the peer has sent again what is before the gap */
	bool repeating;	  /* the last packet was one that is kept */
	bool backlog;	  /* what is kept can be executed, and a part of it has been */
	bool shared;	  /* receive WQEs come from a queue that others use as well */
	uint32_t offset;  /* bytes received of the message */
	uint32_t res_pending;
	bool asked_again; /* by the peer, in this burst */
	bool gives_back;  /* there is something in spent */
	/* The receive WQE in use: at the tail of our queue till it is complete, or a copy of a
	 * shared one, in memory that is there for it. */
	struct urxe_rwqe *rwqe;
	struct urxe_stall *stall; /* is carried out elsewhere: nothing behind it is executed */
	struct urxe_pd *pd;	  /* of rkeys: the QP's; of XRC the SRQ's (IBTA A14) */
	struct urxe_pd *recv_pd;  /* of receive WQEs: that of their queue */

	uint64_t va;
	uint32_t rkey;
	uint32_t resid;	 /* WRITE: bytes to come */
	uint32_t length; /* WRITE: bytes in all */
	uint32_t srqn;	 /* XRC: SRQ of the request */
	uint32_t nak_psn;
	uint32_t dup_psn;
	struct urxe_resource *res;
	uint32_t res_size, res_head; /* res_head: the oldest, the next to be used */
	uint8_t nak_syndrome;	     /* of the last NAK that was due; 0: none was */
	uint8_t fatal_status;	     /* enum ibv_event_type that goes with a fatal NAK */
	uint32_t repeated; /* PSN of a packet that is kept, when a NAK was sent again for it */
	uint32_t reach;	   /* one past the newest the peer has sent since it went back */

	uint32_t overtaken; /* packets that came before the one expected */
	uint32_t patience;  /* so many of them are taken for a loss */
	uint64_t nak_at;    /* when the gap is told for its time, or once more; 0: it is not */
	uint64_t told_at;   /* when it was told first */
	uint8_t told_again; /* so often for its time */
	bool asked;	    /* in this gap the peer was, and has sent what was missing */
	bool selective;	    /* it sends that alone, and not all behind it */
	struct cds_list_head kept; /* by PSN (keep.c) */
	uint32_t nkept;
	struct cds_list_head spent; /* what was kept and is executed */
	uint64_t lend_number;	    /* of the last request that another process executed (lend.c) */
	bool lent;		    /* one has a part of a message, or may have */
};

/** What came of letting a QP send. */
struct urxe_sent {
	uint32_t packets; /* given to the lane */
	bool more;  /* it stopped for want of room (or of a neighbour), and is to be let again, */
	bool waits; /* or because an ACK waits */
};

/** Packet pacing (rate.c). */
struct urxe_pace {
	uint32_t burst;	     /* bytes */
	uint64_t busy_until; /* when all that was sent would be through at this rate */
};

/* By cache lines: what each message needs comes first. */
struct urxe_qp {
	struct verbs_qp vqp;
	URXE_NEW_LINE struct urxe_qp *real; /* itself */
	struct urxe_device *dev;
	struct urxe_cq *scq, *rcq;
	struct urxe_srq *srq;
	struct urxe_pd *pd; /* root */
	struct urxe_path *path;
	struct urxe_peer *peer; /* what is known of it; NULL before RTR */

	struct urxe_spin lock; /* path, peer, and everything below */
	uint8_t type;	       /* enum ibv_qp_type; GSI is a UD QP */
	uint8_t state;
	uint8_t mtu_shift;
	uint32_t qpn;
	uint32_t mtu; /* bytes */
	bool gsi;
	bool sq_sig_all;
	atomic_bool destroyed;
	bool touched;	   /* took a packet of the burst that a turn has in hand */
	uint8_t dgid[16];  /* where the peer is: packets of others are not his */
	uint32_t dqpn;	   /* its QPN */
	uint32_t access;   /* what it may do: enum ibv_access_flags */
	uint32_t kbps;	   /* it is sent no faster; 0: no limit */
	uint8_t mig_state; /* enum ibv_mig_state */
	bool got;	   /* a message has come in full, and nothing was posted since */
	bool replies;	   /* something was posted after the last that did, before the next */
	bool has_events;   /* one of its CQs has a channel */
	_Atomic uintptr_t next_posted; /* as scq->posted (wqe.c) */
	bool pending;		       /* under sched.lock */
	bool sqd_notify;
	bool block_self_mcast; /* gets no copy of what it sends to a group that it is in */
	bool last_wqe_reached;
	bool sq_draining; /* SQD: the drained event is due */
	bool ack_waits; /* an ACK may wait, for what is posted after its message, and all of that */
	uint8_t lane;	/* that all it sends goes by: on two, packets overtake each other */
	bool answers;	/* the responder may have something to send; if not, it has not */
	bool mig_refused;	     /* PATH_MIG_ERR was raised since the last rearm */
	struct urxe_path *alt_path;  /* apm.c */
	struct urxe_path *lend_path; /* XRC_RECV: to processes that have our addresses (lend.c) */
	struct urxe_pace pace;
	bool told_too_long; /* a datagram that did not fit was logged */

	URXE_NEW_LINE struct urxe_sq sq;
	struct urxe_builder wr;
	URXE_NEW_LINE struct urxe_rq own_rq;
	struct urxe_rq *rq; /* own_rq or the SRQ's */
	URXE_NEW_LINE struct urxe_requester req;
	URXE_NEW_LINE struct urxe_responder resp;

	URXE_NEW_LINE struct ibv_qp_attr
		attr; /* as set by modify, for query; without what has a place above */
	/* In the line that has the end of attr: time-out and retries. Scheduling (progress.c): */
	struct cds_list_head pending_node; /* under sched.lock */
	struct urxe_timer timer;	   /* under sched.lock */
	uint64_t timer_at;		   /* when the heap will come back to us; under qp->lock */
	uint64_t ack_until;		   /* of ack_waits */
	/* So many do not wait, after the last ones that did so in vain; and the next time. */
	uint16_t ack_skips, ack_vain;

	struct ibv_qp_init_attr init;
	struct urxe_context *ctx;
	struct urxe_pd *given_pd;	 /* perhaps a parent domain */
	struct cds_list_head windows;	 /* type 2, bound by it; under mw_lock */
	struct urxe_xrcd_domain *domain; /* XRC_RECV; and it has neither PD, CQ nor SRQ */
	uint8_t alt_dgid[16];
	uint64_t send_ops;    /* IBV_QP_EX_WITH_* that ibv_wr_* may use */
	struct urxe_rss *rss; /* spreads what it receives; else NULL */
	uint32_t async_events;
	atomic_int flows;	    /* rules that feed it */
	struct cds_list_head opens; /* XRC_RECV: struct urxe_qp_open */
	struct cds_list_head mcast; /* groups it is attached to; under dev->mutex */
	struct urxe_rcu_head rcu;
};

/** What an application holds of a target QP of XRC, which others may have open as well. */
struct urxe_qp_open {
	struct verbs_qp vqp;
	uint8_t pad[offsetof(struct urxe_qp, real) - sizeof(struct verbs_qp)];
	struct urxe_qp *real;
	struct urxe_context *ctx;
	uint32_t async_events;
	struct cds_list_head node; /* on real->opens, under its lock */
};

static_assert(offsetof(struct urxe_qp_open, real) == offsetof(struct urxe_qp, real), "same head");

static inline struct urxe_qp *to_urxe_qp(struct ibv_qp *qp)
{
	return qp ? urxe_container_of(qp, struct urxe_qp, vqp.qp)->real : NULL;
}

/** urxe_qp_acked - does the peer acknowledge what this QP sends? */
static inline bool urxe_qp_acked(const struct urxe_qp *qp)
{
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND;
}

/** urxe_qp_set_type - enum ibv_qp_type, and what goes with it. Once. */
void urxe_qp_set_type(struct urxe_qp *qp, enum ibv_qp_type type);
/** urxe_qp_services - URXE_SVC_* by enum ibv_qp_type. */
extern const uint8_t urxe_qp_services[];
/** urxe_qp_service - the upper bits of its opcodes. */
static inline uint8_t urxe_qp_service(const struct urxe_qp *qp)
{
	return urxe_qp_services[qp->type];
}

static inline struct urxe_swqe *urxe_sq_at(const struct urxe_sq *sq, uint32_t i)
{
	return urxe_ring_at(&sq->ring, i);
}

static inline struct urxe_rwqe *urxe_rq_at(const struct urxe_rq *rq, uint32_t i)
{
	return urxe_ring_at(&rq->ring, i);
}

/* ---- srq.c and rq.c ---- */
/** urxe_rq_init - an empty queue, from the allocator of @pd. 0 or ENOMEM. */
int urxe_rq_init(struct urxe_rq *rq, struct urxe_pd *pd, uint64_t type, uint32_t max_wr,
		 uint32_t max_sge);
void urxe_rq_fini(struct urxe_rq *rq);
/** urxe_rq_post - one more at its head. 0, or the errno that ibv_post_recv() returns. */
static inline int urxe_rq_post(struct urxe_rq *rq, const struct ibv_recv_wr *wr)
	URXE_REQUIRES(rq->lock)
{
	struct urxe_rwqe *wqe;
	uint64_t length = 0;
	int num_sge = *(volatile const int *)&wr->num_sge; /* read once */

	if (num_sge < 0 || (uint32_t)num_sge > rq->max_sge)
		return EINVAL;
	if (urxe_ring_room(&rq->ring, rq->tail, rq->head))
		return ENOMEM;
	wqe = urxe_rq_at(rq, rq->head);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)num_sge;
	/* Checked on our copy: the application may change its own meanwhile. */
	for (int i = 0; i < num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		length += wqe->sge[i].length;
	}
	if (length > URXE_MAX_MSG_SZ)
		return EINVAL;
	wqe->length = (uint32_t)length;
	rq->head++;
	return 0;
}

struct ibv_srq *urxe_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *urxe_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
int urxe_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int urxe_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int urxe_destroy_srq(struct ibv_srq *srq);
int urxe_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- qp.c, qp_modify.c ---- */
struct ibv_qp *urxe_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *urxe_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
int urxe_destroy_qp(struct ibv_qp *qp);
int urxe_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int urxe_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init);
/** urxe_qp_create_common - all ways of creating, and the GSI (@qpn 1; 0: any). @pd: NULL of
 * XRC_RECV. */
struct urxe_qp *urxe_qp_create_common(struct ibv_context *ctx, struct ibv_pd *pd,
				      struct ibv_qp_init_attr *attr, uint32_t qpn);
/** urxe_qp_clean_cqs - forget its completions that nobody has polled; as urxe_cq_clean(). */
void urxe_qp_clean_cqs(struct urxe_qp *qp, bool keep_good);
/** urxe_qp_destroy_common - all but what the application sees of it. */
void urxe_qp_destroy_common(struct urxe_qp *qp);
/** urxe_qp_await_events - all @events raised for a handle are read and acknowledged, or gone. */
void urxe_qp_await_events(struct ibv_qp *qp, struct urxe_context *ctx, uint32_t events);
/** urxe_qp_enter - the one place where the state of a QP in use changes; qp->lock held. */
void urxe_qp_enter(struct urxe_qp *qp, enum ibv_qp_state state) URXE_REQUIRES(qp->lock);
/** urxe_qp_error - to ERR, flushing both queues; qp->lock held. */
void urxe_qp_error(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_qp_sq_error - to SQE: an error of the send queue alone, of all but connected reliable ones
 * (IBTA 10.3.1.6). What is posted is flushed, the receive queue lives on. qp->lock held. */
void urxe_qp_sq_error(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);
/** urxe_qp_fatal - to ERR with an affiliated asynchronous error event; qp->lock held. */
void urxe_qp_fatal(struct urxe_qp *qp, enum ibv_event_type event) URXE_REQUIRES(qp->lock);
/** urxe_qp_fail_users - the CQ lost a completion: all QPs that complete to it fail. Only RCU and no
 * lock of a QP or CQ may be held. */
void urxe_qp_fail_users(struct urxe_cq *cq);
/** urxe_qp_flush_all - the device is dead: all QPs, the GSI's too, go to ERR, without an event
 * each. Likewise. */
void urxe_qp_flush_all(struct urxe_device *dev);
/**
 * urxe_qp_end_all - a context was closed: its QPs send what they owe (an ACK), and go to ERR
 *
 * A target QP of XRC goes on while another context has it open. Holds no lock.
 */
void urxe_qp_end_all(struct urxe_context *ctx);
/** urxe_qp_wc - a completion with what is common to all of this QP filled in. */
static inline void urxe_qp_wc(const struct urxe_qp *qp, struct ibv_wc *wc, uint64_t wr_id,
			      enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	*wc = (struct ibv_wc){
		.wr_id = wr_id, .status = status, .opcode = opcode, .qp_num = qp->qpn};
}
/** urxe_qp_release_wqes - forget all WQEs (RESET, destroy); drops AH references. qp->lock held. */
void urxe_qp_release_wqes(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);

/* ---- what a QP does with windows (mw.c) ---- */
/**
 * urxe_mw_posted - a bind was posted that gives its window @key: ibv_mw.rkey is that from now on,
 * whether the bind succeeds or not (IBTA 10.6.7). Any lock.
 */
void urxe_mw_posted(struct urxe_device *dev, uint32_t key);
/**
 * urxe_mw_bind - carry out a bind; qp->lock held, RCU read-side
 * @key: the window's new rkey; its upper 24 bits are those of the window
 * @lkey, @addr, @length: of the region; @length 0 binds a type 1 window to nothing
 * 0, or an errno: a bind error.
 */
int urxe_mw_bind(struct urxe_qp *qp, uint32_t key, uint32_t lkey, uint64_t addr, uint64_t length,
		 unsigned access) URXE_REQUIRES(qp->lock);
/** urxe_mw_invalidate - what LOCAL_INV and SEND_WITH_INV ask for. 0 or EINVAL. */
int urxe_mw_invalidate(struct urxe_qp *qp, const struct urxe_pd *pd, uint32_t key)
	URXE_REQUIRES(qp->lock);
/** urxe_mw_release_qp - the windows that a dying QP has bound are bound no more. */
void urxe_mw_release_qp(struct urxe_qp *qp);

/* ---- event.c ---- */
/** urxe_event_qp - raise an event on the contexts of those who have the QP; qp->lock held. */
void urxe_event_qp(struct urxe_qp *qp, enum ibv_event_type type) URXE_REQUIRES(qp->lock);

/* ---- peer_gone.c ---- */
/** urxe_peer_check - notes it if the QP's peer is no more, which was told before the QP knew of it.
 * Takes no lock. */
void urxe_peer_check(struct urxe_qp *qp) URXE_REQUIRES(qp->lock);

#endif
