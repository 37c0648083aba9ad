/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Inside of librdmacm.so.1: what stands behind the structs of <rdma/rdma_cma.h>.
 *
 * One lock (urxe_cma_lock) guards all of it: devices, agents with their IB CMs, ids, channels.
 * It is never held while waiting; verbs are called under it (the provider calls nothing of ours
 * with a lock held but the agent's poll, which takes it first). Functions marked "locked" want it
 * held. They return 0 or a positive errno; only what rdma_cma.h declares returns -1 and errno.
 */
#ifndef URXE_CM_CMA_H
#define URXE_CM_CMA_H

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

#include "cm/cm.h"
#include "netio/identity.h"

#define URXE_CMA_MAX_DEVICES 16
#define URXE_CMA_MAX_BACKLOG 1024
#define URXE_CMA_API	     __attribute__((visibility("default")))

struct urxe_cma_id;

/** A peer that found a backlog full, and will ask again (backlog.c). */
struct urxe_cma_waiter {
	uint64_t key, since;
	uint8_t times; /* 0: nobody */
};
#define URXE_CMA_WAITERS 1024

/** A urxe device of this process, open while the library is loaded. */
struct urxe_cma_dev {
	struct ibv_device *device;
	struct ibv_context *verbs;
	struct ibv_pd *pd;     /* id->pd where the application gave none */
	struct ibv_xrcd *xrcd; /* likewise, of XRC SRQs and QPs; NULL until needed */
	struct ibv_device_attr attr;
	struct urxe_agent *agent; /* NULL until the CM is first needed */
	struct cds_list_head services;
	unsigned index;
	struct urxe_cma_waiter waiters[URXE_CMA_WAITERS];
	bool lost; /* its port is gone, and its ids have been told */
};

struct urxe_cma_channel {
	struct rdma_event_channel channel; /* first */
	struct cds_list_head events;	   /* not yet taken */
	atomic_bool ready;		   /* there are events */
	bool token;	   /* the descriptor says so, or a sleeper has read that and looks next */
	unsigned readers;  /* in rdma_get_cm_event(): */
	unsigned drivers;  /* they drive, look next, and need no token */
	unsigned sleepers; /* they are in read(), or close to it */
	bool dead;	   /* destroyed by the application */
	struct cds_list_head entry; /* among the dead */
};

struct urxe_cma_event {
	struct rdma_cm_event event;   /* first */
	struct urxe_cma_id *owner;    /* counts it until acked: the listener, of a request */
	struct urxe_cma_mcast *mcast; /* counts it, too; NULL if it is no multicast's */
	struct cds_list_head entry;   /* in channel->events */
	struct cds_list_head own;     /* in owner->events */
	uint8_t private_data[256];
};

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

enum urxe_cma_state {
	URXE_CMA_IDLE,
	URXE_CMA_BOUND,
	URXE_CMA_ADDR_QUERY,
	URXE_CMA_ADDR_RESOLVED,
	URXE_CMA_ROUTE_RESOLVED,
	URXE_CMA_CONNECT,    /* REQ sent, or request accepted, or further */
	URXE_CMA_REQUEST,    /* a request that waits for accept or reject */
	URXE_CMA_DISCONNECT, /* DISCONNECTED was told */
	URXE_CMA_LISTEN,
	URXE_CMA_REMOVED, /* DEVICE_REMOVAL was told: good for rdma_destroy_id() only */
};

struct urxe_cma_id {
	struct rdma_cm_id id; /* first */
	struct urxe_cma_channel *channel;
	struct urxe_cma_dev *dev; /* NULL: not bound to one */
	struct cds_list_head all; /* in the library's list of ids */
	enum urxe_cma_state state;
	bool sync; /* the channel is its own, calls wait */

	/* events */
	struct cds_list_head events; /* not yet taken */
	const char *last_event;	     /* its name; NULL: there was none */
	unsigned events_out;	     /* taken by the application, not acked */
	bool disconnect_told, disconnect_taken;

	/* address */
	union ibv_gid sgid, dgid; /* on the wire */
	uint8_t sgid_index;
	bool has_sgid; /* bound to an address (not the wildcard) */
	bool loopback; /* bound to 127.0.0.1 or ::1 */
	bool afonly, reuse;
	uint8_t tos;
	bool tos_set;
	uint8_t ack_timeout;
	bool ack_timeout_set;
	uint8_t path_mtu;		    /* enum ibv_mtu, 0: the port's */
	enum rdma_port_space space;	    /* of its port number */
	void *claims[URXE_CMA_MAX_DEVICES]; /* the port number, on each device's identity */

	/* listening */
	int backlog, pending; /* requests not yet taken */
	uint16_t *senders;    /* of these, by a hash of their address */
	struct urxe_cma_binding *bindings;
	struct ibv_qp_init_attr *qp_init_attr; /* of rdma_create_ep, for get_request */

	struct cds_list_head mcasts;

	/* resolving */
	struct cds_list_head resolving; /* in the agent's list */
	bool in_resolving;
	uint64_t resolve_deadline;

	/* connecting */
	struct urxe_cm_id *cm;
	bool passive, established;
	uint32_t psn; /* what we ask the peer to start with */
	uint8_t initiator_depth, responder_resources;
	struct urxe_cm_req *last_req; /* to ask again with a smaller MTU */
	uint8_t req_data[URXE_REQ_PRIVATE_LEN];
	struct ibv_ece local_ece, remote_ece;
	void *connect; /* private data of rdma_create_ep */
	size_t connect_len;
	uint32_t sidr_qkey;
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

/* ---- lib.c ---- */

extern pthread_mutex_t urxe_cma_lock;
/** urxe_cma_hold, urxe_cma_release - take and give the lock; no thread is cancelled in between. */
void urxe_cma_hold(void);
void urxe_cma_release(void);
/** signalled when an event was acked */
extern pthread_cond_t urxe_cma_acked;

/**
 * urxe_cma_enter - take the lock, with the devices known
 *
 * 0, or an errno without the lock: ENODEV when no urxe device is configured, in a child forked
 * after the CM was started, and when the process is exiting.
 */
int urxe_cma_enter(void);
void urxe_cma_leave(void);
/** urxe_cma_begin, urxe_cma_end - around the locked part of a call on an id: enter (EINVAL for
 * NULL), and leave, passing on the part's errno. */
int urxe_cma_begin(const struct rdma_cm_id *id);
int urxe_cma_end(int err);
unsigned urxe_cma_num_devices(void);
/** urxe_cma_device_peek - device by index, opened or not; NULL beyond the last. Locked. */
struct urxe_cma_dev *urxe_cma_device_peek(unsigned i);
/** urxe_cma_device - device by index, opened. Locked. NULL and *err when it cannot be opened. */
struct urxe_cma_dev *urxe_cma_device(unsigned i, int *err);
/** urxe_cma_xrcd - the device's own XRC domain. NULL and *err when it cannot be opened. */
struct ibv_xrcd *urxe_cma_xrcd(struct urxe_cma_dev *dev, int *err);
/** Devices with an agent, for a thread that drives them while it waits. */
struct urxe_cma_drive {
	struct ibv_context *verbs[URXE_CMA_MAX_DEVICES];
	unsigned n;
};

/** urxe_cma_drive_begin - the calling thread drives from now on. Locked. */
void urxe_cma_drive_begin(struct urxe_cma_drive *d);
/** urxe_cma_drive_turn - one turn of each device; true if there was something to do. Not locked. */
bool urxe_cma_drive_turn(const struct urxe_cma_drive *d);
/** urxe_cma_drive_end - it does not any more; @sleeps: because it goes to sleep. */
void urxe_cma_drive_end(const struct urxe_cma_drive *d, bool sleeps);

/** urxe_cma_device_of - the device of an application's context; ENODEV when it is not ours. Locked.
 */
struct urxe_cma_dev *urxe_cma_device_of(const struct ibv_context *ctx, int *err);
/** urxe_cma_ids - all ids, for the process's end. Locked. */
extern struct cds_list_head urxe_cma_ids;

/* ---- agent.c: the GSI of a device ---- */

/** urxe_agent_get - the device's agent, started. Locked. 0 or errno. */
int urxe_agent_get(struct urxe_cma_dev *dev, struct urxe_agent **agent);
struct urxe_cm *urxe_agent_cm(struct urxe_agent *agent);
/** urxe_agent_resolve - have urxe_cma_resolve_done() called when @id's neighbour is known. Locked.
 */
void urxe_agent_resolve(struct urxe_agent *agent, struct urxe_cma_id *id);
void urxe_agent_resolve_cancel(struct urxe_cma_id *id);
/** urxe_agent_kick - timers may have become earlier. Locked. */
void urxe_agent_kick(struct urxe_agent *agent);
/** urxe_agent_own_gid - index of an own GID, or -1. Locked. */
int urxe_agent_own_gid(const struct urxe_cma_dev *dev, const union ibv_gid *gid);
/** urxe_agent_readdress - own addresses have come or gone. Locked. */
void urxe_agent_readdress(struct urxe_agent *agent);
/** What an agent itself lost of MADs. */
struct urxe_agent_drops {
	uint64_t received;  /* broken, or not ours */
	uint64_t sent;	    /* no room, or no way to the peer */
	uint64_t strangers; /* from an address that no neighbour has */
};
void urxe_agent_get_drops(const struct urxe_agent *agent, struct urxe_agent_drops *drops);
/** urxe_agent_stop - say goodbye to all peers and free everything. Not locked; at exit. */
void urxe_agent_stop(struct urxe_cma_dev *dev);

/* ---- readdress.c: addresses that come and go, `urxe ip` ---- */

/**
 * urxe_cma_readdress - add an own address to a device or remove it, and tell the ids bound to it
 * (ADDR_CHANGE). Locked. urxe_gsi_addr()'s errno, ENODEV when the device is lost.
 */
int urxe_cma_readdress(struct urxe_cma_dev *dev, bool add, const union ibv_gid *gid,
		       unsigned prefix_len);
/** urxe_cma_ip_list - the devices and their addresses, a line each, as cm/report_path.h says.
 * Locked. */
void urxe_cma_ip_list(FILE *out, const char *command);
/** urxe_cma_ip_change - what `urxe ip` asks for, in words of cm/report_path.h; says how it went.
 * Locked. */
void urxe_cma_ip_change(FILE *out, const char *line);

/* ---- report.c: what `urxe status --cm` is told ---- */

/** urxe_report_start - be there for who asks; once a process. Locked. Failure is only logged. */
void urxe_report_start(void);
/** urxe_report_stop - the process ends, or is a child of the one that started it. */
void urxe_report_stop(bool child);
/** urxe_report_log - an agent's counters, as a log line (info). Locked, or at exit. */
void urxe_report_log(const struct urxe_cma_dev *dev);

/* ---- channel.c ---- */

struct urxe_cma_channel *urxe_cma_channel_create(void);
void urxe_cma_channel_free(struct urxe_cma_channel *ch);
/** urxe_cma_event_new - NULL when out of memory. */
struct urxe_cma_event *urxe_cma_event_new(struct urxe_cma_id *id, enum rdma_cm_event_type type,
					  int status);
/** urxe_cma_event_data - private data of the event: a copy. */
void urxe_cma_event_data(struct urxe_cma_event *ev, const void **data, uint8_t *data_len,
			 const void *src, uint8_t len);
/** urxe_cma_event_post - queue it on its owner's channel. Locked. */
void urxe_cma_event_post(struct urxe_cma_event *ev);
/** urxe_cma_tell - an event without parameters. Locked. */
void urxe_cma_tell(struct urxe_cma_id *id, enum rdma_cm_event_type type, int status);
/** urxe_cma_events_move - pending events of @id go to another channel. Locked. */
void urxe_cma_events_move(struct urxe_cma_id *id, struct urxe_cma_channel *to);
/** urxe_cma_events_purge - forget pending events of @id; requests among them are put in @orphans.
 */
void urxe_cma_events_purge(struct urxe_cma_id *id, struct cds_list_head *orphans);
/** urxe_cma_events_purge_mcast - forget pending events of a multicast group. Locked. */
void urxe_cma_events_purge_mcast(const struct urxe_cma_mcast *mc);
/** urxe_cma_wait - wait until a number of events is 0; gives the lock away meanwhile. Locked. */
void urxe_cma_wait(const unsigned *events_out);
/** urxe_cma_complete - a synchronous id waits for its next event and keeps it. Not locked. */
int urxe_cma_complete(struct rdma_cm_id *id);

/* ---- addr.c ---- */

/** urxe_cma_addr_len - of an AF_INET, AF_INET6 or AF_IB address; 0 for others and NULL. */
socklen_t urxe_cma_addr_len(const struct sockaddr *sa);
void urxe_cma_addr_gid(const struct sockaddr *sa, union ibv_gid *gid);
void urxe_cma_gid_addr(const union ibv_gid *gid, int family, uint16_t port, struct sockaddr *sa);
uint16_t urxe_cma_addr_port(const struct sockaddr *sa); /* host order */
void urxe_cma_addr_set_port(struct sockaddr *sa, uint16_t port);
/** urxe_cma_addr_v4 - IPv4, be it mapped into IPv6? */
bool urxe_cma_addr_v4(const struct sockaddr *sa);
bool urxe_cma_addr_ib(const struct sockaddr *sa);
/** urxe_cma_addr_mix - are they of families that cannot be an id's two addresses? */
bool urxe_cma_addr_mix(const struct sockaddr *a, const struct sockaddr *b);
/**
 * urxe_cma_addr_ib_space - the port space that an own AF_IB address means
 * @ps: the id's, RDMA_PS_IB may be any
 *
 * Its service id, as far as the mask says, must be that of a port space, and gets it in full.
 * 0, or EPROTONOSUPPORT: of none.
 */
int urxe_cma_addr_ib_space(struct sockaddr *sa, enum rdma_port_space ps,
			   enum rdma_port_space *space);
bool urxe_cma_addr_any(const struct sockaddr *sa);
bool urxe_cma_addr_loopback(const struct sockaddr *sa);
bool urxe_cma_addr_mcast(const struct sockaddr *sa);

/* ---- id.c ---- */

struct urxe_cma_id *urxe_cma_id_new(struct urxe_cma_channel *ch, void *context,
				    enum rdma_port_space ps, enum ibv_qp_type qp_type);
/** urxe_cma_id_end - take it out of everything; what is left is memory. Locked. */
void urxe_cma_id_end(struct urxe_cma_id *id, struct cds_list_head *orphans);
void urxe_cma_id_free(struct urxe_cma_id *id);
/** urxe_cma_device_lost - all ids on the device get DEVICE_REMOVAL. Locked. */
void urxe_cma_device_lost(struct urxe_cma_dev *dev);
/** urxe_cma_attach - bind the id to a device. Locked. */
void urxe_cma_attach(struct urxe_cma_id *id, struct urxe_cma_dev *dev);
int urxe_cma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		       enum rdma_port_space ps, enum ibv_qp_type qp_type);

/* ---- bind.c ---- */

/** urxe_cma_bind - bind to an address (wildcard allowed) and port (0: ephemeral). Locked. */
int urxe_cma_bind(struct urxe_cma_id *id, const struct sockaddr *addr);
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
int urxe_cma_claim_port(struct urxe_cma_id *id, const union ibv_gid *gid);
void urxe_cma_release_port(struct urxe_cma_id *id);
/** urxe_cma_reuse_port - id->reuse has changed: others may, or may not, share its number. Locked.
 */
void urxe_cma_reuse_port(struct urxe_cma_id *id);

/* ---- resolve.c ---- */

/** urxe_cma_resolve_done - the neighbour is known (0), or will not be (errno). Locked. */
void urxe_cma_resolve_done(struct urxe_cma_id *id, int err);
/** urxe_cma_set_path_rec - id->route.path_rec of the path as it stands. Locked. */
int urxe_cma_set_path_rec(struct urxe_cma_id *id);
uint32_t urxe_cma_flow_label(const struct urxe_cma_id *id);

/* ---- listen.c ---- */

void urxe_cma_unlisten(struct urxe_cma_id *id);
int urxe_cma_request_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context);
/** urxe_cma_say_ready - make $URXE_READY_FILE, for those who start us and wait until we hear. */
void urxe_cma_say_ready(void);

/* ---- backlog.c ---- */

/** urxe_cma_backlog_init - for an id that is about to listen. 0 or ENOMEM. */
int urxe_cma_backlog_init(struct urxe_cma_id *listener);
/** urxe_cma_backlog_full - is there room for one more request, of @sender's? Locked. */
bool urxe_cma_backlog_full(const struct urxe_cma_id *listener, const union ibv_gid *sender);
/** urxe_cma_backlog_owed - owes the sender of this REQ so many RTUs that it has to wait? Locked. */
bool urxe_cma_backlog_owed(const struct urxe_cma_id *listener, const struct urxe_cm_id *cm);
/** urxe_cma_backlog_count - request @child became pending (1), or was taken (-1). Locked. */
void urxe_cma_backlog_count(struct urxe_cma_id *listener, const struct urxe_cma_id *child, int n);
/** urxe_cma_backlog_refuses - is a REQ for a full listener rejected, or passed over? Locked. */
bool urxe_cma_backlog_refuses(struct urxe_cma_dev *dev, const struct urxe_cm_id *cm);

/* ---- conn.c ---- */

/**
 * urxe_cma_event_conn - parameters of a REQ or REP in the event of its id
 * @skip: bytes of private data that are not the application's
 *
 * As seen from here: what the peer can answer is what we may ask, and the other way. Locked.
 */
void urxe_cma_event_conn(struct urxe_cma_event *e, const struct urxe_cm_conn *c, uint8_t skip);
int urxe_cma_conn_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context);
/** urxe_cma_hdr_len - of the RDMA IP CM header (A11.4.3); 0: AF_IB ids have none. */
uint8_t urxe_cma_hdr_len(const struct urxe_cma_id *id);
/**
 * urxe_cma_put_private - header, data of rdma_create_ep() and the application's, for a REQ
 * @room: bytes at @out, with the header
 *
 * 0, or EINVAL when they are more. Locked.
 */
int urxe_cma_put_private(const struct urxe_cma_id *id, const struct rdma_conn_param *p,
			 unsigned room, uint8_t *out, uint8_t *out_len);
/** urxe_cma_path - the path as it goes to the IB CM. Locked. */
void urxe_cma_path(const struct urxe_cma_id *id, struct urxe_cm_path *path);

/* ---- mcast.c ---- */

/** urxe_cma_mcast_taken - the application takes a group's event: attach the QP. Locked. */
void urxe_cma_mcast_taken(struct urxe_cma_event *ev);
/** urxe_cma_mcast_lost - MULTICAST_ERROR for all groups of the id. Locked. */
void urxe_cma_mcast_lost(struct urxe_cma_id *id, int err);
/** urxe_cma_mcast_detach_all - the id's QP leaves its groups, and is about to go. Locked. */
void urxe_cma_mcast_detach_all(struct urxe_cma_id *id);
/** urxe_cma_mcast_end - free the groups; none of their events is left. */
void urxe_cma_mcast_end(struct urxe_cma_id *id);

/* ---- sidr.c: RDMA_PS_UDP ---- */

int urxe_cma_sidr_connect(struct urxe_cma_id *id, const struct rdma_conn_param *param);
int urxe_cma_sidr_accept(struct urxe_cma_id *id, const struct rdma_conn_param *param);
int urxe_cma_sidr_reject(struct urxe_cma_id *id, const void *data, uint8_t len);
int urxe_cma_sidr_request(struct urxe_cma_id *id, struct urxe_cma_event *event,
			  const struct urxe_cm_event *ev);

/* ---- qp.c ---- */

/** urxe_cma_qp_to_rts - the QP on the id, if any, to RTR and RTS. Locked. */
int urxe_cma_qp_to_rts(struct urxe_cma_id *id);
/** urxe_cma_qp_load_alternate - the path of a LAP, to the QP on the id. Locked. EOPNOTSUPP: none.
 */
int urxe_cma_qp_load_alternate(struct urxe_cma_id *id);
/** urxe_cma_qp_to_err - the QP on the id, if any, to ERR. Locked. */
int urxe_cma_qp_to_err(struct urxe_cma_id *id);
int urxe_cma_init_qp_attr(struct urxe_cma_id *id, struct ibv_qp_attr *attr, int *mask);

#endif
