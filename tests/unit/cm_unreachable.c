/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ICMP errors to the CM: a router's ends the request that it quotes at once, the peer's own host's
 * after two sends in silence, and nothing else moves anything.
 */
#include "cm_rig.h"

static const enum urxe_cm_state asking[] = {URXE_CM_REQ_SENT, URXE_CM_SIDR_REQ_SENT};
static const enum urxe_cm_event_type ended[] = {URXE_CM_EV_REQ_ERROR, URXE_CM_EV_SIDR_REQ_ERROR};

/* About the MAD that was sent last: from a router, or from the peer's address. */
static struct urxe_cm_unreachable about(const struct rig *r, bool peer, int err)
{
	struct urxe_cm_unreachable e = {
		.err = err, .sgid = r->src.dgid, .dgid = r->src.sgid, .mad = r->sent, .len = 64};

	memset(e.from.raw, peer ? 0x22 : 0x77, 16);
	return e;
}

static void report(struct rig *r, bool peer, int err)
{
	struct urxe_cm_unreachable e = about(r, peer, err);

	urxe_cm_unreachable(r->cm, &e);
}

static void start(struct rig *r, enum urxe_cm_state state)
{
	rig_open(r, OWN_GUID);
	bring_to(r, state);
	r->n_events = 0;
}

/* Of each length from the one that names the id on. */
static void router(void)
{
	for (unsigned i = 0; i < 2; i++) {
		for (uint32_t len = 0; len <= URXE_MAD_LEN + 4; len++) {
			struct urxe_cm_unreachable e;
			uint8_t mad[URXE_MAD_LEN + 4] = {0};
			struct rig r;

			start(&r, asking[i]);
			e = about(&r, false, EHOSTUNREACH);
			memcpy(mad, r.sent, URXE_MAD_LEN);
			e.mad = mad;
			e.len = len;
			urxe_cm_unreachable(r.cm, &e);
			if (len < 28) {
				CU_ASSERT_EQUAL(r.n_events, 0);
				CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->drop_unknown_id, 1);
			} else {
				CU_ASSERT_EQUAL(r.n_events, 1);
				CU_ASSERT_EQUAL(r.event, ended[i]);
				CU_ASSERT_EQUAL(r.error, EHOSTUNREACH);
				CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_IDLE);
				CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->unreachable, 1);
				CU_ASSERT_EQUAL(urxe_cm_deadline(r.cm), UINT64_MAX);
			}
			/* Once more: there is nothing left that it could end. */
			urxe_cm_unreachable(r.cm, &e);
			CU_ASSERT(r.n_events <= 1);
			rig_close(&r);
		}
	}
}

/* Any bit of the quote, or another address: it is not the MAD that waits. */
static void forged(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct urxe_cm_unreachable e;
		uint8_t mad[URXE_MAD_LEN];
		struct rig r;

		start(&r, asking[i]);
		e = about(&r, false, EHOSTUNREACH);
		e.mad = mad;
		for (unsigned bit = 0; bit < 64 * 8; bit++) {
			memcpy(mad, r.sent, sizeof(mad));
			mad[bit / 8] ^= (uint8_t)(1 << bit % 8);
			urxe_cm_unreachable(r.cm, &e);
		}
		memcpy(mad, r.sent, sizeof(mad));
		e.dgid.raw[15]++;
		urxe_cm_unreachable(r.cm, &e);
		e.dgid.raw[15]--;
		e.sgid.raw[15]++;
		urxe_cm_unreachable(r.cm, &e);
		CU_ASSERT_EQUAL(r.n_events, 0);
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), asking[i]);
		CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->unreachable, 0);
		rig_close(&r);
	}
}

/* Connections, listeners, answers: an ICMP error about what they sent last ends none. */
static void every_state(void)
{
	for (unsigned st = 0; st < URXE_CM_N_STATES; st++) {
		for (unsigned peer = 0; peer < 2; peer++) {
			enum urxe_cm_state before;
			struct rig r;

			if (st == URXE_CM_REQ_SENT || st == URXE_CM_SIDR_REQ_SENT)
				continue;
			start(&r, st);
			before = row(r.id);
			report(&r, peer, EHOSTUNREACH);
			report(&r, peer, EHOSTUNREACH);
			CU_ASSERT_EQUAL(row(r.id), before);
			CU_ASSERT_EQUAL(r.n_events, 0);
			rig_close(&r);
		}
	}
}

/* The peer's own host: two sends that it refuses, however often each, and 200 ms of silence. */
static void own_host(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct rig r;

		start(&r, asking[i]);
		for (unsigned k = 0; k < 10; k++)
			report(&r, true, ECONNREFUSED);
		wait_ms(&r, 190);
		CU_ASSERT_EQUAL(r.n_sent, 1);
		wait_ms(&r, 20);
		CU_ASSERT_EQUAL(r.n_sent, 2);
		CU_ASSERT_EQUAL(r.n_events, 0);
		report(&r, true, ECONNREFUSED);
		wait_ms(&r, 190);
		CU_ASSERT_EQUAL(r.n_events, 0);
		wait_ms(&r, 20);
		CU_ASSERT_EQUAL(r.n_events, 1);
		CU_ASSERT_EQUAL(r.event, ended[i]);
		CU_ASSERT_EQUAL(r.error, ECONNREFUSED);
		CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->unreachable, 1);
		/* The next request of the same id begins anew. */
		do_call(&r, i ? URXE_CM_IN_SEND_SIDR_REQ : URXE_CM_IN_SEND_REQ);
		report(&r, true, ECONNREFUSED);
		wait_ms(&r, 300);
		CU_ASSERT_EQUAL(r.n_events, 1);
		rig_close(&r);
	}
}

/* Refused once, or by a host that sends MADs all the same: the time-out's 4.6 s and errno. */
static void peer_is_there(void)
{
	for (unsigned heard = 0; heard < 2; heard++) {
		struct rig r;

		start(&r, URXE_CM_REQ_SENT);
		for (unsigned ms = 0; ms < 4000; ms += 100) {
			if (heard || !ms)
				report(&r, true, ECONNREFUSED);
			/* of another connection */
			if (heard && ms == 100) {
				uint8_t m[URXE_MAD_LEN];

				urxe_mad_init(m, URXE_MAD_DREP, 7);
				urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
			}
			wait_ms(&r, 100);
		}
		CU_ASSERT_EQUAL(r.n_events, 0);
		/* A peer that is heard is asked for longer. */
		wait_ms(&r, heard ? 8000 : 1000);
		CU_ASSERT_EQUAL(r.n_events, 1);
		CU_ASSERT_EQUAL(r.error, heard ? 0 : ECONNREFUSED);
		rig_close(&r);
	}
}

/* An answer after each refusal: the connection is made. */
static void answered(void)
{
	static const enum urxe_cm_input in[] = {URXE_CM_IN_REP, URXE_CM_IN_MRA_REQ};

	for (unsigned i = 0; i < 2; i++) {
		struct rig r;

		start(&r, URXE_CM_REQ_SENT);
		report(&r, true, ECONNREFUSED);
		wait_ms(&r, 210);
		report(&r, true, ECONNREFUSED);
		wait_ms(&r, 100);
		peer_says(&r, in[i]);
		report(&r, true, ECONNREFUSED);
		wait_ms(&r, 500);
		CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->unreachable, 0);
		if (in[i] == URXE_CM_IN_MRA_REQ) {
			CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_REP_WAIT);
			peer_says(&r, URXE_CM_IN_REP);
		}
		CU_ASSERT_EQUAL(urxe_cm_send_rtu(r.id, NULL, 0), 0);
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_ESTABLISHED);
		rig_close(&r);
	}
}

/* A consumer's own times: one send, or long waits that are cut. Whom a peer is to ask, waits. */
static void own_times(void)
{
	static const struct {
		uint32_t wait;
		uint8_t tries;
		bool peer_to_peer;
		unsigned sends;
	} c[] = {{4000, 1, false, 1}, {4000, 5, false, 2}, {4000, 5, true, 1}};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct urxe_cm_req req = {.service_id = SERVICE,
					  .qp_type = IBV_QPT_RC,
					  .wait_ms = c[i].wait,
					  .tries = c[i].tries,
					  .peer_to_peer = c[i].peer_to_peer,
					  .conn.qpn = OWN_QPN};
		struct rig r;

		rig_open(&r, OWN_GUID);
		r.id = urxe_cm_new_id(r.cm, rig_handler, &r);
		req.path = rig_path(&r);
		CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), 0);
		for (unsigned ms = 0; ms < 1000; ms += 50) {
			if (sent_attr(&r) == URXE_MAD_REQ)
				report(&r, true, ECONNREFUSED);
			wait_ms(&r, 50);
		}
		CU_ASSERT_EQUAL(r.n_events, !c[i].peer_to_peer);
		CU_ASSERT_EQUAL(r.error, c[i].peer_to_peer ? 0 : ECONNREFUSED);
		/* and a REJ at the end */
		CU_ASSERT_EQUAL(r.n_sent, c[i].sends + !c[i].peer_to_peer);
		rig_close(&r);
	}
}

URXE_TEST_MAIN("cm_unreachable", T(router), T(forged), T(every_state), T(own_host),
	       T(peer_is_there), T(answered), T(own_times))
