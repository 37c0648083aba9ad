/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The states of answers.c: how ids get there, and how they go. */
#include "answers.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SETTLE_MS 10

static void __attribute__((format(printf, 1, 2))) fail(const char *fmt, ...)
{
	va_list ap;
	int e = errno;
	size_t used;

	if (wrong[0])
		return;
	va_start(ap, fmt);
	vsnprintf(wrong, sizeof(wrong), fmt, ap);
	va_end(ap);
	used = strlen(wrong);
	snprintf(wrong + used, sizeof(wrong) - used, " %s", strerrorname_np(e));
}

#define WORKS(expr)                        \
	do {                               \
		if (expr)                  \
			fail("%s", #expr); \
	} while (0)

bool is_udp(enum space space)
{
	return space == UDP || space == UDP_QP || space == UDP6;
}

bool has_qp(enum space space)
{
	return space == TCP_QP || space == UDP_QP;
}

static bool is_passive(enum state state)
{
	return state == REQUEST || state == ACCEPTED || state == PASSIVE || state == REJECTER ||
	       state == LEFT_REQUEST || state == LEFT_PASSIVE;
}

bool possible(enum space space, enum state state)
{
	bool between = state == RESPONSE || state == ACCEPTED || state == LEFT_RESPONSE;

	if (space == SYNC)
		return state <= LISTEN_ANY || state == REQUEST;
	if (is_udp(space)) /* no connection can end */
		return !between && state != ENDED && state < LEFT_REQUEST;
	return space != TCP_QP || !between;
}

/* ---- events ---- */

static void __attribute__((format(printf, 3, 4))) add(char *text, size_t len, const char *fmt, ...)
{
	size_t used = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + used, len - used, fmt, ap);
	va_end(ap);
}

static void describe(const struct rdma_cm_event *ev, char *text, size_t len)
{
	int type = ev->event;
	bool request = type == RDMA_CM_EVENT_CONNECT_REQUEST;

	add(text, len, "%s%s(%d", *text ? "," : "",
	    rdma_event_str(ev->event) + strlen("RDMA_CM_EVENT_"), ev->status);
	if (request || type == RDMA_CM_EVENT_CONNECT_RESPONSE ||
	    type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED ||
	    type == RDMA_CM_EVENT_UNREACHABLE)
		add(text, len, " %u",
		    ev->id->ps == RDMA_PS_UDP ? ev->param.ud.private_data_len
					      : ev->param.conn.private_data_len);
	if (request && ev->id->ps == RDMA_PS_TCP)
		add(text, len, " %u %u", ev->param.conn.responder_resources,
		    ev->param.conn.initiator_depth);
	add(text, len, ")");
}

int take(struct rdma_event_channel *ch, char *text, size_t len, struct rdma_cm_id **fresh)
{
	struct rdma_cm_event *ev;
	int type;

	if (rdma_get_cm_event(ch, &ev))
		return -1;
	type = ev->event;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		*fresh = ev->id;
	if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT)
		describe(ev, text, len);
	rdma_ack_cm_event(ev);
	return type;
}

static void expect(struct rdma_event_channel *ch, enum rdma_cm_event_type want,
		   struct rdma_cm_id **fresh)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_id *ignored;
	char text[100] = "";
	int type;

	if (wrong[0])
		return;
	do {
		if (poll(&p, 1, STEP_MS) != 1) {
			errno = ETIME;
			fail("no %s", rdma_event_str(want));
			return;
		}
		type = take(ch, text, sizeof(text), fresh ? fresh : &ignored);
	} while (type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	if (type != (int)want) {
		errno = 0;
		fail("%s, not %s", text, rdma_event_str(want));
	}
}

/* ---- scenes ---- */

static void give_qp(struct scene *sc, struct rdma_cm_id *id)
{
	if (has_qp(sc->space) && !wrong[0])
		WORKS(rdma_create_qp(id, NULL, qp_of(type_of(id))));
}

static struct rdma_cm_id *new_id(struct scene *sc, struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id = NULL;

	WORKS(rdma_create_id(ch, &id, sc, is_udp(sc->space) ? RDMA_PS_UDP : RDMA_PS_TCP));
	return id;
}

static void listens(struct scene *sc, struct rdma_event_channel *ch, enum place place)
{
	sc->l = new_id(sc, ch);
	if (wrong[0])
		return;
	WORKS(rdma_bind_addr(sc->l, here(place, 0)));
	WORKS(rdma_listen(sc->l, 4));
}

/* SYNC: the client has no channel, and there is nobody it could connect to. */
static void resolves(struct scene *sc, bool alone, bool route)
{
	uint16_t port = sc->l ? ntohs(rdma_get_src_port(sc->l)) : NOBODY;

	sc->c = new_id(sc, alone ? NULL : sc->cch);
	if (wrong[0])
		return;
	WORKS(rdma_resolve_addr(sc->c, NULL, here(OWN, port), STEP_MS));
	if (!alone)
		expect(sc->cch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	if (!route || wrong[0])
		return;
	WORKS(rdma_resolve_route(sc->c, STEP_MS));
	if (!alone)
		expect(sc->cch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
}

static void go_alone(struct scene *sc)
{
	bool alone = sc->space == SYNC;

	sc->own = alone ? NULL : sc->cch;
	sc->peer = sc->lch;
	if (sc->state == LISTEN || sc->state == LISTEN_ANY) {
		sc->own = alone ? NULL : sc->lch;
		sc->peer = sc->cch;
		listens(sc, sc->own, sc->state == LISTEN ? OWN : ANY);
		sc->id = sc->l;
		return;
	}
	if (sc->state == ADDR || sc->state == ROUTE) {
		if (!alone)
			listens(sc, sc->lch, OWN);
		resolves(sc, alone, sc->state == ROUTE);
		give_qp(sc, sc->c);
		sc->id = sc->c;
		return;
	}
	sc->id = sc->c = new_id(sc, sc->own);
	if (sc->state != IDLE && !wrong[0])
		WORKS(rdma_bind_addr(sc->c, here(sc->state == BOUND ? OWN : ANY, 0)));
}

static void ends(struct scene *sc)
{
	WORKS(rdma_disconnect(sc->s));
	expect(sc->cch, RDMA_CM_EVENT_DISCONNECTED, NULL);
	if (wrong[0])
		return;
	WORKS(rdma_disconnect(sc->c));
	expect(sc->lch, RDMA_CM_EVENT_DISCONNECTED, NULL);
}

static void drop_id(struct scene *sc, struct rdma_cm_id **id)
{
	struct rdma_cm_id *gone = *id;

	*id = NULL;
	if (!gone || (gone == sc->id && sc->destroyed))
		return;
	if (gone->qp)
		rdma_destroy_qp(gone);
	rdma_destroy_id(gone);
}

/* Takes what comes on the channel, until nothing has come for so long */
static void forget(struct rdma_event_channel *ch, int ms)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_id *ignored;
	char text[300] = "";

	while (poll(&p, 1, ms) > 0)
		take(ch, text, sizeof(text), &ignored);
}

/* What a passive id that was not accepted hears of it differs, and is in the lines. */
static void peer_leaves(struct scene *sc)
{
	drop_id(sc, is_passive(sc->state) ? &sc->c : &sc->s);
	if (sc->state == LEFT_REQUEST)
		poll(&(struct pollfd){.fd = sc->own->fd, .events = POLLIN}, 1, quiet_ms / 2);
	else
		expect(sc->own,
		       sc->state == LEFT_RESPONSE ? RDMA_CM_EVENT_REJECTED
						  : RDMA_CM_EVENT_DISCONNECTED,
		       NULL);
}

static void accepts(struct scene *sc)
{
	bool answered = is_udp(sc->space) || has_qp(sc->space);

	WORKS(rdma_accept(sc->s, with(NULL, 0)));
	expect(sc->cch, answered ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE,
	       NULL);
	if (is_udp(sc->space) || sc->state == RESPONSE || sc->state == ACCEPTED ||
	    sc->state == LEFT_RESPONSE || wrong[0])
		return;
	if (!answered)
		WORKS(rdma_establish(sc->c));
	expect(sc->lch, RDMA_CM_EVENT_ESTABLISHED, NULL);
	if (sc->state == ENDED && !wrong[0])
		ends(sc);
}

static void asks(struct scene *sc)
{
	listens(sc, sc->space == SYNC ? NULL : sc->lch, OWN);
	resolves(sc, false, true);
	give_qp(sc, sc->c);
	if (wrong[0])
		return;
	WORKS(rdma_connect(sc->c, with(NULL, 0)));
	if (sc->space == SYNC)
		WORKS(rdma_get_request(sc->l, &sc->s));
	else
		expect(sc->lch, RDMA_CM_EVENT_CONNECT_REQUEST, &sc->s);
}

static void rejects(struct scene *sc)
{
	WORKS(rdma_reject(sc->s, NULL, 0));
	expect(sc->cch, is_udp(sc->space) ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED,
	       NULL);
}

static void go_together(struct scene *sc)
{
	bool passive = is_passive(sc->state);

	sc->own = passive ? sc->lch : sc->cch;
	sc->peer = passive ? sc->cch : sc->lch;
	asks(sc);
	if (wrong[0])
		return;
	sc->id = passive ? sc->s : sc->c;
	if (sc->state == REJECTED || sc->state == REJECTER) {
		rejects(sc);
		return;
	}
	give_qp(sc, sc->s);
	if (sc->state != SENT && sc->state != REQUEST && sc->state != LEFT_REQUEST && !wrong[0])
		accepts(sc);
	if (sc->state >= LEFT_REQUEST && !wrong[0])
		peer_leaves(sc);
}

void go_to(struct scene *sc)
{
	if (sc->state <= LISTEN_ANY)
		go_alone(sc);
	else
		go_together(sc);
}

/*
 * The client hears that its peer has gone before it goes itself: else, in the kernel (6.1), its id
 * may never be destroyed, nor its process be killed.
 */
void clean(struct scene *sc)
{
	for (int i = 0; i < sc->n_extras; i++)
		drop_id(sc, &sc->extras[i]);
	if (sc->s) {
		drop_id(sc, &sc->s);
		forget(sc->cch, SETTLE_MS);
	}
	drop_id(sc, &sc->c);
	drop_id(sc, &sc->l);
}
