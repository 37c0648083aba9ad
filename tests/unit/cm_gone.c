/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The end of a peer's process (urxe_cm_gone()): what an id in each state is told at once, that
 * others' are told nothing, and that requests without an answer ask again; and that of our own
 * (urxe_cm_goodbye()).
 */
#include "cm_rig.h"

#define SLOT (PEER_COMM & 0xff000000u)
#define MASK 0xff000000u

static void each_state(void)
{
	static const struct {
		enum urxe_cm_state state, next;
		enum urxe_cm_event_type event; /* NONE: nothing */
	} c[] = {
		{URXE_CM_REP_WAIT, URXE_CM_IDLE, URXE_CM_EV_REJ_RECEIVED},
		{URXE_CM_REQ_RCVD, URXE_CM_IDLE, URXE_CM_EV_REJ_RECEIVED},
		{URXE_CM_MRA_REQ_SENT, URXE_CM_IDLE, URXE_CM_EV_REJ_RECEIVED},
		{URXE_CM_REP_RCVD, URXE_CM_TIMEWAIT, URXE_CM_EV_REJ_RECEIVED},
		{URXE_CM_MRA_REP_SENT, URXE_CM_TIMEWAIT, URXE_CM_EV_REJ_RECEIVED},
		{URXE_CM_REP_SENT, URXE_CM_TIMEWAIT, URXE_CM_EV_REJ_RECEIVED},
		{URXE_CM_MRA_REP_RCVD, URXE_CM_TIMEWAIT, URXE_CM_EV_REJ_RECEIVED},
		{URXE_CM_ESTABLISHED, URXE_CM_DREQ_RCVD, URXE_CM_EV_DREQ_RECEIVED},
		{URXE_CM_LAP_SENT, URXE_CM_DREQ_RCVD, URXE_CM_EV_DREQ_RECEIVED},
		{URXE_CM_LAP_RCVD, URXE_CM_DREQ_RCVD, URXE_CM_EV_DREQ_RECEIVED},
		{URXE_CM_DREQ_SENT, URXE_CM_TIMEWAIT, URXE_CM_EV_DREP_RECEIVED},
		{URXE_CM_DREQ_RCVD, URXE_CM_DREQ_RCVD, URXE_CM_EV_NONE},
		{URXE_CM_TIMEWAIT, URXE_CM_TIMEWAIT, URXE_CM_EV_NONE},
		{URXE_CM_IDLE, URXE_CM_IDLE, URXE_CM_EV_NONE},
		{URXE_CM_SIDR_REQ_RCVD, URXE_CM_SIDR_REQ_RCVD, URXE_CM_EV_NONE},
		{URXE_CM_REQ_SENT, URXE_CM_REQ_SENT, URXE_CM_EV_NONE},
		{URXE_CM_SIDR_REQ_SENT, URXE_CM_SIDR_REQ_SENT, URXE_CM_EV_NONE},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct rig r;
		unsigned n;

		rig_open(&r, OWN_GUID);
		bring_to(&r, c[i].state);
		n = r.n_events;
		/* Another process: nothing. */
		urxe_cm_gone(r.cm, SLOT ^ 0x01000000u, MASK);
		CU_ASSERT_EQUAL(r.n_events, n);
		CU_ASSERT_EQUAL(row(r.id), c[i].state);
		urxe_cm_gone(r.cm, SLOT, MASK);
		CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), c[i].next);
		CU_ASSERT_EQUAL(r.n_events, n + (c[i].event != URXE_CM_EV_NONE));
		if (c[i].event != URXE_CM_EV_NONE)
			CU_ASSERT_EQUAL(r.event, c[i].event);
		if (c[i].event == URXE_CM_EV_REJ_RECEIVED)
			CU_ASSERT_EQUAL(r.reason, URXE_CM_REJ_CONSUMER);
		/* Once is enough. */
		n = r.n_events;
		urxe_cm_gone(r.cm, SLOT, MASK);
		CU_ASSERT_EQUAL(r.n_events, n);
		rig_close(&r);
	}
}

/* To an address that other processes have, too, a request goes out once more: it is no try. */
static void asks_others(void)
{
	struct urxe_cm_req req = {.service_id = SERVICE, .qp_type = IBV_QPT_RC};
	struct rig r;
	unsigned n;

	rig_open(&r, OWN_GUID);
	req.path = rig_path(&r);
	req.path.dgid = req.path.sgid;
	r.id = urxe_cm_new_id(r.cm, rig_handler, &r);
	CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), 0);
	n = r.n_sent;
	for (unsigned i = 0; i < 20; i++)
		urxe_cm_gone(r.cm, i << 24, MASK);
	CU_ASSERT_EQUAL(r.n_sent, n + 20);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REQ);
	CU_ASSERT_EQUAL(urxe_cm_get_state(r.id), URXE_CM_REQ_SENT);
	/* Likewise to another host, where another process may have the address by now. */
	req.path = rig_path(&r);
	r.id = urxe_cm_new_id(r.cm, rig_handler, &r);
	CU_ASSERT_EQUAL(urxe_cm_send_sidr_req(r.id, &req.path, SERVICE, NULL, 0), 0);
	n = r.n_sent;
	urxe_cm_gone(r.cm, SLOT, MASK);
	CU_ASSERT_EQUAL(r.n_sent, n + 2);
	CU_ASSERT_EQUAL(r.n_events, 0);
	/* Or nobody has it: the wait is over. */
	r.nobody = true;
	urxe_cm_gone(r.cm, SLOT, MASK);
	CU_ASSERT_EQUAL(r.n_events, 2);
	CU_ASSERT_EQUAL(r.error, EHOSTUNREACH);
	rig_close(&r);
}

/* Comm ids from beyond a gateway are of any kind: the end of a process here says nothing of them.
 */
static void far_away(void)
{
	static const enum urxe_cm_state states[] = {
		URXE_CM_REP_WAIT,    URXE_CM_REQ_RCVD,	URXE_CM_REP_RCVD, URXE_CM_REP_SENT,
		URXE_CM_ESTABLISHED, URXE_CM_DREQ_SENT, URXE_CM_REQ_SENT};

	for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct rig r;
		unsigned n, sent;

		rig_open(&r, OWN_GUID);
		bring_to(&r, states[i]);
		r.far = r.nobody = true;
		n = r.n_events;
		sent = r.n_sent;
		urxe_cm_gone(r.cm, SLOT, MASK);
		CU_ASSERT_EQUAL(r.n_events, n);
		CU_ASSERT_EQUAL(r.n_sent, sent);
		CU_ASSERT_EQUAL(row(r.id), states[i]);
		r.far = r.nobody = false;
		rig_close(&r);
	}
}

/* A way that carries less than ours: the REJ says what would do. */
static void less_mtu(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct rig r;

	rig_open(&r, OWN_GUID);
	r.max_mtu = IBV_MTU_1024;
	peer_mad(&r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_PATH_MTU, IBV_MTU_2048);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REJ);
	CU_ASSERT_EQUAL(urxe_mad_get16(r.sent, URXE_REJ_REASON), URXE_CM_REJ_INVALID_MTU);
	CU_ASSERT_EQUAL(*urxe_mad_cbytes(r.sent, URXE_REJ_ARI), IBV_MTU_1024);
	urxe_mad_put(m, URXE_REQ_PATH_MTU, IBV_MTU_1024);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REQ_RECEIVED);
	rig_close(&r);
}

/* The handler ends its id, and any other. */
static struct urxe_cm_id *other;

static int ender(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	if (ev->type == URXE_CM_EV_REJ_RECEIVED && other && id != other) {
		urxe_cm_destroy(other);
		other = NULL;
	}
	return ev->type == URXE_CM_EV_REJ_RECEIVED;
}

static void in_handlers(void)
{
	struct urxe_cm_id *a;
	struct rig r;

	rig_open(&r, OWN_GUID);
	bring_to(&r, URXE_CM_REP_WAIT);
	a = r.id;
	bring_to(&r, URXE_CM_REP_WAIT);
	other = r.id;
	urxe_cm_set_handler(a, ender, &r);
	urxe_cm_set_handler(r.id, ender, &r);
	urxe_cm_gone(r.cm, SLOT, MASK);
	run_out(&r);
	rig_close(&r);
}

/* What it frees is of a pointer's size, however few ids there are: see urxe_free(). */
static void few(void)
{
	for (unsigned n = 0; n < 3; n++) {
		struct rig r;

		rig_open(&r, OWN_GUID);
		urxe_cm_destroy(r.listener);
		r.listener = NULL;
		for (unsigned i = 0; i < n; i++)
			CU_ASSERT_PTR_NOT_NULL_FATAL(urxe_cm_new_id(r.cm, rig_handler, &r));
		urxe_cm_gone(r.cm, SLOT, MASK);
		CU_ASSERT_EQUAL(r.n_events, 0);
		rig_close(&r);
	}
}

/* Our own end: a DREP that may have been lost is sent again, since nobody can ask for it later. */
static void our_end(void)
{
	for (unsigned late = 0; late < 2; late++) {
		struct rig r;
		unsigned n;

		rig_open(&r, OWN_GUID);
		bring_to(&r, URXE_CM_ESTABLISHED);
		peer_says(&r, URXE_CM_IN_DREQ);
		CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_DREP), 0);
		CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_DREP);
		CU_ASSERT_EQUAL(row(r.id), URXE_CM_TIMEWAIT);
		n = r.n_sent;
		r.now += late * 1000000000ull;
		urxe_cm_goodbye(r.cm);
		CU_ASSERT_EQUAL(r.n_sent, n + !late);
		CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_DREP);
		r.listener = NULL;
		rig_close(&r);
	}
}

URXE_TEST_MAIN("cm_gone", T(each_state), T(asks_others), T(far_away), T(less_mtu), T(in_handlers),
	       T(few), T(our_end))
