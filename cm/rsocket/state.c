/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* States of a socket, and what each means to who polls it. */
#include <errno.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#include "urxe/log.h"

#define CM_EVERY 64 /* looks at completions, to one at the channel */

#define URXE_RS_STATE(name) [URXE_RS_##name] = #name,
static const char *const names[URXE_RS_N_STATES] = {URXE_RS_STATES(URXE_RS_STATE)};
#undef URXE_RS_STATE

/* poll(2)'s events that are always true in a state; of the others more is looked at. */
static const short always[URXE_RS_N_STATES] = {
	[URXE_RS_OPEN] = POLLOUT | POLLHUP, /* as a TCP socket's */
	[URXE_RS_CLOSED] = POLLIN | POLLOUT | POLLRDHUP,
	[URXE_RS_FAILED] = POLLIN | POLLOUT | POLLHUP | POLLRDHUP | POLLERR,
};

void urxe_rs_set_state(struct urxe_rs *s, enum urxe_rs_state state)
{
	if (s->state == state || s->state == URXE_RS_FAILED)
		return;
	urxe_debug("rsocket %d: %s, was %s", s->fd, names[state], names[s->state]);
	s->state = state;
	s->can_recv = s->can_send = state == URXE_RS_CONNECTED;
	urxe_rs_changed(s);
}

void urxe_rs_fail(struct urxe_rs *s, int err)
{
	if (s->state == URXE_RS_FAILED)
		return;
	s->err = err;
	urxe_rs_set_state(s, URXE_RS_FAILED);
}

int urxe_rs_take_error(struct urxe_rs *s)
{
	int err = s->err;

	s->err = 0;
	return err;
}

static short connected(const struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	short ready = 0;

	if (s->st->unread)
		ready |= POLLIN;
	if (!s->can_recv)
		ready |= POLLIN | POLLRDHUP;
	if (!s->can_send || urxe_rs_can_write(s))
		ready |= POLLOUT;
	return ready;
}

short urxe_rs_ready(struct urxe_rs *s)
{
	short ready = s->dg ? urxe_rs_dgram_ready(s) : always[s->state];

	if (s->gone)
		return POLLNVAL;
	if (s->state == URXE_RS_LISTENING && !cds_list_empty(&s->requests))
		ready |= POLLIN;
	if (s->state == URXE_RS_CONNECTED)
		ready |= connected(s);
	/* Programs (rstream -T a) read nothing more after a POLLHUP. */
	if (s->state == URXE_RS_CLOSED && !(s->st && s->st->unread))
		ready |= POLLHUP;
	if (ready & POLLIN)
		ready |= POLLRDNORM;
	if (ready & POLLOUT)
		ready |= POLLWRNORM;
	return ready;
}

void urxe_rs_look(struct urxe_rs *s, bool whole)
{
	if (s->gone)
		return;
	if (s->dg) {
		urxe_rs_dgram_look(s, whole);
		return;
	}
	/* While bytes flow, who looks all the time need not ask the channel each time. */
	if (whole || s->state != URXE_RS_CONNECTED || ++s->looks >= CM_EVERY) {
		s->looks = 0;
		urxe_rs_cm_events(s);
	}
	urxe_rs_completions(s);
}
