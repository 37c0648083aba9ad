/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the files of the fabric's control plane share. Order of locks: f->join_lock, hub->join,
 * the registry's lock or hub->lock; f->hook_lock (held while a hook runs), f->lock, hub->lock.
 * Those named last are held for some loads and stores, or a system call that does not wait.
 */
#ifndef URXE_NETIO_FABRIC_PRIV_H
#define URXE_NETIO_FABRIC_PRIV_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "netio/fabric.h"
#include "netio/fabric_table.h"
#include "urxe/lock.h"

#define FABRIC_MSEC    1000000ull
#define FABRIC_SEC     1000000000ull
#define FABRIC_CLIENTS 32
#define FABRIC_DIR_LEN 4096

/* ---- the folder (fabric_dir.c) ---- */

/**
 * urxe_fdir_open - the fabric's folder, made if need be, if it can be trusted
 * @group: out: its group may join; false: its owner only
 *
 * Returns a descriptor, or -1 with errno and a line in @err.
 */
int urxe_fdir_open(const struct urxe_fabric_spec *spec, bool make, bool *group, char *err,
		   size_t errlen);

/** urxe_fabric_now - CLOCK_MONOTONIC, ns. */
uint64_t urxe_fabric_now(void);

/* ---- a process in a folder (fabric_hub.c) ---- */

/** A mapped table; under the registry's lock: refs. */
struct urxe_fmap {
	struct urxe_ftable *table;
	int fd;
	unsigned refs;
};

/**
 * A folder that this process has members in. POSIX's locks are the process's, not a descriptor's,
 * and go with the first one that is closed: so the file is opened once, here, and what this process
 * holds is known here.
 */
struct urxe_fhub {
	struct urxe_fhub *next;
	unsigned refs; /* the registry's lock */
	dev_t dev;
	ino_t ino;
	int dir;
	bool group;
	char path[FABRIC_DIR_LEN];
	struct urxe_mutex join; /* one thread of this process joins or leaves */
	unsigned count;		/* members of ours, under join */
	struct urxe_fmap *map;	/* of our members; under join */
	struct urxe_mutex lock; /* of what follows */
	int members;		/* the file; -1: not open */
	atomic_bool ending;	/* the process: it takes no slot any more */
	uint64_t held[URXE_FABRIC_SLOTS / 64];
};

/** urxe_fhub_begin - *@p is the calling process; a child that is forked is another one. 0 or
 * ENOMEM. */
int urxe_fhub_begin(struct urxe_fabric_process *p);
/** urxe_fhub_get - of a folder, whose descriptor it takes over in any case. NULL: no memory. */
struct urxe_fhub *urxe_fhub_get(int dir, const char *path, bool group);
/** urxe_fhub_put - @child: of the process that was forked: nothing is closed. */
void urxe_fhub_put(struct urxe_fhub *hub, bool child);

/** urxe_fhub_open - open the file of members. 0, or errno; @make: make it if need be. */
int urxe_fhub_open(struct urxe_fhub *hub, bool make);
/** urxe_fhub_same - is the file that is open the one that is there? */
bool urxe_fhub_same(struct urxe_fhub *hub);
/** urxe_fhub_close - with no slot held. */
void urxe_fhub_close(struct urxe_fhub *hub);
/** urxe_fhub_gate - take (F_RDLCK: with others, F_WRLCK: alone) or leave (F_UNLCK) the lock of
 * those who join. 0, EAGAIN, or what is wrong. Under hub->join. */
int urxe_fhub_gate(struct urxe_fhub *hub, int type);
/** urxe_fhub_gate_holder - the pid of one who has the gate; 0: nobody that can be seen. */
pid_t urxe_fhub_gate_holder(struct urxe_fhub *hub);
/** urxe_fhub_slot_lock - make a slot ours: 0, EAGAIN: it is somebody's; ESHUTDOWN: this process
 * ends; or what is wrong. */
int urxe_fhub_slot_lock(struct urxe_fhub *hub, unsigned slot);
void urxe_fhub_slot_unlock(struct urxe_fhub *hub, unsigned slot);
/** urxe_fhub_pid - of who has the slot; 0: it cannot be seen from here. */
pid_t urxe_fhub_pid(struct urxe_fhub *hub, unsigned slot);
/** urxe_fhub_next - the first slot from @slot on that another process holds, and its pid (0:
 * cannot be seen from here). 0: no more. */
unsigned urxe_fhub_next(struct urxe_fhub *hub, unsigned slot, pid_t *pid);
/**
 * urxe_fhub_bury - is the incarnation dead? Then its slot is free after this
 *
 * True: it is dead, or was. Does not wait.
 */
bool urxe_fhub_bury(struct urxe_fhub *hub, struct urxe_ftable *t, unsigned slot,
		    uint32_t incarnation);
/** urxe_fhub_last - if nobody is there: remove what is in the folder. */
void urxe_fhub_last(struct urxe_fhub *hub);
void urxe_fhub_unlink(struct urxe_fhub *hub, unsigned slot);
/** urxe_fhub_exit - the process ends, without having left its fabrics. By the C library. */
void urxe_fhub_exit(void);

struct urxe_fmap *urxe_fmap_ref(struct urxe_fmap *map);
void urxe_fmap_put(struct urxe_fmap *map, bool child);

/* ---- the table (fabric_table.c) ---- */

/** urxe_fmap_create - a new table. 0 or errno. */
int urxe_fmap_create(const struct urxe_fhub *hub, struct urxe_fmap **map);
/** urxe_fmap_adopt - a table that somebody handed over: 0; EPROTO: it is none of this version.
 * Takes @fd over in any case. */
int urxe_fmap_adopt(int fd, struct urxe_fmap **map);
/** urxe_fmap_name - what /proc/PID/fd shows of the table's descriptor. */
void urxe_fmap_name(const struct urxe_fhub *hub, char *name, size_t len);
/** urxe_ft_free - nobody has the slot any more that @life had. False: it was not so any more. */
bool urxe_ft_free(struct urxe_ftable *t, unsigned slot, uint64_t life);
/** urxe_ft_describe - fill in our record: process, MAC, addresses, groups. f->lock held, as for
 * the two below: addresses, groups. */
void urxe_ft_describe(struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot);
void urxe_ft_addrs(struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot);
void urxe_ft_groups(struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot);
/** urxe_ft_host - the domain of the host that this process is on. */
unsigned urxe_ft_host(struct urxe_ftable *t);

/* ---- messages (fabric_msg.c) ---- */

enum {
	FM_GET = 1,
	FM_TABLE,
	FM_ASK,
	FM_ANSWER,
	FM_BYE
};

struct urxe_fmsg {
	uint64_t magic;
	uint32_t version;
	uint16_t type;
	uint16_t slot;	      /* the sender's */
	uint32_t incarnation; /* likewise */
	uint32_t to;	      /* incarnation of who is meant */
	uint32_t err;	      /* of an answer */
	uint8_t has_pidfd, has_fd;
	uint8_t spare[2];
	uint64_t w[URXE_FABRIC_WORDS];
};

/** urxe_fmsg_send - with up to two descriptors (-1: none). 0, or errno; never waits. */
int urxe_fmsg_send(int sock, struct urxe_fmsg *m, int pidfd, int fd);
/** urxe_fmsg_recv - 0; EAGAIN: nothing yet; ECONNRESET: the end; EPROTO: rubbish, or of another
 * version. The descriptors, or -1, are the caller's if it returns 0. */
int urxe_fmsg_recv(int sock, struct urxe_fmsg *m, int *pidfd, int *fd);
/** urxe_fmsg_listen - the socket of a slot. A descriptor, or -1 and errno. */
int urxe_fmsg_listen(const struct urxe_fhub *hub, unsigned slot);
/** urxe_fmsg_connect - to a slot; never waits. A descriptor, or -1 and errno. EPERM: who listens
 * there is another user. */
int urxe_fmsg_connect(const struct urxe_fhub *hub, unsigned slot);
/** urxe_fmsg_trusted - may the other end take part? */
bool urxe_fmsg_trusted(const struct urxe_fhub *hub, int sock);
/** urxe_fmsg_fetch - the table, from any member that is there. 0; ENOENT: nobody is; ETIMEDOUT,
 * EPERM, EPROTO. Takes up to @wait ns. */
int urxe_fmsg_fetch(struct urxe_fhub *hub, uint64_t wait, struct urxe_fmap **map);

/* ---- the member ---- */

/** Who connected to us. */
struct urxe_fclient {
	int fd;	     /* -1: nobody */
	bool polled; /* by epoll: it had not asked when it came */
	uint64_t deadline;
};

/** What our thread knows of another member. */
struct urxe_fpeer {
	uint32_t watched; /* incarnation; 0: not */
	bool watching;	  /* pidfd is valid */
	bool asking;	  /* an ask is under way */
	bool connected;	  /* and has been sent by sock */
	bool offers;	  /* req.fd is of the hook asking(), and ours to close */
	int pidfd, sock;
	uint32_t asked; /* incarnation */
	uint64_t deadline, retry, delay;
	struct urxe_fabric_words req;
};

struct urxe_fgroup {
	uint8_t gid[16];
	unsigned joins;
};

/* As the kernel reads them (get_robust_list(2)). */
struct urxe_frobust {
	struct urxe_frobust *next;
};

struct urxe_frobust_head {
	struct urxe_frobust list;
	long offset;
	struct urxe_frobust *pending;
};

struct urxe_fabric {
	atomic_uint refs;
	struct urxe_fabric_process process;
	struct urxe_fabric_spec spec;
	bool node;
	bool gate;
	uint64_t own_mac; /* of the configuration; 0: from the table */

	struct urxe_mutex join_lock;
	struct urxe_fhub *hub;
	struct urxe_fmap *map;
	_Atomic(struct urxe_ftable *) table; /* set when hub and map are */
	atomic_uint slot;		     /* set when all is; 0: not joined */
	uint32_t incarnation;
	unsigned domain;

	atomic_bool serves; /* urxe_fabric_serves() */

	struct urxe_mutex lock; /* of what follows */
	char error[512];
	unsigned described; /* slot whose record is ours; 0: none yet */
	unsigned gids;
	uint8_t gid[URXE_FABRIC_GIDS][16];
	struct urxe_fgroup *group;
	unsigned groups, groups_room;
	uint64_t call_at;
	uint64_t asking[URXE_FABRIC_SLOTS / 64]; /* urxe_fabric_ask() to answered() */
	uint64_t fresh[URXE_FABRIC_SLOTS / 64];	 /* of these, not yet seen by the thread */
	struct urxe_fabric_words req[URXE_FABRIC_SLOTS];

	struct urxe_mutex hook_lock; /* held while a hook runs */
	const struct urxe_fabric_hooks *hooks;
	void *hook_arg;

	pthread_t thread;
	sem_t *started;
	atomic_bool stop;
	int epoll, wake, listener, pidfd;
	int map_fd;	   /* the table's, to be handed over */
	unsigned starting; /* our slot, also before others see it */
	/* the thread's own: */
	struct urxe_frobust robust;
	struct urxe_frobust_head robust_head;
	uint64_t listen_again; /* 0: it listens */
	uint64_t said;	       /* when, that nobody can connect; 0: not yet */
	uint64_t look;	       /* when to look at those that are watched */
	struct urxe_fclient client[FABRIC_CLIENTS];
	struct urxe_fpeer peer[URXE_FABRIC_SLOTS];
};

/** urxe_fabric_table - the table, if joined or observed, and ours. */
static inline struct urxe_ftable *urxe_fabric_table(const struct urxe_fabric *f)
{
	/* Pairs with the release in fabric.c. */
	struct urxe_ftable *t = atomic_load_explicit(&f->table, memory_order_acquire);

	return t && urxe_fabric_ours(f) ? t : NULL;
}

/** urxe_fabric_thread_start - the member's thread, which has the slot's robust futex when this
 * returns. 0 or errno. */
int urxe_fabric_thread_start(struct urxe_fabric *f, unsigned slot);
/** urxe_fabric_thread_stop - peers are told; joined. */
void urxe_fabric_thread_stop(struct urxe_fabric *f);
void urxe_fabric_thread_wake(struct urxe_fabric *f);

/** urxe_fport_listener - who in @domain listens to a port, at @gid; 0: nobody. */
unsigned urxe_fport_listener(struct urxe_ftable *t, unsigned domain, const uint8_t gid[16],
			     enum urxe_ident_space space, uint16_t port);

/* What the thread does about others (fabric_attach.c). */
/** urxe_fpeer_asks - one that connected asks; @pidfd and @fd are the function's. */
void urxe_fpeer_asks(struct urxe_fabric *f, int sock, const struct urxe_fmsg *m, int pidfd, int fd);
/** urxe_fpeer_leaves - one says that it leaves. */
void urxe_fpeer_leaves(struct urxe_fabric *f, unsigned slot);
/** urxe_fpeer_take_asks - begin with what urxe_fabric_ask() has left. */
void urxe_fpeer_take_asks(struct urxe_fabric *f);
/** urxe_fpeer_answer - the socket of our ask is readable. */
void urxe_fpeer_answer(struct urxe_fabric *f, unsigned slot);
/** urxe_fpeer_pidfd - the pidfd of a member is readable. */
void urxe_fpeer_pidfd(struct urxe_fabric *f, unsigned slot);
/** urxe_fpeer_timers - what is due; returns when next. */
uint64_t urxe_fpeer_timers(struct urxe_fabric *f, uint64_t now);
/** urxe_fpeer_end - we have left: tell those who know us, and close all. */
void urxe_fpeer_end(struct urxe_fabric *f);

/** urxe_fabric_poll - have the thread look at @fd. 0 or errno. */
int urxe_fabric_poll(struct urxe_fabric *f, int fd, unsigned kind, unsigned index);
/** urxe_fabric_unpoll - no longer, and close it. -1: nothing to do. */
void urxe_fabric_unpoll(struct urxe_fabric *f, int *fd);

enum {
	FPOLL_WAKE,
	FPOLL_LISTEN,
	FPOLL_CLIENT,
	FPOLL_ASK,
	FPOLL_PID
};

#endif
