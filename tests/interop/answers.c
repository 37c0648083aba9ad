/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What each call of rdma_cma.h answers in each state, a line for each: for comparing urxe with the
 * kernel (answers.py). Linked with Debian's librdmacm alone, so that the same binary runs on both;
 * one device is both sides of each connection, in this one process.
 *
 *	answers ADDR SPACE...	ADDR: an IPv4 address of the device; SPACE: of SPACES() below
 *
 * A line is "SPACE STATE CALL -> ANSWER", with ANSWER:
 *	RETURNED [ERRNO] id=FLAGS own=EVENTS peer=EVENTS
 * FLAGS: what is set in the id afterwards. EVENTS: what came, on the channel of the id and on that
 * of its peer, in this order. Each line has a scene of its own, made from nothing. There are no
 * times, pointers or numbers of QPs and ports in it, and no TIMEWAIT_EXIT, which comes when it
 * likes. A call that does not come back or crashes has TIMEOUT or CRASH for an answer, and a new
 * process does the rest.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET_MS   200 /* so long nothing has come: nothing will */
#define SETTLE_MS  10
#define STEP_MS	   5000
#define CELL_S	   10 /* so long is a call, with its scene, at most */
#define NOBODY	   9  /* a port that nobody listens on */
#define MAX_EXTRAS 8

#define SPACES(X) X(TCP) X(TCP_QP) X(UDP) X(UDP_QP) X(SYNC)
#define STATES(X)                                               \
	X(IDLE)                                                 \
	X(BOUND)                                                \
	X(BOUND_ANY)                                            \
	X(ADDR)                                                 \
	X(ROUTE)                                                \
	X(LISTEN)                                               \
	X(LISTEN_ANY)                                           \
	X(SENT)	    /* active: REQ sent */                      \
	X(REQUEST)  /* passive: REQ received */                 \
	X(RESPONSE) /* active: REP received, no QP on the id */ \
	X(ACCEPTED) /* passive: REP sent */                     \
	X(ACTIVE)   /* established */                           \
	X(PASSIVE)                                              \
	X(ENDED) /* both sides have disconnected */             \
	X(REJECTED)                                             \
	X(REJECTER)

#define ENUM(name) name,
#define NAME(name) #name,
enum space {
	SPACES(ENUM) N_SPACES
};
enum state {
	STATES(ENUM) N_STATES
};
static const char *const space_names[] = {SPACES(NAME)};
static const char *const state_names[] = {STATES(NAME)};

/* id: what the call is tried on; l, c, s: listener, client, server's id of the connection */
struct scene {
	enum space space;
	enum state state;
	struct rdma_event_channel *own, *peer, *third;
	struct rdma_event_channel *lch, *cch;
	struct rdma_cm_id *id, *l, *c, *s;
	struct rdma_cm_id *extras[MAX_EXTRAS];
	int n_extras;
	bool destroyed; /* the id, by the call */
};

static struct sockaddr_in local;
static char wrong[100];
/* Shared with the process that sees to the end of this one: the line under way, and its number */
static struct {
	char key[100];
	unsigned number;
	uint32_t qpn; /* of the next connection */
	bool answered;
} * now;
static const uint8_t data[256];

static void __attribute__((format(printf, 1, 2))) fail(const char *fmt, ...)
{
	va_list ap;
	int e = errno;

	if (wrong[0])
		return;
	va_start(ap, fmt);
	vsnprintf(wrong, sizeof(wrong), fmt, ap);
	va_end(ap);
	snprintf(wrong + strlen(wrong), sizeof(wrong) - strlen(wrong), " %s", strerrorname_np(e));
}

#define WORKS(expr)                        \
	do {                               \
		if (expr)                  \
			fail("%s", #expr); \
	} while (0)

/* ---- what calls are made of ---- */

static struct sockaddr *at(const char *text, uint16_t port)
{
	static struct sockaddr_in where[4];
	static unsigned n;
	struct sockaddr_in *a = &where[n++ % 4];

	*a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	if (text)
		inet_pton(AF_INET, text, &a->sin_addr);
	else
		a->sin_addr = local.sin_addr;
	return (struct sockaddr *)a;
}

static struct sockaddr *at6(const char *text)
{
	static struct sockaddr_in6 a;

	a = (struct sockaddr_in6){.sin6_family = AF_INET6};
	inet_pton(AF_INET6, text, &a.sin6_addr);
	return (struct sockaddr *)&a;
}

static struct sockaddr *of_family(sa_family_t family)
{
	struct sockaddr *a = at(NULL, 0);

	a->sa_family = family;
	return a;
}

/* With a number of a QP that no connection in timewait has */
static struct rdma_conn_param *with(const void *priv, uint8_t len)
{
	static struct rdma_conn_param param;
	param = (struct rdma_conn_param){.private_data = priv,
					 .private_data_len = len,
					 .responder_resources = 2,
					 .initiator_depth = 2,
					 .retry_count = 7,
					 .rnr_retry_count = 7,
					 .qp_num = now->qpn++};
	return &param;
}

static struct rdma_conn_param *with_depth(uint8_t resources, uint8_t depth)
{
	struct rdma_conn_param *param = with(NULL, 0);

	param->responder_resources = resources;
	param->initiator_depth = depth;
	return param;
}

static int option(struct rdma_cm_id *id, int level, int name, int value, size_t len)
{
	return rdma_set_option(id, level, name, &value, len);
}

static int path_option(struct rdma_cm_id *id, size_t len)
{
	struct ibv_path_data path = {.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
					      IBV_PATH_FLAG_BIDIRECTIONAL,
				     .path = {.mtu = IBV_MTU_1024, .reversible_numpath = 0x80}};

	return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, len);
}

static struct ibv_qp_init_attr *qp_of(enum ibv_qp_type type)
{
	static struct ibv_qp_init_attr attr;

	attr = (struct ibv_qp_init_attr){
		.qp_type = type,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	return &attr;
}

static enum ibv_qp_type type_of(const struct rdma_cm_id *id)
{
	return id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
}

static int too_many(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr *attr = qp_of(type_of(id));

	attr->cap.max_send_wr = 1 << 30;
	return rdma_create_qp(id, NULL, attr);
}

static int drop_qp(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	return 0;
}

static int qp_attr(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	return rdma_init_qp_attr(id, &attr, &mask);
}

static int srq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	return rdma_create_srq(id, NULL, &attr);
}

static int ece(struct rdma_cm_id *id, bool set)
{
	struct ibv_ece e = {.vendor_id = 1, .options = 2};

	return set ? rdma_set_local_ece(id, &e) : rdma_get_remote_ece(id, &e);
}

static int join_ex(struct rdma_cm_id *id, uint32_t mask, uint32_t flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = mask, .join_flags = flags, .addr = at("239.1.2.3", 0)};

	return rdma_join_multicast_ex(id, &attr, NULL);
}

static int join_and_leave(struct rdma_cm_id *id)
{
	return rdma_join_multicast(id, at("239.1.2.3", 0), NULL) ||
	       rdma_leave_multicast(id, at("239.1.2.3", 0));
}

static int request(struct rdma_cm_id *id)
{
	struct rdma_cm_id *other;

	return rdma_get_request(id, &other);
}

static int migrate(struct scene *sc, struct rdma_event_channel *to)
{
	int ret = rdma_migrate_id(sc->id, to);

	if (!ret)
		sc->own = to;
	return ret;
}

static int destroy(struct scene *sc)
{
	sc->destroyed = true;
	return rdma_destroy_id(sc->id);
}

static int destroy_ep(struct scene *sc)
{
	sc->destroyed = true;
	rdma_destroy_ep(sc->id);
	return 0;
}

/*
 * X(name, LATER or NOW: whether events may follow, call). More than one call of the same function:
 * what it says to this and that parameter.
 */
#define MASK (RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS)
#define OPT  RDMA_OPTION_ID
/* clang-format off */
#define CALLS(X) \
	X(bind,              NOW,   rdma_bind_addr(id, at(NULL, 0))) \
	X(bind_any,          NOW,   rdma_bind_addr(id, at("0.0.0.0", 0))) \
	X(bind_loopback,     NOW,   rdma_bind_addr(id, at("127.0.0.1", 0))) \
	X(bind_foreign,      NOW,   rdma_bind_addr(id, at("192.0.2.1", 0))) \
	X(bind_any6,         NOW,   rdma_bind_addr(id, at6("::"))) \
	X(bind_unspec,       NOW,   rdma_bind_addr(id, of_family(AF_UNSPEC))) \
	X(resolve_addr,      LATER, rdma_resolve_addr(id, NULL, at(NULL, NOBODY), 2000)) \
	X(resolve_from,      LATER, rdma_resolve_addr(id, at(NULL, 0), at(NULL, NOBODY), 2000)) \
	X(resolve_from_else, LATER, rdma_resolve_addr(id, at("192.0.2.1", 0), at(NULL, NOBODY), 2000)) \
	X(resolve_any,       LATER, rdma_resolve_addr(id, NULL, at("0.0.0.0", NOBODY), 2000)) \
	X(resolve_no_route,  LATER, rdma_resolve_addr(id, NULL, at("192.0.2.1", NOBODY), 2000)) \
	X(resolve_unspec,    LATER, rdma_resolve_addr(id, NULL, of_family(AF_UNSPEC), 2000)) \
	X(resolve_mixed,     LATER, rdma_resolve_addr(id, at6("fd00::9"), at(NULL, NOBODY), 2000)) \
	X(resolve_route,     LATER, rdma_resolve_route(id, 2000)) \
	X(listen,            NOW,   rdma_listen(id, 1)) \
	X(listen_0,          NOW,   rdma_listen(id, 0)) \
	X(listen_negative,   NOW,   rdma_listen(id, -1)) \
	X(connect,           LATER, rdma_connect(id, with(NULL, 0))) \
	X(connect_null,      LATER, rdma_connect(id, NULL)) \
	X(connect_null_data, LATER, rdma_connect(id, with(NULL, 9))) \
	X(connect_56,        LATER, rdma_connect(id, with(data, 56))) \
	X(connect_57,        LATER, rdma_connect(id, with(data, 57))) \
	X(connect_180,       LATER, rdma_connect(id, with(data, 180))) \
	X(connect_181,       LATER, rdma_connect(id, with(data, 181))) \
	X(connect_255,       LATER, rdma_connect(id, with(data, 255))) \
	X(connect_deep,      LATER, rdma_connect(id, with_depth(200, 200))) \
	X(connect_max,       LATER, rdma_connect(id, with_depth(255, 255))) \
	X(accept,            LATER, rdma_accept(id, with(NULL, 0))) \
	X(accept_null,       LATER, rdma_accept(id, NULL)) \
	X(accept_null_data,  LATER, rdma_accept(id, with(NULL, 9))) \
	X(accept_136,        LATER, rdma_accept(id, with(data, 136))) \
	X(accept_137,        LATER, rdma_accept(id, with(data, 137))) \
	X(accept_196,        LATER, rdma_accept(id, with(data, 196))) \
	X(accept_197,        LATER, rdma_accept(id, with(data, 197))) \
	X(accept_deep,       LATER, rdma_accept(id, with_depth(200, 200))) \
	X(reject,            LATER, rdma_reject(id, NULL, 0)) \
	X(reject_136,        LATER, rdma_reject(id, data, 136)) \
	X(reject_137,        LATER, rdma_reject(id, data, 137)) \
	X(reject_148,        LATER, rdma_reject(id, data, 148)) \
	X(reject_149,        LATER, rdma_reject(id, data, 149)) \
	X(reject_ece,        LATER, rdma_reject_ece(id, NULL, 0)) \
	X(establish,         LATER, rdma_establish(id)) \
	X(disconnect,        LATER, rdma_disconnect(id)) \
	X(disconnect_twice,  LATER, rdma_disconnect(id) || rdma_disconnect(id)) \
	X(notify_est,        LATER, rdma_notify(id, IBV_EVENT_COMM_EST)) \
	X(notify_mig,        LATER, rdma_notify(id, IBV_EVENT_PATH_MIG)) \
	X(notify_else,       LATER, rdma_notify(id, IBV_EVENT_SM_CHANGE)) \
	X(join,              LATER, rdma_join_multicast(id, at("239.1.2.3", 0), NULL)) \
	X(join_unicast,      LATER, rdma_join_multicast(id, at("192.0.2.1", 0), NULL)) \
	X(join_ex,           LATER, join_ex(id, MASK, RDMA_MC_JOIN_FLAG_FULLMEMBER)) \
	X(join_send_only,    LATER, join_ex(id, MASK, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)) \
	X(join_bad_mask,     LATER, join_ex(id, 0, 0)) \
	X(join_bad_flags,    LATER, join_ex(id, MASK, RDMA_MC_JOIN_FLAG_RESERVED)) \
	X(join_leave,        NOW,   join_and_leave(id)) \
	X(leave,             NOW,   rdma_leave_multicast(id, at("239.1.2.3", 0))) \
	X(migrate,           NOW,   migrate(sc, sc->third)) \
	X(migrate_same,      NOW,   migrate(sc, sc->own)) \
	X(tos,               NOW,   option(id, OPT, RDMA_OPTION_ID_TOS, 8, 1)) \
	X(tos_of_4,          NOW,   option(id, OPT, RDMA_OPTION_ID_TOS, 8, 4)) \
	X(reuse,             NOW,   option(id, OPT, RDMA_OPTION_ID_REUSEADDR, 1, 4)) \
	X(reuse_of_1,        NOW,   option(id, OPT, RDMA_OPTION_ID_REUSEADDR, 1, 1)) \
	X(afonly,            NOW,   option(id, OPT, RDMA_OPTION_ID_AFONLY, 1, 4)) \
	X(ack_timeout,       NOW,   option(id, OPT, RDMA_OPTION_ID_ACK_TIMEOUT, 19, 1)) \
	X(ack_timeout_0,     NOW,   option(id, OPT, RDMA_OPTION_ID_ACK_TIMEOUT, 0, 1)) \
	X(ack_timeout_of_4,  NOW,   option(id, OPT, RDMA_OPTION_ID_ACK_TIMEOUT, 19, 4)) \
	X(option_unknown,    NOW,   option(id, OPT, 99, 1, 4)) \
	X(level_unknown,     NOW,   option(id, 99, 0, 1, 4)) \
	X(ib_path,           LATER, path_option(id, sizeof(struct ibv_path_data))) \
	X(ib_path_short,     LATER, path_option(id, 7)) \
	X(attr_init,         NOW,   qp_attr(id, IBV_QPS_INIT)) \
	X(attr_rtr,          NOW,   qp_attr(id, IBV_QPS_RTR)) \
	X(attr_rts,          NOW,   qp_attr(id, IBV_QPS_RTS)) \
	X(attr_err,          NOW,   qp_attr(id, IBV_QPS_ERR)) \
	X(create_qp,         NOW,   rdma_create_qp(id, NULL, qp_of(type_of(id)))) \
	X(create_qp_xrc,     NOW,   rdma_create_qp(id, NULL, qp_of(IBV_QPT_XRC_SEND))) \
	X(create_qp_many,    NOW,   too_many(id)) \
	X(destroy_qp,        LATER, drop_qp(id)) \
	X(create_srq,        NOW,   srq(id)) \
	X(get_request,       NOW,   request(id)) \
	X(src_port,          NOW,   rdma_get_src_port(id) != 0) \
	X(dst_port,          NOW,   rdma_get_dst_port(id) != 0) \
	X(local_family,      NOW,   rdma_get_local_addr(id)->sa_family) \
	X(peer_family,       NOW,   rdma_get_peer_addr(id)->sa_family) \
	X(set_ece,           NOW,   ece(id, true)) \
	X(get_ece,           NOW,   ece(id, false)) \
	X(destroy,           LATER, destroy(sc)) \
	X(destroy_ep,        LATER, destroy_ep(sc))
/* clang-format on */

#define FUNCTION(name, when, expr)                                      \
	static int try_##name(struct scene *sc)                         \
	{                                                               \
		struct rdma_cm_id *id __attribute__((unused)) = sc->id; \
		return expr;                                            \
	}
CALLS(FUNCTION)

enum when {
	NOW,
	LATER
};
struct call {
	const char *name;
	enum when when;
	int (*call)(struct scene *sc);
};
#define ROW(name, when, expr) {#name, when, try_##name},
static const struct call calls[] = {CALLS(ROW)};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

/* ---- events ---- */

static bool is_udp(enum space space)
{
	return space == UDP || space == UDP_QP;
}

static bool has_qp(enum space space)
{
	return space == TCP_QP || space == UDP_QP;
}

/* Takes an event, or says no. Its text goes to `text`, its new id to `fresh`. */
static int take(struct rdma_event_channel *ch, char *text, size_t len, struct rdma_cm_id **fresh)
{
	struct rdma_cm_event *ev;
	size_t used = strlen(text);
	int type;

	if (rdma_get_cm_event(ch, &ev))
		return -1;
	type = ev->event;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		*fresh = ev->id;
	if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		const char *name = rdma_event_str(ev->event) + strlen("RDMA_CM_EVENT_");

		snprintf(text + used, len - used, "%s%s(%d", used ? "," : "", name, ev->status);
		used = strlen(text);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST ||
		    type == RDMA_CM_EVENT_CONNECT_RESPONSE || type == RDMA_CM_EVENT_ESTABLISHED ||
		    type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_UNREACHABLE)
			snprintf(text + used, len - used, " %u",
				 ev->id->ps == RDMA_PS_UDP ? ev->param.ud.private_data_len
							   : ev->param.conn.private_data_len);
		used = strlen(text);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST && ev->id->ps == RDMA_PS_TCP)
			snprintf(text + used, len - used, " %u %u",
				 ev->param.conn.responder_resources,
				 ev->param.conn.initiator_depth);
		used = strlen(text);
		snprintf(text + used, len - used, ")");
	}
	rdma_ack_cm_event(ev);
	return type;
}

/* All that comes, until nothing has come for a while */
static void drain(struct scene *sc, int ms, char *own, char *peer, size_t len)
{
	struct pollfd p[] = {{.fd = sc->own ? sc->own->fd : -1, .events = POLLIN},
			     {.fd = sc->peer->fd, .events = POLLIN}};
	struct rdma_cm_id *fresh;

	while (poll(p, 2, ms) > 0) {
		for (int i = 0; i < 2; i++) {
			fresh = NULL;
			if (!(p[i].revents & POLLIN))
				continue;
			take(i ? sc->peer : sc->own, i ? peer : own, len, &fresh);
			if (fresh && sc->n_extras < MAX_EXTRAS)
				sc->extras[sc->n_extras++] = fresh;
		}
	}
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

static bool possible(enum space space, enum state state)
{
	if (space == SYNC)
		return state <= LISTEN_ANY || state == REQUEST;
	if (is_udp(space))
		return state <= REQUEST || state == ACTIVE || state == PASSIVE || state >= REJECTED;
	return space != TCP_QP || (state != RESPONSE && state != ACCEPTED);
}

static bool makes_sense(enum space space, enum state state, const struct call *call)
{
	if (call->call == try_destroy_qp)
		return has_qp(space) && state >= ADDR && state != LISTEN && state != LISTEN_ANY;
	if (space == SYNC && (call->call == try_migrate_same || call->call == try_migrate))
		return false;
	/* They wait for somebody else. */
	if (space == SYNC && call->call == try_get_request)
		return false;
	if (strncmp(call->name, "accept", 6) && strncmp(call->name, "reject", 6) &&
	    call->call != try_establish)
		return true;
	/*
	 * In the kernel (6.1) a REJ of ours leaves our REQ or REP under way, and rdma_destroy_id
	 * waits for that, for minutes. An accept or establish that fails sends a REJ.
	 */
	if (!is_udp(space) && (state == SENT || state == ACCEPTED))
		return false;
	return space != SYNC || state != REQUEST || strncmp(call->name, "accept", 6);
}

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

static void listens(struct scene *sc, struct rdma_event_channel *ch, const char *where)
{
	sc->l = new_id(sc, ch);
	if (wrong[0])
		return;
	WORKS(rdma_bind_addr(sc->l, at(where, 0)));
	WORKS(rdma_listen(sc->l, 4));
}

/* SYNC: the client has no channel, and there is nobody it could connect to. */
static void resolves(struct scene *sc, bool alone, bool route)
{
	uint16_t port = sc->l ? ntohs(rdma_get_src_port(sc->l)) : NOBODY;

	sc->c = new_id(sc, alone ? NULL : sc->cch);
	if (wrong[0])
		return;
	WORKS(rdma_resolve_addr(sc->c, NULL, at(NULL, port), STEP_MS));
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
		listens(sc, sc->own, sc->state == LISTEN ? NULL : "0.0.0.0");
		sc->id = sc->l;
		return;
	}
	if (sc->state == ADDR || sc->state == ROUTE) {
		if (!alone)
			listens(sc, sc->lch, NULL);
		resolves(sc, alone, sc->state == ROUTE);
		give_qp(sc, sc->c);
		sc->id = sc->c;
		return;
	}
	sc->id = sc->c = new_id(sc, sc->own);
	if (sc->state != IDLE && !wrong[0])
		WORKS(rdma_bind_addr(sc->c, at(sc->state == BOUND ? NULL : "0.0.0.0", 0)));
}

static void accepts(struct scene *sc)
{
	bool answered = is_udp(sc->space) || has_qp(sc->space);

	WORKS(rdma_accept(sc->s, with(NULL, 0)));
	expect(sc->cch, answered ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE,
	       NULL);
	if (is_udp(sc->space) || sc->state == RESPONSE || sc->state == ACCEPTED || wrong[0])
		return;
	if (!answered)
		WORKS(rdma_establish(sc->c));
	expect(sc->lch, RDMA_CM_EVENT_ESTABLISHED, NULL);
	if (sc->state != ENDED || wrong[0])
		return;
	WORKS(rdma_disconnect(sc->s));
	expect(sc->cch, RDMA_CM_EVENT_DISCONNECTED, NULL);
	if (wrong[0])
		return;
	WORKS(rdma_disconnect(sc->c));
	expect(sc->lch, RDMA_CM_EVENT_DISCONNECTED, NULL);
}

static void go_together(struct scene *sc)
{
	bool passive = sc->state == REQUEST || sc->state == ACCEPTED || sc->state == PASSIVE ||
		       sc->state == REJECTER;

	sc->own = passive ? sc->lch : sc->cch;
	sc->peer = passive ? sc->cch : sc->lch;
	listens(sc, sc->space == SYNC ? NULL : sc->lch, NULL);
	resolves(sc, false, true);
	give_qp(sc, sc->c);
	if (wrong[0])
		return;
	WORKS(rdma_connect(sc->c, with(NULL, 0)));
	if (sc->space == SYNC)
		WORKS(rdma_get_request(sc->l, &sc->s));
	else
		expect(sc->lch, RDMA_CM_EVENT_CONNECT_REQUEST, &sc->s);
	if (wrong[0])
		return;
	sc->id = passive ? sc->s : sc->c;
	if (sc->state == REJECTED || sc->state == REJECTER) {
		WORKS(rdma_reject(sc->s, NULL, 0));
		expect(sc->cch,
		       is_udp(sc->space) ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED,
		       NULL);
		return;
	}
	give_qp(sc, sc->s);
	if (sc->state != SENT && sc->state != REQUEST && !wrong[0])
		accepts(sc);
}

static struct rdma_event_channel *channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	if (!ch || fcntl(ch->fd, F_SETFL, O_NONBLOCK)) {
		fprintf(stderr, "answers: no event channel\n");
		exit(1);
	}
	return ch;
}

static void drop_id(struct scene *sc, struct rdma_cm_id *id)
{
	if (!id || (id == sc->id && sc->destroyed))
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

/*
 * The client hears that its peer has gone before it goes itself: else, in the kernel (6.1), its id
 * may never be destroyed, nor its process be killed.
 */
static void settle(struct scene *sc)
{
	struct pollfd p = {.fd = sc->cch->fd, .events = POLLIN};
	struct rdma_cm_id *ignored;
	char text[300] = "";

	while (sc->s && poll(&p, 1, SETTLE_MS) > 0)
		take(sc->cch, text, sizeof(text), &ignored);
}

static void clean(struct scene *sc)
{
	for (int i = 0; i < sc->n_extras; i++)
		drop_id(sc, sc->extras[i]);
	drop_id(sc, sc->s);
	settle(sc);
	drop_id(sc, sc->c);
	drop_id(sc, sc->l);
	rdma_destroy_event_channel(sc->third);
	rdma_destroy_event_channel(sc->cch);
	rdma_destroy_event_channel(sc->lch);
}

/* ---- lines ---- */

static void flags_of(const struct scene *sc, char *text)
{
	struct rdma_cm_id *id = sc->id;

	if (!sc->destroyed) {
		*text++ = id->verbs ? 'v' : '-';
		*text++ = id->pd ? 'p' : '-';
		*text++ = id->qp ? 'q' : '-';
		*text++ = rdma_get_src_port(id) ? 's' : '-';
		*text++ = rdma_get_dst_port(id) ? 'd' : '-';
	}
	*text = 0;
}

static void answer(struct scene *sc, const struct call *call)
{
	char own[300] = "", peer[300] = "", flags[8];
	int ret, e, ms = 0;

	errno = 0;
	ret = call->call(sc);
	e = errno;
	/* A call that failed may have ended a connection. */
	if (call->when == LATER && (!ret || sc->state > LISTEN_ANY))
		ms = ret ? QUIET_MS / 2 : QUIET_MS;
	drain(sc, ms, own, peer, sizeof(own));
	flags_of(sc, flags);
	printf("%s%d%s%s id=%s own=%s peer=%s\n", now->key, ret, ret < 0 ? " " : "",
	       ret < 0 ? strerrorname_np(e) : "", flags, own, peer);
}

static void cell(enum space space, enum state state, const struct call *call)
{
	struct scene sc = {.space = space, .state = state};

	alarm(CELL_S);
	wrong[0] = 0;
	sc.lch = channel();
	sc.cch = channel();
	sc.third = channel();
	if (state <= LISTEN_ANY)
		go_alone(&sc);
	else
		go_together(&sc);
	if (wrong[0])
		printf("%sNO SCENE: %s\n", now->key, wrong);
	else
		answer(&sc, call);
	fflush(stdout);
	now->answered = true;
	clean(&sc);
	alarm(0);
}

static bool named(char *const *names, const char *name)
{
	while (*names && strcmp(*names, name))
		names++;
	return *names;
}

/* Those that are not done yet. Each is done as soon as it is begun. */
static void all(char *const *spaces)
{
	unsigned number = 0;

	for (enum space space = 0; space < N_SPACES; space++)
		for (enum state state = 0; state < N_STATES; state++)
			for (size_t i = 0; i < N_CALLS; i++) {
				if (!named(spaces, space_names[space]) || !possible(space, state) ||
				    !makes_sense(space, state, &calls[i]) || number++ < now->number)
					continue;
				now->number = number;
				snprintf(now->key, sizeof(now->key), "%s %s %s -> ",
					 space_names[space], state_names[state], calls[i].name);
				now->answered = false;
				cell(space, state, &calls[i]);
			}
}

int main(int argc, char **argv)
{
	int status = -1;
	pid_t pid;

	now = mmap(NULL, sizeof(*now), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc < 3 || inet_pton(AF_INET, argv[1], &local.sin_addr) != 1 || now == MAP_FAILED) {
		fprintf(stderr, "usage: answers ADDR SPACE...\n");
		return 2;
	}
	now->qpn = 0x1000 + ((uint32_t)getpid() % 256 << 15);
	do {
		pid = fork();
		if (!pid) {
			all(argv + 2);
			exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return 1;
		if (WIFSIGNALED(status))
			printf("%s%s%s\n", now->key, now->answered ? "then " : "",
			       WTERMSIG(status) == SIGALRM ? "TIMEOUT" : "CRASH");
		fflush(stdout);
	} while (WIFSIGNALED(status));
	return WEXITSTATUS(status);
}
