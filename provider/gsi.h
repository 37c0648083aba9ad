/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the connection manager needs of the provider beyond verbs: QP1 (the GSI), a place
 * to run, time, and numbers. Exported by liburxe-rdmav34.so for our librdmacm.so.1 only.
 *
 * QP1 is a UD QP like any other (ibv_post_send with an AH, Q_Key 0x80010000, ibv_poll_cq on its
 * CQ), but for its number.
 */
#ifndef URXE_PROVIDER_GSI_H
#define URXE_PROVIDER_GSI_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "urxe/mad.h"

struct urxe_cm_settings;
struct urxe_ident;

#pragma GCC visibility push(default)

/** The service that runs on a device's own service thread, or on a caller that drives. */
struct urxe_gsi_service {
	/**
	 * poll: QP1 has received, svc->next has come, or urxe_gsi_wake() was called
	 * @now: urxe_gsi_now()
	 *
	 * Runs on one thread at a time: the device's service thread, or one in urxe_gsi_drive().
	 * No lock of the provider is held: it may call any verb. It must not block for long: this
	 * thread also serves one-sided traffic.
	 */
	void (*poll)(void *arg, uint64_t now);
	void *arg;
	/**
	 * When poll is to run at the latest; UINT64_MAX: never. The owner's to write, under one
	 * lock of its own. After it was made earlier outside of poll, urxe_gsi_by() is called.
	 */
	_Atomic uint64_t next;
};

/**
 * urxe_gsi_start - start the device, which takes half a second where EAL has to start
 * @done: called on a thread of its own with 0, or the errno of a failed start; no lock is held
 *
 * 0: it has started; EINPROGRESS: @done will be called; else an errno, of a failed start or
 * pthread_create(). A device without threads of its own starts in the call. The process must not
 * fork or unload us meanwhile.
 */
int urxe_gsi_start(struct ibv_context *ctx, void (*done)(void *arg, int err), void *arg);

/**
 * urxe_gsi_create_qp - QP1 of the device of @pd's context, in RESET
 *
 * Starts the port. One a device and process: NULL and errno EBUSY for a second, else as
 * ibv_create_qp (attr->qp_type is taken as UD). Bring it up with ibv_modify_qp as a UD QP and
 * Q_Key URXE_GSI_QKEY. Destroy with ibv_destroy_qp.
 */
struct ibv_qp *urxe_gsi_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);

/**
 * urxe_gsi_poll_cq - ibv_poll_cq() that does not drive the device when the CQ is empty
 *
 * It is for use within poll: a turn there would receive MADs that nobody has room for, and count
 * as one of a caller.
 */
int urxe_gsi_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);

/**
 * urxe_gsi_set_service - have @svc run; NULL takes it away
 *
 * Returns 0, EBUSY when there is another. After taking it away, poll is not running any more
 * (do not call from within poll, nor with a lock held that poll takes).
 */
int urxe_gsi_set_service(struct ibv_context *ctx, struct urxe_gsi_service *svc);

/** urxe_gsi_wake - have poll run soon. Thread-safe, cheap when it is due already. */
void urxe_gsi_wake(struct ibv_context *ctx);

/** urxe_gsi_by - have poll run by @when: svc->next became earlier. Thread-safe. */
void urxe_gsi_by(struct ibv_context *ctx, uint64_t when);

/**
 * urxe_gsi_drive_begin, _drive, _drive_end - a caller that waits for something
 * of the CM drives the device, for a short time, instead of sleeping until the service thread
 * has done so
 *
 * Between begin and end, which come in pairs, completions of QP1 do not wake the service thread.
 * urxe_gsi_drive() takes one turn: it receives and sends, and runs poll when that is due. Returns
 * how much it found to do, 0 for nothing, -1 when the device is dead or another thread drives.
 * @sleeps: the caller goes to sleep now: the service thread is to look often for a while, and then
 * to have the link wake it.
 * The caller holds no lock that poll takes; no thread may be cancelled in these.
 */
void urxe_gsi_drive_begin(struct ibv_context *ctx);
int urxe_gsi_drive(struct ibv_context *ctx);
void urxe_gsi_drive_end(struct ibv_context *ctx, bool sleeps);

/** Somebody reports, by ICMP, that a MAD of ours does not reach its destination. */
struct urxe_gsi_error {
	int err;		  /* as struct urxe_path_error's */
	union ibv_gid from;	  /* the one that reports it */
	union ibv_gid sgid, dgid; /* of the packet */
	uint32_t len;		  /* bytes of the MAD that are quoted and kept; may be 0 */
	uint8_t mad[64];
};

/**
 * urxe_gsi_take_error - the next of these; false: there is none
 *
 * poll is run when one comes. The packet's addresses and UDP ports are those of an AH that is or
 * was just used; they can be guessed: believe what names a MAD that waits for its answer.
 * Thread-safe.
 */
bool urxe_gsi_take_error(struct ibv_context *ctx, struct urxe_gsi_error *e);

/** urxe_gsi_path_mtu - enum ibv_mtu of the way to a destination. */
uint8_t urxe_gsi_path_mtu(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid);
/** urxe_gsi_far - does an address lead to others than the processes on the device's link, whose
 * comm ids say nothing of where they are? */
bool urxe_gsi_far(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid);

/**
 * urxe_gsi_take_gone - which processes on the device's link died since it was last asked
 * @slots: out: a bit for each slot (urxe_ident_comm_id_slot()) that is empty now
 *
 * False: none. poll is run when one dies. Thread-safe.
 */
bool urxe_gsi_take_gone(struct ibv_context *ctx, uint64_t slots[4]);

/** urxe_gsi_shared - may other processes have the device's addresses? Then their listeners get
 * REQs that nobody listens to here. */
bool urxe_gsi_shared(struct ibv_context *ctx);

/** urxe_gsi_gids_news - changes whenever an own address comes or goes; poll is run then.
 * Thread-safe. */
unsigned urxe_gsi_gids_news(struct ibv_context *ctx);

/** urxe_gsi_look - take over what has changed of the host's addresses, where the device has those.
 * As urxe_gsi_addr(); cheap when nothing has. */
void urxe_gsi_look(struct ibv_context *ctx);

/** urxe_gsi_scope - the interface of a link-local own address (sin6_scope_id), or 0. Thread-safe.
 */
uint32_t urxe_gsi_scope(struct ibv_context *ctx, const union ibv_gid *gid);

/** urxe_gsi_lost - has the port died? poll is run when it does. Thread-safe. */
bool urxe_gsi_lost(struct ibv_context *ctx);

/** urxe_gsi_now - the device's clock, ns (virtual on a simulated link). Thread-safe. */
uint64_t urxe_gsi_now(struct ibv_context *ctx);

/** urxe_gsi_random - 64 random bits. Thread-safe. */
uint64_t urxe_gsi_random(struct ibv_context *ctx);

/** urxe_gsi_waits - do MADs that were sent wait in this process, for the way to a peer to be made?
 * Turns (urxe_gsi_drive()) send them. Thread-safe. */
bool urxe_gsi_waits(struct ibv_context *ctx);

/** urxe_gsi_ident - allotment of comm ids and RDMA ports on this device (netio/identity.h). */
struct urxe_ident *urxe_gsi_ident(struct ibv_context *ctx);

/**
 * urxe_gsi_route - own address (GID index) for a destination, as urxe_port_route()
 * @next: out: the destination GID for the wire (an own GID for loopback addresses)
 *
 * 0 or ENETUNREACH. Does not start the port. Thread-safe.
 */
int urxe_gsi_route(struct ibv_context *ctx, const union ibv_gid *dgid, unsigned *sgid_index,
		   union ibv_gid *next);

/**
 * urxe_gsi_awaits_carrier - the link is not up, and has not been waited for long enough yet
 *
 * Who asks waits: ten seconds for a link that was never up, two for one that went down; and a card
 * whose link came up for the first time has three more, until somebody was
 * reached. Needs a started port (urxe_gsi_resolve() has returned EINPROGRESS). Thread-safe.
 */
bool urxe_gsi_awaits_carrier(struct ibv_context *ctx);

/**
 * urxe_gsi_resolve - L2 address of a destination; starts the port and the resolution
 *
 * 0, EINPROGRESS (ask again: poll is run when a neighbour changes), EHOSTUNREACH, ENETUNREACH, or
 * the errno of a failed start. Not from within a lane's lock.
 */
int urxe_gsi_resolve(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid,
		     uint8_t dmac[6]);

/** urxe_gsi_known - is a destination's L2 address known? Asks nobody. Thread-safe. */
bool urxe_gsi_known(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid);

/**
 * urxe_gsi_suspect - a destination that is known does not answer: ask everybody for its L2 address
 *
 * As urxe_path_suspect(). Not from within a lane's lock.
 */
void urxe_gsi_suspect(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid);

/** urxe_gsi_quiet_ns - ns since a packet to one of our connected QPs last came from @dgid;
 * UINT64_MAX: none has come. Thread-safe. */
uint64_t urxe_gsi_quiet_ns(struct ibv_context *ctx, const union ibv_gid *dgid);

/** urxe_gsi_ask - one question for the L2 address that a stranger says is his, as urxe_port_ask().
 */
void urxe_gsi_ask(struct ibv_context *ctx, unsigned sgid_index, const union ibv_gid *dgid);

/** urxe_gsi_neigh_news - changes whenever an L2 address becomes known. Thread-safe. */
unsigned urxe_gsi_neigh_news(struct ibv_context *ctx);

/** urxe_gsi_prefix - prefix length (0..32 or 0..128) of the own address at a GID index; -1 if none.
 */
int urxe_gsi_prefix(struct ibv_context *ctx, unsigned sgid_index);

/** urxe_gsi_gid - own GID at an index: 0, ENODATA for an empty slot, EINVAL beyond the table. */
int urxe_gsi_gid(struct ibv_context *ctx, unsigned sgid_index, union ibv_gid *gid);
/** urxe_gsi_gid_find - index of an own GID, or -1. Thread-safe. */
int urxe_gsi_gid_find(struct ibv_context *ctx, const union ibv_gid *gid);

/**
 * urxe_gsi_addr - the device gets one more own address, or loses one
 *
 * As urxe_port_addr_add() and urxe_port_addr_del(). All contexts get IBV_EVENT_GID_CHANGE. Also
 * EIO: the device is dead; EOPNOTSUPP: its addresses are the host's. Thread-safe; not from within
 * poll.
 */
int urxe_gsi_addr(struct ibv_context *ctx, bool add, const union ibv_gid *gid, unsigned prefix_len);

/** urxe_gsi_free - urxe_free(), which knows the threads of the provider: poll runs on one. */
void urxe_gsi_free(void *block);

/** urxe_gsi_cm_settings - what the device's configuration says of the CM. As long as the device. */
const struct urxe_cm_settings *urxe_gsi_cm_settings(struct ibv_context *ctx);

/** urxe_gsi_log_level - the configured enum urxe_log_level, for the CM's own log lines. */
int urxe_gsi_log_level(void);

#pragma GCC visibility pop

#endif
