/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxed(1) on demand: whoever wants to leave the fabric, or to be reached from beyond it, has it
 * started, as the same user, unless there is a gateway already.
 */
#ifndef URXE_NETIO_GATE_SPAWN_H
#define URXE_NETIO_GATE_SPAWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define URXE_SPAWN_SAID 512

/** What has come of it: */
enum urxe_spawn_state {
	URXE_SPAWN_NEVER,    /* it is not to be started from here */
	URXE_SPAWN_IDLE,     /* there is a gateway, or nobody has wanted one */
	URXE_SPAWN_WANTED,   /* the fabric's thread is to start it */
	URXE_SPAWN_STARTING, /* it was started, by us or by somebody else */
	URXE_SPAWN_FAILED,   /* it did not come up: for a while nobody tries again */
};

/** One for each membership; any thread wants it, the fabric's thread has the rest. */
struct urxe_spawn {
	_Atomic unsigned state; /* enum urxe_spawn_state */
	_Atomic uint64_t until; /* STARTING: given up then; FAILED: not before, whoever wants it */
	_Atomic uint64_t *hold; /* of all members: nobody tries again before */
	bool forbidden;		/* by URXE_NO_SPAWN */
	atomic_bool used;	/* urxe_spawn_use() */
	char program[4096];	/* urxed */
	char dir[4096];		/* the fabric's folder */
	char **env;		/* of urxed */
	/* The thread's own: */
	bool keep;		    /* one is to be there from now on */
	unsigned failures;	    /* in a row */
	uint64_t since;		    /* it is there; 0: it is not */
	uint64_t retry;		    /* FAILED: tried again then, wanted or not */
	uint64_t again;		    /* somebody else starts it: when to see whether he still does */
	int said_fd;		    /* what it writes; -1: none */
	char said[URXE_SPAWN_SAID]; /* its last line so far */
	char told[URXE_SPAWN_SAID]; /* why it failed: what the log has */
};

/**
 * urxe_spawn_init - @dir: the folder of the fabric; "": nothing is started
 * @hold: a word that all members of the fabric share, 0 at first
 *
 * Where urxed is has `urxe run` left in URXE_URXED; URXE_NO_SPAWN=1 forbids. A program with more
 * rights than its user (set-user-ID, file capabilities) starts nothing.
 */
void urxe_spawn_init(struct urxe_spawn *s, const char *dir, _Atomic uint64_t *hold);

/**
 * urxe_spawn_want - somebody sends to the outside, and there is no gateway
 * @now: CLOCK_MONOTONIC, ns
 * @call: out: urxe_spawn_run() is to be called by the fabric's thread
 *
 * EINPROGRESS while one starts; EHOSTUNREACH: none will. Waits for nothing; any thread.
 */
int urxe_spawn_want(struct urxe_spawn *s, uint64_t now, bool *call);

/** urxe_spawn_use - somebody sends to the outside, by a gateway that is there. True:
 * urxe_spawn_run() is to be called by the fabric's thread. A load, mostly; any thread. */
bool urxe_spawn_use(struct urxe_spawn *s);

/**
 * urxe_spawn_run - on the fabric's thread
 * @there: there is a gateway
 * @serves: somebody beyond the fabric is to reach us
 *
 * Once one was wanted or used, or we serve, there is to be one as long as we are on the fabric: it
 * is started again when it is gone. Returns when it is to be called again, or UINT64_MAX.
 */
uint64_t urxe_spawn_run(struct urxe_spawn *s, uint64_t now, bool there, bool serves);

/** urxe_spawn_why - what to do about the lack of a gateway, for a log line. */
const char *urxe_spawn_why(const struct urxe_spawn *s);

/** urxe_spawn_end - before the fabric's thread ends, or after. urxed stays. */
void urxe_spawn_end(struct urxe_spawn *s);
/** urxe_spawn_free - its memory; in a forked child, too. */
void urxe_spawn_free(struct urxe_spawn *s);

/** urxe_spawn_env - a copy of an environment without what begins with LD_ or, but for
 * URXE_STATUS_DIR and URXE_OWNER_UID, URXE_. One block of malloc(); NULL: no memory. */
char **urxe_spawn_env(char **from);

/**
 * urxe_spawn_process - run @argv as nobody's child, in a session of its own
 * @lock: a folder of which it holds the lock (flock(2)) by its descriptor 3; NULL: none
 * @said: out: what it writes to its standard error; the caller's to close
 *
 * 0; EWOULDBLOCK: another process has the lock; or errno. It has no descriptor of ours besides, no
 * signal, no pinned CPU, no real-time priority of ours. Neither wait() nor SIGCHLD of the
 * application show it, unless that adopts the orphans of others: as process 1 of a container, or by
 * PR_SET_CHILD_SUBREAPER. Allocates nothing, frees nothing.
 */
int urxe_spawn_process(const char *const argv[], char *const env[], const char *lock, int *said);

#endif
