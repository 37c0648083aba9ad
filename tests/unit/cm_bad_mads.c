/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * MADs that broke others: of other classes and lengths, again while the consumer is slow, and with
 * comm ids of connections that the peer has forgotten.
 */
#include <stdlib.h>

#include "cm_rig.h"

#define CLASS_SA     0x03
#define GET_TABLE_RE 0x92
#define RMPP_AT	     24 /* version, type, flags, status; segment; payload length */

static unsigned all_received(const struct rig *r)
{
	const struct urxe_cm_counters *c = urxe_cm_get_counters(r->cm);
	unsigned n = 0;

	for (unsigned i = 0; i < sizeof(c->received) / sizeof(c->received[0]); i++)
		n += (unsigned)c->received[i];
	return n;
}

/* There is no SA here, so nothing is put together of segments, in whichever order they come. */
static void rmpp_descending_segments(void)
{
	const struct urxe_cm_counters *c;
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	c = urxe_cm_get_counters(r.cm);
	for (uint32_t segment = 9; segment; segment--) {
		urxe_mad_init(m, URXE_MAD_REQ, 77);
		m[1] = CLASS_SA;
		m[2] = 2;
		m[3] = GET_TABLE_RE;
		m[RMPP_AT] = 1;			       /* version */
		m[RMPP_AT + 1] = 1;		       /* DATA */
		m[RMPP_AT + 2] = segment == 1 ? 7 : 1; /* active; the first and the last */
		urxe_put32(m + RMPP_AT + 4, segment);
		urxe_put32(m + RMPP_AT + 8, segment * 220 - 400);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	}
	CU_ASSERT_EQUAL(c->drop_malformed, 9);
	CU_ASSERT_EQUAL(all_received(&r), 0);
	CU_ASSERT(!r.n_sent && !r.n_events);
	rig_close(&r);
}

/* Shorter, longer, or what a length below nothing becomes: dropped unread. */
static void lengths(void)
{
	uint8_t req[URXE_MAD_LEN];
	unsigned dropped = 0;
	struct rig r;

	rig_open(&r, OWN_GUID);
	peer_mad(&r, URXE_CM_IN_REQ, req);
	for (uint32_t len = 0; len < 2 * URXE_MAD_LEN; len++) {
		/* No longer than it says, for those who look. */
		uint8_t *m = calloc(1, len ? len : 1);

		memcpy(m, req, len < sizeof(req) ? len : sizeof(req));
		if (len != URXE_MAD_LEN) {
			urxe_cm_recv(r.cm, &r.src, m, len);
			dropped++;
		}
		free(m);
	}
	for (uint32_t below = 1; below <= 300; below++, dropped++)
		urxe_cm_recv(r.cm, &r.src, req, 0u - below);
	CU_ASSERT_EQUAL(urxe_cm_get_counters(r.cm)->drop_malformed, dropped);
	CU_ASSERT(!all_received(&r) && !r.n_sent && !r.n_events);
	/* The MAD itself is fine. */
	urxe_cm_recv(r.cm, &r.src, req, sizeof(req));
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REQ_RECEIVED);
	rig_close(&r);
}

/* The peer asks again while the consumer thinks: one id, one event, an MRA for each; then the REP.
 */
static void duplicate_req_slow_accept(void)
{
	const struct urxe_cm_counters *c;
	struct urxe_cm_id *id;
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REQ_RCVD);
	c = urxe_cm_get_counters(r.cm);
	id = r.id;
	r.now += 200 * 1000000;
	urxe_cm_run(r.cm);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_MRA);
	r.n_events = r.n_sent = 0;
	for (unsigned i = 1; i <= 5; i++) {
		peer_says(&r, URXE_CM_IN_REQ);
		CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_MRA);
		CU_ASSERT_EQUAL(r.n_sent, i);
		CU_ASSERT(!r.n_events && r.id == id);
	}
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REP), 0);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REP);
	CU_ASSERT_EQUAL(c->sent[URXE_MAD_REP - URXE_MAD_REQ], 1);
	/* One that was still under way gets the REP once more. */
	peer_says(&r, URXE_CM_IN_REQ);
	CU_ASSERT_EQUAL(c->sent[URXE_MAD_REP - URXE_MAD_REQ], 2);
	peer_says(&r, URXE_CM_IN_RTU);
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_RTU_RECEIVED);
	CU_ASSERT_EQUAL(urxe_cm_get_state(id), URXE_CM_ESTABLISHED);
	rig_close(&r);
}

/*
 * A peer that has forgotten all asks with the comm id of a connection that we still have. It gets
 * no second one by that name; when the old one is over, it gets in.
 */
static void old_comm_id(void)
{
	static const enum urxe_cm_state states[] = {URXE_CM_REQ_RCVD, URXE_CM_REP_SENT,
						    URXE_CM_ESTABLISHED};

	for (unsigned i = 0; i < 3; i++) {
		struct urxe_cm_id *old;
		uint8_t m[URXE_MAD_LEN];
		struct rig r;

		rig_open(&r, OWN_GUID);
		bring_to(&r, states[i]);
		old = r.id;
		peer_mad(&r, URXE_CM_IN_REQ, m);
		urxe_mad_put(m, URXE_REQ_LOCAL_QPN, PEER_QPN + 7);
		r.n_events = 0;
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT(!r.n_events && r.id == old);
		CU_ASSERT(row(old) == states[i] || (!i && row(old) == URXE_CM_MRA_REQ_SENT));
		urxe_cm_destroy(old);
		/* The peer does not answer what is said of the old one's end. */
		for (unsigned n = 0; n < 200 && !r.n_events; n++) {
			r.now += 100 * 1000000;
			urxe_cm_run(r.cm);
			urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		}
		CU_ASSERT(r.n_events == 1 && r.event == URXE_CM_EV_REQ_RECEIVED);
		rig_close(&r);
	}
}

/* Numbers that no QP of ours has come to the consumer as others do: the kernel's CM has no opinion.
 */
static void low_qpns(void)
{
	for (uint32_t qpn = 0; qpn < 2; qpn++) {
		uint8_t m[URXE_MAD_LEN];
		struct rig r;

		rig_open(&r, OWN_GUID);
		bring_to(&r, URXE_CM_IDLE);
		peer_mad(&r, URXE_CM_IN_REQ, m);
		urxe_mad_put(m, URXE_REQ_LOCAL_QPN, qpn);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REQ_RECEIVED);
		CU_ASSERT_EQUAL(urxe_cm_remote_qpn(r.told), qpn);
		rig_close(&r);
		rig_open(&r, OWN_GUID);
		bring_to(&r, URXE_CM_REQ_SENT);
		peer_mad(&r, URXE_CM_IN_REP, m);
		urxe_mad_put(m, URXE_REP_LOCAL_QPN, qpn);
		urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
		CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REP_RECEIVED);
		CU_ASSERT_EQUAL(urxe_cm_remote_qpn(r.id), qpn);
		rig_close(&r);
	}
}

URXE_TEST_MAIN("cm_bad_mads", T(rmpp_descending_segments), T(lengths), T(duplicate_req_slow_accept),
	       T(old_comm_id), T(low_qpns))
