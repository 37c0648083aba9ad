/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The local fabric's control plane: which processes are on it, where addresses are, who has which
 * RDMA port. A struct urxe_fabric is one membership; a process may have several. Its members share
 * a table, which is a sealed memfd that each hands to who joins; any of them may write rubbish into
 * it, so whatever is read there is bounded here. The data plane's rings (fabric_ring.h) are not
 * in the table: only the bells are.
 *
 * All calls are thread-safe unless said otherwise. None waits for another process but
 * urxe_fabric_join() and urxe_fabric_observe(), which end by themselves. In a forked child an
 * object of the parent's does nothing: calls return ENODEV, 0 or false.
 *
 * GIDs are 16 bytes in network order, IPv4 as ::ffff:a.b.c.d. Errors are errno values, positive.
 */
#ifndef URXE_NETIO_FABRIC_H
#define URXE_NETIO_FABRIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netio/identity.h"

struct urxe_fabric;

#define URXE_FABRIC_SLOTS 256 /* for tables by slot; members have 1..254 */
#define URXE_FABRIC_FIRST 1
#define URXE_FABRIC_LAST  254
#define URXE_FABRIC_GIDS  32 /* addresses a member has at most */
#define URXE_FABRIC_WORDS 6  /* of the data plane's, in a request and in its answer */
#define URXE_FABRIC_GROUPS                                                     \
	48 /* groups of a member by name; with more it gets all groups' frames \
	    */

/** What a fabric is named by: the key `port` = fabric[,name=NAME][,dir=DIR]. */
struct urxe_fabric_spec {
	char name[33];	/* "" for "default"; letters, digits, . _ - */
	char dir[4096]; /* "" for the default folder of this user, network namespace and name */
};

/**
 * urxe_fabric_spec_parse - what the configuration's key `port` says
 *
 * 0; ENOENT: it does not begin with "fabric"; EINVAL, with a line in @err.
 */
int urxe_fabric_spec_parse(const char *port, struct urxe_fabric_spec *spec, char *err,
			   size_t errlen);

/** urxe_fabric_spec_dir - the folder that is meant, made absolute. 0, or ENAMETOOLONG. */
int urxe_fabric_spec_dir(const struct urxe_fabric_spec *spec, char *dir, size_t len);

/* ---- hooks: what the data plane and the layers above do when something happens ---- */

/** A request to a member and its answer: for making a ring, or another one, or whatever else the
 * data plane's two ends must agree on. The control plane looks at none of it. */
struct urxe_fabric_words {
	uint64_t w[URXE_FABRIC_WORDS];
	int fd; /* passed along; -1: none */
};

/**
 * Called by the member's own thread, one at a time, with no lock of the fabric held. They may call
 * anything here but urxe_fabric_put(), must not wait for another process, and have no thread-local
 * variables. Any may be NULL.
 */
struct urxe_fabric_hooks {
	/**
	 * asking: our urxe_fabric_ask() goes out to @incarnation of member @slot, with no
	 * descriptor so far. It may fill in words, and a descriptor, which is the caller's from
	 * then on. Once an ask; where that is sent again, the descriptor is not.
	 */
	void (*asking)(void *arg, unsigned slot, uint32_t incarnation,
		       struct urxe_fabric_words *req);
	/**
	 * asked: member @slot asks (its urxe_fabric_ask()). @req->fd, if any, is the hook's to
	 * close. Fill @ans: words, and a descriptor that is passed (it stays the hook's to keep,
	 * and is closed by the caller after sending if *@close_fd). 0, or errno that the asker
	 * gets.
	 */
	int (*asked)(void *arg, unsigned slot, uint32_t incarnation,
		     const struct urxe_fabric_words *req, struct urxe_fabric_words *ans,
		     bool *close_fd);
	/**
	 * answered: what our urxe_fabric_ask() has come to: @err 0 and @ans, with @ans->fd the
	 * hook's to close; or what asked() of the other returned; EHOSTUNREACH: nobody has the
	 * slot; ETIMEDOUT: it does not answer (stopped, perhaps). Exactly once an ask, unless we
	 * leave.
	 */
	void (*answered)(void *arg, unsigned slot, uint32_t incarnation, int err,
			 const struct urxe_fabric_words *ans);
	/**
	 * gone: a member that asked or was asked is no more: it died, or left. Once for each
	 * incarnation. The slot may have a new owner already, of another incarnation. An ask under
	 * way is answered first (EHOSTUNREACH).
	 */
	void (*gone)(void *arg, unsigned slot, uint32_t incarnation);
	/** later: urxe_fabric_call_at() has come. Returns when next (CLOCK_MONOTONIC, ns), or
	 * UINT64_MAX. */
	uint64_t (*later)(void *arg, uint64_t now);
};

/* ---- membership ---- */

/** urxe_fabric_create - a membership to be, with one reference. Touches nothing yet. @node: it has
 * addresses and a MAC of its own; false: it shares the host's. @mac: a node's; NULL: from the
 * table. 0 or ENOMEM. */
int urxe_fabric_create(struct urxe_fabric **f, const struct urxe_fabric_spec *spec, bool node,
		       const uint8_t mac[6]);
/** urxe_fabric_be_gate - before the join of a node: it is the gateway (gate.h), to which others
 * send what goes to addresses that no member has, and what goes to groups. Who makes it so sees to
 * it that there is one (urxe_gate_claim()). */
void urxe_fabric_be_gate(struct urxe_fabric *f);
/** urxe_fabric_spec_of - what @f was created with. */
const struct urxe_fabric_spec *urxe_fabric_spec_of(const struct urxe_fabric *f);
/** urxe_fabric_ref - one more reference. Returns @f. */
struct urxe_fabric *urxe_fabric_ref(struct urxe_fabric *f);
/** urxe_fabric_put - one reference less; with the last one it leaves, and is freed. Never from a
 * hook. @f may be NULL. */
void urxe_fabric_put(struct urxe_fabric *f);

/**
 * urxe_fabric_join - take a slot; does nothing when it has one
 *
 * EPERM: the folder or the members are somebody else's; ENOSPC: all slots are taken; EPROTO: the
 * members have another version of the table; ETIMEDOUT: members are there, and none answers; ENODEV
 * in a child; or the errno of what failed. A log line says which, and may be asked for:
 * urxe_fabric_error(). Needs under 2 ms. It may be tried again.
 */
int urxe_fabric_join(struct urxe_fabric *f);
/** urxe_fabric_error - why the last join or observe failed, one line; "" if it did not. */
void urxe_fabric_error(struct urxe_fabric *f, char *buf, size_t len);

/**
 * urxe_fabric_inherit - in a forked child: what its parent had made, with no link on it, is the
 * child's from now on, as it was before the join
 *
 * Addresses and groups stay. Nothing of the parent's is left or closed; ports that were claimed
 * before the fork are the parent's. Does nothing in the process that made @f. By the child's only
 * thread.
 */
void urxe_fabric_inherit(struct urxe_fabric *f);

/**
 * urxe_fabric_hook - who is told from now on; NULL: nobody
 *
 * When it returns, no hook of the ones before runs any more. Not from a hook. Before it, requests
 * of others are answered EAGAIN (their urxe_fabric_ask() tries again by itself, for a second).
 */
void urxe_fabric_hook(struct urxe_fabric *f, const struct urxe_fabric_hooks *hooks, void *arg);

/** urxe_fabric_ours - is @f of this process, rather than of the one that forked it? A load. */
bool urxe_fabric_ours(const struct urxe_fabric *f);

/** A process, by a word that a fork's child has another number in. */
struct urxe_fabric_process {
	const _Atomic uint64_t *word;
	uint64_t number;
};

/** urxe_fabric_process - the one that @f is of. */
struct urxe_fabric_process urxe_fabric_process(const struct urxe_fabric *f);
/** urxe_fabric_in - is it the calling one? For who asks for each frame. */
static inline bool urxe_fabric_in(const struct urxe_fabric_process *p)
{
	return atomic_load_explicit(p->word, memory_order_relaxed) == p->number;
}
/** urxe_fabric_slot - our slot; 0: not joined, or a child. */
unsigned urxe_fabric_slot(const struct urxe_fabric *f);
/** urxe_fabric_mac - our MAC as the table has it, once joined; false before. */
bool urxe_fabric_mac(const struct urxe_fabric *f, uint8_t mac[6]);

/** urxe_fabric_incarnation - of the member that has @slot now; 0: nobody, or not yet or no longer
 * quite. A load or two. Any @slot. */
uint32_t urxe_fabric_incarnation(const struct urxe_fabric *f, unsigned slot);

/**
 * urxe_fabric_alive - is it still there? Tests the locks, so a death is seen at once.
 *
 * Buries the dead: their slot, ports, services, groups are free when this returns false. A few
 * system calls.
 */
bool urxe_fabric_alive(struct urxe_fabric *f, unsigned slot, uint32_t incarnation);

/* ---- for the data plane ---- */

/** Which members have news for the owner: any member sets, the owner clears. A pair of cache lines
 * of its own. What the words mean is the data plane's; all are 0 when the owner joins. */
struct urxe_fabric_bell {
	_Alignas(128) _Atomic uint64_t from[URXE_FABRIC_SLOTS / 64];
	_Atomic uint32_t asleep;
	_Atomic uint32_t futex;
	_Atomic uint64_t spare[3];
};

/** urxe_fabric_bell - the bell of any slot, 0..255; valid until urxe_fabric_put(). NULL before the
 * join. */
struct urxe_fabric_bell *urxe_fabric_bell(struct urxe_fabric *f, unsigned slot);

/**
 * urxe_fabric_ask - have the member's hook asked() called, and ours answered() with what it says
 *
 * Never waits: our thread does it (a stopped member delays nobody else), so it may be called with
 * a lane held. @req->fd is passed along and stays the caller's; it must be open until answered().
 * 0: answered() will come; EALREADY: one to this slot is under way; EHOSTUNREACH: nobody has it;
 * ENOTCONN: not joined; ENODEV. From then on gone() is called for the member.
 */
int urxe_fabric_ask(struct urxe_fabric *f, unsigned slot, const struct urxe_fabric_words *req);

/** urxe_fabric_call_at - have the hook later() called by our thread at @when (CLOCK_MONOTONIC, ns),
 * or earlier if that was asked before. For rings that are idle. A system call if it is the
 * earliest. */
void urxe_fabric_call_at(struct urxe_fabric *f, uint64_t when);

/* ---- addresses ---- */

/** Where an address is. */
struct urxe_fabric_where {
	uint8_t mac[6];
	unsigned slot;	 /* of the node; 0: it is a host's, shared by its members */
	unsigned domain; /* its port space: equal for members that share their addresses */
	bool ours;	 /* domain is our own */
};

/** urxe_fabric_lookup - who has @gid? Nodes and hosts, ourselves too. 0, or EHOSTUNREACH. Looks
 * through the table: not for each frame; urxe_fabric_addrs_version() says when to look again. */
int urxe_fabric_lookup(const struct urxe_fabric *f, const uint8_t gid[16],
		       struct urxe_fabric_where *where);
/** urxe_fabric_gate - the slot of the gateway, and its MAC; 0: there is none. Looks through the
 * table. */
unsigned urxe_fabric_gate(const struct urxe_fabric *f, uint8_t mac[6]);
/** urxe_fabric_is_gate - is the member @slot the gateway? A few loads. */
bool urxe_fabric_is_gate(const struct urxe_fabric *f, unsigned slot);
/** urxe_fabric_addrs_version - changes when any member's addresses do, or a member comes or goes.
 * A load. */
uint32_t urxe_fabric_addrs_version(const struct urxe_fabric *f);

/**
 * urxe_fabric_addr_set - our addresses: these, instead of those before. May precede the join.
 *
 * 0; E2BIG: more than URXE_FABRIC_GIDS (the first are taken); EADDRINUSE: another domain has one
 * of them (*@other, may be NULL: its slot, or 0 for a host): all are set nevertheless.
 */
int urxe_fabric_addr_set(struct urxe_fabric *f, const uint8_t (*gids)[16], unsigned n,
			 unsigned *other);

/** urxe_fabric_serve - others than the host's own processes may want us, from now on. A service
 * that is listened to and a group that is joined say so, too. */
void urxe_fabric_serve(struct urxe_fabric *f);
/** urxe_fabric_serves - is that so, and have we an address that is not loopback? */
bool urxe_fabric_serves(struct urxe_fabric *f);
/** urxe_fabric_spawn_hold - a word of the table, for who starts the gateway (gate_spawn.h); valid
 * until urxe_fabric_put(). NULL before the join. */
_Atomic uint64_t *urxe_fabric_spawn_hold(struct urxe_fabric *f);

/** urxe_fabric_mac_slot - of which node a MAC is, made from the fabric's and a slot or configured;
 * 0: a host's; -1: nobody's. A few loads for MACs that were not configured. */
int urxe_fabric_mac_slot(const struct urxe_fabric *f, const uint8_t mac[6]);

/** urxe_fabric_shares - is @slot a member that shares the host's addresses, which @mac is of? A few
 * loads. */
bool urxe_fabric_shares(const struct urxe_fabric *f, unsigned slot, const uint8_t mac[6]);

/** urxe_fabric_domain - the port space of the member @slot; 0: nobody has it. Our own is
 * urxe_fabric_domain(f, urxe_fabric_slot(f)). */
unsigned urxe_fabric_domain(const struct urxe_fabric *f, unsigned slot);

/* ---- multicast ---- */

/** urxe_fabric_group_join, urxe_fabric_group_leave - frames to @mgid are for us, too. Counted: as
 * many leaves as joins. With more than URXE_FABRIC_GROUPS at a time we get all groups' frames.
 * May precede the join. 0 or ENOMEM. */
int urxe_fabric_group_join(struct urxe_fabric *f, const uint8_t mgid[16]);
void urxe_fabric_group_leave(struct urxe_fabric *f, const uint8_t mgid[16]);
/** urxe_fabric_group_members - who gets frames to @mgid, without ourselves: bit slot % 64 of
 * @slots[slot / 64]. Looks through the table: keep it while urxe_fabric_groups_version() is the
 * same. */
void urxe_fabric_group_members(const struct urxe_fabric *f, const uint8_t mgid[16],
			       uint64_t slots[URXE_FABRIC_SLOTS / 64]);
/** urxe_fabric_groups_version - changes when any member joins or leaves a group. A load. */
uint32_t urxe_fabric_groups_version(const struct urxe_fabric *f);

/* ---- RDMA ports and services; identity.c is who claims ---- */

/** What a claimed port, or service range, is released by. 0: none. */
typedef uint64_t urxe_fabric_claim;

/** As urxe_ident_port_claim() and the others there, among all members of our domain; they join
 * first. @random: where the search for an ephemeral number starts. Besides ENOBUFS: the table is
 * full; the errno of urxe_fabric_join(). Under 1 us. */
int urxe_fabric_port_claim(struct urxe_fabric *f, enum urxe_ident_space space,
			   const uint8_t gid[16], unsigned flags, uint64_t random, uint16_t *port,
			   urxe_fabric_claim *claim);
int urxe_fabric_port_listen(struct urxe_fabric *f, urxe_fabric_claim claim);
void urxe_fabric_port_reuse(struct urxe_fabric *f, urxe_fabric_claim claim, bool reuse);
void urxe_fabric_port_release(struct urxe_fabric *f, urxe_fabric_claim claim);

/** urxe_fabric_service_listen - REQs for service ids that are @service_id under @mask are ours, on
 * all our addresses. EADDRINUSE: another member of our domain listens to some of them; our own are
 * not looked at (the CM does that). ENOBUFS: the table is full. */
int urxe_fabric_service_listen(struct urxe_fabric *f, uint64_t service_id, uint64_t mask,
			       urxe_fabric_claim *claim);
void urxe_fabric_service_release(struct urxe_fabric *f, urxe_fabric_claim claim);

/**
 * urxe_fabric_listener - to whom a REQ or SIDR_REQ for @service_id at the address @dgid goes
 *
 * A port of the RDMA IP CM service (IBTA A11: 0x01, space, port) by the port table, what is not
 * found there by service ranges. The slot, which may be our own; 0: nobody listens. A listener
 * whose process is dead is not found once the death is known. @dgid of a node: its slot, whoever
 * listens.
 */
unsigned urxe_fabric_listener(const struct urxe_fabric *f, const uint8_t dgid[16],
			      uint64_t service_id);

/* ---- who is there: for urxe status ---- */

struct urxe_fabric_member {
	unsigned slot;
	uint32_t incarnation;
	int pid;	     /* as this process sees it; 0: of another pid namespace */
	uint64_t start_time; /* as /proc/PID/stat has it, ticks since boot */
	char command[64];
	bool node;
	unsigned domain;
	uint8_t mac[6];
	unsigned gids, groups;
	bool gate;
	bool all_groups; /* more of them than are listed, or it is the gateway */
	uint8_t gid[URXE_FABRIC_GIDS][16];
	uint8_t group[URXE_FABRIC_GROUPS][16];
};

/** urxe_fabric_observe - get the table, without a slot: for what looks only. ENOENT: nobody is
 * there; else as urxe_fabric_join(). */
int urxe_fabric_observe(struct urxe_fabric *f);
/** urxe_fabric_member - who has @slot. 0, or ENOENT: nobody. From slot 1 to 254: all. */
int urxe_fabric_member(struct urxe_fabric *f, unsigned slot, struct urxe_fabric_member *m);

#endif
