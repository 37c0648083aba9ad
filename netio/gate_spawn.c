/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When urxed(1) is started, and what becomes of it. Of many processes that want it at once, one
 * gets the lock of the fabric's folder, which the urxed that it starts then has as long as it
 * lives; the others wait for the gateway to come, or for the lock, should that one die. What has
 * failed is not tried again for a while, by none of the fabric's members.
 */
#include "netio/gate_spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "urxe/free.h"
#include "urxe/log.h"
#include "urxe/units.h"

#define PATIENCE   (5 * URXE_SEC)
#define LOOK_AGAIN (10 * URXE_MSEC)  /* while it starts */
#define LOCK_AGAIN (100 * URXE_MSEC) /* while another process starts it */
#define LOOK_AFTER URXE_SEC	     /* that it is there still */
#define HOLD	   (10 * URXE_SEC)   /* after a failure */
#define RETRY_MOST (60 * URXE_SEC)
#define STABLE	   (10 * URXE_SEC) /* there for so long, it has not failed */
#define DEATHS	   5		   /* before that, in a row */
#define IDLE_ARG   "60"		   /* s without a member, after which it ends */

static void set_state(struct urxe_spawn *s, enum urxe_spawn_state state, uint64_t until)
{
	atomic_store(&s->until, until);
	atomic_store(&s->state, state);
}

/* ---- who may ---- */

static bool is_set(const char *value)
{
	return value && value[0] && strcmp(value, "0") != 0;
}

void urxe_spawn_init(struct urxe_spawn *s, const char *dir, _Atomic uint64_t *hold)
{
	const char *program = secure_getenv("URXE_URXED");

	*s = (struct urxe_spawn){.said_fd = -1, .hold = hold};
	s->forbidden = is_set(secure_getenv("URXE_NO_SPAWN"));
	if (!dir[0] || s->forbidden || !program || program[0] != '/' ||
	    strlen(program) >= sizeof(s->program) || strlen(dir) >= sizeof(s->dir) ||
	    getuid() != geteuid() || getgid() != getegid())
		return;
	strcpy(s->program, program);
	strcpy(s->dir, dir);
	/* Now: later the program may change its own at any moment. */
	s->env = urxe_spawn_env(environ);
	if (s->env)
		atomic_store(&s->state, URXE_SPAWN_IDLE);
}

int urxe_spawn_want(struct urxe_spawn *s, uint64_t now, bool *call)
{
	unsigned state = atomic_load(&s->state);

	*call = false;
	if (state == URXE_SPAWN_NEVER ||
	    (state == URXE_SPAWN_FAILED && now < atomic_load(&s->until)))
		return EHOSTUNREACH;
	if (state == URXE_SPAWN_FAILED || state == URXE_SPAWN_IDLE)
		*call = atomic_compare_exchange_strong(&s->state, &state, URXE_SPAWN_WANTED);
	return EINPROGRESS;
}

bool urxe_spawn_use(struct urxe_spawn *s)
{
	return atomic_load(&s->state) != URXE_SPAWN_NEVER && !atomic_load(&s->used) &&
	       !atomic_exchange(&s->used, true);
}

const char *urxe_spawn_why(const struct urxe_spawn *s)
{
	if (atomic_load(&s->state) == URXE_SPAWN_FAILED)
		return "the urxed(1) that was started to lead elsewhere has failed";
	return s->forbidden ? "no urxed(1) is running that would lead elsewhere, and "
			      "URXE_NO_SPAWN forbids to start it: start one by hand"
			    : "no urxed(1) is running that would lead elsewhere: start one";
}

void urxe_spawn_end(struct urxe_spawn *s)
{
	if (s->said_fd >= 0)
		close(s->said_fd);
	s->said_fd = -1;
}

void urxe_spawn_free(struct urxe_spawn *s)
{
	urxe_free(s->env);
	s->env = NULL;
}

/* ---- the fabric's thread ---- */

/* Until when all members wait; 0: no longer. Any of them may have written anything there. */
static uint64_t held(const struct urxe_spawn *s, uint64_t now)
{
	uint64_t until = s->hold ? atomic_load(s->hold) : 0;

	return until > now && until - now <= HOLD ? until : 0;
}

/* The log has it once, not each time. */
static void tell(struct urxe_spawn *s, const char *why)
{
	if (!strcmp(s->told, why))
		return;
	snprintf(s->told, sizeof(s->told), "%s", why);
	urxe_warn("no way out of the fabric: %s: %s (URXE_NO_SPAWN=1 keeps it from being started)",
		  s->program, why);
}

/* Whoever wants it has another try soon; who only serves tries less and less often. */
static uint64_t fail(struct urxe_spawn *s, uint64_t now, const char *why)
{
	uint64_t until = held(s, now), wait = HOLD << (s->failures < 3 ? s->failures : 3);

	urxe_spawn_end(s);
	s->failures++;
	s->retry = now + (wait < RETRY_MOST ? wait : RETRY_MOST);
	if (!until) {
		until = now + HOLD;
		if (s->hold)
			atomic_store(s->hold, until);
	}
	tell(s, why);
	set_state(s, URXE_SPAWN_FAILED, until);
	return s->retry;
}

/* What it has written, of which the last line counts. True: that was all. */
static bool listen_to(struct urxe_spawn *s)
{
	char buf[URXE_SPAWN_SAID];
	ssize_t n;

	while ((n = read(s->said_fd, buf, sizeof(buf) - 1)) > 0) {
		char *line, *save = NULL;

		buf[n] = '\0';
		for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
			snprintf(s->said, sizeof(s->said), "%s", line);
	}
	return !n || (errno != EAGAIN && errno != EINTR);
}

/* One is to be started; or another process does, and is asked again later. */
static uint64_t start(struct urxe_spawn *s, uint64_t now)
{
	const char *const argv[] = {s->program, "--port", "udp",      "--idle", IDLE_ARG,
				    "--fabric", s->dir,	  "--silent", NULL};
	int err;

	if (held(s, now))
		return fail(s, now, "one that another process has started has failed");
	s->said[0] = '\0';
	err = urxe_spawn_process(argv, s->env, s->dir, &s->said_fd);
	if (err && err != EWOULDBLOCK)
		return fail(s, now, strerror(err));
	if (!err)
		urxe_info("%s is started, to lead out of the fabric", s->program);
	/* Who finally starts it has all the time. */
	if (!err || atomic_load(&s->state) != URXE_SPAWN_STARTING)
		set_state(s, URXE_SPAWN_STARTING, now + PATIENCE);
	s->again = now + LOCK_AGAIN;
	return now + LOOK_AGAIN;
}

/* It was started, and is not there yet. */
static uint64_t wait_for(struct urxe_spawn *s, uint64_t now)
{
	bool ended = s->said_fd >= 0 && listen_to(s);

	if (ended)
		return fail(s, now, s->said[0] ? s->said : "it has ended");
	if (now >= atomic_load(&s->until))
		return fail(s, now,
			    s->said_fd < 0 ? "one that another process has started is not ready"
			    : s->said[0]   ? s->said
					   : "it is not ready after 5 s");
	return s->said_fd < 0 && now >= s->again ? start(s, now) : now + LOOK_AGAIN;
}

static uint64_t keep_it(struct urxe_spawn *s, uint64_t now)
{
	urxe_spawn_end(s);
	if (!s->since)
		s->since = now;
	if (now - s->since >= STABLE) {
		s->failures = 0;
		s->told[0] = '\0';
	}
	set_state(s, URXE_SPAWN_IDLE, 0);
	return now + LOOK_AFTER;
}

/* It was there. One that was killed comes back at once, but one that does not live is let be. */
static bool goes_soon(struct urxe_spawn *s, uint64_t now)
{
	bool soon = now - s->since < STABLE;

	s->since = 0;
	return soon && ++s->failures > DEATHS;
}

uint64_t urxe_spawn_run(struct urxe_spawn *s, uint64_t now, bool there, bool serves)
{
	unsigned state = atomic_load(&s->state);

	if (state == URXE_SPAWN_NEVER)
		return UINT64_MAX;
	s->keep |= serves || atomic_load(&s->used) || state != URXE_SPAWN_IDLE;
	if (!s->keep)
		return UINT64_MAX;
	if (there)
		return keep_it(s, now);
	if (s->since && goes_soon(s, now))
		return fail(s, now, "it ends again and again");
	if (state == URXE_SPAWN_STARTING)
		return wait_for(s, now);
	if (state == URXE_SPAWN_FAILED && now < s->retry)
		return s->retry;
	return start(s, now);
}
