/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Inside of the IB CM; read cm_state.c first: it holds the one table. */
#ifndef URXE_CM_CORE_CM_PRIV_H
#define URXE_CM_CORE_CM_PRIV_H

#include <urcu/compiler.h>

#include "cm/core/cm.h"
#include "urxe/hash.h"
#include "urxe/slab.h"
#include "urxe/timer.h"

#define URXE_CM_MS 1000000ull

/* Advertised, as the kernel's CM does (RoCE): response times 4.096 us << 20, 15 retries. */
#define URXE_CM_ADV_RESPONSE_TIMEOUT 20
#define URXE_CM_ADV_RETRIES	     15
#define URXE_CM_ADV_ACK_DELAY	     15
#define URXE_CM_ADV_LID		     0xffff

/* Did somebody choose this local ACK time-out? Linux advertises 19 (from 6.2 on 17) where not. */
static inline bool urxe_cm_ack_timeout_chosen(uint8_t timeout)
{
	return timeout && timeout != URXE_CM_ACK_TIMEOUT && timeout != 19;
}

struct urxe_cm_key {
	union ibv_gid gid; /* the peer's address */
	uint64_t guid;
	uint32_t num; /* comm id or QPN */
};

/** The alternate path of an id, and the machine of LAP and APR. Few ids have one. */
struct urxe_cm_alt {
	struct urxe_cm_id *id;
	enum urxe_cm_state state; /* LAP_IDLE ... */
	struct urxe_timer timer;  /* of URXE_CM_TIMER_LAP */
	unsigned tries;
	struct urxe_cm_path path;  /* agreed on, when has_path */
	struct urxe_cm_path offer; /* of the LAP under way */
	bool has_path;
	bool by_lap;  /* there was a LAP: the QP is in RTS */
	bool has_apr; /* apr[] answers a LAP of tid */
	uint64_t tid; /* of the peer's last LAP */
	uint8_t lap[URXE_MAD_LEN], apr[URXE_MAD_LEN];
};

/* Whose timer it is (struct urxe_timer's kind). */
enum urxe_cm_timer_kind {
	URXE_CM_TIMER_ID,
	URXE_CM_TIMER_LAP,
};

struct urxe_cm_id {
	struct urxe_cm *cm;
	urxe_cm_handler handler; /* NULL: its owner is gone */
	void *context;
	enum urxe_cm_state state;
	unsigned refs; /* steps that run on it; freed after the last */
	bool orphan, dead;
	bool active;	 /* sent the REQ */
	bool peer;	 /* its REQ may meet one of the peer's */
	uint8_t refused; /* so often for want of a listener: the REQ or SIDR_REQ is sent again */
	bool rejected;	 /* TIMEWAIT after a REJ of ours: duplicates get it again */
	bool quiet;	 /* the consumer got the end of the connection: no second event */

	struct urxe_hash_node by_local, by_remote, by_qp, by_service, by_peer;
	bool in_remote, in_qp, in_service, in_peer;
	union ibv_gid peer_gid;		/* the peer's address when it was indexed */
	struct urxe_cm_id *masked_next; /* listeners for a range of service ids */

	uint32_t local_comm_id, remote_comm_id;
	uint32_t mra_comm_id; /* of who asked for time, before its REP */
	uint64_t remote_guid;
	uint32_t local_qpn, remote_qpn;
	uint64_t service_id, service_mask;
	uint64_t tid; /* of the REQ or SIDR_REQ */
	uint64_t dreq_tid;
	uint64_t drep_until; /* a process that ends before sends its DREP once more */
	struct urxe_cm_path path;
	struct urxe_cm_alt *alt; /* NULL: none so far */
	enum ibv_qp_type qp_type;
	uint32_t sq_psn, rq_psn;
	uint8_t responder_resources, initiator_depth; /* own */
	uint8_t offered_depth;			      /* initiator depth of our REQ */
	uint8_t retry_count, rnr_retry_count;
	uint8_t ack_timeout; /* of the QP, if one was chosen; 0: it never times out */
	bool ack_timeout_set;

	/* What is retransmitted: REQ, REP, RTU, DREQ; or the peer's request until it is answered.
	 */
	uint8_t mad[URXE_MAD_LEN];
	uint8_t mras; /* since the peer was heard */
	unsigned tries;
	uint64_t since;	  /* the first of these */
	unsigned retries; /* of all messages */
	enum urxe_cm_event_type last_event;
	uint32_t wait_ms; /* each try waits so long; 0: back-off */
	uint8_t max_tries;
	uint64_t heard, probe_ns; /* when its last MAD came; time between probes */
	bool probed;		  /* an active side whose peer probes */
	bool repeats;		  /* the timer is for RTU or DREP to go once more */
	bool probing;		  /* a passive side that waits for the answer to a probe */
	bool asked_time;	  /* our MRA keeps it silent, until it hears our RTU */
	struct urxe_timer timer;
	/* What the host at the peer's address reported of the request (cm_unreachable.c). */
	struct {
		int err;
		unsigned sends, last; /* of which it was reported; the last of these */
		uint64_t since;
	} doubt;
};

/** A REQ that waits for its listener (cm_park.c). */
struct urxe_cm_parked {
	struct urxe_cm_source src;
	uint8_t mad[URXE_MAD_LEN];
	uint64_t next, until; /* when it is looked at again (0: free), when it is rejected */
};

#define URXE_CM_PARKED 16

/** A consumer's own "no such service" to a SIDR_REQ, should that be asked again (cm_sidr.c). */
struct urxe_cm_refusal {
	union ibv_gid peer;
	uint64_t until;
	uint8_t mad[URXE_MAD_LEN]; /* has the request's id and transaction id */
};

#define URXE_CM_REFUSALS 16

/** A service that answered a REQ of ours at last (cm_again.c). */
struct urxe_cm_service {
	union ibv_gid peer;
	uint64_t id;
	uint32_t comm_id; /* ours of that connection, which may be over */
};

#define URXE_CM_SERVICES 16

#define URXE_CM_PEERS	   256
#define URXE_CM_UNANSWERED 2 /* tables of them */

struct urxe_cm {
	const struct urxe_cm_ops *ops;
	void *arg;
	struct urxe_cm_config cfg;
	struct urxe_hash by_local;   /* every id, by local comm id */
	struct urxe_hash by_remote;  /* passive ids, by the REQ's sender: finds duplicates */
	struct urxe_hash by_qp;	     /* by remote QP: finds stale connections */
	struct urxe_hash by_service; /* listeners */
	struct urxe_hash by_peer;    /* REQs that may meet the peer's own */
	struct urxe_cm_id *masked;
	struct urxe_timer_heap timers;
	struct urxe_slab ids; /* memory of them */
	size_t n_ids, n_alts;
	uint64_t hash_seed;
	uint32_t tid_hi, tid_lo;
	struct urxe_cm_counters counters;
	enum urxe_cm_input input; /* of the step that is taken, for the log */
	struct urxe_cm_parked parked[URXE_CM_PARKED];
	uint64_t park_next; /* the first next of these; UINT64_MAX: none is parked */
	struct urxe_cm_refusal refusals[URXE_CM_REFUSALS];
	unsigned next_refusal;
	struct urxe_cm_service services[URXE_CM_SERVICES];
	unsigned next_service;
	/* REPs without RTU, by hashes of the peer's address */
	unsigned unanswered[URXE_CM_UNANSWERED][URXE_CM_PEERS];
	uint64_t heard[URXE_CM_PEERS]; /* when the last MAD came, likewise */
	/* how long answers to REQ, REP, DREQ take, likewise (cm_line.c) */
	uint64_t answer_ns[3][URXE_CM_PEERS];
	uint64_t ran, woke;   /* the last urxe_cm_run(); after a stop */
	uint64_t lost_said;   /* when a peer given up was logged, */
	unsigned lost_unsaid; /* and how many were not since */
};

/** What a step works on, and the event that it leaves. */
struct urxe_cm_step {
	const uint8_t *mad; /* came in, or NULL */
	const struct urxe_cm_source *src;
	struct urxe_cm_id *listener;
	const void *param; /* of a call: urxe_cm_req, urxe_cm_conn, urxe_cm_reply */
	struct urxe_cm_event ev;
};

/** Parameters of the calls that send a reply. */
struct urxe_cm_reply {
	uint16_t reason; /* REJ reason, MRA service time-out, SIDR and APR status */
	const void *ari; /* and the additional information of SIDR_REP and APR */
	uint8_t ari_len;
	const void *private_data;
	uint8_t private_len;
	uint32_t qpn, qkey;		 /* SIDR_REP */
	struct urxe_cm_ece ece;		 /* SIDR_REP */
	const struct urxe_cm_path *path; /* SIDR_REQ, LAP */
	uint64_t service_id, mask;
};

/*
 * An action's results: the row's next state, the other one that it names by OR(), no change, which
 * it allows by MAY_STAY; or an errno: the call is refused, and nothing changes.
 */
#define URXE_CM_NEXT  0
#define URXE_CM_STAY  (-1)
#define URXE_CM_OTHER (-2)

typedef int (*urxe_cm_action)(struct urxe_cm_id *id, struct urxe_cm_step *s);

/* cm_state.c */
/**
 * urxe_cm_do - one step of @id: the table's action for @in in its state, the state after it, and
 * the event for the handler
 *
 * 0, or the errno of a call that is refused. @id may be gone afterwards.
 */
int urxe_cm_do(struct urxe_cm_id *id, enum urxe_cm_input in, struct urxe_cm_step *s);
/** urxe_cm_heard - a MAD of the peer has come: it is alive. */
void urxe_cm_heard(struct urxe_cm_id *id);
/** urxe_cm_watch - start to watch over the peer of a connection just established. */
void urxe_cm_watch(struct urxe_cm_id *id);
/** urxe_cm_wait - timewait begins. */
void urxe_cm_wait(struct urxe_cm_id *id);
/** urxe_cm_may_lose - is a MAD to the peer lost now and then? */
bool urxe_cm_may_lose(const struct urxe_cm_id *id);
/** urxe_cm_begin_lap - id->alt is new: its machine is in LAP_IDLE. */
void urxe_cm_begin_lap(struct urxe_cm_id *id);
/** urxe_cm_count_unanswered - one REP more (1) or less (-1) waits for this id's peer. */
void urxe_cm_count_unanswered(struct urxe_cm_id *id, int n);
/** urxe_cm_allows - has the table an entry for this? */
bool urxe_cm_allows(enum urxe_cm_state state, enum urxe_cm_input in);

/* cm_core.c: ids, look-ups, timers */
void urxe_cm_arm(struct urxe_cm_id *id, uint64_t delay_ns);
void urxe_cm_cancel(struct urxe_cm_id *id);
/** urxe_cm_no_data - is private data all zeros? */
bool urxe_cm_no_data(const uint8_t *data, unsigned len);
/** urxe_cm_may_try - once more? @tries: sends to a peer of whom nothing is heard. */
bool urxe_cm_may_try(const struct urxe_cm_id *id, uint8_t tries);
/** urxe_cm_answered - what @id sent was answered: before its state changes. */
void urxe_cm_answered(const struct urxe_cm_id *id);
/** urxe_cm_in_line - the answer's time is over; true: not for this peer at present, the timer is
 * set again. */
bool urxe_cm_in_line(struct urxe_cm_id *id);
/** urxe_cm_arm_try - wait for the answer to try number id->tries (from 1), with back-off. */
void urxe_cm_arm_try(struct urxe_cm_id *id, uint32_t first_ms, uint32_t max_ms);
/** urxe_cm_try_ns - how long that is. */
uint64_t urxe_cm_try_ns(unsigned tries, uint32_t first_ms, uint32_t max_ms);
void urxe_cm_free_id(struct urxe_cm_id *id);
void urxe_cm_index_peer(struct urxe_cm_id *id);
void urxe_cm_unindex_peer(struct urxe_cm_id *id);
int urxe_cm_index_listener(struct urxe_cm_id *id);
struct urxe_cm_id *urxe_cm_find_local(struct urxe_cm *cm, uint32_t comm_id);
struct urxe_cm_id *urxe_cm_find_remote(struct urxe_cm *cm, const union ibv_gid *gid, uint64_t guid,
				       uint32_t comm_id);
struct urxe_cm_id *urxe_cm_find_qp(struct urxe_cm *cm, const union ibv_gid *gid, uint64_t guid,
				   uint32_t qpn);
struct urxe_cm_id *urxe_cm_find_service(struct urxe_cm *cm, uint64_t service_id);
uint64_t urxe_cm_new_tid(struct urxe_cm *cm);
void urxe_cm_index_waiting(struct urxe_cm_id *id);
void urxe_cm_unindex_waiting(struct urxe_cm_id *id);
/** urxe_cm_find_waiting - an id whose REQ waits for a peer, which this REQ may be from. */
struct urxe_cm_id *urxe_cm_find_waiting(struct urxe_cm *cm, const struct urxe_cm_source *src,
					const uint8_t *mad);

/* cm_lap.c: alternate paths */
/** urxe_cm_new_alt - room for one on the id, if there is none yet. 0 or ENOMEM. */
int urxe_cm_new_alt(struct urxe_cm_id *id);
void urxe_cm_free_alt(struct urxe_cm_id *id);

/* cm_rx.c */
/**
 * urxe_cm_new_req - a REQ that passed all checks: to its listener, or rejected
 * @may_wait: or parked
 */
void urxe_cm_new_req(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
		     bool may_wait);

/** urxe_cm_new_sidr_req - the same for a SIDR_REQ. */
void urxe_cm_new_sidr_req(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
			  bool park);

/** urxe_cm_peer_hash - of a peer's address, below URXE_CM_PEERS. */
unsigned urxe_cm_peer_hash(const struct urxe_cm *cm, const union ibv_gid *gid);
/** urxe_cm_peer_heard - when the last MAD came from where @id's path leads; 0: never. */
uint64_t urxe_cm_peer_heard(const struct urxe_cm_id *id);

/* cm_unreachable.c: ICMP errors about requests */
/**
 * urxe_cm_doubt - errno of what the peer's own host reported of @sends sends of the request at
 * least, while no MAD came from there; else 0
 */
int urxe_cm_doubt(const struct urxe_cm_id *id, unsigned sends);
/** urxe_cm_nobody_there - that is enough to end the request. */
bool urxe_cm_nobody_there(const struct urxe_cm_id *id);
/** urxe_cm_gave_up - the event of a request's end. @err: of ICMP, or 0: nobody answered. */
void urxe_cm_gave_up(struct urxe_cm_id *id, struct urxe_cm_step *s, int err);

/* cm_sidr.c */
/** urxe_cm_refused - has a consumer just refused this SIDR_REQ? Then it is told so once more. */
bool urxe_cm_refused(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad);

/* cm_park.c: REQs and SIDR_REQs before their listener */
/** urxe_cm_park - keep one for a moment; false: no room, or not wanted. */
bool urxe_cm_park(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad);
void urxe_cm_park_run(struct urxe_cm *cm, uint64_t now);

/* cm_again.c: what was rejected for want of a listener */
/**
 * urxe_cm_ask_again - the answer was that nobody listens
 *
 * True if the request is sent again in a moment: once, if it was the first answer and came at once;
 * some times, if there is a connection with that service.
 */
bool urxe_cm_ask_again(struct urxe_cm_id *id);
/** urxe_cm_note_service - a peer has answered @id's REQ. */
void urxe_cm_note_service(const struct urxe_cm_id *id);

/* cm_msg.c: messages out */
/** urxe_cm_unheard - nobody answers: look whether the peer is where it was. */
void urxe_cm_unheard(const struct urxe_cm_id *id);
/** urxe_cm_count_retry - a message of kind @attr goes out once more. */
void urxe_cm_count_retry(struct urxe_cm_id *id, uint16_t attr);

/** Where a path stands in a message: REQ has two, LAP one. */
struct urxe_cm_path_fields {
	enum urxe_mad_field_id local_lid, remote_lid, local_gid, remote_gid, flow_label,
		traffic_class, hop_limit, sl, ack_timeout;
};
extern const struct urxe_cm_path_fields urxe_cm_req_primary, urxe_cm_req_alternate,
	urxe_cm_lap_alternate;
void urxe_cm_put_path(uint8_t *mad, const struct urxe_cm_path_fields *f,
		      const struct urxe_cm_path *p);
/** urxe_cm_req_has_alternate - does the REQ name an alternate path? */
bool urxe_cm_req_has_alternate(const uint8_t *mad);
/** urxe_cm_read_path - the way back of a path in a message: GIDs, flow label to ACK time-out. */
void urxe_cm_read_path(const uint8_t *mad, const struct urxe_cm_path_fields *f,
		       struct urxe_cm_path *p);
void urxe_cm_send_mad(struct urxe_cm *cm, const struct urxe_cm_path *path, const uint8_t *mad);
void urxe_cm_put_private(uint8_t *mad, enum urxe_mad_field_id field, const void *data, uint8_t len);
/** A transport in REQs: the QP types of the two sides. */
struct urxe_cm_transport {
	enum ibv_qp_type active, passive;
	uint8_t service, extended;
};
/** urxe_cm_transport - by the sender's QP type; NULL: none is connected by a REQ. */
const struct urxe_cm_transport *urxe_cm_transport(enum ibv_qp_type active);
/** urxe_cm_req_qp_type - the receiver's QP type for a REQ; 0: a transport that is not offered. */
enum ibv_qp_type urxe_cm_req_qp_type(const uint8_t *mad);
void urxe_cm_build_req(struct urxe_cm_id *id, const struct urxe_cm_req *req);
void urxe_cm_build_rep(struct urxe_cm_id *id, const struct urxe_cm_conn *rep);
void urxe_cm_build_rtu(struct urxe_cm_id *id, const void *data, uint8_t len);
void urxe_cm_build_dreq(struct urxe_cm_id *id, const void *data, uint8_t len);
void urxe_cm_issue_drep(struct urxe_cm_id *id, const void *data, uint8_t len);
void urxe_cm_issue_mra(struct urxe_cm_id *id, enum urxe_cm_answered what, uint8_t service,
		       const void *data, uint8_t len);
/** urxe_cm_build_lap - in id->alt->lap. */
void urxe_cm_build_lap(struct urxe_cm_id *id, const struct urxe_cm_reply *r);
/** urxe_cm_build_apr - the answer to the LAP of @tid, in @m. */
void urxe_cm_build_apr(struct urxe_cm_id *id, uint64_t tid, const struct urxe_cm_reply *r,
		       uint8_t *m);
void urxe_cm_issue_rej(struct urxe_cm_id *id, enum urxe_cm_answered what,
		       const struct urxe_cm_reply *r);
/** urxe_cm_answer_rej - reject a MAD that belongs to no id. */
void urxe_cm_answer_rej(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad,
			uint16_t reason, const void *ari, uint8_t ari_len);
/** urxe_cm_answer_drep - answer a DREQ that belongs to no id. */
void urxe_cm_answer_drep(struct urxe_cm *cm, const struct urxe_cm_source *src, const uint8_t *mad);
void urxe_cm_path_back(const struct urxe_cm_source *src, struct urxe_cm_path *path);

/* cm_act.c: the actions of the table */
/** urxe_cm_heard_mra - the peer asks for time: fills in the event. Returns the ns to wait: 4.096 us
 * * 2^n (IBTA 12.6.6), then a round trip more. */
uint64_t urxe_cm_heard_mra(const struct urxe_cm_id *id, struct urxe_cm_step *s);
#define URXE_CM_ACTIONS(A) \
	A(listen)          \
	A(send_req)        \
	A(send_rep)        \
	A(send_rtu)        \
	A(rej_req)         \
	A(rej_req_sent)    \
	A(rej_rep)         \
	A(rej_own_req)     \
	A(send_mra)        \
	A(tmo_mra)         \
	A(dup_mra)         \
	A(send_dreq)       \
	A(send_drep)       \
	A(establish)       \
	A(is_established)  \
	A(drop_req)        \
	A(drop_rcvd)       \
	A(drop_rep_sent)   \
	A(drop_rep_rcvd)   \
	A(drop_connected)  \
	A(drop_dreq_rcvd)  \
	A(nothing)         \
	A(peer_req)        \
	A(req)             \
	A(ignore)          \
	A(tell_again)      \
	A(resend)          \
	A(dup_req_stale)   \
	A(mra)             \
	A(rej)             \
	A(rej_connected)   \
	A(rep)             \
	A(dup_rep_rtu)     \
	A(late_rep)        \
	A(rtu)             \
	A(alive)           \
	A(tmo_alive)       \
	A(late_rtu)        \
	A(dreq)            \
	A(dreq_crossed)    \
	A(dreq_again)      \
	A(drep)            \
	A(stale)           \
	A(stale_connected) \
	A(tmo_req)         \
	A(tmo_rep_wait)    \
	A(tmo_rep)         \
	A(tmo_rtu_wait)    \
	A(tmo_dreq)        \
	A(tmo_timewait)    \
	A(send_sidr_req)   \
	A(send_sidr_rep)   \
	A(drop_sidr)       \
	A(sidr_req)        \
	A(tell_sidr_again) \
	A(dup_sidr)        \
	A(sidr_rep)        \
	A(tmo_sidr)        \
	A(unreachable)     \
	A(send_lap)        \
	A(send_apr)        \
	A(path_mig)        \
	A(lap)             \
	A(lap_crossed)     \
	A(dup_lap)         \
	A(mra_lap)         \
	A(apr)             \
	A(tmo_lap)         \
	A(tmo_lap_wait)    \
	A(send_mra_lap)    \
	A(tmo_mra_lap)
#define URXE_CM_DECLARE(name) int urxe_cm_act_##name(struct urxe_cm_id *id, struct urxe_cm_step *s);
URXE_CM_ACTIONS(URXE_CM_DECLARE)
#undef URXE_CM_DECLARE

#endif
