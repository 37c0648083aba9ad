/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The provider's objects. Internal to this folder (and to its tests).
 *
 * Lock order: device->mutex -> lane -> qp->lock -> rq->lock -> cq->lock -> channel->lock,
 * and dev->sched.lock innermost beside them. Post paths take qp->lock first and then only
 * try the lane.
 */
#ifndef URXE_PROVIDER_H
#define URXE_PROVIDER_H

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
#include "netio/config.h"
#include "netio/identity.h"
#include "netio/port.h"
#include "netio/link.h"
#include "rlist.h"
#include "table.h"
#include "urxe/lock.h"
#include "urxe/log.h"
#include "urxe/opcode.h"
#include "urxe/wire.h"
#include "urxedv.h"

#define urxe_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Limits that query_device reports; each of them can be created. */
#define URXE_MAX_QP	     65535 /* below the QPN index space: 0 and 1 are special */
#define URXE_MAX_QP_WR	     32768
#define URXE_MAX_SGE	     32
#define URXE_MAX_INLINE	     1024
#define URXE_MAX_CQ	     65536
#define URXE_MAX_CQE	     (1 << 22)
#define URXE_MAX_MR	     (1 << 20)
#define URXE_MAX_MW	     ((1 << 20) - 1) /* with the regions: all keys but that of index 0 */
#define URXE_MAX_DM	     (64ull << 20)
#define URXE_MAX_RWQ_TABLES  65536
#define URXE_MAX_WQ	     32768 /* they take their numbers from the QPs */
#define URXE_MAX_PD	     65536
#define URXE_MAX_AH	     65536
#define URXE_MAX_SRQ	     65536
#define URXE_MAX_SRQ_WR	     32768
#define URXE_MAX_RD_ATOMIC   128
#define URXE_MAX_MSG_SZ	     0x80000000u
#define URXE_MKEY_INDEX_BITS 21
#define URXE_MW_OWNER_BITS   8 /* of a window's key: its owner's choice */
#define URXE_COMP_VECTORS    1
#define URXE_RX_BURST	     32
#define URXE_WINDOW	     256 /* packets in flight of one RC QP at most */
#define URXE_WINDOW_START    64
#define URXE_WINDOW_MIN	     2
#define URXE_ACK_EVERY	     32		   /* AckReq at least this often within a long message */
#define URXE_UD_PATIENCE     2000000000ull /* ns that a datagram waits for its neighbour */
#define URXE_GSI_PATIENCE    50000000ull   /* MADs come again: others must not wait for one */

#define URXE_MAX_MCAST	     256  /* groups; netio has room for more */
#define URXE_MAX_MCAST_QPS   4096 /* in one group */
#define URXE_SRQN_INDEX_BITS 17

#define URXE_VENDOR_ID	    0x7572 /* "ur": nobody's OUI */
#define URXE_VENDOR_PART_ID 0x0001

struct urxe_qp;
struct urxe_cq;
struct urxe_td;
struct urxe_rss;
struct urxe_context;
struct urxe_device;

/* ---- timers (timer.c): one entry a QP, re-armed lazily ---- */

struct urxe_timer {
	uint64_t when; /* key in the heap */
	unsigned pos;  /* index in the heap + 1; 0: not in it */
	bool of_cq;    /* a CQ's, else a QP's */
};

struct urxe_timer_heap {
	struct urxe_timer **v;
	unsigned n, room;
};

/* ---- device ---- */

/** What waits for a lane: QPs with something to send (pending list), and timers. */
struct urxe_sched {
	struct urxe_spin lock;
	struct cds_list_head pending;
	atomic_uint npending;
	atomic_bool contended; /* a sender found the lane taken by another sender */
	struct urxe_timer_heap timers;
	_Atomic uint64_t next_timer; /* the earliest, URXE_NEVER when none */
};

/** The service thread of a device (service.c). */
struct urxe_service_thread {
	pthread_t thread;
	bool running;
	atomic_bool stop;
	atomic_bool asleep;	/* in a long wait, or about to */
	_Atomic uint64_t until; /* when it will look of itself; valid while asleep */
	_Atomic uint64_t polls; /* lane turns by callers: they drive */
	atomic_bool nudged;	/* a caller goes to sleep: drive for a while */
	atomic_bool gsi_due;
	_Atomic uint64_t resolve_until; /* the GSI waits for a neighbour: look often */
	pthread_mutex_t gsi_lock;	/* held while the GSI's poll runs */
	const struct urxe_gsi_service *gsi_svc;
	uint64_t gsi_next;
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
	URXE_STAT_RX_OUT_OF_SEQUENCE,
	URXE_STAT_RX_GHOST_ACK,
	URXE_STAT_RX_UD_NO_RECV,
	URXE_STAT_RX_UD_TOO_LONG,
	URXE_STAT_RX_UC_DROP,
	URXE_STAT_TX_PACKETS,
	URXE_STAT_TX_NAK_SEQ,
	URXE_STAT_TX_NAK_OTHER,
	URXE_STAT_TX_RNR_NAK,
	URXE_STAT_TX_UNREACHABLE,
	URXE_STAT_RETRANSMITS,
	URXE_STAT_TIMEOUTS,
	URXE_STAT_EVENTS_LOST,
	URXE_NUM_STATS,
};

struct urxe_device {
	struct verbs_device vdev; /* first: libibverbs knows us by it */
	struct urxe_port_config cfg;
	struct urxe_port *port;
	uint64_t guid; /* network order */

	pthread_mutex_t mutex; /* bring-up, contexts, GSI, table writers */
	struct cds_list_head contexts;
	atomic_bool started;
	atomic_bool dead; /* its port is, or we are a forked child of the process that started it */
	unsigned lanes;
	atomic_uint lane_hint;

	/* urxe_device_watch()'s */
	bool watched, was_up;
	uint64_t watch_next;

	struct urxe_table qps;
	struct urxe_table mkeys;
	uint32_t mkey_next; /* where the search for a free key index begins */
	uint32_t mr_count, mw_count;
	struct urxe_spin mw_lock; /* what windows are bound to; innermost */
	_Atomic uint64_t dm_used;
	struct urxe_table srqs; /* of XRC, by number */
	uint32_t srqn_next;
	struct cds_list_head xrcds;
	_Atomic(struct urxe_qp *) gsi;
	struct urxe_rlist flows; /* rules of raw packet QPs; read under RCU */
	unsigned num_flows;
	struct urxe_rlist mcast_groups; /* read under RCU */
	unsigned num_mcast;

	struct urxe_sched sched;
	struct urxe_service_thread service;
	_Atomic uint64_t stats[URXE_NUM_STATS];
	atomic_int num_qp, num_cq, num_pd, num_ah, num_srq, num_wq, num_rwq_table;
};

/** urxe_stat_name - of a counter. */
const char *urxe_stat_name(enum urxe_stat s);
/** urxe_stat_log - the counters of port and transport that are not 0, as two log lines (info). */
void urxe_stat_log(struct urxe_device *dev);

static inline void urxe_stat_inc(struct urxe_device *dev, enum urxe_stat s)
{
	/* A lost count under contention of two lanes is worth less than a locked add. */
	_Atomic uint64_t *v = &dev->stats[s];

	atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

struct urxe_context {
	struct verbs_context vctx;
	struct urxe_device *dev;
	struct cds_list_head node; /* on dev->contexts */
	int async_wfd;
	int async_rfd; /* our own, non-blocking description of async_fd's pipe */
	pthread_mutex_t async_lock;
};

static inline struct urxe_context *to_urxe_ctx(struct ibv_context *ctx)
{
	return urxe_container_of(ctx, struct urxe_context, vctx.context);
}

static inline struct urxe_device *to_urxe_dev(struct ibv_context *ctx)
{
	return to_urxe_ctx(ctx)->dev;
}

/* ---- protection domain, memory region, address handle ---- */

struct urxe_pd {
	struct ibv_pd pd;
	struct urxe_device *dev;
	struct urxe_pd *root; /* itself, but for a parent domain: what protection asks for */
	atomic_int users;     /* what was made in it: QPs, MRs, AHs, parent domains ... */
	/* parent domain */
	struct urxe_td *td;
	void *(*alloc)(struct ibv_pd *pd, void *ctx, size_t size, size_t align, uint64_t type);
	void (*free)(struct ibv_pd *pd, void *ctx, void *ptr, uint64_t type);
	void *pd_context;
};

static inline struct urxe_pd *to_urxe_pd(struct ibv_pd *pd)
{
	return pd ? urxe_container_of(pd, struct urxe_pd, pd) : NULL;
}

/** Memory of a queue, from a parent domain's allocator or our own. */
struct urxe_buf {
	void *p;
	struct urxe_pd *from; /* NULL: ours */
	uint64_t type;	      /* enum urxedv_resource_type */
};

/* ---- memory keys (mkey.c), regions (mr.c), windows (mw.c), device memory (dm.c) ---- */

#define URXE_ACCESS_FLUSH (URXEDV_ACCESS_FLUSH_GLOBAL | URXEDV_ACCESS_FLUSH_PERSISTENT)

enum urxe_mkey_kind {
	URXE_MKEY_MR,
	URXE_MKEY_MW1,
	URXE_MKEY_MW2
};

enum urxe_mkey_flag {
	URXE_MKEY_ON_DEMAND = 1 << 0, /* pages may not be there */
	URXE_MKEY_NULL = 1 << 1,      /* no memory at all */
};

/** What a key stands for. Never changes once published; replaced under RCU. */
struct urxe_mkey {
	uint32_t key; /* lkey, rkey */
	uint8_t kind, flags;
	unsigned access;
	struct urxe_pd *pd; /* root; NULL: a window bound to nothing */
	uint64_t iova, length;
	uint8_t *addr;
	uint32_t qpn; /* type 2 window: the QP that bound it */
	struct urxe_mr *mr;
	struct urxe_mw *mw;
	struct rcu_head rcu;
};

struct urxe_mr {
	struct verbs_mr vmr;
	struct urxe_device *dev;
	struct urxe_pd *pd;
	struct urxe_mkey *mkey;
	uint32_t windows; /* bound to it; under mw_lock */
	struct urxe_dm *dm;
	void *map; /* of a dma-buf */
	size_t map_length;
};

static inline struct urxe_mr *to_urxe_mr(struct ibv_mr *mr)
{
	return mr ? urxe_container_of(mr, struct urxe_mr, vmr.ibv_mr) : NULL;
}

struct urxe_mw {
	struct ibv_mw mw;
	struct urxe_device *dev;
	struct urxe_pd *pd;
	struct urxe_mkey idle; /* in the table while it is bound to nothing */
	struct urxe_mr *mr;    /* bound to it; these under mw_lock */
	struct urxe_mkey *bound;
	struct urxe_qp *qp; /* type 2: that bound it */
	struct cds_list_head node;
};

struct urxe_dm {
	struct verbs_dm vdm;
	struct urxe_device *dev;
	uint8_t *mem;
	size_t length;
	atomic_int users; /* regions */
};

struct urxe_ah {
	struct ibv_ah ah;
	struct urxe_device *dev;
	struct ibv_ah_attr attr;
	struct urxe_path *path;
	atomic_int refs; /* its creator and each UD WQE that has yet to be sent */
};

/* ---- completion queue ---- */

struct urxe_channel {
	struct ibv_comp_channel channel; /* fd is the read end */
	int wfd;
	pthread_mutex_t lock; /* writers and the purge */
};

struct urxe_cqe {
	struct ibv_wc wc;
	uint64_t when;	   /* the port's clock; of CQs that tell it */
	uint32_t flow_tag; /* raw packets */
	uint16_t cvlan;
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
	uint32_t tail;	       /* next to poll; under lock */
	atomic_int armed;
	bool overrun;
	bool gsi; /* completions are for the GSI service */
	_Atomic uint32_t empty_polls;
	uint32_t events_sent;
	uint32_t async_events;
	/* moderation of events, under lock: after so many completions, or so long after the first
	 */
	uint32_t mod_count, mod_waiting;
	uint64_t mod_period;	 /* ns; 0: none */
	struct urxe_timer timer; /* under sched.lock */
	/* ibv_start_poll ... ibv_end_poll */
	struct urxe_spin poll_lock;
	struct urxe_cqe cur;
	atomic_int users;
};

static inline struct urxe_cq *to_urxe_cq(struct ibv_cq *cq)
{
	return cq ? urxe_container_of(cq, struct urxe_cq, vcq.cq) : NULL;
}

/* ---- receive queues ---- */

struct urxe_rwqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t pad;
	struct ibv_sge sge[];
};

/** A ring of receive WQEs: a QP's own, or an SRQ's. */
struct urxe_rq {
	struct urxe_spin lock;
	uint8_t *ring;
	struct urxe_buf buf; /* the ring's */
	uint32_t stride;
	uint32_t size; /* a power of two */
	uint32_t max_wr, max_sge;
	uint32_t head, tail;
	uint32_t limit; /* SRQ: an event below this many WQEs; 0 off */
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
};

struct urxe_swqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	struct urxe_ah *ah; /* UD */
	uint32_t rkey;
	uint32_t remote_qpn; /* UD; of XRC the SRQ's number */
	uint32_t remote_qkey;
	uint32_t imm;	 /* as given: network order; or the rkey to invalidate */
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

/* Counters run free; an entry's slot is counter & mask. done <= cur <= post. */
struct urxe_sq {
	uint8_t *ring;
	struct urxe_buf buf; /* the ring's */
	uint32_t stride;
	uint32_t size; /* a power of two */
	uint32_t max_wr, max_sge, max_inline;
	uint32_t post; /* next slot to fill */
	uint32_t cur;  /* WQE of the next packet to send */
	uint32_t done; /* oldest not completed */
};

/** What ibv_wr_* is building; under qp->lock, which wr_start takes. */
struct urxe_builder {
	uint32_t next;	       /* slot that the next finished WQE takes */
	struct urxe_swqe *wqe; /* under construction */
	int err;	       /* the first; told by wr_complete */
};

/* ---- requester, completer, responder state of a QP ---- */

struct urxe_requester {
	uint32_t psn;	   /* PSN of the next packet to send */
	uint32_t una;	   /* oldest PSN not acknowledged */
	uint32_t max_psn;  /* one past the highest PSN ever sent */
	uint32_t next_psn; /* first PSN of the next WQE to be started */
	uint32_t ack_psn;  /* PSN of the last packet that asked for an ACK */
	uint32_t rd_out;   /* READs and ATOMICs started, not completed */
	uint32_t cwnd;	   /* packets that may be out: shrinks by loss, grows by progress */
	uint32_t ssthresh; /* below it cwnd grows quickly */
	uint32_t grown;	   /* PSNs acknowledged since cwnd last grew */
	uint8_t retries;
	uint8_t rnr_retries;
	bool rnr_wait;
	bool gone_back;	   /* went back because of a gap; no more until there is progress */
	uint64_t deadline; /* of the retransmission (or RNR) timer; URXE_NEVER: stopped */
};

/* Named as in IBTA 9.9.3: what the responder is in the middle of. */
enum urxe_resp_state {
	URXE_RESP_EXPECT_FIRST, /* between messages */
	URXE_RESP_IN_SEND,
	URXE_RESP_IN_WRITE,
	URXE_RESP_WAIT_RETRY, /* a sequence or RNR NAK is out: only the expected PSN goes on */
	URXE_RESP_FATAL,      /* NAK that ends the QP is to be sent */
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
	uint32_t rkey, length;
	uint64_t va;
	struct urxe_pd *pd; /* of the rkey */
	uint32_t srqn;	    /* XRC: whose PD it is */
	uint64_t value;	    /* ATOMIC: what was there before */
	uint32_t msn;
};

struct urxe_responder {
	struct urxe_pd *pd;	 /* of rkeys: the QP's; of XRC the SRQ's (IBTA A14) */
	struct urxe_pd *recv_pd; /* of receive WQEs: that of their queue */
	uint32_t srqn;		 /* XRC: SRQ of the request */
	uint32_t epsn;
	uint32_t msn;
	uint8_t state;
	uint8_t resume; /* state to go back to after WAIT_RETRY */
	bool ack_due;
	bool nak_due;
	bool in_recv;	  /* rwqe is a WQE taken from the receive queue */
	bool established; /* COMM_EST raised */
	uint8_t nak_syndrome;
	uint32_t nak_psn;
	uint32_t offset; /* bytes received of the message */
	uint32_t resid;	 /* WRITE: bytes to come */
	uint32_t length; /* WRITE: bytes in all */
	uint32_t rkey;
	uint64_t va;
	uint8_t fatal_status;	/* enum ibv_event_type that goes with a fatal NAK */
	struct urxe_rwqe *rwqe; /* copy of the receive WQE in use */
	uint32_t rwqe_length;
	struct urxe_resource *res;
	uint32_t res_size, res_head, res_pending; /* res_head: the oldest, the next to be used */
};

/** Packet pacing (rate.c). */
struct urxe_pace {
	uint32_t kbps;	     /* 0: no limit */
	uint32_t burst;	     /* bytes */
	uint64_t busy_until; /* when all that was sent would be through at this rate */
};

struct urxe_qp {
	struct verbs_qp vqp;
	struct urxe_qp *real; /* itself */
	struct urxe_device *dev;
	struct urxe_context *ctx;
	struct urxe_pd *pd;	      /* root */
	struct urxe_pd *given_pd;     /* perhaps a parent domain */
	struct cds_list_head windows; /* type 2, bound by it; under mw_lock */
	struct urxe_cq *scq, *rcq;
	struct urxe_srq *srq;
	struct urxe_xrcd_domain *domain; /* XRC_RECV; and it has neither PD, CQ nor SRQ */

	struct urxe_spin lock; /* everything below */
	uint32_t qpn;
	uint8_t type; /* enum ibv_qp_type; GSI is a UD QP */
	bool gsi;
	bool sq_sig_all;
	atomic_bool destroyed;
	bool last_wqe_reached;
	bool sq_draining; /* SQD: the drained event is owed */
	bool sqd_notify;
	uint8_t state;
	struct ibv_qp_attr attr; /* as set by modify, for query */
	struct ibv_qp_init_attr init;
	uint32_t mtu; /* bytes */
	uint8_t mtu_shift;
	struct urxe_path *path;
	uint8_t dgid[16];	    /* where the peer is: packets of others are not his */
	struct urxe_path *alt_path; /* apm.c */
	uint8_t alt_dgid[16];
	bool mig_refused; /* PATH_MIG_ERR was raised since the last rearm */
	struct urxe_pace pace;

	struct urxe_sq sq;
	struct urxe_builder wr;
	uint64_t send_ops;    /* IBV_QP_EX_WITH_* that ibv_wr_* may use */
	struct urxe_rss *rss; /* spreads what it receives; else NULL */
	struct urxe_rq own_rq;
	struct urxe_rq *rq; /* own_rq or the SRQ's */
	struct urxe_requester req;
	struct urxe_responder resp;

	/* scheduling (progress.c) */
	struct cds_list_head pending_node; /* under sched.lock */
	bool pending;			   /* under sched.lock */
	struct urxe_timer timer;	   /* under sched.lock */
	uint64_t timer_at;		   /* when the heap will come back to us; under qp->lock */
	uint32_t async_events;
	atomic_int flows;	    /* rules that feed it */
	struct cds_list_head opens; /* XRC_RECV: struct urxe_qp_open */
	struct cds_list_head mcast; /* groups it is attached to; under dev->mutex */
	struct rcu_head rcu;
};

/** What an application holds of a target QP of XRC, which others may have open as well. */
struct urxe_qp_open {
	struct verbs_qp vqp;
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

/** urxe_qp_service - the upper bits of its opcodes. */
static inline uint8_t urxe_qp_service(const struct urxe_qp *qp)
{
	switch (qp->type) {
	case IBV_QPT_RC:
		return URXE_SVC_RC;
	case IBV_QPT_UC:
		return URXE_SVC_UC;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return URXE_SVC_XRC;
	default:
		return URXE_SVC_UD;
	}
}

static inline struct urxe_swqe *urxe_sq_at(const struct urxe_sq *sq, uint32_t i)
{
	return (struct urxe_swqe *)(sq->ring + (size_t)(i & (sq->size - 1)) * sq->stride);
}

static inline struct urxe_rwqe *urxe_rq_at(const struct urxe_rq *rq, uint32_t i)
{
	return (struct urxe_rwqe *)(rq->ring + (size_t)(i & (rq->size - 1)) * rq->stride);
}

/* ---- device.c ---- */

/** urxe_device_start - bring port and service thread up, once; thread-safe. 0 or errno. */
int urxe_device_start(struct urxe_device *dev);

/** urxe_device_create - a device on a port of @ops (tests: a simulated link). 0 or errno. */
int urxe_device_create(struct urxe_device **dev, const struct urxe_port_config *cfg,
		       const struct urxe_link_ops *ops, void *link_arg, bool threaded);

/**
 * urxe_device_watch - look at the carrier now and then, and tell contexts what has changed
 * By one thread; no lock held. When the port is dead, so is the device: nothing of it works but
 * destroying.
 */
void urxe_device_watch(struct urxe_device *dev, uint64_t now);

/** urxe_device_destroy - of one made by urxe_device_create, with no context open. */
void urxe_device_destroy(struct urxe_device *dev);

/** urxe_context_port - the port of the device behind an ibv_context of ours. */
struct urxe_port *urxe_context_port(struct ibv_context *ctx);

/* ---- context.c ---- */
extern const struct verbs_device_ops urxe_device_ops;

/* ---- event.c: asynchronous events ---- */

/** urxe_event_qp, _cq, _srq, _port - raise an event on the context of the object. Any lock may be
 * held; of a QP, its own is. */
void urxe_event_qp(struct urxe_qp *qp, enum ibv_event_type type);
void urxe_event_cq(struct urxe_cq *cq, enum ibv_event_type type);
void urxe_event_srq(struct urxe_srq *srq, enum ibv_event_type type);
void urxe_event_wq(struct urxe_context *ctx, struct ibv_wq *wq, uint32_t *counter);
void urxe_event_device(struct urxe_device *dev, enum ibv_event_type type);

/** urxe_event_purge - take the unread events of a dying object out; returns how many. */
unsigned urxe_event_purge(struct urxe_context *ctx, const void *element);

/* ---- channel.c ---- */
struct ibv_comp_channel *urxe_channel_create(struct ibv_context *ctx);
int urxe_channel_destroy(struct ibv_comp_channel *ch);
/** urxe_channel_notify - one completion event for @cq; false when the channel is full. */
bool urxe_channel_notify(struct ibv_comp_channel *ch, struct ibv_cq *cq);
/** urxe_channel_purge - take @cq's unread events out; returns how many. */
unsigned urxe_channel_purge(struct ibv_comp_channel *ch, struct ibv_cq *cq);

/* ---- pd.c ---- */
struct ibv_pd *urxe_alloc_pd(struct ibv_context *ctx);
int urxe_dealloc_pd(struct ibv_pd *pd);
struct ibv_td *urxe_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr);
int urxe_dealloc_td(struct ibv_td *td);
struct ibv_pd *urxe_alloc_parent_domain(struct ibv_context *ctx,
					struct ibv_parent_domain_init_attr *attr);
/**
 * urxe_buf_alloc - memory for a queue, not zeroed
 * @pd: whose allocator is asked, if it has one; may be NULL
 * @type: enum urxedv_resource_type
 * 0 or ENOMEM. urxe_buf_free() goes before the PD does.
 */
int urxe_buf_alloc(struct urxe_buf *buf, struct urxe_pd *pd, size_t size, uint64_t type);
void urxe_buf_free(struct urxe_buf *buf);

/* ---- mkey.c ---- */

/** urxe_mkey_publish - give an entry a key and make it known; dev->mutex held. 0 or ENOMEM. */
int urxe_mkey_publish(struct urxe_device *dev, struct urxe_mkey *mk);
/** urxe_mkey_set - another entry (or NULL) for a key that was published. */
void urxe_mkey_set(struct urxe_device *dev, uint32_t key, struct urxe_mkey *mk);
/** urxe_mkey_get - the entry of exactly this key, or NULL; RCU read-side. */
struct urxe_mkey *urxe_mkey_get(struct urxe_device *dev, uint32_t key);
/** urxe_mkey_at - the entry that has the key's index, or NULL; RCU read-side. */
static inline struct urxe_mkey *urxe_mkey_at(struct urxe_device *dev, uint32_t key)
{
	return urxe_table_get(&dev->mkeys, key >> (32 - URXE_MKEY_INDEX_BITS));
}
/** urxe_mkey_free_later - free an entry that was replaced, when nobody looks at it any more. */
void urxe_mkey_free_later(struct urxe_mkey *mk);

/** What urxe_mr_access() gives for a null region: reads are zeros, writes are dropped. */
extern uint8_t urxe_null_memory[];

/**
 * urxe_mr_access - the memory behind an lkey, or NULL when any rule forbids it
 * @pd: a root
 * @access: IBV_ACCESS_* that all must be granted
 *
 * Within an RCU read-side section, which is as long as the pointer is good for.
 */
uint8_t *urxe_mr_access(struct urxe_device *dev, struct urxe_pd *pd, uint32_t key, uint64_t va,
			uint64_t len, unsigned access);
/** urxe_mr_remote - the same for an rkey, of a region or a window, that came to @qp. */
uint8_t *urxe_mr_remote(const struct urxe_qp *qp, const struct urxe_pd *pd, uint32_t key,
			uint64_t va, uint64_t len, unsigned access);
/** urxe_mkey_remote - the entry behind an rkey; nothing is said about addresses. */
const struct urxe_mkey *urxe_mkey_remote(const struct urxe_qp *qp, const struct urxe_pd *pd,
					 uint32_t key, unsigned access);

/* ---- memory.c ---- */

/** urxe_memory_of_file - is all of it mapped from files, shared and writable? */
bool urxe_memory_of_file(const void *addr, uint64_t length);
/** urxe_memory_fault_in - have pages present (for writing); false: they cannot be. */
bool urxe_memory_fault_in(void *addr, uint64_t len, bool write);

/* ---- mr.c, dm.c, mw.c ---- */
struct ibv_mr *urxe_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
struct ibv_mr *urxe_alloc_null_mr(struct ibv_pd *pd);
struct ibv_mr *urxe_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			      unsigned int access);
struct ibv_mr *urxe_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				  int fd, int access);
int urxe_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int urxe_dereg_mr(struct verbs_mr *vmr);
int urxe_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sges, uint32_t n);
struct ibv_dm *urxe_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr);
int urxe_free_dm(struct ibv_dm *dm);
struct ibv_mw *urxe_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int urxe_dealloc_mw(struct ibv_mw *mw);
/**
 * urxe_mw_bind - carry out a bind; qp->lock held, RCU read-side
 * @key: the window's new rkey; its upper 24 bits say which window
 * @lkey, @addr, @length: of the region; @length 0 binds a type 1 window to nothing
 * 0, or an errno: a bind error.
 */
int urxe_mw_bind(struct urxe_qp *qp, uint32_t key, uint32_t lkey, uint64_t addr, uint64_t length,
		 unsigned access);
/** urxe_mw_invalidate - what LOCAL_INV and SEND_WITH_INV ask for. 0 or EINVAL. */
int urxe_mw_invalidate(struct urxe_qp *qp, const struct urxe_pd *pd, uint32_t key);
/** urxe_mw_release_qp - the windows that a dying QP has bound are bound no more. */
void urxe_mw_release_qp(struct urxe_qp *qp);

/* ---- ah.c ---- */
struct ibv_ah *urxe_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int urxe_destroy_ah(struct ibv_ah *ah);
void urxe_ah_put(struct urxe_ah *ah);

/** urxe_path_from_ah - a path for AH attributes. 0 or errno. */
int urxe_path_from_ah(struct urxe_device *dev, const struct ibv_ah_attr *attr, uint16_t udp_sport,
		      struct urxe_path **path);

/* ---- cq.c ---- */
struct ibv_cq *urxe_create_cq(struct ibv_context *ctx, int cqe, struct ibv_comp_channel *channel,
			      int vector);
struct ibv_cq_ex *urxe_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);
int urxe_destroy_cq(struct ibv_cq *cq);
int urxe_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int urxe_resize_cq(struct ibv_cq *cq, int cqe);
int urxe_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int urxe_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/** urxe_cq_push - add a completion; @solicited wakes those who wait for solicited ones only. */
void urxe_cq_push(struct urxe_cq *cq, const struct ibv_wc *wc, bool solicited);
/** urxe_cq_push_raw - the same with what only raw packets have. */
void urxe_cq_push_raw(struct urxe_cq *cq, const struct ibv_wc *wc, bool solicited, uint16_t cvlan,
		      uint32_t flow_tag);
/** urxe_cq_timer - the time of a moderated event has come. */
void urxe_cq_timer(struct urxe_cq *cq);
/** urxe_cq_take - one completion into cq->cur, driving the device if there is none. 0, ENOENT, EIO.
 */
int urxe_cq_take(struct urxe_cq *cq, bool drive);
/** urxe_cq_ex_init - set the ibv_start_poll family up. */
void urxe_cq_ex_init(struct urxe_cq *cq);
/** urxe_cq_clean - forget the completions of a QP that is reset or destroyed. */
void urxe_cq_clean(struct urxe_cq *cq, uint32_t qpn);

/* ---- srq.c and rq.c ---- */
/** urxe_rq_init - an empty ring, from the allocator of @pd. 0 or ENOMEM. */
int urxe_rq_init(struct urxe_rq *rq, struct urxe_pd *pd, uint64_t type, uint32_t max_wr,
		 uint32_t max_sge);
void urxe_rq_fini(struct urxe_rq *rq);
int urxe_rq_post(struct urxe_rq *rq, const struct ibv_recv_wr *wr);
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
/** urxe_qp_clean_cqs - forget its completions that nobody has polled. */
void urxe_qp_clean_cqs(struct urxe_qp *qp);
/** urxe_qp_destroy_common - all but what the application sees of it. */
void urxe_qp_destroy_common(struct urxe_qp *qp);
/** urxe_qp_await_events - all @events raised for a handle are read and acknowledged, or gone. */
void urxe_qp_await_events(struct ibv_qp *qp, struct urxe_context *ctx, uint32_t events);
/** urxe_qp_error - to ERR, flushing both queues; qp->lock held. */
void urxe_qp_error(struct urxe_qp *qp);
/** urxe_qp_fatal - to ERR with an affiliated asynchronous error event; qp->lock held. */
void urxe_qp_fatal(struct urxe_qp *qp, enum ibv_event_type event);
/** urxe_qp_wc - a completion with what is common to all of this QP filled in. */
void urxe_qp_wc(const struct urxe_qp *qp, struct ibv_wc *wc, uint64_t wr_id,
		enum ibv_wc_status status, enum ibv_wc_opcode opcode);
/** urxe_qp_release_wqes - forget all WQEs (RESET, destroy); drops AH references. qp->lock held. */
void urxe_qp_release_wqes(struct urxe_qp *qp);

/* ---- wqe.c: send WQEs are filled; qp->lock held. 0 or the errno of ibv_post_send. ---- */

/** urxe_wqe_ops - bits 1 << opcode of what the QP's transport can do. */
uint32_t urxe_wqe_ops(const struct urxe_qp *qp);
/** urxe_wqe_begin - a WQE in slot @at, not posted before urxe_wqe_publish(). @flags: ibv_send_flags
 */
int urxe_wqe_begin(struct urxe_qp *qp, uint32_t at, unsigned opcode, uint64_t wr_id, unsigned flags,
		   struct urxe_swqe **wqe);
int urxe_wqe_sges(const struct urxe_qp *qp, struct urxe_swqe *wqe, const struct ibv_sge *sges,
		  size_t n);
/** urxe_wqe_inline - append a copy of the data itself. */
int urxe_wqe_inline(const struct urxe_qp *qp, struct urxe_swqe *wqe, const void *addr,
		    size_t length);
/** urxe_wqe_value - the eight bytes of an ATOMIC WRITE. */
void urxe_wqe_value(struct urxe_swqe *wqe, const void *value);
/** urxe_wqe_ud - the destination of a datagram; takes a reference of the AH. */
int urxe_wqe_ud(const struct urxe_qp *qp, struct urxe_swqe *wqe, struct ibv_ah *ah, uint32_t qpn,
		uint32_t qkey);
int urxe_wqe_bind(struct urxe_swqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info);
/** urxe_wqe_finish - the checks that need the whole WQE. */
int urxe_wqe_finish(const struct urxe_qp *qp, const struct urxe_swqe *wqe);
/** urxe_wqe_drop - let go of what an unposted or completed WQE refers to. */
void urxe_wqe_drop(struct urxe_swqe *wqe);
/** urxe_wqe_publish - all WQEs before slot @post are posted; begin to send. */
void urxe_wqe_publish(struct urxe_qp *qp, uint32_t post);

/* ---- wq.c: receive work queues, tables of them, receive-side scaling ---- */
struct ibv_wq *urxe_create_wq(struct ibv_context *ctx, struct ibv_wq_init_attr *attr);
int urxe_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int urxe_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *urxe_create_rwq_ind_table(struct ibv_context *ctx,
						    struct ibv_rwq_ind_table_init_attr *attr);
int urxe_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
struct ibv_qp *urxe_rss_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
void urxe_rss_free(struct urxe_rss *rss);
/** urxe_rss_receive - a frame that a flow rule gave to such a QP; its lock held, RCU read-side. */
void urxe_rss_receive(const struct urxe_rss *rss, const uint8_t *frame, uint32_t len);
/** urxe_rss_hash - Toeplitz with a key of 40 bytes (for the test). */
uint32_t urxe_rss_hash(const uint8_t *key, const uint8_t *in, unsigned len);
void urxe_rss_caps(struct ibv_rss_caps *caps);

/* ---- wr.c ---- */

/** urxe_wr_enable - set ibv_wr_* up for a new QP. EOPNOTSUPP: not all of @flags are offered. */
int urxe_wr_enable(struct urxe_qp *qp, uint64_t flags);

/* ---- post.c ---- */
int urxe_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int urxe_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int urxe_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- sge.c: gather and scatter ---- */

/**
 * urxe_sge_check - are @len bytes at @offset of an SGE list all accessible?
 * Within an RCU read-side section. false: a local protection error.
 */
bool urxe_sge_check(struct urxe_device *dev, struct urxe_pd *pd, const struct ibv_sge *sge,
		    unsigned n, uint32_t offset, uint32_t len, unsigned access);
/** urxe_sge_gather - append checked bytes to a frame. */
void urxe_sge_gather(struct urxe_device *dev, struct urxe_pd *pd, const struct ibv_sge *sge,
		     unsigned n, uint32_t offset, uint32_t len, struct urxe_tx *tx);
/** urxe_sge_scatter - copy in; false: a local protection error (nothing is written then). */
bool urxe_sge_scatter(struct urxe_device *dev, struct urxe_pd *pd, const struct ibv_sge *sge,
		      unsigned n, uint32_t offset, const uint8_t *src, uint32_t len);

/* ---- requester.c: sends requests. Lane and qp->lock held, RCU read-side. ---- */

/** urxe_requester_run - send what may be sent; true when it stopped for want of room. */
bool urxe_requester_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now);
/** urxe_requester_go_back - begin again at a PSN that was sent before. */
void urxe_requester_go_back(struct urxe_qp *qp, uint32_t psn);
/** urxe_requester_grow - @n more PSNs were acknowledged: the window opens. */
void urxe_requester_grow(struct urxe_requester *r, uint32_t n);
/** urxe_requester_shrink - a packet was lost; @silence: nothing at all came back. */
void urxe_requester_shrink(struct urxe_requester *r, bool silence);
/** urxe_requester_timeout - the timer of the QP has come. */
void urxe_requester_timeout(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now);
/** urxe_requester_complete - complete the oldest WQE. */
void urxe_requester_complete(struct urxe_qp *qp, enum ibv_wc_status status);
/** urxe_requester_arm - (re)start or stop the retransmission timer after progress. */
void urxe_requester_arm(struct urxe_qp *qp, uint64_t now);
/** urxe_requester_wc_opcode - of a send WR. */
enum ibv_wc_opcode urxe_requester_wc_opcode(uint8_t wr_opcode);
/** urxe_requester_answered - is it an operation with a response of its own, not just an ACK? */
bool urxe_requester_answered(const struct urxe_swqe *wqe);

/* ---- completer.c: receives responses. Lane and qp->lock held, RCU read-side. ---- */
void urxe_completer_receive(struct urxe_qp *qp, const struct urxe_packet *pkt,
			    const struct urxe_opcode_info *op, uint64_t now);

/* ---- responder.c, responder_tx.c: receives requests, sends responses. Likewise. ---- */
void urxe_responder_receive(struct urxe_qp *qp, const struct urxe_packet *pkt,
			    const struct urxe_opcode_info *op, uint64_t now);
/** urxe_responder_run - send responses that are due; true when it stopped for want of room. */
bool urxe_responder_run(struct urxe_qp *qp, struct urxe_lane *lane);
/** urxe_responder_urgent - is there more to send than a plain ACK, which may wait a turn? */
static inline bool urxe_responder_urgent(const struct urxe_qp *qp)
{
	return qp->resp.res_pending || qp->resp.nak_due;
}
/** urxe_responder_nak - a NAK is due at the expected PSN. */
void urxe_responder_nak(struct urxe_qp *qp, uint8_t syndrome);
/** urxe_responder_fatal - a NAK that ends the QP; @status for the receive WQE in use, if any. */
void urxe_responder_fatal(struct urxe_qp *qp, enum urxe_nak_code code, enum ibv_wc_status status);
/** urxe_responder_execute_rd - a READ, ATOMIC, ... of the expected PSN (responder_rd.c). */
void urxe_responder_execute_rd(struct urxe_qp *qp, const struct urxe_packet *pkt,
			       const struct urxe_opcode_info *op);
/** urxe_responder_duplicate_rd - a READ, ATOMIC, ... that was executed before. */
void urxe_responder_duplicate_rd(struct urxe_qp *qp, const struct urxe_packet *pkt,
				 const struct urxe_opcode_info *op);
/**
 * urxe_responder_take_rwqe - take a receive WQE into resp.rwqe
 * @min_length: leave it alone if it holds fewer bytes
 * Returns 0, ENOENT when there is none, EMSGSIZE when the next is too short.
 */
int urxe_responder_take_rwqe(struct urxe_qp *qp, uint32_t min_length);
/** urxe_responder_push - the completion of a receive, to where it belongs. RCU read-side. */
void urxe_responder_push(struct urxe_qp *qp, const struct ibv_wc *wc, bool solicited);
/** urxe_responder_finish_recv - complete the receive WQE in use; @len bytes came. */
void urxe_responder_finish_recv(struct urxe_qp *qp, enum ibv_wc_status status,
				const struct urxe_packet *pkt, const struct urxe_opcode_info *op,
				uint32_t len);
/** urxe_packet_payload - bytes of payload: what is neither header nor pad (checked on arrival). */
static inline uint32_t urxe_packet_payload(const struct urxe_packet *pkt,
					   const struct urxe_opcode_info *op)
{
	return pkt->len - op->hdr_len - urxe_bth_pad(pkt->bth);
}

/* ---- ud.c, uc.c ---- */
bool urxe_ud_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now);
void urxe_ud_receive(struct urxe_qp *qp, const struct urxe_packet *pkt,
		     const struct urxe_opcode_info *op);
void urxe_uc_receive(struct urxe_qp *qp, const struct urxe_packet *pkt,
		     const struct urxe_opcode_info *op);

/* ---- xrc.c ---- */
struct ibv_xrcd *urxe_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr);
int urxe_close_xrcd(struct ibv_xrcd *xrcd);
int urxe_get_srq_num(struct ibv_srq *srq, uint32_t *num);
struct ibv_qp *urxe_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr);
struct ibv_qp *urxe_xrc_create_recv_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
int urxe_xrc_close_qp(struct ibv_qp *qp);
/** urxe_xrc_publish_srq - give a SRQ its number in a domain. 0 or ENOMEM. */
int urxe_xrc_publish_srq(struct urxe_srq *srq, struct ibv_xrcd *xrcd);
/** urxe_xrc_unpublish_srq - nobody finds it any more, nor is anybody using it. */
void urxe_xrc_unpublish_srq(struct urxe_srq *srq);
/** urxe_xrc_srq - the SRQ of that number in the QP's domain, or NULL. Within RCU read-side. */
struct urxe_srq *urxe_xrc_srq(const struct urxe_qp *qp, uint32_t srqn);

/* ---- apm.c: qp->lock held ---- */

/** urxe_apm_accept - is the packet from the QP's peer? Moves the migration state along. */
bool urxe_apm_accept(struct urxe_qp *qp, const struct urxe_packet *pkt);
/** urxe_apm_migrate - to the alternate path if the QP is armed; false if not. */
bool urxe_apm_migrate(struct urxe_qp *qp);
/** urxe_apm_check - the attributes of an alternate path and of migration. 0 or EINVAL. */
int urxe_apm_check(const struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask);
/** urxe_apm_modify - as software says: rearm, or migrate. */
void urxe_apm_modify(struct urxe_qp *qp, enum ibv_mig_state to);
/** urxe_apm_migreq - what a packet says of our state. */
static inline bool urxe_apm_migreq(const struct urxe_qp *qp)
{
	return qp->attr.path_mig_state == IBV_MIG_MIGRATED;
}

/* ---- rate.c: qp->lock held ---- */

#define URXE_PACE_HEADERS 78 /* Ethernet, IPv4, UDP, BTH, RETH, ICRC: about */
#define URXE_RATE_MIN	  8  /* kbit/s */

/** urxe_pace_wait - must the QP wait before it sends? Its timer is set then. */
bool urxe_pace_wait(struct urxe_qp *qp, uint64_t now);
/** urxe_pace_sent - @bytes went out. */
void urxe_pace_sent(struct urxe_qp *qp, uint64_t now, uint32_t bytes);
/** urxe_pace_set - the limit, 0 for none; @burst bytes at once, 0: as we like. */
void urxe_pace_set(struct urxe_qp *qp, uint32_t kbps, uint32_t burst);
int urxe_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

/* ---- raw.c, flow.c ---- */

/** urxe_raw_check_permission - may we see and send whole frames? 0 or EPERM (CAP_NET_RAW). */
int urxe_raw_check_permission(void);
bool urxe_raw_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now);
/** urxe_raw_receive - a frame for a raw packet QP; qp->lock held, RCU read-side. */
void urxe_raw_receive(struct urxe_qp *qp, const uint8_t *frame, uint32_t len);
struct ibv_flow *urxe_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int urxe_destroy_flow(struct ibv_flow *flow);

/* ---- mcast.c ---- */
int urxe_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int urxe_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
/** urxe_mcast_attached - is the QP in any group? No lock held. */
bool urxe_mcast_attached(struct urxe_qp *qp);
/**
 * urxe_mcast_receive - a packet whose QPN or address is a multicast one: to each member its copy
 * Lane held, RCU read-side. False: it was for nobody.
 */
bool urxe_mcast_receive(struct urxe_device *dev, const struct urxe_packet *pkt,
			const struct urxe_opcode_info *op);

/* ---- progress.c ---- */

/** urxe_progress_kick - @qp has something to send; qp->lock held. Sends now if a lane is free. */
void urxe_progress_kick(struct urxe_qp *qp);
/**
 * urxe_progress_flush - send what the responder still owes, before the QP goes or is reset
 * A NIC would have acknowledged by now what the application has seen. No lock held.
 */
void urxe_progress_flush(struct urxe_qp *qp);
/** urxe_progress_finish - the process ends: send what waits for a turn. */
void urxe_progress_finish(struct urxe_device *dev);
/** urxe_progress_defer - let the next turn of a lane serve @qp. Any lock but sched.lock may be
 * held. */
void urxe_progress_defer(struct urxe_qp *qp);
/**
 * urxe_progress_poll - one turn of a lane, if one is free
 * Returns packets and timers handled, or -1 when others hold the lanes. No lock held.
 */
int urxe_progress_poll(struct urxe_device *dev);
/** urxe_progress_turn - the same for the service thread: does not count as a caller that drives. */
int urxe_progress_turn(struct urxe_device *dev);
/** urxe_progress_timer - see to it that the QP is looked at by @when. */
void urxe_progress_timer(struct urxe_qp *qp, uint64_t when);
/** urxe_progress_forget - take a QP off list and heap (destroy). */
void urxe_progress_forget(struct urxe_qp *qp);

/* ---- timer.c ---- */
int urxe_timer_heap_reserve(struct urxe_timer_heap *h, unsigned n);
void urxe_timer_heap_fini(struct urxe_timer_heap *h);
void urxe_timer_set(struct urxe_timer_heap *h, struct urxe_timer *t, uint64_t when);
void urxe_timer_cancel(struct urxe_timer_heap *h, struct urxe_timer *t);
struct urxe_timer *urxe_timer_first(const struct urxe_timer_heap *h);

/* ---- service.c ---- */
int urxe_service_start(struct urxe_device *dev);
void urxe_service_stop(struct urxe_device *dev);
/** urxe_service_nudge - wake the thread if it sleeps; cheap if not. */
void urxe_service_nudge(struct urxe_device *dev);
/** urxe_service_by - wake the thread if it sleeps beyond @when. */
void urxe_service_by(struct urxe_device *dev, uint64_t when);
/** urxe_service_gsi - the GSI's poll is due. */
void urxe_service_gsi(struct urxe_device *dev);
/** urxe_service_run_gsi - run the GSI's poll if due (service thread, tests). Returns its next time.
 */
uint64_t urxe_service_run_gsi(struct urxe_device *dev, uint64_t now);

#endif
