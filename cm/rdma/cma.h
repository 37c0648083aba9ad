/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Inside of rdma_cm: what stands behind the structs of <rdma/rdma_cma.h>. Functions marked "locked"
 * want urxe_cma_lock held (cm/device/device.h). They return 0 or a positive errno; only what
 * rdma_cma.h declares returns -1 and errno.
 */
#ifndef URXE_CM_RDMA_CMA_H
#define URXE_CM_RDMA_CMA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <urcu/list.h>

#include "cm/core/cm.h"
#include "cm/device/device.h"
#include "netio/identity.h"

#define URXE_CMA_MAX_BACKLOG 1024

/* What rdma_cma.h declares in later versions than ours may be: rdma-core 60 and on. */
#ifndef RAI_SA
#define RAI_SA	0x10
#define RAI_DNS 0x20
#endif
#define URXE_CMA_EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define URXE_CMA_EVENT_ADDRINFO_ERROR	 ((enum rdma_cm_event_type)17)
#define URXE_CMA_EVENT_USER		 ((enum rdma_cm_event_type)18)
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

struct urxe_cma_id;

/** A request that waits for room in a backlog (backlog.c). */
struct urxe_cma_waiter {
	struct cds_list_head entry; /* in urxe_cma_sender.waiters */
	struct cds_list_head all;   /* in urxe_cma_listening.waiters */
	struct urxe_cma_service *service;
	struct urxe_cma_id *listener;
	struct urxe_cm_id *cm;
};
#define URXE_CMA_WAITERS 16384 /* on a device */
#define URXE_CMA_SENDERS 256   /* of urxe_gid_hash() */

/** The requests of the addresses with one hash to one listener. */
struct urxe_cma_sender {
	unsigned pending;	      /* not yet taken */
	struct cds_list_head waiters; /* for room: first come, first served */
};

/** What listens on a device, and who waits for it: urxe_cma_dev.listening. */
struct urxe_cma_listening {
	struct cds_list_head services;
	struct cds_list_head waiters;
	unsigned n_waiters, of_sender[URXE_CMA_SENDERS];
	uint64_t swept; /* when those that are silent were looked for */
};

struct urxe_cma_channel {
	struct rdma_event_channel channel; /* first */
	struct cds_list_head events;	   /* not yet taken */
	atomic_bool ready;		   /* there are events */
	bool token;			   /* readable, or a sleeper has read that and looks next */
	unsigned readers;		   /* in rdma_get_cm_event(): */
	unsigned drivers;		   /* they drive, or look next, and need no token */
	unsigned sleepers;		   /* they are in read(), or close to it */
	atomic_bool nonblock;		   /* O_NONBLOCK, when last looked at */
	bool dead;			   /* destroyed by the application */
	struct cds_list_head entry;	   /* among the living, or the dead */
	unsigned life;			   /* urxe_cma_life() of its making */
};

struct urxe_cma_event {
	struct rdma_cm_event event;   /* first */
	struct urxe_cma_id *owner;    /* counts it until acked: the listener, of a request */
	struct urxe_cma_mcast *mcast; /* counts it, too; NULL if it is no multicast's */
	struct cds_list_head entry;   /* in channel->events */
	struct cds_list_head own;     /* in owner->events, then in owner->taken */
	uint8_t private_data[256];
};

/** Events that an id has in stock: as many as come with nobody acknowledging one. */
#define URXE_CMA_STOCK 3

/** A multicast group that an id has joined. */
struct urxe_cma_mcast {
	struct cds_list_head entry; /* in id->mcasts */
	struct urxe_cma_id *id;
	union ibv_gid mgid;
	bool send_only;
	bool attached; /* the id's QP to the group */
	void *context;
	unsigned events_out; /* taken by the application, not acked */
};

/* Each with its name in `urxe status --cm`: a state cannot be without one. */
#define URXE_CMA_STATES(S)                                                          \
	S(IDLE)                                                                     \
	S(BOUND)                                                                    \
	S(ADDR_QUERY)                                                               \
	S(ADDR_RESOLVED)                                                            \
	S(ROUTE_RESOLVED)                                                           \
	S(CONNECT)    /* REQ sent, or request accepted, or further */               \
	S(REQUEST)    /* a request that waits for accept or reject */               \
	S(DISCONNECT) /* DISCONNECTED was queued */                                 \
	S(LISTEN)                                                                   \
	S(REMOVED) /* DEVICE_REMOVAL was queued: good for rdma_destroy_id() only */ \
	S(DESTROY) /* in rdma_destroy_id(), which waits for unacked events */

#define URXE_CMA_STATE(name) URXE_CMA_##name,
enum urxe_cma_state {
	URXE_CMA_STATES(URXE_CMA_STATE) URXE_CMA_N_STATES
};
#undef URXE_CMA_STATE
extern const char *const urxe_cma_state_names[URXE_CMA_N_STATES];

struct urxe_cma_id {
	struct rdma_cm_id id; /* first */
	struct urxe_cma_channel *channel;
	struct urxe_cma_dev *dev; /* NULL: not bound to one */
	struct cds_list_head
		all; /* in the library's list of ids, or of those that are in DESTROY */
	enum urxe_cma_state state;
	unsigned life; /* urxe_cma_life() of its making */
	bool sync;     /* the channel is its own, calls wait */

	/* events */
	struct cds_list_head events; /* not yet taken */
	const char *last_event;	     /* its name; NULL: there was none */
	struct cds_list_head taken;  /* by the application, not acked */
	unsigned events_out;	     /* these */
	struct cds_list_head stock;  /* of events not in use */
	unsigned more;		     /* there should be in stock besides own_events */
	unsigned more_stocked;	     /* and there are */
	bool disconnect_told, disconnect_taken;

	/* address */
	union ibv_gid sgid, dgid; /* on the wire */
	uint8_t sgid_index;
	bool has_sgid; /* bound to an address (not the wildcard) */
	bool loopback; /* bound to 127.0.0.1 or ::1: to no device, and for own addresses alone */
	bool afonly, reuse;
	uint8_t tos;
	bool tos_set;
	uint8_t ack_timeout;
	bool ack_timeout_set;
	uint8_t path_mtu;		    /* enum ibv_mtu, 0: the port's */
	enum rdma_port_space space;	    /* of its port number */
	void *claims[URXE_CMA_MAX_DEVICES]; /* the port number, on each device's identity */

	/* listening */
	int backlog, pending;		 /* requests not yet taken */
	struct urxe_cma_sender *senders; /* by a hash of their address; NULL: never listened */
	unsigned next_sender;		 /* whose turn it is to be let in */
	unsigned waiting;		 /* of all senders, for room in the backlog (backlog.c) */
	struct urxe_cma_binding *bindings;
	struct ibv_qp_init_attr *qp_init_attr; /* of rdma_create_ep, for get_request */

	struct cds_list_head mcasts;

	/* resolving */
	struct urxe_agent_query query;
	struct {
		bool bound, on_device, loopback;
		struct sockaddr_storage src;
	} before;		    /* what it was, for when it fails */
	bool resolving_info;	    /* rdma_resolve_addrinfo(), until rdma_query_addrinfo() */
	struct rdma_addrinfo *info; /* for that */

	/* connecting */
	struct urxe_cm_id *cm;
	bool passive, established;
	uint32_t psn; /* what we ask the peer to start with */
	uint8_t initiator_depth, responder_resources;
	uint8_t min_rnr_timer;	      /* of our QP; a code of IBTA table 46 */
	struct urxe_cm_req *last_req; /* to ask again with a smaller MTU */
	uint8_t req_data[URXE_REQ_PRIVATE_LEN];
	struct ibv_ece local_ece, remote_ece;
	void *connect; /* private data of rdma_create_ep */
	size_t connect_len;
	uint32_t sidr_qkey;

	struct ibv_sa_path_rec path_rec; /* id.route's */
	/* Last: what is before it is zeroed in a new id. */
	struct urxe_cma_event own_events[URXE_CMA_STOCK];
};

/** The listener of one service id on one device, and the ids that share it. */
struct urxe_cma_service {
	struct cds_list_head entry; /* in dev->services */
	struct urxe_cma_dev *dev;
	uint64_t service_id;
	struct urxe_cm_id *cm;
	struct cds_list_head bindings;
};

/** An id's part in a service. */
struct urxe_cma_binding {
	struct cds_list_head entry;    /* in service->bindings */
	struct urxe_cma_binding *next; /* of the id */
	struct urxe_cma_service *service;
	struct urxe_cma_id *id;
};

static inline struct urxe_cma_id *to_cma_id(struct rdma_cm_id *id)
{
	return caa_container_of(id, struct urxe_cma_id, id);
}

static inline struct urxe_cma_channel *to_cma_channel(struct rdma_event_channel *channel)
{
	return caa_container_of(channel, struct urxe_cma_channel, channel);
}

/** urxe_cma_ret - an errno as rdma_cma.h wants it. */
int urxe_cma_ret(int err);
/** urxe_cma_begin, urxe_cma_end - around the locked part of a call on an id: enter (EINVAL for
 * NULL, EIO for an id of a parent process), and leave, passing on the part's errno. */
int urxe_cma_begin(const struct rdma_cm_id *id) URXE_TRY_ACQUIRE(0, urxe_cma_lock);
int urxe_cma_end(int err) URXE_RELEASE(urxe_cma_lock);
/**
 * urxe_cma_begin_wait, urxe_cma_end_wait - the same for a call whose answer is an event; the end
 * with the call's result
 *
 * A synchronous id waits for the event; what comes in between needs no token in its channel. Any
 * other id is not looked at again: a thread that took the event may have destroyed it.
 */
int urxe_cma_begin_wait(const struct rdma_cm_id *id) URXE_TRY_ACQUIRE(0, urxe_cma_lock);
int urxe_cma_end_wait(struct rdma_cm_id *id, int err) URXE_RELEASE(urxe_cma_lock);
/** urxe_cma_looks - makes urxe_cma_hold() the beginning of a call that urxe_cma_end_wait() ends. */
void urxe_cma_looks(const struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);

/* ---- devices.c: what befalls the devices under the ids ---- */

/** urxe_cma_client - rdma_cm, as the devices know it */
extern const struct urxe_device_client urxe_cma_client;

/* ---- channel.c ---- */

struct urxe_cma_channel *urxe_cma_channel_create(void);
void urxe_cma_channel_free(struct urxe_cma_channel *ch);
/** urxe_cma_channel_check - EIO: it is a parent process's. Locked. */
int urxe_cma_channel_check(const struct urxe_cma_channel *ch) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_set_token - make the descriptor readable, or not, as it should be. Locked. */
void urxe_cma_set_token(struct urxe_cma_channel *ch) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_event_post - queue it on its owner's channel. Locked. */
void urxe_cma_event_post(struct urxe_cma_event *ev) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_move - @id goes to another channel, with its pending events, and the ids of those
 * that are requests. Locked. */
void urxe_cma_move(struct urxe_cma_id *id, struct urxe_cma_channel *to)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_complete - a synchronous id waits for its next event and keeps it. Not locked. */
int urxe_cma_complete(struct rdma_cm_id *id) URXE_EXCLUDES(urxe_cma_lock);

/* ---- event.c ---- */

/** signalled when an event was acked */
extern pthread_cond_t urxe_cma_acked;

/** urxe_cma_stock_own - a new id's events are in its stock. */
void urxe_cma_stock_own(struct urxe_cma_id *id);
/** urxe_cma_stock - one event more in stock for @id. 0 or ENOMEM. Locked. */
int urxe_cma_stock(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_unstock - one less: what urxe_cma_stock() was for has gone, and its event is back.
 * Locked. */
void urxe_cma_unstock(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_stock_free - of an id that goes. */
void urxe_cma_stock_free(struct urxe_cma_id *id);
/** urxe_cma_event_new - NULL when there is neither memory nor stock. Locked, unless the id is new.
 */
struct urxe_cma_event *urxe_cma_event_new(struct urxe_cma_id *id, enum rdma_cm_event_type type,
					  int status);
/** urxe_cma_event_request - CONNECT_REQUEST of the new @id. NULL: no memory, the peer asks again.
 */
struct urxe_cma_event *urxe_cma_event_request(struct urxe_cma_id *listener, struct urxe_cma_id *id);
/** urxe_cma_event_data - private data of the event: a copy. */
void urxe_cma_event_data(struct urxe_cma_event *ev, const void **data, uint8_t *data_len,
			 const void *src, uint8_t len);
/** urxe_cma_event_unqueue - off its channel and its owner's list. Locked. */
void urxe_cma_event_unqueue(struct urxe_cma_event *ev) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_tell - an event without parameters. Locked. */
void urxe_cma_tell(struct urxe_cma_id *id, enum rdma_cm_event_type type, int status)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_events_purge - forget pending events of @id; requests among them are put in @orphans.
 */
void urxe_cma_events_purge(struct urxe_cma_id *id, struct cds_list_head *orphans)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_events_purge_mcast - forget pending events of a multicast group. Locked. */
void urxe_cma_events_purge_mcast(const struct urxe_cma_mcast *mc) URXE_REQUIRES(urxe_cma_lock);
/**
 * urxe_cma_wait - wait until the events of an id, or of its group @mc, are acked
 * @call: the application's, for the warning that it waits
 *
 * Gives the lock away meanwhile. Locked.
 */
void urxe_cma_wait(const struct urxe_cma_id *id, const struct urxe_cma_mcast *mc, const char *call)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_ack - the application has done with an event that it took: free it. Locked. */
void urxe_cma_ack(struct urxe_cma_event *ev) URXE_REQUIRES(urxe_cma_lock);

/* ---- addr.c ---- */

/** urxe_cma_addr_len - of an AF_INET, AF_INET6 or AF_IB address; 0 for others and NULL. */
socklen_t urxe_cma_addr_len(const struct sockaddr *sa);
void urxe_cma_addr_gid(const struct sockaddr *sa, union ibv_gid *gid);
void urxe_cma_gid_addr(const union ibv_gid *gid, int family, uint16_t port, struct sockaddr *sa);
uint16_t urxe_cma_addr_port(const struct sockaddr *sa); /* host order */
void urxe_cma_addr_set_port(struct sockaddr *sa, uint16_t port);
/** urxe_cma_addr_set_scope - the scope id of a link-local IPv6 address that has none. */
void urxe_cma_addr_set_scope(struct sockaddr *sa, uint32_t scope);
/** urxe_cma_addr_v4 - IPv4, be it mapped into IPv6? */
bool urxe_cma_addr_v4(const struct sockaddr *sa);
bool urxe_cma_addr_ib(const struct sockaddr *sa);
/** urxe_cma_addr_mix - are they of families that cannot be an id's two addresses? */
bool urxe_cma_addr_mix(const struct sockaddr *a, const struct sockaddr *b);
/**
 * urxe_cma_addr_ib_space - the port space that an own AF_IB address means
 * @ps: the id's, RDMA_PS_IB may be any
 *
 * Its service id, as far as the mask covers it, must be that of a port space, and is completed to
 * that. 0, or EPROTONOSUPPORT: it is that of none.
 */
int urxe_cma_addr_ib_space(struct sockaddr *sa, enum rdma_port_space ps,
			   enum rdma_port_space *space);
/** urxe_cma_addr_print - address and port number in @buf[URXE_REPORT_ADDR_LEN]; "-": none. */
void urxe_cma_addr_print(const struct sockaddr *sa, const union ibv_gid *gid, char *buf);
bool urxe_cma_addr_any(const struct sockaddr *sa);
bool urxe_cma_addr_loopback(const struct sockaddr *sa);
bool urxe_cma_addr_mcast(const struct sockaddr *sa);

/* ---- id.c ---- */

/** all ids. Guarded by urxe_cma_lock. */
extern struct cds_list_head urxe_cma_ids;
/** those in rdma_destroy_id() that wait for unacked events. Likewise. */
extern struct cds_list_head urxe_cma_leaving;
/** urxe_cma_id_new - in no list. NULL: no memory. Locked. */
struct urxe_cma_id *urxe_cma_id_new(struct urxe_cma_channel *ch, void *context,
				    enum rdma_port_space ps, enum ibv_qp_type qp_type)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_id_end - take it out of everything; what is left is memory. Locked. */
void urxe_cma_id_end(struct urxe_cma_id *id, struct cds_list_head *orphans)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_id_free - its memory; a channel of its own is the caller's to free. Locked. */
void urxe_cma_id_free(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_id_quiesce - nothing happens on it any more. Locked. */
void urxe_cma_id_quiesce(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_attach - bind the id to a device. Locked. */
void urxe_cma_attach(struct urxe_cma_id *id, struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock);
int urxe_cma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		       enum rdma_port_space ps, enum ibv_qp_type qp_type);

/* ---- bind.c ---- */

/** urxe_cma_bind - bind to an address (wildcard allowed) and port (0: ephemeral). Locked. */
int urxe_cma_bind(struct urxe_cma_id *id, const struct sockaddr *addr) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_unbind - takes back its own address and device; the port number stays claimed. Locked.
 */
void urxe_cma_unbind(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
/**
 * urxe_cma_service_id - of an own or a peer's address of the id
 *
 * Port space and port number, as the kernel puts them together. For RDMA_PS_TCP and RDMA_PS_UDP
 * it is the RDMA IP CM service's (IBTA A11): 0x0000000001, IP protocol, port. An AF_IB address
 * has its own.
 */
uint64_t urxe_cma_service_id(const struct urxe_cma_id *id, const struct sockaddr *addr);
/**
 * urxe_cma_claim_port - the port number in the id's source address, or an ephemeral one for 0
 * @gid: the address; zero for the wildcard
 *
 * On the id's device or, unbound, on all. Locked. Also EPROTONOSUPPORT.
 */
int urxe_cma_claim_port(struct urxe_cma_id *id, const union ibv_gid *gid)
	URXE_REQUIRES(urxe_cma_lock);
void urxe_cma_release_port(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_reuse_port - id->reuse has changed: others may, or may not, share its number. Locked.
 */
void urxe_cma_reuse_port(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);

/* ---- resolve.c ---- */

/** urxe_cma_set_path_rec - id->route.path_rec of the path as it stands. Locked. */
void urxe_cma_set_path_rec(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
uint32_t urxe_cma_flow_label(const struct urxe_cma_id *id);

/* ---- listen.c ---- */

void urxe_cma_unlisten(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
int urxe_cma_request_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context)
	URXE_REQUIRES(urxe_cma_lock);

/* ---- backlog.c ---- */

/** urxe_cma_backlog_init - for an id that is about to listen. 0 or ENOMEM. */
int urxe_cma_backlog_init(struct urxe_cma_id *listener);
/** urxe_cma_backlog_fits - has the listener room for this REQ or SIDR_REQ? Locked. */
bool urxe_cma_backlog_fits(const struct urxe_cma_id *listener, const struct urxe_cm_id *cm)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_backlog_count - request @child became pending (1), or was taken (-1). Locked. */
void urxe_cma_backlog_count(struct urxe_cma_id *listener, const struct urxe_cma_id *child, int n)
	URXE_REQUIRES(urxe_cma_lock);
/**
 * urxe_cma_backlog_wait - have a request wait for room; false: so many wait already
 *
 * Its handler is urxe_cma_waiter_handler() until there is room; then the service's is called again.
 * Locked.
 */
bool urxe_cma_backlog_wait(struct urxe_cma_service *svc, struct urxe_cma_id *listener,
			   struct urxe_cm_id *cm) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_backlog_admit - there may be room: let in who fits, one of each sender in turn. Locked.
 */
void urxe_cma_backlog_admit(struct urxe_cma_id *listener) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_backlog_admit_all - the same for all listeners: an RTU may have come. Locked. */
void urxe_cma_backlog_admit_all(const struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_backlog_end - the listener goes: those who wait for it are rejected. Locked. */
void urxe_cma_backlog_end(struct urxe_cma_id *listener) URXE_REQUIRES(urxe_cma_lock);
int urxe_cma_waiter_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context)
	URXE_REQUIRES(urxe_cma_lock);

/* ---- conn.c ---- */

/**
 * urxe_cma_event_conn - parameters of a REQ or REP in the event of its id
 * @skip: bytes of private data that are not the application's
 *
 * As seen from here: what the peer can answer is what we may ask, and the other way. Locked.
 */
void urxe_cma_event_conn(struct urxe_cma_event *e, const struct urxe_cm_conn *c, uint8_t skip)
	URXE_REQUIRES(urxe_cma_lock);
int urxe_cma_conn_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_hdr_len - of the RDMA IP CM header (A11.4.3); 0: AF_IB ids have none. */
uint8_t urxe_cma_hdr_len(const struct urxe_cma_id *id);
/** urxe_cma_private_len - of the application's private data; 0 where it gives a length and no data,
 * as the kernel has it. */
uint8_t urxe_cma_private_len(const struct rdma_conn_param *p);
/**
 * urxe_cma_put_private - header, data of rdma_create_ep() and the application's, for a REQ
 * @room: bytes at @out, with the header
 *
 * 0, or EINVAL when they are more. Locked.
 */
int urxe_cma_put_private(const struct urxe_cma_id *id, const struct rdma_conn_param *p,
			 unsigned room, uint8_t *out, uint8_t *out_len)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_path - the path as it goes to the IB CM. Locked. */
void urxe_cma_path(const struct urxe_cma_id *id, struct urxe_cm_path *path)
	URXE_REQUIRES(urxe_cma_lock);

/* ---- mcast.c ---- */

/** urxe_cma_mcast_taken - the application takes a group's event: attach the QP. Locked. */
void urxe_cma_mcast_taken(struct urxe_cma_event *ev) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_mcast_lost - MULTICAST_ERROR for all groups of the id. Locked. */
void urxe_cma_mcast_lost(struct urxe_cma_id *id, int err) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_mcast_detach_all - the id's QP leaves its groups, and is about to go. Locked. */
void urxe_cma_mcast_detach_all(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_mcast_end - free the groups; none of their events is left. */
void urxe_cma_mcast_end(struct urxe_cma_id *id);

/* ---- sidr.c: RDMA_PS_UDP ---- */

int urxe_cma_sidr_connect(struct urxe_cma_id *id, const struct rdma_conn_param *param)
	URXE_REQUIRES(urxe_cma_lock);
int urxe_cma_sidr_accept(struct urxe_cma_id *id, const struct rdma_conn_param *param)
	URXE_REQUIRES(urxe_cma_lock);
int urxe_cma_sidr_reject(struct urxe_cma_id *id, const void *data, uint8_t len)
	URXE_REQUIRES(urxe_cma_lock);
int urxe_cma_sidr_request(struct urxe_cma_id *id, struct urxe_cma_event *event,
			  const struct urxe_cm_event *ev) URXE_REQUIRES(urxe_cma_lock);

/* ---- qp.c ---- */

/** urxe_cma_qp_to_rts - the QP on the id, if any, to RTR and RTS. Locked. */
int urxe_cma_qp_to_rts(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_qp_load_alternate - the path of a LAP, to the QP on the id. Locked. EOPNOTSUPP: none.
 */
int urxe_cma_qp_load_alternate(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_qp_to_err - the QP on the id, if any, to ERR. Locked. */
int urxe_cma_qp_to_err(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock);
int urxe_cma_init_qp_attr(struct urxe_cma_id *id, struct ibv_qp_attr *attr, int *mask)
	URXE_REQUIRES(urxe_cma_lock);

#endif
