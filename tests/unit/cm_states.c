/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Every call in every state that it is wrong in: the errno, and that nothing has changed: no event
 * is there, and what was under way can be finished.
 */
#include "cm_rdma.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include <infiniband/sa.h>

/* ---- the calls, each on an id in some state; they are made for failing ---- */

static int c_bind(struct rdma_cm_id *id)
{
	return rdma_bind_addr(id, addr("10.0.0.1", 0));
}

static int c_resolve_addr(struct rdma_cm_id *id)
{
	return rdma_resolve_addr(id, NULL, addr("10.0.0.1", 1), 100);
}

static int c_resolve_route(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, 100);
}

static int c_listen(struct rdma_cm_id *id)
{
	return rdma_listen(id, 1);
}

static int c_connect(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.qp_num = 0x666};

	return rdma_connect(id, &param);
}

static int c_accept(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.qp_num = 0x666};

	return rdma_accept(id, &param);
}

static int c_reject(struct rdma_cm_id *id)
{
	return rdma_reject(id, NULL, 0);
}

static int c_reject_ece(struct rdma_cm_id *id)
{
	return rdma_reject_ece(id, NULL, 0);
}

static int c_establish(struct rdma_cm_id *id)
{
	return rdma_establish(id);
}

static int c_notify(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_COMM_EST);
}

static int c_notify_mig(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_PATH_MIG);
}

static int c_join(struct rdma_cm_id *id)
{
	return rdma_join_multicast(id, addr("239.1.2.3", 0), NULL);
}

static int c_leave(struct rdma_cm_id *id)
{
	return rdma_leave_multicast(id, addr("239.1.2.3", 0));
}

static int c_set_path(struct rdma_cm_id *id)
{
	struct ibv_path_data path = {.path.mtu = IBV_MTU_1024};

	return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path));
}

static int c_set_reuse(struct rdma_cm_id *id)
{
	int on = 1;

	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
}

static int c_set_afonly(struct rdma_cm_id *id)
{
	int on = 0;

	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
}

static int c_init_attr(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	return rdma_init_qp_attr(id, &attr, &mask);
}

static int c_rtr_attr(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask;

	return rdma_init_qp_attr(id, &attr, &mask);
}

static int c_create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = qp_attr();

	return rdma_create_qp(id, NULL, &attr);
}

static int c_create_srq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	return rdma_create_srq(id, NULL, &attr);
}

static int c_get_request(struct rdma_cm_id *id)
{
	struct rdma_cm_id *other;

	return rdma_get_request(id, &other);
}

static int c_disconnect(struct rdma_cm_id *id)
{
	return rdma_disconnect(id);
}

/* ---- the states ---- */

enum state {
	IDLE,
	BOUND,
	ADDR,
	ROUTE,
	LISTEN,
	SENT,	  /* REQ sent */
	REQUEST,  /* REQ received */
	RESPONSE, /* active: REP received, no QP on the id */
	ACCEPTED, /* passive: REP sent */
	ACTIVE,	  /* established */
	PASSIVE,
	ENDED, /* disconnected */
	REJECTED,
	N_STATES,
};

static const char *const state_names[N_STATES] = {
	"IDLE",	    "BOUND",	"ADDR",	  "ROUTE",   "LISTEN", "SENT",	  "REQUEST",
	"RESPONSE", "ACCEPTED", "ACTIVE", "PASSIVE", "ENDED",  "REJECTED"};

#define INV EINVAL
#define NON EADDRNOTAVAIL
#define CON EISCONN
/* clang-format off */
static const struct {
	const char *name;
	int (*call)(struct rdma_cm_id *id);
	int err[N_STATES]; /* 0: right there, or it ends what is under way (below) */
} calls[] = {
	/*                                 IDLE BND ADDR ROUT LSTN SENT REQ  RESP ACPT ACTV PASV END  REJ */
	{"bind_addr", c_bind,              {0, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV}},
	{"resolve_addr", c_resolve_addr,   {0,   0, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV}},
	{"resolve_route", c_resolve_route, {INV, INV, 0, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV}},
	{"listen", c_listen,               {0,   0, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV}},
	{"connect", c_connect,             {INV, INV, INV, 0, INV, INV, INV, INV, INV, INV, INV, INV, INV}},
	{"accept", c_accept,               {INV, INV, INV, INV, INV, 0,   0,   0, 0,   INV, INV, INV, INV}},
	{"reject", c_reject,               {INV, INV, INV, INV, INV, 0,   0,   0, 0,   INV, INV, INV, INV}},
	{"reject_ece", c_reject_ece,       {INV, INV, INV, INV, INV, 0,   0,   0, 0,   INV, INV, INV, INV}},
	{"establish", c_establish,         {INV, INV, INV, INV, INV, 0,   0,   0, 0,   INV, INV, INV, INV}},
	{"disconnect", c_disconnect,       {INV, INV, INV, INV, 0,   0,   0,   0,   0, 0,   0,   0,   0}},
	{"notify", c_notify,               {INV, INV, INV, INV, INV, INV, INV, INV, 0, CON, CON, INV, INV}},
	{"notify(MIG)", c_notify_mig,      {INV, INV, INV, INV, INV, INV, INV, INV, INV, 0,   0,   INV, INV}},
	{"join", c_join,                   {INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV}},
	{"leave", c_leave,                 {NON, NON, NON, NON, NON, NON, NON, NON, NON, NON, NON, NON, NON}},
	{"IB_PATH", c_set_path,            {INV, INV, 0, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV}},
	{"REUSEADDR", c_set_reuse,         {0,   0,   0,   0, INV, 0,   0,   0,   0,   0,   0,   0,   0}},
	{"AFONLY", c_set_afonly,           {0,   0, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV}},
	{"attr(INIT)", c_init_attr,        {INV, 0,   0,   0,   INV, 0,   0,   0, 0,   0,   0,   INV, INV}},
	{"attr(RTR)", c_rtr_attr,          {INV, INV, INV, INV, INV, INV, 0,   0, 0,   0,   0,   INV, INV}},
	{"create_qp", c_create_qp,         {INV, 0,   0,   0,   INV, 0,   0,   0, 0,   0,   0,   INV, INV}},
	{"create_srq", c_create_srq,       {INV, 0,   0,   0,   0,   0,   0,   0, 0,   0,   0,   0,   0}},
	{"get_request", c_get_request,     {INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV, INV}},
};
/* clang-format on */
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

/* A connection as far as it got: the listener, and both ids. */
struct scene {
	struct rdma_event_channel *lch, *cch;
	struct rdma_cm_id *l, *c, *s;
};

/* A number that no connection in timewait has. */
static uint32_t some_qpn(void)
{
	static uint32_t qpn = 0x1000;

	return qpn++;
}

/* No QPs on the ids: each step is the application's. */
static void go_to(struct scene *sc, enum state state)
{
	struct rdma_conn_param param = {.qp_num = some_qpn(), .retry_count = 7};

	sc->l = listener(sc->lch, "10.0.0.1", 4);
	sc->c = resolved(sc->cch, "10.0.0.1", ntohs(rdma_get_src_port(sc->l)));
	WORKS(rdma_connect(sc->c, &param));
	CU_ASSERT_EQUAL(expect(sc->lch, RDMA_CM_EVENT_CONNECT_REQUEST, &sc->s), 0);
	if (state == SENT || state == REQUEST)
		return;
	if (state == REJECTED) {
		WORKS(rdma_reject(sc->s, NULL, 0));
		CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_REJECTED, NULL), 28);
		return;
	}
	param.qp_num = some_qpn();
	WORKS(rdma_accept(sc->s, &param));
	CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL), 0);
	if (state == RESPONSE || state == ACCEPTED)
		return;
	WORKS(rdma_establish(sc->c));
	CU_ASSERT_EQUAL(expect(sc->lch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	if (state != ENDED)
		return;
	WORKS(rdma_disconnect(sc->c));
	CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	CU_ASSERT_EQUAL(expect(sc->lch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
}

static void go_alone(struct scene *sc, enum state state)
{
	WORKS(rdma_create_id(sc->cch, &sc->c, NULL, RDMA_PS_TCP));
	if (state == IDLE)
		return;
	if (state == ADDR || state == ROUTE) {
		WORKS(rdma_resolve_addr(sc->c, NULL, addr("10.0.0.1", 9), 1000));
		CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	} else {
		WORKS(rdma_bind_addr(sc->c, addr("10.0.0.1", 0)));
	}
	if (state == LISTEN)
		WORKS(rdma_listen(sc->c, 1));
	if (state == ROUTE) {
		WORKS(rdma_resolve_route(sc->c, 1000));
		CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
	}
}

static void close_scene(struct scene *sc)
{
	drop(sc->c);
	if (sc->s)
		drop(sc->s);
	if (sc->l)
		drop(sc->l);
	rdma_destroy_event_channel(sc->lch);
	rdma_destroy_event_channel(sc->cch);
}

/* From there on as if nothing had been. */
static void finish(struct scene *sc, enum state state)
{
	struct rdma_conn_param param = {.qp_num = some_qpn()};

	switch (state) {
	case SENT:
	case REQUEST:
		WORKS(rdma_accept(sc->s, &param));
		CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL), 0);
		/* fall through */
	case RESPONSE:
	case ACCEPTED:
		WORKS(rdma_establish(sc->c));
		CU_ASSERT_EQUAL(expect(sc->lch, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
		/* fall through */
	case ACTIVE:
	case PASSIVE:
		WORKS(rdma_disconnect(sc->s));
		CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
		CU_ASSERT_EQUAL(expect(sc->lch, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
		break;
	case IDLE:
		WORKS(rdma_bind_addr(sc->c, addr("10.0.0.1", 0)));
		/* fall through */
	case BOUND:
		WORKS(rdma_resolve_addr(sc->c, NULL, addr("10.0.0.1", 9), 1000));
		CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
		/* fall through */
	case ADDR:
		WORKS(rdma_resolve_route(sc->c, 1000));
		CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
		/* fall through */
	case ROUTE:
		WORKS(rdma_connect(sc->c, &param));
		CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_REJECTED, NULL), 8);
		break;
	case LISTEN: {
		struct rdma_cm_id *c, *s;

		c = resolved(sc->lch, "10.0.0.1", ntohs(rdma_get_src_port(sc->c)));
		WORKS(rdma_connect(c, &param));
		CU_ASSERT_EQUAL(expect(sc->cch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
		drop(s);
		drop(c);
		break;
	}
	default:
		break;
	}
}

static int pending(const struct rdma_event_channel *ch)
{
	struct pollfd pfd = {ch->fd, POLLIN, 0};

	return poll(&pfd, 1, 0);
}

static void wrong_states(void)
{
	for (enum state state = IDLE; state < N_STATES; state++) {
		struct scene sc = {.lch = rdma_create_event_channel(),
				   .cch = rdma_create_event_channel()};
		struct rdma_cm_id *id;
		uint16_t port;

		if (state <= LISTEN)
			go_alone(&sc, state);
		else
			go_to(&sc, state);
		id = state == REQUEST || state == ACCEPTED || state == PASSIVE ? sc.s : sc.c;
		port = rdma_get_src_port(id);
		for (unsigned i = 0; i < N_CALLS; i++) {
			int err = calls[i].err[state];

			if (!err)
				continue;
			errno = 0;
			if (calls[i].call(id) != -1 || errno != err)
				printf("\n%s in %s: %s, not %s\n", calls[i].name,
				       state_names[state], strerror(errno), strerror(err));
			CU_ASSERT_EQUAL(errno, err);
		}
		CU_ASSERT_EQUAL(rdma_get_src_port(id), port);
		/* An ended connection's timewait ends by itself. */
		if (state != ENDED) {
			CU_ASSERT_EQUAL(pending(sc.cch), 0);
			CU_ASSERT_EQUAL(pending(sc.lch), 0);
		}
		finish(&sc, state);
		close_scene(&sc);
	}
}

/* Where there is nothing to disconnect: no error, and the connection comes about as if nothing had
 * been. */
static void early_disconnect(void)
{
	static const enum state states[] = {LISTEN, SENT, REQUEST, RESPONSE};

	for (unsigned i = 0; i < 4; i++) {
		struct scene sc = {.lch = rdma_create_event_channel(),
				   .cch = rdma_create_event_channel()};

		if (states[i] == LISTEN)
			go_alone(&sc, LISTEN);
		else
			go_to(&sc, states[i]);
		WORKS(rdma_disconnect(states[i] == REQUEST ? sc.s : sc.c));
		CU_ASSERT_EQUAL(pending(sc.cch), 0);
		CU_ASSERT_EQUAL(pending(sc.lch), 0);
		finish(&sc, states[i]);
		close_scene(&sc);
	}
}

static int too_long(struct rdma_cm_id *id)
{
	static const char data[197];
	struct rdma_conn_param param = {
		.qp_num = 0x667, .private_data = data, .private_data_len = sizeof(data)};

	return rdma_accept(id, &param);
}

/* A REJ was sent to s and has arrived, for a later REQ has: no event, and accept fails. */
static void arrived_unheard(struct scene *sc)
{
	struct rdma_conn_param param = {.qp_num = some_qpn()};
	struct rdma_cm_id *c, *s;

	c = resolved(sc->cch, "10.0.0.1", ntohs(rdma_get_src_port(sc->l)));
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(sc->lch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	CU_ASSERT_EQUAL(pending(sc->lch), 0);
	drop(c);
	drop(s);
	FAILS(c_accept(sc->s), EINVAL);
	FAILS(c_reject(sc->s), EINVAL);
}

/* Who cannot accept, or confirm, has rejected: the peer need not wait, and the id is done. */
static void failed_answers(void)
{
	static const struct {
		enum state state;
		int (*call)(struct rdma_cm_id *id);
	} rows[] = {{REQUEST, too_long},  {REQUEST, c_establish},  {RESPONSE, c_accept},
		    {ACCEPTED, c_accept}, {ACCEPTED, c_establish}, {SENT, c_accept},
		    {SENT, c_establish}};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct scene sc = {.lch = rdma_create_event_channel(),
				   .cch = rdma_create_event_channel()};
		bool passive = rows[i].state == REQUEST || rows[i].state == ACCEPTED;
		struct rdma_cm_id *id;

		go_to(&sc, rows[i].state);
		id = passive ? sc.s : sc.c;
		FAILS(rows[i].call(id), EINVAL);
		/* Before the REP it names no id of the peer's, who finds out by accepting. */
		if (rows[i].state != SENT)
			CU_ASSERT_EQUAL(
				expect(passive ? sc.cch : sc.lch, RDMA_CM_EVENT_REJECTED, NULL),
				28);
		FAILS(rows[i].call(id), EINVAL);
		FAILS(c_accept(id), EINVAL);
		FAILS(c_create_qp(id), EINVAL);
		close_scene(&sc);
	}
}

/* With a QP on the id it is the QP that cannot: the connection comes about all the same. */
static void failed_with_qp(void)
{
	struct scene sc = {.lch = rdma_create_event_channel(), .cch = rdma_create_event_channel()};

	go_to(&sc, SENT);
	with_qp(sc.c);
	FAILS(c_accept(sc.c), EINVAL);
	FAILS(c_establish(sc.c), EINVAL);
	rdma_destroy_qp(sc.c);
	finish(&sc, SENT);
	close_scene(&sc);
}

/* A client gives up before it is accepted: no event, and the server finds out by accepting. */
static void left_before_accept(void)
{
	struct scene sc = {.lch = rdma_create_event_channel(), .cch = rdma_create_event_channel()};

	go_to(&sc, SENT);
	drop(sc.c);
	arrived_unheard(&sc);
	sc.c = resolved(sc.cch, "10.0.0.1", 9);
	close_scene(&sc);
}

/* The QP went over to a path that the CM does not know: its MADs go on as before. */
static void migrated(void)
{
	struct scene sc = {.lch = rdma_create_event_channel(), .cch = rdma_create_event_channel()};

	go_to(&sc, ACTIVE);
	WORKS(c_notify_mig(sc.c));
	WORKS(c_notify_mig(sc.s));
	finish(&sc, ACTIVE);
	close_scene(&sc);
}

/* Nobody has that id. */
static void null_ids(void)
{
	struct ibv_ece ece = {.vendor_id = 1};

	for (unsigned i = 0; i < N_CALLS; i++) {
		errno = 0;
		if (calls[i].call(NULL) != -1 || errno != EINVAL)
			printf("\n%s(NULL): %s\n", calls[i].name, strerror(errno));
		CU_ASSERT_EQUAL(errno, EINVAL);
	}
	FAILS(rdma_destroy_id(NULL), EINVAL);
	FAILS(rdma_migrate_id(NULL, NULL), EINVAL);
	FAILS(rdma_set_local_ece(NULL, &ece), EINVAL);
	FAILS(rdma_get_remote_ece(NULL, &ece), EINVAL);
	FAILS(rdma_create_qp_ex(NULL, NULL), EINVAL);
	FAILS(rdma_create_srq_ex(NULL, NULL), EINVAL);
	FAILS(rdma_create_ep(NULL, NULL, NULL, NULL), EINVAL);
	FAILS(rdma_get_cm_event(NULL, NULL), EINVAL);
	FAILS(rdma_ack_cm_event(NULL), EINVAL);
	/* Those without a result. */
	rdma_destroy_qp(NULL);
	rdma_destroy_srq(NULL);
	rdma_destroy_ep(NULL);
	rdma_destroy_event_channel(NULL);
	rdma_free_devices(NULL);
	rdma_freeaddrinfo(NULL);
}

/* Parameters that cannot be: refused, and the id is as it was. */
static void parameters(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *l = listener(ch, "10.0.0.1", 2);
	struct rdma_cm_id *c = resolved(ch, "10.0.0.1", ntohs(rdma_get_src_port(l))), *s;
	struct rdma_conn_param param = {.qp_num = 0x55};
	struct ibv_device_attr attr;
	char data[149] = "";

	WORKS(ibv_query_device(c->verbs, &attr));
	FAILS(rdma_connect(c, NULL), EINVAL); /* which QP? */
	param.responder_resources = (uint8_t)(attr.max_qp_rd_atom + 1);
	FAILS(rdma_connect(c, &param), EINVAL);
	param.responder_resources = 0;
	param.initiator_depth = (uint8_t)(attr.max_qp_init_rd_atom + 1);
	FAILS(rdma_connect(c, &param), EINVAL);
	param.initiator_depth = 0;
	param.private_data_len = 255; /* of nothing: it does not count */
	WORKS(rdma_connect(c, &param));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
	FAILS(rdma_accept(s, NULL), EINVAL);
	FAILS(rdma_reject(s, data, 149), EINVAL);
	param.qp_num = 0x56;
	param.responder_resources = (uint8_t)(attr.max_qp_rd_atom + 1);
	FAILS(rdma_accept(s, &param), EINVAL);
	param.responder_resources = 0;
	WORKS(rdma_accept(s, &param));
	CU_ASSERT_EQUAL(expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL), 0);
	drop(c);
	drop(s);
	drop(l);
	rdma_destroy_event_channel(ch);
}

URXE_TEST_MAIN("cm_states", T(wrong_states), T(early_disconnect), T(failed_answers),
	       T(failed_with_qp), T(left_before_accept), T(migrated), T(null_ids), T(parameters))
