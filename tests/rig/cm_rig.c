/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One IB CM whose clock, wire and consumer are the test: what its tests start from. */
#include "cm_rig.h"

#include "urxe/free.h"
#include "urxe/random.h"

static void rig_send(void *arg, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct rig *r = arg;

	memcpy(r->sent, mad, URXE_MAD_LEN);
	r->n_sent++;
}

static uint64_t rig_now(void *arg)
{
	return ((struct rig *)arg)->now;
}

static uint64_t rig_random(void *arg)
{
	struct rig *r = arg;

	return urxe_random_step(&r->rand);
}

static uint32_t rig_comm_id(void *arg)
{
	return (uint32_t)rig_random(arg) | 1;
}

/* Own: 11..., and the other one, 33... */
static int rig_own_gid(void *arg, const union ibv_gid *gid)
{
	return gid->raw[1] == 0x11 ? 0 : gid->raw[1] == 0x33 ? 1 : -1;
}

static bool rig_nobody(void *arg, const struct urxe_cm_path *path)
{
	return ((struct rig *)arg)->nobody;
}

static bool rig_far(void *arg, const struct urxe_cm_path *path)
{
	return ((struct rig *)arg)->far;
}

static uint8_t rig_max_mtu(void *arg, const struct urxe_cm_source *src)
{
	uint8_t mtu = ((struct rig *)arg)->max_mtu;

	return mtu ? mtu : IBV_MTU_4096;
}

static uint64_t rig_quiet_ns(void *arg, const struct urxe_cm_path *path)
{
	return ((struct rig *)arg)->quiet_ns;
}

static const struct urxe_cm_ops rig_ops = {
	rig_send,  rig_now,    rig_random, rig_comm_id, rig_own_gid,  NULL,
	urxe_free, rig_nobody, rig_far,	   rig_max_mtu, rig_quiet_ns,
};

int rig_handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct rig *r = context;

	r->event = ev->type;
	r->told = id;
	r->error = ev->error;
	r->n_events++;
	if (ev->type == URXE_CM_EV_REQ_RECEIVED || ev->type == URXE_CM_EV_SIDR_REQ_RECEIVED)
		r->id = id;
	if (ev->type == URXE_CM_EV_REJ_RECEIVED)
		r->reason = ev->rej.reason;
	if (id == r->count_for)
		r->n_ends +=
			ev->type == URXE_CM_EV_REQ_ERROR || ev->type == URXE_CM_EV_REP_ERROR ||
			ev->type == URXE_CM_EV_DREQ_ERROR || ev->type == URXE_CM_EV_DREQ_RECEIVED ||
			ev->type == URXE_CM_EV_DREP_RECEIVED || ev->type == URXE_CM_EV_PEER_LOST ||
			ev->type == URXE_CM_EV_REJ_RECEIVED;
	if (ev->type == URXE_CM_EV_APR_RECEIVED)
		r->apr_status = ev->apr.status;
	if (ev->type == URXE_CM_EV_REQ_RECEIVED)
		r->alternate = ev->req.alternate;
	return r->verdict;
}

void rig_open(struct rig *r, uint64_t guid)
{
	rig_open_with(r, guid, NULL);
}

void rig_open_with(struct rig *r, uint64_t guid, const struct urxe_cm_settings *set)
{
	rig_open_on(r, guid, set, false);
}

void rig_open_on(struct rig *r, uint64_t guid, const struct urxe_cm_settings *set, bool shared)
{
	struct urxe_cm_config cfg;

	memset(r, 0, sizeof(*r));
	urxe_cm_config_default(&cfg);
	if (set)
		urxe_cm_config_set(&cfg, set);
	cfg.ca_guid = guid;
	cfg.shared = shared;
	r->now = 1000;
	r->rand = 42;
	r->cm = urxe_cm_create(&rig_ops, r, &cfg);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r->cm);
	r->src.qpn = 1;
	memset(r->src.sgid.raw, 0x22, 16);
	memset(r->src.dgid.raw, 0x11, 16);
	r->listener = urxe_cm_new_id(r->cm, rig_handler, r);
	CU_ASSERT_EQUAL(urxe_cm_listen(r->listener, SERVICE, UINT64_MAX), 0);
}

/* The state, or the one within ESTABLISHED. */
enum urxe_cm_state row(const struct urxe_cm_id *id)
{
	enum urxe_cm_state state = urxe_cm_get_state(id);

	return state == URXE_CM_ESTABLISHED && urxe_cm_get_lap_state(id) != URXE_CM_LAP_IDLE
		       ? urxe_cm_get_lap_state(id)
		       : state;
}

void rig_close(struct rig *r)
{
	CU_ASSERT_EQUAL(urxe_cm_get_counters(r->cm)->bad_steps, 0);
	urxe_cm_destroy_all(r->cm);
}

/* What a REJ for r->id rejects: the REQ, until it is answered. */
static enum urxe_cm_answered rejected_now(const struct rig *r)
{
	enum urxe_cm_state state = r->id ? urxe_cm_get_state(r->id) : URXE_CM_IDLE;

	return state == URXE_CM_REQ_SENT || state == URXE_CM_REP_WAIT ? URXE_CM_ANSWER_REQ
								      : URXE_CM_ANSWER_OTHER;
}

/* A MAD of the peer's for r->id. */
void peer_mad(struct rig *r, enum urxe_cm_input in, uint8_t *m)
{
	uint32_t own = r->id ? urxe_cm_local_comm_id(r->id) : 0;
	static const enum urxe_mad_attr attr[] = {
		[URXE_CM_IN_REQ] = URXE_MAD_REQ,
		[URXE_CM_IN_MRA_REQ] = URXE_MAD_MRA,
		[URXE_CM_IN_MRA_REP] = URXE_MAD_MRA,
		[URXE_CM_IN_REJ] = URXE_MAD_REJ,
		[URXE_CM_IN_REP] = URXE_MAD_REP,
		[URXE_CM_IN_RTU] = URXE_MAD_RTU,
		[URXE_CM_IN_DREQ] = URXE_MAD_DREQ,
		[URXE_CM_IN_DREP] = URXE_MAD_DREP,
		[URXE_CM_IN_SIDR_REQ] = URXE_MAD_SIDR_REQ,
		[URXE_CM_IN_SIDR_REP] = URXE_MAD_SIDR_REP,
		[URXE_CM_IN_LAP] = URXE_MAD_LAP,
		[URXE_CM_IN_MRA_LAP] = URXE_MAD_MRA,
		[URXE_CM_IN_APR] = URXE_MAD_APR,
	};

	/* An APR answers the LAP that was sent last. */
	urxe_mad_init(m, attr[in], in == URXE_CM_IN_APR ? urxe_mad_get(r->sent, URXE_HDR_TID) : 77);
	if (in == URXE_CM_IN_SIDR_REP)
		urxe_mad_put(m, URXE_SIDR_REP_REQUEST_ID, own);
	else
		urxe_mad_put(m, URXE_REP_LOCAL_COMM_ID, PEER_COMM);
	switch (in) {
	case URXE_CM_IN_REQ:
		urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE);
		urxe_mad_put(m, URXE_REQ_LOCAL_CA_GUID, PEER_GUID);
		urxe_mad_put(m, URXE_REQ_LOCAL_QPN, PEER_QPN);
		urxe_mad_put(m, URXE_REQ_PATH_MTU, IBV_MTU_1024);
		urxe_mad_put(m, URXE_REQ_STARTING_PSN, 0xabc);
		urxe_mad_put(m, URXE_REQ_RESPONDER_RESOURCES, 3);
		urxe_mad_put(m, URXE_REQ_INITIATOR_DEPTH, 2);
		urxe_mad_put(m, URXE_REQ_RETRY_COUNT, 6);
		urxe_mad_put(m, URXE_REQ_RNR_RETRY_COUNT, 5);
		urxe_mad_put(m, URXE_REQ_PRIMARY_ACK_TIMEOUT, 19);
		memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_LOCAL_GID), r->src.sgid.raw, 16);
		memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_REMOTE_GID), r->src.dgid.raw, 16);
		return;
	case URXE_CM_IN_SIDR_REQ:
		urxe_mad_put(m, URXE_SIDR_REQ_SERVICE_ID, SERVICE);
		return;
	case URXE_CM_IN_SIDR_REP:
		urxe_mad_put(m, URXE_SIDR_REP_SERVICE_ID, SERVICE);
		return;
	case URXE_CM_IN_MRA_REQ:
	case URXE_CM_IN_MRA_REP:
	case URXE_CM_IN_MRA_LAP:
		urxe_mad_put(m, URXE_MRA_MESSAGE_MRAED,
			     in == URXE_CM_IN_MRA_LAP ? 2 : in == URXE_CM_IN_MRA_REP);
		urxe_mad_put(m, URXE_MRA_SERVICE_TIMEOUT, 20);
		break;
	case URXE_CM_IN_REP:
		urxe_mad_put(m, URXE_REP_LOCAL_QPN, PEER_QPN);
		urxe_mad_put(m, URXE_REP_STARTING_PSN, 0xabc);
		urxe_mad_put(m, URXE_REP_LOCAL_CA_GUID, PEER_GUID);
		urxe_mad_put(m, URXE_REP_RESPONDER_RESOURCES, 3);
		urxe_mad_put(m, URXE_REP_INITIATOR_DEPTH, 2);
		urxe_mad_put(m, URXE_REP_RNR_RETRY_COUNT, 5);
		urxe_mad_put(m, URXE_REP_LOCAL_QKEY, r->probes ? URXE_CM_PROBES : 0);
		break;
	case URXE_CM_IN_REJ:
		urxe_mad_put(m, URXE_REJ_MESSAGE_REJECTED, rejected_now(r));
		break;
	case URXE_CM_IN_DREQ:
		urxe_mad_put(m, URXE_DREQ_REMOTE_QPN, OWN_QPN);
		break;
	case URXE_CM_IN_LAP:
		urxe_mad_put(m, URXE_LAP_REMOTE_QPN, OWN_QPN);
		urxe_mad_put(m, URXE_LAP_ALTERNATE_FLOW_LABEL, 0x12345);
		urxe_mad_put(m, URXE_LAP_ALTERNATE_ACK_TIMEOUT, 18);
		memset(urxe_mad_bytes(m, URXE_LAP_ALTERNATE_LOCAL_GID), 0x44, 16);
		memset(urxe_mad_bytes(m, URXE_LAP_ALTERNATE_REMOTE_GID), 0x33, 16);
		break;
	default:
		break;
	}
	urxe_mad_put(m, URXE_REP_REMOTE_COMM_ID, own);
}

void peer_gave_up(struct rig *r, uint64_t guid, uint8_t *m)
{
	peer_mad(r, URXE_CM_IN_REJ, m);
	urxe_mad_put(m, URXE_REJ_REMOTE_COMM_ID, 0);
	urxe_mad_put(m, URXE_REJ_REASON, URXE_CM_REJ_TIMEOUT);
	urxe_mad_put(m, URXE_REJ_REJECTED_INFO_LENGTH, 8);
	urxe_put64(urxe_mad_bytes(m, URXE_REJ_ARI), guid);
}

void peer_says(struct rig *r, enum urxe_cm_input in)
{
	uint8_t m[URXE_MAD_LEN];

	peer_mad(r, in, m);
	urxe_cm_recv(r->cm, &r->src, m, sizeof(m));
}

struct urxe_cm_path rig_path(const struct rig *r)
{
	struct urxe_cm_path p = {
		.mtu = IBV_MTU_1024, .hop_limit = 64, .pkey = 0xffff, .port_num = 1};

	p.sgid = r->src.dgid;
	p.dgid = r->src.sgid;
	return p;
}

/* From our other address to the peer's. */
struct urxe_cm_path rig_other_path(const struct rig *r)
{
	struct urxe_cm_path p = rig_path(r);

	memset(p.sgid.raw, 0x33, 16);
	memset(p.dgid.raw, 0x44, 16);
	p.sgid_index = 1;
	return p;
}

int do_call(struct rig *r, enum urxe_cm_input in)
{
	struct urxe_cm_path path = rig_path(r), other = rig_other_path(r);
	struct urxe_cm_req req = {.path = path, .service_id = SERVICE, .qp_type = IBV_QPT_RC};
	struct urxe_cm_conn *c = &req.conn;

	c->qpn = OWN_QPN;
	c->psn = 0x123;
	c->responder_resources = 4;
	c->initiator_depth = 4;
	c->retry_count = 7;
	c->rnr_retry_count = 7;
	switch (in) {
	case URXE_CM_IN_LISTEN:
		return urxe_cm_listen(r->id, SERVICE + 1, UINT64_MAX);
	case URXE_CM_IN_SEND_REQ:
		return urxe_cm_send_req(r->id, &req);
	case URXE_CM_IN_SEND_REP:
		return urxe_cm_send_rep(r->id, c);
	case URXE_CM_IN_SEND_RTU:
		return urxe_cm_send_rtu(r->id, NULL, 0);
	case URXE_CM_IN_SEND_REJ:
		return urxe_cm_send_rej(r->id, URXE_CM_REJ_CONSUMER, NULL, 0, "no", 2);
	case URXE_CM_IN_SEND_MRA:
		return urxe_cm_send_mra(r->id, 20, NULL, 0);
	case URXE_CM_IN_SEND_DREQ:
		return urxe_cm_send_dreq(r->id, NULL, 0);
	case URXE_CM_IN_SEND_DREP:
		return urxe_cm_send_drep(r->id, NULL, 0);
	case URXE_CM_IN_ESTABLISH:
		return urxe_cm_notify_established(r->id);
	case URXE_CM_IN_SEND_SIDR_REQ:
		return urxe_cm_send_sidr_req(r->id, &path, SERVICE, NULL, 0);
	case URXE_CM_IN_SEND_SIDR_REP:
		return urxe_cm_send_sidr_rep(r->id, URXE_CM_SIDR_SUCCESS, OWN_QPN, 1, NULL, 0);
	case URXE_CM_IN_SEND_LAP:
		return urxe_cm_send_lap(r->id, &other, "lap", 3);
	case URXE_CM_IN_SEND_APR:
		return urxe_cm_send_apr(r->id, URXE_CM_APR_SUCCESS, NULL, 0, "apr", 3);
	case URXE_CM_IN_PATH_MIG:
		return urxe_cm_notify_migrated(r->id);
	case URXE_CM_IN_IGNORE:
		return urxe_cm_ignore(r->id);
	case URXE_CM_IN_TELL_AGAIN:
		return urxe_cm_tell_again(r->id);
	default:
		CU_FAIL("no such call");
		return 0;
	}
}

/* How each state is reached: the state before it, and the input that leads on. */
static const struct {
	enum urxe_cm_state from;
	enum urxe_cm_input in;
} way[URXE_CM_N_STATES] = {
	[URXE_CM_LISTEN] = {URXE_CM_IDLE, URXE_CM_IN_LISTEN},
	[URXE_CM_REQ_SENT] = {URXE_CM_IDLE, URXE_CM_IN_SEND_REQ},
	[URXE_CM_REP_WAIT] = {URXE_CM_REQ_SENT, URXE_CM_IN_MRA_REQ},
	[URXE_CM_REP_RCVD] = {URXE_CM_REQ_SENT, URXE_CM_IN_REP},
	[URXE_CM_MRA_REP_SENT] = {URXE_CM_REP_RCVD, URXE_CM_IN_SEND_MRA},
	[URXE_CM_REQ_RCVD] = {URXE_CM_IDLE, URXE_CM_IN_REQ},
	[URXE_CM_MRA_REQ_SENT] = {URXE_CM_REQ_RCVD, URXE_CM_IN_SEND_MRA},
	[URXE_CM_REP_SENT] = {URXE_CM_REQ_RCVD, URXE_CM_IN_SEND_REP},
	[URXE_CM_MRA_REP_RCVD] = {URXE_CM_REP_SENT, URXE_CM_IN_MRA_REP},
	[URXE_CM_ESTABLISHED] = {URXE_CM_REP_SENT, URXE_CM_IN_RTU},
	[URXE_CM_DREQ_SENT] = {URXE_CM_ESTABLISHED, URXE_CM_IN_SEND_DREQ},
	[URXE_CM_DREQ_RCVD] = {URXE_CM_ESTABLISHED, URXE_CM_IN_DREQ},
	[URXE_CM_TIMEWAIT] = {URXE_CM_DREQ_SENT, URXE_CM_IN_DREP},
	[URXE_CM_SIDR_REQ_SENT] = {URXE_CM_IDLE, URXE_CM_IN_SEND_SIDR_REQ},
	[URXE_CM_SIDR_REQ_RCVD] = {URXE_CM_IDLE, URXE_CM_IN_SIDR_REQ},
	/* With no path so far it is the same as ESTABLISHED; so one was turned down before. */
	[URXE_CM_LAP_IDLE] = {URXE_CM_LAP_SENT, URXE_CM_IN_APR},
	[URXE_CM_LAP_SENT] = {URXE_CM_ESTABLISHED, URXE_CM_IN_SEND_LAP},
	[URXE_CM_MRA_LAP_RCVD] = {URXE_CM_LAP_SENT, URXE_CM_IN_MRA_LAP},
	[URXE_CM_LAP_RCVD] = {URXE_CM_ESTABLISHED, URXE_CM_IN_LAP},
	[URXE_CM_MRA_LAP_SENT] = {URXE_CM_LAP_RCVD, URXE_CM_IN_SEND_MRA},
};

void bring_to(struct rig *r, enum urxe_cm_state state)
{
	if (state == URXE_CM_IDLE) {
		r->id = urxe_cm_new_id(r->cm, rig_handler, r);
		return;
	}
	bring_to(r, way[state].from);
	if (way[state].in >= URXE_CM_IN_REQ) {
		/* A REQ makes its own id. */
		if (way[state].from == URXE_CM_IDLE) {
			urxe_cm_destroy(r->id);
			r->id = NULL;
		}
		peer_says(r, way[state].in);
	} else {
		CU_ASSERT_EQUAL(do_call(r, way[state].in), 0);
	}
	CU_ASSERT_EQUAL(row(r->id), state == URXE_CM_LAP_IDLE ? URXE_CM_ESTABLISHED : state);
}

uint16_t sent_attr(const struct rig *r)
{
	return urxe_mad_get16(r->sent, URXE_HDR_ATTR_ID);
}

void wait_ms(struct rig *r, unsigned ms)
{
	for (; ms; ms -= 10) {
		r->now += 10 * 1000000;
		urxe_cm_run(r->cm);
	}
}

void run_out(struct rig *r)
{
	for (unsigned i = 0; i < 200 && !urxe_cm_is_idle(r->cm); i++) {
		r->now += 100 * 1000000;
		urxe_cm_run(r->cm);
	}
}
