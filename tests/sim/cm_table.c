/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The state table with a real peer: two IB CMs are brought to where one of them is in each state;
 * there it gets each call of the API, or each MAD of the conversation once more, or nothing. Then
 * both consumers go on, or are slow first, on a net that loses, doubles and reorders MADs by seed,
 * and then on a good one. In the end both are connected with each other, or neither is; each was
 * told of its end once at most; and when both ids are destroyed nothing is left.
 */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm_net.h"

#define SERVICE 0x0000000001061234ull
#define SEEDS	3
#define SCRIPT	"qnpnrn" /* to ESTABLISHED */

struct world;

struct side {
	struct world *w;
	unsigned index; /* 0: asks, 1: is asked */
	struct urxe_cm_id *id;
	bool connected, gone;
	unsigned ends_told;
};

struct world {
	struct cm_net net; /* first */
	struct side side[2];
	bool go_on; /* the script is over: consumers answer what they hear */
	uint64_t slow_until;
};

/* How a side gets to each state; see step(). */
static const struct {
	enum urxe_cm_state state;
	unsigned side;
	const char *script;
} ways[] = {
	{URXE_CM_IDLE, 0, ""},
	{URXE_CM_REQ_SENT, 0, "q"},
	{URXE_CM_REP_WAIT, 0, "qnmn"},
	{URXE_CM_REQ_RCVD, 1, "qn"},
	{URXE_CM_MRA_REQ_SENT, 1, "qnm"},
	{URXE_CM_REP_SENT, 1, "qnp"},
	{URXE_CM_MRA_REP_RCVD, 1, "qnpnMn"},
	{URXE_CM_REP_RCVD, 0, "qnpn"},
	{URXE_CM_MRA_REP_SENT, 0, "qnpnM"},
	{URXE_CM_ESTABLISHED, 0, SCRIPT},
	{URXE_CM_ESTABLISHED, 1, SCRIPT},
	{URXE_CM_DREQ_SENT, 0, SCRIPT "D"},
	{URXE_CM_DREQ_SENT, 1, SCRIPT "d"},
	{URXE_CM_DREQ_RCVD, 0, SCRIPT "dn"},
	{URXE_CM_DREQ_RCVD, 1, SCRIPT "Dn"},
	{URXE_CM_TIMEWAIT, 0, SCRIPT "dnE"},
	{URXE_CM_TIMEWAIT, 1, SCRIPT "dnEn"},
	{URXE_CM_LAP_IDLE, 0, SCRIPT "Lnan"},
	{URXE_CM_LAP_SENT, 0, SCRIPT "L"},
	{URXE_CM_LAP_SENT, 1, SCRIPT "l"},
	{URXE_CM_MRA_LAP_RCVD, 0, SCRIPT "Lnmn"},
	{URXE_CM_LAP_RCVD, 1, SCRIPT "Ln"},
	{URXE_CM_MRA_LAP_SENT, 1, SCRIPT "Lnm"},
	{URXE_CM_SIDR_REQ_SENT, 0, "s"},
	{URXE_CM_SIDR_REQ_RCVD, 1, "sn"},
};

static int do_call(struct side *s, enum urxe_cm_input in)
{
	struct urxe_cm_req req = {.service_id = SERVICE, .qp_type = IBV_QPT_RC};
	struct urxe_cm_path other = cm_net_path(s->index, !s->index, 1);
	struct urxe_cm_conn *c = &req.conn;
	int ret;

	req.path = cm_net_path(s->index, !s->index, 0);
	*c = (struct urxe_cm_conn){.qpn = 0x100 + s->index, .retry_count = 7, .rnr_retry_count = 7};
	switch (in) {
	case URXE_CM_IN_LISTEN:
		return urxe_cm_listen(s->id, SERVICE + 1, UINT64_MAX);
	case URXE_CM_IN_SEND_REQ:
		return urxe_cm_send_req(s->id, &req);
	case URXE_CM_IN_SEND_REP:
		return urxe_cm_send_rep(s->id, c);
	case URXE_CM_IN_SEND_RTU:
		ret = urxe_cm_send_rtu(s->id, NULL, 0);
		s->connected |= !ret;
		return ret;
	case URXE_CM_IN_SEND_REJ:
		ret = urxe_cm_send_rej(s->id, URXE_CM_REJ_CONSUMER, NULL, 0, NULL, 0);
		s->connected &= !!ret;
		return ret;
	case URXE_CM_IN_SEND_MRA:
		return urxe_cm_send_mra(s->id, 16, NULL, 0);
	case URXE_CM_IN_SEND_DREQ:
		ret = urxe_cm_send_dreq(s->id, NULL, 0);
		s->connected &= !!ret;
		return ret;
	case URXE_CM_IN_SEND_DREP:
		return urxe_cm_send_drep(s->id, NULL, 0);
	case URXE_CM_IN_ESTABLISH:
		return urxe_cm_notify_established(s->id);
	case URXE_CM_IN_SEND_SIDR_REQ:
		return urxe_cm_send_sidr_req(s->id, &req.path, SERVICE, NULL, 0);
	case URXE_CM_IN_SEND_SIDR_REP:
		return urxe_cm_send_sidr_rep(s->id, URXE_CM_SIDR_SUCCESS, 5, 6, NULL, 0);
	case URXE_CM_IN_SEND_LAP:
		return urxe_cm_send_lap(s->id, &other, NULL, 0);
	case URXE_CM_IN_SEND_APR:
		return urxe_cm_send_apr(s->id, URXE_CM_APR_SUCCESS, NULL, 0, NULL, 0);
	case URXE_CM_IN_PATH_MIG:
		return urxe_cm_notify_migrated(s->id);
	case URXE_CM_IN_IGNORE:
		return urxe_cm_ignore(s->id);
	default:
		urxe_cm_destroy(s->id);
		s->gone = true;
		s->connected = false;
		return 0;
	}
}

/* What a consumer owes in a state. */
static void answer(struct side *s)
{
	enum urxe_cm_state state = s->gone || !s->id ? URXE_CM_IDLE : urxe_cm_get_state(s->id);

	if (state == URXE_CM_ESTABLISHED)
		state = urxe_cm_get_lap_state(s->id);
	switch (state) {
	case URXE_CM_REQ_RCVD:
	case URXE_CM_MRA_REQ_SENT:
		do_call(s, URXE_CM_IN_SEND_REP);
		break;
	case URXE_CM_REP_RCVD:
	case URXE_CM_MRA_REP_SENT:
		do_call(s, URXE_CM_IN_SEND_RTU);
		break;
	case URXE_CM_DREQ_RCVD:
		do_call(s, URXE_CM_IN_SEND_DREP);
		break;
	case URXE_CM_LAP_RCVD:
	case URXE_CM_MRA_LAP_SENT:
		do_call(s, URXE_CM_IN_SEND_APR);
		break;
	case URXE_CM_SIDR_REQ_RCVD:
		do_call(s, URXE_CM_IN_SEND_SIDR_REP);
		break;
	default:
		break;
	}
}

static int handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct side *s = context;

	switch (ev->type) {
	case URXE_CM_EV_RTU_RECEIVED:
	case URXE_CM_EV_USER_ESTABLISHED:
		s->connected = true;
		break;
	case URXE_CM_EV_REQ_ERROR:
	case URXE_CM_EV_REP_ERROR:
	case URXE_CM_EV_REJ_RECEIVED:
	case URXE_CM_EV_DREQ_ERROR:
	case URXE_CM_EV_DREQ_RECEIVED:
	case URXE_CM_EV_DREP_RECEIVED:
	case URXE_CM_EV_PEER_LOST:
		s->ends_told++;
		s->connected = false;
		break;
	default:
		break;
	}
	if (s->w->go_on && s->w->net.now >= s->w->slow_until)
		answer(s);
	return 0;
}

static int listen_handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct world *w = (struct world *)((struct cm_node *)context)->net;
	struct side *s = &w->side[1];

	/* A second one is nobody's. */
	if (s->id)
		return 1;
	s->id = id;
	urxe_cm_set_handler(id, handler, s);
	return handler(id, ev, s);
}

/* Capital letters are the asking side's. */
static void step(struct world *w, char what)
{
	static const struct {
		char what;
		unsigned side;
		enum urxe_cm_input in;
	} steps[] = {
		{'q', 0, URXE_CM_IN_SEND_REQ},	{'p', 1, URXE_CM_IN_SEND_REP},
		{'r', 0, URXE_CM_IN_SEND_RTU},	{'m', 1, URXE_CM_IN_SEND_MRA},
		{'M', 0, URXE_CM_IN_SEND_MRA},	{'d', 1, URXE_CM_IN_SEND_DREQ},
		{'D', 0, URXE_CM_IN_SEND_DREQ}, {'E', 0, URXE_CM_IN_SEND_DREP},
		{'l', 1, URXE_CM_IN_SEND_LAP},	{'L', 0, URXE_CM_IN_SEND_LAP},
		{'a', 1, URXE_CM_IN_SEND_APR},	{'s', 0, URXE_CM_IN_SEND_SIDR_REQ},
	};

	if (what == 'n') {
		cm_net_run(&w->net, w->net.now + 2 * MS);
		return;
	}
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (steps[i].what == what)
			CU_ASSERT_EQUAL_FATAL(do_call(&w->side[steps[i].side], steps[i].in), 0);
	}
}

static struct world *open_world(unsigned way, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	enum urxe_cm_state state;

	CU_ASSERT_PTR_NOT_NULL_FATAL(w);
	cm_net_open(&w->net, seed, 0, 0, 1 * MS);
	for (unsigned i = 0; i < 2; i++)
		w->side[i] = (struct side){.w = w, .index = i};
	w->side[0].id = urxe_cm_new_id(w->net.node[0].cm, handler, &w->side[0]);
	w->net.node[1].listener =
		urxe_cm_new_id(w->net.node[1].cm, listen_handler, &w->net.node[1]);
	CU_ASSERT_EQUAL(urxe_cm_listen(w->net.node[1].listener, SERVICE, UINT64_MAX), 0);
	for (const char *c = ways[way].script; *c; c++)
		step(w, *c);
	state = urxe_cm_get_state(w->side[ways[way].side].id);
	if (state == URXE_CM_ESTABLISHED && ways[way].state != state)
		state = urxe_cm_get_lap_state(w->side[ways[way].side].id);
	if (state != ways[way].state)
		printf("\n%s leads to %s\n", ways[way].script, urxe_cm_state_names[state]);
	CU_ASSERT_EQUAL_FATAL(state, ways[way].state);
	return w;
}

static unsigned check(const struct world *w)
{
	unsigned bad = 0;

	if (w->side[0].connected != w->side[1].connected)
		bad++;
	for (unsigned i = 0; i < 2; i++) {
		const struct side *s = &w->side[i];

		bad += s->ends_told > 1;
		if (s->connected && urxe_cm_get_state(s->id) != URXE_CM_ESTABLISHED)
			bad++;
		if (s->connected && urxe_cm_get_lap_state(s->id) != URXE_CM_LAP_IDLE)
			bad++;
	}
	return bad;
}

static unsigned close_world(struct world *w)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < 2; i++) {
		if (w->side[i].id && !w->side[i].gone)
			do_call(&w->side[i], URXE_CM_IN_DESTROY);
	}
	urxe_cm_destroy(w->net.node[1].listener);
	cm_net_run(&w->net, w->net.now + 60000 * MS);
	for (unsigned i = 0; i < CM_NET_NODES; i++) {
		bad += !urxe_cm_is_idle(w->net.node[i].cm);
		bad += urxe_cm_deadline(w->net.node[i].cm) != UINT64_MAX;
		for (unsigned st = 0; st < URXE_CM_N_STATES; st++)
			bad += urxe_cm_get_counters(w->net.node[i].cm)->states[st] != 0;
	}
	cm_net_close(&w->net);
	free(w);
	return bad;
}

struct weather {
	unsigned loss, dup;
	uint64_t max_delay;
};

/* @in: a call; beyond them a MAD that was said, or nothing. Returns false when there is no such. */
static bool run(unsigned way, unsigned in, const struct weather *weather, uint64_t seed)
{
	struct world *w = open_world(way, seed);
	struct side *s = &w->side[ways[way].side];
	unsigned bad = 0, again = in - URXE_CM_IN_DESTROY - 1;
	int ret = 0;

	if (in > URXE_CM_IN_DESTROY && again > w->net.n_said) {
		close_world(w);
		return false;
	}
	w->net.loss = weather->loss;
	w->net.dup = weather->dup;
	w->net.max_delay = weather->max_delay;
	w->slow_until = w->net.now + (seed % 2 ? 0 : 3000 * MS);
	w->go_on = true;
	if (in <= URXE_CM_IN_DESTROY)
		ret = do_call(s, in);
	else if (again < w->net.n_said)
		cm_net_again(&w->net, again);
	bad += ret && ret != EINVAL && ret != EISCONN;
	cm_net_run(&w->net, w->slow_until);
	for (unsigned i = 0; i < 2; i++)
		answer(&w->side[i]);
	cm_net_run(&w->net, w->net.now + 30000 * MS);
	w->net.loss = w->net.dup = 0;
	w->net.max_delay = 1 * MS;
	cm_net_run(&w->net, w->net.now + 30000 * MS);
	bad += check(w);
	if (bad)
		printf("\n%s (side %u) x %s, loss %u dup %u delay %lu ms seed %lu: connected %u "
		       "%u, "
		       "told %u %u\n",
		       urxe_cm_state_names[ways[way].state], ways[way].side,
		       in <= URXE_CM_IN_DESTROY ? urxe_cm_input_names[in]
		       : again < w->net.n_said	? "MAD again"
						: "nothing",
		       weather->loss, weather->dup, (unsigned long)(weather->max_delay / MS),
		       (unsigned long)seed, w->side[0].connected, w->side[1].connected,
		       w->side[0].ends_told, w->side[1].ends_told);
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_EQUAL(close_world(w), 0);
	return true;
}

static void in_weather(const struct weather *weather)
{
	for (unsigned way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			for (unsigned in = 0; run(way, in, weather, seed); in++)
				;
		}
	}
}

static void clean(void)
{
	in_weather(&(struct weather){0, 0, 1 * MS});
}

static void lossy(void)
{
	in_weather(&(struct weather){15, 0, 1 * MS});
}

static void doubled_and_reordered(void)
{
	in_weather(&(struct weather){0, 40, 300 * MS});
}

static void everything(void)
{
	in_weather(&(struct weather){12, 20, 100 * MS});
}

URXE_TEST_MAIN("cm_table", T(clean), T(lossy), T(doubled_and_reordered), T(everything))
