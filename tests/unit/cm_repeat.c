/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What nobody answers, or may have been lost when the process ends: to whom an RTU and a DREP go
 * twice, and whose DREP is waited for. And what a busy peer is about to answer: it is not sent
 * twice.
 */
#include "cm_rig.h"

#define MS 1000000ull

/* Where the peer is. */
static const struct {
	bool shared, far, loses;
} links[] = {
	{false, false, true},
	{true, true, true},
	{true, false, false},
};

#define N_LINKS (sizeof(links) / sizeof(links[0]))

static void open_link(struct rig *r, unsigned i)
{
	rig_open_on(r, OWN_GUID, NULL, links[i].shared);
	r->far = links[i].far;
}

static void pass(struct rig *r, unsigned ms)
{
	r->n_sent = 0;
	r->now += ms * MS;
	urxe_cm_run(r->cm);
}

/* A peer of our kind asks again soon, as REP does that is not answered. */
static void rtu(void)
{
	for (unsigned i = 0; i < 2 * N_LINKS; i++) {
		struct rig r;

		open_link(&r, i / 2);
		r.probes = i % 2;
		bring_to(&r, URXE_CM_REP_RCVD);
		CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_RTU), 0);
		CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_RTU);
		pass(&r, 199);
		CU_ASSERT_EQUAL(r.n_sent, 0);
		pass(&r, 1);
		CU_ASSERT_EQUAL(r.n_sent, links[i / 2].loses && !r.probes);
		CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_RTU);
		CU_ASSERT_EQUAL(row(r.id), URXE_CM_ESTABLISHED);
		pass(&r, 1000);
		CU_ASSERT_EQUAL(r.n_sent, 0);
		rig_close(&r);
	}
}

static void drep(void)
{
	for (unsigned i = 0; i < N_LINKS; i++) {
		struct rig r;

		open_link(&r, i);
		bring_to(&r, URXE_CM_DREQ_RCVD);
		CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_DREP), 0);
		pass(&r, 199);
		CU_ASSERT_EQUAL(r.n_sent, 0);
		pass(&r, 1);
		CU_ASSERT_EQUAL(r.n_sent, links[i].loses);
		CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_DREP);
		pass(&r, 799);
		CU_ASSERT_EQUAL(r.n_sent, 0);
		CU_ASSERT_EQUAL(row(r.id), URXE_CM_TIMEWAIT);
		pass(&r, 1);
		CU_ASSERT_EQUAL(r.event, URXE_CM_EV_TIMEWAIT_EXIT);
		CU_ASSERT_EQUAL(row(r.id), URXE_CM_IDLE);
		CU_ASSERT_EQUAL(r.n_sent, 0);
		rig_close(&r);
	}
}

/* An RTU that was to go once more does not become a DREP that nobody asked for. */
static void other_end(void)
{
	struct rig r;

	open_link(&r, 0);
	bring_to(&r, URXE_CM_REP_RCVD);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_RTU), 0);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_DREQ), 0);
	peer_says(&r, URXE_CM_IN_DREP);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_TIMEWAIT);
	pass(&r, 999);
	CU_ASSERT_EQUAL(r.n_sent, 0);
	pass(&r, 1);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_IDLE);
	rig_close(&r);
}

static void parting(void)
{
	for (unsigned i = 0; i < N_LINKS; i++) {
		struct rig r;

		open_link(&r, i);
		bring_to(&r, URXE_CM_ESTABLISHED);
		CU_ASSERT_FALSE(urxe_cm_parting(r.cm));
		CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_DREQ), 0);
		CU_ASSERT_EQUAL(urxe_cm_parting(r.cm), links[i].loses);
		peer_says(&r, URXE_CM_IN_DREP);
		CU_ASSERT_FALSE(urxe_cm_parting(r.cm));
		rig_close(&r);
	}
}

/* It has answered another REQ after 150 ms: for half as long again it has ours among its work. */
static void busy(void)
{
	struct urxe_cm_id *other;
	struct rig r;

	open_link(&r, 0);
	bring_to(&r, URXE_CM_REQ_SENT);
	other = r.id;
	bring_to(&r, URXE_CM_REQ_SENT);
	pass(&r, 150);
	r.id = other;
	peer_says(&r, URXE_CM_IN_REP);
	CU_ASSERT_EQUAL(row(other), URXE_CM_REP_RCVD);
	pass(&r, 50);
	CU_ASSERT_EQUAL(r.n_sent, 0);
	pass(&r, 24);
	CU_ASSERT_EQUAL(r.n_sent, 0);
	pass(&r, 1);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REQ);
	rig_close(&r);
}

/* The same peer, but nothing has come from it since: what is lost is sent again as soon as ever. */
static void silent(void)
{
	struct rig r;

	open_link(&r, 0);
	bring_to(&r, URXE_CM_REQ_SENT);
	pass(&r, 190);
	peer_says(&r, URXE_CM_IN_REP);
	urxe_cm_destroy(r.id);
	run_out(&r);
	bring_to(&r, URXE_CM_REQ_SENT);
	pass(&r, 199);
	CU_ASSERT_EQUAL(r.n_sent, 0);
	pass(&r, 1);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REQ);
	rig_close(&r);
}

static void busy_at_the_end(void)
{
	struct rig r;

	open_link(&r, 0);
	bring_to(&r, URXE_CM_DREQ_SENT);
	pass(&r, 90);
	peer_says(&r, URXE_CM_IN_DREP);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_TIMEWAIT);
	urxe_cm_destroy(r.id);
	run_out(&r);
	bring_to(&r, URXE_CM_DREQ_SENT);
	pass(&r, 50);
	/* Whatever comes from it shows that it is there. */
	peer_says(&r, URXE_CM_IN_RTU);
	CU_ASSERT_EQUAL(row(r.id), URXE_CM_DREQ_SENT);
	pass(&r, 84);
	CU_ASSERT_EQUAL(r.n_sent, 0);
	pass(&r, 1);
	CU_ASSERT_EQUAL(r.n_sent, 1);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_DREQ);
	rig_close(&r);
}

/* Number @n of the peer's connections. */
static void connect(struct rig *r, uint32_t n)
{
	uint8_t m[URXE_MAD_LEN];

	r->id = NULL;
	peer_mad(r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_LOCAL_COMM_ID, n);
	urxe_mad_put(m, URXE_REQ_LOCAL_QPN, n);
	urxe_cm_recv(r->cm, &r->src, m, sizeof(m));
	CU_ASSERT_PTR_NOT_NULL_FATAL(r->id);
	CU_ASSERT_EQUAL(do_call(r, URXE_CM_IN_SEND_REP), 0);
	peer_mad(r, URXE_CM_IN_RTU, m);
	urxe_mad_put(m, URXE_RTU_LOCAL_COMM_ID, n);
	urxe_cm_recv(r->cm, &r->src, m, sizeof(m));
	CU_ASSERT_EQUAL(row(r->id), URXE_CM_ESTABLISHED);
}

/* 64 that are new are asked at once whether they are there; those that come with them wait. */
static void crowd(void)
{
	struct rig r;

	open_link(&r, 0);
	for (uint32_t n = 1; n <= 100; n++)
		connect(&r, n);
	pass(&r, 49);
	CU_ASSERT_EQUAL(r.n_sent, 0);
	pass(&r, 1);
	CU_ASSERT_EQUAL(r.n_sent, 64);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REP);
	/* Of these nobody answers: they are asked again each quarter of a second. */
	pass(&r, 700);
	CU_ASSERT_EQUAL(r.n_sent, 64);
	pass(&r, 250);
	CU_ASSERT_EQUAL(r.n_sent, 100);
	rig_close(&r);
}

URXE_TEST_MAIN("cm_repeat", T(crowd), T(rtu), T(drep), T(other_end), T(parting), T(busy), T(silent),
	       T(busy_at_the_end))
