/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The IB communication manager (IBTA ch. 12) as a state machine without threads, locks, clock or
 * wire of its own: what it needs comes in by struct urxe_cm_ops, what happens goes out by a
 * handler. rdma_cm (and later the public ib_cm calls) sit on it; the tests run many of them on
 * virtual time.
 *
 * Locking: one struct urxe_cm and all its ids are used under one lock of the caller's. Handlers
 * run with that lock held, from within urxe_cm_recv(), urxe_cm_run() and the calls themselves.
 *
 * Numbers are host order unless said otherwise. Functions return 0 or a positive errno: EINVAL
 * for a call that the state does not allow, which then changes nothing.
 */
#ifndef URXE_CM_CORE_CM_H
#define URXE_CM_CORE_CM_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "urxe/cm_settings.h"
#include "urxe/mad.h"

struct urxe_cm;
struct urxe_cm_source;

/*
 * In a REP's Local Q_Key, which means something for reliable datagrams alone (12.7.22, table 110)
 * and else is 0: its sender sends it again now and then, and silence means that it died.
 */
#define URXE_CM_PROBES 0x75727865u

/**
 * URXE_CM_ACK_TIMEOUT - the local ACK time-out (4.096 us << 17: 0.54 s) that a REQ has where nobody
 * has chosen one, as Linux's has. Soft-RoCE waits as long for each READ response and ACK that is
 * lost.
 */
#define URXE_CM_ACK_TIMEOUT 17

/** Where the peer is and how to get there. */
struct urxe_cm_path {
	union ibv_gid sgid; /* own */
	union ibv_gid dgid; /* the peer's */
	uint8_t sgid_index;
	uint8_t port_num;
	uint32_t flow_label; /* 20 bits: gives the UDP source port of the connection */
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sl;
	uint16_t pkey;
	uint8_t mtu;	     /* enum ibv_mtu */
	uint8_t ack_timeout; /* as advertised in REQ: 4.096 us * 2^n */
};

struct urxe_cm_ops {
	/** send one MAD of 256 bytes to QP1 of path->dgid; may lose it */
	void (*send)(void *arg, const struct urxe_cm_path *path, const uint8_t *mad);
	uint64_t (*now)(void *arg);    /* ns, monotonic */
	uint64_t (*random)(void *arg); /* 64 random bits */
	/** a random communication id; 0: none can be had */
	uint32_t (*comm_id)(void *arg);
	/** index of an own GID, -1 when it is not ours */
	int (*own_gid)(void *arg, const union ibv_gid *gid);
	/** NULL, or: a MAD got no answer, and its way may be another by now; called at each try */
	void (*suspect)(void *arg, const struct urxe_cm_path *path);
	/** give back memory of malloc(), of a pointer's size at least (urxe_free()) */
	void (*free)(void *block);
	/** NULL, or: has nobody the address that the path leads to, any more? Asked when processes
	 * are gone (urxe_cm_gone()) */
	bool (*nobody)(void *arg, const struct urxe_cm_path *path);
	/** NULL, or: does the path lead to others than those whose end urxe_cm_gone() tells? */
	bool (*far)(void *arg, const struct urxe_cm_path *path);
	/** NULL, or: enum ibv_mtu of the way to who sent a REQ, instead of the configuration's */
	uint8_t (*max_mtu)(void *arg, const struct urxe_cm_source *src);
	/** NULL, or: ns since packets of QPs last came from the address that the path leads to;
	 * UINT64_MAX: none has come */
	uint64_t (*quiet_ns)(void *arg, const struct urxe_cm_path *path);
};

/**
 * Time-outs, ms. They are our own and shorter than those advertised (which are the kernel's), so
 * that a dead peer is known in seconds; a slow one sends MRA. A try waits first << n, at most max.
 */
struct urxe_cm_config {
	uint32_t first_ms, max_ms;
	uint8_t req_tries, rep_tries; /* sends altogether, to a peer of whom nothing is heard */
	uint8_t heard_tries;	      /* and while other MADs come from its address */
	uint32_t dreq_first_ms, dreq_max_ms;
	uint8_t dreq_tries; /* then the consumer gets its event */
	uint8_t dreq_sends; /* and so many in all, for the peer's sake: it would stay connected */
	uint32_t mra_after_ms; /* the consumer is slow: send an MRA after this */
	uint32_t mra_again_ms; /* and again */
	uint8_t mra_service;   /* the time asked for, 4.096 us * 2^n; above mra_again_ms */
	uint32_t timewait_ms;
	/* RTU and DREP, which nobody answers, go once more after this; 0: not */
	uint32_t repeat_ms;
	/* It is a link of processes, which loses nothing; but see urxe_cm_ops.far(). */
	bool shared;
	uint32_t listen_grace_ms;  /* a REQ or SIDR_REQ may come so long before its listener; 0: not
				      at all */
	uint8_t unreachable_sends; /* after so many the host at the peer's address is believed */
	uint32_t refused_ms; /* rejected at once for want of a listener: ask once more after this */
	/*
	 * A connection without traffic does not notice that its peer died. So the passive side
	 * sends its REP again now and then, which any CM answers with RTU (12.9.7.1), and sooner
	 * if no answer comes; its REP says that it will (URXE_CM_PROBES). Each side gives up a peer
	 * that was silent for patience_ms, for probe_misses times as long as the pauses are, and
	 * for as long as the QP would take to run out of retries. With more connections the pauses
	 * are longer. probe_ms 0: never.
	 */
	uint32_t probe_first_ms, probe_ms, patience_ms;
	uint8_t probe_misses;
	uint8_t max_mtu; /* enum ibv_mtu: REQs of more are rejected with this (reason 26) */
	uint64_t ca_guid;
	uint8_t max_rd_atom;	/* responder resources and initiator depth of this device */
	uint8_t qp_ack_timeout; /* local ACK time-out for QPs, where none was asked for */
};

/** urxe_cm_config_default - the values documented in urxe-cm(7). */
void urxe_cm_config_default(struct urxe_cm_config *cfg);
/** urxe_cm_config_set - what a user has set goes before that. */
void urxe_cm_config_set(struct urxe_cm_config *cfg, const struct urxe_cm_settings *s);

/**
 * States, IBTA 12.9.7 and 12.11 (SIDR). ESTABLISHED has a machine within it for alternate paths
 * (LAP and APR, 12.8.2); its states stand last. These lists are the names in logs, too.
 */
#define URXE_CM_STATES(X)                   \
	X(IDLE)                             \
	X(LISTEN)                           \
	X(REQ_SENT)                         \
	X(REP_WAIT) /* MRA(REQ) received */ \
	X(REQ_RCVD)                         \
	X(MRA_REQ_SENT)                     \
	X(REP_SENT)                         \
	X(MRA_REP_RCVD)                     \
	X(REP_RCVD)                         \
	X(MRA_REP_SENT)                     \
	X(ESTABLISHED)                      \
	X(DREQ_SENT)                        \
	X(DREQ_RCVD)                        \
	X(TIMEWAIT)                         \
	X(SIDR_REQ_SENT)                    \
	X(SIDR_REQ_RCVD)                    \
	X(LAP_IDLE)                         \
	X(LAP_SENT)                         \
	X(MRA_LAP_RCVD)                     \
	X(LAP_RCVD)                         \
	X(MRA_LAP_SENT)
#define URXE_CM_STATE(name) URXE_CM_##name,
enum urxe_cm_state {
	URXE_CM_STATES(URXE_CM_STATE) URXE_CM_N_STATES
};
#undef URXE_CM_STATE
extern const char *const urxe_cm_state_names[URXE_CM_N_STATES];

/** What moves an id: calls, MADs from its peer, and its timer. */
#define URXE_CM_INPUTS(X)                                                       \
	X(LISTEN)                                                               \
	X(SEND_REQ)                                                             \
	X(SEND_REP)                                                             \
	X(SEND_RTU)                                                             \
	X(SEND_REJ)                                                             \
	X(SEND_MRA)                                                             \
	X(SEND_DREQ)                                                            \
	X(SEND_DREP)                                                            \
	X(ESTABLISH)                                                            \
	X(SEND_SIDR_REQ)                                                        \
	X(SEND_SIDR_REP)                                                        \
	X(SEND_LAP)                                                             \
	X(SEND_APR)                                                             \
	X(PATH_MIG)                                                             \
	X(IGNORE) /* by a handler: as if the REQ had not come */                \
	X(TELL_AGAIN)                                                           \
	X(DESTROY) /* last of the calls */                                      \
	X(REQ)	   /* first of the MADs */                                      \
	X(MRA_REQ)                                                              \
	X(MRA_REP)                                                              \
	X(REJ)                                                                  \
	X(REP)                                                                  \
	X(RTU)                                                                  \
	X(DREQ)                                                                 \
	X(DREP)                                                                 \
	X(SIDR_REQ)                                                             \
	X(SIDR_REP)                                                             \
	X(LAP)                                                                  \
	X(MRA_LAP)                                                              \
	X(APR)                                                                  \
	X(STALE)       /* the peer uses this connection's QP for another one */ \
	X(UNREACHABLE) /* ICMP: the request does not reach the peer */          \
	X(TIMEOUT)                                                              \
	X(LAP_TIMEOUT)
#define URXE_CM_INPUT(name) URXE_CM_IN_##name,
enum urxe_cm_input {
	URXE_CM_INPUTS(URXE_CM_INPUT) URXE_CM_N_INPUTS
};
#undef URXE_CM_INPUT
extern const char *const urxe_cm_input_names[URXE_CM_N_INPUTS];

/** The events that a handler gets. */
#define URXE_CM_EVENTS(X)                                      \
	X(NONE)                                                \
	X(REQ_ERROR)                                           \
	X(REQ_RECEIVED)                                        \
	X(REP_ERROR)                                           \
	X(REP_RECEIVED)                                        \
	X(RTU_RECEIVED)                                        \
	X(USER_ESTABLISHED)                                    \
	X(DREQ_ERROR)                                          \
	X(DREQ_RECEIVED)                                       \
	X(DREP_RECEIVED)                                       \
	X(PEER_LOST) /* silent for too long while connected */ \
	X(TIMEWAIT_EXIT)                                       \
	X(MRA_RECEIVED)                                        \
	X(REJ_RECEIVED)                                        \
	X(SIDR_REQ_ERROR)                                      \
	X(SIDR_REQ_RECEIVED)                                   \
	X(SIDR_REP_RECEIVED)                                   \
	X(LAP_ERROR)                                           \
	X(LAP_RECEIVED)                                        \
	X(APR_RECEIVED)
#define URXE_CM_EVENT(name) URXE_CM_EV_##name,
enum urxe_cm_event_type {
	URXE_CM_EVENTS(URXE_CM_EVENT) URXE_CM_N_EVENTS
};
#undef URXE_CM_EVENT
extern const char *const urxe_cm_event_names[URXE_CM_N_EVENTS];

/** Reject reasons, table 109. */
enum urxe_cm_rej_reason {
	URXE_CM_REJ_NO_QP = 1,
	URXE_CM_REJ_NO_RESOURCES = 3,
	URXE_CM_REJ_TIMEOUT = 4,
	URXE_CM_REJ_UNSUPPORTED = 5,
	URXE_CM_REJ_INVALID_COMM_ID = 6,
	URXE_CM_REJ_INVALID_SERVICE_ID = 8,
	URXE_CM_REJ_INVALID_TRANSPORT_TYPE = 9,
	URXE_CM_REJ_STALE_CONN = 10,
	URXE_CM_REJ_INVALID_GID = 12,
	URXE_CM_REJ_INVALID_ALT_GID = 18,
	URXE_CM_REJ_INVALID_MTU = 26,
	URXE_CM_REJ_CONSUMER = 28,
	URXE_CM_REJ_DUPLICATE_LOCAL_COMM_ID = 30,
	URXE_CM_REJ_VENDOR_OPTION = 35,
};

/** Which message an MRA or a REJ answers (tables 107, 108). */
enum urxe_cm_answered {
	URXE_CM_ANSWER_REQ = 0,
	URXE_CM_ANSWER_REP = 1,
	URXE_CM_ANSWER_OTHER = 2, /* REJ: no message; MRA: LAP */
};

/** APR statuses, table 117. */
enum urxe_cm_apr_status {
	URXE_CM_APR_SUCCESS = 0,
	URXE_CM_APR_INVALID_COMM_ID = 1,
	URXE_CM_APR_UNSUPPORTED = 2,
	URXE_CM_APR_REJECT = 3,
	URXE_CM_APR_IS_CURRENT = 5,
	URXE_CM_APR_INVALID_GID = 8,
};

/** The answer of a REP to the alternate path in the REQ, table 110. */
enum urxe_cm_failover {
	URXE_CM_FAILOVER_ACCEPTED = 0,
	URXE_CM_FAILOVER_UNSUPPORTED = 1,
	URXE_CM_FAILOVER_REJECTED = 2,
};

/** SIDR statuses, table 121. */
enum urxe_cm_sidr_status {
	URXE_CM_SIDR_SUCCESS = 0,
	URXE_CM_SIDR_UNSUPPORTED = 1,
	URXE_CM_SIDR_REJECT = 2,
	URXE_CM_SIDR_NO_QP = 3,
};

struct urxe_cm_ece {
	uint32_t vendor_id; /* 24 bits */
	uint32_t attr_mod;
};

/** The connection's parameters, as they stand in REQ and REP. */
struct urxe_cm_conn {
	uint32_t qpn;
	uint32_t psn;		     /* with which its receiver starts to send (12.7.31) */
	uint8_t responder_resources; /* of the sender of the message */
	uint8_t initiator_depth;     /* likewise */
	uint8_t retry_count;	     /* REQ only */
	uint8_t failover;	     /* REP only: enum urxe_cm_failover, if there was a path */
	uint8_t rnr_retry_count;
	bool flow_control;
	bool srq;
	struct urxe_cm_ece ece;
	const void *private_data;
	uint8_t private_len;
};

struct urxe_cm_req {
	struct urxe_cm_path path;
	uint64_t service_id;
	enum ibv_qp_type qp_type; /* RC, UC or XRC_SEND */
	struct urxe_cm_conn conn;
	const struct urxe_cm_path *alternate; /* NULL: none */
	/* The peer asks us for the same service: one of the two REQs wins (12.10.4). */
	bool peer_to_peer;
	/* Zeros are our own: advertised times (4.096 us * 2^n), what each try waits, tries. */
	uint8_t local_timeout, remote_timeout;
	uint32_t wait_ms;
	uint8_t tries;
};

struct urxe_cm_id;

struct urxe_cm_event {
	enum urxe_cm_event_type type;
	const uint8_t *mad; /* what came, NULL if nothing did; gone after the handler's return */
	const void *private_data;
	uint8_t private_len; /* the whole field: the consumer's length is not on the wire */
	int error;	     /* REQ_ERROR, SIDR_REQ_ERROR: errno of an ICMP error; 0: time-out */
	union {
		struct {
			struct urxe_cm_id *listen_id;
			uint64_t service_id;
			enum ibv_qp_type qp_type;
			const struct urxe_cm_path *path;      /* back to the peer */
			const struct urxe_cm_path *alternate; /* the same, or NULL */
			struct urxe_cm_conn conn; /* as sent: see it from the peer's side */
		} req;
		struct urxe_cm_conn rep;
		struct {
			uint16_t reason;
			uint8_t ari_len;
			const uint8_t *ari;
		} rej;
		struct {
			struct urxe_cm_id *listen_id;
			uint64_t service_id;
			uint16_t pkey;
			const struct urxe_cm_path *path;
		} sidr_req;
		struct {
			uint8_t status;
			uint32_t qpn, qkey;
			struct urxe_cm_ece ece;
			uint8_t info_len;
			const uint8_t *info;
		} sidr_rep;
		struct {
			const struct urxe_cm_path *path; /* the way back by it */
		} lap;
		struct {
			uint8_t status; /* enum urxe_cm_apr_status */
			uint8_t info_len;
			const uint8_t *info;
		} apr;
	};
};

/**
 * A handler. It may call any function on @id, urxe_cm_destroy() too. A nonzero return destroys
 * @id (a REQ is then rejected).
 */
typedef int (*urxe_cm_handler)(struct urxe_cm_id *id, const struct urxe_cm_event *ev,
			       void *context);

/** What went through, and what did not. */
struct urxe_cm_counters {
	uint64_t sent[16], received[16]; /* by attribute id - URXE_MAD_REQ */
	uint64_t retried[16];
	uint64_t dropped[16]; /* for whatever reason of those below */
	uint64_t duplicates;
	uint64_t drop_malformed;    /* not a CM MAD, or cut short */
	uint64_t drop_wrong_source; /* from another address or QP than the connection's peer */
	uint64_t drop_unknown_id;   /* for no id of ours */
	uint64_t drop_state;	    /* the id's state has no use for it */
	uint64_t rejected;	    /* REQs rejected by us without asking a consumer */
	uint64_t drop_no_memory;
	uint64_t drop_backlog; /* no room at the listener: urxe_cm_ignore() */
	uint64_t bad_steps;    /* of the state machine, that its table does not show: never */
	uint64_t established;
	uint64_t unreachable;		   /* REQs and SIDR_REQs that ICMP ended */
	uint64_t states[URXE_CM_N_STATES]; /* ids now in each state */
};

/** urxe_cm_create - a CM. Returns NULL when out of memory. @ops and @arg must outlive it. */
struct urxe_cm *urxe_cm_create(const struct urxe_cm_ops *ops, void *arg,
			       const struct urxe_cm_config *cfg);

/** urxe_cm_destroy_all - free the CM and every id left, saying nothing to anyone. */
void urxe_cm_destroy_all(struct urxe_cm *cm);

/** urxe_cm_goodbye - for process exit: destroys every id, which sends each peer a DREQ or REJ; a
 * DREP of the last second is sent once more. */
void urxe_cm_goodbye(struct urxe_cm *cm);
/** urxe_cm_parting - is there a peer that has not answered a DREQ so far, one or the other of which
 * may have been lost? */
bool urxe_cm_parting(struct urxe_cm *cm);

/** urxe_cm_counters - live counters. */
const struct urxe_cm_counters *urxe_cm_get_counters(const struct urxe_cm *cm);

/** The state of one id, for a list of all of them. */
struct urxe_cm_info {
	urxe_cm_handler handler; /* NULL: its owner is gone */
	enum urxe_cm_state state;
	enum urxe_cm_event_type last_event; /* that its owner got, or would have got */
	uint32_t local_comm_id, remote_comm_id, local_qpn, remote_qpn;
	uint64_t service_id;
	unsigned retries; /* of all its messages */
	const struct urxe_cm_path *path;
};

/** urxe_cm_readdress - own addresses have come or gone: paths have the GID indices of now. */
void urxe_cm_readdress(struct urxe_cm *cm);

/** urxe_cm_get_info - @id as it stands; info->path is good as long as the id. */
void urxe_cm_get_info(const struct urxe_cm_id *id, struct urxe_cm_info *info);
/** urxe_cm_for_each - @fn for every id, in no order; it changes nothing. */
void urxe_cm_for_each(struct urxe_cm *cm, void (*fn)(const struct urxe_cm_info *info, void *arg),
		      void *arg);

/** urxe_cm_idle - true when no id is left, not even one in timewait. */
bool urxe_cm_is_idle(const struct urxe_cm *cm);

/** Where a MAD came from: the headers of the received packet, not the fields of the MAD. */
struct urxe_cm_source {
	union ibv_gid sgid; /* the peer */
	union ibv_gid dgid; /* own */
	uint8_t dgid_index;
	uint8_t port_num;
	uint8_t traffic_class;
	uint32_t qpn;
};

/** urxe_cm_recv - take a MAD. Anything may come in. */
void urxe_cm_recv(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
		  uint32_t len);

/** Somebody reports that a MAD of ours does not reach its destination (ICMP). */
struct urxe_cm_unreachable {
	int err;	    /* for the event: ENETUNREACH, EHOSTUNREACH, EACCES, ECONNREFUSED */
	union ibv_gid from; /* the one that reports it */
	union ibv_gid sgid, dgid; /* the MAD's */
	const uint8_t *mad;	  /* as much of it as is quoted */
	uint32_t len;
};

/**
 * urxe_cm_unreachable - take such a report. Anything may come in.
 *
 * It ends the wait of the REQ or SIDR_REQ that it quotes (REQ_ERROR, SIDR_REQ_ERROR with its
 * errno), and nothing else: see urxe-cm(7).
 */
void urxe_cm_unreachable(struct urxe_cm *cm, const struct urxe_cm_unreachable *e);

/**
 * urxe_cm_gone - the peers whose comm ids are @bits under @mask were one process, and that is no
 * more
 *
 * Connections get DREQ_RECEIVED as if it had sent one, requests and answers that wait for it
 * REJ_RECEIVED (reason 28); a REQ or SIDR_REQ to an own address that nobody has answered so far is
 * sent once more, for another process may listen now, or none.
 */
void urxe_cm_gone(struct urxe_cm *cm, uint32_t bits, uint32_t mask);

/** urxe_cm_run - run the timers that are due; returns when the next one is (UINT64_MAX: none). */
uint64_t urxe_cm_run(struct urxe_cm *cm);

/** urxe_cm_deadline - when the next timer is due. */
uint64_t urxe_cm_deadline(const struct urxe_cm *cm);

/** urxe_cm_new_id - an id in IDLE. NULL when out of memory. */
struct urxe_cm_id *urxe_cm_new_id(struct urxe_cm *cm, urxe_cm_handler handler, void *context);

/** urxe_cm_set_handler - another handler and context; for the id of a REQ just received. */
void urxe_cm_set_handler(struct urxe_cm_id *id, urxe_cm_handler handler, void *context);

/**
 * urxe_cm_destroy - the caller is done with the id; its handler is not called any more
 *
 * The peer gets a REJ, or DREQs until it answers or the tries are over. The id goes on without its
 * owner until then, and through timewait.
 */
void urxe_cm_destroy(struct urxe_cm_id *id);

/** urxe_cm_get_state - current state, none of LAP's. */
enum urxe_cm_state urxe_cm_get_state(const struct urxe_cm_id *id);
/** urxe_cm_get_lap_state - LAP_IDLE to MRA_LAP_SENT; means something when ESTABLISHED. */
enum urxe_cm_state urxe_cm_get_lap_state(const struct urxe_cm_id *id);
/** urxe_cm_local_comm_id, _remote_comm_id, _remote_qpn - the peer's are 0 until known. */
uint32_t urxe_cm_local_comm_id(const struct urxe_cm_id *id);
uint32_t urxe_cm_remote_comm_id(const struct urxe_cm_id *id);
uint32_t urxe_cm_remote_qpn(const struct urxe_cm_id *id);
/** urxe_cm_get_path - the path to the peer, zeros before there is one; good as long as the id. */
const struct urxe_cm_path *urxe_cm_get_path(const struct urxe_cm_id *id);

/** urxe_cm_listen - REQs (and SIDR_REQs) for service_id, under mask, come here. EADDRINUSE. */
int urxe_cm_listen(struct urxe_cm_id *id, uint64_t service_id, uint64_t mask);

/** urxe_cm_send_req - 0, EINVAL (state, or private data over 92 bytes), ENOMEM. */
int urxe_cm_send_req(struct urxe_cm_id *id, const struct urxe_cm_req *req);
/** urxe_cm_send_rep - accept; private data up to 196 bytes. */
int urxe_cm_send_rep(struct urxe_cm_id *id, const struct urxe_cm_conn *rep);
/**
 * urxe_cm_ignore - a REQ or SIDR_REQ that was just received is as if it had never come
 *
 * For a listener that cannot take it, in its handler, which then returns nonzero: nothing is sent,
 * so that the peer asks again. 0, or EINVAL: it was answered already.
 */
int urxe_cm_ignore(struct urxe_cm_id *id);
/**
 * urxe_cm_tell_again - the handler of a REQ or SIDR_REQ that is not answered yet gets its event
 * once more, with the MAD as it came (listen_id: NULL)
 *
 * For a listener that kept the id for later. The peer of a REQ is asked for time meanwhile, by MRA,
 * as with any slow consumer. The id may be gone afterwards. 0, or EINVAL: it was answered.
 */
int urxe_cm_tell_again(struct urxe_cm_id *id);
/** urxe_cm_silence - ns since the last MAD of the peer's about a REQ or SIDR_REQ that waits. */
uint64_t urxe_cm_silence(const struct urxe_cm_id *id);
/** urxe_cm_send_rtu - confirm a REP; private data up to 224 bytes. EINVAL. */
int urxe_cm_send_rtu(struct urxe_cm_id *id, const void *private_data, uint8_t len);
/**
 * urxe_cm_send_rej - reject, or end what was accepted but not confirmed yet
 * @reason: table 109; @ari: additional information of up to 72 bytes
 *
 * Private data up to 148 bytes. EINVAL.
 */
int urxe_cm_send_rej(struct urxe_cm_id *id, uint16_t reason, const void *ari, uint8_t ari_len,
		     const void *private_data, uint8_t len);
/** urxe_cm_send_mra - ask for 4.096 us * 2^service_timeout more (0 to 31); private data up to 222
 *  bytes. EINVAL.
 */
int urxe_cm_send_mra(struct urxe_cm_id *id, uint8_t service_timeout, const void *private_data,
		     uint8_t len);
/** urxe_cm_send_dreq - disconnect; private data up to 220 bytes. EINVAL. */
int urxe_cm_send_dreq(struct urxe_cm_id *id, const void *private_data, uint8_t len);
/** urxe_cm_send_drep - answer DREQ_RECEIVED; private data up to 224 bytes. EINVAL. */
int urxe_cm_send_drep(struct urxe_cm_id *id, const void *private_data, uint8_t len);
/** urxe_cm_notify_established - data came before RTU (COMM_EST). EISCONN if connected already. */
int urxe_cm_notify_established(struct urxe_cm_id *id);

/**
 * urxe_cm_send_lap - propose an alternate path
 *
 * EINVAL unless connected with no LAP under way, ENOMEM. APR_RECEIVED or LAP_ERROR follow. Two
 * LAPs that cross are both answered with URXE_CM_APR_REJECT.
 */
int urxe_cm_send_lap(struct urxe_cm_id *id, const struct urxe_cm_path *path,
		     const void *private_data, uint8_t len);
/**
 * urxe_cm_send_apr - answer LAP_RECEIVED
 *
 * Load the path into the QP before you send URXE_CM_APR_SUCCESS (urxe_cm_init_qp_attr() for RTS
 * gives it). @info up to 72 bytes, @private_data up to 148.
 */
int urxe_cm_send_apr(struct urxe_cm_id *id, uint8_t status, const void *info, uint8_t info_len,
		     const void *private_data, uint8_t len);
/** urxe_cm_notify_migrated - the QP uses its alternate path (PATH_MIG): MADs go that way, too,
 *  if the CM knows it. EINVAL unless connected with no LAP under way.
 */
int urxe_cm_notify_migrated(struct urxe_cm_id *id);

/** urxe_cm_unanswered - how many REPs to the address of the id's peer wait for their RTU. */
unsigned urxe_cm_unanswered(const struct urxe_cm_id *id);

/** urxe_cm_send_sidr_req - ask for the QP of a service; private data up to 216 bytes. EINVAL. */
int urxe_cm_send_sidr_req(struct urxe_cm_id *id, const struct urxe_cm_path *path,
			  uint64_t service_id, const void *private_data, uint8_t len);
/** urxe_cm_send_sidr_rep - answer SIDR_REQ_RECEIVED; private data up to 136 bytes. EINVAL. */
int urxe_cm_send_sidr_rep(struct urxe_cm_id *id, enum urxe_cm_sidr_status status, uint32_t qpn,
			  uint32_t qkey, const void *private_data, uint8_t len);
/** What there may be more in a SIDR_REP. */
struct urxe_cm_sidr_more {
	const void *info; /* additional information, up to 72 bytes */
	uint8_t info_len;
	struct urxe_cm_ece ece;
};
/** urxe_cm_send_sidr_rep_more - the same with @more. */
int urxe_cm_send_sidr_rep_more(struct urxe_cm_id *id, enum urxe_cm_sidr_status status, uint32_t qpn,
			       uint32_t qkey, const struct urxe_cm_sidr_more *more,
			       const void *private_data, uint8_t len);
/** urxe_cm_set_wait - what each try of a SIDR_REQ waits, and tries; zeros: our own. */
void urxe_cm_set_wait(struct urxe_cm_id *id, uint32_t wait_ms, uint8_t tries);

/** urxe_cm_set_ack_timeout - local ACK time-out that urxe_cm_init_qp_attr() gives; 0: none. */
void urxe_cm_set_ack_timeout(struct urxe_cm_id *id, uint8_t timeout);

/**
 * urxe_cm_init_qp_attr - QP attributes for attr->qp_state (INIT, RTR or RTS)
 * @mask: out: which of them are set
 *
 * With an alternate path agreed on in REQ and REP, RTR has ALT_PATH and RTS PATH_MIG_STATE; since
 * a LAP, RTS gives these two alone, for a QP that is in RTS.
 * EINVAL when the id has not come far enough.
 */
int urxe_cm_init_qp_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask);

/** urxe_cm_path_to_ah - address handle attributes of a path. */
void urxe_cm_path_to_ah(const struct urxe_cm_path *path, struct ibv_ah_attr *ah);

#endif
