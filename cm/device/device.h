/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices of this process as rdma_cm and ib_cm share them: the lock, an agent on QP1 with an IB
 * CM for each device, and the answers to `urxe status --cm` and `urxe ip`.
 *
 * One lock (urxe_cma_lock) guards all of it: devices, agents with their IB CMs, ids, channels.
 * It is never held while waiting; verbs are called under it (the provider calls nothing of ours
 * with a lock held but the agent's poll, which takes it first). Functions marked "locked" want it
 * held. They return 0 or a positive errno.
 */
#ifndef URXE_CM_DEVICE_DEVICE_H
#define URXE_CM_DEVICE_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <urcu/list.h>

#include "cm/core/cm.h"
#include "urxe/lock.h"

#define URXE_CMA_MAX_DEVICES 16
#define URXE_CMA_MAX_GIDS    32 /* that a device has at most */
#define URXE_REPORT_ADDR_LEN 64 /* of an address and a port number */
#define URXE_CMA_API	     __attribute__((visibility("default")))

struct urxe_agent;
struct urxe_cma_listening;
struct urxe_json;
struct urxe_report;

/** A urxe device of this process, open while the library is loaded. */
struct urxe_cma_dev {
	struct ibv_device *device;
	struct ibv_context *verbs;
	struct ibv_pd *pd;     /* id->pd where the application gave none */
	struct ibv_xrcd *xrcd; /* likewise, of XRC SRQs and QPs; NULL until needed */
	struct ibv_device_attr attr;
	struct urxe_agent *agent;	      /* NULL until the CM is first needed */
	struct urxe_cma_listening *listening; /* rdma_cm's; NULL before its first listener */
	unsigned index;
	bool lost;	    /* its port is gone, and the client knows */
	unsigned gids_news; /* urxe_gsi_gids_news() when gids was read */
	union ibv_gid gids[URXE_CMA_MAX_GIDS];
	bool starting;		       /* in the background */
	struct cds_list_head starters; /* queries that wait for that */
};

/** A neighbour that an id waits for. */
struct urxe_agent_query {
	uint8_t sgid_index; /* by which own address */
	union ibv_gid dgid;
	uint64_t patience; /* ns to wait for the neighbour, from when the link is up */
	/* 0: it is known; ETIMEDOUT, or another errno, also of a failed start. Locked. */
	void (*done)(struct urxe_agent_query *q, int err);
	/* private: */
	struct cds_list_head entry;
	uint64_t deadline; /* urxe_gsi_now() */
	bool waits;
};

/** What the owner of ids on the devices does when something happens to these. All locked. */
struct urxe_device_client {
	/** The device's port is gone for good. */
	void (*lost)(struct urxe_cma_dev *dev);
	/** An own address has come (@add) or gone; the agent knows. */
	void (*readdressed)(struct urxe_cma_dev *dev, bool add, const union ibv_gid *gid);
	/** Put a row for each of its ids. */
	void (*report)(struct urxe_report *r);
	/** Is an IB CM's id with this handler one of its own? */
	bool (*owns)(urxe_cm_handler handler);
};

/* ---- lib.c ---- */

extern struct urxe_mutex urxe_cma_lock;
/** urxe_cma_hold, urxe_cma_release - take and give the lock; no thread is cancelled in between.
 * Timers of the CMs that were set in between run when they are due. */
void urxe_cma_hold(void) URXE_ACQUIRE(urxe_cma_lock);
void urxe_cma_release(void) URXE_RELEASE(urxe_cma_lock);
/** urxe_cma_await - give it, wait for @cond, till @until (CLOCK_REALTIME) unless that is NULL, take
 * it again. True: that time has come. Wakes up for no reason, too. Locked. */
bool urxe_cma_await(pthread_cond_t *cond, const struct timespec *until)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_hold_at_exit - the same while the process ends, when who holds it may be no more: false
 * if it is not to be had in 200 ms. */
bool urxe_cma_hold_at_exit(void) URXE_TRY_ACQUIRE(true, urxe_cma_lock);
/**
 * urxe_cma_enter - take the lock, with the devices known
 *
 * 0, or an errno without the lock: ENODEV when no urxe device is configured, and when the process
 * is exiting.
 */
int urxe_cma_enter(void) URXE_TRY_ACQUIRE(0, urxe_cma_lock);
/**
 * urxe_cma_life - how often this process, or one that it was forked from, became a child after the
 * CM had started. What was made in another life is the parent's. Locked.
 */
unsigned urxe_cma_life(void) URXE_REQUIRES(urxe_cma_lock);
#define URXE_CMA_MAX_CHILDREN 2 /* rdma_cm, ib_cm */
/**
 * urxe_cma_on_child - have @fn called, locked, in forked children: nobody waits for anything there
 *
 * @begun: and another life begins, see urxe_cma_life(). Once more does nothing. Locked.
 */
void urxe_cma_on_child(void (*fn)(bool begun)) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_leave - give what urxe_cma_enter() took. */
void urxe_cma_leave(void) URXE_RELEASE(urxe_cma_lock);
/** urxe_cma_num_devices - how many devices there are. Locked. */
unsigned urxe_cma_num_devices(void) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_device_peek - device by index, opened or not; NULL beyond the last. Locked. */
struct urxe_cma_dev *urxe_cma_device_peek(unsigned i) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_device - device by index, opened. Locked. NULL and *err when it cannot be opened. */
struct urxe_cma_dev *urxe_cma_device(unsigned i, int *err) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_xrcd - the device's own XRC domain. NULL and *err when it cannot be opened. */
struct ibv_xrcd *urxe_cma_xrcd(struct urxe_cma_dev *dev, int *err) URXE_EXCLUDES(urxe_cma_lock);
/** Devices with an agent, for a thread that drives them while it waits. */
struct urxe_cma_drive {
	struct ibv_context *verbs[URXE_CMA_MAX_DEVICES];
	unsigned n;
};

/** urxe_cma_drive_begin - the calling thread takes turns from now on (drives). Locked. */
void urxe_cma_drive_begin(struct urxe_cma_drive *d) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_drive_turn - one turn of each device; true if there was something to do. Not locked. */
bool urxe_cma_drive_turn(const struct urxe_cma_drive *d) URXE_EXCLUDES(urxe_cma_lock);
/** urxe_cma_drive_end - the thread drives no more; @sleeps: because it goes to sleep. */
void urxe_cma_drive_end(const struct urxe_cma_drive *d, bool sleeps);

/** urxe_cma_device_of - the device of an application's context; ENODEV when it is not ours. Locked.
 */
struct urxe_cma_dev *urxe_cma_device_of(const struct ibv_context *ctx, int *err)
	URXE_REQUIRES(urxe_cma_lock);
/**
 * urxe_cma_set_client - call the functions of @client for all devices from now on. Locked.
 *
 * To be called before its first id. There is one client: rdma_cm. (ib_cm learns by its calls.)
 */
void urxe_cma_set_client(const struct urxe_device_client *client) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_get_client - it, or NULL: no id of its own so far. Locked. */
const struct urxe_device_client *urxe_cma_get_client(void) URXE_REQUIRES(urxe_cma_lock);
/**
 * urxe_cma_start_begin, urxe_cma_start_end - around the start of a device in the background
 *
 * Neither fork() nor the end of the process comes in between. Locked. The end returns ECANCELED
 * when the process ends and nothing more is to be begun.
 */
void urxe_cma_start_begin(void) URXE_REQUIRES(urxe_cma_lock);
int urxe_cma_start_end(void) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_say_ready - make $URXE_READY_FILE, for scripts that start a server and wait for it. */
void urxe_cma_say_ready(void);

/* ---- agent.c: the GSI of a device ---- */

/** urxe_agent_get - the device's agent, started. Locked. 0 or errno. */
int urxe_agent_get(struct urxe_cma_dev *dev, struct urxe_agent **agent)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_cm - its IB CM, whose calls need the lock. As long as the agent lives. */
struct urxe_cm *urxe_agent_cm(struct urxe_agent *agent);
/**
 * urxe_agent_resolve - have @q->done called when the neighbour is known, maybe at once. Locked.
 *
 * @q, with all but its private fields set, stays until then, or until it is cancelled. The device
 * and its agent are started if need be, in the background. Returns 0, or the errno of a start that
 * could not be begun; then @q->done is not called.
 */
int urxe_agent_resolve(struct urxe_cma_dev *dev, struct urxe_agent_query *q)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_resolve_cancel - it need not be under way. Locked. */
void urxe_agent_resolve_cancel(struct urxe_agent_query *q) URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_kick - timers of its CM may have become earlier. Locked. */
void urxe_agent_kick(struct urxe_agent *agent) URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_own_gid - index of an own GID, or -1. Locked. */
int urxe_agent_own_gid(const struct urxe_cma_dev *dev, const union ibv_gid *gid)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_readdress - own addresses have come or gone. Locked. */
void urxe_agent_readdress(struct urxe_agent *agent) URXE_REQUIRES(urxe_cma_lock);
/** What an agent itself lost of MADs. */
struct urxe_agent_drops {
	uint64_t received;  /* broken, or not ours */
	uint64_t sent;	    /* no room, or no way to the peer */
	uint64_t strangers; /* from an address that no neighbour has */
};
/** urxe_agent_get_drops - as counted so far. Locked. */
void urxe_agent_get_drops(const struct urxe_agent *agent, struct urxe_agent_drops *drops)
	URXE_REQUIRES(urxe_cma_lock);
/** urxe_agent_part - disconnect all peers; false: there is no agent. Not locked; at exit. From now
 * on the agent has its turns by urxe_agent_parting() alone. */
bool urxe_agent_part(struct urxe_cma_dev *dev) URXE_EXCLUDES(urxe_cma_lock);
/** What keeps the process from ending: MADs that have not left, or peers that have not answered. */
enum urxe_agent_parting {
	URXE_AGENT_PARTED,
	URXE_AGENT_SENDING,
	URXE_AGENT_PARTING
};
/** urxe_agent_parting - a turn after urxe_agent_part(): MADs are sent, again if it is time, and
 * received. Not locked. */
enum urxe_agent_parting urxe_agent_parting(struct urxe_cma_dev *dev) URXE_EXCLUDES(urxe_cma_lock);
/** urxe_agent_stop - both, for half a second at most. Not locked; at exit. The agent stays where it
 * is: other threads may be in the midst of a call, and know it. */
void urxe_agent_stop(struct urxe_cma_dev *dev) URXE_EXCLUDES(urxe_cma_lock);
/** urxe_agent_free - free all of a stopped agent, which no other thread knows. Locked. Tests, where
 * the process goes on. */
void urxe_agent_free(struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock);

/* ---- readdress.c: addresses that come and go, `urxe ip` ---- */

/** urxe_cma_read_gids - own addresses of a device just opened. Locked. */
void urxe_cma_read_gids(struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_look - the host may have got an address that the device has not taken over so far.
 * Locked. */
void urxe_cma_look(struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_follow_gids - those that have come or gone since: agent and client are told. Locked. */
void urxe_cma_follow_gids(struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock);

/** urxe_cma_ip_list - the devices and their addresses: a member of an object. Locked. */
void urxe_cma_ip_list(struct urxe_json *j) URXE_REQUIRES(urxe_cma_lock);
/** urxe_cma_ip_change - add an address or remove it; @args as provider/status_path.h says. NULL, or
 * what is wrong. Locked. */
const char *urxe_cma_ip_change(bool add, const char *args) URXE_REQUIRES(urxe_cma_lock);

/* ---- report.c: the answer to `urxe status --cm` ---- */

/** A row of the reply: an id, of whichever kind. */
struct urxe_report_row {
	const char *kind, *state, *last_event;
	const struct urxe_cma_dev *dev; /* NULL: none */
	char local[URXE_REPORT_ADDR_LEN], peer[URXE_REPORT_ADDR_LEN];
	struct urxe_cm_info cm; /* what is not known is 0 */
	unsigned unacked;	/* events that were taken and not acked */
};

/** urxe_report_put - one row more. */
void urxe_report_put(struct urxe_report *r, const struct urxe_report_row *row);
/** urxe_report_start - answer `urxe status --cm` and `urxe ip` from now on. Locked. */
void urxe_report_start(void) URXE_REQUIRES(urxe_cma_lock);
/** urxe_report_log - an agent's counters, as a log line (info). Locked. */
void urxe_report_log(const struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock);

#endif
